"""Pictures of densities: of a column, of two directions, and of rows that have a low one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import check_positive, check_whole_number
from amofa._data.dataframes import column_positions
from amofa._data.row_chunks import Samples
from amofa._model import posterior
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray
from amofa.plot._axes import (
    NO_LABEL_COLOR,
    Color,
    axes_for,
    component_colors,
    dots,
    drawn_rows,
    ink,
    log_scale,
    outline,
)
from amofa.plot._plane import (
    View,
    background_text,
    bulk_weights,
    check_model,
    check_rows,
    feature_names,
    legend_texts,
    limit_axes,
    make_view,
    whole_rows,
)
from amofa.plot._room import legend_above, legend_beside, make_room, name_axes, name_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

# With more rows the ticks on the axis would merge into a bar.
_MOST_TICKS = 500
_BINS = (10, 60)
# A density is drawn to this number of standard deviations on each side of a mean, at this number of points.
REACH, POINTS = 4.0, 121
# A column is drawn over the bulk of its values: these quantiles, and this share of their distance on each side.
_QUANTILES, _OUTSIDE = (0.005, 0.995), 0.3
# Contours are computed on a grid of this number of points on each side; lines enclose these shares of the mixture.
_GRID, _SHARES = 160, (0.5, 0.8, 0.95)
# Up to this many deviations of the log density are drawn on a linear scale, larger ones on a logarithmic one.
_LINEAR = 4.0


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
    ['mixture', '0: 50.0%, 1 factor', '1: 50.0%, 1 factor']
    """
    model = check_model(model)
    (j,) = column_positions([column], model.feature_names, model.n_features, name="column")
    values = None if X is None else _present(check_rows(model, X)[:, j], j)
    grid = _grid_of_column(model, j)
    parts = _densities_of_column(model, j, grid)
    ax = axes_for(ax)
    whole = parts.sum(axis=1)
    background = _background_of_column(model, j, grid)
    if background is not None:
        whole = whole + background
        ax.plot(grid, background, color=NO_LABEL_COLOR, linewidth=1.6, label=background_text(model))
    ax.plot(grid, whole, color=ink(ax), linewidth=1.0, linestyle="--", label="mixture", zorder=3)
    for part, color, text in zip(parts.T, component_colors(model.n_components), legend_texts(model), strict=True):
        ax.plot(grid, part, color=color, linewidth=1.6, label=text)
    lower, upper = _bulk_of_column(model, grid, parts, values)
    if values is not None:
        draw_histogram(ax, values[(values >= lower) & (values <= upper)], whole=len(values))
    ax.set_xlim(lower, upper)
    name_axes(ax, feature_names(model)[j], "density")
    ax.set_ylim(bottom=0.0)
    legend_beside(ax)
    make_room(ax)
    return ax


def draw_marginals(
    ax: Axes, model: MixtureOfFactorAnalyzers, j: int, colors: Sequence[Color], table: NDArray[Any] | None
) -> None:
    """Draw the densities of the components in column j, and a histogram of the rows, in the panel of a matrix."""
    grid = _grid_of_column(model, j)
    parts = _densities_of_column(model, j, grid)
    values = None if table is None else _present(table[:, j], j)
    lower, upper = _bulk_of_column(model, grid, parts, values)
    if values is not None:
        draw_histogram(ax, values[(values >= lower) & (values <= upper)], whole=len(values), with_ticks=False)
    for part, color in zip(parts.T, colors, strict=True):
        ax.plot(grid, part, color=color, linewidth=1.2)
    ax.set_xlim(lower, upper)
    ax.set_ylim(bottom=0.0)


def _grid_of_column(model: MixtureOfFactorAnalyzers, j: int) -> FloatArray:
    """Return points along column j, close together where components are narrow."""
    means = model.means[:, j]
    variances = np.array([(loadings[j] ** 2).sum() for loadings in model.loadings]) + model.uniquenesses[:, j]
    points = means[:, None] + np.sqrt(variances)[:, None] * np.linspace(-REACH, REACH, POINTS)
    grid: FloatArray = np.sort(points.ravel())
    return grid


def _densities_of_column(model: MixtureOfFactorAnalyzers, j: int, grid: FloatArray) -> FloatArray:
    """Return the density of each component in column j times its share of the mixture, (len(grid), K)."""
    parameters, rows = model._parameters.of_columns(np.array([j])), Samples(grid[:, None])
    densities: FloatArray = np.exp(posterior.log_densities(parameters, rows))[:, None]
    densities = densities * posterior.responsibilities(parameters, rows) * (1.0 - model.background_weight)
    return densities


