"""The default search: several ways in, from each of which mixtures are split and merged until no move pays.

A search is a `State` and a step. The phase of the state names the method that is the next step, and each method sets
the phase that follows it; docs/algorithm.md describes the phases in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from amofa._em.outcome import Outcome
from amofa._em.profile_likelihood import Problem
from amofa._noise import Noise
from amofa._parameters import Parameters
from amofa._search.background import Rows, beside_background
from amofa._search.constraints import REFINEMENT, Constraints
from amofa._search.descent import Descent, least_gain
from amofa._search.families import Family
from amofa._search.joint import joint_ways, neighbouring_ways, numbers_of_groups
from amofa._search.levels import Levels
from amofa._search.monitor import Monitor
from amofa._search.paper_moves import with_tied_noise, without_idle
from amofa._search.state import END, State
from amofa._search.tails import with_found_tails
from amofa._search.ways import ways_in, with_rows_apart

# Mixtures are searched again if other tails gain more than this, in nats.
_WORTH_A_LOOK = 1.0
# EM of the chosen model uses this share of the tolerance.
_REFINED = 1e-5
# Other starts have no fewer than this share of the components that were found or, if their number is given, up to so
# many more, which are merged.
_FEWER, _MORE = 3, 4
# There are no further descents after this number of them in a row that led to nothing better.
_MOST_IN_VAIN = 3
# Mixtures to start from may cost more than the best one by this, in nats per row and in all: while some of the rows are
# searched, and where all are, since EM of these has only begun.
_WORTH_A_WAY_SOON, _WORTH_A_WAY = (0.3, 100.0), (1.0, 1000.0)


class DefaultSearch(Descent):
    """Descend from several starts, on some rows first and on all at the end, and refine the best mixture.

    Parameters
    ----------
    state, constraints, monitor
        As in `Search`.
    levels : Levels
        The rows, and the problem of each family.
    given : callable, optional
        Makes the mixture to start from, for a problem. The result never costs more than this mixture.
    families : sequence of Family
        In the order in which they are searched. Shared noise after separate noise, and tails, start from what was
        found.
    n_guides : int
        How many of the first ones are only searched to find starts for the others.
    """

    PHASES = ("start", "join", *Descent.MOVES, "conclude", "explore", "refine")

    def __init__(
        self,
        state: State,
        levels: Levels,
        given: Callable[[Problem], Parameters] | None,
        families: Sequence[Family],
        *,
        constraints: Constraints,
        monitor: Monitor,
        n_guides: int = 0,
    ) -> None:
        super().__init__(state, levels, constraints, monitor)
        self.given, self.families, self.n_guides = given, families, n_guides

    # -- phases: a family ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start with the next family: from what is known of it or another one, a given mixture, or one component."""
        state = self.state
        state.found, state.ways = None, None
        state.splits, state.known, state.thorough = [], [], False
        seed, source = state.seeds[state.family] if state.seeds else None, self._source()
        if self.family.noise.is_joint:
            self._start_joint(seed)
        elif seed is not None:
            self._settle(seed.parameters)
        elif self._is_beside_others():
            self._try_background(source)
        elif source is not None and self._is_like(self.families[source]):
            self._share()
        elif source is not None:
            found = state.results[source]
            assert found is not None
            start = found.parameters.with_tails(self.family.degrees_of_freedom).with_background(None)
            self._settle(start, "tails" if self.family.has_tails else "background")
        elif state.seeds or (self.family.has_tails and not self.families[0].has_tails):
            self._end_family()
        else:
            self._start_anew()

    def _source(self) -> int | None:
        """Return the number of the family from whose best mixture the present one starts, if it does."""
        state = self.state
        costs = [
            (not self._reaches(each), each.cost, i)
            for i, each in enumerate(state.results)
            if each is not None and not (self.family.background and self.families[i].background)
            if not self.families[i].noise.is_joint
        ]
        if not costs:
            return None
        best = min(costs)[-1]
        family, other = self.family, self.families[best]
        # Shared noise that cost more than separate noise on few rows costs still more on many.
        is_old = bool(state.seeds) and self._is_like(other) and state.seeds[best] is not None
        return best if family.follows(other) and not is_old else None

    def _is_like(self, other: Family) -> bool:
        """Return whether another family differs in the noise at most."""
        return self.family.has_same_tails(other) and self.family.background == other.background

    def _is_beside_others(self) -> bool:
        """Return whether a background is tried beside components that were found without one."""
        return self.family.background is not None and any(
            each is not None and family.background is None
            for each, family in zip(self.state.results, self.families, strict=False)
        )

    def _try_background(self, source: int | None) -> None:
        """Put a background beside the components of the best mixture, of which it may replace some."""
        if source is None:
            self._end_family()
            return
        state = self.state
        if state.plain is None:
            state.plain = state.results[source]
            state.results = [self._without_lone_rows(i, found) for i, found in enumerate(state.results)]
        assert state.plain is not None
        if self.is_forced:
            start = Rows(self.level.sample, state.plain.parameters, self.problem).without([]).parameters
        else:
            start = beside_background(self.level.sample, state.plain.parameters, self.problem)
        self._settle(start, "background")

    def _without_lone_rows(self, number: int, found: Outcome | None) -> Outcome | None:
        """Return the best mixture of a family without components of a single row, to compare with a background.

        The place of a component has no price, so that one for each scattered row costs too little.
        """
        if found is None or self.is_forced or found.n_components == 1:
            return found
        problem, least = self.level.problems[number], self.problem.least_rows
        if (found.parameters.weights * self.level.total_weight).min() >= least:
            return found
        fit = self._em(found.parameters, replace(problem, least_rows=least), problem.max_iter, choose_at=(0,))
        self._see("remove", -1, fit, accepted=True)
        return fit

    def _start_anew(self) -> None:
        state = self.state
        if self.given is not None:
            init = self.given(self.problem)
            state.given = self._em(init, self.problem, 0)
            self._accept("start", -1, state.given)
            self._settle(init)
            return
        self._make_any_model()
        self._accept("start", -1, self._fit(self._one_component(), choose_at=(0,)))
        self._go_to("look")

    def _make_any_model(self) -> None:
        """Fit one component to all rows, so that there is a model if the search is stopped early on some of them.

        With one component, guides are the same as other families.
        """
        state = self.state
        if state.best is None and (not self.level.is_whole or self._is_guide):
            number = state.level
            self.set_level(len(self.levels.sizes) - 1)
            one = self._em(self._one_component(), self.problem, 1, choose_at=(0,), choose_at_end=False)
            self.state.current = one
            self.monitor.see("start", -1, one, accepted=True)
            self.set_level(number)

    def _start_joint(self, seed: Outcome | None) -> None:
        """Look for mixtures to start from, of a family whose components have something in common."""
        state, given = self.state, self.constraints.n_components
        others = [each.parameters for each in state.results if each is not None]
        others += [] if self.given is None else [self.given(self.problem)]
        others = [each for each in others if given in (None, each.n_components)]
        numbers: list[int] = []
        if not (others and self.given is not None) and not state.seeds:
            # One component is the same in other families.
            one = [1] if self.n_guides == len(state.results) else []
            several = numbers_of_groups(self.level.sample, self.most())
            numbers = [*one, *several] if given is None else [given]
        state.ways = joint_ways(self.level.sample, self.problem, self.solvers, numbers, others)
        state.ways += [] if seed is None else [seed.parameters]
        self._go_to("join")

    def join(self) -> None:
        """Fit the next mixture of such a family, or those near the best one if there are none left."""
        state = self.state
        assert state.ways is not None
        if state.ways:
            fit = self._fit(state.ways.pop(0))
            self._accept("start", -1, fit)
            if state.found is None or self._is_cheaper(fit, state.found, least_gain(fit)):
                state.found, state.thorough = fit, False
        elif state.found is None or self.is_forced or state.thorough:
            self._end_family()
        else:
            # Where that finds nothing cheaper, the family has ended.
            state.thorough = True
            found = self._with_moments(state.found)
            ways, state.splits = neighbouring_ways(self.level.sample, found, self.problem, self.solvers, state.splits)
            state.ways = [each for each in ways if each.n_components <= self.most()]

    def _settle(self, pending: Parameters, action: str = "start") -> None:
        state = self.state
        state.pending, state.action, state.component, state.thorough = pending, action, -1, False
        self._go_to("settle")

    def _share(self) -> None:
        """Let the components share their noise; continue with it if that costs no more, or if more must be found."""
        state, found = self.state, self.state.results[-1]
        assert found is not None
        bar = found.cost + least_gain(found)
        starts = [found.parameters]
        if not self.is_forced:
            # A component of a few rows that are far apart has a factor, or much noise of its own.
            starts += with_rows_apart(self.level.sample, found.parameters, self.most())
        fits = [self._fit(with_tied_noise(start, Noise.SHARED), choose_at=(0,), bar=bar) for start in starts]
        fit = min(fits, key=lambda fit: fit.cost)
        # With one component there is nothing to share and costs are equal, but more components may be found.
        accepted = bool(fit.cost <= bar) or not self._reaches(found)
        if accepted:
            state.current = fit
        self._go_to("look" if accepted else "explore")
        self._see("share", -1, fit, accepted=accepted)

    def tidy(self) -> None:
        """Merge the components as far as that pays, then find their tails."""
        if self.is_trial() and self.current.n_components == 1:
            self._find_tails()
        super().tidy()
        if self.state.phase == "look":
            self._find_tails()

    def conclude(self) -> None:
        """End a descent; give the components the numbers of factors of a given sequence, the heaviest first."""
        state, n_factors = self.state, self.constraints.n_factors
        if not self._is_far_behind() and self._find_tails() > _WORTH_A_LOOK:
            self._go_to("look")
            return
        if isinstance(n_factors, tuple) and self.level.is_whole:
            start = self._with_factors(n_factors)
            problem = self.problem
            self._accept("factor", -1, self._em(start, problem, problem.max_iter, choose_at_end=False))
        given = state.given
        if given and self.constraints.met_by(given.parameters) and self.current.cost > given.cost + least_gain(given):
            # EM does not lower its cost, so it has converged.
            state.current = replace(given, converged=True)
        state.given = None
        if state.ways is not None and state.found is not None:
            is_better = self._is_cheaper(self.current, state.found, least_gain(self.current))
            state.in_vain = 0 if is_better else state.in_vain + 1
        if state.found is None or self._is_cheaper(self.current, state.found):
            state.found, state.known = self.current, state.splits
            state.fits = bool(state.splits) and all(split.fits for split in state.splits)
        self._go_to("explore")

    def explore(self) -> None:
        """Descend from the next start of the family; these are found when the first descent has ended."""
        state = self.state
        if state.ways is None:
            state.ways, state.in_vain = self._ways(), 0
        if state.ways and state.in_vain < _MOST_IN_VAIN:
            self._settle(state.ways.pop(0))
        else:
            self._end_family()

    def _ways(self) -> list[Parameters]:
        """Return mixtures to descend from: none where nothing more is to be found.

        If one was given, it is the only one, with shared noise after separate noise.
        """
        state, given = self.state, self.constraints.n_components
        if self._is_other():
            if self.family.background is not None:
                return []
            # One group with heavy tails may be several normal components.
            one = [self._one_component()] if given in (None, 1) else []
            return [*one, *self._partitions()] if self.level.is_whole and self._leads() else one
        if self.given is not None:
            return [self.given(self.problem)] if state.results else []
        return self._partitions()

    def _partitions(self) -> list[Parameters]:
        """Return mixtures from partitions of the rows; none if their structure is known, or does not show any."""
        state, given = self.state, self.constraints.n_components
        if state.seeds or state.fits or self.most() == 1:
            return []
        best = min((each for each in (*state.results, state.found) if each is not None), key=lambda each: each.cost)
        thorough = self.level.is_whole
        per_row, in_all = _WORTH_A_WAY if thorough else _WORTH_A_WAY_SOON
        bar = best.cost + per_row * self.level.total_weight + in_all if self._reaches(best) else np.inf
        least = 2 if given is None else given
        numbers = range(max(least, best.n_components // _FEWER), self.most() + (0 if given is None else _MORE) + 1)
        return ways_in(self.level.sample, self.problem, self.solvers, numbers, bar, thorough=thorough)

    def _leads(self) -> bool:
        """Return whether the family has found a mixture that costs less than those of the others."""
        found = self.state.found
        return found is not None and all(self._is_cheaper(found, each) for each in self.state.results if each)

    def _end_family(self) -> None:
        state = self.state
        state.results.append(state.found)
        state.family += 1
        if state.family < len(self.families):
            self._go_to("start")
        elif self.level.is_whole:
            self._go_to("refine")
        else:
            self._end_level()

    def _end_level(self) -> None:
        """Continue on more rows, from the best mixture of each kind of noise, or from the best one if it has tails.

        If the best one has a background, the best one without is kept, too. Shared noise that costs more than separate
        noise on few rows costs still more on many, and so do lighter tails.
        """
        state = self.state
        best = min((found for found in state.results if found), key=lambda found: found.cost)
        tails = self.families[next(i for i, found in enumerate(state.results) if found is best)].degrees_of_freedom
        plain = [found for found in state.results if found and found.parameters.background is None]
        kept = [best, min(plain, key=lambda found: found.cost)] if plain and best.parameters.background else [best]
        state.seeds = [
            found if any(found is each for each in kept) or family == (Noise.COMPONENT, tails, None) else None
            for family, found in zip(self.families, state.results, strict=True)
        ]
        state.results, state.family, state.seed_cost, state.plain = [], 0, None, None
        state.level += 1
        self.set_level(state.level)
        self._go_to("start")

    # -- phases: the end -------------------------------------------------------------------------------------------

    def refine(self) -> None:
        """Run EM of the best mixture to a tolerance so small that the result does not depend on it visibly.

        Those of other families that this could make better follow.
        """
        state = self.state
        # Refining can gain at most the tolerance of EM.
        tolerance = self.level.problems[0].tol * self.level.total_weight
        candidates = [
            (found.cost, i)
            for i, found in enumerate(state.results)
            if found
            and i >= self.n_guides
            and (state.result is None or self._is_cheaper(found, state.result, -tolerance))
        ]
        if not candidates:
            self._go_to(END)
            return
        _, i = min(candidates)
        state.current, state.family, state.results[i] = state.results[i], i, None
        self._refine()
        # A model whose EM has not converged must be better by more than rounding.
        handicap = least_gain(self.current)
        if state.result is None or self._is_cheaper(self.current, state.result, handicap):
            state.result = self.current

    def _refine(self) -> None:
        """Refine the present mixture; keep the result if it costs no more."""
        self._find_tails()
        if self.current.n_components > 1:
            self._find_tails(one_each=True)
        refined = self._refined(self.current.parameters)
        if self.is_forced:
            # Components that were two at the coarser tolerance may coincide, or one may have lost its rows.
            while (fewer := without_idle(refined.parameters, self.samples)) is not refined.parameters:
                refined = self._refined(fewer)
        # A price that depends on weights may rise by more than a tolerance even though the likelihood rises.
        accepted = bool(refined.cost <= self.current.cost + least_gain(self.current)) or not self.current.converged
        if accepted:
            self.state.current = refined
        self._see("refine", -1, refined, accepted=accepted)

    def _refined(self, start: Parameters) -> Outcome:
        problem = replace(self.problem, tol=_REFINED * self.problem.tol)
        choose = not isinstance(self.constraints.n_factors, tuple)
        return self._em(start, problem, REFINEMENT * problem.max_iter, choose_at_end=choose)

    @property
    def _is_guide(self) -> bool:
        return self.state.family < self.n_guides

    def _is_shown(self) -> bool:
        return super()._is_shown() and not self._is_guide

    # -- what phases have in common --------------------------------------------------------------------------------

    @property
    def family(self) -> Family:
        return self.families[self.state.family]

    def is_trial(self) -> bool:
        """Return whether tails or a background are tried, worth a search only if they cost less at once."""
        return self._is_other() and not self._leads()

    def _is_other(self) -> bool:
        """Return whether the family has other tails than those searched before, or a background beside them."""
        state, first = self.state, self.families[0]
        is_other = self.family.has_tails and not first.has_tails
        is_other |= self.family.background not in (None, first.background)
        return is_other and not (state.seeds and state.seeds[state.family]) and any(state.results)

    def _find_tails(self, *, one_each: bool = False) -> float:
        """Find degrees of freedom, the same of all components or one each, if that is asked for and pays.

        Returns what it gains, in nats.
        """
        if not (self.problem.finds_tails and self.family.has_tails):
            return 0.0
        before, problem = self.current, self.problem
        # Numbers of factors of each component that were given are kept.
        chooses = not isinstance(self.constraints.n_factors, tuple)

        def em(start: Parameters) -> Outcome:
            return self._em(start, problem, problem.max_iter, choose_at_end=chooses)

        fit = with_found_tails(self.level.samples, before, em, one_each=one_each)
        if fit is before:
            return 0.0
        accepted = bool(fit.cost < self.bar())
        if accepted:
            self.state.current = fit
        self._see("tails", -1, fit, accepted=accepted)
        return before.cost - self.current.cost

    def _reaches(self, outcome: Outcome) -> bool:
        """Return whether a mixture has the number of components that is wanted."""
        return self.constraints.n_components in (None, outcome.n_components)

    def _is_cheaper(self, outcome: Outcome, other: Outcome, handicap: float = 0.0) -> bool:
        """Return whether a mixture costs less, even with a handicap, or reaches the number of components alone."""
        if self._reaches(outcome) != self._reaches(other):
            return self._reaches(outcome)
        return bool(outcome.cost + handicap < other.cost)

    def _one_component(self) -> Parameters:
        d = self.samples.n_features
        # A floor may be above the variance.
        noise = np.full(d, max(1.0, float(self.problem.prior.floor.max())))
        return Parameters.of_one_component(noise, self.problem.degrees_of_freedom)

    def _with_factors(self, n_factors: tuple[int, ...]) -> Parameters:
        parameters, moments = self.current.parameters, self._moments()
        components = []
        for k, wanted in zip(np.argsort(-parameters.weights, kind="stable").tolist(), n_factors, strict=False):
            component = parameters.component(k)
            choice = replace(self.problem.choice, n_factors=wanted)
            best = choice.best(float(moments.counts[k]), moments.spreads[k], component.uniquenesses, wanted)
            components.append(component._replace(loadings=best.loadings, uniquenesses=best.uniquenesses))
        return Parameters.from_components(components, parameters.background)
