"""EM in which only the labels are missing: every factor analyser is at its maximum for its rows' second moments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import NOISE, Covariance, FactorChoice, Prior, Spread
from amofa._em.gram import Panel, means_and_panels, solve_panels
from amofa._kernels._analyser import Solver
from amofa._kernels._exact import ExactIteration
from amofa._parameters import Component, Evaluator, FloatArray, Parameters
from amofa._search.clock import check_time
from amofa._search.journal import Iterated, Recalled
from amofa.criterion import Pricing
from amofa.threads import OneEach, in_order

# A component of fewer rows than this has no spread of its own.
LEAST_ROWS = 1.5
# With fewer columns components are solved one after the other: side by side is not worth it.
LEAST_COLUMNS = 32
# At its end EM chooses numbers of factors anew so often at most: two choices may follow each other for ever.
_MOST_ROUNDS = 5
# A run is given up where so many steps with the gain of the last one would not do.
_PATIENCE = 20.0
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
    """One mixture with its work arrays: E-step, moments, M-step, which changes the parameters in place."""

    def __init__(self, samples: Samples, parameters: Parameters, problem: Problem, solver: Solver) -> None:
        self.samples, self.problem, self.solver = samples, problem, solver
        self.parameters, self.least_count = parameters, 0.0
        evaluator = Evaluator(parameters)
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
        self.spaces = OneEach(self.iteration.step_space)

    def expect(self) -> float:
        """E-step. Returns minus the penalised log-likelihood of the parameters, nats."""
        self.samples.expect(self.iteration)
        self.least_count = self.iteration.finish()
        return self.iteration.prior_cost() - self.iteration.log_likelihood

    def log_determinants(self) -> list[float]:
        """log |Sigma| of each component."""
        return self.iteration.log_determinants()

    @property
    def log_likelihood(self) -> float:
        return self.iteration.log_likelihood

    @property
    def entropy(self) -> float:
        return self.iteration.entropy

    @property
    def counts(self) -> FloatArray:
        return self.iteration.soft_counts

    @property
    def means(self) -> FloatArray:
        return self.iteration.means

    def maximize(self) -> None:
        """M-step with as many factors as there are."""
        if self.samples.n_features < LEAST_COLUMNS or self.problem.noise == "shared":
            self.iteration.maximize()
            return

        def make_worker() -> Callable[[int], None]:
            space = self.spaces.get()
            return lambda k: self.iteration.step(k, space)

        self.iteration.begin_step()
        for _ in in_order(make_worker, range(self.parameters.n_components)):
            pass
        self.iteration.end_step()

    def spreads(self) -> list[Spread]:
        return [Covariance(matrix, self.solver) for matrix in self.iteration.covariances]

    def spreads_apart(self) -> list[Spread]:
        """The same for another thread."""
        solver = Solver(self.samples.n_features)
        return [Covariance(matrix, solver) for matrix in self.iteration.covariances]


class WidePass:
    """The same for tables with fewer rows than columns, from the rows themselves; no (d, d) array."""

    def __init__(self, samples: Samples, parameters: Parameters, problem: Problem) -> None:
        self.samples, self.problem = samples, problem
        self.parameters, self.least_count = parameters, 0.0
        self.log_likelihood = self.entropy = 0.0
        self.counts = np.zeros(parameters.n_components)
        self.means = np.zeros((parameters.n_components, parameters.n_features))
        self.panels: list[Panel] = []
        self.responsibilities = np.empty((parameters.n_components, samples.n_rows))

    def expect(self) -> float:
        self.log_likelihood = self.entropy = 0.0
        for block in self.samples.posterior(Evaluator(self.parameters)):
            h, w = block.responsibilities, block.row_weights
            ones = np.ones(h.shape[1]) if w is None else w
            self.log_likelihood += float(block.log_density @ ones)
            self.entropy -= float((h * np.log(np.where(h > 0, h, 1.0))).sum(axis=0) @ ones)
            self.responsibilities[:, block.rows] = h * ones
        self.counts = self.responsibilities.sum(axis=1)
        self.least_count = float(self.counts.min())
        self.means, self.panels = means_and_panels(self.samples, self.responsibilities)
        return self.problem.prior_cost(self.parameters) - self.log_likelihood

    def log_determinants(self) -> list[float]:
        return [log_determinant(c.loadings, c.uniquenesses) for c in self.parameters.components()]

    def maximize(self) -> None:
        total = float(self.counts.sum())
        old, spreads = self.parameters, self.spreads()
        alive = [k for k, count in enumerate(self.counts) if count > 0]
        groups = [alive] if self.problem.noise == "shared" else [[k] for k in alive]
        updated = old.copy()
        updated.weights[:] = self.counts / total
        updated.means[alive] = self.means[alive]
        for group in groups:
            check_time()
            panels, counts = [spreads[k] for k in group], [float(self.counts[k]) for k in group]
            n_factors = [old.n_factors[k] for k in group]
            if self.problem.noise == "isotropic":
                best = self.problem.choice.isotropic(counts[0], panels[0], n_factors[0])
                loadings, noise = [best.loadings], best.uniquenesses
            else:
                found = solve_panels(panels, counts, n_factors, old.uniquenesses[group[0]], self.problem.prior, 1, 0.0)
                loadings, noise = found.loadings, found.uniquenesses
            for k, values in zip(group, loadings, strict=True):
                updated.component_loadings(k)[:] = values
                updated.uniquenesses[k] = noise
        self.parameters = updated

    def spreads(self) -> list[Panel]:
        return self.panels

    def spreads_apart(self) -> list[Panel]:
        return self.panels


def log_determinant(loadings: FloatArray, uniquenesses: FloatArray) -> float:
    """log |Sigma| of a factor analyser, by the determinant lemma."""
    capacitance = np.eye(len(loadings)) + (loadings / uniquenesses) @ loadings.T
    return float(np.log(uniquenesses).sum() + np.linalg.slogdet(capacitance)[1])


AnyPass = Pass | WidePass


def make_pass(samples: Samples, parameters: Parameters, problem: Problem, solver: Solver | None) -> AnyPass:
    """Through covariance matrices, or without a solver through the rows."""
    return WidePass(samples, parameters, problem) if solver is None else Pass(samples, parameters, problem, solver)


def chosen(state: AnyPass) -> Parameters:
    """M-step in which the numbers of factors are chosen anew."""
    total, parameters = float(state.counts.sum()), state.parameters
    apart = state.samples.n_features >= LEAST_COLUMNS

    def make_worker() -> Callable[[int], Component]:
        spreads = state.spreads_apart() if apart else state.spreads()

        def component(k: int) -> Component:
            check_time()
            old, count = parameters.component(k), float(state.counts[k])
            given = state.problem.choice.n_factors
            if count < LEAST_ROWS and (given in (None, len(old.loadings)) or count == 0):
                return old
            best = state.problem.choice.best(count, spreads[k], old.uniquenesses, len(old.loadings))
            return Component(count / total, state.means[k].copy(), best.loadings, best.uniquenesses)

        return component

    numbers = range(parameters.n_components)
    return Parameters.from_components(list(in_order(make_worker, numbers) if apart else map(make_worker(), numbers)))


def price(state: AnyPass) -> float:
    """What the parameters of a pass cost beyond the penalised log-likelihood, nats; the entropy where it counts."""
    pricing = state.problem.pricing
    counts = (state.parameters.weights * state.samples.total_weight).tolist()
    shapes = list(zip(counts, state.parameters.n_factors, state.log_determinants(), strict=True))
    return pricing.mixture(shapes) + (state.entropy if pricing.uses_entropy else 0.0) - state.samples.log_jacobian


def solution(state: AnyPass, penalised: float, n_iter: int, converged: bool) -> Solution:
    """The parameters of a pass, after their E-step."""
    return Solution(
        parameters=state.parameters,
        log_likelihood=state.log_likelihood + state.samples.log_jacobian,
        cost=penalised + price(state),
        counts=state.counts,
        means=state.means,
        spreads=state.spreads(),
        n_iter=n_iter,
        converged=converged,
    )


def exact_em(
    samples: Samples,
    start: Parameters,
    problem: Problem,
    solver: Solver | None,
    max_iter: int,
    *,
    choose_at: Sequence[int] = (),
    choose_at_end: bool = True,
    bar: float = np.inf,
    iterated: Iterated | None = None,
) -> Solution:
    """Run EM from `start`; the penalised log-likelihood never falls while the numbers of factors stay.

    Parameters
    ----------
    samples : Samples
    start : Parameters
    problem : Problem
    solver : Solver, optional
        Work space for covariance matrices. Without it second moments come from the rows themselves, for wide tables.
    max_iter : int
    choose_at : sequence of int, optional
        Iterations, from 0, in which numbers of factors are chosen anew.
    choose_at_end : bool
        Whether they are chosen anew at the end, too, until that changes nothing.
    bar : float
        The run is given up, not converged, where at the gain of its last step the cost stays above this for long, and
        a choice of the numbers of factors, if there is to be one at the end, does not change that.
    iterated : callable, optional
        Told of each iteration.

    Returns
    -------
    Solution
        Components with too few rows are gone.
    """
    tolerance = problem.tol * samples.total_weight
    state = make_pass(samples, start.copy(), problem, solver)
    previous = gain = np.inf
    settled, rounds = False, 0
    # While numbers of factors stay the price hardly changes.
    beyond: float | None = None
    for iteration in range(max_iter):
        check_time()
        penalised = state.expect()
        if iterated is not None:
            log_likelihood = state.log_likelihood + state.samples.log_jacobian
            iterated(iteration + 1, state.parameters.n_factors, log_likelihood, penalised + price(state))
        if problem.annihilates and state.least_count < LEAST_ROWS and state.parameters.n_components > 1:
            state = make_pass(samples, state.parameters.without(int(np.argmin(state.counts))), problem, solver)
            previous = gain = np.inf
            beyond = None
            continue
        earlier, gain = gain, previous - penalised
        previous = penalised
        hopeless = False
        if gain < np.inf and bar < np.inf:
            beyond = price(state) if beyond is None else beyond
            hopeless = penalised + beyond - _PATIENCE * gain > bar
        # What hardly gets better with these numbers of factors may with others.
        ended = hopeless or _gain_left(gain, earlier) < tolerance
        last = settled or not choose_at_end or rounds == _MOST_ROUNDS
        if ended and last:
            return solution(state, penalised, iteration + 1, converged=not hopeless)
        if not (ended or iteration in choose_at):
            state.maximize()
            continue
        rounds += ended
        new = chosen(state)
        settled = ended and new.n_factors == state.parameters.n_factors
        if new.n_factors != state.parameters.n_factors:
            gain = np.inf
        state = make_pass(samples, new, problem, solver)
        beyond = None
        previous = np.inf if not settled else previous
    return solution(state, state.expect(), max_iter, converged=False)


def _gain_left(gain: float, earlier: float) -> float:
    """What EM would still gain if it went on at the rate of its last two steps (Aitken)."""
    if not math.isfinite(earlier):
        return math.inf
    rate = min(max(gain / earlier, 0.0), _SLOWEST_RATE) if earlier > 0 else 0.0
    return gain * max(rate / (1.0 - rate), 0.5) if gain > 0 else 0.0


def solution_again(outcome: Recalled, samples: Samples, problem: Problem, solver: Solver | None) -> Solution:
    """A solution from a journal, with its moments; one E-step."""
    state = make_pass(samples, outcome.parameters, problem, solver)
    found = solution(state, state.expect(), outcome.n_iter, outcome.converged)
    return replace(found, log_likelihood=outcome.log_likelihood, cost=outcome.cost)
