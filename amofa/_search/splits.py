"""Starts of local splits: the rows of a component divided by planes or an ellipsoid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._em.factor_analysis import Covariance, Spread
from amofa._em.gram import Panel
from amofa._em.profile_likelihood import Problem
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Component, Parameters
from amofa._search.lines import Lines
from amofa._typing import FloatArray

# Maximum number of principal axes for cuts: the leading ones and the last.
_MOST_AXES = 64
# Axes with a smaller share of the largest variance are ignored: with fewer rows than columns, or with columns that
# depend on others, only rounding decides where they point.
_LEAST_AXIS = 1e-12
# Planes through the mean are perpendicular to this many leading axes, and to the last.
_LEADING_AXES = 3
# Whitened rows are too far from each other, the more the fewer they are; each axis needs this many of them.
_ROWS_PER_AXIS = 3
# Parallel planes are looked for on this many lines, those that are least like a Gaussian, and divide the rows into at
# most this many parts.
_MOST_LINES = 3
MOST_PARTS = 6
# On the best line, numbers of parts that gain less than the best by up to this, in nats per row, are tried, too.
_ALMOST = 0.05
# Chance raises the best of several cuts by about this number of nats times the root of the number of rows.
_CHANCE = 0.7
# Parts with less weight have no spread.
_LEAST_PART = 0.5
# Distances with a smaller relative difference are the same: with fewer rows than columns, all are.
_SAME_DISTANCE = 1e-9

# Shared noise of parts takes this number of rounds to follow their factors, and falls to this share at most in each.
_SHARED_ROUNDS, _LEAST_SHARED = 4, 0.1

# The number of its part for each row, from 0.
Labels = NDArray[np.intp]


class Divisions(NamedTuple):
    """Ways to divide the rows."""

    all: list[Labels]  # without duplicates
    across: list[Labels]  # those on which parts look like layers: the best cut, and the plane across the minor axis


class Survey:
    """The rows x (d, n) of a component, which has second moments `spread` about its mean, in several directions.

    Directions are the principal axes, the invariant axes and the columns, since a gap in one of many columns shows on
    no axis.
    """

    def __init__(self, x: FloatArray, weights: FloatArray, mean: FloatArray, spread: Spread) -> None:
        self.weights = weights
        values, vectors = spread.axes()
        used = np.flatnonzero(values > _LEAST_AXIS * values[:1])
        if len(used) > _MOST_AXES:
            used = np.append(used[: _MOST_AXES - 1], used[-1])
        centred = x - mean[:, None]
        self.values, self.principal = values[used], vectors[used] @ centred
        self.n_axes = len(used)
        self.invariant = invariant_axes(self.principal / np.sqrt(self.values[:, None]), weights)
        self.projected = np.concatenate([self.principal, self.invariant, centred])
        self.lines = Lines(self.projected, weights)
        self.same, self.different = self.lines.cuts()

    def evidence_of_groups(self) -> float:
        """Return about the most that several Gaussians could gain over one, in nats; at least 0.

        Weak structure shows in third and fourth moments on the invariant axes, of which the gain of a mixture is at
        most a small multiple; groups apart show in the gain of a cut. What rows of one Gaussian show by chance is
        subtracted.
        """
        total, z = float(self.weights.sum()), self.invariant
        square = z * z
        skewness, kurtosis = (square * z) @ self.weights / total, (square * square) @ self.weights / total - 3
        moments = total * (skewness**2 / 12 + kurtosis**2 / 48).sum() - len(z)
        cut = self.same.gains.max() - _CHANCE * np.sqrt(total)
        return float(max(0.0, 2 * moments, cut, self.different.gains.max()))

    def divisions(self, most_parts: int = MOST_PARTS) -> Divisions:
        """Return ways to divide the rows.

        These are the best cuts across an axis for two Gaussians of the same variance (the two best axes) and of
        different ones (the best axis); the best cut of a column; parallel cuts, on the two lines where these gain most,
        since groups in a line have no good cut in two; planes through the mean across the leading axes and the last
        one, since strips that are longer than they are apart differ in that only; and the inner and outer half of the
        rows, for groups with the same centre.
        """
        if self.n_axes == 0:
            return Divisions([], [])
        n_directions = self.n_axes + len(self.invariant)
        gains, thresholds, z = self.same.gains, self.same.thresholds, self.projected
        masks = [z[i] <= thresholds[i] for i in np.argsort(-gains[:n_directions], kind="stable")[:2]]
        i = int(np.argmax(self.different.gains[:n_directions]))
        masks.append(z[i] <= self.different.thresholds[i])
        i = n_directions + int(np.argmax(gains[n_directions:]))
        masks.append(z[i] <= thresholds[i])
        masks += [line < 0 for line in (*self.principal[:_LEADING_AXES], self.principal[-1])]
        masks.append(_inner_half(self.principal, self.values, self.weights))
        two = [mask.astype(np.intp) for mask in masks]
        several = self._slices(most_parts) if most_parts > 2 else []
        across = [two[0], (self.principal[-1] < 0).astype(np.intp)]
        return Divisions(_without_doubles([*two, *several]), _without_doubles(across))

    def _slices(self, most_parts: int) -> list[Labels]:
        """Divide the rows by parallel planes into three or more parts, on the two lines where that gains most."""
        found = []
        for i in np.argsort(-self.same.gains, kind="stable")[:_MOST_LINES].tolist():
            cuts = self.lines.parallel_cuts(i, most_parts)
            if cuts:
                found.append((-max(gain for gain, _ in cuts), i, cuts))
        found.sort(key=lambda each: each[:2])
        # On the better line, overlapping groups leave open how many parts are best.
        least = _ALMOST * float(self.weights.sum())
        return [
            np.searchsorted(thresholds, self.projected[i])
            for (best, i, cuts), slack in zip(found, (least, 0.0), strict=False)
            for gain, thresholds in cuts
            if gain >= -best - slack
        ]


def invariant_axes(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the scores (q, n) of rows on their invariant axes, the flattest first.

    The scores given are those of the principal axes with variance 1. Invariant axes are the eigenvectors of the second
    moments that weigh rows by their squared distance (Tyler, Critchley, Duembgen & Oja 2009): groups of similar size
    lie apart on the first ones, and small groups lie far from the others on the last ones.
    """
    scores = usable_axes(scores)
    distances = (scores**2).sum(axis=0)
    _, vectors = np.linalg.eigh((scores * (weights * distances)) @ scores.T)
    rotated: FloatArray = vectors.T @ scores
    return rotated


