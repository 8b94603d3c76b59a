"""What kind of fit is asked for: the arguments of `fit` that are neither rows nor models, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from amofa._data.arguments import (
    check_choice,
    check_factor_sequence,
    check_not_negative,
    check_positive,
    check_whole_number,
)
from amofa._em.factor_analysis import NOISE
from amofa._search.constraints import Limits
from amofa.criterion import CRITERIA

SEARCHES = ("thorough", "paper")
# The criterion of "thorough" that the paper's search does not have: it depends on more than numbers of parameters.
EVIDENCE = "evidence"
NOISES = (*NOISE, "auto")
# Rows that the prior of a uniqueness is worth. It has a variance from here on.
_PRIOR_ROWS = 4.0


def check_limits(
    d: int,
    n_components: int | None,
    n_factors: int | Sequence[int] | None,
    max_components: int | None,
    max_factors: int | None,
) -> Limits:
    if n_components is not None:
        n_components = check_whole_number("n_components", n_components, at_least=1)
    factors: int | tuple[int, ...] | None
    if n_factors is None or isinstance(n_factors, Integral):
        factors = None if n_factors is None else check_whole_number("n_factors", n_factors, at_least=0, at_most=d)
    else:
        factors = check_factor_sequence(n_factors, d, n_components)
        n_components = len(factors)
    if max_components is not None:
        max_components = check_whole_number("max_components", max_components, at_least=n_components or 1)
    if max_factors is not None:
        given = factors if isinstance(factors, int) else max(factors or (0,))
        max_factors = check_whole_number("max_factors", max_factors, at_least=given)
    return Limits(n_components, factors, max_components, max_factors)


@dataclass(frozen=True)
class Options:
    """What kind of search, checked."""

    search: str
    criterion: str
    noise: str
    prior_rows: float
    tol: float
    max_iter: int


def check_options(search: Any, criterion: Any, noise: Any, prior_rows: Any, tol: Any, max_iter: Any) -> Options:
    search = check_choice("search", search, SEARCHES)
    paper = search == "paper"
    noise = check_choice("noise", ("component" if paper else "auto") if noise is None else noise, NOISES)
    if paper:
        if noise != "component":
            raise ValueError(f"noise={noise!r} needs search='thorough'; the paper's has noise='component' alone")
        if criterion == EVIDENCE:
            raise ValueError("criterion='evidence' needs search='thorough'; the paper's search has criterion='mml'")
        if prior_rows is not None:
            raise ValueError("prior_rows needs search='thorough'; the paper's search has no prior")
    default, known = ("mml", tuple(CRITERIA)) if paper else (EVIDENCE, (EVIDENCE, *CRITERIA))
    return Options(
        search,
        check_choice("criterion", default if criterion is None else criterion, known),
        noise,
        _PRIOR_ROWS if prior_rows is None else check_not_negative("prior_rows", prior_rows),
        check_positive("tol", tol),
        check_whole_number("max_iter", max_iter, at_least=1),
    )
