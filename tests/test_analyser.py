"""Exact maximisation of factor analysers from covariance matrices, against dense costs and general optimisers."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from reference import relative_error
from scipy import optimize

from amofa._analyser import Solver
from amofa._exact import best_isotropic_variance
from amofa.analyser import Covariance, FactorChoice, Prior
from amofa.criterion import CRITERIA, Counted, Evidence

TOLERANCE = 1e-12
# Columns, and factors of each matrix: one matrix, and three that share their uniquenesses.
SHAPES = [
    (1, [0]),
    (1, [1]),
    (2, [0]),
    (2, [1]),
    (2, [2]),
    (3, [1]),
    (3, [0, 1, 3]),
    (10, [0]),
    (10, [4]),
    (10, [10]),
    (10, [2, 0, 5]),
    (30, [7]),
    (30, [3, 1, 8]),
    (1, [0, 1, 0]),
]
PRIORS = [0.0, 4.0]


def model_covariance(rng, d, p):
    loadings = rng.standard_normal((p, d))
    return loadings.T @ loadings + np.diag(rng.uniform(0.3, 1.5, d))


def sample_covariance(rng, covariance, n):
    """Of n rows drawn from N(0, covariance), about their mean."""
    x = rng.standard_normal((n, len(covariance))) @ np.linalg.cholesky(covariance).T
    return np.cov(x.T, bias=True).reshape(covariance.shape)


def problem(rng, d, factors, *, n=40, prior_count=0.0, floor=1e-4):
    """Arguments of `solve` as a dict: sample covariances, and starts that are not the solution."""
    K = len(factors)
    return {
        "covariances": np.stack([sample_covariance(rng, model_covariance(rng, d, 1 + d // 4), n + d) for _ in factors]),
        "counts": rng.uniform(0.5, 2, K) * n,
        "offsets": np.concatenate([[0], np.cumsum(factors)]).astype(np.intp),
        "floor": np.full(d, floor),
        "prior_count": prior_count,
        "prior_scale": rng.uniform(0.5, 2, d),
        "uniquenesses": rng.uniform(0.2, 2, d),
        "loadings": np.full((sum(factors), d), np.nan),
        "spectra": np.full((K, d), np.nan),
        "max_steps": 500,
        "tol": 0.0,
    }


def solved(arguments, **changes):
    """The cost, with the arguments as they are after the call; those given are left alone."""
    copied = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    copied |= changes
    solver = Solver(copied["covariances"].shape[1], len(copied["counts"]), len(copied["loadings"]))
    return solver.solve(**copied), copied


def prior_cost(a, psi):
    return a["prior_count"] * np.log(np.cosh(np.log(psi / a["prior_scale"]) / 2)).sum()


def dense_cost(a):
    """n/2 (log |Sigma| + tr Sigma^-1 S), summed, and the prior's cost."""
    cost = prior_cost(a, a["uniquenesses"])
    for k, (n, s) in enumerate(zip(a["counts"], a["covariances"], strict=True)):
        loadings = a["loadings"][a["offsets"][k] : a["offsets"][k + 1]]
        sigma = loadings.T @ loadings + np.diag(a["uniquenesses"])
        cost += n / 2 * (np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, s)))
    return cost


def profile_cost(a, log_psi):
    """The same at the best loadings for these uniquenesses."""
    psi = np.exp(log_psi)
    cost = prior_cost(a, psi)
    for k, (n, s) in enumerate(zip(a["counts"], a["covariances"], strict=True)):
        p = a["offsets"][k + 1] - a["offsets"][k]
        whitened = s / np.sqrt(np.outer(psi, psi))
        values = np.linalg.eigvalsh(whitened)[::-1]
        fitted = np.where(np.arange(len(psi)) < p, np.maximum(values, 1.0), 1.0)
        cost += n / 2 * (log_psi.sum() + np.log(fitted).sum() + (values / fitted).sum())
    return cost


# ---- Solver ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_steps", [0, 2, 500])
@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize(("d", "factors"), SHAPES)
def test_cost_is_the_dense_one(rng, d, factors, prior_count, max_steps):
    a = problem(rng, d, factors, prior_count=prior_count)
    cost, after = solved(a, max_steps=max_steps)
    size = max(1.0, a["counts"].sum() * d)
    assert cost == pytest.approx(dense_cost(after), rel=TOLERANCE, abs=TOLERANCE * size)
    assert cost == pytest.approx(profile_cost(a, np.log(after["uniquenesses"])), rel=TOLERANCE, abs=TOLERANCE * size)
    if max_steps == 0:
        assert relative_error(after["uniquenesses"], a["uniquenesses"]) < 1e-14


