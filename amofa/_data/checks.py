"""Checks of tables, row weights and other arguments. Every message names the argument and says what to do."""

from __future__ import annotations

import math
import os
import sys
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.block_source import BlockSource
from amofa._data.dataframes import column_names, columns_without_numbers, listed, to_array
from amofa._typing import FloatArray

RandomState = int | np.random.Generator | np.random.RandomState | None
# Default of the smallest uniqueness, as a share of a column's variance.
DEFAULT_FLOOR = 1e-4
# Number of cells that are checked at a time (1 MB as float64).
_BLOCK_VALUES = 1 << 17
# Within these bounds, products of a sum of weights with squares of values do not overflow or underflow.
_LEAST_TOTAL, _MOST_TOTAL = 1e-100, 1e100
# Rows with a smaller share of the largest weight add nothing to second moments and are left out (`amofa._em.gram`).
_LEAST_SHARE = 1e-14


# Advice about values that are not finite, if a table must be complete.
_REMEDY = "drop such rows or fill in values"


# ---- tables, row weights ---------------------------------------------------------------------------------------------


def check_table(
    X: ArrayLike,
    *,
    name: str = "X",
    n_features: int | None = None,
) -> NDArray[Any]:
    """Return X as a finite, real table (n, d) of any dtype and layout: itself if it is an array, unless one of objects.

    Data frames are accepted; see `amofa._data.dataframes`. Errors call the table `name`. Sparse, text, object or date
    input raises TypeError; complex numbers, masked values, a wrong shape (`n_features` columns if given), no rows or
    columns, NaN and infinity raise ValueError.
    """
    check_not_masked(X, name, _REMEDY)
    table = _as_table(X, name, n_features)
    _check_cells(table, X, name, _REMEDY)
    return table


def check_incomplete_table(
    X: ArrayLike, *, name: str = "X", n_features: int | None = None
) -> tuple[NDArray[Any], bool]:
    """Check a table like `check_table`, except that cells may be missing; return also whether any cell is.

    Missing are NaN, masked values, and the missing values of frames; all are NaN in what is returned.
    """
    table = _as_table(without_mask(X), name, n_features)
    return table, _check_cells(table, X, name, "put NaN where a value is missing", may_be_missing=True)


def without_mask(X: Any) -> Any:
    """Return a masked array with NaN in place of masked values, and anything else as it is."""
    if not np.ma.is_masked(X):
        return X
    return X.astype(X.dtype if X.dtype.kind == "f" else np.float64).filled(np.nan)


