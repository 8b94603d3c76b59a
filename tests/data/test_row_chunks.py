"""How rows of any table reach the kernels, and the passes over them."""

import numpy as np
import pytest
import reference
from reference import random_mixture, random_rows, relative_error

from amofa._data import row_chunks as samples_module
from amofa._data.checks import check_table, check_weights
from amofa._data.row_chunks import Samples
from amofa._parameters import Evaluator

# ---- tables that are taken -------------------------------------------------------------------------------------------


def as_memory_map(table, folder):
    np.save(folder / "table.npy", table)
    return np.load(folder / "table.npy", mmap_mode="r")


def as_read_only(table):
    table = table.copy()
    table.flags.writeable = False
    return table


def as_not_aligned(table):
    memory = np.zeros(table.nbytes + 1, dtype=np.uint8)
    moved = memory[1:].view(np.float64).reshape(table.shape)
    moved[:] = table
    assert not moved.flags.aligned
    return moved


FORMS = {
    "float64": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "longdouble": lambda x: x.astype(np.longdouble),
    "int64": lambda x: x.astype(np.int64),
    "int8": lambda x: x.astype(np.int8),
    "uint16": lambda x: x.astype(np.uint16),
    "bool": lambda x: x > 60,
    "big-endian": lambda x: x.astype(">f8"),
    "big-endian int": lambda x: x.astype(">i4"),
    "object": lambda x: x.astype(object),
    "Fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda x: x[::-1, ::-1],
    "read-only": as_read_only,
    "not aligned": as_not_aligned,
    "broadcast": lambda x: np.broadcast_to(x[0], x.shape),
}


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_any_real_table_reaches_the_kernels(rng, form, shifted):
    table = FORMS[form](rng.uniform(0, 120, (50, 3)))
    checked = check_table(table)
    assert checked is table or form == "object"
    center, scale = (np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0, 3.0])) if shifted else (None, None)
    ((x, weights),) = Samples(checked, center=center, scale=scale).chunks()
    expected = table.astype(np.float64)
    if shifted:
        expected = (expected - center) * (1 / scale)
    assert weights is None
    assert x.dtype == np.float64
    assert x.flags.c_contiguous
    np.testing.assert_array_equal(x, expected.T)


def test_a_memory_map_reaches_the_kernels(rng, tmp_path):
    table = rng.standard_normal((50, 3))
    mapped = check_table(as_memory_map(table, tmp_path))
    ((x, _),) = Samples(mapped).chunks()
    np.testing.assert_array_equal(x, table.T)


def test_lists_are_taken():
    np.testing.assert_array_equal(check_table([[1, 2], [3, 4.5]]), [[1.0, 2.0], [3.0, 4.5]])


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [np.arange(10.0)[::2], np.arange(5.0)[::-1], np.broadcast_to(2.0, (5,))])
def test_weights_of_any_layout_reach_the_kernels(rng, weights):
    parameters = random_mixture(rng, 2, 3, 1)
    x = random_rows(rng, parameters, 5)
    expected = Samples(x, weights=np.array(weights)).sums(parameters)
    np.testing.assert_array_equal(Samples(x, weights=check_weights(weights, 5)).sums(parameters), expected)


# ---- rows, columns, coordinates --------------------------------------------------------------------------------------


@pytest.fixture
def pieces(rng):
    """A table, and keyword arguments that take some rows and columns of it in new coordinates."""
    return rng.standard_normal((60, 5)), {
        "weights": rng.uniform(0, 2, 60),
        "rows": np.array([3, 59, 3, 0, 17]),
        "columns": np.array([4, 0]),
        "center": np.array([0.5, -1.0]),
        "scale": np.array([2.0, 0.25]),
    }


def test_rows_columns_center_and_scale(pieces):
    table, how = pieces
    samples = Samples(table, **how)
    ((x, w),) = samples.chunks()
    np.testing.assert_array_equal(x.T, (table[how["rows"]][:, [4, 0]] - how["center"]) / how["scale"])
    np.testing.assert_array_equal(w, how["weights"][how["rows"]])
    assert (samples.n_rows, samples.n_features) == (5, 2)
    assert samples.total_weight == pytest.approx(w.sum(), rel=1e-15)
    assert samples.log_jacobian == pytest.approx(-w.sum() * np.log(0.5), rel=1e-14)


def test_a_subset_is_the_same_rows(pieces):
    table, how = pieces
    whole = Samples(table, **how)
    part = whole.subset(np.array([4, 1]))
    ((x, w),), ((all_x, all_w),) = part.chunks(), whole.chunks()
    np.testing.assert_array_equal(x, all_x[:, [4, 1]])
    np.testing.assert_array_equal(w, all_w[[4, 1]])
    assert (part.n_rows, part.n_features) == (2, 2)
    assert part.total_weight == pytest.approx(w.sum(), rel=1e-15)


def test_a_subset_of_all_rows_and_a_subset_of_a_subset(rng):
    table = rng.standard_normal((20, 2))
    part = Samples(table).subset(np.arange(5, 15)).subset(np.array([9, 0]))
    ((x, w),) = part.chunks()
    np.testing.assert_array_equal(x.T, table[[14, 5]])
    assert (w, part.total_weight, part.log_jacobian) == (None, 2.0, 0.0)


