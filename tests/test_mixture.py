"""MixtureOfFactorAnalyzers: construction, and every quantity against dense computation with SciPy."""

import copy
import pickle
import re

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, multivariate_normal

from amofa._data.row_chunks import _CACHE_VALUES
from amofa.history import FitReport, Step
from amofa.mixture import MixtureOfFactorAnalyzers

# K, d, factors of each component, rows.
SHAPES = [
    (1, 1, (0,), 1),
    (1, 1, (1,), 5),
    (2, 1, (0, 3), 40),
    (3, 4, (0, 1, 2), 300),
    (2, 3, (3, 5), 1),
    (1, 7, (2,), 60),
    (4, 10, (2, 2, 0, 4), 1000),
    (2, 40, (6, 1), 500),
]
shapes = pytest.mark.parametrize(("K", "d", "p", "n"), SHAPES)


@pytest.fixture
def make(rng, random_mixture):
    """The function make(K, d, p): a random model, through the public constructor."""

    def made(K, d, p):
        parameters = random_mixture(rng, K, d, p)
        loadings = [parameters.component_loadings(k).T for k in range(K)]
        return MixtureOfFactorAnalyzers(parameters.weights, parameters.means, loadings, parameters.uniquenesses)

    return made


@pytest.fixture
def model(make):
    return make(3, 4, (0, 1, 2))


def one_feature(**changes):
    """A standard normal distribution of one feature with one factor, or something near it."""
    arguments = {"weights": [1.0], "means": [[0.0]], "loadings": [[[0.6]]], "uniquenesses": [[0.64]]}
    return MixtureOfFactorAnalyzers(**arguments | changes)


def dense_log_joint(model, X):
    """Log joint densities (n, K) from full covariance matrices."""
    columns = []
    for weight, mean, loadings, psi in zip(model.weights, model.means, model.loadings, model.uniquenesses, strict=True):
        density = multivariate_normal(mean, loadings @ loadings.T + np.diag(psi))
        columns.append(np.log(weight) + np.atleast_1d(density.logpdf(X)))
    return np.stack(columns, axis=1)


# ---- densities, responsibilities, scores -----------------------------------------------------------------------------


@shapes
def test_densities_and_responsibilities(K, d, p, n, make, rng):
    model = make(K, d, p)
    X = 3 * rng.standard_normal((n, d))
    log_joint = dense_log_joint(model, X)
    log_density = logsumexp(log_joint, axis=1)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(model.score_samples(X), log_density, rtol=1e-11)
    np.testing.assert_allclose(proba, np.exp(log_joint - log_density[:, None]), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_array_equal(model.predict(X), log_joint.argmax(axis=1))
    assert model.predict(X).dtype == np.intp
    assert model.score(X) == pytest.approx(log_density.mean(), rel=1e-12)


@shapes
def test_factor_scores_and_transform(K, d, p, n, make, rng):
    model = make(K, d, p)
    X = 3 * rng.standard_normal((n, d))
    proba, scores, Z = model.predict_proba(X), model.factor_scores(X), model.transform(X)
    assert [s.shape for s in scores] == [(n, q) for q in p]
    assert Z.shape == (n, K + sum(p))
    reconstructed = np.zeros((n, d))
    parts = np.split(Z[:, K:], np.cumsum(p)[:-1], axis=1)
    np.testing.assert_array_equal(Z[:, :K], proba)
    for k, (loadings, mean) in enumerate(zip(model.loadings, model.means, strict=True)):
        # Regression of the factors on the row: Lambda' Sigma^-1 (x - mu).
        sigma = loadings @ loadings.T + np.diag(model.uniquenesses[k])
        expected = (X - mean) @ np.linalg.solve(sigma, loadings)
        np.testing.assert_allclose(scores[k], expected, rtol=1e-10, atol=1e-11)
        np.testing.assert_array_equal(parts[k], scores[k] * proba[:, k : k + 1])
        reconstructed += proba[:, k : k + 1] * (mean + scores[k] @ loadings.T)
    np.testing.assert_allclose(model.inverse_transform(Z), reconstructed, rtol=1e-11, atol=1e-12)


def test_inverse_transform_is_linear_and_checks_its_argument(model, rng):
    a, b = rng.standard_normal((2, 9, 6))
    both = model.inverse_transform(2 * a - b)
    np.testing.assert_allclose(both, 2 * model.inverse_transform(a) - model.inverse_transform(b), atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(np.eye(6)[:3]), model.means, rtol=1e-15)
    with pytest.raises(ValueError, match="Z has 5 columns, but the model was made for 6"):
        model.inverse_transform(a[:, :5])
    with pytest.raises(ValueError, match="Z has 1 value that is NaN"):
        model.inverse_transform([[np.nan, 0, 0, 0, 0, 0]])


def test_factors_that_explain_nearly_everything_are_reproduced(rng):
    loadings = rng.standard_normal((6, 2))
    model = MixtureOfFactorAnalyzers([1.0], [np.full(6, 5.0)], [loadings], [np.full(6, 1e-10)])
    X = 5.0 + rng.standard_normal((50, 2)) @ loadings.T
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-8)


