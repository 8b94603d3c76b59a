"""What all tests of hard inputs share: a fit whose warnings are exactly those expected, and whose model is sound."""

from __future__ import annotations

import re
import tracemalloc
import warnings
from contextlib import contextmanager

import numpy as np

import amofa


def fitted(X, *expected, check=True, **options):
    """The model of a fit that gives exactly the expected warnings, regular expressions, in this order."""
    model, messages = warned(amofa.fit, X, **options)
    assert len(messages) == len(expected), messages
    for message, pattern in zip(messages, expected, strict=True):
        assert re.search(pattern, message), message
    if check:
        check_sound(model, X)
    return model


def warned(function, *arguments, **options):
    """What a function returns, and the messages of its warnings, which are all AmofaWarnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments, **options)
    assert {w.category for w in caught} <= {amofa.AmofaWarning}, [str(w.message) for w in caught]
    return result, [str(w.message) for w in caught]


def fitted_with(n_components, X, **options):
    """The model of a fit that is asked for so many components; if it has fewer, exactly one warning says how many."""
    model, messages = warned(amofa.fit, X, n_components=n_components, **options)
    found, start = model.n_components, f"{n_components} components were asked for, but the search found only"
    assert messages == ([] if found == n_components else [f"{start} {found} that can be told apart"])
    check_sound(model, X)
    return model


def parameters_of(model):
    return (model.weights, model.means, model.uniquenesses, *model.loadings)


def check_sound(model, X):
    """Finite real parameters, positive variances, weights and posteriors that sum to 1, finite density and history."""
    X = np.asarray(X, dtype=np.float64)
    for array in parameters_of(model):
        assert array.dtype == np.float64
        assert np.isfinite(array).all()
    assert (model.uniquenesses > 0).all()
    assert (model.weights > 0).all()
    assert abs(model.weights.sum() - 1) < 1e-12
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert np.isfinite(model.score_samples(X)).all()
    # Rows that are all the same have no search, and so no cost.
    assert all(np.isfinite(step.cost) and np.isfinite(step.log_likelihood) for step in model.history)


def check_equal(a, b):
    """Two models to the last bit."""
    assert a.n_factors.tolist() == b.n_factors.tolist()
    for x, y in zip(parameters_of(a), parameters_of(b), strict=True):
        np.testing.assert_array_equal(x, y)


def same_groups(labels, found):
    """Whether two labellings part the rows in the same way (adjusted Rand index 1)."""
    pairs = set(zip(np.asarray(labels).tolist(), np.asarray(found).tolist(), strict=True))
    return len(pairs) == len(set(np.asarray(labels).tolist())) == len(set(np.asarray(found).tolist()))


def final_cost(model):
    """Of the model that the search ended with, nats."""
    return [step.cost for step in model.history if step.accepted][-1]


def positive_definite(model):
    """Whether every component's covariance, scaled to a correlation matrix, has positive eigenvalues alone."""
    for k in range(model.n_components):
        covariance = model.covariance(k)
        scale = np.sqrt(np.diag(covariance))
        if np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0] <= 0:
            return False
    return True


def blobs(rng, counts, centres, deviation=1.0):
    """Rows and labels of round groups."""
    centres = np.asarray(centres, dtype=np.float64)
    labels = np.repeat(np.arange(len(counts)), counts)
    return centres[labels] + deviation * rng.standard_normal((len(labels), centres.shape[1])), labels


@contextmanager
def peak_memory():
    """Bytes that were in use at most inside of the block, beyond those before it, as the list's only value."""
    peaks = []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield peaks
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