def test_a_step_that_is_cut_to_the_longest_still_leads_down():
    covariance = np.array([[1.1937, 0.4137, 0.3127], [0.4137, 1.0774, -0.2252], [0.3127, -0.2252, 1.7378]])
    psi, loadings, spectra = np.full(3, 1.5), np.zeros((1, 3)), np.zeros((1, 3))
    given = (
        covariance[None],
        np.array([60.0]),
        np.array([0, 1]),
        np.full(3, 1e-4),
        0.0,
        np.ones(3),
        psi,
        loadings,
        spectra,
    )
    without = 30 * (np.log(np.diag(covariance)).sum() + 3)
    assert Solver(3).solve(*given, 100, 1e-9) < without - 2


@pytest.mark.parametrize(("d", "p"), [(24, 0), (24, 3), (8, 1), (24, 12)])
def test_factors_alone_are_found_as_well(rng, d, p):
    covariance, counts, offsets = (
        sample_covariance(rng, model_covariance(rng, d, 3), 300)[None],
        np.array([300.0]),
        [0, p],
    )
    results = []
    for alone in (False, True):
        psi, loadings, spectra = np.ones(d), np.zeros((p, d)), np.full((1, d), np.nan)
        given = covariance, counts, np.array(offsets), np.full(d, 1e-4), 4.0, np.ones(d), psi, loadings, spectra
        cost = Solver(d).solve(*given, 30, 1e-12, factors_alone=alone)
        results.append((cost, psi, loadings.T @ loadings, spectra[0, :p]))
        assert np.isfinite(spectra).all()
    assert results[1][0] == pytest.approx(results[0][0], rel=1e-11)
    # Where a minimum lies is known to the square root of how well its depth is.
    for whole, alone in zip(*results, strict=True):
        np.testing.assert_allclose(alone, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("d", "factors"), SHAPES)
def test_spectra_are_eigenvalues_of_the_whitened_covariances(rng, d, factors):
    _, after = solved(problem(rng, d, factors))
    scale = np.sqrt(after["uniquenesses"])
    for s, spectrum in zip(after["covariances"], after["spectra"], strict=True):
        expected = np.linalg.eigvalsh(s / np.outer(scale, scale))[::-1]
        np.testing.assert_allclose(spectrum, expected, atol=1e-11 * expected[0])


@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize(("d", "factors"), SHAPES)
def test_more_steps_never_raise_the_cost(rng, d, factors, prior_count):
    a = problem(rng, d, factors, prior_count=prior_count)
    costs = [solved(a, max_steps=steps)[0] for steps in range(15)]
    assert all(after <= before for before, after in pairwise(costs))
    assert costs[-1] < costs[0] - 1e-3 or d <= sum(factors)


@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize(("d", "factors"), SHAPES)
def test_the_gradient_vanishes_at_the_end(rng, d, factors, prior_count):
    a = problem(rng, d, factors, prior_count=prior_count)
    log_psi = np.log(solved(a)[1]["uniquenesses"])
    gradient = central_differences(lambda x: profile_cost(a, x), log_psi)
    free = log_psi > np.log(a["floor"]) + 1e-9
    size = a["counts"].sum() + prior_count
    assert np.abs(gradient[free]).max(initial=0.0) < 1e-5 * size
    assert (gradient[~free] > -1e-5 * size).all()
    # The gradient is one of the things that can be wrong: elsewhere it is large.
    if sum(factors) < d:
        start = central_differences(lambda x: profile_cost(a, x), np.log(a["uniquenesses"]))
        assert np.abs(start).max() > 1e-3 * size


def central_differences(function, x, step=1e-5):
    return np.array([(function(x + e) - function(x - e)) / (2 * step) for e in step * np.eye(len(x))])


@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize(("d", "factors"), [(2, [1]), (3, [1]), (6, [2]), (6, [1, 0, 3]), (10, [3]), (10, [2, 0, 5])])
def test_not_worse_than_a_general_optimiser(rng, d, factors, prior_count):
    # Many rows, since few have several maxima.
    a = problem(rng, d, factors, n=1000, prior_count=prior_count)
    bounds = [(math.log(f), None) for f in a["floor"]]
    other = optimize.minimize(
        lambda x: profile_cost(a, x),
        np.log(a["uniquenesses"]),
        jac=lambda x: central_differences(lambda y: profile_cost(a, y), x),
        method="L-BFGS-B",
        bounds=bounds,
    )
    # The other one's tolerance.
    assert solved(a)[0] < other.fun + 1e-7 * abs(other.fun)


