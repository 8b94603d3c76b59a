# The M-step of one component.

from libc.math cimport INFINITY, exp, isfinite, isnan, log
from libc.string cimport memcpy, memset

from amofa._kernels._mixture cimport Prepared
from amofa._kernels._newton cimport (
    Point, Prices, Problem, Space, best_number, is_space_too_large, search, set_loadings, set_uniquenesses,
    space_length, start_from, view_space)
from amofa._kernels._standard cimport maximize_component as maximize_one
from amofa._kernels._statistics cimport Sums, set_moments, view_sums

cdef enum:
    # Steps that a fit makes before it looks for uniquenesses that creep to their floor.
    STEPS_OF_A_STAGE = 16
# A uniqueness below this share of its variance may creep to the floor.
cdef double CREEPING_SHARE = 0.01


cdef Py_ssize_t maximize_work_size(const double *mixture) noexcept nogil:
    return header_of(mixture).maximize_work_size if is_mixture(mixture) else BAD_ARGUMENT


cdef int maximize_component(
    const double *mixture, Py_ssize_t k, const double *statistics, const double *floor, double *mean,
    double *loadings, double *uniquenesses, double *work,
) noexcept nogil:
    return maximize_component_checked(mixture, k, statistics, floor, mean, UNKNOWN, loadings, UNKNOWN, uniquenesses,
                                      UNKNOWN, work, UNKNOWN)


