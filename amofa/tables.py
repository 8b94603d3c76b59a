"""Tables in files: numbers from text, .npy and .npz files, and columns out to text and .npy files."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from amofa.samples import check_table

STANDARD_STREAM = "-"

_DELIMITERS = {".tsv": "\t", ".tab": "\t"}
# Looked for in the first line of other files, and the most frequent one taken; where there is none, it is white space.
_GUESSED_DELIMITERS = ",;\t"
# Cells of these texts are holes in a table, not the names of its columns. "Na", say, may be such a name.
_MISSING = frozenset({"", "NA", "N/A", "n/a", "NULL", "null", "None", "?"})
# Rows that are turned into Python objects at a time on their way out.
_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Table:
    """Columns read from a file.

    Attributes
    ----------
    values : (n, d) ndarray
        Finite real numbers.
    weights : (n,) ndarray or None
        The column of row weights, where one was asked for.
    names : tuple of d str, or None
        Names of the columns, where the file has them.
    """

    values: NDArray[Any]
    weights: NDArray[Any] | None
    names: tuple[str, ...] | None


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_table(
    source: str,
    *,
    columns: Sequence[str] | None = None,
    weights: str | None = None,
    delimiter: str | None = None,
    key: str | None = None,
    n_features: int | None = None,
) -> Table:
    r"""Read a table of numbers.

    Parameters
    ----------
    source : str
        A path, or "-" for standard input, which is read as text. The ending decides: .npy and .npz are numpy's (never
        unpickled, .npy is mapped into memory), all others are UTF-8 text. Leading lines of text that start with "#" are
        skipped. The first line after them names the columns if a field of it is neither a number nor a missing value.
    columns : sequence of str, optional
        Columns to read: names, numbers from 0, or ranges of numbers such as "0-3". Others may hold any text. Without
        them, all but that of the weights.
    weights : str, optional
        The column of row weights.
    delimiter : str, optional
        What separates fields, one character; " " is any white space. Without it: a tab in .tsv and .tab files,
        otherwise what the first line shows.
    key : str, optional
        Which array of an .npz file. Not needed if only one has two dimensions.
    n_features : int, optional
        The number of columns that there must be, weights not counted.

    Returns
    -------
    Table

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it does not hold such a table. The message names the file and, for text, the line and the column.

    Notes
    -----
    Text is parsed by `numpy.loadtxt`; lines are looked at one by one only to say what is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "iris.csv")
    ...     _ = path.write_text("width,kind,length\n3.5,setosa,1.4\n3.2,virginica,5.1\n")
    ...     table = read_table(str(path), columns=["length", "width"])
    >>> table.values
    array([[1.4, 3.5],
           [5.1, 3.2]])
    """
    name = "standard input" if source == STANDARD_STREAM else source
    suffix = _suffix(source)
    is_text = suffix not in (".npy", ".npz")
    if key is not None and suffix != ".npz":
        raise ValueError(f"{name} is not an .npz file, so there is no array {key!r} to choose")
    if delimiter is not None:
        _check_delimiter(delimiter, name, is_text)

    chosen = _Choice(name, columns, weights)
    values, names = _read_text(source, chosen, delimiter) if is_text else (_read_numpy(source, chosen, key), None)
    row_weights = None
    if weights is not None:
        row_weights, values, names = values[:, -1], values[:, :-1], names and names[:-1]
    try:
        return Table(check_table(values, name=name, n_features=n_features), row_weights, names)
    except TypeError as error:
        # A dtype, which for a file is a matter of its content.
        raise ValueError(str(error)) from None


def _check_delimiter(delimiter: str, table: str, is_text: bool) -> None:
    if not is_text:
        raise ValueError(f"{table} is not a text file, so it has no delimiter")
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"+-.\r\n':
        raise ValueError(f"delimiter must be one character that is no part of a number, got {delimiter!r}")


def _suffix(path: str) -> str:
    return Path(path).suffix.lower()


@dataclass(frozen=True)
class _Choice:
    """Which columns of a table are wanted; its name for error messages."""

    table: str
    columns: Sequence[str] | None
    weights: str | None

    def positions(self, names: tuple[str, ...] | None, width: int) -> list[int]:
        """Positions of the columns, that of the weights last, among `width`."""
        last = [] if self.weights is None else self._find(self.weights, names, width)
        if len(last) > 1:
            raise ValueError(f"weights must be one column, got {self.weights!r}")
        if self.columns is None:
            chosen = [j for j in range(width) if j not in last]
        else:
            chosen = [j for column in self.columns for j in self._find(column, names, width)]
        if not chosen:
            raise ValueError(f"{self.table} has no column to use but that of the weights")
        chosen += last
        if twice := [j for j, count in Counter(chosen).items() if count > 1]:
            raise ValueError(f"column {twice[0]} (from 0) of {self.table} is chosen twice")
        return chosen

    def _find(self, column: str, names: tuple[str, ...] | None, width: int) -> list[int]:
        found = [j for j, name in enumerate(names or ()) if name == column]
        if len(found) > 1:
            raise ValueError(f"{self.table} has {len(found)} columns {column!r}; choose one by number")
        if found:
            return found
        numbers = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", column)
        if not numbers:
            raise ValueError(f"{self.table} has no column {column!r}; {_available(names, width)}")
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if not first <= last < width:
            raise ValueError(f"{self.table} has no column {column}; {_available(names, width)}")
        return list(range(first, last + 1))


def _available(names: tuple[str, ...] | None, width: int) -> str:
    numbered = f"columns are numbered from 0 to {width - 1}"
    if names is None:
        return numbered
    return f"{numbered} and named {', '.join(names[:20])}{', ...' if width > 20 else ''}"


# ---- numpy's files ---------------------------------------------------------------------------------------------------


def _read_numpy(source: str, chosen: _Choice, key: str | None) -> NDArray[Any]:
    arrays = _load(source, key)
    if isinstance(arrays, dict):
        candidates = {name: array for name, array in arrays.items() if key == name or (key is None and array.ndim == 2)}
        if len(candidates) != 1:
            asked = "no table" if key is None else f"no array {key!r}"
            found = f"several tables ({', '.join(candidates)})" if candidates else asked
            raise ValueError(f"{source} holds {found}; choose one of its arrays by key: {', '.join(arrays)}")
        array = candidates.popitem()[1]
    else:
        array = arrays
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{source} holds an array of {array.ndim} dimensions; a table of rows and columns is needed")
    if chosen.columns is None and chosen.weights is None:
        return array
    columns: NDArray[Any] = array[:, chosen.positions(None, array.shape[1])]
    return columns


def _load(source: str, key: str | None) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """The array of an .npy file; or the arrays of an .npz archive, if one is called `key` that one only."""
    with open(source, "rb") as file:
        try:
            if _suffix(source) == ".npy":
                mapped: NDArray[Any] = np.lib.format.open_memmap(source, mode="r")
                return mapped
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("a single array, not an archive of arrays")
            arrays = {name: archive[name] for name in ([key] if key and key in archive.files else archive.files)}
            # Of a member that is no array, numpy gives the bytes.
            return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
        # A damaged file can raise nearly anything inside zipfile and numpy's reader.
        except Exception as error:
            raise ValueError(f"{source} cannot be read as {_suffix(source)} ({error})") from error


# ---- text ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Text:
    """A table as text, and how it is laid out."""

    name: str
    open: Callable[[], TextIO]
    delimiter: str | None  # None is white space
    n_skipped: int  # lines before the first row
    width: int
    names: tuple[str, ...] | None

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Numbers from 1 and fields of the lines with rows."""
        with self.open() as stream:
            yield from _records(islice(stream, self.n_skipped, None), self.delimiter, self.n_skipped)


