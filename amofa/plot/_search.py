"""Pictures of a search: the cost and the number of components of every model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._model.base import BaseMixture
from amofa.history import LiveStep, Step
from amofa.plot._axes import axes_for, legend_above, pyplot, shortened, whole_ticks
from amofa.plot._rows import clusters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

Kind = TypeVar("Kind", bound=Step)

_MARKERS = {
    **{"start": "o", "split": "^", "factor": "s", "merge": "v", "overshoot": "*", "exchange": "d"},
    **{"remove": "X", "refine": "D", "share": "P"},
}
_ACCEPTED, _REJECTED, _COMPONENTS = "tab:blue", "tab:red", "0.55"
# Number of characters of a label in a panel.
_LABEL_LENGTH = 22
# How to get steps with their models, for error messages.
_COLLECT = "collect them with amofa.fit(X, callback=steps.append)"
# Number of panels side by side, and the size of one in inches.
_PANELS, _PANEL_SIZE = 4, (3.2, 2.7)


def evolution(search: MixtureOfFactorAnalyzers | Sequence[Step], *, ax: Axes | None = None) -> Axes:
    """Draw the search step by step: the cost of each model, accepted or rejected, and its number of components.

    Parameters
    ----------
    search : MixtureOfFactorAnalyzers or sequence of Step
        A fitted model, or the steps that a callback received.
    ax : matplotlib.axes.Axes, optional
        For the cost; the number of components gets an axis on the right.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If there are no steps.

    Examples
    --------
    >>> import amofa
    >>> ax = evolution(amofa.fit(np.random.default_rng(0).normal(size=(50, 2)), max_components=1))
    >>> ax.get_xlabel()
    'step'
    """
    steps = _steps(search)
    criterion = search.criterion if isinstance(search, BaseMixture) else None
    ax = axes_for(ax)
    _draw_steps(ax, steps, np.array([step.cost for step in steps]))
    ax.set_ylabel("cost, nats" if criterion is None else f"cost ({criterion}), nats")
    numbers = ax.twinx()
    accepted = [i for i, step in enumerate(steps) if step.accepted]
    counts = [steps[i].n_components for i in accepted]
    numbers.step([*accepted, len(steps) - 1], [*counts, counts[-1]], where="post", color=_COMPONENTS, linewidth=1.0)
    numbers.set_ylabel("components (grey)")
    numbers.set_ylim(0, max(step.n_components for step in steps) + 1)
    whole_ticks(numbers.yaxis)
    # Costs on top of the grey line.
    ax.set_zorder(numbers.get_zorder() + 1)
    ax.patch.set_visible(False)
    return ax


def message_length(search: MixtureOfFactorAnalyzers | Sequence[Step], *, ax: Axes | None = None) -> Axes:
    """Draw the message length of the paper for every model of the search, whatever the criterion was.

    Parameters
    ----------
    search : MixtureOfFactorAnalyzers or sequence of Step
        A fitted model, or the steps that a callback received.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If there are no steps.

    Examples
    --------
    >>> import amofa
    >>> ax = message_length(amofa.fit(np.random.default_rng(0).normal(size=(50, 2)), max_components=1))
    >>> ax.get_ylabel()
    'message length, nats'
    """
    steps = _steps(search)
    ax = axes_for(ax)
    _draw_steps(ax, steps, np.array([step.message_length for step in steps]))
    ax.set_ylabel("message length, nats")
    return ax


def _steps(search: MixtureOfFactorAnalyzers | Sequence[Step]) -> tuple[Step, ...]:
    if isinstance(search, BaseMixture):
        steps = search.history
    else:
        steps = _check_steps("search", search, Step, "a fitted model, or steps of a search")
    if not steps:
        raise ValueError("there are no steps of a search; only models of amofa.fit have a history")
    return steps


def _check_steps(name: str, steps: Any, kind: type[Kind], wanted: str) -> tuple[Kind, ...]:
    """Check that steps are of one kind."""
    entries = tuple(steps) if isinstance(steps, Iterable) else (steps,)
    strange = [type(entry).__name__ for entry in entries if not isinstance(entry, kind)]
    if strange or not isinstance(steps, Iterable):
        raise TypeError(f"{name} must be {wanted}; got {strange[0] if strange else type(steps).__name__}")
    return entries


def _draw_steps(ax: Axes, steps: Sequence[Step], values: NDArray[np.float64]) -> None:
    """Draw a line through accepted steps, a marker for every step, and a ring around the lowest accepted value."""
    taken = np.array([step.accepted for step in steps])
    positions = np.arange(len(steps))
    ax.plot(positions[taken], values[taken], color=_ACCEPTED, linewidth=1.2)
    for action, marker in _MARKERS.items():
        of_action = np.array([step.action == action for step in steps])
        for chosen, face in ((of_action & taken, _ACCEPTED), (of_action & ~taken, "white")):
            if chosen.any():
                edge = _ACCEPTED if face == _ACCEPTED else _REJECTED
                label = action if face == _ACCEPTED else f"{action}, rejected"
                ax.plot(positions[chosen], values[chosen], marker, mfc=face, mec=edge, ms=6, label=label)
    best = positions[taken][np.argmin(values[taken])]
    ax.plot(best, values[best], "o", mfc="none", mec="black", ms=13, label="lowest")
    ax.set_xlabel("step")
    whole_ticks(ax.xaxis)
    legend_above(ax, 4)


def snapshots(
    steps: Sequence[LiveStep],
    X: ArrayLike,
    *,
    columns: Sequence[int | str] | None = None,
    ax: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Draw the models that the search continued from, one panel for each, as in the figure of the paper.

    Parameters
    ----------
    steps : sequence of LiveStep
        What the callback of ``amofa.fit`` received; the callback can be ``steps.append`` of a list.
    X : (n, d) array-like
        The rows.
    columns : two of int or str, optional
        As in `clusters`; by default every panel has its own plane, if there are more than two columns.
    ax : sequence of matplotlib.axes.Axes, optional
        At least one for each accepted step.

    Returns
    -------
    (m,) ndarray of matplotlib.axes.Axes
        Titled with the action and the cost of the step; the lowest cost is bold.

    Raises
    ------
    TypeError, ValueError
        If there are no steps with models, or not enough axes.

    Examples
    --------
    >>> import amofa
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [9, 9]], 30, axis=0)
    >>> steps = []
    >>> model = amofa.fit(X, callback=steps.append)
    >>> snapshots(steps, X)[1].get_title().partition(":")[0]
    'split'
    """
    wanted = f"those that a callback was given, with their models; {_COLLECT}"
    accepted = [step for step in _check_steps("steps", steps, LiveStep, wanted) if step.accepted]
    if not accepted:
        raise ValueError(f"there are no steps; {_COLLECT}")
    panels = _new_panels(len(accepted)) if ax is None else np.array(ax, dtype=object).ravel()
    if len(panels) < len(accepted):
        raise ValueError(f"ax has {len(panels)} axes for {len(accepted)} accepted steps; pass one for each")
    lowest = min(step.cost for step in accepted)
    for panel, step in zip(panels, accepted, strict=False):
        clusters(step.model, X, columns=columns, ax=panel)
        panel.get_legend().remove()
        _shorten_labels(panel, of_directions=columns is None and step.model.n_features > 2)
        weight = "bold" if step.cost == lowest else "normal"
        panel.set_title(f"{step.action}: {step.cost:.1f}", fontsize="medium", fontweight=weight)
    return panels[: len(accepted)]


def _shorten_labels(panel: Axes, *, of_directions: bool) -> None:
    """Shorten the labels of a small panel: a direction to its number, a long name to its beginning."""
    for i, axis in enumerate((panel.xaxis, panel.yaxis)):
        text = f"direction {i + 1}" if of_directions else shortened(axis.label.get_text(), _LABEL_LENGTH)
        axis.set_label_text(text, fontsize="small")


def _new_panels(n: int) -> NDArray[Any]:
    columns = min(n, _PANELS)
    rows = -(-n // columns)
    size = _PANEL_SIZE[0] * columns, _PANEL_SIZE[1] * rows
    figure, axes = pyplot().subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(hspace=0.06, wspace=0.04)
    for unused in axes.flat[n:]:
        unused.set_visible(False)
    panels: NDArray[Any] = axes.ravel()[:n]
    return panels
