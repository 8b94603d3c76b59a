"""The E-step against dense algebra, exact arithmetic and its own invariances."""

import numpy as np
import pytest
import reference
from fuzz_kernels import read_only
from hypothesis import given
from hypothesis import strategies as st
from posterior_helpers import one_component, posterior
from reference import SHAPES, log_error, random_mixture, random_rows, relative_error

from amofa._kernels import _mixture, _posterior
from amofa._parameters import Evaluator

TOLERANCE = 1e-12


def forms(parameters):
    """How the kernel takes the distances of each component, (K,): 0, from residuals 1, in twice the precision 2."""
    K = parameters.n_components
    return Evaluator(parameters).prepared[3 * K : 4 * K]


def check_against_reference(parameters, x):
    mixture, got = parameters.components(), posterior(parameters, x)
    scores = np.concatenate([reference.factor_scores(x, c) for c in mixture], axis=1)
    assert log_error(got.log_joint, reference.log_joint(x, mixture)) < TOLERANCE
    assert log_error(got.log_density, reference.log_density(x, mixture)) < TOLERANCE
    assert relative_error(got.responsibilities, reference.responsibilities(x, mixture), 1.0) < TOLERANCE
    assert relative_error(got.scores, scores) < TOLERANCE


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
def test_matches_dense_algebra(rng, K, d, factors, n):
    parameters = random_mixture(rng, K, d, factors)
    check_against_reference(parameters, random_rows(rng, parameters, n))


@given(data=st.data(), d=st.integers(1, 12), n=st.integers(0, 600), seed=st.integers(0, 2**32 - 1))
def test_matches_dense_algebra_for_any_shape(data, d, n, seed):
    factors = data.draw(st.lists(st.integers(0, d + 2), min_size=1, max_size=6))
    rng = np.random.default_rng(seed)
    parameters = random_mixture(rng, len(factors), d, factors)
    check_against_reference(parameters, random_rows(rng, parameters, n))


def test_one_row_by_hand():
    # Sigma = [[2, 1], [1, 2]], determinant 3; the row (1, 0) has squared distance 2/3.
    got = posterior(one_component([[1.0, 1.0]], [1.0, 1.0]), np.array([[1.0, 0.0]]))
    assert got.log_density[0] == pytest.approx(-np.log(2 * np.pi) - 0.5 * np.log(3) - 1 / 3, rel=1e-15)
    assert got.scores[0, 0] == pytest.approx(1 / 3, rel=1e-15)
    assert got.responsibilities[0, 0] == 1.0


# ---- invariances -----------------------------------------------------------------------------------------------------


def test_a_row_does_not_depend_on_its_neighbours(rng):
    parameters = random_mixture(rng, 3, 9, [0, 2, 5])
    x = random_rows(rng, parameters, 600)
    together = posterior(parameters, x)
    for i in (0, 255, 256, 257, 599):
        alone = posterior(parameters, x[i : i + 1])
        assert log_error(alone.log_joint, together.log_joint[i : i + 1]) < TOLERANCE


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_scaling_the_columns_shifts_log_densities(rng, factor):
    parameters = random_mixture(rng, 3, 4, [0, 1, 2])
    x = random_rows(rng, parameters, 100)
    scaled = parameters.copy()
    scaled.means[:] *= factor
    scaled.loadings[:] *= factor
    scaled.uniquenesses[:] *= factor**2
    a, b = posterior(parameters, x), posterior(scaled, x * factor)
    assert log_error(b.log_density, a.log_density - 4 * np.log(factor)) < TOLERANCE
    assert relative_error(b.scores, a.scores) < TOLERANCE


