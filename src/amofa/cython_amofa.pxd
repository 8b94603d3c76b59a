# The factor analysers of amofa for other compiled code: the one .pxd that is installed.
#
#   from amofa.cython_amofa cimport mixture_size, prepare_mixture, posterior
#
# All functions are `noexcept nogil`, keep no state and allocate nothing: they may be called from any number of threads
# at once, each with a work array of its own. Sizes are numbers of doubles. Memory is the caller's; IN is read, OUT
# written, INOUT both, WORK scratch whose contents mean nothing before and after. Arrays are C-contiguous. Log densities
# and costs are in nats. K components, d features, p_k factors of component k, P of all; Sigma_k = Lambda_k' Lambda_k +
# diag(psi_k), with loadings Lambda_k (p_k, d): one row per factor, the transpose of `loadings` of a Python model.
#
# Status returns: 0 where all went well; -1 where an array is no prepared mixture of this process, a pointer that is
# needed is NULL, or a size, index or other argument is out of range; -2 where no row counts; -3 where an array is too
# short; else 1 + the number of the component whose numbers are not finite or whose covariance matrix is not positive
# definite. Functions that take rows return the number of rows that they could not use instead (see "rows").
#
# Each function that writes has a second form, NAME_checked, which is told how many doubles its outputs and its work
# array hold. It returns -3 before it has written anything, instead of writing beyond their ends. The other form takes
# for granted that they are as long as these pages say, and is otherwise the same.
#
# Some products go through the BLAS of SciPy, which may have threads of its own: whoever calls from several threads
# should hold it to one (threadpoolctl.threadpool_limits(1, "blas")).


# ---- a mixture -------------------------------------------------------------------------------------------------------
#
# A prepared mixture is one opaque array of doubles. It does not change once it is made, may be shared by threads and
# copied, and is good for the running process and its forks only: it carries the version of its layout and a token of
# the process, so that one from a file, another process or another build is refused by every function (status -1). A
# fitted Python model gives its own: model.cython_handle().mixture.

# Size of a prepared mixture. The offsets say which loadings belong to a component: rows offsets[k] .. offsets[k + 1] of
# (P, d), offsets[K] = P. -1 where they do not rise from 0, or n_components or n_features is not positive.
cdef Py_ssize_t mixture_size(
    Py_ssize_t n_components,
    Py_ssize_t n_features,
    const Py_ssize_t *offsets,      # IN   (K + 1)
) noexcept nogil

# Prepare a mixture. Weights need not sum to 1: with weights of 1 the log joint densities are those of the components.
# Cost O(sum_k d p_k^2).
cdef int prepare_mixture(
    Py_ssize_t n_components,
    Py_ssize_t n_features,
    const Py_ssize_t *offsets,      # IN   (K + 1)
    const double *weights,          # IN   (K) not negative
    const double *means,            # IN   (K, d)
    const double *loadings,         # IN   (P, d) component after component
    const double *uniquenesses,     # IN   (K, d) variances, positive
    double *mixture,                # OUT  mixture_size
) noexcept nogil
cdef int prepare_mixture_checked(
    Py_ssize_t n_components,
    Py_ssize_t n_features,
    const Py_ssize_t *offsets,
    const double *weights,
    const double *means,
    const double *loadings,
    const double *uniquenesses,
    double *mixture,
    Py_ssize_t mixture_length,
) noexcept nogil

# The same with multivariate t distributions where degrees of freedom are finite, and checked like the other. Sigma_k is
# then the scale matrix, and log joint densities of rows are log weights[k] t(x_i; k). Functions that take rows, and the
# M-step from accumulate_scatter, are for these mixtures, too; accumulate_statistics and maximize_component refuse them.
cdef int prepare_t_mixture(
    Py_ssize_t n_components,
    Py_ssize_t n_features,
    const Py_ssize_t *offsets,      # IN   (K + 1)
    const double *weights,          # IN   (K)
    const double *degrees_of_freedom,  # IN   (K) positive, infinite for normal components; NULL if all are normal
    const double *means,            # IN   (K, d)
    const double *loadings,         # IN   (P, d)
    const double *uniquenesses,     # IN   (K, d)
    double *mixture,                # OUT  mixture_size
    Py_ssize_t mixture_length,
) noexcept nogil

# Whether so many doubles hold a whole prepared mixture of this process: 0, or -1, or -3 where it is cut short. The
# other functions look only at its beginning, so check once what comes from elsewhere.
cdef int check_mixture(const double *mixture, Py_ssize_t length) noexcept nogil

# Numbers of components, features, and factors of component k; -1 where there is no such mixture or component.
cdef Py_ssize_t n_components(const double *mixture) noexcept nogil
cdef Py_ssize_t n_features(const double *mixture) noexcept nogil
cdef Py_ssize_t n_factors(const double *mixture, Py_ssize_t k) noexcept nogil

