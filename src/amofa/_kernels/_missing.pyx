"""The E-step of rows with missing cells, NaN: the same sums as of complete rows, given what is seen.

With o the columns that a row has, and m those that it lacks, a factor analyser has for it

    C = I + Lambda_o' Psi_o^-1 Lambda_o,  z = C^-1 Lambda_o' Psi_o^-1 (x_o - mu_o),
    E[x | x_o] - mu = (x_o - mu_o, Lambda_m z),  Cov[x_m | x_o] = Lambda_m C^-1 Lambda_m' + Psi_m

(Ghahramani & Jordan, Supervised learning from incomplete data via an EM approach, 1994). Elements of C are sums over
the columns that are seen. Successive rows that lack the same cells, a pattern, share their matrices, and those of many
patterns are factored side by side.
"""

from libc.math cimport INFINITY, M_PI, log, log1p

from amofa._kernels._blas cimport gemm, syrk_lower
from amofa._kernels._iteration cimport Iteration
from amofa._kernels._mixture cimport (
    WOODBURY, Prepared, Scratch, check_layout, check_rows, checked_mixture, log_normaliser, most_factors, view_scratch)
from amofa._kernels._statistics cimport MOST_OWN_PRODUCTS, Sums, accumulate_rows

cdef extern from "missing.h" nogil:
    enum: AMOFA_PRODUCTS
    void amofa_list_columns(Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t ldx, int *rows, int *columns)
    void amofa_seen(Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t ldx, double *seen, Py_ssize_t ld)
    void amofa_take(Py_ssize_t n, Py_ssize_t m, const int *columns, const double *source, Py_ssize_t ld_source,
                    double *to, Py_ssize_t ld)
    void amofa_seen_deviations(Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t ldx, const double *mean,
                               double *e, Py_ssize_t ld)
    void amofa_sum_products(Py_ssize_t n, const int *patterns, const int *columns, const int *seen, Py_ssize_t d,
                            Py_ssize_t t, Py_ssize_t ldt, const double *products, int subtract, double *c,
                            Py_ssize_t ld)
    void amofa_choleskys(Py_ssize_t n, Py_ssize_t p, double *c, Py_ssize_t ld, double *product,
                         double *log_determinant)
    void amofa_solve_forward(Py_ssize_t n, Py_ssize_t p, const double *c, Py_ssize_t ld, double *b, double *distance)
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
    double AMOFA_HUGE
    double amofa_weighted_sum(Py_ssize_t n, const double *values, const double *weights)
    void amofa_multiply(Py_ssize_t n, const double *factors, double *values)
    double amofa_entropy(Py_ssize_t n, const double *h, const double *log_density, const double *log_joint)
    Py_ssize_t amofa_select(Py_ssize_t n, const double *h, double least, int *rows, double *root)
    void amofa_roots(Py_ssize_t n, const double *h, double *root)
    void amofa_responsibilities(Py_ssize_t n, Py_ssize_t K, const double *log_joint, Py_ssize_t ld,
                                const double *weights, double *log_density, double *sum, double *resp)

cdef extern from "products.h" nogil:
    void amofa_distances(Py_ssize_t n, Py_ssize_t d, Py_ssize_t p, const double *x, Py_ssize_t ldx, const double *mean,
                         const double *scale, const double *w, double *projected, Py_ssize_t ld, double *distance)
    void amofa_self_products(Py_ssize_t n, Py_ssize_t d, const double *a, Py_ssize_t ld, double *c, Py_ssize_t ldc)

# A block of rows, with its matrices, should not be much larger than the second-level cache (1 MB). Strides of an odd
# number of cache lines (8 values) keep the rows of arrays from colliding there.
cdef enum:
    BLOCK_VALUES = 131072
    BLOCK_ROWS_MAX = 264
    BLOCK_ROWS_MIN = 24


# Patterns with fewer rows than this, on average, are not shared.
cdef double MOST_ALONE = 2.0


