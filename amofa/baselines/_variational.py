"""The variational posterior of a mixture of factor analysers: its updates and its bound, from second moments only.

The model is that of Ghahramani & Beal (NIPS 12, 1999), the rotation of the factors that of Luttinen & Ilin
(Neurocomputing 73, 2010); docs/baselines.md has both. All components are computed together, in stacked arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from amofa._data.row_chunks import Moments
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
    u, weighted = posterior.dirichlet, posterior.weighted
    values, vectors = _eigh(weighted[:, 1:, 1:])
    values += 1.0
    root = (vectors / np.sqrt(values)[:, None, :]).swapaxes(1, 2)
    loadings, g = root @ posterior.loadings, root @ weighted[:, 1:, :1]
    means = posterior.means - (g * loadings).sum(axis=1)
    log_factors = -0.5 * (weighted[:, 0, 0] + (np.log(values) - g[:, :, 0] ** 2).sum(axis=1))
    return means, loadings, digamma(u) - digamma(u.sum()) + log_factors


def _eigh(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and eigenvectors of symmetric matrices.

    Raises
    ------
    FloatingPointError
        If they are not finite.
    """
    try:
        values, vectors = np.linalg.eigh(matrices)
    except np.linalg.LinAlgError:
        values, vectors = np.array(np.nan), matrices
    _check_finite(values)
    return values, vectors


def _check_finite(values: FloatArray) -> None:
    if not isfinite(values.sum()):
        raise FloatingPointError("the posterior of a component is not finite")


# ---- updates ---------------------------------------------------------------------------------------------------------


def update(
    posterior: Posterior, moments: Moments, floor: FloatArray, *, noise_step: float = 1.0, shares_noise: bool = True
) -> Posterior:
    """Update all parts of the posterior except Q(labels), whose moments are given, one after the other.

    The order is: factors, loadings and means, noise, the basis of the factors, precisions, prior of the means,
    weights. No step lowers the bound.

    Parameters
    ----------
    posterior : Posterior
    moments : Moments
        Of the rows under the responsibilities.
    floor : (d,) float64
        Smallest uniquenesses.
    noise_step : float
        Exponent of the ratio of new to old uniquenesses: 1 is the plain update, 0 keeps them.
    shares_noise : bool
        Whether all components have the same uniquenesses.

    Raises
    ------
    FloatingPointError
        If the moments or the posterior are not finite.

    Notes
    -----
    The precision matrix of row r is diag(v_r, nu) + C / noise_r, C = N E[(1, x)(1, x)'], so one eigen-decomposition of
    nu^-1/2 C nu^-1/2 serves all rows: the cost is O(K (q^3 + d q^2 + d^2 q)), where d inversions would take
    O(K d q^3). A column that is switched off has prior variance 0, and stays off.
    """
    prior = np.where(posterior.live, posterior.rates / posterior.shape, 0.0)
    found = _update_loadings(posterior, moments, prior, *_factor_moments(posterior, moments))
    noise = posterior.noise
    if noise_step != 0.0:
        counts, squares = moments.soft_counts[:, None], found.squares
        best = squares.sum(axis=0) / counts.sum() if shares_noise else squares / counts
        noise = np.maximum(noise * (np.maximum(best, floor) / noise) ** noise_step, floor)
    sums = found.sums_of_covariances(np.stack([np.ones_like(noise), 1.0 / noise]))
    turn, rates = _principal_basis(found, sums[0, :, 1:, 1:], prior == 0.0)
    plain, weighted = _turned(sums, turn)
    center, spread = posterior.center, posterior.spread
    if len(noise) > 1:  # One component says nothing about the prior of the means.
        center = found.means.mean(axis=0)
        spread = (found.mean_variances + (found.means - center) ** 2).mean(axis=0)
    return Posterior(
        n_live=posterior.n_live,
        means=found.means,
        loadings=turn @ found.loadings,
        mean_variances=found.mean_variances,
        weighted=weighted,
        plain=plain,
        log_determinants=found.log_determinants,
        rates=rates,
        dirichlet=ALPHA / len(noise) + moments.soft_counts,
        noise=noise,
        center=center,
        spread=spread,
    )


