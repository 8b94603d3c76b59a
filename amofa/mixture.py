"""A mixture of factor analysers: its parameters, and all that can be computed from them."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa.arguments import RandomState, random_generator
from amofa.criterion import INFORMATION_CRITERIA, n_parameters
from amofa.handle import CythonHandle
from amofa.history import FitReport, Step
from amofa.parameters import Evaluator, FloatArray, Parameters
from amofa.samples import PosteriorBlock, Samples, check_table, check_weights, counted_rows
from amofa.summary import summarize
from amofa.validation import parameters_from_arrays


class MixtureOfFactorAnalyzers:
    """A mixture of factor analysers.

    p(x) = sum_k weights[k] N(x; means[k], loadings[k] loadings[k]' + diag(uniquenesses[k])). Made from arrays here, by
    ``amofa.fit`` from data. A model does not change: its arrays are read-only, and it may be used from several threads.

    Parameters
    ----------
    weights : (K,) array-like
        Mixing weights, not negative. They must sum to 1 to within 1e-6 and are then brought to do so exactly.
    means : (K, d) array-like
    loadings : sequence of K array-likes (d, p_k)
        ``numpy.zeros((d, 0))`` for a component without factors.
    uniquenesses : (K, d) array-like
        Variances, positive.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If shapes do not fit together or values are not allowed; the message names the argument and the component.

    Notes
    -----
    All rows given to the methods are read in blocks, whatever their dtype and memory layout: a float32 or memory-mapped
    table is never copied whole. Cost is O(n d sum_k p_k); no d x d matrix is formed except by `covariance`.

    Examples
    --------
    >>> import numpy as np
    >>> model = MixtureOfFactorAnalyzers(
    ...     weights=[0.25, 0.75],
    ...     means=[[0.0, 0.0], [6.0, 6.0]],
    ...     loadings=[[[1.0], [2.0]], np.zeros((2, 0))],
    ...     uniquenesses=[[1.0, 1.0], [0.5, 0.5]],
    ... )
    >>> model
    MixtureOfFactorAnalyzers(n_components=2, n_features=2, n_factors=[1, 0])
    >>> model.predict([[1.0, 2.0], [5.0, 6.0]])
    array([0, 1])
    """

    _parameters: Parameters
    _report: FitReport | None

    def __init__(
        self, weights: ArrayLike, means: ArrayLike, loadings: Iterable[ArrayLike], uniquenesses: ArrayLike
    ) -> None:
        self._adopt(parameters_from_arrays(weights, means, loadings, uniquenesses), None)

    @classmethod
    def _from_fit(cls, parameters: Parameters, report: FitReport | None = None) -> Self:
        """A model with parameters that are known to be right, which are copied, and what the fit has to say."""
        model = cls.__new__(cls)
        model._adopt(parameters.copy(), report)
        return model

    def _adopt(self, parameters: Parameters, report: FitReport | None) -> None:
        # All are views of the buffer; with that read-only too, none can be made writeable again.
        for array in (
            parameters.weights,
            parameters.means,
            parameters.uniquenesses,
            parameters.loadings,
            parameters.buffer,
        ):
            array.flags.writeable = False
        self._parameters = parameters
        self._report = report and replace(report, at_floor=_read_only(report.at_floor), history=tuple(report.history))

    # numpy's copies and pickles are writeable again and no views of one buffer, so a twin is made from the values.
    def __getstate__(self) -> dict[str, Any]:
        p = self._parameters
        return {"n_features": p.n_features, "n_factors": p.n_factors, "values": p.buffer, "report": self._report}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parameters = Parameters(state["n_features"], state["n_factors"])
        parameters.buffer[:] = state["values"]
        self._adopt(parameters, state["report"])

    # -- parameters --

    @property
    def n_components(self) -> int:
        """Number of components K."""
        return self._parameters.n_components

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self._parameters.n_features

    @property
    def n_factors(self) -> NDArray[np.intp]:
        """Number of factors p_k of each component, (K,)."""
        return _read_only(np.array(self._parameters.n_factors, dtype=np.intp))

    @property
    def weights(self) -> FloatArray:
        """Mixing weights, (K,), sum 1."""
        return self._parameters.weights

    @property
    def means(self) -> FloatArray:
        """Means, (K, d)."""
        return self._parameters.means

    @property
    def loadings(self) -> list[FloatArray]:
        """Loadings, K arrays (d, p_k)."""
        return [self._parameters.component_loadings(k).T for k in range(self.n_components)]

    @property
    def uniquenesses(self) -> FloatArray:
        """Variances that the factors do not share, (K, d)."""
        return self._parameters.uniquenesses

    @property
    def n_parameters(self) -> int:
        """Number of free parameters, loadings counted up to rotation.

        After a fit, of what it estimated: uniquenesses that were tied are not counted twice.
        """
        if self._report is None or self._report.n_parameters is None:
            return n_parameters(self.n_features, self._parameters.n_factors)
        return self._report.n_parameters

    # -- what the fit says --

    @property
    def log_likelihood(self) -> float | None:
        """Log-likelihood of the training rows, nats; None for a model made from arrays."""
        return self._report.log_likelihood if self._report else None

    @property
    def message_length(self) -> float | None:
        """Message length of the training rows, nats; None for a model made from arrays."""
        return self._report.message_length if self._report else None

    @property
    def criterion(self) -> str | None:
        """Name of the criterion that the search minimised; None for a model made from arrays."""
        return self._report.criterion if self._report else None

    @property
    def n_samples(self) -> float | None:
        """Number of training rows, or the sum of their weights; None for a model made from arrays."""
        return self._report.n_samples if self._report else None

    @property
    def converged(self) -> bool:
        """Whether a fit met its tolerance; False for a model made from arrays."""
        return self._report is not None and self._report.converged

    @property
    def at_floor(self) -> NDArray[np.bool_]:
        """Which uniquenesses a fit held at their floor, (K, d); all False for a model made from arrays."""
        if self._report is None:
            return _read_only(np.zeros(self.means.shape, dtype=np.bool_))
        return self._report.at_floor

    @property
    def history(self) -> tuple[Step, ...]:
        """Every step of the search; empty for a model made from arrays."""
        return self._report.history if self._report else ()

    # -- rows --

    def _samples(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Samples:
        table = check_table(X, n_features=self.n_features)
        if sample_weight is None:
            return Samples(table)
        weights = check_weights(sample_weight, len(table))
        return Samples(table, weights=weights, rows=counted_rows(weights))

    def _blocks(self, samples: Samples, *, with_scores: bool = False) -> Iterator[PosteriorBlock]:
        # The evaluator is made anew for every call: its scratch memory must not be shared between threads.
        return samples.posterior(Evaluator(self._parameters), with_scores=with_scores)

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """The most probable component of every row.

        Parameters
        ----------
        X : (n, d) array-like
            Finite real numbers.

        Returns
        -------
        (n,) intp
            The first of the largest entries in each row of `predict_proba`.

        Raises
        ------
        TypeError, ValueError
            If X is not a finite real table of d columns; so do all methods that take X.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
        >>> model.predict([[1.0], [3.0]])
        array([0, 1])
        """
        samples = self._samples(X)
        labels = np.empty(samples.n_rows, dtype=np.intp)
        for block in self._blocks(samples):
            np.argmax(block.responsibilities, axis=0, out=labels[block.rows])
        return labels

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Responsibilities: the posterior probability of every component for every row.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n, K) float64
            Rows sum to 1. A row so far away that every density is zero even in logarithms keeps the mixing weights.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
        >>> model.predict_proba([[2.0], [3.0]]).round(3)
        array([[0.5  , 0.5  ],
               [0.119, 0.881]])
        """
        samples = self._samples(X)
        proba = np.empty((samples.n_rows, self.n_components))
        for block in self._blocks(samples):
            proba[block.rows] = block.responsibilities.T
        return proba

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Log density of every row, nats.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n,) float64

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
        >>> model.score_samples([[0.0], [2.0]]).round(4)
        array([-0.9189, -2.9189])
        """
        samples = self._samples(X)
        log_density = np.empty(samples.n_rows)
        for block in self._blocks(samples):
            log_density[block.rows] = block.log_density
        return log_density

    def score(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Mean log density of the rows, nats; higher is better.

        Parameters
        ----------
        X : (n, d) array-like
        sample_weight : (n,) array-like, optional
            Weights of the rows in the mean, finite and not negative; a row of weight 0 is as if absent.

        Returns
        -------
        float

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
        >>> round(model.score([[0.0], [2.0]], sample_weight=[3, 1]), 4)
        -1.4189
        """
        samples = self._samples(X, sample_weight)
        return sum(_weighted_sum(block.log_density, block.row_weights) for block in self._blocks(samples)) / (
            samples.total_weight
        )

    def factor_scores(self, X: ArrayLike) -> list[FloatArray]:
        """Posterior means of the factors, E[z | x, k], under every component.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        list of K (n, p_k) float64

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 1.0]])
        >>> model.factor_scores([[3.0, 0.0]])
        [array([[1.]])]
        """
        samples = self._samples(X)
        scores = [np.empty((samples.n_rows, p)) for p in self._parameters.n_factors]
        for block in self._blocks(samples, with_scores=True):
            for of_one, part in zip(scores, np.split(block.scores, self._parameters.offsets[1:-1]), strict=True):
                of_one[block.rows] = part.T
        return scores

    def transform(self, X: ArrayLike) -> FloatArray:
        """Rows in the mixture's own coordinates: responsibilities and factor scores.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n, K + sum_k p_k) float64
            K responsibilities r_k, then for each component its p_k factor scores times r_k.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 1.0]])
        >>> model.transform([[3.0, 0.0]])
        array([[1., 1.]])
        """
        samples, K = self._samples(X), self.n_components
        Z = np.empty((samples.n_rows, K + len(self._parameters.loadings)))
        for block in self._blocks(samples, with_scores=True):
            Z[block.rows, :K] = block.responsibilities.T
            spread = np.repeat(block.responsibilities, self._parameters.n_factors, axis=0)
            Z[block.rows, K:] = (spread * block.scores).T
        return Z

    def inverse_transform(self, Z: ArrayLike) -> FloatArray:
        """Rows from what `transform` gives: sum_k r_k mu_k + Lambda_k (r_k z_k), a linear map.

        Parameters
        ----------
        Z : (n, K + sum_k p_k) array-like

        Returns
        -------
        (n, d) float64

        Raises
        ------
        TypeError, ValueError
            If Z is not a finite real table of that many columns.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 1.0]])
        >>> model.inverse_transform(model.transform([[3.0, 0.0]]))
        array([[1., 1.]])
        """
        coordinates = np.concatenate([self.means, self._parameters.loadings])
        samples = Samples(check_table(Z, name="Z", n_features=len(coordinates)))
        X = np.empty((samples.n_rows, self.n_features))
        start = 0
        for z, _ in samples.chunks():
            np.matmul(z.T, coordinates, out=X[start : start + z.shape[1]])
            start += z.shape[1]
        return X

    # -- the model itself --

    def sample(self, n: int, random_state: RandomState = None) -> tuple[FloatArray, NDArray[np.intp]]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n : int
            How many rows, not negative.
        random_state : int, numpy Generator, numpy RandomState or None
            A generator is drawn from; an int starts a new one; None takes entropy from the system.

        Returns
        -------
        X : (n, d) float64
            Rows in random order.
        labels : (n,) intp
            The component of each row.

        Raises
        ------
        ValueError
            If n is negative.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [90.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
        >>> X, labels = model.sample(5, random_state=0)
        >>> X.shape, bool(((X[:, 0] > 45) == labels).all())
        ((5, 1), True)
        """
        n = operator.index(n)
        if n < 0:
            raise ValueError(f"n must not be negative, got {n}")
        rng = random_generator(random_state)
        # Divided by its own last entry, so that every number below 1 finds a component, whatever the rounding.
        cumulated = np.cumsum(self.weights)
        labels = np.searchsorted(cumulated / cumulated[-1], rng.random(n), side="right")
        X = rng.standard_normal((n, self.n_features))
        for k, component in enumerate(self._parameters.components()):
            rows = np.flatnonzero(labels == k)
            factors = rng.standard_normal((len(rows), len(component.loadings)))
            X[rows] = component.mean + np.sqrt(component.uniquenesses) * X[rows] + factors @ component.loadings
        return X, labels

    def covariance(self, k: int) -> FloatArray:
        """Covariance matrix of component k, Lambda_k Lambda_k' + Psi_k.

        Parameters
        ----------
        k : int
            From 0 to K - 1.

        Returns
        -------
        (d, d) float64

        Raises
        ------
        IndexError
            If there is no such component.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]])
        >>> model.covariance(0)
        array([[2., 2.],
               [2., 5.]])
        """
        if not 0 <= operator.index(k) < self.n_components:
            raise IndexError(f"there is no component {k}; they are numbered from 0 to {self.n_components - 1}")
        loadings = self._parameters.component_loadings(k)
        covariance: FloatArray = loadings.T @ loadings
        covariance[np.diag_indices(self.n_features)] += self.uniquenesses[k]
        return covariance

    def cython_handle(self) -> CythonHandle:
        """The mixture as compiled code takes it, see docs/cython.md.

        Returns
        -------
        CythonHandle
            Its ``mixture`` is what the functions of amofa/cython_amofa.pxd take. Made anew by each call.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]])
        >>> handle = model.cython_handle()
        >>> handle.n_components, handle.n_features, handle.n_factors, handle.mixture.flags.writeable
        (1, 2, (1,), False)
        """
        return CythonHandle.of(self._parameters)

    def bic(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Bayesian information criterion, -2 log-likelihood + n_parameters log n; lower is better.

        Parameters
        ----------
        X : (n, d) array-like
        sample_weight : (n,) array-like, optional
            Finite, not negative; n is then their sum.

        Returns
        -------
        float

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [np.zeros((1, 0))], [[1.0]])
        >>> round(model.bic([[0.0], [2.0]]), 4)
        9.062
        """
        return self._criterion("bic", X, sample_weight)

    def aic(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Akaike's information criterion, -2 log-likelihood + 2 n_parameters; lower is better.

        Parameters
        ----------
        X : (n, d) array-like
        sample_weight : (n,) array-like, optional
            Finite, not negative.

        Returns
        -------
        float

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [np.zeros((1, 0))], [[1.0]])
        >>> round(model.aic([[0.0], [2.0]]), 4)
        11.6758
        """
        return self._criterion("aic", X, sample_weight)

    def icl(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Integrated completed likelihood, BIC + 2 x entropy of the responsibilities; lower is better.

        Parameters
        ----------
        X : (n, d) array-like
        sample_weight : (n,) array-like, optional
            Finite, not negative; n is then their sum.

        Returns
        -------
        float

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [np.zeros((1, 0))], [[1.0]])
        >>> model.icl([[0.0], [2.0]]) == model.bic([[0.0], [2.0]])
        True
        """
        return self._criterion("icl", X, sample_weight)

    def _criterion(self, name: str, X: ArrayLike, sample_weight: ArrayLike | None) -> float:
        # All of scipy.special would be a tenth of the time that `import amofa` takes.
        from scipy.special import entr

        samples = self._samples(X, sample_weight)
        criterion = INFORMATION_CRITERIA[name]
        log_likelihood = entropy = 0.0
        for block in self._blocks(samples):
            log_likelihood += _weighted_sum(block.log_density, block.row_weights)
            if criterion.uses_entropy:
                entropy += _weighted_sum(entr(block.responsibilities).sum(axis=0), block.row_weights)
        return 2 * (criterion.price(samples.total_weight) * self.n_parameters - log_likelihood + entropy)

    def summary(self) -> str:
        """Readable tables of the components and, after a fit, of the accepted steps of the search.

        A component's mean uniqueness share is the part of the variance that its factors do not explain, averaged over
        features.

        Returns
        -------
        str

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]])
        >>> print(model.summary())
        Mixture of 1 factor analyser: 2 features, 6 free parameters
        <BLANKLINE>
        component  weight  factors  mean uniqueness share
                0  1.0000        1                  0.350
        """
        return summarize(self._parameters, self.n_parameters, self._report)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, see `amofa.io.save`.

        Parameters
        ----------
        path : str or PathLike

        Raises
        ------
        OSError
            If the file cannot be written; a file that was there before is then still whole.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "model.npz"))
        """
        # io lies above this module, since loading makes a model; so the way down to it is taken only here.
        from amofa.io import save

        save(self, path)

    def __repr__(self) -> str:
        shown = [str(p) for p in self._parameters.n_factors[:12]] + ["..."] * (self.n_components > 12)
        return (
            f"{type(self).__name__}(n_components={self.n_components}, n_features={self.n_features}, "
            f"n_factors=[{', '.join(shown)}])"
        )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that cannot be written to."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _weighted_sum(values: FloatArray, weights: FloatArray | None) -> float:
    return float(values.sum() if weights is None else (values * weights).sum())
