import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

@disjoint_base
class Solver:
    def __new__(cls, n_features: int, n_matrices: int = 1, n_factors: int = -1, n_rows: int = -1) -> Solver: ...
    def solve(
        self,
        covariances: NDArray[np.float64],
        counts: NDArray[np.float64],
        offsets: NDArray[np.intp],
        floor: NDArray[np.float64],
        prior_count: float,
        prior_scale: NDArray[np.float64],
        uniquenesses: NDArray[np.float64],
        loadings: NDArray[np.float64],
        spectra: NDArray[np.float64],
        max_steps: int,
        tol: float,
        factors_alone: bool = False,
    ) -> float: ...
    def solve_panels(
        self,
        panels: NDArray[np.float64],
        row_offsets: NDArray[np.intp],
        counts: NDArray[np.float64],
        offsets: NDArray[np.intp],
        floor: NDArray[np.float64],
        prior_count: float,
        prior_scale: NDArray[np.float64],
        uniquenesses: NDArray[np.float64],
        loadings: NDArray[np.float64],
        spectra: NDArray[np.float64],
        max_steps: int,
        tol: float,
    ) -> float: ...
    def choose(
        self,
        moments: NDArray[np.float64],
        count: float,
        n_factors: int,
        prices: NDArray[np.float64],
        mean_price: float,
        least_mean_price: float,
        floor: NDArray[np.float64],
        prior_count: float,
        prior_scale: NDArray[np.float64],
        uniquenesses: NDArray[np.float64],
        loadings: NDArray[np.float64],
        max_steps: int,
        tol: float,
        patience: float,
        least_saving: float,
    ) -> tuple[float, int]: ...
    def choose_principal(
        self,
        moments: NDArray[np.float64],
        count: float,
        prices: NDArray[np.float64],
        mean_price: float,
        least_mean_price: float,
        floor: NDArray[np.float64],
        uniquenesses: NDArray[np.float64],
        loadings: NDArray[np.float64],
        n_rounds: int,
    ) -> tuple[float, int]: ...
