"""What a mixture says about rows: log densities, responsibilities, labels, factor scores, criteria."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.checks import counted_rows
from amofa._data.row_chunks import PosteriorBlock, Samples
from amofa._model.missing_data import IncompleteRows
from amofa._parameters import Parameters
from amofa._typing import FloatArray
from amofa.criterion import INFORMATION_CRITERIA

Rows = Samples | IncompleteRows


def rows_of(table: NDArray[Any], is_incomplete: bool, weights: FloatArray | None = None) -> Rows:
    """Return rows that are checked, ready for passes; those of weight 0 are left out."""
    kind = IncompleteRows if is_incomplete else Samples
    return kind(table, weights=weights, rows=counted_rows(weights))


def log_densities(parameters: Parameters, rows: Rows) -> FloatArray:
    """Return the log density of the observed cells of every row, (n,), in nats."""
    log_density = np.empty(rows.n_rows)

    def put(block: PosteriorBlock) -> None:
        log_density[block.rows] = block.log_density

    rows.over_posterior(parameters, put)
    return log_density


def mean_log_density(parameters: Parameters, rows: Rows) -> float:
    """Return the weighted mean of the log densities, in nats."""
    sums = rows.over_posterior(parameters, lambda block: _weighted_sum(block.log_density, block.row_weights))
    return sum(sums) / rows.total_weight


def responsibilities(parameters: Parameters, rows: Rows) -> FloatArray:
    """Return the posterior probability of every component for every row beside the background, (n, K)."""
    proba = np.empty((rows.n_rows, parameters.n_components))

    def put(block: PosteriorBlock) -> None:
        proba[block.rows] = block.responsibilities.T

    rows.over_posterior(parameters, put)
    return proba


def background_shares(parameters: Parameters, rows: Rows) -> FloatArray:
    """Return the posterior probability of the background for every row, (n,); 0 without one."""
    shares = np.zeros(rows.n_rows)

    def put(block: PosteriorBlock) -> None:
        if block.share is not None:
            shares[block.rows] = 1.0 - block.share

    rows.over_posterior(parameters, put)
    return shares


def factor_scores(parameters: Parameters, rows: Rows) -> list[FloatArray]:
    """Return the posterior means of the factors under every component, K arrays (n, p_k)."""
    scores = [np.empty((rows.n_rows, p)) for p in parameters.n_factors]

    def put(block: PosteriorBlock) -> None:
        for of_one, part in zip(scores, np.split(block.scores, parameters.offsets[1:-1]), strict=True):
            of_one[block.rows] = part.T

    rows.over_posterior(parameters, put, with_scores=True)
    return scores


def coordinates(parameters: Parameters, rows: Rows) -> FloatArray:
    """Return responsibilities, and factor scores times responsibilities, of every row, (n, K + P)."""
    Z = np.empty((rows.n_rows, parameters.n_components + len(parameters.loadings)))

    def put(block: PosteriorBlock) -> None:
        Z[block.rows] = reduced(block, parameters)

    rows.over_posterior(parameters, put, with_scores=True)
    return Z


def reduced(block: PosteriorBlock, parameters: Parameters) -> FloatArray:
    """Return the responsibilities r_k, followed by each component's factor scores times r_k, (n, K + P)."""
    spread = np.repeat(block.responsibilities, parameters.n_factors, axis=0)
    return np.concatenate([block.responsibilities, spread * block.scores]).T


def information_criterion(name: str, parameters: Parameters, rows: Rows, n_parameters: int) -> float:
    """Return "bic", "aic" or "icl" on the scale of -2 log-likelihood."""
    # Importing all of scipy.special would take a tenth of the time of `import amofa`.
    from scipy.special import entr

    criterion = INFORMATION_CRITERIA[name]
    if isinstance(rows, IncompleteRows):
        # Rows without cells are no observations, as in a fit, unless there are no others.
        rows = rows.with_cells() or rows

    def cost(block: PosteriorBlock) -> float:
        log_likelihood = _weighted_sum(block.log_density, block.row_weights)
        if not criterion.uses_entropy:
            return -log_likelihood
        entropies = entr(block.responsibilities).sum(axis=0)
        if block.share is not None:
            entropies = block.share * entropies + entr(block.share) + entr(1.0 - block.share)
        return _weighted_sum(entropies, block.row_weights) - log_likelihood

    costs = rows.over_posterior(parameters, cost)
    return 2 * (criterion.price(rows.total_weight) * n_parameters + sum(costs))


def _weighted_sum(values: FloatArray, weights: FloatArray | None) -> float:
    return float(values.sum() if weights is None else (values * weights).sum())
