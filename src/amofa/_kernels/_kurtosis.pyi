import numpy as np
from numpy.typing import NDArray

def accumulate_kurtosis(
    x: NDArray[np.float64],
    row_weights: NDArray[np.float64] | None,
    offsets: NDArray[np.intp],
    prepared: NDArray[np.float64],
    soft_counts: NDArray[np.float64],
    fourth: NDArray[np.float64],
    work: NDArray[np.float64],
) -> None: ...
