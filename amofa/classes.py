"""Classification by a mixture of factor analysers for each class; classes borrow covariance from one another.

The aim is to predict classes, not to count clusters, so components and factors are chosen by AIC, which estimates how
well new rows are predicted. The density of a class is that of a single factor analyser, of a mixture, or a weighted
mean of both, which is a mixture, too. Every covariance is shrunk towards the mean covariance of the components of all
classes, as if a number of rows with that covariance had been seen: the posterior mean under a conjugate prior.
Cross-validation estimates this number and chooses among the three densities.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from amofa._data.checks import (
    check_noise_floor,
    check_not_negative,
    check_positive,
    check_table,
    check_weights,
    check_whole_number,
)
from amofa._data.dataframes import column_names
from amofa._data.deduplicate import merge_repeats
from amofa._data.npz import read_arrays, write_arrays
from amofa._data.row_chunks import Samples
from amofa._data.standardize import Coordinates, floor_variances, with_constant_columns
from amofa._model.files import CLASSES_FORMAT, model_from_arrays
from amofa._model.posterior import Rows
from amofa._search.monitor import FitInterrupted
from amofa._search.options import FitOptions
from amofa._typing import FloatArray
from amofa.fitting import fit_checked
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.pooling import ClassFit, HeldOut, Pooling, best_pooling, class_log_densities, class_models, poolings
from amofa.warnings import warn_caller, warn_of_constant_columns

# Smallest uniqueness as a share of a column's mean variance within classes. It matters more than in the fit of one
# table: a class that is narrow by coincidence would lose its new rows to others.
NOISE_FLOOR = 0.06
# The share is of less for a class that is narrower than this part of the mean variance, on average over the columns: so
# narrow, it would lose its own rows. In one column only, a class may well be narrow by coincidence.
_NARROW = 1 / 5
# More rows than this tell the variance of their class, and that of each of its columns without a value that is as
# frequent as this: it may be the only one by coincidence.
_FEW_ROWS, _FREQUENT = 10.0, 0.2
# The least share of the mean variance that is the scale of a class of so many equal rows; of more rows it is less.
_EQUAL = 1e-4
# From this number on, equal rows are not few rows of a wider class, which would borrow covariance.
_LEAST_EQUAL = 2.0
# Number of parts of every class that are held out in turn, and the maximum number of distinct rows of a class.
PARTS = 3
MOST_ROWS = 1000
# What a file of classes says of itself.
_VERSION = 1
# Shapes of a pooling in a file: without power, as it was first, and with it.
_POOLINGS = ((2,), (3,))
# Marks of rows, besides the numbers of parts: in no training set except the whole one, or in all of them.
_LEFT_OUT, _ALWAYS = -1, -2

Labels = NDArray[np.intp]
Mask = NDArray[np.bool_]
Split = tuple[ArrayLike, ArrayLike]


class ClassRows(NamedTuple):
    """The rows of a class, their weights, and the smallest uniqueness of each column."""

    X: NDArray[Any]
    weights: FloatArray | None
    floor: FloatArray


Apply = Callable[[Callable[[ClassRows], ClassFit], Iterable[ClassRows]], Iterable[ClassFit]]


@dataclass(frozen=True)
class ClassMixtures:
    """The result of `fit_classes`.

    Attributes
    ----------
    models : tuple of MixtureOfFactorAnalyzers
        The density of each class.
    log_priors : (C,) float64
        Log probabilities of the classes.
    pooling : Pooling
        How the models were made from the fits, and the power of their densities.
    fits : tuple of ClassFit
        The fits to the rows of each class alone; empty if it is from a file.
    names : tuple of str or None
        What the classes are called, if that was given to `save`.
    """

    models: tuple[MixtureOfFactorAnalyzers, ...]
    log_priors: FloatArray
    pooling: Pooling
    fits: tuple[ClassFit, ...]
    names: tuple[str, ...] | None = None

    def log_posteriors(self, X: ArrayLike) -> FloatArray:
        """Return the log probabilities of the classes for each row, in nats; they never underflow.

        They are proportional to the priors times the densities to the `power` of the pooling.

        Parameters
        ----------
        X : (n, d) array-like

        Returns
        -------
        (n, C) float64
            For a row so far away that every log density is minus infinity, the log priors.

        Raises
        ------
        TypeError, ValueError
            If X is not a finite real table of d columns.
        """
        return self._log_posteriors(self.models[0]._samples(X))

    def _log_posteriors(self, rows: Rows) -> FloatArray:
        relative = class_log_densities(self.models, rows)
        best = relative.max(axis=1, keepdims=True)
        relative -= np.where(best > -np.inf, best, 0.0)
        relative[best[:, 0] == -np.inf] = 0.0
        relative *= self.pooling.power
        relative += self.log_priors
        return np.asarray(relative - logsumexp(relative, axis=1, keepdims=True))

    def predict(self, X: ArrayLike) -> Labels:
        """Return the most probable class of every row, (n,) intp."""
        return np.asarray(self.log_posteriors(X).argmax(axis=1))

    def save(self, path: str | os.PathLike[str], names: Sequence[str] | None = None) -> None:
        """Write the models of the classes, and what the classes are called, to a file that `load_classes` reads.

        Parameters
        ----------
        path : str or PathLike
            Used as given: no suffix is added. An existing file is replaced when the new one is complete on disk.
        names : sequence of C str, optional

        Raises
        ------
        ValueError
            If there is not one name for each class.
        OSError
            If the file cannot be written; an existing file is then intact.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from amofa.classes import fit_classes, load_classes
        >>> classes = fit_classes(np.array([[0.0], [1.0], [8.0], [9.0]]), np.array([0, 0, 1, 1]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     classes.save(f"{folder}/classes.npz", names=["low", "high"])
        ...     again = load_classes(f"{folder}/classes.npz")
        >>> again.names, again.predict([[2.0], [7.0]])
        (('low', 'high'), array([0, 1]))
        """
        if names is not None and len(names) != len(self.models):
            raise ValueError(f"names has {len(names)} entries for {len(self.models)} classes; give one for each")
        arrays: dict[str, Any] = {
            "format": np.array(CLASSES_FORMAT),
            "version": np.array(_VERSION),
            "log_priors": self.log_priors,
            "pooling": np.array(self.pooling),
            "names": np.array(names or (), dtype="U"),
        }
        for c, model in enumerate(self.models):
            arrays |= {f"{c}/{name}": array for name, array in model._arrays().items()}
        write_arrays(path, arrays)


def load_classes(path: str | os.PathLike[str]) -> ClassMixtures:
    """Read the models of classes from a file that `ClassMixtures.save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : str or PathLike

    Returns
    -------
    ClassMixtures
        Without the fits to the rows of each class alone.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not such a file, or is damaged.

    Examples
    --------
    See `ClassMixtures.save`.
    """
    try:
        arrays = read_arrays(path)
        if str(arrays.pop("format", "")) != CLASSES_FORMAT or int(arrays.pop("version")) != _VERSION:
            raise ValueError("another format or version")
        log_priors, pooling, names = (arrays.pop(name) for name in ("log_priors", "pooling", "names"))
        models = [MixtureOfFactorAnalyzers._from_fit(*model_from_arrays(part)) for part in _of_classes(arrays)]
        if (
            log_priors.shape != (len(models),)
            or not np.isclose(logsumexp(log_priors), 0)
            or pooling.shape not in _POOLINGS
        ):
            raise ValueError("its priors are not those of its classes")
        if len(names) not in (0, len(models)) or len({model.n_features for model in models}) != 1:
            raise ValueError("its classes do not belong together")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} does not hold models of classes that amofa can read ({error})") from error
    called = tuple(map(str, names.tolist())) or None
    return ClassMixtures(tuple(models), log_priors, Pooling(*pooling.tolist()), (), called)


def _of_classes(arrays: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the arrays of the model of each class."""
    parts: dict[int, dict[str, Any]] = {}
    for name, array in arrays.items():
        c, _, of_model = name.partition("/")
        parts.setdefault(int(c), {})[of_model] = array
    for number in range(len(parts)):
        yield parts[number]


def fit_classes(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    priors: str | ArrayLike = "uniform",
    noise_floor: float | ArrayLike = NOISE_FLOOR,
    pooled_rows: float | None = None,
    single_weight: float | None = None,
    power: float | None = None,
    cv: int | Iterable[Split] = PARTS,
    apply: Apply = map,
    criterion: str = "aic",
    **options: Any,
) -> ClassMixtures:
    """Fit a mixture to the rows of each class 0, 1, ..., C - 1.

    Parameters
    ----------
    X : (n, d) array-like
        Finite real numbers. If it is a frame, the models keep the names of columns.
    y : (n,) array-like of int
        The class of each row. Every class needs a row with positive weight.
    sample_weight : (n,) array-like, optional
        How often each row counts; a row of weight 0 counts as absent.
    priors : {"uniform", "empirical"} or (C,) array-like, default "uniform"
        Prior probabilities of the classes: equal, their shares of the rows, or positive numbers that sum to 1.
    noise_floor : float or (d,) array-like, default 0.06
        Smallest uniqueness: a share of each column's mean variance within classes, or a variance for each column. It
        is a share of less in a class that is much narrower than the mean, and in a column of a class that is narrower
        and has no frequent value there.
    pooled_rows : float, optional
        Number of rows that the mean covariance of all components is worth; estimated if not given. Any value but 0
        forms (d, d) matrices, and gives each component of a model d more factors.
    single_weight : float, optional
        Weight, from 0 to 1, of a single factor analyser in the density of a class, beside the mixture. By default 0 if
        the number of components is given, and estimated otherwise.
    power : float, optional
        Power, above 0, of the densities from which the probabilities of classes are computed. Densities of many columns
        are overconfident, which less than 1 corrects. By default it is estimated with the two before, and 1 if both are
        given.
    cv : int or iterable of (train, test), default 3
        For the estimates. An int is the number of parts into which each class is divided, in the order of its rows,
        since neighbours may come from the same writer or speaker. Equal rows are in the same part, and of very large
        classes only some rows take part. Or pairs of the rows to train with and to hold out, as numbers or masks.
    apply : callable, default map
        Maps over the fits, possibly in several processes.
    criterion : str, default "aic"
    **options
        Options of `amofa.fit` except `checkpoint` and `background`. Those that fix numbers, except `n_factors`, apply
        to the mixtures only. `max_time` is that of each fit.

    Returns
    -------
    ClassMixtures

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it and what to do.
    KeyboardInterrupt
        If it is interrupted; there is then no model of all classes.

    Warns
    -----
    AmofaWarning
        If columns of X are constant, EM of the mixture of a class did not converge, or a class has fewer components
        than asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from amofa.classes import fit_classes
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (60, 2)), rng.normal(5, 1, (60, 2))])
    >>> classes = fit_classes(X, np.repeat([0, 1], 60))
    >>> classes.predict([[0, 0], [5, 6]])
    array([0, 1])
    >>> np.exp(classes.log_posteriors([[0, 0]])).round(3)
    array([[1., 0.]])
    """
    if "checkpoint" in options:
        raise TypeError("checkpoint is for a single fit, but each class has several; leave it out")
    if options.get("background") is not None:
        raise TypeError("classes have no background, each row belongs to one of them; leave it out")
    rows = _Rows.of(check_table(X), y, sample_weight)
    if power is not None:
        power = check_positive("power", power)
    fit_options = FitOptions(criterion=criterion, **options)
    n_components = fit_options.checked(rows.X.shape[1]).n_components
    floor = check_noise_floor(noise_floor, rows.X.shape[1])
    log_priors = np.log(_check_priors(priors, rows.counts()))
    if single_weight is None and n_components is not None:
        single_weight = 0.0
    grid = poolings(
        None if pooled_rows is None else check_not_negative("pooled_rows", pooled_rows),
        None if single_weight is None else _check_share("single_weight", single_weight),
    )
    splits = rows.splits(cv) if len(grid) > 1 and rows.n_classes > 1 else []
    warn_of_constant_columns(rows.coordinates().constant)
    trained = chain([rows], (rows.subset(train) for train, _ in splits))
    tables = (table for part in trained for table in part.tables(floor))
    try:
        fits = list(apply(partial(fit_class, options=fit_options), tables))
    except FitInterrupted:
        # The best model so far is that of one class, which is not a classifier.
        raise KeyboardInterrupt("the fit of the classes was interrupted") from None
    whole, *partial_fits = (fits[i : i + rows.n_classes] for i in range(0, len(fits), rows.n_classes))
    _warn_of_fits(whole, n_components)
    held_out = [rows.subset(test).held_out for _, test in splits]
    pooling = best_pooling(partial_fits, held_out, log_priors, grid)
    if power is not None:
        pooling = pooling._replace(power=power)
    models = (model._named(column_names(X)) for model in class_models(whole, pooling))
    return ClassMixtures(tuple(models), log_priors, pooling, tuple(whole))


# ---- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """The rows that count, with their classes."""

    X: NDArray[Any]
    y: Labels
    weights: FloatArray | None
    n_classes: int
    kept: Mask | None  # their numbers among the caller's rows; None for all

    @classmethod
    def of(cls, X: NDArray[Any], y: ArrayLike, sample_weight: ArrayLike | None) -> _Rows:
        labels = np.asarray(y)
        if labels.dtype.kind not in "iu":
            raise TypeError(f"y must hold whole numbers from 0, got dtype {labels.dtype}")
        if labels.shape != (len(X),):
            raise ValueError(f"y has shape {labels.shape}, but X has {len(X)} rows; pass one class per row")
        if labels.min() < 0:
            raise ValueError(f"y must hold whole numbers from 0, got {labels.min()}")
        weights = None if sample_weight is None else check_weights(sample_weight, len(X))
        rows = cls(X, labels.astype(np.intp), weights, int(labels.max()) + 1, None)
        if weights is not None and not weights.all():
            rows = rows.subset(weights > 0)
        if not rows.counts().all():
            raise ValueError(f"class {rows.counts().argmin()} has no rows; number classes in y without gaps")
        return rows

    def subset(self, selected: Mask) -> _Rows:
        weights = None if self.weights is None else self.weights[selected]
        return _Rows(self.X[selected], self.y[selected], weights, self.n_classes, selected)

    def counts(self) -> FloatArray:
        """Return the sum of weights of each class, (C,)."""
        return np.bincount(self.y, self.weights, minlength=self.n_classes).astype(np.float64)

    @property
    def held_out(self) -> HeldOut:
        return HeldOut(self.X, self.y, self.weights)

    def coordinates(self) -> Coordinates:
        table, weights = merge_repeats(self.X, self.weights)
        return Coordinates.of(Samples(table, weights=weights))

    def tables(self, noise_floor: float | FloatArray) -> Iterator[ClassRows]:
        """Return the rows of each class."""
        whole = self.coordinates()
        scales = self.scales(whole) if isinstance(noise_floor, float) else [None] * self.n_classes
        for c, scale in enumerate(scales):
            rows = self.y == c
            floor = floor_variances(noise_floor, scale, whole)
            yield ClassRows(self.X[rows], None if self.weights is None else self.weights[rows], floor)

    def scales(self, whole: Coordinates) -> FloatArray:
        """Return the variances of which the floors of each class are shares, (C, d).

        They are the mean variances within classes, or less in a narrow class. The fewer its rows, the more may be
        missing of its variance; the more of them are all equal, the less. `whole` are the coordinates of all rows.
        """
        counts = self.counts()
        of_classes = [self.subset(self.y == c).coordinates().deviation ** 2 for c in range(self.n_classes)]
        variances = np.stack(of_classes)
        within = counts @ variances / counts.sum()
        varies = within > 0
        if not varies.any():
            relative = np.zeros(self.n_classes)
        else:
            relative = (variances[:, varies] / within[varies]).mean(axis=1)
        # A column that varies between classes only has as much within as one row may have.
        within = np.where(varies, within, with_constant_columns(whole.deviation**2, whole) / counts.sum())
        unknown = np.minimum(_FEW_ROWS / counts, 1.0)
        missing = np.where(relative > 0, 1 / counts, np.maximum(1 / counts**2, _EQUAL)) * unknown
        shares = np.minimum(relative / _NARROW + missing, 1.0)[:, None]
        of_columns = variances / (_NARROW * within) + unknown[:, None] ** 2
        return np.asarray(within * np.where(self.are_spread(), np.minimum(shares, of_columns), shares))

    def are_spread(self) -> Mask:
        """Return which columns have no frequent value in each class, (C, d), so that their variance there is known."""
        found = np.empty((self.n_classes, self.X.shape[1]), dtype=bool)
        for c, count in enumerate(self.counts()):
            rows = self.y == c
            weights = None if self.weights is None else self.weights[rows]
            for j, column in enumerate(self.X[rows].T):
                _, numbers = np.unique(column, return_inverse=True)
                found[c, j] = np.bincount(numbers, weights).max() <= _FREQUENT * count
        return found

    def splits(self, cv: int | Iterable[Split]) -> list[tuple[Mask, Mask]]:
        """Yield the rows to train with and to hold out; nothing if none can be held out."""
        if not isinstance(cv, Iterable):
            n_parts = check_whole_number("cv", cv, at_least=2)
            parts = class_parts(self.X, self.y, self.n_classes, n_parts)
            tested = [((parts != part) & (parts != _LEFT_OUT), parts == part) for part in range(n_parts)]
        else:
            tested = [(self._mask(train), self._mask(test)) for train, test in _check_splits(cv)]
            if not any(test.any() for _, test in tested):
                raise ValueError("cv holds out no row; give at least one (train, test) whose test has rows")
        for train, _ in tested:
            counts = np.bincount(self.y[train], minlength=self.n_classes)
            if not counts.all():
                raise ValueError(f"cv trains without rows of class {counts.argmin()}; train with all classes each time")
        return [(train, test) for train, test in tested if test.any()]

    def _mask(self, selected: ArrayLike) -> Mask:
        """Return a mask of these rows from a selection of the caller's rows."""
        mask = _check_selection(selected, len(self.X) if self.kept is None else len(self.kept))
        return mask if self.kept is None else mask[self.kept]


def class_parts(X: NDArray[Any], y: Labels, n_classes: int, n_parts: int) -> Labels:
    """Return the part of its class that each row is in, 0, 1, ..., or a mark for rows in none, (n,).

    Parts are runs of distinct rows in their order; a repeated row is in the part of its first occurrence. Repeated rows
    are therefore in the same parts as rows with weights.
    """
    parts = np.empty(len(y), dtype=np.intp)
    for c in range(n_classes):
        rows = np.flatnonzero(y == c)
        numbers = distinct_rows(X[rows])
        n = int(numbers.max()) + 1
        step = -(-n // MOST_ROWS)
        taken = -(-n // step)
        if taken < n_parts:
            parts[rows] = _ALWAYS
        else:
            parts[rows] = np.where(numbers % step == 0, n_parts * (numbers // step) // taken, _LEFT_OUT)
    return parts


def distinct_rows(X: NDArray[Any]) -> Labels:
    """Number rows 0, 1, ... in the order of their first appearance; equal rows have the same number."""
    _, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.reshape(-1)]


# ---- models of classes -----------------------------------------------------------------------------------------------


def fit_class(rows: ClassRows, options: FitOptions) -> ClassFit:
    """Fit one factor analyser and a mixture of them to the rows of a class."""

    def found(options: FitOptions) -> MixtureOfFactorAnalyzers:
        # `fit_classes` gives the warnings that the caller can act upon.
        return fit_checked(rows.X, rows.weights, options, None, warns=False)

    options = replace(options, noise_floor=rows.floor)
    mixture = found(options)
    # A sequence gives the numbers of factors for the components of the mixture.
    given: Any = options.n_factors
    n_factors = int(given) if isinstance(given, Integral) else None
    single = mixture if mixture.n_components == 1 else found(replace(options, n_components=1, n_factors=n_factors))
    n = float(mixture.n_samples or 0.0)
    borrows = n < _LEAST_EQUAL or bool(np.ptp(rows.X, axis=0).any())
    return ClassFit(single, mixture, n, borrows)


# ---- arguments, warnings ---------------------------------------------------------------------------------------------


def _check_priors(priors: str | ArrayLike, counts: FloatArray) -> FloatArray:
    C = len(counts)
    if isinstance(priors, str):
        if priors not in ("uniform", "empirical"):
            raise ValueError(f"priors must be 'uniform', 'empirical' or {C} probabilities, got {priors!r}")
        return np.full(C, 1 / C) if priors == "uniform" else counts / counts.sum()
    given = np.asarray(priors)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"priors must be 'uniform', 'empirical' or {C} probabilities, got {priors!r}")
    if given.shape != (C,):
        raise ValueError(f"priors has shape {given.shape}; pass one probability for each of {C} classes")
    # Not "<= 0", which NaN passes.
    if not ((given > 0).all() and abs(given.sum() - 1) <= 1e-6):
        raise ValueError(f"priors must be positive numbers of sum 1, got {given.tolist()}")
    return np.asarray(given / given.sum(), dtype=np.float64)


def _check_splits(cv: Iterable[Split]) -> Iterator[Split]:
    for split in cv:
        try:
            train, test = split
        except (TypeError, ValueError):
            raise TypeError(f"cv must be a whole number or give pairs of rows, (train, test), got {split!r}") from None
        yield train, test


def _check_selection(selected: ArrayLike, n: int) -> Mask:
    """Return a mask of n rows from a mask or from numbers of rows."""
    rows = np.asarray(selected)
    mask = np.zeros(n, dtype=np.bool_)
    if rows.size == 0:
        return mask
    if rows.dtype.kind not in "biu" or rows.ndim != 1:
        raise TypeError(
            f"cv must give numbers of rows, or masks, got an array of shape {rows.shape} and dtype {rows.dtype}"
        )
    if rows.dtype.kind == "b":
        if len(rows) != n:
            raise ValueError(f"cv has a mask of {len(rows)} rows, but X has {n}; give one value for each")
        return rows
    wrong = rows[(rows < 0) | (rows >= n)]
    if len(wrong):
        raise ValueError(f"cv has row {wrong[0]}, but rows are numbered from 0 to {n - 1}")
    mask[rows] = True
    return mask


def _check_share(name: str, value: Any) -> float:
    share = check_not_negative(name, value)
    if share > 1:
        raise ValueError(f"{name} must be from 0 to 1, got {value}")
    return share


def _warn_of_fits(fits: Sequence[ClassFit], n_components: int | None) -> None:
    def warn(of: Sequence[int], what: str) -> None:
        if of:
            names = ", ".join(map(str, of[:10])) + (", ..." if len(of) > 10 else "")
            warn_caller(f"{what}: classes {names}")

    unfinished = [c for c, f in enumerate(fits) if not f.mixture.converged]
    warn(unfinished, "the fit did not converge; allow more by max_iter or max_time")
    short = [c for c, f in enumerate(fits) if n_components is not None and f.mixture.n_components < n_components]
    warn(short, f"fewer than {n_components} components can be told apart")
