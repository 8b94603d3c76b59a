"""Tables in files that are mapped into memory: where a file becomes shorter while it is read, there is an error.

Reading what is no longer there would end the process. So rows of such tables are read here, and nowhere else.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amofa._kernels import _rows

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rows.forget_guards)


@dataclass(frozen=True)
class MappedFile:
    """The file that a table lies in.

    Attributes
    ----------
    memory : mmap.mmap
    size : int
        Bytes that it must have, so that the whole table is in it, as far as that is known.
    """

    memory: mmap.mmap
    size: int

    @classmethod
    def of(cls, array: NDArray[Any]) -> MappedFile | None:
        """That of an array; None where it lies in memory.

        Parameters
        ----------
        array : ndarray
        """
        # Nearly all arrays own their memory, or are views of one that does.
        if array.base is None:
            return None
        owner: Any = array
        start = 0
        while isinstance(owner, np.ndarray):
            # What is computed from one is of this type, too, and has no offset.
            if isinstance(owner, np.memmap) and owner.offset is not None:
                start = owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY
            owner = owner.base
            if isinstance(owner, memoryview):
                owner = owner.obj
        if not isinstance(owner, mmap.mmap):
            return None
        last_cell = sum(max(0, (n - 1) * stride) for n, stride in zip(array.shape, array.strides, strict=True))
        return cls(
            owner, start + _address(array) - _address(np.frombuffer(owner, np.int8)) + last_cell + array.itemsize
        )

    def check(self, is_read: bool, name: str = "X") -> None:
        """Check that what has just been read was in the file.

        Parameters
        ----------
        is_read : bool
            Whether the memory could be read.
        name : str
            Of the argument that the table came by.

        Raises
        ------
        OSError
            If it could not, or the file is too short now: up to the end of a page there are zeros then.
        """
        if not is_read or self._is_short():
            raise OSError(
                errno.EIO,
                f"{name} is mapped from a file that cannot be read to its end: it was cut off, or its disk fails",
            )

    def _is_short(self) -> bool:
        try:
            # 0 of devices, too. Of a file that is empty nothing could be read.
            return 0 < self.memory.size() < self.size
        except OSError:
            # Memory that is shared between processes need not have a file, or its file is not held open.
            return False


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def take(
    table: NDArray[Any],
    rows: slice | NDArray[Any] | None = None,
    columns: Sequence[int] | NDArray[np.intp] | None = None,
    *,
    name: str = "X",
) -> NDArray[Any]:
    """Some rows and columns of a table; a copy in memory where the table lies in a mapped file.

    Parameters
    ----------
    table : (n, d) ndarray
    rows : slice, or (m,) intp or bool, optional
        All where not given.
    columns : (c,) int, optional
        All where not given.
    name : str
        Of the argument that the table came by, for the error.

    Returns
    -------
    (m, c) ndarray

    Raises
    ------
    OSError
        If the file has become too short.

    Examples
    --------
    >>> take(np.arange(6).reshape(3, 2), slice(1, 3))
    array([[2, 3],
           [4, 5]])
    """
    has_own_memory = table.base is None
    if isinstance(rows, slice):
        table, rows = table[rows], None
    file = None if has_own_memory else MappedFile.of(table)
    if file is None:
        some = table if rows is None else table[rows]
        return some if columns is None else some[:, columns]
    if rows is not None:
        rows = np.flatnonzero(rows) if rows.dtype == bool else np.ascontiguousarray(rows, np.intp)
    if columns is not None:
        columns = np.ascontiguousarray(columns, np.intp)
    # What lies side by side is best copied so.
    if abs(table.strides[0]) < abs(table.strides[1]):
        copied, is_read = _copy(table.T, columns, rows)
        copied = copied.T
    else:
        copied, is_read = _copy(table, rows, columns)
    file.check(is_read, name)
    return copied


def _copy(
    table: NDArray[Any], rows: NDArray[np.intp] | None, columns: NDArray[np.intp] | None
) -> tuple[NDArray[Any], bool]:
    n, d = (given if some is None else len(some) for given, some in zip(table.shape, (rows, columns), strict=True))
    copied = np.empty((n, d), table.dtype)
    return copied, _rows.copy(table, rows, columns, copied.view(np.int8))


def in_memory(array: NDArray[Any], *, name: str = "X") -> NDArray[Any]:
    """An array of one or two dimensions itself, or a copy in memory where it lies in a mapped file.

    Parameters
    ----------
    array : (n,) or (n, d) ndarray
    name : str
        Of the argument that it came by, for the error.

    Returns
    -------
    ndarray

    Raises
    ------
    OSError
        If the file has become too short.

    Examples
    --------
    >>> in_memory(np.arange(3))
    array([0, 1, 2])
    """
    return take(array[:, None], name=name)[:, 0] if array.ndim == 1 else take(array, name=name)
