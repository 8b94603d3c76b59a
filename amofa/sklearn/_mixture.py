"""The mixture as a scikit-learn estimator, for densities, clustering and dimensionality reduction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from amofa._data.checks import RandomState
from amofa._data.row_chunks import Samples
from amofa._model.posterior import (
    coordinates,
    information_criterion,
    log_densities,
    mean_log_density,
    responsibilities,
)
from amofa._typing import FloatArray
from amofa.sklearn._base import FLOATS, BaseAMoFA, checked_rows, checked_table, names_of_columns


class AMoFA(TransformerMixin, ClusterMixin, DensityMixin, BaseAMoFA):
    """A mixture of factor analysers with numbers of components and factors found automatically.

    The parameters are the options of `amofa.fit`, which describes them in full.

    Parameters
    ----------
    {options}

    Attributes
    ----------
    model_ : MixtureOfFactorAnalyzers
        The mixture, with methods such as ``model_.summary()``, ``model_.factor_scores(X)`` and ``model_.save(path)``.
    n_components_ : int
    n_factors_ : (n_components_,) int array
    weights_ : (n_components_,) array
    means_, uniquenesses_ : (n_components_, n_features) arrays
    loadings_ : list of n_components_ arrays (n_features, n_factors_[k])
    labels_ : (n_samples,) int array
        The component of each training row.
    converged_ : bool
    n_iter_ : int
        Number of EM iterations in all steps of the search.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only if the columns of the training rows had string names.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa.sklearn import AMoFA
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> mixture = AMoFA().fit(X)
    >>> mixture.n_components_
    2

    A clustering:

    >>> mixture.predict([[0, 0], [8, 7]])
    array([0, 1])
    >>> mixture.predict_proba([[0, 0], [8, 7], [4, 4]]).shape
    (3, 2)

    A density:

    >>> near, far = mixture.score_samples([[0, 0], [4, 4]])
    >>> bool(near > far), bool(mixture.score(X) > mixture.score(X + 1))
    (True, True)
    >>> mixture.bic(X) < AMoFA(n_components=1).fit(X).bic(X)
    True
    >>> mixture.aic(X) < mixture.bic(X) <= mixture.icl(X)
    True
    >>> rows, components = mixture.sample(3, random_state=0)
    >>> rows.shape, components.shape
    ((3, 2), (3,))

    A reduction of dimensions, here with a factor in each component:

    >>> reduction = AMoFA(n_components=2, n_factors=1).fit(X)
    >>> Z = reduction.transform(X)
    >>> reduction.get_feature_names_out().tolist()
    ['amofa_r0', 'amofa_r1', 'amofa_z0_0', 'amofa_z1_0']
    >>> reduction.inverse_transform(Z).shape
    (300, 2)
    """

    _remedy = "methods of model_ take rows with missing cells, NaN, and model_.impute(X) fills them in"

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        y : ignored
        sample_weight : (n_samples,) array-like, optional
            How often each row counts.

        Returns
        -------
        self
        """
        # NaN is looked for afterwards, by a check whose error says what to do.
        rows = validate_data(self, X, dtype=FLOATS, ensure_all_finite=False)
        model = self._fit_rows(rows, sample_weight, names_of_columns(self))
        self.labels_ = Samples(rows).labels(model._parameters)
        return self

    # -- density --

    def score_samples(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the log density of every row.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples,) array
            In nats; float32 if X is.
        """
        table = checked_table(self, X)
        return log_densities(self.model_._parameters, Samples(table)).astype(table.dtype, copy=False)

    def score(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log density of the rows; higher is better.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        y : ignored
        sample_weight : (n_samples,) array-like, optional
            How often each row counts.

        Returns
        -------
        float
            In nats.
        """
        return mean_log_density(self.model_._parameters, checked_rows(self, X, sample_weight))

    def bic(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the Bayesian information criterion of the rows; lower is better.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        sample_weight : (n_samples,) array-like, optional
            How often each row counts.

        Returns
        -------
        float
            See `MixtureOfFactorAnalyzers.bic`.
        """
        return self._criterion("bic", X, sample_weight)

    def aic(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return Akaike's information criterion of the rows; lower is better.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        sample_weight : (n_samples,) array-like, optional
            How often each row counts.

        Returns
        -------
        float
            See `MixtureOfFactorAnalyzers.aic`.
        """
        return self._criterion("aic", X, sample_weight)

    def icl(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the integrated completed likelihood of the rows; lower is better.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        sample_weight : (n_samples,) array-like, optional
            How often each row counts.

        Returns
        -------
        float
            See `MixtureOfFactorAnalyzers.icl`.
        """
        return self._criterion("icl", X, sample_weight)

    def _criterion(self, name: str, X: ArrayLike, sample_weight: ArrayLike | None) -> float:
        rows, model = checked_rows(self, X, sample_weight), self.model_
        return information_criterion(name, model._parameters, rows, model.n_parameters)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[FloatArray, NDArray[np.intp]]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int, default 1
        random_state : int, numpy Generator, numpy RandomState or None
            An int gives the same rows every time; None takes entropy from the system.

        Returns
        -------
        X : (n_samples, n_features) float64
        y : (n_samples,) intp
            The component of each row.
        """
        check_is_fitted(self)
        return self.model_.sample(n_samples, random_state)

    # -- clusters --

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Return the most probable component of every row.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples,) intp array
        """
        return checked_rows(self, X).labels(self.model_._parameters)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the probability of every component for every row.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples, n_components_) array
            float32 if X is.
        """
        table = checked_table(self, X)
        return responsibilities(self.model_._parameters, Samples(table)).astype(table.dtype, copy=False)

    # -- reduced dimensions --

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the probabilities of the components, then each component's factor scores times its probability.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples, n_components_ + sum(n_factors_)) array
        """
        table = checked_table(self, X)
        return coordinates(self.model_._parameters, Samples(table)).astype(table.dtype, copy=False)

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Map the output of `transform` back to rows: the part that components and factors explain.

        Parameters
        ----------
        X : (n_samples, n_components_ + sum(n_factors_)) array-like

        Returns
        -------
        (n_samples, n_features) array
        """
        check_is_fitted(self)
        coordinates = check_array(X, dtype=FLOATS)
        return self.model_.inverse_transform(coordinates).astype(coordinates.dtype, copy=False)

    def get_feature_names_out(self, input_features: Iterable[str] | None = None) -> NDArray[Any]:
        """Return names for `transform`: ``amofa_r0``, ... of probabilities, then ``amofa_z0_0``, ... of factors.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        (n_components_ + sum(n_factors_),) array of str objects
        """
        check_is_fitted(self)
        probabilities = [f"amofa_r{k}" for k in range(self.n_components_)]
        factors = [f"amofa_z{k}_{q}" for k, p in enumerate(self.n_factors_) for q in range(p)]
        return np.asarray(probabilities + factors, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
