"""The E-step: log joint densities, log densities, responsibilities and factor scores of a block of rows.

`amofa._kernels._mixture` describes how distances are computed.
"""

from libc.math cimport INFINITY, exp, expm1, log, log1p
from libc.string cimport memcpy

from amofa._kernels._blas cimport gemm, solve_lower
from amofa._kernels._mixture cimport (
    EXACT_RESIDUAL, WOODBURY, Prepared, Scratch, check_work, checked_mixture, view_scratch)

cdef extern from "simd.h" nogil:
    void amofa_deviations(Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t ldx, const double *mean,
                          double *dev, Py_ssize_t ld)
    void amofa_scaled_squares(Py_ssize_t n, Py_ssize_t d, const double *dev, Py_ssize_t ld, const double *scale,
                              double *out)
    void amofa_residual_squares(Py_ssize_t n, Py_ssize_t d, Py_ssize_t p, const double *x, Py_ssize_t ldx,
                                const double *mean, const double *loadings, const double *z, Py_ssize_t ld,
                                const double *scale, double *out)
    double amofa_residual_distance(bint exact, Py_ssize_t d, Py_ssize_t p, const double *x, Py_ssize_t ldx,
                                   const double *mean, const double *scale, const double *w, const double *cholesky,
                                   const double *loadings, double *projected, Py_ssize_t ld, double *e,
                                   double *z)
    void amofa_add_squares(Py_ssize_t n, Py_ssize_t p, double sign, const double *v, Py_ssize_t ld, double *out)
    enum: AMOFA_SMALL_FEATURES
    enum: AMOFA_SMALL_FACTORS
    void amofa_small_log_joint(Py_ssize_t n, Py_ssize_t d, Py_ssize_t p, const double *x, Py_ssize_t ldx,
                               const double *mean, const double *scale, const double *w, double constant,
                               double *projected, Py_ssize_t ld, double *log_joint)
    void amofa_log_joint(Py_ssize_t n, double constant, double *distance)
    double amofa_responsibilities(Py_ssize_t n, Py_ssize_t K, const double *log_joint, Py_ssize_t ld,
                                  const double *weights, double *log_density, double *sum, double *resp)
    void amofa_add_background(Py_ssize_t n, double log_rest, double log_weight, const double *background,
                              double *log_density, double *share)

cdef extern from "products.h" nogil:
    void amofa_distances(Py_ssize_t n, Py_ssize_t d, Py_ssize_t p, const double *x, Py_ssize_t ldx, const double *mean,
                         const double *scale, const double *w, double *projected, Py_ssize_t ld, double *distance)

cdef enum:
    # Number of rows of a block whose features stay in the first-level cache for all components.
    TILE_VALUES = 2048
    TILE_ROWS_MAX = 256
    TILE_ROWS_MIN = 32


# ---- one block of rows -----------------------------------------------------------------------------------------------

