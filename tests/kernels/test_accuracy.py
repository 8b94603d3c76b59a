"""Accuracy against 60 digits: condition numbers to 1e12, offsets to 1e8, every way into the kernels.

A log density has an error relative to max(1, |log density|): one near 0 has an absolute error. A responsibility above
1e-300 has a relative error, which is the absolute error of a difference of log joint densities: where these are
themselves so large that the doubles next to them are 1e-9 apart, it is relative to them. See docs/accuracy.md.
"""

from typing import NamedTuple

import numpy as np
import pytest
import reference
from cython_calls import Functions
from extended import Gaussian, differences, doubles, log_density_and_responsibilities, log_joint, woodbury_log_density
from mpmath import log

import amofa
from amofa._kernels import _posterior
from amofa._parameters import Component, Evaluator, Parameters

# What is promised, docs/accuracy.md; and what is reached, at which the tests hold log densities.
PROMISED, REACHED = 1e-9, 2e-12
# Factor scores lose the root of the condition where loadings are alike: the data hardly tell of their differences.
SCORES = 1e-6

CONDITIONS = [1.0, 1e3, 1e6, 1e9, 1e12]
OFFSETS = [0.0, 1e8]
# d, factors, K.
SHAPES = [(2, 1, 2), (3, 5, 1), (6, 2, 3), (20, 4, 5), (12, 15, 2)]
NAN = np.nan


# ---- ill-conditioned problems ----------------------------------------------------------------------------------------


def large_loadings(rng, loadings, psi, condition):
    return loadings * np.sqrt(condition / psi.size), psi


def tiny_uniquenesses(rng, loadings, psi, condition):
    return loadings, psi / condition


def both(rng, loadings, psi, condition):
    return loadings * condition**0.25, psi / np.sqrt(condition)


def nearly_parallel(rng, loadings, psi, condition):
    return np.sqrt(condition / loadings.size) * (loadings[:1] + condition**-0.25 * loadings), psi


def equal_loadings(rng, loadings, psi, condition):
    return np.sqrt(condition / loadings.size) * np.repeat(loadings[:1], len(loadings), axis=0), psi


def uneven_uniquenesses(rng, loadings, psi, condition):
    return loadings, psi * rng.permutation(np.geomspace(1, 1 / condition, psi.size))


def graded_loadings(rng, loadings, psi, condition):
    return loadings * np.sqrt(np.geomspace(1, condition / psi.size, len(loadings)))[:, None], psi


def uneven_units(rng, loadings, psi, condition):
    unit = rng.permutation(np.geomspace(1, condition**-0.5, psi.size))
    return loadings * unit, psi * unit**2


KINDS = [
    large_loadings,
    tiny_uniquenesses,
    both,
    nearly_parallel,
    equal_loadings,
    uneven_uniquenesses,
    graded_loadings,
    uneven_units,
]


class Problem(NamedTuple):
    components: list[Component]
    near: np.ndarray  # rows up to 10 standard deviations away, and in the flattest and the steepest direction
    far: np.ndarray  # rows 1e6 standard deviations away


def ill_conditioned(rng, kind, condition, offset, d, p, K):
    """Components that overlap, of about this condition, and rows of the first of them."""
    loadings, psi = kind(rng, rng.standard_normal((p, d)), rng.uniform(0.5, 2, d), condition)
    center = offset * rng.uniform(1, 2, d)

    def deviations(n):
        return rng.standard_normal((n, p)) @ loadings + np.sqrt(psi) * rng.standard_normal((n, d))

    weights = rng.uniform(0.5, 1.5, K)
    components = [
        Component(weight, center + deviations(1)[0], loadings * rng.uniform(0.9, 1.1), psi * rng.uniform(0.5, 2, d))
        for weight in weights / weights.sum()
    ]
    variances, directions = np.linalg.eigh(loadings.T @ loadings + np.diag(psi))
    extremes = 5 * np.sqrt(np.maximum(variances[[0, -1]], psi.min()))[:, None] * directions[:, [0, -1]].T
    near = np.concatenate([deviations(2), 10 * deviations(2), extremes])
    return Problem(components, components[0].mean + near, components[0].mean + 1e6 * deviations(1))


