"""Rows with missing cells, and some columns given others: conditional means, variances and draws.

A factor analyser without some of its columns is again one, without their rows of the loadings. So for a row with
missing cells, NaN, the kernels are called with the mixture of its observed columns, o. Given these, the
factors of a component are N(z, C^-1), C = I + Lambda_o' Psi_o^-1 Lambda_o, z the factor scores, and other columns, w,
are N(mu_w + Lambda_w z, Lambda_w C^-1 Lambda_w' + Psi_w): again a factor analyser, whose weight is the responsibility.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from amofa._data.row_chunks import PosteriorBlock, Samples
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray
from amofa.threads import use_threads

Columns = NDArray[np.intp]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
Result = TypeVar("Result")
Generator = np.random.Generator | np.random.RandomState

# Rows are searched for missing cells in batches of about this number of cells, and at most this number of rows. A
# pattern is prepared once in each batch, and a batch takes as much memory as a chunk of rows in `Samples`.
_BATCH_CELLS, _BATCH_ROWS = 1 << 20, 1 << 16


# ---- rows by the pattern of their missing cells ----------------------------------------------------------------------


def patterns(table: NDArray[Any], rows: Rows | None = None) -> Iterator[tuple[Rows, Mask]]:
    """Yield groups of rows of a table that have the same cells missing.

    Parameters
    ----------
    table : (n, d) ndarray of floats
        Missing cells are NaN.
    rows : (m,) intp, optional
        The rows that count; by default all.

    Yields
    ------
    positions : (s,) intp
        Rows by their positions among those that count, increasing. Each occurs once.
    observed : (d,) bool
        The columns in which all these rows have values.
    """
    d = table.shape[1]
    n = len(table) if rows is None else len(rows)
    step = min(_BATCH_ROWS, max(1, _BATCH_CELLS // max(1, d)))
    for start in range(0, n, step):
        positions = np.arange(start, min(start + step, n))
        missing = np.isnan(table[start : start + step] if rows is None else table[rows[positions]])
        incomplete = missing.any(axis=1)
        if not incomplete.all():
            yield positions[~incomplete], np.ones(d, dtype=np.bool_)
        yield from _alike(positions[incomplete], missing[incomplete])


def _alike(positions: Rows, missing: Mask) -> Iterator[tuple[Rows, Mask]]:
    """Yield groups of rows with equal rows of `missing` (n, d)."""
    packed = np.packbits(missing, axis=1)
    order = np.lexsort(packed.T) if len(packed) else np.arange(0)
    changes = (packed[order[1:]] != packed[order[:-1]]).any(axis=1)
    for group in np.split(order, np.flatnonzero(changes) + 1):
        if len(group):
            yield positions[group], ~missing[group[0]]


class IncompleteSamples:
    """Rows of a table with missing cells, NaN, with the passes of `Samples`.

    Parameters
    ----------
    table : (n, d) ndarray of floats
        Finite except for NaN.
    weights : (n,) float64, optional
        Row weights; by default 1.
    rows : (m,) intp, optional
        The rows that count; by default all.

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

    def over_posterior(
        self, parameters: Parameters, function: Callable[[PosteriorBlock], Result], *, with_scores: bool = False
    ) -> list[Result]:
        """Yield the results of a function for each block of rows; log densities are those of the observed cells.

        Blocks are ordered by pattern of missing cells; `PosteriorBlock.rows` has positions. A row without observed
        cells has log density 0, the mixing weights as responsibilities, and scores 0.
        """
        results = []
        for positions, observed in patterns(self._table, self._rows):
            rows = positions if self._rows is None else self._rows[positions]
            results += _over_posterior(
                parameters, self._table, rows, observed, function, self._weights, with_scores, positions
            )
        return results

    def labels(self, parameters: Parameters) -> NDArray[np.intp]:
        """Return the component with the largest responsibility for every row, (n,) intp."""
        labels = np.empty(self.n_rows, dtype=np.intp)

        def put(block: PosteriorBlock) -> None:
            labels[block.rows] = block.responsibilities.argmax(axis=0)

        self.over_posterior(parameters, put)
        return labels


