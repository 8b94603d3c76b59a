"""Models for other compiled code: the argument of the functions in amofa/cython_amofa.pxd."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from amofa._parameters import Parameters
from amofa._typing import FloatArray
from amofa.cython_amofa import prepared_mixture


@dataclass(frozen=True, eq=False)
class CythonHandle:
    """A mixture prepared for C-level functions, in memory that lives as long as this object.

    It never changes, so any number of threads may use it at once. The memory layout may differ between builds, so it
    cannot be pickled; the model can.

    Attributes
    ----------
    mixture : (size,) float64
        The argument ``mixture`` of the functions. It cannot be made writeable. A ``const double[::1]`` memoryview of
        it keeps it alive.
    n_components, n_features : int
    n_factors : tuple of int
        Factors of each component.
    """

    mixture: FloatArray = field(repr=False)
    n_components: int
    n_features: int
    n_factors: tuple[int, ...]

    @classmethod
    def of(cls, parameters: Parameters) -> CythonHandle:
        """Prepare a copy of the parameters."""
        mixture = prepared_mixture(parameters.buffer, parameters.offsets, parameters.n_features)
        return cls(
            np.frombuffer(mixture.data.toreadonly()),
            parameters.n_components,
            parameters.n_features,
            parameters.n_factors,
        )

    @property
    def address(self) -> int:
        """The address of `mixture`, for foreign function interfaces; this object must outlive its use."""
        return self.mixture.ctypes.data

    def __reduce__(self) -> str:
        raise TypeError("a CythonHandle cannot be pickled or copied; pickle the model, and ask that for a handle")
