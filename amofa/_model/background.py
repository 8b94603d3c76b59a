"""Draws from a background, and its arrays in a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._background import Background, BackgroundDensity, Kind
from amofa._model.tails import Generator, stretches
from amofa._typing import FloatArray

# The kind of no background in a file.
_NONE = ""


def draw(density: BackgroundDensity, rng: Generator, n: int) -> FloatArray:
    """Draw n rows, (n, d); cells are NaN in columns that make no difference between the background and components."""
    if density.function is not None:
        raise ValueError("the background is a function, from which no rows can be drawn; use another background")
    d = density.center.shape[1]
    if np.isfinite(density.degrees_of_freedom):
        deviations = rng.standard_normal((n, d)) * stretches(rng, density.degrees_of_freedom, n)
        far: FloatArray = density.center[0] + density.scale[0] * deviations
        return far
    boxes = np.searchsorted(np.cumsum(density.shares)[:-1], rng.random(n), side="right")
    rows: FloatArray = density.center[boxes] + density.scale[boxes] * (rng.random((n, d)) - 0.5)
    return rows


def background_arrays(background: Background | None, n_features: int) -> dict[str, Any]:
    """Return a background as arrays of a file, by name; ValueError if it is a function."""
    if background is None:
        nothing = np.empty((0, n_features))
        none = BackgroundDensity(Kind.UNIFORM, nothing, nothing, np.empty(0))
        background, kind = Background(none, 0.0), _NONE
    elif background.density.function is not None:
        raise ValueError("the background is a function, which no file can hold; pickle the model where it is defined")
    else:
        kind = str(background.density.kind)
    density = background.density
    return {
        "background": kind,
        "background_weight": background.weight,
        "background_center": density.center,
        "background_scale": density.scale,
        "background_shares": density.shares,
        "background_degrees_of_freedom": density.degrees_of_freedom,
    }


def background_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Background | None:
    """Return the background of a file, None if it has none; ValueError if its values are not those of one."""
    if "background" not in arrays or str(arrays["background"]) == _NONE:
        return None
    center, scale, shares = (arrays[f"background_{name}"] for name in ("center", "scale", "shares"))
    degrees, weight = (float(arrays[f"background_{name}"]) for name in ("degrees_of_freedom", "weight"))
    density = BackgroundDensity(Kind(str(arrays["background"])), center, scale, shares, degrees)
    covers = density.covers if len(shares) else np.zeros(0, dtype=np.bool_)
    is_valid = covers.any() and len(shares) == 1 + (density.kind == Kind.NESTED) and density.kind != Kind.CUSTOM
    if not (is_valid and 0.0 < weight < 1.0 and degrees > 0.0 and np.isfinite(degrees) == (density.kind == Kind.HEAVY)):
        raise ValueError("its background is none of those that amofa knows")
    sides, rest = scale[:, covers], scale[:, ~covers]
    if not (np.isfinite(center).all() and np.isfinite(sides).all() and (sides > 0).all() and np.isnan(rest).all()):
        raise ValueError("its background has centres or scales that are not finite, or scales that are not positive")
    if not ((shares >= 0).all() and abs(shares.sum() - 1.0) < 1e-6):
        raise ValueError("its background has shares that do not sum to 1")
    return Background(density, weight)
