"""Tables that do not fit into memory: rows in blocks, from Parquet, Zarr and NumPy's files or from functions."""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.block_source import BlockSource, OfBlock, Tree
from amofa._data.dataframes import check_feature_names, check_same_names, column_names
from amofa._model.predictions import prediction_columns, predictions
from amofa._typing import FloatArray
from amofa.mixture import MixtureOfFactorAnalyzers

__all__ = ["Blocks", "from_npy", "from_parquet", "from_zarr", "write_predictions"]

Result = TypeVar("Result")
# A block and its weights; what is read at a time, from which blocks are put together.
_Block = tuple[Any, Any]
# Blocks from files have this number of values (32 MB as float64): two or three are in memory at a time, and a pass over
# one takes many times as long as to begin with it.
_BLOCK_VALUES = 1 << 22
# Rows of Parquet files that are decoded at a time.
_DECODED_ROWS = 1 << 16
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
        weights = _checked_weights(weights)
        self._read: Callable[[], Iterator[_Block]] = lambda: _with_weights(blocks, weights)
        self._n_features: int | None = None
        self._names = None if feature_names is None else tuple(feature_names)
        self._has_names = feature_names is not None
        # Numbers of rows, once all blocks have been read.
        self._lengths: list[int] | None = None

    @classmethod
    def _of(cls, read: Callable[[], Iterator[_Block]], n_features: int, names: tuple[str, ...] | None = None) -> Blocks:
        """Return blocks that a function reads, of a known number of columns."""
        blocks = cls.__new__(cls)
        blocks._read, blocks._n_features, blocks._names, blocks._has_names = read, n_features, names, True
        blocks._lengths = None
        return blocks

    def __repr__(self) -> str:
        return f"<amofa.blocks.Blocks of {self.n_features} columns>"

    def __iter__(self) -> Iterator[_Block]:
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
            raise ValueError("there are no blocks; at least one is needed")
        shape = np.shape(first[0])
        if len(shape) != 2:
            raise ValueError(f"block 0 of X must have two dimensions (rows, columns), got {len(shape)}")
        self._n_features = shape[1]
        names = self._names if self._has_names else column_names(first[0])
        self._names = check_feature_names(names, shape[1])

    def map(self, function: OfBlock[Result]) -> list[Result]:
        return list(self._over_blocks(function))

    def total(self, function: OfBlock[Result], merge: Callable[[Result, Result], Result]) -> Result:
        tree = Tree(merge)
        for result in self._over_blocks(function):
            tree.add(result)
        return tree.result()

    def _over_blocks(self, function: OfBlock[Result]) -> Iterator[Result]:
        lengths: list[int] = []
        for block in _read_ahead(iter(self)):
            self._check(block[0], len(lengths))
            lengths.append(len(block[0]))
            yield function(len(lengths) - 1, *block)
            del block
        if not lengths:
            raise ValueError("there are no blocks; at least one is needed")
        if self._lengths is not None and len(lengths) < len(self._lengths):
            raise ValueError(
                f"there are {len(lengths)} blocks of X, but there were {len(self._lengths)} before; {_SAME}"
            )
        self._lengths = lengths

    def _check(self, rows: Any, number: int) -> None:
        """Check that a block has the names of the others, and as many rows as before."""
        names = None if self._has_names else column_names(rows)
        if names is not None and names != self.feature_names:
            raise ValueError(f"block {number} of X has other columns than block 0, or in another order")
        before = self._lengths
        if before is not None and (number >= len(before) or before[number] != len(rows)):
            known = f"had {before[number]} before" if number < len(before) else "was not there before"
            raise ValueError(f"block {number} of X has {len(rows)} rows and {known}; {_SAME}")


def _check_repeatable(blocks: Any, name: str) -> None:
    if not isinstance(blocks, Iterable):
        raise TypeError(
            f"{name} must be a sequence of functions, or an iterable of arrays, got {type(blocks).__name__}"
        )
    if iter(blocks) is blocks:
        raise TypeError(
            f"{name} can be read only once, but a fit reads all rows dozens of times: pass a list of functions each of "
            "which returns a block, or an object whose __iter__ starts again from the first block; amofa.Stream takes "
            "rows that come only once"
        )


