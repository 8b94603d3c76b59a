# Sums over rows: sufficient statistics, second and fourth moments.

from libc.math cimport sqrt

from amofa._kernels._kurtosis cimport add_kurtosis_block
from amofa._kernels._posterior cimport posterior_block
from amofa._kernels._statistics cimport Sums, add_block, view_sums

cdef extern from "cells.h" nogil:
    bint amofa_all_within(Py_ssize_t n, const double *values, double most)

# Rows with a smaller log density, 1e75 standard deviations from all components, are left out of sums: their fourth
# moments would overflow.
cdef double LEAST_LOG_DENSITY = -0.5e150
# Rows with a larger weight are left out, too.
cdef double LARGEST_WEIGHT = 1e100

# The rows of a block that can be summed, with their posterior quantities in scratch.
cdef struct Kept:
    Py_ssize_t n
    const double *x                # (d, n)
    Py_ssize_t ld
    const double *weights          # (n), or NULL


cdef Kept keep_rows(Rows *rows, const double *row_weights, Py_ssize_t *n_left_out) noexcept nogil:
    """Evaluate the rows of the block and leave out those that would spoil a sum, counting them if they have a weight.

    A row with a cell that is not finite has no distance to any component, and so a log density of -infinity.
    """
    cdef Kept kept
    cdef Py_ssize_t i
    cdef double least
    kept.n, kept.x, kept.ld = rows.length, rows.block, rows.ld
    kept.weights = row_weights + rows.start if row_weights != NULL else NULL
    least = posterior_block(rows.length, rows.block, rows.ld, &rows.mixture, &rows.scratch)
    if least >= LEAST_LOG_DENSITY and (
            kept.weights == NULL or amofa_all_within(rows.length, kept.weights, LARGEST_WEIGHT)):
        return kept
    kept.n = 0
    for i in range(rows.length):
        if rows.scratch.log_density[i] >= LEAST_LOG_DENSITY and (
                kept.weights == NULL or 0.0 <= kept.weights[i] <= LARGEST_WEIGHT):
            keep_row(rows, i, kept.n, kept.weights)
            kept.n += 1
        elif kept.weights == NULL or kept.weights[i] != 0.0:
            n_left_out[0] += 1
    kept.x, kept.ld = memory_of(rows), rows.scratch.stride
    if kept.weights != NULL:
        kept.weights = rows.scratch.row_sum
    return kept


cdef void keep_row(Rows *rows, Py_ssize_t i, Py_ssize_t to, const double *weights) noexcept nogil:
    """Move row i of the block with its values to another place, not behind its own.

    Cells go to the memory for turned rows, which has them already or is free, and weights to the row sums, which
    nothing needs any more.
    """
    cdef Py_ssize_t stride = rows.scratch.stride, K = rows.mixture.n_components, j
    cdef double *memory = memory_of(rows)
    for j in range(rows.mixture.n_features):
        memory[j * stride + to] = rows.block[j * rows.ld + i]
    if weights != NULL:
        rows.scratch.row_sum[to] = weights[i]
    rows.scratch.log_density[to] = rows.scratch.log_density[i]
    for j in range(K):
        rows.scratch.log_joint[j * stride + to] = rows.scratch.log_joint[j * stride + i]
        rows.scratch.responsibilities[j * stride + to] = rows.scratch.responsibilities[j * stride + i]
    for j in range(rows.mixture.offsets[K]):
        rows.scratch.projected[j * stride + to] = rows.scratch.projected[j * stride + i]


cdef Py_ssize_t statistics_size(const double *mixture) noexcept nogil:
    return header_of(mixture).statistics_size if is_mixture(mixture) else BAD_ARGUMENT


cdef int accumulate_statistics(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    const double *row_weights, double *statistics, double *work,
) noexcept nogil:
    return as_int(accumulate_statistics_checked(
        mixture, n_rows, n_features(mixture), x, sizeof(double), row_stride, feature_stride, row_weights,
        statistics, UNKNOWN, work, UNKNOWN))


cdef Py_ssize_t accumulate_statistics_checked(
    const double *mixture, Py_ssize_t n_rows, Py_ssize_t n_columns, const void *x, int cell_size,
    Py_ssize_t row_stride, Py_ssize_t feature_stride, const double *row_weights,
    double *statistics, Py_ssize_t statistics_length, double *work, Py_ssize_t work_length,
) noexcept nogil:
    return accumulate(mixture, n_rows, n_columns, x, cell_size, row_stride, feature_stride, row_weights, False,
                      statistics_size(mixture), statistics, statistics_length, work, work_length)


