"""Checks of what a caller asks for; every message names the argument and what to do."""

from __future__ import annotations

import math
import os
from numbers import Integral, Real
from typing import Any

import numpy as np

from amofa._typing import FloatArray

RandomState = int | np.random.Generator | np.random.RandomState | None
DEFAULT_FLOOR = 1e-4


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def check_whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    number = int(value)
    if number < at_least or (at_most is not None and number > at_most):
        bounds = f"at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise ValueError(f"{name} must be {bounds}, got {number}")
    return number


def _check_number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be finite, got a whole number beyond the range of float") from None


def check_positive(name: str, value: Any) -> float:
    number = _check_number(name, value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return number


def check_not_negative(name: str, value: Any) -> float:
    """A number that is finite and not negative."""
    number = _check_number(name, value)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value}")
    return number


def check_function(name: str, value: Any, argument: str) -> None:
    """A function of what `argument` says, or None."""
    if not (value is None or callable(value)):
        raise TypeError(f"{name} must be a function of {argument}, got {value!r}")


def check_path(name: str, value: Any) -> str:
    try:
        path = os.fspath(value)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a path, got {value!r}")
    if not path or "\0" in path:
        raise ValueError(f"{name} must be a path of a file, got {path!r}")
    return path


def check_noise_floor(noise_floor: Any, d: int) -> float | FloatArray:
    if noise_floor is None:
        return DEFAULT_FLOOR
    given = np.asarray(noise_floor)
    return check_positive("noise_floor", given.item()) if given.ndim == 0 else check_variances("noise_floor", given, d)


def check_variances(name: str, values: Any, d: int) -> FloatArray:
    """One positive number for each column."""
    given = np.asarray(values)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {given.dtype}")
    if given.shape != (d,):
        alternative = "one number, or " if name == "noise_floor" else ""
        raise ValueError(f"{name} has shape {given.shape}; pass {alternative}one for each of {d} columns")
    variances = np.ascontiguousarray(given, dtype=np.float64)
    if not (np.isfinite(variances) & (variances > 0)).all():
        j = int(np.argmin(np.isfinite(variances) & (variances > 0)))
        raise ValueError(f"{name} must be positive and finite, got {variances[j]} for column {j}")
    return variances


def check_factor_sequence(n_factors: Any, d: int, n_components: int | None) -> tuple[int, ...]:
    try:
        entries = list(n_factors)
    except TypeError:
        raise TypeError(f"n_factors must be a whole number or a sequence of them, got {n_factors!r}") from None
    if not entries or len(entries) != (n_components or len(entries)):
        raise ValueError(f"n_factors has {len(entries)} entries for {n_components or 1} components; give one for each")
    return tuple(check_whole_number(f"n_factors[{k}]", p, at_least=0, at_most=d) for k, p in enumerate(entries))


def random_generator(random_state: RandomState) -> np.random.Generator | np.random.RandomState:
    """A generator as it is; a new one from an int, or from the system's entropy for None.

    Sequences of ints, seed sequences and bit generators of numpy are taken, too.

    Raises
    ------
    TypeError, ValueError
        For other types, and for negative numbers.
    """
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if isinstance(random_state, np.ndarray):
        # numpy takes apart sequences of numbers until it has numbers: of a matrix it would for ever take matrices.
        random_state = np.asarray(random_state)
    try:
        return np.random.default_rng(random_state)
    except TypeError:
        raise TypeError(
            f"random_state must be None, a whole number or a generator of numpy, got {random_state!r}"
        ) from None
    except ValueError:
        raise ValueError(f"random_state must not be negative, got {random_state!r}") from None
