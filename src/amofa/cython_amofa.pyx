"""Bodies of the public C-level functions: thin wrappers of the kernels that the Python code uses, too.

They are documented in amofa/cython_amofa.pxd.
"""

from libc.math cimport INFINITY, isfinite, sqrt
from libc.string cimport memcpy, memset

import numpy as np

from amofa._kernels._kurtosis cimport accumulate_kurtosis_rows
from amofa._kernels._newton cimport (
    Prices, Problem, Space, best_number, is_space_too_large, search, set_loadings, set_uniquenesses, space_length,
    start_from, view_space)
from amofa._kernels._mixture cimport (
    Parameters, Prepared, Scratch, block_rows, check_layout, is_too_large, n_parameters_stored,
    prepare_mixture as prepare_all, prepared_length, scratch_length, view_parameters, view_prepared, view_scratch)
from amofa._kernels._posterior cimport posterior_rows
from amofa._kernels._standard cimport maximize_component as maximize_one, maximize_length
from amofa._kernels._statistics cimport Sums, accumulate_rows, set_moments, sums_length, view_sums

# Marks an array as a prepared mixture: as a double, a number far below the smallest normal one.
cdef Py_ssize_t MARK = 0x616d6f66
# Status codes; see the .pxd.
cdef enum:
    BAD_ARGUMENT = -1
    NO_ROWS = -2
# A prepared mixture begins with integers in the places of doubles: MARK, K, d, and the K + 1 offsets.
cdef enum:
    OFFSETS = 3
    # Number of rows that are transposed at a time: one cache line of each feature.
    STRIP = 8


# ---- a mixture -------------------------------------------------------------------------------------------------------

cdef Py_ssize_t mixture_size(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets,
) noexcept nogil:
    cdef Py_ssize_t k
    if n_components < 1 or n_features < 1 or offsets[0] != 0:
        return BAD_ARGUMENT
    for k in range(n_components):
        if offsets[k + 1] < offsets[k]:
            return BAD_ARGUMENT
    if is_too_large(n_components, n_features, offsets[n_components]):
        return BAD_ARGUMENT
    return header_size(n_components) + prepared_length(n_components, n_features, offsets)


cdef Py_ssize_t header_size(Py_ssize_t K) noexcept nogil:
    return OFFSETS + K + 1


cdef int prepare_mixture(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets, const double *weights,
    const double *means, const double *loadings, const double *uniquenesses, double *mixture,
) noexcept nogil:
    cdef Py_ssize_t *header = <Py_ssize_t *> mixture
    cdef Parameters parameters
    cdef Prepared prepared
    cdef int status
    if mixture_size(n_components, n_features, offsets) < 0:
        return BAD_ARGUMENT
    header[0], header[1], header[2] = MARK, n_components, n_features
    memcpy(header + OFFSETS, offsets, (n_components + 1) * sizeof(Py_ssize_t))
    parameters.weights, parameters.means = <double *> weights, <double *> means
    parameters.loadings, parameters.uniquenesses = <double *> loadings, <double *> uniquenesses
    prepared = view_mixture(mixture)
    status = <int> prepare_all(&parameters, &prepared)
    if status:
        header[0] = 0
    return status


cdef bint is_mixture(const double *mixture) noexcept nogil:
    return mixture != NULL and (<const Py_ssize_t *> mixture)[0] == MARK


cdef Prepared view_mixture(const double *mixture) noexcept nogil:
    """What the kernels take; they do not write to it, but where it is prepared."""
    cdef const Py_ssize_t *header = <const Py_ssize_t *> mixture
    return view_prepared(header[1], header[2], header + OFFSETS, <double *> mixture + header_size(header[1]))


cdef Py_ssize_t n_components(const double *mixture) noexcept nogil:
    return (<const Py_ssize_t *> mixture)[1] if is_mixture(mixture) else BAD_ARGUMENT


cdef Py_ssize_t n_features(const double *mixture) noexcept nogil:
    return (<const Py_ssize_t *> mixture)[2] if is_mixture(mixture) else BAD_ARGUMENT


cdef Py_ssize_t n_factors(const double *mixture, Py_ssize_t k) noexcept nogil:
    cdef const Py_ssize_t *offsets = <const Py_ssize_t *> mixture + OFFSETS
    return offsets[k + 1] - offsets[k] if has_component(mixture, k) else BAD_ARGUMENT


