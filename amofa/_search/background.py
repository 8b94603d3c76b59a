"""Backgrounds beside the components: their densities, and the components that a background may replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._background import Background, BackgroundDensity, Kind
from amofa._data.row_chunks import PosteriorBlock, Samples
from amofa._data.row_source import RowSource
from amofa._em.profile_likelihood import MOST_BACKGROUND, Problem, log_determinant
from amofa._parameters import Parameters
from amofa._typing import FloatArray

# The scales of a heavy background are half the distances of these quantiles: standard deviations of normal columns.
_QUANTILES = 0.16, 0.5, 0.84
# Shares of the total weight are compared up to rounding.
_ROUNDING = 1e-12
# The inner box of a nested background has the rows of which no cell is farther from the centre, in units of the column.
_REACH = 6.0
# Its sides have at least so many units: a group is no wider.
_LEAST_SIDE = 2.0
# A background replaces components that are wider than the others by this factor, which are no group: the geometric mean
# of their standard deviations in all directions. Of fewer than the second number of rows, a component may be narrow.
_WIDER, _FEW = 2.0, 3.5
# A background begins with at least this share of a row.
_LEAST_ROWS = 0.5
_MOST_STEPS = 50
# Weight of a background beside a given start that has none.
FIRST_WEIGHT = 0.05


def density_of(kind: Kind, samples: RowSource, steps: FloatArray) -> BackgroundDensity | None:
    """Return the density of a background of these rows; None for a nested one without rows outside the inner box.

    `steps` (d,) are those of rounded columns, or 0: a box reaches half a step beyond the rows, as their values do. A
    heavy tail has the medians of the columns as its centre.
    """
    if kind != Kind.HEAVY:
        boxes = samples.reduce(_boxes, _around)[: 2 if kind == Kind.NESTED else 1]
        if kind == Kind.NESTED and not (
            (boxes[0] != boxes[1]).any() and (np.ptp(boxes[1], axis=0) >= _LEAST_SIDE).all()
        ):
            return None
        # The range of N uniform numbers is (N - 1) / (N + 1) of the side, on average.
        sides = (boxes[:, 1] - boxes[:, 0]) * (samples.row_count + 1) / max(samples.row_count - 1, 1.0)
        center, scale = boxes.mean(axis=1), sides + steps
        return BackgroundDensity(kind, center, scale, np.full(len(boxes), 1 / len(boxes)))
    held = samples.thinned()
    chunks = [(x, np.ones(x.shape[1]) if w is None else w) for x, w in held.chunks()]
    x, weights = np.concatenate([x for x, _ in chunks], axis=1), np.concatenate([w for _, w in chunks])
    low, center, high = np.array([_quantiles(column, weights) for column in x]).T
    # Columns are in units of their own scales, also those of which more than two thirds of the cells are the same.
    scale = np.where(high > low, (high - low) / 2, 1.0)
    return BackgroundDensity.of_one(kind, center, scale, degrees_of_freedom=1.0)


def _boxes(x: FloatArray, w: FloatArray | None) -> FloatArray:
    """Return boxes (2, 2, d), lower and upper bounds, around rows x (d, n) and around those without far cells."""
    # Missing cells are not far.
    inside = ~(np.abs(x) > _REACH).any(axis=0)
    return np.stack([_box(x), _box(x[:, inside])])


def _box(x: FloatArray) -> FloatArray:
    return np.stack([np.fmin.reduce(x, axis=1, initial=np.inf), np.fmax.reduce(x, axis=1, initial=-np.inf)])


def _around(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the boxes (2, 2, d) around those of two sets of rows."""
    return np.stack([np.fmin(a[:, 0], b[:, 0]), np.fmax(a[:, 1], b[:, 1])], axis=1)


def _quantiles(values: FloatArray, weights: FloatArray) -> list[float]:
    """Return quantiles of weighted values, which turn over with the values; NaN is missing."""
    seen = ~np.isnan(values)
    values, weights = values[seen], weights[seen]
    order = np.argsort(values, kind="stable")
    ordered, below = values[order], np.cumsum(weights[order])
    above = np.cumsum(weights[order][::-1])

    def from_below(level: float) -> float:
        return float(ordered[np.searchsorted(below, level * below[-1] * (1 - _ROUNDING))])

    def from_above(level: float) -> float:
        return float(ordered[-1 - np.searchsorted(above, level * above[-1] * (1 - _ROUNDING))])

    low, middle, high = _QUANTILES
    return [from_below(low), from_below(middle) / 2 + from_above(1 - middle) / 2, from_above(1 - high)]


class Reduced(NamedTuple):
    """A mixture in which a background takes the place of some components, none of them refitted."""

    parameters: Parameters
    cost: float  # nats, up to a constant


