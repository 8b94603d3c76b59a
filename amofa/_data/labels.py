"""Labels of rows: text, numbers or categories, with None and NaN for rows without one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def label_array(labels: ArrayLike, n: int, name: str = "labels") -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return labels of n rows, (n,), and a mask of the rows without a label.

    None, NaN and the missing values of pandas mean no label. Raises ValueError if there is not one for each row; errors
    call the labels `name`.
    """
    # Keep lists as they are: numpy would turn numbers and NaN among text into text.
    array = np.asarray(labels) if hasattr(labels, "__array__") else np.array(labels, dtype=object)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}, but X has {n} rows; pass one label for each row")
    return array, _lacking(labels, array)


def _lacking(labels: Any, array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the rows without a label."""
    if hasattr(labels, "isna"):
        return np.asarray(labels.isna(), dtype=np.bool_)
    # Only NaN and its like differ from themselves.
    if array.dtype != object:
        return np.asarray(array != array, dtype=np.bool_)
    return np.array([label is None or bool(label != label) for label in array], dtype=np.bool_)
