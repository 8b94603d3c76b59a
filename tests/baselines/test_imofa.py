"""IMoFA-L: growth that validation rows decide."""

from __future__ import annotations

from itertools import pairwise

import datasets
import numpy as np
import pytest

import amofa
from amofa._em.factor_analysis import principal_axes
from amofa._parameters import Component, Parameters
from amofa.baselines import imofa
from amofa.baselines.imofa import _split


@pytest.fixture
def two_groups(rng):
    """Rows (n, d) of two factor analysers far apart, shuffled."""
    X, labels = datasets.factor_analysers(rng, 6, [1, 2], [300, 300], distance=8.0)
    order = rng.permutation(len(X))
    return X[order], labels[order]


def test_finds_groups_that_are_far_apart(two_groups):
    X, labels = two_groups
    model = imofa(X[::2], validation=X[1::2])
    assert model.n_components >= 2
    predicted = model.predict(X)
    # No component takes rows of both groups.
    assert all(len(set(labels[predicted == k])) <= 1 for k in range(model.n_components))


def test_history_is_minus_the_validation_log_likelihood(two_groups):
    X, _ = two_groups
    model = imofa(X[::2], validation=X[1::2])
    accepted = [step for step in model.history if step.accepted]
    assert accepted[-1].cost == pytest.approx(-model.score_samples(X[1::2]).sum(), rel=1e-9)
    assert model.log_likelihood == pytest.approx(model.score_samples(X[::2]).sum(), rel=1e-9)
    assert all(later.cost < earlier.cost for earlier, later in pairwise(accepted))
    # The search ends because no candidate of the last step is better.
    last = model.history.index(accepted[-1])
    assert all(step.cost >= accepted[-1].cost for step in model.history[last + 1 :])


def test_children_have_their_own_parents_loadings(rng, random_mixture):
    """Also where the parent is not the first component."""
    parents = [
        Component(w, rng.normal(size=4), rng.normal(size=(p, 4)), rng.uniform(0.5, 1.0, 4))
        for w, p in ((0.3, 2), (0.7, 1))
    ]
    covariance = np.cov(rng.normal(size=(4, 50)))
    children = _split(Parameters.from_components(parents), 1, covariance).components()
    assert [len(c.loadings) for c in children] == [2, 1, 1]
    for child in children[1:]:
        np.testing.assert_array_equal(child.loadings, parents[1].loadings)
        np.testing.assert_array_equal(child.uniquenesses, parents[1].uniquenesses)
        assert child.weight == pytest.approx(0.35)
    values, vectors = principal_axes(covariance)
    np.testing.assert_allclose(children[1].mean - children[2].mean, 2 * np.sqrt(values[0]) * vectors[0], rtol=1e-12)
    np.testing.assert_allclose((children[1].mean + children[2].mean) / 2, parents[1].mean, rtol=1e-12)


def test_order_of_rows_does_not_matter(two_groups, rng):
    X, _ = two_groups
    one, two = X[::2], X[1::2]
    first = imofa(one, validation=two)
    other = imofa(one[rng.permutation(len(one))], validation=two[rng.permutation(len(two))])
    np.testing.assert_array_equal(first.n_factors, other.n_factors)
    np.testing.assert_allclose(first.score_samples(X), other.score_samples(X), rtol=1e-6)


def test_units_do_not_matter(two_groups):
    X, _ = two_groups
    scale = np.array([1e-6, 1.0, 1e3, 1e8, 0.1, 7.0])
    first, other = imofa(X), imofa(X * scale + 3.0)
    np.testing.assert_array_equal(first.n_factors, other.n_factors)
    np.testing.assert_array_equal(first.predict(X), other.predict(X * scale + 3.0))


def test_held_out_rows_depend_on_random_state_alone(two_groups):
    X, _ = two_groups
    first, same, other = imofa(X, random_state=1), imofa(X, random_state=1), imofa(X, random_state=2)
    np.testing.assert_array_equal(first.means, same.means)
    assert first.n_samples == 420
    assert not np.array_equal(first.means[0], other.means[0])


def test_limits_are_kept(two_groups):
    X, _ = two_groups
    model = imofa(X, max_components=1, max_factors=0)
    assert model.n_components == 1
    assert model.n_factors.tolist() == [0]
    assert imofa(X, max_components=2, max_factors=1).n_factors.max() == 1


def test_model_can_be_saved(two_groups, tmp_path):
    X, _ = two_groups
    model = imofa(X)
    model.save(tmp_path / "model.npz")
    loaded = amofa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.score_samples(X), model.score_samples(X))
    assert loaded.history == model.history
    assert loaded.criterion == "validation"


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
@pytest.mark.parametrize("case", ["constant column", "fewer rows than columns", "two rows", "all the same"])
def test_degenerate_rows_give_finite_models(rng, case):
    X = rng.normal(size=(40, 5))
    if case == "constant column":
        X[:, 2] = 4.0
    elif case == "fewer rows than columns":
        X = rng.normal(size=(8, 20))
    elif case == "two rows":
        X = X[:2]
    else:
        X = np.ones((10, 3))
    model = imofa(X)
    assert np.isfinite(model.score_samples(X)).all()


def test_constant_columns_are_named(rng):
    X = rng.normal(size=(60, 3))
    X[:, 1] = 2.0
    with pytest.warns(amofa.AmofaWarning, match="1 of 3 columns"):
        imofa(X)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"validation": np.zeros((5, 3))}, ValueError, "validation has 3 columns"),
        ({"validation": [["a", "b"]]}, TypeError, "validation has dtype"),
        ({"validation_share": 1.0}, ValueError, "validation_share must be below 1"),
        ({"validation_share": 0}, ValueError, "validation_share must be positive"),
        ({"max_components": 0}, ValueError, "max_components must be at least 1"),
        ({"max_factors": 1.5}, TypeError, "max_factors must be a whole number"),
        ({"tol": -1.0}, ValueError, "tol must be positive"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1"),
        ({"noise_floor": 0.0}, ValueError, "noise_floor must be positive"),
    ],
)
def test_bad_arguments_are_named(rng, arguments, error, message):
    with pytest.raises(error, match=message):
        imofa(rng.normal(size=(20, 2)), **arguments)


def test_one_row_cannot_be_divided():
    with pytest.raises(ValueError, match="X has one row"):
        imofa([[1.0, 2.0]])
