"""The coordinates in which a search runs: columns that vary, centred, in units of their standard deviation.

Every tolerance, floor and start is then relative to the scales of the data, and no moment is taken about a far origin.
The default search takes mean and standard deviation of the body of each column, without far cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from amofa._background import BackgroundDensity, Kind, LogDensity
from amofa._data.checks import DEFAULT_FLOOR, counted_rows
from amofa._data.column_kinds import Kind as ColumnKind
from amofa._data.incomplete import samples_of
from amofa._data.relations import Relations, find_relations
from amofa._data.row_chunks import Samples
from amofa._data.row_source import RowSource
from amofa._data.scales import CLOSE_REACH, REACH, ColumnScales, scales_and_kinds
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray

# Squares of standard deviations, and their smallest shares, must be normal floating-point numbers.
_SCALE_MIN, _SCALE_MAX = 1e-147, 1e153
# Uniquenesses are at least this share of a column's variance: below it, covariance matrices become singular in double
# precision. A floor above the second share is a mistake.
_LEAST_SHARE, _MOST_SHARE = 1e-12, 1e100
# The variance that rounding adds, in units of the squared step: a narrower density would describe the rounding only.
_RESOLUTION = 1 / 12
# The floor is a share of the unit, up to this multiple of the scale of the narrowest part: in ordinary columns, that
# scale is down to about half of the unit by chance and by their shape, and these have one floor.
_NARROW = 3.0
# Columns in a relation have uniquenesses of this share of the smallest: as much as the responsibilities of rows that
# obey the relation differ from those without it.
_RELATED = 1e-4
# Units are at least this share of a column's range: squares of farther cells would have no digits of nearer ones.
_LEAST_UNIT = 1e-14
# Units that come from near rows are at least this share of those of the bodies, and from at least this share of rows.
_LEAST_BODY, _LEAST_SHARE_OF_ROWS = 0.01, 0.5
# A column counts as constant if its range is within the rounding error of its values.
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Coordinates:
    """Shift and scale of the columns of a table; scales are 0 in constant columns."""

    center: FloatArray  # (d,)
    scale: FloatArray  # the unit of each column, (d,)
    deviation: FloatArray  # weighted standard deviations of all rows (divisor N), (d,)
    relations: Relations | None = None  # among the columns that vary, by their numbers there; in these units

    @classmethod
    def of(cls, samples: RowSource, scales: ColumnScales | None = None, *, by_rows: bool = False) -> Coordinates:
        """Measure the columns of unscaled rows, in two passes; ValueError if a column's variance overflows.

        Means are centres and standard deviations are units. With `scales`, those of columns with cells outside their
        bodies are taken without these cells, in two more passes; with `by_rows`, those of all columns without rows that
        have such cells.
        """
        is_complete = samples.is_complete
        origin = _first_cells(samples.first_chunk())
        counts = np.maximum(samples.column_weights, np.finfo(np.float64).tiny)
        least, most = (np.minimum, np.maximum) if is_complete else (np.fmin, np.fmax)

        def extent(x: FloatArray, w: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray]:
            with np.errstate(over="ignore", invalid="ignore"):
                total = _weighted_sum(x - origin[:, None], w, is_complete)
                return total, least.reduce(x, axis=1, initial=np.inf), most.reduce(x, axis=1, initial=-np.inf)

        def joint(
            a: tuple[FloatArray, FloatArray, FloatArray], b: tuple[FloatArray, FloatArray, FloatArray]
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            with np.errstate(over="ignore", invalid="ignore"):
                return a[0] + b[0], least(a[1], b[1]), most(a[2], b[2])

        total, low, high = samples.reduce(extent, joint)
        with np.errstate(over="ignore", invalid="ignore"):
            spread, center = high - low, origin + total / counts
        check_range(low, high)
        constant = are_constant(low, high)
        unit = np.where(constant, 1.0, spread)
        squares = samples.reduce(
            lambda x, w: _weighted_sum(((x - center[:, None]) / unit[:, None]) ** 2, w, is_complete), np.add
        )
        deviation = np.where(constant, 0.0, unit * np.sqrt(squares / counts))
        scale = deviation.copy()
        if scales is not None:
            far = np.flatnonzero(~constant & ((low < scales.low) | (high > scales.high)))
            if len(far):
                center[far], scale[far], _ = _of_bodies(samples, far, scales.low[far], scales.high[far])
                scale[far] = np.maximum(scale[far], _LEAST_UNIT * spread[far])
            if len(far) and by_rows:
                varying = np.flatnonzero(~constant)
                bounds = scales.low[varying], scales.high[varying]
                inner, close, share = _of_bodies(samples, varying, *bounds, by_rows=True)
                # What varies in far rows alone keeps the unit of its body.
                kept = (close > _LEAST_BODY * scale[varying]) & (share >= _LEAST_SHARE_OF_ROWS)
                center[varying[kept]], scale[varying[kept]] = inner[kept], close[kept]
        return cls(center, scale, deviation)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Mask of the constant columns, (d,)."""
        result: NDArray[np.bool_] = self.scale < _SCALE_MIN
        return result

    @property
    def redundant(self) -> list[tuple[int, list[int]]]:
        """Each column that follows from others, with those, by number."""
        varying = np.flatnonzero(~self.constant)
        sources = [] if self.relations is None else self.relations.sources
        return [(int(varying[j]), varying[others].tolist()) for j, others in sources]

    @property
    def columns(self) -> NDArray[np.intp]:
        """Numbers of the columns of a search: those that vary and do not follow from others."""
        varying = np.flatnonzero(~self.constant)
        return varying if self.relations is None else varying[self.relations.others]

    def with_one_scale(self) -> Coordinates:
        """Return coordinates with the root mean square of the scales for all columns that vary."""
        varying = ~self.constant
        if not varying.any():
            return self
        largest = self.scale.max()
        scale = np.where(varying, largest * np.sqrt(((self.scale[varying] / largest) ** 2).mean()), 0.0)
        return Coordinates(self.center, scale, scale)

    def lowered(self, floor: FloatArray) -> FloatArray:
        """Return smallest uniquenesses (d,) that keep the relations of columns."""
        involved = [j for column, others in self.redundant for j in (column, *others)]
        lowered = floor.copy()
        lowered[involved] *= _RELATED
        return lowered

    def samples(self, table: NDArray[Any], weights: FloatArray | None, rows: NDArray[np.intp] | None) -> Samples:
        """Return the rows of a table in these coordinates, in the columns of a search."""
        columns = self.columns
        return samples_of(
            table,
            weights=weights,
            rows=rows,
            columns=None if len(columns) == len(self.scale) else columns,
            center=self.center[columns],
            scale=self.scale[columns],
        )

    def shares(self, variances: FloatArray) -> FloatArray:
        """Return variances (d,) in units of the squared scales, for the columns of a search."""
        columns = self.columns
        return variances[columns] / self.scale[columns] ** 2

    def express(self, parameters: Parameters) -> Parameters:
        """Transform parameters from the table's columns and units to these coordinates, without other columns."""
        columns = self.columns
        center, scale = self.center[columns], self.scale[columns]
        return Parameters.from_components(
            [
                c._replace(
                    mean=(c.mean[columns] - center) / scale,
                    loadings=c.loadings[:, columns] / scale,
                    uniquenesses=c.uniquenesses[columns] / scale**2,
                )
                for c in parameters.components()
            ]
        )

    def restore(self, parameters: Parameters, least: FloatArray) -> Parameters:
        """Transform parameters from the columns of a search back to the table's columns and units.

        Constant columns get their uniquenesses from `least`, (d,). A column that follows from others has the noise of
        those: it becomes a factor of each, and what stays unique of them is the least.
        """
        varying = np.flatnonzero(~self.constant)
        scale = self.scale[varying]

        def restored(component: Component) -> Component:
            if self.relations is not None:
                component = self.relations.restore(component, least[varying] / scale**2)
            mean, uniquenesses = self.center.copy(), least.copy()
            loadings = np.zeros((len(component.loadings), len(self.scale)))
            mean[varying] += scale * component.mean
            uniquenesses[varying] = scale**2 * component.uniquenesses
            loadings[:, varying] = scale * component.loadings
            return component._replace(mean=mean, loadings=loadings, uniquenesses=uniquenesses)

        background = parameters.background
        if background is not None:
            background = background._replace(density=self._restored(background.density))
        return Parameters.from_components([restored(c) for c in parameters.components()], background)

    def background(self, function: LogDensity) -> BackgroundDensity:
        """Return a density of rows in these coordinates, from a function of rows in those of the table."""
        d = len(self.columns)
        return BackgroundDensity.of_one(Kind.CUSTOM, np.zeros(d), np.ones(d), function=_OfSearch(function, self))

    def _restored(self, density: BackgroundDensity) -> BackgroundDensity:
        """Transform the density of a background to the table's columns and units; it covers those of a search alone."""
        columns = self.columns
        moved = density.moved(self.center[columns], self.scale[columns])
        center, scale = (
            np.tile(self.center, (len(moved.shares), 1)),
            np.full((len(moved.shares), len(self.scale)), np.nan),
        )
        center[:, columns], scale[:, columns] = moved.center, moved.scale
        function = density.function.function if isinstance(density.function, _OfSearch) else density.function
        return replace(density, center=center, scale=scale, function=function)