def _background_of_column(model: MixtureOfFactorAnalyzers, j: int, grid: FloatArray) -> FloatArray | None:
    """Return the density of the background in column j times its weight, (len(grid),); None if there is none."""
    background = model._parameters.background
    # Nothing is known of a single column of a function.
    if background is None or background.density.function is not None or not background.density.covers[j]:
        return None
    of_column = background.density.of_columns(np.array([j]))
    return background.weight * np.exp(of_column.log_density(grid[None]))


def _bulk_of_column(
    model: MixtureOfFactorAnalyzers, grid: FloatArray, parts: FloatArray, values: FloatArray | None
) -> tuple[float, float]:
    """Return limits for a column: the bulk of the values, or of the mixture."""
    if values is None:
        # Where the density of the heavy components is above a small part of its peak.
        heavy = parts[:, bulk_weights(model.weights) > 0].sum(axis=1)
        shown = grid[heavy > 1e-4 * heavy.max()]
        return float(shown[0]), float(shown[-1])
    lower, upper = np.quantile(values, _QUANTILES)
    reach = _OUTSIDE * (upper - lower)
    if reach == 0:
        return float(min(grid[0], lower)), float(max(grid[-1], upper))
    return max(float(values.min()), lower - reach) - 0.1 * reach, min(float(values.max()), upper + reach) + 0.1 * reach


def _present(values: NDArray[Any], j: int) -> FloatArray:
    """Return the values of column j that are not missing."""
    present: FloatArray = values[~np.isnan(values)].astype(np.float64)
    if not len(present):
        raise ValueError(f"X has no value in column {j}, all are missing; leave out X, or choose another column")
    return present


def draw_histogram(
    ax: Axes, values: FloatArray, color: Any = None, *, whole: int | None = None, with_ticks: bool = True
) -> None:
    """Draw a histogram of the values as a density; their share of all, a whole number, is its area."""
    heights, edges = np.histogram(values, bins=_bins(values))
    heights = heights / np.diff(edges) / (whole or len(values))
    face = ink(ax, 0.15) if color is None else color
    ax.bar(edges[:-1], heights, np.diff(edges), align="edge", color=face, edgecolor=ax.get_facecolor(), linewidth=0.5)
    if with_ticks and len(values) <= _MOST_TICKS:
        # Heights are shares of the height of the axes.
        ax.plot(values, np.full(len(values), 0.015), "|", color=ink(ax, 0.7), transform=ax.get_xaxis_transform())


def _bins(values: FloatArray) -> Any:
    """Return the number of bins of a histogram, or the edges of one for each value if there are few, such as counts."""
    distinct = np.unique(values)
    if 1 < len(distinct) <= _BINS[1]:
        step = np.diff(distinct).min()
        n_steps = round((distinct[-1] - distinct[0]) / step)
        if n_steps < _BINS[1] and len(distinct) < len(values) / 2:
            return np.linspace(distinct[0] - step / 2, distinct[-1] + step / 2, n_steps + 2)
    return int(np.clip(2 * np.sqrt(len(values)), *_BINS))


