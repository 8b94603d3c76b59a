"""Where local fits start: cuts between groups, ties and weights, and what is too small to be cut."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fits import NOISES

from amofa._em.factor_analysis import Covariance, FactorChoice, Prior
from amofa._em.profile_likelihood import Problem
from amofa._kernels._factor_analysis import Solver
from amofa._noise import Noise
from amofa._search.splits import _cut_gains, _inner_half, layers, parts, split_masks
from amofa.criterion import Evidence

FLOOR = 1e-4


def problem_with(d, noise="component", floor=None):
    """A problem of d columns; of its parts only the noise and the floor matter here."""
    prior = Prior(np.full(d, FLOOR) if floor is None else floor, np.ones(d), 4.0)
    pricing = Evidence(d, 100.0, noise, 4.0)
    choice = FactorChoice(pricing, prior, Noise(noise))
    return Problem(prior, pricing, Noise(noise), choice, 1e-5, 100, annihilates=True)


def moments(x, weights):
    """Mean and second moments of rows x (d, n)."""
    mean = x @ weights / weights.sum()
    e = x - mean[:, None]
    return mean, Covariance((e * weights) @ e.T / weights.sum(), Solver(len(x)))


def masks_of(x, weights=None):
    weights = np.ones(x.shape[1]) if weights is None else weights
    return split_masks(x, weights, *moments(x, weights))


def same_partition(a, b):
    return np.array_equal(a, b) or np.array_equal(a, ~b)


def contains(masks, wanted):
    return any(same_partition(mask, wanted) for mask in masks)


def two_groups(rng, d=3, counts=(60, 40), gap=20.0):
    """Rows (d, n) of two spheres apart, shuffled, and which belong to the second."""
    second = rng.permutation(np.repeat([False, True], counts))
    x = rng.standard_normal((d, len(second)))
    x[0] += gap * second
    return x, second


# ---- a cut of a line -------------------------------------------------------------------------------------------------


def dense_gains(z, w, different):
    """Gain in nats of every cut, by its threshold, from the definition."""

    def variance(values, weights):
        return np.average((values - np.average(values, weights=weights)) ** 2, weights=weights)

    def within(part):
        return max(variance(z[part], w[part]), 1e-4 * variance(z, w))

    gains, total = {}, w.sum()
    for threshold in np.unique(z)[:-1]:
        low, n = z <= threshold, np.array([w[z <= threshold].sum(), w[z > threshold].sum()])
        if n.min() < 3:
            continue
        mixing = float((n * np.log(n / total)).sum())
        variances = np.array([within(low), within(~low)])
        after = n @ np.log(variances) if different else total * math.log(n @ variances / total)
        gain = (total * math.log(variance(z, w)) - after) / 2
        gains[threshold] = gain + mixing
    return gains


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_cuts_are_those_of_the_definition(rng, weighted, ties):
    for _ in range(5):
        z = rng.standard_normal(40) + 3 * (rng.random(40) < 0.3)
        z = np.round(z, 1) if ties else z
        w = rng.uniform(0.5, 2, 40) if weighted else np.ones(40)
        for different, (gain, threshold) in enumerate(_cut_gains(z, w)):
            expected = dense_gains(z, w, bool(different))
            assert gain == pytest.approx(max(expected.values()), rel=1e-9, abs=1e-9)
            assert gain == pytest.approx(expected[threshold], rel=1e-9, abs=1e-9)


def test_a_cut_lies_in_the_gap():
    z = np.array([0.0, 0.1, 0.2, 0.3, 5.0, 5.1, 5.2, 5.3])
    for gain, threshold in _cut_gains(z, np.ones(8)):
        assert threshold == 0.3
        assert gain > 5
    for gain, threshold in _cut_gains(-z, np.ones(8)):
        assert threshold == -5.0
        assert gain > 5


def test_equal_values_are_not_cut():
    for gain, threshold in _cut_gains(np.ones(20), np.ones(20)):
        assert gain == threshold == -np.inf
    for _, threshold in _cut_gains(np.repeat([0.0, 1.0, 7.0], 10), np.ones(30)):
        assert threshold == 1.0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_too_few_rows_are_not_cut(n):
    assert _cut_gains(np.arange(float(n)), np.ones(n)) == ((-np.inf, -np.inf), (-np.inf, -np.inf))


def test_parts_of_a_cut_have_three_rows():
    z = np.array([0.0, 100.0, 101.0, 102.0, 103.0, 104.0])
    for _, threshold in _cut_gains(z, np.ones(6)):
        assert threshold == 101.0


# ---- masks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 20])
def test_two_groups_are_parted(rng, d):
    x, second = two_groups(rng, d)
    masks = masks_of(x)
    assert contains(masks.all[:1], second)
    assert contains(masks.across, second)


def test_groups_of_one_centre_are_parted_by_a_shell(rng):
    inner = rng.permutation(np.repeat([True, False], 100))
    x = rng.standard_normal((2, 200))
    x /= np.sqrt((x**2).sum(axis=0))
    x *= np.where(inner, rng.uniform(0.1, 0.5, 200), rng.uniform(5, 6, 200))
    agreement = max(max(np.mean(mask == inner), np.mean(mask != inner)) for mask in masks_of(x).all)
    assert agreement > 0.98


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
    agreement = max(max(np.mean(mask == second), np.mean(mask != second)) for mask in masks_of(x).across)
    assert agreement > 0.95


def test_there_are_no_doubles(rng):
    for x in (two_groups(rng)[0], two_groups(rng, 1)[0], np.round(rng.standard_normal((2, 30)))):
        for masks in masks_of(x):
            assert masks
            assert all(mask.dtype == bool and mask.shape == x.shape[1:] for mask in masks)
            for i, mask in enumerate(masks):
                assert not contains(masks[:i], mask)


def test_weights_of_two_are_rows_twice(rng):
    x, _ = two_groups(rng, gap=4.0)
    n = x.shape[1]
    weighted, twice = masks_of(x, np.full(n, 2.0)), masks_of(np.repeat(x, 2, axis=1))
    for a, b in zip(weighted, twice, strict=True):
        assert len(a) == len(b)
        for mask, doubled in zip(a, b, strict=True):
            np.testing.assert_array_equal(np.repeat(mask, 2), doubled)


def test_duplicates_stay_together(rng):
    x = np.repeat(rng.standard_normal((3, 25)), 4, axis=1)
    for mask in masks_of(x).all:
        assert (mask.reshape(25, 4) == mask.reshape(25, 4)[:, :1]).all()


def test_the_order_of_rows_does_not_matter(rng):
    x, _ = two_groups(rng, gap=3.0)
    order = rng.permutation(x.shape[1])
    for a, b in zip(masks_of(x), masks_of(np.ascontiguousarray(x[:, order])), strict=True):
        assert len(a) == len(b)
        assert all(contains(b, mask[order]) for mask in a)


def test_rows_all_the_same_have_no_parts():
    assert masks_of(np.ones((3, 10))) == ([], [])


def test_many_columns_are_looked_at_by_their_leading_axes_and_the_last(rng):
    x, second = two_groups(rng, 80, counts=(120, 100))
    x[0] *= 3
    assert contains(masks_of(x).all, second)


# ---- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_parts_are_weighted_means_and_variances(rng, noise):
    x, second = two_groups(rng)
    w = rng.uniform(0.5, 2, x.shape[1])
    start = parts(x, w, second, problem_with(3, noise))
    assert start.n_factors == (0, 0)
    variances = []
    for k, part in enumerate((second, ~second)):
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
    start = parts(x, np.ones(10), x[0] > 0.5, problem_with(len(floor), noise, floor))
    expected = np.full((2, 2), 0.03) if noise == "isotropic" else np.tile(floor, (2, 1))
    np.testing.assert_allclose(start.uniquenesses, expected, rtol=1e-14)


def test_parts_of_less_than_three_rows_are_none(rng):
    x, w = rng.standard_normal((2, 10)), np.ones(10)
    for few in (0, 2, 8, 10):
        assert parts(x, w, np.arange(10) < few, problem_with(2)) is None
    assert parts(x, w, np.arange(10) < 3, problem_with(2)) is not None
    assert parts(x, 0.5 * w, np.arange(10) < 4, problem_with(2)) is None


def test_layers_show_the_factors_of_their_parts(rng):
    second = np.repeat([False, True], 300)
    common = rng.standard_normal(600)
    x = 0.3 * rng.standard_normal((4, 600)) + common * np.array([[1.0], [1.0], [-1.0], [0.5]])
    x[0] += 1.5 * second
    w, prior = np.ones(600), Prior(np.full(4, FLOOR), np.ones(4), 4.0)
    pricing = Evidence(4, 600.0, "component", 4.0)
    choice = FactorChoice(pricing, prior, Noise.COMPONENT)
    problem = replace(problem_with(4), prior=prior, choice=choice)
    plain = parts(x, w, second, problem)
    layered = layers(x, w, second, problem, Solver(4), plain)
    assert layered.n_factors == (1, 1)
    np.testing.assert_array_equal(layered.means, plain.means)
    np.testing.assert_array_equal(layered.weights, plain.weights)
    for k, part in enumerate((second, ~second)):
        c = layered.component(k)
        np.testing.assert_allclose(c.loadings.T @ c.loadings + np.diag(c.uniquenesses), np.cov(x[:, part]), atol=0.05)
