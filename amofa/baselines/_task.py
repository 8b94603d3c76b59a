"""What the baselines share: the table that they fit, standardized, and the way from what they found to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._data.standardize import Standardized, floor_variances
from amofa._em.outcome import Outcome
from amofa._model.finalize import in_canonical_order, make_report, with_canonical_factors
from amofa._typing import FloatArray
from amofa.criterion import Penalty
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.warnings import warn_of_constant_columns, warn_of_no_convergence


@dataclass(frozen=True)
class BaselineTask:
    """A table for a baseline."""

    rows: Standardized[Samples]
    floor: FloatArray  # smallest uniqueness of each column, (d,), in its own units

    @classmethod
    def of(
        cls,
        table: NDArray[Any],
        weights: FloatArray | None,
        noise_floor: float | FloatArray,
        *,
        one_scale: bool = False,
        one_floor: bool = False,
    ) -> Self:
        """Standardize a table that is checked by `check_rows` and `check_noise_floor`, and warn of constant columns.

        With `one_scale` all columns have the same unit; with `one_floor` the largest of the smallest uniquenesses is
        that of all columns.
        """
        rows = Standardized.of(table, weights, one_scale=one_scale)
        warn_of_constant_columns(rows.coordinates.constant)
        floor = floor_variances(noise_floor, None, rows.coordinates)
        return cls(rows, np.full_like(floor, floor.max()) if one_floor else floor)

    @property
    def samples(self) -> Samples:
        """Return the rows in standardized columns, without constant ones."""
        return self.rows.samples

    @property
    def standardized_floor(self) -> FloatArray:
        """Return the smallest uniquenesses of the columns of `samples`."""
        return self.rows.coordinates.shares(self.floor)

    def model(
        self,
        found: Outcome,
        history: Sequence[Step],
        *,
        criterion: str,
        n_parameters: int,
        iterations: str | None = None,
        in_order: bool = False,
        floor: FloatArray | None = None,
        penalty: Penalty | None = None,
    ) -> MixtureOfFactorAnalyzers:
        """Return the model of an outcome in standardized columns, and warn if EM did not converge.

        `iterations` tells how many there could have been at most, in terms of the arguments; there is no warning
        without it. `in_order` keeps the components in their order. The floor for the report is by default that of the
        task; for the other arguments see `make_report`.
        """
        parameters = self.rows.coordinates.restore(found.parameters, self.floor)
        parameters = with_canonical_factors(parameters if in_order else in_canonical_order(parameters))
        if iterations is not None:
            warn_of_no_convergence(found.converged, iterations)
        report = make_report(
            self.rows.whole,
            parameters,
            self.floor if floor is None else floor,
            criterion=criterion,
            n_parameters=n_parameters,
            cost=found.cost,
            converged=found.converged,
            history=history,
            penalty=penalty,
            constant=self.rows.coordinates.constant,
        )
        return MixtureOfFactorAnalyzers._from_fit(parameters, report)
