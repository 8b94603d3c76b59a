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
    """Moments of the rows under a mixture."""

    counts: FloatArray  # soft counts, (K,)
    tail_counts: FloatArray  # (K,) those in which rows in the tails of t components count less
    means: FloatArray  # (K, d)
    spreads: Sequence[Spread]  # second moments about these means


@dataclass(frozen=True)
class Outcome:
    """A mixture that EM ended with, and the moments of the rows under it, if EM used them."""

    parameters: Parameters
    log_likelihood: float  # nats, for these parameters
    cost: float  # the criterion that is minimised, in nats
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
