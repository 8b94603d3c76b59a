"""What all pictures share: axes, colours, legends, rows to draw. Matplotlib is imported here alone, when needed."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
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
# Entries of a legend in one column, its width in inches, and the most columns.
_LEGEND_ROWS, _LEGEND_WIDTH, _LEGEND_COLUMNS = 18, 1.5, 4
# What rows without a label are called, and their colour.
_NO_LABEL, _NO_LABEL_COLOR = "no label", (0.75, 0.75, 0.75)


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
        If `ax` is something else, or in three dimensions.
    """
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
    """Colours of so many components, red, green and blue from 0 to 1."""
    further = range(len(_FIRST_COLORS), n)
    return [*_FIRST_COLORS[:n], *(colorsys.hsv_to_rgb(k * _GOLDEN_RATIO % 1.0, 0.65, 0.8) for k in further)]


def darker(color: Color) -> Color:
    """For lines among points of the same colour."""
    red, green, blue = color
    return 0.6 * red, 0.6 * green, 0.6 * blue


def legend_columns(n_entries: int) -> int:
    return min(max(1, -(-n_entries // _LEGEND_ROWS)), _LEGEND_COLUMNS)


def legend_beside(ax: Axes, groups: Groups | None = None) -> None:
    """A legend to the right of the axes, where it hides nothing: what has a label there, and groups of rows.

    Of more entries than there is room for, the last one says how many are left out.
    """
    handles, texts = ax.get_legend_handles_labels()
    if groups is not None:
        handles = [*handles, *(ax.scatter([], [], color=color) for color in groups.colors)]
        texts = [*texts, *map(plain_text, groups.names)]
    if not handles:
        return
    most = _LEGEND_ROWS * _LEGEND_COLUMNS
    if len(handles) > most:
        texts = [*texts[: most - 1], f"and {len(texts) - most + 1} more"]
        handles = [*handles[: most - 1], *ax.plot([], [], linestyle="none")]
    legend = ax.legend(
        handles,
        ["?"] * len(handles),
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize="small",
        ncols=legend_columns(len(handles)),
    )
    # Not given with the handles: matplotlib leaves out those whose labels begin with "_".
    for entry, text in zip(legend.get_texts(), texts, strict=True):
        entry.set_text(text)


def plain_text(text: str) -> str:
    """A text as matplotlib shows it as it is: between dollar signs would be a formula."""
    return text.replace("$", r"\$")


def shortened(text: str, length: int) -> str:
    """The beginning of what `plain_text` has made, in so many characters as they are shown.

    Examples
    --------
    >>> shortened(plain_text("petal length"), 8), shortened(plain_text("width"), 8)
    ('petal l…', 'width')
    """
    shown = text.replace(r"\$", "$")
    return text if len(shown) <= length else plain_text(f"{shown[: length - 1]}…")


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


@dataclass(frozen=True)
class Groups:
    """Rows by their labels.

    Attributes
    ----------
    numbers : (n,) intp
        The group of each row.
    names : list of str
        Of the groups: the labels in their order, and last, where there are rows without one, what tells of them.
    colors : list of (red, green, blue)
        Of the groups.
    """

    numbers: NDArray[np.intp]
    names: list[str]
    colors: list[Color]

    @property
    def row_colors(self) -> list[Color]:
        """The colour of each row."""
        return [self.colors[number] for number in self.numbers.tolist()]

    def among(self, rows: NDArray[np.intp]) -> Groups:
        """The groups of some rows, each in its colour."""
        kept, numbers = np.unique(self.numbers[rows], return_inverse=True)
        return Groups(numbers, [self.names[k] for k in kept], [self.colors[k] for k in kept])


def make_groups(labels: ArrayLike, n: int) -> Groups:
    """Rows by labels of any kind; None and NaN are no label.

    Raises
    ------
    ValueError
        If there is not one for each row.

    Examples
    --------
    >>> groups = make_groups(["b", None, "a"], 3)
    >>> groups.numbers.tolist(), groups.names
    ([1, 2, 0], ['a', 'b', 'no label'])
    """
    # A list as it is: numpy would make text of numbers, NaN among them, that stand beside text.
    array = np.asarray(labels) if hasattr(labels, "__array__") else np.array(labels, dtype=object)
    if array.shape != (n,):
        raise ValueError(f"labels has shape {array.shape}, but X has {n} rows; pass one label per row")
    lacking = _lacking(labels, array)
    kinds, numbers = _numbered(array[~lacking])
    groups = np.full(n, len(kinds))
    groups[~lacking] = numbers
    colors = component_colors(len(kinds))
    names = [str(kind) for kind in kinds]
    if lacking.any():
        return Groups(groups, [*names, _NO_LABEL], [*colors, _NO_LABEL_COLOR])
    return Groups(groups, names, colors)


def _lacking(labels: Any, array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows have no label."""
    if hasattr(labels, "isna"):
        return np.asarray(labels.isna(), dtype=np.bool_)
    # NaN and its kind alone differ from themselves.
    if array.dtype != object:
        return np.asarray(array != array, dtype=np.bool_)
    return np.array([label is None or bool(label != label) for label in array], dtype=np.bool_)


def _numbered(labels: NDArray[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """Different labels in their order, or in that of their texts where they have none, and the number of each label."""
    if labels.dtype != object:
        kinds, numbers = np.unique(labels, return_inverse=True)
        return kinds.tolist(), numbers
    try:
        ordered = sorted(set(labels))
    except TypeError:
        ordered = sorted(set(labels), key=str)
    place = {kind: number for number, kind in enumerate(ordered)}
    return ordered, np.array([place[label] for label in labels], dtype=np.intp)
