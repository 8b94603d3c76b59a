"""From the parameters that a search found to a model: order of components, rotation of factors, report, history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from amofa._data.row_source import RowSource
from amofa._em.outcome import Outcome
from amofa._noise import Noise
from amofa._parameters import Parameters
from amofa._typing import BoolArray, FloatArray
from amofa.criterion import Penalty, message_length
from amofa.history import FitReport, Step


def in_canonical_order(parameters: Parameters) -> Parameters:
    """Sort components by decreasing weight, and equal weights by increasing mean, its first column first."""
    order = np.lexsort((*parameters.means.T[::-1], -parameters.weights))
    return Parameters.from_components([parameters.component(int(k)) for k in order], parameters.background)


def has_common_loadings(parameters: Parameters) -> bool:
    """Return whether several components have the same loadings, to the last bit."""
    K, q = parameters.n_components, parameters.n_factors
    if K == 1 or q[0] == 0 or any(number != q[0] for number in q):
        return False
    first = parameters.component_loadings(0)
    return all((parameters.component_loadings(k) == first).all() for k in range(1, K))


def with_canonical_factors(parameters: Parameters) -> Parameters:
    """Rotate factors: Lambda' Psi^-1 Lambda is diagonal and decreasing, the largest scaled loading of each positive.

    Common loadings stay common: Psi is then the geometric mean of all components.
    """
    canonical, noises = parameters.copy(), np.sqrt(parameters.uniquenesses)
    if has_common_loadings(parameters):
        noises = Noise.SHARED.tied(noises, parameters.weights)
    for k, noise in enumerate(noises):
        loadings = canonical.component_loadings(k)
        if len(loadings) > 1:
            rotation, _, _ = np.linalg.svd(loadings / noise, full_matrices=len(loadings) > loadings.shape[1])
            loadings[:] = rotation.T @ loadings
        for row in loadings:
            scaled = row / noise
            if -scaled.min() > scaled.max():
                row *= -1.0
    return canonical


def make_report(
    samples: RowSource,
    parameters: Parameters,
    floor: FloatArray,
    *,
    criterion: str,
    n_parameters: int,
    cost: float | None = None,
    converged: bool,
    history: Sequence[Step],
    penalty: Penalty | None = None,
    constant: BoolArray | None = None,
    noise: str | None = None,
) -> FitReport:
    """Make the report of a fit; samples, parameters and floor (d,) are in the caller's columns and units.

    `criterion` is the name of what was minimised, and `cost` its value, by default minus the log-likelihood.
    `n_parameters` counts the free parameters that were estimated.
    `penalty` is what the message length adds to minus the log-likelihood; by default that of the paper. `constant` says
    which columns are, (d,), and `noise` how uniquenesses are tied.
    """
    log_likelihood = samples.log_likelihood(parameters)
    if penalty is None:
        penalty = message_length(samples.n_features, parameters.n_factors, samples.total_weight)
    return FitReport(
        log_likelihood=log_likelihood,
        message_length=penalty.cost(log_likelihood, 0.0, parameters.weights.tolist()),
        criterion=criterion,
        n_samples=samples.total_weight,
        converged=converged,
        at_floor=parameters.uniquenesses <= floor * (1 + 1e-9),
        history=tuple(history),
        n_parameters=n_parameters,
        cost=-log_likelihood if cost is None else cost,
        constant=constant,
        noise=noise,
    )


def make_step(samples: RowSource, action: str, component: int, outcome: Outcome, *, accepted: bool) -> Step:
    """Make a step of the history: a mixture that a search tried, with the message length of the paper."""
    parameters = outcome.parameters
    length = message_length(samples.n_features, parameters.n_factors, samples.total_weight)
    return Step(
        action=action,
        component=component,
        n_factors=parameters.n_factors,
        cost=outcome.cost,
        message_length=length.cost(outcome.log_likelihood, 0.0, parameters.weights.tolist()),
        log_likelihood=outcome.log_likelihood,
        n_iter=outcome.n_iter,
        accepted=accepted,
    )
