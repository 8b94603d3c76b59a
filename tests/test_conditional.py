"""Missing cells, conditional mixtures, imputation: against dense algebra with full covariance matrices."""

from __future__ import annotations

import numpy as np
import pytest
from reference import covariance, random_mixture, random_rows
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from amofa import conditional
from amofa.conditional import conditional_moments, patterns
from amofa.mixture import MixtureOfFactorAnalyzers

# K, d, factors of each component.
SHAPES = [
    (1, 2, (1,)),
    (1, 5, (0,)),
    (3, 4, (0, 1, 2)),
    (2, 3, (3, 5)),
    (4, 7, (2, 2, 0, 4)),
    (2, 12, (6, 1)),
]
shapes = pytest.mark.parametrize(("K", "d", "p"), SHAPES)
NAN = np.nan


def with_gaps(rng, X, share=0.4):
    """X with some cells missing, its first row whole and its last one empty."""
    X = X.copy()
    X[rng.random(X.shape) < share] = NAN
    X[0], X[-1] = rng.standard_normal(X.shape[1]), NAN
    return X


# ---- dense forms -----------------------------------------------------------------------------------------------------


def dense_log_joint(parameters, row):
    """Log joint density (K,) of what is observed of a row."""
    o = ~np.isnan(row)
    densities = np.log(parameters.weights)
    if o.any():
        densities = densities + [
            multivariate_normal(c.mean[o], covariance(c)[np.ix_(o, o)]).logpdf(row[o]) for c in parameters.components()
        ]
    return densities


def dense_conditional(parameters, row):
    """Responsibilities (K,), means (K, q) and covariances (K, q, q) of the missing cells of a row."""
    o = ~np.isnan(row)
    log_joint = dense_log_joint(parameters, row)
    means, covariances = [], []
    for c in parameters.components():
        sigma = covariance(c)
        slope = np.linalg.solve(sigma[np.ix_(o, o)], sigma[np.ix_(o, ~o)]).T
        means.append(c.mean[~o] + slope @ (row[o] - c.mean[o]))
        covariances.append(sigma[np.ix_(~o, ~o)] - slope @ sigma[np.ix_(o, ~o)])
    return np.exp(log_joint - logsumexp(log_joint)), np.array(means), np.array(covariances)


def dense_moments(parameters, row):
    """Mean (q,) and covariance (q, q) of the missing cells of a row."""
    r, means, covariances = dense_conditional(parameters, row)
    mean = r @ means
    between = np.einsum("k,ki,kj->ij", r, means - mean, means - mean)
    return mean, np.einsum("k,kij->ij", r, covariances) + between


# ---- patterns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7, 1 << 20])
def test_every_row_comes_once_with_its_observed_columns(batch, rng, monkeypatch):
    monkeypatch.setattr(conditional, "_BATCH_CELLS", batch)
    X = with_gaps(rng, rng.standard_normal((200, 10)), share=0.15)
    rows = np.flatnonzero(rng.random(200) < 0.7)
    for selected, table in ((None, X), (rows, X[rows])):
        seen = np.concatenate([positions for positions, _ in patterns(X, selected)])
        assert sorted(seen) == list(range(len(table)))
        for positions, observed in patterns(X, selected):
            expected = np.zeros((len(positions), 10), dtype=bool)
            expected[:, observed] = True
            np.testing.assert_array_equal(~np.isnan(table[positions]), expected)
            assert (np.diff(positions) > 0).all()


def test_equal_patterns_come_together(rng):
    X = rng.standard_normal((60, 11))
    X[20:40, 3] = NAN
    X[::2, 9] = NAN
    assert [(len(p), *o) for p, o in patterns(X)] == [
        (20, *range(11)),
        (10, *(j for j in range(11) if j != 3)),
        (20, *(j for j in range(11) if j != 9)),
        (10, *(j for j in range(11) if j not in (3, 9))),
    ]


# ---- conditional moments ---------------------------------------------------------------------------------------------


