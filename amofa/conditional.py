"""Some columns given others: rows with missing cells, their conditional means, variances and draws.

Without some of its columns a factor analyser is one still: their rows of the loadings go. So what is to be said of a
row with missing cells, NaN, is what the kernels say under the mixture of its observed columns, o. Given these, the
factors of a component are N(z, C^-1), C = I + Lambda_o' Psi_o^-1 Lambda_o, z the factor scores, and other columns, w,
are N(mu_w + Lambda_w z, Lambda_w C^-1 Lambda_w' + Psi_w): a factor analyser again, whose weight is the responsibility.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from amofa.parameters import Evaluator, FloatArray, Parameters
from amofa.samples import PosteriorBlock, Samples

Columns = NDArray[np.intp]
Rows = NDArray[np.intp]
Generator = np.random.Generator | np.random.RandomState

# Rows are looked through for missing cells in batches of about this many cells, of at most so many rows: a pattern is
# prepared once in each, and what is held of a batch is as large as a chunk of rows in `Samples`.
_BATCH_CELLS, _BATCH_ROWS = 1 << 20, 1 << 16


# ---- rows by the pattern of their missing cells ----------------------------------------------------------------------


def patterns(table: NDArray[Any], rows: Rows | None = None) -> Iterator[tuple[Rows, Columns]]:
    """Rows of a table that have the same cells missing.

    Parameters
    ----------
    table : (n, d) ndarray of floats
        Missing cells are NaN.
    rows : (m,) intp, optional
        The rows that count; all where not given.

    Yields
    ------
    positions : (s,) intp
        Some rows, by their positions among those that count, rising. Each comes once.
    observed : (o,) intp
        The columns in which all these have values, rising.
    """
    d = table.shape[1]
    n = len(table) if rows is None else len(rows)
    step = min(_BATCH_ROWS, max(1, _BATCH_CELLS // max(1, d)))
    for start in range(0, n, step):
        positions = np.arange(start, min(start + step, n))
        missing = np.isnan(table[start : start + step] if rows is None else table[rows[positions]])
        incomplete = missing.any(axis=1)
        if not incomplete.all():
            yield positions[~incomplete], np.arange(d)
        yield from _alike(positions[incomplete], missing[incomplete])


def _alike(positions: Rows, missing: NDArray[np.bool_]) -> Iterator[tuple[Rows, Columns]]:
    """Groups of rows with equal rows of `missing` (n, d)."""
    packed = np.packbits(missing, axis=1)
    order = np.lexsort(packed.T) if len(packed) else np.arange(0)
    changes = (packed[order[1:]] != packed[order[:-1]]).any(axis=1)
    for group in np.split(order, np.flatnonzero(changes) + 1):
        if len(group):
            yield positions[group], np.flatnonzero(~missing[group[0]])


class IncompleteSamples:
    """Rows of a table some of whose cells are missing, NaN, for `posterior` as `Samples` has it.

    Parameters
    ----------
    table : (n, d) ndarray of floats
        Finite but for NaN.
    weights : (n,) float64, optional
        Row weights; 1 where not given.
    rows : (m,) intp, optional
        The rows that count; all where not given.

    Attributes
    ----------
    n_rows : int
    total_weight : float
        Sum of the row weights.
    """

    def __init__(self, table: NDArray[Any], *, weights: FloatArray | None = None, rows: Rows | None = None) -> None:
        self._table, self._weights, self._rows = table, weights, rows
        everything = Samples(table, weights=weights, rows=rows)
        self.n_rows, self.total_weight = everything.n_rows, everything.total_weight

    def posterior(self, mixture: Evaluator, *, with_scores: bool = False) -> Iterator[PosteriorBlock]:
        """Log densities of what is observed, responsibilities and, if asked for, factor scores given it.

        Rows come ordered by what they miss: `PosteriorBlock.rows` are their positions. One of which nothing is observed
        has log density 0, the mixing weights, and scores 0.
        """
        for positions, observed in patterns(self._table, self._rows):
            rows = positions if self._rows is None else self._rows[positions]
            for block in _posterior(mixture.parameters, self._table, rows, observed, self._weights, with_scores):
                yield block._replace(rows=positions[block.rows])


def _posterior(
    parameters: Parameters,
    table: NDArray[Any],
    rows: Rows,
    observed: Columns,
    weights: FloatArray | None = None,
    with_scores: bool = True,
) -> Iterator[PosteriorBlock]:
    """What the mixture says of some rows of a table by some of its columns."""
    if len(observed) == 0:
        yield _prior(parameters, len(rows), None if weights is None else weights[rows])
    elif len(observed) == parameters.n_features:
        yield from Samples(table, weights=weights, rows=rows).posterior(Evaluator(parameters), with_scores=with_scores)
    else:
        samples = Samples(table, weights=weights, rows=rows, columns=observed)
        yield from samples.posterior(Evaluator(marginal(parameters, observed)), with_scores=with_scores)


def _prior(parameters: Parameters, n: int, row_weights: FloatArray | None) -> PosteriorBlock:
    """What the mixture says of n rows of which nothing is known."""
    responsibilities = np.repeat(parameters.weights[:, None], n, axis=1)
    scores = np.zeros((len(parameters.loadings), n))
    return PosteriorBlock(slice(0, n), row_weights, np.zeros(n), responsibilities, scores)


# ---- mixtures of some columns ----------------------------------------------------------------------------------------


def marginal(parameters: Parameters, columns: Columns) -> Parameters:
    """The mixture of some columns, in the order given."""
    kept = Parameters(len(columns), parameters.n_factors)
    kept.weights[:] = parameters.weights
    kept.means[:] = parameters.means[:, columns]
    kept.uniquenesses[:] = parameters.uniquenesses[:, columns]
    kept.loadings[:] = parameters.loadings[:, columns]
    return kept


def condition(parameters: Parameters, known: Columns, values: FloatArray) -> Parameters:
    """The mixture of the other columns given some.

    Parameters
    ----------
    parameters : Parameters
        Of d columns.
    known : (o,) intp
        Columns, each once.
    values : (o,) float64
        Finite, or NaN where nothing is known after all.

    Returns
    -------
    Parameters
        Of the d - o other columns, rising; as many components with as many factors.
    """
    wanted = np.setdiff1d(np.arange(parameters.n_features), known)
    row = values[None]
    observed = np.flatnonzero(~np.isnan(values))
    (block,) = _posterior(marginal(parameters, known), row, np.arange(1), observed)
    given = _given_scores(parameters, known[observed], wanted)
    given.weights[:] = block.responsibilities[:, 0]
    for k in range(given.n_components):
        factors = slice(*parameters.offsets[k : k + 2])
        given.means[k] += block.scores[factors, 0] @ parameters.loadings[factors][:, wanted]
    return given


def _given_scores(parameters: Parameters, observed: Columns, wanted: Columns) -> Parameters:
    """The mixture of wanted columns where observed ones are such that all factor scores are 0, prior weights kept.

    Other observed values change weights and means alone. With C = R'R the loadings are Lambda_w R^-1; R is that of a QR
    decomposition of [I; Psi_o^-1/2 Lambda_o], since C itself would lose half of the digits of small eigenvalues.
    """
    given = marginal(parameters, wanted)
    for k, component in enumerate(parameters.components()):
        p = len(component.loadings)
        if p:
            scaled = component.loadings[:, observed] / np.sqrt(component.uniquenesses[observed])
            root = np.linalg.qr(np.concatenate([np.eye(p), scaled.T]), mode="r")
            given.component_loadings(k)[:] = solve_triangular(root, component.loadings[:, wanted], trans="T")
    return given


# ---- moments and draws of wanted columns -----------------------------------------------------------------------------


def conditional_moments(
    parameters: Parameters, known: Columns, wanted: Columns, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances of some columns given others, row by row.

    Parameters
    ----------
    parameters : Parameters
        Of d columns.
    known : (o,) intp
        Columns, each once.
    wanted : (q,) intp
        Columns that are not known.
    values : (n, o) float64
        Values of the known columns; finite, or NaN where nothing is known.

    Returns
    -------
    means, variances : (n, q) float64
        Exact under the mixture: of the component means, r_k, m_k, and variances, v_k, given the known values,
        sum_k r_k m_k and sum_k r_k (v_k + (m_k - mean)^2).

    Raises
    ------
    ValueError
        If a column is both known and wanted.

    Notes
    -----
    Cost O(sum_k o p_k) for each row, and O(sum_k (o + q) p_k^2) for each pattern of missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa.parameters import Component, Parameters
    >>> standard = Component(1.0, np.zeros(2), np.array([[1.0, 1.0]]), np.ones(2))
    >>> parameters = Parameters.from_components([standard])
    >>> values = np.array([[3.0], [np.nan]])
    >>> conditional_moments(parameters, np.array([0]), np.array([1]), values)
    (array([[1.5],
           [0. ]]), array([[1.5],
           [2. ]]))
    """
    both = np.intersect1d(known, wanted)
    if len(both):
        raise ValueError(f"wanted has columns that are known: {', '.join(map(str, both))}; leave them out of one")
    means, variances = np.empty((2, len(values), len(wanted)))
    of_known = marginal(parameters, known)
    for rows, observed in patterns(values):
        given = _given_scores(parameters, known[observed], wanted)
        own = given.uniquenesses + [(loadings**2).sum(axis=0) for _, _, loadings, _ in given.components()]
        for block in _posterior(of_known, values, rows, observed):
            of_block = rows[block.rows]
            means[of_block] = mean = _mean(parameters, block, wanted)
            variances[of_block] = block.responsibilities.T @ own + _variance_between(parameters, block, wanted, mean)
    return means, variances


