"""Set up a search from checked arguments, and turn what it finds into a model in the caller's columns and units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from amofa._background import Background, BackgroundDensity, Kind
from amofa._data.checks import DEFAULT_FLOOR
from amofa._data.row_chunks import Samples
from amofa._data.row_source import RowSource
from amofa._data.standardize import Standardized, default_floors, floor_variances
from amofa._em.driver import go_on
from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.outcome import Outcome
from amofa._em.profile_likelihood import LEAST_ROWS, LEAST_ROWS_OF_ONE_PRICE, Problem
from amofa._em.standard import Settings
from amofa._model.finalize import has_common_loadings, in_canonical_order, make_report, with_canonical_factors
from amofa._noise import Noise
from amofa._parameters import Parameters
from amofa._search.background import FIRST_WEIGHT, density_of
from amofa._search.default import DefaultSearch
from amofa._search.families import Family, families_of
from amofa._search.init import LabelledRows, analysers_of_groups, moments_of_groups, parameters_of_model
from amofa._search.levels import Levels
from amofa._search.monitor import Monitor
from amofa._search.options import ANY, AUTO, EVIDENCE, NORMAL, FitOptions
from amofa._search.paper_moves import with_tied_noise
from amofa._search.state import END, State
from amofa._typing import FloatArray
from amofa.criterion import CRITERIA, Counted, Evidence, Pricing, n_parameters
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers

if TYPE_CHECKING:
    from amofa._search.paper import PaperSearch

# Bounds of the centre of the prior, in units of a column's variance: beyond them it is the same power anyway.
_PRIOR_SCALES = 1e-100, 1e100
# With more rows for each column, noise="any" does not try kinds of noise with a joint M-step. One of them was the
# cheapest on 20 of 32 labelled tables with fewer. Of four with more, from 67 to 95, it was on one, with 67.
_MOST_ROWS_PER_COLUMN = 64
# Uniquenesses whose ratios agree to this share are scaled ones.
_SAME_SCALE = 1e-9


@dataclass(frozen=True)
class Task:
    """The rows and options of a fit, and the way back to the caller's columns and units."""

    rows: Standardized[RowSource]
    options: FitOptions  # checked
    floor: FloatArray  # smallest uniquenesses, (d,), in the caller's units
    prior: Prior  # in the coordinates of the search
    steps: FloatArray | None  # of rounded columns, if these have a price, in the coordinates of the search
    names: tuple[str, ...] | None  # of the caller's columns
    init: MixtureOfFactorAnalyzers | LabelledRows | None  # in the caller's columns and units

    @classmethod
    def of(
        cls,
        rows: Standardized[RowSource],
        options: FitOptions,
        names: tuple[str, ...] | None,
        init: MixtureOfFactorAnalyzers | LabelledRows | None,
    ) -> Task:
        """Make the task, with floor and prior from the options and the columns."""
        floor: Any = options.noise_floor
        scale: Any = options.prior_scale
        coordinates = rows.coordinates
        steps = None
        if floor is None and rows.scales is not None:
            variances = default_floors(rows.scales, scale, coordinates)
            if options.criterion == EVIDENCE and rows.scales.grid.any():
                steps = np.sqrt(coordinates.shares(rows.scales.grid**2))
        else:
            variances = floor_variances(DEFAULT_FLOOR if floor is None else floor, scale, coordinates)
        least = coordinates.shares(variances)
        with np.errstate(over="ignore"):
            center = np.ones_like(least) if scale is None else np.clip(coordinates.shares(scale), *_PRIOR_SCALES)
        return cls(
            rows,
            options,
            coordinates.lowered(variances),
            Prior(least, center, options.prior_rows or 0.0),
            steps,
            names,
            init,
        )

    # -- the search --

    def search(self, state: State, monitor: Monitor) -> DefaultSearch | PaperSearch:
        """Make the search that was asked for."""
        return self._paper(state, monitor) if self.options.is_paper else self._default(state, monitor)

    def _paper(self, state: State, monitor: Monitor) -> PaperSearch:
        # Imported late, since few fits need it.
        from amofa._search.paper import PaperSearch

        options, constraints = self.options, self.options.constraints
        assert options.criterion is not None
        settings = Settings(
            criterion=CRITERIA[options.criterion],
            floor=self.prior.floor,
            tol=options.tol,
            max_iter=options.max_iter,
            annihilates=constraints.n_components is None,
            check=monitor.check,
        )
        init = self.init
        if init is None:
            start = None
        elif isinstance(init, MixtureOfFactorAnalyzers):
            start = self._given_model(init)
        else:
            start = moments_of_groups(init.groups(self.rows.coordinates), constraints.first_factors, self.prior.floor)
        samples = self.rows.samples
        assert isinstance(samples, Samples)
        return PaperSearch(state, samples, settings, start, constraints=constraints, monitor=monitor)

    def _default(self, state: State, monitor: Monitor) -> DefaultSearch:
        """Make the default search; "auto" and "any" go from separate to shared noise."""
        noises: tuple[Noise, ...] = (Noise.COMPONENT, Noise.SHARED)
        n_guides = 0
        if self.options.has_joint_noise and self.init is None:
            # Their mixtures are good starts.
            n_guides, noises = len(noises), (*noises, Noise(str(self.options.noise)))
        elif self.options.noise not in (AUTO, ANY):
            noises = (Noise(str(self.options.noise)),)
        elif self._starts_with_shared_noise():
            # The search would not get there by way of separate noise.
            noises = noises[::-1]
        if self._tries_joint_noise():
            noises = (*noises, Noise.SCALED, Noise.COMMON_LOADINGS)
        options, d = self.options, self.rows.samples.n_features
        densities = {kind: density for kind in options.backgrounds if (density := self._background(kind)) is not None}
        families = families_of(noises, options.tails, options.degrees_of_freedom, d, tuple(densities))
        if self._starts_with_tails():
            families = tuple(sorted(families, key=lambda family: not family.has_tails))
        first = self._first_background()
        if first is not None:
            families = tuple(sorted(families, key=lambda family: family.background != first))

        def problem_of(family: Family, n: float) -> Problem:
            problem = self.problem(family, n, monitor.check)
            return problem if family.background is None else replace(problem, background=densities[family.background])

        given = None if self.init is None else self._given
        levels = Levels(self.rows.samples, families, problem_of, single=self.init is not None)
        constraints = self.options.constraints
        return DefaultSearch(
            state, levels, given, families, constraints=constraints, monitor=monitor, n_guides=n_guides
        )

    def _tries_joint_noise(self) -> bool:
        """Return whether "any" tries noise with a joint M-step: with many rows, it hardly pays."""
        samples = self.rows.samples
        few = samples.row_count <= _MOST_ROWS_PER_COLUMN * samples.n_features
        return self.options.may_have_joint_noise and few and not samples.is_wide

    def _starts_with_shared_noise(self) -> bool:
        init = self.init
        if not isinstance(init, MixtureOfFactorAnalyzers) or init.n_components == 1:
            return False
        return bool((init.uniquenesses == init.uniquenesses[0]).all())

    def _starts_with_tails(self) -> bool:
        return isinstance(self.init, MixtureOfFactorAnalyzers) and bool(np.isfinite(self.init.degrees_of_freedom).any())

    def _first_background(self) -> Kind | None:
        """Return the kind of background that a given mixture has, if it is among those to try."""
        background = self.init._parameters.background if isinstance(self.init, MixtureOfFactorAnalyzers) else None
        kind = None if background is None else background.density.kind
        return kind if kind in self.options.backgrounds else None

    def _background(self, kind: Kind) -> BackgroundDensity | None:
        """Return the density of a background in the coordinates of the search; None if there is none of this kind."""
        coordinates, scales, function = self.rows.coordinates, self.rows.scales, self.options.background
        if callable(function):
            return coordinates.background(function)
        assert scales is not None
        return density_of(kind, self.rows.samples, np.sqrt(coordinates.shares(scales.grid**2)))

    def _given(self, problem: Problem) -> Parameters:
        """Return the given start of the default search, with the background of the problem."""
        given = self._given_components(problem)
        if problem.background is None:
            return given
        model = self.init
        weight = model.background_weight if isinstance(model, MixtureOfFactorAnalyzers) else 0.0
        return given.with_background(Background(problem.background, weight or FIRST_WEIGHT))

    def _given_components(self, problem: Problem) -> Parameters:
        init, samples = self.init, self.rows.samples
        assert init is not None
        if isinstance(init, MixtureOfFactorAnalyzers):
            return with_tied_noise(_with_tails(self._given_model(init), problem), problem.noise)
        found = analysers_of_groups(init.groups(self.rows.coordinates), problem, wide=samples.is_wide)
        return with_tied_noise(found, problem.noise)

    def _given_model(self, model: MixtureOfFactorAnalyzers) -> Parameters:
        """Return a model in the coordinates of the search."""
        floor = self.prior.floor
        least = np.full_like(floor, floor.max()) if self.options.noise == Noise.ISOTROPIC else floor
        return parameters_of_model(model, self.rows.coordinates, least, self.options.constraints.most_factors)

    def problem(self, family: Family, n: float, check: Callable[[], None] = go_on) -> Problem:
        """Return the problem of n rows."""
        noise = family.noise
        options, constraints, d = self.options, self.options.constraints, self.rows.samples.n_features
        assert options.criterion is not None
        pricing: Pricing
        if options.criterion == EVIDENCE:
            pricing = Evidence(d, n, noise, self.prior.count, self.rows.seen_shares)
        else:
            pricing = Counted(CRITERIA[options.criterion], d, n, noise)
        given = min(constraints.n_factors) if isinstance(constraints.n_factors, tuple) else constraints.n_factors
        choice = FactorChoice(pricing, self.prior, noise, given, constraints.max_factors)
        has_own_price = options.criterion == EVIDENCE and self.prior.count > 0 and not noise.is_isotropic
        # See `DefaultSearch._without_lone_rows`.
        is_single = has_own_price and family.background is None
        problem = Problem(
            self.prior,
            pricing,
            noise,
            choice,
            options.tol,
            options.max_iter,
            annihilates=constraints.n_components is None,
            check=check,
            steps=self.steps,
            least_rows=LEAST_ROWS if is_single else LEAST_ROWS_OF_ONE_PRICE,
            finds_tails=options.tails != NORMAL and options.degrees_of_freedom is None,
        )
        return problem.with_tails(family.degrees_of_freedom) if family.has_tails else problem

    def end_at_once(self, state: State) -> None:
        """End the search of rows that are all the same."""
        given = self.options.constraints.n_factors
        state.result = Outcome.of_no_columns(given[0] if isinstance(given, tuple) else given or 0)
        state.phase = END

    # -- the model --

    def _restored(self, parameters: Parameters) -> Parameters:
        in_units = self.rows.coordinates.restore(parameters, self.floor)
        given = isinstance(self.options.n_factors, tuple)
        return with_canonical_factors(in_units if given else in_canonical_order(in_units))

    def model(self, parameters: Parameters) -> MixtureOfFactorAnalyzers:
        """Return a model without a report, for a callback."""
        return MixtureOfFactorAnalyzers._from_fit(self._restored(parameters), None, self.names)

    def conclude(self, found: Outcome, history: Sequence[Step]) -> MixtureOfFactorAnalyzers:
        """Return the model with a report of the fit."""
        parameters = self._restored(found.parameters)
        assert self.options.criterion is not None
        report = make_report(
            self.rows.whole,
            parameters,
            self.floor,
            criterion=self.options.criterion,
            n_parameters=self._n_parameters(found.parameters),
            cost=found.cost,
            converged=found.converged,
            history=history,
            constant=self.rows.coordinates.constant,
            noise=str(self.noise_of(found.parameters)),
        )
        return MixtureOfFactorAnalyzers._from_fit(parameters, report, self.names)

    def _n_parameters(self, found: Parameters) -> int:
        """Return the number of free parameters; columns that follow from others have their coefficients."""
        coordinates = self.rows.coordinates
        n_features = len(coordinates.scale) - len(coordinates.redundant)
        coefficients = sum(len(others) + 1 for _, others in coordinates.redundant)
        others = (0 if self.options.degrees_of_freedom else found.n_tail_parameters) + coefficients
        others += found.background is not None
        return n_parameters(n_features, found.n_factors, self.noise_of(found)) + others

    def noise_of(self, parameters: Parameters) -> Noise:
        """Return how the uniquenesses of a model are tied; those that "auto" shares are equal to the last bit."""
        if self.options.noise not in (AUTO, ANY):
            return Noise(str(self.options.noise))
        noise = parameters.uniquenesses
        if parameters.n_components == 1:
            return Noise.COMPONENT
        if (noise == noise[0]).all():
            return Noise.SHARED
        if self.options.noise == ANY:
            if has_common_loadings(parameters):
                return Noise.COMMON_LOADINGS
            if np.allclose(Noise.SCALED.tied(noise, parameters.weights), noise, rtol=_SAME_SCALE, atol=0.0):
                return Noise.SCALED
        return Noise.COMPONENT


def _with_tails(parameters: Parameters, problem: Problem) -> Parameters:
    """Return a given mixture as one of t components, which keep their degrees of freedom, or of normal ones."""
    degrees, given = problem.degrees_of_freedom, parameters.degrees_of_freedom
    keeps = problem.finds_tails and degrees < np.inf
    return parameters.with_tails(np.where(np.isfinite(given), given, degrees) if keeps else degrees)
