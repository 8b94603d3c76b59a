"""Noise: how the uniquenesses of a mixture are tied."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Noise(StrEnum):
    """A family of uniquenesses."""

    COMPONENT = "component"  # each component has its own
    SHARED = "shared"  # all components have the same
    ISOTROPIC = "isotropic"  # each component has one for all columns

    @property
    def code(self) -> int:
        """Number of the family in the compiled core."""
        return _CODES[self]

    @property
    def is_shared(self) -> bool:
        return self is Noise.SHARED

    @property
    def is_isotropic(self) -> bool:
        return self is Noise.ISOTROPIC

    def n_free(self, n_features: int) -> int:
        """Return the number of free uniquenesses in one set: of a component, or of all if they are shared."""
        return 1 if self.is_isotropic else n_features

    def n_sets(self, n_components: int) -> int:
        """Return the number of sets of uniquenesses in a mixture."""
        return 1 if self.is_shared else n_components

    def tied(self, uniquenesses: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        """Tie (K, d) uniquenesses: shared ones become their geometric mean, isotropic ones the mean over columns."""
        if self.is_shared:
            return np.broadcast_to(np.exp(weights @ np.log(uniquenesses)), uniquenesses.shape)
        if self.is_isotropic:
            return np.broadcast_to(uniquenesses.mean(axis=1, keepdims=True), uniquenesses.shape)
        return uniquenesses


_CODES = {noise: code for code, noise in enumerate(Noise)}
