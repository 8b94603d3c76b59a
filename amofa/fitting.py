"""fit(): options, validation, one call into the search, and the model that comes of it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from amofa._data.arguments import (
    DEFAULT_FLOOR,
    check_choice,
    check_function,
    check_noise_floor,
    check_path,
    check_positive,
    check_variances,
    check_whole_number,
)
from amofa._data.checks import check_table, check_weights
from amofa._data.dataframes import column_names
from amofa._data.deduplicate import merge_repeats
from amofa._data.standardize import Standardized, floor_variances, resolution_variances
from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.profile_likelihood import Problem, Solution
from amofa._em.standard import Fit, Settings
from amofa._model.finalize import (
    in_canonical_order,
    make_report,
    warn_of_constant_columns,
    warn_of_interrupt,
    warn_of_no_convergence,
    warn_of_shortfall,
    warn_of_time,
    with_canonical_factors,
)
from amofa._parameters import Component, FloatArray, Parameters
from amofa._search.checkpoint import journal_in, settings_of
from amofa._search.clock import Clock, OutOfTime, held_to
from amofa._search.constraints import REFINEMENT, Limits
from amofa._search.default import thorough_search
from amofa._search.init import LabelledRows, analysers_of_groups, check_init, moments_of_groups, parameters_of_model
from amofa._search.journal import Outcome
from amofa._search.monitor import Callback, FitInterrupted, OnIteration, SearchStopped, Watch
from amofa._search.options import EVIDENCE, Options, check_limits, check_options
from amofa._search.paper import paper_search
from amofa._search.paper_moves import with_tied_noise
from amofa._search.progress import progress_line
from amofa.criterion import CRITERIA, Counted, Evidence, Pricing, n_parameters
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread, use_threads

# What to do about missing cells, which models can take, but fits cannot.
_REMEDY = (
    "missing cells cannot be fitted yet: fit the rows without, X[numpy.isfinite(X).all(axis=1)]; the model then takes "
    "rows with NaN, and its impute(X) fills them in"
)
# In units of a column's variance the prior is centred within these: beyond them it is the same power of a uniqueness.
_PRIOR_SCALES = 1e-100, 1e100


def fit(
    X: ArrayLike,
    *,
    n_components: int | None = None,
    n_factors: int | Sequence[int] | None = None,
    search: str = "thorough",
    criterion: str | None = None,
    noise: str | None = None,
    noise_floor: float | ArrayLike | None = None,
    prior_scale: ArrayLike | None = None,
    prior_rows: float | None = None,
    sample_weight: ArrayLike | None = None,
    max_components: int | None = None,
    max_factors: int | None = None,
    init: MixtureOfFactorAnalyzers | ArrayLike | None = None,
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
    """Fit a mixture of factor analysers, finding what is not given: the number of components, and of factors in each.

    The result depends on the rows alone, not on their order, and on no random number; it does not change with the
    units or the origin of a column. (Of more than 2^18 rows, splits and merges are looked for among evenly spread ones,
    in the order given; every model is fitted to all. Where covariances are full, so that nearly as many factors as
    columns are wanted, rounding may decide between local optima.)

    Parameters
    ----------
    X : array-like of shape (n, d)
        Real, finite numbers, one row per observation; any real dtype and memory layout, or a frame, the names of
        whose columns the model keeps. It is not changed, and read in blocks: a memory map or a table of float32 is not
        copied, unless it is small or has fewer rows than columns.
    n_components : int, optional
        Number of components, kept. Found where not given.
    n_factors : int or sequence of int, optional
        Number of factors of every component, or one number for each component (the components then come in this
        order, at the start of it the heaviest), kept. Found where not given.
    search : {"thorough", "paper"}, default "thorough"
        "thorough" tries splits of every component from several starts, and merges, with each factor analyser at its
        maximum and its number of factors, 0 included, chosen inside (docs/algorithm.md). "paper" is the algorithm of
        Kaya & Salah [1]_.
    criterion : {"evidence", "mml", "bic", "aic", "icl"}, optional
        What the search minimises. "evidence" (docs/criterion.md), the default of "thorough", which alone has it;
        "mml", the default of "paper", is the message length of the paper's final equation.
    noise : {"auto", "component", "shared", "isotropic"}, optional
        Uniquenesses of each component's own, the same for all components, or, for each component, one share of the
        columns' variances in X. "auto", the default of "thorough", lets the criterion choose between the first two:
        where rows are few, components that share find more. The paper's search has "component" alone.
    noise_floor : float or (d,) array-like, optional
        Smallest uniqueness: a share of each column's variance in X (default 1e-4, and with "thorough" at least 1/12
        of the squared step of columns of rounded numbers), or a variance for each column, in its own units. Less than
        1e-12 of the variance counts as this much.
    prior_scale : (d,) array-like, optional
        Variances about which the prior of uniquenesses is centred, and of which `noise_floor` is a share, in the
        columns' own units; the columns' variances in X where not given. A classifier passes those of all its classes.
    prior_rows : float, optional
        Strength of this prior: near its centre it is worth half as many rows; 4 where not given, 0 for none. "thorough"
        only.
    sample_weight : (n,) array-like, optional
        How often each row counts; a row of weight 0, or of less than 1e-14 of the largest, is as good as absent. N in
        the criterion is their sum, from 1e-100 to 1e100.
    max_components, max_factors : int, optional
        Bounds of what is found.
    init : MixtureOfFactorAnalyzers or (n,) array-like of int, optional
        Where the search starts, instead of one component: a model of the same columns, or labels of the rows, whole
        numbers from 0, each of which makes a component; rows labelled -1 have no say in these, but the start alone
        holds to labels. The search then splits and merges as always, and chooses factors and noise anew; where there
        are more components than there may be, they are merged, or with "paper" the lightest removed, first. A model is
        looked at as it is, too: the result costs no more.
    tol : float, default 1e-5
        EM ends when the criterion is within about this of its limit ("paper": changes by less, and a move must gain
        more than this), in nats per row.
    max_iter : int, default 100
        Most iterations of one EM run.
    callback : callable, optional
        Called with a `LiveStep` for each model that the search has looked at on all rows: the step as it will stand in
        `history`, with the model so far in ``step.model``. If it returns something true, the search ends there, and
        the best model that was looked at is the result.
    on_iteration : callable, optional
        Called with a `LiveIteration` for each iteration of EM on all rows that is made (none that a checkpoint has). If
        it returns something true, the search ends there in the same way, from the first model on.
    progress : bool, default False
        Whether a line on standard error tells how far the search is, where that is a terminal. Needs rich,
        ``python -m pip install 'amofa[progress]'``. The logger "amofa" tells of every step, too: of accepted ones at
        level INFO, of the others at DEBUG.
    on_interrupt : {"raise", "return"}, default "raise"
        What a KeyboardInterrupt does, from the first model on: "raise" raises `FitInterrupted`, a KeyboardInterrupt
        with the best model so far as its ``model``; "return" returns this model, with a warning.
    max_time : float, optional
        Seconds after which the search stops, with the best model so far as the result, and a warning. It is looked at
        before each EM iteration, and the first model is always fitted: docs/long_fits.md says how late it may be. What
        a checkpoint has is always taken.
    checkpoint : str or PathLike, optional
        A file to which everything that the search has come to is added, at the end of each of its steps at the latest,
        with the best model so far, which `amofa.load` reads. The same call with the same file, after whatever has
        cut the first one off, goes on from there and ends with the same model; one that had ended gives its model
        again. The file is kept. While it cannot be written, as on a full disk, the fit goes on, with a warning.
    n_threads : int, optional
        How many threads may share the work, where there is enough of it; the model is the same for any number. Where
        not given, one for each core that the process may use, and not more than OMP_NUM_THREADS in the environment;
        one in processes of `multiprocessing`. BLAS has one thread during a fit.

    Returns
    -------
    MixtureOfFactorAnalyzers

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it and what to do. `checkpoint` cannot if it is the file of a
        fit of other rows or options, or none of a fit at all; that is left as it is.
    ImportError
        If progress is wanted and rich is not installed.
    OSError
        If the checkpoint cannot be opened, or another fit is writing to it.
    MemoryError
        If memory does not suffice.
    FitInterrupted
        See `on_interrupt`.

    Warns
    -----
    AmofaWarning
        If columns are constant (they are modelled apart, with the uniqueness `noise_floor` times the mean variance of
        the other columns, and change no decision), if EM of the chosen model did not converge, if fewer components
        than asked for can be told apart, if the fit was interrupted or out of time, or if a checkpoint could not be
        written.

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
    names = column_names(X)
    table = check_table(X, remedy=_REMEDY)
    weights = None if sample_weight is None else check_weights(sample_weight, len(table))
    limits = check_limits(table.shape[1], n_components, n_factors, max_components, max_factors)
    initial = check_init(init, table, names, weights)
    options = check_options(search, criterion, noise, prior_rows, tol, max_iter)
    check_function("callback", callback, "a step")
    check_function("on_iteration", on_iteration, "an iteration")
    if not isinstance(progress, bool | np.bool_):
        raise TypeError(f"progress must be True or False, got {progress!r}")
    check_choice("on_interrupt", on_interrupt, ("raise", "return"))
    floor = None if noise_floor is None else check_noise_floor(noise_floor, table.shape[1])
    scale = None if prior_scale is None else check_variances("prior_scale", prior_scale, table.shape[1])
    seconds = None if max_time is None else check_positive("max_time", max_time)
    path = None if checkpoint is None else check_path("checkpoint", checkpoint)
    if n_threads is not None:
        n_threads = check_whole_number("n_threads", n_threads, at_least=1)

    def settings() -> dict[str, str]:
        variances = {"noise_floor": floor, "prior_scale": scale}
        return settings_of(table, weights, options, limits, variances, initial)

    clock = Clock(seconds)
    # Squares of tiny numbers may become 0 here, whatever the caller wants to be told about.
    with (
        single_blas_thread(),
        use_threads(n_threads),
        np.errstate(under="ignore"),
        held_to(clock),
        journal_in(path, settings) as journal,
    ):
        clock.is_live = lambda: journal.has_worked
        rows = Standardized.of(*merge_repeats(table, weights))
        warn_of_constant_columns(rows.coordinates.constant)
        task = _Task(rows, options, limits, *_floor_and_prior(rows, options, floor, scale), names, initial)
        watch: Watch[Any] = Watch(
            rows.samples, limits, callback, task.model, task.conclude, on_iteration, clock, journal
        )
        ended = True
        try:
            try:
                with progress_line(progress) as watch.show:
                    found = task.search(watch)
            except (SearchStopped, OutOfTime) as stop:
                ended, found = False, watch.best_so_far()
                if isinstance(stop, OutOfTime):
                    warn_of_time(seconds)
            model = task.conclude(found, watch.history)
            if ended:
                journal.end(model)
        except KeyboardInterrupt as interrupt:
            if watch.best is None:
                raise
            best = task.conclude(watch.best_so_far(), watch.history)
            if on_interrupt == "raise":
                raise FitInterrupted(best) from interrupt
            warn_of_interrupt()
            return best
        if ended:
            warn_of_no_convergence(found.converged, f"{REFINEMENT} x max_iter={options.max_iter}")
            warn_of_shortfall(limits.n_components, found.parameters.n_components)
        return model


