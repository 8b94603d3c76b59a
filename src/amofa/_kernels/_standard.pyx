"""The M-step of standard EM, in which labels and factors are missing: closed forms for all parameters."""

from libc.math cimport INFINITY

import numpy as np

from amofa._kernels._blas cimport cholesky_lower, gemm, solve_lower
from amofa._kernels._iteration cimport Iteration
from amofa._kernels._mixture cimport Parameters, Prepared
from amofa._kernels._statistics cimport Sums

# A component with less than this share of all soft counts keeps its shape.
cdef double EMPTY_SHARE = 1e-12


cdef class StandardIteration(Iteration):
    """EM in which the factors are missing, too: one step raises the likelihood.

    `parameters` is a mixture as in `amofa._parameters.Parameters.buffer`, (K + 2 K d + P d,) float64, with its offsets
    (K + 1,); it is the maximiser after `maximize`. The floor (d,) has the smallest uniqueness of each column. With
    `with_entropy` the entropy of the responsibilities is summed, too. Raises ValueError if a buffer has the wrong
    length, and FloatingPointError if the covariance of a component is singular.
    """

    cdef double[::1] work

    def __cinit__(
        self,
        double[::1] parameters not None,
        const Py_ssize_t[::1] offsets not None,
        const double[::1] floor not None,
        bint with_entropy=True,
    ):
        cdef Py_ssize_t k, length = 0
        self.bind(parameters, offsets, floor, False, with_entropy)
        for k in range(self.mixture.n_components):
            length = max(length, maximize_length(self.mixture.n_features, offsets[k + 1] - offsets[k]))
        self.work = np.empty(length)

    cdef int set_maximizer(self) except -1:
        """Run the M-step at cost O(sum_k d p_k^2). With a floor it stays monotone: each uniqueness has one maximum."""
        cdef Py_ssize_t status
        with nogil:
            status = maximize_mixture(&self.mixture, &self.totals, &self.floor[0], &self.values, &self.work[0])
        if status < 0:
            raise FloatingPointError("the soft counts are all zero, or not finite")
        if status:
            raise FloatingPointError(f"the moments of component {status - 1} are not finite")
        return 0


cdef int maximize_component(
    Py_ssize_t k, const Prepared *mixture, const double *cholesky, const Sums *sums, const double *floor,
    double *mean, double *loadings, double *uniquenesses, double *work,
) noexcept nogil:
    """Update the mean, loadings and uniquenesses of component k.

    With e = x - mu_old and m its weighted mean, the new mean is mu_old + m, the maximiser when the factors are
    integrated out. About it, with y = E[z | x] = L^-T W e, C_yx = cov(y, e) and E_zz = (L L')^-1 + cov(y, y):
    Lambda_new' = E_zz^-1 C_yx and Psi_new = diag(cov(e) - Lambda_new C_yx)   (paper, eqs. MoFAEMLambdaMu, MoFAEMPsi).
    """
    cdef Py_ssize_t d = mixture.n_features, p = mixture.offsets[k + 1] - mixture.offsets[k], j, q, r
    cdef double n = sums.soft_counts[k], explained, variance
    cdef const double *projection = mixture.projections + mixture.offsets[k] * d
    cdef const double *second = sums.second + k * d
    cdef const double *cross = sums.cross + mixture.offsets[k] * d
    cdef double *covariance = work            # (p, d)  C_yx
    cdef double *moment = covariance + p * d  # (p, p)  E_zz
    cdef double *shift = moment + p * p       # (d)     m
    cdef double *projected_shift = shift + d  # (p)     W m

    for j in range(d):
        shift[j] = sums.first[k * d + j] / n
        mean[j] = mixture.means[k * d + j] + shift[j]
    gemm(b"N", b"N", p, 1, d, 1.0, projection, d, shift, 1, 0.0, projected_shift, 1)
    for q in range(p):
        for j in range(d):
            covariance[q * d + j] = cross[q * d + j] / n - projected_shift[q] * shift[j]
    # cov(We, We) = cov(We, e) W'. In the coordinates of We, E_zz is L^-T (I + cov(We, We)) L^-1, so that
    # Lambda_new' = L (I + cov(We, We))^-1 cov(We, e): no inverse of the capacitance is needed.
    gemm(b"N", b"T", p, p, d, 1.0, covariance, d, projection, d, 0.0, moment, p)
    for q in range(p):
        moment[q * p + q] += 1.0
        for r in range(q):
            moment[q * p + r] = 0.5 * (moment[q * p + r] + moment[r * p + q])
    if cholesky_lower(p, moment, p):
        return 1
    # Psi needs Lambda_new L^-T cov(We, e) = cov(We, e)' (I + cov(We, We))^-1 cov(We, e): squares of M^-1 cov(We, e).
    solve_lower(b"N", p, d, moment, p, covariance, d)
    for j in range(d):
        explained = 0.0
        for q in range(p):
            explained += covariance[q * d + j] * covariance[q * d + j]
        variance = second[j] / n - shift[j] * shift[j] - explained
        if not -INFINITY < variance < INFINITY:
            return 1
        uniquenesses[j] = max(variance, floor[j])
    solve_lower(b"T", p, d, moment, p, covariance, d)
    multiply_lower(p, d, cholesky, covariance, loadings)
    return 0


cdef void multiply_lower(
    Py_ssize_t p, Py_ssize_t d, const double *lower, const double *b, double *out,
) noexcept nogil:
    """Compute out (p, d) = L b from the lower triangle of L (p, p)."""
    cdef Py_ssize_t j, q, r
    for q in range(p):
        for j in range(d):
            out[q * d + j] = lower[q * p] * b[j]
        for r in range(1, q + 1):
            for j in range(d):
                out[q * d + j] += lower[q * p + r] * b[r * d + j]


cdef Py_ssize_t maximize_mixture(
    const Prepared *mixture, const Sums *sums, const double *floor, Parameters *parameters, double *work,
) noexcept nogil:
    """Update all components. Returns 0, 1 + the component whose moments are not finite, or -1 if no row counts."""
    cdef Py_ssize_t K = mixture.n_components, d = mixture.n_features, k, p
    cdef const double *cholesky = mixture.choleskys
    cdef double total = 0.0
    for k in range(K):
        total += sums.soft_counts[k]
    if not 0.0 < total < INFINITY:
        return -1
    for k in range(K):
        parameters.weights[k] = sums.soft_counts[k] / total
        if parameters.weights[k] > EMPTY_SHARE:
            if maximize_component(k, mixture, cholesky, sums, floor, parameters.means + k * d,
                                  parameters.loadings + mixture.offsets[k] * d, parameters.uniquenesses + k * d,
                                  work):
                return k + 1
        p = mixture.offsets[k + 1] - mixture.offsets[k]
        cholesky += p * p
    return 0


cdef Py_ssize_t maximize_length(Py_ssize_t d, Py_ssize_t p) noexcept nogil:
    return p * d + p * p + d + p