cdef bint has_component(const double *mixture, Py_ssize_t k) noexcept nogil:
    return 0 <= k < n_components(mixture)


# ---- rows ------------------------------------------------------------------------------------------------------------

# Rows for the kernels: block after block, features first.
cdef struct Rows:
    Py_ssize_t n_rows
    const double *x
    Py_ssize_t row_stride
    Py_ssize_t feature_stride
    Prepared mixture
    Scratch scratch
    double *memory                 # (d, scratch.stride), for rows that are not features first
    Py_ssize_t start               # the block: its first row,
    Py_ssize_t length              # how many rows,
    const double *block            # (d, length)
    Py_ssize_t ld                  # the distance of two features


cdef bint read_rows(
    Rows *rows, const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride,
    Py_ssize_t feature_stride, double *work,
) noexcept nogil:
    """Prepare for `next_block`. Returns False if an argument is wrong."""
    if not is_mixture(mixture) or n_rows < 0:
        return False
    rows.n_rows, rows.x, rows.row_stride, rows.feature_stride = n_rows, x, row_stride, feature_stride
    rows.mixture = view_mixture(mixture)
    rows.scratch = view_scratch(&rows.mixture, work)
    rows.memory = work + scratch_length(rows.mixture.n_components, rows.mixture.n_features, rows.mixture.offsets)
    rows.start = rows.length = 0
    return True


cdef bint next_block(Rows *rows) noexcept nogil:
    """Go to the next block. Returns False if there is none."""
    rows.start += rows.length
    rows.length = min(rows.scratch.stride, rows.n_rows - rows.start)
    if rows.length == 0:
        return False
    rows.block, rows.ld = rows.x + rows.start * rows.row_stride, rows.feature_stride
    if rows.row_stride != 1:
        turn(rows.length, rows.mixture.n_features, rows.block, rows.row_stride, rows.feature_stride, rows.memory,
             rows.scratch.stride)
        rows.block, rows.ld = rows.memory, rows.scratch.stride
    return True


cdef void turn(
    Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride, double *out,
    Py_ssize_t ld,
) noexcept nogil:
    """Copy rows of any strides to out (d, n)."""
    cdef Py_ssize_t start = 0, length, i, j
    cdef const double *strip
    while start < n:
        length, strip = min(<Py_ssize_t> STRIP, n - start), x + start * row_stride
        for j in range(d):
            for i in range(length):
                out[j * ld + start + i] = strip[i * row_stride + j * feature_stride]
        start += length


cdef const double *weights_of(const Rows *rows, const double *row_weights) noexcept nogil:
    """Return the weights of the rows of the block."""
    return row_weights + rows.start if row_weights != NULL else NULL


cdef double *column(const Rows *rows, double *values) noexcept nogil:
    """Return the beginning of the block's part of an output (., n_rows)."""
    return values + rows.start if values != NULL else NULL


cdef Py_ssize_t rows_work_size(const double *mixture) noexcept nogil:
    cdef Prepared prepared
    if not is_mixture(mixture):
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    return (scratch_length(prepared.n_components, prepared.n_features, prepared.offsets)
            + block_rows(prepared.n_features) * prepared.n_features)


cdef int posterior(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    double *log_density, double *log_joint, double *responsibilities, double *factor_scores, double *work,
) noexcept nogil:
    cdef Rows rows
    if not read_rows(&rows, mixture, n_rows, x, row_stride, feature_stride, work):
        return BAD_ARGUMENT
    while next_block(&rows):
        posterior_rows(rows.length, rows.block, rows.ld, &rows.mixture, &rows.scratch, n_rows,
                       column(&rows, log_density), column(&rows, log_joint), column(&rows, responsibilities),
                       column(&rows, factor_scores))
    return 0


cdef Py_ssize_t statistics_size(const double *mixture) noexcept nogil:
    cdef Prepared prepared
    if not is_mixture(mixture):
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    return sums_length(prepared.n_components, prepared.n_features, prepared.offsets, False)


cdef int accumulate_statistics(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    const double *row_weights, double *statistics, double *work,
) noexcept nogil:
    return accumulate(mixture, n_rows, x, row_stride, feature_stride, row_weights, False, statistics, work)


cdef Py_ssize_t scatter_size(const double *mixture) noexcept nogil:
    cdef Py_ssize_t K = n_components(mixture), d = n_features(mixture)
    if not is_mixture(mixture) or is_space_too_large(d, K, K * d, -1):
        return BAD_ARGUMENT
    return sums_length(K, d, NULL, True)


