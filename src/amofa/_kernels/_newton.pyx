"""Best uniquenesses of factor analysers, by Newton steps in their logarithms, each held to lower the cost.

Why only these are searched: `amofa._kernels._factor_analysis`.
"""

from libc.math cimport INFINITY, NAN, exp, isfinite, log, sqrt, tanh
from libc.string cimport memcpy, memset

from amofa._kernels._blas cimport (
    LEADING_FROM, LEADING_SHARE, cholesky_lower, eigen, eigen_work, eigenvalues, gemm, leading_eigen, solve_lower,
    syrk_lower)
from amofa._kernels._mixture cimport is_beyond_memory
from amofa._kernels._noise cimport log_cosh

# The largest step in the logarithm of a uniqueness.
cdef double LONGEST_STEP = 2.0
# Relative ridge of the Hessian, which is singular if loadings and uniquenesses are not identified.
cdef double RIDGE = 1e-3
# Minimum share of the promised decrease, and how often a step is shortened to a quarter.
cdef double SUFFICIENT = 1e-4
cdef int MOST_HALVINGS = 6
# Number of columns of a panel that are whitened at a time.
cdef enum:
    PANEL_BLOCK = 256
# Where factors are few, eigenvectors of a matrix nearby are improved by powers of the matrix: from so many columns on,
# and with at most one factor for so many of them (two sets of vectors have the memory of a matrix). The residuals of
# those that are kept have at most this length, as a share of the root sum of squares of the eigenvalues: with 1e-4, EM
# takes a few more iterations; 1e-7 costs no more. One power for so many columns may be taken; where these would not get
# there, a decomposition is cheaper.
cdef enum:
    FOLLOWED_FROM = 12
    FOLLOWED_SHARE = 2
    POWERS_SHARE = 2
cdef double RESIDUAL = 1e-6


# ---- memory ----------------------------------------------------------------------------------------------------------

cdef Py_ssize_t space_length(
    Py_ssize_t d, Py_ssize_t n_matrices, Py_ssize_t n_factors, Py_ssize_t n_rows,
) noexcept nogil:
    """Return the length of a space in doubles; n_rows is -1 for covariance matrices, else the most rows of a panel."""
    cdef Py_ssize_t side = d if n_rows < 0 else n_rows
    return (3 * point_length(d, n_matrices, n_factors) + side * side + hessian_length(d, n_rows) + side + 3 * d
            + eigen_work(side))


cdef bint is_space_too_large(
    Py_ssize_t d, Py_ssize_t n_matrices, Py_ssize_t n_factors, Py_ssize_t n_rows,
) noexcept nogil:
    """Return whether `space_length`, which is below this sum, might overflow Py_ssize_t."""
    cdef double side = <double> d if n_rows < 0 else <double> n_rows
    return is_beyond_memory(
        4.0 * ((d + 4.0) * (<double> n_matrices + n_factors + 4.0) + (side + 64.0) * (side + 64.0)))


cdef Py_ssize_t point_length(Py_ssize_t d, Py_ssize_t n_matrices, Py_ssize_t n_factors) noexcept nogil:
    return 2 * d + n_matrices * d + n_factors * d


cdef Py_ssize_t hessian_length(Py_ssize_t d, Py_ssize_t n_rows) noexcept nogil:
    return d * d if n_rows < 0 else n_rows * min(d, <Py_ssize_t> PANEL_BLOCK)


cdef Space view_space(
    Py_ssize_t d, Py_ssize_t n_matrices, Py_ssize_t n_factors, Py_ssize_t n_rows, double *buffer,
) noexcept nogil:
    cdef Space view
    cdef Py_ssize_t point = point_length(d, n_matrices, n_factors), side = d if n_rows < 0 else n_rows
    view.d = d
    view_point(&view.here, d, n_matrices, buffer)
    view_point(&view.there, d, n_matrices, buffer + point)
    view_point(&view.kept, d, n_matrices, buffer + 2 * point)
    view.whitened = buffer + 3 * point
    view.hessian = view.whitened + side * side
    view.spectrum = view.hessian + hessian_length(d, n_rows)
    view.step = view.spectrum + side
    view.curvature = view.step + d
    view.raw = view.curvature + d
    view.work = view.raw + d
    return view


cdef void view_point(Point *point, Py_ssize_t d, Py_ssize_t K, double *start) noexcept nogil:
    point.log_noise = start
    point.gradient = start + d
    point.values = start + 2 * d
    point.vectors = point.values + K * d


