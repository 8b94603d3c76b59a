/*
 * A table (n, d) turned into features first (d, n), shifted and scaled on the way; and the cells of any table copied as
 * they are.
 *
 * Of a row-major table eight rows at a time, so that every cache line of the result is written whole.
 */
#ifndef AMOFA_ROWS_H
#define AMOFA_ROWS_H

#include <string.h>

#include "fault.h"
#include "simd.h"

enum { AMOFA_STRIP = 8 };

#if defined(__GNUC__) || defined(__clang__)
#define AMOFA_PREFETCH(p) __builtin_prefetch(p)
#else
#define AMOFA_PREFETCH(p) ((void) (p))
#endif

typedef struct {
    ptrdiff_t n, d;
    const void *table; /* (n, d) double or float, row by row or column by column */
    ptrdiff_t column_distance; /* cells from column to column of a table that lies so */
    const double *center, *factor; /* (d) */
    double *out; /* (d, n) */
} amofa_load;

/* out (d, n) = (table - center) * factor. The rows of the next strip are asked for while those of this one are written. */
#define AMOFA_LOAD(NAME, REAL) \
    AMOFA_SIMD void NAME##_all(ptrdiff_t n, ptrdiff_t d, const REAL *restrict table, \
                               const double *restrict center, const double *restrict factor, \
                               double *restrict out) \
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
    static void NAME(const void *arguments) \
    { \
        const amofa_load *load = (const amofa_load *) arguments; \
        NAME##_all(load->n, load->d, (const REAL *) load->table, load->center, load->factor, load->out); \
    } \
    AMOFA_SIMD void NAME##_column(ptrdiff_t n, const REAL *restrict column, double c, double s, double *restrict out) \
    { \
        for (ptrdiff_t i = 0; i < n; i++) out[i] = ((double) column[i] - c) * s; \
    } \
    static void NAME##_by_columns(const void *arguments) \
    { \
        const amofa_load *load = (const amofa_load *) arguments; \
        for (ptrdiff_t j = 0; j < load->d; j++) \
            NAME##_column(load->n, (const REAL *) load->table + j * load->column_distance, load->center[j], \
                          load->factor[j], load->out + j * load->n); \
    }

AMOFA_LOAD(amofa_load_doubles, double)
AMOFA_LOAD(amofa_load_floats, float)

typedef struct {
    ptrdiff_t n, d;
    size_t size; /* bytes of a cell */
    const char *table;
    ptrdiff_t row_stride, column_stride; /* bytes */
    const ptrdiff_t *rows, *columns; /* (n), (d), or NULL for the first ones */
    char *out; /* (n, d) cells */
} amofa_copy;

enum { AMOFA_COPY_ROWS = 64 };

/* Cells of a table, which may lie in any way, row by row. */
static void amofa_copy_cells(const void *arguments)
{
    const amofa_copy c = *(const amofa_copy *) arguments;
    const int whole_rows = c.columns == NULL && c.column_stride == (ptrdiff_t) c.size;
    const size_t row_size = c.size * (size_t) c.d;
    if (whole_rows && c.rows == NULL && c.row_stride == (ptrdiff_t) row_size) {
        memcpy(c.out, c.table, row_size * (size_t) c.n);
        return;
    }
    /* Some rows at a time, since cells of a column may lie side by side. */
    for (ptrdiff_t start = 0; start < c.n; start += AMOFA_COPY_ROWS) {
        const ptrdiff_t stop = start + AMOFA_COPY_ROWS < c.n ? start + AMOFA_COPY_ROWS : c.n;
        for (ptrdiff_t j = 0; j < (whole_rows ? 1 : c.d); j++) {
            const char *column = c.table + c.column_stride * (c.columns == NULL ? j : c.columns[j]);
            char *to = c.out + start * (ptrdiff_t) row_size + j * (ptrdiff_t) c.size;
            for (ptrdiff_t i = start; i < stop; i++, to += row_size) {
                const char *from = column + c.row_stride * (c.rows == NULL ? i : c.rows[i]);
                /* Lengths that are known are moves of registers. */
                if (whole_rows) memcpy(to, from, row_size);
                else if (c.size == 8) memcpy(to, from, 8);
                else if (c.size == 4) memcpy(to, from, 4);
                else if (c.size == 2) memcpy(to, from, 2);
                else memcpy(to, from, c.size);
            }
        }
    }
}

#endif
