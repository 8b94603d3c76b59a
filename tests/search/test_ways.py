"""Other ways into a search: partitions of the rows by Ward's method, and the mixtures that they lead to."""

import numpy as np
import pytest
from fits import same_groups
from numpy.testing import assert_allclose, assert_array_equal

import amofa
from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import Covariance, FactorChoice, Prior
from amofa._em.gram import Panel
from amofa._em.profile_likelihood import Problem
from amofa._kernels._factor_analysis import Solver
from amofa._noise import Noise
from amofa._parallel.cores import use_threads
from amofa._parameters import Component, Parameters
from amofa._search import ways
from amofa._search.ways import partitions, ways_in, with_rows_apart
from amofa.criterion import Evidence
from amofa.threads import OneEach


def problem_of(n, d):
    prior = Prior(np.full(d, 1e-4), np.ones(d), 4.0)
    pricing = Evidence(d, n, "component", 4.0)
    choice = FactorChoice(pricing, prior, Noise.COMPONENT)
    return Problem(prior, pricing, Noise.COMPONENT, choice, 1e-5, 100, annihilates=True)


def partitions_of(x, numbers, weights=None, *, thorough=False):
    """Partitions of rows x (d, n)."""
    w = np.ones(x.shape[1]) if weights is None else weights
    mean = x @ w / w.sum()
    e = x - mean[:, None]
    if x.shape[1] < len(x):
        spread = Panel((e * np.sqrt(w / w.sum())).T)
    else:
        spread = Covariance((e * w) @ e.T / w.sum(), Solver(len(x)))
    return partitions(x, w, mean, spread, numbers, thorough=thorough)


def ways_of(x, allowed, bar=np.inf, *, thorough=False):
    """Ways in for rows x (n, d), and their costs."""
    n, d = x.shape
    samples, problem = Samples(x), problem_of(float(n), d)
    solvers = OneEach(lambda: Solver(d) if n >= d else None)
    return ways_in(samples, problem, solvers, allowed, bar, thorough=thorough)


def groups(rng, k=4, n=40, d=3, gap=15.0):
    labels = rng.permutation(np.repeat(np.arange(k), n))
    return gap * rng.standard_normal((k, d))[labels] + rng.standard_normal((k * n, d)), labels


# ---- partitions ------------------------------------------------------------------------------------------------------


def test_groups_apart_are_a_partition(rng):
    x, labels = groups(rng, gap=40.0)
    found = partitions_of(x.T, [2, 4])
    assert any(same_groups(labels, each) for each in found)
    for each in found:
        assert (np.unique(each) == np.arange(each.max() + 1)).all()
        assert each.max() + 1 in (2, 4)


def test_groups_beside_a_strong_common_factor_are_a_partition(rng):
    """In the metric of the columns rows lie along the factor; whitened, they lie in groups."""
    labels = np.repeat([0, 1, 2], 80)
    profile = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])[labels]
    x = 50 * rng.standard_normal(240)[:, None] * np.array([1.0, 2.0, -1.0, 3.0]) + 0.1 * rng.standard_normal((240, 4))
    x[:, 1:] += profile
    found = partitions_of(x.T, [3])
    assert max(sum(np.bincount(each[labels == k]).max() for k in range(3)) for each in found) > 0.95 * 240


def test_partitions_of_many_rows_are_those_of_some(rng):
    """Ward's method sees 1000 rows; the others go to the nearest centre."""
    x, labels = groups(rng, n=800, gap=40.0)
    assert any(same_groups(labels, each) for each in partitions_of(x.T, [4]))


def test_partitions_of_wide_rows(rng):
    x, labels = groups(rng, k=3, n=8, d=60)
    assert any(same_groups(labels, each) for each in partitions_of(x.T, [3]))


def test_rows_all_the_same_have_no_partition():
    assert partitions_of(np.ones((2, 10)), [2]) == []


def test_no_partition_comes_twice(rng):
    found = partitions_of(groups(rng)[0].T, [2, 3, 4, 5])
    assert all(not np.array_equal(a, b) for i, a in enumerate(found) for b in found[:i])


