"""The default search: split components, several ways, and merge pairs of them, until no move pays.

A search is a `State` and a step. The phase of the state names the method that is the next step, and each method sets
the phase that follows it; docs/algorithm.md describes the phases in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._em.outcome import Outcome, RowMoments
from amofa._em.profile_likelihood import Problem, moments_of_rows, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa._search.base import Search
from amofa._search.constraints import REFINEMENT, Constraints
from amofa._search.local_splits import LocalSplitter
from amofa._search.merges import MergedPair, merge_candidates
from amofa._search.monitor import Monitor
from amofa._search.paper_moves import with_tied_noise, without_idle
from amofa._search.state import END, LocalSplit, State
from amofa.threads import OneEach

# The gain of a local fit is a lower bound of that of EM on all rows. Splits that fall short by more than the first
# number, in nats per row, are not tried on all rows. The second one is the most single splits, or merges, to try.
_HOPELESS = 0.05
_MOST_TRIALS = 3
# A cost counts as lower if it is lower by this many nats, and by this share, which is more than rounding.
_LEAST_GAIN, _LEAST_SHARE = 1e-3, 1e-12
# EM of the chosen model uses this share of the tolerance.
_REFINED = 1e-5


class DefaultSearch(Search):
    """Grow by splits, merge, and so on until no move lowers the cost.

    Parameters
    ----------
    state, samples, constraints, monitor
        As in `Search`.
    problems : mapping of Problem
        One for each kind of noise.
    given : callable
        Makes the mixture to start from instead of one component, for a problem, or returns None. The result never
        costs more than this mixture.
    families : sequence of Noise
        Kinds of noise that are searched from their own starts, in this order.
    shares : bool
        Whether the search continues from a model with separate noise to one with shared noise, if that does not cost
        more at once.
    """

    PHASES = (
        *("start", "settle", "reduce", "tidy", "look", "split", "halve", "merge", "factors"),
        *("share", "refine", "refine_unshared"),
    )

    def __init__(
        self,
        state: State,
        samples: Samples,
        problems: Mapping[Noise, Problem],
        given: Callable[[Problem], Parameters | None],
        families: Sequence[Noise],
        *,
        shares: bool,
        constraints: Constraints,
        monitor: Monitor,
    ) -> None:
        super().__init__(state, samples, constraints, monitor)
        self.problems, self.given, self.families, self.shares = problems, given, families, shares
        # Starts of splits and merges do not need all rows of a huge table.
        self.sample = samples.thinned()
        # None for tables with fewer rows than columns, which need no (d, d) arrays.
        self.solvers = OneEach(lambda: Solver(samples.n_features) if samples.n_rows >= samples.n_features else None)
        self.is_forced = constraints.n_components is not None
        # A local fit that costs up to this many nats more than the whole component is tried on all rows.
        self.worth_a_trial = np.inf if self.is_forced else _HOPELESS * samples.total_weight
        # Pairs of the present mixture, once they have been asked for.
        self.pairs: tuple[Outcome, list[MergedPair]] | None = None

    # -- phases: the start -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Fit one component, or price the given mixture as it is."""
        state = self.state
        state.noise, state.splits, state.trial = self.families[state.family], [], 0
        init = self.given(self.problem)
        if init is None:
            self._accept("start", -1, self._fit(self._one_component(), choose_at=(0,)))
            state.phase = "look"
            return
        state.given = self._em(init, self.problem, 0)
        self._accept("start", -1, state.given)
        state.pending, state.action, state.component, state.phase = init, "start", -1, "settle"

    def settle(self) -> None:
        """Fit the pending mixture, and fit it again if components became empty or coincide."""
        state = self.state
        assert state.pending is not None
        fit = self._fit(state.pending, choose_at=(0,))
        self._accept(state.action, state.component, fit)
        fewer = without_idle(fit.parameters, self.samples)
        state.pending = None if fewer is fit.parameters else fewer
        if state.pending is None:
            state.phase = "reduce"

    def reduce(self) -> None:
        """Merge two components, if there are more than allowed."""
        state = self.state
        if self.current.n_components <= self.most():
            state.phase = "tidy"
            return
        pair = self._merge_candidates()[0]
        state.pending, state.action, state.component, state.phase = self._merged(pair), "merge", pair.first, "settle"

    def tidy(self) -> None:
        """Merge the given components as far as that pays, which is much cheaper than splits in between."""
        if self._try_merge() is None:
            self.state.phase = "look"

    # -- phases: moves ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Find the best local split of each component; it is known for those that have not changed."""
        if self.room() == 0:
            self._go_to("merge")
            return
        splitter = LocalSplitter(self.sample, self.problem, self.solvers, self.worth_a_trial)
        parameters, counts = self.current.parameters, self._moments().counts
        self.state.splits = splitter.best_splits(parameters, counts, self.state.splits)
        self._go_to("split")

    def split(self) -> None:
        """Try the next choice of splits on all rows."""
        state, trials = self.state, self._trials()
        if state.trial == len(trials) or state.splits[trials[state.trial][0]].gain < -self.worth_a_trial:
            self._go_to("halve" if self.is_forced else "merge")
        elif self._try_split(trials[state.trial], state.splits):
            self._go_to("look")
        else:
            state.trial += 1

    def halve(self) -> None:
        """Divide the rows of a component, the heaviest first, if one must be split and no local fit holds."""
        parameters = self.current.parameters
        responsibilities = self.sample.responsibilities(parameters)
        splitter = LocalSplitter(self.sample, self.problem, self.solvers, self.worth_a_trial)
        for k in np.argsort(-parameters.weights, kind="stable").tolist():
            for start in splitter.starts_of(parameters.component(k), responsibilities[k]):
                first, second = (c._replace(weight=c.weight * parameters.weights[k]) for c in start.components())
                splits = list(self.state.splits)
                splits[k] = replace(splits[k], children=(first, second))
                if self._try_split([k], splits):
                    self._go_to("look")
                    return
        self._go_to("merge")

    def merge(self) -> None:
        """Try the next pair of components as one."""
        accepted = self._try_merge()
        if accepted is None:
            self._go_to("factors")
        elif accepted:
            self._go_to("look")

    def factors(self) -> None:
        """Give the components, the heaviest first, the numbers of factors of a given sequence."""
        state, n_factors = self.state, self.constraints.n_factors
        if isinstance(n_factors, tuple):
            start = self._with_factors(n_factors)
            problem = self.problem
            self._accept("factor", -1, self._em(start, problem, problem.max_iter, choose_at_end=False))
        given = state.given
        if given and self.constraints.met_by(given.parameters) and self.current.cost > given.cost + _least_gain(given):
            # EM does not lower its cost, so it has converged.
            state.current = replace(given, converged=True)
        state.given = None
        may_share = self.shares and state.noise is Noise.COMPONENT and state.unshared is None
        self._go_to("share" if may_share else "refine")

    # -- phases: noise, and the end --------------------------------------------------------------------------------

    def share(self) -> None:
        """Let the components share their noise; continue with it if that costs no more, or if more must be found."""
        state, found = self.state, self.current
        state.noise = Noise.SHARED
        fit = self._fit(with_tied_noise(found.parameters, Noise.SHARED), choose_at=(0,))
        # With one component there is nothing to share and costs are equal, but more components may be found.
        costs_no_more = bool(fit.cost <= found.cost + _least_gain(found))
        accepted = costs_no_more or not self.constraints.met_by(found.parameters)
        if accepted:
            state.current, state.unshared, state.splits = fit, found, []
            self._go_to("look")
        else:
            state.noise = Noise.COMPONENT
            self._go_to("refine")
        self.monitor.see("share", -1, fit, accepted=accepted)

    def refine(self) -> None:
        """Run EM of the chosen model to a tolerance so small that the result does not depend on it visibly."""
        state = self.state
        self._refine(rival=None)
        if state.unshared is None:
            self._end_family(self.current)
            return
        # Refining can gain at most the tolerance of EM.
        tolerance = self.problem.tol * self.samples.total_weight
        least = replace(state.unshared, cost=state.unshared.cost - tolerance)
        if self.monitor.is_better(self.current, least):
            self._end_family(self.current)
            return
        state.shared, state.current, state.noise = self.current, state.unshared, Noise.COMPONENT
        self._go_to("refine_unshared")

    def refine_unshared(self) -> None:
        """Refine the model with separate noise, too, if it may be the better one."""
        shared = self.state.shared
        assert shared is not None
        self._refine(rival=shared)
        # A model whose EM has not converged must be better by more than rounding.
        handicap = 0.0 if self.current.converged else _least_gain(self.current)
        own = replace(self.current, cost=self.current.cost + handicap)
        self._end_family(shared if self.monitor.is_better(shared, own) else self.current)

    # -- what phases have in common --------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        return self.problems[self.state.noise]

    def room(self) -> int:
        """Return how many more components are allowed."""
        return max(0, self.most() - self.current.n_components)

    def most(self) -> int:
        """Return the maximum number of components: no more than distinct rows, whatever their weights."""
        n = self.samples.n_rows
        return min(n, self.constraints.most_components or n)

    def bar(self) -> float:
        """Return the cost below which a model is better."""
        return self.current.cost - _least_gain(self.current)

    def _go_to(self, phase: str) -> None:
        self.state.phase, self.state.trial = phase, 0

    def _end_family(self, found: Outcome) -> None:
        state = self.state
        earlier = state.result
        state.result = found if earlier is None or self.monitor.is_better(found, earlier) else earlier
        state.unshared = state.shared = None
        state.family += 1
        self._go_to("start" if state.family < len(self.families) else END)

    def _moments(self) -> RowMoments:
        """Return the moments of all rows under the present mixture."""
        if self.current.moments is None:
            moments = moments_of_rows(self.samples, self.current.parameters, self.problem, self.solvers.get())
            self.state.current = replace(self.current, moments=moments)
            return moments
        return self.current.moments

    def _one_component(self) -> Parameters:
        d = self.samples.n_features
        # A floor may be above the variance.
        noise = np.full(d, max(1.0, float(self.problem.prior.floor.max())))
        return Parameters.from_components([Component(1.0, np.zeros(d), np.zeros((0, d)), noise)])

    # -- splits --

    def _trials(self) -> list[list[int]]:
        """Return the sets of components to split: all splits that pay at once, then the best ones one by one."""
        splits = self.state.splits
        found = [i for i, split in enumerate(splits) if split.children is not None]
        found.sort(key=lambda i: -splits[i].gain)
        paying = [i for i in found if splits[i].gain > 0][: self.room()]
        together = [paying] if len(paying) > 1 else []
        return together + [[i] for i in (found if self.is_forced else found[:_MOST_TRIALS])]

    def _try_split(self, chosen: Sequence[int], splits: Sequence[LocalSplit]) -> bool:
        """Replace the chosen components by their children and run EM on all rows; keep what lowers the cost."""
        components: list[Component] = []
        added: list[Component] = []
        for k, component in enumerate(self.current.parameters.components()):
            children = splits[k].children if k in chosen else None
            if children is None:
                components.append(component)
            else:
                components.append(children[0])
                added.append(children[1])
        start = Parameters.from_components([*components, *added])
        fit = self._fit(start, bar=np.inf if self.is_forced else self.bar())
        # Components that are required must have rows and differ.
        holds = without_idle(fit.parameters, self.samples) is fit.parameters
        accepted = holds if self.is_forced else bool(fit.cost < self.bar())
        if accepted:
            self.state.current = fit
        self.monitor.see("split", chosen[0] if len(chosen) == 1 else -1, fit, accepted=accepted)
        return accepted

    # -- merges --

    def _try_merge(self) -> bool | None:
        """Try to merge the next pair of components; return None if no pair may lower the cost."""
        state = self.state
        if self.is_forced or self.current.n_components == 1 or state.trial == _MOST_TRIALS:
            return None
        pairs = self._merge_candidates()
        if state.trial == len(pairs) or pairs[state.trial].excess > _HOPELESS * self.samples.total_weight:
            return None
        pair = pairs[state.trial]
        fit = self._fit(self._merged(pair), bar=self.bar())
        accepted = bool(fit.cost < self.bar())
        if accepted:
            state.current = fit
        state.trial = 0 if accepted else state.trial + 1
        self.monitor.see("merge", pair.first, fit, accepted=accepted)
        return accepted

    def _merge_candidates(self) -> list[MergedPair]:
        moments = self._moments()
        if self.pairs is None or self.pairs[0] is not self.current:
            pairs = merge_candidates(self.sample, self.current.parameters, moments, self.problem)
            self.pairs = self.current, pairs
        return self.pairs[1]

    def _merged(self, pair: MergedPair) -> Parameters:
        """Return the present mixture with two components merged."""
        components = self.current.parameters.components()
        kept = [c for k, c in enumerate(components) if k not in (pair.first, pair.second)]
        return Parameters.from_components([*kept, pair.merged])

    # -- factors, and more EM --

    def _with_factors(self, n_factors: tuple[int, ...]) -> Parameters:
        parameters, moments = self.current.parameters, self._moments()
        components = []
        for k, wanted in zip(np.argsort(-parameters.weights, kind="stable").tolist(), n_factors, strict=False):
            component = parameters.component(k)
            choice = replace(self.problem.choice, n_factors=wanted)
            best = choice.best(float(moments.counts[k]), moments.spreads[k], component.uniquenesses, wanted)
            components.append(component._replace(loadings=best.loadings, uniquenesses=best.uniquenesses))
        return Parameters.from_components(components)

    def _refine(self, rival: Outcome | None) -> None:
        """Refine the present mixture; keep the result if it costs no more, and less than a rival."""
        refined = self._refined(self.current.parameters)
        if self.is_forced:
            # Components that were two at the coarser tolerance may coincide, or one may have lost its rows.
            while (fewer := without_idle(refined.parameters, self.samples)) is not refined.parameters:
                refined = self._refined(fewer)
        # A price that depends on weights may rise by more than a tolerance even though the likelihood rises.
        accepted = bool(refined.cost <= self.current.cost + _least_gain(self.current)) or not self.current.converged
        accepted = accepted and (rival is None or self.monitor.is_better(refined, rival))
        if accepted:
            self.state.current = refined
        self.monitor.see("refine", -1, refined, accepted=accepted)

    def _refined(self, start: Parameters) -> Outcome:
        problem = replace(self.problem, tol=_REFINED * self.problem.tol)
        choose = not isinstance(self.constraints.n_factors, tuple)
        return self._em(start, problem, REFINEMENT * problem.max_iter, choose_at_end=choose)

    def _fit(self, start: Parameters, choose_at: Sequence[int] = (), bar: float = np.inf) -> Outcome:
        return self._em(start, self.problem, self.problem.max_iter, choose_at=choose_at, bar=bar)

    def _em(
        self,
        start: Parameters,
        problem: Problem,
        max_iter: int,
        *,
        choose_at: Sequence[int] = (),
        choose_at_end: bool = True,
        bar: float = np.inf,
    ) -> Outcome:
        """Run EM on all rows; see `profile_em`."""
        return profile_em(
            self.samples,
            start,
            problem,
            self.solvers.get(),
            max_iter,
            choose_at=choose_at,
            choose_at_end=choose_at_end,
            bar=bar,
            tell=self.monitor.tell,
        )


def _least_gain(outcome: Outcome) -> float:
    """Return the smallest difference in cost, in nats, that counts: more than rounding."""
    return max(_LEAST_GAIN, _LEAST_SHARE * abs(outcome.cost))
