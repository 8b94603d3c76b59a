"""Measure what t components gain: numbers of groups, held-out densities and time, of tails="auto" beside "normal".

    python bench/tails.py [generated | held_out | cost] [--data DIR] [--draws N] [--jobs N] [--sets SET ...]

Tables are those of scikit-learn, and .npz files with X and y in DIR or its folder real; what is not there is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from clusters import GENERATORS, FloatArray, labelled
from core import load
from density import gaussian_mixture_by_bic
from running import Run, main_of, verdict
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import KFold

KINDS = ("t(5)", "t(3), 10 columns", "gaussian", "near gaussian", "example 2")
# Bars: number of groups right in this share of draws; most that "auto" may lose, in nats per row; most of its time.
RIGHT, LOSS, TIMES = 0.9, 0.05, 2.0
TABLES = (
    *("breast_cancer", "wine", "iris", "diabetes", "ais", "biopsy", "crabs", "ecoli", "glass", "oils", "penguins"),
    *("scat", "vowel"),
)
# Of these, so many rows are taken.
LARGE, MOST_ROWS = ("satellite", "pendigits", "waveform", "lvq"), 2000
# Tables to compare times.
TIMED = ("example 2", "satellite", "pendigits")


class Draw(NamedTuple):
    """Components, costs and adjusted Rand indices of normal and other tails on one draw."""

    numbers: list[int]
    costs: list[float]
    agreement: list[float]


def generated(run: Run) -> None:
    """Number of components on groups with heavy tails, and on Gaussian ones, where nothing may change."""
    for kind in run.chosen(KINDS, KINDS):
        K = len(np.unique(GENERATORS[kind](0)[1]))
        draws = list(run.map(partial(_draw, run), [(kind, seed) for seed in range(run.draws)]))
        right = [np.mean([each.numbers[i] == K for each in draws]) for i in (0, 1)]
        before, after = np.mean([each.agreement for each in draws], axis=0)
        dearer = max(each.costs[1] - each.costs[0] for each in draws)
        is_heavy = kind.startswith("t(")
        met = right[1] >= RIGHT if is_heavy else all(each.numbers[0] == each.numbers[1] for each in draws)
        print(f"{kind:18s} K right {right[0]:.0%} -> {right[1]:.0%}, ARI {before:.3f} -> {after:.3f}, ", end="")
        print(f"cost at most {dearer:+.3f} nats: {verdict(met and dearer < 1e-3)}")


def _draw(run: Run, unit: tuple[str, int]) -> Draw:
    kind, seed = unit
    X, y = GENERATORS[kind](seed)
    models = [run.fit(X, tails=tails)[0] for tails in ("normal", "auto")]
    return Draw(
        [model.n_components for model in models],
        [model.cost for model in models],
        [adjusted_rand_score(y, model.predict(X)) for model in models],
    )


def held_out(run: Run) -> None:
    """Held-out log density per row, of two halves and of five folds."""
    lines = []
    for name in run.chosen((*TABLES, *LARGE), ("wine", "iris")):
        try:
            X = table(run, name)
        except FileNotFoundError as error:
            print(f"left out: {name} ({error.filename} is not there)")
            continue
        halves, folds = (np.mean(list(run.map(partial(densities, run), parts(X, number))), axis=0) for number in (2, 5))
        lines.append((halves, folds))
        shown = "; ".join(f"normal {a:8.3f}, auto {b:8.3f}, GaussianMixture {c:8.3f}" for a, b, c in (halves, folds))
        print(f"{name:14s} {len(X):5d} x {X.shape[1]:2d}: {shown}")
    gains = np.array([[auto - normal for normal, auto, _ in line] for line in lines])
    better = gains.mean(axis=1) > 1e-3
    over = sum(min(auto - theirs for _, auto, theirs in line) > 0 for line in lines)
    met = verdict(better.mean() >= 0.7 and gains.min() >= -LOSS and over == len(lines))
    print(f"better than normal on {better.sum()} of {len(lines)}, at least {gains.min():+.3f}; ", end="")
    print(f"better than GaussianMixture on {over}: {met}")


def table(run: Run, name: str) -> FloatArray:
    """Return the first rows of a table."""
    if name in LARGE:
        return load(run.data, name)["X"][:MOST_ROWS].astype(np.float64)
    return datasets.load_diabetes().data if name == "diabetes" else labelled(run, name)[0]


def parts(X: FloatArray, number: int) -> list[tuple[FloatArray, FloatArray]]:
    """Return training and test rows."""
    splits = KFold(number, shuffle=True, random_state=number).split(X)
    return [(X[train], X[test]) for train, test in splits]


def densities(run: Run, unit: tuple[FloatArray, FloatArray]) -> list[float]:
    train, test = unit
    models = [run.fit(train, tails=tails)[0] for tails in ("normal", "auto")]
    theirs = gaussian_mixture_by_bic(train, reg_covar=1e-6)
    return [float(model.score_samples(test).mean()) for model in (*models, theirs)]


def cost(run: Run) -> None:
    """CPU time of "auto" over that of "normal"; nothing else may run."""
    for name in run.chosen(TIMED, ("example 2",)):
        ratios = list(run.map(partial(time_ratio, run), units(run, name)))
        print(f"{name}: {np.median(ratios):.2f} times the CPU of normal tails: {verdict(np.median(ratios) <= TIMES)}")


def units(run: Run, name: str) -> Iterator[FloatArray]:
    if name in GENERATORS:
        yield from (GENERATORS[name](seed)[0] for seed in range(run.draws))
    else:
        yield load(run.data, name)["X"].astype(np.float64)


def time_ratio(run: Run, X: FloatArray) -> float:
    normal, auto = (run.fit(X, tails=tails, n_threads=1)[1] for tails in ("normal", "auto"))
    return auto / normal


SECTIONS = {f.__name__: f for f in (generated, held_out, cost)}


if __name__ == "__main__":
    main_of(__doc__, SECTIONS, (*KINDS, *TABLES, *LARGE), draws=10, draws_of="kind of groups")
