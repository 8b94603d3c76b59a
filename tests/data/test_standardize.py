"""The coordinates in which a search runs, and the way back."""

import numpy as np
import pytest
import reference
from reference import random_mixture

from amofa._data.row_chunks import Samples
from amofa._data.standardize import Coordinates, Standardized, default_floors, floor_variances
from amofa._parameters import Component, Parameters


def of(X, w=None):
    return Coordinates.of(Samples(np.asarray(X), weights=w))


# ---- measuring -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "d"), [(2, 1), (50, 3), (5000, 40)])
def test_center_and_scale_are_weighted_means_and_deviations(rng, n, d, weighted):
    """5000 rows of 40 columns are more than one chunk."""
    X = rng.standard_normal((n, d)) * rng.uniform(0.1, 10, d) + rng.uniform(-5, 5, d)
    w = rng.uniform(0, 2, n) if weighted else None
    got = of(X, w)
    center = np.average(X, axis=0, weights=w)
    np.testing.assert_allclose(got.center, center, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(got.scale, np.sqrt(np.average((X - center) ** 2, axis=0, weights=w)), rtol=1e-12)
    assert not got.constant.any()


@pytest.mark.parametrize("offset", [2.0**26, -(2.0**36)])
def test_an_offset_costs_next_to_no_digit(rng, offset):
    """The centre is rounded to the digits that the offset leaves, and enters the scale by its square."""
    X = np.round(rng.standard_normal((500, 3)) * 1024) / 1024
    plain, shifted = of(X), of(X + offset)
    np.testing.assert_allclose(shifted.scale, plain.scale, rtol=max(1e-14, (2**-52 * offset) ** 2))
    np.testing.assert_allclose(shifted.center - offset, plain.center, atol=abs(offset) * 1e-15)


@pytest.mark.parametrize("unit", [1e-140, 1e-100, 1e-8, 1e8, 1e100, 1e140])
def test_any_unit_is_measured(rng, unit):
    """Squares of the deviations would underflow or overflow."""
    X = rng.standard_normal((100, 2))
    got = of(X * [1.0, unit])
    np.testing.assert_allclose(got.scale, of(X).scale * [1.0, unit], rtol=1e-13)
    assert not got.constant.any()


@pytest.mark.parametrize(
    ("column", "constant"),
    [
        (np.zeros(4), True),
        (np.full(4, 0.1), True),
        (np.full(4, -1e300), True),
        (np.full(4, 5e-324), True),
        (1e8 + np.array([0.0, 1, 0, 0]) * 2**-26, True),  # one rounding error of 1e8
        (1e8 + np.array([0.0, 1, 0, 0]) * 2**-18, False),
        (np.array([1.0, 1, 1, 1 + 1e-12]), False),
        (np.array([0.0, 0, 0, 1e-170]), True),  # its variance is no normal number
        (np.array([0.0, 0, 0, 1e-140]), False),
        (np.array([-1e140, 1e140, 0, 0]), False),
    ],
)
def test_columns_that_carry_nothing(column, constant):
    got = of(np.column_stack([[1.0, 2, 3, 5], column, [0.0, 0, 1, 1]]))
    np.testing.assert_array_equal(got.constant, [False, constant, False])
    assert (got.scale[~got.constant] > 0).all()


def test_a_column_that_varies_only_where_the_weight_is_zero_is_constant():
    """A row of weight 0 is absent, as `fit` has it: it is not among the rows."""
    X, w = np.array([[1.0, 0], [1, 1], [7, 2]]), np.array([1.0, 2, 0])
    rows = np.flatnonzero(w)
    np.testing.assert_array_equal(Coordinates.of(Samples(X, weights=w, rows=rows)).constant, [True, False])


def test_one_row_is_constant():
    got = of([[3.0, -1e9]])
    assert got.constant.all()
    np.testing.assert_array_equal(got.center, [3.0, -1e9])


@pytest.mark.parametrize("low", [-1e308, -1e200, 0.0])
def test_columns_of_no_finite_variance_are_refused(low):
    with pytest.raises(ValueError, match=r"column 1 of X spans .* to 1e\+308; divide it by a constant first"):
        of([[0.0, low], [1.0, 1e308]])


# ---- there and back --------------------------------------------------------------------------------------------------


def test_rows_come_out_standardised_without_constant_columns(rng):
    X = np.column_stack([rng.normal(5, 3, 40), np.full(40, 2.0), rng.normal(1e6, 1e-2, 40)])
    w = rng.uniform(0.5, 2, 40)
    coordinates = of(X, w)
    samples = coordinates.samples(X, w, None)
    ((z, row_weights),) = samples.chunks()
    assert samples.n_features == 2
    np.testing.assert_array_equal(row_weights, w)
    np.testing.assert_allclose(np.average(z, axis=1, weights=w), 0, atol=1e-8)
    np.testing.assert_allclose(np.average(z**2, axis=1, weights=w), 1, rtol=1e-8)
    np.testing.assert_allclose(z[0], (X[:, 0] - coordinates.center[0]) / coordinates.scale[0], rtol=1e-14)


def test_some_rows_come_out(rng):
    X, rows = rng.standard_normal((10, 2)), np.array([1, 4, 5])
    coordinates = of(X)
    ((z, _),) = coordinates.samples(X, None, rows).chunks()
    np.testing.assert_allclose(z.T, (X[rows] - coordinates.center) / coordinates.scale, rtol=1e-14)


@pytest.mark.parametrize("K", [1, 3])
def test_a_restored_mixture_has_the_density_of_the_rows(rng, K):
    """Log densities differ by the logs of the scales, which the samples know as their Jacobian."""
    X = rng.standard_normal((60, 4)) * [1e-3, 1.0, 1e3, 5.0] + [7.0, -1.0, 0.0, 1e4]
    coordinates = of(X)
    samples = coordinates.samples(X, None, None)
    ((z, _),) = samples.chunks()
    parameters = random_mixture(rng, K, 4, [0, 2, 4][:K])
    restored = coordinates.restore(parameters, np.ones(4))
    inside = reference.log_density(z.T, parameters.components())
    outside = reference.log_density(X, restored.components())
    np.testing.assert_allclose(outside, inside - np.log(coordinates.scale).sum(), rtol=1e-9)
    assert samples.log_jacobian == pytest.approx(-60 * np.log(coordinates.scale).sum(), rel=1e-14)
    np.testing.assert_allclose(restored.weights, parameters.weights, rtol=1e-14)


def test_constant_columns_are_put_back(rng):
    X = np.column_stack([np.full(30, 4.0), rng.normal(3, 2, 30), np.full(30, -1.0), rng.normal(0, 5, 30)])
    coordinates = of(X)
    inner = Component(1.0, np.array([0.5, -0.5]), np.array([[1.0, 2.0]]), np.array([0.1, 0.2]))
    (c,) = coordinates.restore(Parameters.from_components([inner]), np.array([7.0, 1.0, 9.0, 1.0])).components()
    scale = coordinates.scale
    shift = np.array([0, 0.5 * scale[1], 0, -0.5 * scale[3]])
    np.testing.assert_allclose(c.mean, coordinates.center + shift)
    np.testing.assert_array_equal(c.mean[[0, 2]], [4.0, -1.0])
    np.testing.assert_allclose(c.loadings, [[0.0, scale[1], 0.0, 2 * scale[3]]])
    np.testing.assert_allclose(c.uniquenesses, [7.0, 0.1 * scale[1] ** 2, 9.0, 0.2 * scale[3] ** 2])


def test_all_columns_constant(rng):
    coordinates = of(np.full((5, 3), 2.5))
    inner = Component(1.0, np.zeros(0), np.zeros((2, 0)), np.zeros(0))
    (c,) = coordinates.restore(Parameters.from_components([inner]), np.array([1.0, 2.0, 3.0])).components()
    np.testing.assert_array_equal(c.mean, [2.5] * 3)
    np.testing.assert_array_equal(c.loadings, np.zeros((2, 3)))
    np.testing.assert_array_equal(c.uniquenesses, [1.0, 2.0, 3.0])


# ---- smallest uniquenesses -------------------------------------------------------------------------------------------


def test_floors_are_shares_of_variances_or_of_what_is_given_or_variances(rng):
    coordinates = of(rng.standard_normal((50, 3)) * [1.0, 10.0, 0.1])
    np.testing.assert_array_equal(floor_variances(0.01, None, coordinates), 0.01 * coordinates.scale**2)
    np.testing.assert_array_equal(floor_variances(0.01, np.array([1.0, 2, 4]), coordinates), [0.01, 0.02, 0.04])
    given = np.array([1.0, 2, 3])
    floor = floor_variances(given, np.ones(3), coordinates)
    np.testing.assert_array_equal(floor, given)
    assert not np.shares_memory(floor, given)


def test_default_floors_are_shares_of_the_narrowest_part_and_no_finer_than_the_step(rng):
    """A narrow group beside a far one, whole numbers, a column of one value."""
    X = np.column_stack([np.r_[rng.normal(0, 1, 500), rng.normal(1e3, 1, 500)], rng.permutation(1000), np.ones(1000)])
    rows = Standardized.of(X, None, by_body=True)
    floor = default_floors(rows.scales, None, rows.coordinates)
    assert 9 * 0.3e-4 < floor[0] < 9 * 4e-4
    assert floor[1] == pytest.approx(max(1e-4 * X[:, 1].var(), 1 / 12))
    assert floor[2] == pytest.approx(1e-4 * X[:, :2].var(axis=0).mean())
    given = default_floors(rows.scales, np.array([1.0, 100.0, 4.0]), rows.coordinates)
    np.testing.assert_allclose(given, [1e-4, 1 / 12, 4e-4])


# ---- units from the body ---------------------------------------------------------------------------------------------


def by_body(X, w=None):
    return Standardized.of(np.asarray(X, dtype=np.float64), w, by_body=True).coordinates


def test_units_without_far_cells_are_standard_deviations_to_the_last_bit(rng):
    X = np.column_stack(
        [rng.standard_normal(300), rng.uniform(size=300), rng.exponential(size=300), rng.integers(2, size=300)]
    )
    assert by_body(X).center.tolist() == of(X).center.tolist()
    assert by_body(X).scale.tolist() == of(X).scale.tolist()


@pytest.mark.parametrize("far", [1e3, -1e6, 1e13])
def test_far_cells_set_no_unit(rng, far):
    X = rng.standard_normal((300, 2)) + np.array([5.0, -3.0])
    Y = np.vstack([X, [[far, -3.0]]])
    got, plain = by_body(Y), of(X)
    np.testing.assert_allclose(got.center, [plain.center[0], of(Y).center[1]], rtol=1e-12)
    np.testing.assert_allclose(got.scale, [plain.scale[0], of(Y).scale[1]], rtol=1e-12)
    np.testing.assert_array_equal(got.deviation, of(Y).scale)


def test_a_cell_beyond_all_precision_bounds_the_unit(rng):
    X = np.append(rng.standard_normal(300), 1e100)[:, None]
    assert by_body(X).scale[0] == pytest.approx(1e86)


def test_the_unit_of_a_body_under_weights_is_that_of_repeats(rng):
    X, repeats = np.append(rng.standard_normal(200), 1e5)[:, None], rng.integers(1, 4, 201)
    a, b = by_body(X, repeats.astype(float)), by_body(np.repeat(X, repeats, axis=0))
    np.testing.assert_allclose([a.center[0], a.scale[0]], [b.center[0], b.scale[0]], rtol=1e-12)
