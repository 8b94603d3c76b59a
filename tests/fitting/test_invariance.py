"""What must not change the numbers of components and factors, nor the labels: units, origin, order, equal weights.

The transformed rows are the same rows: only their rounding differs, which no decision may hang on.
"""

from __future__ import annotations

import datasets
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amofa

# The paper's search ends at the same iterate; the thorough one makes the same decisions, see test_thorough.py.
CHOICES = [("paper", c) for c in ("mml", "bic", "aic", "icl")]
SOME_CHOICES = [("paper", "mml"), ("paper", "bic")]


def choices(pairs):
    """Options of a fit, one set for each pair of a search and a criterion."""
    made = [pytest.param({"search": s, "criterion": c}, id=f"{s}-{c}") for s, c in pairs]
    return pytest.mark.parametrize("choice", made)


def close(rng, d):
    """Overlapping groups of no symmetry."""
    X, _ = datasets.factor_analysers(rng, d, [1, 2, 1], [200, 150, 100], distance=3)
    return X + 0.1 * rng.exponential(size=X.shape) ** 2


SETS = {
    "d = 1": lambda rng: datasets.factor_analysers(rng, 1, [0, 0], [150, 100])[0],
    "d = 2": lambda rng: datasets.factor_analysers(rng, 2, [1, 1, 1], [200, 150, 100], distance=8)[0],
    "d = 5": lambda rng: datasets.factor_analysers(rng, 5, [1, 2, 1], [300, 200, 250], distance=8)[0],
    "d = 10": lambda rng: datasets.factor_analysers(rng, 10, [2, 1, 3], [400, 300, 500], distance=8)[0],
    "close, d = 3": lambda rng: close(rng, 3),
    "close, d = 6": lambda rng: close(rng, 6),
    "example 1": lambda rng: datasets.example_1(rng)[0],
    "example 2": lambda rng: datasets.example_2(rng)[0],
}


@pytest.fixture(params=["paper"])
def search(request):
    return request.param


@pytest.fixture(params=SETS)
def rows(request, rng):
    """Rows that single precision holds exactly."""
    return SETS[request.param](rng).astype(np.float32).astype(np.float64)


def check_same(a, b, X, Y, *, rtol=1e-6):
    """The same decisions on rows X as on rows Y, which are X in other coordinates, and the same history."""
    assert b.n_factors.tolist() == a.n_factors.tolist()
    np.testing.assert_array_equal(b.predict(Y), a.predict(X))
    np.testing.assert_allclose(b.weights, a.weights, rtol=rtol)
    taken = [[(s.action, s.component, s.n_factors, s.accepted) for s in model.history] for model in (a, b)]
    assert taken[0] == taken[1]


def check_invariant(X, Y, **options):
    """The same decisions for X and Y. Returns both models."""
    a, b = amofa.fit(X, **options), amofa.fit(Y, **options)
    check_same(a, b, X, Y)
    return a, b


# ---- units and origin ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_a_shift_by_a_million_standard_deviations(rows, search, sign):
    shift = sign * 1e6 * rows.std(axis=0)
    a, b = check_invariant(rows, rows + shift, search=search)
    np.testing.assert_allclose(b.means - shift, a.means, atol=1e-6 * rows.std())
    assert b.log_likelihood == pytest.approx(a.log_likelihood, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-140, 1e-8, 1e8, 1e140])
def test_the_unit_of_all_columns(rows, search, unit):
    a, b = check_invariant(rows, rows * unit, search=search)
    np.testing.assert_allclose(b.means, a.means * unit, atol=1e-7 * unit)
    np.testing.assert_allclose(b.uniquenesses, a.uniquenesses * unit**2, rtol=1e-5)
    jacobian = rows.size * np.log(unit)
    assert b.log_likelihood == pytest.approx(a.log_likelihood - jacobian, rel=1e-8)
    assert b.message_length == pytest.approx(a.message_length + jacobian, rel=1e-8)


@choices(CHOICES)
def test_the_unit_of_every_column(rng, rows, choice):
    units = 10.0 ** rng.uniform(-8, 8, rows.shape[1])
    a, b = check_invariant(rows, rows * units, **choice)
    np.testing.assert_allclose(b.means / units, a.means, atol=1e-7)


def test_mirrored_columns(rng, rows, search):
    signs = rng.choice([-1.0, 1.0], rows.shape[1])
    for s in (signs, -signs):
        a, b = check_invariant(rows, rows * s, search=search)
        np.testing.assert_allclose(b.means * s, a.means, atol=1e-7)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([2, 5, 10]),
    units=st.lists(st.floats(-8, 8), min_size=10, max_size=10),
    shifts=st.lists(st.floats(-1e4, 1e4), min_size=10, max_size=10),
    signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=10, max_size=10),
    choice=st.sampled_from(CHOICES),
)
def test_any_unit_and_origin_of_every_column(seed, d, units, shifts, signs, choice):
    X = close(np.random.default_rng(seed), d)
    units = np.array(signs[:d]) * 10.0 ** np.array(units[:d])
    options = dict(zip(("search", "criterion"), choice, strict=True))
    check_invariant(X, (X + np.array(shifts[:d])) * units, **options)


# ---- order -----------------------------------------------------------------------------------------------------------


