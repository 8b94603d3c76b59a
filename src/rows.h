/*
 * A row-major table (n, d) turned into features first (d, n), shifted and scaled on the way.
 *
 * Eight rows at a time, so that every cache line of the result is written whole.
 */
#ifndef AMOFA_ROWS_H
#define AMOFA_ROWS_H

#include "simd.h"

enum { AMOFA_STRIP = 8 };

#define AMOFA_LOAD(NAME, REAL) \
    AMOFA_SIMD void NAME(ptrdiff_t n, ptrdiff_t d, const REAL *restrict table, const double *restrict center, \
                         const double *restrict scale, double *restrict out) \
    { \
        ptrdiff_t start = 0; \
        for (; start + AMOFA_STRIP <= n; start += AMOFA_STRIP) { \
            const REAL *restrict rows = table + start * d; \
            for (ptrdiff_t j = 0; j < d; j++) { \
                const double c = center ? center[j] : 0.0, s = scale ? scale[j] : 1.0; \
                double *restrict to = out + j * n + start; \
                for (ptrdiff_t i = 0; i < AMOFA_STRIP; i++) to[i] = ((double) rows[i * d + j] - c) / s; \
            } \
        } \
        for (; start < n; start++) \
            for (ptrdiff_t j = 0; j < d; j++) \
                out[j * n + start] = ((double) table[start * d + j] - (center ? center[j] : 0.0)) / \
                                     (scale ? scale[j] : 1.0); \
    }

AMOFA_LOAD(amofa_load_doubles, double)
AMOFA_LOAD(amofa_load_floats, float)

#endif
