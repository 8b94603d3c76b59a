"""Maximum of the (penalised) likelihood of factor analysers, from their covariance matrices alone.

Given the uniquenesses Psi, the best loadings follow from the leading eigenvectors of Psi^-1/2 S Psi^-1/2, so that only
Psi is searched: by Newton steps in its logarithm (Joreskog 1967, Psychometrika 32:443; Lawley & Maxwell 1971), each
held to lower the cost. Several covariance matrices may share their uniquenesses.

Covariances of fewer rows than columns are best given by those rows, S = A' A: the eigenvectors then follow from the
small matrix A Psi^-1 A', only the diagonal of the Hessian is taken, and nothing of size d x d is ever made.
"""

from libc.math cimport INFINITY, NAN, exp, isfinite, log, sqrt, tanh
from libc.string cimport memcpy, memset

import numpy as np

from amofa._analyser cimport Point, Prices, Problem, log_cosh
from amofa._blas cimport (
    LEADING_FROM, LEADING_SHARE, cholesky_lower, eigen, eigen_work, eigenvalues, gemm, leading_eigen, solve_lower,
    syrk_lower)

# The largest step in the logarithm of a uniqueness.
cdef double LONGEST_STEP = 2.0
# Relative ridge of the Hessian, which is singular where loadings and uniquenesses are not identified.
cdef double RIDGE = 1e-3
# Share of the decrease that a step promises which it must keep, and how often it is shortened to a quarter.
cdef double SUFFICIENT = 1e-4
cdef int MOST_HALVINGS = 6
# Columns of a panel that are whitened at a time.
cdef enum:
    PANEL_BLOCK = 256


