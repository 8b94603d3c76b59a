"""Components joined to clusters: a tree of joins, and clusters as a cut of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._data.checks import check_whole_number
from amofa._data.row_chunks import PosteriorBlock
from amofa._model.cluster_costs import JOINED_COST, PairCosts, pair_costs
from amofa._model.posterior import Rows, background_shares
from amofa._model.text import aligned, counted, html_table
from amofa._parameters import Parameters
from amofa._typing import FloatArray

# A cluster that has less than this share of the rows of both is a side lobe. Below this number of rows its cost counts
# in proportion: it takes 30 nats in all, as many as 100 rows have at 0.3 nats each, for a few rows in the tail of a
# group to be a cluster of their own.
_LOBE_SHARE = 0.2
_LOBE_ROWS = 100
# The pieces of long groups, such as half circles, are as far apart as groups can be, but a clear gap in the tree shows
# what belongs together: joins up to this cost are made, too, if the next one costs at least this many times as much,
# and if each cluster that they make has at least this number of components. Two near Gaussian groups, with a component
# each, stay two whatever else there is.
_GAP_COST = 1.5
_GAP_RATIO = 3.0
_GAP_COMPONENTS = 3
# Lists of components are shown up to this number.
_SHOWN_COMPONENTS = 12


class Join(NamedTuple):
    """A join of two clusters into one.

    Attributes
    ----------
    first, second : int
        The clusters that are joined: k is component k, and K + j what join j made, as in `scipy.cluster.hierarchy`.
    cost : float
        Nats, not less than that of the joins before.
    weight : float
        Sum of the mixing weights of the components of both.
    """

    first: int
    second: int
    cost: float
    weight: float


@dataclass(frozen=True, repr=False)
class Clusters:
    """The components of a mixture joined to clusters; printing it shows tables of clusters and joins.

    Attributes
    ----------
    labels : (K,) intp
        The cluster of each component. Clusters are numbered by their first components.
    component_weights : (K,) float64
        The mixing weights of the components.
    joins : tuple of K - 1 Join
        The whole tree, from the cheapest join on; the first K - C make these clusters.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> means = [[0.0], [1.5], [9.0]]
    >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.3, 0.2], means, [np.zeros((1, 0))] * 3, np.ones((3, 1)))
    >>> clusters = model.clusters()
    >>> clusters.labels
    array([0, 0, 1])
    >>> print(clusters)
    2 clusters of 3 components
    <BLANKLINE>
    cluster  weight  components
          0  0.8000         0 1
          1  0.2000           2
    <BLANKLINE>
    clusters  cost of the next join (nats)
           3                         0.000
           2                         6.114
    """

    labels: NDArray[np.intp]
    component_weights: FloatArray
    joins: tuple[Join, ...]

    def __len__(self) -> int:
        return self.n_clusters

    @property
    def n_components(self) -> int:
        """Number of components K."""
        return len(self.labels)

    @property
    def n_clusters(self) -> int:
        """Number of clusters C."""
        return int(self.labels.max()) + 1

    @property
    def weights(self) -> FloatArray:
        """Sum of the mixing weights of the components of each cluster, (C,)."""
        return np.array([self.component_weights[self.labels == c].sum() for c in range(self.n_clusters)])

    def components(self, cluster: int) -> NDArray[np.intp]:
        """Return the components of a cluster, increasing.

        Parameters
        ----------
        cluster : int
            From 0 to C - 1.

        Returns
        -------
        (number of components,) intp

        Raises
        ------
        TypeError, ValueError
            If there is no such cluster.

        Examples
        --------
        >>> import numpy as np
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [1.0]], [np.zeros((1, 0))] * 2, np.ones((2, 1)))
        >>> model.clusters().components(0)
        array([0, 1])
        """
        number = check_whole_number("cluster", cluster, at_least=0, at_most=self.n_clusters - 1)
        return np.flatnonzero(self.labels == number)

    def cut(self, n_clusters: int) -> Clusters:
        """Return another cut of the same tree.

        Parameters
        ----------
        n_clusters : int
            From 1 to K.

        Returns
        -------
        Clusters

        Raises
        ------
        TypeError, ValueError
            If it is not such a number.

        Examples
        --------
        >>> import numpy as np
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [1.0]], [np.zeros((1, 0))] * 2, np.ones((2, 1)))
        >>> model.clusters().cut(2).labels
        array([0, 1])
        """
        K = self.n_components
        number = check_whole_number("n_clusters", n_clusters, at_least=1, at_most=K)
        groups = np.arange(K)
        for made, join in enumerate(self.joins[: K - number], start=K):
            groups[(groups == join.first) | (groups == join.second)] = made
        return Clusters(_numbered(groups), self.component_weights, self.joins)

    def linkage(self) -> FloatArray:
        """Return the tree for ``scipy.cluster.hierarchy``, such as its ``dendrogram``.

        Returns
        -------
        (K - 1, 4) float64
            For each join the two clusters, the cost in nats, and the number of components of both.

        Examples
        --------
        >>> import numpy as np
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [1.0]], [np.zeros((1, 0))] * 2, np.ones((2, 1)))
        >>> model.clusters().linkage()
        array([[0., 1., 0., 2.]])
        """
        sizes = [1.0] * self.n_components
        for join in self.joins:
            sizes.append(sizes[join.first] + sizes[join.second])
        rows = [(*join[:3], size) for join, size in zip(self.joins, sizes[self.n_components :], strict=True)]
        return np.array(rows, dtype=np.float64).reshape(-1, 4)

    def __repr__(self) -> str:
        tables = [aligned(table) for table in (self._clusters_table(), self._costs_table()) if len(table) > 1]
        return "\n\n".join([self._heading(), *tables])

    def _repr_html_(self) -> str:
        tables = [html_table(table) for table in (self._clusters_table(), self._costs_table()) if len(table) > 1]
        return f"<div><p>{self._heading()}</p>{''.join(tables)}</div>"

    def _heading(self) -> str:
        return f"{counted(self.n_clusters, 'cluster')} of {counted(self.n_components, 'component')}"

    def _clusters_table(self) -> list[list[str]]:
        table = [["cluster", "weight", "components"]]
        for c, weight in enumerate(self.weights.tolist()):
            members = self.components(c).tolist()
            shown = [*map(str, members[:_SHOWN_COMPONENTS]), *["..."] * (len(members) > _SHOWN_COMPONENTS)]
            table.append([str(c), f"{weight:.4f}", " ".join(shown)])
        return table

    def _costs_table(self) -> list[list[str]]:
        costs = [[str(self.n_components - j), f"{join.cost:.3f}"] for j, join in enumerate(self.joins)]
        return [["clusters", "cost of the next join (nats)"], *costs]


def find_clusters(
    parameters: Parameters, resolution: FloatArray, n_rows: float | None, n_clusters: int | None
) -> Clusters:
    """Join the components of a mixture; see `MixtureOfFactorAnalyzers.clusters`.

    `resolution` (d,) are variances below which columns have no detail, and `n_rows` is how many rows the mixture was
    fitted to, if it was.
    """
    K = parameters.n_components
    if n_clusters is not None:
        n_clusters = check_whole_number("n_clusters", n_clusters, at_least=1, at_most=K)
    weights = parameters.weights.copy()
    joins = _joins(pair_costs(parameters, resolution), weights, n_rows)
    tree = Clusters(np.arange(K), weights, joins)
    return _found_cut(tree) if n_clusters is None else tree.cut(n_clusters)


def _found_cut(tree: Clusters) -> Clusters:
    """Return the cut that is found: at the last clear gap in the tree, or else at `JOINED_COST`."""
    costs = [join.cost for join in tree.joins]
    n_cheap = sum(cost <= JOINED_COST for cost in costs)
    cut = cheap = tree.cut(tree.n_components - n_cheap)
    for n_joins in range(n_cheap + 1, len(costs)):
        if costs[n_joins - 1] > _GAP_COST:
            break
        if costs[n_joins] >= _GAP_RATIO * costs[n_joins - 1]:
            coarser = tree.cut(tree.n_components - n_joins)
            if _has_pieces(coarser, cheap):
                cut = coarser
    return cut


def _has_pieces(clusters: Clusters, finer: Clusters) -> bool:
    """Return whether all clusters that join those of a finer cut have enough components."""
    sizes = np.bincount(clusters.labels)
    n_joined = np.bincount(clusters.labels[np.unique(finer.labels, return_index=True)[1]])
    return bool((sizes[n_joined > 1] >= _GAP_COMPONENTS).all())


def _joins(pairs: PairCosts, weights: FloatArray, n_rows: float | None) -> tuple[Join, ...]:
    """Return all joins, always the cheapest next.

    The cost of a pair of components says how high the pass between them is. The pass between two clusters is the
    highest of those of their components, and the peak of a cluster is its highest, so that a wide component that
    reaches several groups does not join them: what counts is how far the pass lies below the peaks of both groups. Of
    joins that cost the same, the one of the nearest components comes first.
    """
    peaks, distances, masses = pairs.peaks.copy(), pairs.distances.copy(), weights.copy()
    passes = np.minimum.outer(peaks, peaks) - pairs.costs
    names = list(range(len(weights)))
    joins: list[Join] = []
    while len(names) > 1:
        costs = np.maximum(np.minimum.outer(peaks, peaks) - passes, 0.0) * _lobe_factors(masses, n_rows)
        costs[np.triu_indices(len(names))] = np.inf
        b, a = divmod(int(np.where(costs == costs.min(), distances, np.inf).argmin()), len(names))
        mass = masses[a] + masses[b]
        cost = max(float(costs[b, a]), joins[-1].cost if joins else 0.0)
        joins.append(Join(min(names[a], names[b]), max(names[a], names[b]), cost, float(mass)))
        peaks[a], masses[a], names[a] = max(peaks[a], peaks[b]), mass, len(weights) + len(joins) - 1
        passes[a] = passes[:, a] = np.maximum(passes[a], passes[b])
        distances[a] = distances[:, a] = np.minimum(distances[a], distances[b])
        peaks, masses = np.delete(peaks, b), np.delete(masses, b)
        passes, distances = (np.delete(np.delete(x, b, axis=0), b, axis=1) for x in (passes, distances))
        del names[b]
    return tuple(joins)


def _lobe_factors(masses: FloatArray, n_rows: float | None) -> FloatArray | float:
    """Return by what the costs of pairs of clusters are multiplied, (C, C): less than 1 for small side lobes."""
    if n_rows is None:
        return 1.0
    lesser = np.minimum.outer(masses, masses)
    is_lobe = lesser < _LOBE_SHARE * np.add.outer(masses, masses)
    return np.where(is_lobe, np.minimum(lesser * n_rows / _LOBE_ROWS, 1.0), 1.0)


def _numbered(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the numbers of groups in the order in which they occur first."""
    _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def cluster_probabilities(parameters: Parameters, rows: Rows, clusters: Clusters) -> FloatArray:
    """Return the posterior probability of every cluster for every row, (n, C)."""
    proba = np.zeros((rows.n_rows, clusters.n_clusters))

    def put(block: PosteriorBlock) -> None:
        of_block = np.zeros((clusters.n_clusters, len(block.log_density)))
        for cluster, responsibilities in zip(clusters.labels, block.responsibilities, strict=True):
            of_block[cluster] += responsibilities
        proba[block.rows] = of_block.T

    rows.over_posterior(parameters, put)
    return proba


def cluster_labels(parameters: Parameters, rows: Rows, clusters: Clusters) -> NDArray[np.intp]:
    """Return the most probable cluster of every row, or -1 for the background, (n,)."""
    proba = cluster_probabilities(parameters, rows, clusters)
    labels: NDArray[np.intp] = proba.argmax(axis=1)
    if parameters.background is not None:
        background = background_shares(parameters, rows)
        labels[background > (1.0 - background) * proba.max(axis=1)] = -1
    return labels
