"""Bodies of the public C-level functions: thin wrappers of the kernels that the Python code uses, too.

They are documented in amofa/cython_amofa.pxd.
"""

from libc.limits cimport INT_MAX
from libc.math cimport INFINITY, NAN, exp, isfinite, isnan, log, sqrt
from libc.string cimport memcpy, memset

import os

import numpy as np

from amofa._kernels._kurtosis cimport add_kurtosis_block
from amofa._kernels._newton cimport (
    Point, Prices, Problem, Space, best_number, is_space_too_large, search, set_loadings, set_uniquenesses,
    space_length, start_from, view_space)
from amofa._kernels._mixture cimport (
    Parameters, Prepared, Scratch, block_rows, check_layout, is_too_large, n_parameters_stored,
    prepare_mixture as prepare_all, prepared_length, scratch_length, scratch_length_of, view_parameters, view_prepared,
    view_scratch_of)
from amofa._kernels._posterior cimport block_scores, posterior_block
from amofa._kernels._standard cimport maximize_component as maximize_one, maximize_length
from amofa._kernels._statistics cimport Sums, add_block, set_moments, sums_length, view_sums

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cdef extern from "cells.h" nogil:
    void amofa_turn_doubles(Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t row_stride,
                            Py_ssize_t feature_stride, double *out, Py_ssize_t ld)
    void amofa_turn_floats(Py_ssize_t n, Py_ssize_t d, const float *x, Py_ssize_t row_stride,
                           Py_ssize_t feature_stride, double *out, Py_ssize_t ld)
    bint amofa_all_within(Py_ssize_t n, const double *values, double most)
    void amofa_give_out(Py_ssize_t n, Py_ssize_t m, const double *values, Py_ssize_t ld, double *out,
                        Py_ssize_t row_stride, Py_ssize_t stride)

# Status codes; see the .pxd.
cdef enum:
    BAD_ARGUMENT = -1
    NO_ROWS = -2
    TOO_SHORT = -3
# The length of arrays of callers that state none.
cdef Py_ssize_t UNKNOWN = PY_SSIZE_T_MAX

# A prepared mixture begins with this, and the K + 1 offsets. Sizes are there since a call with one row takes less time
# than to compute them.
cdef struct Header:
    Py_ssize_t mark                # MARK
    Py_ssize_t token               # TOKEN
    Py_ssize_t size                # of the whole
    Py_ssize_t n_components
    Py_ssize_t n_features
    Py_ssize_t block_rows
    Py_ssize_t rows_work_size      # these are what the functions of their names return
    Py_ssize_t missing_work_size
    Py_ssize_t statistics_size
    Py_ssize_t scatter_size
    Py_ssize_t maximize_work_size

# Its last byte is the version of the layout.
cdef Py_ssize_t MARK = 0x616d6604
# What a file, or another process, does not have: layouts and ways to compute differ between builds and processors.
cdef Py_ssize_t TOKEN = int.from_bytes(os.urandom(sizeof(Py_ssize_t) - 1), "little")
cdef enum:
    # Scratch of one row; see `view_scratch_of`.
    FEW = 8
    # Steps that a fit makes before it looks for uniquenesses that creep to their floor.
    STEPS_OF_A_STAGE = 16

# Rows with a smaller log density, 1e75 standard deviations from all components, are left out of sums: their fourth
# moments would overflow.
cdef double LEAST_LOG_DENSITY = -0.5e150
# A uniqueness below this share of its variance may creep to the floor.
cdef double CREEPING_SHARE = 0.01
# Rows with a larger weight are left out, too.
cdef double LARGEST_WEIGHT = 1e100


# ---- a mixture -------------------------------------------------------------------------------------------------------

cdef Py_ssize_t mixture_size(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets,
) noexcept nogil:
    cdef Py_ssize_t k
    if n_components < 1 or n_features < 1 or offsets == NULL or offsets[0] != 0:
        return BAD_ARGUMENT
    for k in range(n_components):
        if offsets[k + 1] < offsets[k]:
            return BAD_ARGUMENT
    if is_too_large(n_components, n_features, offsets[n_components]):
        return BAD_ARGUMENT
    return header_size(n_components) + prepared_length(n_components, n_features, offsets)


