"""Histories and models that must stay as they are recorded: bit for bit where they were recorded, nearly elsewhere.

Elsewhere steps and numbers of iterations are the same; nats, weights and means agree to 1e-9. A change that is meant to
change results records them anew (`python tests/helpers/golden_cases.py`) and says so in the CHANGELOG.
"""

import json

import numpy as np
import pytest
from golden_cases import (
    CASES,
    MODEL_ARRAYS,
    MODEL_CHOICES,
    MODEL_NUMBERS,
    STEP_CHOICES,
    environment,
    fitted,
    record_of,
    recorded,
)

TOLERANCE = 1e-9
# The default search stops the iterations for loadings and uniquenesses when the cost gains no more: near its maximum,
# where it is flat, they are as exact as the square root of that. Seen: 2e-7.
FLAT_TOLERANCE = 1e-6
ENVIRONMENT, RECORDS = recorded()
RESUMED = ["example 2", "example 2, paper", "wide", "shared noise", "factors of each, paper", "labels"]


def approx(expected):
    return pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


def check_history(actual, expected):
    """Check for the same steps, at the same costs."""
    n = len(STEP_CHOICES)
    assert [step[:n] for step in actual] == [step[:n] for step in expected]
    for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
        assert one[n:] == approx(other[n:]), f"step {number}"


def check_model(actual, expected, scale, flat_tolerance):
    """Check for the same parameters, in units of the columns' standard deviations (d,), and figures."""
    for name in MODEL_CHOICES:
        assert actual[name] == expected[name]
    for name in MODEL_NUMBERS:
        assert actual[name] == approx(expected[name])
    units = {"weights": 1.0, "means": scale, "uniquenesses": scale**2, "loadings": scale[:, None]}
    for name in MODEL_ARRAYS:
        tolerance = flat_tolerance if name in ("uniquenesses", "loadings") else TOLERANCE
        for one, other in zip(actual[name], expected[name], strict=True):
            one, other = (np.array(part) / units[name] for part in (one, other))
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=name)


def test_records_are_of_the_cases():
    assert list(RECORDS) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_history_and_model(name):
    X, options = CASES[name]
    # Recorded with one thread.
    actual, expected = record_of(X, fitted(X, n_threads=2, **options)), RECORDS[name]
    assert actual["table"] == expected["table"]
    check_history(actual["history"], expected["history"])
    deviations = X.std(axis=0)
    scale = np.where(deviations > 0, deviations, 1.0)
    flat_tolerance = TOLERANCE if options.get("search") == "paper" else FLAT_TOLERANCE
    check_model(actual["model"], expected["model"], scale, flat_tolerance)
    if environment() == ENVIRONMENT:
        assert json.dumps(actual) == json.dumps(expected)


def test_environment():
    """Say why fits are not compared bit for bit, where they are not."""
    here = environment()
    differing = [f"{name} {here[name]} for {ENVIRONMENT[name]}" for name in here if here[name] != ENVIRONMENT[name]]
    if differing:
        pytest.skip(f"not compared bit for bit: recorded elsewhere ({'; '.join(differing)})")


@pytest.mark.parametrize("name", RESUMED)
def test_a_stopped_fit_resumes(name, tmp_path):
    X, options = CASES[name]
    whole = record_of(X, fitted(X, **options))
    assert record_of(X, fitted(X, checkpoint=tmp_path / "whole", **options)) == whole
    for last in (0, len(whole["history"]) // 2):
        path, seen = tmp_path / f"step {last}", []

        def stops(step, seen=seen, last=last):
            seen.append(step)
            return len(seen) > last

        stopped = record_of(X, fitted(X, checkpoint=path, callback=stops, **options))
        assert stopped["history"] == whole["history"][: last + 1]
        assert record_of(X, fitted(X, checkpoint=path, **options)) == whole
