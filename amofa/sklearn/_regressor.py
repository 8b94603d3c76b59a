"""Regression by conditional means under a mixture of factor analysers of all columns, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from amofa._data.dataframes import column_names
from amofa._model.missing_data import conditional_moments
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.sklearn._base import FLOATS, BaseAMoFA, checked_rows, names_of_columns


class AMoFARegressor(MultiOutputMixin, RegressorMixin, BaseAMoFA):
    """Regression of one or several targets by a mixture of factor analysers of features and targets together.

    A prediction is the conditional mean of the targets given the features, exact under the mixture: in each component
    it is linear, and between components it passes from one to the other as their probabilities do. It has a standard
    deviation, which is that of a new observation, noise included.

    Parameters are the options of `amofa.fit`, which describes them, for a table of the features and then the targets.

    Parameters
    ----------
    n_components : int, optional
        Number of components; found where not given.
    n_factors : int or sequence of int, optional
        Number of factors of every component, or of each; found where not given.
    search : {"thorough", "paper"}, default "thorough"
    criterion : {"evidence", "mml", "bic", "aic", "icl"}, optional
        The search's own where not given.
    noise : {"auto", "component", "shared", "isotropic"}, optional
        How uniquenesses are tied; the search's own where not given.
    noise_floor : float or (n_features + n_outputs,) array-like, optional
        Smallest uniqueness: a share of each column's variance, or variances.
    prior_scale : (n_features + n_outputs,) array-like, optional
        Variances about which the prior of uniquenesses is centred.
    prior_rows : float, optional
        Strength of this prior.
    max_components, max_factors : int, optional
        Bounds of what is found.
    init : MixtureOfFactorAnalyzers or (n_samples,) array-like of int, optional
        Where the search starts: a model of features and targets, or labels of the training rows, -1 for none.
    tol : float, default 1e-5
        Tolerance of EM, nats per row.
    max_iter : int, default 100
        Most iterations of one EM run.
    callback : callable, optional
        Sees every step of the search, and ends it by returning something true.
    on_iteration : callable, optional
        The same for every iteration of EM on all rows.
    progress : bool, default False
        Whether a terminal shows how far the search is.
    on_interrupt : {"raise", "return"}, default "raise"
        What a KeyboardInterrupt does.
    max_time : float, optional
        Seconds after which the search stops with the best model so far.
    checkpoint : str or PathLike, optional
        A file that lets the same fit go on where it was cut off.
    n_threads : int, optional
        Threads of the fit; results do not depend on it.

    Attributes
    ----------
    model_ : MixtureOfFactorAnalyzers
        The mixture of the n_features columns of X and, after them, the n_outputs columns of y. Where X has names of
        columns, it has them too, and those of y, which are "y0", "y1", ... where y has none.
    n_components_ : int
    n_factors_ : (n_components_,) int array
    weights_ : (n_components_,) array
    means_, uniquenesses_ : (n_components_, n_features + n_outputs) arrays
    loadings_ : list of n_components_ arrays (n_features + n_outputs, n_factors_[k])
    n_outputs_ : int
    converged_ : bool
    n_iter_ : int
        EM iterations of all steps of the search.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only where the training rows had string names of columns.

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

    _remedy = (
        "model_.impute(numpy.column_stack([X, Y])), with Y of NaN for the targets, fills in missing cells, NaN, and "
        "targets at once"
    )

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find a mixture of features and targets.

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
        rows, targets = validate_data(
            self, X, y, dtype=FLOATS, multi_output=True, y_numeric=True, ensure_all_finite=False
        )
        self._one_target = targets.ndim == 1
        self.n_outputs_ = 1 if self._one_target else targets.shape[1]
        table = np.column_stack([rows, targets]).astype(np.float64, copy=False)
        names = names_of_columns(self)
        if names is not None:
            names += tuple(self._target_names(y, names))
        self._fit_rows(table, sample_weight, names)
        return self

    def _target_names(self, y: ArrayLike, features: Sequence[str]) -> list[str]:
        """Names of the columns of y, or else those that `init` has for them, or else "y0", ...; no feature has them."""
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
        """Conditional means of the targets given the features.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        return_std : bool, default False

        Returns
        -------
        mean : (n_samples,) or (n_samples, n_outputs) array
            As y was.
        std : array of the same shape
            Standard deviations of new observations; only if `return_std`.
        """
        rows = checked_rows(self, X)
        d = self.n_features_in_
        # Squares of huge deviations may have no finite value.
        with np.errstate(over="ignore"):
            means, variances = conditional_moments(
                self.model_._parameters, np.arange(d), np.arange(d, d + self.n_outputs_), rows
            )
        mean, deviation = (self._as_targets(values, rows.dtype) for values in (means, np.sqrt(variances)))
        return (mean, deviation) if return_std else mean

    def _as_targets(self, values: NDArray[np.float64], dtype: Any) -> NDArray[Any]:
        return (values[:, 0] if self._one_target else values).astype(dtype, copy=False)
