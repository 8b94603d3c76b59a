"""EM in which only the labels are missing: every factor analyser is at its maximum for its rows' second moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from amofa._analyser import Solver
from amofa._exact import ExactIteration
from amofa.analyser import NOISE, Covariance, FactorChoice, Prior, Spread
from amofa.criterion import Pricing
from amofa.parameters import Component, Evaluator, FloatArray, Parameters
from amofa.samples import Samples

# A component of fewer rows than this has no spread of its own.
LEAST_ROWS = 2.0
# The rate of convergence is believed up to this: beyond it the gain that is left is not extrapolated.
_SLOWEST_RATE = 0.99


@dataclass(frozen=True)
class Problem:
    """What stays the same in a search.

    Attributes
    ----------
    prior : Prior
    pricing : Pricing
    noise : {"component", "shared", "isotropic"}
    choice : FactorChoice
    tol : float
        EM ends when the cost is within about so much of its limit, in nats per row.
    max_iter : int
        Most iterations of one EM run on all rows.
    annihilates : bool
        Whether components without rows are removed.
    """

    prior: Prior
    pricing: Pricing
    noise: str
    choice: FactorChoice
    tol: float
    max_iter: int
    annihilates: bool

    def prior_cost(self, parameters: Parameters) -> float:
        """Of all uniquenesses, nats; those that are shared count once."""
        noise = parameters.uniquenesses
        if self.noise == "isotropic":
            return sum(self.prior.isotropic_cost(variance) for variance in noise[:, 0].tolist())
        return self.prior.cost(noise[0] if self.noise == "shared" else noise)


@dataclass(frozen=True)
class Solution:
    """A mixture with the moments of the rows under it.

    Attributes
    ----------
    parameters : Parameters
    log_likelihood : float
        Nats, of the rows as given to the search.
    cost : float
        The criterion, nats.
    counts : (K,) float64
        Soft counts under these parameters.
    means : (K, d) float64
        Of the rows under these parameters.
    spreads : sequence of Spread
        Second moments about these means.
    n_iter : int
    converged : bool
    """

    parameters: Parameters
    log_likelihood: float
    cost: float
    counts: FloatArray
    means: FloatArray
    spreads: Sequence[Spread]
    n_iter: int
    converged: bool

    @property
    def n_components(self) -> int:
        return self.parameters.n_components


class Pass:
    """One mixture with its work arrays: E-step, moments, M-step."""

    def __init__(self, samples: Samples, parameters: Parameters, problem: Problem, solver: Solver) -> None:
        self.samples, self.problem, self.solver = samples, problem, solver
        self.parameters = parameters.copy()
        evaluator = Evaluator(self.parameters)
        self.iteration = ExactIteration(
            self.parameters.buffer,
            self.parameters.offsets,
            evaluator.prepared,
            problem.prior.floor,
            problem.prior.count,
            problem.prior.scale,
            evaluator.work,
            NOISE[problem.noise],
            problem.pricing.uses_entropy,
        )

    def expect(self) -> float:
        """E-step. Returns minus the penalised log-likelihood of the parameters, nats."""
        self.samples.expect(self.iteration)
        self.iteration.finish()
        return self.iteration.prior_cost() - self.iteration.log_likelihood

    @property
    def counts(self) -> FloatArray:
        counts: FloatArray = self.iteration.soft_counts
        return counts

    def maximize(self) -> None:
        """M-step with as many factors as there are."""
        self.iteration.maximize()

    def spreads(self) -> list[Spread]:
        return [Covariance(matrix, self.solver) for matrix in self.iteration.covariances]

    def chosen(self) -> Parameters:
        """M-step in which the numbers of factors are chosen anew."""
        total = float(self.counts.sum())
        components = []
        for k, (count, spread) in enumerate(zip(self.counts.tolist(), self.spreads(), strict=True)):
            old = self.parameters.component(k)
            if count < LEAST_ROWS:
                components.append(old)
                continue
            best = self.problem.choice.best(count, spread, old.uniquenesses, len(old.loadings))
            mean = self.iteration.means[k].copy()
            components.append(Component(count / total, mean, best.loadings, best.uniquenesses))
        return Parameters.from_components(components)

    def solution(self, penalised: float, n_iter: int, converged: bool) -> Solution:
        """These parameters, after their E-step."""
        shapes = [
            (count, c.loadings, c.uniquenesses)
            for count, c in zip(
                (self.parameters.weights * self.samples.total_weight).tolist(), self.parameters.components(), strict=True
            )
        ]
        return Solution(
            parameters=self.parameters,
            log_likelihood=self.iteration.log_likelihood + self.samples.log_jacobian,
            cost=penalised + self.iteration.entropy + self.problem.pricing.mixture(shapes) - self.samples.log_jacobian,
            counts=self.counts,
            means=self.iteration.means,
            spreads=self.spreads(),
            n_iter=n_iter,
            converged=converged,
        )


def exact_em(
    samples: Samples,
    start: Parameters,
    problem: Problem,
    solver: Solver,
    max_iter: int,
    *,
    choose_at: Sequence[int] = (),
    choose_at_end: bool = True,
) -> Solution:
    """Run EM from `start`; the penalised log-likelihood never falls while the numbers of factors stay.

    Parameters
    ----------
    samples : Samples
    start : Parameters
    problem : Problem
    solver : Solver
        Work space.
    max_iter : int
    choose_at : sequence of int, optional
        Iterations, from 0, in which numbers of factors are chosen anew.
    choose_at_end : bool
        Whether they are chosen anew at the end, too, until that changes nothing.

    Returns
    -------
    Solution
        Components with too few rows are gone.
    """
    tolerance = problem.tol * samples.total_weight
    state = Pass(samples, start, problem, solver)
    previous = gain = np.inf
    settled = False
    for iteration in range(max_iter):
        penalised = state.expect()
        weakest = int(np.argmin(state.counts))
        if problem.annihilates and len(state.counts) > 1 and state.counts[weakest] < LEAST_ROWS:
            state = Pass(samples, state.parameters.without(weakest), problem, solver)
            previous = gain = np.inf
            continue
        earlier, gain = gain, previous - penalised
        previous = penalised
        converged = _gain_left(gain, earlier) < tolerance
        if converged and (settled or not choose_at_end):
            return state.solution(penalised, iteration + 1, converged=True)
        if not (converged or iteration in choose_at):
            state.maximize()
            continue
        chosen = state.chosen()
        settled = converged and chosen.n_factors == state.parameters.n_factors
        if chosen.n_factors != state.parameters.n_factors:
            gain = np.inf
        state = Pass(samples, chosen, problem, solver)
        previous = np.inf if not settled else previous
    return state.solution(state.expect(), max_iter, converged=False)


def _gain_left(gain: float, earlier: float) -> float:
    """What EM would still gain if it went on at the rate of its last two steps (Aitken)."""
    if not np.isfinite(earlier):
        return np.inf
    rate = min(max(gain / earlier, 0.0), _SLOWEST_RATE) if earlier > 0 else 0.0
    return gain * max(rate / (1.0 - rate), 0.5) if gain > 0 else 0.0


