/*
 * The loops over rows that are worth a copy per CPU.
 *
 * Rows are the fastest index everywhere: an array "(d, n), ld" holds feature j of row i at [j * ld + i], so every inner
 * loop below runs over rows with unit stride and without branches. With GCC or Clang on glibc each function is
 * compiled for AVX-512, AVX2 and the baseline, and the copy is chosen when the module is loaded (AMOFA_TARGET_CLONES,
 * decided by the build). The functions are static: a cloned function with external linkage would be exported.
 */
#ifndef AMOFA_SIMD_H
#define AMOFA_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(AMOFA_TARGET_CLONES) && AMOFA_AVX512
#define AMOFA_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) static
#elif defined(AMOFA_TARGET_CLONES)
#define AMOFA_SIMD __attribute__((target_clones("arch=x86-64-v3", "default"))) static
#else
#define AMOFA_SIMD static
#endif

#if defined(__GNUC__) || defined(__clang__)
#define AMOFA_INLINE static inline __attribute__((always_inline))
#else
#define AMOFA_INLINE static inline
#endif

/* Squares beyond this are taken for overflow: the row is infinitely far away. */
#define AMOFA_HUGE 1e300

AMOFA_INLINE uint64_t amofa_bits(double x) { uint64_t b; memcpy(&b, &x, sizeof b); return b; }
AMOFA_INLINE double amofa_from_bits(uint64_t b) { double x; memcpy(&x, &b, sizeof x); return x; }

/* The first 26 of the 53 bits of x. */
AMOFA_INLINE double amofa_upper_half(double x) { return amofa_from_bits(amofa_bits(x) & ~UINT64_C(0x7FFFFFF)); }

/*
 * exp(x) for x <= 0, within 2 ulp; exactly 0 below -708 (exp(-708) is the last normal number) and for NaN.
 * x = k log 2 + r with |r| <= log(2) / 2, and exp(r) = 1 + r + r^2 q(r): q interpolates at the ten Chebyshev nodes of that
 * interval, with a relative error of 2e-17. Adding 1.5 * 2^52 rounds to the integer k and leaves it in the low bits, ready
 * to be added to the exponent.
 */
AMOFA_INLINE double amofa_exp(double x)
{
    const double rounder = 6755399441055744.0; /* 1.5 * 2^52 */
    const double t = x * 1.4426950408889634 + rounder;
    const double k = t - rounder;
    /* log 2 in two parts; the first has 32 trailing zero bits, so that k times it is exact. */
    const double r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    double q = 2.510038549551032e-08;
    q = q * r + 2.7620088445409746e-07;
    q = q * r + 2.7557268459997064e-06;
    q = q * r + 2.4801521295954376e-05;
    q = q * r + 0.00019841269863053618;
    q = q * r + 0.0013888888917213717;
    q = q * r + 0.008333333333330062;
    q = q * r + 0.04166666666662413;
    q = q * r + 0.16666666666666669;
    q = q * r + 0.5000000000000001;
    q = (q * r + 1.0) * r + 1.0;
    q = amofa_from_bits(amofa_bits(q) + (amofa_bits(t) << 52));
    return x > -708.0 ? q : 0.0;
}

/*
 * log(x) and 1 / x for finite x >= 1, within 2 ulp: x = 2^k m with m in [1/sqrt 2, sqrt 2), log m = 2 artanh(t) with
 * t = (m - 1) / (m + 1), and artanh(t) = t + t^3 p(t^2): p interpolates at seven Chebyshev nodes, with a relative error of
 * 5e-18. Division is slow: both quotients come from one.
 */
