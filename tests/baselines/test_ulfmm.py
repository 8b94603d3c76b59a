"""Component-wise EM with a message length, against a slow dense form and its own promises."""

import datasets
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from amofa._data.row_chunks import Samples
from amofa._data.standardize import Standardized
from amofa.baselines import ulfmm
from amofa.baselines._componentwise import ComponentwiseEM
from amofa.metrics import normalized_information_distance

COVARIANCES = ("full", "diag", "spherical")
FREE = {"full": lambda d: d * (d + 1) // 2, "diag": lambda d: d, "spherical": lambda d: 1}


@pytest.fixture
def three(rng):
    """Three groups that are easily told apart, in two columns."""
    return datasets.gaussians(rng, [120, 90, 60], [(0, 0), (9, 0), (0, 9)], [np.eye(2)] * 3)


def dense_log_joint(X, weights, means, covariances):
    matrices = [c if c.ndim == 2 else np.diag(c) for c in covariances]
    return np.array(
        [np.log(w) + multivariate_normal(m, c).logpdf(X) for w, m, c in zip(weights, means, matrices, strict=True)]
    )


def dense_sweep(X, w, weights, means, covariances, covariance, ridge):
    """One sweep of Figueiredo & Jain's algorithm, responsibilities made anew for every component."""
    d = X.shape[1]
    weights, means, covariances = list(weights), list(means), list(covariances)
    k = 0
    while k < len(weights):
        joint = dense_log_joint(X, weights, means, covariances)
        h = np.exp(joint - logsumexp(joint, axis=0))[k] * w
        if len(weights) > 1:
            weights[k] = max(0.0, h.sum() - (d + FREE[covariance](d)) / 2) / w.sum()
            weights = [v / sum(weights) for v in weights]
            if weights[k] == 0.0:
                for values in (weights, means, covariances):
                    del values[k]
                continue
        means[k] = h @ X / h.sum()
        scatter = (X - means[k]).T @ np.diag(h) @ (X - means[k]) / h.sum()
        if covariance == "full":
            covariances[k] = scatter + ridge * np.eye(d)
        elif covariance == "diag":
            covariances[k] = np.diag(scatter) + ridge
        else:
            covariances[k] = np.full(d, np.trace(scatter) / d + ridge)
        k += 1
    return np.array(weights), np.array(means), np.array(covariances)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("weighted", [False, True])
def test_sweeps_are_those_of_the_dense_form(rng, three, covariance, weighted):
    X = three[0][::6]
    w = rng.uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    samples = Standardized.of(X, w if weighted else None).samples
    x = np.concatenate([chunk for chunk, _ in samples.chunks()], axis=1).T
    mixture = ComponentwiseEM(samples, x[rng.permutation(len(x))[:12]], covariance, 1e-4)
    values = mixture.weights.copy(), mixture.means.copy(), mixture.covariances.copy()
    numbers = [12]
    for _ in range(15):
        values = dense_sweep(x, w, *values, covariance, 1e-4)
        mixture.sweep()
        numbers.append(len(values[0]))
        np.testing.assert_allclose(mixture.weights, values[0], rtol=1e-9)
        np.testing.assert_allclose(mixture.means, values[1], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(mixture.covariances, values[2], rtol=1e-8, atol=1e-10)
        assert mixture.log_likelihood == pytest.approx(logsumexp(dense_log_joint(x, *values), axis=0) @ w, rel=1e-10)
    assert numbers[-1] < 12


def test_densities_that_rise_beyond_all_bounds_in_a_sweep(rng):
    """A component that comes to rows far from all makes their densities e^900 times as large, and more."""
    x = np.r_[rng.standard_normal((60, 1)), 14.0 + 0.01 * rng.standard_normal((60, 1))]
    samples, ones = Samples(x), np.ones(len(x))
    mixture = ComponentwiseEM(samples, np.array([[0.0], [0.5]]), "diag", 1e-4)
    values = mixture.weights.copy(), mixture.means.copy(), mixture.covariances.copy()
    for _ in range(5):
        values = dense_sweep(x, ones, *values, "diag", 1e-4)
        mixture.sweep()
        assert mixture.log_likelihood == pytest.approx(logsumexp(dense_log_joint(x, *values), axis=0).sum(), rel=1e-10)


def test_rows_far_away_leave_no_density_at_zero(rng):
    X = np.r_[rng.standard_normal((50, 2)), 1e3 + rng.standard_normal((50, 2))]
    samples = Standardized.of(X, None).samples
    mixture = ComponentwiseEM(samples, np.array([[-1.0, -1.0], [-0.9, -1.1]]), "full", 1e-13)
    for _ in range(30):
        mixture.sweep()
        assert np.isfinite(mixture.log_likelihood)
        assert (mixture.mixed > 0).all()


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_groups_are_found(three, covariance):
    X, labels = three
    model = ulfmm(X, covariance=covariance, max_components=10)
    assert model.n_components == 3
    assert normalized_information_distance(labels, model.predict(X)) < 0.05
    assert model.n_parameters == 2 + 3 * (2 + FREE[covariance](2))
    assert model.n_factors.tolist() == [1 if covariance == "full" else 0] * 3


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("weighted", [False, True])
def test_what_the_model_reports(rng, three, covariance, weighted):
    X, _ = three
    w = rng.uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    model = ulfmm(X, covariance=covariance, max_components=6, sample_weight=w if weighted else None)
    matrices = [model.covariance(k) for k in range(model.n_components)]
    joint = dense_log_joint(X, model.weights, model.means, matrices)
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=0), rtol=1e-10)
    assert model.log_likelihood == pytest.approx(logsumexp(joint, axis=0) @ w, rel=1e-10)
    C, K, N = 2 + FREE[covariance](2), model.n_components, w.sum()
    length = C / 2 * np.log(model.weights).sum() + K * (C + 1) / 2 * np.log(N) - model.log_likelihood
    assert model.message_length == pytest.approx(length, rel=1e-10)
    best = min(model.history, key=lambda step: step.cost)
    assert best.cost == pytest.approx(model.message_length, rel=1e-8)
    assert best.n_components == K
    numbers = [step.n_components for step in model.history]
    assert numbers[-1] == 1
    assert numbers == sorted(numbers, reverse=True)
    assert [step.action for step in model.history] == ["start"] + ["remove"] * (len(numbers) - 1)
    assert (np.diff(model.weights) <= 0).all()
    if covariance == "spherical":
        for matrix in matrices:
            np.testing.assert_allclose(matrix, matrix[0, 0] * np.eye(2), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_one_component_is_the_gaussian_of_the_rows(three, covariance):
    X, _ = three
    model = ulfmm(X, covariance=covariance, max_components=1, ridge=1e-12)
    full = np.cov(X.T, ddof=0)
    variances = np.full(2, np.trace(full) / 2) if covariance == "spherical" else np.diag(full)
    expected = full if covariance == "full" else np.diag(variances)
    np.testing.assert_allclose(model.covariance(0), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.means[0], X.mean(axis=0))


def test_fewer_rows_than_components():
    model = ulfmm([[0.0], [1.0], [5.0]], max_components=20)
    assert model.n_components == 1
    assert model.history[0].n_components <= 3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_components": 0}, ValueError, "max_components must be at least 1, got 0"),
        ({"max_components": 2.0}, TypeError, "max_components must be a whole number"),
        ({"covariance": "tied"}, ValueError, "covariance must be one of 'full', 'diag', 'spherical'"),
        ({"ridge": 0.0}, ValueError, "ridge must be positive"),
    ],
)
def test_what_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ulfmm([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [5.0, 5.0]], **arguments)


def test_a_singular_covariance_asks_for_a_larger_ridge(rng):
    x = rng.standard_normal(40)
    with pytest.raises(ValueError, match="singular with ridge=1e-300; raise ridge"):
        ulfmm(np.c_[x, x], ridge=1e-300)