def test_the_floor_is_kept_in_a_heywood_case():
    # The only one-factor solution has loadings (.9 * .9 / .5)^1/2 > 1: a negative uniqueness.
    s = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.5], [0.9, 0.5, 1.0]])
    a = problem(np.random.default_rng(0), 3, [1])
    a |= {"covariances": s[None], "counts": np.array([100.0]), "floor": np.array([0.01, 0.02, 0.03])}
    cost, after = solved(a)
    assert after["uniquenesses"][0] == pytest.approx(0.01, rel=1e-13)
    assert (after["uniquenesses"][1:] > 0.1).all()
    assert cost == pytest.approx(dense_cost(after), rel=1e-12)
    gradient = central_differences(lambda x: profile_cost(a, x), np.log(after["uniquenesses"]))
    assert gradient[0] > 1e-3
    assert np.abs(gradient[1:]).max() < 1e-4


def test_a_start_below_the_floor_is_raised_to_it(rng):
    a = problem(rng, 3, [1], floor=0.5)
    after = solved(a, uniquenesses=np.full(3, 1e-3), max_steps=0)[1]
    np.testing.assert_array_equal(after["uniquenesses"], 0.5)


@pytest.mark.parametrize(("d", "p"), [(3, 0), (6, 1), (10, 3), (30, 5)])
def test_an_exact_covariance_gives_its_uniquenesses_back(rng, d, p):
    loadings, psi = rng.standard_normal((p, d)), rng.uniform(0.3, 1.5, d)
    a = problem(rng, d, [p])
    a["covariances"] = (loadings.T @ loadings + np.diag(psi))[None]
    _, after = solved(a)
    assert relative_error(after["uniquenesses"], psi) < 1e-5
    if p:
        assert relative_error(after["loadings"].T @ after["loadings"], loadings.T @ loadings) < 1e-5


def test_shared_uniquenesses_come_from_all_matrices(rng):
    # Without factors they are the variances, averaged by counts.
    a = problem(rng, 5, [0, 0, 0])
    _, after = solved(a)
    expected = np.average(np.diagonal(a["covariances"], axis1=1, axis2=2), axis=0, weights=a["counts"])
    assert relative_error(after["uniquenesses"], expected) < 1e-6


def test_a_strong_prior_gives_its_scale(rng):
    a = problem(rng, 4, [1], prior_count=1e9)
    assert relative_error(solved(a)[1]["uniquenesses"], a["prior_scale"]) < 1e-6


def test_factors_that_explain_nothing_have_no_loadings(rng):
    a = problem(rng, 3, [2])
    _, after = solved(a | {"covariances": np.eye(3)[None]}, uniquenesses=np.ones(3))
    np.testing.assert_allclose(after["loadings"], 0, atol=1e-6)


def test_a_solver_has_room_for_smaller_problems(rng):
    a, b = problem(rng, 5, [3, 1]), problem(rng, 5, [2])
    solver = Solver(5, 3, 10)
    for arguments in (a, b, a):
        own = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        cost = solver.solve(**own)
        assert cost == solved(arguments)[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"covariances": np.ones((2, 3, 4))},
        {"covariances": np.ones((2, 4, 4))},
        {"covariances": np.ones((1, 3, 3))},
        {"counts": np.ones(1)},
        {"offsets": np.array([0, 1], np.intp)},
        {"floor": np.ones(2)},
        {"prior_scale": np.ones(4)},
        {"uniquenesses": np.ones(2)},
        {"loadings": np.ones((2, 3))},
        {"loadings": np.ones((3, 2))},
        {"spectra": np.ones((1, 3))},
        {"spectra": np.ones((2, 2))},
    ],
)
def test_wrong_shapes_are_refused(rng, changes):
    with pytest.raises(ValueError, match="shapes do not agree"):
        Solver(3, 2, 6).solve(**problem(rng, 3, [1, 2]) | changes)


