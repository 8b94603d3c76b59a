"""The M-step against dense algebra, and EM as a whole: it never lowers the likelihood."""

import numpy as np
import pytest
import reference
from reference import random_mixture, random_rows, relative_error

from amofa._kernels._standard import StandardIteration

TOLERANCE = 1e-12


def expected(parameters, x, weights=None, floor=1e-9):
    """A copy of the parameters, and an iteration on it after the E-step of rows x (n, d)."""
    new = parameters.copy()
    iteration = StandardIteration(new.buffer, new.offsets, np.broadcast_to(floor, parameters.n_features).copy())
    iteration.accumulate(np.ascontiguousarray(x.T), weights)
    return new, iteration


def em_step(parameters, x, weights=None, floor=1e-9):
    """One E-step and one M-step."""
    new, iteration = expected(parameters, x, weights, floor)
    iteration.maximize()
    return new


# ---- values ----------------------------------------------------------------------------------------------------------


def check_against_reference(parameters, x, weights, floor):
    new = em_step(parameters, x, weights, floor)
    wanted = reference.maximize(x, weights, parameters.components(), floor)
    for got, want in zip(new.components(), wanted, strict=True):
        assert got.weight == pytest.approx(want.weight, rel=TOLERANCE)
        assert relative_error(got.mean, want.mean, max(1.0, np.abs(x).max())) < TOLERANCE
        # Second moments are differences of sums of the size of the squared distances to the old mean.
        scale = max(1.0, np.abs(x).max()) ** 2
        assert relative_error(got.loadings, want.loadings, scale) < TOLERANCE
        assert relative_error(got.uniquenesses, want.uniquenesses, scale) < TOLERANCE


@pytest.mark.parametrize("floor", [1e-6, 0.7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("K", "d", "factors", "n"),
    [
        (1, 1, [0], 20),
        (1, 1, [2], 300),
        (1, 5, [2], 1),
        (2, 3, [0, 0], 257),
        (3, 4, [4, 5, 7], 511),
        (3, 16, [1, 0, 2], 512),
        (10, 3, [0, 1, 2, 3, 1] * 2, 900),
        (3, 100, [0, 1, 12], 300),
    ],
)
def test_maximiser_matches_dense_algebra(rng, K, d, factors, n, weighted, floor):
    parameters = random_mixture(rng, K, d, factors)
    x, weights = random_rows(rng, parameters, n), rng.uniform(0.1, 2, n) if weighted else None
    check_against_reference(parameters, x, weights, np.full(d, floor))


def test_floor_of_each_column(rng):
    parameters = random_mixture(rng, 2, 4, 1)
    floor = np.array([1e-6, 1e3, 1e-6, 5e2])
    new = em_step(parameters, random_rows(rng, parameters, 200), floor=floor)
    np.testing.assert_array_equal(new.uniquenesses[:, [1, 3]], np.tile([1e3, 5e2], (2, 1)))
    assert (new.uniquenesses[:, [0, 2]] < 1e2).all()


def test_a_large_offset_costs_no_digit(rng):
    parameters = random_mixture(rng, 2, 4, [1, 3])
    x = np.round(random_rows(rng, parameters, 200) * 1024) / 1024  # a grid on which the shift is exact
    parameters.means[:] = np.round(parameters.means * 1024) / 1024
    shifted = parameters.copy()
    shifted.means[:] += 2.0**30
    a, b = em_step(parameters, x), em_step(shifted, x + 2.0**30)
    np.testing.assert_array_equal(b.loadings, a.loadings)
    np.testing.assert_array_equal(b.uniquenesses, a.uniquenesses)
    np.testing.assert_allclose(b.means - 2.0**30, a.means, atol=2.0**-21)


def test_a_component_without_rows_keeps_its_shape(rng):
    parameters = random_mixture(rng, 2, 3, 2)
    parameters.means[1] = 1e6
    parameters.means[0] = 0.0
    x = rng.standard_normal((50, 3))
    new = em_step(parameters, x)
    np.testing.assert_array_equal(new.weights, [1.0, 0.0])
    for name in ("mean", "loadings", "uniquenesses"):
        np.testing.assert_array_equal(getattr(new.component(1), name), getattr(parameters.component(1), name))


def test_the_step_leaves_the_mixture_ready_for_the_next(rng):
    parameters = random_mixture(rng, 3, 3, [1, 2, 0])
    x = random_rows(rng, parameters, 60)
    new, iteration = expected(parameters, x, floor=0.1)
    iteration.maximize()
    iteration.clear()
    iteration.accumulate(np.ascontiguousarray(x.T), None)
    np.testing.assert_array_equal(iteration.sums, expected(new, x)[1].sums)


# ---- EM --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [1e-6, 0.5, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("K", "d", "factors"),
    [(1, 1, [0]), (1, 6, [3]), (2, 1, [1, 0]), (3, 4, [0, 1, 6]), (4, 8, [2, 2, 1, 3]), (8, 2, [1] * 8)],
)
def test_em_never_lowers_the_likelihood(rng, K, d, factors, weighted, floor):
    truth = random_mixture(rng, 3, d, min(d, 2))
    x, w = random_rows(rng, truth, 150), rng.uniform(0, 2, 150) if weighted else None
    parameters = random_mixture(rng, K, d, factors)
    parameters.uniquenesses[:] = np.maximum(parameters.uniquenesses, floor)
    values = []
    for _ in range(40):
        parameters, iteration = expected(parameters, x, w, floor)
        values.append(iteration.log_likelihood)
        iteration.maximize()
        assert (parameters.uniquenesses >= floor).all()
        assert parameters.weights.sum() == pytest.approx(1.0, rel=1e-14)
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0]


# ---- failures, arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factors", [0, 2, 20])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["first", "second", "cross"])
def test_moments_that_are_not_finite_are_refused(rng, factors, value, name):
    parameters = random_mixture(rng, 1, 4, factors)
    _, iteration = expected(parameters, random_rows(rng, parameters, 50))
    iteration.sums[{"first": 4, "second": 8, "cross": -1}[name]] = value
    with pytest.raises(FloatingPointError, match="moments of component 0 are not finite"):
        iteration.maximize()


def test_an_empty_pass_is_refused(rng):
    _, iteration = expected(random_mixture(rng, 2, 4, 1), np.empty((0, 4)))
    with pytest.raises(FloatingPointError, match="soft counts are all zero"):
        iteration.maximize()


def test_a_step_to_a_singular_covariance_is_refused(rng):
    """Rows that are all the same, and no floor."""
    parameters = random_mixture(rng, 1, 3, 0)
    parameters.means[:] = 1.0
    _, iteration = expected(parameters, np.ones((20, 3)), floor=0.0)
    with pytest.raises(FloatingPointError, match="covariance of component 0 is numerically singular"):
        iteration.maximize()
