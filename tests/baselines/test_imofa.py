"""IMoFA-L: growth that validation rows decide."""

from itertools import pairwise

import datasets
import numpy as np
import pytest

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


def test_children_have_their_own_parents_loadings(rng):
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


def test_one_row_cannot_be_divided():
    with pytest.raises(ValueError, match="X has one row"):
        imofa([[1.0, 2.0]])
