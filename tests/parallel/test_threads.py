"""How many threads there are, that they change no bit of a result, and that BLAS has one meanwhile."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import threadpoolctl
from reference import random_mixture, random_rows

import amofa
from amofa import threads
from amofa._data.row_chunks import Samples
from amofa._kernels import _factor
from amofa._kernels._em import Iteration
from amofa._kernels._exact import ExactIteration
from amofa._parameters import Evaluator, Statistics
from amofa.threads import in_order, single_blas_thread, use_threads


def blas_threads():
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


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


# ---- how many --------------------------------------------------------------------------------------------------------


def cgroup(root, lines, **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("\n".join(lines) + "\n")
    for path, text in files.items():
        file = root / "sys/fs/cgroup" / path.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    ("lines", "files", "quota"),
    [
        (["0::/"], {"cpu_dot_max": "150000 100000\n"}, 1.5),
        (["0::/"], {"cpu_dot_max": "max 100000\n"}, math.inf),
        # The limit of a group above holds.
        (["0::/a/b"], {"a__cpu_dot_max": "300000 100000\n", "a__b__cpu_dot_max": "max 100000\n"}, 3.0),
        # A path of the host, which is not mounted in the container.
        (["0::/docker/f00"], {"cpu_dot_max": "200000 100000\n"}, 2.0),
        (["5:cpuacct,cpu:/a"], {"cpu__a__cpu.cfs_quota_us": "50000\n", "cpu__a__cpu.cfs_period_us": "100000\n"}, 0.5),
        (["5:cpu:/"], {"cpu__cpu.cfs_quota_us": "-1\n", "cpu__cpu.cfs_period_us": "100000\n"}, math.inf),
        (["4:memory:/a", "3:cpuset:/"], {}, math.inf),
    ],
)
def test_limits_of_control_groups(tmp_path, lines, files, quota):
    cgroup(tmp_path, lines, **files)
    assert threads.cgroup_quota(tmp_path) == quota


def test_no_control_groups(tmp_path):
    assert threads.cgroup_quota(tmp_path) == math.inf


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(threads, "_cached_quota", lambda: math.inf)
    assert threads.available_cores() == len(os.sched_getaffinity(0))
    monkeypatch.setattr(threads, "_cached_quota", lambda: 0.5)
    assert threads.available_cores() == 1
    monkeypatch.setattr(threads, "_cached_quota", lambda: 2.9)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert threads.available_cores() == 2


def test_without_affinities_all_cores_may_be_used(monkeypatch):
    """As on macOS and Windows."""
    monkeypatch.setattr(threads, "_cached_quota", lambda: math.inf)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert threads.available_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.available_cores() == 1


@pytest.mark.parametrize(("value", "n"), [("", 8), ("0", 8), ("words", 8), ("3", 3), ("3,2", 3), ("20", 8)])
def test_openmp_limits_the_default(monkeypatch, value, n):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert threads.default_threads() == n


def test_callers_share_the_cores(monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    seen = []
    with single_blas_thread():
        assert threads.n_threads() == 8
        other = threading.Thread(target=lambda: seen.append(threads.n_threads()))
        other.start()
        other.join()
    assert seen == [4]


def test_use_threads(monkeypatch):
    monkeypatch.setattr(threads, "default_threads", lambda: 7)
    assert threads.n_threads() == 7
    with use_threads(3):
        assert threads.n_threads() == 3
        with use_threads(None):
            assert threads.n_threads() == 3
        with use_threads(2):
            assert threads.n_threads() == 2
        assert threads.n_threads() == 3
    assert threads.n_threads() == 7


# ---- side by side ----------------------------------------------------------------------------------------------------


def test_results_come_in_order_whoever_is_first():
    def slow_first(i):
        time.sleep(0.02 * (i == 0))
        return i

    with use_threads(3):
        assert list(in_order(lambda: slow_first, range(20))) == list(range(20))


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
        assert set(in_order(lambda: lambda _: threads.n_threads(), range(2))) == {3}
        assert set(in_order(lambda: lambda _: threads.n_threads(), range(20))) == {1}
        assert set(in_order(lambda: lambda _: threads.n_threads(), range(1))) == {6}
        nested = in_order(lambda: lambda i: sum(in_order(lambda: lambda j: i * j, range(10))), range(2))
        assert list(nested) == [0, 45]


def test_blas_has_one_thread_meanwhile():
    with use_threads(2):
        assert list(in_order(lambda: lambda _: blas_threads(), range(4))) == [{1}] * 4
    assert blas_threads() == {2}


def test_numpy_error_state_holds_in_all_threads():
    with use_threads(3), np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        list(in_order(lambda: lambda _: np.log(np.float64(-1.0)), range(6)))


def test_one_for_each_thread():
    made = threads.OneEach(lambda: [threading.get_ident()])
    assert made.get() is made.get()
    barrier = threading.Barrier(3)

    def own(_):
        barrier.wait(timeout=30)
        return made.get() == [threading.get_ident()] and made.get() is made.get()

    with use_threads(3):
        assert all(in_order(lambda: own, range(3)))


@pytest.mark.parametrize("where", [0, 5])
def test_an_error_ends_the_work_and_is_raised(where):
    running = threading.Semaphore(0)

    def fail(i):
        if i == where:
            raise KeyError(i)
        running.release()
        time.sleep(0.001)

    with use_threads(3), pytest.raises(KeyError, match=str(where)):
        list(in_order(lambda: fail, range(10_000)))
    assert running._value < 1000
    assert blas_threads() == {2}


def test_the_caller_goes_on_alone_where_no_thread_can_be_started(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_n_helpers", 0)
    monkeypatch.setattr(threads, "_idle", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with use_threads(3):
        assert list(in_order(lambda: str, range(3))) == ["0", "1", "2"]


# ---- interrupts ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such timers here")
@pytest.mark.parametrize("has_hold", [True, False])
@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment_leaves_everything_as_it_was(monkeypatch, has_hold):
    """Many at once: each of few steps, one of which must be hit between what is done and what undoes it."""
    monkeypatch.setattr(threads, "default_threads", lambda: 3)

    def square(i):
        return i * i

    def work():
        if has_hold:
            with single_blas_thread(), use_threads(3):
                return list(in_order(lambda: square, range(5)))
        return list(in_order(lambda: square, range(5)))

    work()
    delays = np.random.default_rng(0).uniform(1e-5, 1e-3, 1500)
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    n_unfinished = 0
    try:
        for delay in delays.tolist():
            results, end = None, time.perf_counter() + 1.0
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                results = work()
                # It may come later, or may have been lost where Python ignores what is raised.
                while time.perf_counter() < end:
                    pass
            except KeyboardInterrupt:
                pass
            n_unfinished += results is None
            assert not threads._lock.locked()
            assert not threads._holds
            assert not threads._held
            assert threads._own_holds.get() == ()
            assert threads._wanted.get() is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert blas_threads() == {2}
    assert n_unfinished > 100
    assert work() == [0, 1, 4, 9, 16]


# ---- passes and fits -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_rows():
    """A mixture and rows for passes of several parts, with weights."""
    rng = np.random.default_rng(0)
    parameters = random_mixture(rng, 5, 6, [2, 0, 1, 3, 1])
    X = random_rows(rng, parameters, 120_000)
    return parameters, X.astype(np.float32), rng.uniform(0, 2, len(X))


def everything(parameters, X, weights):
    samples = Samples(X, weights=weights)
    evaluator, statistics = Evaluator(parameters), Statistics(parameters)
    samples.accumulate(evaluator, statistics)
    moments = samples.moments(parameters)
    ones = np.ones(samples.n_features)
    given = parameters.copy().buffer, parameters.offsets, evaluator.prepared
    exact = ExactIteration(*given, ones, 0.0, ones, evaluator.work, 0, with_entropy=True)
    work = np.empty(_factor.maximize_size(parameters.offsets, samples.n_features))
    plain = Iteration(*given, Statistics(parameters).buffer, ones, evaluator.work, work)
    for iteration in (exact, plain):
        samples.expect(iteration)
    exact.finish()
    model = amofa.MixtureOfFactorAnalyzers(
        parameters.weights,
        parameters.means,
        [parameters.component_loadings(k).T for k in range(5)],
        parameters.uniquenesses,
    )
    return [
        statistics.buffer,
        *moments.__dict__.values(),
        samples.kurtosis_z(parameters),
        samples.labels(parameters),
        samples.responsibilities(parameters),
        exact.soft_counts,
        exact.means,
        exact.covariances,
        exact.log_likelihood,
        plain.log_likelihood,
        plain.entropy,
        model.predict(X),
        model.predict_proba(X),
        model.score_samples(X),
        model.score(X, weights),
        model.transform(X),
        *model.factor_scores(X),
        model.bic(X),
        model.icl(X),
    ]


def test_passes_are_the_same_bit_for_bit_with_any_number_of_threads(many_rows):
    assert len(Samples(many_rows[1])._parts(5, 7)) >= 8
    with use_threads(1):
        expected = everything(*many_rows)
    for n in (2, 5):
        with use_threads(n):
            for a, b in zip(everything(*many_rows), expected, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("search", ["thorough", "paper"])
def test_fits_are_the_same_bit_for_bit_with_any_number_of_threads(search):
    rng = np.random.default_rng(1)
    X = random_rows(rng, random_mixture(rng, 3, 5, [1, 2, 0]), 60_000)
    one, three = (
        amofa.fit(X, search=search, n_components=3, n_factors=1, max_iter=8, tol=1e-3, n_threads=n) for n in (1, 3)
    )
    for name in ("weights", "means", "uniquenesses"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    assert one.history == three.history


@pytest.mark.parametrize(("d", "n", "options"), [(4, 900, {}), (35, 500, {"noise": "component"}), (50, 40, {})])
def test_a_search_is_the_same_bit_for_bit_with_any_number_of_threads(d, n, options):
    """Splits, and with many columns the M-steps, side by side."""
    rng = np.random.default_rng(2)
    X = random_rows(rng, random_mixture(rng, 5, d, [1, 2, 0, 1, 1], spread=6.0), n)
    one, three = (amofa.fit(X, **options, n_threads=n) for n in (1, 3))
    assert one.n_components > 3
    assert one.history == three.history
    for name in ("weights", "means", "uniquenesses"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


@pytest.mark.parametrize("value", [0, -1])
def test_n_threads_is_at_least_one(value):
    with pytest.raises(ValueError, match="n_threads must be at least 1"):
        amofa.fit(np.ones((5, 2)), n_threads=value)


@pytest.mark.parametrize("value", [True, 2.0, "2"])
def test_n_threads_is_a_whole_number(value):
    with pytest.raises(TypeError, match="n_threads must be a whole number"):
        amofa.fit(np.ones((5, 2)), n_threads=value)


# ---- processes -------------------------------------------------------------------------------------------------------

# Work of many parts in a process of its own, since warnings and threads of this one must not matter.
PROCESS = """
import multiprocessing, os, sys, threading
import numpy as np
from concurrent.futures import ProcessPoolExecutor
import amofa
from amofa import threads

