"""`Blocks`: rows of a table, some of which are in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from amofa._data.block_source import BlockSource, OfBlock, Tree
from amofa._data.dataframes import check_feature_names, column_labels, column_names

Result = TypeVar("Result")
# A block and its weights.
Block = tuple[Any, Any]
_END = object()
# What is said where blocks change.
_SAME = "blocks must be the same whenever they are read"


class Blocks(BlockSource):
    """Rows of a table in blocks, of which only a few are in memory at a time.

    `amofa.fit` takes them in place of an array. It reads all blocks in order, dozens to hundreds of times; while one is
    worked on, a thread reads the next one.

    Parameters
    ----------
    blocks : sequence of callables, or iterable of arrays or frames
        Functions without arguments, each of which returns a block, or something that yields the same blocks whenever it
        is iterated over. A block is an array or frame (m, d) as `amofa.fit` takes them, NaN where a cell is missing.
        All have the same columns; numbers of rows may differ. Blocks of 16 to 64 MB are best. A block must stay as it
        is while the next one is read, so do not fill one array again and again.
    weights : (n,) array, or the same as `blocks` with arrays (m,), optional
        How often each row counts.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the first block, if it is a frame.

    Raises
    ------
    TypeError
        If the blocks can be iterated over only once, like a generator.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> def block(seed):
    ...     rng = np.random.default_rng(seed)
    ...     return rng.normal(0, 1, (1000, 2)) + 8 * (rng.random((1000, 1)) < 0.3)
    >>> blocks = amofa.blocks.Blocks([lambda seed=seed: block(seed) for seed in range(4)])
    >>> amofa.fit(blocks).weights.round(1)
    array([0.7, 0.3])
    """

    def __init__(
        self,
        blocks: Sequence[Callable[[], ArrayLike]] | Iterable[ArrayLike],
        *,
        weights: Any = None,
        feature_names: Iterable[str] | None = None,
    ) -> None:
        _check_repeatable(blocks, "blocks")
        weights = as_array_or_blocks(weights)
        self._read: Callable[[], Iterator[Block]] = lambda: with_weights(blocks, weights)
        self._n_features: int | None = None
        self._names = None if feature_names is None else tuple(feature_names)
        self._has_names = feature_names is not None
        self._labels: tuple[Any, ...] = ()
        # What is known of each block, once all have been read.
        self._known: list[_Known] | None = None

    @classmethod
    def _of(cls, read: Callable[[], Iterator[Block]], n_features: int, names: tuple[str, ...] | None = None) -> Blocks:
        """Return blocks that a function reads, of a known number of columns."""
        blocks = cls.__new__(cls)
        blocks._read, blocks._n_features, blocks._names, blocks._has_names = read, n_features, names, True
        blocks._labels, blocks._known = (), None
        return blocks

    def __repr__(self) -> str:
        return f"<amofa.blocks.Blocks of {self.n_features} columns>"

    def __iter__(self) -> Iterator[Block]:
        """Yield each block with its weights, or None."""
        return self._read()

    @property
    def n_features(self) -> int:
        """Number of columns."""
        self._look()
        assert self._n_features is not None
        return self._n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None."""
        self._look()
        return self._names

    def _look(self) -> None:
        """Look at the first block, once."""
        if self._n_features is not None:
            return
        first = next(iter(self), None)
        if first is None:
            raise _no_blocks()
        _n_rows(first[0], 0)
        shape = np.shape(first[0])
        if len(shape) != 2:
            raise ValueError(f"block 0 of X must have two dimensions (rows, columns), got {len(shape)}")
        self._n_features = shape[1]
        names = self._names if self._has_names else column_names(first[0])
        self._names = check_feature_names(names, shape[1])
        self._labels = column_labels(first[0])
        if self._names and self._names != self._labels and set(self._names) == set(self._labels):
            raise ValueError("feature_names has the names of the columns of block 0 in another order")

    def map(self, function: OfBlock[Result]) -> list[Result]:
        return list(self.over_blocks(function))

    def total(self, function: OfBlock[Result], merge: Callable[[Result, Result], Result]) -> Result:
        tree = Tree(merge)
        for result in self.over_blocks(function):
            tree.add(result)
        return tree.result()

    def over_blocks(self, function: OfBlock[Result]) -> Iterator[Result]:
        """Yield the results of a function for each block, in order."""
        known: list[_Known] = []
        for block in _read_ahead(iter(self)):
            number = len(known)
            self._check(block, number)
            yield function(number, *block)
            known.append(_Known.of(block) if self._known is None else self._known[number])
            del block
        if not known:
            raise _no_blocks()
        if self._known is not None and len(known) < len(self._known):
            raise ValueError(f"there are {len(known)} blocks of X, but there were {len(self._known)} before; {_SAME}")
        self._known = known

    def _check(self, block: Block, number: int) -> None:
        """Check that a block has the columns of the others, and rows and weights as before."""
        rows = block[0]
        n, labels = _n_rows(rows, number), column_labels(rows)
        if labels and self._labels and labels != self._labels:
            raise ValueError(f"block {number} of X has other columns than block 0, or in another order")
        if not self._has_names and self.feature_names is None and column_names(rows) is not None:
            raise ValueError(f"block {number} of X has names of columns, but block 0 has none; pass feature_names")
        if self._known is None:
            return
        if number >= len(self._known):
            raise ValueError(f"block {number} of X has {n} rows and was not there before; {_SAME}")
        before = self._known[number]
        if n != before.n_rows:
            raise ValueError(f"block {number} of X has {n} rows and had {before.n_rows} before; {_SAME}")
        if _Known.of(block) != before:
            raise ValueError(f"block {number} of X has other columns or weights than before; {_SAME}")


