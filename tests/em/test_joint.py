"""Joint M-steps of families whose components have something in common, against a slow optimiser."""

from itertools import pairwise

import numpy as np
import pytest
from reference import random_mixture
from scipy.optimize import minimize

from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.joint import GroupMoments, best_uniquenesses, joint_family
from amofa._kernels._factor_analysis import Solver
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa.criterion import Evidence, Likelihood

D, K = 5, 3
COUNTS = np.array([60.0, 40.0, 25.0])
JOINT = [Noise.SCALED, Noise.COMMON_LOADINGS]


def log_cosh(x):
    return np.log(np.cosh(x))


def slow_cost(moments, parameters, prior, noise):
    """n/2 (log |Sigma| + tr(Sigma^-1 S)) and the prior, by dense matrices."""
    cost = 0.0
    for count, S, c in zip(moments.counts, moments.covariances, parameters.components(), strict=True):
        if count > 0:
            sigma = c.loadings.T @ c.loadings + np.diag(c.uniquenesses)
            cost += 0.5 * count * (np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, S)))
    logs = np.log(parameters.uniquenesses / prior.scale)
    if noise == "common_loadings":
        return cost + prior.count * log_cosh(0.5 * logs).sum()
    shape, d = logs.mean(axis=0), logs.shape[1]
    scales = logs.mean(axis=1) - logs.mean()
    return cost + prior.count * (log_cosh(0.5 * shape).sum() + d * log_cosh(0.5 * scales).sum())


def a_prior(count=4.0, floor=1e-4):
    return Prior(np.full(D, floor), np.linspace(0.5, 1.5, D), count)


def a_family(noise, prior, pricing=None):
    pricing = Evidence(D, COUNTS.sum(), noise, prior.count) if pricing is None else pricing
    return joint_family(FactorChoice(pricing, prior, noise), Solver(D))


def some_moments(rng, counts=COUNTS):
    roots = rng.standard_normal((len(counts), D, 3 * D)) * rng.uniform(0.4, 1.6, (len(counts), 1, 1)) / np.sqrt(3 * D)
    return GroupMoments(counts, rng.standard_normal((len(counts), D)), roots @ roots.transpose(0, 2, 1))


def a_mixture(rng, noise, factors):
    parameters = random_mixture(rng, K, D, factors)
    if noise == "common_loadings":
        for k in range(1, K):
            parameters.component_loadings(k)[:] = parameters.component_loadings(0)
    else:
        parameters.uniquenesses[:] = parameters.uniquenesses[0] * np.array([[0.5], [1.0], [1.7]])
    return parameters


def slow_optimum(moments, start, prior, noise):
    """Minimise the cost over loadings and logarithms of uniquenesses by a quasi-Newton method."""
    factors = start.n_factors

    def mixture(values):
        made = start.copy()
        if noise == "common_loadings":
            loadings, logs = np.split(values, [factors[0] * D])
            for k in range(K):
                made.component_loadings(k)[:] = loadings.reshape(-1, D)
            made.uniquenesses[:] = np.maximum(np.exp(logs).reshape(K, D), prior.floor)
        else:
            loadings, shape, scales = np.split(values, [sum(factors) * D, sum(factors) * D + D])
            made.loadings[:] = loadings.reshape(-1, D)
            made.uniquenesses[:] = np.exp(shape + scales[:, None])
        return made

    if noise == "common_loadings":
        first = np.concatenate([start.component_loadings(0).ravel(), np.log(start.uniquenesses).ravel()])
    else:
        logs = np.log(start.uniquenesses)
        first = np.concatenate([start.loadings.ravel(), logs.mean(axis=0), logs.mean(axis=1) - logs.mean()])
    found = minimize(lambda values: slow_cost(moments, mixture(values), prior, noise), first, tol=1e-10)
    return float(found.fun)


