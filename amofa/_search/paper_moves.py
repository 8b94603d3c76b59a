"""Moves that change a mixture: the first model, a split, one more factor, components merged or removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from amofa._data.row_chunks import Moments, Samples
from amofa._data.row_source import RowSource
from amofa._em.factor_analysis import principal_axes
from amofa._em.gram import Panel, means_and_panels
from amofa._em.outcome import Outcome
from amofa._em.standard import Settings, standard_em
from amofa._noise import Noise
from amofa._parameters import Component, Parameters
from amofa._search.constraints import LEAST_SHARE_OF_A_ROW
from amofa._typing import FloatArray

# Eigenvectors whose relative signs are tried when a component is split: 2^(3 - 1) starts.
_SIGNED_AXES = 3
# The local fit of a split only provides a start for EM on all rows, which converges anyway: on fresh draws of both
# examples of the paper, 30 iterations gave as many right answers as 100.
_LOCAL_ITERATIONS = 30
# Number of columns of a covariance matrix that are compared at a time.
_STRIP = 256
# Means that are closer than this in every column, in standard deviations of its noise, are the same. When EM stops at
# its tolerance, components that approach each other are about 0.01 apart; no 10^8 rows would distinguish such groups.
_SAME_PLACE = 0.05

# Second moments about a mean: a covariance matrix, or the rows themselves if they are fewer than the columns.
Shape = FloatArray | Panel


@dataclass(frozen=True)
class Shapes:
    """Means of the rows of every component, and second moments about them."""

    means: FloatArray  # (K, d)
    covariances: Sequence[Shape]


def shapes(samples: Samples, parameters: Parameters) -> Shapes:
    """Return the moments of all components under their responsibilities; for wide tables without (d, d) arrays."""
    if samples.n_rows < samples.n_features:
        return Shapes(*means_and_panels(samples, samples.responsibilities(parameters)))
    moments = samples.moments(parameters)
    return Shapes(moments.means, list(moments.covariances))


def variances(shape: Shape) -> FloatArray:
    """Return the diagonal, (d,)."""
    return shape.variances if isinstance(shape, Panel) else np.diagonal(shape)


def _axes(shape: Shape) -> tuple[FloatArray, FloatArray]:
    return shape.axes() if isinstance(shape, Panel) else principal_axes(shape)


def first_mixture(samples: Samples, n_factors: int, floor: FloatArray) -> Parameters:
    """Make one component: mean, leading principal axes as loadings, variances of the columns as uniquenesses."""
    plain = Component(1.0, np.zeros(samples.n_features), np.zeros((0, samples.n_features)), np.ones(samples.n_features))
    moments = shapes(samples, Parameters.from_components([plain]))
    values, vectors = _axes(moments.covariances[0])
    # Factors beyond the number of columns have no axis to start from, and stay empty.
    loadings = np.zeros((n_factors, samples.n_features))
    loadings[: len(vectors)] = np.sqrt(values[:n_factors, None]) * vectors[:n_factors]
    uniquenesses = np.maximum(variances(moments.covariances[0]), floor)
    return Parameters.from_components([Component(1.0, moments.means[0], loadings, uniquenesses)])


# ---- split -----------------------------------------------------------------------------------------------------------


def split_component(
    local: Samples, parameters: Parameters, k: int, covariance: Shape, settings: Settings
) -> Outcome | None:
    """Replace component k, with second moments `covariance` and rows `local` assigned to it, by two of a local fit.

    Returns the mixture with the children (the heavier one in the place of the parent, the other at the end), before EM
    on all rows; its costs and iterations are those of the local fit. None if no local fit keeps two components.
    """
    short = replace(settings, max_iter=min(settings.max_iter, _LOCAL_ITERATIONS))
    fits = [standard_em(local, start, short) for start in _split_starts(local, parameters.component(k), covariance)]
    kept = [fit for fit in fits if fit.parameters.n_components == 2]
    if not kept:
        return None
    best = min(kept, key=lambda fit: fit.cost)
    weight = parameters.weights[k]
    # The heavier child first, whichever side of the parent it started on: signs of eigenvectors are arbitrary.
    ordered = sorted(best.parameters.components(), key=lambda c: (-c.weight, c.mean.tolist()))
    first, second = (c._replace(weight=c.weight * weight) for c in ordered)
    others = parameters.components()
    children = Parameters.from_components([*others[:k], first, *others[k + 1 :], second])
    return Outcome(children, best.log_likelihood, best.cost, sum(fit.n_iter for fit in fits), best.converged)


def _split_starts(local: Samples, parent: Component, covariance: Shape) -> Iterator[Parameters]:
    """Yield two children at mu +- sum_j s_j sqrt(lambda_j) v_j, for the relative signs s of the leading axes.

    The paper has the sum of all eigenvectors; the sign of each is arbitrary, but the result of the split depends on it.
    """
    values, vectors = _axes(covariance)
    axes = np.sqrt(values)[:, None] * vectors
    free = min(_SIGNED_AXES, len(axes))
    if len(axes) > free:
        axes = _toward_heavier_tail(local, parent.mean, axes)
    rest = axes[free:].sum(axis=0)
    for signs in product((1.0, -1.0), repeat=free - 1):
        step = rest + axes[0] + np.asarray(signs) @ axes[1:free]
        yield Parameters.from_components(
            [parent._replace(weight=0.5, mean=parent.mean + step), parent._replace(weight=0.5, mean=parent.mean - step)]
        )


def _toward_heavier_tail(local: Samples, mean: FloatArray, axes: FloatArray) -> FloatArray:
    """Set the signs of axes so that the third moment of the rows along each is not negative."""
    third = np.zeros(len(axes))
    for x, w in local.chunks():
        cubes = (axes @ (x - mean[:, None])) ** 3
        third += cubes.sum(axis=1) if w is None else cubes @ w
    return np.where(third < 0, -1.0, 1.0)[:, None] * axes


# ---- ties ----------------------------------------------------------------------------------------------------------


def with_tied_noise(parameters: Parameters, noise: Noise) -> Parameters:
    """Return the same mixture with its uniquenesses tied."""
    tied = noise.tied(parameters.uniquenesses, parameters.weights)
    if tied is parameters.uniquenesses:
        return parameters
    return Parameters.from_components(
        [c._replace(uniquenesses=row) for c, row in zip(parameters.components(), tied, strict=True)],
        parameters.background,
    )


# ---- merge -----------------------------------------------------------------------------------------------------------


def merge_coincident(parameters: Parameters) -> Parameters:
    """Merge components that are the same within rounding; return the mixture itself if all differ."""
    kept: list[Component] = []
    for component in parameters.components():
        twin = next((i for i, other in enumerate(kept) if _coincide(component, other)), None)
        if twin is None:
            kept.append(component)
        else:
            kept[twin] = kept[twin]._replace(weight=kept[twin].weight + component.weight)
    if len(kept) == parameters.n_components:
        return parameters
    return Parameters.from_components(kept, parameters.background)


def without_idle(parameters: Parameters, samples: RowSource) -> Parameters:
    """Remove components with hardly a row, and merge those that coincide; return the mixture itself if there are none.

    The heaviest component stays.
    """
    share = LEAST_SHARE_OF_A_ROW / samples.row_count
    least = min(share, float(parameters.weights.max()))
    kept = [c for c in parameters.components() if c.weight >= least]
    if len(kept) < parameters.n_components:
        parameters = Parameters.from_components(kept, parameters.background)
    return merge_coincident(parameters)


def _coincide(a: Component, b: Component) -> bool:
    """Return whether mean and covariance are the same, far closer than the noise allows to distinguish groups."""
    noise = np.sqrt(np.minimum(a.uniquenesses, b.uniquenesses))
    if not (np.abs(a.mean - b.mean) <= 1e-6 + _SAME_PLACE * noise).all():
        return False
    # A strip at a time: for wide tables, the whole matrix would not fit.
    for start in range(0, len(a.mean), _STRIP):
        first, second = (_covariance_strip(c, slice(start, start + _STRIP)) for c in (a, b))
        if not np.allclose(first, second, rtol=1e-3, atol=1e-6):
            return False
    return True


def _covariance_strip(component: Component, columns: slice) -> FloatArray:
    strip: FloatArray = component.loadings[:, columns].T @ component.loadings
    rows = np.arange(len(strip))
    strip[rows, columns.start + rows] += component.uniquenesses[columns]
    return strip


# ---- factor ----------------------------------------------------------------------------------------------------------


def covariance_misfit(parameters: Parameters, moments: Moments | Shapes) -> FloatArray:
    """Return the sum of squared off-diagonal differences between modelled and sample covariance, (K,)."""
    return np.array(
        [_misfit(parameters.component_loadings(k), moments.covariances[k]) for k in range(parameters.n_components)]
    )


def _misfit(loadings: FloatArray, shape: Shape) -> float:
    if isinstance(shape, Panel):
        # |L'L - A'A|^2 = |LL'|^2 - 2 |LA'|^2 + |AA'|^2, and the diagonal is left out.
        rows = shape.rows
        whole = _sum_of_squares(loadings @ loadings.T) - 2 * _sum_of_squares(loadings @ rows.T)
        whole += _sum_of_squares(rows @ rows.T)
        return max(0.0, whole - _sum_of_squares((loadings**2).sum(axis=0) - shape.variances))
    difference = loadings.T @ loadings - shape
    np.fill_diagonal(difference, 0.0)
    return _sum_of_squares(difference)


def _sum_of_squares(values: FloatArray) -> float:
    return float(np.vdot(values, values))


def add_factor(parameters: Parameters, k: int, covariance: Shape, floor: FloatArray) -> Parameters:
    """Give component k one more factor: the principal axis of the residuals x - mu - Lambda E[z | x]."""
    parent = parameters.component(k)
    column = _residual_axis(parent, covariance)
    components = parameters.components()
    components[k] = parent._replace(
        loadings=np.vstack([parent.loadings, column]),
        uniquenesses=np.maximum(parent.uniquenesses - column**2, floor),
    )
    return Parameters.from_components(components)


def _residual_axis(component: Component, covariance: Shape) -> FloatArray:
    """Return the principal axis of the residuals, scaled by their standard deviation along it."""
    score_map = _score_map(component)
    if isinstance(covariance, Panel):
        rows = covariance.rows
        values, vectors = Panel(rows - (rows @ score_map.T) @ component.loadings).axes()
        if len(values) == 0:
            return np.zeros(len(component.mean))
    else:
        residual_map = np.eye(len(component.mean)) - component.loadings.T @ score_map
        values, vectors = principal_axes(residual_map @ covariance @ residual_map.T)
    axis: FloatArray = np.sqrt(values[0]) * vectors[0]
    return axis


def _score_map(component: Component) -> FloatArray:
    """Return the matrix beta (p, d) of E[z | x] = beta (x - mu)."""
    scaled = component.loadings / component.uniquenesses
    capacitance = np.eye(len(scaled)) + scaled @ component.loadings.T
    return np.asarray(np.linalg.solve(capacitance, scaled), dtype=np.float64)
