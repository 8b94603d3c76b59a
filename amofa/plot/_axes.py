"""Axes, colours, scales and the rows to draw, for all pictures. Matplotlib is imported on demand."""

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
# Name and colour of rows without a label.
_NO_LABEL, NO_LABEL_COLOR = "no label", (0.75, 0.75, 0.75)


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


def picture_formats() -> list[str]:
    """Return the extensions of the files that figures can be written to, such as ".png"."""
    return sorted(f".{name}" for name in pyplot().FigureCanvasBase.get_supported_filetypes())


def axes_for(ax: Axes | None, *, size: tuple[float, float] = (6.4, 4.8)) -> Axes:
    """Return the given axes, or those of a new figure of a size in inches."""
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    elif not isinstance(ax, plt.Axes):
        raise TypeError(f"ax must be matplotlib axes, got {type(ax).__name__}")
    elif hasattr(ax, "get_zlim"):
        raise TypeError("ax must be axes of two dimensions, got ones of three; make them without projection='3d'")
    return ax


def has_layout(ax: Axes) -> bool:
    """Return whether the figure makes room for labels and legends outside its axes."""
    engine = ax.figure.get_layout_engine()
    return engine is not None and type(engine).__name__ != "PlaceHolderLayoutEngine"


def component_colors(n: int) -> list[Color]:
    """Return the colours of n components: red, green and blue from 0 to 1."""
    further = range(len(_FIRST_COLORS), n)
    return [*_FIRST_COLORS[:n], *(colorsys.hsv_to_rgb(k * _GOLDEN_RATIO % 1.0, 0.65, 0.8) for k in further)]


def ink(ax: Axes, strength: float = 1.0) -> Color:
    """Return the colour of text in the style of the axes, or one between it and the background."""
    from matplotlib.colors import to_rgb

    text, ground = to_rgb(ax.xaxis.label.get_color()), to_rgb(ax.get_facecolor())
    red, green, blue = (strength * a + (1 - strength) * b for a, b in zip(text, ground, strict=True))
    return red, green, blue


def outline(ax: Axes, color: Color) -> Color:
    """Return a colour for lines and text among points of another, darker than those, or lighter on a dark ground."""
    red, green, blue = (0.6 * a + 0.4 * b for a, b in zip(color, ink(ax), strict=True))
    return red, green, blue


def log_scale(ax: Axes, linear: float) -> None:
    """Draw heights above a bound, and below minus that, on a logarithmic scale, the others on a linear one."""
    from matplotlib.ticker import SymmetricalLogLocator

    ax.set_yscale("symlog", linthresh=linear, linscale=0.5)
    lower, upper = ax.get_ylim()
    # With few powers of ten in sight, more ticks.
    subs = (1.0, 2.0, 5.0) if max(abs(lower), abs(upper)) < 200 * linear else (1.0,)
    ax.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=linear, subs=subs))
    ax.yaxis.set_major_formatter("{x:g}")


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
        return Groups(groups, [*names, _NO_LABEL], [*colors, NO_LABEL_COLOR])
    return Groups(groups, names, colors)
