"""Problems for the solver of factor analysers, and their costs by dense algebra."""

import numpy as np

from amofa._kernels._factor_analysis import Solver

TOLERANCE = 1e-12
# Columns, and factors of each matrix: one matrix, and three that share their uniquenesses.
SHAPES = [
    (1, [0]),
    (1, [1]),
    (2, [0]),
    (2, [1]),
    (2, [2]),
    (3, [1]),
    (3, [0, 1, 3]),
    (10, [0]),
    (10, [4]),
    (10, [10]),
    (10, [2, 0, 5]),
    (30, [7]),
    (30, [3, 1, 8]),
    (1, [0, 1, 0]),
]
PRIORS = [0.0, 4.0]


def model_covariance(rng, d, p):
    loadings = rng.standard_normal((p, d))
    return loadings.T @ loadings + np.diag(rng.uniform(0.3, 1.5, d))


def sample_covariance(rng, covariance, n):
    """Return the covariance of n rows drawn from N(0, covariance), about their mean."""
    x = rng.standard_normal((n, len(covariance))) @ np.linalg.cholesky(covariance).T
    return np.cov(x.T, bias=True).reshape(covariance.shape)


def problem(rng, d, factors, *, n=40, prior_count=0.0, floor=1e-4):
    """Arguments of `solve` as a dict: sample covariances, and starts that are not the solution."""
    K = len(factors)
    return {
        "covariances": np.stack([sample_covariance(rng, model_covariance(rng, d, 1 + d // 4), n + d) for _ in factors]),
        "counts": rng.uniform(0.5, 2, K) * n,
        "offsets": np.concatenate([[0], np.cumsum(factors)]).astype(np.intp),
        "floor": np.full(d, floor),
        "prior_count": prior_count,
        "prior_scale": rng.uniform(0.5, 2, d),
        "uniquenesses": rng.uniform(0.2, 2, d),
        "loadings": np.full((sum(factors), d), np.nan),
        "spectra": np.full((K, d), np.nan),
        "max_steps": 500,
        "tol": 0.0,
    }


def solved(arguments, **changes):
    """Solve copies of the arguments; return the cost and the copies after the call."""
    copied = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    copied |= changes
    solver = Solver(copied["covariances"].shape[1], len(copied["counts"]), len(copied["loadings"]))
    return solver.solve(**copied), copied


def prior_cost(a, psi):
    return a["prior_count"] * np.log(np.cosh(np.log(psi / a["prior_scale"]) / 2)).sum()


def dense_cost(a):
    """n/2 (log |Sigma| + tr Sigma^-1 S), summed, and the prior's cost."""
    cost = prior_cost(a, a["uniquenesses"])
    for k, (n, s) in enumerate(zip(a["counts"], a["covariances"], strict=True)):
        loadings = a["loadings"][a["offsets"][k] : a["offsets"][k + 1]]
        sigma = loadings.T @ loadings + np.diag(a["uniquenesses"])
        cost += n / 2 * (np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, s)))
    return cost


def profile_cost(a, log_psi):
    """Return the cost at the best loadings for these uniquenesses."""
    psi = np.exp(log_psi)
    cost = prior_cost(a, psi)
    for k, (n, s) in enumerate(zip(a["counts"], a["covariances"], strict=True)):
        p = a["offsets"][k + 1] - a["offsets"][k]
        whitened = s / np.sqrt(np.outer(psi, psi))
        values = np.linalg.eigvalsh(whitened)[::-1]
        fitted = np.where(np.arange(len(psi)) < p, np.maximum(values, 1.0), 1.0)
        cost += n / 2 * (log_psi.sum() + np.log(fitted).sum() + (values / fitted).sum())
    return cost