cdef class Solver:
    """Work space for factor analysers of d columns, for one caller at a time.

    Parameters
    ----------
    n_features : int
    n_matrices, n_factors : int
        Most covariance matrices, and factors of all of them, at a time.
    n_rows : int, optional
        Most rows of a panel. The solver then takes panels (`solve_panels`) instead of covariance matrices (`solve`),
        and its work space has no (d, d) array.

    Raises
    ------
    ValueError
        If there are no columns, or no matrices.
    """

    def __cinit__(
        self, Py_ssize_t n_features, Py_ssize_t n_matrices=1, Py_ssize_t n_factors=-1, Py_ssize_t n_rows=-1
    ):
        cdef Py_ssize_t d = n_features, side = n_features if n_rows < 0 else n_rows
        if d < 1 or n_matrices < 1:
            raise ValueError("a solver needs at least one column and one matrix")
        if n_factors < 0:
            n_factors = n_matrices * min(d, side)
        self.d, self.most_matrices, self.most_factors, self.most_rows = d, n_matrices, n_factors, n_rows
        cdef Py_ssize_t point = 2 * d + n_matrices * d + n_factors * d
        cdef Py_ssize_t second = d * d if n_rows < 0 else n_rows * min(d, <Py_ssize_t> PANEL_BLOCK)
        self.buffer = np.zeros(3 * point + side * side + second + side + 3 * d + eigen_work(side))
        cdef double *start = &self.buffer[0]
        view_point(&self.here, d, n_matrices, start)
        view_point(&self.there, d, n_matrices, start + point)
        view_point(&self.kept, d, n_matrices, start + 2 * point)
        self.whitened = start + 3 * point
        self.hessian = self.whitened + side * side
        self.spectrum = self.hessian + second
        self.step = self.spectrum + side
        self.curvature = self.step + d
        self.raw = self.curvature + d
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
        rows, sum_j prior_count log cosh(log(psi_j / s_j) / 2). The caller sees to it that ``uniquenesses``, ``floor``
        and ``prior_scale`` are positive. The search ends after ``max_steps``, or where a step promises no more than
        ``tol`` nats.

        Returns
        -------
        float
            The cost, never above that of the uniquenesses given with the best loadings for them.

        Raises
        ------
        ValueError
            If shapes do not agree, counts are not positive, or the solver has no room.
        FloatingPointError
            If a covariance matrix is not finite.
        """
        cdef Py_ssize_t d = self.d, K = covariances.shape[0]
        cdef Problem problem = self.checked_problem(
            K, counts, offsets, floor, prior_count, prior_scale, uniquenesses, loadings, spectra)
        if covariances.shape[1] != d or covariances.shape[2] != d:
            raise ValueError("shapes do not agree")
        if self.most_rows >= 0:
            raise ValueError("the solver was made for panels")
        problem.covariances = &covariances[0, 0, 0]
        return self.run(&problem, uniquenesses, loadings, spectra, max_steps, tol)

    def solve_panels(
        self,
        const double[:, ::1] panels not None,  # IN   (M, d)
        const Py_ssize_t[::1] row_offsets not None,  # IN   (K + 1)
        const double[::1] counts not None,  # IN   (K)
        const Py_ssize_t[::1] offsets not None,  # IN   (K + 1)
        const double[::1] floor not None,  # IN   (d)
        double prior_count,
        const double[::1] prior_scale not None,  # IN   (d)
        double[::1] uniquenesses not None,  # INOUT (d)
        double[:, ::1] loadings not None,  # OUT  (P, d)
        double[:, ::1] spectra not None,  # OUT  (K, d) as in `solve`; 0 beyond the rows of a panel
        Py_ssize_t max_steps,
        double tol,
    ):
        """The same as `solve` for the covariance matrices S_k = A_k' A_k, A_k the rows of panel k.

        Panel k is ``panels[row_offsets[k]:row_offsets[k + 1]]``: deviations from the mean over the root of their
        number. Cost O(m^2 (d + m)) a step for m rows.

        Returns
        -------
        float

        Raises
        ------
        ValueError, FloatingPointError
            As in `solve`.
        """
        cdef Py_ssize_t K = row_offsets.shape[0] - 1, k
        cdef Problem problem = self.checked_problem(
            K, counts, offsets, floor, prior_count, prior_scale, uniquenesses, loadings, spectra)
        if panels.shape[1] != self.d or row_offsets[0] != 0 or row_offsets[K] != panels.shape[0]:
            raise ValueError("shapes do not agree")
        for k in range(K):
            if not 0 <= row_offsets[k + 1] - row_offsets[k] <= self.most_rows:
                raise ValueError("panels must have no more rows than the solver was made for")
        if panels.shape[0]:
            problem.panels = &panels[0, 0]
        problem.row_offsets = &row_offsets[0]
        return self.run(&problem, uniquenesses, loadings, spectra, max_steps, tol)

    def choose(
        self,
        const double[:, ::1] moments not None,  # IN   (d, d) covariance; (m, d) rows where the solver takes panels
        double count,
        Py_ssize_t n_factors,
        const double[::1] prices not None,  # IN   (most + 1)
        double mean_price,
        double least_mean_price,
        const double[::1] floor not None,  # IN   (d)
        double prior_count,
        const double[::1] prior_scale not None,  # IN   (d)
        double[::1] uniquenesses not None,  # INOUT (d)
        double[:, ::1] loadings not None,  # OUT  (most, d), the first rows
        Py_ssize_t max_steps,
        double tol,
        double patience,
        double least_saving,
    ):
        """Choose the number of factors of one analyser, from the uniquenesses and the number given.

        The price of q factors is ``prices[q] + max(mean_price - log |Sigma|, least_mean_price) / 2`` nats. Factors are
        added while that saves ``least_saving``: as many at a time as pay with the uniquenesses as they are, or one on
        trial. With Psi fixed, factor j adds n/2 (l_j - 1 - log l_j) to the log-likelihood; a better Psi only adds to
        that. Then they are removed while that costs nothing: once in, they hold on to a column's noise. A trial is
        given up where ``patience`` times the decrease that its next step promises would not make it the better one.

        Returns
        -------
        cost : float
            Price included.
        n_factors : int

        Raises
        ------
        ValueError, FloatingPointError
            As in `solve`.
        """
        cdef Py_ssize_t d = self.d, most = prices.shape[0] - 1
        cdef Py_ssize_t[2] offsets, rows
        cdef Problem problem
        cdef Prices costs
        cdef double cost
        if (moments.shape[1] != d or floor.shape[0] != d or prior_scale.shape[0] != d or uniquenesses.shape[0] != d
                or loadings.shape[1] != d or (self.most_rows < 0 and moments.shape[0] != d)):
            raise ValueError("shapes do not agree")
        if not 0 <= n_factors <= most or loadings.shape[0] != most:
            raise ValueError("there must be a price of each number of factors, and room for their loadings")
        if most > self.most_factors or (self.most_rows >= 0 and moments.shape[0] > self.most_rows):
            raise ValueError("more factors or rows than the solver has room for")
        if not count > 0.0:
            raise ValueError("counts must be positive")
        memset(&problem, 0, sizeof(problem))
        problem.n_matrices, problem.prior_count = 1, prior_count
        problem.counts, problem.offsets = &count, offsets
        problem.floor, problem.prior_scale, problem.factors_alone = &floor[0], &prior_scale[0], True
        if self.most_rows < 0:
            problem.covariances = &moments[0, 0]
        else:
            problem.row_offsets = rows
            if moments.shape[0]:
                problem.panels = &moments[0, 0]
        rows[0], rows[1], offsets[0], offsets[1] = 0, moments.shape[0], 0, n_factors
        costs.most, costs.of_factors, costs.mean, costs.least_mean = most, &prices[0], mean_price, least_mean_price
        with nogil:
            self.start_from(&problem, &uniquenesses[0])
            cost = self.best_number(&problem, offsets, &costs, max_steps, tol, patience, least_saving)
            self.set_uniquenesses(&problem, &uniquenesses[0])
            if offsets[1]:
                self.set_loadings(1, offsets, &loadings[0, 0])
        if not isfinite(cost):
            raise FloatingPointError("a covariance matrix is not finite")
        return cost, offsets[1]

    cdef double best_number(
        self, const Problem *problem, Py_ssize_t *offsets, const Prices *prices, Py_ssize_t max_steps, double tol,
        double patience, double least_saving,
    ) noexcept nogil:
        """`choose` from ``here.log_noise`` and ``offsets[1]`` factors, for kernels: the end is left there."""
        cdef double cost = self.search(problem, max_steps, tol, INFINITY, 0.0) + self.price(offsets[1], prices, problem)
        cdef Py_ssize_t q = offsets[1], more, fewer
        while q < prices.most and isfinite(cost):
            more = self.paying_factors(problem, q, prices)
            if not more or not self.try_number(
                    problem, offsets, q + more, prices, &cost, cost - least_saving, max_steps, tol, patience):
                break
            q = offsets[1]
        while q > 0 and isfinite(cost):
            fewer = q - 1
            # Numbers beyond those that a covariance matrix can tell apart have the same price: go past them.
            while fewer and prices.of_factors[q] <= prices.of_factors[fewer]:
                fewer -= 1
            if not self.try_number(problem, offsets, fewer, prices, &cost, cost, max_steps, tol, patience):
                break
            q = offsets[1]
        return cost

    cdef Py_ssize_t paying_factors(self, const Problem *problem, Py_ssize_t q, const Prices *prices) noexcept nogil:
        """How many more factors save most with the uniquenesses as they are, 1 where none does; 0 if none is left."""
        cdef Py_ssize_t best = 0, j
        cdef double gain = 0.0, saved, most = 0.0, value
        self.complete_values(problem, q)
        if self.here.values[q] <= 1.0:
            return 0
        for j in range(q, prices.most):
            value = max(self.here.values[j], 1.0)
            gain += 0.5 * problem.counts[0] * (value - 1.0 - log(value))
            saved = gain - (prices.of_factors[j + 1] - prices.of_factors[q])
            if saved > most:
                best, most = j + 1 - q, saved
        return max(1, best)

    cdef void complete_values(self, const Problem *problem, Py_ssize_t q) noexcept nogil:
        """All eigenvalues here, where those of the q factors alone have been computed."""
        cdef Py_ssize_t d = self.d, i
        if not self.is_partial(problem, q):
            return
        for i in range(d):
            self.raw[i] = exp(-0.5 * self.here.log_noise[i])
        self.whiten_matrix(problem, 0, self.step, False)
        if eigenvalues(d, self.whitened, d, self.spectrum, self.work):
            return
        for i in range(q, d):
            self.here.values[i] = self.spectrum[d - 1 - i]

    cdef bint is_partial(self, const Problem *problem, Py_ssize_t p) noexcept nogil:
        """Whether of a matrix with p factors their eigenvalues alone are computed."""
        return (problem.factors_alone and problem.row_offsets == NULL
                and (p == 0 or (self.d >= LEADING_FROM and LEADING_SHARE * p <= self.d)))

    cdef bint try_number(
        self, const Problem *problem, Py_ssize_t *offsets, Py_ssize_t q, const Prices *prices, double *cost,
        double bar, Py_ssize_t max_steps, double tol, double patience,
    ) noexcept nogil:
        """Search with q factors. True, and there, where that is not above the bar; else False, and still here."""
        cdef Py_ssize_t before = offsets[1]
        cdef double found
        # The mean's price hardly changes.
        cdef double rest = bar - self.price(before, prices, problem)
        rest += prices.of_factors[before] - prices.of_factors[q]
        memcpy(self.kept.log_noise, self.here.log_noise, self.d * sizeof(double))
        self.here, self.kept = self.kept, self.here
        offsets[1] = q
        found = self.search(problem, max_steps, tol, rest, patience) + self.price(q, prices, problem)
        if found <= bar:
            cost[0] = found
            return True
        offsets[1] = before
        self.here, self.kept = self.kept, self.here
        return False

    cdef double price(self, Py_ssize_t q, const Prices *prices, const Problem *problem) noexcept nogil:
        """Of the analyser here."""
        cdef double log_determinant = 0.0
        cdef Py_ssize_t j
        for j in range(self.d):
            log_determinant += self.here.log_noise[j]
        for j in range(self.n_active(&self.here, problem.offsets, 0)):
            log_determinant += log(self.here.values[j])
        return prices.of_factors[q] + 0.5 * max(prices.mean - log_determinant, prices.least_mean)

    cdef Problem checked_problem(
        self, Py_ssize_t K, const double[::1] counts, const Py_ssize_t[::1] offsets, const double[::1] floor,
        double prior_count, const double[::1] prior_scale, const double[::1] uniquenesses,
        const double[:, ::1] loadings, const double[:, ::1] spectra,
    ):
        """The problem without its matrices."""
        cdef Py_ssize_t d = self.d, k
        cdef Problem problem
        if (counts.shape[0] != K or offsets.shape[0] != K + 1 or floor.shape[0] != d or prior_scale.shape[0] != d
                or uniquenesses.shape[0] != d or loadings.shape[0] != offsets[K] or loadings.shape[1] != d
                or spectra.shape[0] != K or spectra.shape[1] != d):
            raise ValueError("shapes do not agree")
        if K < 1 or K > self.most_matrices or offsets[K] > self.most_factors:
            raise ValueError("more matrices or factors than the solver has room for, or none")
        for k in range(K):
            if offsets[0] != 0 or offsets[k + 1] < offsets[k]:
                raise ValueError("offsets must rise from 0")
            if not counts[k] > 0.0:
                raise ValueError("counts must be positive")
        memset(&problem, 0, sizeof(problem))
        problem.n_matrices, problem.prior_count = K, prior_count
        problem.counts, problem.offsets = &counts[0], &offsets[0]
        problem.floor, problem.prior_scale = &floor[0], &prior_scale[0]
        return problem

    cdef double run(
        self, const Problem *problem, double[::1] uniquenesses, double[:, ::1] loadings, double[:, ::1] spectra,
        Py_ssize_t max_steps, double tol,
    ) except? -1:
        cdef Py_ssize_t d = self.d, K = problem.n_matrices
        cdef double cost
        with nogil:
            self.start_from(problem, &uniquenesses[0])
            cost = self.search(problem, max_steps, tol, INFINITY, 0.0)
            self.set_uniquenesses(problem, &uniquenesses[0])
            memcpy(&spectra[0, 0], self.here.values, K * d * sizeof(double))
            if problem.offsets[K]:
                self.set_loadings(K, problem.offsets, &loadings[0, 0])
        if not isfinite(cost):
            raise FloatingPointError("a covariance matrix is not finite")
        return cost

    cdef double minimize(
        self, Py_ssize_t K, const double *covariances, const double *counts, const Py_ssize_t *offsets,
        const double *floor, double prior_count, const double *prior_scale, Py_ssize_t max_steps, double tol,
    ) noexcept nogil:
        """`solve` from ``here.log_noise``, for kernels. Returns the cost, NaN where a matrix is not finite."""
        cdef Problem problem
        memset(&problem, 0, sizeof(problem))
        problem.n_matrices, problem.prior_count = K, prior_count
        problem.covariances, problem.counts, problem.offsets = covariances, counts, offsets
        problem.floor, problem.prior_scale, problem.factors_alone = floor, prior_scale, True
        return self.search(&problem, max_steps, tol, INFINITY, 0.0)

    cdef void start_from(self, const Problem *problem, const double *uniquenesses) noexcept nogil:
        cdef Py_ssize_t j
        for j in range(self.d):
            self.here.log_noise[j] = log(max(uniquenesses[j], problem.floor[j]))

    cdef void set_uniquenesses(self, const Problem *problem, double *uniquenesses) noexcept nogil:
        cdef Py_ssize_t j
        for j in range(self.d):
            uniquenesses[j] = max(exp(self.here.log_noise[j]), problem.floor[j])

    cdef double search(
        self, const Problem *problem, Py_ssize_t max_steps, double tol, double bar, double patience,
    ) noexcept nogil:
        """Newton steps from here; none where ``patience`` times what one promises does not lead below the bar."""
        cdef double promised
        self.evaluate(problem, &self.here)
        for _ in range(max_steps):
            promised = self.newton_step(problem)
            if not promised > tol or self.here.cost - patience * promised > bar:
                break
            if not self.move(problem, promised):
                break
        return self.here.cost

    cdef bint move(self, const Problem *problem, double promised) noexcept nogil:
        """Go along the step, as far as the cost falls enough. False, and still here, where it does not."""
        cdef Py_ssize_t j
        cdef double shrink = 1.0
        for _ in range(MOST_HALVINGS):
            for j in range(self.d):
                self.there.log_noise[j] = max(self.here.log_noise[j] + shrink * self.step[j], log(problem.floor[j]))
            self.evaluate(problem, &self.there)
            if self.there.cost <= self.here.cost - SUFFICIENT * shrink * promised:
                self.here, self.there = self.there, self.here
                return True
            shrink *= 0.25
        return False

    cdef void evaluate(self, const Problem *problem, Point *point) noexcept nogil:
        """Cost, gradient and eigenvectors at the point's uniquenesses, with the best loadings for them."""
        cdef Py_ssize_t d = self.d, j, k, q
        cdef const double *vector
        cdef double log_determinant = 0.0, trace, excess, value, half
        point.cost = 0.0
        for j in range(d):
            self.raw[j] = exp(-0.5 * point.log_noise[j])
            log_determinant += point.log_noise[j]
            point.gradient[j] = 0.0
        for k in range(problem.n_matrices):
            half = 0.5 * problem.counts[k]
            if problem.row_offsets == NULL:
                trace = self.whiten_matrix(
                    problem, k, point.gradient, problem.factors_alone and problem.offsets[k + 1] == problem.offsets[k])
            else:
                trace = self.whiten_panel(problem, k, point.gradient)
            if not self.decompose(problem, k, point):
                point.cost = NAN
                return
            point.cost += half * (log_determinant + trace)
            for q in range(self.n_active(point, problem.offsets, k)):
                value, vector = point.values[k * d + q], point.vectors + (problem.offsets[k] + q) * d
                point.cost += half * (log(value) + 1.0 - value)
                excess = half * (value - 1.0)
                for j in range(d):
                    point.gradient[j] += excess * vector[j] * vector[j]
        if problem.prior_count > 0.0:
            for j in range(d):
                value = 0.5 * (point.log_noise[j] - log(problem.prior_scale[j]))
                point.cost += problem.prior_count * log_cosh(value)
                point.gradient[j] += 0.5 * problem.prior_count * tanh(value)

    cdef double whiten_matrix(
        self, const Problem *problem, Py_ssize_t k, double *gradient, bint diagonal,
    ) noexcept nogil:
        """Psi^-1/2 S Psi^-1/2, its upper triangle or diagonal, and what it adds to the gradient. Returns its trace.

        The gradient is n/2 (modelled - sample variance) / psi; the factors' part is added later.
        """
        cdef Py_ssize_t d = self.d, i, j
        cdef const double *s = problem.covariances + k * d * d
        cdef const double *inverse = self.raw
        cdef double *a = self.whitened
        cdef double half = 0.5 * problem.counts[k], trace = 0.0
        for i in range(d):
            for j in range(i, i + 1 if diagonal else d):
                a[i * d + j] = s[i * d + j] * inverse[i] * inverse[j]
            trace += a[i * d + i]
            gradient[i] += half * (1.0 - a[i * d + i])
        return trace

    cdef double whiten_panel(self, const Problem *problem, Py_ssize_t k, double *gradient) noexcept nogil:
        """A Psi^-1 A' instead, which has the same trace and the same eigenvalues other than 0."""
        cdef Py_ssize_t d = self.d, m = problem.row_offsets[k + 1] - problem.row_offsets[k]
        cdef Py_ssize_t start = 0, width, i, j
        cdef const double *row
        cdef double *block = self.hessian
        cdef double *gram = self.whitened
        cdef double half = 0.5 * problem.counts[k], trace = 0.0
        while start < d:
            width = min(<Py_ssize_t> PANEL_BLOCK, d - start)
            for j in range(width):
                gradient[start + j] += half
            for i in range(m):
                row = problem.panels + (problem.row_offsets[k] + i) * d + start
                for j in range(width):
                    block[i * width + j] = row[j] * self.raw[start + j]
                    gradient[start + j] -= half * block[i * width + j] * block[i * width + j]
            syrk_lower(m, width, 1.0, block, width, 1.0 if start else 0.0, gram, m)
            start += width
        for i in range(m):
            trace += gram[i * m + i]
            for j in range(i):
                gram[j * m + i] = gram[i * m + j]
        return trace

    cdef bint decompose(self, const Problem *problem, Py_ssize_t k, Point *point) noexcept nogil:
        """Eigenvalues, falling, and leading eigenvectors of the whitened covariance k. False where they are not finite.

        Only the eigenvectors whose eigenvalues are above 1 are used. Of few factors, or none, others are not made.
        """
        cdef Py_ssize_t d = self.d, p = min(problem.offsets[k + 1] - problem.offsets[k], d)
        if problem.row_offsets != NULL:
            return self.decompose_panel(problem, k, point)
        if self.is_partial(problem, p):
            return p == 0 or self.decompose_leading(problem, k, p, point)
        if eigen(d, self.whitened, d, self.spectrum, self.work):
            return False
        return self.keep(problem, k, d, d, self.whitened, point, point.vectors + problem.offsets[k] * d)

    cdef bint decompose_leading(
        self, const Problem *problem, Py_ssize_t k, Py_ssize_t p, Point *point,
    ) noexcept nogil:
        if leading_eigen(self.d, p, self.whitened, self.d, self.spectrum, self.hessian, self.work):
            return False
        return self.keep(problem, k, self.d, p, self.hessian, point, point.vectors + problem.offsets[k] * self.d)

    cdef bint decompose_panel(self, const Problem *problem, Py_ssize_t k, Point *point) noexcept nogil:
        cdef Py_ssize_t n = problem.row_offsets[k + 1] - problem.row_offsets[k], p
        if eigen(n, self.whitened, n, self.spectrum, self.work):
            return False
        if not self.keep(problem, k, n, n, self.whitened, point, self.work):
            return False
        p = self.n_active(point, problem.offsets, k)
        if p:
            self.panel_vectors(problem, k, p, point.values + k * self.d, point.vectors + problem.offsets[k] * self.d)
        return True

    cdef bint keep(
        self, const Problem *problem, Py_ssize_t k, Py_ssize_t n, Py_ssize_t m, const double *vectors, Point *point,
        double *target,
    ) noexcept nogil:
        """Put m eigenvalues of ``spectrum``, rising, into the point, and active vectors of length n where they belong.

        False where a covariance is not finite: without factors nothing else looks at what is off its diagonal.
        """
        cdef Py_ssize_t d = self.d, i, q
        cdef double *values = point.values + k * d
        for i in range(d):
            values[i] = self.spectrum[m - 1 - i] if i < m else 0.0
        if not isfinite(values[0]):
            return False
        for q in range(self.n_active(point, problem.offsets, k)):
            memcpy(target + q * n, vectors + (m - 1 - q) * n, n * sizeof(double))
        return True

    cdef void panel_vectors(
        self, const Problem *problem, Py_ssize_t k, Py_ssize_t p, const double *values, double *vectors,
    ) noexcept nogil:
        """u = Psi^-1/2 A' v / l^1/2, from the p eigenvectors v of the small matrix in the work space."""
        cdef Py_ssize_t d = self.d, first = problem.row_offsets[k], m = problem.row_offsets[k + 1] - first, j, q
        cdef double scale
        gemm(b"N", b"N", p, d, m, 1.0, self.work, m, problem.panels + first * d, d, 0.0, vectors, d)
        for q in range(p):
            scale = 1.0 / sqrt(values[q])
            for j in range(d):
                vectors[q * d + j] *= scale * self.raw[j]

    cdef Py_ssize_t n_active(self, const Point *point, const Py_ssize_t *offsets, Py_ssize_t k) noexcept nogil:
        """Factors of component k that explain something: those with eigenvalues above 1."""
        cdef Py_ssize_t p = min(offsets[k + 1] - offsets[k], self.d)
        while p > 0 and point.values[k * self.d + p - 1] <= 1.0:
            p -= 1
        return p

    cdef bint any_active(self, const Problem *problem) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(problem.n_matrices):
            if self.n_active(&self.here, problem.offsets, k):
                return True
        return False

    cdef double newton_step(self, const Problem *problem) noexcept nogil:
        """The step from here, with the approximate Hessian n/2 (I - U U')^2 (elementwise). Returns what it promises."""
        cdef Py_ssize_t j
        cdef double promised = 0.0, value
        cdef Point *point = &self.here
        memset(self.curvature, 0, self.d * sizeof(double))
        if problem.prior_count > 0.0:
            for j in range(self.d):
                value = tanh(0.5 * (point.log_noise[j] - log(problem.prior_scale[j])))
                self.curvature[j] = 0.25 * problem.prior_count * (1.0 - value * value)
        # Without factors the Hessian is diagonal.
        if problem.row_offsets == NULL and self.any_active(problem):
            self.dense_step(problem)
        else:
            self.diagonal_step(problem)
        for j in range(self.d):
            self.step[j] = max(-LONGEST_STEP, min(LONGEST_STEP, self.step[j]))
            value = max(self.step[j], log(problem.floor[j]) - point.log_noise[j])
            promised -= value * point.gradient[j]
        return promised

    cdef void dense_step(self, const Problem *problem) noexcept nogil:
        cdef Py_ssize_t d = self.d, i, j, k, p
        cdef double *h = self.hessian
        cdef double *projector = self.whitened
        cdef const double *vectors
        cdef double half, largest = 0.0
        memset(h, 0, d * d * sizeof(double))
        for k in range(problem.n_matrices):
            half = 0.5 * problem.counts[k]
            p = self.n_active(&self.here, problem.offsets, k)
            vectors = self.here.vectors + problem.offsets[k] * d
            if p:
                gemm(b"T", b"N", d, d, p, -1.0, vectors, d, vectors, d, 0.0, projector, d)
            else:
                memset(projector, 0, d * d * sizeof(double))
            for i in range(d):
                projector[i * d + i] += 1.0
                for j in range(i + 1):
                    h[i * d + j] += half * projector[i * d + j] * projector[i * d + j]
        for j in range(d):
            h[j * d + j] += self.curvature[j]
            largest = max(largest, h[j * d + j])
        for j in range(d):
            if self.is_held(problem, j):
                self.step[j] = 0.0
                for i in range(d):
                    h[max(i, j) * d + min(i, j)] = 0.0
                h[j * d + j] = 1.0
            else:
                self.step[j] = -self.here.gradient[j]
                h[j * d + j] += RIDGE * largest
        if cholesky_lower(d, h, d):
            memset(self.step, 0, d * sizeof(double))
            return
        solve_lower(b"N", d, 1, h, d, self.step, 1)
        solve_lower(b"T", d, 1, h, d, self.step, 1)

    cdef void diagonal_step(self, const Problem *problem) noexcept nogil:
        """With the diagonal of the Hessian alone: n/2 (1 - sum_q u_qj^2)^2."""
        cdef Py_ssize_t d = self.d, j, k, q
        cdef double *left = self.raw
        cdef const double *vector
        cdef double largest = 0.0
        for k in range(problem.n_matrices):
            for j in range(d):
                left[j] = 1.0
            for q in range(self.n_active(&self.here, problem.offsets, k)):
                vector = self.here.vectors + (problem.offsets[k] + q) * d
                for j in range(d):
                    left[j] -= vector[j] * vector[j]
            for j in range(d):
                self.curvature[j] += 0.5 * problem.counts[k] * left[j] * left[j]
        for j in range(d):
            largest = max(largest, self.curvature[j])
        for j in range(d):
            self.step[j] = (
                0.0 if self.is_held(problem, j) else -self.here.gradient[j] / (self.curvature[j] + RIDGE * largest))

    cdef bint is_held(self, const Problem *problem, Py_ssize_t j) noexcept nogil:
        """At the floor and pressed against it: not free."""
        return self.here.gradient[j] > 0.0 and exp(self.here.log_noise[j]) <= problem.floor[j] * (1.0 + 1e-12)

    cdef void set_loadings(self, Py_ssize_t K, const Py_ssize_t *offsets, double *loadings) noexcept nogil:
        """Lambda' = (l - 1)^1/2 u Psi^1/2, one row per factor; 0 where a factor explains nothing."""
        cdef Py_ssize_t d = self.d, j, k, q, p
        cdef double scale
        cdef const double *vector
        for j in range(d):
            self.raw[j] = exp(0.5 * self.here.log_noise[j])
        memset(loadings, 0, offsets[K] * d * sizeof(double))
        for k in range(K):
            p = self.n_active(&self.here, offsets, k)
            for q in range(offsets[k], offsets[k] + p):
                scale = sqrt(self.here.values[k * d + q - offsets[k]] - 1.0)
                vector = self.here.vectors + q * d
                for j in range(d):
                    loadings[q * d + j] = scale * vector[j] * self.raw[j]


cdef void view_point(Point *point, Py_ssize_t d, Py_ssize_t K, double *start) noexcept nogil:
    point.log_noise = start
    point.gradient = start + d
    point.values = start + 2 * d
    point.vectors = point.values + K * d
