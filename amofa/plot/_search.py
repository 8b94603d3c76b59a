"""Pictures of a search: the cost and the number of components of every model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import check_whole_number
from amofa._model.base import BaseMixture
from amofa.history import LiveStep, Step
from amofa.plot._axes import Color, axes_for, component_colors, drawn_rows, ink, log_scale, pyplot, whole_ticks
from amofa.plot._plane import View, check_model, check_rows, make_view
from amofa.plot._room import is_small, legend_above, make_room, name_axes
from amofa.plot._rows import Look, draw_clusters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amofa.mixture import MixtureOfFactorAnalyzers

Kind = TypeVar("Kind", bound=Step)

_MARKERS = {
    **{"start": "o", "split": "^", "factor": "s", "merge": "v", "overshoot": "*", "exchange": "d"},
    **{"remove": "X", "refine": "D", "share": "P", "tails": "p", "background": "h", "drop": "<"},
}
_ACCEPTED, _REJECTED, _COMPONENTS = "tab:blue", "tab:red", "0.55"
# Differences of costs up to this, in nats, are drawn on a linear scale, so that the last decisions can be seen.
_LINEAR = 1.0
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
    ax = axes_for(ax)
    costs = np.array([step.cost for step in steps])
    result = _result(steps)
    _draw_steps(ax, steps, costs - costs[result], result)
    log_scale(ax, _LINEAR)
    ax.set_ylim(bottom=min(-0.3, 1.3 * float((costs - costs[result]).min())))
    _finish_steps(ax, f"cost above {costs[result]:.1f} nats{_named(search)}")
    numbers = ax.twinx()
    accepted = [i for i, step in enumerate(steps) if step.accepted]
    counts = [steps[i].n_components for i in accepted]
    numbers.step([*accepted, len(steps) - 1], [*counts, counts[-1]], where="post", color=_COMPONENTS, linewidth=1.0)
    name_axes(numbers, "", "components (grey)")
    numbers.set_ylim(0, max(step.n_components for step in steps) + 1)
    whole_ticks(numbers.yaxis)
    # Costs on top of the grey line.
    ax.set_zorder(numbers.get_zorder() + 1)
    ax.patch.set_visible(False)
    make_room(ax, numbers)
    return ax


def cost(search: MixtureOfFactorAnalyzers | Sequence[Step], *, ax: Axes | None = None) -> Axes:
    """Draw the cost of each model that the search tried against its number of components, and mark the result.

    Costs are drawn as differences from the result, up to one nat on a linear scale, above on a logarithmic one.

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
    >>> ax = cost(amofa.fit(np.random.default_rng(0).normal(size=(50, 2)), max_components=1))
    >>> ax.get_xlabel()
    'number of components'
    """
    steps = _steps(search)
    ax = axes_for(ax)
    result = _result(steps)
    values = np.array([step.cost for step in steps]) - steps[result].cost
    numbers = np.array([step.n_components for step in steps])
    taken = np.array([step.accepted for step in steps])
    kinds = sorted(set(numbers.tolist()))
    ax.plot(kinds, [values[numbers == K].min() for K in kinds], color=ink(ax, 0.5), linewidth=1.0, label="lowest")
    ax.plot(numbers[~taken], values[~taken], "o", mfc="none", mec=_REJECTED, ms=5, label="rejected")
    ax.plot(numbers[taken], values[taken], "o", mfc=_ACCEPTED, mec=_ACCEPTED, ms=5, label="accepted")
    ax.plot(numbers[result], 0.0, "o", mfc="none", mec=ink(ax), ms=13, label="result")
    log_scale(ax, _LINEAR)
    ax.set_ylim(bottom=min(-0.3, 1.3 * float(values.min())))
    name_axes(ax, "number of components", f"cost above {steps[result].cost:.1f} nats{_named(search)}")
    whole_ticks(ax.xaxis)
    legend_above(ax)
    make_room(ax)
    return ax


def _named(search: Any) -> str:
    """Return " (criterion)" of a model, if it has one."""
    return f" ({search.criterion})" if isinstance(search, BaseMixture) else ""


def _result(steps: Sequence[Step]) -> int:
    """Return the step whose model is the result: the last of the cheapest that were accepted."""
    accepted = [i for i, step in enumerate(steps) if step.accepted]
    return min(accepted, key=lambda i: (steps[i].cost, -i))


def message_length(search: MixtureOfFactorAnalyzers | Sequence[Step], *, ax: Axes | None = None) -> Axes:
    """Draw the message length of the paper for every model of the search, whatever the criterion was.

    The result is marked, which has the lowest message length if that was the criterion. `cost` draws what the search
    minimised.

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
    _draw_steps(ax, steps, np.array([step.message_length for step in steps]), _result(steps))
    _finish_steps(ax, "message length, nats")
    make_room(ax)
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


