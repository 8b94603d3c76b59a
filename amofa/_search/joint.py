"""Starts of families whose components have something in common, which splits of single components cannot find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import Covariance
from amofa._em.joint import GroupMoments, joint_family
from amofa._em.outcome import Outcome
from amofa._em.profile_likelihood import Problem, moments_of_rows, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa._search.local_splits import LocalSplitter
from amofa._search.merges import merge_candidates, with_merged
from amofa._search.splits import Labels
from amofa._search.state import LocalSplit
from amofa._search.ways import partitioned, promising
from amofa._typing import FloatArray
from amofa.threads import OneEach, in_order

# The most groups to try, as far as there are this many rows for each. Splits lead to more.
_MOST_GROUPS, _ROWS_PER_GROUP = 8, 6
# Short fits: number of iterations, and those in which the numbers of factors are chosen again.
_ITERATIONS, _CHOOSE_AT = 10, (4,)
# Number of mixtures that are fitted further.
_MOST_WAYS = 4
# Groups of fewer rows are no start, unless their number is given.
_LEAST_GROUP = 2.0
# Neighbours of a mixture: number of splits, and of merges; and how much more than it they may cost after the short fit,
# in nats per row.
_MOST_NEIGHBOURS = 4
_HOPELESS = 0.05


def joint_ways(
    samples: Samples,
    problem: Problem,
    solvers: OneEach[Solver | None],
    numbers: Sequence[int],
    others: Sequence[Parameters],
    bar: float = np.inf,
) -> list[Parameters]:
    """Return mixtures of the family of a problem to fit, the most promising first; none that costs more than the bar.

    They start from partitions of the rows into these numbers of groups, and from responsibilities of other mixtures.
    """
    found: list[Labels] = []
    if numbers:
        x, weights, found = partitioned(samples, problem, solvers.get(), [k for k in numbers if k > 1])
    if 1 in numbers:
        found.append(np.zeros(x.shape[1], dtype=np.intp))
    least = _LEAST_GROUP if problem.annihilates else 0.0

    def make_worker() -> Callable[[Labels | Parameters], Outcome | None]:
        solver = solvers.get()
        assert solver is not None
        family = joint_family(problem.choice, solver)

        def fit(source: Labels | Parameters) -> Outcome | None:
            problem.check()
            if isinstance(source, Parameters):
                moments = _moments_under(samples, source, problem, solver)
            else:
                moments = _moments_of_groups(x, weights, source)
                if not moments.counts.min() > least:
                    return None
            start = family.start(moments)
            return profile_em(samples, start, problem, solver, _ITERATIONS, choose_at=_CHOOSE_AT, choose_at_end=False)

        return fit

    sources: list[Labels | Parameters] = [*others, *found]
    fits = [fit for fit in in_order(make_worker, sources) if fit is not None and fit.cost < bar]
    return promising(sorted(fits, key=lambda fit: fit.cost), _MOST_WAYS)


def numbers_of_groups(samples: Samples, most: int) -> list[int]:
    """Return the numbers of groups, up to the maximum, that rows are divided into."""
    return list(range(2, min(_MOST_GROUPS, most, samples.n_rows // _ROWS_PER_GROUP) + 1))


def neighbouring_ways(
    samples: Samples, found: Outcome, problem: Problem, solvers: OneEach[Solver | None], known: Sequence[LocalSplit]
) -> tuple[list[Parameters], list[LocalSplit]]:
    """Return mixtures of the family to fit that start from another one with components split, or a pair merged.

    Splits and pairs are those of components that have nothing in common. The local splits are returned, too; known ones
    are kept for components that have not changed.
    """
    assert found.moments is not None
    parameters = found.parameters
    own = replace(problem, noise=Noise.COMPONENT, choice=replace(problem.choice, noise=Noise.COMPONENT))
    splits = LocalSplitter(own, solvers, np.inf).best_splits(samples, parameters, found.moments.counts, known)
    order = sorted((k for k, split in enumerate(splits) if split.children is not None), key=lambda k: -splits[k].gain)
    paying = [k for k in order if splits[k].gain > 0]
    chosen = [[k] for k in order[:_MOST_NEIGHBOURS]] + ([paying] if len(paying) > 1 else [])
    starts = [_divided(parameters, splits, each) for each in chosen]
    if found.n_components > 1:
        pairs = merge_candidates(samples, parameters, found.moments, own, solvers.get())
        starts += [with_merged(parameters, [pair]) for pair in pairs[:_MOST_NEIGHBOURS]]
    bar = found.cost + _HOPELESS * samples.total_weight
    return joint_ways(samples, problem, solvers, [], starts, bar), splits


def _divided(parameters: Parameters, splits: Sequence[LocalSplit], chosen: Sequence[int]) -> Parameters:
    """Return a mixture with the chosen components replaced by their children."""
    components: list[Component] = []
    for k, component in enumerate(parameters.components()):
        components += (splits[k].children or ()) if k in chosen else (component,)
    return Parameters.from_components(components)


def _moments_of_groups(x: FloatArray, weights: FloatArray, labels: Labels) -> GroupMoments:
    """Return the moments of the rows x (d, n) with each label."""
    members = (labels == np.arange(labels.max() + 1)[:, None]) * weights
    counts = members.sum(axis=1)
    means = members @ x.T / counts[:, None]
    covariances = []
    for member, count, mean in zip(members, counts, means, strict=True):
        rows = member > 0
        deviations = (x[:, rows] - mean[:, None]) * np.sqrt(member[rows] / count)
        covariances.append(deviations @ deviations.T)
    return GroupMoments(counts, means, np.array(covariances))


def _moments_under(samples: Samples, parameters: Parameters, problem: Problem, solver: Solver) -> GroupMoments:
    """Return the moments of the rows under any mixture."""
    found = moments_of_rows(samples, parameters, problem, solver)
    matrices = [spread.matrix for spread in found.spreads if isinstance(spread, Covariance)]
    return GroupMoments(np.array(found.counts), np.array(found.means), np.array(matrices))