@choices(CHOICES)
def test_the_order_of_the_rows(rng, rows, choice):
    order = rng.permutation(len(rows))
    a, b = amofa.fit(rows, **choice), amofa.fit(rows[order], **choice)
    check_same(a, b, rows, rows)
    np.testing.assert_allclose(b.means, a.means, atol=1e-7)


@choices(CHOICES)
def test_the_order_of_the_columns(rng, rows, choice):
    for order in (rng.permutation(rows.shape[1]), np.arange(rows.shape[1])[::-1]):
        a, b = check_invariant(rows, rows[:, order], **choice)
        np.testing.assert_allclose(b.means, a.means[:, order], atol=1e-7)
        np.testing.assert_allclose(b.uniquenesses, a.uniquenesses[:, order], atol=1e-7)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), d=st.sampled_from([2, 5, 10]), choice=st.sampled_from(CHOICES))
def test_any_order_of_rows_and_columns(seed, d, choice):
    rng = np.random.default_rng(seed)
    X = close(rng, d)
    rows, columns = rng.permutation(len(X)), rng.permutation(d)
    options = dict(zip(("search", "criterion"), choice, strict=True))
    a, b = amofa.fit(X, **options), amofa.fit(X[rows][:, columns], **options)
    check_same(a, b, X, X[:, columns])


# ---- forms -----------------------------------------------------------------------------------------------------------


def test_single_precision(rows, search):
    a, b = amofa.fit(rows, search=search), amofa.fit(rows.astype(np.float32), search=search)
    assert a.history == b.history
    np.testing.assert_array_equal(b.means, a.means)
    np.testing.assert_array_equal(b.predict(rows.astype(np.float32)), a.predict(rows))


def test_fortran_order(rows, search):
    a, b = amofa.fit(rows, search=search), amofa.fit(np.asfortranarray(rows), search=search)
    assert a.history == b.history
    np.testing.assert_array_equal(b.means, a.means)
    np.testing.assert_array_equal(b.predict(np.asfortranarray(rows)), a.predict(rows))


def test_rounding_to_single_precision_moves_no_group(rng, search):
    X, _ = datasets.factor_analysers(rng, 5, [1, 1], [200, 100], distance=12)
    double, single = amofa.fit(X, search=search), amofa.fit(X.astype(np.float32), search=search)
    assert double.n_factors.tolist() == single.n_factors.tolist()
    np.testing.assert_array_equal(double.predict(X), single.predict(X))


# ---- sample weights --------------------------------------------------------------------------------------------------


def test_weights_of_one_are_no_weights(rows, search):
    a, b = amofa.fit(rows, search=search), amofa.fit(rows, search=search, sample_weight=np.ones(len(rows)))
    check_same(a, b, rows, rows)
    assert b.log_likelihood == pytest.approx(a.log_likelihood, rel=1e-10)
    assert b.message_length == pytest.approx(a.message_length, rel=1e-10)


def test_weights_of_two_are_rows_twice(rows, search):
    a = amofa.fit(np.repeat(rows, 2, axis=0), search=search, criterion="bic")
    b = amofa.fit(rows, search=search, criterion="bic", sample_weight=np.full(len(rows), 2))
    check_same(a, b, rows, rows)
    assert b.message_length == pytest.approx(a.message_length, rel=1e-9)


@choices(SOME_CHOICES)
def test_whole_weights_are_repeated_rows(rng, rows, choice):
    counts = rng.integers(0, 4, len(rows))
    a = amofa.fit(np.repeat(rows, counts, axis=0), **choice)
    b = amofa.fit(rows, **choice, sample_weight=counts)
    check_same(a, b, rows, rows)
    assert b.n_samples == a.n_samples == counts.sum()
    assert b.log_likelihood == pytest.approx(a.log_likelihood, rel=1e-9)


def test_rows_of_weight_zero_are_absent(rng, rows, search):
    """Wherever they are, and however far away."""
    w = rng.uniform(0.5, 2, len(rows))
    w[rng.random(len(rows)) < 0.3] = 0
    X = rows.copy()
    X[w == 0] *= 1e30
    a = amofa.fit(rows[w > 0], search=search, sample_weight=w[w > 0])
    b = amofa.fit(X, search=search, sample_weight=w)
    assert a.history == b.history
    np.testing.assert_array_equal(b.means, a.means)
    np.testing.assert_array_equal(b.uniquenesses, a.uniquenesses)


def test_columns_that_vary_only_in_rows_of_weight_zero_are_constant(rng):
    X = np.column_stack([rng.standard_normal(50), np.r_[1.0, np.zeros(49)]])
    with pytest.warns(amofa.AmofaWarning, match="1 of 2 columns of X are constant and change no decision: 1"):
        amofa.fit(X, sample_weight=np.r_[0.0, np.ones(49)])


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"n_components": 3}, {"n_factors": 1}, {"n_components": 2, "n_factors": 1}])
def test_under_limits_too(rng, rows, search, options):
    d = rows.shape[1]
    order, units = rng.permutation(d), 10.0 ** rng.uniform(-8, 8, d)
    options = {"search": search, **options}
    a, b = amofa.fit(rows, **options), amofa.fit((rows * units)[::-1, order], **options)
    check_same(a, b, rows, (rows * units)[:, order])
