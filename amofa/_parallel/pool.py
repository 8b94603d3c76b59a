"""Work shared among threads.

Work is cut into items in a way that does not depend on the number of threads, and results are taken in the order of
the items: so threads change no bit of a result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from queue import SimpleQueue
from threading import Lock, local
from typing import Any, Generic, TypeVar

from amofa._parallel.blas import single_blas_thread
from amofa._parallel.cores import n_threads, wanted_threads

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(make_worker: Callable[[], Callable[[Item], Result]], items: Sequence[Item]) -> Iterable[Result]:
    """Return what a worker makes of each item, in the order of the items, with as many threads as there may be.

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


class OneEach(Generic[Result]):
    """An object for each thread, made when the thread first asks for it."""

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make, self._local = make, local()

    def get(self) -> Result:
        """Return that of the calling thread."""
        try:
            found: Result = self._local.found
        except AttributeError:
            found = self._local.found = self._make()
        return found


def is_abandoned() -> bool:
    """Return whether nobody waits any more for what this thread does, as after Ctrl-C."""
    task = _task.get()
    while task is not None and not task.is_abandoned:
        task = task.outer
    return task is not None


class _Task:
    """Items that several threads work on, the caller and its helpers.

    The caller waits for the helpers that have begun; one that comes late does nothing. So work within work cannot be
    stuck where all threads of the pool are busy.
    """

    def __init__(self, make_worker: Callable[[], Callable[[Any], Any]], items: Sequence[Any], size: int) -> None:
        self.make_worker, self.items, self.size = make_worker, items, size
        # A worker that has work for several threads itself gets its share of them.
        self.share = max(1, n_threads() // size)
        outer = self.outer = _task.get()
        self.pool: ThreadPoolExecutor = outer.pool if outer is not None else _own_pool(n_threads() - 1)
        self.results: list[Any] = [None] * len(items)
        self.left = deque(range(len(items)))
        self.is_abandoned = False
        # How many helpers have begun, what each has ended with, and a bell that it rings then.
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
                    # Ctrl-C may have hit the pool itself.
                    self.pool.shutdown(wait=False, cancel_futures=True)
                    vars(_own).clear()
                # Helpers write to what the caller owns.
                self.finish()
                raise
        return self.results

    def call_helpers(self) -> None:
        try:
            for _ in range(self.size - 1):
                # NumPy's error state is in the context.
                self.pool.submit(self.help, copy_context())
        except (RuntimeError, MemoryError):
            # No thread can be started, as where the interpreter is about to end: there are as many as there are.
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
        """Wait for the helpers that have begun, and raise what the first of them to fail has raised."""
        with self.lock:
            self.is_over = True
        while len(self.ends) < self.n_begun:
            self.bell.get()
        failure = next((end for end in self.ends if end is not None), None)
        self.n_begun = 0
        # What is raised must not hold on to itself, by its traceback, and so to all that was worked on.
        self.ends.clear()
        if failure is not None and not self.is_abandoned:
            try:
                raise failure
            finally:
                del failure


# The task that this thread works on, and the pool of a thread that has begun one, which is kept for the next.
_task: ContextVar[_Task | None] = ContextVar("amofa_task", default=None)
_own = local()


def _own_pool(size: int) -> ThreadPoolExecutor:
    """Return the pool of the calling thread, with at least so many threads; they start when they are needed."""
    if getattr(_own, "size", 0) < size:
        _own.pool, _own.size = ThreadPoolExecutor(size, thread_name_prefix="amofa"), size
    pool: ThreadPoolExecutor = _own.pool
    return pool


def _after_fork() -> None:
    """Forget, in a forked process, the threads that it does not have."""
    global _own
    _own = local()
    _task.set(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
