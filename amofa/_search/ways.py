"""Other ways into a search than splits: partitions of the rows into several groups at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import Spread
from amofa._em.outcome import Outcome
from amofa._em.profile_likelihood import Problem, moments_of_rows, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Parameters
from amofa._search.splits import Labels, invariant_axes, layers, parts, usable_axes
from amofa._typing import FloatArray
from amofa.threads import OneEach, in_order

# Numbers of groups to try, as far as there are this many rows for each.
_NUMBERS = (2, 3, 4, 5, 6, 7, 8, 12, 18, 27, 40)
_ROWS_PER_GROUP = 10
# All of the first numbers that are allowed are tried.
_ALL = 2
# Ward's method needs all distances; larger tables are represented by rows spread evenly in the order given.
_MOST_WARD_ROWS = 1000
# Most iterations of k-means from the groups of Ward's method.
_K_MEANS_ITERATIONS = 30
# Of more rows than this, and than this number for each column, evenly spread ones are partitioned and fitted.
_MOST_ROWS, _ROWS_PER_COLUMN = 2048, 32
# Axes with a smaller share of the largest variance are ignored.
_LEAST_AXIS = 1e-9
# Number of invariant axes at each end.
_ENDS = 2
# Rows of components with fewer than this number may each have a component.
_FEW_ROWS = 8
# Short fits of one component where cells are missing: number of iterations, and those in which the numbers of factors
# are chosen.
_ITERATIONS, _CHOOSE_AT = 10, (0, 4)
# The same for mixtures from partitions: of all, and then of so many of the cheapest of each number of components.
_FIRST, _SECOND, _OF_EACH_NUMBER = (3, (0,)), (7, (1,)), 3
# Number of mixtures to descend from, if all rows are searched or only some, and the difference in cost, in nats, of
# those that count as different. Real tables have many local ends: of 40, those that end more than a nat above the best
# that is known fall from 12 to 6 with 8 in place of 3.
_MOST_WAYS, _FEW_WAYS = 8, 3
_SAME_COST = 0.5


def ways_in(
    samples: Samples, problem: Problem, solvers: OneEach[Solver | None], allowed: range, bar: float, *, thorough: bool
) -> list[Parameters]:
    """Return mixtures to descend from, the most promising first.

    Each partition of the rows makes a component of each group, and EM runs for some iterations. The numbers of groups
    are among those allowed, and mixtures above the cost `bar` are not worth it. If it is `thorough`, there are more
    partitions and more mixtures.
    """
    most = samples.n_rows // max(_ROWS_PER_GROUP, 2 * samples.n_features)
    samples = samples.thinned(max(_MOST_ROWS, _ROWS_PER_COLUMN * samples.n_features))
    numbers = [k for k in allowed if k in _NUMBERS or k < allowed.start + _ALL]
    numbers = [k for k in numbers if k <= most or k == allowed.start]
    if not numbers:
        return []
    x, weights, found = partitioned(samples, problem, solvers.get(), numbers, thorough=thorough)

    quick = problem.rough()

    def em(start: Parameters, solver: Solver | None, max_iter: int, choose_at: Sequence[int]) -> Outcome:
        return profile_em(samples, start, quick, solver, max_iter, choose_at=choose_at, choose_at_end=False, bar=bar)

    def make_starter() -> Callable[[Labels], Outcome | None]:
        solver = solvers.get()

        def fit(labels: Labels) -> Outcome | None:
            start = parts(x, weights, labels, problem)
            return None if start is None else em(layers(x, weights, labels, quick, solver, start), solver, *_FIRST)

        return fit

    def make_worker() -> Callable[[Outcome], Outcome]:
        solver = solvers.get()
        return lambda fit: em(fit.parameters, solver, *_SECOND)

    fits = [fit for fit in in_order(make_starter, found) if fit is not None]
    fits = list(in_order(make_worker, _best_of_each_number(fits)))
    fits = [fit for fit in _each_number_first(fits) if fit.n_components > 1 and fit.cost < bar]
    return promising(fits, _MOST_WAYS if thorough else _FEW_WAYS)


def _best_of_each_number(fits: Sequence[Outcome]) -> list[Outcome]:
    """Return the cheapest fits of each number of components."""
    numbers: dict[int, list[Outcome]] = {}
    for fit in sorted(fits, key=lambda fit: fit.cost):
        numbers.setdefault(fit.n_components, []).append(fit)
    return [fit for of_one in numbers.values() for fit in of_one[:_OF_EACH_NUMBER]]


def _each_number_first(fits: Sequence[Outcome]) -> list[Outcome]:
    """Return fits in the order of their costs, but the cheapest of each number of components before the others.

    More components take longer to find their factors, so that costs after few iterations say little about numbers.
    """
    fits = sorted(fits, key=lambda fit: fit.cost)
    firsts = {fit.n_components: fit for fit in reversed(fits)}
    return sorted(fits, key=lambda fit: firsts[fit.n_components] is not fit)


def promising(fits: Iterable[Outcome], most: int) -> list[Parameters]:
    """Return the mixtures of the first fits that differ."""
    kept: list[Outcome] = []
    for fit in fits:
        differs = all(abs(fit.cost - other.cost) > _SAME_COST for other in kept)
        if differs and len(kept) < most:
            kept.append(fit)
    return [fit.parameters for fit in kept]


def partitioned(
    samples: Samples, problem: Problem, solver: Solver | None, numbers: Sequence[int], *, thorough: bool = False
) -> tuple[FloatArray, FloatArray, list[Labels]]:
    """Return rows (d, n), where cells are missing the best seen ones, their weights, and partitions of them."""
    one = Parameters.of_one_component(np.ones(samples.n_features))
    if not samples.is_complete:
        one = profile_em(samples, one, problem, solver, _ITERATIONS, choose_at=_CHOOSE_AT).parameters
    moments = moments_of_rows(samples, one, problem, solver)
    best_seen = samples.best_seen()
    x = best_seen.filled(one)
    weights = np.ones(best_seen.n_rows) if best_seen.weights is None else best_seen.weights
    return x, weights, partitions(x, weights, moments.means[0], moments.spreads[0], numbers, thorough=thorough)


def partitions(
    x: FloatArray, weights: FloatArray, mean: FloatArray, spread: Spread, numbers: Sequence[int], *, thorough: bool
) -> list[Labels]:
    """Return partitions of the rows x (d, n), with these moments, into the given numbers of groups.

    Groups come from Ward's method in three metrics: that of the columns; that of the whitened rows, in which groups lie
    apart that differ little beside a strong common factor; and that of the first and last invariant axes. If it is
    `thorough`, they come also from columns of variance 1, which are not those in units of their bodies, and from
    k-means that starts from Ward's groups.
    """
    values, vectors = spread.axes()
    used = np.flatnonzero(values > _LEAST_AXIS * values[:1])
    if len(used) == 0:
        return []
    centred = x - mean[:, None]
    whitened = usable_axes(vectors[used] @ centred / np.sqrt(values[used, None]))
    invariant = invariant_axes(whitened, weights)
    if len(invariant) > 2 * _ENDS:
        invariant = np.concatenate([invariant[:_ENDS], invariant[-_ENDS:]])
    metrics = [centred, whitened, invariant]
    if thorough:
        deviations = np.sqrt(spread.variances)
        metrics.append(centred / np.where(deviations > 0, deviations, 1.0)[:, None])
    found: dict[bytes, Labels] = {}
    for coordinates in metrics:
        for labels in _ward(coordinates, numbers, with_k_means=thorough):
            found.setdefault(labels.tobytes(), labels)
    return list(found.values())


def _ward(coordinates: FloatArray, numbers: Sequence[int], *, with_k_means: bool) -> list[Labels]:
    """Return partitions by Ward's method, and by k-means from these; rows not seen go to the nearest centre."""
    # Imported late, since that takes as long as importing NumPy.
    from scipy.cluster.hierarchy import fcluster, linkage

    n = coordinates.shape[1]
    chosen = np.linspace(0, n - 1, min(n, _MOST_WARD_ROWS)).astype(np.intp)
    seen = coordinates[:, chosen]
    tree = linkage(seen.T, "ward")
    found = []
    for k in numbers:
        labels = fcluster(tree, k, "maxclust").astype(np.intp) - 1
        found += [labels, _k_means(seen, labels)] if with_k_means else [labels]
    return found if len(chosen) == n else [_nearest(coordinates, _centres(seen, labels)) for labels in found]


