"""Rows projected on lines: cuts in two, parallel cuts, and what cuts show beyond chance, against their definitions."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from amofa._search.lines import Lines


def line_of(z, w=None):
    """One line."""
    return Lines(np.atleast_2d(z), np.ones(np.shape(z)[-1]) if w is None else w)


def variance(values, weights):
    return np.average((values - np.average(values, weights=weights)) ** 2, weights=weights)


def thresholds_of(z, w):
    """Places for a cut that leaves more than half a row on both sides."""
    return [t for t in np.unique(z)[:-1] if min(w[z <= t].sum(), w[z > t].sum()) > 0.5]


# ---- the best cut in two ---------------------------------------------------------------------------------------------


def dense_gains(z, w, different):
    """Gain in nats of every cut, by its threshold, from the definition; of the same variance, over a cut Gaussian's."""
    gains, total, whole = {}, w.sum(), variance(z, w)
    for threshold in thresholds_of(z, w):
        low = z <= threshold
        n = np.array([w[low].sum(), w[~low].sum()])
        variances = np.array([max(variance(z[part], w[part]), 1e-4 * whole) for part in (low, ~low)])
        after = n @ np.log(variances) if different else total * math.log(n @ variances / total)
        gain = (total * math.log(whole) - after) / 2
        gains[threshold] = gain + (
            float((n * np.log(n / total)).sum()) if different else cut_gaussian(n[0] / total, total)
        )
    return gains


def cut_gaussian(share, total):
    """What cutting a Gaussian there would gain less, in nats, with the same sign."""
    place = stats.norm.ppf(share)
    # Means of a Gaussian on both sides of a place.
    means = -stats.norm.pdf(place) / share, stats.norm.pdf(place) / (1 - share)
    return total / 2 * math.log(1 - (share * means[0] ** 2 + (1 - share) * means[1] ** 2))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_cuts_are_those_of_the_definition(rng, weighted, ties):
    z = rng.standard_normal((5, 40)) + 3 * (rng.random((5, 40)) < 0.3)
    z = np.round(z, 1) if ties else z
    w = rng.uniform(0.1, 2, 40) if weighted else np.ones(40)
    for different, cuts in enumerate(Lines(z, w).cuts()):
        for line, gain, threshold in zip(z, cuts.gains, cuts.thresholds, strict=True):
            expected = dense_gains(line, w, bool(different))
            assert gain == pytest.approx(max(expected.values()), rel=1e-9, abs=1e-9)
            assert gain == pytest.approx(expected[threshold], rel=1e-9, abs=1e-9)


def test_a_cut_lies_in_the_gap():
    z = np.array([0.0, 0.1, 0.2, 0.3, 5.0, 5.1, 5.2, 5.3])
    for cuts in Lines(np.stack([z, -z]), np.ones(8)).cuts():
        assert cuts.thresholds.tolist() == [0.3, -5.0]
        assert (cuts.gains > 5).all()


def test_equal_values_are_not_cut():
    for gains, thresholds in Lines(np.stack([np.ones(30), np.repeat([0.0, 1.0, 7.0], 10)]), np.ones(30)).cuts():
        assert gains[0] == -np.inf
        assert thresholds[1] == 1.0


def test_one_row_is_not_cut():
    for cuts in line_of([0.0]).cuts():
        assert cuts.gains.tolist() == cuts.thresholds.tolist() == [-np.inf]


def test_parts_of_a_cut_have_more_than_half_a_row():
    z, w = np.array([0.0, 100.0, 101.0, 102.0]), np.array([0.5, 1.0, 1.0, 1.0])
    for _, threshold in line_of(z, w).cuts():
        assert threshold > 0.0
    for _, threshold in line_of(z).cuts():
        assert threshold == 0.0


# ---- parallel cuts ---------------------------------------------------------------------------------------------------


def parts_of(z, thresholds):
    return np.searchsorted(np.asarray(thresholds), z)


def gain_of(z, w, thresholds):
    """Gain in nats of parts with one variance over one Gaussian, less log N for each part, from the definition."""
    labels, total = parts_of(z, thresholds), w.sum()
    parts = [labels == k for k in range(len(thresholds) + 1)]
    n = np.array([w[part].sum() for part in parts])
    within = sum(n[k] * variance(z[part], w[part]) for k, part in enumerate(parts))
    whole = total * variance(z, w)
    gain = total / 2 * math.log(whole / max(within, 1e-10 * whole)) + float(n @ np.log(n / total))
    return gain - len(parts) * math.log(total)


