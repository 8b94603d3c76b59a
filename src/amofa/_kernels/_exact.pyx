"""One EM iteration in which each factor analyser is maximised exactly from its scatter matrix, only labels missing."""

from libc.math cimport INFINITY, exp, fabs, isfinite, log, sqrt, tanh
from libc.string cimport memcpy, memset

import numpy as np

from amofa._kernels._analyser cimport Solver
from amofa._kernels._blas cimport eigen, eigen_work
from amofa._kernels._newton cimport log_cosh, set_loadings
from amofa._kernels._posterior cimport (
    Parameters, Prepared, Scratch, check_layout, check_parameters, check_rows, check_work, checked_mixture,
    prepare_mixture, view_parameters, view_scratch)
from amofa._kernels._statistics cimport Scatter, accumulate_scatter_rows, set_moments

# How the uniquenesses are tied, as `amofa._em.factor_analysis.NOISE` numbers it.
cdef enum:
    COMPONENT = 0
    SHARED = 1
    ISOTROPIC = 2


cdef class ExactIterationPart
cdef class StepSpace


cdef class ExactIteration:
    """The E-step and the exact M-step of one mixture, on buffers of the caller.

    Parameters
    ----------
    parameters : (K + 2 K d + P d,) float64
        The mixture; the maximiser after `maximize`.
    offsets : (K + 1,) intp
    prepared : float64
        The mixture in the form of the E-step, kept up to date. Lengths: `amofa._kernels._posterior.buffer_lengths`.
    floor : (d,) float64
        Smallest uniqueness of each column.
    prior_count : float
        Rows that the prior of the uniquenesses is worth, see `amofa._kernels._analyser.Solver`.
    prior_scale : (d,) float64
    scratch : float64
        Length: `amofa._kernels._posterior.buffer_lengths`.
    noise : int
        0: uniquenesses of each component, 1: shared by all, 2: one value for each component.
    with_entropy : bool

    Attributes
    ----------
    soft_counts, means, covariances : (K,), (K, d), (K, d, d) float64
        Moments under the responsibilities of the last E-step, after `finish`.

    Raises
    ------
    ValueError
        If a buffer has the wrong length.
    """

    cdef const Py_ssize_t[::1] offsets
    cdef const double[::1] floor, prior_scale
    cdef double[::1] parameters, prepared, scratch
    cdef readonly object soft_counts, means, covariances
    cdef double[::1] counts
    cdef double[:, ::1] first
    cdef double[:, :, ::1] scatter
    cdef readonly double log_likelihood, entropy
    cdef double prior_count
    cdef int noise
    cdef bint with_entropy
    cdef Prepared mixture
    cdef Parameters values
    cdef Scratch block
    cdef Scatter sums
    cdef StepSpace space
    cdef list spare

    def __cinit__(
        self,
        double[::1] parameters not None,
        const Py_ssize_t[::1] offsets not None,
        double[::1] prepared not None,
        const double[::1] floor not None,
        double prior_count,
        const double[::1] prior_scale not None,
        double[::1] scratch not None,
        int noise,
        bint with_entropy=False,
    ):
        cdef Py_ssize_t d = floor.shape[0], K = offsets.shape[0] - 1
        self.mixture = checked_mixture(prepared, offsets, d)
        check_parameters(&self.mixture, parameters)
        check_work(&self.mixture, scratch)
        if prior_scale.shape[0] != d:
            raise ValueError("prior_scale must have one value per feature")
        self.parameters, self.offsets, self.prepared = parameters, offsets, prepared
        self.floor, self.prior_scale, self.scratch = floor, prior_scale, scratch
        self.prior_count, self.noise, self.with_entropy = prior_count, noise, with_entropy
        self.soft_counts, self.means, self.covariances = np.zeros(K), np.zeros((K, d)), np.zeros((K, d, d))
        self.counts, self.first, self.scatter = self.soft_counts, self.means, self.covariances
        self.space = None
        self.values = view_parameters(K, d, &parameters[0])
        self.block = view_scratch(&self.mixture, &scratch[0])
        self.sums.log_likelihood, self.sums.entropy = &self.log_likelihood, &self.entropy
        self.sums.soft_counts, self.sums.first = &self.counts[0], &self.first[0, 0]
        self.sums.scatter = &self.scatter[0, 0, 0]
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
        """Multiplications for each row beyond those of the E-step, if it belongs to one component."""
        return self.mixture.n_features * self.mixture.n_features

    @property
    def scratch_size(self):
        """Values of the scratch memory that a thread needs."""
        return self.scratch.shape[0]

    @property
    def size(self):
        """Values of the sums."""
        return self.scatter.size

    def clear(self):
        """Forget the rows accumulated."""
        cdef Py_ssize_t d = self.mixture.n_features, K = self.mixture.n_components
        self.log_likelihood = self.entropy = 0.0
        memset(self.sums.soft_counts, 0, K * sizeof(double))
        memset(self.sums.first, 0, K * d * sizeof(double))
        memset(self.sums.scatter, 0, K * d * d * sizeof(double))

    def accumulate(
        self,
        const double[:, ::1] x not None,  # IN   (d, n)
        const double[::1] row_weights,  # IN   (n), or None for ones
    ):
        """Add the moments of the columns of x. Cost O(n K d^2)."""
        add_rows(x, row_weights, self.with_entropy, &self.mixture, &self.block, &self.sums)

    def part(self):
        """Sums of their own for some of the rows; for `add`, which keeps their memory for another time."""
        try:
            return self.spare.pop()
        except IndexError:
            return ExactIterationPart(self)

    def add(self, ExactIterationPart part not None):
        """Add the sums of a part, which is given back so.

        Raises
        ------
        ValueError
            If it is not one of this iteration's.
        """
        if (part.mixture.weights != self.mixture.weights or part.mixture.n_features != self.mixture.n_features
                or part.mixture.n_components != self.mixture.n_components):
            raise ValueError("part belongs to another iteration")
        with nogil:
            merge(self.mixture.n_components, self.mixture.n_features, &part.sums, &self.sums)
        self.spare.append(part)

    def finish(self):
        """Turn the sums into moments: `means`, and `covariances` about them, whole matrices.

        Returns
        -------
        float
            The smallest soft count.
        """
        cdef Py_ssize_t d = self.mixture.n_features, k
        cdef double least = INFINITY
        cdef double *first
        cdef double *scatter
        with nogil:
            for k in range(self.mixture.n_components):
                least = min(least, self.counts[k])
                first, scatter = self.sums.first + k * d, self.sums.scatter + k * d * d
                set_moments(d, self.counts[k], self.mixture.means + k * d, first, scatter, first, scatter)
        return least

    def log_determinants(self):
        """Logarithms of the determinants of the components' covariance matrices, a list."""
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

    def maximize(self, Py_ssize_t max_steps=1):
        """M-step after `finish`: weights and means, and loadings and uniquenesses by at most so many Newton steps.

        Raises
        ------
        FloatingPointError
            If moments are not finite or a covariance is singular.
        """
        cdef Py_ssize_t k
        cdef bint finite = True
        if self.space is None:
            self.space = self.step_space()
        self.begin_step()
        with nogil:
            for k in range(1 if self.noise == SHARED else self.mixture.n_components):
                finite = finite and self.maximize_component(k, max_steps, self.space)
        if not finite:
            raise FloatingPointError("moments of a component are not finite")
        self.end_step()

    def begin_step(self):
        """The M-step in pieces: the weights. `step` is then due for each component, and `end_step` after them."""
        cdef Py_ssize_t k
        cdef double total = 0.0
        for k in range(self.mixture.n_components):
            total += self.counts[k]
        if not (total > 0.0 and isfinite(total)):
            raise FloatingPointError("moments of a component are not finite")
        for k in range(self.mixture.n_components):
            self.values.weights[k] = self.counts[k] / total

    def step_space(self):
        """Work space for `step`, one for each thread."""
        return StepSpace(self.offsets, self.mixture.n_features, self.noise)

    def step(self, Py_ssize_t k, StepSpace space not None, Py_ssize_t max_steps=1):
        """The M-step of component k; of all components for k = 0 where they share their uniquenesses."""
        cdef bint finite
        if not 0 <= k < self.mixture.n_components:
            raise IndexError("there is no such component")
        if not space.fits(self.offsets, self.mixture.n_features, self.noise):
            raise ValueError("space was made for another iteration")
        with nogil:
            finite = self.maximize_component(k, max_steps, space)
        if not finite:
            raise FloatingPointError("moments of a component are not finite")

    def end_step(self):
        """Prepare the new mixture for the next E-step."""
        cdef Py_ssize_t singular
        with nogil:
            singular = prepare_mixture(&self.values, &self.mixture)
        if singular:
            raise FloatingPointError(f"the covariance of component {singular - 1} is numerically singular")

    def prior_cost(self):
        """Minus the log of the prior density of all uniquenesses over its largest value; tied ones count once."""
        cdef Py_ssize_t d = self.mixture.n_features, K = self.mixture.n_components, j, k
        cdef double total = 0.0, scale = 0.0
        if self.prior_count == 0.0:
            return 0.0
        with nogil:
            for j in range(d):
                scale += self.prior_scale[j] / d
            for k in range(1 if self.noise == SHARED else K):
                for j in range(1 if self.noise == ISOTROPIC else d):
                    if self.noise != ISOTROPIC:
                        scale = self.prior_scale[j]
                    total += log_cosh(0.5 * log(self.values.uniquenesses[k * d + j] / scale))
        return self.prior_count * total

    cdef bint maximize_component(self, Py_ssize_t k, Py_ssize_t max_steps, StepSpace space) noexcept nogil:
        cdef Py_ssize_t d = self.mixture.n_features, K = self.mixture.n_components, j
        for j in range(0 if self.noise == SHARED else k, K if self.noise == SHARED else k + 1):
            # A component without rows keeps its mean, loadings and uniquenesses.
            if self.counts[j] > 0.0:
                memcpy(self.values.means + j * d, self.sums.first + j * d, d * sizeof(double))
        if self.noise == SHARED:
            return self.maximize_group(0, K, max_steps, space.solver)
        if not self.counts[k] > 0.0:
            return True
        if self.noise == ISOTROPIC:
            return self.maximize_isotropic(k, &space.work[0])
        return self.maximize_group(k, k + 1, max_steps, space.solver)

    cdef bint maximize_group(
        self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t max_steps, Solver solver
    ) noexcept nogil:
        """Components first .. last - 1, which share their uniquenesses."""
        cdef Py_ssize_t d = self.mixture.n_features, j, k
        cdef double *noise = self.values.uniquenesses + first * d
        cdef double cost
        cdef Py_ssize_t[2] single
        cdef const Py_ssize_t *offsets = &self.offsets[0]
        if last - first == 1:
            single[0], single[1] = 0, offsets[last] - offsets[first]
            offsets = single
        for j in range(d):
            solver.space.here.log_noise[j] = log(max(noise[j], self.floor[j]))
        cost = solver.minimize(
            last - first, self.sums.scatter + first * d * d, self.sums.soft_counts + first, offsets, &self.floor[0],
            self.prior_count, &self.prior_scale[0], max_steps, 0.0)
        if not isfinite(cost):
            return False
        for j in range(d):
            noise[j] = max(exp(solver.space.here.log_noise[j]), self.floor[j])
        for k in range(first + 1, last):
            memcpy(self.values.uniquenesses + k * d, noise, d * sizeof(double))
        set_loadings(&solver.space, last - first, offsets, self.values.loadings + self.offsets[first] * d)
        return True

    cdef bint maximize_isotropic(self, Py_ssize_t k, double *work) noexcept nogil:
        """One variance for all columns: the maximum is known (Tipping & Bishop 1999), with the prior, too."""
        cdef Py_ssize_t d = self.mixture.n_features, p = self.offsets[k + 1] - self.offsets[k], i, j, q, active
        cdef double *a = work
        cdef double *values = a + d * d
        cdef double n = self.sums.soft_counts[k], rest, variance, scale, floor
        cdef double *loadings = self.values.loadings + self.offsets[k] * d
        cdef double *noise = self.values.uniquenesses + k * d
        memcpy(a, self.sums.scatter + k * d * d, d * d * sizeof(double))
        if eigen(d, a, d, values, values + d):
            return False
        scale = 0.0
        floor = self.floor[0]
        for j in range(d):
            scale += self.prior_scale[j] / d
            floor = max(floor, self.floor[j])
        # Factors that the prior lifts the noise above are noise, too.
        active = min(p, d - 1)
        while True:
            rest = 0.0
            for i in range(d - active):
                rest += max(values[i], 0.0)
            variance = isotropic_variance(n * (d - active), n * rest, self.prior_count, scale, floor)
            if active == 0 or values[d - active] >= variance:
                break
            active -= 1
        if not isfinite(variance):
            return False
        for j in range(d):
            noise[j] = variance
        for q in range(min(p, d)):
            scale = sqrt(max(values[d - 1 - q] - variance, 0.0))
            for j in range(d):
                loadings[q * d + j] = scale * a[(d - 1 - q) * d + j]
        # There are no more eigenvectors than columns.
        for j in range(min(p, d) * d, p * d):
            loadings[j] = 0.0
        return True