def check_not_masked(values: ArrayLike, name: str, remedy: str) -> None:
    """Check that no value is masked, as NumPy's functions would use what is under the mask."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values; {remedy}")


def check_not_in_blocks(X: Any, name: str = "X") -> None:
    """Check that rows are not in blocks, where only tables can be used."""
    if isinstance(X, BlockSource):
        raise TypeError(f"{name} is in blocks, which amofa.fit takes; elsewhere, pass one block after the other")


def _as_table(X: ArrayLike, name: str, n_features: int | None) -> NDArray[Any]:
    # If there is a sparse matrix, this is imported already; importing it here would slow down `import amofa`.
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(X):
        raise TypeError(f"{name} is a sparse matrix; pass {name}.toarray()")
    check_not_in_blocks(X, name)
    if hasattr(X, "collect") and not hasattr(X, "__array__"):
        raise TypeError(f"{name} is a lazy frame; pass {name}.collect()")
    try:
        array = to_array(X)
    except ValueError as error:
        raise ValueError(f"{name} is not a table ({error}); give all rows the same number of columns") from None
    except TypeError as error:
        raise _no_numbers(X, name, error) from None
    table = _as_real(array, X, name)
    if table.ndim != 2:
        hint = "; use reshape(-1, 1) for one column or reshape(1, -1) for one row"
        raise ValueError(
            f"{name} must have two dimensions (rows, columns), got {table.ndim}{hint if table.ndim == 1 else ''}"
        )
    if 0 in table.shape:
        raise ValueError(f"{name} has shape {table.shape}; at least one row and one column are needed")
    if n_features is not None and table.shape[1] != n_features:
        raise ValueError(f"{name} has {table.shape[1]} columns, but the model was made for {n_features}")
    return table


def _as_real(table: NDArray[Any], X: ArrayLike, name: str) -> NDArray[Any]:
    """Return the table made from X as real numbers, objects as float64."""
    if table.dtype.kind in "biuf":
        return table
    if table.dtype.kind == "c":
        raise ValueError(f"{name} is complex; pass its real part, or real and imaginary parts as columns")
    if table.dtype.kind != "O":
        raise TypeError(
            f"{name} has dtype {table.dtype}{_culprits(X, ' because of ')}; a table of real numbers is needed: "
            "leave out other columns"
        )
    try:
        return table.astype(np.float64)
    except OverflowError as error:
        raise ValueError(f"{name} holds a whole number that is too large ({error}); rescale its column") from None
    except (TypeError, ValueError) as error:
        raise _no_numbers(X, name, error) from None


def _no_numbers(X: ArrayLike, name: str, error: Exception) -> TypeError:
    where = _culprits(X, " in ")
    return TypeError(f"{name} holds values that are not numbers{where} ({error}); leave them out")


def _culprits(X: ArrayLike, word: str) -> str:
    """Name the columns of a frame that have no numbers, after a word; empty if they are not known."""
    columns = columns_without_numbers(X)
    return f"{word}column{'s' * (len(columns) > 1)} {listed(columns)}" if columns else ""


def _check_cells(table: NDArray[Any], X: ArrayLike, name: str, remedy: str, *, may_be_missing: bool = False) -> bool:
    """Check that no cell is infinite, nor NaN unless that is allowed; return whether any is NaN."""
    bad, first, is_incomplete = 0, None, False
    rows = max(1, _BLOCK_VALUES // table.shape[1])
    for start in range(0, len(table) if table.dtype.kind == "f" else 0, rows):
        # As float64, as it will be read: longer floats may overflow there.
        with np.errstate(over="ignore"):
            values = table[start : start + rows].astype(np.float64, copy=False)
        wrong = ~np.isfinite(values)
        if may_be_missing and wrong.any():
            missing = np.isnan(values)
            is_incomplete = is_incomplete or bool(missing.any())
            wrong &= ~missing
        count = int(np.count_nonzero(wrong))
        if count and first is None:
            i, j = np.argwhere(wrong)[0]
            first = (start + int(i), int(j))
        bad += count
    if first is not None:
        raise ValueError(
            f"{name} has {bad} value{'s' if bad > 1 else ''} that {'are' if bad > 1 else 'is'} "
            f"{'infinite' if may_be_missing else 'NaN or infinite'}, the first in row {first[0]}, column {first[1]} "
            f"(from 0){_name_of_column(X, first[1])}; {remedy}"
        )
    return is_incomplete


def _name_of_column(X: ArrayLike, j: int) -> str:
    """Return ", 'name'" of a column of a frame; empty if it has no name."""
    names = column_names(X)
    return "" if names is None else f", {names[j]!r}"


def as_block(X: Any) -> NDArray[Any]:
    """Return rows that `check_incomplete_table` has accepted as an array of numbers, NaN where cells are missing."""
    array = to_array(without_mask(X))
    return array if array.dtype.kind in "biuf" else array.astype(np.float64)


def check_weights(sample_weight: ArrayLike, n: int) -> FloatArray:
    """Check row weights: (n,) finite, not negative, not all 0, their sum from 1e-100 to 1e100.

    Return them as float64, with 0 for negligible ones.
    """
    weights = as_weights(sample_weight, n, "sample_weight")
    if not weights.any():
        raise ValueError("sample_weight is zero in every row; at least one row must count")
    with np.errstate(over="ignore"):
        check_total(float(weights.sum()))
    return np.where(weights < least_weight(float(weights.max())), 0.0, weights)


def as_weights(sample_weight: ArrayLike, n: int, name: str) -> FloatArray:
    """Return row weights as float64: (n,) finite and not negative. Errors call them `name`."""
    check_not_masked(sample_weight, name, "give such rows weight 0, or drop them")
    weights = np.asarray(sample_weight)
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {weights.dtype}")
    if weights.shape != (n,):
        raise ValueError(f"{name} has shape {weights.shape}, but X has {n} rows; pass one weight per row")
    # Longer floats may overflow, which is reported below.
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float64)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"{name} must be finite and not negative, got {weights[i]} in row {i} (from 0)")
    return weights


def check_total(total: float) -> None:
    """Check the sum of row weights."""
    if not _LEAST_TOTAL <= total <= _MOST_TOTAL:
        raise ValueError(
            f"sample_weight sums to {total:g}, which is out of range (1e-100 to 1e100); multiply it by a constant"
        )


def least_weight(largest: float) -> float:
    """Return the weight below which rows are left out, from the largest one."""
    return _LEAST_SHARE * largest


def check_rows(X: ArrayLike, sample_weight: ArrayLike | None) -> tuple[NDArray[Any], FloatArray | None]:
    """Check a table and the weights of its rows, if there are any; see `check_table` and `check_weights`."""
    table = check_table(X)
    return table, None if sample_weight is None else check_weights(sample_weight, len(table))


def check_incomplete_rows(X: ArrayLike, sample_weight: ArrayLike | None) -> tuple[NDArray[Any], FloatArray | None]:
    """Check a table of which some cells may be missing, and the weights of its rows; see `check_incomplete_table`.

    Raises ValueError if no row that counts has a cell.
    """
    table, is_incomplete = check_incomplete_table(X)
    weights = None if sample_weight is None else check_weights(sample_weight, len(table))
    if is_incomplete and not _has_cells(table, weights):
        raise ValueError("X has no value in any row that counts; at least one row must have a value that is not NaN")
    return table, weights


def _has_cells(table: NDArray[Any], weights: FloatArray | None) -> bool:
    rows = max(1, _BLOCK_VALUES // table.shape[1])
    for start in range(0, len(table), rows):
        has_cells = ~np.isnan(table[start : start + rows]).all(axis=1)
        if weights is not None:
            has_cells &= weights[start : start + rows] > 0
        if has_cells.any():
            return True
    return False


def counted_rows(weights: FloatArray | None) -> NDArray[np.intp] | None:
    """Return the rows that count, or None for all: a row of weight 0 is absent, even if its log density is -inf."""
    return None if weights is None or weights.all() else np.flatnonzero(weights)


def n_weighted(weights: FloatArray | None) -> int | None:
    """Return the number of rows whose weight is not 0; None without weights."""
    return None if weights is None else int(np.count_nonzero(weights))


# ---- other arguments -------------------------------------------------------------------------------------------------


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
    """Check that a number is finite and not negative."""
    number = _check_number(name, value)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value}")
    return number


def check_function(name: str, value: Any, argument: str) -> None:
    """Check that a value is None or a function; `argument` names what it is called with."""
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
    """Check that there is one positive number for each column."""
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
        if isinstance(n_factors, str):
            raise TypeError
    except TypeError:
        raise TypeError(f"n_factors must be a whole number or a sequence of them, got {n_factors!r}") from None
    if not entries:
        raise ValueError("n_factors is empty; give a whole number, or one for each component")
    if len(entries) != (n_components or len(entries)):
        raise ValueError(f"n_factors has {len(entries)} entries for {n_components} components; give one for each")
    return tuple(check_whole_number(f"n_factors[{k}]", p, at_least=0, at_most=d) for k, p in enumerate(entries))


def check_random_state(random_state: RandomState) -> np.random.Generator | np.random.RandomState:
    """Return a generator as it is, or a new one from an int, or from the system's entropy for None.

    Sequences of ints, and the seed sequences and bit generators of NumPy, are accepted, too. Other types raise
    TypeError, and negative numbers ValueError.
    """
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if isinstance(random_state, np.ndarray):
        # NumPy would take a matrix apart into matrices without end.
        random_state = np.asarray(random_state)
        if random_state.ndim > 1:
            random_state = random_state.ravel()
    try:
        return np.random.default_rng(random_state)
    except TypeError:
        raise TypeError(
            f"random_state must be None, a whole number or a generator of numpy, got {random_state!r}"
        ) from None
    except ValueError:
        raise ValueError(f"random_state must not be negative, got {random_state!r}") from None