def contours(
    model: MixtureOfFactorAnalyzers,
    X: ArrayLike | None = None,
    *,
    columns: Sequence[int | str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density in two columns or in a plane: lines that enclose 50, 80 and 95 % of the mixture.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like, optional
        Rows, drawn as grey points; missing cells, NaN, are replaced by their conditional means.
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
    >>> means, loadings = [[0.0, 0.0], [4.0, 4.0]], [np.zeros((2, 0))] * 2
    >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], means, loadings, np.ones((2, 2)))
    >>> contours(model).get_ylabel()
    'x1'
    """
    model = check_model(model)
    view = make_view(model, columns)
    table = None if X is None else check_rows(model, X)
    ax = axes_for(ax)
    points = None
    if table is not None:
        points = view.points(whole_rows(model, table[drawn_rows(len(table))]))
        ax.scatter(*points.T, color=ink(ax, 0.45), **dots(len(points)))
    limit_axes(ax, view, model.weights, points)
    x, y = (np.linspace(low, high, _GRID) for low, high in (ax.get_xlim(), ax.get_ylim()))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    heights = np.exp(posterior.log_densities(_projected(model, view), Samples(grid))).reshape(_GRID, _GRID)
    levels = _levels(heights)
    if levels:
        color = outline(ax, component_colors(1)[0])
        shades = [(*color, alpha) for alpha in np.linspace(0.12, 0.4, len(levels))]
        ax.contourf(x, y, heights, [*levels, np.inf], colors=shades)
        ax.contour(x, y, heights, levels, colors=[color], linewidths=1.1)
    name_axes(ax, *view.labels)
    make_room(ax)
    return ax


def _projected(model: MixtureOfFactorAnalyzers, view: View) -> Parameters:
    """Return the mixture in the coordinates of a view, with a factor for the covariance of each component."""
    components = []
    for weight, mean, covariance, degrees in zip(
        model.weights, view.means, view.covariances, view.degrees_of_freedom, strict=True
    ):
        values, vectors = np.linalg.eigh(covariance)
        noise = max(values[0], 1e-12 * values[1])
        loading = vectors[:, 1:].T * np.sqrt(max(values[1] - noise, 0.0))
        components.append(Component(float(weight), mean, loading, np.full(2, noise), float(degrees)))
    return Parameters.from_components(components)


def _levels(heights: FloatArray) -> list[float]:
    """Return the rising heights above which the shares of `_SHARES` of the mass on a grid lie."""
    falling = np.sort(heights.ravel())[::-1]
    masses = np.cumsum(falling)
    places = np.searchsorted(masses, np.array(_SHARES[::-1]) * masses[-1])
    return sorted({float(falling[min(place, len(falling) - 1)]) for place in places})


def outliers(
    model: MixtureOfFactorAnalyzers,
    X: ArrayLike,
    *,
    share: float = 0.01,
    n_named: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draw how low the log density of each row is, below the median of all rows, in the colours of their components.

    Rows above the line have the lowest densities: those that the model explains least. Rows that have become components
    of their own have rings, since their density is not low; those of a background are grey, with crosses.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like
        Rows with missing cells, NaN, have the density of their other cells, which is not to be compared with that of
        complete rows.
    share : float, default 0.01
        The share of the rows that is above the line. Components with less than this share of the rows get rings.
    n_named : int, default 8
        How many of the lowest rows are named, and how many of those with rings: by the index of X if it has one,
        otherwise by their numbers from 0.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If X does not match the model, or if a number is not allowed.

    Examples
    --------
    >>> import amofa
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> X[7] = 9
    >>> ax = outliers(amofa.fit(X, max_components=1), X, n_named=1)
    >>> [text.get_text() for text in ax.texts]
    ['7']
    """
    model = check_model(model)
    if check_positive("share", share) >= 1:
        raise ValueError(f"share must be less than 1, got {share}")
    number = check_whole_number("n_named", n_named, at_least=0)
    table = check_rows(model, X)
    densities = model.score_samples(table)
    depths = np.median(densities) - densities
    threshold = float(np.quantile(depths, 1 - share))
    ax = axes_for(ax)
    lowest = np.argsort(-depths, kind="stable")
    # Of very many rows, some, but all that are above the line.
    shown = np.union1d(drawn_rows(len(table)), np.flatnonzero(depths > threshold))
    labels = model.predict(table)
    # The last one is the background, with the label -1, whose rows are marked in their own way.
    counts = np.append(np.bincount(labels[labels >= 0], minlength=model.n_components), len(table))
    rare = np.flatnonzero(counts[labels] < share * len(table))
    beside = np.flatnonzero(labels == -1)
    shown = np.union1d(shown, np.union1d(rare, beside))
    colors = np.array([*component_colors(model.n_components), NO_LABEL_COLOR])
    ax.scatter(shown, depths[shown], c=colors[labels[shown]], **dots(len(shown)))
    if len(rare):
        ax.plot(rare, depths[rare], "o", mfc="none", mec=ink(ax, 0.7), ms=9, label="component of few rows")
    if len(beside):
        ax.plot(beside, depths[beside], "x", color=ink(ax, 0.7), ms=5, label=background_text(model))
    ax.axhline(threshold, color=ink(ax, 0.7), linewidth=1.0, linestyle="--", label=f"{share:.2g} of all above")
    index: Any = getattr(X, "index", None) if hasattr(X, "iloc") else None
    names = range(len(table)) if index is None else list(index)
    spread = _LINEAR * float(np.quantile(np.abs(depths), 0.9))
    if depths.max() > 2 * spread > 0:
        log_scale(ax, spread)
    ax.margins(x=0.05)
    name_axes(ax, "row", "below the median log density, nats")
    if len(rare) or len(beside):
        legend_above(ax)
    make_room(ax)
    named = dict.fromkeys([*lowest[:number].tolist(), *rare[:number].tolist()])
    name_points(ax, [(i, float(depths[i]), str(names[i])) for i in named])
    return ax
