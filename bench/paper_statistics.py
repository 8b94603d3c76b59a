"""The tests of the paper's tables: paired t-tests, wins, ties and losses, sign tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, ttest_rel

Scores = NDArray[np.float64]
LEVEL, STRONG_LEVEL = 0.05, 0.01


def paired_t(a: Scores, b: Scores, alternative: str = "two-sided") -> float:
    """Return the p-value of Student's paired test that the mean of a - b is 0; "greater": against a being larger.

    If all differences are the same, the value is 0 or 1. NaN for fewer than two.
    """
    difference = np.asarray(a) - np.asarray(b)
    if len(difference) < 2:
        return float("nan")
    if np.ptp(difference) == 0:
        told = difference[0] > 0 if alternative == "greater" else difference[0] != 0
        return 0.0 if told else 1.0
    return float(ttest_rel(a, b, alternative=alternative).pvalue)


def is_better(a: Scores, b: Scores, level: float = LEVEL) -> bool:
    """Return whether a is significantly larger than b, by the one-tailed paired test."""
    return paired_t(a, b, "greater") < level


def marks(scores: Mapping[str, Scores]) -> dict[str, str]:
    """Return the paper's marks of the best methods on a set.

    Parameters
    ----------
    scores : mapping of str to (n,) float64
        Accuracies on the same folds.

    Returns
    -------
    dict
        "best" for the method with the largest mean and all that it is not significantly better than; "best*" and
        "best**" if it is alone, at levels 0.05 and 0.01 of the test against the second; "" for all others.
    """
    ranked = sorted(scores, key=lambda name: -scores[name].mean())
    leader, *others = ranked
    equals = [name for name in others if not is_better(scores[leader], scores[name])]
    result = dict.fromkeys(scores, "")
    result.update(dict.fromkeys([leader, *equals], "best"))
    if others and not equals:
        strong = is_better(scores[leader], scores[others[0]], STRONG_LEVEL)
        result[leader] = "best**" if strong else "best*"
    return result


class Record(NamedTuple):
    """Numbers of sets on which a method is significantly better than another, neither is, or the other one is."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


def record(a: Mapping[str, Scores], b: Mapping[str, Scores]) -> Record:
    """Count wins, ties and losses of a against b over the sets that both have, at level 0.05.

    Parameters
    ----------
    a, b : mapping of str to (n,) float64
        Accuracies of a method on the folds of each set.
    """
    sets = a.keys() & b.keys()
    wins = sum(is_better(a[name], b[name]) for name in sets)
    losses = sum(is_better(b[name], a[name]) for name in sets)
    return Record(wins, len(sets) - wins - losses, losses)


class SignTest(NamedTuple):
    """Numbers of pairs in which the first or the second is larger, and the two-sided p-value; ties are left out."""

    larger: int
    smaller: int
    p: float


def sign_test(a: Scores, b: Scores) -> SignTest:
    """Run the sign test that a and b are equally often larger."""
    larger, smaller = int(np.sum(a > b)), int(np.sum(a < b))
    return SignTest(larger, smaller, binomtest(larger, larger + smaller).pvalue if larger + smaller else 1.0)