def usable_axes(scores: FloatArray) -> FloatArray:
    """Return the scores (q, n) of rows on as many leading principal axes, with variance 1, as there are rows for.

    On as many axes as rows, all rows would be equally far from each other.
    """
    return scores[: max(1, scores.shape[1] // _ROWS_PER_AXIS)]


def _inner_half(projected: FloatArray, values: FloatArray, weights: FloatArray) -> NDArray[np.bool_]:
    """Return the half of the rows that is nearer to the mean, by Mahalanobis distance."""
    distance = (projected**2 / np.maximum(values, values[0] * 1e-6)[:, None]).sum(axis=0)
    order = np.argsort(distance, kind="stable")
    cumulated = np.cumsum(weights[order])
    middle = order[np.searchsorted(cumulated, cumulated[-1] / 2)]
    inner: NDArray[np.bool_] = distance <= (1 + _SAME_DISTANCE) * distance[middle]
    return inner


def _without_doubles(divided: list[Labels]) -> list[Labels]:
    """Keep one of those that differ in the numbers of the parts only."""
    kept: dict[bytes, Labels] = {}
    for labels in divided:
        first = np.unique(labels, return_index=True)[1]
        rank = np.argsort(np.argsort(first))
        kept.setdefault(rank[np.unique(labels, return_inverse=True)[1]].tobytes(), labels)
    return list(kept.values())


def parts(x: FloatArray, weights: FloatArray, labels: Labels, problem: Problem) -> Parameters | None:
    """Make a component without factors for each part of the rows; return None if one has too few.

    Children that inherit their parent's factors rarely win: those already explain the gap between two groups.
    """
    problem.check()
    floor, noise = problem.prior.floor, problem.noise
    total = float(weights.sum())
    components = []
    for k in range(labels.max() + 1):
        w = np.where(labels == k, weights, 0.0)
        count = float(w.sum())
        if count < _LEAST_PART:
            return None
        mean = x @ w / count
        variances = np.maximum((x - mean[:, None]) ** 2 @ w / count, floor)
        if noise.is_isotropic:
            variances[:] = max(float(variances.mean()), float(floor.max()))
        none = np.zeros((0, len(x)))
        components.append(Component(count / total, mean, none, variances, problem.degrees_of_freedom))
    if noise.is_shared:
        pooled = np.average([c.uniquenesses for c in components], axis=0, weights=[c.weight for c in components])
        components = [c._replace(uniquenesses=pooled) for c in components]
    return Parameters.from_components(components)


def layers(
    x: FloatArray, weights: FloatArray, labels: Labels, problem: Problem, solver: Solver | None, plain: Parameters
) -> Parameters:
    """Give the same components the factors that their parts show.

    Layers that are close together, compared to their extent, overlap for components without factors.
    """
    problem.check()
    counts: list[float] = []
    spreads: list[Spread] = []
    for k in range(plain.n_components):
        part = labels == k
        w = np.where(part, weights, 0.0)
        counts.append(float(w.sum()))
        deviations = (x - plain.means[k][:, None]) * np.sqrt(w / counts[k])
        if solver is None:
            spreads.append(Panel(deviations[:, part].T))
        else:
            spreads.append(Covariance(deviations @ deviations.T, solver))
    noise: list[FloatArray] = list(plain.uniquenesses)
    for _ in range(_SHARED_ROUNDS if problem.noise.is_shared else 1):
        found = [problem.choice.best(n, s, psi, 0) for n, s, psi in zip(counts, spreads, noise, strict=True)]
        if problem.noise.is_shared:
            # What factors leave of the variances becomes the noise of all.
            left = [s.variances - (a.loadings**2).sum(axis=0) for s, a in zip(spreads, found, strict=True)]
            least = np.maximum(problem.prior.floor, _LEAST_SHARED * noise[0])
            noise = [np.maximum(np.average(left, axis=0, weights=counts), least)] * len(counts)
        else:
            noise = [a.uniquenesses for a in found]
    components = zip(plain.components(), found, noise, strict=True)
    return Parameters.from_components([c._replace(loadings=a.loadings, uniquenesses=psi) for c, a, psi in components])
