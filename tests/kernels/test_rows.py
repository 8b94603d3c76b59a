"""Rows of a table in the kernels' form."""

import numpy as np
import pytest

from amofa._kernels import _rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 3), (8, 1), (16, 5), (1001, 13), (0, 2)])
def test_rows_are_shifted_scaled_and_transposed(rng, n, d, dtype):
    table = rng.normal(5, 3, (n, d)).astype(dtype)
    table.setflags(write=False)
    center, factor, out = rng.normal(size=d), rng.uniform(0.5, 2, d), np.full((d, n), np.nan)
    _rows.load(table, center, factor, out)
    np.testing.assert_array_equal(out, ((table.astype(np.float64) - center) * factor).T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("view", [np.s_[:, :], np.s_[3:40], np.s_[:, ::-2], np.s_[7:8], np.s_[:, 2:3]])
def test_columns_that_are_contiguous_are_read_as_they_lie(rng, dtype, view):
    table = np.asfortranarray(rng.normal(5, 3, (51, 6)).astype(dtype))[view]
    n, d = table.shape
    center, factor, out = rng.normal(size=d), rng.uniform(0.5, 2, d), np.full((d, n), np.nan)
    _rows.load(table, center, factor, out)
    np.testing.assert_array_equal(out, ((table.astype(np.float64) - center) * factor).T)


def test_tables_that_lie_otherwise_are_refused():
    with pytest.raises(ValueError, match="table must have contiguous rows one after the other, or contiguous columns"):
        _rows.load(np.zeros((4, 6))[:, ::2], np.zeros(3), np.ones(3), np.empty((3, 4)))


@pytest.mark.parametrize(
    ("center", "out", "message"),
    [
        (2, (3, 4), "center and factor must have one entry per column"),
        (3, (4, 3), "out must have the shape of the transposed table"),
    ],
)
def test_wrong_shapes_are_refused(center, out, message):
    with pytest.raises(ValueError, match=message):
        _rows.load(np.zeros((4, 3)), np.zeros(center), np.ones(3), np.empty(out))
