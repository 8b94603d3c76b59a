"""The default search: every component a candidate for a split, several ways, and pairs for a merge, till none pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._em.profile_likelihood import Problem, Solution, exact_em, solution_again
from amofa._kernels._analyser import Solver
from amofa._parameters import Component, FloatArray, Parameters
from amofa._search.constraints import REFINEMENT, Limits
from amofa._search.journal import Arrays, pack_outcome, pack_parameters, unpack_outcome, unpack_parameters
from amofa._search.merges import MergedPair, merge_candidates
from amofa._search.monitor import Watch
from amofa._search.paper_moves import with_tied_noise, without_idle
from amofa._search.splits import Mask, layers, parts, split_masks
from amofa.threads import OneEach, in_order

# Rows of smaller responsibility have no say in a component's local fit.
_LEAST_RESPONSIBILITY = 1e-2
# Local fits go on in rounds, each for the best so far: how many, how many iterations, and in which of them numbers of
# factors are chosen anew.
_LOCAL_ROUNDS = ((None, 6, (0, 3)), (2, 15, (0, 8)))
# The best one is then run to its end.
_LOCAL_ITERATIONS = 50
# Those that took so many seconds are kept in a journal one by one, beside what comes of all of them.
_LOCAL_WORTH = 0.1
# In those rounds numbers of factors are chosen roughly: each M-step goes on with the uniquenesses.
_ROUGH_STEPS, _ROUGH_TOLERANCE = 4, 0.1
# A start that stays behind the best one by more than so many nats per row of the component is given up, and so is the
# component if its best start stays behind what is worth a trial by more than that.
_BEHIND = 0.3
# The gain of a local fit bounds that of EM on all rows from below. Splits that fall short by more than so many nats
# per row are not tried on all rows, nor more than so many that fall short at all.
_HOPELESS = 0.05
_MOST_TRIALS = 3
# A cost is lower if it is so many nats lower, or by this share, which is more than its rounding.
_LEAST_GAIN, _LEAST_SHARE = 1e-3, 1e-12
# Local fits whose costs differ by less, nats, are the same.
_SAME_COST = 0.01
# A component is taken as unchanged while its count and mean move by less than these: relative, standard deviations.
_SAME_COUNT, _SAME_MEAN = 0.01, 0.02
# EM of the chosen model has this share of the tolerance.
_REFINED = 1e-5


def thorough_search(
    samples: Samples,
    problem: Problem,
    limits: Limits,
    watch: Watch[Solution],
    sharing: Problem | None = None,
    init: Parameters | None = None,
) -> Solution:
    """Grow by splits, merge, and so on until no move lowers the cost.

    Parameters
    ----------
    samples : Samples
    problem : Problem
    limits : Limits
    watch : Watch
        Sees every model that was looked at on all rows, the rejected ones too.
    sharing : Problem, optional
        With shared noise, where that of `problem` is each component's own. The search then goes on with the noise
        shared, if that costs no more at once, and the better of the two models is its result.
    init : Parameters, optional
        The mixture to start from, in place of one component. The result costs no more than it does as it is.

    Returns
    -------
    Solution
        The model of smallest cost that meets `limits`.
    """
    own = _Search(samples, problem, limits, watch)
    if init is None:
        own.start()
        own.move_on()
    else:
        own.move_on_from(init)
    shared = _Search(samples, sharing, limits, watch) if sharing else None
    if shared is None or not shared.share(own.current):
        own.refine()
        return own.current
    shared.move_on()
    shared.refine()
    # What refining can still gain is less than the tolerance of EM.
    if not watch.is_better(shared.current, replace(own.current, cost=own.current.cost - own.tolerance)):
        own.refine(rival=shared.current)
    return shared.current if watch.is_better(shared.current, own.current) else own.current


@dataclass(frozen=True)
class _Local:
    """A component's best local split."""

    component: Component
    gain: float  # nats by which it lowers the cost; a bound from below of what EM on all rows makes of it
    children: tuple[Component, Component] | None