def test_a_large_offset_costs_no_digit(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    x = np.round(random_rows(rng, parameters, 100) * 1024) / 1024  # a grid on which the shift is exact
    parameters.means[:] = np.round(parameters.means * 1024) / 1024
    shifted = parameters.copy()
    shifted.means[:] += 2.0**30
    np.testing.assert_array_equal(posterior(shifted, x + 2.0**30).log_joint, posterior(parameters, x).log_joint)


# ---- far rows, empty components --------------------------------------------------------------------------------------


@pytest.mark.parametrize("factors", [[2], [1, 2], [0, 1, 3]])
@pytest.mark.parametrize("noise", [1.0, 1e-6])
@pytest.mark.parametrize("distance", [1e3, 1e6, 1e12, 1e100])
def test_far_rows_are_finite(rng, distance, noise, factors):
    parameters = random_mixture(rng, len(factors), 4, factors)
    parameters.uniquenesses[:] *= noise
    got = posterior(parameters, distance * rng.standard_normal((300, 4)))
    assert all(np.isfinite(a).all() for a in got)
    assert relative_error(got.responsibilities.sum(axis=1), np.ones(300)) < 1e-14


@pytest.mark.parametrize("factors", [[2], [1, 2], [0, 1, 3], [3] * 9])
@pytest.mark.parametrize("noise", [1.0, 1e-6])
@pytest.mark.parametrize("value", [1e200, -1e300, 1.7e308])
def test_rows_whose_squares_overflow(rng, value, noise, factors):
    parameters = random_mixture(rng, len(factors), 4, factors)
    parameters.uniquenesses[:] *= noise
    x = random_rows(rng, parameters, 300)
    near = posterior(parameters, x)
    x[[0, 100, 299]] = value
    got = posterior(parameters, x)
    far = np.isin(np.arange(300), [0, 100, 299])
    assert (got.log_density[far] == -np.inf).all()
    assert (got.log_joint[far] == -np.inf).all()
    np.testing.assert_array_equal(got.responsibilities[far], np.tile(parameters.weights, (3, 1)))
    assert log_error(got.log_density[~far], near.log_density[~far]) < TOLERANCE


def test_scores_of_rows_whose_squares_overflow(rng):
    parameters = random_mixture(rng, 2, 4, [1, 3])
    near = rng.standard_normal((3, 4))
    parameters.means[:] = 0
    far = posterior(parameters, near * 1e200)
    assert relative_error(far.scores, posterior(parameters, near).scores * 1e200) < TOLERANCE


@pytest.mark.parametrize("empty", [0, 1])
def test_one_of_two_components_may_have_weight_zero(rng, empty):
    parameters = random_mixture(rng, 2, 3, [1, 2])
    x = random_rows(rng, parameters, 300)
    parameters.weights[:] = 1.0
    parameters.weights[empty] = 0.0
    got, without = posterior(parameters, x), posterior(parameters.without(empty), x)
    assert log_error(got.log_density, without.log_density) < TOLERANCE
    np.testing.assert_array_equal(got.responsibilities[:, empty], 0.0)
    np.testing.assert_array_equal(got.responsibilities[:, 1 - empty], 1.0)


def test_a_component_of_weight_zero_counts_for_nothing(rng):
    parameters = random_mixture(rng, 3, 4, [1, 2, 0])
    x = random_rows(rng, parameters, 300)
    parameters.weights[:] = [0.25, 0.0, 0.75]
    got, without = posterior(parameters, x), posterior(parameters.without(1), x)
    assert (got.log_joint[:, 1] == -np.inf).all()
    assert (got.responsibilities[:, 1] == 0).all()
    assert log_error(got.log_density, without.log_density) < TOLERANCE
    assert relative_error(got.responsibilities[:, [0, 2]], without.responsibilities) < TOLERANCE


# ---- ill-conditioned components --------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 5])
def test_dependent_loadings_match_exact_arithmetic(rng, p):
    # More factors than the loadings' rank: the capacitance has eigenvalues of 1 beside those of 1e6.
    parameters = one_component(rng.standard_normal((p, 1)) @ rng.standard_normal((1, 3)), 1e-6 * np.ones(3))
    x = random_rows(rng, parameters, 4)
    exact = [reference.exact_log_joint(row, parameters.component(0)) for row in x]
    assert log_error(posterior(parameters, x).log_density, exact) < 1e-9


@pytest.mark.parametrize(("capacitance", "form"), [(999.0, 0), (1001.0, 1), (999e3, 1), (1001e3, 2)])
def test_all_forms_of_the_distance_are_used_and_exact(rng, capacitance, form):
    root = np.sqrt(capacitance - 1)
    parameters = one_component([[root, 0.0, 0.0], [0.0, root / 2, root / 3]], np.ones(3))
    assert forms(parameters)[0] == form
    x = np.concatenate([random_rows(rng, parameters, 4), [[root * 10, 0.0, 0.1]]])
    exact = [reference.exact_log_joint(row, parameters.component(0)) for row in x]
    assert log_error(posterior(parameters, x).log_density, exact) < TOLERANCE


@pytest.mark.parametrize("capacitance", [1e2, 1e4, 1e8])
@pytest.mark.parametrize(("d", "p"), [(1, 1), (3, 5), (8, 2), (20, 12), (130, 3)])
def test_a_row_alone_is_as_in_a_block(rng, d, p, capacitance):
    """One row by itself has its own loops where distances come from residuals."""
    parameters = one_component(rng.uniform(0.5, 1.0, (p, d)) * np.sqrt(capacitance / d), rng.uniform(0.9, 1.1, d))
    x = np.concatenate([random_rows(rng, parameters, 5), parameters.means + 1e6, np.full((1, d), np.inf)])
    block = posterior(parameters, x)
    for i, row in enumerate(x[:-1]):
        alone = posterior(parameters, row[None])
        assert log_error(alone.log_density, block.log_density[i : i + 1]) < TOLERANCE
        np.testing.assert_allclose(alone.scores[0], block.scores[i], rtol=1e-9, atol=1e-9 * abs(block.scores[i]).max())
    assert posterior(parameters, x[-1:]).log_density[0] == block.log_density[-1] == -np.inf


@pytest.mark.parametrize("p", [0, 1, 3])
@pytest.mark.parametrize("uniqueness", [0.0, 1e-320, -1.0, np.inf, np.nan])
def test_impossible_uniquenesses_are_refused(rng, p, uniqueness):
    parameters = random_mixture(rng, 2, 4, [0, p])
    parameters.uniquenesses[1, 2] = uniqueness
    with pytest.raises(FloatingPointError, match="covariance of component 1 is numerically singular"):
        Evaluator(parameters)


@pytest.mark.parametrize("p", [1, 3, 20])
@pytest.mark.parametrize("loading", [1e200, np.inf, np.nan])
def test_impossible_loadings_are_refused(rng, p, loading):
    parameters = random_mixture(rng, 2, 4, [0, p])
    parameters.loadings[p - 1, 2] = loading
    with pytest.raises(FloatingPointError, match="covariance of component 1 is numerically singular"):
        Evaluator(parameters)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", -0.1),
        ("weights", np.inf),
        ("weights", np.nan),
        ("means", np.inf),
        ("means", -np.inf),
        ("means", np.nan),
    ],
)
def test_impossible_weights_and_means_are_refused(rng, name, value):
    parameters = random_mixture(rng, 3, 4, [0, 2, 1])
    getattr(parameters, name)[1] = value
    with pytest.raises(FloatingPointError, match="component 1 "):
        Evaluator(parameters)


