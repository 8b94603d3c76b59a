"""What must not change the numbers of components and factors, nor the labels: units, origin, order, equal weights.

The transformed rows are the same rows: only their rounding differs, which no decision may hang on. Of tables that are
made at random, in test_properties.py, only some decisions hang on nothing else; here the paper's search takes the very
same steps, under every criterion.
"""

import datasets
import numpy as np
import pytest

import amofa

CRITERIA = ("mml", "bic", "aic", "icl")


def close(rng, d):
    """Overlapping groups of no symmetry."""
    X, _ = datasets.factor_analysers(rng, d, [1, 2, 1], [200, 150, 100], distance=3)
    return X + 0.1 * rng.exponential(size=X.shape) ** 2


SETS = {
    "one column": lambda rng: datasets.factor_analysers(rng, 1, [0, 0], [150, 100])[0],
    "ten columns": lambda rng: datasets.factor_analysers(rng, 10, [2, 1, 3], [200, 150, 250], distance=8)[0],
    "close": lambda rng: close(rng, 3),
    "example 2": lambda rng: datasets.example_2(rng)[0],
}


@pytest.fixture(params=SETS)
def rows(request, rng):
    """Rows that single precision holds exactly."""
    return SETS[request.param](rng).astype(np.float32).astype(np.float64)


def check_same(a, b, X, Y):
    """The same decisions on rows X as on rows Y, which are X in other coordinates, and the same history."""
    assert b.n_factors.tolist() == a.n_factors.tolist()
    np.testing.assert_array_equal(b.predict(Y), a.predict(X))
    np.testing.assert_allclose(b.weights, a.weights, rtol=1e-6)
    taken = [[(s.action, s.component, s.n_factors, s.accepted) for s in model.history] for model in (a, b)]
    assert taken[0] == taken[1]


COORDINATES = {
    "an origin a million deviations away": lambda rng, X: (1.0, 1e6 * X.std(axis=0)),
    "a tiny unit": lambda rng, X: (1e140, 0.0),
    "a huge unit": lambda rng, X: (1e-140, 0.0),
    "other units and signs": lambda rng, X: (
        rng.choice([-1.0, 1.0], X.shape[1]) * 10.0 ** rng.uniform(-8, 8, X.shape[1]),
        0.0,
    ),
}


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("name", COORDINATES)
def test_units_and_origin(rng, rows, name, criterion):
    unit, shift = COORDINATES[name](rng, rows)
    Y = rows * unit + shift
    options = {"search": "paper", "criterion": criterion}
    a, b = amofa.fit(rows, **options), amofa.fit(Y, **options)
    check_same(a, b, rows, Y)
    np.testing.assert_allclose((b.means - shift) / unit, a.means, atol=1e-6 * rows.std())
    np.testing.assert_allclose(b.uniquenesses / unit**2, a.uniquenesses, rtol=1e-4)
    jacobian = len(rows) * np.log(np.abs(np.broadcast_to(unit, rows.shape[1]))).sum()
    assert b.log_likelihood == pytest.approx(a.log_likelihood - jacobian, rel=1e-6)
    assert b.message_length == pytest.approx(a.message_length + jacobian, rel=1e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_order_of_rows_and_columns(rng, rows, criterion):
    order, columns = rng.permutation(len(rows)), rng.permutation(rows.shape[1])
    options = {"search": "paper", "criterion": criterion}
    a, b = amofa.fit(rows, **options), amofa.fit(rows[order][:, columns], **options)
    check_same(a, b, rows, rows[:, columns])
    np.testing.assert_allclose(b.means, a.means[:, columns], atol=1e-7)
    np.testing.assert_allclose(b.uniquenesses, a.uniquenesses[:, columns], atol=1e-7)


@pytest.mark.parametrize("options", [{"n_components": 3}, {"n_factors": 1}, {"n_components": 2, "n_factors": 1}])
def test_under_limits_too(rng, rows, options):
    columns, units = rng.permutation(rows.shape[1]), 10.0 ** rng.uniform(-8, 8, rows.shape[1])
    Y = (rows * units)[:, columns]
    a, b = amofa.fit(rows, search="paper", **options), amofa.fit(Y[::-1], search="paper", **options)
    check_same(a, b, rows, Y)
