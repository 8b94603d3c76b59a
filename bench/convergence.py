"""Count the passes of EM over the rows: exact analysers against EM over the factors, from the same starts.

    python bench/convergence.py --data DIR [--sets NAME ...] [--passes N]

DIR holds the benchmark sets as .npz files. K is the number of classes, p is 1 to 6. A start has the rows of each
component of the mixture that EM from the classes ended with, with half of their variance in the leading principal
axes. The two methods need not reach the same maximum: passes are counted to the lower of both ends, within 1e-6, and to
the end of each. Plain EM over factors updates means, loadings and uniquenesses in turn (the pass of search="paper").
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from core import load
from numpy.typing import NDArray
from speed import FLOOR, exact_iteration, factor_iteration

from amofa._data.row_chunks import Samples
from amofa._parameters import Component, Parameters
from amofa.threads import single_blas_thread

FloatArray = NDArray[np.float64]

SETS = ("pendigits", "satellite", "letter")
NUMBERS = (1, 2, 3, 4, 5, 6)
# Relative difference of a log-likelihood from the final one that counts as none.
NEAR = 1e-6
BAR = 1 / 3


class Count(NamedTuple):
    """Passes of one method to the lower of both ends and to its own, and its final log-likelihood."""

    to_lower: int
    to_own: int
    end: float


def standardized(path: Path, name: str) -> tuple[FloatArray, NDArray[np.intp]]:
    file = load(path, name)
    X = file["X"].astype(np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.unique(file["y"], return_inverse=True)[1]


def start_of(X: FloatArray, labels: NDArray[np.intp], p: int) -> Parameters:
    """Return analysers of the rows of each label, with half of the variance along p principal axes in factors."""
    components = []
    for k in range(int(labels.max()) + 1):
        rows = X[labels == k]
        values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
        loadings = np.sqrt(np.maximum(values[::-1][:p], 0.0) / 2)[:, None] * vectors.T[::-1][:p]
        noise = np.maximum(rows.var(axis=0) / 2, 10 * FLOOR)
        components.append(Component(len(rows) / len(X), rows.mean(axis=0), loadings, noise))
    return Parameters.from_components(components)


def exact_passes(samples: Samples, parameters: Parameters) -> Iterator[float]:
    """Yield the log-likelihood before each M-step; the parameters are changed in place."""
    iteration = exact_iteration(parameters, 0.0)
    while True:
        samples.expect(iteration)
        iteration.finish()
        yield iteration.log_likelihood
        iteration.maximize()


def factor_passes(samples: Samples, parameters: Parameters) -> Iterator[float]:
    iteration = factor_iteration(parameters)
    while True:
        samples.expect(iteration)
        yield iteration.log_likelihood
        iteration.maximize()


def first(n: int, values: Iterator[float]) -> FloatArray:
    return np.fromiter(values, float, n)


def counts(exact: FloatArray, plain: FloatArray) -> tuple[Count, Count]:
    lower = min(exact[-1], plain[-1])

    def passes(log_likelihoods: FloatArray, target: float) -> int:
        return int(np.argmax(log_likelihoods >= target - NEAR * abs(target))) + 1

    return tuple(Count(passes(way, lower), passes(way, way[-1]), way[-1]) for way in (exact, plain))


def measure(options: argparse.Namespace, name: str) -> None:
    X, labels = standardized(options.data, name)
    samples, ratios = Samples(X), []
    for p in NUMBERS:
        ended = start_of(X, labels, p)
        first(options.passes // 4, exact_passes(samples, ended))
        start = start_of(X, samples.labels(ended), p)
        exact, plain = counts(
            first(options.passes // 2, exact_passes(samples, start.copy())),
            first(options.passes, factor_passes(samples, start.copy())),
        )
        ratios.append((exact.to_lower / plain.to_lower, exact.to_own / plain.to_own))
        print(
            f"{name}, p = {p}: exact {exact.to_lower} ({exact.to_own} to {exact.end:.1f}), over factors "
            f"{plain.to_lower} ({plain.to_own} to {plain.end:.1f}): {ratios[-1][0]:.3f} ({ratios[-1][1]:.3f})",
            flush=True,
        )
    to_lower, to_own = np.median(ratios, axis=0)
    verdict = "met" if to_lower <= BAR else "MISSED"
    print(f"{name}: median ratio {to_lower:.3f} (to its own end {to_own:.3f}), bar {BAR:.2f}: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the benchmark sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME")
    parser.add_argument("--passes", type=int, default=600, help="of EM over factors; half as many exact ones")
    options = parser.parse_args()
    with single_blas_thread():
        for name in options.sets:
            measure(options, name)


if __name__ == "__main__":
    main()