# ---- the search's surroundings ---------------------------------------------------------------------------------------


def _floor_and_prior(
    rows: Standardized, options: Options, floor: float | FloatArray | None, scale: FloatArray | None
) -> tuple[FloatArray, Prior]:
    """Smallest uniquenesses in the columns' own units, (d,), and the prior in the coordinates of the search."""
    coordinates = rows.coordinates
    variances = floor_variances(DEFAULT_FLOOR if floor is None else floor, scale, coordinates)
    kept = ~coordinates.constant
    unit = coordinates.scale[kept] ** 2
    least = variances[kept] / unit
    if floor is None and options.search == "thorough" and kept.any():
        least = np.maximum(least, resolution_variances(rows.samples))
        variances[kept] = least * unit
    with np.errstate(over="ignore"):
        center = np.ones(len(unit)) if scale is None else np.clip(scale[kept] / unit, *_PRIOR_SCALES)
    return variances, Prior(least, center, options.prior_rows)


@dataclass(frozen=True)
class _Task:
    """Rows, what is to be found in them, and the way back to the caller's columns and units.

    Attributes
    ----------
    rows : Standardized
    options : Options
    limits : Limits
    floor : (d,) float64
        Smallest uniquenesses, in the caller's units.
    prior : Prior
        In the coordinates of the search.
    names : tuple of d str, or None
        Of the caller's columns.
    init : MixtureOfFactorAnalyzers, LabelledRows or None
        What to start from, in the caller's columns and units.
    """

    rows: Standardized
    options: Options
    limits: Limits
    floor: FloatArray
    prior: Prior
    names: tuple[str, ...] | None
    init: MixtureOfFactorAnalyzers | LabelledRows | None

    def search(self, watch: Watch[Any]) -> Outcome:
        if self.rows.samples.n_features == 0:
            return self.nothing()
        return self.paper(watch) if self.options.search == "paper" else self.thorough(watch)

    def paper(self, watch: Watch[Fit]) -> Fit:
        settings = Settings(
            criterion=CRITERIA[self.options.criterion],
            floor=self.prior.floor,
            tol=self.options.tol,
            max_iter=self.options.max_iter,
            annihilates=self.limits.n_components is None,
        )
        init = self.init
        if init is None:
            start = None
        elif isinstance(init, MixtureOfFactorAnalyzers):
            start = self.given_model(init)
        else:
            start = moments_of_groups(init.groups(self.rows.coordinates), self.limits.first_factors, self.prior.floor)
        return paper_search(self.rows.samples, settings, self.limits, watch, start)

    def thorough(self, watch: Watch[Solution]) -> Solution:
        """With noise as asked for, or each component's own: "auto" goes on from there with shared noise."""
        samples, noise = self.rows.samples, self.options.noise
        if noise != "auto":
            problem = self.problem(noise)
            return thorough_search(samples, problem, self.limits, watch, init=self.given(problem))
        own, shared = self.problem("component"), self.problem("shared")
        start = self.given(shared) if self.starts_with_shared_noise() else None
        # The way there would not lead over noise of each component's own.
        directly = thorough_search(samples, shared, self.limits, watch, init=start) if start else None
        found = thorough_search(samples, own, self.limits, watch, shared, self.given(own))
        return found if directly is None or watch.is_better(found, directly) else directly

    def starts_with_shared_noise(self) -> bool:
        init = self.init
        if not isinstance(init, MixtureOfFactorAnalyzers) or init.n_components == 1:
            return False
        return bool((init.uniquenesses == init.uniquenesses[0]).all())

    def given(self, problem: Problem) -> Parameters | None:
        """What the caller wants a thorough search to start from."""
        init, samples = self.init, self.rows.samples
        if init is None:
            return None
        if isinstance(init, MixtureOfFactorAnalyzers):
            return with_tied_noise(self.given_model(init), problem.noise)
        wide = samples.n_rows < samples.n_features
        found = analysers_of_groups(init.groups(self.rows.coordinates), problem, wide=wide)
        return with_tied_noise(found, problem.noise)

    def given_model(self, model: MixtureOfFactorAnalyzers) -> Parameters:
        """A model in the coordinates of the search."""
        floor = self.prior.floor
        least = np.full_like(floor, floor.max()) if self.options.noise == "isotropic" else floor
        return parameters_of_model(model, self.rows.coordinates, least, self.limits.most_factors)

    def problem(self, noise: str) -> Problem:
        limits, d, n = self.limits, self.rows.samples.n_features, self.rows.samples.total_weight
        pricing: Pricing
        if self.options.criterion == EVIDENCE:
            pricing = Evidence(d, n, noise, self.prior.count)
        else:
            pricing = Counted(CRITERIA[self.options.criterion], d, n, noise)
        given = min(limits.n_factors) if isinstance(limits.n_factors, tuple) else limits.n_factors
        return Problem(
            self.prior,
            pricing,
            noise,
            FactorChoice(pricing, self.prior, noise, given, limits.max_factors),
            self.options.tol,
            self.options.max_iter,
            annihilates=limits.n_components is None,
        )

    def nothing(self) -> Fit:
        """The model of rows that are all the same."""
        given = self.limits.n_factors
        factors = given[0] if isinstance(given, tuple) else given or 0
        parameters = Parameters.from_components([Component(1.0, np.zeros(0), np.zeros((factors, 0)), np.zeros(0))])
        return Fit(parameters, log_likelihood=math.nan, cost=math.nan, n_iter=0, converged=True)

    def restored(self, parameters: Parameters) -> Parameters:
        in_units = self.rows.coordinates.restore(parameters, self.floor)
        given = isinstance(self.limits.n_factors, tuple)
        return with_canonical_factors(in_units if given else in_canonical_order(in_units))

    def model(self, parameters: Parameters) -> MixtureOfFactorAnalyzers:
        """For a callback: parameters and names alone."""
        return MixtureOfFactorAnalyzers._from_fit(self.restored(parameters), None, self.names)

    def conclude(self, found: Outcome, history: Sequence[Step]) -> MixtureOfFactorAnalyzers:
        """With all that is to be said of it."""
        parameters = self.restored(found.parameters)
        report = make_report(
            self.rows.whole,
            parameters,
            self.floor,
            criterion=self.options.criterion,
            n_parameters=n_parameters(parameters.n_features, parameters.n_factors, self.kind_of_noise(parameters)),
            converged=found.converged,
            history=history,
        )
        return MixtureOfFactorAnalyzers._from_fit(parameters, report, self.names)

    def kind_of_noise(self, parameters: Parameters) -> str:
        """How the uniquenesses of a model are tied; those that "auto" shares are equal to the last bit."""
        if self.options.noise != "auto":
            return self.options.noise
        noise = parameters.uniquenesses
        return "shared" if (noise == noise[0]).all() else "component"
