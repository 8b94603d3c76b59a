"""A mixture of factor analysers: what its parameters say of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import (
    RandomState,
    check_incomplete_table,
    check_random_state,
    check_table,
    check_weights,
    counted_rows,
)
from amofa._data.dataframes import check_same_names, column_names, column_positions
from amofa._data.row_chunks import PosteriorBlock, Samples
from amofa._model.base import BaseMixture
from amofa._model.missing_data import IncompleteSamples, condition, fill, reduced
from amofa._typing import FloatArray
from amofa.criterion import INFORMATION_CRITERIA

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MixtureOfFactorAnalyzers(BaseMixture):
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
    feature_names : sequence of d str, optional
        Names of the features, which frames given to the methods must then have.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If shapes do not fit together or values are not allowed; the message names the argument and the component.

    Notes
    -----
    All rows given to the methods are read in blocks, whatever their dtype and memory layout: a float32 or memory-mapped
    table is never copied whole. Frames of pandas, polars, pyarrow and their kind are tables, too. Cells that are NaN
    are missing: what is said of such a row is what its other cells say, exactly, by marginal distributions. Cost is
    O(n d sum_k p_k), and O(d sum_k p_k^2) for each pattern of missing cells; no d x d matrix is formed except by
    `covariance`.

    Large tables are shared among threads, one for each core that the process may use, see
    `amofa.threads.default_threads`; there are fewer in a block ``with amofa.threads.use_threads(1):``. Results are the
    same for any number.

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

    # -- rows --

    def _samples(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Samples | IncompleteSamples:
        if self.feature_names is not None:
            check_same_names(column_names(X), self.feature_names)
        table, is_incomplete = check_incomplete_table(X, n_features=self.n_features)
        weights = None if sample_weight is None else check_weights(sample_weight, len(table))
        kind = IncompleteSamples if is_incomplete else Samples
        return kind(table, weights=weights, rows=counted_rows(weights))

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """The most probable component of every row.

        Parameters
        ----------
        X : (n, d) array-like
            Real numbers; NaN where a cell is missing, here and in the other methods.

        Returns
        -------
        (n,) intp
            The first of the largest entries in each row of `predict_proba`.

        Raises
        ------
        TypeError, ValueError
            If X is not a real table of d columns, finite but for NaN, or a frame whose columns have other names than
            `feature_names`; so do all methods that take X.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
        >>> model.predict([[1.0], [3.0]])
        array([0, 1])
        """
        return self._samples(X).labels(self._parameters)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Responsibilities: the posterior probability of every component for every row.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n, K) float64
            Rows sum to 1. A row so far away that every density is zero even in logarithms, or all of whose cells are
            missing, keeps the mixing weights.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
        >>> model.predict_proba([[2.0], [3.0]]).round(3)
        array([[0.5  , 0.5  ],
               [0.119, 0.881]])
        """
        samples = self._samples(X)
        proba = np.empty((samples.n_rows, self.n_components))

        def put(block: PosteriorBlock) -> None:
            proba[block.rows] = block.responsibilities.T

        samples.over_posterior(self._parameters, put)
        return proba

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Log density of every row, nats.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n,) float64
            That of the observed cells where some are missing; 0 where all are.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
        >>> model.score_samples([[0.0], [2.0]]).round(4)
        array([-0.9189, -2.9189])
        """
        samples = self._samples(X)
        log_density = np.empty(samples.n_rows)

        def put(block: PosteriorBlock) -> None:
            log_density[block.rows] = block.log_density

        samples.over_posterior(self._parameters, put)
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
        sums = samples.over_posterior(
            self._parameters, lambda block: _weighted_sum(block.log_density, block.row_weights)
        )
        return sum(sums) / samples.total_weight

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

        def put(block: PosteriorBlock) -> None:
            for of_one, part in zip(scores, np.split(block.scores, self._parameters.offsets[1:-1]), strict=True):
                of_one[block.rows] = part.T

        samples.over_posterior(self._parameters, put, with_scores=True)
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
        samples = self._samples(X)
        Z = np.empty((samples.n_rows, self.n_components + len(self._parameters.loadings)))

        def put(block: PosteriorBlock) -> None:
            Z[block.rows] = reduced(block, self._parameters)

        samples.over_posterior(self._parameters, put, with_scores=True)
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

    # -- columns given others --

    def condition(self, known_columns: Iterable[int | str], values: ArrayLike) -> MixtureOfFactorAnalyzers:
        """The mixture of the other columns given values of some.

        Parameters
        ----------
        known_columns : sequence of o int or str
            Numbers of columns from 0, or names where the model has `feature_names`; not all columns.
        values : (o,) array-like
            Their values, in this order; NaN where one is not known after all.

        Returns
        -------
        MixtureOfFactorAnalyzers
            Of the d - o other columns in their order, with as many components and factors: weights are the
            responsibilities, and a component N(mu_w + Lambda_w z, Lambda_w C^-1 Lambda_w' + Psi_w), where z are the
            factor scores and C^-1 is their covariance given the values.

        Raises
        ------
        TypeError, ValueError
            If there are no such columns, no others, or values are not one real number for each, finite or NaN.

        Notes
        -----
        Cost O(sum_k d p_k^2). For many rows, `impute` has the means of these mixtures.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 1.0]])
        >>> given = model.condition([0], [3.0])
        >>> given.means, given.covariance(0)
        (array([[1.5]]), array([[1.5]]))
        """
        d, names = self.n_features, self.feature_names
        known = column_positions(known_columns, names, d, name="known_columns")
        if len(known) == d:
            raise ValueError("known_columns has all columns; leave at least one out")
        row = np.asarray(values)
        if row.shape != known.shape:
            raise ValueError(
                f"values has shape {row.shape}, but known_columns has {len(known)}; pass one value for each"
            )
        table, _ = check_incomplete_table(row[None], name="values")
        parameters = condition(self._parameters, known, table[0].astype(np.float64))
        others = None if names is None else tuple(name for j, name in enumerate(names) if j not in known)
        return MixtureOfFactorAnalyzers._from_fit(parameters, None, others)

    def impute(
        self,
        X: ArrayLike,
        *,
        known_columns: Iterable[int | str] | None = None,
        draws: bool = False,
        random_state: RandomState = None,
    ) -> FloatArray:
        """Rows with their missing cells filled in, by what the observed cells of the row say of them.

        Parameters
        ----------
        X : (n, d) array-like
            NaN where a cell is missing.
        known_columns : sequence of o int or str, optional
            Which columns X has, (n, o) then, by number from 0 or by name; all where not given.
        draws : bool, default False
            Whether to put in draws from the joint conditional distribution of the missing cells of a row, rather than
            their conditional means. Imputed means vary less than data do; draws vary like these.
        random_state : int, numpy Generator, numpy RandomState or None
            For draws: a generator is drawn from; an int starts a new one; None takes entropy from the system.

        Returns
        -------
        (n, d) float64
            A copy of X, whole. A row of which nothing is observed gets the mean of the mixture, or a row drawn from it.

        Raises
        ------
        TypeError, ValueError
            If X is not a real table of as many columns, finite but for NaN, if there are no such columns, or if there
            is a `random_state`, but no draws.

        Notes
        -----
        Cost O(d sum_k p_k) for each row, and O(d sum_k p_k^2) for each pattern of missing cells.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 1.0]])
        >>> model.impute([[3.0, np.nan], [1.0, 2.0]])
        array([[3. , 1.5],
               [1. , 2. ]])
        >>> model.impute([[3.0]], known_columns=[1])
        array([[1.5, 3. ]])
        """
        d, names = self.n_features, self.feature_names
        if random_state is not None and not draws:
            raise ValueError("random_state is for draws; pass draws=True as well")
        if known_columns is None:
            known, expected = np.arange(d), "the model was made for"
        else:
            known, expected = column_positions(known_columns, names, d, name="known_columns"), "known_columns has"
        check_same_names(column_names(X), None if names is None else [names[j] for j in known])
        table, _ = check_incomplete_table(X)
        if table.shape[1] != len(known):
            raise ValueError(f"X has {table.shape[1]} columns, but {expected} {len(known)}")
        filled = np.full((len(table), d), np.nan)
        filled[:, known] = table
        fill(self._parameters, filled, check_random_state(random_state) if draws else None)
        return filled

    # -- criteria --

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

        def cost(block: PosteriorBlock) -> float:
            log_likelihood = _weighted_sum(block.log_density, block.row_weights)
            if not criterion.uses_entropy:
                return -log_likelihood
            return _weighted_sum(entr(block.responsibilities).sum(axis=0), block.row_weights) - log_likelihood

        costs = samples.over_posterior(self._parameters, cost)
        return 2 * (criterion.price(samples.total_weight) * self.n_parameters + sum(costs))

    def plot(self, X: ArrayLike | None = None, **options: Any) -> Axes:
        """Draw what suits, with matplotlib; see `amofa.plot` for this and more.

        Parameters
        ----------
        X : (n, d) array-like, optional
            With rows: clusters in two columns, or in the plane of more columns that tells the components apart best, or
            the density of one column. Without: loadings; of a model without factors, the search.
        **options
            For the function that draws, such as ``ax``, matplotlib axes to draw into, or ``columns``.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            If X does not fit the model.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]])
        >>> model.plot([[1.0, 2.0], [0.0, 1.0]]).get_ylabel()
        'x1'
        """
        # It imports scipy.optimize, which would take half of the time of `import amofa`.
        from amofa.plot import sensible

        return sensible(self, X, **options)


def _weighted_sum(values: FloatArray, weights: FloatArray | None) -> float:
    return float(values.sum() if weights is None else (values * weights).sum())
