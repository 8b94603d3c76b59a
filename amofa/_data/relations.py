"""Columns that follow from others: exact or nearly exact linear relations among the columns of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._data.row_chunks import Samples
from amofa._data.row_source import RowSource
from amofa._parameters import Component
from amofa._typing import FloatArray

# A column follows from others if what they leave of it is at most this share of its squared width, or this larger share
# if rounding explains it: twice what rounding adds leaves room for chance.
_EXACT, _ROUNDED = 1e-8, 1e-4
_ROUNDING_VARIANCE = 2 / 12
# Fewer rows for each column may obey a relation by chance.
_LEAST_ROWS_PER_COLUMN = 2
# Relations are looked for among rows within this many units of the centres: farther ones would drown the others. All
# rows must obey.
_NEAR = 100.0
# Added to the correlation matrix, so that it has an inverse: above its rounding errors, and below what counts as exact.
_RIDGE = 1e-11
# Coefficients are refined this many times, since the first ones are those with the ridge.
_REFINEMENTS = 3
# Of columns that follow from each other equally well, within this share, the last one is left out.
_TIE = 1e-3
# Coefficients below this, in standard deviations, or below this many of their standard errors, are rounding errors.
_LEAST_COEFFICIENT, _LEAST_ERRORS = 1e-6, 6.0
# A column that takes more others to follow from than this stays: it would come back with a factor for each of them, and
# a model can exploit the relation with as many factors only.
_MOST_SOURCES = 16


class Relations(NamedTuple):
    """Columns of a table that follow from others: z_j = coefficients z_others + offset, in units of the columns."""

    columns: NDArray[np.intp]  # (r,), increasing
    others: NDArray[np.intp]  # (b,), increasing
    coefficients: FloatArray  # (r, b)
    offsets: FloatArray  # (r,)
    residuals: FloatArray  # variances of what is left, (r,)

    @property
    def sources(self) -> list[tuple[int, list[int]]]:
        """Each column that follows, with those that it follows from."""
        return [(int(j), self.others[a != 0].tolist()) for j, a in zip(self.columns, self.coefficients, strict=True)]

    def restore(self, component: Component, least: FloatArray) -> Component:
        """Return a component of the other columns with all columns, in the same units.

        The noise of a column that others follow from, but for the smallest uniqueness in `least`, (d,), becomes a
        factor that has loadings on those, too.
        """
        d, b = len(least), len(self.others)
        involved = self.coefficients.any(axis=0)
        unique = np.where(involved, np.minimum(component.uniquenesses, least[self.others]), component.uniquenesses)
        shared = np.sqrt(component.uniquenesses - unique)[involved, None] * np.eye(b)[involved]
        loadings, uniquenesses, mean = np.empty((len(component.loadings) + len(shared), d)), np.empty(d), np.empty(d)
        loadings[:, self.others] = np.vstack([component.loadings, shared])
        loadings[:, self.columns] = loadings[:, self.others] @ self.coefficients.T
        if len(loadings) > d:
            _, values, axes = np.linalg.svd(loadings, full_matrices=False)
            loadings = values[:, None] * axes
        uniquenesses[self.others] = unique
        uniquenesses[self.columns] = np.maximum(least[self.columns], self.residuals)
        mean[self.others] = component.mean
        mean[self.columns] = self.coefficients @ component.mean + self.offsets
        return component._replace(mean=mean, loadings=loadings, uniquenesses=uniquenesses)


def find_relations(samples: RowSource, widths: FloatArray, steps: FloatArray) -> Relations | None:
    """Find the columns that follow from others, or return None if there are none.

    Samples are in units of their columns. `widths`, (d,), at most 1, are those of narrow groups that count; `steps`,
    (d,), those of rounded columns. If cells are missing, complete rows tell. It takes a pass over rows in memory, and
    one over all if there are candidates.
    """
    d = samples.n_features
    complete = samples.complete()
    if d < 2 or complete.n_rows < _LEAST_ROWS_PER_COLUMN * d:
        return None
    means, deviations, correlations = _near_moments(complete.thinned())
    columns = _following(correlations, (widths / deviations) ** 2, (steps / deviations) ** 2)
    if not len(columns):
        return None
    others = np.setdiff1d(np.arange(d), columns)
    coefficients = _coefficients(correlations, columns, others, complete.n_rows)
    coefficients *= deviations[columns][:, None] / deviations[others]
    offsets = means[columns] - coefficients @ means[others]

    def squares(x: FloatArray, w: FloatArray | None) -> FloatArray:
        left = (x[columns] - coefficients @ x[others] - offsets[:, None]) ** 2
        total: FloatArray = left.sum(axis=1) if w is None else left @ w
        return total

    residuals = complete.reduce(squares, np.add) / complete.total_weight
    rounding = _ROUNDING_VARIANCE * (steps[columns] ** 2 + coefficients**2 @ steps[others] ** 2)
    obey = residuals <= _tolerance(widths[columns] ** 2, rounding)
    obey &= np.count_nonzero(coefficients, axis=1) <= _MOST_SOURCES
    # Where cells are missing, a column may show what the others lack.
    obey &= [samples.shows(others[a != 0], column) for column, a in zip(columns, coefficients, strict=True)]
    if not obey.any():
        return None
    # Columns that do not follow after all are among the others, with coefficients of 0.
    whole = np.zeros((len(columns), d))
    whole[:, others] = coefficients
    others = np.setdiff1d(np.arange(d), columns[obey])
    return Relations(columns[obey], others, whole[obey][:, others], offsets[obey], residuals[obey])


def _coefficients(
    correlations: FloatArray, columns: NDArray[np.intp], others: NDArray[np.intp], n_rows: int
) -> FloatArray:
    """Return the regression coefficients of columns on others, in standard deviations, (r, b); 0 for small ones."""
    within, common = correlations[np.ix_(others, others)], correlations[np.ix_(columns, others)]
    inverse = np.linalg.inv(_invertible(within))
    found = np.zeros_like(common)
    for _ in range(_REFINEMENTS):
        found += (common - found @ within) @ inverse
    left = np.maximum(1.0 - (found * common).sum(axis=1), 0.0)
    errors = np.sqrt(left[:, None] * np.diagonal(inverse) / n_rows)
    found[np.abs(found) < np.maximum(_LEAST_COEFFICIENT, _LEAST_ERRORS * errors)] = 0.0
    return found


def _near_moments(samples: Samples) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means (d,), standard deviations (d,) and correlations (d, d) of the rows that are near the centres.

    Columns that are constant there correlate with nothing.
    """
    d = samples.n_features
    count, sums, squares = 0.0, np.zeros(d), np.zeros((d, d))
    for x, w in samples.chunks():
        near = (np.abs(x) <= _NEAR).all(axis=0)
        rows = x[:, near]
        weighted = rows if w is None else rows * w[near]
        count += float(near.sum() if w is None else w[near].sum())
        sums += weighted.sum(axis=1)
        squares += weighted @ rows.T
    means = sums / max(count, 1.0)
    covariances = squares / max(count, 1.0) - np.outer(means, means)
    variances = np.diagonal(covariances)
    varies = variances > _RIDGE
    deviations = np.sqrt(np.where(varies, variances, 1.0))
    correlations = np.where(np.outer(varies, varies), covariances / np.outer(deviations, deviations), 0.0)
    np.fill_diagonal(correlations, 1.0)
    return means, deviations, correlations


