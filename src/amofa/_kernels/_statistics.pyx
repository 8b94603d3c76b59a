"""Sufficient statistics of rows under a mixture: one flat array of sums, so that those of two sets of rows add up.

All moments of component k are about its current mean, never about the origin. `Sums` in the .pxd gives the layout.
"""

from libc.math cimport INFINITY, log, log1p

from amofa._kernels._blas cimport syrk_lower
from amofa._kernels._mixture cimport (
    Prepared, Scratch, check_layout, check_rows, check_work, checked_mixture, is_beyond_memory, view_scratch)
from amofa._kernels._posterior cimport is_small, posterior_block, weigh_tails

cdef extern from "simd.h" nogil:
    double amofa_weighted_sum(Py_ssize_t n, const double *values, const double *weights)
    void amofa_add_background(Py_ssize_t n, double log_rest, double log_weight, const double *background,
                              double *log_density, double *share)
    void amofa_mark(Py_ssize_t n, const double *h, double least, unsigned char *near, double *kept)
    double amofa_multiply(Py_ssize_t n, const double *factors, double *values)
    Py_ssize_t amofa_select(Py_ssize_t n, const double *h, double least, int *rows, double *root)
    void amofa_roots(Py_ssize_t n, const double *h, double *root)
    void amofa_weigh_columns(Py_ssize_t n, Py_ssize_t p, const int *rows, const double *root, const double *v,
                             double *scaled, Py_ssize_t ld)
    void amofa_weigh_deviations(Py_ssize_t n, Py_ssize_t d, const int *rows, const double *root, const double *x,
                                Py_ssize_t ldx, const double *mean, double *dev, Py_ssize_t ld, double *first)
    void amofa_squares(Py_ssize_t n, Py_ssize_t d, const double *b, Py_ssize_t ld, double *second)
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
    void amofa_weighted_products(Py_ssize_t n, Py_ssize_t d, Py_ssize_t p, const double *h, const double *x,
                                 Py_ssize_t ldx, const double *mean, const double *v, Py_ssize_t ld, double *first,
                                 double *second, double *cross)
    void amofa_self_products(Py_ssize_t n, Py_ssize_t d, const double *a, Py_ssize_t ld, double *c, Py_ssize_t ldc)

# Rows whose responsibility is below this share of the component's weight are left out of its moments: they are below
# the rounding error of the sums.
cdef double NEGLIGIBLE_SHARE = 1e-17
# If more rows of a block than this count, selecting them costs more than it saves.
cdef double MOST_SELECTED = 0.6


cdef struct Selection:
    Py_ssize_t count
    const int *rows                # NULL for all of the block


# ---- layout ----------------------------------------------------------------------------------------------------------

cdef Sums view_sums(Py_ssize_t K, Py_ssize_t d, bint full, double *buffer) noexcept nogil:
    cdef Sums view
    view.full = full
    view.negligible = NEGLIGIBLE_SHARE
    view.near = NULL
    view.background = NULL
    view.log_likelihood = buffer
    view.entropy = buffer + 1
    view.soft_counts = buffer + 2
    view.first = view.soft_counts + K
    view.second = view.first + K * d
    view.cross = NULL if full else view.second + K * d
    view.tail_counts = view.second + K * d * d if full else NULL
    return view


cdef Py_ssize_t sums_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets, bint full) noexcept nogil:
    return 2 + K + K * d + (K * d * d + K if full else K * d + offsets[K] * d)


# ---- one block of rows -----------------------------------------------------------------------------------------------

cdef void accumulate_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Sums *sums,
) noexcept nogil:
    """Add any number of rows, block by block."""
    cdef Py_ssize_t start = 0, length, k
    while start < n:
        length = min(scratch.stride, n - start)
        posterior_block(length, x + start, ldx, mixture, scratch)
        if sums.background != NULL:
            share_with_background(length, sums.background + start, row_weights + start if row_weights != NULL else NULL,
                                  with_entropy, mixture.n_components, scratch, sums)
        if sums.near != NULL:
            for k in range(mixture.n_components):
                amofa_mark(length, scratch.responsibilities + k * scratch.stride, sums.near_least,
                           sums.near + k * sums.near_stride + start, sums.kept + start)
        add_block(length, x + start, ldx, row_weights + start if row_weights != NULL else NULL, with_entropy, mixture,
                  scratch, sums)
        start += length


cdef void share_with_background(
    Py_ssize_t n, const double *background, const double *row_weights, bint with_entropy, Py_ssize_t n_components,
    Scratch *scratch, Sums *sums,
) noexcept nogil:
    """Give the background its share of the rows of a block whose posterior quantities are in scratch."""
    cdef double log_rest = log1p(-sums.background_weight), log_weight = log(sums.background_weight), rest, entropy
    cdef double *share = scratch.row_sum
    cdef Py_ssize_t i, k
    amofa_add_background(n, log_rest, log_weight, background, scratch.log_density, share)
    for k in range(n_components):
        amofa_multiply(n, share, scratch.responsibilities + k * scratch.stride)
    if with_entropy:
        # Of the background's share; that of the components is summed without their share of the mixture.
        for i in range(n):
            rest = 1.0 - share[i]
            entropy = -share[i] * log_rest - (rest * log(rest) if rest > 0.0 else 0.0)
            sums.entropy[0] += entropy if row_weights == NULL else row_weights[i] * entropy


