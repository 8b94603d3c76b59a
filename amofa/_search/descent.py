"""Moves from a mixture until none pays: components are split, pairs are merged, and one is exchanged for the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from amofa._em.outcome import Outcome, RowMoments
from amofa._em.profile_likelihood import Problem, moments_of_rows, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Component, Parameters
from amofa._search.background import Drop, drops
from amofa._search.base import Search
from amofa._search.constraints import Constraints
from amofa._search.levels import Level, Levels
from amofa._search.local_splits import LocalSplitter, Part
from amofa._search.merges import MergedPair, merge_candidates, merged_down, paying, with_merged
from amofa._search.monitor import Monitor
from amofa._search.paper_moves import without_idle
from amofa._search.splits import MOST_PARTS
from amofa._search.state import LocalSplit, State
from amofa._typing import FloatArray
from amofa.threads import OneEach

# The gain of a local fit is a lower bound of that of EM on all rows. Moves that fall short by more than the first
# number, in nats per row of the components that they change, are not tried on all rows. The second one is the most
# single splits, merges or exchanges to try.
_HOPELESS = 0.05
_MOST_TRIALS = 3
# With more components than this, only the most promising one is tried.
_MANY = 20
# Splits that fall short by less than this, in nats per row of the component, are made to see what merges leave of them.
# The second number bounds that in all, in nats, and the last the iterations before the merges.
_OVERSHOOT, _MOST_OVERSHOOT, _OVERSHOOT_ITERATIONS = 0.3, 150.0, 20
# Exchanges are looked for among this number of the cheapest pairs.
_MOST_PAIRS = 8
# A cost counts as lower if it is lower by this many nats, and by this share, which is more than rounding.
_LEAST_GAIN, _LEAST_SHARE = 1e-3, 1e-12
# A mixture that costs more than the best one by more than this, in nats per row and in all, when its pairs are merged,
# is not searched further.
_FAR_BEHIND, _ANYWAY = 0.1, 50.0
# Iterations of another way in before pairs are merged.
_SETTLE_ITERATIONS = 20
# Where EM ends depends on where it starts by this multiple of its tolerance.
_SAME_END = 2.0


class Descent(Search):
    """Split components, merge pairs, and so on until no move lowers the cost, on the rows of one level.

    The phase after the last move is "conclude", which a subclass has.
    """

    MOVES = ("settle", "reduce", "tidy", "look", "split", "halve", "merge", "overshoot", "exchange")

    def __init__(self, state: State, levels: Levels, constraints: Constraints, monitor: Monitor) -> None:
        super().__init__(state, levels.samples, constraints, monitor)
        self.levels = levels
        d = levels.samples.n_features
        # None for tables with fewer rows than columns, which need no (d, d) arrays.
        self.solvers: OneEach[Solver | None] = OneEach(_no_solver if levels.samples.is_wide else partial(Solver, d))
        self.is_forced = constraints.n_components is not None
        self.set_level(state.level)

    def set_level(self, number: int) -> None:
        """Work on the rows of a level."""
        self.level: Level = self.levels.level(number)
        # A local fit that costs up to this many nats more for each row than the whole component is tried on all rows.
        self.worth_a_trial = np.inf if self.is_forced else _HOPELESS
        # Pairs and exchanges of the present mixture, once they have been asked for.
        self.pairs: tuple[Outcome, list[MergedPair]] | None = None
        self.drops: tuple[Outcome, list[Drop]] | None = None
        self.exchanges: tuple[Outcome, list[tuple[int, Parameters]]] | None = None

    # -- phases: a mixture to start from ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Fit the pending mixture, and fit it again if components became empty or coincide."""
        state = self.state
        assert state.pending is not None
        # Other ways in are merged before they have to converge.
        is_first = (state.found is None and not self.is_trial()) or self.is_forced
        max_iter = self.problem.max_iter if is_first else min(_SETTLE_ITERATIONS, self.problem.max_iter)
        fit = self._em(state.pending, self.problem, max_iter, choose_at=(0,))
        self._accept(state.action, state.component, fit)
        fewer = without_idle(fit.parameters, self.level.samples)
        state.pending = None if fewer is fit.parameters else fewer
        if state.pending is None:
            state.phase = "reduce"

    def reduce(self) -> None:
        """Merge two components, if there are more than allowed."""
        state = self.state
        if self.current.n_components <= self.most():
            self._go_to("tidy")
            return
        pair = self._merge_candidates()[0]
        state.pending, state.action, state.component = with_merged(self.current.parameters, [pair]), "merge", pair.first
        state.phase = "settle"

    def tidy(self) -> None:
        """Merge the components as far as that pays, which is much cheaper than splits in between."""
        if self._try_merge() is None:
            self._go_to("conclude" if self._is_far_behind() else "look")

    # -- phases: moves ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Find the best local split of each component; it is known for those that have not changed."""
        if self.room() == 0:
            self.state.splits = []
            self._go_to("merge")
            return
        parameters, counts, state = self.current.parameters, self._moments().counts, self.state
        known, level = [*state.splits, *state.known], self.level
        state.splits = self._splitter().best_splits(level.sample, parameters, counts, known, level.executor)
        self._go_to("split")

    def split(self) -> None:
        """Try the next choice of splits on all rows."""
        state, trials = self.state, self._trials()
        if state.trial == len(trials):
            self._go_to("halve" if self.is_forced and self.state.thorough else "merge")
        elif self._try_split(trials[state.trial], state.splits):
            self._go_to("look")
        else:
            state.trial += 1

    def halve(self) -> None:
        """Divide the rows of a component, the heaviest first, if one must be split and no local fit holds."""
        parameters = self.current.parameters
        responsibilities = self.level.sample.responsibilities(parameters)
        splitter = self._splitter()
        for k in np.argsort(-parameters.weights, kind="stable").tolist():
            part = Part.of(self.level.sample, parameters.component(k), responsibilities[k])
            for start in splitter.starts_of(part):
                children = tuple(c._replace(weight=c.weight * parameters.weights[k]) for c in start.components())
                splits = list(self.state.splits)
                splits[k] = replace(splits[k], children=children)
                if self._try_split([k], splits):
                    self._go_to("look")
                    return
        self._go_to("merge")

    def merge(self) -> None:
        """Try the next pair of components as one."""
        accepted = self._try_merge()
        found = self.state.found
        if accepted:
            self._go_to("look")
        elif accepted is None and found is not None and self.current.cost > found.cost - least_gain(found):
            # Another descent came as far with quick looks and more.
            self._go_to("conclude")
        elif accepted is None and not self.state.thorough and self.room() > 0:
            # Components that quick looks have found nothing to split in.
            self.state.thorough = True
            self._go_to("look")
        elif accepted is None:
            # On all rows of a huge table these moves would take most of the time; they were made on fewer rows before.
            self._go_to("overshoot" if self.level.rows_each == 1.0 else "conclude")

    def overshoot(self) -> None:
        """Split many components though that does not pay by the bounds, and merge all pairs that then pay."""
        splits, counts = self.state.splits, self._moments().counts
        chosen = [i for i in self._splittable() if -splits[i].gain <= min(_OVERSHOOT * counts[i], _MOST_OVERSHOOT)]
        self._go_to("exchange")
        if self.is_forced or not chosen:
            return
        fit = self._em(self._divided(chosen, splits), self.problem, _OVERSHOOT_ITERATIONS)
        fit = merged_down(self.level.sample, fit, self.problem, self.solvers.get(), self._fit)
        accepted = bool(fit.cost < self.bar())
        if accepted:
            self.state.current = fit
            self._go_to("look")
        self._see("overshoot", -1, fit, accepted=accepted)

    def exchange(self) -> None:
        """Try the next pair of components as one, with a component split in their place."""
        state, exchanges = self.state, self._exchanges()
        if state.trial == len(exchanges):
            self._go_to("conclude")
            return
        first, start = exchanges[state.trial]
        bar = self.bar() - _SAME_END * self.problem.tol * self.level.total_weight
        fit = self._fit(start, bar=bar)
        holds = not self.is_forced or without_idle(fit.parameters, self.level.samples) is fit.parameters
        accepted = holds and bool(fit.cost < bar)
        if accepted:
            state.current = fit
        self._see("exchange", first, fit, accepted=accepted)
        if accepted:
            self._go_to("look")
        else:
            state.trial += 1

    # -- what phases have in common --------------------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        problem, current = self.level.problems[self.state.family], self.state.current
        if not problem.finds_tails or current is None:
            return problem
        # New components get the tails that were found.
        degrees = float(current.parameters.degrees_of_freedom[0])
        return problem if np.isinf(degrees) else problem.with_tails(degrees)

    def room(self) -> int:
        """Return how many more components are allowed."""
        return max(0, self.most() - self.current.n_components)

    def most(self) -> int:
        """Return the maximum number of components: no more than distinct rows, whatever their weights."""
        n = self.level.samples.n_rows
        return min(n, self.constraints.most_components or n)

    def bar(self) -> float:
        """Return the cost below which a model is better."""
        return self.current.cost - least_gain(self.current)

    def _is_far_behind(self) -> bool:
        """Return whether a mixture to start from is not worth any splits.

        Those of the level before are compared with each other, since they still have to grow on more rows.
        """
        state, cost, is_trial = self.state, self.current.cost, self.is_trial()
        if state.seeds and not is_trial:
            if state.seed_cost is None:
                state.seed_cost = cost
            return cost > state.seed_cost
        costs = [each.cost for each in (*state.results, state.found) if each is not None]
        allowance = 0.0 if is_trial else _FAR_BEHIND * self.level.total_weight + _ANYWAY
        return cost >= min(costs, default=np.inf) + allowance

    def is_trial(self) -> bool:
        """Return whether a mixture is worth splits only if it costs less than the best one without them."""
        return False

    def _most_trials(self) -> int:
        """Return how many moves are tried one by one: with many components, none of them gains much."""
        return _MOST_TRIALS if self.current.n_components < _MANY else 1

    def _go_to(self, phase: str) -> None:
        self.state.phase, self.state.trial = phase, 0

    def _see(self, action: str, component: int, outcome: Outcome, *, accepted: bool) -> None:
        """Tell of a model of all rows."""
        if self._is_shown():
            self.monitor.see(action, component, outcome, accepted=accepted)

    def _is_shown(self) -> bool:
        """Return whether the monitor sees the models of the present family."""
        return self.level.is_whole

    def _accept(self, action: str, component: int, outcome: Outcome) -> None:
        self.state.current = outcome
        self._see(action, component, outcome, accepted=True)

    def _moments(self) -> RowMoments:
        """Return the moments of all rows under the present mixture."""
        if self.current.moments is None:
            self.state.current = self._with_moments(self.current)
        assert self.current.moments is not None
        return self.current.moments

    def _with_moments(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the moments of all rows, which one from a checkpoint does not have."""
        if outcome.moments is not None:
            return outcome
        moments = moments_of_rows(self.level.samples, outcome.parameters, self.problem, self.solvers.get())
        return replace(outcome, moments=moments)

    # -- splits --

    def _splitter(self, most_parts: int | None = None) -> LocalSplitter:
        parts = min(MOST_PARTS, self.room() + 1) if most_parts is None else most_parts
        thorough = self.state.thorough and most_parts is None
        return LocalSplitter(self.problem, self.solvers, self.worth_a_trial, parts, thorough, self.level.rows_each)

    def _splittable(self) -> list[int]:
        """Return components with a local split for which there is room, by decreasing gain."""
        splits, room = self.state.splits, self.room()
        added = [0 if split.children is None else len(split.children) - 1 for split in splits]
        found = sorted((i for i in range(len(splits)) if 0 < added[i] <= room), key=lambda i: -splits[i].gain)
        sizes = np.cumsum([added[i] for i in found]).tolist()
        return [i for i, size in zip(found, sizes, strict=True) if size <= room]

    def _trials(self) -> list[list[int]]:
        """Return the sets of components to split: all splits that pay at once, then the best ones one by one."""
        splits, counts, found = self.state.splits, self._moments().counts, self._splittable()
        paying = [i for i in found if splits[i].gain > 0]
        together = [paying] if len(paying) > 1 else []
        if self.is_forced:
            return together + [[i] for i in found]
        # Of a huge table, splits that nearly pay were tried on fewer rows before.
        allowed = _HOPELESS if self.level.rows_each == 1.0 else 0.0
        return together + [[i] for i in found[: self._most_trials()] if splits[i].gain >= -allowed * counts[i]]

    def _divided(self, chosen: Sequence[int], splits: Sequence[LocalSplit]) -> Parameters:
        """Return the present mixture with the chosen components replaced by their children."""
        components: list[Component] = []
        added: list[Component] = []
        for k, component in enumerate(self.current.parameters.components()):
            children = splits[k].children if k in chosen else None
            if children is None:
                components.append(component)
            else:
                components.append(children[0])
                added += children[1:]
        return Parameters.from_components([*components, *added], self.current.parameters.background)

    def _try_split(self, chosen: Sequence[int], splits: Sequence[LocalSplit]) -> bool:
        """Replace the chosen components by their children and run EM on all rows; keep what lowers the cost."""
        fit = self._fit(self._divided(chosen, splits), bar=np.inf if self.is_forced else self.bar())
        # Components that are required must have rows and differ.
        holds = without_idle(fit.parameters, self.level.samples) is fit.parameters
        accepted = holds if self.is_forced else bool(fit.cost < self.bar())
        if accepted:
            self.state.current = fit
        self._see("split", chosen[0] if len(chosen) == 1 else -1, fit, accepted=accepted)
        return accepted

    # -- merges --

    def _try_merge(self) -> bool | None:
        """Try the next merges: all pairs that pay at once, then the cheapest ones one by one; None after the last.

        With a background, components are then merged with it.
        """
        state = self.state
        if self.is_forced or self.current.n_components == 1:
            return None
        trials = self._merge_trials()
        if state.trial == len(trials):
            return None
        trial = trials[state.trial]
        action, component, start = self._merge_of(trial)
        fit = self._fit(start, bar=self.bar())
        accepted = bool(fit.cost < self.bar())
        if accepted:
            state.current = fit
        state.trial = 0 if accepted else state.trial + 1
        self._see(action, component, fit, accepted=accepted)
        return accepted

    def _merge_of(self, trial: list[MergedPair] | Drop) -> tuple[str, int, Parameters]:
        """Return the name of a trial, the component that changes if it is one, and the mixture to start from."""
        if isinstance(trial, Drop):
            return "drop", trial.component, trial.parameters
        return "merge", trial[0].first if len(trial) == 1 else -1, with_merged(self.current.parameters, trial)

    def _merge_trials(self) -> list[list[MergedPair] | Drop]:
        pairs, counts = self._merge_candidates(), self._moments().counts
        together = paying(pairs)
        single = [[pair] for pair in pairs[: self._most_trials()] if pair.excess < _HOPELESS * pair.rows(counts)]
        merges = [together, *single] if len(together) > 1 else single
        return [*merges, *self._drop_trials(counts)]

    def _drop_trials(self, counts: FloatArray) -> list[Drop]:
        """Return components that the background may replace."""
        if self.current.parameters.background is None:
            return []
        if self.drops is None or self.drops[0] is not self.current:
            self.drops = self.current, drops(self.level.sample, self.current.parameters, self.problem)
        found = self.drops[1][: self._most_trials()]
        return [drop for drop in found if drop.excess < _HOPELESS * counts[drop.component]]

    def _merge_candidates(self) -> list[MergedPair]:
        moments = self._moments()
        if self.pairs is None or self.pairs[0] is not self.current:
            solver = self.solvers.get()
            pairs = merge_candidates(self.level.sample, self.current.parameters, moments, self.problem, solver)
            self.pairs = self.current, pairs
        return self.pairs[1]

    # -- exchanges --

    def _exchanges(self) -> list[tuple[int, Parameters]]:
        """Return mixtures in which a pair is merged and a component split, or a pair divided in another way.

        The bounds of both changes add up; the most promising exchanges come first, each with the first of its pair.
        """
        if self.exchanges is None or self.exchanges[0] is not self.current:
            self.exchanges = self.current, self._found_exchanges()
        return self.exchanges[1]

    def _found_exchanges(self) -> list[tuple[int, Parameters]]:
        components, splits = self.current.parameters.components(), self.state.splits
        if len(components) == 1 or (splits and all(split.fits for split in splits)):
            return []
        moves: list[tuple[float, MergedPair, int, Sequence[Component]]] = []
        counts, pairs = self._moments().counts, self._merge_candidates()[:_MOST_PAIRS]
        near = [pair for pair in pairs if pair.excess <= _OVERSHOOT * pair.rows(counts)]
        wholes = self._splits_of_pairs(near)
        for pair in pairs:
            rows = pair.rows(counts)
            for k, split in enumerate(splits):
                if split.children is None or len(split.children) > 2 or k in (pair.first, pair.second):
                    continue
                if pair.excess - split.gain < _HOPELESS * (rows + counts[k]):
                    moves.append((pair.excess - split.gain, pair, k, split.children))
            whole = wholes.get((pair.first, pair.second))
            if whole is not None and whole.children is not None and pair.excess - whole.gain < _HOPELESS * rows:
                moves.append((pair.excess - whole.gain, pair, -1, whole.children))
        moves.sort(key=lambda move: move[0])
        found = []
        for _, pair, k, children in moves[: self._most_trials()]:
            kept = [c for j, c in enumerate(components) if j not in (pair.first, pair.second, k)]
            added = children if k < 0 else (pair.merged, *children)
            found.append((pair.first, Parameters.from_components([*kept, *added], self.current.parameters.background)))
        return found

    def _splits_of_pairs(self, pairs: Sequence[MergedPair]) -> dict[tuple[int, int], LocalSplit]:
        """Return the best local split of the rows of each pair, by the numbers of both components."""
        level = self.level
        shares = level.sample.responsibilities(self.current.parameters)
        parts = [Part.of(level.sample, pair.merged, shares[pair.first] + shares[pair.second]) for pair in pairs]
        splits = self._splitter(2).splits_of(parts, level.executor)
        return {(pair.first, pair.second): split for pair, split in zip(pairs, splits, strict=True)}

    # -- EM --

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
        """Run EM on all rows of the level; see `profile_em`."""
        return profile_em(
            self.level.samples,
            start,
            problem,
            self.solvers.get(),
            max_iter,
            choose_at=choose_at,
            choose_at_end=choose_at_end,
            bar=bar,
            tell=self.monitor.tell if self._is_shown() else None,
        )


def _no_solver() -> None:
    """Return what there is in place of a solver for tables with fewer rows than columns."""


def least_gain(outcome: Outcome) -> float:
    """Return the smallest difference in cost, in nats, that counts: more than rounding."""
    return max(_LEAST_GAIN, _LEAST_SHARE * abs(outcome.cost))
