"""MixtureOfFactorAnalyzers: construction, and every quantity against dense computation with SciPy."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from amofa._data.row_chunks import _CACHE_VALUES
from amofa.mixture import MixtureOfFactorAnalyzers

# K, d, factors of each component, rows.
SHAPES = [
    (1, 1, (0,), 1),
    (1, 1, (1,), 5),
    (2, 1, (0, 3), 40),
    (3, 4, (0, 1, 2), 300),
    (2, 3, (3, 5), 1),
    (1, 7, (2,), 60),
    (4, 10, (2, 2, 0, 4), 1000),
    (2, 40, (6, 1), 500),
]
shapes = pytest.mark.parametrize(("K", "d", "p", "n"), SHAPES)


@pytest.fixture
def model(make_model):
    return make_model(3, 4, (0, 1, 2))


def one_feature(**changes):
    """A standard normal distribution of one feature with one factor, or something near it."""
    arguments = {"weights": [1.0], "means": [[0.0]], "loadings": [[[0.6]]], "uniquenesses": [[0.64]]}
    return MixtureOfFactorAnalyzers(**arguments | changes)


def dense_log_joint(model, X):
    """Log joint densities (n, K) from full covariance matrices."""
    columns = []
    for weight, mean, loadings, psi in zip(model.weights, model.means, model.loadings, model.uniquenesses, strict=True):
        density = multivariate_normal(mean, loadings @ loadings.T + np.diag(psi))
        columns.append(np.log(weight) + np.atleast_1d(density.logpdf(X)))
    return np.stack(columns, axis=1)


# ---- densities, responsibilities, scores -----------------------------------------------------------------------------


@shapes
def test_densities_and_responsibilities(K, d, p, n, make_model, rng):
    model = make_model(K, d, p)
    X = 3 * rng.standard_normal((n, d))
    log_joint = dense_log_joint(model, X)
    log_density = logsumexp(log_joint, axis=1)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(model.score_samples(X), log_density, rtol=1e-11)
    np.testing.assert_allclose(proba, np.exp(log_joint - log_density[:, None]), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_array_equal(model.predict(X), log_joint.argmax(axis=1))
    assert model.predict(X).dtype == np.intp
    assert model.score(X) == pytest.approx(log_density.mean(), rel=1e-12)


@shapes
def test_factor_scores_and_transform(K, d, p, n, make_model, rng):
    model = make_model(K, d, p)
    X = 3 * rng.standard_normal((n, d))
    proba, scores, Z = model.predict_proba(X), model.factor_scores(X), model.transform(X)
    assert [s.shape for s in scores] == [(n, q) for q in p]
    assert Z.shape == (n, K + sum(p))
    reconstructed = np.zeros((n, d))
    parts = np.split(Z[:, K:], np.cumsum(p)[:-1], axis=1)
    np.testing.assert_array_equal(Z[:, :K], proba)
    for k, (loadings, mean) in enumerate(zip(model.loadings, model.means, strict=True)):
        # Regression of the factors on the row: Lambda' Sigma^-1 (x - mu).
        sigma = loadings @ loadings.T + np.diag(model.uniquenesses[k])
        expected = (X - mean) @ np.linalg.solve(sigma, loadings)
        np.testing.assert_allclose(scores[k], expected, rtol=1e-10, atol=1e-11)
        np.testing.assert_array_equal(parts[k], scores[k] * proba[:, k : k + 1])
        reconstructed += proba[:, k : k + 1] * (mean + scores[k] @ loadings.T)
    np.testing.assert_allclose(model.inverse_transform(Z), reconstructed, rtol=1e-11, atol=1e-12)


def test_inverse_transform_is_linear_and_checks_its_argument(model, rng):
    a, b = rng.standard_normal((2, 9, 6))
    both = model.inverse_transform(2 * a - b)
    np.testing.assert_allclose(both, 2 * model.inverse_transform(a) - model.inverse_transform(b), atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(np.eye(6)[:3]), model.means, rtol=1e-15)
    with pytest.raises(ValueError, match="Z has 5 columns, but the model was made for 6"):
        model.inverse_transform(a[:, :5])
    with pytest.raises(ValueError, match="Z has 1 value that is NaN"):
        model.inverse_transform([[np.nan, 0, 0, 0, 0, 0]])


def test_factors_that_explain_nearly_everything_are_reproduced(rng):
    loadings = rng.standard_normal((6, 2))
    model = MixtureOfFactorAnalyzers([1.0], [np.full(6, 5.0)], [loadings], [np.full(6, 1e-10)])
    X = 5.0 + rng.standard_normal((50, 2)) @ loadings.T
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-8)


# ---- what tables may be ----------------------------------------------------------------------------------------------


def tables(X, folder):
    """The whole-numbered table X in many dtypes and layouts."""
    frozen = X.copy()
    frozen.flags.writeable = False
    mapped = np.memmap(folder / "rows", dtype=np.float32, mode="w+", shape=X.shape)
    mapped[:] = X
    return {
        "list": X.tolist(),
        "float32": X.astype(np.float32),
        "int": X.astype(np.int16),
        "object": X.astype(object),
        "Fortran": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "reversed": X[:, ::-1].copy()[:, ::-1],
        "read-only": frozen,
        "big-endian": X.astype(">f8"),
        "memmap": mapped,
    }


def test_dtypes_and_layouts_do_not_matter(model, rng, tmp_path):
    X = rng.integers(-5, 5, (101, 4)).astype(float)
    for name, table in tables(X, tmp_path).items():
        for method in (model.predict, model.predict_proba, model.score_samples, model.transform):
            np.testing.assert_array_equal(method(table), method(X), err_msg=name)
        assert model.bic(table) == model.bic(X)
        for a, b in zip(model.factor_scores(table), model.factor_scores(X), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
    Z = rng.integers(-5, 5, (101, 6)).astype(float)
    for name, table in tables(Z, tmp_path).items():
        np.testing.assert_array_equal(model.inverse_transform(table), model.inverse_transform(Z), err_msg=name)


@pytest.fixture
def long_table(rng):
    """A float32 table that is read in several chunks."""
    X = rng.standard_normal((_CACHE_VALUES // 4 + 777, 4), dtype=np.float32)
    assert X.size > _CACHE_VALUES
    return X


def test_chunks_are_put_together_in_order(model, long_table):
    some = np.r_[0:50, len(long_table) // 2 : len(long_table) // 2 + 50, len(long_table) - 50 : len(long_table)]
    part = long_table[some]
    for method in (model.predict, model.predict_proba, model.score_samples, model.transform):
        np.testing.assert_allclose(method(long_table)[some], method(part), rtol=1e-12, atol=1e-14)
    for a, b in zip(model.factor_scores(long_table), model.factor_scores(part), strict=True):
        np.testing.assert_allclose(a[some], b, rtol=1e-12, atol=1e-14)
    Z = model.transform(long_table)
    np.testing.assert_allclose(model.inverse_transform(Z)[some], model.inverse_transform(Z[some]), rtol=1e-12)
    assert model.score(long_table) == pytest.approx(model.score_samples(long_table).mean(), rel=1e-12)
    weights = np.linspace(0, 1, len(long_table))
    expected = np.average(model.score_samples(long_table), weights=weights)
    assert model.score(long_table, sample_weight=weights) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([[0.0, np.inf, np.nan, 0.0]], ValueError, "X has 1 value that is infinite, the first in row 0, column 1"),
        ([[0.0, 0.0, 0.0]], ValueError, "X has 3 columns, but the model was made for 4"),
        ([0.0, 0.0, 0.0, 0.0], ValueError, "X must have two dimensions"),
        (np.zeros((0, 4)), ValueError, "at least one row"),
        ([["a", "b", "c", "d"]], TypeError, "X has dtype"),
    ],
)
def test_wrong_tables(X, error, message, model):
    for name in ("predict", "predict_proba", "score_samples", "score", "factor_scores", "transform", "bic", "icl"):
        with pytest.raises(error, match=message):
            getattr(model, name)(X)


# ---- far rows, tiny weights ------------------------------------------------------------------------------------------


def test_rows_of_density_zero_keep_the_mixing_weights(make_model):
    model = make_model(3, 2, (1, 0, 1))
    X = [[1e200, -1e200], [0.0, 0.0]]
    np.testing.assert_array_equal(model.predict_proba(X)[0], model.weights)
    assert model.predict(X)[0] == model.weights.argmax()
    assert model.score_samples(X)[0] == -np.inf
    assert model.bic(X) == model.icl(X) == np.inf
    assert model.score(X, sample_weight=[0, 1]) == model.score(X[1:])


def test_predict_agrees_with_predict_proba_on_ties():
    model = one_feature(weights=[0.25] * 4, means=[[0.0]] * 4, loadings=[[[1.0]]] * 4, uniquenesses=[[1.0]] * 4)
    X = np.linspace(-40, 40, 501)[:, None]
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))


def test_a_component_of_weight_zero_takes_no_part(rng):
    with_empty = one_feature(weights=[0.0, 1.0], means=[[0.0], [1.0]], loadings=[[[1.0]]] * 2, uniquenesses=[[1.0]] * 2)
    alone = one_feature(means=[[1.0]], loadings=[[[1.0]]], uniquenesses=[[1.0]])
    X = rng.standard_normal((20, 1))
    np.testing.assert_allclose(with_empty.score_samples(X), alone.score_samples(X), rtol=1e-14)
    np.testing.assert_array_equal(with_empty.predict_proba(X)[:, 0], 0)
    assert with_empty.sample(1000, rng)[1].min() == 1
    assert np.isfinite(with_empty.icl(X))


# ---- criteria --------------------------------------------------------------------------------------------------------


def test_number_of_parameters(make_model):
    # K - 1 + sum of 2 d + d p - p (p - 1) / 2.
    assert make_model(3, 4, (0, 1, 2)).n_parameters == 2 + 8 + 12 + 15
    assert make_model(1, 1, (0,)).n_parameters == 2


def test_information_criteria(model, rng):
    X = 3 * rng.standard_normal((200, 4))
    log_joint = dense_log_joint(model, X)
    log_likelihood = logsumexp(log_joint, axis=1).sum()
    h = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    entropy = -(h * np.log(h)).sum()
    bic = -2 * log_likelihood + 37 * np.log(200)
    assert model.bic(X) == pytest.approx(bic, rel=1e-12)
    assert model.aic(X) == pytest.approx(-2 * log_likelihood + 2 * 37, rel=1e-12)
    assert model.icl(X) == pytest.approx(bic + 2 * entropy, rel=1e-12)
    assert entropy > 0.01


@pytest.mark.parametrize("name", ["score", "bic", "aic", "icl"])
def test_weights_are_repetitions(name, model, rng):
    X, weights = 3 * rng.standard_normal((60, 4)), rng.integers(0, 4, 60)
    method = getattr(model, name)
    assert method(X, sample_weight=weights) == pytest.approx(method(np.repeat(X, weights, axis=0)), rel=1e-12)
    assert method(X, sample_weight=np.ones(60)) == pytest.approx(method(X), rel=1e-14)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(59,\), but X has 60 rows"):
        method(X, sample_weight=weights[1:])
    with pytest.raises(ValueError, match="sample_weight must be finite and not negative"):
        method(X, sample_weight=-1.0 - weights)
