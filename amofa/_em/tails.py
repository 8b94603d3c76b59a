"""How many rows the components of a mixture of t distributions need."""

from __future__ import annotations

import math

import numpy as np

from amofa._typing import FloatArray

# The likelihood of n rows of a t distribution in d columns has no maximum if as many as n (nu + p) / (nu + d) of them
# lie in p dimensions (Kent & Tyler 1991), and any p + 1 rows may, in the space of p factors. A component has at least
# this many times the rows for which that is too few: well before, densities of its few central rows are far too high.
_MARGIN = 2.0


def least_rows(n_features: int, degrees_of_freedom: float) -> float:
    """Return the least soft count of a t component without factors.

    Examples
    --------
    >>> least_rows(30, 3.0), least_rows(4, 10.0)
    (22.0, 2.8)
    """
    return _MARGIN * (1.0 + n_features / degrees_of_freedom)


def most_factors(count: float, n_features: int, degrees_of_freedom: float) -> float:
    """Return the most factors of a t component with this soft count; infinite without such a bound.

    Examples
    --------
    >>> most_factors(60.0, 30, 3.0), most_factors(100.0, 30, 3.0)
    (19.0, inf)
    """
    all_of_them = _MARGIN * (degrees_of_freedom + n_features)
    if count >= all_of_them:
        return math.inf
    return max(0.0, (count * degrees_of_freedom - all_of_them) / (all_of_them - count))


def least_degrees_of_freedom(counts: FloatArray, n_factors: FloatArray, n_features: int) -> FloatArray:
    """Return the least degrees of freedom for which components with these soft counts and factors have enough rows.

    Examples
    --------
    >>> least_degrees_of_freedom(np.array([60.0, 100.0, 7.0]), np.array([2.0, 2.0, 3.0]), 30)
    array([1.11111111, 0.        ,        inf])
    """
    needed = _MARGIN * (n_factors + 1.0)
    spare = counts - needed
    least = (needed * n_features - counts * n_factors) / np.where(spare > 0, spare, 1.0)
    return np.where(spare > 0, np.maximum(least, 0.0), np.inf)