class Expected(NamedTuple):
    """Of n rows, as nested lists of mpmath numbers."""

    log_joint: list
    log_density: list
    responsibilities: list
    scores: list


def expected_of(components, rows):
    gaussians = [Gaussian.of_component(c) for c in components]
    joint = [log_joint(gaussians, [c.weight for c in components], row) for row in rows]
    densities, responsibilities = zip(*map(log_density_and_responsibilities, joint), strict=True)
    scores = [[z for g in gaussians for z in g.factor_scores(row)] for row in rows]
    return Expected(joint, list(densities), list(responsibilities), scores)


class Found(NamedTuple):
    log_density: np.ndarray  # (n,)
    log_joint: np.ndarray  # (n, K)
    responsibilities: np.ndarray  # (n, K)
    scores: np.ndarray  # (n, P)


def empty_outputs(parameters, n):
    K, P = parameters.n_components, len(parameters.loadings)
    return [np.full(shape, NAN) for shape in ((n,), (K, n), (K, n), (P, n))]


def by_kernel(components, rows):
    parameters = Parameters.from_components(components)
    mixture, outputs = Evaluator(parameters), empty_outputs(parameters, len(rows))
    columns = np.ascontiguousarray(rows.T)
    _posterior.posterior(columns, parameters.offsets, mixture.prepared, *outputs, mixture.work)
    return Found(*(a.T for a in outputs))


def by_c_function(components, rows, row_stride, feature_stride):
    """By the C-level functions, from rows whose first value is the first of the array."""
    parameters, c = Parameters.from_components(components), Functions()
    layout = parameters.n_components, parameters.n_features, parameters.offsets
    mixture = np.empty(c.mixture_size(*layout))
    values = parameters.weights, parameters.means, parameters.loadings, parameters.uniquenesses
    assert c.prepare_mixture(*layout, *values, mixture) == 0
    n, work, outputs = len(rows), np.empty(c.rows_work_size(mixture)), empty_outputs(parameters, len(rows))
    assert c.posterior(mixture, n, rows, row_stride, feature_stride, *outputs, work) == 0
    return Found(*(a.T for a in outputs))


def model_of(components):
    c = components
    arrays = [c.weight for c in c], [c.mean for c in c], [c.loadings.T for c in c], [c.uniquenesses for c in c]
    return amofa.MixtureOfFactorAnalyzers(*arrays)


def components_of(model):
    """Of a model, with the very weights that it has."""
    arrays = model.weights, model.means, (a.T for a in model.loadings), model.uniquenesses
    return [Component(*values) for values in zip(*arrays, strict=True)]


# ---- errors ----------------------------------------------------------------------------------------------------------


def log_error(found, expected):
    """Of log densities, relative to max(1, |log density|)."""
    return (differences(found, expected) / np.maximum(1, np.abs(doubles(expected)))).max()


def score_error(found, expected):
    """Of factor scores, relative to the largest of the row, or to 1."""
    scale = np.maximum(1, np.abs(doubles(expected)).max(axis=1, keepdims=True))
    return (differences(found, expected) / scale).max()


def responsibility_errors(found, expected):
    """Relative errors (n, K), 0 for those of at most 1e-300."""
    values = doubles(expected)
    counts = values > 1e-300
    return np.where(counts, differences(found, expected) / np.where(counts, values, 1), 0)


def check(components, near, far, find=by_kernel):
    """The promise for rows near and far."""
    rows = np.concatenate([near, far])
    expected, found = expected_of(components, rows), find(components, rows)
    assert log_error(found.log_joint, expected.log_joint) < REACHED
    assert log_error(found.log_density, expected.log_density) < REACHED
    errors = responsibility_errors(found.responsibilities, expected.responsibilities)
    assert errors[: len(near)].max() < PROMISED
    largest = np.abs(doubles(expected.log_density))
    assert (errors / np.maximum(1, largest)[:, None]).max() < REACHED
    if found.scores.size:
        assert score_error(found.scores, expected.scores) < SCORES


