"""EM to convergence under a criterion, with annihilation of components that lack support (paper, fig. mofa_em_mml)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._kernels import _factor
from amofa._kernels._em import Iteration
from amofa._parameters import Evaluator, FloatArray, Parameters, Statistics
from amofa._search.clock import check_time
from amofa._search.journal import Iterated
from amofa.criterion import Criterion

# The first iterations may be slow without being near the end: convergence is not looked for before this one.
_FIRST_TEST = 3


@dataclass(frozen=True)
class Settings:
    """How EM is run, for global and local fits alike.

    Attributes
    ----------
    criterion : callable
        See `amofa.criterion.CRITERIA`.
    floor : (d,) float64
        Smallest uniqueness of each column.
    tol : float
        EM ends when the criterion changes by less than this, in nats per row.
    max_iter : int
        Most iterations of one EM run.
    annihilates : bool
        Whether components with too small a soft count are removed.
    """

    criterion: Criterion
    floor: FloatArray
    tol: float
    max_iter: int
    annihilates: bool


@dataclass(frozen=True)
class Fit:
    """A mixture that EM ended with.

    Attributes
    ----------
    parameters : Parameters
        The iterate of smallest cost.
    log_likelihood, cost : float
        Of these parameters, nats.
    n_iter : int
    converged : bool
    """

    parameters: Parameters
    log_likelihood: float
    cost: float
    n_iter: int
    converged: bool


def expectation_maximization(
    samples: Samples,
    start: Parameters,
    settings: Settings,
    *,
    target: float = np.inf,
    iterated: Iterated | None = None,
) -> Fit:
    """Run EM from `start` and return the iterate that the criterion likes best.

    Parameters
    ----------
    samples : Samples
    start : Parameters
    settings : Settings
    target : float, optional
        A cost, in nats, above which the result is of no use: EM is given up when all iterations that are left, each
        gaining as much as the last, would not come down to it.
    iterated : callable, optional
        Told of each iteration.

    Returns
    -------
    Fit
        Its number of components may be smaller than that of `start`.
    """
    state = _State(samples, start, settings)
    best, best_log_likelihood, best_cost = state.parameters.copy(), -np.inf, np.inf
    tolerance = settings.tol * samples.total_weight
    previous = np.inf
    for iteration in range(1, settings.max_iter + 1):
        check_time()
        cost = state.expect()
        if iterated is not None:
            iterated(iteration, state.parameters.n_factors, state.log_likelihood, cost)
        if cost < best_cost:
            if best.n_factors != state.parameters.n_factors:
                best = state.parameters.copy()
            best.buffer[:] = state.parameters.buffer
            best_log_likelihood, best_cost = state.log_likelihood, cost
        gain = previous - cost
        if iteration >= _FIRST_TEST:
            if abs(gain) < tolerance:
                return Fit(best, best_log_likelihood, best_cost, iteration, converged=True)
            if gain > 0 and gain * (settings.max_iter - iteration) < cost - target:
                break
        previous = cost
        if iteration < settings.max_iter:
            state = state.maximize()
    return Fit(best, best_log_likelihood, best_cost, iteration, converged=False)


class _State:
    """The current iterate with its work arrays, allocated once for a given number of components and factors."""

    def __init__(self, samples: Samples, parameters: Parameters, settings: Settings) -> None:
        self.samples, self.settings = samples, settings
        self.parameters = parameters.copy()
        self.weights = parameters.weights.tolist()
        self.penalty = settings.criterion(samples.n_features, parameters.n_factors, samples.total_weight)
        # No component can lack support while all have this share.
        self.safe_weight = max(self.penalty.min_soft_counts) / samples.total_weight if settings.annihilates else 0.0
        evaluator = Evaluator(self.parameters)
        self.iteration = Iteration(
            self.parameters.buffer,
            self.parameters.offsets,
            evaluator.prepared,
            Statistics(self.parameters).buffer,
            settings.floor,
            evaluator.work,
            np.empty(_factor.maximize_size(parameters.offsets, samples.n_features)),
            with_entropy=self.penalty.uses_entropy,
        )
        self.log_likelihood = -np.inf

    def expect(self) -> float:
        """E-step: statistics of the current parameters. Returns their cost, nats."""
        self.samples.expect(self.iteration)
        self.log_likelihood = self.iteration.log_likelihood + self.samples.log_jacobian
        return self.penalty.cost(self.log_likelihood, self.iteration.entropy, self.weights)

    def maximize(self) -> _State:
        """M-step, in place, and annihilation. Returns the state to go on with."""
        self.iteration.maximize()
        self.weights = self.parameters.weights.tolist()
        if min(self.weights) >= self.safe_weight or len(self.weights) == 1:
            return self
        survivors = _annihilate(self.parameters, self.penalty.min_soft_counts, self.samples.total_weight)
        return self if survivors is self.parameters else _State(self.samples, survivors, self.settings)


def _annihilate(parameters: Parameters, min_soft_counts: tuple[float, ...], n: float) -> Parameters:
    """Remove the weakest component while it has less support than it needs, one at a time; the last one stays."""
    while parameters.n_components > 1:
        margins = [n * w - least for w, least in zip(parameters.weights.tolist(), min_soft_counts, strict=True)]
        weakest = int(np.argmin(margins))
        if margins[weakest] >= 0:
            break
        parameters = parameters.without(weakest)
        min_soft_counts = min_soft_counts[:weakest] + min_soft_counts[weakest + 1 :]
    return parameters
