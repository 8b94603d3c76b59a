"""Sums over rows that the M-step and the search need: additive, so the sums of two sets of rows merge by adding.

All moments of component k are about its current mean, never about the origin.
"""

from amofa._kernels._blas cimport syrk_lower
from amofa._kernels._posterior cimport (
    Prepared, Scratch, check_layout, check_rows, check_work, checked_mixture, is_small, posterior_block, view_scratch)
from amofa._kernels._statistics cimport Scatter, Statistics

cdef extern from "simd.h" nogil:
    double amofa_weighted_sum(Py_ssize_t n, const double *values, const double *weights)
    void amofa_multiply(Py_ssize_t n, const double *factors, double *values)
    Py_ssize_t amofa_select(Py_ssize_t n, const double *h, double least, int *rows, double *root)
    void amofa_roots(Py_ssize_t n, const double *h, double *root)
    void amofa_weigh_columns(Py_ssize_t n, Py_ssize_t p, const int *rows, const double *root, const double *v,
                             double *scaled, Py_ssize_t ld)
    void amofa_weigh_deviations(Py_ssize_t n, Py_ssize_t d, const int *rows, const double *root, const double *x,
                                Py_ssize_t ldx, const double *mean, double *dev, Py_ssize_t ld)
    void amofa_small_scatter(Py_ssize_t n, Py_ssize_t d, const double *h, const double *x, Py_ssize_t ldx,
                             const double *mean, double *first, double *scatter)
    double amofa_entropy(Py_ssize_t n, const double *h, const double *log_density, const double *log_joint)
    void amofa_small_moments(Py_ssize_t n, Py_ssize_t d, Py_ssize_t p, const double *h, const double *x,
                             Py_ssize_t ldx, const double *mean, const double *projected, Py_ssize_t ld,
                             double *first, double *second, double *cross)
    enum: AMOFA_SMALL_FEATURES

cdef extern from "products.h" nogil:
    void amofa_products(Py_ssize_t n, Py_ssize_t p, Py_ssize_t d, const double *a, const double *b, Py_ssize_t ld,
                        double *c, Py_ssize_t ldc)
    void amofa_moments(Py_ssize_t n, Py_ssize_t d, const double *a, const double *b, Py_ssize_t ld, double *first,
                       double *second)
    void amofa_weighted_products(Py_ssize_t n, Py_ssize_t d, Py_ssize_t p, const double *h, const double *x,
                                 Py_ssize_t ldx, const double *mean, const double *v, Py_ssize_t ld, double *first,
                                 double *second, double *cross)
    void amofa_self_products(Py_ssize_t n, Py_ssize_t d, const double *a, Py_ssize_t ld, double *c, Py_ssize_t ldc)

# Rows of a smaller responsibility are left out of a component's moments: less than this, and less than so much of the
# soft count so far, is beneath the rounding of the sums.
cdef double NEGLIGIBLE = 1e-14
cdef double NEGLIGIBLE_SHARE = 1e-17
# With more of a block's rows than this, picking them out costs more than it saves.
cdef double MOST_SELECTED = 0.25
# Up to this many features the scatter is faster without BLAS.
cdef enum:
    MOST_OWN_PRODUCTS = 32


cdef struct Selection:
    Py_ssize_t count
    const int *rows                # NULL for all of the block


cdef Statistics view_statistics(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets, double *buffer) noexcept nogil:
    cdef Statistics view
    view.log_likelihood = buffer
    view.entropy = buffer + 1
    view.soft_counts = buffer + 2
    view.first = view.soft_counts + K
    view.second = view.first + K * d
    view.cross = view.second + K * d
    return view


cdef Py_ssize_t statistics_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil:
    return 2 + K + 2 * K * d + offsets[K] * d


cdef void accumulate_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Statistics *statistics,
) noexcept nogil:
    """Any number of rows, block by block."""
    cdef Py_ssize_t start = 0, length
    while start < n:
        length = min(scratch.stride, n - start)
        accumulate_block(length, x + start, ldx, row_weights + start if row_weights != NULL else NULL, with_entropy,
                         mixture, scratch, statistics)
        start += length


cdef void accumulate_block(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Statistics *statistics,
) noexcept nogil:
    cdef Py_ssize_t k
    cdef double *h
    posterior_block(n, x, ldx, mixture, scratch)
    statistics.log_likelihood[0] += amofa_weighted_sum(n, scratch.log_density, row_weights)
    for k in range(mixture.n_components):
        h = count_component(n, k, row_weights, with_entropy, scratch, statistics.soft_counts, statistics.entropy)
        accumulate_component(n, x, ldx, k, h, mixture, scratch, statistics)


