"""What a search must keep: bounds, and which mixtures meet them."""

import pytest
from reference import random_mixture

from amofa._search.constraints import Constraints


@pytest.mark.parametrize(
    ("constraints", "first", "most"),
    [
        ({}, 1, None),
        ({"max_factors": 0}, 0, 0),
        ({"max_factors": 1}, 1, 1),
        ({"max_factors": 3}, 1, 3),
        ({"n_factors": 0}, 0, 0),
        ({"n_factors": 2}, 2, 2),
        ({"n_factors": (3, 2, 4)}, 2, 2),
        ({"n_factors": 2, "max_factors": 5}, 2, 2),
    ],
)
def test_factors_of_new_components_and_their_bound(constraints, first, most):
    assert Constraints(**constraints).first_factors == first
    assert Constraints(**constraints).most_factors == most


@pytest.mark.parametrize(
    ("constraints", "most"),
    [({}, None), ({"max_components": 4}, 4), ({"n_components": 2}, 2), ({"n_components": 2, "max_components": 4}, 2)],
)
def test_most_components(constraints, most):
    assert Constraints(**constraints).most_components == most


@pytest.mark.parametrize(
    ("constraints", "is_met"),
    [
        ({}, True),
        ({"n_components": 3}, True),
        ({"n_components": 2}, False),
        ({"n_components": 4}, False),
        ({"n_factors": (0, 2, 1)}, True),
        ({"n_factors": (2, 0, 1)}, False),
        ({"n_factors": 2}, False),
        ({"n_components": 3, "n_factors": (0, 2, 1)}, True),
        ({"n_components": 2, "n_factors": (0, 2, 1)}, False),
        ({"max_components": 3}, True),
        ({"max_components": 4}, True),
        ({"max_components": 2}, False),
        ({"max_factors": 1}, False),
        ({"max_factors": 2}, True),
        ({"max_factors": 3}, True),
        ({"max_components": 2, "max_factors": 3}, False),
        ({"max_components": 3, "max_factors": 1}, False),
    ],
)
def test_a_mixture_meets_them_or_not(rng, constraints, is_met):
    assert Constraints(**constraints).met_by(random_mixture(rng, 3, 4, [0, 2, 1])) is is_met


@pytest.mark.parametrize(("p", "is_met"), [(2, True), (1, False)])
def test_one_number_of_factors_is_that_of_all_components(rng, p, is_met):
    assert Constraints(n_factors=p).met_by(random_mixture(rng, 3, 4, 2)) is is_met
