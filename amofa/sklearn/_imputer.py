"""Imputation of missing cells by a mixture of factor analysers, as a scikit-learn transformer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.impute import MissingIndicator

from amofa._background import LogDensity
from amofa._data.checks import RandomState, check_random_state
from amofa._model.conditional import fill
from amofa.history import Callback, OnIteration
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.sklearn._base import BaseAMoFA, checked_table, names_of_columns, training_rows


class AMoFAImputer(OneToOneFeatureMixin, TransformerMixin, BaseAMoFA):
    """Imputation of missing cells by a mixture of factor analysers, which is fitted to rows with missing cells.

    The fit is by exact maximum likelihood of the cells that are there. A missing cell is then replaced by its
    conditional mean given the other cells of its row, or by a draw from the conditional distribution. Both are right if
    cells are missing at random: whether one is missing may depend on cells that are there, not on its own value.

    The parameters are the options of `amofa.fit`, which describes them in full, and those of scikit-learn's imputers.
    Missing cells are NaN, the nulls of frames, and masked values.

    Parameters
    ----------
    {options}
    add_indicator : bool, default False
        Whether `transform` appends a column of 0 and 1 for each column with missing cells in the training rows: 1 where
        a cell was missing. See `sklearn.impute.MissingIndicator`.
    keep_empty_features : bool, default False
        Whether columns without any value in the training rows are kept, with 0 in place of missing cells. By default
        `transform` leaves them out.
    draws : bool, default False
        Whether to insert draws from the joint conditional distribution of the missing cells of a row instead of their
        conditional means. Imputed means vary less than data do; draws vary like data.
    random_state : int, numpy Generator, numpy RandomState or None
        For draws, each time `transform` is called: an int gives the same draws every time. After
        ``set_params(random_state=...)`` the same fit gives others, without another fit.

    Attributes
    ----------
    model_ : MixtureOfFactorAnalyzers
        The mixture of all n_features_in_ columns.
    indicator_ : MissingIndicator or None
        What makes the columns that `add_indicator` asks for.
    n_components_ : int
    n_factors_ : (n_components_,) int array
    weights_ : (n_components_,) array
    means_, uniquenesses_ : (n_components_, n_features) arrays
    loadings_ : list of n_components_ arrays (n_features, n_factors_[k])
    degrees_of_freedom_ : (n_components_,) array
        Infinite for normal components.
    background_weight_ : float
        Share of the rows that belongs to the background; 0 without one.
    converged_ : bool
    n_iter_ : int
        Number of EM iterations in all steps of the search.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only if the columns of the training rows had string names.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa.sklearn import AMoFAImputer
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(0, 1, 300)
    >>> X = np.outer(t, [8, 4, -6]) + rng.normal(0, 0.1, (300, 3))
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> imputer = AMoFAImputer(add_indicator=True).fit(X)
    >>> imputer.transform([[4.0, np.nan, -3.0]]).round(1)
    array([[ 4.,  2., -3.,  0.,  1.,  0.]])
    >>> imputer.get_feature_names_out()[2:4].tolist()
    ['x2', 'missingindicator_x0']

    Draws, of which there may be several for the same fit:

    >>> imputer = AMoFAImputer(draws=True, random_state=0).fit(X)
    >>> drawn = [imputer.set_params(random_state=m).transform([[4.0, np.nan, -3.0]]) for m in range(3)]
    >>> np.concatenate(drawn)[:, 1].round(1)
    array([2. , 2.1, 2. ])
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_factors: int | Sequence[int] | None = None,
        *,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        draws: bool = False,
        random_state: RandomState = None,
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
        super().__init__(
            n_components,
            n_factors,
            search=search,
            criterion=criterion,
            noise=noise,
            noise_floor=noise_floor,
            prior_scale=prior_scale,
            prior_rows=prior_rows,
            tails=tails,
            degrees_of_freedom=degrees_of_freedom,
            background=background,
            max_components=max_components,
            max_factors=max_factors,
            init=init,
            tol=tol,
            max_iter=max_iter,
            callback=callback,
            on_iteration=on_iteration,
            progress=progress,
            on_interrupt=on_interrupt,
            max_time=max_time,
            checkpoint=checkpoint,
            n_threads=n_threads,
        )
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.draws = draws
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to rows with missing cells.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
            NaN marks a missing cell.
        y : ignored
        sample_weight : (n_samples,) array-like, optional
            How often each row counts.

        Returns
        -------
        self
        """
        rows = training_rows(self, X)
        self._fit_rows(rows, sample_weight, names_of_columns(self))
        self._empty = np.isnan(rows).all(axis=0)
        self.indicator_ = self._fit_indicator(rows)
        return self

    def _fit_indicator(self, rows: NDArray[Any]) -> MissingIndicator | None:
        if not self.add_indicator:
            return None
        # Whatever kind of tables scikit-learn is set to return.
        indicator = MissingIndicator(error_on_new=False).set_output(transform="default")
        return indicator.fit(rows)

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the rows with their missing cells filled in, followed by the columns of `add_indicator`.

        A row without any cell gets the mean of the mixture, or a draw from it.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
            NaN marks a missing cell.

        Returns
        -------
        (n_samples, n_features_out) array
            float32 if X is.
        """
        table, _ = checked_table(self, X)
        filled = table.astype(np.float64)
        # Nothing is known of columns that were empty, so that their values say nothing of others.
        filled[:, self._empty] = np.nan
        fill(self.model_._parameters, filled, check_random_state(self.random_state) if self.draws else None)
        if self.keep_empty_features:
            filled[:, self._empty] = np.nan_to_num(table[:, self._empty])
        else:
            filled = filled[:, ~self._empty]
        whole = filled.astype(table.dtype, copy=False)
        return whole if self.indicator_ is None else np.hstack([whole, self.indicator_.transform(table)])

    def get_feature_names_out(self, input_features: Iterable[str] | None = None) -> NDArray[Any]:
        """Return the names of the columns of `transform`.

        Parameters
        ----------
        input_features : sequence of n_features str, optional
            By default those of the training rows, or ``x0``, ``x1``, ...

        Returns
        -------
        (n_features_out,) array of str objects
            The columns of the rows, then ``missingindicator_NAME`` for those of `add_indicator`.
        """
        names = super().get_feature_names_out(input_features)
        kept = names if self.keep_empty_features else names[~self._empty]
        return kept if self.indicator_ is None else np.concatenate([kept, self.indicator_.get_feature_names_out(names)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