class _Search:
    """The model at hand."""

    def __init__(self, samples: Samples, problem: Problem, limits: Limits, watch: Watch[Solution]) -> None:
        self.samples, self.problem, self.limits, self.watch = samples, problem, limits, watch
        # What splits and merges start from need not be all rows of a huge table.
        self.sample = samples.thinned()
        self.rough = replace(problem, choice=replace(problem.choice, max_steps=_ROUGH_STEPS, tol=_ROUGH_TOLERANCE))
        # Tables with fewer rows than columns do without (d, d) arrays.
        self.solvers = OneEach(lambda: Solver(samples.n_features) if samples.n_rows >= samples.n_features else None)
        self.tolerance = problem.tol * samples.total_weight
        self.locals: list[_Local] = []
        self.current: Solution

    @property
    def solver(self) -> Solver | None:
        return self.solvers.get()

    # -- the phases --

    def start(self) -> None:
        """Fit one component."""
        d = self.samples.n_features
        # A floor may be above the variance.
        noise = np.full(d, max(1.0, float(self.problem.prior.floor.max())))
        plain = Component(1.0, np.zeros(d), np.zeros((0, d)), noise)
        self.current = self.fit(Parameters.from_components([plain]), choose_at=(0,))
        self.watch.see("start", -1, self.current, accepted=True)

    def move_on_from(self, init: Parameters) -> None:
        """From a mixture that is given, with as many components as there may be; what it costs as it is bounds all."""
        given = self.em(self.samples, "all", init, self.problem, 0)
        self.watch.see("start", -1, given, accepted=True)
        self.settle("start", init)
        while self.current.n_components > self.most():
            pair = merge_candidates(self.sample, self.current, self.problem)[0]
            self.settle("merge", self.merged(pair), pair.first)
        # There may be many to merge, each of which takes far less than to look for splits in between.
        while self.merge():
            pass
        self.move_on()
        if self.limits.met_by(given.parameters) and self.current.cost > given.cost + _LEAST_GAIN:
            # It is where EM ends, since that does not lower the cost.
            self.current = replace(given, converged=True)

    def settle(self, action: str, start: Parameters, component: int = -1) -> None:
        """Fit a mixture, without components that come to nothing on the way."""
        kept: Parameters | None = start
        while kept is not None:
            self.current = self.fit(kept, choose_at=(0,))
            self.watch.see(action, component, self.current, accepted=True)
            fewer = without_idle(self.current.parameters, self.samples)
            kept = None if fewer is self.current.parameters else fewer

    def share(self, found: Solution) -> bool:
        """Give the components of a model one noise; whether that costs no more, or more must be found than it has."""
        self.current = self.fit(with_tied_noise(found.parameters, self.problem.noise), choose_at=(0,))
        # With one component there is nothing to share, but more to find: costs are equal then.
        costs_no_more = bool(self.current.cost <= found.cost + _LEAST_GAIN)
        accepted = costs_no_more or not self.limits.met_by(found.parameters)
        self.watch.see("share", -1, self.current, accepted=accepted)
        return accepted

    def move_on(self) -> None:
        """Until no move lowers the cost."""
        while self.grow() or self.merge():
            pass
        if isinstance(self.limits.n_factors, tuple):
            self.complete_factors(self.limits.n_factors)

    def grow(self) -> bool:
        """Split components; False where no split lowers the cost, or there may be no more."""
        room = self.room()
        if room == 0:
            return False
        self.locals = self.local_splits()
        found = [i for i, local in enumerate(self.locals) if local.children is not None]
        found.sort(key=lambda i: -self.locals[i].gain)
        paying = [i for i in found if self.locals[i].gain > 0][:room]
        trials = [paying] if len(paying) > 1 else []
        forced = self.limits.n_components is not None
        trials += [[i] for i in (found if forced else found[:_MOST_TRIALS])]
        for chosen in trials:
            if self.locals[chosen[0]].gain < -self.worth_a_trial():
                break
            if self.try_split(chosen, forced=forced):
                return True
        return forced and self.halve()

    def halve(self) -> bool:
        """Where a component must be made and no local fit holds: part the rows of one, the heaviest first."""
        responsibilities = self.sample.responsibilities(self.current.parameters)
        for k in np.argsort(-self.current.parameters.weights, kind="stable").tolist():
            whole = self.local_whole(self.current.parameters.component(k), responsibilities[k])
            if whole is None:
                continue
            local, solution = whole
            for start in self.starts(local, solution):
                weight = self.current.parameters.weights[k]
                first, second = (c._replace(weight=c.weight * weight) for c in start.components())
                self.locals[k] = replace(self.locals[k], children=(first, second))
                if self.try_split([k], forced=True):
                    return True
        return False

    def merge(self) -> bool:
        """Make two components one; False where that never lowers the cost."""
        if self.limits.n_components is not None or self.current.n_components == 1:
            return False
        for pair in merge_candidates(self.sample, self.current, self.problem)[:_MOST_TRIALS]:
            if pair.excess > _HOPELESS * self.samples.total_weight:
                break
            fit = self.fit(self.merged(pair), bar=self.bar())
            accepted = bool(fit.cost < self.bar())
            self.watch.see("merge", pair.first, fit, accepted=accepted)
            if accepted:
                self.current = fit
                return True
        return False

    def merged(self, pair: MergedPair) -> Parameters:
        """The mixture with two components made one."""
        components = self.current.parameters.components()
        kept = [c for k, c in enumerate(components) if k not in (pair.first, pair.second)]
        return Parameters.from_components([*kept, pair.merged])

    def complete_factors(self, n_factors: tuple[int, ...]) -> None:
        """Give the components, the heaviest first, the numbers of factors that were asked for."""
        current = self.current
        components = []
        for k, wanted in zip(np.argsort(-current.parameters.weights, kind="stable"), n_factors, strict=False):
            component = current.parameters.component(int(k))
            choice = replace(self.problem.choice, n_factors=wanted)
            best = choice.best(float(current.counts[k]), current.spreads[k], component.uniquenesses, wanted)
            components.append(component._replace(loadings=best.loadings, uniquenesses=best.uniquenesses))
        start = Parameters.from_components(components)
        problem = self.problem
        self.current = self.em(self.samples, "all", start, problem, problem.max_iter, choose_at_end=False)
        self.watch.see("factor", -1, self.current, accepted=True)

    def refine(self, rival: Solution | None = None) -> None:
        """EM of the chosen model to a tolerance at which no user sees where it ended; kept if it beats a rival."""
        refined = self.refined(self.current.parameters)
        if not self.problem.annihilates:
            # What were two components to the coarser tolerance may be one, or one have lost its rows.
            while (fewer := without_idle(refined.parameters, self.samples)) is not refined.parameters:
                refined = self.refined(fewer)
        # A price that depends on weights may have risen by more than a tolerance while the likelihood rose, too.
        accepted = bool(refined.cost <= self.current.cost + _LEAST_GAIN) or not self.current.converged
        accepted = accepted and (rival is None or self.watch.is_better(refined, rival))
        self.watch.see("refine", -1, refined, accepted=accepted)
        if accepted:
            self.current = refined

    def refined(self, start: Parameters) -> Solution:
        problem = replace(self.problem, tol=_REFINED * self.problem.tol)
        given = isinstance(self.limits.n_factors, tuple)
        most = REFINEMENT * problem.max_iter
        return self.em(self.samples, "all", start, problem, most, choose_at_end=not given)

    # -- splits --

    def room(self) -> int:
        """How many components there may be beyond those at hand."""
        return max(0, self.most() - self.current.n_components)

    def most(self) -> int:
        """How many components there may be: no more than different rows, whatever these weigh."""
        n = self.samples.n_rows
        return min(n, self.limits.most_components or n)

    def try_split(self, chosen: Sequence[int], *, forced: bool) -> bool:
        """Replace the chosen components by their children and run EM on all rows; keep what lowers the cost."""
        components: list[Component] = []
        added: list[Component] = []
        for k, component in enumerate(self.current.parameters.components()):
            children = self.locals[k].children if k in chosen else None
            if children is None:
                components.append(component)
            else:
                components.append(children[0])
                added.append(children[1])
        fit = self.fit(Parameters.from_components([*components, *added]), bar=np.inf if forced else self.bar())
        accepted = self.holds(fit) if forced else bool(fit.cost < self.bar())
        self.watch.see("split", chosen[0] if len(chosen) == 1 else -1, fit, accepted=accepted)
        if accepted:
            self.current = fit
        return accepted

    def holds(self, fit: Solution) -> bool:
        """Whether components that had to be made have rows and differ."""
        return without_idle(fit.parameters, self.samples) is fit.parameters

    def local_splits(self) -> list[_Local]:
        """The best local split of each component; those of components that have not changed are known already."""
        components = self.current.parameters.components()
        known = [next((local for local in self.locals if _same(local.component, c)), None) for c in components]
        # The largest first, lest all but one thread wait for it in the end.
        new = [k for k in np.argsort(-self.current.counts, kind="stable").tolist() if known[k] is None]
        if not new:
            return [local for local in known if local is not None]

        def look() -> list[_Local]:
            responsibilities = self.sample.responsibilities(self.current.parameters)
            return list(in_order(lambda: lambda k: self.local_split(k, components[k], responsibilities[k]), new))

        def again(arrays: Arrays) -> list[_Local]:
            return _unpack_locals(arrays, [components[k] for k in new])

        what = ("local splits", new, self.problem.noise)
        splits = self.watch.journal.recall(what, [self.current.parameters], look, _pack_locals, again)
        found = dict(zip(new, splits, strict=True))
        return [local or found[k] for k, local in enumerate(known)]

    def local_whole(self, component: Component, responsibilities: FloatArray) -> tuple[Samples, Solution] | None:
        """The rows of a component and its fit to them; None where there are none to part."""
        weights = self.sample.weights
        least = _LEAST_RESPONSIBILITY if weights is None else _LEAST_RESPONSIBILITY * weights
        rows = np.flatnonzero(responsibilities > least)
        if len(rows) < 2:
            return None
        local = self.sample.weighted(rows, np.ascontiguousarray(responsibilities[rows]))
        one = Parameters.from_components([component])
        return local, exact_em(local, one, self.problem, self.solver, 1, choose_at_end=False)

    def local_split(self, k: int, component: Component, responsibilities: FloatArray) -> _Local:
        component = _own(component)
        found = self.local_whole(component, responsibilities)
        if found is None:
            return _Local(component, -np.inf, None)
        local, whole = found
        starts = self.starts(local, whole)
        bar = whole.cost + self.worth_a_trial() + _BEHIND * local.total_weight
        for number, max_iter, choose_at in _LOCAL_ROUNDS:
            fits = self.rough_fits(k, local, starts[:number], max_iter, choose_at, bar)
            starts = [fit.parameters for fit in fits]
            if not fits or fits[0].cost > bar:
                return _Local(component, -np.inf, None)
        fit = self.em(local, k, starts[0], self.problem, _LOCAL_ITERATIONS, choose_at=(0,))
        if fit.n_components < 2:
            return _Local(component, -np.inf, None)
        # The heavier child first, whichever side of the parent it started on: signs of eigenvectors are arbitrary.
        ordered = sorted(fit.parameters.components(), key=lambda c: (-c.weight, c.mean.tolist()))
        first, second = (c._replace(weight=c.weight * component.weight) for c in ordered)
        return _Local(component, whole.cost - fit.cost, (first, second))

    def starts(self, local: Samples, whole: Solution) -> list[Parameters]:
        """Pairs of components to start a local fit from."""
        x = np.concatenate([chunk for chunk, _ in local.chunks()], axis=1)
        weights = np.ones(local.n_rows) if local.weights is None else local.weights
        masks = split_masks(x, weights, whole.means[0], whole.spreads[0])
        problem = self.problem

        def parted(ways: Sequence[Mask]) -> list[tuple[Mask, Parameters]]:
            starts = ((mask, parts(x, weights, mask, problem.noise, problem.prior.floor)) for mask in ways)
            return [(mask, start) for mask, start in starts if start is not None]

        plain = [start for _, start in parted(masks.all)]
        layered = [layers(x, weights, mask, problem.choice, self.solver, start) for mask, start in parted(masks.across)]
        return plain + [start for start in layered if any(start.n_factors)]

    def rough_fits(
        self, k: int, local: Samples, starts: Sequence[Parameters], max_iter: int, choose_at: Sequence[int], bar: float
    ) -> list[Solution]:
        """Fits of two components by rising cost, one of those that have come to the same; not far above the bar."""
        fits: list[Solution] = []
        for start in starts:
            fit = self.em(local, k, start, self.rough, max_iter, choose_at=choose_at, choose_at_end=False, bar=bar)
            if fit.n_components == 2:
                fits.append(fit)
                bar = min(bar, fit.cost + _BEHIND * local.total_weight)
        fits.sort(key=lambda fit: fit.cost)
        return [fit for i, fit in enumerate(fits) if i == 0 or fit.cost > fits[i - 1].cost + _SAME_COST]

    def worth_a_trial(self) -> float:
        """A local fit that costs up to so many nats more than the whole component is tried on all rows."""
        return np.inf if self.limits.n_components is not None else _HOPELESS * self.samples.total_weight

    # -- bookkeeping --

    def bar(self) -> float:
        """A model is better if it costs less than this."""
        return self.current.cost - max(_LEAST_GAIN, _LEAST_SHARE * abs(self.current.cost))

    def fit(self, start: Parameters, choose_at: Sequence[int] = (), bar: float = np.inf) -> Solution:
        problem = self.problem
        return self.em(self.samples, "all", start, problem, problem.max_iter, choose_at=choose_at, bar=bar)

    def em(
        self, samples: Samples, rows: int | str, start: Parameters, problem: Problem, max_iter: int, **options: Any
    ) -> Solution:
        """EM on all rows or those of a component, `rows` says which; see `exact_em`."""
        is_local = rows != "all"
        iterated = None if is_local else self.watch.iterated

        def run() -> Solution:
            return exact_em(samples, start, problem, self.solver, max_iter, iterated=iterated, **options)

        def again(arrays: Arrays) -> Solution:
            return solution_again(unpack_outcome(arrays), samples, problem, self.solver)

        what = ("em", rows, problem.noise, problem.tol, problem.choice.max_steps, max_iter, options)
        about = [start, self.current.parameters] if is_local else [start]
        worth = _LOCAL_WORTH if is_local else 0.0
        return self.watch.journal.recall(what, about, run, pack_outcome, again, worth)


