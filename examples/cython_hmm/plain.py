"""The same in plain NumPy, with dense covariance matrices: slow and simple."""

import numpy as np


def log_normal(x, mean, covariance):
    """Return the log density of every row."""
    e = x - mean
    distance = np.einsum("ij,ij->i", e, np.linalg.solve(covariance, e.T).T)
    return -0.5 * (len(mean) * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + distance)


def forward_backward(initial, transition, log_emission):
    """Return the log-likelihood, probabilities of the states (T, S), and expected transitions (S, S)."""
    largest = log_emission.max(axis=1)
    emission = np.exp(log_emission - largest[:, None])
    alpha, beta, scale = np.empty_like(emission), np.ones_like(emission), np.empty(len(emission))
    for t in range(len(emission)):
        alpha[t] = emission[t] * (initial if t == 0 else alpha[t - 1] @ transition)
        scale[t] = alpha[t].sum()
        alpha[t] /= scale[t]
    for t in reversed(range(len(emission) - 1)):
        beta[t] = transition @ (emission[t + 1] * beta[t + 1]) / scale[t + 1]
    ahead = emission[1:] * beta[1:] / scale[1:, None]
    return np.log(scale).sum() + largest.sum(), alpha * beta, transition * (alpha[:-1].T @ ahead)


def maximize(x, h, mean, loadings, uniquenesses, floor):
    """Make an EM step of one factor analyser with row weights h, with the factors integrated out for the mean."""
    beta = np.linalg.solve(loadings.T @ loadings + np.diag(uniquenesses), loadings.T).T
    new_mean = h @ x / h.sum()
    e = x - new_mean
    scores = e @ beta.T
    second = (h[:, None] * scores).T @ scores / h.sum() + np.eye(len(loadings)) - beta @ loadings.T
    cross = (h[:, None] * scores).T @ e / h.sum()
    new_loadings = np.linalg.solve(second, cross)
    variances = h @ e**2 / h.sum() - np.einsum("qj,qj->j", new_loadings, cross)
    return new_mean, new_loadings, np.maximum(variances, floor)


def baum_welch_step(sequences, initial, transition, means, loadings, uniquenesses, floor):
    """Make the step of cython_hmm.baum_welch_step."""
    log_likelihood, first, transitions, probabilities = 0.0, 0.0, 0.0, []
    for x in sequences:
        log_emission = np.stack(
            [log_normal(x, m, w.T @ w + np.diag(u)) for m, w, u in zip(means, loadings, uniquenesses, strict=True)],
            axis=1,
        )
        found, gamma, xi = forward_backward(initial, transition, log_emission)
        log_likelihood, first, transitions = log_likelihood + found, first + gamma[0], transitions + xi
        probabilities.append(gamma)
    x, h = np.concatenate(sequences), np.concatenate(probabilities)
    states = zip(h.T, means, loadings, uniquenesses, strict=True)
    new = [maximize(x, *state, floor) for state in states]
    return (
        log_likelihood,
        first / first.sum(),
        transitions / transitions.sum(axis=1, keepdims=True),
        *(np.stack(parts) for parts in zip(*new, strict=True)),
    )
