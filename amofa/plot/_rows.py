"""Pictures of rows under a mixture: clusters, factor scores, responsibilities, uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import check_whole_number
from amofa._data.row_chunks import Samples
from amofa._model import posterior
from amofa._model.clusters import Clusters
from amofa._model.tails import radius_of_same_mass
from amofa._model.text import counted
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray
from amofa.plot._axes import (
    NO_LABEL_COLOR,
    Color,
    Groups,
    axes_for,
    component_colors,
    dots,
    drawn_rows,
    ink,
    make_groups,
    outline,
)
from amofa.plot._density import POINTS, REACH, draw_histogram
from amofa.plot._plane import (
    CIRCLE,
    DEVIATIONS,
    View,
    background_text,
    check_model,
    check_rows,
    legend_texts,
    limit_axes,
    make_view,
    whole_rows,
)
from amofa.plot._room import color_bar, is_small, legend_beside, make_room, name_axes, points_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

# Up to this number of components, ellipses are numbered.
_MOST_NUMBERS = 40
# The least distance of two numbers, as a share of the width and height; every so many points of an ellipse, there is a
# place for one.
_APART, _PLACES = 0.04, 15
# Points that a band of responsibilities must have for each digit of its number.
_DIGIT = 8.0
# Up to this number of components, ellipses are drawn at two distances.
_MOST_DOUBLE = 15


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

    Rows of a background are grey.

    Ellipses have the numbers of their components, or of their clusters, if there are at most 40. Rows far outside the
    bulk are left out, with a note of their number.

    Ellipses of t components have the same shares of the mass as those of normal ones: 39 and 86 %.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like, optional
        Without rows, only the ellipses are drawn. Missing cells, NaN, are replaced by their conditional means.
    columns : two of int or str, optional
        Columns to show. By default, if there are more than two, the plane in which the components that make up 98 % of
        the mixture differ most, in means and covariances.
    labels : (n,) array-like, optional
        Colour the rows by these labels instead, grey if the label is None or NaN, and the ellipses like text.
    clusters : Clusters, int or "auto", optional
        Colour rows and ellipses by clusters of components instead, as in `amofa.MixtureOfFactorAnalyzers.predict`.
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
    groups = None
    table = None if X is None else check_rows(model, X)
    if labels is not None:
        if table is None:
            raise ValueError("labels are those of rows; pass X, too")
        groups = make_groups(labels, len(table)).among(drawn_rows(len(table)))
    ax = axes_for(ax)
    draw_clusters(ax, model, view, table, look_of(model, found), found, groups)
    name_axes(ax, *view.labels)
    legend_beside(ax, groups, is_numbered=True)
    make_room(ax)
    return ax


class Look(NamedTuple):
    """How the components of a mixture are drawn."""

    colors: list[Color]
    texts: list[str | None]  # in the legend
    numbers: list[int]  # at their means


def draw_clusters(
    ax: Axes,
    model: MixtureOfFactorAnalyzers,
    view: View,
    table: NDArray[Any] | None,
    look: Look,
    found: Clusters | None = None,
    groups: Groups | None = None,
) -> None:
    """Draw rows and ellipses into axes, with limits that show the bulk of the rows."""
    points = None
    if table is not None:
        rows = drawn_rows(len(table))
        drawn = table[rows]
        points = view.points(whole_rows(model, drawn))
        # In the order of the rows, so that no colour covers all others.
        own = groups.row_colors if groups is not None else row_colors(model, drawn, found, look.colors)
        x, y = points.T
        ax.scatter(x, y, c=own, **dots(len(rows)))
        if groups is None and model.background is not None and any(look.texts):
            ax.plot([], [], "o", color=NO_LABEL_COLOR, markersize=4, label=background_text(model))
    plain = Look([ink(ax)] * model.n_components, [None] * model.n_components, look.numbers)
    draw_ellipses(ax, view, look if groups is None else plain, is_plain=groups is not None)
    limit_axes(ax, view, model.weights, points)
    if model.n_components <= _MOST_NUMBERS:
        _number_ellipses(ax, view, look if groups is None else plain)


def look_of(model: MixtureOfFactorAnalyzers, clusters: Clusters | None = None) -> Look:
    """Return how components are drawn; of a cluster, only the first has a text in the legend."""
    if clusters is None:
        return Look(component_colors(model.n_components), [*legend_texts(model)], list(range(model.n_components)))
    colors = component_colors(clusters.n_clusters)
    texts: list[str | None] = [None] * model.n_components
    for c, weight in enumerate(clusters.weights):
        members = clusters.components(c)
        texts[members[0]] = f"{c}: {weight:.1%}, {counted(len(members), 'component')}"
    return Look([colors[c] for c in clusters.labels], texts, clusters.labels.tolist())


def row_colors(
    model: MixtureOfFactorAnalyzers, rows: NDArray[Any], clusters: Clusters | None, colors: Sequence[Color]
) -> list[Color]:
    """Return the colours of rows, from those of the components; those of a background are grey."""
    own = colors if clusters is None else [colors[clusters.components(c)[0]] for c in range(clusters.n_clusters)]
    # The last colour is that of the label -1.
    of_label = [*own, NO_LABEL_COLOR]
    return [of_label[k] for k in model.predict(rows, clusters=clusters)]


def _lines(n_components: int) -> list[tuple[float, float]]:
    """Return distances and widths of the lines of an ellipse: of many components, one thin line for each."""
    widths = (1.6, 0.9)
    return [(DEVIATIONS[0], widths[1])] if n_components > _MOST_DOUBLE else list(zip(DEVIATIONS, widths, strict=True))


def draw_ellipses(ax: Axes, view: View, look: Look, *, is_plain: bool = False) -> None:
    """Draw the ellipses of all components."""
    for k, (color, text) in enumerate(zip(look.colors, look.texts, strict=True)):
        line = outline(ax, color)
        if not is_plain:
            ax.fill(*view.ellipse(k, DEVIATIONS[0]), facecolor=(*color, 0.12), edgecolor="none")
        for deviations, width in _lines(len(look.colors)):
            label = text if deviations == DEVIATIONS[0] else None
            ax.plot(*view.ellipse(k, deviations), color=line, linewidth=width, label=label)


def _number_ellipses(ax: Axes, view: View, look: Look) -> None:
    """Write the numbers of components at their means, or on their ellipses where another number is at the mean."""
    style = _number_style(ax)
    limits = np.array([ax.get_xlim(), ax.get_ylim()]).T
    taken: list[FloatArray] = []
    for k, (color, number) in enumerate(zip(look.colors, look.numbers, strict=True)):
        ellipse = view.ellipse(k, DEVIATIONS[0])
        places = np.concatenate([view.means[k][None], ellipse[:, ::_PLACES].T])
        shares = (places - limits[0]) / (limits[1] - limits[0])
        is_free = [all(np.abs(share - other).max() > _APART for other in taken) for share in shares]
        place = is_free.index(True) if any(is_free) else 0
        taken.append(shares[place])
        x, y = places[place].tolist()
        ax.text(x, y, str(number), color=outline(ax, color), **style)


def _number_style(ax: Axes) -> dict[str, Any]:
    """Return the style of numbers of components, with an edge that sets them off from what is below."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground=ax.get_facecolor())]
    centre = {"ha": "center", "va": "center", "clip_on": True}
    return {**centre, "fontsize": "small", "fontweight": "bold", "path_effects": halo}


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
    doubt = 1.0 - model.predict_proba(rows, background=True).max(axis=1)
    # Uncertain rows on top.
    order = np.argsort(doubt, kind="stable")
    ax = axes_for(ax)
    for k in range(model.n_components):
        for deviations in DEVIATIONS:
            ax.plot(*view.ellipse(k, deviations), color=ink(ax, 0.3), linewidth=0.9, zorder=0)
    style = dots(len(rows)) | {"s": 6.0 + 30.0 * doubt[order], "alpha": 0.9}
    points = view.points(whole_rows(model, rows))[order]
    x, y = points.T
    shown = ax.scatter(x, y, c=doubt[order], cmap=_doubt_colors(), vmin=0.0, vmax=0.5, **style)
    limit_axes(ax, view, model.weights, points)
    name_axes(ax, *view.labels)
    make_room(ax)
    name = "uncertainty" if is_small(ax) else "probability of other components"
    color_bar(ax, shown, name, extend="max" if doubt.max() > 0.5 else None)
    return ax