cdef Py_ssize_t tile_rows(Py_ssize_t d) noexcept nogil:
    return max(TILE_ROWS_MIN, min(TILE_ROWS_MAX, TILE_VALUES // d // TILE_ROWS_MIN * TILE_ROWS_MIN))


cdef bint is_small(Py_ssize_t k, const Prepared *mixture) noexcept nogil:
    """Return whether component k uses loops without BLAS, which have no residual form."""
    return (mixture.n_features <= AMOFA_SMALL_FEATURES and mixture.form[k] == WOODBURY
            and mixture.offsets[k + 1] - mixture.offsets[k] <= AMOFA_SMALL_FACTORS)


cdef double constant_of_distance(Py_ssize_t k, const Prepared *mixture) noexcept nogil:
    """Return what is added to half a squared distance: the constant of a t density comes later."""
    return mixture.log_constants[k] if mixture.degrees_of_freedom[k] == INFINITY else 0.0


cdef void set_tails(Py_ssize_t n, Py_ssize_t k, const Prepared *mixture, double *log_joint) noexcept nogil:
    """Turn minus half the squared distances m from component k into log joint densities, if its density is a t.

    log t = constant - (nu + d)/2 log(1 + m / nu)   (McLachlan, Bean & Ben-Tovim Jones 2007, eq. 5).
    """
    cdef double nu = mixture.degrees_of_freedom[k], constant = mixture.log_constants[k]
    cdef double half = 0.5 * (nu + mixture.n_features), scale = -2.0 / nu
    cdef Py_ssize_t i
    if nu == INFINITY:
        return
    for i in range(n):
        log_joint[i] = constant - half * log1p(max(scale * log_joint[i], 0.0))


cdef void undo_tails(Py_ssize_t n, Py_ssize_t k, const Prepared *mixture, double *log_joint) noexcept nogil:
    """Turn log joint densities of a t component k into constant - m / 2, as of a normal one."""
    cdef double nu = mixture.degrees_of_freedom[k], constant = mixture.log_constants[k]
    cdef double scale = 2.0 / (nu + mixture.n_features)
    cdef Py_ssize_t i
    if nu == INFINITY:
        return
    for i in range(n):
        log_joint[i] = constant - 0.5 * nu * expm1(scale * (constant - log_joint[i]))


cdef void weigh_tails(
    Py_ssize_t n, Py_ssize_t k, const Prepared *mixture, const double *log_joint, double *h,
) noexcept nogil:
    """Multiply responsibilities for component k by u = (nu + d) / (nu + m), from its log joint densities."""
    cdef double nu = mixture.degrees_of_freedom[k], constant = mixture.log_constants[k]
    cdef double scale = 2.0 / (nu + mixture.n_features), most = 1.0 + mixture.n_features / nu
    cdef Py_ssize_t i
    for i in range(n):
        if h[i] > 0.0:
            h[i] *= most * exp(scale * (log_joint[i] - constant))


cdef void residual_log_joint(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const double *cholesky, const Prepared *mixture,
    Scratch *scratch,
) noexcept nogil:
    """Compute the log joint density of every row with component k, and W_k (x - mean_k), by residuals.

    |Psi^(-1/2) (e - Lambda z)|^2 + |z|^2 with z = E[z | x] = L^-T W e: no difference of large numbers.
    """
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], stride = scratch.stride
    cdef const double *inverse = mixture.inverse_uniquenesses + k * d
    cdef const double *loadings = mixture.loadings + mixture.offsets[k] * d
    cdef double *projected = scratch.projected + mixture.offsets[k] * stride
    cdef double *distance = scratch.log_joint + k * stride
    if n == 1:
        distance[0] = amofa_residual_distance(
            mixture.form[k] == EXACT_RESIDUAL, d, p, x, ldx, mixture.means + k * d, inverse,
            mixture.projections + mixture.offsets[k] * d, cholesky, loadings, projected, stride, scratch.deviations,
            scratch.scaled)
    else:
        residual_distances(n, x, ldx, k, cholesky, mixture, scratch)
    amofa_log_joint(n, constant_of_distance(k, mixture), distance)
    set_tails(n, k, mixture, distance)


cdef void residual_distances(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const double *cholesky, const Prepared *mixture,
    Scratch *scratch,
) noexcept nogil:
    """Compute squared distances of many rows from component k, in the place of log joint densities."""
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], stride = scratch.stride
    cdef const double *inverse = mixture.inverse_uniquenesses + k * d
    cdef const double *loadings = mixture.loadings + mixture.offsets[k] * d
    cdef double *projected = scratch.projected + mixture.offsets[k] * stride
    cdef double *distance = scratch.log_joint + k * stride
    amofa_deviations(n, d, x, ldx, mixture.means + k * d, scratch.deviations, stride)
    gemm(b"N", b"N", p, n, d, 1.0, mixture.projections + mixture.offsets[k] * d, d, scratch.deviations, stride, 0.0,
         projected, stride)
    memcpy(scratch.scaled, projected, p * stride * sizeof(double))
    solve_lower(b"T", p, n, cholesky, p, scratch.scaled, stride)
    if mixture.form[k] == EXACT_RESIDUAL:
        amofa_residual_squares(n, d, p, x, ldx, mixture.means + k * d, loadings, scratch.scaled, stride, inverse,
                               distance)
    else:
        gemm(b"T", b"N", d, n, p, -1.0, loadings, d, scratch.scaled, stride, 1.0, scratch.deviations, stride)
        amofa_scaled_squares(n, d, scratch.deviations, stride, inverse, distance)
    amofa_add_squares(n, p, 1.0, scratch.scaled, stride, distance)


