"""VBMoFA: a mixture of factor analysers, with a size chosen by a variational bound on the evidence."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from amofa._data.checks import (
    RandomState,
    check_choice,
    check_noise_floor,
    check_positive,
    check_random_state,
    check_rows,
    check_whole_number,
)
from amofa._data.row_chunks import Samples
from amofa._em.outcome import Outcome
from amofa._model.finalize import make_step
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa._search.constraints import REFINEMENT
from amofa.baselines._births import BirthSearch, BirthSettings, VariationalFit
from amofa.baselines._task import BaselineTask
from amofa.baselines._variational import Posterior
from amofa.criterion import n_parameters
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread


def vbmofa(
    X: ArrayLike,
    *,
    max_factors: int | None = None,
    max_components: int | None = None,
    noise: str = "shared",
    n_tries: int = 5,
    noise_floor: float | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    tol: float = 5e-6,
    max_iter: int = 200,
    random_state: RandomState = 0,
) -> MixtureOfFactorAnalyzers:
    """Fit a mixture of factor analysers by the variational method of Ghahramani & Beal [1]_.

    A lower bound on the log evidence decides the number of components: components give birth to others as long as that
    raises the bound. Within a component, automatic relevance determination decides the number of factors: each column
    of loadings has its own prior precision, and columns that the rows do not need are switched off.

    Parameters
    ----------
    X : (n, d) array-like
        Finite real numbers.
    max_factors : int, optional
        Number of columns of loadings that each component starts with, at most d. By default d - 1, but at least 1.
    max_components : int, optional
        Upper bound of the number of components.
    noise : {"shared", "component"}, default "shared"
        Whether all components have the same uniquenesses, as in [1]_, or each its own. With "shared", a component whose
        columns have more noise than those of others needs additional factors to express it.
    n_tries : int, default 5
        The search ends when every component has failed to give birth this many times in succession, each time in
        another direction.
    noise_floor : float or (d,) array-like, default 1e-4
        Smallest uniqueness, as a share of each column's variance, or a variance for each column, in its own units.
    sample_weight : (n,) array-like, optional
        How often each row counts; a row of weight 0 counts as absent.
    tol : float, default 5e-6
        Sweeps end when the bound rises by less than this, and a birth must raise it by more; nats per value of X.
    max_iter : int, default 200
        Maximum number of sweeps of one trial.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default 0
        Draws the directions of births. None draws other directions at each call.

    Returns
    -------
    MixtureOfFactorAnalyzers
        Posterior means of weights, means and loadings; `n_factors` counts the columns that are not switched off. The
        ``cost`` of a step of the history is minus the bound, in nats.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it and what to do.

    Warns
    -----
    AmofaWarning
        If columns are constant, or the sweeps of the chosen model did not converge.

    Notes
    -----
    Columns are standardised first. Priors: Dirichlet(1/K) of the weights, Gamma(1, 1) of each column's precision, and a
    Gaussian of the means whose mean and variances are fitted, as are the uniquenesses. When no birth helps, removals of
    components are tried. The factors are rotated to the principal axes of E[Lambda' Lambda] in every
    sweep [2]_, without which automatic relevance determination takes thousands of them. docs/baselines.md has more.

    References
    ----------
    .. [1] Z. Ghahramani, M. J. Beal, "Variational inference for Bayesian mixtures of factor analysers", NIPS 12, 1999.
    .. [2] J. Luttinen, A. Ilin, "Transformations in variational Bayesian factor analysis to speed up learning",
       Neurocomputing 73, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa.baselines import vbmofa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(300, 6))
    >>> X[:100] += 6.0
    >>> vbmofa(X).n_factors
    array([2, 2])
    """
    table, weights = check_rows(X, sample_weight)
    d = table.shape[1]
    most = max(1, d - 1) if max_factors is None else check_whole_number("max_factors", max_factors, at_least=0)
    if max_components is not None:
        max_components = check_whole_number("max_components", max_components, at_least=1)
    n_tries = check_whole_number("n_tries", n_tries, at_least=1)
    family = Noise(check_choice("noise", noise, (str(Noise.SHARED), str(Noise.COMPONENT))))
    floor = check_noise_floor(noise_floor, d)
    tol = check_positive("tol", tol)
    max_iter = check_whole_number("max_iter", max_iter, at_least=1)
    rng = check_random_state(random_state)
    with single_blas_thread(), np.errstate(under="ignore"):
        task = BaselineTask.of(table, weights, floor)
        samples, found, history = task.samples, Outcome.of_no_columns(), list[Step]()
        if samples.n_features:
            settings = BirthSettings(
                task.standardized_floor,
                min(most, samples.n_features),
                max_components,
                n_tries,
                tol,
                max_iter,
                family.is_shared,
            )
            search = BirthSearch(samples, settings, rng)
            search.run()
            outcomes = [outcome_of(trial.fit, samples) for trial in search.trials]
            found = outcomes[-1]
            history = [
                make_step(samples, trial.action, trial.component, outcome, accepted=trial.accepted)
                for trial, outcome in zip(search.trials, outcomes, strict=True)
            ]
        return task.model(
            found,
            history,
            criterion="bound",
            n_parameters=n_parameters(d, found.parameters.n_factors, family),
            iterations=f"{REFINEMENT} x max_iter={max_iter}",
        )


def point_estimate(posterior: Posterior) -> Parameters:
    """Return the posterior means as a mixture, without the columns that are switched off."""
    weights = posterior.dirichlet / posterior.dirichlet.sum()
    return Parameters.from_components(
        [
            Component(
                float(weights[k]), posterior.means[k], posterior.loadings[k, : posterior.n_live[k]], posterior.noise[k]
            )
            for k in range(posterior.n_components)
        ]
    )


def outcome_of(fit: VariationalFit, samples: Samples) -> Outcome:
    """Return the posterior means with their log-likelihood; the cost is minus the bound."""
    parameters = point_estimate(fit.posterior)
    log_likelihood = samples.log_likelihood(parameters) + samples.log_jacobian
    return Outcome(parameters, log_likelihood, -(fit.bound + samples.log_jacobian), fit.n_iter, fit.converged)
