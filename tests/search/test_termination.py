"""Every fit ends, and how many models it looks at is bounded as docs/algorithm.md argues: on tables made to mislead."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest

import amofa
from amofa._search import default as thorough

# What a round of the thorough search looks at, at most: all splits that pay at once, some alone, and some merges.
LOOKED_AT = 1 + 2 * thorough._MOST_TRIALS
# What each of its two searches ("auto") looks at beside rounds: its start or "share", and "refine".
AROUND = 4


def dust(depth):
    """Cantor's, with gaps on every scale."""
    x = np.zeros(1)
    for _ in range(depth):
        x = np.concatenate([x / 3, x / 3 + 2 / 3])
    return x


def spiral():
    t = np.linspace(0, 1, 90)
    return np.column_stack([t * np.cos(15 * t), t * np.sin(15 * t)])


def shells(rng):
    u = rng.standard_normal((200, 3))
    return u / np.linalg.norm(u, axis=1)[:, None] * (2.0 ** (np.arange(200) % 4))[:, None]


def far(rng):
    x = rng.standard_normal((50, 2))
    x[0] = 1e150
    return x


def grid(*sides):
    return np.stack(np.meshgrid(*[np.arange(float(side)) for side in sides]), axis=-1).reshape(-1, len(sides))


TABLES = {
    "ties": lambda rng: np.round(rng.standard_normal((200, 3))),
    "two points": lambda rng: np.tile([[0.0, 0.0], [1.0, 3.0]], (100, 1)),
    "all but one": lambda rng: np.vstack([np.zeros((99, 3)), np.ones((1, 3))]),
    "powers": lambda rng: np.column_stack([2.0 ** np.arange(60), 2.0 ** -np.arange(60)]),
    "dust": lambda rng: dust(6)[:, None],
    "dust in the plane": lambda rng: np.stack(np.meshgrid(dust(3), dust(3)), axis=-1).reshape(-1, 2),
    "spiral": lambda rng: spiral(),
    "lattice": lambda rng: grid(4, 4, 4),
    "shells": shells,
    "far": far,
    "alternating": lambda rng: np.tile(rng.standard_normal((7, 2)), (30, 1)),
    "heavy tails": lambda rng: rng.standard_cauchy((2000, 2)),
    "walk": lambda rng: np.cumsum(rng.standard_cauchy((100, 2)), axis=0),
    "whole numbers": lambda rng: rng.integers(0, 4, (200, 3)).astype(float),
}
MODES = {
    "as it is": {},
    "aic, no prior": {"criterion": "aic", "prior_rows": 0},
    "shared": {"noise": "shared"},
    "one iteration": {"max_iter": 1},
    "tiny tol": {"tol": 1e-300, "max_iter": 20},
    "huge tol": {"tol": 1e300},
    "all factors": {"n_factors": "all", "max_iter": 10},
    "paper": {"search": "paper"},
    "paper, aic": {"search": "paper", "criterion": "aic", "max_iter": 20},
    "paper, one iteration": {"search": "paper", "max_iter": 1},
    "paper, tiny tol": {"search": "paper", "tol": 1e-300, "max_iter": 20},
    "paper, huge tol": {"search": "paper", "tol": 1e300},
}


def fit(x, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amofa.AmofaWarning)
        return amofa.fit(x, **options)


def check_steps_of_the_thorough_search(history):
    """Moves that are kept lower the cost by what counts as lower, and rounds look at no more than so many models."""
    kept = [step for step in history if step.accepted]
    for before, after in pairwise(kept):
        if after.action in ("split", "merge"):
            assert after.cost <= before.cost - thorough._LEAST_GAIN
    moves = sum(step.action in ("split", "merge") for step in kept)
    assert len(history) <= LOOKED_AT * (moves + 2) + AROUND


def check_steps_of_the_papers_search(history, n, d):
    """It grows by a component or a factor at a time, each of which pays, and looks at a split and a factor for each."""
    grown = [step for step in history if step.accepted and step.action in ("start", "split", "factor")]
    for before, after in pairwise(grown):
        assert after.cost < before.cost
    assert len(grown) <= (n + 1) * (2 + d)
    assert len(history) <= 2 * (len(grown) + 1) + n + 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("table", TABLES)
def test_a_search_ends(rng, table, mode):
    x = TABLES[table](rng)
    n, d = len(np.unique(x, axis=0)), x.shape[1]
    options = {name: d if value == "all" else value for name, value in MODES[mode].items()}
    model = fit(x, **options)
    assert np.isfinite(model._parameters.buffer).all()
    assert model.n_components <= n
    assert len(model.history) < 200
    if options.get("search") == "paper":
        check_steps_of_the_papers_search(model.history, n, d)
    else:
        check_steps_of_the_thorough_search(model.history)


@pytest.mark.parametrize("search", ["thorough", "paper"])
@pytest.mark.parametrize("table", TABLES)
def test_as_many_components_as_rows(rng, table, search):
    """Splits are made whether they pay or not; each that is kept adds a component, or lowers the cost ("paper")."""
    rows = np.unique(TABLES[table](rng), axis=0)
    x = rows[rng.permutation(len(rows))[:9]]
    model = fit(x, search=search, n_components=len(x), n_factors=min(1, x.shape[1]))
    assert model.n_components <= len(x)
    kept = [step for step in model.history if step.accepted and step.action in ("start", "split", "factor")]
    for before, after in pairwise(kept):
        more = len(after.n_factors) > len(before.n_factors)
        assert more or (search == "paper" and after.cost < before.cost)
    # All that pay, each alone, and each from all its starts.
    assert len(model.history) <= 2 * (6 * len(x) ** 2 + AROUND)


@pytest.mark.parametrize("search", ["thorough", "paper"])
def test_more_components_than_rows(rng, search):
    model = fit(np.repeat(rng.standard_normal((5, 2)), 20, axis=0), search=search, n_components=50, max_iter=5)
    assert model.n_components <= 5


def test_a_start_of_many_components_is_brought_down(rng):
    x = rng.standard_normal((60, 2))
    model = fit(x, init=np.arange(60), max_components=3)
    assert model.n_components <= 3
    # Each merge takes one away.
    assert sum(step.action == "merge" for step in model.history) <= 2 * 60


def test_huge_weights_do_not_make_more_to_find(rng):
    x = rng.choice([0.0, 1.0, 5.0], (40, 3))
    model = fit(x, sample_weight=np.full(40, 1e50))
    assert model.n_components <= len(np.unique(x, axis=0))
    assert len(model.history) < 200
