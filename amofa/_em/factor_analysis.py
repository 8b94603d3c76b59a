"""Factor analysis: the best factor analyser for second moments of rows, with its number of factors chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from amofa._em.tails import most_factors
from amofa._kernels._factor_analysis import Solver
from amofa._kernels._noise import maximize_isotropic, prior_cost
from amofa._noise import Noise, log_shape_and_scales
from amofa._typing import FloatArray
from amofa.criterion import PriceOfShare, Pricing

# Tolerance in nats, far below the price of a parameter, and maximum number of Newton steps for one analyser.
TOLERANCE = 1e-3
MOST_STEPS = 30
# A trial of another number of factors continues while this multiple of what its next Newton step promises would make it
# better. Steps decrease at a fixed rate at worst.
PATIENCE = 2.0
# Minimum saving of a change of the number of factors, in nats, so that rounding alone makes none.
_LEAST_SAVING = 1e-3
# A rough choice takes this number of eigendecompositions, and leaves a column at least this share of its variance.
_ROUGH_ROUNDS, _LEAST_ROUGH_NOISE = 2, 0.02
# With fewer columns, the compiled exact choice is faster.
_LEAST_ROUGH_COLUMNS = 8


@dataclass(frozen=True)
class Prior:
    """The prior of uniquenesses, in the coordinates of the search.

    The log of each has a hyperbolic secant prior, with a density proportional to 1 / cosh(log(psi / scale) / 2)^count.
    Near scale it is worth ``count`` / 2 rows; far from it, it is a power of psi, which is the same for all units. Each
    uniqueness is at least ``floor``; both are (d,).
    """

    floor: FloatArray
    scale: FloatArray
    count: float

    def cost(self, uniquenesses: FloatArray, noise: Noise = Noise.COMPONENT) -> float:
        """Return minus the log of the prior density of (K, d) uniquenesses over its largest value, nats; at least 0."""
        if noise.is_scaled:
            shape, scales = log_shape_and_scales(uniquenesses)
            d = len(shape)
            cost = prior_cost(np.exp(shape)[None], Noise.COMPONENT.code, self.count, self.scale)
            return cost + prior_cost(np.exp(scales)[:, None], Noise.COMPONENT.code, d * self.count, np.ones(1))
        return prior_cost(uniquenesses, noise.code, self.count, self.scale)


@dataclass(frozen=True)
class Analyser:
    """Loadings (q, d) and uniquenesses (d,) with their cost."""

    loadings: FloatArray
    uniquenesses: FloatArray
    cost: float  # n/2 (log |Sigma| + tr(Sigma^-1 S)) + the prior's cost + the criterion's price, nats

    @property
    def n_factors(self) -> int:
        return len(self.loadings)


class Spread(Protocol):
    """Second moments of the rows of a component, divided by their count: a covariance matrix, or the rows."""

    @property
    def variances(self) -> FloatArray:
        """Diagonal of the covariance matrix, (d,)."""

    @property
    def rank_limit(self) -> int:
        """Upper bound of the rank."""

    def axes(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues, decreasing and not negative, and eigenvectors as rows."""

    def explained(self, directions: FloatArray) -> float:
        """Return the sum of the variances of projections on the rows of ``directions``, (p, d)."""

    def pooled(self, share: float, other: Any, difference: FloatArray) -> Spread:
        """Return those of these rows, with ``share`` of the weight, and others; ``difference`` is that of the means."""

    def solve(
        self, count: float, uniquenesses: FloatArray, n_factors: int, prior: Prior
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Find the best analyser from the given uniquenesses; return cost, uniquenesses, loadings and spectrum."""

    def choose(
        self, count: float, uniquenesses: FloatArray, n_factors: int, most: int, choice: FactorChoice
    ) -> Analyser:
        """Return the analyser with the lowest cost, including its price, and at most ``most`` factors."""

    def choose_principal(
        self, count: float, uniquenesses: FloatArray, floor: FloatArray, numbers: range, n_rounds: int, pricing: Pricing
    ) -> Analyser:
        """Return the best of these numbers of factors given the uniquenesses, which follow in each round."""


class Covariance:
    """Second moments as a (d, d) matrix."""

    __slots__ = ("matrix", "solver")

    def __init__(self, matrix: FloatArray, solver: Solver) -> None:
        self.matrix, self.solver = matrix, solver

    def of_rows(self, x: FloatArray, weights: FloatArray) -> tuple[FloatArray, Covariance]:
        """Return the mean (d,) and the second moments of other rows (d, n)."""
        mean: FloatArray = x @ weights / weights.sum()
        deviations = (x - mean[:, None]) * np.sqrt(weights / weights.sum())
        return mean, Covariance(deviations @ deviations.T, self.solver)

    @property
    def variances(self) -> FloatArray:
        return np.diagonal(self.matrix)

    @property
    def rank_limit(self) -> int:
        return len(self.matrix)

    def axes(self) -> tuple[FloatArray, FloatArray]:
        return principal_axes(self.matrix)

    def explained(self, directions: FloatArray) -> float:
        return float(np.einsum("ij,ij->", directions @ self.matrix, directions))

    def pooled(self, share: float, other: Any, difference: FloatArray) -> Covariance:
        between = share * (1 - share) * np.outer(difference, difference)
        return Covariance(share * self.matrix + (1 - share) * other.matrix + between, self.solver)

    def solve(
        self, count: float, uniquenesses: FloatArray, n_factors: int, prior: Prior
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        d = len(self.matrix)
        # Factors beyond the number of columns are empty.
        used = min(n_factors, d)
        found, loadings, spectrum = uniquenesses.copy(), np.zeros((n_factors, d)), np.empty((1, d))
        cost = self.solver.solve(
            self.matrix[None],
            np.array([count]),
            np.array([0, used], dtype=np.intp),
            prior.floor,
            prior.count,
            prior.scale,
            found,
            loadings[:used],
            spectrum,
            MOST_STEPS,
            TOLERANCE,
            factors_alone=True,
        )
        return cost, found, loadings, spectrum[0]

    def choose(
        self, count: float, uniquenesses: FloatArray, n_factors: int, most: int, choice: FactorChoice
    ) -> Analyser:
        return choose(self.solver, self.matrix, count, uniquenesses, n_factors, most, choice)

    def choose_principal(
        self, count: float, uniquenesses: FloatArray, floor: FloatArray, numbers: range, n_rounds: int, pricing: Pricing
    ) -> Analyser:
        return choose_principal(self.solver, self.matrix, count, uniquenesses, floor, numbers, n_rounds, pricing)


def choose(
    solver: Solver,
    moments: FloatArray,
    count: float,
    uniquenesses: FloatArray,
    n_factors: int,
    most: int,
    choice: FactorChoice,
) -> Analyser:
    """Choose the number of factors; see `amofa._kernels._factor_analysis.Solver.choose`."""
    found, loadings, prior = uniquenesses.copy(), np.empty((most, len(uniquenesses))), choice.prior
    cost, number = solver.choose(
        moments,
        count,
        min(n_factors, most),
        choice.pricing.prices(count, most),
        *choice.pricing.mean_prices(count),
        prior.floor,
        prior.count,
        prior.scale,
        found,
        loadings,
        MOST_STEPS,
        TOLERANCE,
        PATIENCE,
        _LEAST_SAVING,
    )
    return Analyser(loadings[:number], found, cost)


def choose_principal(
    solver: Solver,
    moments: FloatArray,
    count: float,
    uniquenesses: FloatArray,
    floor: FloatArray,
    numbers: range,
    n_rounds: int,
    pricing: Pricing,
) -> Analyser:
    """Choose among numbers of factors; see `amofa._kernels._factor_analysis.Solver.choose_principal`."""
    least, most = numbers[0], numbers[-1]
    prices = pricing.prices(count, most)
    # Factors beyond the number of columns are empty.
    used = min(most, len(uniquenesses))
    prices[used] = prices[most]
    prices[: min(least, used)] = np.inf
    found, loadings = uniquenesses.copy(), np.zeros((most, len(uniquenesses)))
    cost, number = solver.choose_principal(
        moments,
        count,
        prices[: used + 1],
        *pricing.mean_prices(count),
        floor,
        found,
        loadings[:used],
        n_rounds,
    )
    return Analyser(loadings[: max(number, least)], found, cost)


@dataclass(frozen=True)
class FactorChoice:
    """Chooses the number of factors of an analyser by a criterion."""

    pricing: Pricing
    prior: Prior
    noise: Noise  # shared uniquenesses are left as they are given
    n_factors: int | None = None  # kept if given
    max_factors: int | None = None
    degrees_of_freedom: float = np.inf  # finite for t components
    is_rough: bool = False  # whether a few eigendecompositions do, where EM goes on to the maximum

    def most_factors(self, count: float, spread: Spread) -> int:
        """Return the maximum that leaves at least two rows for each coefficient of a column's regression on them."""
        d = len(self.prior.floor)
        most = min(d - 1, spread.rank_limit - 1, int((count - 1) // 2) - 1)
        if self.degrees_of_freedom < np.inf:
            most = int(min(most, most_factors(count, d, self.degrees_of_freedom)))
        return max(0, most if self.max_factors is None else min(most, self.max_factors))

    def of_share(self, share: float) -> FactorChoice:
        """Return the choice for counts of which a component has this share only, at the price of all of it."""
        return replace(self, pricing=PriceOfShare(self.pricing, share))

    def best(self, count: float, spread: Spread, uniquenesses: FloatArray, n_factors: int) -> Analyser:
        """Return the analyser with the lowest cost, searched from the given uniquenesses and number of factors."""
        if self.noise.is_isotropic:
            return self._isotropic(count, spread, self._numbers(count, spread))
        if self.noise.is_shared:
            return self._principal(count, spread, uniquenesses, self.prior.floor, 0)
        if self.is_rough and len(uniquenesses) >= _LEAST_ROUGH_COLUMNS:
            least = np.maximum(self.prior.floor, _LEAST_ROUGH_NOISE * spread.variances)
            return self._principal(count, spread, uniquenesses, least, _ROUGH_ROUNDS)
        if self.n_factors is not None:
            return self._solve(count, spread, uniquenesses, self.n_factors)
        return spread.choose(count, uniquenesses, n_factors, self.most_factors(count, spread), self)

    def _solve(self, count: float, spread: Spread, uniquenesses: FloatArray, n_factors: int) -> Analyser:
        cost, found, loadings, spectrum = spread.solve(count, uniquenesses, n_factors, self.prior)
        log_determinant = float(np.log(found).sum() + _log_excess(spectrum[:n_factors]).sum())
        return Analyser(loadings, found, cost + self.pricing.component(count, n_factors, log_determinant))

    def _principal(
        self, count: float, spread: Spread, uniquenesses: FloatArray, floor: FloatArray, n_rounds: int
    ) -> Analyser:
        numbers = self._numbers(count, spread)
        return spread.choose_principal(count, uniquenesses, floor, numbers, n_rounds, self.pricing)

    def isotropic(self, count: float, spread: Spread, n_factors: int) -> Analyser:
        """Return the analyser with n factors and one variance for all columns, by one eigendecomposition."""
        return self._isotropic(count, spread, range(n_factors, n_factors + 1))

    def _isotropic(self, count: float, spread: Spread, numbers: range) -> Analyser:
        """Return the best analyser with one of these numbers of factors (Tipping & Bishop 1999)."""
        values, vectors = padded_axes(spread, numbers[-1])
        floor, prior_count, scale = self.prior.floor, self.prior.count, self.prior.scale
        candidates = []
        for q in numbers:
            variance, cost, log_determinant = maximize_isotropic(values, q, count, floor, prior_count, scale)
            loadings = np.sqrt(np.maximum(values[:q, None] - variance, 0.0)) * vectors[:q]
            cost += self.pricing.component(count, q, log_determinant)
            candidates.append(Analyser(loadings, np.full(len(floor), variance), cost))
        return min(candidates, key=lambda a: a.cost)

    def _numbers(self, count: float, spread: Spread) -> range:
        if self.n_factors is not None:
            return range(self.n_factors, self.n_factors + 1)
        return range(self.most_factors(count, spread) + 1)


def _log_excess(eigenvalues: FloatArray) -> FloatArray:
    """Return what factors with these eigenvalues of the whitened covariance add to log |Sigma|."""
    logs: FloatArray = np.log(np.maximum(eigenvalues, 1.0))
    return logs


def principal_axes(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues, largest first and not negative, and eigenvectors as rows."""
    values, vectors = np.linalg.eigh(covariance)
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors.T[::-1])


def padded_axes(spread: Spread, n_factors: int) -> tuple[FloatArray, FloatArray]:
    """Return at least the given number of axes of a spread: factors beyond its rank are empty."""
    values, vectors = spread.axes()
    missing = n_factors - len(values)
    if missing <= 0:
        return values, vectors
    return np.append(values, np.zeros(missing)), np.vstack([vectors, np.zeros((missing, vectors.shape[1]))])
