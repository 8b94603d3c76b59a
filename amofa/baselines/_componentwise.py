"""Component-wise EM for mixtures of Gaussians, which removes components that do not pay for their parameters."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from amofa._data.row_chunks import Samples
from amofa._em.outcome import Outcome
from amofa._parameters import Parameters
from amofa._typing import FloatArray
from amofa.baselines._gaussian import covariance_parameters, gaussian_components
from amofa.criterion import Penalty, gaussian_message_length

# Covariances start at this share of the columns' variances.
_FIRST_VARIANCE = 0.1
# Densities are kept as ratios to the largest one of their row at some earlier time, which is updated when a mixture of
# them leaves this range.
_SMALLEST, _LARGEST = 1e-200, 1e200


class ComponentwiseEM:
    """A mixture of Gaussians with the densities of all rows under each component.

    The start is `means` (K, d) with equal weights. The rows have at least one column, in coordinates in which columns
    have variances of about 1; `ridge` is added to each variance. If `covariance` is "full", `covariances` are matrices
    (K, d, d); if it is "diag" or "spherical", they are variances (K, d).
    """

    def __init__(self, samples: Samples, means: FloatArray, covariance: str, ridge: float) -> None:
        (K, d), n = means.shape, samples.n_rows
        self.samples, self.covariance, self.ridge = samples, covariance, ridge
        self.weights, self.means = np.full(K, 1.0 / K), means
        first = _FIRST_VARIANCE * (np.eye(d) if covariance == "full" else np.ones(d))
        self.covariances = np.tile(first, (K, *[1] * first.ndim))
        self.n_covariance = covariance_parameters(d, covariance)
        self.row_weights = np.ones(n) if samples.weights is None else samples.weights
        # For each component log densities, and the densities as ratios to exp(reference); such ratios for the mixture.
        self.log_densities, self.ratios = np.empty((K, n)), np.empty((K, n))
        self.reference, self.mixed = np.empty(n), np.empty(n)
        for k in range(K):
            self._evaluate(k)
        self._refer()

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @property
    def log_likelihood(self) -> float:
        """Return the log-likelihood in nats, in the coordinates of the samples."""
        return float(self.row_weights @ (np.log(self.mixed) + self.reference))

    def penalty_of(self, n_components: int) -> Penalty:
        """Return what the message length of a number of components adds to minus the log-likelihood."""
        return gaussian_message_length(
            self.samples.n_features, n_components, self.n_covariance, self.samples.total_weight
        )

    def run(self, tol: float, max_iter: int) -> Outcome:
        """Sweep until the log-likelihood changes by less than `tol` nats in a sweep that removes nothing."""
        previous, converged, sweeps = self.log_likelihood, False, 0
        while not converged and sweeps < max_iter:
            K = self.n_components
            self.sweep()
            likelihood = self.log_likelihood
            converged = self.n_components == K and abs(likelihood - previous) < tol
            previous, sweeps = likelihood, sweeps + 1
        components = gaussian_components(self.weights.tolist(), self.means, self.covariances, self.covariance)
        parameters = Parameters.from_components(components)
        log_likelihood = self.log_likelihood + self.samples.log_jacobian
        cost = self.penalty_of(self.n_components).cost(log_likelihood, 0.0, parameters.weights.tolist())
        return Outcome(parameters, log_likelihood, cost, sweeps, converged)

    def sweep(self) -> None:
        """Update every component in turn, each with the responsibilities that the last one left."""
        self._refer()
        k = 0
        while k < self.n_components:
            if self._update(k):
                k += 1
            else:
                self.remove(k)

    def remove(self, k: int) -> None:
        """Remove a component, and share its weight among the others in proportion."""
        for name in ("weights", "means", "covariances", "log_densities", "ratios"):
            setattr(self, name, np.delete(getattr(self, name), k, axis=0))
        self.weights /= self.weights.sum()
        self._mix()

    def _update(self, k: int) -> bool:
        """Run the E-step and M-step of one component; return False if it has too few rows to stay."""
        responsibilities = self.weights[k] * self.ratios[k] / self.mixed * self.row_weights
        count = float(responsibilities.sum())
        if self.n_components > 1:
            # Half a row for each parameter (Figueiredo & Jain, eq. 17): the prior of the weights is improper.
            pays = count - self.penalty_of(self.n_components).half_counts[k]
            if pays <= 0.0:
                return False
            self.weights[k] = pays / self.samples.total_weight
            self.weights /= self.weights.sum()
        self._maximize(k, responsibilities, count)
        self._evaluate(k)
        with np.errstate(over="ignore"):
            np.exp(self.log_densities[k] - self.reference, out=self.ratios[k])
            self._mix()
        return True

    def _maximize(self, k: int, responsibilities: FloatArray, count: float) -> None:
        """Compute the mean and covariance of the rows of component k, from moments about its old mean."""
        first, second = np.zeros_like(self.means[k]), np.zeros_like(self.covariances[k])
        full, start = self.covariance == "full", 0
        for x, _ in self.samples.chunks():
            deviations = x - self.means[k][:, None]
            weighted = deviations * responsibilities[start : start + x.shape[1]]
            first += weighted.sum(axis=1)
            second += weighted @ deviations.T if full else np.einsum("ij,ij->i", weighted, deviations)
            start += x.shape[1]
        shift = first / count
        self.means[k] += shift
        second /= count
        if full:
            second -= np.outer(shift, shift)
            second.flat[:: len(shift) + 1] += self.ridge
        else:
            second = np.maximum(second - shift**2, 0.0) + self.ridge
            if self.covariance == "spherical":
                second[:] = second.mean()
        self.covariances[k] = second

    def _evaluate(self, k: int) -> None:
        """Compute the log densities of all rows under component k."""
        start = 0
        if self.covariance == "full":
            try:
                root = np.linalg.cholesky(self.covariances[k])
            except np.linalg.LinAlgError:
                raise FloatingPointError(f"the covariance of component {k} is numerically singular") from None
            deviation = np.diagonal(root)
        else:
            deviation = np.sqrt(self.covariances[k])
        constant = -float(np.log(deviation).sum()) - 0.5 * len(deviation) * math.log(2 * math.pi)
        for x, _ in self.samples.chunks():
            z = x - self.means[k][:, None]
            if self.covariance == "full":
                z = solve_triangular(root, z, lower=True, check_finite=False)
            else:
                z /= deviation[:, None]
            self.log_densities[k, start : start + x.shape[1]] = constant - 0.5 * np.einsum("ij,ij->j", z, z)
            start += x.shape[1]

    def _refer(self) -> None:
        """Make the ratios relative to the present largest density of each row."""
        self.log_densities.max(axis=0, out=self.reference)
        np.exp(self.log_densities - self.reference, out=self.ratios)
        np.dot(self.weights, self.ratios, out=self.mixed)

    def _mix(self) -> None:
        np.dot(self.weights, self.ratios, out=self.mixed)
        if not (self.mixed.min() > _SMALLEST and self.mixed.max() < _LARGEST):
            self._refer()
