"""Fuzz target: `amofa.load` of damaged, forged and unrelated files (see fuzz.py).

Either a model comes out, whose parameters are those of a mixture, or ValueError or OSError with a short message. No
more memory is asked for than a few times the size of the file, and nothing is imported, run, or written.
"""

import atexit
import io
import shutil
import sys
import tempfile
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from reference import random_mixture

import amofa
from amofa.history import FitReport, Step

# What loading must not do, as `sys.addaudithook` names it. Of files one is opened, to be read.
FORBIDDEN = ("exec", "compile", "pickle.", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "import", "marshal.")
INTERESTING = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)


def pick(values):
    """One of them; hypothesis' own strategy for that would show all of them, however long, wherever it is named."""
    return st.integers(0, len(values) - 1).map(lambda i: values[i])


# ---- files to begin with ---------------------------------------------------------------------------------------------


def models():
    """A model of each kind."""
    rng = np.random.default_rng(0)
    plain = random_mixture(rng, 2, 3, (2, 0))
    history = (
        Step("start", -1, (1,), 12.5, 12.25, -7.0, 30, True),
        Step("split", 0, (1, 2), 10.0, float("inf"), -0.1, 17, False),
    )
    report = FitReport(-1 / 3, 100 / 7, "mml", 99.5, True, np.zeros((2, 3), dtype=bool), history, 18, cost=10.0)
    make = amofa.MixtureOfFactorAnalyzers._from_fit
    return [make(random_mixture(rng, 1, 1, 0)), make(plain, report), make(plain, report, ("a", "größe", ""))]


def members_of(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.npz")
        model.save(path)
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


MEMBERS = [members_of(model) for model in models()]
NAMES = sorted(set().union(*MEMBERS))


# ---- what is done to them --------------------------------------------------------------------------------------------

whole_numbers = st.one_of(
    st.integers(-3, 6), pick([2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30]), st.integers()
)
kinds = pick(
    ["<f8", ">f8", "<f4", "<f2", "<f16", "<i8", ">i8", "<i4", "|b1", "|i1", "<U1", "<U0", "<U30", "<U999999999",
     "|S4", "|V8", "|O", "O", "<M8[ns]", "<c16", "<c8", "=f8", "f", "float", "", "x" * 50, "<f8,<f8", "(3,)f8"]
)  # fmt: skip
shapes = st.one_of(
    st.lists(whole_numbers, max_size=4).map(lambda s: f"({', '.join(map(str, s))}{',' * (len(s) == 1)})"),
    pick(["[2]", "2", "(2L,)", "None", "(True,)", "(2.0,)", "(" * 300, "()" * 99, "(1,)" + " " * 70_000]),
)
headers = st.one_of(
    st.builds(
        lambda kind, order, shape, end: f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}{end}",
        kinds, pick(["True", "False", "0", "None"]), shapes, pick([", }", "}", ", 'x': 1}", ""]),
    ),
    st.text(max_size=60),
    pick(
        ["{'descr': [('a', '<f8'), ('b', '<U3')], 'fortran_order': False, 'shape': (1,), }",
         "{'descr': [('a', [('b', '|O')])], 'fortran_order': False, 'shape': (1,), }",
         "__import__('os').system('true')", "[" * 5000, "{" + "'a':{" * 200 + "}" * 201]
    ),
)  # fmt: skip


def forged_array(header, version, data, length):
    """An .npy file with any header; `length` is added to the true one."""
    text = header.encode("utf-8") + b"\n"
    width = 2 if version == (1, 0) else 4
    size = (len(text) + length) % (1 << 8 * width)
    return b"\x93NUMPY" + bytes(version) + size.to_bytes(width, "little") + text + data


