"""Regression by conditional means under a mixture of factor analysers, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from amofa._data.dataframes import column_names
from amofa._model.conditional import conditional_moments
from amofa._parameters import Parameters
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.sklearn._base import BaseAMoFA, checked_table, names_of_columns, training_rows_and_targets


class AMoFARegressor(MultiOutputMixin, RegressorMixin, BaseAMoFA):
    """Regression of one or several targets by a mixture of factor analysers of features and targets together.

    A prediction is the conditional mean of the targets given the features, exact under the mixture. Within a component
    it is linear; between components it changes with their probabilities. Its standard deviation is that of a new
    observation, noise included. Components of fewer rows than a regression has coefficients, such as one of a single
    bad target, say nothing of new rows and have no part in it. If many targets are bad, pass ``tails="t"``.

    The parameters are the options of `amofa.fit`, which describes them in full, for a table of the features followed by
    the targets.

    Parameters
    ----------
    {options}

    Attributes
    ----------
    model_ : MixtureOfFactorAnalyzers
        The mixture of the n_features columns of X, followed by the n_outputs columns of y. If the columns of X have
        names, the model has them too, and those of y, or "y0", "y1", ... if y has none.
    n_components_ : int
    n_factors_ : (n_components_,) int array
    weights_ : (n_components_,) array
    means_, uniquenesses_ : (n_components_, n_features + n_outputs) arrays
    loadings_ : list of n_components_ arrays (n_features + n_outputs, n_factors_[k])
    degrees_of_freedom_ : (n_components_,) array
        Infinite for normal components.
    background_weight_ : float
        Share of the rows that belongs to the background; 0 without one.
    n_outputs_ : int
    converged_ : bool
    n_iter_ : int
        Number of EM iterations in all steps of the search.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only if the columns of the training rows had string names.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa.sklearn import AMoFARegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (300, 1))
    >>> y = np.abs(X[:, 0]) + rng.normal(0, 0.1, 300)
    >>> regressor = AMoFARegressor().fit(X, y)
    >>> mean, deviation = regressor.predict([[-1.5], [1.0]], return_std=True)
    >>> mean.round(1), deviation.round(1)
    (array([1.5, 1. ]), array([0.1, 0.1]))
    """

    _columns = "n_features + n_outputs"

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit a mixture to features and targets.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        y : (n_samples,) or (n_samples, n_outputs) array-like
        sample_weight : (n_samples,) array-like, optional
            How often each row counts.

        Returns
        -------
        self
        """
        rows, targets = training_rows_and_targets(self, X, y, multi_output=True, y_numeric=True)
        self._one_target = targets.ndim == 1
        self.n_outputs_ = 1 if self._one_target else targets.shape[1]
        table = np.column_stack([rows, targets]).astype(np.float64, copy=False)
        names = names_of_columns(self)
        if names is not None:
            names += tuple(self._target_names(y, names))
        model = self._fit_rows(table, sample_weight, names)
        self._predicting = _with_enough_rows(model, self.n_features_in_ + 2)
        return self

    def _target_names(self, y: ArrayLike, features: Sequence[str]) -> list[str]:
        """Return names for the columns of y: their own, those in `init`, or "y0", ...; features have other names."""
        names: Sequence[str] | None = column_names(y, "y")
        if names is None and self._one_target and isinstance(getattr(y, "name", None), str):
            names = [str(y.name)]  # type: ignore[union-attr]
        if names is None and isinstance(self.init, MixtureOfFactorAnalyzers) and self.init.feature_names is not None:
            names = self.init.feature_names[len(features) :]
        if names is None or len(names) != self.n_outputs_:
            names = [f"y{j}" for j in range(self.n_outputs_)]
        taken = list(features)
        for name in names:
            while name in taken:
                name += "_"
            taken.append(name)
        return taken[len(features) :]

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return the conditional means of the targets given the features.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
            NaN marks a missing cell: the means are then those given the other features of the row.
        return_std : bool, default False

        Returns
        -------
        mean : (n_samples,) or (n_samples, n_outputs) array
            With as many dimensions as y.
        std : array of the same shape
            Standard deviations of new observations; only if `return_std` is true.
        """
        rows, _ = checked_table(self, X)
        d = self.n_features_in_
        # Squares of huge deviations may overflow.
        with np.errstate(over="ignore"):
            means, variances = conditional_moments(
                self._predicting, np.arange(d), np.arange(d, d + self.n_outputs_), rows
            )
        mean, deviation = (self._as_targets(values, rows.dtype) for values in (means, np.sqrt(variances)))
        return (mean, deviation) if return_std else mean

    def _as_targets(self, values: NDArray[np.float64], dtype: Any) -> NDArray[Any]:
        return (values[:, 0] if self._one_target else values).astype(dtype, copy=False)


def _with_enough_rows(model: MixtureOfFactorAnalyzers, least: int) -> Parameters:
    """Return the mixture of the components with at least this number of training rows, or of all if none has."""
    parameters = model._parameters
    assert model.n_samples is not None
    enough = parameters.weights * (1.0 - model.background_weight) * model.n_samples >= least
    if enough.all() or not enough.any():
        return parameters
    kept = [component for component, is_kept in zip(parameters.components(), enough, strict=True) if is_kept]
    total = sum(component.weight for component in kept)
    return Parameters.from_components([component._replace(weight=component.weight / total) for component in kept])