def _k_means(coordinates: FloatArray, labels: Labels) -> Labels:
    """Return the partition that k-means finds from another one; it may have fewer groups."""
    for _ in range(_K_MEANS_ITERATIONS):
        before, labels = labels, _nearest(coordinates, _centres(coordinates, labels))
        if np.array_equal(labels, before):
            break
    return labels


def _centres(coordinates: FloatArray, labels: Labels) -> FloatArray:
    """Return the means of the groups, (k, d)."""
    groups = labels == np.arange(labels.max() + 1)[:, None]
    centres: FloatArray = groups @ coordinates.T / groups.sum(axis=1)[:, None]
    return centres


def _nearest(coordinates: FloatArray, centres: FloatArray) -> Labels:
    """Return the number of the nearest centre for each row, without numbers that no row has."""
    nearest = np.argmin((centres**2).sum(axis=1)[:, None] - 2 * centres @ coordinates, axis=0)
    return np.unique(nearest, return_inverse=True)[1]


def with_rows_apart(samples: Samples, parameters: Parameters, most: int) -> list[Parameters]:
    """Return the mixture with a component for each row of its smallest components; none where that makes too many."""
    counts = parameters.weights * samples.total_weight
    small = np.flatnonzero(counts < _FEW_ROWS)
    if len(small) == 0:
        return []
    responsibilities = samples.responsibilities(parameters)
    owners = np.argmax(responsibilities, axis=0)
    # Where weights are small, they are not of few rows.
    small = small[np.bincount(owners, minlength=len(counts))[small] <= 2 * _FEW_ROWS]
    rows = np.flatnonzero(np.isin(owners, small))
    n_components = parameters.n_components - len(small) + len(rows)
    if not parameters.n_components < n_components <= most:
        return []
    x = samples.filled(parameters)[:, rows]
    owners = owners[rows]
    weights = responsibilities[owners, rows] / samples.total_weight
    none = np.zeros((0, samples.n_features))
    singles = [
        parameters.component(k)._replace(weight=float(weight), mean=row.copy(), loadings=none)
        for k, weight, row in zip(owners.tolist(), weights, x.T, strict=True)
    ]
    kept = [parameters.component(k) for k in range(parameters.n_components) if k not in small]
    return [Parameters.from_components([*kept, *singles], parameters.background)]
