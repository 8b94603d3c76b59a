"""Where rows come from: validation at the door, blocks of rows for the kernels, and the passes over them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa import _kurtosis, _posterior, _rows, _statistics
from amofa._em import Iteration
from amofa._exact import ExactIteration
from amofa.parameters import Evaluator, FloatArray, Parameters, Statistics

# Rows are read in chunks of about this many values (1 MB as float64), within bounds for their number, since outputs
# have other widths; sums are merged in chunk order.
_CHUNK_VALUES = 1 << 17
_CHUNK_ROWS_MIN, _CHUNK_ROWS_MAX = 256, 16384
# A table of at most this many values (8 MB) is kept, converted, from pass to pass.
_CACHE_VALUES = 1 << 20
# Types whose values the kernel reads as they are; blocks of others are copied to float64.
_LOADED = (np.dtype(np.float64), np.dtype(np.float32))

Chunk = tuple[FloatArray, FloatArray | None]


# ---- the door --------------------------------------------------------------------------------------------------------


def check_table(X: ArrayLike, *, name: str = "X", n_features: int | None = None) -> NDArray[Any]:
    """Check that X is a finite, real, two-dimensional table; copies no array but one of objects.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Any real dtype and memory layout.
    name : str
        What error messages call it.
    n_features : int, optional
        The number of columns that it must have.

    Returns
    -------
    (n, d) ndarray
        X itself where it is an array already.

    Raises
    ------
    TypeError
        Sparse, text, object or date input.
    ValueError
        Complex numbers, masked values, a wrong shape, no rows or columns, NaN or infinity.
    """
    # Whoever has a sparse matrix has imported this; we need not, which would take time at `import amofa`.
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(X):
        raise TypeError(f"{name} is a sparse matrix; pass {name}.toarray()")
    if np.ma.is_masked(X):
        raise ValueError(f"{name} has masked values; drop such rows or fill in values")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"{name} is no table ({error}); give all rows the same number of columns") from None
    table = _as_real(array, name)
    if table.ndim != 2:
        hint = f"; use {name}.reshape(-1, 1) for one column or {name}.reshape(1, -1) for one row"
        raise ValueError(
            f"{name} must have two dimensions (rows, columns), got {table.ndim}{hint if table.ndim == 1 else ''}"
        )
    if 0 in table.shape:
        raise ValueError(f"{name} has shape {table.shape}; at least one row and one column are needed")
    if n_features is not None and table.shape[1] != n_features:
        raise ValueError(f"{name} has {table.shape[1]} columns, but the model was made for {n_features}")
    _check_finite(table, name)
    return table


def _as_real(table: NDArray[Any], name: str) -> NDArray[Any]:
    if table.dtype.kind in "biuf":
        return table
    if table.dtype.kind == "c":
        raise ValueError(f"{name} is complex; pass its real part, or real and imaginary parts as columns")
    if table.dtype.kind == "O":
        try:
            return table.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} holds values that are not numbers ({error}); encode or drop them") from None
    raise TypeError(f"{name} has dtype {table.dtype}; a table of real numbers is needed: encode or drop other columns")


def _check_finite(table: NDArray[Any], name: str) -> None:
    if table.dtype.kind != "f":
        return
    bad, first = 0, None
    rows = max(1, _CHUNK_VALUES // table.shape[1])
    for start in range(0, len(table), rows):
        # As float64, which is what it will be read as: longer floats may have no finite value there.
        with np.errstate(over="ignore"):
            wrong = ~np.isfinite(table[start : start + rows].astype(np.float64, copy=False))
        count = int(np.count_nonzero(wrong))
        if count and first is None:
            i, j = np.argwhere(wrong)[0]
            first = (start + int(i), int(j))
        bad += count
    if first is not None:
        raise ValueError(
            f"{name} has {bad} value{'s' if bad > 1 else ''} that {'are' if bad > 1 else 'is'} NaN or infinite, the "
            f"first in row {first[0]}, column {first[1]} (from 0); drop such rows or fill in values"
        )


def check_weights(sample_weight: ArrayLike, n: int) -> FloatArray:
    """Check row weights: (n,) finite, not negative, not all 0. Returns float64."""
    weights = np.asarray(sample_weight)
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"sample_weight must hold real numbers, got dtype {weights.dtype}")
    weights = weights.astype(np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}, but X has {n} rows; pass one weight per row")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"sample_weight must be finite and not negative, got {weights[i]} in row {i} (from 0)")
    if not weights.any():
        raise ValueError("sample_weight is 0 in every row; at least one row must count")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):
            raise ValueError("sample_weight has no finite sum; divide it by a constant")
    return np.ascontiguousarray(weights)


def counted_rows(weights: FloatArray | None) -> NDArray[np.intp] | None:
    """Rows that count, or None for all: one of weight 0 is absent, even where its log density is minus infinity."""
    return None if weights is None or weights.all() else np.flatnonzero(weights)


# ---- rows ------------------------------------------------------------------------------------------------------------


class PosteriorBlock(NamedTuple):
    """What the kernels say about some successive rows."""

    rows: slice
    row_weights: FloatArray | None  # (n,)
    log_density: FloatArray  # (n,) nats
    responsibilities: FloatArray  # (K, n)
    scores: FloatArray  # (P, n), or (0, n) where not asked for


class Samples:
    """Rows of a table, brought block by block into the kernels' form: float64, features first, shifted and scaled.

    Parameters
    ----------
    table : (n, d) ndarray
        As checked by `check_table`; never copied whole, unless it is small.
    weights : (n,) float64, optional
        Row weights; 1 where not given.
    rows : (m,) intp, optional
        The rows that count; all where not given.
    columns : (c,) intp, optional
        The columns that count; all where not given.
    center, scale : (c,) float64, optional
        Rows are given out as (x - center) / scale.

    Attributes
    ----------
    n_rows, n_features : int
    total_weight : float
        Sum of the row weights.
    log_jacobian : float
        What to add to a log-likelihood of the scaled rows to have that of the table, nats.
    """

    def __init__(
        self,
        table: NDArray[Any],
        *,
        weights: FloatArray | None = None,
        rows: NDArray[np.intp] | None = None,
        columns: NDArray[np.intp] | None = None,
        center: FloatArray | None = None,
        scale: FloatArray | None = None,
    ) -> None:
        self._table, self._rows, self._columns = table, rows, columns
        self._center, self._scale = center, scale
        self._weights = weights if weights is None or rows is None else weights[rows]
        self.n_rows = len(table) if rows is None else len(rows)
        self.n_features = table.shape[1] if columns is None else len(columns)
        self.total_weight = float(self.n_rows if self._weights is None else self._weights.sum())
        self.log_jacobian = 0.0 if scale is None else -self.total_weight * float(np.log(scale).sum())
        self._all_weights = weights
        self._origin = np.zeros(self.n_features) if center is None else center
        self._factor = np.ones(self.n_features) if scale is None else 1.0 / scale
        self._cache: list[Chunk] | None = None

    @property
    def weights(self) -> FloatArray | None:
        """Row weights, (n,); None for ones."""
        return self._weights

    def subset(self, selected: NDArray[np.intp]) -> Samples:
        """Some of these rows, by their positions among them, in the same coordinates."""
        rows = selected if self._rows is None else self._rows[selected]
        return Samples(
            self._table,
            weights=self._all_weights,
            rows=rows,
            columns=self._columns,
            center=self._center,
            scale=self._scale,
        )

    def weighted(self, selected: NDArray[np.intp], weights: FloatArray) -> Samples:
        """Some of these rows with weights of their own, (m,)."""
        local = self.subset(selected)
        if self.log_jacobian:
            local.log_jacobian = self.log_jacobian / self.total_weight * float(weights.sum())
        local._weights, local._all_weights = weights, None
        local.total_weight = float(weights.sum())
        return local

    def chunks(self) -> Iterator[Chunk]:
        """All rows in order, as (d, n) float64 blocks with their weights."""
        if self._cache is None and self.n_rows * self.n_features <= _CACHE_VALUES:
            self._cache = list(self._read(lambda n: np.empty((self.n_features, n))))
        return self._read(lambda n: np.empty((self.n_features, n))) if self._cache is None else iter(self._cache)

    def _passing_chunks(self) -> Iterator[Chunk]:
        """The same; what came before is overwritten by the next, where rows are not kept."""
        if self.n_rows * self.n_features <= _CACHE_VALUES:
            return self.chunks()
        memory = np.empty(self.n_features * self._step)
        return self._read(lambda n: memory[: self.n_features * n].reshape(self.n_features, n))

    @property
    def _step(self) -> int:
        # An odd number of cache lines (8 values), so that features do not fall onto each other in the cache.
        return max(_CHUNK_ROWS_MIN, min(_CHUNK_ROWS_MAX, _CHUNK_VALUES // self.n_features)) // 16 * 16 + 8

    def _read(self, memory: Callable[[int], FloatArray]) -> Iterator[Chunk]:
        """Read the table into arrays (d, n) that `memory` makes."""
        for start in range(0, self.n_rows, self._step):
            stop = min(start + self._step, self.n_rows)
            x = memory(stop - start)
            _rows.load(self._block(start, stop), self._origin, self._factor, x)
            yield x, None if self._weights is None else self._weights[start:stop]

    def _block(self, start: int, stop: int) -> NDArray[Any]:
        """Rows of the table in a form that the kernel reads; those of most tables are not copied."""
        block = self._table[start:stop] if self._rows is None else self._table[self._rows[start:stop]]
        if self._columns is not None:
            block = block[:, self._columns]
        return block if block.dtype in _LOADED and block.flags.c_contiguous else np.ascontiguousarray(block, np.float64)

    # -- passes over the rows --

    def accumulate(self, mixture: Evaluator, statistics: Statistics, *, with_entropy: bool = True) -> None:
        """One E-step pass: `statistics` becomes that of these rows."""
        statistics.buffer.fill(0.0)
        offsets = mixture.parameters.offsets
        for x, w in self._passing_chunks():
            _statistics.accumulate(x, w, offsets, mixture.prepared, statistics.buffer, mixture.work, with_entropy)

    def expect(self, iteration: Iteration | ExactIteration) -> None:
        """The same within an EM run, whose buffers are bound already."""
        iteration.clear()
        for x, w in self._passing_chunks():
            iteration.accumulate(x, w)

    def posterior(self, mixture: Evaluator, *, with_scores: bool = False) -> Iterator[PosteriorBlock]:
        """Log densities, responsibilities and, if asked for, factor scores of all rows in order."""
        parameters = mixture.parameters
        start = 0
        for x, row_weights in self._passing_chunks():
            n = x.shape[1]
            log_density, responsibilities = np.empty(n), np.empty((parameters.n_components, n))
            scores = np.empty((len(parameters.loadings) if with_scores else 0, n))
            _posterior.posterior(
                x,
                parameters.offsets,
                mixture.prepared,
                log_density,
                None,
                responsibilities,
                scores if with_scores else None,
                mixture.work,
            )
            yield PosteriorBlock(slice(start, start + n), row_weights, log_density, responsibilities, scores)
            start += n

    def responsibilities(self, parameters: Parameters) -> FloatArray:
        """Of all rows, times the row weights, (K, n)."""
        result = np.empty((parameters.n_components, self.n_rows))
        for block in self.posterior(Evaluator(parameters)):
            result[:, block.rows] = block.responsibilities
            if block.row_weights is not None:
                result[:, block.rows] *= block.row_weights
        return result

    def labels(self, parameters: Parameters) -> NDArray[np.intp]:
        """The component of largest responsibility of every row, (n,) intp."""
        labels = np.empty(self.n_rows, dtype=np.intp)
        for block in self.posterior(Evaluator(parameters)):
            np.argmax(block.responsibilities, axis=0, out=labels[block.rows])
        return labels

    def moments(self, parameters: Parameters) -> Moments:
        """Soft counts and covariances of every component, by one pass. Memory O(K d^2)."""
        K, d = parameters.n_components, self.n_features
        mixture = Evaluator(parameters)
        counts, first, scatter = np.zeros(K), np.zeros((K, d)), np.zeros((K, d, d))
        for x, w in self._passing_chunks():
            _statistics.accumulate_scatter(
                x, w, parameters.offsets, mixture.prepared, counts, first, scatter, mixture.work
            )
        divisor = np.where(counts > 0, counts, 1.0)
        first /= divisor[:, None]
        covariances = scatter / divisor[:, None, None]
        covariances -= first[:, :, None] * first[:, None, :]
        return Moments(counts, parameters.means + first, covariances)

    def kurtosis_z(self, parameters: Parameters) -> FloatArray:
        """Standardised weighted Mardia kurtosis of every component, (K,).

        gamma_k = (b_k - d (d + 2)) / sqrt(8 d (d + 2) / N_k)   (paper, eq. mardiamvkurt); about 0 for a Gaussian.
        """
        mixture = Evaluator(parameters)
        counts, fourth = np.zeros(parameters.n_components), np.zeros(parameters.n_components)
        for x, w in self._passing_chunks():
            _kurtosis.accumulate_kurtosis(x, w, parameters.offsets, mixture.prepared, counts, fourth, mixture.work)
        gaussian = self.n_features * (self.n_features + 2)
        excess = fourth / np.where(counts > 0, counts, 1.0) - gaussian
        gamma: FloatArray = excess * np.sqrt(counts / (8 * gaussian))
        return gamma


@dataclass(frozen=True)
class Moments:
    """Responsibility-weighted moments of the components."""

    soft_counts: FloatArray  # (K,)
    means: FloatArray  # (K, d)
    covariances: FloatArray  # (K, d, d) about these means, divisor N_k
