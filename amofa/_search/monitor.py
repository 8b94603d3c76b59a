"""The monitor of a search: history, best model, callbacks, progress, time limit."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import fields, replace

from amofa._data.row_source import RowSource
from amofa._em.driver import Tell
from amofa._em.outcome import Outcome
from amofa._model.finalize import make_step
from amofa._parameters import Parameters
from amofa._search.constraints import Constraints
from amofa._search.state import State
from amofa.history import Callback, LiveIteration, LiveStep, OnIteration, Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import is_abandoned

# Reports the cost of each model: at level INFO if the search continued from it, otherwise at DEBUG.
_logger = logging.getLogger("amofa")


class SearchStopped(Exception):  # noqa: N818 - not an error
    """A callback has asked for the end of the search."""


class OutOfTime(Exception):  # noqa: N818 - not an error
    """The time limit of a search is over."""


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


class Monitor:
    """Keeps the history of a search and the best model, tells the caller, and stops the search.

    Parameters
    ----------
    state : State
        State of the search, which gets the history and the best model.
    samples : RowSource
        In the coordinates of the search.
    constraints : Constraints
    model_of : callable
        Makes the caller's model from parameters in the coordinates of the search.
    callback : callable, optional
        Called with each step; a true result stops the search.
    on_iteration : callable, optional
        Called with each iteration of EM on all rows; a true result stops the search, once there is a model.
    show : callable, optional
        Called with each step, to show it.
    max_time : float, optional
        Seconds from now on after which the search stops, once there is a model.
    """

    def __init__(
        self,
        state: State,
        samples: RowSource,
        constraints: Constraints,
        model_of: Callable[[Parameters], MixtureOfFactorAnalyzers] = MixtureOfFactorAnalyzers._from_fit,
        *,
        callback: Callback | None = None,
        on_iteration: OnIteration | None = None,
        show: Callable[[Step], None] | None = None,
        max_time: float | None = None,
    ) -> None:
        self.state, self.samples, self.constraints, self.model_of = state, samples, constraints, model_of
        self.callback, self.on_iteration, self.show = callback, on_iteration, show
        self.end = math.inf if max_time is None else time.monotonic() + max_time
        self.is_to_stop = False

    # -- what ends a search --

    def check(self) -> None:
        """Raise OutOfTime if the time is over, or if the work of this thread is no longer needed, as after Ctrl-C."""
        is_late = self.end < math.inf and self.state.best is not None and time.monotonic() >= self.end
        if is_late or is_abandoned():
            raise OutOfTime

    # -- what a search tells --

    def see(self, action: str, component: int, outcome: Outcome, *, accepted: bool, n_iter: int | None = None) -> None:
        """Put a model into the history, and keep it if it is the best; SearchStopped if the callback says so."""
        counted = outcome if n_iter is None else replace(outcome, n_iter=n_iter)
        step = make_step(self.samples, action, component, counted, accepted=accepted)
        # The model first, since an interrupt may come at any moment and needs it.
        if self.state.best is None or self.is_better(outcome, self.state.best):
            self.state.best = outcome
        self.state.history.append(step)
        _log(step)
        if self.show is not None:
            self.show(step)
        if self.callback is not None and self.callback(self._live(step, outcome.parameters)):
            self.is_to_stop = True
        if self.is_to_stop:
            raise SearchStopped

    @property
    def tell(self) -> Tell | None:
        """The function that EM on all rows calls after each E-step, or None."""
        return None if self.on_iteration is None else self._tell

    def _tell(self, n_iter: int, n_factors: tuple[int, ...], log_likelihood: float, cost: float) -> None:
        assert self.on_iteration is not None
        if self.on_iteration(LiveIteration(n_iter, n_factors, log_likelihood, cost)):
            self.is_to_stop = True
        if self.is_to_stop and self.state.best is not None:
            raise SearchStopped

    def _live(self, step: Step, parameters: Parameters) -> LiveStep:
        values = {field.name: getattr(step, field.name) for field in fields(step)}
        return LiveStep(**values, model=self.model_of(parameters))

    # -- the best model --

    def is_better(self, outcome: Outcome, best: Outcome) -> bool:
        """Return whether a model meets the constraints and costs less than another, or the other does not meet them."""
        met = self.constraints.met_by(outcome.parameters)
        return (met and outcome.cost < best.cost) or not self.constraints.met_by(best.parameters)

    def best_so_far(self) -> Outcome:
        """Return the best model of a search that was stopped."""
        assert self.state.best is not None
        return replace(self.state.best, converged=False)


def _log(step: Step) -> None:
    level = logging.INFO if step.accepted else logging.DEBUG
    if _logger.isEnabledFor(level):
        verdict = "accepted" if step.accepted else "rejected"
        action = step.action if step.component < 0 else f"{step.action} of component {step.component}"
        factors = " ".join(map(str, step.n_factors))
        _logger.log(level, "%s %s: factors %s, cost %.2f nats", action, verdict, factors, step.cost)
