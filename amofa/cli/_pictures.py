"""The command plot."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from amofa import plot
from amofa.cli._files import check_file_target, read_for
from amofa.cli._options import Command, add_model, add_table, column_list
from amofa.cli._tables import Table
from amofa.io import load
from amofa.mixture import MixtureOfFactorAnalyzers

_RESOLUTION = 150


class _Kind(NamedTuple):
    """A picture, and which options it has."""

    draw: Callable[..., Any]
    has_rows: bool | None  # None: it may have
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
# What options of the command are called by the functions that draw.
_NAMES = {"axes": "columns"}


def _plot(arguments: argparse.Namespace) -> None:
    check_file_target(arguments, "pictures")
    if not Path(arguments.output).suffix:
        # Matplotlib would write another file, with an ending.
        raise ValueError(f"{arguments.output} has no ending that tells the format; add .png, .pdf or .svg")
    model = load(arguments.model)
    name = _kind(arguments, model)
    kind = _KINDS[name]
    _check_use(arguments, name, kind)
    table = None if arguments.file is None else read_for(model, arguments, labels=arguments.labels)
    options = {_NAMES.get(o, o): value for o in kind.options if (value := _option(arguments, o, table)) is not None}
    # No window is wanted, wherever there is a screen.
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
    """Refuse options that the picture does not have."""
    for option in ("axes", "column", "component", "labels"):
        if getattr(arguments, option) is not None and option not in kind.options:
            raise ValueError(f"--{option} is of no use for --kind {name}")
    if kind.has_rows and arguments.file is None:
        raise ValueError(f"--kind {name} needs rows; add FILE")
    if kind.has_rows is False and arguments.file is not None:
        raise ValueError(f"--kind {name} is of the model alone; leave out {arguments.file}")
    if arguments.labels is not None and arguments.file is None:
        raise ValueError("--labels are those of rows; add FILE")


def _option(arguments: argparse.Namespace, option: str, table: Table | None) -> Any:
    if option == "labels":
        return None if table is None or table.labels is None else _with_gaps(table.labels)
    if option == "axes" and arguments.axes is not None:
        return [_column(text) for text in arguments.axes]
    if option == "column" and arguments.column is not None:
        return _column(arguments.column)
    return getattr(arguments, option)


def _with_gaps(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels with None where a field of text is empty."""
    if labels.dtype.kind != "U":
        return labels
    with_gaps = labels.astype(object)
    with_gaps[labels == ""] = None
    return with_gaps


def _column(text: str) -> int | str:
    """Columns are numbered from 0; other texts are names."""
    return int(text) if text.isdecimal() else text


def _add_plot(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_table(parser, nargs="?")
    parser.add_argument("-o", "--output", metavar="PICTURE", required=True, help="file to write: .png, .pdf, .svg, ...")
    parser.add_argument(
        "--kind", choices=_KINDS, metavar="KIND", help=f"{', '.join(_KINDS)} (default: what suits model and rows)"
    )
    parser.add_argument(
        "--axes", type=column_list, metavar="X,Y", help="two columns for clusters (default: the plane that tells most)"
    )
    parser.add_argument("--column", metavar="X", help="column for density (default: the first)")
    parser.add_argument("--component", type=int, metavar="K", help="component for scores or loadings")
    parser.add_argument("--labels", metavar="COLUMN", help="column of FILE that gives rows their colours")


COMMANDS = (
    Command(
        "plot",
        _plot,
        _add_plot,
        "draw a model, rows under it, or its search",
        "amofa plot iris.npz iris.csv -o iris.png",
    ),
)
