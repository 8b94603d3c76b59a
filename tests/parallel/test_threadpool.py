"""Limits of threadpoolctl hold this package's threads, in the thread that sets them and until they end."""

import threading

import pytest
import threadpoolctl

from amofa._parallel import cores
from amofa.threads import default_threads, in_order, n_threads, use_threads


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(cores, "available_cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def entry():
    """What threadpoolctl says of this package."""
    (found,) = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "amofa"]
    return found


def threads_at_work():
    """Numbers of the threads that work on items that wait for one another, as far as there are threads for them."""
    n = n_threads()
    barrier = threading.Barrier(n)

    def worker(_):
        barrier.wait(10)
        return threading.get_ident()

    return len(set(in_order(lambda: worker, range(n))))


def test_threadpoolctl_knows_this_package():
    assert entry()["num_threads"] == 4
    assert entry()["prefix"] == "cython_amofa"


@pytest.mark.parametrize("user_api", [None, "amofa"])
def test_a_limit_holds_until_it_ends(user_api):
    assert threads_at_work() == 4
    with threadpoolctl.threadpool_limits(1, user_api=user_api):
        assert n_threads() == default_threads() == threads_at_work() == entry()["num_threads"] == 1
    assert n_threads() == threads_at_work() == 4
    assert cores.thread_limit.get() is None


def test_a_limit_holds_what_is_asked_for():
    with threadpoolctl.threadpool_limits(2), use_threads(3):
        assert n_threads() == 2
    with use_threads(3):
        assert n_threads() == 3


def test_limits_nest():
    with threadpoolctl.threadpool_limits(3):
        with threadpoolctl.threadpool_limits(1):
            assert n_threads() == 1
        assert n_threads() == 3
    assert n_threads() == 4


def test_a_limit_of_blas_alone_is_none():
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert n_threads() == 4
    assert cores.thread_limit.get() is None


def test_more_threads_than_cores_are_no_limit():
    with threadpoolctl.threadpool_limits(64):
        assert n_threads() == 4


def test_workers_share_what_a_limit_leaves():
    with threadpoolctl.threadpool_limits(2):
        assert list(in_order(lambda: lambda _: n_threads(), range(2))) == [1, 1]


def test_other_threads_have_no_limit():
    """As with OpenMP: a limit that other threads shared would outlast its block if blocks overlapped."""
    seen = []
    with threadpoolctl.threadpool_limits(1):
        thread = threading.Thread(target=lambda: seen.append(n_threads()))
        thread.start()
        thread.join()
    assert seen == [4]
