"""Reproducibility: rows 50 to 56 of docs/hard_inputs.md."""

import inspect

import numpy as np
import pytest
from fits import blobs, check_equal, fitted, parameters_of, same_groups

import amofa
from amofa.baselines import mfa


@pytest.fixture
def overlapping(rng):
    """Groups that nobody separates without error: where chance would show."""
    X, _ = blobs(rng, [200, 150, 100], [(0, 0, 0), (2.5, 1, 0), (0, 2.5, 1)])
    X[:200] += rng.standard_normal((200, 1)) * [1, 1, -1]
    return X


def test_50_the_number_of_threads(rng, search):
    X, _ = blobs(rng, [30_000, 20_000], 5 * np.eye(2, 6))  # enough for several threads
    X[:, 5] += X[:, 4]
    models = [fitted(X, n_threads=n, max_components=2, search=search, check=False) for n in (1, 2, 3)]
    for model in models[1:]:
        check_equal(model, models[0])
        assert model.history == models[0].history
        np.testing.assert_array_equal(model.predict(X), models[0].predict(X))


def test_51_52_two_runs(overlapping, search):
    models = []
    for state in (1, 2):
        np.random.seed(state)  # noqa: NPY002 - what must not matter
        models.append(fitted(overlapping, search=search))
    check_equal(*models)
    assert models[0].history == models[1].history
    assert "random_state" not in inspect.signature(amofa.fit).parameters


def test_53_restarts_differ_and_are_recorded(overlapping):
    """`fit` has none. Where a baseline draws its starts, all of them are in the history."""
    model = mfa(overlapping, 3, 1, n_starts=8, random_state=3)
    starts = [step for step in model.history if step.action == "start"]
    assert len(starts) == 8
    assert len({round(step.log_likelihood, 6) for step in starts}) > 1
    assert sum(step.accepted for step in starts) >= 1
    assert model.log_likelihood >= max(step.log_likelihood for step in starts) - 1e-3
    check_equal(model, mfa(overlapping, 3, 1, n_starts=8, random_state=3))


@pytest.mark.parametrize("options", [{}, {"n_components": 5}, {"search": "paper"}], ids=str)
def test_54_labels_are_what_the_model_predicts(overlapping, options):
    sklearn = pytest.importorskip("amofa.sklearn")
    estimator = sklearn.AMoFA(**options).fit(overlapping)
    np.testing.assert_array_equal(estimator.labels_, estimator.predict(overlapping))
    np.testing.assert_array_equal(estimator.labels_, estimator.predict_proba(overlapping).argmax(axis=1))
    np.testing.assert_array_equal(estimator.labels_, sklearn.AMoFA(**options).fit_predict(overlapping))
    np.testing.assert_array_equal(estimator.labels_, fitted(overlapping, **options).predict(overlapping))


def test_55_the_order_of_the_rows(rng, overlapping, search):
    separate, _ = blobs(rng, [200, 150, 100], [(0, 0), (9, 0), (0, 9)])
    for X in (separate, overlapping):
        model = fitted(X, search=search)
        assert (np.diff(model.weights) <= 0).all()  # the order of the components
        for order in (np.arange(len(X))[::-1], rng.permutation(len(X))):
            other = fitted(X[order], search=search)
            np.testing.assert_array_equal(other.predict(X[order]), model.predict(X)[order])
            for a, b in zip(parameters_of(other), parameters_of(model), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_55_components_of_equal_weight(rng):
    X = rng.standard_normal((100, 2))
    X = np.concatenate([X + centre for centre in np.array([(0, 0), (9, 0), (0, 9)])])
    labels = np.repeat([0, 1, 2], 100)
    for order in (np.arange(300), np.arange(300)[::-1]):
        model = fitted(X[order])
        assert same_groups(labels[order], model.predict(X[order]))
        np.testing.assert_allclose(model.weights, 1 / 3, rtol=1e-6)


def test_56_draws_have_a_random_state_of_their_own(overlapping):
    model = fitted(overlapping)
    np.testing.assert_array_equal(model.sample(3, random_state=5)[0], model.sample(3, random_state=5)[0])
    assert (model.sample(3)[0] != model.sample(3)[0]).all()
    generator = np.random.default_rng(5)
    first, second = model.sample(3, random_state=generator)[0], model.sample(3, random_state=generator)[0]
    assert (first != second).all()  # a generator goes on
    np.random.seed(5)  # noqa: NPY002 - what must not be touched
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    model.sample(10)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