AMOFA_INLINE double amofa_log_and_inverse(double x, double *inverse)
{
    const uint64_t b = amofa_bits(x);
    const uint64_t k = (b - UINT64_C(0x3FE6A09E667F3BCD)) >> 52; /* bits of sqrt(1/2) */
    const double m = amofa_from_bits(b - (k << 52));
    const double kd = amofa_from_bits(k | UINT64_C(0x4330000000000000)) - 4503599627370496.0; /* 2^52 */
    const double u = 1.0 / (x * (m + 1.0));
    const double t = (m - 1.0) * (u * x);
    const double z = t * t;
    double p = 0.07308292712444311;
    p = p * z + 0.07665855309105386;
    p = p * z + 0.09091444727837474;
    p = p * z + 0.11111105565129939;
    p = p * z + 0.14285714313001635;
    p = p * z + 0.19999999999949722;
    p = p * z + 0.3333333333333335;
    *inverse = u * (m + 1.0);
    return kd * 0.693147180369123816490 + (2.0 * t + (2.0 * t * z * p + kd * 1.90821492927058770002e-10));
}

/* A mixture that people plot: up to this many features and factors, everything about a row stays in registers. */
enum { AMOFA_SMALL_FEATURES = 4, AMOFA_SMALL_FACTORS = 2 };

/*
 * For one component, with e = x - mean: projected (p, n) = W e and
 * log_joint (n) = constant - (sum_j scale_j e_j^2 - |W e|^2) / 2. Called with d and p known to the compiler.
 */
AMOFA_INLINE void amofa_log_joint_rows(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *restrict x, ptrdiff_t ldx,
                                       const double *restrict mean, const double *restrict scale,
                                       const double *restrict w, double constant, double *restrict projected,
                                       ptrdiff_t ld, double *restrict log_joint)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double distance = 0.0;
        for (ptrdiff_t j = 0; j < d; j++) {
            const double e = x[j * ldx + i] - mean[j];
            distance += scale[j] * e * e;
        }
        for (ptrdiff_t q = 0; q < p; q++) {
            double v = 0.0;
            for (ptrdiff_t j = 0; j < d; j++) v += w[q * d + j] * (x[j * ldx + i] - mean[j]);
            projected[q * ld + i] = v;
            distance -= v * v;
        }
        log_joint[i] = distance < AMOFA_HUGE ? constant - 0.5 * distance : -INFINITY;
    }
}

/* The same for any small d and p. */
AMOFA_SIMD void amofa_small_log_joint(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *restrict x, ptrdiff_t ldx,
                                      const double *restrict mean, const double *restrict scale,
                                      const double *restrict w, double constant, double *restrict projected,
                                      ptrdiff_t ld, double *restrict log_joint)
{
#define AMOFA_CASE(D, P) \
    case D * (AMOFA_SMALL_FACTORS + 1) + P: \
        amofa_log_joint_rows(n, D, P, x, ldx, mean, scale, w, constant, projected, ld, log_joint); \
        break;
#define AMOFA_CASES(D) AMOFA_CASE(D, 0) AMOFA_CASE(D, 1) AMOFA_CASE(D, 2)
    switch (d * (AMOFA_SMALL_FACTORS + 1) + p) { AMOFA_CASES(1) AMOFA_CASES(2) AMOFA_CASES(3) AMOFA_CASES(4) }
#undef AMOFA_CASES
#undef AMOFA_CASE
}

/*
 * first (d) += sum_i h_i e_ji;  second (d) += sum_i h_i e_ji^2;  cross (p, d) += sum_i h_i projected_qi e_ji, with
 * e = x - mean and p at most 2.
 */
AMOFA_SIMD void amofa_small_moments(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *restrict h,
                                    const double *restrict x, ptrdiff_t ldx, const double *restrict mean,
                                    const double *restrict projected, ptrdiff_t ld, double *restrict first,
                                    double *restrict second, double *restrict cross)
{
    /* Unused factors read the first feature instead of memory that is not there; their sums are thrown away. */
    const double *restrict v0 = p > 0 ? projected : x;
    const double *restrict v1 = p > 1 ? projected + ld : x;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double *restrict xj = x + j * ldx;
        const double m = mean[j];
        double a = 0.0, b = 0.0, c0 = 0.0, c1 = 0.0;
#pragma omp simd reduction(+ : a, b, c0, c1)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double e = xj[i] - m;
            const double he = h[i] * e;
            a += he;
            b += he * e;
            c0 += he * v0[i];
            c1 += he * v1[i];
        }
        first[j] += a;
        second[j] += b;
        if (p > 0) cross[j] += c0;
        if (p > 1) cross[d + j] += c1;
    }
}