# ---- the reference itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", CONDITIONS)
def test_sixty_digits_are_exact(rng, condition):
    problem = ill_conditioned(rng, both, condition, 1e8, 4, 2, 1)
    (c,) = problem.components
    for row in problem.near:
        exact = Gaussian.of_component(c).log_density(row)
        assert float(exact) == pytest.approx(reference.exact_log_joint(row, c), rel=1e-14)
        assert abs(woodbury_log_density(c, row) - exact) < 1e-30 * abs(exact)


# ---- rows and components of every kind -------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_densities_are_right(rng, kind, condition, offset):
    for d, p, K in SHAPES if offset == 0 else SHAPES[:3]:
        check(*ill_conditioned(rng, kind, condition, offset, d, p, K))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_many_columns_and_factors(rng, condition):
    problem = ill_conditioned(rng, KINDS[CONDITIONS.index(condition)], condition, 1e4, 60, 15, 1)
    check(problem.components, problem.near[::3], problem.far)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_factors(rng, condition):
    check(*ill_conditioned(rng, uneven_uniquenesses, condition, 1e8, 5, 0, 3))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_weights_to_1e_300(rng, condition):
    problem = ill_conditioned(rng, large_loadings, condition, 0.0, 5, 2, 3)
    weights = 1.0, 1e-150, 1e-300
    components = [c._replace(weight=w) for c, w in zip(problem.components, weights, strict=True)]
    # Rows of the lightest component, at which it counts, too.
    center = components[2].mean - components[0].mean
    check(components, np.concatenate([problem.near, problem.near + center, problem.near + 30 * center]), problem.far)


@pytest.mark.parametrize("condition", [1e3, 1e12])
def test_a_thousand_columns_at_ten_standard_deviations(rng, condition):
    problem = ill_conditioned(rng, large_loadings, condition, 0.0, 1000, 3, 1)
    c, row = problem.components[0], problem.near[2]
    components = [c._replace(weight=0.5), Component(0.5, c.mean + 1e-3 * rng.standard_normal(1000), *c[2:])]
    expected = [woodbury_log_density(c, row) + log(0.5) for c in components]
    density, responsibilities = log_density_and_responsibilities(expected)
    assert density < -30000  # its exponential is 0
    assert min(responsibilities) > 0.01
    found = by_kernel(components, row[None])
    assert log_error(found.log_joint, [expected]) < 1e-13
    assert log_error(found.log_density, [density]) < 1e-13
    assert responsibility_errors(found.responsibilities, [responsibilities]).max() < PROMISED