# What one component is to rows.
cdef struct Analyser:
    Py_ssize_t k
    Py_ssize_t p
    Py_ssize_t stride              # of products: all of them, and more up to a multiple of AMOFA_PRODUCTS
    double *products               # (d + 1, stride): lambda_q lambda_r / psi, then log psi; their sums in the last row
    double *scaled                 # (p, d): lambda / psi
    double *normalisers            # (d + 1) log normalising constants of so many columns, of a t component
    double *nowhere                # (d) zeros


# The patterns of the rows of a call.
cdef struct Patterns:
    int *of_rows                   # (n), from 0, rising
    int *columns                   # (n, d): of each pattern those that are seen, then the others, the last one first
    int *seen                      # (n): numbers of columns that are seen


# Some of the rows.
cdef struct Rows:
    Py_ssize_t n
    Py_ssize_t stride
    Py_ssize_t n_patterns
    int *patterns                  # (stride), those of these rows
    int *of_rows                   # (stride), numbers of these
    double *count                  # (stride), of the columns that are seen
    double *x                      # (d, stride), of selected rows
    double *seen                   # (d, stride), 1 or 0
    double *deviations             # (d, stride)
    double *fit                    # (d, stride), Lambda z
    double *choleskys_of_patterns  # (p (p + 1) / 2 + 1, stride)
    double *choleskys              # (p (p + 1) / 2 + 1, stride), the log determinant in the last row
    double *scores                 # (p, stride), z
    double *distance               # (stride), squared Mahalanobis distances
    double *memory                 # (stride), or p rows of d + 7


# Work space of one thread, for n rows.
cdef struct Space:
    Analyser analyser
    Patterns patterns
    Rows rows
    double *log_joint              # (K, stride)
    double *shares                 # (K, stride), responsibilities
    double *log_density            # (stride)
    double *row_sum                # (stride)
    double *tails                  # (stride)
    double *responsibilities       # (K, n)
    double *roots                  # (n)
    int *selected                  # (n)


# ---- memory ----------------------------------------------------------------------------------------------------------

cdef Py_ssize_t triangle(Py_ssize_t p) noexcept nogil:
    return p * (p + 1) // 2