cdef int accumulate_scatter(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    const double *row_weights, double *scatter, double *work,
) noexcept nogil:
    return accumulate(mixture, n_rows, x, row_stride, feature_stride, row_weights, True, scatter, work)


cdef int accumulate(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    const double *row_weights, bint full, double *buffer, double *work,
) noexcept nogil:
    cdef Rows rows
    cdef Sums sums
    if not read_rows(&rows, mixture, n_rows, x, row_stride, feature_stride, work):
        return BAD_ARGUMENT
    sums = view_sums(rows.mixture.n_components, rows.mixture.n_features, full, buffer)
    while next_block(&rows):
        accumulate_rows(rows.length, rows.block, rows.ld, weights_of(&rows, row_weights), True, &rows.mixture,
                        &rows.scratch, &sums)
    return 0


cdef void merge(Py_ssize_t size, const double *other, double *sums) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        sums[i] += other[i]


cdef int accumulate_kurtosis(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    const double *row_weights, double *soft_counts, double *fourth_moments, double *work,
) noexcept nogil:
    cdef Rows rows
    if not read_rows(&rows, mixture, n_rows, x, row_stride, feature_stride, work):
        return BAD_ARGUMENT
    while next_block(&rows):
        accumulate_kurtosis_rows(rows.length, rows.block, rows.ld, weights_of(&rows, row_weights), &rows.mixture,
                                 &rows.scratch, soft_counts, fourth_moments)
    return 0


cdef double standardized_kurtosis(Py_ssize_t n_features, double soft_count, double fourth_moment) noexcept nogil:
    """gamma = (b - d (d + 2)) / sqrt(8 d (d + 2) / n)   (paper, eq. mardiamvkurt)."""
    cdef double gaussian = <double> n_features * (n_features + 2)
    return (fourth_moment / soft_count - gaussian) * sqrt(soft_count / (8.0 * gaussian))


# ---- the M-step of one component -------------------------------------------------------------------------------------

cdef Py_ssize_t maximize_work_size(const double *mixture) noexcept nogil:
    cdef Py_ssize_t k, most = 0
    if not is_mixture(mixture):
        return BAD_ARGUMENT
    for k in range(n_components(mixture)):
        most = max(most, n_factors(mixture, k))
    return maximize_length(n_features(mixture), most)


cdef int maximize_component(
    const double *mixture, Py_ssize_t k, const double *statistics, const double *floor, double *mean,
    double *loadings, double *uniquenesses, double *work,
) noexcept nogil:
    cdef Prepared prepared
    cdef Sums sums
    cdef const double *cholesky
    cdef Py_ssize_t i
    if not has_component(mixture, k):
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    sums = view_sums(prepared.n_components, prepared.n_features, False, <double *> statistics)
    if not sums.soft_counts[k] > 0.0:
        return NO_ROWS
    cholesky = prepared.choleskys
    for i in range(k):
        cholesky += n_factors(mixture, i) * n_factors(mixture, i)
    if maximize_one(k, &prepared, cholesky, &sums, floor, mean, loadings, uniquenesses, work):
        return <int> k + 1
    return 0


# One factor analyser to be fitted to the second moments of a component.
cdef struct Analysis:
    double count
    Py_ssize_t[2] offsets          # 0, the number of factors
    Problem problem
    Space space


cdef Py_ssize_t fit_work_size(Py_ssize_t n_features, Py_ssize_t most_factors) noexcept nogil:
    if n_features < 1 or not 0 <= most_factors <= n_features or is_space_too_large(n_features, 1, n_features, -1):
        return BAD_ARGUMENT
    return n_features * n_features + space_length(n_features, 1, most_factors, -1)


cdef int begin_analysis(
    Analysis *analysis, const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t n_factors,
    Py_ssize_t most_factors, const double *floor, double *mean, const double *uniquenesses, double *work,
) noexcept nogil:
    """Compute mean, covariance and the problem of the uniquenesses of component k, in `work`. Returns a status."""
    cdef Prepared prepared
    cdef Sums sums
    cdef Py_ssize_t d
    if not has_component(mixture, k) or not 0 <= n_factors <= most_factors <= n_features(mixture):
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    d = prepared.n_features
    sums = view_sums(prepared.n_components, d, True, <double *> scatter)
    if not sums.soft_counts[k] > 0.0:
        return NO_ROWS
    analysis.count = sums.soft_counts[k]
    set_moments(d, analysis.count, prepared.means + k * d, sums.first + k * d, sums.second + k * d * d, mean, work)
    analysis.offsets[0], analysis.offsets[1] = 0, n_factors
    memset(&analysis.problem, 0, sizeof(Problem))
    analysis.problem.n_matrices, analysis.problem.covariances = 1, work
    analysis.problem.counts, analysis.problem.offsets = &analysis.count, analysis.offsets
    analysis.problem.floor, analysis.problem.factors_alone = floor, True
    analysis.space = view_space(d, 1, most_factors, -1, work + d * d)
    start_from(&analysis.space, &analysis.problem, uniquenesses)
    return 0


