"""Mixtures of Gaussians by component-wise EM with a message length (Figueiredo & Jain 2002): ULFMM in the paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from amofa._data.checks import (
    RandomState,
    check_choice,
    check_positive,
    check_random_state,
    check_rows,
    check_whole_number,
)
from amofa._data.row_chunks import Samples
from amofa._em.outcome import Outcome
from amofa._typing import FloatArray
from amofa.baselines._componentwise import ComponentwiseEM
from amofa.baselines._gaussian import COVARIANCES, mixture_parameters
from amofa.baselines._task import BaselineTask
from amofa.criterion import gaussian_message_length
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread


def ulfmm(
    X: ArrayLike,
    *,
    max_components: int = 20,
    covariance: str = "full",
    ridge: float = 1e-4,
    sample_weight: ArrayLike | None = None,
    tol: float = 4e-5,
    max_iter: int = 1000,
    random_state: RandomState = 0,
) -> MixtureOfFactorAnalyzers:
    """Fit a mixture of Gaussians by Figueiredo & Jain's method [1]_, which finds the number of components from above.

    Component-wise EM starts from `max_components` rows drawn at random. A component with too few rows to pay for its
    parameters is removed at once. When EM has converged, the lightest component is removed and EM goes on, down to one
    component. The model with the smallest message length wins.

    Parameters
    ----------
    X : (n, d) array-like
        Finite real numbers.
    max_components : int, default 20
        Number of components at the start, at most the number of rows.
    covariance : {"full", "diag", "spherical"}, default "full"
        Any covariance for each component, a variance for each column, or one variance for all columns, which should
        then have the same units.
    ridge : float, default 1e-4
        Added to each variance, as a share of the column's variance in X ("spherical": of the mean of those). Positive.
    sample_weight : (n,) array-like, optional
        How often each row counts; a row of weight 0 counts as absent.
    tol : float, default 4e-5
        EM ends when a sweep over the components changes the log-likelihood by less than this, in nats per row. The
        authors' program has a share of the log-likelihood, which depends on units; on Example 2 of [2]_ its 1e-5 is
        the default here. A finer tolerance finds shorter messages and fewer components.
    max_iter : int, default 1000
        Maximum number of sweeps with one number of components.
    random_state : int, numpy Generator, numpy RandomState or None, default 0
        For the rows at the start; None takes entropy from the system.

    Returns
    -------
    MixtureOfFactorAnalyzers
        A full covariance is represented exactly, as a factor analyser with d - 1 factors; `n_parameters` counts the
        d (d + 1)/2 entries of each. `message_length` is Figueiredo & Jain's.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it.

    Warns
    -----
    AmofaWarning
        If columns are constant (they are modelled separately, and affect no decision), or if EM of the chosen model did
        not converge.

    Notes
    -----
    The message length is sum_k C/2 log pi_k + K (C + 1)/2 log N - log p(X), with C = d + the free entries of a
    covariance, as in the authors' program; their paper has N / 12 in place of N, and a constant. As in the program,
    a weight is updated to the component's share of the rows, and all weights are then normalised, which maximises
    nothing: a sweep may lengthen the message a little. One sweep costs O(N K (K + d^2)); memory is O(N K).

    References
    ----------
    .. [1] M. A. T. Figueiredo, A. K. Jain, "Unsupervised Learning of Finite Mixture Models", IEEE Transactions on
       Pattern Analysis and Machine Intelligence 24(3), 2002, 381-396.
    .. [2] H. Kaya, A. A. Salah, "Adaptive Mixtures of Factor Analyzers", arXiv:1507.02801.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> model = ulfmm(X, max_components=6)
    >>> model.n_components, model.n_parameters
    (2, 11)
    >>> model.weights.round(2)
    array([0.67, 0.33])
    """
    table, weights = check_rows(X, sample_weight)
    max_components = check_whole_number("max_components", max_components, at_least=1)
    covariance = check_choice("covariance", covariance, COVARIANCES)
    ridge, tol = check_positive("ridge", ridge), check_positive("tol", tol)
    max_iter = check_whole_number("max_iter", max_iter, at_least=1)
    rng = check_random_state(random_state)
    with single_blas_thread(), np.errstate(under="ignore"):
        task = BaselineTask.of(table, weights, ridge, one_scale=covariance == "spherical")
        samples, best, history = task.samples, Outcome.of_no_columns(), list[Step]()
        penalty = gaussian_message_length(0, 1, 0, samples.total_weight)
        if samples.n_features:
            start = ComponentwiseEM(samples, _random_rows(samples, max_components, rng), covariance, ridge)
            try:
                best, history = _fewer_and_fewer(start, tol * samples.total_weight, max_iter)
            except FloatingPointError as error:
                raise ValueError(f"{error} with ridge={ridge}; raise ridge, or drop collinear columns") from error
            penalty = start.penalty_of(best.n_components)
        return task.model(
            best,
            history,
            criterion="mml",
            n_parameters=mixture_parameters(table.shape[1], best.n_components, covariance),
            iterations=f"max_iter={max_iter}",
            # The method has no floor but for columns that are constant.
            floor=np.where(task.rows.coordinates.constant, task.floor, 0.0),
            penalty=penalty,
        )


def _random_rows(samples: Samples, number: int, rng: np.random.Generator | np.random.RandomState) -> FloatArray:
    """Draw distinct rows (K, d) in proportion to their weights, as many as asked for or as there are."""
    share = None if samples.weights is None else samples.weights / samples.weights.sum()
    drawn = rng.choice(samples.n_rows, min(number, samples.n_rows), replace=False, p=share)
    return np.concatenate([x.T for x, _ in samples.subset(drawn).chunks()])


def _fewer_and_fewer(mixture: ComponentwiseEM, tolerance: float, max_iter: int) -> tuple[Outcome, list[Step]]:
    """Run EM and remove the lightest component, in turns, down to one; return the best mixture and the history."""
    best: Outcome | None = None
    history: list[Step] = []
    removed = -1
    while True:
        here = mixture.run(tolerance, max_iter)
        accepted = best is None or here.cost < best.cost
        if best is None or accepted:
            best = here
        history.append(
            Step(
                action="start" if removed < 0 else "remove",
                component=removed,
                n_factors=here.parameters.n_factors,
                cost=here.cost,
                message_length=here.cost,
                log_likelihood=here.log_likelihood,
                n_iter=here.n_iter,
                accepted=accepted,
            )
        )
        if mixture.n_components == 1:
            return best, history
        removed = int(np.argmin(mixture.weights))
        mixture.remove(removed)