# ---- arguments -------------------------------------------------------------------------------------------------------


def arguments(**changes):
    """Valid arguments of `posterior` for K = 2, d = 3, factors (1, 2), n = 5, with changes."""
    parameters = random_mixture(np.random.default_rng(0), 2, 3, [1, 2])
    mixture = Evaluator(parameters)
    valid = {
        "x": np.zeros((3, 5)),
        "offsets": parameters.offsets,
        "prepared": mixture.prepared,
        "log_density": np.empty(5),
        "log_joint": np.empty((2, 5)),
        "responsibilities": np.empty((2, 5)),
        "scores": np.empty((3, 5)),
        "work": mixture.work,
    }
    return valid | changes


def test_outputs_may_be_left_out():
    full, part = arguments(), arguments(log_joint=None, responsibilities=None, scores=None)
    _posterior.posterior(**full)
    _posterior.posterior(**part)
    np.testing.assert_array_equal(part["log_density"], full["log_density"])


def test_input_may_be_read_only():
    valid = arguments()
    _posterior.posterior(**valid | {name: read_only(valid[name]) for name in ("x", "offsets", "prepared")})
    parameters = random_mixture(np.random.default_rng(0), 2, 3, [1, 2])
    prepared = np.empty(len(valid["prepared"]))
    _mixture.prepare(read_only(parameters.buffer), read_only(parameters.offsets), 3, prepared)
    assert _mixture.buffer_lengths(read_only(parameters.offsets), 3)[0] == len(parameters.buffer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((4, 5))}, "prepared has the wrong length"),
        ({"x": np.zeros((0, 5))}, "prepared has the wrong length"),
        ({"x": np.zeros((3, 4))}, "log_density must have one entry per row"),
        ({"x": np.zeros((3, 5), np.float32)}, "dtype mismatch"),
        ({"x": np.zeros((5, 3)).T}, "not C-contiguous"),
        ({"x": np.zeros(15)}, "wrong number of dimensions"),
        ({"offsets": np.array([0, 1, 2])}, "prepared has the wrong length"),
        ({"offsets": np.array([0, 1])}, "prepared has the wrong length"),
        ({"offsets": np.array([0, 1, 3], np.int16)}, "dtype mismatch"),
        ({"offsets": np.array([1, 1, 3])}, "offsets must start with 0"),
        ({"offsets": np.array([0])}, "offsets must start with 0"),
        ({"offsets": np.array([], np.intp)}, "offsets must start with 0"),
        ({"offsets": np.array([0, 4, 3])}, "offsets must not decrease"),
        ({"prepared": np.zeros(3)}, "prepared has the wrong length"),
        ({"log_density": np.empty(6)}, "log_density must have one entry per row"),
        ({"log_density": read_only(np.empty(5))}, "read-only"),
        ({"log_joint": np.empty((3, 5))}, "log_joint must have shape"),
        ({"log_joint": np.empty((2, 4))}, "log_joint must have shape"),
        ({"responsibilities": np.empty((1, 5))}, "responsibilities must have shape"),
        ({"responsibilities": np.empty((2, 6))}, "responsibilities must have shape"),
        ({"scores": np.empty((2, 5))}, "scores must have shape"),
        ({"scores": np.empty((3, 4))}, "scores must have shape"),
        ({"work": np.empty(10)}, "work is too short"),
    ],
)
def test_posterior_refuses_wrong_buffers(changes, message):
    with pytest.raises(ValueError, match=message):
        _posterior.posterior(**arguments(**changes))


