"""A sample of the rows of a stream that is spread evenly over them, without random numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from amofa._typing import BoolArray, FloatArray

# At most this number of rows, and of values (32 MB) unless there are fewer than two rows for each column.
_MOST_ROWS, _MOST_VALUES, _ROWS_PER_COLUMN = 20_000, 1 << 22, 2
# Rows are taken where multiples of the golden ratio, without their whole part, are below a bound: their distances have
# three lengths about a mean, and no period that rows recorded in turns might have as well. In units of 2^-64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BITS = 64


@dataclass(frozen=True)
class SpreadRows:
    """Some rows of a stream: about one of 2^level, and only the last of them if there is a memory."""

    rows: FloatArray  # (m, d), NaN where cells are missing
    weights: FloatArray  # (m,)
    numbers: NDArray[np.int64]  # (m,) places in the stream, from 0
    capacity: int  # the most rows
    level: int
    forgets: bool

    @classmethod
    def of_nothing(cls, n_features: int, memory: float | None) -> SpreadRows:
        """Return an empty sample for a stream that forgets all but about `memory` rows, if that is given."""
        capacity = min(_MOST_ROWS, max(_MOST_VALUES // n_features, _ROWS_PER_COLUMN * n_features))
        level = 0
        if memory is not None:
            level = max(0, math.ceil(math.log2(memory / capacity)))
            capacity = max(1, int(memory / 2**level))
        nothing = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, n_features)), np.zeros(0), nothing, capacity, level, memory is not None)

    def __len__(self) -> int:
        return len(self.rows)

    def with_rows(self, rows: FloatArray, weights: FloatArray, first: int) -> SpreadRows:
        """Return the sample after further rows (n, d), of which `first` is the number of the first one."""
        numbers = np.arange(first, first + len(rows), dtype=np.int64)
        taken = _is_taken(numbers, self.level)
        sample = replace(
            self,
            rows=np.concatenate([self.rows, rows[taken]]),
            weights=np.concatenate([self.weights, weights[taken]]),
            numbers=np.concatenate([self.numbers, numbers[taken]]),
        )
        if self.forgets:
            return sample._some(slice(-self.capacity, None))
        while len(sample) > self.capacity:
            sample = replace(sample, level=sample.level + 1)
            sample = sample._some(_is_taken(sample.numbers, sample.level))
        return sample

    def _some(self, kept: slice | BoolArray) -> SpreadRows:
        return replace(self, rows=self.rows[kept], weights=self.weights[kept], numbers=self.numbers[kept])


def _is_taken(numbers: NDArray[np.int64], level: int) -> BoolArray:
    """Return which rows belong to the sample of a level; those of the next level are among them."""
    if level == 0:
        return np.ones(len(numbers), dtype=np.bool_)
    taken: BoolArray = (numbers.astype(np.uint64) * _GOLDEN) >> np.uint64(_BITS - level) == 0
    return taken
