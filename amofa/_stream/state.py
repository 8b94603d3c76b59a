"""The state of a stream, and how rows change it: plain data, replaced as a whole by each step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amofa._data.checks import n_weighted
from amofa._data.standardize import Coordinates, are_constant, check_range
from amofa._search.options import FitOptions
from amofa._stream.mixture import Frame, RunningMixture
from amofa._stream.sample import SpreadRows
from amofa._stream.structure import first_fit, frame_of, frame_of_model, look, mixture_of_model
from amofa._typing import FloatArray
from amofa.fitting import warn_of_rows
from amofa.history import StreamStep
from amofa.mixture import MixtureOfFactorAnalyzers

# Rows of the warm-up by default, and for each column.
_WARM_UP, _WARM_UP_PER_COLUMN = 1000, 20
# A step takes this share of the rows so far, within bounds: the mixture of the rows before it says whose rows they are,
# so that many at once would be stale, and an M-step for few rows would cost more than their E-step.
_SHARE_OF_ROWS, _LEAST_ROWS, _MOST_ROWS = 8, 32, 4096
# A rival must be better for so many further rows, or as many as there are, unless its lead grows to this, in nats: by
# chance, rows of the present mixture would give it a lead of x nats at any time with a probability of exp(-x) at most.
_TRIAL_ROWS, _CLEAR_LEAD = 20_000, 100.0
# Coordinates are measured again if a standard deviation leaves this range, or a mean is farther from the centre.
_LEAST_SCALE, _MOST_SCALE, _FARTHEST = 0.1, 10.0, 1e3
# Squared distances of farther cells from the centre, in units of the standard deviation, would overflow.
_MOST_UNITS = 1e70


class Block(NamedTuple):
    """Rows of a stream that count."""

    rows: FloatArray  # (n, d), NaN where cells are missing
    weights: FloatArray  # (n,)

    def first(self, n: int) -> tuple[Block, Block]:
        """Return the first rows, and the others."""
        return Block(self.rows[:n], self.weights[:n]), Block(self.rows[n:], self.weights[n:])

    @property
    def row_weights(self) -> FloatArray | None:
        """The weights; None for ones."""
        return None if (self.weights == 1).all() else self.weights

    @property
    def total_weight(self) -> float:
        return float(self.weights.sum())


@dataclass(frozen=True)
class Settings:
    """What a stream was made with."""

    options: FitOptions
    memory: float | None  # rows after which older ones count by a factor of e less
    warm_up: int | None  # rows; always given once the columns are known

    def of_columns(self, n_features: int) -> Settings:
        """Return the settings for a table of so many columns, checked; TypeError or ValueError if they are wrong."""
        options, warm_up = self.options.checked(n_features), self.warm_up
        if warm_up is None:
            warm_up = max(_WARM_UP, _WARM_UP_PER_COLUMN * n_features)
            warm_up = warm_up if self.memory is None else min(warm_up, int(self.memory))
        return replace(self, options=options, warm_up=warm_up)


@dataclass(frozen=True)
class Current:
    """The mixture of a stream after its warm-up, and one that may replace it."""

    frame: Frame
    mixture: RunningMixture
    next_look: int  # number of rows after which the structure is looked at again
    rival: RunningMixture | None = None
    trial_end: int = 0  # number of rows after which the better one of both stays
    lead: float = 0.0  # of the rival, in nats


@dataclass(frozen=True)
class StreamState:
    """A stream between two blocks of rows."""

    waiting: tuple[Block, ...]  # rows for the next step
    sample: SpreadRows
    low: FloatArray  # smallest cell of each column, (d,); infinite without one
    high: FloatArray
    n_rows: int = 0  # number of rows in all steps
    total_weight: float = 0.0  # of these, and of those that a given model had seen
    current: Current | None = None  # None in the warm-up
    history: tuple[StreamStep, ...] = ()
    names: tuple[str, ...] | None = None  # of the columns

    @classmethod
    def of_nothing(cls, n_features: int, memory: float | None, names: tuple[str, ...] | None) -> StreamState:
        nothing = np.full(n_features, np.inf)
        return cls((), SpreadRows.of_nothing(n_features, memory), nothing, -nothing, names=names)

    @classmethod
    def of_model(cls, model: MixtureOfFactorAnalyzers, n_samples: float, settings: Settings) -> StreamState:
        """Return the state after a fit of so many rows, whose structure is looked at as after a warm-up."""
        assert settings.warm_up is not None
        frame = frame_of_model(model, settings.options)
        mixture = mixture_of_model(model, frame, settings.options)
        state = cls.of_nothing(model.n_features, settings.memory, model.feature_names)
        # Columns that varied have no range of less than their scale.
        center, scale = frame.coordinates.center, frame.coordinates.scale
        current = Current(frame, mixture, settings.warm_up)
        state = replace(state, low=center - scale, high=center + scale, total_weight=n_samples, current=current)
        return state.recorded("start")

    @property
    def n_features(self) -> int:
        return len(self.low)

    @property
    def n_waiting(self) -> int:
        return sum(len(block.rows) for block in self.waiting)

    def joined(self) -> Block:
        """Return all rows that wait."""
        rows, weights = zip(*self.waiting, strict=True)
        return Block(np.concatenate(rows), np.concatenate(weights))

    def kept_weight(self, settings: Settings) -> float:
        """Return the weight of the rows so far beside that of the next ones."""
        return self.total_weight if settings.memory is None else min(self.total_weight, settings.memory)

    def kept_rows(self, settings: Settings) -> int:
        """Return the number of rows so far that are not forgotten."""
        return self.n_rows if settings.memory is None else int(min(self.n_rows, settings.memory))

    def recorded(self, action: str, accepted: bool = True, gain: float = 0.0) -> StreamState:
        """Return the state with a further step in its history, of the present mixture."""
        assert self.current is not None
        mixture = self.current.mixture
        step = StreamStep(action, self.total_weight, mixture.parameters.n_factors, gain, accepted)
        return replace(self, history=(*self.history, step))


# ---- steps -----------------------------------------------------------------------------------------------------------


def with_rows(state: StreamState, block: Block, settings: Settings) -> StreamState:
    """Return the state after further rows: those that make up a step are taken, others wait.

    Steps end after the same rows whatever the blocks, and so does the warm-up.
    """
    while True:
        wanted = _step_rows(state, settings) - state.n_waiting
        if wanted > len(block.rows):
            return replace(state, waiting=(*state.waiting, block)) if len(block.rows) else state
        part, block = block.first(wanted)
        state = _step(replace(state, waiting=(*state.waiting, part)), settings)


def _step_rows(state: StreamState, settings: Settings) -> int:
    """Return the number of rows of the next step."""
    if state.current is None:
        assert settings.warm_up is not None
        return settings.warm_up
    return min(max(state.kept_rows(settings) // _SHARE_OF_ROWS, _LEAST_ROWS), _MOST_ROWS)


def _step(state: StreamState, settings: Settings) -> StreamState:
    block = state.joined()
    state = replace(state, waiting=())
    if state.current is None:
        return _warmed_up(state, block, settings, warns=True).recorded("start")
    return _looked_at(_learnt(state, block, settings), settings)


def _warmed_up(state: StreamState, block: Block, settings: Settings, *, warns: bool = False) -> StreamState:
    """Return the state after the first rows."""
    first = first_fit(block.rows, block.row_weights, settings.options)
    if warns:
        warn_of_rows(first.rows, n_weighted(block.row_weights), state.names)
    state = _counted(state, block)
    return replace(state, current=Current(first.frame, first.mixture, 2 * state.n_rows))


def _counted(state: StreamState, block: Block) -> StreamState:
    """Return the state with rows in its sample, counts and ranges."""
    low, high = (
        fold(end, fold.reduce(block.rows, axis=0)) for fold, end in ((np.fmin, state.low), (np.fmax, state.high))
    )
    return replace(
        state,
        sample=state.sample.with_rows(block.rows, block.weights, state.n_rows),
        low=low,
        high=high,
        n_rows=state.n_rows + len(block.rows),
        total_weight=state.total_weight + block.total_weight,
    )


def _learnt(state: StreamState, block: Block, settings: Settings) -> StreamState:
    """Return the state after the rows of a step, which both mixtures are scored on before they learn from them."""
    state = _with_columns(state, block, settings)
    current = state.current
    assert current is not None
    _check_distances(block, current.frame)
    samples = current.frame.coordinates.samples(block.rows, block.row_weights, None)
    weight, after = state.kept_weight(settings), state.kept_weight(settings) + block.total_weight
    keeps = settings.options.n_components is not None

    def learnt(mixture: RunningMixture) -> tuple[float, RunningMixture]:
        score, mixture = mixture.updated(samples, current.frame, weight)
        return score, mixture if keeps else mixture.without_few_rows(after)

    score, mixture = learnt(current.mixture)
    rival, lead = current.rival, current.lead
    if rival is not None:
        other, rival = learnt(rival)
        lead += other - score
    fewer = mixture.n_components < current.mixture.n_components
    state = replace(_counted(state, block), current=replace(current, mixture=mixture, rival=rival, lead=lead))
    return state.recorded("remove") if fewer else state


def _check_distances(block: Block, frame: Frame) -> None:
    columns, coordinates = frame.columns, frame.coordinates
    with np.errstate(over="ignore"):
        far = np.abs(block.rows[:, columns] - coordinates.center[columns]) > _MOST_UNITS * coordinates.scale[columns]
    if far.any():
        i, j = np.argwhere(far)[0]
        raise ValueError(
            f"column {columns[j]} of X has {block.rows[i, columns[j]]:g}, which is out of all proportion to the rows "
            "so far; drop such rows"
        )


# ---- coordinates -----------------------------------------------------------------------------------------------------


def _with_columns(state: StreamState, block: Block, settings: Settings) -> StreamState:
    """Return the state in coordinates with the columns that vary for the first time in a block of rows."""
    current = state.current
    assert current is not None
    after = _counted(state, block)
    check_range(after.low, after.high)
    new = ~are_constant(after.low, after.high) & current.frame.coordinates.constant
    if not new.any():
        return state
    unseen, old = state.low > state.high, current.frame.coordinates
    center, scale = old.center.copy(), old.scale.copy()
    for j in np.flatnonzero(new).tolist():
        earlier = 0.0 if unseen[j] else state.kept_weight(settings)
        center[j], scale[j] = _moments_with(block, j, float(old.center[j]), earlier)
    frame = frame_of(Coordinates(center, scale, scale), settings.options, current.frame)
    return _in_frame(state, frame, "columns", unseen)


def _moments_with(block: Block, j: int, constant: float, weight: float) -> tuple[float, float]:
    """Return mean and standard deviation of a column in a block, together with rows in which it was constant."""
    seen = ~np.isnan(block.rows[:, j])
    cells, weights = block.rows[seen, j], block.weights[seen]
    total = weight + weights.sum()
    center = constant + float(weights @ (cells - constant)) / total if weight else float(weights @ cells) / total
    spread = max(float(np.abs(cells - center).max()), abs(constant - center) if weight else 0.0)
    squares = weights @ ((cells - center) / spread) ** 2
    if weight:
        squares += weight * ((constant - center) / spread) ** 2
    return center, spread * float(np.sqrt(squares / total))


def _in_frame(state: StreamState, frame: Frame, action: str, unseen: NDArray[np.bool_] | None = None) -> StreamState:
    """Return the state in other coordinates."""
    current = state.current
    assert current is not None
    mixture, rival = (
        None if each is None else each.reframed(current.frame, frame, unseen)
        for each in (current.mixture, current.rival)
    )
    assert mixture is not None
    return replace(state, current=replace(current, frame=frame, mixture=mixture, rival=rival)).recorded(action)


def _rescaled(state: StreamState, settings: Settings) -> StreamState:
    """Return the state in coordinates that fit the rows so far, if the present ones do not."""
    current = state.current
    assert current is not None
    mean, deviation = current.mixture.overall()
    fits = (deviation >= _LEAST_SCALE) & (deviation <= _MOST_SCALE) & (np.abs(mean) <= _FARTHEST)
    if fits.all():
        return state
    old, columns = current.frame.coordinates, current.frame.columns
    center, scale = old.center.copy(), old.scale.copy()
    center[columns] += scale[columns] * mean
    scale[columns] *= deviation
    frame = frame_of(Coordinates(center, scale, scale), settings.options, current.frame)
    return _in_frame(state, frame, "rescale")


# ---- structure -------------------------------------------------------------------------------------------------------


def _looked_at(state: StreamState, settings: Settings) -> StreamState:
    """Return the state after the end of a trial or a look at the structure, if it is time for one."""
    state = _rescaled(state, settings)
    current = state.current
    assert current is not None
    if current.rival is not None and (state.n_rows >= current.trial_end or current.lead > _CLEAR_LEAD):
        state, current = _after_trial(state, current, current.rival)
    if current.rival is None and state.n_rows >= current.next_look:
        return _with_rival(state, current, settings)
    return state


def _after_trial(state: StreamState, current: Current, rival: RunningMixture) -> tuple[StreamState, Current]:
    """Return the state with the better one of two mixtures."""
    accepted = current.lead > 0
    after = replace(current, rival=None)
    if accepted:
        # What has changed once may have to change further.
        after = replace(after, mixture=rival, next_look=state.n_rows)
    return replace(state, current=after).recorded("trial", accepted, current.lead), after


def _with_rival(state: StreamState, current: Current, settings: Settings) -> StreamState:
    kept = state.kept_rows(settings)
    found = look(state.sample, current.frame, current.mixture, settings.options, state.kept_weight(settings))
    return replace(
        state,
        current=Current(
            found.frame,
            found.mixture,
            next_look=state.n_rows + kept,
            rival=found.rival,
            trial_end=state.n_rows + min(kept, _TRIAL_ROWS),
        ),
    )


# ---- the mixture that is shown ---------------------------------------------------------------------------------------


def shown(state: StreamState, settings: Settings) -> tuple[Frame, RunningMixture]:
    """Return the mixture of all rows so far, with those that wait; ValueError if there are none.

    In the warm-up it is fitted to them.
    """
    if state.waiting:
        block = state.joined()
        state = (_warmed_up if state.current is None else _learnt)(state, block, settings)
    elif state.current is None:
        raise ValueError("the stream has no rows yet; call update with some first")
    current = state.current
    assert current is not None
    weight = state.kept_weight(settings)
    return current.frame, current.mixture.polished(current.frame, weight)
