"""Axes, colours, legends and the rows to draw, for all pictures. Only this module imports matplotlib, on demand."""

from __future__ import annotations

import colorsys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
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
# Entries of a legend, beside the axes and inside, where they cover rows; and characters of one of them.
_MOST_ENTRIES, _MOST_INSIDE, _ENTRY_LENGTH = 12, 6, 30
# Inches of an entry of a legend above the axes.
_ENTRY_WIDTH = 1.15
# Characters of a name on the left, and inches between two of them.
_NAME_LENGTH, _LINE_HEIGHT = 28, 0.15
# Characters of the name of a point; in points the gap to it and the height of a line; lines up and down where it may
# go. Figures with a layout may make the axes smaller in the end, so that lines are a little high.
_POINT_NAME_LENGTH, _NAME_GAP, _NAME_HEIGHT, _SHIFTS = 24, 5.0, 9.5, (0, 1, -1, 2, -2)
# Half the width of a point.
_POINT = 3.0
# Width of a character, as a share of the size of its font, and the lines of an axis label in figures with a layout.
_CHARACTER, _LABEL_LINES = 0.58, 2
# Points of a tick, from there to its label, and to the edge.
_TICK = 9.0
# Share of its axes that a bar of colours takes, with its numbers and its name, where no layout makes room for these.
_BAR = 0.3
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


# ---- legends ---------------------------------------------------------------------------------------------------------


def legend_beside(ax: Axes, groups: Groups | None = None) -> None:
    """Put a legend to the right of the axes: everything that has a label, and groups of rows.

    In a figure without layout, where it would lie on other axes, it is inside. If there are more entries than there is
    room for, the last one says how many are left out.
    """
    handles, texts = ax.get_legend_handles_labels()
    is_outside = has_layout(ax)
    most = _MOST_ENTRIES if is_outside else _MOST_INSIDE
    if groups is not None:
        handles += [ax.scatter([], [], color=color) for color in groups.colors[:most]]
        texts += map(plain_text, groups.names)
    if not handles:
        return
    if len(texts) > most:
        texts[most - 1 :] = [f"and {len(texts) - most + 1} more"]
        handles[most - 1 :] = ax.plot([], [], linestyle="none")
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
    if not is_outside:
        place = {"loc": "upper right", "framealpha": 0.7}
    legend = ax.legend(handles, ["?"] * len(handles), fontsize="small", **place)
    # Set afterwards: matplotlib leaves out handles whose labels begin with "_".
    for entry, text in zip(legend.get_texts(), texts, strict=True):
        entry.set_text(shortened(text, _ENTRY_LENGTH))


def legend_above(ax: Axes) -> None:
    """Put a legend above the axes, or inside in a figure without layout."""
    if not has_layout(ax):
        ax.legend(loc="upper right", framealpha=0.7, fontsize="x-small")
        return
    columns = max(2, int(ax.get_window_extent().width / ax.figure.dpi / _ENTRY_WIDTH))
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", ncols=columns, columnspacing=1.0
    )


def color_bar(ax: Axes, shown: Any, label: str, **options: Any) -> None:
    """Put a bar of colours to the right of the axes; in a figure without layout its name stays off other axes."""
    if not has_layout(ax):
        options["fraction"] = _BAR
    ax.figure.colorbar(shown, ax=ax, **options).set_label(label, fontsize="small")


# ---- text ------------------------------------------------------------------------------------------------------------


def plain_text(text: str) -> str:
    """Escape a text so that matplotlib shows it literally, not what is between dollar signs as a formula."""
    return text.replace("$", r"\$")


def shortened(text: str, length: int) -> str:
    """Shorten a text from `plain_text` to a number of visible characters."""
    shown = text.replace(r"\$", "$")
    return text if len(shown) <= length else plain_text(f"{shown[: length - 1]}…")


