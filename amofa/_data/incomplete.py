"""Rows of a table with missing cells, NaN, in chunks for the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Adder, Near, PosteriorBlock, Samples
from amofa._kernels import _missing
from amofa._kernels._iteration import Iteration
from amofa._parameters import Evaluator, Parameters
from amofa._typing import BoolArray, FloatArray

# Tables are searched for missing cells in blocks of about this number of cells.
_BLOCK_CELLS = 1 << 20
# Elements of covariances are corrected as if at least this share of the mean number of rows showed them.
_LEAST_PAIR_SHARE, _LEAST_MEAN_SHARE = 0.1, 1e-3
# Corrected variances are at least this share of those before, and of those that the model expects.
_LEAST_VARIANCE = 0.05
# The rows with the most cells have at least this share of the weight of all.
_BEST_SEEN = 0.4


class Patterns(NamedTuple):
    """Which cells the rows of a table have: rows with the same number have cells in the same columns."""

    numbers: NDArray[np.intp]  # (n,) of the rows; 0 for complete ones
    seen: BoolArray  # (m, d) the columns of each pattern

    @classmethod
    def of(cls, table: NDArray[Any], columns: NDArray[np.intp] | None = None) -> Patterns | None:
        """Find the patterns of a table, or of some of its columns; return None if no cell is missing."""
        d = table.shape[1] if columns is None else len(columns)
        if table.dtype.kind != "f" or d == 0:
            return None
        step = max(1, _BLOCK_CELLS // d)
        blocks = []
        for start in range(0, len(table), step):
            empty = np.isnan(table[start : start + step])
            blocks.append(np.packbits(empty if columns is None else empty[:, columns], axis=1))
        if not any(block.any() for block in blocks):
            return None
        # Bytes, compared as one value: complete rows, without a bit, come first.
        packed = np.ascontiguousarray(np.concatenate(blocks)).view(f"V{-(-d // 8)}")[:, 0]
        found, numbers = np.unique(packed, return_inverse=True)
        bits = np.unpackbits(found.view(np.uint8).reshape(len(found), -1), axis=1, count=d)
        missing: BoolArray = bits.astype(np.bool_)
        if missing[0].any():
            numbers, missing = numbers + 1, np.concatenate([np.zeros((1, d), dtype=np.bool_), missing])
        return cls(numbers.astype(np.intp, copy=False), ~missing)

    def rows_with_cells(self, rows: NDArray[np.intp] | None) -> NDArray[np.intp]:
        """Return those of some rows, by default of all, that have a cell."""
        has_cells: BoolArray = np.logical_or.reduce(self.seen, axis=1)
        if rows is None:
            return np.flatnonzero(has_cells[self.numbers])
        return rows[has_cells[self.numbers[rows]]]


def samples_of(
    table: NDArray[Any],
    *,
    weights: FloatArray | None = None,
    rows: NDArray[np.intp] | None = None,
    columns: NDArray[np.intp] | None = None,
    center: FloatArray | None = None,
    scale: FloatArray | None = None,
) -> Samples:
    """Return rows of a table of which some may lack cells, without those that lack all; see `Samples`."""
    patterns = Patterns.of(table, columns)
    if patterns is None:
        return Samples(table, weights=weights, rows=rows, columns=columns, center=center, scale=scale)
    rows = patterns.rows_with_cells(rows)
    return IncompleteSamples(table, patterns, weights=weights, rows=rows, columns=columns, center=center, scale=scale)


def covariance_seen(shares: FloatArray, expected: FloatArray, covariance: FloatArray) -> tuple[FloatArray, float]:
    """Return second moments (d, d) as the pairs of cells that are seen show them, and the share of these pairs.

    The covariance of the rows has, where cells are missing, what the model expects, so that gains of other models look
    too small. Minus the log-likelihood is about quadratic, with as much weight as pairs of cells are seen.
    """
    d = len(shares)
    mean = float((shares.sum() - np.trace(shares)) / (d * (d - 1))) if d > 1 else float(shares[0, 0])
    # No row may have cells in two columns.
    mean = max(mean, _LEAST_MEAN_SHARE)
    shown = expected + (covariance - expected) / np.maximum(shares, _LEAST_PAIR_SHARE * mean)
    shown[shares == 0] = covariance[shares == 0]
    diagonal = np.arange(d)
    least = _LEAST_VARIANCE * np.minimum(np.diagonal(covariance), np.diagonal(expected))
    shown[diagonal, diagonal] = np.maximum(shown[diagonal, diagonal], least)
    return shown, mean


def unseen_pairs(shares: FloatArray) -> NDArray[Any]:
    """Return the pairs of columns that no row has cells in both of, (m, 2), of columns that have cells."""
    has_cells = np.diagonal(shares) > 0
    unseen = (shares == 0) & has_cells & has_cells[:, None]
    return np.argwhere(np.triu(unseen, 1))


class IncompleteSamples(Samples):
    """Rows of which some lack cells, for which everything is conditional on the cells that they have.

    Kernels read the rows in the order of their patterns. In results, and for the caller, they have their own order.

    Parameters
    ----------
    table, weights, rows, columns, center, scale
        As in `Samples`. The attribute `log_jacobian` counts the cells that are seen.
    patterns : Patterns
        Those of the columns that count, of all rows of the table.
    """

    is_complete = False

    def __init__(
        self,
        table: NDArray[Any],
        patterns: Patterns,
        *,
        weights: FloatArray | None = None,
        rows: NDArray[np.intp] | None = None,
        columns: NDArray[np.intp] | None = None,
        center: FloatArray | None = None,
        scale: FloatArray | None = None,
    ) -> None:
        own = np.arange(len(table)) if rows is None else rows
        numbers = patterns.numbers[own]
        # The place of each row of a pass.
        self._order = np.argsort(numbers, kind="stable")
        self._patterns, self._numbers = patterns, numbers[self._order]
        self._pair_shares: FloatArray | None = None
        super().__init__(table, weights=weights, rows=own[self._order], columns=columns, center=center, scale=scale)
        self._set_jacobian()

    def _set_jacobian(self) -> None:
        if self._scale is not None:
            self.log_jacobian = -float(self.column_weights @ np.log(self._scale))

    def __getstate__(self) -> dict[str, Any]:
        numbers = self._patterns.numbers[self._rows]
        own = {"_rows": np.arange(self.n_rows), "_patterns": self._patterns._replace(numbers=numbers)}
        return super().__getstate__() | own

    @property
    def weights(self) -> FloatArray | None:
        return None if self._weights is None else self._in_order(self._weights)

    @property
    def row_numbers(self) -> NDArray[np.intp]:
        assert self._rows is not None
        return self._in_order(self._rows)

    @property
    def is_wide(self) -> bool:
        """False: what rows lack has no second moments that rows could show."""
        return False

    def subset(self, selected: NDArray[np.intp]) -> IncompleteSamples:
        return IncompleteSamples(
            self._table,
            self._patterns,
            weights=self._all_weights,
            rows=self.row_numbers[selected],
            columns=self._columns,
            center=self._center,
            scale=self._scale,
        )

    def weighted(self, selected: NDArray[np.intp], weights: FloatArray) -> IncompleteSamples:
        local = self.subset(selected)
        local._weights, local._all_weights = weights[local._order], None
        local.total_weight = float(weights.sum())
        local._set_jacobian()
        return local

    # -- what is seen --

    @property
    def column_weights(self) -> FloatArray:
        weights, seen = self._own_patterns()
        return np.asarray(weights @ seen)

    def _own_patterns(self) -> tuple[FloatArray, BoolArray]:
        """Return the weights of the rows of each pattern that these rows have, (m,), and its columns, (m, d)."""
        weights = np.bincount(self._numbers, self._weights).astype(np.float64)
        present = np.flatnonzero(weights)
        return weights[present], self._patterns.seen[present]

    @property
    def pair_shares(self) -> FloatArray:
        """The share of the weight of rows that have cells in both of two columns, (d, d)."""
        # A cached_property of Python 3.11 has a lock, which a process forked in another thread would never get.
        if self._pair_shares is None:
            self._pair_shares = self.pairs_seen()[0] / self.total_weight
        return self._pair_shares

    def pairs_seen(self) -> tuple[FloatArray, BoolArray]:
        """Return the weights of the rows with cells in two columns, and whether a row has one in the first only."""
        weights, seen = self._own_patterns()
        cells = seen.astype(np.float64)
        return (cells.T * weights) @ cells, (cells.T @ (1.0 - cells)) > 0

    def covariance_seen(self, expected: FloatArray, covariance: FloatArray) -> tuple[FloatArray, float]:
        return covariance_seen(self.pair_shares, expected, covariance)

    def unseen_pairs(self) -> NDArray[Any]:
        return unseen_pairs(self.pair_shares)

    def complete(self) -> Samples:
        return self._some(np.sort(self._order[self._numbers == 0]))

    def shows(self, columns: NDArray[np.intp], other: int) -> bool:
        _, seen = self._own_patterns()
        return bool(seen[seen[:, other]][:, columns].all())

    def best_seen(self) -> IncompleteSamples:
        """Return the rows with the most cells: in others, what a model fills in hides groups, or looks like one."""
        counts = self._in_order(self._patterns.seen.sum(axis=1)[self._numbers])
        shares = np.bincount(counts, self.weights, self.n_features + 1)[::-1].cumsum() / self.total_weight
        least = self.n_features - int(np.argmax(shares >= _BEST_SEEN))
        return self._some(np.flatnonzero(counts >= least))

    def _some(self, selected: NDArray[np.intp]) -> IncompleteSamples:
        """Return some of these rows, by position, with their own weights."""
        weights = self.weights
        return self.weighted(selected, np.ones(len(selected)) if weights is None else weights[selected])

    def filled(self, parameters: Parameters) -> FloatArray:
        """Return all rows, (d, n), with the mean of one component given the other cells in place of missing ones."""
        loadings, mean = parameters.component_loadings(0), parameters.means[0]
        x = np.empty((self.n_features, self.n_rows))
        blocks = self.posterior(Evaluator(parameters), with_scores=True)
        for (chunk, _), block in zip(self.chunks(), blocks, strict=True):
            expected = mean[:, None] + loadings.T @ block.scores
            x[:, block.rows] = np.where(np.isnan(chunk), expected, chunk)
        return x

    # -- passes over the rows --

    def _in_order(self, values: NDArray[Any]) -> NDArray[Any]:
        ordered = np.empty_like(values)
        ordered[self._order] = values
        return ordered

    def _of_columns(self, columns: NDArray[np.intp]) -> Samples:
        patterns, rows = Patterns.of(self._table, columns), self.row_numbers
        if patterns is None:
            return Samples(self._table, rows=rows, columns=columns)
        return IncompleteSamples(self._table, patterns, rows=rows, columns=columns)

    def expect(self, iteration: Iteration, near: Near | None = None, parameters: Parameters | None = None) -> None:
        """Run the E-step of an EM iteration with second moments as whole matrices.

        With a background, a pass finds its share of the rows first, and the rest of each row counts in another one.
        """
        assert near is None
        if parameters is not None and parameters.background is not None:
            self._expect_beside_background(iteration, parameters)
            return
        iteration.clear()
        parts = self._parts(iteration.n_components, iteration.n_factors, iteration.row_work, iteration.merge_work)

        def make_adder() -> Adder:
            work = np.empty(_missing.iteration_work_length(iteration, self._step))

            def add(i: int, x: FloatArray, w: FloatArray | None, sums: FloatArray) -> None:
                _missing.accumulate(iteration, x, w, self._numbers_of(i), sums, work)

            return add

        for sums in self._sums_of_parts(make_adder, parts, len(iteration.sums)):
            iteration.add_sums(sums)

    def _expect_beside_background(self, iteration: Iteration, parameters: Parameters) -> None:
        share, log_densities = np.empty((2, self.n_rows))

        def put(block: PosteriorBlock) -> None:
            assert block.share is not None
            share[block.rows], log_densities[block.rows] = block.share, block.log_density

        self.over_posterior(parameters, put)
        ones = self.weights
        weights = np.ones(self.n_rows) if ones is None else ones
        self.weighted(np.arange(self.n_rows), weights * share).expect(iteration)
        rest = 1.0 - share
        own = -share * np.log(np.where(share > 0, share, 1.0)) - rest * np.log(np.where(rest > 0, rest, 1.0))
        # Log-likelihood and entropy of components and background together.
        iteration.sums[0] = log_densities @ weights
        iteration.sums[1] += own @ weights

    def _numbers_of(self, i: int) -> NDArray[np.intp]:
        """Return the patterns of the rows of a chunk."""
        return self._numbers[i * self._step : (i + 1) * self._step]

    def _looker(
        self, mixture: Evaluator, background: FloatArray | None, with_scores: bool, with_spreads: bool
    ) -> Callable[[int], PosteriorBlock]:
        read, parameters = self._reader(), mixture.parameters
        with_spreads = (with_scores or with_spreads) and parameters.n_tail_parameters > 0
        work = np.empty(_missing.work_length(parameters.offsets, parameters.n_features, self._step))
        seen = self._patterns.seen.sum(axis=1)

        def look(i: int) -> PosteriorBlock:
            x, row_weights = read(i)
            n, K, numbers = x.shape[1], parameters.n_components, self._numbers_of(i)
            log_density, responsibilities = np.empty(n), np.empty((K, n))
            scores = np.empty((len(parameters.loadings) if with_scores else 0, n))
            spreads = np.empty((K, n)) if with_spreads else None
            _missing.posterior(
                x,
                numbers,
                parameters.offsets,
                mixture.prepared,
                log_density,
                responsibilities,
                scores if with_scores else None,
                spreads,
                work,
            )
            places = self._order[i * self._step : i * self._step + n]
            block = PosteriorBlock(places, row_weights, log_density, responsibilities, scores, spreads, seen[numbers])
            return block if background is None else block.beside(background[places], parameters.background_weight)

        return look

    def log_likelihood(self, parameters: Parameters) -> float:
        def of_rows(block: PosteriorBlock) -> float:
            weights = block.row_weights
            return float(block.log_density.sum() if weights is None else block.log_density @ weights)

        return float(sum(self.over_posterior(parameters, of_rows)))