# ---- what tables may be ----------------------------------------------------------------------------------------------


def tables(X, folder):
    """The whole-numbered table X in many dtypes and layouts."""
    frozen = X.copy()
    frozen.flags.writeable = False
    mapped = np.memmap(folder / "rows", dtype=np.float32, mode="w+", shape=X.shape)
    mapped[:] = X
    return {
        "list": X.tolist(),
        "float32": X.astype(np.float32),
        "int": X.astype(np.int16),
        "object": X.astype(object),
        "Fortran": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "reversed": X[:, ::-1].copy()[:, ::-1],
        "read-only": frozen,
        "big-endian": X.astype(">f8"),
        "memmap": mapped,
    }


def test_dtypes_and_layouts_do_not_matter(model, rng, tmp_path):
    X = rng.integers(-5, 5, (101, 4)).astype(float)
    for name, table in tables(X, tmp_path).items():
        for method in (model.predict, model.predict_proba, model.score_samples, model.transform):
            np.testing.assert_array_equal(method(table), method(X), err_msg=name)
        assert model.bic(table) == model.bic(X)
        for a, b in zip(model.factor_scores(table), model.factor_scores(X), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
    Z = rng.integers(-5, 5, (101, 6)).astype(float)
    for name, table in tables(Z, tmp_path).items():
        np.testing.assert_array_equal(model.inverse_transform(table), model.inverse_transform(Z), err_msg=name)


@pytest.fixture
def long_table(rng):
    """A float32 table that is read in several chunks."""
    X = rng.standard_normal((_CACHE_VALUES // 4 + 777, 4), dtype=np.float32)
    assert X.size > _CACHE_VALUES
    return X


def test_chunks_are_put_together_in_order(model, long_table):
    some = np.r_[0:50, len(long_table) // 2 : len(long_table) // 2 + 50, len(long_table) - 50 : len(long_table)]
    part = long_table[some]
    for method in (model.predict, model.predict_proba, model.score_samples, model.transform):
        np.testing.assert_allclose(method(long_table)[some], method(part), rtol=1e-12, atol=1e-14)
    for a, b in zip(model.factor_scores(long_table), model.factor_scores(part), strict=True):
        np.testing.assert_allclose(a[some], b, rtol=1e-12, atol=1e-14)
    Z = model.transform(long_table)
    np.testing.assert_allclose(model.inverse_transform(Z)[some], model.inverse_transform(Z[some]), rtol=1e-12)
    assert model.score(long_table) == pytest.approx(model.score_samples(long_table).mean(), rel=1e-12)
    weights = np.linspace(0, 1, len(long_table))
    expected = np.average(model.score_samples(long_table), weights=weights)
    assert model.score(long_table, sample_weight=weights) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([[0.0, np.inf, np.nan, 0.0]], ValueError, "X has 1 value that is infinite, the first in row 0, column 1"),
        ([[0.0, 0.0, 0.0]], ValueError, "X has 3 columns, but the model was made for 4"),
        ([0.0, 0.0, 0.0, 0.0], ValueError, "X must have two dimensions"),
        (np.zeros((0, 4)), ValueError, "at least one row"),
        ([["a", "b", "c", "d"]], TypeError, "X has dtype"),
    ],
)
def test_wrong_tables(X, error, message, model):
    for name in ("predict", "predict_proba", "score_samples", "score", "factor_scores", "transform", "bic", "icl"):
        with pytest.raises(error, match=message):
            getattr(model, name)(X)


# ---- far rows, tiny weights ------------------------------------------------------------------------------------------


def test_rows_of_density_zero_keep_the_mixing_weights(make):
    model = make(3, 2, (1, 0, 1))
    X = [[1e200, -1e200], [0.0, 0.0]]
    np.testing.assert_array_equal(model.predict_proba(X)[0], model.weights)
    assert model.predict(X)[0] == model.weights.argmax()
    assert model.score_samples(X)[0] == -np.inf
    assert model.bic(X) == model.icl(X) == np.inf
    assert model.score(X, sample_weight=[0, 1]) == model.score(X[1:])


def test_predict_agrees_with_predict_proba_on_ties():
    model = one_feature(weights=[0.25] * 4, means=[[0.0]] * 4, loadings=[[[1.0]]] * 4, uniquenesses=[[1.0]] * 4)
    X = np.linspace(-40, 40, 501)[:, None]
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))


