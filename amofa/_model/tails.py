"""What multivariate t distributions have besides their scale matrices; normal ones have infinite degrees of freedom.

A row of a t distribution is a normal one divided by the root of g, with g chi-squared over its degrees of freedom: see
Kotz & Nadarajah, Multivariate t distributions and their applications (2004).
"""

from __future__ import annotations

import numpy as np

from amofa._typing import FloatArray

Generator = np.random.Generator | np.random.RandomState


def variance_ratio(degrees_of_freedom: FloatArray) -> FloatArray:
    """Return what a variance is, in units of the scale: nu / (nu - 2), 1 for a normal, infinite up to nu = 2.

    Examples
    --------
    >>> variance_ratio(np.array([1.0, 4.0, np.inf]))
    array([inf,  2.,  1.])
    """
    with np.errstate(divide="ignore"):
        ratio: FloatArray = 1.0 + 2.0 / np.maximum(degrees_of_freedom - 2.0, 0.0)
    return ratio


def stretches(rng: Generator, degrees_of_freedom: float, n: int) -> FloatArray:
    """Draw n factors, (n, 1), by which rows of a t distribution are farther from its centre than normal ones."""
    # Draws for few degrees of freedom may underflow, and rows would be infinite.
    chi_squared = np.maximum(rng.chisquare(degrees_of_freedom, n), np.finfo(np.float64).tiny)
    factors: FloatArray = np.sqrt(degrees_of_freedom / chi_squared)[:, None]
    return factors


def radius_of_same_mass(degrees_of_freedom: float, deviations: float) -> float:
    """Return the Mahalanobis distance within which a t distribution in the plane has the mass of a normal one.

    1 - (1 + r^2 / nu)^(-nu / 2) = 1 - exp(-deviations^2 / 2), the former since r^2 / 2 has an F distribution.

    Examples
    --------
    >>> radius_of_same_mass(np.inf, 2.0), round(radius_of_same_mass(3.0, 2.0), 3)
    (2.0, 2.895)
    """
    if np.isinf(degrees_of_freedom):
        return deviations
    # It may be beyond all numbers for few degrees of freedom.
    with np.errstate(over="ignore"):
        return float(np.sqrt(degrees_of_freedom * np.expm1(deviations**2 / degrees_of_freedom)))
