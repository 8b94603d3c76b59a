"""Models that are drawn."""

import datasets
import numpy as np
import pytest

import amofa
from amofa import MixtureOfFactorAnalyzers as Mixture


@pytest.fixture
def plane():
    """Two components in two columns, the second with the same centre as none."""
    return Mixture([0.75, 0.25], [[0, 0], [9, 1]], [[[1.0], [0.5]], np.zeros((2, 0))], [[1, 1], [1, 4]])


@pytest.fixture
def space(rng):
    """Three components of two, one and no factors in five columns, far apart in the second and fourth."""
    means = np.zeros((3, 5))
    means[1, 1] = means[2, 3] = 20
    loadings = [rng.normal(size=(5, p)) for p in (2, 1, 0)]
    return Mixture([0.5, 0.3, 0.2], means, loadings, np.ones((3, 5)), feature_names=["a", "b", "c", "d", "e"])


@pytest.fixture
def searched(rng):
    """Rows, model and steps of a search."""
    X, _ = datasets.example_2(rng)
    steps = []
    return X, amofa.fit(X, callback=steps.append), steps
