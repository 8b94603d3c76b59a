import numpy as np
from numpy.typing import NDArray

def sums_size(offsets: NDArray[np.intp], n_features: int, full: bool = False) -> int: ...
def accumulate(
    x: NDArray[np.float64],
    row_weights: NDArray[np.float64] | None,
    offsets: NDArray[np.intp],
    prepared: NDArray[np.float64],
    sums: NDArray[np.float64],
    work: NDArray[np.float64],
    full: bool = False,
    with_entropy: bool = True,
) -> None: ...
