"""`inspect`: columns that a mixture of normal distributions describes badly, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import check_incomplete_table
from amofa._data.column_kinds import Kind, kind_of
from amofa._data.dataframes import column_names, named_columns, numbers_of
from amofa._data.deduplicate import merge_repeats
from amofa._data.labels import label_array
from amofa._data.skewness import best_origin, root_is_normal
from amofa._data.standardize import Standardized
from amofa._model.text import aligned, counted, html_table
from amofa._typing import FloatArray
from amofa.threads import single_blas_thread

# Two columns whose correlation is nearer to 1 or -1 than this are nearly copies.
_NEARLY_ONE = 1e-3
_TO_COMPARE = "leave it out, and compare it with the clusters afterwards"
# A spike at one end, this share of the range of all other values or more away from them, may be a code.
_FAR = 0.5
_REMEDIES = {
    Kind.TWO_VALUES: "leave it out, or fit the rows of each value by themselves",
    Kind.FEW_VALUES: _TO_COMPARE,
    Kind.INDEX: "leave it out",
    Kind.SPIKE: "leave it out, or look at the rows with this value by themselves",
    Kind.UNEVEN: "add random numbers from 0 to 1 to the counts first, or fit these",
}


class ColumnNote(NamedTuple):
    """What `amofa.inspect` says of a column.

    Attributes
    ----------
    column : int
        Its number, from 0.
    name : str
        Its name, or an empty text.
    n_missing : int
        Number of cells that are NaN.
    n_values : int
        Number of distinct values.
    mode_share : float
        Share of the rows that have the most frequent value.
    finding : str
        What is odd about it; empty for an ordinary column.
    remedy : str
        What to do about that; empty for an ordinary column.
    """

    column: int
    name: str
    n_missing: int
    n_values: int
    mode_share: float
    finding: str
    remedy: str


@dataclass(frozen=True, repr=False)
class Inspection:
    """The result of `amofa.inspect`: iterating gives an `amofa.inspection.ColumnNote` for each column.

    Printed, it shows those of odd columns.

    Attributes
    ----------
    notes : tuple of ColumnNote
    n_rows : int

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> inspection = amofa.inspect(np.column_stack([np.arange(50), np.ones(50)]))
    >>> [(note.column, note.finding) for note in inspection]
    [(0, 'row numbers, or other equal steps'), (1, 'constant: 1')]
    """

    notes: tuple[ColumnNote, ...]
    n_rows: int

    def __len__(self) -> int:
        return len(self.notes)

    def __iter__(self) -> Iterator[ColumnNote]:
        return iter(self.notes)

    @property
    def odd(self) -> tuple[ColumnNote, ...]:
        """Those of columns with a finding."""
        return tuple(note for note in self.notes if note.finding)

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return the fields of the notes by name, for ``pandas.DataFrame`` or ``polars.DataFrame``.

        Returns
        -------
        dict of str to (number of columns,) ndarray

        Examples
        --------
        >>> import numpy as np
        >>> import amofa
        >>> amofa.inspect(np.eye(50)[:, :2]).to_dict()["n_values"]
        array([2, 2])
        """
        return {name: np.array([getattr(note, name) for note in self.notes]) for name in ColumnNote._fields}

    def __repr__(self) -> str:
        return self._heading() + (f"\n{aligned(self._table(), left=(0, 1, 2))}" if self.odd else "")

    def _repr_html_(self) -> str:
        return f"<div>{html_table(self._table(), self._heading())}</div>"

    def _heading(self) -> str:
        missing = sum(note.n_missing for note in self.notes)
        of = counted(len(self), "column")
        what = "nothing odd" if not self.odd else f"{len(self.odd)} odd"
        found = f"{of}: {what}" + (f"; {counted(missing, 'missing cell')}" if missing else "")
        if self.n_rows < len(self):
            found += f"; with {counted(self.n_rows, 'row')} only, fit the first principal components, too"
        return found

    def _table(self) -> list[list[str]]:
        rows = [[note.name or str(note.column), note.finding, note.remedy] for note in self.odd]
        return [["column", "finding", "remedy"], *rows]


def inspect(X: ArrayLike) -> Inspection:
    """Look for columns that a mixture of normal distributions describes badly, and say what to do about them.

    These are constants, copies, and columns that follow from others; two values, few values, row numbers, one value
    that is much more frequent than others, logarithms of small counts, and strong skewness. `amofa.fit` warns of the
    same, except for what nearly is a copy. Columns of text or dates, which it refuses, are found in a frame.

    Parameters
    ----------
    X : (n, d) array-like
        Real numbers; NaN marks a missing cell. A frame of pandas, polars or pyarrow may have other columns, too.

    Returns
    -------
    Inspection
        A table with a row for each column. It does not depend on units, origins, or the order of rows.

    Raises
    ------
    TypeError, ValueError
        If X is not a table, or none of its columns holds numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> size, sex = rng.normal(170, 8, 500), rng.integers(0, 2, 500)
    >>> income = rng.lognormal(8, 1, 500)
    >>> amofa.inspect(np.column_stack([size, sex, income]))
    3 columns: 2 odd
    column  finding              remedy
    1       two values: 0, 1     leave it out, or fit the rows of each value by themselves
    2       skewed to the right  take its logarithm
    """
    names = column_names(X)
    columns = [(name, column, numbers_of(column)) for name, column in named_columns(X)]
    numbers = [values for _, _, values in columns if values is not None]
    if not numbers or len(numbers) == len(columns):
        return inspect_checked(check_incomplete_table(X)[0], names)
    table, _ = check_incomplete_table(np.stack(numbers, axis=1))
    of_numbers = iter(inspect_checked(table, [name for name, _, values in columns if values is not None]))
    return Inspection(
        tuple(
            _note_without_numbers(column, j, name) if values is None else next(of_numbers)._replace(column=j)
            for j, (name, column, values) in enumerate(columns)
        ),
        len(table),
    )