def _over_posterior(
    parameters: Parameters,
    table: NDArray[Any],
    rows: Rows,
    observed: Mask,
    function: Callable[[PosteriorBlock], Result],
    weights: FloatArray | None = None,
    with_scores: bool = True,
    positions: Rows | None = None,
) -> list[Result]:
    """Yield the results of a function for blocks of some rows of a table, by some of its columns.

    In the blocks, rows have their positions in the table, or other ones.
    """
    positions = rows if positions is None else positions
    columns = np.flatnonzero(observed)
    if len(columns) == 0:
        prior = _prior(parameters, len(rows), None if weights is None else weights[rows])
        return [function(prior._replace(rows=positions))]
    if len(columns) == parameters.n_features:
        samples = Samples(table, weights=weights, rows=rows)
    else:
        samples = Samples(table, weights=weights, rows=rows, columns=columns)
        parameters = marginal(parameters, columns)
    narrow, turns = _with_fewest_factors(parameters)

    def place(block: PosteriorBlock) -> Result:
        is_turned = with_scores and narrow is not parameters
        scores = _turned(block.scores, narrow.offsets, turns) if is_turned else block.scores
        return function(block._replace(rows=positions[block.rows], scores=scores))

    return samples.over_posterior(narrow, place, with_scores=with_scores)


def _prior(parameters: Parameters, n: int, row_weights: FloatArray | None) -> PosteriorBlock:
    """Return the posterior of n rows without observed cells."""
    responsibilities = np.repeat(parameters.weights[:, None], n, axis=1)
    scores = np.zeros((len(parameters.loadings), n))
    return PosteriorBlock(slice(0, n), row_weights, np.zeros(n), responsibilities, scores)


# ---- mixtures of some columns ----------------------------------------------------------------------------------------


def marginal(parameters: Parameters, columns: Columns) -> Parameters:
    """Return the mixture of some columns, in the given order."""
    kept = Parameters(len(columns), parameters.n_factors)
    kept.weights[:] = parameters.weights
    for name in ("means", "uniquenesses", "loadings"):
        np.take(getattr(parameters, name), columns, axis=1, out=getattr(kept, name))
    return kept


def _with_fewest_factors(parameters: Parameters) -> tuple[Parameters, list[FloatArray | None]]:
    """Return the same mixture with no more factors than columns, and the maps to the original factor scores.

    With fewer columns than factors, o < p, the columns do not determine some directions of the factors. C then has
    eigenvalues of 1 besides those of the columns, which may be 1e12, and would lose the digits of the former. So
    Psi^-1/2 Lambda = R'Q' by a QR decomposition, Q (p, o) with orthonormal columns: loadings Psi^1/2 R' are equivalent,
    and if z are their factor scores, Q z are the original ones.

    Returns
    -------
    narrow : Parameters
        `parameters` itself if no component has more factors than columns.
    turns : list of (p_k, o) float64 or None
        Q of each component; None if its number of factors is the same.
    """
    o = parameters.n_features
    narrow = Parameters(o, [min(p, o) for p in parameters.n_factors])
    turns: list[FloatArray | None] = [None] * parameters.n_components
    if narrow.n_factors == parameters.n_factors:
        return parameters, turns
    for name in ("weights", "means", "uniquenesses"):
        getattr(narrow, name)[:] = getattr(parameters, name)
    for k, component in enumerate(parameters.components()):
        if len(component.loadings) > o:
            scale = np.sqrt(component.uniquenesses)
            # The most informative columns come first, otherwise they would drown the others in rounding.
            turns[k], root, order = qr(component.loadings / scale, mode="economic", pivoting=True)
            narrow.component_loadings(k)[:, order] = root * scale[order]
        else:
            narrow.component_loadings(k)[:] = component.loadings
    return narrow, turns


