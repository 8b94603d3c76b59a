"""Conditional mixtures and their moments: against dense algebra with full covariance matrices."""

from fractions import Fraction

import numpy as np
import pytest
from conditional_helpers import NAN, dense_conditional, dense_moments, model_of, shapes, with_gaps
from reference import covariance, eliminate, exact_log_joint, random_mixture, random_rows

from amofa._model.conditional import conditional_moments
from amofa._parameters import Component, Parameters
from amofa.mixture import MixtureOfFactorAnalyzers

# ---- conditional moments ---------------------------------------------------------------------------------------------


@shapes
def test_conditional_moments(K, d, p, rng):
    parameters = random_mixture(rng, K, d, p)
    order = rng.permutation(d)
    known, wanted = order[: d // 2], order[d // 2 :]
    values = with_gaps(rng, random_rows(rng, parameters, 40)[:, known], share=0.2)
    means, variances = conditional_moments(parameters, known, wanted, values)
    assert means.shape == variances.shape == (40, len(wanted))
    for value, mean, variance in zip(values, means, variances, strict=True):
        row = np.full(d, NAN)
        row[known] = value
        missing = np.flatnonzero(np.isnan(row))
        places = np.searchsorted(missing, wanted)
        expected_mean, expected_covariance = dense_moments(parameters, row)
        np.testing.assert_allclose(mean, expected_mean[places], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(variance, np.diag(expected_covariance)[places], rtol=1e-10)


def test_conditional_moments_without_known_columns(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    none, everything = np.zeros(0, dtype=np.intp), np.arange(3)
    means, variances = conditional_moments(parameters, none, everything, np.zeros((2, 0)))
    mean, full = dense_moments(parameters, np.full(3, NAN))
    np.testing.assert_allclose(means, [mean, mean], rtol=1e-12)
    np.testing.assert_allclose(variances, [np.diag(full)] * 2, rtol=1e-12)


def test_conditional_moments_with_nothing_wanted(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    means, variances = conditional_moments(parameters, np.arange(3), np.zeros(0, dtype=np.intp), np.zeros((4, 3)))
    assert means.shape == variances.shape == (4, 0)


def test_a_column_cannot_be_known_and_wanted(rng):
    with pytest.raises(ValueError, match="wanted has columns that are known: 0, 2; leave them out"):
        conditional_moments(random_mixture(rng, 2, 4, 1), np.array([2, 0]), np.array([0, 1, 2]), np.zeros((1, 2)))


def test_variances_do_not_suffer_from_an_offset(rng):
    parameters = random_mixture(rng, 3, 4, 2)
    moved = parameters.copy()
    moved.means[:] += 1e8
    known, wanted = np.array([0, 1]), np.array([2, 3])
    values = np.round(random_rows(rng, parameters, 30)[:, known] * 64) / 64
    moved.means[:] = np.round(moved.means * 64) / 64
    parameters.means[:] = moved.means - 1e8
    expected = conditional_moments(parameters, known, wanted, values)[1]
    np.testing.assert_allclose(conditional_moments(moved, known, wanted, values + 1e8)[1], expected, rtol=1e-6)


@pytest.mark.parametrize("distance", [1e6, 1e12, 1e100, 1e140])
def test_far_rows_have_the_limit_of_the_conditional_mean(distance, rng):
    parameters = random_mixture(rng, 3, 4, (1, 0, 2))
    known, wanted = np.array([0, 1]), np.array([2, 3])
    direction = rng.standard_normal((20, 2))
    means, variances = conditional_moments(parameters, known, wanted, distance * direction)
    assert np.isfinite(means).all()
    assert np.isfinite(variances).all()
    assert (variances > 0).all()
    for value, mean in zip(direction, means, strict=True):
        # Far away the widest component in this direction is left alone, and its mean is linear.
        narrowness = [value @ np.linalg.solve(covariance(c)[:2, :2], value) for c in parameters.components()]
        sigma = covariance(parameters.component(int(np.argmin(narrowness))))
        slope = np.linalg.solve(sigma[:2, :2], sigma[:2, 2:]).T
        np.testing.assert_allclose(mean / distance, slope @ value, rtol=1e-4, atol=1e-4)


def exact_given(component, row):
    """Means (q,), variances (q,) of the missing cells of a row, and factor scores (p,), in fractions, then rounded."""
    observed, wanted = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
    loadings = [[Fraction(x) for x in factor] for factor in component.loadings]
    common = [[sum(f[i] * f[j] for f in loadings) for j in range(len(row))] for i in range(len(row))]

    def solved(right):
        of_observed = [
            [common[i][j] + (i == j) * Fraction(component.uniquenesses[i]) for j in observed] for i in observed
        ]
        return eliminate([[*line, b] for line, b in zip(of_observed, right, strict=True)])[1]

    def dot(a, b):
        return float(sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0)))

    slopes = solved([Fraction(row[i]) - Fraction(component.mean[i]) for i in observed])
    covariances = [[common[i][j] for i in observed] for j in wanted]
    means = [dot([1, *slopes], [Fraction(component.mean[j]), *c]) for j, c in zip(wanted, covariances, strict=True)]
    variances = [
        dot([1, 1, *(-x for x in solved(c))], [common[j][j], Fraction(component.uniquenesses[j]), *c])
        for j, c in zip(wanted, covariances, strict=True)
    ]
    return np.array(means), np.array(variances), np.array([dot(slopes, [f[i] for i in observed]) for f in loadings])


@pytest.mark.parametrize("ratio", [1e4, 1e6, 1e8, 1e12])
@pytest.mark.parametrize(("o", "p"), [(1, 3), (2, 3), (3, 5)])
@pytest.mark.parametrize("is_even", [True, False])
def test_fewer_columns_than_factors_lose_no_digits(is_even, o, p, ratio, rng):
    d = 8
    known, wanted = np.arange(o), np.arange(o, d)
    uniquenesses = rng.uniform(0.5, 2, d) / ratio
    if not is_even:
        uniquenesses[known] *= np.geomspace(ratio, 1, o)
    loadings = rng.standard_normal((p, d))
    component = Component(1.0, rng.standard_normal(d), loadings, uniquenesses)
    parameters = Parameters.from_components([component])
    model = model_of(parameters)
    row = np.full(d, NAN)
    row[known] = component.mean[known] + rng.standard_normal(p) @ loadings[:, known]
    means, variances, scores = exact_given(component, row)

    def is_close(found, expected):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=2e-14 * np.abs(expected).max())

    found = conditional_moments(parameters, known, wanted, row[None, known])
    is_close(found[0][0], means)
    is_close(found[1][0], variances)
    is_close(model.factor_scores([row])[0][0], scores)
    given = model.condition(known, row[known])
    is_close(given.means[0], means)
    is_close(np.diag(given.covariance(0)), variances)
    of_known = Component(1.0, component.mean[known], loadings[:, known], uniquenesses[known])
    assert model.score_samples([row])[0] == pytest.approx(exact_log_joint(row[known], of_known), rel=1e-12)


# ---- conditional mixtures --------------------------------------------------------------------------------------------


@shapes
def test_condition(K, d, p, rng):
    parameters = random_mixture(rng, K, d, p)
    model = model_of(parameters)
    for n_known in range(1, d):
        known = rng.permutation(d)[:n_known]
        row = np.full(d, NAN)
        row[known] = random_rows(rng, parameters, 1)[0, known]
        given = model.condition(known, row[known])
        weights, means, covariances = dense_conditional(parameters, row)
        assert (given.n_features, tuple(given.n_factors)) == (d - n_known, p)
        np.testing.assert_allclose(given.weights, weights, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(given.means, means, rtol=1e-10, atol=1e-11)
        for k in range(K):
            np.testing.assert_allclose(given.covariance(k), covariances[k], rtol=1e-10, atol=1e-11)


def test_unknown_values_are_marginalised(rng):
    parameters = random_mixture(rng, 2, 4, (0, 2))
    model = model_of(parameters)
    given = model.condition([2, 0], [NAN, NAN])
    np.testing.assert_array_equal(given.weights, model.weights)
    np.testing.assert_array_equal(given.means, model.means[:, [1, 3]])
    np.testing.assert_allclose(given.covariance(1), model.covariance(1)[np.ix_([1, 3], [1, 3])], rtol=1e-14)
    one = model.condition([2, 0], [0.5, NAN])
    np.testing.assert_allclose(one.weights, model.condition([2], [0.5]).weights, rtol=1e-13)
    np.testing.assert_allclose(one.means, model.condition([2], [0.5]).means[:, [1, 2]], rtol=1e-12)


def test_a_far_condition_is_finite(rng):
    model = model_of(random_mixture(rng, 3, 4, 2))
    for distance in (1e6, 1e100):
        given = model.condition([1], [distance])
        assert np.isfinite(given.means).all()
        assert given.weights.sum() == pytest.approx(1, rel=1e-15)
    steep = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1e10]]], [[1.0, 1.0]])
    with pytest.raises(ValueError, match="values has values so large that means given them are not finite; rescale"):
        steep.condition([0], [1e300])
    with pytest.raises(ValueError, match="X has values so large that means given them are not finite; rescale"):
        steep.impute([[1e300, NAN]])


