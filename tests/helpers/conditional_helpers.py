"""Mixtures and tables with missing cells, and their conditional moments by dense algebra."""

import numpy as np
import pytest
from reference import covariance
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from amofa.mixture import MixtureOfFactorAnalyzers

# K, d, factors of each component.
SHAPES = [(1, 2, (1,)), (1, 5, (0,)), (3, 4, (0, 1, 2)), (2, 3, (3, 5)), (4, 7, (2, 2, 0, 4)), (2, 12, (6, 1))]
shapes = pytest.mark.parametrize(("K", "d", "p"), SHAPES)
NAN = np.nan
METHODS = ("predict", "predict_proba", "score_samples", "transform")


def with_gaps(rng, X, share=0.4):
    """X with some cells missing, its first row whole and its last one empty."""
    X = X.copy()
    X[rng.random(X.shape) < share] = NAN
    X[0], X[-1] = rng.standard_normal(X.shape[1]), NAN
    return X


def model_of(parameters, names=None):
    return MixtureOfFactorAnalyzers._from_fit(parameters, None, names)


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
