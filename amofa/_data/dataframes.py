"""Frames of named columns: those of pandas, polars, pyarrow and others of their kind, none of which is imported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# How many names an error message shows.
_SHOWN = 5


# ---- what is in a frame ----------------------------------------------------------------------------------------------


def column_names(X: object, name: str = "X") -> tuple[str, ...] | None:
    """Names of the columns of a frame.

    Parameters
    ----------
    X : object
        Anything that has columns, and that numpy can make an array from, is a frame.
    name : str
        What error messages call it.

    Returns
    -------
    tuple of str, or None
        None for what is no frame, and for a frame none of whose columns has a string for a name.

    Raises
    ------
    TypeError
        If some names are strings and others are not.

    Examples
    --------
    >>> import numpy as np
    >>> column_names(np.zeros((3, 2))) is None
    True
    """
    if not hasattr(X, "__array__"):
        return None
    # The class is asked, since a column of a frame may be its attribute. What pyarrow has as `columns` are no names.
    attribute = next((a for a in ("column_names", "columns") if hasattr(type(X), a)), None)
    names = [] if attribute is None else list(getattr(X, attribute))
    strange = [n for n in names if not isinstance(n, str)]
    if len(strange) == len(names):
        return None
    if strange:
        raise TypeError(f"{name} has a column whose name is not a string, {strange[0]!r}; rename it")
    return tuple(str(n) for n in names)


def to_array(X: ArrayLike) -> NDArray[Any]:
    """An array of what X holds; missing values that some frames have a type for are None or NaN in it.

    Parameters
    ----------
    X : array-like
        An array is given back as it is.

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError, ValueError
        As numpy has them, of what no array can be made from.

    Examples
    --------
    >>> to_array([[1, 2], [3, 4.5]])
    array([[1. , 2. ],
           [3. , 4.5]])
    """
    columns = _columns(X)
    if not columns:
        return np.asarray(X)
    return np.stack([_values(column) for column in columns], axis=1)


def column_without_numbers(X: Any) -> str | None:
    """The name of the first column of a frame that no numbers can be made from.

    Parameters
    ----------
    X : object
        What `to_array` takes.

    Returns
    -------
    str or None
        None for what is no frame of pandas, polars or pyarrow with names, and where all columns hold numbers.

    Examples
    --------
    >>> column_without_numbers([["a", 1.0]]) is None
    True
    """
    names = column_names(X) or ()
    if hasattr(X, "get_columns"):
        columns = X.get_columns()
    elif hasattr(X, "iloc"):
        columns = (X.iloc[:, j] for j in range(len(names)))
    else:
        columns = X.itercolumns() if hasattr(X, "itercolumns") else ()
    return next((n for n, column in zip(names, columns, strict=False) if not _holds_numbers(column)), None)


def _holds_numbers(column: Any) -> bool:
    try:
        return _values(column).dtype.kind in "biuf"
    except TypeError:
        return False


def _columns(X: Any) -> list[Any]:
    """Columns of a frame that as a whole would become something else than what they are by themselves."""
    # polars makes numbers of dates where another column has numbers.
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    # pandas has types of its own, and makes objects of all values where columns are of such.
    if hasattr(X, "iloc") and X.ndim == 2 and not all(isinstance(t, np.dtype) for t in X.dtypes):
        return [X.iloc[:, j] for j in range(X.shape[1])]
    return []


def _values(column: Any) -> NDArray[Any]:
    values: NDArray[Any] = np.asarray(column)
    if values.dtype != object:
        return values
    # None becomes NaN by itself, but not what pandas has for missing values.
    if hasattr(column, "isna"):
        values = np.where(column.isna(), np.nan, values)
    try:
        return values.astype(np.float64)
    except ValueError as error:
        raise TypeError(str(error)) from None


# ---- names -----------------------------------------------------------------------------------------------------------


def check_feature_names(feature_names: Iterable[str] | None, d: int) -> tuple[str, ...] | None:
    """One string for each of d features, or None.

    Raises
    ------
    TypeError
        If they are not strings, or are one string.
    ValueError
        If there is another number of them.
    """
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
    """Check that a frame has the columns that a model was made for, in their order, where both have names.

    Raises
    ------
    ValueError
        Which says what the first differences are.
    """
    if names is None or expected is None or tuple(names) == tuple(expected):
        return
    unknown = [n for n in names if n not in expected]
    lacking = [n for n in expected if n not in names]
    if unknown or lacking:
        differences = [f"{verb} {_listed(some)}" for verb, some in (("has", unknown), ("lacks", lacking)) if some]
        raise ValueError(
            f"{name} {' and '.join(differences)}, unlike the table that the model was made for; "
            "rename, drop or add columns"
        )
    if len(names) != len(expected):
        raise ValueError(
            f"{name} has {len(names)} columns, some of the same name, but the model was made for "
            f"{len(expected)}; drop what is there twice"
        )
    j = next(j for j in range(len(names)) if names[j] != expected[j])
    raise ValueError(
        f"{name} has the columns of the model in another order: its column {j} (from 0) is {names[j]!r}, where the "
        f"model has {expected[j]!r}; select columns by model.feature_names"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")


def column_positions(
    columns: Iterable[int | str], feature_names: Sequence[str] | None, d: int, *, name: str
) -> NDArray[np.intp]:
    """Positions of columns given by number or name.

    Parameters
    ----------
    columns : iterable of int or str
        Numbers from 0 to d - 1; names, where there are any.
    feature_names : sequence of d str, or None
    d : int
    name : str
        What error messages call the columns.

    Returns
    -------
    (o,) intp
        In the order given.

    Raises
    ------
    TypeError, ValueError
        If there is no such column, or one comes twice, or there are none.

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
