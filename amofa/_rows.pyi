import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

def load(
    table: NDArray[np.float64] | NDArray[np.float32],
    center: FloatArray,
    factor: FloatArray,
    out: FloatArray,
) -> None: ...
