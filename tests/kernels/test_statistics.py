"""Sufficient statistics and scatter matrices against dense algebra, and their additivity."""

import numpy as np
import pytest
import reference
from fuzz_kernels import read_only
from reference import SHAPES, far_rows, random_mixture, random_rows, relative_error, t_mixture

from amofa._kernels import _statistics
from amofa._parameters import Evaluator

TOLERANCE = 1e-12


def row_weights(rng, n, kind):
    """None, random weights, or random ones with zeros among them."""
    if kind == "none":
        return None
    weights = rng.uniform(0.0, 3.0, n)
    if kind == "zeros":
        weights[rng.random(n) < 0.5] = 0.0
    return weights


def accumulate(parameters, x, weights=None, sums=None, **options):
    """Sums of rows x (n, d), added to those given."""
    evaluator = Evaluator(parameters)
    sums = evaluator.sums(full=options.get("full", False)) if sums is None else sums
    evaluator.accumulate(np.ascontiguousarray(x.T), weights, sums, **options)
    return sums


def by_name(buffer, expected):
    """The buffer cut into arrays of the expected shapes, in the expected order."""
    ends = np.cumsum([a.size for a in expected.values()])
    assert len(buffer) == ends[-1]
    parts = np.split(buffer, ends[:-1])
    return {name: part.reshape(a.shape) for (name, a), part in zip(expected.items(), parts, strict=True)}


def accumulate_scatter(parameters, x, weights=None):
    """Soft counts, first moments, scatter matrices and counts of tails of rows x."""
    K, d = parameters.means.shape
    sums = accumulate(parameters, x, weights, full=True)[2:]
    counts, first, second, tails = np.split(sums, np.cumsum([K, K * d, K * d * d]))
    lower = np.tril(second.reshape(K, d, d))
    return counts, first.reshape(K, d), lower + np.tril(lower, -1).transpose(0, 2, 1), tails


def worst_error(buffer, expected):
    """Largest error of any sum, relative to the largest of its kind, but at least 1."""
    got = by_name(buffer, expected)
    return max(relative_error(got[name], a, max(1.0, np.abs(a).max(initial=0))) for name, a in expected.items())


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "random", "zeros"])
@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
def test_statistics_match_dense_algebra(rng, K, d, factors, n, kind):
    parameters = random_mixture(rng, K, d, factors)
    x, weights = random_rows(rng, parameters, n), row_weights(rng, n, kind)
    expected = reference.statistics(x, weights, parameters.components())
    assert worst_error(accumulate(parameters, x, weights), expected) < TOLERANCE


@pytest.mark.parametrize("kind", ["none", "random", "zeros"])
@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
def test_scatter_matches_dense_algebra(rng, K, d, factors, n, kind):
    parameters = random_mixture(rng, K, d, factors)
    x, weights = random_rows(rng, parameters, n), row_weights(rng, n, kind)
    mixture = parameters.components()
    counts, first, scatter, tails = accumulate_scatter(parameters, x, weights)
    np.testing.assert_array_equal(tails, counts)
    expected = reference.statistics(x, weights, mixture)
    assert relative_error(counts, expected["soft_counts"], n) < TOLERANCE
    assert relative_error(first, expected["first"], max(1.0, np.abs(expected["first"]).max())) < TOLERANCE
    dense = reference.scatter(x, weights, mixture)
    assert relative_error(scatter, dense, max(1.0, dense.max())) < TOLERANCE


@pytest.mark.parametrize("spread", [0.3, 2.0, 20.0], ids=["all rows", "many rows", "few rows"])
@pytest.mark.parametrize(("d", "p"), [(5, 1), (11, 6), (18, 4), (41, 9)])
def test_components_of_all_and_of_few_rows(rng, d, p, spread):
    """Rows of next to no responsibility are left out, in more than one block; sums are the same."""
    parameters = random_mixture(rng, 5, d, p, spread=spread)
    x, weights = random_rows(rng, parameters, 1501), row_weights(rng, 1501, "any")
    components = parameters.components()
    assert worst_error(accumulate(parameters, x, weights), reference.statistics(x, weights, components)) < TOLERANCE
    scatter = accumulate_scatter(parameters, x, weights)[2]
    assert relative_error(scatter, reference.scatter(x, weights, components)) < TOLERANCE


