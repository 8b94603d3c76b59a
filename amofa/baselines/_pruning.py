"""A variational posterior with fewer components, or with fewer columns of loadings where that raises the bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Moments
from amofa._typing import FloatArray
from amofa.baselines._variational import Posterior, component_bounds, update

# Arrays with one entry for each component.
_OF_COMPONENTS = (
    "n_live",
    "means",
    "loadings",
    "mean_variances",
    "weighted",
    "plain",
    "log_determinants",
    "rates",
    "dirichlet",
    "noise",
)


def selected(posterior: Posterior, moments: Moments, kept: NDArray[np.bool_]) -> tuple[Posterior, Moments]:
    """Return the posterior of the selected components."""
    smaller = replace(posterior, **{name: getattr(posterior, name)[kept] for name in _OF_COMPONENTS})
    return smaller, Moments(moments.soft_counts[kept], moments.means[kept], moments.covariances[kept])


def switched_off(posterior: Posterior, moments: Moments, floor: FloatArray) -> Posterior:
    """Switch off columns while that raises the bound; return the posterior itself if there are none.

    The columns of each component with the least signal are tried, first half of them, then a quarter, and so on.
    """
    current, changed = _by_signal(posterior), False
    bounds = component_bounds(current, moments)
    numbers = np.maximum(current.n_live // 2, 1)
    while (numbers > 0).any():
        trial = _without_last(current, np.minimum(numbers, current.n_live))
        trial = _by_signal(update(trial, moments, floor, noise_step=0.0))
        trial = replace(trial, center=current.center, spread=current.spread)
        trial_bounds = component_bounds(trial, moments)
        better = (trial_bounds > bounds) & (numbers > 0) & (current.n_live > 0)
        if better.any():
            changed = True
            current = _merged(current, trial, better)
            bounds = np.where(better, trial_bounds, bounds)
        numbers = np.where(better, numbers, numbers // 2)
        numbers = np.minimum(numbers, current.n_live)
    if not changed:
        return posterior
    return _compressed(current)


def _by_signal(posterior: Posterior) -> Posterior:
    """Sort the columns by their ratio of signal to noise, the live ones with the largest first."""
    signal = (posterior.loadings**2 / posterior.noise[:, None, :]).sum(axis=2)
    order = np.argsort(np.where(posterior.live, -signal, np.inf), axis=1, kind="stable")
    k = np.arange(len(order))[:, None]
    whole = np.concatenate([np.zeros((len(order), 1), dtype=np.intp), 1 + order], axis=1)
    return replace(
        posterior,
        loadings=posterior.loadings[k, order],
        rates=posterior.rates[k, order],
        weighted=posterior.weighted[k[:, :, None], whole[:, :, None], whole[:, None, :]],
        plain=posterior.plain[k[:, :, None], whole[:, :, None], whole[:, None, :]],
    )


def _without_last(posterior: Posterior, numbers: NDArray[np.intp]) -> Posterior:
    """Switch off the given number of last columns of each component."""
    fewer = replace(posterior, n_live=posterior.n_live - numbers)
    live = fewer.live
    whole = np.concatenate([np.ones((len(live), 1), dtype=bool), live], axis=1)
    both = whole[:, :, None] & whole[:, None, :]
    return replace(
        fewer,
        loadings=np.where(live[:, :, None], posterior.loadings, 0.0),
        weighted=np.where(both, posterior.weighted, 0.0),
        plain=np.where(both, posterior.plain, 0.0),
    )


def _merged(one: Posterior, other: Posterior, from_other: NDArray[np.bool_]) -> Posterior:
    """Replace some components by those of another posterior."""

    def chosen(name: str) -> Any:
        first, second = getattr(one, name), getattr(other, name)
        return np.where(from_other.reshape((-1,) + (1,) * (first.ndim - 1)), second, first)

    return replace(one, **{name: chosen(name) for name in _OF_COMPONENTS})


def _compressed(posterior: Posterior) -> Posterior:
    """Remove columns that are switched off in all components."""
    q = int(posterior.n_live.max())
    return replace(
        posterior,
        loadings=posterior.loadings[:, :q].copy(),
        rates=posterior.rates[:, :q].copy(),
        weighted=posterior.weighted[:, : 1 + q, : 1 + q].copy(),
        plain=posterior.plain[:, : 1 + q, : 1 + q].copy(),
    )
