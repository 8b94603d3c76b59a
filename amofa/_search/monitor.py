"""What sees every model of a search: the record, the caller's callback, and the best model for when it is stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Generic, TypeVar

from amofa._data.row_chunks import Samples
from amofa._model.finalize import make_step
from amofa._parameters import Parameters
from amofa._search.clock import Clock
from amofa._search.constraints import Limits
from amofa._search.journal import Journal, Outcome
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers

# Says of each model that was looked at what it cost: INFO if the search went on from it, DEBUG otherwise.
_logger = logging.getLogger("amofa")


@dataclass(frozen=True)
class LiveStep(Step):
    """A step of a search that is going on.

    Attributes
    ----------
    model : MixtureOfFactorAnalyzers
        The mixture after the step, in the columns and units of X.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> steps = []
    >>> def two_components(step):
    ...     steps.append(step)
    ...     return step.model.n_components == 2
    >>> amofa.fit(X, callback=two_components).n_components
    2
    >>> steps[0].action, steps[0].n_components, steps[-1].model.means.shape
    ('start', 1, (2, 2))
    """

    model: MixtureOfFactorAnalyzers


Callback = Callable[[LiveStep], object]


@dataclass(frozen=True)
class LiveIteration:
    """An iteration of EM on all rows that has just been made.

    Attributes
    ----------
    n_iter : int
        How many this run of EM has made, this one included; another number than the last plus one: another run.
    n_factors : tuple of int
        Factors of each component.
    log_likelihood : float
        Of the mixture that the iteration started from, nats.
    cost : float
        The criterion that the search minimises, of the same mixture, nats.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> iterations = []
    >>> model = amofa.fit(X, on_iteration=iterations.append)
    >>> iterations[0].n_iter, iterations[0].n_components, iterations[-1].n_components
    (1, 1, 2)
    """

    n_iter: int
    n_factors: tuple[int, ...]
    log_likelihood: float
    cost: float

    @property
    def n_components(self) -> int:
        return len(self.n_factors)


OnIteration = Callable[[LiveIteration], object]


class SearchStopped(Exception):  # noqa: N818 - not an error
    """The callback has seen enough."""


Found = TypeVar("Found", bound=Outcome)


class FitInterrupted(KeyboardInterrupt):
    """A fit was interrupted.

    Attributes
    ----------
    model : MixtureOfFactorAnalyzers
        The best model so far.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> def interrupt(step):  # as Ctrl-C does
    ...     if step.model.n_components == 2:
    ...         raise KeyboardInterrupt
    >>> try:
    ...     model = amofa.fit(X, callback=interrupt)
    ... except amofa.FitInterrupted as interrupted:
    ...     model = interrupted.model
    >>> model.n_components
    2
    """

    def __init__(self, model: MixtureOfFactorAnalyzers) -> None:
        super().__init__("the fit was interrupted; the attribute model has the best one so far")
        self.model = model


class Watch(Generic[Found]):
    """Keeps the history of a search, and the best model that was looked at.

    Parameters
    ----------
    samples : Samples
        In the coordinates of the search.
    limits : Limits
    callback : callable, optional
        Called with each step; what it returns, if true, stops the search.
    model_of : callable, optional
        Makes the caller's model from parameters in the coordinates of the search.
    conclude : callable, optional
        Makes it from an outcome and a history, with all that is to be said of it: what the journal keeps.
    on_iteration : callable, optional
        Called with each iteration of EM on all rows; what it returns, if true, stops the search, once there is a model.
    clock : Clock, optional
        Told when there is a model.
    journal : Journal, optional
        Has what an earlier run of the same search came to.

    Attributes
    ----------
    iterated : callable or None
        To be called by EM on all rows after each E-step, if anybody wants to know, with the number of iterations, the
        factors of each component, and the log-likelihood and cost, nats.
    show : callable or None
        Called with each step, to show it.
    history : list of Step
    best : Found or None
        The model of smallest cost of those that meet the limits, of all as long as none does.
    """

    def __init__(
        self,
        samples: Samples,
        limits: Limits,
        callback: Callback | None = None,
        model_of: Callable[[Parameters], MixtureOfFactorAnalyzers] = MixtureOfFactorAnalyzers._from_fit,
        conclude: Callable[[Any, Sequence[Step]], MixtureOfFactorAnalyzers] | None = None,
        on_iteration: OnIteration | None = None,
        clock: Clock | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.samples, self.limits, self.callback, self.model_of = samples, limits, callback, model_of
        self.conclude, self.clock, self.journal = conclude, clock or Clock(), journal or Journal()
        self.on_iteration = on_iteration
        self.iterated = None if on_iteration is None else self._iterated
        self.is_to_stop = False
        self.show: Callable[[Step], None] | None = None
        self.history: list[Step] = []
        self.best: Found | None = None

    def see(self, action: str, component: int, outcome: Found, *, accepted: bool, n_iter: int | None = None) -> None:
        """Put a model into the history, and keep it if it is the best.

        Raises
        ------
        SearchStopped
            If the callback says so.
        """
        step = make_step(
            self.samples,
            action,
            component,
            outcome.parameters,
            cost=outcome.cost,
            log_likelihood=outcome.log_likelihood,
            n_iter=outcome.n_iter if n_iter is None else n_iter,
            accepted=accepted,
        )
        # The model first: an interrupt may come at any moment, and wants it.
        improved = self.best is None or self.is_better(outcome, self.best)
        if improved:
            self.best = outcome
            self.clock.may_stop = True
        self.history.append(step)
        if improved and self.conclude is not None:
            self.journal.keep(partial(self.conclude, self.best_so_far(), self.history))
        _log(step)
        if self.show is not None:
            self.show(step)
        if self.callback is not None and self.callback(self.live(step, outcome.parameters)):
            raise SearchStopped
        if self.is_to_stop:
            raise SearchStopped

    def _iterated(self, n_iter: int, n_factors: tuple[int, ...], log_likelihood: float, cost: float) -> None:
        """Tell of an iteration of EM on all rows."""
        assert self.on_iteration is not None
        if self.on_iteration(LiveIteration(n_iter, n_factors, log_likelihood, cost)):
            self.is_to_stop = True
        if self.is_to_stop and self.best is not None:
            raise SearchStopped

    def best_so_far(self) -> Found:
        """The best model of a search that has not ended."""
        best: Any = self.best
        assert best is not None
        found: Found = replace(best, converged=False)
        return found

    def live(self, step: Step, parameters: Parameters) -> LiveStep:
        values = {field.name: getattr(step, field.name) for field in fields(step)}
        return LiveStep(**values, model=self.model_of(parameters))

    def is_better(self, outcome: Found, best: Found) -> bool:
        met = self.limits.met_by(outcome.parameters)
        return (met and outcome.cost < best.cost) or not self.limits.met_by(best.parameters)


def _log(step: Step) -> None:
    level = logging.INFO if step.accepted else logging.DEBUG
    if _logger.isEnabledFor(level):
        verdict = "accepted" if step.accepted else "rejected"
        action = step.action if step.component < 0 else f"{step.action} of component {step.component}"
        factors = " ".join(map(str, step.n_factors))
        _logger.log(level, "%s %s: factors %s, cost %.2f nats", action, verdict, factors, step.cost)
