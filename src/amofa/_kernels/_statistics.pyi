import numpy as np
from numpy.typing import NDArray

def statistics_size(offsets: NDArray[np.intp], n_features: int) -> int: ...
def accumulate(
    x: NDArray[np.float64],
    row_weights: NDArray[np.float64] | None,
    offsets: NDArray[np.intp],
    prepared: NDArray[np.float64],
    statistics: NDArray[np.float64],
    work: NDArray[np.float64],
    with_entropy: bool = True,
) -> None: ...
def accumulate_scatter(
    x: NDArray[np.float64],
    row_weights: NDArray[np.float64] | None,
    offsets: NDArray[np.intp],
    prepared: NDArray[np.float64],
    soft_counts: NDArray[np.float64],
    first: NDArray[np.float64],
    scatter: NDArray[np.float64],
    work: NDArray[np.float64],
) -> None: ...