cdef void add_block(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Sums *sums,
) noexcept nogil:
    """Add the rows of a block whose posterior quantities are in scratch."""
    cdef Py_ssize_t k
    cdef double *h
    cdef double negligible = sums.negligible, count
    if row_weights != NULL:
        negligible *= amofa_weighted_sum(n, row_weights, NULL) / n
    sums.log_likelihood[0] += amofa_weighted_sum(n, scratch.log_density, row_weights)
    for k in range(mixture.n_components):
        h = scratch.responsibilities + k * scratch.stride
        count = count_component(n, k, row_weights, with_entropy, scratch, sums)
        if sums.full:
            sums.tail_counts[k] += count_tails(n, k, count, mixture, scratch.log_joint + k * scratch.stride, h)
            add_scatter(n, x, ldx, k, h, negligible, mixture, scratch, sums)
        else:
            add_factor_moments(n, x, ldx, k, h, negligible, mixture, scratch, sums)


cdef double count_component(
    Py_ssize_t n, Py_ssize_t k, const double *row_weights, bint with_entropy, Scratch *scratch, Sums *sums,
) noexcept nogil:
    """Weight the responsibilities of component k and add their sum, which is returned, and their entropy."""
    cdef double *h = scratch.responsibilities + k * scratch.stride
    cdef double count = amofa_multiply(n, row_weights, h) if row_weights != NULL else amofa_weighted_sum(n, h, NULL)
    sums.soft_counts[k] += count
    if with_entropy:
        sums.entropy[0] += amofa_entropy(n, h, scratch.log_density, scratch.log_joint + k * scratch.stride)
    return count


cdef double count_tails(
    Py_ssize_t n, Py_ssize_t k, double count, const Prepared *mixture, const double *log_joint, double *h,
) noexcept nogil:
    """Weigh rows in the tails of a t component k less, in h, whose sum is `count`. Returns the sum of the weights."""
    if mixture.degrees_of_freedom[k] == INFINITY:
        return count
    weigh_tails(n, k, mixture, log_joint, h)
    return amofa_weighted_sum(n, h, NULL)


cdef Selection select_rows(Py_ssize_t n, const double *h, double least, Scratch *scratch) noexcept nogil:
    """Select the rows of a block with more than the least weighted responsibility; roots of h go to scratch.roots."""
    cdef Selection chosen
    chosen.count = amofa_select(n, h, least, scratch.rows, scratch.roots)
    chosen.rows = scratch.rows
    if chosen.count > MOST_SELECTED * n:
        chosen.count, chosen.rows = n, NULL
        amofa_roots(n, h, scratch.roots)
    return chosen


cdef void add_factor_moments(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const double *h, double negligible,
    const Prepared *mixture, Scratch *scratch, Sums *sums,
) noexcept nogil:
    """Add the moments of component k for EM over factors, from its weighted responsibilities h."""
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], stride = scratch.stride
    cdef double *projected = scratch.projected + mixture.offsets[k] * stride
    cdef double *first = sums.first + k * d
    cdef double *second = sums.second + k * d
    cdef double *cross = sums.cross + mixture.offsets[k] * d
    cdef Selection chosen
    if is_small(k, mixture):
        amofa_small_moments(n, d, p, h, x, ldx, mixture.means + k * d, projected, stride, first, second, cross)
        return
    chosen = select_rows(n, h, negligible * mixture.weights[k], scratch)
    if chosen.count == 0:
        return
    if chosen.rows == NULL:
        amofa_weighted_products(n, d, p, h, x, ldx, mixture.means + k * d, projected, stride, first, second, cross)
        return
    amofa_weigh_deviations(chosen.count, d, chosen.rows, scratch.roots, x, ldx, mixture.means + k * d,
                           scratch.deviations, stride, first)
    amofa_squares(chosen.count, d, scratch.deviations, stride, second)
    amofa_weigh_columns(chosen.count, p, chosen.rows, scratch.roots, projected, scratch.scaled, stride)
    amofa_products(chosen.count, p, d, scratch.scaled, scratch.deviations, stride, cross, d)


