"""Tables in mapped files: rows are those that numpy reads, and a file that is cut off is an error, not the end."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import textwrap

import numpy as np
import pytest
from processes import run_python

import amofa
from amofa._data.mapped import MappedFile, in_memory, take
from amofa._kernels import _rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot become shorter here")

# ---- what is read ----------------------------------------------------------------------------------------------------


def mapped(table, path, order="C"):
    array = np.memmap(path, table.dtype, "w+", shape=table.shape, order=order)
    array[:] = table
    return array


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "f2", "i2", "u1", "?", "longdouble"])
def test_a_copy_has_the_cells_of_the_table(rng, tmp_path, dtype, order):
    table = rng.integers(0, 100, (150, 7)).astype(dtype)
    array = mapped(table, tmp_path / "table", order)
    rows, columns = np.array([149, 0, 77, 0]), np.array([6, 0, 3])
    some = rng.random(150) < 0.5
    for view, expected in ((array, table), (array[::-3, ::2], table[::-3, ::2]), (array[:, 4:0:-1], table[:, 4:0:-1])):
        np.testing.assert_array_equal(take(view), expected)
        np.testing.assert_array_equal(take(view, slice(3, 40)), expected[3:40])
        assert not np.shares_memory(take(view, slice(3, 40)), array)
        assert take(view).dtype == table.dtype
    np.testing.assert_array_equal(take(array, rows), table[rows])
    np.testing.assert_array_equal(take(array, some), table[some])
    np.testing.assert_array_equal(take(array, None, columns), table[:, columns])
    np.testing.assert_array_equal(take(array, rows, columns), table[rows][:, columns])
    np.testing.assert_array_equal(take(array, slice(5, 9), columns), table[5:9][:, columns])
    assert take(array, slice(5, 5)).shape == (0, 7)
    np.testing.assert_array_equal(in_memory(array[:, 2]), table[:, 2])


def test_what_lies_in_memory_is_not_copied(rng):
    table = rng.random((20, 3))
    assert in_memory(table) is table
    assert take(table, slice(2, 5)).base is table
    np.testing.assert_array_equal(take(table, np.array([3, 1]), np.array([0, 2])), table[[3, 1]][:, [0, 2]])
    column = table[:, 1]
    assert np.shares_memory(in_memory(column), table)


def test_views_of_all_kinds_are_found_in_their_file(rng, tmp_path):
    table = rng.random((9000, 3))
    array = mapped(table, tmp_path / "table")
    np.save(tmp_path / "saved.npy", table)
    saved = np.load(tmp_path / "saved.npy", mmap_mode="r")
    with open(tmp_path / "table", "rb") as file:
        plain = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    far = np.memmap(tmp_path / "table", "f8", "r", offset=2 * mmap.ALLOCATIONGRANULARITY + 24, shape=(50, 3))
    first = (2 * mmap.ALLOCATIONGRANULARITY + 24) // 8
    np.testing.assert_array_equal(far, table.reshape(-1)[first : first + 150].reshape(50, 3))
    sizes = [
        (array, table.nbytes),
        (np.asarray(array)[10:20, 1:], 20 * 24),
        (np.asarray(array)[::-1], table.nbytes),
        (array.T, table.nbytes),
        (saved, table.nbytes + 128),
        (far, first * 8 + 50 * 24),
        (np.frombuffer(plain).reshape(table.shape)[5:6], 6 * 24),
        (np.frombuffer(memoryview(plain)[24:48]), 48),
        (np.ndarray((4, 3), buffer=plain, offset=24), 24 + 96),
    ]
    for view, size in sizes:
        assert MappedFile.of(view).size == size
    for other in (table, table[1:, 1:], np.asarray(array).copy(), np.frombuffer(bytearray(80))):
        assert MappedFile.of(other) is None


def test_memory_that_is_no_file_has_no_end():
    array = np.frombuffer(mmap.mmap(-1, 8000)).reshape(100, 10)
    np.testing.assert_array_equal(take(array, slice(3)), np.zeros((3, 10)))


@pytest.mark.parametrize(
    ("rows", "columns", "shape", "error", "message"),
    [
        ([3], None, (1, 16), IndexError, "no row or column 3 of 3"),
        (None, [-1], (3, 8), IndexError, "no row or column -1 of 2"),
        (None, None, (3, 15), ValueError, "out must have a row of bytes for each row"),
        (None, None, (2, 16), ValueError, "out must have a row of bytes for each row"),
    ],
)
def test_wrong_cells_are_refused(rows, columns, shape, error, message):
    rows, columns = (None if numbers is None else np.array(numbers) for numbers in (rows, columns))
    with pytest.raises(error, match=message):
        _rows.copy(np.zeros((3, 2)), rows, columns, np.empty(shape, np.int8))
    with pytest.raises(ValueError, match="two dimensions"):
        _rows.copy(np.zeros(3), None, None, np.empty((3, 8), np.int8))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_models_are_those_of_tables_in_memory(rng, tmp_path, dtype, order):
    table = (100 * np.concatenate([rng.normal(0, 1, (300, 3)), rng.normal(8, 1, (200, 3))])).astype(dtype)
    array = mapped(table, tmp_path / "table", order)
    weights = mapped(rng.integers(0, 3, 500), tmp_path / "weights")
    labels = mapped(np.repeat([0, 1], 250), tmp_path / "labels")
    for options in ({}, {"sample_weight": weights}, {"init": labels, "search": "paper"}):
        a, b = amofa.fit(array, **options), amofa.fit(table, **options)
        assert a.history == b.history
        np.testing.assert_array_equal(a.means, b.means)
        np.testing.assert_array_equal(a.predict_proba(array), b.predict_proba(table))


# ---- files that are cut off ------------------------------------------------------------------------------------------

# Each makes a table in a file, and says what becomes of a call with it.
CUT = """
import faulthandler, mmap, os, signal, sys, threading, time
import numpy as np
from threadpoolctl import threadpool_info
import amofa
from amofa import threads
from amofa._data import deduplicate as repeats
from amofa._data import row_chunks as samples