def test_a_component_of_weight_zero_takes_no_part(rng):
    with_empty = one_feature(weights=[0.0, 1.0], means=[[0.0], [1.0]], loadings=[[[1.0]]] * 2, uniquenesses=[[1.0]] * 2)
    alone = one_feature(means=[[1.0]], loadings=[[[1.0]]], uniquenesses=[[1.0]])
    X = rng.standard_normal((20, 1))
    np.testing.assert_allclose(with_empty.score_samples(X), alone.score_samples(X), rtol=1e-14)
    np.testing.assert_array_equal(with_empty.predict_proba(X)[:, 0], 0)
    assert with_empty.sample(1000, rng)[1].min() == 1
    assert np.isfinite(with_empty.icl(X))


# ---- criteria --------------------------------------------------------------------------------------------------------


def test_number_of_parameters(make):
    # K - 1 + sum of 2 d + d p - p (p - 1) / 2.
    assert make(3, 4, (0, 1, 2)).n_parameters == 2 + 8 + 12 + 15
    assert make(1, 1, (0,)).n_parameters == 2


def test_information_criteria(model, rng):
    X = 3 * rng.standard_normal((200, 4))
    log_joint = dense_log_joint(model, X)
    log_likelihood = logsumexp(log_joint, axis=1).sum()
    h = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    entropy = -(h * np.log(h)).sum()
    bic = -2 * log_likelihood + 37 * np.log(200)
    assert model.bic(X) == pytest.approx(bic, rel=1e-12)
    assert model.aic(X) == pytest.approx(-2 * log_likelihood + 2 * 37, rel=1e-12)
    assert model.icl(X) == pytest.approx(bic + 2 * entropy, rel=1e-12)
    assert entropy > 0.01


@pytest.mark.parametrize("name", ["score", "bic", "aic", "icl"])
def test_weights_are_repetitions(name, model, rng):
    X, weights = 3 * rng.standard_normal((60, 4)), rng.integers(0, 4, 60)
    method = getattr(model, name)
    assert method(X, sample_weight=weights) == pytest.approx(method(np.repeat(X, weights, axis=0)), rel=1e-12)
    assert method(X, sample_weight=np.ones(60)) == pytest.approx(method(X), rel=1e-14)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(59,\), but X has 60 rows"):
        method(X, sample_weight=weights[1:])
    with pytest.raises(ValueError, match="sample_weight must be finite and not negative"):
        method(X, sample_weight=-1.0 - weights)


# ---- sampling --------------------------------------------------------------------------------------------------------


def test_sample_moments(make, rng):
    model, n = make(3, 3, (0, 1, 2)), 60_000
    X, labels = model.sample(n, rng)
    assert X.shape == (n, 3)
    assert labels.shape == (n,)
    assert labels.dtype == np.intp
    counts = np.bincount(labels, minlength=3)
    expected = n * model.weights
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 2)
    for k in range(3):
        mine = X[labels == k]
        sigma = model.covariance(k)
        e = mine.mean(axis=0) - model.means[k]
        assert len(mine) * e @ np.linalg.solve(sigma, e) < chi2.isf(1e-6, 3)
        spread = np.sqrt((np.outer(np.diag(sigma), np.diag(sigma)) + sigma**2) / len(mine))
        assert (np.abs(np.cov(mine.T) - sigma) < 6 * spread).all()
    # Rows in random order: labels of successive rows are independent.
    same = (labels[1:] == labels[:-1]).mean()
    assert same == pytest.approx((model.weights**2).sum(), abs=6 / np.sqrt(n))


