"""fit(): what it makes of odd data."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fit_helpers import caught, check_model, collinear, two_groups

import amofa

# ---- odd data --------------------------------------------------------------------------------------------------------


def outlier(rng):
    X = rng.standard_normal((200, 3))
    X[17, 1] = 1e150
    return X


ODD = {
    "two rows": lambda rng: rng.standard_normal((2, 3)),
    "two rows of one column": lambda rng: [[0.0], [1.0]],
    "fewer rows than columns": lambda rng: rng.standard_normal((20, 50)),
    "far fewer rows than columns": lambda rng: rng.standard_normal((5, 200)),
    "as many rows as columns": lambda rng: rng.standard_normal((40, 40)),
    "one row more than columns": lambda rng: rng.standard_normal((40, 39)),
    "collinear columns": collinear,
    "every column twice": lambda rng: np.tile(two_groups(rng), 2),
    "ints": lambda rng: rng.integers(-5, 5, (200, 3)),
    "uint8": lambda rng: rng.integers(0, 256, (200, 3), dtype=np.uint8),
    "bool": lambda rng: rng.random((200, 4)) > 0.4,
    "one hot": lambda rng: np.eye(12)[rng.integers(0, 12, 200)],
    "float16": lambda rng: two_groups(rng).astype(np.float16),
    "extreme ints": lambda rng: np.array([[-(2**63), 0], [2**63 - 1, 1]] * 20),
    "one column": lambda rng: two_groups(rng, d=1),
    "an outlier at 1e150": outlier,
    "units from 1e-140 to 1e140": lambda rng: two_groups(rng) * [1e-140, 1.0, 1e140],
    "an offset of 1e8": lambda rng: two_groups(rng) + 1e8,
    "nine rows in ten the same": lambda rng: np.concatenate([np.ones((900, 3)), rng.standard_normal((100, 3))]),
    "all rows but one the same": lambda rng: np.concatenate([np.zeros((999, 2)), np.ones((1, 2))]),
    "many rows twice": lambda rng: np.repeat(rng.standard_normal((60, 2)), 2, axis=0),
    "nine distinct rows": lambda rng: rng.standard_normal((9, 2))[rng.integers(0, 9, 17)],
    "a Cauchy sample": lambda rng: rng.standard_t(1, (300, 3)),
    "a row of zeros and few others": lambda rng: np.where(rng.random((50, 20)) < 0.1, rng.random((50, 20)), 0.0),
}


@pytest.mark.filterwarnings("ignore:.* columns of X are constant:amofa.AmofaWarning")
@pytest.mark.parametrize(
    ("search", "criterion"), [("thorough", "evidence"), ("thorough", "bic"), ("paper", "mml"), ("paper", "bic")]
)
@pytest.mark.parametrize("name", ODD)
def test_odd_data_are_fitted(rng, name, search, criterion):
    X = ODD[name](rng)
    model = amofa.fit(X, search=search, criterion=criterion)
    check_model(model, X)
    assert model.converged


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
@pytest.mark.parametrize("options", [{"n_components": 3}, {"n_factors": 2}, {"n_components": 4, "n_factors": 0}])
@pytest.mark.parametrize("name", [name for name in ODD if name not in ("two rows of one column", "one column")])
def test_odd_data_are_fitted_under_limits(rng, search, name, options):
    X = ODD[name](rng)
    model = amofa.fit(X, search=search, **options)
    check_model(model, X)


@pytest.mark.parametrize(("n", "d"), [(2, 10), (3, 20), (4, 60), (20, 50), (5, 200)])
def test_no_more_factors_than_the_rows_span(rng, search, n, d):
    """n rows about their mean have n - 1 directions: a further factor has nothing to explain."""
    model = amofa.fit(rng.standard_normal((n, d)), search=search)
    assert model.n_factors.max() <= n - 1


def test_a_collinear_column_is_told(rng, search):
    X = collinear(rng)
    model = amofa.fit(X, search=search, n_components=1)
    assert model.at_floor.any()
    np.testing.assert_allclose((model.uniquenesses / X.var(axis=0))[model.at_floor], 1e-4, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("criterion", ["mml", "bic", "aic", "icl"])
def test_two_distinct_rows_are_two_components_at_most(rng, search, d, criterion):
    X = np.repeat(rng.standard_normal((2, d)), 500, axis=0)
    model = amofa.fit(X, search=search, criterion=criterion)
    check_model(model, X)
    assert model.n_components <= 2


def test_components_on_two_distinct_rows_do_not_coincide(rng, search):
    X = np.repeat([[0.0, 1.0], [3.0, 5.0]], 500, axis=0)
    with pytest.warns(amofa.AmofaWarning, match="5 components were asked for, but the search found only 2 that can be"):
        model = amofa.fit(X, search=search, n_components=5, n_factors=0, noise_floor=1e-4)
    np.testing.assert_allclose(np.sort(model.means, axis=0), [[0.0, 1.0], [3.0, 5.0]], atol=1e-9)


def test_fewer_distinct_rows_than_components(rng):
    """The paper's search makes components of single points; the prior of the thorough one does not."""
    X = rng.standard_normal((9, 2))[[*range(9), *range(8)]]
    with pytest.warns(amofa.AmofaWarning, match="12 components were asked for, but the search found only 9"):
        model = amofa.fit(X, search="paper", n_components=12, n_factors=0)
    check_model(model, X)
    assert len(np.unique(model.predict(X))) == 9


