"""EM runs of the thorough search: when they end, what they keep, what they say of the result."""

from itertools import pairwise

import numpy as np
import pytest
import reference
from profile_helpers import KINDS, rough_start, tied
from reference import random_mixture, random_rows, relative_error

from amofa._data.row_chunks import Samples
from amofa._em import profile_likelihood
from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.profile_likelihood import Problem, moments_of_rows, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa.criterion import Evidence
from amofa.threads import use_threads


def a_problem(d, n, noise="component", *, prior_count=4.0, tol=1e-5, pricing=None, annihilates=True, **limits):
    prior = Prior(np.full(d, 1e-4), np.ones(d), prior_count)
    pricing = pricing or Evidence(d, n, noise, prior_count)
    choice = FactorChoice(pricing, prior, Noise(noise), **limits)
    return Problem(prior, pricing, Noise(noise), choice, tol, 100, annihilates)


@pytest.fixture
def clear(rng):
    """Rows of two factor analysers far apart, with 2 and 1 factors, and their labels."""
    truth = random_mixture(rng, 2, 6, [2, 1])
    truth.means[:] = np.array([[-4.0], [4.0]])
    truth.loadings[:] *= 2.0
    x = np.concatenate([random_rows(rng, Parameters.from_components([truth.component(k)]), 200) for k in (0, 1)])
    return x / x.std(axis=0), np.repeat([0, 1], 200)


def coarse(x, labels, noise="component"):
    parts = [x[labels == k] for k in (0, 1)]
    d = x.shape[1]
    components = [Component(len(p) / len(x), p.mean(axis=0) + 0.3, np.zeros((0, d)), p.var(axis=0)) for p in parts]
    return tied(Parameters.from_components(components), noise)


def run(x, start, problem, max_iter=200, **options):
    return profile_em(Samples(x), start, problem, Solver(x.shape[1]), max_iter, **options)


@pytest.mark.parametrize("noise", [*KINDS, Noise.SCALED])
def test_a_run_is_given_up_only_where_it_cannot_reach_the_bar(clear, noise):
    x, labels = clear
    problem, start = a_problem(6, 400.0, noise), coarse(x, labels, noise)
    free = run(x, start, problem)
    # The choice at the end is needed to reach the bar.
    assert run(x, start, problem, choose_at_end=False).cost > free.cost + 1.0
    assert run(x, start, problem, bar=free.cost + 1.0).cost == pytest.approx(free.cost, abs=0.1)
    missed = run(x, start, problem, bar=free.cost - 1000.0)
    assert not missed.converged
    assert missed.n_iter < free.n_iter
    assert missed.cost > free.cost - problem.tol * 400


@pytest.mark.parametrize("noise", [*KINDS, Noise.SCALED])
def test_em_converges_and_says_what_it_found(clear, noise):
    x, labels = clear
    problem = a_problem(6, 400.0, noise)
    found = run(x, coarse(x, labels, noise), problem)
    assert found.converged
    assert 1 < found.n_iter < 200
    mixture = found.parameters.components()
    assert found.log_likelihood == pytest.approx(reference.log_likelihood(x, None, mixture), rel=1e-12)
    h = reference.responsibilities(x, mixture)
    assert relative_error(found.moments.counts, h.sum(axis=0)) < 1e-11
    log_determinants = [np.linalg.slogdet(c.loadings.T @ c.loadings + np.diag(c.uniquenesses))[1] for c in mixture]
    shapes = [(c.weight * len(x), len(c.loadings), s) for c, s in zip(mixture, log_determinants, strict=True)]
    expected = (
        problem.prior.cost(found.parameters.uniquenesses, problem.noise)
        - found.log_likelihood
        + problem.pricing.mixture(shapes)
    )
    assert found.cost == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(np.argmax(h, axis=1), labels)
    if noise == "component":
        assert found.parameters.n_factors == (2, 1)


