"""Pictures of components or clusters over all columns: profiles of means, and a matrix of pairs of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.dataframes import column_positions
from amofa._model.clusters import Clusters
from amofa._model.report import Report
from amofa._typing import FloatArray
from amofa.plot._axes import axes_for, component_colors, ink, make_groups, pyplot
from amofa.plot._density import draw_marginals
from amofa.plot._plane import check_model, check_rows, feature_names, make_view
from amofa.plot._room import legend_beside, make_room, name_axes, name_lines, plain_text, shortened
from amofa.plot._rows import draw_clusters, look_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

# Up to this number of columns each has a line of its own, with its name; more are drawn as a curve.
_MOST_LINES = 40
# Up to this number of groups, standard deviations are drawn, too.
_MOST_BARS = 6
# The heaviest groups that have colours.
_MOST_COLORS = 12
_NAME_LENGTH = 28
# Longer names are turned by 90 degrees below a curve.
_UPRIGHT = 6
# Columns of a matrix that are chosen if none are given, and inches of a panel.
_PAIRS, _PANEL = 4, 2.2


def profiles(
    model: MixtureOfFactorAnalyzers,
    X: ArrayLike | None = None,
    *,
    clusters: Clusters | int | str | None = None,
    columns: Sequence[int | str] | None = None,
    scaled: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the means of each component or cluster over the columns, with bars of a standard deviation.

    Up to 40 columns are named on the left, from top to bottom; more are drawn as curves, such as spectra. Bars are left
    out if there are more than six components or clusters.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like, optional
        Draw the means of these rows, as `amofa.MixtureOfFactorAnalyzers.report`; by default those of the mixture.
    clusters : Clusters, int or "auto", optional
        Draw clusters of components, as in `amofa.MixtureOfFactorAnalyzers.predict`.
    columns : sequence of int or str, optional
        The columns, in the order in which they are drawn; by default all.
    scaled : bool, default True
        Draw differences from the mean of all rows in standard deviations of all rows; otherwise the columns' own
        units.
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
    >>> means, loadings = [[0.0, 0.0], [4.0, 1.0]], [np.zeros((2, 0))] * 2
    >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], means, loadings, np.ones((2, 2)), ["length", "width"])
    >>> [label.get_text() for label in profiles(model).get_yticklabels()]
    ['length', 'width']
    """
    model = check_model(model)
    report = model.report(X, clusters=clusters)
    positions = np.arange(model.n_features)
    if columns is not None:
        positions = column_positions(columns, model.feature_names, model.n_features, name="columns")
    means, deviations = report.means[:, positions], report.deviations[:, positions]
    if scaled:
        means, deviations = _scaled(report, means, deviations)
    names = [plain_text(feature_names(model)[j]) for j in positions]
    height = float(np.clip(0.25 * len(names) + 1.5, 3.0, 11.0))
    is_curve = len(names) > _MOST_LINES
    ax = axes_for(ax, size=(6.4, 4.8 if is_curve else height))
    draw = _draw_curves if is_curve else _draw_lines
    draw(ax, means, deviations if len(report) <= _MOST_BARS else None, _looks(ax, report.weights))
    unit = "deviations from the mean of all" if scaled else f"mean of the {report.kind}"
    if is_curve:
        _name_columns(ax, names)
        name_axes(ax, "column", unit)
    else:
        name_axes(ax, unit, "")
        name_lines(ax, names)
        ax.set_ylim(len(names) - 0.5, -0.5)
    legend_beside(ax)
    make_room(ax)
    return ax


