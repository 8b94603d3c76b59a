"""The variational posterior of a mixture of factor analysers: its updates and its bound, from second moments alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from amofa.parameters import FloatArray, Parameters
from amofa.samples import Moments

# Priors as in Ghahramani & Beal's own program, in columns of unit variance: Dirichlet(ALPHA / K) over the weights, and
# Gamma(SHAPE, RATE) over the precision of each column of loadings.
ALPHA = 1.0
SHAPE = 1.0
RATE = 1.0


@dataclass(frozen=True)
class Posterior:
    """Q(loadings, means), Q(precisions) and Q(weights) of K components, with the point estimates.

    Row r of a component's [mean, loadings] is Gaussian with a covariance G_r of its own; of these only the sums over r
    are kept that anything needs. All components have arrays for q columns; those from ``n_live[k]`` on are switched
    off, and zero.

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
        Of the Gamma posterior of the columns' precisions, whose shape is SHAPE + d / 2.
    dirichlet : (K,) float64
    noise : (K, d) float64
        Uniquenesses, a point estimate; those of all components are the same where they are shared.
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
        """Columns that are not switched off, (K, q)."""
        result: NDArray[np.bool_] = np.arange(self.loadings.shape[1]) < self.n_live[:, None]
        return result

    @property
    def n_components(self) -> int:
        return len(self.means)

    @property
    def shape(self) -> float:
        """Of the Gamma posterior of the columns' precisions."""
        return SHAPE + 0.5 * float(self.means.shape[1])


# ---- start -----------------------------------------------------------------------------------------------------------


def principal_axes_of_noise(moments: Moments, noise: FloatArray, n_factors: int) -> tuple[FloatArray, FloatArray]:
    """The first eigenvalues (K, q), and eigenvectors as rows (K, q, d), of Psi^-1/2 S Psi^-1/2 of each component."""
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
    """A posterior without spread, at the loadings of maximum likelihood given the noise, all columns on.

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
    loadings = vectors * size[:, :, None] * np.sqrt(noise)[:, None, :]
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


# A column that the noise at hand leaves nothing for starts with this ratio of signal to noise: the noise may fall.
_LEAST_SIGNAL = 0.1


# ---- the mixture whose E-step is that of the posterior ---------------------------------------------------------------


def effective_mixture(posterior: Posterior) -> Parameters:
    """Factor analysers whose log joint densities are the expected ones, factors integrated out.

    With h(x) the exponent of E_Q[log p(y, x | loadings, mean)], a quadratic form in the factors x with the matrix
    M + Lambda' Psi^-1 Lambda, M = I + sum_r G_r[x, x] / noise_r, the integral of exp(h) over x is a Gaussian density of
    y: its loadings are Lambda M^-1/2, its mean is mu - Lambda M^-1 g with g = sum_r G_r[x, 0] / noise_r. What is left
    over goes into the weights, which sum to less than 1.
    """
    K, q, d = posterior.loadings.shape
    parameters = Parameters(d, (q,) * K)
    lower = np.asarray(np.linalg.cholesky(_inner(posterior)), dtype=np.float64)
    g = posterior.weighted[:, 1:, 0]
    both = np.linalg.solve(lower, np.concatenate([posterior.loadings, g[:, :, None]], axis=2))
    loadings, g = both[:, :, :-1], both[:, :, -1]
    parameters.loadings[:] = loadings.reshape(K * q, d)
    parameters.means[:] = posterior.means - np.einsum("kqd,kq->kd", loadings, g)
    parameters.uniquenesses[:] = posterior.noise
    parameters.weights[:] = np.exp(_log_weights(posterior, lower, g))
    return parameters


def _inner(posterior: Posterior) -> FloatArray:
    """M = I + sum_r G_r[x, x] / noise_r, (K, q, q)."""
    inner: FloatArray = posterior.weighted[:, 1:, 1:] + np.eye(posterior.loadings.shape[1])
    return inner


def _log_weights(posterior: Posterior, lower: FloatArray, g: FloatArray) -> FloatArray:
    u = posterior.dirichlet
    lost = posterior.weighted[:, 0, 0] - np.einsum("kq,kq->k", g, g)
    lost += 2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    result: FloatArray = digamma(u) - digamma(u.sum()) - 0.5 * lost
    return result


# ---- updates ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FactorMoments:
    """Moments of Q(factors), per unit of responsibility; y are rows about the weighted mean of their component."""

    first: FloatArray  # (K, q) E[x]
    second: FloatArray  # (K, q, q) E[x x']
    cross: FloatArray  # (K, q, d) E[x y']


def factor_moments(posterior: Posterior, moments: Moments) -> FactorMoments:
    """Update Q(factors). The covariance of a row's mean and loadings counts, which is often left out."""
    weighted_loadings = posterior.loadings / posterior.noise[:, None, :]
    precision = _inner(posterior) + weighted_loadings @ posterior.loadings.swapaxes(1, 2)
    covariance = np.linalg.inv(precision)
    scores = covariance @ weighted_loadings
    difference = moments.means - posterior.means
    first = np.einsum("kqd,kd->kq", scores, difference)
    first -= np.einsum("kqr,kr->kq", covariance, posterior.weighted[:, 1:, 0])
    cross = scores @ moments.covariances
    second = covariance + cross @ scores.swapaxes(1, 2) + first[:, :, None] * first[:, None, :]
    return FactorMoments(first, second, cross)