@dataclass(frozen=True)
class _OfSearch:
    """A log density of rows in coordinates of a search, from one of rows in those of the table."""

    function: LogDensity
    coordinates: Coordinates

    def __call__(self, rows: FloatArray) -> FloatArray:
        columns, center, scale = self.coordinates.columns, self.coordinates.center, self.coordinates.scale
        whole = np.tile(center, (len(rows), 1))
        whole[:, columns] += scale[columns] * rows
        log_density: FloatArray = np.asarray(self.function(whole), dtype=np.float64)
        log_density = log_density + ~np.isnan(rows) @ np.log(scale[columns])
        return log_density


def check_range(low: FloatArray, high: FloatArray) -> None:
    """Check that variances of columns with this range, (d,), do not overflow; columns without cells have none."""
    with np.errstate(over="ignore", invalid="ignore"):
        wide = (low <= high) & ~(high - low < _SCALE_MAX)
    if wide.any():
        j = int(np.argmax(wide))
        raise ValueError(f"column {j} of X spans {low[j]:g} to {high[j]:g}; divide it by a constant first")


def are_constant(low: FloatArray, high: FloatArray) -> NDArray[np.bool_]:
    """Return which columns with this range, (d,), are constant within rounding."""
    spread = high - low
    constant: NDArray[np.bool_] = spread < _SCALE_MIN
    constant |= spread <= _ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return constant


