"""What a fit needs of all rows of a table, wherever they are: in memory, in blocks on disk, or on other machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from amofa._kernels._iteration import Iteration
from amofa._parameters import Parameters
from amofa._typing import FloatArray
from amofa.threads import Executor

if TYPE_CHECKING:
    from amofa._data.row_chunks import Near, PosteriorBlock, Samples

Result = TypeVar("Result")


class RowSource(Protocol):
    """Rows with weights, in some columns, shifted and scaled: `Samples` has them as an array, `BlockRows` in blocks.

    Each method that looks at all rows is one pass over them. Functions that it takes are called with some rows at a
    time, perhaps in another process, so they must not refer to the source.
    """

    @property
    def n_rows(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""

    @property
    def row_count(self) -> float:
        """Number of rows that the weights stand for."""

    @property
    def log_jacobian(self) -> float:
        """The log-likelihood of the table minus that of the scaled rows, in nats."""

    @property
    def column_weights(self) -> FloatArray:
        """The weights of the rows that have a cell in each column, (d,)."""

    @property
    def is_complete(self) -> bool:
        """Whether no cell is missing."""

    @property
    def is_wide(self) -> bool:
        """Whether there are fewer rows than columns."""

    @property
    def is_small(self) -> bool:
        """Whether the rows are kept, converted, from pass to pass."""

    @property
    def executor(self) -> Executor:
        """Who works on independent tasks of a search on these rows."""

    def thinned(self) -> Samples:
        """Return the rows or, if there are many, evenly spread ones with the weight of all, to hold in memory."""

    def first_chunk(self) -> FloatArray:
        """Return some rows, (d, m)."""

    def reduce(
        self,
        function: Callable[[FloatArray, FloatArray | None], Result],
        merge: Callable[[Result, Result], Result],
    ) -> Result:
        """Return what a function makes of chunks of rows (d, m) with their weights, merged in order."""

    def expect(self, iteration: Iteration, near: Near | None = None, parameters: Parameters | None = None) -> None:
        """Run the E-step of an EM iteration: its sums become those of these rows."""

    def sum_over_posterior(
        self, parameters: Parameters, function: Callable[[PosteriorBlock], FloatArray], *, with_spreads: bool = False
    ) -> FloatArray:
        """Return the sum of the results of a function for all blocks of the posterior."""

    def log_likelihood(self, parameters: Parameters) -> float:
        """Return the log-likelihood of a mixture in these coordinates, in nats."""

    # -- missing cells --

    def complete(self) -> RowSource:
        """Return the rows that lack no cells."""

    def shows(self, columns: NDArray[np.intp], other: int) -> bool:
        """Return whether each row that has a cell in the other column has cells in all of these."""

    def covariance_seen(self, expected: FloatArray, covariance: FloatArray) -> tuple[FloatArray, float]:
        """Return second moments (d, d) as the pairs of cells that are seen show them, and the share of these pairs."""

    def unseen_pairs(self) -> NDArray[Any]:
        """Return the pairs of columns that no row has cells in both of, (m, 2), of columns that have cells."""