def update(
    posterior: Posterior, moments: Moments, floor: FloatArray, *, noise_step: float = 1.0, shares_noise: bool = True
) -> Posterior:
    """Update all of the posterior but Q(labels), whose moments are given, one part after the other.

    In this order: factors, loadings and means, noise, the basis of the factors, precisions, prior of the means,
    weights. Each step raises the bound, or leaves it.

    Notes
    -----
    The precision matrix of row r is diag(v_r, nu) + C / noise_r, C = N E[(1, x)(1, x)'], so one eigen-decomposition of
    nu^-1/2 C nu^-1/2 serves all rows: the cost is O(K (q^3 + d q^2 + d^2 q)) where d inversions would take
    O(K d q^3). A column that is switched off has the prior variance 0 and stays so by itself.
    """
    d = posterior.means.shape[1]
    factors = factor_moments(posterior, moments)
    count = moments.soft_counts[:, None]
    deviation = np.where(posterior.live, np.sqrt(posterior.rates / posterior.shape), 0.0)
    # In this basis the second moments of the factors are diagonal, and the prior precision is 1.
    scaled = (count * deviation)[:, :, None] * factors.second * deviation[:, None, :]
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(values, 0.0)
    basis = deviation[:, :, None] * vectors
    first = np.einsum("kqb,kq->kb", basis, factors.first) * count
    cross = (basis.swapaxes(1, 2) @ factors.cross) * count[:, :, None]

    precision = 1.0 / posterior.noise
    by_row = precision[:, None, :]
    shrunk = 1.0 / (1.0 + values[:, :, None] * by_row)  # (K, q, d)
    coupling = first[:, :, None] * shrunk
    # Conditional precision of a row's mean given nothing of its loadings: the Schur complement.
    total = count * precision - precision**2 * np.einsum("kq,kqd->kd", first, coupling)
    mean_variances = 1.0 / (1.0 / posterior.spread + np.maximum(total, 0.0))
    pull = (posterior.center - moments.means) / posterior.spread
    step = mean_variances * (pull - precision**2 * np.einsum("kqd,kqd->kd", coupling, cross))
    loadings = by_row * shrunk * (cross - first[:, :, None] * step[:, None, :])

    # Sums of G_r over rows need the noise, which needs G_r: the noise comes first.
    noise = posterior.noise
    if noise_step > 0.0:
        best = _squares(moments, values, first, cross, shrunk, coupling, precision, mean_variances, step, loadings)
        best = best.sum(axis=0) / count.sum() if shares_noise else best / count
        noise = np.maximum(noise * (np.maximum(best, floor) / noise) ** noise_step, floor)
    weighted = _sum_of_covariances(shrunk, coupling, precision, mean_variances, 1.0 / noise)
    plain = _sum_of_covariances(shrunk, coupling, precision, mean_variances, np.ones_like(noise))
    log_determinants = np.log(mean_variances).sum(axis=1) + np.log(shrunk).sum(axis=(1, 2))
    log_determinants += 2.0 * d * np.log(np.where(posterior.live, deviation, 1.0)).sum(axis=1)

    means = moments.means + step
    turned, rates = _principal_basis(basis, plain, loadings)
    center, spread = posterior.center, posterior.spread
    if posterior.n_components > 1:
        center = means.mean(axis=0)
        spread = (mean_variances + (means - center) ** 2).mean(axis=0)
    return Posterior(
        n_live=posterior.n_live,
        means=means,
        loadings=turned @ loadings,
        mean_variances=mean_variances,
        weighted=_turned(weighted, turned),
        plain=_turned(plain, turned),
        log_determinants=log_determinants,
        rates=rates,
        dirichlet=ALPHA / posterior.n_components + moments.soft_counts,
        noise=noise,
        center=center,
        spread=spread,
    )