cdef Py_ssize_t header_size(Py_ssize_t K) noexcept nogil:
    """Return the number of doubles that hold a header and its offsets."""
    return (<Py_ssize_t> (sizeof(Header) + (K + 1) * sizeof(Py_ssize_t)) + 7) // 8


cdef inline Header *header_of(const double *mixture) noexcept nogil:
    return <Header *> mixture


cdef inline Py_ssize_t *offsets_of(const double *mixture) noexcept nogil:
    return <Py_ssize_t *> (header_of(mixture) + 1)


cdef int prepare_mixture(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets, const double *weights,
    const double *means, const double *loadings, const double *uniquenesses, double *mixture,
) noexcept nogil:
    return prepare_t_mixture(n_components, n_features, offsets, weights, NULL, means, loadings, uniquenesses, mixture,
                             UNKNOWN)


cdef int prepare_mixture_checked(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets, const double *weights,
    const double *means, const double *loadings, const double *uniquenesses, double *mixture, Py_ssize_t mixture_length,
) noexcept nogil:
    return prepare_t_mixture(n_components, n_features, offsets, weights, NULL, means, loadings, uniquenesses, mixture,
                             mixture_length)


cdef int prepare_t_mixture(
    Py_ssize_t n_components, Py_ssize_t n_features, const Py_ssize_t *offsets, const double *weights,
    const double *degrees_of_freedom, const double *means, const double *loadings, const double *uniquenesses,
    double *mixture, Py_ssize_t mixture_length,
) noexcept nogil:
    cdef Py_ssize_t size = mixture_size(n_components, n_features, offsets)
    cdef Parameters parameters
    cdef Prepared prepared
    cdef int status
    if size < 0 or weights == NULL or means == NULL or uniquenesses == NULL or mixture == NULL:
        return BAD_ARGUMENT
    if loadings == NULL and offsets[n_components]:
        return BAD_ARGUMENT
    if mixture_length < size:
        return TOO_SHORT
    set_header(header_of(mixture), size, n_components, n_features, offsets, degrees_of_freedom)
    parameters.weights, parameters.means = <double *> weights, <double *> means
    parameters.degrees_of_freedom = <double *> degrees_of_freedom
    parameters.loadings, parameters.uniquenesses = <double *> loadings, <double *> uniquenesses
    prepared = view_mixture(mixture)
    status = <int> prepare_all(&parameters, &prepared)
    if status:
        header_of(mixture).mark = 0
    return status


cdef void set_header(
    Header *header, Py_ssize_t size, Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets,
    const double *degrees_of_freedom,
) noexcept nogil:
    cdef Py_ssize_t k, most_factors = 0
    header.mark, header.token, header.size = MARK, TOKEN, size
    header.n_components, header.n_features = K, d
    memcpy(header + 1, offsets, (K + 1) * sizeof(Py_ssize_t))
    header.block_rows = block_rows(d)
    header.rows_work_size = scratch_length_of(header.block_rows, K, d, offsets) + header.block_rows * d
    header.missing_work_size = (
        header.rows_work_size + 2 * d + n_parameters_stored(K, d, offsets) + size - header_size(K)
        + scratch_length_of(FEW, K, d, offsets))
    header.statistics_size = sums_length(K, d, offsets, False)
    header.scatter_size = BAD_ARGUMENT if is_space_too_large(d, K, K * d, -1) else sums_length(K, d, NULL, True)
    for k in range(K):
        most_factors = max(most_factors, offsets[k + 1] - offsets[k])
        # EM over factors is for normal components.
        if degrees_of_freedom != NULL and degrees_of_freedom[k] != INFINITY:
            header.statistics_size = BAD_ARGUMENT
    header.maximize_work_size = maximize_length(d, most_factors)


cdef bint is_mixture(const double *mixture) noexcept nogil:
    return mixture != NULL and header_of(mixture).mark == MARK and header_of(mixture).token == TOKEN


