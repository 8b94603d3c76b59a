"""A picture of a scan: a criterion against the number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amofa._data.checks import check_choice
from amofa._model.scan_table import Scan
from amofa.plot._axes import axes_for, component_colors, ink, whole_ticks
from amofa.plot._room import legend_above, make_room, name_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "o^sDvPX*"
_CRITERIA = ("cost", "bic", "icl")


def scan(scan: Scan, *, criterion: str = "cost", ax: Axes | None = None) -> Axes:
    """Draw a criterion against the number of components, a line for each kind of noise; a ring marks the lowest.

    Parameters
    ----------
    scan : Scan
        The result of `amofa.scan`.
    criterion : {"cost", "bic", "icl"}, default "cost"
        What is drawn: the criterion that the fits minimised, or one that they did not. Lower is better.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If it is not a scan, or there is no such criterion.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> ax = scan(amofa.scan(X, [1, 2, 3], noise="component"))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('number of components', 'cost (evidence), nats')
    """
    if not isinstance(scan, Scan):
        raise TypeError(f"scan must be the result of amofa.scan, got {type(scan).__name__}")
    check_choice("criterion", criterion, _CRITERIA)
    ax = axes_for(ax)
    kinds = list(dict.fromkeys(row.noise for row in scan))
    for kind, marker, color in zip(kinds, _MARKERS, component_colors(len(kinds)), strict=False):
        rows = [row for row in scan if row.noise == kind]
        values = [getattr(row, criterion) for row in rows]
        ax.plot([row.n_components for row in rows], values, marker=marker, ms=5, lw=1.2, color=color, label=kind)
    best = min(scan, key=lambda row: float(getattr(row, criterion)))
    ax.plot(best.n_components, getattr(best, criterion), "o", mfc="none", mec=ink(ax), ms=13, label="lowest")
    name = f"cost ({scan.criterion}), nats" if criterion == "cost" else criterion.upper()
    name_axes(ax, "number of components", name)
    whole_ticks(ax.xaxis)
    legend_above(ax)
    make_room(ax)
    return ax
