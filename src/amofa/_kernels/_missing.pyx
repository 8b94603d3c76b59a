"""The E-step of rows with missing cells, NaN: the same sums as of complete rows, given what is seen.

With o the columns that a row has, and m those that it lacks, a factor analyser has for it

    C = I + Lambda_o' Psi_o^-1 Lambda_o,  z = C^-1 Lambda_o' Psi_o^-1 (x_o - mu_o),
    E[x | x_o] - mu = (x_o - mu_o, Lambda_m z),  Cov[x_m | x_o] = Lambda_m C^-1 Lambda_m' + Psi_m

(Ghahramani & Jordan, Supervised learning from incomplete data via an EM approach, 1994). Elements of C are sums over
the columns that are seen, so that the matrices of many rows come from one product. Successive rows that lack the same
cells, a pattern, share theirs.
"""

from libc.math cimport INFINITY, M_PI, log, log1p

from amofa._kernels._blas cimport gemm, syrk_lower
from amofa._kernels._iteration cimport Iteration
from amofa._kernels._mixture cimport (
    Prepared, Scratch, check_rows, checked_mixture, check_layout, log_normaliser, most_factors, view_scratch)
from amofa._kernels._statistics cimport MOST_OWN_PRODUCTS, Sums, accumulate_rows

cdef extern from "missing.h" nogil:
    void amofa_seen(Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t ldx, double *seen, Py_ssize_t ld,
                    double *count)
    void amofa_take(Py_ssize_t n, Py_ssize_t m, const int *columns, const double *source, Py_ssize_t ld_source,
                    double *to, Py_ssize_t ld)
    void amofa_seen_deviations(Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t ldx, const double *mean,
                               double *e, Py_ssize_t ld)
    void amofa_choleskys(Py_ssize_t n, Py_ssize_t p, double *c, Py_ssize_t ld, double *product,
                         double *log_determinant)
    void amofa_solve_choleskys(Py_ssize_t n, Py_ssize_t p, const double *c, Py_ssize_t ld, double *b)
    void amofa_seen_distances(Py_ssize_t n, Py_ssize_t d, Py_ssize_t p, const double *seen, const double *e,
                              const double *fit, const double *z, Py_ssize_t ld, const double *scale,
                              double *distance)
    void amofa_weigh_filled(Py_ssize_t n, Py_ssize_t d, const double *seen, const double *fit, const double *root,
                            double *e, Py_ssize_t ld, double *first)
    void amofa_add_missing(Py_ssize_t m, const int *missing, Py_ssize_t d, Py_ssize_t p, const double *loadings,
                           const double *scale, const double *c, Py_ssize_t ld, double weight, double *b,
                           double *scatter)

cdef extern from "simd.h" nogil:
    double amofa_weighted_sum(Py_ssize_t n, const double *values, const double *weights)
    void amofa_multiply(Py_ssize_t n, const double *factors, double *values)
    double amofa_entropy(Py_ssize_t n, const double *h, const double *log_density, const double *log_joint)
    Py_ssize_t amofa_select(Py_ssize_t n, const double *h, double least, int *rows, double *root)
    void amofa_roots(Py_ssize_t n, const double *h, double *root)
    void amofa_responsibilities(Py_ssize_t n, Py_ssize_t K, const double *log_joint, Py_ssize_t ld,
                                const double *weights, double *log_density, double *sum, double *resp)

cdef extern from "products.h" nogil:
    void amofa_self_products(Py_ssize_t n, Py_ssize_t d, const double *a, Py_ssize_t ld, double *c, Py_ssize_t ldc)

# A block of rows, with its matrices, should not be much larger than the second-level cache.
cdef enum:
    BLOCK_VALUES = 65536
    BLOCK_ROWS_MAX = 512
    BLOCK_ROWS_MIN = 32


# What one component is to the rows of a block.
cdef struct Analyser:
    Py_ssize_t k
    Py_ssize_t p
    double *products               # (p (p + 1) / 2 + 1, d): lambda_q lambda_r / psi, and log psi in the last row
    double *scaled                 # (p, d): lambda / psi
    double *normalisers            # (d + 1) log normalising constants of so many columns, of a t component


