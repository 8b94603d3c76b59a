"""Exact maximisation of factor analysers from covariance matrices, against dense costs and general optimisers."""

import math
from itertools import pairwise

import numpy as np
import pytest
from reference import relative_error
from scipy import optimize
from solver_helpers import (
    PRIORS,
    SHAPES,
    TOLERANCE,
    dense_cost,
    model_covariance,
    problem,
    profile_cost,
    sample_covariance,
    solved,
)

from amofa._kernels._factor_analysis import Solver

# ---- the maximum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_steps", [0, 2, 500])
@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize(("d", "factors"), SHAPES)
def test_cost_is_the_dense_one(rng, d, factors, prior_count, max_steps):
    a = problem(rng, d, factors, prior_count=prior_count)
    cost, after = solved(a, max_steps=max_steps)
    count = a["counts"].sum()
    size = max(1.0, count * d)
    # Eigenvalues of the whitened covariances are as exact as the rounding of the largest.
    largest = max(np.max(np.diagonal(s) / after["uniquenesses"]) for s in a["covariances"])
    rounding = 4 * np.finfo(np.float64).eps * count * largest
    assert cost == pytest.approx(dense_cost(after), rel=TOLERANCE, abs=max(TOLERANCE * size, rounding))
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


# ---- inputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize("factors", [[0], [20], [39], [3, 0, 12]])
def test_cost_of_many_columns(rng, factors, prior_count):
    a = problem(rng, 40, factors, prior_count=prior_count)
    cost, after = solved(a, max_steps=20)
    # At the floor traces of the size of 1e7 nats cancel.
    cancelled = a["counts"] @ after["spectra"].sum(axis=1)
    assert cost == pytest.approx(dense_cost(after), rel=TOLERANCE, abs=1e-14 * cancelled)


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
