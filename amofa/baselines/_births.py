"""The search for the number of components of a variational mixture: births, deaths, and factors switched off."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from amofa._data.row_chunks import Moments, Samples
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._parameters import Evaluator, Parameters
from amofa._search.constraints import REFINEMENT
from amofa._typing import FloatArray
from amofa.baselines._pruning import selected, switched_off
from amofa.baselines._variational import (
    Posterior,
    bound_of_moments,
    component_bounds,
    divergence,
    effective_mixture,
    principal_axes_of_noise,
    start,
    update,
)

# A component with fewer rows than this dies, but for the heaviest.
_LEAST_ROWS = 1.0
# While the bound rises, steps of the log noise grow by the first factor from sweep to sweep, up to the second one times
# the plain step: the noise converges slowest.
_GROWTH, _LONGEST = 1.5, 20.0
# After the first number of sweeps a trial is given up if the second number of further ones would not be enough.
_PATIENCE, _SLOWEST = 20, 160
# The chosen fit continues to this share of the tolerance.
_FINER = 0.1
# Number of sweeps between checks of whether columns can be switched off; one is made before a fit ends, too.
_PRUNING_PERIOD = 10
# A start tries these shares of the noise, which comes from a model that explained less.
_NOISE_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True)
class BirthSettings:
    """Settings of the search."""

    floor: FloatArray  # smallest uniqueness of each column, (d,)
    max_factors: int
    max_components: int | None
    n_tries: int  # passes over all components without a birth that end the search
    tol: float  # sweeps end below this rise of the bound, a birth must exceed it; nats per value
    max_iter: int  # most sweeps of one trial
    shares_noise: bool  # whether all components have the same uniquenesses


@dataclass(frozen=True)
class VariationalFit:
    """A posterior with the results of its last E-step."""

    posterior: Posterior
    moments: Moments  # of the rows under its responsibilities
    bound: float  # nats, of the rows in the search's coordinates
    n_iter: int
    converged: bool


class Rows:
    """E-step passes over some rows; the kernel's buffers are kept while the shape of the mixture stays the same."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._parameters: Parameters | None = None

    def expect(self, posterior: Posterior) -> tuple[Moments, float]:
        """Update Q(labels) and Q(factors): moments of the rows, and the bound, nats."""
        mixture = effective_mixture(posterior)
        iteration = self._iteration(mixture)
        self.samples.expect(iteration)
        iteration.finish()
        moments = Moments(iteration.soft_counts.copy(), iteration.means.copy(), iteration.covariances.copy())
        return moments, iteration.log_likelihood - divergence(posterior)

    def _iteration(self, mixture: Parameters) -> ProfileLikelihoodIteration:
        known = self._parameters
        if known is None or known.n_factors != mixture.n_factors:
            self._parameters = known = mixture.copy()
            ones = np.ones(mixture.n_features)
            self._kernel = ProfileLikelihoodIteration(known.buffer, known.offsets, ones, 0.0, ones, 0)
        else:
            known.buffer[:] = mixture.buffer
            self._kernel.prepare()
        return self._kernel

    def halves(self, posterior: Posterior, moments: Moments, k: int, direction: FloatArray) -> Moments:
        """Return the moments with component k divided in two (in its place, and at the end) by a hyperplane.

        The hyperplane goes through its mean, perpendicular to ``direction``.
        """
        d = self.samples.n_features
        center = moments.means[k]
        counts, first, scatter = np.zeros(2), np.zeros((2, d)), np.zeros((2, d, d))
        for (x, w), block in zip(
            self.samples.chunks(), self.samples.posterior(Evaluator(effective_mixture(posterior))), strict=True
        ):
            centred = x - center[:, None]
            responsibility = block.responsibilities[k] if w is None else block.responsibilities[k] * w
            side = direction @ centred > 0
            for half, inside in enumerate((~side, side)):
                weighted = centred[:, inside] * responsibility[inside]
                counts[half] += responsibility[inside].sum()
                first[half] += weighted.sum(axis=1)
                scatter[half] += weighted @ centred[:, inside].T
        divisor = np.where(counts > 0, counts, 1.0)
        first /= divisor[:, None]
        covariances = scatter / divisor[:, None, None] - first[:, :, None] * first[:, None, :]
        return Moments(
            _replaced(moments.soft_counts, k, counts),
            _replaced(moments.means, k, center + first),
            _replaced(moments.covariances, k, covariances),
        )


