"""One Gaussian for each class: the simplest classifier by densities (MoG-F and MoG-D in the paper's table)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from amofa._data.checks import check_choice, check_not_negative, check_table, check_weights, counted_rows
from amofa._data.row_chunks import Samples
from amofa._data.standardize import Coordinates, Standardized
from amofa._model.finalize import make_report, with_canonical_factors
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray
from amofa.baselines._gaussian import COVARIANCES, covariance_parameters, gaussian_components, mixture_parameters
from amofa.criterion import gaussian_message_length
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread
from amofa.warnings import warn_of_constant_columns


@dataclass(frozen=True, eq=False)
class ClassGaussians:
    """One Gaussian for each class.

    Attributes
    ----------
    classes : (C,) ndarray
        The labels, sorted.
    models : tuple of C MixtureOfFactorAnalyzers
        With one component each, in the order of `classes`.
    """

    classes: NDArray[Any]
    models: tuple[MixtureOfFactorAnalyzers, ...]

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of all classes."""
        return sum(model.n_parameters for model in self.models)

    def log_densities(self, X: ArrayLike) -> FloatArray:
        """Return the log density of every row under every class, in nats.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n, C) float64

        Raises
        ------
        TypeError, ValueError
            If X is not a finite real table of d columns. All methods that take X raise these.
        """
        return np.stack([model.score_samples(X) for model in self.models], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with the largest density for every row, without regard to the frequencies of classes.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n,) ndarray
            With the dtype of the labels.
        """
        labels: NDArray[Any] = self.classes[self.log_densities(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the posterior probability of every class for every row, for equally frequent classes.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n, C) float64
            Rows sum to 1. A row so far away that every log density is minus infinity has equal probabilities.
        """
        densities = self.log_densities(X)
        densities[np.isneginf(densities).all(axis=1)] = 0.0
        probabilities: FloatArray = softmax(densities, axis=1)
        return probabilities


def gaussian_per_class(
    X: ArrayLike,
    y: ArrayLike,
    *,
    covariance: str = "full",
    ridge: float = 1e-6,
    sample_weight: ArrayLike | None = None,
) -> ClassGaussians:
    """Fit a Gaussian to the rows of each class, by maximum likelihood.

    Parameters
    ----------
    X : (n, d) array-like
        Finite real numbers.
    y : (n,) array-like
        Labels: numbers, strings, or anything else that can be sorted.
    covariance : {"full", "diag", "spherical"}, default "full"
        Any covariance (MoG-F), a variance for each column (MoG-D), or one variance for all columns.
    ridge : float, default 1e-6
        Added to each variance, as a share of the mean variance of the columns of X. Not negative.
    sample_weight : (n,) array-like, optional
        How often each row counts; a row of weight 0 counts as absent.

    Returns
    -------
    ClassGaussians
        `predict`, `predict_proba`, `log_densities`, and a model for each class.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; also if `ridge` is so small that the covariance of a class is singular.

    Warns
    -----
    AmofaWarning
        If columns of X are constant.

    References
    ----------
    H. Kaya, A. A. Salah, "Adaptive Mixtures of Factor Analyzers", arXiv:1507.02801, Section 4.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(6, 1, (50, 2))])
    >>> model = gaussian_per_class(X, ["low"] * 50 + ["high"] * 50)
    >>> model.predict([[0.5, 0.0], [5.0, 7.0]]).tolist()
    ['low', 'high']
    >>> model.n_parameters
    10
    """
    table = check_table(X)
    labels = _check_labels(y, len(table))
    covariance = check_choice("covariance", covariance, COVARIANCES)
    ridge = check_not_negative("ridge", ridge)
    weights = np.ones(len(table)) if sample_weight is None else check_weights(sample_weight, len(table))
    with single_blas_thread(), np.errstate(under="ignore"):
        rows = counted_rows(weights)
        coordinates = Coordinates.of(Samples(table, weights=weights, rows=rows))
        warn_of_constant_columns(coordinates.constant)
        variance = float((coordinates.scale**2).mean())
        added = ridge * (variance if variance > 0.0 else 1.0)
        classes = np.unique(labels[weights > 0.0])
        models = [_fit_class(table, np.where(labels == c, weights, 0.0), covariance, added, c) for c in classes]
    classes.flags.writeable = False
    return ClassGaussians(classes, tuple(models))


def _check_labels(y: ArrayLike, n: int) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}, but X has {n} rows; pass one label per row")
    if labels.dtype.kind in "fc" and np.isnan(labels).any():
        raise ValueError(f"y is NaN in row {int(np.argmax(np.isnan(labels)))} (from 0); drop such rows")
    try:
        np.unique(labels)
    except TypeError as error:
        raise TypeError(f"y holds labels that cannot be sorted ({error}); make them all of one type") from None
    return labels


def _fit_class(
    table: NDArray[Any], weights: FloatArray, covariance: str, added: float, label: object
) -> MixtureOfFactorAnalyzers:
    """Return the Gaussian of the rows that have weight."""
    rows, d = Standardized.of(table, weights), table.shape[1]
    center, scatter = rows.coordinates.center, _moments(rows, covariance)
    if covariance == "full":
        scatter[np.diag_indices(d)] += added
    else:
        scatter += added
    try:
        (component,) = gaussian_components([1.0], center[None], scatter[None], covariance)
    except FloatingPointError as error:
        raise ValueError(f"the covariance of class {label} is singular; raise ridge or drop columns") from error
    parameters = with_canonical_factors(Parameters.from_components([component]))
    penalty = gaussian_message_length(d, 1, covariance_parameters(d, covariance), rows.whole.total_weight)
    report = make_report(
        rows.whole,
        parameters,
        np.zeros(d),
        criterion="likelihood",
        n_parameters=mixture_parameters(d, 1, covariance),
        converged=True,
        history=(),
        penalty=penalty,
    )
    values = report.cost, report.message_length, report.log_likelihood
    only = Step("start", -1, parameters.n_factors, *values, 0, True)
    return MixtureOfFactorAnalyzers._from_fit(parameters, replace(report, history=(only,)))


def _moments(rows: Standardized[Samples], covariance: str) -> FloatArray:
    """Return the second moments about the mean: (d, d) for full covariances, (d,) variances otherwise."""
    scale = rows.coordinates.scale
    if covariance == "diag":
        return np.asarray(scale**2)
    if covariance == "spherical":
        return np.full(len(scale), (scale**2).mean())
    result = np.zeros((len(scale), len(scale)))
    varying = np.flatnonzero(~rows.coordinates.constant)
    c = len(varying)
    if c:
        plain = Component(1.0, np.zeros(c), np.zeros((0, c)), np.ones(c))
        correlations = rows.samples.moments(Parameters.from_components([plain])).covariances[0]
        result[np.ix_(varying, varying)] = scale[varying] * correlations * scale[varying, None]
    return result
