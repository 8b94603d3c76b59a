# The M-step of one component and of a whole mixture, shared by the kernels, not installed.

from amofa._kernels._mixture cimport Parameters, Prepared
from amofa._kernels._statistics cimport Sums


cdef int maximize_component(
    Py_ssize_t k, const Prepared *mixture, const double *cholesky, const Sums *sums, const double *floor,
    double *mean, double *loadings, double *uniquenesses, double *work
) noexcept nogil
cdef Py_ssize_t maximize_mixture(
    const Prepared *mixture, const Sums *sums, const double *floor, Parameters *parameters, double *work
) noexcept nogil
cdef Py_ssize_t maximize_length(Py_ssize_t d, Py_ssize_t p) noexcept nogil
