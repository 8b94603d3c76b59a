# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, freethreading_compatible=True
"""Score a stream of rows under a mixture that learns from it: an example for amofa's checked C-level functions.

Batches are C-contiguous arrays (n, d) of float32 or float64. Each is cut into a share of rows for every thread, and
what the threads find is put together in order, so that a result depends on the number of threads only by rounding.
"""

from cython.parallel cimport prange

import numpy as np

from amofa.cython_amofa cimport (
    accumulate_statistics_checked, check_mixture, component_loadings, component_mean, component_uniquenesses,
    maximize_component_checked, maximize_work_size, merge, mixture_weights, n_components, n_factors, n_features,
    posterior_checked, prepare_mixture_checked, rows_work_size, statistics_size)

ctypedef fused real:
    float
    double


cdef class Stream:
    """A mixture for a stream, which starts as a fitted model's: ``Stream(model.cython_handle().mixture)``.

    Raises ValueError if `mixture` is no prepared mixture of this process.
    """

    cdef Py_ssize_t K, d, P, n_threads
    cdef Py_ssize_t[::1] offsets        # (K + 1)
    cdef double[::1] weights            # (K)
    cdef double[:, ::1] means           # (K, d)
    cdef double[:, ::1] loadings        # (max(P, 1), d)
    cdef double[:, ::1] uniquenesses    # (K, d)
    cdef double[::1] mixture
    cdef double[:, ::1] work            # (n_threads, .)
    cdef double[:, ::1] statistics      # (n_threads, .)
    cdef Py_ssize_t[::1] unusable       # (n_threads) what a call for a thread's rows returned

    def __cinit__(self, const double[::1] mixture not None, Py_ssize_t n_threads=1):
        cdef Py_ssize_t k
        cdef const double *m = &mixture[0]
        if n_threads < 1 or check_mixture(m, mixture.shape[0]):
            raise ValueError("mixture must be the prepared mixture of a handle, and n_threads positive")
        self.K, self.d, self.n_threads = n_components(m), n_features(m), n_threads
        self.offsets = np.zeros(self.K + 1, np.intp)
        for k in range(self.K):
            self.offsets[k + 1] = self.offsets[k] + n_factors(m, k)
        self.P = self.offsets[self.K]
        self.weights, self.means = np.empty(self.K), np.empty((self.K, self.d))
        self.loadings, self.uniquenesses = np.empty((max(self.P, 1), self.d)), np.empty((self.K, self.d))
        status = mixture_weights(m, &self.weights[0], self.K)
        for k in range(self.K):
            status |= component_mean(m, k, &self.means[k, 0], self.d)
            status |= component_uniquenesses(m, k, &self.uniquenesses[k, 0], self.d)
            if n_factors(m, k):
                status |= component_loadings(m, k, &self.loadings[self.offsets[k], 0], n_factors(m, k) * self.d)
        self.mixture = np.array(mixture)
        self.work = np.empty((n_threads, max(rows_work_size(m), maximize_work_size(m))))
        self.statistics, self.unusable = np.empty((n_threads, statistics_size(m))), np.zeros(n_threads, np.intp)
        if status:
            raise ValueError("the mixture cannot be read")

    @property
    def parameters(self):
        """Weights (K), means (K, d), loadings (P, d), one row per factor, and uniquenesses (K, d)."""
        arrays = self.weights, self.means, self.loadings[:self.P], self.uniquenesses
        return tuple(np.array(a) for a in arrays)

    def score(self, const real[:, ::1] x not None):
        """Return the log density (n,) of each row in nats, and how many are NaN since a cell is not finite."""
        cdef Py_ssize_t n = self.checked_rows(x.shape[0], x.shape[1]), T = self.n_threads, t, first, last
        result = np.empty(n)
        cdef double[::1] out = result
        for t in prange(T, nogil=True, num_threads=T, schedule="static"):
            first, last = t * n // T, (t + 1) * n // T
            self.unusable[t] = posterior_checked(
                &self.mixture[0], last - first, self.d, &x[0, 0] + first * self.d, sizeof(real), self.d, 1, False,
                &out[0] + first, last - first, NULL, 0, 1, 1, NULL, 0, 1, 1, NULL, 0, 1, 1,
                &self.work[t, 0], self.work.shape[1])
        return result, self.n_unusable()

    def learn(self, const real[:, ::1] x not None, double step):
        """Make an EM step on a batch, and go a share `step` (0..1) of the way to the new parameters.

        Returns the mean log density of the batch's rows under the old ones, in nats, and the number of rows that were
        left out since a cell was not finite. Components without rows stay as they are. Raises ValueError if no row is
        left, or if the covariance matrix of a component is not positive definite.
        """
        cdef Py_ssize_t n = self.checked_rows(x.shape[0], x.shape[1]), T = self.n_threads, t, first, last
        cdef Py_ssize_t size = self.statistics.shape[1], left_out
        cdef int status
        self.statistics[:, :] = 0.0
        for t in prange(T, nogil=True, num_threads=T, schedule="static"):
            first, last = t * n // T, (t + 1) * n // T
            self.unusable[t] = accumulate_statistics_checked(
                &self.mixture[0], last - first, self.d, &x[0, 0] + first * self.d, sizeof(real), self.d, 1, NULL,
                &self.statistics[t, 0], size, &self.work[t, 0], self.work.shape[1])
        left_out = self.n_unusable()
        if left_out == n:
            raise ValueError("no row can be used")
        for t in range(1, T):
            merge(size, &self.statistics[t, 0], &self.statistics[0, 0])
        status = self.step_towards(n - left_out, step)
        if status > 0:
            raise ValueError(f"the covariance matrix of component {status - 1} is not positive definite")
        if status:
            raise ValueError("arguments do not fit together")
        return self.statistics[0, 0] / (n - left_out), left_out

    cdef Py_ssize_t checked_rows(self, Py_ssize_t n, Py_ssize_t n_columns) except -1:
        if n == 0 or n_columns != self.d:
            raise ValueError("a batch must have rows, and the columns of the model")
        return n

    cdef Py_ssize_t n_unusable(self) except -1:
        """Return the sum of what the threads found. Raises RuntimeError if a call was refused."""
        if min(self.unusable) < 0:
            raise RuntimeError(f"status {min(self.unusable)}")
        return sum(self.unusable)

    cdef int step_towards(self, Py_ssize_t n, double step):
        """Go to the maximiser of the statistics of n rows, or a part of the way. Returns a status."""
        cdef Py_ssize_t k, p, most = max(np.diff(self.offsets))
        cdef double[::1] floor = np.full(self.d, 1e-9), mean = np.empty(self.d), uniquenesses = np.empty(self.d)
        cdef double[:, ::1] loadings = np.empty((max(most, 1), self.d))
        cdef int status
        for k in range(self.K):
            p = self.offsets[k + 1] - self.offsets[k]
            status = maximize_component_checked(
                &self.mixture[0], k, &self.statistics[0, 0], &floor[0], &mean[0], self.d, &loadings[0, 0],
                loadings.size, &uniquenesses[0], self.d, &self.work[0, 0], self.work.shape[1])
            if status == -2:
                self.weights[k] *= 1.0 - step
                continue
            if status:
                return status
            blend(1, step, &self.statistics[0, 2 + k], 1.0 / n, &self.weights[k])
            blend(self.d, step, &mean[0], 1.0, &self.means[k, 0])
            blend(self.d, step, &uniquenesses[0], 1.0, &self.uniquenesses[k, 0])
            if p:
                blend(p * self.d, step, &loadings[0, 0], 1.0, &self.loadings[self.offsets[k], 0])
        return prepare_mixture_checked(
            self.K, self.d, &self.offsets[0], &self.weights[0], &self.means[0, 0], &self.loadings[0, 0],
            &self.uniquenesses[0, 0], &self.mixture[0], self.mixture.shape[0])


cdef void blend(Py_ssize_t n, double step, const double *new, double scale, double *values) noexcept nogil:
    """Go a share of the way from values to scale * new."""
    cdef Py_ssize_t i
    for i in range(n):
        values[i] += step * (scale * new[i] - values[i])
