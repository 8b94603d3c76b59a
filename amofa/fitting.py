"""fit(): options, validation, one call into the search, and the model that comes of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa.analyser import NOISE, FactorChoice, Prior
from amofa.coordinates import Coordinates, resolution_variances
from amofa.criterion import CRITERIA, Counted, Evidence, Pricing, message_length
from amofa.em import Fit, Settings
from amofa.exact_em import Problem, Solution
from amofa.history import FitReport, Step
from amofa.limits import REFINEMENT, Limits
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.parameters import Component, Evaluator, FloatArray, Parameters, Statistics
from amofa.samples import Samples, check_table, check_weights, counted_rows
from amofa.search import paper_search
from amofa.thorough import thorough_search
from amofa.threads import single_blas_thread
from amofa.warnings import AmofaWarning

SEARCHES = ("thorough", "paper")
# The criterion of "thorough" that the paper's search does not have: it depends on more than numbers of parameters.
EVIDENCE = "evidence"
NOISES = (*NOISE, "auto")
_NOISE_FLOOR = 1e-4
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
    tol = _positive_number("tol", tol)
    max_iter = _whole_number("max_iter", max_iter, at_least=1)
    floor = _noise_floor(noise_floor, table.shape[1])
    scale = None if prior_scale is None else _variances("prior_scale", prior_scale, table.shape[1])

    history: list[Step] = []
    # Squares of tiny numbers may become 0 here, whatever the caller wants to be told about.
    with single_blas_thread(), np.errstate(under="ignore"):
        rows = counted_rows(weights)
        whole = Samples(table, weights=weights, rows=rows)
        coordinates = Coordinates.of(whole)
        _warn_of_constant_columns(coordinates.constant)
        variances = _floor_variances(floor, scale, coordinates)
        samples = coordinates.samples(table, weights, rows)
        found: Fit | Solution
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
                found, history = _thorough(samples, options, limits, prior, tol, max_iter)
        parameters = coordinates.restore(found.parameters, variances)
        if not isinstance(limits.n_factors, tuple):
            parameters = _in_canonical_order(parameters)
        parameters = _with_canonical_factors(parameters)
        _warn_of_shortfall(found, limits, max_iter)
        report = _report(whole, parameters, variances, options.criterion, found, history)
    return MixtureOfFactorAnalyzers._from_fit(parameters, report)


# ---- arguments -------------------------------------------------------------------------------------------------------


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def _whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    number = int(value)
    if number < at_least or (at_most is not None and number > at_most):
        bounds = f"at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise ValueError(f"{name} must be {bounds}, got {number}")
    return number


def _positive_number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return number


def _limits(
    d: int,
    n_components: int | None,
    n_factors: int | Sequence[int] | None,
    max_components: int | None,
    max_factors: int | None,
) -> Limits:
    if n_components is not None:
        n_components = _whole_number("n_components", n_components, at_least=1)
    factors: int | tuple[int, ...] | None
    if n_factors is None or isinstance(n_factors, Integral):
        factors = None if n_factors is None else _whole_number("n_factors", n_factors, at_least=0, at_most=d)
    else:
        factors = _factor_sequence(n_factors, d, n_components)
        n_components = len(factors)
    if max_components is not None:
        max_components = _whole_number("max_components", max_components, at_least=n_components or 1)
    if max_factors is not None:
        given = factors if isinstance(factors, int) else max(factors or (0,))
        max_factors = _whole_number("max_factors", max_factors, at_least=given)
    return Limits(n_components, factors, max_components, max_factors)


def _factor_sequence(n_factors: Any, d: int, n_components: int | None) -> tuple[int, ...]:
    try:
        entries = list(n_factors)
    except TypeError:
        raise TypeError(f"n_factors must be a whole number or a sequence of them, got {n_factors!r}") from None
    if not entries or len(entries) != (n_components or len(entries)):
        raise ValueError(f"n_factors has {len(entries)} entries for {n_components or 1} components; give one for each")
    return tuple(_whole_number(f"n_factors[{k}]", p, at_least=0, at_most=d) for k, p in enumerate(entries))


def _noise_floor(noise_floor: Any, d: int) -> float | FloatArray:
    if noise_floor is None:
        return _NOISE_FLOOR
    given = np.asarray(noise_floor)
    return _positive_number("noise_floor", given.item()) if given.ndim == 0 else _variances("noise_floor", given, d)


def _variances(name: str, values: Any, d: int) -> FloatArray:
    """One positive number for each column."""
    given = np.asarray(values)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {given.dtype}")
    if given.shape != (d,):
        alternative = "one number, or " if name == "noise_floor" else ""
        raise ValueError(f"{name} has shape {given.shape}; pass {alternative}one for each of {d} columns")
    variances = np.ascontiguousarray(given, dtype=np.float64)
    if not (np.isfinite(variances) & (variances > 0)).all():
        j = int(np.argmin(np.isfinite(variances) & (variances > 0)))
        raise ValueError(f"{name} must be positive and finite, got {variances[j]} for column {j}")
    return variances


@dataclass(frozen=True)
class _Options:
    """What kind of search, checked."""

    search: str
    criterion: str
    noise: str
    prior_rows: float


def _options(search: Any, criterion: Any, noise: Any, prior_rows: Any) -> _Options:
    search = _choice("search", search, SEARCHES)
    noise = _choice("noise", ("component" if search == "paper" else "auto") if noise is None else noise, NOISES)
    if search == "paper":
        if noise != "component":
            raise ValueError(f"noise={noise!r} needs search='thorough'; the paper's has noise='component' alone")
        if criterion == EVIDENCE:
            raise ValueError("criterion='evidence' needs search='thorough'; the paper's search has criterion='mml'")
        if prior_rows is not None:
            raise ValueError("prior_rows needs search='thorough'; the paper's search has no prior")
        return _Options(
            search, _choice("criterion", "mml" if criterion is None else criterion, tuple(CRITERIA)), noise, 0.0
        )
    criterion = _choice("criterion", EVIDENCE if criterion is None else criterion, (EVIDENCE, *CRITERIA))
    if prior_rows is None:
        return _Options(search, criterion, noise, _PRIOR_ROWS)
    if prior_rows == 0 and not isinstance(prior_rows, bool | np.bool_):
        return _Options(search, criterion, noise, 0.0)
    return _Options(search, criterion, noise, _positive_number("prior_rows", prior_rows))


# ---- the search's surroundings ---------------------------------------------------------------------------------------


def _floor_variances(floor: float | FloatArray, scale: FloatArray | None, coordinates: Coordinates) -> FloatArray:
    """Smallest uniqueness of each column in its own units, (d,); what constant columns get."""
    if not isinstance(floor, float):
        return floor.copy()
    if scale is not None:
        return floor * scale
    variances = coordinates.scale**2
    varying = variances[~coordinates.constant]
    variances[coordinates.constant] = varying.mean() if len(varying) else 1.0
    return floor * variances


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
) -> tuple[Solution, list[Step]]:
    """With noise of each component's own or as asked for; "auto" goes on from there with shared noise."""
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
        return thorough_search(samples, problem(options.noise), limits)
    found, history = thorough_search(samples, problem("component"), limits)
    found, more = thorough_search(samples, problem("shared"), limits, found)
    return found, history + more


