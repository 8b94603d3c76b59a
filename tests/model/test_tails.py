"""Models with t components: against SciPy, dense algebra, and draws."""

import copy
import math
import pickle

import numpy as np
import pytest
import reference
from conditional_helpers import NAN, model_of, with_gaps
from reference import far_rows, random_mixture, random_rows, t_mixture
from scipy.special import logsumexp, softmax
from scipy.stats import kstest, multivariate_t, t

import amofa
from amofa._data.standardize import Standardized
from amofa._model.conditional import conditional_moments
from amofa._model.tails import radius_of_same_mass, stretches
from amofa._parameters import Parameters
from amofa.mixture import MixtureOfFactorAnalyzers

# K, d, factors of each component.
SHAPES = [(1, 2, (1,)), (1, 5, (0,)), (3, 4, (0, 1, 2)), (2, 3, (3, 5)), (4, 7, (2, 2, 0, 4)), (2, 12, (6, 1))]
shapes = pytest.mark.parametrize(("K", "d", "p"), SHAPES)


def arrays_of(K=2):
    """Arguments of a model of K components in two columns."""
    return np.full(K, 1 / K), np.arange(2.0 * K).reshape(K, 2), [np.ones((2, 1))] * K, np.ones((K, 2))


def dense_conditional(parameters, row):
    """Responsibilities (K,), and SciPy's t distributions of the missing cells of a row."""
    o = ~np.isnan(row)
    log_joint, given = np.log(parameters.weights), []
    for k, c in enumerate(parameters.components()):
        nu, sigma = c.degrees_of_freedom, reference.covariance(c)
        if o.any():
            log_joint[k] += multivariate_t(c.mean[o], sigma[np.ix_(o, o)], df=nu).logpdf(row[o])
        slope = np.linalg.solve(sigma[np.ix_(o, o)], sigma[np.ix_(o, ~o)]).T
        deviation = row[o] - c.mean[o]
        squared = deviation @ np.linalg.solve(sigma[np.ix_(o, o)], deviation)
        scale = sigma[np.ix_(~o, ~o)] - slope @ sigma[np.ix_(o, ~o)]
        scale *= (nu + squared) / (nu + o.sum())
        given.append(multivariate_t(c.mean[~o] + slope @ deviation, scale, df=nu + o.sum(), allow_singular=False))
    return softmax(log_joint), given


def dense_moments(parameters, row):
    """Mean (q,) and variances (q,) of the missing cells of a row."""
    r, given = dense_conditional(parameters, row)
    means = np.array([one.loc for one in given])
    variances = np.array([one.df / (one.df - 2) * np.diag(one.shape) for one in given])
    mean = r @ means
    return mean, r @ (variances + (means - mean) ** 2)


# ---- rows ------------------------------------------------------------------------------------------------------------


@shapes
def test_densities_of_rows_with_missing_cells(K, d, p, rng):
    parameters = t_mixture(rng, K, d, p, (3.0, 0.7, 50.0))
    X = with_gaps(rng, far_rows(rng, parameters, 60))
    model = model_of(parameters)
    density, proba = model.score_samples(X), model.predict_proba(X)
    for row, value, shares in zip(X, density, proba, strict=True):
        o = ~np.isnan(row)
        if not o.any():
            assert value == 0
            continue
        joint = np.log(parameters.weights) + [
            multivariate_t(c.mean[o], reference.covariance(c)[np.ix_(o, o)], df=c.degrees_of_freedom).logpdf(row[o])
            for c in parameters.components()
        ]
        assert value == pytest.approx(logsumexp(joint), rel=1e-10)
        np.testing.assert_allclose(shares, softmax(joint), atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), proba.argmax(axis=1))


def test_factor_scores_are_regressions_of_the_factors(rng):
    """The factors given a row have a t distribution about the same centre as in a normal component."""
    parameters = t_mixture(rng, 2, 5, (2, 1), (3.0, 8.0))
    X = far_rows(rng, parameters, 30)
    for got, component in zip(model_of(parameters).factor_scores(X), parameters.components(), strict=True):
        np.testing.assert_allclose(got, reference.factor_scores(X, component), rtol=1e-10, atol=1e-12)


