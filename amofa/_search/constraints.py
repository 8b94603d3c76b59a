"""The numbers of components and factors that a search must reach, keep or not exceed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from amofa._parameters import Parameters

# EM of the chosen model may take this many times max_iter.
REFINEMENT = 20
# If factors are added one at a time, a component gets a further one only while it has fewer than this share of the
# number of columns.
MOST_FACTORS_SHARE = 0.8
# A component that was asked for must have at least this share of the weight of an average row.
LEAST_SHARE_OF_A_ROW = 0.5


@dataclass(frozen=True)
class Constraints:
    """Given numbers and upper bounds; None means free."""

    n_components: int | None = None  # reached and kept
    n_factors: int | tuple[int, ...] | None = None  # kept: for every component, or one for each
    max_components: int | None = None
    max_factors: int | None = None

    @property
    def first_factors(self) -> int:
        """Number of factors of a new component."""
        if self.n_factors is None:
            return 1 if self.max_factors is None else min(1, self.max_factors)
        return self.n_factors if isinstance(self.n_factors, int) else min(self.n_factors)

    @property
    def most_factors(self) -> int | None:
        """Maximum number of factors of a component during the search; None without a bound."""
        return self.max_factors if self.n_factors is None else self.first_factors

    @property
    def most_components(self) -> int | None:
        """Maximum number of components; None without a bound."""
        return self.max_components if self.n_components is None else self.n_components

    def met_by(self, parameters: Parameters) -> bool:
        """Return whether a mixture has the given numbers of components and factors and keeps to the bounds."""
        K, given = parameters.n_components, self.n_factors
        wanted = (given,) * K if isinstance(given, int) else given
        fixed = self.n_components in (None, K) and wanted in (None, parameters.n_factors)
        most_components = K if self.max_components is None else self.max_components
        most_factors = math.inf if self.max_factors is None else self.max_factors
        return fixed and most_components >= K and most_factors >= max(parameters.n_factors)