cdef int check_mixture(const double *mixture, Py_ssize_t length) noexcept nogil:
    cdef const Header *header
    if mixture == NULL:
        return BAD_ARGUMENT
    if length < header_size(1):
        return TOO_SHORT
    if not is_mixture(mixture):
        return BAD_ARGUMENT
    header = header_of(mixture)
    if length < header.size:
        return TOO_SHORT
    if mixture_size(header.n_components, header.n_features, offsets_of(mixture)) != header.size:
        return BAD_ARGUMENT
    return 0


cdef Prepared view_mixture(const double *mixture) noexcept nogil:
    """What the kernels take; they do not write to it, but where it is prepared."""
    cdef Py_ssize_t K = header_of(mixture).n_components
    return view_prepared(K, header_of(mixture).n_features, offsets_of(mixture), <double *> mixture + header_size(K))


cdef Py_ssize_t n_components(const double *mixture) noexcept nogil:
    return header_of(mixture).n_components if is_mixture(mixture) else BAD_ARGUMENT


cdef Py_ssize_t n_features(const double *mixture) noexcept nogil:
    return header_of(mixture).n_features if is_mixture(mixture) else BAD_ARGUMENT


cdef Py_ssize_t n_factors(const double *mixture, Py_ssize_t k) noexcept nogil:
    cdef const Py_ssize_t *offsets
    if not has_component(mixture, k):
        return BAD_ARGUMENT
    offsets = offsets_of(mixture)
    return offsets[k + 1] - offsets[k]


cdef bint has_component(const double *mixture, Py_ssize_t k) noexcept nogil:
    return 0 <= k < n_components(mixture)


cdef int mixture_weights(const double *mixture, double *weights, Py_ssize_t weights_length) noexcept nogil:
    return give_values(mixture, 0, view_mixture(mixture).weights if is_mixture(mixture) else NULL,
                       n_components(mixture), weights, weights_length)


cdef int mixture_degrees_of_freedom(
    const double *mixture, double *degrees_of_freedom, Py_ssize_t degrees_of_freedom_length,
) noexcept nogil:
    return give_values(mixture, 0, view_mixture(mixture).degrees_of_freedom if is_mixture(mixture) else NULL,
                       n_components(mixture), degrees_of_freedom, degrees_of_freedom_length)


cdef int component_mean(
    const double *mixture, Py_ssize_t k, double *mean, Py_ssize_t mean_length,
) noexcept nogil:
    cdef Py_ssize_t d = n_features(mixture)
    return give_values(mixture, k, view_mixture(mixture).means + k * d if has_component(mixture, k) else NULL, d, mean,
                       mean_length)


cdef int component_loadings(
    const double *mixture, Py_ssize_t k, double *loadings, Py_ssize_t loadings_length,
) noexcept nogil:
    cdef Py_ssize_t d = n_features(mixture)
    cdef Prepared prepared
    if not has_component(mixture, k):
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    return give_values(mixture, k, prepared.loadings + prepared.offsets[k] * d, n_factors(mixture, k) * d, loadings,
                       loadings_length)


cdef int component_uniquenesses(
    const double *mixture, Py_ssize_t k, double *uniquenesses, Py_ssize_t uniquenesses_length,
) noexcept nogil:
    cdef Py_ssize_t d = n_features(mixture), j
    cdef int status = give_values(
        mixture, k, view_mixture(mixture).inverse_uniquenesses + k * d if has_component(mixture, k) else NULL, d,
        uniquenesses, uniquenesses_length)
    if status == 0:
        for j in range(d):
            uniquenesses[j] = 1.0 / uniquenesses[j]
    return status


cdef int give_values(
    const double *mixture, Py_ssize_t k, const double *values, Py_ssize_t size, double *out, Py_ssize_t length,
) noexcept nogil:
    """Copy so many values of component k to an output."""
    if not has_component(mixture, k) or (out == NULL and size):
        return BAD_ARGUMENT
    if length < size:
        return TOO_SHORT
    if size:
        memcpy(out, values, size * sizeof(double))
    return 0


