"""The rows of levels: how many, which, with what weights; and that the search on them finds what is in all rows."""

import numpy as np
import pytest
from fits import check_equal, same_groups

import amofa
from amofa._data import row_chunks
from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.profile_likelihood import Problem
from amofa._noise import Noise
from amofa._search import levels as module
from amofa._search import local_splits, ways
from amofa._search.families import Family
from amofa._search.levels import Levels
from amofa.criterion import Evidence

LEAST = 2048


def levels_of(table, weights=None, *, single=False):
    samples, d = Samples(table, weights=weights), table.shape[1]
    prior = Prior(np.full(d, 1e-4), np.ones(d), 4.0)

    def problem_of(family, n):
        noise = family.noise
        pricing = Evidence(d, n, noise, 4.0)
        return Problem(prior, pricing, noise, FactorChoice(pricing, prior, noise), 1e-5, 100, annihilates=True)

    return Levels(samples, (Family(Noise.COMPONENT),), problem_of, single=single)


def rows_of(samples):
    """Rows (n, d) in their order."""
    return np.concatenate([x for x, _ in samples.chunks()], axis=1).T


def sorted_rows(x):
    return x[np.lexsort(x.T)]


def skewed(rng, n, d=3):
    """Rows whose axes point one way, so that no rounding decides which."""
    return rng.exponential(size=(n, d)) * np.arange(d, 0, -1) ** 2


@pytest.mark.parametrize(
    ("n", "d", "sizes"),
    [
        (100, 3, [100]),
        (3 * LEAST - 1, 3, [3 * LEAST - 1]),
        (3 * LEAST, 3, [LEAST, 3 * LEAST]),
        (24 * LEAST, 3, [LEAST, 8 * LEAST, 24 * LEAST]),
        (3 * LEAST, 65, [3 * LEAST]),
        (3 * 32 * 65, 65, [32 * 65, 3 * 32 * 65]),
    ],
)
def test_the_numbers_of_rows(n, d, sizes):
    table = np.zeros((n, d), dtype=np.uint8)
    assert levels_of(table).sizes == sizes
    assert levels_of(table, single=True).sizes == [n]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_level_is_some_rows_and_the_last_is_all(rng, weighted):
    x = skewed(rng, 7000)
    w = rng.uniform(0.5, 2, 7000) if weighted else None
    levels = levels_of(x, w)
    first, last = levels.level(0), levels.level(1)
    total = 7000.0 if w is None else w.sum()
    assert (first.is_whole, last.is_whole) == (False, True)
    assert (first.samples.n_rows, last.samples.n_rows) == (LEAST, 7000)
    assert first.total_weight == pytest.approx(total * LEAST / 7000, rel=1e-12)
    assert [level.problems[0].pricing.n for level in (first, last)] == [first.total_weight, total]
    assert last.samples is levels.samples
    # What local splits see of the last level are all rows in the order, with their own weights.
    np.testing.assert_array_equal(sorted_rows(rows_of(last.sample)), sorted_rows(x))
    assert last.sample.total_weight == pytest.approx(total, rel=1e-12)
    rows = rows_of(first.samples)
    assert len(np.unique(rows, axis=0)) == LEAST
    if weighted:
        place = {row.tobytes(): weight for row, weight in zip(x, w, strict=True)}
        own = np.array([place[row.tobytes()] for row in rows])
        np.testing.assert_allclose(first.samples.weights / own, first.samples.weights[0] / own[0], rtol=1e-12)


def test_the_rows_of_a_level_do_not_depend_on_their_order_in_the_table(rng):
    x = skewed(rng, 7000)
    order = rng.permutation(7000)
    a, b = levels_of(x).level(0), levels_of(x[order]).level(0)
    np.testing.assert_array_equal(rows_of(a.samples), rows_of(b.samples))
    np.testing.assert_array_equal(rows_of(levels_of(x).level(1).sample), rows_of(levels_of(x[order]).level(1).sample))


@pytest.mark.parametrize("n", [1500, 3000])
def test_the_order_of_a_table_without_levels(rng, n):
    x = skewed(rng, n)
    order = rng.permutation(n)
    a, b = levels_of(x).level(0), levels_of(x[order]).level(0)
    assert a.is_whole
    np.testing.assert_array_equal(rows_of(a.sample), rows_of(b.sample))


def test_steps_that_take_some_rows_of_many_get_them_in_order():
    assert min(local_splits._MOST_ROWS, ways._MOST_WARD_ROWS) >= module._MOST_UNORDERED


def test_the_order_of_a_wide_table(rng):
    x = skewed(rng, 1010, 1020)
    order = rng.permutation(1010)
    wide, shuffled = levels_of(x), levels_of(x[order])
    np.testing.assert_array_equal(rows_of(wide.level(0).sample), rows_of(shuffled.level(0).sample))
    assert sorted(wide.order.tolist()) == list(range(1010))


