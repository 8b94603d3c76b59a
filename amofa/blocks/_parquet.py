"""Blocks of Parquet files, by pyarrow."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.dataframes import check_feature_names
from amofa.blocks._blocks import Blocks
from amofa.blocks._files import as_paths, from_pieces, package

# Rows of Parquet files that are decoded at a time.
_DECODED_ROWS = 1 << 16
# What pandas and dask call an index without a name; other programs lose the note that it is one.
_INDEX = re.compile(r"__(index_level_\d+|null_dask_index)__")


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
        A file, a folder, of which all files whose names end in .parquet are read in the order of their paths, also
        those in folders in it, or several files in this order. A string may be a pattern such as ``"parts/*.parquet"``.
    columns : sequence of str, optional
        Columns to read; by default all but that of weights, and but the index of a frame.
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
    FileNotFoundError
        If there is no such file.
    TypeError, ValueError
        If a file does not have one of the columns, or if it does not hold numbers.
    """
    dataset = _dataset(path)
    chosen = _chosen(columns, [name for name in _names(dataset.schema) if name != weights], weights)
    used = chosen if weights is None else [*chosen, weights]
    types = set()
    for part in dataset.get_fragments():
        types |= _types_of(part, used)
    dtype = np.dtype(np.float32 if types == {"float"} else np.float64)

    def pieces() -> Iterator[NDArray[Any]]:
        parquet = package("pyarrow.parquet")
        # To read their footers takes a hundredth of the time of a pass; those of many files would take much memory.
        for file in dataset.files:
            with dataset.filesystem.open_input_file(file) as opened:
                reader = parquet.ParquetFile(opened, pre_buffer=False)
                for batch in reader.iter_batches(_DECODED_ROWS, columns=used):
                    yield np.stack([_values(batch.column(name), dtype) for name in used]).T

    names = check_feature_names(chosen, len(chosen))
    if weights is None:
        return from_pieces(pieces, None, len(used), dtype, names, "F")
    whole = from_pieces(pieces, None, len(used), dtype, order="F")
    return Blocks._of(lambda: ((rows[:, :-1], rows[:, -1]) for rows, _ in whole), len(chosen), names)


def parquet_columns(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the columns of Parquet files; `path` is that of `from_parquet`."""
    return _names(_dataset(path).schema)


def _chosen(columns: Sequence[str] | None, all_columns: list[str], weights: str | None) -> list[str]:
    """Return the names of the columns to read, each of them once."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a sequence of names, got {columns!r}; pass [{columns!r}]")
    chosen = all_columns if columns is None else list(columns)
    if not chosen:
        raise ValueError("there are no columns to read; name at least one")
    if twice := [name for i, name in enumerate(chosen) if name in chosen[:i]]:
        raise ValueError(f"columns has {twice[0]!r} twice; name each column once")
    if weights in chosen:
        raise ValueError(f"column {weights!r} has the weights; leave it out of columns")
    return chosen


def _names(schema: Any) -> list[str]:
    """Return the names of the columns without those of a frame's index."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index and not _INDEX.fullmatch(name)]


def _types_of(part: Any, used: Sequence[str]) -> set[str]:
    """Return the types of the columns of a file; ValueError if one is not there, or does not hold numbers."""
    schema = part.physical_schema
    if unknown := [name for name in used if name not in schema.names]:
        raise ValueError(f"{part.path} has no column {unknown[0]!r}; it has {', '.join(schema.names[:20])}")
    if text := [name for name in used if not _holds_numbers(schema.field(name).type)]:
        raise ValueError(f"{part.path}: column {text[0]!r} does not hold numbers; choose others by columns=[...]")
    return {str(schema.field(name).type) for name in used}


def _dataset(path: Any) -> Any:
    paths = [file for each in as_paths(path) for file in _files_in(each)]
    return package("pyarrow.dataset").dataset(paths, format="parquet")


def _files_in(path: str) -> list[str]:
    """Return the Parquet files in a folder, which may hold other files, too, or the path of a file as it is."""
    if not os.path.isdir(path):
        return [path]
    found = sorted(glob.glob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True))
    # Data sets, which are folders, are often called .parquet themselves.
    found = [file for file in found if os.path.isfile(file)]
    if not found:
        raise FileNotFoundError(f"there is no .parquet file in {path}")
    return found


def _holds_numbers(kind: Any) -> bool:
    types = package("pyarrow.types")
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _values(column: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a column of a batch, NaN where a value is missing."""
    wanted = package("pyarrow").from_numpy_dtype(dtype)
    values: NDArray[Any] = column.cast(wanted, safe=False).to_numpy(zero_copy_only=False)
    return values