# ---- the number of factors -------------------------------------------------------------------------------------------

cdef double best_number(
    Space *space, const Problem *problem, Py_ssize_t *offsets, const Prices *prices, Py_ssize_t max_steps, double tol,
    double patience, double least_saving,
) noexcept nogil:
    """Run `Solver.choose` from ``here.log_noise`` and ``offsets[1]`` factors, which get the result."""
    cdef double cost = search(space, problem, max_steps, tol, INFINITY, 0.0) + price(space, offsets[1], prices, problem)
    cdef Py_ssize_t q = offsets[1], more, fewer, number
    while q < prices.most and isfinite(cost):
        more = paying_factors(space, problem, q, prices)
        if not more:
            break
        # Two factors may pay where one does not.
        for number in range(q + more, min(q + more + 2, prices.most + 1)):
            if try_number(
                    space, problem, offsets, number, prices, &cost, cost - least_saving, max_steps, tol, patience):
                break
        if offsets[1] == q:
            break
        q = offsets[1]
    while q > 0 and isfinite(cost):
        fewer = q - 1
        # Numbers that a covariance matrix cannot tell apart have the same price: skip them.
        while fewer and prices.of_factors[q] <= prices.of_factors[fewer]:
            fewer -= 1
        if not try_number(space, problem, offsets, fewer, prices, &cost, cost, max_steps, tol, patience):
            break
        q = offsets[1]
    return cost


cdef Py_ssize_t paying_factors(Space *space, const Problem *problem, Py_ssize_t q, const Prices *prices) noexcept nogil:
    """Return how many more factors save most with the present uniquenesses, at least 1; 0 if none is left."""
    cdef Py_ssize_t best = 0, j
    cdef double gain = 0.0, saved, most = 0.0, value
    complete_values(space, problem, q)
    if space.here.values[q] <= 1.0:
        return 0
    for j in range(q, prices.most):
        value = max(space.here.values[j], 1.0)
        gain += 0.5 * problem.counts[0] * (value - 1.0 - log(value))
        saved = gain - (prices.of_factors[j + 1] - prices.of_factors[q])
        if saved > most:
            best, most = j + 1 - q, saved
    return max(1, best)


cdef void complete_values(Space *space, const Problem *problem, Py_ssize_t q) noexcept nogil:
    """Compute all eigenvalues here, if only those of the q factors are known."""
    cdef Py_ssize_t d = space.d, i
    if space.here.is_complete:
        return
    for i in range(d):
        space.raw[i] = exp(-0.5 * space.here.log_noise[i])
    whiten_matrix(space, problem, 0)
    if eigenvalues(d, space.whitened, d, space.spectrum, space.work):
        return
    for i in range(q, d):
        space.here.values[i] = space.spectrum[d - 1 - i]


cdef bint try_number(
    Space *space, const Problem *problem, Py_ssize_t *offsets, Py_ssize_t q, const Prices *prices, double *cost,
    double bar, Py_ssize_t max_steps, double tol, double patience,
) noexcept nogil:
    """Search with q factors. Return True if the result is not above the bar, else go back and return False."""
    cdef Py_ssize_t before = offsets[1]
    cdef double found
    # The price of the mean hardly changes.
    cdef double rest = bar - price(space, before, prices, problem)
    rest += prices.of_factors[before] - prices.of_factors[q]
    memcpy(space.kept.log_noise, space.here.log_noise, space.d * sizeof(double))
    # Fewer factors have the first of the same vectors.
    space.kept.is_near = q < before and problem.row_offsets == NULL
    if space.kept.is_near:
        memcpy(space.kept.vectors, space.here.vectors, q * space.d * sizeof(double))
    space.here, space.kept = space.kept, space.here
    offsets[1] = q
    found = search(space, problem, max_steps, tol, rest, patience) + price(space, q, prices, problem)
    if found <= bar:
        cost[0] = found
        return True
    offsets[1] = before
    space.here, space.kept = space.kept, space.here
    return False


cdef double price(Space *space, Py_ssize_t q, const Prices *prices, const Problem *problem) noexcept nogil:
    """Return the price of the analyser here."""
    cdef double log_determinant = 0.0
    cdef Py_ssize_t j
    for j in range(space.d):
        log_determinant += space.here.log_noise[j]
    for j in range(n_active(space, &space.here, problem.offsets, 0)):
        log_determinant += log(space.here.values[j])
    return prices.of_factors[q] + 0.5 * max(prices.mean - log_determinant, prices.least_mean)


