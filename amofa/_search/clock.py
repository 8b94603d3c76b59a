"""The time that a fit may take, looked at wherever it is about to begin something that may take long."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextvars import ContextVar

from amofa._kernels._scope import Scope
from amofa.threads import is_abandoned


class OutOfTime(Exception):  # noqa: N818 - not an error
    """A search has had its time."""


class Clock:
    """Says when a search has had its time.

    Parameters
    ----------
    seconds : float, optional
        From now on; None for as many as it takes.

    Attributes
    ----------
    may_stop : bool
        Whether there is a model yet. As long as there is none, nothing is out of time.
    is_live : callable
        Whether there is anything to be saved: what is only taken from a journal takes no time worth mentioning.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.end = math.inf if seconds is None else time.monotonic() + seconds
        self.may_stop = False
        self.is_live: Callable[[], bool] = lambda: True


# Threads that work for a fit have its context, and so its clock; fits within a callback have clocks of their own.
_clock: ContextVar[Clock | None] = ContextVar("amofa_clock", default=None)


def held_to(clock: Clock) -> Scope:
    """Hold what happens in a ``with`` block to a clock, in place of the one there was.

    Examples
    --------
    >>> clock = Clock(1e-9)
    >>> with held_to(clock):
    ...     check_time()
    ...     clock.may_stop = True
    ...     check_time()
    Traceback (most recent call last):
    amofa._search.clock.OutOfTime
    """
    before = _clock.get()
    return Scope(lambda: _clock.set(clock), lambda: _clock.set(before))


def check_time() -> None:
    """Raise OutOfTime if the time is over, or if nobody waits for what this thread is at, as after Ctrl-C."""
    if is_abandoned():
        raise OutOfTime
    clock = _clock.get()
    if clock is not None and clock.may_stop and time.monotonic() >= clock.end and clock.is_live():
        raise OutOfTime
