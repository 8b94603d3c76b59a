"""Precision: rows 57 to 64 of docs/hard_inputs.md."""

from decimal import Decimal

import numpy as np
import pytest
from fits import blobs, check_model, fitted, fitted_with, same_groups, warned
from reference import exact_log_joint, log_density

import amofa
from amofa._parameters import Component


def model_of(components):
    return amofa.MixtureOfFactorAnalyzers(
        [c.weight for c in components],
        [c.mean for c in components],
        [c.loadings.T for c in components],
        [c.uniquenesses for c in components],
    )


# ---- 57, 58 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [1, 2, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_57_two_points_far_apart_in_single_precision(dtype, repeats):
    X = np.repeat(np.array([[9999.0], [0.0]], dtype), repeats, axis=0)
    # EM of one row for each component may go on for ever.
    model = fitted_with(2, X) if repeats > 1 else warned(amofa.fit, X, n_components=2)[0]
    if repeats == 20:
        np.testing.assert_allclose(np.sort(model.means[:, 0]), [0, 9999], atol=50)
    assert (model.uniquenesses > 0).all()


@pytest.mark.parametrize("offset", [1e6, 1e8, -1e8])
def test_58_an_offset_of_a_hundred_million(rng, offset):
    X, labels = blobs(rng, [200, 200], [(0, 0), (6, 6)])
    plain, moved = fitted(X), fitted(X + offset)
    assert same_groups(labels, moved.predict(X + offset))
    # The rows themselves are rounded to 1e-8 there.
    np.testing.assert_allclose(moved.means - offset, plain.means, atol=1e-7)
    np.testing.assert_allclose(moved.uniquenesses, plain.uniquenesses, rtol=1e-6)
    assert moved.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)
    one = fitted(X[:200] + offset)
    np.testing.assert_allclose(np.diag(one.covariance(0)), X[:200].var(axis=0), rtol=0.05)


# ---- 59 --------------------------------------------------------------------------------------------------------------


def ill_conditioned(rng, condition, d=7):
    """Two components whose covariances have about this condition number."""
    components = []
    for weight in (0.25, 0.75):
        loadings = rng.standard_normal((3, d))
        uniquenesses = rng.uniform(1, 2, d) * (loadings**2).sum() / condition
        components.append(Component(weight, rng.standard_normal(d), loadings, uniquenesses))
    return components


@pytest.mark.parametrize("condition", [1e4, 1e8, 1e10])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_59_densities_of_ill_conditioned_covariances(rng, condition, offset):
    """Against rational arithmetic: to 1e-9, as far as the rows and the means are exact."""
    components = [c._replace(mean=(c.mean * 1024).round() / 1024 + offset) for c in ill_conditioned(rng, condition)]
    model = model_of(components)
    eigenvalues = np.linalg.eigvalsh(model.covariance(0))
    assert eigenvalues[-1] / eigenvalues[0] > condition / 10
    drawn, _ = model.sample(5, random_state=0)
    X = np.concatenate([drawn, drawn + 0.125, drawn[:2] + 8 * np.arange(7)])
    exact = np.array([np.logaddexp.reduce([exact_log_joint(row.tolist(), c) for c in components]) for row in X])
    np.testing.assert_allclose(model.score_samples(X), exact, rtol=1e-9)


# ---- 60, 61, 62 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e6, -1e6, 1e12, 1e100, 1e149])
def test_60_a_query_far_away(rng, far):
    X, _ = blobs(rng, [200, 100], [(0, 0, 0), (6, 6, 6)])
    X[:200] += rng.standard_normal((200, 1)) * [1, -1, 1]
    model = fitted(X)
    rows = np.vstack([far * np.eye(3), np.full((1, 3), far)])
    density, proba = model.score_samples(rows), model.predict_proba(rows)
    assert np.isfinite(density).all()
    assert (density < -1e6).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert all(np.isfinite(scores).all() for scores in model.factor_scores(rows))


@pytest.mark.parametrize("far", [1e3, -1e3, 1e6, 1e100])
def test_61_regression_far_from_the_data(rng, far):
    X, _ = blobs(rng, [150, 150], [(0, 0, 0), (4, 4, 4)])
    slopes = np.array([1.0, 2.0, -1.0])
    y = X @ slopes + 0.1 * rng.standard_normal(300)
    model = fitted(np.column_stack([X, y]))
    row = np.full((1, 3), far)
    filled = model.impute(np.column_stack([row, [np.nan]]))
    given = model.condition([0, 1, 2], row[0])
    assert np.isfinite(filled).all()
    assert np.isfinite(given.means).all()
    # The limit is the regression line of the component that is nearest, out there as near the data.
    assert filled[0, 3] == pytest.approx(2 * far, rel=0.05)
    sklearn = pytest.importorskip("amofa.sklearn")
    mean, deviation = sklearn.AMoFARegressor().fit(X, y).predict(row, return_std=True)
    assert mean[0] == pytest.approx(2 * far, rel=0.05)
    assert np.isfinite(deviation).all()


def test_62_a_thousand_columns_and_ten_deviations_in_each():
    """The density is exp(-50 000), which no float holds; densities are there as logarithms alone."""
    d = 1000
    components = [Component(w, np.full(d, m), np.full((2, d), 0.1), np.ones(d)) for w, m in ((0.6, 1.0), (0.4, 0.0))]
    model = model_of(components)
    X = np.array([[10.0], [-9.0]]) * np.sqrt(np.diag(model.covariance(0)))
    np.testing.assert_allclose(model.score_samples(X), log_density(X, components), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), [[1, 0], [0, 1]], atol=1e-12)
    assert not {name for name in dir(model) if "density" in name or name == "pdf"}


# ---- 63, 64 ----------------------------------------------------------------------------------------------------------

DTYPES = ["f2", "f4", "f8", ">f8", "g", "i1", "i2", "i4", "i8", ">i4", "u1", "u2", "u8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_63_every_real_dtype(rng, dtype):
    X, labels = blobs(rng, [120, 80], [(20, 20), (60, 60)], 5)
    table = X.round().astype(dtype)
    model, plain = fitted(table), fitted(X.round())
    assert same_groups(labels, model.predict(table))
    np.testing.assert_array_equal(model.means, plain.means)
    assert model.means.dtype == model.predict_proba(table).dtype == model.score_samples(table).dtype == np.float64


def test_63_booleans(rng):
    """Whether each of ten things is there: two kinds of rows."""
    labels = np.repeat([0, 1], [200, 100])
    X = rng.random((300, 10)) < np.where(labels[:, None] == np.arange(10)[None, :] // 5, 0.95, 0.05)
    model = fitted(X)
    check_model(model, X)
    np.testing.assert_array_equal(model.means, fitted(X.astype(float)).means)


def test_64_tables_of_objects(rng):
    X, _ = blobs(rng, [120, 80], [(0, 0), (6, 6)])
    model, plain = fitted(X.astype(object)), fitted(X)
    np.testing.assert_array_equal(model.means, plain.means)
    exact = np.array([[Decimal("1.5"), 2], [3, 4.5], [np.float32(1), True]], object)
    np.testing.assert_array_equal(fitted(exact).means, fitted([[1.5, 2], [3, 4.5], [1, 1]]).means)
    for wrong in ("a", {}, 1j, [1.0]):
        table = X.astype(object)
        table[3, 1] = wrong
        with pytest.raises(TypeError, match="X holds values that are not numbers"):
            amofa.fit(table)
