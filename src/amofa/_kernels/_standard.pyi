import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

from amofa._kernels._iteration import Iteration

@disjoint_base
class StandardIteration(Iteration):
    def __new__(
        cls,
        parameters: NDArray[np.float64],
        offsets: NDArray[np.intp],
        floor: NDArray[np.float64],
        with_entropy: bool = True,
    ) -> StandardIteration: ...
