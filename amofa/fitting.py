"""`fit`: checks of the arguments, one search, and the model that comes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amofa._background import LogDensity
from amofa._data.block_source import BlockSource
from amofa._data.checks import check_incomplete_rows, n_weighted
from amofa._data.dataframes import column_names
from amofa._data.deduplicate import merge_repeats
from amofa._data.row_chunks import Samples, n_held
from amofa._data.row_source import RowSource
from amofa._data.standardize import Standardized
from amofa._em.profile_likelihood import MOST_BACKGROUND
from amofa._search.checkpoint import Checkpoint, settings_of_blocks, settings_of_options, settings_of_rows
from amofa._search.constraints import REFINEMENT
from amofa._search.init import LabelledRows, check_init, check_init_model
from amofa._search.monitor import FitInterrupted, Monitor, OutOfTime, SearchStopped
from amofa._search.options import FitOptions
from amofa._search.progress import progress_line
from amofa._search.state import END, State
from amofa._typing import FloatArray
from amofa.history import Callback, OnIteration
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread, use_threads
from amofa.warnings import (
    warn_of_columns,
    warn_of_interrupt,
    warn_of_little_weight,
    warn_of_much_background,
    warn_of_no_convergence,
    warn_of_shortfall,
    warn_of_time,
    warn_of_unseen_pairs,
)

if TYPE_CHECKING:
    from amofa._search.task import Task

# A table with missing cells has second moments of all pairs of columns, even if it has fewer rows: up to this number of
# columns (32 MB for each component).
_MOST_COLUMNS = 2000


def fit(
    X: ArrayLike | BlockSource,
    *,
    sample_weight: ArrayLike | None = None,
    n_components: int | None = None,
    n_factors: int | Sequence[int] | None = None,
    max_components: int | None = None,
    max_factors: int | None = None,
    init: MixtureOfFactorAnalyzers | ArrayLike | None = None,
    search: str = "thorough",
    criterion: str | None = None,
    noise: str | None = None,
    noise_floor: float | ArrayLike | None = None,
    prior_scale: ArrayLike | None = None,
    prior_rows: float | None = None,
    tails: str = "normal",
    degrees_of_freedom: float | None = None,
    background: str | LogDensity | None = None,
    tol: float = 1e-5,
    max_iter: int = 100,
    callback: Callback | None = None,
    on_iteration: OnIteration | None = None,
    progress: bool = False,
    on_interrupt: str = "raise",
    max_time: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    n_threads: int | None = None,
) -> MixtureOfFactorAnalyzers:
    """Fit a mixture of factor analysers; numbers of components and factors that are not given are found.

    The options come in groups: what is given (`n_components` to `init`), the search (`search`, `criterion`), the
    uniquenesses (`noise` to `prior_rows`), the tails of components (`tails`, `degrees_of_freedom`), and how the fit
    runs (`tol` to `n_threads`).

    Parameters
    ----------
    X : array-like of shape (n, d), or amofa.blocks.Blocks
        Real numbers, one row for each observation, with any real dtype and memory layout. NaN marks a missing cell: see
        docs/missing.md. If X is a frame, the model keeps the names of its columns. X is not changed, and is read
        in blocks: a memory map or a table of float32 is not copied, unless it is small or has fewer rows than columns.
        Tables that are neither in memory nor in one .npy file are `amofa.blocks.Blocks`: see docs/large.md.
    sample_weight : (n,) array-like, optional
        How often each row counts. A row of weight 0, or of less than 1e-14 of the largest weight, is left out. N in
        the criterion is the sum of the weights, which must be from 1e-100 to 1e100: give weights whose sum is the
        number of observations, not shares.
    n_components : int, optional
        Number of components; found if not given.
    n_factors : int or sequence of int, optional
        Number of factors of every component, or one number for each component; found if not given. With a sequence
        the components come in its order, the heaviest first at the start of the search.
    max_components, max_factors : int, optional
        Upper bounds of the numbers that are found.
    init : MixtureOfFactorAnalyzers, scikit-learn's GaussianMixture, or (n,) array-like of int or str, optional
        The only start of the search, instead of its own: a fitted model of the same columns, or labels of the rows.
        Labels are integers from 0, or names, each of which makes a component; -1, NaN and None mean no label. The
        search then splits and merges as usual, and chooses factors and noise again. If there are more components than
        allowed, they are merged first, or with "paper" the lightest are removed. The result never costs more than a
        given model, whose background is left out unless `background` asks for one.
    search : {"thorough", "paper"}, default "thorough"
        "thorough" starts from one component and from partitions of the rows, and splits and merges components while
        that pays, on some rows of a large table first; each factor analyser is at its maximum, with its number of
        factors (0 included) chosen inside (docs/algorithm.md). "paper" is the algorithm of Kaya & Salah [1]_.
    criterion : {"evidence", "mml", "bic", "aic", "icl"}, optional
        What the search minimises. "evidence" (docs/criterion.md) is the default of "thorough", and only available
        there. "mml", the message length of the paper's final equation, is the default of "paper".
    noise : {"auto", "any", "component", "shared", "isotropic", "scaled", "common_loadings"}, optional
        How uniquenesses are tied: each component has its own ("component"), all components have the same ("shared"),
        each component has one share of the squared units of the columns ("isotropic"), or a multiple of the same ones
        ("scaled"); or each component has its own, and all have the same loadings ("common_loadings"). The last two are
        for at least as many rows as columns, and need normal tails, no background, and one number of factors if it is
        given (docs/families.md). "auto", the default of "thorough", lets the criterion choose between "component" and
        "shared": with few rows, more components are found if they share. "any" also tries the last two where there are
        few rows for each column; the model costs less or the same, but its components need not be better groups.
        "paper" has "component" only.
    noise_floor : float or (d,) array-like, optional
        Smallest uniqueness: a share of each column's variance in X, or a variance for each column in its own units.
        The default is 1e-4; with "thorough" it is less if a part of the rows is much narrower than the column, and at
        least 1/12 of the squared step of columns of rounded numbers. Smaller values than 1e-12 of the variance count as
        that.
    prior_scale : (d,) array-like, optional
        Centre of the prior of uniquenesses, a variance for each column in its own units, of which `noise_floor` is a
        share. By default the columns' variances in X, with "thorough" without far cells. A classifier passes those of
        all its classes.
    prior_rows : float, optional
        Strength of this prior: near its centre it is worth half this number of rows. By default 4; 0 means no prior.
        For "thorough" only.
    tails : {"normal", "t", "auto"}, default "normal"
        Distributions of the components: normal, or multivariate t, whose tails are heavier, so that far rows change a
        component little and need none of their own (docs/tails.md). "auto" tries t components from the best mixture
        of normal ones, and lets the criterion choose. "paper" has "normal" only.
    degrees_of_freedom : float, optional
        Of all t components, with ``tails="t"``: the fewer, the heavier their tails. If not given they are found between
        2.1 and 1000, one number for all components or, if that costs less, one for each.
    background : {"uniform", "nested", "heavy", "auto"} or callable, optional
        A density beside the components, for scattered rows that belong to no group (docs/background.md): that of a box
        around the rows, "nested" boxes of which the smaller one is without far rows, or a multivariate t distribution
        with one degree of freedom about the medians; "auto" tries all. Its share of the rows is found, and it is
        dropped where that does not pay. Or a function that returns the log densities (n,) of rows (n, d), in nats; in
        rows with missing cells, which are NaN, those of the other cells. Columns are then in units without far rows.
        For normal tails of "thorough" only.
    tol : float, default 1e-5
        EM ends when the criterion is within about this of its limit, in nats per row. With "paper", EM ends when the
        criterion changes by less than this, and a move must gain more.
    max_iter : int, default 100
        Maximum number of iterations of one EM run.
    callback : callable, optional
        Called with a `LiveStep` for each model that the search has tried on all rows: the step as it will be in
        `history`, with the model in ``step.model``. While a large table is searched on some of its rows, it is not
        called. If it returns something true, the search ends, and the best model so far is the result.
    on_iteration : callable, optional
        Called with a `LiveIteration` for each iteration of EM on all rows. If it returns something true, the search
        ends in the same way, once there is a model.
    progress : bool, default False
        Whether to show the progress of the search: in a notebook below the cell, otherwise on standard error, if that
        is a terminal. A terminal needs rich, ``python -m pip install 'amofa[progress]'``. The logger "amofa" reports
        each step, too: at level INFO if it was accepted, otherwise at DEBUG.
    on_interrupt : {"raise", "return"}, default "raise"
        What a KeyboardInterrupt does once there is a model: "raise" raises `FitInterrupted`, a KeyboardInterrupt with
        the best model so far as its ``model``; "return" returns this model, with a warning.
    max_time : float, optional
        Seconds after which the search stops, with the best model of all rows so far as the result, and a warning. The
        first model is always fitted; docs/long_fits.md says how late the search may stop.
    checkpoint : str or PathLike, optional
        A file for the state of the search, written after each step, and the best model so far, which `amofa.load`
        reads. After any interruption, the same call with the same file resumes with the next step, and ends with the
        same model; after the end, it returns the model again. The file is not deleted. If it cannot be written, as on
        a full disk, the fit goes on with a warning.
    n_threads : int, optional
        Maximum number of threads that share the work; the model is the same for any number. By default one for each
        core that the process may use, at most OMP_NUM_THREADS of the environment, and one in processes of
        `multiprocessing`. BLAS has one thread during a fit.

    Returns
    -------
    MixtureOfFactorAnalyzers

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it and says what to do. The checkpoint of a fit of other rows
        or options, or a file that is not a checkpoint, is left as it is.
    ImportError
        If progress is wanted on a terminal and rich is not installed.
    OSError
        If the checkpoint cannot be read or written at the start.
    MemoryError
        If there is not enough memory.
    FitInterrupted
        See `on_interrupt`.

    Warns
    -----
    DataWarning
        If normal components describe columns badly, whatever their number: see `amofa.inspect`. It is an AmofaWarning.
    AmofaWarning
        If columns are constant (they are modelled separately, with a uniqueness of `noise_floor` times the mean
        variance of the other columns, and affect no decision), if columns follow from others by sums and multiples
        (they affect no decision either: docs/algorithm.md), if weights sum to far less than the number of rows, if EM
        of the chosen model did not converge, if fewer components than asked for can be told apart, if half of the rows
        are background, if the fit was interrupted or ran out of time, or if a checkpoint could not be written.

    Notes
    -----
    The result depends only on the rows, not on their order or on random numbers, and does not change with the units or
    the origin of a column. There are two exceptions. Above 2^18 rows or 2^23 values (but at least 32 rows for each
    column), splits and merges are searched on rows that are spread evenly over the table, so that their order may
    matter; the model is still fitted to all rows. (Smaller tables may be searched on some rows first, too, but which
    ones does not depend on their order.) And if covariances are full, with nearly as many factors as columns, rounding
    may decide between local optima.

    References
    ----------
    .. [1] H. Kaya, A. A. Salah, "Adaptive Mixtures of Factor Analyzers", arXiv:1507.02801.

    Examples
    --------
    >>> import numpy as np
    >>> import amofa
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (100, 2))])
    >>> model = amofa.fit(X)
    >>> model.n_components
    2
    >>> model.weights.round(2)
    array([0.67, 0.33])
    """
    # In the order of the fields, which is that of the arguments.
    options = FitOptions(
        n_components, n_factors, max_components, max_factors, init,
        search, criterion, noise, noise_floor, prior_scale, prior_rows, tails, degrees_of_freedom, background,
        tol, max_iter, callback, on_iteration, progress, on_interrupt, max_time, checkpoint, n_threads,
    )  # fmt: skip
    if isinstance(X, BlockSource):
        if sample_weight is not None:
            raise TypeError("the weights of blocks stand beside them: pass them where the blocks are made, not to fit")
        return fit_blocks(X, options)
    names = column_names(X)
    return fit_checked(*check_incomplete_rows(X, sample_weight), options, names)


def fit_checked(
    table: NDArray[Any],
    weights: FloatArray | None,
    options: FitOptions,
    names: tuple[str, ...] | None,
    *,
    warns: bool = True,
) -> MixtureOfFactorAnalyzers:
    """Fit a mixture to rows as `check_incomplete_rows` returns them, with options that are checked here; see `fit`.

    `names` are those of the columns. With `warns`, it warns of constant columns and of how the search ended.
    """
    options = options.checked(table.shape[1])
    init = check_init(options.init, table, names, weights)
    with _running(options):
        state, checkpoint = _resumed(options, init, lambda: settings_of_rows(table, weights))
        rows = rows_of_search(table, weights, options)
        if warns:
            warn_of_rows(rows, n_weighted(weights), names)
        return _fit_rows(rows, options, names, init, state, checkpoint, warns)


def fit_blocks(source: BlockSource, options: FitOptions) -> MixtureOfFactorAnalyzers:
    """Fit a mixture to rows in blocks, which are checked here, as are the options; see `fit`.

    Rows that a search would hold in memory anyway are fitted as an array.
    """
    # Imported late, since few fits need them.
    from amofa._data.block_rows import BlockRows, Facts, gathered

    names = source.feature_names
    checked = options.checked(source.n_features)
    init = _check_init_of_blocks(checked, source.n_features, names)
    with _running(checked):
        facts = Facts.of(source)
        if facts.n_rows <= n_held(source.n_features):
            return fit_checked(*check_incomplete_rows(*gathered(source)), options, names)
        if checked.is_paper:
            raise ValueError("search='paper' needs all rows in memory; leave out search, or pass a memory map")
        state, checkpoint = _resumed(checked, init, lambda: settings_of_blocks(source))
        whole = BlockRows.of(source, facts)
        rows = Standardized.of_rows(whole, whole.express, by_body=True, by_rows=checked.background is not None)
        _check_missing_cells(rows.samples, checked)
        if checked.may_leave_out_columns:
            rows = rows.without_redundant_columns()
        warn_of_rows(rows, facts.n_weighted if facts.has_weights else None, names)
        return _fit_rows(rows, checked, names, init, state, checkpoint, True)


def _check_init_of_blocks(
    options: FitOptions, n_features: int, names: tuple[str, ...] | None
) -> MixtureOfFactorAnalyzers | None:
    """Check the start of a search of rows in blocks: a mixture, if one is given."""
    init = check_init_model(options.init, n_features, names)
    if not (init is None or isinstance(init, MixtureOfFactorAnalyzers)):
        raise TypeError("init of rows in blocks must be a mixture, not labels: fit some rows with them first")
    return init


@contextmanager
def _running(options: FitOptions) -> Iterator[None]:
    """Set threads and NumPy's errors for a fit."""
    # Squares of tiny numbers may become 0 here, whatever the caller wants to be told about.
    with single_blas_thread(), use_threads(options.n_threads), np.errstate(under="ignore"):
        yield


