"""What a model costs, in nats: the one place that knows code lengths and parameter counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Normaliser of Rissanen's universal prior for integers (paper, eq. universalprior).
_RISSANEN_C = 2.865064


def integer_code_length(k: int) -> float:
    """Length of Rissanen's universal code for a positive integer, in nats.

    L*(k) = log2 k + log2 log2 k + ... (positive terms) + log2 2.865064 bits (paper, eq. idealcodelength).

    Examples
    --------
    >>> round(integer_code_length(1) / math.log(2), 4)
    1.5186
    """
    if k < 1:
        raise ValueError(f"k must be a positive integer, got {k}")
    bits = math.log2(_RISSANEN_C)
    term = math.log2(k)
    while term > 0:
        bits += term
        term = math.log2(term)
    return bits * math.log(2)


def _factor_code_lengths(n_factors: Sequence[int]) -> list[float]:
    """L*(p_k), or L*(p_k + 1) for all in a mixture where a component has no factors."""
    shift = 0 if all(n_factors) else 1
    return [integer_code_length(p + shift) for p in n_factors]


def n_parameters(n_features: int, n_factors: Sequence[int]) -> int:
    """Free parameters of a mixture, loadings counted up to rotation.

    (K - 1) + sum_k [2 d + d p_k - p_k (p_k - 1) / 2].

    Examples
    --------
    >>> n_parameters(2, (1, 1, 1, 1))
    27
    """
    return len(n_factors) - 1 + sum(_component_parameters(n_features, p) for p in n_factors)


def _component_parameters(d: int, p: int) -> int:
    return 2 * d + d * p - p * (p - 1) // 2


@dataclass(frozen=True)
class Penalty:
    """What a criterion adds to minus the log-likelihood, for given numbers of components and factors.

    Attributes
    ----------
    constant : float
        Nats.
    half_counts : tuple of float
        Multiplies the log of each component's weight; empty where weights cost nothing.
    uses_entropy : bool
        Whether the entropy of the responsibilities is added.
    min_soft_counts : tuple of float
        A component with a smaller soft count is annihilated (paper, T_k = C_k / 2).
    """

    constant: float
    half_counts: tuple[float, ...]
    uses_entropy: bool
    min_soft_counts: tuple[float, ...]

    def cost(self, log_likelihood: float, entropy: float, weights: Sequence[float]) -> float:
        """The criterion, nats; lower is better. The log of a weight of 0 is left out."""
        cost = self.constant - log_likelihood
        if self.half_counts:
            cost += sum([half * math.log(w) for half, w in zip(self.half_counts, weights, strict=True) if w > 0.0])
        return cost + entropy if self.uses_entropy else cost


# A criterion makes the penalty of (n_features, n_factors, number of rows).
Criterion = Callable[[int, Sequence[int], float], Penalty]


def message_length(n_features: int, n_factors: Sequence[int], n: float) -> Penalty:
    """The paper's message length (eq. FJMMLAdoptedAmoFAFinal).

    sum_k C_k/2 log(N pi_k / 12) + K/2 log(N / 12) + sum_k (C_k + 1)/2 - log p(X) + L*(K) + sum_k L*(p_k), with
    C_k = d (p_k + 2) + L*(p_k) (eq. compannihthresh): loadings are counted without regard to rotation.
    """
    K = len(n_factors)
    codes = _factor_code_lengths(n_factors)
    halves = tuple((n_features * (p + 2) + code) / 2 for p, code in zip(n_factors, codes, strict=True))
    constant = (sum(halves) + K / 2) * (math.log(n / 12) + 1) + integer_code_length(K) + sum(codes)
    return Penalty(constant, halves, False, halves)


def _information_criterion(price: Callable[[float], float], uses_entropy: bool) -> Criterion:
    def criterion(n_features: int, n_factors: Sequence[int], n: float) -> Penalty:
        halves = tuple(_component_parameters(n_features, p) / 2 for p in n_factors)
        return Penalty(price(n) * n_parameters(n_features, n_factors), (), uses_entropy, halves)

    return criterion


# Half of the usual scale, so that all criteria are nats to be compared with a log-likelihood.
CRITERIA: dict[str, Criterion] = {
    "mml": message_length,
    "bic": _information_criterion(lambda n: math.log(n) / 2, False),
    "aic": _information_criterion(lambda n: 1.0, False),
    "icl": _information_criterion(lambda n: math.log(n) / 2, True),
}
