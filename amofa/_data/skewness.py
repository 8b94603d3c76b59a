"""Skewness of a column: a transformed normal distribution describes it better than up to three normal ones."""

from __future__ import annotations

import numpy as np

from amofa._typing import FloatArray

# Columns are asked if the long side of the median is this many times as long as the short one, up to the quantiles with
# the second share of the rows beyond: 2.2 times for a gamma distribution of shape 2, 3.3 for an exponential one, 4.6
# for the exponential of a normal one.
_LONG, _BEYOND = 1.8, 1 / 16
# A power of 0 is the logarithm. The cube root makes exponential and gamma columns nearly normal (Wilson and Hilferty
# 1931). Values are counted from the least one, which lies at these shares of its distance from the median.
_POWERS, _ORIGINS = (0.0, 1 / 3), (0.01, 0.1, 0.5)
# What a mixture of normal distributions must cost more, by BIC, in nats. Of columns of 100 rows, 98 % and more of
# log-normal (sigma 1) and exponential ones are found, and half of those with half of that sigma, of 400 rows 95 %; of
# mixtures of up to 6 normal distributions of very different widths, .5 % and less.
_MARGIN = 6.0
# EM starts from parts cut at these shares of the rows. More starts find the same columns.
_CUTS = ((0.7,), (0.5, 0.85))
_MOST_ITERATIONS, _TOLERANCE = 100, 0.01
# EM works on no more than this number of values: means of rows that follow each other.
_MOST_VALUES = 200
# A variance is at least this share of the column's, and such that a component on one of rounded values is no denser
# than a cell; a component has more than this number of rows.
_LEAST_VARIANCE, _LEAST_ROWS = 1e-6, 2.0


def is_skewed(values: FloatArray, weights: FloatArray) -> bool:
    """Return whether a column, given by its distinct values in ascending order, is skewed to either side."""
    return _is_skewed_upwards(values, weights) or _is_skewed_upwards(-values[::-1], weights[::-1])


def root_is_normal(values: FloatArray, weights: FloatArray) -> bool:
    """Return whether cube roots of positive values are nearer to a normal distribution than their logarithms are."""
    logarithm, root = (_transformed_cost(values, weights, power) for power in _POWERS)
    return root < logarithm


def best_origin(values: FloatArray, weights: FloatArray) -> tuple[float, bool]:
    """Return a number below all values, and whether to take cube roots of the distances from it, not logarithms.

    Of a column that is skewed upwards, these are then nearest to a normal distribution.
    """
    median = values[np.searchsorted(np.cumsum(weights), weights.sum() / 2)]
    unit = median - values[0]
    costs = _costs_of_distances((values - values[0]) / unit, weights)
    power, origin = min(costs, key=lambda each: costs[each])
    return float(values[0] - origin * unit), power > 0


def _is_skewed_upwards(values: FloatArray, weights: FloatArray) -> bool:
    below = np.cumsum(weights)
    shares = np.array([_BEYOND, 0.5, 1 - _BEYOND])
    low, median, high = values[np.minimum(np.searchsorted(below, shares * below[-1]), len(values) - 1)]
    if high - median <= _LONG * (median - low) or median <= values[0]:
        return False
    x = (values - values[0]) / (median - values[0])
    least = np.diff(x).min() ** 2 / (2 * np.pi)
    x, w = _means(x, weights)
    log_n = np.log(below[-1])
    bound = min(_costs_of_distances(x - x[0], w).values()) + 1.5 * log_n + _MARGIN
    if _normal_cost(x, w) + log_n < bound:
        return False
    return all(_mixture_cost(x, w, cuts, least, bound) >= bound for cuts in _CUTS)


def _means(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means of values that follow each other, in parts of about equal weight, and the weights of the parts."""
    if len(values) <= _MOST_VALUES:
        return values, weights
    below = np.cumsum(weights)
    starts = np.unique(np.r_[0, np.searchsorted(below, below[-1] * np.arange(1, _MOST_VALUES) / _MOST_VALUES)])
    sums = np.add.reduceat(weights, starts)
    return np.add.reduceat(weights * values, starts) / sums, sums


def _normal_cost(x: FloatArray, w: FloatArray) -> float:
    """Return minus the log-likelihood of a normal distribution at its maximum, up to n (1 + log 2 pi) / 2."""
    n = w.sum()
    return float(0.5 * n * np.log(w @ (x - w @ x / n) ** 2 / n))


def _transformed_cost(x: FloatArray, w: FloatArray, power: float) -> float:
    """Return the same for powers of the values (Box and Cox 1964)."""
    logarithms = np.log(x)
    z = x**power / power if power else logarithms
    return _normal_cost(z, w) - (power - 1) * float(w @ logarithms)


def _costs_of_distances(distances: FloatArray, w: FloatArray) -> dict[tuple[float, float], float]:
    """Return what powers of the distances from the least value cost, by power and by what is added to the distances."""
    return {
        (power, origin): _transformed_cost(distances + origin, w, power) for power in _POWERS for origin in _ORIGINS
    }


def _mixture_cost(x: FloatArray, w: FloatArray, cuts: tuple[float, ...], least: float, bound: float) -> float:
    """Return what a mixture of normal distributions costs by BIC, after EM; EM stops where that is below the bound.

    No variance is less than `least`.
    """
    n, n_components = w.sum(), len(cuts) + 1
    log_prior = 0.5 * (3 * n_components - 1) * np.log(n) - 0.5 * n
    least = max(least, _LEAST_VARIANCE * (w @ (x - w @ x / n) ** 2 / n))
    resp = np.eye(n_components)[np.searchsorted(cuts, np.cumsum(w) / n)]
    cost = np.inf
    for _ in range(_MOST_ITERATIONS):
        weighted = w[:, None] * resp
        counts = weighted.sum(axis=0)
        if (counts <= _LEAST_ROWS).any():
            return np.inf
        means = x @ weighted / counts
        variances = np.maximum((x * x) @ weighted / counts - means**2, least)
        joint = np.log(counts / n) - 0.5 * (np.log(variances) + (x[:, None] - means) ** 2 / variances)
        top = joint.max(axis=1)
        resp = np.exp(joint - top[:, None])
        totals = resp.sum(axis=1)
        resp /= totals[:, None]
        before, cost = cost, float(log_prior - w @ (top + np.log(totals)))
        if cost < bound or before - cost < _TOLERANCE:
            break
    return cost
