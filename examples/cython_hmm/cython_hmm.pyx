# cython: boundscheck=False, wraparound=False, cdivision=True
"""Hidden Markov models whose states emit from factor analysers: an example for amofa's C-level functions.

State s of S has the emission N(mean[s], loadings[s]' loadings[s] + diag(uniquenesses[s])), with p factors each; p = 0
gives Gaussians with diagonal covariance matrices. Sequences are C-contiguous arrays (T, d).
"""

from libc.math cimport exp, log

import numpy as np

from amofa.cython_amofa cimport (
    accumulate_statistics, check_mixture, maximize_component, maximize_work_size, mixture_size, n_features, posterior,
    prepare_mixture, rows_work_size, statistics_size)


def log_density(const double[::1] mixture not None, const double[:, ::1] x not None):
    """Return the log density of each row of x under a fitted mixture, ``model.cython_handle().mixture``.

    It is NaN for rows with a cell that is not finite. Raises ValueError if the mixture or x is of no use.
    """
    cdef double[::1] out = np.empty(x.shape[0]), work
    cdef int status = check_mixture(&mixture[0], mixture.shape[0])
    if status:
        raise ValueError("mixture must be the prepared mixture of a handle of this process")
    if n_features(&mixture[0]) != x.shape[1]:
        raise ValueError("x must have the columns of the model")
    work = np.empty(rows_work_size(&mixture[0]))
    if x.shape[0]:
        with nogil:
            status = posterior(&mixture[0], x.shape[0], &x[0, 0], x.shape[1], 1, &out[0], NULL, NULL, NULL, &work[0])
        if status < 0:
            raise ValueError(f"status {status}")
    return np.asarray(out)


# ---- forward-backward ------------------------------------------------------------------------------------------------

cdef double forward_backward(
    Py_ssize_t T, Py_ssize_t S,
    const double *initial,          # IN   (S)
    const double *transition,       # IN   (S, S)
    const double *log_emission,     # IN   (S, T)
    double *gamma,                  # OUT  (S, T) P(state of t = s | all rows)
    double *xi,                     # INOUT (S, S) expected transitions, added to
    double *work,                   # WORK 2 T S + 2 S
) noexcept nogil:
    """Run scaled forward and backward passes (Rabiner 1989, Proc. IEEE 77:257); return the log-likelihood in nats."""
    cdef Py_ssize_t t, r, s
    cdef double *emission = work                # (T, S), each row over its largest value
    cdef double *alpha = emission + T * S       # (T, S) P(state of t = s | rows up to t)
    cdef double *beta = alpha + T * S           # (S)
    cdef double *next_beta = beta + S           # (S)
    cdef double log_likelihood = 0.0, largest, total
    for t in range(T):
        largest = log_emission[t]
        for s in range(1, S):
            largest = max(largest, log_emission[s * T + t])
        total = 0.0
        for s in range(S):
            emission[t * S + s] = exp(log_emission[s * T + t] - largest)
            alpha[t * S + s] = initial[s] if t == 0 else 0.0
            if t:
                for r in range(S):
                    alpha[t * S + s] += alpha[(t - 1) * S + r] * transition[r * S + s]
            alpha[t * S + s] *= emission[t * S + s]
            total += alpha[t * S + s]
        for s in range(S):
            alpha[t * S + s] /= total
            # The backward pass divides by the same total.
            emission[t * S + s] /= total
        log_likelihood += log(total) + largest
    for s in range(S):
        beta[s] = 1.0
    for t in range(T - 1, -1, -1):
        for s in range(S):
            gamma[s * T + t] = alpha[t * S + s] * beta[s]
        if t == 0:
            break
        for r in range(S):
            next_beta[r] = 0.0
            for s in range(S):
                total = transition[r * S + s] * emission[t * S + s] * beta[s]
                next_beta[r] += total
                xi[r * S + s] += alpha[(t - 1) * S + r] * total
        for s in range(S):
            beta[s] = next_beta[s]
    return log_likelihood


# ---- Baum-Welch ------------------------------------------------------------------------------------------------------