def _doubt_colors() -> Any:
    """Return colours from certain to doubtful that can be seen on light and dark grounds."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("doubt", ["tab:blue", "goldenrod", "red"])


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
    ax = axes_for(ax)
    if p == 1:
        _draw_scores_of_one(ax, scores[:, 0], color, degrees)
    else:
        _draw_scores_of_two(ax, scores, [color] if groups is None else groups.row_colors, degrees)
        legend_beside(ax, groups)
    name_axes(ax, f"factor {shown[0]}", "density" if p == 1 else f"factor {shown[1]}")
    ax.set_title(f"component {k}: {len(selected)} rows", fontsize="small" if is_small(ax) else "medium")
    make_room(ax)
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
    grid = np.linspace(-REACH, REACH, POINTS)
    standard = Component(1.0, np.zeros(1), np.zeros((0, 1)), np.ones(1), degrees_of_freedom)
    density = np.exp(posterior.log_densities(Parameters.from_components([standard]), Samples(grid[:, None])))
    ax.plot(grid, density, color=ink(ax), linewidth=1.0, linestyle="--")
    if len(scores):
        draw_histogram(ax, scores, (*color, 0.4))


def _draw_scores_of_two(ax: Axes, scores: FloatArray, colors: Sequence[Color], degrees_of_freedom: float) -> None:
    # In the order of the rows, so that no colour covers all others.
    ax.scatter(*scores.T, color=colors, **dots(len(scores)))
    for deviations in DEVIATIONS:
        circle = radius_of_same_mass(degrees_of_freedom, deviations) * CIRCLE
        ax.plot(*circle, color=ink(ax, 0.6), linewidth=0.9, linestyle="--")
    ax.axhline(0.0, color=ink(ax, 0.15), linewidth=0.8, zorder=0)
    ax.axvline(0.0, color=ink(ax, 0.15), linewidth=0.8, zorder=0)
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
    ax = axes_for(ax)
    heights = np.repeat(proba[order], 2, axis=0)
    edges = np.repeat(np.arange(len(proba) + 1), 2)[1:-1]
    colors, texts = component_colors(model.n_components), legend_texts(model)
    ax.stackplot(edges, heights.T, colors=colors, labels=texts, linewidth=0, antialiased=False)
    ax.set_xlim(0, len(proba))
    ax.set_ylim(0.0, 1.0)
    _number_bands(ax, found[order])
    name_axes(ax, "rows, by component", "responsibility")
    legend_beside(ax, is_numbered=True)
    make_room(ax)
    return ax


def _number_bands(ax: Axes, found: NDArray[np.intp]) -> None:
    """Write the numbers of components on the bands of their rows, which are sorted, where a band is wide enough."""
    width, _ = points_of(ax)
    for k in np.unique(found).tolist():
        rows = np.flatnonzero(found == k)
        if len(rows) / len(found) * width > _DIGIT * len(str(k)):
            ax.text(float(rows.mean()) + 0.5, 0.5, str(k), color=ink(ax), **_number_style(ax))
