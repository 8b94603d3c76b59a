"""Checks of the arrays that a user or a file gives as the parameters of a mixture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._parameters import Component, Evaluator, Parameters
from amofa._typing import FloatArray

# Largest distance of the sum of weights from 1: rounding of single precision or printed numbers, not a mistake.
_WEIGHT_SUM_TOLERANCE = 1e-6
# The smallest variance whose reciprocal, which the kernels use, is finite.
_SMALLEST_VARIANCE = float(np.finfo(np.float64).tiny)
# Nearly all rows of a t distribution with fewer degrees of freedom are too far from its centre for float64.
_FEWEST_DEGREES = 1e-3


def parameters_from_arrays(
    weights: ArrayLike,
    means: ArrayLike,
    loadings: Iterable[ArrayLike],
    uniquenesses: ArrayLike,
    degrees_of_freedom: ArrayLike | None = None,
) -> Parameters:
    """Check a mixture given as arrays and copy it.

    Weights (K,) are not negative, and are normalised if they sum to 1 to within 1e-6; means are (K, d), loadings K
    arrays (d, p_k), and uniquenesses (K, d) positive variances. Degrees of freedom are positive, one number or (K,);
    None and infinity stand for normal components. Raises TypeError if values are not real numbers, or
    loadings cannot be iterated over, and ValueError if anything else is wrong; the message names the argument and the
    component.
    """
    weight, mean, variance = _real(weights, "weights"), _real(means, "means"), _real(uniquenesses, "uniquenesses")
    _check_weights(weight)
    if mean.ndim != 2 or len(mean) != len(weight) or mean.shape[1] == 0:
        raise ValueError(
            f"means must have shape (n_components, n_features), with one row for each of the {len(weight)} weights; "
            f"got {mean.shape}"
        )
    if variance.shape != mean.shape:
        raise ValueError(
            f"uniquenesses must have the shape of means, {mean.shape}, got {variance.shape}; pass the diagonals only"
        )
    for k in range(len(weight)):
        _check_finite(mean[k], "means", k)
        _check_uniquenesses(variance[k], k)
    factors = _check_loadings(loadings, *mean.shape)
    degrees = _check_degrees_of_freedom(degrees_of_freedom, len(weight))
    parameters = Parameters.from_components(
        [Component(*of_one) for of_one in zip(weight, mean, (f.T for f in factors), variance, degrees, strict=True)]
    )
    try:
        Evaluator(parameters)
    except FloatingPointError as error:
        raise ValueError(f"{error}: its loadings are too large for its uniquenesses; raise those") from error
    return parameters


def _real(values: ArrayLike, name: str) -> FloatArray:
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} is not a rectangular array ({error})") from None
    if array.dtype.kind not in "biufO":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}; convert to float first")
    try:
        # Longer floats that are too large for float64 become infinite, which the check reports.
        with np.errstate(over="ignore"):
            return array.astype(np.float64, copy=False)
    except OverflowError as error:
        raise ValueError(f"{name} holds a whole number that is too large ({error}); rescale") from None
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold real numbers ({error}); convert to float first") from None


def _check_finite(values: FloatArray, name: str, k: int) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} of component {k} hold NaN or infinite values; drop the component or fill them in")


def _check_weights(weights: FloatArray) -> None:
    if weights.ndim != 1 or not len(weights):
        raise ValueError(f"weights must have shape (n_components,) with at least one component, got {weights.shape}")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"weights must be finite and not negative, got {weights[k]} for component {k}")
    total = float(weights.sum())
    if abs(total - 1) > _WEIGHT_SUM_TOLERANCE:
        raise ValueError(f"weights must sum to 1, got {total:.9g}; divide them by their sum")


def _check_uniquenesses(uniquenesses: FloatArray, k: int) -> None:
    _check_finite(uniquenesses, "uniquenesses", k)
    wrong = uniquenesses < _SMALLEST_VARIANCE
    if wrong.any():
        j = int(np.argmax(wrong))
        raise ValueError(
            f"uniquenesses are variances and must be positive normal numbers, got {uniquenesses[j]} for component {k}, "
            f"feature {j}; raise it to a small share of the feature's variance, or rescale the feature"
        )


def _check_degrees_of_freedom(degrees_of_freedom: ArrayLike | None, K: int) -> FloatArray:
    """Return degrees of freedom, (K,)."""
    degrees = _real(np.inf if degrees_of_freedom is None else degrees_of_freedom, "degrees_of_freedom")
    if degrees.shape not in ((), (K,)):
        raise ValueError(
            f"degrees_of_freedom has shape {degrees.shape}; pass one number for all components, or one for each of {K}"
        )
    degrees = np.broadcast_to(degrees, (K,))
    # Not "<", which NaN passes.
    wrong = ~(degrees >= _FEWEST_DEGREES)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"degrees_of_freedom must be at least {_FEWEST_DEGREES:g}, got {degrees[k]} for component {k}; "
            "numpy.inf stands for a normal component"
        )
    return degrees


def _check_loadings(loadings: Iterable[ArrayLike], K: int, d: int) -> list[FloatArray]:
    if not isinstance(loadings, Iterable):
        raise TypeError(
            "loadings must be a sequence of arrays, one (n_features, n_factors) for each component, "
            f"got {type(loadings).__name__}"
        )
    arrays = [_real(of_one, f"loadings of component {k}") for k, of_one in enumerate(loadings)]
    if len(arrays) != K:
        raise ValueError(f"loadings has {len(arrays)} entries, but weights has {K}; pass one array per component")
    for k, array in enumerate(arrays):
        if array.ndim != 2 or len(array) != d:
            raise ValueError(
                f"loadings of component {k} must have shape (n_features, n_factors), with {d} rows, got {array.shape}; "
                + _loadings_remedy(array, d)
            )
        _check_finite(array, "loadings", k)
    return arrays


def _loadings_remedy(array: FloatArray, d: int) -> str:
    if array.ndim == 2 and array.shape[1] == d:
        return "pass the transpose"
    if array.shape == (d,):
        return "use reshape(-1, 1) for one factor"
    return f"use numpy.zeros(({d}, 0)) for no factors"
