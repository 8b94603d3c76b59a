"""A background beside the components of a mixture: a fixed density of rows that belong to no group."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._typing import BoolArray, FloatArray

# Returns the log densities (n,) of rows (n, d) in the units of the table.
LogDensity = Callable[[FloatArray], Any]


class Kind(StrEnum):
    """A kind of background."""

    UNIFORM = "uniform"  # the same density everywhere: that of a box around the rows
    NESTED = "nested"  # half of that, and half of the density in a smaller box without far rows
    HEAVY = "heavy"  # a multivariate t distribution with one degree of freedom
    CUSTOM = "custom"  # a function of the caller's


@dataclass(frozen=True, eq=False)
class BackgroundDensity:
    """The density of a background, which is never changed: of J boxes, of a t distribution (J = 1), or a function.

    Columns whose scale is NaN, such as constant ones, make no difference between the background and the components.
    """

    kind: Kind
    center: FloatArray  # (J, d) the middles of the boxes, or the centre of the t distribution
    scale: FloatArray  # (J, d) the sides of the boxes, or the scales of the t distribution
    shares: FloatArray  # (J,) of the boxes, sum 1; the first box has the same density outside of it, too
    degrees_of_freedom: float = np.inf  # of the t distribution
    function: LogDensity | None = None  # of a custom background

    @classmethod
    def of_one(cls, kind: Kind, center: FloatArray, scale: FloatArray, **options: Any) -> BackgroundDensity:
        """Return the density of one box, or of a t distribution."""
        return cls(kind, center[None], scale[None], np.ones(1), **options)

    @property
    def covers(self) -> BoolArray:
        """Mask of the columns that make a difference, (d,)."""
        covers: BoolArray = ~np.isnan(self.scale[0])
        return covers

    @property
    def optimism(self) -> float:
        """How much better the density fits the rows that it was made from than others, in nats.

        A side of the box around rows that fill it is too near by 1 / N of its length on average, so that their
        log-likelihood is too high by one nat, and by two for each column.
        """
        return 0.0 if self.function is not None else 2.0 * int(np.count_nonzero(self.covers))

    def equals(self, other: BackgroundDensity) -> bool:
        """Return whether another density is the same."""
        return (
            self.kind == other.kind
            and self.function is other.function
            and self.degrees_of_freedom == other.degrees_of_freedom
            and np.array_equal(self.center, other.center, equal_nan=True)
            and np.array_equal(self.scale, other.scale, equal_nan=True)
            and np.array_equal(self.shares, other.shares)
        )

    def moved(self, center: FloatArray, scale: FloatArray) -> BackgroundDensity:
        """Return the density of rows that are multiplied by scale, and then shifted by center, (d,) both."""
        return replace(self, center=center + scale * self.center, scale=scale * self.scale)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the log densities of the observed cells of rows x (d, n), (n,) in nats; missing cells are NaN.

        A custom function gets the rows as they are.

        Examples
        --------
        >>> box = BackgroundDensity.of_one(Kind.UNIFORM, np.zeros(2), np.array([2.0, 4.0]))
        >>> box.log_density(np.array([[0.5, 0.5], [9.0, np.nan]])).round(3)
        array([-2.079, -0.693])
        """
        if self.function is not None:
            return _checked(self.function(np.ascontiguousarray(x.T)), x.shape[1])
        if np.isinf(self.degrees_of_freedom):
            return np.asarray(np.logaddexp.reduce(self._log_parts(x), axis=0))
        covered = np.flatnonzero(self.covers)
        cells = x[covered]
        nu, counts = self.degrees_of_freedom, (~np.isnan(cells)).sum(axis=0)
        constants = np.array(
            [
                math.lgamma((nu + o) / 2) - math.lgamma(nu / 2) - o / 2 * math.log(nu * math.pi)
                for o in range(len(x) + 1)
            ]
        )
        density: FloatArray = constants[counts] - _log_volume(cells, self.scale[0, covered])
        density -= (nu + counts) / 2 * np.log1p(self._distances(cells, covered) / nu)
        return density

    def _log_parts(self, x: FloatArray) -> FloatArray:
        """Return the log densities of the boxes, times their shares, (J, n)."""
        covered = np.flatnonzero(self.covers)
        cells = x[covered]
        parts = np.array([-_log_volume(cells, scale[covered]) for scale in self.scale])
        for j in range(1, len(parts)):
            reach = np.abs(cells - self.center[j, covered, None]) > self.scale[j, covered, None] / 2
            parts[j, reach.any(axis=0)] = -np.inf
        with np.errstate(divide="ignore"):
            parts += np.log(self.shares)[:, None]
        return parts

    def _distances(self, cells: FloatArray, columns: NDArray[np.intp]) -> FloatArray:
        """Return the squared distances (n,) of observed cells from the centre, in units of the scales."""
        deviations = (cells - self.center[0, columns, None]) / self.scale[0, columns, None]
        with np.errstate(over="ignore"):
            distances: FloatArray = np.nansum(deviations**2, axis=0)
        return distances

    def of_columns(self, columns: NDArray[np.intp]) -> BackgroundDensity:
        """Return the density of some columns."""
        self._refuse_function("of some of the columns")
        return replace(self, center=self.center[:, columns], scale=self.scale[:, columns])

    def given(self, known: NDArray[np.intp], values: FloatArray, wanted: NDArray[np.intp]) -> BackgroundDensity:
        """Return the density of wanted columns given the values of known ones, of which NaN are unknown.

        A t distribution then has as many more degrees of freedom, and is as much wider as they are far out.
        """
        self._refuse_function("given some columns")
        of_known, of_wanted = self.of_columns(known), self.of_columns(wanted)
        if np.isinf(self.degrees_of_freedom):
            parts = of_known._log_parts(values[:, None])[:, 0]
            shares = np.exp(parts - parts.max())
            return replace(of_wanted, shares=shares / shares.sum())
        covered = np.flatnonzero(of_known.covers & ~np.isnan(values))
        nu, distance = self.degrees_of_freedom, float(of_known._distances(values[covered, None], covered)[0])
        degrees = nu + len(covered)
        return replace(
            of_wanted, scale=of_wanted.scale * math.sqrt((nu + distance) / degrees), degrees_of_freedom=degrees
        )

    def _refuse_function(self, what: str) -> None:
        if self.function is not None:
            raise ValueError(f"the background is a function, whose density {what} is unknown; use another background")


def _log_volume(cells: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the sums of the log scales (c,) of the observed cells (c, n), (n,)."""
    return np.asarray(np.log(scale) @ ~np.isnan(cells))


def _checked(values: Any, n: int) -> FloatArray:
    """Return what a function of the caller's made of n rows, after a check."""
    densities = np.asarray(values, dtype=np.float64)
    if densities.shape != (n,):
        raise ValueError(f"background must return one log density for each of {n} rows, got shape {densities.shape}")
    if not (densities < np.inf).all():
        raise ValueError("background must return log densities below infinity, none of them NaN")
    return densities


class Background(NamedTuple):
    """A background, and its share of a mixture: the components together have the share 1 - weight."""

    density: BackgroundDensity
    weight: float  # above 0 and below 1
