"""Limit BLAS to one thread while threads of this package work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakSet, ref

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from threadpoolctl import LibController


class _Holder:
    """A holder of the limit of BLAS to one thread."""


# A signal handler may fork or fit while its thread holds it.
_lock = RLock()
# Present holders, in any thread, and the number of threads of each library before the first of them. A holder that
# Ctrl-C kept from releasing BLAS disappears with its last reference, so that the next one to release it does so.
_holders: WeakSet[_Holder] = WeakSet()
_before: list[int] = []
# Holders for which the caller works, including its own.
_own_holders: ContextVar[tuple[ref[_Holder], ...]] = ContextVar("amofa_own_holders", default=())


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit every BLAS of the process to one thread in a ``with`` block, until the last such block ends."""
    libraries = _libraries()
    holder, own = _Holder(), _own_holders.get()
    try:
        with _lock:
            if not _before:
                _before.extend([library.num_threads for library in libraries])
            if not _holders:
                _set_threads([1] * len(libraries))
            _holders.add(holder)
        _own_holders.set((*own, ref(holder)))
        yield
    finally:
        _own_holders.set(own)
        with _lock:
            _holders.discard(holder)
            _restore_unless_held()


def n_other_holders() -> int:
    """Return the number of other holders, without those for which the caller works."""
    return len(_holders) - len(_own())


def _own() -> list[_Holder]:
    own = (holder() for holder in _own_holders.get())
    return [holder for holder in own if holder is not None and holder in _holders]


@cache
def _libraries() -> list[LibController]:
    # Finding the libraries takes nearly a millisecond; setting their threads takes microseconds.
    libraries: list[LibController] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def _set_threads(numbers: list[int]) -> None:
    for library, number in zip(_libraries(), numbers, strict=True):
        # Where threadpoolctl lets one thread alone set the number for all: whoever is last to let go need not be the
        # one who was first to hold it.
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(number)
        release(force=True)


def _restore_unless_held() -> None:
    if not _holders and _before:
        _set_threads(_before)
        _before.clear()


def _after_fork_in_child() -> None:
    """Keep only the holders of the thread that forked, in the forked process."""
    global _lock
    _lock = RLock()
    own = _own()
    _holders.clear()
    _holders.update(own)
    _restore_unless_held()


if hasattr(os, "register_at_fork"):
    # No other thread may be about to set the number of threads: OpenBLAS has a lock for that, which the forked process
    # would wait for without end.
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_after_fork_in_child,
    )
