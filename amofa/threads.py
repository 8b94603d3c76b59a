"""Threads: their number, work shared among them, and BLAS limited to one thread meanwhile."""

import amofa._parallel.threadpool  # noqa: F401 (limits of threadpoolctl hold from here on)
from amofa._parallel.blas import single_blas_thread
from amofa._parallel.cores import available_cores, default_threads, n_threads, use_threads
from amofa._parallel.pool import THREADS, Executor, OneEach, in_order, is_abandoned

__all__ = [
    "THREADS",
    "Executor",
    "OneEach",
    "available_cores",
    "default_threads",
    "in_order",
    "is_abandoned",
    "n_threads",
    "single_blas_thread",
    "use_threads",
]