def test_ill_conditioned_components_have_the_same_moments(rng):
    # The distance is taken from residuals here, which uses the deviations up: they must be made anew.
    parameters = random_mixture(rng, 2, 5, [2, 3], spread=50.0)
    parameters.uniquenesses[:] *= 1e-6
    x = random_rows(rng, parameters, 300)
    expected = reference.statistics(x, None, parameters.components())
    got = by_name(accumulate(parameters, x), expected)
    for name in ("soft_counts", "first", "second"):
        assert relative_error(got[name], expected[name]) < TOLERANCE
    assert relative_error(got["cross"], expected["cross"]) < 1e-8  # the dense inverse is no better


def test_one_row_by_hand():
    # Sigma = [[2, 1], [1, 2]]; capacitance 3, W = (1, 1) / sqrt 3; e = (1, 0).
    parameters = random_mixture(np.random.default_rng(0), 1, 2, 1)
    parameters.means[:], parameters.loadings[:], parameters.uniquenesses[:] = 0, 1, 1
    log_density = -np.log(2 * np.pi) - 0.5 * np.log(3) - 1 / 3
    expected = 3 * np.array([log_density, 0, 1, 1, 0, 1, 0, 1 / np.sqrt(3), 0])
    got = accumulate(parameters, np.array([[1.0, 0.0]]), np.array([3.0]))
    np.testing.assert_allclose(got, expected, rtol=1e-15, atol=1e-15)


def test_entropy_is_only_computed_if_asked_for(rng):
    parameters = random_mixture(rng, 3, 2, 1)
    x = random_rows(rng, parameters, 300)
    expected = accumulate(parameters, x)
    assert expected[1] > 0
    expected[1] = 0
    np.testing.assert_array_equal(accumulate(parameters, x, with_entropy=False), expected)


# ---- additivity ------------------------------------------------------------------------------------------------------


@pytest.fixture
def problem(rng):
    """Parameters, rows and row weights."""
    parameters = random_mixture(rng, 3, 5, [0, 1, 3])
    return parameters, random_rows(rng, parameters, 900), rng.uniform(0, 2, 900)


def assert_same(a, b):
    assert relative_error(a, b) < 1e-13


def all_sums(parameters, x, weights=None):
    """Statistics and scatter in one array."""
    return np.concatenate(
        [accumulate(parameters, x, weights), *(a.ravel() for a in accumulate_scatter(parameters, x, weights))]
    )


@pytest.mark.parametrize("cut", [0, 1, 256, 450, 899, 900])
def test_two_parts_add_up_to_the_whole(problem, cut):
    parameters, x, w = problem
    parts = all_sums(parameters, x[:cut], w[:cut]) + all_sums(parameters, x[cut:], w[cut:])
    assert_same(parts, all_sums(parameters, x, w))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES[:-1])
def test_scatter_of_t_components_matches_dense_algebra(rng, K, d, factors, n, weighted):
    parameters = t_mixture(rng, K, d, factors)
    x, weights = far_rows(rng, parameters, n), rng.uniform(0.5, 2.0, n) if weighted else None
    components = parameters.components()
    tails = np.stack([reference.tail_weights(x, c) for c in components], axis=1)
    h = reference.weighted_responsibilities(x, weights, components)
    first = np.stack([(h * tails)[:, k] @ (x - c.mean) for k, c in enumerate(components)])
    expected = h.sum(axis=0), first, reference.scatter(x, weights, components), (h * tails).sum(axis=0)
    for got, sums in zip(accumulate_scatter(parameters, x, weights), expected, strict=True):
        assert relative_error(got, sums, max(1.0, np.abs(sums).max())) < 1e-11


@pytest.mark.parametrize("full", [False, True])
def test_sums_are_added_to_what_is_there(problem, full):
    parameters, x, w = problem
    once = accumulate(parameters, x, w, full=full)
    assert_same(accumulate(parameters, x, w, once.copy(), full=full), 2 * once)


@pytest.mark.parametrize("value", [1e10, 1e200])
def test_weight_zero_is_absence_however_far_the_row(problem, value):
    parameters, x, w = problem
    w[::3], x[::3] = 0.0, value
    assert_same(all_sums(parameters, x, w), all_sums(parameters, x[w > 0], w[w > 0]))


# ---- far rows, offsets -----------------------------------------------------------------------------------------------


def test_a_large_offset_costs_no_digit(problem):
    parameters, x, w = problem
    x = np.round(x * 1024) / 1024  # a grid on which the shift is exact
    parameters.means[:] = np.round(parameters.means * 1024) / 1024
    shifted = parameters.copy()
    shifted.means[:] += 2.0**30
    np.testing.assert_array_equal(all_sums(shifted, x + 2.0**30, w), all_sums(parameters, x, w))


