# Sums of rows under a mixture, and the pass that fills them: shared by the kernels, not installed.

from amofa._kernels._mixture cimport Prepared, Scratch


# A flat array of sums, in this order. EM over factors has second and cross; where `full`, second moments are whole
# matrices, for the exact maximum of a factor analyser.
cdef struct Sums:
    bint full
    double negligible              # the share of a component's weight below which responsibilities have no moments
    unsigned char *near            # (K, near_stride) set to 1 where a responsibility is above near_least; or NULL
    Py_ssize_t near_stride
    double near_least
    double *kept                   # (n) sums of these responsibilities, added to
    const double *background       # (n) log densities of a background, whose share of a row counts for no sum; or NULL
    double background_weight
    double *log_likelihood         # nats
    double *entropy                # of the responsibilities, nats
    double *soft_counts            # (K)
    double *first                  # (K, d) sums of h e, e = x - mean_k; where full, h u replaces h
    double *second                 # (K, d) sums of h e^2; where full, (K, d, d) of h e e', only lower triangles count
    double *cross                  # (P, d) sums of h (W_k e) e'; where full, NULL
    double *tail_counts            # (K) sums of h u, u = 1 for normal components; where not full, NULL


# Up to this number of features, the scatter is faster without BLAS.
cdef enum:
    MOST_OWN_PRODUCTS = 32


cdef Sums view_sums(Py_ssize_t K, Py_ssize_t d, bint full, double *buffer) noexcept nogil
cdef Py_ssize_t sums_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets, bint full) noexcept nogil

cdef void accumulate_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Sums *sums) noexcept nogil
cdef void add_block(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Scratch *scratch, Sums *sums) noexcept nogil
cdef void add_scatter(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const double *h, double negligible,
    const Prepared *mixture, Scratch *scratch, Sums *sums) noexcept nogil
cdef void set_moments(
    Py_ssize_t d, double count, double tail_count, const double *old_mean, const double *first, const double *scatter,
    double *mean, double *covariance) noexcept nogil
cdef int add_rows(
    const double[:, ::1] x, const double[::1] row_weights, bint with_entropy, const Prepared *mixture,
    Scratch *scratch, Sums *sums) except -1