def _weighted_sum(x: FloatArray, w: FloatArray | None, is_complete: bool) -> FloatArray:
    """Return the sums of cells (d, n) that are not missing."""
    cells = x if is_complete else np.where(np.isnan(x), 0.0, x)
    total: FloatArray = cells.sum(axis=1) if w is None else cells @ w
    return total


def _first_cells(x: FloatArray) -> FloatArray:
    """Return the first cell of each column (d, n) that is not missing, or 0."""
    seen = ~np.isnan(x)
    columns = np.arange(len(x))
    first = seen.argmax(axis=1)
    return np.where(seen[columns, first], x[columns, first], 0.0)


def _of_bodies(
    samples: RowSource, columns: NDArray[np.intp], low: FloatArray, high: FloatArray, *, by_rows: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means and standard deviations of some columns without cells outside these bounds, by two passes.

    Those are also without all other cells of such rows, with `by_rows`. The last array are the shares of the weight
    that remain.
    """

    is_complete = samples.is_complete

    def body(x: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        cells = x[columns]
        inside = (cells >= low[:, None]) & (cells <= high[:, None])
        if by_rows:
            # Cells that are missing are not far.
            inside &= ~((cells < low[:, None]) | (cells > high[:, None])).any(axis=0)
        return cells, inside

    origin = low / 2 + high / 2

    def first(x: FloatArray, w: FloatArray | None) -> FloatArray:
        cells, inside = body(x)
        count = _weighted_sum(inside.astype(np.float64), w, is_complete)
        return np.stack([count, _weighted_sum(np.where(inside, cells - origin[:, None], 0.0), w, is_complete)])

    count, total = samples.reduce(first, np.add)
    share = count / samples.total_weight
    count = np.where(count > 0, count, 1.0)
    center, reach = origin + total / count, high - low

    def second(x: FloatArray, w: FloatArray | None) -> FloatArray:
        cells, inside = body(x)
        return _weighted_sum(np.where(inside, (cells - center[:, None]) / reach[:, None], 0.0) ** 2, w, is_complete)

    squares = samples.reduce(second, np.add)
    return center, reach * np.sqrt(squares / count), share


def floor_variances(floor: float | FloatArray, scale: FloatArray | None, coordinates: Coordinates) -> FloatArray:
    """Return the smallest uniqueness of each column in its own units, (d,); constant columns get it.

    A number is a share of `scale`, (d,) variances, by default those of all rows. Raises ValueError if a smallest
    uniqueness is out of all proportion to the variance of its column, or not finite.
    """
    constant, variances, most = coordinates.constant, coordinates.deviation**2, np.finfo(np.float64).max
    # Constant columns are constant only within rounding.
    rounding = np.minimum(_ROUNDING / 2 * np.abs(coordinates.center), _SCALE_MAX) ** 2
    with np.errstate(over="ignore"):
        least = np.where(constant, rounding, _LEAST_SHARE * coordinates.scale**2)
        largest = np.where(constant, most, np.minimum(_MOST_SHARE * variances, most))
        reference = with_constant_columns(variances, coordinates) if scale is None else scale
        floors = floor * reference if isinstance(floor, float) else floor
    if not (floors <= largest).all():
        j = int(np.argmax(~(floors <= largest)))
        raise ValueError(
            f"noise_floor makes the smallest uniqueness of column {j} of X {floors[j]:g}, but its standard deviation "
            f"is {coordinates.deviation[j]:g}; give less"
        )
    return np.maximum(floors, np.maximum(least, np.finfo(np.float64).tiny))


def default_floors(scales: ColumnScales, scale: FloatArray | None, coordinates: Coordinates) -> FloatArray:
    """Return the smallest uniquenesses of the default search, (d,), unless others are given.

    They are a share of the squared width of a column, or of `scale` if that is given, and no narrower than the step of
    rounded numbers.
    """
    if scale is None:
        scale = with_constant_columns(_widths(scales, coordinates) ** 2, coordinates)
    return np.maximum(floor_variances(DEFAULT_FLOOR, scale, coordinates), _RESOLUTION * scales.step**2)


def _widths(scales: ColumnScales, coordinates: Coordinates) -> FloatArray:
    """Return the units of the columns, bounded by the widths of their narrowest parts, (d,)."""
    return np.minimum(coordinates.scale, _NARROW * scales.narrow)


def with_constant_columns(variances: FloatArray, coordinates: Coordinates) -> FloatArray:
    """Return variances (d,) with the mean of all rows' variances in place of those of constant columns, or 1."""
    constant = coordinates.constant
    mean = 1.0 if constant.all() else (coordinates.deviation[~constant] ** 2).mean()
    return np.where(constant, mean, variances)


Rows = TypeVar("Rows", bound=RowSource)
RowsT_co = TypeVar("RowsT_co", bound=RowSource, covariant=True)


@dataclass(frozen=True)
class Standardized(Generic[RowsT_co]):
    """The rows of a table, as given and standardized."""

    whole: RowsT_co  # the rows in the caller's columns and units
    coordinates: Coordinates
    samples: RowsT_co  # the rows in these coordinates
    kinds: tuple[ColumnKind | None, ...]  # of the caller's columns
    scales: ColumnScales | None = None  # in the caller's units, if units come from them
    express: Callable[[Coordinates], RowsT_co] | None = None  # returns the rows in other coordinates

    @property
    def seen_shares(self) -> FloatArray | None:
        """The share of the rows that have a cell in each column of the search; None if no cell is missing."""
        samples = self.samples
        return None if samples.is_complete else samples.column_weights / samples.total_weight

    @staticmethod
    def of(
        table: NDArray[Any],
        weights: FloatArray | None,
        *,
        one_scale: bool = False,
        by_body: bool = False,
        by_rows: bool = False,
    ) -> Standardized[Samples]:
        """Standardize the rows of a table, without those of weight 0; see `of_rows`."""
        rows = counted_rows(weights)
        whole = samples_of(table, weights=weights, rows=rows)

        def express(coordinates: Coordinates) -> Samples:
            return coordinates.samples(table, weights, rows)

        return Standardized.of_rows(whole, express, one_scale=one_scale, by_body=by_body, by_rows=by_rows)

    @staticmethod
    def of_rows(
        whole: Rows,
        express: Callable[[Coordinates], Rows],
        *,
        one_scale: bool = False,
        by_body: bool = False,
        by_rows: bool = False,
    ) -> Standardized[Rows]:
        """Standardize rows in the caller's columns and units; `express` returns them in other coordinates.

        With `one_scale` columns share one unit, which keeps angles; with `by_body` units come from the bodies of the
        columns, with `by_rows` from closer ones, and only from rows without far cells.
        """
        measured, kinds = scales_and_kinds(whole, CLOSE_REACH if by_rows else REACH)
        scales = measured if by_body else None
        coordinates = Coordinates.of(whole, scales, by_rows=by_rows)
        if one_scale:
            coordinates = coordinates.with_one_scale()
        return Standardized(whole, coordinates, express(coordinates), kinds, scales, express)

    def without_redundant_columns(self) -> Standardized[RowsT_co]:
        """Return the same rows without columns that follow from others; units come from the bodies of the columns."""
        assert self.scales is not None
        assert self.express is not None
        coordinates = self.coordinates
        columns = coordinates.columns
        unit = coordinates.scale[columns]
        relations = find_relations(
            self.samples, _widths(self.scales, coordinates)[columns] / unit, self.scales.finest[columns] / unit
        )
        if relations is None:
            return self
        coordinates = replace(coordinates, relations=relations)
        return replace(self, coordinates=coordinates, samples=self.express(coordinates))
