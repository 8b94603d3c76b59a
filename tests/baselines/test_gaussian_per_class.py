"""Gaussians as factor analysers, and one Gaussian per class."""

import datasets
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import amofa
from amofa.baselines import gaussian_per_class
from amofa.baselines._gaussian import full_component, mixture_parameters

COVARIANCES = ("full", "diag", "spherical")


@pytest.fixture
def classes(rng):
    """Rows and labels of three classes, overlapping, in four columns."""
    X, labels = datasets.factor_analysers(rng, 4, [2, 1, 0], [60, 50, 40], distance=2.0)
    return X, np.array(["b", "a", "c"])[labels]


def dense_covariance(X, w, covariance):
    """Of weighted rows, by maximum likelihood."""
    full = np.cov(X.T, aweights=w, ddof=0).reshape(X.shape[1], -1)
    if covariance == "full":
        return full
    variances = np.diag(full) if covariance == "diag" else np.full(len(full), np.trace(full) / len(full))
    return np.diag(variances)


# ---- factor analysers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5, 30])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_any_covariance_is_a_factor_analyser(rng, d, scale):
    root = rng.standard_normal((d, d)) * np.geomspace(1.0, scale, d)[:, None]
    covariance = root @ root.T
    component = full_component(0.5, np.zeros(d), covariance)
    assert component.loadings.shape == (d - 1, d)
    units = np.sqrt(np.diag(covariance))
    modelled = component.loadings.T @ component.loadings + np.diag(component.uniquenesses)
    np.testing.assert_allclose(modelled / units / units[:, None], covariance / units / units[:, None], atol=1e-13)


