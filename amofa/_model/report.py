"""The report of a mixture: a row for each component or cluster, with its columns in their own units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._data.frame_output import make_frame
from amofa._model.tails import variance_ratio
from amofa._model.text import aligned, counted, html_table, number_text, with_deviation
from amofa._parameters import Parameters
from amofa._typing import FloatArray

# Rows of a table are read in blocks of about this number of values.
_BLOCK_VALUES = 1 << 20
# Differences and deviations that are a smaller share of the means are rounding.
_ROUNDING = 1e-13
# Columns that the text of a report names for a group and for a factor, and the smallest difference and correlation
# after the first.
_APART, _LEAST_DIFFERENCE, _LEADING, _LEAST_CORRELATION = 4, 0.2, 3, 0.3
_APART_HEADING = "set apart from the rest by: mean (difference in standard deviations)"
# Rows of the text's tables of columns and of factors, and groups side by side in the former.
_SHOWN_COLUMNS, _SHOWN_FACTORS, _SIDE_BY_SIDE = 30, 30, 6
_OF_FACTORS = "factors, and the columns that correlate most with them"


class Factor(NamedTuple):
    """A factor of a `Report`.

    Attributes
    ----------
    component, factor : int
        Numbers from 0.
    share : float
        Part of the variance of the component that the factor explains, averaged over columns.
    correlations : (d,) float64
        Correlations of the columns with the factor within the component.
    """

    component: int
    factor: int
    share: float
    correlations: FloatArray


@dataclass(frozen=True, repr=False)
class Report:
    """What each component or cluster of a mixture is: `MixtureOfFactorAnalyzers.report` makes it.

    Printing it shows tables, and so does a notebook.

    Attributes
    ----------
    kind : {"component", "cluster"}
        What the G groups are.
    feature_names : tuple of d str
    members : tuple of G (number of components,) intp
        The components of each group.
    weights : (G,) float64
        Their mixing weights.
    rows : (G,) float64 or None
        How many rows belong to each group, or the sum of their weights; None for a report without rows.
    means, deviations : (G, d) float64
        Mean and standard deviation of each column in each group, in the column's own units; NaN without values.
    differences : (G, d) float64
        Standardised differences: the mean of the group minus that of all other groups together, divided by the root of
        the mean of both variances. 0 if there is one group.
    factors : tuple of G tuples
        The factors of the components of each group. Each one is a named tuple of the numbers ``component`` and
        ``factor``, of ``share``, the part of the component's variance that it explains, averaged over columns, and of
        ``correlations`` (d,) of the columns with it, within the component.
    background_weight : float
        Share of the rows that the mixture gives to a background, beside the groups; 0 without one.
    background_rows : float or None
        How many of the rows belong to it, which count for no group; None for a report without rows.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal([170, 65], [7, 9], (200, 2)), rng.normal([110, 20], [5, 3], (100, 2))])
    >>> model = amofa.fit(X)
    >>> report = model.report(X)
    >>> report.rows, report.means.round(1)
    (array([200., 100.]), array([[169.3,  65.2],
           [109.7,  20.2]]))
    >>> name, difference = report.apart(0)[0]  # the column that sets component 0 apart most, and by how much
    >>> name, round(difference, 2)
    ('x0', 9.77)
    """

    kind: str
    feature_names: tuple[str, ...]
    members: tuple[NDArray[np.intp], ...]
    weights: FloatArray
    rows: FloatArray | None
    means: FloatArray
    deviations: FloatArray
    differences: FloatArray
    factors: tuple[tuple[Factor, ...], ...]
    background_weight: float = 0.0
    background_rows: float | None = None

    def __len__(self) -> int:
        return len(self.weights)

    def apart(self, group: int, n_columns: int | None = None) -> list[tuple[str, float]]:
        """Return the columns that set a component or cluster apart from the rest, the largest difference first.

        Parameters
        ----------
        group : int
            From 0 to G - 1.
        n_columns : int, optional
            How many columns; by default all that differ.

        Returns
        -------
        list of (str, float)
            Names of columns and their standardised differences, positive if the group has larger values. A difference
            of 0.2 is small, one of 0.8 large; at 2 the groups hardly overlap.

        Examples
        --------
        >>> import amofa
        >>> means, loadings = [[0.0, 5.0], [4.0, 5.0]], [np.zeros((2, 0))] * 2
        >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], means, loadings, np.ones((2, 2)), ["a", "b"])
        >>> model.report().apart(1)
        [('a', 4.0)]
        """
        return [(self.feature_names[j], float(self.differences[group, j])) for j in self._ranked(group)[:n_columns]]

    def _ranked(self, group: int) -> list[int]:
        """Return the columns that differ, the largest standardised difference first."""
        sizes = np.abs(np.nan_to_num(self.differences[group], posinf=np.inf, neginf=-np.inf))
        return [int(j) for j in np.argsort(-sizes, kind="stable") if sizes[j] > 0]

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return a table with a row for each component or cluster, as its columns by name.

        Returns
        -------
        dict of str to (G,) ndarray
            The number of the component or cluster; "rows", "weight" and "factors"; for clusters, "components"; for each
            column of the table "mean NAME", "sd NAME" and "difference NAME"; and "apart" and "leading", the texts about
            what sets the group apart, and about its factors.

        Examples
        --------
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [4.0]], [np.zeros((1, 0))] * 2, np.ones((2, 1)))
        >>> table = model.report().to_dict()
        >>> list(table)
        ['component', 'weight', 'factors', 'apart', 'leading', 'mean x0', 'sd x0', 'difference x0']
        >>> table["mean x0"]
        array([0., 4.])
        """
        table: dict[str, NDArray[Any]] = {self.kind: np.arange(len(self))}
        if self.rows is not None:
            table["rows"] = self.rows
        table["weight"] = self.weights
        if self.kind == "cluster":
            table["components"] = _texts(" ".join(map(str, members)) for members in self.members)
        table["factors"] = np.array([len(of_one) for of_one in self.factors])
        table["apart"] = _texts(self._apart_text(g) for g in range(len(self)))
        table["leading"] = _texts("; ".join(map(self._leading_text, of_one)) for of_one in self.factors)
        for j, name in enumerate(self.feature_names):
            table[f"mean {name}"] = self.means[:, j]
            table[f"sd {name}"] = self.deviations[:, j]
            table[f"difference {name}"] = self.differences[:, j]
        return table

    def to_frame(self, library: str | None = None) -> Any:
        """Return the table of `to_dict` as a frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            By default the one that is installed; pandas if both are.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame

        Raises
        ------
        ImportError
            If the library is not installed.
        ValueError
            If it is another one.

        Examples
        --------
        >>> import amofa
        >>> model = amofa.MixtureOfFactorAnalyzers([1.0], [[2.0]], [np.zeros((1, 0))], [[9.0]], ["size"])
        >>> model.report().to_frame()[["mean size", "sd size"]]  # doctest: +SKIP
           mean size  sd size
        0        2.0      3.0
        """
        return make_frame(self.to_dict(), library)

    # -- text --

    def __repr__(self) -> str:
        groups, factors = self._groups_table(), self._factors_table()
        parts = [self._heading(), aligned(groups, left=(len(groups[0]) - 1,))]
        parts += [f"{title}\n{aligned(table, left=(0,))}" for title, table in self._columns_tables()]
        if len(factors) > 1:
            parts.append(f"{_OF_FACTORS}\n{aligned(factors, left=(3,))}")
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p>{self._heading()}</p>", html_table(self._groups_table())]
        parts += [html_table(table, title) for title, table in self._columns_tables()]
        factors = self._factors_table()
        if len(factors) > 1:
            parts.append(html_table(factors, _OF_FACTORS))
        return f"<div>{''.join(parts)}</div>"

    def _heading(self) -> str:
        rows = "" if self.rows is None else f" of {self.rows.sum():.10g} rows"
        heading = f"{counted(len(self), self.kind)}{rows} in {counted(len(self.feature_names), 'column')}"
        if self.background_weight == 0:
            return heading
        of_rows = "" if self.background_rows is None else f"{self.background_rows:.10g} rows, "
        return f"{heading}, beside a background of {of_rows}weight {self.background_weight:.4f}"

    def _groups_table(self) -> list[list[str]]:
        header = [self.kind, *["rows"] * (self.rows is not None), "weight", "factors", _APART_HEADING]
        table = [header]
        for g, weight in enumerate(self.weights):
            rows = [] if self.rows is None else [f"{self.rows[g]:.10g}"]
            table.append([str(g), *rows, f"{weight:.4f}", str(len(self.factors[g])), self._apart_text(g)])
        return table

    def _apart_text(self, group: int) -> str:
        ranked, means, differences = self._ranked(group), self.means[group], self.differences[group]
        shown = [j for j in ranked[:_APART] if j == ranked[0] or abs(differences[j]) >= _LEAST_DIFFERENCE]
        return ", ".join(f"{self.feature_names[j]} {number_text(means[j])} ({differences[j]:+.1f})" for j in shown)

    def _columns_tables(
        self, most_columns: int = _SHOWN_COLUMNS, most_groups: int | None = None
    ) -> list[tuple[str, list[list[str]]]]:
        """Return tables of mean and deviation, columns against groups, some groups at a time, each with a title.

        Of more columns than fit, those that differ most are shown; of more groups, the first.
        """
        d, n_groups = len(self.feature_names), len(self)
        columns, title = list(range(d)), "mean ± standard deviation"
        if d > most_columns:
            largest = np.abs(np.nan_to_num(self.differences, posinf=np.inf, neginf=-np.inf)).max(axis=0)
            columns = sorted(np.argsort(-largest, kind="stable")[:most_columns].tolist())
            if largest.any():
                title += f" of the {most_columns} of {d} columns that differ most"
            else:  # there is one group
                title += f" of the first {most_columns} of {d} columns"
        shown = n_groups if most_groups is None else min(n_groups, most_groups)
        title += f", of each {self.kind}" if shown == n_groups else f", of the first {shown} of {n_groups} {self.kind}s"
        tables = []
        for start in range(0, shown, _SIDE_BY_SIDE):
            groups = range(start, min(start + _SIDE_BY_SIDE, shown))
            rows = [["column", *map(str, groups)]]
            for j in columns:
                cells = [with_deviation(self.means[g, j], self.deviations[g, j]) for g in groups]
                rows.append([self.feature_names[j], *cells])
            tables.append((title, rows))
            title = "the same, of others"
        return tables

    def _factors_table(self) -> list[list[str]]:
        table = [["component", "factor", "of its variance", "columns"]]
        factors = [factor for of_one in self.factors for factor in of_one]
        for factor in factors[:_SHOWN_FACTORS]:
            leading = self._leading_columns(factor)
            table.append([str(factor.component), str(factor.factor), f"{factor.share:.0%}", leading])
        if len(factors) > _SHOWN_FACTORS:
            table.append(["...", "", "", f"and {len(factors) - _SHOWN_FACTORS} more factors"])
        return table

    def _leading_text(self, factor: Factor) -> str:
        return f"{factor.component}.{factor.factor}: {self._leading_columns(factor)}"

    def _leading_columns(self, factor: Factor) -> str:
        order = np.argsort(-np.abs(factor.correlations), kind="stable")[:_LEADING]
        shown = [j for j in order if j == order[0] or abs(factor.correlations[j]) >= _LEAST_CORRELATION]
        return ", ".join(f"{self.feature_names[j]} {factor.correlations[j]:+.2f}" for j in shown)


