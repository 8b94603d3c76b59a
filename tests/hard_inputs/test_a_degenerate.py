"""Numerical failure and degenerate components: rows 1 to 18 of docs/hard_inputs.md."""

import numpy as np
import pytest
from fits import blobs, check_equal, check_model, fitted, fitted_with, parameters_of, positive_definite, same_groups

import amofa

SCORES = np.array([0.1, 0.4, 0.4, 0.9, 1.3, 2.2, 2.4, 3.0])


# ---- 1 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("start", range(20))
def test_01_a_handful_of_scores(d, start):
    X = np.random.default_rng(start).exponential(size=(5 + start % 5, d)).round(1)
    X[1] = X[0]
    # Two components are there or are not; in neither case is there anything else to say.
    model = fitted(X, max_components=2, n_factors=0)
    assert model.n_components <= 2
    assert fitted(SCORES[:, None], n_components=2, n_factors=0).n_components == 2


def test_01_a_component_without_support_is_dropped_and_the_result_says_so():
    X = np.repeat([[1.0], [2.0]], [4, 5], axis=0)
    model = fitted(X, "3 components were asked for, but the search found only 2", n_components=3, n_factors=0)
    np.testing.assert_allclose(np.sort(model.means[:, 0]), [1, 2], atol=0.01)


# ---- 2 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(10))
def test_02_many_exact_zeros_and_a_few_positives(start):
    rng = np.random.default_rng(start)
    row = np.zeros(30)
    row[:4] = 0.5 + rng.exponential(size=4)
    X = rng.permutation(row)[:, None]
    floors = []
    for unit in (1.0, 1e-9, 1e12):
        model = fitted(unit * X, n_components=2)
        assert same_groups(X[:, 0] > 0, model.predict(unit * X))
        # The result says where the floor holds, which is relative.
        assert model.at_floor.tolist() == [[True], [False]]
        floors.append(model.uniquenesses[0, 0] / unit**2)
    assert 1e-4 * X.var() <= floors[0] < X.var()
    np.testing.assert_allclose(floors, floors[0], rtol=1e-9)


# ---- 3 ---------------------------------------------------------------------------------------------------------------


def test_03_fewer_points_in_a_component_than_dimensions(rng):
    noise = rng.standard_normal((160, 40))
    model = fitted(noise, n_components=6)
    assert model.n_components == 6
    assert positive_definite(model)
    assert fitted(noise).n_components == 1  # K falls on its own
    X, labels = blobs(rng, [30] * 5, 3 * rng.standard_normal((5, 40)))
    model = fitted(X)
    assert same_groups(labels, model.predict(X))


# ---- 4, 5 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"n_components": 1}], ids=["free", "one component"])
@pytest.mark.parametrize("d", [98, 99, 100, 101])
def test_04_about_as_many_columns_as_rows(rng, d, options):
    model = fitted(rng.standard_normal((100, d)), **options)
    assert model.n_components == 1
    assert model.n_factors[0] <= 1


@pytest.mark.parametrize("given", [None, 2])
def test_05_four_binary_rows_of_a_thousand_columns(rng, given):
    X = rng.integers(0, 2, (4, 1000)).astype(float)
    X[3] = X[0] * X[1]
    constant = np.flatnonzero((X[0] == X).all(axis=0))
    named = ", ".join(map(str, constant[:10]))
    expected = rf"^{len(constant)} of 1000 columns of X are constant and change no decision: {named}, \.\.\."
    model = fitted(X, expected, n_components=given)
    # A row apart, with noise that all share, costs less than none.
    assert model.n_factors.tolist() == [0, 0]
    assert (model.uniquenesses == model.uniquenesses[0]).all()
    assert model.cost < fitted(X, expected, n_components=1).cost
    assert (model.uniquenesses > 0).all()


# ---- 6, 7 ------------------------------------------------------------------------------------------------------------


def test_06_near_collinear_columns_and_too_many_components(rng):
    z = rng.standard_normal((300, 3))
    X = np.column_stack([z, z[:, 0] + 1e-7 * rng.standard_normal(300), z.sum(axis=1)])
    for options, K in (({}, 1), ({"n_components": 6}, 6)):
        model = fitted(X, r"2 of 5 columns of X follow from others .*: 3 from 0; 4 from 0, 1, 2 \(from 0\)", **options)
        assert model.n_components == K
        assert all(np.isrealobj(array) for array in parameters_of(model))
        assert positive_definite(model)
        assert model.at_floor.all(axis=0)[[0, 3]].all()


