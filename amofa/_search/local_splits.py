"""Local splits: the best way to split a component, found on its own rows by EM from several starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._em.outcome import Outcome
from amofa._em.profile_likelihood import Problem, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Component, Parameters
from amofa._search.splits import Mask, layers, parts, split_masks
from amofa._search.state import LocalSplit
from amofa._typing import FloatArray
from amofa.threads import OneEach, in_order

# Rows with a smaller responsibility are left out of the local fit of a component.
_LEAST_RESPONSIBILITY = 1e-2
# Local fits run in rounds, each with the best of the previous one: number of fits, number of iterations, and iterations
# in which the numbers of factors are chosen again.
_LOCAL_ROUNDS = ((None, 6, (0, 3)), (2, 15, (0, 8)))
# The best one then runs to convergence, for at most this number of iterations.
_LOCAL_ITERATIONS = 50
# In these rounds the numbers of factors are chosen roughly: each M-step continues with the uniquenesses.
_ROUGH_STEPS, _ROUGH_TOLERANCE = 4, 0.1
# A start is given up if it is worse than the best one by more than this, in nats per row of the component; the
# component is given up if its best start is that far from what is worth a trial.
_BEHIND = 0.3
# Local fits whose costs differ by less than this, in nats, are the same.
_SAME_COST = 0.01
# A component is unchanged if its count (relative) and its mean (in standard deviations) move by less than these.
_SAME_COUNT, _SAME_MEAN = 0.01, 0.02


class LocalSplitter:
    """Splits components of a mixture on their own rows.

    Splits are found in the rows of `sample`. `solvers` has a `Solver` for each thread, or is None for wide tables. A
    local fit that costs up to `worth_a_trial` nats more than the undivided component is tried on all rows.
    """

    def __init__(
        self, sample: Samples, problem: Problem, solvers: OneEach[Solver | None], worth_a_trial: float
    ) -> None:
        self.sample, self.problem, self.solvers, self.worth_a_trial = sample, problem, solvers, worth_a_trial
        self.rough = replace(problem, choice=replace(problem.choice, max_steps=_ROUGH_STEPS, tol=_ROUGH_TOLERANCE))

    def best_splits(self, parameters: Parameters, counts: FloatArray, known: Sequence[LocalSplit]) -> list[LocalSplit]:
        """Return the best local split of each component; known ones are kept for components that have not changed.

        Components with the largest soft counts (K,) come first, so that threads do not wait for them at the end.
        """
        components = parameters.components()
        found = [next((split for split in known if _same(split.component, c)), None) for c in components]
        new = [k for k in np.argsort(-counts, kind="stable").tolist() if found[k] is None]
        if new:
            responsibilities = self.sample.responsibilities(parameters)
            splits = in_order(lambda: lambda k: self._best_split(components[k], responsibilities[k]), new)
            for k, split in zip(new, splits, strict=True):
                found[k] = split
        return [split for split in found if split is not None]

    def starts_of(self, component: Component, responsibilities: FloatArray) -> list[Parameters]:
        """Return pairs of components to start a local fit from; none if there are no rows to divide."""
        whole = self._whole(component, responsibilities)
        return [] if whole is None else self._starts(*whole)

    def _whole(self, component: Component, responsibilities: FloatArray) -> tuple[Samples, Outcome] | None:
        """Return the rows of a component and its fit to them; None if there are no rows to divide."""
        weights = self.sample.weights
        least = _LEAST_RESPONSIBILITY if weights is None else _LEAST_RESPONSIBILITY * weights
        rows = np.flatnonzero(responsibilities > least)
        if len(rows) < 2:
            return None
        local = self.sample.weighted(rows, np.ascontiguousarray(responsibilities[rows]))
        one = Parameters.from_components([component])
        return local, profile_em(local, one, self.problem, self.solvers.get(), 1, choose_at_end=False)

    def _best_split(self, component: Component, responsibilities: FloatArray) -> LocalSplit:
        component = _own(component)
        found = self._whole(component, responsibilities)
        if found is None:
            return LocalSplit(component, -np.inf, None)
        local, whole = found
        starts = self._starts(local, whole)
        bar = whole.cost + self.worth_a_trial + _BEHIND * local.total_weight
        for number, max_iter, choose_at in _LOCAL_ROUNDS:
            fits = self._rough_fits(local, starts[:number], max_iter, choose_at, bar)
            starts = [fit.parameters for fit in fits]
            if not fits or fits[0].cost > bar:
                return LocalSplit(component, -np.inf, None)
        fit = profile_em(local, starts[0], self.problem, self.solvers.get(), _LOCAL_ITERATIONS, choose_at=(0,))
        if fit.n_components < 2:
            return LocalSplit(component, -np.inf, None)
        # The heavier child first, whichever side of the parent it started on: signs of eigenvectors are arbitrary.
        ordered = sorted(fit.parameters.components(), key=lambda c: (-c.weight, c.mean.tolist()))
        first, second = (c._replace(weight=c.weight * component.weight) for c in ordered)
        return LocalSplit(component, whole.cost - fit.cost, (first, second))

    def _starts(self, local: Samples, whole: Outcome) -> list[Parameters]:
        x = np.concatenate([chunk for chunk, _ in local.chunks()], axis=1)
        weights = np.ones(local.n_rows) if local.weights is None else local.weights
        problem, moments = self.problem, whole.moments
        assert moments is not None
        masks = split_masks(x, weights, moments.means[0], moments.spreads[0], problem.check)

        def parted(ways: Sequence[Mask]) -> list[tuple[Mask, Parameters]]:
            starts = ((mask, parts(x, weights, mask, problem)) for mask in ways)
            return [(mask, start) for mask, start in starts if start is not None]

        plain = [start for _, start in parted(masks.all)]
        solver = self.solvers.get()
        layered = [layers(x, weights, mask, problem, solver, start) for mask, start in parted(masks.across)]
        return plain + [start for start in layered if any(start.n_factors)]

    def _rough_fits(
        self, local: Samples, starts: Sequence[Parameters], max_iter: int, choose_at: Sequence[int], bar: float
    ) -> list[Outcome]:
        """Fit two components from each start; return the fits by increasing cost, equal ones once."""
        fits: list[Outcome] = []
        for start in starts:
            fit = profile_em(
                local,
                start,
                self.rough,
                self.solvers.get(),
                max_iter,
                choose_at=choose_at,
                choose_at_end=False,
                bar=bar,
            )
            if fit.n_components == 2:
                fits.append(fit)
                bar = min(bar, fit.cost + _BEHIND * local.total_weight)
        fits.sort(key=lambda fit: fit.cost)
        return [fit for i, fit in enumerate(fits) if i == 0 or fit.cost > fits[i - 1].cost + _SAME_COST]


def _same(a: Component, b: Component) -> bool:
    """Return whether a component has hardly moved."""
    if len(a.loadings) != len(b.loadings) or abs(a.weight - b.weight) > _SAME_COUNT * a.weight:
        return False
    deviation = np.sqrt(a.uniquenesses + (a.loadings**2).sum(axis=0))
    return bool((np.abs(a.mean - b.mean) < _SAME_MEAN * deviation).all())


def _own(component: Component) -> Component:
    """Return a copy of a component, which does not keep its mixture in memory."""
    mean, loadings, uniquenesses = component.mean.copy(), component.loadings.copy(), component.uniquenesses.copy()
    return component._replace(mean=mean, loadings=loadings, uniquenesses=uniquenesses)