# Parameters of a prepared mixture, into arrays of so many doubles. Uniquenesses may differ in the last bit from those
# that it was prepared from.
cdef int mixture_weights(
    const double *mixture,
    double *weights,                # OUT  (K)
    Py_ssize_t weights_length,
) noexcept nogil
cdef int mixture_degrees_of_freedom(
    const double *mixture,
    double *degrees_of_freedom,     # OUT  (K)
    Py_ssize_t degrees_of_freedom_length,
) noexcept nogil
cdef int component_mean(
    const double *mixture,
    Py_ssize_t k,
    double *mean,                   # OUT  (d)
    Py_ssize_t mean_length,
) noexcept nogil
cdef int component_loadings(
    const double *mixture,
    Py_ssize_t k,
    double *loadings,               # OUT  (p_k, d)
    Py_ssize_t loadings_length,
) noexcept nogil
cdef int component_uniquenesses(
    const double *mixture,
    Py_ssize_t k,
    double *uniquenesses,           # OUT  (d)
    Py_ssize_t uniquenesses_length,
) noexcept nogil
cdef int component_covariance(
    const double *mixture,
    Py_ssize_t k,
    double *covariance,             # OUT  (d, d) Sigma_k
    Py_ssize_t covariance_length,
) noexcept nogil


# ---- rows ------------------------------------------------------------------------------------------------------------
#
# Feature j of row i is x[i * row_stride + j * feature_stride], strides in doubles: (d, 1) for C-contiguous rows, (1, n)
# for features first, which is fastest, since other rows are copied, block by block, into the work array. Row weights
# multiply responsibilities; NULL stands for ones.
#
# A row that cannot be used never spoils another one, and is counted: what the functions return is the number of such
# rows, at least 0, or a negative status. `posterior` gives NaN for rows with a NaN or infinite cell. Sums leave out
# such rows, rows whose weight is negative, above 1e100 or NaN, and rows that are further than 1e75 standard deviations
# from every component. Rows of weight 0 are skipped, whatever they hold, and not counted.
#
# The checked forms take the number of columns of x, which must be d, and the size of a cell: sizeof(double), or
# sizeof(float) for float32 rows, whose strides are in floats, and which are always copied.

# Size of the work array of every function that takes rows; -1 where `mixture` is not one.
cdef Py_ssize_t rows_work_size(const double *mixture) noexcept nogil

# Log densities of the mixture, log joint densities of rows and components, responsibilities, and factor scores
# E[z | x, k]. Any output may be NULL. Responsibilities of a row sum to 1 (a row that is infinitely far away keeps the
# weights). Cost O(n d P).
cdef int posterior(
    const double *mixture,          # IN
    Py_ssize_t n_rows,
    const double *x,                # IN
    Py_ssize_t row_stride,
    Py_ssize_t feature_stride,
    double *log_density,            # OUT  (n) nats
    double *log_joint,              # OUT  (K, n) log weights[k] N(x_i; k), nats
    double *responsibilities,       # OUT  (K, n)
    double *factor_scores,          # OUT  (P, n)
    double *work,                   # WORK rows_work_size
) noexcept nogil

# In the checked form, the value of row i and component (or factor) k is at [i * row_stride + k * stride] of an output:
# strides (1, n) for (K, n), (K, 1) for (n, K), more for parts of a larger array. With nan_is_missing, NaN marks missing
# cells: values are those of the other columns (marginal distributions), and rows with an infinite cell alone are not
# used. That costs O(d p^2) more for a row whose missing columns are not those of the incomplete row before it.
cdef Py_ssize_t missing_work_size(const double *mixture) noexcept nogil
cdef Py_ssize_t posterior_checked(
    const double *mixture,
    Py_ssize_t n_rows,
    Py_ssize_t n_columns,           # d
    const void *x,                  # IN   doubles or floats
    int cell_size,                  # 8 or 4 bytes
    Py_ssize_t row_stride,
    Py_ssize_t feature_stride,
    int nan_is_missing,
    double *log_density,            # OUT  (n) nats, contiguous
    Py_ssize_t log_density_length,
    double *log_joint,
    Py_ssize_t log_joint_length,
    Py_ssize_t log_joint_row_stride,
    Py_ssize_t log_joint_stride,
    double *responsibilities,
    Py_ssize_t responsibilities_length,
    Py_ssize_t responsibilities_row_stride,
    Py_ssize_t responsibilities_stride,
    double *factor_scores,
    Py_ssize_t factor_scores_length,
    Py_ssize_t factor_scores_row_stride,
    Py_ssize_t factor_scores_stride,
    double *work,                   # WORK rows_work_size; missing_work_size with nan_is_missing
    Py_ssize_t work_length,
) noexcept nogil