def _read_text(source: str, chosen: _Choice, delimiter: str | None) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """The chosen columns, (n, c) float64, and their names."""
    try:
        text = _layout(chosen.table, _opener(source), delimiter or _DELIMITERS.get(_suffix(source)))
        positions = chosen.positions(text.names, text.width)
        try:
            values = _parse(text, positions)
        except ValueError as error:
            _raise_for_cell(text, positions, str(error))
        if not np.isfinite(values).all():
            _raise_for_cell(text, positions, "values are missing or infinite")
    except UnicodeDecodeError as error:
        raise ValueError(f"{chosen.table} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except csv.Error as error:
        raise ValueError(f"{chosen.table} is not a table in text form ({error})") from error
    return values, text.names and tuple(text.names[j] for j in positions)


def _opener(source: str) -> Callable[[], TextIO]:
    """What opens the text anew for each reading; pipes, which cannot be read again, are kept in memory."""
    if source != STANDARD_STREAM and Path(source).is_file():
        return lambda: open(source, encoding="utf-8-sig")
    if source != STANDARD_STREAM:
        data = Path(source).read_bytes()
    elif sys.stdin is None:
        raise ValueError("standard input is closed")
    else:
        data = sys.stdin.buffer.read()
    content = data.decode("utf-8-sig")
    return lambda: io.StringIO(content, newline=None)


def _layout(name: str, open_text: Callable[[], TextIO], delimiter: str | None) -> _Text:
    """Look at the first lines: delimiter, header, number of columns."""
    with open_text() as stream:
        n_skipped, first = next(
            ((i, line) for i, line in enumerate(stream) if line.strip() and not line.startswith("#")), (0, "")
        )
        delimiter = _guessed_delimiter(name, first) if delimiter is None else delimiter
        delimiter = None if delimiter == " " else delimiter
        records = _records(chain([first], stream), delimiter, n_skipped)
        header_line, header = next(records, (0, []))
        if header and all(_is_number(cell) or cell.strip() in _MISSING for cell in header):
            return _Text(name, open_text, delimiter, n_skipped, len(header), None)
        row_line, row = next(records, (0, []))
    if not header:
        raise ValueError(f"{name} holds no rows")
    if not row:
        raise ValueError(f"{name} holds no rows: line {header_line} is not all numbers, so it names the columns")
    if len(row) != len(header):
        raise ValueError(f"{name}, line {row_line}: the number of values is {len(row)}, expected {len(header)}")
    return _Text(name, open_text, delimiter, header_line, len(header), tuple(cell.strip() for cell in header))


def _guessed_delimiter(name: str, line: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", line)
    guess = max(_GUESSED_DELIMITERS, key=unquoted.count)
    if guess in unquoted:
        return guess
    # The one column of a .csv file may have a name of several words.
    return "," if _suffix(name) == ".csv" else " "


def _records(lines: Iterable[str], delimiter: str | None, n_before: int) -> Iterator[tuple[int, list[str]]]:
    """Numbers, from `n_before` + 1, and fields of the lines that are not empty."""
    if delimiter is None:
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter or " ")
    return ((n_before + reader.line_num, fields) for fields in reader if fields)


def _parse(text: _Text, positions: Sequence[int]) -> NDArray[np.float64]:
    """Numbers of some columns, (n, c)."""
    with text.open() as stream:
        read = np.loadtxt(
            stream,
            dtype=_record_dtype(positions, text.width),
            comments=None,
            delimiter=text.delimiter,
            skiprows=text.n_skipped,
            quotechar='"',
            ndmin=1,
        )
    table: NDArray[np.float64] = read.view(np.float64).reshape(len(read), -1)
    return table[:, : len(positions)]


def _record_dtype(positions: Sequence[int], width: int) -> np.dtype[Any]:
    """All columns of the text, so that ragged lines are noticed: the chosen ones side by side, the others behind them.

    The others, which need not be numbers, are one character each, all in the same place.
    """
    places = {j: 8 * i for i, j in enumerate(positions)}
    end = 8 * len(positions)
    return np.dtype(
        {
            "names": [str(j) for j in range(width)],
            "formats": [np.float64 if j in places else "U1" for j in range(width)],
            "offsets": [places.get(j, end) for j in range(width)],
            "itemsize": end if len(places) == width else end + 8,
        }
    )


def _raise_for_cell(text: _Text, positions: Sequence[int], otherwise: str) -> NoReturn:
    """Find the first cell that stands in the way, and name it."""
    for line, fields in text.records():
        if len(fields) != text.width:
            raise ValueError(f"{text.name}, line {line}: the number of values is {len(fields)}, expected {text.width}")
        for j in sorted(positions):
            if not (_is_number(fields[j]) and math.isfinite(float(fields[j]))):
                column = f"column {j} (from 0)" if text.names is None else f"column {text.names[j]!r}"
                raise ValueError(f"{text.name}, line {line}, {column}: {_complaint(fields[j].strip())}")
    raise ValueError(f"{text.name}: {otherwise}")


def _is_number(cell: str) -> bool:
    """Whether numpy reads the cell as a number; Python allows more."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def _complaint(cell: str) -> str:
    if cell in _MISSING or cell.lower() == "nan":
        return "the value is missing"
    return f"{cell[:40]!r} is not a {'finite ' if _is_number(cell) else ''}number"


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_table(target: str | TextIO, columns: Mapping[str, NDArray[Any]], *, header: bool = True) -> None:
    """Write columns to a file or an open text stream.

    Parameters
    ----------
    target : str or text stream
        The ending of a path decides: .npy is numpy's, .tsv and .tab are text with tabs, all others, and streams, text
        with commas.
    columns : mapping of names to (n,) ndarrays
        An .npy file gets an array (n, number of columns), or (n,) if there is one column only; it keeps no names.
    header : bool, default True
        Whether the first line of text names the columns.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError
        If the ending of the path is .npz.

    Examples
    --------
    >>> import sys
    >>> write_table(sys.stdout, {"label": np.array([1, 0]), "p": np.array([0.9, 0.2])})
    label,p
    1,0.9
    0,0.2
    """
    if not isinstance(target, str):
        _write_text(target, columns, ",", header)
    elif _suffix(target) == ".npy":
        arrays = list(columns.values())
        with open(target, "wb") as file:
            np.save(file, arrays[0] if len(arrays) == 1 else np.column_stack(arrays), allow_pickle=False)
    elif _suffix(target) == ".npz":
        raise ValueError(f"{target}: tables are written as text (.csv, .tsv) or as .npy")
    else:
        with open(target, "w", encoding="utf-8", newline="") as stream:
            _write_text(stream, columns, _DELIMITERS.get(_suffix(target), ","), header)


def _write_text(stream: TextIO, columns: Mapping[str, NDArray[Any]], delimiter: str, header: bool) -> None:
    # Python's numbers, which are written with as many digits as it takes to read the same number again.
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writerow(columns)
    arrays = list(columns.values())
    for start in range(0, len(arrays[0]), _ROWS_AT_ONCE):
        writer.writerows(zip(*(a[start : start + _ROWS_AT_ONCE].tolist() for a in arrays), strict=True))
