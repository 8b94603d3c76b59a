"""The parameters of a mixture in one buffer, as the kernels take them, with named views."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._background import Background
from amofa._kernels import _mixture, _statistics
from amofa._typing import FloatArray


class Component(NamedTuple):
    """One factor analyser of a mixture: Sigma = loadings' loadings + diag(uniquenesses)."""

    weight: float
    mean: FloatArray  # (d,)
    loadings: FloatArray  # (p, d), one row per factor
    uniquenesses: FloatArray  # (d,) variances
    degrees_of_freedom: float = np.inf  # of a t density with this scale matrix; infinite for a normal one


class Parameters:
    """Weights, means, loadings and uniquenesses of all components.

    Parameters
    ----------
    n_features : int
    n_factors : sequence of int
        Number of factors of each component; its length is the number of components.

    Attributes
    ----------
    buffer : (2 K + 2 K d + P d,) float64
        All values, P factors in all. The other arrays are views of it.
    offsets : (K + 1,) intp
        Component k has the rows ``offsets[k]:offsets[k + 1]`` of `loadings`.
    weights, degrees_of_freedom, means, uniquenesses, loadings : (K,), (K,), (K, d), (K, d), (P, d) float64
        Loadings have one row per factor. Degrees of freedom of normal components are infinite.
    background : Background or None
        What is there beside the components, whose weights sum to 1 all the same.
    """

    __slots__ = (
        "background",
        "buffer",
        "degrees_of_freedom",
        "loadings",
        "means",
        "n_factors",
        "n_features",
        "offsets",
        "uniquenesses",
        "weights",
    )

    def __init__(self, n_features: int, n_factors: Sequence[int]) -> None:
        self.n_features = n_features
        self.background: Background | None = None
        self.n_factors = tuple(n_factors)
        K, d = len(self.n_factors), n_features
        offsets = [0, *accumulate(self.n_factors)]
        means, uniquenesses, loadings = 2 * K, 2 * K + K * d, 2 * K + 2 * K * d
        self.offsets = np.array(offsets, dtype=np.intp)
        self.buffer = np.zeros(loadings + offsets[-1] * d)
        self.weights, self.degrees_of_freedom = self.buffer[:K], self.buffer[K:means]
        self.degrees_of_freedom[:] = np.inf
        self.means = self.buffer[means:uniquenesses].reshape(K, d)
        self.uniquenesses = self.buffer[uniquenesses:loadings].reshape(K, d)
        self.loadings = self.buffer[loadings:].reshape(offsets[-1], d)

    @classmethod
    def from_components(cls, components: Sequence[Component], background: Background | None = None) -> Parameters:
        """Put components together and normalise their weights."""
        parameters = cls(len(components[0].mean), [len(c.loadings) for c in components])
        for k, c in enumerate(components):
            parameters.weights[k] = c.weight
            parameters.degrees_of_freedom[k] = c.degrees_of_freedom
            parameters.means[k] = c.mean
            parameters.uniquenesses[k] = c.uniquenesses
            parameters.loadings[parameters.offsets[k] : parameters.offsets[k + 1]] = c.loadings
        parameters.weights /= parameters.weights.sum()
        parameters.background = background
        return parameters

    @classmethod
    def of_one_component(cls, uniquenesses: FloatArray, degrees_of_freedom: float = np.inf) -> Parameters:
        """Return one component at the origin, without factors."""
        d = len(uniquenesses)
        return cls.from_components([Component(1.0, np.zeros(d), np.zeros((0, d)), uniquenesses, degrees_of_freedom)])

    @property
    def n_components(self) -> int:
        return len(self.n_factors)

    @property
    def n_tail_parameters(self) -> int:
        """Number of free degrees of freedom: none if all are infinite, one if all are the same, else K."""
        degrees = self.degrees_of_freedom
        if np.isinf(degrees).all():
            return 0
        return 1 if (degrees == degrees[0]).all() else len(degrees)

    @property
    def background_weight(self) -> float:
        """Weight of the background; 0 without one."""
        return 0.0 if self.background is None else self.background.weight

    def component_loadings(self, k: int) -> FloatArray:
        """Return the loadings of component k as a view, (p_k, d)."""
        return self.loadings[self.offsets[k] : self.offsets[k + 1]]

    def component(self, k: int) -> Component:
        """Return component k as views."""
        return Component(
            float(self.weights[k]),
            self.means[k],
            self.component_loadings(k),
            self.uniquenesses[k],
            float(self.degrees_of_freedom[k]),
        )

    def components(self) -> list[Component]:
        """Return all components as views."""
        return [self.component(k) for k in range(self.n_components)]

    def copy(self) -> Parameters:
        twin = Parameters(self.n_features, self.n_factors)
        twin.buffer[:] = self.buffer
        twin.background = self.background
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.n_features, self.n_factors, self.buffer, self.background)

    def with_background(self, background: Background | None) -> Parameters:
        """Return the same components beside another background, or none."""
        twin = self.copy()
        twin.background = background
        return twin

    def of_columns(self, columns: NDArray[np.intp]) -> Parameters:
        """Return the components of some columns, in the given order, without a background."""
        kept = Parameters(len(columns), self.n_factors)
        kept.weights[:] = self.weights
        kept.degrees_of_freedom[:] = self.degrees_of_freedom
        for name in ("means", "uniquenesses", "loadings"):
            np.take(getattr(self, name), columns, axis=1, out=getattr(kept, name))
        return kept

    def with_tails(self, degrees_of_freedom: float | FloatArray) -> Parameters:
        """Return the same mixture with other degrees of freedom, of all components or (K,)."""
        twin = self.copy()
        twin.degrees_of_freedom[:] = degrees_of_freedom
        return twin

    def without(self, k: int) -> Parameters:
        """Return the mixture without component k, whose weight is shared among the others in proportion."""
        return self.from_components([c for j, c in enumerate(self.components()) if j != k], self.background)


