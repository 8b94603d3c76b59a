"""The M-step of EM over labels only: each factor analyser is at its maximum for the second moments of its rows.

The factors are integrated out, so that EM climbs the profile likelihood of the uniquenesses.
"""

from libc.math cimport INFINITY, isfinite, log, sqrt
from libc.string cimport memcpy, memset

import numpy as np

from amofa._kernels._factor_analysis cimport Solver
from amofa._kernels._blas cimport eigen, eigen_work
from amofa._kernels._iteration cimport Iteration
from amofa._kernels._noise cimport ISOTROPIC, SHARED, best_variance, total_prior_cost
from amofa._kernels._mixture cimport check_layout
from amofa._kernels._statistics cimport set_moments


cdef class StepSpace


cdef class ProfileLikelihoodIteration(Iteration):
    """EM in which only the labels are missing.

    As in `StandardIteration`, and the prior of the uniquenesses is worth `prior_count` rows near its scale (d,), see
    `amofa._kernels._noise.prior_cost`; `noise` is 0 for uniquenesses of each component, 1 for shared ones, 2 for one
    for all columns of a component. After `finish`, the views `means` (K, d), `covariances` (K, d, d) and `tail_counts`
    (K) of `sums` are the moments under the responsibilities of the last E-step; see `set_moments`.
    """

    cdef readonly object means, covariances, tail_counts
    cdef const double[::1] prior_scale
    cdef double prior_count
    cdef int noise
    cdef StepSpace space

    def __cinit__(
        self,
        double[::1] parameters not None,
        const Py_ssize_t[::1] offsets not None,
        const double[::1] floor not None,
        double prior_count,
        const double[::1] prior_scale not None,
        int noise,
        bint with_entropy=False,
    ):
        cdef Py_ssize_t K, d
        self.bind(parameters, offsets, floor, True, with_entropy)
        K, d = self.mixture.n_components, self.mixture.n_features
        if prior_scale.shape[0] != d:
            raise ValueError("prior_scale must have one value per feature")
        self.prior_count, self.prior_scale, self.noise = prior_count, prior_scale, noise
        self.means = self.sums[2 + K:2 + K + K * d].reshape(K, d)
        self.covariances = self.sums[2 + K + K * d:2 + K + K * d + K * d * d].reshape(K, d, d)
        self.tail_counts = self.sums[2 + K + K * d + K * d * d:]
        self.space = None

    def finish(self):
        """Turn the sums into moments in place: `means`, and `covariances` about them as full matrices.

        Returns the smallest soft count.
        """
        cdef Py_ssize_t d = self.mixture.n_features, k
        cdef double least = INFINITY
        cdef double *first
        cdef double *scatter
        with nogil:
            for k in range(self.mixture.n_components):
                least = min(least, self.totals.soft_counts[k])
                first, scatter = self.totals.first + k * d, self.totals.second + k * d * d
                set_moments(d, self.totals.soft_counts[k], self.totals.tail_counts[k], self.mixture.means + k * d,
                            first, scatter, first, scatter)
        return least

    def log_determinants(self):
        """Return log |Sigma| of each component, a list."""
        cdef Py_ssize_t d = self.mixture.n_features, j, k, p
        cdef const double *cholesky = self.mixture.choleskys
        cdef double total
        found = []
        for k in range(self.mixture.n_components):
            p, total = self.mixture.offsets[k + 1] - self.mixture.offsets[k], 0.0
            for j in range(d):
                total -= log(self.mixture.inverse_uniquenesses[k * d + j])
            for j in range(p):
                total += 2.0 * log(cholesky[j * p + j])
            cholesky += p * p
            found.append(total)
        return found

    def prior_cost(self):
        """Return the cost of the prior of the uniquenesses, in nats; tied ones count once."""
        return total_prior_cost(
            self.mixture.n_components, self.mixture.n_features, self.values.uniquenesses, self.noise,
            self.prior_count, &self.prior_scale[0])

    cdef int set_maximizer(self) except -1:
        """Update loadings and uniquenesses by one Newton step, after `finish`."""
        cdef Py_ssize_t k
        if self.space is None:
            self.space = self.step_space()
        self.begin_step()
        for k in range(1 if self.noise == SHARED else self.mixture.n_components):
            self.step(k, self.space)
        return 0

    def begin_step(self):
        """Start the M-step in pieces, with the weights; call `step` for each component and then `end_step`."""
        cdef Py_ssize_t k
        cdef double total = 0.0
        for k in range(self.mixture.n_components):
            total += self.totals.soft_counts[k]
        if not (total > 0.0 and isfinite(total)):
            raise FloatingPointError("moments of a component are not finite")
        for k in range(self.mixture.n_components):
            self.values.weights[k] = self.totals.soft_counts[k] / total

    def step_space(self):
        """Return work space for `step`, one for each thread."""
        return StepSpace(self.offsets, self.mixture.n_features, self.noise)

    cpdef int step(self, Py_ssize_t k, StepSpace space) except -1:
        """Run the M-step of component k, or of all components for k = 0 if they share their uniquenesses."""
        cdef bint finite
        if not 0 <= k < self.mixture.n_components:
            raise IndexError("there is no such component")
        if space is None or not space.fits(self.offsets, self.mixture.n_features, self.noise):
            raise ValueError("space was made for another iteration")
        with nogil:
            finite = self.maximize_component(k, space)
        if not finite:
            raise FloatingPointError("moments of a component are not finite")
        return 0

    def end_step(self):
        """Prepare the new mixture for the next E-step."""
        self.prepare()

    cdef bint maximize_component(self, Py_ssize_t k, StepSpace space) noexcept nogil:
        cdef Py_ssize_t d = self.mixture.n_features, K = self.mixture.n_components, j
        for j in range(0 if self.noise == SHARED else k, K if self.noise == SHARED else k + 1):
            # A component without rows keeps its mean, loadings and uniquenesses.
            if self.totals.soft_counts[j] > 0.0:
                memcpy(self.values.means + j * d, self.totals.first + j * d, d * sizeof(double))
        if self.noise == SHARED:
            return self.maximize_group(0, K, space.solver)
        if not self.totals.soft_counts[k] > 0.0:
            return True
        if self.noise == ISOTROPIC:
            return self.maximize_isotropic(k, space)
        return self.maximize_group(k, k + 1, space.solver)

    cdef bint maximize_group(self, Py_ssize_t first, Py_ssize_t last, Solver solver) noexcept nogil:
        """Update components first .. last - 1, which share their uniquenesses."""
        cdef Py_ssize_t d = self.mixture.n_features, k
        cdef double *noise = self.values.uniquenesses + first * d
        cdef Py_ssize_t[2] single
        cdef const Py_ssize_t *offsets = &self.offsets[0]
        if last - first == 1:
            single[0], single[1] = 0, offsets[last] - offsets[first]
            offsets = single
        if not solver.take_step(
                last - first, self.totals.second + first * d * d, self.totals.soft_counts + first, offsets,
                &self.floor[0], self.prior_count, &self.prior_scale[0], noise,
                self.values.loadings + self.offsets[first] * d):
            return False
        for k in range(first + 1, last):
            memcpy(self.values.uniquenesses + k * d, noise, d * sizeof(double))
        return True

    cdef bint maximize_isotropic(self, Py_ssize_t k, StepSpace space) noexcept nogil:
        cdef Py_ssize_t d = self.mixture.n_features, p = self.offsets[k + 1] - self.offsets[k], j, q
        cdef double *vectors = &space.work[0]
        cdef double *values = vectors + d * d
        cdef double *falling = values + d
        cdef double *loadings = self.values.loadings + self.offsets[k] * d
        cdef double variance, scale
        memcpy(vectors, self.totals.second + k * d * d, d * d * sizeof(double))
        if eigen(d, vectors, d, values, falling + d):
            return False
        for j in range(d):
            falling[j] = values[d - 1 - j]
        variance = best_variance(
            d, falling, d, p, self.totals.soft_counts[k], &self.floor[0], self.prior_count, &self.prior_scale[0])
        if not isfinite(variance):
            return False
        for j in range(d):
            self.values.uniquenesses[k * d + j] = variance
        # There are no more eigenvectors than columns.
        memset(loadings, 0, p * d * sizeof(double))
        for q in range(min(p, d)):
            scale = sqrt(max(falling[q] - variance, 0.0))
            for j in range(d):
                loadings[q * d + j] = scale * vectors[(d - 1 - q) * d + j]
        return True


cdef class StepSpace:
    """Work space of the M-step of one component at a time, or of all if they share their uniquenesses."""

    cdef const Py_ssize_t[::1] offsets
    cdef Solver solver
    cdef double[::1] work
    cdef Py_ssize_t d
    cdef int noise

    def __cinit__(self, const Py_ssize_t[::1] offsets not None, Py_ssize_t n_features, int noise):
        cdef Py_ssize_t d = n_features, K = offsets.shape[0] - 1, most = 0, k
        check_layout(offsets, n_features)
        self.offsets, self.d, self.noise = offsets, d, noise
        for k in range(K):
            most = max(most, offsets[k + 1] - offsets[k])
        # First, since it refuses sizes whose squares would overflow below.
        self.solver = Solver(d, K, offsets[K]) if noise == SHARED else Solver(d, 1, most)
        self.work = np.empty(d * d + 2 * d + eigen_work(d))

    cdef bint fits(self, const Py_ssize_t[::1] offsets, Py_ssize_t d, int noise) noexcept nogil:
        return self.offsets.shape[0] == offsets.shape[0] and &self.offsets[0] == &offsets[0] and (
            self.d == d and self.noise == noise)
