"""Kinds of columns that are far from any mixture of a few normal distributions, found from their distinct values.

The kind of a column does not change with its unit, its origin or its sign, nor with the order of the rows.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from amofa._typing import FloatArray

# A column has few values up to this number, which a normal column that is rounded to its standard deviation exceeds,
# but for chance, if there are this many rows for each. Nothing is said of fewer rows in all than the third number.
_FEW_VALUES, _ROWS_PER_VALUE = 4, 20.0
_LEAST_ROWS = 40.0
# Up to this number of values are few, too, if they end where the tail of a normal column would go on, as answers on a
# scale do. The share of rows in a tail falls from value to value, and so does its ratio: by this factor where steps are
# a standard deviation wide. Beyond the end, as many rows are to be expected as for a value.
_MOST_ON_A_SCALE, _TAIL_FALLS = 10, float(np.exp(-1))
# A spike is a value with this share of the rows or more, and with this many times the rows of the third most frequent
# value: the second may be a spike, too, as of values that are cut off on both sides.
_SPIKE_SHARE, _SPIKE_RATIO = 0.05, 5.0
# An index takes equal steps, but for rounding in single precision, through all rows.
_SAME_STEP = 1e-3
# Logarithms and roots of small counts have this many values in succession, each with at least this share of the rows
# and this number of them, whose gaps become narrower from one to the next by this factor (of counts of 30) or less.
_UNEVEN, _UNEVEN_SHARE, _UNEVEN_ROWS, _NARROWER = 5, 0.01, 5.0, 0.97
# Skewness is judged at quantiles of these shares of the rows beyond; the last needs this many rows beyond it.
_TAILS = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
_LEAST_BEYOND = 8.0
# The long side of a skewed column is this many times as long as the short one, up to the last quantiles: 4.2 for an
# exponential column, 6.4 for the exponential of a normal one. From each quantile to the next it is at least the first
# of these shares as far as before, as in one long tail, and at most the second one, as there are gaps between groups.
# Of 12,000 columns drawn from mixtures of up to 6 normal distributions of very different widths, 0.3 % are like that.
_SKEWED, _TAIL_STEPS = 4.5, (0.85, 3.0)
_LEAST_STEPS = 3


class Kind(Enum):
    """What a column is like, with the words for it."""

    TWO_VALUES = "two values"
    FEW_VALUES = "few values"
    INDEX = "index"
    SPIKE = "spike"
    UNEVEN = "unequal steps"
    SKEWED = "skewed"


def kind_of(values: FloatArray, weights: FloatArray) -> Kind | None:
    """Return the kind of a column from its distinct values, sorted, with weights; None if it is ordinary."""
    n, total = len(values), float(weights.sum())
    if n <= 1 or total < _LEAST_ROWS:
        return None
    if n == 2:
        return Kind.TWO_VALUES
    if n <= _FEW_VALUES:
        return Kind.FEW_VALUES if total >= _ROWS_PER_VALUE * n else None
    if _is_index(values, weights):
        return Kind.INDEX
    third, _, first = np.partition(weights, [n - 3, n - 2, n - 1])[n - 3 :]
    if first >= _SPIKE_SHARE * total and first >= _SPIKE_RATIO * third:
        return Kind.SPIKE
    if _has_unequal_steps(values, weights):
        return Kind.UNEVEN
    if n <= _MOST_ON_A_SCALE and _ends_early(weights):
        return Kind.FEW_VALUES
    return Kind.SKEWED if _is_skewed(values, np.cumsum(weights)) else None


def _is_index(values: FloatArray, weights: FloatArray) -> bool:
    if len(values) < _LEAST_ROWS or weights.min() < weights.max():
        return False
    step = (values[-1] - values[0]) / (len(values) - 1)
    return bool(np.abs(np.diff(values) / step - 1).max() <= _SAME_STEP)


def _has_unequal_steps(values: FloatArray, weights: FloatArray) -> bool:
    """Return whether frequent values follow each other in narrower and narrower steps, upwards or downwards."""
    if len(values) < _UNEVEN:
        return False
    are_frequent = weights >= max(_UNEVEN_ROWS, _UNEVEN_SHARE * weights.sum())
    steps = np.diff(values)
    runs = sliding_window_view(are_frequent, _UNEVEN).all(axis=1)
    upwards = sliding_window_view(steps[1:] <= _NARROWER * steps[:-1], _UNEVEN - 2).all(axis=1)
    downwards = sliding_window_view(steps[:-1] <= _NARROWER * steps[1:], _UNEVEN - 2).all(axis=1)
    return bool((runs & (upwards | downwards)).any())


def _ends_early(weights: FloatArray) -> bool:
    """Return whether a tail of a normal column would have many rows beyond the first or the last value."""
    ends, next_to = weights[[0, -1]], weights[[1, -2]]
    return bool((ends**2 / next_to * _TAIL_FALLS >= _ROWS_PER_VALUE).any())


def _is_skewed(values: FloatArray, below: FloatArray) -> bool:
    """Return whether one tail is long without a gap; `below` are sums of the weights up to each value."""
    total = below[-1]
    shares = np.array([share for share in _TAILS if share * total >= _LEAST_BEYOND])
    last = len(values) - 1
    low = values[np.minimum(np.searchsorted(below, shares * total), last)]
    high = values[np.minimum(np.searchsorted(below, (1 - shares) * total), last)]
    return _has_long_tail(np.diff(high), low[0] - low[-1]) or _has_long_tail(-np.diff(low), high[-1] - high[0])


def _has_long_tail(steps: FloatArray, other: float) -> bool:
    """Return whether the steps from quantile to quantile are those of a long tail; `other` is the other's length."""
    least, most = _TAIL_STEPS
    if len(steps) < _LEAST_STEPS or not (steps > 0).all() or steps.sum() < _SKEWED * other:
        return False
    ratios = steps[1:] / steps[:-1]
    return bool(((ratios >= least) & (ratios <= most)).all())
