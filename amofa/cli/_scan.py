"""The command scan."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from amofa import plot
from amofa._model.scan_table import Scan
from amofa._search.options import FitOptions
from amofa._search.progress import can_be_shown
from amofa.cli._files import check_picture, check_regular_output, read
from amofa.cli._options import (
    Command,
    add_fit_options,
    add_json,
    add_quiet,
    add_table,
    add_weights,
    given_options,
    number_list,
)
from amofa.cli._output import Interrupted, say, say_json
from amofa.cli._pictures import save_picture
from amofa.scanning import SCAN_OPTIONS, ScanInterrupted, scan

# Options of fits that a scan has on the command line, too.
_OPTIONS = [o for o in fields(FitOptions) if o.name in ("noise", *SCAN_OPTIONS) and o.metadata["kind"] is not None]


def _scan(arguments: argparse.Namespace) -> None:
    if arguments.output is not None:
        check_regular_output(arguments, "models")
    if arguments.plot is not None:
        check_picture(arguments, "plot")
        # No windows, even where there is a screen. If matplotlib is not installed, this says so before the fits.
        plot.use_files()
    given = given_options(arguments, _OPTIONS)
    table = read(arguments, arguments.file, weights=arguments.weights, may_be_missing=True)
    shown = can_be_shown() and not arguments.quiet
    numbers = arguments.n_components
    try:
        found = scan(table.values, numbers, sample_weight=table.weights, progress=shown, **given)
    except ScanInterrupted as interrupt:
        _finish(arguments, interrupt.scan, table.names)
        raise Interrupted("these are the models so far") from interrupt
    _finish(arguments, found, table.names)


def _finish(arguments: argparse.Namespace, found: Scan, names: tuple[str, ...] | None) -> None:
    """Save the cheapest model and the picture, if they are wanted, and print the table."""
    if arguments.output is not None:
        found.best._named(names).save(arguments.output)
    if arguments.plot is not None:
        save_picture(plot.scan(found), arguments.plot)
    if arguments.json:
        say_json({"criterion": found.criterion, "columns": names, "output": arguments.output, "models": _models(found)})
    else:
        say(repr(found))


def _models(found: Scan) -> list[dict[str, Any]]:
    """Return the rows for JSON."""
    return [
        {**{name: value for name, value in row._asdict().items() if name != "model"}, "n_factors": row.model.n_factors}
        for row in found
    ]


def _add_scan(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    add_weights(parser)
    parser.add_argument("-o", "--output", metavar="MODEL.npz", help="file for the cheapest model")
    parser.add_argument("--plot", metavar="PICTURE", help="file for a picture of the costs: .png, .pdf, .svg, ...")
    parser.add_argument(
        "--n-components",
        type=number_list,
        default=list(range(1, 11)),
        metavar="LIST",
        help="numbers of components, with commas: numbers, or ranges such as 1-10 (default: 1-10)",
    )
    add_fit_options(parser, _OPTIONS)
    add_quiet(parser)
    add_json(parser)


COMMANDS = (
    Command(
        "scan",
        _scan,
        _add_scan,
        "fit each of several numbers of components to a table, and compare their costs",
        "amofa scan iris.csv --columns 0-3 --n-components 1-6 --plot costs.png",
    ),
)
