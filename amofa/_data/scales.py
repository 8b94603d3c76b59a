"""Scales of columns that hang neither on a far row nor on a far group: the body, the narrowest part, the step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from amofa._data.column_kinds import Kind, kind_of
from amofa._data.row_source import RowSource
from amofa._typing import FloatArray

# The body of a column reaches this many interquartile ranges beyond its quartiles. Of normal, uniform and exponential
# columns, and of grey values that are mostly 0, that leaves out nothing. A nearer row changes the unit by little.
REACH = 30.0
# With a background, so many: outliers that are many times as far out as the groups then set no scale at all.
CLOSE_REACH = 10.0
# If the quartiles are equal, the first pair of quantiles that differ may leave out most of the other values, which are
# a body of their own: the pair that counts leaves out this share of what that pair does.
_BEYOND_TIES = 1 / 4
# The narrowest part of a column is the shortest window with the first of these shares of the weight, or a larger one if
# that has fewer rows than the number below, or one value only; with each the width of this window if the column is
# normal, in standard deviations. A part of few rows is narrow by chance.
_WINDOWS = ((0.1, 0.25132), (0.2, 0.50669), (0.4, 1.04880), (0.8, 2.56310))
_LEAST_ROWS = 12.0
# Sums of weights, and steps, are the same within rounding: that of weights, and of numbers in single precision. Values
# closer than the last share of the step differ by rounding only.
_ROUNDING, _SAME_STEP, _SAME_VALUE = 1e-9, 1e-3, 1e-5


class ColumnScales(NamedTuple):
    """Scales of columns, (d,) each, in the units of the rows that they were measured on."""

    low: FloatArray  # cells of the body are from here
    high: FloatArray  # to here
    narrow: FloatArray  # standard deviation in the densest part; infinite if it has one value only
    step: FloatArray  # median distance of neighbouring distinct values; 0 if all are the same
    grid: FloatArray  # the same for rounded columns, in which half of the distances are equal to it, and 0 for others
    finest: FloatArray  # the least distance, which is the unit of the last digit of rounded columns

    @classmethod
    def of(cls, samples: RowSource) -> ColumnScales:
        """Measure columns, in memory; of a huge table on evenly spread rows."""
        return scales_and_kinds(samples)[0]


def scales_and_kinds(rows: RowSource, reach: float = REACH) -> tuple[ColumnScales, tuple[Kind | None, ...]]:
    """Measure columns like `ColumnScales.of`, and find the kinds of those that are far from any mixture."""
    samples = rows.thinned()
    table = np.empty((samples.n_features, samples.n_rows))
    start = 0
    for x, _ in samples.chunks():
        table[:, start : start + x.shape[1]] = x
        start += x.shape[1]
    # Columns that are too wide are refused elsewhere.
    with np.errstate(over="ignore", invalid="ignore"):
        distributions = (_distribution(column, samples.weights) for column in table)
        measured = [(_scales_of(*of_column, reach), kind_of(*of_column)) for of_column in distributions]
    scales, kinds = zip(*measured, strict=True)
    return ColumnScales(*np.array(scales).T), kinds


def _scales_of(values: FloatArray, weights: FloatArray, reach: float) -> tuple[float, ...]:
    """Return the scales of a column from its distinct values, sorted, with their weights."""
    if len(values) <= 1:
        return -np.inf, np.inf, np.inf, 0.0, 0.0, 0.0
    # Sums of the weights up to each value, from below and from above.
    below, above = np.cumsum(weights), np.cumsum(weights[::-1])
    low, high = _body(values, below, above, reach)
    return low, high, _narrowest(values, below), *_steps(values)


def _distribution(column: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values of a column, sorted, with their weights; missing cells have none."""
    seen = ~np.isnan(column)
    if not seen.all():
        column, weights = column[seen], None if weights is None else weights[seen]
    if weights is None:
        values, counts = np.unique(column, return_counts=True)
        return values, counts.astype(np.float64)
    values, inverse = np.unique(column, return_inverse=True)
    return values, np.bincount(inverse, weights).astype(np.float64)


def _body(values: FloatArray, below: FloatArray, above: FloatArray, reach: float) -> tuple[float, float]:
    """Return the bounds of the body: from the quartiles or, if these are equal, a wider pair of quantiles."""

    def pair(level: float) -> tuple[float, float]:
        wanted = level * below[-1] * (1 - _ROUNDING)
        return values[np.searchsorted(below, wanted)], values[-1 - np.searchsorted(above, wanted)]

    level = 0.25
    low, high = pair(level)
    while low == high:
        level /= 2
        low, high = pair(level)
    if level < 0.25:
        low, high = pair(level * _BEYOND_TIES)
    beyond = reach * (high - low)
    return low - beyond, high + beyond


def _steps(values: FloatArray) -> tuple[float, float, float]:
    """Return the last three scales of distinct values."""
    distances = np.sort(values[1:] - values[:-1])
    n = len(distances)
    step = float(distances[(n - 1) // 2] / 2 + distances[n // 2] / 2)
    shares = np.array([_SAME_VALUE, 1 - _SAME_STEP, 1 + _SAME_STEP])
    least, first, last = np.searchsorted(distances, shares * step).tolist()
    return step, step if 2 * (last - first) >= n else 0.0, float(distances[least])


def _narrowest(values: FloatArray, below: FloatArray) -> float:
    """Return the width of the shortest window with a share of the weight, over its width if the column is normal."""
    total, before = below[-1], np.append(0.0, below[:-1])
    for share, width in _WINDOWS:
        if share * total < _LEAST_ROWS:
            continue
        last = np.searchsorted(below, before + share * total * (1 - _ROUNDING))
        whole = last < len(values)
        shortest = float((values[last[whole]] - values[whole]).min())
        if shortest > 0.0:
            return shortest / width
    return np.inf
