"""Maximum of the (penalised) likelihood of factor analysers, from their covariance matrices alone.

Given the uniquenesses Psi, the best loadings follow from the leading eigenvectors of Psi^-1/2 S Psi^-1/2, so that only
Psi is searched: by Newton steps in its logarithm (Joreskog 1967, Psychometrika 32:443; Lawley & Maxwell 1971), each
held to lower the cost. Several covariance matrices may share their uniquenesses.
"""

from libc.math cimport NAN, exp, isfinite, log, sqrt, tanh
from libc.string cimport memcpy, memset

import numpy as np

from amofa._analyser cimport Point, log_cosh
from amofa._blas cimport cholesky_lower, eigen, eigen_work, gemm, solve_lower

# The largest step in the logarithm of a uniqueness.
cdef double LONGEST_STEP = 2.0
# Relative ridge of the Hessian, which is singular where loadings and uniquenesses are not identified.
cdef double RIDGE = 1e-3
# Share of the decrease that a step promises which it must keep, and how often it is shortened to a quarter.
cdef double SUFFICIENT = 1e-4
cdef int MOST_HALVINGS = 6


cdef class Solver:
    """Work space for factor analysers of d columns.

    Parameters
    ----------
    n_features : int
    n_matrices, n_factors : int
        Most covariance matrices, and factors of all of them, at a time.
    """

    def __cinit__(self, Py_ssize_t n_features, Py_ssize_t n_matrices=1, Py_ssize_t n_factors=-1):
        cdef Py_ssize_t d = n_features
        if n_factors < 0:
            n_factors = n_matrices * d
        self.d, self.most_matrices, self.most_factors = d, n_matrices, n_factors
        cdef Py_ssize_t point = 2 * d + n_matrices * d + n_factors * d
        self.buffer = np.zeros(2 * point + 2 * d * d + 2 * d + eigen_work(d))
        cdef double *start = &self.buffer[0]
        view_point(&self.here, d, n_matrices, start)
        view_point(&self.there, d, n_matrices, start + point)
        self.whitened = start + 2 * point
        self.hessian = self.whitened + d * d
        self.step = self.hessian + d * d
        self.raw = self.step + d
        self.work = self.raw + d

    def solve(
        self,
        const double[:, :, ::1] covariances not None,  # IN   (K, d, d)
        const double[::1] counts not None,  # IN   (K)
        const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
        const double[::1] floor not None,  # IN   (d)
        double prior_count,
        const double[::1] prior_scale not None,  # IN   (d)
        double[::1] uniquenesses not None,  # INOUT (d)
        double[:, ::1] loadings not None,  # OUT  (P, d)
        double[:, ::1] spectra not None,  # OUT  (K, d) eigenvalues of Psi^-1/2 S Psi^-1/2, falling
        Py_ssize_t max_steps,
        double tol,
    ):
        """Uniquenesses and loadings that lower the cost, from the uniquenesses given.

        The cost is sum_k n_k/2 (log |Sigma_k| + tr(Sigma_k^-1 S_k)) in nats, plus that of a prior of ``prior_count``
        rows, sum_j prior_count log cosh(log(psi_j / s_j) / 2).

        Returns
        -------
        float
            The cost, never above that of the uniquenesses given with the best loadings for them.
        """
        cdef Py_ssize_t d = self.d, K = covariances.shape[0], j
        cdef double cost
        if (covariances.shape[1] != d or covariances.shape[2] != d or counts.shape[0] != K or offsets.shape[0] != K + 1
                or floor.shape[0] != d or prior_scale.shape[0] != d or uniquenesses.shape[0] != d
                or loadings.shape[0] != offsets[K] or loadings.shape[1] != d or spectra.shape[0] != K
                or spectra.shape[1] != d):
            raise ValueError("shapes do not agree")
        if K == 0 or K > self.most_matrices or offsets[K] > self.most_factors:
            raise ValueError("more matrices or factors than the solver has room for")
        with nogil:
            for j in range(d):
                self.here.log_noise[j] = log(max(uniquenesses[j], floor[j]))
            cost = self.minimize(K, &covariances[0, 0, 0], &counts[0], &offsets[0], &floor[0], prior_count,
                                 &prior_scale[0], max_steps, tol)
            for j in range(d):
                uniquenesses[j] = max(exp(self.here.log_noise[j]), floor[j])
            memcpy(&spectra[0, 0], self.here.values, K * d * sizeof(double))
            if offsets[K]:
                self.set_loadings(K, &offsets[0], &loadings[0, 0])
        if not isfinite(cost):
            raise FloatingPointError("a covariance matrix is not finite")
        return cost

    cdef double minimize(
        self, Py_ssize_t K, const double *covariances, const double *counts, const Py_ssize_t *offsets,
        const double *floor, double prior_count, const double *prior_scale, Py_ssize_t max_steps, double tol,
    ) noexcept nogil:
        cdef Py_ssize_t d = self.d, _iteration, j
        cdef int _tries
        cdef double promised, shrink, lowest
        cdef Point swap
        self.evaluate(K, covariances, counts, offsets, prior_count, prior_scale, &self.here)
        for _iteration in range(max_steps):
            promised = self.newton_step(K, counts, offsets, floor, prior_count, prior_scale)
            if not promised > tol:
                break
            shrink = 1.0
            for _tries in range(MOST_HALVINGS):
                for j in range(d):
                    lowest = log(floor[j])
                    self.there.log_noise[j] = max(self.here.log_noise[j] + shrink * self.step[j], lowest)
                self.evaluate(K, covariances, counts, offsets, prior_count, prior_scale, &self.there)
                if self.there.cost <= self.here.cost - SUFFICIENT * shrink * promised:
                    break
                shrink *= 0.25
            else:
                break
            swap = self.here
            self.here = self.there
            self.there = swap
        return self.here.cost

    cdef void evaluate(
        self, Py_ssize_t K, const double *covariances, const double *counts, const Py_ssize_t *offsets,
        double prior_count, const double *prior_scale, Point *point,
    ) noexcept nogil:
        """Cost, gradient and eigenvectors at the point's uniquenesses, with the best loadings for them."""
        cdef Py_ssize_t d = self.d, i, j, k, q, p
        cdef double *inverse = self.raw
        cdef double *a = self.whitened
        cdef double *values
        cdef double *vectors
        cdef double log_determinant = 0.0, trace, excess, value, half
        cdef const double *s
        point.cost = 0.0
        for j in range(d):
            inverse[j] = exp(-0.5 * point.log_noise[j])
            log_determinant += point.log_noise[j]
            point.gradient[j] = 0.0
        for k in range(K):
            s = covariances + k * d * d
            p = offsets[k + 1] - offsets[k]
            half = 0.5 * counts[k]
            trace = 0.0
            for i in range(d):
                for j in range(i, d):
                    a[i * d + j] = s[i * d + j] * inverse[i] * inverse[j]
                trace += a[i * d + i]
                # The gradient is n/2 (modelled - sample variance) / psi; the factors' part is added below.
                point.gradient[i] += half * (1.0 - a[i * d + i])
            values = point.values + k * d
            vectors = point.vectors + offsets[k] * d
            self.leading(a, p, values, vectors)
            # Not finite where a covariance is not: without factors nothing else looks at what is off its diagonal.
            point.cost += half * (log_determinant + trace) + 0.0 * values[0]
            for q in range(p):
                value = values[q]
                if value <= 1.0:
                    break
                point.cost += half * (log(value) + 1.0 - value)
                excess = half * (value - 1.0)
                for j in range(d):
                    point.gradient[j] += excess * vectors[q * d + j] * vectors[q * d + j]
        if prior_count > 0.0:
            for j in range(d):
                value = 0.5 * (point.log_noise[j] - log(prior_scale[j]))
                point.cost += prior_count * log_cosh(value)
                point.gradient[j] += 0.5 * prior_count * tanh(value)

    cdef void leading(self, double *a, Py_ssize_t p, double *values, double *vectors) noexcept nogil:
        """Eigenvalues, falling, and the p leading eigenvectors of A (d, d), whose upper triangle is given."""
        cdef Py_ssize_t d = self.d, i, q
        cdef double swap
        # Row-major upper is column-major lower.
        if eigen(d, a, d, values, self.work):
            for i in range(d):
                values[i] = NAN
        for i in range(d // 2):
            swap = values[i]
            values[i] = values[d - 1 - i]
            values[d - 1 - i] = swap
        for q in range(p):
            memcpy(vectors + q * d, a + (d - 1 - q) * d, d * sizeof(double))

    cdef double newton_step(
        self, Py_ssize_t K, const double *counts, const Py_ssize_t *offsets, const double *floor, double prior_count,
        const double *prior_scale,
    ) noexcept nogil:
        """The step from here, with the approximate Hessian n/2 (I - U U')^2 (elementwise). Returns what it promises."""
        cdef Py_ssize_t d = self.d, i, j, k, p
        cdef double *h = self.hessian
        cdef double *projector = self.whitened
        cdef const double *vectors
        cdef double half, largest = 0.0, promised = 0.0, value
        cdef Point *point = &self.here
        memset(h, 0, d * d * sizeof(double))
        for k in range(K):
            half = 0.5 * counts[k]
            p = offsets[k + 1] - offsets[k]
            vectors = point.vectors + offsets[k] * d
            while p > 0 and point.values[k * d + p - 1] <= 1.0:
                p -= 1
            if p:
                gemm(b"T", b"N", d, d, p, -1.0, vectors, d, vectors, d, 0.0, projector, d)
            else:
                memset(projector, 0, d * d * sizeof(double))
            for i in range(d):
                projector[i * d + i] += 1.0
                for j in range(i + 1):
                    h[i * d + j] += half * projector[i * d + j] * projector[i * d + j]
        for j in range(d):
            if prior_count > 0.0:
                value = tanh(0.5 * (point.log_noise[j] - log(prior_scale[j])))
                h[j * d + j] += 0.25 * prior_count * (1.0 - value * value)
            largest = max(largest, h[j * d + j])
        for j in range(d):
            # At the floor and pressed against it: not free.
            if point.gradient[j] > 0.0 and exp(point.log_noise[j]) <= floor[j] * (1.0 + 1e-12):
                self.step[j] = 0.0
                for i in range(d):
                    h[max(i, j) * d + min(i, j)] = 0.0
                h[j * d + j] = 1.0
            else:
                self.step[j] = -point.gradient[j]
                h[j * d + j] += RIDGE * largest
        if cholesky_lower(d, h, d):
            return 0.0
        solve_lower(b"N", d, 1, h, d, self.step, 1)
        solve_lower(b"T", d, 1, h, d, self.step, 1)
        for j in range(d):
            self.step[j] = max(-LONGEST_STEP, min(LONGEST_STEP, self.step[j]))
            value = max(self.step[j], log(floor[j]) - point.log_noise[j])
            promised -= value * point.gradient[j]
        return promised

    cdef void set_loadings(self, Py_ssize_t K, const Py_ssize_t *offsets, double *loadings) noexcept nogil:
        """Lambda' = (l - 1)^1/2 u Psi^1/2, one row per factor; 0 where a factor explains nothing."""
        cdef Py_ssize_t d = self.d, j, k, q
        cdef double scale
        for j in range(d):
            self.raw[j] = exp(0.5 * self.here.log_noise[j])
        for k in range(K):
            for q in range(offsets[k + 1] - offsets[k]):
                scale = sqrt(max(self.here.values[k * d + q] - 1.0, 0.0))
                for j in range(d):
                    loadings[(offsets[k] + q) * d + j] = (
                        scale * self.here.vectors[(offsets[k] + q) * d + j] * self.raw[j])


cdef void view_point(Point *point, Py_ssize_t d, Py_ssize_t K, double *start) noexcept nogil:
    point.log_noise = start
    point.gradient = start + d
    point.values = start + 2 * d
    point.vectors = point.values + K * d