def _replaced(values: FloatArray, k: int, two: FloatArray) -> FloatArray:
    """Replace entry k by the first of two, and append the second."""
    return np.concatenate([values[:k], two[:1], values[k + 1 :], two[1:]])


# ---- one fit ---------------------------------------------------------------------------------------------------------


def first_posterior(moments: Moments, settings: BirthSettings) -> Posterior:
    """Return the first posterior, in standardised columns: noise as large as the variances, or less if better."""
    d = moments.means.shape[1]
    return restarted(moments, np.ones((1, d)), np.zeros(d), np.ones(d), settings)


def restarted(
    moments: Moments, noise: FloatArray, center: FloatArray, spread: FloatArray, settings: BirthSettings
) -> Posterior:
    """Return a posterior with all columns on, from the fraction of the noise that gives the highest bound."""
    best, best_bound = None, -np.inf
    values, vectors = principal_axes_of_noise(moments, noise, settings.max_factors)
    for share in _NOISE_SHARES:
        level = np.maximum(share * noise, settings.floor)
        begun = start(moments, level, (values / share, vectors), center, spread)
        posterior = update(begun, moments, settings.floor, noise_step=0.0)
        bound = bound_of_moments(posterior, moments)
        if bound > best_bound:
            best, best_bound = posterior, bound
    assert best is not None
    return best


def converge(
    rows: Rows, posterior: Posterior, settings: BirthSettings, *, target: float = -np.inf, max_iter: int | None = None
) -> VariationalFit:
    """Sweep until the bound stops rising and no column can be switched off.

    Give up if many more sweeps, each gaining as much as the last, would not reach ``target``.
    """
    most = settings.max_iter if max_iter is None else max_iter
    least_gain = settings.tol * rows.samples.total_weight * rows.samples.n_features
    moments, bound = rows.expect(posterior)
    noise_step = 1.0
    for sweep in range(1, most + 1):
        alive = moments.soft_counts >= min(_LEAST_ROWS, moments.soft_counts.max())
        if not alive.all():
            posterior, moments = selected(posterior, moments, alive)
        before = posterior, moments, bound
        posterior = update(
            posterior, moments, settings.floor, noise_step=noise_step, shares_noise=settings.shares_noise
        )
        moments, bound = rows.expect(posterior)
        gain = bound - before[2]
        if gain < 0.0 and noise_step > 1.0:
            posterior, moments, bound = before
            noise_step = 1.0
            continue
        noise_step = min(noise_step * _GROWTH, _LONGEST)
        ends = gain < least_gain
        if not ends and sweep % _PRUNING_PERIOD:
            continue
        pruned = switched_off(posterior, moments, settings.floor)
        if pruned is not posterior:
            posterior = pruned
            moments, bound = rows.expect(posterior)
        elif ends:
            return VariationalFit(posterior, moments, bound, sweep, converged=True)
        elif sweep >= _PATIENCE and _SLOWEST * gain < target - bound:
            break
    return VariationalFit(posterior, moments, bound, sweep, converged=False)


# ---- the search ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """A fit that the search tried."""

    action: str
    component: int
    fit: VariationalFit
    accepted: bool