def _resumed(
    options: FitOptions,
    init: MixtureOfFactorAnalyzers | LabelledRows | None,
    settings_of: Callable[[], dict[str, str]],
) -> tuple[State, Checkpoint | None]:
    """Return the state from which the search goes on, and its checkpoint, if there is one.

    `settings_of` returns what the fit depends on in the rows.
    """
    if options.checkpoint is None:
        return State(), None
    checkpoint = Checkpoint(str(options.checkpoint), settings_of() | settings_of_options(options, init))
    return checkpoint.open(), checkpoint


def _fit_rows(
    rows: Standardized[RowSource],
    options: FitOptions,
    names: tuple[str, ...] | None,
    init: MixtureOfFactorAnalyzers | LabelledRows | None,
    state: State,
    checkpoint: Checkpoint | None,
    warns: bool,
) -> MixtureOfFactorAnalyzers:
    # Imported late: searches would take a tenth of the time of `import amofa`.
    from amofa._search.task import Task

    return _fit_task(Task.of(rows, options, names, init), state, checkpoint, warns)


def rows_of_search(table: NDArray[Any], weights: FloatArray | None, options: FitOptions) -> Standardized[Samples]:
    """Return the distinct rows of a table in the coordinates of a search."""
    distinct = merge_repeats(table, weights)
    rows = Standardized.of(*distinct, by_body=not options.is_paper, by_rows=options.background is not None)
    _check_missing_cells(rows.samples, options)
    _check_joint_noise(rows.samples, options)
    return rows.without_redundant_columns() if options.may_leave_out_columns else rows