cdef int component_covariance(
    const double *mixture, Py_ssize_t k, double *covariance, Py_ssize_t covariance_length,
) noexcept nogil:
    cdef Py_ssize_t d = n_features(mixture), i, j, q
    cdef Prepared prepared
    cdef const double *row
    if not has_component(mixture, k) or covariance == NULL:
        return BAD_ARGUMENT
    if covariance_length // d < d:
        return TOO_SHORT
    prepared = view_mixture(mixture)
    memset(covariance, 0, d * d * sizeof(double))
    for i in range(d):
        covariance[i * d + i] = 1.0 / prepared.inverse_uniquenesses[k * d + i]
    for q in range(prepared.offsets[k], prepared.offsets[k + 1]):
        row = prepared.loadings + q * d
        for i in range(d):
            for j in range(d):
                covariance[i * d + j] += row[i] * row[j]
    return 0


# ---- rows ------------------------------------------------------------------------------------------------------------

# Rows for the kernels: block after block, features first.
cdef struct Rows:
    Py_ssize_t n_rows
    const void *x
    int cell_size
    Py_ssize_t row_stride
    Py_ssize_t feature_stride
    Prepared mixture
    Scratch scratch
    double *work
    double *memory                 # (d, scratch.stride), for rows that are not features first, once it is needed
    Py_ssize_t start               # the block: its first row,
    Py_ssize_t length              # how many rows,
    const double *block            # (d, length)
    Py_ssize_t ld                  # the distance of two features


cdef int read_rows(
    Rows *rows, const double *mixture, Py_ssize_t n_rows, Py_ssize_t n_columns, const void *x, int cell_size,
    Py_ssize_t row_stride, Py_ssize_t feature_stride, bint nan_is_missing, double *work, Py_ssize_t work_length,
) noexcept nogil:
    """Prepare for `next_block`. Returns a status."""
    if not is_mixture(mixture) or n_rows < 0 or n_columns != n_features(mixture):
        return BAD_ARGUMENT
    if (x == NULL and n_rows) or work == NULL or cell_size not in (sizeof(double), sizeof(float)):
        return BAD_ARGUMENT
    if work_length < (missing_work_size(mixture) if nan_is_missing else rows_work_size(mixture)):
        return TOO_SHORT
    rows.n_rows, rows.x, rows.cell_size = n_rows, x, cell_size
    rows.row_stride, rows.feature_stride = row_stride, feature_stride
    rows.mixture = view_mixture(mixture)
    rows.scratch = view_scratch_of(stride_for(n_rows, header_of(mixture).block_rows), &rows.mixture, work)
    rows.work, rows.memory = work, NULL
    rows.start = rows.length = 0
    return 0


cdef Py_ssize_t stride_for(Py_ssize_t n_rows, Py_ssize_t most) noexcept nogil:
    """Return the stride of scratch memory: of few rows not more than they need, since some kernels copy all of it.

    It is an odd number of cache lines, like `block_rows`.
    """
    cdef Py_ssize_t n = min(n_rows, most)
    return n // 16 * 16 + (8 if n % 16 <= 8 else 24)


cdef double *memory_of(Rows *rows) noexcept nogil:
    """Return memory for the cells of a block."""
    if rows.memory == NULL:
        rows.memory = rows.work + scratch_length(rows.mixture.n_components, rows.mixture.n_features,
                                                 rows.mixture.offsets)
    return rows.memory


cdef bint next_block(Rows *rows) noexcept nogil:
    """Go to the next block. Returns False if there is none."""
    cdef Py_ssize_t at
    rows.start += rows.length
    rows.length = min(rows.scratch.stride, rows.n_rows - rows.start)
    if rows.length == 0:
        return False
    at = rows.start * rows.row_stride
    if rows.cell_size == sizeof(float):
        amofa_turn_floats(rows.length, rows.mixture.n_features, <const float *> rows.x + at, rows.row_stride,
                          rows.feature_stride, memory_of(rows), rows.scratch.stride)
    elif rows.row_stride == 1 or rows.n_rows == 1:
        rows.block, rows.ld = <const double *> rows.x + at, rows.feature_stride
        return True
    else:
        amofa_turn_doubles(rows.length, rows.mixture.n_features, <const double *> rows.x + at, rows.row_stride,
                           rows.feature_stride, memory_of(rows), rows.scratch.stride)
    rows.block, rows.ld = rows.memory, rows.scratch.stride
    return True


