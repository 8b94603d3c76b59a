"""Limits of threadpoolctl hold this package's threads, too, as they hold those of BLAS and OpenMP."""

from __future__ import annotations

from threadpoolctl import LibController, register

from amofa._parallel.cores import most_threads, thread_limit
from amofa._version import __version__


class ThreadController(LibController):
    """The threads of this package for threadpoolctl, which knows it by a shared library that is always loaded.

    As with OpenMP, a limit holds for calls of the thread that set it, and not for others.
    """

    user_api = "amofa"
    internal_api = "amofa"
    filename_prefixes = ("cython_amofa",)
    check_symbols = ("PyInit_cython_amofa",)

    def get_num_threads(self) -> int:
        """Return the limit, or the largest number without one: threadpoolctl sets it again when its own ends."""
        limit = thread_limit.get()
        return most_threads() if limit is None else limit

    def set_num_threads(self, num_threads: int) -> None:
        """Set the limit; as many threads as there would be without one are none."""
        thread_limit.set(num_threads if num_threads < most_threads() else None)

    def get_version(self) -> str:
        """Return the version of the package."""
        return __version__


register(ThreadController)