X = np.random.default_rng(0).normal(size=(100_000, 4)).astype(np.float32)

def score(n=None):
    with threads.use_threads(n):
        return model.score(X)

model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], np.eye(2, 4), [np.ones((4, 2))] * 2, np.ones((2, 4)))
"""


def run(code):
    process = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", PROCESS + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own():
    out = run(
        """
        expected = score(3)
        assert any(t.name.startswith("amofa") for t in threading.enumerate())
        child = os.fork()
        if child == 0:
            assert threading.active_count() == 1
            assert score(3) == expected
            assert any(t.name.startswith("amofa") for t in threading.enumerate())
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), score(3) == expected)
        """
    )
    assert out == ["7", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_forked_in_the_midst_of_work_is_not_held_up():
    out = run(
        """
        from threadpoolctl import threadpool_limits, threadpool_info
        threadpool_limits(2)
        started, go_on = threading.Event(), threading.Event()

        def hold():
            with threads.single_blas_thread():
                started.set()
                go_on.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        started.wait()
        child = os.fork()
        if child == 0:
            blas = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
            os._exit(7 if blas == {2} and not threads._holds and score(2) == score(1) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        go_on.set()
        holder.join()
        """
    )
    assert out == ["7"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_pool_have_one_thread_each(method, tmp_path):
    if method not in __import__("multiprocessing").get_all_start_methods():
        pytest.skip("no such processes here")
    script = tmp_path / "script.py"
    script.write_text(
        PROCESS
        + textwrap.dedent(
            f"""
            def look(_):
                return threads.n_threads(), score(), threading.active_count() < 3

            if __name__ == "__main__":
                expected = score(2)
                with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("{method}")) as pool:
                    assert list(pool.map(look, range(4))) == [(1, expected, True)] * 4
                print("done")
            """
        )
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-W", "ignore", str(script)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert process.stdout.split() == ["done"], process.stderr


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_of_joblib(backend, monkeypatch):
    joblib = pytest.importorskip("joblib")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    rng = np.random.default_rng(0)
    X = random_rows(rng, random_mixture(rng, 2, 4, [1, 1]), 40_000)
    options = {"n_components": 2, "n_factors": 1, "max_iter": 3, "search": "paper"}
    tasks = [joblib.delayed(amofa.fit)(X, **options) for _ in range(4)]
    expected = amofa.fit(X, **options, n_threads=1)
    for model in joblib.Parallel(2, backend=backend)(tasks):
        np.testing.assert_array_equal(model.means, expected.means)
    assert blas_threads() == {2}
