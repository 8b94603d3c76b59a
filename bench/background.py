"""Measure what a background gains: numbers of groups beside scattered rows, labelled tables, and time.

    python bench/background.py [generated | real | cost] [--data DIR] [--draws N] [--jobs N] [--sets SET ...]

Tables are those of bench/clusters.py; what is not there is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from clusters import BUNDLED, FILES, GENERATORS, RDATASETS, FloatArray, Table, labelled
from core import load
from numpy.typing import NDArray
from running import Run, main_of, verdict
from sklearn.metrics import adjusted_rand_score

# The share of scattered rows: in this multiple of the box of the others, or with so many times their deviations.
SHARE, BOX, FAR = 0.05, 1.5, 30.0
OUTLIERS = ("none", "uniform", "far", "both")
# Bars: number of groups right in this share of draws; most of the time of a fit without a background.
RIGHT, TIMES = 0.9, 2.0
TABLES = (*BUNDLED, *FILES, *RDATASETS)
MOST_ROWS = 3000
# Tables to compare times.
TIMED = ("example 2", "satellite", "pendigits")


def factors(seed: int, K: int, p: int, d: int) -> Table:
    """Return 1500 rows of K groups with p factors in d columns."""
    rng = np.random.default_rng(seed)
    n, groups = 1500 // K, []
    for _ in range(K):
        centre, loadings = rng.normal(0, 3, d), rng.normal(size=(p, d))
        groups.append(centre + rng.normal(size=(n, p)) @ loadings + rng.normal(size=(n, d)) * rng.uniform(0.3, 0.7, d))
    return np.concatenate(groups), np.repeat(np.arange(K), n)


GROUPS: dict[str, Callable[[int], Table]] = {
    "example 2": GENERATORS["example 2"],
    "3 x 2 factors, 10 columns": partial(factors, K=3, p=2, d=10),
    "3 x 5 factors, 20 columns": partial(factors, K=3, p=5, d=20),
}
KINDS = tuple(f"{groups}: {outliers}" for groups in GROUPS for outliers in OUTLIERS)


def with_outliers(table: Table, kind: str, seed: int) -> Table:
    """Add scattered rows, whose label is -1."""
    X, y = table
    rng = np.random.default_rng(1000 + seed)
    n = 0 if kind == "none" else round(len(X) * SHARE / (1 - SHARE))
    n_far = {"far": n, "both": n - n // 2}.get(kind, 0)
    low, high = X.min(axis=0), X.max(axis=0)
    near = (low + high) / 2 + BOX * (high - low) * (rng.random((n - n_far, X.shape[1])) - 0.5)
    far = X.mean(axis=0) + FAR * X.std(axis=0) * rng.normal(size=(n_far, X.shape[1]))
    return np.concatenate([X, near, far]), np.concatenate([y, np.full(n, -1)])


class Draw(NamedTuple):
    """What fits without and with a background find on one draw."""

    numbers: list[int]
    costs: list[float]
    agreement: list[float]  # adjusted Rand index of the rows of groups
    found: float  # share of the scattered rows with the label -1
    lost: float  # share of the others


def generated(run: Run) -> None:
    """Number of components beside scattered rows, and on clean ones, where nothing may change."""
    for kind in run.chosen(KINDS, KINDS[:4]):
        draws = list(run.map(partial(_draw, run), [(kind, seed) for seed in range(run.draws)]))
        name, outliers = kind.split(": ")
        K = len(np.unique(GROUPS[name](0)[1]))
        right = [np.mean([each.numbers[i] == K for each in draws]) for i in (0, 1)]
        before, after = np.mean([each.agreement for each in draws], axis=0)
        print(
            f"{kind:35s} K right {right[0]:.0%} -> {right[1]:.0%}, ARI of groups {before:.3f} -> {after:.3f}, ", end=""
        )
        if outliers == "none":
            dearer = max(each.costs[1] - each.costs[0] for each in draws)
            met = all(each.numbers[0] == each.numbers[1] for each in draws) and dearer < 1e-3
            print(f"cost at most {dearer:+.3f} nats: {verdict(met)}")
        else:
            found, lost = np.mean([(each.found, each.lost) for each in draws], axis=0)
            print(f"found {found:.0%} of the scattered rows and {lost:.2%} of others: {verdict(right[1] >= RIGHT)}")


def _draw(run: Run, unit: tuple[str, int]) -> Draw:
    kind, seed = unit
    name, outliers = kind.split(": ")
    X, y = with_outliers(GROUPS[name](seed), outliers, seed)
    models = [run.fit(X, background=background)[0] for background in (None, "auto")]
    labels, in_groups = models[1].predict(X), y >= 0
    return Draw(
        [model.n_components for model in models],
        [model.cost for model in models],
        [adjusted_rand_score(y[in_groups], model.predict(X[in_groups])) for model in models],
        float((labels[~in_groups] == -1).mean()) if not in_groups.all() else 0.0,
        float((labels[in_groups] == -1).mean()),
    )


def real(run: Run) -> None:
    """Adjusted Rand index on labelled tables, rows of the background as a group of their own."""
    lines = []
    for name in run.chosen(TABLES, ("iris", "wine")):
        try:
            X, y = labelled(run, name)
        except FileNotFoundError as error:
            print(f"left out: {name} ({error.filename} is not there)")
            continue
        if len(X) > MOST_ROWS:
            continue
        (plain, _), (model, _) = run.fit(X), run.fit(X, background="auto")
        lines.append([adjusted_rand_score(y, each.predict(X)) for each in (plain, model)])
        if run.each or abs(lines[-1][1] - lines[-1][0]) > 0.02:
            share = f"{model.background}, {model.background_weight:.1%}" if model.background else "none"
            print(f"{name:14s} ARI {lines[-1][0]:.3f} -> {lines[-1][1]:.3f}, background: {share}")
    before, after = np.mean(lines, axis=0)
    print(f"mean ARI of {len(lines)} tables {before:.4f} -> {after:.4f}: {verdict(after >= before)}")


def cost(run: Run) -> None:
    """CPU time with background="auto" over that without; nothing else may run."""
    for name in run.chosen(TIMED, ("example 2",)):
        ratios = list(run.map(partial(time_ratio, run), units(run, name)))
        print(f"{name}: {np.median(ratios):.2f} times the CPU without: {verdict(np.median(ratios) <= TIMES)}")


def units(run: Run, name: str) -> Iterator[FloatArray]:
    if name in GROUPS:
        yield from (GROUPS[name](seed)[0] for seed in range(run.draws))
    else:
        yield load(run.data, name)["X"].astype(np.float64)


def time_ratio(run: Run, X: NDArray[np.float64]) -> float:
    plain, beside = (run.fit(X, background=background, n_threads=1)[1] for background in (None, "auto"))
    return beside / plain


SECTIONS = {f.__name__: f for f in (generated, real, cost)}


if __name__ == "__main__":
    main_of(__doc__, SECTIONS, (*KINDS, *TABLES, *TIMED), draws=10, draws_of="kind of groups")
