"""Select columns of a table by name or number."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from amofa.cli._header import USUAL_FORMAT, TextFormat

# A number of a column, or a range.
_NUMBERS = re.compile(r"([0-9]+)(?:-([0-9]+))?")


class Positions(NamedTuple):
    """Positions of the selected columns, from 0."""

    values: list[int]
    weights: int | None
    labels: int | None
    row_names: int | None
    leaves_first_out: bool  # as an index that has no name

    @property
    def numbers(self) -> list[int]:
        """Columns that must hold numbers, the weights last."""
        return self.values if self.weights is None else [*self.values, self.weights]


class Columns(NamedTuple):
    """What was read of the selected columns."""

    numbers: NDArray[Any]  # (n, c), the weights last
    labels: NDArray[Any] | None  # (n,)
    names: tuple[str, ...] | None  # of the c columns
    kept: dict[str, NDArray[Any]]  # columns to be written again, (n,), by name
    kept_values: list[str]  # names there of the columns of numbers, if they are kept
    form: TextFormat = USUAL_FORMAT  # of a text


@dataclass(frozen=True)
class Selection:
    """The columns that are asked for; by default all without another use.

    Columns are given by names, numbers from 0, or ranges of numbers such as "0-3", or by `names`, where `columns` is
    None and the table has names. Those in `exclude`, and `index`, are left out. With `may_lack_labels` the column of
    labels may be absent: no column of that name, or in a table without names, `n_features` columns in all. With `keep`
    all columns are kept as they are, to be written again; otherwise the index is.
    """

    table: str  # what error messages call the table
    columns: Sequence[str] | None = None
    weights: str | None = None
    labels: str | None = None
    names: Sequence[str] | None = None
    may_lack_labels: bool = False
    n_features: int | None = None
    exclude: Sequence[str] = ()
    index: str | None = None
    keep: bool = False

    @property
    def known_names(self) -> frozenset[str]:
        """Names that a column of the table must have."""
        asked = [*(self.columns or ()), *self.exclude, *(c for c in (self.weights, self.index) if c is not None)]
        if self.labels is not None and not self.may_lack_labels:
            asked.append(self.labels)
        if self.columns is None and self.names is not None:
            asked += self.names
            return frozenset(asked)
        return frozenset(column for column in asked if not _NUMBERS.fullmatch(column))

    def positions(self, names: Sequence[str] | None, width: int, *, first_is_index: bool = False) -> Positions:
        """Return the positions among `width` columns; ValueError if one is missing or selected twice, or none is.

        With `first_is_index` the first column is not among those that are selected by default.
        """
        weights = self._find_one("weights", self.weights, names, width)
        index = self._find_one("the index", self.index, names, width)
        excluded = {j for column in self.exclude for j in self._find(column, names, width)}
        lacks_labels = self.may_lack_labels and (
            width - len(excluded) - (index is not None) == self.n_features
            if names is None
            else self.labels not in names
        )
        labels = None if lacks_labels else self._find_one("labels", self.labels, names, width)
        others = [j for j in (weights, labels, index) if j is not None]
        leaves_first_out = False
        if self.columns is not None:
            values = [j for column in self.columns for j in self._find(column, names, width)]
        elif self.names is not None and names is not None:
            values = [j for name in self.names for j in self._find(name, names, width)]
        else:
            leaves_first_out = first_is_index and 0 not in others and 0 not in excluded
            values = [j for j in range(int(leaves_first_out), width) if j not in others]
        values = [j for j in values if j not in excluded]
        if not values:
            uses = {"weights": weights, "labels": labels, "index": index}
            use = next((f"that of the {name}" for name, j in uses.items() if j is not None), "those to exclude")
            raise ValueError(f"{self.table} has no column besides {use}")
        if twice := [j for j, count in Counter([*values, *others]).items() if count > 1]:
            raise ValueError(f"column {twice[0]} (from 0) of {self.table} is chosen twice")
        if names is not None and self.names is None and self.n_features is None:
            self._check_different([names[j] for j in values])
        return Positions(values, weights, labels, index, leaves_first_out)

    def _check_different(self, names: Sequence[str]) -> None:
        """Check that the columns of a table to fit have different names, by which a model finds them again."""
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(
                f"{self.table} has {names.count(repeated[0])} columns {repeated[0]!r}; rename one, or leave it out by "
                "--exclude with its number"
            )

    def kept(self, positions: Positions, names: Sequence[str] | None, width: int) -> dict[int, str]:
        """Return the columns to be written again, with different names: x0, x1, ... without names."""
        kept = range(width) if self.keep else [j for j in (positions.row_names,) if j is not None]
        given = [f"x{j}" for j in range(width)] if names is None else list(names)
        result: dict[int, str] = {}
        for j in kept:
            result[j] = free_name(given[j], result.values())
        return result

    def remedy_for_text(self, columns: Sequence[int], names: Sequence[str] | None) -> str:
        """Return how to leave out columns that hold text, or an empty text if a model needs them."""
        if self.names is not None or self.n_features is not None:
            return ""
        line = io.StringIO()
        found = [str(j) if names is None or names.count(names[j]) > 1 else names[j] or str(j) for j in columns]
        csv.writer(line, lineterminator="").writerow([*self.exclude, *found])
        return f"; leave out columns of text by --exclude {shlex.quote(line.getvalue())}"

    def _find_one(self, use: str, column: str | None, names: Sequence[str] | None, width: int) -> int | None:
        if column is None:
            return None
        found = self._find(column, names, width)
        if len(found) > 1:
            raise ValueError(f"{use} must be one column, got {column!r}")
        return found[0]

    def _find(self, column: str, names: Sequence[str] | None, width: int) -> list[int]:
        """Return the positions of a column, given by name or number, or of a range of columns."""
        found = [j for j, name in enumerate(names or ()) if name == column]
        if len(found) > 1:
            raise ValueError(f"{self.table} has {len(found)} columns {column!r}; choose one by number")
        if found:
            return found
        numbers = _NUMBERS.fullmatch(column)
        first, last = (int(numbers[1]), int(numbers[2] or numbers[1])) if numbers else (0, -1)
        if not first <= last < width:
            asked = column if numbers else repr(column)
            available = f"columns are numbered from 0 to {width - 1}"
            if names is not None:
                available += f" and named {', '.join(names[:20])}{', ...' if width > 20 else ''}"
            raise ValueError(f"{self.table} has no column {asked}; {available}")
        return list(range(first, last + 1))


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: `name`, with underscores appended as needed."""
    return name if name not in taken else free_name(f"{name}_", taken)