def _turned(scores: FloatArray, offsets: Columns, turns: list[FloatArray | None]) -> FloatArray:
    """Return factor scores (P, n) from those of the smallest number of factors, which start at offsets."""
    parts = zip(np.split(scores, offsets[1:-1]), turns, strict=True)
    return np.concatenate([part if turn is None else turn @ part for part, turn in parts])


@np.errstate(over="ignore", invalid="ignore")
def condition(parameters: Parameters, known: Columns, values: FloatArray) -> Parameters:
    """Return the mixture of the other columns given some; see `MixtureOfFactorAnalyzers.condition`.

    Parameters
    ----------
    parameters : Parameters
        Of d columns.
    known : (o,) intp
        Distinct columns.
    values : (o,) float64
        Finite, or NaN for a value that is unknown.

    Returns
    -------
    Parameters
        The mixture of the d - o other columns, increasing, with the same numbers of components and factors.
    """
    wanted = np.setdiff1d(np.arange(parameters.n_features), known)
    observed = ~np.isnan(values)
    (block,) = _over_posterior(marginal(parameters, known), values[None], np.arange(1), observed, lambda block: block)
    given = marginal(parameters, wanted)
    given.weights[:] = block.responsibilities[:, 0]
    for k, component in enumerate(parameters.components()):
        given.means[k] = _checked(_component_mean(parameters, block, wanted, k), "values")
        given.component_loadings(k)[:] = _given_loadings(component, known[observed], wanted)
    return given


def _given_loadings(component: Component, observed: Columns, wanted: Columns) -> FloatArray:
    """Return the loadings of wanted columns given observed ones, Lambda_w R^-1 with R'R = C, (p, q).

    R comes from a QR decomposition of [Psi_o^-1/2 Lambda_o; I], since the sum C itself would lose half of the digits of
    its small eigenvalues. Long rows come first, with pivoting, so that short rows keep their digits, too (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., section 19.4).
    """
    loadings = component.loadings[:, wanted]
    p = len(loadings)
    if p == 0:
        return loadings
    scaled = component.loadings[:, observed] / np.sqrt(component.uniquenesses[observed])
    rows = np.concatenate([scaled.T, np.eye(p)])
    longest_first = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
    root, order = qr(rows[longest_first], mode="r", pivoting=True)
    given: FloatArray = solve_triangular(root[:p], loadings[order], trans="T")
    return given


# ---- moments and draws of wanted columns -----------------------------------------------------------------------------