@shapes
def test_conditional_moments(K, d, p, rng):
    parameters = random_mixture(rng, K, d, p)
    order = rng.permutation(d)
    known, wanted = order[: d // 2], order[d // 2 :]
    values = with_gaps(rng, random_rows(rng, parameters, 40)[:, known], share=0.2)
    means, variances = conditional_moments(parameters, known, wanted, values)
    assert means.shape == variances.shape == (40, len(wanted))
    for value, mean, variance in zip(values, means, variances, strict=True):
        row = np.full(d, NAN)
        row[known] = value
        missing = np.flatnonzero(np.isnan(row))
        places = np.searchsorted(missing, wanted)
        expected_mean, expected_covariance = dense_moments(parameters, row)
        np.testing.assert_allclose(mean, expected_mean[places], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(variance, np.diag(expected_covariance)[places], rtol=1e-10)


def test_conditional_moments_without_known_columns(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    none, everything = np.zeros(0, dtype=np.intp), np.arange(3)
    means, variances = conditional_moments(parameters, none, everything, np.zeros((2, 0)))
    mean, full = dense_moments(parameters, np.full(3, NAN))
    np.testing.assert_allclose(means, [mean, mean], rtol=1e-12)
    np.testing.assert_allclose(variances, [np.diag(full)] * 2, rtol=1e-12)


def test_conditional_moments_with_nothing_wanted(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    means, variances = conditional_moments(parameters, np.arange(3), np.zeros(0, dtype=np.intp), np.zeros((4, 3)))
    assert means.shape == variances.shape == (4, 0)


def test_a_column_cannot_be_known_and_wanted(rng):
    with pytest.raises(ValueError, match="wanted has columns that are known: 0, 2; leave them out"):
        conditional_moments(random_mixture(rng, 2, 4, 1), np.array([2, 0]), np.array([0, 1, 2]), np.zeros((1, 2)))


def test_variances_do_not_suffer_from_an_offset(rng):
    parameters = random_mixture(rng, 3, 4, 2)
    moved = parameters.copy()
    moved.means[:] += 1e8
    known, wanted = np.array([0, 1]), np.array([2, 3])
    values = np.round(random_rows(rng, parameters, 30)[:, known] * 64) / 64
    moved.means[:] = np.round(moved.means * 64) / 64
    parameters.means[:] = moved.means - 1e8
    expected = conditional_moments(parameters, known, wanted, values)[1]
    np.testing.assert_allclose(conditional_moments(moved, known, wanted, values + 1e8)[1], expected, rtol=1e-6)


@pytest.mark.parametrize("distance", [1e6, 1e12, 1e100])
def test_far_rows_have_the_limit_of_the_conditional_mean(distance, rng):
    parameters = random_mixture(rng, 3, 4, (1, 0, 2))
    known, wanted = np.array([0, 1]), np.array([2, 3])
    direction = rng.standard_normal((20, 2))
    means, variances = conditional_moments(parameters, known, wanted, distance * direction)
    assert np.isfinite(means).all()
    assert np.isfinite(variances).all()
    assert (variances > 0).all()
    for value, mean in zip(direction, means, strict=True):
        # Far away the widest component in this direction is left alone, and its mean is linear.
        narrowness = [value @ np.linalg.solve(covariance(c)[:2, :2], value) for c in parameters.components()]
        sigma = covariance(parameters.component(int(np.argmin(narrowness))))
        slope = np.linalg.solve(sigma[:2, :2], sigma[:2, 2:]).T
        np.testing.assert_allclose(mean / distance, slope @ value, rtol=1e-4, atol=1e-4)


def test_factors_that_explain_nearly_everything(rng):
    loadings = rng.standard_normal((6, 2))
    model = MixtureOfFactorAnalyzers([1.0], [np.full(6, 5.0)], [loadings], [np.full(6, 1e-10)])
    X = 5.0 + rng.standard_normal((50, 2)) @ loadings.T
    values, variances = conditional_moments(model._parameters, np.arange(3), np.arange(3, 6), X[:, :3])
    np.testing.assert_allclose(values, X[:, 3:], atol=1e-8)
    # The uniquenesses, and those of three columns about two factors: of the order of 1e-10, to nearly all digits.
    slope = loadings[3:] @ np.linalg.pinv(loadings[:3])
    np.testing.assert_allclose(variances, [1e-10 * (1 + (slope**2).sum(axis=1))] * 50, rtol=1e-8)