cdef double best_number_given_noise(
    Space *space, const Problem *problem, Py_ssize_t *offsets, const Prices *prices,
) noexcept nogil:
    """Choose ``offsets[1]``, the number of factors that costs least with the uniquenesses here. Returns the cost."""
    cdef Py_ssize_t best = 0, q
    cdef double cost, value, least = INFINITY, log_determinant = 0.0, half = 0.5 * problem.counts[0]
    offsets[1] = prices.most
    evaluate(space, problem, &space.here)
    cost = space.here.cost
    for q in range(n_active(space, &space.here, offsets, 0)):
        cost += half * (space.here.values[q] - 1.0 - log(space.here.values[q]))
    for q in range(space.d):
        log_determinant += space.here.log_noise[q]
    for q in range(prices.most + 1):
        if q:
            value = max(space.here.values[q - 1], 1.0)
            cost -= half * (value - 1.0 - log(value))
            log_determinant += log(value)
        value = cost + prices.of_factors[q] + 0.5 * max(prices.mean - log_determinant, prices.least_mean)
        if not value >= least:
            best, least = q, value
    offsets[1] = best
    return least


cdef void set_principal_noise(
    Space *space, const Problem *problem, const double *loadings, double *uniquenesses,
) noexcept nogil:
    """Set the uniquenesses to what the loadings leave of the variances, down to the floor."""
    cdef Py_ssize_t d = space.d, i, j
    cdef double *left = space.raw
    memset(left, 0, d * sizeof(double))
    if problem.row_offsets == NULL:
        for j in range(d):
            left[j] = problem.covariances[j * d + j]
    else:
        for i in range(problem.row_offsets[0], problem.row_offsets[1]):
            for j in range(d):
                left[j] += problem.panels[i * d + j] * problem.panels[i * d + j]
    for i in range(problem.offsets[1]):
        for j in range(d):
            left[j] -= loadings[i * d + j] * loadings[i * d + j]
    for j in range(d):
        uniquenesses[j] = max(left[j], problem.floor[j])


# ---- the search ------------------------------------------------------------------------------------------------------

cdef void start_from(Space *space, const Problem *problem, const double *uniquenesses) noexcept nogil:
    cdef Py_ssize_t j
    space.here.is_near = False
    for j in range(space.d):
        space.here.log_noise[j] = log(max(uniquenesses[j], problem.floor[j]))


cdef void start_near(Space *space, const Problem *problem, const double *loadings) noexcept nogil:
    """Set the vectors here to those of these loadings (P, d), if each factor explains something."""
    cdef Py_ssize_t d = space.d, j, q
    cdef double *vectors = space.here.vectors
    cdef double size
    for j in range(d):
        space.raw[j] = exp(-0.5 * space.here.log_noise[j])
    for q in range(problem.offsets[problem.n_matrices]):
        size = 0.0
        for j in range(d):
            vectors[q * d + j] = loadings[q * d + j] * space.raw[j]
            size += vectors[q * d + j] * vectors[q * d + j]
        if not size > 0.0:
            return
        for j in range(d):
            vectors[q * d + j] /= sqrt(size)
    space.here.is_near = True


cdef void set_uniquenesses(Space *space, const Problem *problem, double *uniquenesses) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(space.d):
        uniquenesses[j] = max(exp(space.here.log_noise[j]), problem.floor[j])


cdef double search(
    Space *space, const Problem *problem, Py_ssize_t max_steps, double tol, double bar, double patience,
) noexcept nogil:
    """Make Newton steps from here, while ``patience`` times what one promises leads below the bar."""
    cdef double promised
    evaluate(space, problem, &space.here)
    for _ in range(max_steps):
        promised = newton_step(space, problem)
        if promised > tol and space.here.cost - patience * promised > bar:
            break
        if not promised > tol or not move(space, problem, promised):
            space.here.is_settled = True
            break
    return space.here.cost