/* deviations (d, n) = x (d, n) - mean (d). */
AMOFA_SIMD void amofa_deviations(ptrdiff_t n, ptrdiff_t d, const double *restrict x, ptrdiff_t ldx,
                                 const double *restrict mean, double *restrict dev, ptrdiff_t ld)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        const double m = mean[j];
        for (ptrdiff_t i = 0; i < n; i++) dev[j * ld + i] = x[j * ldx + i] - m;
    }
}

/* out (n) = sum_j scale_j dev_ji^2. */
AMOFA_SIMD void amofa_scaled_squares(ptrdiff_t n, ptrdiff_t d, const double *restrict dev, ptrdiff_t ld,
                                     const double *restrict scale, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = 0.0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double s = scale[j];
        for (ptrdiff_t i = 0; i < n; i++) out[i] += s * dev[j * ld + i] * dev[j * ld + i];
    }
}

/* Rows whose residuals are worked on together, in the first-level cache. */
enum { AMOFA_RESIDUAL_ROWS = 64 };

/*
 * out (n) = sum_j scale_j (x_j - mean_j - sum_q loadings_qj z_q)^2, each difference rounded once: it may be 1e10 times
 * smaller than what it is made of. The rounding error of each sum is found exactly (Knuth), and these are summed on their
 * own (Ogita, Rump, Oishi, Accurate sum and dot product, SIAM J. Sci. Comput. 26, 2005). The product of two upper halves
 * is exact, so that it does not matter whether it is fused with a sum; the rest of a product is an error, too.
 */
AMOFA_SIMD void amofa_residual_squares(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *restrict x, ptrdiff_t ldx,
                                       const double *restrict mean, const double *restrict loadings,
                                       const double *restrict z, ptrdiff_t ld, const double *restrict scale,
                                       double *restrict out)
{
    double sum[AMOFA_RESIDUAL_ROWS], error[AMOFA_RESIDUAL_ROWS];
    for (ptrdiff_t start = 0; start < n; start += AMOFA_RESIDUAL_ROWS) {
        const ptrdiff_t rows = n - start < AMOFA_RESIDUAL_ROWS ? n - start : AMOFA_RESIDUAL_ROWS;
        for (ptrdiff_t i = 0; i < rows; i++) out[start + i] = 0.0;
        for (ptrdiff_t j = 0; j < d; j++) {
            const double *restrict xj = x + j * ldx + start;
            const double m = mean[j], s = scale[j];
            for (ptrdiff_t i = 0; i < rows; i++) {
                const double a = xj[i], t = a - m, b = t - a;
                sum[i] = t;
                error[i] = (a - (t - b)) - (m + b);
            }
            for (ptrdiff_t q = 0; q < p; q++) {
                const double *restrict zq = z + q * ld + start;
                const double l = loadings[q * d + j], upper = amofa_upper_half(l), lower = l - upper;
                for (ptrdiff_t i = 0; i < rows; i++) {
                    const double v = zq[i], v_upper = amofa_upper_half(v);
                    const double a = sum[i], product = upper * v_upper, t = a - product, b = t - a;
                    sum[i] = t;
                    error[i] += ((a - (t - b)) - (product + b)) - (upper * (v - v_upper) + lower * v);
                }
            }
            for (ptrdiff_t i = 0; i < rows; i++) {
                const double r = sum[i] + error[i];
                out[start + i] += s * r * r;
            }
        }
    }
}

