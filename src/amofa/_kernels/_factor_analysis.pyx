"""The maximum of the (penalised) likelihood of factor analysers, from their covariance matrices only.

Given the uniquenesses Psi, the best loadings follow from the leading eigenvectors of Psi^-1/2 S Psi^-1/2, so that only
Psi is searched: by Newton steps in its logarithm (Joreskog 1967, Psychometrika 32:443; Lawley & Maxwell 1971), each
of which lowers the cost. Several covariance matrices may share their uniquenesses.

With fewer rows than columns, covariances are best given by the rows, S = A' A: the eigenvectors then follow from the
small matrix A Psi^-1 A', only the diagonal of the Hessian is used, and no d x d array is made.
"""

from libc.math cimport INFINITY, isfinite
from libc.string cimport memcpy, memset

import numpy as np

from amofa._kernels._newton cimport (
    Prices, Problem, best_number, best_number_given_noise, is_space_too_large, search, set_loadings,
    set_principal_noise, set_uniquenesses, space_length, start_from, start_near, view_space)

# A Newton step that promises less than this for each row, in nats, is not worth its evaluation, nor would rounding show
# whether the cost falls.
cdef double LEAST_PROMISE = 1e-12


cdef class Solver:
    """Work space for factor analysers of d columns, for one caller at a time.

    It is for at most `n_matrices` covariance matrices with `n_factors` factors in all at a time. With `n_rows`, the
    maximum number of rows of a panel, the solver takes panels (`solve_panels`) instead of covariance matrices
    (`solve`), and its work space has no (d, d) array. Raises ValueError if there are no columns or matrices, or more
    than any memory holds.
    """

    def __cinit__(
        self, Py_ssize_t n_features, Py_ssize_t n_matrices=1, Py_ssize_t n_factors=-1, Py_ssize_t n_rows=-1
    ):
        cdef Py_ssize_t d = n_features, side = n_features if n_rows < 0 else n_rows
        if d < 1 or n_matrices < 1:
            raise ValueError("a solver needs at least one column and one matrix")
        if is_space_too_large(d, n_matrices, max(n_factors, 0), n_rows):
            raise ValueError("a solver of this size is more than any memory holds")
        if n_factors < 0:
            n_factors = n_matrices * min(d, side)
            if is_space_too_large(d, n_matrices, n_factors, n_rows):
                raise ValueError("a solver of this size is more than any memory holds")
        self.most_matrices, self.most_factors, self.most_rows = n_matrices, n_factors, n_rows
        self.buffer = np.zeros(space_length(d, n_matrices, n_factors, n_rows))
        self.space = view_space(d, n_matrices, n_factors, n_rows, &self.buffer[0])

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
        bint factors_alone=False,
    ):
        """Find uniquenesses and loadings that lower the cost, from the given uniquenesses.

        The cost is sum_k n_k/2 (log |Sigma_k| + tr(Sigma_k^-1 S_k)) in nats, plus that of a prior of ``prior_count``
        rows, sum_j prior_count log cosh(log(psi_j / s_j) / 2). ``uniquenesses``, ``floor`` and ``prior_scale`` must be
        positive. The search ends after ``max_steps``, or when a step promises at most ``tol`` nats. With
        ``factors_alone``, eigenvalues that do not belong to factors may be left out, as 0, which is faster with few
        factors.

        Returns the cost, at most that of the given uniquenesses with the best loadings for them. Raises ValueError if
        shapes do not agree, counts are not positive, or the solver has no room, and FloatingPointError if a covariance
        matrix is not finite.
        """
        cdef Py_ssize_t d = self.space.d, K = covariances.shape[0]
        cdef Problem problem = self.checked_problem(
            K, counts, offsets, floor, prior_count, prior_scale, uniquenesses, loadings, spectra)
        if covariances.shape[1] != d or covariances.shape[2] != d:
            raise ValueError("shapes do not agree")
        if self.most_rows >= 0:
            raise ValueError("the solver was made for panels")
        problem.covariances, problem.factors_alone = &covariances[0, 0, 0], factors_alone
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
        """Do the same as `solve` for the covariance matrices S_k = A_k' A_k, with A_k the rows of panel k.

        Panel k is ``panels[row_offsets[k]:row_offsets[k + 1]]``: deviations from the mean, divided by the root of
        their number. A step costs O(m^2 (d + m)) for m rows. Returns and raises what `solve` does.
        """
        cdef Py_ssize_t K = row_offsets.shape[0] - 1, k
        cdef Problem problem = self.checked_problem(
            K, counts, offsets, floor, prior_count, prior_scale, uniquenesses, loadings, spectra)
        if panels.shape[1] != self.space.d or row_offsets[0] != 0 or row_offsets[K] != panels.shape[0]:
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
        """Choose the number of factors of one analyser, from the given uniquenesses and number.

        The price of q factors is ``prices[q] + max(mean_price - log |Sigma|, least_mean_price) / 2`` nats. Factors are
        added while that saves ``least_saving``: as many at a time as pay with the present uniquenesses, or one on
        trial; if they do not pay, one more is tried. With Psi fixed, factor j adds n/2 (l_j - 1 - log l_j) to the
        log-likelihood; a better Psi only adds to that. Then they are removed while that costs nothing, since they
        absorb the noise of columns. A trial is given up if ``patience`` times the decrease that its next step promises
        would not make it better.

        Returns the cost, including the price, and the number of factors. Raises what `solve` does.
        """
        cdef Py_ssize_t[2] offsets, rows
        cdef Problem problem = self.problem_of_one(moments, count, floor, uniquenesses, loadings, offsets, rows)
        cdef Prices costs = self.checked_prices(prices, mean_price, least_mean_price, loadings)
        cdef double cost
        if prior_scale.shape[0] != self.space.d:
            raise ValueError("shapes do not agree")
        if not 0 <= n_factors <= costs.most:
            raise ValueError("there must be a price of each number of factors, and room for their loadings")
        offsets[1], problem.prior_count, problem.prior_scale = n_factors, prior_count, &prior_scale[0]
        with nogil:
            start_from(&self.space, &problem, &uniquenesses[0])
            cost = best_number(&self.space, &problem, offsets, &costs, max_steps, tol, patience, least_saving)
            set_uniquenesses(&self.space, &problem, &uniquenesses[0])
            set_loadings(&self.space, 1, offsets, &loadings[0, 0] if offsets[1] else NULL)
        if not isfinite(cost):
            raise FloatingPointError("a covariance matrix is not finite")
        return cost, offsets[1]

    def choose_principal(
        self,
        const double[:, ::1] moments not None,  # IN   as in `choose`
        double count,
        const double[::1] prices not None,  # IN   (most + 1)
        double mean_price,
        double least_mean_price,
        const double[::1] floor not None,  # IN   (d)
        double[::1] uniquenesses not None,  # INOUT (d)
        double[:, ::1] loadings not None,  # OUT  (most, d), the first rows
        Py_ssize_t n_rounds,
    ):
        """Choose the number of factors that costs least with the given uniquenesses, without a prior.

        In principal factor analysis, for ``n_rounds`` above 0, uniquenesses then become what the loadings leave of the
        variances, and so on. With 0 they stay as they are.

        Returns the cost before the last change of the uniquenesses, with the price that `choose` has, and the number of
        factors. Raises what `solve` does.
        """
        cdef Py_ssize_t[2] offsets, rows
        cdef Problem problem = self.problem_of_one(moments, count, floor, uniquenesses, loadings, offsets, rows)
        cdef Prices costs = self.checked_prices(prices, mean_price, least_mean_price, loadings)
        cdef double cost
        with nogil:
            for _ in range(max(n_rounds, 1)):
                start_from(&self.space, &problem, &uniquenesses[0])
                cost = best_number_given_noise(&self.space, &problem, offsets, &costs)
                set_loadings(&self.space, 1, offsets, &loadings[0, 0] if offsets[1] else NULL)
                if n_rounds > 0:
                    set_principal_noise(
                        &self.space, &problem, &loadings[0, 0] if offsets[1] else NULL, &uniquenesses[0])
        if not isfinite(cost):
            raise FloatingPointError("a covariance matrix is not finite")
        return cost, offsets[1]

    cdef Problem problem_of_one(
        self, const double[:, ::1] moments, double count, const double[::1] floor, const double[::1] uniquenesses,
        const double[:, ::1] loadings, Py_ssize_t *offsets, Py_ssize_t *rows,
    ):
        """Set up the problem of one analyser without a prior; `offsets` and `rows` have room for two numbers each."""
        cdef Py_ssize_t d = self.space.d
        cdef Problem problem
        if (moments.shape[1] != d or floor.shape[0] != d or uniquenesses.shape[0] != d or loadings.shape[1] != d
                or (self.most_rows < 0 and moments.shape[0] != d)):
            raise ValueError("shapes do not agree")
        if loadings.shape[0] > self.most_factors or (self.most_rows >= 0 and moments.shape[0] > self.most_rows):
            raise ValueError("more factors or rows than the solver has room for")
        if not count > 0.0:
            raise ValueError("counts must be positive")
        memset(&problem, 0, sizeof(problem))
        problem.n_matrices, problem.floor, problem.factors_alone = 1, &floor[0], True
        # The solver keeps the count, whose address is asked for.
        self.count = count
        problem.counts, problem.offsets = &self.count, offsets
        if self.most_rows < 0:
            problem.covariances = &moments[0, 0]
        else:
            problem.row_offsets = rows
            if moments.shape[0]:
                problem.panels = &moments[0, 0]
        rows[0], rows[1], offsets[0], offsets[1] = 0, moments.shape[0], 0, 0
        return problem

    cdef Prices checked_prices(
        self, const double[::1] prices, double mean_price, double least_mean_price, const double[:, ::1] loadings
    ):
        cdef Prices costs
        costs.most, costs.mean, costs.least_mean = prices.shape[0] - 1, mean_price, least_mean_price
        if costs.most < 0 or loadings.shape[0] != costs.most:
            raise ValueError("there must be a price of each number of factors, and room for their loadings")
        costs.of_factors = &prices[0]
        return costs

    cdef Problem checked_problem(
        self, Py_ssize_t K, const double[::1] counts, const Py_ssize_t[::1] offsets, const double[::1] floor,
        double prior_count, const double[::1] prior_scale, const double[::1] uniquenesses,
        const double[:, ::1] loadings, const double[:, ::1] spectra,
    ):
        """Set up the problem without its matrices."""
        cdef Py_ssize_t d = self.space.d, k
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
        cdef Py_ssize_t d = self.space.d, K = problem.n_matrices
        cdef double cost
        with nogil:
            start_from(&self.space, problem, &uniquenesses[0])
            cost = search(&self.space, problem, max_steps, tol, INFINITY, 0.0)
            set_uniquenesses(&self.space, problem, &uniquenesses[0])
            memcpy(&spectra[0, 0], self.space.here.values, K * d * sizeof(double))
            set_loadings(&self.space, K, problem.offsets, &loadings[0, 0] if problem.offsets[K] else NULL)
        if not isfinite(cost):
            raise FloatingPointError("a covariance matrix is not finite")
        return cost

    cdef bint take_step(
        self, Py_ssize_t K, const double *covariances, const double *counts, const Py_ssize_t *offsets,
        const double *floor, double prior_count, const double *prior_scale, double *uniquenesses, double *loadings,
    ) noexcept nogil:
        """Make one Newton step of `solve`, for kernels. Returns False if a matrix is not finite.

        The loadings are the start, too: their span is followed, and the cost falls from theirs.
        """
        cdef Problem problem
        cdef Py_ssize_t k
        cdef double total = 0.0
        memset(&problem, 0, sizeof(problem))
        problem.n_matrices, problem.prior_count = K, prior_count
        problem.covariances, problem.counts, problem.offsets = covariances, counts, offsets
        problem.floor, problem.prior_scale, problem.factors_alone = floor, prior_scale, True
        for k in range(K):
            total += counts[k]
        start_from(&self.space, &problem, uniquenesses)
        start_near(&self.space, &problem, loadings)
        if not isfinite(search(&self.space, &problem, 1, LEAST_PROMISE * total, INFINITY, 0.0)):
            return False
        set_uniquenesses(&self.space, &problem, uniquenesses)
        set_loadings(&self.space, K, offsets, loadings)
        return True
