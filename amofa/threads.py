"""Control of BLAS threads: the blocks handed to BLAS are too small to be worth more than one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

_lock = Lock()
# Fits under way in any thread, and what undoes the limit that the first of them set.
_depth = 0
_restore = ExitStack()


@cache
def _controller() -> ThreadpoolController:
    # Finding the BLAS libraries of the process takes most of a millisecond; limiting those found, a few microseconds.
    return ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold every BLAS of the process to one thread, until the last of those who asked for it is done."""
    global _depth
    with _lock:
        if _depth == 0:
            _restore.enter_context(_controller().limit(limits=1, user_api="blas"))
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _restore.close()