/*
 * The squared distance of one row x (d) by residuals, |Psi^(-1/2) (e - Lambda z)|^2 + |z|^2 with e = x - mean and z = L^-T W e,
 * and projected (p) = W e: in vectors of features, and without a call of BLAS, which takes longer than the products. If
 * `exact`, residuals are computed as in amofa_residual_squares. Memory: e (d) and z (p).
 */
AMOFA_SIMD double amofa_residual_distance(int exact, ptrdiff_t d, ptrdiff_t p, const double *restrict x, ptrdiff_t ldx,
                                          const double *restrict mean, const double *restrict scale,
                                          const double *restrict w, const double *restrict cholesky,
                                          const double *restrict loadings, double *restrict projected, ptrdiff_t ld,
                                          double *restrict e, double *restrict z)
{
    double sum[AMOFA_RESIDUAL_ROWS], error[AMOFA_RESIDUAL_ROWS], distance = 0.0;
    for (ptrdiff_t j = 0; j < d; j++) e[j] = x[j * ldx] - mean[j];
    for (ptrdiff_t q = 0; q < p; q++) {
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (ptrdiff_t j = 0; j < d; j++) total += w[q * d + j] * e[j];
        projected[q * ld] = z[q] = total;
    }
    for (ptrdiff_t q = p - 1; q >= 0; q--) {
        z[q] /= cholesky[q * p + q];
        for (ptrdiff_t r = 0; r < q; r++) z[r] -= cholesky[q * p + r] * z[q];
        distance += z[q] * z[q];
    }
    for (ptrdiff_t start = 0; start < d; start += AMOFA_RESIDUAL_ROWS) {
        const ptrdiff_t columns = d - start < AMOFA_RESIDUAL_ROWS ? d - start : AMOFA_RESIDUAL_ROWS;
        for (ptrdiff_t j = 0; j < columns; j++) {
            const double a = x[(start + j) * ldx], m = mean[start + j], t = a - m, b = t - a;
            sum[j] = t;
            error[j] = (a - (t - b)) - (m + b);
        }
        for (ptrdiff_t q = 0; q < p; q++) {
            const double *restrict l = loadings + q * d + start;
            const double v = z[q], v_upper = amofa_upper_half(v);
            if (!exact)
                for (ptrdiff_t j = 0; j < columns; j++) sum[j] -= l[j] * v;
            else
                for (ptrdiff_t j = 0; j < columns; j++) {
                    const double upper = amofa_upper_half(l[j]);
                    const double a = sum[j], product = upper * v_upper, t = a - product, b = t - a;
                    sum[j] = t;
                    error[j] += ((a - (t - b)) - (product + b)) - (upper * (v - v_upper) + (l[j] - upper) * v);
                }
        }
#pragma omp simd reduction(+ : distance)
        for (ptrdiff_t j = 0; j < columns; j++) {
            const double r = exact ? sum[j] + error[j] : sum[j];
            distance += scale[start + j] * r * r;
        }
    }
    return distance;
}

/* out (n) += sign * sum_q v_qi^2. */
AMOFA_SIMD void amofa_add_squares(ptrdiff_t n, ptrdiff_t p, double sign, const double *restrict v, ptrdiff_t ld,
                                  double *restrict out)
{
    for (ptrdiff_t q = 0; q < p; q++)
        for (ptrdiff_t i = 0; i < n; i++) out[i] += sign * v[q * ld + i] * v[q * ld + i];
}

/* From squared distances to log joint densities, in place: constant - distance / 2, and -inf where squares overflowed. */
AMOFA_SIMD void amofa_log_joint(ptrdiff_t n, double constant, double *restrict distance)
{
    for (ptrdiff_t i = 0; i < n; i++)
        distance[i] = distance[i] < AMOFA_HUGE ? constant - 0.5 * distance[i] : -INFINITY;
}

