"""Candidates for a merge, with an upper bound of the cost that needs no EM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import Spread
from amofa._em.outcome import Outcome, RowMoments
from amofa._em.profile_likelihood import Problem, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray

# Numbers of factors of a pair are chosen roughly, unless the increase of its cost is below this, in nats per row.
_PROMISING = 0.3
# Pairs of t components get a closer bound unless it is above this, in nats per row, from so many iterations on the rows
# of both, as far as these have a responsibility above the last number.
_PROMISING_TAILS, _REFIT_ITERATIONS, LEAST_RESPONSIBILITY = 1.0, 10, 1e-2
# Each component is paired with this number of others: two sides of a group share most rows with what lies between.
_PARTNERS = 3


@dataclass(frozen=True)
class MergedPair:
    """A pair of components merged into one."""

    first: int
    second: int
    merged: Component  # at its maximum for the rows of both
    excess: float  # increase of the cost in nats with the present responsibilities; EM can only reduce it

    def rows(self, counts: FloatArray) -> float:
        """Return the number of rows of both, from those of all components."""
        return float(counts[[self.first, self.second]].sum())


def merge_candidates(
    samples: Samples, parameters: Parameters, moments: RowMoments, problem: Problem, solver: Solver | None
) -> list[MergedPair]:
    """Pair each component with those that it shares most rows with; return pairs by increasing excess.

    The moments are those of all rows under these parameters.
    """
    responsibilities = samples.responsibilities(parameters)
    # A power of 2 does not change which is largest; without it, squares of large row weights would overflow.
    scaled = np.ldexp(responsibilities, -int(np.frexp(responsibilities.max())[1]))
    overlap = scaled @ scaled.T
    np.fill_diagonal(overlap, -1.0)
    partners = np.argsort(-overlap, axis=1, kind="stable")[:, : min(_PARTNERS, len(overlap) - 1)]
    pairs = sorted({(min(a, b), max(a, b)) for a, others in enumerate(partners.tolist()) for b in others})
    quick, has_tails = problem.rough(), problem.degrees_of_freedom < np.inf
    found = []
    for a, b in pairs:
        if min(moments.counts[[a, b]]) > 0:
            pair = _merged(a, b, responsibilities[[a, b]], parameters, moments, quick)
            if pair.excess < _PROMISING * pair.rows(moments.counts):
                pair = _merged(a, b, responsibilities[[a, b]], parameters, moments, problem)
            if has_tails and pair.excess < _PROMISING_TAILS * pair.rows(moments.counts):
                pair = _refitted(samples, pair, responsibilities[a] + responsibilities[b], parameters, problem, solver)
            found.append(pair)
    return sorted(found, key=lambda pair: pair.excess)


def paying(pairs: Sequence[MergedPair]) -> list[MergedPair]:
    """Return pairs that pay by their bounds, the first ones first, of which no two have a component in common."""
    kept: list[MergedPair] = []
    taken: set[int] = set()
    for pair in pairs:
        if pair.excess < 0 and not taken & {pair.first, pair.second}:
            kept.append(pair)
            taken |= {pair.first, pair.second}
    return kept


def with_merged(parameters: Parameters, pairs: Sequence[MergedPair]) -> Parameters:
    """Return a mixture with disjoint pairs of components merged."""
    gone = {k for pair in pairs for k in (pair.first, pair.second)}
    kept = [c for k, c in enumerate(parameters.components()) if k not in gone]
    return Parameters.from_components([*kept, *(pair.merged for pair in pairs)], parameters.background)


def merged_down(
    samples: Samples, fit: Outcome, problem: Problem, solver: Solver | None, em: Callable[[Parameters], Outcome]
) -> Outcome:
    """Merge all pairs that pay by their bounds, and run EM, until none pays."""
    while fit.n_components > 1:
        assert fit.moments is not None
        pairs = paying(merge_candidates(samples, fit.parameters, fit.moments, problem, solver))
        if not pairs:
            break
        fit = em(with_merged(fit.parameters, pairs))
    return fit


def _merged(
    a: int, b: int, responsibilities: FloatArray, parameters: Parameters, moments: RowMoments, problem: Problem
) -> MergedPair:
    problem.check()
    counts, tails = moments.counts[[a, b]], moments.tail_counts[[a, b]]
    means, spreads = moments.means[[a, b]], (moments.spreads[a], moments.spreads[b])
    old = [parameters.component(k) for k in (a, b)]
    count = float(counts.sum())
    share = float(counts[0] / count)
    # Rows of t components weigh less in the tails, and so do the components about their common mean.
    between = float(np.sqrt(tails.prod() / tails.sum() / (counts.prod() / count)))
    spread = spreads[0].pooled(share, spreads[1], between * (means[0] - means[1]))
    start = share * old[0].uniquenesses + (1 - share) * old[1].uniquenesses
    best = problem.choice.best(count, spread, start, max(len(c.loadings) for c in old))
    merged = Component(
        old[0].weight + old[1].weight,
        tails @ means / tails.sum(),
        best.loadings,
        best.uniquenesses,
        problem.degrees_of_freedom,
    )
    separate = sum(
        component_cost(n, own, component, problem)
        for n, own, component in zip(counts.tolist(), spreads, old, strict=True)
    )
    labels = _x_log_x(responsibilities.sum(axis=0)) - _x_log_x(responsibilities)
    weights = _x_log_x(counts) - _x_log_x(np.array([count]))
    return MergedPair(a, b, merged, best.cost - separate + labels + weights)


def rows_of(samples: Samples, responsibilities: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the positions of rows with enough of these responsibilities, (n,), multiplied by the row weights.

    With them come their own weights.
    """
    weights = samples.weights
    least = LEAST_RESPONSIBILITY if weights is None else LEAST_RESPONSIBILITY * weights
    rows = np.flatnonzero(responsibilities > least)
    return rows, np.ascontiguousarray(responsibilities[rows])


