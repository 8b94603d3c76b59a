"""A fit that can be cut off at any moment: a file of its best model, and of all that it takes to go on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import blake2b
from io import BytesIO
from threading import Lock
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from amofa._data.npz import arrays_to_bytes, read_arrays
from amofa._data.row_chunks import Samples
from amofa._model.finalize import warn_caller
from amofa._parameters import FloatArray, Parameters
from amofa._search.constraints import Limits
from amofa._search.init import LabelledRows
from amofa._search.journal import Arrays, Journal, Result
from amofa._search.options import Options
from amofa._search.records import BEST, RecordFile
from amofa._version import __version__
from amofa.io import model_to_bytes
from amofa.mixture import MixtureOfFactorAnalyzers

# Tags of records, beside that of models: which fit it is, and what pieces of its work came to.
_FIT, _WORK = b"fit.", b"work"
# The contents of the latter begin with a digest of so many bytes, of the question that they answer.
_QUESTION_BYTES = 16


@contextmanager
def journal_in(path: str | None, settings: Callable[[], Mapping[str, str]]) -> Iterator[Journal]:
    """The journal of a fit, in a file where there is a path.

    Parameters
    ----------
    path : str, optional
    settings : callable
        Gives what the result of the fit depends on, by the names of the arguments of `fit`.

    Raises
    ------
    OSError
        If the file cannot be opened, or another fit is writing to it.
    ValueError
        If it is no checkpoint, or that of a fit with other settings.
    """
    if path is None:
        yield Journal()
        return
    file = RecordFile(path)
    try:
        yield Checkpoint(path, file, settings())
    finally:
        file.close()


class Checkpoint(Journal):
    """A journal in a file, to which every piece of work is added when it is done, in whichever thread.

    Parameters
    ----------
    path : str
        What messages call the file.
    file : RecordFile
    settings : mapping of str
        See `journal_in`.
    """

    def __init__(self, path: str, file: RecordFile, settings: Mapping[str, str]) -> None:
        self._path, self._file, self._lock = path, file, Lock()
        # As long as there are answers, a search has come to no model that is not in the file.
        self.has_worked = False
        self._best: Callable[[], MixtureOfFactorAnalyzers] | None = None
        # Records that could not be written yet: a later one may be of no use without them.
        self._waiting: list[tuple[bytes, bytes]] = []
        if file.records:
            self._check(settings)
        else:
            file.append(_FIT, json.dumps(dict(settings)).encode())
        self._answers = {file.read(r, _QUESTION_BYTES): r for r in file.records if r.tag == _WORK}
        self._kept = next((record.checksum for record in reversed(file.records) if record.tag == BEST), None)

    def _check(self, settings: Mapping[str, str]) -> None:
        first = self._file.records[0]
        try:
            there = dict(json.loads(self._file.read(first))) if first.tag == _FIT else {}
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damage() from error
        if other := [name for name, value in settings.items() if there.get(name) != value]:
            raise ValueError(
                f"{self._path} is the checkpoint of another fit: {', '.join(other)} "
                f"{'differ' if len(other) > 1 else 'differs'}; delete it or give another path"
            )

    def _damage(self) -> ValueError:
        return ValueError(f"{self._path} is damaged; delete it or give another path")

    def recall(
        self,
        what: Sequence[object],
        about: Sequence[Parameters],
        work: Callable[[], Result],
        pack: Callable[[Result], Arrays],
        unpack: Callable[[Arrays], Result],
        worth: float = 0.0,
    ) -> Result:
        question = _question(what, *about)
        if (record := self._answers.get(question)) is not None:
            with self._lock:
                answer = self._file.read(record)
            try:
                return unpack(read_arrays(BytesIO(answer[_QUESTION_BYTES:])))
            except (MemoryError, OSError):
                raise
            # What somebody has forged can raise nearly anything.
            except Exception as error:
                raise self._damage() from error
        if not self.has_worked:
            # It may have been cut off between an answer and the model. The first to ask for anything new is the search
            # itself, before there are other threads.
            self._write_best()
            self.has_worked = True
        start = time.monotonic()
        result = work()
        if time.monotonic() - start >= worth:
            self._append(_WORK, question + arrays_to_bytes(pack(result)))
        return result

    def keep(self, make_model: Callable[[], MixtureOfFactorAnalyzers]) -> None:
        self._best = make_model
        if self.has_worked:
            self._write_best()

    def end(self, model: MixtureOfFactorAnalyzers) -> None:
        self._best = lambda: model
        self._write_best()

    def _write_best(self) -> None:
        """Put the best model into the file, if it is not there yet."""
        if self._best is None:
            return
        content = model_to_bytes(self._best())
        self._best = None
        if (checksum := crc32(content)) != self._kept:
            self._append(BEST, content)
            self._kept = checksum

    def _append(self, tag: bytes, content: bytes) -> None:
        with self._lock:
            had_failed = bool(self._waiting)
            self._waiting.append((tag, content))
            try:
                while self._waiting:
                    self._file.append(*self._waiting[0])
                    del self._waiting[0]
            except OSError as error:
                if not had_failed:
                    warn_caller(
                        f"the checkpoint {self._path} could not be written ({error.strerror}); "
                        "the fit goes on, and tries again after the next step"
                    )


def _question(what: Sequence[object], *about: Parameters) -> bytes:
    """Says what a piece of work was, so that no other one is taken for it."""
    values = (part for parameters in about for part in (repr(parameters.n_factors).encode(), parameters.buffer))
    return _digest(repr(what).encode(), *values)


def _digest(*contents: Any) -> bytes:
    total = blake2b(digest_size=_QUESTION_BYTES)
    for content in contents:
        total.update(content)
    return total.digest()


# ---- what a fit depends on -------------------------------------------------------------------------------------------


def settings_of(
    table: NDArray[Any],
    weights: FloatArray | None,
    options: Options,
    limits: Limits,
    variances: Mapping[str, float | FloatArray | None],
    init: MixtureOfFactorAnalyzers | LabelledRows | None,
) -> dict[str, str]:
    """All that the result of a fit depends on, by the names of the arguments of `fit`, and the version of amofa.

    Parameters
    ----------
    table : (n, d) ndarray
    weights : (n,) float64, optional
    options : Options
    limits : Limits
    variances : mapping
        Arguments that are one number or one for each column.
    init : MixtureOfFactorAnalyzers or LabelledRows, optional
    """
    chunks = (x for x, _ in Samples(table).chunks())
    return {
        "amofa's version": __version__,
        "X": _digest(repr(table.shape).encode(), *chunks).hex(),
        "sample_weight": _digest_of_values(weights),
        **{name: repr(value) for name, value in (asdict(options) | asdict(limits)).items()},
        **{name: _digest_of_values(values) for name, values in variances.items()},
        "init": _digest_of_init(init),
    }


def _digest_of_values(values: float | FloatArray | None) -> str:
    return "None" if values is None else _digest(np.ascontiguousarray(values, dtype=np.float64)).hex()


def _digest_of_init(init: MixtureOfFactorAnalyzers | LabelledRows | None) -> str:
    if init is None:
        return "None"
    if isinstance(init, LabelledRows):
        return _digest(init.labels).hex()
    return _question(("init",), init._parameters).hex()