# ---- ways in ---------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda rows: np.repeat(np.repeat(rows, 2, axis=0), 3, axis=1)[::2, ::3],
    "big-endian": lambda rows: rows.astype(rows.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_methods_of_a_model(rng, condition, dtype, layout):
    problem = ill_conditioned(rng, both, condition, 0.0 if dtype == np.float32 else 1e8, 6, 2, 3)
    model = model_of(problem.components)
    # What is a float32 is a double, too.
    rows = LAYOUTS[layout](problem.near.astype(dtype))
    expected = expected_of(components_of(model), rows)
    assert log_error(model.score_samples(rows), expected.log_density) < REACHED
    assert responsibility_errors(model.predict_proba(rows), expected.responsibilities).max() < PROMISED
    assert score_error(np.concatenate(model.factor_scores(rows), axis=1), expected.scores) < SCORES
    weights = rng.uniform(0.5, 2, len(rows))
    mean = sum(v * w for v, w in zip(expected.log_density, weights, strict=True)) / sum(map(float, weights))
    assert log_error([model.score(rows, sample_weight=weights)], [mean]) < REACHED


@pytest.mark.parametrize("condition", CONDITIONS)
def test_functions_for_compiled_code(rng, condition):
    problem = ill_conditioned(rng, both, condition, 1e8, 6, 2, 3)
    d = problem.near.shape[1]

    def rows_first(components, rows):
        return by_c_function(components, np.ascontiguousarray(rows), d, 1)

    def features_first(components, rows):
        return by_c_function(components, np.asfortranarray(rows), 1, len(rows))

    for find in (rows_first, features_first):
        check(*problem, find)
        for ours, theirs in zip(
            by_kernel(problem.components, problem.near), find(problem.components, problem.near), strict=True
        ):
            np.testing.assert_array_equal(theirs, ours)


# ---- columns given others --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [2, 3, 6])
@pytest.mark.parametrize("condition", [1.0, 1e6, 1e12])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_missing_cells(rng, kind, condition, known):
    d, p = 8, 3
    problem = ill_conditioned(rng, kind, condition, 0.0, d, p, 2)
    model = model_of(problem.components)
    row = problem.near[0].copy()
    row[known:] = NAN
    gaussians = [Gaussian.of_component(c) for c in problem.components]
    marginals = [g.marginal(range(known)) for g in gaussians]
    density, responsibilities = log_density_and_responsibilities(log_joint(marginals, model.weights, row[:known]))
    # Loadings of fewer columns than factors are turned, and rounded, first.
    assert log_error(model.score_samples([row]), [density]) < (1e-10 if known < p else REACHED)
    assert responsibility_errors(model.predict_proba([row]), [responsibilities]).max() < PROMISED
    # Given the known columns, of each component: the mean relative to itself or to the standard deviation, and each
    # covariance to standard deviations.
    given = model.condition(range(known), row[:known])
    conditionals = [g.conditional(range(known), range(known, d), row[:known]) for g in gaussians]
    for k, (mean, covariance) in enumerate(conditionals):
        deviation = np.sqrt(np.diag(doubles(covariance)))
        scale = np.maximum(np.abs(doubles(mean)), deviation)
        assert (differences(given.means[k], mean) / scale).max() < PROMISED
        assert (differences(given.covariance(k), covariance) / np.outer(deviation, deviation)).max() < PROMISED
    filled = [
        sum(r * mean[j] for r, (mean, _) in zip(responsibilities, conditionals, strict=True)) for j in range(d - known)
    ]
    scale = np.max([np.abs(doubles(mean)) for mean, _ in conditionals], axis=0)
    assert (differences(model.impute([row])[0, known:], filled) / scale).max() < PROMISED


# ---- fits ------------------------------------------------------------------------------------------------------------


def two_clusters(rng):
    """60 rows of 4 columns of about unit scale."""
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 4)) + 0.5 * rng.standard_normal((60, 4))
    X[30:] += 6
    return X


def nearly_collinear(rng):
    X = two_clusters(rng)
    return np.column_stack([X, X[:, 0] + X[:, 1] + 1e-3 * rng.standard_normal(60)])


def flat_in_three_directions(rng):
    """Of condition 1e12: one factor and what is a millionth of it."""
    X = two_clusters(rng)
    return X[:, :1] + 1e-6 * rng.standard_normal((60, 4))


# The data, and the smallest uniqueness as a share of variances.
FITS = [(two_clusters, None), (nearly_collinear, None), (nearly_collinear, 1e-9), (flat_in_three_directions, 1e-15)]


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")  # whatever the fit comes to
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(("data", "noise_floor"), FITS)
def test_a_fit_reports_the_log_likelihood_of_its_parameters(rng, data, noise_floor, offset, search):
    X = data(rng) + offset
    model = amofa.fit(X, search=search, noise_floor=noise_floor)
    expected = expected_of(components_of(model), X).log_density
    assert log_error([model.log_likelihood], [sum(expected)]) < 1e-11
    assert log_error([model.score(X)], [sum(expected) / len(X)]) < 1e-11


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
@pytest.mark.parametrize("data", [two_clusters, nearly_collinear])
def test_a_fit_does_not_depend_on_the_offset(rng, data, search):
    # In steps of 2^-24 rows and rows that are 1e8 away have the same deviations.
    X = np.round(data(rng) * 2**24) / 2**24
    here, there = (amofa.fit(Y, search=search) for Y in (X, X + 1e8))
    np.testing.assert_array_equal(there.n_factors, here.n_factors)
    np.testing.assert_array_equal(there.predict(X + 1e8), here.predict(X))
    # Rounding may decide which iteration is the last: the gain of one is then at most 1e-5 nats per row.
    assert abs(there.score(X + 1e8) - here.score(X)) < 1e-4
    np.testing.assert_allclose(there.means - 1e8, here.means, rtol=0, atol=0.01)
