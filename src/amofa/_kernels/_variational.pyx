"""The variational mixture: update of all but the labels, effective mixture, and parts of the bound.

Arrays are those of `amofa.baselines._variational.Posterior`: of K components with room for q columns of d loadings, of
which the first ``n_live[k]`` are on. `Arrays` are pointers to them; those of a component are at ``k`` strides.
"""

from libc.math cimport isfinite, log, sqrt
from libc.string cimport memcpy, memset

import numpy as np

from amofa._kernels._blas cimport cholesky_lower, eigen, eigen_work, gemm, solve_lower

cdef struct Arrays:
    Py_ssize_t K, q, d
    const Py_ssize_t *n_live
    double *means             # (K, d)
    double *loadings          # (K, q, d)
    double *mean_variances    # (K, d)
    double *weighted          # (K, 1 + q, 1 + q)
    double *plain             # (K, 1 + q, 1 + q)
    double *log_determinants  # (K)
    double *rates             # (K, q)
    double *noise             # (K, d)
    double *center            # (d)
    double *spread            # (d)

# What an update of the loadings leaves for that of the rest, in a basis in which the second moments of the factors are
# diagonal and the prior precision of each column is 1.
cdef struct Basis:
    double *values    # (q)     second moments
    double *first     # (q)     first moments
    double *axes      # (q, q)  the basis, an axis in each row
    double *shrunk    # (q, d)  posterior over prior variances of the loadings, given the mean
    double *loadings  # (q, d)


cdef Basis view_basis(Py_ssize_t q, Py_ssize_t d, double *work) noexcept nogil:
    cdef Basis view
    view.values = work
    view.first = view.values + q
    view.axes = view.first + q
    view.shrunk = view.axes + q * q
    view.loadings = view.shrunk + q * d
    return view


cdef Py_ssize_t basis_length(Py_ssize_t q, Py_ssize_t d) noexcept nogil:
    return 2 * q + q * q + 2 * q * d


cdef Py_ssize_t scratch_length(Py_ssize_t q, Py_ssize_t d) noexcept nogil:
    return 3 * q * d + 3 * (1 + q) * (1 + q) + 2 * q + 2 * d + eigen_work(q)


cdef Arrays view_arrays(
    const Py_ssize_t[::1] n_live, const double[:, ::1] means, const double[:, :, ::1] loadings,
    const double[:, ::1] mean_variances, const double[:, :, ::1] weighted, const double[:, :, ::1] plain,
    const double[::1] log_determinants, const double[:, ::1] rates, const double[:, ::1] noise,
    const double[::1] center, const double[::1] spread,
) except *:
    """Pointers to the arrays, whose shapes are checked. Those of the input are not written to."""
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


cdef int check_writeable(posterior) except -1:
    """`view_posterior` takes arrays that may be read only."""
    for name in ("means", "loadings", "mean_variances", "weighted", "plain", "log_determinants", "rates", "noise",
                 "center", "spread"):
        if not getattr(posterior, name).flags.writeable:
            raise ValueError(f"{name} of the updated posterior is read-only")
    return 0


cdef int check_moments(
    const Arrays *at, const double[::1] counts, const double[:, ::1] means, const double[:, :, ::1] covariances,
) except -1:
    if not (
        counts.shape[0] == means.shape[0] == covariances.shape[0] == at.K
        and means.shape[1] == covariances.shape[1] == covariances.shape[2] == at.d
    ):
        raise ValueError("the moments must be those of the posterior's components and columns")
    return 0


# ---- update ----------------------------------------------------------------------------------------------------------

def update(
    posterior,
    const double[::1] counts not None,             # IN   (K)
    const double[:, ::1] means not None,           # IN   (K, d)
    const double[:, :, ::1] covariances not None,  # IN   (K, d, d)
    const double[::1] floor not None,              # IN   (d)
    double shape,
    double rate,
    double noise_step,
    bint shares_noise,
    updated,                                       # OUT  another posterior of the same shape
):
    """Update everything but the weights, from moments under responsibilities, into the arrays of ``updated``.

    See `amofa.baselines._variational.update`. Cost O(sum_k d p_k^2 + d^2 p_k + p_k^3).

    Raises
    ------
    ValueError
        If shapes do not fit together.
    FloatingPointError
        If the moments or the posterior are not finite.
    """
    cdef Arrays old = view_posterior(posterior), new = view_posterior(updated)
    check_moments(&old, counts, means, covariances)
    check_writeable(updated)
    if not (new.K == old.K and new.q == old.q and new.d == old.d and floor.shape[0] == old.d):
        raise ValueError("the updated posterior and the floor must have the shape of the posterior")
    cdef Py_ssize_t K = old.K, q = old.q, d = old.d, k, failed = 0, size = basis_length(q, d)
    cdef double[::1] work = np.empty(K * (size + d) + scratch_length(q, d))
    cdef double *squares = &work[0] + K * size
    cdef double *scratch = squares + K * d
    with nogil:
        for k in range(K):
            failed |= update_loadings(
                k, &old, counts[k], &means[k, 0], &covariances[k, 0, 0], shape, view_basis(q, d, &work[0] + k * size),
                &new, squares + k * d, scratch)
        update_noise(&old, &counts[0], squares, &floor[0], noise_step, shares_noise, &new)
        for k in range(K):
            failed |= update_rest(k, &old, shape, rate, view_basis(q, d, &work[0] + k * size), &new, scratch)
        update_prior_of_means(&old, &new)
    if failed:
        raise FloatingPointError("the posterior of a component is not finite")


