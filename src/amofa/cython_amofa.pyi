import numpy as np
from numpy.typing import NDArray

def prepared_mixture(
    parameters: NDArray[np.float64], offsets: NDArray[np.intp], n_features: int
) -> NDArray[np.float64]: ...
