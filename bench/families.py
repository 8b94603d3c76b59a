"""Measure kinds of noise whose components have something in common, beside the default.

    python bench/families.py [groups | held_out] [--data DIR] [--draws N] [--jobs N] [--sets SET ...]

Tables are those of bench/clusters.py with at most 1000 rows, and 64 for each column: of these, noise="any" tries all
kinds.
Numbers in brackets are adjusted Rand indices.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from clusters import REAL, TOLERANCE, FloatArray, Labels, labelled
from running import Run, main_of
from sklearn.metrics import adjusted_rand_score
from tails import parts

KINDS = ("auto", "scaled", "common_loadings")
# With more rows for each column, "any" is "auto"; with more rows, fits take long.
MOST_ROWS_PER_COLUMN, MOST_ROWS = 64, 1000
# A saving of the cost that counts, in nats.
SAVING = 0.1


class Fit(NamedTuple):
    """What came of a kind of noise."""

    cost: float
    n_components: int
    agreement: float
    noise: str
    seconds: float


def tables(run: Run) -> list[tuple[str, FloatArray, Labels]]:
    found = []
    for name in run.chosen(REAL, ("wine", "crabs")):
        try:
            X, y = labelled(run, name)
        except (FileNotFoundError, ImportError) as error:
            print(f"left out: {name} ({error})")
            continue
        n, d = X.shape
        if d <= n <= min(MOST_ROWS_PER_COLUMN * d, MOST_ROWS):
            found.append((name, X, y))
    return found


def groups(run: Run) -> None:
    """Cost and agreement with labels of each kind, and of the cheapest, which "any" is."""
    lines = []
    for name, X, y in tables(run):
        line = list(run.map(partial(_fit, run, X, y), KINDS))
        lines.append([*line, min(line, key=lambda each: each.cost)])
        shown = "; ".join(
            f"{kind} {each.cost:.1f} K {each.n_components} ({each.agreement:.2f})"
            for kind, each in zip(KINDS, line, strict=True)
        )
        print(f"{name} {X.shape[0]} x {X.shape[1]}: {shown}; cheapest {lines[-1][-1].noise}", flush=True)
    costs = np.array([[each.cost for each in line] for line in lines])
    agreement = np.array([[each.agreement for each in line] for line in lines])
    seconds = np.array([[each.seconds for each in line] for line in lines])
    for i, kind in enumerate((*KINDS[1:], "cheapest"), 1):
        gain = agreement[:, i] - agreement[:, 0]
        better, worse = (gain > TOLERANCE).sum(), (gain < -TOLERANCE).sum()
        print(
            f"{kind}: cheaper than auto on {(costs[:, i] < costs[:, 0] - SAVING).sum()} of {len(lines)}, mean ARI "
            f"{agreement[:, 0].mean():.3f} -> {agreement[:, i].mean():.3f} (better on {better}, worse on {worse}), "
            f"{seconds[:, i].sum() / seconds[:, 0].sum():.1f} times the CPU"
        )


def _fit(run: Run, X: FloatArray, y: Labels, kind: str) -> Fit:
    model, seconds = run.fit(X, noise=kind, n_threads=1)
    agreement = adjusted_rand_score(y, model.predict(X))
    return Fit(model.cost, model.n_components, agreement, model.noise, seconds)


def held_out(run: Run) -> None:
    """Held-out log density per row of "auto" and "any", the mean of as many folds as there are draws."""
    gains = []
    for name, X, _ in tables(run):
        auto, every = np.mean(list(run.map(partial(_densities, run), parts(X, run.draws))), axis=0)
        gains.append(every - auto)
        print(f"{name} {X.shape[0]} x {X.shape[1]}: auto {auto:.3f}, any {every:.3f} nats per row", flush=True)
    found = np.array(gains)
    print(f"any: better on {(found > 1e-3).sum()} of {len(found)}, worse on {(found < -1e-3).sum()}, ", end="")
    print(f"median {np.median(found):+.3f}, from {found.min():+.3f} to {found.max():+.3f}")


def _densities(run: Run, unit: tuple[FloatArray, FloatArray]) -> list[float]:
    train, test = unit
    return [float(run.fit(train, noise=kind)[0].score_samples(test).mean()) for kind in ("auto", "any")]


SECTIONS = {f.__name__: f for f in (groups, held_out)}


if __name__ == "__main__":
    main_of(__doc__, SECTIONS, REAL, draws=5, draws_of="table that held-out rows are taken from")