# Rows of a block, or of a block those near a component.
cdef struct Rows:
    Py_ssize_t n
    Py_ssize_t stride
    Py_ssize_t n_patterns
    double *x                      # (d, stride), of selected rows
    double *seen                   # (d, stride)
    double *seen_of_patterns       # (d, stride)
    double *count                  # (stride), of the columns that are seen
    int *pattern                   # (stride), from 0, rising
    int *starts                    # (stride), the first row of each pattern
    int *missing                   # (d)
    double *deviations             # (d, stride)
    double *fit                    # (d, stride), Lambda z
    double *choleskys_of_patterns  # (p (p + 1) / 2 + 1, stride)
    double *choleskys              # (p (p + 1) / 2 + 1, stride), the log determinant in the last row
    double *scores                 # (p, stride), z
    double *distance               # (stride), squared Mahalanobis distances
    double *memory                 # (stride), or (p + 1, d)


# Work space of one thread.
cdef struct Space:
    Analyser analyser
    Rows block
    Rows near
    double *log_joint              # (K, stride)
    double *responsibilities       # (K, stride)
    double *log_density            # (stride)
    double *row_sum                # (stride)
    double *roots                  # (stride)
    double *tails                  # (stride)
    int *rows                      # (stride)


# ---- memory ----------------------------------------------------------------------------------------------------------

cdef Py_ssize_t triangle(Py_ssize_t p) noexcept nogil:
    return p * (p + 1) // 2


cdef Py_ssize_t values_of_row(Py_ssize_t K, Py_ssize_t d, Py_ssize_t p) noexcept nogil:
    return 2 * (5 * d + 2 * (triangle(p) + 1) + p + 5) + 2 * K + 6


