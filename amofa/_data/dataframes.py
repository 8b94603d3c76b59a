"""Frames with named columns, from pandas, polars, pyarrow and similar packages, none of which is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Number of names in an error message.
_SHOWN = 5


# ---- what is in a frame ----------------------------------------------------------------------------------------------


def column_names(X: object, name: str = "X") -> tuple[str, ...] | None:
    """Return the names of the columns of a frame, or None if X is not one or no column has a string as its name.

    Anything with columns that NumPy can make an array from is a frame. Raises TypeError if some names are strings and
    others are not; errors call the frame `name`.
    """
    names = column_labels(X)
    strange = [n for n in names if not isinstance(n, str)]
    if len(strange) == len(names):
        return None
    if strange:
        raise TypeError(f"{name} has a column whose name is not a string, {strange[0]!r}; rename it")
    return tuple(str(n) for n in names)


def column_labels(X: object) -> tuple[Any, ...]:
    """Return what the columns of a frame are called, texts or not; nothing if X is not a frame."""
    if not hasattr(X, "__array__"):
        return ()
    # Ask the class, since a column of a frame may be its attribute. In pyarrow, `columns` are not names.
    attribute = next((a for a in ("column_names", "columns") if hasattr(type(X), a)), None)
    return () if attribute is None else tuple(getattr(X, attribute))


def to_array(X: ArrayLike) -> NDArray[Any]:
    """Return X as an array, an array as it is; missing values of special types become None or NaN.

    Raises TypeError or ValueError as NumPy does, if no array can be made from X.
    """
    columns = _columns(X)
    if not columns:
        return np.asarray(X)
    return np.stack([_values(column) for column in columns], axis=1)


def named_columns(X: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and column of a frame of pandas, polars or pyarrow that has names; of anything else nothing."""
    names = column_names(X) or ()
    if hasattr(X, "get_columns"):
        columns = X.get_columns()
    elif hasattr(X, "iloc"):
        columns = (X.iloc[:, j] for j in range(len(names)))
    else:
        columns = X.itercolumns() if hasattr(X, "itercolumns") else ()
    return zip(names, columns, strict=False)


def columns_without_numbers(X: Any) -> list[str]:
    """Return the names of the columns that do not hold numbers in a frame that `named_columns` takes apart."""
    return [name for name, column in named_columns(X) if numbers_of(column) is None]


def numbers_of(column: Any) -> NDArray[Any] | None:
    """Return the real numbers of a column of a frame, (n,), NaN where a value is missing; None if it holds others."""
    try:
        values = _values(column)
    except TypeError:
        return None
    return values if values.dtype.kind in "biuf" else None


def _columns(X: Any) -> list[Any]:
    """Return the columns of a frame that, as a whole, would be converted differently than one by one."""
    # polars converts dates to numbers if another column has numbers.
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    # pandas has its own types, and converts all values to objects if columns have them; objects may be its nulls.
    if hasattr(X, "iloc") and X.ndim == 2 and not all(isinstance(t, np.dtype) and t.kind != "O" for t in X.dtypes):
        return [X.iloc[:, j] for j in range(X.shape[1])]
    return []


def _values(column: Any) -> NDArray[Any]:
    values: NDArray[Any] = np.asarray(column)
    if values.dtype != object:
        return values
    # None becomes NaN by itself, but the missing values of pandas do not.
    if hasattr(column, "isna"):
        values = np.where(column.isna(), np.nan, values)
    try:
        return values.astype(np.float64)
    except ValueError as error:
        raise TypeError(str(error)) from None


# ---- names -----------------------------------------------------------------------------------------------------------


def check_feature_names(feature_names: Iterable[str] | None, d: int) -> tuple[str, ...] | None:
    """Check that there is one string for each of d features, or None: TypeError if not strings, ValueError if not d."""
    if feature_names is None:
        return None
    if isinstance(feature_names, str) or not isinstance(feature_names, Iterable):
        raise TypeError(f"feature_names must be a sequence of strings, got {feature_names!r}")
    names = list(feature_names)
    for n in names:
        if not isinstance(n, str):
            raise TypeError(f"feature_names must be strings, got {n!r}; use str()")
    if len(names) != d:
        raise ValueError(f"feature_names has {len(names)} names for {d} features; give one for each")
    return tuple(str(n) for n in names)


def check_same_names(names: Sequence[str] | None, expected: Sequence[str] | None, name: str = "X") -> None:
    """Check that a frame has the columns that a model was made for, in the same order, if both have names.

    Raises ValueError with the first differences.
    """
    if names is None or expected is None or tuple(names) == tuple(expected):
        return
    unknown = [n for n in names if n not in expected]
    lacking = [n for n in expected if n not in names]
    if unknown or lacking:
        differences = [f"{verb} {listed(some)}" for verb, some in (("has", unknown), ("lacks", lacking)) if some]
        raise ValueError(
            f"{name} {' and '.join(differences)}, unlike the table that the model was made for; "
            "rename, drop or add columns"
        )
    if len(names) != len(expected):
        raise ValueError(
            f"{name} has {len(names)} columns, some of the same name, but the model was made for "
            f"{len(expected)}; drop the duplicates"
        )
    j = next(j for j in range(len(names)) if names[j] != expected[j])
    raise ValueError(
        f"{name} has the columns of the model in another order: its column {j} (from 0) is {names[j]!r}, where the "
        f"model has {expected[j]!r}; select columns by model.feature_names"
    )


def listed(names: Sequence[str]) -> str:
    """Return the first of some names for a message."""
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")


def column_positions(
    columns: Iterable[int | str], feature_names: Sequence[str] | None, d: int, *, name: str
) -> NDArray[np.intp]:
    """Return the positions, (o,) intp, of columns given by number from 0 to d - 1, or by name if there are names.

    Raises TypeError or ValueError if there is no such column, one is given twice, or none is given; errors call the
    argument `name`.

    Examples
    --------
    >>> column_positions(["height", 0], ["age", "weight", "height"], 3, name="known_columns")
    array([2, 0])
    """
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"{name} must be a list of columns, got {columns!r}; use [{columns!r}]")
    positions = np.array([_position(c, feature_names, d, name) for c in columns], dtype=np.intp)
    if not len(positions):
        raise ValueError(f"{name} is empty; give at least one column")
    found, counts = np.unique(positions, return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"{name} has column {found[counts.argmax()]} twice; give each once")
    return positions


def _position(column: int | str, feature_names: Sequence[str] | None, d: int, name: str) -> int:
    if isinstance(column, str):
        if feature_names is None:
            raise ValueError(f"{name} has the name {column!r}, but the model has no feature_names; use numbers")
        places = [j for j, n in enumerate(feature_names) if n == column]
        if len(places) != 1:
            there = "no column" if not places else f"{len(places)} columns"
            raise ValueError(f"{name} has {column!r}, but the model has {there} of that name; see model.feature_names")
        return places[0]
    if isinstance(column, bool | np.bool_) or not isinstance(column, Integral):
        raise TypeError(f"{name} must hold numbers of columns or names, got {column!r}")
    if not 0 <= column < d:
        raise ValueError(f"{name} has {column}, but columns are numbered from 0 to {d - 1}")
    return int(column)