@pytest.mark.parametrize("room", [(1, 6), (2, 2)])
def test_too_much_for_the_solver_is_refused(rng, room):
    with pytest.raises(ValueError, match="more matrices or factors than the solver has room for"):
        Solver(3, *room).solve(**problem(rng, 3, [1, 2]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("d", [1, 2, 3, 10])
@pytest.mark.parametrize("p", [0, 1])
def test_a_covariance_that_is_not_finite_is_refused(rng, d, p, value):
    # Without factors, covariances do not count.
    for where in {(0, 0), (0, d - 1) if p else (0, 0), (d - 1, d - 1)}:
        a = problem(rng, d, [p])
        a["covariances"][0][where] = a["covariances"][0][where[::-1]] = value
        with pytest.raises(FloatingPointError, match="not finite"):
            solved(a)


# ---- Prior -----------------------------------------------------------------------------------------------------------


def test_prior_cost(rng):
    prior = Prior(np.full(3, 1e-4), np.array([0.5, 1.0, 4.0]), 4.0)
    assert prior.cost(prior.scale) == pytest.approx(0, abs=1e-15)
    psi = rng.uniform(0.1, 3, (2, 3))
    expected = 4 * np.log(np.cosh(np.log(psi / prior.scale) / 2)).sum()
    assert prior.cost(psi) == pytest.approx(expected, rel=1e-13)
    assert prior.cost(psi) > 0
    assert prior.cost(prior.scale**2 / psi) == pytest.approx(prior.cost(psi), rel=1e-13)
    units = np.array([1e-8, 3.0, 1e6])
    assert Prior(prior.floor, prior.scale * units, 4.0).cost(psi * units) == pytest.approx(prior.cost(psi), rel=1e-13)
    assert Prior(prior.floor, prior.scale, 0.0).cost(psi) == 0


def test_prior_cost_of_far_values_is_finite():
    prior = Prior(np.full(1, 1e-300), np.ones(1), 2.0)
    assert prior.cost(np.array([1e-300])) == pytest.approx(2 * (150 * math.log(10) - math.log(2)), rel=1e-13)


def test_isotropic_prior_cost():
    prior = Prior(np.full(2, 1e-4), np.array([0.5, 1.5]), 3.0)
    assert prior.isotropic_cost(1.0) == pytest.approx(0, abs=1e-15)
    assert prior.isotropic_cost(0.2) == pytest.approx(3 * math.log(math.cosh(math.log(0.2) / 2)), rel=1e-13)


# ---- one variance ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [1e-6, 0.3])
@pytest.mark.parametrize("prior_count", [0.0, 4.0, 100.0])
@pytest.mark.parametrize(("count", "mean"), [(1, 1e-4), (5, 0.02), (50, 1.0), (1000, 30.0), (0.1, 0.5)])
def test_best_isotropic_variance_is_the_minimum(count, mean, prior_count, floor):
    scale = 0.7

    def cost(x):
        return count / 2 * (x + mean * math.exp(-x)) + prior_count * math.log(math.cosh((x - math.log(scale)) / 2))

    found = best_isotropic_variance(count, count * mean, prior_count, scale, floor)
    expected = optimize.minimize_scalar(
        cost, bounds=(math.log(floor), math.log(1e3)), method="bounded", options={"xatol": 1e-9}
    )
    assert found >= floor
    assert found == pytest.approx(max(math.exp(expected.x), floor), rel=1e-5)
    assert cost(math.log(found)) <= expected.fun + 1e-12 * max(1.0, abs(expected.fun))


def test_best_isotropic_variance_of_nothing():
    assert best_isotropic_variance(10, 0.0, 0.0, 1.0, 1e-3) == pytest.approx(1e-3, rel=1e-14)
    assert best_isotropic_variance(0, 0.0, 4.0, 0.7, 1e-3) == pytest.approx(0.7, rel=1e-12)


# ---- FactorChoice ----------------------------------------------------------------------------------------------------


def priced(d, n, noise, prior_count=4.0, **limits):
    prior = Prior(np.full(d, 1e-4), np.ones(d), prior_count)
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
    if noise == "component":
        expected += choice.prior.cost(best.uniquenesses)
    if noise == "isotropic":
        expected += choice.prior.isotropic_cost(best.uniquenesses[0])
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
                lambda x, a=arguments, c=choice: profile_cost(a, x) + c.prior.cost(np.exp(x)),
                np.log(best.uniquenesses),
                bounds=[(math.log(1e-4), None)] * d,
            ).fun
            slack = 0.05
        else:
            grid = np.linspace(math.log(1e-4), math.log(10), 2001)
            other = min(profile_cost(arguments, np.full(d, x)) + choice.prior.isotropic_cost(math.exp(x)) for x in grid)
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
    choice = FactorChoice(Counted(CRITERIA[criterion], d, n, "component"), prior, "component")
    assert choice.best(n, Covariance(covariance, Solver(d)), psi, 0).n_factors == p


# ---- Covariance ------------------------------------------------------------------------------------------------------


def test_covariance_spread(rng):
    x, y = rng.standard_normal((50, 4)) * [1, 2, 3, 4], rng.standard_normal((30, 4)) + 3
    solver = Solver(4)
    a, b = (Covariance(np.cov(rows.T, bias=True), solver) for rows in (x, y))
    both = a.pooled(50 / 80, b, x.mean(axis=0) - y.mean(axis=0))
    np.testing.assert_allclose(both.matrix, np.cov(np.concatenate([x, y]).T, bias=True), rtol=1e-12)
    np.testing.assert_allclose(a.variances, x.var(axis=0), rtol=1e-12)
    scale = rng.uniform(0.5, 2, 4)
    np.testing.assert_allclose(a.scaled(scale).matrix, np.cov((x * scale).T, bias=True), rtol=1e-12)
    values, vectors = a.axes()
    np.testing.assert_allclose((vectors.T * values) @ vectors, a.matrix, atol=1e-12)
    assert (np.diff(values) <= 0).all()
    directions = rng.standard_normal((2, 4))
    assert a.explained(directions) == pytest.approx((x @ directions.T).var(axis=0).sum(), rel=1e-12)
    assert a.rank_limit == 4


# ---- Solver: inputs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize("factors", [[0], [20], [39], [3, 0, 12]])
def test_cost_of_many_columns(rng, factors, prior_count):
    a = problem(rng, 40, factors, prior_count=prior_count)
    cost, after = solved(a, max_steps=20)
    # At the floor traces of the size of 1e7 nats cancel.
    cancelled = a["counts"] @ after["spectra"].sum(axis=1)
    assert cost == pytest.approx(dense_cost(after), rel=TOLERANCE, abs=1e-14 * cancelled)


def test_a_saturated_analyser_of_two_columns_is_the_covariance(rng):
    a = problem(rng, 2, [1])
    _, after = solved(a)
    sigma = after["loadings"].T @ after["loadings"] + np.diag(after["uniquenesses"])
    assert relative_error(sigma, a["covariances"][0]) < 1e-6


def test_inputs_stay_as_they_are(rng):
    a = problem(rng, 5, [2, 1], prior_count=4.0)
    _, after = solved(a)
    for name in ("covariances", "counts", "offsets", "floor", "prior_scale"):
        np.testing.assert_array_equal(after[name], a[name])


@pytest.mark.parametrize("count", [0.0, -1.0, np.nan])
def test_counts_must_be_positive(rng, count):
    with pytest.raises(ValueError, match="counts must be positive"):
        solved(problem(rng, 3, [1, 2]), counts=np.array([5.0, count]))


@pytest.mark.parametrize("offsets", [[1, 1, 3], [0, 4, 3], [0, -1, 3]])
def test_offsets_must_rise_from_zero(rng, offsets):
    with pytest.raises(ValueError, match="offsets must rise from 0"):
        solved(problem(rng, 3, [1, 2]), offsets=np.array(offsets, dtype=np.intp))


def test_a_solver_needs_columns_and_matrices():
    for shape in ((0,), (-1,), (3, 0)):
        with pytest.raises(ValueError, match="at least one column and one matrix"):
            Solver(*shape)


# ---- Solver: panels --------------------------------------------------------------------------------------------------


# Columns, rows of each panel, factors of each panel. More columns than are whitened at a time; more rows than columns.
PANELS = [
    (1, [3], [1]),
    (2, [1], [1]),
    (5, [9], [2]),
    (30, [12], [0]),
    (30, [12], [3]),
    (30, [12, 1, 7], [2, 1, 0]),
    (30, [12, 0, 40], [2, 1, 4]),
    (30, [4], [6]),
    (600, [20], [3]),
    (513, [8, 15], [2, 1]),
]


def panel_problem(rng, d, rows, factors, *, prior_count=4.0, floor=1e-3):
    """Arguments of `solve_panels`: rows with a factor structure, over the root of their number."""
    a = problem(rng, 1, factors, prior_count=prior_count)
    del a["covariances"]
    psi = rng.uniform(0.3, 1.5, d)
    panels = []
    for m in rows:
        x = rng.standard_normal((m, 2)) @ rng.standard_normal((2, d)) + np.sqrt(psi) * rng.standard_normal((m, d))
        panels.append(x / np.sqrt(max(m, 1)))
    return a | {
        "panels": np.concatenate(panels),
        "row_offsets": np.concatenate([[0], np.cumsum(rows)]).astype(np.intp),
        "floor": np.full(d, floor),
        "prior_scale": rng.uniform(0.5, 2, d),
        "uniquenesses": rng.uniform(0.2, 2, d),
        "loadings": np.full((sum(factors), d), np.nan),
        "spectra": np.full((len(rows), d), np.nan),
    }


def solved_panels(arguments, **changes):
    copied = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    copied |= changes
    most = int(np.diff(arguments["row_offsets"]).max())
    solver = Solver(arguments["panels"].shape[1], len(arguments["counts"]), len(arguments["loadings"]), most)
    return solver.solve_panels(**copied), copied


def as_matrices(a):
    """The arguments of `solve` for the same problem."""
    covariances = []
    for k in range(len(a["counts"])):
        rows = a["panels"][a["row_offsets"][k] : a["row_offsets"][k + 1]]
        covariances.append(rows.T @ rows)
    return {n: v for n, v in a.items() if n not in ("panels", "row_offsets")} | {"covariances": np.stack(covariances)}


@pytest.mark.parametrize("max_steps", [0, 3, 500])
@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize(("d", "rows", "factors"), PANELS)
def test_cost_of_panels_is_the_dense_one(rng, d, rows, factors, prior_count, max_steps):
    a = panel_problem(rng, d, rows, factors, prior_count=prior_count)
    cost, after = solved_panels(a, max_steps=max_steps)
    size = max(1.0, a["counts"].sum() * d)
    expected = dense_cost(as_matrices(after))
    assert cost == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE * size)
    matrices = as_matrices(a)
    assert cost == pytest.approx(profile_cost(matrices, np.log(after["uniquenesses"])), rel=TOLERANCE, abs=1e-12 * size)


