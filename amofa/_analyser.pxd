# The exact maximisation of factor analysers, shared by the kernels, not installed.

from libc.math cimport exp, fabs, log1p


cdef inline double log_cosh(double x) noexcept nogil:
    return fabs(x) + log1p(exp(-2.0 * fabs(x))) - 0.6931471805599453


# What is known at one value of the uniquenesses.
cdef struct Point:
    double cost
    double *log_noise              # (d)
    double *gradient               # (d)  of the cost in log_noise
    double *values                 # (K, d)  eigenvalues of the whitened covariances, falling
    double *vectors                # (P, d)  their leading eigenvectors


cdef class Solver:
    cdef Py_ssize_t d, most_matrices, most_factors
    cdef double[::1] buffer
    cdef Point here, there
    cdef double *whitened          # (d, d)
    cdef double *hessian           # (d, d)
    cdef double *step              # (d)
    cdef double *raw               # (d)
    cdef double *work

    cdef double minimize(
        self, Py_ssize_t K, const double *covariances, const double *counts, const Py_ssize_t *offsets,
        const double *floor, double prior_count, const double *prior_scale, Py_ssize_t max_steps, double tol,
    ) noexcept nogil
    cdef void evaluate(
        self, Py_ssize_t K, const double *covariances, const double *counts, const Py_ssize_t *offsets,
        double prior_count, const double *prior_scale, Point *point,
    ) noexcept nogil
    cdef void leading(self, double *a, Py_ssize_t p, double *values, double *vectors) noexcept nogil
    cdef double newton_step(
        self, Py_ssize_t K, const double *counts, const Py_ssize_t *offsets, const double *floor, double prior_count,
        const double *prior_scale,
    ) noexcept nogil
    cdef void set_loadings(self, Py_ssize_t K, const Py_ssize_t *offsets, double *loadings) noexcept nogil
