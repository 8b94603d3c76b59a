"""Mixtures in memory: the layout of their parameters, and parameters prepared for the E-step.

With W = L^-1 Lambda' Psi^-1 and L L' = I + Lambda' Psi^-1 Lambda (the capacitance), Woodbury's identity gives the
squared Mahalanobis distance of x - mu = e as sum_j e_j^2 / psi_j - |W e|^2 and the determinant lemma gives
log |Sigma| = sum_j log psi_j + 2 sum_q log L_qq. No d x d matrix is formed.

If the capacitance is large, the difference loses its digits, and the sum I + Lambda' Psi^-1 Lambda those of its
small eigenvalues. L and W then come from an orthogonal decomposition, [Lambda' Psi^-1/2, I] = L [W Psi^1/2, L^-1],
which does not form the sum, and distances come from the residuals of the factors.
"""

from libc.math cimport INFINITY, M_PI, fabs, lgamma, log, log1p, sqrt
from libc.string cimport memcpy

from amofa._kernels._blas cimport cholesky_lower, lower_orthogonal, solve_lower, syrk_lower

cdef extern from "simd.h" nogil:
    enum: AMOFA_SMALL_FEATURES

# A block of rows should be long enough for products of matrices to run at full speed, also for its rows of one
# component; with its deviations, it should not be much larger than the second-level cache (1 MB each). Blocks of few
# features, which have their own loops, stay in the first-level cache. Strides of an odd number of cache lines (8
# values) keep features from colliding there.
cdef enum:
    BLOCK_VALUES = 131072
    BLOCK_ROWS_MAX = 1032
    BLOCK_ROWS_MAX_SMALL = 264
    BLOCK_ROWS_MIN = 24

# The difference in Woodbury's form, and its Cholesky factor, lose as many digits as the largest eigenvalue of the
# capacitance has. Beyond this value the factor comes from an orthogonal decomposition, and the distance from the
# residuals of the factors, at twice the work.
cdef double RESIDUAL_CAPACITANCE = 1e3

# Residuals are smaller than their terms by the root of the capacitance. Up to this value they lose three digits; beyond
# it, they are computed in twice the precision, at 1.3 times (3 features) to 3 times (1000) the work.
cdef double EXACT_RESIDUAL_CAPACITANCE = 1e6

# From this number of degrees of freedom, two terms of Stirling's series are exact to the last bit.
cdef double MANY_DEGREES = 1000.0

# A row of [Psi^-1/2 Lambda; I]: its largest magnitude, and its number.
cdef struct SizedRow:
    double size
    Py_ssize_t number


# ---- layout ----------------------------------------------------------------------------------------------------------

cdef Parameters view_parameters(Py_ssize_t K, Py_ssize_t d, double *buffer) noexcept nogil:
    cdef Parameters view
    view.weights = buffer
    view.degrees_of_freedom = view.weights + K
    view.means = view.degrees_of_freedom + K
    view.uniquenesses = view.means + K * d
    view.loadings = view.uniquenesses + K * d
    return view


cdef Prepared view_prepared(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets, double *buffer) noexcept nogil:
    cdef Prepared view
    view.n_components = K
    view.n_features = d
    view.offsets = offsets
    view.weights = buffer
    view.degrees_of_freedom = view.weights + K
    view.log_constants = view.degrees_of_freedom + K
    view.form = view.log_constants + K
    view.means = view.form + K
    view.inverse_uniquenesses = view.means + K * d
    view.loadings = view.inverse_uniquenesses + K * d
    view.projections = view.loadings + offsets[K] * d
    view.choleskys = view.projections + offsets[K] * d
    view.preparation = view.choleskys + squared_factors(K, offsets)
    return view


cdef Scratch view_scratch(const Prepared *mixture, double *work) noexcept nogil:
    return view_scratch_of(block_rows(mixture.n_features), mixture, work)


cdef Scratch view_scratch_of(Py_ssize_t n, const Prepared *mixture, double *work) noexcept nogil:
    """Return scratch for n rows, a multiple of 8."""
    cdef Scratch view
    cdef Py_ssize_t K = mixture.n_components
    view.stride = n
    # Rows of all arrays begin with a cache line: vectors do not straddle two.
    view.deviations = <double *> ((<size_t> work + 63) & ~(<size_t> 63))
    view.projected = view.deviations + n * mixture.n_features
    view.scaled = view.projected + n * mixture.offsets[K]
    view.log_joint = view.scaled + n * most_factors(K, mixture.offsets)
    view.responsibilities = view.log_joint + n * K
    view.log_density = view.responsibilities + n * K
    view.row_sum = view.log_density + n
    view.roots = view.row_sum + n
    view.rows = <int *> (view.roots + n)
    return view


