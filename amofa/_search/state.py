"""The state of a search between two steps: plain data, which a checkpoint keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from amofa._background import Background, BackgroundDensity, Kind
from amofa._em.outcome import Outcome
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray
from amofa.history import Step

# The phase after the last step.
END = "end"


@dataclass(frozen=True)
class LocalSplit:
    """A component's best local split."""

    component: Component
    gain: float  # decrease of the cost in nats; a lower bound of that by EM on all rows
    children: tuple[Component, ...] | None  # None if no local fit holds
    fits: bool = False  # whether its rows show no sign of groups
    thorough: bool = True  # whether all starts had their chance


@dataclass
class State:
    """A search between two steps."""

    phase: str = "start"  # the next step: a method of the search, or "end" after the last
    current: Outcome | None = None  # the present mixture; None before the first
    best: Outcome | None = None  # the cheapest so far of those that meet the constraints
    history: list[Step] = field(default_factory=list)
    pending: Parameters | None = None  # the mixture from which EM runs next
    action: str = "start"  # how `pending` was made
    component: int = -1  # the one that was changed for it; -1 if none
    level: int = 0  # number of the level, whose rows are searched
    family: int = 0  # number of the family that is searched
    given: Outcome | None = None  # the given start, as it is
    splits: list[LocalSplit] = field(default_factory=list)  # of the components, as they were when these were found
    known: list[LocalSplit] = field(default_factory=list)  # those of the best mixture of this family
    thorough: bool = False  # whether splits are looked for thoroughly
    trial: int = 0  # number of splits, merges or exchanges of the present mixture that were tried
    found: Outcome | None = None  # the best mixture of this family
    fits: bool = False  # whether the rows of its components show no sign of further groups
    ways: list[Parameters] | None = None  # mixtures to descend from; None before they are looked for
    in_vain: int = 0  # number of the last ones that led to nothing better
    results: list[Outcome | None] = field(default_factory=list)  # the best mixtures of the families before it
    plain: Outcome | None = None  # the best one without a background, once one is tried
    seeds: list[Outcome | None] = field(default_factory=list)  # those of all families on the level before
    seed_cost: float | None = None  # of the first of these on this level, once EM has run
    result: Outcome | None = None  # the best of those that were refined


# ---- as text and numbers ---------------------------------------------------------------------------------------------

_LISTS = ("history", "splits", "known", "results", "seeds")
_SAVED = (State, Outcome, LocalSplit, Step, Component, Background, BackgroundDensity)
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in _SAVED}


def to_text(state: State, settings: Mapping[str, str]) -> tuple[str, FloatArray]:
    """Return a state as JSON, and one array of all float64 values of its arrays.

    The moments of an `Outcome` are left out: they follow from its parameters.
    """
    arrays: list[FloatArray] = []
    encoded = _encoded(state, arrays)
    text = json.dumps({"settings": dict(settings), "state": encoded, "sizes": [array.size for array in arrays]})
    return text, np.concatenate([np.zeros(0), *(array.ravel() for array in arrays)])


def from_text(text: str, values: FloatArray) -> tuple[State, dict[str, str]]:
    """Return the arguments of `to_text`, equal to the last bit.

    Raises an exception of nearly any kind if the text was not made by `to_text`.
    """
    whole = json.loads(text)
    arrays = np.split(np.array(values, dtype=np.float64), np.cumsum(whole["sizes"], dtype=np.intp))
    state = _decoded(whole["state"], arrays)
    if not isinstance(state, State):
        raise ValueError("it holds no state of a search")
    return state, {str(name): str(value) for name, value in whole["settings"].items()}


def _encoded(value: Any, arrays: list[FloatArray]) -> Any:
    if isinstance(value, Parameters):
        parts = {"n_factors": value.n_factors, "values": value.buffer, "background": value.background}
        return {"class": "Parameters", **{name: _encoded(part, arrays) for name, part in parts.items()}}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"class": "array", "number": len(arrays) - 1, "shape": value.shape}
    if isinstance(value, Component | Background):
        parts = {name: _encoded(part, arrays) for name, part in value._asdict().items()}
        return {"class": type(value).__name__, **parts}
    if type(value).__name__ in _CLASSES:
        parts = {f.name: getattr(value, f.name) for f in fields(value) if f.name != "moments"}
        return {"class": type(value).__name__, **{name: _encoded(part, arrays) for name, part in parts.items()}}
    if isinstance(value, list | tuple):
        return [_encoded(part, arrays) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _decoded(value: Any, arrays: Sequence[FloatArray]) -> Any:
    if isinstance(value, list):
        # JSON has no tuples; lists are restored below.
        return tuple(_decoded(part, arrays) for part in value)
    if not isinstance(value, dict):
        return value
    name = value["class"]
    parts = {key: _decoded(part, arrays) for key, part in value.items() if key != "class"}
    if name == "array":
        return arrays[parts["number"]].reshape(parts["shape"])
    if name == "Parameters":
        n_factors, buffer = parts["n_factors"], parts["values"]
        # 2 K + 2 K d + P d values.
        n_features = (len(buffer) - 2 * len(n_factors)) // (2 * len(n_factors) + sum(n_factors))
        parameters = Parameters(n_features, n_factors)
        parameters.buffer[:] = buffer
        parameters.background = parts["background"]
        return parameters
    if name == "BackgroundDensity":
        parts["kind"] = Kind(parts["kind"])
    if name == "State":
        parts |= {key: list(parts[key]) for key in _LISTS}
        parts["ways"] = None if parts["ways"] is None else list(parts["ways"])
    return _CLASSES[name](**parts)