cdef double *count_component(
    Py_ssize_t n, Py_ssize_t k, const double *row_weights, bint with_entropy, Scratch *scratch, double *soft_counts,
    double *entropy,
) noexcept nogil:
    """Weight the responsibilities of component k and add their sum and entropy. Returns them."""
    cdef double *h = scratch.responsibilities + k * scratch.stride
    if row_weights != NULL:
        amofa_multiply(n, row_weights, h)
    soft_counts[k] += amofa_weighted_sum(n, h, NULL)
    if with_entropy:
        entropy[0] += amofa_entropy(n, h, scratch.log_density, scratch.log_joint + k * scratch.stride)
    return h


cdef Selection select_rows(Py_ssize_t n, const double *h, double soft_count, Scratch *scratch) noexcept nogil:
    """Rows of a block that count for a component of this soft count so far; the roots of their h in scratch.roots."""
    cdef Selection chosen
    cdef double least = min(NEGLIGIBLE, NEGLIGIBLE_SHARE * soft_count)
    chosen.count = amofa_select(n, h, least, scratch.rows, scratch.roots)
    chosen.rows = scratch.rows
    if chosen.count > MOST_SELECTED * n:
        chosen.count, chosen.rows = n, NULL
        amofa_roots(n, h, scratch.roots)
    return chosen


cdef void accumulate_component(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const double *h, const Prepared *mixture,
    Scratch *scratch, Statistics *statistics,
) noexcept nogil:
    """Add the moments of component k, from its weighted responsibilities h."""
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], stride = scratch.stride
    cdef double *projected = scratch.projected + mixture.offsets[k] * stride
    cdef double *first = statistics.first + k * d
    cdef double *second = statistics.second + k * d
    cdef double *cross = statistics.cross + mixture.offsets[k] * d
    cdef Selection chosen
    if is_small(k, mixture):
        amofa_small_moments(n, d, p, h, x, ldx, mixture.means + k * d, projected, stride, first, second, cross)
        return
    chosen = select_rows(n, h, statistics.soft_counts[k], scratch)
    if chosen.count == 0:
        return
    if chosen.rows == NULL:
        amofa_weighted_products(n, d, p, h, x, ldx, mixture.means + k * d, projected, stride, first, second, cross)
        return
    amofa_weigh_deviations(chosen.count, d, chosen.rows, scratch.roots, x, ldx, mixture.means + k * d,
                           scratch.deviations, stride)
    amofa_moments(chosen.count, d, scratch.roots, scratch.deviations, stride, first, second)
    amofa_weigh_columns(chosen.count, p, chosen.rows, scratch.roots, projected, scratch.scaled, stride)
    amofa_products(chosen.count, p, d, scratch.scaled, scratch.deviations, stride, cross, d)


cdef int check_statistics(const Prepared *mixture, const double[::1] statistics) except -1:
    if statistics.shape[0] != statistics_length(mixture.n_components, mixture.n_features, mixture.offsets):
        raise ValueError("statistics has the wrong length for these offsets and features")
    return 0


def statistics_size(const Py_ssize_t[::1] offsets not None, Py_ssize_t n_features):
    """Length of a statistics buffer: 2 + K + 2 K d + P d float64 values."""
    check_layout(offsets, n_features)
    return statistics_length(offsets.shape[0] - 1, n_features, &offsets[0])


def accumulate(
    const double[:, ::1] x not None,  # IN   (d, n)
    const double[::1] row_weights,  # IN   (n), or None for ones
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    const double[::1] prepared not None,  # IN
    double[::1] statistics not None,  # INOUT, added to
    double[::1] work not None,  # WORK
    bint with_entropy=True,
):
    """Add the sufficient statistics of the columns of x. Cost O(n d P).

    The buffer holds, one after the other: the log-likelihood and the entropy of the responsibilities (nats; the latter
    only if it is asked for); the soft counts (K); sums of h e (K, d) and of h e^2 (K, d) with e = x - mean_k; sums of
    h (W_k e) e' (P, d).
    """
    cdef Py_ssize_t d = x.shape[0], n = x.shape[1]
    cdef Prepared mixture = checked_mixture(prepared, offsets, d)
    cdef Statistics sums
    cdef Scratch scratch
    check_rows(n, row_weights)
    check_work(&mixture, work)
    check_statistics(&mixture, statistics)
    if n == 0:
        return
    cdef const double *w = &row_weights[0] if row_weights is not None else NULL
    with nogil:
        sums = view_statistics(mixture.n_components, d, &offsets[0], &statistics[0])
        scratch = view_scratch(&mixture, &work[0])
        accumulate_rows(n, &x[0, 0], n, w, with_entropy, &mixture, &scratch, &sums)