cdef int update_loadings(
    Py_ssize_t k, const Arrays *old, double count, const double *mean, const double *covariance, double shape,
    Basis basis, Arrays *new, double *squares, double *scratch,
) noexcept nogil:
    """Factors, then loadings and mean of component k, and the squared residuals that are expected of each column."""
    cdef Py_ssize_t q = old.q, d = old.d, p = old.n_live[k], b, i, j
    cdef const double *noise = old.noise + k * d
    cdef const double *rates = old.rates + k * q
    cdef double *cross = scratch             # (p, d)  E[x y'], later in the basis
    cdef double *scores = cross + q * d      # (p, d)
    cdef double *turned = scores + q * d     # (p, d)
    cdef double *inverse = turned + q * d    # (p, p)
    cdef double *precision = inverse + (1 + q) * (1 + q)  # (p, p)
    cdef double *first = precision + 2 * (1 + q) * (1 + q)  # (p)
    cdef double *shift = first + 2 * q       # (d)
    cdef double *work = shift + 2 * d
    cdef double e, total, pull, explained, coupling, uncertain, s, pulled

    for j in range(d):
        shift[j] = mean[j] - old.means[k * d + j]
    if factor_moments(k, old, covariance, shift, cross, scores, inverse, precision, first):
        return 1
    # Second moments of the factors, in place of the covariance, scaled to a prior precision of 1.
    for i in range(p):
        s = sqrt(rates[i] / shape)
        for j in range(p):
            inverse[i * p + j] = count * s * sqrt(rates[j] / shape) * (inverse[i * p + j] + first[i] * first[j])
    if eigen(p, inverse, p, basis.values, work):
        return 1
    for b in range(p):
        basis.values[b] = max(basis.values[b], 0.0)
        for i in range(p):
            basis.axes[b * p + i] = inverse[b * p + i] * sqrt(rates[i] / shape)
    gemm(b"N", b"N", p, 1, p, count, basis.axes, p, first, 1, 0.0, basis.first, 1)
    gemm(b"N", b"N", p, d, p, count, basis.axes, p, cross, d, 0.0, turned, d)

    for b in range(p):
        for j in range(d):
            basis.shrunk[b * d + j] = 1.0 / (1.0 + basis.values[b] / noise[j])
    for j in range(d):
        e = 1.0 / noise[j]
        # Precision of the mean with the loadings integrated out: the Schur complement.
        total = pulled = uncertain = 0.0
        for b in range(p):
            coupling = basis.first[b] * basis.shrunk[b * d + j]
            total += basis.first[b] * coupling
            pulled += coupling * turned[b * d + j]
            uncertain += basis.values[b] * coupling * coupling
        s = 1.0 / (1.0 / old.spread[j] + max(e * count - e * e * total, 0.0))
        new.mean_variances[k * d + j] = s
        pull = (old.center[j] - mean[j]) / old.spread[j]
        pull = s * (pull - e * e * pulled)
        new.means[k * d + j] = mean[j] + pull
        squares[j] = count * (covariance[j * d + j] + pull * pull)
        squares[j] += s * (count - 2.0 * e * total + e * e * uncertain)
        for b in range(p):
            explained = turned[b * d + j] - basis.first[b] * pull
            s = e * basis.shrunk[b * d + j] * explained
            basis.loadings[b * d + j] = s
            squares[j] += basis.values[b] * (s * s + basis.shrunk[b * d + j]) - 2.0 * s * explained
    return 0


