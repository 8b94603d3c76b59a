"""Model files made to do harm: one clear error, little memory, nothing waited for."""

import io as streams
import os
import stat
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from amofa import io
from amofa._data.npz import write_arrays
from amofa.mixture import MixtureOfFactorAnalyzers

NOT_A_MODEL = r"m\.npz is not a model file of amofa, or is damaged \({}\)"


@pytest.fixture
def members(tmp_path):
    """The files in the archive of a model, by name."""
    model = MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0, 1.0], [2.0, 3.0]], [np.ones((2, 1))] * 2, np.ones((2, 2)))
    model.save(tmp_path / "whole")
    with zipfile.ZipFile(tmp_path / "whole") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.npz"


def pack(path, members, compression=zipfile.ZIP_STORED):
    """An archive of (name, content) pairs or of a mapping."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name), content, compression)


def array_file(header, data=b"", version=(1, 0)):
    """A file like those of numpy, whatever the header is."""
    text = header.encode("latin-1") + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data


def header(kind="<f8", shape="(2,)"):
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


def peak_of_refusal(path, message):
    """Bytes that Python and numpy have asked for at most."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            io.load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_members_make_a_model(members, path):
    pack(path, members)
    assert io.load(path).n_components == 2


@pytest.mark.parametrize("shape", [f"({2**40},)", f"({2**33}, {2**33})", f"({2**64},)", "(" + "9" * 400 + ",)", "(3,)"])
def test_a_shape_that_is_not_there_takes_no_memory(shape, members, path):
    pack(path, members | {"weights.npy": array_file(header(shape=shape), bytes(16))})
    assert peak_of_refusal(path, NOT_A_MODEL.format("an array is not as long as its shape says")) < 1 << 20


def test_compressed_archives_are_refused_before_they_grow(members, path):
    pack(path, members | {"means.npy": bytes(200 << 20)}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    assert peak_of_refusal(path, NOT_A_MODEL.format("its arrays are compressed")) < 4 << 20


def test_members_that_overlap_are_refused(members, path):
    """Many names for one stretch of the file: its contents would be read as often."""
    pack(path, members | {"big.npy": bytes(1 << 20)})
    content = path.read_bytes()
    start, end = content.index(b"PK\x01\x02"), content.rindex(b"PK\x05\x06")
    entry = content[content.rindex(b"PK\x01\x02") : end]
    entries = content[start:end] + b"".join(entry.replace(b"big.npy", b"%03d.npy" % i) for i in range(200))
    count = len(members) + 201
    path.write_bytes(
        content[:start] + entries + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, len(entries), start, 0)
    )
    assert peak_of_refusal(path, NOT_A_MODEL.format("its arrays are longer than the file")) < 4 << 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (array_file(header("|O")), r"Object arrays and others that are not plain are not read: '\|O'"),
        (array_file(header("|V8"), bytes(16)), r"others that are not plain are not read: '\|V8'"),
        (array_file(header("<M8[ns]"), bytes(16)), "others that are not plain"),
        (array_file(header("<f7"), bytes(14)), ".*"),
        (array_file(header("<U0")), ".*"),
        (array_file(header("<U" + "9" * 10)), ".*"),
        (array_file("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }", bytes(16)), "does not begin"),
        (array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (-2,), }", bytes(16)), "does not begin"),
        (array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (2L,), }", bytes(16)), "does not begin"),
        (array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", bytes(16)), "does not begin"),
        (array_file("__import__('os').abort()"), "does not begin"),
        (array_file("(" * 60000), "does not begin"),
        (array_file(header() + " " * 70000, bytes(16), (2, 0)), "does not begin"),
        (array_file(header(), bytes(16), (9, 9)), "does not begin"),
        (array_file(header(), bytes(16)).replace(b"NUMPY\x01\x00\x3a", b"NUMPY\x01\x00\x3b"), "does not begin"),
        (array_file(header(), bytes(24)), "not as long as its shape says"),
        (array_file(header(shape="(" + "1, " * 100 + ")"), bytes(8)), ".*"),
        (b"", "does not begin"),
        (b"\x93NUMPY", "does not begin"),
    ],
)
def test_arrays_that_numpy_did_not_write(content, message, members, path):
    pack(path, members | {"weights.npy": content})
    assert peak_of_refusal(path, NOT_A_MODEL.format(f".*{message}.*")) < 4 << 20


def test_arrays_in_columns_are_read(members, path):
    file = streams.BytesIO()
    np.save(file, np.asfortranarray([[0.0, 1.0], [2.0, 3.0]]))
    pack(path, members | {"means.npy": file.getvalue()})
    np.testing.assert_array_equal(io.load(path).means, [[0.0, 1.0], [2.0, 3.0]])


@pytest.mark.parametrize("twin", ["weights.npy", "weights"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name(twin, members, path):
    pack(path, [*members.items(), (twin, members["weights.npy"])])
    with pytest.raises(ValueError, match=NOT_A_MODEL.format("two of its arrays have the same name")):
        io.load(path)


def test_a_member_that_says_it_is_longer_than_memory(members, path):
    pack(path, members)
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 20 : at + 28] = b"\xfe\xff\xff\xff" * 2
    path.write_bytes(content)
    assert peak_of_refusal(path, NOT_A_MODEL.format("its arrays are longer than the file")) < 1 << 20


def test_messages_are_short_whatever_the_file_says(members, path):
    file = streams.BytesIO()
    np.save(file, np.array("x" * 100_000))
    pack(path, members | {"format.npy": file.getvalue()})
    with pytest.raises(ValueError, match=r"its format is 'x{60}', not") as caught:
        io.load(path)
    assert len(str(caught.value)) < 400
    pack(path, members | {f"{'n' * 1000}{i}": b"" for i in range(100)})
    with pytest.raises(ValueError, match=r"it has unknown content: n{60}, .*, \.\.\.$") as caught:
        io.load(path)
    assert len(str(caught.value)) < 800


# ---- what is no file -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file") as caught:
        io.load(path)
    assert caught.value.filename == str(path)
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full", "/dev/urandom"])
def test_devices(device, path):
    if not os.path.exists(device):
        pytest.skip(f"there is no {device}")
    path.symlink_to(device)
    for name in (device, path):
        with pytest.raises(OSError, match="not a regular file"):
            io.load(name)


def test_links(members, path, tmp_path):
    pack(tmp_path / "real", members)
    path.symlink_to(tmp_path / "real")
    assert io.load(path).n_components == 2
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        io.load(path)
    with pytest.raises(ValueError, match="null"):
        io.load("m\0.npz")


def test_a_length_in_the_directory_alone(members, path):
    """zipfile asks for as much memory as this claims."""
    pack(path, members)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02") + 20
    content[place : place + 4] = (0x7FFFFFFF).to_bytes(4, "little")
    path.write_bytes(content)
    assert peak_of_refusal(path, NOT_A_MODEL.format(".*have two lengths.*")) < 4 << 20


# Older versions of numpy leave the archive to the garbage collector, which finds its file closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_while_an_archive_is_written_is_ctrl_c(monkeypatch, path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_arrays(path, {"a": np.ones(3)})
    assert not path.exists()
