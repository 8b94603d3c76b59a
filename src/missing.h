/*
 * Rows with missing cells: every row may have its own observed columns, and so its own capacitance matrix.
 *
 * Layout as in simd.h: a lower triangle of size p is p (p + 1) / 2 rows of an array, in the order (0, 0), (1, 0), (1, 1),
 * and so on, so that loops run over many matrices at a time.
 */
#ifndef AMOFA_MISSING_H
#define AMOFA_MISSING_H

#include "simd.h"

/* seen (d, n) = 1 where x is a number, 0 where it is NaN. */
AMOFA_SIMD void amofa_seen(ptrdiff_t n, ptrdiff_t d, const double *restrict x, ptrdiff_t ldx, double *restrict seen,
                           ptrdiff_t ld)
{
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t i = 0; i < n; i++) seen[j * ld + i] = x[j * ldx + i] == x[j * ldx + i] ? 1.0 : 0.0;
}

/*
 * columns (n, d): of each of the given rows of x the columns with a number, in their order, then those with NaN, the last
 * one first; rows become the numbers of the former.
 */
AMOFA_SIMD void amofa_list_columns(ptrdiff_t n, ptrdiff_t d, const double *restrict x, ptrdiff_t ldx,
                                   int32_t *restrict rows, int32_t *restrict columns)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *restrict row = x + rows[i];
        int32_t *restrict list = columns + i * d;
        ptrdiff_t first = 0, last = d - 1;
        for (ptrdiff_t j = 0; j < d; j++) {
            const int is_seen = row[j * ldx] == row[j * ldx];
            list[is_seen ? first : last] = (int32_t) j;
            first += is_seen;
            last -= !is_seen;
        }
        rows[i] = (int32_t) first;
    }
}

/* to (m, n) = the given columns of from (m, .). */
AMOFA_SIMD void amofa_take(ptrdiff_t n, ptrdiff_t m, const int32_t *restrict columns, const double *restrict from,
                           ptrdiff_t ld_from, double *restrict to, ptrdiff_t ld)
{
    for (ptrdiff_t j = 0; j < m; j++)
        for (ptrdiff_t i = 0; i < n; i++) to[j * ld + i] = from[j * ld_from + columns[i]];
}

/* e (d, n) = x - mean where x is a number, otherwise 0. */
AMOFA_SIMD void amofa_seen_deviations(ptrdiff_t n, ptrdiff_t d, const double *restrict x, ptrdiff_t ldx,
                                      const double *restrict mean, double *restrict e, ptrdiff_t ld)
{
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double value = x[j * ldx + i] - mean[j];
            e[j * ld + i] = value == value ? value : 0.0;
        }
}

/* Numbers of a row of products that are summed together, in registers. */
enum { AMOFA_PRODUCTS = 16 };

/*
 * c (t, n): for each pattern, the sum of the rows of products (d + 1, ldt) that its columns have, ldt a multiple of
 * AMOFA_PRODUCTS. Columns (d) of a pattern come those that are seen first, `seen` of them. If `subtract` allows it, and
 * they are fewer, missing ones are subtracted from the sum of all, the last row.
 */
AMOFA_SIMD void amofa_sum_products(ptrdiff_t n, const int32_t *restrict patterns, const int32_t *restrict columns,
                                   const int32_t *restrict seen, ptrdiff_t d, ptrdiff_t t, ptrdiff_t ldt,
                                   const double *restrict products, int subtract, double *restrict c, ptrdiff_t ld)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const ptrdiff_t there = seen[patterns[i]];
        const int rest = subtract && 2 * there > d;
        const int32_t *restrict list = columns + patterns[i] * d + (rest ? there : 0);
        const ptrdiff_t length = rest ? d - there : there;
        const double sign = rest ? -1.0 : 1.0;
        for (ptrdiff_t q = 0; q < t; q += AMOFA_PRODUCTS) {
            double sums[AMOFA_PRODUCTS];
            for (int r = 0; r < AMOFA_PRODUCTS; r++) sums[r] = rest ? products[d * ldt + q + r] : 0.0;
            for (ptrdiff_t a = 0; a < length; a++) {
                const double *restrict row = products + list[a] * ldt + q;
                for (int r = 0; r < AMOFA_PRODUCTS; r++) sums[r] += sign * row[r];
            }
            const ptrdiff_t stop = t - q < AMOFA_PRODUCTS ? t - q : AMOFA_PRODUCTS;
            for (ptrdiff_t r = 0; r < stop; r++) c[(q + r) * ld + i] = sums[r];
        }
    }
}

