"""Ctrl-C at whatever call of a Python function it comes: what is there afterwards is as good as before."""

import inspect
import sys

import numpy as np
import pytest
import threadpoolctl

import amofa
from amofa._parallel import blas
from amofa.threads import in_order, is_abandoned, n_threads, single_blas_thread, use_threads

pytestmark = [
    pytest.mark.usefixtures("heard_interrupts"),
    # One that comes in a finalizer is lost.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Interrupt:
    """Interrupts what the main thread does in a ``with`` block, where it calls a Python function for the n-th time.

    The interpreter looks for signals there, too; unlike those, this comes at the same place again.

    Parameters
    ----------
    at : int, optional
        Number of the call, from 1; never where not given.

    Attributes
    ----------
    n_calls : int
        So many there were.
    """

    def __init__(self, at=None):
        self.at, self.n_calls = at, 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def trace(self, frame, event, argument):
        # Where a generator is resumed, what is raised here would pass by its `finally`, unlike an interrupt.
        self.n_calls += not frame.f_code.co_flags & inspect.CO_GENERATOR
        if self.n_calls == self.at:
            self.at = None
            raise KeyboardInterrupt


def blas_threads():
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


def assert_as_before():
    assert blas_threads() == {2}
    assert not blas._holders
    assert not is_abandoned()


@pytest.fixture(autouse=True)
def two_threads():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        yield


def test_at_every_call():
    def work():
        with single_blas_thread(), use_threads(3):
            return list(in_order(lambda: str, range(5)))

    expected, before = work(), n_threads()
    at, n_interrupts, is_over = 0, 0, False
    while not is_over:
        at += 1
        try:
            with Interrupt(at) as interrupt:
                work()
            is_over = interrupt.n_calls < at
        except KeyboardInterrupt:
            n_interrupts += 1
        # One that prevented that BLAS is released is made up for by whoever holds it next.
        assert work() == expected
        assert_as_before()
        assert n_threads() == before
    assert n_interrupts > 30


def rows(rng, n, d):
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    X[: n // 3] += 8
    X[2 * n // 3 :] -= 9
    return X


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("search", ["thorough", "paper"])
def test_fits(search, n_threads):
    # Of so many rows there are passes of several parts; of few, splits side by side.
    X = rows(np.random.default_rng(0), 40_000 if n_threads > 1 else 500, 4)
    options = {"search": search, "n_threads": n_threads, "max_components": 2, "max_factors": 1, "tol": 1e-3}
    with Interrupt() as interrupt:
        expected = amofa.fit(X, **options)
    n_moments, models = 8, []
    for i in range(n_moments):
        try:
            with Interrupt(1 + interrupt.n_calls * i // n_moments):
                models.append(amofa.fit(X, **options))
            assert models[-1].history == expected.history
        except amofa.FitInterrupted as interrupted:
            models.append(interrupted.model)
        except KeyboardInterrupt:
            pass
    for model in models:
        assert np.isfinite(model.score_samples(X)).all()
        assert model.history == expected.history[: len(model.history)]
    assert models
    assert amofa.fit(X, **options).history == expected.history
    assert_as_before()


@pytest.mark.parametrize("method", ["predict", "score", "impute"])
def test_methods(method):
    X = rows(np.random.default_rng(0), 30_000, 6)
    model = amofa.fit(X[:500], max_components=3)
    if method == "impute":
        X = X[:3000]
        X[::7, 2] = np.nan

    def call():
        with use_threads(2):
            return getattr(model, method)(X)

    with Interrupt() as interrupt:
        expected = call()
    n_moments, n_interrupts = 8, 0
    for i in range(n_moments):
        try:
            with Interrupt(1 + interrupt.n_calls * i // n_moments):
                np.testing.assert_array_equal(call(), expected)
        except KeyboardInterrupt:
            n_interrupts += 1
        np.testing.assert_array_equal(call(), expected)
        assert_as_before()
    assert n_interrupts > 0