def name_axes(ax: Axes, x: str, y: str, size: str = "medium") -> None:
    """Name both axes: names that are too long for them are wrapped, and cut where there is no room."""
    box = ax.get_window_extent()
    for axis, text, length in ((ax.xaxis, x, box.width), (ax.yaxis, y, box.height)):
        axis.set_label_text(text, fontsize=size)
        points = length / ax.figure.dpi * 72
        width = max(8, int(points / (_CHARACTER * float(axis.label.get_fontsize()))))
        lines = textwrap.wrap(text, width)
        most = _LABEL_LINES if has_layout(ax) else 1
        if len(lines) > most:
            rest = " ".join(lines[most - 1 :])
            lines = [*lines[: most - 1], f"{rest[: width - 1].rstrip('… ')}…"]
        axis.set_label_text("\n".join(map(plain_text, lines)))


def name_lines(ax: Axes, names: list[str]) -> None:
    """Name the lines 0, 1, ... of a picture on the left, as many as there is room for; long names are shortened."""
    room = ax.get_window_extent().height / ax.figure.dpi
    step = max(1, -int(-len(names) * _LINE_HEIGHT // room))
    size = "small" if len(names) > 15 or room < 3.5 else "medium"
    shown = [shortened(name, _NAME_LENGTH) for name in names[::step]]
    if not has_layout(ax):
        left = max(0.0, _room_on_the_left(ax))
        shown = [next(text for text in _shorter(name) if _text_width(ax, text, size) <= left) for name in shown]
    ax.set_yticks(range(0, len(names), step), shown, fontsize=size)


def _room_on_the_left(ax: Axes) -> float:
    """Return the points from other axes, or from the edge of the figure, to the ticks of axes."""
    box = ax.get_window_extent()
    others = (other.get_window_extent() for other in ax.figure.axes if other is not ax)
    beside = [other.x1 for other in others if other.x1 <= box.x0 and other.y0 < box.y1 and other.y1 > box.y0]
    return float((box.x0 - max(beside, default=0.0)) / ax.figure.dpi * 72 - _TICK)


def _shorter(text: str) -> Iterator[str]:
    """Yield a text, and then the text with fewer and fewer characters, down to none."""
    yield text
    yield from (shortened(text, length) for length in range(len(text) - 1, 1, -1))
    yield ""  # which fits always


def _text_width(ax: Axes, text: str, size: str) -> float:
    """Return the width of a text in points."""
    probe = ax.figure.text(0, 0, text, fontsize=size)
    width = float(probe.get_window_extent().width / ax.figure.dpi * 72)
    probe.remove()
    return width


def name_points(ax: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """Write names (x, y, name) beside points, so that none lies on another, on one of the points or beyond the axes.

    A name that is not on the line of its point is joined to it by a line. One that finds no room is left out.
    """
    from matplotlib.transforms import Bbox

    box, pixels = ax.get_window_extent(), ax.figure.dpi / 72
    gap, height = _NAME_GAP * pixels, _NAME_HEIGHT * pixels
    places = ax.transData.transform([(x, y) for x, y, _ in points]) if points else np.zeros((0, 2))
    taken = [Bbox([place - _POINT * pixels, place + _POINT * pixels]) for place in places]
    for (x, y, name), (column, line) in zip(points, places.tolist(), strict=True):
        text = shortened(plain_text(name), _POINT_NAME_LENGTH)
        width = _text_width(ax, text, "x-small") * pixels
        for shift, side in product(_SHIFTS, (1, -1)):
            left, middle = column + gap if side > 0 else column - gap - width, line + shift * height
            place = Bbox([[left, middle - height / 2], [left + width, middle + height / 2]])
            is_inside = box.x0 <= place.x0 and place.x1 <= box.x1 and box.y0 <= place.y0 and place.y1 <= box.y1
            if is_inside and not any(place.overlaps(other) for other in taken):
                taken.append(place)
                joined = {"arrowstyle": "-", "linewidth": 0.5, "color": ink(ax, 0.5), "shrinkA": 0.0, "shrinkB": 2.0}
                ax.annotate(
                    text, (x, y), xytext=(side * _NAME_GAP, shift * _NAME_HEIGHT), textcoords="offset points",
                    fontsize="x-small", ha="left" if side > 0 else "right", va="center",
                    arrowprops=joined if shift else None,
                )  # fmt: skip
                break


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