cdef class Emissions:
    """The prepared factor analysers of the states, one mixture of one component each, and memory for statistics."""

    cdef Py_ssize_t S, d, p
    cdef Py_ssize_t mixture_length, statistics_length
    cdef double[:, ::1] mixtures    # (S, mixture_length)
    cdef double[:, ::1] statistics  # (S, statistics_length)
    cdef double[::1] work

    def __cinit__(
        self,
        const double[:, ::1] means not None,
        const double[:, :, ::1] loadings not None,
        const double[:, ::1] uniquenesses not None,
    ):
        cdef Py_ssize_t s, S = means.shape[0], d = means.shape[1], p = loadings.shape[1]
        cdef Py_ssize_t[2] offsets
        cdef double one = 1.0
        cdef int status
        if loadings.shape[0] != S or loadings.shape[2] != d or uniquenesses.shape[0] != S or uniquenesses.shape[1] != d:
            raise ValueError("means, loadings and uniquenesses must have shapes (S, d), (S, p, d) and (S, d)")
        self.S, self.d, self.p = S, d, p
        offsets[0], offsets[1] = 0, p
        self.mixtures = np.zeros((S, mixture_size(1, d, offsets)))
        for s in range(S):
            status = prepare_mixture(1, d, offsets, &one, &means[s, 0], &loadings[s, 0, 0] if p else NULL,
                                     &uniquenesses[s, 0], &self.mixtures[s, 0])
            if status:
                raise ValueError(f"the covariance matrix of state {s} is not positive definite")
        self.statistics = np.zeros((S, statistics_size(&self.mixtures[0, 0])))
        self.work = np.empty(max(rows_work_size(&self.mixtures[0, 0]), maximize_work_size(&self.mixtures[0, 0])))

    cdef int log_densities(self, Py_ssize_t T, const double *x, double *out) noexcept nogil:
        """Compute the log densities (S, T) of T rows under every state; return how many have none, or a status."""
        cdef Py_ssize_t s
        cdef int status = 0
        for s in range(self.S):
            status = posterior(&self.mixtures[s, 0], T, x, self.d, 1, out + s * T, NULL, NULL, NULL, &self.work[0])
            if status:
                break
        return status

    cdef int accumulate(self, Py_ssize_t T, const double *x, const double *gamma) noexcept nogil:
        """Add the statistics of T rows, weighted by the probabilities (S, T) of the states; return the same."""
        cdef Py_ssize_t s
        cdef int status = 0
        for s in range(self.S):
            status = accumulate_statistics(&self.mixtures[s, 0], T, x, self.d, 1, gamma + s * T,
                                           &self.statistics[s, 0], &self.work[0])
            if status:
                break
        return status

    cdef Py_ssize_t maximize(
        self, const double *floor, double *means, double *loadings, double *uniquenesses,
    ) noexcept nogil:
        """Run the M-step of every state; return 0, or 1 + a state without rows or a valid covariance matrix."""
        cdef Py_ssize_t s, d = self.d, p = self.p
        for s in range(self.S):
            if maximize_component(&self.mixtures[s, 0], 0, &self.statistics[s, 0], floor, means + s * d,
                                  loadings + s * p * d, uniquenesses + s * d, &self.work[0]):
                return s + 1
        return 0


def baum_welch_step(
    sequences,
    const double[::1] initial not None,
    const double[:, ::1] transition not None,
    const double[:, ::1] means not None,
    const double[:, :, ::1] loadings not None,
    const double[:, ::1] uniquenesses not None,
    const double[::1] floor not None,
):
    """Make one EM step.

    Parameters
    ----------
    sequences : list of (T, d) float64
    initial, transition : (S,), (S, S) float64
        Probabilities of the first state, and of the next one (columns) after each (rows).
    means, loadings, uniquenesses : (S, d), (S, p, d), (S, d) float64
        One row of loadings per factor.
    floor : (d,) float64
        Smallest uniquenesses.

    Returns
    -------
    tuple
        The log-likelihood (nats) of the given parameters, and the new ones in the same order: initial, transition,
        means, loadings, uniquenesses.

    Raises
    ------
    ValueError
        If shapes do not fit together, a row is not finite, or a state loses its rows.
    """
    cdef Py_ssize_t S = means.shape[0], d = means.shape[1], p = loadings.shape[1], T, s, wrong
    cdef Emissions emissions = Emissions(means, loadings, uniquenesses)
    if initial.shape[0] != S or transition.shape[0] != S or transition.shape[1] != S or floor.shape[0] != d:
        raise ValueError("initial, transition and floor must have shapes (S,), (S, S) and (d,)")
    first_counts, transitions = np.zeros(S), np.zeros((S, S))
    cdef double[::1] first = first_counts
    cdef double[:, ::1] xi = transitions
    cdef const double[:, ::1] x
    cdef double[::1] memory
    cdef double *log_emission
    cdef double *gamma
    cdef double log_likelihood = 0.0
    cdef int status
    for sequence in sequences:
        x = sequence
        T = x.shape[0]
        if T == 0 or x.shape[1] != d:
            raise ValueError("sequences must have at least one row, and the columns of the means")
        memory = np.empty(4 * T * S + 2 * S)
        with nogil:
            log_emission, gamma = &memory[0], &memory[T * S]
            status = emissions.log_densities(T, &x[0, 0], log_emission)
            if status == 0:
                log_likelihood += forward_backward(T, S, &initial[0], &transition[0, 0], log_emission, gamma,
                                                   &xi[0, 0], &memory[2 * T * S])
                status = emissions.accumulate(T, &x[0, 0], gamma)
                for s in range(S):
                    first[s] += gamma[s * T]
        if status:
            raise ValueError(f"{status} rows of a sequence are not finite, or too far from every state")
    new_means, new_loadings, new_uniquenesses = np.empty((S, d)), np.empty((S, p, d)), np.empty((S, d))
    cdef double[:, ::1] m = new_means, u = new_uniquenesses
    cdef double[:, :, ::1] w = new_loadings
    with nogil:
        wrong = emissions.maximize(&floor[0], &m[0, 0], &w[0, 0, 0] if p else NULL, &u[0, 0])
    if wrong:
        raise ValueError(f"state {wrong - 1} has lost its rows")
    return (
        log_likelihood,
        first_counts / first_counts.sum(),
        transitions / transitions.sum(axis=1, keepdims=True),
        new_means,
        new_loadings,
        new_uniquenesses,
    )
