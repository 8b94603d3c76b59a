"""The plane that rows are looked at in."""

import numpy as np
import pytest
from plot_helpers import Mixture

from amofa.plot._plane import discriminating_directions, make_view


def dense_covariance(model):
    """Of the whole mixture."""
    mean = model.weights @ model.means
    return sum(
        w * (model.covariance(k) + np.outer(m - mean, m - mean))
        for k, (w, m) in enumerate(zip(model.weights, model.means, strict=True))
    )


def gain(model, directions):
    """Nats by which a Gaussian for each component is better than one for all, no component narrower than a tenth.

    A twentieth of the variance of each column is added to it as noise.
    """
    noise = 0.05 * np.diag(np.diag(dense_covariance(model)))
    whole = directions @ (dense_covariance(model) + noise) @ directions.T
    parts = [directions @ (model.covariance(k) + noise) @ directions.T for k in range(model.n_components)]
    return np.linalg.slogdet(whole)[1] - sum(
        w * np.linalg.slogdet(0.99 * part + 0.01 * whole)[1] for w, part in zip(model.weights, parts, strict=True)
    )


def test_columns_are_the_view(space, rng):
    X = rng.normal(size=(4, 5))
    view = make_view(space, (3, "b"))
    np.testing.assert_array_equal(view.points(X), X[:, [3, 1]])
    assert view.labels == ("d", "b")
    for k in range(3):
        np.testing.assert_allclose(view.covariances[k], space.covariance(k)[np.ix_([3, 1], [3, 1])], rtol=1e-12)


def test_the_plane_of_a_mixture(space, rng):
    view = make_view(space, None)
    directions = view.directions
    np.testing.assert_allclose(directions @ dense_covariance(space) @ directions.T, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(view.means, space.means @ directions.T, rtol=1e-10, atol=1e-10)
    for k in range(3):
        np.testing.assert_allclose(view.covariances[k], directions @ space.covariance(k) @ directions.T, rtol=1e-10)
    best = gain(space, directions)
    assert all(gain(space, rng.normal(size=(2, 5))) < best for _ in range(200))
    # The best of all: no plane nearby is better.
    assert all(gain(space, directions + 1e-2 * rng.normal(size=(2, 5)) * directions.std()) < best for _ in range(50))


def test_the_plane_does_not_depend_on_units(space):
    units = np.array([1e-6, 1.0, 1e6, 3.0, 1e-3])
    scaled = Mixture(
        space.weights, space.means * units, [w * units[:, None] for w in space.loadings], space.uniquenesses * units**2
    )
    np.testing.assert_allclose(make_view(scaled, None).means, make_view(space, None).means, atol=1e-4)


def test_components_of_the_same_centre_are_told_apart_by_their_spread():
    model = Mixture([0.5, 0.5], np.zeros((2, 4)), [np.zeros((4, 0))] * 2, [[1, 1, 1, 1], [1, 1, 25, 1]])
    directions = make_view(model, None).directions * np.sqrt(np.diag(dense_covariance(model)))
    assert np.abs(directions[:, 2]).max() > 0.99


def test_the_plane_of_one_component_is_of_its_principal_axes(rng):
    model = Mixture([1.0], np.zeros((1, 6)), [rng.normal(size=(6, 2))], [np.full(6, 0.1)])
    covariance = model.covariance(0)
    scale = np.sqrt(np.diag(covariance))
    found = np.linalg.qr(discriminating_directions(model, scale).T)[0]
    leading = np.linalg.eigh(covariance / scale / scale[:, None])[1][:, -2:]
    np.testing.assert_allclose(np.linalg.svd(found.T @ leading)[1], 1.0, atol=1e-6)


def test_the_plane_of_many_columns(rng, monkeypatch):
    """Looked for in the span of means and loadings: with shared uniquenesses, where the best plane is."""
    model = Mixture(
        [0.5, 0.3, 0.2], 3 * rng.normal(size=(3, 12)), [rng.normal(size=(12, 1)) for _ in range(3)], np.ones((3, 12))
    )
    full = make_view(model, None).directions
    monkeypatch.setattr("amofa.plot._plane._WIDE", 10)
    narrow = make_view(model, None).directions
    assert gain(model, narrow) == pytest.approx(gain(model, full), rel=1e-4)


def test_a_few_rows_far_away_do_not_decide_the_plane():
    means = [[0, 0, 0, 0], [0, 6, 0, 0], [0, 0, 6, 0], [300, 0, 0, 300]]
    model = Mixture([0.4, 0.3, 0.29, 0.01], means, [np.zeros((4, 0))] * 4, np.ones((4, 4)))
    directions = make_view(model, None).directions
    assert np.abs(directions[:, [0, 3]]).max() < 0.01 * np.abs(directions[:, [1, 2]]).min(axis=1).max()


def test_differences_of_near_copies_do_not_decide_the_plane(rng):
    """Two groups differ in the size of three copies; a third is wider in what the copies differ by."""
    means = np.array([[0.0] * 4, [5.0, 5.0, 5.0, 0.0], [5.0, 5.0, 5.0, 6.0]])
    copies = np.array([[1.0], [1.0], [1.0], [0.0]])
    model = Mixture([0.4, 0.4, 0.2], means, [copies] * 3, [[1e-4] * 3 + [1], [1e-4] * 3 + [1], [1e-2] * 3 + [1]])
    X = model.sample(300, 0)[0]
    points = make_view(model, None).points(X)
    # Both directions have the size of the columns themselves, not that of their differences.
    assert np.abs(np.corrcoef(np.column_stack([points, X]).T)[:2, 2:]).max(axis=1).min() > 0.7


def test_axes_of_the_plane_name_their_largest_columns(space):
    labels = make_view(space, None).labels
    assert labels[0].startswith("direction 1: ")
    assert " b" in labels[0] + labels[1]
    assert " d" in labels[0] + labels[1]
