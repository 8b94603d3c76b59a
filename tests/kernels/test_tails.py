"""Kernels of t components: against dense algebra, SciPy, normal kernels and closed forms."""

import math

import numpy as np
import pytest
import reference
from cython_calls import Functions
from posterior_helpers import one_component, posterior
from reference import SHAPES, far_rows, log_error, random_mixture, random_rows, relative_error, t_mixture
from scipy.stats import multivariate_t

from amofa._data.row_chunks import Samples
from amofa._parameters import Evaluator, Parameters

TOLERANCE = 1e-11
BAD_ARGUMENT, TOO_SHORT = -1, -3

c = Functions()


# ---- densities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
def test_posterior_is_that_of_dense_algebra(rng, K, d, factors, n):
    parameters = t_mixture(rng, K, d, factors)
    x, mixture = far_rows(rng, parameters, n), parameters.components()
    got = posterior(parameters, x)
    scores = np.concatenate([reference.factor_scores(x, c) for c in mixture], axis=1)
    assert log_error(got.log_joint, reference.log_joint(x, mixture)) < TOLERANCE
    assert log_error(got.log_density, reference.log_density(x, mixture)) < TOLERANCE
    assert relative_error(got.responsibilities, reference.responsibilities(x, mixture), 1.0) < TOLERANCE
    assert relative_error(got.scores, scores) < TOLERANCE


@pytest.mark.parametrize("degrees", [0.01, 1.0, 2.5, 30.0, 999.0, 1001.0, 1e5])
def test_densities_are_those_of_scipy(rng, degrees):
    parameters = t_mixture(rng, 1, 6, [2], [degrees])
    x, (component,) = far_rows(rng, parameters, 200), parameters.components()
    density = multivariate_t(component.mean, reference.covariance(component), df=degrees)
    assert log_error(posterior(parameters, x).log_density, density.logpdf(x)) < 1e-10


