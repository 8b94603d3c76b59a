"""Rows with missing cells: their posterior under the mixture of their observed columns.

A factor analyser without some of its columns is again one, without their rows of the loadings, and with the same
degrees of freedom if its distribution is a t. So for a row with missing cells, NaN, the kernels are called with the
mixture of its observed columns. If no digits are at stake, a kernel does this for rows of many patterns side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from amofa._data.incomplete import samples_of
from amofa._data.row_chunks import PosteriorBlock, Samples
from amofa._kernels._mixture import RESIDUAL_FORM as RESIDUAL
from amofa._kernels._mixture import WOODBURY_FORM as WOODBURY
from amofa._parameters import Evaluator, Parameters
from amofa._typing import FloatArray

Columns = NDArray[np.intp]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
Result = TypeVar("Result")

# Rows are searched for missing cells in batches of about this number of cells, and at most this number of rows. A
# pattern is prepared once in each batch, and a batch takes as much memory as a chunk of rows in `Samples`.
_BATCH_CELLS, _BATCH_ROWS = 1 << 20, 1 << 16


# ---- rows by the pattern of their missing cells ----------------------------------------------------------------------


def patterns(table: NDArray[Any], rows: Rows | None = None) -> Iterator[tuple[Rows, Mask]]:
    """Yield groups of rows of a table, of those that count, that have the same cells missing, NaN.

    A group is the positions of its rows among those that count, (s,) intp and increasing, and the columns in which all
    of them have values, (d,) bool. Each row occurs once.
    """
    return chain.from_iterable(batches(table, rows))


def batches(table: NDArray[Any], rows: Rows | None = None) -> Iterator[Iterator[tuple[Rows, Mask]]]:
    """Yield the groups of successive rows, in batches."""
    n = len(table) if rows is None else len(rows)
    step = min(_BATCH_ROWS, max(1, _BATCH_CELLS // max(1, table.shape[1])))
    for start in range(0, n, step):
        positions = np.arange(start, min(start + step, n))
        yield _groups(positions, np.isnan(table[start : start + step] if rows is None else table[rows[positions]]))


def _groups(positions: Rows, missing: Mask) -> Iterator[tuple[Rows, Mask]]:
    """Yield the groups of rows that have these cells (n, d) missing."""
    incomplete = missing.any(axis=1)
    if not incomplete.all():
        yield positions[~incomplete], np.ones(missing.shape[1], dtype=np.bool_)
    yield from _alike(positions[incomplete], missing[incomplete])


def _alike(positions: Rows, missing: Mask) -> Iterator[tuple[Rows, Mask]]:
    """Yield groups of rows with equal rows of `missing` (n, d)."""
    packed = np.packbits(missing, axis=1)
    order = np.lexsort(packed.T) if len(packed) else np.arange(0)
    changes = (packed[order[1:]] != packed[order[:-1]]).any(axis=1)
    for group in np.split(order, np.flatnonzero(changes) + 1):
        if len(group):
            yield positions[group], ~missing[group[0]]


class IncompleteRows:
    """Rows of a table with missing cells, NaN, with the passes of `Samples`.

    The table is (n, d) floats, finite except for NaN; `weights` (n,) are by default 1, and `rows` (m,) intp are those
    that count, by default all.
    """

    def __init__(self, table: NDArray[Any], *, weights: FloatArray | None = None, rows: Rows | None = None) -> None:
        self._table, self._weights, self._rows = table, weights, rows
        everything = Samples(table, weights=weights, rows=rows)
        self.n_rows, self.total_weight = everything.n_rows, everything.total_weight

    def over_posterior(
        self, parameters: Parameters, function: Callable[[PosteriorBlock], Result], *, with_scores: bool = False
    ) -> list[Result]:
        """Return the results of a function for each block of rows; log densities are those of the observed cells.

        Blocks are ordered by pattern of missing cells; `PosteriorBlock.rows` has positions. A row without observed
        cells has log density 0, the mixing weights as responsibilities, and scores 0.
        """
        background, weight = self.background_of(parameters), parameters.background_weight
        parameters = parameters.with_background(None)

        def of_block(block: PosteriorBlock) -> Result:
            return function(block if background is None else block.beside(background[block.rows], weight))

        # Fewer digits are at stake for densities, which are at a maximum over factor scores.
        is_accurate = Evaluator(parameters).largest_form <= (WOODBURY if with_scores else RESIDUAL)
        results = []
        for batch in batches(self._table, self._rows):
            together = []
            for positions, observed in batch:
                if is_accurate and observed.any() and not observed.all():
                    together.append(positions)
                    continue
                rows = positions if self._rows is None else self._rows[positions]
                results += over_pattern(
                    parameters, self._table, rows, observed, of_block, self._weights, with_scores, positions
                )
            if together:
                results += self._side_by_side(parameters, np.concatenate(together), of_block, with_scores)
        return results

    def with_cells(self) -> IncompleteRows | None:
        """Return the rows that have cells; None if there are none."""
        kept = [positions for positions, observed in patterns(self._table, self._rows) if observed.any()]
        positions = np.sort(np.concatenate([np.arange(0), *kept]))
        rows = positions if self._rows is None else self._rows[positions]
        return IncompleteRows(self._table, weights=self._weights, rows=rows) if len(rows) else None

    def _side_by_side(
        self,
        parameters: Parameters,
        positions: Rows,
        function: Callable[[PosteriorBlock], Result],
        with_scores: bool,
    ) -> list[Result]:
        """Return the results of a function for blocks of rows of many patterns."""
        rows = positions if self._rows is None else self._rows[positions]
        samples = samples_of(self._table[rows], weights=None if self._weights is None else self._weights[rows])

        def place(block: PosteriorBlock) -> Result:
            return function(block._replace(rows=positions[block.rows]))

        return samples.over_posterior(parameters, place, with_scores=with_scores)

    def background_of(self, parameters: Parameters) -> FloatArray | None:
        """Return the log densities of the rows under the background of a mixture: see `Samples.background_of`."""
        if parameters.background is None:
            return None
        density = parameters.background.density
        log_densities = np.empty(self.n_rows)
        for start in range(0, self.n_rows, _BATCH_ROWS):
            stop = min(start + _BATCH_ROWS, self.n_rows)
            rows = self._table[start:stop] if self._rows is None else self._table[self._rows[start:stop]]
            log_densities[start:stop] = density.log_density(rows.T.astype(np.float64))
        if density.covers.all():
            return log_densities
        columns = np.flatnonzero(density.covers)
        of_some = IncompleteRows(self._table[:, columns], weights=self._weights, rows=self._rows)
        return log_densities + self._log_densities(parameters) - of_some._log_densities(parameters.of_columns(columns))

    def _log_densities(self, parameters: Parameters) -> FloatArray:
        """Return the log densities of the components without a background, (n,)."""
        log_densities = np.empty(self.n_rows)

        def put(block: PosteriorBlock) -> None:
            log_densities[block.rows] = block.log_density

        self.over_posterior(parameters.with_background(None), put)
        return log_densities

    def labels(self, parameters: Parameters) -> NDArray[np.intp]:
        """Return the component with the largest responsibility for every row, or -1 for the background, (n,) intp."""
        labels = np.empty(self.n_rows, dtype=np.intp)

        def put(block: PosteriorBlock) -> None:
            labels[block.rows] = block.most_probable()

        self.over_posterior(parameters, put)
        return labels


def over_pattern(
    parameters: Parameters,
    table: NDArray[Any],
    rows: Rows,
    observed: Mask,
    function: Callable[[PosteriorBlock], Result],
    weights: FloatArray | None = None,
    with_scores: bool = True,
    positions: Rows | None = None,
) -> list[Result]:
    """Return the results of a function for blocks of rows that have the same cells observed.

    In the blocks, rows have their positions in the table, or other ones.
    """
    positions = rows if positions is None else positions
    columns = np.flatnonzero(observed)
    if len(columns) == 0:
        prior = _prior(parameters, len(rows), None if weights is None else weights[rows])
        return [function(prior._replace(rows=positions))]
    if len(columns) == parameters.n_features:
        samples = Samples(table, weights=weights, rows=rows)
    else:
        samples = Samples(table, weights=weights, rows=rows, columns=columns)
        parameters = parameters.of_columns(columns)
    narrow, turns = _with_fewest_factors(parameters)

    def place(block: PosteriorBlock) -> Result:
        is_turned = with_scores and narrow is not parameters
        scores = _turned(block.scores, narrow.offsets, turns) if is_turned else block.scores
        return function(block._replace(rows=positions[block.rows], scores=scores))

    return samples.over_posterior(narrow, place, with_scores=with_scores)


def _prior(parameters: Parameters, n: int, row_weights: FloatArray | None) -> PosteriorBlock:
    """Return the posterior of n rows without observed cells."""
    responsibilities = np.repeat(parameters.weights[:, None], n, axis=1)
    scores = np.zeros((len(parameters.loadings), n))
    spreads = np.ones_like(responsibilities) if np.isfinite(parameters.degrees_of_freedom).any() else None
    return PosteriorBlock(slice(0, n), row_weights, np.zeros(n), responsibilities, scores, spreads)


# ---- mixtures of some columns ----------------------------------------------------------------------------------------


def _with_fewest_factors(parameters: Parameters) -> tuple[Parameters, list[FloatArray | None]]:
    """Return the same mixture with no more factors than columns, and the maps to the original factor scores.

    With fewer columns than factors, o < p, the columns do not determine some directions of the factors. C then has
    eigenvalues of 1 besides those of the columns, which may be 1e12, and would lose the digits of the former. So
    Psi^-1/2 Lambda = R'Q' by a QR decomposition, Q (p, o) with orthonormal columns: loadings Psi^1/2 R' are equivalent,
    and if z are their factor scores, Q z are the original ones. The map of a component is its Q, (p_k, o), or None if
    its number of factors is the same.
    """
    o = parameters.n_features
    narrow = Parameters(o, [min(p, o) for p in parameters.n_factors])
    turns: list[FloatArray | None] = [None] * parameters.n_components
    if narrow.n_factors == parameters.n_factors:
        return parameters, turns
    for name in ("weights", "degrees_of_freedom", "means", "uniquenesses"):
        getattr(narrow, name)[:] = getattr(parameters, name)
    for k, component in enumerate(parameters.components()):
        if len(component.loadings) > o:
            scale = np.sqrt(component.uniquenesses)
            # The most informative columns come first, otherwise they would drown the others in rounding.
            turns[k], root, order = qr(component.loadings / scale, mode="economic", pivoting=True)
            narrow.component_loadings(k)[:, order] = root * scale[order]
        else:
            narrow.component_loadings(k)[:] = component.loadings
    return narrow, turns


def _turned(scores: FloatArray, offsets: Columns, turns: list[FloatArray | None]) -> FloatArray:
    """Return factor scores (P, n) from those of the smallest number of factors, which start at offsets."""
    parts = zip(np.split(scores, offsets[1:-1]), turns, strict=True)
    return np.concatenate([part if turn is None else turn @ part for part, turn in parts])
