"""The outcome of a run of EM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from amofa._em.factor_analysis import Spread
from amofa._parameters import Parameters
from amofa._typing import FloatArray


@dataclass(frozen=True)
class RowMoments:
    """Moments of the rows under a mixture.

    Attributes
    ----------
    counts : (K,) float64
        Soft counts.
    means : (K, d) float64
    spreads : sequence of Spread
        Second moments about these means.
    """

    counts: FloatArray
    means: FloatArray
    spreads: Sequence[Spread]


@dataclass(frozen=True)
class Outcome:
    """A mixture that EM ended with.

    Attributes
    ----------
    parameters : Parameters
    log_likelihood, cost : float
        For these parameters, in nats; the cost is the criterion that is minimised.
    n_iter : int
    converged : bool
    moments : RowMoments, optional
        Moments of the rows under these parameters, if EM used them.
    """

    parameters: Parameters
    log_likelihood: float
    cost: float
    n_iter: int
    converged: bool
    moments: RowMoments | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_no_columns(cls, n_factors: int = 0) -> Self:
        """Return the mixture of rows that are all the same, which have no columns in the coordinates of the search."""
        parameters = Parameters(0, (n_factors,))
        parameters.weights[:] = 1.0
        return cls(parameters, math.nan, math.nan, n_iter=0, converged=True)

    @property
    def n_components(self) -> int:
        return self.parameters.n_components
