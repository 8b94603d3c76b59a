"""Mixtures of Gaussians that learn from one row at a time: the published update, removal, forgetting."""

import numpy as np
import pytest
from datasets import example_2, gaussians
from scipy.stats import multivariate_normal

import amofa
from amofa.baselines.recursive_ulfmm import _RecursiveMixture, recursive_ulfmm


def test_a_row_moves_components_by_the_published_equations(rng):
    mixture = _RecursiveMixture(rng.normal(size=(3, 2)), 0.01, 1e-4)
    weights, means, covariances = mixture.weights.copy(), mixture.means.copy(), mixture.covariances.copy()
    x, a, C = np.array([0.3, -0.2]), 0.01, 5
    h = [
        w * multivariate_normal(m, S + 1e-4 * np.eye(2)).pdf(x)
        for w, m, S in zip(weights, means, covariances, strict=True)
    ]
    h = np.array(h) / np.sum(h)
    mixture.learn(x)
    c = a * C / 2
    np.testing.assert_allclose(mixture.weights, weights + a * (h / (1 - 3 * c) - weights) - a * c / (1 - 3 * c))
    assert mixture.weights.sum() == pytest.approx(1)
    for k in range(3):
        moved = a * h[k] / weights[k]
        np.testing.assert_allclose(mixture.means[k], means[k] + moved * (x - means[k]))
        square = np.outer(x - means[k], x - means[k])
        np.testing.assert_allclose(mixture.covariances[k], covariances[k] + moved * (square - covariances[k]))


def test_groups_are_found_from_above(rng):
    X = rng.permutation(np.concatenate([example_2(rng)[0] for _ in range(10)]))
    model = recursive_ulfmm(X)
    assert model.n_components == 4
    assert model.score(X) == pytest.approx(amofa.fit(X).score(X), abs=0.05)
    assert [step.n_components for step in model.history] == [4]
    assert model.n_parameters == 23


def test_old_rows_are_forgotten(rng):
    X = [
        rng.permutation(gaussians(rng, [900, 900], means, [np.eye(2)] * 2)[0])
        for means in ([(0, 0), (8, 0)], [(0, 0), (8, 8)])
    ]
    model = recursive_ulfmm(np.concatenate(X), max_components=10)
    held_out = X[1][-300:]
    assert model.score(held_out) > recursive_ulfmm(X[0], max_components=10).score(held_out) + 2


def test_rates_that_the_prior_outweighs_are_refused(rng):
    X = rng.normal(size=(50, 5))
    with pytest.raises(ValueError, match=r"rate=0.01 is too large for 30 components of 20 .* give less than 0.00333"):
        recursive_ulfmm(X, rate=0.01)
    with pytest.raises(ValueError, match=r"give less than 0.05"):
        recursive_ulfmm(X, rate=0.06, max_components=1)