AMOFA_INLINE void amofa_many_responsibilities(ptrdiff_t n, ptrdiff_t K, const double *restrict log_joint, ptrdiff_t ld,
                                              double *restrict log_density, double *restrict sum,
                                              double *restrict resp)
{
    double *restrict top = log_density;
    for (ptrdiff_t i = 0; i < n; i++) top[i] = log_joint[i];
    for (ptrdiff_t k = 1; k < K; k++)
        for (ptrdiff_t i = 0; i < n; i++)
            top[i] = log_joint[k * ld + i] > top[i] ? log_joint[k * ld + i] : top[i];
    for (ptrdiff_t i = 0; i < n; i++) sum[i] = 0.0;
    for (ptrdiff_t k = 0; k < K; k++)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double e = amofa_exp(log_joint[k * ld + i] - top[i]);
            resp[k * ld + i] = e;
            sum[i] += e;
        }
    for (ptrdiff_t i = 0; i < n; i++) {
        double inverse;
        top[i] += amofa_log_and_inverse(sum[i] > 1.0 ? sum[i] : 1.0, &inverse);
        sum[i] = inverse;
    }
    for (ptrdiff_t k = 0; k < K; k++)
        for (ptrdiff_t i = 0; i < n; i++) resp[k * ld + i] *= sum[i];
}

/*
 * Log-sum-exp and softmax over the K components of every row, and the least log density.
 * log_joint (K, n) -> log_density (n) and responsibilities (K, n), which sum to 1. A row that is infinitely far from
 * every component has log density -inf and keeps the mixing weights as responsibilities. (The differences of its log
 * joint densities are NaN, whose exponential amofa_exp takes for 0.)
 */
AMOFA_SIMD double amofa_responsibilities(ptrdiff_t n, ptrdiff_t K, const double *restrict log_joint, ptrdiff_t ld,
                                         const double *restrict weights, double *restrict log_density,
                                         double *restrict sum, double *restrict resp)
{
    if (K == 1)
        for (ptrdiff_t i = 0; i < n; i++) {
            log_density[i] = log_joint[i];
            resp[i] = 1.0;
        }
    else
        amofa_many_responsibilities(n, K, log_joint, ld, log_density, sum, resp);
    double least = INFINITY;
#pragma omp simd reduction(min : least)
    for (ptrdiff_t i = 0; i < n; i++) least = log_density[i] < least ? log_density[i] : least;
    if (least > -INFINITY) return least;
    for (ptrdiff_t i = 0; i < n; i++)
        if (!(log_density[i] > -INFINITY))
            for (ptrdiff_t k = 0; k < K; k++) resp[k * ld + i] = weights[k];
    return least;
}

/*
 * A background beside the components: log_density (n) of these becomes that of (1 - weight) f + weight b, with the logs of
 * both shares and log b (n), and share (n) is the posterior probability of the components.
 */
AMOFA_SIMD void amofa_add_background(ptrdiff_t n, double log_rest, double log_weight, const double *restrict background,
                                     double *restrict log_density, double *restrict share)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const double f = log_density[i] + log_rest, b = background[i] + log_weight;
        /* 0 where both are -inf, whose difference is NaN: the components keep such a row. */
        const double e = amofa_exp(f >= b ? b - f : f - b);
        double inverse;
        log_density[i] = (f >= b ? f : b) + amofa_log_and_inverse(1.0 + e, &inverse);
        share[i] = (f >= b ? 1.0 : e) * inverse;
    }
}

/* Sum of row weights times values; every weight is 1 when weights is NULL. Where it is 0, an infinite value is none. */
AMOFA_SIMD double amofa_weighted_sum(ptrdiff_t n, const double *restrict values, const double *restrict weights)
{
    double total = 0.0;
    if (weights) {
#pragma omp simd reduction(+ : total)
        for (ptrdiff_t i = 0; i < n; i++) total += weights[i] > 0.0 ? weights[i] * values[i] : 0.0;
    }
    else {
#pragma omp simd reduction(+ : total)
        for (ptrdiff_t i = 0; i < n; i++) total += values[i];
    }
    return total;
}

