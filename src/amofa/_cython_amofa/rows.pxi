# Rows for the kernels, block after block.

from libc.limits cimport INT_MAX

from amofa._kernels._mixture cimport Prepared, Scratch, scratch_length, view_scratch_of

cdef extern from "cells.h" nogil:
    void amofa_turn_doubles(Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t row_stride,
                            Py_ssize_t feature_stride, double *out, Py_ssize_t ld)
    void amofa_turn_floats(Py_ssize_t n, Py_ssize_t d, const float *x, Py_ssize_t row_stride,
                           Py_ssize_t feature_stride, double *out, Py_ssize_t ld)

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
