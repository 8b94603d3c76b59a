import numpy as np
from numpy.typing import NDArray

def load(
    table: NDArray[np.float64] | NDArray[np.float32],
    center: NDArray[np.float64],
    factor: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
