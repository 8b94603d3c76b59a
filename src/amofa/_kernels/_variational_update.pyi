import numpy as np
from numpy.typing import NDArray

from amofa.baselines._variational import Posterior

def update(
    posterior: Posterior,
    counts: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
    floor: NDArray[np.float64],
    shape: float,
    rate: float,
    noise_step: float,
    shares_noise: bool,
    updated: Posterior,
) -> None: ...