def _checked_weights(weights: Any) -> Any:
    """Return weights as an array, unless they are in blocks, or in an array that is read by slices."""
    if weights is None or hasattr(weights, "chunks"):
        return weights
    if hasattr(weights, "__array__"):
        return np.asarray(weights)
    _check_repeatable(weights, "weights")
    return weights


def _with_weights(blocks: Iterable[Any], weights: Any) -> Iterator[_Block]:
    """Yield blocks with their weights, from an array of all or from blocks of weights."""
    rows = _called(blocks, "X")
    if weights is None:
        yield from ((block, None) for block in rows)
        return
    if not hasattr(weights, "shape"):
        try:
            yield from zip(rows, _called(weights, "weights"), strict=True)
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


def _read_ahead(blocks: Iterator[_Block]) -> Iterator[_Block]:
    """Yield blocks, the next of which a thread reads meanwhile."""
    with ThreadPoolExecutor(1, thread_name_prefix="amofa-read") as reader:
        coming = reader.submit(next, blocks, _END)
        while (block := coming.result()) is not _END:
            coming = reader.submit(next, blocks, _END)
            yield block  # type: ignore[misc]
            del block


# ---- blocks of files -------------------------------------------------------------------------------------------------


def from_npy(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, weights: Any = None) -> Blocks:
    """Return the rows of NumPy's files, one file after the other, in blocks.

    Parameters
    ----------
    paths : str or PathLike, or sequence of them
        Files .npy of two dimensions with the same number of columns; a string may be a pattern such as
        ``"parts/*.npy"``, whose files are sorted by name.
    weights : the same with files of one dimension, or (n,) array, optional
        How often each row counts.

    Returns
    -------
    Blocks

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> for i in range(3):
    ...     np.save(f"part{i}.npy", rng.normal(0, 1, (500, 2)) + 9 * (i == 2))
    >>> amofa.fit(amofa.blocks.from_npy("part?.npy")).weights.round(2)
    array([0.67, 0.33])
    """
    files = _files(paths, 2)
    d, dtype = _mapped(files[0]).shape[1], np.result_type(*[_mapped(file).dtype for file in files])

    def pieces() -> Iterator[NDArray[Any]]:
        step = max(1, _BLOCK_VALUES // d)
        for file in files:
            for start in range(0, len(_mapped(file)), step):
                # Mapped anew, so that pages that have been read do not stay.
                yield _mapped(file)[start : start + step]

    if weights is None or hasattr(weights, "__array__"):
        return _from_pieces(pieces, _checked_weights(weights), d, dtype)
    of_weights = _files(weights, 1)

    def pieces_of_weights() -> Iterator[NDArray[Any]]:
        return (_mapped(file) for file in of_weights)

    return _from_pieces(pieces, pieces_of_weights, d, dtype)


def _files(paths: Any, n_dimensions: int) -> list[str]:
    """Return paths as a list, of files whose arrays fit together."""
    if isinstance(paths, str) and glob.has_magic(paths):
        found = sorted(glob.glob(paths))
    else:
        found = [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not found:
        raise FileNotFoundError(f"there is no file {paths!r}")
    first = _mapped(found[0])
    for path in found:
        array = _mapped(path)
        if array.ndim != n_dimensions:
            raise ValueError(f"{path} has {array.ndim} dimensions, not {n_dimensions}")
        if array.shape[1:] != first.shape[1:]:
            raise ValueError(f"{path} has {array.shape[1]} columns, but {found[0]} has {first.shape[1]}")
    return found


def _mapped(path: str) -> NDArray[Any]:
    mapped: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    return mapped


def from_zarr(array: Any, *, weights: Any = None) -> Blocks:
    """Return the rows of a Zarr array in blocks, or of another array that is read by slices of rows, as of h5py.

    Parameters
    ----------
    array : zarr.Array, str or PathLike, or another array (n, d) with ``shape``, ``dtype`` and slices
        A path is opened by zarr. Chunks are read whole, so they should have all columns.
    weights : the same (n,), or an array, optional
        How often each row counts.

    Returns
    -------
    Blocks

    Raises
    ------
    ImportError
        If a path is given and zarr is not installed: ``pip install 'amofa[blocks]'``.
    """
    rows = _opened(array)
    if len(rows.shape) != 2:
        raise ValueError(f"the array has {len(rows.shape)} dimensions; a table has two")
    n, d = rows.shape
    chunk = (getattr(rows, "chunks", None) or (1,))[0]
    # Whole chunks, about as many as make a block.
    step = max(1, _BLOCK_VALUES // d // chunk) * chunk

    def pieces() -> Iterator[NDArray[Any]]:
        return (np.asarray(rows[start : start + step]) for start in range(0, n, step))

    return _from_pieces(pieces, None if weights is None else _opened(weights), d, np.dtype(rows.dtype))


def _opened(array: Any) -> Any:
    if not isinstance(array, str | os.PathLike):
        return array
    return _package("zarr").open_array(os.fspath(array), mode="r")


def from_parquet(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Sequence[str] | None = None,
    *,
    weights: str | None = None,
) -> Blocks:
    """Return the rows of a Parquet file, or of all files of a data set, in blocks; missing values are NaN.

    Parameters
    ----------
    path : str or PathLike, or sequence of them
        A file, a folder of files, which are read in the order of their paths, or several files in this order.
    columns : sequence of str, optional
        Columns to read; by default all but that of weights.
    weights : str, optional
        The column that says how often each row counts.

    Returns
    -------
    Blocks
        With the names of the columns as `feature_names`.

    Raises
    ------
    ImportError
        If pyarrow is not installed: ``pip install 'amofa[blocks]'``.
    ValueError
        If there is no such column, or one does not hold numbers.
    """
    dataset = _dataset(path)
    chosen = [name for name in _names(dataset.schema) if name != weights] if columns is None else list(columns)
    used = chosen if weights is None else [*chosen, weights]
    types = set()
    for part in dataset.get_fragments():
        types |= _types_of(part, used)
    dtype = np.dtype(np.float32 if types == {"float"} else np.float64)

    def pieces() -> Iterator[NDArray[Any]]:
        parquet = _package("pyarrow.parquet")
        for file in dataset.files:
            with dataset.filesystem.open_input_file(file) as opened:
                reader = parquet.ParquetFile(opened, pre_buffer=False)
                for batch in reader.iter_batches(_DECODED_ROWS, columns=used):
                    yield np.stack([_values(batch.column(name), dtype) for name in used]).T

    names = check_feature_names(chosen, len(chosen))
    if weights is None:
        return _from_pieces(pieces, None, len(used), dtype, names, "F")
    whole = _from_pieces(pieces, None, len(used), dtype, order="F")
    return Blocks._of(lambda: ((rows[:, :-1], rows[:, -1]) for rows, _ in whole), len(chosen), names)


def parquet_columns(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the columns of a Parquet file or data set; arguments are those of `from_parquet`."""
    return _names(_dataset(path).schema)


def _names(schema: Any) -> list[str]:
    """Return the names of the columns without those of a frame's index."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def _types_of(part: Any, used: Sequence[str]) -> set[str]:
    """Return the types of the columns of a file; ValueError if one is not there, or does not hold numbers."""
    schema = part.physical_schema
    if unknown := [name for name in used if name not in schema.names]:
        raise ValueError(f"{part.path} has no column {unknown[0]!r}; it has {', '.join(schema.names[:20])}")
    if text := [name for name in used if not _holds_numbers(schema.field(name).type)]:
        raise ValueError(f"{part.path}: column {text[0]!r} does not hold numbers; choose others by columns=[...]")
    return {str(schema.field(name).type) for name in used}


def _dataset(path: Any) -> Any:
    paths = os.fspath(path) if isinstance(path, str | os.PathLike) else [os.fspath(each) for each in path]
    if isinstance(paths, str) and os.path.isdir(paths):
        # Folders may hold other files, too.
        found = sorted(glob.glob(os.path.join(glob.escape(paths), "**", "*.parquet"), recursive=True))
        if not found:
            raise FileNotFoundError(f"there is no .parquet file in {paths}")
        paths = found
    return _package("pyarrow.dataset").dataset(paths, format="parquet")


def _holds_numbers(kind: Any) -> bool:
    types = _package("pyarrow.types")
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _values(column: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a column of a batch, NaN where a value is missing."""
    wanted = _package("pyarrow").from_numpy_dtype(dtype)
    values: NDArray[Any] = column.cast(wanted, safe=False).to_numpy(zero_copy_only=False)
    return values


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"this needs {package}: python -m pip install 'amofa[blocks]'") from error


def _from_pieces(
    pieces: Callable[[], Iterator[NDArray[Any]]],
    weights: Any,
    n_features: int,
    dtype: np.dtype[Any],
    names: tuple[str, ...] | None = None,
    order: Literal["C", "F"] = "C",
) -> Blocks:
    """Return blocks of equal size put together from pieces; weights are an array, or a function that yields pieces."""
    n_rows = max(1, _BLOCK_VALUES // n_features)

    def blocks() -> Iterator[NDArray[Any]]:
        return _of_equal_size(pieces(), np.empty((n_rows, n_features), dtype, order))

    def read() -> Iterator[_Block]:
        if callable(weights):
            of_rows = _of_equal_size(weights(), np.empty(n_rows))
            return _with_weights(blocks(), _Once(of_rows))
        return _with_weights(blocks(), weights)

    return Blocks._of(read, n_features, names)


class _Once:
    """Weights in blocks that are being read, which are not an array."""

    def __init__(self, blocks: Iterator[FloatArray]) -> None:
        self._blocks = blocks

    def __iter__(self) -> Iterator[FloatArray]:
        return self._blocks


def _of_equal_size(pieces: Iterator[NDArray[Any]], block: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield blocks of the size and layout of an empty one, but for the last, from pieces of any size."""
    n_rows, filled = len(block), 0
    for piece in pieces:
        start = 0
        while start < len(piece):
            some = piece[start : start + n_rows - filled]
            block[filled : filled + len(some)] = some
            start, filled = start + len(some), filled + len(some)
            if filled == n_rows:
                yield block
                block, filled = np.empty_like(block), 0
    if filled:
        yield block[:filled]


# ---- predictions -----------------------------------------------------------------------------------------------------


def write_predictions(
    model: MixtureOfFactorAnalyzers,
    blocks: Blocks,
    path: str | os.PathLike[str],
    *,
    clusters: int | str | None = None,
    proba: bool = False,
    scores: bool = False,
    log_density: bool = False,
) -> int:
    """Write what a model says of rows in blocks into a Parquet file, block by block.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    blocks : Blocks
        Rows with the columns of the model; their weights do not matter.
    path : str or PathLike
        File to write. It appears when it is complete.
    clusters : int or str, optional
        As in ``model.predict``.
    proba : bool, default False
        Whether to add the probability of each component, or cluster, as p0, p1, ..., and that of a background as
        outlier.
    scores : bool, default False
        Whether to add the factor scores under each component, as z0_0, z0_1, ...
    log_density : bool, default False
        Whether to add the log density, in nats.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    ImportError
        If pyarrow is not installed: ``pip install 'amofa[blocks]'``.
    """
    arrow, parquet = _package("pyarrow"), _package("pyarrow.parquet")
    check_same_names(blocks.feature_names, model.feature_names)
    model = model._with_arrays()
    unfinished, n, writer = f"{os.fspath(path)}.part", 0, None
    chosen = None if clusters is None else model._chosen_clusters(clusters)
    try:
        for rows, _ in _read_ahead(iter(blocks)):
            columns = prediction_columns(**predictions(model, rows, clusters=chosen, proba=proba, scores=scores))
            if log_density:
                columns["log_density"] = model.score_samples(rows)
            table = arrow.table(columns)
            writer = writer or parquet.ParquetWriter(unfinished, table.schema)
            writer.write_table(table)
            n += len(rows)
            del rows
        if writer is None:
            raise ValueError("there are no blocks; at least one is needed")
        writer.close()
        os.replace(unfinished, path)
    except BaseException:
        if writer is not None:
            writer.close()
            os.remove(unfinished)
        raise
    return n
