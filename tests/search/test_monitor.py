"""What a fit tells while it runs, and what is left of it when it is stopped."""

import itertools
import logging
from dataclasses import fields

import datasets
import numpy as np
import pytest

import amofa
from amofa._data.row_chunks import Samples
from amofa._search.task import Task
from amofa.history import Step


def as_step(live):
    return Step(**{field.name: getattr(live, field.name) for field in fields(Step)})


@pytest.fixture
def x(rng):
    return datasets.example_2(rng)[0]


def test_the_callback_sees_every_step_with_its_model(x, search):
    seen = []
    model = amofa.fit(x, search=search, callback=seen.append)
    assert [as_step(step) for step in seen] == list(model.history)
    for step in seen:
        assert step.model.n_features == 2
        assert tuple(sorted(step.model.n_factors)) == tuple(sorted(step.n_factors))
        assert step.model.score_samples(x).sum() == pytest.approx(step.log_likelihood, rel=1e-9)
        assert step.model.history == ()


def test_a_callback_changes_nothing(x, search):
    plain, watched = amofa.fit(x, search=search), amofa.fit(x, search=search, callback=lambda step: None)
    assert watched.history == plain.history
    np.testing.assert_array_equal(watched.means, plain.means)


def test_what_the_callback_returns_stops_the_search(x, search):
    model = amofa.fit(x, search=search, callback=lambda step: step.n_components == 2)
    assert [step.n_components for step in model.history] == [1] * (len(model.history) - 1) + [2]
    best = min(model.history, key=lambda step: step.cost)
    assert tuple(sorted(model.n_factors)) == tuple(sorted(best.n_factors))
    assert model.log_likelihood == pytest.approx(best.log_likelihood, rel=1e-9)


def test_a_stopped_search_keeps_to_what_was_given(x):
    """As far as there is such a model: the cheapest of all would have more components."""
    assert amofa.fit(x, n_components=2, callback=lambda step: step.n_components == 2).n_components == 2


def test_a_search_from_two_starts_that_is_stopped_in_the_second(x):
    """The model of shared noise has been refined by then, but the search has not ended."""
    given = amofa.fit(x, n_components=3, noise="shared")
    whole = amofa.fit(x, init=given)
    number = [step.action for step in whole.history].index("start", 1) + 1
    seen = []
    model = amofa.fit(x, init=given, callback=lambda step: seen.append(step) or len(seen) > number)
    assert len(model.history) == number + 1
    assert not model.converged
    best = min(model.history, key=lambda step: step.cost)
    assert model.log_likelihood == pytest.approx(best.log_likelihood, rel=1e-9)


def test_a_search_that_is_stopped_at_its_last_step_has_not_ended(x):
    """Its model says so, without the warning about EM that goes with an end."""
    model = amofa.fit(x, search="paper", max_iter=5, callback=lambda step: step.action == "refine")
    assert model.history[-1].action == "refine"
    assert not model.converged


def interrupt_at(number):
    def callback(step):
        callback.seen += 1
        if callback.seen == number:
            raise KeyboardInterrupt

    callback.seen = 0
    return callback


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


def test_an_interrupt_can_return_the_best_model(x, search):
    with pytest.warns(amofa.AmofaWarning, match="interrupted; this is the best model so far"):
        model = amofa.fit(x, search=search, callback=interrupt_at(2), on_interrupt="return")
    assert len(model.history) == 2


def test_an_interrupt_before_the_first_model_is_what_it_is(x, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("amofa._search.descent.profile_em", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        amofa.fit(x, on_interrupt="return")
    assert not isinstance(caught.value, amofa.FitInterrupted)


def passes_of(monkeypatch, interrupt_at=None):
    """A list that grows with every pass over rows, whichever it is; one of them is interrupted."""
    passes = []
    reader = Samples._reader

    def counted(self):
        passes.append(self.n_rows)
        if len(passes) == interrupt_at:
            raise KeyboardInterrupt
        return reader(self)

    monkeypatch.setattr(Samples, "_reader", counted)
    return passes


def test_an_interrupt_in_any_pass(rng, monkeypatch, search):
    """First EM, local fits, moments, the last look at the chosen model: each leaves the best model seen by then."""
    X = datasets.example_1(rng)[0][::3]
    with monkeypatch.context() as patch:
        passes = passes_of(patch)
        seen = []
        amofa.fit(X, search=search, callback=lambda step: seen.append((len(passes), step.cost)))
    first = seen[0][0]
    numbers = {1, first, first + 1, *np.linspace(first, len(passes), 12).astype(int).tolist()}
    for number in numbers:
        with monkeypatch.context() as patch:
            passes_of(patch, number)
            with pytest.raises(KeyboardInterrupt) as caught:
                amofa.fit(X, search=search)
        told = [cost for at, cost in seen if at < number]
        assert isinstance(caught.value, amofa.FitInterrupted) == bool(told), number
        if told:
            model = caught.value.model
            assert [step.cost for step in model.history] == told
            best = min(model.history, key=lambda step: step.cost)
            assert model.log_likelihood == pytest.approx(best.log_likelihood, rel=1e-9)


def test_errors_of_the_callback_reach_the_caller(x):
    def callback(step):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        amofa.fit(x, callback=callback)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("progress", 1, TypeError, "progress must be True or False, got 1"),
        ("progress", "bar", TypeError, "progress must be True or False, got 'bar'"),
        ("callback", 3, TypeError, "callback must be a function of a step, got 3"),
        ("on_interrupt", "keep", ValueError, "on_interrupt must be one of 'raise', 'return', got 'keep'"),
    ],
)
def test_options_that_are_refused(x, name, value, error, message):
    with pytest.raises(error, match=message):
        amofa.fit(x, **{name: value})


