"""Shared parts of the estimators: the options of a fit as parameters, and scikit-learn's checks of rows."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from amofa._background import LogDensity
from amofa._data.checks import (
    check_incomplete_rows,
    check_incomplete_table,
    check_not_in_blocks,
    check_not_masked,
    check_weights,
    without_mask,
)
from amofa._model.posterior import Rows, rows_of
from amofa._search.options import FitOptions
from amofa.fitting import fit_checked
from amofa.history import Callback, OnIteration
from amofa.mixture import MixtureOfFactorAnalyzers

# Computations are in float64; results for float32 rows are returned as float32.
FLOATS = (np.float64, np.float32)

# What docstrings of estimators say of the options, in place of "{options}".
_OPTIONS = """\
n_components : int, optional
    Number of components; found if not given.
n_factors : int or sequence of int, optional
    Number of factors of every component, or one number for each; found if not given.
search : {"thorough", "paper"}, default "thorough"
criterion : {"evidence", "mml", "bic", "aic", "icl"}, optional
    By default that of the search.
noise : {"auto", "component", "shared", "isotropic"}, optional
    How uniquenesses are tied; by default that of the search.
noise_floor : float or (COLUMNS,) array-like, optional
    Smallest uniqueness: a share of each column's variance, or a variance for each column.
prior_scale : (COLUMNS,) array-like, optional
    Centre of the prior of uniquenesses: a variance for each column.
prior_rows : float, optional
    Strength of this prior.
tails : {"normal", "t", "auto"}, default "normal"
    Distributions of components: normal, multivariate t, or what costs less.
degrees_of_freedom : float, optional
    Of t components; found if not given.
background : {"uniform", "nested", "heavy", "auto"} or callable, optional
    A density beside the components, for scattered rows; it is dropped where it does not pay.
max_components, max_factors : int, optional
    Upper bounds of what is found.
init : MixtureOfFactorAnalyzers, scikit-learn's GaussianMixture, or (n_samples,) array-like of int or str, optional
    Start of the search: a model of these columns, or labels of the training rows, with -1 or None for none. Clones of
    the estimator, as in a grid search, have a GaussianMixture that is not fitted; there, pass
    ``FrozenEstimator(mixture)`` of `sklearn.frozen`.
tol : float, default 1e-5
    Tolerance of EM, in nats per row.
max_iter : int, default 100
    Maximum number of iterations of one EM run.
callback : callable, optional
    Called with every step of the search; a true result ends the search.
on_iteration : callable, optional
    Called with every iteration of EM on all rows; a true result ends the search.
progress : bool, default False
    Whether to show the progress of the search on a terminal.
on_interrupt : {"raise", "return"}, default "raise"
    Whether a KeyboardInterrupt raises an error or returns the best model so far.
max_time : float, optional
    Time in seconds after which the search stops with the best model so far.
checkpoint : str or PathLike, optional
    A file from which the same fit resumes after it was interrupted.
n_threads : int, optional
    Maximum number of threads; results do not depend on it.
"""


class BaseAMoFA(BaseEstimator):
    """Base of estimators whose parameters are the options of `amofa.fit`, with its defaults."""

    # Number of columns of the table that is fitted, in the docstring.
    _columns = "n_features"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__doc__ is not None:  # as it is under python -OO
            options_of_table = _OPTIONS.strip().replace("COLUMNS", cls._columns)
            cls.__doc__ = inspect.cleandoc(cls.__doc__).replace("{options}", options_of_table)

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
        tails: str = "normal",
        degrees_of_freedom: float | None = None,
        background: str | LogDensity | None = None,
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
        self.tails = tails
        self.degrees_of_freedom = degrees_of_freedom
        self.background = background
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

    def _fit_options(self) -> FitOptions:
        """Return the options of the fit; estimators may have parameters besides."""
        return FitOptions(**{option.name: getattr(self, option.name) for option in fields(FitOptions)})

    def _fit_rows(
        self, rows: NDArray[Any], sample_weight: ArrayLike | None, names: tuple[str, ...] | None
    ) -> MixtureOfFactorAnalyzers:
        """Fit a mixture to rows, after a check of their cells and weights, and set the attributes of it."""
        table, weights = check_incomplete_rows(rows, sample_weight)
        return self._adopt(fit_checked(table, weights, self._fit_options(), names))

    def _adopt(self, model: MixtureOfFactorAnalyzers) -> MixtureOfFactorAnalyzers:
        """Set the attributes of a fitted mixture, and return it."""
        self.model_ = model
        self.n_components_ = model.n_components
        self.n_factors_ = model.n_factors
        self.weights_ = model.weights
        self.means_ = model.means
        self.loadings_ = model.loadings
        self.uniquenesses_ = model.uniquenesses
        self.degrees_of_freedom_ = model.degrees_of_freedom
        self.background_weight_ = model.background_weight
        self.converged_ = model.converged
        self.n_iter_ = total_iterations(model)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def total_iterations(model: MixtureOfFactorAnalyzers) -> int:
    """Return the number of EM iterations in all steps of the search, or 1 if there was nothing to iterate."""
    return max(1, sum(step.n_iter for step in model.history))


def names_of_columns(estimator: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of the training rows, if they had any."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def training_rows(estimator: Any, X: ArrayLike) -> NDArray[Any]:
    """Return the rows to fit, float64 or float32, whose cells are still to be checked, and note their columns."""
    check_not_in_blocks(X)
    rows: NDArray[Any] = validate_data(estimator, without_mask(X), dtype=FLOATS, ensure_all_finite=False)
    return rows


def further_rows(estimator: Any, X: ArrayLike) -> NDArray[Any]:
    """Return rows to learn from besides the first ones, float64 or float32, whose cells are still to be checked."""
    check_not_in_blocks(X)
    rows: NDArray[Any] = validate_data(estimator, without_mask(X), dtype=FLOATS, reset=False, ensure_all_finite=False)
    return rows


def training_rows_and_targets(estimator: Any, X: ArrayLike, y: ArrayLike, **checks: Any) -> tuple[Any, Any]:
    """Return the same with the targets or labels of the rows."""
    check_not_masked(y, "y", "drop such rows")
    check_not_in_blocks(X)
    rows, targets = validate_data(estimator, without_mask(X), y, dtype=FLOATS, ensure_all_finite=False, **checks)
    return rows, targets


def checked_table(estimator: Any, X: ArrayLike) -> tuple[NDArray[Any], bool]:
    """Return a table for a fitted estimator, float64 or float32, and whether any of its cells is missing, NaN."""
    check_is_fitted(estimator)
    return check_incomplete_table(further_rows(estimator, X))


def checked_rows(estimator: Any, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Rows:
    """Return the rows of `checked_table`, with their weights, for functions of `amofa._model.posterior`."""
    table, is_incomplete = checked_table(estimator, X)
    return rows_of(table, is_incomplete, None if sample_weight is None else check_weights(sample_weight, len(table)))