/*
 * The lower triangles c + I, without I, become Cholesky factors with the inverses of their diagonals in place of these;
 * product (n) is work space, and log_determinant (n) += log |c + I|.
 */
AMOFA_SIMD void amofa_choleskys(ptrdiff_t n, ptrdiff_t p, double *restrict c, ptrdiff_t ld, double *restrict product,
                                double *restrict log_determinant)
{
    for (ptrdiff_t i = 0; i < n; i++) product[i] = 1.0;
    for (ptrdiff_t q = 0; q < p; q++) {
        double *restrict row = c + q * (q + 1) / 2 * ld;
        for (ptrdiff_t r = 0; r < q; r++) {
            const double *restrict other = c + r * (r + 1) / 2 * ld;
            double *restrict value = row + r * ld;
            for (ptrdiff_t s = 0; s < r; s++)
                for (ptrdiff_t i = 0; i < n; i++) value[i] -= row[s * ld + i] * other[s * ld + i];
            for (ptrdiff_t i = 0; i < n; i++) value[i] *= other[r * ld + i];
        }
        double *restrict diagonal = row + q * ld;
        for (ptrdiff_t i = 0; i < n; i++) diagonal[i] += 1.0;
        for (ptrdiff_t s = 0; s < q; s++)
            for (ptrdiff_t i = 0; i < n; i++) diagonal[i] -= row[s * ld + i] * row[s * ld + i];
        for (ptrdiff_t i = 0; i < n; i++) diagonal[i] = 1.0 / sqrt(diagonal[i]);
        for (ptrdiff_t i = 0; i < n; i++) product[i] *= diagonal[i];
        /* A logarithm takes longer than the rest; a product of four does not underflow. */
        if (q % 4 == 3 || q == p - 1)
            for (ptrdiff_t i = 0; i < n; i++) {
                log_determinant[i] -= 2.0 * log(product[i]);
                product[i] = 1.0;
            }
    }
}

/* b (p, n) becomes L^-1 b, with the Cholesky factors L of above; distance (n) += |b|^2 - |L^-1 b|^2. */
AMOFA_SIMD void amofa_solve_forward(ptrdiff_t n, ptrdiff_t p, const double *restrict c, ptrdiff_t ld,
                                    double *restrict b, double *restrict distance)
{
    for (ptrdiff_t q = 0; q < p; q++) {
        const double *restrict row = c + q * (q + 1) / 2 * ld;
        double *restrict value = b + q * ld;
        for (ptrdiff_t i = 0; i < n; i++) distance[i] += value[i] * value[i];
        for (ptrdiff_t r = 0; r < q; r++)
            for (ptrdiff_t i = 0; i < n; i++) value[i] -= row[r * ld + i] * b[r * ld + i];
        for (ptrdiff_t i = 0; i < n; i++) {
            value[i] *= row[q * ld + i];
            distance[i] -= value[i] * value[i];
        }
    }
}

/* b (p, n) becomes C^-1 b. */
AMOFA_SIMD void amofa_solve_choleskys(ptrdiff_t n, ptrdiff_t p, const double *restrict c, ptrdiff_t ld,
                                      double *restrict b)
{
    for (ptrdiff_t q = 0; q < p; q++) {
        const double *restrict row = c + q * (q + 1) / 2 * ld;
        double *restrict value = b + q * ld;
        for (ptrdiff_t r = 0; r < q; r++)
            for (ptrdiff_t i = 0; i < n; i++) value[i] -= row[r * ld + i] * b[r * ld + i];
        for (ptrdiff_t i = 0; i < n; i++) value[i] *= row[q * ld + i];
    }
    for (ptrdiff_t q = p - 1; q >= 0; q--) {
        const double *restrict row = c + q * (q + 1) / 2 * ld;
        double *restrict value = b + q * ld;
        for (ptrdiff_t i = 0; i < n; i++) value[i] *= row[q * ld + i];
        for (ptrdiff_t r = 0; r < q; r++)
            for (ptrdiff_t i = 0; i < n; i++) b[r * ld + i] -= row[r * ld + i] * value[i];
    }
}

