"""Compare cython_stream with plain NumPy, with one thread and with several. Exit status 1 if they do not agree."""

import sys
import time

import cython_stream
import numpy as np

import amofa

TOLERANCE = 1e-10


def stream(rng, n):
    """Draw a table of two groups, the second with a factor, and a batch of each dtype from others like them."""

    def rows(n, shift):
        ball = rng.normal([0, 0, 4, 0], 1, (n // 2, 4))
        stick = np.outer(rng.normal(size=n - n // 2), [2, 1, -2, 1]) + rng.normal([5, 5, 0, 0], 0.4, (n - n // 2, 4))
        return np.concatenate([ball, stick]) + shift

    return rows(1000, 0.0), [rows(n, 0.2), rows(n, 0.2).astype(np.float32)]


def em_step(x, weights, means, loadings, uniquenesses):
    """Return the mean log density, and the parameters after an EM step, with dense covariance matrices."""
    joint = np.empty((len(x), len(weights)))
    for k, (w, m, a, u) in enumerate(zip(weights, means, loadings, uniquenesses, strict=True)):
        covariance = a.T @ a + np.diag(u)
        e = x - m
        distance = np.einsum("ij,ij->i", e, np.linalg.solve(covariance, e.T).T)
        joint[:, k] = np.log(w) - 0.5 * (distance + np.linalg.slogdet(2 * np.pi * covariance)[1])
    density = np.logaddexp.reduce(joint, axis=1)
    responsibilities = np.exp(joint - density[:, None])
    new = [[], [], [], []]
    for h, a, u in zip(responsibilities.T, loadings, uniquenesses, strict=True):
        beta = np.linalg.solve(a.T @ a + np.diag(u), a.T).T
        mean = h @ x / h.sum()
        e = x - mean
        scores = e @ beta.T
        second = (h[:, None] * scores).T @ scores / h.sum() + np.eye(len(a)) - beta @ a.T
        cross = (h[:, None] * scores).T @ e / h.sum()
        new_loadings = np.linalg.solve(second, cross)
        variances = h @ e**2 / h.sum() - np.einsum("qj,qj->j", new_loadings, cross)
        for values, value in zip(new, (h.mean(), mean, new_loadings, variances), strict=True):
            values.append(value)
    return density.mean(), new


def difference(found, expected):
    """Return the largest difference, relative to max(1, |expected|)."""
    return float(np.max(np.abs(found - expected) / np.maximum(1.0, np.abs(expected)), initial=0.0))


def check_scores(model, batches, n_threads):
    """Compare densities, and see that rows that cannot be used are found."""
    scorer = cython_stream.Stream(model.cython_handle().mixture, n_threads)
    worst = max(difference(scorer.score(x)[0], model.score_samples(x)) for x in batches)
    seconds = []
    for function in (lambda: model.score_samples(batches[0]), lambda: scorer.score(batches[0])):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    spoilt = batches[0].copy()
    spoilt[[3, 5], 1] = np.nan, np.inf
    log_density, n_unusable = scorer.score(spoilt)
    seen = n_unusable == 2 and np.flatnonzero(np.isnan(log_density)).tolist() == [3, 5]
    print(
        f"{n_threads} threads: log densities differ by {worst:.1e}; Python {1e3 * seconds[0]:.1f} ms, "
        f"cython_stream {1e3 * seconds[1]:.1f} ms"
    )
    return worst < TOLERANCE and seen


def check_learning(model, batches, n_threads, step=0.3):
    """Compare mini-batch steps, the batches with a row that is left out."""
    learner = cython_stream.Stream(model.cython_handle().mixture, n_threads)
    parameters = list(learner.parameters)
    split = np.cumsum(model.n_factors)[:-1]
    worst = 0.0
    for x in batches:
        spoilt = np.concatenate([x, np.full((1, 4), np.nan, x.dtype)])
        found = learner.learn(spoilt, step)
        weights, means, loadings, uniquenesses = parameters
        expected, new = em_step(x.astype(float), weights, means, np.split(loadings, split), uniquenesses)
        new[2] = [np.concatenate(new[2])] if len(loadings) else [np.zeros((0, 4))]
        new = [new[0], new[1], new[2][0], new[3]]
        parameters = [old + step * (np.asarray(b) - old) for old, b in zip(parameters, new, strict=True)]
        worst = max(worst, abs(found[0] - expected), *map(difference, learner.parameters, parameters))
        if found[1] != 1:
            return False
    print(f"{n_threads} threads: parameters after mini-batch steps differ by {worst:.1e}")
    return worst < TOLERANCE


def main():
    rng = np.random.default_rng(0)
    X, batches = stream(rng, 100_000)
    model = amofa.fit(X, n_components=2)
    right = [check(model, batches, T) for T in (1, 3) for check in (check_scores, check_learning)]
    try:
        cython_stream.Stream(np.array(model.cython_handle().mixture[:-1]))
        right.append(False)
    except ValueError:
        right.append(True)
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
