"""Normalised information distance of two labelings."""

import math

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from amofa.metrics import normalized_information_distance


def entropy(labels):
    return mutual_info_score(labels, labels)


def test_agrees_with_mutual_information_over_the_larger_entropy(rng):
    for n, k_u, k_v in [(2, 2, 2), (50, 3, 7), (1000, 20, 2), (1000, 1000, 4)]:
        u, v = rng.integers(k_u, size=n), rng.integers(k_v, size=n)
        u[:2] = 0, 1  # at least two clusters
        expected = 1 - mutual_info_score(u, v) / max(entropy(u), entropy(v))
        assert normalized_information_distance(u, v) == pytest.approx(expected, abs=1e-12)
        assert normalized_information_distance(v, u) == pytest.approx(expected, abs=1e-12)


def test_value_by_hand():
    # H(u) = log 2; H(v) = log 4 - 3/4 log 3; H(u, v) = 3/2 log 2, over the cells (a, x) 2, (b, x) 1, (b, y) 1.
    h_u, h_v, joint = math.log(2), math.log(4) - 0.75 * math.log(3), 1.5 * math.log(2)
    distance = normalized_information_distance(["a", "a", "b", "b"], ["x", "x", "x", "y"])
    assert distance == pytest.approx(1 - (h_u + h_v - joint) / h_u, abs=1e-15)


def test_a_relabeling_is_at_distance_exactly_zero(rng):
    for k in (2, 3, 7, 50):
        u = rng.integers(k, size=997)
        names = np.array([f"cluster {j}" for j in rng.permutation(k)])
        assert normalized_information_distance(u, u) == 0.0
        assert normalized_information_distance(u, names[u]) == 0.0
        assert normalized_information_distance(u, -3.5 * u) == 0.0


def test_independent_and_one_cluster_labelings():
    u, v = np.repeat([0, 1, 2], 4), np.tile([0, 1, 2, 3], 3)
    assert normalized_information_distance(u, v) == pytest.approx(1.0, abs=1e-15)
    assert normalized_information_distance(u, v) <= 1.0
    assert normalized_information_distance(u, np.zeros(12)) == 1.0
    assert normalized_information_distance([7] * 5, ["x"] * 5) == 0.0
    assert normalized_information_distance([7], ["x"]) == 0.0


def test_always_between_zero_and_one(rng):
    for _ in range(300):
        n = int(rng.integers(1, 12))
        distance = normalized_information_distance(rng.integers(4, size=n), rng.integers(3, size=n))
        assert 0.0 <= distance <= 1.0


def test_any_hashable_labels():
    mixed = [("a", 1), None, 2, "2", ("a", 1), None]
    assert normalized_information_distance(mixed, [0, 1, 2, 3, 0, 1]) == 0.0
    # 2 and "2" are different labels, which an array of strings would merge.
    assert normalized_information_distance(mixed, [0, 1, 2, 2, 0, 1]) > 0.0


def test_many_clusters_do_not_need_a_contingency_table():
    u = np.arange(200_000)
    assert normalized_information_distance(u, u[::-1]) == 0.0


@pytest.mark.parametrize(
    ("u", "v", "error", "message"),
    [
        ([0, 1], [0, 1, 1], ValueError, "u has 2 labels and v has 3"),
        ([], [], ValueError, "u is empty"),
        ([0], np.array([]), ValueError, "v is empty"),
        (np.zeros((2, 2)), [0, 1], ValueError, r"u must be one-dimensional, got shape \(2, 2\)"),
        ([0, 1], [[0], [1]], TypeError, "v must hold one hashable label per row"),
        (3, [0, 1], TypeError, "u must be a sequence of labels, got int"),
        ([0, 1], [0.0, math.nan], ValueError, "v holds NaN"),
    ],
)
def test_errors(u, v, error, message):
    with pytest.raises(error, match=message):
        normalized_information_distance(u, v)
