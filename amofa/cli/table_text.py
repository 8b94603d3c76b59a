"""Tables as text: how they are laid out, and numbers and labels from their cells."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from amofa.cli.table_columns import Choice

STANDARD_STREAM = "-"
DELIMITERS = {".tsv": "\t", ".tab": "\t"}
# Looked for in the first line of other files, and the most frequent one taken; where there is none, it is white space.
_GUESSED_DELIMITERS = ",;\t"
# Bytes that are looked at together.
_PIECE = 1 << 16
# Cells of these texts are holes in a table, not the names of its columns. "Na", say, may be such a name.
_MISSING = frozenset({"", "NA", "N/A", "n/a", "NULL", "null", "None", "?"})


def suffix(path: str) -> str:
    """The ending of a path, in small letters."""
    return Path(path).suffix.lower()


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


class Columns(NamedTuple):
    """What is read of a table."""

    numbers: NDArray[Any]  # (n, c), that of the weights last
    labels: NDArray[Any] | None  # (n,)
    names: tuple[str, ...] | None  # of the c columns


def read_text(source: str, chosen: Choice, delimiter: str | None, *, may_be_missing: bool) -> Columns:
    """The chosen columns of a text; NaN where cells may be missing, and are.

    Raises
    ------
    OSError
        If the text cannot be read.
    ValueError
        If it is not a table of such columns.
    """
    try:
        text = _layout(chosen.table, _opener(source, chosen.table), delimiter or DELIMITERS.get(suffix(source)))
        places = chosen.places(text.names, text.width)
        numbers = _numbers(text, places.numbers, may_be_missing=may_be_missing)
        labels = None
        if places.labels is not None:
            labels = np.array([fields[places.labels].strip() for _, fields in text.records()])
    except UnicodeDecodeError as error:
        raise ValueError(f"{chosen.table} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except csv.Error as error:
        raise ValueError(f"{chosen.table} is not a table in text form ({error})") from error
    return Columns(numbers, labels, text.names and tuple(text.names[j] for j in places.numbers))


def _numbers(text: _Text, positions: Sequence[int], *, may_be_missing: bool) -> NDArray[np.float64]:
    """Numbers of some columns, (n, c)."""
    try:
        values = _parse(text, positions)
    except ValueError:
        # Something is wrong with the text, and is named, or cells are missing, which numpy does not read.
        _check_cells(text, positions, may_be_missing=may_be_missing)
        return np.array([[_value(fields[j]) for j in positions] for _, fields in text.records()], dtype=np.float64)
    if not np.isfinite(values).all():
        _check_cells(text, positions, may_be_missing=may_be_missing)
    return values


def _value(cell: str) -> float:
    return math.nan if _is_missing(cell) else float(cell)


def _opener(source: str, name: str) -> Callable[[], TextIO]:
    """What opens the text anew for each reading; pipes, which cannot be read again, are kept in memory."""
    if source != STANDARD_STREAM and Path(source).is_file():
        with open(source, "rb") as file:
            _check_start(file.read(_PIECE), name)
        return lambda: open(source, encoding="utf-8-sig")
    if source != STANDARD_STREAM:
        with open(source, "rb") as pipe:
            content = _read_pipe(pipe, name)
    elif sys.stdin is None:
        raise ValueError("standard input is closed")
    else:
        content = _read_pipe(sys.stdin.buffer, name)
    return lambda: io.StringIO(content, newline=None)


def _read_pipe(pipe: BinaryIO, name: str) -> str:
    """Decoded piece by piece: a device that has no end, of random bytes or of zeros, is no text from the start."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    pieces: list[str] = []
    while piece := pipe.read(_PIECE):
        if not pieces:
            _check_start(piece, name)
        pieces.append(decoder.decode(piece))
    return "".join([*pieces, decoder.decode(b"", final=True)])


def _check_start(start: bytes, name: str) -> None:
    """Refuse a file of zeros, say, which is UTF-8, and one line as long as it is: reading it could fill the memory."""
    if b"\0" in start:
        raise ValueError(f"{name} is not UTF-8 text (it has NUL characters); save it as UTF-8")


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
    return "," if suffix(name) == ".csv" else " "


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


def _check_cells(text: _Text, positions: Sequence[int], *, may_be_missing: bool) -> None:
    """Find the first cell that is no finite number, nor missing where that is allowed, and name it."""
    for line, fields in text.records():
        if len(fields) != text.width:
            raise ValueError(f"{text.name}, line {line}: the number of values is {len(fields)}, expected {text.width}")
        for j in sorted(positions):
            known = (_is_number(fields[j]) and math.isfinite(float(fields[j]))) or (
                may_be_missing and _is_missing(fields[j])
            )
            if not known:
                column = f"column {j} (from 0)" if text.names is None else f"column {text.names[j]!r}"
                raise ValueError(f"{text.name}, line {line}, {column}: {_complaint(fields[j].strip())}")


def _is_missing(cell: str) -> bool:
    return cell.strip() in _MISSING or cell.strip().lower() == "nan"


def _is_number(cell: str) -> bool:
    """Whether numpy reads the cell as a number; Python allows more."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def _complaint(cell: str) -> str:
    if _is_missing(cell):
        return "the value is missing"
    return f"{cell[:40]!r} is not a {'finite ' if _is_number(cell) else ''}number"