@pytest.mark.parametrize("prior_count", [0.0, 4.0])
@pytest.mark.parametrize("noise", JOINT)
def test_steps_lead_down_to_the_optimum(rng, noise, prior_count):
    prior, moments = a_prior(prior_count), some_moments(rng)
    parameters = a_mixture(rng, noise, 2 if noise == "common_loadings" else [2, 0, 1])
    family = a_family(noise, prior)
    best = slow_optimum(moments, parameters, prior, noise)
    costs = [slow_cost(moments, parameters, prior, noise)]
    for _ in range(300):
        family.maximize(moments, parameters)
        costs.append(slow_cost(moments, parameters, prior, noise))
    assert all(after <= before + 1e-10 * abs(before) for before, after in pairwise(costs))
    # Without a prior, a uniqueness may go to its floor, which takes EM many steps.
    assert costs[-1] <= best + (1e-4 if prior_count else 0.02)
    assert costs[1] < costs[0] - 1.0


@pytest.mark.parametrize("noise", JOINT)
def test_what_components_have_in_common_stays_common(rng, noise):
    parameters = a_mixture(rng, noise, 2)
    moments = some_moments(rng)
    a_family(noise, a_prior()).maximize(moments, parameters)
    if noise == "common_loadings":
        assert (parameters.component_loadings(1) == parameters.component_loadings(0)).all()
        assert not np.allclose(parameters.uniquenesses[1], parameters.uniquenesses[0])
    else:
        ratios = parameters.uniquenesses / parameters.uniquenesses[0]
        np.testing.assert_allclose(ratios, np.broadcast_to(ratios[:, :1], ratios.shape), rtol=1e-12)
        assert not np.allclose(ratios, 1.0)


@pytest.mark.parametrize("noise", JOINT)
def test_the_cost_of_the_prior(rng, noise):
    prior, moments = a_prior(3.0), some_moments(rng)
    parameters = a_mixture(rng, noise, 1)
    without = slow_cost(moments, parameters, a_prior(0.0), noise)
    expected = slow_cost(moments, parameters, prior, noise) - without
    scaled = parameters.uniquenesses
    if noise == "scaled":
        # The slow formula is in units of the scale; scales of components are compared with one another.
        assert prior.cost(scaled, noise) == pytest.approx(expected, rel=1e-10)
        assert prior.cost(2.0 * scaled[:1] / 2.0, noise) == pytest.approx(prior.cost(scaled[:1], Noise.SHARED))
    else:
        assert prior.cost(scaled, noise) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("noise", JOINT)
def test_uniquenesses_keep_to_the_floor(rng, noise):
    prior, moments = a_prior(floor=0.7), some_moments(rng)
    parameters = a_mixture(rng, noise, 2)
    family = a_family(noise, prior)
    costs = []
    for _ in range(30):
        family.maximize(moments, parameters)
        costs.append(slow_cost(moments, parameters, prior, noise))
    assert parameters.uniquenesses.min() == pytest.approx(0.7, rel=1e-12)
    assert parameters.uniquenesses.min() >= 0.7 * (1 - 1e-15)
    assert all(after <= before + 1e-10 * abs(before) for before, after in pairwise(costs))


@pytest.mark.parametrize("noise", JOINT)
@pytest.mark.parametrize("factors", [0, D + 2])
def test_no_factors_and_more_than_there_are_columns(rng, noise, factors):
    moments, parameters = some_moments(rng), a_mixture(rng, noise, factors)
    family = a_family(noise, a_prior())
    for _ in range(3):
        family.maximize(moments, parameters)
    assert np.isfinite(parameters.buffer[2 * K :]).all()
    assert parameters.n_factors == (factors,) * K


@pytest.mark.parametrize("noise", JOINT)
def test_a_component_without_rows(rng, noise):
    moments = some_moments(rng)._replace(counts=np.array([60.0, 0.0, 25.0]))
    moments.covariances[1] = np.nan
    parameters = a_mixture(rng, noise, 1)
    family = a_family(noise, a_prior())
    family.maximize(moments, parameters)
    assert np.isfinite(parameters.uniquenesses).all()
    moments.covariances[0] = np.nan
    with pytest.raises(FloatingPointError, match="moments of a component are not finite"):
        family.maximize(moments, parameters)