def _texts(texts: Any) -> NDArray[Any]:
    return np.array(list(texts), dtype=object)


# ---- where the numbers come from -------------------------------------------------------------------------------------


class Groups(NamedTuple):
    """Groups of components with weights that sum to 1."""

    kind: str  # "component" or "cluster"
    of_component: NDArray[np.intp]  # the group of each component, (K,)
    weights: FloatArray  # (G,)

    @property
    def members(self) -> tuple[NDArray[np.intp], ...]:
        """The components of each group."""
        return tuple(np.flatnonzero(self.of_component == g) for g in range(len(self.weights)))


class Moments(NamedTuple):
    """Weights, means and variances of the columns of groups."""

    counts: FloatArray  # (G, d)
    means: FloatArray  # (G, d)
    variances: FloatArray  # (G, d)


def report_of_model(
    parameters: Parameters, feature_names: tuple[str, ...] | None, groups: Groups | None = None
) -> Report:
    """Return the report of a mixture without rows: of its components, or of groups of them."""
    if groups is None:
        groups = Groups("component", np.arange(parameters.n_components), parameters.weights)
    return make_report(parameters, groups, feature_names, moments_of_model(parameters, groups), None)


def make_report(
    parameters: Parameters,
    groups: Groups,
    feature_names: tuple[str, ...] | None,
    moments: Moments,
    rows: FloatArray | None,
    background_rows: float | None = None,
) -> Report:
    """Return the report of groups with the moments of their rows, or with those of the mixture."""
    members = groups.members
    return Report(
        groups.kind,
        feature_names or tuple(f"x{j}" for j in range(parameters.n_features)),
        members,
        groups.weights,
        rows,
        moments.means,
        np.sqrt(moments.variances),
        standardized_differences(moments),
        tuple(tuple(factor for k in of_one for factor in _factors(parameters, int(k))) for of_one in members),
        parameters.background_weight,
        background_rows,
    )