class _Known(NamedTuple):
    """What must not change of a block: its numbers of rows and columns, and its weights, so far as their sum tells."""

    n_rows: int
    shape: tuple[int, ...]
    total_weight: float | None

    @classmethod
    def of(cls, block: Block) -> _Known:
        rows, weights = block
        total = None if weights is None else float(np.sum(np.asarray(weights, dtype=np.float64)))
        return cls(len(rows), tuple(getattr(rows, "shape", ())), total)


def _n_rows(rows: Any, number: int) -> int:
    """Return the number of rows of a block; TypeError if it is not a table."""
    try:
        n = len(rows)
    except TypeError:
        n = None
    if n is None or isinstance(rows, str):
        raise TypeError(f"block {number} of X must be an array or a frame, got {type(rows).__name__}")
    return n


def _no_blocks() -> ValueError:
    return ValueError("there are no blocks; at least one is needed")


def _check_repeatable(blocks: Any, name: str) -> None:
    # Tables and paths can be iterated over, but not by blocks.
    is_table = getattr(blocks, "ndim", 3) < 3 or column_names(blocks) is not None
    if is_table or isinstance(blocks, str | Mapping) or not isinstance(blocks, Iterable):
        raise TypeError(
            f"{name} must be a sequence of functions, or an iterable of arrays, got {type(blocks).__name__}; "
            "[X] is one block, and from_npy, from_parquet and from_zarr read files"
        )
    if iter(blocks) is blocks:
        raise TypeError(
            f"{name} can be read only once, but a fit reads all rows dozens of times: pass a list of functions each of "
            "which returns a block, or an object whose __iter__ starts again from the first block; amofa.Stream takes "
            "rows that come only once"
        )


def as_array_or_blocks(weights: Any) -> Any:
    """Return weights as an array, unless they are in blocks, or in an array that is read by slices."""
    if weights is None or hasattr(weights, "chunks"):
        return weights
    if hasattr(weights, "__array__"):
        return np.asarray(weights)
    _check_repeatable(weights, "weights")
    return weights


def with_weights(blocks: Iterable[Any], weights: Any) -> Iterator[Block]:
    """Yield blocks with their weights, from an array of all or from blocks of weights."""
    rows = _called(blocks, "X")
    if weights is None:
        yield from ((block, None) for block in rows)
        return
    if not hasattr(weights, "shape"):
        try:
            for number, block in enumerate(zip(rows, _called(weights, "weights"), strict=True)):
                if block[1] is None:
                    raise ValueError(f"block {number} of weights is None; give weights for each block, or for none")
                yield block
        except ValueError as error:
            if "zip()" not in str(error):
                raise
            raise ValueError("there are not as many blocks of weights as of rows; give one for each") from None
        return
    start = 0
    for block in rows:
        yield block, weights[start : start + len(block)]
        start += len(block)
    if start != weights.shape[0]:
        raise ValueError(f"there are {weights.shape[0]} weights, but {start} rows; give one weight per row")


def _called(blocks: Iterable[Any], name: str) -> Iterator[Any]:
    """Yield blocks that are given as they are or as functions."""
    for number, block in enumerate(blocks):
        try:
            yield block() if callable(block) else block
        except Exception as error:
            error.add_note(f"block {number} of {name} could not be read")
            raise


def _read_ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks, the next of which a thread reads meanwhile."""
    with ThreadPoolExecutor(1, thread_name_prefix="amofa-read") as reader:
        coming = reader.submit(next, blocks, _END)
        while (block := coming.result()) is not _END:
            coming = reader.submit(next, blocks, _END)
            yield block  # type: ignore[misc]
            del block