cdef bint move(Space *space, const Problem *problem, double promised) noexcept nogil:
    """Go along the step as far as the cost falls enough. Return False, and stay here, if it does not."""
    cdef Py_ssize_t j
    cdef double shrink = 1.0
    for _ in range(MOST_HALVINGS):
        for j in range(space.d):
            space.there.log_noise[j] = max(space.here.log_noise[j] + shrink * space.step[j], log(problem.floor[j]))
        space.there.is_near = problem.factors_alone and problem.row_offsets == NULL
        if space.there.is_near:
            memcpy(space.there.vectors, space.here.vectors,
                   problem.offsets[problem.n_matrices] * space.d * sizeof(double))
        evaluate(space, problem, &space.there)
        if space.there.cost <= space.here.cost - SUFFICIENT * shrink * promised:
            space.here, space.there = space.there, space.here
            return True
        shrink *= 0.25
    return False


# ---- one point -------------------------------------------------------------------------------------------------------

cdef void evaluate(Space *space, const Problem *problem, Point *point) noexcept nogil:
    """Compute cost, gradient and eigenvectors at the uniquenesses of a point, with the best loadings for them."""
    cdef Py_ssize_t d = space.d, j, k, q
    cdef const double *vector
    cdef double log_determinant = 0.0, trace, excess, value, half
    point.cost, point.is_settled = 0.0, False
    for j in range(d):
        space.raw[j] = exp(-0.5 * point.log_noise[j])
        log_determinant += point.log_noise[j]
        point.gradient[j] = 0.0
    for k in range(problem.n_matrices):
        half = 0.5 * problem.counts[k]
        if problem.row_offsets == NULL:
            trace = add_variances(space, problem, k, point.gradient)
        else:
            trace = whiten_panel(space, problem, k, point.gradient)
        if not decompose(space, problem, k, point):
            point.cost = NAN
            return
        point.cost += half * (log_determinant + trace)
        for q in range(n_active(space, point, problem.offsets, k)):
            value, vector = point.values[k * d + q], point.vectors + (problem.offsets[k] + q) * d
            point.cost += half * (log(value) + 1.0 - value)
            excess = half * (value - 1.0)
            for j in range(d):
                point.gradient[j] += excess * vector[j] * vector[j]
    if problem.prior_count > 0.0:
        for j in range(d):
            value = 0.5 * (point.log_noise[j] - log(problem.prior_scale[j]))
            point.cost += problem.prior_count * log_cosh(value)
            point.gradient[j] += 0.5 * problem.prior_count * tanh(value)


cdef double add_variances(Space *space, const Problem *problem, Py_ssize_t k, double *gradient) noexcept nogil:
    """Add the variances' part of the gradient. Returns the trace of Psi^-1/2 S Psi^-1/2.

    The gradient is n/2 (modelled - sample variance) / psi; the factors' part is added later.
    """
    cdef Py_ssize_t d = space.d, i
    cdef const double *s = problem.covariances + k * d * d
    cdef double half = 0.5 * problem.counts[k], trace = 0.0, value
    for i in range(d):
        value = s[i * d + i] * space.raw[i] * space.raw[i]
        trace += value
        gradient[i] += half * (1.0 - value)
    return trace


cdef void whiten_matrix(Space *space, const Problem *problem, Py_ssize_t k) noexcept nogil:
    """Compute the upper triangle of Psi^-1/2 S Psi^-1/2, from the roots of 1 / Psi in `raw`."""
    cdef Py_ssize_t d = space.d, i, j
    cdef const double *s = problem.covariances + k * d * d
    for i in range(d):
        for j in range(i, d):
            space.whitened[i * d + j] = s[i * d + j] * space.raw[i] * space.raw[j]


cdef double whiten_panel(Space *space, const Problem *problem, Py_ssize_t k, double *gradient) noexcept nogil:
    """Compute A Psi^-1 A' instead, which has the same trace and the same nonzero eigenvalues."""
    cdef Py_ssize_t d = space.d, m = problem.row_offsets[k + 1] - problem.row_offsets[k]
    cdef Py_ssize_t start = 0, width, i, j
    cdef const double *row
    cdef double *block = space.hessian
    cdef double *gram = space.whitened
    cdef double half = 0.5 * problem.counts[k], trace = 0.0
    while start < d:
        width = min(<Py_ssize_t> PANEL_BLOCK, d - start)
        for j in range(width):
            gradient[start + j] += half
        for i in range(m):
            row = problem.panels + (problem.row_offsets[k] + i) * d + start
            for j in range(width):
                block[i * width + j] = row[j] * space.raw[start + j]
                gradient[start + j] -= half * block[i * width + j] * block[i * width + j]
        syrk_lower(m, width, 1.0, block, width, 1.0 if start else 0.0, gram, m)
        start += width
    for i in range(m):
        trace += gram[i * m + i]
        for j in range(i):
            gram[j * m + i] = gram[i * m + j]
    return trace