def test_criteria_count_degrees_of_freedom(rng):
    X = rng.normal(size=(20, 2))
    for degrees, n in ((None, 0), (math.inf, 0), (4.0, 1), ([4.0, 4.0], 1), ([4.0, 5.0], 2), ([4.0, math.inf], 2)):
        model = MixtureOfFactorAnalyzers(*arrays_of(), degrees_of_freedom=degrees)
        assert model.n_parameters == MixtureOfFactorAnalyzers(*arrays_of()).n_parameters + n
        assert model.bic(X) == pytest.approx(-2 * model.score_samples(X).sum() + model.n_parameters * math.log(20))


# ---- some columns given others ---------------------------------------------------------------------------------------


@shapes
def test_conditional_moments(K, d, p, rng):
    parameters = t_mixture(rng, K, d, p, (3.0, 9.0, 50.0))
    order = rng.permutation(d)
    known, wanted = order[: d // 2], order[d // 2 :]
    values = with_gaps(rng, far_rows(rng, parameters, 40)[:, known], share=0.2)
    means, variances = conditional_moments(parameters, known, wanted, values)
    for value, mean, variance in zip(values, means, variances, strict=True):
        row = np.full(d, NAN)
        row[known] = value
        places = np.searchsorted(np.flatnonzero(np.isnan(row)), wanted)
        expected_mean, expected_variance = dense_moments(parameters, row)
        np.testing.assert_allclose(mean, expected_mean[places], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(variance, expected_variance[places], rtol=1e-10)


def test_variances_of_few_degrees_of_freedom_are_infinite(rng):
    parameters = t_mixture(rng, 2, 3, (1, 1), (0.5, math.inf))
    values = np.array([[NAN, NAN], [0.0, NAN], [0.0, 0.0]])
    variances = conditional_moments(parameters, np.array([0, 1]), np.array([2]), values)[1]
    np.testing.assert_array_equal(np.isinf(variances[:, 0]), [True, True, False])
    # A component that is infinitely far away has no share.
    parameters.degrees_of_freedom[:] = 0.5, math.inf
    parameters.weights[:] = 0.0, 1.0
    assert np.isfinite(conditional_moments(parameters, np.array([0]), np.array([2]), np.zeros((1, 1)))[1]).all()


@shapes
def test_conditional_mixtures(K, d, p, rng):
    parameters = t_mixture(rng, K, d, p, (3.0, 0.7, 50.0))
    X = far_rows(rng, parameters, 9)
    known, unknown = np.arange(d // 2), np.arange(d // 2, d)
    for row in X:
        given = model_of(parameters).condition(known, row[known])
        row[unknown] = NAN
        r, expected = dense_conditional(parameters, row)
        np.testing.assert_allclose(given.weights, r, atol=1e-10)
        for k, one in enumerate(expected):
            assert given.degrees_of_freedom[k] == one.df
            np.testing.assert_allclose(given.means[k], one.loc, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(given.scale_matrix(k), one.shape, rtol=1e-9, atol=1e-9 * np.abs(one.shape).max())


def test_a_joint_density_is_a_marginal_times_a_conditional_one(rng):
    parameters = t_mixture(rng, 3, 5, (2, 0, 1))
    model = model_of(parameters)
    for row in far_rows(rng, parameters, 20):
        part = row.copy()
        part[2:] = NAN
        given = model.condition([0, 1], row[:2])
        product = model.score_samples([part]) + given.score_samples([row[2:]])
        assert model.score_samples([row]) == pytest.approx(product, rel=1e-11)


def test_conditions_that_are_unknown_change_nothing(rng):
    model = model_of(t_mixture(rng, 2, 3, (1, 0), (3.0, 5.0)))
    given = model.condition([0], [NAN])
    np.testing.assert_array_equal(given.degrees_of_freedom, [3.0, 5.0])
    np.testing.assert_allclose(given.scale_matrix(0), model.scale_matrix(0)[1:, 1:], rtol=1e-12)


def test_imputed_means(rng):
    parameters = t_mixture(rng, 3, 4, (1, 0, 2), (3.0, 9.0, 50.0))
    X = with_gaps(rng, random_rows(rng, parameters, 50))
    filled = model_of(parameters).impute(X)
    for row, whole in zip(X, filled, strict=True):
        missing = np.isnan(row)
        np.testing.assert_array_equal(whole[~missing], row[~missing])
        if missing.any():
            np.testing.assert_allclose(whole[missing], dense_moments(parameters, row)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("value", [0.3, 25.0])
def test_imputed_draws(value, rng):
    """Draws of one cell given another one, by their distribution function."""
    parameters = t_mixture(rng, 1, 3, (1,), (2.5,))
    row = np.array([value, NAN, 1.0])
    drawn = model_of(parameters).impute(np.tile(row, (4000, 1)), draws=True, random_state=1)[:, 1]
    _, (given,) = dense_conditional(parameters, row)
    assert kstest(drawn, t(given.df, given.loc[0], np.sqrt(given.shape[0, 0])).cdf).pvalue > 1e-4


def test_draws_of_whole_rows(rng):
    parameters = t_mixture(rng, 2, 3, (1, 0), (3.0, math.inf))
    X, labels = model_of(parameters).sample(8000, 3)
    filled = model_of(parameters).impute(np.full((4000, 3), NAN), draws=True, random_state=2)
    component = parameters.component(0)
    for j in range(3):
        marginal = t(3.0, component.mean[j], np.sqrt(reference.covariance(component)[j, j]))
        assert kstest(X[labels == 0, j], marginal.cdf).pvalue > 1e-4
        assert kstest(filled[:, j], X[:, j]).pvalue > 1e-4
    # One factor for all columns of a row stretches it: squared distances over d have an F distribution.
    squared = reference.squared_distances(X[labels == 0], component)
    from scipy.stats import f

    assert kstest(squared / 3, f(3, 3.0).cdf).pvalue > 1e-4


def test_draws_are_finite_and_those_of_normal_models_are_the_same(rng):
    assert np.isfinite(stretches(rng, 1e-3, 2000)).all()
    parameters = random_mixture(rng, 2, 3, 1)
    normal = model_of(parameters).sample(50, 7)[0]
    parameters.degrees_of_freedom[1] = 4.0
    mixed, labels = model_of(parameters).sample(50, 7)
    np.testing.assert_array_equal(mixed[labels == 0], normal[labels == 0])


# ---- without rows ----------------------------------------------------------------------------------------------------


def test_covariances_and_scale_matrices(rng):
    parameters = t_mixture(rng, 3, 3, (1, 0, 2), (4.0, math.inf, 2.0))
    model = model_of(parameters)
    for k in range(3):
        np.testing.assert_allclose(model.scale_matrix(k), reference.covariance(parameters.component(k)), rtol=1e-13)
    np.testing.assert_allclose(model.covariance(0), 2 * model.scale_matrix(0), rtol=1e-15)
    np.testing.assert_array_equal(model.covariance(1), model.scale_matrix(1))
    with pytest.raises(ValueError, match=r"component 2 has 2 degrees of freedom.*use scale_matrix\(2\)"):
        model.covariance(2)
    for method in (model.covariance, model.scale_matrix):
        with pytest.raises(IndexError, match="no component 3"):
            method(3)


@pytest.mark.parametrize(
    ("degrees", "error", "message"),
    [
        (0, ValueError, "must be at least 0.001, got 0.0 for component 0"),
        ([3, -1], ValueError, "got -1.0 for component 1; numpy.inf stands"),
        (NAN, ValueError, "got nan for component 0"),
        (-math.inf, ValueError, "got -inf"),
        ([3, 3, 3], ValueError, r"degrees_of_freedom has shape \(3,\); pass one number .* each of 2"),
        ([[3, 3]], ValueError, "shape"),
        ("many", TypeError, "degrees_of_freedom must hold real numbers"),
        (1j, TypeError, "real numbers"),
    ],
)
def test_wrong_degrees_of_freedom_are_refused(degrees, error, message):
    with pytest.raises(error, match=message):
        MixtureOfFactorAnalyzers(*arrays_of(), degrees_of_freedom=degrees)


def test_degrees_of_freedom_of_models():
    for degrees, expected in ((None, [math.inf] * 2), (3, [3.0, 3.0]), ([3, math.inf], [3.0, math.inf])):
        model = MixtureOfFactorAnalyzers(*arrays_of(), degrees_of_freedom=degrees)
        np.testing.assert_array_equal(model.degrees_of_freedom, expected)
        assert not model.degrees_of_freedom.flags.writeable


def test_infinite_degrees_of_freedom_are_a_normal_model(rng):
    X = rng.normal(size=(40, 2))
    normal, other = (MixtureOfFactorAnalyzers(*arrays_of(), degrees_of_freedom=nu) for nu in (None, math.inf))
    np.testing.assert_array_equal(normal.transform(X), other.transform(X))
    assert repr(normal) == repr(other)
    assert normal.summary() == other.summary()


def test_texts():
    model = MixtureOfFactorAnalyzers(*arrays_of(), degrees_of_freedom=[3.14159, math.inf])
    assert repr(model).endswith("n_factors=[1, 1], degrees_of_freedom=[3.14, inf])")
    header, *rows = model.summary().splitlines()[2:5]
    assert header.endswith("degrees of freedom")
    assert [row.split()[-1] for row in rows] == ["3.14", "inf"]
    assert repr(MixtureOfFactorAnalyzers(*arrays_of(20), degrees_of_freedom=3.0)).count("...") == 2


def test_copies_and_files(tmp_path, rng):
    model = model_of(t_mixture(rng, 3, 4, (0, 1, 2)), ("a", "b", "c", "d"))
    model.save(tmp_path / "model.npz")
    X = far_rows(rng, model._parameters, 20)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), amofa.load(tmp_path / "model.npz")):
        np.testing.assert_array_equal(twin.degrees_of_freedom, model.degrees_of_freedom)
        np.testing.assert_array_equal(twin.transform(X), model.transform(X))
        assert twin.summary() == model.summary()


@pytest.mark.parametrize("degrees", [[0.0, 3.0, 3.0], [NAN, 3.0, 3.0], [3.0, 3.0], [3, 3, 3]])
def test_damaged_files_are_refused(degrees, tmp_path, rng):
    model_of(t_mixture(rng, 3, 4, (0, 1, 2))).save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "other.npz", **arrays | {"degrees_of_freedom": np.array(degrees)})
    with pytest.raises(ValueError, match="degrees_of_freedom"):
        amofa.load(tmp_path / "other.npz")


def test_handles_are_for_the_same_densities(rng):
    from cython_calls import Functions

    c = Functions()
    model = model_of(t_mixture(rng, 3, 4, (0, 1, 2)))
    mixture, X = model.cython_handle().mixture, far_rows(rng, model._parameters, 30)
    density, work = np.zeros(30), np.zeros(c.rows_work_size(mixture))
    assert c.posterior(mixture, 30, X, 4, 1, density, None, None, None, work) == 0
    np.testing.assert_array_equal(density, model.score_samples(X))


# ---- coordinates, pictures, classes ----------------------------------------------------------------------------------


def test_coordinates_of_a_search_keep_degrees_of_freedom(rng):
    X = rng.normal(size=(400, 3))
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(400)])
    table = Standardized.of(X, None, by_body=True).without_redundant_columns()
    assert table.coordinates.relations is not None
    parameters = t_mixture(rng, 2, 5, (1, 0), (3.0, math.inf))
    own = table.coordinates.express(parameters)
    restored = table.coordinates.restore(own, np.full(5, 1e-9))
    for made in (own, restored):
        np.testing.assert_array_equal(made.degrees_of_freedom, [3.0, math.inf])


