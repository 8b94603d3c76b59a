"""The variational posterior of a mixture of factor analysers: its updates and its bound, from second moments only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from amofa._data.row_chunks import Moments
from amofa._kernels import _variational, _variational_update
from amofa._parameters import Parameters
from amofa._typing import FloatArray

# Priors as in Ghahramani & Beal's own program, in columns of unit variance: Dirichlet(ALPHA / K) over the weights, and
# Gamma(SHAPE, RATE) over the precision of each column of loadings.
ALPHA = 1.0
SHAPE = 1.0
RATE = 1.0


@dataclass(frozen=True)
class Posterior:
    """Q(loadings, means), Q(precisions) and Q(weights) of K components, with the point estimates.

    Row r of a component's [mean, loadings] is Gaussian with its own covariance G_r; only the sums over r that are
    needed are kept. All components have arrays for q columns; those from ``n_live[k]`` on are switched off, and zero.

    Attributes
    ----------
    n_live : (K,) intp
    means, loadings : (K, d), (K, q, d) float64
        Posterior means.
    mean_variances : (K, d) float64
        Posterior variances of the means, G_r[0, 0].
    weighted, plain : (K, 1 + q, 1 + q) float64
        sum_r G_r / noise_r and sum_r G_r; index 0 is the mean.
    log_determinants : (K,) float64
        sum_r log |G_r|.
    rates : (K, q) float64
        Rates of the Gamma posterior of the columns' precisions, whose shape is SHAPE + d / 2.
    dirichlet : (K,) float64
    noise : (K, d) float64
        Uniquenesses, a point estimate; the same for all components if they are shared.
    center, spread : (d,) float64
        Mean and variance of the prior of the means: point estimates.
    """

    n_live: NDArray[np.intp]
    means: FloatArray
    loadings: FloatArray
    mean_variances: FloatArray
    weighted: FloatArray
    plain: FloatArray
    log_determinants: FloatArray
    rates: FloatArray
    dirichlet: FloatArray
    noise: FloatArray
    center: FloatArray
    spread: FloatArray

    @property
    def live(self) -> NDArray[np.bool_]:
        """Return a mask of the columns that are not switched off, (K, q)."""
        result: NDArray[np.bool_] = np.arange(self.loadings.shape[1]) < self.n_live[:, None]
        return result

    @property
    def n_components(self) -> int:
        return len(self.means)

    @property
    def shape(self) -> float:
        """Return the shape of the Gamma posterior of the columns' precisions."""
        return SHAPE + 0.5 * float(self.means.shape[1])


# ---- start -----------------------------------------------------------------------------------------------------------


def principal_axes_of_noise(moments: Moments, noise: FloatArray, n_factors: int) -> tuple[FloatArray, FloatArray]:
    """Return the first eigenvalues (K, q), and eigenvectors as rows (K, q, d), of Psi^-1/2 S Psi^-1/2 by component."""
    root = np.sqrt(noise)
    values, vectors = np.linalg.eigh(moments.covariances / (root[:, :, None] * root[:, None, :]))
    return values[:, ::-1][:, :n_factors], vectors[:, :, ::-1][:, :, :n_factors].swapaxes(1, 2)


def start(
    moments: Moments,
    noise: FloatArray,
    axes: tuple[FloatArray, FloatArray],
    center: FloatArray,
    spread: FloatArray,
) -> Posterior:
    """Return a posterior without spread, at the maximum-likelihood loadings given the noise, with all columns on.

    Parameters
    ----------
    moments : Moments
    noise : (K, d) float64
    axes : (K, q) and (K, q, d) float64
        See `principal_axes_of_noise`.
    center, spread : (d,) float64
    """
    K, d = moments.means.shape
    values, vectors = axes
    q = values.shape[1]
    size = np.sqrt(np.maximum(values - 1.0, _LEAST_SIGNAL))
    loadings = np.ascontiguousarray(vectors * size[:, :, None] * np.sqrt(noise)[:, None, :])
    return Posterior(
        n_live=np.full(K, q, dtype=np.intp),
        means=moments.means.copy(),
        loadings=loadings,
        mean_variances=np.zeros((K, d)),
        weighted=np.zeros((K, 1 + q, 1 + q)),
        plain=np.zeros((K, 1 + q, 1 + q)),
        log_determinants=np.zeros(K),
        rates=RATE + 0.5 * np.einsum("kqd,kqd->kq", loadings, loadings),
        dirichlet=ALPHA / K + moments.soft_counts,
        noise=noise,
        center=center,
        spread=spread,
    )


# Smallest initial ratio of signal to noise of a column: the noise may fall later.
_LEAST_SIGNAL = 0.1


# ---- the mixture whose E-step is that of the posterior ---------------------------------------------------------------


