"""The cost of a model, in nats: the only place for code lengths, parameter counts and prices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from amofa._noise import Noise

# Normaliser of Rissanen's universal prior for integers (paper, eq. universalprior).
_RISSANEN_C = 2.865064


def integer_code_length(k: int) -> float:
    """Return the length of Rissanen's universal code for a positive integer, in nats.

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
    """Return L*(p_k), or L*(p_k + 1) for all components if one of them has no factors."""
    shift = 0 if all(n_factors) else 1
    return [integer_code_length(p + shift) for p in n_factors]


def n_parameters(n_features: int, n_factors: Sequence[int], noise: str = "component") -> int:
    """Return the number of free parameters of a mixture, with loadings counted up to rotation.

    (K - 1) + sum_k [2 d + d p_k - p_k (p_k - 1) / 2] with separate uniquenesses for each component; shared ones are d
    in all, scaled ones d + K - 1, isotropic ones 1 per component. With isotropic ones and d - 1 factors, a covariance
    has d (d + 1) / 2. Common loadings count once.

    Examples
    --------
    >>> n_parameters(2, (1, 1, 1, 1))
    27
    >>> n_parameters(2, (1, 1, 1, 1), "shared")
    21
    >>> n_parameters(2, (1, 1, 1, 1), "common_loadings")
    21
    """
    K, d, tied = len(n_factors), n_features, Noise(noise)
    loadings = [_loadings(d, p) for p in n_factors]
    return K - 1 + K * d + (max(loadings) if tied.has_common_loadings else sum(loadings)) + tied.n_uniquenesses(d, K)


def _component_parameters(d: int, p: int) -> int:
    return 2 * d + _loadings(d, p)


def _loadings(d: int, p: int) -> int:
    return d * p - p * (p - 1) // 2


@dataclass(frozen=True)
class Penalty:
    """The penalty that a criterion adds to minus the log-likelihood, for given numbers of components and factors.

    A component with a soft count below its own in `min_soft_counts` is annihilated (paper, T_k = C_k / 2).
    """

    constant: float  # nats
    half_counts: tuple[float, ...]  # multiplies the log of each component's weight; empty if weights cost nothing
    uses_entropy: bool  # whether the entropy of the responsibilities is added
    min_soft_counts: tuple[float, ...]

    def cost(self, log_likelihood: float, entropy: float, weights: Sequence[float]) -> float:
        """Return the criterion in nats; lower is better. The log of a weight of 0 is left out."""
        cost = self.constant - log_likelihood
        if self.half_counts:
            cost += sum([half * math.log(w) for half, w in zip(self.half_counts, weights, strict=True) if w > 0.0])
        return cost + entropy if self.uses_entropy else cost


# A criterion makes the penalty from (n_features, n_factors, number of rows).
Criterion = Callable[[int, Sequence[int], float], Penalty]


def message_length(n_features: int, n_factors: Sequence[int], n: float) -> Penalty:
    """Return the message length of the paper (eq. FJMMLAdoptedAmoFAFinal).

    sum_k C_k/2 log(N pi_k / 12) + K/2 log(N / 12) + sum_k (C_k + 1)/2 - log p(X) + L*(K) + sum_k L*(p_k), with
    C_k = d (p_k + 2) + L*(p_k) (eq. compannihthresh): loadings are counted without regard to rotation.
    """
    K = len(n_factors)
    codes = _factor_code_lengths(n_factors)
    halves = tuple((n_features * (p + 2) + code) / 2 for p, code in zip(n_factors, codes, strict=True))
    constant = (sum(halves) + K / 2) * (math.log(n / 12) + 1) + integer_code_length(K) + sum(codes)
    return Penalty(constant, halves, False, halves)


def gaussian_message_length(n_features: int, n_components: int, n_covariance: int, n: float) -> Penalty:
    """Return the message length of Figueiredo & Jain's program for mixtures of Gaussians.

    sum_k C/2 log pi_k + K (C + 1)/2 log N - log p(X), C = d + the free entries of a covariance: the paper's final
    equation without its codes of integers, its N / 12, and its constant (C + 1)/2.
    """
    half = (n_features + n_covariance) / 2
    halves = (half,) * n_components
    return Penalty(n_components * (half + 0.5) * math.log(n), halves, False, halves)