def component_deviations(parameters: Parameters) -> FloatArray:
    """Return the standard deviations of the columns in each component, (K, d)."""
    # Relative to the uniqueness, so that squares near the ends of the range do not overflow.
    with np.errstate(under="ignore"):
        deviations = [
            np.sqrt(c.uniquenesses) * np.sqrt(1 + ((c.loadings / np.sqrt(c.uniquenesses)) ** 2).sum(axis=0))
            for c in parameters.components()
        ]
    return np.stack(deviations) * np.sqrt(variance_ratio(parameters.degrees_of_freedom))[:, None]


def moments_of_model(parameters: Parameters, groups: Groups) -> Moments:
    """Return the moments that a mixture gives to its groups."""
    weights = np.repeat(parameters.weights[:, None], parameters.n_features, axis=1)
    with np.errstate(over="ignore", under="ignore"):
        variances = component_deviations(parameters) ** 2
    of_components = Moments(weights, parameters.means, variances)
    joined = [_together(Moments(*(values[k] for values in of_components))) for k in groups.members]
    return Moments(*map(np.stack, zip(*joined, strict=True)))


def moments_of_rows(
    table: NDArray[Any], labels: NDArray[np.intp], weights: FloatArray | None, centres: FloatArray
) -> tuple[Moments, FloatArray]:
    """Return the moments of the rows of each group, and the weights of the groups' rows, (G,); NaN is missing.

    Rows with the label -1 count for none. `centres` (G, d) are near the means, so that squares do not cancel.
    """
    n_groups, d = centres.shape
    totals = np.zeros(n_groups)
    counts, sums, squares = np.zeros((3, n_groups, d))
    step = max(1, _BLOCK_VALUES // d)
    for start in range(0, len(table), step):
        block, numbers = table[start : start + step], labels[start : start + step]
        own = np.ones(len(block)) if weights is None else weights[start : start + step]
        for g in np.unique(numbers[numbers >= 0]):
            rows = np.flatnonzero(numbers == g)
            values, heavy = block[rows].astype(np.float64) - centres[g], own[rows]
            present = ~np.isnan(values)
            values[~present] = 0.0
            totals[g] += heavy.sum()
            counts[g] += heavy @ present
            sums[g] += heavy @ values
            squares[g] += heavy @ values**2
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / counts
        variances = np.maximum(squares / counts - means**2, 0.0)
    return Moments(counts, centres + means, variances), totals


def _together(moments: Moments) -> Moments:
    """Return the moments of several groups as one, each (d,); NaN where none of them has a value."""
    counts = moments.counts.sum(axis=0)
    is_there = moments.counts > 0
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        shares = np.where(is_there, moments.counts / counts, 0.0)
        means = np.where(counts > 0, (shares * np.where(is_there, moments.means, 0.0)).sum(axis=0), np.nan)
        spread = np.where(is_there, moments.variances + (moments.means - means) ** 2, 0.0)
    return Moments(counts, means, np.where(counts > 0, (shares * spread).sum(axis=0), np.nan))


def standardized_differences(moments: Moments) -> FloatArray:
    """Return the differences of the means of each group and of the rest, in standard deviations, (G, d)."""
    n_groups = len(moments.means)
    if n_groups == 1:
        return np.zeros_like(moments.means)
    differences = np.empty_like(moments.means)
    for g in range(n_groups):
        rest = _together(Moments(*(np.delete(values, g, axis=0) for values in moments)))
        # Without any variance, equal means do not differ, and others differ by infinitely many deviations.
        with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
            pooled = np.sqrt((moments.variances[g] + rest.variances) / 2)
            gap = moments.means[g] - rest.means
            rounding = _ROUNDING * np.maximum(np.abs(moments.means[g]), np.abs(rest.means))
            gap, pooled = (np.where(np.abs(each) <= rounding, 0.0, each) for each in (gap, pooled))
            differences[g] = np.where(gap == 0, 0.0, gap / pooled)
    return differences


def _factors(parameters: Parameters, k: int) -> Sequence[Factor]:
    with np.errstate(under="ignore"):
        scaled = parameters.component(k).loadings / np.sqrt(parameters.component(k).uniquenesses)
        correlations = scaled / np.sqrt(1 + (scaled**2).sum(axis=0))
    return [Factor(k, q, float((row**2).mean()), row) for q, row in enumerate(correlations)]
