"""Pictures of rows under a mixture: clusters, densities, factor scores, responsibilities, uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import check_incomplete_table, check_whole_number
from amofa._data.dataframes import check_same_names, column_names, column_positions
from amofa._data.row_chunks import Samples
from amofa._model import posterior
from amofa._model.clusters import Clusters
from amofa._model.missing_data import marginal
from amofa._model.tails import radius_of_same_mass
from amofa._model.text import counted
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray
from amofa.plot._axes import (
    Color,
    axes_for,
    component_colors,
    darker,
    dots,
    drawn_rows,
    legend_beside,
    make_groups,
    plain_text,
)
from amofa.plot._plane import CIRCLE, View, check_model, feature_names, make_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

# Ellipses are drawn at these distances from the mean, in standard deviations.
_DEVIATIONS = (1.0, 2.0)
# With more rows the ticks on the axis would merge into a bar.
_MOST_TICKS = 500
_BINS = (10, 60)
# A density is drawn to this number of standard deviations on each side of a mean, at this number of points.
_REACH, _POINTS = 4.0, 121


def check_rows(model: MixtureOfFactorAnalyzers, X: ArrayLike) -> NDArray[Any]:
    """Return X as a table (n, d) that matches the model; cells may be NaN."""
    check_model(model)
    check_same_names(column_names(X), model.feature_names)
    return check_incomplete_table(X, n_features=model.n_features)[0]


def clusters(
    model: MixtureOfFactorAnalyzers,
    X: ArrayLike | None = None,
    *,
    columns: Sequence[int | str] | None = None,
    labels: ArrayLike | None = None,
    clusters: Clusters | int | str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw rows in the colours of their components, and ellipses 1 and 2 standard deviations from the means.

    Ellipses of t components have the same shares of the mass as those of normal ones: 39 and 86 %.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like, optional
        Without rows, only the ellipses are drawn. Missing cells, NaN, are replaced by their conditional means.
    columns : two of int or str, optional
        Columns to show. By default, the plane in which the components differ most, if there are more than two columns;
        see `amofa.plot._plane.discriminating_directions`.
    labels : (n,) array-like, optional
        Colour the rows by these labels instead, grey if the label is None or NaN, and the ellipses black.
    clusters : Clusters, int or "auto", optional
        Colour rows and ellipses by clusters of components instead, as in `MixtureOfFactorAnalyzers.predict`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If X does not match the model, or there are no such columns or clusters.

    Examples
    --------
    >>> import amofa
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [9, 9]], 30, axis=0)
    >>> ax = clusters(amofa.fit(X), X)
    >>> ax.get_xlabel(), ax.get_legend().get_texts()[0].get_text()
    ('x0', '0: 50.0%, 0 factors')
    """
    model = check_model(model)
    view = make_view(model, columns)
    found = None if clusters is None else model._chosen_clusters(clusters)
    colors, texts = _colors_and_texts(model, found)
    table = None if X is None else check_rows(model, X)
    groups = None
    if labels is not None:
        if table is None:
            raise ValueError("labels are those of rows; pass X, too")
        groups = make_groups(labels, len(table)).among(drawn_rows(len(table)))
    ax = axes_for(ax, n_entries=model.n_components if groups is None else len(groups.names))
    if table is not None:
        rows = drawn_rows(len(table))
        drawn = table[rows]
        whole = _whole(model, drawn)
        # In the order of the rows, so that no colour covers all others.
        own = groups.row_colors if groups is not None else _row_colors(model, drawn, found, colors)
        x, y = view.points(whole).T
        ax.scatter(x, y, c=own, **dots(len(rows)))
    shown = colors if groups is None else [(0.0, 0.0, 0.0)] * len(colors)
    _draw_ellipses(ax, view, shown, texts if groups is None else None)
    _name_axes(ax, view)
    legend_beside(ax, groups)
    return ax


