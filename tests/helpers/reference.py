"""Slow, dense, obvious forms of what the kernels compute, written from the paper: rows of x are samples, (n, d).

A mixture is a sequence of `amofa._parameters.Component`: weight, mean (d,), loadings (p, d), uniquenesses (d,).
"""

import math
from fractions import Fraction

import numpy as np
from scipy import special

from amofa._parameters import Component, Parameters

# ---- random problems -------------------------------------------------------------------------------------------------

# K, d, factors of each component, n. A block is at most 256 rows; products of up to 16 multiplications avoid BLAS.
SHAPES = [
    (1, 1, [0], 1),
    (1, 1, [1], 3),
    (1, 1, [3], 300),
    (2, 3, [0, 0], 257),
    (3, 4, [4, 5, 7], 511),
    (3, 4, [0, 1, 2], 300),
    (3, 16, [1, 0, 2], 512),
    (20, 2, [0, 1, 2, 1] * 5, 700),
    (20, 8, [3] * 20, 100),
    (4, 100, [0, 1, 10, 30], 300),
    (2, 1100, [2, 3], 40),
]


def random_mixture(rng, K, d, p, *, spread=2.0):
    """Make a well conditioned mixture of K components of unit scale; p is a factor count, or one per component."""
    n_factors = [p] * K if np.ndim(p) == 0 else list(p)
    parameters = Parameters(d, n_factors)
    parameters.weights[:] = rng.uniform(0.5, 1.5, K)
    parameters.weights /= parameters.weights.sum()
    parameters.means[:] = spread * rng.standard_normal((K, d))
    parameters.uniquenesses[:] = rng.uniform(0.3, 1.5, (K, d))
    parameters.loadings[:] = rng.standard_normal(parameters.loadings.shape)
    return parameters


def random_rows(rng, parameters, n):
    """n rows (n, d) drawn from a mixture: x = mean + z Lambda' + u (eq. FAGen1)."""
    labels = rng.choice(parameters.n_components, n, p=parameters.weights)
    x = parameters.means[labels] + np.sqrt(parameters.uniquenesses[labels]) * rng.standard_normal(
        (n, parameters.n_features)
    )
    for k, c in enumerate(parameters.components()):
        mine = labels == k
        x[mine] += rng.standard_normal((mine.sum(), len(c.loadings))) @ c.loadings
    return x


def t_mixture(rng, K, d, factors, degrees=(3.0, math.inf, 0.4, 30.0, 300.0)):
    """A mixture of t and normal components."""
    parameters = random_mixture(rng, K, d, factors)
    parameters.degrees_of_freedom[:] = np.resize(degrees, K)
    return parameters


def far_rows(rng, parameters, n):
    """Rows near and far."""
    x = random_rows(rng, parameters, n)
    x[::7] *= 100.0
    return x


# ---- densities -------------------------------------------------------------------------------------------------------


def covariance(c):
    """Lambda Lambda' + Psi, (d, d)."""
    return c.loadings.T @ c.loadings + np.diag(c.uniquenesses)


def squared_distances(x, c):
    """Squared Mahalanobis distance of every row, (n,)."""
    e = x - c.mean
    return np.einsum("ij,ij->i", e, np.linalg.solve(covariance(c), e.T).T)


def log_constant(c):
    """Log of the weight times the largest density; -inf for weight 0."""
    sign, log_determinant = np.linalg.slogdet(covariance(c))
    assert sign == 1
    log_weight = math.log(c.weight) if c.weight > 0 else -math.inf
    nu, d = c.degrees_of_freedom, len(c.mean)
    if nu == math.inf:
        return log_weight - 0.5 * (d * math.log(2 * math.pi) + log_determinant)
    gammas = math.lgamma((nu + d) / 2) - math.lgamma(nu / 2)
    return log_weight + gammas - 0.5 * (d * math.log(nu * math.pi) + log_determinant)


