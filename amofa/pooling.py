"""Pooled covariances: models of classes that borrow covariance from one another, and the choice of how much."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from amofa._data.row_chunks import Samples
from amofa._model.posterior import Rows, log_densities
from amofa._typing import FloatArray
from amofa.mixture import MixtureOfFactorAnalyzers

# Numbers of rows that the pooled covariance may be worth: 0, then doubling; accuracy varies little between them.
POOLED_ROWS = (0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
# Weights of the single factor analyser of a class, relative to its mixture.
SINGLE_WEIGHTS = (1.0, 0.5, 0.0)
# Losses that differ by less than this are the same, in nats per row.
_SAME_LOSS = 1e-9
# Bounds of the log power in `calibrated_loss`.
_LOG_POWERS = (-7.0, 2.0)
# A power other than 1 gains at least this many nats on all held-out rows: what a parameter costs in AIC.
_LEAST_GAIN = 1.0
# Decimals of the power, so that rounding of the losses does not change it.
_POWER_DECIMALS = 3


class ClassFit(NamedTuple):
    """Models of the rows of a class, the number of rows, or the sum of their weights, and whether it borrows."""

    single: MixtureOfFactorAnalyzers
    mixture: MixtureOfFactorAnalyzers
    n: float
    borrows: bool = True  # False for equal rows


class Pooling(NamedTuple):
    """How the models of classes are made of the fits, and their densities used."""

    rows: float  # that the pooled covariance is worth
    single: float  # the weight of single factor analysers
    power: float = 1.0  # of the densities, from which probabilities of classes are computed


class HeldOut(NamedTuple):
    """Held-out rows to evaluate models on, with their classes and weights."""

    X: NDArray[Any]
    y: NDArray[np.intp]
    weights: FloatArray | None


# The default, if there are no losses or they are equal: few rows in each class, or an easy problem.
_UNTESTED = Pooling(10.0, 1.0)


# ---- models of classes -----------------------------------------------------------------------------------------------


def class_log_densities(models: Sequence[MixtureOfFactorAnalyzers], rows: Rows) -> FloatArray:
    """Return the log density of every row under every class, (n, C), in nats."""
    return np.stack([log_densities(model._parameters, rows) for model in models], axis=1)


def class_models(fits: Sequence[ClassFit], pooling: Pooling) -> list[MixtureOfFactorAnalyzers]:
    """Return the model of each class: its single factor analyser, its mixture, or both as one mixture."""
    singles, mixtures = pooled_models(fits, pooling.rows)
    if pooling.single in (0, 1):
        return singles if pooling.single else mixtures
    return [
        MixtureOfFactorAnalyzers(
            np.concatenate([pooling.single * single.weights, (1 - pooling.single) * mixture.weights]),
            np.concatenate([single.means, mixture.means]),
            [*single.loadings, *mixture.loadings],
            np.concatenate([single.uniquenesses, mixture.uniquenesses]),
            degrees_of_freedom=np.concatenate([single.degrees_of_freedom, mixture.degrees_of_freedom]),
        )
        for single, mixture in zip(singles, mixtures, strict=True)
    ]


def pooled_models(
    fits: Sequence[ClassFit], rows: float
) -> tuple[list[MixtureOfFactorAnalyzers], list[MixtureOfFactorAnalyzers]]:
    """Return single factor analysers and mixtures; the prior of each kind is worth the given number of rows.

    Classes that do not borrow have no prior.
    """
    counts = [fit.n for fit in fits]

    def pooled(models: list[MixtureOfFactorAnalyzers]) -> list[MixtureOfFactorAnalyzers]:
        borrowing = with_prior(models, counts, rows)
        return [b if fit.borrows else own for fit, b, own in zip(fits, borrowing, models, strict=True)]

    return pooled([fit.single for fit in fits]), pooled([fit.mixture for fit in fits])


def with_prior(
    models: Sequence[MixtureOfFactorAnalyzers], counts: Sequence[float], rows: float
) -> list[MixtureOfFactorAnalyzers]:
    """Return models with covariances (n_k Sigma_k + rows Sigma) / (n_k + rows), Sigma being their mean over all rows.

    The sum of two factor analysers is another one, with their loadings side by side and their uniquenesses added. Of t
    components, these are the scale matrices, and degrees of freedom stay.
    """
    if rows == 0:
        return list(models)
    shared_loadings, shared_noise = as_analyser(pooled_covariance(models, counts))
    results = []
    for model, n in zip(models, counts, strict=True):
        own = n * model.weights / (n * model.weights + rows)
        loadings = [
            np.hstack([np.sqrt(share) * of_model, np.sqrt(1 - share) * shared_loadings])
            for share, of_model in zip(own, model.loadings, strict=True)
        ]
        noise = own[:, None] * model.uniquenesses + (1 - own[:, None]) * shared_noise
        degrees = model.degrees_of_freedom
        results.append(
            MixtureOfFactorAnalyzers(model.weights, model.means, loadings, noise, degrees_of_freedom=degrees)
        )
    return results


def pooled_covariance(models: Sequence[MixtureOfFactorAnalyzers], counts: Sequence[float]) -> FloatArray:
    """Return the mean of the covariances of all components, weighted by their numbers of rows, (d, d).

    Scale matrices take the places of covariances of t components.
    """
    total = np.zeros((models[0].n_features,) * 2)
    for model, n in zip(models, counts, strict=True):
        for k, weight in enumerate(model.weights):
            total += n * weight * model.scale_matrix(k)
    return total / sum(counts)


def as_analyser(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return loadings (d, d) and uniquenesses (d,) of a positive definite covariance, exact whatever the units."""
    deviations = np.sqrt(np.diagonal(covariance))
    values, directions = np.linalg.eigh(covariance / np.outer(deviations, deviations))
    # The smallest eigenvalue may be lost in rounding; half of it, or of what rounding leaves, is the noise.
    least = max(values[0] / 2, len(values) * np.finfo(np.float64).eps)
    return deviations[:, None] * directions * np.sqrt(np.maximum(values - least, 0.0)), least * deviations**2


