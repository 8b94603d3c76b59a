"""One EM iteration over buffers that are checked and bound once, so that it costs no more than its work."""

from libc.string cimport memset

import numpy as np

from amofa._kernels._factor cimport maximize_length, maximize_mixture
from amofa._kernels._posterior cimport (
    Parameters, Prepared, Scratch, check_parameters, check_rows, check_work, checked_mixture, prepare_mixture,
    view_parameters, view_scratch)
from amofa._kernels._statistics cimport Statistics, accumulate_rows, check_statistics, view_statistics


cdef class IterationPart


cdef class Iteration:
    """The E-step and the M-step of one mixture, on buffers of the caller.

    Parameters
    ----------
    parameters : (K + 2 K d + P d,) float64
        The mixture; the maximiser after `maximize`.
    offsets : (K + 1,) intp
    prepared : float64
        The mixture in the form of the E-step, kept up to date. Lengths: `amofa._kernels._posterior.buffer_lengths`.
    statistics : float64
        What `accumulate` adds to; length `amofa._kernels._statistics.statistics_size`.
    floor : (d,) float64
        Smallest uniqueness of each column.
    scratch, work : float64
        Lengths: `amofa._kernels._posterior.buffer_lengths`, `amofa._kernels._factor.maximize_size`.
    with_entropy : bool
        Whether the entropy of the responsibilities is summed too.

    Raises
    ------
    ValueError
        If a buffer has the wrong length.
    """

    cdef const Py_ssize_t[::1] offsets
    cdef const double[::1] floor
    cdef double[::1] parameters, prepared, statistics, scratch, work
    cdef bint with_entropy
    cdef Prepared mixture
    cdef Parameters values
    cdef Scratch block
    cdef Statistics sums
    cdef list spare

    def __cinit__(
        self,
        double[::1] parameters not None,
        const Py_ssize_t[::1] offsets not None,
        double[::1] prepared not None,
        double[::1] statistics not None,
        const double[::1] floor not None,
        double[::1] scratch not None,
        double[::1] work not None,
        bint with_entropy=True,
    ):
        cdef Py_ssize_t d = floor.shape[0], k
        self.mixture = checked_mixture(prepared, offsets, d)
        check_parameters(&self.mixture, parameters)
        check_statistics(&self.mixture, statistics)
        check_work(&self.mixture, scratch)
        for k in range(self.mixture.n_components):
            if work.shape[0] < maximize_length(d, offsets[k + 1] - offsets[k]):
                raise ValueError("work is too short")
        self.parameters, self.offsets, self.prepared, self.statistics = parameters, offsets, prepared, statistics
        self.floor, self.scratch, self.work, self.with_entropy = floor, scratch, work, with_entropy
        self.values = view_parameters(self.mixture.n_components, d, &parameters[0])
        self.sums = view_statistics(self.mixture.n_components, d, &offsets[0], &statistics[0])
        self.block = view_scratch(&self.mixture, &scratch[0])
        self.spare = []

    @property
    def n_components(self):
        return self.mixture.n_components

    @property
    def n_factors(self):
        """Of all components together."""
        return self.offsets[self.mixture.n_components]

    @property
    def row_work(self):
        """Multiplications for each row beyond those of the E-step."""
        return self.offsets[self.mixture.n_components] * self.mixture.n_features

    @property
    def scratch_size(self):
        """Values of the scratch memory that a thread needs."""
        return self.scratch.shape[0]

    @property
    def size(self):
        """Values of the sums."""
        return self.statistics.shape[0]

    @property
    def log_likelihood(self):
        """Of the rows accumulated, nats."""
        return self.sums.log_likelihood[0]

    @property
    def entropy(self):
        """Of the responsibilities of the rows accumulated, nats; 0 where it is not summed."""
        return self.sums.entropy[0]

    def clear(self):
        """Forget the rows accumulated."""
        memset(&self.statistics[0], 0, self.statistics.shape[0] * sizeof(double))

    def accumulate(
        self,
        const double[:, ::1] x not None,  # IN   (d, n)
        const double[::1] row_weights,  # IN   (n), or None for ones
    ):
        """Add the sufficient statistics of the columns of x, as `amofa._kernels._statistics.accumulate`."""
        add_rows(x, row_weights, self.with_entropy, &self.mixture, &self.block, &self.sums)

    def part(self):
        """Sums of their own for some of the rows; for `add`, which keeps their memory for another time."""
        try:
            return self.spare.pop()
        except IndexError:
            return IterationPart(self)

    def add(self, IterationPart part not None):
        """Add the sums of a part, which is given back so.

        Raises
        ------
        ValueError
            If it is not one of this iteration's.
        """
        cdef Py_ssize_t i
        if part.mixture.weights != self.mixture.weights or part.statistics.shape[0] != self.statistics.shape[0]:
            raise ValueError("part belongs to another iteration")
        with nogil:
            for i in range(self.statistics.shape[0]):
                self.statistics[i] += part.statistics[i]
                part.statistics[i] = 0.0
        self.spare.append(part)

    def maximize(self):
        """M-step: weights, means, loadings and uniquenesses of all components, prepared for the next E-step.

        Cost O(sum_k d p_k^2). A component without rows keeps its mean, loadings and uniquenesses. Uniquenesses are held
        at or above the floor, which keeps the step monotone, since the expected log-likelihood has one maximum in each.

        Raises
        ------
        FloatingPointError
            If a component's moments are not finite or its covariance is singular, or no row has been counted.
        """
        cdef Py_ssize_t status, singular
        with nogil:
            status = maximize_mixture(&self.mixture, &self.sums, &self.floor[0], &self.values, &self.work[0])
            singular = prepare_mixture(&self.values, &self.mixture) if status == 0 else 0
        if status < 0:
            raise FloatingPointError("the soft counts are all zero, or not finite")
        if status:
            raise FloatingPointError(f"the moments of component {status - 1} are not finite")
        if singular:
            raise FloatingPointError(f"the covariance of component {singular - 1} is numerically singular")