def _factor_moments(posterior: Posterior, moments: Moments) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E[x] (K, q), E[x x'] (K, q, q) and E[x y'] (K, q, d) of the rows; y is about their mean.

    Q(x) has the covariance matrix S = (I + sum_r E[Lambda_r Lambda_r'] / noise_r)^-1 and, with B = S Lambda' Psi^-1 and
    g = sum_r G_r[x, 0] / noise_r, the mean B (y - mu) - S g.
    """
    q = posterior.loadings.shape[1]
    scaled = posterior.loadings / posterior.noise[:, None, :]
    precisions = np.eye(q) + scaled @ posterior.loadings.swapaxes(1, 2) + posterior.weighted[:, 1:, 1:]
    S = np.linalg.inv(precisions)
    B = S @ scaled
    shift = (moments.means - posterior.means)[:, :, None]
    first = B @ shift - S @ posterior.weighted[:, 1:, :1]
    cross = B @ moments.covariances
    return first[:, :, 0], S + cross @ B.swapaxes(1, 2) + first * first.swapaxes(1, 2), cross


@dataclass(frozen=True)
class _Conditional:
    """Q(loadings, means) in a basis that makes E[x x'] diagonal and the prior variances of the loadings 1.

    There the covariance of a row of [mean, loadings] is G_r = s_r (1, t_r)(1, t_r)' + diag(0, h_r): s_r is the variance
    of the mean, t_r and h_r are the slopes and variances of the loadings given the mean.

    Attributes
    ----------
    axes : (K, q, q) float64
        The basis, an axis in each row; zero in the columns that are switched off.
    means, mean_variances : (K, d) float64
    loadings, slopes, variances : (K, q, d) float64
    log_determinants : (K,) float64
        sum_r log |G_r| in the posterior's own basis.
    squares : (K, d) float64
        Sums over rows of the expected squared residuals.
    """

    axes: FloatArray
    means: FloatArray
    mean_variances: FloatArray
    loadings: FloatArray
    slopes: FloatArray
    variances: FloatArray
    log_determinants: FloatArray
    squares: FloatArray

    def sums_of_covariances(self, row_weights: FloatArray) -> FloatArray:
        """Return sum_r w_r G_r, (m, K, 1 + q, 1 + q), for m sets of weights w, (m, K, d)."""
        z = np.concatenate([np.ones_like(self.means)[:, None, :], self.slopes], axis=1)
        result: FloatArray = ((row_weights * self.mean_variances)[:, :, None, :] * z) @ z.swapaxes(1, 2)
        np.einsum("mkqq->mkq", result)[:, :, 1:] += (self.variances @ row_weights[..., None])[..., 0]
        return result


def _update_loadings(
    posterior: Posterior,
    moments: Moments,
    prior: FloatArray,
    first: FloatArray,
    second: FloatArray,
    cross: FloatArray,
) -> _Conditional:
    """Update Q(loadings, means), given the prior variances of the loadings and the moments of the factors."""
    counts, precision, root = moments.soft_counts[:, None], 1.0 / posterior.noise, np.sqrt(prior)
    values, vectors = _eigh(counts[:, :, None] * root[:, :, None] * second * root[:, None, :])
    values = np.maximum(values, 0.0)
    axes = vectors.swapaxes(1, 2) * root[:, None, :]
    # N E[x] and N E[x y'] in the basis, where E[(1, x)(1, x)'] has an arrow's form.
    x = counts * (axes @ first[:, :, None])[:, :, 0]
    xy = counts[:, :, None] * (axes @ cross)

    variances = 1.0 / (1.0 + values[:, :, None] * precision[:, None, :])
    gains = variances * precision[:, None, :]
    slopes = -x[:, :, None] * gains
    # The Schur complement: the precision of the mean, with the loadings integrated out.
    remaining = counts + np.einsum("kq,kqd->kd", x, slopes)
    mean_variances = 1.0 / (1.0 / posterior.spread + np.maximum(precision * remaining, 0.0))
    pull = (posterior.center - moments.means) / posterior.spread + precision * (slopes * xy).sum(axis=1)
    shift = mean_variances * pull
    explained = xy - x[:, :, None] * shift[:, None, :]
    loadings = gains * explained

    squares = counts * (np.einsum("kdd->kd", moments.covariances) + shift**2)
    squares += mean_variances * (2.0 * remaining - counts + np.einsum("kq,kqd->kd", values, slopes**2))
    squares += np.einsum("kq,kqd->kd", values, loadings**2 + variances) - 2.0 * (loadings * explained).sum(axis=1)
    log_determinants = np.log(mean_variances).sum(axis=1) + np.log(variances).sum(axis=(1, 2))
    log_determinants += moments.means.shape[1] * np.log(prior + (prior == 0.0)).sum(axis=1)
    return _Conditional(
        axes, moments.means + shift, mean_variances, loadings, slopes, variances, log_determinants, squares
    )


def _principal_basis(found: _Conditional, sums: FloatArray, off: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Return the way to the principal axes of E[Lambda' Lambda], (K, q, q), and the rates of the precisions, (K, q)."""
    second = found.axes.swapaxes(1, 2) @ (sums + found.loadings @ found.loadings.swapaxes(1, 2)) @ found.axes
    # Columns that are off come last, and stay where they are.
    np.einsum("kqq->kq", second)[off] = -1.0
    values, vectors = _eigh(second)
    turn = vectors[:, :, ::-1].swapaxes(1, 2) @ found.axes.swapaxes(1, 2)
    turn[off] = 0.0
    return turn, RATE + 0.5 * np.maximum(values[:, ::-1], 0.0)


def _turned(sums: FloatArray, turn: FloatArray) -> FloatArray:
    """Return second moments of mean and loadings, (m, K, 1 + q, 1 + q), with the loadings in another basis."""
    whole = np.zeros(sums.shape[1:])
    whole[:, 0, 0] = 1.0
    whole[:, 1:, 1:] = turn
    result: FloatArray = whole @ sums @ whole.swapaxes(1, 2)
    return result


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
    shape, rates, spread, d = posterior.shape, posterior.rates, posterior.spread, len(posterior.spread)
    log_rates, mean_log = np.log(rates), float(digamma(shape))
    of_rows = np.log(spread) - 1.0 + (posterior.mean_variances + (posterior.means - posterior.center) ** 2) / spread
    squares = np.einsum("kqq->kq", posterior.plain)[:, 1:] + (posterior.loadings**2).sum(axis=2)
    of_loadings = 0.5 * (shape / rates * squares - d * (1.0 + mean_log - log_rates))
    of_precisions = (shape - SHAPE) * mean_log - float(gammaln(shape)) + float(gammaln(SHAPE))
    of_precisions = of_precisions + SHAPE * (log_rates - np.log(RATE)) + shape * (RATE - rates) / rates
    of_columns = np.where(posterior.live, of_loadings + of_precisions, 0.0).sum(axis=1)
    result: FloatArray = 0.5 * (of_rows.sum(axis=1) - posterior.log_determinants) + of_columns
    return result


def component_bounds(posterior: Posterior, moments: Moments) -> FloatArray:
    """Return the parts of the bound that belong to each component while Q(labels) is fixed, in nats, (K,)."""
    means, loadings, log_weights = _effective(posterior)
    log_densities = _expected_log_densities(means, loadings, posterior.noise, moments)
    result: FloatArray = moments.soft_counts * (log_weights + log_densities) - _component_divergences(posterior)
    return result


def _expected_log_densities(means: FloatArray, loadings: FloatArray, noise: FloatArray, moments: Moments) -> FloatArray:
    """Return mean log densities, less d/2 log(2 pi), of rows with these moments under factor analysers, (K,).

    With W'W = Psi^-1 Lambda (I + Lambda' Psi^-1 Lambda)^-1 Lambda' Psi^-1, Woodbury's identity gives a distance of
    tr((Psi^-1 - W'W) M) for second moments M about the means.
    """
    scaled = loadings / noise[:, None, :]
    lower = np.linalg.cholesky(np.eye(loadings.shape[1]) + scaled @ loadings.swapaxes(1, 2))
    log_determinants = 2.0 * np.log(np.einsum("kqq->kq", lower)).sum(axis=1)
    W = np.linalg.solve(lower, scaled)
    difference = moments.means - means
    squares = np.einsum("kdd->kd", moments.covariances) + difference**2
    projected = (W @ difference[:, :, None])[:, :, 0]
    distances = (squares / noise).sum(axis=1) - (projected**2).sum(axis=1)
    distances -= ((W @ moments.covariances) * W).sum(axis=(1, 2))
    result: FloatArray = -0.5 * (distances + np.log(noise).sum(axis=1) + log_determinants)
    _check_finite(result)
    return result


def bound_of_moments(posterior: Posterior, moments: Moments) -> float:
    """Return the bound minus the entropy of Q(labels) and constants, in nats: the part that changes at fixed labels."""
    return float(component_bounds(posterior, moments).sum()) - _weights_divergence(posterior.dirichlet)
