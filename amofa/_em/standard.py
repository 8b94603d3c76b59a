"""EM in which labels and factors are missing, with annihilation of components that lack support.

It is the EM of the paper's search (fig. mofa_em_mml).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._em.driver import CONVERGED, GIVE_UP, GO_ON, Decision, Tell, go_on, run_em
from amofa._em.outcome import Outcome
from amofa._kernels._standard import StandardIteration
from amofa._parameters import Parameters
from amofa._typing import FloatArray
from amofa.criterion import Criterion

# The first iteration that may end a run: before it, progress may be slow far from the end.
_FIRST_TEST = 3


@dataclass(frozen=True)
class Settings:
    """Settings of EM, for all rows and for those of a component."""

    criterion: Criterion  # see `amofa.criterion.CRITERIA`
    floor: FloatArray  # smallest uniqueness of each column, (d,)
    tol: float  # EM ends when the criterion changes by less than this, in nats per row
    max_iter: int  # most iterations of one EM run
    annihilates: bool  # whether components with too small a soft count are removed
    check: Callable[[], None] = go_on  # raises an exception if the search must stop


def standard_em(
    samples: Samples, start: Parameters, settings: Settings, *, target: float = np.inf, tell: Tell | None = None
) -> Outcome:
    """Run EM from `start` and return the iterate with the lowest cost, which may have fewer components.

    A result above `target`, a cost in nats, is useless: EM is given up when the remaining iterations, each gaining as
    much as the last one, would not reach it. `tell` is called with each iteration.
    """
    rule = _StoppingRule(settings.tol * samples.total_weight, settings.max_iter, target)
    return run_em(_Iterate(samples, start, settings), rule, settings.max_iter, check=settings.check, tell=tell)


class _StoppingRule:
    """Stop when the cost hardly changes, or cannot reach the target."""

    def __init__(self, tolerance: float, max_iter: int, target: float) -> None:
        self.tolerance, self.max_iter, self.target = tolerance, max_iter, target
        self.previous = np.inf

    def decide(self, iterate: _Iterate, n_iter: int, cost: float) -> Decision:
        gain = self.previous - cost
        self.previous = cost
        if n_iter < _FIRST_TEST:
            return GO_ON
        if abs(gain) < self.tolerance:
            return CONVERGED
        hopeless = gain > 0 and gain * (self.max_iter - n_iter) < cost - self.target
        return GIVE_UP if hopeless else GO_ON


class _Best:
    """The iterate with the lowest cost so far."""

    def __init__(self, start: Parameters) -> None:
        self.parameters = start.copy()
        self.log_likelihood, self.cost = -np.inf, np.inf

    def take(self, parameters: Parameters, log_likelihood: float, cost: float) -> None:
        if self.parameters.n_factors != parameters.n_factors:
            self.parameters = parameters.copy()
        self.parameters.buffer[:] = parameters.buffer
        self.log_likelihood, self.cost = log_likelihood, cost


class _Iterate:
    """The present mixture with its work arrays, allocated once for given numbers of components and factors."""

    ends_with_m_step = False

    def __init__(self, samples: Samples, parameters: Parameters, settings: Settings, best: _Best | None = None) -> None:
        self.samples, self.settings = samples, settings
        self.parameters = parameters.copy()
        self.best = best or _Best(self.parameters)
        self.weights = parameters.weights.tolist()
        self.penalty = settings.criterion(samples.n_features, parameters.n_factors, samples.total_weight)
        # No component lacks support while all have this share.
        self.safe_weight = max(self.penalty.min_soft_counts) / samples.total_weight if settings.annihilates else 0.0
        self.iteration = StandardIteration(
            self.parameters.buffer, self.parameters.offsets, settings.floor, self.penalty.uses_entropy
        )
        self.log_likelihood = -np.inf

    def expect(self) -> float:
        self.samples.expect(self.iteration)
        self.log_likelihood = self.iteration.log_likelihood + self.samples.log_jacobian
        cost = self.penalty.cost(self.log_likelihood, self.iteration.entropy, self.weights)
        if cost < self.best.cost:
            self.best.take(self.parameters, self.log_likelihood, cost)
        return cost

    def cost(self, objective: float) -> float:
        return objective

    def maximize(self, choose: bool = False) -> _Iterate:
        """Run the M-step, in place, and remove components that lack support."""
        self.iteration.maximize()
        self.weights = self.parameters.weights.tolist()
        if min(self.weights) >= self.safe_weight or len(self.weights) == 1:
            return self
        survivors = _annihilate(self.parameters, self.penalty.min_soft_counts, self.samples.total_weight)
        return self if survivors is self.parameters else _Iterate(self.samples, survivors, self.settings, self.best)

    def outcome(self, objective: float, n_iter: int, converged: bool) -> Outcome:
        best = self.best
        return Outcome(best.parameters, best.log_likelihood, best.cost, n_iter, converged)


def _annihilate(parameters: Parameters, min_soft_counts: tuple[float, ...], n: float) -> Parameters:
    """Remove the weakest component as long as it lacks support, one at a time; the last one stays."""
    while parameters.n_components > 1:
        margins = [n * w - least for w, least in zip(parameters.weights.tolist(), min_soft_counts, strict=True)]
        weakest = int(np.argmin(margins))
        if margins[weakest] >= 0:
            break
        parameters = parameters.without(weakest)
        min_soft_counts = min_soft_counts[:weakest] + min_soft_counts[weakest + 1 :]
    return parameters
