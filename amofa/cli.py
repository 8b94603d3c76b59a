"""The command line: ``amofa demo``, ``fit``, ``predict``, ``score``, ``describe`` and ``sample``."""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from amofa import demo
from amofa._version import __version__
from amofa.criterion import CRITERIA
from amofa.fitting import EVIDENCE, NOISES, SEARCHES, fit
from amofa.io import load
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.parameters import FloatArray
from amofa.tables import STANDARD_STREAM, Table, read_table, write_table
from amofa.warnings import AmofaWarning

# What a shell reports of a program that SIGINT or SIGPIPE has ended.
_INTERRUPTED = 130
_READER_GONE = 141
_BAD_INPUT = 2

# What `amofa score` says, by name in its JSON object.
_SCORES = {
    "n_samples": "rows              {:14g}",
    "mean_log_density": "mean log density  {:14.4f}  nats per row; higher is better",
    "log_likelihood": "log-likelihood    {:14.4f}  nats; higher is better",
    "bic": "BIC               {:14.4f}  lower is better",
    "aic": "AIC               {:14.4f}  lower is better",
    "icl": "ICL               {:14.4f}  lower is better",
}

_DELIMITER_NAMES = {"comma": ",", "semicolon": ";", "space": " ", "tab": "\t", "\\t": "\t"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the program's name; those of the process where not given.

    Returns
    -------
    int
        Exit status: 0, or 2 after one line on standard error for input of any kind that cannot be used.
    """
    if sys.stdout is None:
        # Closed by whoever started the program. There may be no standard error either.
        if sys.stderr is not None:
            _complain("error", "standard output is closed")
        return _BAD_INPUT
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", category=AmofaWarning)
        try:
            return _run(argv)
        finally:
            for warning in caught:
                _complain("warning", str(warning.message))


def _run(argv: Sequence[str] | None) -> int:
    try:
        try:
            parser = _parser()
            arguments = parser.parse_args(argv)
            if arguments.run is None:
                parser.print_help(sys.stderr)
                return _BAD_INPUT
            arguments.run(arguments)
        finally:
            # Here, and not when the interpreter ends, so that a failure to write is one of those below.
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _drop_unwritable_output()
        return _READER_GONE
    except (OSError, ValueError, MemoryError) as error:
        _drop_unwritable_output()
        _complain("error", _message(error))
        return _BAD_INPUT
    return 0


def _drop_unwritable_output() -> None:
    """Keep the interpreter from failing, at its end, to write what standard output did not take."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or "there is not enough memory"


# ---- output ----------------------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _say_json(values: dict[str, Any]) -> None:
    _say(json.dumps(_plain(values), allow_nan=False))


def _plain(value: Any) -> Any:
    """Values that JSON has: lists for arrays and tuples, null for what is not finite."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _complain(kind: str, message: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"amofa: {kind}: {' '.join(message.split())}\n")


def _description(model: MixtureOfFactorAnalyzers) -> dict[str, Any]:
    """What is worth knowing about a model, but for its larger parameters, for JSON."""
    return {
        "n_components": model.n_components,
        "n_features": model.n_features,
        "n_factors": model.n_factors,
        "weights": model.weights,
        "n_parameters": model.n_parameters,
        "criterion": model.criterion,
        "n_samples": model.n_samples,
        "message_length": model.message_length,
        "log_likelihood": model.log_likelihood,
        "converged": model.converged,
        "history": [{"n_components": step.n_components, **asdict(step)} for step in model.history],
    }


# ---- files -----------------------------------------------------------------------------------------------------------


def _read(arguments: argparse.Namespace, model: MixtureOfFactorAnalyzers | None = None) -> Table:
    return read_table(
        arguments.file,
        columns=arguments.columns,
        weights=getattr(arguments, "weights", None),
        delimiter=arguments.delimiter,
        key=arguments.key,
        n_features=None if model is None else model.n_features,
    )


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse, before anything long is done, an output that cannot be written or would replace what is read."""
    path = Path(arguments.output)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    inputs = [getattr(arguments, name) for name in ("file", "model") if hasattr(arguments, name)]
    if path.is_file() and any(Path(source).exists() and path.samefile(source) for source in inputs):
        raise ValueError(f"{path} is read and cannot be the output too")


def _table_target(arguments: argparse.Namespace) -> str | TextIO:
    if arguments.output in (None, STANDARD_STREAM):
        return sys.stdout
    _check_output(arguments)
    return str(arguments.output)


def _check_model_target(arguments: argparse.Namespace) -> None:
    _check_output(arguments)
    path = Path(arguments.output)
    # A model file is put in place by renaming, which would replace a device.
    if arguments.output == STANDARD_STREAM or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} is not a regular file; models are written to such files only")