# Sufficient statistics of EM in which factors are missing, too. They start as zeros and are added to:
# statistics[0] is the log-likelihood and [1] the entropy of the responsibilities, nats, [2 .. 2 + K] the soft counts;
# the rest is opaque. Cost O(n d P).
cdef Py_ssize_t statistics_size(const double *mixture) noexcept nogil
cdef int accumulate_statistics(
    const double *mixture,          # IN
    Py_ssize_t n_rows,
    const double *x,                # IN
    Py_ssize_t row_stride,
    Py_ssize_t feature_stride,
    const double *row_weights,      # IN   (n) not negative, or NULL
    double *statistics,             # INOUT statistics_size
    double *work,                   # WORK rows_work_size
) noexcept nogil
cdef Py_ssize_t accumulate_statistics_checked(
    const double *mixture,
    Py_ssize_t n_rows,
    Py_ssize_t n_columns,
    const void *x,
    int cell_size,
    Py_ssize_t row_stride,
    Py_ssize_t feature_stride,
    const double *row_weights,
    double *statistics,
    Py_ssize_t statistics_length,
    double *work,
    Py_ssize_t work_length,
) noexcept nogil

# Sufficient statistics of EM in which only the components are missing: full second moments. The first 2 + K values are
# those above; then come sums of h (x - mean_k), (K, d), and of h (x - mean_k) (x - mean_k)', (K, d, d), their lower
# triangles, with h the weighted responsibilities; and K values that only t components need, for which h is multiplied
# by (nu + d) / (nu + m) in these sums, with nu degrees of freedom and the squared Mahalanobis distance m. Cost
# O(n d P + n K d^2).
cdef Py_ssize_t scatter_size(const double *mixture) noexcept nogil
cdef int accumulate_scatter(
    const double *mixture,          # IN
    Py_ssize_t n_rows,
    const double *x,                # IN
    Py_ssize_t row_stride,
    Py_ssize_t feature_stride,
    const double *row_weights,      # IN   (n) not negative, or NULL
    double *scatter,                # INOUT scatter_size
    double *work,                   # WORK rows_work_size
) noexcept nogil
cdef Py_ssize_t accumulate_scatter_checked(
    const double *mixture,
    Py_ssize_t n_rows,
    Py_ssize_t n_columns,
    const void *x,
    int cell_size,
    Py_ssize_t row_stride,
    Py_ssize_t feature_stride,
    const double *row_weights,
    double *scatter,
    Py_ssize_t scatter_length,
    double *work,
    Py_ssize_t work_length,
) noexcept nogil

# Add the sums of other rows under the same prepared mixture: statistics, scatter, or moments of Mardia's kurtosis.
cdef void merge(
    Py_ssize_t size,
    const double *other,            # IN   (size)
    double *sums,                   # INOUT (size)
) noexcept nogil

# Add soft counts and weighted fourth moments, the sums of h m^2, m the squared Mahalanobis distance. Mardia's weighted
# kurtosis of component k is fourth_moments[k] / soft_counts[k], d (d + 2) for a Gaussian.
cdef int accumulate_kurtosis(
    const double *mixture,          # IN
    Py_ssize_t n_rows,
    const double *x,                # IN
    Py_ssize_t row_stride,
    Py_ssize_t feature_stride,
    const double *row_weights,      # IN   (n) not negative, or NULL
    double *soft_counts,            # INOUT (K)
    double *fourth_moments,         # INOUT (K)
    double *work,                   # WORK rows_work_size
) noexcept nogil
cdef Py_ssize_t accumulate_kurtosis_checked(
    const double *mixture,
    Py_ssize_t n_rows,
    Py_ssize_t n_columns,
    const void *x,
    int cell_size,
    Py_ssize_t row_stride,
    Py_ssize_t feature_stride,
    const double *row_weights,
    double *soft_counts,
    Py_ssize_t soft_counts_length,
    double *fourth_moments,
    Py_ssize_t fourth_moments_length,
    double *work,
    Py_ssize_t work_length,
) noexcept nogil

# The kurtosis less that of a Gaussian, over its standard error: near 0 for one, NaN where soft_count is 0.
cdef double standardized_kurtosis(Py_ssize_t n_features, double soft_count, double fourth_moment) noexcept nogil


# ---- the M-step of one component -------------------------------------------------------------------------------------
#
# New parameters of component k of the mixture that the statistics were accumulated under. Its weight is its soft count
# over the sum of all. After a status other than 0 outputs may be half written, but for -2, after which they are as
# they were. `floor` has the smallest variance of each feature, positive.