cdef int factor_moments(
    Py_ssize_t k, const Arrays *old, const double *covariance, const double *shift, double *cross, double *scores,
    double *second, double *precision, double *first,
) noexcept nogil:
    """E[x] (p), E[x y'] (p, d) and cov(x, x) (p, p) of the rows of component k; y is about their mean."""
    cdef Py_ssize_t q = old.q, d = old.d, p = old.n_live[k], i, j
    cdef const double *noise = old.noise + k * d
    cdef const double *loadings = old.loadings + k * q * d
    cdef const double *weighted = old.weighted + k * (1 + q) * (1 + q)
    for i in range(p):
        for j in range(d):
            scores[i * d + j] = loadings[i * d + j] / noise[j]
    gemm(b"N", b"T", p, p, d, 1.0, scores, d, loadings, d, 0.0, precision, p)
    for i in range(p):
        for j in range(p):
            precision[i * p + j] += weighted[(1 + i) * (1 + q) + 1 + j]
            second[i * p + j] = i == j
        precision[i * p + i] += 1.0
        first[i] = -weighted[(1 + i) * (1 + q)]
    gemm(b"N", b"N", p, 1, d, 1.0, scores, d, shift, 1, 1.0, first, 1)
    if cholesky_lower(p, precision, p):
        return 1
    solve_lower(b"N", p, d, precision, p, scores, d)
    solve_lower(b"T", p, d, precision, p, scores, d)
    solve_lower(b"N", p, p, precision, p, second, p)
    solve_lower(b"T", p, p, precision, p, second, p)
    solve_lower(b"N", p, 1, precision, p, first, 1)
    solve_lower(b"T", p, 1, precision, p, first, 1)
    gemm(b"N", b"N", p, d, d, 1.0, scores, d, covariance, d, 0.0, cross, d)
    gemm(b"N", b"T", p, p, d, 1.0, cross, d, scores, d, 1.0, second, p)
    return 0


cdef void update_noise(
    const Arrays *old, const double *counts, const double *squares, const double *floor, double noise_step,
    bint shares_noise, Arrays *new,
) noexcept nogil:
    cdef Py_ssize_t K = old.K, d = old.d, j, k
    cdef double count, total, best, ratio
    for j in range(d):
        count = total = 0.0
        if shares_noise:
            for k in range(K):
                count += counts[k]
                total += squares[k * d + j]
        for k in range(K):
            best = total / count if shares_noise else squares[k * d + j] / counts[k]
            ratio = max(best, floor[j]) / old.noise[k * d + j]
            ratio = 1.0 if noise_step == 0.0 else ratio ** noise_step
            new.noise[k * d + j] = old.noise[k * d + j] * ratio
            if noise_step != 0.0:
                new.noise[k * d + j] = max(new.noise[k * d + j], floor[j])


cdef int update_rest(
    Py_ssize_t k, const Arrays *old, double shape, double rate, Basis basis, Arrays *new, double *scratch,
) noexcept nogil:
    """Sums of the covariances, then the principal basis of the factors and the rates of component k."""
    cdef Py_ssize_t q = old.q, d = old.d, p = old.n_live[k], i, j, r
    cdef double *loadings = new.loadings + k * q * d
    cdef double *rates = new.rates + k * q
    cdef double *pulled = scratch                         # (p, d)
    cdef double *scaled = pulled + q * d                  # (p, d)
    cdef double *sums = scratch + 3 * q * d               # (1 + p, 1 + p)
    cdef double *second = sums + (1 + q) * (1 + q)        # (p, p)
    cdef double *turn = second + (1 + q) * (1 + q)        # (p, p)
    cdef double *values = turn + (1 + q) * (1 + q)        # (p)
    cdef double *row_weights = values + 2 * q             # (d)
    cdef double *work = row_weights + 2 * d
    cdef double log_determinant = 0.0

    for j in range(d):
        log_determinant += log(new.mean_variances[k * d + j])
    for i in range(p):
        log_determinant += d * log(old.rates[k * q + i] / shape)
        for j in range(d):
            log_determinant += log(basis.shrunk[i * d + j])
            pulled[i * d + j] = basis.first[i] * basis.shrunk[i * d + j] / old.noise[k * d + j]
    new.log_determinants[k] = log_determinant

    for j in range(d):
        row_weights[j] = 1.0
    sum_covariances(p, d, basis.shrunk, pulled, new.mean_variances + k * d, row_weights, scaled, sums)
    for i in range(p):
        memcpy(second + i * p, sums + (1 + i) * (1 + p) + 1, p * sizeof(double))
    gemm(b"N", b"T", p, p, d, 1.0, basis.loadings, d, basis.loadings, d, 1.0, second, p)
    # axes' second axes, the second moments of the columns in the old basis
    gemm(b"T", b"N", p, p, p, 1.0, basis.axes, p, second, p, 0.0, turn, p)
    gemm(b"N", b"N", p, p, p, 1.0, turn, p, basis.axes, p, 0.0, second, p)
    if eigen(p, second, p, values, work):
        return 1
    for i in range(q):
        rates[i] = rate
    if q:
        memset(loadings, 0, q * d * sizeof(double))
    # In falling order.
    for i in range(p):
        rates[i] += 0.5 * max(values[p - 1 - i], 0.0)
        for j in range(p):
            turn[i * p + j] = 0.0
            for r in range(p):
                turn[i * p + j] += second[(p - 1 - i) * p + r] * basis.axes[j * p + r]
        if not isfinite(rates[i]):
            return 1
    gemm(b"N", b"N", p, d, p, 1.0, turn, p, basis.loadings, d, 0.0, loadings, d)
    turn_covariance(q, p, sums, turn, second, new.plain + k * (1 + q) * (1 + q))
    for j in range(d):
        row_weights[j] = 1.0 / new.noise[k * d + j]
    sum_covariances(p, d, basis.shrunk, pulled, new.mean_variances + k * d, row_weights, scaled, sums)
    turn_covariance(q, p, sums, turn, second, new.weighted + k * (1 + q) * (1 + q))
    return not isfinite(log_determinant)