@pytest.mark.parametrize("degrees", [1e-3, 0.5, 3.0, 100.0, 999.0, 1000.0, 1001.0, 1e5, 1e10, 1e15, 1e200])
@pytest.mark.parametrize("d", [2, 8, 60, 4000])
def test_constants(d, degrees):
    """For even d, Gamma((nu + d) / 2) / Gamma(nu / 2) is a product."""
    parameters = one_component(np.zeros((0, d)), np.ones(d))
    parameters.degrees_of_freedom[:] = degrees
    expected = -0.5 * d * math.log(2 * math.pi) + math.fsum(math.log1p(2 * i / degrees) for i in range(d // 2))
    assert posterior(parameters, np.zeros((1, d))).log_density[0] == pytest.approx(expected, rel=2e-13)


@pytest.mark.parametrize("noise", [1.0, 1e-4, 1e-7, 1e-11])
def test_distances_are_those_of_normal_components(rng, noise):
    """In all forms, also from residuals in twice the precision."""
    parameters = random_mixture(rng, 1, 20, [3])
    parameters.uniquenesses *= noise
    x, d = far_rows(rng, parameters, 90), 20
    # The third value of what is prepared is the log of the constant.
    squared = -2 * (posterior(parameters, x).log_joint[:, 0] - Evaluator(parameters).prepared[2])
    parameters.degrees_of_freedom[:] = nu = 4.0
    constant = Evaluator(parameters).prepared[2]
    expected = constant - 0.5 * (nu + d) * np.log1p(squared / nu)
    assert log_error(posterior(parameters, x).log_joint[:, 0], expected) < 1e-10


def test_many_degrees_of_freedom_are_nearly_normal(rng):
    parameters = random_mixture(rng, 3, 5, [1, 0, 2])
    x = random_rows(rng, parameters, 100)
    expected = posterior(parameters, x)
    parameters.degrees_of_freedom[:] = 1e14
    for got, normal in zip(posterior(parameters, x), expected, strict=True):
        np.testing.assert_allclose(got, normal, rtol=1e-9, atol=1e-9)


def test_rows_that_are_infinitely_far_away(rng):
    parameters = t_mixture(rng, 2, 3, [1, 0], [3.0, 0.5])
    got = posterior(parameters, np.array([[1e300, 0.0, 0.0], [1e100, 0.0, 0.0]]))
    assert got.log_density[0] == -math.inf
    assert np.isfinite(got.log_density[1])
    np.testing.assert_array_equal(got.responsibilities[0], parameters.weights)


@pytest.mark.parametrize("degrees", [0.0, -1.0, math.nan])
def test_degrees_of_freedom_must_be_positive(rng, degrees):
    parameters = random_mixture(rng, 2, 3, 1)
    parameters.degrees_of_freedom[1] = degrees
    with pytest.raises(FloatingPointError, match="component 1"):
        Evaluator(parameters)


def test_spreads(rng):
    parameters = t_mixture(rng, 3, 4, [1, 0, 2], [3.0, math.inf, 500.0])
    x, mixture = far_rows(rng, parameters, 50), parameters.components()
    spreads = Evaluator(parameters).spreads(posterior(parameters, x).log_joint.T)
    expected = np.stack([1 / reference.tail_weights(x, component) for component in mixture])
    assert relative_error(spreads, expected, expected) < TOLERANCE
    parameters.degrees_of_freedom[:] = math.inf
    assert Evaluator(parameters).spreads(np.zeros((3, 2))) is None


# ---- sums ------------------------------------------------------------------------------------------------------------


def test_kurtosis_is_that_of_dense_algebra(rng):
    parameters = t_mixture(rng, 3, 4, [1, 0, 2])
    x = far_rows(rng, parameters, 300)
    expected = reference.kurtosis_z(x, None, parameters.components())
    assert relative_error(Samples(x).kurtosis_z(parameters), expected, np.abs(expected)) < 1e-9


# ---- C-level functions -----------------------------------------------------------------------------------------------


def prepared(parameters):
    p = parameters
    mixture = np.full(c.mixture_size(p.n_components, p.n_features, p.offsets), np.nan)
    arrays = p.weights, p.degrees_of_freedom, p.means, p.loadings, p.uniquenesses, mixture
    assert c.prepare_t_mixture(p.n_components, p.n_features, p.offsets, *arrays, len(mixture)) == 0
    return mixture


def test_c_level_posterior(rng):
    parameters = t_mixture(rng, 3, 4, [1, 0, 2])
    x, mixture = far_rows(rng, parameters, 60), prepared(parameters)
    outputs = [np.full(shape, np.nan) for shape in ((60,), (3, 60), (3, 60), (3, 60))]
    assert c.posterior(mixture, 60, x, 4, 1, *outputs, np.zeros(c.rows_work_size(mixture))) == 0
    for got, expected in zip(outputs, posterior(parameters, x), strict=True):
        np.testing.assert_array_equal(got.T, expected)
    degrees = np.zeros(3)
    assert c.mixture_degrees_of_freedom(mixture, degrees, 3) == 0
    np.testing.assert_array_equal(degrees, parameters.degrees_of_freedom)
    assert c.mixture_degrees_of_freedom(mixture, degrees, 2) == TOO_SHORT


def test_c_level_missing_cells(rng):
    parameters = t_mixture(rng, 3, 4, [1, 0, 2])
    x, mixture = far_rows(rng, parameters, 60), prepared(parameters)
    x[rng.random(x.shape) < 0.3] = np.nan
    log_density = np.zeros(60)
    rest = [None, 0, 1, 1] * 3
    work = np.zeros(c.missing_work_size(mixture))
    assert c.posterior_checked(mixture, 60, 4, x, 8, 4, 1, 1, log_density, 60, *rest, work, len(work)) == 0
    for value, row in zip(log_density, x, strict=True):
        o = np.flatnonzero(~np.isnan(row))
        of_row = [c._replace(mean=c.mean[o], loadings=c.loadings[:, o], uniquenesses=c.uniquenesses[o])
                  for c in parameters.components()]  # fmt: skip
        expected = reference.log_density(row[None, o], of_row)[0] if len(o) else 0.0
        assert value == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("degrees", [3.0, math.inf])
def test_c_level_steps_of_em(rng, degrees):
    """Mean and scale matrix of the M-step of a t distribution; no uniqueness is at its floor."""
    d = 5
    parameters = t_mixture(rng, 2, d, [1, 1], [degrees])
    x, mixture = random_rows(rng, parameters, 300), prepared(parameters)
    scatter = np.zeros(c.scatter_size(mixture))
    assert c.accumulate_scatter(mixture, 300, x, d, 1, None, scatter, np.zeros(c.rows_work_size(mixture))) == 0
    mean, loadings, noise, work = np.zeros(d), np.zeros((1, d)), np.ones(d), np.zeros(c.fit_work_size(d, 1))
    assert c.fit_component(mixture, 1, scatter, 1, np.full(d, 1e-9), 500, 1e-12, mean, loadings, noise, None, work) == 0
    component = parameters.component(1)
    h = reference.responsibilities(x, parameters.components())[:, 1]
    hu = h * reference.tail_weights(x, component)
    expected = hu @ x / hu.sum()
    np.testing.assert_allclose(mean, expected, rtol=1e-10)
    e = x - expected
    scale = (hu[:, None] * e).T @ e / h.sum()
    assert noise.min() > 0.01
    # At the maximum, the diagonal of the fitted matrix is that of the data's.
    np.testing.assert_allclose((loadings**2).sum(axis=0) + noise, np.diag(scale), rtol=1e-5)


def test_c_level_em_over_factors_is_refused(rng):
    mixture, array = prepared(t_mixture(rng, 2, 3, [1, 1])), np.ones(1000)
    assert c.statistics_size(mixture) == BAD_ARGUMENT
    assert c.accumulate_statistics(mixture, 2, array, 3, 1, None, array, array) == BAD_ARGUMENT
    assert c.maximize_component(mixture, 0, array, array, array, array, array, array) == BAD_ARGUMENT


def test_c_level_without_degrees_of_freedom(rng):
    p = random_mixture(rng, 2, 3, [1, 1])
    size = c.mixture_size(2, 3, p.offsets)
    with_null, normal = np.zeros(size), np.zeros(size)
    numbers = 2, 3, p.offsets
    assert c.prepare_t_mixture(*numbers, p.weights, None, p.means, p.loadings, p.uniquenesses, with_null, size) == 0
    assert c.prepare_mixture(*numbers, p.weights, p.means, p.loadings, p.uniquenesses, normal) == 0
    np.testing.assert_array_equal(with_null, normal)
    wrong = np.array([1.0, 0.0])
    arrays = p.weights, wrong, p.means, p.loadings, p.uniquenesses, with_null
    assert c.prepare_t_mixture(*numbers, *arrays, size) == 2
    assert c.prepare_t_mixture(*numbers, *arrays, size - 1) == TOO_SHORT


def test_marginals_and_copies_keep_degrees_of_freedom(rng):
    parameters = t_mixture(rng, 3, 4, [1, 0, 2])
    again = Parameters.from_components(parameters.components())
    for twin in (parameters.copy(), again, parameters.without(2)):
        K = twin.n_components
        np.testing.assert_array_equal(twin.degrees_of_freedom, parameters.degrees_of_freedom[:K])
