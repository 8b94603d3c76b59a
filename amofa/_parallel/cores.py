"""How many threads may work."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from multiprocessing import parent_process
from pathlib import Path

from amofa._parallel.blas import n_other_holders

# What `use_threads` asked for, or, inside a part of some work, the part's share of it; None for the default.
wanted_threads: ContextVar[int | None] = ContextVar("amofa_threads", default=None)


@contextmanager
def use_threads(n_threads: int | None = None) -> Iterator[None]:
    """Limit the number of threads within a ``with`` block.

    Parameters
    ----------
    n_threads : int, optional
        At least 1; not checked here. None changes nothing: the limit of the block around this one, or
        `default_threads`, holds.

    Examples
    --------
    >>> with use_threads(1):
    ...     n_threads()
    1
    """
    before = wanted_threads.get()
    try:
        if n_threads is not None:
            wanted_threads.set(n_threads)
        yield
    finally:
        wanted_threads.set(before)


def n_threads() -> int:
    """Return how many threads the caller may use."""
    wanted = wanted_threads.get()
    return default_threads() if wanted is None else wanted


def default_threads() -> int:
    """Return the default number of threads.

    One for each core that the process may use, but no more than the environment variable OMP_NUM_THREADS says, which
    joblib sets in its workers. Fits that run in several threads at the same time share them. A process that
    `multiprocessing` has started has one, since there are others beside it.
    """
    if parent_process() is not None:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    limit = int(given) if given.isdecimal() and int(given) else math.inf
    return max(1, int(min(available_cores(), limit)) // (n_other_holders() + 1))


def available_cores() -> int:
    """Return how many cores the process may use: its affinity, or whole cores of its control group's quota if less."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        cores = os.cpu_count() or 1
    return max(1, int(min(cores, _cached_quota())))


@cache
def _cached_quota() -> float:
    return cgroup_quota(Path("/"))


def cgroup_quota(root: Path) -> float:
    """Return the seconds of processor time per second that control groups (version 2) leave; infinity without limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return math.inf
    base = root / "sys/fs/cgroup"
    # A limit of any group above holds as well. In a container the path may lead out of what is mounted there.
    groups = [base / line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    folders = [f for group in groups for f in (group, *group.parents) if f.is_relative_to(base)]
    return min(map(_group_quota, folders), default=math.inf)


def _group_quota(folder: Path) -> float:
    try:
        limit, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return math.inf
    return math.inf if limit == "max" else int(limit) / int(period)