cdef void sum_covariances(
    Py_ssize_t p, Py_ssize_t d, const double *shrunk, const double *pulled, const double *mean_variances,
    const double *row_weights, double *scaled, double *sums,
) noexcept nogil:
    """sum_r row_weights_r G_r (1 + p, 1 + p) in the basis of the update."""
    cdef Py_ssize_t i, j, n = 1 + p
    cdef double diagonal, of_mean = 0.0
    for j in range(d):
        of_mean += row_weights[j] * mean_variances[j]
    sums[0] = of_mean
    for i in range(p):
        of_mean = 0.0
        for j in range(d):
            scaled[i * d + j] = row_weights[j] * mean_variances[j] * pulled[i * d + j]
            of_mean -= scaled[i * d + j]
        sums[1 + i] = sums[(1 + i) * n] = of_mean
    gemm(b"N", b"T", p, p, d, 1.0, scaled, d, pulled, d, 0.0, sums + n + 1, n)
    for i in range(p):
        diagonal = 0.0
        for j in range(d):
            diagonal += shrunk[i * d + j] * row_weights[j]
        sums[(1 + i) * n + 1 + i] += diagonal


cdef void turn_covariance(
    Py_ssize_t q, Py_ssize_t p, const double *sums, const double *turn, double *work, double *result,
) noexcept nogil:
    """Second moments of mean and loadings, the latter in another basis: (1 + p, 1 + p) of (1 + q, 1 + q) entries."""
    cdef Py_ssize_t i, n = 1 + q
    memset(result, 0, n * n * sizeof(double))
    result[0] = sums[0]
    gemm(b"N", b"N", p, 1, p, 1.0, turn, p, sums + 1 + p, 1 + p, 0.0, result + n, n)
    for i in range(1, 1 + p):
        result[i] = result[i * n]
    gemm(b"N", b"N", p, p, p, 1.0, turn, p, sums + 2 + p, 1 + p, 0.0, work, p)
    gemm(b"N", b"T", p, p, p, 1.0, work, p, turn, p, 0.0, result + n + 1, n)


cdef void update_prior_of_means(const Arrays *old, Arrays *new) noexcept nogil:
    """Mean and variance of the prior of the means, which one component says nothing about."""
    cdef Py_ssize_t K = old.K, d = old.d, j, k
    cdef double center, spread
    for j in range(d):
        center, spread = old.center[j], old.spread[j]
        if K > 1:
            center = spread = 0.0
            for k in range(K):
                center += new.means[k * d + j] / K
            for k in range(K):
                spread += (new.mean_variances[k * d + j] + (new.means[k * d + j] - center) ** 2) / K
        new.center[j], new.spread[j] = center, spread


# ---- effective mixture and bound -------------------------------------------------------------------------------------

def effective_mixture(
    posterior,
    double[:, ::1] means not None,        # OUT  (K, d)
    double[:, :, ::1] loadings not None,  # OUT  (K, q, d)
    double[::1] log_factors not None,     # OUT  (K)  what the spread takes off the log weights
):
    """Factor analysers whose log joint densities are the expected ones: see `amofa.baselines._variational`.

    Raises
    ------
    ValueError
        If shapes do not fit together.
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

    Cost O(sum_k d^2 q_k).

    Raises
    ------
    ValueError
        If shapes do not fit together.
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
    """Woodbury's identity: the distance is what the columns say, less the squares of the projections W."""
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
    """KL(Q || prior) of loadings, means and precisions of each component, nats."""
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