cdef Py_ssize_t rows_work_size(const double *mixture) noexcept nogil:
    return header_of(mixture).rows_work_size if is_mixture(mixture) else BAD_ARGUMENT


cdef int as_int(Py_ssize_t status) noexcept nogil:
    return <int> min(status, <Py_ssize_t> INT_MAX)


# ---- rows: posterior quantities --------------------------------------------------------------------------------------

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


# ---- rows: sums ------------------------------------------------------------------------------------------------------

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


# ---- the M-step of one component -------------------------------------------------------------------------------------

cdef Py_ssize_t maximize_work_size(const double *mixture) noexcept nogil:
    return header_of(mixture).maximize_work_size if is_mixture(mixture) else BAD_ARGUMENT


cdef int maximize_component(
    const double *mixture, Py_ssize_t k, const double *statistics, const double *floor, double *mean,
    double *loadings, double *uniquenesses, double *work,
) noexcept nogil:
    return maximize_component_checked(mixture, k, statistics, floor, mean, UNKNOWN, loadings, UNKNOWN, uniquenesses,
                                      UNKNOWN, work, UNKNOWN)


cdef int maximize_component_checked(
    const double *mixture, Py_ssize_t k, const double *statistics, const double *floor,
    double *mean, Py_ssize_t mean_length, double *loadings, Py_ssize_t loadings_length,
    double *uniquenesses, Py_ssize_t uniquenesses_length, double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Prepared prepared
    cdef Sums sums
    cdef const double *cholesky
    cdef Py_ssize_t i
    cdef int status
    if not has_component(mixture, k) or statistics_size(mixture) < 0 or statistics == NULL:
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    status = parameters_status(prepared.n_features, n_factors(mixture, k), floor, mean, mean_length, loadings,
                               loadings_length, uniquenesses, uniquenesses_length, work, work_length,
                               maximize_work_size(mixture))
    if status:
        return status
    sums = view_sums(prepared.n_components, prepared.n_features, False, <double *> statistics)
    if not sums.soft_counts[k] > 0.0:
        return NO_ROWS
    cholesky = prepared.choleskys
    for i in range(k):
        cholesky += n_factors(mixture, i) * n_factors(mixture, i)
    if maximize_one(k, &prepared, cholesky, &sums, floor, mean, loadings, uniquenesses, work):
        return <int> k + 1
    return 0


cdef int parameters_status(
    Py_ssize_t d, Py_ssize_t p, const double *floor, const double *mean, Py_ssize_t mean_length,
    const double *loadings, Py_ssize_t loadings_length, const double *uniquenesses, Py_ssize_t uniquenesses_length,
    const double *work, Py_ssize_t work_length, Py_ssize_t work_size,
) noexcept nogil:
    """Check the outputs of an M-step with p factors, its floor and its work array. Returns a status."""
    if mean == NULL or uniquenesses == NULL or work == NULL or (loadings == NULL and p):
        return BAD_ARGUMENT
    if not are_variances(d, floor):
        return BAD_ARGUMENT
    if min(mean_length, uniquenesses_length) < d or loadings_length // d < p or work_length < work_size:
        return TOO_SHORT
    return 0


cdef bint are_variances(Py_ssize_t d, const double *values) noexcept nogil:
    cdef Py_ssize_t j
    if values == NULL:
        return False
    for j in range(d):
        if not 0.0 < values[j] < INFINITY:
            return False
    return True


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
    Py_ssize_t most_factors, const double *floor, Py_ssize_t max_steps, double tol, double *mean,
    Py_ssize_t mean_length, const double *loadings, Py_ssize_t loadings_length, const double *uniquenesses,
    Py_ssize_t uniquenesses_length, double *work, Py_ssize_t work_length,
) noexcept nogil:
    """Compute mean, covariance and the problem of the uniquenesses of component k, in `work`. Returns a status."""
    cdef Prepared prepared
    cdef Sums sums
    cdef Py_ssize_t d
    cdef double tail_count
    cdef int status
    if not has_component(mixture, k) or not 0 <= n_factors <= most_factors <= n_features(mixture):
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    d = prepared.n_features
    if scatter == NULL or scatter_size(mixture) < 0 or max_steps < 0 or isnan(tol):
        return BAD_ARGUMENT
    status = parameters_status(d, most_factors, floor, mean, mean_length, loadings, loadings_length, uniquenesses,
                               uniquenesses_length, work, work_length, fit_work_size(d, most_factors))
    if status:
        return status
    if not are_variances(d, uniquenesses):
        return BAD_ARGUMENT
    sums = view_sums(prepared.n_components, d, True, <double *> scatter)
    if not sums.soft_counts[k] > 0.0:
        return NO_ROWS
    analysis.count = tail_count = sums.soft_counts[k]
    if prepared.degrees_of_freedom[k] < INFINITY:
        tail_count = sums.tail_counts[k]
    set_moments(d, analysis.count, tail_count, prepared.means + k * d, sums.first + k * d,
                sums.second + k * d * d, mean, work)
    analysis.offsets[0], analysis.offsets[1] = 0, n_factors
    memset(&analysis.problem, 0, sizeof(Problem))
    analysis.problem.n_matrices, analysis.problem.covariances = 1, work
    analysis.problem.counts, analysis.problem.offsets = &analysis.count, analysis.offsets
    analysis.problem.floor, analysis.problem.factors_alone = floor, True
    analysis.space = view_space(d, 1, most_factors, -1, work + d * d)
    start_from(&analysis.space, &analysis.problem, uniquenesses)
    return 0