def cut_again_and_again(z, w, most_parts):
    """3 to most_parts parts, each from one with a part less by the cut that reduces the variance most.

    Rows then go to the part with the nearest mean, again and again.
    """

    def within(thresholds):
        labels = parts_of(z, thresholds)
        return sum(w[labels == k].sum() * variance(z[labels == k], w[labels == k]) for k in np.unique(labels))

    def moved(thresholds):
        labels = parts_of(z, thresholds)
        means = [np.average(z[labels == k], weights=w[labels == k]) for k in range(len(thresholds) + 1)]
        nearest = np.argmin(np.abs(z - np.array(means)[:, None]), axis=0)
        return [z[nearest == k].max() for k in range(len(thresholds))]

    thresholds, found = [], []
    while len(thresholds) + 1 < most_parts:
        more = [sorted([*thresholds, t]) for t in np.unique(z)[:-1] if t not in thresholds]
        more = [ts for ts in more if min(np.bincount(parts_of(z, ts), w, len(ts) + 1)) > 0.5]
        if not more:
            break
        thresholds = min(more, key=within)
        while (after := moved(thresholds)) != thresholds:
            thresholds = after
        if len(thresholds) > 1:
            found.append((gain_of(z, w, thresholds), thresholds))
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most_parts", [3, 4, 6])
def test_parallel_cuts_are_those_of_the_definition(rng, most_parts, weighted):
    for centres in ([0, 4, 9], [0, 4, 9, 13, 18], [0]):
        z = np.round(rng.normal(rng.choice(centres, 50), 1.0), 1)
        w = rng.uniform(0.2, 2, 50) if weighted else np.ones(50)
        z -= np.average(z, weights=w)
        found, expected = line_of(z, w).parallel_cuts(0, most_parts), cut_again_and_again(z, w, most_parts)
        for (gain, thresholds), (expected_gain, places) in zip(found, expected, strict=True):
            assert gain == pytest.approx(expected_gain, rel=1e-9, abs=1e-9)
            np.testing.assert_array_equal(thresholds, places)


@pytest.mark.parametrize("draw", range(5))
def test_three_groups_in_a_row_are_the_best_three_parts(draw):
    """No two cuts gain more, though the first one goes through the group in the middle."""
    z = np.concatenate([np.random.default_rng(draw).normal(m, 1.0, 12) for m in (-8, 0, 8)])
    z, w = z - z.mean(), np.ones(36)
    [(gain, thresholds)] = line_of(z).parallel_cuts(0, 3)
    np.testing.assert_array_equal(parts_of(z, thresholds), np.repeat([0, 1, 2], 12))
    assert gain == pytest.approx(max(gain_of(z, w, pair) for pair in combinations(thresholds_of(z, w), 2)), rel=1e-9)


def test_as_many_parts_as_groups_in_a_row(rng):
    for k in (3, 4, 5, 6):
        z = np.concatenate([rng.normal(7.0 * m, 1.0, 40) for m in range(k)])
        lines = Lines(np.stack([rng.standard_normal(len(z)), z - z.mean()]), np.ones(len(z)))
        assert len(max(lines.parallel_cuts(1, 6), key=lambda each: each[0])[1]) == k - 1


@pytest.mark.parametrize("z", [[0.0], [0.0, 0.0, 0.0], [-1.0, 1.0], [-1.0, -1.0, 1.0, 1.0]])
def test_lines_that_cant_be_cut_twice(z):
    assert line_of(z).parallel_cuts(0, 6) == []


# ---- what a cut shows beyond chance ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [100, 1000, 10000])
def test_chance_shows_little_excess(rng, n):
    z = rng.standard_normal((20, n))
    assert Lines(z - z.mean(axis=1)[:, None], np.ones(n)).cuts()[0].gains.max() < 2 * math.sqrt(n)
    for groups in (2, 3, 4, 5):
        z = rng.standard_normal(n) + 6 * (np.arange(n) % groups)
        assert line_of(z - z.mean()).cuts()[0].gains > 0.1 * n


@pytest.mark.parametrize("z", [[0.0], [0.0, 0.0], np.zeros(100)])
def test_equal_values_show_no_excess(z):
    assert line_of(z).cuts()[0].gains == -np.inf


def test_two_values_show_all_there_is():
    """No part has any variance."""
    assert line_of(np.repeat([-1.0, 1.0], 50)).cuts()[0].gains > 50
    assert line_of(np.repeat([-0.1, 0.3], [75, 25])).cuts()[0].gains > 50
