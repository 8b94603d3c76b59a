/*
 * Products of blocks of rows that are too small or too fused for BLAS, with vectors as wide as the processor's.
 *
 * Layout as in simd.h. Compilers keep sums over features in registers only when told how many: lanes.h spells them out in
 * vectors of GCC and Clang, for each width, and the width is chosen by what the processor has. Other compilers work row by row.
 */
#ifndef AMOFA_PRODUCTS_H
#define AMOFA_PRODUCTS_H

#include "simd.h"

/* Factors that are projected onto, and rows of a product that are summed, together. */
enum { AMOFA_LANE_FACTORS = 4 };

#if defined(__GNUC__) || defined(__clang__)
#define AMOFA_VECTOR(BYTES) __attribute__((vector_size(BYTES), aligned(8), may_alias))
#define AMOFA_AT(VEC, p) (*(VEC *) (p))
#else
#define AMOFA_AT(VEC, p) (*(p))
#endif

#define AMOFA_VEC double
#define AMOFA_VECTORS 1
#define AMOFA_NAME(f) amofa_one_##f
#define AMOFA_FOR
#include "lanes.h"

#ifdef AMOFA_VECTOR
typedef double amofa_vec16 AMOFA_VECTOR(16);
#define AMOFA_VEC amofa_vec16
#define AMOFA_VECTORS 2
#define AMOFA_NAME(f) amofa_16_##f
#define AMOFA_FOR
#include "lanes.h"
#endif

#ifdef AMOFA_TARGET_CLONES
typedef double amofa_vec32 AMOFA_VECTOR(32);
#define AMOFA_VEC amofa_vec32
#define AMOFA_VECTORS 2
#define AMOFA_NAME(f) amofa_32_##f
#define AMOFA_FOR __attribute__((target("arch=x86-64-v3")))
#include "lanes.h"

typedef double amofa_vec64 AMOFA_VECTOR(64);
#define AMOFA_VEC amofa_vec64
#define AMOFA_VECTORS 4
#define AMOFA_NAME(f) amofa_64_##f
#define AMOFA_FOR __attribute__((target("arch=x86-64-v4")))
#include "lanes.h"

#define AMOFA_DISPATCH(f, ...) \
    do { \
        if (AMOFA_AVX512 && __builtin_cpu_supports("x86-64-v4")) amofa_64_##f(__VA_ARGS__); \
        else if (__builtin_cpu_supports("x86-64-v3")) amofa_32_##f(__VA_ARGS__); \
        else amofa_16_##f(__VA_ARGS__); \
    } while (0)
#elif defined(AMOFA_VECTOR)
#define AMOFA_DISPATCH(f, ...) amofa_16_##f(__VA_ARGS__)
#else
#define AMOFA_DISPATCH(f, ...) amofa_one_##f(__VA_ARGS__)
#endif

/* For one component, with e = x - mean: projected (p, n) = w e, and distance (n) = sum_j scale_j e_j^2 - |w e|^2. */
AMOFA_INLINE void amofa_distances(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *x, ptrdiff_t ldx,
                                  const double *mean, const double *scale, const double *w, double *projected,
                                  ptrdiff_t ld, double *distance)
{
    AMOFA_DISPATCH(distances, n, d, p, x, ldx, mean, scale, w, projected, ld, distance);
}

/* c (p, d) += a (p, n) b (d, n)'. Columns up to the next multiple of 8 are read, and must be 0. */
AMOFA_INLINE void amofa_products(ptrdiff_t n, ptrdiff_t p, ptrdiff_t d, const double *a, const double *b, ptrdiff_t ld,
                                 double *c, ptrdiff_t ldc)
{
    AMOFA_DISPATCH(products, n, p, d, a, b, ld, c, ldc);
}

/*
 * first (d) += sum_i h_i e_i, second (d) += sum_i h_i e_i^2 and cross (p, d) += sum_i h_i v_i e_i' with e = x - mean.
 */
AMOFA_INLINE void amofa_weighted_products(ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *h, const double *x,
                                          ptrdiff_t ldx, const double *mean, const double *v, ptrdiff_t ld,
                                          double *first, double *second, double *cross)
{
    AMOFA_DISPATCH(weighted, n, d, p, h, x, ldx, mean, v, ld, first, second, cross);
}

/* c (d, d), the lower triangle, += a (d, n) a'; some of what lies above it changes, too. Columns as above. */
AMOFA_INLINE void amofa_self_products(ptrdiff_t n, ptrdiff_t d, const double *a, ptrdiff_t ld, double *c, ptrdiff_t ldc)
{
    for (ptrdiff_t q = 0; q < d; q += AMOFA_LANE_FACTORS) {
        const ptrdiff_t stop = d - q < AMOFA_LANE_FACTORS ? d : q + AMOFA_LANE_FACTORS;
        amofa_products(n, stop - q, stop, a + q * ld, a, ld, c + q * ldc, ldc);
    }
}

#endif
