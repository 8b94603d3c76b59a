import numpy as np
from numpy.typing import NDArray

def buffer_lengths(offsets: NDArray[np.intp], n_features: int) -> tuple[int, int, int]: ...
def prepare(
    parameters: NDArray[np.float64],
    offsets: NDArray[np.intp],
    n_features: int,
    prepared: NDArray[np.float64],
) -> None: ...
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