cdef class IterationPart:
    """Sums over some of an iteration's rows, for a thread of its own to fill.

    Parameters
    ----------
    whole : Iteration
        Whose mixture must not change meanwhile.
    """

    cdef const Py_ssize_t[::1] offsets
    cdef double[::1] prepared, statistics
    cdef bint with_entropy
    cdef Prepared mixture
    cdef Statistics sums

    def __cinit__(self, Iteration whole not None):
        # Not the iteration itself: it keeps its parts, and a circle would outlive its use.
        self.offsets, self.prepared, self.mixture = whole.offsets, whole.prepared, whole.mixture
        self.with_entropy = whole.with_entropy
        self.statistics = np.zeros(whole.statistics.shape[0])
        self.sums = view_statistics(
            whole.mixture.n_components, whole.mixture.n_features, &self.offsets[0], &self.statistics[0])

    def accumulate(
        self,
        const double[:, ::1] x not None,  # IN   (d, n)
        const double[::1] row_weights,  # IN   (n), or None for ones
        double[::1] scratch not None,  # WORK, of the thread's own, as long as that of the iteration
    ):
        """Add the sufficient statistics of the columns of x, as `Iteration.accumulate`."""
        check_work(&self.mixture, scratch)
        cdef Scratch block = view_scratch(&self.mixture, &scratch[0])
        add_rows(x, row_weights, self.with_entropy, &self.mixture, &block, &self.sums)


cdef int add_rows(
    const double[:, ::1] x, const double[::1] row_weights, bint with_entropy, const Prepared *mixture, Scratch *block,
    Statistics *sums,
) except -1:
    cdef Py_ssize_t n = x.shape[1]
    if x.shape[0] != mixture.n_features:
        raise ValueError("x must have one row per feature")
    check_rows(n, row_weights)
    if n == 0:
        return 0
    cdef const double *w = &row_weights[0] if row_weights is not None else NULL
    with nogil:
        accumulate_rows(n, &x[0, 0], n, w, with_entropy, mixture, block, sums)
    return 0
