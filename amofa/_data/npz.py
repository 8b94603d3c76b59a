"""Plain arrays in .npz archives, read without trust in what they say of themselves."""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Mapping
from io import BytesIO
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

# How numpy begins the file of a plain array: format 1.0, the length of the header, and the header.
_ARRAY_START = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)"
    rb"\{'descr': '(?P<kind>[^']*)', 'fortran_order': (?P<order>True|False), 'shape': \((?P<shape>[0-9, ]*)\), \} *\n",
    re.DOTALL,
)
_PLAIN_KIND = re.compile(r"[<>|][biufcU][0-9]{1,10}")
# How much of what is wrong in a file an error message shows.
SHOWN_CHARACTERS = 60


def write_arrays(file: BinaryIO, arrays: Mapping[str, Any]) -> None:
    """Write an archive as `numpy.savez` does."""
    try:
        np.savez(file, **arrays)
    except ValueError as error:
        # What zipfile has to say about a member that Ctrl-C left open hides Ctrl-C itself.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


def arrays_to_bytes(arrays: Mapping[str, Any]) -> bytes:
    """The same as bytes."""
    content = BytesIO()
    write_arrays(content, arrays)
    return content.getvalue()


def read_arrays(file: BinaryIO) -> dict[str, Any]:
    """What is in an archive, by name: arrays, read-only, and bytes of members that are none.

    `numpy.savez` compresses nothing: so no archive holds more than the file is long, and a small file cannot fill the
    memory.

    Raises
    ------
    Exception
        Of nearly any kind, if the file is damaged; ValueError if it is none that `numpy.savez` makes of plain arrays.
    """
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
    """A plain array from what `numpy.save` made of it, read-only.

    numpy's own reader asks for as much memory as the header claims.
    """
    start = _ARRAY_START.match(content)
    if not start or start.end() != start.end("length") + int.from_bytes(start["length"], "little"):
        raise ValueError("an array does not begin as numpy's do")
    kind = start["kind"].decode("latin-1")
    if not _PLAIN_KIND.fullmatch(kind):
        raise ValueError(f"Object arrays and others that are not plain are not read: {kind[:SHOWN_CHARACTERS]!r}")
    dtype = np.dtype(kind)
    shape = tuple(int(length) for length in start["shape"].replace(b",", b" ").split())
    if math.prod(shape) * dtype.itemsize != len(content) - start.end():
        raise ValueError("an array is not as long as its shape says")
    order: Literal["C", "F"] = "F" if start["order"] == b"True" else "C"
    return np.frombuffer(content, dtype, offset=start.end()).reshape(shape, order=order)