@pytest.mark.parametrize(("d", "rows", "factors"), PANELS)
def test_panels_and_matrices_agree_at_one_point(rng, d, rows, factors):
    a = panel_problem(rng, d, rows, factors)
    cost, after = solved_panels(a, max_steps=0)
    expected, dense = solved(as_matrices(a), max_steps=0)
    assert cost == pytest.approx(expected, rel=TOLERANCE)
    for k, (m, spectrum) in enumerate(zip(rows, after["spectra"], strict=True)):
        np.testing.assert_allclose(spectrum, dense["spectra"][k], atol=1e-11 * max(1.0, dense["spectra"].max()))
        np.testing.assert_array_equal(spectrum[m:], 0)
        mine = slice(a["offsets"][k], a["offsets"][k + 1])
        got, want = after["loadings"][mine], dense["loadings"][mine]
        assert relative_error(got.T @ got, want.T @ want, max(1.0, np.abs(want).max(initial=0) ** 2)) < 1e-9


# Wide, with a single maximum: as many factors as there are.
@pytest.mark.parametrize(("prior_count", "floor"), [(0.0, 0.1), (4.0, 1e-6), (4.0, 0.3)])
@pytest.mark.parametrize(("d", "rows", "factors"), [(30, [12], [0]), (40, [25], [2]), (60, [30, 20], [2, 2])])
def test_panels_and_matrices_converge_to_the_same_cost(rng, d, rows, factors, prior_count, floor):
    a = panel_problem(rng, d, rows, factors, prior_count=prior_count, floor=floor)
    cost, after = solved_panels(a)
    expected, dense = solved(as_matrices(a))
    assert cost == pytest.approx(expected, rel=1e-8)
    assert relative_error(after["uniquenesses"], dense["uniquenesses"]) < 1e-3


