"""The demonstration: draw Example 2 of the paper, fit a mixture, and compare it with the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from amofa._model.text import aligned
from amofa._typing import FloatArray
from amofa.fitting import fit
from amofa.history import Step
from amofa.metrics import normalized_information_distance
from amofa.mixture import MixtureOfFactorAnalyzers

# Example 2 of Kaya & Salah, arXiv:1507.02801: the first two clusters have the same mean, the last one is small.
COUNTS = (300, 300, 300, 100)
MEANS = ((-4.0, -4.0), (-4.0, -4.0), (2.0, 2.0), (-1.0, -6.0))
COVARIANCES = (
    ((0.8, 0.5), (0.5, 0.8)),
    ((5.0, -2.0), (-2.0, 5.0)),
    ((2.0, -1.0), (-1.0, 2.0)),
    ((0.125, 0.0), (0.0, 0.125)),
)


@dataclass(frozen=True)
class Demonstration:
    """A fit to rows whose clusters are known."""

    seed: int
    labels: NDArray[np.intp]  # the cluster that each row was drawn from, (n,)
    found: NDArray[np.intp]  # the component that `model` assigns it to, (n,)
    model: MixtureOfFactorAnalyzers

    @property
    def contingency(self) -> NDArray[np.intp]:
        """Count the rows of each cluster in each component, (number of clusters, K)."""
        counts = np.zeros((len(COUNTS), self.model.n_components), dtype=np.intp)
        np.add.at(counts, (self.labels, self.found), 1)
        return counts

    @property
    def distance(self) -> float:
        """Return the normalised information distance of clusters and components, 0 if they are the same, at most 1."""
        return normalized_information_distance(self.labels, self.found)


def example_2(seed: int) -> tuple[FloatArray, NDArray[np.intp]]:
    """Draw the rows (1000, 2) of the example; return them with their clusters (1000,)."""
    rng = np.random.default_rng(seed)
    clusters = zip(MEANS, COVARIANCES, COUNTS, strict=True)
    X = np.concatenate([rng.multivariate_normal(*cluster, method="cholesky") for cluster in clusters])
    return X, np.repeat(np.arange(len(COUNTS)), COUNTS)


def demonstrate(seed: int) -> Demonstration:
    """Draw the example and fit a mixture to it with default options."""
    X, labels = example_2(seed)
    model = fit(X)
    return Demonstration(seed, labels, model.predict(X), model)


def comparison(run: Demonstration) -> dict[str, Any]:
    """Return truth and result, for JSON."""
    return {
        "seed": run.seed,
        "means": run.model.means,
        "true_weights": _true_weights(),
        "true_means": MEANS,
        "contingency": run.contingency,
        "normalized_information_distance": run.distance,
    }


def report(run: Demonstration) -> str:
    """Return a text with the search step by step, then truth and result side by side."""
    return "\n\n".join(
        [
            f"Example 2 of Kaya & Salah (arXiv:1507.02801): {len(run.labels)} rows of {len(COUNTS)} Gaussians, "
            f"seed {run.seed}",
            f"The search, step by step (nats):\n{_steps_table(run.model.history)}",
            f"Found: {run.model.n_components} components, cost {run.model.cost:.2f} nats",
            f"Rows of each true cluster in each component found:\n{_contingency_table(run.contingency)}",
            f"Clusters and components, matched one to one by the rows that they share:\n{_parameters_table(run)}",
            f"Normalised information distance: {run.distance:.4f} (0: the same partition, 1: independent ones)",
        ]
    )


def _true_weights() -> FloatArray:
    return np.array(COUNTS) / sum(COUNTS)


def _steps_table(history: Sequence[Step]) -> str:
    heads = "step", "action", "component", "K", "factors", "cost", "log-likelihood", "EM iterations"
    rows = [[*heads, "accepted"]]
    for i, step in enumerate(history):
        component = "" if step.component < 0 else str(step.component)
        factors = " ".join(map(str, step.n_factors))
        costs = f"{step.cost:.2f}", f"{step.log_likelihood:.2f}"
        verdict = "yes" if step.accepted else "no"
        rows.append(
            [str(i), step.action, component, str(step.n_components), factors, *costs, str(step.n_iter), verdict]
        )
    return aligned(rows)


def _contingency_table(contingency: NDArray[np.intp]) -> str:
    heads = ["cluster", *(f"component {k}" for k in range(contingency.shape[1]))]
    return aligned([heads, *([str(c), *map(str, counts)] for c, counts in enumerate(contingency))])


def _parameters_table(run: Demonstration) -> str:
    # A one-to-one assignment: if the numbers differ, some clusters or components have no partner.
    partners = dict(zip(*linear_sum_assignment(run.contingency, maximize=True), strict=True))
    found = [_shown(*of_one) for of_one in zip(run.model.weights, run.model.means, strict=True)]
    rows = [["cluster", "weight", "mean", "component", "weight", "mean"]]
    for c, truth in enumerate(zip(_true_weights(), MEANS, strict=True)):
        k = partners.get(c)
        rows.append([str(c), *_shown(*truth), *(["none", "", ""] if k is None else [str(k), *found[k]])])
    rows += [["none", "", "", str(k), *shown] for k, shown in enumerate(found) if k not in partners.values()]
    return aligned(rows)


def _shown(weight: float, mean: Sequence[float] | FloatArray) -> list[str]:
    return [f"{weight:.3f}", f"({', '.join(f'{m:.2f}' for m in mean)})"]