def _squares(
    moments: Moments,
    values: FloatArray,
    first: FloatArray,
    cross: FloatArray,
    shrunk: FloatArray,
    coupling: FloatArray,
    precision: FloatArray,
    mean_variances: FloatArray,
    step: FloatArray,
    loadings: FloatArray,
) -> FloatArray:
    """Expected squared residuals of each component and column, summed over rows, (K, d)."""
    count = moments.soft_counts
    squares = count[:, None] * (np.diagonal(moments.covariances, axis1=1, axis2=2) + step**2)
    explained = cross - first[:, :, None] * step[:, None, :]
    squares -= 2.0 * np.einsum("kqd,kqd->kd", loadings, explained)
    squares += np.einsum("kq,kqd->kd", values, loadings**2 + shrunk)
    # tr(G_r C) of the part of G_r that comes from the mean.
    uncertain = count[:, None] - 2.0 * precision * np.einsum("kq,kqd->kd", first, coupling)
    uncertain += precision**2 * np.einsum("kq,kqd->kd", values, coupling**2)
    squares += mean_variances * uncertain
    return np.asarray(squares, dtype=np.float64)


def _sum_of_covariances(
    shrunk: FloatArray, coupling: FloatArray, precision: FloatArray, mean_variances: FloatArray, row_weights: FloatArray
) -> FloatArray:
    """sum_r row_weights_r G_r, (K, 1 + q, 1 + q), in the basis of the update."""
    K, q, _ = shrunk.shape
    of_means = row_weights * mean_variances
    pulled = precision[:, None, :] * coupling
    result = np.empty((K, 1 + q, 1 + q))
    result[:, 0, 0] = of_means.sum(axis=1)
    result[:, 1:, 0] = result[:, 0, 1:] = -np.einsum("kqd,kd->kq", pulled, of_means)
    result[:, 1:, 1:] = (pulled * of_means[:, None, :]) @ pulled.swapaxes(1, 2)
    result[:, np.arange(1, 1 + q), np.arange(1, 1 + q)] += np.einsum("kqd,kd->kq", shrunk, row_weights)
    return result


def _principal_basis(basis: FloatArray, plain: FloatArray, loadings: FloatArray) -> tuple[FloatArray, FloatArray]:
    """From the basis of the update to that in which E[Lambda' Lambda] is diagonal and falling, and the new rates.

    A rotation of the factors changes nothing else in the bound than the logs of the rates, and of all rotations this
    one makes their sum the least (the eigenvalues of a matrix majorise its diagonal): columns differ as much as they
    can, and those that are not needed go. Without it columns stay on for thousands of sweeps.
    """
    second = basis @ (plain[:, 1:, 1:] + loadings @ loadings.swapaxes(1, 2)) @ basis.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(second)
    turned = vectors[:, :, ::-1].swapaxes(1, 2) @ basis
    return turned, RATE + 0.5 * np.maximum(values[:, ::-1], 0.0)


def _turned(covariance: FloatArray, basis: FloatArray) -> FloatArray:
    """Second moments of (mean, loadings) with the loadings in another basis."""
    result = covariance.copy()
    result[:, 1:, 0] = result[:, 0, 1:] = np.einsum("kqb,kb->kq", basis, covariance[:, 1:, 0])
    result[:, 1:, 1:] = basis @ covariance[:, 1:, 1:] @ basis.swapaxes(1, 2)
    return result


# ---- the bound -------------------------------------------------------------------------------------------------------


def divergence(posterior: Posterior) -> float:
    """KL(Q || prior) of weights, loadings, means and precisions, nats: the bound is a log-likelihood less this."""
    return _weights_divergence(posterior.dirichlet) + float(_component_divergences(posterior).sum())


def _weights_divergence(u: FloatArray) -> float:
    prior, total = ALPHA / len(u), float(u.sum())
    normaliser = gammaln(total) - gammaln(u).sum() - gammaln(ALPHA) + len(u) * gammaln(prior)
    return float(normaliser + ((u - prior) * (digamma(u) - digamma(total))).sum())


