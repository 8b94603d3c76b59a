"""Rows drawn from known mixtures: the paper's synthetic examples, and mixtures of factor analysers."""

import numpy as np


def gaussians(rng, counts, means, covariances):
    """Draw counts[k] rows of N(means[k], covariances[k]) for each k in turn; return rows (n, d) and labels (n,)."""
    rows = [
        np.asarray(mean) + rng.standard_normal((n, len(mean))) @ np.linalg.cholesky(np.asarray(covariance)).T
        for n, mean, covariance in zip(counts, means, covariances, strict=True)
    ]
    return np.concatenate(rows), np.repeat(np.arange(len(counts)), counts)


def example_1(rng):
    """Draw the paper's Example 1: three long parallel Gaussians side by side, 900 rows."""
    return gaussians(rng, [300] * 3, [(0, -2), (0, 0), (0, 2)], [np.diag([2, 0.2])] * 3)


def example_2(rng):
    """Draw the paper's Example 2: four Gaussians, two of them with the same centre, 1000 rows."""
    return gaussians(
        rng,
        [300, 300, 300, 100],
        [(-4, -4), (-4, -4), (2, 2), (-1, -6)],
        [[[0.8, 0.5], [0.5, 0.8]], [[5, -2], [-2, 5]], [[2, -1], [-1, 2]], np.diag([0.125, 0.125])],
    )


def factor_analysers(rng, d, n_factors, counts, *, distance=6.0, noise=(0.2, 0.6)):
    """Rows (n, d) and labels (n,) of factor analysers with unit-normal loadings.

    The means lie `distance` apart along the columns in turn, and around again twice as far. Uniquenesses are uniform
    in `noise`.
    """
    means, covariances = [], []
    for k, p in enumerate(n_factors):
        mean = 0.3 * rng.standard_normal(d)
        mean[k % d] += distance * (1 + k // d)
        loadings = rng.standard_normal((d, p))
        means.append(mean)
        covariances.append(loadings @ loadings.T + np.diag(rng.uniform(*noise, d)))
    return gaussians(rng, counts, means, covariances)


def t_groups(rng, d, n_factors, counts, degrees_of_freedom, *, distance=9.0):
    """Rows (n, d) and labels (n,) of t-factor analysers, as `factor_analysers` but with heavier tails."""
    rows, labels = factor_analysers(rng, d, n_factors, counts, distance=distance)
    centres = np.array([rows[labels == k].mean(axis=0) for k in range(len(counts))])[labels]
    stretch = np.sqrt(degrees_of_freedom / rng.chisquare(degrees_of_freedom, len(rows)))
    return centres + (rows - centres) * stretch[:, None], labels
