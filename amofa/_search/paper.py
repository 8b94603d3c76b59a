"""The search of the paper (figure amofa): grow by the better of a split and a factor, then downsize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._em.standard import Fit, Settings, expectation_maximization
from amofa._parameters import FloatArray, Parameters
from amofa._search.constraints import LEAST_SHARE_OF_A_ROW, MOST_FACTORS_SHARE, REFINEMENT, Limits
from amofa._search.journal import Arrays, pack_outcome, unpack_outcome
from amofa._search.monitor import Watch
from amofa._search.paper_moves import (
    Shape,
    Shapes,
    add_factor,
    covariance_misfit,
    first_mixture,
    merge_coincident,
    shapes,
    split,
    variances,
    without_idle,
)

# The component of largest kurtosis is often not the one whose split pays: where it does not, the runner-up is tried.
# Measured on 300 fresh draws of Example 2: the right K in 282 with it, 260 without.
_SPLIT_CANDIDATES = 2
# The message length rewards a component of fewer rows, since log(N pi_k / 12) is negative: a split that ends with one
# is not believed, as no code is shorter than nothing.
_LEAST_ROWS = 12.0


@dataclass(frozen=True)
class Proposal:
    """A changed mixture after EM on all rows."""

    action: str
    component: int
    fit: Fit
    n_iter: int


def paper_search(
    samples: Samples, settings: Settings, limits: Limits, watch: Watch[Fit], init: Parameters | None = None
) -> Fit:
    """The algorithm of the paper, with the choices where it is silent that are listed in docs/algorithm.md.

    Parameters
    ----------
    samples : Samples
    settings : Settings
    limits : Limits
    watch : Watch
        Sees every model that was looked at, the rejected ones too.
    init : Parameters, optional
        The mixture to start from, in place of one component.

    Returns
    -------
    Fit
        The model of smallest cost of all that meet `limits`.
    """
    search = _Search(samples, settings, limits, watch)
    search.start(init)
    while search.grow():
        pass
    if isinstance(limits.n_factors, tuple):
        search.complete_factors(limits.n_factors)
    if limits.n_components is None:
        search.downsize(1)
    return search.refine()


class _Search:
    """The model at hand."""

    def __init__(self, samples: Samples, settings: Settings, limits: Limits, watch: Watch[Fit]) -> None:
        self.samples, self.settings, self.limits, self.watch = samples, settings, limits, watch
        self.current: Fit

    # -- the phases --

    def start(self, init: Parameters | None) -> None:
        """Fit one component, or the mixture given, as far as it may have as many and of so many factors."""
        first = init or first_mixture(self.samples, self.limits.first_factors, self.settings.floor)
        self.settle("start", first)
        if self.limits.most_components is not None:
            self.downsize(self.limits.most_components)
        given = self.limits.n_factors
        if isinstance(given, int) and min(self.current.parameters.n_factors) < given:
            self.complete_factors((given,) * self.current.parameters.n_components)

    def settle(self, action: str, start: Parameters) -> None:
        """Fit a mixture, without components that come to nothing on the way."""
        kept: Parameters | None = start
        while kept is not None:
            self.current = self.fit(kept)
            self.record(Proposal(action, -1, self.current, self.current.n_iter), accepted=True)
            fewer = without_idle(self.current.parameters, self.samples)
            kept = None if fewer is self.current.parameters else fewer

    def grow(self) -> bool:
        """Make the better of a split and a factor addition; False where neither lowers the cost enough."""
        moments = shapes(self.samples, self.current.parameters)
        proposals = [p for p in (self.propose_split(moments), self.propose_factor(moments)) if p is not None]
        accepted = self.choose(proposals)
        for proposal in proposals:
            self.record(proposal, accepted=proposal is accepted)
        if accepted is not None:
            self.current = accepted.fit
        return accepted is not None

    def choose(self, proposals: Sequence[Proposal]) -> Proposal | None:
        """The cheapest proposal if it lowers the cost by more than the tolerance; a split where more must come."""
        best = min(proposals, key=lambda p: p.fit.cost, default=None)
        if best is not None and self.pays(best):
            return best
        if self.limits.n_components is not None:
            return next((p for p in proposals if p.action == "split"), None)
        return None

    def pays(self, proposal: Proposal) -> bool:
        """Whether it lowers the cost by more than the tolerance."""
        return self.current.cost - proposal.fit.cost > self.settings.tol * self.samples.total_weight

    def complete_factors(self, n_factors: tuple[int, ...]) -> None:
        """Give the components, the heaviest first, the numbers of factors that were asked for."""
        order = np.argsort(-self.current.parameters.weights, kind="stable")
        components = self.current.parameters.components()
        parameters = Parameters.from_components([components[k] for k in order])
        for k, wanted in enumerate(n_factors[: parameters.n_components]):
            covariance = shapes(self.samples, parameters).covariances[k]
            while parameters.n_factors[k] < wanted:
                parameters = add_factor(parameters, k, covariance, self.settings.floor)
            self.current = self.fit(parameters)
            parameters = self.current.parameters
            self.record(Proposal("factor", k, self.current, self.current.n_iter), accepted=True)

    def downsize(self, n_components: int) -> None:
        """Remove the component of smallest weight, run EM, and so on down to so many components."""
        while self.current.parameters.n_components > n_components:
            lightest = int(np.argmin(self.current.parameters.weights))
            self.current = self.fit(self.current.parameters.without(lightest))
            self.record(Proposal("remove", lightest, self.current, self.current.n_iter), accepted=True)

    def refine(self) -> Fit:
        """The best model, after more EM where it met the limit of iterations before the tolerance."""
        best = self.watch.best
        assert best is not None
        if best.converged:
            return best
        longer = replace(self.settings, max_iter=REFINEMENT * self.settings.max_iter)
        refined = self.em(best.parameters, longer)
        self.record(Proposal("refine", -1, refined, refined.n_iter), accepted=True)
        return refined

    # -- proposals --

    def propose_split(self, moments: Shapes) -> Proposal | None:
        """Split the component that is least like a Gaussian, or the next where that does not pay."""
        K, limits = self.current.parameters.n_components, self.limits
        # However heavy rows are, no more components than different rows; one more may be the way to a better model.
        most = self.samples.n_rows + (limits.n_components is None)
        if min(most, limits.n_components or np.inf, limits.max_components or np.inf) <= K:
            return None
        kurtosis = np.abs(self.samples.kurtosis_z(self.current.parameters))
        labels = self.samples.labels(self.current.parameters)
        candidates = ranked(kurtosis, self.splittable(moments, labels))
        best: Proposal | None = None
        tried = n_iter = 0
        # Where more components must come, one that falls apart is no reason to stop looking.
        for k in candidates[:_SPLIT_CANDIDATES] if limits.n_components is None else candidates:
            proposal = self.split(k, np.flatnonzero(labels == k), moments.covariances[k])
            if proposal is None:
                continue
            tried += 1
            n_iter += proposal.n_iter
            if best is None or proposal.fit.cost < best.fit.cost:
                best = proposal
            if self.pays(proposal) or tried == _SPLIT_CANDIDATES:
                break
        return None if best is None else replace(best, n_iter=n_iter)

    def split(self, k: int, rows: NDArray[np.intp], covariance: Shape) -> Proposal | None:
        """Component k, with its rows, as two, after EM on all rows; None where they do not hold."""
        children = self.children(k, rows, covariance)
        if children is None:
            return None
        fit = self.fit(children.parameters)
        n_iter = children.n_iter + fit.n_iter
        n = self.samples.total_weight
        if self.settings.annihilates:
            holds = fit.parameters.weights.min() * n >= _LEAST_ROWS
            return Proposal("split", k, fit, n_iter) if holds else None
        merged = merge_coincident(fit.parameters)
        if merged is not fit.parameters:
            fit = self.fit(merged)
            n_iter += fit.n_iter
        proposal = Proposal("split", k, fit, n_iter)
        # Without annihilation growth must end by itself: each step adds a component, or lowers the cost.
        progress = fit.parameters.n_components > self.current.parameters.n_components or self.pays(proposal)
        holds = fit.parameters.weights.min() >= LEAST_SHARE_OF_A_ROW / self.samples.row_count
        return proposal if holds and progress else None

    def propose_factor(self, moments: Shapes) -> Proposal | None:
        """Add a factor to the component whose covariance is modelled worst, if it has support for it."""
        if self.limits.n_factors is not None:
            return None
        parameters = self.current.parameters
        candidates = ranked(covariance_misfit(parameters, moments), self.extensible())
        if not candidates:
            return None
        k = candidates[0]
        start = add_factor(parameters, k, moments.covariances[k], self.settings.floor)
        # More factors raise the likelihood steadily, without the plateaus of a split: hopeless ones are seen early.
        fit = self.em(start, self.settings, target=self.current.cost)
        return Proposal("factor", k, fit, fit.n_iter)

    def splittable(self, moments: Shapes, labels: NDArray[np.intp]) -> list[bool]:
        """Components that vary beyond the noise floor and, where annihilation is on, have support for two children."""
        K = self.current.parameters.n_components
        varies = np.array([(variances(c) > self.settings.floor).any() for c in moments.covariances])
        counts = np.maximum(np.bincount(labels, minlength=K), np.bincount(labels, self.samples.weights, minlength=K))
        spread = varies & (counts > 1)
        if not self.settings.annihilates:
            return [bool(wide) for wide in spread]
        margins = self.margins(children=2, more_factors=0)
        return [bool(wide) and margin > 0 for wide, margin in zip(spread, margins, strict=True)]

    def extensible(self) -> list[bool]:
        """Components with support for one more factor, and room for it. A single component needs no support."""
        parameters = self.current.parameters
        limit = self.limits.max_factors
        most = min(MOST_FACTORS_SHARE * self.samples.n_features, np.inf if limit is None else limit)
        # Rows about their mean span one direction less than there are rows.
        directions = (self.samples.total_weight * parameters.weights - 1).tolist()
        room = [p < most and p + 1 <= span for p, span in zip(parameters.n_factors, directions, strict=True)]
        margins = self.margins(children=1, more_factors=1)
        return [space and (len(room) == 1 or margin > 0) for space, margin in zip(room, margins, strict=True)]

    def margins(self, *, children: int, more_factors: int) -> list[float]:
        """By how much each soft count exceeds what so many components with so many more factors would need."""
        parameters, n = self.current.parameters, self.samples.total_weight
        n_factors = [p + more_factors for p in parameters.n_factors]
        needed = self.settings.criterion(self.samples.n_features, n_factors, n).min_soft_counts
        return [n * w - children * least for w, least in zip(parameters.weights.tolist(), needed, strict=True)]

    # -- bookkeeping --

    def fit(self, start: Parameters) -> Fit:
        return self.em(start, self.settings)

    def em(self, start: Parameters, settings: Settings, *, target: float = np.inf) -> Fit:
        """EM on all rows."""

        def run() -> Fit:
            iterated = self.watch.iterated
            return expectation_maximization(self.samples, start, settings, target=target, iterated=iterated)

        def again(arrays: Arrays) -> Fit:
            return Fit(*unpack_outcome(arrays))

        what = ("em", settings.max_iter, target)
        return self.watch.journal.recall(what, [start], run, pack_outcome, again)

    def children(self, k: int, rows: NDArray[np.intp], covariance: Shape) -> Fit | None:
        """The mixture with component k replaced by those of a local fit, before EM on all rows."""
        parameters = self.current.parameters

        def run() -> Fit | None:
            return split(self.samples.subset(rows), parameters, k, covariance, self.settings)

        def pack(found: Fit | None) -> Arrays:
            return {} if found is None else pack_outcome(found)

        def unpack(arrays: Arrays) -> Fit | None:
            return Fit(*unpack_outcome(arrays)) if arrays else None

        return self.watch.journal.recall(("split", k), [parameters], run, pack, unpack)

    def record(self, proposal: Proposal, *, accepted: bool) -> None:
        fit, n_iter = proposal.fit, proposal.n_iter
        self.watch.see(proposal.action, proposal.component, fit, accepted=accepted, n_iter=n_iter)


def ranked(measure: FloatArray, eligible: list[bool]) -> list[int]:
    """The eligible components, those of largest measure first."""
    return [k for k in np.argsort(-measure, kind="stable").tolist() if eligible[k]]
