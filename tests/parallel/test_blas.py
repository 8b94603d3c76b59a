"""BLAS has one thread while anybody holds it to one, and as many as before afterwards."""

import threading

import pytest
import threadpoolctl

from amofa.threads import in_order, single_blas_thread, use_threads


def blas_threads():
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        yield


def test_whoever_leaves_last_gives_blas_its_threads_back():
    """Though the thread that set the limit is alive, and sets none any more."""
    inside, left, entered, done = (threading.Event() for _ in range(4))

    def first():
        with single_blas_thread():
            inside.set()
            entered.wait(10)
        left.set()
        done.wait(10)

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        other = threading.Thread(target=first)
        other.start()
        inside.wait(10)
        with single_blas_thread():
            entered.set()
            left.wait(10)
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        done.set()
        other.join()


def test_a_limit_of_another_thread_does_not_matter():
    seen = []

    def work():
        with single_blas_thread():
            seen.append(blas_threads())

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert blas_threads() == {2}
    assert seen == [{1}]


def test_an_error_gives_threads_back():
    with pytest.raises(KeyError), single_blas_thread():
        raise KeyError
    assert blas_threads() == {2}


def test_blas_has_one_thread_in_all_threads():
    with use_threads(2):
        assert list(in_order(lambda: lambda _: blas_threads(), range(4))) == [{1}] * 4
    assert blas_threads() == {2}
