"""Read tables of text: delimiter, header, and cells as numbers or labels.

The text is read once, line by line, with Python's own csv reader. pandas and polars read such files several times
faster, but accept lines with too few or too many fields without an error (as missing values, as an index, or with the
columns shifted), and do not tell the line and the column of a cell that is not a number.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import numpy as np

from amofa.cli._columns import Columns, Selection
from amofa.cli._header import Cells, TextFormat, guess_header
from amofa.warnings import warn_caller

STANDARD_STREAM = "-"
COMPRESSED = ".gz"
DELIMITERS = {".tsv": "\t", ".tab": "\t"}
# In other files the most frequent of these in the first line is the delimiter; without any of them it is white space.
_GUESSED_DELIMITERS = ",;\t"
_EUROPEAN_NUMBER = re.compile(r"[-+]?[0-9]+,[0-9]+")
# What to do about a missing value where none is allowed.
_NO_WEIGHT = "; each row needs a weight"
_HOLE = "; drop the row, or fill it in first by amofa impute --keep"


def suffix(path: str) -> str:
    """Return the extension of a path in lower case, without that of compression."""
    return Path(path.lower().removesuffix(COMPRESSED)).suffix


def read_text(source: str, selection: Selection, form: TextFormat, *, may_be_missing: bool) -> Columns:
    """Read the selected columns of a text file; missing cells are NaN.

    Raises OSError if the file cannot be read, and ValueError if it is not a table with such columns, or a cell is
    missing where `may_be_missing` is False, or a weight.
    """
    try:
        with _open_text(source, selection.table) as stream:
            form = form._replace(delimiter=form.delimiter or DELIMITERS.get(suffix(source)))
            return _read(stream, selection, form, may_be_missing)
    except UnicodeDecodeError as error:
        raise ValueError(f"{selection.table} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{selection.table} is not a whole file of gzip ({error})") from error
    except csv.Error as error:
        raise ValueError(f"{selection.table} is not a table in text form ({error})") from error


@contextmanager
def _open_text(source: str, name: str) -> Iterator[TextIO]:
    """Open a file, a pipe, or standard input, which stays open afterwards."""
    if source == STANDARD_STREAM and sys.stdin is None:
        raise ValueError("standard input is closed")
    with nullcontext(sys.stdin.buffer) if source == STANDARD_STREAM else open(source, "rb") as file:
        if source.lower().endswith(COMPRESSED):
            file = cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=file)))
        # A device or a sparse file of zeros is valid UTF-8 without an end of line: reading it could fill the memory.
        if b"\0" in cast(io.BufferedReader, file).peek():
            raise ValueError(f"{name} is not UTF-8 text (it has NUL characters); save it as UTF-8")
        text = io.TextIOWrapper(file, encoding="utf-8-sig")
        try:
            yield text
        finally:
            text.detach()


def _read(stream: TextIO, selection: Selection, form: TextFormat, may_be_missing: bool) -> Columns:
    table, read_cells = selection.table, form.cells
    names, width, records, form = _read_header(stream, selection, form)
    first_line, first = next(records)
    records = chain([(first_line, first)], records)
    first_is_index = names is not None and names[0] == "" and _may_be_index(first[0], read_cells)
    positions = selection.positions(names, width, first_is_index=first_is_index)
    kept = selection.kept(positions, names, width)
    numbers, labels, others = array("d"), [], []
    for line, fields in records:
        if len(fields) != width:
            raise ValueError(f"{table}, line {line}: the number of values is {len(fields)}, expected {width}")
        cells = [fields[j] for j in positions.numbers]
        row = read_cells.numbers(cells)
        if row is None:
            for j, cell in zip(positions.numbers, cells, strict=True):
                may_be_so = may_be_missing and j != positions.weights
                if complaint := read_cells.complaint(cell.strip(), may_be_so, is_first=line == first_line):
                    column = f"column {j} (from 0)" if names is None else f"column {names[j]!r}"
                    text = [i for i in positions.values if read_cells.is_text(fields[i].strip())]
                    remedy = selection.remedy_for_text(text, names) if j in text else ""
                    if read_cells.is_missing(cell.strip()):
                        remedy = _NO_WEIGHT if j == positions.weights else _HOLE
                    raise ValueError(f"{table}, line {line}, {column}: {complaint}{remedy}")
            row = [read_cells.number(cell.strip()) for cell in cells]
        numbers.extend(row)
        if positions.leaves_first_out and not _may_be_index(fields[0], read_cells):
            raise ValueError(
                f"{table}, line {line}: the first column has no name, but {fields[0].strip()[:40]!r} is not a row "
                "number; leave the column out by --exclude 0, or select columns by --columns"
            )
        if positions.labels is not None:
            labels.append(fields[positions.labels].strip())
        if kept:
            others.append([fields[j].strip() for j in kept])
    if positions.leaves_first_out:
        warn_caller(
            f"the first column of {table} has no name and is taken for an index, not for data; --index 0 says so, "
            "--columns selects it"
        )
    return Columns(
        np.frombuffer(numbers).reshape(-1, len(positions.numbers)),
        None if positions.labels is None else np.array(labels),
        names and tuple(names[j] for j in positions.numbers),
        {
            name: np.array(cells, dtype=object)
            for name, cells in zip(kept.values(), zip(*others, strict=True), strict=True)
        },
        [kept[j] for j in positions.values if j in kept],
        form,
    )


def _may_be_index(cell: str, read_cells: Cells) -> bool:
    """Return whether a cell may be the number or the name of a row: whether it is no number with a fraction."""
    cell = cell.strip()
    return not read_cells.is_number(cell) or read_cells.number(cell).is_integer()


def _read_header(
    stream: TextIO, selection: Selection, form: TextFormat
) -> tuple[tuple[str, ...] | None, int, Iterator[tuple[int, list[str]]], TextFormat]:
    """Return the names of the columns, if any, their number, the lines of the rows, at least one, and the format."""
    table = selection.table
    n_skipped, text = next(
        ((i, line) for i, line in enumerate(stream) if line.strip() and not line.startswith("#")), (0, "")
    )
    delimiter = form.delimiter or _guessed_delimiter(table, text, form.decimal)
    form = form._replace(delimiter=delimiter)
    records = _records(chain([text], stream), delimiter, n_skipped)
    first = next(records, None)
    if first is None:
        raise ValueError(f"{table} holds no rows")
    second = next(records, None)
    rows = records if second is None else chain([second], records)
    names = [cell.strip() for cell in first[1]]
    if not _has_header(
        names, None if second is None else [cell.strip() for cell in second[1]], first[0], selection, form
    ):
        return None, len(names), chain([first], rows), form
    if second is None:
        raise ValueError(f"{table} holds no rows: line {first[0]} is not all numbers and was read as the header")
    if delimiter.isspace() and len(second[1]) == len(names) + 1:
        # As write.table of R writes names of rows, which have no name of their own and no place for it.
        names = ["", *names]
    return tuple(names), len(names), rows, form


def _has_header(
    first: Sequence[str], second: Sequence[str] | None, line: int, selection: Selection, form: TextFormat
) -> bool:
    """Return whether the first line has names; warn if that is a guess that the lines leave open."""
    if form.header is not None:
        return form.header
    guess = guess_header(first, second or [], selection.known_names, form.cells)
    if not guess.is_sure and second is not None:
        read_as, option = ("names of columns", "--no-header") if guess.has_names else ("a row", "--header")
        warn_caller(f"line {line} of {selection.table} was read as {read_as}; if it is not, pass {option}")
    return guess.has_names


def _guessed_delimiter(name: str, line: str, decimal: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", line)
    if decimal == "." and ";" in line and all(map(_EUROPEAN_NUMBER.fullmatch, line.strip().split(";"))):
        # So that an error of the first number says what to do.
        return ";"
    guess = max(_GUESSED_DELIMITERS.replace(decimal, ""), key=unquoted.count)
    if guess in unquoted:
        return guess
    # The name of the only column of a .csv file may be several words.
    return ";" if suffix(name) == ".csv" and decimal == "," else "," if suffix(name) == ".csv" else " "


def _records(lines: Iterable[str], delimiter: str, n_skipped: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number, from `n_skipped` + 1, and the fields of each line that is not empty."""
    if delimiter == " ":
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter)
    return ((n_skipped + reader.line_num, fields) for fields in reader if fields)