cdef Py_ssize_t block_rows(Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t most = BLOCK_ROWS_MAX_SMALL if d <= AMOFA_SMALL_FEATURES else BLOCK_ROWS_MAX
    return max(BLOCK_ROWS_MIN, min(most, BLOCK_VALUES // d // 16 * 16 + 8))


cdef Py_ssize_t most_factors(Py_ssize_t K, const Py_ssize_t *offsets) noexcept nogil:
    cdef Py_ssize_t k, most = 0
    for k in range(K):
        most = max(most, offsets[k + 1] - offsets[k])
    return most


cdef Py_ssize_t n_parameters_stored(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil:
    return 2 * K + 2 * K * d + offsets[K] * d


cdef Py_ssize_t prepared_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil:
    return (4 * K + 2 * K * d + 2 * offsets[K] * d + squared_factors(K, offsets)
            + orthogonal_length(d, most_factors(K, offsets)))


cdef Py_ssize_t squared_factors(Py_ssize_t K, const Py_ssize_t *offsets) noexcept nogil:
    cdef Py_ssize_t k, squares = 0
    for k in range(K):
        squares += (offsets[k + 1] - offsets[k]) * (offsets[k + 1] - offsets[k])
    return squares


cdef Py_ssize_t orthogonal_length(Py_ssize_t d, Py_ssize_t p) noexcept nogil:
    """Return the number of values of memory for `orthogonal_form`."""
    return p * (d + p) + 2 * (d + p) + 2 * p if p else 0


cdef Py_ssize_t scratch_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil:
    return scratch_length_of(block_rows(d), K, d, offsets)


cdef Py_ssize_t scratch_length_of(
    Py_ssize_t n, Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets,
) noexcept nogil:
    return n * (d + offsets[K] + most_factors(K, offsets) + 2 * K + 4) + 7


cdef bint is_too_large(Py_ssize_t K, Py_ssize_t d, Py_ssize_t P) noexcept nogil:
    """Return whether the lengths above, or those of statistics, might overflow Py_ssize_t.

    All are below this product; larger ones would not fit into memory anyway.
    """
    return is_beyond_memory(4.0 * (<double> K + P + 2 * BLOCK_ROWS_MAX) * (<double> K + P + d + 4.0))


# ---- preparation -----------------------------------------------------------------------------------------------------

cdef Py_ssize_t prepare_mixture(const Parameters *parameters, Prepared *mixture) noexcept nogil:
    """Prepare the E-step. Returns 0, or 1 + the component whose covariance is not finite and positive.

    The cost is O(sum_k d p_k^2).
    """
    cdef Py_ssize_t K = mixture.n_components, d = mixture.n_features, k, status
    cdef double *cholesky = mixture.choleskys
    memcpy(mixture.weights, parameters.weights, K * sizeof(double))
    for k in range(K):
        mixture.degrees_of_freedom[k] = (
            parameters.degrees_of_freedom[k] if parameters.degrees_of_freedom != NULL else INFINITY)
    memcpy(mixture.means, parameters.means, K * d * sizeof(double))
    # Without factors there may be no loadings.
    if mixture.offsets[K]:
        memcpy(mixture.loadings, parameters.loadings, mixture.offsets[K] * d * sizeof(double))
    for k in range(K):
        status = prepare_component(k, parameters, mixture, cholesky)
        if status:
            return k + 1
        cholesky += (mixture.offsets[k + 1] - mixture.offsets[k]) * (mixture.offsets[k + 1] - mixture.offsets[k])
    return 0


cdef int prepare_component(
    Py_ssize_t k, const Parameters *parameters, Prepared *mixture, double *cholesky,
) noexcept nogil:
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], j, q
    cdef const double *psi = parameters.uniquenesses + k * d
    cdef const double *loadings = mixture.loadings + mixture.offsets[k] * d
    cdef double *inverse = mixture.inverse_uniquenesses + k * d
    cdef double *projection = mixture.projections + mixture.offsets[k] * d
    cdef double log_determinant = 0.0, largest = 1.0, root

    if not 0.0 <= parameters.weights[k] < INFINITY or not mixture.degrees_of_freedom[k] > 0.0:
        return 1
    for j in range(d):
        if not -INFINITY < parameters.means[k * d + j] < INFINITY:
            return 1
        inverse[j] = 1.0 / psi[j]
        if not 0.0 < inverse[j] < INFINITY:
            return 1
        log_determinant += log(psi[j])
    if p:
        for j in range(d):
            root = sqrt(inverse[j])
            for q in range(p):
                projection[q * d + j] = loadings[q * d + j] * root
        syrk_lower(p, d, 1.0, projection, d, 0.0, cholesky, p)
        for q in range(p):
            cholesky[q * p + q] += 1.0
            largest = max(largest, cholesky[q * p + q])
        if not largest < INFINITY:
            return 1
        if largest > RESIDUAL_CAPACITANCE:
            if orthogonal_form(p, d, inverse, projection, cholesky, mixture.preparation):
                return 1
        else:
            if cholesky_lower(p, cholesky, p):
                return 1
            for q in range(p):
                for j in range(d):
                    projection[q * d + j] = loadings[q * d + j] * inverse[j]
            solve_lower(b"N", p, d, cholesky, p, projection, d)
        for q in range(p):
            log_determinant += 2.0 * log(cholesky[q * p + q])
    # Infinite loadings and NaN end up here.
    if not -INFINITY < log_determinant < INFINITY:
        return 1
    mixture.form[k] = (EXACT_RESIDUAL if largest > EXACT_RESIDUAL_CAPACITANCE
                       else RESIDUAL if largest > RESIDUAL_CAPACITANCE else WOODBURY)
    mixture.log_constants[k] = log(parameters.weights[k]) - 0.5 * (
        log_normaliser(d, mixture.degrees_of_freedom[k]) + log_determinant)
    return 0


cdef double log_normaliser(Py_ssize_t d, double degrees_of_freedom) noexcept nogil:
    """Return -2 times the log of the constant of a normal or a t density with unit scale matrix."""
    cdef double a = 0.5 * degrees_of_freedom, b = 0.5 * d
    if degrees_of_freedom == INFINITY:
        return d * log(2.0 * M_PI)
    if degrees_of_freedom < MANY_DEGREES:
        return d * log(degrees_of_freedom * M_PI) + 2.0 * (lgamma(a) - lgamma(a + b))
    # Gamma functions of large numbers differ by less than their rounding: by Stirling's series (DLMF 5.11.1), log
    # Gamma(a + b) - log Gamma(a) - b log a is this.
    return d * log(2.0 * M_PI) - 2.0 * (
        (a + b - 0.5) * log1p(b / a) - b + stirling_correction(a + b) - stirling_correction(a))


cdef double stirling_correction(double x) noexcept nogil:
    """Return log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2 of a large number."""
    return (1.0 - 1.0 / (30.0 * x * x)) / (12.0 * x)


cdef int orthogonal_form(
    Py_ssize_t p, Py_ssize_t d, const double *inverse, double *projection, double *cholesky, double *memory,
) noexcept nogil:
    """Compute L and W from Lambda' Psi^-1/2 in `projection` (p, d), without the capacitance. Returns 0.

    With [Lambda' Psi^-1/2, I] = L Q, L L' is the capacitance, and the first d columns of Q are W Psi^1/2. Householder
    reflections preserve the digits of each feature, however large others are, if the largest come first (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., section 19.4).
    """
    cdef Py_ssize_t m = d + p, q, i, j
    cdef double *matrix = memory                              # (p, m)
    cdef SizedRow *rows = <SizedRow *> (matrix + p * m)       # (m)
    cdef double *work = matrix + p * m + 2 * m                # (2 p)
    for i in range(m):
        rows[i].number, rows[i].size = i, 0.0 if i < d else 1.0
    for q in range(p):
        for j in range(d):
            rows[j].size = max(rows[j].size, fabs(projection[q * d + j]))
    largest_first(m, rows)
    for i in range(m):
        j = rows[i].number
        for q in range(p):
            matrix[q * m + i] = projection[q * d + j] if j < d else <double> (j - d == q)
    if lower_orthogonal(p, m, matrix, m, cholesky, p, work):
        return 1
    for i in range(m):
        j = rows[i].number
        if j < d:
            for q in range(p):
                projection[q * d + j] = matrix[q * m + i] * sqrt(inverse[j])
    return 0


cdef void largest_first(Py_ssize_t n, SizedRow *rows) noexcept nogil:
    """Sort rows in place, by Shell's method."""
    cdef Py_ssize_t gap = n // 2, i, j
    cdef SizedRow row
    while gap:
        for i in range(gap, n):
            row, j = rows[i], i
            while j >= gap and rows[j - gap].size < row.size:
                rows[j] = rows[j - gap]
                j -= gap
            rows[j] = row
        gap //= 2


# ---- what Python calls -----------------------------------------------------------------------------------------------

# Forms of the distance, from the one in which least digits are at stake.
WOODBURY_FORM, RESIDUAL_FORM = WOODBURY, RESIDUAL


cdef Prepared checked_mixture(const double[::1] prepared, const Py_ssize_t[::1] offsets, Py_ssize_t d):
    cdef Py_ssize_t K = offsets.shape[0] - 1
    check_offsets(offsets)
    check_size(K, d, offsets[K])
    if d < 1 or prepared.shape[0] != prepared_length(K, d, &offsets[0]):
        raise ValueError("prepared has the wrong length for these offsets and features")
    return view_prepared(K, d, &offsets[0], <double *> &prepared[0])


cdef int check_layout(const Py_ssize_t[::1] offsets, Py_ssize_t d) except -1:
    check_offsets(offsets)
    if d < 1:
        raise ValueError("n_features must be positive")
    check_size(offsets.shape[0] - 1, d, offsets[offsets.shape[0] - 1])
    return 0


cdef int check_size(Py_ssize_t K, Py_ssize_t d, Py_ssize_t P) except -1:
    if is_too_large(K, d, P):
        raise ValueError("offsets and n_features make arrays that no memory holds")
    return 0


cdef int check_offsets(const Py_ssize_t[::1] offsets) except -1:
    cdef Py_ssize_t k
    if offsets.shape[0] < 2 or offsets[0] != 0:
        raise ValueError("offsets must start with 0 and have one entry more than there are components")
    for k in range(offsets.shape[0] - 1):
        if offsets[k + 1] < offsets[k]:
            raise ValueError("offsets must not decrease")
    return 0


cdef int check_parameters(const Prepared *mixture, const double[::1] parameters) except -1:
    if parameters.shape[0] != n_parameters_stored(mixture.n_components, mixture.n_features, mixture.offsets):
        raise ValueError("parameters has the wrong length for these offsets and features")
    return 0


cdef int check_rows(Py_ssize_t n, const double[::1] row_weights) except -1:
    if row_weights is not None and row_weights.shape[0] != n:
        raise ValueError("row_weights must have one entry per row")
    return 0


cdef int check_work(const Prepared *mixture, double[::1] work) except -1:
    if work.shape[0] < scratch_length(mixture.n_components, mixture.n_features, mixture.offsets):
        raise ValueError("work is too short")
    return 0


def buffer_lengths(const Py_ssize_t[::1] offsets not None, Py_ssize_t n_features):
    """Return the lengths of the parameter, prepared and work buffers, in float64 values.

    Offsets (K + 1,) start the factors of each component; the last entry is the number of all factors.
    """
    cdef Py_ssize_t K = offsets.shape[0] - 1
    check_layout(offsets, n_features)
    return (n_parameters_stored(K, n_features, &offsets[0]), prepared_length(K, n_features, &offsets[0]),
            scratch_length(K, n_features, &offsets[0]))


def prepare(
    const double[::1] parameters not None,  # IN   (2 K + 2 K d + P d)
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    Py_ssize_t n_features,
    double[::1] prepared not None,  # OUT  see buffer_lengths
):
    """Transform parameters to the form that the E-step uses.

    Raises ValueError if a buffer has the wrong length, and FloatingPointError if a component's capacitance overflows:
    its uniquenesses are too small for its loadings.
    """
    cdef Prepared mixture = checked_mixture(prepared, offsets, n_features)
    cdef Parameters view
    cdef Py_ssize_t status
    check_parameters(&mixture, parameters)
    view = view_parameters(mixture.n_components, n_features, <double *> &parameters[0])
    with nogil:
        status = prepare_mixture(&view, &mixture)
    if status:
        raise FloatingPointError(f"the covariance of component {status - 1} is numerically singular")