@pytest.mark.parametrize("prior_count", [0.0, 4.0])
@pytest.mark.parametrize("noise", [*KINDS, Noise.SCALED])
def test_the_cost_falls_while_the_numbers_of_factors_stay(clear, noise, prior_count):
    x, _ = clear
    rng = np.random.default_rng(5)
    start = rough_start(rng, x, 3, [1, 0, 2], noise)
    problem = a_problem(6, 400.0, noise, prior_count=prior_count, tol=1e-14, annihilates=False)

    def penalised(max_iter):
        found = run(x, start, problem, max_iter, choose_at_end=False)
        assert found.parameters.n_factors == (1, 0, 2)
        return problem.prior.cost(found.parameters.uniquenesses, problem.noise) - found.log_likelihood

    costs = [penalised(max_iter) for max_iter in range(12)]
    assert all(after <= before + 1e-10 * abs(before) for before, after in pairwise(costs))
    assert costs[-1] < costs[0] - 1


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("noise", KINDS)
def test_the_cost_of_t_components_falls(rng, noise, wide):
    d, n = (40, 30) if wide else (5, 300)
    x = random_rows(rng, random_mixture(rng, 2, d, 2), n)
    x = x / x.std(axis=0) / np.sqrt(rng.chisquare(3, n) / 3)[:, None]
    start = rough_start(rng, x, 2, [1, 0], noise).with_tails(np.array([6.0, np.inf]))
    problem = a_problem(d, float(n), noise, tol=1e-14, annihilates=False)
    samples = Samples(x, weights=rng.uniform(0.5, 1.5, n))

    def penalised(max_iter):
        solver = None if wide else Solver(d)
        found = profile_em(samples, start, problem, solver, max_iter, choose_at_end=False)
        return problem.prior.cost(found.parameters.uniquenesses, problem.noise) - found.log_likelihood

    costs = [penalised(max_iter) for max_iter in range(8)]
    assert all(after <= before + 1e-10 * abs(before) for before, after in pairwise(costs))
    assert costs[-1] < costs[0] - 1


def test_moments_of_t_components_weigh_tails_less(rng):
    """Peel & McLachlan (2000), eq. 11 to 13, from definitions."""
    parameters = reference.t_mixture(rng, 2, 4, [1, 0], degrees=(3.0, 8.0))
    x, w = 2 * rng.standard_normal((60, 4)), rng.uniform(0.5, 2.0, 60)
    problem = a_problem(4, w.sum())
    mixture = parameters.components()
    h = reference.weighted_responsibilities(x, w, mixture)
    for solver in (Solver(4), None):
        found = moments_of_rows(Samples(x, weights=w), parameters, problem, solver)
        for k, component in enumerate(mixture):
            weights = h[:, k] * reference.tail_weights(x, component)
            mean = weights @ x / weights.sum()
            scatter = (x - mean).T @ ((x - mean) * weights[:, None]) / h[:, k].sum()
            assert relative_error(found.counts[k], h[:, k].sum()) < 1e-12
            assert relative_error(found.tail_counts[k], weights.sum()) < 1e-12
            assert relative_error(found.means[k], mean) < 1e-12
            spread = found.spreads[k]
            matrix = spread.rows.T @ spread.rows if solver is None else spread.matrix
            assert relative_error(matrix, scatter) < 1e-12


def test_given_numbers_of_factors_are_kept(clear):
    x, labels = clear
    found = run(x, coarse(x, labels), a_problem(6, 400.0, n_factors=3), choose_at=(0,))
    assert found.parameters.n_factors == (3, 3)
    found = run(x, coarse(x, labels), a_problem(6, 400.0, max_factors=1), choose_at=(0,))
    assert found.parameters.n_factors == (1, 1)


@pytest.mark.parametrize("noise", KINDS)
def test_a_component_without_rows_is_removed(clear, noise):
    x, labels = clear
    components = coarse(x, labels, noise).components()
    far = components[0]._replace(mean=np.full(6, 1e4), weight=0.01)
    start = Parameters.from_components([far, *components])
    found = run(x, start, a_problem(6, 400.0, noise))
    assert found.converged
    assert found.n_components == 2
    np.testing.assert_array_equal(Samples(x).labels(found.parameters), labels)
    kept = run(x, start, a_problem(6, 400.0, noise, annihilates=False))
    assert kept.n_components == 3


@pytest.mark.parametrize("prior_count", [0.0, 4.0])
@pytest.mark.parametrize("noise", KINDS)
def test_without_a_solver_it_is_the_same(rng, noise, prior_count):
    """Second moments from the rows themselves, for tables with fewer rows than columns."""
    x = random_rows(rng, random_mixture(rng, 2, 40, 2, spread=3.0), 30)
    x /= x.std(axis=0)
    start, weights = rough_start(rng, x, 2, [1, 0], noise), rng.uniform(0.5, 1.5, 30)
    samples = Samples(x, weights=weights)
    problem = a_problem(40, samples.total_weight, noise, prior_count=prior_count, tol=1e-9, annihilates=False)
    a, b = (profile_em(samples, start, problem, solver, 500, choose_at=(2,)) for solver in (Solver(40), None))
    assert a.converged
    assert b.converged
    assert a.parameters.n_factors == b.parameters.n_factors
    assert a.cost == pytest.approx(b.cost, rel=1e-5)
    assert a.log_likelihood == pytest.approx(b.log_likelihood, rel=1e-5)
    np.testing.assert_allclose(b.moments.counts, a.moments.counts, rtol=1e-4)
    np.testing.assert_allclose(b.moments.means, a.moments.means, atol=1e-4)


def test_the_limit_of_iterations_is_kept(clear):
    x, labels = clear
    found = run(x, coarse(x, labels), a_problem(6, 400.0, tol=1e-12), 2)
    assert not found.converged
    assert found.n_iter == 2


