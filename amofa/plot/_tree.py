"""A picture of the tree of joins of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from amofa._model.cluster_costs import JOINED_COST
from amofa._model.clusters import Clusters
from amofa.plot._axes import axes_for, component_colors, ink, log_scale
from amofa.plot._plane import check_model
from amofa.plot._room import make_room, name_axes, points_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

# Costs above this, in nats, are drawn on a logarithmic scale: far groups would press the cheap joins to the bottom.
_LINEAR = 1.0
# Inches for each component, up to a whole width; and at most this number of them is named.
_WIDTH, _MOST_WIDTH = 0.25, 14.0
_MOST_NAMES = 60
# Points from one number of a component to the next.
_NAME_WIDTH = 13.0


def tree(model: MixtureOfFactorAnalyzers, *, clusters: Clusters | int | str = "auto", ax: Axes | None = None) -> Axes:
    """Draw the tree of joins of the components, by their costs, in the colours of the clusters.

    A dashed line marks the cost up to which joins are made by default, whatever the others cost.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    clusters : Clusters, int or "auto", default "auto"
        The clusters that are coloured, as in `amofa.MixtureOfFactorAnalyzers.predict`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If clusters are not those of the model.

    Examples
    --------
    >>> import amofa
    >>> means = [[0.0], [1.5], [9.0]]
    >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.3, 0.2], means, [np.zeros((1, 0))] * 3, np.ones((3, 1)))
    >>> ax = tree(model)
    >>> [tick.get_text() for tick in ax.get_xticklabels()], ax.get_ylabel()
    (['2', '0', '1'], 'cost of the join, nats')
    """
    check_model(model)
    found = model._chosen_clusters(clusters)
    K = found.n_components
    ax = axes_for(ax, size=(float(np.clip(_WIDTH * K, 6.4, _MOST_WIDTH)), 4.8))
    leaves = _leaves(found)
    colors = component_colors(found.n_clusters)
    # Of each part of the tree: where it is, its cost, and the cluster that it belongs to, if it is one.
    x = {k: float(place) for place, k in enumerate(leaves)}
    y = dict.fromkeys(range(K), 0.0)
    owner: dict[int, int | None] = dict(enumerate(found.labels.tolist()))
    for made, join in enumerate(found.joins, start=K):
        a, b = join.first, join.second
        cluster = owner[made] = owner[a] if owner[a] == owner[b] else None
        color = ink(ax, 0.7) if cluster is None else colors[cluster]
        ax.plot([x[a], x[a], x[b], x[b]], [y[a], join.cost, join.cost, y[b]], color=color, lw=1.4)
        x[made], y[made] = (x[a] + x[b]) / 2, join.cost
    for k in range(K):
        ax.plot(x[k], 0.0, "o", ms=5, color=colors[found.labels[k]], clip_on=False)
    ax.axhline(JOINED_COST, color=ink(ax, 0.4), lw=1.0, ls="--")
    if found.joins and found.joins[-1].cost > 3 * _LINEAR:
        log_scale(ax, _LINEAR)
    if found.joins:
        ax.set_ylim(top=1.15 * max(found.joins[-1].cost, JOINED_COST))
    ax.set_ylim(bottom=0.0)
    step = -(-K // min(_MOST_NAMES, max(1, int(points_of(ax)[0] / _NAME_WIDTH))))
    ax.set_xticks(range(0, K, step), [str(k) for k in leaves[::step]], fontsize="small")
    name_axes(ax, "component", "cost of the join, nats")
    make_room(ax)
    return ax


def _leaves(clusters: Clusters) -> list[int]:
    """Return the components in an order in which no branches cross."""
    K = clusters.n_components
    groups = {k: [k] for k in range(K)}
    for made, join in enumerate(clusters.joins, start=K):
        groups[made] = groups.pop(join.first) + groups.pop(join.second)
    (leaves,) = groups.values()
    return leaves
