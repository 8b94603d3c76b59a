"""From the parameters that a fit found to the model that its caller gets: canonical form, report, warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._parameters import Evaluator, Parameters, Statistics
from amofa._typing import FloatArray
from amofa.criterion import Penalty, message_length
from amofa.history import FitReport, Step
from amofa.warnings import AmofaWarning


def in_canonical_order(parameters: Parameters) -> Parameters:
    """Components by falling weight; equal weights by rising mean, its first column first."""
    order = np.lexsort((*parameters.means.T[::-1], -parameters.weights))
    return Parameters.from_components([parameters.component(int(k)) for k in order])


def with_canonical_factors(parameters: Parameters) -> Parameters:
    """Factors rotated: Lambda' Psi^-1 Lambda is diagonal and falling, the largest scaled loading of each positive."""
    canonical = parameters.copy()
    for k in range(parameters.n_components):
        loadings, noise = canonical.component_loadings(k), np.sqrt(canonical.uniquenesses[k])
        if len(loadings) > 1:
            rotation, _, _ = np.linalg.svd(loadings / noise, full_matrices=len(loadings) > loadings.shape[1])
            loadings[:] = rotation.T @ loadings
        for row in loadings:
            scaled = row / noise
            if -scaled.min() > scaled.max():
                row *= -1.0
    return canonical


def make_report(
    samples: Samples,
    parameters: Parameters,
    floor: FloatArray,
    *,
    criterion: str,
    n_parameters: int,
    converged: bool,
    history: Sequence[Step],
    penalty: Penalty | None = None,
) -> FitReport:
    """What is to be said of a fit.

    Parameters
    ----------
    samples : Samples
        The rows as the caller gave them.
    parameters : Parameters
        In the caller's columns and units.
    floor : (d,) float64
        Smallest uniqueness of each column.
    criterion : str
        What was minimised.
    n_parameters : int
        Free parameters that were estimated.
    converged : bool
    history : sequence of Step
    penalty : Penalty, optional
        What the message length adds to minus the log-likelihood; the paper's where not given.
    """
    statistics = Statistics(parameters)
    samples.accumulate(Evaluator(parameters), statistics, with_entropy=False)
    if penalty is None:
        penalty = message_length(samples.n_features, parameters.n_factors, samples.total_weight)
    return FitReport(
        log_likelihood=statistics.log_likelihood,
        message_length=penalty.cost(statistics.log_likelihood, 0.0, parameters.weights.tolist()),
        criterion=criterion,
        n_samples=samples.total_weight,
        converged=converged,
        at_floor=parameters.uniquenesses <= floor * (1 + 1e-9),
        history=tuple(history),
        n_parameters=n_parameters,
    )


def make_step(
    samples: Samples,
    action: str,
    component: int,
    parameters: Parameters,
    *,
    cost: float,
    log_likelihood: float,
    n_iter: int,
    accepted: bool,
) -> Step:
    """A line of the history: the mixture that a search looked at, with the paper's message length."""
    length = message_length(samples.n_features, parameters.n_factors, samples.total_weight)
    return Step(
        action=action,
        component=component,
        n_factors=parameters.n_factors,
        cost=cost,
        message_length=length.cost(log_likelihood, 0.0, parameters.weights.tolist()),
        log_likelihood=log_likelihood,
        n_iter=n_iter,
        accepted=accepted,
    )


# ---- warnings --------------------------------------------------------------------------------------------------------


_PACKAGE = __name__.partition(".")[0]
_SILENT: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def without_warnings() -> Iterator[None]:
    """No warnings of fits in this thread: for a caller of many fits who has more to say about them."""
    token = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(token)


def warn_caller(message: str) -> None:
    """An AmofaWarning that points to the nearest line outside the package, where the user can do something."""
    if _SILENT.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, AmofaWarning, stacklevel=level)


def warn_of_constant_columns(constant: NDArray[np.bool_]) -> None:
    columns = np.flatnonzero(constant)
    if len(columns):
        names = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
        warn_caller(
            f"{len(columns)} of {len(constant)} columns of X are constant and change no decision: {names} (from 0)"
        )


def warn_of_no_convergence(converged: bool, iterations: str) -> None:
    """`iterations` says how many there could have been, in terms of the arguments."""
    if not converged:
        warn_caller(f"EM of the chosen model did not converge within {iterations} iterations; allow more")


def warn_of_shortfall(wanted: int | None, reached: int) -> None:
    if wanted is not None and reached < wanted:
        warn_caller(f"{wanted} components were asked for, but the search found only {reached} that can be told apart")


def warn_of_interrupt() -> None:
    warn_caller("the fit was interrupted; this is the best model so far")


def warn_of_time(seconds: float | None) -> None:
    warn_caller(f"the search had not ended after max_time={seconds:g} s; this is the best model so far")
