"""Fits on a dask cluster give, bit for bit, the model of the same blocks here."""

import os
import signal
import sys
import time

import numpy as np
import pytest

import amofa
from amofa._data import deduplicate, row_chunks
from amofa._search import levels
from amofa.blocks import Blocks

dask = pytest.importorskip("dask")
dask_array = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("default")  # of dask's own


@pytest.fixture(scope="module")
def client():
    """A cluster of two workers in this process."""
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


@pytest.fixture(autouse=True)
def few_held_rows(monkeypatch):
    monkeypatch.setattr(row_chunks, "_HELD_ROWS", 500)
    monkeypatch.setattr(deduplicate, "_MOST_VALUES", 1000)


@pytest.fixture(name="X")
def table(rng):
    """Two groups of rows far apart, (3000, 2)."""
    return rng.normal(0, 1, (3000, 2)) + 9 * (rng.random((3000, 1)) < 0.3)


# A dozen passes over the rows.
OPTIONS = {"n_components": 1, "n_factors": 0, "noise": "component", "max_iter": 1}


def chunked(X, rows=250):
    return dask_array.from_array(X, chunks=(rows, 1))


def bits(model):
    return model._parameters.buffer.tobytes(), model._report.cost


def test_model_is_that_of_local_blocks(X, client):
    options = OPTIONS | {"init": amofa.fit(X[:400]), "n_components": 2}
    model = amofa.dask.fit(chunked(X), client=client, **options)
    assert model.n_components == 2
    assert bits(model) == bits(amofa.fit(Blocks(np.array_split(X, 12)), **options))


def test_local_splits_are_tasks(X, client, monkeypatch):
    monkeypatch.setattr(levels, "_LEAST_VALUES_ELSEWHERE", 0)
    submitted, submit = [], client.submit
    monkeypatch.setattr(
        client, "submit", lambda function, *a, **k: submitted.append(function) or submit(function, *a, **k)
    )
    options = {"max_components": 3, "noise": "component", "init": amofa.fit(X[:400], n_components=1)}
    model = amofa.dask.fit(chunked(X, 1500), client=client, **options)
    assert model.n_components == 2
    assert submitted.count(amofa.dask._work) > 1
    assert bits(model) == bits(amofa.fit(Blocks(np.array_split(X, 2)), **options))


def test_weights_and_missing_cells(X, client, rng):
    X, w = X.copy(), rng.random(3000)
    X[rng.random(X.shape) < 0.1] = np.nan
    expected = bits(amofa.fit(Blocks(np.array_split(X, 3), weights=w), **OPTIONS))
    for weights in (w, dask_array.from_array(w, chunks=700)):
        assert bits(amofa.dask.fit(chunked(X, 1000), sample_weight=weights, **OPTIONS)) == expected


def test_frames(X, client, rng):
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    w = rng.random(3000)
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(w=w)
    parts = frames.from_pandas(frame, npartitions=3)
    model = amofa.dask.fit(parts[["a", "b"]], sample_weight=parts["w"], **OPTIONS)
    assert model.feature_names == ("a", "b")
    assert bits(model) == bits(amofa.dask.fit(parts[["a", "b"]], sample_weight=w, **OPTIONS))
    assert bits(model) == bits(amofa.fit(Blocks(np.array_split(X, 3), weights=w), **OPTIONS))
    labels = amofa.dask.predict(model, parts[["a", "b"]]).compute()
    np.testing.assert_array_equal(labels, model.predict(X))
    assert list(amofa.dask.transform(model, parts[["a", "b"]]).compute().columns) == ["r0"]
    turned = frames.from_map(
        lambda i: frame[["a", "b"][::i]], [1, -1], meta=frame[["a", "b"]][:0], enforce_metadata=False
    )
    with pytest.raises(ValueError, match="block 1 of X has other columns than the frame, or in another order"):
        amofa.dask.fit(turned)
    nothing = parts[parts["a"] > 1e9][["a", "b"]]
    assert amofa.dask.predict_proba(model, nothing).compute().shape == (0, 1)


def test_predictions_are_lazy(X, client):
    model, table = amofa.fit(X[:400]), chunked(X)
    for method in ("predict", "predict_proba", "score_samples", "transform"):
        found = getattr(amofa.dask, method)(model, table)
        expected = getattr(model, method)(X)
        assert isinstance(found, dask_array.Array)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(found.compute(), expected)
    np.testing.assert_array_equal(amofa.dask.predict(model, table, clusters=1).compute(), np.zeros(3000))
    with pytest.raises(TypeError, match=r"got ndarray; call model\.predict"):
        amofa.dask.predict(model, X)


def test_unknown_sizes_of_chunks(X, client):
    table = chunked(X)
    table = table[table[:, 0] > -100]
    expected = bits(amofa.fit(Blocks(np.array_split(X, 12)), **OPTIONS))
    assert bits(amofa.dask.fit(table, **OPTIONS)) == expected


