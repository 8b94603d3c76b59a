# Posterior quantities of rows, with or without missing cells.

from libc.math cimport INFINITY, NAN, isfinite, isnan, log
from libc.string cimport memcpy

from amofa._kernels._mixture cimport (
    Parameters, Prepared, Scratch, n_parameters_stored, prepare_mixture as prepare_all, prepared_length,
    view_parameters, view_prepared, view_scratch_of)
from amofa._kernels._posterior cimport block_scores, posterior_block

cdef extern from "cells.h" nogil:
    void amofa_give_out(Py_ssize_t n, Py_ssize_t m, const double *values, Py_ssize_t ld, double *out,
                        Py_ssize_t row_stride, Py_ssize_t stride)

# Memory for rows with missing cells, and the mixture of the columns that the last of them has.
cdef struct Marginal:
    Py_ssize_t n_columns           # -1 before the first
    Py_ssize_t *columns            # (d)
    double *cells                  # (d)
    double *parameters
    double *prepared
    double *work                   # scratch of FEW rows
    Prepared mixture


cdef Py_ssize_t missing_work_size(const double *mixture) noexcept nogil:
    return header_of(mixture).missing_work_size if is_mixture(mixture) else BAD_ARGUMENT


cdef Marginal view_marginal(const double *mixture, double *work) noexcept nogil:
    cdef Marginal view
    cdef Prepared prepared = view_mixture(mixture)
    cdef Py_ssize_t K = prepared.n_components, d = prepared.n_features
    view.n_columns = -1
    view.columns = <Py_ssize_t *> (work + rows_work_size(mixture))
    view.cells = <double *> view.columns + d
    view.parameters = view.cells + d
    view.prepared = view.parameters + n_parameters_stored(K, d, prepared.offsets)
    view.work = view.prepared + prepared_length(K, d, prepared.offsets)
    return view


cdef int posterior(
    const double *mixture, Py_ssize_t n_rows, const double *x, Py_ssize_t row_stride, Py_ssize_t feature_stride,
    double *log_density, double *log_joint, double *responsibilities, double *factor_scores, double *work,
) noexcept nogil:
    cdef Py_ssize_t ld = max(n_rows, <Py_ssize_t> 1)
    return as_int(posterior_checked(
        mixture, n_rows, n_features(mixture), x, sizeof(double), row_stride, feature_stride, False,
        log_density, UNKNOWN, log_joint, UNKNOWN, 1, ld, responsibilities, UNKNOWN, 1, ld,
        factor_scores, UNKNOWN, 1, ld, work, UNKNOWN))


