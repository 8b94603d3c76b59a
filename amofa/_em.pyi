import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

@disjoint_base
class Iteration:
    def __new__(
        cls,
        parameters: NDArray[np.float64],
        offsets: NDArray[np.intp],
        prepared: NDArray[np.float64],
        statistics: NDArray[np.float64],
        floor: NDArray[np.float64],
        scratch: NDArray[np.float64],
        work: NDArray[np.float64],
        with_entropy: bool = True,
    ) -> Iteration: ...
    @property
    def log_likelihood(self) -> float: ...
    @property
    def entropy(self) -> float: ...
    def clear(self) -> None: ...
    def accumulate(self, x: NDArray[np.float64], row_weights: NDArray[np.float64] | None) -> None: ...
    def maximize(self) -> None: ...