# One EM step with the number of factors that it has: from accumulate_statistics. The mean becomes that of the rows by
# their responsibilities, with the factors integrated out; then loadings and uniquenesses are those that EM over the
# factors makes of the rows about the new mean. Cost O(d p^2).
cdef Py_ssize_t maximize_work_size(const double *mixture) noexcept nogil
cdef int maximize_component(
    const double *mixture,          # IN
    Py_ssize_t k,
    const double *statistics,       # IN   statistics_size
    const double *floor,            # IN   (d)
    double *mean,                   # OUT  (d)
    double *loadings,               # OUT  (p_k, d)
    double *uniquenesses,           # OUT  (d)
    double *work,                   # WORK maximize_work_size
) noexcept nogil
cdef int maximize_component_checked(
    const double *mixture,
    Py_ssize_t k,
    const double *statistics,
    const double *floor,
    double *mean,
    Py_ssize_t mean_length,
    double *loadings,
    Py_ssize_t loadings_length,
    double *uniquenesses,
    Py_ssize_t uniquenesses_length,
    double *work,
    Py_ssize_t work_length,
) noexcept nogil

# Maximum likelihood with any number of factors: from accumulate_scatter. Newton steps from the uniquenesses given, each
# raising the likelihood, at most max_steps, and none that promises fewer than tol nats; a small uniqueness that would
# go to its floor in ever shorter steps is set to it. Cost O(d^3) a step. Start at half the variances, or where the last
# fit of the component ended, with a tol of 1e-6 and 100 max_steps. The checked form says whether it has converged:
# whether no step promises tol nats any more. If not, call it again from where it ended.
cdef Py_ssize_t fit_work_size(Py_ssize_t n_features, Py_ssize_t most_factors) noexcept nogil
cdef int fit_component(
    const double *mixture,          # IN
    Py_ssize_t k,
    const double *scatter,          # IN   scatter_size
    Py_ssize_t n_factors,           # 0 .. d
    const double *floor,            # IN   (d)
    Py_ssize_t max_steps,
    double tol,
    double *mean,                   # OUT  (d)
    double *loadings,               # OUT  (n_factors, d)
    double *uniquenesses,           # INOUT (d)
    double *cost,                   # OUT  (1) soft count / 2 (log |Sigma| + tr(Sigma^-1 S)), nats, or NULL
    double *work,                   # WORK fit_work_size(n_features, n_factors)
) noexcept nogil
cdef int fit_component_checked(
    const double *mixture,
    Py_ssize_t k,
    const double *scatter,
    Py_ssize_t n_factors,
    const double *floor,
    Py_ssize_t max_steps,
    double tol,
    double *mean,
    Py_ssize_t mean_length,
    double *loadings,
    Py_ssize_t loadings_length,
    double *uniquenesses,           # INOUT (d)
    Py_ssize_t uniquenesses_length,
    double *cost,                   # OUT  (1), or NULL
    int *converged,                 # OUT  (1) 0 or 1, or NULL
    double *work,
    Py_ssize_t work_length,
) noexcept nogil

# The same with the number of factors chosen when q factors cost prices[q] nats more: from the number given, factors are
# added while that saves tol nats, and then removed while that costs nothing. No other number is tried.
cdef int choose_component(
    const double *mixture,          # IN
    Py_ssize_t k,
    const double *scatter,          # IN   scatter_size
    Py_ssize_t most_factors,        # 0 .. d
    const double *prices,           # IN   (most_factors + 1) nats
    const double *floor,            # IN   (d)
    Py_ssize_t max_steps,
    double tol,
    Py_ssize_t *n_factors,          # INOUT (1) 0 .. most_factors
    double *mean,                   # OUT  (d)
    double *loadings,               # OUT  (most_factors, d), the first n_factors rows
    double *uniquenesses,           # INOUT (d)
    double *cost,                   # OUT  (1) that above plus prices[n_factors], or NULL
    double *work,                   # WORK fit_work_size(n_features, most_factors)
) noexcept nogil
cdef int choose_component_checked(
    const double *mixture,
    Py_ssize_t k,
    const double *scatter,
    Py_ssize_t most_factors,
    const double *prices,
    const double *floor,
    Py_ssize_t max_steps,
    double tol,
    Py_ssize_t *n_factors,          # INOUT (1)
    double *mean,
    Py_ssize_t mean_length,
    double *loadings,
    Py_ssize_t loadings_length,     # at least most_factors d
    double *uniquenesses,           # INOUT (d)
    Py_ssize_t uniquenesses_length,
    double *cost,                   # OUT  (1), or NULL
    int *converged,                 # OUT  (1) 0 or 1, or NULL
    double *work,
    Py_ssize_t work_length,
) noexcept nogil