# ---- commands --------------------------------------------------------------------------------------------------------


def _demo(arguments: argparse.Namespace) -> None:
    run = demo.demonstrate(arguments.seed)
    if arguments.json:
        _say_json({**_description(run.model), **demo.comparison(run)})
    else:
        _say(demo.report(run))


def _fit(arguments: argparse.Namespace) -> None:
    if arguments.output is not None:
        _check_model_target(arguments)
    table = _read(arguments)
    given = {name: value for name in _FIT_OPTIONS if (value := getattr(arguments, name)) is not None}
    model = fit(table.values, sample_weight=table.weights, **given)
    if arguments.output is not None:
        model.save(arguments.output)
    if arguments.json:
        _say_json({**_description(model), "columns": table.names, "output": arguments.output})
    else:
        _say(model.summary())


def _predict(arguments: argparse.Namespace) -> None:
    target = _table_target(arguments)
    model = load(arguments.model)
    X = _read(arguments, model).values
    results: dict[str, Any] = {"labels": model.predict(X)}
    if arguments.proba:
        results["probabilities"] = model.predict_proba(X)
    if arguments.scores:
        results["factor_scores"] = model.factor_scores(X)
    to_screen = target is sys.stdout
    if not (arguments.json and to_screen):
        write_table(target, _prediction_columns(**results), header=arguments.proba or arguments.scores)
    if arguments.json:
        counts = np.bincount(results["labels"], minlength=model.n_components)
        output, rows = (None, results) if to_screen else (arguments.output, {})
        _say_json({"n_rows": counts.sum(), "counts": counts, "output": output, **rows})


def _prediction_columns(
    labels: NDArray[np.intp], probabilities: FloatArray | None = None, factor_scores: Sequence[FloatArray] = ()
) -> dict[str, NDArray[Any]]:
    """Columns (n,) by name, from labels (n,), probabilities (n, K) and K arrays (n, p_k) of factor scores."""
    columns: dict[str, NDArray[Any]] = {"label": labels}
    if probabilities is not None:
        columns |= {f"p{k}": column for k, column in enumerate(probabilities.T)}
    for k, scores in enumerate(factor_scores):
        columns |= {f"z{k}_{q}": column for q, column in enumerate(scores.T)}
    return columns


def _score(arguments: argparse.Namespace) -> None:
    model = load(arguments.model)
    table = _read(arguments, model)
    X, weights = table.values, table.weights
    rows = {"log_densities": model.score_samples(X)} if arguments.per_row else {}
    if rows and not arguments.json:
        write_table(sys.stdout, rows, header=False)
        return
    n = float(len(X) if weights is None else weights.sum())
    mean = model.score(X, weights)
    totals = {"n_samples": n, "mean_log_density": mean, "log_likelihood": n * mean}
    totals |= {name: getattr(model, name)(X, weights) for name in ("bic", "aic", "icl")}
    if arguments.json:
        _say_json({**totals, **rows})
    else:
        _say("\n".join(_SCORES[name].format(value) for name, value in totals.items()))


def _describe(arguments: argparse.Namespace) -> None:
    model = load(arguments.model)
    if arguments.json:
        parameters = {name: getattr(model, name) for name in ("means", "loadings", "uniquenesses")}
        _say_json({**_description(model), **parameters})
    else:
        _say(model.summary())


def _sample(arguments: argparse.Namespace) -> None:
    target = _table_target(arguments)
    model = load(arguments.model)
    X, labels = model.sample(arguments.n, arguments.seed)
    columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(model.n_features)}
    write_table(target, columns | ({"label": labels} if arguments.labels else {}))


