"""Files that grow by one record after the other, so that whatever cuts a program off costs at most the last one.

A file is a line that names the format and then records: a tag, length and checksum, and the bytes themselves.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

MAGIC = b"amofa checkpoint 1\n"
# The tag of a model as `amofa.save` would write it.
BEST = b"best"
_HEAD = struct.Struct("<4sIQ")


class Record(NamedTuple):
    """Where a record is in its file."""

    tag: bytes  # 4 of them
    checksum: int
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


def has_records(file: BinaryIO) -> bool:
    """Whether a file begins as one of records does; leaves it at its begin."""
    file.seek(0)
    begin = file.read(len(MAGIC))
    file.seek(0)
    return begin == MAGIC


def whole_records(file: BinaryIO) -> Iterator[Record]:
    """The records of a file up to the first that is cut off or damaged."""
    size = file.seek(0, os.SEEK_END)
    start = len(MAGIC)
    while start + _HEAD.size <= size:
        file.seek(start)
        tag, checksum, length = _HEAD.unpack(file.read(_HEAD.size))
        record = Record(tag, checksum, start + _HEAD.size, length)
        # Lengths are looked at before anything is read: those of damaged files may be of any size.
        if record.end > size or zlib.crc32(read(file, record)) != checksum:
            return
        yield record
        start = record.end


def read(file: BinaryIO, record: Record, most: int | None = None) -> bytes:
    """The bytes of a record, or the first so many."""
    file.seek(record.start)
    return file.read(record.length if most is None else min(most, record.length))


class RecordFile:
    """A file of records, open for reading and writing, and locked while it is, where the system can do that.

    Parameters
    ----------
    path : str

    Attributes
    ----------
    records : list of Record
        Those that were there when it was opened.

    Raises
    ------
    OSError
        If it cannot be opened or another process, or file object, has it open.
    ValueError
        If there is another kind of file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        # Without a buffer: what is written is with the system at once.
        self._file = open(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b", buffering=0)  # noqa: SIM115
        try:
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            self._lock(path)
            begin = self._file.read(len(MAGIC))
            if not MAGIC.startswith(begin):
                raise ValueError(f"{path} is no checkpoint; it is left as it is: give another path")
            self.records = list(whole_records(self._file)) if begin == MAGIC else []
        except BaseException:
            self._file.close()
            raise
        self._end = self.records[-1].end if self.records else 0

    def _lock(self, path: str) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another fit is writing this checkpoint", path) from None
        except OSError:
            # Some file systems have no locks.
            pass

    def read(self, record: Record, most: int | None = None) -> bytes:
        """The bytes of a record, or the first so many."""
        return read(self._file, record, most)

    def append(self, tag: bytes, content: bytes) -> None:
        """Put a record at the end, on disk when this returns; what was cut off there goes.

        Raises
        ------
        OSError
            If it cannot be written. The file is then as good as before.
        """
        begin = b"" if self._end else MAGIC
        whole = memoryview(begin + _HEAD.pack(tag, zlib.crc32(content), len(content)) + content)
        end = self._end + len(whole)
        try:
            self._file.truncate(self._end)
            self._file.seek(self._end)
            while whole:
                whole = whole[self._file.write(whole) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from error
        self._end = end

    def close(self) -> None:
        self._file.close()
