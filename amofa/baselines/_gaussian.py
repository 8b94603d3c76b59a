"""Gaussians with any kind of covariance as factor analysers, exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from amofa._parameters import Component
from amofa._typing import FloatArray

COVARIANCES = ("full", "diag", "spherical")


def covariance_parameters(n_features: int, covariance: str) -> int:
    """Return the number of free entries of a covariance matrix that is one of `COVARIANCES`."""
    return {"full": n_features * (n_features + 1) // 2, "diag": n_features, "spherical": 1}[covariance]


def mixture_parameters(n_features: int, n_components: int, covariance: str) -> int:
    """Return the number of free parameters of a mixture of Gaussians: weights, means, covariances."""
    return n_components - 1 + n_components * (n_features + covariance_parameters(n_features, covariance))


def full_component(weight: float, mean: FloatArray, covariance: FloatArray) -> Component:
    """Return a Gaussian with a full covariance, (d, d), as a factor analyser with d - 1 factors.

    With S the standard deviations and S^-1 Sigma S^-1 = U D U', l its smallest eigenvalue,
    Sigma = S (l I + U (D - l) U') S: uniquenesses l S^2, loadings (D - l)^1/2 U' S. Correlations are used because
    their eigenvalues have the smallest spread, whatever the units of the columns. Raises FloatingPointError if the
    covariance is numerically singular.
    """
    deviations = np.sqrt(np.diagonal(covariance))
    values, vectors = np.linalg.eigh(covariance / deviations / deviations[:, None])
    if not values[0] > 0.0:
        raise FloatingPointError("the covariance is numerically singular")
    # Largest first; the smallest one is the noise.
    loadings = np.sqrt(values[:0:-1] - values[0])[:, None] * vectors.T[:0:-1] * deviations
    return Component(weight, mean, loadings, values[0] * deviations**2)


def diagonal_component(weight: float, mean: FloatArray, variances: FloatArray) -> Component:
    """Return a Gaussian with independent columns as a factor analyser without factors.

    Raises FloatingPointError if a variance is not positive.
    """
    if not (variances > 0.0).all():
        raise FloatingPointError("a variance is 0")
    return Component(weight, mean, np.zeros((0, len(mean))), variances)


def gaussian_components(
    weights: Sequence[float], means: FloatArray, covariances: FloatArray, covariance: str
) -> list[Component]:
    """Return Gaussians with means (K, d) as factor analysers.

    Covariances are matrices (K, d, d) if `covariance` is "full", and variances (K, d) otherwise.
    """
    make = full_component if covariance == "full" else diagonal_component
    return [make(w, mean, matrix) for w, mean, matrix in zip(weights, means, covariances, strict=True)]