cdef Py_ssize_t rows_of_block(Py_ssize_t K, Py_ssize_t d, Py_ssize_t p) noexcept nogil:
    cdef Py_ssize_t values = 3 * d + 2 * triangle(p) + p + 2 * K + 8
    return max(BLOCK_ROWS_MIN, min(BLOCK_ROWS_MAX, BLOCK_VALUES // values // 16 * 16 + 8))


cdef Py_ssize_t stride_of_products(Py_ssize_t p) noexcept nogil:
    return (triangle(p) + AMOFA_PRODUCTS) // AMOFA_PRODUCTS * AMOFA_PRODUCTS


cdef double *take(double *memory, Py_ssize_t *at, Py_ssize_t length) noexcept nogil:
    """Return the next values of memory, in whole cache lines; without memory, count them only."""
    cdef Py_ssize_t start = at[0]
    at[0] += (length + 7) // 8 * 8
    return memory + start if memory != NULL else NULL


cdef int *take_integers(double *memory, Py_ssize_t *at, Py_ssize_t length) noexcept nogil:
    return <int *> take(memory, at, length // 2 + 1)


cdef Py_ssize_t lay_out(
    Py_ssize_t n, Py_ssize_t K, Py_ssize_t d, Py_ssize_t p, double *work, Space *space,
) noexcept nogil:
    """Give all arrays for n rows their places in memory, if it is not NULL, and return its length."""
    cdef double *memory = <double *> ((<size_t> work + 63) & ~(<size_t> 63))
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t stride = rows_of_block(K, d, p)
    cdef Rows *rows = &space.rows
    space.analyser.products = take(memory, &at, (d + 1) * stride_of_products(p))
    space.analyser.scaled = take(memory, &at, p * d)
    space.analyser.normalisers = take(memory, &at, d + 1)
    space.analyser.nowhere = take(memory, &at, d)
    space.patterns.of_rows = take_integers(memory, &at, n)
    space.patterns.columns = take_integers(memory, &at, n * d)
    space.patterns.seen = take_integers(memory, &at, n)
    rows.stride = stride
    rows.patterns = take_integers(memory, &at, stride)
    rows.of_rows = take_integers(memory, &at, stride)
    rows.count = take(memory, &at, stride)
    rows.x = take(memory, &at, d * stride)
    rows.seen = take(memory, &at, d * stride)
    rows.deviations = take(memory, &at, d * stride)
    rows.fit = take(memory, &at, d * stride)
    rows.choleskys_of_patterns = take(memory, &at, (triangle(p) + 1) * stride)
    rows.choleskys = take(memory, &at, (triangle(p) + 1) * stride)
    rows.scores = take(memory, &at, p * stride)
    rows.distance = take(memory, &at, stride)
    rows.memory = take(memory, &at, max(stride, p * (d + 7)))
    space.log_joint = take(memory, &at, K * stride)
    space.shares = take(memory, &at, K * stride)
    space.log_density = take(memory, &at, stride)
    space.row_sum = take(memory, &at, stride)
    space.tails = take(memory, &at, stride)
    space.responsibilities = take(memory, &at, K * n)
    space.roots = take(memory, &at, n + 8)
    space.selected = take_integers(memory, &at, n)
    return at


cdef Py_ssize_t space_length(Py_ssize_t n, Py_ssize_t K, Py_ssize_t d, Py_ssize_t p) noexcept nogil:
    cdef Space space
    # The first line of the memory may begin up to seven values later.
    return lay_out(n, K, d, p, NULL, &space) + 8


# ---- rows and their patterns -----------------------------------------------------------------------------------------

cdef void find_patterns(
    Py_ssize_t n, Py_ssize_t d, const double *x, Py_ssize_t ldx, const Py_ssize_t *numbers, Patterns *patterns,
) noexcept nogil:
    """Number the patterns of successive rows from 0, and list the columns of each."""
    cdef Py_ssize_t i
    cdef int found = -1
    for i in range(n):
        if i == 0 or numbers[i] != numbers[i - 1]:
            found += 1
            # The first row of a pattern, until it is counted what is seen of it.
            patterns.seen[found] = <int> i
        patterns.of_rows[i] = found
    amofa_list_columns(found + 1, d, x, ldx, patterns.seen, patterns.columns)


cdef void set_rows(
    Py_ssize_t n, Py_ssize_t first, const int *selected, const Patterns *patterns, Rows *rows,
) noexcept nogil:
    """Take n successive rows from the first, or selected ones, and their patterns."""
    cdef Py_ssize_t i, found = 0
    cdef int pattern
    for i in range(n):
        pattern = patterns.of_rows[first + i if selected == NULL else selected[i]]
        if i == 0 or pattern != rows.patterns[found - 1]:
            rows.patterns[found] = pattern
            found += 1
        rows.of_rows[i] = <int> (found - 1)
        rows.count[i] = patterns.seen[pattern]
    rows.n, rows.n_patterns = n, found
    if n < MOST_ALONE * found:
        # Handing out what few rows share would take longer than computing it for each.
        for i in range(n - 1, -1, -1):
            rows.patterns[i] = rows.patterns[rows.of_rows[i]]
            rows.of_rows[i] = <int> i
        rows.n_patterns = n


# ---- one component and some rows -------------------------------------------------------------------------------------

cdef void set_analyser(Py_ssize_t k, const Prepared *mixture, Analyser *analyser) noexcept nogil:
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], q, r, j, at
    cdef Py_ssize_t stride = stride_of_products(p)
    cdef const double *inverse = mixture.inverse_uniquenesses + k * d
    cdef const double *loadings = mixture.loadings + mixture.offsets[k] * d
    cdef double nu = mixture.degrees_of_freedom[k]
    cdef double *product
    cdef double *total = analyser.products + d * stride
    analyser.k, analyser.p, analyser.stride = k, p, stride
    for at in range(stride):
        total[at] = 0.0
    for j in range(d):
        analyser.nowhere[j] = 0.0
        product, at = analyser.products + j * stride, 0
        for q in range(p):
            analyser.scaled[q * d + j] = loadings[q * d + j] * inverse[j]
            for r in range(q + 1):
                product[at] = analyser.scaled[q * d + j] * loadings[r * d + j]
                at += 1
        product[at] = -log(inverse[j])
        for at in range(at + 1, stride):
            product[at] = 0.0
        for at in range(stride):
            total[at] += product[at]
    if nu < INFINITY:
        for j in range(d + 1):
            analyser.normalisers[j] = -0.5 * log_normaliser(j, nu)


cdef void factor_rows(
    const Prepared *mixture, const Analyser *analyser, const Patterns *patterns, Rows *rows,
) noexcept nogil:
    """Compute Cholesky factors of C, and log determinants of covariances, of what is seen of rows."""
    cdef Py_ssize_t p = analyser.p, t = triangle(p), stride = rows.stride
    cdef bint alone = rows.n_patterns == rows.n
    cdef double *choleskys = rows.choleskys if alone else rows.choleskys_of_patterns
    # Where C is large, the difference would lose digits.
    amofa_sum_products(rows.n_patterns, rows.patterns, patterns.columns, patterns.seen, mixture.n_features, t + 1,
                       analyser.stride, analyser.products, mixture.form[analyser.k] == WOODBURY, choleskys, stride)
    amofa_choleskys(rows.n_patterns, p, choleskys, stride, rows.memory, choleskys + t * stride)
    if not alone:
        amofa_take(rows.n, t + 1, rows.of_rows, choleskys, stride, rows.choleskys, stride)


cdef void solve_rows(
    const double *x, Py_ssize_t ldx, const Prepared *mixture, const Analyser *analyser, Rows *rows,
) noexcept nogil:
    """Compute deviations, scores, fits and distances of rows with Cholesky factors; `seen` is given."""
    cdef Py_ssize_t d = mixture.n_features, p = analyser.p, stride = rows.stride, n = rows.n, i, j
    amofa_seen_deviations(n, d, x, ldx, mixture.means + analyser.k * d, rows.deviations, stride)
    if p:
        gemm(b"N", b"N", p, n, d, 1.0, analyser.scaled, d, rows.deviations, stride, 0.0, rows.scores, stride)
        amofa_solve_choleskys(n, p, rows.choleskys, stride, rows.scores)
        gemm(b"T", b"N", d, n, p, 1.0, mixture.loadings + mixture.offsets[analyser.k] * d, d, rows.scores, stride, 0.0,
             rows.fit, stride)
    else:
        for j in range(d):
            for i in range(n):
                rows.fit[j * stride + i] = 0.0
    amofa_seen_distances(n, d, p, rows.seen, rows.deviations, rows.fit, rows.scores, stride,
                         mixture.inverse_uniquenesses + analyser.k * d, rows.distance)


cdef void set_distances(
    const double *x, Py_ssize_t ldx, const Prepared *mixture, const Analyser *analyser, Rows *rows,
) noexcept nogil:
    """Compute the distances alone, by Woodbury's identity unless that loses digits."""
    cdef Py_ssize_t d = mixture.n_features, k = analyser.k, stride = rows.stride
    if mixture.form[k] != WOODBURY:
        amofa_seen(rows.n, d, x, ldx, rows.seen, stride)
        solve_rows(x, ldx, mixture, analyser, rows)
        return
    amofa_seen_deviations(rows.n, d, x, ldx, mixture.means + k * d, rows.deviations, stride)
    amofa_distances(rows.n, d, analyser.p, rows.deviations, stride, analyser.nowhere,
                    mixture.inverse_uniquenesses + k * d, analyser.scaled, rows.scores, stride, rows.distance)
    amofa_solve_forward(rows.n, analyser.p, rows.choleskys, stride, rows.scores, rows.distance)


cdef void set_log_joint(
    const Prepared *mixture, const Analyser *analyser, const Rows *rows, double *log_joint,
) noexcept nogil:
    """Compute log joint densities of what is seen of the rows with a component."""
    cdef double nu = mixture.degrees_of_freedom[analyser.k], log_weight = log(mixture.weights[analyser.k])
    cdef const double *log_determinant = rows.choleskys + triangle(analyser.p) * rows.stride
    cdef double constant = log(2.0 * M_PI)
    cdef Py_ssize_t i
    for i in range(rows.n):
        if not rows.distance[i] < AMOFA_HUGE:
            log_joint[i] = -INFINITY
        elif nu == INFINITY:
            log_joint[i] = log_weight - 0.5 * (rows.count[i] * constant + log_determinant[i] + rows.distance[i])
        else:
            log_joint[i] = log_weight + analyser.normalisers[<Py_ssize_t> rows.count[i]] - 0.5 * (
                log_determinant[i] + (nu + rows.count[i]) * log1p(max(rows.distance[i], 0.0) / nu))


cdef void posterior_block(const double *x, Py_ssize_t ldx, const Prepared *mixture, Space *space) noexcept nogil:
    """Compute log joint densities, log densities and responsibilities of the rows of a block."""
    cdef Py_ssize_t stride = space.rows.stride, k
    cdef Rows *rows = &space.rows
    for k in range(mixture.n_components):
        set_analyser(k, mixture, &space.analyser)
        factor_rows(mixture, &space.analyser, &space.patterns, rows)
        set_distances(x, ldx, mixture, &space.analyser, rows)
        set_log_joint(mixture, &space.analyser, rows, space.log_joint + k * stride)
    amofa_responsibilities(rows.n, mixture.n_components, space.log_joint, stride, mixture.weights, space.log_density,
                           space.row_sum, space.shares)


# ---- sums ------------------------------------------------------------------------------------------------------------

cdef void accumulate_incomplete(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const Py_ssize_t *numbers, const double *row_weights,
    bint with_entropy, const Prepared *mixture, Space *space, Sums *sums,
) noexcept nogil:
    """Add n rows: responsibilities of all of them first, then the moments of each component."""
    cdef Py_ssize_t start = 0, length, k
    cdef double negligible = sums.negligible
    find_patterns(n, mixture.n_features, x, ldx, numbers, &space.patterns)
    while start < n:
        length = min(space.rows.stride, n - start)
        set_rows(length, start, NULL, &space.patterns, &space.rows)
        posterior_block(x + start, ldx, mixture, space)
        count_block(start, n, row_weights + start if row_weights != NULL else NULL, with_entropy, mixture, space, sums)
        start += length
    if row_weights != NULL:
        negligible *= amofa_weighted_sum(n, row_weights, NULL) / n
    for k in range(mixture.n_components):
        add_component(n, x, ldx, k, negligible * mixture.weights[k], mixture, space, sums)


cdef void count_block(
    Py_ssize_t start, Py_ssize_t ld, const double *row_weights, bint with_entropy, const Prepared *mixture,
    Space *space, Sums *sums,
) noexcept nogil:
    """Add what moments are not needed for, and keep the weighted responsibilities of a block."""
    cdef Py_ssize_t n = space.rows.n, stride = space.rows.stride, k, i
    cdef double count
    cdef double *h
    sums.log_likelihood[0] += amofa_weighted_sum(n, space.log_density, row_weights)
    for k in range(mixture.n_components):
        h = space.shares + k * stride
        if row_weights != NULL:
            amofa_multiply(n, row_weights, h)
        count = amofa_weighted_sum(n, h, NULL)
        sums.soft_counts[k] += count
        if with_entropy:
            sums.entropy[0] += amofa_entropy(n, h, space.log_density, space.log_joint + k * stride)
        if mixture.degrees_of_freedom[k] == INFINITY:
            sums.tail_counts[k] += count
        for i in range(n):
            space.responsibilities[k * ld + start + i] = h[i]


cdef void add_component(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, double least, const Prepared *mixture, Space *space,
    Sums *sums,
) noexcept nogil:
    """Add the first and all second moments of component k, of the rows with more than the least responsibility."""
    cdef const double *h = space.responsibilities + k * n
    cdef Py_ssize_t count = amofa_select(n, h, least, space.selected, space.roots), start = 0, length
    if count:
        set_analyser(k, mixture, &space.analyser)
    while start < count:
        length = min(space.rows.stride, count - start)
        set_rows(length, 0, space.selected + start, &space.patterns, &space.rows)
        add_rows_of_component(x, ldx, h, space.selected + start, space.roots + start, mixture, space, sums)
        start += length


cdef void add_rows_of_component(
    const double *x, Py_ssize_t ldx, const double *h, const int *selected, const double *roots,
    const Prepared *mixture, Space *space, Sums *sums,
) noexcept nogil:
    cdef Py_ssize_t d = mixture.n_features, stride = space.rows.stride, k = space.analyser.k, i
    cdef double nu = mixture.degrees_of_freedom[k]
    cdef Rows *rows = &space.rows
    cdef double *scatter = sums.second + k * d * d
    amofa_take(rows.n, d, selected, x, ldx, rows.x, stride)
    amofa_seen(rows.n, d, rows.x, stride, rows.seen, stride)
    factor_rows(mixture, &space.analyser, &space.patterns, rows)
    solve_rows(rows.x, stride, mixture, &space.analyser, rows)
    add_conditional(h, selected, mixture, space, scatter)
    if nu < INFINITY:
        # Rows in the tails of a t component weigh less, u = (nu + o) / (nu + m), but not what they lack.
        for i in range(rows.n):
            space.row_sum[i] = h[selected[i]] * (nu + rows.count[i]) / (nu + rows.distance[i])
        sums.tail_counts[k] += amofa_weighted_sum(rows.n, space.row_sum, NULL)
        amofa_roots(rows.n, space.row_sum, space.tails)
        roots = space.tails
    amofa_weigh_filled(rows.n, d, rows.seen, rows.fit, roots, rows.deviations, stride, sums.first + k * d)
    if d <= MOST_OWN_PRODUCTS:
        amofa_self_products(rows.n, d, rows.deviations, stride, scatter, d)
    else:
        syrk_lower(d, rows.n, 1.0, rows.deviations, stride, 1.0, scatter, d)


cdef void add_conditional(
    const double *h, const int *selected, const Prepared *mixture, Space *space, double *scatter,
) noexcept nogil:
    """Add the covariances of what rows lack, for each pattern with the sum of its responsibilities."""
    cdef Py_ssize_t d = mixture.n_features, p = space.analyser.p, k = space.analyser.k, start = 0, stop, seen
    cdef Rows *rows = &space.rows
    cdef Py_ssize_t pattern
    cdef double weight
    while start < rows.n:
        pattern, stop, weight = rows.patterns[rows.of_rows[start]], start, 0.0
        while stop < rows.n and rows.of_rows[stop] == rows.of_rows[start]:
            weight += h[selected[stop]]
            stop += 1
        seen = space.patterns.seen[pattern]
        amofa_add_missing(d - seen, space.patterns.columns + pattern * d + seen, d, p,
                          mixture.loadings + mixture.offsets[k] * d, mixture.inverse_uniquenesses + k * d,
                          rows.choleskys + start, rows.stride, weight, rows.memory, scatter)
        start = stop


# ---- what Python calls -----------------------------------------------------------------------------------------------

cdef int check_numbers(Py_ssize_t n, const Py_ssize_t[::1] patterns) except -1:
    if patterns.shape[0] != n:
        raise ValueError("patterns must have one entry per row")
    return 0


def work_length(const Py_ssize_t[::1] offsets not None, Py_ssize_t n_features, Py_ssize_t n_rows):
    """Return the length of the work array of `posterior` for up to so many rows, in float64 values."""
    cdef Py_ssize_t K = offsets.shape[0] - 1
    check_layout(offsets, n_features)
    return space_length(n_rows, K, n_features, most_factors(K, &offsets[0]))


def iteration_work_length(Iteration iteration not None, Py_ssize_t n_rows):
    """Return the length of the work array of `accumulate` for up to so many rows, in float64 values."""
    cdef Py_ssize_t K = iteration.mixture.n_components
    return iteration.scratch.shape[0] + space_length(
        n_rows, K, iteration.mixture.n_features, most_factors(K, iteration.mixture.offsets))


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
    cdef Py_ssize_t p = most_factors(K, mixture.offsets), length = iteration.scratch.shape[0]
    cdef Scratch scratch
    cdef Space space
    cdef Sums totals
    if not iteration.full:
        raise ValueError("the iteration needs second moments as whole matrices")
    if x.shape[0] != d:
        raise ValueError("x must have one row per feature")
    iteration.check_sums(sums)
    check_rows(n, row_weights)
    check_numbers(n, patterns)
    if work.shape[0] < length + space_length(n, K, d, p):
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
        if complete < n:
            lay_out(n, K, d, p, &work[length], &space)
            accumulate_incomplete(
                n - complete, &x[0, complete], n, &patterns[complete], w + complete if w != NULL else NULL,
                iteration.with_entropy, mixture, &space, &totals)


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
    cdef Py_ssize_t d = x.shape[0], n = x.shape[1], K = offsets.shape[0] - 1, start = 0, length, k, i
    cdef Prepared mixture = checked_mixture(prepared, offsets, d)
    cdef Space space
    if log_density.shape[0] != n or responsibilities.shape[0] != K or responsibilities.shape[1] != n:
        raise ValueError("log_density and responsibilities must have one entry per row, and component")
    if scores is not None and (scores.shape[0] != offsets[K] or scores.shape[1] != n):
        raise ValueError("scores must have shape (n_factors in all, n)")
    if spreads is not None and (spreads.shape[0] != K or spreads.shape[1] != n):
        raise ValueError("spreads must have shape (n_components, n)")
    check_numbers(n, patterns)
    cdef Py_ssize_t p = most_factors(K, &offsets[0])
    if work.shape[0] < space_length(n, K, d, p):
        raise ValueError("work is too short")
    if n == 0:
        return
    with nogil:
        lay_out(n, K, d, p, &work[0], &space)
        find_patterns(n, d, &x[0, 0], n, &patterns[0], &space.patterns)
        while start < n:
            length = min(space.rows.stride, n - start)
            set_rows(length, start, NULL, &space.patterns, &space.rows)
            posterior_block(&x[0, start], n, &mixture, &space)
            for i in range(length):
                log_density[start + i] = space.log_density[i]
            for k in range(K):
                for i in range(length):
                    responsibilities[k, start + i] = space.shares[k * space.rows.stride + i]
            if scores is not None or spreads is not None:
                give_scores(
                    &x[0, start], n, &mixture, &space,
                    &scores[0, 0] + start if scores is not None and offsets[K] else NULL,
                    &spreads[0, 0] + start if spreads is not None else NULL)
            start += length


cdef void give_scores(
    const double *x, Py_ssize_t ld, const Prepared *mixture, Space *space, double *scores, double *spreads,
) noexcept nogil:
    """Compute the last two results of the rows of a block; each may be NULL."""
    cdef Rows *rows = &space.rows
    cdef Py_ssize_t k, q, i
    cdef double nu
    amofa_seen(rows.n, mixture.n_features, x, ld, rows.seen, rows.stride)
    for k in range(mixture.n_components):
        set_analyser(k, mixture, &space.analyser)
        factor_rows(mixture, &space.analyser, &space.patterns, rows)
        solve_rows(x, ld, mixture, &space.analyser, rows)
        nu = mixture.degrees_of_freedom[k]
        if spreads != NULL:
            for i in range(rows.n):
                spreads[k * ld + i] = (nu + rows.distance[i]) / (nu + rows.count[i]) if nu < INFINITY else 1.0
        if scores != NULL:
            for q in range(space.analyser.p):
                for i in range(rows.n):
                    scores[(mixture.offsets[k] + q) * ld + i] = rows.scores[q * rows.stride + i]
