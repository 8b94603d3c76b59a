# What EM iterations have in common, shared by the kernels, not installed.

from amofa._kernels._mixture cimport Parameters, Prepared, Scratch
from amofa._kernels._statistics cimport Sums


cdef class Iteration:
    cdef const Py_ssize_t[::1] offsets
    cdef const double[::1] floor
    cdef double[::1] parameters, prepared, own_sums, scratch
    cdef readonly object sums, soft_counts
    cdef bint full
    cdef readonly bint with_entropy
    cdef Prepared mixture
    cdef Parameters values
    cdef Scratch block
    cdef Sums totals

    cdef Sums view(self, double *buffer) noexcept
    # For the subclass to call with what it is made from.
    cdef int bind(
        self, double[::1] parameters, const Py_ssize_t[::1] offsets, const double[::1] floor, bint full,
        bint with_entropy) except -1
    cdef int check_sums(self, const double[::1] sums) except -1
    # The M-step, for the subclass to define: new values of the parameters.
    cdef int set_maximizer(self) except -1
