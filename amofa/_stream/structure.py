"""Searches on rows of a stream: for the first mixture, and for others that may replace the present one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.deduplicate import merge_repeats
from amofa._data.incomplete import samples_of
from amofa._data.row_chunks import Samples
from amofa._data.standardize import Coordinates, Standardized
from amofa._em.factor_analysis import Covariance
from amofa._em.outcome import Outcome
from amofa._kernels._factor_analysis import Solver
from amofa._model.finalize import in_canonical_order
from amofa._noise import Noise
from amofa._parameters import Parameters
from amofa._search.families import Family
from amofa._search.init import parameters_of_model
from amofa._search.monitor import Monitor
from amofa._search.options import AUTO, FitOptions
from amofa._search.paper_moves import with_tied_noise
from amofa._search.state import END, State
from amofa._search.task import Task
from amofa._stream.mixture import Frame, RunningMixture, put_together
from amofa._stream.sample import SpreadRows
from amofa._typing import FloatArray
from amofa.mixture import MixtureOfFactorAnalyzers

# Components are the same if the cosine of their responsibilities in the sample is above this.
_SAME = 0.98
# So do degrees of freedom that differ by less than this share.
_SAME_TAILS = 0.1


@dataclass(frozen=True)
class FirstFit:
    """The mixture of the first rows of a stream."""

    rows: Standardized[Samples]
    frame: Frame
    mixture: RunningMixture


def first_fit(table: NDArray[Any], weights: FloatArray | None, options: FitOptions) -> FirstFit:
    """Fit a mixture to the first rows; columns that follow from others stay, as they may not do so later."""
    weights = None if weights is None else weights * _scale_of_evidence(weights)
    rows = Standardized.of(*merge_repeats(table, weights), by_body=True)
    task = Task.of(rows, options, None, None)
    frame = _frame_of(task)
    found = in_canonical_order(_search(task).parameters)
    mixture = _with_moments(task.noise_of(found), found, rows.samples, frame)
    return FirstFit(rows, frame, mixture.polished(frame, rows.samples.total_weight))


def _scale_of_evidence(weights: FloatArray) -> float:
    """Return a factor that brings the mean of row weights down to 1: larger ones do not make rows show more.

    If they did, each row would be worth a component of its own.
    """
    return 1.0 / max(1.0, float(weights.mean()))


def _frame_of(task: Task) -> Frame:
    return Frame(task.rows.coordinates, task.floor, task.prior, task.steps)


def _search(task: Task) -> Outcome:
    """Run a search to its end."""
    state = State()
    if task.rows.samples.n_features == 0:
        task.end_at_once(state)
        assert state.result is not None
        return state.result
    search = task.search(state, Monitor(state, task.rows.samples, task.options.constraints))
    while state.phase != END:
        search.step()
    return search.result


def _with_moments(noise: Noise, parameters: Parameters, samples: Samples, frame: Frame) -> RunningMixture:
    K, c = parameters.n_components, parameters.n_features
    mixture = RunningMixture(noise, parameters, np.zeros((K, c, c)), np.ones(K))
    return mixture.of_rows(samples, frame) if c else mixture


# ---- coordinates -----------------------------------------------------------------------------------------------------


def frame_of(coordinates: Coordinates, options: FitOptions, old: Frame | None = None) -> Frame:
    """Return coordinates with smallest uniquenesses and a prior that are made for them.

    Those of columns that varied in the old coordinates are never raised: a group may be narrower than all rows.
    """
    task = Task.of(_no_rows(coordinates), options, None, None)
    if old is None:
        return _frame_of(task)
    varied = ~old.coordinates.constant
    floor = np.where(varied, np.minimum(task.floor, old.floor), task.floor)
    return Frame(coordinates, floor, replace(task.prior, floor=coordinates.shares(floor)))


def _no_rows(coordinates: Coordinates) -> Standardized[Samples]:
    table = np.zeros((0, len(coordinates.scale)))
    return Standardized(Samples(table), coordinates, coordinates.samples(table, None, None), ())


def frame_of_model(model: MixtureOfFactorAnalyzers, options: FitOptions) -> Frame:
    """Return coordinates in which columns of a model that are not constant have mean 0 and standard deviation 1."""
    report = model._report
    overall = RunningMixture.of_parameters(Noise.COMPONENT, model._parameters).overall()
    center, scale = overall[0], overall[1].copy()
    if report is not None and report.constant is not None:
        scale[report.constant] = 0.0
    return frame_of(Coordinates(center, scale, scale), options)


def mixture_of_model(model: MixtureOfFactorAnalyzers, frame: Frame, options: FitOptions) -> RunningMixture:
    """Return a model as a running mixture, as if it described the rows of its fit perfectly."""
    if not len(frame.columns):
        return RunningMixture(Noise.COMPONENT, Outcome.of_no_columns().parameters, np.zeros((1, 0, 0)), np.ones(1))
    parameters = parameters_of_model(model, frame.coordinates, frame.prior.floor, options.constraints.most_factors)
    same = bool((parameters.uniquenesses == parameters.uniquenesses[0]).all())
    noise = Noise(str(options.noise)) if options.noise != AUTO else Noise.SHARED if same else Noise.COMPONENT
    return RunningMixture.of_parameters(noise, with_tied_noise(parameters, noise))


# ---- another structure -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What a look at the sample finds: new coordinates, the present mixture in them, and one that may replace it."""

    frame: Frame
    mixture: RunningMixture
    rival: RunningMixture | None


