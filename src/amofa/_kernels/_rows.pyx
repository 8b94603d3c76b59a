"""Convert rows of a table to the form of the kernels: float64, features first, shifted and scaled."""

cdef extern from "rows.h" nogil:
    void amofa_load_doubles(
        Py_ssize_t n, Py_ssize_t d, const double *table, const double *center, const double *factor, double *out)
    void amofa_load_floats(
        Py_ssize_t n, Py_ssize_t d, const float *table, const double *center, const double *factor, double *out)
    void amofa_load_doubles_by_columns(
        Py_ssize_t n, Py_ssize_t d, Py_ssize_t column_distance, const double *table, const double *center,
        const double *factor, double *out)
    void amofa_load_floats_by_columns(
        Py_ssize_t n, Py_ssize_t d, Py_ssize_t column_distance, const float *table, const double *center,
        const double *factor, double *out)

ctypedef fused real:
    float
    double


def load(
    const real[:, :] table not None,  # IN   (n, d), contiguous rows one after the other, or contiguous columns
    const double[::1] center not None,  # IN   (d)
    const double[::1] factor not None,  # IN   (d)
    double[:, ::1] out not None,  # OUT  (d, n)
):
    """Write (table - center) * factor, transposed, to out.

    Raises ValueError if shapes do not agree, or the table has another layout.
    """
    cdef Py_ssize_t n = table.shape[0], d = table.shape[1], size = sizeof(real)
    cdef Py_ssize_t column_distance = table.strides[1] // size
    if out.shape[0] != d or out.shape[1] != n:
        raise ValueError("out must have the shape of the transposed table")
    if center.shape[0] != d or factor.shape[0] != d:
        raise ValueError("center and factor must have one entry per column")
    if n == 0 or d == 0:
        return
    if (d == 1 or table.strides[1] == size) and (n == 1 or table.strides[0] == d * size):
        with nogil:
            if real is double:
                amofa_load_doubles(n, d, &table[0, 0], &center[0], &factor[0], &out[0, 0])
            else:
                amofa_load_floats(n, d, &table[0, 0], &center[0], &factor[0], &out[0, 0])
    elif table.strides[0] == size and table.strides[1] % size == 0:
        with nogil:
            if real is double:
                amofa_load_doubles_by_columns(
                    n, d, column_distance, &table[0, 0], &center[0], &factor[0], &out[0, 0])
            else:
                amofa_load_floats_by_columns(
                    n, d, column_distance, &table[0, 0], &center[0], &factor[0], &out[0, 0])
    else:
        raise ValueError("table must have contiguous rows one after the other, or contiguous columns")
