"""Factor analysis of wide tables from the rows themselves, by their small Gram matrix; no (d, d) array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._em.factor_analysis import MOST_STEPS, TOLERANCE, Analyser, FactorChoice, Prior, choose, choose_principal
from amofa._kernels._factor_analysis import Solver
from amofa._typing import FloatArray
from amofa.criterion import Pricing

# Rows with a smaller share of the weight of a component add nothing to its second moments.
LEAST_SHARE = 1e-14


class Panel:
    """Second moments A'A of rows, for fewer rows than columns.

    A (m, d) has deviations from the mean times the root of their share of the weight.
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
        if len(self.rows) == 0:
            return np.zeros(0), self.rows
        values, left = np.linalg.eigh(self.rows @ self.rows.T)
        values, left = np.maximum(values[::-1], 0.0), left[:, ::-1]
        seen = values > values[0] * np.finfo(float).eps * len(values)
        vectors = (left[:, seen].T @ self.rows) / np.sqrt(values[seen, None])
        return values[seen], vectors

    def explained(self, directions: FloatArray) -> float:
        return float(((self.rows @ directions.T) ** 2).sum())

    def pooled(self, share: float, other: Any, difference: FloatArray) -> Panel:
        between = np.sqrt(share * (1 - share)) * difference
        return Panel(np.vstack([np.sqrt(share) * self.rows, np.sqrt(1 - share) * other.rows, between]))

    def solve(
        self, count: float, uniquenesses: FloatArray, n_factors: int, prior: Prior
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        found = solve_panels([self], [count], [n_factors], uniquenesses, prior, MOST_STEPS, TOLERANCE)
        return found.cost, found.uniquenesses, found.loadings[0], found.spectra[0]

    def choose(
        self, count: float, uniquenesses: FloatArray, n_factors: int, most: int, choice: FactorChoice
    ) -> Analyser:
        m, d = self.rows.shape
        return choose(Solver(d, 1, most, m), self.rows, count, uniquenesses, n_factors, most, choice)

    def choose_principal(
        self, count: float, uniquenesses: FloatArray, floor: FloatArray, numbers: range, n_rounds: int, pricing: Pricing
    ) -> Analyser:
        m, d = self.rows.shape
        solver = Solver(d, 1, numbers[-1], m)
        return choose_principal(solver, self.rows, count, uniquenesses, floor, numbers, n_rounds, pricing)


def means_and_panels(
    samples: Samples, responsibilities: FloatArray, counts: FloatArray | None = None
) -> tuple[FloatArray, list[Panel]]:
    """Return the means of the components, (K, d), and their second moments about them, divided by their counts.

    The responsibilities (K, n) are multiplied by the row weights, and of t components by those of the tails. The counts
    (K,) are their sums if none are given.
    """
    x = np.concatenate([x for x, _ in samples.chunks()], axis=1)
    sums = responsibilities.sum(axis=1)
    means = np.asarray(responsibilities @ x.T / np.where(sums > 0, sums, 1.0)[:, None])
    panels = []
    for h, count, mean in zip(responsibilities, sums if counts is None else counts, means, strict=True):
        rows = h > LEAST_SHARE * count
        share = np.sqrt(h[rows] / count) if count > 0 else h[rows]
        panels.append(Panel(share[:, None] * (x[:, rows].T - mean)))
    return means, panels


class PanelFit(NamedTuple):
    """Analysers of several panels with the same uniquenesses, as `Solver.solve_panels` gives them."""

    cost: float
    uniquenesses: FloatArray  # (d,)
    loadings: list[FloatArray]  # (p_k, d) each
    spectra: FloatArray  # (K, d)


def solve_panels(
    panels: Sequence[Panel],
    counts: Sequence[float],
    n_factors: Sequence[int],
    uniquenesses: FloatArray,
    prior: Prior,
    max_steps: int,
    tol: float,
) -> PanelFit:
    """Find loadings and shared uniquenesses that lower the cost of all panels, from the given uniquenesses."""
    d, K = len(uniquenesses), len(panels)
    lengths = [len(panel.rows) for panel in panels]
    offsets = np.concatenate([[0], np.cumsum(n_factors)]).astype(np.intp)
    found, loadings, spectra = uniquenesses.copy(), np.zeros((int(offsets[-1]), d)), np.zeros((K, d))
    solver = Solver(d, K, int(offsets[-1]), max(lengths))
    cost = solver.solve_panels(
        np.concatenate([panel.rows for panel in panels]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp),
        np.asarray(counts, dtype=np.float64),
        offsets,
        prior.floor,
        prior.count,
        prior.scale,
        found,
        loadings,
        spectra,
        max_steps,
        tol,
    )
    return PanelFit(cost, found, np.split(loadings, offsets[1:-1]), spectra)
