from typing import Any

import numpy as np
from numpy.typing import NDArray

def load(
    table: NDArray[np.float64] | NDArray[np.float32],
    center: NDArray[np.float64],
    factor: NDArray[np.float64],
    out: NDArray[np.float64],
    guarded: bool = False,
) -> bool: ...
def copy(
    table: NDArray[Any],
    rows: NDArray[np.intp] | None,
    columns: NDArray[np.intp] | None,
    out: NDArray[np.int8],
) -> bool: ...
def forget_guards() -> None: ...