def _colors_and_texts(
    model: MixtureOfFactorAnalyzers, clusters: Clusters | None
) -> tuple[list[Color], list[str | None]]:
    """Return the colours of the components, and their texts in the legend; of a cluster, only the first has one."""
    if clusters is None:
        return component_colors(model.n_components), [*_legend_texts(model)]
    colors = component_colors(clusters.n_clusters)
    texts: list[str | None] = [None] * model.n_components
    for c, weight in enumerate(clusters.weights):
        members = clusters.components(c)
        texts[members[0]] = f"{c}: {weight:.1%}, {counted(len(members), 'component')}"
    return [colors[c] for c in clusters.labels], texts


def _row_colors(
    model: MixtureOfFactorAnalyzers, rows: NDArray[Any], clusters: Clusters | None, colors: Sequence[Color]
) -> list[Color]:
    """Return the colours of rows, from those of the components."""
    if clusters is None:
        return [colors[k] for k in model.predict(rows)]
    return [colors[clusters.components(c)[0]] for c in model.predict(rows, clusters=clusters)]


def _whole(model: MixtureOfFactorAnalyzers, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the rows with their missing cells filled in."""
    return model.impute(rows) if np.isnan(rows).any() else rows


def _draw_ellipses(ax: Axes, view: View, colors: Sequence[Color], texts: Sequence[str | None] | None) -> None:
    for k, color in enumerate(colors):
        ax.fill(*view.ellipse(k, _DEVIATIONS[0]), facecolor=(*color, 0.12), edgecolor="none")
        for deviations, width in zip(_DEVIATIONS, (1.6, 0.9), strict=True):
            label = texts[k] if texts is not None and deviations == _DEVIATIONS[0] else None
            ax.plot(*view.ellipse(k, deviations), color=darker(color), linewidth=width, label=label)


def _legend_texts(model: MixtureOfFactorAnalyzers) -> list[str]:
    return [
        f"{k}: {weight:.1%}, {counted(p, 'factor')}"
        for k, (weight, p) in enumerate(zip(model.weights, model.n_factors.tolist(), strict=True))
    ]


def _name_axes(ax: Axes, view: View) -> None:
    ax.set_xlabel(plain_text(view.labels[0]))
    ax.set_ylabel(plain_text(view.labels[1]))


def uncertainty(
    model: MixtureOfFactorAnalyzers,
    X: ArrayLike,
    *,
    columns: Sequence[int | str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw rows in colours that show how uncertain their component is: one minus the largest responsibility.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like
    columns : two of int or str, optional
        As in `clusters`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If X does not match the model, or there are no such columns.

    Examples
    --------
    >>> import amofa
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [4, 4]], 30, axis=0)
    >>> ax = uncertainty(amofa.fit(X), X)
    >>> len(ax.collections[0].get_offsets())
    60
    """
    model = check_model(model)
    view = make_view(model, columns)
    table = check_rows(model, X)
    rows = table[drawn_rows(len(table))]
    doubt = 1.0 - model.predict_proba(rows).max(axis=1)
    # Uncertain rows on top.
    order = np.argsort(doubt, kind="stable")
    ax = axes_for(ax)
    for k in range(model.n_components):
        for deviations in _DEVIATIONS:
            ax.plot(*view.ellipse(k, deviations), color="0.75", linewidth=0.9, zorder=0)
    style = dots(len(rows)) | {"s": 6.0 + 30.0 * doubt[order], "alpha": 0.9}
    x, y = view.points(_whole(model, rows))[order].T
    shown = ax.scatter(x, y, c=doubt[order], cmap="coolwarm", vmin=0.0, vmax=0.5, **style)
    ax.figure.colorbar(
        shown, ax=ax, label="1 \N{MINUS SIGN} largest responsibility", extend="max" if doubt.max() > 0.5 else None
    )
    _name_axes(ax, view)
    legend_beside(ax)
    return ax


def density(
    model: MixtureOfFactorAnalyzers,
    X: ArrayLike | None = None,
    *,
    column: int | str = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density of one column, that of each component times its weight, and a histogram of the rows.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like, optional
        Without rows, only the densities are drawn. Up to 500 rows have a tick each on the axis.
    column : int or str, default 0
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If X does not match the model, if there is no such column, or if it has no value.

    Examples
    --------
    >>> import amofa
    >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
    >>> ax = density(model, [[0.5], [3.0]])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['0: 50.0%, 1 factor', '1: 50.0%, 1 factor', 'mixture']
    """
    model = check_model(model)
    (j,) = column_positions([column], model.feature_names, model.n_features, name="column")
    values = None if X is None else _present(check_rows(model, X)[:, j], j)
    means = model.means[:, j]
    variances = np.array([(loadings[j] ** 2).sum() for loadings in model.loadings]) + model.uniquenesses[:, j]
    deviations = np.sqrt(variances)
    grid = np.sort((means[:, None] + deviations[:, None] * np.linspace(-_REACH, _REACH, _POINTS)).ravel())
    parts = _densities_of_column(model, j, grid)
    ax = axes_for(ax, n_entries=model.n_components + 1)
    if values is not None:
        _draw_histogram(ax, values)
    for part, color, text in zip(parts.T, component_colors(model.n_components), _legend_texts(model), strict=True):
        ax.plot(grid, part, color=color, linewidth=1.6, label=text)
    ax.plot(grid, parts.sum(axis=1), color="black", linewidth=1.0, linestyle="--", label="mixture")
    ax.set_xlabel(plain_text(feature_names(model)[j]))
    ax.set_ylabel("density")
    ax.set_ylim(bottom=0.0)
    legend_beside(ax)
    return ax


def _densities_of_column(model: MixtureOfFactorAnalyzers, j: int, grid: FloatArray) -> FloatArray:
    """Return the density of each component in column j times its weight, (len(grid), K)."""
    parameters, rows = marginal(model._parameters, np.array([j])), Samples(grid[:, None])
    densities: FloatArray = np.exp(posterior.log_densities(parameters, rows))[:, None]
    densities = densities * posterior.responsibilities(parameters, rows)
    return densities


def _present(values: NDArray[Any], j: int) -> FloatArray:
    """Return the values of column j that are not missing."""
    present: FloatArray = values[~np.isnan(values)].astype(np.float64)
    if not len(present):
        raise ValueError(f"X has no value in column {j}, all are missing; leave out X, or choose another column")
    return present


def _draw_histogram(ax: Axes, values: FloatArray, color: Any = "0.85") -> None:
    bins = int(np.clip(2 * np.sqrt(len(values)), *_BINS))
    ax.hist(values, bins=bins, density=True, color=color, edgecolor="white", linewidth=0.5)
    if len(values) <= _MOST_TICKS:
        # Heights are shares of the height of the axes.
        ax.plot(values, np.full(len(values), 0.015), "|", color="0.3", transform=ax.get_xaxis_transform())


def factor_scores(
    model: MixtureOfFactorAnalyzers,
    X: ArrayLike,
    *,
    component: int | None = None,
    factors: tuple[int, int] | None = None,
    labels: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the factor scores of the rows of one component, with circles 1 and 2 standard deviations from the mean.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like
    component : int, optional
        By default the first with two factors, or else with one.
    factors : two of int, optional
        Factors to show, by default the first two. A component with one factor gets a histogram of its scores, with
        the standard normal density (or t density), and takes neither factors nor labels.
    labels : (n,) array-like, optional
        Colour the rows by these labels, grey if the label is None or NaN.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If X does not match the model, or there are no such factors.

    Examples
    --------
    >>> import amofa
    >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0, 0.0]], [np.eye(3, 2)], [[1.0, 1.0, 1.0]])
    >>> ax = factor_scores(model, [[2.0, 4.0, 0.0]])
    >>> ax.collections[0].get_offsets().round(6).tolist()
    [[1.0, 2.0]]
    """
    model = check_model(model)
    if component is None:
        # The first that has two factors, or the most.
        component = int(np.argmax(np.minimum(model.n_factors, 2)))
    k = check_whole_number("component", component, at_least=0, at_most=model.n_components - 1)
    p = int(model.n_factors[k])
    if p == 0:
        raise ValueError(f"component {k} has no factors; choose one of {np.flatnonzero(model.n_factors).tolist()}")
    if p == 1 and (factors is not None or labels is not None):
        given = "labels" if factors is None else "factors"
        raise ValueError(f"{given} cannot be used: component {k} has one factor; choose another, or leave out {given}")
    shown = [0] if p == 1 else _check_factors((0, 1) if factors is None else factors, p)
    table = check_rows(model, X)
    selected = np.flatnonzero(model.predict(table) == k)
    selected = selected[drawn_rows(len(selected))]
    scores = model.factor_scores(table[selected])[k][:, shown] if len(selected) else np.empty((0, len(shown)))
    groups = None if labels is None else make_groups(labels, len(table)).among(selected)
    color, degrees = component_colors(model.n_components)[k], float(model.degrees_of_freedom[k])
    ax = axes_for(ax, n_entries=0 if groups is None else len(groups.names))
    if p == 1:
        _draw_scores_of_one(ax, scores[:, 0], color, degrees)
    else:
        _draw_scores_of_two(ax, scores, [color] if groups is None else groups.row_colors, degrees)
        legend_beside(ax, groups)
    ax.set_xlabel(f"factor {shown[0]}")
    ax.set_ylabel("density" if p == 1 else f"factor {shown[1]}")
    ax.set_title(f"component {k}: {len(selected)} rows", fontsize="medium")
    return ax


def _check_factors(factors: Any, p: int) -> list[int]:
    """Check that two of p factors are given."""
    if isinstance(factors, str) or not isinstance(factors, Iterable):
        raise TypeError(f"factors must be two numbers of factors, got {factors!r}")
    numbers = [check_whole_number("factors", factor, at_least=0, at_most=p - 1) for factor in factors]
    if len(numbers) != 2:
        raise ValueError(f"factors must be two numbers of factors, got {len(numbers)}")
    return numbers


def _draw_scores_of_one(ax: Axes, scores: FloatArray, color: Color, degrees_of_freedom: float) -> None:
    grid = np.linspace(-_REACH, _REACH, _POINTS)
    standard = Component(1.0, np.zeros(1), np.zeros((0, 1)), np.ones(1), degrees_of_freedom)
    density = np.exp(posterior.log_densities(Parameters.from_components([standard]), Samples(grid[:, None])))
    ax.plot(grid, density, color="black", linewidth=1.0, linestyle="--")
    if len(scores):
        _draw_histogram(ax, scores, (*color, 0.4))


def _draw_scores_of_two(ax: Axes, scores: FloatArray, colors: Sequence[Color], degrees_of_freedom: float) -> None:
    # In the order of the rows, so that no colour covers all others.
    ax.scatter(*scores.T, color=colors, **dots(len(scores)))
    for deviations in _DEVIATIONS:
        ax.plot(
            *radius_of_same_mass(degrees_of_freedom, deviations) * CIRCLE, color="0.4", linewidth=0.9, linestyle="--"
        )
    ax.axhline(0.0, color="0.85", linewidth=0.8, zorder=0)
    ax.axvline(0.0, color="0.85", linewidth=0.8, zorder=0)
    ax.set_aspect("equal", adjustable="datalim")


def responsibilities(model: MixtureOfFactorAnalyzers, X: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the responsibilities of each row as a bar, sorted by component and decreasing responsibility.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If X does not match the model.

    Examples
    --------
    >>> import amofa
    >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
    >>> ax = responsibilities(model, [[0.5], [3.0]])
    >>> ax.get_ylabel()
    'responsibility'
    """
    model = check_model(model)
    table = check_rows(model, X)
    proba = model.predict_proba(table[drawn_rows(len(table))])
    found = proba.argmax(axis=1)
    order = np.lexsort((-proba[np.arange(len(proba)), found], found))
    ax = axes_for(ax, n_entries=model.n_components)
    heights = np.repeat(proba[order], 2, axis=0)
    edges = np.repeat(np.arange(len(proba) + 1), 2)[1:-1]
    colors, texts = component_colors(model.n_components), _legend_texts(model)
    ax.stackplot(edges, heights.T, colors=colors, labels=texts, linewidth=0, antialiased=False)
    ax.set_xlim(0, len(proba))
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("rows, by component")
    ax.set_ylabel("responsibility")
    legend_beside(ax)
    return ax