def _following(correlations: FloatArray, widths: FloatArray, steps: FloatArray) -> NDArray[np.intp]:
    """Return the columns to leave out, sorted, from squared widths and steps in units of variances.

    The column that is left out is the one that the others explain best: of a sum, the sum. That does not depend on the
    order of the columns, unless several are equal.
    """
    left = np.arange(len(correlations))
    # The inverse of the correlations of the columns that are left has what the others leave of a column, and its
    # coefficients on them.
    inverse = np.linalg.inv(_invertible(correlations))
    while len(left) > 1:
        precisions = np.diagonal(inverse)
        rounding = _ROUNDING_VARIANCE * (inverse / precisions[:, None]) ** 2 @ steps[left]
        follows = 1.0 / precisions <= _tolerance(widths[left], rounding)
        if not follows.any():
            break
        best = precisions[follows].max()
        j = int(np.flatnonzero(follows & (precisions >= best * (1 - _TIE)))[-1])
        kept = np.delete(np.arange(len(left)), j)
        inverse = (inverse - np.outer(inverse[:, j], inverse[j] / inverse[j, j]))[np.ix_(kept, kept)]
        left = left[kept]
    return np.setdiff1d(np.arange(len(correlations)), left)


def _invertible(correlations: FloatArray) -> FloatArray:
    return correlations + _RIDGE * np.eye(len(correlations))


def _tolerance(widths: FloatArray, rounding: FloatArray) -> FloatArray:
    """Return the variances that may be left of columns, from their squared widths and what rounding adds."""
    tolerance: FloatArray = np.maximum(_EXACT * widths, np.minimum(_ROUNDED * widths, rounding))
    return tolerance
