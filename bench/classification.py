"""Measure the accuracy of a mixture for each class on the paper's sets, against target values.

    python bench/classification.py --data DIR [--search paper] [--jobs N] [--quick] [--sets SET ...]

DIR holds the benchmark sets as .npz files (jpn_phoneme, lvq, optdigits_paper, pendigits, letter, waveform,
mnist10_train, mnist10_test). Missing files are reported and skipped. Seconds are CPU seconds of the fits, those of
mnist10 wall-clock seconds.

The method is `amofa.sklearn.AMoFAClassifier` with its defaults for all sets, except for the options given here.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from core import load
from numpy.typing import NDArray
from running import Run, add_arguments, checked, run_sections, shape, verdict

from amofa.sklearn import AMoFAClassifier

FloatArray = NDArray[np.float64]
Labels = NDArray[np.integer]

# Target accuracies in percent.
CLASSIFICATION = {
    "jpn_phoneme": 96.7,
    "lvq": 92.1,
    "optdigits_paper": 97.2,
    "pendigits": 99.1,
    "letter": 96.7,
    "waveform": 85.6,
    "mnist10": 96.4,
}


class Fold(NamedTuple):
    """Test accuracy in percent, the classifier, and seconds of the fit."""

    accuracy: float
    classifier: AMoFAClassifier
    seconds: float


def classification(run: Run) -> None:
    """One model for each class, no priors; ten contiguous folds, or the set's own split."""
    for name in run.chosen(CLASSIFICATION, ["jpn_phoneme", "lvq", "waveform"]):
        try:
            folds = mnist(run) if name == "mnist10" else contiguous_folds(run, name)
        except FileNotFoundError as error:
            print(f"{name} left out: {error.filename} is not there")
            continue
        print_classification(run, name, folds)


def print_classification(run: Run, name: str, folds: list[Fold]) -> None:
    accuracies = [fold.accuracy for fold in folds]
    if run.each:
        print(f"  folds: {' '.join(f'{a:.2f}' for a in accuracies)}")
        poolings = (f"{c.pooled_rows_:g} {c.single_weight_:g}" for c in (fold.classifier for fold in folds))
        print(f"  pooled rows, weight of single: {', '.join(poolings)}")
    mean, bar = np.mean(accuracies), CLASSIFICATION[name]
    spread = f"{np.std(accuracies, ddof=1):.2f}" if len(folds) > 1 else "none"
    components = [K for fold in folds for K in fold.classifier.n_components_]
    factors = [p for fold in folds for of_class in fold.classifier.n_factors_ for p in of_class]
    print(
        f"{name}: {mean:.2f} +- {spread} over {len(folds)} (bar {bar}: {verdict(mean >= bar)}); components per class "
        f"{min(components)} to {max(components)}, mean {np.mean(components):.2f}; factors {min(factors)} to "
        f"{max(factors)}, mean {np.mean(factors):.1f}; {sum(fold.seconds for fold in folds):.1f} s"
    )


def contiguous_folds(run: Run, name: str) -> list[Fold]:
    n = len(classification_set(run.data, name)[1])
    step = round(n / 10)
    bounds = [(i * step, (i + 1) * step if i < 9 else n) for i in range(2 if run.quick else 10)]
    return list(run.map(partial(one_fold, run, name), bounds))


def classification_set(data: Path, name: str) -> tuple[FloatArray, Labels]:
    file = load(data, name)
    rows = slice(500 if name == "waveform" else None)
    return file["X"][rows].astype(np.float64), file["y"][rows]


def one_fold(run: Run, name: str, bounds: tuple[int, int]) -> Fold:
    X, y = classification_set(run.data, name)
    tested = np.zeros(len(X), dtype=bool)
    tested[slice(*bounds)] = True
    return judged(run, X[~tested], y[~tested], X[tested], y[tested])


def judged(run: Run, X: FloatArray, y: Labels, X_test: FloatArray, y_test: Labels, n_jobs: int | None = None) -> Fold:
    """Fit and test; return CPU seconds, or wall-clock seconds if the fit runs in several processes."""
    clock = time.process_time if n_jobs is None else time.perf_counter
    classifier = AMoFAClassifier(noise_floor=run.share, n_jobs=n_jobs, **run.options)
    start = clock()
    classifier.fit(X, y)
    seconds = clock() - start
    return Fold(100 * classifier.score(X_test, y_test), classifier, seconds)


def mnist(run: Run) -> list[Fold]:
    """Fit and test the only split, with the fits of classes and parts in parallel."""
    train, test = load(run.data, "mnist10_train"), load(run.data, "mnist10_test")
    rows = slice(None, None, 100 if run.quick else 1)
    X, y = train["X"][rows].astype(np.float64), train["y"][rows]
    fold = judged(run, X, y, test["X"].astype(np.float64), test["y"], run.jobs)
    for label, factors in zip(fold.classifier.classes_, fold.classifier.n_factors_, strict=True):
        print(f"  {label}: {shape(factors.tolist())}")
    return [fold]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=(), choices=CLASSIFICATION, metavar="SET", help="these alone")
    add_arguments(parser)
    options = vars(checked(parser, parser.parse_args()))
    run_sections(Run(**options), {"classification": classification})


if __name__ == "__main__":
    main()
