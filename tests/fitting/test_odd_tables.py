"""fit(): what it makes of odd tables; it always ends, and looks at no more models than docs/algorithm.md says."""

import re
import warnings
from itertools import pairwise

import numpy as np
import pytest
from fits import MOVES, check_model, collinear, two_groups, warned

import amofa
from amofa._search import descent, ways

# ---- tables made to mislead ------------------------------------------------------------------------------------------


def outlier(rng):
    X = rng.standard_normal((200, 3))
    X[17, 1] = 1e150
    return X


def dust(depth):
    """Cantor's, with gaps on every scale."""
    x = np.zeros(1)
    for _ in range(depth):
        x = np.concatenate([x / 3, x / 3 + 2 / 3])
    return x


def spiral(rng):
    t = np.linspace(0, 1, 90)
    return np.column_stack([t * np.cos(15 * t), t * np.sin(15 * t)])


def shells(rng):
    u = rng.standard_normal((120, 3))
    return u / np.linalg.norm(u, axis=1)[:, None] * (2.0 ** (np.arange(120) % 4))[:, None]


def grid(*axes):
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(axes))


TABLES = {
    "two rows": lambda rng: rng.standard_normal((2, 3)),
    "two rows of one column": lambda rng: [[0.0], [1.0]],
    "fewer rows than columns": lambda rng: rng.standard_normal((20, 50)),
    "far fewer rows than columns": lambda rng: rng.standard_normal((5, 200)),
    "as many rows as columns": lambda rng: rng.standard_normal((40, 40)),
    "one row more than columns": lambda rng: rng.standard_normal((40, 39)),
    "collinear columns": collinear,
    "every column twice": lambda rng: np.tile(two_groups(rng), 2),
    "few whole numbers": lambda rng: rng.integers(0, 4, (200, 3)),
    "bool": lambda rng: rng.random((200, 4)) > 0.4,
    "one hot": lambda rng: np.eye(12)[rng.integers(0, 12, 200)],
    "extreme ints": lambda rng: np.array([[-(2**63), 0], [2**63 - 1, 1]] * 20),
    "one column": lambda rng: two_groups(rng, d=1),
    "an outlier at 1e150": outlier,
    "units from 1e-140 to 1e140": lambda rng: two_groups(rng) * [1e-140, 1.0, 1e140],
    "powers": lambda rng: np.column_stack([2.0 ** np.arange(60), 2.0 ** -np.arange(60)]),
    "an offset of 1e8": lambda rng: two_groups(rng) + 1e8,
    "nine rows in ten the same": lambda rng: np.concatenate([np.ones((900, 3)), rng.standard_normal((100, 3))]),
    "all rows but one the same": lambda rng: np.concatenate([np.zeros((999, 2)), np.ones((1, 2))]),
    "nine distinct rows": lambda rng: rng.standard_normal((9, 2))[rng.integers(0, 9, 17)],
    "a Cauchy sample": lambda rng: rng.standard_cauchy((300, 2)),
    "a walk": lambda rng: np.cumsum(rng.standard_cauchy((100, 2)), axis=0),
    "a row of zeros and few others": lambda rng: np.where(rng.random((50, 20)) < 0.1, rng.random((50, 20)), 0.0),
    "dust": lambda rng: dust(6)[:, None],
    "dust in the plane": lambda rng: grid(dust(3), dust(3)),
    "spiral": spiral,
    "lattice": lambda rng: grid(*[np.arange(4.0)] * 3),
    "shells": shells,
}
MODES = {
    "as it is": {},
    "bic": {"criterion": "bic"},
    "aic, no prior": {"criterion": "aic", "prior_rows": 0},
    "shared": {"noise": "shared"},
    "one iteration": {"max_iter": 1},
    "tiny tol": {"tol": 1e-300, "max_iter": 20},
    "huge tol": {"tol": 1e300},
    "three components": {"n_components": 3},
    "two factors": {"n_factors": 2},
    "many factors": {"n_factors": 10, "max_iter": 10},
    "paper": {"search": "paper"},
    "paper, bic": {"search": "paper", "criterion": "bic"},
    "paper, aic": {"search": "paper", "criterion": "aic", "max_iter": 20},
    "paper, one iteration": {"search": "paper", "max_iter": 1},
    "paper, tiny tol": {"search": "paper", "tol": 1e-300, "max_iter": 20},
    "paper, huge tol": {"search": "paper", "tol": 1e300},
    "paper, four without factors": {"search": "paper", "n_components": 4, "n_factors": 0},
}
# What a descent looks at between two moves that are kept, at most: splits, quick and thorough ones, and merges after
# each of them and at its beginning, all that pay at once and some alone; many splits at once, and some exchanges.
LOOKED_AT = 5 * (1 + descent._MOST_TRIALS) + 1 + descent._MOST_TRIALS
# Descents of the two kinds of noise of "auto".
DESCENTS = 2 * (1 + ways._MOST_WAYS)


