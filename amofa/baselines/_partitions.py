"""Random partitions of the rows as starts of EM: k-means++ seeds, and k-means from there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._parameters import Component, Parameters
from amofa._typing import FloatArray

Generator = np.random.Generator | np.random.RandomState


def draw_seeds(samples: Samples, number: int, rng: Generator) -> FloatArray:
    """Draw distinct rows, (K, d), each in proportion to its squared distance from the nearest one drawn before.

    There are fewer than `number` if there are not enough distinct rows.
    """
    weights = np.ones(samples.n_rows) if samples.weights is None else samples.weights
    seeds = [_row(samples, _draw(weights, rng))]
    nearest = _squared_distances(samples, seeds[0])
    while len(seeds) < number and nearest.any():
        seeds.append(_row(samples, _draw(weights * nearest, rng)))
        np.minimum(nearest, _squared_distances(samples, seeds[-1]), out=nearest)
    return np.array(seeds)


def _draw(weights: FloatArray, rng: Generator) -> int:
    cumulated = np.cumsum(weights / weights.max())
    return int(np.searchsorted(cumulated / cumulated[-1], rng.random(), side="right"))


def _row(samples: Samples, i: int) -> FloatArray:
    ((x, _),) = samples.subset(np.array([i])).chunks()
    return x[:, 0]


def _squared_distances(samples: Samples, point: FloatArray) -> FloatArray:
    return np.concatenate([((x - point[:, None]) ** 2).sum(axis=0) for x, _ in samples.chunks()])


def nearest_centers(samples: Samples, centers: FloatArray) -> NDArray[np.intp]:
    """Return the nearest center of every row, (n,) intp, by the responsibilities of unit spheres of equal weight."""
    d = centers.shape[1]
    return samples.labels(
        Parameters.from_components([Component(1.0, center, np.zeros((0, d)), np.ones(d)) for center in centers])
    )


def partition_moments(
    samples: Samples, labels: NDArray[np.intp], centers: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the counts (K,), means and variances, (K, d) each, of the parts given by labels.

    Moments are taken about the centers (K, d). A part without rows has its center as its mean, and variances of 0.
    """
    (K, d), start = centers.shape, 0
    counts, first, second = np.zeros(K), np.zeros((K, d)), np.zeros((K, d))
    for x, w in samples.chunks():
        part = labels[start : start + x.shape[1]]
        start += x.shape[1]
        belongs = np.equal.outer(np.arange(K), part).astype(np.float64)
        if w is not None:
            belongs *= w
        deviations = x.T - centers[part]
        counts += belongs.sum(axis=1)
        first += belongs @ deviations
        second += belongs @ deviations**2
    divisor = np.where(counts > 0.0, counts, 1.0)[:, None]
    first /= divisor
    return counts, centers + first, np.maximum(second / divisor - first**2, 0.0)


def k_means(samples: Samples, centers: FloatArray, max_iter: int) -> FloatArray:
    """Return the centers (K, d) after Lloyd's iterations, which end early if no row changes its part."""
    previous: NDArray[np.intp] | None = None
    for _ in range(max_iter):
        labels = nearest_centers(samples, centers)
        if previous is not None and np.array_equal(labels, previous):
            break
        previous = labels
        _, centers, _ = partition_moments(samples, labels, centers)
    return centers