def _no_search(limits: Limits) -> Fit:
    """The model of rows that are all the same."""
    factors = limits.n_factors[0] if isinstance(limits.n_factors, tuple) else limits.first_factors
    parameters = Parameters.from_components([Component(1.0, np.zeros(0), np.zeros((factors, 0)), np.zeros(0))])
    return Fit(parameters, log_likelihood=math.nan, cost=math.nan, n_iter=0, converged=True)


def _in_canonical_order(parameters: Parameters) -> Parameters:
    """Components by falling weight; equal weights by rising mean, its first column first."""
    order = np.lexsort((*parameters.means.T[::-1], -parameters.weights))
    return Parameters.from_components([parameters.component(int(k)) for k in order])


def _with_canonical_factors(parameters: Parameters) -> Parameters:
    """Factors rotated: Lambda' Psi^-1 Lambda is diagonal and falling, the largest scaled loading of each positive."""
    canonical = parameters.copy()
    for k in range(parameters.n_components):
        loadings, noise = canonical.component_loadings(k), np.sqrt(canonical.uniquenesses[k])
        if len(loadings) > 1:
            rotation, _, _ = np.linalg.svd(loadings / noise)
            loadings[:] = rotation.T @ loadings
        for row in loadings:
            scaled = row / noise
            if -scaled.min() > scaled.max():
                row *= -1.0
    return canonical


def _report(
    samples: Samples,
    parameters: Parameters,
    floor: FloatArray,
    criterion: str,
    found: Fit | Solution,
    history: Sequence[Step],
) -> FitReport:
    statistics = Statistics(parameters)
    samples.accumulate(Evaluator(parameters), statistics, with_entropy=False)
    penalty = message_length(samples.n_features, parameters.n_factors, samples.total_weight)
    return FitReport(
        log_likelihood=statistics.log_likelihood,
        message_length=penalty.cost(statistics.log_likelihood, 0.0, parameters.weights.tolist()),
        criterion=criterion,
        n_samples=samples.total_weight,
        converged=found.converged,
        at_floor=parameters.uniquenesses <= floor * (1 + 1e-9),
        history=tuple(history),
    )


# ---- warnings --------------------------------------------------------------------------------------------------------


def _warn(message: str) -> None:
    # The call of `fit` is where the user can do something.
    warnings.warn(message, AmofaWarning, stacklevel=4)


def _warn_of_constant_columns(constant: NDArray[np.bool_]) -> None:
    columns = np.flatnonzero(constant)
    if len(columns):
        names = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
        _warn(f"{len(columns)} of {len(constant)} columns of X are constant and change no decision: {names} (from 0)")


def _warn_of_shortfall(found: Fit | Solution, limits: Limits, max_iter: int) -> None:
    if not found.converged:
        _warn(
            f"EM of the chosen model did not converge within {REFINEMENT} x max_iter={max_iter} iterations; allow more"
        )
    wanted, reached = limits.n_components, found.parameters.n_components
    if wanted is not None and reached < wanted:
        _warn(f"{wanted} components were asked for, but the rows hold only {reached} that can be told apart")
