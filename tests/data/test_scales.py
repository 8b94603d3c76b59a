"""Scales of columns: body, narrowest part, step."""

import numpy as np
import pytest

from amofa._data import row_chunks
from amofa._data.row_chunks import Samples
from amofa._data.scales import ColumnScales


def of(column, w=None):
    scales = ColumnScales.of(Samples(np.asarray(column, dtype=np.float64)[:, None], weights=w))
    return tuple(float(values[0]) for values in scales)


def test_columns_are_measured_one_by_one(rng):
    X = rng.standard_normal((100, 3))
    scales = ColumnScales.of(Samples(X))
    for j in range(3):
        assert tuple(float(values[j]) for values in scales) == of(X[:, j])


@pytest.mark.parametrize("n", [20_000, 100])
def test_a_normal_column(rng, n):
    """The shortest of many windows of few rows is narrow by chance."""
    low, high, narrow, *_ = of(rng.standard_normal(n))
    assert (low, high) == pytest.approx((-41.1, 41.1), rel=0.3)
    assert narrow == pytest.approx(1, rel=0.1) if n > 1000 else 0.3 < narrow < 1


def test_a_narrow_group_beside_a_wide_and_a_far_one(rng):
    column = np.r_[rng.normal(0, 0.1, 200), rng.normal(5, 1, 200), rng.normal(1e4, 1, 200)]
    assert 0.05 < of(column)[2] < 0.4


def test_shift_scale_sign_and_order_do_not_matter(rng):
    column = np.round(rng.exponential(size=101), 2)
    low, high, *others = of(column)
    assert of(rng.permutation(column)) == (low, high, *others)
    np.testing.assert_allclose(
        of(-8 * column + 5), (-8 * high + 5, -8 * low + 5, *(8 * scale for scale in others)), rtol=1e-10
    )


def test_weights_are_repeats(rng):
    column, repeats = np.round(rng.standard_normal(200), 1), rng.integers(1, 5, 200)
    assert of(column, repeats.astype(float)) == of(np.repeat(column, repeats))
    thirds = of(column, repeats / 3)
    assert thirds[:2] == of(np.repeat(column, repeats))[:2]
    assert thirds[3] == of(column)[3]


def test_ties_lead_to_wider_quantiles_and_windows():
    """Nine of ten are 0; all but one; all."""
    low, high, narrow, step, *_ = of(np.repeat([0.0, 1.0, 2.0], [90, 5, 5]))
    assert (low, high, step) == (-60.0, 62.0, 1.0)
    assert narrow == np.inf
    assert of(np.repeat([0.0, 3.0], [999, 1]))[:2] == (-90.0, 93.0)
    assert of(np.zeros(5)) == (-np.inf, np.inf, np.inf, 0.0, 0.0, 0.0)
    # Whole numbers: a tenth of the rows have the same one.
    assert of(np.repeat([0.0, 1.0, 2.0, 3.0], 25))[2] == pytest.approx(1 / 1.0488)


def test_few_rows_have_no_narrowest_part():
    assert of(np.arange(10.0))[2] == np.inf
    assert of(np.arange(15.0))[2] == pytest.approx(11 / 2.5631)


def test_the_step_is_the_median_distance_of_distinct_values(rng):
    """Whole numbers, and halves with a gap; a column of real numbers has no grid, nor has one of few such."""
    assert of(rng.permutation(40))[3:] == (1.0, 1.0, 1.0)
    halves = rng.permutation(40) / 2
    halves[halves > 15] += 100
    assert of(halves)[3:] == (0.5, 0.5, 0.5)
    assert of(np.round(rng.standard_normal(1000), 1).astype(np.float32))[4] == pytest.approx(0.1)
    real = rng.standard_normal(100)
    distances = np.diff(np.sort(real))
    assert of(real)[3:] == (np.median(distances), 0.0, distances.min())
    assert of(np.r_[np.zeros(50), 1.0, 2.7, 3.1])[4] == 0.0
    assert of([0.3, 0.1 + 0.2, 0.7, 1.3, 1.8])[5] == pytest.approx(0.4)


def test_huge_tables_are_measured_on_some_of_their_rows(rng, monkeypatch):
    column = rng.standard_normal(40_000)
    whole = of(column)[3]
    monkeypatch.setattr(row_chunks, "_HELD_ROWS", 5000)
    low, high, narrow, step, *_ = of(column)
    assert (low, high, narrow) == pytest.approx((-41.1, 41.1, 1), rel=0.15)
    assert step > 4 * whole
