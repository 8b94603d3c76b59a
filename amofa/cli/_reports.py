"""The commands inspect and report."""

from __future__ import annotations

import argparse
import sys

import numpy as np

from amofa._data.checks import check_incomplete_table
from amofa.cli._files import read, read_for, table_target
from amofa.cli._options import Command, add_clusters, add_json, add_model, add_output, add_table, add_weights
from amofa.cli._output import say, say_json
from amofa.cli._tables import write_table
from amofa.inspection import inspect_checked
from amofa.io import load


def _inspect(arguments: argparse.Namespace) -> None:
    table = read(arguments, arguments.file, may_be_missing=True)
    found = inspect_checked(check_incomplete_table(table.values)[0], table.names)
    if arguments.json:
        say_json({"columns": [note._asdict() for note in found]})
    else:
        say(repr(found))


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    add_json(parser)


def _report(arguments: argparse.Namespace) -> None:
    target = table_target(arguments)
    model = load(arguments.model)
    table = read_for(model, arguments, weights=arguments.weights)
    found = model.report(table.values, clusters=arguments.clusters, sample_weight=table.weights)
    columns = found.to_dict()
    if (columns["rows"] % 1 == 0).all():
        # So that numbers of rows are written without a fraction.
        columns["rows"] = columns["rows"].astype(np.int64)
    if arguments.json:
        say_json(columns)
    if target is not sys.stdout:
        write_table(target, columns, form=table.form)
    elif not arguments.json:
        say(repr(found))


def _add_report(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_table(parser)
    add_weights(parser)
    add_clusters(parser, "report clusters of components")
    add_output(parser)
    add_json(parser)


COMMANDS = (
    Command(
        "inspect",
        _inspect,
        _add_inspect,
        "look for columns that a mixture describes badly, and say what to do about them",
        "amofa inspect iris.csv",
    ),
    Command(
        "report",
        _report,
        _add_report,
        "say what each component is: rows, means, what sets it apart, factors",
        "amofa report iris.npz iris.csv --clusters auto",
    ),
)
