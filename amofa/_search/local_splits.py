"""Local splits: the best way to split a component, found on its own rows by EM from several starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import Covariance
from amofa._em.outcome import Outcome
from amofa._em.profile_likelihood import Problem, log_determinant, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Component, Parameters
from amofa._search.merges import merged_down, rows_of
from amofa._search.splits import MOST_PARTS, Labels, Survey, layers, parts
from amofa._search.state import LocalSplit
from amofa._typing import FloatArray
from amofa.criterion import n_parameters
from amofa.threads import THREADS, Executor, OneEach

# More rows than this are represented by evenly spread ones until the best start is known.
_MOST_ROWS = 2048


class Race(NamedTuple):
    """How starts compete: in rounds, each with the best of the one before; then the best one runs on."""

    # Number of starts, number of iterations, and iterations in which the numbers of factors are chosen again.
    rounds: tuple[tuple[int | None, int, tuple[int, ...]], ...]
    last: int  # most iterations of the best one


# While splits pay, quick looks find most of them. Before a component is given up, it gets a thorough one.
_QUICK = Race(((None, 2, (0,)), (2, 8, (2,))), 25)
_THOROUGH = Race(((None, 6, (0, 3)), (4, 15, (0, 8))), 50)
# A start is given up if it is worse than the best one by more than this, in nats per row of the component; the
# component is given up if its best start is that far from what is worth a trial.
_BEHIND = 0.3
# A child with less than this many rows is an outlier.
_FEW_ROWS = 2.5
# Local fits whose costs differ by less than this, in nats, are the same.
_SAME_COST = 0.01
# A component is unchanged if its count (relative) and its mean (in standard deviations) move by less than these.
_SAME_COUNT, _SAME_MEAN = 0.01, 0.02


@dataclass(frozen=True)
class Part:
    """A component and its rows, which are all that a local split needs."""

    component: Component
    sample: Samples
    rows: tuple[NDArray[np.intp], FloatArray] | None = None  # of the sample, with their weights; None for all

    @classmethod
    def of(cls, sample: Samples, component: Component, responsibilities: FloatArray) -> Part:
        """Return a component with these responsibilities for the rows of a sample, (n,)."""
        return cls(_own(component), sample, rows_of(sample, responsibilities))

    def samples(self) -> Samples:
        """Return the rows of the component."""
        return self.sample if self.rows is None else self.sample.weighted(*self.rows)

    # Other rows of the sample stay here.
    def __reduce__(self) -> tuple[type[Part], tuple[Component, Samples]]:
        return Part, (self.component, self.samples())


@dataclass(frozen=True)
class LocalSplitter:
    """Splits components of a mixture on their own rows.

    `solvers` has a `Solver` for each thread, or None for wide tables. A local fit that costs up to `worth_a_trial` nats
    per row more than the undivided component is tried on all rows. Each row of the sample stands for `rows_each` rows
    of the table, and counts as often.
    """

    problem: Problem
    solvers: OneEach[Solver | None]
    worth_a_trial: float
    most_parts: int = MOST_PARTS
    thorough: bool = True
    rows_each: float = 1.0

    def best_splits(
        self,
        sample: Samples,
        parameters: Parameters,
        counts: FloatArray,
        known: Sequence[LocalSplit],
        executor: Executor = THREADS,
    ) -> list[LocalSplit]:
        """Return the best local split of each component; known ones are kept for components that have not changed.

        Components with the largest soft counts (K,) come first, so that no one waits for them at the end.
        """
        components = parameters.components()
        good = [split for split in known if split.thorough or not self.thorough]
        found = [next((split for split in good if _same(split.component, c)), None) for c in components]
        new = [k for k in np.argsort(-counts, kind="stable").tolist() if found[k] is None]
        if new:
            responsibilities = sample.responsibilities(parameters)
            parts = [Part.of(sample, components[k], responsibilities[k]) for k in new]
            for k, split in zip(new, self.splits_of(parts, executor), strict=True):
                found[k] = split
        return [split for split in found if split is not None]

    def splits_of(self, parts: Sequence[Part], executor: Executor) -> list[LocalSplit]:
        """Return the best local split of each part."""
        splits = []
        for split in executor.in_order(self._worker, parts):
            # Workers elsewhere look at no clock.
            self.problem.check()
            splits.append(split)
        return splits

    def _worker(self) -> Callable[[Part], LocalSplit]:
        return self.best_split

    def starts_of(self, part: Part) -> list[Parameters]:
        """Return pairs of components to start a local fit from; none if there are no rows to divide."""
        local = part.samples()
        whole = self._whole(part.component, local)
        return [] if whole is None else self._starts(*self._survey(*self._few(local, whole)))

    def _whole(self, component: Component, local: Samples) -> Outcome | None:
        """Return the fit of a component to its rows; None if there are no rows to divide."""
        if local.n_rows < 2:
            return None
        one = Parameters.from_components([component])
        return profile_em(local, one, self.problem, self.solvers.get(), 1, choose_at_end=False)

    def best_split(self, part: Part) -> LocalSplit:
        """Return the best local split of a component."""
        component, local = part.component, part.samples()
        none = LocalSplit(component, -np.inf, None, thorough=self.thorough)
        whole = self._whole(component, local)
        if whole is None:
            return none
        few = self._few(local, whole)
        survey, x, weights = self._survey(*few)
        # Rows that are fewer than the columns may differ a little in each of these, which no line shows.
        lines_show_groups = self.worth_a_trial < np.inf and local.n_rows >= local.n_features
        evidence = survey.evidence_of_groups()
        if not local.is_complete:
            # More cells show more; what shows by chance, of which this is the largest, does not grow.
            evidence *= float(np.sqrt(local.column_weights.sum() / few[0].best_seen().column_weights.sum()))
        least = self._price(local.total_weight, whole) + self._gained_by_chance(whole, (0, 0))
        if lines_show_groups and evidence < least:
            return replace(none, fits=True, thorough=True)
        best = self._race(*few, self._starts(survey, x, weights))
        if best is None:
            return none
        solver = self.solvers.get()

        def em(start: Parameters) -> Outcome:
            race = _THOROUGH if self.thorough else _QUICK
            return profile_em(local, start, self.problem, solver, race.last, choose_at=(0,))

        fit = em(best.parameters)
        if fit.n_components > 2:
            fit = merged_down(local, fit, self.problem, solver, em)
        if fit.n_components < 2:
            return none
        # The heavier child first, whichever side of the parent it started on: signs of eigenvectors are arbitrary.
        ordered = sorted(fit.parameters.components(), key=lambda c: (-c.weight, c.mean.tolist()))
        children = tuple(c._replace(weight=c.weight * component.weight) for c in ordered)
        gain = whole.cost - fit.cost - self._gained_by_chance(whole, fit.parameters.n_factors)
        return replace(none, gain=gain, children=children)

    def _few(self, local: Samples, whole: Outcome) -> tuple[Samples, Outcome]:
        """Return evenly spread rows with the weight of all, if there are many, and the fit of the component to them."""
        few = local.thinned(_MOST_ROWS)
        if few is local:
            return local, whole
        return few, profile_em(few, whole.parameters, self.problem, self.solvers.get(), 1, choose_at_end=False)

    def _race(self, local: Samples, whole: Outcome, starts: list[Parameters]) -> Outcome | None:
        """Return the best of the fits from each start, after some iterations; None if all are hopeless."""
        bar = whole.cost + (self.worth_a_trial + _BEHIND) * local.total_weight
        fits: list[Outcome] = []
        for number, max_iter, choose_at in (_THOROUGH if self.thorough else _QUICK).rounds:
            fits = self._rough_fits(local, starts[:number], max_iter, choose_at, bar, whole.cost)
            starts = [fit.parameters for fit in fits]
            if not fits or fits[0].cost > bar:
                return None
        return fits[0]

    def _survey(self, local: Samples, whole: Outcome) -> tuple[Survey, FloatArray, FloatArray]:
        local = local.best_seen()
        x = local.filled(whole.parameters)
        weights = np.ones(local.n_rows) if local.weights is None else local.weights
        moments = whole.moments
        assert moments is not None
        mean, spread = moments.means[0], moments.spreads[0]
        if isinstance(spread, Covariance) and not local.is_complete:
            mean, spread = spread.of_rows(x, weights)
        return Survey(x, weights, mean, spread), x, weights

    def _price(self, count: float, whole: Outcome) -> float:
        """Return the least that a split adds to the price, in nats: two components without factors for the whole."""
        component = whole.parameters.component(0)
        determinant = log_determinant(component.loadings, component.uniquenesses)
        price = self.problem.pricing.component
        return 2 * price(count / 2, 0, determinant) - price(count, len(component.loadings), determinant)

    def _gained_by_chance(self, whole: Outcome, n_factors: Sequence[int]) -> float:
        """Return what components with these numbers of factors gain by chance over the whole, in nats.

        A parameter gains half a nat on the rows that it is fitted to, and loses as much on others. That counts as often
        as each of these rows; on the table itself, prices cover it.
        """
        d, noise = whole.parameters.n_features, self.problem.noise
        added = n_parameters(d, n_factors, noise) - n_parameters(d, whole.parameters.n_factors, noise)
        return (self.rows_each - 1.0) * max(added, 0)

    def _starts(self, survey: Survey, x: FloatArray, weights: FloatArray) -> list[Parameters]:
        problem = self.problem
        ways = survey.divisions(self.most_parts)

        def parted(divided: Sequence[Labels]) -> list[tuple[Labels, Parameters]]:
            starts = ((labels, parts(x, weights, labels, problem)) for labels in divided)
            return [(labels, start) for labels, start in starts if start is not None]

        plain = [start for _, start in parted(ways.all)]
        solver = self.solvers.get()
        layered = [layers(x, weights, labels, problem, solver, start) for labels, start in parted(ways.across)]
        return plain + [start for start in layered if any(start.n_factors)]

    def _rough_fits(
        self,
        local: Samples,
        starts: Sequence[Parameters],
        max_iter: int,
        choose_at: Sequence[int],
        bar: float,
        least: float,
    ) -> list[Outcome]:
        """Fit a mixture from each start; return the fits by increasing cost, equal ones once.

        Fits in which a single row or two are apart only count if they cost less than `least`.
        """
        fits: list[Outcome] = []
        rough = self.problem.rough()
        for start in starts:
            fit = profile_em(
                local,
                start,
                rough,
                self.solvers.get(),
                max_iter,
                choose_at=choose_at,
                choose_at_end=False,
                bar=bar,
            )
            if fit.n_components > 1 and (fit.cost < least or _has_rows(fit, local.total_weight)):
                fits.append(fit)
                bar = min(bar, fit.cost + _BEHIND * local.total_weight)
        fits.sort(key=lambda fit: fit.cost)
        return [fit for i, fit in enumerate(fits) if i == 0 or fit.cost > fits[i - 1].cost + _SAME_COST]


def _has_rows(fit: Outcome, count: float) -> bool:
    return float(fit.parameters.weights.min()) * count > _FEW_ROWS


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
