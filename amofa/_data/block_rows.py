"""Rows of a table in blocks, in the coordinates of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from amofa._data.block_source import BlockSource
from amofa._data.checks import (
    as_block,
    as_weights,
    check_incomplete_table,
    check_total,
    counted_rows,
    least_weight,
)
from amofa._data.incomplete import IncompleteSamples, covariance_seen, samples_of, unseen_pairs
from amofa._data.row_chunks import Near, PosteriorBlock, Samples, n_held, spread_rows
from amofa._data.standardize import Coordinates
from amofa._kernels._iteration import Iteration
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._parameters import Parameters
from amofa._typing import BoolArray, FloatArray
from amofa.threads import Executor

Result = TypeVar("Result")


# ---- what blocks hold ------------------------------------------------------------------------------------------------


class Facts(NamedTuple):
    """What is known of a block, or of several, once they are checked."""

    lengths: NDArray[np.intp]  # numbers of rows
    is_complete: bool
    total_weight: float
    largest_weight: float
    n_weighted: int  # rows whose weight is not 0
    has_weights: bool

    @classmethod
    def of(cls, source: BlockSource) -> Facts:
        """Check all blocks in one pass.

        Raises TypeError or ValueError as `check_incomplete_rows`; messages name the block.
        """
        facts = source.total(_Check(source.n_features), Facts.joined)
        if facts.n_rows == 0:
            raise ValueError("X has no rows in any block; at least one row is needed")
        if facts.largest_weight == 0:
            raise ValueError("the weights of all blocks are 0; at least one row must count")
        check_total(facts.total_weight)
        return facts

    def joined(self, other: Facts) -> Facts:
        return Facts(
            np.concatenate([self.lengths, other.lengths]),
            self.is_complete and other.is_complete,
            self.total_weight + other.total_weight,
            max(self.largest_weight, other.largest_weight),
            self.n_weighted + other.n_weighted,
            self.has_weights or other.has_weights,
        )

    @property
    def n_rows(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True)
class _Check:
    """Check a block."""

    n_features: int

    def __call__(self, number: int, rows: Any, weights: FloatArray | None) -> Facts:
        n = len(rows)
        lengths, has_weights = np.array([n]), weights is not None
        if n == 0:
            return Facts(lengths, True, 0.0, 0.0, 0, has_weights)
        name = f"block {number} of X"
        table, is_incomplete = check_incomplete_table(rows, name=name)
        if table.shape[1] != self.n_features:
            raise ValueError(f"{name} has {table.shape[1]} columns, but the others have {self.n_features}")
        if weights is None:
            return Facts(lengths, not is_incomplete, float(n), 1.0, n, False)
        checked = as_weights(weights, n, f"sample_weight of block {number}")
        with np.errstate(over="ignore"):
            total = float(checked.sum())
        return Facts(lengths, not is_incomplete, total, float(checked.max()), int(np.count_nonzero(checked)), True)


def gathered(source: BlockSource) -> tuple[NDArray[Any], FloatArray | None]:
    """Return all rows of a source as one table, with their weights."""
    blocks = [block for block in source.map(_arrays) if len(block[0])]
    return _joined(blocks)


def _arrays(number: int, rows: Any, weights: FloatArray | None) -> tuple[NDArray[Any], FloatArray | None]:
    return as_block(rows), None if weights is None else np.array(weights, dtype=np.float64)


def _joined(
    blocks: list[tuple[NDArray[Any], FloatArray | None]],
) -> tuple[NDArray[Any], FloatArray | None]:
    table = np.concatenate([rows for rows, _ in blocks])
    weights = [w for _, w in blocks if w is not None]
    return table, np.concatenate(weights) if weights else None


# ---- blocks in coordinates -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """How the rows of each block are seen; it goes to other processes."""

    least_weight: float  # smaller ones count as 0
    is_complete: bool  # whether no block has missing cells, so that none is searched for them
    columns: NDArray[np.intp] | None = None
    center: FloatArray | None = None
    scale: FloatArray | None = None
    complete_only: bool = False  # without rows that lack cells in these columns

    def samples(self, rows: Any, weights: FloatArray | None) -> Samples:
        """Return the rows of a block that count, in these coordinates."""
        table = as_block(rows)
        if weights is not None:
            weights = np.asarray(weights, dtype=np.float64)
            weights = np.where(weights < self.least_weight, 0.0, weights)
        samples = self._samples(table, weights, counted_rows(weights))
        return samples.complete() if self.complete_only else samples

    def held(self, table: NDArray[Any], weights: FloatArray | None) -> Samples:
        """Return rows of blocks, all of which count, in these coordinates."""
        return self._samples(table, weights, None)

    def _samples(self, table: NDArray[Any], weights: FloatArray | None, rows: NDArray[np.intp] | None) -> Samples:
        make = Samples if self.is_complete else samples_of
        return make(table, weights=weights, rows=rows, columns=self.columns, center=self.center, scale=self.scale)


@dataclass(frozen=True)
class _OfSamples(Generic[Result]):
    """A function of the rows of a block; None if no row counts."""

    view: View
    function: Callable[[Samples], Result]

    def __call__(self, number: int, rows: Any, weights: FloatArray | None) -> Result | None:
        with np.errstate(under="ignore"):
            samples = self.view.samples(rows, weights)
            return None if samples.n_rows == 0 else self.function(samples)


@dataclass(frozen=True)
class _Merge(Generic[Result]):
    """Merge results of which some are None."""

    merge: Callable[[Result, Result], Result]

    def __call__(self, a: Result | None, b: Result | None) -> Result | None:
        if a is None or b is None:
            return b if a is None else a
        return self.merge(a, b)


class Counts(NamedTuple):
    """The rows of blocks that count, and the cells that they have."""

    rows: NDArray[np.intp]  # of each block
    weight: float  # of all blocks
    pairs: FloatArray | None = None  # weights of the rows with cells in both of two columns, (d, d); None if complete
    lacks: BoolArray | None = None  # whether a row has a cell in one column, but none in another, (d, d)
    n_left_out: int = 0  # rows without cells in these columns

    def joined(self, other: Counts) -> Counts:
        rows = np.concatenate([self.rows, other.rows])
        weight, n_left_out = self.weight + other.weight, self.n_left_out + other.n_left_out
        if self.pairs is None or other.pairs is None or self.lacks is None or other.lacks is None:
            return Counts(rows, weight, n_left_out=n_left_out)
        return Counts(rows, weight, self.pairs + other.pairs, self.lacks | other.lacks, n_left_out)


@dataclass(frozen=True)
class _Count:
    """Count the rows of a block, and their cells if some may be missing."""

    view: View

    def __call__(self, number: int, rows: Any, weights: FloatArray | None) -> Counts:
        samples = self.view.samples(rows, weights)
        n, total, d = samples.n_rows, samples.total_weight, samples.n_features
        if self.view.is_complete or self.view.complete_only:
            return Counts(np.array([n]), total)
        counted = len(rows) if weights is None else np.count_nonzero(np.asarray(weights) >= self.view.least_weight)
        if isinstance(samples, IncompleteSamples):
            return Counts(np.array([n]), total, *samples.pairs_seen(), int(counted) - n)
        return Counts(np.array([n]), total, np.full((d, d), total), np.zeros((d, d), dtype=np.bool_))


class BlockRows:
    """The rows of a source in blocks, shifted and scaled; a `RowSource`.

    Each pass evaluates a function of `Samples` for each block, and merges the results in the order of the blocks.
    """

    # Blocks of fewer rows than are held in memory are fitted as an array.
    is_wide = is_small = False

    def __init__(
        self, source: BlockSource, view: View, counts: Counts, held: tuple[NDArray[Any], FloatArray | None] | None
    ) -> None:
        self._source, self._view, self._counts = source, view, counts
        self.n_features = source.n_features if view.columns is None else len(view.columns)
        self.n_rows, self.total_weight = int(counts.rows.sum()), counts.weight
        self.is_complete = counts.lacks is None or not (counts.lacks.any() or counts.n_left_out)
        # Of the rows that are held in memory, all columns in the caller's units, with their weights.
        self._held = held
        self._complete: BlockRows | None = None

    @classmethod
    def of(cls, source: BlockSource, facts: Facts) -> BlockRows:
        """Return the rows in the caller's columns and units, without those of weight 0 or without cells."""
        view = View(least_weight(facts.largest_weight), facts.is_complete)
        if facts.is_complete and not facts.has_weights:
            return cls(source, view, Counts(facts.lengths, float(facts.n_rows)), None)
        rows = cls._seen(source, view)
        if rows.n_rows == 0:
            raise ValueError(
                "X has no value in any row that counts; at least one row must have a value that is not NaN"
            )
        return rows

    @classmethod
    def _seen(cls, source: BlockSource, view: View) -> BlockRows:
        return cls(source, view, source.total(_Count(view), Counts.joined), None)

    def express(self, coordinates: Coordinates) -> BlockRows:
        """Return these rows, in the caller's columns and units, in the coordinates of a search."""
        columns = coordinates.columns
        view = replace(
            self._view,
            columns=None if len(columns) == self.n_features else columns,
            center=coordinates.center[columns],
            scale=coordinates.scale[columns],
        )
        if view.is_complete or view.columns is None:
            expressed = BlockRows(self._source, view, self._counts, None)
        else:
            expressed = BlockRows._seen(self._source, view)
        if expressed._n_held == self._n_held and np.array_equal(expressed._counts.rows, self._counts.rows):
            expressed._held = self._held
        return expressed

    @property
    def row_count(self) -> float:
        return max(self.n_rows, self.total_weight)

    @property
    def log_jacobian(self) -> float:
        scale = self._view.scale
        return 0.0 if scale is None else -float(self.column_weights @ np.log(scale))

    @property
    def executor(self) -> Executor:
        return self._source.executor

    # -- rows in memory --

    @property
    def _n_held(self) -> int:
        return min(self.n_rows, n_held(self.n_features))

    def thinned(self) -> Samples:
        """Return evenly spread rows with the weight of all, to hold in memory, by one pass at the first call."""
        n, size = self.n_rows, self._n_held
        if self._held is None:
            selected = np.arange(n) if size == n else spread_rows(n, size)
            blocks = self._source.map(_Take(self._view, self._counts.rows, selected))
            self._held = _joined([block for block in blocks if len(block[0])])
        table, weights = self._held
        samples = self._view.held(table, weights)
        if size == n:
            return samples
        own = np.ones(size) if weights is None else weights
        return samples.weighted(np.arange(size), own * (self.total_weight / own.sum()))

    def first_chunk(self) -> FloatArray:
        return self.thinned().first_chunk()

    # -- passes over the blocks --

    def _total(self, function: Callable[[Samples], Result], merge: Callable[[Result, Result], Result]) -> Result:
        found = self._source.total(_OfSamples(self._view, function), _Merge(merge))
        assert found is not None
        return found

    def reduce(
        self,
        function: Callable[[FloatArray, FloatArray | None], Result],
        merge: Callable[[Result, Result], Result],
    ) -> Result:
        return self._total(_Reduce(function, merge), merge)

    def expect(self, iteration: Iteration, near: Near | None = None, parameters: Parameters | None = None) -> None:
        """Run the E-step of an EM iteration with second moments as whole matrices, whose parameters are needed."""
        assert near is None
        assert parameters is not None
        sums = self._total(_Expect(parameters, iteration.with_entropy), np.add)
        iteration.clear()
        iteration.add_sums(sums)

    def sum_over_posterior(
        self, parameters: Parameters, function: Callable[[PosteriorBlock], FloatArray], *, with_spreads: bool = False
    ) -> FloatArray:
        return self._total(_SumOverPosterior(parameters, function, with_spreads), np.add)

    def log_likelihood(self, parameters: Parameters) -> float:
        return float(self._total(_LogLikelihood(parameters), np.add))

    # -- missing cells --

    @property
    def column_weights(self) -> FloatArray:
        pairs = self._counts.pairs
        return np.full(self.n_features, self.total_weight) if pairs is None else np.diagonal(pairs)

    @property
    def _pair_shares(self) -> FloatArray:
        assert self._counts.pairs is not None
        return self._counts.pairs / self.total_weight

    def complete(self) -> BlockRows:
        """Return the rows that lack no cells, which a pass counts."""
        if self.is_complete:
            return self
        if self._complete is None:
            self._complete = BlockRows._seen(self._source, replace(self._view, complete_only=True))
        return self._complete

    def shows(self, columns: NDArray[np.intp], other: int) -> bool:
        lacks = self._counts.lacks
        return lacks is None or not lacks[other, columns].any()

    def covariance_seen(self, expected: FloatArray, covariance: FloatArray) -> tuple[FloatArray, float]:
        return covariance_seen(self._pair_shares, expected, covariance)

    def unseen_pairs(self) -> NDArray[Any]:
        return unseen_pairs(self._pair_shares)


