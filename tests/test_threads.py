"""BLAS threads are held to one during a fit and given back afterwards, however fits overlap."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import threadpoolctl

import amofa
from amofa.threads import single_blas_thread


def blas_threads():
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        yield


def test_one_thread_inside_and_as_before_outside():
    with single_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_overlapping_holders():
    first, second = single_blas_thread(), single_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


def test_an_error_gives_threads_back():
    with pytest.raises(KeyError), single_blas_thread():
        raise KeyError
    assert blas_threads() == {2}


def test_fits_in_many_threads_agree_and_give_threads_back(rng):
    X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    expected, found = amofa.fit(X), []
    workers = [threading.Thread(target=lambda: found.extend(amofa.fit(X) for _ in range(5))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 40
    for model in found:
        np.testing.assert_array_equal(model.means, expected.means)
    assert blas_threads() == {2}
