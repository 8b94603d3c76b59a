"""The mixture as a scikit-learn estimator, for densities, clustering and dimensionality reduction."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from amofa._background import LogDensity
from amofa._data.checks import RandomState, check_choice, check_incomplete_table, check_whole_number
from amofa._model.clusters import Clusters, cluster_labels, cluster_probabilities
from amofa._model.posterior import (
    Rows,
    coordinates,
    information_criterion,
    log_densities,
    mean_log_density,
    responsibilities,
    rows_of,
)
from amofa._typing import FloatArray
from amofa.history import Callback, OnIteration
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.sklearn._base import (
    FLOATS,
    BaseAMoFA,
    checked_rows,
    checked_table,
    further_rows,
    names_of_columns,
    training_rows,
)
from amofa.streaming import Stream

# Most rows of a first block of `partial_fit` that are fitted as a whole.
_MOST_FIRST_ROWS = 20_000


class AMoFA(TransformerMixin, ClusterMixin, DensityMixin, BaseAMoFA):
    """A mixture of factor analysers with numbers of components and factors found automatically.

    The parameters are the options of `amofa.fit`, which describes them in full.

    Parameters
    ----------
    {options}
    n_clusters : int or "auto", optional
        Join components to this number of clusters (or one for each component, if there are fewer), or to as many as
        `amofa.MixtureOfFactorAnalyzers.clusters` finds. Then ``labels_``, ``predict`` and ``predict_proba`` give
        clusters; by default, they give components.

    Attributes
    ----------
    model_ : MixtureOfFactorAnalyzers
        The mixture, with methods such as ``model_.summary()``, ``model_.factor_scores(X)`` and ``model_.save(path)``.
    n_components_ : int
    n_factors_ : (n_components_,) int array
    weights_ : (n_components_,) array
    means_, uniquenesses_ : (n_components_, n_features) arrays
    loadings_ : list of n_components_ arrays (n_features, n_factors_[k])
    degrees_of_freedom_ : (n_components_,) array
        Infinite for normal components.
    background_weight_ : float
        Share of the rows that belongs to the background; 0 without one.
    labels_ : (n_samples,) int array
        The component, or cluster, of each training row, or -1 if it is of the background.
    clusters_ : Clusters or None
        The clusters of components, if `n_clusters` was given.
    converged_ : bool
    n_iter_ : int
        Number of EM iterations in all steps of the search.
    stream_ : Stream
        Only after `partial_fit`.
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

    Clusters of components, for groups that are not Gaussian:

    >>> joined = AMoFA(n_components=4, n_clusters=2).fit(X)
    >>> joined.n_components_, joined.clusters_.n_clusters
    (4, 2)

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

    Rows that come in blocks, here the same groups once more:

    >>> blocks = np.split(rng.permutation(X), 3)
    >>> mixture = AMoFA().partial_fit(blocks[0]).partial_fit(blocks[1]).partial_fit(blocks[2])
    >>> mixture.n_components_, mixture.stream_.n_samples
    (2, 300.0)
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_factors: int | Sequence[int] | None = None,
        *,
        n_clusters: int | str | None = None,
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
        self.n_clusters = n_clusters

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
        rows = training_rows(self, X)
        self.__dict__.pop("stream_", None)
        self._fit_rows(rows, sample_weight, names_of_columns(self))
        return self._describe(rows)

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from a block of further rows, each of which is used once; see `amofa.Stream`.

        The first block is fitted as a whole, up to 20000 rows of it, unless the mixture was fitted before or `init` is
        one: these are then learnt on. `fit` starts anew. A search of the paper and a background are not possible;
        options that control how a fit runs have no effect.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
        y : ignored
        sample_weight : (n_samples,) array-like, optional
            How often each row counts.

        Returns
        -------
        self
            With `labels_` of these rows.
        """
        is_first = not hasattr(self, "model_")
        rows = training_rows(self, X) if is_first else further_rows(self, X)
        stream: Stream = getattr(self, "stream_", None) or self._new_stream(len(rows))
        self._adopt(stream.update(rows, sample_weight).model._named(names_of_columns(self)))
        self.stream_ = stream
        return self._describe(rows)

    def _new_stream(self, n_rows: int) -> Stream:
        """Return a stream with the options of a fit, which goes on from the fitted mixture if there is one."""
        options = self._fit_options()
        if options.is_paper or options.background is not None:
            raise ValueError("partial_fit has search='thorough' and no background; leave search and background out")
        shared = {
            name: getattr(options, name) for name in inspect.signature(Stream).parameters if hasattr(options, name)
        }
        shared["init"] = init = getattr(self, "model_", options.init)
        return Stream(**shared, warm_up=min(n_rows, _MOST_FIRST_ROWS) if init is None else None)

    def _describe(self, rows: NDArray[Any]) -> Self:
        """Set the attributes that follow from the mixture: its clusters, and the labels of rows."""
        self.clusters_ = self._find_clusters()
        self.labels_ = self._labels(rows_of(*check_incomplete_table(rows)))
        return self

    def _find_clusters(self) -> Clusters | None:
        """Return the clusters that `n_clusters` asks for; not more than there are components, whose number is found."""
        if self.n_clusters is None:
            return None
        if isinstance(self.n_clusters, str):
            check_choice("n_clusters", self.n_clusters, ("auto",))
            return self.model_.clusters()
        number = check_whole_number("n_clusters", self.n_clusters, at_least=1)
        return self.model_.clusters(min(number, self.n_components_))

    # -- density --

    def score_samples(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the log density of every row.

        Parameters
        ----------
        X : (n_samples, n_features) array-like
            NaN marks a missing cell, here and in the other methods of a fitted estimator.

        Returns
        -------
        (n_samples,) array
            In nats; float32 if X is.
        """
        table, is_incomplete = checked_table(self, X)
        return log_densities(self.model_._parameters, rows_of(table, is_incomplete)).astype(table.dtype, copy=False)

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
            See `amofa.MixtureOfFactorAnalyzers.bic`.
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
            See `amofa.MixtureOfFactorAnalyzers.aic`.
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
            See `amofa.MixtureOfFactorAnalyzers.icl`.
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
            The component of each row, or -1 if it is from the background.
        """
        check_is_fitted(self)
        return self.model_.sample(n_samples, random_state)

    # -- clusters --

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Return the most probable component of every row, or its most probable cluster if `n_clusters` was given.

        It is -1 where a background is likelier; ``model_.outlier_scores(X)`` has its probability.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples,) intp array
        """
        return self._labels(checked_rows(self, X))

    def _labels(self, rows: Rows) -> NDArray[np.intp]:
        if self.clusters_ is None:
            return rows.labels(self.model_._parameters)
        return cluster_labels(self.model_._parameters, rows, self.clusters_)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the probability of every component for every row, or of every cluster if `n_clusters` was given.

        They are those of a row that belongs to a component, beside the background.

        Parameters
        ----------
        X : (n_samples, n_features) array-like

        Returns
        -------
        (n_samples, n_components_) array, or (n_samples, clusters_.n_clusters)
            float32 if X is.
        """
        table, is_incomplete = checked_table(self, X)
        parameters, rows = self.model_._parameters, rows_of(table, is_incomplete)
        if self.clusters_ is None:
            proba = responsibilities(parameters, rows)
        else:
            proba = cluster_probabilities(parameters, rows, self.clusters_)
        return proba.astype(table.dtype, copy=False)

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
        table, is_incomplete = checked_table(self, X)
        return coordinates(self.model_._parameters, rows_of(table, is_incomplete)).astype(table.dtype, copy=False)

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
