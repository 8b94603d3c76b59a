/*
 * Rows of other compiled code: brought to features first, looked through, and given back.
 */
#ifndef AMOFA_CELLS_H
#define AMOFA_CELLS_H

#include "simd.h"

/* Rows that are turned at a time: one cache line of each feature. */
enum { AMOFA_CELLS_STRIP = 8 };

/* out (d, n) = rows of any strides. */
#define AMOFA_TURN(NAME, REAL) \
    static void NAME(ptrdiff_t n, ptrdiff_t d, const REAL *x, ptrdiff_t row_stride, ptrdiff_t feature_stride, \
                     double *restrict out, ptrdiff_t ld) \
    { \
        for (ptrdiff_t start = 0; start < n; start += AMOFA_CELLS_STRIP) { \
            const ptrdiff_t length = n - start < AMOFA_CELLS_STRIP ? n - start : AMOFA_CELLS_STRIP; \
            const REAL *strip = x + start * row_stride; \
            for (ptrdiff_t j = 0; j < d; j++) \
                for (ptrdiff_t i = 0; i < length; i++) \
                    out[j * ld + start + i] = strip[i * row_stride + j * feature_stride]; \
        } \
    }

AMOFA_TURN(amofa_turn_doubles, double)
AMOFA_TURN(amofa_turn_floats, float)

/*
 * Whether all n values are from 0 to `most`, which NaN is not: compared as integers, whose differences have a sign bit to
 * be collected. (-0 does not count as 0.)
 */
AMOFA_SIMD int amofa_all_within(ptrdiff_t n, const double *restrict values, double most)
{
    const uint64_t bound = amofa_bits(most);
    uint64_t signs = 0;
#pragma omp simd reduction(| : signs)
    for (ptrdiff_t i = 0; i < n; i++) signs |= amofa_bits(values[i]) | (bound - amofa_bits(values[i]));
    return signs >> 63 == 0;
}

/* out [i * row_stride + k * stride] = values (m, n), ld. */
static void amofa_give_out(ptrdiff_t n, ptrdiff_t m, const double *restrict values, ptrdiff_t ld, double *restrict out,
                           ptrdiff_t row_stride, ptrdiff_t stride)
{
    if (row_stride == 1)
        for (ptrdiff_t k = 0; k < m; k++) memcpy(out + k * stride, values + k * ld, n * sizeof(double));
    else
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t k = 0; k < m; k++) out[i * row_stride + k * stride] = values[k * ld + i];
}

#endif
