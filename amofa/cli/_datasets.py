"""Folders of .parquet files, which are read in blocks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from amofa.blocks import Blocks, from_parquet
from amofa.blocks._parquet import parquet_columns
from amofa.cli._columns import Selection
from amofa.cli._parquet import PARQUET
from amofa.cli._text import suffix

# Options on tables that say nothing of a folder of .parquet files.
_OF_OTHERS = ("delimiter", "header", "key", "missing", "keep")


def read_dataset(
    arguments: argparse.Namespace,
    *,
    names: Sequence[str] | None = None,
    n_features: int | None = None,
    weights: str | None = None,
) -> Blocks:
    """Return the selected columns of a folder in blocks; see `Selection` for names and n_features."""
    source = arguments.file
    if given := [name for name in _OF_OTHERS if getattr(arguments, name, None)]:
        raise ValueError(f"{source} is a folder of .parquet files, for which there is no --{given[0]}")
    found = parquet_columns(source)
    selection = Selection(
        source, arguments.columns, weights, None, names, False, n_features, arguments.exclude or (), arguments.index
    )
    positions = selection.positions(found, len(found))
    return from_parquet(
        source,
        [found[j] for j in positions.values],
        weights=None if positions.weights is None else found[positions.weights],
    )


def check_parquet_output(arguments: argparse.Namespace) -> str:
    """Return the path of the output, which must be that of a .parquet file."""
    if arguments.output is None or suffix(arguments.output) != PARQUET:
        raise ValueError(f"labels of the folder {arguments.file} are written block by block: add -o LABELS.parquet")
    if Path(arguments.file).resolve() in Path(arguments.output).resolve().parents:
        raise ValueError(f"{arguments.output} is in the folder that is read, and would be read with it the next time")
    return str(arguments.output)
