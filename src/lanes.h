/*
 * Products that are kept in registers, for vectors of one width: included by products.h once for each.
 *
 *   AMOFA_VEC       type of a vector of doubles, or double itself
 *   AMOFA_VECTORS   vectors of rows that are worked on together: AMOFA_LANE_FACTORS times as many sums fit in registers
 *   AMOFA_NAME(f)   the name of function f for this width
 *   AMOFA_FOR       attributes that make the compiler use such vectors
 */

/*
 * For AMOFA_VECTORS vectors of rows and `factors` (0..4, known to the compiler) rows of w, with e = x - mean:
 * projected = w e, and distance = sum_j scale_j e_j^2 - |w e|^2, or with `more` distance -= |w e|^2.
 */
AMOFA_INLINE void AMOFA_NAME(project)(const int factors, const int more, ptrdiff_t d, const double *restrict x,
                                      ptrdiff_t ldx, const double *restrict mean, const double *restrict scale,
                                      const double *restrict w, double *restrict projected, ptrdiff_t ld,
                                      double *restrict distance)
{
    const ptrdiff_t width = sizeof(AMOFA_VEC) / sizeof(double);
    AMOFA_VEC sums[AMOFA_LANE_FACTORS][AMOFA_VECTORS], squares[AMOFA_VECTORS], e[AMOFA_VECTORS];
    for (int i = 0; i < AMOFA_VECTORS; i++) {
        squares[i] = (AMOFA_VEC){0.0};
        for (int q = 0; q < factors; q++) sums[q][i] = (AMOFA_VEC){0.0};
    }
    for (ptrdiff_t j = 0; j < d; j++) {
        const double m = mean[j];
        for (int i = 0; i < AMOFA_VECTORS; i++) e[i] = AMOFA_AT(AMOFA_VEC, x + j * ldx + i * width) - m;
        if (!more) {
            const double s = scale[j];
            for (int i = 0; i < AMOFA_VECTORS; i++) squares[i] += s * e[i] * e[i];
        }
        for (int q = 0; q < factors; q++) {
            const double c = w[q * d + j];
            for (int i = 0; i < AMOFA_VECTORS; i++) sums[q][i] += c * e[i];
        }
    }
    for (int q = 0; q < factors; q++)
        for (int i = 0; i < AMOFA_VECTORS; i++) {
            AMOFA_AT(AMOFA_VEC, projected + q * ld + i * width) = sums[q][i];
            squares[i] -= sums[q][i] * sums[q][i];
        }
    for (int i = 0; i < AMOFA_VECTORS; i++) {
        if (more) squares[i] += AMOFA_AT(AMOFA_VEC, distance + i * width);
        AMOFA_AT(AMOFA_VEC, distance + i * width) = squares[i];
    }
}

/* The same for any number of factors, in groups. */
AMOFA_INLINE void AMOFA_NAME(distance_rows)(ptrdiff_t d, ptrdiff_t p, const double *restrict x, ptrdiff_t ldx,
                                            const double *restrict mean, const double *restrict scale,
                                            const double *restrict w, double *restrict projected, ptrdiff_t ld,
                                            double *restrict distance)
{
#define AMOFA_CASE(G, MORE) \
    case G: \
        AMOFA_NAME(project)(G, MORE, d, x, ldx, mean, scale, w + q * d, projected + q * ld, ld, distance); \
        break;
    ptrdiff_t q = 0;
    switch (p < AMOFA_LANE_FACTORS ? p : AMOFA_LANE_FACTORS) {
        AMOFA_CASE(0, 0) AMOFA_CASE(1, 0) AMOFA_CASE(2, 0) AMOFA_CASE(3, 0) AMOFA_CASE(4, 0)
    }
    for (q = AMOFA_LANE_FACTORS; q < p; q += AMOFA_LANE_FACTORS)
        switch (p - q < AMOFA_LANE_FACTORS ? p - q : AMOFA_LANE_FACTORS) {
            AMOFA_CASE(1, 1) AMOFA_CASE(2, 1) AMOFA_CASE(3, 1) AMOFA_CASE(4, 1)
        }
#undef AMOFA_CASE
}

