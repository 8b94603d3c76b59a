"""What a model knows without rows: its arrays, draws, the report of a fit, copies and text."""

import copy
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from reference import random_mixture
from scipy.stats import chi2

from amofa.history import FitReport, Step
from amofa.mixture import MixtureOfFactorAnalyzers


@pytest.fixture
def model(make_model):
    return make_model(3, 4, (0, 1, 2))


def one_feature(**changes):
    """A standard normal distribution of one feature with one factor, or something near it."""
    arguments = {"weights": [1.0], "means": [[0.0]], "loadings": [[[0.6]]], "uniquenesses": [[0.64]]}
    return MixtureOfFactorAnalyzers(**arguments | changes)


# ---- sampling --------------------------------------------------------------------------------------------------------


def test_sample_moments(make_model, rng):
    model, n = make_model(3, 3, (0, 1, 2)), 60_000
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
    at_floor = np.array([[False, True, False], [False] * 3])
    return FitReport(-20.0, 31.0, "bic", 50.0, True, at_floor, history, 18, cost=30.125)


@pytest.fixture
def fitted(rng, report):
    return MixtureOfFactorAnalyzers._from_fit(random_mixture(rng, 2, 3, (0, 2)), report)


def test_what_a_fit_reports(fitted, report):
    for name in ("cost", "log_likelihood", "message_length", "criterion", "n_samples", "converged", "history", "noise"):
        assert getattr(fitted, name) == getattr(report, name)
    np.testing.assert_array_equal(fitted.at_floor, report.at_floor)
    report.at_floor[:] = True
    assert fitted.at_floor.sum() == 1
    assert not fitted.at_floor.flags.writeable


def test_parameters_of_a_fit_are_copied(rng, report):
    parameters = random_mixture(rng, 2, 3, (0, 2))
    model = MixtureOfFactorAnalyzers._from_fit(parameters, report)
    np.testing.assert_array_equal(model.loadings[1], parameters.loadings.T)
    before = model.means.copy()
    parameters.means[:] = 0
    np.testing.assert_array_equal(model.means, before)


def test_a_model_from_arrays_has_no_report(model):
    assert model.cost is model.log_likelihood is model.message_length is model.criterion is model.n_samples is None
    assert model.noise is None
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
    assert lines[1] == "fitted by bic to 50 rows, converged: cost 30.12 nats, log-likelihood -20.00 nats"
    assert lines[3].split("  ")[-1] == "features at floor"
    assert [line.split()[0::2] for line in lines[4:6]] == [["0", "0", "1"], ["1", "2", "0"]]
    assert lines[4].split()[3] == "1.000"
    loadings, psi = fitted.loadings[1], fitted.uniquenesses[1]
    share = (psi / (psi + (loadings**2).sum(axis=1))).mean()
    assert lines[5].split()[3] == f"{share:.3f}"
    assert lines[7] == "mean ± standard deviation, of each component"
    assert [line.split()[0] for line in lines[8:12]] == ["column", "x0", "x1", "x2"]
    assert lines[13] == "search: 2 of 3 steps accepted (nats)"
    assert lines[15].split() == ["0", "start", "1", "0", "45.00", "-40.00", "9"]
    assert lines[16].split() == ["2", "split", "0", "2", "0", "2", "30.12", "-20.00", "12"]
    assert len(lines) == 17
    assert "search" not in model.summary()
    assert "floor" not in model.summary()


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"criterion": "mml"}, "cost 30.12 nats, message length 31.00 nats, log-likelihood -20.00 nats"),
        ({"cost": math.nan, "converged": False}, "log-likelihood -20.00 nats"),
    ],
)
def test_summary_shows_the_message_length_where_it_was_minimised_and_no_unknown_cost(changes, shown, fitted):
    report = replace(fitted._report, **changes)
    summary = MixtureOfFactorAnalyzers._from_fit(fitted._parameters, report).summary()
    assert summary.splitlines()[1].partition(": ")[2] == shown


def test_repr(make_model):
    assert repr(make_model(2, 3, (1, 0))) == "MixtureOfFactorAnalyzers(n_components=2, n_features=3, n_factors=[1, 0])"
    assert repr(make_model(40, 1, [0] * 40)).endswith("0, 0, ...])")
    assert len(repr(make_model(40, 1, [0] * 40))) < 120
