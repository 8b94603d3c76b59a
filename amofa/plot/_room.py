"""Names, legends and bars of colours, and the room that they take beside, above and below axes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from amofa.plot._axes import Groups, has_layout, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.gridspec import SubplotSpec
    from matplotlib.transforms import Bbox

# Axes narrower or lower than this, in inches before a layout moves them, are small: those of 2 x 2 in a figure of
# matplotlib's default size. They have small text, and legends inside.
_SMALL = (3.0, 2.2)
# Characters of an entry of a legend, and of one inside small axes; the most entries beside the axes.
_ENTRY_LENGTH, _SHORT_ENTRY, _MOST_ENTRIES = 30, 14, 12
# Lines of a legend inside the axes, and inside small ones; inches of an entry of a legend above the axes.
_MOST_ROWS, _MOST_ROWS_SMALL, _ENTRY_WIDTH = 3, 2, 1.15
# Share of the width of the axes that entries beside them may have, and that lines of a legend inside may have.
_BESIDE, _INSIDE = 0.5, 0.8
# Characters of a name on the left, and inches between two of them.
_NAME_LENGTH, _LINE_HEIGHT = 28, 0.15
# Share of the width of the axes that names on the left may have; less if axes are small.
_NAMES, _NAMES_SMALL = 0.5, 0.42
# Characters of the name of a point; in points the gap to it and the height of a line; lines up and down where it may
# go. Figures with a layout may make the axes smaller in the end, so that lines are a little high.
_POINT_NAME_LENGTH, _NAME_GAP, _NAME_HEIGHT, _SHIFTS = 24, 5.0, 9.5, (0, 1, -1, 2, -2)
# Half the width of a point.
_POINT = 3.0
# Width of a character and height of a line, as shares of the size of the font.
_CHARACTER, _LEADING = 0.58, 1.5
# The lines of the name of an axis, and the share of the axes that they may have, since a layout makes axes smaller.
_LABEL_LINES, _LABEL_SHARE = 2, 0.8
# Points of a bar of colours with its numbers and its name, where no layout makes room for them, and the most of the
# width of its axes.
_BAR, _MOST_BAR = 62.0, 0.33
# Points between the names of axes and other axes, points that may be beyond a cell on the right and above, as half a
# number at the end of an axis is, and the smallest share of its cell that axes keep.
_GAP, _BEYOND, _LEAST = 5.0, 2.0, 0.4

# The cells in which axes were before `make_room` made them smaller.
_cells: WeakKeyDictionary[Axes, SubplotSpec] = WeakKeyDictionary()


def points_of(ax: Axes) -> tuple[float, float]:
    """Return the width and height of axes in points."""
    box = ax.get_window_extent()
    return float(box.width / ax.figure.dpi * 72), float(box.height / ax.figure.dpi * 72)


def is_small(ax: Axes) -> bool:
    """Return whether axes have no room for a legend beside or above them."""
    width, height = points_of(ax)
    return width < 72 * _SMALL[0] or height < 72 * _SMALL[1]


def make_room(ax: Axes, *twins: Axes) -> None:
    """Make axes smaller in a figure without a layout, so that nothing of them lies on other axes or is cut off.

    Bars of colours take their room in the same way. Twins are axes in the same place.
    """
    from matplotlib.transforms import Bbox

    own = ax.get_subplotspec()
    if own is None or has_layout(ax):
        return
    spec = _cells.setdefault(ax, own)
    cell, outer = _in_pixels(ax, spec), _free(ax, spec)
    for _ in range(2):  # other ticks may be wider
        box = ax.get_window_extent()
        # None is for axes that cannot be seen.
        whole = Bbox.union([part.get_tightbbox() or box for part in (ax, *twins)])
        x0 = max(cell.x0, outer.x0 + box.x0 - whole.x0)
        y0 = max(cell.y0, outer.y0 + box.y0 - whole.y0)
        x1 = min(cell.x1, outer.x1 + box.x1 - whole.x1)
        y1 = min(cell.y1, outer.y1 + box.y1 - whole.y1)
        if x1 - x0 < _LEAST * cell.width:
            x0, x1 = cell.x0, cell.x1
        if y1 - y0 < _LEAST * cell.height:
            y0, y1 = cell.y0, cell.y1
        shares = {
            "width_ratios": [x0 - cell.x0, x1 - x0, cell.x1 - x1],
            "height_ratios": [cell.y1 - y1, y1 - y0, y0 - cell.y0],
        }
        for part in (ax, *twins):
            part.set_subplotspec(spec.subgridspec(3, 3, wspace=0.0, hspace=0.0, **shares)[1, 1])


def _in_pixels(ax: Axes, spec: SubplotSpec) -> Bbox:
    """Return a cell of a grid in pixels."""
    figure: Any = ax.figure  # a figure or a part of one
    box: Bbox = spec.get_position(figure).transformed(figure.transSubfigure)
    return box


def _free(ax: Axes, spec: SubplotSpec) -> Bbox:
    """Return the rectangle around a cell that is its own: the gaps on the left and below, and margins of the figure."""
    from matplotlib.transforms import Bbox

    cell, pixels = _in_pixels(ax, spec), ax.figure.dpi / 72
    gap, beyond = _GAP * pixels, _BEYOND * pixels
    x0, y0, x1, y1 = ax.figure.bbox.padded(-beyond).extents
    for other in ax.figure.axes:
        other_spec = _cells.get(other, other.get_subplotspec())
        box = other.get_window_extent() if other_spec is None else _in_pixels(ax, other_spec)
        is_beside, is_in_line = box.y0 < cell.y1 and box.y1 > cell.y0, box.x0 < cell.x1 and box.x1 > cell.x0
        if is_beside and box.x1 <= cell.x0:
            x0 = max(x0, box.x1 + gap)
        if is_beside and box.x0 >= cell.x1:
            x1 = cell.x1 + beyond
        if is_in_line and box.y1 <= cell.y0:
            y0 = max(y0, box.y1 + gap)
        if is_in_line and box.y0 >= cell.y1:
            y1 = cell.y1 + beyond
    return Bbox.from_extents(x0, y0, x1, y1)


# ---- legends and bars of colours -------------------------------------------------------------------------------------


def legend_beside(ax: Axes, groups: Groups | None = None, *, is_numbered: bool = False) -> None:
    """Put a legend to the right of the axes: everything that has a label, and groups of rows.

    In small axes, and in a figure without layout, it is inside; small axes have none if components are numbered. If
    there are more entries than there is room for, the last one says how many are left out.
    """
    handles, texts = ax.get_legend_handles_labels()
    if is_small(ax):
        handles, texts = ([], []) if is_numbered else (handles, [text.partition(":")[0] for text in texts])
    if groups is not None:
        handles += [ax.scatter([], [], color=color) for color in groups.colors]
        texts += map(plain_text, groups.names)
    if not handles:
        return
    if is_small(ax) or not has_layout(ax):
        _legend_inside(ax, handles, texts)
        return
    width, height = points_of(ax)
    length = min(_ENTRY_LENGTH, int(_BESIDE * width / _text_size(ax, "small") / _CHARACTER) - 5)
    most = min(_MOST_ENTRIES, int(height / _text_size(ax, "small") / _LEADING))
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False, "fontsize": "small"}
    _put_legend(ax, handles, texts, most, length, place)


def legend_above(ax: Axes) -> None:
    """Put a legend above the axes, or inside if they are small or in a figure without layout."""
    handles, texts = ax.get_legend_handles_labels()
    if is_small(ax) or not has_layout(ax):
        _legend_inside(ax, handles, texts)
        return
    columns = max(2, int(points_of(ax)[0] / 72 / _ENTRY_WIDTH))
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", ncols=columns, columnspacing=1.0
    )


def _legend_inside(ax: Axes, handles: list[Any], texts: list[str]) -> None:
    """Put a legend into lines at the top of the axes, and move the upper limit up, so that it covers nothing."""
    width, height = points_of(ax)
    length, most = (_SHORT_ENTRY, _MOST_ROWS_SMALL) if is_small(ax) else (_ENTRY_LENGTH, _MOST_ROWS)
    size = _text_size(ax, "x-small")
    # In characters, of which a handle and the gap to the next entry take four; there are at least two columns.
    room = int(_INSIDE * width / (_CHARACTER * size))
    length = max(1, min(length, room // 2 - 4))
    columns = _columns([min(len(text), length) + 4 for text in texts], room)
    place = {"loc": "upper left", "ncols": columns, "framealpha": 0.7, "edgecolor": "none", "fontsize": "x-small"}
    place |= {"handlelength": 1.0, "handletextpad": 0.4, "columnspacing": 0.8, "labelspacing": 0.2}
    place |= {"borderaxespad": 0.1, "borderpad": 0.2, "markerscale": 0.6}
    _put_legend(ax, handles, texts, most * columns, length, place)
    share = min(0.5, (min(most, -(-len(texts) // columns)) + 0.5) * _LEADING * size / height)
    scale = ax.yaxis.get_transform()
    lower, upper = scale.transform(np.array(ax.get_ylim()))
    ax.set_ylim(top=float(scale.inverted().transform(lower + (upper - lower) / (1 - share))))


def _columns(lengths: list[int], room: int) -> int:
    """Return the most columns into which entries, from top to bottom, fit side by side, at least two."""
    numbers = range(len(lengths), 2, -1)
    fitting = (n for n in numbers if sum(int(part.max()) for part in np.array_split(lengths, n)) <= room)
    return next(fitting, 2)


def _put_legend(ax: Axes, handles: list[Any], texts: list[str], most: int, length: int, place: dict[str, Any]) -> None:
    """Make a legend of at most a number of entries of at most a length."""
    if len(texts) > most:
        texts = [*texts[: most - 1], f"and {len(texts) - most + 1} more"]
        handles = [*handles[: most - 1], *ax.plot([], [], linestyle="none")]
    legend = ax.legend(handles, ["?"] * len(handles), **place)
    # Set afterwards: matplotlib leaves out handles whose labels begin with "_".
    for entry, text in zip(legend.get_texts(), texts, strict=True):
        entry.set_text(shortened(text, length))


def color_bar(ax: Axes, shown: Any, label: str, **options: Any) -> None:
    """Put a bar of colours to the right of the axes, with a name that is not longer than the bar."""
    from matplotlib.ticker import MaxNLocator

    width, height = points_of(ax)
    if not has_layout(ax):
        options["fraction"] = min(_MOST_BAR, _BAR / width)
    if is_small(ax):
        options |= {"pad": 0.03, "ticks": MaxNLocator(4, steps=[1, 2, 5, 10])}
    bar = ax.figure.colorbar(shown, ax=ax, **options)
    size = "x-small" if is_small(ax) else "small"
    bar.ax.tick_params(labelsize=size)
    bar.set_label(_fitted(ax, label, height, size), fontsize=size)


# ---- text ------------------------------------------------------------------------------------------------------------


def plain_text(text: str) -> str:
    """Escape a text so that matplotlib shows it literally, not what is between dollar signs as a formula."""
    return text.replace("$", r"\$")


def shortened(text: str, length: int) -> str:
    """Shorten a text from `plain_text` to a number of visible characters."""
    shown = text.replace(r"\$", "$")
    return text if len(shown) <= length else plain_text(f"{shown[: length - 1].rstrip('… ')}…")


def name_axes(ax: Axes, x: str, y: str, size: str | None = None) -> None:
    """Name both axes: names that are too long for them are wrapped, and cut where there is no room.

    Small axes have small names and numbers, if no size is given.
    """
    if size is None:
        size = "small" if is_small(ax) else "medium"
        ax.tick_params(labelsize=size)
    width, height = points_of(ax)
    ax.set_xlabel(_fitted(ax, x, width, size), fontsize=size)
    ax.set_ylabel(_fitted(ax, y, height, size), fontsize=size)


def _fitted(ax: Axes, text: str, points: float, size: str) -> str:
    """Wrap a text to a number of points, and cut it after two lines."""
    width = max(8, int(_LABEL_SHARE * points / (_CHARACTER * _text_size(ax, size))))
    lines = textwrap.wrap(text, width)
    if len(lines) > _LABEL_LINES:
        rest = " ".join(lines[_LABEL_LINES - 1 :])
        lines = [*lines[: _LABEL_LINES - 1], f"{rest[: width - 1].rstrip('… ')}…"]
    return "\n".join(map(plain_text, lines))


def _text_size(ax: Axes, size: str) -> float:
    """Return the size of a font in points."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=size).get_size_in_points())


def name_lines(ax: Axes, names: list[str]) -> None:
    """Name the lines 0, 1, ... of a picture on the left, as many as there is room for; long names are shortened."""
    width, height = points_of(ax)
    step = max(1, -int(-len(names) * _LINE_HEIGHT * 72 // height))
    small = is_small(ax)
    size = "x-small" if small else "small" if len(names) > 15 or height < 72 * 3.5 else "medium"
    most = (_NAMES_SMALL if small else _NAMES) * width
    shown = [_shortest(ax, shortened(name, _NAME_LENGTH), size, most) for name in names[::step]]
    ax.set_yticks(range(0, len(names), step), shown, fontsize=size)


def _shortest(ax: Axes, text: str, size: str, points: float) -> str:
    """Shorten a text to a width in points."""
    return next(text for text in _shorter(text) if _text_width(ax, text, size) <= points)


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