def _check_missing_cells(samples: RowSource, options: FitOptions) -> None:
    if samples.is_complete:
        return
    if options.is_paper:
        raise ValueError("X has missing cells, which search='paper' cannot use; leave out search")
    if samples.n_features > max(_MOST_COLUMNS, samples.n_rows):
        raise ValueError(
            f"X has missing cells, {samples.n_features} columns that vary and {samples.n_rows} rows; with more than "
            f"{_MOST_COLUMNS} columns and fewer rows, drop columns, or fill in missing cells first"
        )


def _check_joint_noise(samples: RowSource, options: FitOptions) -> None:
    if options.has_joint_noise and samples.is_wide:
        raise ValueError(
            f"noise={options.noise!r} needs at least as many rows as columns, got {samples.n_rows} distinct rows and "
            f"{samples.n_features} columns that vary; give noise='shared', or drop columns"
        )


def warn_of_rows(rows: Standardized[RowSource], n_rows: int | None, names: tuple[str, ...] | None) -> None:
    """Warn of weights of the caller's rows that sum to little, and of columns that are odd or change no decision.

    `n_rows` is the number of rows with a weight that is not 0; None without weights.
    """
    if n_rows is not None:
        warn_of_little_weight(rows.whole.total_weight, rows.whole.n_rows, n_rows)
    coordinates, without_cells = rows.coordinates, rows.whole.column_weights == 0
    warn_of_columns(
        [kind and kind.value for kind in rows.kinds],
        np.flatnonzero(without_cells).tolist(),
        np.flatnonzero(coordinates.constant & ~without_cells).tolist(),
        coordinates.redundant,
        names,
    )
    if not rows.samples.is_complete:
        warn_of_unseen_pairs(coordinates.columns[rows.samples.unseen_pairs()].tolist(), names)


