import numpy as np
from numpy.typing import NDArray

from amofa._kernels._iteration import Iteration

def iteration_work_length(iteration: Iteration, n_rows: int) -> int: ...
def work_length(offsets: NDArray[np.intp], n_features: int, n_rows: int) -> int: ...
def accumulate(
    iteration: Iteration,
    x: NDArray[np.float64],
    row_weights: NDArray[np.float64] | None,
    patterns: NDArray[np.intp],
    sums: NDArray[np.float64],
    work: NDArray[np.float64],
) -> None: ...
def posterior(
    x: NDArray[np.float64],
    patterns: NDArray[np.intp],
    offsets: NDArray[np.intp],
    prepared: NDArray[np.float64],
    log_density: NDArray[np.float64],
    responsibilities: NDArray[np.float64],
    scores: NDArray[np.float64] | None,
    spreads: NDArray[np.float64] | None,
    work: NDArray[np.float64],
) -> None: ...