@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize(("d", "rows", "factors"), PANELS)
def test_more_steps_on_panels_never_raise_the_cost(rng, d, rows, factors, prior_count):
    a = panel_problem(rng, d, rows, factors, prior_count=prior_count)
    results = [solved_panels(a, max_steps=steps) for steps in (0, 1, 2, 5, 20)]
    assert all(after[0] <= before[0] for before, after in pairwise(results))
    # A factor for the only column fits it whatever its uniqueness.
    assert results[-1][0] < results[0][0] or d == 1
    for _, after in results:
        assert (after["uniquenesses"] >= a["floor"]).all()


def test_inputs_of_panels_stay_as_they_are(rng):
    a = panel_problem(rng, 30, [12, 5], [2, 1])
    _, after = solved_panels(a)
    for name in ("panels", "row_offsets", "counts", "offsets", "floor", "prior_scale"):
        np.testing.assert_array_equal(after[name], a[name])


def test_a_solver_for_panels_has_room_for_smaller_ones(rng):
    a, b = panel_problem(rng, 300, [9, 4], [2, 1]), panel_problem(rng, 300, [6], [1])
    solver = Solver(300, 2, n_rows=9)
    for arguments in (a, b, a):
        own = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        assert solver.solve_panels(**own) == solved_panels(arguments)[0]


def test_panels_need_no_square_array():
    # A (d, d) array would be 80 GB.
    d, m = 100_000, 3
    rows = np.random.default_rng(0).standard_normal((m, d)) / np.sqrt(m)
    a = {
        "panels": rows,
        "row_offsets": np.array([0, m], np.intp),
        "counts": np.array([3.0]),
        "offsets": np.array([0, 1], np.intp),
        "floor": np.full(d, 1e-3),
        "prior_count": 4.0,
        "prior_scale": np.ones(d),
        "uniquenesses": np.ones(d),
        "loadings": np.zeros((1, d)),
        "spectra": np.zeros((1, d)),
        "max_steps": 3,
        "tol": 0.0,
    }
    before = solved_panels(a, max_steps=0)[0]
    assert solved_panels(a)[0] < before


