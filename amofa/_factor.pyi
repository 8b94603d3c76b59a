import numpy as np
from numpy.typing import NDArray

def maximize_size(offsets: NDArray[np.intp], n_features: int) -> int: ...
def maximize(
    statistics: NDArray[np.float64],
    offsets: NDArray[np.intp],
    prepared: NDArray[np.float64],
    floor: NDArray[np.float64],
    parameters: NDArray[np.float64],
    work: NDArray[np.float64],
) -> None: ...