def inspect_checked(table: NDArray[Any], names: Sequence[str] | None) -> Inspection:
    """Look at the columns of a checked table, which may have missing cells."""
    related = _related(table, names)
    return Inspection(
        tuple(_note(table[:, j], j, "" if names is None else names[j], related.get(j)) for j in range(table.shape[1])),
        len(table),
    )


def _note_without_numbers(column: Any, j: int, name: str) -> ColumnNote:
    """Return the note of a column of a frame that holds text, dates or the like."""
    labels, lacking = label_array(column, len(column))
    values, counts = np.unique(labels[~lacking].astype(str), return_counts=True)
    n_known = int(counts.sum())
    if n_known == 0:
        return ColumnNote(j, name, len(labels), 0, 0.0, "empty", "leave it out")
    finding = f"no numbers: {values[counts.argmax()]:.20}" + (", ..." if len(values) > 1 else "")
    share = float(counts.max()) / n_known
    return ColumnNote(j, name, len(labels) - n_known, len(values), share, finding, _TO_COMPARE)


def _note(cells: NDArray[Any], j: int, name: str, related: str | None) -> ColumnNote:
    column = cells.astype(np.float64)
    known = column[~np.isnan(column)]
    values, counts = np.unique(known, return_counts=True)
    share = float(counts.max() / len(known)) if len(known) else 0.0
    finding, remedy = _finding(values, counts.astype(np.float64), share)
    if related is not None:
        finding, remedy = related, "leave it out"
    return ColumnNote(j, name, len(column) - len(known), len(values), share, finding, remedy)


def _finding(values: FloatArray, counts: FloatArray, share: float) -> tuple[str, str]:
    """Return what is odd about a column, and what to do about it."""
    if len(values) == 0:
        return "empty", "leave it out"
    if len(values) == 1:
        return f"constant: {values[0]:g}", "leave it out; it changes nothing"
    kind = kind_of(values, counts)
    if kind is None:
        return "", ""
    if kind in (Kind.TWO_VALUES, Kind.FEW_VALUES):
        return f"{kind.value}: {', '.join(f'{value:g}' for value in values)}", _REMEDIES[kind]
    if kind is Kind.SPIKE:
        spike = int(counts.argmax())
        remedy = "set it to NaN where it marks missing cells" if _is_far(values, spike) else _REMEDIES[kind]
        return f"spike: {share:.0%} of the rows at {values[spike]:g}", remedy
    if kind is Kind.INDEX:
        return "row numbers, or other equal steps", _REMEDIES[kind]
    if kind is Kind.UNEVEN:
        return "unequal steps, as logarithms or roots of small counts", _REMEDIES[kind]
    return _skewness(values, counts)


def _is_far(values: FloatArray, spike: int) -> bool:
    """Return whether this value is far below or above all others, as codes such as -999 are."""
    others = np.delete(values, spike)
    gap = max(others[0] - values[spike], values[spike] - others[-1])
    return bool(gap >= _FAR * (others[-1] - others[0]))


def _skewness(values: FloatArray, counts: FloatArray) -> tuple[str, str]:
    """Return to which side a column is skewed, and the transformation that suits its values."""
    median = values[np.searchsorted(np.cumsum(counts), counts.sum() / 2)]
    if values[-1] - median < median - values[0]:
        limit, as_root = best_origin(-values[::-1], counts[::-1])
        return "skewed to the left", _of_distances(f"{-limit:g} - x", as_root)
    if values[0] < 0:
        limit, as_root = best_origin(values, counts)
        return "skewed to the right", _of_distances(f"x + {-limit:g}", as_root)
    if (values == np.rint(values)).all():
        are_small = kind_of(np.log1p(values), counts) is Kind.UNEVEN
        first = "add random numbers from 0 to 1, then " if are_small else ""
        return "counts, skewed to the right", f"{first}take log(1 + x), or its square root"
    if values[0] == 0:
        return "skewed to the right", "take its cube root, or log(1 + x) in suitable units"
    return "skewed to the right", f"take its {'cube root' if root_is_normal(values, counts) else 'logarithm'}"


def _of_distances(distance: str, as_root: bool) -> str:
    return f"take the cube root of {distance}" if as_root else f"take log({distance})"


def _related(table: NDArray[Any], names: Sequence[str] | None) -> dict[int, str]:
    """Return what is to be said of columns that follow from others, or nearly are copies, by number."""
    complete = table[~np.isnan(table).any(axis=1)] if table.dtype.kind == "f" else table
    n, d = complete.shape
    if n < max(2, d):
        return {}
    with single_blas_thread():
        distinct = merge_repeats(complete, None)
        rows = Standardized.of(*distinct, by_body=True).without_redundant_columns()
        found = {j: f"follows from {_listed(others, names)}" for j, others in rows.coordinates.redundant}
        columns = rows.coordinates.columns
        values = np.concatenate([x for x, _ in rows.samples.chunks()], axis=1)
        correlations = np.atleast_2d(np.corrcoef(values)) if len(columns) else np.zeros((0, 0))
    near = np.abs(np.tril(correlations, -1)) > 1 - _NEARLY_ONE
    for b in np.flatnonzero(near.any(axis=1)):
        found[int(columns[b])] = f"nearly a copy of {_listed([int(columns[near[b].argmax()])], names)}"
    return found


def _listed(columns: list[int], names: Sequence[str] | None) -> str:
    return ", ".join(str(j if names is None else names[j]) for j in columns[:5]) + (", ..." if len(columns) > 5 else "")
