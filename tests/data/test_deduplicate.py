"""Rows that are the same are one with their weights; so repeats and weights give the same fit."""

import numpy as np
import pytest
from datasets import factor_analysers, gaussians
from fits import check_same

import amofa
from amofa._data import deduplicate as repeats
from amofa._data.deduplicate import merge_repeats

pytestmark = pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")


# ---- the rows --------------------------------------------------------------------------------------------------------


def test_different_rows_are_left_as_they_are():
    X = np.array([[2.0, 1.0], [1.0, 3.0], [1.0, 2.0]])
    for weights in (None, np.ones(3)):
        table, merged = merge_repeats(X, weights)
        assert table is X
        assert merged is None


def test_repeated_rows_are_counted():
    table, weights = merge_repeats(np.array([[2, 1], [1, 3], [2, 1], [1, 2], [2, 1]]), None)
    np.testing.assert_array_equal(table, [[1, 2], [1, 3], [2, 1]])
    np.testing.assert_array_equal(weights, [1, 1, 3])


def test_weights_are_summed_and_rows_of_weight_0_left_out():
    X = np.array([[5.0], [4.0], [5.0], [3.0]])
    table, weights = merge_repeats(X, np.array([0.5, 0.0, 2.0, 1.0]))
    np.testing.assert_array_equal(table, [[3], [5]])
    np.testing.assert_array_equal(weights, [1, 2.5])


def test_rows_of_weight_0_beside_ones_leave_a_plain_table():
    X = np.array([[5.0], [4.0], [3.0]])
    table, weights = merge_repeats(X, np.array([1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(table, [[5], [3]])
    assert weights is None


def test_zeros_of_either_sign_are_the_same():
    table, weights = merge_repeats(np.array([[0.0, 1.0], [-0.0, 1.0]]), None)
    assert len(table) == 1
    np.testing.assert_array_equal(weights, [2])


def test_dtype_is_kept():
    assert merge_repeats(np.zeros((3, 2), dtype=np.float32), None)[0].dtype == np.float32


def test_large_tables_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(repeats, "_MOST_VALUES", 5)
    X, w = np.zeros((3, 2)), np.array([0.0, 1.0, 2.0])
    assert merge_repeats(X, w) == (X, w)


# ---- fits ------------------------------------------------------------------------------------------------------------


def table(rng, kind):
    """Few rows of several shapes, some of which leave decisions to the last bits."""
    if kind == "groups":
        return gaussians(rng, [40, 30], [(0, 0), (4, 1)], [np.eye(2), np.diag([0.2, 2.0])])[0]
    if kind == "factors":
        return factor_analysers(rng, 5, [2, 1], [50, 40])[0]
    if kind == "wide":
        return rng.normal(size=(15, 30))
    return rng.poisson(3, size=(50, 3))


OPTIONS = [
    {},
    {"search": "paper"},
    {"n_components": 3},
    {"n_components": 3, "search": "paper"},
    {"n_components": 2, "n_factors": [1, 0]},
    {"noise": "isotropic"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", ["groups", "factors", "wide", "counts"])
def test_whole_weights_are_repeated_rows(rng, kind, options):
    X = table(rng, kind)
    weights = rng.integers(0, 4, len(X))
    order = rng.permutation(len(X))
    weighted = amofa.fit(X[order], sample_weight=weights[order], **options)
    check_same(weighted, amofa.fit(X.repeat(weights, axis=0), **options))


def test_rows_of_weight_0_are_absent(rng, search):
    X = np.concatenate([table(rng, "groups"), rng.normal(50, 9, (20, 2))])
    weights = np.repeat([1.0, 0.0], [70, 20])
    weights[:70:3] = 0.0
    check_same(amofa.fit(X, sample_weight=weights, search=search), amofa.fit(X[weights > 0], search=search))


def test_large_tables_agree_but_for_rounding(rng, search, monkeypatch):
    monkeypatch.setattr(repeats, "_MOST_VALUES", 0)
    X = table(rng, "groups")
    weights = rng.integers(0, 4, len(X))
    a = amofa.fit(X, sample_weight=weights, search=search)
    b = amofa.fit(X.repeat(weights, axis=0), search=search)
    np.testing.assert_array_equal(a.n_factors, b.n_factors)
    # Rounding may decide which of two mixtures that cost nearly the same is found.
    assert a.cost == pytest.approx(b.cost, abs=1e-6 if search == "paper" else 0.05)


def test_a_component_that_was_asked_for_may_be_one_row_among_many_repeats(rng, search):
    X = np.append(rng.normal(size=20).repeat(50), 1e4)[:, None]
    model = amofa.fit(X, n_components=2, n_factors=0, search=search)
    np.testing.assert_allclose(model.weights, [1000 / 1001, 1 / 1001])
    np.testing.assert_allclose(model.means[1], 1e4)