cdef double settle(Analysis *analysis, Py_ssize_t max_steps, double tol, bint *converged) noexcept nogil:
    """Search from here, and hurry uniquenesses that creep to their floor. Returns the cost."""
    cdef Py_ssize_t left = max_steps, steps
    cdef double cost
    while True:
        steps = min(left, <Py_ssize_t> STEPS_OF_A_STAGE)
        cost = search(&analysis.space, &analysis.problem, steps, tol, INFINITY, 0.0)
        left -= steps
        converged[0] = isfinite(cost) and analysis.space.here.is_settled
        if not isfinite(cost) or not max_steps:
            return cost
        if set_to_floor(analysis, creeping(analysis, tol)):
            converged[0], cost = False, analysis.space.here.cost
        if converged[0] or left == 0:
            return cost


cdef Py_ssize_t creeping(const Analysis *analysis, double tol) noexcept nogil:
    """Return the small uniqueness that promises most, and more than tol nats, if it went to its floor, or -1.

    Where the cost falls all the way to the floor it is nearly linear in the uniqueness, so that each Newton step in the
    logarithm is shorter than the one before.
    """
    cdef const Point *here = &analysis.space.here
    cdef Py_ssize_t d = analysis.space.d, j, best = -1
    cdef double most = tol, gain, uniqueness
    for j in range(d):
        uniqueness = exp(here.log_noise[j])
        if uniqueness < CREEPING_SHARE * analysis.problem.covariances[j * d + j]:
            # The gradient in the logarithm is the slope times the uniqueness.
            gain = here.gradient[j] * (1.0 - analysis.problem.floor[j] / uniqueness)
            if gain > most:
                best, most = j, gain
    return best


cdef bint set_to_floor(Analysis *analysis, Py_ssize_t j) noexcept nogil:
    """Set uniqueness j, if there is one, to its floor. Return False, and stay here, if that does not cost less."""
    cdef Space *space = &analysis.space
    cdef double before = space.here.cost
    if j < 0:
        return False
    memcpy(space.kept.log_noise, space.here.log_noise, space.d * sizeof(double))
    memcpy(space.kept.vectors, space.here.vectors, analysis.offsets[1] * space.d * sizeof(double))
    space.kept.is_near = True
    space.here, space.kept = space.kept, space.here
    space.here.log_noise[j] = log(analysis.problem.floor[j])
    if search(space, &analysis.problem, 0, 0.0, INFINITY, 0.0) < before:
        return True
    space.here, space.kept = space.kept, space.here
    return False


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
    return fit_component_checked(mixture, k, scatter, n_factors, floor, max_steps, tol, mean, UNKNOWN, loadings,
                                 UNKNOWN, uniquenesses, UNKNOWN, cost, NULL, work, UNKNOWN)


