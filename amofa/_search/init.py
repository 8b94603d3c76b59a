"""Starts that the caller gives: a model, or labels of rows, in the coordinates of the search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.dataframes import check_same_names
from amofa._data.deduplicate import merge_repeats
from amofa._data.labels import label_array
from amofa._data.row_chunks import Samples
from amofa._data.standardize import Coordinates
from amofa._em.profile_likelihood import Problem, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._model.gaussian_mixture import is_gaussian_mixture
from amofa._parameters import Component, Parameters
from amofa._search.paper_moves import first_mixture
from amofa._typing import FloatArray
from amofa.mixture import MixtureOfFactorAnalyzers

# The label that means no label.
UNLABELLED = -1
# Without a prior, the variance of a group is computed as if it had this many more rows, with the variance of all rows:
# a group of one or two rows would have none of its own.
_EXTRA_ROWS = 1.0


# ---- checks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelledRows:
    """Rows of a table with labels."""

    table: NDArray[Any]
    weights: FloatArray | None  # None means 1
    labels: NDArray[np.intp]  # from 0 without gaps; -1 without a label or without weight

    def groups(self, coordinates: Coordinates) -> Iterator[Samples]:
        """Yield the rows of each label that have cells, in the coordinates of a search.

        Raises ValueError if there are none.
        """
        found = False
        for label in range(self.labels.max() + 1):
            rows = np.flatnonzero(self.labels == label)
            weights = None if self.weights is None else self.weights[rows]
            samples = coordinates.samples(*merge_repeats(self.table[rows], weights), None)
            if samples.n_rows:
                found = True
                yield samples
        if not found:
            raise ValueError("init labels no row with a value in a column that varies; give such a row a label")


def check_init(
    init: Any, table: NDArray[Any], names: tuple[str, ...] | None, weights: FloatArray | None
) -> MixtureOfFactorAnalyzers | LabelledRows | None:
    """Check the start of a search, if one is given: a mixture of the columns of a table, or a label for each row.

    Raises TypeError if it is neither a mixture nor whole numbers or names, and ValueError if a mixture has other
    columns, or if labels do not match the rows, are below -1, or are all -1.
    """
    init = check_init_model(init, table.shape[1], names)
    if init is None or isinstance(init, MixtureOfFactorAnalyzers):
        return init
    labels = _check_labels(init, len(table))
    labels = np.where(True if weights is None else weights > 0, labels, UNLABELLED)
    if (labels == UNLABELLED).all():
        raise ValueError("init labels no row that counts; give at least one row a label of 0 or more, or a name")
    numbers = np.unique(labels, return_inverse=True)[1]
    return LabelledRows(table, weights, numbers - int((labels == UNLABELLED).any()))


def check_init_model(init: Any, n_features: int, names: tuple[str, ...] | None) -> Any:
    """Check that a mixture to start from has the columns of a table, and return it; return anything else as it is."""
    if is_gaussian_mixture(init):
        init = MixtureOfFactorAnalyzers.from_sklearn(init)
    if isinstance(init, MixtureOfFactorAnalyzers):
        if init.n_features != n_features:
            raise ValueError(f"init is a model of {init.n_features} columns, but X has {n_features}")
        check_same_names(names, init.feature_names)
    return init


def _check_labels(init: ArrayLike, n: int) -> NDArray[Any]:
    """Return the label of each row as a number, -1 for none; names are numbered in their order."""
    if np.ndim(init) == 0:
        raise _no_labels(type(init).__name__)
    array, lacking = label_array(init, n, "init")
    given = array[~lacking]
    labels = np.full(n, UNLABELLED)
    if given.dtype == object and all(isinstance(label, str) for label in given):
        given = given.astype(str)
    if given.dtype.kind in "US":
        labels[~lacking] = np.unique(given, return_inverse=True)[1]
        return labels
    labels[~lacking] = _whole_numbers(given)
    if labels.min() < UNLABELLED:
        i = int(np.argmax(labels < UNLABELLED))
        raise ValueError(f"init has the label {labels[i]} in row {i} (from 0); labels are 0 or more, or -1 for none")
    return labels


def _whole_numbers(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels that are whole numbers as such, whatever their type."""
    for label in labels.tolist():
        if isinstance(label, bool) or not isinstance(label, Real):
            raise _no_labels(type(label).__name__)
        if not float(label).is_integer():
            raise _no_labels(f"{label:g}")
    return labels.astype(np.int64)


def _no_labels(got: str) -> TypeError:
    return TypeError(f"init must be a mixture, or whole numbers or names, one label for each row, got {got}")


# ---- a model ---------------------------------------------------------------------------------------------------------


def parameters_of_model(
    model: MixtureOfFactorAnalyzers, coordinates: Coordinates, floor: FloatArray, most_factors: int | None
) -> Parameters:
    """Express a model in the coordinates of a search, without components of weight 0.

    The smallest uniquenesses, floor (c,), are in these coordinates. If a component has more than `most_factors`, its
    smallest factors become noise. Raises ValueError if the scale of the model is entirely different.
    """
    most = model.n_features if most_factors is None else most_factors
    with np.errstate(over="ignore"):
        expressed = coordinates.express(model._parameters)
    # Degrees of freedom may be infinite.
    if not all(np.isfinite(values).all() for values in (expressed.means, expressed.uniquenesses, expressed.loadings)):
        raise ValueError("init is a model of another scale than X; fit or make it in the units of X")
    kept = [_with_most_factors(component, most) for component in expressed.components() if component.weight > 0]
    parameters = Parameters.from_components(kept)
    np.maximum(parameters.uniquenesses, floor, out=parameters.uniquenesses)
    return parameters


def _with_most_factors(component: Component, most: int) -> Component:
    """Keep the factors that stand out most from the noise, up to the given number; the others become noise."""
    loadings, noise = component.loadings, component.uniquenesses
    if len(loadings) <= most:
        return component
    _, values, axes = np.linalg.svd(loadings / np.sqrt(noise), full_matrices=False)
    kept = values[:most, None] * axes[:most] * np.sqrt(noise)
    left = (loadings**2).sum(axis=0) - (kept**2).sum(axis=0)
    return component._replace(loadings=kept, uniquenesses=noise + np.maximum(left, 0.0))


# ---- labels ----------------------------------------------------------------------------------------------------------


def analysers_of_groups(groups: Iterable[Samples], problem: Problem, *, wide: bool) -> Parameters:
    """Fit a component to each group with the prior, and choose its number of factors; `wide` avoids (d, d) arrays."""
    d = len(problem.prior.floor)
    solver = None if wide else Solver(d)
    noise = np.full(d, max(1.0, float(problem.prior.floor.max())))
    plain = Parameters.of_one_component(noise, problem.degrees_of_freedom)
    components = []
    for group in groups:
        fit = profile_em(group, plain, problem, solver, problem.max_iter, choose_at=(0,))
        components.append(fit.parameters.component(0)._replace(weight=group.total_weight))
    return Parameters.from_components(components)


def moments_of_groups(groups: Iterable[Samples], n_factors: int, floor: FloatArray) -> Parameters:
    """Make a component from each group, as the search of the paper makes its first one from all rows."""
    components = []
    for group in groups:
        first, count = first_mixture(group, n_factors, floor).component(0), group.total_weight
        variances = (count * first.uniquenesses + _EXTRA_ROWS) / (count + _EXTRA_ROWS)
        components.append(first._replace(weight=count, uniquenesses=variances))
    return Parameters.from_components(components)