def fit(x, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amofa.AmofaWarning)
        return amofa.fit(x, **options)


def check_steps_of_the_thorough_search(history):
    """Moves that are kept lower the cost by what counts as lower, and descents look at no more than so many models."""
    kept = [step for step in history if step.accepted]
    for before, after in pairwise(kept):
        if after.action in MOVES:
            assert after.cost <= before.cost - descent._LEAST_GAIN
    moves = sum(step.action in MOVES for step in kept)
    looked_at = sum(step.action in MOVES for step in history)
    assert looked_at <= LOOKED_AT * (moves + DESCENTS)
    assert len({step.component for step in history if step.action == "share"}) <= 1
    # A start is fitted again if components become empty.
    assert sum(step.action == "start" for step in history) <= 3 * DESCENTS


def check_steps_of_the_papers_search(history, n, d):
    """It grows by a component or a factor at a time, each of which pays, and looks at a split and a factor for each."""
    grown = [step for step in history if step.accepted and step.action in ("start", "split", "factor")]
    for before, after in pairwise(grown):
        assert after.cost < before.cost
    assert len(grown) <= (n + 1) * (2 + d)
    assert len(history) <= 2 * (len(grown) + 1) + n + 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("table", TABLES)
def test_a_model_comes_out_of_any_table(rng, table, mode):
    x = TABLES[table](rng)
    n, d = len(np.unique(x, axis=0)), np.shape(x)[1]
    options = dict(MODES[mode])
    if "n_factors" in options:
        options["n_factors"] = min(options["n_factors"], d)
    model = fit(x, **options)
    check_model(model, x)
    assert model.converged or options.keys() & {"max_iter", "n_components", "n_factors"}
    assert model.n_components <= n
    assert len(model.history) < 200
    if "n_components" in options:
        return
    if options.get("search") == "paper":
        check_steps_of_the_papers_search(model.history, n, d)
    else:
        check_steps_of_the_thorough_search(model.history)


@pytest.mark.parametrize("table", ["few whole numbers", "powers", "dust in the plane", "spiral", "shells", "a walk"])
def test_as_many_components_as_rows(rng, table, search):
    """Splits are made whether they pay or not; each that is kept adds a component, or lowers the cost ("paper")."""
    rows = np.unique(TABLES[table](rng), axis=0)
    x = rows[rng.permutation(len(rows))[:9]]
    model = fit(x, search=search, n_components=len(x), n_factors=1)
    assert model.n_components <= len(x)
    kept = [step for step in model.history if step.accepted]
    for before, after in pairwise(kept):
        if after.action in ("split", "factor"):
            more = after.n_components > before.n_components
            assert more or (search == "paper" and after.cost < before.cost)
    # All that pay, each alone, and each from all its starts.
    assert len(model.history) <= DESCENTS * (6 * len(x) ** 2 + 4)


def test_a_start_of_many_components_is_brought_down(rng):
    model = fit(rng.standard_normal((60, 2)), init=np.arange(60), max_components=3)
    assert model.n_components <= 3
    # Each merge takes one away.
    assert sum(step.action == "merge" for step in model.history) <= 2 * 60


@pytest.mark.parametrize(("n", "d"), [(2, 10), (3, 20), (4, 60), (20, 50), (5, 200)])
def test_no_more_factors_than_the_rows_span(rng, search, n, d):
    """n rows about their mean have n - 1 directions: a further factor has nothing to explain."""
    model = amofa.fit(rng.standard_normal((n, d)), search=search)
    assert model.n_factors.max() <= n - 1


def test_a_collinear_column_is_told(rng, search):
    """The default search leaves it out, unless the number of factors is bounded."""
    X = collinear(rng)
    model = amofa.fit(X, search=search, n_components=1, max_factors=3)
    assert model.at_floor.any()
    np.testing.assert_allclose((model.uniquenesses / X.var(axis=0))[model.at_floor], 1e-4, rtol=1e-9)


# ---- constant columns ------------------------------------------------------------------------------------------------


def with_constants(X):
    """Columns 1 and 4 of five constant, in a table of three columns."""
    return np.column_stack([X[:, 0], np.full(len(X), -7.0), X[:, 1], X[:, 2], np.zeros(len(X))])


def test_constant_columns_are_named_in_one_warning(rng):
    _, messages = warned(amofa.fit, with_constants(two_groups(rng)))
    assert messages == ["2 of 5 columns of X are constant and change no decision: 1, 4 (from 0)"]


