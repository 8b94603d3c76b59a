# The exact maximisation of factor analysers, shared by the kernels, not installed.

from libc.math cimport exp, fabs, log1p


cdef inline double log_cosh(double x) noexcept nogil:
    return fabs(x) + log1p(exp(-2.0 * fabs(x))) - 0.6931471805599453


# What is to be minimised: covariance matrices, or panels of rows that make them, the others NULL.
cdef struct Problem:
    Py_ssize_t n_matrices
    const double *covariances      # (K, d, d)
    const double *panels           # (M, d)
    const Py_ssize_t *row_offsets  # (K + 1) covariance k is A_k' A_k, A_k the rows row_offsets[k] .. [k + 1] of panels
    const double *counts           # (K)
    const Py_ssize_t *offsets      # (K + 1)
    const double *floor            # (d)
    double prior_count
    const double *prior_scale      # (d)
    bint factors_alone             # eigenvalues beyond those of the factors are not asked for


# What is known at one value of the uniquenesses.
cdef struct Point:
    double cost
    double *log_noise              # (d)
    double *gradient               # (d)  of the cost in log_noise
    double *values                 # (K, d)  eigenvalues of the whitened covariances, falling
    double *vectors                # (P, d)  their leading eigenvectors, those with eigenvalues above 1


# What an analyser costs beyond its likelihood: of_factors[q] + max(mean - log |Sigma|, least_mean) / 2.
cdef struct Prices:
    Py_ssize_t most                # factors
    const double *of_factors       # (most + 1)
    double mean
    double least_mean


cdef class Solver:
    cdef Py_ssize_t d, most_matrices, most_factors, most_rows
    cdef double[::1] buffer
    cdef Point here, there, kept
    cdef double *whitened          # (d, d), for panels (most_rows, most_rows)
    cdef double *hessian           # (d, d), for panels (most_rows, PANEL_BLOCK) columns whitened
    cdef double *spectrum          # (d), for panels (most_rows)
    cdef double *step              # (d)
    cdef double *curvature         # (d)
    cdef double *raw               # (d)
    cdef double *work

    cdef double minimize(
        self, Py_ssize_t K, const double *covariances, const double *counts, const Py_ssize_t *offsets,
        const double *floor, double prior_count, const double *prior_scale, Py_ssize_t max_steps, double tol,
    ) noexcept nogil
    cdef void set_loadings(self, Py_ssize_t K, const Py_ssize_t *offsets, double *loadings) noexcept nogil

    cdef Problem checked_problem(
        self, Py_ssize_t K, const double[::1] counts, const Py_ssize_t[::1] offsets, const double[::1] floor,
        double prior_count, const double[::1] prior_scale, const double[::1] uniquenesses,
        const double[:, ::1] loadings, const double[:, ::1] spectra)
    cdef double run(
        self, const Problem *problem, double[::1] uniquenesses, double[:, ::1] loadings, double[:, ::1] spectra,
        Py_ssize_t max_steps, double tol,
    ) except? -1
    cdef double best_number(
        self, const Problem *problem, Py_ssize_t *offsets, const Prices *prices, Py_ssize_t max_steps, double tol,
        double patience, double least_saving) noexcept nogil
    cdef Py_ssize_t paying_factors(self, const Problem *problem, Py_ssize_t q, const Prices *prices) noexcept nogil
    cdef void complete_values(self, const Problem *problem, Py_ssize_t q) noexcept nogil
    cdef bint is_partial(self, const Problem *problem, Py_ssize_t p) noexcept nogil
    cdef bint try_number(
        self, const Problem *problem, Py_ssize_t *offsets, Py_ssize_t q, const Prices *prices, double *cost,
        double bar, Py_ssize_t max_steps, double tol, double patience) noexcept nogil
    cdef double price(self, Py_ssize_t q, const Prices *prices, const Problem *problem) noexcept nogil
    cdef void start_from(self, const Problem *problem, const double *uniquenesses) noexcept nogil
    cdef void set_uniquenesses(self, const Problem *problem, double *uniquenesses) noexcept nogil
    cdef double search(
        self, const Problem *problem, Py_ssize_t max_steps, double tol, double bar, double patience) noexcept nogil
    cdef bint move(self, const Problem *problem, double promised) noexcept nogil
    cdef void evaluate(self, const Problem *problem, Point *point) noexcept nogil
    cdef double whiten_matrix(
        self, const Problem *problem, Py_ssize_t k, double *gradient, bint diagonal) noexcept nogil
    cdef double whiten_panel(self, const Problem *problem, Py_ssize_t k, double *gradient) noexcept nogil
    cdef bint decompose(self, const Problem *problem, Py_ssize_t k, Point *point) noexcept nogil
    cdef bint decompose_leading(
        self, const Problem *problem, Py_ssize_t k, Py_ssize_t p, Point *point) noexcept nogil
    cdef bint decompose_panel(self, const Problem *problem, Py_ssize_t k, Point *point) noexcept nogil
    cdef bint keep(
        self, const Problem *problem, Py_ssize_t k, Py_ssize_t n, Py_ssize_t m, const double *vectors, Point *point,
        double *target) noexcept nogil
    cdef void panel_vectors(
        self, const Problem *problem, Py_ssize_t k, Py_ssize_t p, const double *values, double *vectors) noexcept nogil
    cdef Py_ssize_t n_active(self, const Point *point, const Py_ssize_t *offsets, Py_ssize_t k) noexcept nogil
    cdef bint any_active(self, const Problem *problem) noexcept nogil
    cdef double newton_step(self, const Problem *problem) noexcept nogil
    cdef void dense_step(self, const Problem *problem) noexcept nogil
    cdef void diagonal_step(self, const Problem *problem) noexcept nogil
    cdef bint is_held(self, const Problem *problem, Py_ssize_t j) noexcept nogil
