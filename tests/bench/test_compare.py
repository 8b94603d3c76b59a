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


class Worker:
    """Answers as a process does, and keeps what it was asked to do, with its side, in a common list."""

    def __init__(self, side, tasks, log):
        self.side, self.log, self.answers = side, log, [str(tasks).replace("'", '"')]
        self.stdin = self.stdout = self

    def write(self, line):
        self.log.append((line.strip(), self.side))
        self.answers.append(f"{len(self.log)}")

    def flush(self):
        pass

    def readline(self):
        return self.answers.pop(0)


def test_tasks_of_both_are_done_in_turns():
    log = []
    workers = [Worker(0, ["a", "b", "old"], log), Worker(1, ["new", "b", "a"], log)]
    times = compare.measured(workers, None, 2)
    assert list(times) == ["a", "b"]
    assert log == [(task, side) for sides in ((1, 0), (0, 1), (1, 0)) for task in ("a", "b") for side in sides]
    # Without the warm-up.
    np.testing.assert_array_equal(times["a"], [[5, 10], [6, 9]])


def test_only_tasks_that_were_asked_for():
    log = []
    workers = [Worker(side, ["a", "b"], log) for side in (0, 1)]
    assert list(compare.measured(workers, ["b"], 1)) == ["b"]


def test_a_worker_that_ends_is_an_error():
    worker = Worker(0, [], [])
    worker.answers = [""]
    with pytest.raises(SystemExit, match="before its time"):
        compare.answer(worker)


def test_tasks_are_of_the_public_interface():
    """Each of them runs; they must not go stale."""
    import amofa

    for task in compare._tasks(amofa).values():
        assert task() is not None