@pytest.mark.parametrize("name", ["x", "offsets", "prepared", "log_density", "work"])
def test_posterior_refuses_none(name):
    with pytest.raises(TypeError, match=f"'{name}' must not be None"):
        _posterior.posterior(**arguments(**{name: None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": np.zeros(4)}, "parameters has the wrong length"),
        ({"offsets": np.array([0, 1, 2])}, "prepared has the wrong length"),
        ({"offsets": np.array([], np.intp)}, "offsets must start with 0"),
        ({"n_features": 4}, "prepared has the wrong length"),
        ({"n_features": 0}, "prepared has the wrong length"),
        ({"n_features": -1}, "prepared has the wrong length"),
        ({"prepared": np.zeros(4)}, "prepared has the wrong length"),
        ({"prepared": read_only(arguments()["prepared"])}, "read-only"),
    ],
)
def test_prepare_refuses_wrong_buffers(changes, message):
    parameters = random_mixture(np.random.default_rng(0), 2, 3, [1, 2])
    valid = {
        "parameters": parameters.buffer,
        "offsets": parameters.offsets,
        "n_features": 3,
        "prepared": arguments()["prepared"],
    }
    with pytest.raises(ValueError, match=message):
        _mixture.prepare(**valid | changes)


def test_buffer_lengths():
    parameters, prepared, work = _mixture.buffer_lengths(np.array([0, 1, 3]), 3)
    assert parameters == 2 * 2 + 2 * 2 * 3 + 3 * 3
    assert prepared == 4 * 2 + 2 * 2 * 3 + 2 * 3 * 3 + (1 + 4) + (2 * 5 + 2 * 5 + 2 * 2)
    assert work >= 256 * (3 + 3 + 2 + 2 * 2 + 2)
    for offsets, d, message in (([0], 3, "start with 0"), ([0, 2, 1], 3, "not decrease"), ([0, 1], 0, "positive")):
        with pytest.raises(ValueError, match=message):
            _mixture.buffer_lengths(np.array(offsets), d)
