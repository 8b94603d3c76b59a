"""Work shared among threads.

Work is divided into items independently of the number of threads, and results are used in the order of the items, so
that threads do not change a bit of a result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from queue import SimpleQueue
from threading import Lock, local
from typing import Any, Generic, Protocol, TypeVar

from amofa._parallel.blas import single_blas_thread
from amofa._parallel.cores import n_threads, wanted_threads

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(make_worker: Callable[[], Callable[[Item], Result]], items: Sequence[Item]) -> Iterable[Result]:
    """Return the results of a worker for each item, in the order of the items, using the available threads.

    `make_worker` is called once in each thread; what it returns is called with items one after the other. What must not
    be shared between threads, like work arrays, is made in it. With one thread an item is worked on when its result is
    asked for, and not before; with more, all have been. Whatever a worker raises is raised after all threads have
    stopped.

    Examples
    --------
    >>> list(in_order(lambda: str, [1, 2, 3]))
    ['1', '2', '3']
    """
    n = min(n_threads(), len(items)) if len(items) > 1 else 1
    return map(make_worker(), items) if n < 2 else _Task(make_worker, items, n).run()


class Executor(Protocol):
    """Who works on independent items: the threads of this process, or other processes.

    These need a `make_worker` and items that can be pickled.
    """

    def in_order(self, make_worker: Callable[[], Callable[[Item], Result]], items: Sequence[Item]) -> Iterable[Result]:
        """Return the results of a worker for each item, in the order of the items, as the function `in_order`."""


class _Threads:
    """The threads of this process."""

    def in_order(self, make_worker: Callable[[], Callable[[Item], Result]], items: Sequence[Item]) -> Iterable[Result]:
        return in_order(make_worker, items)


THREADS: Executor = _Threads()


class OneEach(Generic[Result]):
    """An object for each thread, made when the thread first asks for it; pickled, it has none yet."""

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make, self._local = make, local()

    def __reduce__(self) -> tuple[type[OneEach[Result]], tuple[Callable[[], Result]]]:
        return OneEach, (self._make,)

    def get(self) -> Result:
        """Return the object of the calling thread."""
        try:
            found: Result = self._local.found
        except AttributeError:
            found = self._local.found = self._make()
        return found


def is_abandoned() -> bool:
    """Return whether the work of this thread is no longer needed, as after Ctrl-C."""
    task = _task.get()
    while task is not None and not task.is_abandoned:
        task = task.outer
    return task is not None


class _Task:
    """Items that several threads work on, the caller and its helpers.

    The caller waits for the helpers that have started; one that comes late does nothing. So nested work cannot get
    stuck if all threads of the pool are busy.
    """

    def __init__(self, make_worker: Callable[[], Callable[[Any], Any]], items: Sequence[Any], size: int) -> None:
        self.make_worker, self.items, self.size = make_worker, items, size
        # A worker that itself has work for several threads gets its share of them.
        self.share = max(1, n_threads() // size)
        outer = self.outer = _task.get()
        self.pool: ThreadPoolExecutor = outer.pool if outer is not None else _own_pool(n_threads() - 1)
        self.results: list[Any] = [None] * len(items)
        self.left = deque(range(len(items)))
        self.is_abandoned = False
        # The number of helpers that have started, their results, and a queue that tells of their ends.
        self.lock, self.n_begun, self.is_over = Lock(), 0, False
        self.ends: list[BaseException | None] = []
        self.bell: SimpleQueue[None] = SimpleQueue()

    def run(self) -> list[Any]:
        with single_blas_thread():
            try:
                self.call_helpers()
                copy_context().run(self.work)
                self.finish()
            except BaseException as error:
                self.is_abandoned = True
                if self.outer is None and not isinstance(error, Exception):
                    # Ctrl-C may have interrupted the pool itself.
                    self.pool.shutdown(wait=False, cancel_futures=True)
                    vars(_own).clear()
                # Helpers write to objects of the caller.
                self.finish()
                raise
        return self.results

    def call_helpers(self) -> None:
        try:
            for _ in range(self.size - 1):
                # NumPy's error state is part of the context.
                self.pool.submit(self.help, copy_context())
        except (RuntimeError, MemoryError):
            # No thread can be started, for instance at the end of the interpreter: go on with those that there are.
            pass

    def help(self, context: Context) -> None:
        with self.lock:
            if self.is_over or not self.left:
                return
            self.n_begun += 1
        try:
            context.run(self.work)
        except BaseException as error:
            self.ends.append(error)
        else:
            self.ends.append(None)
        self.bell.put(None)

    def work(self) -> None:
        """Work on items until none is left, in a context of its own."""
        _task.set(self)
        wanted_threads.set(self.share)
        try:
            worker = self.make_worker()
            for i in iter(self.take, None):
                self.results[i] = worker(self.items[i])
        except BaseException:
            self.left.clear()
            raise

    def take(self) -> int | None:
        try:
            return self.left.popleft()
        except IndexError:
            return None

    def finish(self) -> None:
        """Wait for the helpers that have started, and raise the exception of the first one that failed."""
        with self.lock:
            self.is_over = True
        while len(self.ends) < self.n_begun:
            self.bell.get()
        failure = next((end for end in self.ends if end is not None), None)
        self.n_begun = 0
        # An exception must not keep itself, through its traceback, and so all data in memory.
        self.ends.clear()
        if failure is not None and not self.is_abandoned:
            try:
                raise failure
            finally:
                del failure


# The task of this thread, and its pool, which is kept for the next task.
_task: ContextVar[_Task | None] = ContextVar("amofa_task", default=None)
_own = local()


def _own_pool(size: int) -> ThreadPoolExecutor:
    """Return the pool of the calling thread, with at least this number of threads, which start on demand."""
    if getattr(_own, "size", 0) < size:
        _own.pool, _own.size = ThreadPoolExecutor(size, thread_name_prefix="amofa"), size
    pool: ThreadPoolExecutor = _own.pool
    return pool


def _after_fork() -> None:
    """Forget the threads that a forked process does not have."""
    global _own
    _own = local()
    _task.set(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
