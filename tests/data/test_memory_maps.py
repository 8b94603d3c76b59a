"""Tables in memory-mapped files are read like any other."""

import numpy as np
import pytest

import amofa


def mapped(table, path, order="C"):
    array = np.memmap(path, table.dtype, "w+", shape=table.shape, order=order)
    array[:] = table
    return array


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_models_are_those_of_tables_in_memory(rng, tmp_path, dtype, order):
    table = (100 * np.concatenate([rng.normal(0, 1, (300, 3)), rng.normal(8, 1, (200, 3))])).astype(dtype)
    array = mapped(table, tmp_path / "table", order)
    weights = mapped(rng.integers(0, 3, 500), tmp_path / "weights")
    labels = mapped(np.repeat([0, 1], 250), tmp_path / "labels")
    for options in ({}, {"sample_weight": weights}, {"init": labels, "search": "paper"}):
        a, b = amofa.fit(array, **options), amofa.fit(table, **options)
        assert a.history == b.history
        np.testing.assert_array_equal(a.means, b.means)
        np.testing.assert_array_equal(a.predict_proba(array), b.predict_proba(table))
