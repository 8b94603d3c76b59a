# How a mixture lies in memory: shared by the kernels, not installed.
#
# Loadings are ragged: component k has the rows offsets[k] .. offsets[k + 1] of a (P, d) array, P factors in all, one
# row per factor. Rows of data are the fastest index: a block of n rows is a (d, n) array with row stride ld.
#
# parameters   weights (K), degrees of freedom (K), means (K, d), uniquenesses (K, d), loadings (P, d)
# prepared     weights (K), degrees of freedom (K), log_constants (K), form (K), means (K, d),
#              inverse_uniquenesses (K, d), loadings (P, d), projections (P, d), choleskys (sum of p_k^2),
#              memory for the preparation


# Ways to take the distance: what `Prepared.form` says.
cdef enum:
    WOODBURY = 0
    RESIDUAL = 1
    EXACT_RESIDUAL = 2


cdef struct Parameters:
    double *weights
    double *degrees_of_freedom     # infinite for a normal component; NULL if all are normal
    double *means
    double *uniquenesses
    double *loadings


cdef struct Prepared:
    Py_ssize_t n_components
    Py_ssize_t n_features
    const Py_ssize_t *offsets
    double *weights
    double *degrees_of_freedom
    double *log_constants          # log of weight times the normalising constant
    double *form                   # of the Mahalanobis distance: Woodbury's 0, residuals 1, in twice the precision 2
    double *means
    double *inverse_uniquenesses
    double *loadings
    double *projections            # W_k = L_k^-1 Lambda_k' Psi_k^-1 (p_k, d), L_k L_k' the capacitance
    double *choleskys              # L_k (p_k, p_k), lower triangles
    double *preparation            # of `orthogonal_length` values


cdef struct Scratch:
    Py_ssize_t stride              # rows that fit, and the distance of two features
    double *deviations             # (d, stride), of the component last looked at, or of its rows alone
    double *projected              # (P, stride), W_k (x - mean_k)
    double *scaled                 # (max p, stride)
    double *log_joint              # (K, stride)
    double *responsibilities       # (K, stride)
    double *log_density            # (stride)
    double *row_sum                # (stride)
    double *roots                  # (stride), roots of the responsibilities of the rows of a component
    int *rows                      # (stride), their numbers


# More doubles have more bytes than Py_ssize_t counts.
cdef inline bint is_beyond_memory(double n_values) noexcept nogil:
    return n_values > 2.0 ** 59


cdef Parameters view_parameters(Py_ssize_t K, Py_ssize_t d, double *buffer) noexcept nogil
cdef Prepared view_prepared(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets, double *buffer) noexcept nogil
cdef Scratch view_scratch(const Prepared *mixture, double *work) noexcept nogil
cdef Scratch view_scratch_of(Py_ssize_t n, const Prepared *mixture, double *work) noexcept nogil

cdef bint is_too_large(Py_ssize_t K, Py_ssize_t d, Py_ssize_t P) noexcept nogil
cdef Py_ssize_t n_parameters_stored(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil
cdef Py_ssize_t prepared_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil
cdef Py_ssize_t block_rows(Py_ssize_t d) noexcept nogil
cdef Py_ssize_t scratch_length(Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil
cdef Py_ssize_t scratch_length_of(
    Py_ssize_t n, Py_ssize_t K, Py_ssize_t d, const Py_ssize_t *offsets) noexcept nogil

cdef Py_ssize_t most_factors(Py_ssize_t K, const Py_ssize_t *offsets) noexcept nogil
cdef double log_normaliser(Py_ssize_t d, double degrees_of_freedom) noexcept nogil

cdef Py_ssize_t prepare_mixture(const Parameters *parameters, Prepared *mixture) noexcept nogil

cdef Prepared checked_mixture(const double[::1] prepared, const Py_ssize_t[::1] offsets, Py_ssize_t d)
cdef int check_layout(const Py_ssize_t[::1] offsets, Py_ssize_t d) except -1
cdef int check_parameters(const Prepared *mixture, const double[::1] parameters) except -1
cdef int check_rows(Py_ssize_t n, const double[::1] row_weights) except -1
cdef int check_work(const Prepared *mixture, double[::1] work) except -1