def test_sample_random_state(model):
    def draw(state):
        return model.sample(7, state)[0]

    np.testing.assert_array_equal(draw(5), draw(5))
    np.testing.assert_array_equal(draw(5), draw(np.random.default_rng(5)))
    generator, legacy = np.random.default_rng(1), np.random.RandomState(1)
    for state in (generator, legacy, None):
        assert (draw(state) != draw(state)).all()
    np.testing.assert_array_equal(draw(np.random.RandomState(3)), draw(np.random.RandomState(3)))
    for state in ("seed", 1.5, [1.5]):
        message = f"random_state must be None, a whole number or a generator of numpy, got {state!r}"
        with pytest.raises(TypeError, match=re.escape(message)):
            draw(state)
    with pytest.raises(ValueError, match="random_state must not be negative, got -1"):
        draw(-1)


def test_sample_sizes(model):
    for n in (0, 1, np.int64(20), 1001):
        X, labels = model.sample(n, 0)
        assert X.shape == (n, 4)
        assert labels.shape == (n,)
    with pytest.raises(ValueError, match="n must not be negative, got -1"):
        model.sample(-1)
    with pytest.raises(TypeError):
        model.sample(2.5)


class Given(np.random.RandomState):
    """Gives out uniform numbers at the ends of their range."""

    def random(self, n):
        return np.resize([0.0, np.nextafter(1, 0)], n)


def test_the_ends_of_the_range_of_uniform_numbers_find_a_component():
    def equal_but_for(weights):
        K = len(weights)
        return one_feature(
            weights=weights, means=np.zeros((K, 1)), loadings=np.zeros((K, 1, 0)), uniquenesses=np.ones((K, 1))
        )

    np.testing.assert_array_equal(equal_but_for([0, 0.5, 0.5, 0]).sample(2, Given())[1], [1, 2])
    tenths = equal_but_for([0.1] * 10)
    assert np.cumsum(tenths.weights)[-1] == np.nextafter(1, 0)
    np.testing.assert_array_equal(tenths.sample(2, Given())[1], [0, 9])


# ---- construction ----------------------------------------------------------------------------------------------------


def test_attributes(rng):
    weights, means, psi = np.array([0.25, 0.75]), rng.standard_normal((2, 3)), rng.uniform(1, 2, (2, 3))
    loadings = [rng.standard_normal((3, 2)), np.zeros((3, 0))]
    model = MixtureOfFactorAnalyzers(weights, means, loadings, psi)
    assert (model.n_components, model.n_features) == (2, 3)
    np.testing.assert_array_equal(model.n_factors, [2, 0])
    assert model.n_factors.dtype == np.intp
    np.testing.assert_array_equal(model.weights, weights)
    np.testing.assert_array_equal(model.means, means)
    np.testing.assert_array_equal(model.uniquenesses, psi)
    for a, b in zip(model.loadings, loadings, strict=True):
        np.testing.assert_array_equal(a, b)
    for k in range(2):
        np.testing.assert_allclose(
            model.covariance(k), loadings[k] @ loadings[k].T + np.diag(psi[k]), rtol=1e-14, atol=1e-15
        )
        np.testing.assert_array_equal(model.covariance(k), model.covariance(k).T)
    for k in (-1, 2):
        with pytest.raises(IndexError, match=f"there is no component {k}; they are numbered from 0 to 1"):
            model.covariance(k)


def test_arrays_are_copied_and_read_only(model):
    means = np.zeros((1, 1))
    mine = one_feature(means=means)
    means[:] = 9
    assert mine.means[0, 0] == 0
    for array in (model.weights, model.means, model.uniquenesses, model.n_factors, model.at_floor, *model.loadings):
        if array.size:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 1
    for array in (model.weights, model.means, model.uniquenesses, *model.loadings):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    with pytest.raises(AttributeError):
        model.weights = np.ones(3)


