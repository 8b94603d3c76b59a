"""Accuracy of the exponential, the logarithm and the sums in simd.h, seen through the E-step.

The kernel returns the log joint densities that it has used, so that what it makes of them can be compared to the last
digits with NumPy's extended precision (plain double precision where a platform has no other).
"""

import math

import numpy as np
import pytest
from reference import log_error, random_mixture, random_rows, relative_error

from amofa._kernels import _posterior
from amofa._parameters import Evaluator, Parameters

EPS = np.finfo(np.float64).eps
# Where the kernel's exponential turns to 0, e^-708, with a little room.
SMALLEST = math.exp(-707.9)


def line_mixture(means, weights):
    """Components of unit variance on a line, without factors."""
    parameters = Parameters(1, [0] * len(means))
    parameters.weights[:] = np.asarray(weights) / np.sum(weights)
    parameters.means[:, 0] = means
    parameters.uniquenesses[:] = 1.0
    return parameters


def posterior(parameters, x):
    """Log densities (n,), log joint densities (K, n) and responsibilities (K, n) of rows x (n, d)."""
    mixture, n = Evaluator(parameters), len(x)
    log_density, log_joint, h = np.empty(n), *np.empty((2, parameters.n_components, n))
    _posterior.posterior(
        np.ascontiguousarray(x.T), parameters.offsets, mixture.prepared, log_density, log_joint, h, None, mixture.work
    )
    return log_density, log_joint, h


def softmax(log_joint):
    """Log-sum-exp (n,) beyond the largest term, and softmax (K, n), in extended precision but for the differences."""
    terms = np.exp((log_joint - log_joint.max(axis=0)).astype(np.longdouble))
    total = terms.sum(axis=0)
    return np.log(total), terms / total


def ulps(actual, expected):
    """Largest relative error in units of the rounding of a double, where the expected value is above the cutoff."""
    seen = expected > SMALLEST
    return float(np.max(np.abs(actual[seen] - expected[seen]) / expected[seen]) / EPS)


def pair(distance):
    """Return two components of equal weight at minus and plus the distance."""
    return line_mixture([-distance, distance], [1, 1])


# ---- exponential -----------------------------------------------------------------------------------------------------


def test_exponential_over_its_whole_range(rng):
    # log joint densities of the two components differ by 20 x: from -800 to 800.
    x = np.concatenate([np.linspace(-40, 40, 20_001), rng.uniform(-2, 2, 20_000)])[:, None]
    _, log_joint, h = posterior(pair(10.0), x)
    expected = softmax(log_joint)[1]
    assert ulps(h, expected) < 3
    # Where the smaller term is lost in the sum, it is the exponential itself.
    alone = np.abs(x[:, 0]) > 2
    assert ulps(h[:, alone], expected[:, alone]) < 1
    assert h[expected <= SMALLEST].max() <= SMALLEST


def test_exponential_beside_its_cutoff():
    # Differences of -709 to -707, over the -708 below which the result is 0.
    x = np.linspace(35.35, 35.45, 1001)[:, None]
    _, log_joint, h = posterior(pair(10.0), x)
    difference = log_joint[0] - log_joint[1]
    assert (difference.min(), difference.max()) == (pytest.approx(-709), pytest.approx(-707))
    np.testing.assert_array_equal(h[0] > 0, difference > -708)
    np.testing.assert_array_equal(h[1], 1.0)


def test_exponential_of_zero_and_of_tiny_numbers(rng):
    x = np.concatenate([[0.0], rng.choice([-1, 1], 1000) * 2.0 ** rng.uniform(-60, 0, 1000)])[:, None]
    _, log_joint, h = posterior(pair(1.0), x)
    assert ulps(h, softmax(log_joint)[1]) < 3
    np.testing.assert_array_equal(h[:2, 0], 0.5)


