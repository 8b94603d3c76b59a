"""Read and write .parquet files by pandas, with pyarrow, or by polars, whichever is installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.dataframes import column_names, columns_without_numbers, listed, to_array
from amofa.cli._columns import Columns, Selection

PARQUET = ".parquet"
_NEEDED = "files in .parquet need pandas and pyarrow, or polars: python -m pip install polars"


def read_parquet(source: str, selection: Selection) -> Columns:
    """Read the selected columns; missing values are NaN, and labels empty. Raises ImportError without a reader."""
    frame = _read_frame(source)
    names = column_names(frame) or ()
    positions = selection.positions(names, len(names))
    kept = selection.kept(positions, names, len(names))
    chosen = frame[[names[j] for j in positions.numbers]]
    if text := columns_without_numbers(chosen):
        remedy = selection.remedy_for_text([names.index(name) for name in text], names)
        what = f"column {listed(text)} does" if len(text) == 1 else f"columns {listed(text)} do"
        raise ValueError(f"{selection.table}: {what} not hold numbers{remedy}")
    return Columns(
        to_array(chosen),
        None if positions.labels is None else _text(frame[names[positions.labels]]),
        tuple(names[j] for j in positions.numbers),
        {name: np.asarray(frame[names[j]]) for j, name in kept.items()},
        [kept[j] for j in positions.values if j in kept],
    )


def _read_frame(source: str) -> Any:
    # Both raise nearly anything about a damaged file.
    try:
        with open(source, "rb") as file:
            try:
                return importlib.import_module("pandas").read_parquet(file)
            except ImportError:
                return importlib.import_module("polars").read_parquet(file)
    except ImportError as error:
        raise ImportError(_NEEDED) from error
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{source} cannot be read as .parquet ({str(error)[:200]})") from error


def _text(column: Any) -> NDArray[Any]:
    """Return labels as they are in text, empty where one is missing."""
    values = column.tolist() if hasattr(column, "tolist") else column.to_list()
    return np.array(["" if value is None or value != value else str(value) for value in values])


def write_parquet(target: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns (n,) by name. Raises ImportError if there is no package that writes them."""
    lists = {name: array.tolist() for name, array in columns.items()}
    try:
        with open(target, "wb") as file:
            try:
                importlib.import_module("pandas").DataFrame(lists).to_parquet(file, index=False)
            except ImportError:
                importlib.import_module("polars").DataFrame(lists).write_parquet(file)
    except ImportError as error:
        raise ImportError(_NEEDED) from error
