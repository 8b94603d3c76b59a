"""Print text, JSON, and lines on standard error."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from amofa.mixture import MixtureOfFactorAnalyzers


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def say_json(values: dict[str, Any]) -> None:
    say(json.dumps(_plain(values), allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: lists for arrays and tuples, None for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def whole(number: float) -> float:
    """Return a sum of weights as an int if it is whole, so that JSON has a number of rows without a fraction."""
    return int(number) if number.is_integer() else number


def complain(kind: str, message: str) -> None:
    """Print one line on standard error."""
    sys.stderr.write(f"amofa: {kind}: {' '.join(message.split())}\n")


class Interrupted(KeyboardInterrupt):
    """An interrupt of a command; the message says what has been saved."""


def tell_of_interrupt(saved: str) -> None:
    """Print one line on standard error about an interrupt, and what has been saved."""
    sys.stderr.write(f"amofa: interrupted{saved and '; '}{saved}\n")


def description(model: MixtureOfFactorAnalyzers) -> dict[str, Any]:
    """Return a description of a model for JSON, without its larger parameters."""
    return {
        "n_components": model.n_components,
        "n_features": model.n_features,
        "feature_names": model.feature_names,
        "n_factors": model.n_factors,
        "weights": model.weights,
        "background": model.background,
        "background_weight": model.background_weight,
        "n_parameters": model.n_parameters,
        "criterion": model.criterion,
        "n_samples": None if model.n_samples is None else whole(model.n_samples),
        "cost": model.cost,
        "message_length": model.message_length,
        "log_likelihood": model.log_likelihood,
        "converged": model.converged,
        "history": [{"n_components": step.n_components, **asdict(step)} for step in model.history],
    }