cdef int fit_component_checked(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t n_factors, const double *floor,
    Py_ssize_t max_steps, double tol, double *mean, Py_ssize_t mean_length,
    double *loadings, Py_ssize_t loadings_length, double *uniquenesses, Py_ssize_t uniquenesses_length,
    double *cost, int *converged, double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Analysis analysis
    cdef double found
    cdef bint is_settled = False
    cdef int status = begin_analysis(&analysis, mixture, k, scatter, n_factors, n_factors, floor, max_steps, tol, mean,
                                     mean_length, loadings, loadings_length, uniquenesses, uniquenesses_length, work,
                                     work_length)
    if converged != NULL:
        converged[0] = False
    if status:
        return status
    found = settle(&analysis, max_steps, tol, &is_settled)
    if not end_analysis(&analysis, found, loadings, uniquenesses, cost):
        return <int> k + 1
    if converged != NULL:
        converged[0] = is_settled
    return 0


cdef int choose_component(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t most_factors, const double *prices,
    const double *floor, Py_ssize_t max_steps, double tol, Py_ssize_t *n_factors, double *mean, double *loadings,
    double *uniquenesses, double *cost, double *work,
) noexcept nogil:
    return choose_component_checked(mixture, k, scatter, most_factors, prices, floor, max_steps, tol, n_factors, mean,
                                    UNKNOWN, loadings, UNKNOWN, uniquenesses, UNKNOWN, cost, NULL, work, UNKNOWN)


cdef int choose_component_checked(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t most_factors, const double *prices,
    const double *floor, Py_ssize_t max_steps, double tol, Py_ssize_t *n_factors, double *mean, Py_ssize_t mean_length,
    double *loadings, Py_ssize_t loadings_length, double *uniquenesses, Py_ssize_t uniquenesses_length,
    double *cost, int *converged, double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Analysis analysis
    cdef Prices costs
    cdef double found
    cdef bint is_settled = False
    cdef Py_ssize_t q
    cdef int status
    if converged != NULL:
        converged[0] = False
    if n_factors == NULL or prices == NULL:
        return BAD_ARGUMENT
    status = begin_analysis(&analysis, mixture, k, scatter, n_factors[0], most_factors, floor, max_steps, tol, mean,
                            mean_length, loadings, loadings_length, uniquenesses, uniquenesses_length, work,
                            work_length)
    if status:
        return status
    for q in range(most_factors + 1):
        if not isfinite(prices[q]):
            return BAD_ARGUMENT
    costs.most, costs.of_factors = most_factors, prices
    # The mean has no price.
    costs.mean, costs.least_mean = -INFINITY, 0.0
    # Every trial of another number of factors runs to its end.
    found = best_number(&analysis.space, &analysis.problem, analysis.offsets, &costs, max_steps, tol, INFINITY, tol)
    is_settled = analysis.space.here.is_settled
    if isfinite(found) and creeping(&analysis, tol) >= 0:
        found = settle(&analysis, max_steps, tol, &is_settled) + prices[analysis.offsets[1]]
    if not end_analysis(&analysis, found, loadings, uniquenesses, cost):
        return <int> k + 1
    n_factors[0] = analysis.offsets[1]
    if converged != NULL:
        converged[0] = is_settled
    return 0


# ---- what Python calls -----------------------------------------------------------------------------------------------

def prepared_mixture(
    const double[::1] parameters not None,  # IN   (2 K + 2 K d + P d)
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    Py_ssize_t n_features,
):
    """Return a prepared mixture in a new array, for C-level functions.

    Parameters
    ----------
    parameters : (2 K + 2 K d + P d,) float64
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
        status = prepare_t_mixture(K, n_features, &offsets[0], view.weights, view.degrees_of_freedom, view.means,
                                   view.loadings, view.uniquenesses, &mixture[0], mixture.shape[0])
    if status:
        raise FloatingPointError(f"the covariance of component {status - 1} is numerically singular")
    return prepared