cdef void accumulate_scatter_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Scatter *sums,
) noexcept nogil:
    """Any number of rows, block by block; only the lower triangles of the scatter matrices."""
    cdef Py_ssize_t start = 0, length, k
    cdef const double *w = row_weights
    cdef double *h
    while start < n:
        length = min(scratch.stride, n - start)
        if row_weights != NULL:
            w = row_weights + start
        posterior_block(length, x + start, ldx, mixture, scratch)
        sums.log_likelihood[0] += amofa_weighted_sum(length, scratch.log_density, w)
        for k in range(mixture.n_components):
            h = count_component(length, k, w, with_entropy, scratch, sums.soft_counts, sums.entropy)
            accumulate_component_scatter(length, x + start, ldx, k, h, mixture, scratch, sums)
        start += length


cdef void accumulate_component_scatter(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const double *h, const Prepared *mixture,
    Scratch *scratch, Scatter *sums,
) noexcept nogil:
    """Add the first and second moments of component k, from its weighted responsibilities h."""
    cdef Py_ssize_t d = mixture.n_features
    cdef const double *mean = mixture.means + k * d
    cdef double *first = sums.first + k * d
    cdef double *scatter = sums.scatter + k * d * d
    cdef Selection chosen
    if d <= AMOFA_SMALL_FEATURES:
        amofa_small_scatter(n, d, h, x, ldx, mean, first, scatter)
        return
    chosen = select_rows(n, h, sums.soft_counts[k], scratch)
    if chosen.count == 0:
        return
    # Rows times the square root of their responsibility: one symmetric product gives the scatter.
    amofa_weigh_deviations(chosen.count, d, chosen.rows, scratch.roots, x, ldx, mean, scratch.deviations,
                           scratch.stride)
    amofa_products(chosen.count, 1, d, scratch.roots, scratch.deviations, scratch.stride, first, d)
    if d <= MOST_OWN_PRODUCTS:
        amofa_self_products(chosen.count, d, scratch.deviations, scratch.stride, scatter, d)
    else:
        syrk_lower(d, chosen.count, 1.0, scratch.deviations, scratch.stride, 1.0, scatter, d)


def accumulate_scatter(
    const double[:, ::1] x not None,  # IN   (d, n)
    const double[::1] row_weights,  # IN   (n), or None for ones
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    const double[::1] prepared not None,  # IN
    double[::1] soft_counts not None,  # INOUT (K), added to
    double[:, ::1] first not None,  # INOUT (K, d), added to
    double[:, :, ::1] scatter not None,  # INOUT (K, d, d), added to
    double[::1] work not None,  # WORK
):
    """Add soft counts, first moments and full scatter matrices about the components' means. Cost O(n K d^2)."""
    cdef Py_ssize_t d = x.shape[0], n = x.shape[1], i, j, k
    cdef Prepared mixture = checked_mixture(prepared, offsets, d)
    cdef Py_ssize_t K = mixture.n_components
    cdef Scratch scratch
    cdef Scatter sums
    cdef double log_likelihood = 0.0, entropy = 0.0
    check_rows(n, row_weights)
    check_work(&mixture, work)
    if (soft_counts.shape[0] != K or first.shape[0] != K or first.shape[1] != d or scatter.shape[0] != K
            or scatter.shape[1] != d or scatter.shape[2] != d):
        raise ValueError("soft_counts, first and scatter must have shapes (K,), (K, d) and (K, d, d)")
    if n == 0:
        return
    cdef const double *w = &row_weights[0] if row_weights is not None else NULL
    with nogil:
        scratch = view_scratch(&mixture, &work[0])
        sums.log_likelihood, sums.entropy = &log_likelihood, &entropy
        sums.soft_counts, sums.first, sums.scatter = &soft_counts[0], &first[0, 0], &scatter[0, 0, 0]
        accumulate_scatter_rows(n, &x[0, 0], n, w, False, &mixture, &scratch, &sums)
        for k in range(K):
            for i in range(d):
                for j in range(i):
                    scatter[k, j, i] = scatter[k, i, j]


cdef void set_moments(
    Py_ssize_t d, double count, const double *old_mean, const double *first, const double *scatter, double *mean,
    double *covariance,
) noexcept nogil:
    """The new mean, old_mean + m with m = first / count, and the covariance matrix about it, scatter / count - m m'.

    They may take the place of the sums. Without rows the mean stays, and the covariances are 0.
    """
    cdef Py_ssize_t i, j
    cdef double inverse = 1.0 / count if count > 0.0 else 0.0
    for i in range(d):
        mean[i] = first[i] * inverse
        for j in range(i + 1):
            covariance[i * d + j] = scatter[i * d + j] * inverse - mean[i] * mean[j]
            covariance[j * d + i] = covariance[i * d + j]
    for i in range(d):
        mean[i] += old_mean[i]
