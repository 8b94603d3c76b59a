"""Cuts of a line: rows in the order of their coordinates, divided into parts that vary little within themselves."""

from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy


def best_cut(
    const double[::1] z not None,  # IN   (n), rising
    const double[::1] counts not None,  # IN   (n + 1), of the rows before each place
    const double[::1] moments not None,  # IN   (n + 1)
    Py_ssize_t start,
    Py_ssize_t stop,
    double least_part,
):
    """Return by how much the best cut of the rows from start to stop reduces their sum of squares, and its place.

    Parts weigh more than `least_part`. If no cut is possible, the reduction is 0 and the place `stop`.
    """
    cdef Py_ssize_t i, place = stop
    cdef double first, rest, moment, between, best = 0.0
    check_line(z, counts, moments)
    if not 0 <= start <= stop <= z.shape[0]:
        raise ValueError("no such rows")
    cdef double count = counts[stop] - counts[start], whole = moments[stop] - moments[start]
    with nogil:
        for i in range(start + 1, stop):
            first, moment = counts[i] - counts[start], moments[i] - moments[start]
            rest = count - first
            if not (first > least_part and rest > least_part and z[i] > z[i - 1]):
                continue
            between = moment**2 / first + (whole - moment)**2 / rest - whole**2 / count
            if between > best or place == stop:
                best, place = between, i
    return best, place


def moved_cuts(
    const double[::1] z not None,  # IN   (n), rising
    const double[::1] counts not None,  # IN   (n + 1), of the rows before each place
    const double[::1] moments not None,  # IN   (n + 1)
    Py_ssize_t[::1] bounds not None,  # INOUT (m + 1), rising, from 0 to n
    double least_part,
    Py_ssize_t most_moves,
):
    """Move cuts to the middle between the means of the parts beside them, until they stay there (k-means).

    They stay as they are where a part would weigh no more than `least_part`.
    """
    cdef Py_ssize_t m = bounds.shape[0] - 1, n = z.shape[0], k
    cdef size_t size = (m + 1) * sizeof(Py_ssize_t)
    check_line(z, counts, moments)
    if m < 1 or bounds[0] != 0 or bounds[m] != n:
        raise ValueError("bounds must be from 0 to the number of rows")
    for k in range(m):
        if bounds[k] >= bounds[k + 1]:
            raise ValueError("bounds must rise")
    cdef Py_ssize_t *moved = <Py_ssize_t *> malloc(size)
    if moved == NULL:
        raise MemoryError
    moved[0], moved[m] = 0, n
    with nogil:
        for _ in range(most_moves):
            for k in range(1, m):
                moved[k] = first_not_below(
                    z, (mean_of(counts, moments, &bounds[k - 1]) + mean_of(counts, moments, &bounds[k])) / 2)
            if memcmp(moved, &bounds[0], size) == 0 or not has_rows(counts, m, moved, least_part):
                break
            memcpy(&bounds[0], moved, size)
    free(moved)


cdef int check_line(const double[::1] z, const double[::1] counts, const double[::1] moments) except -1:
    if counts.shape[0] != z.shape[0] + 1 or moments.shape[0] != z.shape[0] + 1:
        raise ValueError("counts and moments must have one more value than z")
    return 0


cdef double mean_of(const double[::1] counts, const double[::1] moments, const Py_ssize_t *ends) noexcept nogil:
    """Return the mean of a part."""
    return (moments[ends[1]] - moments[ends[0]]) / (counts[ends[1]] - counts[ends[0]])


cdef Py_ssize_t first_not_below(const double[::1] z, double value) noexcept nogil:
    """Return the place of the first coordinate that is not below a value."""
    cdef Py_ssize_t low = 0, high = z.shape[0], middle
    while low < high:
        middle = (low + high) // 2
        if z[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint has_rows(const double[::1] counts, Py_ssize_t m, const Py_ssize_t *bounds, double least) noexcept nogil:
    """Return whether each part weighs more than `least`."""
    cdef Py_ssize_t k
    for k in range(m):
        if not counts[bounds[k + 1]] - counts[bounds[k]] > least:
            return False
    return True
