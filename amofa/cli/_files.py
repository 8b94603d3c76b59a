"""Files that commands read and write."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from numpy.typing import NDArray

from amofa._typing import FloatArray
from amofa.cli._tables import Table, read_table
from amofa.cli._text import STANDARD_STREAM
from amofa.mixture import MixtureOfFactorAnalyzers

# Arguments that name files which are read.
_INPUTS = ("file", "model", "init", "train", "test")


def read(arguments: argparse.Namespace, source: str, **options: Any) -> Table:
    """A table, by the options that all commands with tables have."""
    return read_table(source, columns=arguments.columns, delimiter=arguments.delimiter, key=arguments.key, **options)


def read_for(model: MixtureOfFactorAnalyzers, arguments: argparse.Namespace, **options: Any) -> Table:
    """A table for a model: its columns by their names, if both have names; cells may be missing."""
    return read(
        arguments,
        arguments.file,
        names=model.feature_names,
        n_features=model.n_features,
        may_be_missing=True,
        **options,
    )


def check_output(arguments: argparse.Namespace) -> None:
    """Refuse, before anything long is done, an output that cannot be written or would replace what is read."""
    path = Path(arguments.output)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    if path.is_file() and any(Path(source).exists() and path.samefile(source) for source in _sources(arguments)):
        raise ValueError(f"{path} is read and cannot be the output too")


def _sources(arguments: argparse.Namespace) -> Sequence[str]:
    return [source for name in _INPUTS if (source := getattr(arguments, name, None)) is not None]


def table_target(arguments: argparse.Namespace) -> str | TextIO:
    """Where a table goes."""
    if arguments.output in (None, STANDARD_STREAM):
        return sys.stdout
    check_output(arguments)
    return str(arguments.output)


def named_columns(model: MixtureOfFactorAnalyzers, X: FloatArray) -> dict[str, NDArray[Any]]:
    """Columns of rows (n, d) by the names of the model's; x0, x1, ... where it has none, or not different ones."""
    names = model.feature_names
    if names is None or len(set(names)) < len(names):
        names = tuple(f"x{j}" for j in range(model.n_features))
    return dict(zip(names, X.T, strict=True))


def free_name(name: str, columns: Mapping[str, Any]) -> str:
    """A name for one more column."""
    return name if name not in columns else free_name(f"{name}_", columns)


def check_file_target(arguments: argparse.Namespace, things: str) -> None:
    """Refuse an output that is no regular file: what is to be there is put in place whole, or is not text."""
    check_output(arguments)
    path = Path(arguments.output)
    if arguments.output == STANDARD_STREAM or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} is not a regular file; {things} are written to such files only")