cdef bint end_analysis(
    Analysis *analysis, double found, double *loadings, double *uniquenesses, double *cost,
) noexcept nogil:
    """Copy the analyser to the outputs. Returns False if its cost is not finite."""
    if not isfinite(found):
        return False
    set_uniquenesses(&analysis.space, &analysis.problem, uniquenesses)
    set_loadings(&analysis.space, 1, analysis.offsets, loadings)
    if cost != NULL:
        cost[0] = found
    return True


cdef int fit_component(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t n_factors, const double *floor,
    Py_ssize_t max_steps, double tol, double *mean, double *loadings, double *uniquenesses, double *cost,
    double *work,
) noexcept nogil:
    cdef Analysis analysis
    cdef double found
    cdef int status = begin_analysis(&analysis, mixture, k, scatter, n_factors, n_factors, floor, mean, uniquenesses,
                                     work)
    if status:
        return status
    found = search(&analysis.space, &analysis.problem, max_steps, tol, INFINITY, 0.0)
    return 0 if end_analysis(&analysis, found, loadings, uniquenesses, cost) else <int> k + 1


cdef int choose_component(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t most_factors, const double *prices,
    const double *floor, Py_ssize_t max_steps, double tol, Py_ssize_t *n_factors, double *mean, double *loadings,
    double *uniquenesses, double *cost, double *work,
) noexcept nogil:
    cdef Analysis analysis
    cdef Prices costs
    cdef double found
    cdef int status = begin_analysis(&analysis, mixture, k, scatter, n_factors[0], most_factors, floor, mean,
                                     uniquenesses, work)
    if status:
        return status
    costs.most, costs.of_factors = most_factors, prices
    # The mean has no price.
    costs.mean, costs.least_mean = -INFINITY, 0.0
    # Every trial of another number of factors runs to its end.
    found = best_number(&analysis.space, &analysis.problem, analysis.offsets, &costs, max_steps, tol, INFINITY, tol)
    if not end_analysis(&analysis, found, loadings, uniquenesses, cost):
        return <int> k + 1
    n_factors[0] = analysis.offsets[1]
    return 0


# ---- what Python calls -----------------------------------------------------------------------------------------------

def prepared_mixture(
    const double[::1] parameters not None,  # IN   (K + 2 K d + P d)
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    Py_ssize_t n_features,
):
    """Return a prepared mixture in a new array, for C-level functions.

    Parameters
    ----------
    parameters : (K + 2 K d + P d,) float64
        As in `amofa._parameters.Parameters.buffer`.
    offsets : (K + 1,) intp
        Start of the factors of each component; the last entry is the number of all factors.
    n_features : int

    Returns
    -------
    ndarray of float64
        The argument ``mixture`` of the functions in amofa/cython_amofa.pxd.

    Raises
    ------
    ValueError
        If offsets do not increase from 0, there is no feature, or `parameters` has the wrong length.
    FloatingPointError
        If the covariance matrix of a component is numerically singular.
    """
    cdef Py_ssize_t K = offsets.shape[0] - 1
    cdef Parameters view
    cdef double[::1] mixture
    cdef int status
    check_layout(offsets, n_features)
    if parameters.shape[0] != n_parameters_stored(K, n_features, &offsets[0]):
        raise ValueError("parameters has the wrong length for these offsets and features")
    prepared = np.zeros(mixture_size(K, n_features, &offsets[0]))
    mixture = prepared
    view = view_parameters(K, n_features, <double *> &parameters[0])
    with nogil:
        status = prepare_mixture(K, n_features, &offsets[0], view.weights, view.means, view.loadings,
                                 view.uniquenesses, &mixture[0])
    if status:
        raise FloatingPointError(f"the covariance of component {status - 1} is numerically singular")
    return prepared
