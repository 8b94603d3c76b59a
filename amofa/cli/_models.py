"""The commands demo, fit, describe and sample."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from amofa import demo
from amofa._data.checks import check_incomplete_rows
from amofa._data.dataframes import check_same_names
from amofa._search.monitor import FitInterrupted
from amofa._search.options import FitOptions
from amofa._search.progress import can_be_shown
from amofa.cli._columns import free_name
from amofa.cli._files import check_regular_output, is_dataset, named_columns, read, table_target
from amofa.cli._options import (
    Command,
    add_clusters,
    add_fit_options,
    add_json,
    add_model,
    add_output,
    add_quiet,
    add_table,
    add_weights,
    given_options,
    seed,
)
from amofa.cli._output import Interrupted, description, say, say_json
from amofa.cli._tables import Table, write_table
from amofa.fitting import fit_blocks, fit_checked
from amofa.io import load_model
from amofa.mixture import MixtureOfFactorAnalyzers

# Options of `fit` that the command line has.
FIT_OPTIONS = [option for option in fields(FitOptions) if option.metadata["kind"] is not None]


def _demo(arguments: argparse.Namespace) -> None:
    run = demo.demonstrate(arguments.seed)
    if arguments.json:
        say_json({**description(run.model), **demo.comparison(run)})
    else:
        say(demo.report(run))


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=seed, default=0, help="seed of the random rows (default: %(default)s)")
    add_json(parser)


def _fit(arguments: argparse.Namespace) -> None:
    if arguments.output is not None:
        check_regular_output(arguments, "models")
    try:
        names, model = _fit_dataset(arguments) if is_dataset(arguments.file) else _fit_table(arguments)
    except FitInterrupted as interrupt:
        if arguments.output is None:
            raise
        interrupt.model.save(arguments.output)
        raise Interrupted(f"the best model so far is in {arguments.output}") from interrupt
    if arguments.output is not None:
        model.save(arguments.output)
    if arguments.json:
        say_json({**description(model), "columns": names, "output": arguments.output})
    else:
        say(model.summary())


def _fit_table(arguments: argparse.Namespace) -> tuple[tuple[str, ...] | None, MixtureOfFactorAnalyzers]:
    table, model = read_and_fit(arguments)
    return table.names, model


def _fit_dataset(arguments: argparse.Namespace) -> tuple[tuple[str, ...] | None, MixtureOfFactorAnalyzers]:
    """Fit a mixture to a folder of .parquet files, of which some rows at a time are in memory."""
    from amofa.cli._datasets import read_dataset

    given, init = _options_and_init(arguments)
    blocks = read_dataset(arguments, names=None if init is None else init.feature_names, weights=arguments.weights)
    return blocks.feature_names, fit_blocks(blocks, FitOptions(**given))


def _options_and_init(arguments: argparse.Namespace) -> tuple[dict[str, Any], MixtureOfFactorAnalyzers | None]:
    """Return the options of a fit, and among them the model to start from."""
    given = given_options(arguments, FIT_OPTIONS)
    init = None if arguments.init is None else load_model(arguments.init)
    given |= {} if init is None else {"init": init}
    return {"progress": can_be_shown() and not arguments.quiet, **given}, init


def read_and_fit(arguments: argparse.Namespace, **options: Any) -> tuple[Table, MixtureOfFactorAnalyzers]:
    """Read a table, whose cells may be missing, and fit a mixture to it with the options of `amofa fit`."""
    given, init = _options_and_init(arguments)
    names = None if init is None else init.feature_names
    table = read(arguments, arguments.file, weights=arguments.weights, names=names, may_be_missing=True, **options)
    check_same_names(table.names, names, arguments.file)
    rows = check_incomplete_rows(table.values, table.weights)
    return table, fit_checked(*rows, FitOptions(**given), table.names)


def _add_fit(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    add_weights(parser)
    parser.add_argument("-o", "--output", metavar="MODEL.npz", help="file for the model")
    add_fit_options(parser, FIT_OPTIONS)
    add_quiet(parser)
    add_json(parser)


def _describe(arguments: argparse.Namespace) -> None:
    model = load_model(arguments.model)
    clusters = None if arguments.clusters is None else model._chosen_clusters(arguments.clusters)
    if arguments.json:
        names = ("means", "loadings", "uniquenesses", "degrees_of_freedom")
        parameters = {name: getattr(model, name) for name in names}
        joined = {} if clusters is None else {"clusters": clusters.labels, "joins": clusters.joins}
        say_json({**description(model), **parameters, **joined})
    else:
        say(model.summary() if clusters is None else f"{model.summary()}\n\n{clusters}")


def _add_describe(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_clusters(parser, "show clusters of components, and what joins of components cost")
    add_json(parser)


def _sample(arguments: argparse.Namespace) -> None:
    target = table_target(arguments)
    model = load_model(arguments.model)
    X, labels = model.sample(arguments.n, arguments.seed)
    columns = named_columns(model, X)
    if arguments.labels:
        columns[free_name("label", columns)] = labels
    write_table(target, columns)


def _add_sample(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("n", metavar="N", type=int, help="number of rows")
    parser.add_argument(
        "--seed", type=seed, help="seed, to draw the same rows again (default: different rows each time)"
    )
    parser.add_argument("--labels", action="store_true", help="add the component of each row")
    add_output(parser)


COMMANDS = (
    Command("demo", _demo, _add_demo, "fit the paper's example 2 and compare with the truth", "amofa demo --seed 3"),
    Command("fit", _fit, _add_fit, "fit a mixture to a table", "amofa fit iris.csv --columns 0-3 -o iris.npz"),
    Command("describe", _describe, _add_describe, "show a model", "amofa describe iris.npz --json"),
    Command(
        "sample", _sample, _add_sample, "draw rows from a model", "amofa sample iris.npz 1000 --seed 1 -o drawn.csv"
    ),
)
