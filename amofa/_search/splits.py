"""Starts of local splits: the rows of a component divided in two by a plane or an ellipsoid."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._em.driver import go_on
from amofa._em.factor_analysis import Covariance, Spread
from amofa._em.gram import Panel
from amofa._em.profile_likelihood import Problem
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray

# Maximum number of principal axes for cuts: the leading ones and the last.
_MOST_AXES = 64
# Axes with a smaller share of the largest variance are ignored: with fewer rows than columns, or with columns that
# depend on others, only rounding decides where they point.
_LEAST_AXIS = 1e-12
# Planes through the mean are perpendicular to this many leading axes, and to the last.
_LEADING_AXES = 3
# Minimum number of rows of a part: between integers, so that rounding does not decide.
_LEAST_PART = 2.5
# Distances with a smaller relative difference are the same: with fewer rows than columns, all are.
_SAME_DISTANCE = 1e-9
# Variances of parts are at least this share of that of the whole, so that ties do not decide everything.
_LEAST_VARIANCE = 1e-4

Mask = NDArray[np.bool_]


class Masks(NamedTuple):
    """Ways to divide the rows in two."""

    all: list[Mask]  # without duplicates
    across: list[Mask]  # those on which parts look like layers: the best cut, and the plane across the minor axis


def split_masks(
    x: FloatArray, weights: FloatArray, mean: FloatArray, spread: Spread, check: Callable[[], None] = go_on
) -> Masks:
    """Return ways to divide the rows x (d, n) of a component in two, as masks (n,) of bool.

    These are the best cuts across an axis for two Gaussians of the same variance (the two best axes) and of different
    ones (the best axis); the best cut of a column; planes through the mean across the leading axes and the last one,
    since strips that are longer than they are apart differ in that only; and the inner and outer half of the rows, for
    groups with the same centre. `spread` has the second moments about the mean, and `check` raises an exception if the
    search must stop.
    """
    values, vectors = spread.axes()
    used = np.flatnonzero(values > _LEAST_AXIS * values[:1])
    if len(used) == 0:
        return Masks([], [])
    if len(used) > _MOST_AXES:
        used = np.append(used[: _MOST_AXES - 1], used[-1])
    projected = vectors[used] @ (x - mean[:, None])
    same, different = np.array([_cut_gains(z, weights, check) for z in projected]).transpose(1, 2, 0)
    # A gap in one of many columns does not need to show on any axis.
    columns = np.array([_cut_gains(z, weights, check)[0] for z in x]).T
    masks = [projected[i] <= same[1, i] for i in np.argsort(-same[0], kind="stable")[:2]]
    i = int(np.argmax(different[0]))
    masks.append(projected[i] <= different[1, i])
    j = int(np.argmax(columns[0]))
    masks.append(x[j] <= columns[1, j])
    masks += [z < 0 for z in (*projected[:_LEADING_AXES], projected[-1])]
    masks.append(_inner_half(projected, values[used], weights))
    return Masks(_without_doubles(masks), _without_doubles([masks[0], projected[-1] < 0]))


def _cut_gains(
    z: FloatArray, weights: FloatArray, check: Callable[[], None] = go_on
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Find the best cut of a line for two Gaussians of one variance, and of two; return (gain in nats, threshold)."""
    check()
    order = np.argsort(z, kind="stable")
    z, w = z[order], weights[order]
    total = w.sum()
    first, second = np.cumsum(w)[:-1], np.cumsum(w * z)[:-1]
    third = np.cumsum(w * z * z)
    square, third = third[-1], third[:-1]
    moment = float(w @ z)
    variance = square / total - (moment / total) ** 2
    rest = total - first
    possible = (first >= _LEAST_PART) & (rest >= _LEAST_PART) & (np.diff(z) > 0)
    if not (possible.any() and variance > 0):
        return (-np.inf, -np.inf), (-np.inf, -np.inf)
    first, rest, second, third = first[possible], rest[possible], second[possible], third[possible]
    least = _LEAST_VARIANCE * variance
    below = np.maximum(third / first - (second / first) ** 2, least)
    above = np.maximum((square - third) / rest - ((moment - second) / rest) ** 2, least)
    mixing = first * np.log(first / total) + rest * np.log(rest / total)
    whole = total / 2 * np.log(variance)
    same = whole - total / 2 * np.log((first * below + rest * above) / total) + mixing
    different = whole - first / 2 * np.log(below) - rest / 2 * np.log(above) + mixing
    thresholds = z[:-1][possible]
    i, j = int(np.argmax(same)), int(np.argmax(different))
    return (float(same[i]), float(thresholds[i])), (float(different[j]), float(thresholds[j]))


def _inner_half(projected: FloatArray, values: FloatArray, weights: FloatArray) -> Mask:
    """Return the half of the rows that is nearer to the mean, by Mahalanobis distance."""
    distance = (projected**2 / np.maximum(values, values[0] * 1e-6)[:, None]).sum(axis=0)
    order = np.argsort(distance, kind="stable")
    cumulated = np.cumsum(weights[order])
    middle = order[np.searchsorted(cumulated, cumulated[-1] / 2)]
    inner: Mask = distance <= (1 + _SAME_DISTANCE) * distance[middle]
    return inner


def _without_doubles(masks: list[Mask]) -> list[Mask]:
    kept: list[Mask] = []
    for mask in masks:
        if not any(np.array_equal(mask, other) or np.array_equal(mask, ~other) for other in kept):
            kept.append(mask)
    return kept


def parts(x: FloatArray, weights: FloatArray, mask: Mask, problem: Problem) -> Parameters | None:
    """Make two components without factors, one for each part of the rows; return None if one has too few.

    Children that inherit their parent's factors rarely win: those already explain the gap between two groups.
    """
    problem.check()
    floor, noise = problem.prior.floor, problem.noise
    total = float(weights.sum())
    components = []
    for part in (mask, ~mask):
        w = np.where(part, weights, 0.0)
        count = float(w.sum())
        if count < _LEAST_PART:
            return None
        mean = x @ w / count
        variances = np.maximum((x - mean[:, None]) ** 2 @ w / count, floor)
        if noise.is_isotropic:
            variances[:] = max(float(variances.mean()), float(floor.max()))
        components.append(Component(count / total, mean, np.zeros((0, len(x))), variances))
    if noise.is_shared:
        pooled = np.average([c.uniquenesses for c in components], axis=0, weights=[c.weight for c in components])
        components = [c._replace(uniquenesses=pooled) for c in components]
    return Parameters.from_components(components)


def layers(
    x: FloatArray, weights: FloatArray, mask: Mask, problem: Problem, solver: Solver | None, plain: Parameters
) -> Parameters:
    """Give the same two components the factors that their parts show.

    Layers that are close together, compared to their extent, overlap for components without factors.
    """
    problem.check()
    components = []
    for part, component in zip((mask, ~mask), plain.components(), strict=True):
        w = np.where(part, weights, 0.0)
        count = float(w.sum())
        deviations = (x - component.mean[:, None]) * np.sqrt(w / count)
        spread = Panel(deviations[:, part].T) if solver is None else Covariance(deviations @ deviations.T, solver)
        best = problem.choice.best(count, spread, component.uniquenesses, 0)
        components.append(component._replace(loadings=best.loadings, uniquenesses=best.uniquenesses))
    return Parameters.from_components(components)