def test_thorough_partitions_see_groups_in_columns_of_other_units(rng):
    """A column of a large unit hides the groups, but not once its variance is 1."""
    labels = np.repeat([0, 1, 2], 60)
    x = rng.standard_normal((180, 2)) + 9.0 * np.eye(3)[labels][:, :2]
    x[:, 1] *= 1.0 / 40.0
    assert not any(same_groups(labels, each) for each in partitions_of(x.T, [3])[:1])
    assert any(same_groups(labels, each) for each in partitions_of(x.T, [3], thorough=True))


def test_k_means_ends_where_each_row_is_nearest_to_its_centre(rng):
    x = rng.standard_normal((2, 300))
    labels = ways._k_means(x, (x[0] > 1.0).astype(np.intp))
    centres = np.array([x[:, labels == k].mean(axis=1) for k in range(2)])
    assert_array_equal(labels, ((x[:, None] - centres.T[:, :, None]) ** 2).sum(axis=0).argmin(axis=0))


# ---- ways ------------------------------------------------------------------------------------------------------------


def test_the_best_way_in_is_that_of_the_groups(rng):
    x, labels = groups(rng)
    first, *others = ways_of(x, range(2, 20))
    assert first.n_components == 4
    assert same_groups(labels, np.argmax(Samples(x).responsibilities(first), axis=0))
    assert len(others) < ways._FEW_WAYS


@pytest.mark.parametrize("n", [30, 90, 400])
def test_the_numbers_of_components_are_allowed_and_have_rows(rng, n):
    x = rng.standard_normal((n, 3))
    for allowed in (range(2, 4), range(5, 9)):
        for mixture in ways_of(x, allowed):
            # EM may leave components without rows.
            assert 2 <= mixture.n_components < allowed.stop
            assert mixture.n_components <= max(n // ways._ROWS_PER_GROUP, allowed.start)


def test_thorough_ways_are_more_and_have_different_numbers(rng):
    x = rng.standard_normal((400, 3)) ** 3
    few, many = ways_of(x, range(2, 9)), ways_of(x, range(2, 9), thorough=True)
    assert len(few) == ways._FEW_WAYS < len(many) == ways._MOST_WAYS
    assert len({mixture.n_components for mixture in few}) == len(few)


def test_dear_mixtures_are_no_ways(rng):
    x, _ = groups(rng)
    assert ways_of(x, range(2, 20), bar=0.0) == []


def test_no_numbers_no_ways(rng):
    assert ways_of(rng.standard_normal((50, 2)), range(2, 2)) == []


def test_threads_change_no_way(rng):
    x, _ = groups(rng)
    with use_threads(1):
        a = ways_of(x, range(2, 20))
    b = ways_of(x, range(2, 20))
    assert [m.buffer.tobytes() for m in a] == [m.buffer.tobytes() for m in b]


# ---- rows apart ------------------------------------------------------------------------------------------------------


def test_small_components_are_replaced_by_their_rows(rng):
    x = np.concatenate([rng.standard_normal((60, 2)), 1000 + 300 * rng.standard_normal((4, 2))])
    large = Component(60 / 64, np.zeros(2), np.zeros((0, 2)), np.ones(2))
    small = Component(4 / 64, np.full(2, 1000.0), np.ones((1, 2)), np.full(2, 9e4))
    mixture = Parameters.from_components([small, large])
    (apart,) = with_rows_apart(Samples(x), mixture, 10)
    assert apart.n_factors == (0,) * 5
    assert_allclose(apart.weights[1:], np.full(4, 1 / 64))
    assert_array_equal(apart.means[1:], x[60:])
    (light,) = with_rows_apart(Samples(x, weights=np.full(64, 1e-3)), mixture, 100)
    assert light.n_components == 5  # many rows of little weight stay together
    assert with_rows_apart(Samples(x), mixture, 4) == []
    assert with_rows_apart(Samples(x), mixture.without(0), 10) == []


def test_rows_far_away_do_not_keep_groups_from_sharing_their_noise():
    rng = np.random.default_rng(4)
    centres = np.repeat(rng.normal(0, 40, (3, 2)), 3, axis=0) + rng.normal(0, 6, (9, 2))
    y = np.repeat(np.arange(9), 100)
    X = np.concatenate([centres[y] + rng.standard_normal((900, 2)), 1e4 * rng.standard_normal((6, 2))])
    model = amofa.fit(X)
    assert model.cost <= amofa.fit(X, init=np.concatenate([y, np.arange(9, 15)])).cost + 1.0