@pytest.mark.parametrize(
    ("known", "values", "error", "message"),
    [
        ([0, 1, 2], [0, 0, 0], ValueError, "known_columns has all columns; leave at least one out"),
        ([], [], ValueError, "known_columns is empty; give at least one column"),
        ([0, 0], [1, 1], ValueError, "known_columns has column 0 twice"),
        ([3], [1], ValueError, "known_columns has 3, but columns are numbered from 0 to 2"),
        ([-1], [1], ValueError, "known_columns has -1, but"),
        (["d"], [1], ValueError, "known_columns has 'd', but the model has no column of that name"),
        ("a", [1], TypeError, r"known_columns must be a list of columns, got 'a'; use \['a'\]"),
        (1, [1], TypeError, "known_columns must be a list of columns, got 1"),
        ([True], [1], TypeError, "known_columns must hold numbers of columns or names, got True"),
        ([1.0], [1], TypeError, r"known_columns must hold numbers of columns or names, got 1\.0"),
        ([0, 1], [1], ValueError, r"values has shape \(1,\), but known_columns has 2; pass one value for each"),
        ([0], [[1]], ValueError, r"values has shape \(1, 1\), but known_columns has 1"),
        ([0], [np.inf], ValueError, "values has 1 value that is infinite"),
        ([0], ["x"], TypeError, "values has dtype <U1; a table of real numbers is needed"),
    ],
)
def test_wrong_conditions(known, values, error, message, rng):
    model = model_of(random_mixture(rng, 2, 3, 1), ("a", "b", "c"))
    with pytest.raises(error, match=message):
        model.condition(known, values)
    if "columns" in message and "values" not in message and len(values) < 3:
        with pytest.raises(error, match=message):
            model.impute([[1.0] * len(values)], known_columns=known)


def test_names_are_needed_to_know_columns_by(rng):
    parameters = random_mixture(rng, 1, 3, 1)
    with pytest.raises(ValueError, match="known_columns has the name 'a', but the model has no feature_names; use num"):
        model_of(parameters).condition(["a"], [0.0])
    with pytest.raises(ValueError, match="known_columns has 'a', but the model has 2 columns of that name"):
        model_of(parameters, ("a", "b", "a")).condition(["a"], [0.0])
