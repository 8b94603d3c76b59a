"""The posterior of the variational mixture: the effective mixture that it amounts to, and parts of the bound.

Arrays are those of `amofa.baselines._variational.Posterior`: of K components with room for q columns of d loadings, of
which the first ``n_live[k]`` are on.
"""

from libc.math cimport isfinite, log
from libc.string cimport memcpy

import numpy as np

from amofa._kernels._blas cimport cholesky_lower, gemm, solve_lower


cdef Arrays view_arrays(
    const Py_ssize_t[::1] n_live, const double[:, ::1] means, const double[:, :, ::1] loadings,
    const double[:, ::1] mean_variances, const double[:, :, ::1] weighted, const double[:, :, ::1] plain,
    const double[::1] log_determinants, const double[:, ::1] rates, const double[:, ::1] noise,
    const double[::1] center, const double[::1] spread,
) except *:
    """Check the shapes of the arrays and set pointers to them. Those of the input are not written to."""
    cdef Py_ssize_t K = loadings.shape[0], q = loadings.shape[1], d = loadings.shape[2], k
    cdef Arrays view
    if K == 0 or d == 0:
        raise ValueError("there must be a component and a column")
    if not (
        n_live.shape[0] == means.shape[0] == mean_variances.shape[0] == weighted.shape[0] == plain.shape[0] == K
        and log_determinants.shape[0] == rates.shape[0] == noise.shape[0] == K
        and means.shape[1] == mean_variances.shape[1] == noise.shape[1] == center.shape[0] == spread.shape[0] == d
        and weighted.shape[1] == weighted.shape[2] == plain.shape[1] == plain.shape[2] == 1 + q
        and rates.shape[1] == q
    ):
        raise ValueError("the arrays of the posterior have shapes that do not fit together")
    for k in range(K):
        if not 0 <= n_live[k] <= q:
            raise ValueError("n_live must be between 0 and the number of columns")
    view.K, view.q, view.d, view.n_live = K, q, d, &n_live[0]
    view.means, view.mean_variances, view.noise = (
        <double *> &means[0, 0], <double *> &mean_variances[0, 0], <double *> &noise[0, 0])
    view.loadings = <double *> &loadings[0, 0, 0] if q else NULL
    view.rates = <double *> &rates[0, 0] if q else NULL
    view.weighted, view.plain = <double *> &weighted[0, 0, 0], <double *> &plain[0, 0, 0]
    view.log_determinants = <double *> &log_determinants[0]
    view.center, view.spread = <double *> &center[0], <double *> &spread[0]
    return view


cdef Arrays view_posterior(posterior) except *:
    return view_arrays(
        posterior.n_live, posterior.means, posterior.loadings, posterior.mean_variances, posterior.weighted,
        posterior.plain, posterior.log_determinants, posterior.rates, posterior.noise, posterior.center,
        posterior.spread)


# ---- effective mixture and bound -------------------------------------------------------------------------------------

def effective_mixture(
    posterior,
    double[:, ::1] means not None,        # OUT  (K, d)
    double[:, :, ::1] loadings not None,  # OUT  (K, q, d)
    double[::1] log_factors not None,     # OUT  (K)  what the spread takes off the log weights
):
    """Compute the analysers whose log joint densities are the expected ones; see `amofa.baselines._variational`.

    Raises
    ------
    ValueError
        If shapes do not match.
    FloatingPointError
        If the posterior is not finite.
    """
    cdef Arrays at = view_posterior(posterior)
    cdef Py_ssize_t K = at.K, q = at.q, d = at.d, k
    if not (
        means.shape[0] == loadings.shape[0] == log_factors.shape[0] == K
        and means.shape[1] == loadings.shape[2] == d and loadings.shape[1] == q
    ):
        raise ValueError("the arrays of the mixture must have the shapes of the posterior's")
    cdef double[::1] work = np.empty(q * q + q + 1)
    cdef int failed = 0
    with nogil:
        for k in range(K):
            failed |= effective_component(
                k, &at, &means[k, 0], &loadings[k, 0, 0] if q else NULL, &log_factors[k], &work[0])
    if failed:
        raise FloatingPointError("the posterior of a component is not finite")


cdef int effective_component(
    Py_ssize_t k, const Arrays *at, double *mean, double *loadings, double *log_factor, double *work,
) noexcept nogil:
    cdef Py_ssize_t q = at.q, d = at.d, p = at.n_live[k], n = 1 + q, i, j
    cdef const double *weighted = at.weighted + k * n * n
    cdef double *lower = work    # (p, p)
    cdef double *g = work + q * q  # (p)
    cdef double lost = weighted[0]
    for i in range(p):
        memcpy(lower + i * p, weighted + (1 + i) * n + 1, p * sizeof(double))
        lower[i * p + i] += 1.0
        g[i] = weighted[(1 + i) * n]
    if cholesky_lower(p, lower, p):
        return 1
    if q:
        memcpy(loadings, at.loadings + k * q * d, q * d * sizeof(double))
    solve_lower(b"N", p, d, lower, p, loadings, d)
    solve_lower(b"N", p, 1, lower, p, g, 1)
    memcpy(mean, at.means + k * d, d * sizeof(double))
    for i in range(p):
        for j in range(d):
            mean[j] -= g[i] * loadings[i * d + j]
        lost += 2.0 * log(lower[i * p + i]) - g[i] * g[i]
    log_factor[0] = -0.5 * lost
    return not isfinite(lost)


