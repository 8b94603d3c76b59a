"""Plain arrays in .npz archives: written completely or not at all, and read without trusting their headers."""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

# The beginning of the file of a plain array: format 1.0, the length of the header, and the header.
_ARRAY_START = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)"
    rb"\{'descr': '(?P<kind>[^']*)', 'fortran_order': (?P<order>True|False), 'shape': \((?P<shape>[0-9, ]*)\), \} *\n",
    re.DOTALL,
)
_PLAIN_KIND = re.compile(r"[<>|][biufcU][0-9]{1,10}")
# Number of characters of a value in a file, and of a reason, in error messages.
SHOWN_CHARACTERS = 60
_SHOWN_REASON = 200


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write an archive as `numpy.savez` does; it is complete and on disk when this returns, or not there at all.

    No suffix is added to the path, and links are followed. An existing file is replaced when the new one is complete,
    and is intact if OSError is raised because the file cannot be written. Arrays of objects are not allowed.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file, and not to be replaced", os.fspath(path))
    # In the same folder, so on the same file system. A process that is killed may leave it behind.
    temporary = target.with_name(f".amofa-{os.urandom(16).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            _savez(file, arrays)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except OSError as error:
        # The name of the temporary file would mean nothing to a user.
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def _savez(file: BufferedIOBase, arrays: Mapping[str, Any]) -> None:
    try:
        np.savez(file, **arrays)
    except ValueError as error:
        # Errors of zipfile about a member that Ctrl-C left open would hide the interrupt.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


def read_arrays(source: str | os.PathLike[str] | BufferedIOBase) -> dict[str, Any]:
    """Return the content of an archive by name: read-only arrays, and bytes of members that are not arrays.

    This takes at most a few times the size of the file in memory: `numpy.savez` does not compress, so no archive holds
    more than the length of the file. Nothing in it is executed.

    Raises OSError if the file cannot be opened (FileNotFoundError if there is none), or is a pipe or a device;
    ValueError if it is not an archive of plain arrays as `numpy.savez` makes it, or is damaged.
    """
    if not isinstance(source, BufferedIOBase):
        path = Path(source)
        # Opening a pipe without a writer would block.
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(source))
        with open(path, "rb") as file:
            return read_arrays(file)
    try:
        return _read_archive(source)
    except MemoryError:
        raise
    # A damaged archive can raise nearly anything in zipfile and in NumPy's reader.
    except Exception as error:
        raise ValueError(str(error)[:_SHOWN_REASON]) from error


def _read_archive(file: BufferedIOBase) -> dict[str, Any]:
    n_bytes = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) < len(names):
            raise ValueError("two of its arrays have the same name")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("its arrays are compressed")
        if any(member.compress_size != member.file_size for member in members):
            raise ValueError("its arrays have two lengths")
        if sum(member.file_size for member in members) > n_bytes:
            raise ValueError("its arrays are longer than the file")
        contents = [archive.read(member) for member in members]
    return {
        name: _read_array(content) if member.filename.endswith(".npy") else content
        for name, member, content in zip(names, members, contents, strict=True)
    }


def _read_array(content: bytes) -> NDArray[Any]:
    """Return the array that `numpy.save` wrote, read-only.

    NumPy's own reader would allocate as much memory as the header claims.
    """
    start = _ARRAY_START.match(content)
    if not start or start.end() != start.end("length") + int.from_bytes(start["length"], "little"):
        raise ValueError("an array does not begin with a header of numpy")
    kind = start["kind"].decode("latin-1")
    if not _PLAIN_KIND.fullmatch(kind):
        raise ValueError(f"Object arrays and others that are not plain are not read: {kind[:SHOWN_CHARACTERS]!r}")
    dtype = np.dtype(kind)
    shape = tuple(int(length) for length in start["shape"].replace(b",", b" ").split())
    if math.prod(shape) * dtype.itemsize != len(content) - start.end():
        raise ValueError("an array is not as long as its shape says")
    order: Literal["C", "F"] = "F" if start["order"] == b"True" else "C"
    return np.frombuffer(content, dtype, offset=start.end()).reshape(shape, order=order)
