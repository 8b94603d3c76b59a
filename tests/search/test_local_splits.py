"""Local splits are the same wherever they are found."""

import pickle

import numpy as np
import pytest

import amofa
from amofa._data import row_chunks
from amofa._data.row_chunks import Samples
from amofa._search import levels


class Elsewhere:
    """Work as in another process, which gets copies."""

    def __init__(self):
        self.n_items = 0

    def in_order(self, make_worker, items):
        self.n_items += len(items)
        sent = pickle.dumps((make_worker, list(items)))
        assert len(sent) < 1e6  # without all rows for each item, and without the monitor
        make_worker, items = pickle.loads(sent)
        worker = make_worker()
        return [worker(item) for item in items]


@pytest.mark.parametrize("options", [{}, {"tails": "t"}, {"missing": True}], ids=str)
def test_splits_of_another_process_are_the_same(rng, monkeypatch, options):
    options = dict(options)
    X = rng.normal(0, 1, (900, 3)) + 7 * rng.integers(0, 3, (900, 1)) * [1, 0, 1]
    if options.pop("missing", False):
        X[rng.random(X.shape) < 0.1] = np.nan
    w = rng.random(900) + 0.5
    expected = amofa.fit(X, sample_weight=w, max_components=4, noise="component", **options)
    elsewhere = Elsewhere()
    monkeypatch.setattr(levels, "_LEAST_VALUES_ELSEWHERE", 0)
    monkeypatch.setattr(Samples, "executor", elsewhere)
    model = amofa.fit(X, sample_weight=w, max_components=4, noise="component", **options)
    assert elsewhere.n_items > 3
    assert model._parameters.buffer.tobytes() == expected._parameters.buffer.tobytes()


@pytest.mark.parametrize("n_groups", [1, 2])
def test_rows_that_stand_for_many_are_not_split_by_chance(rng, monkeypatch, n_groups):
    """What a split gains on the rows that are held by chance is not worth a run of EM on all rows."""
    monkeypatch.setattr(row_chunks, "_HELD_ROWS", 500)
    X = rng.normal(size=(15_000, 3)) + 6 * rng.integers(0, n_groups, (15_000, 1))
    model = amofa.fit(X, noise="component")
    assert model.n_components == n_groups
    settled = next(i for i, step in enumerate(model.history) if step.n_components == n_groups)
    tried = [step for step in model.history[settled:] if step.action == "split" and not step.accepted]
    assert len(tried) <= 3 * (n_groups - 1)
    assert all(step.n_components < 2 * n_groups + 6 for step in tried)
