"""Results as frames and series of pandas or polars, which are imported only if they are asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from amofa._data.checks import check_choice

LIBRARIES = ("pandas", "polars")


def load_library(name: str | None) -> tuple[str, Any]:
    """Return the name and the module of a library of frames, or of the one that is installed; ImportError if not."""
    if name is None:
        found = [library for library in LIBRARIES if importlib.util.find_spec(library) is not None]
        if not found:
            raise ImportError("frames need pandas or polars: python -m pip install pandas; without, use to_dict()")
        name = found[0]
    check_choice("library", name, LIBRARIES)
    try:
        return name, importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"frames of {name} need it: python -m pip install {name}") from error


def make_frame(columns: Mapping[str, NDArray[Any]], library: str | None = None) -> Any:
    """Return a frame of columns by name."""
    return load_library(library)[1].DataFrame(dict(columns))


def frame_of_array(values: NDArray[Any], names: Sequence[Any], X: Any, library: str) -> Any:
    """Return a table (n, c) as a frame, or values (n,) as a series, with the index of X if it has one."""
    module = load_library(library)[1]
    if library == "polars":
        if values.ndim == 1:
            return module.Series(names[0], values)
        return module.DataFrame(dict(zip(names, values.T, strict=True)))
    index = getattr(X, "index", None) if hasattr(X, "iloc") else None
    if values.ndim == 1:
        return module.Series(values, index=index, name=names[0])
    return module.DataFrame(values, index=index, columns=list(names))


def check_output(transform: Any) -> str:
    """Check the argument of `set_output`, and that its library is installed."""
    check_choice("transform", transform, ("default", *LIBRARIES))
    if transform != "default":
        load_library(transform)
    return str(transform)