# ---- the choice ------------------------------------------------------------------------------------------------------


def poolings(rows: float | None, single: float | None) -> list[Pooling]:
    """Return the poolings to choose from; given values are kept."""
    of_rows = POOLED_ROWS if rows is None else [rows]
    of_single = SINGLE_WEIGHTS if single is None else [single]
    return [Pooling(n, weight) for n, weight in product(of_rows, of_single)]


def best_pooling(
    fits: Sequence[Sequence[ClassFit]], held_out: Sequence[HeldOut], log_priors: FloatArray, grid: Sequence[Pooling]
) -> Pooling:
    """Return the pooling of the grid that predicts the classes of held-out rows best, with its power.

    The power is at most 1: held-out rows that are all right say nothing of how sure the others are. `fits` has one fit
    for each class for each training part, and `held_out` the rows that each part is evaluated on; `log_priors` (C,) are
    the log probabilities of the classes.
    """
    if not held_out:
        return min(grid, key=_unlike_untested)
    y = np.concatenate([rows.y for rows in held_out])
    if len(np.unique(y)) < len(log_priors):
        # A class with almost no rows does not count here, and has no covariance of its own.
        grid = [pooling for pooling in grid if pooling.rows > 0] or grid
    weights = np.concatenate([np.ones(len(rows.y)) if rows.weights is None else rows.weights for rows in held_out])
    losses: dict[Pooling, float] = {}
    powers: dict[Pooling, float] = {}
    tables = [Samples(rows.X) for rows in held_out]
    for n in dict.fromkeys(pooling.rows for pooling in grid):
        kinds = zip(*(pooled_models(of_part, n) for of_part in fits), strict=True)
        single, mixture = (
            np.concatenate([class_log_densities(models, rows) for models, rows in zip(kind, tables, strict=True)])
            for kind in kinds
        )
        for pooling in (pooling for pooling in grid if pooling.rows == n):
            with np.errstate(divide="ignore"):
                both = np.logaddexp(np.log(pooling.single) + single, np.log(1 - pooling.single) + mixture)
            losses[pooling], powers[pooling] = calibrated_loss(both, log_priors, y, weights)
    least = min(losses.values())
    best = min((pooling for pooling in grid if losses[pooling] <= least + _SAME_LOSS), key=_unlike_untested)
    return best._replace(power=min(round(powers[best], _POWER_DECIMALS), 1.0))


def calibrated_loss(
    log_densities: FloatArray, log_priors: FloatArray, y: NDArray[np.intp], weights: FloatArray
) -> tuple[float, float]:
    """Return minus the mean log probability of the true classes, in nats, at the best power of the densities, and this.

    The power is given as 1 if that is hardly worse.

    Densities of many columns are overconfident. Without the power, a pooling that only makes them less confident would
    win over one that separates the classes.
    """

    def loss(log_power: float) -> float:
        scores = np.exp(log_power) * log_densities + log_priors
        return float(np.average(logsumexp(scores, axis=1) - scores[np.arange(len(y)), y], weights=weights))

    found = minimize_scalar(loss, bounds=_LOG_POWERS, method="bounded")
    gain = float(weights.sum()) * (loss(0.0) - float(found.fun))
    return float(found.fun), float(np.exp(found.x)) if gain >= _LEAST_GAIN else 1.0


def _unlike_untested(pooling: Pooling) -> tuple[bool, bool]:
    """Return the sort key of a pooling: its distance from the default pooling."""
    return pooling.rows != _UNTESTED.rows, pooling.single != _UNTESTED.single