cdef Py_ssize_t scatter_size(const double *mixture) noexcept nogil:
    return header_of(mixture).scatter_size if is_mixture(mixture) else BAD_ARGUMENT


cdef int accumulate_scatter(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    const double *row_weights, double *scatter, double *work,
) noexcept nogil:
    return as_int(accumulate_scatter_checked(
        mixture, n_rows, n_features(mixture), x, sizeof(double), row_stride, feature_stride, row_weights,
        scatter, UNKNOWN, work, UNKNOWN))


cdef Py_ssize_t accumulate_scatter_checked(
    const double *mixture, Py_ssize_t n_rows, Py_ssize_t n_columns, const void *x, int cell_size,
    Py_ssize_t row_stride, Py_ssize_t feature_stride, const double *row_weights,
    double *scatter, Py_ssize_t scatter_length, double *work, Py_ssize_t work_length,
) noexcept nogil:
    return accumulate(mixture, n_rows, n_columns, x, cell_size, row_stride, feature_stride, row_weights, True,
                      scatter_size(mixture), scatter, scatter_length, work, work_length)


cdef Py_ssize_t accumulate(
    const double *mixture, Py_ssize_t n_rows, Py_ssize_t n_columns, const void *x, int cell_size,
    Py_ssize_t row_stride, Py_ssize_t feature_stride, const double *row_weights, bint full, Py_ssize_t size,
    double *buffer, Py_ssize_t buffer_length, double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Rows rows
    cdef Kept kept
    cdef Py_ssize_t n_left_out = 0
    cdef Sums sums
    cdef int status = read_rows(&rows, mixture, n_rows, n_columns, x, cell_size, row_stride, feature_stride,
                                False, work, work_length)
    if status:
        return status
    if size < 0 or buffer == NULL:
        return BAD_ARGUMENT
    if buffer_length < size:
        return TOO_SHORT
    sums = view_sums(rows.mixture.n_components, rows.mixture.n_features, full, buffer)
    while next_block(&rows):
        kept = keep_rows(&rows, row_weights, &n_left_out)
        if kept.n:
            add_block(kept.n, kept.x, kept.ld, kept.weights, True, &rows.mixture, &rows.scratch, &sums)
    return n_left_out


cdef void merge(Py_ssize_t size, const double *other, double *sums) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        sums[i] += other[i]


cdef int accumulate_kurtosis(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    const double *row_weights, double *soft_counts, double *fourth_moments, double *work,
) noexcept nogil:
    return as_int(accumulate_kurtosis_checked(
        mixture, n_rows, n_features(mixture), x, sizeof(double), row_stride, feature_stride, row_weights,
        soft_counts, UNKNOWN, fourth_moments, UNKNOWN, work, UNKNOWN))


cdef Py_ssize_t accumulate_kurtosis_checked(
    const double *mixture, Py_ssize_t n_rows, Py_ssize_t n_columns, const void *x, int cell_size,
    Py_ssize_t row_stride, Py_ssize_t feature_stride, const double *row_weights,
    double *soft_counts, Py_ssize_t soft_counts_length, double *fourth_moments, Py_ssize_t fourth_moments_length,
    double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Rows rows
    cdef Kept kept
    cdef Py_ssize_t n_left_out = 0
    cdef int status = read_rows(&rows, mixture, n_rows, n_columns, x, cell_size, row_stride, feature_stride,
                                False, work, work_length)
    if status:
        return status
    if soft_counts == NULL or fourth_moments == NULL:
        return BAD_ARGUMENT
    if min(soft_counts_length, fourth_moments_length) < rows.mixture.n_components:
        return TOO_SHORT
    while next_block(&rows):
        kept = keep_rows(&rows, row_weights, &n_left_out)
        if kept.n:
            add_kurtosis_block(kept.n, kept.weights, &rows.mixture, &rows.scratch, soft_counts, fourth_moments)
    return n_left_out


cdef double standardized_kurtosis(Py_ssize_t n_features, double soft_count, double fourth_moment) noexcept nogil:
    """gamma = (b - d (d + 2)) / sqrt(8 d (d + 2) / n)   (paper, eq. mardiamvkurt)."""
    cdef double gaussian = <double> n_features * (n_features + 2)
    return (fourth_moment / soft_count - gaussian) * sqrt(soft_count / (8.0 * gaussian))