def log_relative_density(x, c):
    """Log density over the largest, (n,)."""
    nu, m = c.degrees_of_freedom, squared_distances(x, c)
    return -0.5 * m if nu == math.inf else -0.5 * (nu + x.shape[1]) * np.log1p(m / nu)


def tail_weights(x, c):
    """u = (nu + d) / (nu + m), (n,); 1 for a normal component   (Peel & McLachlan 2000)."""
    nu = c.degrees_of_freedom
    return np.ones(len(x)) if nu == math.inf else (nu + x.shape[1]) / (nu + squared_distances(x, c))


def log_joint(x, mixture):
    """log pi_k N(x; mu_k, Sigma_k), or of a t density, (n, K)   (eq. MoFA_EMeh)."""
    return np.stack([log_constant(c) + log_relative_density(x, c) for c in mixture], axis=1)


def log_density(x, mixture):
    """log p(x), (n,)   (eq. MixtureDistrib)."""
    return special.logsumexp(log_joint(x, mixture), axis=1)


def responsibilities(x, mixture):
    """h_ik, (n, K)   (eq. MoFA_EMeh)."""
    return special.softmax(log_joint(x, mixture), axis=1)


def regression(c):
    """beta = Lambda' Sigma^-1, (p, d): the factor scores of x are beta (x - mu)   (eq. MoFA_EMez)."""
    return np.linalg.solve(covariance(c), c.loadings.T).T


def factor_scores(x, c):
    """E[z | x], (n, p)."""
    return (x - c.mean) @ regression(c).T


def exact_log_joint(row, c):
    """log pi N(row; mu, Sigma) in rational arithmetic, rounded at the end: no cancellation, however ill posed."""
    a = [[Fraction(0)] * (len(row) + 1) for _ in row]
    for i in range(len(row)):
        for j in range(len(row)):
            a[i][j] = sum((Fraction(f[i]) * Fraction(f[j]) for f in c.loadings), Fraction(0))
        a[i][i] += Fraction(c.uniquenesses[i])
        a[i][-1] = Fraction(row[i]) - Fraction(c.mean[i])
    e = [line[-1] for line in a]
    determinant, solution = eliminate(a)
    distance = float(sum(s * v for s, v in zip(solution, e, strict=True)))
    return math.log(c.weight) - 0.5 * (len(row) * math.log(2 * math.pi) + math.log(determinant) + distance)


def eliminate(a):
    """Determinant and solution of a positive definite system given as [A | b], exactly."""
    n, determinant = len(a), Fraction(1)
    for i in range(n):
        determinant *= a[i][i]
        for r in range(i + 1, n):
            ratio = a[r][i] / a[i][i]
            a[r] = [u - ratio * v for u, v in zip(a[r], a[i], strict=True)]
    x = [Fraction(0)] * n
    for i in reversed(range(n)):
        x[i] = (a[i][-1] - sum((a[i][j] * x[j] for j in range(i + 1, n)), Fraction(0))) / a[i][i]
    return determinant, x


# ---- sums over rows --------------------------------------------------------------------------------------------------


def weighted_responsibilities(x, row_weights, mixture):
    """Return row weight times h_ik, (n, K)."""
    h = responsibilities(x, mixture)
    return h if row_weights is None else row_weights[:, None] * h


def log_likelihood(x, row_weights, mixture):
    """Sum of row weights times log p(x)   (eq. MFAloglik)."""
    return float(np.dot(np.ones(len(x)) if row_weights is None else row_weights, log_density(x, mixture)))


def entropy(x, row_weights, mixture):
    """Entropy of the responsibilities, nats."""
    terms = special.entr(responsibilities(x, mixture)).sum(axis=1)
    return float(np.dot(np.ones(len(x)) if row_weights is None else row_weights, terms))


