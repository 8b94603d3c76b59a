import numpy as np
from numpy.typing import NDArray

def maximize_size(offsets: NDArray[np.intp], n_features: int) -> int: ...
