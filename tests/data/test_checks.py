"""Arguments of models and fits that once ended in something else than an error that says what is wrong."""

import numpy as np
import pytest

import amofa
from amofa._data.checks import check_random_state, check_table, check_weights


@pytest.fixture
def model():
    return amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [1.0]], [np.zeros((1, 0))] * 2, [[1.0], [1.0]])


@pytest.mark.parametrize("position", [0, 1, 3])
def test_whole_numbers_beyond_float_in_models(position):
    arguments = [[1.0], [[0.0]], [[[1.0]]], [[1.0]]]
    arguments[position] = [[10**400]] if position else [10**400]
    name = ("weights", "means", "", "uniquenesses")[position]
    with pytest.raises(ValueError, match=f"{name} holds a whole number that is too large"):
        amofa.MixtureOfFactorAnalyzers(*arguments)


def test_whole_numbers_beyond_float_in_tables(model):
    for call in (model.predict, amofa.fit, check_table):
        with pytest.raises(ValueError, match="X holds a whole number that is too large"):
            call([[10**400], [1.0]])


@pytest.mark.parametrize("name", ["tol", "noise_floor"])
def test_whole_numbers_beyond_float_in_options(name):
    with pytest.raises((ValueError, TypeError), match=name):
        amofa.fit(np.arange(9.0)[:, None], **{name: 10**400})


def test_floats_beyond_float64_are_infinite_without_a_warning(model):
    # Where long doubles are no longer than doubles, this is infinite from the start.
    huge = np.array([np.longdouble(10) ** 400])
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        check_weights(huge, 1)
    with pytest.raises(ValueError, match="means of component 0 hold NaN or infinite values"):
        amofa.MixtureOfFactorAnalyzers([1.0], huge[None], [[[1.0]]], [[1.0]])


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_row_weights_of_any_size(rng, size):
    X = rng.standard_normal((40, 2)) + np.repeat([[0.0], [9.0], [30.0]], [20, 10, 10], axis=0)
    model = amofa.fit(X, sample_weight=size * rng.uniform(0.5, 1.0, 40))
    assert np.isfinite(model.log_likelihood)


def test_a_floor_beyond_float(rng):
    X = 1e150 * rng.standard_normal((12, 2))
    with pytest.raises(ValueError, match=r"noise_floor makes the smallest uniqueness of column 0 of X inf, but"):
        amofa.fit(X, noise_floor=1e149)


def test_a_matrix_as_random_state(model):
    """numpy.random.default_rng ends the process on it."""
    seed = np.array([[1, 2]]).view(np.matrix)
    X, _ = model.sample(3, seed)
    np.testing.assert_array_equal(X, model.sample(3, [1, 2])[0])
    assert isinstance(check_random_state(seed), np.random.Generator)
