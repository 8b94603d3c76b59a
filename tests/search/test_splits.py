"""Where local fits start: rows divided between groups, ties and weights, and the signs of groups to be found."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fits import NOISES, same_groups

from amofa._em.factor_analysis import Covariance, FactorChoice, Prior
from amofa._em.profile_likelihood import Problem
from amofa._kernels._factor_analysis import Solver
from amofa._noise import Noise
from amofa._search.splits import MOST_PARTS, Survey, _inner_half, invariant_axes, layers, parts
from amofa.criterion import Evidence

FLOOR = 1e-4


def problem_with(d, noise="component", floor=None):
    """A problem of d columns; of its parts only the noise and the floor matter here."""
    prior = Prior(np.full(d, FLOOR) if floor is None else floor, np.ones(d), 4.0)
    pricing = Evidence(d, 100.0, noise, 4.0)
    choice = FactorChoice(pricing, prior, Noise(noise))
    return Problem(prior, pricing, Noise(noise), choice, 1e-5, 100, annihilates=True)


def survey_of(x, weights=None):
    """Survey rows x (d, n) about their mean."""
    weights = np.ones(x.shape[1]) if weights is None else weights
    mean = x @ weights / weights.sum()
    e = x - mean[:, None]
    return Survey(x, weights, mean, Covariance((e * weights) @ e.T / weights.sum(), Solver(len(x))))


def divisions_of(x, weights=None, most_parts=MOST_PARTS):
    return survey_of(x, weights).divisions(most_parts)


def contains(divided, wanted):
    return any(same_groups(labels, wanted) for labels in divided)


def agreement(divided, wanted):
    """Largest share of rows that one of the divisions in two has as wanted."""
    shares = [np.mean((labels > 0) == wanted) for labels in divided if labels.max() == 1]
    return max(max(share, 1 - share) for share in shares)


def two_groups(rng, d=3, counts=(60, 40), gap=20.0):
    """Rows (d, n) of two spheres apart, shuffled, and which belong to the second."""
    second = rng.permutation(np.repeat([False, True], counts))
    x = rng.standard_normal((d, len(second)))
    x[0] += gap * second
    return x, second


def mixed(rng, x):
    """The rows in other axes, none of which is a column, of the same lengths."""
    return np.linalg.qr(rng.standard_normal((len(x), len(x))))[0] @ x


# ---- divisions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 20])
def test_two_groups_are_parted(rng, d):
    x, second = two_groups(rng, d)
    divisions = divisions_of(x)
    assert contains(divisions.all[:1], second)
    assert contains(divisions.across, second)


@pytest.mark.parametrize("d", [2, 30])
@pytest.mark.parametrize("k", [3, 4, 5, 6])
def test_groups_in_a_row_are_parted_at_once(rng, k, d):
    """Other lines may have better cuts in two."""
    groups = rng.permutation(np.repeat(np.arange(k), 50))
    x = rng.standard_normal((d, 50 * k))
    x[0] += 9.0 * groups
    x = mixed(rng, x)
    assert contains(divisions_of(x).all, groups)
    few = divisions_of(x, most_parts=k - 1)
    assert not contains(few.all, groups)
    assert max(labels.max() + 1 for labels in few.all) <= max(2, k - 1)


def test_groups_beside_a_strong_factor_are_parted(rng):
    """No principal axis and no column shows them, but an invariant axis does."""
    second = rng.permutation(np.repeat([False, True], 200))
    z = rng.standard_normal((6, 400)) * np.array([[30.0], [8.0], [5.0], [3.0], [2.0], [1.0]])
    z += 7.0 * second * np.sqrt(np.array([[30.0], [8.0], [5.0], [3.0], [2.0], [1.0]]) / 6)
    x = mixed(rng, z)
    assert agreement(divisions_of(x).all, second) > 0.95


def test_groups_of_one_centre_are_parted_by_a_shell(rng):
    inner = rng.permutation(np.repeat([True, False], 100))
    x = rng.standard_normal((2, 200))
    x /= np.sqrt((x**2).sum(axis=0))
    x *= np.where(inner, rng.uniform(0.1, 0.5, 200), rng.uniform(5, 6, 200))
    assert agreement(divisions_of(x).all, inner) > 0.98


def test_rounding_parts_no_rows_of_a_wide_table(rng):
    """With fewer rows than columns all are equally far from their mean."""
    x = rng.standard_normal((40, 15))
    x -= x.mean(axis=1)[:, None]
    vectors, values, _ = np.linalg.svd(x, full_matrices=False)
    assert _inner_half(vectors.T[:14] @ x, values[:14] ** 2 / 15, np.ones(15)).all()


def test_parallel_strips_are_parted_across_the_minor_axis(rng):
    second = np.repeat([False, True], 200)
    x = np.stack([rng.normal(0, 30, 400), rng.normal(0, 0.25, 400) + 1.5 * second])
    angle = 0.4
    x = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]) @ x
    assert agreement(divisions_of(x).across, second) > 0.95


def test_there_are_no_doubles(rng):
    for x in (two_groups(rng)[0], two_groups(rng, 1)[0], np.round(rng.standard_normal((2, 30)))):
        for divided in divisions_of(x):
            assert divided
            assert all(labels.dtype == np.intp and labels.shape == x.shape[1:] for labels in divided)
            assert all((np.unique(labels) == np.arange(labels.max() + 1)).all() for labels in divided)
            for i, labels in enumerate(divided):
                assert not contains(divided[:i], labels)


def test_weights_of_two_are_rows_twice(rng):
    x, _ = two_groups(rng, gap=4.0)
    n = x.shape[1]
    weighted, twice = divisions_of(x, np.full(n, 2.0)), divisions_of(np.repeat(x, 2, axis=1))
    for a, b in zip(weighted, twice, strict=True):
        assert len(a) == len(b)
        for labels, doubled in zip(a, b, strict=True):
            np.testing.assert_array_equal(np.repeat(labels, 2), doubled)


def test_duplicates_stay_together(rng):
    x = np.repeat(rng.standard_normal((3, 25)), 4, axis=1)
    for labels in divisions_of(x).all:
        assert (labels.reshape(25, 4) == labels.reshape(25, 4)[:, :1]).all()


def test_the_order_of_rows_does_not_matter(rng):
    x, _ = two_groups(rng, gap=3.0)
    order = rng.permutation(x.shape[1])
    for a, b in zip(divisions_of(x), divisions_of(np.ascontiguousarray(x[:, order])), strict=True):
        assert len(a) == len(b)
        assert all(contains(b, labels[order]) for labels in a)


def test_rows_all_the_same_have_no_parts():
    assert divisions_of(np.ones((3, 10))) == ([], [])


def test_many_columns_are_looked_at_by_their_leading_axes_and_the_last(rng):
    x, second = two_groups(rng, 80, counts=(120, 100))
    x[0] *= 3
    assert contains(divisions_of(x).all, second)


# ---- invariant axes --------------------------------------------------------------------------------------------------


def scores_of(x, weights):
    """Rows on their principal axes, with variance 1."""
    e = x - (x @ weights / weights.sum())[:, None]
    values, vectors = np.linalg.eigh((e * weights) @ e.T / weights.sum())
    return vectors[:, ::-1].T @ e / np.sqrt(values[::-1, None])


@pytest.mark.parametrize("weighted", [False, True])
def test_invariant_axes_are_the_same_in_all_coordinates(rng, weighted):
    x = rng.standard_normal((4, 300)) ** 3
    w = rng.uniform(0.5, 2, 300) if weighted else np.ones(300)
    a = invariant_axes(scores_of(x, w), w)
    map_, shift = rng.standard_normal((4, 4)), 100 * rng.standard_normal((4, 1))
    b = invariant_axes(scores_of(map_ @ x + shift, w), w)
    signs = np.sign((a * b).sum(axis=1))[:, None]
    np.testing.assert_allclose(a, signs * b, atol=1e-8)
    np.testing.assert_allclose((a * w) @ a.T / w.sum(), np.eye(4), atol=1e-10)


def test_invariant_axes_are_ordered_by_their_tails(rng):
    """Two values are flattest, and rare values far away are last, wherever they were."""
    n = 1000
    signs, rare = rng.permutation(np.repeat([-1.0, 1.0], n // 2)), rng.permutation(np.repeat([0.0, 1.0], [n - 20, 20]))
    x = rng.standard_normal((3, 3)) @ np.stack([rare, rng.standard_normal(n), signs])
    first, _, last = invariant_axes(scores_of(x, np.ones(n)), np.ones(n))
    assert abs(np.corrcoef(first, signs)[0, 1]) > 0.98
    assert abs(np.corrcoef(last, rare)[0, 1]) > 0.98


def test_few_rows_have_few_invariant_axes(rng):
    x = rng.standard_normal((20, 30))
    assert invariant_axes(scores_of(x, np.ones(30)), np.ones(30)).shape == (10, 30)
    assert invariant_axes(rng.standard_normal((2, 2)), np.ones(2)).shape == (1, 2)


# ---- signs of groups -------------------------------------------------------------------------------------------------


def price_of_two(d, n):
    """What two components without factors cost beyond one, about, in nats."""
    return Evidence(d, n, "component", 4.0).component(n / 2, 0, 0.0)


@pytest.mark.parametrize("n", [300, 2000])
@pytest.mark.parametrize("d", [1, 3, 10])
def test_rows_of_one_gaussian_show_no_groups(rng, d, n):
    """More often than not, which saves the search for some."""
    covariance = rng.standard_normal((d, d))
    found = [survey_of(covariance @ rng.standard_normal((d, n))).evidence_of_groups() for _ in range(7)]
    assert np.median(found) < price_of_two(d, n)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_two_gaussians_show_groups(rng, d):
    """More than what a mixture of both gains, for weak groups; these are not to be missed."""
    n = 1000
    x, second = two_groups(rng, d, (n // 2, n // 2), gap=4.0)
    x = rng.standard_normal((d, d)) @ x
    assert survey_of(x).evidence_of_groups() > price_of_two(d, n)
    inner = rng.standard_normal((d, n)) * np.where(second, 1.0, 4.0)
    assert survey_of(rng.standard_normal((d, d)) @ inner).evidence_of_groups() > price_of_two(d, n)


def test_signs_of_groups_do_not_depend_on_units(rng):
    x = two_groups(rng, 3, gap=3.0)[0]
    there = survey_of(x).evidence_of_groups()
    assert survey_of(-5.0 * x + 100).evidence_of_groups() == pytest.approx(there, rel=1e-9)
    assert survey_of(x[:, ::-1].copy()).evidence_of_groups() == pytest.approx(there, rel=1e-9)


# ---- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_parts_are_weighted_means_and_variances(rng, noise):
    x, second = two_groups(rng)
    w = rng.uniform(0.5, 2, x.shape[1])
    start = parts(x, w, second.astype(np.intp), problem_with(3, noise))
    assert start.n_factors == (0, 0)
    variances = []
    for k, part in enumerate((~second, second)):
        mean = np.average(x[:, part], axis=1, weights=w[part])
        variances.append(np.average((x[:, part] - mean[:, None]) ** 2, axis=1, weights=w[part]))
        np.testing.assert_allclose(start.means[k], mean, rtol=1e-12, atol=1e-12)
        assert start.weights[k] == pytest.approx(w[part].sum() / w.sum(), rel=1e-12)
    expected = np.array(variances)
    if noise == "shared":
        expected[:] = start.weights @ expected
    if noise == "isotropic":
        expected[:] = expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(start.uniquenesses, expected, rtol=1e-12)


@pytest.mark.parametrize("noise", NOISES)
def test_parts_keep_the_floor(noise):
    x = np.repeat([[0.0, 1.0]], 2, axis=0).repeat(5, axis=1)
    floor = np.array([0.02, 0.03])
    start = parts(x, np.ones(10), (x[0] > 0.5).astype(np.intp), problem_with(len(floor), noise, floor))
    expected = np.full((2, 2), 0.03) if noise == "isotropic" else np.tile(floor, (2, 1))
    np.testing.assert_allclose(start.uniquenesses, expected, rtol=1e-14)


@pytest.mark.parametrize("noise", NOISES)
def test_parts_of_any_number(rng, noise):
    x, w, labels = rng.standard_normal((2, 60)), rng.uniform(0.5, 2, 60), rng.integers(0, 5, 60)
    start = parts(x, w, labels, problem_with(2, noise))
    np.testing.assert_allclose(start.weights, np.bincount(labels, w) / w.sum(), rtol=1e-12)
    for k in range(5):
        np.testing.assert_allclose(start.means[k], np.average(x[:, labels == k], axis=1, weights=w[labels == k]))


def test_parts_of_less_than_half_a_row_are_none(rng):
    x, w = rng.standard_normal((2, 10)), np.ones(10)
    first = (np.arange(10) > 0).astype(np.intp)
    assert parts(x, w, first, problem_with(2)).weights.tolist() == [0.1, 0.9]
    assert parts(x, np.where(first, w, 0.4), first, problem_with(2)) is None
    assert parts(x, w, 2 * first, problem_with(2)) is None


def test_layers_show_the_factors_of_their_parts(rng):
    second = np.repeat([False, True], 300)
    common = rng.standard_normal(600)
    x = 0.3 * rng.standard_normal((4, 600)) + common * np.array([[1.0], [1.0], [-1.0], [0.5]])
    x[0] += 1.5 * second
    w, prior = np.ones(600), Prior(np.full(4, FLOOR), np.ones(4), 4.0)
    pricing = Evidence(4, 600.0, "component", 4.0)
    choice = FactorChoice(pricing, prior, Noise.COMPONENT)
    problem = replace(problem_with(4), prior=prior, choice=choice)
    labels = second.astype(np.intp)
    plain = parts(x, w, labels, problem)
    layered = layers(x, w, labels, problem, Solver(4), plain)
    assert layered.n_factors == (1, 1)
    np.testing.assert_array_equal(layered.means, plain.means)
    np.testing.assert_array_equal(layered.weights, plain.weights)
    for k, part in enumerate((~second, second)):
        c = layered.component(k)
        np.testing.assert_allclose(c.loadings.T @ c.loadings + np.diag(c.uniquenesses), np.cov(x[:, part]), atol=0.05)
