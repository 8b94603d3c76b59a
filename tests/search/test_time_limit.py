"""The time that a fit may take. The clock of these tests ticks once whenever it is looked at."""

import itertools

import datasets
import numpy as np
import pytest

import amofa
from amofa._search import monitor


@pytest.fixture
def x(rng):
    return datasets.example_2(rng)[0][::4]


@pytest.fixture
def ticks(monkeypatch):
    """The clock's reading goes up by one with every look at it."""
    monkeypatch.setattr(monitor.time, "monotonic", map(float, itertools.count()).__next__)


def test_enough_time_changes_nothing(x, search):
    plain, timed = amofa.fit(x, search=search), amofa.fit(x, search=search, max_time=1e9)
    assert timed.history == plain.history
    assert timed.converged
    np.testing.assert_array_equal(timed.means, plain.means)


@pytest.mark.parametrize("options", [{}, {"n_components": 5}, {"n_factors": 1}])
def test_a_search_that_is_out_of_time_gives_the_best_model_so_far(x, search, options, ticks):
    whole = amofa.fit(x, search=search, **options)
    ended = []
    for most in (1, 5, 20, 80, 200):
        seen = []
        with pytest.warns(amofa.AmofaWarning, match=f"had not ended after max_time={most} s") as caught:
            model = amofa.fit(x, search=search, max_time=most, callback=lambda step: seen.append(step), **options)  # noqa: B023
        assert len(caught) == 1
        assert not model.converged
        assert model.history == whole.history[: len(model.history)]
        assert len(seen) == len(model.history)
        best = min(model.history, key=lambda step: step.cost)
        if not options:
            assert model.log_likelihood == pytest.approx(best.log_likelihood, rel=1e-9)
        np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1.0, rtol=1e-12)
        ended.append(len(model.history))
    assert ended == sorted(ended)
    assert ended[0] < ended[-1] < len(whole.history)


@pytest.mark.parametrize("shape", [(200, 2), (20, 60)])
def test_the_first_model_takes_what_it_takes(rng, search, shape):
    x = rng.standard_normal(shape)
    with pytest.warns(amofa.AmofaWarning, match="max_time=1e-12 s"):
        model = amofa.fit(x, search=search, max_time=1e-12)
    assert [step.action for step in model.history] == ["start"]
    assert model.n_components == 1


def test_a_model_to_start_from_is_a_model(x, ticks):
    given = amofa.fit(x, n_components=3)
    with pytest.warns(amofa.AmofaWarning, match="max_time"):
        model = amofa.fit(x, init=given, max_time=1)
    assert model.n_components == 3
    assert len(model.history) == 1


def test_all_threads_stop(rng):
    x = rng.standard_normal((3000, 40)) @ rng.standard_normal((40, 40))
    x[:1000] += 3
    with pytest.warns(amofa.AmofaWarning, match="max_time"):
        model = amofa.fit(x, max_time=1e-9, n_threads=3)
    assert model.n_components == 1


def test_fits_of_a_callback_have_clocks_of_their_own(x, ticks):
    inner = []
    with pytest.warns(amofa.AmofaWarning, match="max_time=3 s") as caught:
        amofa.fit(x, max_time=3, callback=lambda step: inner.append(amofa.fit(x)))
    assert len(caught) == 1
    assert {model.converged for model in inner} == {True}


def test_nothing_to_find_takes_no_time():
    with pytest.warns(amofa.AmofaWarning, match="constant"):
        model = amofa.fit(np.ones((5, 2)), max_time=1e-12)
    assert model.n_components == 1


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ValueError, "max_time must be positive and finite, got 0"),
        (-1.0, ValueError, "max_time must be positive"),
        (np.inf, ValueError, "max_time must be positive and finite"),
        ("1", TypeError, "max_time must be a number"),
        (True, TypeError, "max_time must be a number"),
    ],
)
def test_times_that_are_refused(x, value, error, message):
    with pytest.raises(error, match=message):
        amofa.fit(x, max_time=value)
