"""Print the figures of `amofa.baselines`, each beside a published one or that of the method's own program.

    python bench/baselines.py --data DIR [--reference DIR] [--quick] [SECTION ...]

DIR holds the benchmark sets as .npz files (4ovGauss, jpn_phoneme, lvq, letter); the reference folder holds results of
other programs (r/ov4_emmix.csv). Missing files are reported and skipped. Run it outside the repository root, or
with amofa installed in editable mode.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from core import LabelledSet, example_1, load
from numpy.typing import NDArray

import amofa
from amofa.baselines import gaussian_per_class, mfa, ulfmm
from amofa.metrics import normalized_information_distance

# Accuracy in ten contiguous folds, in percent, with full and with diagonal covariances.
CLASSIFICATION = {"jpn_phoneme": (92.3, 82.2), "lvq": (92.0, 88.0), "letter": (88.5, 64.2)}


def verdict(holds: bool) -> str:
    return "holds" if holds else "MISSED"


# ---- sections --------------------------------------------------------------------------------------------------------


def ulfmm_example1(data: Path, folder: Path, quick: bool) -> None:
    """ULFMM, Example 1 of the paper, seeds 0..99 (the authors' program: K = 3 in 100, NID 0.0816)."""
    n = 20 if quick else 100
    right, _ = clustering(map(example_1, range(n)), 3)
    print(f"bar: K = 3 in {n} of {n}: {verdict(right == n)}")


def ulfmm_example2(data: Path, folder: Path, quick: bool) -> None:
    """ULFMM, the 100 sets of Example 2 (published: K = 4 in 56, NID 0.2951; the authors' program: 61, 0.2911)."""
    sets = load(data, "4ovGauss")
    n = 20 if quick else 100
    right, distance = clustering(list(zip(sets["X"], sets["y"], strict=True))[:n], 4)
    print(f"bar: K = 4 in 50 to 70 %: {verdict(0.5 * n <= right <= 0.7 * n)}")
    print(f"bar: mean NID 0.285 to 0.300: {verdict(0.285 <= distance <= 0.3)}")


def clustering(sets: Iterable[LabelledSet], true_components: int) -> tuple[int, float]:
    """Count how often ULFMM finds the number of components, and average the NID; set i has random state i."""
    counts: Counter[int] = Counter()
    distances = []
    start = time.process_time()
    for i, (X, y) in enumerate(sets):
        model = ulfmm(X, random_state=i)
        counts[model.n_components] += 1
        distances.append(normalized_information_distance(y, model.predict(X)))
    seconds = (time.process_time() - start) / len(distances)
    right, distance = counts[true_components], float(np.mean(distances))
    print(
        f"K = {true_components} in {right} of {len(distances)}, mean NID {distance:.4f}; found K: "
        f"{dict(sorted(counts.items()))}; {seconds:.2f} s CPU each"
    )
    return right, distance


def per_class(data: Path, folder: Path, quick: bool) -> None:
    """One Gaussian per class, ten contiguous folds."""
    for name, bars in CLASSIFICATION.items():
        file = load(data, name)
        for covariance, bar in zip(("full", "diag"), bars, strict=True):
            accuracy = 100 * np.array(fold_accuracies(file["X"], file["y"], covariance))
            mean, deviation = accuracy.mean(), accuracy.std(ddof=1)
            holds = verdict(abs(mean - bar) <= 0.3)
            print(f"{name}, {covariance}: {mean:.2f} +- {deviation:.2f}; bar {bar} within 0.3: {holds}")


def fold_accuracies(X: NDArray, y: NDArray, covariance: str) -> list[float]:
    step, accuracies = round(len(X) / 10), []
    for fold in range(10):
        test = np.zeros(len(X), dtype=bool)
        test[fold * step : (fold + 1) * step if fold < 9 else None] = True
        model = gaussian_per_class(X[~test], y[~test], covariance=covariance)
        accuracies.append(float((model.predict(X[test]) == y[test]).mean()))
    return accuracies


def likelihood(data: Path, folder: Path, quick: bool) -> None:
    """Mixtures of four factor analysers of one factor, the first sets of Example 2: log-likelihood over EMMIXmfa's."""
    with open(folder / "r" / "ov4_emmix.csv", newline="") as file:
        rows = list(csv.DictReader(file))[: 5 if quick else None]
    tables = load(data, "4ovGauss")["X"]
    start = time.process_time()
    gains = [
        float(mfa(tables[int(row["dataset"]) - 1], 4, 1).log_likelihood or np.nan) - float(row["loglik_recomputed"])
        for row in rows
    ]
    seconds = (time.process_time() - start) / len(gains)
    print(f"nats more than EMMIXmfa, sorted: {' '.join(f'{gain:.4f}' for gain in sorted(gains))}")
    print(f"{seconds:.2f} s CPU each; EMMIXmfa {np.mean([float(row['cpu_s']) for row in rows]):.2f} s")
    print(f"bar: more than -0.1 in each of {len(gains)}: {verdict(min(gains) >= -0.1)}")


SECTIONS = {f.__name__: f for f in (ulfmm_example1, ulfmm_example2, per_class, likelihood)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the benchmark sets")
    parser.add_argument("--reference", type=Path, default=Path("reference"), help="folder of other programs' results")
    parser.add_argument("--quick", action="store_true", help="fewer sets")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", amofa.AmofaWarning)
    print(f"amofa {amofa.__version__}, numpy {np.__version__}")
    for name in arguments.sections or SECTIONS:
        if name not in SECTIONS:
            parser.error(f"no section {name!r}; there are {', '.join(SECTIONS)}")
        print(f"\n{name}: {SECTIONS[name].__doc__}")
        try:
            SECTIONS[name](arguments.data, arguments.reference, arguments.quick)
        except FileNotFoundError as error:
            print(f"left out: {error.filename} is not there")


if __name__ == "__main__":
    main()
