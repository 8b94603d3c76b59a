"""Some columns given others: conditional mixtures, means, variances and draws.

Given the observed columns of a row, o, the factors of a component are N(z, C^-1), C = I + Lambda_o' Psi_o^-1 Lambda_o,
z the factor scores, and other columns, w, are N(mu_w + Lambda_w z, Lambda_w C^-1 Lambda_w' + Psi_w): again a factor
analyser, whose weight is the responsibility. If the component has a t distribution with nu degrees of freedom, so have
they, with nu + o degrees, the same centre, and (nu + m) / (nu + o) times this scale matrix, m the squared Mahalanobis
distance of the o observed columns.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import qr, solve_triangular

from amofa._background import Background
from amofa._data.row_chunks import PosteriorBlock
from amofa._model.missing_data import Columns, IncompleteRows, over_pattern, patterns
from amofa._model.posterior import reduced
from amofa._model.tails import Generator, stretches, variance_ratio
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray
from amofa.threads import use_threads

# The components keep a weight of which there is a logarithm.
_MOST_WEIGHT = 1.0 - np.finfo(np.float64).epsneg


@np.errstate(over="ignore", invalid="ignore")
def condition(parameters: Parameters, known: Columns, values: FloatArray) -> Parameters:
    """Return the mixture of the other columns, increasing, given some; see `MixtureOfFactorAnalyzers.condition`.

    `known` are o distinct columns, and `values` (o,) are finite, or NaN if unknown.
    """
    wanted = np.setdiff1d(np.arange(parameters.n_features), known)
    observed = ~np.isnan(values)
    of_known = parameters.of_columns(known)
    background = parameters.background
    if background is not None:
        of_known.background = background._replace(density=background.density.of_columns(known))
    (block,) = IncompleteRows(values[None]).over_posterior(of_known, lambda block: block, with_scores=True)
    given = parameters.of_columns(wanted)
    given.weights[:] = block.responsibilities[:, 0]
    given.degrees_of_freedom += observed.sum()
    for k, component in enumerate(parameters.components()):
        given.means[k] = _checked(_component_mean(parameters, block, wanted, k), "values")
        given.component_loadings(k)[:] = _given_loadings(component, known[observed], wanted)
        if block.spreads is not None:
            given.component_loadings(k)[:] *= np.sqrt(block.spreads[k])
            given.uniquenesses[k] = _checked(given.uniquenesses[k] * block.spreads[k], "values")
    if background is not None and block.share is not None and block.share[0] < 1.0:
        weight = min(1.0 - float(block.share[0]), _MOST_WEIGHT)
        given.background = Background(background.density.given(known, values, wanted), weight)
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
    """Return the means and variances, (n, q) each, of the columns `wanted` given others, row by row.

    `known` are o distinct columns, none of them wanted, and `values` (n, o) are finite, or NaN if unknown. The moments
    are exact under the mixture: sum_k r_k m_k and sum_k r_k (v_k + (m_k - mean)^2), with the responsibilities r_k and
    the means m_k and variances v_k of the components given the known values. Given t components have nu + o degrees of
    freedom: variances are infinite if these are at most 2, and means are centres if they are at most 1. The cost is
    O(sum_k o p_k) for each row, and O(sum_k (o + q) p_k^2) for each pattern of missing cells.

    Raises ValueError if a column is both known and wanted, or values are so large (from 1e290 or so) that means
    overflow. Variances may be infinite from 1e150 on.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa._parameters import Component, Parameters
    >>> standard = Component(1.0, np.zeros(2), np.array([[1.0, 1.0]]), np.ones(2))
    >>> parameters = Parameters.from_components([standard])
    >>> conditional_moments(parameters, np.array([0]), np.array([1]), np.array([[3.0]]))
    (array([[1.5]]), array([[1.5]]))
    """
    both = np.intersect1d(known, wanted)
    if len(both):
        raise ValueError(f"wanted has columns that are known: {', '.join(map(str, both))}; leave them out of one")
    means, variances = np.empty((2, len(values), len(wanted)))
    of_known = parameters.of_columns(known)
    coordinates = np.concatenate([parameters.means, parameters.loadings])[:, wanted]

    def put(own: FloatArray, ratios: FloatArray, block: PosteriorBlock) -> None:
        means[block.rows] = mean = _checked(reduced(block, parameters) @ coordinates, "values")
        between = _variance_between(parameters, block, wanted, mean)
        shares = block.responsibilities
        if block.spreads is not None:
            # Components without a share may be infinitely far away, or have no variance.
            shares = shares * np.where(shares > 0, block.spreads * ratios[:, None], 0.0)
        variances[block.rows] = shares.T @ own + between

    for rows, observed in patterns(values):
        own = np.array([_own_variances(c, known[observed], wanted) for c in parameters.components()])
        ratios = variance_ratio(parameters.degrees_of_freedom + observed.sum())
        over_pattern(of_known, values, rows, observed, partial(put, own, ratios))
    return means, variances


@np.errstate(over="ignore", invalid="ignore")
def fill(parameters: Parameters, table: FloatArray, rng: Generator | None = None) -> None:
    """Fill missing cells, NaN, in place with their conditional means given the observed cells of their rows.

    With `rng` all missing cells of a row are drawn from their joint distribution instead. Raises ValueError if values
    are so large that means overflow.
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
                over_pattern(parameters, table, rows, observed, partial(put, missing, np.flatnonzero(observed)))


def _component_mean(parameters: Parameters, block: PosteriorBlock, wanted: Columns, k: int) -> FloatArray:
    """Return mu_k + Lambda_k z_k of the wanted columns, (n, q)."""
    factors = slice(*parameters.offsets[k : k + 2])
    mean: FloatArray = block.scores[factors].T @ parameters.loadings[factors][:, wanted]
    mean += parameters.means[k, wanted]
    return mean


def _own_variances(component: Component, observed: Columns, wanted: Columns) -> FloatArray:
    """Return the variances of wanted columns within a component given observed ones, (q,), but for its tails."""
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
        deviation = shared + noise
        if block.spreads is not None and component.degrees_of_freedom < np.inf:
            stretch = stretches(rng, component.degrees_of_freedom + len(observed), len(rows))
            deviation *= stretch * np.sqrt(block.spreads[k, rows])[:, None]
        drawn[rows] = _component_mean(parameters, block, wanted, k)[rows] + deviation
    return drawn