cdef class StepSpace:
    """Work space of the M-step of one component at a time, or of all where they share their uniquenesses.

    Parameters
    ----------
    offsets : (K + 1,) intp
    n_features : int
    noise : int
        As for `ExactIteration`.
    """

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
        # First of all: it refuses sizes whose squares would wrap round below.
        self.solver = Solver(d, K, offsets[K]) if noise == SHARED else Solver(d, 1, most)
        self.work = np.empty(d * d + d + eigen_work(d))

    cdef bint fits(self, const Py_ssize_t[::1] offsets, Py_ssize_t d, int noise) noexcept nogil:
        return self.offsets.shape[0] == offsets.shape[0] and &self.offsets[0] == &offsets[0] and (
            self.d == d and self.noise == noise)


cdef class ExactIterationPart:
    """Sums over some of an iteration's rows, for a thread of its own to fill.

    Parameters
    ----------
    whole : ExactIteration
        Whose mixture must not change meanwhile.
    """

    cdef const Py_ssize_t[::1] offsets
    cdef double[::1] prepared, buffer
    cdef bint with_entropy
    cdef Prepared mixture
    cdef Scatter sums

    def __cinit__(self, ExactIteration whole not None):
        cdef Py_ssize_t d = whole.mixture.n_features, K = whole.mixture.n_components
        # Not the iteration itself: it keeps its parts, and a circle would outlive its use.
        self.offsets, self.prepared, self.mixture = whole.offsets, whole.prepared, whole.mixture
        self.with_entropy = whole.with_entropy
        self.buffer = np.zeros(2 + K + K * d + K * d * d)
        self.sums.log_likelihood, self.sums.entropy = &self.buffer[0], &self.buffer[1]
        self.sums.soft_counts, self.sums.first = &self.buffer[2], &self.buffer[2 + K]
        self.sums.scatter = &self.buffer[2 + K + K * d]

    def accumulate(
        self,
        const double[:, ::1] x not None,  # IN   (d, n)
        const double[::1] row_weights,  # IN   (n), or None for ones
        double[::1] scratch not None,  # WORK, of the thread's own, as long as that of the iteration
    ):
        """Add the moments of the columns of x, as `ExactIteration.accumulate`."""
        check_work(&self.mixture, scratch)
        cdef Scratch block = view_scratch(&self.mixture, &scratch[0])
        add_rows(x, row_weights, self.with_entropy, &self.mixture, &block, &self.sums)