@pytest.mark.parametrize("deviations", [1.0, 2.0])
def test_radius_of_same_mass(deviations, rng):
    from scipy.stats import f

    share = 1 - math.exp(-(deviations**2) / 2)
    for nu in (0.5, 3.0, 40.0):
        assert f(2, nu).cdf(radius_of_same_mass(nu, deviations) ** 2 / 2) == pytest.approx(share, rel=1e-12)
    assert radius_of_same_mass(math.inf, deviations) == deviations
    assert radius_of_same_mass(1e9, deviations) == pytest.approx(deviations)
    assert radius_of_same_mass(1e-3, 2.0) == math.inf


def test_classes_borrow_scale_matrices(rng):
    from amofa.pooling import ClassFit, Pooling, class_models

    fits = []
    for degrees in ((3.0,), (1.5,)):
        single = model_of(t_mixture(rng, 1, 3, (1,), degrees))
        fits.append(ClassFit(single, model_of(t_mixture(rng, 2, 3, (1, 0), degrees)), 30.0))
    models = class_models(fits, Pooling(10.0, 0.5))
    assert [m.degrees_of_freedom.tolist() for m in models] == [[3.0] * 3, [1.5] * 3]
    shared = (fits[0].single.scale_matrix(0) + fits[1].single.scale_matrix(0)) / 2
    expected = (30 * fits[0].single.scale_matrix(0) + 10 * shared) / 40
    np.testing.assert_allclose(models[0].scale_matrix(0), expected, rtol=1e-10)


def test_parameters_without_tails_are_normal():
    assert np.isinf(Parameters(3, (1, 0)).degrees_of_freedom).all()
