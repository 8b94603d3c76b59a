"""Memory that OpenBLAS takes for itself: it ends the process where it cannot have it, so there is a look in time.

OpenBLAS takes a buffer for each thread that calls it while others do, in each copy of the library (NumPy and SciPy
bring one each), at the first call that needs one, and keeps it. Where the process is let have little memory (``ulimit
-v``), the buffers of the caller are taken before anything else is, with a MemoryError where they cannot be had.
"""

from __future__ import annotations

import mmap
from functools import cache

import numpy as np

# What the builds of OpenBLAS take for a thread, on x86-64 and ARM.
_BUFFER = 32 << 20
# Where so much can be had, memory is not scarce.
_PLENTY = 1 << 30


def is_scarce() -> bool:
    """Whether the process can have little more memory."""
    return not _can_be_had(_PLENTY)


def _can_be_had(size: int) -> bool:
    # Windows has no such limits, and would count what nobody has written to.
    if not hasattr(mmap, "MAP_PRIVATE"):
        return True
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        return False
    return True


def room_for(n_threads: int, n_libraries: int) -> int:
    """For how many more threads, up to so many, there are buffers.

    Parameters
    ----------
    n_threads : int
    n_libraries : int
        Copies of OpenBLAS.

    Examples
    --------
    >>> room_for(2, 1)
    2
    """
    while n_threads and not _can_be_had(n_threads * n_libraries * _BUFFER):
        n_threads -= 1
    return n_threads


@cache
def take_buffers(n_libraries: int) -> None:
    """Have each library take a buffer for one thread, once.

    Parameters
    ----------
    n_libraries : int
        Copies of OpenBLAS.

    Raises
    ------
    MemoryError
        If there is no room for them.
    """
    check_room(n_libraries)
    # All of scipy.linalg has been imported for other reasons; at `import amofa` it need not be.
    from scipy.linalg.blas import dsyrk

    # Of this product alone they make no exception for small matrices.
    matrix = np.eye(8)
    np.matmul(matrix, matrix.T)
    dsyrk(1.0, matrix)


def check_room(n_libraries: int) -> None:
    """Check that there are buffers for one more thread.

    Raises
    ------
    MemoryError
        If there are not.
    """
    if not room_for(1, n_libraries):
        size = n_libraries * _BUFFER >> 20
        raise MemoryError(f"there is no room for the {size} MB that OpenBLAS takes for a thread")
