"""Axes, colours, legends and the rows to draw, for all pictures. Only this module imports matplotlib, on demand."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.labels import label_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Color = tuple[float, float, float]

# More rows than this make a blot, and a large file.
_MOST_ROWS = 20_000
# The colours of matplotlib's "tab10"; further ones go around the colour circle by the golden ratio.
_FIRST_COLORS: tuple[Color, ...] = (
    (0.122, 0.467, 0.706),
    (1.0, 0.498, 0.055),
    (0.173, 0.627, 0.173),
    (0.839, 0.153, 0.157),
    (0.58, 0.404, 0.741),
    (0.549, 0.337, 0.294),
    (0.89, 0.467, 0.761),
    (0.498, 0.498, 0.498),
    (0.737, 0.741, 0.133),
    (0.09, 0.745, 0.812),
)
_GOLDEN_RATIO = 0.618034
# Entries in one column of a legend, the width of the column in inches, and the maximum number of columns.
_LEGEND_ROWS, _LEGEND_WIDTH, _LEGEND_COLUMNS = 18, 1.5, 4
# Name and colour of rows without a label.
_NO_LABEL, _NO_LABEL_COLOR = "no label", (0.75, 0.75, 0.75)


def pyplot() -> Any:
    """Return the module matplotlib.pyplot, or raise an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: python -m pip install 'amofa[plot]'") from error
    return plt


def use_files() -> None:
    """Draw figures into files, not windows, even if there is a screen.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    pyplot().switch_backend("agg")


def axes_for(ax: Axes | None, *, size: tuple[float, float] = (6.4, 4.8), n_entries: int = 0) -> Axes:
    """Return the given axes, or those of a new figure of a size in inches, wider for a legend with many columns."""
    plt = pyplot()
    if ax is None:
        wider = _LEGEND_WIDTH * (legend_columns(n_entries) - 1)
        _, ax = plt.subplots(figsize=(size[0] + wider, size[1]), layout="constrained")
    elif not isinstance(ax, plt.Axes):
        raise TypeError(f"ax must be matplotlib axes, got {type(ax).__name__}")
    elif hasattr(ax, "get_zlim"):
        raise TypeError("ax must be axes of two dimensions, got ones of three; make them without projection='3d'")
    return ax


def component_colors(n: int) -> list[Color]:
    """Return the colours of n components: red, green and blue from 0 to 1."""
    further = range(len(_FIRST_COLORS), n)
    return [*_FIRST_COLORS[:n], *(colorsys.hsv_to_rgb(k * _GOLDEN_RATIO % 1.0, 0.65, 0.8) for k in further)]


def darker(color: Color) -> Color:
    """Return a darker colour, for lines among points of the same colour."""
    red, green, blue = color
    return 0.6 * red, 0.6 * green, 0.6 * blue


def legend_columns(n_entries: int) -> int:
    return min(max(1, -(-n_entries // _LEGEND_ROWS)), _LEGEND_COLUMNS)


def legend_beside(ax: Axes, groups: Groups | None = None) -> None:
    """Put a legend to the right of the axes: everything that has a label, and groups of rows.

    If there are more entries than there is room for, the last one says how many are left out.
    """
    handles, texts = ax.get_legend_handles_labels()
    most = _LEGEND_ROWS * _LEGEND_COLUMNS
    if groups is not None:
        handles += [ax.scatter([], [], color=color) for color in groups.colors[:most]]
        texts += map(plain_text, groups.names)
    if not handles:
        return
    if len(texts) > most:
        texts[most - 1 :] = [f"and {len(texts) - most + 1} more"]
        handles[most - 1 :] = ax.plot([], [], linestyle="none")
    legend = ax.legend(
        handles,
        ["?"] * len(handles),
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize="small",
        ncols=legend_columns(len(handles)),
    )
    # Set afterwards: matplotlib leaves out handles whose labels begin with "_".
    for entry, text in zip(legend.get_texts(), texts, strict=True):
        entry.set_text(text)


def plain_text(text: str) -> str:
    """Escape a text so that matplotlib shows it literally, not what is between dollar signs as a formula."""
    return text.replace("$", r"\$")


def shortened(text: str, length: int) -> str:
    """Shorten a text from `plain_text` to a number of visible characters."""
    shown = text.replace(r"\$", "$")
    return text if len(shown) <= length else plain_text(f"{shown[: length - 1]}…")


def legend_above(ax: Axes, columns: int) -> None:
    """Put a legend above the axes."""
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", ncols=columns)


def whole_ticks(axis: Axis) -> None:
    """Put ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def drawn_rows(n: int) -> NDArray[np.intp]:
    """Return the positions of the rows to draw: all of them, or evenly spaced ones."""
    return np.arange(n) if n <= _MOST_ROWS else np.linspace(0, n - 1, _MOST_ROWS).astype(np.intp)


def dots(n: int) -> dict[str, Any]:
    """Return the style of points: the more there are, the smaller."""
    size = float(np.clip(6000.0 / max(n, 1), 2.0, 18.0))
    return {"s": size, "linewidths": 0, "alpha": 0.6, "rasterized": n > 2000}


@dataclass(frozen=True)
class Groups:
    """Rows grouped by their labels."""

    numbers: NDArray[np.intp]  # the group of each row, (n,)
    names: list[str]  # the sorted labels, and the name of rows without one, if any
    colors: list[Color]  # of the groups

    @property
    def row_colors(self) -> list[Color]:
        """Return the colour of each row."""
        return [self.colors[number] for number in self.numbers.tolist()]

    def among(self, rows: NDArray[np.intp]) -> Groups:
        """Return the groups of some rows, with the same colours."""
        kept, numbers = np.unique(self.numbers[rows], return_inverse=True)
        return Groups(numbers, [self.names[k] for k in kept], [self.colors[k] for k in kept])


def make_groups(labels: ArrayLike, n: int) -> Groups:
    """Group rows by labels of any kind, one for each (else ValueError); None and NaN mean no label.

    Examples
    --------
    >>> groups = make_groups(["b", None, "a"], 3)
    >>> groups.numbers.tolist(), groups.names
    ([1, 2, 0], ['a', 'b', 'no label'])
    """
    array, lacking = label_array(labels, n)
    try:
        kinds, numbers = np.unique(array[~lacking], return_inverse=True)
    except TypeError:  # numbers beside text have no order
        kinds, numbers = np.unique(array[~lacking].astype(str), return_inverse=True)
    groups = np.full(n, len(kinds))
    groups[~lacking] = numbers
    names, colors = [str(kind) for kind in kinds.tolist()], component_colors(len(kinds))
    if lacking.any():
        return Groups(groups, [*names, _NO_LABEL], [*colors, _NO_LABEL_COLOR])
    return Groups(groups, names, colors)
