"""Work shared among threads: order, shares, errors."""

import threading

import numpy as np
import pytest

from amofa._parallel import pool
from amofa.threads import OneEach, in_order, is_abandoned, n_threads, use_threads


def test_results_come_in_order_whoever_is_first():
    second = threading.Event()

    def first_is_last(i):
        if i == 0:
            second.wait(timeout=30)
        second.set()
        return i

    with use_threads(3):
        assert list(in_order(lambda: first_is_last, range(20))) == list(range(20))


def test_so_many_threads_work_and_each_has_its_worker():
    barrier, workers = threading.Barrier(4), []

    def make_worker():
        me = threading.get_ident()
        workers.append(me)

        def work(i):
            # All four must be here before any can go on.
            if i < 4:
                barrier.wait(timeout=30)
            return threading.get_ident() == me

        return work

    with use_threads(4):
        assert all(in_order(make_worker, range(12)))
    assert len(set(workers)) == len(workers) == 4


def test_one_thread_works_when_results_are_asked_for():
    done = []
    with use_threads(1):
        results = in_order(lambda: done.append, [1, 2])
        assert done == []
        list(results)
    assert done == [1, 2]


def test_never_more_threads_than_items():
    with use_threads(50):
        assert len(set(in_order(lambda: lambda _: threading.get_ident(), range(3)))) <= 3


def test_work_within_work_has_its_share_of_the_threads():
    with use_threads(6):
        assert set(in_order(lambda: lambda _: n_threads(), range(2))) == {3}
        assert set(in_order(lambda: lambda _: n_threads(), range(20))) == {1}
        assert set(in_order(lambda: lambda _: n_threads(), range(1))) == {6}
        nested = in_order(lambda: lambda i: sum(in_order(lambda: lambda j: i * j, range(10))), range(2))
        assert list(nested) == [0, 45]


def test_numpy_error_state_holds_in_all_threads():
    with use_threads(3), np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        list(in_order(lambda: lambda _: np.log(np.float64(-1.0)), range(6)))


def test_one_for_each_thread():
    made = OneEach(lambda: [threading.get_ident()])
    assert made.get() is made.get()
    barrier = threading.Barrier(3)

    def own(_):
        barrier.wait(timeout=30)
        return made.get() == [threading.get_ident()] and made.get() is made.get()

    with use_threads(3):
        assert all(in_order(lambda: own, range(3)))


@pytest.mark.parametrize("where", [0, 5])
def test_an_error_ends_the_work_and_is_raised(where):
    failed, done = threading.Event(), []

    def fail(i):
        if i == where:
            failed.set()
            raise KeyError(i)
        done.append(i)
        # No thread goes far ahead of the one that fails.
        if i > where + 10:
            failed.wait(timeout=30)

    with use_threads(3), pytest.raises(KeyError, match=str(where)):
        list(in_order(lambda: fail, range(1_000_000)))
    assert len(done) < 1_000_000 - 1


def test_the_caller_goes_on_alone_where_no_thread_can_be_started(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool, "_own", threading.local())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with use_threads(3):
        assert list(in_order(lambda: str, range(3))) == ["0", "1", "2"]


def test_an_interrupt_is_heard_by_all_threads():
    """Helpers see that nobody waits for them any more; work within their work, too."""
    begun, seen = threading.Event(), []

    def work(number):
        if threading.current_thread() is threading.main_thread():
            begun.wait(timeout=30)
            raise KeyboardInterrupt
        begun.set()
        list(in_order(lambda: until_abandoned, [number]))

    def until_abandoned(number):
        while not is_abandoned():
            threading.Event().wait(0.001)
        seen.append(number)

    with use_threads(2), pytest.raises(KeyboardInterrupt):
        in_order(lambda: work, range(2))
    assert len(seen) == 1
    assert not is_abandoned()