class BirthSearch:
    """Make births, in directions drawn from `rng`, as long as they raise the bound; columns are standardised."""

    def __init__(
        self, samples: Samples, settings: BirthSettings, rng: np.random.Generator | np.random.RandomState
    ) -> None:
        self.rows, self.settings, self.rng = Rows(samples), settings, rng
        self.trials: list[Trial] = []

    def run(self) -> VariationalFit:
        """Return the fit with the highest bound."""
        first = first_posterior(_all_rows(self.rows.samples), self.settings)
        self.best = converge(self.rows, first, self.settings)
        self._record("start", -1, self.best, accepted=True)
        tries = 0
        while tries < self.settings.n_tries:
            tries = 0 if self._born() else tries + 1
            if tries == self.settings.n_tries and self._died():
                tries = 0
        self._refine()
        return self.best

    def _born(self) -> bool:
        """Try a birth from every component, the worst modelled first, until one raises the bound."""
        limit = self.settings.max_components
        if limit is not None and self.best.posterior.n_components >= limit:
            return False
        fit = self.best
        misfit = -component_bounds(fit.posterior, fit.moments) / fit.moments.soft_counts
        for k in np.argsort(-misfit, kind="stable").tolist():
            trial = self._birth(k)
            if trial is not None and self._consider("split", k, trial):
                return True
        return False

    def _birth(self, k: int) -> VariationalFit | None:
        fit, posterior = self.best, self.best.posterior
        moments = self.rows.halves(posterior, fit.moments, k, self._direction(posterior, k))
        if moments.soft_counts[[k, -1]].min() < _LEAST_ROWS:
            return None
        return converge(self.rows, self._restarted(moments), self.settings, target=fit.bound)

    def _died(self) -> bool:
        """Try the removal of every component, the lightest first, until one raises the bound."""
        fit = self.best
        if fit.posterior.n_components == 1:
            return False
        for k in np.argsort(fit.moments.soft_counts, kind="stable").tolist():
            kept = np.arange(fit.posterior.n_components) != k
            moments, _ = self.rows.expect(selected(fit.posterior, fit.moments, kept)[0])
            trial = converge(self.rows, self._restarted(moments), self.settings, target=fit.bound)
            if self._consider("remove", k, trial):
                return True
        return False

    def _restarted(self, moments: Moments) -> Posterior:
        posterior = self.best.posterior
        noise = np.average(posterior.noise, axis=0, weights=posterior.dirichlet)
        noise = np.tile(noise, (len(moments.means), 1))
        return restarted(moments, noise, posterior.center, posterior.spread, self.settings)

    def _consider(self, action: str, k: int, trial: VariationalFit) -> bool:
        """Take a trial in place of the best fit if it raises the bound enough."""
        samples = self.rows.samples
        accepted = trial.bound - self.best.bound > self.settings.tol * samples.total_weight * samples.n_features
        self._record(action, k, trial, accepted=accepted)
        if accepted:
            self.best = trial
        return accepted

    def _direction(self, posterior: Posterior, k: int) -> FloatArray:
        """Draw from N(0, Sigma_k), by the symmetric root, since signs of eigenvectors are arbitrary."""
        loadings = posterior.loadings[k]
        values, vectors = np.linalg.eigh(loadings.T @ loadings + np.diag(posterior.noise[k]))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        direction: FloatArray = root @ (vectors.T @ self.rng.standard_normal(len(values)))
        return direction

    def _refine(self) -> None:
        """Continue the best fit to a tighter tolerance."""
        finer = replace(self.settings, tol=_FINER * self.settings.tol)
        refined = converge(self.rows, self.best.posterior, finer, max_iter=REFINEMENT * self.settings.max_iter)
        self._record("refine", -1, refined, accepted=True)
        self.best = refined

    def _record(self, action: str, component: int, fit: VariationalFit, *, accepted: bool) -> None:
        self.trials.append(Trial(action, component, fit, accepted))


def _all_rows(samples: Samples) -> Moments:
    d = samples.n_features
    one = Parameters(d, (0,))
    one.weights[:], one.uniquenesses[:] = 1.0, 1.0
    return samples.moments(one)
