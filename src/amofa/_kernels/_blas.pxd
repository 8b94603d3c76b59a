# Row-major wrappers of the BLAS and LAPACK routines that the kernels use, the only place where Fortran arguments are
# spelled. A row-major (m, n) array is a column-major (n, m) one: every wrapper states what it does in row-major terms.

include "_blas_int.pxi"

from libc.math cimport sqrt
from scipy.linalg.cython_blas cimport dgemm, dsyrk, dtrsm
from scipy.linalg.cython_lapack cimport dgeqrf, dorgqr, dpotrf, dsyevd, dsyevr

# Components with one factor are common and their products tiny: below this many multiplications a plain loop is done
# before BLAS has looked at its arguments.
cdef enum:
    TINY_PRODUCT = 8


cdef inline void gemm(
    char transa, char transb, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, double alpha,
    const double *a, Py_ssize_t lda, const double *b, Py_ssize_t ldb, double beta, double *c, Py_ssize_t ldc,
) noexcept nogil:
    """C (m, n) = alpha op(A) op(B) + beta C, with op(A) (m, k) and op(B) (k, n)."""
    cdef blas_int im = <blas_int> m, in_ = <blas_int> n, ik = <blas_int> k
    cdef blas_int ia = <blas_int> lda, ib = <blas_int> ldb, ic = <blas_int> ldc
    if m * n * k <= TINY_PRODUCT:
        tiny_gemm(transa == b"T", transb == b"T", m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    else:
        dgemm(&transb, &transa, &in_, &im, &ik, &alpha, <double *> b, &ib, <double *> a, &ia, &beta, c, &ic)


cdef inline void tiny_gemm(
    bint transa, bint transb, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, double alpha,
    const double *a, Py_ssize_t lda, const double *b, Py_ssize_t ldb, double beta, double *c, Py_ssize_t ldc,
) noexcept nogil:
    cdef Py_ssize_t i, j, r
    cdef double total
    for i in range(m):
        for j in range(n):
            total = 0.0
            for r in range(k):
                total += a[r * lda + i if transa else i * lda + r] * b[j * ldb + r if transb else r * ldb + j]
            c[i * ldc + j] = alpha * total + (beta * c[i * ldc + j] if beta != 0.0 else 0.0)


cdef inline void syrk_lower(
    Py_ssize_t n, Py_ssize_t k, double alpha, const double *a, Py_ssize_t lda, double beta, double *c, Py_ssize_t ldc,
) noexcept nogil:
    """Lower triangle of C (n, n) = alpha A A' + beta C, with A (n, k); the upper one is undefined afterwards."""
    cdef char uplo = b"U", trans = b"T"
    cdef blas_int in_ = <blas_int> n, ik = <blas_int> k, ia = <blas_int> lda, ic = <blas_int> ldc
    if n * n * k <= TINY_PRODUCT:
        tiny_gemm(False, True, n, n, k, alpha, a, lda, a, lda, beta, c, ldc)
    else:
        dsyrk(&uplo, &trans, &in_, &ik, &alpha, <double *> a, &ia, &beta, c, &ic)


cdef inline int cholesky_lower(Py_ssize_t n, double *a, Py_ssize_t lda) noexcept nogil:
    """A (n, n), lower triangle, becomes L with A = L L'. Returns 0, or the order of the minor that is not positive."""
    cdef char uplo = b"U"
    cdef blas_int in_ = <blas_int> n, ia = <blas_int> lda, info = 0
    if n == 1:
        if not a[0] > 0.0:
            return 1
        a[0] = sqrt(a[0])
    elif n:
        dpotrf(&uplo, &in_, a, &ia, &info)
    return <int> info


cdef inline void solve_lower(
    char trans, Py_ssize_t n, Py_ssize_t m, const double *l, Py_ssize_t ldl, double *b, Py_ssize_t ldb,
) noexcept nogil:
    """B (n, m) becomes the solution of L B' = B (trans "N") or L' B' = B (trans "T"), L (n, n) lower triangular."""
    cdef char side = b"R", uplo = b"U", diag = b"N"
    cdef blas_int in_ = <blas_int> n, im = <blas_int> m, il = <blas_int> ldl, ib = <blas_int> ldb
    cdef double one = 1.0
    cdef Py_ssize_t j
    if n == 1:
        for j in range(m):
            b[j] /= l[0]
    elif n and m:
        dtrsm(&side, &uplo, &trans, &diag, &im, &in_, &one, <double *> l, &il, b, &ib)


cdef inline int lower_orthogonal(
    Py_ssize_t n, Py_ssize_t m, double *a, Py_ssize_t lda, double *l, Py_ssize_t ldl, double *work,
) noexcept nogil:
    """A (n, m) = L Q, n <= m: its rows become the orthonormal ones of Q, the lower triangle of L (n, n) is set.

    The diagonal of L is not negative. `work` has room for 2 n values. Returns 0 where arguments make sense.
    """
    cdef blas_int in_ = <blas_int> n, im = <blas_int> m, ia = <blas_int> lda, info = 0
    cdef Py_ssize_t q, r, j
    if n == 0:
        return 0
    dgeqrf(&im, &in_, a, &ia, work, work + n, &in_, &info)
    if info == 0:
        for q in range(n):
            for r in range(q + 1):
                l[q * ldl + r] = a[q * lda + r]
        dorgqr(&im, &in_, &in_, a, &ia, work, work + n, &in_, &info)
    if info == 0:
        for r in range(n):
            if l[r * ldl + r] < 0.0:
                for q in range(r, n):
                    l[q * ldl + r] = -l[q * ldl + r]
                for j in range(m):
                    a[r * lda + j] = -a[r * lda + j]
    return <int> info


cdef inline Py_ssize_t eigen_work(Py_ssize_t n) noexcept nogil:
    """Length of the work array of `eigen`, in doubles."""
    return 2 * n * n + 6 * n + 1 + 5 * n + 3


cdef inline int eigen(Py_ssize_t n, double *a, Py_ssize_t lda, double *values, double *work) noexcept nogil:
    """Eigenvalues of the symmetric A (n, n), rising; its rows become the eigenvectors. Returns 0 where it converged."""
    cdef char job = b"V", uplo = b"L"
    cdef blas_int in_ = <blas_int> n, ia = <blas_int> lda, info = 0
    cdef blas_int length = <blas_int> (2 * n * n + 6 * n + 1), integers = <blas_int> (5 * n + 3)
    if n == 1:
        values[0] = a[0]
        a[0] = 1.0
    elif n:
        dsyevd(&job, &uplo, &in_, a, &ia, values, work, &length, <blas_int *> (work + length), &integers, &info)
    return <int> info


cdef inline int eigenvalues(Py_ssize_t n, double *a, Py_ssize_t lda, double *values, double *work) noexcept nogil:
    """The eigenvalues alone, at half the cost; A is lost. The same work array."""
    cdef char job = b"N", uplo = b"L"
    cdef blas_int in_ = <blas_int> n, ia = <blas_int> lda, info = 0
    cdef blas_int length = <blas_int> (2 * n + 1), integers = 1
    if n == 1:
        values[0] = a[0]
    elif n:
        dsyevd(&job, &uplo, &in_, a, &ia, values, work, &length, <blas_int *> (work + length), &integers, &info)
    return <int> info


# From so few columns on it pays to compute leading eigenvectors alone, of so many of them at most one.
cdef enum:
    LEADING_FROM = 16
    LEADING_SHARE = 8


cdef inline int leading_eigen(
    Py_ssize_t n, Py_ssize_t m, double *a, Py_ssize_t lda, double *values, double *vectors, double *work,
) noexcept nogil:
    """The m largest eigenvalues, rising, and their vectors, the rows of (m, n), for n >= 16; A is lost.

    The work array is that of `eigen`, and room for n values in `values`.
    """
    cdef char job = b"V", some = b"I", uplo = b"L"
    cdef blas_int in_ = <blas_int> n, ia = <blas_int> lda, first = <blas_int> (n - m + 1), found = 0, info = 0
    cdef blas_int length = <blas_int> (2 * n * n - 2 * n), integers = <blas_int> (10 * n)
    cdef blas_int *supports = <blas_int *> (work + length)  # 2 m, and then the work array of integers
    cdef double zero = 0.0
    dsyevr(
        &job, &some, &uplo, &in_, a, &ia, &zero, &zero, &first, &in_, &zero, &found, values, vectors, &in_,
        supports, work, &length, supports + 2 * m, &integers, &info)
    return <int> info if info else <int> (found != <blas_int> m)
