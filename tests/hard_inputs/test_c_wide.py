"""High dimension, structure of covariance: rows 35 to 39 of docs/hard_inputs.md."""

import numpy as np
import pytest
from cython_calls import Functions
from fits import blobs, check_model, fitted, peak_memory, same_groups, warned
from reference import log_density, log_joint, random_mixture, random_rows

import amofa


def wide_groups(rng, n, d):
    """Two groups with a factor each."""
    labels = np.arange(n) % 2
    X = 0.7 * rng.standard_normal((2, d))[labels] + rng.standard_normal((n, d))
    for k in range(2):
        X[labels == k] += rng.standard_normal((n // 2, 1)) * rng.standard_normal(d)
    return X, labels


# ---- 35 --------------------------------------------------------------------------------------------------------------


def test_35_a_fit_of_few_wide_rows_has_no_square_of_the_columns(rng):
    d = 1200
    X, labels = wide_groups(rng, 24, d)
    with peak_memory() as peak:
        model = fitted(X, check=False)
    assert peak[0] < 8 * d * d
    check_model(model, X)
    assert same_groups(labels, model.predict(X))


def test_35_no_method_of_a_model_has_a_square_of_the_columns(rng):
    K, d, q, n = 2, 800, 5, 20
    model = amofa.MixtureOfFactorAnalyzers(
        [0.5, 0.5], rng.standard_normal((K, d)), rng.standard_normal((K, d, q)), rng.uniform(0.5, 1, (K, d))
    )
    X, _ = model.sample(n, random_state=0)
    holes = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    holes[1:] = holes[0] * 0 + X[1:]  # one pattern for all rows
    with peak_memory() as peak:
        density, scores = model.score_samples(X), model.factor_scores(X)
        model.predict_proba(X)
        model.bic(X)
        model.inverse_transform(model.transform(X))
        model.impute(holes)
        model.condition(list(range(d // 2)), X[0, : d // 2])
        model.sample(n, random_state=1)
    assert peak[0] < 8 * d * d
    assert [s.shape for s in scores] == [(n, q)] * K
    np.testing.assert_allclose(density, log_density(X, model._parameters.components()), rtol=1e-9)


@pytest.mark.xfail(
    reason="with more rows than columns an M-step has the covariance matrix of every component, K d^2 numbers, and "
    "its eigenvectors, d^3 operations"
)
def test_35_a_fit_of_many_wide_rows_has_no_square_of_the_columns(rng):
    d = 500
    X, _ = wide_groups(rng, 600, d)
    with peak_memory() as peak:
        fitted(X, n_components=1, n_factors=5, max_iter=3, tol=1.0, check=False)
    assert peak[0] - 2 * X.nbytes < 8 * d * d


# ---- 36 --------------------------------------------------------------------------------------------------------------


def test_36_states_of_a_hidden_markov_model_from_compiled_code(rng):
    """Low rank and diagonal emissions of four states, by the functions that another Cython module imports."""
    states = random_mixture(rng, 4, 50, [2, 1, 3, 0])
    X, components = random_rows(rng, states, 30), states.components()
    (n, d), K, P, c = X.shape, 4, 6, Functions()
    mixture = np.empty(c.mixture_size(K, d, states.offsets))
    arrays = states.offsets, states.weights, states.means, states.loadings, states.uniquenesses
    assert c.prepare_mixture(K, d, *arrays, mixture) == 0
    density, joint, r, scores = (np.empty(shape) for shape in ((n,), (K, n), (K, n), (P, n)))
    work = np.empty(c.rows_work_size(mixture))
    assert c.posterior(mixture, n, X, d, 1, density, joint, r, scores, work) == 0
    np.testing.assert_allclose(joint.T, log_joint(X, components), rtol=1e-10)
    np.testing.assert_allclose(density, log_density(X, components), rtol=1e-10)
    np.testing.assert_allclose(r.sum(axis=0), 1.0, atol=1e-12)


# ---- 37 --------------------------------------------------------------------------------------------------------------


def test_37_one_search_over_all_numbers_of_components(rng):
    X, labels = blobs(rng, [500] * 10, [(8 * (k % 4), 8 * (k // 4)) for k in range(10)])
    model = fitted(X)
    assert same_groups(labels, model.predict(X))
    actions = [step.action for step in model.history]
    assert actions.count("start") == 1  # and no clustering of all rows anew for each number
    numbers = [step.n_components for step in model.history if step.accepted]
    assert np.diff(numbers).max() > 1  # splits of several components at once


# ---- 38 --------------------------------------------------------------------------------------------------------------


def two_identifiers(rng, n):
    """Two one-hot columns whose levels are all distinct, and a number: (n, 2 n + 1)."""
    return np.hstack([rng.standard_normal((n, 1)), np.eye(n), np.eye(n)[rng.permutation(n)]])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
def test_38_identifiers_as_one_hot_columns(rng, dtype):
    X = two_identifiers(rng, 100).astype(dtype)
    model = fitted(X)
    assert model.n_components <= 2


def test_38_the_cost_of_a_wide_table_can_be_bounded(rng):
    """A search of 3000 rows and 6001 columns takes twenty minutes of a core; one component takes two."""
    X = two_identifiers(rng, 300)
    with peak_memory() as peak:
        model = fitted(X, max_components=1)
    assert model.n_components == 1
    assert [step.action for step in model.history if step.action == "split"] == []
    assert peak[0] < 12 * X.nbytes
    stopped, messages = warned(amofa.fit, X, callback=lambda step: True)
    assert messages == []
    assert stopped.n_components == 1
