"""The format of model files: a model as plain arrays, with a format name and version, and nothing executable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.dataframes import check_feature_names
from amofa._data.npz import SHOWN_CHARACTERS
from amofa._model.background import background_arrays, background_from_arrays
from amofa._model.from_arrays import parameters_from_arrays
from amofa._noise import Noise
from amofa._parameters import Parameters
from amofa.criterion import n_parameters
from amofa.history import FitReport, Step

_FORMAT = "amofa.MixtureOfFactorAnalyzers"
# That of files of streams, which `amofa._stream.files` reads.
STREAM_FORMAT = "amofa.Stream"
# That of models of classes, which `amofa.classes` reads.
CLASSES_FORMAT = "amofa.ClassMixtures"
_VERSION = 7

# The arrays of a file: kind of value and shape. There are K components with P factors in all; d features, and N names,
# none or one for each; J parts of a background, none without one; S steps of the search, with F components in all.
# Loadings have one row for each factor, component after component.
Layout = dict[str, tuple[str, str]]
_MODEL: Layout = {
    "format": ("str", ""),
    "version": ("int64", ""),
    "is_fitted": ("bool", ""),
    "weights": ("float64", "K"),
    "means": ("float64", "K d"),
    "uniquenesses": ("float64", "K d"),
    "loadings": ("float64", "P d"),
    "n_factors": ("int64", "K"),
    "degrees_of_freedom": ("float64", "K"),
    "feature_names": ("str", "N"),
    "background": ("str", ""),
    "background_weight": ("float64", ""),
    "background_center": ("float64", "J d"),
    "background_scale": ("float64", "J d"),
    "background_shares": ("float64", "J"),
    "background_degrees_of_freedom": ("float64", ""),
}
# In files of fitted models only, where is_fitted is true.
_REPORT: Layout = {
    "log_likelihood": ("float64", ""),
    "message_length": ("float64", ""),
    "criterion": ("str", ""),
    "n_samples": ("float64", ""),
    "converged": ("bool", ""),
    "at_floor": ("bool", "K d"),
    "n_parameters": ("int64", ""),
    "cost": ("float64", ""),
    "constant": ("bool", "d"),
    "noise": ("str", ""),
}
# The first version with an array. Without a count of parameters, it follows from the numbers of factors; names of
# features, the cost, constant columns and the kind of noise may be unknown; without degrees of freedom, components are
# normal, and there was no background before it had an array.
_LATER = {"n_parameters": 2, "feature_names": 3, "cost": 4, "degrees_of_freedom": 5, "constant": 5, "noise": 7}
_LATER |= {name: 6 for name in _MODEL if name.startswith("background")}
_HISTORY: Layout = {
    "step_action": ("str", "S"),
    "step_component": ("int64", "S"),
    "step_cost": ("float64", "S"),
    "step_message_length": ("float64", "S"),
    "step_log_likelihood": ("float64", "S"),
    "step_n_iter": ("int64", "S"),
    "step_accepted": ("bool", "S"),
    "step_n_components": ("int64", "S"),
    "step_n_factors": ("int64", "F"),
}

# Names of arrays that are not part of the model begin with this: a checkpoint is a model file with such arrays.
EXTRA = "search/"

_Arrays = Mapping[str, NDArray[Any]]

# Error messages show up to this number of unknown names.
_SHOWN_NAMES = 5


def model_arrays(
    parameters: Parameters, report: FitReport | None = None, feature_names: tuple[str, ...] | None = None
) -> dict[str, NDArray[Any]]:
    """Return a model as the arrays of its file, by name."""
    values: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "is_fitted": report is not None,
        "weights": parameters.weights,
        "means": parameters.means,
        "uniquenesses": parameters.uniquenesses,
        "loadings": parameters.loadings,
        "n_factors": parameters.n_factors,
        "degrees_of_freedom": parameters.degrees_of_freedom,
        "feature_names": feature_names or (),
        **background_arrays(parameters.background, parameters.n_features),
    }
    if report is not None:
        values |= {name: getattr(report, name) for name in _REPORT}
        values["noise"] = report.noise or ""
        if report.constant is None:
            values["constant"] = np.zeros(parameters.n_features)
        values |= {f"step_{name}": [getattr(step, name) for step in report.history] for name in _step_fields()}
        values["step_n_components"] = [step.n_components for step in report.history]
        values["step_n_factors"] = [p for step in report.history for p in step.n_factors]
    layout = _layout(report is not None)
    return {name: np.asarray(values[name], dtype=kind) for name, (kind, _) in layout.items()}


def model_from_arrays(arrays: Mapping[str, Any]) -> tuple[Parameters, FitReport | None, tuple[str, ...] | None]:
    """Check the arrays of a file, and return its parameters, report and names of features; skip those of `EXTRA`.

    Raises ValueError if an array is missing, unknown, or has a wrong dtype, shape or value.
    """
    if arrays and all(name.startswith(EXTRA) for name in arrays):
        raise ValueError("it is a checkpoint whose fit had no model yet")
    arrays = {name: array for name, array in arrays.items() if not name.startswith(EXTRA)}
    _check_layout(arrays)
    loadings = [part.T for part in _parts(arrays, "loadings", "n_factors")]
    parameters = parameters_from_arrays(
        arrays["weights"], arrays["means"], loadings, arrays["uniquenesses"], arrays.get("degrees_of_freedom")
    )
    # Normalising once more could change the last bits.
    parameters.weights[:] = arrays["weights"]
    parameters.background = background_from_arrays(arrays)
    names = arrays["feature_names"].tolist() if "feature_names" in arrays else []
    report = _report(arrays, parameters) if arrays["is_fitted"] else None
    return parameters, report, check_feature_names(names or None, parameters.n_features)


def _layout(is_fitted: bool, version: int = _VERSION) -> Layout:
    whole = _MODEL | _REPORT | _HISTORY if is_fitted else _MODEL
    return {name: array for name, array in whole.items() if _LATER.get(name, 1) <= version}


def _step_fields() -> list[str]:
    """Return the fields of a Step that are one value each, not the ragged factor counts."""
    ragged = ("step_n_components", "step_n_factors")
    return [name.removeprefix("step_") for name in _HISTORY if name not in ragged]


def _report(arrays: _Arrays, parameters: Parameters) -> FitReport:
    n_factors = [tuple(part.tolist()) for part in _parts(arrays, "step_n_factors", "step_n_components")]
    fields = _step_fields()
    rows = zip(*(arrays[f"step_{name}"].tolist() for name in fields), strict=True)
    history = tuple(
        Step(n_factors=of_one, **dict(zip(fields, row, strict=True)))
        for of_one, row in zip(n_factors, rows, strict=True)
    )
    scalars = {name: arrays[name].item() for name, (_, shape) in _REPORT.items() if not shape and name in arrays}
    noise = scalars["noise"] = scalars.get("noise") or None
    if noise is not None and noise not in tuple(Noise):
        raise ValueError(f"noise is {noise[:SHOWN_CHARACTERS]!r}, which is none of {', '.join(Noise)}")
    scalars.setdefault("n_parameters", n_parameters(parameters.n_features, parameters.n_factors))
    return FitReport(at_floor=arrays["at_floor"], constant=arrays.get("constant"), history=history, **scalars)


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_layout(arrays: _Arrays) -> None:
    check_array(arrays, "format", *_MODEL["format"], {})
    if arrays["format"] == CLASSES_FORMAT:
        raise ValueError(
            "it holds the models of a classifier; `amofa predict` predicts classes with it, "
            "and `amofa.classes.load_classes` reads it"
        )
    for name in ("version", "is_fitted"):
        check_array(arrays, name, *_MODEL[name], {})
    if arrays["format"] != _FORMAT:
        raise ValueError(f"its format is {str(arrays['format'])[:SHOWN_CHARACTERS]!r}, not {_FORMAT!r}")
    version = int(arrays["version"])
    if not 1 <= version <= _VERSION:
        raise ValueError(f"its version is {version}, this amofa reads versions 1 to {_VERSION}; upgrade amofa")
    check_layout(arrays, _layout(bool(arrays["is_fitted"]), version))


def check_layout(arrays: _Arrays, layout: Layout) -> None:
    """Check that there are the arrays of a layout, and no others; ValueError if not."""
    sizes: dict[str, int] = {}
    for name, (kind, shape) in layout.items():
        check_array(arrays, name, kind, shape, sizes)
    if unknown := sorted(arrays.keys() - layout.keys()):
        shown = [name[:SHOWN_CHARACTERS] for name in unknown[:_SHOWN_NAMES]]
        shown += ["..."] * (len(unknown) > _SHOWN_NAMES)
        raise ValueError(f"it has unknown content: {', '.join(shown)}")


def check_array(arrays: _Arrays, name: str, kind: str, shape: str, sizes: dict[str, int]) -> None:
    """Check one array against its layout; `sizes` gets the lengths met for the first time."""
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is missing")
    # A file may come from a machine with the other byte order.
    if array.dtype.kind != "U" if kind == "str" else array.dtype.newbyteorder("=") != kind:
        raise ValueError(f"{name} has dtype {array.dtype}, expected {kind}")
    axes = shape.split()
    expected = ", ".join(f"{axis} = {sizes[axis]}" if axis in sizes else axis for axis in axes)
    if array.ndim != len(axes) or any(
        sizes.setdefault(axis, length) != length for axis, length in zip(axes, array.shape, strict=True)
    ):
        raise ValueError(f"{name} has shape {array.shape}, expected ({expected})")


def _parts(arrays: _Arrays, name: str, lengths_name: str) -> list[NDArray[Any]]:
    """Cut a ragged array into its parts, after a check that their lengths add up to the whole."""
    whole, lengths = arrays[name], arrays[lengths_name].tolist()
    if min(lengths, default=0) < 0 or sum(lengths) != len(whole):
        raise ValueError(f"{lengths_name} must not be negative and add up to the {len(whole)} rows of {name}")
    # The last part of NumPy's split is the empty rest.
    return np.split(whole, np.cumsum(lengths, dtype=np.int64))[:-1]
