"""What all pictures share: axes, colours, legends, rows to draw. Matplotlib is imported here alone, when needed."""

from __future__ import annotations

import colorsys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Color = tuple[float, float, float]

# More rows than this make a blot and a large file.
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
# Entries of a legend in one column, and its width in inches.
_LEGEND_ROWS, _LEGEND_WIDTH = 18, 1.5


def pyplot() -> Any:
    """The module matplotlib.pyplot.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: python -m pip install 'amofa[plot]'") from error
    return plt


def use_files() -> None:
    """Make figures for files, not for windows, even where there is a screen.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    pyplot().switch_backend("agg")


def axes_for(ax: Axes | None, *, size: tuple[float, float] = (6.4, 4.8), n_entries: int = 0) -> Axes:
    """The axes given, or those of a new figure of so many inches, and wider for many entries of a legend beside them.

    Raises
    ------
    TypeError
        If `ax` is something else.
    """
    plt = pyplot()
    if ax is None:
        wider = _LEGEND_WIDTH * (legend_columns(n_entries) - 1)
        _, ax = plt.subplots(figsize=(size[0] + wider, size[1]), layout="constrained")
    elif not isinstance(ax, plt.Axes):
        raise TypeError(f"ax must be matplotlib axes, got {type(ax).__name__}")
    return ax


def component_colors(n: int) -> list[Color]:
    """Colours of so many components, red, green and blue from 0 to 1."""
    further = range(len(_FIRST_COLORS), n)
    return [*_FIRST_COLORS[:n], *(colorsys.hsv_to_rgb(k * _GOLDEN_RATIO % 1.0, 0.65, 0.8) for k in further)]


def darker(color: Color) -> Color:
    """For lines among points of the same colour."""
    red, green, blue = color
    return 0.6 * red, 0.6 * green, 0.6 * blue


def legend_columns(n_entries: int) -> int:
    return max(1, -(-n_entries // _LEGEND_ROWS))


def legend_beside(ax: Axes) -> None:
    """A legend to the right of the axes, where it hides nothing."""
    columns = legend_columns(len(ax.get_legend_handles_labels()[0]))
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small", ncols=columns)


def legend_above(ax: Axes, columns: int) -> None:
    """A legend over the axes."""
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", ncols=columns)


def whole_ticks(axis: Axis) -> None:
    """Ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def drawn_rows(n: int) -> NDArray[np.intp]:
    """Positions of rows to draw, all of them or evenly spaced ones."""
    return np.arange(n) if n <= _MOST_ROWS else np.linspace(0, n - 1, _MOST_ROWS).astype(np.intp)


def dots(n: int) -> dict[str, Any]:
    """How points are drawn: the smaller, the more there are."""
    size = float(np.clip(6000.0 / max(n, 1), 2.0, 18.0))
    return {"s": size, "linewidths": 0, "alpha": 0.6, "rasterized": n > 2000}


def check_labels(labels: ArrayLike, n: int) -> NDArray[Any]:
    """Labels of rows, of any kind, (n,).

    Raises
    ------
    ValueError
        If there is not one for each row.
    """
    array = np.asarray(labels)
    if array.shape != (n,):
        raise ValueError(f"labels has shape {array.shape}, but X has {n} rows; pass one label per row")
    return array