def effective_mixture(posterior: Posterior) -> Parameters:
    """Return the factor analysers whose log joint densities are the expected ones, with factors integrated out.

    With h(x) the exponent of E_Q[log p(y, x | loadings, mean)], a quadratic form in the factors x with the matrix
    M + Lambda' Psi^-1 Lambda, M = I + sum_r G_r[x, x] / noise_r, the integral of exp(h) over x is a Gaussian density of
    y: its loadings are Lambda M^-1/2, its mean is mu - Lambda M^-1 g with g = sum_r G_r[x, 0] / noise_r. The remaining
    factor goes into the weights, which sum to less than 1.
    """
    K, q, d = posterior.loadings.shape
    parameters = Parameters(d, (q,) * K)
    means, loadings, log_weights = _effective(posterior)
    parameters.loadings[:] = loadings.reshape(K * q, d)
    parameters.means[:] = means
    parameters.uniquenesses[:] = posterior.noise
    parameters.weights[:] = np.exp(log_weights)
    return parameters


def _effective(posterior: Posterior) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the means, loadings and log weights of the effective mixture."""
    u = posterior.dirichlet
    means, loadings, log_factors = np.empty_like(posterior.means), np.empty_like(posterior.loadings), np.empty(len(u))
    _variational.effective_mixture(posterior, means, loadings, log_factors)
    return means, loadings, digamma(u) - digamma(u.sum()) + log_factors


# ---- updates ---------------------------------------------------------------------------------------------------------


def update(
    posterior: Posterior, moments: Moments, floor: FloatArray, *, noise_step: float = 1.0, shares_noise: bool = True
) -> Posterior:
    """Update all parts of the posterior except Q(labels), whose moments are given, one after the other.

    The order is: factors, loadings and means, noise, the basis of the factors, precisions, prior of the means,
    weights. No step lowers the bound.

    Notes
    -----
    The precision matrix of row r is diag(v_r, nu) + C / noise_r, C = N E[(1, x)(1, x)'], so one eigen-decomposition of
    nu^-1/2 C nu^-1/2 serves all rows: the cost is O(K (q^3 + d q^2 + d^2 q)), where d inversions would take
    O(K d q^3). A column that is switched off has prior variance 0, and stays off.
    """
    K, q, d = posterior.loadings.shape
    updated = Posterior(
        n_live=posterior.n_live,
        means=np.empty((K, d)),
        loadings=np.empty((K, q, d)),
        mean_variances=np.empty((K, d)),
        weighted=np.empty((K, 1 + q, 1 + q)),
        plain=np.empty((K, 1 + q, 1 + q)),
        log_determinants=np.empty(K),
        rates=np.empty((K, q)),
        dirichlet=ALPHA / K + moments.soft_counts,
        noise=np.empty((K, d)),
        center=np.empty(d),
        spread=np.empty(d),
    )
    _variational_update.update(
        posterior,
        moments.soft_counts,
        moments.means,
        moments.covariances,
        floor,
        posterior.shape,
        RATE,
        noise_step,
        shares_noise,
        updated,
    )
    return updated


# ---- the bound -------------------------------------------------------------------------------------------------------


def divergence(posterior: Posterior) -> float:
    """Return KL(Q || prior) of weights, loadings, means and precisions in nats: what the bound takes off."""
    return _weights_divergence(posterior.dirichlet) + float(_component_divergences(posterior).sum())


def _weights_divergence(u: FloatArray) -> float:
    prior, total = ALPHA / len(u), float(u.sum())
    normaliser = gammaln(total) - gammaln(u).sum() - gammaln(ALPHA) + len(u) * gammaln(prior)
    return float(normaliser + ((u - prior) * (digamma(u) - digamma(total))).sum())


def _component_divergences(posterior: Posterior) -> FloatArray:
    """Return KL(Q || prior) of the loadings, means and precisions of each component in nats, (K,)."""
    shape = posterior.shape
    mean_log = float(digamma(shape))
    of_precision = (shape - SHAPE) * mean_log - float(gammaln(shape)) + float(gammaln(SHAPE))
    result = np.empty(posterior.n_components)
    _variational.component_divergences(posterior, shape, mean_log, of_precision, SHAPE, RATE, result)
    return result


def component_bounds(posterior: Posterior, moments: Moments) -> FloatArray:
    """Return the parts of the bound that belong to each component while Q(labels) is fixed, in nats, (K,)."""
    means, loadings, log_weights = _effective(posterior)
    log_densities = np.empty(len(means))
    _variational.expected_log_densities(
        means, loadings, posterior.noise, moments.means, moments.covariances, log_densities
    )
    result: FloatArray = moments.soft_counts * (log_weights + log_densities) - _component_divergences(posterior)
    return result


def bound_of_moments(posterior: Posterior, moments: Moments) -> float:
    """Return the bound minus the entropy of Q(labels) and constants, in nats: the part that changes at fixed labels."""
    return float(component_bounds(posterior, moments).sum()) - _weights_divergence(posterior.dirichlet)


# ---- other components, other columns ---------------------------------------------------------------------------------

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