def _refitted(
    samples: Samples,
    pair: MergedPair,
    responsibilities: FloatArray,
    parameters: Parameters,
    problem: Problem,
    solver: Solver | None,
) -> MergedPair:
    """Return a pair of t components with a closer bound, by EM on the rows of both.

    In the first bound, rows keep the weights that they have in the tails of the two.
    """
    local = samples.weighted(*rows_of(samples, responsibilities))
    two = Parameters.from_components([parameters.component(k) for k in (pair.first, pair.second)])
    apart = profile_em(local, two, problem, solver, 1, choose_at_end=False)
    one = Parameters.from_components([pair.merged])
    merged = profile_em(local, one, problem, solver, _REFIT_ITERATIONS, choose_at=(0,), choose_at_end=False)
    component = merged.parameters.component(0)._replace(weight=pair.merged.weight)
    return replace(pair, merged=component, excess=min(pair.excess, merged.cost - apart.cost))


def component_cost(count: float, spread: Spread, component: Component, problem: Problem) -> float:
    """Return a component's own terms of the criterion, in nats: likelihood of its rows, price and prior."""
    loadings, noise = component.loadings, component.uniquenesses
    scaled = loadings / noise
    factor = np.linalg.cholesky(np.eye(len(loadings)) + scaled @ loadings.T)
    trace = float((spread.variances / noise).sum()) - spread.explained(np.linalg.solve(factor, scaled))
    log_determinant = float(np.log(noise).sum() + 2 * np.log(np.diagonal(factor)).sum())
    prior = 0.0 if problem.noise.is_shared else problem.prior.cost(noise[None], problem.noise)
    return (
        count / 2 * (log_determinant + trace) + problem.pricing.component(count, len(loadings), log_determinant) + prior
    )


def _x_log_x(values: FloatArray) -> float:
    positive = values[values > 0]
    return float(positive @ np.log(positive))
