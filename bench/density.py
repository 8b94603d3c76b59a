"""Measure held-out log densities per row of the default search, against GaussianMixture chosen by BIC.

    python bench/density.py --data DIR [--search paper] [--jobs N] [--quick] [--sets SET ...] [--cache FILE]

DIR holds the benchmark sets as .npz files (satellite, vowel, sonar, ionosphere, letter). Missing files are reported
and skipped. Seconds are CPU seconds of the fits only.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn
from core import load
from numpy.typing import NDArray
from running import Run, add_arguments, checked, run_sections, shape, verdict
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold

FloatArray = NDArray[np.float64]

DENSITY = ("satellite", "vowel", "sonar", "ionosphere", "letter")
FOLDS = 5


class Score(NamedTuple):
    """Sum of held-out log densities over the rows of a fold, the model, and CPU seconds."""

    total: float
    rows: int
    model: str
    seconds: float


def density(run: Run) -> None:
    """Held-out log-density per row against scikit-learn's GaussianMixture by BIC; bar: better on 4 of 5."""
    better = []
    for name in run.chosen(DENSITY, ["vowel", "sonar", "ionosphere"]):
        units = [(name, fold) for fold in range(FOLDS)]
        try:
            theirs = peers(run, units)
        except FileNotFoundError as error:
            print(f"{name} left out: {error.filename} is not there")
            continue
        ours = list(run.map(partial(our_density, run), units))
        means = [sum(s.total for s in scores) / sum(s.rows for s in scores) for scores in (ours, theirs)]
        better.append(means[0] > means[1])
        print(
            f"{name}: {means[0]:.4f}, scikit-learn {means[1]:.4f}: {'better' if better[-1] else 'NOT BETTER'}; "
            f"{sum(s.seconds for s in ours):.1f} s, scikit-learn {sum(s.seconds for s in theirs):.1f} s"
        )
        if run.each:
            for a, b in zip(ours, theirs, strict=True):
                print(f"  {a.total / a.rows:.4f} by {a.model}, {b.total / b.rows:.4f} by {b.model}")
    if better:
        print(f"better on {sum(better)} of {len(better)} (bar 4 of 5: {verdict(sum(better) >= 0.8 * len(better))})")


def standardised_fold(data: Path, name: str, fold: int) -> tuple[FloatArray, FloatArray]:
    """Return training and test rows in units of the training rows' standard deviations."""
    X = load(data, name)["X"][: 4000 if name == "letter" else None].astype(np.float64)
    train, test = list(KFold(FOLDS, shuffle=True, random_state=0).split(X))[fold]
    mean, sd = X[train].mean(axis=0), X[train].std(axis=0)
    sd[sd == 0] = 1.0
    return (X[train] - mean) / sd, (X[test] - mean) / sd


def our_density(run: Run, unit: tuple[str, int]) -> Score:
    train, test = standardised_fold(run.data, *unit)
    model, seconds = run.fit(train, noise_floor=1e-3)
    return Score(float(model.score_samples(test).sum()), len(test), shape(model.n_factors.tolist()), seconds)


def peers(run: Run, units: list[tuple[str, int]]) -> list[Score]:
    """Return scikit-learn's scores from the cache, after computing those that are missing."""
    cached = json.loads(run.cache.read_text()) if run.cache and run.cache.exists() else {}
    keys = [f"scikit-learn {sklearn.__version__}, {name}, fold {fold}" for name, fold in units]
    missing = [(key, unit) for key, unit in zip(keys, units, strict=True) if key not in cached]
    for (key, _), score in zip(missing, run.map(partial(peer_density, run), [u for _, u in missing]), strict=True):
        cached[key] = list(score)
    if run.cache and missing:
        run.cache.write_text(json.dumps(cached, indent=1))
    return [Score(*cached[key]) for key in keys]


def peer_density(run: Run, unit: tuple[str, int]) -> Score:
    """Return the best GaussianMixture by BIC, of 1 to 10 components and four types."""
    train, test = standardised_fold(run.data, *unit)
    start = time.process_time()
    best = gaussian_mixture_by_bic(train, reg_covar=1e-3)
    seconds = time.process_time() - start
    name = f"{best.n_components} {best.covariance_type}"
    return Score(float(best.score_samples(test).sum()), len(test), name, seconds)


def gaussian_mixture_by_bic(X: FloatArray, reg_covar: float) -> GaussianMixture:
    models = [
        GaussianMixture(K, covariance_type=kind, reg_covar=reg_covar, random_state=0).fit(X)
        for kind in ("full", "tied", "diag", "spherical")
        for K in range(1, 11)
    ]
    return min(models, key=lambda model: model.bic(X))


def add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", type=Path, help="density: JSON file that keeps scikit-learn's scores")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=(), choices=DENSITY, metavar="SET", help="these alone")
    add_cache(parser)
    add_arguments(parser)
    options = vars(checked(parser, parser.parse_args()))
    run_sections(Run(**options), {"density": density})


if __name__ == "__main__":
    main()
