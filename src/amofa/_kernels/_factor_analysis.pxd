# The exact maximisation of factor analysers, shared by the kernels, not installed.

from amofa._kernels._newton cimport Prices, Problem, Space


cdef class Solver:
    cdef Py_ssize_t most_matrices, most_factors, most_rows
    cdef double count
    cdef double[::1] buffer
    cdef Space space

    cdef bint take_step(
        self, Py_ssize_t K, const double *covariances, const double *counts, const Py_ssize_t *offsets,
        const double *floor, double prior_count, const double *prior_scale, double *uniquenesses, double *loadings,
    ) noexcept nogil

    cdef Problem checked_problem(
        self, Py_ssize_t K, const double[::1] counts, const Py_ssize_t[::1] offsets, const double[::1] floor,
        double prior_count, const double[::1] prior_scale, const double[::1] uniquenesses,
        const double[:, ::1] loadings, const double[:, ::1] spectra)
    cdef Problem problem_of_one(
        self, const double[:, ::1] moments, double count, const double[::1] floor, const double[::1] uniquenesses,
        const double[:, ::1] loadings, Py_ssize_t *offsets, Py_ssize_t *rows)
    cdef Prices checked_prices(
        self, const double[::1] prices, double mean_price, double least_mean_price, const double[:, ::1] loadings)
    cdef double run(
        self, const Problem *problem, double[::1] uniquenesses, double[:, ::1] loadings, double[:, ::1] spectra,
        Py_ssize_t max_steps, double tol,
    ) except? -1
