"""Blocks of NumPy's files and of Zarr, and what readers of files have in common."""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from amofa._typing import FloatArray
from amofa.blocks._blocks import Block, Blocks, as_array_or_blocks, with_weights

# Blocks from files have this number of values (32 MB as float64): two or three are in memory at a time, and a pass over
# one takes many times as long as to begin with it.
_BLOCK_VALUES = 1 << 22


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
        return from_pieces(pieces, as_array_or_blocks(weights), d, dtype)
    of_weights = _files(weights, 1)

    def pieces_of_weights() -> Iterator[NDArray[Any]]:
        return (_mapped(file) for file in of_weights)

    return from_pieces(pieces, pieces_of_weights, d, dtype)


def _files(paths: Any, n_dimensions: int) -> list[str]:
    """Return paths as a list, of files whose arrays fit together."""
    found = as_paths(paths)
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

    return from_pieces(pieces, None if weights is None else _opened(weights), d, np.dtype(rows.dtype))


def _opened(array: Any) -> Any:
    if not isinstance(array, str | os.PathLike):
        return array
    return package("zarr").open_array(os.fspath(array), mode="r")


# ---- what readers have in common -------------------------------------------------------------------------------------


def as_paths(paths: Any) -> list[str]:
    """Return one or several paths as a list; a string may be a pattern, whose files are sorted by name."""
    if isinstance(paths, str) and glob.has_magic(paths) and not os.path.exists(paths):
        found = sorted(glob.glob(paths))
    else:
        found = [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not found:
        raise FileNotFoundError(f"there is no file {paths!r}")
    return found


def package(name: str) -> Any:
    """Import a package that is not always there, or a module of it; ImportError says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        wanted = name.partition(".")[0]
        raise ImportError(f"this needs {wanted}: python -m pip install 'amofa[blocks]'") from error


def from_pieces(
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

    def read() -> Iterator[Block]:
        if callable(weights):
            of_rows = _of_equal_size(weights(), np.empty(n_rows))
            return with_weights(blocks(), _Once(of_rows))
        return with_weights(blocks(), weights)

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
