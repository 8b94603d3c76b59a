# Row-major wrappers of the BLAS and LAPACK routines that the kernels use, the only place where Fortran arguments are
# spelled. A row-major (m, n) array is a column-major (n, m) one: every wrapper states what it does in row-major terms.

include "_blas_int.pxi"

from scipy.linalg.cython_blas cimport dgemm, dsyrk, dtrsm
from scipy.linalg.cython_lapack cimport dpotrf


cdef inline void gemm(
    char transa, char transb, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, double alpha,
    const double *a, Py_ssize_t lda, const double *b, Py_ssize_t ldb, double beta, double *c, Py_ssize_t ldc,
) noexcept nogil:
    """C (m, n) = alpha op(A) op(B) + beta C, with op(A) (m, k) and op(B) (k, n)."""
    cdef blas_int im = <blas_int> m, in_ = <blas_int> n, ik = <blas_int> k
    cdef blas_int ia = <blas_int> lda, ib = <blas_int> ldb, ic = <blas_int> ldc
    if m and n:
        dgemm(&transb, &transa, &in_, &im, &ik, &alpha, <double *> b, &ib, <double *> a, &ia, &beta, c, &ic)


cdef inline void syrk_lower(
    Py_ssize_t n, Py_ssize_t k, double alpha, const double *a, Py_ssize_t lda, double beta, double *c, Py_ssize_t ldc,
) noexcept nogil:
    """Lower triangle of C (n, n) = alpha A A' + beta C, with A (n, k)."""
    cdef char uplo = b"U", trans = b"T"
    cdef blas_int in_ = <blas_int> n, ik = <blas_int> k, ia = <blas_int> lda, ic = <blas_int> ldc
    if n:
        dsyrk(&uplo, &trans, &in_, &ik, &alpha, <double *> a, &ia, &beta, c, &ic)


cdef inline int cholesky_lower(Py_ssize_t n, double *a, Py_ssize_t lda) noexcept nogil:
    """A (n, n), lower triangle, becomes L with A = L L'. Returns 0, or the order of the minor that is not positive."""
    cdef char uplo = b"U"
    cdef blas_int in_ = <blas_int> n, ia = <blas_int> lda, info = 0
    if n:
        dpotrf(&uplo, &in_, a, &ia, &info)
    return <int> info


cdef inline void solve_lower(
    char trans, Py_ssize_t n, Py_ssize_t m, const double *l, Py_ssize_t ldl, double *b, Py_ssize_t ldb,
) noexcept nogil:
    """B (n, m) becomes the solution of L B' = B (trans "N") or L' B' = B (trans "T"), L (n, n) lower triangular."""
    cdef char side = b"R", uplo = b"U", diag = b"N"
    cdef blas_int in_ = <blas_int> n, im = <blas_int> m, il = <blas_int> ldl, ib = <blas_int> ldb
    cdef double one = 1.0
    if n and m:
        dtrsm(&side, &uplo, &trans, &diag, &im, &in_, &one, <double *> l, &il, b, &ib)
