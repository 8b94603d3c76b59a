"""Weighted Mardia moments against dense algebra and the normal distribution."""

import numpy as np
import pytest
import reference
from fuzz_kernels import read_only
from reference import SHAPES, random_mixture, random_rows, relative_error

from amofa._data.row_chunks import Samples
from amofa._kernels import _kurtosis
from amofa._parameters import Evaluator

TOLERANCE = 1e-12


def accumulate(parameters, x, weights=None):
    """Soft counts and fourth moments of rows x (n, d)."""
    mixture = Evaluator(parameters)
    counts, fourth = np.zeros(parameters.n_components), np.zeros(parameters.n_components)
    _kurtosis.accumulate_kurtosis(
        np.ascontiguousarray(x.T), weights, parameters.offsets, mixture.prepared, counts, fourth, mixture.work
    )
    return counts, fourth


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
def test_moments_match_dense_algebra(rng, K, d, factors, n, weighted):
    parameters = random_mixture(rng, K, d, factors)
    x, weights = random_rows(rng, parameters, n), rng.uniform(0, 2, n) if weighted else None
    mixture = parameters.components()
    counts, fourth = accumulate(parameters, x, weights)
    h = reference.weighted_responsibilities(x, weights, mixture)
    assert relative_error(counts, h.sum(axis=0)) < TOLERANCE
    assert relative_error(fourth, reference.fourth_moments(x, weights, mixture)) < TOLERANCE


@pytest.mark.parametrize("noise", [1e-4, 1e-8])
def test_ill_conditioned_component(rng, noise):
    parameters = random_mixture(rng, 1, 2, 1)
    parameters.uniquenesses[:] *= noise
    x = random_rows(rng, parameters, 5)
    c = parameters.component(0)
    distances = 2 * (reference.log_constant(c) - np.array([reference.exact_log_joint(row, c) for row in x]))
    assert accumulate(parameters, x)[1][0] == pytest.approx((distances**2).sum(), rel=1e-6)


def test_standardised_kurtosis_tells_flat_from_heavy_tailed(rng):
    parameters = random_mixture(rng, 1, 2, 0)
    parameters.means[:], parameters.uniquenesses[:] = 0.0, 1.0
    flat = rng.uniform(-np.sqrt(3), np.sqrt(3), (2000, 2))
    heavy = rng.standard_t(5, (2000, 2)) / np.sqrt(5 / 3)
    assert Samples(flat).kurtosis_z(parameters)[0] < -4
    assert Samples(heavy).kurtosis_z(parameters)[0] > 4


@pytest.mark.parametrize("weighted", [False, True])
def test_standardised_kurtosis_matches_dense_algebra(rng, weighted):
    parameters = random_mixture(rng, 3, 4, [0, 1, 2])
    x, weights = random_rows(rng, parameters, 500), rng.uniform(0, 2, 500) if weighted else None
    expected = reference.kurtosis_z(x, weights, parameters.components())
    assert relative_error(Samples(x, weights=weights).kurtosis_z(parameters), expected) < TOLERANCE


# ---- additivity, edges -----------------------------------------------------------------------------------------------


@pytest.fixture
def problem(rng):
    """Parameters, rows and row weights, some of them 0."""
    parameters = random_mixture(rng, 3, 5, [0, 1, 3])
    return parameters, random_rows(rng, parameters, 700), np.maximum(rng.uniform(-1, 2, 700), 0)


def test_two_parts_add_up_to_the_whole(problem):
    parameters, x, w = problem
    parts = np.add(accumulate(parameters, x[:300], w[:300]), accumulate(parameters, x[300:], w[300:]))
    assert relative_error(parts, accumulate(parameters, x, w)) < 1e-13


def test_weight_two_is_the_row_twice_and_zero_is_absence(problem):
    parameters, x, w = problem
    x[w == 0] *= 1e200
    kept = np.concatenate([x[w > 0]] * 2)
    doubled = accumulate(parameters, x, np.where(w > 0, 2.0, 0.0))
    assert relative_error(doubled, accumulate(parameters, kept)) < 1e-13


def test_far_rows_give_no_nan(problem):
    parameters, x, w = problem
    assert np.isfinite(accumulate(parameters, 1e6 * x, w)).all()
    x[0], w[0] = 1e200, 1.0
    counts, fourth = accumulate(parameters, x, w)
    assert np.isfinite(counts).all()
    assert (fourth == np.inf).all()


# ---- arguments -------------------------------------------------------------------------------------------------------


def arguments(**changes):
    """Valid arguments for K = 2, d = 3, factors (1, 2), n = 5, with changes."""
    parameters = random_mixture(np.random.default_rng(0), 2, 3, [1, 2])
    mixture = Evaluator(parameters)
    valid = {
        "x": np.ones((3, 5)),
        "row_weights": np.ones(5),
        "offsets": parameters.offsets,
        "prepared": mixture.prepared,
        "soft_counts": np.zeros(2),
        "fourth": np.zeros(2),
        "work": mixture.work,
    }
    return valid | changes


def test_input_may_be_read_only_and_weights_left_out():
    valid = arguments()
    names = ("x", "row_weights", "offsets", "prepared")
    _kurtosis.accumulate_kurtosis(**valid | {name: read_only(valid[name]) for name in names})
    _kurtosis.accumulate_kurtosis(**arguments(row_weights=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.ones((4, 5))}, "prepared has the wrong length"),
        ({"x": np.ones((0, 5))}, "prepared has the wrong length"),
        ({"x": np.ones((3, 6))}, "row_weights must have one entry per row"),
        ({"x": np.ones((5, 3)).T}, "not C-contiguous"),
        ({"row_weights": np.ones(4)}, "row_weights must have one entry per row"),
        ({"offsets": np.array([], np.intp)}, "offsets must start with 0"),
        ({"offsets": np.array([0, 4, 3])}, "offsets must not decrease"),
        ({"prepared": np.ones(5)}, "prepared has the wrong length"),
        ({"soft_counts": np.zeros(3)}, "soft_counts and fourth must have one entry per component"),
        ({"fourth": np.zeros(1)}, "soft_counts and fourth must have one entry per component"),
        ({"fourth": read_only(np.zeros(2))}, "read-only"),
        ({"work": np.ones(5)}, "work is too short"),
    ],
)
def test_wrong_buffers_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        _kurtosis.accumulate_kurtosis(**arguments(**changes))


@pytest.mark.parametrize("name", ["x", "offsets", "prepared", "soft_counts", "fourth", "work"])
def test_none_is_refused(name):
    with pytest.raises(TypeError, match=f"'{name}' must not be None"):
        _kurtosis.accumulate_kurtosis(**arguments(**{name: None}))