cdef int add_rows(
    const double[:, ::1] x, const double[::1] row_weights, bint with_entropy, const Prepared *mixture, Scratch *block,
    Scatter *sums,
) except -1:
    cdef Py_ssize_t n = x.shape[1]
    if x.shape[0] != mixture.n_features:
        raise ValueError("x must have one row per feature")
    check_rows(n, row_weights)
    if n == 0:
        return 0
    cdef const double *w = &row_weights[0] if row_weights is not None else NULL
    with nogil:
        accumulate_scatter_rows(n, &x[0, 0], n, w, with_entropy, mixture, block, sums)
    return 0


cdef void merge(Py_ssize_t K, Py_ssize_t d, Scatter *part, Scatter *whole) noexcept nogil:
    """Add sums, of the scatter matrices lower triangles, to others; they are 0 afterwards."""
    cdef Py_ssize_t i, k
    move_values(1, part.log_likelihood, whole.log_likelihood)
    move_values(1, part.entropy, whole.entropy)
    move_values(K, part.soft_counts, whole.soft_counts)
    move_values(K * d, part.first, whole.first)
    for k in range(K):
        for i in range(d):
            move_values(i + 1, part.scatter + (k * d + i) * d, whole.scatter + (k * d + i) * d)


cdef void move_values(Py_ssize_t n, double *source, double *target) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        target[i] += source[i]
        source[i] = 0.0


cdef double isotropic_variance(
    double count, double total, double prior_count, double prior_scale, double floor,
) noexcept nogil:
    """Minimum of count/2 log v + total/(2 v) + prior_count log cosh(log(v / prior_scale) / 2) over v >= floor.

    Convex in log v: Newton's method from the side on which it cannot overshoot.
    """
    cdef double center = log(prior_scale), x, step, slope, tail
    cdef int _i
    x = log(max(total / count, floor)) if total > 0.0 else log(floor)
    for _i in range(100):
        tail = tanh(0.5 * (x - center))
        slope = 0.5 * (count - total * exp(-x) + prior_count * tail)
        step = slope / (0.5 * total * exp(-x) + 0.25 * prior_count * (1.0 - tail * tail) + 1e-300)
        step = max(-1.0, min(1.0, step))
        x -= step
        if fabs(step) < 1e-14:
            break
    return max(exp(x), floor)


def best_isotropic_variance(double count, double total, double prior_count, double prior_scale, double floor):
    """The variance of isotropic noise for ``count`` values with the sum of squares ``total``, and the prior."""
    return isotropic_variance(count, total, prior_count, prior_scale, floor)
