"""EM on pairs of a row and a component that are near each other, between two passes over all pairs.

The responsibilities of other pairs stay as they are, and so do their sums; each row shares the rest of its weight among
its pairs. This lowers what EM lowers (Neal & Hinton, A view of the EM algorithm that justifies incremental, sparse, and
other variants, 1998), and its fixed points are those of EM.
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

import numpy as np

from amofa._kernels._iteration cimport Iteration
from amofa._kernels._mixture cimport Scratch, check_work, view_scratch
from amofa._kernels._posterior cimport component_log_joint, weigh_tails
from amofa._kernels._statistics cimport Sums, add_scatter

cdef extern from "simd.h" nogil:
    double amofa_weighted_sum(Py_ssize_t n, const double *values, const double *weights)
    void amofa_exp_below(Py_ssize_t n, const int *rows, const double *top, double *values)

cdef Py_ssize_t MOST_ROWS = 2**31 - 1
# Other pairs with at most this share of the weight of a component are left out.
cdef double LEAST_REST = 1e-12


cdef class Pairs:
    """The pairs that `near` (K, n) marks for an iteration with second moments as whole matrices, with their rows.

    `kept` (n,) are the sums of the responsibilities of each row in its pairs, times its weight. After all rows have
    been read, a pass calls `find` for each component, then `share`, then `add` for each component. Components may be
    worked on by several threads at a time, with scratch memory of their own.
    """

    cdef readonly Py_ssize_t n_pairs
    cdef Iteration iteration
    cdef Py_ssize_t d, n_components
    cdef Py_ssize_t[::1] starts    # (K + 1) of the pairs of each component
    cdef Py_ssize_t[::1] ends      # (K) of those that have been read
    cdef int[::1] rows             # (n_pairs), rising for each component
    cdef double[::1] x             # (d, m_k) for each component with m_k pairs
    cdef double[::1] values        # (n_pairs) log joint densities, then responsibilities
    cdef double[::1] tails         # (n_pairs) weights of rows in the tails of t components; None if all are normal
    cdef const double[::1] kept    # (n)
    cdef double[::1] top           # (n) the largest log joint density
    cdef double[::1] factor        # (n) what turns densities into responsibilities
    cdef double[::1] rest          # sums of the other pairs, about these means
    cdef double[::1] means         # (K d)

    def __cinit__(
        self,
        Iteration iteration not None,
        const unsigned char[:, ::1] near not None,  # IN   (K, n)
        const double[::1] kept not None,  # IN   (n)
    ):
        cdef Py_ssize_t K = iteration.mixture.n_components, n = near.shape[1], i, k, at = 0
        if near.shape[0] != K or kept.shape[0] != n or not iteration.full:
            raise ValueError("near, kept and the iteration do not agree")
        if n > MOST_ROWS:
            raise ValueError("more rows than can be numbered")
        self.iteration, self.d, self.n_components = iteration, iteration.mixture.n_features, K
        counts = np.count_nonzero(near, axis=1)
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        self.n_pairs = self.starts[K]
        self.ends = self.starts[:K].copy()
        self.rows = np.empty(self.n_pairs, dtype=np.intc)
        self.x, self.values = np.empty(self.n_pairs * self.d), np.empty(self.n_pairs)
        self.tails = None
        for k in range(K):
            if iteration.mixture.degrees_of_freedom[k] < INFINITY:
                self.tails = np.empty(self.n_pairs)
        self.kept, self.top, self.factor = kept, np.empty(n), np.empty(n)
        self.rest = None
        with nogil:
            for k in range(K):
                for i in range(n):
                    if near[k, i] and at < self.starts[k + 1]:
                        self.rows[at] = <int> i
                        at += 1

    def read(self, const double[:, ::1] x not None, Py_ssize_t first):
        """Read rows x (d, m), which begin with number `first`: one block after the other."""
        cdef Py_ssize_t K = self.n_components, n = x.shape[1], i, j, k, m, end
        cdef const int *rows
        cdef double *to
        if x.shape[0] != self.d or first < 0 or first + n > self.kept.shape[0]:
            raise ValueError("these rows are not among those of the pairs")
        if self.n_pairs == 0:
            return
        with nogil:
            for k in range(K):
                end = self.ends[k]
                while end < self.starts[k + 1] and first <= self.rows[end] < first + n:
                    end += 1
                m, rows = self.starts[k + 1] - self.starts[k], &self.rows[0]
                for j in range(self.d):
                    to = &self.x[0] + self.starts[k] * (self.d - 1) + j * m
                    for i in range(self.ends[k], end):
                        to[i] = x[j, rows[i] - first]
                self.ends[k] = end

    def find(self, Py_ssize_t k, double[::1] scratch not None):
        """Compute the log joint densities of the pairs of component k."""
        cdef Scratch block = self.checked_scratch(k, scratch)
        cdef Py_ssize_t start = 0, n = self.starts[k + 1] - self.starts[k], length, i
        if n == 0:
            return
        with nogil:
            while start < n:
                length = min(block.stride, n - start)
                component_log_joint(length, &self.x[self.starts[k] * self.d] + start, n, k, &self.iteration.mixture,
                                    &block)
                memcpy(&self.values[self.starts[k]] + start, block.log_joint + k * block.stride,
                       length * sizeof(double))
                if self.tails is not None:
                    for i in range(length):
                        self.tails[self.starts[k] + start + i] = 1.0
                    weigh_tails(length, k, &self.iteration.mixture, block.log_joint + k * block.stride,
                                &self.tails[self.starts[k]] + start)
                start += length

    def share(self):
        """Share the weight of each row among its pairs."""
        cdef Py_ssize_t n = self.kept.shape[0], i
        cdef double *top = &self.top[0]
        cdef double *factor = &self.factor[0]
        cdef double *values
        cdef const int *rows
        if self.n_pairs == 0:
            return
        with nogil:
            values, rows = &self.values[0], &self.rows[0]
            for i in range(n):
                top[i], factor[i] = -INFINITY, 0.0
            for i in range(self.n_pairs):
                top[rows[i]] = max(top[rows[i]], values[i])
            amofa_exp_below(self.n_pairs, rows, top, values)
            for i in range(self.n_pairs):
                factor[rows[i]] += values[i]
            for i in range(n):
                # Rows that none of their components reaches any more count for none.
                factor[i] = self.kept[i] / factor[i] if factor[i] > 0.0 else 0.0
            for i in range(self.n_pairs):
                values[i] *= factor[rows[i]]

    def add(self, Py_ssize_t k, double[::1] sums not None, double[::1] scratch not None):
        """Add soft count and moments of component k, about its mean, to sums as those of the iteration."""
        cdef Scratch block = self.checked_scratch(k, scratch)
        cdef Py_ssize_t start = 0, n = self.starts[k + 1] - self.starts[k], length, i
        cdef Sums totals
        cdef double *h
        self.iteration.check_sums(sums)
        totals = self.iteration.view(&sums[0])
        with nogil:
            while start < n:
                length, h = min(block.stride, n - start), &self.values[self.starts[k]] + start
                totals.soft_counts[k] += amofa_weighted_sum(length, h, NULL)
                if self.tails is not None:
                    for i in range(length):
                        block.responsibilities[i] = h[i] * self.tails[self.starts[k] + start + i]
                    h = block.responsibilities
                totals.tail_counts[k] += amofa_weighted_sum(length, h, NULL)
                add_scatter(length, &self.x[self.starts[k] * self.d] + start, n, k, h, 0.0, &self.iteration.mixture,
                            &block, &totals)
                start += length

    def set_rest(self, const double[::1] all_sums not None, const double[::1] own_sums not None):
        """Set the sums of the other pairs, from those of all pairs and of these, both for the present parameters."""
        cdef Py_ssize_t K = self.n_components, d = self.d, k
        cdef double[::1] copy
        cdef Sums rest, whole
        self.iteration.check_sums(all_sums)
        self.iteration.check_sums(own_sums)
        copy, self.rest = np.array(all_sums), np.subtract(all_sums, own_sums)
        rest, whole = self.iteration.view(&self.rest[0]), self.iteration.view(&copy[0])
        for k in range(K):
            # Rounding alone would make the weight negative of a component that loses its rows.
            if rest.soft_counts[k] <= LEAST_REST * whole.soft_counts[k]:
                rest.soft_counts[k] = rest.tail_counts[k] = 0.0
                memset(rest.first + k * d, 0, d * sizeof(double))
                memset(rest.second + k * d * d, 0, d * d * sizeof(double))
        self.means = np.empty(K * self.d)
        memcpy(&self.means[0], self.iteration.mixture.means, K * self.d * sizeof(double))

    def add_rest(self, double[::1] sums not None):
        """Add the sums of the other pairs, about the present means."""
        cdef Py_ssize_t K = self.n_components, d = self.d, k
        cdef Sums rest, totals
        self.iteration.check_sums(sums)
        if self.rest is None:
            raise ValueError("the sums of the rest are not set")
        rest, totals = self.iteration.view(&self.rest[0]), self.iteration.view(&sums[0])
        with nogil:
            for k in range(K):
                totals.soft_counts[k] += rest.soft_counts[k]
                totals.tail_counts[k] += rest.tail_counts[k]
                add_shifted(d, rest.tail_counts[k], rest.first + k * d, rest.second + k * d * d, &self.means[k * d],
                            self.iteration.mixture.means + k * d, totals.first + k * d, totals.second + k * d * d)

    cdef Scratch checked_scratch(self, Py_ssize_t k, double[::1] scratch):
        if not 0 <= k < self.n_components:
            raise IndexError("there is no such component")
        if self.ends[k] != self.starts[k + 1]:
            raise ValueError("not all rows have been read")
        check_work(&self.iteration.mixture, scratch)
        return view_scratch(&self.iteration.mixture, &scratch[0])


cdef void add_shifted(
    Py_ssize_t d, double count, const double *first, const double *second, const double *old_mean,
    const double *new_mean, double *new_first, double *new_second,
) noexcept nogil:
    """Add sums about one mean to those about another: e becomes e - s with s = new - old mean."""
    cdef Py_ssize_t i, j
    cdef double s
    for i in range(d):
        s = new_mean[i] - old_mean[i]
        new_first[i] += first[i] - count * s
        for j in range(i + 1):
            new_second[i * d + j] += (second[i * d + j] - first[i] * (new_mean[j] - old_mean[j]) - s * first[j]
                                      + count * s * (new_mean[j] - old_mean[j]))
