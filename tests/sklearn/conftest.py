"""Rows for all estimators."""

import pytest
from datasets import factor_analysers


@pytest.fixture
def rows(rng):
    """Rows and labels of two groups with a factor each."""
    X, y = factor_analysers(rng, 4, [1, 1], [90, 60])
    order = rng.permutation(len(X))
    return X[order], y[order]