# ---- constant columns ------------------------------------------------------------------------------------------------


def with_constants(X):
    """Columns 1 and 4 of five constant, in a table of three columns."""
    return np.column_stack([X[:, 0], np.full(len(X), -7.0), X[:, 1], X[:, 2], np.zeros(len(X))])


def test_constant_columns_are_named_in_one_warning(rng):
    _, messages = caught(with_constants(two_groups(rng)))
    assert messages == ["2 of 5 columns of X are constant and change no decision: 1, 4 (from 0)"]


def test_many_constant_columns_are_named_in_one_short_warning(rng):
    _, (message,) = caught(np.column_stack([rng.standard_normal(30), np.ones((30, 40))]))
    assert re.fullmatch(
        r"40 of 41 columns of X are constant and change no decision: (\d+, ){10}... \(from 0\)", message
    )


@pytest.mark.parametrize("criterion", ["mml", "bic", "aic", "icl"])
def test_constant_columns_change_no_decision(rng, search, criterion):
    X = two_groups(rng)
    plain = amofa.fit(X, search=search, criterion=criterion)
    wide = with_constants(X)
    model, _ = caught(wide, search=search, criterion=criterion)
    check_model(model, wide)
    assert model.n_factors.tolist() == plain.n_factors.tolist()
    np.testing.assert_array_equal(model.predict(wide), plain.predict(X))
    np.testing.assert_allclose(model.predict_proba(wide), plain.predict_proba(X), atol=1e-9)
    kept = [0, 2, 3]
    np.testing.assert_allclose(model.means[:, kept], plain.means, rtol=1e-12)
    np.testing.assert_allclose(model.uniquenesses[:, kept], plain.uniquenesses, rtol=1e-12)
    assert [step.cost for step in model.history] == [step.cost for step in plain.history]


def test_what_constant_columns_get(rng, search):
    """Their value as the mean, no loading, and the floor's share of the mean variance of the other columns."""
    X = two_groups(rng) * [1.0, 10.0, 0.1]
    model, _ = caught(with_constants(X), search=search, noise_floor=1e-3)
    np.testing.assert_array_equal(model.means[:, 1], -7.0)
    np.testing.assert_array_equal(model.means[:, 4], 0.0)
    np.testing.assert_allclose(model.uniquenesses[:, [1, 4]], 1e-3 * X.var(axis=0).mean(), rtol=1e-12)
    assert all((loadings[[1, 4]] == 0).all() for loadings in model.loadings)
    assert model.at_floor[:, [1, 4]].all()


@pytest.mark.parametrize("column", [1e8 + np.array([0.0, 1.5e-8]), np.array([0.0, 1e-170]), np.array([7.0, 7.0])])
def test_columns_within_their_rounding_are_constant(rng, search, column):
    X = two_groups(rng)
    model, messages = caught(np.column_stack([X, np.tile(column, len(X) // 2)]), search=search)
    assert messages == ["1 of 4 columns of X are constant and change no decision: 3 (from 0)"]
    assert model.n_factors.tolist() == amofa.fit(X, search=search).n_factors.tolist()


def test_a_column_of_standard_deviation_1e_minus_170_is_constant(rng):
    X = two_groups(rng) * [1.0, 1e-170, 1.0]
    model, _ = caught(X)
    check_model(model, X)
    assert model.n_factors.tolist() == amofa.fit(X[:, [0, 2]]).n_factors.tolist()


@pytest.mark.parametrize("X", [[[3.0]], [[1.0, -2.0, 1e9]], np.full((50, 2), 0.1), np.zeros((3, 4), np.uint8)])
def test_rows_that_are_all_the_same(search, X):
    model, (message,) = caught(X, search=search)
    d = np.shape(X)[1]
    assert message.startswith(f"{d} of {d} columns of X are constant")
    check_model(model, X)
    assert model.n_components == 1
    np.testing.assert_array_equal(model.means[0], np.asarray(X, float)[0])
    assert model.converged
    assert model.history == ()


def test_rows_that_are_all_the_same_with_limits(search):
    model, messages = caught(np.ones((10, 2)), search=search, n_components=2, n_factors=1)
    assert len(messages) == 2
    assert messages[1] == "2 components were asked for, but the search found only 1 that can be told apart"
    assert model.n_factors.tolist() == [1]
