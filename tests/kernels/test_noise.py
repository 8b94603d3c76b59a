"""What the prior of uniquenesses costs, and the best one for all columns."""

import math

import numpy as np
import pytest
from scipy import optimize

from amofa._kernels._noise import maximize_isotropic, prior_cost

COMPONENT, SHARED, ISOTROPIC = range(3)
SCALE = np.array([0.5, 1.0, 4.0])


# ---- the prior's cost ------------------------------------------------------------------------------------------------


def test_prior_cost(rng):
    psi = rng.uniform(0.1, 3, (2, 3))
    cost = prior_cost(psi, COMPONENT, 4.0, SCALE)
    assert cost == pytest.approx(4 * np.log(np.cosh(np.log(psi / SCALE) / 2)).sum(), rel=1e-13)
    assert cost > 0
    assert prior_cost(SCALE[None], COMPONENT, 4.0, SCALE) == pytest.approx(0, abs=1e-15)
    assert prior_cost(SCALE**2 / psi, COMPONENT, 4.0, SCALE) == pytest.approx(cost, rel=1e-13)
    units = np.array([1e-8, 3.0, 1e6])
    assert prior_cost(psi * units, COMPONENT, 4.0, SCALE * units) == pytest.approx(cost, rel=1e-13)
    assert prior_cost(psi, COMPONENT, 0.0, SCALE) == 0


def test_tied_uniquenesses_count_once():
    same = np.tile([0.2, 3.0, 1.0], (2, 1))
    once = prior_cost(same[:1], COMPONENT, 3.0, SCALE)
    assert prior_cost(same, SHARED, 3.0, SCALE) == once
    assert prior_cost(same, COMPONENT, 3.0, SCALE) == pytest.approx(2 * once, rel=1e-14)
    isotropic, scale = np.tile([[0.2], [5.0]], 2), np.array([0.5, 1.5])
    expected = 3 * (math.log(math.cosh(math.log(0.2) / 2)) + math.log(math.cosh(math.log(5.0) / 2)))
    assert prior_cost(isotropic, ISOTROPIC, 3.0, scale) == pytest.approx(expected, rel=1e-13)


def test_prior_cost_of_far_values_is_finite():
    cost = prior_cost(np.array([[1e-300]]), COMPONENT, 2.0, np.ones(1))
    assert cost == pytest.approx(2 * (150 * math.log(10) - math.log(2)), rel=1e-13)


@pytest.mark.parametrize(("psi", "scale"), [((2, 3), 2), ((0, 3), 3), ((2, 0), 0)])
def test_shapes_that_do_not_agree_are_refused(psi, scale):
    with pytest.raises(ValueError, match="one value per column"):
        prior_cost(np.ones(psi), COMPONENT, 1.0, np.ones(scale))


# ---- one variance for all columns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [1e-6, 0.3])
@pytest.mark.parametrize("prior_count", [0.0, 4.0, 100.0])
@pytest.mark.parametrize(("count", "mean"), [(1, 1e-4), (5, 0.02), (50, 1.0), (1000, 30.0), (0.1, 0.5)])
def test_the_variance_of_one_column_is_the_minimum(count, mean, prior_count, floor):
    scale = 0.7

    def cost(x):
        return count / 2 * (x + mean * math.exp(-x)) + prior_count * math.log(math.cosh((x - math.log(scale)) / 2))

    found, found_cost, log_determinant = maximize_isotropic(
        np.array([mean]), 0, count, np.array([floor]), prior_count, np.array([scale])
    )
    best = optimize.minimize_scalar(
        cost, bounds=(math.log(floor), math.log(1e3)), method="bounded", options={"xatol": 1e-9}
    )
    assert found >= floor
    assert found == pytest.approx(max(math.exp(best.x), floor), rel=1e-5)
    assert cost(math.log(found)) <= best.fun + 1e-12 * max(1.0, abs(best.fun))
    assert found_cost == pytest.approx(cost(math.log(found)), rel=1e-12, abs=1e-12 * count)
    assert log_determinant == math.log(found)


def test_the_variance_of_nothing():
    """No eigenvalues other than 0, or no rows: the floor, or the prior's scale."""
    nothing, floor, scale = np.zeros(0), np.array([1e-4, 1e-3]), np.array([0.6, 0.8])
    assert maximize_isotropic(nothing, 0, 10.0, floor, 0.0, scale)[0] == pytest.approx(1e-3, rel=1e-14)
    assert maximize_isotropic(nothing, 0, 0.0, floor, 4.0, scale)[0] == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("prior_count", [0.0, 4.0, 40.0])
@pytest.mark.parametrize("n_factors", [0, 1, 3, 5, 7])
@pytest.mark.parametrize("size", [1.0, 0.01])
def test_no_variance_costs_less(rng, n_factors, size, prior_count):
    """Including tight components, for which the prior's variance is larger than those of the factors."""
    d, n = 5, 8.0
    values = size * np.sort(rng.uniform(0.1, 4, d))[::-1]
    floor, scale = np.full(d, 1e-4), np.ones(d)

    def cost(v):
        fitted = np.where(np.arange(d) < n_factors, np.maximum(values, v), v)
        prior = prior_cost(np.full((1, d), v), ISOTROPIC, prior_count, scale)
        return n / 2 * (np.log(fitted) + values / fitted).sum() + prior

    variance, found, log_determinant = maximize_isotropic(values, n_factors, n, floor, prior_count, scale)
    assert found == pytest.approx(cost(variance), rel=1e-12)
    assert found <= min(map(cost, np.geomspace(1e-4, 10, 500))) + 1e-9
    factors = np.maximum(values[:n_factors] / variance, 1)
    assert log_determinant == pytest.approx(d * np.log(variance) + np.log(factors).sum(), rel=1e-12, abs=1e-12)


def test_eigenvalues_that_are_not_given_are_zero():
    values, floor, scale = np.array([3.0, 1.0, 0.0, 0.0]), np.full(4, 1e-4), np.ones(4)
    for n_factors in (0, 1, 2, 3, 4):
        some, all_of_them = (maximize_isotropic(v, n_factors, 9.0, floor, 2.0, scale) for v in (values[:2], values))
        assert some == pytest.approx(all_of_them, rel=1e-13)


def test_wrong_arguments_are_refused():
    for n_factors, floor, scale in ((0, 0, 0), (0, 2, 3), (-1, 2, 2)):
        with pytest.raises(ValueError, match="one value per column"):
            maximize_isotropic(np.ones(2), n_factors, 1.0, np.ones(floor), 1.0, np.ones(scale))