@dataclass(frozen=True)
class InformationCriterion:
    """A criterion with a price for each free parameter, in nats, from the number of rows.

    The price is half of the usual scale, so that all criteria are comparable with a log-likelihood.
    """

    price: Callable[[float], float]
    uses_entropy: bool = False  # whether the entropy of the responsibilities is added

    def __call__(self, n_features: int, n_factors: Sequence[int], n: float) -> Penalty:
        halves = tuple(_component_parameters(n_features, p) / 2 for p in n_factors)
        return Penalty(self.price(n) * n_parameters(n_features, n_factors), (), self.uses_entropy, halves)


INFORMATION_CRITERIA = {
    "bic": InformationCriterion(lambda n: math.log(n) / 2),
    "aic": InformationCriterion(lambda n: 1.0),
    "icl": InformationCriterion(lambda n: math.log(n) / 2, uses_entropy=True),
}
CRITERIA: dict[str, Criterion] = {"mml": message_length, **INFORMATION_CRITERIA}


# ---- prices of components, for a search that chooses the number of factors of each -----------------------------------

FloatArray = NDArray[np.float64]
# A component's soft count, number of factors and log |Sigma|.
Shape = tuple[float, int, float]


class Pricing(Protocol):
    """The price of the parameters of a mixture beyond minus its penalised log-likelihood, in nats."""

    @property
    def uses_entropy(self) -> bool:
        """Whether the entropy of the responsibilities is added to the cost."""

    @property
    def uses_optimism(self) -> bool:
        """Whether a background also pays for how well it fits the rows that it was made from."""

    def component(self, count: float, n_factors: int, log_determinant: float) -> float:
        """Return the price of a component with this soft count, number of factors and log |Sigma|."""

    def prices(self, count: float, most: int) -> FloatArray:
        """Return the prices of a component with 0 to `most` factors, without that of its mean."""

    def mean_prices(self, count: float) -> tuple[float, float]:
        """Return a and b: the mean costs 1/2 max(a - log |Sigma|, b)."""

    def mixture(self, components: Sequence[Shape], n_tail_parameters: int = 0) -> float:
        """Return the price of all components, each a soft count, number of factors and log |Sigma|.

        Degrees of freedom that were found are paid for, too.
        """


