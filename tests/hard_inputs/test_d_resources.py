"""Time, memory, threads: rows 40 to 49 of docs/hard_inputs.md."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc

import numpy as np
import pytest
from fits import blobs, check_equal, fitted, peak_memory, same_groups

import amofa
from amofa._data import deduplicate, row_chunks


def ten_components(rng, d):
    K = 10
    return amofa.MixtureOfFactorAnalyzers(
        np.full(K, 1 / K), rng.normal(0, 10, (K, d)), [np.ones((d, 1))] * K, np.ones((K, d))
    )


# ---- 40, 41, 42, 43 --------------------------------------------------------------------------------------------------


def test_40_prediction_needs_no_memory_beyond_its_output(rng):
    model = ten_components(rng, 8)
    beyond = []
    for n in (20_000, 200_000):
        X = rng.standard_normal((n, 8), dtype=np.float32)
        for method in (model.predict, model.score_samples):
            with peak_memory() as peak:
                result = method(X)
            assert result.shape == (n,)
            beyond.append(peak[0] - result.nbytes)
        del X
    assert max(beyond) < 8e6
    assert abs(beyond[2] - beyond[0]) < 4e6  # ten times the rows


def table(form, n, folder):
    """Two groups in eight columns, of which a fit has more rows than it ever holds at once."""
    X = np.random.default_rng(0).standard_normal((n, 8))
    X[: n // 3, 0] += 9
    if form == "strided":
        return np.repeat(X, 2, axis=1)[:, ::2]
    if form == "float64":
        return X
    np.save(folder / f"{n}.npy", X.astype(np.float32))
    return np.load(folder / f"{n}.npy", mmap_mode="r")


@pytest.mark.parametrize("form", ["float32 on disk", "float64", "strided"])
def test_41_42_the_memory_of_a_fit_does_not_grow_with_the_rows(form, tmp_path, monkeypatch):
    """Neither a copy nor temporaries of the table's size: what is held are some rows for local fits, and blocks."""
    # Tables count as large from an eighth of the usual sizes on.
    for module, name in ((row_chunks, "_HELD_ROWS"), (row_chunks, "_CACHE_VALUES"), (deduplicate, "_MOST_VALUES")):
        monkeypatch.setattr(module, name, getattr(module, name) // 8)
    options = {"max_components": 2, "max_factors": 0, "noise": "component", "n_threads": 1}
    if form != "float32 on disk":
        options["max_components"] = 1
    peaks = []
    for n in (80_000, 160_000):
        X = table(form, n, tmp_path)
        with peak_memory() as peak:
            model = fitted(X, check=False, **options)
        assert model.n_components == options["max_components"]
        peaks += peak
    assert max(peaks) < 20e6
    assert peaks[1] - peaks[0] < 1e6


def test_43_memory_of_an_ordinary_table(rng):
    n, d, K = 20_000, 7, 5
    X, labels = blobs(rng, [n // K] * K, 15 * np.eye(K, d))
    with peak_memory() as peak:
        model = fitted(X, n_components=K, check=False)
    assert same_groups(labels, model.predict(X))
    assert peak[0] < 16 * 8 * n * (K + d)  # 31 MB


# ---- 44 --------------------------------------------------------------------------------------------------------------


def test_44_more_than_a_hundred_columns(rng):
    """The full size, 35 000 x 128, takes less than two minutes on one core (docs/speed.md)."""
    d, K, q, n = 128, 2, 3, 250
    labels = np.repeat(np.arange(K), n)
    X = 1.5 * rng.standard_normal((K, d))[labels] + 0.7 * rng.standard_normal((len(labels), d))
    for k in range(K):
        X[labels == k] += rng.standard_normal((n, q)) @ (0.7 * rng.standard_normal((q, d)))
    model = fitted(X, n_threads=1)
    assert same_groups(labels, model.predict(X))
    assert model.n_factors.tolist() == [q] * K


# ---- 45, 46 ----------------------------------------------------------------------------------------------------------


SMALL_FITS = """
    import threading
    import numpy as np
    from threadpoolctl import threadpool_info
    import amofa
    from amofa.threads import default_threads

    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (60, 2)), rng.normal(7, 1, (40, 2))])
    seen = set()

    def look(step):
        blas = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        seen.add((threading.active_count(), max(blas)))

    amofa.fit(X, n_threads=1, callback=look)
    assert threading.active_count() == 1
    assert seen == {(1, 1)}, seen
    # Splits of components may be looked for side by side; BLAS never fans out.
    amofa.fit(X, callback=look)
    assert {blas for _, blas in seen} == {1}, seen
    assert max(threads for threads, _ in seen) <= default_threads()
"""


def run(program, **environment):
    """Output of a program in a process of its own, which must end well and say nothing else."""
    here = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    result = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**here, **environment},
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_45_small_fits_in_a_loop():
    run(SMALL_FITS)


def test_46_three_hundred_threads(rng, monkeypatch):
    """Parts of the work are few, and no more threads are started than there are parts."""
    X, _ = blobs(rng, [10_000, 10_000], 7 * np.eye(2, 8))
    started, start = [], threading.Thread.start

    def counted(thread):
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    many = fitted(X, n_threads=300, max_components=3)
    assert 1 <= len(started) <= 16
    check_equal(many, fitted(X, n_threads=1, max_components=3))
    assert many.n_components == 2


# ---- 48 --------------------------------------------------------------------------------------------------------------

LONG_FIT = """
    import os, signal, threading
    import numpy as np
    import amofa

    X = np.random.default_rng(0).standard_normal((20_000, 12)) ** 3

    interrupt = threading.Thread(target=os.kill, args=[os.getpid(), signal.SIGINT])

    def look(iteration):  # the fit has some hundred iterations to go
        if interrupt.ident is None:
            interrupt.start()

    try:
        amofa.fit(X, n_components=60, on_iteration=look)
    except amofa.FitInterrupted as interrupted:
        model = interrupted.model
    except KeyboardInterrupt:  # in the first EM run: no model yet
        model = None
    interrupt.join()
    assert {t.name.partition('_')[0] for t in threading.enumerate()} <= {'MainThread', 'amofa'}
    if model is not None:
        assert np.isfinite(model.score_samples(X[:10])).all()
    # What comes next is as always.
    Y = np.concatenate([X[:200, :2], 30 + X[200:400, :2]])
    assert amofa.fit(Y, n_components=2).n_components == 2
    print("stopped")
"""


def test_48_an_interrupt_ends_a_long_fit():
    assert run(LONG_FIT) == "stopped\n"


@pytest.mark.usefixtures("heard_interrupts")
def test_48_interrupts_leak_nothing(rng):
    X, _ = blobs(rng, [300, 200], [(0, 0, 0), (6, 6, 6)])

    def interrupt(step):
        signal.raise_signal(signal.SIGINT)

    def interrupted_fits():
        for _ in range(3):
            with pytest.raises(amofa.FitInterrupted):
                amofa.fit(X, callback=interrupt)

    interrupted_fits()
    gc.collect()
    tracemalloc.start()
    try:
        used = []
        for _ in range(3):
            interrupted_fits()
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert used[2] - used[0] < 20_000


# ---- 49 --------------------------------------------------------------------------------------------------------------


def test_49_a_callback_for_each_step_of_the_search_that_may_end_it(rng):
    X, _ = blobs(rng, [100] * 4, [(0, 0), (9, 0), (0, 9), (9, 9)])
    steps = []
    model = fitted(X, callback=steps.append)
    assert len(steps) == len(model.history)
    for live, step in zip(steps, model.history, strict=True):
        assert (live.action, live.cost, live.n_factors, live.n_iter) == (
            step.action,
            step.cost,
            step.n_factors,
            step.n_iter,
        )
        assert live.model.n_components == step.n_components
    stopped = fitted(X, callback=lambda step: step.n_components == 2)
    assert stopped.n_components == 2
    assert len(stopped.history) < len(model.history)


def test_49_a_callback_for_each_iteration_of_em(rng, search):
    X, _ = blobs(rng, [100] * 2, [(0, 0), (9, 0)])
    iterations = []
    model = fitted(X, search=search, on_iteration=iterations.append)
    assert model.n_components == 2
    assert iterations[0].n_components == 1
    first = [i.n_iter for i in iterations].index(1, 1)
    assert [i.n_iter for i in iterations[:first]] == list(range(1, model.history[0].n_iter + 1))
    assert max(i.log_likelihood for i in iterations) >= model.log_likelihood - 1e-6
    stopped = fitted(X, search=search, on_iteration=lambda iteration: iteration.n_components == 2)
    assert len(stopped.history) < len(model.history)