/* See amofa_distances. The last rows are done together with some that are done already. */
AMOFA_FOR static void AMOFA_NAME(distances)(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *restrict x,
                                            ptrdiff_t ldx, const double *restrict mean, const double *restrict scale,
                                            const double *restrict w, double *restrict projected, ptrdiff_t ld,
                                            double *restrict distance)
{
    const ptrdiff_t lanes = AMOFA_VECTORS * (sizeof(AMOFA_VEC) / sizeof(double));
    if (n < lanes) {
        for (ptrdiff_t i = 0; i < n; i++)
            amofa_one_distance_rows(d, p, x + i, ldx, mean, scale, w, projected + i, ld, distance + i);
        return;
    }
    for (ptrdiff_t next = 0; next < n; next += lanes) {
        const ptrdiff_t i = next + lanes <= n ? next : n - lanes;
        AMOFA_NAME(distance_rows)(d, p, x + i, ldx, mean, scale, w, projected + i, ld, distance + i);
    }
}

/* The sum of a vector's values. */
AMOFA_INLINE double AMOFA_NAME(total)(const AMOFA_VEC *vector)
{
    enum { WIDTH = sizeof(AMOFA_VEC) / sizeof(double) };
    double values[WIDTH];
    memcpy(values, vector, sizeof values);
    for (int half = WIDTH / 2; half; half /= 2)
        for (int i = 0; i < half; i++) values[i] += values[i + half];
    return values[0];
}

/* c (rows, columns) += a (rows, n) b (columns, n)', with the numbers of rows and columns known to the compiler. */
AMOFA_INLINE void AMOFA_NAME(product)(const int rows, const int columns, ptrdiff_t n, const double *restrict a,
                                      const double *restrict b, ptrdiff_t ld, double *restrict c, ptrdiff_t ldc)
{
    const ptrdiff_t width = sizeof(AMOFA_VEC) / sizeof(double);
    AMOFA_VEC sums[AMOFA_LANE_FACTORS][AMOFA_VECTORS], y[AMOFA_VECTORS];
    for (int q = 0; q < rows; q++)
        for (int j = 0; j < columns; j++) sums[q][j] = (AMOFA_VEC){0.0};
    for (ptrdiff_t i = 0; i < n; i += width) {
        for (int j = 0; j < columns; j++) y[j] = AMOFA_AT(AMOFA_VEC, b + j * ld + i);
        for (int q = 0; q < rows; q++) {
            const AMOFA_VEC v = AMOFA_AT(AMOFA_VEC, a + q * ld + i);
            for (int j = 0; j < columns; j++) sums[q][j] += v * y[j];
        }
    }
    for (int q = 0; q < rows; q++)
        for (int j = 0; j < columns; j++) c[q * ldc + j] += AMOFA_NAME(total)(&sums[q][j]);
}

/* See amofa_products. */
AMOFA_FOR static void AMOFA_NAME(products)(ptrdiff_t n, ptrdiff_t p, ptrdiff_t d, const double *restrict a,
                                           const double *restrict b, ptrdiff_t ld, double *restrict c, ptrdiff_t ldc)
{
#define AMOFA_CASE(ROWS, COLUMNS) \
    case ROWS: \
        AMOFA_NAME(product)(ROWS, COLUMNS, n, a + q * ld, b + j * ld, ld, c + q * ldc + j, ldc); \
        break;
    for (ptrdiff_t q = 0; q < p; q += AMOFA_LANE_FACTORS) {
        const ptrdiff_t rows = p - q < AMOFA_LANE_FACTORS ? p - q : AMOFA_LANE_FACTORS;
        ptrdiff_t j = 0;
        for (; j + AMOFA_VECTORS <= d; j += AMOFA_VECTORS)
            switch (rows) {
                AMOFA_CASE(1, AMOFA_VECTORS) AMOFA_CASE(2, AMOFA_VECTORS) AMOFA_CASE(3, AMOFA_VECTORS)
                AMOFA_CASE(4, AMOFA_VECTORS)
            }
        for (; j < d; j++)
            switch (rows) { AMOFA_CASE(1, 1) AMOFA_CASE(2, 1) AMOFA_CASE(3, 1) AMOFA_CASE(4, 1) }
    }
#undef AMOFA_CASE
}

/*
 * For n rows, a multiple of the vector's width, with y = h (x - mean): cross (factors, columns) += v y', and unless `more`
 * first (columns) += sums of y, second (columns) += sums of y (x - mean). Factors (0..4) and columns are known to the
 * compiler.
 */
