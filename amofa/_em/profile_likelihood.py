"""EM on the profile likelihood: only labels are missing, each factor analyser is at its maximum for its rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from amofa._background import BackgroundDensity
from amofa._data.row_chunks import Near, Samples
from amofa._data.row_source import RowSource
from amofa._em.driver import CHOOSE, CONVERGED, GIVE_UP, GO_ON, Decision, Tell, go_on, run_em
from amofa._em.factor_analysis import Analyser, Covariance, FactorChoice, Prior, Spread
from amofa._em.gram import Panel, means_and_panels, solve_panels
from amofa._em.joint import GroupMoments, joint_family
from amofa._em.outcome import Outcome, RowMoments
from amofa._em.tails import least_rows
from amofa._kernels._factor_analysis import Solver
from amofa._kernels._pairs import Pairs
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._noise import Noise
from amofa._parameters import Component, Evaluator, Parameters
from amofa._typing import FloatArray
from amofa.criterion import Pricing, rounding_price
from amofa.threads import OneEach, in_order

# A component with fewer rows than this is removed. A single row can be one where its price grows as it becomes narrow,
# by the evidence with a prior of its own uniquenesses; otherwise a component without any spread is too cheap.
LEAST_ROWS, LEAST_ROWS_OF_ONE_PRICE = 0.5, 1.5
# With fewer columns, components are solved one after the other: threads would not pay.
_LEAST_COLUMNS = 32
# With so many components, and rows that are held in memory, each pass over all rows is followed by so many iterations
# over the pairs of a row and a component whose responsibility is above the bound, if a row has at most so many. Letter
# (20000 rows, K = 128) and pendigits (10992, K = 99) have 1.5; with 5 or 10 iterations, or 1e-3 or 1e-5 as the bound,
# runs take up to a quarter longer.
_MANY_COMPONENTS = 16
_NEAR_ITERATIONS = 8
_NEAR = 1e-4
_MOST_NEAR = 4.0
# Maximum number of choices of the numbers of factors at the end of EM, where two choices might alternate for ever.
_MOST_ROUNDS = 5
# A run is given up if this many iterations with the gain of the last step would not be enough.
_PATIENCE = 20.0
# Most of the rows that a background may have: with more, it would be a model of the table.
MOST_BACKGROUND = 0.5
# Its weight stays above this, so that it has a logarithm.
_LEAST_BACKGROUND = 1e-12
# Upper bound of the rate of convergence: beyond it, the remaining gain is not extrapolated.
_SLOWEST_RATE = 0.99


@dataclass(frozen=True)
class Problem:
    """The parts of a search that stay the same."""

    prior: Prior
    pricing: Pricing
    noise: Noise
    choice: FactorChoice
    tol: float  # EM ends when the cost is within about this much of its limit, in nats per row
    max_iter: int  # most iterations of one EM run on all rows
    annihilates: bool  # whether components with fewer than `least_rows` are removed
    check: Callable[[], None] = go_on  # raises an exception if the search must stop
    steps: FloatArray | None = None  # of rounded columns, if these have a price, (d,)
    least_rows: float = LEAST_ROWS
    degrees_of_freedom: float = np.inf  # of new components
    finds_tails: bool = False  # whether degrees of freedom are found, and paid for
    background: BackgroundDensity | None = None  # beside the components, whose weight is found and paid for

    def __getstate__(self) -> dict[str, Any]:
        """Return the problem for another process; this one, which waits for it, finds out whether to stop."""
        return vars(self) | {"check": go_on}

    def with_tails(self, degrees_of_freedom: float) -> Problem:
        """Return the problem of components with these degrees of freedom."""
        return replace(
            self,
            choice=replace(self.choice, degrees_of_freedom=degrees_of_freedom),
            least_rows=max(self.least_rows, least_rows(len(self.prior.floor), degrees_of_freedom)),
            degrees_of_freedom=degrees_of_freedom,
        )

    def rough(self) -> Problem:
        """Return the problem with the numbers of factors chosen roughly."""
        return replace(self, choice=replace(self.choice, is_rough=True))


def profile_em(
    samples: RowSource,
    start: Parameters,
    problem: Problem,
    solver: Solver | None,
    max_iter: int,
    *,
    choose_at: Sequence[int] = (),
    choose_at_end: bool = True,
    bar: float = np.inf,
    tell: Tell | None = None,
) -> Outcome:
    """Run EM from `start`; the penalised log-likelihood never falls while the numbers of factors stay the same.

    The outcome has moments of the rows, and no components with too few rows. For wide tables there is no solver, the
    work space for covariance matrices, and second moments come from the rows themselves.

    Parameters
    ----------
    choose_at : sequence of int, optional
        Iterations, from 0, in which the numbers of factors are chosen again.
    choose_at_end : bool
        Whether they are chosen again at the end, too, until nothing changes.
    bar : float
        The run is given up, not converged, if at the gain of its last step the cost would stay above this for many
        steps, and the choice of the numbers of factors at the end, if there is one, does not change that.
    tell : callable, optional
        Called with each iteration.
    """

    def run(start: Parameters, choose_at: Sequence[int], *, choose_at_end: bool) -> Outcome:
        iterate = make_iterate(samples, start, problem, solver)
        rule = _StoppingRule(problem.tol * samples.total_weight, choose_at, choose_at_end, bar)
        return run_em(iterate, rule, max_iter, check=problem.check, tell=tell)

    if samples.is_complete or not choose_at_end:
        return run(start.copy(), choose_at, choose_at_end=choose_at_end)
    # Where cells are missing, another choice only looks better: what counts is the cost at the end.
    best = run(start.copy(), choose_at, choose_at_end=False)
    for _ in range(_MOST_ROUNDS):
        chosen = make_iterate(samples, best.parameters, problem, solver).with_other_factors()
        if chosen.n_factors == best.parameters.n_factors:
            break
        other = run(chosen, (), choose_at_end=False)
        if not other.cost < best.cost:
            break
        best = other
    return best


def moments_of_rows(samples: RowSource, parameters: Parameters, problem: Problem, solver: Solver | None) -> RowMoments:
    """Return the moments of the rows under a mixture, by one E-step."""
    iterate = make_iterate(samples, parameters, problem, solver)
    iterate.expect()
    return iterate.moments()


class _StoppingRule:
    """Stop when little is left to gain, and another choice of the numbers of factors does not change them."""

    def __init__(self, tolerance: float, choose_at: Sequence[int], choose_at_end: bool, bar: float) -> None:
        self.tolerance, self.choose_at, self.choose_at_end, self.bar = tolerance, choose_at, choose_at_end, bar
        self.rounds, self.settled = 0, False
        # The numbers of factors before the last choice, and whether that was at the end.
        self.chosen_from: tuple[tuple[int, ...], bool] | None = None
        self.restart()

    def restart(self) -> None:
        self.previous = self.gain = np.inf
        # The price hardly changes while the numbers of factors stay the same.
        self.price: float | None = None

    def decide(self, iterate: ProfileIterate, n_iter: int, penalised: float) -> Decision:
        if self.chosen_from is not None:
            self._settle(*self.chosen_from, iterate.parameters.n_factors)
        if iterate.lacks_rows:
            self.restart()
            return GO_ON
        earlier, self.gain = self.gain, self.previous - penalised
        self.previous = penalised
        hopeless = self.bar < np.inf and self.gain < np.inf and self._is_hopeless(iterate, penalised)
        # A fit that hardly improves with these numbers of factors may improve with others.
        ended = hopeless or _gain_left(self.gain, earlier, iterate.n_iterations) < self.tolerance
        if ended and (self.settled or not self.choose_at_end or self.rounds == _MOST_ROUNDS):
            return GIVE_UP if hopeless else CONVERGED
        if not (ended or n_iter - 1 in self.choose_at):
            return GO_ON
        self.rounds += ended
        self.chosen_from = iterate.parameters.n_factors, ended
        return CHOOSE

    def _settle(self, before: tuple[int, ...], ended: bool, n_factors: tuple[int, ...]) -> None:
        """Look at what came of the last choice of the numbers of factors."""
        self.chosen_from = None
        self.settled = ended and n_factors == before
        self.price = None
        if not self.settled:
            self.restart()

    def _is_hopeless(self, iterate: ProfileIterate, penalised: float) -> bool:
        if self.price is None:
            self.price = iterate.price()
        return penalised + self.price - _PATIENCE / iterate.n_iterations * self.gain > self.bar


def _gain_left(gain: float, earlier: float, n_iterations: int) -> float:
    """Return what EM would still gain at the rate of its last two steps (Aitken), each of so many iterations.

    It is at least half of what the last iteration gained.
    """
    if not math.isfinite(earlier):
        return math.inf
    rate = min(max(gain / earlier, 0.0), _SLOWEST_RATE) if earlier > 0 else 0.0
    return gain * max(rate / (1.0 - rate), 0.5 / n_iterations) if gain > 0 else 0.0


# ---- iterates --------------------------------------------------------------------------------------------------------


class ProfileIterate(ABC):
    """A mixture with the moments of its rows; the base of two representations of second moments."""

    ends_with_m_step = True
    # In the step between two passes over all rows.
    n_iterations = 1
    samples: RowSource
    parameters: Parameters
    problem: Problem
    least_count: float
    scaled_log_likelihood: float
    entropy: float
    counts: FloatArray
    tail_counts: FloatArray
    means: FloatArray

    @abstractmethod
    def expect(self) -> float: ...

    @abstractmethod
    def log_determinants(self) -> list[float]: ...

    @abstractmethod
    def step(self) -> None: ...

    @abstractmethod
    def spreads(self) -> Sequence[Spread]: ...

    @abstractmethod
    def spreads_apart(self) -> Sequence[Spread]: ...

    @property
    def lacks_rows(self) -> bool:
        """Whether the next M-step removes a component."""
        is_short = self.least_count < self.problem.least_rows
        return self.problem.annihilates and is_short and self.parameters.n_components > 1

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the parameters of the last E-step, in the units of the table, nats."""
        return self.scaled_log_likelihood + self.samples.log_jacobian

    def price(self) -> float:
        """Return the price of the parameters, with the entropy if it counts, in nats."""
        pricing = self.problem.pricing
        parameters, steps = self.parameters, self.problem.steps
        counts = parameters.weights * (self.samples.total_weight * (1.0 - parameters.background_weight))
        shapes = list(zip(counts.tolist(), parameters.n_factors, self.log_determinants(), strict=True))
        n_more = parameters.n_tail_parameters if self.problem.finds_tails else 0
        n_more += parameters.background is not None
        price = (
            pricing.mixture(shapes, n_more)
            + (self.entropy if pricing.uses_entropy else 0.0)
            - self.samples.log_jacobian
        )
        if parameters.background is not None and pricing.uses_optimism:
            price += parameters.background.density.optimism
        if steps is None:
            return price
        shares = self.samples.column_weights / self.samples.total_weight
        return price + rounding_price(counts, parameters.uniquenesses, steps, shares)

    def cost(self, objective: float) -> float:
        return objective + self.price()

    def moments(self) -> RowMoments:
        return RowMoments(self.counts, self.tail_counts, self.means, self.spreads())

    def outcome(self, objective: float, n_iter: int, converged: bool) -> Outcome:
        cost = self.cost(objective)
        return Outcome(self.parameters, self.log_likelihood, cost, n_iter, converged, self.moments())

    def maximize(self, choose: bool = False) -> ProfileIterate:
        """Run the M-step; remove a component that lacks rows, or choose the numbers of factors again."""
        self._update_background()
        if self.lacks_rows:
            return self._with(self.parameters.without(int(np.argmin(self.counts))))
        if choose:
            return self._with(self._chosen())
        self.step()
        return self

    def _update_background(self) -> None:
        """Set the weight of the background, if there is one, to its share of the rows in the last E-step."""
        background = self.parameters.background
        if background is not None:
            share = 1.0 - float(self.counts.sum()) / self.samples.total_weight
            weight = min(max(share, _LEAST_BACKGROUND), MOST_BACKGROUND)
            self.parameters.background = background._replace(weight=weight)

    @abstractmethod
    def _with(self, parameters: Parameters) -> ProfileIterate:
        """Return an iterate of the same kind with other parameters."""

    def with_other_factors(self) -> Parameters:
        """Return the parameters after an E-step and another choice of the numbers of factors."""
        self.expect()
        return self.parameters if self.lacks_rows else self._chosen()

    def _chosen(self) -> Parameters:
        """Return the maximiser with the numbers of factors chosen again."""
        total, parameters = float(self.counts.sum()), self.parameters
        apart = self.samples.n_features >= _LEAST_COLUMNS
        choice = self.problem.choice

        def make_worker() -> Callable[[int], Component]:
            spreads = self.spreads_apart() if apart else self.spreads()

            def component(k: int) -> Component:
                self.problem.check()
                old, count = parameters.component(k), float(self.counts[k])
                given = choice.n_factors
                if count < self.problem.least_rows and (given in (None, len(old.loadings)) or count == 0):
                    return old
                best = self._best(choice, count, spreads[k], old)
                mean, degrees = self.means[k].copy(), old.degrees_of_freedom
                return Component(count / total, mean, best.loadings, best.uniquenesses, degrees)

            return component

        numbers = range(parameters.n_components)
        return Parameters.from_components(
            list(in_order(make_worker, numbers) if apart else map(make_worker(), numbers)), parameters.background
        )

    def _best(self, choice: FactorChoice, count: float, spread: Spread, old: Component) -> Analyser:
        """Return the best analyser of a component, whose number of factors is chosen."""
        return choice.best(count, spread, old.uniquenesses, len(old.loadings))


