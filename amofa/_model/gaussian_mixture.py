"""Mixtures of scikit-learn, `sklearn.mixture.GaussianMixture`, from and to mixtures of factor analysers."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray

# The smallest eigenvalue of a correlation matrix that is taken from elsewhere; one of less is rounding.
_LEAST_EIGENVALUE = 1e-10
# Eigenvalues that exceed the smallest by less than this share of 1 make no factor.
_LEAST_EXCESS = 1e-12


def is_gaussian_mixture(model: Any) -> bool:
    """Return whether something is a Gaussian mixture of scikit-learn, which is not imported for that."""
    return hasattr(model, "covariance_type") and hasattr(model, "get_params")


def parameters_of_gaussian_mixture(mixture: Any) -> Parameters:
    """Return the same mixture with factors for its covariances; TypeError if it is no fitted mixture."""
    if not is_gaussian_mixture(mixture):
        raise TypeError(f"mixture must be a GaussianMixture of scikit-learn, got {type(mixture).__name__}")
    if not hasattr(mixture, "covariances_"):
        raise TypeError(
            f"the {type(mixture).__name__} is not fitted; call its fit first, and as the init of an estimator that is "
            "cloned pass sklearn.frozen.FrozenEstimator of it"
        )
    weights, means = np.asarray(mixture.weights_, dtype=np.float64), np.asarray(mixture.means_, dtype=np.float64)
    covariances = _covariances(mixture, *means.shape)
    return Parameters.from_components(
        [Component(float(w), m, *_analyser(c)) for w, m, c in zip(weights, means, covariances, strict=True)]
    )


def _covariances(mixture: Any, K: int, d: int) -> list[FloatArray]:
    """Return the covariance of each component, (d, d), or its diagonal, (d,)."""
    values = np.asarray(mixture.covariances_, dtype=np.float64)
    if mixture.covariance_type == "tied":
        return [values] * K
    if mixture.covariance_type == "spherical":
        return [np.full(d, value) for value in values]
    return list(values)


def _analyser(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return loadings (p, d) and uniquenesses (d,) with a covariance, which has factors unless it is a diagonal."""
    if covariance.ndim == 1:
        return np.zeros((0, len(covariance))), covariance
    # In units of the columns, so that the smallest eigenvalue hangs on none of them.
    deviations = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / deviations / deviations[:, None])
    noise = max(float(values[0]), _LEAST_EIGENVALUE)
    kept = values > noise + _LEAST_EXCESS
    loadings = (vectors[:, kept] * np.sqrt(values[kept] - noise)).T * deviations
    return loadings[::-1], noise * deviations**2


def to_gaussian_mixture(parameters: Parameters, feature_names: tuple[str, ...] | None, converged: bool) -> Any:
    """Return a fitted `sklearn.mixture.GaussianMixture` with the same density.

    Raises ImportError if scikit-learn is not installed, and ValueError if a component is not Gaussian or its
    covariance is singular in float64.
    """
    try:
        from sklearn.mixture import GaussianMixture
    except ImportError as error:
        raise ImportError("to_sklearn needs scikit-learn: python -m pip install 'amofa[sklearn]'") from error
    if np.isfinite(parameters.degrees_of_freedom).any():
        raise ValueError("the model has t components; those of a GaussianMixture are normal: fit with tails='normal'")
    if parameters.background is not None:
        raise ValueError("the model has a background, which a GaussianMixture has not: fit without background")
    covariances = np.stack([c.loadings.T @ c.loadings + np.diag(c.uniquenesses) for c in parameters.components()])
    factors = np.stack([_precision_factor(covariance, k) for k, covariance in enumerate(covariances)])
    mixture = GaussianMixture(parameters.n_components, covariance_type="full")
    mixture.weights_, mixture.means_ = parameters.weights.copy(), parameters.means.copy()
    mixture.covariances_, mixture.precisions_cholesky_ = covariances, factors
    mixture.precisions_ = factors @ factors.transpose(0, 2, 1)
    mixture.converged_, mixture.n_iter_, mixture.lower_bound_ = converged, 0, -np.inf
    mixture.n_features_in_ = parameters.n_features
    if feature_names is not None:
        mixture.feature_names_in_ = np.array(feature_names, dtype=object)
    return mixture


def _precision_factor(covariance: FloatArray, k: int) -> FloatArray:
    """Return the upper triangular R with R R' the inverse of the covariance of component k."""
    deviations = np.sqrt(np.diag(covariance))
    try:
        root = np.linalg.cholesky(covariance / deviations / deviations[:, None])
    except np.linalg.LinAlgError as error:
        raise ValueError(f"the covariance matrix of component {k} is singular in float64; raise noise_floor") from error
    inverse: FloatArray = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True)
    return inverse.T / deviations[:, None]
