"""Maximum likelihood from several starts, with uniquenesses tied in all ways."""

import datasets
import numpy as np
import pytest
from fits import NOISES
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import amofa
from amofa._data.standardize import Standardized
from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.profile_likelihood import Problem, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa.baselines import mfa
from amofa.baselines._partitions import draw_seeds, k_means, nearest_centers, partition_moments
from amofa.baselines.mfa import _start
from amofa.criterion import Likelihood


@pytest.fixture
def two(rng):
    """Two factor analysers of one factor each, not far from each other, in four columns."""
    return datasets.factor_analysers(rng, 4, [1, 1], [150, 90], distance=3.0)


# ---- partitions ------------------------------------------------------------------------------------------------------


def test_seeds_are_different_rows(rng):
    X = np.repeat(rng.standard_normal((7, 3)), 5, axis=0)
    samples = Standardized.of(X, None).samples
    rows = {tuple(x) for chunk, _ in samples.chunks() for x in chunk.T}
    seeds = draw_seeds(samples, 20, rng)
    assert len(seeds) == 7
    assert {tuple(seed) for seed in seeds} == rows


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_parts_are_those_of_numpy(rng, weighted):
    X, w = rng.standard_normal((60, 3)), rng.uniform(0.5, 2.0, 60)
    samples = Standardized.of(X, w if weighted else None).samples
    w = w if weighted else np.ones(60)
    x = np.concatenate([chunk for chunk, _ in samples.chunks()], axis=1).T
    centers = x[:4] + 0.01
    labels = nearest_centers(samples, centers)
    assert np.array_equal(labels, ((x[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1))
    counts, means, variances = partition_moments(samples, labels, centers)
    for k in range(4):
        mine = labels == k
        mean = np.average(x[mine], axis=0, weights=w[mine])
        assert counts[k] == pytest.approx(w[mine].sum())
        np.testing.assert_allclose(means[k], mean, rtol=1e-12)
        variance = np.average((x[mine] - mean) ** 2, axis=0, weights=w[mine])
        np.testing.assert_allclose(variances[k], variance, rtol=1e-10, atol=1e-14)


def test_a_part_without_rows_keeps_its_center(rng):
    samples = Standardized.of(rng.standard_normal((10, 2)), None).samples
    centers = np.array([[0.0, 0.0], [99.0, 99.0]])
    counts, means, variances = partition_moments(samples, np.zeros(10, dtype=np.intp), centers)
    assert counts.tolist() == [10.0, 0.0]
    assert means[1].tolist() == [99.0, 99.0]
    assert variances[1].tolist() == [0.0, 0.0]


def test_k_means_ends_where_each_center_is_the_mean_of_its_rows(rng):
    samples = Standardized.of(rng.standard_normal((200, 2)), None).samples
    centers = k_means(samples, draw_seeds(samples, 5, rng), 1000)
    _, means, _ = partition_moments(samples, nearest_centers(samples, centers), centers)
    np.testing.assert_allclose(means, centers, atol=1e-12)


# ---- EM --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("wide", [False, True])
def test_the_likelihood_never_falls(rng, noise, wide):
    n, d = (15, 20) if wide else (80, 4)
    samples = Standardized.of(rng.standard_normal((n, d)) @ rng.standard_normal((d, d)), None).samples
    prior = Prior(np.full(d, 1e-3), np.ones(d), 0.0)
    pricing = Likelihood()
    problem = Problem(prior, pricing, noise, FactorChoice(pricing, prior, noise, 2), 1e-9, 1, annihilates=False)
    solver = None if wide else Solver(d)
    parameters = _start(samples, (2, 2, 2), noise, prior.floor, rng, with_k_means=False)
    likelihoods = []
    for _ in range(40):
        # One M-step, and the likelihood after it.
        run = profile_em(samples, parameters, problem, solver, 1, choose_at_end=False)
        parameters = run.parameters
        likelihoods.append(run.log_likelihood)
    rises = np.diff(likelihoods)
    assert (rises > -1e-7 * abs(likelihoods[-1])).all()
    assert likelihoods[-1] > likelihoods[0] + 1.0


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("weighted", [False, True])
def test_what_the_model_reports(rng, two, noise, weighted):
    X, _ = two
    w = rng.uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    model = mfa(X, 2, 1, noise=noise, n_starts=3, sample_weight=w if weighted else None)
    dense = [multivariate_normal(model.means[k], model.covariance(k)).logpdf(X) for k in range(2)]
    expected = logsumexp(np.array(dense) + np.log(model.weights)[:, None], axis=0)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-10)
    assert model.log_likelihood == pytest.approx(expected @ w, rel=1e-10)
    assert model.history[-1].log_likelihood == pytest.approx(model.log_likelihood, rel=1e-10)
    assert [step.action for step in model.history] == ["start"] * 3 + ["refine"]
    assert model.log_likelihood >= max(step.log_likelihood for step in model.history) - 1e-9 * abs(model.log_likelihood)
    assert model.criterion == "likelihood"
    assert model.converged
    assert model.n_parameters == 1 + 8 + 8 + {"component": 8, "shared": 4, "isotropic": 2}[noise]
    if noise == "shared":
        np.testing.assert_allclose(model.uniquenesses[0], model.uniquenesses[1], rtol=1e-12)
    if noise == "isotropic":
        np.testing.assert_allclose(model.uniquenesses, model.uniquenesses[:, :1] * np.ones(4), rtol=1e-12)


@pytest.mark.parametrize("noise", NOISES)
def test_no_small_change_is_better(rng, two, noise):
    X, _ = two
    model = mfa(X, 2, 1, noise=noise, n_starts=2, tol=1e-8)
    for _ in range(10):
        factor = np.exp(1e-2 * rng.standard_normal(4))
        if noise == "isotropic":
            factor[:] = factor[0]
        other = amofa.MixtureOfFactorAnalyzers(
            model.weights,
            model.means + 1e-2 * rng.standard_normal((2, 4)),
            [loadings + 1e-2 * rng.standard_normal((4, 1)) for loadings in model.loadings],
            model.uniquenesses * factor,
        )
        assert other.score(X) < model.score(X)


def test_one_component_of_isotropic_noise_is_probabilistic_pca(two):
    """Tipping & Bishop's closed form."""
    X, _ = two
    model = mfa(X, 1, 2, noise="isotropic", n_starts=1)
    values, vectors = np.linalg.eigh(np.cov(X.T, ddof=0))
    variance = values[:2].mean()
    loadings = vectors[:, 2:] * np.sqrt(values[2:] - variance)
    np.testing.assert_allclose(model.covariance(0), loadings @ loadings.T + variance * np.eye(4), rtol=1e-9)


def test_one_component_without_factors_is_a_diagonal_gaussian(two):
    X, _ = two
    model = mfa(X, 1, 0)
    np.testing.assert_allclose(model.covariance(0), np.diag(X.var(axis=0)), rtol=1e-9)
    assert model.n_parameters == 8


def test_more_starts_are_no_worse(rng):
    X, _ = datasets.example_2(rng)
    one, many = mfa(X, 4, 1, n_starts=1), mfa(X, 4, 1, n_starts=8)
    assert many.history[0] == one.history[0]
    assert many.log_likelihood >= one.log_likelihood - 1e-6
    assert sum(step.accepted for step in many.history) >= 2


def test_numbers_of_factors_of_each_component_keep_their_order(two):
    model = mfa(two[0], 2, [2, 0])
    assert model.n_factors.tolist() == [2, 0]
    assert mfa(two[0], 2, [0, 2]).n_factors.tolist() == [0, 2]


def test_the_noise_floor(two):
    X = np.c_[two[0], two[0][:, 0] + two[0][:, 1]]
    share = mfa(X, 2, 3, noise_floor=0.05)
    assert (share.uniquenesses >= 0.05 * X.var(axis=0) * (1 - 1e-9)).all()
    assert share.at_floor.any()
    given = mfa(X, 2, 3, noise_floor=[0.5] * 5, noise="isotropic")
    assert (given.uniquenesses >= 0.5 * (1 - 1e-9)).all()


@pytest.mark.parametrize("noise", NOISES)
def test_rows_that_are_all_the_same(noise):
    with pytest.warns(amofa.AmofaWarning) as record:
        model = mfa(np.ones((5, 2)), 2, 1, noise=noise)
    assert ["2 components were asked for" in str(warning.message) for warning in record] == [False, True]
    assert model.n_factors.tolist() == [1]
    assert np.isfinite(model.score_samples(np.ones((5, 2)))).all()


def test_fewer_different_rows_than_components():
    X = np.repeat([[0.0, 1.0], [4.0, 2.0], [9.0, 7.0]], 4, axis=0)
    with pytest.warns(amofa.AmofaWarning, match="5 components were asked for, but the search found only 3"):
        model = mfa(X, 5, 1)
    assert sorted(np.bincount(model.predict(X)).tolist()) == [4, 4, 4]


def test_one_row_and_one_column():
    with pytest.warns(amofa.AmofaWarning, match="constant"):
        assert mfa([[3.0]], 1, 1).means.tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
        ({"n_components": 1.5}, TypeError, "n_components must be a whole number"),
        ({"n_factors": 3}, ValueError, "n_factors must be from 0 to 2, got 3"),
        ({"n_factors": [1]}, ValueError, "n_factors has 1 entries for 2 components; give one for each"),
        ({"n_factors": "x"}, TypeError, "n_factors must be a whole number or a sequence"),
        ({"n_factors": None}, TypeError, "n_factors must be a whole number or a sequence"),
        ({"noise": "auto"}, ValueError, "noise must be one of 'component', 'shared', 'isotropic'"),
        ({"n_starts": 0}, ValueError, "n_starts must be at least 1"),
        ({"noise_floor": [1.0]}, ValueError, "noise_floor has shape"),
    ],
)
def test_what_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        mfa([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0]], **{"n_components": 2, "n_factors": 1} | arguments)
