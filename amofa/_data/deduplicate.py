"""Equal rows merged into one with a weight, so that repeated rows and weights give the same fit to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._typing import FloatArray

# Larger tables (32 MB as float64) stay as they are: there, repeated rows and weights differ by rounding.
_MOST_VALUES = 1 << 22


def merge_repeats(table: NDArray[Any], weights: FloatArray | None) -> tuple[NDArray[Any], FloatArray | None]:
    """Return the distinct rows with their weights: the number of their repeats, or the sum of their weights.

    A search decides by thresholds, so that rounding alone, from sums over rows in another order, can lead to another
    model of small or wide tables. Merged rows are sorted, and rows of weight 0 are removed.

    The table (n, d) is finite but for missing cells, NaN, which are equal to each other; its weights (n,) are not
    negative and not all 0. It is returned as it is if no row is repeated or has a weight other than 1, or if it is
    large. Weights that are all 1 are returned as None.
    """
    if table.size > _MOST_VALUES:
        return table, weights
    if weights is not None:
        kept = weights > 0
        if not kept.all():
            table, weights = table[kept], weights[kept]
        if (weights == 1).all():
            weights = None
    # For most tables of real numbers, one column shows that there are no repeats.
    if weights is None and len(np.unique(table[:, 0])) == len(table):
        return table, None
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    first = np.flatnonzero(np.append(True, _differ(ordered[1:], ordered[:-1]).any(axis=1)))
    if weights is None and len(first) == len(table):
        return table, None
    ones = np.ones(len(table)) if weights is None else weights[order]
    return ordered[first], np.add.reduceat(ones, first)


def _differ(cells: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which cells differ: two that are missing do not."""
    differ: NDArray[np.bool_] = (cells != others) & ((cells == cells) | (others == others))
    return differ
