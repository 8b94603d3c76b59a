"""Checkpoints: the state of a search in a file, from which the same fit resumes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._data.block_source import BlockSource
from amofa._data.checks import as_block
from amofa._data.npz import read_arrays, write_arrays
from amofa._data.row_chunks import Samples
from amofa._em.outcome import Outcome
from amofa._model.files import EXTRA, model_arrays
from amofa._search.init import LabelledRows
from amofa._search.options import FitOptions
from amofa._search.state import END, State, from_text, to_text
from amofa._typing import FloatArray
from amofa._version import __version__
from amofa.history import Step
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.warnings import warn_caller

# Names of the arrays that a checkpoint has in addition to those of a model file.
_STATE, _VALUES = EXTRA + "state", EXTRA + "values"

# Makes the caller's model from the outcome of a search and its history.
Conclude = Callable[[Outcome, Sequence[Step]], MixtureOfFactorAnalyzers]


class Checkpoint:
    """The file of a fit: its best model as `amofa.load` reads it, and the state of its search.

    `settings` is everything that the result of the fit depends on, by names of arguments of `fit`; see
    `settings_of_rows` and `settings_of_options`.
    """

    def __init__(self, path: str, settings: Mapping[str, str]) -> None:
        self._path, self._settings = path, settings
        self._state: dict[str, NDArray[Any]] = {}
        self._model: dict[str, NDArray[Any]] = {}
        # The outcome from which the model was made.
        self._made_from: object = None
        self._has_failed = False

    def open(self) -> State:
        """Return the state that an earlier fit has left, or a new one, which is written to the file.

        Raises OSError if the file cannot be read or written, and ValueError if it is not a checkpoint, or that of
        another fit.
        """
        if os.path.exists(self._path) and not os.path.isfile(self._path):
            raise OSError(errno.EINVAL, "not a regular file", self._path)
        if not os.path.exists(self._path) or os.path.getsize(self._path) == 0:
            state = State()
            self._keep(state)
            self._write()
            return state
        state, there = self._read()
        if other := [name for name, value in self._settings.items() if there.get(name) != value]:
            raise ValueError(
                f"{self._path} is the checkpoint of another fit: {', '.join(other)} "
                f"{'differ' if len(other) > 1 else 'differs'}; delete it or give another path"
            )
        self._keep(state)
        return state

    def _read(self) -> tuple[State, dict[str, str]]:
        try:
            arrays = read_arrays(self._path)
        except ValueError:
            arrays = {}
        if _STATE not in arrays:
            raise ValueError(
                f"{self._path} is not a checkpoint of this version of amofa, or is damaged; it is left as it is: give "
                "another path"
            )
        try:
            return from_text(arrays[_STATE].tobytes().decode(), arrays[_VALUES])
        except Exception as error:
            raise ValueError(f"{self._path} is damaged; delete it or give another path") from error

    def save(self, state: State, conclude: Conclude) -> None:
        """Write the state after a step and the best model; warn if that fails, as on a full disk.

        `conclude` makes the model from an outcome and the history.
        """
        self._keep(state)
        self.save_best(state, conclude)

    def save_best(self, state: State, conclude: Conclude) -> None:
        """Write the best model, with the state after the last complete step."""
        has_ended = state.phase == END
        best = state.result if has_ended else state.best
        if best is not None and (has_ended or best is not self._made_from):
            found = best if has_ended else replace(best, converged=False)
            model = conclude(found, state.history)
            self._model = model_arrays(model._parameters, model._report, model._feature_names)
            self._made_from = best
        try:
            self._write()
            self._has_failed = False
        except OSError as error:
            # Warn once, until it can be written again.
            if not self._has_failed:
                warn_caller(
                    f"the checkpoint {self._path} could not be written ({error.strerror}); "
                    "the fit goes on, and tries again after the next step"
                )
            self._has_failed = True

    def _keep(self, state: State) -> None:
        text, values = to_text(state, self._settings)
        self._state = {_STATE: np.frombuffer(text.encode(), np.uint8), _VALUES: values}

    def _write(self) -> None:
        write_arrays(self._path, {**self._model, **self._state})


# ---- what a fit depends on -------------------------------------------------------------------------------------------


def settings_of_rows(table: NDArray[Any], weights: FloatArray | None) -> dict[str, str]:
    """Return what the result of a fit depends on in its rows, by names of arguments of `fit`."""
    chunks = (x for x, _ in Samples(table).chunks())
    return {"X": _digest(repr(table.shape).encode(), *chunks), "sample_weight": _text(weights)}


def settings_of_blocks(source: BlockSource) -> dict[str, str]:
    """Return the same for rows in blocks, whose bounds decide about the last bits of sums."""
    found = source.map(_settings_of_block)
    texts = {name: [each[name].encode() for each in found] for name in found[0]}
    # The same without weights, whatever the number of blocks.
    return {name: _digest(*[text for text in of_blocks if text != b"None"]) for name, of_blocks in texts.items()}


def _settings_of_block(number: int, rows: Any, weights: FloatArray | None) -> dict[str, str]:
    return settings_of_rows(as_block(rows), weights)


def settings_of_options(options: FitOptions, init: MixtureOfFactorAnalyzers | LabelledRows | None) -> dict[str, str]:
    """Return everything else that the result depends on, by names of arguments of `fit`, and the version.

    The options are checked.
    """
    values = options.deciding() | {"init": init}
    return {"amofa's version": __version__} | {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    """Return a short text that differs for different values."""
    if isinstance(value, LabelledRows):
        value = value.labels
    if isinstance(value, MixtureOfFactorAnalyzers):
        parameters = value._parameters
        return _digest(repr(parameters.n_factors).encode(), parameters.buffer)
    return _digest(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else repr(value)


def _digest(*contents: Any) -> str:
    total = blake2b(digest_size=16)
    for content in contents:
        total.update(content)
    return total.hexdigest()
