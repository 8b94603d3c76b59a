"""Results of a mixture as frames, and the mixture as one of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeVar, cast

import numpy as np

from amofa._data.frame_output import check_output, frame_of_array
from amofa._model.base import BaseMixture
from amofa._model.gaussian_mixture import parameters_of_gaussian_mixture, to_gaussian_mixture

Result = TypeVar("Result")


class FramedMixture(BaseMixture):
    """The part of `MixtureOfFactorAnalyzers` that exchanges it and its results with other packages."""

    _output = "default"

    def set_output(self, *, transform: str) -> Self:
        """Choose what methods return that have a row for each row of X: arrays or frames.

        It concerns `predict`, `score_samples` and `outlier_scores`, which then return series, and `predict_proba`,
        `transform`, `inverse_transform`, `factor_scores` and `impute`.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}
            "default" means arrays. Frames and series of pandas have the index of X if X is one of pandas. A model that
            is loaded, or that `condition` or `marginal` returns, gives arrays again.

        Returns
        -------
        MixtureOfFactorAnalyzers
            The model itself, as in scikit-learn.

        Raises
        ------
        ImportError
            If the package is not installed.
        ValueError
            If it is another one.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import amofa
        >>> frame = pd.DataFrame({"a": [1.0, 5.0], "b": [2.0, np.nan]}, index=["Ann", "Bob"])
        >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 1.0]], ["a", "b"])
        >>> model.set_output(transform="pandas").impute(frame)
               a    b
        Ann  1.0  2.0
        Bob  5.0  2.5
        """
        self._output = check_output(transform)
        return self

    def _framed(self, values: Result, names: Iterable[Any], X: Any) -> Result:
        """Return an array of results for the rows of X, or a frame or series of it, if that is wanted."""
        if self._output == "default":
            return values
        return cast(Result, frame_of_array(np.asarray(values), list(names), X, self._output))

    def _names_of_columns(self, X: Any) -> Sequence[Any]:
        """Return the names of the model's columns; without any, what pandas calls those of X, if they are the same."""
        if self.feature_names:
            return self.feature_names
        labels = getattr(X, "columns", ()) if self._output == "pandas" and hasattr(X, "iloc") else ()
        return labels if len(labels) == self.n_features else [f"x{j}" for j in range(self.n_features)]

    def _names_of_factors(self, k: int) -> list[str]:
        return [f"z{k}_{q}" for q in range(self.n_factors[k])]

    def _with_arrays(self) -> Self:
        """Return the same mixture, with arrays as results."""
        if self._output == "default":
            return self
        return self._from_fit(self._parameters, self._report, self._feature_names)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "output": self._output}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._output = state.get("output", "default")

    @classmethod
    def from_sklearn(cls, mixture: Any) -> Self:
        """Return a model with the density of a fitted mixture of scikit-learn.

        Parameters
        ----------
        mixture : sklearn.mixture.GaussianMixture or BayesianGaussianMixture

        Returns
        -------
        MixtureOfFactorAnalyzers
            With up to d - 1 factors in each component, none if covariances are diagonal; as ``init`` of `amofa.fit`,
            it is simplified.

        Raises
        ------
        TypeError
            If it is not such a mixture, or not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> import amofa
        >>> from sklearn.mixture import GaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> mixture = GaussianMixture(2, random_state=0).fit(X)
        >>> model = amofa.MixtureOfFactorAnalyzers.from_sklearn(mixture)
        >>> bool(np.allclose(model.score_samples(X), mixture.score_samples(X)))
        True
        """
        names = getattr(mixture, "feature_names_in_", None)
        parameters = parameters_of_gaussian_mixture(mixture)
        return cls._from_fit(parameters, None, None if names is None else tuple(map(str, names)))

    def to_sklearn(self) -> Any:
        """Return a fitted mixture of scikit-learn with the same density.

        Returns
        -------
        sklearn.mixture.GaussianMixture
            With covariance matrices, K arrays (d, d).

        Raises
        ------
        ImportError
            If scikit-learn is not installed.
        ValueError
            If a component is a t distribution, or its covariance matrix is singular in float64, or if there is a
            background.

        Examples
        --------
        >>> import numpy as np
        >>> import amofa
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> model = amofa.fit(X)
        >>> bool(np.allclose(model.to_sklearn().score_samples(X), model.score_samples(X)))
        True
        """
        return to_gaussian_mixture(self._parameters, self.feature_names, self.converged)