def look(sample: SpreadRows, frame: Frame, mixture: RunningMixture, options: FitOptions, weight: float) -> Look:
    """Search the sample from the present mixture, which has seen rows of this weight.

    What has changed gets its moments from the sample, and other components keep those of all rows. So do numbers of
    factors: a component of many rows can pay for more of them than its rows in the sample.
    """
    scale = _scale_of_evidence(sample.weights)
    weight *= scale
    weights = None if (sample.weights == 1).all() else sample.weights * scale
    distinct = merge_repeats(sample.rows, weights)
    rows = Standardized.of(*distinct, by_body=True)
    measured = _frame_of(Task.of(rows, options, None, None))
    if np.array_equal(measured.columns, frame.columns):
        mixture, frame = mixture.reframed(frame, measured), measured
    else:
        # Some column is constant in the sample, and not in the stream.
        whole = samples_of(*distinct[:1], weights=distinct[1])
        rows = Standardized(whole, frame.coordinates, frame.coordinates.samples(*distinct, None), ())
    if not len(frame.columns):
        return Look(frame, mixture, None)
    model = MixtureOfFactorAnalyzers._from_fit(frame.coordinates.restore(mixture.parameters, frame.floor))
    # Shared noise that cost more than separate noise on few rows costs still more on many.
    is_separate = mixture.n_components > 1 and mixture.noise is Noise.COMPONENT
    noise = Noise.COMPONENT if is_separate else options.noise
    task = Task(rows, replace(options, init=model, noise=noise), frame.floor, frame.prior, frame.steps, None, model)
    found = _search(task).parameters
    noise = task.noise_of(found) if found.n_components > 1 else mixture.noise
    other = _with_moments(noise, found, rows.samples, frame)
    same = _same_components(mixture, other, rows.samples)
    # Components keep their order, so that their numbers mean the same; new ones come last.
    order = sorted(range(len(same)), key=lambda k: (same[k] < 0, same[k], k))
    other, same = other.some(order), [same[k] for k in order]
    rival = _rival(mixture, other, same, task, weight).polished(frame, weight)
    return Look(frame, mixture, rival if _differs(rival, mixture, same) else None)


def _same_components(mixture: RunningMixture, other: RunningMixture, samples: Samples) -> list[int]:
    """Return the number of the component of a mixture that each one of another mixture is, or -1."""
    shares, others = (samples.responsibilities(each.parameters) for each in (mixture, other))
    lengths = np.outer(np.linalg.norm(others, axis=1), np.linalg.norm(shares, axis=1))
    cosines = others @ shares.T / np.where(lengths > 0, lengths, 1.0)
    nearest = cosines.argmax(axis=1)
    same: list[int] = np.where(cosines.max(axis=1) > _SAME, nearest, -1).tolist()
    return same


def _rival(
    mixture: RunningMixture, other: RunningMixture, same: list[int], task: Task, weight: float
) -> RunningMixture:
    """Return another mixture with the moments of all rows in components that are those of the present one."""
    samples, options = task.rows.samples, task.options
    solver = Solver(samples.n_features)
    parts = []
    for k, j in enumerate(same):
        component, covariance, share = other.parameters.component(k), other.covariances[k], other.tail_shares[k]
        if j >= 0:
            old, covariance, share = mixture.parameters.component(j), mixture.covariances[j], mixture.tail_shares[j]
            component = component._replace(weight=old.weight, mean=old.mean)
            if options.n_factors is None and samples.is_complete and component.degrees_of_freedom == np.inf:
                choice = task.problem(Family(other.noise), weight).choice
                best = choice.best(
                    weight * old.weight,
                    Covariance(covariance, solver),
                    component.uniquenesses,
                    len(component.loadings),
                )
                component = component._replace(loadings=best.loadings, uniquenesses=best.uniquenesses)
        parts.append((component, covariance, float(share)))
    return put_together(other.noise, parts)


def _differs(rival: RunningMixture, mixture: RunningMixture, same: list[int]) -> bool:
    """Return whether a rival has another structure, or components that are elsewhere."""
    if -1 in same or len(set(same)) != mixture.n_components or rival.noise is not mixture.noise:
        return True
    present, degrees = mixture.parameters.n_factors, mixture.parameters.degrees_of_freedom[same]
    numbers = tuple(present[j] for j in same)
    has_same_tails = np.allclose(rival.parameters.degrees_of_freedom, degrees, rtol=_SAME_TAILS)
    return rival.parameters.n_factors != numbers or not has_same_tails