cdef void tile_log_joint(
    Py_ssize_t start, Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const Prepared *mixture,
    Scratch *scratch,
) noexcept nogil:
    """Compute the same for n rows from `start`, by Woodbury's identity."""
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], stride = scratch.stride
    cdef const double *mean = mixture.means + k * d
    cdef const double *inverse = mixture.inverse_uniquenesses + k * d
    cdef const double *projection = mixture.projections + mixture.offsets[k] * d
    cdef double *projected = scratch.projected + mixture.offsets[k] * stride + start
    cdef double *log_joint = scratch.log_joint + k * stride + start
    if is_small(k, mixture):
        amofa_small_log_joint(n, d, p, x + start, ldx, mean, inverse, projection, constant_of_distance(k, mixture),
                              projected, stride, log_joint)
    else:
        amofa_distances(n, d, p, x + start, ldx, mean, inverse, projection, projected, stride, log_joint)
        amofa_log_joint(n, constant_of_distance(k, mixture), log_joint)
    set_tails(n, k, mixture, log_joint)


cdef double posterior_block(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const Prepared *mixture, Scratch *scratch,
) noexcept nogil:
    """Compute log joint densities, projections, log densities and responsibilities of up to `scratch.stride` rows.

    Returns the least log density.
    """
    cdef Py_ssize_t K = mixture.n_components, tile = tile_rows(mixture.n_features), start = 0, length, k, p
    cdef const double *cholesky = mixture.choleskys
    cdef double least = INFINITY
    for k in range(K):
        if mixture.form[k] != WOODBURY:
            residual_log_joint(n, x, ldx, k, cholesky, mixture, scratch)
        p = mixture.offsets[k + 1] - mixture.offsets[k]
        cholesky += p * p
    while start < n:
        length = min(tile, n - start)
        for k in range(K):
            if mixture.form[k] == WOODBURY:
                tile_log_joint(start, length, x, ldx, k, mixture, scratch)
        least = min(least, amofa_responsibilities(
            length, K, scratch.log_joint + start, scratch.stride, mixture.weights, scratch.log_density + start,
            scratch.row_sum, scratch.responsibilities + start))
        start += length
    return least


cdef void component_log_joint(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const Prepared *mixture, Scratch *scratch,
) noexcept nogil:
    """Compute log joint densities of up to `scratch.stride` rows with component k alone."""
    cdef Py_ssize_t tile = tile_rows(mixture.n_features), start = 0, j, p
    cdef const double *cholesky = mixture.choleskys
    if mixture.form[k] == WOODBURY:
        while start < n:
            tile_log_joint(start, min(tile, n - start), x, ldx, k, mixture, scratch)
            start += tile
    else:
        for j in range(k):
            p = mixture.offsets[j + 1] - mixture.offsets[j]
            cholesky += p * p
        residual_log_joint(n, x, ldx, k, cholesky, mixture, scratch)


cdef void posterior_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const Prepared *mixture, Scratch *scratch, Py_ssize_t ld,
    double *log_density, double *log_joint, double *responsibilities, double *scores,
) noexcept nogil:
    """Evaluate any number of rows, block by block. Outputs have the row stride ld; each may be NULL."""
    cdef Py_ssize_t K = mixture.n_components, start = 0, length
    while start < n:
        length = min(scratch.stride, n - start)
        posterior_block(length, x + start, ldx, mixture, scratch)
        give_out(length, 1, scratch.log_density, scratch.stride, log_density, start, ld)
        give_out(length, K, scratch.log_joint, scratch.stride, log_joint, start, ld)
        give_out(length, K, scratch.responsibilities, scratch.stride, responsibilities, start, ld)
        if scores != NULL:
            block_scores(length, mixture, scratch)
            give_out(length, mixture.offsets[K], scratch.projected, scratch.stride, scores, start, ld)
        start += length


