"""The distance between two labelings of the same rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._typing import FloatArray


def normalized_information_distance(u: ArrayLike | Iterable[Hashable], v: ArrayLike | Iterable[Hashable]) -> float:
    """Return the normalised information distance of two labelings, 1 - MI(u, v) / max(H(u), H(v)).

    Parameters
    ----------
    u, v : sequence of n hashables
        Labels of the same rows: numbers, strings, or any hashable objects; only their equality matters.

    Returns
    -------
    float
        From 0 for the same partition (also if both have one cluster) to 1 for independent ones. It is a metric.

    Raises
    ------
    TypeError
        If labels are not a sequence, or not hashable.
    ValueError
        If the labelings are empty or of different lengths, not one-dimensional, or hold NaN.

    Notes
    -----
    It is computed as (H(u, v) - min(H(u), H(v))) / max(H(u), H(v)), which is equal since MI = H(u) + H(v) - H(u, v).

    References
    ----------
    N. X. Vinh, J. Epps, J. Bailey, Information theoretic measures for clusterings comparison, JMLR 11 (2010).

    Examples
    --------
    >>> normalized_information_distance([0, 0, 1, 1], ["b", "b", "a", "a"])
    0.0
    >>> normalized_information_distance([0, 0, 1, 1], [0, 1, 0, 1])
    1.0
    """
    codes_u, codes_v = _codes(u, "u"), _codes(v, "v")
    if len(codes_u) != len(codes_v):
        raise ValueError(f"u has {len(codes_u)} labels and v has {len(codes_v)}; both must label the same rows")
    low, high = sorted((_entropy(codes_u), _entropy(codes_v)))
    if high == 0:
        return 0.0
    joint = _entropy(codes_u * (codes_v.max() + 1) + codes_v)
    # Rounding can lift the quotient of independent labelings above 1; that of equal ones is exactly 0, see `_codes`.
    return min((joint - low) / high, 1.0)


def _codes(labels: ArrayLike | Iterable[Hashable], name: str) -> NDArray[np.int64]:
    """Number the labels in order of appearance, so that relabelings of a partition give exactly the same sums."""
    if isinstance(labels, np.ndarray):
        if labels.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, got shape {labels.shape}; use {name}.ravel()")
        labels = labels.tolist()
    if not isinstance(labels, Iterable):
        raise TypeError(f"{name} must be a sequence of labels, got {type(labels).__name__}")
    numbers: dict[object, int] = {}
    try:
        codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)
    except TypeError as error:
        raise TypeError(f"{name} must hold one hashable label per row ({error})") from None
    if not len(codes):
        raise ValueError(f"{name} is empty; at least one label is needed")
    if any(label != label for label in numbers):
        raise ValueError(f"{name} holds NaN, which equals nothing; give such rows a label of their own")
    return codes


def _entropy(codes: NDArray[np.int64]) -> float:
    shares: FloatArray = np.unique(codes, return_counts=True)[1] / len(codes)
    return -float((shares * np.log(shares)).sum())