cdef void add_scatter(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const double *h, double negligible,
    const Prepared *mixture, Scratch *scratch, Sums *sums,
) noexcept nogil:
    """Add the first and all second moments of component k, from its weighted responsibilities h."""
    cdef Py_ssize_t d = mixture.n_features
    cdef const double *mean = mixture.means + k * d
    cdef double *first = sums.first + k * d
    cdef double *scatter = sums.second + k * d * d
    cdef Selection chosen
    if d <= AMOFA_SMALL_FEATURES:
        amofa_small_scatter(n, d, h, x, ldx, mean, first, scatter)
        return
    chosen = select_rows(n, h, negligible * mixture.weights[k], scratch)
    if chosen.count == 0:
        return
    # Rows times the square root of their responsibility: one symmetric product gives the scatter.
    amofa_weigh_deviations(chosen.count, d, chosen.rows, scratch.roots, x, ldx, mean, scratch.deviations,
                           scratch.stride, first)
    if d <= MOST_OWN_PRODUCTS:
        amofa_self_products(chosen.count, d, scratch.deviations, scratch.stride, scatter, d)
    else:
        syrk_lower(d, chosen.count, 1.0, scratch.deviations, scratch.stride, 1.0, scatter, d)


cdef void set_moments(
    Py_ssize_t d, double count, double tail_count, const double *old_mean, const double *first, const double *scatter,
    double *mean, double *covariance,
) noexcept nogil:
    """Compute the new mean old_mean + m, m = first / tail_count, and the second moments about it.

    These are (scatter - tail_count m m') / count: the M-step of a mixture of t components (Peel & McLachlan 2000), and
    the covariance of normal ones, where both counts are the same. They may replace the sums. Without rows, the mean
    stays the same and covariances are 0.
    """
    cdef Py_ssize_t i, j
    cdef double inverse = 1.0 / count if count > 0.0 else 0.0
    cdef double tail_inverse = 1.0 / tail_count if tail_count > 0.0 else 0.0, share = tail_count * inverse
    if tail_count == count:
        share = 1.0
    for i in range(d):
        mean[i] = first[i] * tail_inverse
        for j in range(i + 1):
            covariance[i * d + j] = scatter[i * d + j] * inverse - share * mean[i] * mean[j]
            covariance[j * d + i] = covariance[i * d + j]
    for i in range(d):
        mean[i] += old_mean[i]


# ---- what Python calls -----------------------------------------------------------------------------------------------

cdef Py_ssize_t checked_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets, bint full) except -1:
    if full and is_beyond_memory(<double> K * d * d):
        raise ValueError("offsets and n_features make arrays that no memory holds")
    return sums_length(K, d, offsets, full)


cdef int add_rows(
    const double[:, ::1] x, const double[::1] row_weights, bint with_entropy, const Prepared *mixture,
    Scratch *scratch, Sums *sums,
) except -1:
    """Check rows and add them."""
    cdef Py_ssize_t n = x.shape[1]
    if x.shape[0] != mixture.n_features:
        raise ValueError("x must have one row per feature")
    check_rows(n, row_weights)
    if n == 0:
        return 0
    cdef const double *w = &row_weights[0] if row_weights is not None else NULL
    with nogil:
        accumulate_rows(n, &x[0, 0], n, w, with_entropy, mixture, scratch, sums)
    return 0


def sums_size(const Py_ssize_t[::1] offsets not None, Py_ssize_t n_features, bint full=False):
    """Return the length of an array of sums, in float64 values: see `accumulate`."""
    check_layout(offsets, n_features)
    return checked_length(offsets.shape[0] - 1, n_features, &offsets[0], full)


def accumulate(
    const double[:, ::1] x not None,  # IN   (d, n)
    const double[::1] row_weights,  # IN   (n), or None for ones
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    const double[::1] prepared not None,  # IN
    double[::1] sums not None,  # INOUT, added to
    double[::1] work not None,  # WORK
    bint full=False,
    bint with_entropy=True,
):
    """Add the sufficient statistics of the columns of x to sums, and change nothing else.

    The sums of two sets of rows under the same mixture are the sum of the two arrays. One after the other they are:
    the log-likelihood and the entropy of the responsibilities (nats; the latter only if it is asked for); the soft
    counts (K); sums of h e (K, d) with e = x - mean_k; then, for EM over factors, sums of h e^2 (K, d) and of
    h (W_k e) e' (P, d), or, if ``full``, sums of h e e' (K, d, d), of which only the lower triangles count, and of h
    (K). Where full, rows of t components are weighed by h u in place of h in all but the soft counts,
    u = (nu + d) / (nu + m) with the squared Mahalanobis distance m.

    The cost is O(n d P), or O(n K d^2) if ``full``. Raises ValueError if lengths do not match.
    """
    cdef Prepared mixture = checked_mixture(prepared, offsets, x.shape[0])
    check_work(&mixture, work)
    if sums.shape[0] != checked_length(mixture.n_components, mixture.n_features, mixture.offsets, full):
        raise ValueError("sums has the wrong length for these offsets and features")
    cdef Scratch scratch = view_scratch(&mixture, &work[0])
    cdef Sums view = view_sums(mixture.n_components, mixture.n_features, full, &sums[0])
    add_rows(x, row_weights, with_entropy, &mixture, &scratch, &view)
