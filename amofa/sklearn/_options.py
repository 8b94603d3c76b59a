"""What the estimators share: the options of a fit as parameters, rows as scikit-learn checks them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from amofa._data.checks import check_table
from amofa.history import Callback, OnIteration
from amofa.mixture import MixtureOfFactorAnalyzers

# What is computed is float64; what was float32 comes back as float32.
FLOATS = (np.float64, np.float32)


class FitOptions(BaseEstimator):
    """An estimator whose parameters are the options of `amofa.fit`, with its defaults."""

    def __init__(
        self,
        n_components: int | None = None,
        n_factors: int | Sequence[int] | None = None,
        *,
        search: str = "thorough",
        criterion: str | None = None,
        noise: str | None = None,
        noise_floor: float | ArrayLike | None = None,
        prior_scale: ArrayLike | None = None,
        prior_rows: float | None = None,
        max_components: int | None = None,
        max_factors: int | None = None,
        init: MixtureOfFactorAnalyzers | ArrayLike | None = None,
        tol: float = 1e-5,
        max_iter: int = 100,
        callback: Callback | None = None,
        on_iteration: OnIteration | None = None,
        progress: bool = False,
        on_interrupt: str = "raise",
        max_time: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_factors = n_factors
        self.search = search
        self.criterion = criterion
        self.noise = noise
        self.noise_floor = noise_floor
        self.prior_scale = prior_scale
        self.prior_rows = prior_rows
        self.max_components = max_components
        self.max_factors = max_factors
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.callback = callback
        self.on_iteration = on_iteration
        self.progress = progress
        self.on_interrupt = on_interrupt
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_threads = n_threads

    def _options(self) -> dict[str, Any]:
        """Keywords of `amofa.fit`."""
        options: dict[str, Any] = self.get_params(deep=False)
        return options

    def _set_fitted(self, model: MixtureOfFactorAnalyzers) -> None:
        self.model_ = model
        self.n_components_ = model.n_components
        self.n_factors_ = model.n_factors
        self.weights_ = model.weights
        self.means_ = model.means
        self.loadings_ = model.loadings
        self.uniquenesses_ = model.uniquenesses
        self.converged_ = model.converged
        self.n_iter_ = total_iterations(model)


def total_iterations(model: MixtureOfFactorAnalyzers) -> int:
    """EM iterations of all steps of the search; at least 1, for rows in which there is nothing to iterate over."""
    return max(1, sum(step.n_iter for step in model.history))


def named_or_checked(estimator: Any, X: ArrayLike, rows: NDArray[Any]) -> ArrayLike:
    """The frame where its columns have names, which the model then keeps; otherwise the rows that were checked."""
    return X if hasattr(estimator, "feature_names_in_") else rows


class NamedTable:
    """An array whose columns have names, which `amofa.fit` reads as a frame.

    Parameters
    ----------
    values : (n, d) array
    column_names : sequence of d str
    """

    def __init__(self, values: NDArray[Any], column_names: Sequence[str]) -> None:
        self._values, self._names = values, tuple(column_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        return self._names

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._values, dtype=dtype) if copy else np.asarray(self._values, dtype=dtype)


def checked_rows(estimator: Any, X: ArrayLike) -> NDArray[Any]:
    """Rows for a fitted estimator, float64 or float32; an error of NaN says what takes them."""
    check_is_fitted(estimator)
    rows: NDArray[Any] = validate_data(estimator, X, dtype=FLOATS, reset=False, ensure_all_finite=False)
    check_table(rows, remedy=estimator._remedy)
    return rows