def _draw_steps(ax: Axes, steps: Sequence[Step], values: NDArray[np.float64], result: int) -> None:
    """Draw a line through accepted steps, a marker for every step, and a ring around the result.

    Actions are named if there is room for that.
    """
    taken = np.array([step.accepted for step in steps])
    positions = np.arange(len(steps))
    small = is_small(ax)
    ax.plot(positions[taken], values[taken], color=_ACCEPTED, linewidth=1.2, label="accepted" if small else None)
    ground = ax.get_facecolor()
    for action, marker in _MARKERS.items():
        of_action = np.array([step.action == action for step in steps])
        label = "_" if small else action
        for chosen, face in ((of_action & taken, _ACCEPTED), (of_action & ~taken, ground)):
            if chosen.any():
                edge = _ACCEPTED if face == _ACCEPTED else _REJECTED
                ax.plot(positions[chosen], values[chosen], marker, mfc=face, mec=edge, ms=6, label=label)
                label = "_"
    if not taken.all():
        ax.plot([], [], "o", mfc=ground, mec=_REJECTED, ms=6, label="rejected")
    ax.plot(result, values[result], "o", mfc="none", mec=ink(ax), ms=13, label="result")


def _finish_steps(ax: Axes, name: str) -> None:
    """Name the axes of a picture of steps, and explain its markers."""
    name_axes(ax, "step", name)
    whole_ticks(ax.xaxis)
    legend_above(ax)


def snapshots(
    steps: Sequence[LiveStep],
    X: ArrayLike,
    *,
    columns: Sequence[int | str] | None = None,
    n_panels: int = 12,
    ax: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Draw the models that the search continued from, one panel for each, as in the figure of the paper.

    If there are more than `n_panels`, these are drawn, in their order: the first, the last, the result, those that
    lowered the cost most below the lowest before, and then those that changed the cost most.

    Parameters
    ----------
    steps : sequence of LiveStep
        What the callback of ``amofa.fit`` received; the callback can be ``steps.append`` of a list.
    X : (n, d) array-like
        The rows.
    columns : two of int or str, optional
        By default the plane of the last model, as in `clusters`, if there are more than two columns. It is the same in
        all panels.
    n_panels : int, default 12
        The most panels, at least 3. For steps of your own choice, pass only these.
    ax : sequence of matplotlib.axes.Axes, optional
        At least one for each panel.

    Returns
    -------
    (m,) ndarray of matplotlib.axes.Axes
        Titled with the action and the cost of the step; the lowest cost is bold.

    Raises
    ------
    TypeError, ValueError
        If there are no steps with models, too few panels, or not enough axes.

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
    accepted = _telling(accepted, check_whole_number("n_panels", n_panels, at_least=3))
    panels = _new_panels(len(accepted)) if ax is None else np.array(ax, dtype=object).ravel()
    if len(panels) < len(accepted):
        raise ValueError(
            f"ax has {len(panels)} axes for {len(accepted)} accepted steps; pass one for each, or a lower n_panels"
        )
    models = [check_model(step.model) for step in accepted]
    best = _result(accepted)
    table = check_rows(models[best], X)
    plane = make_view(models[best], columns)
    colors = _kept_colors(models, table[drawn_rows(len(table))])
    for i, (panel, step, model) in enumerate(zip(panels, accepted, models, strict=False)):
        look = Look(colors[i], [None] * model.n_components, list(range(model.n_components)))
        draw_clusters(panel, model, plane.of(model), table, look)
        # Limits of the rows, which are the same in all panels.
        name_axes(panel, *_short_labels(plane, is_plane=columns is None and model.n_features > 2), size="small")
        panel.set_title(
            f"{step.action}: {step.cost:.1f}", fontsize="medium", fontweight="bold" if i == best else "normal"
        )
    return panels[: len(accepted)]


def _telling(steps: Sequence[LiveStep], number: int) -> list[LiveStep]:
    """Return at most a number of the steps, those from which the way to the result can be seen best."""
    costs = np.array([step.cost for step in steps])
    before = np.minimum.accumulate(costs)[:-1]
    gains = np.maximum(before - costs[1:], 0.0)
    changes = np.abs(np.diff(costs))
    by_worth = 1 + np.lexsort((-changes, -gains))
    chosen = dict.fromkeys([0, len(steps) - 1, _result(steps), *by_worth.tolist()])
    return [steps[i] for i in sorted(list(chosen)[:number])]


def _kept_colors(models: Sequence[MixtureOfFactorAnalyzers], rows: NDArray[Any]) -> list[list[Color]]:
    """Return the colours of the components of each model; those with the same rows keep theirs from model to model."""
    # Imported here, as scipy.optimize is in `amofa.plot._plane`, for the sake of `import amofa`.
    from scipy.optimize import linear_sum_assignment

    palette = component_colors(2 * max(model.n_components for model in models))
    numbers = [list(range(models[0].n_components))]
    before = models[0].predict(rows)
    for model in models[1:]:
        labels = model.predict(rows)
        common = np.zeros((len(numbers[-1]), model.n_components))
        in_groups = (before >= 0) & (labels >= 0)
        np.add.at(common, (before[in_groups], labels[in_groups]), 1.0)
        old, new = linear_sum_assignment(-common)
        kept = {int(k): numbers[-1][j] for j, k in zip(old, new, strict=True) if common[j, k] > 0}
        free = (c for c in range(len(palette)) if c not in kept.values())
        numbers.append([kept[k] if k in kept else next(free) for k in range(model.n_components)])
        before = labels
    return [[palette[c] for c in of_model] for of_model in numbers]


def _short_labels(view: View, *, is_plane: bool) -> tuple[str, str]:
    """Return labels for small panels: a direction by its number, a column by its name."""
    return ("direction 1", "direction 2") if is_plane else view.labels


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
