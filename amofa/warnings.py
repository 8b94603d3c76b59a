"""The warning class of the package, and its messages."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import numpy as np

from amofa._typing import BoolArray

__all__ = ["AmofaWarning", "DataWarning"]


class AmofaWarning(UserWarning):
    """A fit succeeded, but its result needs care: for instance constant columns, or EM that did not converge."""


class DataWarning(AmofaWarning):
    """A table has columns of a kind that a mixture of normal distributions describes badly; see `amofa.inspect`.

    Examples
    --------
    If that is known, and the columns are to stay:

    >>> import warnings
    >>> import numpy as np
    >>> import amofa
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", amofa.DataWarning)
    ...     model = amofa.fit(np.repeat([[0.0], [1.0]], 50, axis=0))
    """


_PACKAGE = __name__.partition(".")[0]
# What a warning of odd columns advises.
ADVICE = "amofa.inspect(X)"
# Weights of rows that sum to less than this share of the number of distinct rows, or to so few rows that no second
# component pays, are likely to be shares.
_LITTLE_SHARE, _LITTLE_WEIGHT = 0.1, 5.0
# What columns are that a search leaves out.
_CONSTANT = "are constant and change no decision"
_EMPTY = "have no value in any row; they count as 0, and change no decision"


def warn_caller(message: str, category: type[AmofaWarning] = AmofaWarning) -> None:
    """Warn in a way that points to the nearest line outside the package, which the user can change."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_of_columns(
    kinds: Sequence[str | None],
    without_cells: Sequence[int],
    constant: Sequence[int],
    redundant: Sequence[tuple[int, list[int]]],
    names: Sequence[str] | None = None,
) -> None:
    """Warn once of columns that normal components describe badly, and of those that change no decision.

    `kinds` says what each column is like, or None; redundant columns are given with those that they follow from.
    """
    n_features = len(kinds)
    unused = {*constant, *(j for j, _ in redundant)}
    odd = _odd_columns([None if j in unused else kind for j, kind in enumerate(kinds)], names)
    messages = [
        odd,
        _unused_columns(_EMPTY, without_cells, n_features, names),
        _unused_columns(_CONSTANT, constant, n_features, names),
        _redundant_columns(redundant, n_features, names),
    ]
    if any(messages):
        warn_caller(". ".join(filter(None, messages)), DataWarning if odd else AmofaWarning)


def warn_of_constant_columns(constant: BoolArray) -> None:
    if constant.any():
        warn_caller(_unused_columns(_CONSTANT, np.flatnonzero(constant).tolist(), len(constant), None))


def _odd_columns(kinds: Sequence[str | None], names: Sequence[str] | None) -> str:
    found: dict[str, list[int]] = {}
    for j, kind in enumerate(kinds):
        if kind is not None:
            found.setdefault(kind, []).append(j)
    if not found:
        return ""
    shown = "; ".join(f"{kind}: {_listed(columns, names, 4)}" for kind, columns in found.items())
    return (
        f"X has columns that normal components describe badly, so that there may be too many of them: {shown}"
        f"{_from_zero(names)}. {ADVICE} says what to do"
    )


def _unused_columns(what: str, columns: Sequence[int], n_features: int, names: Sequence[str] | None) -> str:
    if not columns:
        return ""
    return f"{len(columns)} of {n_features} columns of X {what}: {_listed(columns, names)}{_from_zero(names)}"


def _redundant_columns(redundant: Sequence[tuple[int, list[int]]], n_features: int, names: Sequence[str] | None) -> str:
    if not redundant:
        return ""
    shown = "; ".join(f"{_listed([j], names)} from {_listed(others, names)}" for j, others in redundant[:10])
    more = "; ..." if len(redundant) > 10 else ""
    return (
        f"{len(redundant)} of {n_features} columns of X follow from others by sums and multiples, and change no "
        f"decision: {shown}{more}{_from_zero(names)}"
    )


def warn_of_unseen_pairs(pairs: Sequence[tuple[int, int]], names: Sequence[str] | None = None) -> None:
    """Warn of pairs of columns of which nothing says how they go together."""
    if pairs:
        shown = ", ".join(_listed(pair, names).replace(", ", " and ") for pair in pairs[:5])
        more = ", ..." if len(pairs) > 5 else ""
        warn_caller(
            f"no row of X has values in both of some columns, so that only other columns tell how these go together: "
            f"{shown}{more}{_from_zero(names)}"
        )


def _listed(columns: Sequence[int], names: Sequence[str] | None, most: int = 10) -> str:
    shown = [str(j) if names is None else repr(names[j]) for j in columns[:most]]
    return ", ".join(shown) + (", ..." if len(columns) > most else "")


def _from_zero(names: Sequence[str] | None) -> str:
    return " (from 0)" if names is None else ""


def warn_of_little_weight(total: float, n_distinct: int, n_rows: int) -> None:
    """Warn if weights sum to much less than the number of distinct rows, or to too little for two components."""
    if total < max(_LITTLE_SHARE * n_distinct, _LITTLE_WEIGHT) and 2 * total <= n_distinct:
        warn_caller(
            f"sample_weight sums to {total:g}, which counts as the number of rows, for {n_rows} rows: the fewer rows, "
            f"the fewer components pay. If each row is an observation, pass w * ({n_rows} / w.sum()) for weights w"
        )


def warn_of_no_convergence(converged: bool, iterations: str) -> None:
    """Warn unless EM converged; `iterations` is the maximum number, in terms of the arguments."""
    if not converged:
        warn_caller(f"EM of the chosen model did not converge within {iterations} iterations; allow more")


def warn_of_much_background(weight: float, most: float) -> None:
    """Warn if the weight of the background has reached the most that it may have."""
    if weight >= most:
        warn_caller(
            f"the background has {most:.0%} of the rows, the most that it may have: it is no background of groups"
        )


def warn_of_shortfall(wanted: int | None, reached: int) -> None:
    if wanted is not None and reached < wanted:
        warn_caller(f"{wanted} components were asked for, but the search found only {reached} that can be told apart")


def warn_of_interrupt() -> None:
    warn_caller("the fit was interrupted; this is the best model so far")


def warn_of_time(seconds: float | None) -> None:
    warn_caller(f"the search had not ended after max_time={seconds:g} s; this is the best model so far")