def test_many_constant_columns_are_named_in_one_short_warning(rng):
    _, (message,) = warned(amofa.fit, np.column_stack([rng.standard_normal(30), np.ones((30, 40))]))
    assert re.fullmatch(
        r"40 of 41 columns of X are constant and change no decision: (\d+, ){10}... \(from 0\)", message
    )


@pytest.mark.parametrize("criterion", ["mml", "bic", "aic", "icl"])
def test_constant_columns_change_no_decision(rng, search, criterion):
    X = two_groups(rng)
    plain = amofa.fit(X, search=search, criterion=criterion)
    wide = with_constants(X)
    model, _ = warned(amofa.fit, wide, search=search, criterion=criterion)
    check_model(model, wide)
    assert model.n_factors.tolist() == plain.n_factors.tolist()
    np.testing.assert_array_equal(model.predict(wide), plain.predict(X))
    np.testing.assert_allclose(model.predict_proba(wide), plain.predict_proba(X), atol=1e-9)
    kept = [0, 2, 3]
    np.testing.assert_allclose(model.means[:, kept], plain.means, rtol=1e-12)
    np.testing.assert_allclose(model.uniquenesses[:, kept], plain.uniquenesses, rtol=1e-12)
    assert [step.cost for step in model.history] == [step.cost for step in plain.history]


def test_what_constant_columns_get(rng, search):
    """Their value as the mean, no loading, and the floor's share of the mean variance of the other columns."""
    X = two_groups(rng) * [1.0, 10.0, 0.1]
    model, _ = warned(amofa.fit, with_constants(X), search=search, noise_floor=1e-3)
    np.testing.assert_array_equal(model.means[:, 1], -7.0)
    np.testing.assert_array_equal(model.means[:, 4], 0.0)
    np.testing.assert_allclose(model.uniquenesses[:, [1, 4]], 1e-3 * X.var(axis=0).mean(), rtol=1e-12)
    assert all((loadings[[1, 4]] == 0).all() for loadings in model.loadings)
    assert model.at_floor[:, [1, 4]].all()


@pytest.mark.parametrize("column", [1e8 + np.array([0.0, 1.5e-8]), np.array([0.0, 1e-170]), np.array([7.0, 7.0])])
def test_columns_within_their_rounding_are_constant(rng, search, column):
    X = two_groups(rng)
    model, messages = warned(amofa.fit, np.column_stack([X, np.tile(column, len(X) // 2)]), search=search)
    assert messages == ["1 of 4 columns of X are constant and change no decision: 3 (from 0)"]
    assert model.n_factors.tolist() == amofa.fit(X, search=search).n_factors.tolist()


@pytest.mark.parametrize("X", [[[3.0]], [[1.0, -2.0, 1e9]], np.full((50, 2), 0.1), np.zeros((3, 4), np.uint8)])
def test_rows_that_are_all_the_same(search, X):
    model, (message,) = warned(amofa.fit, X, search=search)
    d = np.shape(X)[1]
    assert message.startswith(f"{d} of {d} columns of X are constant")
    check_model(model, X)
    assert model.n_components == 1
    np.testing.assert_array_equal(model.means[0], np.asarray(X, float)[0])
    assert model.converged
    assert model.history == ()


def test_rows_that_are_all_the_same_with_limits(search):
    model, messages = warned(amofa.fit, np.ones((10, 2)), search=search, n_components=2, n_factors=1)
    assert len(messages) == 2
    assert messages[1] == "2 components were asked for, but the search found only 1 that can be told apart"
    assert model.n_factors.tolist() == [1]


# ---- weights that sum to little --------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [1.0, 4.0, 59.0])
def test_weights_that_are_shares_are_told(rng, search, total):
    """Rows of weight 0 do not count, and the warning says how to scale the others."""
    X, w = rng.standard_normal((700, 2)), rng.uniform(0.5, 2, 700)
    w[:100] = 0
    w *= total / w.sum()
    model, (message,) = warned(amofa.fit, X, search=search, sample_weight=w)
    assert message.startswith(f"sample_weight sums to {total:g}, which counts as the number of rows, for 600 rows")
    assert "w * (600 / w.sum())" in message
    assert model.n_components == 1
    _, messages = warned(amofa.fit, X, search=search, sample_weight=w * (600 / w.sum()))
    assert messages == []


@pytest.mark.parametrize("table", ["repeated rows", "a histogram", "few rows", "halves"])
def test_weights_that_count_rows_are_not(rng, table):
    X = rng.standard_normal((60, 2))
    X, w = {
        "repeated rows": (np.repeat(X, 40, axis=0), np.full(2400, 1 / 40)),
        "a histogram": (X, rng.integers(1, 100, 60)),
        "few rows": (X[:6], np.full(6, 0.7)),
        "halves": (X, np.full(60, 0.5)),
    }[table]
    _, messages = warned(amofa.fit, X, sample_weight=w)
    assert messages == []
