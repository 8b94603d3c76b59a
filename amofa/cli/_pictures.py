"""The command plot."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa import plot
from amofa.cli._files import check_picture, read_for
from amofa.cli._options import Command, add_clusters, add_model, add_table, column_list
from amofa.cli._tables import Table
from amofa.io import load_model
from amofa.mixture import MixtureOfFactorAnalyzers

_RESOLUTION = 150


class _Kind(NamedTuple):
    """A kind of picture, and its options."""

    draw: Callable[..., Any]
    has_rows: bool | None  # None: optional
    options: tuple[str, ...] = ()


_KINDS = {
    "clusters": _Kind(plot.clusters, None, ("axes", "labels", "clusters")),
    "contours": _Kind(plot.contours, None, ("axes",)),
    "pairs": _Kind(plot.pairs, None, ("labels", "clusters")),
    "profiles": _Kind(plot.profiles, None, ("clusters",)),
    "tree": _Kind(plot.tree, False, ("clusters",)),
    "uncertainty": _Kind(plot.uncertainty, True, ("axes",)),
    "outliers": _Kind(plot.outliers, True),
    "density": _Kind(plot.density, None, ("column",)),
    "responsibilities": _Kind(plot.responsibilities, True),
    "scores": _Kind(plot.factor_scores, True, ("component", "labels")),
    "loadings": _Kind(plot.loadings, False, ("component",)),
    "evolution": _Kind(plot.evolution, False),
    "cost": _Kind(plot.cost, False),
    "message-length": _Kind(plot.message_length, False),
}


def _plot(arguments: argparse.Namespace) -> None:
    check_picture(arguments)
    model = load_model(arguments.model)
    name = _kind(arguments, model)
    kind = _KINDS[name]
    _check_use(arguments, name, kind)
    table = None if arguments.file is None else read_for(model, arguments, labels=arguments.labels)
    options: dict[str, Any] = {option: getattr(arguments, option) for option in kind.options}
    options |= {"columns": options.pop("axes", None), "labels": _labels(table)}
    given = {option: value for option, value in options.items() if value is not None}
    # No windows, even where there is a screen.
    plot.use_files()
    if kind.has_rows is not False and table is not None:
        ax = kind.draw(model, table.values, **given)
    else:
        ax = kind.draw(model, **given)
    save_picture(ax, arguments.output)


def save_picture(ax: Any, path: str) -> None:
    """Write the figure of matplotlib axes, or of a matrix of them, to a file."""
    first = ax.flat[0] if isinstance(ax, np.ndarray) else ax
    first.figure.savefig(path, dpi=_RESOLUTION)


def _kind(arguments: argparse.Namespace, model: MixtureOfFactorAnalyzers) -> str:
    if arguments.kind is not None:
        return str(arguments.kind)
    draw = plot.suitable(model, with_rows=arguments.file is not None)
    return next(name for name, kind in _KINDS.items() if kind.draw is draw)


def _check_use(arguments: argparse.Namespace, name: str, kind: _Kind) -> None:
    """Check that the kind of picture has the options that are given."""
    for option in ("axes", "column", "component", "labels", "clusters"):
        if getattr(arguments, option) is not None and option not in kind.options:
            raise ValueError(f"--{option} cannot be used with --kind {name}")
    if kind.has_rows and arguments.file is None:
        raise ValueError(f"--kind {name} needs rows; add FILE")
    if kind.has_rows is False and arguments.file is not None:
        raise ValueError(f"--kind {name} takes no rows; leave out {arguments.file}")
    if arguments.labels is not None and arguments.file is None:
        raise ValueError("--labels needs rows; add FILE")


def _labels(table: Table | None) -> NDArray[Any] | None:
    """Return the labels of the rows, with None where a text is empty."""
    if table is None or table.labels is None or table.labels.dtype.kind != "U":
        return None if table is None else table.labels
    labels = table.labels.astype(object)
    labels[table.labels == ""] = None
    return labels


def _column(text: str) -> int | str:
    """Parse a column: a number from 0, or a name."""
    return int(text) if text.isdecimal() else text


def _add_plot(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_table(parser, nargs="?")
    parser.add_argument("-o", "--output", metavar="PICTURE", required=True, help="file to write: .png, .pdf, .svg, ...")
    parser.add_argument(
        "--kind", choices=_KINDS, metavar="KIND", help=f"{', '.join(_KINDS)} (default: by model and rows)"
    )
    parser.add_argument(
        "--axes",
        type=lambda text: [_column(column) for column in column_list(text)],
        metavar="X,Y",
        help="two columns for clusters (default: the most telling plane)",
    )
    parser.add_argument("--column", type=_column, metavar="X", help="column for density (default: the first)")
    parser.add_argument("--component", type=int, metavar="K", help="component for scores or loadings")
    parser.add_argument("--labels", metavar="COLUMN", help="column of FILE by which rows are coloured")
    add_clusters(parser, "colour rows and components by clusters of components")


COMMANDS = (
    Command(
        "plot",
        _plot,
        _add_plot,
        "draw a model, rows under it, or its search",
        "amofa plot iris.npz iris.csv -o iris.png",
    ),
)
