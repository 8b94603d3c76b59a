"""Fits that give exactly the expected warnings, rows to fit, and checks of models."""

import math
import re
import tracemalloc
import warnings
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

import amofa
from amofa._noise import Noise

SEARCHES = ("thorough", "paper")
NOISES = tuple(kind for kind in Noise if not kind.is_joint)
JOINT_NOISES = tuple(kind for kind in Noise if kind.is_joint)
# Actions of the default search that are kept if they lower the cost.
MOVES = ("split", "merge", "overshoot", "exchange")

# ---- fits ------------------------------------------------------------------------------------------------------------


def fitted(X, *expected, check=True, **options):
    """Fit a model, and check that the warnings match the regular expressions in this order."""
    model, messages = warned(amofa.fit, X, **options)
    assert len(messages) == len(expected), messages
    for message, pattern in zip(messages, expected, strict=True):
        assert re.search(pattern, message), message
    if check:
        check_model(model, X, options.get("sample_weight"))
    return model


def fitted_with(n_components, X, **options):
    """Fit a given number of components; if the model has fewer, check that exactly one warning says how many."""
    model, messages = warned(amofa.fit, X, n_components=n_components, **options)
    found, start = model.n_components, f"{n_components} components were asked for, but the search found only"
    assert messages == ([] if found == n_components else [f"{start} {found} that can be told apart"])
    check_model(model, X)
    return model


def warned(function, *arguments, **options):
    """Return the result of a function and the messages of its warnings, AmofaWarnings that point to this line.

    Those of odd columns, which the tables have on purpose, are left out.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", amofa.DataWarning)
        result = function(*arguments, **options)
    assert {(w.category, w.filename) for w in caught} <= {(amofa.AmofaWarning, __file__)}, [str(w) for w in caught]
    return result, [str(w.message) for w in caught]


# ---- checks ----------------------------------------------------------------------------------------------------------


def parameters_of(model):
    """Return all arrays of parameters."""
    return (model.weights, model.means, model.uniquenesses, *model.loadings)


def check_model(model, X, sample_weight=None):
    """Finite parameters, positive uniquenesses, weights and posteriors that sum to 1, and figures that agree."""
    X = np.asarray(X, dtype=np.float64)
    assert model.n_features == X.shape[1]
    for array in parameters_of(model):
        assert array.dtype == np.float64
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
    total = density.sum() if sample_weight is None else density @ sample_weight
    assert model.log_likelihood == pytest.approx(total, rel=1e-9, abs=1e-9 * len(X))
    # Rows that are all the same have no search, and so no cost.
    assert np.isfinite([model.cost, model.message_length]).all() or not model.history
    assert all(np.isfinite([step.cost, step.log_likelihood]).all() for step in model.history)


def check_costs_fall(history, slack=1e-3):
    """Moves of the default search that are kept pay, and neither "share" nor the first "refine" loses what was found.

    Mixtures to start from may cost anything. More EM of a model, or sharing its noise, may cost the slack, in nats.
    """
    kept = [step for step in history if step.accepted]
    best, is_refined = math.inf, False
    for before, after in pairwise(kept):
        best = min(best, before.cost)
        if after.action in MOVES:
            assert after.cost < before.cost
        elif after.action != "start" and not is_refined:
            assert after.cost <= best + slack
            is_refined = after.action == "refine"


def check_equal(a, b):
    """Two models to the last bit."""
    assert a.n_factors.tolist() == b.n_factors.tolist()
    for x, y in zip(parameters_of(a), parameters_of(b), strict=True):
        np.testing.assert_array_equal(x, y)


def check_same(a, b):
    """Two models to the last bit, with what they say of their fits."""
    check_equal(a, b)
    assert a.n_samples == b.n_samples
    assert a.log_likelihood == b.log_likelihood
    np.testing.assert_equal(a.cost, b.cost)
    assert a.history == b.history


def same_groups(labels, found):
    """Return whether two labellings are the same partition (adjusted Rand index 1)."""
    pairs = set(zip(np.asarray(labels).tolist(), np.asarray(found).tolist(), strict=True))
    return len(pairs) == len(set(np.asarray(labels).tolist())) == len(set(np.asarray(found).tolist()))


def positive_definite(model):
    """Return whether the correlation matrix of every component has only positive eigenvalues."""
    for k in range(model.n_components):
        covariance = model.covariance(k)
        scale = np.sqrt(np.diag(covariance))
        if np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0] <= 0:
            return False
    return True


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


# ---- rows ------------------------------------------------------------------------------------------------------------


def two_groups(rng, d=3, n=300):
    """Draw rows of two clearly separated groups, a third of them in the first."""
    X = rng.standard_normal((n, d))
    X[n // 3 :] += 6
    return X


def blobs(rng, counts, centres, deviation=1.0):
    """Draw rows and labels of round groups."""
    centres = np.asarray(centres, dtype=np.float64)
    labels = np.repeat(np.arange(len(counts)), counts)
    return centres[labels] + deviation * rng.standard_normal((len(labels), centres.shape[1])), labels


def collinear(rng):
    """Four columns, the third the sum of the first two, the fourth twice the first."""
    a = rng.standard_normal((200, 2))
    return np.column_stack([a, a.sum(axis=1), 2 * a[:, 0]])
