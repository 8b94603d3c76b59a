"""Threads: how many there may be, work done side by side, and BLAS held to one thread meanwhile.

Work is cut into items in a way that does not depend on the number of threads, and results are taken in the order of
the items: so threads change no bit of a result.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from contextvars import Context, ContextVar, copy_context
from functools import cache, partial
from multiprocessing import parent_process
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, local
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from threadpoolctl import ThreadpoolController

from amofa._kernels._scope import Scope
from amofa._parallel.blas_memory import check_room, is_scarce, room_for, take_buffers

if TYPE_CHECKING:
    from threadpoolctl import LibController

Item = TypeVar("Item")
Result = TypeVar("Result")

# What `use_threads` asked for, or, inside a part of the work, the part's share of it; None for what there is.
_wanted: ContextVar[int | None] = ContextVar("amofa_threads", default=None)

# ---- how many --------------------------------------------------------------------------------------------------------


def use_threads(n_threads: int | None = None) -> Scope:
    """Let everything in a ``with`` block use so many threads at most.

    Parameters
    ----------
    n_threads : int, optional
        At least 1; not checked here. None changes nothing: outside of all such blocks as many as `default_threads`
        says, inside of one what that says.

    Examples
    --------
    >>> with use_threads(1):
    ...     n_threads()
    1
    """
    before = _wanted.get()
    wanted = before if n_threads is None else n_threads
    return Scope(lambda: _wanted.set(wanted), lambda: _wanted.set(before))


def n_threads() -> int:
    """How many threads may work for whoever asks."""
    wanted = _wanted.get()
    return default_threads() if wanted is None else wanted


def default_threads() -> int:
    """How many threads there are without a word from the user.

    One for each core that the process may use, and not more than the environment variable OMP_NUM_THREADS says, which
    joblib sets in its workers. Fits under way in several threads share them. A process that `multiprocessing` has
    started has one: there are others beside it.
    """
    if parent_process() is not None:
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    most = int(given) if given.isdecimal() and int(given) else math.inf
    callers = len(_holds) - len(_own_holds.get()) + 1
    return max(1, int(min(available_cores(), most)) // callers)


def available_cores() -> int:
    """Cores that the process may use: its affinity, and whole cores of the time that control groups leave it."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not everywhere
        cores = os.cpu_count() or 1
    return max(1, int(min(cores, _cached_quota())))


@cache
def _cached_quota() -> float:
    return cgroup_quota(Path("/"))


