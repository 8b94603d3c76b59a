"""Pictures of a mixture without rows, and the choice of a default picture."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from amofa._data.checks import check_choice, check_whole_number
from amofa._typing import FloatArray
from amofa.plot._axes import axes_for
from amofa.plot._density import contours, density, outliers
from amofa.plot._plane import check_model, feature_names
from amofa.plot._profiles import pairs, profiles
from amofa.plot._room import color_bar, is_small, make_room, name_lines, plain_text, points_of
from amofa.plot._rows import clusters, factor_scores, responsibilities, uncertainty
from amofa.plot._search import cost, evolution, message_length
from amofa.plot._tree import tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

# Size of a cell of a heat map, and the smallest and largest figure, in inches.
_CELL, _LEAST, _MOST = 0.24, (5.8, 3.6), (14.0, 12.0)
# Points from one number of a factor to the next, and the share of the axes that names and colour bar leave.
_NUMBER_WIDTH, _LEFT = 11.0, 0.6


def loadings(
    model: MixtureOfFactorAnalyzers, *, component: int | None = None, scaled: bool = True, ax: Axes | None = None
) -> Axes:
    """Draw a heat map of loadings: one row for each column of the table, the factors of the components side by side.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    component : int, optional
        Only this one; by default all that have factors.
    scaled : bool, default True
        Divide by each column's standard deviation within the component, which gives correlations of columns and
        factors. Otherwise loadings are in the columns' own units.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If there is no such component, or it has no factors.

    Examples
    --------
    >>> import amofa
    >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[3.0], [0.0]]], [[16.0, 1.0]])
    >>> ax = loadings(model)
    >>> ax.images[0].get_array().tolist()
    [[0.6], [0.0]]
    """
    check_model(model)
    if component is None:
        components = np.flatnonzero(model.n_factors).tolist()
        if not components:
            raise ValueError("the model has no factors, and so no loadings")
    else:
        components = [check_whole_number("component", component, at_least=0, at_most=model.n_components - 1)]
        if model.n_factors[components[0]] == 0:
            raise ValueError(f"component {component} has no factors, and so no loadings")
    table = np.concatenate([_heat(model, k, scaled) for k in components], axis=1)
    size = np.clip(_CELL * np.array(table.shape[::-1]) + 2.0, _LEAST, _MOST)
    ax = axes_for(ax, size=(float(size[0]), float(size[1])))
    largest = 1.0 if scaled else float(np.abs(table).max()) or 1.0
    image = ax.imshow(table, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest")
    name_lines(ax, [plain_text(name) for name in feature_names(model)])
    _name_factors(ax, components, [int(model.n_factors[k]) for k in components])
    make_room(ax)
    correlation = "correlation" if is_small(ax) else "correlation of column and factor"
    color_bar(ax, image, correlation if scaled else "loading")
    return ax


def _heat(model: MixtureOfFactorAnalyzers, k: int, scaled: bool) -> FloatArray:
    """Return the loadings (d, p_k) of component k in the units of the picture."""
    values = model.loadings[k]
    if not scaled:
        return values
    correlations: FloatArray = values / np.sqrt((values**2).sum(axis=1) + model.uniquenesses[k])[:, None]
    return correlations


def _name_factors(ax: Axes, components: list[int], n_factors: list[int]) -> None:
    """Number the factors below and the components above, with lines between components."""
    ends = np.cumsum(n_factors)
    numbers = [str(q) for p in n_factors for q in range(p)]
    step = max(1, -int(-len(numbers) * _NUMBER_WIDTH // (_LEFT * points_of(ax)[0])))
    ax.set_xticks(range(0, len(numbers), step), numbers[::step], fontsize="small")
    ax.set_xlabel("factor", fontsize="small" if is_small(ax) else "medium")
    for end in ends[:-1]:
        ax.axvline(end - 0.5, color="black", linewidth=1.0)
    top = ax.secondary_xaxis("top")
    top.set_xticks((ends - np.array(n_factors) / 2 - 0.5).tolist(), [str(k) for k in components])
    top.set_xlabel("component", fontsize="small" if is_small(ax) else "medium")
    top.tick_params(length=0, labelsize="small" if is_small(ax) else "medium")


def sensible(
    model: MixtureOfFactorAnalyzers, X: ArrayLike | None = None, *, kind: str | None = None, **options: Any
) -> Axes:
    """Draw the picture of `amofa.MixtureOfFactorAnalyzers.plot`.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    X : (n, d) array-like, optional
        With rows: `density` if there is one column, `clusters` otherwise. Without rows: `loadings`, or `evolution` if
        there are no factors, or `clusters` or `density` without rows if the model was made from arrays.
    kind : str, optional
        The name of the function that draws instead.
    **options
        Passed to the function that draws.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError
        If the function that draws has no such option, needs rows, or takes none.
    ValueError
        If there is no such kind of picture.

    Examples
    --------
    >>> import amofa
    >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0]], [np.zeros((1, 0))], [[1.0]])
    >>> sensible(model).get_ylabel()
    'density'
    """
    check_model(model)
    draw = suitable(model, with_rows=X is not None) if kind is None else _draws(kind, with_rows=X is not None)
    unknown = [name for name in options if name not in signature(draw).parameters]
    if unknown:
        without = " without rows" if X is None else ""
        raise TypeError(
            f"{unknown[0]} is not an option of amofa.plot.{draw.__name__}, which draws this model{without}; "
            f"{'pass X, or ' if X is None else ''}call the function of amofa.plot that has it"
        )
    drawn: Axes = draw(model, **options) if X is None else draw(model, X, **options)
    return drawn


def _draws(kind: str, *, with_rows: bool) -> Callable[..., Any]:
    """Return the function that draws a kind of picture, after a check that it has the rows it needs."""
    check_choice("kind", kind, tuple(_KINDS))
    draw = _KINDS[kind]
    rows = signature(draw).parameters.get("X")
    if with_rows and rows is None:
        raise TypeError(f"amofa.plot.{kind} takes no rows; leave out X")
    if not with_rows and rows is not None and rows.default is Parameter.empty:
        raise TypeError(f"amofa.plot.{kind} needs rows; pass X")
    return draw


def suitable(model: MixtureOfFactorAnalyzers, *, with_rows: bool) -> Callable[..., Any]:
    """Return the function that `sensible` draws with.

    Examples
    --------
    >>> import amofa
    >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0]], [np.zeros((1, 0))], [[1.0]])
    >>> suitable(model, with_rows=False).__name__
    'density'
    """
    if not with_rows and model.n_factors.any():
        return loadings
    if not with_rows and model.history:
        return evolution
    return density if model.n_features == 1 else clusters


# The pictures of a model, by the names of their functions.
_KINDS: dict[str, Callable[..., Any]] = {
    draw.__name__: draw
    for draw in (
        clusters,
        contours,
        cost,
        density,
        evolution,
        factor_scores,
        loadings,
        message_length,
        outliers,
        pairs,
        profiles,
        responsibilities,
        tree,
        uncertainty,
    )
}