def _fit_task(task: Task, state: State, checkpoint: Checkpoint | None, warns: bool) -> MixtureOfFactorAnalyzers:
    """Search from a state to the end, or to what stops it, and return the model."""
    options, constraints = task.options, task.options.constraints
    try:
        with progress_line(options.progress) as show:
            monitor = Monitor(
                state,
                task.rows.samples,
                constraints,
                task.model,
                callback=options.callback,
                on_iteration=options.on_iteration,
                show=show,
                max_time=options.max_time,
            )
            in_time = _take_steps(task, state, monitor, checkpoint)
        has_ended = state.phase == END
        found = state.result if has_ended and state.result else monitor.best_so_far()
        model = task.conclude(found, state.history)
        if warns and not in_time:
            warn_of_time(options.max_time)
        if warns and has_ended:
            warn_of_no_convergence(found.converged, f"{REFINEMENT} x max_iter={options.max_iter}")
            warn_of_shortfall(constraints.n_components, found.n_components)
            warn_of_much_background(found.parameters.background_weight, MOST_BACKGROUND)
        return model
    except KeyboardInterrupt as interrupt:
        if state.best is None:
            raise
        best = task.conclude(replace(state.best, converged=False), state.history)
        if options.on_interrupt == "raise":
            raise FitInterrupted(best) from interrupt
        if warns:
            warn_of_interrupt()
        return best


def _take_steps(task: Task, state: State, monitor: Monitor, checkpoint: Checkpoint | None) -> bool:
    """Take one step after the other, with the state written after each, until the search ends or is stopped.

    Returns False where it ran out of time.
    """
    if task.rows.samples.n_features == 0:
        task.end_at_once(state)
    if state.phase == END:
        return True
    try:
        search = task.search(state, monitor)
        while state.phase != END:
            search.step()
            if checkpoint is not None:
                checkpoint.save(state, task.conclude)
    except (SearchStopped, OutOfTime, KeyboardInterrupt) as stop:
        if checkpoint is not None:
            checkpoint.save_best(state, task.conclude)
        if isinstance(stop, KeyboardInterrupt):
            raise
        return not isinstance(stop, OutOfTime)
    return True
