"""Rows of a table in the form that the kernels want: float64, features first, shifted and scaled."""

from cpython.buffer cimport PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "fault.h" nogil:
    ctypedef void (*amofa_reader)(const void *arguments) noexcept
    bint amofa_guarded(amofa_reader read, const void *arguments)
    void amofa_forget_guards()

cdef extern from "rows.h" nogil:
    ctypedef struct amofa_load:
        Py_ssize_t n, d
        const void *table
        Py_ssize_t column_distance
        const double *center
        const double *factor
        double *out

    ctypedef struct amofa_copy:
        Py_ssize_t n, d
        size_t size
        const char *table
        Py_ssize_t row_stride, column_stride
        const Py_ssize_t *rows
        const Py_ssize_t *columns
        char *out

    void amofa_load_doubles(const void *arguments) noexcept
    void amofa_load_floats(const void *arguments) noexcept
    void amofa_load_doubles_by_columns(const void *arguments) noexcept
    void amofa_load_floats_by_columns(const void *arguments) noexcept
    void amofa_copy_cells(const void *arguments) noexcept

ctypedef fused real:
    float
    double


def load(
    const real[:, :] table not None,  # IN   (n, d), contiguous rows one after the other, or contiguous columns
    const double[::1] center not None,  # IN   (d)
    const double[::1] factor not None,  # IN   (d)
    double[:, ::1] out not None,  # OUT  (d, n)
    bint guarded=False,
):
    """Write (table - center) * factor, transposed, to out.

    Parameters
    ----------
    guarded : bool
        Whether the table may lie in a file whose end may be gone.

    Returns
    -------
    bool
        Whether all of the table could be read; True where not guarded.

    Raises
    ------
    ValueError
        If shapes do not agree, or the table lies otherwise.
    """
    cdef Py_ssize_t n = table.shape[0], d = table.shape[1], size = sizeof(real)
    if out.shape[0] != d or out.shape[1] != n:
        raise ValueError("out must have the shape of the transposed table")
    if center.shape[0] != d or factor.shape[0] != d:
        raise ValueError("center and factor must have one entry per column")
    if n == 0 or d == 0:
        return True
    cdef amofa_reader read
    cdef bint is_read = True
    if (d == 1 or table.strides[1] == size) and (n == 1 or table.strides[0] == d * size):
        read = amofa_load_doubles if real is double else amofa_load_floats
    elif table.strides[0] == size and table.strides[1] % size == 0:
        read = amofa_load_doubles_by_columns if real is double else amofa_load_floats_by_columns
    else:
        raise ValueError("table must have contiguous rows one after the other, or contiguous columns")
    cdef amofa_load rows = amofa_load(
        n, d, &table[0, 0], table.strides[1] // size, &center[0], &factor[0], &out[0, 0])
    with nogil:
        if guarded:
            is_read = amofa_guarded(read, &rows)
        else:
            read(&rows)
    return is_read


def copy(
    object table not None,  # IN   (n, d) array of any layout
    const Py_ssize_t[::1] rows,  # IN   (m), or None for all
    const Py_ssize_t[::1] columns,  # IN   (c), or None for all
    char[:, ::1] out not None,  # OUT  (m, c * size) bytes
):
    """Copy cells of a table that may lie in a file whose end may be gone, as they are.

    Parameters
    ----------
    table : (n, d) array
        Of numbers of `size` bytes.
    rows, columns : (m,) and (c,) intp, or None
        Which of them, by numbers from 0.

    Returns
    -------
    bool
        Whether all of them could be read.

    Raises
    ------
    ValueError
        If shapes do not agree.
    IndexError
        If there is no such row or column.
    """
    cdef Py_buffer view
    cdef amofa_copy cells
    cdef bint is_read
    PyObject_GetBuffer(table, &view, PyBUF_STRIDED_RO)
    try:
        if view.ndim != 2:
            raise ValueError("table must have two dimensions")
        _check_numbers(rows, view.shape[0])
        _check_numbers(columns, view.shape[1])
        cells.n = view.shape[0] if rows is None else rows.shape[0]
        cells.d = view.shape[1] if columns is None else columns.shape[0]
        cells.size = view.itemsize
        if out.shape[0] != cells.n or out.shape[1] != cells.d * view.itemsize:
            raise ValueError("out must have a row of bytes for each row")
        if cells.n == 0 or cells.d == 0:
            return True
        cells.table = <const char *> view.buf
        cells.row_stride, cells.column_stride = view.strides[0], view.strides[1]
        cells.rows = NULL if rows is None else &rows[0]
        cells.columns = NULL if columns is None else &columns[0]
        cells.out = &out[0, 0]
        with nogil:
            is_read = amofa_guarded(amofa_copy_cells, &cells)
        return is_read
    finally:
        PyBuffer_Release(&view)


cdef int _check_numbers(const Py_ssize_t[::1] numbers, Py_ssize_t n) except -1:
    cdef Py_ssize_t i
    if numbers is not None:
        for i in range(numbers.shape[0]):
            if numbers[i] < 0 or numbers[i] >= n:
                raise IndexError(f"there is no row or column {numbers[i]} of {n}")
    return 0


def forget_guards():
    """To be called in a process after it has been forked: it has none of the threads that were reading."""
    amofa_forget_guards()