cdef Py_ssize_t posterior_checked(
    const double *mixture, Py_ssize_t n_rows, Py_ssize_t n_columns, const void *x, int cell_size,
    Py_ssize_t row_stride, Py_ssize_t feature_stride, int nan_is_missing,
    double *log_density, Py_ssize_t log_density_length,
    double *log_joint, Py_ssize_t log_joint_length, Py_ssize_t log_joint_row_stride, Py_ssize_t log_joint_stride,
    double *responsibilities, Py_ssize_t responsibilities_length, Py_ssize_t responsibilities_row_stride,
    Py_ssize_t responsibilities_stride,
    double *factor_scores, Py_ssize_t factor_scores_length, Py_ssize_t factor_scores_row_stride,
    Py_ssize_t factor_scores_stride,
    double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Rows rows
    cdef Marginal marginal
    cdef Py_ssize_t K, P, n_bad = 0
    cdef double least
    cdef int status = read_rows(
        &rows, mixture, n_rows, n_columns, x, cell_size, row_stride, feature_stride, nan_is_missing,
        work, work_length)
    if status:
        return status
    K, P = rows.mixture.n_components, rows.mixture.offsets[rows.mixture.n_components]
    status = output_status(n_rows, 1, log_density, log_density_length, 1, 1)
    if status == 0:
        status = output_status(n_rows, K, log_joint, log_joint_length, log_joint_row_stride, log_joint_stride)
    if status == 0:
        status = output_status(n_rows, K, responsibilities, responsibilities_length, responsibilities_row_stride,
                               responsibilities_stride)
    if status == 0:
        status = output_status(n_rows, P, factor_scores, factor_scores_length, factor_scores_row_stride,
                               factor_scores_stride)
    if status:
        return status
    if nan_is_missing:
        marginal = view_marginal(mixture, work)
    while next_block(&rows):
        least = posterior_block(rows.length, rows.block, rows.ld, &rows.mixture, &rows.scratch)
        if factor_scores != NULL and P:
            block_scores(rows.length, &rows.mixture, &rows.scratch)
        if not least > -INFINITY:
            n_bad += treat_unreached(&rows, &marginal if nan_is_missing else NULL)
        give_out(&rows, 1, rows.scratch.log_density, log_density, 1, 1)
        give_out(&rows, K, rows.scratch.log_joint, log_joint, log_joint_row_stride, log_joint_stride)
        give_out(&rows, K, rows.scratch.responsibilities, responsibilities, responsibilities_row_stride,
                 responsibilities_stride)
        give_out(&rows, P, rows.scratch.projected, factor_scores, factor_scores_row_stride, factor_scores_stride)
    return n_bad


cdef int output_status(
    Py_ssize_t n, Py_ssize_t m, const double *out, Py_ssize_t length, Py_ssize_t row_stride, Py_ssize_t stride,
) noexcept nogil:
    """Return whether an output (n, m) with these strides fits into so many doubles, as a status."""
    if out == NULL or length == UNKNOWN or n == 0 or m == 0:
        return 0
    if row_stride < 1 or stride < 1:
        return BAD_ARGUMENT
    # Products of sizes may be beyond an integer.
    if (n - 1.0) * row_stride + (m - 1.0) * stride + 1.0 > length:
        return TOO_SHORT
    return 0


cdef void give_out(
    const Rows *rows, Py_ssize_t m, const double *values, double *out, Py_ssize_t row_stride, Py_ssize_t stride,
) noexcept nogil:
    """Copy the block's values (m, length) to an output, if there is one."""
    if out != NULL:
        amofa_give_out(rows.length, m, values, rows.scratch.stride, out + rows.start * row_stride, row_stride, stride)


cdef Py_ssize_t treat_unreached(Rows *rows, Marginal *marginal) noexcept nogil:
    """Find rows of the block that have no density since a cell is not finite.

    Their values become those of the other columns where NaN means missing, else NaN. Returns the number of the latter.
    (A row with such a cell has no distance to any component, and so its log density was -infinity.)
    """
    cdef Py_ssize_t i, n_bad = 0
    for i in range(rows.length):
        if rows.scratch.log_density[i] > -INFINITY or is_finite(rows, i):
            continue
        if marginal == NULL or not set_marginal_posterior(rows, i, marginal):
            set_posterior(rows, i, NULL)
            n_bad += 1
    return n_bad


cdef bint is_finite(const Rows *rows, Py_ssize_t i) noexcept nogil:
    """Return whether all cells of row i of the block are finite."""
    cdef Py_ssize_t j
    for j in range(rows.mixture.n_features):
        if not isfinite(rows.block[j * rows.ld + i]):
            return False
    return True


cdef void set_posterior(Rows *rows, Py_ssize_t i, const Scratch *found) noexcept nogil:
    """Set the values of row i of the block to those of the only row of another scratch, or to NaN without one."""
    cdef Py_ssize_t k, K = rows.mixture.n_components, stride = rows.scratch.stride
    rows.scratch.log_density[i] = NAN if found == NULL else found.log_density[0]
    for k in range(K):
        rows.scratch.log_joint[k * stride + i] = NAN if found == NULL else found.log_joint[k * found.stride]
        rows.scratch.responsibilities[k * stride + i] = (
            NAN if found == NULL else found.responsibilities[k * found.stride])
    for k in range(rows.mixture.offsets[K]):
        rows.scratch.projected[k * stride + i] = NAN if found == NULL else found.projected[k * found.stride]


cdef bint set_marginal_posterior(Rows *rows, Py_ssize_t i, Marginal *marginal) noexcept nogil:
    """Compute the values of row i of the block from the cells that are not NaN. Returns False if that cannot be."""
    cdef Py_ssize_t d = rows.mixture.n_features, n = 0, j
    cdef bint is_new = marginal.n_columns < 0
    cdef double cell
    cdef Scratch scratch
    for j in range(d):
        cell = rows.block[j * rows.ld + i]
        if isnan(cell):
            continue
        if not isfinite(cell):
            # The columns of the last row are partly overwritten.
            marginal.n_columns = -1
            return False
        is_new = is_new or n >= marginal.n_columns or marginal.columns[n] != j
        marginal.columns[n], marginal.cells[n] = j, cell
        n += 1
    if n == 0:
        scratch = view_scratch_of(FEW, &rows.mixture, marginal.work)
        set_prior(&rows.mixture, &scratch)
    else:
        if is_new or n != marginal.n_columns:
            marginal.n_columns = -1
            if not prepare_marginal(&rows.mixture, n, marginal):
                return False
        scratch = view_scratch_of(FEW, &marginal.mixture, marginal.work)
        posterior_block(1, marginal.cells, 1, &marginal.mixture, &scratch)
        block_scores(1, &marginal.mixture, &scratch)
    marginal.n_columns = n
    set_posterior(rows, i, &scratch)
    return True


cdef bint prepare_marginal(const Prepared *mixture, Py_ssize_t n, Marginal *marginal) noexcept nogil:
    """Prepare the mixture of the first n of `columns`. Returns False if a covariance is numerically singular."""
    cdef Py_ssize_t d = mixture.n_features, K = mixture.n_components, i, j, k
    cdef Parameters parameters = view_parameters(K, n, marginal.parameters)
    memcpy(parameters.weights, mixture.weights, K * sizeof(double))
    memcpy(parameters.degrees_of_freedom, mixture.degrees_of_freedom, K * sizeof(double))
    for i in range(n):
        j = marginal.columns[i]
        for k in range(K):
            parameters.means[k * n + i] = mixture.means[k * d + j]
            parameters.uniquenesses[k * n + i] = 1.0 / mixture.inverse_uniquenesses[k * d + j]
        for k in range(mixture.offsets[K]):
            parameters.loadings[k * n + i] = mixture.loadings[k * d + j]
    marginal.mixture = view_prepared(K, n, mixture.offsets, marginal.prepared)
    return prepare_all(&parameters, &marginal.mixture) == 0


cdef void set_prior(const Prepared *mixture, Scratch *scratch) noexcept nogil:
    """Set the values of a row of which nothing is known."""
    cdef Py_ssize_t k, K = mixture.n_components
    cdef double total = 0.0
    for k in range(K):
        total += mixture.weights[k]
    scratch.log_density[0] = log(total)
    for k in range(K):
        scratch.log_joint[k * scratch.stride] = log(mixture.weights[k])
        scratch.responsibilities[k * scratch.stride] = mixture.weights[k] / total if total > 0.0 else 0.0
    for k in range(mixture.offsets[K]):
        scratch.projected[k * scratch.stride] = 0.0