def test_weights_are_brought_to_sum_to_one():
    arrays = {"means": [[0.0]] * 3, "loadings": [[[1.0]]] * 3, "uniquenesses": [[1.0]] * 3}
    model = one_feature(weights=np.full(3, 1 / 3, dtype=np.float32), **arrays)
    np.testing.assert_allclose(model.weights, 1 / 3, rtol=1e-15)
    with pytest.raises(ValueError, match=r"weights must sum to 1, got 1\.000002; divide them by their sum"):
        one_feature(weights=np.full(3, 1.000002 / 3), **arrays)


def test_integers_and_lists_are_fine():
    model = one_feature(weights=[1], means=[[0]], loadings=[[[3]]], uniquenesses=[[2]])
    assert model.covariance(0) == 11


TWO = {
    "weights": [0.5, 0.5],
    "means": np.zeros((2, 3)),
    "loadings": np.zeros((2, 3, 1)),
    "uniquenesses": np.ones((2, 3)),
}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"weights": []}, ValueError, "weights must have shape .* at least one component"),
        ({"weights": [[0.5, 0.5]]}, ValueError, r"weights must have shape .* got \(1, 2\)"),
        ({"weights": [1.5, -0.5]}, ValueError, r"weights must be finite and not negative, got -0\.5 for component 1"),
        ({"weights": [np.nan, 1]}, ValueError, "weights must be finite and not negative, got nan for component 0"),
        ({"weights": [0.5, 0.4]}, ValueError, r"weights must sum to 1, got 0\.9; divide them by their sum"),
        ({"weights": ["a", "b"]}, TypeError, "weights must hold real numbers, got dtype <U1"),
        ({"weights": [0.5 + 0j, 0.5]}, TypeError, "weights must hold real numbers, got dtype complex128"),
        ({"weights": [object(), 0.5]}, TypeError, "weights must hold real numbers"),
        ({"means": np.zeros((3, 3))}, ValueError, r"one row for each of the 2 weights; got \(3, 3\)"),
        ({"means": np.zeros(2)}, ValueError, r"means must have shape \(n_components, n_features\).*got \(2,\)"),
        ({"means": np.zeros((2, 0))}, ValueError, r"means must have shape .*got \(2, 0\)"),
        ({"means": [[0.0, 0.0], [0.0]]}, ValueError, "means is not a rectangular array"),
        ({"means": [[0, 0, 0], [0, np.inf, 0]]}, ValueError, "means of component 1 hold NaN or infinite values; drop"),
        ({"uniquenesses": np.ones((2, 2))}, ValueError, r"uniquenesses must have the shape of means, \(2, 3\)"),
        ({"uniquenesses": np.ones((2, 3, 3))}, ValueError, "pass the diagonals only"),
        ({"uniquenesses": [[1, 1, 1], [1, 1, 0]]}, ValueError, r"got 0\.0 for component 1, feature 2; raise it"),
        ({"uniquenesses": [[1, -1, 1], [1, 1, 1]]}, ValueError, r"got -1\.0 for component 0, feature 1"),
        ({"uniquenesses": [[1, 1, 5e-324], [1, 1, 1]]}, ValueError, "component 0, feature 2"),
        ({"uniquenesses": [[1, 1, 1], [1, np.nan, 1]]}, ValueError, "uniquenesses of component 1 hold NaN"),
        ({"loadings": 3.0}, TypeError, "loadings must be a sequence of arrays, .* got float"),
        ({"loadings": np.zeros((3, 3, 1))}, ValueError, "loadings has 3 entries, but weights has 2; pass one"),
        ({"loadings": [np.zeros((3, 1)), np.zeros((1, 3))]}, ValueError, "component 1 .* 3 rows, .* pass the trans"),
        ({"loadings": [np.zeros(3), np.zeros((3, 1))]}, ValueError, r"component 0 .* use reshape\(-1, 1\)"),
        ({"loadings": [[], np.zeros((3, 1))]}, ValueError, r"component 0 .* use numpy\.zeros\(\(3, 0\)\) for no"),
        ({"loadings": [np.zeros((3, 1)), np.full((3, 1), np.nan)]}, ValueError, "loadings of component 1 hold NaN"),
        ({"loadings": [np.zeros((3, 1)), [["a"]] * 3]}, TypeError, "loadings of component 1 must hold real numbers"),
        ({"loadings": np.full((2, 3, 1), 1e200)}, ValueError, "component 0 is numerically singular: its loadings"),
    ],
)  # fmt: skip
def test_errors_name_the_argument_and_the_component(changes, error, message):
    with pytest.raises(error, match=message):
        MixtureOfFactorAnalyzers(**TWO | changes)