def test_a_row_whose_squares_overflow(problem):
    parameters, x, _ = problem
    x[5] = 1e200
    got = accumulate(parameters, x)
    without = accumulate(parameters, np.delete(x, 5, axis=0))
    assert got[0] == -np.inf
    assert got[1] == pytest.approx(without[1], rel=1e-12)
    assert_same(got[2:5], without[2:5] + parameters.weights)


def test_rows_far_away_leave_finite_sums(problem):
    parameters, x, w = problem
    x[::7] *= 1e6
    assert np.isfinite(all_sums(parameters, x, w)).all()


def test_a_component_of_weight_zero_collects_nothing(problem):
    parameters, x, w = problem
    parameters.weights[:] = [0.5, 0.0, 0.5]
    expected = reference.statistics(x, w, parameters.components())
    got = by_name(accumulate(parameters, x, w), expected)
    assert np.isfinite(got["log_likelihood"]).all()
    assert np.isfinite(got["entropy"]).all()
    for name in ("soft_counts", "first", "second"):
        assert not got[name][1].any()
    assert not got["cross"][0].any()


# ---- arguments -------------------------------------------------------------------------------------------------------


def call(full=False, **changes):
    """Call with valid arguments for K = 2, d = 3, factors (1, 2), n = 5, with changes."""
    parameters = random_mixture(np.random.default_rng(0), 2, 3, [1, 2])
    evaluator = Evaluator(parameters)
    valid = {
        "x": np.ones((3, 5)),
        "row_weights": np.ones(5),
        "offsets": parameters.offsets,
        "prepared": evaluator.prepared,
        "sums": evaluator.sums(full=full),
        "work": evaluator.work,
    }
    changes = {name: change(valid[name]) if callable(change) else change for name, change in changes.items()}
    _statistics.accumulate(**valid | changes, full=full)


def test_input_may_be_read_only():
    call(x=read_only, row_weights=read_only, offsets=read_only, prepared=read_only)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.ones((4, 5))}, "prepared has the wrong length"),
        ({"x": np.ones((0, 5))}, "prepared has the wrong length"),
        ({"x": np.ones((3, 6))}, "row_weights must have one entry per row"),
        ({"x": np.ones((5, 3)).T}, "not C-contiguous"),
        ({"x": np.ones((3, 5), np.float32)}, "dtype mismatch"),
        ({"row_weights": np.ones(4)}, "row_weights must have one entry per row"),
        ({"row_weights": np.ones(10)[::2]}, "not C-contiguous"),
        ({"offsets": np.array([0, 1])}, "prepared has the wrong length"),
        ({"offsets": np.array([], np.intp)}, "offsets must start with 0"),
        ({"offsets": np.array([0, 4, 3])}, "offsets must not decrease"),
        ({"prepared": np.ones(5)}, "prepared has the wrong length"),
        ({"work": np.ones(5)}, "work is too short"),
        ({"sums": np.zeros(7)}, "sums has the wrong length"),
        ({"sums": lambda sums: sums[1:]}, "sums has the wrong length"),
        ({"sums": read_only}, "read-only"),
    ],
)
def test_wrong_arguments_are_refused(full, changes, message):
    with pytest.raises(ValueError, match=message):
        call(full, **changes)


def test_none_is_refused_but_for_row_weights():
    call(row_weights=None)
    for name in ("x", "offsets", "prepared", "sums", "work"):
        with pytest.raises(TypeError, match=f"'{name}' must not be None"):
            call(**{name: None})


def test_sums_size():
    assert _statistics.sums_size(np.array([0, 1, 3]), 3) == 2 + 2 + 2 * 2 * 3 + 3 * 3
    assert _statistics.sums_size(np.array([0, 1, 3]), 3, True) == 2 + 2 + 2 * 3 + 2 * 3 * 3 + 2
    for offsets, d, message in (
        ([], 3, "start with 0"),
        ([0], 3, "start with 0"),
        ([0, 2, 1], 3, "not decrease"),
        ([0, 1], 0, "n_features must be positive"),
        ([0, 1], 2**30, "no memory holds"),
    ):
        with pytest.raises(ValueError, match=message):
            _statistics.sums_size(np.array(offsets, np.intp), d, True)
