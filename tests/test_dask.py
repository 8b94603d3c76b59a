"""Fits on a dask cluster give, bit for bit, the model of the same blocks here."""

import os
import signal
import sys

import numpy as np
import pytest

import amofa
from amofa._data import deduplicate, row_chunks
from amofa.blocks import Blocks

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


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_bit(X):
    iterations = []

    def kill(_):
        iterations.append(1)
        if len(iterations) == 2:
            os.kill(next(iter(other.run(os.getpid).values())), signal.SIGKILL)

    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as other:
        options = OPTIONS | {"client": other}
        expected = bits(amofa.dask.fit(chunked(X), **options))
        assert bits(amofa.dask.fit(chunked(X), on_iteration=kill, **options)) == expected
    assert len(iterations) > 2


def test_errors(X, client, monkeypatch):
    with pytest.raises(TypeError, match="must be a dask array or frame, got ndarray"):
        amofa.dask.fit(X)
    with pytest.raises(ValueError, match="two dimensions"):
        amofa.dask.fit(dask_array.ones(3, chunks=3))
    with pytest.raises(TypeError, match="no option 'k'"):
        amofa.dask.fit(chunked(X), k=3)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(2,\), but X has 3000 rows"):
        amofa.dask.fit(chunked(X), sample_weight=np.ones(2))
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
