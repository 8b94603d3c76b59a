"""The parser of all commands, and options that several commands have."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable
from dataclasses import Field
from typing import Any, NamedTuple, NoReturn

_TABLE = (
    "table: .npy, .npz, .parquet, or text, with or without a header; - is standard input; fit and predict read folders "
    "of .parquet files, too"
)
_DELIMITER_NAMES = {"comma": ",", "semicolon": ";", "space": " ", "tab": "\t", "\\t": "\t"}


class Command(NamedTuple):
    """One command of the program."""

    name: str
    run: Callable[[argparse.Namespace], None]
    add_options: Callable[[argparse.ArgumentParser], None]
    summary: str
    example: str


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose examples keep their line breaks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


# ---- types of arguments ----------------------------------------------------------------------------------------------


def one_or_list(kind: Callable[[str], float]) -> Callable[[str], float | list[float]]:
    """Return a function that parses one number, or a list of numbers with commas."""

    def parse(text: str) -> float | list[float]:
        try:
            values = [kind(entry) for entry in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not one {kind.__name__} or several with commas") from None
        return values if len(values) > 1 else values[0]

    return parse


def seed(text: str) -> int:
    """Parse the seed of a random generator."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def number_list(text: str) -> list[int]:
    """Parse a list of whole numbers with commas, in which ranges such as 1-10 include both ends."""
    numbers: list[int] = []
    for entry in text.split(","):
        first, dash, last = entry.partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else True)):
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers and ranges with commas")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _list_of(things: str) -> Callable[[str], list[str]]:
    """Return a function that parses a list of columns, say, with commas; a name with a comma is quoted."""

    def parse(text: str) -> list[str]:
        try:
            entries = next(csv.reader([text], skipinitialspace=True))
        except csv.Error:
            entries = []
        if not entries or not all(entries):
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of {things} with commas")
        return entries

    return parse


column_list = _list_of("columns")
_value_list = _list_of("values")


def _number_of_clusters(text: str) -> int | str:
    """Parse a number of clusters, or "auto"."""
    if text != "auto" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number or auto")
    return text if text == "auto" else int(text)


# ---- shared options --------------------------------------------------------------------------------------------------


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="file that amofa fit wrote")


def add_table(parser: argparse.ArgumentParser, **options: Any) -> None:
    parser.add_argument("file", metavar="FILE", help=_TABLE, **options)
    add_table_options(parser)


def add_model_or_not_and_table(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, which may be left out, and FILE; see `take_model_and_table`."""
    model = parser.add_argument("model", metavar="[MODEL]", help="file that amofa fit wrote (default: a fit to FILE)")
    file = parser.add_argument("file", metavar="FILE", help=_TABLE)
    # With nargs="?", either argument would count as missing where an option stands between the two.
    model.required = file.required = False
    add_table_options(parser)


def take_model_and_table(arguments: argparse.Namespace, command: str) -> None:
    """Set `model` to None, and `file`, where there is one argument."""
    if arguments.file is None:
        arguments.model, arguments.file = None, arguments.model
    if arguments.file is None:
        raise ValueError(f"the following arguments are required: FILE (see amofa {command} --help)")


def add_table_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--columns",
        type=column_list,
        metavar="LIST",
        help="columns to use, with commas: names, numbers from 0, or ranges such as 0-3 (default: those of the model "
        "by their names, or all)",
    )
    parser.add_argument(
        "--exclude",
        type=column_list,
        metavar="LIST",
        help="columns not to use, in the same way; they may hold any text",
    )
    parser.add_argument(
        "--missing",
        type=_value_list,
        action="extend",
        metavar="LIST",
        help="numbers or words that mark missing values, with commas (--missing=-9,-99), besides empty cells, NA, N/A, "
        "NaN, NULL, None and ?; may be given several times",
    )
    parser.add_argument(
        "--index",
        metavar="COLUMN",
        help="column of row names or numbers: not used, but the first one in tables that are written",
    )
    parser.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first line of a text has the names of columns (default: by the first two lines)",
    )
    parser.add_argument(
        "--decimal", default=".", metavar="MARK", help="decimal mark of numbers in text, . or , (default: %(default)s)"
    )
    parser.add_argument(
        "--delimiter",
        type=lambda text: _DELIMITER_NAMES.get(text, text),
        metavar="CHAR",
        help=f"field separator: a character, or {', '.join(_DELIMITER_NAMES)} (default: by file name and first line)",
    )
    parser.add_argument("--key", metavar="ARRAY", help="array of an .npz file (default: its only table)")


def add_weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", metavar="COLUMN", help="column of row weights: how often each row counts")


def add_fit_options(parser: argparse.ArgumentParser, options: Iterable[Field[Any]]) -> None:
    """Add options of fits, which are fields of `FitOptions`."""
    for option in options:
        kind, text = option.metadata["kind"], option.metadata["help"]
        parser.add_argument(
            f"--{option.name.replace('_', '-')}",
            type=one_or_list(kind) if option.metadata["many"] else kind,
            metavar=option.metadata["metavar"],
            help=text if option.default is None else f"{text} (default: {option.default})",
        )


def given_options(arguments: argparse.Namespace, options: Iterable[Field[Any]]) -> dict[str, Any]:
    """Return those of the options of fits that were given, by name."""
    return {o.name: value for o in options if (value := getattr(arguments, o.name)) is not None}


def add_clusters(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument(
        "--clusters", type=_number_of_clusters, metavar="N", help=f"{text}: their number, or auto (default: components)"
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="file to write: .npy, .tsv, or .csv (default: standard output)"
    )


def add_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="write the columns of FILE, too, before the results")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress (on standard error, on terminals)")
