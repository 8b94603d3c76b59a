import numpy as np
from numpy.typing import NDArray

WOODBURY_FORM: int
RESIDUAL_FORM: int

def buffer_lengths(offsets: NDArray[np.intp], n_features: int) -> tuple[int, int, int]: ...
def prepare(
    parameters: NDArray[np.float64],
    offsets: NDArray[np.intp],
    n_features: int,
    prepared: NDArray[np.float64],
) -> None: ...
