"""Wide tables: factor analysers from the rows themselves, through their small Gram matrix; no (d, d) array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from amofa.analyser import MOST_STEPS, TOLERANCE, Prior
from amofa.parameters import FloatArray

# As in the compiled core: largest step in a log uniqueness, share of the promised decrease to be kept, halvings.
_LONGEST_STEP = 2.0
_SUFFICIENT = 1e-4
_MOST_HALVINGS = 6
# Relative ridge of the diagonal Hessian.
_RIDGE = 1e-3


class Panel:
    """Second moments A'A of rows that are fewer than their columns.

    Parameters
    ----------
    rows : (m, d) float64
        A: deviations from the mean times the root of their share of the weight.
    """

    __slots__ = ("rows",)

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows

    @property
    def variances(self) -> FloatArray:
        variances: FloatArray = (self.rows**2).sum(axis=0)
        return variances

    @property
    def rank_limit(self) -> int:
        m, d = self.rows.shape
        return int(min(m, d))

    def axes(self) -> tuple[FloatArray, FloatArray]:
        values, left = np.linalg.eigh(self.rows @ self.rows.T)
        values, left = np.maximum(values[::-1], 0.0), left[:, ::-1]
        seen = values > values[0] * np.finfo(float).eps * len(values)
        vectors = (left[:, seen].T @ self.rows) / np.sqrt(values[seen, None])
        return values[seen], vectors

    def explained(self, directions: FloatArray) -> float:
        return float(((self.rows @ directions.T) ** 2).sum())

    def scaled(self, scale: FloatArray) -> Panel:
        return Panel(self.rows * scale)

    def pooled(self, share: float, other: Any, difference: FloatArray) -> Panel:
        between = np.sqrt(share * (1 - share)) * difference
        return Panel(np.vstack([np.sqrt(share) * self.rows, np.sqrt(1 - share) * other.rows, between]))

    def solve(
        self, count: float, uniquenesses: FloatArray, n_factors: int, prior: Prior
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        found = solve_panels([self], [count], [n_factors], uniquenesses, prior, MOST_STEPS, TOLERANCE)
        return found.cost, found.uniquenesses, found.loadings[0], found.spectra[0]


@dataclass(frozen=True)
class _Point:
    """What is known at one value of the log uniquenesses; see `Solver` of the compiled core."""

    log_noise: FloatArray  # (d,)
    cost: float
    gradient: FloatArray  # (d,)
    curvature: FloatArray  # (d,) diagonal of the approximate Hessian
    spectra: list[FloatArray]  # eigenvalues of the whitened second moments, falling
    vectors: list[FloatArray]  # their leading eigenvectors, (p, d)

    @property
    def uniquenesses(self) -> FloatArray:
        noise: FloatArray = np.exp(self.log_noise)
        return noise

    @property
    def loadings(self) -> list[FloatArray]:
        """Lambda' = (l - 1)^1/2 u Psi^1/2, one row per factor."""
        scale = np.exp(0.5 * self.log_noise)
        return [
            np.sqrt(np.maximum(values[: len(u), None] - 1.0, 0.0)) * u * scale
            for values, u in zip(self.spectra, self.vectors, strict=True)
        ]


def solve_panels(
    panels: Sequence[Panel],
    counts: Sequence[float],
    n_factors: Sequence[int],
    uniquenesses: FloatArray,
    prior: Prior,
    max_steps: int,
    tol: float,
) -> _Point:
    """Uniquenesses, shared by all panels, and loadings that lower the cost of `amofa._analyser.Solver.solve`.

    The Newton step has the diagonal of the Hessian alone, which is nearly all of it where columns are many.
    """
    lowest = np.log(prior.floor)
    here = _evaluate(panels, counts, n_factors, np.maximum(np.log(uniquenesses), lowest), prior)
    for _ in range(max_steps):
        step = np.clip(-here.gradient / here.curvature, -_LONGEST_STEP, _LONGEST_STEP)
        step = np.maximum(here.log_noise + step, lowest) - here.log_noise
        promised = -float(step @ here.gradient)
        if not promised > tol:
            break
        for halving in range(_MOST_HALVINGS):
            share = 0.25**halving
            there = _evaluate(panels, counts, n_factors, here.log_noise + share * step, prior)
            if there.cost <= here.cost - _SUFFICIENT * share * promised:
                break
        else:
            break
        here = there
    return here


def _evaluate(
    panels: Sequence[Panel], counts: Sequence[float], n_factors: Sequence[int], log_noise: FloatArray, prior: Prior
) -> _Point:
    cost = prior.cost(np.exp(log_noise))
    tail = np.tanh(0.5 * (log_noise - np.log(prior.scale)))
    gradient = 0.5 * prior.count * tail
    curvature = 0.25 * prior.count * (1.0 - tail**2)
    spectra, vectors = [], []
    for panel, count, p in zip(panels, counts, n_factors, strict=True):
        values, axes = panel.scaled(np.exp(-0.5 * log_noise)).axes()
        spectrum = np.zeros(max(len(values), p + 1))
        spectrum[: len(values)] = values
        u = np.zeros((p, len(log_noise)))
        u[: min(p, len(axes))] = axes[:p]
        excess = np.maximum(spectrum[:p] - 1.0, 0.0)
        gains = excess - np.log1p(excess)
        variances = panel.variances * np.exp(-log_noise)
        cost += count / 2 * float(log_noise.sum() + variances.sum() - gains.sum())
        gradient = gradient + count / 2 * (1.0 + excess @ u**2 - variances)
        curvature = curvature + count / 2 * (1.0 - (excess > 0) @ u**2) ** 2
        spectra.append(spectrum)
        vectors.append(u)
    if not np.isfinite(cost):
        raise FloatingPointError("second moments are not finite")
    curvature += _RIDGE * curvature.max()
    return _Point(log_noise, cost, gradient, curvature, spectra, vectors)