@pytest.mark.parametrize(
    "changes",
    [
        {"panels": np.ones((9, 5))},
        {"panels": np.ones((8, 6))},
        {"row_offsets": np.array([0, 9], np.intp)},
        {"row_offsets": np.array([1, 5, 9], np.intp)},
        {"row_offsets": np.array([0, 5, 8], np.intp)},
        {"counts": np.ones(1)},
        {"offsets": np.array([0, 3], np.intp)},
        {"floor": np.ones(5)},
        {"prior_scale": np.ones(7)},
        {"uniquenesses": np.ones(5)},
        {"loadings": np.ones((2, 6))},
        {"loadings": np.ones((3, 5))},
        {"spectra": np.ones((1, 6))},
        {"spectra": np.ones((2, 5))},
    ],
)
def test_wrong_shapes_of_panels_are_refused(rng, changes):
    with pytest.raises(ValueError, match="shapes do not agree"):
        solved_panels(panel_problem(rng, 6, [5, 4], [1, 2]), **changes)


@pytest.mark.parametrize("row_offsets", [[0, 6, 9], [0, 10, 9], [0, -1, 9]])
def test_panels_of_too_many_rows_are_refused(rng, row_offsets):
    a = panel_problem(rng, 6, [5, 4], [1, 2])
    with pytest.raises(ValueError, match="no more rows than the solver was made for"):
        Solver(6, 2, 3, 5).solve_panels(**a | {"row_offsets": np.array(row_offsets, dtype=np.intp)})


def test_a_solver_takes_panels_or_matrices(rng):
    a = panel_problem(rng, 6, [5], [1])
    with pytest.raises(ValueError, match="was made for panels"):
        Solver(6, 1, 1, 5).solve(**as_matrices(a))
    with pytest.raises(ValueError, match="no more rows than the solver was made for"):
        Solver(6, 1, 1).solve_panels(**a)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("rows", [1, 4, 12])
@pytest.mark.parametrize("p", [0, 1])
def test_panels_that_are_not_finite_are_refused(rng, rows, p, value):
    a = panel_problem(rng, 30, [rows], [p])
    a["panels"][rows - 1, 7] = value
    with pytest.raises(FloatingPointError, match="not finite"):
        solved_panels(a)


# ---- the number of factors -------------------------------------------------------------------------------------------


def chosen(solver, moments, n, prices, /, **changes):
    """Cost, number of factors, uniquenesses and loadings."""
    d = moments.shape[1]
    uniquenesses, loadings = np.ones(d), np.full((len(prices) - 1, d), np.nan)
    arguments = {
        "moments": moments,
        "count": n,
        "n_factors": 0,
        "prices": prices,
        "mean_price": d * np.log(n),
        "least_mean_price": 1.0,
        "floor": np.full(d, 1e-4),
        "prior_count": 4.0,
        "prior_scale": np.ones(d),
        "uniquenesses": uniquenesses,
        "loadings": loadings,
        "max_steps": 100,
        "tol": 1e-10,
        "patience": np.inf,
        "least_saving": 1e-3,
    } | changes
    cost, number = solver.choose(**arguments)
    return cost, number, arguments["uniquenesses"], arguments["loadings"]


def slowly_chosen(covariance, n, prices, n_factors, max_steps=100, tol=1e-10):
    """The same from single solutions: add factors while that pays, then remove them."""
    d = len(covariance)

    def solve(psi, q):
        found, loadings, spectra = psi.copy(), np.zeros((q, d)), np.zeros((1, d))
        offsets = np.array([0, q])
        cost = Solver(d).solve(
            covariance[None],
            np.array([n]),
            offsets,
            np.full(d, 1e-4),
            4.0,
            np.ones(d),
            found,
            loadings,
            spectra,
            max_steps,
            tol,
        )
        log_determinant = np.linalg.slogdet(loadings.T @ loadings + np.diag(found))[1]
        cost += prices[q] + max(d * np.log(n) - log_determinant, 1.0) / 2
        return cost, found, spectra[0]

    q, most = n_factors, len(prices) - 1
    best = solve(np.ones(d), q)
    while q < most and best[2][q] > 1:
        values = np.maximum(best[2][q:most], 1.0)
        saved = np.cumsum(n / 2 * (values - 1 - np.log(values))) - (prices[q + 1 :] - prices[q])
        more = int(np.argmax(saved)) + 1 if saved.max() > 0 else 1
        trial = solve(best[1], q + more)
        if trial[0] > best[0] - 1e-3:
            break
        best, q = trial, q + more
    while q:
        fewer = q - 1
        while fewer and prices[q] <= prices[fewer]:
            fewer -= 1
        trial = solve(best[1], fewer)
        if trial[0] > best[0]:
            break
        best, q = trial, fewer
    return best[0], q, best[1]