def half_projection(c):
    """W = L^-1 Lambda' Psi^-1 = L' beta, (p, d), with L L' the capacitance I + Lambda' Psi^-1 Lambda."""
    capacitance = np.eye(len(c.loadings)) + (c.loadings / c.uniquenesses) @ c.loadings.T
    return np.linalg.cholesky(capacitance).T @ regression(c)


def statistics(x, row_weights, mixture):
    """Return what `_statistics.accumulate` adds, as a dict of arrays."""
    h = weighted_responsibilities(x, row_weights, mixture)
    deviations = [x - c.mean for c in mixture]
    cross = [(h[:, [k]] * (e @ half_projection(mixture[k]).T)).T @ e for k, e in enumerate(deviations)]
    return {
        "log_likelihood": np.array([log_likelihood(x, row_weights, mixture)]),
        "entropy": np.array([entropy(x, row_weights, mixture)]),
        "soft_counts": h.sum(axis=0),
        "first": np.stack([h[:, k] @ e for k, e in enumerate(deviations)]),
        "second": np.stack([h[:, k] @ e**2 for k, e in enumerate(deviations)]),
        "cross": np.concatenate(cross),
    }


def scatter(x, row_weights, mixture):
    """Sums of h u (x - mu_k) (x - mu_k)', (K, d, d)."""
    h = weighted_responsibilities(x, row_weights, mixture) * np.stack([tail_weights(x, c) for c in mixture], axis=1)
    return np.stack([((x - c.mean) * h[:, [k]]).T @ (x - c.mean) for k, c in enumerate(mixture)])


def fourth_moments(x, row_weights, mixture):
    """Sums of h m^2, m the squared Mahalanobis distance, (K,)."""
    h = weighted_responsibilities(x, row_weights, mixture)
    return np.array([h[:, k] @ squared_distances(x, c) ** 2 for k, c in enumerate(mixture)])


def kurtosis_z(x, row_weights, mixture):
    """gamma_k, (K,)   (eq. mardiamvkurt)."""
    d, counts = x.shape[1], weighted_responsibilities(x, row_weights, mixture).sum(axis=0)
    b = fourth_moments(x, row_weights, mixture) / counts
    return (b - d * (d + 2)) * (8 * d * (d + 2) / counts) ** -0.5


# ---- the M-step ------------------------------------------------------------------------------------------------------


def maximize(x, row_weights, mixture, floor):
    """Return the next mixture, a list of components."""
    h = weighted_responsibilities(x, row_weights, mixture)
    return [_maximize_component(x, h[:, k], h.sum(), c, floor) for k, c in enumerate(mixture)]


def _maximize_component(x, h, total, c, floor):
    """Update the mean with factors integrated out, and about it make the step of eqs. MoFAEMLambdaMu and MoFAEMPsi."""
    n = h.sum()
    mean = h @ x / n
    e = x - mean
    y = (x - c.mean) @ regression(c).T  # E[z | x]
    y = y - h @ y / n
    S = (h[:, None] * e).T @ e / n
    C_xy = (h[:, None] * e).T @ y / n
    E_zz = np.eye(len(c.loadings)) - regression(c) @ c.loadings.T + (h[:, None] * y).T @ y / n
    loadings = np.linalg.solve(E_zz, C_xy.T)
    uniquenesses = np.maximum(np.diag(S - loadings.T @ C_xy.T), floor)
    return Component(n / total, mean, loadings, uniquenesses)


# ---- comparison ------------------------------------------------------------------------------------------------------


def relative_error(actual, expected, scale=None):
    """Largest difference over the scale, the largest expected magnitude where not given; 0 for empty arrays."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    if not expected.size:
        return 0.0
    scale = np.abs(expected).max() if scale is None else np.asarray(scale)
    return float(np.max(np.abs(actual - expected) / scale))


def log_error(actual, expected):
    """Largest difference of logs relative to max(1, |expected|)."""
    return relative_error(actual, expected, np.maximum(1.0, np.abs(expected)))
