"""Many fits at once, in threads, in processes, and in one in the other: each model is that of a fit by itself."""

import multiprocessing
import os
import subprocess
import sys
import textwrap

import pytest
from processes import run_python

# A module, so that processes that are started anew can have its functions. Tables are large enough for several threads.
WORK = """
import hashlib, os, signal, sys, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
import multiprocessing
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
import amofa
from amofa import threads
from amofa._parallel import blas as held

def table(i):
    rng = np.random.default_rng(i % 3)
    X = rng.normal(size=(500, 3)) if i % 3 else rng.normal(size=(40_000, 6)).astype(np.float32)
    X[: len(X) // 3] += 7
    return X

def options(i):
    few = {} if i % 3 else {"n_components": 2, "n_factors": 1, "max_iter": 3, "tol": 1e-2}
    return {"max_components": 3, "search": ("thorough", "paper")[i % 2], **few}

def digest(i, n_threads=None, X=None, callback=None):
    model = amofa.fit(table(i) if X is None else X, **options(i), n_threads=n_threads, callback=callback)
    parts = (model.weights, model.means, model.uniquenesses, *model.loadings, model.predict_proba(table(i)))
    return hashlib.sha256(b"".join(p.tobytes() for p in parts) + repr(model.history).encode()).hexdigest()

def blas():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

def assert_idle():
    assert not (held._holders or held._before or held._own_holders.get())
    assert held._lock.acquire(blocking=False)
    held._lock.release()
"""

SETTING = """
NUMBERS = range(6)
alone = [digest(i, n_threads=1) for i in NUMBERS]
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "work.py").write_text(WORK)

    def run_with(script, *arguments):
        environment = {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": ""}
        code = "import sys\nsys.path.insert(0, sys.argv[1])\nfrom work import *\n" + SETTING + textwrap.dedent(script)
        return run_python(code, tmp_path, *arguments, environment=environment).stdout.split()

    return run_with


def run_file(path, script):
    """As a file, which processes that are started anew import."""
    path.with_name("work.py").write_text(WORK)
    path.write_text("from work import *\n" + textwrap.dedent(script))
    environment = os.environ | {"OMP_NUM_THREADS": ""}
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore", str(path)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


# ---- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [None, 3])
def test_fits_in_threads(run, n_threads):
    """Of the same table and of different ones, at the same time."""
    script = """
    threadpool_limits(2, user_api="blas")
    n_threads = eval(sys.argv[2])
    tables = [table(i) for i in NUMBERS]
    start = threading.Barrier(3)
    def fits(worker):
        start.wait()
        return [(i, digest(i, n_threads, tables[i])) for i in [*NUMBERS[worker:], *NUMBERS[:worker]]]
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(fits, range(3)):
            assert all(d == alone[i] for i, d in found)
    assert blas() == {2}
    assert_idle()
    """
    run(script, n_threads)


def test_a_pool_of_threads_inside_another(run):
    script = """
    def inner(worker):
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(digest, NUMBERS[worker : worker + 3]))
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(inner, range(3))) == [alone[w : w + 3] for w in range(3)]
    with threads.use_threads(4):
        found = list(threads.in_order(lambda: digest, list(NUMBERS)))
    assert found == alone
    assert_idle()
    """
    run(script)


# ---- processes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=() if method == "fork" else pytest.mark.slow)
        for method in multiprocessing.get_all_start_methods()
    ],
)
def test_fits_in_processes_after_fits_in_threads(tmp_path, method):
    script = f"""
    def both(i):
        return digest(i), digest(i, 2)

    if __name__ == "__main__":
        alone = [digest(i, 2) for i in range(6)]
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context({method!r})) as pool:
            assert list(pool.map(both, range(6))) == [(d, d) for d in alone]
        assert_idle()
        print("done")
    """
    assert run_file(tmp_path / "script.py", script) == ["done"]


def test_a_pool_of_processes_inside_another_and_threads_inside(tmp_path):
    script = """
    def threads_inside(i):
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(digest, [i, i + 1], [2, None]))

    def processes_inside(i):
        with ProcessPoolExecutor(2) as pool:
            return list(pool.map(threads_inside, [i, i + 1]))

    if __name__ == "__main__":
        alone = [digest(i) for i in range(4)]
        with ProcessPoolExecutor(2) as pool:
            found = list(pool.map(processes_inside, range(2)))
        assert found == [[alone[i : i + 2], alone[i + 1 : i + 3]] for i in range(2)]
        print("done")
    """
    assert run_file(tmp_path / "script.py", script) == ["done"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_forked_at_any_moment_of_fits_in_other_threads(run):
    script = """
    threadpool_limits(2, user_api="blas")
    done, moments = threading.Event(), threading.Semaphore(0)
    found = []
    def fits():
        while not done.is_set():
            found.extend((i, digest(i, 2, callback=lambda step: moments.release())) for i in NUMBERS)
    workers = [threading.Thread(target=fits) for _ in range(2)]
    for worker in workers:
        worker.start()
    children = []
    for moment in range(6):
        for _ in range(1 + moment):
            moments.acquire()
        child = os.fork()
        if child == 0:
            # It waits for nobody that is not there.
            signal.alarm(120)
            assert_idle()
            ok = blas() == {2} and all(digest(i, 2) == alone[i] for i in (moment, (moment + 3) % 6))
            os._exit(7 if ok else 1)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    done.set()
    for worker in workers:
        worker.join()
    assert codes == [7] * 6, codes
    assert found and all(d == alone[i] for i, d in found)
    assert blas() == {2}
    assert_idle()
    """
    run(script)


@pytest.mark.slow
@pytest.mark.parametrize(("outer", "inner"), [("loky", "threading"), ("threading", "loky"), ("loky", "loky")])
def test_joblib_inside_joblib(run, outer, inner):
    pytest.importorskip("joblib")
    script = """
    from joblib import Parallel, delayed
    from work import digest
    outer, inner = sys.argv[2:]
    def inside(numbers, inner=inner, digest=digest, Parallel=Parallel, delayed=delayed):
        return Parallel(2, backend=inner)(delayed(digest)(i) for i in numbers)
    found = Parallel(2, backend=outer)(delayed(inside)(NUMBERS[i : i + 2]) for i in (0, 2, 4))
    assert [d for some in found for d in some] == alone
    """
    run(script, outer, inner)