def fill(parameters: Parameters, table: FloatArray, rng: Generator | None = None) -> None:
    """Put conditional means of missing cells given the observed ones of their rows into them, or draws.

    Parameters
    ----------
    parameters : Parameters
        Of d columns.
    table : (n, d) float64
        Finite, or NaN where cells are missing; changed.
    rng : Generator or RandomState, optional
        To draw all missing cells of a row from their joint distribution.
    """
    for rows, observed in patterns(table):
        missing = np.setdiff1d(np.arange(table.shape[1]), observed)
        if not len(missing):
            continue
        given = None if rng is None else _given_scores(parameters, observed, missing)
        for block in _posterior(parameters, table, rows, observed):
            if rng is None or given is None:
                cells = _mean(parameters, block, missing)
            else:
                cells = _draw(parameters, block, missing, given, rng)
            table[np.ix_(rows[block.rows], missing)] = cells


def reduced(block: PosteriorBlock, parameters: Parameters) -> FloatArray:
    """Responsibilities r_k, then each component's factor scores times r_k, (n, K + P)."""
    spread = np.repeat(block.responsibilities, parameters.n_factors, axis=0)
    return np.concatenate([block.responsibilities, spread * block.scores]).T


def _mean(parameters: Parameters, block: PosteriorBlock, wanted: Columns) -> FloatArray:
    """Sum_k r_k (mu_k + Lambda_k z_k) of the wanted columns, (n, q)."""
    coordinates = np.concatenate([parameters.means[:, wanted], parameters.loadings[:, wanted]])
    mean: FloatArray = reduced(block, parameters) @ coordinates
    return mean