# ---- functions of the rows of a block, which go to other processes ---------------------------------------------------


@dataclass(frozen=True)
class _Take:
    """Return some rows of all columns, in the caller's units, by their positions among those of all blocks."""

    view: View
    n_rows: NDArray[np.intp]  # that count in each block
    selected: NDArray[np.intp]  # increasing

    def __call__(self, number: int, rows: Any, weights: FloatArray | None) -> tuple[NDArray[Any], FloatArray | None]:
        start = int(self.n_rows[:number].sum())
        first, last = np.searchsorted(self.selected, [start, start + self.n_rows[number]])
        samples = self.view.samples(rows, weights)
        places = self.selected[first:last] - start
        own = samples.weights
        return as_block(rows)[samples.row_numbers[places]], None if own is None else own[places]


@dataclass(frozen=True)
class _Reduce(Generic[Result]):
    function: Callable[[FloatArray, FloatArray | None], Result]
    merge: Callable[[Result, Result], Result]

    def __call__(self, samples: Samples) -> Result:
        return samples.reduce(self.function, self.merge)


@dataclass(frozen=True)
class _Expect:
    """Return the sums of an E-step with second moments as whole matrices, which do not depend on the M-step."""

    parameters: Parameters
    with_entropy: bool

    def __call__(self, samples: Samples) -> FloatArray:
        own, d = self.parameters.copy(), samples.n_features
        iteration = ProfileLikelihoodIteration(
            own.buffer, own.offsets, np.zeros(d), 0.0, np.ones(d), 0, self.with_entropy
        )
        samples.expect(iteration, None, own)
        return iteration.sums


@dataclass(frozen=True)
class _SumOverPosterior:
    parameters: Parameters
    function: Callable[[PosteriorBlock], FloatArray]
    with_spreads: bool

    def __call__(self, samples: Samples) -> FloatArray:
        return samples.sum_over_posterior(self.parameters, self.function, with_spreads=self.with_spreads)


@dataclass(frozen=True)
class _LogLikelihood:
    parameters: Parameters

    def __call__(self, samples: Samples) -> FloatArray:
        return np.array(samples.log_likelihood(self.parameters))