def _component_divergences(posterior: Posterior) -> FloatArray:
    """KL(Q || prior) of loadings, means and precisions of each component, nats, (K,)."""
    d = posterior.means.shape[1]
    shape, rates = posterior.shape, posterior.rates
    of_means = np.log(posterior.spread) - 1.0
    of_means = of_means + (posterior.mean_variances + (posterior.means - posterior.center) ** 2) / posterior.spread
    squares = np.einsum("kqd,kqd->kq", posterior.loadings, posterior.loadings)
    squares += np.diagonal(posterior.plain, axis1=1, axis2=2)[:, 1:]
    log_precisions = digamma(shape) - np.log(rates)
    of_loadings = shape / rates * squares - d * (1.0 + log_precisions)
    of_precisions = (shape - SHAPE) * digamma(shape) - gammaln(shape) + gammaln(SHAPE)
    of_precisions = of_precisions + SHAPE * np.log(rates / RATE) + shape * (RATE - rates) / rates
    of_columns = np.where(posterior.live, 0.5 * of_loadings + of_precisions, 0.0)
    result: FloatArray = 0.5 * (of_means.sum(axis=1) - posterior.log_determinants) + of_columns.sum(axis=1)
    return result


def component_bounds(posterior: Posterior, moments: Moments) -> FloatArray:
    """The parts of the bound that belong to each component while Q(labels) stays, nats, (K,)."""
    q = posterior.loadings.shape[1]
    lower = np.asarray(np.linalg.cholesky(_inner(posterior)), dtype=np.float64)
    g = posterior.weighted[:, 1:, 0]
    both = np.linalg.solve(lower, np.concatenate([posterior.loadings, g[:, :, None]], axis=2))
    loadings, g = both[:, :, :-1], both[:, :, -1]
    difference = moments.means - posterior.means + np.einsum("kqd,kq->kd", loadings, g)
    spread = moments.covariances + difference[:, :, None] * difference[:, None, :]
    scaled = loadings / posterior.noise[:, None, :]
    capacitance = np.eye(q) + scaled @ loadings.swapaxes(1, 2)
    explained = np.linalg.solve(capacitance, scaled @ spread @ scaled.swapaxes(1, 2))
    quadratic = (np.diagonal(spread, axis1=1, axis2=2) / posterior.noise).sum(axis=1)
    quadratic = quadratic - np.trace(explained, axis1=1, axis2=2)
    log_determinant = np.linalg.slogdet(capacitance)[1]
    log_determinant = log_determinant + np.log(posterior.noise).sum(axis=1)
    log_density = _log_weights(posterior, lower, g) - 0.5 * (quadratic + log_determinant)
    result: FloatArray = moments.soft_counts * log_density - _component_divergences(posterior)
    return result


def bound_of_moments(posterior: Posterior, moments: Moments) -> float:
    """The bound less the entropy of Q(labels) and constants, nats: what changes while the responsibilities stay."""
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
    """Without the components that died."""
    smaller = replace(posterior, **{name: getattr(posterior, name)[kept] for name in _OF_COMPONENTS})
    return smaller, Moments(moments.soft_counts[kept], moments.means[kept], moments.covariances[kept])


def switched_off(posterior: Posterior, moments: Moments, floor: FloatArray) -> Posterior:
    """Switch off columns while that raises the bound; the posterior itself where none can go.

    Of each component the columns of least signal are tried, half of them first, then a quarter, and so on.
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
    """Columns in the order of their ratio of signal to noise, the live ones of largest first."""
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
    """So many fewer columns of each component."""
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
    """Some components of the other posterior in place of those of the one."""

    def chosen(name: str) -> Any:
        first, second = getattr(one, name), getattr(other, name)
        return np.where(from_other.reshape((-1,) + (1,) * (first.ndim - 1)), second, first)

    return replace(one, **{name: chosen(name) for name in _OF_COMPONENTS})


def _compressed(posterior: Posterior) -> Posterior:
    """Without columns that are off in all components."""
    q = int(posterior.n_live.max())
    return replace(
        posterior,
        loadings=posterior.loadings[:, :q],
        rates=posterior.rates[:, :q],
        weighted=posterior.weighted[:, : 1 + q, : 1 + q],
        plain=posterior.plain[:, : 1 + q, : 1 + q],
    )