class Rows:
    """Log densities of rows under the components of a mixture and beside it, to compare what components are worth.

    Parameters
    ----------
    samples : Samples
    parameters : Parameters
        With a background, or without one.
    problem : Problem
        With the density of the background.
    """

    def __init__(self, samples: Samples, parameters: Parameters, problem: Problem) -> None:
        density = problem.background
        assert density is not None
        self.parameters, self.problem, self.density = parameters, problem, density
        self.total_weight = samples.total_weight
        self.weights = np.ones(samples.n_rows) if samples.weights is None else samples.weights
        plain = parameters.with_background(None)
        self.shares = np.empty((parameters.n_components, samples.n_rows))
        self.log_density = np.empty(samples.n_rows)

        def put(block: PosteriorBlock) -> None:
            self.shares[:, block.rows], self.log_density[block.rows] = block.responsibilities, block.log_density

        samples.over_posterior(plain, put)
        beside = samples.background_of(parameters.with_background(Background(density, MOST_BACKGROUND)))
        assert beside is not None
        self.background = beside

    def without(self, components: Sequence[int]) -> Reduced:
        """Return the mixture without some components; the weight of the background is the best for the others."""
        parameters = self.parameters
        kept = [k for k in range(parameters.n_components) if k not in components]
        remaining = Parameters.from_components([parameters.component(k) for k in kept])
        with np.errstate(divide="ignore"):
            log_density = self.log_density + np.log(self.shares[kept].sum(axis=0))
        log_density -= np.log(parameters.weights[kept].sum())
        weight = max(self._best_weight(log_density), _LEAST_ROWS / self.total_weight)
        remaining.background = Background(self.density, min(weight, MOST_BACKGROUND))
        weight = remaining.background_weight
        densities = np.logaddexp(np.log1p(-weight) + log_density, np.log(weight) + self.background)
        return Reduced(remaining, self._price(remaining) - float(densities @ self.weights))

    def _price(self, parameters: Parameters) -> float:
        problem = self.problem
        counts = parameters.weights * (self.total_weight * (1.0 - parameters.background_weight))
        determinants = [log_determinant(c.loadings, c.uniquenesses) for c in parameters.components()]
        shapes = list(zip(counts.tolist(), parameters.n_factors, determinants, strict=True))
        return problem.pricing.mixture(shapes, 1) + problem.prior.cost(parameters.uniquenesses, problem.noise)

    def _best_weight(self, log_density: FloatArray) -> float:
        """Return the weight of the background with the largest likelihood, by Newton's method on a concave function."""
        with np.errstate(invalid="ignore"):
            odds = np.nan_to_num(self.background - log_density, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        small = np.exp(-np.abs(odds))
        rises = odds > 0
        low, high, weight = 0.0, MOST_BACKGROUND, 0.5 * MOST_BACKGROUND
        for _ in range(_MOST_STEPS):
            # (b - f) / ((1 - weight) f + weight b), with the larger of the two densities divided out.
            parts = np.where(rises, 1.0 - small, small - 1.0)
            parts /= np.where(rises, (1.0 - weight) * small + weight, 1.0 - weight + weight * small)
            slope = float(parts @ self.weights)
            low, high = (weight, high) if slope > 0 else (low, weight)
            curvature = float(parts**2 @ self.weights)
            step = slope / curvature if curvature > 0 else 0.0
            before, weight = weight, weight + step
            if not low < weight < high:
                weight = (low + high) / 2
            if abs(weight - before) * self.total_weight < _LEAST_ROWS / 10:
                break
        return weight

    def scattered(self) -> list[int]:
        """Return the components that a background may replace.

        Those are the ones first whose rows are least worth their component beside the background.
        """
        counts, sizes = self.counts(), self.sizes()
        is_group = counts >= _FEW
        found = []
        for k in self._order().tolist():
            others = is_group & (np.arange(len(counts)) != k)
            if not others.any():
                continue
            is_wide = sizes[k] > np.average(sizes[others], weights=counts[others]) + 2 * np.log(_WIDER)
            if is_wide or not is_group[k]:
                found.append(k)
        return found

    def counts(self) -> FloatArray:
        return self.parameters.weights * (self.total_weight * (1.0 - self.parameters.background_weight))

    def sizes(self) -> FloatArray:
        """Return the means over all directions of the log variances of the components, (K,)."""
        determinants = [log_determinant(c.loadings, c.uniquenesses) for c in self.parameters.components()]
        return np.array(determinants) / self.parameters.n_features

    def _order(self) -> NDArray[np.intp]:
        h = self.shares * self.weights
        counts = h.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_joint = np.log(self.shares) + self.log_density
            gains = np.where(h > 0, h * (log_joint - self.background), 0.0).sum(axis=1)
        gains = np.divide(gains, counts, out=np.zeros_like(gains), where=counts > 0)
        return np.argsort(gains - np.log(self.parameters.weights), kind="stable")


def beside_background(samples: Samples, parameters: Parameters, problem: Problem) -> Parameters:
    """Return a mixture with a background, without the components whose removal then costs least.

    They go one after the other, in the order of their mean log densities over that of the background.
    """
    rows = Rows(samples, parameters, problem)
    order = rows.scattered()
    n_allowed = int(np.count_nonzero(np.cumsum(parameters.weights[order]) <= MOST_BACKGROUND))
    return min((rows.without(order[:m]) for m in range(n_allowed + 1)), key=lambda reduced: reduced.cost).parameters


class Drop(NamedTuple):
    """A component that the background may replace."""

    component: int
    parameters: Parameters  # without it
    excess: float  # increase of the cost in nats, before EM


def drops(samples: Samples, parameters: Parameters, problem: Problem) -> list[Drop]:
    """Return the components that the background may replace by increasing excess."""
    rows = Rows(samples, parameters, problem)
    cost = rows.without([]).cost
    found = [(k, rows.without([k])) for k in rows.scattered()]
    return sorted((Drop(k, each.parameters, each.cost - cost) for k, each in found), key=lambda drop: drop.excess)
