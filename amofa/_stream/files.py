"""The format of the files of streams: plain arrays, with a format name and version, and nothing executable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.dataframes import check_feature_names
from amofa._data.standardize import Coordinates
from amofa._em.factor_analysis import Prior
from amofa._model.files import STREAM_FORMAT, Layout, check_array, check_layout
from amofa._noise import Noise
from amofa._parameters import Parameters
from amofa._search.options import FitOptions
from amofa._stream.mixture import Frame, RunningMixture
from amofa._stream.sample import SpreadRows
from amofa._stream.state import Block, Current, Settings, StreamState
from amofa._typing import FloatArray
from amofa.history import StreamStep

_VERSION = 1

# The arrays of a file: kind of value and shape. There are d columns, N names, none or one for each; m rows in the
# sample and w that wait; c columns that vary, J of which have steps of rounded numbers, or none; K components.
_HEAD: Layout = {"format": ("str", ""), "version": ("int64", ""), "text": ("str", "")}
_STATE: Layout = {
    "names": ("str", "N"),
    "low": ("float64", "d"),
    "high": ("float64", "d"),
    "waiting_rows": ("float64", "w d"),
    "waiting_weights": ("float64", "w"),
    "sample_rows": ("float64", "m d"),
    "sample_weights": ("float64", "m"),
    "sample_numbers": ("int64", "m"),
}
_FRAME: Layout = {
    "center": ("float64", "d"),
    "scale": ("float64", "d"),
    "deviation": ("float64", "d"),
    "floor": ("float64", "d"),
    "prior_floor": ("float64", "c"),
    "prior_scale": ("float64", "c"),
    "steps": ("float64", "J"),
}
_MIXTURE: Layout = {
    "n_factors": ("int64", "K"),
    "values": ("float64", "V"),
    "covariances": ("float64", "K c c"),
    "tail_shares": ("float64", "K"),
}
# Values of the state that are not arrays, in the text of a file.
_NUMBERS = ("n_rows", "total_weight")
_CURRENT_NUMBERS = ("next_look", "trial_end", "lead")


def stream_arrays(state: StreamState | None, settings: Settings) -> dict[str, NDArray[Any]]:
    """Return a stream as the arrays of its file, by name; without rows or a given model it has no state."""
    text: dict[str, Any] = {"settings": _settings_text(settings)}
    values: dict[str, Any] = {}
    layout = _HEAD
    if state is not None:
        current = state.current
        layout = _layout(current)
        values = _state_values(state)
        text["state"] = {name: getattr(state, name) for name in _NUMBERS}
        text["sample"] = {name: getattr(state.sample, name) for name in ("capacity", "level", "forgets")}
        text["history"] = [asdict(step) for step in state.history]
        if current is not None:
            text["current"] = {name: getattr(current, name) for name in _CURRENT_NUMBERS}
            text["current"] |= {"prior_count": current.frame.prior.count, "noise": str(current.mixture.noise)}
            text["current"]["rival"] = None if current.rival is None else str(current.rival.noise)
    values |= {"format": STREAM_FORMAT, "version": _VERSION, "text": json.dumps(text)}
    return {name: np.asarray(values[name], dtype=kind) for name, (kind, _) in layout.items()}


def stream_from_arrays(arrays: Mapping[str, Any]) -> tuple[StreamState | None, Settings]:
    """Return the arguments of `stream_arrays`, equal to the last bit.

    Raises ValueError if the arrays are not those of a stream.
    """
    for name, (kind, shape) in _HEAD.items():
        check_array(arrays, name, kind, shape, {})
    if not 1 <= int(arrays["version"]) <= _VERSION:
        raise ValueError(f"its version is {arrays['version']}, this amofa reads version {_VERSION}; upgrade amofa")
    try:
        text = json.loads(str(arrays["text"]))
        settings = _settings(text["settings"], len(arrays["low"]) if "low" in arrays else None)
        return (_state(arrays, text) if "state" in text else None), settings
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"its text is not that of a stream ({error!r})") from error


# ---- settings --------------------------------------------------------------------------------------------------------


def _settings_text(settings: Settings) -> dict[str, Any]:
    options = {name: value for name, value in settings.options.deciding().items() if value is not None}
    del options["search"]
    for name in ("noise_floor", "prior_scale"):
        if name in options:
            options[name] = np.asarray(options[name]).tolist()
    return {"memory": settings.memory, "warm_up": settings.warm_up, "options": options}


def _settings(text: Mapping[str, Any], n_features: int | None) -> Settings:
    memory, warm_up = text["memory"], text["warm_up"]
    settings = Settings(
        FitOptions(**text["options"]),
        None if memory is None else float(memory),
        None if warm_up is None else int(warm_up),
    )
    return settings if n_features is None else settings.of_columns(n_features)


# ---- state -----------------------------------------------------------------------------------------------------------


def _layout(current: Current | None) -> Layout:
    layout = _HEAD | _STATE
    if current is not None:
        layout |= _FRAME | _named(_MIXTURE, "mixture")
        layout |= {} if current.rival is None else _named(_MIXTURE, "rival")
    return layout


def _named(layout: Layout, prefix: str) -> Layout:
    # Each mixture has components and values of its own.
    return {
        f"{prefix}_{name}": (kind, shape.replace("K", f"K_{prefix}").replace("V", f"V_{prefix}"))
        for name, (kind, shape) in layout.items()
    }


def _state_values(state: StreamState) -> dict[str, Any]:
    sample, current = state.sample, state.current
    waiting = state.joined() if state.waiting else Block(np.zeros((0, state.n_features)), np.zeros(0))
    values: dict[str, Any] = {
        "names": state.names or (),
        "low": state.low,
        "high": state.high,
        "waiting_rows": waiting.rows,
        "waiting_weights": waiting.weights,
        "sample_rows": sample.rows,
        "sample_weights": sample.weights,
        "sample_numbers": sample.numbers,
    }
    if current is not None:
        frame, coordinates = current.frame, current.frame.coordinates
        values |= {
            "center": coordinates.center,
            "scale": coordinates.scale,
            "deviation": coordinates.deviation,
            "floor": frame.floor,
            "prior_floor": frame.prior.floor,
            "prior_scale": frame.prior.scale,
            "steps": () if frame.steps is None else frame.steps,
        }
        for prefix, mixture in (("mixture", current.mixture), ("rival", current.rival)):
            if mixture is not None:
                values[f"{prefix}_n_factors"] = mixture.parameters.n_factors
                values[f"{prefix}_values"] = mixture.parameters.buffer
                values[f"{prefix}_covariances"] = mixture.covariances
                values[f"{prefix}_tail_shares"] = mixture.tail_shares
    return values


def _state(arrays: Mapping[str, NDArray[Any]], text: Mapping[str, Any]) -> StreamState:
    layout = _HEAD | _STATE
    current = text.get("current")
    if current is not None:
        layout |= _FRAME | _named(_MIXTURE, "mixture")
        layout |= {} if current["rival"] is None else _named(_MIXTURE, "rival")
    check_layout(arrays, layout)
    # Rows from a file are read-only, and of its byte order.
    arrays = {name: array.astype(array.dtype.newbyteorder("=")) for name, array in arrays.items()}
    waiting = Block(arrays["waiting_rows"], arrays["waiting_weights"])
    sample = text["sample"]
    return StreamState(
        waiting=(waiting,) if len(waiting.rows) else (),
        sample=SpreadRows(
            arrays["sample_rows"],
            arrays["sample_weights"],
            arrays["sample_numbers"],
            int(sample["capacity"]),
            int(sample["level"]),
            bool(sample["forgets"]),
        ),
        low=arrays["low"],
        high=arrays["high"],
        n_rows=int(text["state"]["n_rows"]),
        total_weight=float(text["state"]["total_weight"]),
        current=None if current is None else _current(arrays, current),
        history=tuple(_step(step) for step in text["history"]),
        names=check_feature_names(arrays["names"].tolist() or None, len(arrays["low"])),
    )


def _step(text: Mapping[str, Any]) -> StreamStep:
    return StreamStep(**{**text, "n_factors": tuple(text["n_factors"])})


def _current(arrays: Mapping[str, NDArray[Any]], text: Mapping[str, Any]) -> Current:
    coordinates = Coordinates(arrays["center"], arrays["scale"], arrays["deviation"])
    prior = Prior(arrays["prior_floor"], arrays["prior_scale"], float(text["prior_count"]))
    if len(prior.floor) != len(coordinates.columns):
        raise ValueError(f"prior_floor has {len(prior.floor)} values for {len(coordinates.columns)} columns that vary")
    frame = Frame(coordinates, arrays["floor"], prior, arrays["steps"] if len(arrays["steps"]) else None)
    return Current(
        frame,
        _mixture(arrays, "mixture", text["noise"]),
        int(text["next_look"]),
        None if text["rival"] is None else _mixture(arrays, "rival", text["rival"]),
        int(text["trial_end"]),
        float(text["lead"]),
    )


def _mixture(arrays: Mapping[str, NDArray[Any]], prefix: str, noise: str) -> RunningMixture:
    values: FloatArray = arrays[f"{prefix}_values"]
    covariances, n_factors = arrays[f"{prefix}_covariances"], arrays[f"{prefix}_n_factors"].tolist()
    if min(n_factors, default=-1) < 0 or max(n_factors) > len(values):
        raise ValueError("n_factors must be numbers of factors")
    parameters = Parameters(covariances.shape[-1], n_factors)
    if len(values) != len(parameters.buffer):
        raise ValueError(f"{prefix}_values has {len(values)} values for {len(parameters.buffer)} parameters")
    if np.isnan(values).any() or not np.isfinite(covariances).all():
        raise ValueError(f"{prefix}_values or {prefix}_covariances are not finite")
    parameters.buffer[:] = values
    return RunningMixture(Noise(noise), parameters, covariances, arrays[f"{prefix}_tail_shares"])
