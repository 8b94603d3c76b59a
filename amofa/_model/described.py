"""What a mixture says about itself: its report, and its pictures in a notebook."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import check_incomplete_table, check_weights, check_whole_number
from amofa._data.dataframes import check_same_names, column_names
from amofa._model.clusters import Clusters, cluster_labels, find_clusters
from amofa._model.framed import FramedMixture
from amofa._model.posterior import Rows, rows_of
from amofa._model.report import Groups, Report, make_report, moments_of_model, moments_of_rows, report_of_model
from amofa._model.summary import summarize_in_html
from amofa._model.text import counted


class DescribedMixture(FramedMixture):
    """The part of `MixtureOfFactorAnalyzers` that describes it."""

    def _table(self, X: ArrayLike) -> tuple[NDArray[Any], bool]:
        """Return rows that match the model, and whether any cell is missing."""
        if self.feature_names is not None:
            check_same_names(column_names(X), self.feature_names)
        return check_incomplete_table(X, n_features=self.n_features)

    def _samples(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Rows:
        table, is_incomplete = self._table(X)
        weights = None if sample_weight is None else check_weights(sample_weight, len(table))
        return rows_of(table, is_incomplete, weights)

    # -- clusters of components --

    def clusters(self, n_clusters: int | None = None) -> Clusters:
        """Join components to clusters, for groups that are not Gaussian and have several components each.

        Parameters
        ----------
        n_clusters : int, optional
            From 1 to K. By default, joins that cost at most 0.3 nats are made, and those before a clear gap in the
            tree.

        Returns
        -------
        Clusters
            The cluster of each component, and the tree of joins with what each of them costs.

        Raises
        ------
        TypeError, ValueError
            If `n_clusters` is not such a number.

        Notes
        -----
        The cost of a join says how far the density of the mixture falls between two clusters, below the lower of their
        peaks. Pairs of components that hardly overlap cost more, and so do pairs with the same centre and different
        shapes; a few rows at the edge of a cluster cost less. docs/clusters.md has the whole rule, and what it was
        measured on. It needs no rows, and takes O(K^2 d p^2), where p is the largest number of factors.

        Examples
        --------
        Three components, of which two are pieces of one group:

        >>> import numpy as np
        >>> import amofa
        >>> means = [[0.0], [1.5], [9.0]]
        >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.3, 0.2], means, [np.zeros((1, 0))] * 3, np.ones((3, 1)))
        >>> clusters = model.clusters()
        >>> clusters.n_clusters, clusters.labels
        (2, array([0, 0, 1]))
        >>> model.predict([[0.2], [1.7], [8.0]]), model.predict([[0.2], [1.7], [8.0]], clusters=clusters)
        (array([0, 1, 2]), array([0, 0, 1]))
        """
        # Rounded columns have no detail below their smallest uniquenesses: 0 and 1 are neighbours, not two groups.
        floors = np.where(self.at_floor, self.uniquenesses, np.inf).min(axis=0)
        resolution = np.where(np.isfinite(floors), floors, 0.0)
        return find_clusters(self._parameters, resolution, self.n_samples, n_clusters)

    def _chosen_clusters(self, clusters: Clusters | int | str) -> Clusters:
        """Return the clusters that an argument names."""
        if isinstance(clusters, str):
            if clusters != "auto":
                raise ValueError(f"clusters must be those of the model, their number, or 'auto', got {clusters!r}")
            return self.clusters()
        if not isinstance(clusters, Clusters):
            return self.clusters(check_whole_number("clusters", clusters, at_least=1, at_most=self.n_components))
        if clusters.n_components != self.n_components:
            raise ValueError(
                f"clusters are those of {counted(clusters.n_components, 'component')}, but the model has "
                f"{self.n_components}"
            )
        return clusters

    # -- report --

    def report(
        self,
        X: ArrayLike | None = None,
        *,
        clusters: Clusters | int | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Report:
        """Return what each component or cluster is: rows, means, deviations, what sets it apart, and its factors.

        Parameters
        ----------
        X : (n, d) array-like, optional
            Each row counts for its most probable component or cluster, or for the background, of which only the number
            of rows is reported. Missing cells, NaN, count for no mean. Without rows, means and standard deviations are
            those of the mixture.
        clusters : Clusters, int or "auto", optional
            Report clusters of components instead, as in `predict`.
        sample_weight : (n,) array-like, optional
            How often each row counts.

        Returns
        -------
        Report
            Printing it shows tables; ``to_dict()`` and ``to_frame()`` have a row for each component or cluster.

        Raises
        ------
        TypeError, ValueError
            If X does not match the model, if clusters are not those of the model, or if there are weights without rows.

        Examples
        --------
        >>> import numpy as np
        >>> import amofa
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal([170, 65], [7, 9], (200, 2)), rng.normal([110, 20], [5, 3], (100, 2))])
        >>> model = amofa.fit(X)
        >>> model.report(X)
        2 components of 300 rows in 2 columns
        <BLANKLINE>
        component  rows  weight  factors  set apart from the rest by: mean (difference in standard deviations)
                0   200  0.6667        1  x0 169.3 (+9.8), x1 65.22 (+6.7)
                1   100  0.3333        0  x0 109.7 (-9.8), x1 20.21 (-6.7)
        <BLANKLINE>
        mean ± standard deviation, of each component
        column            0            1
        x0      169.3 ± 6.9  109.7 ± 5.2
        x1       65.2 ± 9.1   20.2 ± 2.8
        <BLANKLINE>
        factors, and the columns that correlate most with them
        component  factor  of its variance  columns
                0       0              45%  x1 +0.95
        """
        parameters = self._parameters
        if clusters is None:
            groups = Groups("component", np.arange(self.n_components), self.weights)
        else:
            found = self._chosen_clusters(clusters)
            groups = Groups("cluster", found.labels, found.weights)
        if X is None:
            if sample_weight is not None:
                raise ValueError("sample_weight is for rows; pass X as well")
            return report_of_model(parameters, self.feature_names, groups)
        table, is_incomplete = self._table(X)
        weights = None if sample_weight is None else check_weights(sample_weight, len(table))
        rows = rows_of(table, is_incomplete)
        labels = rows.labels(parameters) if clusters is None else cluster_labels(parameters, rows, found)
        moments, counts = moments_of_rows(table, labels, weights, moments_of_model(parameters, groups).means)
        beside = None
        if parameters.background is not None:
            beside = float((labels == -1).sum() if weights is None else weights[labels == -1].sum())
        return make_report(parameters, groups, self.feature_names, moments, counts, beside)

    def _repr_html_(self) -> str:
        return summarize_in_html(self._parameters, self.n_parameters, self._report, self._feature_names)
