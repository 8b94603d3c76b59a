# Layout of the sufficient statistics, and the pass that fills them: shared by the kernels, not installed.

from amofa._kernels._posterior cimport Prepared, Scratch


cdef struct Statistics:
    double *log_likelihood
    double *entropy
    double *soft_counts            # (K)
    double *first                  # (K, d) sums of h e, e = x - mean_k
    double *second                 # (K, d) sums of h e^2
    double *cross                  # (P, d) sums of h (W_k e) e'


# Full second moments about the current means, for exact maximisation.
cdef struct Scatter:
    double *log_likelihood
    double *entropy
    double *soft_counts            # (K)
    double *first                  # (K, d) sums of h e
    double *scatter                # (K, d, d) sums of h e e', lower triangles


cdef Statistics view_statistics(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets, double *buffer) noexcept nogil
cdef Py_ssize_t statistics_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil

cdef void accumulate_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Statistics *statistics) noexcept nogil
cdef void accumulate_scatter_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Scatter *sums) noexcept nogil
cdef void set_moments(
    Py_ssize_t d, double count, const double *old_mean, const double *first, const double *scatter, double *mean,
    double *covariance) noexcept nogil
cdef int check_statistics(const Prepared *mixture, const double[::1] statistics) except -1
