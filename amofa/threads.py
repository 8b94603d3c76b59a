"""Control of BLAS threads: the blocks handed to BLAS are too small to be worth more than one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Finding the BLAS libraries of the process takes most of a millisecond; limiting those found, a few microseconds.
    return ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold every BLAS of the process to one thread."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
