"""Proposals of a changed mixture: the first model, a split, one more factor, one component less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from amofa.analyser import principal_axes
from amofa.em import Fit, Settings, expectation_maximization
from amofa.limits import LEAST_SHARE_OF_A_ROW
from amofa.parameters import Component, FloatArray, Parameters
from amofa.samples import Moments, Samples

# Eigenvectors whose relative signs are tried when a component is split: 2^(3 - 1) starts.
_SIGNED_AXES = 3
# The local fit of a split only makes a start for EM on all rows, which converges anyway: on fresh draws of both
# examples of the paper, 30 iterations give as many right answers as 100.
_LOCAL_ITERATIONS = 30


def first_mixture(samples: Samples, n_factors: int, floor: FloatArray) -> Parameters:
    """One component: the mean, the leading principal axes as loadings, and the columns' variances as uniquenesses."""
    plain = Component(1.0, np.zeros(samples.n_features), np.zeros((0, samples.n_features)), np.ones(samples.n_features))
    moments = samples.moments(Parameters.from_components([plain]))
    covariance = moments.covariances[0]
    values, vectors = principal_axes(covariance)
    # Factors beyond the number of columns have no axis to start from and stay empty.
    loadings = np.zeros((n_factors, samples.n_features))
    loadings[: len(vectors)] = np.sqrt(values[:n_factors, None]) * vectors[:n_factors]
    uniquenesses = np.maximum(np.diag(covariance), floor)
    return Parameters.from_components([Component(1.0, moments.means[0], loadings, uniquenesses)])


# ---- split -----------------------------------------------------------------------------------------------------------


def split(local: Samples, parameters: Parameters, k: int, covariance: FloatArray, settings: Settings) -> Fit | None:
    """Replace component k by the two of a local fit.

    Parameters
    ----------
    local : Samples
        The rows assigned to component k.
    parameters : Parameters
    k : int
    covariance : (d, d) float64
        Of component k.
    settings : Settings

    Returns
    -------
    Fit or None
        The mixture with the children (the heavier in place of the parent, the other at the end), before any EM on all
        rows; its costs and iterations are the local fit's. None if no local fit keeps two components.
    """
    short = replace(settings, max_iter=min(settings.max_iter, _LOCAL_ITERATIONS))
    fits = [
        expectation_maximization(local, start, short)
        for start in _split_starts(local, parameters.component(k), covariance)
    ]
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
    return Fit(children, best.log_likelihood, best.cost, sum(fit.n_iter for fit in fits), best.converged)


def _split_starts(local: Samples, parent: Component, covariance: FloatArray) -> Iterator[Parameters]:
    """Two children at mu +- sum_j s_j sqrt(lambda_j) v_j, for the relative signs s of the leading axes.

    The paper has the sum of all eigenvectors; the sign of each is arbitrary, and decides what comes of the split.
    """
    values, vectors = principal_axes(covariance)
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
    """Axes with their signs set so that the rows' third moment along each is not negative."""
    third = np.zeros(len(axes))
    for x, w in local.chunks():
        cubes = (axes @ (x - mean[:, None])) ** 3
        third += cubes.sum(axis=1) if w is None else cubes @ w
    return np.where(third < 0, -1.0, 1.0)[:, None] * axes


# ---- ties ----------------------------------------------------------------------------------------------------------


def with_tied_noise(parameters: Parameters, noise: str) -> Parameters:
    """The same mixture with its uniquenesses tied: each component's own, shared by all, or isotropic."""
    if noise == "component":
        return parameters
    components = parameters.components()
    if noise == "shared":
        shared = np.exp(parameters.weights @ np.log(parameters.uniquenesses))
        return Parameters.from_components([c._replace(uniquenesses=shared) for c in components])
    return Parameters.from_components(
        [c._replace(uniquenesses=np.full(len(c.mean), c.uniquenesses.mean())) for c in components]
    )


# ---- merge -----------------------------------------------------------------------------------------------------------


def merge_coincident(parameters: Parameters) -> Parameters:
    """Components that are the same within rounding become one; the mixture itself where all differ."""
    kept: list[Component] = []
    for component in parameters.components():
        twin = next((i for i, other in enumerate(kept) if _coincide(component, other)), None)
        if twin is None:
            kept.append(component)
        else:
            kept[twin] = kept[twin]._replace(weight=kept[twin].weight + component.weight)
    return parameters if len(kept) == parameters.n_components else Parameters.from_components(kept)


def without_idle(parameters: Parameters, samples: Samples) -> Parameters:
    """The mixture without components of hardly a row, and with one of those that coincide; itself if all do and differ.

    The heaviest component stays.
    """
    share = LEAST_SHARE_OF_A_ROW / max(samples.n_rows, samples.total_weight)
    least = min(share, float(parameters.weights.max()))
    kept = [c for c in parameters.components() if c.weight >= least]
    return merge_coincident(parameters if len(kept) == parameters.n_components else Parameters.from_components(kept))


def _coincide(a: Component, b: Component) -> bool:
    """Same mean and covariance, in standardised columns: far closer than the noise floor lets groups be told apart."""
    if not np.allclose(a.mean, b.mean, rtol=0.0, atol=1e-6):
        return False
    first, second = (c.loadings.T @ c.loadings + np.diag(c.uniquenesses) for c in (a, b))
    return bool(np.allclose(first, second, rtol=1e-3, atol=1e-6))


# ---- factor ----------------------------------------------------------------------------------------------------------


def covariance_misfit(parameters: Parameters, moments: Moments) -> FloatArray:
    """Sum of squared off-diagonal differences between modelled and sample covariance, (K,)."""
    misfit = np.empty(parameters.n_components)
    for k in range(parameters.n_components):
        loadings = parameters.component_loadings(k)
        difference = loadings.T @ loadings - moments.covariances[k]
        np.fill_diagonal(difference, 0.0)
        misfit[k] = np.einsum("ij,ij->", difference, difference)
    return misfit


def add_factor(parameters: Parameters, k: int, covariance: FloatArray, floor: FloatArray) -> Parameters:
    """Give component k one more factor: the principal axis of the residuals x - mu - Lambda E[z | x]."""
    parent = parameters.component(k)
    residual_map = np.eye(len(parent.mean)) - parent.loadings.T @ _score_map(parent)
    values, vectors = principal_axes(residual_map @ covariance @ residual_map.T)
    column = np.sqrt(values[0]) * vectors[0]
    components = parameters.components()
    components[k] = parent._replace(
        loadings=np.vstack([parent.loadings, column]),
        uniquenesses=np.maximum(parent.uniquenesses - column**2, floor),
    )
    return Parameters.from_components(components)


def _score_map(component: Component) -> FloatArray:
    """The matrix beta (p, d) of E[z | x] = beta (x - mu)."""
    scaled = component.loadings / component.uniquenesses
    capacitance = np.eye(len(scaled)) + scaled @ component.loadings.T
    return np.asarray(np.linalg.solve(capacitance, scaled), dtype=np.float64)
