"""Predictions for rows in blocks."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from amofa._data.checks import check_incomplete_table
from amofa._data.dataframes import check_same_names
from amofa._model.predictions import prediction_columns, predictions
from amofa.blocks._blocks import Blocks
from amofa.blocks._files import package
from amofa.mixture import MixtureOfFactorAnalyzers


def write_predictions(
    model: MixtureOfFactorAnalyzers,
    blocks: Blocks,
    path: str | os.PathLike[str],
    *,
    clusters: int | str | None = None,
    proba: bool = False,
    scores: bool = False,
    log_density: bool = False,
) -> int:
    """Write what a model says of rows in blocks into a Parquet file, block by block.

    Parameters
    ----------
    model : MixtureOfFactorAnalyzers
    blocks : Blocks
        Rows with the columns of the model; their weights do not matter.
    path : str or PathLike
        File to write. It appears when it is complete.
    clusters : int or str, optional
        As in ``model.predict``.
    proba : bool, default False
        Whether to add the probability of each component, or cluster, as p0, p1, ..., and that of a background as
        outlier.
    scores : bool, default False
        Whether to add the factor scores under each component, as z0_0, z0_1, ...
    log_density : bool, default False
        Whether to add the log density, in nats.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    ImportError
        If pyarrow is not installed: ``pip install 'amofa[blocks]'``.
    TypeError, ValueError
        If a block cannot be used; the message names it. No file is written then.
    """
    if not isinstance(blocks, Blocks):
        raise TypeError(f"blocks must be Blocks, got {type(blocks).__name__}; model.predict takes arrays and frames")
    arrow, parquet = package("pyarrow"), package("pyarrow.parquet")
    check_same_names(blocks.feature_names, model.feature_names)
    model = model._with_arrays()
    unfinished, n, writer = f"{os.fspath(path)}.part", 0, None
    chosen = None if clusters is None else model._chosen_clusters(clusters)

    def of_block(number: int, rows: Any, weights: Any) -> dict[str, NDArray[Any]]:
        if len(rows) == 0:
            return {}
        X, _ = check_incomplete_table(rows, name=f"block {number} of X", n_features=model.n_features)
        columns = prediction_columns(**predictions(model, X, clusters=chosen, proba=proba, scores=scores))
        return columns | ({"log_density": model.score_samples(X)} if log_density else {})

    try:
        for columns in blocks.over_blocks(of_block):
            if columns:
                table = arrow.table(columns)
                writer = writer or parquet.ParquetWriter(unfinished, table.schema)
                writer.write_table(table)
                n += len(table)
        if writer is None:
            raise ValueError("X has no rows in any block; at least one row is needed")
        writer.close()
        os.replace(unfinished, path)
    except BaseException:
        if writer is not None:
            writer.close()
            os.remove(unfinished)
        raise
    return n
