"""Maximum likelihood with given numbers of components and factors, from several starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from amofa._data.checks import (
    RandomState,
    check_choice,
    check_factor_sequence,
    check_noise_floor,
    check_positive,
    check_random_state,
    check_rows,
    check_whole_number,
)
from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.outcome import Outcome
from amofa._em.profile_likelihood import Problem, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._model.finalize import make_step
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa._search.constraints import REFINEMENT
from amofa._typing import FloatArray
from amofa.baselines._partitions import Generator, draw_seeds, k_means, nearest_centers, partition_moments
from amofa.baselines._task import BaselineTask
from amofa.criterion import Likelihood, n_parameters
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread
from amofa.warnings import warn_of_shortfall

# The best start is refined to this share of the tolerance.
_REFINED = 1e-3
# Iterations of k-means for every other start; the others divide the rows by their nearest seed.
_LLOYD_ITERATIONS = 20


@dataclass(frozen=True)
class _Runs:
    """The number of EM runs, and when each ends."""

    n_starts: int
    tol: float
    max_iter: int


def mfa(
    X: ArrayLike,
    n_components: int,
    n_factors: int | Sequence[int],
    *,
    noise: str = "component",
    n_starts: int = 10,
    noise_floor: float | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-5,
    max_iter: int = 1000,
    random_state: RandomState = 0,
) -> MixtureOfFactorAnalyzers:
    """Fit a mixture of factor analysers by maximum likelihood, with given numbers of components and factors.

    With ``noise="shared"`` it is the mixture of Ghahramani & Hinton [1]_, with ``noise="isotropic"`` the mixture of
    probabilistic principal component analysers of Tipping & Bishop [2]_, with no factors a mixture of Gaussians with
    diagonal or spherical covariances.

    Parameters
    ----------
    X : (n, d) array-like
        Finite real numbers.
    n_components : int
    n_factors : int or sequence of int
        The number of every component, or one number for each; components are then in this order. At most d.
    noise : {"component", "shared", "isotropic"}, default "component"
        Separate uniquenesses for each component, the same for all components, or one variance for all columns, which
        should then have the same units.
    n_starts : int, default 10
        Number of EM runs; the one with the largest likelihood is refined. Half of them start from k-means, half from
        the rows nearest to k-means++ seeds.
    noise_floor : float or (d,) array-like, optional
        Smallest uniqueness: a share of each column's variance in X ("isotropic": of the mean of those), by default
        1e-4, or a variance for each column ("isotropic": the largest is taken), in its own units.
    sample_weight : (n,) array-like, optional
        How often each row counts; a row of weight 0 counts as absent.
    tol : float, default 1e-5
        EM ends when the log-likelihood is within about this of its limit, in nats per row; a thousandth of it for
        the best start.
    max_iter : int, default 1000
        Maximum number of iterations of one EM run; twenty times as many for the best start.
    random_state : int, numpy Generator, numpy RandomState or None, default 0
        For the starts; None takes entropy from the system.

    Returns
    -------
    MixtureOfFactorAnalyzers
        The history has a step for each start. `n_parameters` counts tied uniquenesses once.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it.

    Warns
    -----
    AmofaWarning
        If columns are constant (they are modelled separately, and affect no decision), if there are fewer distinct rows
        than components (there are then fewer components), or if EM of the best start did not converge.

    Notes
    -----
    In EM only the labels are missing: in each M-step, loadings are at their maximum for uniquenesses that a Newton step
    has improved. The likelihood never falls, and EM takes far fewer iterations than with factors as missing data.

    References
    ----------
    .. [1] Z. Ghahramani, G. E. Hinton, "The EM Algorithm for Mixtures of Factor Analyzers", Technical Report
       CRG-TR-96-1, University of Toronto, 1996.
    .. [2] M. E. Tipping, C. M. Bishop, "Mixtures of Probabilistic Principal Component Analyzers", Neural Computation
       11(2), 1999, 443-482.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 3)), rng.normal(8, 1, (100, 3))])
    >>> mfa(X, 2, 1, noise="shared")
    MixtureOfFactorAnalyzers(n_components=2, n_features=3, n_factors=[1, 1])
    >>> mfa(X, 2, 1, noise="isotropic").n_parameters
    15
    """
    table, weights = check_rows(X, sample_weight)
    d = table.shape[1]
    n_components = check_whole_number("n_components", n_components, at_least=1)
    factors = _check_factors(n_factors, d, n_components)
    family = Noise(check_choice("noise", noise, tuple(str(kind) for kind in Noise if not kind.is_joint)))
    floor = check_noise_floor(noise_floor, d)
    runs = _Runs(
        check_whole_number("n_starts", n_starts, at_least=1),
        check_positive("tol", tol),
        check_whole_number("max_iter", max_iter, at_least=1),
    )
    rng = check_random_state(random_state)
    isotropic = family.is_isotropic
    with single_blas_thread(), np.errstate(under="ignore"):
        task = BaselineTask.of(table, weights, floor, one_scale=isotropic, one_floor=isotropic)
        best, history = _from_starts(task, factors, family, runs, rng)
        warn_of_shortfall(n_components, best.n_components)
        return task.model(
            best,
            history,
            criterion="likelihood",
            n_parameters=n_parameters(d, best.parameters.n_factors, family),
            iterations=f"{REFINEMENT} x max_iter={runs.max_iter}",
            in_order=len(set(factors)) > 1,
        )


def _check_factors(n_factors: int | Sequence[int], d: int, n_components: int) -> tuple[int, ...]:
    """Return one number of factors for each component."""
    if isinstance(n_factors, Integral):
        return (check_whole_number("n_factors", n_factors, at_least=0, at_most=d),) * n_components
    return check_factor_sequence(n_factors, d, n_components)


def _from_starts(
    task: BaselineTask, factors: tuple[int, ...], noise: Noise, runs: _Runs, rng: Generator
) -> tuple[Outcome, list[Step]]:
    """Return the best of several EM runs, refined, and a step for each."""
    samples = task.samples
    if samples.n_features == 0:
        return Outcome.of_no_columns(factors[0]), []
    prior = Prior(task.standardized_floor, np.ones(samples.n_features), 0.0)
    pricing = Likelihood()
    # Without prices, and with given numbers, nothing is chosen.
    choice = FactorChoice(pricing, prior, noise, factors[0])
    problem = Problem(prior, pricing, noise, choice, runs.tol, runs.max_iter, annihilates=False)
    # Tables with fewer rows than columns do without (d, d) arrays.
    solver = Solver(samples.n_features) if samples.n_rows >= samples.n_features else None
    best: Outcome | None = None
    history: list[Step] = []
    for number in range(runs.n_starts):
        start = _start(samples, factors, noise, prior.floor, rng, with_k_means=number % 2 == 0)
        run = profile_em(samples, start, problem, solver, problem.max_iter, choose_at_end=False)
        accepted = best is None or run.log_likelihood > best.log_likelihood
        history.append(make_step(samples, "start", -1, run, accepted=accepted))
        if best is None or accepted:
            best = run
    assert best is not None
    finer = replace(problem, tol=_REFINED * problem.tol)
    refined = profile_em(samples, best.parameters, finer, solver, REFINEMENT * problem.max_iter, choose_at_end=False)
    history.append(make_step(samples, "refine", -1, refined, accepted=True))
    return refined, history


def _start(
    samples: Samples,
    factors: tuple[int, ...],
    noise: Noise,
    floor: FloatArray,
    rng: Generator,
    *,
    with_k_means: bool,
) -> Parameters:
    """Return Gaussians with independent columns on the parts of a random partition; the first M-step adds loadings."""
    centers = draw_seeds(samples, len(factors), rng)
    if with_k_means:
        centers = k_means(samples, centers, _LLOYD_ITERATIONS)
    counts, means, variances = partition_moments(samples, nearest_centers(samples, centers), centers)
    # As if each part had one more row with the variances within all parts: those of a few rows may be 0.
    pooled = counts @ variances / counts.sum()
    variances = (counts[:, None] * variances + pooled) / (counts[:, None] + 1.0)
    if noise.is_shared:
        variances[:] = pooled
    elif noise.is_isotropic:
        variances[:] = variances.mean(axis=1, keepdims=True)
    variances = np.maximum(variances, floor)
    d = samples.n_features
    shapes = zip(counts + 1.0, means, factors, variances, strict=False)  # there may be fewer parts than asked for
    return Parameters.from_components([Component(n, mean, np.zeros((p, d)), psi) for n, mean, p, psi in shapes])
