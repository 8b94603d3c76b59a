"""The warning class of the package, and its messages."""

from __future__ import annotations

import sys
import warnings

import numpy as np

from amofa._typing import BoolArray

__all__ = ["AmofaWarning"]


class AmofaWarning(UserWarning):
    """A fit succeeded, but its result needs care: for instance constant columns, or EM that did not converge."""


_PACKAGE = __name__.partition(".")[0]


def warn_caller(message: str) -> None:
    """Warn with an AmofaWarning that points to the nearest line outside the package, which the user can change."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, AmofaWarning, stacklevel=level)


def warn_of_constant_columns(constant: BoolArray) -> None:
    columns = np.flatnonzero(constant)
    if len(columns):
        names = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
        warn_caller(
            f"{len(columns)} of {len(constant)} columns of X are constant and change no decision: {names} (from 0)"
        )


def warn_of_no_convergence(converged: bool, iterations: str) -> None:
    """Warn unless EM converged; `iterations` is the maximum number, in terms of the arguments."""
    if not converged:
        warn_caller(f"EM of the chosen model did not converge within {iterations} iterations; allow more")


def warn_of_shortfall(wanted: int | None, reached: int) -> None:
    if wanted is not None and reached < wanted:
        warn_caller(f"{wanted} components were asked for, but the search found only {reached} that can be told apart")


def warn_of_interrupt() -> None:
    warn_caller("the fit was interrupted; this is the best model so far")


def warn_of_time(seconds: float | None) -> None:
    warn_caller(f"the search had not ended after max_time={seconds:g} s; this is the best model so far")
