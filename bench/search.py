"""Measure how far the default search ends above models that fits find when they are shown the way, and what it takes.

    python bench/search.py [regret | speed] [--quick] [--each] [--data DIR] [--sets SET ...] [--draws N] [--jobs N]

Regret is the cost of the default fit minus the least cost of fits from the true groups, from labels of k-means and of
Ward's method with 2 to 8 groups, with the true number of components, and of the cheapest row of a scan. Tables are
those of scikit-learn and .npz files with X and y in DIR or a folder in it, and N draws from each generator; what is not
there is left out. Speed is measured in CPU seconds of one thread, in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from running import Run, main_of, timed, verdict
from sklearn import datasets
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from speed import interleaved, middle_and_least
from thorough import factor_analysers

import amofa
from amofa.demo import example_2

FloatArray = NDArray[np.float64]
Table = tuple[FloatArray, NDArray]

BUNDLED = ("iris", "wine", "breast_cancer")
FILES = (
    *("ais", "biopsy", "coffee", "crabs", "diabetes", "ecoli", "glass", "oils", "penguins", "scat", "sonar"),
    *("ionosphere", "vowel"),
)
GROUPS = range(2, 9)
# Nats that do not matter.
TOLERANCE = 1.0


# ---- tables ----------------------------------------------------------------------------------------------------------


def line(seed: int) -> Table:
    """Draw three to five round groups side by side, which one analyser with a factor describes nearly as well."""
    rng = np.random.default_rng(seed)
    d, K = int(rng.integers(2, 21)), int(rng.integers(3, 6))
    y = np.arange(1500) % K
    X = rng.standard_normal((1500, d))
    X[:, 0] += rng.uniform(3.5, 6) * y
    return X, y


def analysers(seed: int) -> Table:
    """Draw two to six analysers with the same number of factors."""
    rng = np.random.default_rng(seed)
    K, d, p = int(rng.integers(2, 7)), int(rng.integers(6, 21)), int(rng.integers(0, 4))
    drawn = factor_analysers(seed, 400 * K, d, K, p, rng.uniform(1, 3))
    return drawn.X, drawn.y


def nests(seed: int) -> Table:
    """Draw three groups of three groups."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 9))
    y = np.arange(1800) % 9
    means = np.repeat(rng.normal(0, 40, (3, d)), 3, axis=0) + rng.normal(0, 6, (9, d))
    return means[y] + rng.standard_normal((1800, d)), y


def whole_numbers(seed: int) -> Table:
    """Draw one to three groups, rounded to whole numbers of which there are few."""
    rng = np.random.default_rng(seed)
    d, K = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    y = np.arange(3000) % K
    return np.rint(rng.normal(0, 8, (K, d))[y] + rng.uniform(1, 2, d) * rng.standard_normal((3000, d))), y


GENERATORS: dict[str, Callable[[int], Table]] = {f.__name__: f for f in (line, analysers, nests, whole_numbers)}
# The largest ratio to aim at.
SPEED = {"example2": 0.15, "satellite": 0.5, "pendigits": 0.7, "letter": 1.5}


def table_of(run: Run, name: str) -> Table:
    """Return rows and true groups of a set; FileNotFoundError if it is not there."""
    if name == "example2":
        return example_2(0)
    if name in BUNDLED:
        return getattr(datasets, f"load_{name}")(return_X_y=True)
    path = next(run.data.rglob(f"{name}.npz"), run.data / f"{name}.npz")
    with np.load(path, allow_pickle=False) as file:
        return np.ascontiguousarray(file["X"], dtype=np.float64), np.unique(file["y"], return_inverse=True)[1]


# ---- regret ----------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The default fit of a table, and the cheapest of those that were shown the way."""

    n_components: int
    n_groups: int
    rand_index: float
    cost: float
    seconds: float
    least: float
    way: str

    @property
    def regret(self) -> float:
        return self.cost - self.least


