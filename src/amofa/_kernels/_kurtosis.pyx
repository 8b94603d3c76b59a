"""Weighted Mardia kurtosis: the fourth moment of the Mahalanobis distance (paper, eq. mardiamvkurt)."""

from amofa._kernels._mixture cimport Prepared, Scratch, check_rows, check_work, checked_mixture, view_scratch
from amofa._kernels._posterior cimport posterior_block, undo_tails

cdef extern from "simd.h" nogil:
    double amofa_weighted_sum(Py_ssize_t n, const double *values, const double *weights)
    double amofa_multiply(Py_ssize_t n, const double *factors, double *values)
    double amofa_fourth_moment(Py_ssize_t n, const double *h, double constant, const double *log_joint)


cdef void accumulate_kurtosis_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, const Prepared *mixture,
    Scratch *scratch, double *soft_counts, double *fourth,
) noexcept nogil:
    """Add any number of rows, block by block."""
    cdef Py_ssize_t start = 0, length
    while start < n:
        length = min(scratch.stride, n - start)
        posterior_block(length, x + start, ldx, mixture, scratch)
        add_kurtosis_block(length, row_weights + start if row_weights != NULL else NULL, mixture, scratch, soft_counts,
                           fourth)
        start += length


cdef void add_kurtosis_block(
    Py_ssize_t n, const double *row_weights, const Prepared *mixture, Scratch *scratch, double *soft_counts,
    double *fourth,
) noexcept nogil:
    """Add the rows of a block whose posterior quantities are in scratch."""
    cdef Py_ssize_t k
    cdef double *h
    for k in range(mixture.n_components):
        h = scratch.responsibilities + k * scratch.stride
        soft_counts[k] += (
            amofa_multiply(n, row_weights, h) if row_weights != NULL else amofa_weighted_sum(n, h, NULL))
        undo_tails(n, k, mixture, scratch.log_joint + k * scratch.stride)
        fourth[k] += amofa_fourth_moment(n, h, mixture.log_constants[k], scratch.log_joint + k * scratch.stride)


def accumulate_kurtosis(
    const double[:, ::1] x not None,  # IN   (d, n)
    const double[::1] row_weights,  # IN   (n), or None for ones
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    const double[::1] prepared not None,  # IN
    double[::1] soft_counts not None,  # INOUT (K), added to
    double[::1] fourth not None,  # INOUT (K), added to
    double[::1] work not None,  # WORK
):
    """Add soft counts and the sums of h m^2, m the squared Mahalanobis distance, for the columns of x.

    The kurtosis b_2d of component k is its fourth moment divided by its soft count; a Gaussian has d (d + 2).
    """
    cdef Py_ssize_t d = x.shape[0], n = x.shape[1]
    cdef Prepared mixture = checked_mixture(prepared, offsets, d)
    cdef Py_ssize_t K = mixture.n_components
    cdef Scratch scratch
    check_rows(n, row_weights)
    check_work(&mixture, work)
    if soft_counts.shape[0] != K or fourth.shape[0] != K:
        raise ValueError("soft_counts and fourth must have one entry per component")
    if n == 0:
        return
    cdef const double *w = &row_weights[0] if row_weights is not None else NULL
    with nogil:
        scratch = view_scratch(&mixture, &work[0])
        accumulate_kurtosis_rows(n, &x[0, 0], n, w, &mixture, &scratch, &soft_counts[0], &fourth[0])
