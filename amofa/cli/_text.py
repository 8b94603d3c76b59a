"""Read tables of text: delimiter, header, and cells as numbers or labels.

The text is read once, line by line, with Python's own csv reader. pandas and polars read such files several times
faster, but accept lines with too few or too many fields without an error (as missing values, as an index, or with the
columns shifted), and do not tell the line and the column of a cell that is not a number.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TextIO, cast

import numpy as np

from amofa.cli._columns import Columns, Selection

STANDARD_STREAM = "-"
DELIMITERS = {".tsv": "\t", ".tab": "\t"}
# In other files the most frequent of these in the first line is the delimiter; without any of them it is white space.
_GUESSED_DELIMITERS = ",;\t"
# Texts that mark a missing value, and in the first line are not a column name. "Na", for example, may be a name.
_MISSING = frozenset({"", "NA", "N/A", "n/a", "NULL", "null", "None", "?"})


def suffix(path: str) -> str:
    """Return the extension of a path in lower case."""
    return Path(path).suffix.lower()


def read_text(source: str, selection: Selection, delimiter: str | None, *, may_be_missing: bool) -> Columns:
    """Read the selected columns of a text file; missing cells are NaN.

    Raises OSError if the file cannot be read, and ValueError if it is not a table with such columns, or a cell is
    missing where `may_be_missing` is False.
    """
    try:
        with _open_text(source, selection.table) as stream:
            return _read(stream, selection, delimiter or DELIMITERS.get(suffix(source)), may_be_missing)
    except UnicodeDecodeError as error:
        raise ValueError(f"{selection.table} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except csv.Error as error:
        raise ValueError(f"{selection.table} is not a table in text form ({error})") from error


@contextmanager
def _open_text(source: str, name: str) -> Iterator[TextIO]:
    """Open a file, a pipe, or standard input, which stays open afterwards."""
    if source == STANDARD_STREAM and sys.stdin is None:
        raise ValueError("standard input is closed")
    with nullcontext(sys.stdin.buffer) if source == STANDARD_STREAM else open(source, "rb") as file:
        # A device or a sparse file of zeros is valid UTF-8 without an end of line: reading it could fill the memory.
        if b"\0" in cast(io.BufferedReader, file).peek():
            raise ValueError(f"{name} is not UTF-8 text (it has NUL characters); save it as UTF-8")
        text = io.TextIOWrapper(file, encoding="utf-8-sig")
        try:
            yield text
        finally:
            text.detach()


def _read(stream: TextIO, selection: Selection, delimiter: str | None, may_be_missing: bool) -> Columns:
    table = selection.table
    names, width, records = _read_header(stream, table, delimiter)
    positions = selection.positions(names, width)
    numbers, labels = array("d"), []
    for line, fields in records:
        if len(fields) != width:
            raise ValueError(f"{table}, line {line}: the number of values is {len(fields)}, expected {width}")
        cells = [fields[j] for j in positions.numbers]
        row = _plain_numbers(cells)
        if row is None:
            for j, cell in zip(positions.numbers, cells, strict=True):
                if complaint := _complaint(cell.strip(), may_be_missing):
                    column = f"column {j} (from 0)" if names is None else f"column {names[j]!r}"
                    raise ValueError(f"{table}, line {line}, {column}: {complaint}")
            row = [math.nan if _is_missing(cell.strip()) else float(cell) for cell in cells]
        numbers.extend(row)
        if positions.labels is not None:
            labels.append(fields[positions.labels].strip())
    return Columns(
        np.frombuffer(numbers).reshape(-1, len(positions.numbers)),
        None if positions.labels is None else np.array(labels),
        names and tuple(names[j] for j in positions.numbers),
    )


def _read_header(
    stream: TextIO, table: str, delimiter: str | None
) -> tuple[tuple[str, ...] | None, int, Iterator[tuple[int, list[str]]]]:
    """Return the names of the columns, if there are any, their number, and the lines of the rows."""
    n_skipped, first = next(
        ((i, line) for i, line in enumerate(stream) if line.strip() and not line.startswith("#")), (0, "")
    )
    records = _records(chain([first], stream), delimiter or _guessed_delimiter(table, first), n_skipped)
    header_line, header = next(records, (0, []))
    if not header:
        raise ValueError(f"{table} holds no rows")
    cells = [cell.strip() for cell in header]
    if all(_is_missing(cell) or _is_number(cell) for cell in cells):
        return None, len(cells), chain([(header_line, header)], records)
    row = next(records, None)
    if row is None:
        raise ValueError(f"{table} holds no rows: line {header_line} is not all numbers and was read as the header")
    return tuple(cells), len(cells), chain([row], records)


def _guessed_delimiter(name: str, line: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", line)
    guess = max(_GUESSED_DELIMITERS, key=unquoted.count)
    if guess in unquoted:
        return guess
    # The name of the only column of a .csv file may be several words.
    return "," if suffix(name) == ".csv" else " "


def _records(lines: Iterable[str], delimiter: str, n_skipped: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number, from `n_skipped` + 1, and the fields of each line that is not empty."""
    if delimiter == " ":
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter)
    return ((n_skipped + reader.line_num, fields) for fields in reader if fields)


def _plain_numbers(cells: Sequence[str]) -> list[float] | None:
    """Return the numbers in the cells of a row, or None where the cells must be looked at one by one."""
    try:
        numbers = list(map(float, cells))
    except ValueError:
        return None
    text = "".join(cells)
    return numbers if math.isfinite(sum(numbers)) and text.isascii() and "_" not in text else None


def _is_missing(cell: str) -> bool:
    return cell in _MISSING or cell.lower() == "nan"


def _is_number(cell: str) -> bool:
    """Return whether a cell is a number; Python's 1_000 and digits of other scripts are not."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def _complaint(cell: str, may_be_missing: bool) -> str:
    """Return what is wrong with a cell, or an empty text."""
    if _is_missing(cell):
        return "" if may_be_missing else "the value is missing"
    if not _is_number(cell):
        return f"{cell[:40]!r} is not a number"
    return "" if math.isfinite(float(cell)) else f"{cell[:40]!r} is not a finite number"