def test_each_stretch_of_the_order_is_like_the_whole(rng):
    """Along the leading axis, evenly spread rows have the quantiles of all."""
    x = skewed(rng, 20_000)
    rows = rows_of(levels_of(x).level(0).samples)
    q = np.linspace(0.01, 0.99, 50)
    ranks = np.searchsorted(np.sort(x[:, 0]), np.quantile(rows[:, 0], q)) / len(x)
    np.testing.assert_allclose(ranks, q, atol=0.01)


def test_of_a_huge_table_held_rows_stand_for_all(rng, monkeypatch):
    monkeypatch.setattr(row_chunks, "_HELD_ROWS", 5000)
    x = skewed(rng, 50_000)
    levels = levels_of(x)
    assert levels.sizes == [LEAST, 50_000]
    assert len(levels.order) == 5000
    last = levels.level(1)
    assert last.sample.n_rows == 5000
    assert last.sample.total_weight == pytest.approx(50_000, rel=1e-12)
    assert levels.level(0).total_weight == pytest.approx(LEAST, rel=1e-12)


@pytest.mark.slow
def test_of_a_huge_table_all_rows_take_no_part_in_moves_that_leave_local_ends(rng, monkeypatch):
    x = skewed(rng, 7000)
    moves = {"overshoot", "exchange"}
    assert moves & {step.action for step in amofa.fit(x).history}
    monkeypatch.setattr(row_chunks, "_HELD_ROWS", 5000)
    assert not moves & {step.action for step in amofa.fit(x).history}


# ---- fits ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    """Enough rows of three groups, one of them rare, for a level before the last; and their labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [3500, 2700, 100])
    X = np.array([[0.0, 0.0, 0.0], [7.0, 2.0, 0.0], [3.0, 12.0, 2.0]])[labels] + rng.standard_normal((6300, 3))
    X[:3500, 1] += X[:3500, 0]
    return X, labels


@pytest.mark.parametrize("draw", range(2))
def test_the_order_of_some_thousand_rows_does_not_matter(draw):
    """Not even to the models that are tried: here Ward's method sees some of the rows."""
    rng = np.random.default_rng(draw)
    labels = np.sort(rng.integers(0, 5, 1500))
    X = 3 * rng.standard_normal((5, 3))[labels] + rng.standard_normal((1500, 3))
    a, b = amofa.fit(X), amofa.fit(X[rng.permutation(1500)])
    assert [step.n_factors for step in a.history] == [step.n_factors for step in b.history]
    np.testing.assert_allclose([s.cost for s in a.history], [s.cost for s in b.history], rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"n_components": 3}, {"noise": "shared"}], ids=["free", "given", "shared"])
def test_the_order_of_many_rows_does_not_matter(large, rng, options):
    X, labels = large
    order = rng.permutation(len(X))
    a, b = amofa.fit(X, **options), amofa.fit(X[order], **options)
    assert a.n_factors.tolist() == b.n_factors.tolist()
    assert b.cost == pytest.approx(a.cost, abs=1e-4)
    np.testing.assert_array_equal(a.predict(X)[order], b.predict(X[order]))
    found = a.predict(X)
    assert sum(np.bincount(labels[found == k]).max() for k in range(a.n_components)) > 0.99 * len(X)
    assert a.n_components == 3 or options.get("noise") == "shared"


def test_units_of_many_rows_do_not_matter(large):
    X, _ = large
    a, b = amofa.fit(X), amofa.fit((X - 1e3) * [1e-5, 1.0, 1e7])
    assert a.n_factors.tolist() == b.n_factors.tolist()
    assert same_groups(a.predict(X), b.predict((X - 1e3) * [1e-5, 1.0, 1e7]))


def test_threads_and_layout_change_no_bit_of_many_rows(large):
    X, _ = large
    a = amofa.fit(X, n_threads=1)
    check_equal(a, amofa.fit(np.asfortranarray(X), n_threads=3))


def test_the_history_of_many_rows_is_that_of_all(large):
    """Mixtures of few rows are not seen; the first is of all, for a search that is stopped."""
    X, _ = large
    seen = []
    model = amofa.fit(X, callback=seen.append)
    assert seen[0].n_components == 1
    for step in seen:
        assert step.model.score_samples(X).sum() == pytest.approx(step.log_likelihood, rel=1e-9)
    assert [step.cost for step in seen] == [step.cost for step in model.history]
    stopped = amofa.fit(X, callback=lambda step: True)
    assert stopped.n_components == 1


def test_a_search_on_few_rows_can_be_stopped(large):
    with pytest.warns(amofa.AmofaWarning, match="max_time"):
        model = amofa.fit(large[0], max_time=1e-9)
    assert not model.converged
    assert np.isfinite(model.score_samples(large[0])).all()