# ---- logging ---------------------------------------------------------------------------------------------------------


def test_every_step_is_logged(x, caplog, search):
    caplog.set_level(logging.DEBUG, logger="amofa")
    model = amofa.fit(x, search=search)
    assert [record.name for record in caplog.records] == ["amofa"] * len(model.history)
    for record, step in zip(caplog.records, model.history, strict=True):
        assert record.levelno == (logging.INFO if step.accepted else logging.DEBUG)
        message = record.getMessage()
        assert message.startswith(step.action)
        assert ("accepted" if step.accepted else "rejected") in message
        assert f"cost {step.cost:.2f} nats" in message
        assert f"factors {' '.join(map(str, step.n_factors))}," in message


def test_nothing_is_written_unasked(x, capfd):
    amofa.fit(x)
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_of_the_last_look_after_a_stop(x, monkeypatch):
    """What the search had found is not lost with it."""
    conclude, calls = Task.conclude, []

    def interrupted(self, *arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return conclude(self, *arguments)

    monkeypatch.setattr(Task, "conclude", interrupted)
    with pytest.raises(amofa.FitInterrupted) as caught:
        amofa.fit(x, callback=lambda step: step.n_components == 2)
    assert caught.value.model.n_components == 2


# ---- iterations ------------------------------------------------------------------------------------------------------


def test_iterations_of_em_are_told_of(x, search):
    plain, iterations, at_steps = amofa.fit(x, search=search), [], []
    model = amofa.fit(
        x, search=search, on_iteration=iterations.append, callback=lambda step: at_steps.append(len(iterations))
    )
    assert model.history == plain.history
    # The first run, which is all of the first step, from one component on.
    first = iterations[: at_steps[0]]
    assert [i.n_iter for i in first] == list(range(1, model.history[0].n_iter + 1))
    assert {i.n_components for i in first} == {1}
    # The last iteration of every run has what its step has, or better ones have gone before it.
    for number, step in zip(at_steps, model.history, strict=True):
        if search == "thorough" and step.n_iter < 100:
            last = iterations[number - 1]
            assert (last.n_factors, last.cost) == (step.n_factors, pytest.approx(step.cost, abs=1e-9))
            assert last.log_likelihood == pytest.approx(step.log_likelihood, abs=1e-9)
    assert at_steps == sorted(at_steps)


def test_costs_of_a_run_do_not_rise_while_factors_stay(x, search):
    iterations = []
    amofa.fit(x, search=search, on_iteration=iterations.append)
    pairs = [
        (a, b) for a, b in itertools.pairwise(iterations) if b.n_iter == a.n_iter + 1 and b.n_factors == a.n_factors
    ]
    assert len(pairs) > 20
    # The message length may rise with the weights, while the likelihood does as well.
    assert all(b.cost <= a.cost + 1e-6 or b.log_likelihood >= a.log_likelihood for a, b in pairs)


def test_an_iteration_may_end_the_search(x, search):
    model = amofa.fit(x, search=search, on_iteration=lambda iteration: True)
    assert len(model.history) == 1
    assert not model.converged
    later = amofa.fit(x, search=search, on_iteration=lambda iteration: iteration.n_components == 2)
    assert len(later.history) < len(amofa.fit(x, search=search).history)


def test_an_error_or_interrupt_in_an_iteration(x):
    def fail(iteration):
        if iteration.n_components == 2:
            raise error

    error = RuntimeError("of the caller")
    with pytest.raises(RuntimeError, match="of the caller"):
        amofa.fit(x, on_iteration=fail)
    error = KeyboardInterrupt()
    with pytest.raises(amofa.FitInterrupted):
        amofa.fit(x, on_iteration=fail)
    with pytest.raises(TypeError, match="on_iteration must be a function of an iteration, got 3"):
        amofa.fit(x, on_iteration=3)