def expected_log_densities(
    const double[:, ::1] means not None,            # IN   (K, d)     of the effective mixture
    const double[:, :, ::1] loadings not None,      # IN   (K, q, d)
    const double[:, ::1] noise not None,            # IN   (K, d)
    const double[:, ::1] row_means not None,        # IN   (K, d)
    const double[:, :, ::1] covariances not None,   # IN   (K, d, d)
    double[::1] result not None,                    # OUT  (K)
):
    """Mean log densities of rows with these moments under factor analysers, less d/2 log(2 pi).

    The cost is O(sum_k d^2 q_k).

    Raises
    ------
    ValueError
        If shapes do not match.
    FloatingPointError
        If a component is not finite.
    """
    cdef Py_ssize_t K = loadings.shape[0], q = loadings.shape[1], d = loadings.shape[2], k
    if not (
        means.shape[0] == noise.shape[0] == row_means.shape[0] == covariances.shape[0] == result.shape[0] == K
        and means.shape[1] == noise.shape[1] == row_means.shape[1] == d
        and covariances.shape[1] == covariances.shape[2] == d and K > 0 and d > 0
    ):
        raise ValueError("the arrays have shapes that do not fit together")
    cdef double[::1] work = np.empty(2 * q * d + q * q + q + d + 1)
    cdef int failed = 0
    with nogil:
        for k in range(K):
            failed |= expected_log_density(
                q, d, &means[k, 0], &loadings[k, 0, 0] if q else NULL, &noise[k, 0], &row_means[k, 0],
                &covariances[k, 0, 0], &work[0], &result[k])
    if failed:
        raise FloatingPointError("a component is not finite")


cdef int expected_log_density(
    Py_ssize_t q, Py_ssize_t d, const double *mean, const double *loadings, const double *noise,
    const double *row_mean, const double *covariance, double *work, double *result,
) noexcept nogil:
    """Use Woodbury's identity: the distance is that of the columns minus the squares of the projections W."""
    cdef double *projection = work               # (q, d)
    cdef double *product = projection + q * d    # (q, d)
    cdef double *capacitance = product + q * d   # (q, q)
    cdef double *projected = capacitance + q * q  # (q)
    cdef double *difference = projected + q      # (d)
    cdef double total = 0.0
    cdef Py_ssize_t i, j
    for j in range(d):
        difference[j] = row_mean[j] - mean[j]
        total += (covariance[j * d + j] + difference[j] * difference[j]) / noise[j] + log(noise[j])
        for i in range(q):
            projection[i * d + j] = loadings[i * d + j] / noise[j]
    gemm(b"N", b"T", q, q, d, 1.0, projection, d, loadings, d, 0.0, capacitance, q)
    for i in range(q):
        capacitance[i * q + i] += 1.0
    if cholesky_lower(q, capacitance, q):
        return 1
    solve_lower(b"N", q, d, capacitance, q, projection, d)
    gemm(b"N", b"N", q, d, d, 1.0, projection, d, covariance, d, 0.0, product, d)
    gemm(b"N", b"N", q, 1, d, 1.0, projection, d, difference, 1, 0.0, projected, 1)
    for i in range(q):
        total += 2.0 * log(capacitance[i * q + i]) - projected[i] * projected[i]
        for j in range(d):
            total -= projection[i * d + j] * product[i * d + j]
    result[0] = -0.5 * total
    return not isfinite(total)


def component_divergences(
    posterior,
    double shape,
    double mean_log,         # digamma(shape)
    double of_precision,     # KL of a column's precision whose rate is that of the prior, less the part of the rates
    double prior_shape,
    double prior_rate,
    double[::1] result not None,  # OUT  (K)
):
    """Return KL(Q || prior) of the loadings, means and precisions of each component, in nats."""
    cdef Arrays at = view_posterior(posterior)
    cdef Py_ssize_t K = at.K, q = at.q, d = at.d, n = 1 + q, i, j, k
    cdef double total, squares, rate, difference
    if result.shape[0] != K:
        raise ValueError("there must be a result for each component")
    with nogil:
        for k in range(K):
            total = -0.5 * at.log_determinants[k]
            for j in range(d):
                difference = at.means[k * d + j] - at.center[j]
                total += 0.5 * (log(at.spread[j]) - 1.0)
                total += 0.5 * (at.mean_variances[k * d + j] + difference * difference) / at.spread[j]
            for i in range(at.n_live[k]):
                rate = at.rates[k * q + i]
                squares = at.plain[k * n * n + (1 + i) * (n + 1)]
                for j in range(d):
                    squares += at.loadings[(k * q + i) * d + j] ** 2
                total += 0.5 * (shape / rate * squares - d * (1.0 + mean_log - log(rate)))
                total += of_precision + prior_shape * log(rate / prior_rate) + shape * (prior_rate - rate) / rate
            result[k] = total