def planted(rng, noise, d=9):
    """Moments of many rows of a mixture with two factors, the exact ones."""
    loadings = 1.5 * rng.standard_normal((3, 2, d))
    if noise == "common_loadings":
        loadings[:] = loadings[0]
        uniquenesses = rng.uniform(0.2, 1.0, (K, d))
    else:
        uniquenesses = rng.uniform(0.2, 1.0, d) * np.array([[0.2], [1.0], [3.0]])
    covariances = loadings.transpose(0, 2, 1) @ loadings + uniquenesses[:, :, None] * np.eye(d)
    return GroupMoments(1000.0 * COUNTS, np.zeros((K, d)), covariances), uniquenesses


@pytest.mark.parametrize("noise", JOINT)
def test_a_start_finds_numbers_of_factors(rng, noise):
    moments, uniquenesses = planted(rng, noise)
    prior = Prior(np.full(9, 1e-4), np.ones(9), 0.0)
    pricing = Evidence(9, moments.counts.sum(), noise, 0.0)

    def family(n_factors=None):
        return joint_family(FactorChoice(pricing, prior, noise, n_factors), Solver(9))

    found = family().start(moments)
    assert found.n_factors == (2,) * K
    np.testing.assert_allclose(found.uniquenesses, uniquenesses, rtol=0.05)
    # A choice from other numbers comes to the same, unless the noise has taken the place of a factor.
    for number in (1, 3) if noise == "common_loadings" else (3,):
        other = family(number).start(moments)
        assert other.n_factors == (number,) * K
        assert family().with_chosen_factors(moments, other).n_factors == (2,) * K
    assert family(2).with_chosen_factors(moments, found).n_factors == (2,) * K


@pytest.mark.parametrize("noise", JOINT)
def test_without_a_price_there_are_as_many_factors_as_rows_allow(rng, noise):
    found = a_family(noise, a_prior(), pricing=Likelihood()).start(some_moments(rng))
    assert max(found.n_factors) > 0


def test_a_choice_keeps_tails(rng):
    parameters = a_mixture(rng, Noise.SCALED, 1).with_tails(7.0)
    found = a_family(Noise.SCALED, a_prior()).with_chosen_factors(some_moments(rng), parameters)
    assert (found.degrees_of_freedom == 7.0).all()


def test_uniquenesses_with_a_prior_are_minimisers(rng):
    prior, variances = a_prior(4.0, floor=0.2), rng.uniform(0.0, 2.0, (K, D))
    found = best_uniquenesses(variances, COUNTS, prior)

    def cost(psi):
        return COUNTS[:, None] / 2 * (np.log(psi) + variances / psi) + 4.0 * log_cosh(np.log(psi / prior.scale) / 2)

    for factor in (1.01, 1 / 1.01):
        assert (cost(found) <= cost(np.maximum(factor * found, 0.2)) + 1e-12).all()
    assert (found >= 0.2).all()
    assert (best_uniquenesses(variances, COUNTS, a_prior(0.0, 0.2)) == np.maximum(variances, 0.2)).all()


def test_one_component_is_that_of_separate_noise(rng):
    moments = GroupMoments(COUNTS[:1], np.zeros((1, D)), some_moments(rng).covariances[:1])
    costs = []
    for noise in JOINT:
        prior = a_prior()
        parameters = Parameters.from_components([Component(1.0, np.zeros(D), np.ones((1, D)) / 2, np.ones(D))])
        family = a_family(noise, prior)
        for _ in range(200):
            family.maximize(moments, parameters)
        costs.append(slow_cost(moments, parameters, prior, "common_loadings"))
        assert prior.cost(parameters.uniquenesses, noise) == pytest.approx(prior.cost(parameters.uniquenesses))
    assert costs[0] == pytest.approx(costs[1], abs=1e-4)
