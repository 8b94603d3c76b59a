# Uniquenesses: their prior and the maximum of isotropic ones, shared by the kernels, not installed.

from libc.math cimport exp, fabs, log1p


# How the uniquenesses are tied: each component has its own, all components have the same, or each component has one
# for all columns.
cdef enum:
    COMPONENT = 0
    SHARED = 1
    ISOTROPIC = 2


cdef inline double log_cosh(double x) noexcept nogil:
    return fabs(x) + log1p(exp(-2.0 * fabs(x))) - 0.6931471805599453


cdef double total_prior_cost(
    Py_ssize_t K, Py_ssize_t d, const double *uniquenesses, int noise, double count, const double *scale) noexcept nogil
cdef double best_variance(
    Py_ssize_t m, const double *eigenvalues, Py_ssize_t d, Py_ssize_t n_factors, double count, const double *floor,
    double prior_count, const double *prior_scale) noexcept nogil
