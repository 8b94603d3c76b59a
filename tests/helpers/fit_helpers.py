"""Rows to fit, and checks of the model that comes out."""

from __future__ import annotations

import numpy as np
import pytest

import amofa


def two_groups(rng, d=3, n=300):
    """Rows of two groups, a third in the first, that nobody would take for anything else."""
    X = rng.standard_normal((n, d))
    X[n // 3 :] += 6
    return X


def check_model(model, X):
    """Finite parameters, positive uniquenesses, weights and posteriors that sum to 1, and figures that agree."""
    X = np.asarray(X, dtype=np.float64)
    assert model.n_features == X.shape[1]
    for array in (model.weights, model.means, model.uniquenesses, *model.loadings):
        assert np.isfinite(array).all()
    assert (model.uniquenesses > 0).all()
    assert (model.weights > 0).all()
    assert model.weights.sum() == pytest.approx(1.0, abs=1e-12)
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), model.n_components)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    density = model.score_samples(X)
    assert np.isfinite(density).all()
    assert model.log_likelihood == pytest.approx(density.sum(), rel=1e-9, abs=1e-9 * len(X))
    assert np.isfinite(model.message_length)
    assert all(np.isfinite(step.cost) for step in model.history)


def check_same(a, b):
    """Two models to the last bit."""
    assert a.n_factors.tolist() == b.n_factors.tolist()
    for name in ("weights", "means", "uniquenesses"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for left, right in zip(a.loadings, b.loadings, strict=True):
        np.testing.assert_array_equal(left, right)
    assert a.log_likelihood == b.log_likelihood
    assert a.history == b.history


def caught(X, **options):
    """The model and the messages of the AmofaWarnings of a fit."""
    with pytest.warns(amofa.AmofaWarning) as record:
        model = amofa.fit(X, **options)
    # They point to the caller's line.
    assert all(warning.filename == __file__ for warning in record)
    return model, [str(warning.message) for warning in record]


def collinear(rng):
    """Four columns, the third the sum of the first two, the fourth twice the first."""
    a = rng.standard_normal((200, 2))
    return np.column_stack([a, a.sum(axis=1), 2 * a[:, 0]])
