import numpy as np
from numpy.typing import NDArray

def posterior(
    x: NDArray[np.float64],
    offsets: NDArray[np.intp],
    prepared: NDArray[np.float64],
    log_density: NDArray[np.float64],
    log_joint: NDArray[np.float64] | None,
    responsibilities: NDArray[np.float64] | None,
    scores: NDArray[np.float64] | None,
    work: NDArray[np.float64],
) -> None: ...
def add_background(
    background: NDArray[np.float64], weight: float, log_density: NDArray[np.float64], share: NDArray[np.float64]
) -> None: ...
