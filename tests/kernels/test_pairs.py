"""EM on pairs of rows and components that are near, against dense algebra."""

import numpy as np
import pytest
import reference
from reference import far_rows, random_mixture, random_rows, relative_error, t_mixture

from amofa._kernels._pairs import Pairs
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._kernels._standard import StandardIteration

TOLERANCE = 1e-12
SHAPES = [
    (1, 1, [0], 40, 0.5),
    (3, 2, [1, 0, 1], 700, 1e-3),
    (3, 6, [2, 0, 7], 300, 1e-2),
    (4, 20, [3, 1, 0, 2], 1500, 1e-4),
    (2, 5, [1, 1], 1, 1e-3),
]


def bind(mixture):
    d = mixture.n_features
    return ProfileLikelihoodIteration(mixture.buffer, mixture.offsets, np.full(d, 1e-4), 4.0, np.ones(d), 0)


def marked(iteration, x, weights, least):
    """The marks of a pass over all rows, and the pairs, read in two blocks."""
    near, kept = np.full((iteration.n_components, len(x)), 7, dtype=np.uint8), np.zeros(len(x))
    iteration.accumulate(np.ascontiguousarray(x.T), weights, None, None, near, kept, least)
    pairs, cut = Pairs(iteration, near, kept * weights), len(x) // 3
    for first, stop in (0, cut), (cut, len(x)):
        pairs.read(np.ascontiguousarray(x[first:stop].T), first)
    return near, kept, pairs


def pass_over(pairs, iteration):
    scratch, sums = np.empty(iteration.scratch_size), np.zeros(len(iteration.sums))
    for k in range(iteration.n_components):
        pairs.find(k, scratch)
    pairs.share()
    for k in range(iteration.n_components):
        pairs.add(k, sums, scratch)
    return sums


def by_name(sums, K, d):
    counts, first, second, tails = np.split(sums[2:], np.cumsum([K, K * d, K * d * d]))
    lower = np.tril(second.reshape(K, d, d))
    return counts, first.reshape(K, d), lower + np.tril(lower, -1).transpose(0, 2, 1), tails


def dense(x, h, components):
    deviations = [x - c.mean for c in components]
    weighed = h * np.stack([reference.tail_weights(x, c) for c in components], axis=1)
    first = np.array([weighed[:, k] @ e for k, e in enumerate(deviations)])
    second = np.array([(weighed[:, [k]] * e).T @ e for k, e in enumerate(deviations)])
    return h.sum(axis=0), first, second, weighed.sum(axis=0)


@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize(("K", "d", "factors", "n", "least"), SHAPES)
def test_sums_are_those_of_dense_algebra(rng, K, d, factors, n, least, is_far):
    """At the parameters of the pass over all rows, and at others, where the responsibilities of the rest stay."""
    mixture = random_mixture(rng, K, d, factors)
    if is_far:
        # Distances by residuals.
        mixture.uniquenesses[0] *= 1e-5
    x, weights = random_rows(rng, mixture, n), rng.uniform(0.5, 2.0, n)
    iteration = bind(mixture)
    near, kept, pairs = marked(iteration, x, weights, least)
    h = reference.responsibilities(x, mixture.components())
    np.testing.assert_array_equal(near, (h > least).T)
    np.testing.assert_allclose(kept, (h * near.T).sum(axis=1), rtol=1e-11)
    assert pairs.n_pairs == near.sum()
    own, whole = pass_over(pairs, iteration), iteration.sums.copy()
    pairs.set_rest(whole, own)
    with_rest = own.copy()
    pairs.add_rest(with_rest)
    for got, expected in zip(by_name(with_rest, K, d), by_name(whole, K, d), strict=True):
        assert relative_error(got, expected, max(1.0, np.abs(expected).max())) < TOLERANCE

    rest = weights[:, None] * h * (1 - near.T)
    mixture.means += 0.1 * rng.normal(size=(K, d))
    mixture.uniquenesses *= 1.1
    iteration.prepare()
    got = pass_over(pairs, iteration)
    pairs.add_rest(got)
    components = mixture.components()
    logs = np.where(near.T == 1, reference.log_joint(x, components), -np.inf)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares *= (weights * kept / shares.sum(axis=1))[:, None]
    for values, expected in zip(by_name(got, K, d), dense(x, shares + rest, components), strict=True):
        # Counted from the rounding error of the sums, and what EM leaves out of all moments.
        assert relative_error(values, expected, max(1.0, np.abs(expected).max())) < 1e-7


