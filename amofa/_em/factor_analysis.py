"""One factor analyser at its maximum: from the second moments of its rows, with the number of factors chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from amofa._kernels._analyser import Solver
from amofa._kernels._exact import best_isotropic_variance
from amofa._noise import Noise
from amofa._typing import FloatArray
from amofa.criterion import Pricing

# A single analyser is solved to within this many nats, or as many Newton steps: far less than a parameter's price.
TOLERANCE = 1e-3
MOST_STEPS = 30
# A trial of another number of factors goes on while so many times what its next Newton step promises would make it the
# better one. Steps fall off by a fixed rate at worst.
PATIENCE = 2.0
# What a change of the number of factors must save, nats, so that rounding makes none.
_LEAST_SAVING = 1e-3


@dataclass(frozen=True)
class Prior:
    """What is known of uniquenesses before seeing a component's rows, in the search's coordinates.

    The log of each has a hyperbolic secant prior, density proportional to 1 / cosh(log(psi / scale) / 2)^count: about
    scale it is worth ``count`` / 2 rows, far from it a power of psi, the same for all units. Each is at least
    ``floor``.

    Attributes
    ----------
    floor, scale : (d,) float64
    count : float
    """

    floor: FloatArray
    scale: FloatArray
    count: float

    def cost(self, uniquenesses: FloatArray, noise: Noise = Noise.COMPONENT) -> float:
        """Return minus the log of the prior density of (K, d) uniquenesses over its largest value, nats; at least 0."""
        scale = self.scale.mean() if noise.is_isotropic else self.scale
        return self.count * float(_log_cosh(np.log(noise.distinct(np.atleast_2d(uniquenesses)) / scale) / 2).sum())


@dataclass(frozen=True)
class Analyser:
    """Loadings and uniquenesses with what they cost.

    Attributes
    ----------
    loadings : (q, d) float64
    uniquenesses : (d,) float64
    cost : float
        n/2 (log |Sigma| + tr(Sigma^-1 S)) + the prior's cost + the criterion's price, nats.
    """

    loadings: FloatArray
    uniquenesses: FloatArray
    cost: float

    @property
    def n_factors(self) -> int:
        return len(self.loadings)


class Spread(Protocol):
    """Second moments of the rows of a component, divisor their count: a covariance matrix, or rows that make it."""

    @property
    def variances(self) -> FloatArray:
        """Diagonal, (d,)."""

    @property
    def rank_limit(self) -> int:
        """The rank is at most this."""

    def axes(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues, falling and not negative, and eigenvectors as rows."""

    def explained(self, directions: FloatArray) -> float:
        """Sum of the variances of the projections on the rows of ``directions``, (p, d)."""

    def scaled(self, scale: FloatArray) -> Spread:
        """Of the columns times ``scale``."""

    def pooled(self, share: float, other: Any, difference: FloatArray) -> Spread:
        """Of these rows and others together, these having ``share`` of the weight and means that so differ."""

    def solve(
        self, count: float, uniquenesses: FloatArray, n_factors: int, prior: Prior
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Cost, uniquenesses, loadings and spectrum of the best analyser, searched from the uniquenesses given."""

    def choose(
        self, count: float, uniquenesses: FloatArray, n_factors: int, most: int, choice: FactorChoice
    ) -> Analyser:
        """The analyser whose cost is lowest, its price included, with at most so many factors."""


class Covariance:
    """Second moments as a (d, d) matrix."""

    __slots__ = ("matrix", "solver")

    def __init__(self, matrix: FloatArray, solver: Solver) -> None:
        self.matrix, self.solver = matrix, solver

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

    def scaled(self, scale: FloatArray) -> Covariance:
        return Covariance(self.matrix * scale * scale[:, None], self.solver)

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


def choose(
    solver: Solver,
    moments: FloatArray,
    count: float,
    uniquenesses: FloatArray,
    n_factors: int,
    most: int,
    choice: FactorChoice,
) -> Analyser:
    """Choose the number of factors; see `amofa._kernels._analyser.Solver.choose`."""
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
        choice.max_steps,
        choice.tol,
        PATIENCE,
        _LEAST_SAVING,
    )
    return Analyser(loadings[:number], found, cost)


@dataclass(frozen=True)
class FactorChoice:
    """Chooses the number of factors of an analyser by a criterion.

    Attributes
    ----------
    pricing : Pricing
    prior : Prior
    noise : Noise
        Shared uniquenesses are left as they are given.
    n_factors : int, optional
        Kept where given.
    max_factors : int, optional
    max_steps : int
        Newton steps for each number of factors at most.
    tol : float
        Nats; fewer are not worth a step.
    """

    pricing: Pricing
    prior: Prior
    noise: Noise
    n_factors: int | None = None
    max_factors: int | None = None
    max_steps: int = MOST_STEPS
    tol: float = TOLERANCE

    def most_factors(self, count: float, spread: Spread) -> int:
        """So many that each column's regression on them has at least two rows for each coefficient."""
        most = min(len(self.prior.floor) - 1, spread.rank_limit - 1, int((count - 1) // 2) - 1)
        return max(0, most if self.max_factors is None else min(most, self.max_factors))

    def best(self, count: float, spread: Spread, uniquenesses: FloatArray, n_factors: int) -> Analyser:
        """The analyser of lowest cost, searched from the uniquenesses and number of factors given."""
        if self.noise.is_isotropic:
            return self._best_isotropic(count, spread)
        if self.noise.is_shared:
            return self._best_given_noise(count, spread, uniquenesses)
        if self.n_factors is not None:
            return self._solve(count, spread, uniquenesses, self.n_factors)
        return spread.choose(count, uniquenesses, n_factors, self.most_factors(count, spread), self)

    def _solve(self, count: float, spread: Spread, uniquenesses: FloatArray, n_factors: int) -> Analyser:
        cost, found, loadings, spectrum = spread.solve(count, uniquenesses, n_factors, self.prior)
        log_determinant = float(np.log(found).sum() + _log_excess(spectrum[:n_factors]).sum())
        return Analyser(loadings, found, cost + self.pricing.component(count, n_factors, log_determinant))

    def _best_given_noise(self, count: float, spread: Spread, uniquenesses: FloatArray) -> Analyser:
        scale = 1.0 / np.sqrt(uniquenesses)
        numbers = self._numbers(count, spread)
        values, vectors = padded_axes(spread.scaled(scale), numbers[-1])
        log_noise, trace = float(np.log(uniquenesses).sum()), float(spread.variances @ scale**2)
        gains = [0.0, *np.cumsum(self._gains(count, values)).tolist()]
        log_determinants = [log_noise, *(log_noise + np.cumsum(_log_excess(values))).tolist()]
        costs = [self.pricing.component(count, q, log_determinants[q]) - gains[q] for q in numbers]
        best = min(range(len(costs)), key=costs.__getitem__)
        q = numbers[best]
        loadings = np.sqrt(np.maximum(values[:q, None] - 1.0, 0.0)) * vectors[:q] / scale
        return Analyser(loadings, uniquenesses, count / 2 * (log_noise + trace) + costs[best])

    def isotropic(self, count: float, spread: Spread, n_factors: int) -> Analyser:
        """With so many factors and one variance for all columns: known from one eigen-decomposition."""
        return self._isotropic(count, spread, range(n_factors, n_factors + 1))

    def _best_isotropic(self, count: float, spread: Spread) -> Analyser:
        return self._isotropic(count, spread, self._numbers(count, spread))

    def _isotropic(self, count: float, spread: Spread, numbers: range) -> Analyser:
        """The best of some numbers of factors (Tipping & Bishop 1999)."""
        d = len(spread.variances)
        values, vectors = padded_axes(spread, numbers[-1])
        total = float(spread.variances.sum())
        candidates = []
        for q in numbers:
            variance = self._isotropic_variance(count, values, total, min(q, d - 1))
            loadings = np.sqrt(np.maximum(values[:q, None] - variance, 0.0)) * vectors[:q]
            uniquenesses = np.full(d, variance)
            cost = count / 2 * (d * np.log(variance) + total / variance) + self.prior.cost(
                uniquenesses[None], self.noise
            )
            cost -= float(self._gains(count, values[:q] / variance).sum())
            log_determinant = d * np.log(variance) + float(_log_excess(values[:q] / variance).sum())
            price = self.pricing.component(count, q, log_determinant)
            candidates.append(Analyser(loadings, uniquenesses, cost + price))
        return min(candidates, key=lambda a: a.cost)

    def _isotropic_variance(self, count: float, values: FloatArray, total: float, n_factors: int) -> float:
        """The best variance of the noise; factors that the prior lifts it above are noise, too."""
        d, floor, scale = len(self.prior.scale), float(self.prior.floor.max()), float(self.prior.scale.mean())
        while True:
            rest = max(total - float(values[:n_factors].sum()), 0.0)
            rows = count * (d - n_factors)
            variance = best_isotropic_variance(rows, count * rest, self.prior.count, scale, floor)
            if n_factors == 0 or values[n_factors - 1] >= variance:
                return variance
            n_factors -= 1

    def _numbers(self, count: float, spread: Spread) -> range:
        if self.n_factors is not None:
            return range(self.n_factors, self.n_factors + 1)
        return range(self.most_factors(count, spread) + 1)

    @staticmethod
    def _gains(count: float, eigenvalues: FloatArray) -> FloatArray:
        """What factors with these eigenvalues of the whitened covariance add to the log-likelihood, nats."""
        excess = np.maximum(eigenvalues, 1.0)
        gains: FloatArray = count / 2 * (excess - 1.0 - np.log(excess))
        return gains


def _log_excess(eigenvalues: FloatArray) -> FloatArray:
    """What factors with these eigenvalues of the whitened covariance add to log |Sigma|."""
    logs: FloatArray = np.log(np.maximum(eigenvalues, 1.0))
    return logs


def principal_axes(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, largest first and not negative, and eigenvectors as rows."""
    values, vectors = np.linalg.eigh(covariance)
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors.T[::-1])


def padded_axes(spread: Spread, n_factors: int) -> tuple[FloatArray, FloatArray]:
    """Axes of a spread, at least so many: factors beyond its rank are empty."""
    values, vectors = spread.axes()
    missing = n_factors - len(values)
    if missing <= 0:
        return values, vectors
    return np.append(values, np.zeros(missing)), np.vstack([vectors, np.zeros((missing, vectors.shape[1]))])


def _log_cosh(x: FloatArray) -> FloatArray:
    size = np.abs(x)
    result: FloatArray = size + np.log1p(np.exp(-2 * size)) - np.log(2.0)
    return result
