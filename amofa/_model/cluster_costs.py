"""What it costs to join two components into one cluster, in nats, from the parameters of the mixture alone.

A weighted sum of the covariances of two factor analysers is the covariance of one with the factors of both, so that all
formulas take arrays (d, p_i + p_j) only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from amofa._data.row_chunks import Samples
from amofa._model.posterior import log_densities
from amofa._parallel.blas import single_blas_thread
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray

# Clusters are joined while that costs at most this, in nats: between them, the density falls to no less than e^-0.3, or
# 0.74, of the lower of their peaks. Two round Gaussian groups of the same size are joined if they are at most 2.8
# standard deviations apart. A higher value would join groups that overlap; bench/clusters.py measures it.
JOINED_COST = 0.3
# Components that overlap less than this, by their Bhattacharyya coefficient, are not joined for the density between
# them. In many columns, it falls all the way from a narrow group to the mean of a wide one around it, although hardly a
# row could belong to both.
LEAST_OVERLAP = 0.05
# Components have the same centre if their means are less than this number of standard deviations apart.
_SAME_CENTRE = 1.0
# Nats that stand for infinity, so that differences stay numbers.
_FAR = 1e300
# Number of points at which the density is computed on the way from one component to another, ends included.
_POINTS = 33


class PairCosts(NamedTuple):
    """The costs of pairs of components; arrays (K, K) are symmetric, and their diagonals mean nothing."""

    peaks: FloatArray  # (K,) log density of the mixture at the mean of each component
    costs: FloatArray  # (K, K) nats
    distances: FloatArray  # (K, K) Bhattacharyya distances, nats


def pair_costs(parameters: Parameters, resolution: FloatArray) -> PairCosts:
    """Return the costs of all pairs of components.

    The cost of a pair is the largest of three numbers, in nats and independent of the units of columns:

    * the fall: how far the log density of the mixture falls below the lower of its values at their means, on the
      ridgeline between them (Ray & Lindsay, 2005), which has all modes and saddles of a mixture of the two;
    * the gap: by how much their Bhattacharyya distance exceeds that of `LEAST_OVERLAP`, plus `JOINED_COST`;
    * the difference of their shapes if they have the same centre: half of the log ratio of the arithmetic to the
      harmonic mean of the variances of one in coordinates in which the other is spherical. It is 0 for the core and the
      tails of one group, and large for two groups that lie across each other.

    `resolution` (d,) is added to all uniquenesses: variances below which columns have no detail.
    """
    smooth = parameters.copy()
    smooth.uniquenesses += resolution
    components = smooth.components()
    K = len(components)
    peaks = log_densities(smooth, Samples(smooth.means))
    costs, distances = np.zeros((2, K, K))
    with single_blas_thread(), np.errstate(over="ignore", under="ignore", invalid="ignore"):
        covariances = [Covariance(c.uniquenesses, c.loadings) for c in components]
        for i in range(1, K):
            pairs = [_Pair(components[i], components[j]) for j in range(i)]
            points = np.concatenate([pair.ridgeline() for pair in pairs])
            lowest = log_densities(smooth, Samples(points)).reshape(i, _POINTS).min(axis=1)
            for j, pair in enumerate(pairs):
                distance = pair.distance(covariances[i], covariances[j])
                gap = distance + math.log(LEAST_OVERLAP) + JOINED_COST
                across = shape_difference(covariances[i], covariances[j]) if pair.has_same_centre else 0.0
                peak = min(peaks[i], peaks[j])
                fall = peak - lowest[j] if lowest[j] < peak else 0.0
                costs[i, j] = costs[j, i] = max(fall, gap, across, 0.0)
                distances[i, j] = distances[j, i] = distance
    # Where values overflow, components are far apart, or of weight 0 and nowhere.
    costs, distances = (np.nan_to_num(array, nan=_FAR, posinf=_FAR) for array in (costs, distances))
    return PairCosts(np.maximum(peaks, -_FAR), costs, distances)


class Covariance:
    """The covariance D + Lambda' Lambda of a factor analyser, by its inverse D^-1/2 (I - root' root) D^-1/2.

    Attributes
    ----------
    noise, loadings : (d,), (p, d) float64
    scale : (d,) float64
        D^-1/2.
    root : (min(p, d), d) float64
    """

    def __init__(self, noise: FloatArray, loadings: FloatArray) -> None:
        self.noise, self.loadings, self.scale = noise, loadings, noise**-0.5
        # Small eigenvalues keep their digits in a singular value decomposition, unlike in products of loadings.
        _, values, directions = np.linalg.svd(loadings * self.scale, full_matrices=False)
        self.root = (values / np.hypot(1.0, values))[:, None] * directions
        self.log_determinant = float(2 * np.log(np.hypot(1.0, values)).sum() - 2 * np.log(self.scale).sum())

    def solve(self, vector: FloatArray) -> FloatArray:
        """Return the inverse times a vector (d,)."""
        scaled = self.scale * vector
        solved: FloatArray = self.scale * (scaled - (self.root @ scaled) @ self.root)
        return solved

    def mean_ratio(self, other: Covariance) -> float:
        """Return tr(Sigma^-1 Sigma_other) / d, the mean variance of the other where this one is spherical."""
        loadings = other.loadings * self.scale
        noise = other.noise * self.scale**2
        whole = noise.sum() + (loadings**2).sum()
        explained = (self.root**2 @ noise).sum() + ((self.root @ loadings.T) ** 2).sum()
        return float(whole - explained) / len(noise)


def shape_difference(first: Covariance, second: Covariance) -> float:
    """Return half of the log ratio of the arithmetic to the harmonic mean of the eigenvalues of Sigma_1^-1 Sigma_2.

    Examples
    --------
    >>> import numpy as np
    >>> none = np.zeros((0, 2))
    >>> shape_difference(Covariance(np.array([1.0, 2.0]), none), Covariance(np.array([3.0, 6.0]), none))
    0.0
    """
    return 0.5 * math.log(max(first.mean_ratio(second) * second.mean_ratio(first), 1.0))


class _Pair:
    """Two components, and the mean of their covariances."""

    def __init__(self, first: Component, second: Component) -> None:
        self._first, self._second = first, second
        self._loadings = np.concatenate([first.loadings, second.loadings])
        self._mean = Covariance((first.uniquenesses + second.uniquenesses) / 2, self._loadings / math.sqrt(2))
        self._difference = second.mean - first.mean
        self._direction = self._mean.solve(self._difference)
        self._squared = max(float(self._difference @ self._direction), 0.0)

    @property
    def has_same_centre(self) -> bool:
        return self._squared < _SAME_CENTRE**2

    def distance(self, first: Covariance, second: Covariance) -> float:
        """Return the Bhattacharyya distance, given the covariances of the two, in nats."""
        own = (first.log_determinant + second.log_determinant) / 2
        return self._squared / 8 + (self._mean.log_determinant - own) / 2

    def ridgeline(self) -> FloatArray:
        """Return points on the ridgeline from one mean to the other, (_POINTS, d).

        They are mu_1 + (1 - a) Sigma_1 S^-1 (mu_2 - mu_1), S = (1 - a) Sigma_1 + a Sigma_2, with a from 1 to 0. These
        are spaced by the variances of both along the way, so that points do not crowd near one end.
        """
        first, second = self._first, self._second
        along_first, along_second = (_variance(c, self._direction) for c in (first, second))
        ratio = along_second / along_first if along_first > 0 else 1.0
        u = np.linspace(1.0, 0.0, _POINTS)[1:-1]
        a = (u / (u + (1 - u) * ratio))[:, None]
        # S is a factor analyser, too: S^-1 by Woodbury's formula, for all points at once.
        noise = (1 - a) * first.uniquenesses + a * second.uniquenesses
        p = len(first.loadings)
        loadings = self._loadings * np.where(np.arange(len(self._loadings)) < p, (1 - a) ** 0.5, a**0.5)[:, :, None]
        weighted = loadings / noise[:, None]
        inner = np.eye(loadings.shape[1]) + weighted @ loadings.transpose(0, 2, 1)
        scores = np.linalg.solve(inner, (weighted @ self._difference)[:, :, None])[:, :, 0]
        solved = (self._difference - np.einsum("aq,aqd->ad", scores, loadings)) / noise
        moved = solved * first.uniquenesses + (solved @ first.loadings.T) @ first.loadings
        return np.concatenate([first.mean[None], first.mean + (1 - a) * moved, second.mean[None]])


def _variance(component: Component, direction: FloatArray) -> float:
    """Return the variance of a component along a direction (d,)."""
    along = component.loadings @ direction
    return float(component.uniquenesses @ direction**2 + along @ along)
