"""A mixture of factor analysers for each class as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import column_or_1d

from amofa._data.checks import check_weights
from amofa._typing import FloatArray
from amofa.classes import NOISE_FLOOR, PARTS, ClassRows, fit_classes
from amofa.pooling import ClassFit
from amofa.sklearn._base import (
    checked_rows,
    names_of_columns,
    total_iterations,
    training_rows_and_targets,
)


class AMoFAClassifier(ClassifierMixin, BaseEstimator):
    """A classifier with a mixture of factor analysers for each class, with numbers of components and factors found.

    Classes borrow covariance from one another: every covariance is shrunk towards the pooled one, and cross-validation
    within the training rows decides how far. See `amofa.classes.fit_classes`, which does the work.

    Parameters
    ----------
    n_components : int, optional
        Number of components of each class; found if not given.
    n_factors : int or sequence of int, optional
        Number of factors of every component, or one number for each; found if not given.
    priors : {"uniform", "empirical"} or (n_classes,) array-like, default "uniform"
        Prior probabilities of the classes: equal, their shares of the training rows, or numbers that sum to 1.
    noise_floor : float or (n_features,) array-like, default 0.06
        Smallest uniqueness: a share of each column's mean variance within classes (of less in a class that is much
        narrower), or a variance for each column.
    pooled_rows : float, optional
        Number of rows that the pooled covariance is worth; estimated if not given. Any value but 0 forms matrices of
        n_features x n_features.
    single_weight : float, optional
        Weight, from 0 to 1, of a single factor analyser in the density of a class, beside the mixture. By default 0 if
        the number of components is given, and estimated otherwise.
    power : float, optional
        Power of the densities from which probabilities are computed: less than 1 corrects overconfidence. By default it
        is estimated with `pooled_rows` and `single_weight`, and 1 if both are given.
    cv : int, cross-validation generator or iterable, default 3
        For the estimates. An int is the number of parts into which each class is divided, in the order of its rows. If
        `pooled_rows` and `single_weight` are given, nothing is fitted to parts, which saves two thirds of the time or
        more.
    search : {"thorough", "paper"}, default "thorough"
    criterion : {"aic", "evidence", "mml", "bic", "icl"}, default "aic"
        What the search minimises; "evidence" only with search="thorough".
    noise : {"auto", "component", "shared", "isotropic"}, optional
        How uniquenesses of a class are tied; by default that of the search.
    prior_rows : float, optional
        Strength of the prior of uniquenesses, with search="thorough".
    tails : {"normal", "t", "auto"}, default "normal"
        Distributions of components: normal, multivariate t, or what costs less.
    degrees_of_freedom : float, optional
        Of t components; found if not given.
    max_components, max_factors : int, optional
        Upper bounds of what is found.
    tol : float, default 1e-5
        Tolerance of EM, in nats per row.
    max_iter : int, default 100
        Maximum number of iterations of one EM run.
    n_threads : int, optional
        Maximum number of threads of each fit.
    n_jobs : int, optional
        Number of processes for the fits of classes and parts, as in scikit-learn; results do not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Labels of the classes.
    models_ : list of n_classes MixtureOfFactorAnalyzers
        Densities of the classes, including what they borrow.
    priors_ : (n_classes,) array
    n_components_ : (n_classes,) int array
        Number of components of each of `models_`: of the mixture, the single factor analyser, or both.
    n_factors_ : list of n_classes int arrays
        Numbers of factors of these components, with n_features more for what is borrowed, unless `pooled_rows_` is 0.
    pooled_rows_, single_weight_, power_ : float
        Estimated or given values.
    n_iter_ : int
        Number of EM iterations in the fits of whole classes.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Only if the columns of the training rows had string names.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa.sklearn import AMoFAClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (60, 2)), rng.normal(5, 1, (60, 2))])
    >>> classifier = AMoFAClassifier().fit(X, ["low"] * 60 + ["high"] * 60)
    >>> classifier.predict([[0, 0], [5, 6]]).tolist()
    ['low', 'high']
    >>> classifier.classes_.tolist(), classifier.predict_proba([[0, 0], [5, 6]]).round(3)
    (['high', 'low'], array([[0., 1.],
           [1., 0.]]))

    If probabilities round to 0 and 1, their logarithms still distinguish rows. With two classes, a positive decision
    means the second:

    >>> classifier.predict_log_proba([[0, 0]]).round()
    array([[-22.,  -0.]])
    >>> (classifier.decision_function([[0, 0], [2, 3], [5, 6]]) > 0).tolist()
    [True, False, False]
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_factors: int | Sequence[int] | None = None,
        *,
        priors: str | ArrayLike = "uniform",
        noise_floor: float | ArrayLike = NOISE_FLOOR,
        pooled_rows: float | None = None,
        single_weight: float | None = None,
        power: float | None = None,
        cv: Any = PARTS,
        search: str = "thorough",
        criterion: str = "aic",
        noise: str | None = None,
        prior_rows: float | None = None,
        tails: str = "normal",
        degrees_of_freedom: float | None = None,
        max_components: int | None = None,
        max_factors: int | None = None,
        tol: float = 1e-5,
        max_iter: int = 100,
        n_threads: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_factors = n_factors
        self.priors = priors
        self.noise_floor = noise_floor
        self.pooled_rows = pooled_rows
        self.single_weight = single_weight
        self.power = power
        self.cv = cv
        self.search = search
        self.criterion = criterion
        self.noise = noise
        self.prior_rows = prior_rows
        self.tails = tails
        self.degrees_of_freedom = degrees_of_freedom
        self.max_components = max_components
        self.max_factors = max_factors
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit a mixture to each class.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        y : (n_samples,) array-like
            Labels of the rows.
        sample_weight : (n_samples,) array-like, optional
            How often each row counts. A class whose rows all have weight 0 is ignored.

        Returns
        -------
        self
        """
        rows, labels = training_rows_and_targets(self, X, y)
        check_classification_targets(labels)
        labels = column_or_1d(labels, warn=True)
        weights = None if sample_weight is None else check_weights(sample_weight, len(rows))
        self.classes_ = np.unique(labels if weights is None else labels[weights > 0])
        # Rows of classes that do not count have no weight, so their class does not matter.
        numbers = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        options = self.get_params(deep=False)
        del options["n_jobs"]
        if not isinstance(self.cv, Integral):
            options["cv"] = check_cv(self.cv, labels, classifier=True).split(rows, labels)
        found = fit_classes(rows, numbers, sample_weight=weights, apply=self._apply, **options)
        names = names_of_columns(self)
        found = replace(found, models=tuple(model._named(names) for model in found.models))
        self._found = found
        self.models_ = list(found.models)
        self.priors_ = np.exp(found.log_priors)
        self.n_components_ = np.array([model.n_components for model in found.models])
        self.n_factors_ = [model.n_factors for model in found.models]
        self.pooled_rows_, self.single_weight_, self.power_ = found.pooling
        self.n_iter_ = sum(total_iterations(fit.mixture) for fit in found.fits)
        return self

    def _apply(self, fit_one: Any, tables: Iterable[ClassRows]) -> list[ClassFit]:
        fits: list[ClassFit] = Parallel(n_jobs=self.n_jobs)(delayed(fit_one)(table) for table in tables)
        return fits

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of every row.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
            NaN marks a missing cell, here and in the other methods of a fitted classifier.

        Returns
        -------
        (n_samples,) array
            Entries of `classes_`.
        """
        numbers = self.predict_log_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[numbers]
        return labels

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return the log probabilities of the classes for every row, which never underflow.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples, n_classes) float64 array
            In nats, in the order of `classes_`.
        """
        rows = checked_rows(self, X)
        return self._found._log_posteriors(rows)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probability of every class for every row.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples, n_classes) float64 array
            In the order of `classes_`.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the log probabilities of the classes, or for two classes the log-odds of the second.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples, n_classes) or (n_samples,) array
        """
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if len(self.classes_) == 2 else log_proba
