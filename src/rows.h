/*
 * A table (n, d) turned into features first (d, n), shifted and scaled on the way.
 *
 * Of a row-major table eight rows at a time, so that every cache line of the result is written whole.
 */
#ifndef AMOFA_ROWS_H
#define AMOFA_ROWS_H

#include "simd.h"

enum { AMOFA_STRIP = 8 };

#if defined(__GNUC__) || defined(__clang__)
#define AMOFA_PREFETCH(p) __builtin_prefetch(p)
#else
#define AMOFA_PREFETCH(p) ((void) (p))
#endif

/* out (d, n) = (table - center) * factor, of a table row by row, or column by column with so many cells from one column to
 * the next. The rows of the next strip are asked for while those of this one are written. */
#define AMOFA_LOAD(NAME, REAL) \
    AMOFA_SIMD void NAME(ptrdiff_t n, ptrdiff_t d, const REAL *restrict table, \
                         const double *restrict center, const double *restrict factor, double *restrict out) \
    { \
        ptrdiff_t start = 0; \
        for (; start + 2 * AMOFA_STRIP <= n; start += AMOFA_STRIP) { \
            const REAL *restrict rows = table + start * d; \
            for (ptrdiff_t j = 0; j < d; j++) { \
                const double c = center[j], s = factor[j]; \
                double *restrict to = out + j * n + start; \
                AMOFA_PREFETCH(rows + AMOFA_STRIP * (d + j)); \
                for (ptrdiff_t i = 0; i < AMOFA_STRIP; i++) to[i] = ((double) rows[i * d + j] - c) * s; \
            } \
        } \
        for (; start < n; start++) \
            for (ptrdiff_t j = 0; j < d; j++) \
                out[j * n + start] = ((double) table[start * d + j] - center[j]) * factor[j]; \
    } \
    AMOFA_SIMD void NAME##_column(ptrdiff_t n, const REAL *restrict column, double c, double s, double *restrict out) \
    { \
        for (ptrdiff_t i = 0; i < n; i++) out[i] = ((double) column[i] - c) * s; \
    } \
    static void NAME##_by_columns(ptrdiff_t n, ptrdiff_t d, ptrdiff_t column_distance, const REAL *table, \
                                  const double *center, const double *factor, double *out) \
    { \
        for (ptrdiff_t j = 0; j < d; j++) \
            NAME##_column(n, table + j * column_distance, center[j], factor[j], out + j * n); \
    }

AMOFA_LOAD(amofa_load_doubles, double)
AMOFA_LOAD(amofa_load_floats, float)

#endif