def ways(X: FloatArray, y: NDArray) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each way that a fit is shown, with its options."""
    K = len(np.unique(y))
    yield "true groups", {"init": y}
    yield f"n_components={K}", {"n_components": K}
    scale = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1)
    for groups in GROUPS:
        yield f"k-means, {groups}", {"init": KMeans(groups, n_init=10, random_state=0).fit_predict(Z)}
        yield f"Ward, {groups}", {"init": AgglomerativeClustering(groups).fit_predict(Z)}


def found_in(run: Run, table: Table) -> Found:
    X, y = table
    model, seconds = run.fit(X)
    costs = [(run.fit(X, **options)[0].cost, way) for way, options in ways(X, y)]
    least, way = min([*costs, (amofa.scan(X, **run.options).best.cost, "scan")])
    index = adjusted_rand_score(y, model.predict(X))
    return Found(model.n_components, len(np.unique(y)), index, model.cost, seconds, least, way)


def print_found(name: str, found: Found) -> None:
    print(
        f"{name}: K = {found.n_components} of {found.n_groups}, ARI {found.rand_index:.2f}, cost {found.cost:.2f}, "
        f"{found.seconds:.2f} s; shown the way {found.least:.2f} ({found.way}), regret {found.regret:.2f} nats"
    )


def print_summary(name: str, all_found: list[Found]) -> None:
    regrets = np.array([found.regret for found in all_found])
    n_above = int((regrets > TOLERANCE).sum())
    right = sum(found.n_components == found.n_groups for found in all_found)
    print(
        f"{name}: regret above {TOLERANCE:g} nat in {n_above} of {len(regrets)} (bar none: {verdict(n_above == 0)}), "
        f"largest {regrets.max():.1f} nats; K as the groups in {right}"
    )


def regret(run: Run) -> None:
    """Cost of the default fit, beside the cheapest of fits that were shown the way; bar: at most 1 nat more."""
    tables = []
    for name in run.chosen((*BUNDLED, *FILES), ("iris", "wine")):
        try:
            tables.append((name, table_of(run, name)))
        except FileNotFoundError as error:
            print(f"{name} left out: {error.filename} is not there")
    all_found = []
    for (name, _), found in zip(tables, run.map(partial(found_in, run), [table for _, table in tables]), strict=True):
        print_found(name, found)
        all_found.append(found)
    if all_found:
        print_summary("tables", all_found)
    for name in run.chosen(GENERATORS, ("line", "whole_numbers")):
        drawn = list(run.map(partial(found_in, run), map(GENERATORS[name], range(1 if run.quick else run.draws))))
        for seed, found in enumerate(drawn if run.each else ()):
            print_found(f"{name}, seed {seed}", found)
        print_summary(name, drawn)


# ---- speed -----------------------------------------------------------------------------------------------------------

ROUNDS, LARGE = 5, 5000


def speed(run: Run) -> None:
    """CPU seconds of the default fit over those of GaussianMixture(K, random_state=0) for K = 1 to 10."""
    with amofa.threads.use_threads(1):
        for name in run.chosen(SPEED, ("example2",)):
            try:
                X, _ = table_of(run, name)
            except FileNotFoundError as error:
                print(f"{name} left out: {error.filename} is not there")
                continue
            print_speed(run, name, X)


def print_speed(run: Run, name: str, X: FloatArray) -> None:
    model, seconds = run.fit(X)
    if len(X) > LARGE:
        # Once each: they take long.
        times = {"default": np.array([seconds]), "GaussianMixture": np.array([timed(mixtures, X)[1]])}
    else:
        times = interleaved({"default": lambda: run.fit(X), "GaussianMixture": lambda: mixtures(X)}, ROUNDS)
    ours, theirs = (np.median(of_one) for of_one in times.values())
    shown = ", ".join(f"{task} {middle_and_least(of_one)}" for task, of_one in times.items())
    bar = f"bar <= {SPEED[name]}: {verdict(ours <= SPEED[name] * theirs)}"
    print(f"{name} {X.shape}: {ours / theirs:.2f} ({bar}); {shown}; K = {model.n_components}, cost {model.cost:.2f}")


def mixtures(X: FloatArray) -> list[GaussianMixture]:
    return [GaussianMixture(K, random_state=0).fit(X) for K in range(1, 11)]


SECTIONS = {f.__name__: f for f in (regret, speed)}


if __name__ == "__main__":
    main_of(__doc__, SECTIONS, (*BUNDLED, *FILES, *GENERATORS, *SPEED), draws=10, draws_of="generator")