/* near = whether h is above the least, and kept += h where it is. */
AMOFA_SIMD void amofa_mark(ptrdiff_t n, const double *restrict h, double least, unsigned char *restrict near,
                           double *restrict kept)
{
    for (ptrdiff_t i = 0; i < n; i++) near[i] = h[i] > least;
    for (ptrdiff_t i = 0; i < n; i++) kept[i] += h[i] > least ? h[i] : 0.0;
}

/* values = exp(values - top of their rows). */
AMOFA_SIMD void amofa_exp_below(ptrdiff_t n, const int32_t *restrict rows, const double *restrict top,
                                double *restrict values)
{
    for (ptrdiff_t i = 0; i < n; i++) values[i] = amofa_exp(values[i] - top[rows[i]]);
}

/* values *= factors; returns their sum. */
AMOFA_SIMD double amofa_multiply(ptrdiff_t n, const double *restrict factors, double *restrict values)
{
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (ptrdiff_t i = 0; i < n; i++) {
        values[i] *= factors[i];
        total += values[i];
    }
    return total;
}

/* The values of the given rows. */
AMOFA_INLINE void amofa_pick(ptrdiff_t n, const int32_t *restrict rows, const double *restrict values,
                             double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = values[rows[i]];
}

/* Zeros up to the next multiple of 8. */
AMOFA_INLINE void amofa_pad(ptrdiff_t n, double *values)
{
    for (; n % 8; n++) values[n] = 0.0;
}

/* Numbers of the rows with h > least, in order, into rows (n), and the roots of their h into root (n), padded. How many. */
AMOFA_SIMD ptrdiff_t amofa_select(ptrdiff_t n, const double *restrict h, double least, int32_t *restrict rows,
                                  double *restrict root)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        rows[count] = (int32_t) i;
        count += h[i] > least;
    }
    for (ptrdiff_t i = 0; i < count; i++) root[i] = sqrt(h[rows[i]]);
    amofa_pad(count, root);
    return count;
}

/* The roots of all n values, padded. */
AMOFA_SIMD void amofa_roots(ptrdiff_t n, const double *restrict h, double *restrict root)
{
    for (ptrdiff_t i = 0; i < n; i++) root[i] = sqrt(h[i]);
    amofa_pad(n, root);
}

/* scaled (p, n) = v (p, .) times root (n), of the given rows, or of the first n where rows is NULL; padded. */
AMOFA_SIMD void amofa_weigh_columns(ptrdiff_t n, ptrdiff_t p, const int32_t *restrict rows,
                                    const double *restrict root, const double *restrict v, double *restrict scaled,
                                    ptrdiff_t ld)
{
    for (ptrdiff_t q = 0; q < p; q++) {
        const double *restrict from = v + q * ld;
        double *restrict to = scaled + q * ld;
        if (rows) {
            amofa_pick(n, rows, from, to);
            from = to;
        }
        for (ptrdiff_t i = 0; i < n; i++) to[i] = root[i] * from[i];
        amofa_pad(n, scaled + q * ld);
    }
}

/*
 * dev (d, n) = root_i (x_i - mean), of the given rows, or of the first n where rows is NULL; padded.
 * first (d) += sum_i root_i dev_ji.
 */
AMOFA_SIMD void amofa_weigh_deviations(ptrdiff_t n, ptrdiff_t d, const int32_t *restrict rows,
                                       const double *restrict root, const double *restrict x, ptrdiff_t ldx,
                                       const double *restrict mean, double *restrict dev, ptrdiff_t ld,
                                       double *restrict first)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        const double *restrict from = x + j * ldx;
        double *restrict to = dev + j * ld;
        const double m = mean[j];
        double sum = 0.0;
        if (rows) {
            amofa_pick(n, rows, from, to);
            from = to;
        }
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double e = root[i] * (from[i] - m);
            to[i] = e;
            sum += root[i] * e;
        }
        first[j] += sum;
        amofa_pad(n, to);
    }
}