def _scaled(report: Report, means: FloatArray, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means and deviations in units of all rows together."""
    weights = report.weights if report.rows is None else report.rows / report.rows.sum()
    # Groups without rows have no means.
    present = weights > 0
    centre = weights[present] @ means[present]
    spread = deviations[present] ** 2 + (means[present] - centre) ** 2
    scale = np.sqrt(weights[present] @ spread)
    scale[~(scale > 0)] = 1.0
    return (means - centre) / scale, deviations / scale


def _looks(ax: Axes, weights: FloatArray) -> list[dict[str, Any]]:
    """Return how the lines of groups look: of very many, those that are not among the heaviest are thin and grey."""
    heavy = np.argsort(-weights, kind="stable")[:_MOST_COLORS].tolist()
    looks: list[dict[str, Any]] = []
    for g, (weight, color) in enumerate(zip(weights, component_colors(len(weights)), strict=True)):
        if g in heavy:
            looks.append({"color": color, "linewidth": 1.2, "label": f"{g}: {weight:.1%}"})
        else:
            looks.append({"color": ink(ax, 0.25), "linewidth": 0.7, "zorder": 1})
    return looks


def _draw_lines(ax: Axes, means: FloatArray, deviations: FloatArray | None, looks: list[dict[str, Any]]) -> None:
    """Draw groups from top to bottom, each a little below the one before, so that their bars can be told apart."""
    places = np.arange(means.shape[1])
    shifts = np.linspace(-0.2, 0.2, len(means)) if deviations is not None and len(means) > 1 else np.zeros(len(means))
    for place in places.tolist():
        ax.axhline(place, color=ink(ax, 0.12), linewidth=0.8, zorder=0)
    for g, look in enumerate(looks):
        ax.plot(means[g], places + shifts[g], "o-", markersize=4, **look)
        if deviations is not None:
            left, right = means[g] - deviations[g], means[g] + deviations[g]
            ax.hlines(places + shifts[g], left, right, color=look["color"], linewidth=2.5, alpha=0.35)


def _draw_curves(ax: Axes, means: FloatArray, deviations: FloatArray | None, looks: list[dict[str, Any]]) -> None:
    places = np.arange(means.shape[1])
    for g, look in enumerate(looks):
        ax.plot(places, means[g], **look)
        if deviations is not None:
            lower, upper = means[g] - deviations[g], means[g] + deviations[g]
            ax.fill_between(places, lower, upper, color=look["color"], alpha=0.12, lw=0)


def _name_columns(ax: Axes, names: list[str]) -> None:
    """Name some columns below a curve, as many as there is room for."""
    shown = [shortened(name, _NAME_LENGTH) for name in names]
    length = max(map(len, shown))
    room = ax.get_window_extent().width / ax.figure.dpi * 72
    # Points that a name takes, across or along the axis.
    taken = 14.0 if length > _UPRIGHT else 6.0 * length + 10.0
    n_shown = max(2, int(room / taken))
    places = np.unique(np.linspace(0, len(names) - 1, min(n_shown, len(names))).astype(int))
    ax.set_xticks(places, [shown[j] for j in places], fontsize="small", rotation=90 if length > _UPRIGHT else 0)
    ax.set_xlim(-0.5, len(names) - 0.5)


def pairs(
    model: MixtureOfFactorAnalyzers,
    X: ArrayLike | None = None,
    *,
    columns: Sequence[int | str] | None = None,
    labels: ArrayLike | None = None,
    clusters: Clusters | int | str | None = None,
    ax: Any = None,
) -> NDArray[Any]:
    """Draw a matrix of pairs of columns with rows and ellipses, as `clusters` does, and densities on the diagonal.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like, optional
        Without rows, only ellipses and densities are drawn.
    columns : sequence of m int or str, optional
        By default the four columns in which the components differ most.
    labels : (n,) array-like, optional
    clusters : Clusters, int or "auto", optional
        Both as in `clusters`.
    ax : (m, m) array-like of matplotlib.axes.Axes, optional

    Returns
    -------
    (m, m) ndarray of matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If X does not match the model, if there are no such columns or clusters, or not enough axes.

    Examples
    --------
    >>> import amofa
    >>> means, loadings = [[0.0, 0.0, 0.0], [4.0, 1.0, 0.0]], [np.zeros((3, 0))] * 2
    >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], means, loadings, np.ones((2, 3)))
    >>> pairs(model, columns=[0, 1]).shape
    (2, 2)
    """
    model = check_model(model)
    positions = _chosen_columns(model, columns)
    table = None if X is None else check_rows(model, X)
    if labels is not None and table is None:
        raise ValueError("labels are those of rows; pass X, too")
    m = len(positions)
    panels = _panels(m) if ax is None else np.array(ax, dtype=object)
    if panels.size != m * m:
        raise ValueError(f"ax has {panels.size} axes, but {m} columns need {m} x {m}")
    panels = panels.reshape(m, m)
    found = None if clusters is None else model._chosen_clusters(clusters)
    groups = None if labels is None or table is None else make_groups(labels, len(table))
    look = look_of(model, found)
    names = [shortened(plain_text(feature_names(model)[j]), _NAME_LENGTH) for j in positions]
    for a, row in enumerate(positions):
        for b, column in enumerate(positions):
            panel = panels[a, b]
            if a == b:
                draw_marginals(panel, model, row, look.colors, table)
            else:
                draw_clusters(panel, model, make_view(model, [column, row]), table, look, found, groups)
            panel.tick_params(labelleft=b == 0 and a > 0, labelbottom=a == m - 1, labelsize="x-small")
            name_axes(panel, names[b] if a == m - 1 else "", names[a] if b == 0 else "", size="small")
    for b in range(m):
        # The scale of a column is that of its panels, and that of the diagonal is a density.
        limits = panels[(b + 1) % m, b].get_xlim()
        panels[b, b].set_xlim(limits)
    return panels


def _chosen_columns(model: MixtureOfFactorAnalyzers, columns: Sequence[int | str] | None) -> list[int]:
    """Return the columns of a matrix: those given, or those in which the components differ most, in their order."""
    if columns is not None:
        positions: list[int] = column_positions(columns, model.feature_names, model.n_features, name="columns").tolist()
    else:
        differences = np.nan_to_num(model.report().differences, posinf=1e9, neginf=-1e9)
        sizes = np.sqrt(model.weights @ differences**2)
        positions = sorted(np.argsort(-sizes, kind="stable")[:_PAIRS].tolist())
    if len(positions) < 2:
        raise ValueError("pairs needs two columns; use amofa.plot.density for one")
    return positions


def _panels(m: int) -> NDArray[Any]:
    _, axes = pyplot().subplots(m, m, figsize=(_PANEL * m, _PANEL * m), squeeze=False, layout="constrained")
    panels: NDArray[Any] = axes
    return panels
