"""Rows of a component projected on lines, and where to cut these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from amofa._typing import FloatArray

# Minimum weight of a part: between integers, so that rounding does not decide.
_LEAST_PART = 0.5
# Variances of parts are at least this share of that of the whole, so that ties do not decide everything.
_LEAST_VARIANCE = 1e-4
# The same for several parts, which may be much narrower than the whole.
_LEAST_WITHIN = 1e-10

# Cuts between these shares of the rows are compared with those of a Gaussian; chance raises the best of several by
# about this number times the root of the number of rows.
_LEAST_SHARE = 0.02
_CHANCE = 0.7


class Cuts(NamedTuple):
    """The best cut of each line: gains (m,) in nats over one Gaussian, and thresholds (m,)."""

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
        """Return the best cut of each line for two Gaussians of the same variance, and for two of any variance."""
        total = self.total
        first, second, third = (sums[:, 1:-1] for sums in self.sums)
        moment, square = self.sums[1, :, -1:], self.sums[2, :, -1:]
        variance = square / total - (moment / total) ** 2
        rest = total - first
        possible = (first > _LEAST_PART) & (rest > _LEAST_PART) & (np.diff(self.z, axis=1) > 0) & (variance > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            least = _LEAST_VARIANCE * variance
            below = np.maximum(third / first - (second / first) ** 2, least)
            above = np.maximum((square - third) / rest - ((moment - second) / rest) ** 2, least)
            mixing = first * np.log(first / total) + rest * np.log(rest / total)
            whole = total / 2 * np.log(variance)
            same = whole - total / 2 * np.log((first * below + rest * above) / total) + mixing
            different = whole - first / 2 * np.log(below) - rest / 2 * np.log(above) + mixing
        return self._best(same, possible), self._best(different, possible)

    def excess(self) -> float:
        """Return the largest gain, in nats, of a cut for two Gaussians of one variance over that of a Gaussian there.

        What chance adds to it is about subtracted.
        """
        first, square = self.sums[0, :, 1:-1], self.sums[2, :, -1:] - self.sums[1, :, -1:] ** 2 / self.total
        share = first / self.total
        with np.errstate(divide="ignore", invalid="ignore"):
            between = (self.sums[1, :, 1:-1] - share * self.sums[1, :, -1:]) ** 2 / (self.total * share * (1 - share))
            normal = np.exp(-(ndtri(share) ** 2)) / (2 * np.pi * share * (1 - share))
            found = self.total / 2 * (np.log1p(-normal) - np.log1p(-between / square))
        possible = (share > _LEAST_SHARE) & (share < 1 - _LEAST_SHARE) & (np.diff(self.z, axis=1) > 0)
        return float(np.where(possible, found, -np.inf).max(initial=-np.inf) - _CHANCE * np.sqrt(self.total))

    def _best(self, gains: FloatArray, possible: NDArray[np.bool_]) -> Cuts:
        gains = np.where(possible, gains, -np.inf)
        if gains.shape[1] == 0:
            return Cuts(np.full(len(gains), -np.inf), np.full(len(gains), -np.inf))
        at = np.argmax(gains, axis=1)
        lines = np.arange(len(gains))
        return Cuts(gains[lines, at], self.z[lines, at])

    def parallel_cuts(self, i: int, most_parts: int) -> tuple[float, FloatArray]:
        """Cut line i again and again where that reduces the variance within parts most.

        Returns the gain in nats for Gaussians of one variance, less log N for each part, and the thresholds, for the
        number of parts from 3 on with the largest gain; -inf and none if the line can't be cut so often.
        """
        total, n = self.total, self.z.shape[1]
        whole = float(self.sums[2, i, -1] - self.sums[1, i, -1] ** 2 / total)
        best: tuple[float, list[int]] = -np.inf, []
        pieces, within = [self._best_cut(i, 0, n)], whole
        while len(pieces) < most_parts:
            saved, cut, start, stop = piece = max(pieces)
            if saved <= 0:
                break
            pieces.remove(piece)
            pieces += [self._best_cut(i, start, cut), self._best_cut(i, cut, stop)]
            within -= saved
            counts = np.array([self.sums[0, i, stop] - self.sums[0, i, start] for *_, start, stop in pieces])
            gain = total / 2 * np.log(whole / max(within, _LEAST_WITHIN * whole)) + counts @ np.log(counts / total)
            gain -= len(pieces) * np.log(total)
            if len(pieces) > 2 and gain > best[0]:
                best = float(gain), sorted(start for *_, start, _ in pieces if start > 0)
        return best[0], self.z[i, np.array(best[1], dtype=np.intp) - 1]

    def _best_cut(self, i: int, start: int, stop: int) -> tuple[float, int, int, int]:
        """Return by how much the best cut of a piece reduces the sum of squares, its place, and the piece."""
        counts, moments, _ = self.sums[:, i, start : stop + 1] - self.sums[:, i, start : start + 1]
        first, rest = counts[1:-1], counts[-1] - counts[1:-1]
        possible = (first > _LEAST_PART) & (rest > _LEAST_PART) & (np.diff(self.z[i, start:stop]) > 0)
        if not possible.any():
            return 0.0, stop, start, stop
        with np.errstate(divide="ignore", invalid="ignore"):
            between = moments[1:-1] ** 2 / first + (moments[-1] - moments[1:-1]) ** 2 / rest - moments[-1] ** 2 / counts[-1]
        at = int(np.argmax(np.where(possible, between, 0.0)))
        return float(between[at]), start + at + 1, start, stop
