"""Ctrl-C in a process of its own: at whatever moment it comes, what is there afterwards is as good as before."""

from __future__ import annotations

import os
import signal

import pytest
from processes import run_python

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such timers here")

# How many moments a test tries; AMOFA_TEST_MOMENTS=250 looks more closely.
N_MOMENTS = int(os.environ.get("AMOFA_TEST_MOMENTS", "15"))

SCRIPT = """
import signal, sys, time, warnings
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
import amofa
from amofa import threads
from amofa.threads import use_threads

n_moments, n_threads, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rng = np.random.default_rng(0)
threadpool_limits(2, user_api="blas")

def blas():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

def rows(n, d):
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    X[: n // 3] += 8
    X[2 * n // 3 :] -= 9
    return X

if what in ("thorough", "paper"):
    # Passes of several parts, and splits side by side.
    X = rows(40_000, 6) if n_threads > 1 else rows(1_000, 4)
    options = {"search": what, "n_threads": n_threads, "max_components": 3}
    if n_threads > 1:
        options |= {"tol": 1e-3, "max_factors": 1}
    call = lambda: amofa.fit(X, **options)
    def same(a, b):
        return a.history == b.history and np.array_equal(a.means, b.means)
else:
    X = rows(100_000, 6)
    model = amofa.fit(X[:1000], max_components=3)
    if what == "impute":
        X = X[:20_000]
        X[rng.random(X.shape) < 0.1] = np.nan
    def call():
        with use_threads(n_threads):
            return getattr(model, what)(X)
    same = np.array_equal

expected = call()
durations = []
for _ in range(5):
    start = time.perf_counter()
    call()
    durations.append(time.perf_counter() - start)
# No call is shorter, so that each is hit.
duration = min(durations)
counts = {}
handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
for i in range(n_moments):
    found, outcome, end = None, "finished", time.perf_counter() + 3 * duration + 1
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, duration * (i + 0.5) / n_moments))
        found = call()
        # It may come later, or have been lost where Python ignores what is raised.
        while time.perf_counter() < end:
            pass
    except amofa.FitInterrupted as interrupted:
        outcome, found = "model", interrupted.model
    except KeyboardInterrupt:
        outcome = "nothing" if found is None else "finished"
    counts[outcome] = counts.get(outcome, 0) + 1
    if outcome == "finished":
        assert same(found, expected)
    if outcome == "model":
        assert np.isfinite(found.score_samples(X)).all() and abs(found.weights.sum() - 1) < 1e-12
        assert (found.uniquenesses > 0).all() and len(found.history) >= 1
    assert blas() == {2}, (i, blas())
    assert not (threads._holds or threads._held or threads._own_holds.get() or threads._lock.locked())
    assert threads._wanted.get() is None
    if i % max(1, n_moments // 8) == 0:
        assert same(call(), expected), i
assert same(call(), expected)
print(counts)
"""


@pytest.mark.parametrize(
    ("what", "n_threads"),
    [("thorough", 1), ("thorough", 2), ("paper", 1), ("paper", 2), ("predict", 2), ("score", 1), ("impute", 2)],
)
def test_whenever_it_comes(what, n_threads):
    process = run_python(SCRIPT, N_MOMENTS, n_threads, what, timeout=60 + 20 * N_MOMENTS)
    counts = eval(process.stdout)
    assert sum(counts.values()) == N_MOMENTS
    assert counts.get("model", 0) + counts.get("nothing", 0) > N_MOMENTS // 3
    assert counts.get("model", 0) > 0 or what not in ("thorough", "paper")
