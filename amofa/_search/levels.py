"""The rows that a search works on: evenly spread ones of a large table first, and all of them at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._data.row_source import RowSource
from amofa._em.profile_likelihood import Problem, moments_of_rows
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Parameters
from amofa._search.families import Family
from amofa._typing import FloatArray
from amofa.threads import THREADS, Executor

# The first level has at least this number of rows, and of rows for each column. Each further one has this many times
# as many rows as the one before, and the last, with all rows, at least the other number.
_LEAST_ROWS, _LEAST_ROWS_PER_COLUMN = 2048, 32
_GROWTH, _LAST_GROWTH = 8, 3
# Tasks on samples of fewer values stay in this process. A local split of one of eight components then takes 40 ms here
# and as much again where it is sent to: 15 ms to send it, and 30 ms for memory that workers of dask do not keep.
_LEAST_VALUES_ELSEWHERE = 1 << 20
# Rows of tables with no more than these stay in the order of the table: of so few, no step takes only some.
_MOST_UNORDERED = 1000
# Coordinates are compared to this share of their standard deviation, so that rounding does not decide their order.
_SAME = 1e-9


@dataclass(frozen=True)
class Level:
    """Some rows of a table, and the problem that they pose."""

    samples: RowSource  # those for EM
    sample: Samples  # those of them that are read at random, in memory
    problems: Sequence[Problem]  # one for each family
    is_whole: bool
    executor: Executor  # of independent tasks on the sample

    @property
    def total_weight(self) -> float:
        return self.samples.total_weight

    @property
    def rows_each(self) -> float:
        """How many rows each of those in memory stands for: 1 if they are all in memory."""
        return self.samples.n_rows / self.sample.n_rows


class Levels:
    """Levels of a search, from few rows to all.

    `problem_of` makes the problem of a family and a number of rows.
    """

    def __init__(
        self,
        samples: RowSource,
        families: Sequence[Family],
        problem_of: Callable[[Family, float], Problem],
        *,
        single: bool,
    ) -> None:
        self.samples, self.families, self.problem_of = samples, families, problem_of
        # Of a huge table only these rows are put in order, so that memory does not grow with the number of rows.
        self.held = samples.thinned()
        n = samples.n_rows
        self._order: NDArray[np.intp] | None = None
        self.sizes = [n] if single else [*_sizes(n, self.held.n_rows, samples.n_features), n]

    def level(self, number: int) -> Level:
        """Make a level."""
        size = self.sizes[number]
        is_whole = size == self.samples.n_rows
        if is_whole:
            samples = self.samples
            sample = self.held if size <= _MOST_UNORDERED else self._spread_out(self.held.n_rows)
        else:
            samples = sample = self._spread_out(size)
        problems = [self.problem_of(family, samples.total_weight) for family in self.families]
        is_worth_sending = sample.n_rows * sample.n_features >= _LEAST_VALUES_ELSEWHERE
        executor = self.samples.executor if is_worth_sending else THREADS
        return Level(samples, sample, problems, is_whole, executor)

    def _spread_out(self, size: int) -> Samples:
        """Return rows spread evenly in their order, with the weight of as many average rows or, of all, their own."""
        n = self.held.n_rows
        rows = self.order[((np.arange(size) + 0.5) * (n / size)).astype(np.intp)]
        weights = self.held.weights
        chosen = np.ones(size) if weights is None else weights[rows]
        if size < n:
            chosen = chosen * (self.samples.total_weight / self.samples.n_rows * size / chosen.sum())
        return self.held.weighted(rows, chosen)

    @property
    def order(self) -> NDArray[np.intp]:
        """The rows in the order of their coordinates on the leading axes, which does not depend on that of the table.

        Each part of such an order represents its share of the table.
        """
        # A cached_property of Python 3.11 has a lock, which a process forked in another thread would never get.
        if self._order is None:
            self._order = self._found_order()
        return self._order

    def _found_order(self) -> NDArray[np.intp]:
        d = self.held.n_features
        one = Parameters.of_one_component(np.ones(d))
        problem = self.problem_of(self.families[0], self.held.total_weight)
        solver = None if self.held.is_wide else Solver(d)
        values, axes = moments_of_rows(self.held, one, problem, solver).spreads[0].axes()
        axes = axes[:3] / np.sqrt(np.maximum(values[:3, None], np.finfo(float).tiny))
        coordinates: FloatArray = axes @ self.held.filled(one)
        coordinates -= coordinates.mean(axis=1)[:, None]
        # The sign of an axis is arbitrary.
        coordinates *= np.where((coordinates**3).sum(axis=1) < 0, -1.0, 1.0)[:, None]
        return np.lexsort(np.round(coordinates / _SAME)[::-1])


def _sizes(n: int, n_held: int, d: int) -> list[int]:
    """Return the numbers of rows of the levels before the last, of n rows of which some are held."""
    sizes = []
    size = max(_LEAST_ROWS, _LEAST_ROWS_PER_COLUMN * d)
    while size * _LAST_GROWTH <= n and size < n_held:
        sizes.append(size)
        size *= _GROWTH
    return sizes
