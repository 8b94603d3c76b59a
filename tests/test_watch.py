"""What a fit tells while it runs, and what is left of it when it is stopped."""

from __future__ import annotations

from dataclasses import fields

import datasets
import numpy as np
import pytest

import amofa
from amofa.history import Step

SEARCHES = ["thorough", "paper"]


def as_step(live):
    return Step(**{field.name: getattr(live, field.name) for field in fields(Step)})


@pytest.fixture
def x(rng):
    return datasets.example_2(rng)[0]


@pytest.mark.parametrize("search", SEARCHES)
def test_the_callback_sees_every_step_with_its_model(x, search):
    seen = []
    model = amofa.fit(x, search=search, callback=seen.append)
    assert [as_step(step) for step in seen] == list(model.history)
    for step in seen:
        assert step.model.n_features == 2
        assert tuple(sorted(step.model.n_factors)) == tuple(sorted(step.n_factors))
        assert step.model.score_samples(x).sum() == pytest.approx(step.log_likelihood, rel=1e-9)
        assert step.model.history == ()


@pytest.mark.parametrize("search", SEARCHES)
def test_a_callback_changes_nothing(x, search):
    plain, watched = amofa.fit(x, search=search), amofa.fit(x, search=search, callback=lambda step: None)
    assert watched.history == plain.history
    np.testing.assert_array_equal(watched.means, plain.means)


@pytest.mark.parametrize("search", SEARCHES)
def test_what_the_callback_returns_stops_the_search(x, search):
    model = amofa.fit(x, search=search, callback=lambda step: step.n_components == 2)
    assert [step.n_components for step in model.history] == [1] * (len(model.history) - 1) + [2]
    best = min(model.history, key=lambda step: step.cost)
    assert tuple(sorted(model.n_factors)) == tuple(sorted(best.n_factors))
    assert model.log_likelihood == pytest.approx(best.log_likelihood, rel=1e-9)


def test_a_stopped_search_keeps_to_what_was_given(x):
    """As far as there is such a model: the cheapest of all would have more components."""
    costs = []

    def stop(step):
        costs.append((step.n_components, step.cost))
        return step.n_components == 2

    assert amofa.fit(x, n_components=2, callback=stop).n_components == 2


def interrupt_at(number):
    def callback(step):
        callback.seen += 1
        if callback.seen == number:
            raise KeyboardInterrupt

    callback.seen = 0
    return callback


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_interrupt_leaves_the_best_model(x, search, number):
    with pytest.raises(KeyboardInterrupt) as caught:
        amofa.fit(x, search=search, callback=interrupt_at(number))
    assert isinstance(caught.value, amofa.FitInterrupted)
    model = caught.value.model
    assert len(model.history) == number
    best = min(model.history, key=lambda step: step.cost)
    assert model.log_likelihood == pytest.approx(best.log_likelihood, rel=1e-9)
    assert model.predict(x).shape == (len(x),)


@pytest.mark.parametrize("search", SEARCHES)
def test_an_interrupt_can_return_the_best_model(x, search):
    with pytest.warns(amofa.AmofaWarning, match="interrupted; this is the best model so far"):
        model = amofa.fit(x, search=search, callback=interrupt_at(2), on_interrupt="return")
    assert len(model.history) == 2


def test_an_interrupt_before_the_first_model_is_what_it_is(x, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("amofa.thorough.exact_em", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        amofa.fit(x, on_interrupt="return")
    assert not isinstance(caught.value, amofa.FitInterrupted)


def test_errors_of_the_callback_reach_the_caller(x):
    def callback(step):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        amofa.fit(x, callback=callback)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("callback", 3, TypeError, "callback must be a function of a step, got 3"),
        ("on_interrupt", "keep", ValueError, "on_interrupt must be one of 'raise', 'return', got 'keep'"),
    ],
)
def test_options_that_are_refused(x, name, value, error, message):
    with pytest.raises(error, match=message):
        amofa.fit(x, **{name: value})
