# The exact maximisation of factor analysers on memory of the caller: shared by the kernels, not installed.

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
    double *vectors                # (P, d)  their leading eigenvectors, of use where eigenvalues are above 1
    bint is_near                   # whether, before it is evaluated, it has vectors near those
    bint is_complete               # whether eigenvalues beyond those of the factors are known
    bint is_settled                # whether no further step is worth it


# What an analyser costs beyond its likelihood: of_factors[q] + max(mean - log |Sigma|, least_mean) / 2.
cdef struct Prices:
    Py_ssize_t most                # factors
    const double *of_factors       # (most + 1)
    double mean
    double least_mean


# Work space for one caller at a time.
cdef struct Space:
    Py_ssize_t d
    Point here
    Point there
    Point kept
    double *whitened               # (d, d), for panels (most rows, most rows)
    double *hessian                # (d, d), for panels (most rows, PANEL_BLOCK) columns whitened
    double *spectrum               # (d), for panels (most rows)
    double *step                   # (d)
    double *curvature              # (d)
    double *raw                    # (d)
    double *work


cdef Py_ssize_t space_length(
    Py_ssize_t d, Py_ssize_t n_matrices, Py_ssize_t n_factors, Py_ssize_t n_rows) noexcept nogil
cdef bint is_space_too_large(
    Py_ssize_t d, Py_ssize_t n_matrices, Py_ssize_t n_factors, Py_ssize_t n_rows) noexcept nogil
cdef Space view_space(
    Py_ssize_t d, Py_ssize_t n_matrices, Py_ssize_t n_factors, Py_ssize_t n_rows, double *buffer) noexcept nogil

cdef void start_from(Space *space, const Problem *problem, const double *uniquenesses) noexcept nogil
cdef void start_near(Space *space, const Problem *problem, const double *loadings) noexcept nogil
cdef double search(
    Space *space, const Problem *problem, Py_ssize_t max_steps, double tol, double bar, double patience) noexcept nogil
cdef double best_number(
    Space *space, const Problem *problem, Py_ssize_t *offsets, const Prices *prices, Py_ssize_t max_steps, double tol,
    double patience, double least_saving) noexcept nogil
cdef double best_number_given_noise(
    Space *space, const Problem *problem, Py_ssize_t *offsets, const Prices *prices) noexcept nogil
cdef void set_principal_noise(
    Space *space, const Problem *problem, const double *loadings, double *uniquenesses) noexcept nogil
cdef void set_uniquenesses(Space *space, const Problem *problem, double *uniquenesses) noexcept nogil
cdef void set_loadings(Space *space, Py_ssize_t K, const Py_ssize_t *offsets, double *loadings) noexcept nogil