def test_07_one_hot_columns_and_room_for_five_hundred_components(rng):
    levels = (110, 70, 20, 10)
    X = np.concatenate([np.eye(n)[rng.integers(0, n, 700)] for n in levels], axis=1)
    assert X.shape == (700, 210)
    with pytest.warns(amofa.DataWarning, match="1 of 210 columns of X follow from others .* from 200, 201, 202"):
        model = amofa.fit(X, max_components=500)
    check_model(model, X)
    assert model.n_components <= 4
    drawn, _ = model.sample(500, random_state=0)
    assert np.isfinite(drawn).all()
    assert positive_definite(model)


# ---- 8, 9 ------------------------------------------------------------------------------------------------------------


def plain_model(means, variance=1.0):
    K, d = np.shape(means)
    return amofa.MixtureOfFactorAnalyzers([1 / K] * K, means, [np.zeros((d, 0))] * K, np.full((K, d), variance))


@pytest.mark.parametrize("centre", [8.0, 1e160])
def test_08_precisions_at_the_start_that_overflow(rng, centre):
    X, labels = blobs(rng, [100, 100], [(0, 0), (8, 8)])
    model = fitted(X, init=plain_model([(0, 0), (centre, centre)], variance=1e-300))
    assert same_groups(labels, model.predict(X))


def test_08_a_start_that_is_singular_is_refused_where_it_is_made():
    with pytest.raises(ValueError, match="component 0 is numerically singular: its loadings are too large"):
        amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1e150], [1e150]]], [[1e-300, 1e-300]])


def test_09_states_without_points(rng):
    X, labels = blobs(rng, [100, 100], [(0, 0), (8, 8)])
    start = plain_model([(0, 0), (8, 8), (4e3, 4e3), (-1e4, 0)])
    for options in ({"init": start}, {"max_components": 4}, {}):
        model = fitted(X, **options)
        assert same_groups(labels, model.predict(X))


def test_09_components_that_are_asked_for_have_points():
    X, _ = blobs(np.random.default_rng(2), [100, 100], [(0, 0), (8, 8)])
    for options in ({}, {"init": plain_model([(0, 0), (8, 8), (4e3, 4e3), (-1e4, 0)])}):
        model = fitted_with(4, X, **options)
        assert model.n_components == 4
        assert (model.weights * len(X) > 0.5).all()


def test_09_a_component_that_loses_its_points_in_the_last_em_goes():
    found = []
    for draw in range(6):
        X, _ = blobs(np.random.default_rng(draw), [20, 20], [(0, 0), (8, 8)])
        model = fitted_with(6, X)
        assert (model.weights * len(X) > 0.5).all()
        found.append(model.n_components)
    assert 2 <= min(found) < max(found) == 6


# ---- 10 --------------------------------------------------------------------------------------------------------------


def test_10_tiny_deviations(rng):
    X, labels = blobs(rng, [100, 100], [(0, 0), (8, 8)])
    tiny = rng.standard_normal(200)
    model = fitted(np.column_stack([X, 1e-170 * tiny]), "^1 of 3 columns of X are constant and change no decision: 2 ")
    assert same_groups(labels, model.predict(np.column_stack([X, 1e-170 * tiny])))
    # From 1e-147 on squares are normal numbers, and the column counts as any other.
    Y = np.column_stack([X, 1e-140 * (tiny + 8 * labels)])
    model = fitted(Y)
    assert same_groups(labels, model.predict(Y))
    assert same_groups(labels, fitted(Y[:, 2:]).predict(Y[:, 2:]))


# ---- 11 --------------------------------------------------------------------------------------------------------------


def test_11_collapsed_components_buy_no_cost(seed):
    for start in range(3 * seed, 3 * seed + 3):
        X = np.random.default_rng(start).standard_normal((20, 10))
        free = fitted(X, max_components=10)
        assert free.n_components == 1
        for K in (5, 10):
            assert fitted_with(K, X).cost > free.cost


