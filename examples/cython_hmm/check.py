"""Compare cython_hmm with plain NumPy and print how much faster it is. Exit status 1 if they do not agree."""

import sys
import time

import cython_hmm
import numpy as np
import plain

import amofa

TOLERANCE = 1e-10


def problem(rng, S, d, p, lengths):
    """Draw a random model, and sequences of another one like it."""
    initial, transition = rng.dirichlet(np.ones(S)), rng.dirichlet(np.ones(S), size=S)
    means, loadings = 2 * rng.standard_normal((S, d)), rng.standard_normal((S, p, d))
    uniquenesses = rng.uniform(0.3, 1.5, (S, d))
    sequences = []
    for T in lengths:
        states = [rng.choice(S, p=initial)]
        while len(states) < T:
            states.append(rng.choice(S, p=transition[states[-1]]))
        factors = rng.standard_normal((T, p))
        noise = np.sqrt(uniquenesses[states]) * rng.standard_normal((T, d))
        sequences.append(means[states] + np.einsum("tq,tqj->tj", factors, loadings[states]) + noise)
    start = means + rng.standard_normal((S, d)), loadings + 0.3 * rng.standard_normal((S, p, d)), np.ones((S, d))
    return sequences, (np.full(S, 1 / S), np.full((S, S), 1 / S), *start)


def difference(found, expected):
    """Return the largest difference, relative to max(1, |expected|)."""
    return max(
        float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)), initial=0.0))
        for a, b in zip(found, expected, strict=True)
    )


def fastest(function, repeats=5):
    """Return the shortest time of several calls, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def check_steps(rng, S, d, p, lengths, n_steps=5):
    """Compare Baum-Welch steps of both from the same parameters."""
    sequences, parameters = problem(rng, S, d, p, lengths)
    floor, worst, climbed = np.full(d, 1e-3), 0.0, []
    for _ in range(n_steps):
        expected = plain.baum_welch_step(sequences, *parameters, floor)
        found = cython_hmm.baum_welch_step(sequences, *parameters, floor)
        worst = max(worst, difference(found, expected))
        climbed.append(found[0])
        parameters = found[1:]
    slow = fastest(lambda: plain.baum_welch_step(sequences, *parameters, floor))
    fast = fastest(lambda: cython_hmm.baum_welch_step(sequences, *parameters, floor))
    print(
        f"S={S} d={d} p={p} rows={sum(lengths)}: differ by {worst:.1e}; "
        f"numpy {1e3 * slow:.2f} ms, cython_hmm {1e3 * fast:.2f} ms: {slow / fast:.1f} times as fast"
    )
    return worst < TOLERANCE and bool(np.all(np.diff(climbed) > -1e-9 * np.abs(climbed[1:])))


def check_model(rng):
    """Compare the densities of a model that was fitted in Python."""
    X = np.concatenate([rng.standard_normal((300, 4)), 3 + rng.standard_normal((200, 4)) @ rng.standard_normal((4, 4))])
    model = amofa.fit(X)
    worst = difference([cython_hmm.log_density(model.cython_handle().mixture, X)], [model.score_samples(X)])
    print(f"{model}: log densities differ by {worst:.1e}")
    return worst < TOLERANCE


def main():
    rng = np.random.default_rng(0)
    right = [
        check_steps(rng, 3, 5, 0, [40, 1, 200]),
        check_steps(rng, 4, 12, 2, [500, 700]),
        check_steps(rng, 6, 40, 4, [3000]),
        check_model(rng),
    ]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
