"""Which columns of a table are wanted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Places(NamedTuple):
    """Positions of columns."""

    values: list[int]
    weights: int | None
    labels: int | None

    @property
    def numbers(self) -> list[int]:
        """Of those that hold numbers, that of the weights last."""
        return self.values if self.weights is None else [*self.values, self.weights]


@dataclass(frozen=True)
class Choice:
    """What is wanted of a table; its name for error messages.

    Attributes
    ----------
    table : str
    columns : sequence of str, optional
        Names, numbers from 0, or ranges of numbers such as "0-3"; all that have no other use where not given.
    weights, labels : str, optional
        Columns of row weights and of labels.
    names : sequence of str, optional
        Names of the columns to use where `columns` are not given and the table has names.
    may_lack_labels : bool
        Whether there may be no column of labels: none of that name, or without names, none at that place beyond
        `n_features` others.
    n_features : int, optional
    """

    table: str
    columns: Sequence[str] | None = None
    weights: str | None = None
    labels: str | None = None
    names: Sequence[str] | None = None
    may_lack_labels: bool = False
    n_features: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all columns are wanted, for the same use."""
        return self.columns is None and self.weights is None and self.labels is None

    def places(self, names: tuple[str, ...] | None, width: int) -> Places:
        """Positions among `width` columns.

        Raises
        ------
        ValueError
            If there is no such column, or one is chosen twice, or none.
        """
        weights, labels = (self._one(use, names, width) for use in ("weights", "labels"))
        others = [j for j in (weights, labels) if j is not None]
        if self.columns is not None:
            values = [j for column in self.columns for j in self._find(column, names, width)]
        elif self.names is not None and names is not None:
            values = [j for name in self.names for j in self._find(name, names, width)]
        else:
            values = [j for j in range(width) if j not in others]
        if not values:
            use = "labels" if weights is None else "weights"
            raise ValueError(f"{self.table} has no column to use but that of the {use}")
        if twice := [j for j, count in Counter([*values, *others]).items() if count > 1]:
            raise ValueError(f"column {twice[0]} (from 0) of {self.table} is chosen twice")
        return Places(values, weights, labels)

    def _one(self, use: str, names: tuple[str, ...] | None, width: int) -> int | None:
        """The column of weights or of labels."""
        column: str | None = getattr(self, use)
        if column is None or (use == "labels" and self._lacks(column, names, width)):
            return None
        found = self._find(column, names, width)
        if len(found) > 1:
            raise ValueError(f"{use} must be one column, got {column!r}")
        return found[0]

    def _lacks(self, labels: str, names: tuple[str, ...] | None, width: int) -> bool:
        if not self.may_lack_labels:
            return False
        return labels not in names if names is not None else width == self.n_features

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