@np.errstate(over="ignore", invalid="ignore")
def conditional_moments(
    parameters: Parameters, known: Columns, wanted: Columns, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the means and variances of some columns given others, row by row.

    Parameters
    ----------
    parameters : Parameters
        Of d columns.
    known : (o,) intp
        Distinct columns.
    wanted : (q,) intp
        Columns that are not known.
    values : (n, o) float64
        Values of the known columns; finite, or NaN if unknown.

    Returns
    -------
    means, variances : (n, q) float64
        Exact under the mixture: sum_k r_k m_k and sum_k r_k (v_k + (m_k - mean)^2), with the responsibilities r_k and
        the means m_k and variances v_k of the components given the known values.

    Raises
    ------
    ValueError
        If a column is both known and wanted, or values are so large (from 1e290 or so) that means overflow. Variances
        may be infinite from 1e150 on.

    Notes
    -----
    The cost is O(sum_k o p_k) for each row, and O(sum_k (o + q) p_k^2) for each pattern of missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa._parameters import Component, Parameters
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
    coordinates = np.concatenate([parameters.means, parameters.loadings])[:, wanted]

    def put(own: FloatArray, block: PosteriorBlock) -> None:
        means[block.rows] = mean = _checked(reduced(block, parameters) @ coordinates, "values")
        between = _variance_between(parameters, block, wanted, mean)
        variances[block.rows] = block.responsibilities.T @ own + between

    for rows, observed in patterns(values):
        own = np.array([_own_variances(c, known[observed], wanted) for c in parameters.components()])
        _over_posterior(of_known, values, rows, observed, partial(put, own))
    return means, variances


@np.errstate(over="ignore", invalid="ignore")
def fill(parameters: Parameters, table: FloatArray, rng: Generator | None = None) -> None:
    """Fill missing cells with their conditional means given the observed cells of their rows, or with draws.

    Parameters
    ----------
    parameters : Parameters
        Of d columns.
    table : (n, d) float64
        Finite, or NaN for missing cells; changed in place.
    rng : Generator or RandomState, optional
        To draw all missing cells of a row from their joint distribution.

    Raises
    ------
    ValueError
        If values are so large that means overflow.
    """
    coordinates = np.concatenate([parameters.means, parameters.loadings])

    def put(missing: Columns, observed: Columns, block: PosteriorBlock) -> None:
        if rng is None:
            cells = reduced(block, parameters) @ coordinates[:, missing]
        else:
            cells = _draw(parameters, block, observed, missing, rng)
        table[np.asarray(block.rows)[:, None], missing] = _checked(cells, "X")

    # Draws are made one after the other, in the order of rows.
    with use_threads(None if rng is None else 1):
        for rows, observed in patterns(table):
            missing = np.flatnonzero(~observed)
            if len(missing):
                _over_posterior(parameters, table, rows, observed, partial(put, missing, np.flatnonzero(observed)))


def reduced(block: PosteriorBlock, parameters: Parameters) -> FloatArray:
    """Return the responsibilities r_k, followed by each component's factor scores times r_k, (n, K + P)."""
    spread = np.repeat(block.responsibilities, parameters.n_factors, axis=0)
    return np.concatenate([block.responsibilities, spread * block.scores]).T


def _component_mean(parameters: Parameters, block: PosteriorBlock, wanted: Columns, k: int) -> FloatArray:
    """Return mu_k + Lambda_k z_k of the wanted columns, (n, q)."""
    factors = slice(*parameters.offsets[k : k + 2])
    mean: FloatArray = block.scores[factors].T @ parameters.loadings[factors][:, wanted]
    mean += parameters.means[k, wanted]
    return mean


def _own_variances(component: Component, observed: Columns, wanted: Columns) -> FloatArray:
    """Return the variances of wanted columns within a component given observed ones, (q,)."""
    variances: FloatArray = (_given_loadings(component, observed, wanted) ** 2).sum(axis=0)
    variances += component.uniquenesses[wanted]
    return variances


def _variance_between(parameters: Parameters, block: PosteriorBlock, wanted: Columns, mean: FloatArray) -> FloatArray:
    """Return the variance of the components' means about their mean, (n, q)."""
    variance = np.zeros(mean.shape)
    for k, responsibility in enumerate(block.responsibilities):
        deviation = _component_mean(parameters, block, wanted, k) - mean
        # Multiply by the root first: the square may be infinite for a component that is far away and has no weight.
        variance += (np.sqrt(responsibility)[:, None] * deviation) ** 2
    return variance


def _checked(means: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(means).all():
        raise ValueError(f"{name} has values so large that means given them are not finite; rescale columns")
    return means


def _draw(
    parameters: Parameters, block: PosteriorBlock, observed: Columns, wanted: Columns, rng: Generator
) -> FloatArray:
    """Draw the wanted columns, (n, q): a component by its responsibility, then a row of it."""
    n = len(block.log_density)
    cumulated = np.cumsum(block.responsibilities, axis=0)
    # Divide by their own last entries, so that every number below 1 finds a component, whatever the rounding.
    labels = (cumulated / cumulated[-1] <= rng.random(n)).sum(axis=0)
    drawn = rng.standard_normal((n, len(wanted)))
    for k in np.unique(labels):
        component = parameters.component(k)
        rows = np.flatnonzero(labels == k)
        noise = np.sqrt(component.uniquenesses[wanted]) * drawn[rows]
        factors = rng.standard_normal((len(rows), len(component.loadings)))
        shared = factors @ _given_loadings(component, observed, wanted)
        drawn[rows] = _component_mean(parameters, block, wanted, k)[rows] + shared + noise
    return drawn
