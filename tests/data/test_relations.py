"""Columns that follow from others."""

import numpy as np
import pytest
import reference
from reference import random_mixture

from amofa._data import row_chunks
from amofa._data.relations import Relations, find_relations
from amofa._data.standardize import Standardized


def found(X, w=None):
    """Return the columns that are left out with their sources, by number."""
    X = np.asarray(X, dtype=np.float64)
    return Standardized.of(X, w, by_body=True).without_redundant_columns().coordinates.redundant


@pytest.fixture
def z(rng):
    return rng.standard_normal((300, 4)) @ rng.standard_normal((4, 4)) * [1.0, 1e-3, 10.0, 1e6] + [0.0, 5.0, -2.0, 1e7]


def test_independent_columns_do_not_follow(rng, z):
    assert found(z) == []
    assert found(z[:, :1]) == []
    assert found(rng.standard_normal((20, 10))) == []


def test_sums_multiples_and_copies_follow_wherever_they_are(rng, z):
    """The sum of two columns of similar size is the one that the others explain best."""
    a, b = rng.standard_normal((2, 300)) * [[1.0], [1.2]]
    assert found(np.column_stack([z, 2 * z[:, 2] - 7])) == [(4, [2])]
    assert found(np.column_stack([a, b, a + b])) == [(2, [0, 1])]
    assert found(np.column_stack([a + b + 3, a, b])) == [(0, [1, 2])]
    assert found(np.column_stack([z, z])) == [(4, [0]), (5, [1]), (6, [2]), (7, [3])]


def test_constant_columns_keep_their_numbers(z):
    assert found(np.column_stack([np.ones(300), z[:, 0], np.zeros(300), -z[:, 0]])) == [(3, [1])]


def test_indicators_of_all_levels(rng):
    """Sums that are constant, of a few levels; a relation of many columns is no use."""
    few, many = np.eye(5)[rng.integers(0, 5, 300)], np.eye(40)[rng.integers(0, 40, 600)]
    ((column, others),) = found(few)
    assert sorted([column, *others]) == [0, 1, 2, 3, 4]
    assert found(many) == []


@pytest.mark.parametrize(("noise", "expected"), [(1e-6, [(4, [0])]), (1e-3, [])])
def test_next_to_exact_relations(rng, z, noise, expected):
    follows = z[:, 0] + noise * z[:, 0].std() * rng.standard_normal(300)
    assert found(np.column_stack([z, follows])) == expected


@pytest.mark.parametrize(("digits", "expected"), [(2, [(3, [0, 1, 2])]), (0, [])])
def test_relations_up_to_rounding(rng, digits, expected):
    """Shares in percent, with all columns rounded; to whole numbers, the relation is too coarse."""
    parts = np.round(100 * rng.dirichlet([4, 5, 6, 40], 500), digits)
    assert found(parts) == expected


def test_what_rounding_does_not_explain_stays(rng):
    x = np.round(rng.standard_normal(500), 3)
    groups = np.round(x + 0.007 * rng.integers(0, 2, 500), 3)
    assert found(np.column_stack([x, x, rng.standard_normal(500)])) == [(1, [0])]
    assert found(np.column_stack([x, groups, rng.standard_normal(500)])) == []


def test_far_groups_and_rows_make_no_relation(rng):
    """Correlations are 1 to ten digits, but narrow groups differ in both columns."""
    X = np.array([0.0, 1.0, 1e4])[rng.integers(0, 3, 900)][:, None] + rng.normal(0, 0.1, (900, 3))
    assert found(X) == []
    X = np.vstack([rng.standard_normal((100, 2)), [[1e9, 1e9]]])
    assert found(X) == []


def test_far_rows_must_obey(z):
    twice = np.column_stack([z, z])
    assert len(found(np.vstack([twice, [[1e7] * 8]]))) == 4
    far = np.vstack([twice, [*([1e7] * 7), 0.0]])
    assert [column for column, _ in found(far)] == [4, 5, 6]


def test_a_column_that_is_constant_near_the_centre(rng):
    """It varies in far rows only."""
    X = np.column_stack([rng.standard_normal((300, 2)), np.zeros(300)])
    X[0] = [1e5, 1e4, 7.0]
    assert found(X) == []


def test_weights_are_repeats(rng, z):
    X, repeats = np.column_stack([z, z[:, 0] - 1e3 * z[:, 1]]), rng.integers(1, 4, 300)
    assert found(X, repeats.astype(float)) == found(np.repeat(X, repeats, axis=0)) != []


def test_candidates_of_huge_tables_are_checked_on_all_rows(rng, monkeypatch):
    monkeypatch.setattr(row_chunks, "_HELD_ROWS", 1000)
    x = rng.standard_normal((20_000, 2))
    X = np.column_stack([x, x.sum(axis=1)])
    assert len(found(X)) == 1
    seen = row_chunks.Samples(X).thinned()
    X[np.setdiff1d(np.arange(20_000), seen._rows)[:50], 2] += 0.1
    assert found(X) == []


@pytest.mark.parametrize("K", [1, 3])
def test_restored_components_have_the_relation_and_the_density_of_the_others(rng, K):
    """A sum and a copy of four columns, which have one more factor each, and at most as many as columns."""
    coefficients = np.array([[1.0, -2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    relations = Relations(np.array([1, 5]), np.array([0, 2, 3, 4]), coefficients, np.array([0.5, 0.0]), np.zeros(2))
    parameters = random_mixture(rng, K, 4, [0, 2, 4][:K])
    components = [relations.restore(c, np.full(6, 1e-9)) for c in parameters.components()]
    assert [len(c.loadings) for c in components] == [3, 5, 6][:K]
    x = rng.standard_normal((20, 4))
    whole = np.empty((20, 6))
    whole[:, [0, 2, 3, 4]], whole[:, [1, 5]] = x, x @ coefficients.T + [0.5, 0.0]
    difference = reference.log_density(whole, components) - reference.log_density(x, parameters.components())
    np.testing.assert_allclose(difference, difference[0], atol=1e-3)
    for before, after in zip(parameters.components(), components, strict=True):
        sigma = before.loadings.T @ before.loadings + np.diag(before.uniquenesses)
        restored = after.loadings.T @ after.loadings + np.diag(after.uniquenesses)
        np.testing.assert_allclose(restored[np.ix_([0, 2, 3, 4], [0, 2, 3, 4])], sigma, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(restored[[1, 5]][:, [0, 2, 3, 4]], coefficients @ sigma, rtol=1e-6, atol=1e-7)


def test_relations_of_too_few_rows_are_chance(rng):
    X = rng.standard_normal((9, 5))
    X[:, 4] = X[:, 0]
    assert find_relations(Standardized.of(X, None).samples, np.ones(5), np.zeros(5)) is None
