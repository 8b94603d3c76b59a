"""fit(): options, validation, one call into the search, and the model that comes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from amofa.analyser import NOISE, FactorChoice, Prior
from amofa.arguments import (
    check_choice,
    check_factor_sequence,
    check_noise_floor,
    check_not_negative,
    check_positive,
    check_variances,
    check_whole_number,
)
from amofa.coordinates import Standardized, floor_variances, resolution_variances
from amofa.criterion import CRITERIA, Counted, Evidence, Pricing, n_parameters
from amofa.em import Fit, Settings
from amofa.exact_em import Problem, Solution
from amofa.history import Step
from amofa.limits import REFINEMENT, Limits
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.parameters import Component, FloatArray, Parameters
from amofa.results import (
    in_canonical_order,
    make_report,
    warn_of_constant_columns,
    warn_of_no_convergence,
    warn_of_shortfall,
    with_canonical_factors,
)
from amofa.samples import Samples, check_table, check_weights
from amofa.search import paper_search
from amofa.thorough import thorough_search
from amofa.threads import single_blas_thread

SEARCHES = ("thorough", "paper")
# The criterion of "thorough" that the paper's search does not have: it depends on more than numbers of parameters.
EVIDENCE = "evidence"
NOISES = (*NOISE, "auto")
# Rows that the prior of a uniqueness is worth. It has a variance from here on.
_PRIOR_ROWS = 4.0


def fit(
    X: ArrayLike,
    *,
    n_components: int | None = None,
    n_factors: int | Sequence[int] | None = None,
    search: str = "thorough",
    criterion: str | None = None,
    noise: str | None = None,
    noise_floor: float | ArrayLike | None = None,
    prior_scale: ArrayLike | None = None,
    prior_rows: float | None = None,
    sample_weight: ArrayLike | None = None,
    max_components: int | None = None,
    max_factors: int | None = None,
    tol: float = 1e-5,
    max_iter: int = 100,
) -> MixtureOfFactorAnalyzers:
    """Fit a mixture of factor analysers, finding what is not given: the number of components, and of factors in each.

    The result depends on the rows alone, not on their order, and on no random number; it does not change with the
    units or the origin of a column.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Real numbers, one row per observation; any real dtype and memory layout. It is not changed, and not copied
        unless it is small.
    n_components : int, optional
        Number of components, kept. Found where not given.
    n_factors : int or sequence of int, optional
        Number of factors of every component, or one number for each component (the components then come in this
        order, at the start of it the heaviest), kept. Found where not given.
    search : {"thorough", "paper"}, default "thorough"
        "thorough" tries splits of every component from several starts, and merges, with each factor analyser at its
        maximum and its number of factors, 0 included, chosen inside (docs/algorithm.md). "paper" is the algorithm of
        Kaya & Salah [1]_.
    criterion : {"evidence", "mml", "bic", "aic", "icl"}, optional
        What the search minimises. "evidence" (docs/criterion.md), the default of "thorough", which alone has it;
        "mml", the default of "paper", is the message length of the paper's final equation.
    noise : {"auto", "component", "shared", "isotropic"}, optional
        Uniquenesses of each component's own, the same for all components, or, for each component, one share of the
        columns' variances in X. "auto", the default of "thorough", lets the criterion choose between the first two:
        where rows are few, components that share find more. The paper's search has "component" alone.
    noise_floor : float or (d,) array-like, optional
        Smallest uniqueness: a share of each column's variance in X (default 1e-4, and with "thorough" at least 1/12
        of the squared step of columns of rounded numbers), or a variance for each column, in its own units.
    prior_scale : (d,) array-like, optional
        Variances about which the prior of uniquenesses is centred, and of which `noise_floor` is a share, in the
        columns' own units; the columns' variances in X where not given. A classifier passes those of all its classes.
    prior_rows : float, optional
        Strength of this prior: near its centre it is worth half as many rows; 4 where not given, 0 for none. "thorough"
        only.
    sample_weight : (n,) array-like, optional
        How often each row counts; a row of weight 0 is as good as absent. N in the criterion is their sum.
    max_components, max_factors : int, optional
        Bounds of what is found.
    tol : float, default 1e-5
        EM ends when the criterion is within about this of its limit ("paper": changes by less, and a move must gain
        more than this), in nats per row.
    max_iter : int, default 100
        Most iterations of one EM run.

    Returns
    -------
    MixtureOfFactorAnalyzers

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it and what to do.

    Warns
    -----
    AmofaWarning
        If columns are constant (they are modelled apart, with the uniqueness `noise_floor` times the mean variance of
        the other columns, and change no decision), if EM of the chosen model did not converge, or if fewer components
        than asked for can be told apart.

    References
    ----------
    .. [1] H. Kaya, A. A. Salah, "Adaptive Mixtures of Factor Analyzers", arXiv:1507.02801.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> model = amofa.fit(X)
    >>> model.n_components
    2
    >>> model.weights.round(2)
    array([0.67, 0.33])
    """
    table = check_table(X)
    weights = None if sample_weight is None else check_weights(sample_weight, len(table))
    limits = _limits(table.shape[1], n_components, n_factors, max_components, max_factors)
    options = _options(search, criterion, noise, prior_rows)
    tol = check_positive("tol", tol)
    max_iter = check_whole_number("max_iter", max_iter, at_least=1)
    floor = check_noise_floor(noise_floor, table.shape[1])
    scale = None if prior_scale is None else check_variances("prior_scale", prior_scale, table.shape[1])

    history: list[Step] = []
    # Squares of tiny numbers may become 0 here, whatever the caller wants to be told about.
    with single_blas_thread(), np.errstate(under="ignore"):
        rows = Standardized.of(table, weights)
        coordinates, samples = rows.coordinates, rows.samples
        warn_of_constant_columns(coordinates.constant)
        variances = floor_variances(floor, scale, coordinates)
        found: Fit | Solution
        noise = options.noise
        if samples.n_features == 0:
            found = _no_search(limits)
        else:
            kept = ~coordinates.constant
            unit = coordinates.scale[kept] ** 2
            least = variances[kept] / unit
            prior_variances = np.ones(len(unit)) if scale is None else scale[kept] / unit
            if options.search == "paper":
                found, history = _paper(samples, options, limits, least, tol, max_iter)
            else:
                if noise_floor is None:
                    least = np.maximum(least, resolution_variances(samples))
                    variances[kept] = least * unit
                prior = Prior(least, prior_variances, options.prior_rows)
                found, history, noise = _thorough(samples, options, limits, prior, tol, max_iter)
        parameters = coordinates.restore(found.parameters, variances)
        if not isinstance(limits.n_factors, tuple):
            parameters = in_canonical_order(parameters)
        parameters = with_canonical_factors(parameters)
        warn_of_no_convergence(found.converged, f"{REFINEMENT} x max_iter={max_iter}")
        warn_of_shortfall(limits.n_components, parameters.n_components)
        report = make_report(
            rows.whole,
            parameters,
            variances,
            criterion=options.criterion,
            n_parameters=n_parameters(table.shape[1], parameters.n_factors, noise),
            converged=found.converged,
            history=history,
        )
    return MixtureOfFactorAnalyzers._from_fit(parameters, report)


# ---- arguments -------------------------------------------------------------------------------------------------------


def _limits(
    d: int,
    n_components: int | None,
    n_factors: int | Sequence[int] | None,
    max_components: int | None,
    max_factors: int | None,
) -> Limits:
    if n_components is not None:
        n_components = check_whole_number("n_components", n_components, at_least=1)
    factors: int | tuple[int, ...] | None
    if n_factors is None or isinstance(n_factors, Integral):
        factors = None if n_factors is None else check_whole_number("n_factors", n_factors, at_least=0, at_most=d)
    else:
        factors = check_factor_sequence(n_factors, d, n_components)
        n_components = len(factors)
    if max_components is not None:
        max_components = check_whole_number("max_components", max_components, at_least=n_components or 1)
    if max_factors is not None:
        given = factors if isinstance(factors, int) else max(factors or (0,))
        max_factors = check_whole_number("max_factors", max_factors, at_least=given)
    return Limits(n_components, factors, max_components, max_factors)


@dataclass(frozen=True)
class _Options:
    """What kind of search, checked."""

    search: str
    criterion: str
    noise: str
    prior_rows: float


def _options(search: Any, criterion: Any, noise: Any, prior_rows: Any) -> _Options:
    search = check_choice("search", search, SEARCHES)
    noise = check_choice("noise", ("component" if search == "paper" else "auto") if noise is None else noise, NOISES)
    if search == "paper":
        if noise != "component":
            raise ValueError(f"noise={noise!r} needs search='thorough'; the paper's has noise='component' alone")
        if criterion == EVIDENCE:
            raise ValueError("criterion='evidence' needs search='thorough'; the paper's search has criterion='mml'")
        if prior_rows is not None:
            raise ValueError("prior_rows needs search='thorough'; the paper's search has no prior")
        return _Options(
            search, check_choice("criterion", "mml" if criterion is None else criterion, tuple(CRITERIA)), noise, 0.0
        )
    criterion = check_choice("criterion", EVIDENCE if criterion is None else criterion, (EVIDENCE, *CRITERIA))
    rows = _PRIOR_ROWS if prior_rows is None else check_not_negative("prior_rows", prior_rows)
    return _Options(search, criterion, noise, rows)


# ---- the search's surroundings ---------------------------------------------------------------------------------------


def _paper(
    samples: Samples, options: _Options, limits: Limits, floor: FloatArray, tol: float, max_iter: int
) -> tuple[Fit, list[Step]]:
    settings = Settings(
        criterion=CRITERIA[options.criterion],
        floor=floor,
        tol=tol,
        max_iter=max_iter,
        annihilates=limits.n_components is None,
    )
    return paper_search(samples, settings, limits)


def _thorough(
    samples: Samples, options: _Options, limits: Limits, prior: Prior, tol: float, max_iter: int
) -> tuple[Solution, list[Step], str]:
    """With noise as asked for, or each component's own: "auto" goes on from there with shared noise.

    Returns the model, the steps, and the kind of noise that the model has.
    """
    given = min(limits.n_factors) if isinstance(limits.n_factors, tuple) else limits.n_factors

    def problem(noise: str) -> Problem:
        pricing: Pricing
        if options.criterion == EVIDENCE:
            pricing = Evidence(samples.n_features, samples.total_weight, noise, prior.count)
        else:
            pricing = Counted(CRITERIA[options.criterion], samples.n_features, samples.total_weight, noise)
        choice = FactorChoice(pricing, prior, noise, given, limits.max_factors)
        return Problem(prior, pricing, noise, choice, tol, max_iter, annihilates=limits.n_components is None)

    if options.noise != "auto":
        return *thorough_search(samples, problem(options.noise), limits), options.noise
    own, history = thorough_search(samples, problem("component"), limits)
    found, more = thorough_search(samples, problem("shared"), limits, own)
    return found, history + more, "component" if found is own else "shared"


def _no_search(limits: Limits) -> Fit:
    """The model of rows that are all the same."""
    factors = limits.n_factors[0] if isinstance(limits.n_factors, tuple) else limits.first_factors
    parameters = Parameters.from_components([Component(1.0, np.zeros(0), np.zeros((factors, 0)), np.zeros(0))])
    return Fit(parameters, log_likelihood=math.nan, cost=math.nan, n_iter=0, converged=True)
