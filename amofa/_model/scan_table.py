"""The result of a scan: the cheapest model of each number of components and kind of noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._model.text import aligned, counted, html_table

if TYPE_CHECKING:
    from amofa.mixture import MixtureOfFactorAnalyzers


class ScanRow(NamedTuple):
    """A row of an `amofa.Scan`.

    Attributes
    ----------
    n_components : int
    noise : str
        How the uniquenesses are tied.
    cost : float
        The criterion that the fits minimised, nats; lower is better.
    bic, icl : float
        What ``model.bic(X)`` and ``model.icl(X)`` return for the rows that were scanned; lower is better.
    model : MixtureOfFactorAnalyzers
    """

    n_components: int
    noise: str
    cost: float
    bic: float
    icl: float
    model: MixtureOfFactorAnalyzers


@dataclass(frozen=True, repr=False)
class Scan:
    """The result of `amofa.scan`: iterating gives an `amofa.scanning.ScanRow` for each noise and number of components.

    Attributes
    ----------
    rows : tuple of ScanRow
        For each kind of noise by rising numbers of components.
    criterion : str
        Name of the criterion that the fits minimised.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> scan = amofa.scan(X, [1, 2], noise="component")
    >>> [(row.n_components, row.cost == scan.best.cost) for row in scan]
    [(1, False), (2, True)]
    >>> print(scan)  # doctest: +ELLIPSIS
    scan of 2 models by evidence (costs in nats; * is the cheapest)
    n_components      noise       cost      BIC      ICL
    ...
    """

    rows: tuple[ScanRow, ...]
    criterion: str

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ScanRow]:
        return iter(self.rows)

    @property
    def best(self) -> MixtureOfFactorAnalyzers:
        """The cheapest model."""
        return self._cheapest.model

    @property
    def _cheapest(self) -> ScanRow:
        return min(self.rows, key=lambda row: row.cost)

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name, for ``pandas.DataFrame`` or ``polars.DataFrame``.

        Returns
        -------
        dict of str to (number of rows,) ndarray
            The fields of `amofa.scanning.ScanRow`: numbers are int64 and float64, and models are objects.

        Examples
        --------
        >>> import numpy as np
        >>> import amofa
        >>> scan = amofa.scan(np.random.default_rng(0).normal(size=(50, 2)), [1, 2], noise="shared")
        >>> scan.to_dict()["n_components"]
        array([1, 2])
        """
        kinds = {"n_components": np.int64, "cost": np.float64, "bic": np.float64, "icl": np.float64}
        return {
            name: np.array([getattr(row, name) for row in self.rows], dtype=kinds.get(name, object))
            for name in ScanRow._fields
        }

    def __repr__(self) -> str:
        return f"{self._heading()}\n{aligned(self._table())}"

    def _repr_html_(self) -> str:
        bold = next(i for i, row in enumerate(self.rows) if row is self._cheapest)
        return f"<div>{html_table(self._table(), self._heading(), bold)}</div>"

    def _heading(self) -> str:
        return f"scan of {counted(len(self), 'model')} by {self.criterion} (costs in nats; * is the cheapest)"

    def _table(self) -> list[list[str]]:
        cheapest = self._cheapest
        table = [["n_components", "noise", "cost", "BIC", "ICL"]]
        for row in self.rows:
            mark = "* " if row is cheapest else ""
            values = f"{mark}{row.cost:.2f}", f"{row.bic:.2f}", f"{row.icl:.2f}"
            table.append([str(row.n_components), row.noise, *values])
        return table
