"""Log densities of rows under a mixture, and the criteria that are made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.checks import counted_rows
from amofa._data.row_chunks import PosteriorBlock, Samples
from amofa._model.missing_data import IncompleteSamples
from amofa._parameters import Parameters
from amofa._typing import FloatArray
from amofa.criterion import INFORMATION_CRITERIA


def rows_of(table: NDArray[Any], is_incomplete: bool, weights: FloatArray | None = None) -> Samples | IncompleteSamples:
    """Return rows that are checked, ready for passes; those of weight 0 are left out."""
    kind = IncompleteSamples if is_incomplete else Samples
    return kind(table, weights=weights, rows=counted_rows(weights))


def log_densities(parameters: Parameters, rows: Samples | IncompleteSamples) -> FloatArray:
    """Return the log density of the observed cells of every row, (n,), in nats."""
    log_density = np.empty(rows.n_rows)

    def put(block: PosteriorBlock) -> None:
        log_density[block.rows] = block.log_density

    rows.over_posterior(parameters, put)
    return log_density


def mean_log_density(parameters: Parameters, rows: Samples | IncompleteSamples) -> float:
    """Return the weighted mean of the log densities, in nats."""
    sums = rows.over_posterior(parameters, lambda block: _weighted_sum(block.log_density, block.row_weights))
    return sum(sums) / rows.total_weight


def information_criterion(
    name: str, parameters: Parameters, rows: Samples | IncompleteSamples, n_parameters: int
) -> float:
    """Return "bic", "aic" or "icl" on the scale of -2 log-likelihood."""
    # Importing all of scipy.special would take a tenth of the time of `import amofa`.
    from scipy.special import entr

    criterion = INFORMATION_CRITERIA[name]

    def cost(block: PosteriorBlock) -> float:
        log_likelihood = _weighted_sum(block.log_density, block.row_weights)
        if not criterion.uses_entropy:
            return -log_likelihood
        return _weighted_sum(entr(block.responsibilities).sum(axis=0), block.row_weights) - log_likelihood

    costs = rows.over_posterior(parameters, cost)
    return 2 * (criterion.price(rows.total_weight) * n_parameters + sum(costs))


def _weighted_sum(values: FloatArray, weights: FloatArray | None) -> float:
    return float(values.sum() if weights is None else (values * weights).sum())
