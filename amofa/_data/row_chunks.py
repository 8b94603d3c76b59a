"""Rows of a table in chunks for the kernels, and passes over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from amofa._background import BackgroundDensity
from amofa._kernels import _kurtosis, _posterior, _rows
from amofa._kernels._iteration import Iteration
from amofa._kernels._pairs import Pairs
from amofa._parameters import Evaluator, Parameters
from amofa._typing import FloatArray
from amofa.threads import THREADS, Executor, OneEach, in_order

# Rows are read in chunks of about this number of values (1 MB as float64), within bounds for the number of rows, since
# outputs have other widths.
_CHUNK_VALUES = 1 << 17
_CHUNK_ROWS_MIN, _CHUNK_ROWS_MAX = 256, 16384
# The chunks of a pass form at most this number of parts, a power of two, which run in parallel; sums over them are
# added in order. A part takes at least about a millisecond, and this multiple of the work of adding its sums. With more
# than two parts, the sums of all together have at most this number of values (64 MB).
_MOST_PARTS = 16
_LEAST_PART_WORK = 1 << 21
_LEAST_PART_SHARE = 256
_PART_SUMS_VALUES = 1 << 23
# A table of at most this number of values (8 MB) is kept, converted, from pass to pass.
_CACHE_VALUES = 1 << 20
_ONE_PART = [range(1)]
# Some steps of a search read rows at random, so these are held in memory. Above this number of rows, or of values (64
# MB), but never with fewer than this number of rows for each column, evenly spread rows represent all.
_HELD_ROWS, _HELD_VALUES, _HELD_ROWS_PER_COLUMN = 1 << 18, 1 << 23, 32
_GOLDEN = (math.sqrt(5) - 1) / 2
# Types that the kernel reads directly; blocks of others are copied to float64.
_LOADED = (np.dtype(np.float64), np.dtype(np.float32))

Chunk = tuple[FloatArray, FloatArray | None]
# Adds what a chunk, given by its number, its rows and their weights, has to sums.
Adder = Callable[[int, FloatArray, FloatArray | None, FloatArray], None]
Result = TypeVar("Result")


class PosteriorBlock(NamedTuple):
    """The results of the kernels for some successive rows."""

    rows: slice | NDArray[np.intp]  # positions of these rows
    row_weights: FloatArray | None  # (n,)
    log_density: FloatArray  # (n,) nats
    responsibilities: FloatArray  # (K, n)
    scores: FloatArray  # (P, n), or (0, n) if not asked for
    spreads: FloatArray | None = None  # (K, n), of t components with scores or if asked for: see `Evaluator.spreads`
    n_seen: NDArray[np.intp] | None = None  # (n,) numbers of cells, if some may be missing
    share: FloatArray | None = None  # (n,) posterior probability of the components, if there is a background

    def beside(self, background: FloatArray, weight: float) -> PosteriorBlock:
        """Return the block with a background of these log densities (n,): responsibilities are for the components."""
        log_density, share = self.log_density.copy(), np.empty_like(self.log_density)
        _posterior.add_background(background, weight, log_density, share)
        return self._replace(log_density=log_density, share=share)

    def most_probable(self) -> NDArray[np.intp]:
        """Return the component with the largest responsibility for every row, or -1 for the background, (n,) intp."""
        labels: NDArray[np.intp] = np.argmax(self.responsibilities, axis=0)
        if self.share is not None:
            labels[1.0 - self.share > self.share * self.responsibilities.max(axis=0)] = -1
        return labels


@dataclass(frozen=True)
class Near:
    """The pairs of components and rows with a responsibility above a bound, as a pass marks them."""

    marks: NDArray[np.uint8]  # (K, n)
    kept: FloatArray  # (n,) sums of these responsibilities of each row
    least: float

    @classmethod
    def of_nothing(cls, n_components: int, n_rows: int, least: float) -> Near:
        return cls(np.zeros((n_components, n_rows), dtype=np.uint8), np.zeros(n_rows), least)


class Samples:
    """Rows of a table, converted in chunks to the form of the kernels: float64, features first, shifted and scaled.

    Parameters
    ----------
    table : (n, d) ndarray
        As `check_table` returns it; never copied as a whole, unless it is small.
    weights : (n,) float64, optional
        Row weights; by default 1. Their sum is the attribute `total_weight`.
    rows, columns : (m,), (c,) intp, optional
        The rows and columns that count; by default all.
    center, scale : (c,) float64, optional
        Rows are returned as (x - center) / scale. The attribute `log_jacobian` is the log-likelihood of the table minus
        that of the scaled rows, in nats.
    """

    # Whether no cell is missing.
    is_complete = True

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
        # Log densities of the rows under a background, which is the same in all of a search.
        self._background: tuple[BackgroundDensity, FloatArray] | None = None
        self._step = _chunk_rows(self.n_rows, self.n_features)
        self._n_chunks = -(-self.n_rows // self._step)
        # Kept from pass to pass: the system would take back such a large piece, and return it page by page. It has no
        # reference to these rows, whose memory would otherwise be freed only by the garbage collector.
        self._memory = OneEach(partial(np.empty, self.n_features * self._step))

    def __getstate__(self) -> dict[str, Any]:
        """Return these rows, without others of their table and without what only saves time, for another process."""
        state = vars(self) | {"_cache": None, "_background": None}
        if self._rows is not None:
            weights = self._all_weights
            own = None if weights is None else weights[self._rows]
            state |= {"_table": self._table[self._rows], "_rows": None, "_all_weights": own}
        return state

    @property
    def weights(self) -> FloatArray | None:
        """Row weights, (n,); None for ones."""
        return self._weights

    @property
    def executor(self) -> Executor:
        """Who works on independent tasks of a search on these rows."""
        return THREADS

    @property
    def row_numbers(self) -> NDArray[np.intp]:
        """The numbers of these rows in the table, (n,)."""
        return np.arange(len(self._table)) if self._rows is None else self._rows

    @property
    def is_wide(self) -> bool:
        """Whether there are fewer rows than columns: (d, d) arrays are then too large, and rows do."""
        return self.n_rows < self.n_features

    @property
    def column_weights(self) -> FloatArray:
        """The weights of the rows that have a cell in each column, (d,)."""
        return np.full(self.n_features, self.total_weight)

    @property
    def row_count(self) -> float:
        """Number of rows that the weights stand for: their sum, or the number of rows if that is more."""
        return max(self.n_rows, self.total_weight)

    def subset(self, selected: NDArray[np.intp]) -> Samples:
        """Return some of these rows, by position, in the same coordinates."""
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
        """Return some of these rows with other weights, (m,)."""
        local = self.subset(selected)
        if self.log_jacobian:
            local.log_jacobian = self.log_jacobian / self.total_weight * float(weights.sum())
        local._weights, local._all_weights = weights, None
        local.total_weight = float(weights.sum())
        return local

    def thinned(self, most: int | None = None) -> Samples:
        """Return these rows or, if there are more than `most`, evenly spread ones with the weight of all.

        By default as many as may be held in memory.
        """
        most = n_held(self.n_features) if most is None else most
        if self.n_rows <= most:
            return self
        selected = spread_rows(self.n_rows, most)
        weights = np.ones(most) if self.weights is None else self.weights[selected]
        return self.weighted(selected, weights * (self.total_weight / weights.sum()))

    # -- chunks of rows --

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in order, as (d, n) float64 blocks with their weights."""
        if self.is_small:
            return iter(self._kept())
        return (self._load(i, np.empty(self.n_features * self._step)) for i in range(self._n_chunks))

    def first_chunk(self) -> FloatArray:
        """Return the first rows, (d, m)."""
        return next(iter(self.chunks()))[0]

    def reduce(
        self,
        function: Callable[[FloatArray, FloatArray | None], Result],
        merge: Callable[[Result, Result], Result],
    ) -> Result:
        """Return what a function makes of chunks of rows (d, m) with their weights, merged in order."""
        return reduce(merge, (function(x, w) for x, w in self.chunks()))

    def filled(self, parameters: Parameters) -> FloatArray:
        """Return all rows, (d, n); where cells are missing, a mixture of one component fills them in."""
        return np.concatenate([x for x, _ in self.chunks()], axis=1)

    def complete(self) -> Samples:
        """Return the rows that lack no cells."""
        return self

    def shows(self, columns: NDArray[np.intp], other: int) -> bool:
        """Return whether each row that has a cell in the other column has cells in all of these."""
        return True

    def covariance_seen(self, expected: FloatArray, covariance: FloatArray) -> tuple[FloatArray, float]:
        """Return second moments (d, d) as the pairs of cells that are seen show them, and the share of these pairs."""
        return covariance, 1.0

    def unseen_pairs(self) -> NDArray[Any]:
        """Return the pairs of columns that no row has cells in both of, (m, 2): none."""
        return np.empty((0, 2), dtype=np.intp)

    def best_seen(self) -> Samples:
        """Return these rows, of which none lacks cells."""
        return self

    @property
    def is_small(self) -> bool:
        """Whether the rows are kept, converted, from pass to pass."""
        return self.n_rows * self.n_features <= _CACHE_VALUES

    def _kept(self) -> list[Chunk]:
        """Return the chunks of a small table."""
        if self._cache is None:
            self._cache = [self._load(i, np.empty(self.n_features * self._step)) for i in range(self._n_chunks)]
        return self._cache

    def _reader(self) -> Callable[[int], Chunk]:
        """Return a function for one thread that reads chunks by number; a chunk may overwrite the one before."""
        if self.is_small:
            return self._kept().__getitem__
        memory = self._memory.get()
        return lambda i: self._load(i, memory)

    def _load(self, i: int, memory: FloatArray) -> Chunk:
        """Read a chunk of the table into memory."""
        start = i * self._step
        stop = min(start + self._step, self.n_rows)
        x = memory[: self.n_features * (stop - start)].reshape(self.n_features, stop - start)
        _rows.load(self._block(start, stop), self._origin, self._factor, x)
        return x, None if self._weights is None else self._weights[start:stop]

    def _block(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows of the table in a form that the kernel reads, without a copy for most tables."""
        block = self._table[start:stop] if self._rows is None else self._table[self._rows[start:stop]]
        if self._columns is not None:
            block = block[:, self._columns]
        return block if _is_loaded(block) else np.require(block, np.float64, ("C", "A"))

    # -- parts of a pass, for several threads --

    def _parts(self, n_components: int, n_factors: int, row_work: int = 0, size: int = 0) -> list[range]:
        """Return the numbers of the chunks of each part of a pass, which do not depend on the number of threads.

        `n_factors` is for all components together, `row_work` counts the multiplications for each row beyond those of
        the E-step, and `size` the values of the sums of a part.
        """
        if self._n_chunks == 1:
            return _ONE_PART
        # In multiplications; an exponential costs about sixteen.
        work = self.n_rows * (self.n_features * (n_factors + n_components) + 16 * n_components + row_work)
        least, n_chunks = max(_LEAST_PART_WORK, _LEAST_PART_SHARE * size), self._n_chunks
        most = min(n_chunks, _MOST_PARTS, work // least, max(2, _PART_SUMS_VALUES // max(1, size)))
        n_parts = 1 << max(1, most).bit_length() - 1
        bounds = [n_chunks * part // n_parts for part in range(n_parts + 1)]
        return [range(*pair) for pair in pairwise(bounds)]

    def _in_parts(
        self, make_worker: Callable[[], Callable[[range], Result]], parts: Sequence[range]
    ) -> Iterable[Result]:
        if self.is_small:
            # Before several threads would do it.
            self._kept()
        return in_order(make_worker, parts)

    # -- passes over the rows --

    def background_of(self, parameters: Parameters) -> FloatArray | None:
        """Return the log densities of the rows under the background of a mixture, (n,); None if it has none.

        In columns that the background does not cover, they are those of the components given the others.
        """
        if parameters.background is None:
            return None
        density = parameters.background.density
        if self._background is None or not density.equals(self._background[0]):
            found = np.concatenate([density.log_density(x) for x, _ in self.chunks()])
            self._background = density, self._in_order(found)
        log_densities, covers = self._background[1], density.covers
        if covers.all():
            return log_densities
        columns = np.flatnonzero(covers)
        return (
            log_densities
            + self._log_densities(parameters)
            - self._of_columns(columns)._log_densities(parameters.of_columns(columns))
        )

    def _in_order(self, values: FloatArray) -> FloatArray:
        """Return values of the rows in the order of a pass, (n,), in that of the rows."""
        return values

    def _of_columns(self, columns: NDArray[np.intp]) -> Samples:
        """Return some columns of rows that are neither shifted nor scaled."""
        return Samples(self._table, rows=self._rows, columns=columns)

    def _log_densities(self, parameters: Parameters) -> FloatArray:
        """Return the log densities of the components without a background, (n,)."""
        log_densities = np.empty(self.n_rows)

        def put(block: PosteriorBlock) -> None:
            log_densities[block.rows] = block.log_density

        self.over_posterior(parameters.with_background(None), put)
        return log_densities

    def expect(self, iteration: Iteration, near: Near | None = None, parameters: Parameters | None = None) -> None:
        """Run the E-step of an EM iteration: its sums become those of these rows; mark pairs that are near.

        If the mixture has a background, its `parameters` are needed.
        """
        iteration.clear()
        background = None if parameters is None else self.background_of(parameters)
        weight = 0.0 if parameters is None else parameters.background_weight

        def places(i: int) -> tuple[Any, ...]:
            rows = slice(i * self._step, (i + 1) * self._step)
            marks = (None, None, 0.0) if near is None else (near.marks[:, rows], near.kept[rows], near.least)
            return (*marks, None if background is None else background[rows], weight)

        if near is not None:
            near.kept[:] = 0.0
        parts = self._parts(iteration.n_components, iteration.n_factors, iteration.row_work, iteration.merge_work)
        if len(parts) == 1:
            # Most calls are for small tables, without threads.
            read = self._reader()
            for i in range(self._n_chunks):
                iteration.accumulate(*read(i), None, None, *places(i))
            return

        def make_adder() -> Adder:
            scratch = np.empty(iteration.scratch_size)
            return lambda i, x, w, sums: iteration.accumulate(x, w, sums, scratch, *places(i))

        for sums in self._sums_of_parts(make_adder, parts, len(iteration.sums)):
            iteration.add_sums(sums)

    def pairs(self, iteration: Iteration, near: Near) -> Pairs:
        """Return the pairs that a pass of this iteration marked, with their rows."""
        pairs = Pairs(iteration, near.marks, near.kept if self._weights is None else near.kept * self._weights)
        for i, (x, _) in enumerate(self.chunks()):
            pairs.read(x, i * self._step)
        return pairs

    def sums(self, parameters: Parameters, *, full: bool = False, with_entropy: bool = True) -> FloatArray:
        """Return the sufficient statistics of these rows under a mixture, by one E-step pass.

        See `amofa._kernels._statistics.accumulate` for what the array holds.
        """
        evaluator, row_work = Evaluator(parameters), self.n_features**2 if full else 0
        add = partial(Evaluator.accumulate, full=full, with_entropy=with_entropy)
        return self._sums(evaluator, len(evaluator.sums(full=full)), add, row_work)

    def log_likelihood(self, parameters: Parameters) -> float:
        """Return the log-likelihood of a mixture in these coordinates, in nats."""
        if parameters.background is not None:
            ones = np.ones(self.n_rows) if self._weights is None else self._weights
            return sum(self.over_posterior(parameters, lambda block: float(block.log_density @ ones[block.rows])))
        return float(self.sums(parameters, with_entropy=False)[0])

    def _sums(self, evaluator: Evaluator, size: int, add: Callable[..., None], row_work: int = 0) -> FloatArray:
        """Return sums over all rows: ``add(evaluator, x, w, sums)`` adds those of some rows."""
        parameters = evaluator.parameters
        parts = self._parts(parameters.n_components, len(parameters.loadings), row_work, size)

        def make_adder() -> Adder:
            own = evaluator.twin() if len(parts) > 1 else evaluator
            return lambda i, x, w, sums: add(own, x, w, sums)

        first, *others = self._sums_of_parts(make_adder, parts, size)
        for other in others:
            first += other
        return first

    def _sums_of_parts(
        self,
        make_adder: Callable[[], Adder],
        parts: Sequence[range],
        size: int,
    ) -> Iterable[FloatArray]:
        """Return sums over the rows of each part, in order; ``make_adder()`` makes the adder of a thread."""

        def make_worker() -> Callable[[range], FloatArray]:
            read, add = self._reader(), make_adder()

            def sums_of(chunks: range) -> FloatArray:
                sums = np.zeros(size)
                for i in chunks:
                    add(i, *read(i), sums)
                return sums

            return sums_of

        return self._in_parts(make_worker, parts)

    def posterior(
        self, mixture: Evaluator, *, with_scores: bool = False, with_spreads: bool = False
    ) -> Iterator[PosteriorBlock]:
        """Yield log densities, responsibilities and, if asked for, factor scores and spreads of all rows in order."""
        background = self.background_of(mixture.parameters)
        return map(self._looker(mixture, background, with_scores, with_spreads), range(self._n_chunks))

    def over_posterior(
        self,
        parameters: Parameters,
        function: Callable[[PosteriorBlock], Result],
        *,
        with_scores: bool = False,
        with_spreads: bool = False,
    ) -> list[Result]:
        """Return the results of a function for each block of the same, in order; it is called in several threads."""
        evaluator, background = Evaluator(parameters), self.background_of(parameters)
        parts = self._parts(parameters.n_components, len(parameters.loadings))

        def make_worker() -> Callable[[range], list[Result]]:
            own = evaluator.twin() if len(parts) > 1 else evaluator
            look = self._looker(own, background, with_scores, with_spreads)
            return lambda chunks: [function(look(i)) for i in chunks]

        return [result for part in self._in_parts(make_worker, parts) for result in part]

    def sum_over_posterior(
        self, parameters: Parameters, function: Callable[[PosteriorBlock], FloatArray], *, with_spreads: bool = False
    ) -> FloatArray:
        """Return the sum of the results of a function for all blocks of the posterior."""
        total: FloatArray = np.sum(self.over_posterior(parameters, function, with_spreads=with_spreads), axis=0)
        return total

    def _looker(
        self, mixture: Evaluator, background: FloatArray | None, with_scores: bool, with_spreads: bool
    ) -> Callable[[int], PosteriorBlock]:
        """Return a function for one thread that computes the posterior of chunks by number."""
        read, parameters = self._reader(), mixture.parameters
        with_spreads = (with_scores or with_spreads) and parameters.n_tail_parameters > 0

        def look(i: int) -> PosteriorBlock:
            x, row_weights = read(i)
            start, n = i * self._step, x.shape[1]
            log_density, responsibilities = np.empty(n), np.empty((parameters.n_components, n))
            scores = np.empty((len(parameters.loadings) if with_scores else 0, n))
            log_joint = np.empty((parameters.n_components, n)) if with_spreads else None
            _posterior.posterior(
                x,
                parameters.offsets,
                mixture.prepared,
                log_density,
                log_joint,
                responsibilities,
                scores if with_scores else None,
                mixture.work,
            )
            spreads = None if log_joint is None else mixture.spreads(log_joint)
            rows = slice(start, start + n)
            block = PosteriorBlock(rows, row_weights, log_density, responsibilities, scores, spreads)
            return block if background is None else block.beside(background[rows], parameters.background_weight)

        return look

    def responsibilities(self, parameters: Parameters) -> FloatArray:
        """Return the responsibilities of all rows times the row weights, (K, n)."""
        result = np.empty((parameters.n_components, self.n_rows))

        def put(block: PosteriorBlock) -> None:
            result[:, block.rows] = block.responsibilities
            for factor in (block.share, block.row_weights):
                if factor is not None:
                    result[:, block.rows] *= factor

        self.over_posterior(parameters, put)
        return result

    def labels(self, parameters: Parameters) -> NDArray[np.intp]:
        """Return the component with the largest responsibility for every row, or -1 for the background, (n,) intp."""
        labels = np.empty(self.n_rows, dtype=np.intp)

        def put(block: PosteriorBlock) -> None:
            labels[block.rows] = block.most_probable()

        self.over_posterior(parameters, put)
        return labels

    def moments(self, parameters: Parameters) -> Moments:
        """Return soft counts and covariances of every component, by one pass. Memory is O(K d^2)."""
        K, d = parameters.n_components, self.n_features
        sums = self.sums(parameters, full=True, with_entropy=False)
        counts, first, second, _ = np.split(sums[2:], np.cumsum([K, K * d, K * d * d]))
        lower = np.tril(second.reshape(K, d, d))
        covariances = lower + np.tril(lower, -1).transpose(0, 2, 1)
        divisor = np.where(counts > 0, counts, 1.0)
        first = first.reshape(K, d) / divisor[:, None]
        covariances /= divisor[:, None, None]
        covariances -= first[:, :, None] * first[:, None, :]
        return Moments(counts, parameters.means + first, covariances)

    def kurtosis_z(self, parameters: Parameters) -> FloatArray:
        """Return the standardised weighted Mardia kurtosis of every component, (K,).

        gamma_k = (b_k - d (d + 2)) / sqrt(8 d (d + 2) / N_k)   (paper, eq. mardiamvkurt); about 0 for a Gaussian.
        """

        K = parameters.n_components

        def add(evaluator: Evaluator, x: FloatArray, w: FloatArray | None, sums: FloatArray) -> None:
            counts, fourth = sums[:K], sums[K:]
            _kurtosis.accumulate_kurtosis(x, w, parameters.offsets, evaluator.prepared, counts, fourth, evaluator.work)

        counts, fourth = self._sums(Evaluator(parameters), 2 * K, add).reshape(2, K)
        gaussian = self.n_features * (self.n_features + 2)
        excess = fourth / np.where(counts > 0, counts, 1.0) - gaussian
        gamma: FloatArray = excess * np.sqrt(counts / (8 * gaussian))
        return gamma


def n_held(n_features: int) -> int:
    """Return the maximum number of rows to hold in memory."""
    return min(_HELD_ROWS, max(_HELD_VALUES // max(1, n_features), _HELD_ROWS_PER_COLUMN * n_features))


def spread_rows(n_rows: int, size: int) -> NDArray[np.intp]:
    """Return the numbers of evenly spread rows, (size,): one of each stretch.

    They are not always at the same place of it: rows may have been recorded in turns.
    """
    places = np.arange(size)
    return ((places + _GOLDEN * places % 1.0) * (n_rows / size)).astype(np.intp)


def _is_loaded(block: NDArray[Any]) -> bool:
    in_order = block.flags.c_contiguous or block.strides[0] == block.itemsize
    return in_order and block.dtype in _LOADED and block.flags.aligned and block.strides[1] % block.itemsize == 0


def _chunk_rows(n_rows: int, n_features: int) -> int:
    """Return the number of rows of a chunk, so that chunks and parts of a pass are about equal."""
    most = max(_CHUNK_ROWS_MIN, min(_CHUNK_ROWS_MAX, _CHUNK_VALUES // max(1, n_features)))
    n_chunks = max(1, -(-n_rows // most))
    many = -(-n_chunks // _MOST_PARTS) * _MOST_PARTS
    n_chunks = many if n_chunks > _MOST_PARTS else 1 << (n_chunks - 1).bit_length()
    # An odd number of cache lines (8 values), so that features do not collide in the cache.
    return (-(-n_rows // n_chunks) + 7) // 16 * 16 + 8


@dataclass(frozen=True)
class Moments:
    """Responsibility-weighted moments of the components."""

    soft_counts: FloatArray  # (K,)
    means: FloatArray  # (K, d)
    covariances: FloatArray  # (K, d, d) about these means, divisor N_k