cdef Py_ssize_t rows_of_block(Py_ssize_t K, Py_ssize_t d, Py_ssize_t p) noexcept nogil:
    return max(BLOCK_ROWS_MIN, min(BLOCK_ROWS_MAX, BLOCK_VALUES // values_of_row(K, d, p) // 8 * 8))


cdef Py_ssize_t space_length(Py_ssize_t K, Py_ssize_t d, Py_ssize_t p) noexcept nogil:
    return (rows_of_block(K, d, p) * values_of_row(K, d, p) + (triangle(p) + 1 + p) * d + d + 1
            + 2 * (d + (p + 1) * d) + 8)


cdef double *carve_rows(double *at, Py_ssize_t stride, Py_ssize_t d, Py_ssize_t p, Rows *rows) noexcept nogil:
    """Give rows their arrays, from a place in memory on; return where they end."""
    rows.stride = stride
    rows.x = at
    rows.seen = rows.x + d * stride
    rows.seen_of_patterns = rows.seen + d * stride
    rows.deviations = rows.seen_of_patterns + d * stride
    rows.fit = rows.deviations + d * stride
    rows.choleskys = rows.fit + d * stride
    rows.choleskys_of_patterns = rows.choleskys + (triangle(p) + 1) * stride
    rows.scores = rows.choleskys_of_patterns + (triangle(p) + 1) * stride
    rows.distance = rows.scores + p * stride
    rows.count = rows.distance + stride
    rows.pattern = <int *> (rows.count + stride)
    rows.starts = <int *> (rows.count + 2 * stride)
    rows.memory = rows.count + 3 * stride
    rows.missing = <int *> (rows.memory + stride + (p + 1) * d)
    return rows.memory + stride + (p + 2) * d


cdef Space view_space(Py_ssize_t K, Py_ssize_t d, Py_ssize_t p, double *work) noexcept nogil:
    cdef Space space
    cdef Py_ssize_t stride = rows_of_block(K, d, p)
    cdef double *at = carve_rows(<double *> ((<size_t> work + 63) & ~(<size_t> 63)), stride, d, p, &space.block)
    at = carve_rows(at, stride, d, p, &space.near)
    space.log_joint = at
    space.responsibilities = space.log_joint + K * stride
    space.log_density = space.responsibilities + K * stride
    space.row_sum = space.log_density + stride
    space.roots = space.row_sum + stride
    space.tails = space.roots + stride
    space.rows = <int *> (space.tails + stride)
    space.analyser.products = space.tails + 2 * stride
    space.analyser.scaled = space.analyser.products + (triangle(p) + 1) * d
    space.analyser.normalisers = space.analyser.scaled + p * d
    return space


# ---- one component and a block of rows -------------------------------------------------------------------------------

cdef void set_analyser(Py_ssize_t k, const Prepared *mixture, Analyser *analyser) noexcept nogil:
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], q, r, j
    cdef const double *inverse = mixture.inverse_uniquenesses + k * d
    cdef const double *loadings = mixture.loadings + mixture.offsets[k] * d
    cdef double *product = analyser.products
    cdef double nu = mixture.degrees_of_freedom[k]
    analyser.k, analyser.p = k, p
    for q in range(p):
        for j in range(d):
            analyser.scaled[q * d + j] = loadings[q * d + j] * inverse[j]
        for r in range(q + 1):
            for j in range(d):
                product[j] = analyser.scaled[q * d + j] * loadings[r * d + j]
            product += d
    for j in range(d):
        product[j] = -log(inverse[j])
    if nu < INFINITY:
        for j in range(d + 1):
            analyser.normalisers[j] = -0.5 * log_normaliser(j, nu)


cdef void find_patterns(const Py_ssize_t *patterns, const int *chosen, Py_ssize_t d, Rows *rows) noexcept nogil:
    """Number the patterns of rows with these numbers in the table, of which some may be chosen."""
    cdef Py_ssize_t i, pattern, last = -1
    rows.n_patterns = 0
    for i in range(rows.n):
        pattern = patterns[chosen[i] if chosen != NULL else i]
        if i == 0 or pattern != last:
            rows.starts[rows.n_patterns] = <int> i
            rows.n_patterns += 1
            last = pattern
        rows.pattern[i] = <int> (rows.n_patterns - 1)
    if rows.n_patterns < rows.n:
        amofa_take(rows.n_patterns, d, rows.starts, rows.seen, rows.stride, rows.seen_of_patterns, rows.stride)


cdef void solve_rows(
    const double *x, Py_ssize_t ldx, const Prepared *mixture, const Analyser *analyser, Rows *rows,
) noexcept nogil:
    """Compute deviations, fits, scores, distances and log determinants of rows under a component."""
    cdef Py_ssize_t d = mixture.n_features, p = analyser.p, stride = rows.stride, t = triangle(p), n = rows.n
    cdef const double *loadings = mixture.loadings + mixture.offsets[analyser.k] * d
    cdef bint alone = rows.n_patterns == n
    cdef double *choleskys = rows.choleskys if alone else rows.choleskys_of_patterns
    gemm(b"N", b"N", t + 1, rows.n_patterns, d, 1.0, analyser.products, d,
         rows.seen if alone else rows.seen_of_patterns, stride, 0.0, choleskys, stride)
    amofa_choleskys(rows.n_patterns, p, choleskys, stride, rows.memory, choleskys + t * stride)
    if not alone:
        amofa_take(n, t + 1, rows.pattern, choleskys, stride, rows.choleskys, stride)
    amofa_seen_deviations(n, d, x, ldx, mixture.means + analyser.k * d, rows.deviations, stride)
    # There may be no factors.
    gemm(b"N", b"N", p, n, d, 1.0, analyser.scaled, d, rows.deviations, stride, 0.0, rows.scores, stride)
    amofa_solve_choleskys(n, p, rows.choleskys, stride, rows.scores)
    if p:
        gemm(b"T", b"N", d, n, p, 1.0, loadings, d, rows.scores, stride, 0.0, rows.fit, stride)
    else:
        set_zero(n, d, rows.fit, stride)
    amofa_seen_distances(n, d, p, rows.seen, rows.deviations, rows.fit, rows.scores, stride,
                         mixture.inverse_uniquenesses + analyser.k * d, rows.distance)


cdef void set_zero(Py_ssize_t n, Py_ssize_t m, double *values, Py_ssize_t ld) noexcept nogil:
    cdef Py_ssize_t i, j
    for j in range(m):
        for i in range(n):
            values[j * ld + i] = 0.0


cdef void set_log_joint(
    const Prepared *mixture, const Analyser *analyser, const Rows *rows, double *log_joint,
) noexcept nogil:
    """Compute log joint densities of what is seen of the rows with a component."""
    cdef double nu = mixture.degrees_of_freedom[analyser.k], log_weight = log(mixture.weights[analyser.k])
    cdef const double *log_determinant = rows.choleskys + triangle(analyser.p) * rows.stride
    cdef double constant = log(2.0 * M_PI)
    cdef Py_ssize_t i
    if nu == INFINITY:
        for i in range(rows.n):
            log_joint[i] = log_weight - 0.5 * (rows.count[i] * constant + log_determinant[i] + rows.distance[i])
    else:
        for i in range(rows.n):
            log_joint[i] = log_weight + analyser.normalisers[<Py_ssize_t> rows.count[i]] - 0.5 * (
                log_determinant[i] + (nu + rows.count[i]) * log1p(rows.distance[i] / nu))


cdef void posterior_block(
    const double *x, Py_ssize_t ldx, const Py_ssize_t *patterns, const Prepared *mixture, Space *space,
) noexcept nogil:
    """Compute log joint densities, log densities and responsibilities of the rows of a block."""
    cdef Py_ssize_t d = mixture.n_features, stride = space.block.stride, k
    cdef Rows *rows = &space.block
    amofa_seen(rows.n, d, x, ldx, rows.seen, stride, rows.count)
    find_patterns(patterns, NULL, d, rows)
    for k in range(mixture.n_components):
        set_analyser(k, mixture, &space.analyser)
        solve_rows(x, ldx, mixture, &space.analyser, rows)
        set_log_joint(mixture, &space.analyser, rows, space.log_joint + k * stride)
    amofa_responsibilities(rows.n, mixture.n_components, space.log_joint, stride, mixture.weights, space.log_density,
                           space.row_sum, space.responsibilities)


# ---- sums ------------------------------------------------------------------------------------------------------------

cdef void add_block(
    const double *x, Py_ssize_t ldx, const Py_ssize_t *patterns, const double *row_weights, bint with_entropy,
    const Prepared *mixture, Space *space, Sums *sums,
) noexcept nogil:
    """Add the rows of a block whose posterior quantities are in space."""
    cdef Py_ssize_t n = space.block.n, stride = space.block.stride, k
    cdef double negligible = sums.negligible, count
    cdef double *h
    if row_weights != NULL:
        negligible *= amofa_weighted_sum(n, row_weights, NULL) / n
    sums.log_likelihood[0] += amofa_weighted_sum(n, space.log_density, row_weights)
    for k in range(mixture.n_components):
        h = space.responsibilities + k * stride
        if row_weights != NULL:
            amofa_multiply(n, row_weights, h)
        count = amofa_weighted_sum(n, h, NULL)
        sums.soft_counts[k] += count
        if with_entropy:
            sums.entropy[0] += amofa_entropy(n, h, space.log_density, space.log_joint + k * stride)
        if mixture.degrees_of_freedom[k] == INFINITY:
            sums.tail_counts[k] += count
        space.near.n = amofa_select(n, h, negligible * mixture.weights[k], space.rows, space.roots)
        if space.near.n:
            add_component(x, ldx, patterns, k, h, mixture, space, sums)


cdef void add_component(
    const double *x, Py_ssize_t ldx, const Py_ssize_t *patterns, Py_ssize_t k, const double *h,
    const Prepared *mixture, Space *space, Sums *sums,
) noexcept nogil:
    """Add the first and all second moments of component k, of the selected rows with responsibilities h."""
    cdef Py_ssize_t d = mixture.n_features, stride = space.near.stride, i
    cdef double nu = mixture.degrees_of_freedom[k]
    cdef Rows *rows = &space.near
    cdef double *scatter = sums.second + k * d * d
    set_analyser(k, mixture, &space.analyser)
    amofa_take(rows.n, d, space.rows, x, ldx, rows.x, stride)
    amofa_seen(rows.n, d, rows.x, stride, rows.seen, stride, rows.count)
    find_patterns(patterns, space.rows, d, rows)
    solve_rows(rows.x, stride, mixture, &space.analyser, rows)
    add_conditional(k, h, mixture, space, scatter)
    if nu < INFINITY:
        # Rows in the tails of a t component weigh less, u = (nu + o) / (nu + m), but not what they lack.
        for i in range(rows.n):
            space.tails[i] = h[space.rows[i]] * (nu + rows.count[i]) / (nu + rows.distance[i])
        sums.tail_counts[k] += amofa_weighted_sum(rows.n, space.tails, NULL)
        amofa_roots(rows.n, space.tails, space.roots)
    amofa_weigh_filled(rows.n, d, rows.seen, rows.fit, space.roots, rows.deviations, stride, sums.first + k * d)
    if d <= MOST_OWN_PRODUCTS:
        amofa_self_products(rows.n, d, rows.deviations, stride, scatter, d)
    else:
        syrk_lower(d, rows.n, 1.0, rows.deviations, stride, 1.0, scatter, d)


cdef void add_conditional(
    Py_ssize_t k, const double *h, const Prepared *mixture, Space *space, double *scatter,
) noexcept nogil:
    """Add the covariances of what rows lack, for each pattern with the sum of its responsibilities."""
    cdef Py_ssize_t d = mixture.n_features, p = space.analyser.p, stride = space.near.stride, g, i, j, m, stop
    cdef Rows *rows = &space.near
    cdef const double *seen
    cdef double weight
    for g in range(rows.n_patterns):
        stop = rows.starts[g + 1] if g + 1 < rows.n_patterns else rows.n
        seen, m, weight = rows.seen + rows.starts[g], 0, 0.0
        for j in range(d):
            if seen[j * stride] == 0.0:
                rows.missing[m] = <int> j
                m += 1
        for i in range(rows.starts[g], stop):
            weight += h[space.rows[i]]
        amofa_add_missing(m, rows.missing, d, p, mixture.loadings + mixture.offsets[k] * d,
                          mixture.inverse_uniquenesses + k * d, rows.choleskys + rows.starts[g], stride, weight,
                          rows.memory, scatter)


# ---- what Python calls -----------------------------------------------------------------------------------------------

cdef int check_patterns(Py_ssize_t n, const Py_ssize_t[::1] patterns) except -1:
    if patterns.shape[0] != n:
        raise ValueError("patterns must have one entry per row")
    return 0


def work_length(const Py_ssize_t[::1] offsets not None, Py_ssize_t n_features):
    """Return the length of the work array of `posterior`, in float64 values."""
    cdef Py_ssize_t K = offsets.shape[0] - 1
    check_layout(offsets, n_features)
    return space_length(K, n_features, most_factors(K, &offsets[0]))


def iteration_work_length(Iteration iteration not None):
    """Return the length of the work array of `accumulate`, in float64 values."""
    cdef Py_ssize_t K = iteration.mixture.n_components
    return iteration.scratch.shape[0] + space_length(
        K, iteration.mixture.n_features, most_factors(K, iteration.mixture.offsets))


def accumulate(
    Iteration iteration not None,
    const double[:, ::1] x not None,  # IN   (d, n)
    const double[::1] row_weights,  # IN   (n), or None for ones
    const Py_ssize_t[::1] patterns not None,  # IN   (n), rising; 0 for complete rows
    double[::1] sums not None,  # INOUT  those of the iteration, with second moments as whole matrices
    double[::1] work not None,  # WORK
):
    """Add the sums of the columns of x to those of an iteration, and change nothing else.

    Missing cells are NaN. Successive rows with the same number in `patterns` lack the same cells.
    """
    cdef const Prepared *mixture = &iteration.mixture
    cdef Py_ssize_t K = mixture.n_components, d = mixture.n_features, n = x.shape[1], complete = 0
    cdef Py_ssize_t p = most_factors(K, mixture.offsets), length
    cdef Scratch scratch
    cdef Space space
    cdef Sums totals
    if not iteration.full:
        raise ValueError("the iteration needs second moments as whole matrices")
    if x.shape[0] != d:
        raise ValueError("x must have one row per feature")
    iteration.check_sums(sums)
    check_rows(n, row_weights)
    check_patterns(n, patterns)
    length = iteration.scratch.shape[0]
    if work.shape[0] < length + space_length(K, d, p):
        raise ValueError("work is too short")
    if n == 0:
        return
    cdef const double *w = &row_weights[0] if row_weights is not None else NULL
    totals = iteration.view(&sums[0])
    with nogil:
        while complete < n and patterns[complete] == 0:
            complete += 1
        if complete:
            scratch = view_scratch(mixture, &work[0])
            accumulate_rows(complete, &x[0, 0], n, w, iteration.with_entropy, mixture, &scratch, &totals)
        space = view_space(K, d, p, &work[length])
        accumulate_incomplete(complete, n, &x[0, 0], n, w, &patterns[0], iteration.with_entropy, mixture, &space,
                              &totals)


cdef void accumulate_incomplete(
    Py_ssize_t start, Py_ssize_t n, const double *x, Py_ssize_t ldx, const double *row_weights,
    const Py_ssize_t *patterns, bint with_entropy, const Prepared *mixture, Space *space, Sums *sums,
) noexcept nogil:
    """Add the rows from `start`, block by block."""
    while start < n:
        space.block.n = min(space.block.stride, n - start)
        posterior_block(x + start, ldx, patterns + start, mixture, space)
        add_block(x + start, ldx, patterns + start, row_weights + start if row_weights != NULL else NULL, with_entropy,
                  mixture, space, sums)
        start += space.block.n


def posterior(
    const double[:, ::1] x not None,  # IN   (d, n)
    const Py_ssize_t[::1] patterns not None,  # IN   (n), as above
    const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
    const double[::1] prepared not None,  # IN
    double[::1] log_density not None,  # OUT  (n) nats
    double[:, ::1] responsibilities not None,  # OUT  (K, n)
    double[:, ::1] scores,  # OUT  (P, n), E[z | x_o, k], or None
    double[:, ::1] spreads,  # OUT  (K, n), (nu + m) / (nu + o) of t components, 1 of normal ones, or None
    double[::1] work not None,  # WORK
):
    """Compute posterior quantities of the columns of x, given the cells that are not NaN."""
    cdef Py_ssize_t d = x.shape[0], n = x.shape[1], K = offsets.shape[0] - 1, start = 0, length, k, p, i
    cdef Prepared mixture = checked_mixture(prepared, offsets, d)
    cdef Space space
    cdef double nu
    cdef Rows *rows = &space.block
    if log_density.shape[0] != n or responsibilities.shape[0] != K or responsibilities.shape[1] != n:
        raise ValueError("log_density and responsibilities must have one entry per row, and component")
    if scores is not None and (scores.shape[0] != offsets[K] or scores.shape[1] != n):
        raise ValueError("scores must have shape (n_factors in all, n)")
    if spreads is not None and (spreads.shape[0] != K or spreads.shape[1] != n):
        raise ValueError("spreads must have shape (n_components, n)")
    check_patterns(n, patterns)
    p = most_factors(K, &offsets[0])
    if work.shape[0] < space_length(K, d, p):
        raise ValueError("work is too short")
    with nogil:
        space = view_space(K, d, p, &work[0])
        while start < n:
            rows.n = length = min(rows.stride, n - start)
            posterior_block(&x[0, start], n, &patterns[start], &mixture, &space)
            for i in range(length):
                log_density[start + i] = space.log_density[i]
            for k in range(K):
                for i in range(length):
                    responsibilities[k, start + i] = space.responsibilities[k * rows.stride + i]
            if scores is not None or spreads is not None:
                for k in range(K):
                    set_analyser(k, &mixture, &space.analyser)
                    solve_rows(&x[0, start], n, &mixture, &space.analyser, rows)
                    nu = mixture.degrees_of_freedom[k]
                    if spreads is not None:
                        for i in range(length):
                            spreads[k, start + i] = (
                                (nu + rows.distance[i]) / (nu + rows.count[i]) if nu < INFINITY else 1.0)
                    if scores is not None:
                        for p in range(space.analyser.p):
                            for i in range(length):
                                scores[offsets[k] + p, start + i] = rows.scores[p * rows.stride + i]
            start += length
