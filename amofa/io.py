"""Models in files: an .npz archive of plain arrays with a format name and version, nothing that could be executed."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from amofa._data.dataframes import check_feature_names
from amofa._data.npz import SHOWN_CHARACTERS, arrays_to_bytes, read_arrays, write_arrays
from amofa._model.from_arrays import parameters_from_arrays
from amofa._search.records import BEST, has_records, read, whole_records
from amofa.history import FitReport, Step
from amofa.mixture import MixtureOfFactorAnalyzers

_FORMAT = "amofa.MixtureOfFactorAnalyzers"
_VERSION = 3

# What a file holds: kind of value and shape of each array. K components with P factors in all, d features, of which all
# or none have names, N; S steps of the search, with F components in all. Loadings have one row per factor, component
# after component.
_Layout = dict[str, tuple[str, str]]
_MODEL: _Layout = {
    "format": ("str", ""),
    "version": ("int64", ""),
    "is_fitted": ("bool", ""),
    "weights": ("float64", "K"),
    "means": ("float64", "K d"),
    "uniquenesses": ("float64", "K d"),
    "loadings": ("float64", "P d"),
    "n_factors": ("int64", "K"),
    "feature_names": ("str", "N"),
}
# In the files of fitted models only; is_fitted says that they must be there.
_REPORT: _Layout = {
    "log_likelihood": ("float64", ""),
    "message_length": ("float64", ""),
    "criterion": ("str", ""),
    "n_samples": ("float64", ""),
    "converged": ("bool", ""),
    "at_floor": ("bool", "K d"),
    "n_parameters": ("int64", ""),
}
# Version 1 has no count of parameters: it follows from the numbers of factors. Before version 3 features had no names.
_LATER = {"n_parameters": 2, "feature_names": 3}
_HISTORY: _Layout = {
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

_Arrays = Mapping[str, NDArray[Any]]

# Of unknown arrays in a file an error message shows so many, of a reason so many characters.
_SHOWN_NAMES, _SHOWN_REASON = 5, 200


def save(model: MixtureOfFactorAnalyzers, path: str | os.PathLike[str]) -> None:
    """Write a model to a file.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    path : str or PathLike
        Taken as it is: no ending is added. A file that is there is replaced when the new one is complete on disk.

    Raises
    ------
    TypeError
        If `model` is not a mixture or `path` not a path.
    OSError
        If the file cannot be written; a file that was there before is then still whole.

    Notes
    -----
    An .npz archive that ``numpy.load(path, allow_pickle=False)`` can read too: all arrays are plain. A process that is
    killed meanwhile may leave a file ``.amofa-*.tmp`` in the folder, which is in nobody's way.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.npz")
    ...     save(model, path)
    ...     load(path)
    MixtureOfFactorAnalyzers(n_components=1, n_features=1, n_factors=[1])
    """
    if not isinstance(model, MixtureOfFactorAnalyzers):
        raise TypeError(f"model must be a MixtureOfFactorAnalyzers, got {type(model).__name__}")
    arrays = _to_arrays(model)
    # Links are followed, or the link itself would be replaced. The temporary file must be on the same file system.
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file, and not to be replaced", os.fspath(path))
    temporary = target.with_name(f".amofa-{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            write_arrays(file, arrays)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except OSError as error:
        # The temporary file's name means nothing to a user.
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> MixtureOfFactorAnalyzers:
    """Read a model from a file that `save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : str or PathLike
        Of a checkpoint of `fit`, too: its model is the best that the fit had found.

    Returns
    -------
    MixtureOfFactorAnalyzers
        Equal to the saved one to the last bit, what the fit reported included.

    Raises
    ------
    OSError
        If the file cannot be opened, FileNotFoundError if there is none, or is a pipe or a device.
    ValueError
        If it is not a model file, is damaged, or was written in a format that this version does not know.

    Notes
    -----
    Takes no more memory than a few times the size of the file, whatever the file says of itself.

    Examples
    --------
    >>> import tempfile
    >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.npz")
    ...     load(f"{folder}/model.npz").loadings
    [array([[0.6]])]
    """
    source = Path(path)
    # A pipe that nobody writes to would be waited for.
    if source.exists() and not (source.is_file() or source.is_dir()):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    with open(source, "rb") as file:
        try:
            arrays = read_arrays(_best_model(file) if has_records(file) else file)
        except MemoryError:
            raise
        # A damaged archive can raise nearly anything inside zipfile and numpy's reader.
        except Exception as error:
            what = str(error)[:_SHOWN_REASON]
            raise ValueError(f"{path} is not a model file of amofa, or is damaged ({what})") from error
    try:
        return _from_arrays(arrays)
    except ValueError as error:
        raise ValueError(f"{path} does not hold a model that amofa can read: {error}") from error


def model_to_bytes(model: MixtureOfFactorAnalyzers) -> bytes:
    """The same bytes that `save` writes to a file."""
    return arrays_to_bytes(_to_arrays(model))


def _best_model(file: BinaryIO) -> BinaryIO:
    """The last model in a checkpoint, as a file."""
    best = next((record for record in reversed(list(whole_records(file))) if record.tag == BEST), None)
    if best is None:
        raise ValueError("a checkpoint in which there is no model yet")
    return BytesIO(read(file, best))


# ---- a model as arrays -----------------------------------------------------------------------------------------------


def _to_arrays(model: MixtureOfFactorAnalyzers) -> dict[str, Any]:
    is_fitted = model.criterion is not None
    values: dict[str, Any] = {
        "format": _FORMAT,
        "version": _VERSION,
        "is_fitted": is_fitted,
        "weights": model.weights,
        "means": model.means,
        "uniquenesses": model.uniquenesses,
        "loadings": np.concatenate([of_one.T for of_one in model.loadings]),
        "n_factors": model.n_factors,
        "feature_names": model.feature_names or (),
    }
    if is_fitted:
        values |= {name: getattr(model, name) for name in _REPORT}
        values |= {f"step_{name}": [getattr(step, name) for step in model.history] for name in _step_fields()}
        values["step_n_components"] = [step.n_components for step in model.history]
        values["step_n_factors"] = [p for step in model.history for p in step.n_factors]
    return {name: np.asarray(values[name], dtype=kind) for name, (kind, _) in _layout(is_fitted).items()}


def _layout(is_fitted: bool, version: int = _VERSION) -> _Layout:
    whole = _MODEL | _REPORT | _HISTORY if is_fitted else _MODEL
    return {name: array for name, array in whole.items() if _LATER.get(name, 1) <= version}


def _step_fields() -> list[str]:
    """Fields of a Step that are one value each, not the ragged factor counts."""
    ragged = ("step_n_components", "step_n_factors")
    return [name.removeprefix("step_") for name in _HISTORY if name not in ragged]


def _from_arrays(arrays: _Arrays) -> MixtureOfFactorAnalyzers:
    _check_layout(arrays)
    loadings = [part.T for part in _parts(arrays, "loadings", "n_factors")]
    parameters = parameters_from_arrays(arrays["weights"], arrays["means"], loadings, arrays["uniquenesses"])
    # Bringing the sum to 1 once more could change the last bits.
    parameters.weights[:] = arrays["weights"]
    report = _report(arrays) if arrays["is_fitted"] else None
    return MixtureOfFactorAnalyzers._from_fit(parameters, report, _feature_names(arrays, parameters.n_features))


def _feature_names(arrays: _Arrays, d: int) -> tuple[str, ...] | None:
    names = arrays["feature_names"].tolist() if "feature_names" in arrays else []
    return check_feature_names(names or None, d)


def _report(arrays: _Arrays) -> FitReport:
    n_factors = [tuple(part.tolist()) for part in _parts(arrays, "step_n_factors", "step_n_components")]
    fields = _step_fields()
    rows = zip(*(arrays[f"step_{name}"].tolist() for name in fields), strict=True)
    history = tuple(
        Step(n_factors=of_one, **dict(zip(fields, row, strict=True)))
        for of_one, row in zip(n_factors, rows, strict=True)
    )
    scalars = {name: arrays[name].item() for name in _REPORT if name != "at_floor" and name in arrays}
    return FitReport(at_floor=arrays["at_floor"], history=history, **scalars)


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_layout(arrays: _Arrays) -> None:
    for name in ("format", "version", "is_fitted"):
        _check_array(arrays, name, *_MODEL[name], {})
    if arrays["format"] != _FORMAT:
        raise ValueError(f"its format is {str(arrays['format'])[:SHOWN_CHARACTERS]!r}, not {_FORMAT!r}")
    version = int(arrays["version"])
    if not 1 <= version <= _VERSION:
        raise ValueError(f"its version is {version}, this amofa reads versions 1 to {_VERSION}; upgrade amofa")
    layout = _layout(bool(arrays["is_fitted"]), version)
    sizes: dict[str, int] = {}
    for name, (kind, shape) in layout.items():
        _check_array(arrays, name, kind, shape, sizes)
    if unknown := sorted(arrays.keys() - layout.keys()):
        shown = [name[:SHOWN_CHARACTERS] for name in unknown[:_SHOWN_NAMES]]
        shown += ["..."] * (len(unknown) > _SHOWN_NAMES)
        raise ValueError(f"it holds what no such model has: {', '.join(shown)}")


def _check_array(arrays: _Arrays, name: str, kind: str, shape: str, sizes: dict[str, int]) -> None:
    """Check one array against its layout; `sizes` gets the lengths met for the first time."""
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is missing")
    # A file may come from a machine of the other byte order.
    if array.dtype.kind != "U" if kind == "str" else array.dtype.newbyteorder("=") != kind:
        raise ValueError(f"{name} has dtype {array.dtype}, expected {kind}")
    axes = shape.split()
    expected = ", ".join(f"{axis} = {sizes[axis]}" if axis in sizes else axis for axis in axes)
    if array.ndim != len(axes) or any(
        sizes.setdefault(axis, length) != length for axis, length in zip(axes, array.shape, strict=True)
    ):
        raise ValueError(f"{name} has shape {array.shape}, expected ({expected})")


def _parts(arrays: _Arrays, name: str, lengths_name: str) -> list[NDArray[Any]]:
    """A ragged array cut into its parts, after a check that their lengths add up to the whole."""
    whole, lengths = arrays[name], arrays[lengths_name].tolist()
    if min(lengths, default=0) < 0 or sum(lengths) != len(whole):
        raise ValueError(f"{lengths_name} must not be negative and add up to the {len(whole)} rows of {name}")
    # The last part of numpy's split is what is left after all of them: nothing.
    return np.split(whole, np.cumsum(lengths, dtype=np.int64))[:-1]
