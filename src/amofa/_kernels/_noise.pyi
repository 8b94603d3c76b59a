import numpy as np
from numpy.typing import NDArray

def prior_cost(uniquenesses: NDArray[np.float64], noise: int, count: float, scale: NDArray[np.float64]) -> float: ...
def maximize_isotropic(
    eigenvalues: NDArray[np.float64],
    n_factors: int,
    count: float,
    floor: NDArray[np.float64],
    prior_count: float,
    prior_scale: NDArray[np.float64],
) -> tuple[float, float, float]: ...
