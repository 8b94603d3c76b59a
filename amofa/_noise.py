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
    SCALED = "scaled"  # each component has a multiple of the same ones
    COMMON_LOADINGS = "common_loadings"  # each component has its own, beside loadings that are those of all

    @property
    def code(self) -> int:
        """Number of the family in the compiled core, to which those with joint M-steps are separate uniquenesses."""
        return 0 if self.is_joint else _CODES[self]

    @property
    def is_joint(self) -> bool:
        """Whether the M-step of all components is a joint one, of `amofa._em.joint`."""
        return self in (Noise.SCALED, Noise.COMMON_LOADINGS)

    @property
    def is_scaled(self) -> bool:
        return self is Noise.SCALED

    @property
    def has_common_loadings(self) -> bool:
        return self is Noise.COMMON_LOADINGS

    @property
    def is_shared(self) -> bool:
        return self is Noise.SHARED

    @property
    def is_isotropic(self) -> bool:
        return self is Noise.ISOTROPIC

    def n_free(self, n_features: int) -> int:
        """Return the number of free uniquenesses in one set: of a component, or of all if they have one in common."""
        return 1 if self.is_isotropic else n_features

    def n_uniquenesses(self, n_features: int, n_components: int) -> int:
        """Return the number of free uniquenesses in a mixture, with the scales of components."""
        n_sets = 1 if self.is_shared or self.is_scaled else n_components
        return n_sets * self.n_free(n_features) + (n_components - 1 if self.is_scaled else 0)

    def tied(self, uniquenesses: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        """Tie (K, d) uniquenesses: shared ones become their geometric mean, isotropic ones the mean over columns.

        Scaled ones become the products of scales and a shape that are nearest in their logarithms.
        """
        if self.is_shared:
            return np.broadcast_to(np.exp(weights @ np.log(uniquenesses)), uniquenesses.shape)
        if self.is_isotropic:
            return np.broadcast_to(uniquenesses.mean(axis=1, keepdims=True), uniquenesses.shape)
        if self.is_scaled:
            shape, scales = log_shape_and_scales(uniquenesses)
            products: NDArray[Any] = np.exp(shape + scales[:, None])
            return products
        return uniquenesses


def log_shape_and_scales(uniquenesses: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the logarithms of a shape (d,) and of scales (K,), which sum to 0, that are nearest to uniquenesses."""
    logs = np.log(uniquenesses)
    shape = logs.mean(axis=0)
    scales = (logs - shape).mean(axis=1)
    return shape, scales - scales.mean()


_CODES = {noise: code for code, noise in enumerate(Noise)}