def test_weights_of_two_are_rows_twice(clear):
    x, labels = clear
    start, problem = coarse(x, labels), a_problem(6, 800.0)
    twice = run(np.repeat(x, 2, axis=0), start, problem)
    weighted = profile_em(Samples(x, weights=np.full(400, 2.0)), start, problem, Solver(6), 200)
    assert weighted.cost == pytest.approx(twice.cost, rel=1e-9)
    assert weighted.parameters.n_factors == twice.parameters.n_factors


@pytest.mark.parametrize("p", [0, 1, 2, 3])
def test_few_factors_among_many_columns_are_those_of_the_solver(rng, p):
    """Of few factors only the leading eigenvectors are computed, each time from those before; of none nothing."""
    d = 24
    rows = rng.normal(size=(300, 4)) @ rng.normal(size=(4, d)) + rng.normal(size=(300, d))
    parameters = Parameters(d, [p])
    parameters.weights[:], parameters.means[:], parameters.uniquenesses[:] = 1.0, 0.0, 1.0
    parameters.loadings[:] = 0.1 * rng.normal(size=(p, d))
    floor = np.full(d, 1e-4)
    iteration = ProfileLikelihoodIteration(parameters.buffer, parameters.offsets, floor, 4.0, np.ones(d), 0)
    Samples(rows).expect(iteration)
    iteration.finish()
    noise, loadings, spectrum = np.ones(d), np.zeros((p, d)), np.zeros((1, d))
    counts, offsets = np.array([300.0]), np.array([0, p])
    solver = Solver(d)
    cost = solver.solve(
        iteration.covariances, counts, offsets, floor, 4.0, np.ones(d), noise, loadings, spectrum, 40, 0.0
    )
    for _ in range(40):
        iteration.maximize()
    # Near the minimum, an error of e in the uniquenesses costs e^2.
    np.testing.assert_allclose(parameters.uniquenesses[0], noise, rtol=1e-5)
    np.testing.assert_allclose(parameters.loadings.T @ parameters.loadings, loadings.T @ loadings, atol=1e-4)
    given = iteration.prior_cost() - Samples(rows).log_likelihood(parameters)
    assert given - 300 * d / 2 * np.log(2 * np.pi) == pytest.approx(cost, abs=1e-10 * 300)


# ---- many components -------------------------------------------------------------------------------------------------


def many_groups(rng, weighted=False):
    """Rows of 25 groups on a grid that overlap, and a start."""
    K, n = 25, 4000
    means = 4.0 * np.stack(np.meshgrid(*2 * [np.arange(5.0)]), axis=-1).reshape(K, 2)
    rows = means[rng.integers(0, K, n)] + rng.normal(size=(n, 2))
    start = Parameters(2, [0] * K)
    start.weights[:], start.uniquenesses[:] = 1 / K, 2.0
    start.means[:] = means + rng.normal(size=(K, 2))
    return Samples(rows, weights=rng.uniform(0.5, 1.5, n) if weighted else None), start


@pytest.mark.parametrize("weighted", [False, True])
def test_iterations_over_near_pairs_lead_to_the_same_end_in_fewer_passes(rng, monkeypatch, weighted):
    samples, start = many_groups(rng, weighted)
    problem = a_problem(2, 4000, tol=1e-8)
    told = []
    run = profile_em(samples, start, problem, Solver(2), 400, choose_at_end=False, tell=lambda *args: told.append(args))
    monkeypatch.setattr(profile_likelihood, "_MANY_COMPONENTS", 26)
    plain = profile_em(samples, start, problem, Solver(2), 400, choose_at_end=False)
    assert run.converged
    assert plain.converged
    assert run.n_iter < plain.n_iter / 3
    assert run.cost == pytest.approx(plain.cost, abs=10 * problem.tol * samples.total_weight)
    # The log-likelihood that is told is exact, and never falls.
    assert run.log_likelihood == pytest.approx(samples.log_likelihood(run.parameters), rel=1e-12)
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(t[2] for t in told))


def test_threads_do_not_change_iterations_over_near_pairs(rng):
    samples, start = many_groups(rng)
    runs = []
    for n_threads in (1, 3):
        with use_threads(n_threads):
            runs.append(profile_em(samples, start, a_problem(2, 4000), Solver(2), 20))
    np.testing.assert_array_equal(runs[0].parameters.buffer, runs[1].parameters.buffer)


def test_rows_that_are_near_many_components_are_all_looked_at(rng):
    samples, start = many_groups(rng)
    start.uniquenesses[:] = 400.0
    iterate = profile_likelihood.make_iterate(samples, start, a_problem(2, 4000), Solver(2))
    iterate.expect()
    assert iterate._pairs() is None
