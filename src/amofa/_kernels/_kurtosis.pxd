# Weighted fourth moments, shared by the kernels, not installed.

from amofa._kernels._mixture cimport Prepared, Scratch


cdef void accumulate_kurtosis_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, const Prepared *mixture,
    Scratch *scratch, double *soft_counts, double *fourth) noexcept nogil
cdef void add_kurtosis_block(
    Py_ssize_t n, const double *row_weights, const Prepared *mixture, Scratch *scratch, double *soft_counts,
    double *fourth) noexcept nogil
