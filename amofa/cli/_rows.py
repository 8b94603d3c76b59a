"""The commands predict, score, impute and classify."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._model.predictions import prediction_columns, predictions
from amofa._model.text import aligned
from amofa._search.progress import can_be_shown, progress_of_fits
from amofa.classes import ClassMixtures, fit_classes, load_classes
from amofa.cli._columns import free_name
from amofa.cli._files import (
    check_regular_output,
    is_dataset,
    is_model,
    is_of_classes,
    named_columns,
    read,
    read_for,
    table_target,
)
from amofa.cli._models import FIT_OPTIONS, read_and_fit
from amofa.cli._options import (
    Command,
    add_clusters,
    add_fit_options,
    add_json,
    add_keep,
    add_model,
    add_model_or_not_and_table,
    add_output,
    add_quiet,
    add_table,
    add_table_options,
    add_weights,
    given_options,
    seed,
    take_model_and_table,
)
from amofa.cli._output import say, say_json, whole
from amofa.cli._tables import Table, write_table
from amofa.cli._text import suffix
from amofa.io import load_model
from amofa.mixture import MixtureOfFactorAnalyzers

# Options of the fits that `amofa classify` has.
_CLASS_OPTIONS = [option for option in FIT_OPTIONS if option.name == "tails"]
# Lines of `amofa score`, by name in its JSON object.
_SCORES = {
    "n_samples": "rows              {:14g}",
    "mean_log_density": "mean log density  {:14.4f}  nats per row; higher is better",
    "log_likelihood": "log-likelihood    {:14.4f}  nats; higher is better",
    "bic": "BIC               {:14.4f}  lower is better",
    "aic": "AIC               {:14.4f}  lower is better",
    "icl": "ICL               {:14.4f}  lower is better",
}


# ---- predict ---------------------------------------------------------------------------------------------------------


def _predict(arguments: argparse.Namespace) -> None:
    target = table_target(arguments)
    if is_dataset(arguments.file):
        _predict_dataset(arguments)
        return
    if is_of_classes(arguments.model):
        _predict_classes(arguments, target)
        return
    model = load_model(arguments.model)
    table = read_for(model, arguments, keep=arguments.keep)
    X = table.values
    clusters = None if arguments.clusters is None else model._chosen_clusters(arguments.clusters)
    results = predictions(model, X, clusters=clusters, proba=arguments.proba, scores=arguments.scores)
    to_screen = target is sys.stdout
    if not (arguments.json and to_screen):
        has_header = arguments.proba or arguments.scores or bool(table.kept)
        write_table(target, _joined(table.kept, prediction_columns(**results)), header=has_header, form=table.form)
    if arguments.json:
        n_labels = model.n_components if clusters is None else clusters.n_clusters
        in_groups = results["labels"] >= 0
        values: dict[str, Any] = {
            "n_rows": len(X),
            "counts": np.bincount(results["labels"][in_groups], minlength=n_labels),
        }
        if model.background is not None:
            values["n_background"] = np.count_nonzero(~in_groups)
        say_json(values | ({"output": None, **results} if to_screen else {"output": arguments.output}))


def _predict_dataset(arguments: argparse.Namespace) -> None:
    """Label the rows of a folder of .parquet files, some at a time."""
    from amofa.blocks import write_predictions
    from amofa.cli._datasets import check_parquet_output, read_dataset

    output = check_parquet_output(arguments)
    model = load_model(arguments.model)
    blocks = read_dataset(arguments, names=model.feature_names, n_features=model.n_features)
    n_rows = write_predictions(
        model, blocks, output, clusters=arguments.clusters, proba=arguments.proba, scores=arguments.scores
    )
    if arguments.json:
        say_json({"n_rows": n_rows, "output": output})


def _predict_classes(arguments: argparse.Namespace, target: Any) -> None:
    """Label rows by the classes that `amofa classify` has saved."""
    if arguments.clusters is not None or arguments.scores:
        raise ValueError(f"{arguments.model} holds classes, which have neither --clusters nor --scores")
    classes = load_classes(arguments.model)
    table = read_for(classes.models[0], arguments, keep=arguments.keep)
    names = np.array(classes.names or [str(c) for c in range(len(classes.models))])
    _tell(arguments, target, classes, names, table, score=False)


def _joined(kept: dict[str, NDArray[Any]], results: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns of a file, followed by results, under names that no column of the file has."""
    return kept | {free_name(name, kept): column for name, column in results.items()}