@pytest.mark.parametrize("n_factors", [0, 3])
@pytest.mark.parametrize(
    ("d", "p", "price"),
    [(2, 1, 2.0), (6, 2, 10.0), (8, 3, 3.0), (8, 0, 10.0), (12, 4, 1e-3), (20, 0, 10.0), (20, 2, 10.0), (40, 4, 20.0)],
)
def test_the_choice_is_that_of_single_solutions(rng, d, p, price, n_factors):
    covariance = sample_covariance(rng, model_covariance(rng, d, p), 200)
    prices = price * np.minimum(np.arange(d), max(p + 2, d - 2))
    start = min(n_factors, d - 1)
    cost, number, psi, loadings = chosen(Solver(d), covariance, 200.0, prices, n_factors=start)
    expected = slowly_chosen(covariance, 200.0, prices, start)
    assert number == expected[1]
    # Where nearly all factors are taken the cost is flat: the rounding of LAPACK decides where the steps end.
    assert cost == pytest.approx(expected[0], rel=1e-9)
    assert relative_error(psi, expected[2]) < 1e-6
    assert np.isfinite(loadings[:number]).all()
    assert np.isnan(loadings[number:]).all()
    # The cost is that of what is given back.
    sigma = loadings[:number].T @ loadings[:number] + np.diag(psi)
    log_determinant = np.linalg.slogdet(sigma)[1]
    dense = 100.0 * (log_determinant + np.trace(np.linalg.solve(sigma, covariance)))
    dense += 4.0 * np.log(np.cosh(np.log(psi) / 2)).sum() + prices[number]
    assert cost == pytest.approx(dense + max(d * np.log(200.0) - log_determinant, 1.0) / 2, rel=1e-11)


def test_patience_saves_steps_not_factors(rng):
    numbers = []
    for d, p in ((5, 1), (6, 2), (10, 3), (16, 5)):
        covariance = sample_covariance(rng, model_covariance(rng, d, p), 1000)
        prices = 0.5 * np.log(1000.0) * (d * np.arange(d) - np.arange(d) * (np.arange(d) - 1) / 2)
        patient = chosen(Solver(d), covariance, 1000.0, prices)
        hasty = chosen(Solver(d), covariance, 1000.0, prices, patience=2.0)
        assert hasty[1] == patient[1]
        assert hasty[0] == pytest.approx(patient[0], abs=1e-6)
        numbers.append(hasty[1])
    assert max(numbers) > 1


def test_the_choice_from_rows_is_that_from_their_moments(rng):
    rows = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(9, 20))
    rows = np.ascontiguousarray((rows - rows.mean(axis=0)) / 3.0)
    prices = 2.0 * np.arange(5)
    wide = chosen(Solver(20, 1, 4, 9), rows, 9.0, prices, max_steps=500)
    dense = chosen(Solver(20), rows.T @ rows, 9.0, prices, max_steps=500)
    assert wide[1] == dense[1]
    assert wide[0] == pytest.approx(dense[0], abs=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"moments": np.eye(3)},
        {"moments": np.ones((3, 4))},
        {"prices": np.zeros(0), "loadings": np.zeros((0, 4))},
        {"loadings": np.zeros((2, 4))},
        {"n_factors": 4},
        {"n_factors": -1},
        {"count": 0.0},
        {"count": np.nan},
        {"floor": np.ones(3)},
        {"prior_scale": np.ones(5)},
        {"uniquenesses": np.ones(3)},
    ],
)
def test_wrong_arguments_of_the_choice_are_refused(changes):
    with pytest.raises(ValueError, match=r"shapes|price of each number|counts must"):
        chosen(Solver(4), np.eye(4), 10.0, np.arange(4.0), **changes)


def test_too_much_for_the_choice_is_refused():
    for solver, rows in ((Solver(4, 1, 2), 4), (Solver(4, 1, 3, 2), 3)):
        with pytest.raises(ValueError, match="than the solver has room for"):
            chosen(solver, np.ones((rows, 4)), 10.0, np.arange(4.0))


def test_a_choice_of_what_is_not_finite_is_refused():
    covariance = np.eye(4)
    covariance[0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        chosen(Solver(4), covariance, 10.0, np.arange(4.0))