cdef bint decompose(Space *space, const Problem *problem, Py_ssize_t k, Point *point) noexcept nogil:
    """Compute decreasing eigenvalues and leading eigenvectors of the whitened covariance k. False if not finite.

    Only eigenvectors with eigenvalues above 1 are used. With few factors, or none, others are not computed.
    """
    cdef Py_ssize_t d = space.d, p = min(problem.offsets[k + 1] - problem.offsets[k], d)
    cdef double *vectors = point.vectors + problem.offsets[k] * d
    point.is_complete = False
    if problem.row_offsets != NULL:
        point.is_complete = True
        return decompose_panel(space, problem, k, point)
    if problem.factors_alone and p == 0:
        memset(point.values + k * d, 0, d * sizeof(double))
        return True
    if point.is_near and follow(space, problem, k, p, point.values + k * d, vectors):
        return True
    whiten_matrix(space, problem, k)
    # Row-major upper is column-major lower.
    if not (problem.factors_alone and d >= LEADING_FROM and LEADING_SHARE * p <= d):
        if eigen(d, space.whitened, d, space.spectrum, space.work):
            return False
        point.is_complete = True
        return keep(space, problem, k, d, d, space.whitened, point, vectors)
    if leading_eigen(d, p, space.whitened, d, space.spectrum, space.hessian, space.work):
        return False
    return keep(space, problem, k, d, p, space.hessian, point, vectors)


cdef bint follow(
    Space *space, const Problem *problem, Py_ssize_t k, Py_ssize_t p, double *values, double *vectors,
) noexcept nogil:
    """Improve p vectors (p, d) to leading eigenvectors of whitened covariance k, with their values. False if slow.

    By powers of the matrix and the best vectors in their span (Rayleigh, Ritz). Each power lets the values rise: even
    if they are not at their limit, the cost with these loadings is at most that with those of the vectors before.
    """
    cdef Py_ssize_t d = space.d, i
    cdef double *basis = space.hessian             # (p, d), orthonormal
    cdef double *product = basis + p * d           # (p, d), basis times the matrix
    cdef double *gram = space.whitened + p * d     # (p, p), beyond what `times_whitened` uses
    cdef double *ritz = gram + p * p               # (p, p)
    cdef double residual, size, before = INFINITY
    cdef Py_ssize_t left = d // POWERS_SHARE
    if d < FOLLOWED_FROM or FOLLOWED_SHARE * p > d:
        return False
    times_whitened(space, problem, k, p, vectors, product)
    syrk_lower(p, d, 1.0, product, d, 0.0, gram, p)
    while True:
        memcpy(basis, product, p * d * sizeof(double))
        if cholesky_lower(p, gram, p):
            return False
        solve_lower(b"N", p, d, gram, p, basis, d)
        times_whitened(space, problem, k, p, basis, product)
        syrk_lower(p, d, 1.0, product, d, 0.0, gram, p)
        gemm(b"N", b"T", p, p, d, 1.0, product, d, basis, d, 0.0, ritz, p)
        residual = size = 0.0
        for i in range(p * p):
            size += ritz[i] * ritz[i]
        for i in range(p):
            residual += gram[i * p + i]
        residual = (residual - size) / size
        if residual <= RESIDUAL * RESIDUAL:
            break
        # Give up if that many more powers at this rate are not enough.
        left -= 1
        if not residual * (residual / before) ** left <= RESIDUAL * RESIDUAL:
            return False
        before = residual
    if eigen(p, ritz, p, space.spectrum, space.work):
        return False
    gemm(b"N", b"N", p, d, p, 1.0, ritz, p, basis, d, 0.0, product, d)
    memset(values, 0, d * sizeof(double))
    for i in range(p):
        values[i] = space.spectrum[p - 1 - i]
        memcpy(vectors + i * d, product + (p - 1 - i) * d, d * sizeof(double))
    return isfinite(values[0])