/* second (d) += sums of the squares of b (d, n). Columns up to the next multiple of 8 must be 0. */
AMOFA_SIMD void amofa_squares(ptrdiff_t n, ptrdiff_t d, const double *restrict b, ptrdiff_t ld, double *restrict second)
{
    const ptrdiff_t whole = (n + 7) / 8 * 8;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double *restrict bj = b + j * ld;
        double squares = 0.0;
#pragma omp simd reduction(+ : squares)
        for (ptrdiff_t i = 0; i < whole; i++) squares += bj[i] * bj[i];
        second[j] += squares;
    }
}

/* One feature against those up to it: scatter (d, d), row j, += sum_i h_i e_ji e_li, l <= j. */
AMOFA_INLINE void amofa_scatter_row(ptrdiff_t n, ptrdiff_t d, ptrdiff_t j, const double *restrict h,
                                    const double *restrict x, ptrdiff_t ldx, const double *restrict mean,
                                    double *restrict first, double *restrict scatter)
{
    const double *restrict xj = x + j * ldx;
    /* Features beyond j read feature j; their sums are thrown away. */
    const double *restrict x0 = x, *restrict x1 = j > 1 ? x + ldx : xj, *restrict x2 = j > 2 ? x + 2 * ldx : xj;
    const double m = mean[j], m0 = mean[0], m1 = mean[j > 1 ? 1 : j], m2 = mean[j > 2 ? 2 : j];
    double a = 0.0, b = 0.0, c0 = 0.0, c1 = 0.0, c2 = 0.0;
#pragma omp simd reduction(+ : a, b, c0, c1, c2)
    for (ptrdiff_t i = 0; i < n; i++) {
        const double e = xj[i] - m;
        const double he = h[i] * e;
        a += he;
        b += he * e;
        c0 += he * (x0[i] - m0);
        c1 += he * (x1[i] - m1);
        c2 += he * (x2[i] - m2);
    }
    first[j] += a;
    scatter[j * d + j] += b;
    if (j > 0) scatter[j * d] += c0;
    if (j > 1) scatter[j * d + 1] += c1;
    if (j > 2) scatter[j * d + 2] += c2;
}

/* first (d) += sum_i h_i e_i; scatter (d, d), lower triangle, += sum_i h_i e_i e_i', for d <= AMOFA_SMALL_FEATURES. */
AMOFA_SIMD void amofa_small_scatter(ptrdiff_t n, ptrdiff_t d, const double *restrict h, const double *restrict x,
                                    ptrdiff_t ldx, const double *restrict mean, double *restrict first,
                                    double *restrict scatter)
{
    for (ptrdiff_t j = 0; j < d; j++) amofa_scatter_row(n, d, j, h, x, ldx, mean, first, scatter);
}

/*
 * sum_i h_i (log_density_i - log_joint_i): the entropy, in nats, that one component's assignments contribute. Rows that it
 * cannot reach contribute nothing.
 */
AMOFA_SIMD double amofa_entropy(ptrdiff_t n, const double *restrict h, const double *restrict log_density,
                                const double *restrict log_joint)
{
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (ptrdiff_t i = 0; i < n; i++)
        total += h[i] > 0.0 && log_joint[i] > -INFINITY ? h[i] * (log_density[i] - log_joint[i]) : 0.0;
    return total;
}

/* sum_i h_i m_i^2 with m_i = 2 (constant - log_joint_i), the squared Mahalanobis distance. */
AMOFA_SIMD double amofa_fourth_moment(ptrdiff_t n, const double *restrict h, double constant,
                                      const double *restrict log_joint)
{
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (ptrdiff_t i = 0; i < n; i++) {
        const double m = 2.0 * (constant - log_joint[i]);
        total += h[i] > 0.0 ? h[i] * m * m : 0.0;
    }
    return total;
}

#endif