@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize(
    ("K", "d", "factors", "n"), [(1, 1, [0], 40), (3, 2, [1, 0, 1], 700), (4, 20, [3, 1, 0, 2], 900)]
)
def test_sums_of_t_components_are_those_of_dense_algebra(rng, K, d, factors, n, is_far):
    mixture = t_mixture(rng, K, d, factors, [3.0, np.inf, 10.0])
    if is_far:
        mixture.uniquenesses[0] *= 1e-5
    x, weights = far_rows(rng, mixture, n), rng.uniform(0.5, 2.0, n)
    iteration = bind(mixture)
    near, kept, pairs = marked(iteration, x, weights, 1e-3)
    components = mixture.components()
    h = reference.responsibilities(x, components)
    np.testing.assert_array_equal(near, (h > 1e-3).T)
    whole = dense(x, weights[:, None] * h, components)
    for got, expected in zip(by_name(iteration.sums, K, d), whole, strict=True):
        # EM leaves out rows with a small share.
        assert relative_error(got, expected, max(1.0, np.abs(expected).max())) < 1e-6
    logs = np.where(near.T == 1, reference.log_joint(x, components), -np.inf)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares *= (weights * kept / shares.sum(axis=1))[:, None]
    for got, expected in zip(by_name(pass_over(pairs, iteration), K, d), dense(x, shares, components), strict=True):
        assert relative_error(got, expected, max(1.0, np.abs(expected).max())) < 1e-10


def test_no_count_is_negative_by_rounding(rng):
    """A component may lose all rows between two passes over all of them: then its count is 0."""
    mixture = random_mixture(rng, 2, 3, [1, 0])
    x = random_rows(rng, mixture, 50)
    iteration = bind(mixture)
    _, _, pairs = marked(iteration, x, np.ones(50), 1e-3)
    whole = iteration.sums.copy()
    pairs.set_rest(whole, whole + 1e-15 * np.abs(whole))
    sums = np.zeros_like(whole)
    pairs.add_rest(sums)
    for values in by_name(sums, 2, 3):
        np.testing.assert_array_equal(values, 0)


def test_rows_that_no_component_reaches_count_for_none(rng):
    mixture = random_mixture(rng, 2, 3, [1, 0])
    x = random_rows(rng, mixture, 50)
    iteration = bind(mixture)
    _, _, pairs = marked(iteration, x, np.ones(50), 1e-3)
    mixture.means[:] = 1e200
    iteration.prepare()
    assert not pass_over(pairs, iteration).any()


def test_no_pairs(rng):
    mixture = random_mixture(rng, 2, 3, [1, 0])
    iteration = bind(mixture)
    pairs = Pairs(iteration, np.zeros((2, 9), dtype=np.uint8), np.ones(9))
    pairs.read(np.zeros((3, 9)), 0)
    assert pairs.n_pairs == 0
    assert not pass_over(pairs, iteration).any()


def test_wrong_arguments_are_refused(rng):
    mixture = random_mixture(rng, 2, 3, [1, 0])
    iteration, x = bind(mixture), np.zeros((3, 9))
    near, kept, scratch = np.ones((2, 9), dtype=np.uint8), np.zeros(9), np.empty(iteration.scratch_size)
    for marks in (np.ones((3, 9), dtype=np.uint8), np.ones((2, 8), dtype=np.uint8)):
        with pytest.raises(ValueError, match="do not agree"):
            Pairs(iteration, marks, kept)
        with pytest.raises(ValueError, match="must have places"):
            iteration.accumulate(x, None, None, None, marks, kept, 0.5)
    with pytest.raises(ValueError, match="do not agree"):
        Pairs(StandardIteration(mixture.buffer, mixture.offsets, np.full(3, 1e-4)), near, kept)
    pairs = Pairs(iteration, near, kept)
    with pytest.raises(ValueError, match="not all rows"):
        pairs.find(0, scratch)
    for rows, first in ((x, 1), (x, -1), (x[:2], 0)):
        with pytest.raises(ValueError, match="not among those"):
            pairs.read(rows, first)
    pairs.read(x, 0)
    with pytest.raises(IndexError, match="no such component"):
        pairs.find(2, scratch)
    with pytest.raises(ValueError, match="too short"):
        pairs.find(0, scratch[1:])
    with pytest.raises(ValueError, match="not set"):
        pairs.add_rest(iteration.sums)
    for refused in (lambda s: pairs.add(0, s, scratch), lambda s: pairs.set_rest(s, s), pairs.add_rest):
        with pytest.raises(ValueError, match="wrong length"):
            refused(iteration.sums[1:])
