"""Rows that are the same made one, with their weights, so that a repeat and a weight are the same to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._typing import FloatArray

# Tables of more values (32 MB as float64) stay as they are: there a repeated row and a weight differ by rounding.
_MOST_VALUES = 1 << 22


def merge_repeats(table: NDArray[Any], weights: FloatArray | None) -> tuple[NDArray[Any], FloatArray | None]:
    """Give every different row its weight: the number of its repeats, or the sum of their weights.

    A search decides by thresholds, so rounding alone, from sums over rows in another order, can make another model
    of small or wide tables. Merged rows are in an order of their own, and rows of weight 0 are gone.

    Parameters
    ----------
    table : (n, d) ndarray
        Finite.
    weights : (n,) float64, optional
        Not negative, not all 0.

    Returns
    -------
    table : (m, d) ndarray
        Different rows, sorted, where any is repeated or has another weight than 1; otherwise, and
        where the table is large, the table itself.
    weights : (m,) float64 or None
        None for ones.
    """
    if table.size > _MOST_VALUES:
        return table, weights
    if weights is not None:
        kept = weights > 0
        if not kept.all():
            table, weights = table[kept], weights[kept]
        if (weights == 1).all():
            weights = None
    # Most tables of real numbers are seen to have no repeats in one column.
    if weights is None and len(np.unique(table[:, 0])) == len(table):
        return table, None
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    first = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
    if weights is None and len(first) == len(table):
        return table, None
    ones = np.ones(len(table)) if weights is None else weights[order]
    return ordered[first], np.add.reduceat(ones, first)
