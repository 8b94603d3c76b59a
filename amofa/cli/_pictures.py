"""The command plot."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from amofa import plot
from amofa.cli._files import check_regular_output, read_for
from amofa.cli._options import Command, add_model, add_table, column_list
from amofa.cli._tables import Table
from amofa.io import load
from amofa.mixture import MixtureOfFactorAnalyzers

_RESOLUTION = 150


class _Kind(NamedTuple):
    """A kind of picture, and its options."""

    draw: Callable[..., Any]
    has_rows: bool | None  # None: optional
    options: tuple[str, ...] = ()


_KINDS = {
    "clusters": _Kind(plot.clusters, None, ("axes", "labels")),
    "uncertainty": _Kind(plot.uncertainty, True, ("axes",)),
    "density": _Kind(plot.density, None, ("column",)),
    "responsibilities": _Kind(plot.responsibilities, True),
    "scores": _Kind(plot.factor_scores, True, ("component", "labels")),
    "loadings": _Kind(plot.loadings, False, ("component",)),
    "evolution": _Kind(plot.evolution, False),
    "message-length": _Kind(plot.message_length, False),
}
# Options that the functions of amofa.plot call otherwise.
_NAMES = {"axes": "columns"}


def _plot(arguments: argparse.Namespace) -> None:
    check_regular_output(arguments, "pictures")
    if not Path(arguments.output).suffix:
        # Matplotlib would append an extension, and so write another file.
        raise ValueError(f"{arguments.output} has no extension that gives the format; add .png, .pdf or .svg")
    model = load(arguments.model)
    name = _kind(arguments, model)
    kind = _KINDS[name]
    _check_use(arguments, name, kind)
    table = None if arguments.file is None else read_for(model, arguments, labels=arguments.labels)
    options = {_NAMES.get(o, o): value for o in kind.options if (value := _option(arguments, o, table)) is not None}
    # No windows, even where there is a screen.
    plot.use_files()
    if kind.has_rows is not False and table is not None:
        ax = kind.draw(model, table.values, **options)
    else:
        ax = kind.draw(model, **options)
    ax.figure.savefig(arguments.output, dpi=_RESOLUTION)


def _kind(arguments: argparse.Namespace, model: MixtureOfFactorAnalyzers) -> str:
    if arguments.kind is not None:
        return str(arguments.kind)
    draw = plot.suitable(model, with_rows=arguments.file is not None)
    return next(name for name, kind in _KINDS.items() if kind.draw is draw)


def _check_use(arguments: argparse.Namespace, name: str, kind: _Kind) -> None:
    """Check that the kind of picture has the options that are given."""
    for option in ("axes", "column", "component", "labels"):
        if getattr(arguments, option) is not None and option not in kind.options:
            raise ValueError(f"--{option} cannot be used with --kind {name}")
    if kind.has_rows and arguments.file is None:
        raise ValueError(f"--kind {name} needs rows; add FILE")
    if kind.has_rows is False and arguments.file is not None:
        raise ValueError(f"--kind {name} takes no rows; leave out {arguments.file}")
    if arguments.labels is not None and arguments.file is None:
        raise ValueError("--labels needs rows; add FILE")


def _option(arguments: argparse.Namespace, option: str, table: Table | None) -> Any:
    if option == "labels":
        return None if table is None or table.labels is None else _with_gaps(table.labels)
    if option == "axes" and arguments.axes is not None:
        return [_column(text) for text in arguments.axes]
    if option == "column" and arguments.column is not None:
        return _column(arguments.column)
    return getattr(arguments, option)


def _with_gaps(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels with None where the text is empty."""
    if labels.dtype.kind != "U":
        return labels
    with_gaps = labels.astype(object)
    with_gaps[labels == ""] = None
    return with_gaps


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
        type=column_list,
        metavar="X,Y",
        help="two columns for clusters (default: the most telling plane)",
    )
    parser.add_argument("--column", metavar="X", help="column for density (default: the first)")
    parser.add_argument("--component", type=int, metavar="K", help="component for scores or loadings")
    parser.add_argument("--labels", metavar="COLUMN", help="column of FILE by which rows are coloured")


COMMANDS = (
    Command(
        "plot",
        _plot,
        _add_plot,
        "draw a model, rows under it, or its search",
        "amofa plot iris.npz iris.csv -o iris.png",
    ),
)