def _component_mean(parameters: Parameters, block: PosteriorBlock, wanted: Columns, k: int) -> FloatArray:
    """mu_k + Lambda_k z_k of the wanted columns, (n, q)."""
    factors = slice(*parameters.offsets[k : k + 2])
    mean: FloatArray = block.scores[factors].T @ parameters.loadings[factors][:, wanted]
    mean += parameters.means[k, wanted]
    return mean


def _variance_between(parameters: Parameters, block: PosteriorBlock, wanted: Columns, mean: FloatArray) -> FloatArray:
    """Variance of the components' means about their mean, (n, q)."""
    variance = np.zeros(mean.shape)
    for k, responsibility in enumerate(block.responsibilities):
        deviation = _component_mean(parameters, block, wanted, k) - mean
        variance += responsibility[:, None] * deviation**2
    return variance


def _draw(
    parameters: Parameters, block: PosteriorBlock, wanted: Columns, given: Parameters, rng: Generator
) -> FloatArray:
    """Wanted columns drawn, (n, q): a component by its responsibility, and a row of it."""
    n = len(block.log_density)
    cumulated = np.cumsum(block.responsibilities, axis=0)
    # Divided by their own last entries, so that every number below 1 finds a component, whatever the rounding.
    labels = (cumulated / cumulated[-1] <= rng.random(n)).sum(axis=0)
    drawn = rng.standard_normal((n, len(wanted)))
    for k, component in enumerate(given.components()):
        rows = np.flatnonzero(labels == k)
        noise = np.sqrt(component.uniquenesses) * drawn[rows]
        shared = rng.standard_normal((len(rows), len(component.loadings))) @ component.loadings
        drawn[rows] = _component_mean(parameters, block, wanted, k)[rows] + shared + noise
    return drawn