def saved(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


values = st.one_of(
    pick([np.nan, np.inf, -1.0, 0.0, 5e-324, 1e308, 1.0, 0.5, True, 2**63, -1, 10**400, "", "x" * 9,
                     "\ud800", "amofa.MixtureOfFactorAnalyzers", None, 1j, b"x", print]),
    st.floats(), st.integers(-5, 5),
)  # fmt: skip


def real_array(value, shape, kind):
    try:
        array = np.full(shape, value)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of complex numbers made real
            return saved(array if kind is None else array.astype(kind))
    except (TypeError, ValueError, OverflowError):
        return saved(np.zeros(shape))


arrays = st.one_of(
    st.builds(
        real_array, values, st.lists(st.integers(0, 4), max_size=3),
        pick([None, "f8", "i8", "?", "U5", "f4", ">f8", ">i8", "c16", "O", "S3", "M8[s]", "f8,i4"]),
    ),
    st.builds(
        forged_array, headers, pick([(1, 0), (1, 0), (2, 0), (3, 0), (0, 9), (255, 255)]),
        st.binary(max_size=80), pick([0, 0, 0, 1, -1, 60_000]),
    ),
    st.binary(max_size=40),
    pick([b"", b"\x93NUMPY", b"cos\nsystem\n(S'true'\ntR.", b"PK\x05\x06" + bytes(18)]),
)  # fmt: skip
names = st.one_of(
    pick([*NAMES, "weights", "/etc/passwd", "../up.npy", "a\\b.npy", "x.npy", ".npy", "", "con.npy", "x/",
                     "\u202e.npy", "n" * 1000, "weights.npy.npy", "\x00.npy", "a\nb.npy"]),
    st.text(max_size=8),
)  # fmt: skip
array_changes = st.lists(
    st.one_of(
        st.tuples(st.just("replace"), pick(NAMES), arrays),
        st.tuples(st.just("add"), names, arrays),
        st.tuples(st.just("drop"), pick(NAMES), st.none()),
        st.tuples(st.just("cut"), pick(NAMES), st.integers(-200, 200)),
        st.tuples(st.just("swap"), pick(NAMES), pick(NAMES)),
    ),
    max_size=4,
)
byte_changes = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 1 << 14), pick(INTERESTING)),
        st.tuples(st.just("flip"), st.integers(0, 1 << 14), st.integers(0, 7)),
        st.tuples(st.just("cut"), st.integers(0, 1 << 14), st.integers(1, 500)),
        st.tuples(st.just("insert"), st.integers(0, 1 << 14), st.binary(min_size=1, max_size=30)),
        st.tuples(st.just("repeat"), st.integers(0, 1 << 14), st.integers(1, 2000)),
        st.tuples(st.just("truncate"), st.integers(0, 1 << 14), st.none()),
        st.tuples(st.just("field"), st.integers(0, 1 << 14), pick([0, 1, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF])),
    ),
    max_size=6,
)
packings = pick([zipfile.ZIP_STORED] * 6 + [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
# From the directory at the end of an archive on, fields of sizes, offsets, methods and flags stand close together.
cases = st.one_of(
    st.tuples(
        st.integers(0, len(MEMBERS) - 1), array_changes, packings, byte_changes, st.booleans(),
        pick([b"", b"", b"", b"junk in front", bytes(100)]),
    ),
    st.binary(max_size=300),
)  # fmt: skip


def changed_members(members, changes):
    entries = list(members.items())
    for kind, name, what in changes:
        others = [(n, content) for n, content in entries if n != name]
        contents = [content for n, content in entries if n == name]
        if kind == "replace":
            entries = [*others, (name, what)]
        elif kind == "add":
            entries = [*entries, (name, what)]
        elif kind == "drop":
            entries = others
        elif kind == "cut" and contents:
            end = bytes(what) if what > 0 else b""
            entries = [*others, (name, contents[0][: what or None] + end)]
        elif kind == "swap" and contents:
            entries = [*others, (what, contents[0])]
    return entries


def packed(entries, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two members of one name
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def changed_bytes(content, changes, *, at_end):
    data = bytearray(content)
    for kind, position, what in changes:
        at = position % (min(len(data), 3000) + 1)
        at = len(data) - at if at_end else at
        if kind == "truncate":
            del data[at:]
        elif kind == "cut":
            del data[at : at + what]
        elif kind == "insert":
            data[at:at] = what
        elif kind == "repeat":
            data[at:at] = data[at : at + what]
        elif at + 4 <= len(data):
            if kind == "field":
                data[at : at + 4] = what.to_bytes(4, "little")
            else:
                data[at] = what if kind == "set" else data[at] ^ 1 << what
    return bytes(data)


# ---- the target ------------------------------------------------------------------------------------------------------


class Watch:
    """Events of the interpreter while a file is loaded; a hook cannot be taken out again, so there is one."""

    def __init__(self):
        self.path, self.wrong, self.is_on = None, [], False

    def hook(self, event, arguments):
        if not self.is_on:
            return
        if event == "open":
            if str(arguments[0]) != str(self.path) or "r" not in (arguments[1] or "r"):
                self.wrong.append((event, arguments))
        elif event.startswith(FORBIDDEN):
            self.wrong.append((event, str(arguments)[:80]))


WATCH = Watch()
FOLDER = Path(tempfile.mkdtemp(prefix="amofa-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def write_case(case):
    if isinstance(case, bytes):
        content = case
    else:
        which, changes, method, bytes_changed, at_end, front = case
        content = front + packed(changed_members(MEMBERS[which], changes), method)
        content = changed_bytes(content, bytes_changed, at_end=at_end)
    path = FOLDER / "case.npz"
    path.write_bytes(content)
    return path, len(content)


def check(case):
    """Load a forged file."""
    if WATCH.path is None:
        sys.addaudithook(WATCH.hook)
        amofa.load(write_case((0, [], zipfile.ZIP_STORED, [], False, b""))[0])  # what is imported late, is now
    path, size = write_case(case)
    WATCH.path, WATCH.wrong = path, []
    tracemalloc.start()
    WATCH.is_on = True
    model, message = None, None
    try:
        model = amofa.load(path)
    except (ValueError, OSError) as error:
        message = str(error)
    finally:
        WATCH.is_on = False
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 40 * size + (1 << 20), (peak, size)
    assert not WATCH.wrong, WATCH.wrong
    assert sorted(p.name for p in FOLDER.iterdir()) == ["case.npz"]
    if model is None:
        assert message.startswith(f"{path} ")
        assert len(message) < 2000
    else:
        check_model(model)


def check_model(model):
    """What must hold of every model, however it was made."""
    assert model.weights.shape == (model.n_components,)
    assert abs(model.weights.sum() - 1) < 1e-5
    assert (model.weights >= 0).all()
    assert model.means.shape == model.uniquenesses.shape == (model.n_components, model.n_features)
    assert (model.uniquenesses > 0).all()
    assert all(np.isfinite(a).all() for a in (model.means, model.uniquenesses, *model.loadings))
    assert [a.shape for a in model.loadings] == [(model.n_features, p) for p in model.n_factors]
    proba = model.predict_proba(np.zeros((2, model.n_features)))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)
    assert len(model.summary()) > 0
    target = FOLDER / "again"
    model.save(target)
    twin = amofa.load(target)
    target.unlink()
    assert twin.means.tobytes() == model.means.tobytes()


TARGETS = {"model-files": (cases, check)}
