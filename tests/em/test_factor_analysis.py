"""The choice of the number of factors, and second moments as matrices."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import optimize
from solver_helpers import PRIORS, profile_cost, sample_covariance

from amofa._em.factor_analysis import Covariance, FactorChoice, Prior
from amofa._kernels._factor_analysis import Solver
from amofa._noise import Noise
from amofa.criterion import CRITERIA, Counted, Evidence

# ---- FactorChoice ----------------------------------------------------------------------------------------------------


def priced(d, n, noise, prior_count=4.0, **limits):
    prior, noise = Prior(np.full(d, 1e-4), np.ones(d), prior_count), Noise(noise)
    return FactorChoice(Evidence(d, n, noise, prior_count), prior, noise, **limits)


def factor_model(rng, noise, d, p):
    """Covariance of unit scale, and uniquenesses."""
    psi = np.full(d, 0.5) if noise == "isotropic" else rng.uniform(0.3, 1.0, d)
    loadings = rng.standard_normal((p, d))
    return loadings.T @ loadings + np.diag(psi), psi


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("noise", ["component", "isotropic", "shared"])
@pytest.mark.parametrize(("d", "p"), [(1, 0), (5, 0), (5, 1), (10, 3), (20, 0), (20, 6)])
def test_the_true_number_of_factors_is_found(rng, noise, d, p, sampled):
    n = 1000.0
    covariance, psi = factor_model(rng, noise, d, p)
    if sampled:
        covariance = sample_covariance(rng, covariance, int(n))
    start = psi if noise == "shared" else np.ones(d)
    for first in (0, p):
        best = priced(d, n, noise).best(n, Covariance(covariance, Solver(d)), start, first)
        assert best.n_factors == p
        assert best.loadings.shape == (p, d)
    if noise == "isotropic":
        assert len(set(best.uniquenesses)) == 1
    if noise == "shared":
        np.testing.assert_array_equal(best.uniquenesses, psi)


@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize("noise", ["component", "isotropic", "shared"])
@pytest.mark.parametrize("n", [30.0, 300.0])
def test_no_number_of_factors_nearby_is_cheaper(rng, noise, n, prior_count):
    d, p = 12, 4
    true, psi = factor_model(rng, noise, d, p)
    spread = Covariance(sample_covariance(rng, true, int(n)), Solver(d))
    best = priced(d, n, noise, prior_count).best(n, spread, psi, 0)
    assert best.n_factors > 0
    for q in (best.n_factors - 1, best.n_factors, best.n_factors + 1):
        for start in (psi, best.uniquenesses):
            given = start if noise != "shared" else psi
            fixed = priced(d, n, noise, prior_count, n_factors=q).best(n, spread, given, q)
            assert fixed.n_factors == q
            # Prices depend on the uniquenesses a little, and those are searched to a tolerance.
            assert best.cost <= fixed.cost + 0.05


@pytest.mark.parametrize("noise", ["component", "isotropic", "shared"])
def test_cost_of_the_choice(rng, noise):
    d, n = 6, 80.0
    true, psi = factor_model(rng, noise, d, 2)
    s = sample_covariance(rng, true, int(n))
    choice = priced(d, n, noise)
    best = choice.best(n, Covariance(s, Solver(d)), psi, 0)
    sigma = best.loadings.T @ best.loadings + np.diag(best.uniquenesses)
    expected = n / 2 * (np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, s)))
    expected += choice.pricing.component(n, best.n_factors, np.linalg.slogdet(sigma)[1])
    if noise != "shared":
        expected += choice.prior.cost(best.uniquenesses[None], choice.noise)
    assert best.cost == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("noise", ["component", "isotropic"])
@pytest.mark.parametrize("q", [0, 1, 3, 5])
def test_isotropic_and_given_numbers_are_at_the_minimum(rng, noise, q):
    """Including tight components of few rows, whose variance the prior pulls up."""
    d = 6
    for n, size in ((100.0, 1.0), (8.0, 0.01), (3.0, 0.01)):
        s = size * sample_covariance(rng, factor_model(rng, noise, d, 3)[0], 20)
        choice = priced(d, 100, noise, n_factors=q)
        best = choice.best(n, Covariance(s, Solver(d)), np.ones(d), q)
        sigma = best.loadings.T @ best.loadings + np.diag(best.uniquenesses)
        price = choice.pricing.component(n, q, np.linalg.slogdet(sigma)[1])
        arguments = {
            "counts": np.array([n]), "covariances": s[None], "offsets": [0, q], "prior_count": 0.0, "prior_scale": 1.0
        }  # fmt: skip
        if noise == "component":
            other = optimize.minimize(
                lambda x, a=arguments, c=choice: profile_cost(a, x) + c.prior.cost(np.exp(x)[None]),
                np.log(best.uniquenesses),
                bounds=[(math.log(1e-4), None)] * d,
            ).fun
            slack = 0.05
        else:
            grid = np.linspace(math.log(1e-4), math.log(10), 2001)
            cost = partial(choice.prior.cost, noise=choice.noise)
            other = min(profile_cost(arguments, np.full(d, x)) + cost(np.full((1, d), math.exp(x))) for x in grid)
            slack = 1e-9
        assert best.cost - price <= other + slack


@pytest.mark.parametrize("noise", ["component", "isotropic", "shared"])
def test_limits_of_the_choice(rng, noise):
    d, n = 8, 500.0
    covariance, psi = factor_model(rng, noise, d, 4)
    spread = Covariance(covariance, Solver(d))
    for q in (0, 2, d):
        assert priced(d, n, noise, n_factors=q).best(n, spread, psi, 0).n_factors == q
    free = priced(d, n, noise).best(n, spread, psi, 0).n_factors
    assert free > 2
    for most in (0, 1, 2, free, 7):
        assert priced(d, n, noise, max_factors=most).best(n, spread, psi, 0).n_factors == min(most, free)
    assert priced(d, 3, noise).best(3.0, spread, psi, 5).n_factors == 0


def test_a_start_with_too_many_factors_ends_with_the_true_number(rng):
    # Beyond 5 factors of 8 columns a covariance has no more entries: the further ones cost nothing, nor do they gain.
    covariance, psi = factor_model(rng, "component", 8, 4)
    choice = priced(8, 500.0, "component")
    costs = [choice.best(500.0, Covariance(covariance, Solver(8)), psi, q).cost for q in range(8)]
    assert max(costs) < min(costs) + 0.05


def test_most_factors():
    spread = Covariance(np.eye(6), Solver(6))
    choice = priced(6, 100, "component")
    assert [choice.most_factors(n, spread) for n in (1, 3, 5, 6.9, 7, 12, 1000)] == [0, 0, 1, 1, 2, 4, 5]
    assert priced(6, 100, "component", max_factors=3).most_factors(1000, spread) == 3
    assert priced(1, 100, "component").most_factors(1000, Covariance(np.eye(1), Solver(1))) == 0


@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_other_criteria_find_the_number_of_factors(rng, criterion):
    d, n, p = 10, 1000.0, 3
    covariance, psi = factor_model(rng, "component", d, p)
    prior = Prior(np.full(d, 1e-4), np.ones(d), 4.0)
    choice = FactorChoice(Counted(CRITERIA[criterion], d, n, "component"), prior, Noise.COMPONENT)
    assert choice.best(n, Covariance(covariance, Solver(d)), psi, 0).n_factors == p


# ---- Covariance ------------------------------------------------------------------------------------------------------


def test_covariance_spread(rng):
    x, y = rng.standard_normal((50, 4)) * [1, 2, 3, 4], rng.standard_normal((30, 4)) + 3
    solver = Solver(4)
    a, b = (Covariance(np.cov(rows.T, bias=True), solver) for rows in (x, y))
    both = a.pooled(50 / 80, b, x.mean(axis=0) - y.mean(axis=0))
    np.testing.assert_allclose(both.matrix, np.cov(np.concatenate([x, y]).T, bias=True), rtol=1e-12)
    np.testing.assert_allclose(a.variances, x.var(axis=0), rtol=1e-12)
    values, vectors = a.axes()
    np.testing.assert_allclose((vectors.T * values) @ vectors, a.matrix, atol=1e-12)
    assert (np.diff(values) <= 0).all()
    directions = rng.standard_normal((2, 4))
    assert a.explained(directions) == pytest.approx((x @ directions.T).var(axis=0).sum(), rel=1e-12)
    assert a.rank_limit == 4
