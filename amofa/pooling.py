"""Classes that borrow covariance from one another: models of their fits, and how much is borrowed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from amofa._typing import FloatArray
from amofa.mixture import MixtureOfFactorAnalyzers

# Rows that the pooled covariance may be worth: none, and then steps of two, over which accuracy is flat.
POOLED_ROWS = (0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
# Weights that the single factor analyser of a class may have beside its mixture.
SINGLE_WEIGHTS = (1.0, 0.5, 0.0)
# Losses that differ by less, nats per row, are the same.
_SAME_LOSS = 1e-9
# Bounds of the logarithm of the power in `calibrated_loss`.
_LOG_POWERS = (-7.0, 2.0)


class ClassFit(NamedTuple):
    """Models of the rows of a class, and their number, or the sum of their weights."""

    single: MixtureOfFactorAnalyzers
    mixture: MixtureOfFactorAnalyzers
    n: float


class Pooling(NamedTuple):
    """The rows that the pooled covariance is worth, and the weight of single factor analysers."""

    rows: float
    single: float


class HeldOut(NamedTuple):
    """Rows to judge models by, with their classes and weights."""

    X: NDArray[Any]
    y: NDArray[np.intp]
    weights: FloatArray | None


# What is chosen without losses, or where they are the same: there are a few rows of each class, or all is easy.
_UNTESTED = Pooling(10.0, 1.0)


# ---- models of classes -----------------------------------------------------------------------------------------------


def log_densities(models: Sequence[MixtureOfFactorAnalyzers], X: ArrayLike) -> FloatArray:
    """Of every row under every class, (n, C), nats."""
    return np.stack([model.score_samples(X) for model in models], axis=1)


def class_models(fits: Sequence[ClassFit], pooling: Pooling) -> list[MixtureOfFactorAnalyzers]:
    """The model of each class: its single factor analyser, its mixture, or both as one mixture."""
    singles, mixtures = pooled_models(fits, pooling.rows)
    if pooling.single in (0, 1):
        return singles if pooling.single else mixtures
    return [
        MixtureOfFactorAnalyzers(
            np.concatenate([pooling.single * single.weights, (1 - pooling.single) * mixture.weights]),
            np.concatenate([single.means, mixture.means]),
            [*single.loadings, *mixture.loadings],
            np.concatenate([single.uniquenesses, mixture.uniquenesses]),
        )
        for single, mixture in zip(singles, mixtures, strict=True)
    ]


def pooled_models(
    fits: Sequence[ClassFit], rows: float
) -> tuple[list[MixtureOfFactorAnalyzers], list[MixtureOfFactorAnalyzers]]:
    """The single factor analysers and the mixtures, each kind with a prior of its own that is worth so many rows."""
    counts = [fit.n for fit in fits]
    return with_prior([fit.single for fit in fits], counts, rows), with_prior([f.mixture for f in fits], counts, rows)


def with_prior(
    models: Sequence[MixtureOfFactorAnalyzers], counts: Sequence[float], rows: float
) -> list[MixtureOfFactorAnalyzers]:
    """Models with the covariances (n_k Sigma_k + rows Sigma) / (n_k + rows), Sigma their mean over all rows.

    The sum of two factor analysers is one: their loadings are put side by side, their uniquenesses added.
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
        results.append(MixtureOfFactorAnalyzers(model.weights, model.means, loadings, noise))
    return results


def pooled_covariance(models: Sequence[MixtureOfFactorAnalyzers], counts: Sequence[float]) -> FloatArray:
    """The mean of all components' covariances, by their numbers of rows, (d, d)."""
    total = np.zeros((models[0].n_features,) * 2)
    for model, n in zip(models, counts, strict=True):
        for k, weight in enumerate(model.weights):
            total += n * weight * model.covariance(k)
    return total / sum(counts)


def as_analyser(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Loadings (d, d) and uniquenesses (d,) of a positive definite covariance, exactly, whatever the columns' units."""
    deviations = np.sqrt(np.diagonal(covariance))
    values, directions = np.linalg.eigh(covariance / np.outer(deviations, deviations))
    # The least eigenvalue may be lost in rounding; half of it, or what rounding leaves of it, is noise.
    least = max(values[0] / 2, len(values) * np.finfo(np.float64).eps)
    return deviations[:, None] * directions * np.sqrt(np.maximum(values - least, 0.0)), least * deviations**2


# ---- the choice ------------------------------------------------------------------------------------------------------


def poolings(rows: float | None, single: float | None) -> list[Pooling]:
    """Those to choose from, where what is given is kept."""
    of_rows = POOLED_ROWS if rows is None else [rows]
    of_single = SINGLE_WEIGHTS if single is None else [single]
    return [Pooling(n, weight) for n, weight in product(of_rows, of_single)]


def best_pooling(
    fits: Sequence[Sequence[ClassFit]], held_out: Sequence[HeldOut], log_priors: FloatArray, grid: Sequence[Pooling]
) -> Pooling:
    """One of those by which the classes of held-out rows are best predicted.

    Parameters
    ----------
    fits : sequence of sequences of ClassFit
        Of each training part, one for each class.
    held_out : sequence of HeldOut
        The rows that each part is judged by.
    log_priors : (C,) float64
        Logarithms of the classes' probabilities.
    grid : sequence of Pooling
    """
    if not held_out:
        return min(grid, key=_unlike_untested)
    y = np.concatenate([rows.y for rows in held_out])
    if len(np.unique(y)) < len(log_priors):
        # A class of next to no rows has no say here, and no covariance of its own.
        grid = [pooling for pooling in grid if pooling.rows > 0] or grid
    weights = np.concatenate([np.ones(len(rows.y)) if rows.weights is None else rows.weights for rows in held_out])
    losses = {}
    for n in dict.fromkeys(pooling.rows for pooling in grid):
        kinds = zip(*(pooled_models(of_part, n) for of_part in fits), strict=True)
        single, mixture = (
            np.concatenate([log_densities(models, rows.X) for models, rows in zip(kind, held_out, strict=True)])
            for kind in kinds
        )
        for pooling in (pooling for pooling in grid if pooling.rows == n):
            with np.errstate(divide="ignore"):
                both = np.logaddexp(np.log(pooling.single) + single, np.log(1 - pooling.single) + mixture)
            losses[pooling] = calibrated_loss(both, log_priors, y, weights)
    least = min(losses.values())
    return min((pooling for pooling in grid if losses[pooling] <= least + _SAME_LOSS), key=_unlike_untested)


def calibrated_loss(
    log_densities: FloatArray, log_priors: FloatArray, y: NDArray[np.intp], weights: FloatArray
) -> float:
    """Minus the mean log-probability of the classes of rows, nats, at the best power of the densities.

    Densities of many columns are far too sure of themselves. Without the power, what makes them less so would win over
    what tells classes apart.
    """

    def loss(log_power: float) -> float:
        scores = np.exp(log_power) * log_densities + log_priors
        return float(np.average(logsumexp(scores, axis=1) - scores[np.arange(len(y)), y], weights=weights))

    return float(minimize_scalar(loss, bounds=_LOG_POWERS, method="bounded").fun)


def _unlike_untested(pooling: Pooling) -> tuple[bool, bool]:
    """What is least of the one that is chosen where no row can be held out, or where it is all the same."""
    return pooling.rows != _UNTESTED.rows, pooling.single != _UNTESTED.single