# ---- options ---------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, and whose examples keep their lines."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def _one_or_list(kind: Callable[[str], float]) -> Callable[[str], float | list[float]]:
    """A parser of one number, or of a list of them with commas."""

    def parse(text: str) -> float | list[float]:
        try:
            values = [kind(entry) for entry in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not one {kind.__name__}, nor several with commas") from None
        return values if len(values) > 1 else values[0]

    return parse


def _columns(text: str) -> list[str]:
    try:
        columns = next(csv.reader([text], skipinitialspace=True))
    except csv.Error:
        columns = []
    if not columns or not all(columns):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of columns with commas")
    return columns


def _delimiter(text: str) -> str:
    return _DELIMITER_NAMES.get(text, text)


# Arguments of fit() that are options: parser, placeholder and help.
_FIT_OPTIONS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "n_components": (int, "K", "number of components; found if not given"),
    "n_factors": (
        _one_or_list(int),
        "P",
        "number of factors of every component, or one for each with commas; found if not given",
    ),
    "search": (str, "NAME", f"how numbers are found: {', '.join(SEARCHES)}"),
    "criterion": (
        str,
        "NAME",
        f"what is minimised: {', '.join((EVIDENCE, *CRITERIA))} (default: {EVIDENCE}, or mml with --search paper)",
    ),
    "noise": (str, "NAME", f"how uniquenesses are tied: {', '.join(NOISES)} (default: auto, of the thorough search)"),
    "noise_floor": (
        _one_or_list(float),
        "SHARE",
        "smallest uniqueness, as a share of each column's variance; or with commas, a variance for each column",
    ),
    "max_components": (int, "K", "most components that are found"),
    "max_factors": (int, "P", "most factors of a component that are found"),
    "tol": (float, "NATS", "smallest gain worth going on for, nats per row"),
    "max_iter": (int, "N", "most iterations of one EM run"),
}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="amofa",
        description="Fit mixtures of factor analysers; how many components, and factors in each, is found.",
        epilog="example:\n  amofa demo\n  amofa fit rows.csv -o model.npz && amofa predict model.npz rows.csv",
    )
    parser.add_argument("--version", action="version", version=f"amofa {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")

    def command(run: Callable[[argparse.Namespace], None], summary: str, example: str) -> argparse.ArgumentParser:
        name = run.__name__.removeprefix("_")
        added: argparse.ArgumentParser = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=f"example:\n  {example}"
        )
        added.set_defaults(run=run)
        return added

    _add_demo(command(_demo, "fit example 2 of the paper and compare with the truth", "amofa demo --seed 3"))
    _add_fit(command(_fit, "fit a mixture to a table", "amofa fit iris.csv --columns 0-3 -o iris.npz"))
    _add_predict(command(_predict, "label rows by component", "amofa predict iris.npz new.csv --proba -o labels.csv"))
    _add_score(command(_score, "say how well a model describes rows", "amofa score iris.npz new.csv"))
    _add_describe(command(_describe, "show a model", "amofa describe iris.npz --json"))
    _add_sample(command(_sample, "draw rows from a model", "amofa sample iris.npz 1000 --seed 1 -o drawn.csv"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of the random rows (default: %(default)s)")
    _add_json(parser)


def _add_fit(parser: argparse.ArgumentParser) -> None:
    _add_table(parser)
    _add_weights(parser)
    parser.add_argument("-o", "--output", metavar="MODEL.npz", help="file for the model")
    defaults = inspect.signature(fit).parameters
    for name, (kind, metavar, text) in _FIT_OPTIONS.items():
        default = defaults[name].default
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            metavar=metavar,
            help=text if default is None else f"{text} (default: {default})",
        )
    _add_json(parser)


def _add_predict(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    _add_table(parser)
    _add_output(parser)
    parser.add_argument("--proba", action="store_true", help="add the probability of every component: p0, p1, ...")
    parser.add_argument(
        "--scores", action="store_true", help="add the factor scores under every component: z0_0, z0_1, ..."
    )
    _add_json(parser)


def _add_score(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    _add_table(parser)
    _add_weights(parser)
    parser.add_argument("--per-row", action="store_true", help="print the log density of every row, nats")
    _add_json(parser)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    _add_json(parser)


def _add_sample(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    parser.add_argument("n", metavar="N", type=int, help="how many rows")
    parser.add_argument("--seed", type=int, help="for the same rows every time (default: other ones every time)")
    parser.add_argument("--labels", action="store_true", help="add the component of each row")
    _add_output(parser)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="file that amofa fit wrote")


def _add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="table: .npy, .npz or text, with or without a header; - is standard input"
    )
    parser.add_argument(
        "--columns",
        type=_columns,
        metavar="LIST",
        help="columns to use, with commas: names, numbers from 0, or ranges such as 0-3 (default: all)",
    )
    parser.add_argument(
        "--delimiter",
        type=_delimiter,
        metavar="CHAR",
        help=f"what separates fields: a character or {', '.join(_DELIMITER_NAMES)} (default: by ending and first line)",
    )
    parser.add_argument("--key", metavar="ARRAY", help="array of an .npz file (default: the only table in it)")


def _add_weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", metavar="COLUMN", help="column that says how often each row counts")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="file to write: .npy, .tsv, or .csv (default: standard output)"
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
