"""The logic of bench/compare.py: interleaved measurement by two processes, and what counts as slower."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import compare


@pytest.mark.parametrize(
    ("base", "head", "slower"),
    [
        (1.0, 1.05, False),
        (1.0, 1.2, True),
        (1.0, 0.5, False),
        # Many times as long, but by next to nothing.
        (1e-5, 5e-5, False),
        (1e-3, 2e-3, True),
    ],
)
def test_slower_is_beyond_both_margins(base, head, slower):
    # Minima decide: whatever else the machine did must not.
    times = {"task": np.array([[base, 9.0], [7.0, head]])}
    (line,) = compare.verdict(times, relative=0.1, absolute=5e-4)
    assert line == ("task", base, head, slower)


def test_tasks_are_of_the_public_interface():
    """Each of them runs; they must not go stale."""
    import amofa

    for task in compare._tasks(amofa).values():
        assert task() is not None
