"""The class `MixtureOfFactorAnalyzers`: densities, responsibilities, factors, imputation and criteria of rows."""

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
)
from amofa._data.dataframes import check_same_names, column_names, column_positions
from amofa._data.row_chunks import Samples
from amofa._model.clusters import Clusters, cluster_labels, cluster_probabilities
from amofa._model.conditional import condition, fill
from amofa._model.described import DescribedMixture
from amofa._model.posterior import (
    background_shares,
    coordinates,
    factor_scores,
    information_criterion,
    log_densities,
    mean_log_density,
    responsibilities,
)
from amofa._typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MixtureOfFactorAnalyzers(DescribedMixture):
    """A mixture of factor analysers.

    p(x) = sum_k weights[k] N(x; means[k], loadings[k] loadings[k]' + diag(uniquenesses[k])). ``amofa.fit`` makes it
    from data, this class from arrays. Components with finite degrees of freedom have multivariate t distributions with
    these centres and scale matrices in place of normal ones: t-factor analysers, whose tails are heavier. A model is
    immutable, except for `set_output`: its arrays are read-only, and several threads may use it.

    ``amofa.fit`` may put a background beside the components, f(x) = (1 - w) p(x) + w b(x), with w the
    `background_weight`: see docs/background.md. Densities and criteria are then those of f, and `predict` returns -1
    for rows of the background. Everything else is about rows of the components.

    Parameters
    ----------
    weights : (K,) array-like
        Mixing weights, not negative. They must sum to 1 to within 1e-6, and are then normalised.
    means : (K, d) array-like
    loadings : sequence of K array-likes (d, p_k)
        ``numpy.zeros((d, 0))`` for a component without factors.
    uniquenesses : (K, d) array-like
        Variances, positive.
    feature_names : sequence of d str, optional
        Names of the features. Frames that are passed to the methods must then have the same names.
    degrees_of_freedom : float or (K,) array-like, optional
        Of t components, at least 0.001, for all components or for each; infinite for normal ones, the default.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers.
    ValueError
        If shapes do not match or values are not allowed; the message names the argument and the component.

    Notes
    -----
    All methods read rows in blocks, whatever their dtype and memory layout: a float32 or memory-mapped table is never
    copied as a whole. Frames of pandas, polars, pyarrow and similar packages are accepted, too. Cells that are NaN are
    missing; results for such a row are exact, by the marginal distribution of its other cells. The cost is
    O(n d sum_k p_k), and O(d sum_k p_k^2) for each pattern of missing cells. Only `covariance` forms a d x d matrix.

    Large tables are shared among threads, by default one for each core that the process may use, see
    `amofa.threads.default_threads`; ``with amofa.threads.use_threads(1):`` limits them. Results are the same for any
    number of threads.

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

    With 3 degrees of freedom, far rows are not nearly as improbable:

    >>> arrays = [1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]]
    >>> MixtureOfFactorAnalyzers(*arrays).score_samples([[0.0, 0.0], [20.0, 0.0]]).round(1)
    array([  -2.7, -169.4])
    >>> MixtureOfFactorAnalyzers(*arrays, degrees_of_freedom=3).score_samples([[0.0, 0.0], [20.0, 0.0]]).round(1)
    array([ -2.7, -14.5])
    """

    # -- rows --

    def predict(self, X: ArrayLike, *, clusters: Clusters | int | str | None = None) -> NDArray[np.intp]:
        """Return the most probable component, or cluster of components, of every row.

        Parameters
        ----------
        X : (n, d) array-like
            Real numbers; NaN marks a missing cell, here and in the other methods.
        clusters : Clusters, int or "auto", optional
            What `clusters` has returned, their number, or "auto" for ``clusters()``. By default, components.

        Returns
        -------
        (n,) intp
            The first of the largest entries in each row of `predict_proba`, or -1 where a background is likelier than
            each component, or cluster.

        Raises
        ------
        TypeError, ValueError
            If X is not a real table of d columns, finite except for NaN, or a frame whose columns have other names than
            `feature_names`. All methods that take X raise these. If clusters are not those of K components.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
        >>> model.predict([[1.0], [3.0]])
        array([0, 1])
        """
        rows = self._samples(X)
        if clusters is None:
            return self._framed(rows.labels(self._parameters), ["component"], X)
        labels = cluster_labels(self._parameters, rows, self._chosen_clusters(clusters))
        return self._framed(labels, ["cluster"], X)

    def predict_proba(
        self, X: ArrayLike, *, clusters: Clusters | int | str | None = None, background: bool = False
    ) -> FloatArray:
        """Return the responsibilities: the posterior probability of every component for every row.

        Parameters
        ----------
        X : (n, d) array-like
        clusters : Clusters, int or "auto", optional
            As in `predict`: return the probability of every cluster, the sum of those of its components.
        background : bool, default False
            Whether to return the probability of the background, too, as a last column: `outlier_scores`. By default,
            probabilities are those of a row that belongs to a component.

        Returns
        -------
        (n, K) float64, or (n, C) with C clusters
            Rows sum to 1. A row without observed cells, or so far away that every log density is minus infinity, has
            the mixing weights.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [[[1.0]], [[1.0]]], [[1.0], [1.0]])
        >>> model.predict_proba([[2.0], [3.0]]).round(3)
        array([[0.5  , 0.5  ],
               [0.119, 0.881]])
        """
        rows = self._samples(X)
        if clusters is None:
            proba, kind = responsibilities(self._parameters, rows), "component"
        else:
            proba, kind = cluster_probabilities(self._parameters, rows, self._chosen_clusters(clusters)), "cluster"
        names = [f"{kind}_{k}" for k in range(proba.shape[1])]
        if background:
            beside = background_shares(self._parameters, rows)[:, None]
            proba, names = np.concatenate([(1.0 - beside) * proba, beside], axis=1), [*names, "background"]
        return self._framed(proba, names, X)

    def outlier_scores(self, X: ArrayLike) -> FloatArray:
        """Return the posterior probability of the background for every row.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n,) float64
            From 0 to 1; 0 without a background.

        Examples
        --------
        >>> import amofa
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(0, 1, (300, 2)), rng.uniform(-30, 30, (30, 2))])
        >>> model = amofa.fit(X, background="uniform")
        >>> model.background_weight > 0.05, model.outlier_scores([[0.0, 1.0], [9.0, -9.0]]).round(2)
        (True, array([0., 1.]))
        >>> model.predict([[0.0, 1.0], [9.0, -9.0]])
        array([ 0, -1])
        """
        scores = background_shares(self._parameters, self._samples(X))
        return self._framed(scores, ["background"], X)

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return the log density of every row, in nats.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n,) float64
            If cells are missing, the log density of the observed ones; 0 if all are missing.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
        >>> model.score_samples([[0.0], [2.0]]).round(4)
        array([-0.9189, -2.9189])
        """
        return self._framed(log_densities(self._parameters, self._samples(X)), ["log_density"], X)

    def score(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log density of the rows, in nats; higher is better.

        Parameters
        ----------
        X : (n, d) array-like
        sample_weight : (n,) array-like, optional
            Weights of the rows in the mean, finite and not negative; a row of weight 0 counts as absent.

        Returns
        -------
        float

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0]], [[[0.6]]], [[0.64]])
        >>> round(model.score([[0.0], [2.0]], sample_weight=[3, 1]), 4)
        -1.4189
        """
        return mean_log_density(self._parameters, self._samples(X, sample_weight))

    def factor_scores(self, X: ArrayLike) -> list[FloatArray]:
        """Return the posterior means of the factors, E[z | x, k], under every component.

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
        scores = factor_scores(self._parameters, self._samples(X))
        return [self._framed(of_one, self._names_of_factors(k), X) for k, of_one in enumerate(scores)]

    def transform(self, X: ArrayLike) -> FloatArray:
        """Transform rows to the coordinates of the mixture: responsibilities and factor scores.

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
        factors = [name for k in range(self.n_components) for name in self._names_of_factors(k)]
        names = [*(f"r{k}" for k in range(self.n_components)), *factors]
        return self._framed(coordinates(self._parameters, self._samples(X)), names, X)

    def inverse_transform(self, Z: ArrayLike) -> FloatArray:
        """Map the output of `transform` back to rows: sum_k r_k mu_k + Lambda_k (r_k z_k), which is linear.

        Parameters
        ----------
        Z : (n, K + sum_k p_k) array-like

        Returns
        -------
        (n, d) float64

        Raises
        ------
        TypeError, ValueError
            If Z is not a finite real table with this number of columns.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 1.0]])
        >>> model.inverse_transform(model.transform([[3.0, 0.0]]))
        array([[1., 1.]])
        """
        basis = np.concatenate([self.means, self._parameters.loadings])
        samples = Samples(check_table(Z, name="Z", n_features=len(basis)))
        X = np.empty((samples.n_rows, self.n_features))
        start = 0
        for z, _ in samples.chunks():
            np.matmul(z.T, basis, out=X[start : start + z.shape[1]])
            start += z.shape[1]
        return self._framed(X, self._names_of_columns(None), Z)

    # -- columns given others --

    def condition(self, known_columns: Iterable[int | str], values: ArrayLike) -> MixtureOfFactorAnalyzers:
        """Return the mixture of the other columns, given values of some columns.

        Parameters
        ----------
        known_columns : sequence of o int or str
            Numbers of columns from 0, or names if the model has `feature_names`; not all columns.
        values : (o,) array-like
            Their values, in this order; NaN for a value that is unknown.

        Returns
        -------
        MixtureOfFactorAnalyzers
            The mixture of the d - o other columns in their order, with the same numbers of components and factors. Its
            weights are the responsibilities, and its components N(mu_w + Lambda_w z, Lambda_w C^-1 Lambda_w' + Psi_w),
            where z are the factor scores and C^-1 is their covariance given the values. A t component with nu degrees
            of freedom has nu + o of them, and its scale matrix is this one times (nu + m) / (nu + o), where m is the
            squared Mahalanobis distance of the o values that are known. (Of a component of weight 0, it is this one.)
            The weight of a background is then its posterior probability, and its density that of the other columns.

        Raises
        ------
        TypeError, ValueError
            If there are no such columns, or no others, or if values are not one real number for each, finite or NaN; if
            the background is a function.

        Notes
        -----
        The cost is O(sum_k d p_k^2). For many rows, `impute` returns the means of these mixtures.

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
        """Fill in missing cells from the observed cells of the same row.

        Parameters
        ----------
        X : (n, d) array-like
            NaN marks missing cells.
        known_columns : sequence of o int or str, optional
            The columns of X, by number from 0 or by name, if X is (n, o); by default X has all columns.
        draws : bool, default False
            Whether to insert draws from the joint conditional distribution of the missing cells of a row instead of
            their conditional means. Imputed means vary less than data do; draws vary like data.
        random_state : int, numpy Generator, numpy RandomState or None
            For draws: a generator is used as it is; an int seeds a new one; None takes entropy from the system.

        Returns
        -------
        (n, d) float64
            A complete copy of X. A row without observed cells gets the mean of the mixture, or a draw from it.

        Raises
        ------
        TypeError, ValueError
            If X is not a real table with this number of columns, finite except for NaN, if there are no such columns,
            or if `random_state` is given without `draws`.

        Notes
        -----
        The cost is O(d sum_k p_k) for each row, and O(d sum_k p_k^2) for each pattern of missing cells. Where a t
        component has at most one degree of freedom and nothing of the row is observed, its centre stands for its mean.
        Every row is taken for one of the components: a background says nothing of missing cells.

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
        return self._framed(filled, self._names_of_columns(X if known_columns is None else None), X)

    # -- criteria --

    def bic(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the Bayesian information criterion, -2 log-likelihood + n_parameters log n; lower is better.

        Parameters
        ----------
        X : (n, d) array-like
        sample_weight : (n,) array-like, optional
            Finite and not negative; n is then their sum.

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
        """Return Akaike's information criterion, -2 log-likelihood + 2 n_parameters; lower is better.

        Parameters
        ----------
        X : (n, d) array-like
        sample_weight : (n,) array-like, optional
            Finite and not negative.

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
        """Return the integrated completed likelihood, BIC + 2 x entropy of the responsibilities; lower is better.

        Parameters
        ----------
        X : (n, d) array-like
        sample_weight : (n,) array-like, optional
            Finite and not negative; n is then their sum.

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
        return information_criterion(name, self._parameters, self._samples(X, sample_weight), self.n_parameters)

    def plot(self, X: ArrayLike | None = None, *, kind: str | None = None, **options: Any) -> Axes:
        """Draw a picture of the model with matplotlib; `amofa.plot` has more.

        Parameters
        ----------
        X : (n, d) array-like, optional
            With rows: clusters in two columns, or in the plane that separates the components best if there are more
            columns, or the density of a single column. Without rows: loadings, or the search if there are no factors.
        kind : str, optional
            The name of a function of `amofa.plot` that draws a model, such as "tree", "loadings" or "density".
        **options
            Passed to the function that draws, such as ``ax``, matplotlib axes to draw into, or ``columns``.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError, ValueError
            If X does not match the model.

        Examples
        --------
        >>> model = MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [2.0]]], [[1.0, 1.0]])
        >>> model.plot([[1.0, 2.0], [0.0, 1.0]]).get_ylabel()
        'x1'
        """
        # Imported here: it needs scipy.optimize, which would take half of the time of `import amofa`.
        from amofa.plot import sensible

        return sensible(self, X, kind=kind, **options)