cdef int maximize_component_checked(
    const double *mixture, Py_ssize_t k, const double *statistics, const double *floor,
    double *mean, Py_ssize_t mean_length, double *loadings, Py_ssize_t loadings_length,
    double *uniquenesses, Py_ssize_t uniquenesses_length, double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Prepared prepared
    cdef Sums sums
    cdef const double *cholesky
    cdef Py_ssize_t i
    cdef int status
    if not has_component(mixture, k) or statistics_size(mixture) < 0 or statistics == NULL:
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    status = parameters_status(prepared.n_features, n_factors(mixture, k), floor, mean, mean_length, loadings,
                               loadings_length, uniquenesses, uniquenesses_length, work, work_length,
                               maximize_work_size(mixture))
    if status:
        return status
    sums = view_sums(prepared.n_components, prepared.n_features, False, <double *> statistics)
    if not sums.soft_counts[k] > 0.0:
        return NO_ROWS
    cholesky = prepared.choleskys
    for i in range(k):
        cholesky += n_factors(mixture, i) * n_factors(mixture, i)
    if maximize_one(k, &prepared, cholesky, &sums, floor, mean, loadings, uniquenesses, work):
        return <int> k + 1
    return 0


cdef int parameters_status(
    Py_ssize_t d, Py_ssize_t p, const double *floor, const double *mean, Py_ssize_t mean_length,
    const double *loadings, Py_ssize_t loadings_length, const double *uniquenesses, Py_ssize_t uniquenesses_length,
    const double *work, Py_ssize_t work_length, Py_ssize_t work_size,
) noexcept nogil:
    """Check the outputs of an M-step with p factors, its floor and its work array. Returns a status."""
    if mean == NULL or uniquenesses == NULL or work == NULL or (loadings == NULL and p):
        return BAD_ARGUMENT
    if not are_variances(d, floor):
        return BAD_ARGUMENT
    if min(mean_length, uniquenesses_length) < d or loadings_length // d < p or work_length < work_size:
        return TOO_SHORT
    return 0


cdef bint are_variances(Py_ssize_t d, const double *values) noexcept nogil:
    cdef Py_ssize_t j
    if values == NULL:
        return False
    for j in range(d):
        if not 0.0 < values[j] < INFINITY:
            return False
    return True


# One factor analyser to be fitted to the second moments of a component.
cdef struct Analysis:
    double count
    Py_ssize_t[2] offsets          # 0, the number of factors
    Problem problem
    Space space


cdef Py_ssize_t fit_work_size(Py_ssize_t n_features, Py_ssize_t most_factors) noexcept nogil:
    if n_features < 1 or not 0 <= most_factors <= n_features or is_space_too_large(n_features, 1, n_features, -1):
        return BAD_ARGUMENT
    return n_features * n_features + space_length(n_features, 1, most_factors, -1)


cdef int begin_analysis(
    Analysis *analysis, const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t n_factors,
    Py_ssize_t most_factors, const double *floor, Py_ssize_t max_steps, double tol, double *mean,
    Py_ssize_t mean_length, const double *loadings, Py_ssize_t loadings_length, const double *uniquenesses,
    Py_ssize_t uniquenesses_length, double *work, Py_ssize_t work_length,
) noexcept nogil:
    """Compute mean, covariance and the problem of the uniquenesses of component k, in `work`. Returns a status."""
    cdef Prepared prepared
    cdef Sums sums
    cdef Py_ssize_t d
    cdef double tail_count
    cdef int status
    if not has_component(mixture, k) or not 0 <= n_factors <= most_factors <= n_features(mixture):
        return BAD_ARGUMENT
    prepared = view_mixture(mixture)
    d = prepared.n_features
    if scatter == NULL or scatter_size(mixture) < 0 or max_steps < 0 or isnan(tol):
        return BAD_ARGUMENT
    status = parameters_status(d, most_factors, floor, mean, mean_length, loadings, loadings_length, uniquenesses,
                               uniquenesses_length, work, work_length, fit_work_size(d, most_factors))
    if status:
        return status
    if not are_variances(d, uniquenesses):
        return BAD_ARGUMENT
    sums = view_sums(prepared.n_components, d, True, <double *> scatter)
    if not sums.soft_counts[k] > 0.0:
        return NO_ROWS
    analysis.count = tail_count = sums.soft_counts[k]
    if prepared.degrees_of_freedom[k] < INFINITY:
        tail_count = sums.tail_counts[k]
    set_moments(d, analysis.count, tail_count, prepared.means + k * d, sums.first + k * d,
                sums.second + k * d * d, mean, work)
    analysis.offsets[0], analysis.offsets[1] = 0, n_factors
    memset(&analysis.problem, 0, sizeof(Problem))
    analysis.problem.n_matrices, analysis.problem.covariances = 1, work
    analysis.problem.counts, analysis.problem.offsets = &analysis.count, analysis.offsets
    analysis.problem.floor, analysis.problem.factors_alone = floor, True
    analysis.space = view_space(d, 1, most_factors, -1, work + d * d)
    start_from(&analysis.space, &analysis.problem, uniquenesses)
    return 0


cdef double settle(Analysis *analysis, Py_ssize_t max_steps, double tol, bint *converged) noexcept nogil:
    """Search from here, and hurry uniquenesses that creep to their floor. Returns the cost."""
    cdef Py_ssize_t left = max_steps, steps
    cdef double cost
    while True:
        steps = min(left, <Py_ssize_t> STEPS_OF_A_STAGE)
        cost = search(&analysis.space, &analysis.problem, steps, tol, INFINITY, 0.0)
        left -= steps
        converged[0] = isfinite(cost) and analysis.space.here.is_settled
        if not isfinite(cost) or not max_steps:
            return cost
        if set_to_floor(analysis, creeping(analysis, tol)):
            converged[0], cost = False, analysis.space.here.cost
        if converged[0] or left == 0:
            return cost


cdef Py_ssize_t creeping(const Analysis *analysis, double tol) noexcept nogil:
    """Return the small uniqueness that promises most, and more than tol nats, if it went to its floor, or -1.

    Where the cost falls all the way to the floor it is nearly linear in the uniqueness, so that each Newton step in the
    logarithm is shorter than the one before.
    """
    cdef const Point *here = &analysis.space.here
    cdef Py_ssize_t d = analysis.space.d, j, best = -1
    cdef double most = tol, gain, uniqueness
    for j in range(d):
        uniqueness = exp(here.log_noise[j])
        if uniqueness < CREEPING_SHARE * analysis.problem.covariances[j * d + j]:
            # The gradient in the logarithm is the slope times the uniqueness.
            gain = here.gradient[j] * (1.0 - analysis.problem.floor[j] / uniqueness)
            if gain > most:
                best, most = j, gain
    return best


cdef bint set_to_floor(Analysis *analysis, Py_ssize_t j) noexcept nogil:
    """Set uniqueness j, if there is one, to its floor. Return False, and stay here, if that does not cost less."""
    cdef Space *space = &analysis.space
    cdef double before = space.here.cost
    if j < 0:
        return False
    memcpy(space.kept.log_noise, space.here.log_noise, space.d * sizeof(double))
    memcpy(space.kept.vectors, space.here.vectors, analysis.offsets[1] * space.d * sizeof(double))
    space.kept.is_near = True
    space.here, space.kept = space.kept, space.here
    space.here.log_noise[j] = log(analysis.problem.floor[j])
    if search(space, &analysis.problem, 0, 0.0, INFINITY, 0.0) < before:
        return True
    space.here, space.kept = space.kept, space.here
    return False


cdef bint end_analysis(
    Analysis *analysis, double found, double *loadings, double *uniquenesses, double *cost,
) noexcept nogil:
    """Copy the analyser to the outputs. Returns False if its cost is not finite."""
    if not isfinite(found):
        return False
    set_uniquenesses(&analysis.space, &analysis.problem, uniquenesses)
    set_loadings(&analysis.space, 1, analysis.offsets, loadings)
    if cost != NULL:
        cost[0] = found
    return True


cdef int fit_component(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t n_factors, const double *floor,
    Py_ssize_t max_steps, double tol, double *mean, double *loadings, double *uniquenesses, double *cost,
    double *work,
) noexcept nogil:
    return fit_component_checked(mixture, k, scatter, n_factors, floor, max_steps, tol, mean, UNKNOWN, loadings,
                                 UNKNOWN, uniquenesses, UNKNOWN, cost, NULL, work, UNKNOWN)


cdef int fit_component_checked(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t n_factors, const double *floor,
    Py_ssize_t max_steps, double tol, double *mean, Py_ssize_t mean_length,
    double *loadings, Py_ssize_t loadings_length, double *uniquenesses, Py_ssize_t uniquenesses_length,
    double *cost, int *converged, double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Analysis analysis
    cdef double found
    cdef bint is_settled = False
    cdef int status = begin_analysis(&analysis, mixture, k, scatter, n_factors, n_factors, floor, max_steps, tol, mean,
                                     mean_length, loadings, loadings_length, uniquenesses, uniquenesses_length, work,
                                     work_length)
    if converged != NULL:
        converged[0] = False
    if status:
        return status
    found = settle(&analysis, max_steps, tol, &is_settled)
    if not end_analysis(&analysis, found, loadings, uniquenesses, cost):
        return <int> k + 1
    if converged != NULL:
        converged[0] = is_settled
    return 0


cdef int choose_component(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t most_factors, const double *prices,
    const double *floor, Py_ssize_t max_steps, double tol, Py_ssize_t *n_factors, double *mean, double *loadings,
    double *uniquenesses, double *cost, double *work,
) noexcept nogil:
    return choose_component_checked(mixture, k, scatter, most_factors, prices, floor, max_steps, tol, n_factors, mean,
                                    UNKNOWN, loadings, UNKNOWN, uniquenesses, UNKNOWN, cost, NULL, work, UNKNOWN)


cdef int choose_component_checked(
    const double *mixture, Py_ssize_t k, const double *scatter, Py_ssize_t most_factors, const double *prices,
    const double *floor, Py_ssize_t max_steps, double tol, Py_ssize_t *n_factors, double *mean, Py_ssize_t mean_length,
    double *loadings, Py_ssize_t loadings_length, double *uniquenesses, Py_ssize_t uniquenesses_length,
    double *cost, int *converged, double *work, Py_ssize_t work_length,
) noexcept nogil:
    cdef Analysis analysis
    cdef Prices costs
    cdef double found
    cdef bint is_settled = False
    cdef Py_ssize_t q
    cdef int status
    if converged != NULL:
        converged[0] = False
    if n_factors == NULL or prices == NULL:
        return BAD_ARGUMENT
    status = begin_analysis(&analysis, mixture, k, scatter, n_factors[0], most_factors, floor, max_steps, tol, mean,
                            mean_length, loadings, loadings_length, uniquenesses, uniquenesses_length, work,
                            work_length)
    if status:
        return status
    for q in range(most_factors + 1):
        if not isfinite(prices[q]):
            return BAD_ARGUMENT
    costs.most, costs.of_factors = most_factors, prices
    # The mean has no price.
    costs.mean, costs.least_mean = -INFINITY, 0.0
    # Every trial of another number of factors runs to its end.
    found = best_number(&analysis.space, &analysis.problem, analysis.offsets, &costs, max_steps, tol, INFINITY, tol)
    is_settled = analysis.space.here.is_settled
    if isfinite(found) and creeping(&analysis, tol) >= 0:
        found = settle(&analysis, max_steps, tol, &is_settled) + prices[analysis.offsets[1]]
    if not end_analysis(&analysis, found, loadings, uniquenesses, cost):
        return <int> k + 1
    n_factors[0] = analysis.offsets[1]
    if converged != NULL:
        converged[0] = is_settled
    return 0
