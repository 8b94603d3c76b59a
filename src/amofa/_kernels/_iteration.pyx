"""One EM iteration: the sums of its E-step over blocks of rows, and the M-step of a subclass.

Memory is allocated once for all iterations of an EM run.
"""

from libc.string cimport memset

import numpy as np

from amofa._kernels._mixture cimport (
    check_layout, check_parameters, check_work, checked_mixture, prepare_mixture, prepared_length, scratch_length,
    view_parameters, view_scratch)
from amofa._kernels._statistics cimport add_rows, view_sums

from amofa._kernels._statistics import sums_size

# Where factor analysers are maximised exactly, rows whose responsibility is below this share of the component's weight
# are left out of its moments, never of counts and log-likelihood. What is left out of sum h e e' is less than this
# share times weight times sum e e' over all rows. Rows near the bound are about 6 standard deviations away, m^2 = 40,
# and what is farther has exponentially less: in all less than r = 1e-6 of the component's covariance. The maximum that
# EM then climbs to costs about r^2 / (1 - rate) / 2 nats a row more than the exact one, 5e-11 where EM is slow (rate
# .99), less than the finest tolerance of a fit. Even if r were 1e-5, as with all other rows 30 standard deviations away
# and at the bound, it would be 5e-9.
cdef double NEGLIGIBLE_IN_EM = 1e-8


cdef class Iteration:
    """Base of the iterations of EM, without the M-step.

    `sums` are the sufficient statistics of the accumulated rows, see `amofa._kernels._statistics.accumulate`, and
    `soft_counts` (K,) the part of them with the count of each component.
    """

    def __cinit__(self, *_, **__):
        if type(self) is Iteration:
            raise TypeError("an iteration needs an M-step: make one of a subclass")

    cdef int bind(
        self, double[::1] parameters, const Py_ssize_t[::1] offsets, const double[::1] floor, bint full,
        bint with_entropy,
    ) except -1:
        cdef Py_ssize_t d = floor.shape[0], K = offsets.shape[0] - 1
        check_layout(offsets, d)
        self.prepared = np.empty(prepared_length(K, d, &offsets[0]))
        self.mixture = checked_mixture(self.prepared, offsets, d)
        check_parameters(&self.mixture, parameters)
        self.parameters, self.offsets, self.floor = parameters, offsets, floor
        self.full, self.with_entropy = full, with_entropy
        self.sums = np.zeros(sums_size(offsets, d, full))
        self.soft_counts = self.sums[2:2 + K]
        self.own_sums = self.sums
        self.scratch = np.empty(scratch_length(K, d, &offsets[0]))
        self.values = view_parameters(K, d, &parameters[0])
        self.totals = self.view(&self.own_sums[0])
        self.block = view_scratch(&self.mixture, &self.scratch[0])
        self.prepare()
        return 0

    cdef Sums view(self, double *buffer) noexcept:
        cdef Sums view = view_sums(self.mixture.n_components, self.mixture.n_features, self.full, buffer)
        if self.full:
            view.negligible = NEGLIGIBLE_IN_EM
        return view

    @property
    def n_components(self):
        return self.mixture.n_components

    @property
    def n_factors(self):
        """Number of factors of all components."""
        return self.offsets[self.mixture.n_components]

    @property
    def row_work(self):
        """Multiplications for each row beyond those of the E-step, if it belongs to one component."""
        return self.mixture.n_features * (self.mixture.n_features if self.full else self.n_factors)

    @property
    def merge_work(self):
        """Approximate number of additions of `add_sums`."""
        cdef Py_ssize_t d = self.mixture.n_features
        return self.mixture.n_components * d * d if self.full else self.own_sums.shape[0]

    @property
    def scratch_size(self):
        """Number of values of the scratch memory of a thread."""
        return self.scratch.shape[0]

    @property
    def log_likelihood(self):
        """Log-likelihood of the accumulated rows, in nats."""
        return self.totals.log_likelihood[0]

    @property
    def entropy(self):
        """Entropy of the responsibilities of the accumulated rows, in nats; 0 if it is not summed."""
        return self.totals.entropy[0]

    def prepare(self):
        """Prepare the parameters for the E-step; required after any change except by `maximize`.

        Raises FloatingPointError if the covariance of a component is singular.
        """
        cdef Py_ssize_t singular
        with nogil:
            singular = prepare_mixture(&self.values, &self.mixture)
        if singular:
            raise FloatingPointError(f"the covariance of component {singular - 1} is numerically singular")

    def clear(self):
        """Forget the accumulated rows."""
        memset(&self.own_sums[0], 0, self.own_sums.shape[0] * sizeof(double))

    def accumulate(
        self,
        const double[:, ::1] x not None,  # IN   (d, n)
        const double[::1] row_weights,  # IN   (n), or None for ones
        double[::1] sums=None,  # INOUT  as long as those of the iteration, added to
        double[::1] scratch=None,  # WORK  of `scratch_size` values
        unsigned char[:, :] near=None,  # OUT  (K, n), rows contiguous
        double[::1] kept=None,  # INOUT  (n), added to
        double least=0.0,
        const double[::1] background=None,  # IN   (n) log densities of a background
        double background_weight=0.0,
    ):
        """Add the sufficient statistics of the columns of x to sums.

        Several threads may do so at a time, each with its own sums and scratch memory. Without these arguments the sums
        are those of the iteration. Responsibilities above the least are marked in `near`, and summed for each row in
        `kept`, if these are given. With a background, responsibilities are for the components beside it.
        """
        cdef Sums totals
        cdef Scratch block
        if sums is None:
            sums, scratch = self.own_sums, self.scratch
        self.check_sums(sums)
        if scratch is None:
            raise ValueError("sums of their own need scratch memory of their own")
        check_work(&self.mixture, scratch)
        totals = self.view(&sums[0])
        if near is not None:
            if kept is None or near.shape[0] != self.mixture.n_components or (
                    near.shape[1] != x.shape[1] or kept.shape[0] != x.shape[1] or near.strides[1] != 1):
                raise ValueError("near and kept must have places for these rows")
            if x.shape[1]:
                totals.near, totals.near_stride, totals.near_least = &near[0, 0], near.strides[0], least
                totals.kept = &kept[0]
        if background is not None:
            if background.shape[0] != x.shape[1] or not 0.0 < background_weight < 1.0:
                raise ValueError("a background must have a log density for each row, and a weight between 0 and 1")
            if x.shape[1]:
                totals.background, totals.background_weight = &background[0], background_weight
        block = view_scratch(&self.mixture, &scratch[0])
        add_rows(x, row_weights, self.with_entropy, &self.mixture, &block, &totals)

    def add_sums(self, const double[::1] sums not None):
        """Add sums of other rows under the same mixture, wherever they were accumulated."""
        cdef Py_ssize_t i
        self.check_sums(sums)
        with nogil:
            for i in range(sums.shape[0]):
                self.own_sums[i] += sums[i]

    cdef int check_sums(self, const double[::1] sums) except -1:
        if sums.shape[0] != self.own_sums.shape[0]:
            raise ValueError("sums has the wrong length for this iteration")
        return 0

    def maximize(self):
        """Run the M-step, and prepare the new parameters for the next E-step.

        A component without rows keeps its mean, loadings and uniquenesses. Uniquenesses are at or above the floor.
        Raises FloatingPointError if moments are not finite, a covariance is singular, or no row has been counted.
        """
        self.set_maximizer()
        self.prepare()

    cdef int set_maximizer(self) except -1:
        """The M-step of a subclass, which every iteration is of."""
        return 0