cdef void times_whitened(
    Space *space, const Problem *problem, Py_ssize_t k, Py_ssize_t p, const double *vectors, double *product,
) noexcept nogil:
    """Compute vectors (p, d) times Psi^-1/2 S Psi^-1/2, without that matrix."""
    cdef Py_ssize_t d = space.d, j, q
    cdef double *scaled = space.whitened
    for q in range(p):
        for j in range(d):
            scaled[q * d + j] = vectors[q * d + j] * space.raw[j]
    gemm(b"N", b"N", p, d, d, 1.0, scaled, d, problem.covariances + k * d * d, d, 0.0, product, d)
    for q in range(p):
        for j in range(d):
            product[q * d + j] *= space.raw[j]


cdef bint decompose_panel(Space *space, const Problem *problem, Py_ssize_t k, Point *point) noexcept nogil:
    cdef Py_ssize_t n = problem.row_offsets[k + 1] - problem.row_offsets[k], d = space.d, p
    if eigen(n, space.whitened, n, space.spectrum, space.work):
        return False
    if not keep(space, problem, k, n, n, space.whitened, point, space.work):
        return False
    p = n_active(space, point, problem.offsets, k)
    if p:
        panel_vectors(space, problem, k, p, point.values + k * d, point.vectors + problem.offsets[k] * d)
    return True


cdef bint keep(
    Space *space, const Problem *problem, Py_ssize_t k, Py_ssize_t n, Py_ssize_t m, const double *vectors,
    Point *point, double *target,
) noexcept nogil:
    """Copy m increasing eigenvalues of ``spectrum`` to the point, and the factors' vectors of length n to their places.

    Returns False if a covariance is not finite: without factors nothing else checks it off the diagonal.
    """
    cdef Py_ssize_t d = space.d, i, q
    cdef double *values = point.values + k * d
    for i in range(d):
        values[i] = space.spectrum[m - 1 - i] if i < m else 0.0
    if not isfinite(values[0]):
        return False
    for q in range(min(problem.offsets[k + 1] - problem.offsets[k], m)):
        memcpy(target + q * n, vectors + (m - 1 - q) * n, n * sizeof(double))
    return True


cdef void panel_vectors(
    Space *space, const Problem *problem, Py_ssize_t k, Py_ssize_t p, const double *values, double *vectors,
) noexcept nogil:
    """Compute u = Psi^-1/2 A' v / l^1/2 from the p eigenvectors v of the small matrix in the work space."""
    cdef Py_ssize_t d = space.d, first = problem.row_offsets[k], m = problem.row_offsets[k + 1] - first, j, q
    cdef double scale
    gemm(b"N", b"N", p, d, m, 1.0, space.work, m, problem.panels + first * d, d, 0.0, vectors, d)
    for q in range(p):
        scale = 1.0 / sqrt(values[q])
        for j in range(d):
            vectors[q * d + j] *= scale * space.raw[j]


cdef Py_ssize_t n_active(Space *space, const Point *point, const Py_ssize_t *offsets, Py_ssize_t k) noexcept nogil:
    """Return the number of active factors of component k: those with eigenvalues above 1."""
    cdef Py_ssize_t p = min(offsets[k + 1] - offsets[k], space.d)
    while p > 0 and point.values[k * space.d + p - 1] <= 1.0:
        p -= 1
    return p


cdef bint any_active(Space *space, const Problem *problem) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(problem.n_matrices):
        if n_active(space, &space.here, problem.offsets, k):
            return True
    return False


# ---- one step --------------------------------------------------------------------------------------------------------

cdef double newton_step(Space *space, const Problem *problem) noexcept nogil:
    """Compute the step with the approximate Hessian n/2 (I - U U')^2 (elementwise). Returns what it promises."""
    cdef Py_ssize_t j
    cdef double promised, value
    cdef Point *point = &space.here
    memset(space.curvature, 0, space.d * sizeof(double))
    if problem.prior_count > 0.0:
        for j in range(space.d):
            value = tanh(0.5 * (point.log_noise[j] - log(problem.prior_scale[j])))
            space.curvature[j] = 0.25 * problem.prior_count * (1.0 - value * value)
    # Without factors the Hessian is diagonal.
    if problem.row_offsets == NULL and any_active(space, problem):
        dense_step(space, problem)
        promised = bounded_step(space, problem)
        # After the limit, a step may lead upwards, but not one with the diagonal.
        if promised > 0.0:
            return promised
    diagonal_step(space, problem)
    return bounded_step(space, problem)


