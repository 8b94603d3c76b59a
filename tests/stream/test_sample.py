"""Samples of streams are spread evenly over the rows, whatever the blocks."""

import numpy as np
import pytest

from amofa._stream.sample import SpreadRows


def sample_of(n, size, memory=None, d=300):
    rows = np.repeat(np.arange(n, dtype=np.float64)[:, None], d, axis=1)
    sample = SpreadRows.of_nothing(d, memory)
    for start in range(0, n, size):
        part = rows[start : start + size]
        sample = sample.with_rows(part, np.ones(len(part)), start)
    return sample


def test_a_sample_keeps_evenly_spread_rows():
    sample = sample_of(60_000, 4096)
    assert sample.capacity / 2.5 < len(sample) <= sample.capacity == 13_981
    assert np.array_equal(sample.rows[:, 0], sample.numbers)
    assert np.diff(sample.numbers).max() <= 2.7 * 2**sample.level
    # No period: as many rows of each place in a turn.
    assert np.bincount(sample.numbers % 8).min() > 0.95 * len(sample) / 8


@pytest.mark.parametrize("memory", [None, 5000, 40_000])
def test_blocks_make_no_difference(memory):
    one, other = sample_of(60_000, 60_000, memory), sample_of(60_000, 777, memory)
    assert np.array_equal(one.numbers, other.numbers)
    assert one.level == other.level


def test_with_memory_old_rows_go():
    assert np.array_equal(sample_of(30_000, 1000, 5000).numbers, np.arange(25_000, 30_000))
    numbers = sample_of(60_000, 1000, 40_000).numbers
    assert 15_000 < numbers[0] < 25_000
    assert len(numbers) == 10_000