def cgroup_quota(root: Path) -> float:
    """Seconds of processor time for each second that control groups leave to this process; infinity without limit.

    Parameters
    ----------
    root : Path
        Of the file system.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return math.inf
    quota = math.inf
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            base, read = root / "sys/fs/cgroup", _quota_of_v2
        elif "cpu" in controllers.split(","):
            base, read = root / "sys/fs/cgroup/cpu", _quota_of_v1
        else:
            continue
        # A limit of any group above holds as well. In a container the path may lead out of what is mounted there.
        folder = base / group.lstrip("/")
        quota = min(quota, *(read(f) for f in (folder, *folder.parents) if f.is_relative_to(base)))
    return quota


def _quota_of_v2(folder: Path) -> float:
    try:
        limit, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return math.inf
    return math.inf if limit == "max" else int(limit) / int(period)


def _quota_of_v1(folder: Path) -> float:
    try:
        limit = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return math.inf
    return limit / period if limit > 0 else math.inf


# ---- side by side ----------------------------------------------------------------------------------------------------


def in_order(make_worker: Callable[[], Callable[[Item], Result]], items: Sequence[Item]) -> Iterable[Result]:
    """What a worker makes of each item, in the order of the items, with as many threads as there may be.

    Parameters
    ----------
    make_worker : callable
        Called once in each thread; what it returns is called with items one after the other. What must not be shared
        between threads, like work arrays, is made in it.
    items : sequence

    Returns
    -------
    iterable
        With one thread an item is worked on when its result is asked for, and not before. With more, all have been.

    Raises
    ------
    Exception
        Whatever a worker raises, after all threads have stopped.

    Examples
    --------
    >>> list(in_order(lambda: str, [1, 2, 3]))
    ['1', '2', '3']
    """
    n = min(n_threads(), len(items)) if len(items) > 1 else 1
    return map(make_worker(), items) if n < 2 else _Crew(make_worker, items, n).run()


class _Crew:
    """Threads that work on the same items, the caller's among them."""

    def __init__(
        self, make_worker: Callable[[], Callable[[Any], Result]], items: Sequence[Any], n_threads_: int
    ) -> None:
        self.make_worker, self.items, self.size = make_worker, items, n_threads_
        # A worker that has work for several threads itself gets its share of them.
        self.share = max(1, n_threads() // n_threads_)
        self.results: list[Any] = [None] * len(items)
        self.numbers = iter(range(len(items)))
        self.lock = Lock()
        # The crew on whose behalf this one works, and whether anybody still waits for its results.
        self.outer, self.is_abandoned = _crew.get(), False
        # Helpers that have begun, those that have ended, what they ended with, and a bell that they ring then.
        self.begun, self.is_over = 0, False
        self.ended: list[BaseException | None] = []
        self.bell: SimpleQueue[None] = SimpleQueue()

    def run(self) -> list[Any]:
        with nullcontext() if _own_holds.get() else single_blas_thread(), Scope(self.start, self.finish):
            try:
                copy_context().run(self.work)
            except BaseException:
                self.is_abandoned = True
                raise
        failures = [failure for failure in self.ended if failure is not None]
        if failures:
            self.ended.clear()
            try:
                raise failures[0]
            finally:
                # Or it would hold on to itself, by its traceback, and to all that was worked on.
                failures.clear()
        return self.results

    def start(self) -> None:
        n_helpers = self.size - 1
        if _is_scarce:
            n_helpers = room_for(n_helpers, _openblas_copies())
        _call_helpers(self.help, n_helpers, self.size * self.share - 1)

    def help(self, context: Context, helper: _Helper) -> None:
        """What a helper does."""
        with self.lock:
            begins = not self.is_over
            self.begun += begins
        failure = None
        if begins:
            try:
                context.run(self.work)
            except BaseException as error:
                failure = error
        try:
            # Before the caller goes on, who may want it again at once.
            _give_back(helper)
        finally:
            if begins:
                self.ended.append(failure)
                self.bell.put(None)

    def finish(self) -> None:
        # Helpers that have not begun have nothing left to do; the others write to what the caller owns.
        with self.lock:
            self.is_over, self.numbers = True, iter(range(0))
        while len(self.ended) < self.begun:
            self.bell.get()

    def work(self) -> None:
        _wanted.set(self.share)
        _crew.set(self)
        try:
            worker = self.make_worker()
            while (number := self.take()) is not None:
                self.results[number] = worker(self.items[number])
        except BaseException:
            with self.lock:
                self.numbers = iter(range(0))
            raise

    def take(self) -> int | None:
        with self.lock:
            return next(self.numbers, None)


# The crew that this thread works in.
_crew: ContextVar[_Crew | None] = ContextVar("amofa_crew", default=None)


def is_abandoned() -> bool:
    """Whether nobody waits any more for the work that this thread is at."""
    crew = _crew.get()
    while crew is not None and not crew.is_abandoned:
        crew = crew.outer
    return crew is not None


class OneEach(Generic[Result]):
    """Something that threads must not share, made for each when it first asks.

    Parameters
    ----------
    make : callable
        Makes one.
    """

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make, self._local = make, local()

    def get(self) -> Result:
        """That of this thread."""
        try:
            found: Result = self._local.found
        except AttributeError:
            found = self._local.found = self._make()
        return found


# ---- helpers ---------------------------------------------------------------------------------------------------------

# A thread that helps, by the queue from which it gets what to do. It is not one of `concurrent.futures`, where an
# interrupt that comes while work is handed over leaves locks that all later work waits for: this kind of queue is all
# in C, and cannot be left half-way.
_Helper = SimpleQueue[Callable[[], None]]
_idle: list[_Helper] = []
_n_helpers = 0


def _call_helpers(task: Callable[[Context, _Helper], None], n_wanted: int, n_in_all: int) -> None:
    """Have idle helpers do a task, each in a copy of the caller's context: NumPy keeps its error state there.

    Parameters
    ----------
    task : callable
        Called with the context and the helper, which it has to give back.
    n_wanted : int
        How many helpers at most.
    n_in_all : int
        How many there may be: one that is on its way back from a task is not idle yet, and need not be replaced.
    """
    with _lock:
        _start_helpers(n_wanted, n_in_all)
        for _ in range(min(n_wanted, len(_idle))):
            # In this order: an interrupt in between is nothing to a helper that is given back twice.
            _idle[-1].put(partial(task, copy_context(), _idle[-1]))
            _idle.pop()


def _start_helpers(n_wanted: int, n_in_all: int) -> None:
    global _n_helpers
    try:
        while len(_idle) < n_wanted and _n_helpers < n_in_all:
            helper: _Helper = SimpleQueue()
            Thread(target=_serve, args=(helper,), name=f"amofa_{_n_helpers}", daemon=True).start()
            _idle.append(helper)
            _n_helpers += 1
    except (RuntimeError, MemoryError):
        # No thread can be started, as where the interpreter is about to end: the caller goes on with what there is.
        pass


def _serve(helper: _Helper) -> None:
    while True:
        helper.get()()


def _give_back(helper: _Helper) -> None:
    with _lock:
        if helper not in _idle:
            _idle.append(helper)


# ---- BLAS ------------------------------------------------------------------------------------------------------------

_lock = Lock()
# Those who hold BLAS to one thread at the moment, in any thread, and the libraries with what they had before.
_holds: set[object] = set()
_held: list[tuple[LibController, int]] = []
# Whether the process could have little more memory when the last of them came.
_is_scarce = False
# Which of them are the one who asks, or those on whose behalf it works.
_own_holds: ContextVar[tuple[object, ...]] = ContextVar("amofa_own_holds", default=())


@cache
def _controller() -> ThreadpoolController:
    # Finding the BLAS libraries of the process takes most of a millisecond; limiting those found, a few microseconds.
    return ThreadpoolController()


def _openblas_copies() -> int:
    return sum(library.internal_api == "openblas" for library in _controller().lib_controllers)


def _have_buffers() -> None:
    """See to it that OpenBLAS has memory for the caller: it would end the process."""
    global _is_scarce
    _is_scarce = is_scarce()
    if _is_scarce:
        take_buffers(_openblas_copies())
        if _holds:
            check_room(_openblas_copies())


def _hold_blas() -> None:
    for library in _controller().lib_controllers:
        if library.user_api == "blas":
            _held.append((library, library.get_num_threads()))
            _set_threads(library, 1)


def _release_blas() -> None:
    # An interrupt between two steps of this has it done once more.
    while _held:
        _set_threads(*_held[-1])
        _held.pop()


def _set_threads(library: LibController, number: int) -> None:
    # Whoever comes first sets the limit and whoever leaves last undoes it, which need not be the same thread. Later
    # versions of threadpoolctl let only one thread set that of OpenBLAS, and ignore the others without a word.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)


def single_blas_thread() -> Scope:
    """Hold every BLAS of the process to one thread in a ``with`` block, until the last of those who do so is done.

    The block is not entered, with a MemoryError, where OpenBLAS could not have the memory that it needs.
    """
    hold, before = object(), _own_holds.get()

    def enter() -> None:
        # Which takes long the first time: not while others wait.
        _controller()
        with _lock:
            if not _holds:
                _hold_blas()
            _have_buffers()
            _holds.add(hold)
        _own_holds.set((*before, hold))

    def leave() -> None:
        _own_holds.set(before)
        with _lock:
            _holds.discard(hold)
            if not _holds:
                _release_blas()

    return Scope(enter, leave)


def _start_afresh() -> None:
    """In a forked process: it has none of the threads, and of those who hold BLAS only the one who forked."""
    global _lock, _idle, _n_helpers, _holds
    _lock, _idle, _n_helpers, _holds = Lock(), [], 0, set(_own_holds.get())
    if not _holds:
        _release_blas()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