def free_loadings(d: int, p: int, n_noise: int) -> int:
    """Return the number of free loadings up to rotation, at most what a covariance has beyond its uniquenesses."""
    return min(d * p - p * (p - 1) // 2, d * (d + 1) // 2 - n_noise)


# Laplace's method leaves out terms of the order 1 / n, which matter where few rows can be divided in many ways: each
# further component costs this many nats more, divided by the number of rows. Without it, 12 of 100 tables of 10 x 4
# normal numbers are more than one component, by up to 3.9 nats; with it, none.
FEW_ROWS = 20.0


class Evidence:
    """Minus the log evidence by Laplace's method, with weak priors (docs/criterion.md).

    A mean costs 1/2 log |n_k Sigma_k^-1|, at least d/2 log N; a loading, a weight or degrees of freedom 1/2
    log N; a uniqueness what
    Laplace's method gives with its prior, whose exponent nu is `prior_count`. Columns are in the units of the search;
    N is the number of rows, n. Where cells are missing, only the given shares (d,) of the rows have one in each column:
    what describes a column is as exact, and costs as much, as these allow.
    """

    uses_entropy, uses_optimism = False, True

    def __init__(
        self, n_features: int, n: float, noise: str, prior_count: float, seen_shares: FloatArray | None = None
    ) -> None:
        self.n_features, self.n, self.noise, self.prior_count = n_features, n, Noise(noise), prior_count
        shares = np.ones(n_features) if seen_shares is None else np.maximum(seen_shares, 1.0 / max(n, 1.0))
        # Isotropic uniquenesses are those of all columns.
        self.noise_shares = np.array([shares.mean()]) if self.noise.is_isotropic else shares
        self.log_shares = float(np.log(shares).sum())
        self.log_n, self.few_rows = math.log(n), FEW_ROWS / max(n, 1.0)
        self.n_noise = self.noise.n_free(n_features)
        self.has_one_shape = self.noise.is_shared or self.noise.is_scaled
        self.rows = prior_count or 1.0
        self.normaliser = _log_normaliser(self.rows)
        free = [free_loadings(n_features, p, self.n_noise) for p in range(n_features + 1)]
        self.log_cells = self.log_n + self.log_shares / n_features
        self.loading_prices = 0.5 * self.log_cells * np.array(free, dtype=np.float64)

    def component(self, count: float, n_factors: int, log_determinant: float) -> float:
        concentrated, least = self.mean_prices(count)
        loading_price = self._loading_price(n_factors)
        return 0.5 * max(concentrated - log_determinant, least) + loading_price + self._fixed_price(count)

    def _loading_price(self, n_factors: int) -> float:
        return 0.5 * free_loadings(self.n_features, n_factors, self.n_noise) * self.log_cells

    def prices(self, count: float, most: int) -> FloatArray:
        # Factors beyond the number of columns are empty.
        used = np.minimum(np.arange(most + 1), self.n_features)
        prices: FloatArray = self.loading_prices[used] + self._fixed_price(count)
        return prices

    def mean_prices(self, count: float) -> tuple[float, float]:
        concentrated = self.n_features * math.log(max(count, 1.0))
        return concentrated + self.log_shares, self.n_features * self.log_n + self.log_shares

    def _fixed_price(self, count: float) -> float:
        """Return the price of a component itself, its weight and its uniquenesses."""
        noise_price = 0.0 if self.has_one_shape else self._noise_price(count)
        return noise_price + 0.5 * self.log_n + self.few_rows

    def _noise_price(self, count: float) -> float:
        """Price uniquenesses; the prior of log psi integrates to 2 pi^1/2 Gamma(nu/2) / Gamma((nu + 1)/2)."""
        if self.log_shares == 0.0:
            price = self.normaliser + 0.5 * math.log((max(count, 1.0) / 2 + self.rows / 4) / (2 * math.pi))
            return self.n_noise * max(0.0, price)
        rows = np.maximum(count * self.noise_shares, 1.0)
        prices = self.normaliser + 0.5 * np.log((rows / 2 + self.rows / 4) / (2 * math.pi))
        return float(np.maximum(prices, 0.0).sum())

    def mixture(self, components: Sequence[Shape], n_tail_parameters: int = 0) -> float:
        total = sum(self.component(*shape) for shape in components)
        total += 0.5 * self.log_n * (n_tail_parameters - 1) - self.few_rows
        if self.noise.has_common_loadings:
            total -= (len(components) - 1) * max(self._loading_price(p) for _, p, _ in components)
        if self.noise.is_scaled:
            # Of K scales, K - 1 are free.
            total += sum(self._scale_price(n) for n, _, _ in components) * (len(components) - 1) / len(components)
        return total + self._noise_price(self.n) if self.has_one_shape else total

    def _scale_price(self, count: float) -> float:
        """Price the scale of a component: its prior has d times the exponent of that of a uniqueness."""
        rows = self.rows * self.n_features
        cells = max(count, 1.0) * float(self.noise_shares.sum())
        return max(0.0, _log_normaliser(rows) + 0.5 * math.log((cells / 2 + rows / 4) / (2 * math.pi)))


def _log_normaliser(exponent: float) -> float:
    """Return the logarithm of the integral of cosh(x / 2)^-exponent over x."""
    return math.log(2 * math.sqrt(math.pi)) + math.lgamma(exponent / 2) - math.lgamma((exponent + 1) / 2)


def rounding_price(
    counts: FloatArray, uniquenesses: FloatArray, steps: FloatArray, shares: FloatArray | float = 1.0
) -> float:
    """Return the price of being narrower than rounded numbers allow, in nats, for the counts (K,) of components.

    A density should sum to at most 1 over the values that a column can take, each with a cell of one step. Over a grid,
    a normal density of variance psi sums to at most 1 + 2 q + 2 q^4 + 2 q^9 + ..., q = exp(-2 pi^2 psi / step^2), by
    Poisson's formula, and factors only lower that. Each row pays the logarithm for each column, or the share of rows,
    (d,), that has cells in it. Steps, (d,), and
    uniquenesses, (K, d), at least 1/12 of their squares, have the same units.

    Examples
    --------
    >>> rows, steps = np.array([1000.0]), np.array([1.0])
    >>> [round(rounding_price(rows, np.array([[psi]]), steps), 1) for psi in (1 / 12, 1 / (2 * math.pi), 0.5)]
    [328.5, 82.9, 0.1]
    """
    with np.errstate(divide="ignore"):
        q = np.exp(-2 * math.pi**2 * uniquenesses / steps**2)
    return float(counts @ (shares * np.log1p(2 * (q + q**4 + q**9))).sum(axis=1))


class PriceOfShare:
    """The price of components of which the counts are only a share."""

    def __init__(self, pricing: Pricing, share: float) -> None:
        self.pricing, self.share = pricing, share
        self.uses_entropy, self.uses_optimism = pricing.uses_entropy, pricing.uses_optimism

    def component(self, count: float, n_factors: int, log_determinant: float) -> float:
        return self.pricing.component(count / self.share, n_factors, log_determinant)

    def prices(self, count: float, most: int) -> FloatArray:
        return self.pricing.prices(count / self.share, most)

    def mean_prices(self, count: float) -> tuple[float, float]:
        return self.pricing.mean_prices(count / self.share)

    def mixture(self, components: Sequence[Shape], n_tail_parameters: int = 0) -> float:
        whole = [(count / self.share, n_factors, determinant) for count, n_factors, determinant in components]
        return self.pricing.mixture(whole, n_tail_parameters)


class Likelihood:
    """No price, for maximum likelihood."""

    uses_entropy = uses_optimism = False

    def component(self, count: float, n_factors: int, log_determinant: float) -> float:
        return 0.0

    def prices(self, count: float, most: int) -> FloatArray:
        return np.zeros(most + 1)

    def mean_prices(self, count: float) -> tuple[float, float]:
        return -math.inf, 0.0

    def mixture(self, components: Sequence[Shape], n_tail_parameters: int = 0) -> float:
        return 0.0


class Counted:
    """The price of a criterion of `CRITERIA` that depends only on the number of parameters, for n rows in all.

    Tied uniquenesses, by `noise`, are paid for once.
    """

    uses_optimism = False

    def __init__(self, criterion: Criterion, n_features: int, n: float, noise: str) -> None:
        self.criterion, self.n_features, self.n, self.noise = criterion, n_features, n, Noise(noise)
        self.uses_entropy = criterion(n_features, (0,), n).uses_entropy

    def component(self, count: float, n_factors: int, log_determinant: float) -> float:
        return self._price((n_factors,), (max(count, 1.0) / self.n,))

    def prices(self, count: float, most: int) -> FloatArray:
        weights = (max(count, 1.0) / self.n,)
        return np.array([self._price((p,), weights) for p in range(most + 1)])

    def mean_prices(self, count: float) -> tuple[float, float]:
        return -math.inf, 0.0

    def mixture(self, components: Sequence[Shape], n_tail_parameters: int = 0) -> float:
        n_factors = tuple(p for _, p, _ in components)
        price = self._price(n_factors, tuple(count / self.n for count, _, _ in components))
        one, n_more = self._tied_price(1.0), len(components) - 1
        price += one * n_tail_parameters
        # Beyond those of a single component, tied ones are not parameters.
        if self.noise.is_shared:
            price -= one * self.n_features * n_more
        if self.noise.is_scaled:
            price -= one * (self.n_features - 1) * n_more
        if self.noise.has_common_loadings:
            price -= (self._price((max(n_factors),), (1.0,)) - self._price((0,), (1.0,))) * n_more
        return price

    def _price(self, n_factors: tuple[int, ...], weights: tuple[float, ...]) -> float:
        price = self.criterion(self.n_features, n_factors, self.n).cost(0.0, 0.0, weights)
        if self.noise.is_isotropic:
            price -= sum(self._tied_price(w) for w in weights) * (self.n_features - 1)
        return price

    def _tied_price(self, weight: float) -> float:
        """Return the price of one parameter: the slope of the criterion in their number."""
        two, one = (self.criterion(d, (0,), self.n).cost(0.0, 0.0, (weight,)) for d in (2, 1))
        return (two - one) / 2
