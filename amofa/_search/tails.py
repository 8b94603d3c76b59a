"""Degrees of freedom of t components, between those of the families that a search tries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from amofa._data.row_chunks import PosteriorBlock
from amofa._data.row_source import RowSource
from amofa._em.outcome import Outcome
from amofa._em.tails import least_degrees_of_freedom
from amofa._parameters import Parameters
from amofa._typing import FloatArray

# Bounds of what is found: a t distribution with 2 degrees of freedom has no variance, and one with many is normal.
_LEAST, _MOST = 2.1, 1000.0
# A step changes degrees of freedom by at most this factor.
_LONGEST_STEP = 3.0
_MOST_STEPS = 20
# Steps that promise less than this, in nats, are not worth an EM run.
_LEAST_PROMISE = 0.01


class Slopes(NamedTuple):
    """Derivatives of the log-likelihood by log degrees of freedom, and the information on them."""

    slopes: FloatArray  # (K,)
    information: FloatArray  # (K,) expected, positive


def with_found_tails(
    samples: RowSource, start: Outcome, em: Callable[[Parameters], Outcome], *, one_each: bool
) -> Outcome:
    """Find degrees of freedom by Fisher's scoring, with EM after each step; the result costs no more than the start.

    All components get the same, or one each. At a maximum, EM keeps the other parameters where the derivative by them
    is zero, so that the slope is that of the profile likelihood.
    """
    best = start
    for _ in range(_MOST_STEPS):
        slopes = tail_slopes(samples, best.parameters)
        step = _step(best.parameters, samples.total_weight, slopes, one_each=one_each)
        if step is None:
            break
        fit = em(best.parameters.with_tails(best.parameters.degrees_of_freedom * np.exp(step)))
        if not fit.cost < best.cost:
            break
        best = fit
    return best


def _step(parameters: Parameters, n: float, found: Slopes, *, one_each: bool) -> FloatArray | None:
    """Return the change of log degrees of freedom, (K,), with n rows in all; None if it promises too little."""
    slopes, information = found
    least = least_degrees_of_freedom(n * parameters.weights, np.array(parameters.n_factors), parameters.n_features)
    if not one_each:
        slopes, information = np.full_like(slopes, slopes.sum()), np.full_like(slopes, information.sum())
        least = np.full_like(least, least.max())
    longest, now = np.log(_LONGEST_STEP), np.log(parameters.degrees_of_freedom)
    step = np.clip(slopes / information, -longest, longest)
    step = np.clip(now + step, np.log(np.clip(least, _LEAST, _MOST)), np.log(_MOST)) - now
    promise = 0.5 * slopes * step
    return step if (promise.sum() if one_each else promise[0]) > _LEAST_PROMISE else None


def tail_slopes(samples: RowSource, parameters: Parameters) -> Slopes:
    """Return slopes and information, by one pass over the rows; all components are t ones.

    With u = (nu + d) / (nu + m), d log t / d nu = 1/2 (psi((nu + d)/2) - psi(nu/2) - log((nu + d)/nu) + 1 + log u - u);
    the information is that of Lange, Little & Taylor (1989).
    """
    # Imported late, since that takes as long as importing NumPy.
    from scipy.special import digamma, polygamma

    n_features = parameters.n_features
    sizes = np.arange(n_features + 1) if not samples.is_complete else np.array([n_features])

    def of_rows(block: PosteriorBlock) -> FloatArray:
        assert block.spreads is not None
        h = block.responsibilities if block.row_weights is None else block.responsibilities * block.row_weights
        # Rows that are infinitely far away belong to no component.
        with np.errstate(invalid="ignore"):
            parts = np.where(h > 0, h * (np.log(block.spreads) + 1.0 / block.spreads), 0.0)
        # By numbers of cells.
        found = np.zeros((2, len(h), n_features + 1))
        if block.n_seen is None:
            found[:, :, -1] = h.sum(axis=1), parts.sum(axis=1)
        else:
            for each, values in zip(found, (h, parts), strict=True):
                np.add.at(each.T, block.n_seen, values.T)
        return found

    counts, parts = samples.sum_over_posterior(parameters, of_rows, with_spreads=True)
    # A row has the t distribution of the cells that it has.
    counts, parts, d = counts[:, sizes], parts.sum(axis=1), sizes[:, None]
    nu = parameters.degrees_of_freedom
    constant = digamma((nu + d) / 2) - digamma(nu / 2) - np.log1p(d / nu) + 1.0
    information = 0.5 * (polygamma(1, nu / 2) - polygamma(1, (nu + d) / 2))
    information -= d * (nu + d + 4) / (nu * (nu + d) * (nu + d + 2))
    slopes = 0.5 * nu * ((counts * constant.T).sum(axis=1) - parts)
    return Slopes(slopes, 0.5 * nu**2 * (counts * information.T).sum(axis=1))