def failing(times, log):
    """Return a function that fails this number of times in the fourth block, as a file that workers write says."""

    def of_block(rows, block_info=None):
        if block_info[0]["chunk-location"][0] == 3:
            with open(log, "a+") as file:
                file.write("x")
                file.seek(0)
                if len(file.read()) <= times:
                    raise OSError("disk on fire")
        return rows

    return of_block


def test_a_block_that_fails_is_tried_again(X, client, tmp_path):
    table = chunked(X).rechunk((250, 2))
    expected = bits(amofa.dask.fit(table, **OPTIONS))
    assert bits(amofa.dask.fit(table.map_blocks(failing(2, tmp_path / "a"), dtype=float), **OPTIONS)) == expected
    with pytest.raises(RuntimeError, match=r"block 3 of X could not be computed .* 4 attempts: .*disk on fire"):
        amofa.dask.fit(table.map_blocks(failing(1000, tmp_path / "b"), dtype=float), **OPTIONS)
    deadline = time.monotonic() + 10
    while client.futures and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not client.futures  # nothing stays at the scheduler


def test_of_rows_that_cannot_be_used_the_first_ones_are_named(X, client):
    def narrow(rows, block_info=None):
        return rows if block_info[0]["chunk-location"][0] < 2 else rows[:, :1]

    table = chunked(X).rechunk((250, 2)).map_blocks(narrow, dtype=float)
    with pytest.raises(ValueError, match="block 2 of X has 1 columns"):
        amofa.dask.fit(table)


@pytest.mark.slow
def test_workers_that_are_killed_change_no_bit(X, monkeypatch):
    monkeypatch.setattr(levels, "_LEAST_VALUES_ELSEWHERE", 0)
    iterations, submitted = [], []

    def kill():
        os.kill(processes.pop(), signal.SIGKILL)

    def iterated(_):
        iterations.append(1)
        if len(iterations) == 2:
            kill()

    def submit(function, *arguments, **options):
        future = original(function, *arguments, **options)
        submitted.append(function)
        if function is amofa.dask._work and submitted.count(function) == 2:
            kill()
        return future

    start = amofa.fit(X[:400], n_components=2)
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as other:
        options = {"client": other, "init": start, "max_components": 3, "noise": "component"}
        expected = bits(amofa.dask.fit(chunked(X), **options))
        processes, original = list(other.run(os.getpid).values()), other.submit
        monkeypatch.setattr(other, "submit", submit)
        assert bits(amofa.dask.fit(chunked(X), on_iteration=iterated, **options)) == expected
    assert not processes


def test_errors(X, client, monkeypatch):
    with pytest.raises(TypeError, match="must be a dask array or frame, got ndarray"):
        amofa.dask.fit(X)
    with pytest.raises(TypeError, match="must be a dask array or frame, got Delayed"):
        amofa.dask.fit(dask.delayed(X))
    with pytest.raises(ValueError, match="two dimensions"):
        amofa.dask.fit(dask_array.ones(3, chunks=3))
    with pytest.raises(TypeError, match="no option 'k'"):
        amofa.dask.fit(chunked(X), k=3)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(2,\), but X has 3000 rows"):
        amofa.dask.fit(chunked(X), sample_weight=np.ones(2))
    with pytest.raises(ValueError, match=r"sample_weight has shape \(2999,\), but X has 3000 rows"):
        amofa.dask.fit(chunked(X), sample_weight=dask_array.ones(2999))
    table = chunked(X)
    with pytest.raises(ValueError, match="sample_weight has 1 blocks, but X has 12"):
        amofa.dask.fit(table[table[:, 0] > -99], sample_weight=dask_array.ones(3000, chunks=3000))
    X[777] = np.inf
    with pytest.raises(ValueError, match="block 3 of X has 2 values that are infinite, the first in row 27"):
        amofa.dask.fit(chunked(X))
    monkeypatch.setattr(amofa.dask, "__version__", "0")
    monkeypatch.setattr(client, "run", lambda *_, **__: {"tcp://w": {"amofa": "1", "numpy": np.__version__}})
    with pytest.raises(RuntimeError, match="worker tcp://w has amofa 1, but this process 0"):
        amofa.dask.fit(chunked(X), client=client)
    monkeypatch.setattr(client, "run", lambda *_, **__: {"tcp://w": ImportError("amofa")})
    with pytest.raises(RuntimeError, match="worker tcp://w cannot load amofa"):
        amofa.dask.fit(chunked(X), client=client)


def test_a_client_is_needed(X, monkeypatch):
    def none():
        raise ValueError

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(ValueError, match=r"no dask client; make one first: dask\.distributed\.Client\(\)"):
        amofa.dask.fit(chunked(X))


def test_dask_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "amofa.dask", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'amofa\[dask\]'"):
        __import__("amofa.dask")
