"""Read and write the files of commands."""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path
from typing import Any, TextIO

from numpy.typing import NDArray

from amofa._typing import FloatArray
from amofa.cli._tables import Table, read_table
from amofa.cli._text import STANDARD_STREAM
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.plot._axes import picture_formats

# Arguments that name input files.
_INPUTS = ("file", "model", "init", "train", "test")


def read(arguments: argparse.Namespace, source: str, **options: Any) -> Table:
    """Read a table with the options that all commands on tables have."""
    if is_dataset(source):
        raise ValueError(f"{source} is a folder; only fit and predict read folders of .parquet files, others one file")
    of_tables = ("columns", "exclude", "index", "delimiter", "decimal", "header", "key", "missing")
    return read_table(source, **{name: getattr(arguments, name) for name in of_tables}, **options)


def read_for(model: MixtureOfFactorAnalyzers, arguments: argparse.Namespace, **options: Any) -> Table:
    """Read a table for a model, finding columns by name if both have names; cells may be missing."""
    return read(
        arguments,
        arguments.file,
        names=model.feature_names,
        n_features=model.n_features,
        may_be_missing=True,
        **options,
    )


def check_output(arguments: argparse.Namespace, option: str = "output") -> None:
    """Check, before any long computation, that the output can be written and is not an input file."""
    path = Path(getattr(arguments, option))
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    sources = [source for name in _INPUTS if (source := getattr(arguments, name, None)) is not None]
    if path.is_file() and any(Path(source).exists() and path.samefile(source) for source in sources):
        raise ValueError(f"{path} cannot be both input and output")


def check_regular_output(arguments: argparse.Namespace, things: str, option: str = "output") -> None:
    """Check that the output is a regular file, as models, which replace a file as a whole, and pictures need."""
    check_output(arguments, option)
    path = Path(getattr(arguments, option))
    if str(path) == STANDARD_STREAM or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} is not a regular file; {things} are written to such files only")


def check_picture(arguments: argparse.Namespace, option: str = "output") -> None:
    """Check that a picture can be written, and that its file has the extension of a format."""
    check_regular_output(arguments, "pictures", option)
    path = getattr(arguments, option)
    extension = Path(path).suffix
    if not extension:
        # Matplotlib would append an extension, and so write another file.
        raise ValueError(f"{path} has no extension that gives the format; add .png, .pdf or .svg")
    formats = picture_formats()
    if extension.lower() not in formats:
        raise ValueError(f"pictures cannot be written as {extension}, for {path}; use one of {', '.join(formats)}")


def table_target(arguments: argparse.Namespace) -> str | TextIO:
    """Return the path or the stream to which a table is written."""
    if arguments.output in (None, STANDARD_STREAM):
        return sys.stdout
    check_output(arguments)
    return str(arguments.output)


def is_dataset(path: str) -> bool:
    """Return whether a path is that of a folder, whose .parquet files are read in blocks."""
    return Path(path).is_dir()


def is_of_classes(path: str) -> bool:
    """Return whether a file is one that `amofa classify` has saved; False if it cannot be read, which loading says."""
    return _has_array(path, "0/format")


def is_model(path: str) -> bool:
    """Return whether a file is one that `amofa fit` has saved; False if it cannot be read."""
    return _has_array(path, "format")


def _has_array(path: str, name: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{name}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def named_columns(model: MixtureOfFactorAnalyzers, X: FloatArray) -> dict[str, NDArray[Any]]:
    """Return the columns of X (n, d) by the names of the model's; x0, x1, ... where it has none or repeated ones."""
    names = model.feature_names
    if names is None or len(set(names)) < len(names):
        names = tuple(f"x{j}" for j in range(model.n_features))
    return dict(zip(names, X.T, strict=True))
