"""Kinds of columns that are far from any mixture of a few normal distributions, found from their distinct values.

The kind of a column does not change with its unit, its origin or its sign, nor with the order of the rows.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from amofa._data.skewness import is_skewed
from amofa._typing import FloatArray

# A column has few values up to this number, which a normal column that is rounded to its standard deviation exceeds,
# but for chance, if there are this many rows for each. Nothing is said of fewer rows in all than the third number.
_FEW_VALUES, _ROWS_PER_VALUE = 4, 20.0
_LEAST_ROWS = 40.0
# Up to this number of values are few, too, if they end where the tail of a normal column would go on, as answers on a
# scale do. The share of rows in a tail falls from value to value, and so does its ratio: by this factor where steps are
# a standard deviation wide. Beyond the end, this many rows are to be expected, and there is none.
_MOST_ON_A_SCALE, _TAIL_FALLS, _LEAST_BEYOND = 10, float(np.exp(-1)), 8.0
# A spike is a value with this share of the rows or more, and with this many times the rows of the third most frequent
# value: the second may be a spike, too, as of values that are cut off on both sides.
_SPIKE_SHARE, _SPIKE_RATIO = 0.05, 5.0
# An index takes equal steps, but for rounding in single precision, through all rows.
_SAME_STEP = 1e-3
# Logarithms and roots of small counts have this many values in succession, each with at least this share of the rows
# and this number of them, whose gaps become narrower from one to the next by this factor (of counts of 30) or less.
_UNEVEN, _UNEVEN_SHARE, _UNEVEN_ROWS, _NARROWER = 5, 0.01, 5.0, 0.97


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
    return Kind.SKEWED if is_skewed(values, weights) else None


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
    return bool((ends**2 / next_to * _TAIL_FALLS >= _LEAST_BEYOND).any())
