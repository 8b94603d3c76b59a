"""The number of threads: limits, defaults, and available cores."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from amofa._parallel.blas import n_other_holders

# The number by `use_threads`, or a worker's share of it; None means the default.
wanted_threads: ContextVar[int | None] = ContextVar("amofa_threads", default=None)
# What threadpoolctl allows, whatever is wanted: see `amofa._parallel.threadpool`. None means no limit.
thread_limit: ContextVar[int | None] = ContextVar("amofa_thread_limit", default=None)


@contextmanager
def use_threads(n_threads: int | None = None) -> Iterator[None]:
    """Limit the number of threads within a ``with`` block.

    Parameters
    ----------
    n_threads : int, optional
        At least 1; not checked here. None changes nothing: the limit of an outer block, or `default_threads`, stays.

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
    """Return the number of threads that the caller may use."""
    wanted, limit = wanted_threads.get(), thread_limit.get()
    if wanted is None:
        return default_threads()
    return wanted if limit is None else min(wanted, limit)


def default_threads() -> int:
    """Return the default number of threads.

    This is one for each core that the process may use, but at most the environment variable OMP_NUM_THREADS, which
    joblib sets in its workers, and what `threadpoolctl.threadpool_limits` allows. Fits that run in several threads at
    the same time share them. A process that `multiprocessing` has started has one, since there are others.
    """
    most, limit = most_threads(), thread_limit.get()
    return max(1, (most if limit is None else min(most, limit)) // (n_other_holders() + 1))


def most_threads() -> int:
    """Return the default number of threads of a fit that is alone and has no limit."""
    # Imported late, as what only some uses need.
    from multiprocessing import parent_process

    if parent_process() is not None:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    limit = int(given) if given.isdecimal() and int(given) else math.inf
    return int(min(available_cores(), limit))


def available_cores() -> int:
    """Return the number of cores that the process may use, by its affinity and the quota of its control group."""
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
    # Limits of outer groups apply, too. In a container, the path may lead out of what is mounted.
    groups = [base / line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    folders = [f for group in groups for f in (group, *group.parents) if f.is_relative_to(base)]
    return min(map(_group_quota, folders), default=math.inf)


def _group_quota(folder: Path) -> float:
    try:
        limit, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return math.inf
    return math.inf if limit == "max" else int(limit) / int(period)
