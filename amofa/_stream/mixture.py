"""A mixture with running statistics of all rows so far, and the coordinates in which it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._data.standardize import Coordinates
from amofa._em.factor_analysis import Prior
from amofa._em.profile_likelihood import LEAST_ROWS_OF_ONE_PRICE
from amofa._em.tails import least_rows
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray

# Newton steps of each component for a mixture that is put together, or shown: they converge quadratically.
_POLISH = 8


@dataclass(frozen=True)
class Frame:
    """The coordinates of a stream, with what goes with them."""

    coordinates: Coordinates
    floor: FloatArray  # smallest uniquenesses, (d,), in the units of the table
    prior: Prior  # in the coordinates
    steps: FloatArray | None = None  # of rounded columns, if these have a price, in the coordinates

    @property
    def columns(self) -> NDArray[np.intp]:
        """Numbers of the columns that vary, (c,)."""
        return self.coordinates.columns


@dataclass(frozen=True)
class RunningMixture:
    """A mixture and, about its means, the second moments of all rows that it has seen."""

    noise: Noise
    parameters: Parameters
    covariances: FloatArray  # (K, c, c)
    tail_shares: FloatArray  # (K,) of the rows of a component: those in the tails of t components count less

    @property
    def n_components(self) -> int:
        return self.parameters.n_components

    @classmethod
    def of_parameters(cls, noise: Noise, parameters: Parameters) -> RunningMixture:
        """Return a mixture as if it had seen rows that it describes perfectly."""
        covariances = [c.loadings.T @ c.loadings + np.diag(c.uniquenesses) for c in parameters.components()]
        return cls(noise, parameters, np.stack(covariances), np.ones(parameters.n_components))

    # -- rows --

    def updated(self, samples: Samples, frame: Frame, weight: float) -> tuple[float, RunningMixture]:
        """Return the log-likelihood of further rows before they are seen, in nats, and the mixture after them.

        The rows so far count with this weight. All moments are sums over rows, so that those of earlier rows, each
        under the mixture of its time, and of these rows add up; then every component is at the maximum for its own.
        """
        if samples.n_features == 0:
            return 0.0, self
        parameters = self.parameters.copy()
        iteration = self._iteration(parameters, frame)
        samples.expect(iteration)
        log_likelihood = iteration.log_likelihood + samples.log_jacobian
        iteration.add_sums(self._sums(weight))
        iteration.finish()
        iteration.maximize()
        return log_likelihood, self._after(parameters, iteration)

    def polished(self, frame: Frame, weight: float) -> RunningMixture:
        """Return the mixture with each component at the maximum for its moments, of rows with this weight."""
        if len(frame.columns) == 0:
            return self
        parameters = self.parameters.copy()
        iteration = self._iteration(parameters, frame)
        iteration.clear()
        iteration.add_sums(self._sums(weight))
        iteration.finish()
        for _ in range(_POLISH):
            iteration.maximize()
        return self._after(parameters, iteration)

    def of_rows(self, samples: Samples, frame: Frame) -> RunningMixture:
        """Return the same parameters with the moments of these rows alone, about their own means."""
        parameters = self.parameters.copy()
        iteration = self._iteration(parameters, frame)
        samples.expect(iteration)
        iteration.finish()
        parameters.weights[:] = iteration.soft_counts / iteration.soft_counts.sum()
        parameters.means[:] = iteration.means
        return self._after(parameters, iteration)

    def _iteration(self, parameters: Parameters, frame: Frame) -> ProfileLikelihoodIteration:
        prior = frame.prior
        return ProfileLikelihoodIteration(
            parameters.buffer, parameters.offsets, prior.floor, prior.count, prior.scale, self.noise.code
        )

    def _sums(self, weight: float) -> FloatArray:
        """Return the sums of the rows so far, in the layout of an iteration; first moments are about the means."""
        counts = weight * self.parameters.weights
        scatter = counts[:, None, None] * self.covariances
        nothing = np.zeros(self.parameters.means.size)
        return np.concatenate([np.zeros(2), counts, nothing, scatter.ravel(), counts * self.tail_shares])

    def _after(self, parameters: Parameters, iteration: ProfileLikelihoodIteration) -> RunningMixture:
        """Return the mixture with new parameters and the moments of an iteration."""
        counts = iteration.soft_counts
        shares = np.where(counts > 0, iteration.tail_counts / np.where(counts > 0, counts, 1.0), 1.0)
        return RunningMixture(self.noise, parameters, iteration.covariances.copy(), shares)

    # -- components --

    def without_few_rows(self, weight: float) -> RunningMixture:
        """Return the mixture without components that have nearly no rows of this weight of all."""
        degrees = self.parameters.degrees_of_freedom
        least = [max(LEAST_ROWS_OF_ONE_PRICE, least_rows(self.parameters.n_features, nu)) for nu in degrees.tolist()]
        short = np.where(np.isfinite(degrees), least, LEAST_ROWS_OF_ONE_PRICE) > weight * self.parameters.weights
        if not short.any() or short.all():
            return self
        return self.some(np.flatnonzero(~short).tolist())

    def some(self, numbers: Sequence[int]) -> RunningMixture:
        """Return the mixture of some of the components."""
        parameters = Parameters.from_components([self.parameters.component(k) for k in numbers])
        return replace(
            self, parameters=parameters, covariances=self.covariances[numbers], tail_shares=self.tail_shares[numbers]
        )

    # -- coordinates --

    def overall(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard deviation of each column, (c,), of all rows so far."""
        weights, means = self.parameters.weights, self.parameters.means
        mean = weights @ means
        variances = weights @ (np.diagonal(self.covariances, axis1=1, axis2=2) + (means - mean) ** 2)
        return mean, np.sqrt(variances)

    def reframed(self, old: Frame, new: Frame, unseen: NDArray[np.bool_] | None = None) -> RunningMixture:
        """Express the mixture in other coordinates, whose columns are the same or more.

        Rows so far have the centres of the old coordinates in further columns or, where these are `unseen` (d,), are
        taken to be like those from which the new coordinates come.
        """
        place = np.searchsorted(new.columns, old.columns)
        c, K = len(new.columns), self.n_components
        unit = new.coordinates.scale[new.columns]
        scale = old.coordinates.scale[old.columns] / unit[place]
        start = (old.coordinates.center[new.columns] - new.coordinates.center[new.columns]) / unit
        likely = np.zeros(c)
        if unseen is not None:
            likely[unseen[new.columns]] = 1.0
            start[unseen[new.columns]] = 0.0
        noise = np.maximum(likely, new.prior.floor)
        components, covariances = [], np.zeros((K, c, c))
        for k, component in enumerate(self.parameters.components()):
            mean, uniquenesses, loadings = start.copy(), noise.copy(), np.zeros((len(component.loadings), c))
            mean[place] += scale * component.mean
            uniquenesses[place] = np.maximum(scale**2 * component.uniquenesses, new.prior.floor[place])
            loadings[:, place] = scale * component.loadings
            components.append(component._replace(mean=mean, uniquenesses=uniquenesses, loadings=loadings))
            covariances[k][np.diag_indices(c)] = likely
            covariances[k][np.ix_(place, place)] = scale * self.covariances[k] * scale[:, None]
        parameters = Parameters.from_components(components)
        if self.noise.is_isotropic:
            parameters.uniquenesses[:] = parameters.uniquenesses.mean(axis=1, keepdims=True)
        return replace(self, parameters=parameters, covariances=covariances)


def put_together(noise: Noise, parts: Sequence[tuple[Component, FloatArray, float]]) -> RunningMixture:
    """Return the mixture of components with their covariances and shares of tails."""
    components, covariances, shares = zip(*parts, strict=True)
    return RunningMixture(noise, Parameters.from_components(components), np.stack(covariances), np.array(shares))