AMOFA_INLINE void AMOFA_NAME(cross)(const int factors, const int columns, const int more, ptrdiff_t n,
                                    const double *restrict h, const double *restrict x, ptrdiff_t ldx,
                                    const double *restrict mean, const double *restrict v, ptrdiff_t ld,
                                    double *restrict first, double *restrict second, double *restrict cross,
                                    ptrdiff_t ldc)
{
    const ptrdiff_t width = sizeof(AMOFA_VEC) / sizeof(double);
    AMOFA_VEC sums[AMOFA_LANE_FACTORS][AMOFA_VECTORS], once[AMOFA_VECTORS], twice[AMOFA_VECTORS], y[AMOFA_VECTORS];
    for (int j = 0; j < columns; j++) {
        once[j] = twice[j] = (AMOFA_VEC){0.0};
        for (int q = 0; q < factors; q++) sums[q][j] = (AMOFA_VEC){0.0};
    }
    for (ptrdiff_t i = 0; i < n; i += width) {
        const AMOFA_VEC weight = AMOFA_AT(AMOFA_VEC, h + i);
        for (int j = 0; j < columns; j++) {
            const AMOFA_VEC e = AMOFA_AT(AMOFA_VEC, x + j * ldx + i) - mean[j];
            y[j] = weight * e;
            if (!more) {
                once[j] += y[j];
                twice[j] += y[j] * e;
            }
        }
        for (int q = 0; q < factors; q++) {
            const AMOFA_VEC factor = AMOFA_AT(AMOFA_VEC, v + q * ld + i);
            for (int j = 0; j < columns; j++) sums[q][j] += factor * y[j];
        }
    }
    for (int j = 0; j < columns; j++) {
        if (!more) {
            first[j] += AMOFA_NAME(total)(once + j);
            second[j] += AMOFA_NAME(total)(twice + j);
        }
        for (int q = 0; q < factors; q++) cross[q * ldc + j] += AMOFA_NAME(total)(&sums[q][j]);
    }
}

/* The same for any number of factors and columns. */
AMOFA_INLINE void AMOFA_NAME(cross_rows)(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *restrict h,
                                         const double *restrict x, ptrdiff_t ldx, const double *restrict mean,
                                         const double *restrict v, ptrdiff_t ld, double *restrict first,
                                         double *restrict second, double *restrict cross)
{
#define AMOFA_CASE(G, COLUMNS, MORE) \
    case G: \
        AMOFA_NAME(cross)(MORE ? -(G) : (G), COLUMNS, MORE, n, h, x + j * ldx, ldx, mean + j, v + q * ld, ld, first + j, second + j, \
                          cross + q * d + j, d); \
        break;
    ptrdiff_t q = 0;
    do {
        const ptrdiff_t factors = p - q < AMOFA_LANE_FACTORS ? p - q : AMOFA_LANE_FACTORS;
        ptrdiff_t j = 0;
        for (; j + AMOFA_VECTORS <= d; j += AMOFA_VECTORS)
            switch (q ? -factors : factors) {
                AMOFA_CASE(0, AMOFA_VECTORS, 0) AMOFA_CASE(1, AMOFA_VECTORS, 0) AMOFA_CASE(2, AMOFA_VECTORS, 0)
                AMOFA_CASE(3, AMOFA_VECTORS, 0) AMOFA_CASE(4, AMOFA_VECTORS, 0)
                AMOFA_CASE(-1, AMOFA_VECTORS, 1) AMOFA_CASE(-2, AMOFA_VECTORS, 1) AMOFA_CASE(-3, AMOFA_VECTORS, 1)
                AMOFA_CASE(-4, AMOFA_VECTORS, 1)
            }
        for (; j < d; j++)
            switch (q ? -factors : factors) {
                AMOFA_CASE(0, 1, 0) AMOFA_CASE(1, 1, 0) AMOFA_CASE(2, 1, 0) AMOFA_CASE(3, 1, 0) AMOFA_CASE(4, 1, 0)
                AMOFA_CASE(-1, 1, 1) AMOFA_CASE(-2, 1, 1) AMOFA_CASE(-3, 1, 1) AMOFA_CASE(-4, 1, 1)
            }
        q += AMOFA_LANE_FACTORS;
    } while (q < p);
#undef AMOFA_CASE
}

/* See amofa_weighted_products. */
AMOFA_FOR static void AMOFA_NAME(weighted)(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *restrict h,
                                           const double *restrict x, ptrdiff_t ldx, const double *restrict mean,
                                           const double *restrict v, ptrdiff_t ld, double *restrict first,
                                           double *restrict second, double *restrict cross)
{
    const ptrdiff_t whole = n - n % (ptrdiff_t) (sizeof(AMOFA_VEC) / sizeof(double));
    AMOFA_NAME(cross_rows)(whole, d, p, h, x, ldx, mean, v, ld, first, second, cross);
    if (whole < n)
        amofa_one_cross_rows(n - whole, d, p, h + whole, x + whole, ldx, mean, v + whole, ld, first, second, cross);
}

#undef AMOFA_VEC
#undef AMOFA_VECTORS
#undef AMOFA_NAME
#undef AMOFA_FOR
