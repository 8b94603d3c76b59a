"""One update of the variational mixture: everything but the labels, from moments of the rows.

Arrays are those of `amofa.baselines._variational.Posterior`: of K components with room for q columns of d loadings, of
which the first ``n_live[k]`` are on.
"""

from libc.math cimport isfinite, log, sqrt
from libc.string cimport memcpy, memset

import numpy as np

from amofa._kernels._blas cimport cholesky_lower, eigen, eigen_work, gemm, solve_lower
from amofa._kernels._variational cimport Arrays, view_posterior

# Results of the update of the loadings for the other updates, in a basis in which the second moments of the factors are
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


cdef int check_writeable(posterior) except -1:
    """Do the same as `view_posterior` for arrays that may be read-only."""
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

    See `amofa.baselines._variational.update`. The cost is O(sum_k d p_k^2 + d^2 p_k + p_k^3).

    Raises
    ------
    ValueError
        If shapes do not match.
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
    """Update factors, loadings and mean of component k, and the expected squared residuals of each column."""
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
    """Compute E[x] (p), E[x y'] (p, d) and cov(x, x) (p, p) of the rows of component k; y is about their mean."""
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
    """Compute sums of the covariances, the principal basis of the factors, and the rates of component k."""
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
    """Compute sum_r row_weights_r G_r (1 + p, 1 + p) in the basis of the update."""
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
    """Transform second moments of mean and loadings to another basis: (1 + p, 1 + p) of (1 + q, 1 + q) entries."""
    cdef Py_ssize_t i, n = 1 + q
    memset(result, 0, n * n * sizeof(double))
    result[0] = sums[0]
    gemm(b"N", b"N", p, 1, p, 1.0, turn, p, sums + 1 + p, 1 + p, 0.0, result + n, n)
    for i in range(1, 1 + p):
        result[i] = result[i * n]
    gemm(b"N", b"N", p, p, p, 1.0, turn, p, sums + 2 + p, 1 + p, 0.0, work, p)
    gemm(b"N", b"T", p, p, p, 1.0, work, p, turn, p, 0.0, result + n + 1, n)


cdef void update_prior_of_means(const Arrays *old, Arrays *new) noexcept nogil:
    """Update the mean and variance of the prior of the means, if there is more than one component."""
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
