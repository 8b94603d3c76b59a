/*
 * Rows with missing cells: every row may have its own observed columns, and so its own capacitance matrix.
 *
 * Layout as in simd.h: a lower triangle of size p is p (p + 1) / 2 rows of an array, in the order (0, 0), (1, 0), (1, 1),
 * and so on, so that loops run over many matrices at a time.
 */
#ifndef AMOFA_MISSING_H
#define AMOFA_MISSING_H

#include "simd.h"

/* seen (d, n) = 1 where x is a number, 0 where it is NaN; count (n) = sums over columns. */
AMOFA_SIMD void amofa_seen(ptrdiff_t n, ptrdiff_t d, const double *restrict x, ptrdiff_t ldx, double *restrict seen,
                           ptrdiff_t ld, double *restrict count)
{
    for (ptrdiff_t i = 0; i < n; i++) count[i] = 0.0;
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double value = x[j * ldx + i], is_seen = value == value ? 1.0 : 0.0;
            seen[j * ld + i] = is_seen;
            count[i] += is_seen;
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

/* b (p, n) becomes C^-1 b, with the Cholesky factors of above. */
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

/*
 * Add to the lower triangle of scatter (d, d) the weight times the covariance of the m missing columns given the others,
 * Lambda_m' C^-1 Lambda_m + Psi_m, with the Cholesky factor of C in steps of ld. Work space b (p + 1, m).
 */
AMOFA_SIMD void amofa_add_missing(ptrdiff_t m, const int32_t *restrict missing, ptrdiff_t d, ptrdiff_t p,
                                  const double *restrict loadings, const double *restrict scale,
                                  const double *restrict c, ptrdiff_t ld, double weight, double *restrict b,
                                  double *restrict scatter)
{
    double *restrict row = b + p * m;
    for (ptrdiff_t q = 0; q < p; q++) {
        const double *restrict factor = c + q * (q + 1) / 2 * ld;
        double *restrict value = b + q * m;
        for (ptrdiff_t a = 0; a < m; a++) value[a] = loadings[q * d + missing[a]];
        for (ptrdiff_t r = 0; r < q; r++) {
            const double f = factor[r * ld], *restrict other = b + r * m;
            for (ptrdiff_t a = 0; a < m; a++) value[a] -= f * other[a];
        }
        const double inverse = factor[q * ld];
        for (ptrdiff_t a = 0; a < m; a++) value[a] *= inverse;
    }
    for (ptrdiff_t a = 0; a < m; a++) {
        double *restrict to = scatter + missing[a] * d;
        for (ptrdiff_t o = 0; o <= a; o++) row[o] = 0.0;
        for (ptrdiff_t q = 0; q < p; q++) {
            const double f = b[q * m + a], *restrict value = b + q * m;
            for (ptrdiff_t o = 0; o <= a; o++) row[o] += f * value[o];
        }
        row[a] += 1.0 / scale[missing[a]];
        for (ptrdiff_t o = 0; o <= a; o++) to[missing[o]] += weight * row[o];
    }
}

#endif
