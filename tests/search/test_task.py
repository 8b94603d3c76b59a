"""What a search is given: units, floors, and prices from the rows and the options."""

import numpy as np
import pytest

import amofa


def rounded(rng):
    """Whole numbers from two groups, far fewer values than rows."""
    return np.round(np.r_[rng.normal(0, 1, 6000), rng.normal(6, 1.5, 4000)])[:, None]


@pytest.mark.parametrize("noise", ["auto", "component", "isotropic"])
def test_rounded_groups_are_not_one_for_each_value(rng, noise):
    X = rounded(rng)
    found = amofa.fit(X, noise=noise)
    assert found.n_components == 2
    for_each = amofa.fit(X, noise=noise, init=np.unique(X, return_inverse=True)[1].ravel())
    assert found.cost < for_each.history[1].cost - 100


def test_a_histogram_is_its_rows(rng):
    X = np.round(rng.normal(size=(5000, 3)))
    model = amofa.fit(X)
    assert model.n_components == 1
    values, counts = np.unique(X, axis=0, return_counts=True)
    histogram = amofa.fit(values, sample_weight=counts)
    assert histogram.history == model.history


def test_what_is_given_as_the_floor_has_no_price(rng):
    """Then narrow components on values may pay."""
    X = rounded(rng)
    assert amofa.fit(X, noise_floor=1e-3).n_components > 2


@pytest.mark.parametrize("d", [1, 3])
def test_narrow_groups_beside_a_far_one(rng, d):
    y = np.repeat([0, 1, 2], 200)
    X = np.array([0.0, 1.0, 100.0])[y][:, None] + rng.normal(0, 0.1, (600, d))
    model = amofa.fit(X)
    assert model.n_components == 3
    assert (np.bincount(y * 3 + model.predict(X)) > 0).sum() == 3
    np.testing.assert_allclose(np.sqrt([model.covariance(k)[0, 0] for k in range(3)]), 0.1, rtol=0.2)


@pytest.mark.parametrize("far", [1e3, 1e8])
def test_a_far_row_hides_no_groups_from_a_start(rng, far):
    y = np.append(np.repeat([0, 1], 150), 2)
    X = np.array([0.0, 10.0, far])[y][:, None] + rng.normal(size=(301, 2))
    model = amofa.fit(X, init=y)
    assert model.predict(X).tolist() in ([*y], [*np.append(1 - y[:-1], 2)])
    assert model.uniquenesses.min() > 0.5
