"""Rows by the pattern of their missing cells, and mixtures of some columns."""

import numpy as np
import pytest
from conditional_helpers import NAN, with_gaps
from reference import random_mixture

from amofa._model import missing_data
from amofa._model.missing_data import patterns

# ---- patterns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7, 1 << 20])
def test_every_row_comes_once_with_its_observed_columns(batch, rng, monkeypatch):
    monkeypatch.setattr(missing_data, "_BATCH_CELLS", batch)
    X = with_gaps(rng, rng.standard_normal((200, 10)), share=0.15)
    rows = np.flatnonzero(rng.random(200) < 0.7)
    for selected, table in ((None, X), (rows, X[rows])):
        seen = np.concatenate([positions for positions, _ in patterns(X, selected)])
        assert sorted(seen) == list(range(len(table)))
        for positions, observed in patterns(X, selected):
            np.testing.assert_array_equal(~np.isnan(table[positions]), np.tile(observed, (len(positions), 1)))
            assert (np.diff(positions) > 0).all()


def test_equal_patterns_come_together(rng):
    X = rng.standard_normal((60, 11))
    X[20:40, 3] = NAN
    X[::2, 9] = NAN
    found = {tuple(np.flatnonzero(~observed)): len(positions) for positions, observed in patterns(X)}
    assert found == {(): 20, (3,): 10, (9,): 20, (3, 9): 10}
    assert len(list(patterns(X))) == 4


def test_narrow_mixtures_have_the_same_loadings_when_turned(rng):
    parameters = random_mixture(rng, 3, 6, (4, 1, 3))
    narrow, turns = missing_data._with_fewest_factors(parameters.of_columns(np.array([5, 2])))
    assert narrow.n_factors == (2, 1, 2)
    assert turns[1] is None
    for k, c in enumerate(parameters.components()):
        kept = c.loadings[:, [5, 2]]
        turn = np.eye(len(kept)) if turns[k] is None else turns[k]
        np.testing.assert_allclose(turn @ narrow.component_loadings(k), kept, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(turn.T @ turn, np.eye(narrow.n_factors[k]), atol=1e-14)
    assert missing_data._with_fewest_factors(parameters)[0] is parameters
