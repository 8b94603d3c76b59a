import numpy as np
from numpy.typing import NDArray

from amofa.baselines._variational import Posterior

def effective_mixture(
    posterior: Posterior,
    means: NDArray[np.float64],
    loadings: NDArray[np.float64],
    log_factors: NDArray[np.float64],
) -> None: ...
def expected_log_densities(
    means: NDArray[np.float64],
    loadings: NDArray[np.float64],
    noise: NDArray[np.float64],
    row_means: NDArray[np.float64],
    covariances: NDArray[np.float64],
    result: NDArray[np.float64],
) -> None: ...
def component_divergences(
    posterior: Posterior,
    shape: float,
    mean_log: float,
    of_precision: float,
    prior_shape: float,
    prior_rate: float,
    result: NDArray[np.float64],
) -> None: ...