/* distance (n) = sum_j seen_j scale_j (e_j - fit_j)^2 + sum_q z_q^2. */
AMOFA_SIMD void amofa_seen_distances(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *restrict seen,
                                     const double *restrict e, const double *restrict fit, const double *restrict z,
                                     ptrdiff_t ld, const double *restrict scale, double *restrict distance)
{
    for (ptrdiff_t i = 0; i < n; i++) distance[i] = 0.0;
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double left = e[j * ld + i] - fit[j * ld + i];
            distance[i] += scale[j] * seen[j * ld + i] * left * left;
        }
    for (ptrdiff_t q = 0; q < p; q++)
        for (ptrdiff_t i = 0; i < n; i++) distance[i] += z[q * ld + i] * z[q * ld + i];
}

/*
 * Fill in what is not seen of e by fit, multiply each row by its root, add to first (d) the sums of root times that, and
 * set columns up to the next multiple of 8 to 0.
 */
AMOFA_SIMD void amofa_weigh_filled(ptrdiff_t n, ptrdiff_t d, const double *restrict seen, const double *restrict fit,
                                   const double *restrict root, double *restrict e, ptrdiff_t ld,
                                   double *restrict first)
{
    const ptrdiff_t stop = (n + 7) / 8 * 8;
    for (ptrdiff_t j = 0; j < d; j++) {
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double value = root[i] * (seen[j * ld + i] > 0.0 ? e[j * ld + i] : fit[j * ld + i]);
            total += root[i] * value;
            e[j * ld + i] = value;
        }
        for (ptrdiff_t i = n; i < stop; i++) e[j * ld + i] = 0.0;
        first[j] += total;
    }
}

/* Missing columns that are worked on together, in registers. */
enum { AMOFA_TOGETHER = 8 };

/*
 * Add to the lower triangle of scatter (d, d) the weight times the covariance of the m missing columns, the last one
 * first, given the others: Lambda_m' C^-1 Lambda_m + Psi_m = B' B + Psi_m, B = L^-1 Lambda_m, with the Cholesky factor L
 * of C in steps of ld. Work space b: p rows of m values and up to seven more.
 */
AMOFA_SIMD void amofa_add_missing(ptrdiff_t m, const int32_t *restrict missing, ptrdiff_t d, ptrdiff_t p,
                                  const double *restrict loadings, const double *restrict scale,
                                  const double *restrict c, ptrdiff_t ld, double weight, double *restrict b,
                                  double *restrict scatter)
{
    const ptrdiff_t ldb = (m + AMOFA_TOGETHER - 1) / AMOFA_TOGETHER * AMOFA_TOGETHER;
    for (ptrdiff_t first = 0; first < m; first += AMOFA_TOGETHER)
        for (ptrdiff_t q = 0; q < p; q++) {
            const double *restrict factor = c + q * (q + 1) / 2 * ld;
            double value[AMOFA_TOGETHER];
            for (int k = 0; k < AMOFA_TOGETHER; k++)
                value[k] = first + k < m ? loadings[q * d + missing[first + k]] : 0.0;
            for (ptrdiff_t r = 0; r < q; r++)
                for (int k = 0; k < AMOFA_TOGETHER; k++) value[k] -= factor[r * ld] * b[r * ldb + first + k];
            for (int k = 0; k < AMOFA_TOGETHER; k++) b[q * ldb + first + k] = factor[q * ld] * value[k];
        }
    for (ptrdiff_t a = 0; a < m; a++) {
        double *restrict to = scatter + missing[a];
        for (ptrdiff_t first = 0; first <= a; first += AMOFA_TOGETHER) {
            double sums[AMOFA_TOGETHER] = {0.0};
            for (ptrdiff_t q = 0; q < p; q++)
                for (int k = 0; k < AMOFA_TOGETHER; k++) sums[k] += b[q * ldb + a] * b[q * ldb + first + k];
            const ptrdiff_t stop = a + 1 - first < AMOFA_TOGETHER ? a + 1 - first : AMOFA_TOGETHER;
            for (ptrdiff_t k = 0; k < stop; k++) to[missing[first + k] * d] += weight * sums[k];
        }
        to[missing[a] * d] += weight / scale[missing[a]];
    }
}

#endif