# ---- 12, 13 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", range(3))
def test_12_more_components_than_clusters_whatever_the_seed(draw):
    X, _ = blobs(np.random.default_rng(draw), [60, 60, 60], [(0, 0), (6, 6), (0, 8)])
    models = []
    for state in (0, 1):
        np.random.seed(state)  # noqa: NPY002 - what must not matter
        models.append(fitted_with(7, X))
    assert models[0].n_components > 3
    check_equal(*models)


def test_13_very_many_components(rng):
    """A component for each three rows."""
    model = fitted_with(20, 10 * rng.standard_normal((60, 6)) + 50)
    assert model.n_components > 10


def test_13_standardizing_changes_nothing(rng):
    """Columns as of cepstral coefficients: each of a scale of its own, the first the largest by far."""
    scales = np.logspace(2, 0, 13)
    X = rng.standard_normal((400, 13)) * scales
    X[:200] += 3 * scales
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for options in ({}, {"n_components": 8}):
        raw, standardized = fitted(X, **options), fitted(Z, **options)
        assert raw.n_factors.tolist() == standardized.n_factors.tolist()
        np.testing.assert_array_equal(raw.predict(X), standardized.predict(Z))


# ---- 14, 15 ----------------------------------------------------------------------------------------------------------


def test_14_nine_rows_of_ten_are_the_same(rng):
    X = np.concatenate([np.tile([1.0, 2.0, 3.0], (900, 1)), 2 * rng.standard_normal((100, 3))])
    model = fitted(X)
    assert same_groups(np.repeat([0, 1], [900, 100]), model.predict(X))
    np.testing.assert_allclose(model.means[0], [1, 2, 3], atol=1e-4)
    assert model.at_floor.tolist() == [[True] * 3, [False] * 3]  # the spike is reported
    assert (model.uniquenesses[0] >= 1e-4 * X.var(axis=0)).all()
    assert (model.uniquenesses[0] < 1e-3 * X.var(axis=0)).all()


def test_15_two_distinct_points():
    X = np.repeat([[0.0, 0.0], [1.0, 2.0]], 500, axis=0)
    labels = np.repeat([0, 1], 500)
    assert same_groups(labels, fitted(X).predict(X))
    model = fitted(X, "5 components were asked for, but the search found only 2", n_components=5)
    assert model.n_components == 2
    assert same_groups(labels, model.predict(X))


# ---- 16, 17, 18 ------------------------------------------------------------------------------------------------------


def test_16_a_column_that_is_the_sum_of_two_others(rng):
    z = rng.standard_normal((200, 2))
    X = np.column_stack([z, z.sum(axis=1), rng.standard_normal(200)])
    model = fitted(X, r"1 of 4 columns of X follow from others .*: 2 from 0, 1 \(from 0\)")
    assert model.n_factors.tolist() == [2]
    assert model.at_floor.tolist() == [[True, True, True, False]]
    np.testing.assert_allclose(model.uniquenesses[0, :3], 1e-8 * X.var(axis=0)[:3], rtol=1e-6)
    np.testing.assert_allclose(model.covariance(0)[:3, :3], np.cov(X[:, :3].T, bias=True), rtol=0.1, atol=0.1)
    kept = fitted(X, max_factors=3)
    assert kept.at_floor.tolist() == [[True, True, True, False]]
    np.testing.assert_allclose(kept.uniquenesses[0, :3], 1e-4 * X.var(axis=0)[:3], rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"n_components": 2}], ids=["free", "two components"])
@pytest.mark.parametrize("value", [0.0, 7.0, 1e9], ids=str)
def test_17_18_a_constant_column(rng, value, options):
    X = rng.standard_normal((200, 3))
    X[:80] += 5
    with_constant = np.insert(X, 1, value, axis=1)
    expected = r"^1 of 4 columns of X are constant and change no decision: 1 \(from 0\)$"
    model, without = fitted(with_constant, expected, **options), fitted(X, **options)
    kept = [0, 2, 3]
    np.testing.assert_array_equal(model.weights, without.weights)
    np.testing.assert_array_equal(model.means[:, kept], without.means)
    np.testing.assert_array_equal(model.uniquenesses[:, kept], without.uniquenesses)
    assert (model.means[:, 1] == value).all()
    np.testing.assert_array_equal(model.predict(with_constant), without.predict(X))
