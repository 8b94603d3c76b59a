# The E-step of one block of rows: shared by the kernels, not installed.

from amofa._kernels._mixture cimport Prepared, Scratch


cdef double posterior_block(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const Prepared *mixture, Scratch *scratch) noexcept nogil
cdef void component_log_joint(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, Py_ssize_t k, const Prepared *mixture,
    Scratch *scratch) noexcept nogil
cdef void posterior_rows(
    Py_ssize_t n, const double *x, Py_ssize_t ldx, const Prepared *mixture, Scratch *scratch, Py_ssize_t ld,
    double *log_density, double *log_joint, double *responsibilities, double *scores) noexcept nogil
cdef void block_scores(Py_ssize_t n, const Prepared *mixture, Scratch *scratch) noexcept nogil
cdef void undo_tails(Py_ssize_t n, Py_ssize_t k, const Prepared *mixture, double *log_joint) noexcept nogil
cdef void weigh_tails(
    Py_ssize_t n, Py_ssize_t k, const Prepared *mixture, const double *log_joint, double *h) noexcept nogil
cdef bint is_small(Py_ssize_t k, const Prepared *mixture) noexcept nogil
