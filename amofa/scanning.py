"""`scan`: the cheapest model of each number of components, from fits that start from one another."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._data.checks import check_choice, check_incomplete_rows, check_whole_number, n_weighted
from amofa._data.dataframes import column_names
from amofa._model.scan_table import Scan, ScanRow
from amofa._noise import Noise
from amofa._search.constraints import REFINEMENT
from amofa._search.monitor import FitInterrupted
from amofa._search.options import ANY, AUTO, NOISES, FitOptions
from amofa._search.progress import progress_of_fits
from amofa._typing import FloatArray
from amofa.fitting import fit_checked, rows_of_search, warn_of_rows
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread, use_threads
from amofa.warnings import warn_caller, warn_of_no_convergence

__all__ = ["SCAN_OPTIONS", "Scan", "ScanInterrupted", "ScanRow", "scan"]

# A model replaces another if it costs less by this many nats: more than what EM leaves, so that a scan ends.
_LEAST_GAIN = 1e-2
# A fit that begins when time is nearly over ends with its first model.
_LEAST_TIME = 1e-6
_AUTO_KINDS = (str(Noise.COMPONENT), str(Noise.SHARED))
_KINDS = {AUTO: _AUTO_KINDS, ANY: (*_AUTO_KINDS, *(str(noise) for noise in Noise if noise.is_joint))}
# The most numbers of components that a warning names.
_SHOWN = 10
# Options of a single fit.
_NOT_OF_SCANS = ("n_components", "max_components", "init", "noise", "callback", "on_iteration", "checkpoint")
SCAN_OPTIONS = tuple(option.name for option in fields(FitOptions) if option.name not in _NOT_OF_SCANS)


class ScanInterrupted(FitInterrupted):
    """A scan was interrupted.

    Attributes
    ----------
    scan : Scan
        The models so far.
    model : MixtureOfFactorAnalyzers
        The cheapest of them.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> try:
    ...     scan = amofa.scan(X, [1, 2])
    ... except amofa.ScanInterrupted as interrupted:  # by Ctrl-C
    ...     scan = interrupted.scan
    """

    def __init__(self, scan: Scan) -> None:
        super().__init__(scan.best)
        self.args = ("the scan was interrupted; the attribute scan has the models so far",)
        self.scan = scan


def scan(
    X: ArrayLike,
    n_components: Iterable[int] = range(1, 11),
    *,
    noise: str | Sequence[str] | None = None,
    sample_weight: ArrayLike | None = None,
    **options: Any,
) -> Scan:
    """Fit a mixture with each of several numbers of components, and return a table of costs and models.

    Each number is fitted by itself, as by `amofa.fit`, by splits of the model with fewer components, and by merges of
    the one with more; the cheapest model is kept. `amofa.fit` alone finds a number and is much quicker: a scan shows
    how much better it is than others.

    Parameters
    ----------
    X : (n, d) array-like
        Finite real numbers, or a frame, as in `amofa.fit`.
    n_components : iterable of int, default range(1, 11)
        The numbers of components: different, at least 1, and no more than rows.
    noise : str or sequence of str, optional
        Kinds of noise, each of which is scanned: those of `amofa.fit`. "auto", the default of the thorough search,
        means "component" and "shared"; "any" also means "scaled" and "common_loadings". The paper's search has
        "component" only.
    sample_weight : (n,) array-like, optional
        How often each row counts.
    **options
        Options of `amofa.fit` except those of a single fit: `max_components`, `init`, `callback`, `on_iteration` and
        `checkpoint`. `n_factors` is one number for all components, and `max_time` the time of the whole scan.

    Returns
    -------
    Scan
        With a row for each kind of noise and number of components. A number for which too few components can be told
        apart has none. If that is the largest, there is a row for the largest number that was found instead.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it and says what to do.
    ImportError
        If progress is wanted and rich is not installed.
    ScanInterrupted
        If a KeyboardInterrupt comes when there are models, which its ``scan`` has; it is a `FitInterrupted`. With
        ``on_interrupt="return"`` they are returned, with a warning.

    Warns
    -----
    AmofaWarning
        At most once each: if columns are constant, if EM of a model in the table did not converge, if numbers have no
        rows, or if the scan was interrupted or ran out of time.

    Notes
    -----
    No random numbers are used. The first fits are free to choose a number up to the largest one. If it is one of
    `n_components`, the best row costs no more than ``amofa.fit(X, noise=noise, max_components=max(n_components))``, but
    for about 0.01 nats with ``tails="auto"``: degrees of freedom are then found up to the tolerance of EM.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> scan = amofa.scan(X, n_components=[1, 2])
    >>> scan.best.n_components, len(scan)
    (2, 4)
    >>> columns = scan.to_dict()  # for a data frame
    >>> list(columns)
    ['n_components', 'noise', 'cost', 'bic', 'icl', 'model']
    """
    names = column_names(X)
    table, weights = check_incomplete_rows(X, sample_weight)
    numbers = _check_numbers(n_components, len(table) if weights is None else int(np.count_nonzero(weights)))
    of_fits = _check_options(options)
    checked = of_fits.checked(table.shape[1])
    kinds = _check_noise(noise, checked)
    for kind in kinds:
        replace(of_fits, noise=kind).checked(table.shape[1])
    scanner = _Scanner(table, weights, names, of_fits, numbers, kinds)
    with single_blas_thread():
        warn_of_rows(rows_of_search(table, weights, checked), n_weighted(weights), names)
    try:
        with progress_of_fits(checked.progress) as apply:
            for _ in apply(scanner.fit, scanner.tasks()):
                pass
    except KeyboardInterrupt as interrupt:
        if not scanner.has_models:
            raise
        so_far = scanner.scan(checked)
        if checked.on_interrupt == "raise":
            raise ScanInterrupted(so_far) from interrupt
        warn_caller("the scan was interrupted; it has the models so far")
        return so_far
    is_late = scanner.is_late
    result = scanner.scan(checked)
    if is_late:
        warn_caller(f"the scan had not ended after max_time={checked.max_time:g} s; it has the models so far")
    else:
        converged = all(row.model.converged for row in result)
        warn_of_no_convergence(converged, f"{REFINEMENT} x max_iter={checked.max_iter}")
        _warn_of_missing({kind: [K for K in numbers if K not in scanner.found[kind]] for kind in kinds})
    return result


def _warn_of_missing(numbers: dict[str, list[int]]) -> None:
    """Warn of numbers of components, by kind of noise, for which there is no model."""
    missing = " and ".join(f"{_shown(of_kind)} with noise={kind!r}" for kind, of_kind in numbers.items() if of_kind)
    if missing:
        warn_caller(f"too few components can be told apart for {missing}: the scan has no such rows")


def _shown(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_numbers(n_components: Any, n_rows: int) -> list[int]:
    """Return the numbers of components in rising order."""
    if not isinstance(n_components, Iterable) or isinstance(n_components, str | bytes):
        raise TypeError(f"n_components must be several whole numbers, such as range(1, 11), got {n_components!r}")
    numbers = sorted(check_whole_number("each of n_components", K, at_least=1) for K in n_components)
    if not numbers:
        raise ValueError("n_components is empty; give at least one number")
    for smaller, larger in pairwise(numbers):
        if smaller == larger:
            raise ValueError(f"n_components has {larger} more than once; give each number once")
    if numbers[-1] > n_rows:
        raise ValueError(f"n_components goes up to {numbers[-1]}, but X has {n_rows} rows; give no more than that")
    return numbers


def _check_options(options: dict[str, Any]) -> FitOptions:
    for name in options:
        if name not in SCAN_OPTIONS:
            raise TypeError(f"scan has no option {name!r}; those of fit that it has are {', '.join(SCAN_OPTIONS)}")
    if isinstance(options.get("n_factors"), Iterable):
        raise ValueError("n_factors must be one number in a scan, for all components; only fit takes one for each")
    return FitOptions(**options)


def _check_noise(noise: str | Sequence[str] | None, options: FitOptions) -> tuple[str, ...]:
    """Return the kinds of noise to scan."""
    given = (str(options.noise) if noise is None else noise,) if noise is None or isinstance(noise, str) else noise
    names = [check_choice("noise", name, NOISES) for name in given]
    kinds = [kind for name in names for kind in _KINDS.get(name, (name,))]
    if not kinds:
        raise ValueError("noise is empty; give at least one kind, or leave it out")
    return tuple(dict.fromkeys(kinds))


# ---- fits ------------------------------------------------------------------------------------------------------------


class _Task(NamedTuple):
    """A fit to be made."""

    noise: str
    n_components: int | None  # None: found
    init: MixtureOfFactorAnalyzers | None = None


class _Scanner:
    """Fits each number of components from several starts, and keeps the cheapest models.

    Parameters
    ----------
    table, weights, names
        As `fit_checked` takes them.
    options : FitOptions
        What all fits have in common.
    numbers : list of int
        Numbers of components, rising.
    kinds : sequence of str
        Kinds of noise.
    """

    def __init__(
        self,
        table: NDArray[Any],
        weights: FloatArray | None,
        names: tuple[str, ...] | None,
        options: FitOptions,
        numbers: list[int],
        kinds: Sequence[str],
    ) -> None:
        self.table, self.weights, self.names = table, weights, names
        self.options, self.numbers = options, numbers
        # The cheapest models so far, by kind of noise and number of components.
        self.found: dict[str, dict[int, MixtureOfFactorAnalyzers]] = {kind: {} for kind in kinds}
        self.end = math.inf if options.max_time is None else time.monotonic() + options.max_time

    @property
    def has_models(self) -> bool:
        return any(self.found.values())

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self.end

    # -- what to fit --

    def tasks(self) -> Iterator[_Task]:
        """Yield one fit after the other, until no start is new or time is over; each model is kept before the next."""
        for task in self._all_tasks():
            if self.has_models and self.is_late:
                return
            yield task

    def _all_tasks(self) -> Iterator[_Task]:
        if self.found.keys() >= set(_AUTO_KINDS):
            yield _Task(AUTO, None)
        for kind in self.found:
            yield _Task(kind, None)
        for kind in self.found:
            yield from self._first_of_each(kind)
            yield from self._from_neighbours(kind)

    def _first_of_each(self, kind: str) -> Iterator[_Task]:
        """Fit each number on its own, and from the models with the kinds of noise before."""
        for K in self.numbers:
            yield _Task(kind, K)
            for other, models in self.found.items():
                if other == kind:
                    break
                if K in models:
                    yield _Task(kind, K, models[K])

    def _from_neighbours(self, kind: str) -> Iterator[_Task]:
        """Split the models with fewer components and merge those with more, up and down, until no model is new."""
        models, tried = self.found[kind], dict[tuple[int, int], MixtureOfFactorAnalyzers]()
        up = list(pairwise(self.numbers))
        is_new = True
        while is_new:
            is_new = False
            for near, K in (*up, *((more, fewer) for fewer, more in reversed(up))):
                if near in models and tried.get((near, K)) is not models[near]:
                    tried[near, K] = models[near]
                    is_new = True
                    yield _Task(kind, K, models[near])

    # -- fits --

    def fit(self, task: _Task) -> None:
        """Make a fit, and keep its model if it is the cheapest of its kind."""
        options = replace(
            self.options,
            n_components=task.n_components,
            max_components=self.numbers[-1] if task.n_components is None else None,
            init=task.init,
            noise=task.noise,
            progress=False,
            on_interrupt="raise",
            max_time=None if math.isinf(self.end) else max(self.end - time.monotonic(), _LEAST_TIME),
        )
        try:
            model = fit_checked(self.table, self.weights, options, self.names, warns=False)
        except FitInterrupted as interrupt:
            self._keep(task, interrupt.model)
            raise
        self._keep(task, model)

    def _keep(self, task: _Task, model: MixtureOfFactorAnalyzers) -> None:
        kind = task.noise
        if kind == AUTO:
            is_shared = (model.uniquenesses == model.uniquenesses[0]).all()
            kind = Noise.SHARED if is_shared else Noise.COMPONENT
        models, K = self.found[kind], model.n_components
        if K not in models or _cost(model) < _cost(models[K]) - _LEAST_GAIN:
            models[K] = model

    # -- the result --

    def scan(self, options: FitOptions) -> Scan:
        """Return the models of the numbers that were asked for; if the largest has none, that of the most components.

        The options are checked ones.
        """
        assert options.criterion is not None
        rows = []
        with use_threads(options.n_threads):
            for kind, models in self.found.items():
                for K in sorted(models):
                    if K in self.numbers or (max(models) == K and self.numbers[-1] > K):
                        rows.append(self._row(kind, models[K]))
        return Scan(tuple(rows), options.criterion)

    def _row(self, kind: str, model: MixtureOfFactorAnalyzers) -> ScanRow:
        bic, icl = model.bic(self.table, self.weights), model.icl(self.table, self.weights)
        return ScanRow(model.n_components, kind, _cost(model), bic, icl, model)


def _cost(model: MixtureOfFactorAnalyzers) -> float:
    """Return the cost of a fitted model."""
    assert model.cost is not None
    return model.cost