def _restored(
    n_features: int, n_factors: Sequence[int], values: FloatArray, background: Background | None
) -> Parameters:
    """Return pickled parameters, with their arrays as views of one buffer again."""
    parameters = Parameters(n_features, n_factors)
    parameters.buffer[:] = values
    parameters.background = background
    return parameters


class Evaluator:
    """Parameters prepared for the E-step, with scratch memory; not to be shared between threads."""

    __slots__ = ("parameters", "prepared", "work")

    def __init__(self, parameters: Parameters) -> None:
        _, prepared, work = _mixture.buffer_lengths(parameters.offsets, parameters.n_features)
        self.parameters = parameters
        self.prepared = np.empty(prepared)
        self.work = np.empty(work)
        _mixture.prepare(parameters.buffer, parameters.offsets, parameters.n_features, self.prepared)

    def twin(self) -> Evaluator:
        """Return one for another thread: the same prepared parameters, with its own scratch memory."""
        twin = Evaluator.__new__(Evaluator)
        twin.parameters, twin.prepared, twin.work = self.parameters, self.prepared, np.empty_like(self.work)
        return twin

    @property
    def largest_form(self) -> int:
        """How distances are computed where most digits are at stake: see `amofa._kernels._mixture`."""
        K = self.parameters.n_components
        return int(self.prepared[3 * K : 4 * K].max())

    def spreads(self, log_joint: FloatArray) -> FloatArray | None:
        """Return (nu + m) / (nu + d), (K, n), from the log joint densities (K, n); None if all components are normal.

        m are squared Mahalanobis distances. It is 1 for normal components, and for those of weight 0, whose log joint
        densities say nothing.
        """
        degrees = self.parameters.degrees_of_freedom
        if np.isinf(degrees).all():
            return None
        spreads, K = np.ones(log_joint.shape), len(degrees)
        for k in np.flatnonzero(np.isfinite(degrees) & (self.parameters.weights > 0)):
            shape = degrees[k] + self.parameters.n_features
            # Infinite for rows that are infinitely far away.
            with np.errstate(over="ignore"):
                spreads[k] = np.exp((self.prepared[2 * K + k] - log_joint[k]) * (2 / shape)) * (degrees[k] / shape)
        return spreads

    def sums(self, *, full: bool = False) -> FloatArray:
        """Return zeros for `accumulate` to add to; arrays of two sets of rows merge by adding them."""
        parameters = self.parameters
        return np.zeros(_statistics.sums_size(parameters.offsets, parameters.n_features, full))

    def accumulate(
        self,
        x: FloatArray,
        row_weights: FloatArray | None,
        sums: FloatArray,
        *,
        full: bool = False,
        with_entropy: bool = True,
    ) -> None:
        """Add the sufficient statistics of the rows x, (d, n), to sums: see `amofa._kernels._statistics.accumulate`."""
        _statistics.accumulate(
            x, row_weights, self.parameters.offsets, self.prepared, sums, self.work, full, with_entropy
        )
