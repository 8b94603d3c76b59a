"""Select columns of a table by name or number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray


class Positions(NamedTuple):
    """Positions of the selected columns, from 0."""

    values: list[int]
    weights: int | None
    labels: int | None

    @property
    def numbers(self) -> list[int]:
        """Columns that must hold numbers, the weights last."""
        return self.values if self.weights is None else [*self.values, self.weights]


class Columns(NamedTuple):
    """What was read of the selected columns."""

    numbers: NDArray[Any]  # (n, c), the weights last
    labels: NDArray[Any] | None  # (n,)
    names: tuple[str, ...] | None  # of the c columns


@dataclass(frozen=True)
class Selection:
    """The columns that are asked for; by default all without another use.

    Columns are given by names, numbers from 0, or ranges of numbers such as "0-3", or by `names`, where `columns` is
    None and the table has names. With `may_lack_labels` the column of labels may be absent: no column of that name, or
    in a table without names, `n_features` columns in all.
    """

    table: str  # what error messages call the table
    columns: Sequence[str] | None = None
    weights: str | None = None
    labels: str | None = None
    names: Sequence[str] | None = None
    may_lack_labels: bool = False
    n_features: int | None = None

    def positions(self, names: Sequence[str] | None, width: int) -> Positions:
        """Return the positions among `width` columns; ValueError if one is missing or selected twice, or none is."""
        weights = self._find_one("weights", self.weights, names, width)
        lacks_labels = self.may_lack_labels and (
            width == self.n_features if names is None else self.labels not in names
        )
        labels = None if lacks_labels else self._find_one("labels", self.labels, names, width)
        others = [j for j in (weights, labels) if j is not None]
        if self.columns is not None:
            values = [j for column in self.columns for j in self._find(column, names, width)]
        elif self.names is not None and names is not None:
            values = [j for name in self.names for j in self._find(name, names, width)]
        else:
            values = [j for j in range(width) if j not in others]
        if not values:
            use = "labels" if weights is None else "weights"
            raise ValueError(f"{self.table} has no column besides that of the {use}")
        if twice := [j for j, count in Counter([*values, *others]).items() if count > 1]:
            raise ValueError(f"column {twice[0]} (from 0) of {self.table} is chosen twice")
        return Positions(values, weights, labels)

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
        numbers = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", column)
        first, last = (int(numbers[1]), int(numbers[2] or numbers[1])) if numbers else (0, -1)
        if not first <= last < width:
            asked = column if numbers else repr(column)
            available = f"columns are numbered from 0 to {width - 1}"
            if names is not None:
                available += f" and named {', '.join(names[:20])}{', ...' if width > 20 else ''}"
            raise ValueError(f"{self.table} has no column {asked}; {available}")
        return list(range(first, last + 1))