cdef void give_out(
    Py_ssize_t n, Py_ssize_t m, const double *values, Py_ssize_t stride, double *out, Py_ssize_t start, Py_ssize_t ld,
) noexcept nogil:
    """Copy m rows of n values to the columns from `start` of an output, if there is one."""
    cdef Py_ssize_t k
    if out != NULL:
        for k in range(m):
            memcpy(out + k * ld + start, values + k * stride, n * sizeof(double))


cdef void block_scores(Py_ssize_t n, const Prepared *mixture, Scratch *scratch) noexcept nogil:
    """Turn the projections W e into factor scores L^-T W e, in place."""
    cdef Py_ssize_t k, p
    cdef const double *cholesky = mixture.choleskys
    for k in range(mixture.n_components):
        p = mixture.offsets[k + 1] - mixture.offsets[k]
        solve_lower(b"T", p, n, cholesky, p, scratch.projected + mixture.offsets[k] * scratch.stride, scratch.stride)
        cholesky += p * p


# ---- what Python calls -----------------------------------------------------------------------------------------------

def posterior(
    const double[:, ::1] x not None,  # IN   (d, n)
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    const double[::1] prepared not None,  # IN
    double[::1] log_density not None,  # OUT  (n) nats
    double[:, ::1] log_joint,  # OUT  (K, n) nats, or None
    double[:, ::1] responsibilities,  # OUT  (K, n), or None
    double[:, ::1] scores,  # OUT  (P, n), E[z | x, k], or None
    double[::1] work not None,  # WORK
):
    """Compute posterior quantities of the columns of x, in blocks. The cost is O(n d P)."""
    cdef Py_ssize_t d = x.shape[0], n = x.shape[1]
    cdef Prepared mixture = checked_mixture(prepared, offsets, d)
    cdef Py_ssize_t K = mixture.n_components
    cdef Scratch scratch
    if log_density.shape[0] != n:
        raise ValueError("log_density must have one entry per row")
    if log_joint is not None and (log_joint.shape[0] != K or log_joint.shape[1] != n):
        raise ValueError("log_joint must have shape (n_components, n)")
    if responsibilities is not None and (responsibilities.shape[0] != K or responsibilities.shape[1] != n):
        raise ValueError("responsibilities must have shape (n_components, n)")
    if scores is not None and (scores.shape[0] != mixture.offsets[K] or scores.shape[1] != n):
        raise ValueError("scores must have shape (n_factors in all, n)")
    check_work(&mixture, work)
    if n == 0:
        return
    with nogil:
        scratch = view_scratch(&mixture, &work[0])
        posterior_rows(n, &x[0, 0], n, &mixture, &scratch, n, &log_density[0],
                       &log_joint[0, 0] if log_joint is not None else NULL,
                       &responsibilities[0, 0] if responsibilities is not None else NULL,
                       &scores[0, 0] if scores is not None and mixture.offsets[K] else NULL)


def add_background(
    const double[::1] background not None,  # IN   (n) log densities, nats
    double weight,
    double[::1] log_density not None,  # INOUT  (n) nats, of the components
    double[::1] share not None,  # OUT  (n)
):
    """Add a background to the components: log densities of both, and the posterior probability of the components."""
    cdef Py_ssize_t n = background.shape[0]
    if log_density.shape[0] != n or share.shape[0] != n or not 0.0 < weight < 1.0:
        raise ValueError("arrays must have one entry per row, and weight must be between 0 and 1")
    if n:
        with nogil:
            amofa_add_background(n, log1p(-weight), log(weight), &background[0], &log_density[0], &share[0])
