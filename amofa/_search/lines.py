"""Rows of a component projected on lines, and where to cut these."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._kernels._lines import best_cut, moved_cuts
from amofa._typing import FloatArray

# Minimum weight of a part: between integers, so that rounding does not decide.
_LEAST_PART = 0.5
# Variances of parts are at least this share of that of the whole, so that ties do not decide everything.
_LEAST_VARIANCE = 1e-4
# The same for several parts, which may be much narrower than the whole.
_LEAST_WITHIN = 1e-10
# Parallel cuts are moved so many times at most, after each further one.
_MOST_MOVES = 20


class Cuts(NamedTuple):
    """The best cut of each line: gains (m,) in nats, and thresholds (m,)."""

    gains: FloatArray
    thresholds: FloatArray


class Lines:
    """The coordinates z (m, n) of rows with weights (n,) on m lines; each line has mean 0."""

    def __init__(self, z: FloatArray, weights: FloatArray) -> None:
        m, n = z.shape
        order = np.argsort(z, axis=1, kind="stable")
        self.z: FloatArray = np.take_along_axis(z, order, axis=1)
        w = weights[order]
        self.total = float(weights.sum())
        # Of weights, moments and squares, of the rows before each place.
        self.sums = np.zeros((3, m, n + 1))
        for sums, values in zip(self.sums, (w, w * self.z, w * self.z * self.z), strict=True):
            np.cumsum(values, axis=1, out=sums[:, 1:])

    def cuts(self) -> tuple[Cuts, Cuts]:
        """Return the best cut of each line for two Gaussians of the same variance, and for two of any variance.

        The gain of the former is that over the same cut of a Gaussian: otherwise the best cut of a line without a gap
        would take off a single row.
        """
        # Imported late, since that takes as long as importing NumPy.
        from scipy.special import ndtri

        total = self.total
        first, second, third = (sums[:, 1:-1] for sums in self.sums)
        moment, square = self.sums[1, :, -1:], self.sums[2, :, -1:]
        variance = square / total - (moment / total) ** 2
        rest, share = total - first, first / total
        possible = (first > _LEAST_PART) & (rest > _LEAST_PART) & (np.diff(self.z, axis=1) > 0) & (variance > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            least = _LEAST_VARIANCE * variance
            below = np.maximum(third / first - (second / first) ** 2, least)
            above = np.maximum((square - third) / rest - ((moment - second) / rest) ** 2, least)
            between = np.exp(-(ndtri(share) ** 2)) / (2 * np.pi * share * (1 - share))
            same = total / 2 * (np.log(variance) - np.log(share * below + (1 - share) * above) + np.log1p(-between))
            mixing = first * np.log(share) + rest * np.log(1 - share)
            different = mixing + total / 2 * np.log(variance) - first / 2 * np.log(below) - rest / 2 * np.log(above)
        return self._best(same, possible), self._best(different, possible)

    def _best(self, gains: FloatArray, possible: NDArray[np.bool_]) -> Cuts:
        gains = np.where(possible, gains, -np.inf)
        if gains.shape[1] == 0:
            return Cuts(np.full(len(gains), -np.inf), np.full(len(gains), -np.inf))
        at = np.argmax(gains, axis=1)
        lines = np.arange(len(gains))
        return Cuts(gains[lines, at], self.z[lines, at])

    def parallel_cuts(self, i: int, most_parts: int) -> list[tuple[float, FloatArray]]:
        """Cut line i again and again where that reduces the variance within parts most, and move the cuts each time.

        Returns the gain in nats for Gaussians of one variance, less log N for each part, and the thresholds, for three
        parts, four, and so on, as far as the line can be cut.
        """
        total, sums = self.total, self.sums[:, i]
        counts, moments, squares = sums
        whole = float(squares[-1] - moments[-1] ** 2 / total)
        found = []
        bounds = [0, self.z.shape[1]]
        while len(bounds) <= most_parts:
            pieces = pairwise(bounds)
            saved, cut = max(best_cut(self.z[i], counts, moments, *piece, _LEAST_PART) for piece in pieces)
            if saved <= 0:
                break
            bounds = sorted([*bounds, cut])
            places = np.array(bounds)
            # The first of many cuts may go through a group.
            moved_cuts(self.z[i], counts, moments, places, _LEAST_PART, _MOST_MOVES)
            bounds = places.tolist()
            n, sums_of_parts, squares_of_parts = np.diff(sums[:, bounds])
            within = max(float((squares_of_parts - sums_of_parts**2 / n).sum()), _LEAST_WITHIN * whole)
            gain = total / 2 * np.log(whole / within) + n @ np.log(n / total) - len(n) * np.log(total)
            found.append((float(gain), self.z[i, places[1:-1] - 1]))
        return found[1:]