@pytest.mark.parametrize("distance", [1e3, 1e8, 1e30, 1e140])
def test_far_rows_belong_to_the_nearer_component(distance):
    log_density, log_joint, h = posterior(line_mixture([-1e3, 0.0, 1e3], [1, 1, 1]), np.array([[distance]]))
    nearer = np.flatnonzero(log_joint[:, 0] == log_joint.max())
    assert 2 in nearer
    assert h[nearer, 0] == pytest.approx(1 / len(nearer), rel=4 * EPS)
    assert log_density[0] == pytest.approx(log_joint.max() + math.log(len(nearer)), rel=4 * EPS)


# ---- logarithm -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3, 20, 300])
def test_logarithm_of_sums_between_1_and_the_number_of_components(rng, K):
    parameters = line_mixture(3 * rng.standard_normal(K), rng.uniform(0.01, 1, K))
    log_density, log_joint, h = posterior(parameters, 5 * rng.standard_normal((2000, 1)))
    extra, expected = softmax(log_joint)
    # The sum of both is rounded once more.
    rounding = EPS * np.abs(log_density)
    assert (np.abs(log_density - log_joint.max(axis=0) - extra) <= 4 * EPS * (1 + extra) + rounding).all()
    assert ulps(h, expected) < 4 + np.sqrt(K)
    assert relative_error(h.sum(axis=0), np.ones(2000)) < (4 + np.sqrt(K)) * EPS


@pytest.mark.parametrize("K", [1, 2, 3, 4, 7, 16, 100])
def test_equal_components_are_one(rng, K):
    x = 10 * rng.standard_normal((500, 1))
    one = posterior(line_mixture([0.5], [1]), x)[0]
    log_density, _, h = posterior(line_mixture([0.5] * K, [1] * K), x)
    assert log_error(log_density, one) < 8 * EPS
    assert relative_error(h, np.full((K, 500), 1 / K)) < 4 * EPS


def test_one_component_is_exact(rng):
    parameters = random_mixture(rng, 1, 5, 2)
    log_density, log_joint, h = posterior(parameters, 10 * rng.standard_normal((1000, 5)))
    np.testing.assert_array_equal(log_density, log_joint[0])
    np.testing.assert_array_equal(h, 1.0)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e3, 1e6, 1e100])
def test_density_of_a_line_is_that_of_the_formula(rng, scale):
    x = scale * rng.standard_normal((1000, 1))
    log_density = posterior(line_mixture([0.0], [1]), x)[0]
    expected = -(x[:, 0].astype(np.longdouble) ** 2 + np.log(2 * np.longdouble(np.pi))) / 2
    assert log_error(log_density, expected) < 4 * EPS


# ---- remainders of the vector width, sums ----------------------------------------------------------------------------


def test_every_number_of_rows_gives_the_same_rows(rng):
    parameters = random_mixture(rng, 3, 2, 1)
    x = random_rows(rng, parameters, 40)
    whole = posterior(parameters, x)
    for n in range(1, 40):
        for part, all_rows in zip(posterior(parameters, x[:n]), whole, strict=True):
            assert relative_error(part, all_rows[..., :n], np.maximum(1, np.abs(all_rows[..., :n]))) < 8 * EPS


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 31, 32, 33, 255, 256, 257, 1000])
def test_sums_match_exactly_rounded_ones(rng, n):
    parameters = line_mixture([-1.0, 2.0], [1, 2])
    x, w = rng.standard_normal((n, 1)), rng.uniform(0, 2, n)
    log_density, log_joint, h = posterior(parameters, x)
    evaluator = Evaluator(parameters)
    sums = evaluator.sums()
    evaluator.accumulate(np.ascontiguousarray(x.T), w, sums)
    deviations = x.T - parameters.means
    terms = [w * log_density, (w * h * (log_density - log_joint)).ravel()]
    terms += [*(w * h), *(w * h * deviations), *(w * h * deviations**2)]
    for got, values in zip(sums, terms, strict=True):
        assert abs(got - math.fsum(values)) <= 16 * EPS * math.fsum(np.abs(values))
