"""Cuts of a line in compiled code; what they find is compared with definitions in tests/search/test_lines.py."""

import numpy as np
import pytest

from amofa._kernels._lines import best_cut, moved_cuts


def line(z, w=None):
    z = np.asarray(z, dtype=float)
    w = np.ones(len(z)) if w is None else w
    return z, *(np.concatenate([[0.0], np.cumsum(values)]) for values in (w, w * z))


def test_the_best_cut_is_the_one_that_saves_most(rng):
    z, w = np.sort(rng.standard_normal(30)), rng.uniform(0.6, 2, 30)

    def squares(start, stop):
        part = slice(start, stop)
        return float(w[part] @ (z[part] - np.average(z[part], weights=w[part])) ** 2)

    for start, stop in ((0, 30), (4, 21), (7, 9)):
        saved = {at: squares(start, stop) - squares(start, at) - squares(at, stop) for at in range(start + 1, stop)}
        found, place = best_cut(*line(z, w), start, stop, 0.5)
        assert place == max(saved, key=saved.__getitem__)
        assert found == pytest.approx(saved[place], rel=1e-12)


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (2, 3), (0, 2)])
def test_rows_that_cant_be_cut(start, stop):
    assert best_cut(*line([1.0, 1.0, 2.0]), start, stop, 0.5) == (0.0, stop)


def test_a_part_weighs_more_than_the_least():
    z = [0.0, 10.0, 11.0, 12.0]
    assert best_cut(*line(z), 0, 4, 0.5)[1] == 1
    assert best_cut(*line(z), 0, 4, 1.5)[1] == 2


def test_cuts_move_to_the_middle_between_means():
    bounds = np.array([0, 1, 6])
    moved_cuts(*line([0.0, 1.0, 2.0, 10.0, 11.0, 12.0]), bounds, 0.5, 20)
    np.testing.assert_array_equal(bounds, [0, 3, 6])


def test_cuts_stay_where_a_part_would_lose_its_rows():
    weights = np.array([1.0, 0.1, 1.0, 1.0])
    bounds = np.array([0, 2, 4])
    moved_cuts(*line([0.0, 4.9, 5.0, 5.1], weights), bounds, 1.05, 20)
    np.testing.assert_array_equal(bounds, [0, 2, 4])


def test_no_moves_are_made_beyond_the_most():
    bounds = np.array([0, 1, 6])
    moved_cuts(*line([0.0, 1.0, 2.0, 10.0, 11.0, 12.0]), bounds, 0.5, 0)
    np.testing.assert_array_equal(bounds, [0, 1, 6])


@pytest.mark.parametrize("bounds", [[0, 2], [1, 3], [0, 2, 2, 3], [0]])
def test_bounds_that_are_none(bounds):
    with pytest.raises(ValueError, match="bounds"):
        moved_cuts(*line([1.0, 2.0, 3.0]), np.array(bounds), 0.5, 20)


def test_sums_and_rows_that_do_not_fit():
    z, counts, moments = line([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="one more value"):
        best_cut(z[:-1].copy(), counts, moments, 0, 2, 0.5)
    with pytest.raises(ValueError, match="one more value"):
        moved_cuts(z, counts, moments[:-1].copy(), np.array([0, 3]), 0.5, 20)
    for start, stop in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="no such rows"):
            best_cut(z, counts, moments, start, stop, 0.5)