def test_the_jacobian_gives_back_the_log_likelihood_of_the_table(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    table, w = random_rows(rng, parameters, 100), rng.uniform(0, 2, 100)
    center, scale = rng.standard_normal(3), rng.uniform(0.1, 10, 3)
    scaled = parameters.copy()
    scaled.means[:] = (parameters.means - center) / scale
    scaled.loadings[:] /= scale
    scaled.uniquenesses[:] /= scale**2
    samples = Samples(table, weights=w, center=center, scale=scale)
    in_scaled = samples.log_likelihood(scaled) + samples.log_jacobian
    assert in_scaled == pytest.approx(Samples(table, weights=w).log_likelihood(parameters), rel=1e-12)


# ---- passes ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_table():
    """Parameters, a table of more values than are kept from pass to pass, row weights."""
    rng = np.random.default_rng(0)
    parameters = random_mixture(rng, 2, 4, [1, 3])
    table = random_rows(rng, parameters, (1 << 18) + 1000)
    assert table.size > 1 << 20
    return parameters, table, rng.uniform(0, 2, len(table))


def test_a_long_table_comes_in_chunks(long_table):
    _, table, w = long_table
    center, scale = np.arange(4.0), np.array([1.0, 2.0, 4.0, 8.0])
    chunks = list(Samples(table, weights=w, center=center, scale=scale).chunks())
    assert len(chunks) > 1
    np.testing.assert_array_equal(np.concatenate([x for x, _ in chunks], axis=1), ((table - center) / scale).T)
    np.testing.assert_array_equal(np.concatenate([w for _, w in chunks]), w)


def test_chunks_and_one_chunk_give_the_same_statistics(long_table):
    parameters, table, w = long_table
    evaluator = Evaluator(parameters)
    expected = evaluator.sums()
    evaluator.accumulate(np.ascontiguousarray(table.T), w, expected)
    assert relative_error(Samples(table, weights=w).sums(parameters), expected) < 1e-12


def test_chunks_of_some_rows_of_a_long_table(long_table):
    _, table, w = long_table
    rows = np.concatenate([np.arange(len(table))[::-1], np.arange(500)])
    chunks = list(Samples(table, weights=w, rows=rows, columns=np.array([3, 1, 1, 0])).chunks())
    assert len(chunks) > 1
    np.testing.assert_array_equal(np.concatenate([x for x, _ in chunks], axis=1), table[rows][:, [3, 1, 1, 0]].T)
    np.testing.assert_array_equal(np.concatenate([w for _, w in chunks]), w[rows])


def test_labels_of_a_long_table(long_table):
    parameters, table, _ = long_table
    some = np.arange(0, len(table), 997)
    labels = Samples(table).labels(parameters)
    assert labels.shape == (len(table),)
    expected = reference.log_joint(table[some], parameters.components()).argmax(axis=1)
    np.testing.assert_array_equal(labels[some], expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_match_dense_algebra(rng, weighted):
    parameters = random_mixture(rng, 3, 4, [0, 1, 2])
    x, w = random_rows(rng, parameters, 400), rng.uniform(0, 2, 400) if weighted else None
    moments = Samples(x, weights=w).moments(parameters)
    h = reference.weighted_responsibilities(x, w, parameters.components())
    assert relative_error(moments.soft_counts, h.sum(axis=0)) < 1e-12
    for k in range(3):
        mean = np.average(x, axis=0, weights=h[:, k])
        covariance = (h[:, [k]] * (x - mean)).T @ (x - mean) / h[:, k].sum()
        assert relative_error(moments.means[k], mean, np.abs(x).max()) < 1e-12
        assert relative_error(moments.covariances[k], covariance) < 1e-12
        np.testing.assert_array_equal(moments.covariances[k], moments.covariances[k].T)


def test_moments_of_an_empty_component_are_finite(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    x = random_rows(rng, parameters, 50)
    parameters.weights[:] = [1.0, 0.0]
    moments = Samples(x).moments(parameters)
    assert moments.soft_counts[1] == 0
    np.testing.assert_array_equal(moments.means[1], parameters.means[1])
    assert np.isfinite(moments.covariances).all()
    assert np.isfinite(Samples(x).kurtosis_z(parameters)).all()


# ---- huge tables -----------------------------------------------------------------------------------------------------


def few_held(monkeypatch, most):
    monkeypatch.setattr(samples_module, "_HELD_ROWS", most)


def test_thinned_rows_are_spread_evenly_and_stand_for_all(monkeypatch):
    few_held(monkeypatch, 100)
    table = np.arange(1050.0)[:, None]
    thin = Samples(table, center=np.array([500.0]), scale=np.array([2.0])).thinned()
    ((x, w),) = thin.chunks()
    rows = 2 * x[0] + 500
    assert thin.n_rows == 100
    assert thin.total_weight == pytest.approx(1050)
    assert thin.log_jacobian == pytest.approx(-1050 * np.log(2))
    np.testing.assert_allclose(w, 10.5)
    # One of each stretch of 10.5 rows, at all places in it.
    places = rows - 10.5 * np.arange(100)
    assert -1 < places.min() < 1
    assert 9 < places.max() <= 10.5
    assert set((rows % 5).astype(int)) == set(range(5))


def test_thinned_rows_keep_their_weights_and_selection(monkeypatch):
    few_held(monkeypatch, 50)
    table, weights = np.arange(2000.0)[:, None], np.tile([1.0, 3.0], 1000)
    rows = np.arange(500, 1500)
    whole = Samples(table, weights=weights, rows=rows)
    ((x, w),) = whole.thinned().chunks()
    assert x.min() >= 500
    assert x.max() < 1500
    own = weights[x[0].astype(int)]
    np.testing.assert_allclose(w / w.sum(), own / own.sum())
    assert w.sum() == pytest.approx(whole.total_weight)


def test_tables_that_can_be_held_are_not_thinned():
    samples = Samples(np.zeros((1000, 3)))
    assert samples.thinned() is samples
    # So many rows for each column in any case.
    wide = Samples(np.broadcast_to(0.0, (30_000, 1000)))
    assert wide.thinned() is wide