def _same(a: Component, b: Component) -> bool:
    """Whether a component has hardly moved."""
    if len(a.loadings) != len(b.loadings) or abs(a.weight - b.weight) > _SAME_COUNT * a.weight:
        return False
    deviation = np.sqrt(a.uniquenesses + (a.loadings**2).sum(axis=0))
    return bool((np.abs(a.mean - b.mean) < _SAME_MEAN * deviation).all())


def _own(component: Component) -> Component:
    """A component that does not hold on to the mixture that it is a view of."""
    mean, loadings, uniquenesses = component.mean.copy(), component.loadings.copy(), component.uniquenesses.copy()
    return component._replace(mean=mean, loadings=loadings, uniquenesses=uniquenesses)


# ---- local splits in a journal ---------------------------------------------------------------------------------------


def _pack_locals(locals_: Sequence[_Local]) -> Arrays:
    arrays: Arrays = {
        "gains": np.array([local.gain for local in locals_]),
        "has_children": np.array([local.children is not None for local in locals_]),
    }
    children = [child for local in locals_ for child in local.children or ()]
    if not children:
        return arrays
    parameters = Parameters.from_components(children)
    # As they are, whatever their sum.
    parameters.weights[:] = [child.weight for child in children]
    return {**arrays, **pack_parameters(parameters)}


def _unpack_locals(arrays: Arrays, components: Sequence[Component]) -> list[_Local]:
    gains, has_children = arrays["gains"].tolist(), arrays["has_children"].tolist()
    children = iter(unpack_parameters(arrays).components() if any(has_children) else ())
    return [
        _Local(_own(component), gain, (next(children), next(children)) if has_two else None)
        for component, gain, has_two in zip(components, gains, has_children, strict=True)
    ]