def _add_predict(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_table(parser)
    add_output(parser)
    add_clusters(parser, "label rows by clusters of components")
    parser.add_argument(
        "--proba",
        action="store_true",
        help="add the probability of each component, or cluster: p0, p1, ..., and that of a background: outlier",
    )
    parser.add_argument(
        "--scores", action="store_true", help="add the factor scores under each component: z0_0, z0_1, ..."
    )
    add_keep(parser)
    add_json(parser)


# ---- score -----------------------------------------------------------------------------------------------------------


def _score(arguments: argparse.Namespace) -> None:
    model = load_model(arguments.model)
    table = read_for(model, arguments, weights=arguments.weights)
    X, weights = table.values, table.weights
    rows = {"log_densities": model.score_samples(X)} if arguments.per_row else {}
    if rows and not arguments.json:
        write_table(sys.stdout, rows, header=False, form=table.form)
        return
    n = float(len(X) if weights is None else weights.sum())
    mean = model.score(X, weights)
    totals: dict[str, float] = {"n_samples": whole(n), "mean_log_density": mean, "log_likelihood": n * mean}
    totals |= {name: getattr(model, name)(X, weights) for name in ("bic", "aic", "icl")}
    if arguments.json:
        say_json({**totals, **rows})
    else:
        say("\n".join(_SCORES[name].format(value) for name, value in totals.items()))


def _add_score(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_table(parser)
    add_weights(parser)
    parser.add_argument("--per-row", action="store_true", help="print the log density of each row, in nats")
    add_json(parser)


# ---- impute ----------------------------------------------------------------------------------------------------------


def _impute(arguments: argparse.Namespace) -> None:
    take_model_and_table(arguments, "impute")
    target = table_target(arguments)
    _check_use_of_model(arguments)
    if arguments.seed is not None and not arguments.draws:
        raise ValueError("--seed needs --draws")
    known = None
    if arguments.model is None:
        table, model = read_and_fit(arguments, keep=arguments.keep)
    else:
        model = load_model(arguments.model)
        table, known = _read_known(model, arguments, keep=arguments.keep)
    filled = model.impute(table.values, known_columns=known, draws=arguments.draws, random_state=arguments.seed)
    columns = named_columns(model if known else model._named(table.names), filled)
    to_screen = target is sys.stdout
    if arguments.json:
        n_known = np.count_nonzero(~np.isnan(table.values.astype(np.float64)))
        values: dict[str, Any] = {"n_rows": len(filled), "n_filled": filled.size - n_known, "columns": list(columns)}
        say_json(values | ({"output": None, "values": filled} if to_screen else {"output": arguments.output}))
        if to_screen:
            return
    # A column of the file is filled in where it stands.
    places = dict(zip(known or columns, table.kept_values, strict=False))
    for name, column in columns.items():
        table.kept[places.get(name) or free_name(name, table.kept)] = column
    write_table(target, table.kept, form=table.form)


def _check_use_of_model(arguments: argparse.Namespace) -> None:
    """Check that there are no options of a fit if there is a model, and that FILE is not a model if there is none."""
    if arguments.model is None:
        if is_model(arguments.file):
            raise ValueError(f"{arguments.file} is a model; add the table whose cells it is to fill in")
        return
    of_fits = [*given_options(arguments, FIT_OPTIONS), *([] if arguments.weights is None else ["weights"])]
    if of_fits:
        option = of_fits[0].replace("_", "-")
        raise ValueError(f"--{option} is for a fit; leave out {arguments.model} to fit {arguments.file}")


def _read_known(
    model: MixtureOfFactorAnalyzers, arguments: argparse.Namespace, **options: Any
) -> tuple[Table, tuple[str, ...] | None]:
    """Read a table, and return it with the names of its columns if they are only some of the model's."""
    if arguments.columns is None or model.feature_names is None:
        return read_for(model, arguments, **options), None
    table = read(arguments, arguments.file, may_be_missing=True, **options)
    n_chosen, d = table.values.shape[1], model.n_features
    if n_chosen > d or (n_chosen < d and table.names is None):
        raise ValueError(f"{arguments.file} has {n_chosen} columns, but the model was made for {d}")
    return table, table.names if n_chosen < d else None


def _add_impute(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        f"{parser.description} With --columns by name, some of the model's columns are enough. Without MODEL, it is "
        "fitted to FILE, with the options of amofa fit."
    )
    add_model_or_not_and_table(parser)
    add_weights(parser)
    parser.add_argument(
        "--draws", action="store_true", help="fill in draws from the conditional distribution, not its mean"
    )
    parser.add_argument(
        "--seed", type=seed, help="seed, to draw the same values again (default: different ones each time)"
    )
    add_keep(parser)
    add_output(parser)
    add_fit_options(parser, FIT_OPTIONS)
    add_quiet(parser)
    add_json(parser)


# ---- classify --------------------------------------------------------------------------------------------------------


def _classify(arguments: argparse.Namespace) -> None:
    target = table_target(arguments)
    if arguments.score and target is not sys.stdout:
        raise ValueError("--score prints the accuracy, not the labels; leave out --output")
    if arguments.save is not None:
        check_regular_output(arguments, "classes", "save")
    elif arguments.test is None:
        raise ValueError("there are no rows to label; add TEST, or --save to save the classes")
    train = read(arguments, arguments.train, weights=arguments.weights, labels=arguments.labels)
    assert train.labels is not None
    if n_without := int(np.count_nonzero(train.labels == "")):
        raise ValueError(f"{arguments.train} has {n_without} rows without a label; drop them")
    test = None if arguments.test is None else _read_test(arguments, train)
    if arguments.score and (test is None or test.labels is None):
        raise ValueError(f"{arguments.test} has no column {arguments.labels!r}, which --score needs")
    names, numbers = np.unique(train.labels, return_inverse=True)
    if arguments.proba and suffix(arguments.output or "") == ".npy" and names.dtype.kind == "U":
        raise ValueError(f"{arguments.output}: write text labels with probabilities to a text file (.csv, .tsv)")
    with progress_of_fits(can_be_shown() and not arguments.quiet) as apply:
        classes = fit_classes(
            train.values,
            numbers,
            sample_weight=train.weights,
            priors=arguments.priors,
            apply=apply,
            **given_options(arguments, _CLASS_OPTIONS),
        )
    if arguments.save is not None:
        models = tuple(model._named(train.names) for model in classes.models)
        replace(classes, models=models).save(arguments.save, list(map(str, names.tolist())))
    if test is not None:
        _tell(arguments, target, classes, names, test, score=arguments.score)


def _read_test(arguments: argparse.Namespace, train: Table) -> Table:
    """Read the rows to label, finding columns by the names of the training table; with labels if there are any."""
    return read(
        arguments,
        arguments.test,
        labels=arguments.labels,
        names=train.names,
        n_features=train.values.shape[1],
        may_lack_labels=True,
        may_be_missing=True,
    )


def _tell(
    arguments: argparse.Namespace,
    target: Any,
    classes: ClassMixtures,
    names: NDArray[Any],
    test: Table,
    *,
    score: bool,
) -> None:
    """Write the labels of the rows, as a table or JSON, or print their accuracy."""
    proba = np.exp(classes.log_posteriors(test.values))
    found = names[proba.argmax(axis=1)]
    confusion = None
    if test.labels is not None:
        known = test.labels != ""
        confusion = _confusion(test.labels[known], found[known])
    columns: dict[str, NDArray[Any]] = {"label": found}
    if arguments.proba:
        columns |= {f"p_{name}": column for name, column in zip(names.tolist(), proba.T, strict=True)}
    columns = _joined(test.kept, columns)
    to_screen = target is sys.stdout
    if not (to_screen and (arguments.json or score)):
        write_table(target, columns, header=arguments.proba or bool(test.kept), form=test.form)
    if arguments.json:
        values: dict[str, Any] = {
            "classes": names,
            "n_components": [model.n_components for model in classes.models],
            "n_rows": len(found),
            "output": None if to_screen else arguments.output,
        }
        if confusion is not None:
            values |= {"accuracy": _accuracy(*confusion), "confusion": confusion[1], "confusion_labels": confusion[0]}
        if to_screen:
            values |= {"labels": found} | ({"probabilities": proba} if arguments.proba else {})
        say_json(values)
    elif score:
        assert confusion is not None
        say(_report(*confusion))


def _confusion(true: NDArray[Any], found: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return all labels (L,), and the number of rows (L, L) with each true label (first axis) and each found label."""
    labels, numbers = np.unique(np.concatenate([true, found]), return_inverse=True)
    counts = np.zeros((len(labels), len(labels)), dtype=np.intp)
    np.add.at(counts, (numbers[: len(true)], numbers[len(true) :]), 1)
    return labels, counts


def _accuracy(labels: NDArray[Any], counts: NDArray[np.intp]) -> float:
    return float(np.trace(counts) / max(counts.sum(), 1))


def _report(labels: NDArray[Any], counts: NDArray[np.intp]) -> str:
    shown = [str(label) for label in labels.tolist()]
    table = aligned(
        [["true \\ found", *shown], *([label, *map(str, row)] for label, row in zip(shown, counts, strict=True))]
    )
    return f"{np.trace(counts)} of {counts.sum()} rows right: {_accuracy(labels, counts):.2%}\n\n{table}"


def _add_classify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("train", metavar="TRAIN", help="table with labels; .npy, .npz or text")
    parser.add_argument("test", metavar="TEST", nargs="?", help="table of rows to label, with or without true labels")
    parser.add_argument("--labels", metavar="COLUMN", required=True, help="column of labels, text or numbers")
    add_table_options(parser)
    add_weights(parser)
    parser.add_argument(
        "--priors",
        default="uniform",
        help="uniform, or empirical: class shares in TRAIN (default: %(default)s)",
    )
    add_fit_options(parser, _CLASS_OPTIONS)
    parser.add_argument("--proba", action="store_true", help="add the probability of each class: p_NAME, ...")
    parser.add_argument(
        "--score",
        action="store_true",
        help="print the accuracy instead of the labels; TEST must have labels",
    )
    parser.add_argument(
        "--save", metavar="CLASSES.npz", help="file for the classes, by which amofa predict labels rows"
    )
    add_output(parser)
    add_quiet(parser)
    add_json(parser)


COMMANDS = (
    Command(
        "predict",
        _predict,
        _add_predict,
        "label rows by their component",
        "amofa predict iris.npz new.csv --proba -o labels.csv",
    ),
    Command("score", _score, _add_score, "print how well a model describes rows", "amofa score iris.npz new.csv"),
    Command("impute", _impute, _add_impute, "fill in missing cells", "amofa impute holes.csv -o whole.csv"),
    Command(
        "classify",
        _classify,
        _add_classify,
        "label rows by classes, with a mixture for each class of labelled rows",
        "amofa classify train.csv test.csv --labels species -o labels.csv",
    ),
)