cdef double bounded_step(Space *space, const Problem *problem) noexcept nogil:
    """Limit the step in every uniqueness. Returns what it promises, down to the floor."""
    cdef Py_ssize_t j
    cdef double promised = 0.0, value
    for j in range(space.d):
        space.step[j] = max(-LONGEST_STEP, min(LONGEST_STEP, space.step[j]))
        value = max(space.step[j], log(problem.floor[j]) - space.here.log_noise[j])
        promised -= value * space.here.gradient[j]
    return promised


cdef void dense_step(Space *space, const Problem *problem) noexcept nogil:
    cdef Py_ssize_t d = space.d, i, j, k, p
    cdef double *h = space.hessian
    cdef double *projector = space.whitened
    cdef const double *vectors
    cdef double half, largest = 0.0
    memset(h, 0, d * d * sizeof(double))
    for k in range(problem.n_matrices):
        half = 0.5 * problem.counts[k]
        p = n_active(space, &space.here, problem.offsets, k)
        vectors = space.here.vectors + problem.offsets[k] * d
        if p:
            gemm(b"T", b"N", d, d, p, -1.0, vectors, d, vectors, d, 0.0, projector, d)
        else:
            memset(projector, 0, d * d * sizeof(double))
        for i in range(d):
            projector[i * d + i] += 1.0
            for j in range(i + 1):
                h[i * d + j] += half * projector[i * d + j] * projector[i * d + j]
    for j in range(d):
        h[j * d + j] += space.curvature[j]
        largest = max(largest, h[j * d + j])
    for j in range(d):
        if is_held(space, problem, j):
            space.step[j] = 0.0
            for i in range(d):
                h[max(i, j) * d + min(i, j)] = 0.0
            h[j * d + j] = 1.0
        else:
            space.step[j] = -space.here.gradient[j]
            h[j * d + j] += RIDGE * largest
    if cholesky_lower(d, h, d):
        memset(space.step, 0, d * sizeof(double))
        return
    solve_lower(b"N", d, 1, h, d, space.step, 1)
    solve_lower(b"T", d, 1, h, d, space.step, 1)


cdef void diagonal_step(Space *space, const Problem *problem) noexcept nogil:
    """Compute the step with the diagonal of the Hessian only: n/2 (1 - sum_q u_qj^2)^2."""
    cdef Py_ssize_t d = space.d, j, k, q
    cdef double *left = space.raw
    cdef const double *vector
    cdef double largest = 0.0
    for k in range(problem.n_matrices):
        for j in range(d):
            left[j] = 1.0
        for q in range(n_active(space, &space.here, problem.offsets, k)):
            vector = space.here.vectors + (problem.offsets[k] + q) * d
            for j in range(d):
                left[j] -= vector[j] * vector[j]
        for j in range(d):
            space.curvature[j] += 0.5 * problem.counts[k] * left[j] * left[j]
    for j in range(d):
        largest = max(largest, space.curvature[j])
    for j in range(d):
        space.step[j] = (
            0.0 if is_held(space, problem, j) else -space.here.gradient[j] / (space.curvature[j] + RIDGE * largest))


cdef bint is_held(Space *space, const Problem *problem, Py_ssize_t j) noexcept nogil:
    """Return whether a uniqueness is at the floor and pressed against it, so not free."""
    return space.here.gradient[j] > 0.0 and exp(space.here.log_noise[j]) <= problem.floor[j] * (1.0 + 1e-12)


cdef void set_loadings(Space *space, Py_ssize_t K, const Py_ssize_t *offsets, double *loadings) noexcept nogil:
    """Compute Lambda' = (l - 1)^1/2 u Psi^1/2, one row per factor; 0 for a factor that explains nothing."""
    cdef Py_ssize_t d = space.d, j, k, q, p
    cdef double scale
    cdef const double *vector
    for j in range(d):
        space.raw[j] = exp(0.5 * space.here.log_noise[j])
    if offsets[K] == 0:
        return
    memset(loadings, 0, offsets[K] * d * sizeof(double))
    for k in range(K):
        p = n_active(space, &space.here, offsets, k)
        for q in range(offsets[k], offsets[k] + p):
            scale = sqrt(space.here.values[k * d + q - offsets[k]] - 1.0)
            vector = space.here.vectors + q * d
            for j in range(d):
                loadings[q * d + j] = scale * vector[j] * space.raw[j]