def test_a_singular_covariance_is_refused():
    with pytest.raises(FloatingPointError, match="numerically singular"):
        full_component(1.0, np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_free_parameters_by_hand():
    assert mixture_parameters(3, 2, "full") == 1 + 2 * (3 + 6)
    assert mixture_parameters(3, 2, "diag") == 1 + 2 * (3 + 3)
    assert mixture_parameters(3, 2, "spherical") == 1 + 2 * (3 + 1)


# ---- one per class ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("weighted", [False, True])
def test_log_densities_are_those_of_scipy(rng, classes, covariance, weighted):
    X, y = classes
    w = rng.uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    result = gaussian_per_class(X, y, covariance=covariance, sample_weight=w if weighted else None)
    center = np.average(X, axis=0, weights=w)
    ridge = 1e-6 * np.average((X - center) ** 2, axis=0, weights=w).mean()
    assert result.classes.tolist() == ["a", "b", "c"]
    expected = []
    for c in result.classes:
        mine = y == c
        matrix = dense_covariance(X[mine], w[mine], covariance) + ridge * np.eye(4)
        expected.append(multivariate_normal(np.average(X[mine], axis=0, weights=w[mine]), matrix).logpdf(X))
    expected = np.array(expected).T
    np.testing.assert_allclose(result.log_densities(X), expected, rtol=1e-10, atol=1e-10)
    assert np.array_equal(result.predict(X), result.classes[expected.argmax(axis=1)])
    densities = np.exp(expected)
    np.testing.assert_allclose(result.predict_proba(X), densities / densities.sum(axis=1, keepdims=True), rtol=1e-9)
    for model, mine in zip(result.models, (y == result.classes[:, None]), strict=True):
        assert model.log_likelihood == pytest.approx(model.score_samples(X[mine]) @ w[mine], rel=1e-12)
        assert model.n_samples == pytest.approx(w[mine].sum())
        assert [step.log_likelihood for step in model.history] == [model.log_likelihood]


@pytest.mark.parametrize(("covariance", "count"), [("full", 4 + 10), ("diag", 4 + 4), ("spherical", 4 + 1)])
def test_free_parameters_of_classes(classes, covariance, count):
    X, y = classes
    result = gaussian_per_class(X, y, covariance=covariance)
    assert [model.n_parameters for model in result.models] == [count] * 3
    assert result.n_parameters == 3 * count
    mine = X[y == "a"]
    model = result.models[0]
    assert model.bic(mine) == pytest.approx(-2 * model.log_likelihood + count * np.log(len(mine)))
    assert model.message_length == pytest.approx(count / 2 * np.log(50) + np.log(50) / 2 - model.log_likelihood)


def test_classes_of_one_row_and_of_equal_rows_have_the_ridge(rng):
    X = np.array([[0.0, 0.0], [4.0, 8.0], [4.0, 8.0], [1.0, 2.0], [3.0, 1.0], [0.0, 5.0]])
    result = gaussian_per_class(X, [0, 1, 1, 2, 2, 2], ridge=1e-2)
    ridge = 1e-2 * X.var(axis=0).mean()
    for model in result.models[:2]:
        np.testing.assert_allclose(model.covariance(0), ridge * np.eye(2), rtol=1e-12, atol=1e-15)
    assert result.predict(X).tolist() == [0, 1, 1, 2, 2, 2]


def test_far_from_the_origin(classes):
    X, y = classes
    here, there = gaussian_per_class(X, y), gaussian_per_class(X + 1e8, y)
    np.testing.assert_allclose(there.log_densities(X + 1e8), here.log_densities(X), rtol=1e-5)


def test_a_constant_column_is_named(classes):
    X, y = classes
    with pytest.warns(amofa.AmofaWarning, match="1 of 5 columns of X are constant") as record:
        result = gaussian_per_class(np.c_[X, np.ones(len(X))], y)
    assert record[0].filename == __file__
    assert (result.predict(np.c_[X, np.ones(len(X))]) == y).mean() > 0.5


@pytest.mark.filterwarnings("ignore:.* columns of X are constant:amofa.AmofaWarning")
def test_rows_that_are_all_the_same():
    result = gaussian_per_class(np.ones((4, 2)), [0, 0, 1, 1])
    assert np.isfinite(result.log_densities(np.ones((4, 2)))).all()
    assert result.predict_proba(np.ones((4, 2))).tolist() == [[0.5, 0.5]] * 4


def test_rows_out_of_reach_of_all_classes_have_equal_probabilities(classes):
    result = gaussian_per_class(*classes)
    assert result.predict_proba(np.full((1, 4), 1e200)).tolist() == [[1 / 3] * 3]


def test_rows_of_weight_0_are_absent(rng, classes):
    X, y = classes
    w = np.where(y == "c", 0.0, 1.0)
    result = gaussian_per_class(X, y, sample_weight=w)
    assert result.classes.tolist() == ["a", "b"]
    fewer = gaussian_per_class(X[y != "c"], y[y != "c"], sample_weight=w[y != "c"])
    assert np.array_equal(result.log_densities(X), fewer.log_densities(X))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"y": [0, 1]}, ValueError, r"y has shape \(2,\), but X has 4 rows; pass one label per row"),
        ({"y": [[0], [1], [0], [1]]}, ValueError, r"y has shape \(4, 1\)"),
        ({"y": [0.0, np.nan, 1.0, 1.0]}, ValueError, "y is NaN in row 1"),
        ({"y": np.array([0, "a", 1, None], dtype=object)}, TypeError, "y holds labels that cannot be sorted"),
        ({"covariance": "tied"}, ValueError, "covariance must be one of 'full', 'diag', 'spherical', got 'tied'"),
        ({"ridge": -1.0}, ValueError, "ridge must not be negative, got -1.0"),
        ({"ridge": "1"}, TypeError, "ridge must be a number"),
        ({"ridge": 0.0}, ValueError, "the covariance of class 0 is singular; raise ridge"),
        ({"sample_weight": [1.0]}, ValueError, "sample_weight has shape"),
        ({"X": [[np.nan]] * 4}, ValueError, "X has 4 values that are NaN"),
    ],
)
def test_what_is_refused(arguments, error, message):
    given = {"X": [[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [5.0, 5.0]], "y": [0, 0, 1, 1]} | arguments
    with pytest.raises(error, match=message):
        gaussian_per_class(given.pop("X"), given.pop("y"), **given)


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_variances_of_0_are_refused_without_a_ridge(covariance):
    with pytest.raises(ValueError, match="the covariance of class 1 is singular; raise ridge"):
        gaussian_per_class(
            [[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [2.0, 0.0]], [0, 0, 1, 1], covariance=covariance, ridge=0
        )
