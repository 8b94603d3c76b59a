"""Measure streams: against EM on all rows, groups that show late, a change, and the recursive updates of others.

    python bench/streams.py [whole | late | drift | recursive] [--quick]

CPU seconds are those of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from clusters import GENERATORS
from numpy.typing import NDArray
from running import Model, Run, main_of, shape, verdict

import amofa
from amofa.baselines import recursive_ulfmm

FloatArray = NDArray[np.float64]
HELD_OUT = 50_000
# Bars, in nats per row: how far a stream may be behind EM on all rows, and behind the true density after a change.
BEHIND, BEHIND_CHANGE = 0.0005, 0.01
# Weights of ten groups, of which the lightest has .27 %.
RATIO = 0.57


def mixture(seed: int, weights: FloatArray, d: int, p: int, distance: float) -> Model:
    """Return a mixture of factor analysers with random means, loadings and uniquenesses."""
    rng = np.random.default_rng(seed)
    K = len(weights)
    means, loadings = rng.normal(0, distance, (K, d)), [rng.normal(0, 1, (d, p)) for _ in range(K)]
    return Model(weights, means, loadings, rng.uniform(0.2, 1, (K, d)))


def blocks(X: FloatArray, size: int) -> Iterator[FloatArray]:
    for start in range(0, len(X), size):
        yield X[start : start + size]


def fed(X: FloatArray, size: int, stream: amofa.Stream | None = None, **options: Any) -> tuple[amofa.Stream, float]:
    """Return a stream after rows, in blocks of a size, and the CPU seconds that it took."""
    stream = amofa.Stream(n_threads=1, **options) if stream is None else stream
    start = time.process_time()
    for block in blocks(X, size):
        stream.update(block)
    return stream, time.process_time() - start


def whole(run: Run) -> None:
    """One pass over 10^6 rows, 16 columns, 8 groups with 4 factors: held-out log density, nats per row."""
    n = 100_000 if run.quick else 1_000_000
    truth = mixture(0, np.random.default_rng(1).dirichlet(np.full(8, 5.0)), 16, 4, 3.0)
    X, held_out = truth.sample(n, 1)[0], truth.sample(HELD_OUT, 2)[0]
    print(f"true density {truth.score(held_out):.5f}")
    start = time.process_time()
    batch = amofa.fit(X, init=truth, n_components=8, n_factors=4, noise="component", n_threads=1)
    print(f"EM on all rows from the truth {batch.score(held_out):.5f}, {time.process_time() - start:.1f} s")
    start = time.process_time()
    few = amofa.fit(X[:20_000], n_threads=1)
    print(f"fit of the first 20000 rows {few.score(held_out):.5f}, {time.process_time() - start:.1f} s")
    for size in (20_000, 1000):
        stream, seconds = fed(X, size)
        behind = batch.score(held_out) - stream.model.score(held_out)
        print(
            f"stream, blocks of {size}: {stream.model.score(held_out):.5f}, {seconds:.1f} s, "
            f"{shape(stream.model.n_factors.tolist())}; behind EM by {behind:.6f}: {verdict(behind < BEHIND)}"
        )


def late(run: Run) -> None:
    """Ten groups in 8 columns, down to .27 % of 400000 rows: mixed, and with the five smallest after 50000 rows."""
    weights = RATIO ** np.arange(10)
    for seed in range(1 if run.quick else 3):
        truth = mixture(seed, weights / weights.sum(), 8, 2, 4.0)
        X, groups = truth.sample(400_000, 1)
        held_out, before = truth.sample(HELD_OUT, 2)[0], np.flatnonzero(groups < 5)[:50_000]
        after = np.delete(np.arange(len(X)), before)
        print(f"draw {seed}: true {truth.score(held_out):.4f}")
        mixed, _ = fed(X, 1000)
        print(f"  mixed: {mixed.model.score(held_out):.4f}, {shape(mixed.model.n_factors.tolist())}")
        ways: Mapping[str, dict[str, Any]] = {"without memory": {}, "memory=100000": {"memory": 100_000}}
        for name, options in ways.items():
            stream, seconds = fed(X[before], 1000, **options)
            early = stream.model
            stream, more = fed(X[after], 1000, stream)
            model = stream.model
            print(
                f"  late, {name}: after {len(before)} rows {shape(early.n_factors.tolist())}; "
                f"at the end {model.score(held_out):.4f}, {seconds + more:.1f} s, {shape(model.n_factors.tolist())}: "
                f"{verdict((early.n_components, model.n_components) == (5, 10))}"
            )
            for step in stream.history:
                print(f"    {step.n_samples:8.0f} rows: {step.action}, {shape(step.n_factors)}, gain {step.gain:.0f}")


def drift(run: Run) -> None:
    """After 300000 rows, two of five groups move and a sixth comes: log density of later rows, nats per row."""
    for seed in range(1 if run.quick else 3):
        rng = np.random.default_rng(seed)
        before = mixture(seed, np.array([0.3, 0.25, 0.2, 0.15, 0.1]), 8, 2, 4.0)
        new = mixture(seed + 100, np.ones(1), 8, 2, 4.0)
        means = before.means.copy()
        means[:2] += rng.normal(0, 2, (2, 8))
        after = Model(
            np.append(0.85 * before.weights, 0.15),
            np.concatenate([means, new.means]),
            [*before.loadings, *new.loadings],
            np.concatenate([before.uniquenesses, new.uniquenesses]),
        )
        first, then, held_out = before.sample(300_000, 1)[0], after.sample(300_000, 2)[0], after.sample(HELD_OUT, 3)[0]
        print(f"draw {seed}: true {after.score(held_out):.4f}")
        ways: Mapping[str, dict[str, Any]] = {"memory=50000": {"memory": 50_000}, "without memory": {}}
        for name, options in ways.items():
            stream, seconds = fed(first, 5000, **options)
            scores = []
            for stop, start in ((20_000, 0), (100_000, 20_000), (300_000, 100_000)):
                stream, more = fed(then[start:stop], 5000, stream)
                seconds += more
                scores.append(stream.model.score(held_out))
            behind = after.score(held_out) - scores[-1]
            says = f": {verdict(behind < BEHIND_CHANGE)}" if options else ""
            print(
                f"  {name}: {', '.join(f'{score:.4f}' for score in scores)} after 20000, 100000, 300000 rows, "
                f"{seconds:.1f} s, {shape(stream.model.n_factors.tolist())}{says}"
            )


def recursive(run: Run) -> None:
    """The recursive updates of Zivkovic & van der Heijden, in their setting and in 8 columns."""
    examples = [GENERATORS["example 2"](seed)[0] for seed in range(20)]
    order = np.random.default_rng(0)
    X, held_out = order.permutation(np.concatenate(examples[:15])), np.concatenate(examples[15:])
    _compare("four Gaussians in 2 columns, 15000 rows", X, held_out, (1 / 150, 1 / 500), {"memory": 2000})
    weights = RATIO ** np.arange(6)
    truth = mixture(0, weights / weights.sum(), 8, 2, 4.0)
    n = 30_000 if run.quick else 100_000
    X, held_out = truth.sample(n, 1)[0], truth.sample(HELD_OUT, 2)[0]
    print(f"true density {truth.score(held_out):.4f}")
    _compare(f"six groups in 8 columns, {n} rows", X, held_out, (None, 1 / 5000), {"memory": 20_000})


def _compare(
    name: str, X: FloatArray, held_out: FloatArray, rates: tuple[float | None, ...], options: dict[str, Any]
) -> None:
    print(f"{name}:")
    for rate in rates:
        start = time.process_time()
        model = recursive_ulfmm(X, rate=rate)
        seconds = time.process_time() - start
        says = "by default" if rate is None else f"1/{1 / rate:.0f}"
        print(f"  recursive, rate {says}: K = {model.n_components}, {model.score(held_out):.4f}, {seconds:.1f} s")
    for given in ({}, options):
        stream, seconds = fed(X, 500, **given)
        print(
            f"  Stream({given}): K = {stream.model.n_components}, {stream.model.score(held_out):.4f}, {seconds:.1f} s"
        )


SECTIONS = {"whole": whole, "late": late, "drift": drift, "recursive": recursive}

if __name__ == "__main__":
    main_of(__doc__, SECTIONS, (), draws=1, draws_of="stream")