class CovarianceIterate(ProfileIterate):
    """A mixture with a covariance matrix for each component; M-steps change the parameters in place."""

    def __init__(self, samples: RowSource, parameters: Parameters, problem: Problem, solver: Solver) -> None:
        self.samples, self.parameters, self.problem, self.solver = samples, parameters, problem, solver
        self.least_count = self.scaled_log_likelihood = self.entropy = 0.0
        self.iteration = ProfileLikelihoodIteration(
            self.parameters.buffer,
            self.parameters.offsets,
            problem.prior.floor,
            problem.prior.count,
            problem.prior.scale,
            problem.noise.code,
            problem.pricing.uses_entropy,
        )
        # Arrays of the iteration itself, which each E-step fills.
        self.counts, self.tail_counts = self.iteration.soft_counts, self.iteration.tail_counts
        self.means = self.iteration.means
        self.spaces = OneEach(self.iteration.step_space)
        self.near: Near | None = None
        K = parameters.n_components
        if K >= _MANY_COMPONENTS and samples.is_small and samples.is_complete:
            self.near = Near.of_nothing(K, samples.n_rows, min(_NEAR, 0.5 / K))
            self.sums = np.empty_like(self.iteration.sums)
            self.n_iterations = 1 + _NEAR_ITERATIONS

    def _with(self, parameters: Parameters) -> CovarianceIterate:
        return CovarianceIterate(self.samples, parameters, self.problem, self.solver)

    def expect(self) -> float:
        """Run the E-step and return minus the penalised log-likelihood, nats."""
        self.samples.expect(self.iteration, self.near, self.parameters)
        if self.near is not None:
            self.sums[:] = self.iteration.sums
        self.least_count = self.iteration.finish()
        self.scaled_log_likelihood, self.entropy = self.iteration.log_likelihood, self.iteration.entropy
        return self._prior_cost() - self.iteration.log_likelihood

    def _prior_cost(self) -> float:
        return float(self.iteration.prior_cost())

    def _best(self, choice: FactorChoice, count: float, spread: Spread, old: Component) -> Analyser:
        samples = self.samples
        if not samples.is_complete:
            assert isinstance(spread, Covariance)
            expected = old.loadings.T @ old.loadings + np.diag(old.uniquenesses)
            shown, share = samples.covariance_seen(expected, spread.matrix)
            spread, count, choice = Covariance(shown, spread.solver), share * count, choice.of_share(share)
        return super()._best(choice, count, spread, old)

    def log_determinants(self) -> list[float]:
        """Return log |Sigma| of each component."""
        return self.iteration.log_determinants()

    def step(self) -> None:
        """Run the M-step with the present numbers of factors, and some iterations over near pairs alone.

        These may only begin and end with passes over all rows, after which alone EM may end.
        """
        pairs = self._pairs()
        self._maximize()
        if pairs is not None:
            for _ in range(_NEAR_ITERATIONS):
                self.problem.check()
                self.iteration.clear()
                self._add_pairs(pairs, self.iteration.sums)
                pairs.add_rest(self.iteration.sums)
                self.iteration.finish()
                self._maximize()

    def _pairs(self) -> Pairs | None:
        """Return the near pairs of the last pass over all rows, if there are few."""
        near = self.near
        if near is None or np.count_nonzero(near.marks) > _MOST_NEAR * len(near.kept):
            return None
        assert isinstance(self.samples, Samples)
        pairs = self.samples.pairs(self.iteration, near)
        sums = np.zeros_like(self.sums)
        self._add_pairs(pairs, sums)
        pairs.set_rest(self.sums, sums)
        return pairs

    def _add_pairs(self, pairs: Pairs, sums: FloatArray) -> None:
        """Run the E-step of pairs, and add their sums."""
        numbers = range(self.parameters.n_components)

        def make_finder() -> Callable[[int], None]:
            scratch = np.empty(self.iteration.scratch_size)
            return lambda k: pairs.find(k, scratch)

        def make_adder() -> Callable[[int], None]:
            scratch = np.empty(self.iteration.scratch_size)
            return lambda k: pairs.add(k, sums, scratch)

        deque(in_order(make_finder, numbers), maxlen=0)
        pairs.share()
        deque(in_order(make_adder, numbers), maxlen=0)

    def _maximize(self) -> None:
        if self.samples.n_features < _LEAST_COLUMNS or self.problem.noise.is_shared:
            self.iteration.maximize()
            return

        def make_worker() -> Callable[[int], None]:
            space = self.spaces.get()
            return lambda k: self.iteration.step(k, space)

        self.iteration.begin_step()
        deque(in_order(make_worker, range(self.parameters.n_components)), maxlen=0)
        self.iteration.end_step()

    def spreads(self) -> Sequence[Spread]:
        return [Covariance(matrix, self.solver) for matrix in self.iteration.covariances]

    def spreads_apart(self) -> Sequence[Spread]:
        """Return the same for another thread."""
        solver = Solver(self.samples.n_features)
        return [Covariance(matrix, solver) for matrix in self.iteration.covariances]


