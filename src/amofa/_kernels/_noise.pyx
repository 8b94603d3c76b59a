"""Uniquenesses: the cost of their prior, and the best one if all columns share it (isotropic noise)."""

from libc.math cimport exp, fabs, log, tanh


cdef double total_prior_cost(
    Py_ssize_t K, Py_ssize_t d, const double *uniquenesses, int noise, double count, const double *scale,
) noexcept nogil:
    """Return the cost of the prior of (K, d) uniquenesses; tied ones count once."""
    cdef Py_ssize_t j, k
    cdef double total = 0.0, mean_scale = average(d, scale)
    if count == 0.0:
        return 0.0
    for k in range(1 if noise == SHARED else K):
        if noise == ISOTROPIC:
            total += log_cosh(0.5 * log(uniquenesses[k * d] / mean_scale))
        else:
            for j in range(d):
                total += log_cosh(0.5 * log(uniquenesses[k * d + j] / scale[j]))
    return count * total


cdef double average(Py_ssize_t n, const double *values) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0.0
    for i in range(n):
        total += values[i] / n
    return total


cdef double best_variance(
    Py_ssize_t m, const double *eigenvalues, Py_ssize_t d, Py_ssize_t n_factors, double count, const double *floor,
    double prior_count, const double *prior_scale,
) noexcept nogil:
    """Return one variance for all d columns from the m leading eigenvalues, decreasing; the others are 0.

    The maximum is known (Tipping & Bishop 1999, JRSS B 61:611), with the prior, too. Factors below the noise, because
    the prior raises it, count as noise.
    """
    cdef Py_ssize_t active = min(n_factors, d - 1, m), i
    cdef double rest, variance, least = 0.0, scale = average(d, prior_scale)
    for i in range(d):
        least = max(least, floor[i])
    while True:
        rest = 0.0
        for i in range(m - 1, active - 1, -1):
            rest += max(eigenvalues[i], 0.0)
        variance = penalised_variance(count * (d - active), count * rest, prior_count, scale, least)
        if active == 0 or eigenvalues[active - 1] >= variance:
            return variance
        active -= 1


cdef double penalised_variance(
    double count, double total, double prior_count, double prior_scale, double floor,
) noexcept nogil:
    """Minimise count/2 log v + total/(2 v) + prior_count log cosh(log(v / prior_scale) / 2) over v >= floor.

    It is convex in log v; Newton's method starts on the side where it cannot overshoot.
    """
    cdef double center = log(prior_scale), x, step, slope, tail
    x = log(max(total / count, floor)) if total > 0.0 else log(floor)
    for _ in range(100):
        tail = tanh(0.5 * (x - center))
        slope = 0.5 * (count - total * exp(-x) + prior_count * tail)
        step = slope / (0.5 * total * exp(-x) + 0.25 * prior_count * (1.0 - tail * tail) + 1e-300)
        step = max(-1.0, min(1.0, step))
        x -= step
        if fabs(step) < 1e-14:
            break
    return max(exp(x), floor)


# ---- what Python calls -----------------------------------------------------------------------------------------------

def prior_cost(
    const double[:, ::1] uniquenesses not None,  # IN   (K, d)
    int noise,
    double count,
    const double[::1] scale not None,  # IN   (d)
):
    """Return minus the log of the prior density of uniquenesses over its maximum, in nats; tied ones count once.

    The logarithm of each has a density ~ 1 / cosh(log(psi / scale) / 2)^count; one for all columns has the mean scale.
    `noise` is 0 for uniquenesses of each component, 1 for shared ones, 2 for one for all columns of a component. Raises
    ValueError if shapes do not agree.
    """
    cdef Py_ssize_t K = uniquenesses.shape[0], d = uniquenesses.shape[1]
    if K == 0 or d == 0 or scale.shape[0] != d:
        raise ValueError("scale must have one value per column of the uniquenesses")
    return total_prior_cost(K, d, &uniquenesses[0, 0], noise, count, &scale[0])


def maximize_isotropic(
    const double[::1] eigenvalues not None,  # IN   (m) of a covariance matrix, falling; the d - m others are 0
    Py_ssize_t n_factors,
    double count,
    const double[::1] floor not None,  # IN   (d)
    double prior_count,
    const double[::1] prior_scale not None,  # IN   (d)
):
    """Return the best variance of all columns for a number of factors, its cost, and log |Sigma|.

    The loadings are then sqrt(max(l - variance, 0)) times the eigenvectors. The cost is
    n/2 (log |Sigma| + tr(Sigma^-1 S)) plus that of the prior, in nats. Raises ValueError if shapes do not agree.
    """
    cdef Py_ssize_t m = eigenvalues.shape[0], d = floor.shape[0], i
    cdef double variance, log_determinant, trace = 0.0
    if d == 0 or prior_scale.shape[0] != d or n_factors < 0:
        raise ValueError("floor and prior_scale must have one value per column, and n_factors be 0 or more")
    variance = best_variance(
        m, &eigenvalues[0] if m else NULL, d, n_factors, count, &floor[0], prior_count, &prior_scale[0])
    log_determinant = d * log(variance)
    for i in range(m):
        if i < n_factors and eigenvalues[i] > variance:
            log_determinant += log(eigenvalues[i] / variance)
            trace += 1.0
        else:
            trace += max(eigenvalues[i], 0.0) / variance
    return (
        variance,
        0.5 * count * (log_determinant + trace)
        + total_prior_cost(1, d, &variance, ISOTROPIC, prior_count, &prior_scale[0]),
        log_determinant)