# ---- fits, copies, text ----------------------------------------------------------------------------------------------


@pytest.fixture
def report():
    history = (
        Step("start", -1, (0,), 45.0, 46.0, -40.0, 9, True),
        Step("factor", 0, (1,), 44.5, 45.5, -39.0, 11, False),
        Step("split", 0, (0, 2), 30.125, 31.0, -20.0, 12, True),
    )
    return FitReport(-20.0, 31.0, "mml", 50.0, True, np.array([[False, True, False], [False] * 3]), history, 18)


@pytest.fixture
def fitted(rng, random_mixture, report):
    return MixtureOfFactorAnalyzers._from_fit(random_mixture(rng, 2, 3, (0, 2)), report)


def test_what_a_fit_reports(fitted, report):
    for name in ("log_likelihood", "message_length", "criterion", "n_samples", "converged", "history"):
        assert getattr(fitted, name) == getattr(report, name)
    np.testing.assert_array_equal(fitted.at_floor, report.at_floor)
    report.at_floor[:] = True
    assert fitted.at_floor.sum() == 1
    assert not fitted.at_floor.flags.writeable


def test_parameters_of_a_fit_are_copied(rng, random_mixture, report):
    parameters = random_mixture(rng, 2, 3, (0, 2))
    model = MixtureOfFactorAnalyzers._from_fit(parameters, report)
    np.testing.assert_array_equal(model.loadings[1], parameters.loadings.T)
    before = model.means.copy()
    parameters.means[:] = 0
    np.testing.assert_array_equal(model.means, before)


def test_a_model_from_arrays_has_no_report(model):
    assert model.log_likelihood is model.message_length is model.criterion is model.n_samples is None
    assert model.converged is False
    assert model.history == ()
    assert model.at_floor.shape == (3, 4)
    assert not model.at_floor.any()


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, *(lambda m, v=v: pickle.loads(pickle.dumps(m, v)) for v in range(6))]
)
def test_copies(duplicate, fitted, model, rng):
    for original in (fitted, model):
        twin = duplicate(original)
        X = rng.standard_normal((30, original.n_features))
        np.testing.assert_array_equal(twin.transform(X), original.transform(X))
        assert twin.history == original.history
        assert twin.summary() == original.summary()
        for array in (twin.weights, twin.means, twin.uniquenesses, twin.at_floor, *twin.loadings):
            assert not array.flags.writeable
        assert np.shares_memory(twin.means, twin._parameters.buffer)
        assert not np.shares_memory(twin.means, original.means)


def test_summary(fitted, model):
    lines = fitted.summary().splitlines()
    assert lines[0] == "Mixture of 2 factor analysers: 3 features, 18 free parameters"
    assert lines[1] == ("fitted by mml to 50 rows, converged: message length 31.00 nats, log-likelihood -20.00 nats")
    assert lines[3].split("  ")[-1] == "features at floor"
    assert [line.split()[0::2] for line in lines[4:6]] == [["0", "0", "1"], ["1", "2", "0"]]
    assert lines[4].split()[3] == "1.000"
    loadings, psi = fitted.loadings[1], fitted.uniquenesses[1]
    share = (psi / (psi + (loadings**2).sum(axis=1))).mean()
    assert lines[5].split()[3] == f"{share:.3f}"
    assert lines[7] == "search: 2 of 3 steps accepted (nats)"
    assert lines[9].split() == ["0", "start", "1", "0", "45.00", "46.00", "-40.00", "9"]
    assert lines[10].split() == ["2", "split", "0", "2", "0", "2", "30.12", "31.00", "-20.00", "12"]
    assert len(lines) == 11
    assert "search" not in model.summary()
    assert "floor" not in model.summary()


def test_repr(make):
    assert repr(make(2, 3, (1, 0))) == "MixtureOfFactorAnalyzers(n_components=2, n_features=3, n_factors=[1, 0])"
    assert repr(make(40, 1, [0] * 40)).endswith("0, 0, ...])")
    assert len(repr(make(40, 1, [0] * 40))) < 120
