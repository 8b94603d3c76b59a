import numpy as np
from numpy.typing import NDArray

def best_cut(
    z: NDArray[np.float64],
    counts: NDArray[np.float64],
    moments: NDArray[np.float64],
    start: int,
    stop: int,
    least_part: float,
) -> tuple[float, int]: ...
def moved_cuts(
    z: NDArray[np.float64],
    counts: NDArray[np.float64],
    moments: NDArray[np.float64],
    bounds: NDArray[np.intp],
    least_part: float,
    most_moves: int,
) -> None: ...