class JointIterate(CovarianceIterate):
    """A mixture whose components have loadings or noise in common, so that they have one M-step."""

    def __init__(self, samples: RowSource, parameters: Parameters, problem: Problem, solver: Solver) -> None:
        super().__init__(samples, parameters, problem, solver)
        self.family = joint_family(problem.choice, solver)
        self.near, self.n_iterations = None, 1

    def _with(self, parameters: Parameters) -> JointIterate:
        return JointIterate(self.samples, parameters, self.problem, self.solver)

    def _prior_cost(self) -> float:
        return self.problem.prior.cost(self.parameters.uniquenesses, self.problem.noise)

    def step(self) -> None:
        moments = self._group_moments()
        self.iteration.begin_step()
        self.parameters.means[:] = moments.means
        self.family.maximize(moments, self.parameters)
        self.iteration.end_step()

    def _chosen(self) -> Parameters:
        return self.family.with_chosen_factors(self._group_moments(), self.parameters)

    def _group_moments(self) -> GroupMoments:
        # A component without rows keeps its mean.
        means = np.where(self.counts[:, None] > 0, self.means, self.parameters.means)
        return GroupMoments(self.counts.copy(), means, self.iteration.covariances)


class RowsIterate(ProfileIterate):
    """A mixture with the rows themselves as second moments, for fewer rows than columns, without (d, d) arrays."""

    samples: Samples

    def __init__(self, samples: Samples, parameters: Parameters, problem: Problem) -> None:
        self.samples, self.parameters, self.problem = samples, parameters, problem
        self.least_count = self.scaled_log_likelihood = self.entropy = 0.0
        self.counts = self.tail_counts = np.zeros(parameters.n_components)
        self.means = np.zeros((parameters.n_components, parameters.n_features))
        self.panels: list[Panel] = []
        self.responsibilities = np.empty((parameters.n_components, samples.n_rows))

    def _with(self, parameters: Parameters) -> RowsIterate:
        return RowsIterate(self.samples, parameters, self.problem)

    def expect(self) -> float:
        """Run the E-step and return minus the penalised log-likelihood, nats."""
        self.scaled_log_likelihood = self.entropy = 0.0
        spreads = None if self.parameters.n_tail_parameters == 0 else np.empty_like(self.responsibilities)
        for block in self.samples.posterior(Evaluator(self.parameters), with_spreads=True):
            h, w = block.responsibilities, block.row_weights
            ones = np.ones(h.shape[1]) if w is None else w
            self.scaled_log_likelihood += float(block.log_density @ ones)
            if block.share is not None:
                rest = 1.0 - block.share
                self.entropy -= float((rest * np.log(np.where(rest > 0, rest, 1.0))) @ ones)
                h = h * block.share
            self.entropy -= float((h * np.log(np.where(h > 0, h, 1.0))).sum(axis=0) @ ones)
            self.responsibilities[:, block.rows] = h * ones
            if spreads is not None:
                spreads[:, block.rows] = block.spreads
        self.counts = self.responsibilities.sum(axis=1)
        self.least_count = float(self.counts.min())
        # The M-step of t components weighs rows by (nu + d) / (nu + m) (Peel & McLachlan 2000).
        weighted = self.responsibilities if spreads is None else self.responsibilities / spreads
        self.tail_counts = weighted.sum(axis=1)
        self.means, self.panels = means_and_panels(self.samples, weighted, self.counts)
        prior, noise = self.problem.prior, self.problem.noise
        return prior.cost(self.parameters.uniquenesses, noise) - self.scaled_log_likelihood

    def log_determinants(self) -> list[float]:
        """Return log |Sigma| of each component."""
        return [log_determinant(c.loadings, c.uniquenesses) for c in self.parameters.components()]

    def step(self) -> None:
        """Run the M-step with the present numbers of factors."""
        total = float(self.counts.sum())
        old, noise = self.parameters, self.problem.noise
        alive = [k for k, count in enumerate(self.counts) if count > 0]
        updated = old.copy()
        updated.weights[:] = self.counts / total
        updated.means[alive] = self.means[alive]
        for group in [alive] if noise.is_shared else [[k] for k in alive]:
            self.problem.check()
            panels, counts = [self.panels[k] for k in group], [float(self.counts[k]) for k in group]
            n_factors = [old.n_factors[k] for k in group]
            if noise.is_isotropic:
                best = self.problem.choice.isotropic(counts[0], panels[0], n_factors[0])
                loadings, uniquenesses = [best.loadings], best.uniquenesses
            else:
                found = solve_panels(panels, counts, n_factors, old.uniquenesses[group[0]], self.problem.prior, 1, 0.0)
                loadings, uniquenesses = found.loadings, found.uniquenesses
            for k, values in zip(group, loadings, strict=True):
                updated.component_loadings(k)[:] = values
                updated.uniquenesses[k] = uniquenesses
        self.parameters = updated

    def spreads(self) -> Sequence[Spread]:
        return self.panels

    def spreads_apart(self) -> Sequence[Spread]:
        """Return the same for another thread."""
        return self.panels


def log_determinant(loadings: FloatArray, uniquenesses: FloatArray) -> float:
    """Return log |Sigma| of a factor analyser, by the determinant lemma."""
    capacitance = np.eye(len(loadings)) + (loadings / uniquenesses) @ loadings.T
    return float(np.log(uniquenesses).sum() + np.linalg.slogdet(capacitance)[1])


def make_iterate(samples: RowSource, parameters: Parameters, problem: Problem, solver: Solver | None) -> ProfileIterate:
    """Make an iterate with covariance matrices, or without a solver one that uses the rows."""
    if solver is None:
        assert isinstance(samples, Samples)
        return RowsIterate(samples, parameters, problem)
    if problem.noise.is_joint:
        return JointIterate(samples, parameters, problem, solver)
    return CovarianceIterate(samples, parameters, problem, solver)
