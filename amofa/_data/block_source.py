"""A table in blocks of rows, of which only some are in memory at a time, and results merged in a fixed order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, Generic, TypeVar

from amofa._typing import FloatArray
from amofa.threads import THREADS, Executor

Result = TypeVar("Result")
# Called with the number of a block, its rows (n, d), an array or a frame, and their weights (n,), if there are any.
OfBlock = Callable[[int, Any, FloatArray | None], Result]
# Results of this number of successive blocks are merged at a time, and so on until one is left. Sums then do not depend
# on who has added them, and no one has to add more than few: with dask, a worker adds this many.
FAN_IN = 8


class BlockSource(ABC):
    """Rows of a table in blocks, in a known order, which can be read again and again."""

    @property
    @abstractmethod
    def n_features(self) -> int: ...

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None."""

    @property
    def executor(self) -> Executor:
        """Who works on independent tasks of a search on these rows."""
        return THREADS

    @abstractmethod
    def map(self, function: OfBlock[Result]) -> list[Result]:
        """Return the results of a function for each block, in order. It may be called in other processes."""

    @abstractmethod
    def total(self, function: OfBlock[Result], merge: Callable[[Result, Result], Result]) -> Result:
        """Return the results of a function for each block as one, merged as by a `Tree`."""


class Tree(Generic[Result]):
    """Merge results that come one after the other, in a fixed order.

    Examples
    --------
    >>> tree = Tree(lambda a, b: f"({a}{b})", fan_in=2)
    >>> for letter in "abcde":
    ...     tree.add(letter)
    >>> tree.result()
    '(((ab)(cd))e)'
    """

    def __init__(self, merge: Callable[[Result, Result], Result], fan_in: int = FAN_IN) -> None:
        self._merge, self._fan_in = merge, fan_in
        # Those of single blocks, of groups of them, of groups of groups, ..., which wait for others.
        self._levels: list[list[Result]] = []

    def add(self, result: Result) -> None:
        """Add the result of the next block."""
        for waiting in self._levels:
            waiting.append(result)
            if len(waiting) < self._fan_in:
                return
            result = merged(waiting, self._merge)
            waiting.clear()
        self._levels.append([result])

    def result(self) -> Result:
        """Return the results of all blocks as one; there must be one at least."""
        left: list[Result] = []
        for waiting in self._levels:
            waiting = [*waiting, *left]
            left = [merged(waiting, self._merge)] if waiting else []
        return left[0]


def merged(results: Iterable[Result], merge: Callable[[Result, Result], Result]) -> Result:
    """Return results as one, merged from the first to the last."""
    return reduce(merge, results)


def groups(results: Sequence[Result], fan_in: int = FAN_IN) -> list[Sequence[Result]]:
    """Return the groups of successive results that a `Tree` merges."""
    return [results[start : start + fan_in] for start in range(0, len(results), fan_in)]