# Else so small tables would be read once, and kept in memory.
repeats._MOST_VALUES = samples._CACHE_VALUES = 1000
rng = np.random.default_rng(0)
N = int(sys.argv[2])
ROWS = np.concatenate([rng.normal(0, 100, (N // 2, 4)), rng.normal(700, 100, (N - N // 2, 4))])
path = sys.argv[1]

def table(dtype="f8", order="C", plain=False, values=ROWS):
    np.asarray(values, dtype).tofile(path) if order == "C" else np.asarray(values, dtype).T.tofile(path)
    if not plain:
        return np.memmap(path, dtype, "r", shape=values.shape, order=order)
    with open(path, "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, dtype).reshape(values.shape, order=order)

def cut(share=0.5):
    os.truncate(path, int(os.path.getsize(path) * share))

def state():
    blas = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
    return blas, signal.getsignal(signal.SIGBUS), list(threads._holds), list(threads._held), faulthandler.is_enabled()

def ending(function, *arguments, **options):
    try:
        function(*arguments, **options)
        return "done"
    except OSError as error:
        assert error.errno == 5, error
        assert " is mapped from a file that cannot be read to its end" in str(error), error
        return str(error).split()[2]

def outcome(function, *arguments, **options):
    before = state()
    try:
        return ending(function, *arguments, **options)
    finally:
        assert state() == before
"""


def run_cut(script, path, *arguments, **options):
    return run_python(CUT + textwrap.dedent(script), path / "table", *arguments, **options)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.6, 0.9999])
def test_a_file_that_is_cut_off_before_is_an_error(tmp_path, share, n_threads):
    script = """
    from amofa.classes import fit_classes
    from amofa.baselines import gaussian_per_class, imofa, mfa
    from amofa import plot
    plain = amofa.fit(ROWS)
    share, n_threads = float(sys.argv[3]), int(sys.argv[4])
    METHODS = "predict score_samples score transform impute bic factor_scores plot".split()
    y = np.repeat([0, 1], N // 2)
    found = []
    for dtype, order, is_plain in (("f8", "C", False), ("f4", "C", True), ("i2", "C", False), ("f8", "F", True)):
        X = table(dtype, order, is_plain)
        cut(share)
        with threads.use_threads(n_threads):
            of_model = [getattr(plain, name) for name in METHODS]
            others = [(mfa, X, 2, 1), (gaussian_per_class, X, y), (fit_classes, X, y), (plot.density, plain, X)]
            for call in [*((function, X) for function in (amofa.fit, imofa, *of_model)), *others]:
                found.append(outcome(*call))
                assert found[-1] == "X", (dtype, order, call[0], found[-1])
        found.append(outcome(amofa.fit, X, search="paper"))
        assert found[-1] == "X"
        for name in ("sample_weight", "init"):
            numbers = table("i8", values=np.arange(N) % 2)
            cut(share)
            if share < 0.99:
                assert outcome(amofa.fit, ROWS, **{name: numbers}) == name
    assert amofa.fit(ROWS).history == plain.history
    print(len(found))
    """
    process = run_cut(script, tmp_path, 8_000, share, n_threads)
    assert process.stdout.split() == ["60"]


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("search", ["thorough", "paper"])
def test_a_callback_that_cuts_the_file_off_gets_an_error(tmp_path, search, n_threads):
    script = """
    search, n_threads = sys.argv[3], int(sys.argv[4])
    options = {"search": search, "n_threads": n_threads, "max_components": 2}
    expected = amofa.fit(ROWS, **options)
    for share in (0.3, 0.9999):
        for at in (1, 2):
            for dtype, is_plain in (("f8", False), ("f4", True)):
                seen = []
                def callback(step):
                    seen.append(step)
                    if len(seen) == at:
                        cut(share)
                assert outcome(amofa.fit, table(dtype, plain=is_plain), **options, callback=callback) == "X"
                assert at <= len(seen) <= at + 1
    assert amofa.fit(ROWS, **options).history == expected.history
    """
    run_cut(script, tmp_path, 20_000, search, n_threads)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_file_that_is_cut_off_at_any_moment(tmp_path, n_threads):
    """By another thread: what is read is whole, or there is an error; and two fits at once may each have one."""
    script = """
    n_threads, n_moments = int(sys.argv[3]), int(sys.argv[4])
    options = {"n_threads": n_threads, "n_components": 2, "n_factors": 1, "search": "paper", "max_iter": 8, "tol": 1e-3}
    fit = lambda X: amofa.fit(X, **options)
    expected = fit(ROWS)
    fit(table())
    start = time.perf_counter()
    fit(table())
    duration = time.perf_counter() - start
    found = []
    for i in range(n_moments):
        X = table("f8" if i % 2 else "f4", plain=i % 3 == 0, order="F" if i % 5 == 0 else "C")
        delay = duration * (i + 0.5) / n_moments
        thread = threading.Timer(delay, cut, [(0.0, 0.4, 0.9999)[i % 3]])
        results = []
        thread.start()
        if i % 4 == 0:
            other = threading.Thread(target=lambda: results.append(ending(fit, X)))
            other.start()
            results.append(ending(fit, X))
            other.join()
        else:
            results.append(outcome(fit, X))
        thread.join()
        assert outcome(expected.score_samples, X) == "X"
        found += results
    assert set(found) <= {"X", "done"}, found
    assert fit(ROWS).history == expected.history
    print(found.count("X"))
    """
    process = run_cut(script, tmp_path, 40_000, n_threads, 24)
    assert int(process.stdout) > 6


def test_faults_elsewhere_and_signals_that_are_sent_are_not_ours(tmp_path):
    """While a read is under way in one thread, another one faults: the process ends as it would have."""
    script = """
    X = table(values=np.concatenate([ROWS] * 4))
    other = np.memmap(path + "2", "f8", "w+", shape=(10_000,))
    model = amofa.fit(ROWS[:1000])
    if sys.argv[3] == "sent":
        seen = []
        signal.signal(signal.SIGBUS, lambda *_: seen.append(1))
        done = threading.Event()
        def send():
            while not done.wait(0.0005):
                signal.raise_signal(signal.SIGBUS)
        sender = threading.Thread(target=send)
        sender.start()
        for _ in range(20):
            model.score(X)
        done.set()
        sender.join()
        print(len(seen) > 3, callable(signal.getsignal(signal.SIGBUS)))
    else:
        faulthandler.disable()
        os.truncate(path + "2", 0)
        threading.Thread(target=lambda: [model.score(X) for _ in range(1000)], daemon=True).start()
        time.sleep(0.05)
        other[9000]
    """
    process = run_cut(script, tmp_path, 200_000, "sent")
    assert process.stdout.split() == ["True", "True"]
    process = run_cut(script, tmp_path, 200_000, "fault", check=False)
    assert process.returncode == -signal.SIGBUS, process.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_forked_while_others_read_guards_its_own_reads(tmp_path):
    script = """
    X = table()
    model = amofa.fit(ROWS[:1000])
    stop = threading.Event()
    def read():
        while not stop.is_set():
            model.score(X)
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(20):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            path = f"{sys.argv[1]}-{i}"
            Y = table()
            model.score(Y)
            cut(0.2)
            os._exit(7 if outcome(model.score, Y) == "X" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    stop.set()
    for reader in readers:
        reader.join()
    """
    run_cut(script, tmp_path, 100_000)
