"""Troubles with units, rounding and redundant columns: lines 91 to 96 of docs/hard_inputs.md."""

import numpy as np
import pytest
from fits import fitted

import amofa


def same_parts(a, b):
    """Whether two labellings divide rows in the same way."""
    return len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.fixture
def groups(rng):
    """Rows of three groups in four columns, and their labels."""
    y = np.repeat([0, 1, 2], [120, 90, 60])
    return np.array([[0, 0, 0, 0], [8, 0, 4, 1], [0, 9, 5, 2]])[y] + rng.normal(size=(270, 4)), y


@pytest.mark.parametrize("far", [1e3, 1e4, 1e6])
def test_91_groups_and_one_row_far_away(rng, far):
    y = np.append(np.repeat([0, 1], 250), 2)
    X = np.array([0.0, 10.0, far])[y][:, None] + rng.normal(size=(501, 2))
    assert same_parts(y, fitted(X).predict(X))


def test_92_a_cell_that_stands_for_a_missing_value(groups):
    X, y = groups
    X[7, 2], y[7] = -9999, 3
    assert same_parts(y, fitted(X).predict(X))


@pytest.mark.parametrize("far", [30.0, 100.0, 1e4])
def test_93_narrow_groups_beside_a_far_one(rng, far):
    y = np.repeat([0, 1, 2], 200)
    X = np.array([0.0, 1.0, far])[y][:, None] + rng.normal(0, 0.1, (600, 1))
    model = fitted(X)
    assert same_parts(y, model.predict(X))
    np.testing.assert_allclose(np.sqrt(model.uniquenesses[:, 0]), 0.1, rtol=0.15)


def test_94_one_component_for_each_whole_number(rng):
    X = np.round(np.r_[rng.normal(0, 1, 12_000), rng.normal(6, 1.5, 8000)])[:, None]
    model = fitted(X)
    assert model.n_components == 2
    values, counts = np.unique(X, axis=0, return_counts=True)
    assert fitted(values, sample_weight=counts, check=False).history == model.history
    assert fitted(np.round(rng.normal(size=(5000, 3)))).n_components == 1


@pytest.mark.parametrize("kind", ["sum", "copies", "other units"])
def test_95_columns_that_follow_from_others(groups, kind):
    X, y = groups
    added = {"sum": X[:, :1] + X[:, 1:2], "copies": X, "other units": 32 + 1.8 * X[:, :1]}[kind]
    model = fitted(np.hstack([X, added]), "columns of X follow from others by sums and multiples")
    assert same_parts(amofa.fit(X).predict(X), model.predict(np.hstack([X, added])))
    assert same_parts(y, model.predict(np.hstack([X, added])))


def test_96_weights_that_sum_to_one(groups):
    X, y = groups
    w = np.full(270, 1 / 270)
    warning = r"sample_weight sums to 1, .* pass w \* \(270 / w.sum\(\)\)"
    assert fitted(X, warning, sample_weight=w, check=False).n_components == 1
    assert same_parts(y, fitted(X, sample_weight=w * (270 / w.sum())).predict(X))
