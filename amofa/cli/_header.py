"""The format of a text table: whether its first line has the names of its columns, and cells as numbers."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

# Texts that mark a missing value, and in the first line are not a column name. "Na", for example, may be a name.
_MISSING = frozenset({"", "NA", "N/A", "n/a", "NULL", "null", "None", "?"})
# A first line of numbers is taken for names if they have equal steps, as wavelengths, or only rise or only fall, and
# there are at least these many: of 8 numbers in random order, 1 in 20,000 does. 0, 1, 2, ... are names without a name.
_LEAST_EQUAL_STEPS, _LEAST_MONOTONE, _LEAST_COUNTED = 5, 8, 4
# Of fewer, but at least these many, a warning says that they may be names.
_LEAST_ORDERED = 2
_SAME_STEP = 1e-6
_EUROPEAN_NUMBER = re.compile(r"[-+]?[0-9.]*,[0-9]+")
_WITH_THOUSANDS = re.compile(r"[-+]?\d{1,3}([.,' ]\d{3})+([.,]\d*)?")
_MARKED_NUMBER = re.compile(r"[-+]?[.,]?\d[\d.,_]*")
# What marks a missing value has seldom three letters in a row and never more characters than this.
_WORD, _LONGEST_MARK = re.compile(r"[^\W\d_]{3}"), 20
_SWAPPED_MARKS = str.maketrans(",.", ".,")


class TextFormat(NamedTuple):
    """How a table is written in text; None for a guess from its first lines, and for a comma if it is to be written."""

    delimiter: str | None = None
    decimal: str = "."
    header: bool | None = None
    missing: frozenset[str] = frozenset()  # further texts that mark a missing value

    @property
    def cells(self) -> Cells:
        return Cells(self.decimal, self.missing)


USUAL_FORMAT = TextFormat()


class Cells(NamedTuple):
    """How numbers are written: with this decimal mark, "." or ",", or a text that marks a missing value."""

    decimal: str = "."
    missing: frozenset[str] = frozenset()

    def is_missing(self, cell: str) -> bool:
        return cell in _MISSING or cell in self.missing or cell.lower() == "nan"

    def plain(self, cell: str) -> str:
        """Return a number as Python writes it; what has the other mark is not a number."""
        return cell if self.decimal == "." else cell.translate(_SWAPPED_MARKS)

    def is_number(self, cell: str) -> bool:
        """Return whether a cell is a number; Python's 1_000 and digits of other scripts are not."""
        try:
            float(self.plain(cell))
        except ValueError:
            return False
        return cell.isascii() and "_" not in cell

    def number(self, cell: str) -> float:
        """Return the number in a cell, NaN if it is missing."""
        return math.nan if self.is_missing(cell) else float(self.plain(cell))

    def numbers(self, cells: Sequence[str]) -> list[float] | None:
        """Return the numbers in the cells of a row, or None if the cells must be looked at one by one."""
        try:
            numbers = list(map(float, cells if self.decimal == "." else map(self.plain, cells)))
        except ValueError:
            return None
        text = "".join(cells)
        return numbers if math.isfinite(sum(numbers)) and text.isascii() and "_" not in text else None

    def is_text(self, cell: str) -> bool:
        """Return whether a cell is neither missing nor a number, with marks of any kind."""
        return not (self.is_missing(cell) or self.is_number(cell) or _MARKED_NUMBER.fullmatch(cell))

    def complaint(self, cell: str, may_be_missing: bool, *, is_first: bool = False) -> str:
        """Return what is wrong with a cell, or an empty text; `is_first` says that it is in the first row."""
        if self.is_missing(cell):
            return "" if may_be_missing else "the value is missing"
        shown = cell[:40]
        remedy = f"; if it marks a missing value, pass --missing={shlex.quote(shown)}" if may_be_missing else ""
        if not self.is_number(cell):
            if self.decimal == "." and _EUROPEAN_NUMBER.fullmatch(cell):
                remedy = "; for decimal commas pass --decimal ,"
                if _WITH_THOUSANDS.fullmatch(cell):
                    remedy += " and write thousands without marks"
            elif _WITH_THOUSANDS.fullmatch(cell):
                remedy = "; write numbers without marks of thousands"
            elif not self._may_be_mark(cell, is_first):
                remedy = ""
            return f"{shown!r} is not a number{remedy}"
        return "" if math.isfinite(float(self.plain(cell))) else f"{shown!r} is not a finite number{remedy}"

    def _may_be_mark(self, cell: str, is_first: bool) -> bool:
        """Return whether a text may mark a missing value; a word in the first row is rather one of a column of text."""
        return self.is_text(cell) and len(cell) <= _LONGEST_MARK and not (is_first and _WORD.search(cell))


class Guess(NamedTuple):
    """Whether a first line has names, and whether that is sure."""

    has_names: bool
    is_sure: bool


def guess_header(first: Sequence[str], second: Sequence[str], known: frozenset[str], cells: Cells) -> Guess:
    """Guess from the cells of the first two lines whether the first has names; `known` are names of columns."""
    if known and known <= set(first):
        return Guess(True, True)
    text = [j for j, cell in enumerate(first) if not cells.is_missing(cell) and not cells.is_number(cell)]
    if not text:
        has_names = _look_like_names(first, second, cells)
        return Guess(has_names, not has_names and not _may_be_names(first, second, cells))
    if any(j >= len(second) or cells.is_missing(second[j]) or cells.is_number(second[j]) for j in text):
        return Guess(True, True)
    # All text of the first line is in columns of text, so that it may be a row like the others.
    if not any(cells.is_number(cell) for cell in first):
        return Guess(True, True)
    return Guess(_look_like_names(first, second, cells), False)


def _look_like_names(first: Sequence[str], second: Sequence[str], cells: Cells) -> bool:
    """Return whether the numbers of the first line are ordered as names are, and more so than those of the second."""
    return _order(first, cells) > _order(second, cells)


def _may_be_names(first: Sequence[str], second: Sequence[str], cells: Cells) -> bool:
    """Return whether the first line has whole numbers in order, as a few years, and the second has fractions."""
    numbers = _numbers(first, cells)
    others = _numbers(second, cells)
    steps = [after - before for before, after in pairwise(numbers)]
    return (
        len(numbers) >= _LEAST_ORDERED
        and len(others) > 0
        and all(number.is_integer() for number in numbers)
        and (min(steps) > 0 or max(steps) < 0)
        and not any(number.is_integer() for number in others)
    )


def _numbers(line: Sequence[str], cells: Cells) -> list[float]:
    return [cells.number(cell) for cell in line if cells.is_number(cell)]


def _order(line: Sequence[str], cells: Cells) -> int:
    """Return 2 for equal steps, such as years, 1 for numbers that only rise or only fall, as a trend does, else 0."""
    numbers = _numbers(line, cells)
    n = len(numbers)
    if n >= _LEAST_COUNTED and numbers == list(map(float, range(n))):
        return 2
    steps = [after - before for before, after in pairwise(numbers)]
    if n < _LEAST_EQUAL_STEPS or not (min(steps) > 0 or max(steps) < 0):
        return 0
    if max(steps) - min(steps) <= _SAME_STEP * max(map(abs, steps)):
        return 2
    return int(n >= _LEAST_MONOTONE)
