"""Memory that does not suffice is a MemoryError, wherever it ends, and nothing else."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from processes import run_python

import amofa
from amofa import threads
from amofa._parallel import blas_memory
from amofa.threads import in_order, single_blas_thread, use_threads

# Each call in processes of their own, with more and more memory beyond what there is before it.
SCRIPT = """
import os, resource, signal, sys, tempfile, warnings
import numpy as np
import amofa
from amofa.threads import use_threads

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)

def rows(n, d):
    X = rng.normal(size=(n, d))
    X[: n // 3] += 5
    return X

def model(d):
    return amofa.MixtureOfFactorAnalyzers([0.5, 0.5], np.eye(2, d), [np.ones((d, 2))] * 2, np.ones((2, d)))

def fit(X, search, n_threads):
    amofa.fit(X, search=search, n_threads=n_threads, max_components=2, max_factors=2)

def look(X, n_threads):
    Y = np.where(X[:2000] > 6, np.nan, X[:2000])
    with use_threads(n_threads):
        of_rows.predict(X), of_rows.score_samples(X), of_rows.transform(X), of_rows.impute(Y), of_rows.sample(10_000, 0)

what, n_threads = sys.argv[1], int(sys.argv[2])
X = {"narrow": rows(1500, 4), "wide": rows(40, 600), "many": rows(250, 150), "look": rows(300_000, 8)}.get(what)
of_rows, large = model(8), model(1_200_000 if what == "save" else 200_000)
path = os.path.join(sys.argv[3], "model.npz")
if what == "load":
    large.save(path)
call = {
    "look": lambda: look(X, n_threads),
    "save": lambda: large.save(path),
    "load": lambda: amofa.load(path),
}.get(what, lambda: [fit(X, search, n_threads) for search in ("thorough", "paper")])

def ending(megabytes):
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        pages = int(open("/proc/self/statm").read().split()[0])
        most = int(pages * os.sysconf("SC_PAGE_SIZE") + megabytes * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        try:
            call()
            os._exit(3)
        except MemoryError:
            os._exit(4)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(5)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {3: "done", 4: "MemoryError"}.get(code, f"ended with {code}")

print(*(f"{size}:{ending(size)}" for size in (0, 1, 4, 16, 36, 50, 66, 80, 120, 500)), sep="\\n")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited otherwise here, if at all")
@pytest.mark.parametrize(
    ("what", "n_threads"),
    [("narrow", 1), ("wide", 2), ("many", 1), ("many", 2), ("look", 1), ("look", 2), ("save", 1), ("load", 1)],
)
def test_too_little_memory_is_a_memory_error(tmp_path, what, n_threads):
    process = run_python(SCRIPT, what, n_threads, tmp_path)
    endings = [line.split(":")[1] for line in process.stdout.splitlines()]
    assert set(endings) == {"done", "MemoryError"}, process.stdout + process.stderr
    assert endings[0] == "MemoryError"
    assert endings[-1] == "done"


def test_room_is_for_as_many_threads_as_can_have_it(monkeypatch):
    buffer = blas_memory._BUFFER
    monkeypatch.setattr(blas_memory, "_can_be_had", lambda size: size <= 5 * buffer)
    assert [blas_memory.room_for(n, 2) for n in (0, 1, 2, 3, 9)] == [0, 1, 2, 2, 2]
    assert blas_memory.room_for(9, 0) == 9
    assert blas_memory.is_scarce()
    blas_memory.check_room(2)
    with pytest.raises(MemoryError, match="no room for the 192 MB that OpenBLAS takes for a thread"):
        blas_memory.check_room(6)


def test_where_memory_is_scarce_there_are_as_many_helpers_as_have_room(monkeypatch):
    monkeypatch.setattr(blas_memory, "_can_be_had", lambda size: size <= 2 * blas_memory._BUFFER)
    monkeypatch.setattr(threads, "_openblas_copies", lambda: 2)
    called = []
    call = threads._call_helpers
    monkeypatch.setattr(threads, "_call_helpers", lambda *arguments: called.append(arguments[1]) or call(*arguments))
    with use_threads(4):
        assert list(in_order(lambda: str, range(5))) == list("01234")
    assert called == [1]
    X = np.random.default_rng(0).normal(size=(50, 2))
    assert amofa.fit(X).history == amofa.fit(X, n_threads=3).history


def test_no_room_at_all_is_an_error_that_leaves_everything_as_it_was(monkeypatch):
    monkeypatch.setattr(blas_memory, "_can_be_had", lambda size: False)
    blas_memory.take_buffers.cache_clear()
    with pytest.raises(MemoryError, match="OpenBLAS"), single_blas_thread():
        raise AssertionError("not to be entered")
    assert not threads._holds
    assert not threads._held
    assert threads._own_holds.get() == ()
    monkeypatch.undo()
    amofa.fit(np.eye(5, 2))
