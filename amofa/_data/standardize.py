"""The coordinates in which a search runs: columns that vary, centred, in units of their standard deviation.

Every tolerance, floor and start is then relative to the scales of the data, and no moment is taken about a far origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.checks import counted_rows
from amofa._data.row_chunks import Samples
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray

# Squares of standard deviations, and their smallest shares, must be normal floating-point numbers.
_SCALE_MIN, _SCALE_MAX = 1e-147, 1e153
# Uniquenesses are at least this share of a column's variance: below it, covariance matrices become singular in double
# precision. A floor above the second share is a mistake.
_LEAST_SHARE, _MOST_SHARE = 1e-12, 1e100
# A column counts as constant if its range is within the rounding error of its values.
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Coordinates:
    """Shift and scale of the columns of a table."""

    center: FloatArray  # weighted means, (d,)
    scale: FloatArray  # weighted standard deviations (divisor N), (d,); 0 in constant columns

    @classmethod
    def of(cls, samples: Samples) -> Coordinates:
        """Measure the columns of unscaled rows, in two passes; ValueError if a column's variance overflows."""
        d = samples.n_features
        origin = next(iter(samples.chunks()))[0][:, 0].copy()
        total, low, high = np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            for x, w in samples.chunks():
                total += _weighted_sum(x - origin[:, None], w)
                np.minimum(low, x.min(axis=1), out=low)
                np.maximum(high, x.max(axis=1), out=high)
            spread, center = high - low, origin + total / samples.total_weight
        if not (spread < _SCALE_MAX).all():
            j = int(np.argmax(~(spread < _SCALE_MAX)))
            raise ValueError(f"column {j} of X spans {low[j]:g} to {high[j]:g}; divide it by a constant first")
        constant = (spread < _SCALE_MIN) | (spread <= _ROUNDING * np.maximum(np.abs(low), np.abs(high)))
        unit = np.where(constant, 1.0, spread)
        squares = np.zeros(d)
        for x, w in samples.chunks():
            squares += _weighted_sum(((x - center[:, None]) / unit[:, None]) ** 2, w)
        scale = np.where(constant, 0.0, unit * np.sqrt(squares / samples.total_weight))
        return cls(center, scale)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Mask of the constant columns, (d,)."""
        result: NDArray[np.bool_] = self.scale < _SCALE_MIN
        return result

    def with_one_scale(self) -> Coordinates:
        """Return coordinates with the root mean square of the scales for all columns that vary."""
        varying = ~self.constant
        if not varying.any():
            return self
        largest = self.scale.max()
        scale = np.where(varying, largest * np.sqrt(((self.scale[varying] / largest) ** 2).mean()), 0.0)
        return Coordinates(self.center, scale)

    def samples(self, table: NDArray[Any], weights: FloatArray | None, rows: NDArray[np.intp] | None) -> Samples:
        """Return the rows of a table in these coordinates, without constant columns."""
        columns = np.flatnonzero(~self.constant)
        return Samples(
            table,
            weights=weights,
            rows=rows,
            columns=None if len(columns) == len(self.scale) else columns,
            center=self.center[columns],
            scale=self.scale[columns],
        )

    def shares(self, variances: FloatArray) -> FloatArray:
        """Return variances (d,) as shares of the columns' own variances, constant columns left out."""
        kept = ~self.constant
        return variances[kept] / self.scale[kept] ** 2

    def express(self, parameters: Parameters) -> Parameters:
        """Transform parameters from the table's columns and units to these coordinates, without constant columns."""
        columns = np.flatnonzero(~self.constant)
        center, scale = self.center[columns], self.scale[columns]
        return Parameters.from_components(
            [
                Component(
                    c.weight,
                    (c.mean[columns] - center) / scale,
                    c.loadings[:, columns] / scale,
                    c.uniquenesses[columns] / scale**2,
                )
                for c in parameters.components()
            ]
        )

    def restore(self, parameters: Parameters, constant_variance: FloatArray) -> Parameters:
        """Transform parameters, without constant columns, back to the table's columns and units.

        Constant columns get their uniquenesses from `constant_variance`, (d,); its other entries are not used.
        """
        columns = np.flatnonzero(~self.constant)
        scale = self.scale[columns]

        def restored(component: Component) -> Component:
            mean, uniquenesses = self.center.copy(), constant_variance.copy()
            loadings = np.zeros((len(component.loadings), len(self.scale)))
            mean[columns] += scale * component.mean
            uniquenesses[columns] = scale**2 * component.uniquenesses
            loadings[:, columns] = scale * component.loadings
            return Component(component.weight, mean, loadings, uniquenesses)

        return Parameters.from_components([restored(c) for c in parameters.components()])


def _weighted_sum(x: FloatArray, w: FloatArray | None) -> FloatArray:
    total: FloatArray = x.sum(axis=1) if w is None else x @ w
    return total


def floor_variances(floor: float | FloatArray, scale: FloatArray | None, coordinates: Coordinates) -> FloatArray:
    """Return the smallest uniqueness of each column in its own units, (d,); constant columns get it.

    Raises ValueError if one is out of all proportion to the variance of its column, or not finite.
    """
    constant, variances, most = coordinates.constant, coordinates.scale**2, np.finfo(np.float64).max
    # Constant columns are constant only within rounding.
    rounding = np.minimum(_ROUNDING / 2 * np.abs(coordinates.center), _SCALE_MAX) ** 2
    with np.errstate(over="ignore"):
        least = np.where(constant, rounding, _LEAST_SHARE * variances)
        largest = np.where(constant, most, np.minimum(_MOST_SHARE * variances, most))
        variances[constant] = variances[~constant].mean() if not constant.all() else 1.0
        floors = floor * (variances if scale is None else scale) if isinstance(floor, float) else floor
    if not (floors <= largest).all():
        j = int(np.argmax(~(floors <= largest)))
        raise ValueError(
            f"noise_floor makes the smallest uniqueness of column {j} of X {floors[j]:g}, but its standard deviation "
            f"is {coordinates.scale[j]:g}; give less"
        )
    return np.maximum(floors, np.maximum(least, np.finfo(np.float64).tiny))


@dataclass(frozen=True)
class Standardized:
    """The rows of a table, as given and standardized."""

    whole: Samples  # the rows in the caller's columns and units
    coordinates: Coordinates
    samples: Samples  # the rows in these coordinates

    @classmethod
    def of(cls, table: NDArray[Any], weights: FloatArray | None, *, one_scale: bool = False) -> Standardized:
        """Standardize rows, without those of weight 0; with `one_scale` columns share one unit, which keeps angles."""
        rows = counted_rows(weights)
        whole = Samples(table, weights=weights, rows=rows)
        coordinates = Coordinates.of(whole)
        if one_scale:
            coordinates = coordinates.with_one_scale()
        return cls(whole, coordinates, coordinates.samples(table, weights, rows))


def resolution_variances(samples: Samples) -> FloatArray:
    """Return the variance that rounding to a column's step adds, (d,): 1/12 of its square.

    The step is the median distance of neighbouring distinct values: the rounding step in columns of rounded numbers or
    integers, and nearly 0 in others. A narrower density would describe the rounding only. Of a huge table, evenly
    spread rows are used.
    """
    samples = samples.thinned()
    table = np.empty((samples.n_features, samples.n_rows))
    start = 0
    for x, _ in samples.chunks():
        table[:, start : start + x.shape[1]] = x
        start += x.shape[1]
    steps = np.zeros(len(table))
    for j, column in enumerate(table):
        distances = np.diff(np.unique(column))
        if len(distances):
            steps[j] = np.median(distances)
    return steps**2 / 12
