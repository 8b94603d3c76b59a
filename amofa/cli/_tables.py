"""Read tables of text and .npy, .npz and .parquet files; write tables of text, .npy and .parquet files."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from amofa._data.checks import check_incomplete_table, check_table
from amofa.cli._columns import Columns, Selection
from amofa.cli._header import USUAL_FORMAT, Cells, TextFormat
from amofa.cli._parquet import PARQUET, read_parquet, write_parquet
from amofa.cli._text import COMPRESSED, DELIMITERS, STANDARD_STREAM, read_text, suffix

# Rows that are written at a time: they are Python objects then.
_ROWS_AT_ONCE = 1 << 14
# Characters of a name or of numpy's message, which may quote the file, and names of arrays in an error message.
_SHOWN_REASON, _SHOWN_NAMES = 200, 20


@dataclass(frozen=True)
class Table:
    """Columns read from a file; weights, labels and names are None if not asked for, or if the file has none."""

    values: NDArray[Any]  # finite real numbers, (n, d); NaN where a cell is missing
    weights: NDArray[Any] | None
    labels: NDArray[Any] | None  # text or numbers, (n,)
    names: tuple[str, ...] | None
    kept: dict[str, NDArray[Any]] = field(default_factory=dict)  # columns to be written again, (n,), by name
    kept_values: list[str] = field(default_factory=list)  # names there of the columns of `values`, if they are kept
    form: TextFormat = USUAL_FORMAT  # of texts with results for its rows


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_table(
    source: str,
    *,
    columns: Sequence[str] | None = None,
    weights: str | None = None,
    labels: str | None = None,
    exclude: Sequence[str] | None = None,
    index: str | None = None,
    keep: bool = False,
    delimiter: str | None = None,
    decimal: str = ".",
    header: bool | None = None,
    key: str | None = None,
    names: Sequence[str] | None = None,
    n_features: int | None = None,
    may_lack_labels: bool = False,
    may_be_missing: bool = False,
    missing: Sequence[str] | None = None,
) -> Table:
    """Read a table of numbers.

    Raises OSError if the file cannot be read, and ValueError if it does not hold such a table. The message names the
    file and, for text, the line and the column.

    Parameters
    ----------
    source : str
        A path, or "-" for standard input, which is read as text. The extension decides: .npy and .npz are numpy's
        (never unpickled; .npy is mapped into memory), .parquet is read by pandas or polars, and all others are UTF-8
        text, with .gz compressed by gzip. Leading lines that start with "#" are skipped.
    columns, weights, labels, exclude, index, keep, names, n_features, may_lack_labels
        See `Selection`; `n_features` is required, without weights and labels. Other columns may hold any text. In text
        with names, a first column without name is left out unless it is selected, if its cells may be row numbers.
    delimiter : str, optional
        Field separator, one character; " " is any white space. By default a tab in .tsv and .tab files, otherwise a
        guess from the first line.
    decimal : {".", ","}
        Decimal mark of numbers in text.
    header : bool, optional
        Whether the first line of a text has the names of columns. By default a guess from the first two lines, with a
        warning unless it is sure.
    key : str, optional
        Array of an .npz file. Not needed if only one has two dimensions.
    may_be_missing : bool
        Whether cells may be missing; they are NaN.
    missing : sequence of str, optional
        Numbers and, in text, words that mark missing cells, besides those that always do.
    """
    name = "standard input" if source == STANDARD_STREAM else source
    is_text = suffix(source) not in (".npy", ".npz", PARQUET)
    if key is not None and suffix(source) != ".npz":
        raise ValueError(f"{name} is not an .npz file, so there is no array {key!r} to choose")
    if delimiter is not None:
        _check_delimiter(delimiter, name, is_text)
    if decimal not in (".", ","):
        raise ValueError(f"decimal must be . or , got {decimal!r}")
    if decimal == delimiter:
        raise ValueError("a comma cannot be both the delimiter and the decimal mark; pass --delimiter semicolon or tab")
    if not is_text and (header is not None or decimal != "."):
        raise ValueError(f"{name} is not a text file, so there is nothing to say about its header or decimal mark")
    selection = Selection(
        name, columns, weights, labels, names, may_lack_labels, n_features, exclude or (), index, keep
    )
    numbers, words = _numbers_and_words(missing or (), Cells(decimal))
    if is_text:
        form = TextFormat(delimiter, decimal, header, frozenset(words))
        found = read_text(source, selection, form, may_be_missing=may_be_missing)
    elif suffix(source) == PARQUET:
        found = read_parquet(source, selection)
    else:
        found = _read_numpy(source, selection, key)
    values, row_weights, found_names = found.numbers, None, found.names
    if weights is not None:
        row_weights, values, found_names = values[:, -1], values[:, :-1], found_names and found_names[:-1]
    values = _without(values, numbers)
    try:
        if may_be_missing:
            table, _ = check_incomplete_table(values, name=name, n_features=n_features)
        else:
            table = check_table(values, name=name, n_features=n_features)
    except TypeError as error:
        # Of the dtype, which is an error of the file, not of the caller.
        raise ValueError(str(error)) from None
    # Decimal commas are those of the programs that are to read the results.
    form = found.form if keep or decimal == "," else USUAL_FORMAT
    return Table(table, row_weights, found.labels, found_names, found.kept, found.kept_values, form)


def _check_delimiter(delimiter: str, table: str, is_text: bool) -> None:
    if not is_text:
        raise ValueError(f"{table} is not a text file, so it has no delimiter")
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"+-.\r\n':
        raise ValueError(f"delimiter must be one character that cannot be part of a number, got {delimiter!r}")


def _numbers_and_words(missing: Sequence[str], cells: Cells) -> tuple[list[float], list[str]]:
    """Divide what marks missing cells into numbers, however they are written, and words, with infinite numbers."""
    numbers = [float(cells.plain(mark)) for mark in missing if cells.is_number(mark)]
    return numbers, [mark for mark in missing if not (cells.is_number(mark) and np.isfinite(float(cells.plain(mark))))]


def _without(values: NDArray[Any], numbers: Sequence[float]) -> NDArray[Any]:
    """Return a table with NaN in place of some numbers."""
    if not numbers or values.dtype.kind not in "biuf":
        return values
    marked = np.logical_or.reduce([values == number for number in numbers])
    return np.where(marked, np.nan, values)


# ---- numpy's files ---------------------------------------------------------------------------------------------------


def _read_numpy(source: str, selection: Selection, key: str | None) -> Columns:
    array = _load(source, key)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{source} holds an array of {array.ndim} dimensions; it must have rows and columns")
    width = array.shape[1]
    positions = selection.positions(None, width)
    names = selection.kept(positions, None, width)
    kept = {name: array[:, j] for j, name in names.items()}
    kept_values = [names[j] for j in positions.values if j in names]
    # The whole of a file that is mapped into memory is not copied.
    numbers = array if positions.numbers == [*range(width)] else array[:, positions.numbers]
    if positions.labels is None:
        return Columns(numbers, None, None, kept, kept_values)
    labels = array[:, positions.labels]
    # All columns of an array have one type, but labels are not 0.0, 1.0, ...
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.rint(labels)).all():
        labels = labels.astype(np.int64)
    return Columns(numbers, labels, None, kept, kept_values)


def _load(source: str, key: str | None) -> NDArray[Any]:
    """Return the array of an .npy file, mapped into memory, or one of an .npz file."""
    with open(source, "rb") as file:
        try:
            if suffix(source) == ".npy":
                mapped: NDArray[Any] = np.lib.format.open_memmap(source, mode="r")
                return mapped
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("a single array, not an archive of arrays")
            loaded = {name: archive[name] for name in ([key] if key and key in archive.files else archive.files)}
        # A damaged file can raise nearly anything inside zipfile and numpy's reader.
        except Exception as error:
            what = str(error)[:_SHOWN_REASON]
            raise ValueError(f"{source} cannot be read as {suffix(source)} ({what})") from error
    # Of a member that is not an array numpy returns the bytes.
    arrays = {name: array for name, array in loaded.items() if isinstance(array, np.ndarray)}
    tables = [name for name, array in arrays.items() if key == name or (key is None and array.ndim == 2)]
    if len(tables) != 1:
        asked = "no table" if key is None else f"no array {key!r}"
        found = f"several tables ({_listed(tables)})" if tables else asked
        raise ValueError(f"{source} holds {found}; choose one of its arrays by key: {_listed(list(arrays))}")
    return arrays[tables[0]]


def _listed(names: Sequence[str]) -> str:
    return ", ".join([name[:_SHOWN_REASON] for name in names[:_SHOWN_NAMES]] + ["..."] * (len(names) > _SHOWN_NAMES))


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_table(
    target: str | TextIO,
    columns: Mapping[str, NDArray[Any]],
    *,
    header: bool = True,
    form: TextFormat = USUAL_FORMAT,
) -> None:
    """Write columns (n,) to a file or an open text stream, under their names if `header` and in text.

    The extension of a path decides: .npy is numpy's, without names, (n, number of columns) or (n,) for a single column;
    .parquet is written by pandas or polars; .tsv and .tab are text with tabs; all others, and streams, are text of the
    given form, by default with commas, compressed if the path ends in .gz. Fields in .csv are separated by commas or
    semicolons only. Raises OSError if the file cannot be written, and ValueError if the
    extension is .npz, or .npy and columns are of text and of numbers.

    Examples
    --------
    >>> import sys
    >>> write_table(sys.stdout, {"label": np.array([1, 0]), "p": np.array([0.9, 0.2])})
    label,p
    1,0.9
    0,0.2
    """
    if not isinstance(target, str):
        _write_text(target, columns, header, form)
    elif suffix(target) == ".npy":
        arrays = list(columns.values())
        if len({array.dtype.kind in "biuf" for array in arrays}) > 1:
            raise ValueError(f"{target}: write columns of text and of numbers to a text file (.csv, .tsv)")
        with open(target, "wb") as file:
            np.save(file, arrays[0] if len(arrays) == 1 else np.column_stack(arrays), allow_pickle=False)
    elif suffix(target) == ".npz":
        raise ValueError(f"{target}: write tables as text (.csv, .tsv) or .npy")
    elif suffix(target) == PARQUET:
        write_parquet(target, columns)
    else:
        with _open_to_write(target) as stream:
            own = "," if suffix(target) == ".csv" and form.delimiter != ";" else form.delimiter
            delimiter = DELIMITERS.get(suffix(target), own)
            _write_text(stream, columns, header, form._replace(delimiter=delimiter))


def _open_to_write(target: str) -> TextIO:
    if target.lower().endswith(COMPRESSED):
        return gzip.open(target, "wt", encoding="utf-8", newline="")
    return open(target, "w", encoding="utf-8", newline="")


def _write_text(stream: TextIO, columns: Mapping[str, NDArray[Any]], header: bool, form: TextFormat) -> None:
    delimiter = form.delimiter or ","
    if delimiter == form.decimal:
        delimiter = ";"
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writerow(columns)
    arrays = list(columns.values())
    for start in range(0, len(arrays[0]), _ROWS_AT_ONCE):
        rows = (_cells(array[start : start + _ROWS_AT_ONCE], form.decimal) for array in arrays)
        writer.writerows(zip(*rows, strict=True))


def _cells(column: NDArray[Any], decimal: str) -> list[Any]:
    """Return numbers as Python's, which are written with all the digits that it takes to read the same number again."""
    cells: list[Any] = column.tolist()
    return [str(cell).replace(".", decimal) for cell in cells] if column.dtype.kind == "f" and decimal != "." else cells
