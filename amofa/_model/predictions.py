"""What a model says about rows, as columns of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._typing import FloatArray

if TYPE_CHECKING:
    from amofa._model.clusters import Clusters
    from amofa.mixture import MixtureOfFactorAnalyzers


def predictions(
    model: MixtureOfFactorAnalyzers, X: ArrayLike, *, clusters: Clusters | None, proba: bool, scores: bool
) -> dict[str, Any]:
    """Return labels of rows, and probabilities and factor scores if asked for, as `prediction_columns` takes them."""
    results: dict[str, Any] = {"labels": model.predict(X, clusters=clusters)}
    if proba:
        results["probabilities"] = model.predict_proba(X, clusters=clusters)
        if model.background is not None:
            results["outlier_scores"] = model.outlier_scores(X)
    if scores:
        results["factor_scores"] = model.factor_scores(X)
    return results


def prediction_columns(
    labels: NDArray[np.intp],
    probabilities: FloatArray | None = None,
    outlier_scores: FloatArray | None = None,
    factor_scores: Sequence[FloatArray] = (),
) -> dict[str, NDArray[Any]]:
    """Return columns (n,) by name, from labels (n,), probabilities (n, K) and K arrays (n, p_k) of factor scores."""
    columns: dict[str, NDArray[Any]] = {"label": labels}
    if probabilities is not None:
        columns |= {f"p{k}": column for k, column in enumerate(probabilities.T)}
    if outlier_scores is not None:
        columns["outlier"] = outlier_scores
    for k, of_component in enumerate(factor_scores):
        columns |= {f"z{k}_{q}": column for q, column in enumerate(of_component.T)}
    return columns
