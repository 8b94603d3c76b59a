"""Fuzz targets: files of tables, and the options of all commands (see fuzz.py).

`read_table` gives a table of finite numbers, the same that a slow reading of plain text gives, or refuses with
ValueError or OSError. A command ends with status 0, or with 2 and one line on standard error; it shows no traceback.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import math
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import fuzz_files
import numpy as np
from fuzz_files import pick
from hypothesis import strategies as st

from amofa.cli import main
from amofa.cli._tables import read_table

FOLDER = Path(tempfile.mkdtemp(prefix="amofa-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


# ---- contents --------------------------------------------------------------------------------------------------------

numbers = st.one_of(st.floats(allow_nan=False).map(repr), st.integers(-99, 99).map(str))
cells = st.one_of(
    numbers, numbers, numbers,
    pick(
        ["1e999", "-1e400", "1e-400", "0x10", "1_000", "nan", "-nan", "NaN", "inf", "-Infinity", "1,5", "1.000,5", "",
         " ", "NA", "N/A", "?", "None", "null", "NULL", "+1", "--1", "1e", "1e+", ".", ".5", "5.", "1 2", '"', '"1"',
         '""', "'1'", "#1", "1#", "1+2j", "(1)", "1d5", "1f", "True", "١٢", "\u00a01", "1\u00a0", "\u22121", "1\x00",
         "\x00", "a", "größe", "\ufeff1", "x" * 200, "9" * 400, "0" * 200_000 + "1", "\u2028", "\x1c", "\x85", "\x0b",
         "\x0c", "=1+1", "\ud7ff"]
    ),
    st.text(max_size=5),
)  # fmt: skip
ends = pick(["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n \n", "\n#\n", "\r\r\n", "\x0b", "\u2028", ""])
delimiters = pick([",", ",", ",", ";", "\t", " ", "  ", " , ", "|", ",,"])


@st.composite
def texts(draw):
    """A table as text, most lines of one length."""
    width, delimiter, end = draw(st.integers(1, 4)), draw(delimiters), draw(ends)
    # Most tables have few strange cells, or all of them would be refused.
    cell = draw(st.sampled_from([numbers, numbers, cells]))
    lines = draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=6))
    for _ in range(draw(st.sampled_from([0, 0, 1]))):
        lines[draw(st.integers(0, len(lines) - 1))][draw(st.integers(0, width - 1))] = draw(cells)
    if draw(st.booleans()):
        lines.insert(0, draw(st.lists(pick(["a", "b", "c", "a", "x y", '"q,r"', "1", ""]), min_size=width,
                                      max_size=width)))  # fmt: skip
    if lines and draw(st.integers(0, 4)) == 0:
        lines[draw(st.integers(0, len(lines) - 1))] = draw(st.lists(cells, max_size=6))
    return draw(pick(["", "", "# note\n", "\ufeff", "\n\n"])) + "".join(
        delimiter.join(line) + (end if i < len(lines) - 1 else draw(pick([end, ""]))) for i, line in enumerate(lines)
    )


encodings = pick(["utf-8"] * 20 + ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp037"])
encoded = st.builds(lambda text, encoding: text.encode(encoding, "replace"), texts(), encodings)
noise = st.builds(
    lambda content, changes, at_end: fuzz_files.changed_bytes(content, changes, at_end=at_end),
    encoded, fuzz_files.byte_changes, st.booleans(),
)  # fmt: skip


def table_file(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def archive_file(arrays, compressed):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


plain_arrays = st.builds(
    fuzz_files.real_array, fuzz_files.values, st.lists(st.integers(0, 4), max_size=3),
    pick([None, "f8", "f4", "f2", "f16", "i8", "u1", "?", "U5", ">f8", ">i2", "c16", "O", "S3", "M8[s]",
          "f8,i4"]),
)  # fmt: skip
archives = st.builds(
    lambda entries, method: fuzz_files.packed(entries, method),
    st.lists(st.tuples(fuzz_files.names, fuzz_files.arrays), max_size=4), fuzz_files.packings,
)  # fmt: skip
binaries = st.one_of(
    plain_arrays, plain_arrays, archives, archives, fuzz_files.arrays, st.binary(max_size=60),
    st.builds(
        lambda content, changes, at_end: fuzz_files.changed_bytes(content, changes, at_end=at_end),
        st.one_of(archives, plain_arrays), fuzz_files.byte_changes, st.booleans(),
    ),
    st.builds(
        lambda shape, compressed: archive_file({"x": np.ones(shape), "y": np.zeros(2)}, compressed),
        st.lists(st.integers(0, 3), max_size=3), st.booleans(),
    ),
)  # fmt: skip
contents = st.one_of(encoded, encoded, noise, binaries)
text_names = pick(["x.csv"] * 4 + ["x.tsv", "x.txt", "x", "X.CSV"])
binary_names = pick(["x.npy", "x.npy", "x.npz", "x.npz", ".npz"])
files = st.one_of(
    st.tuples(text_names, st.one_of(encoded, encoded, encoded, noise)), st.tuples(binary_names, binaries),
    st.tuples(st.one_of(text_names, binary_names), contents),
)  # fmt: skip


# ---- the readers -----------------------------------------------------------------------------------------------------

columns = st.one_of(
    pick(["0", "1", "-1", "0-1", "1-0", "0-0", "0-99", "9" * 30, "a", "b", "x y", "", "0x1", "٣", "0-",
          " 0"]),
    st.text(max_size=3),
)  # fmt: skip
reading = st.fixed_dictionaries(
    {},
    optional={
        "columns": st.lists(columns, max_size=3), "weights": columns, "labels": columns,
        "delimiter": pick([",", ";", " ", "\t", "|", "", ",,", "1", '"', "\n", "é", "\x00", "\\", "#", "."]),
        "key": pick(["weights", "x", "", "a\nb"]), "names": st.lists(columns, max_size=3),
        "n_features": st.integers(-1, 4), "may_lack_labels": st.booleans(), "may_be_missing": st.booleans(),
    },
)  # fmt: skip
may_be_missing = pick([{}, {"may_be_missing": True}])
table_cases = st.tuples(files, st.one_of(st.just({}), may_be_missing, reading))


def check_table(case):
    """Read a table."""
    (name, content), options = case
    path = FOLDER / name
    path.write_bytes(content)
    table = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = read_table(str(path), **options)
    except (ValueError, OSError) as error:
        complaint = str(error)
    if table is None:
        assert 0 < len(complaint) < 5000
        assert not any("\ud800" <= c <= "\udfff" for c in complaint), "cannot be printed"
    else:
        check_result(table, content, path.suffix.lower(), options)
    del table
    path.unlink()


def check_result(table, content, suffix, options):
    values = np.asarray(table.values)
    n, d = values.shape
    assert n > 0
    assert d > 0
    assert values.dtype.kind in "biuf"
    floats = values.astype(np.float64)
    known = np.isfinite(floats) | (np.isnan(floats) if options.get("may_be_missing") else False)
    assert known.all()
    assert table.names is None or len(table.names) == d
    assert (table.weights is None) == ("weights" not in options)
    assert table.weights is None or table.weights.shape == (n,)
    assert table.labels is None or table.labels.shape == (n,)
    if suffix not in (".npy", ".npz") and not options:
        expected = slow_reading(content.decode("utf-8-sig"))
        if expected is not None:
            np.testing.assert_array_equal(floats, expected)


def slow_reading(text):
    """Numbers of a text without quotes, line by line; None where its form is not that simple."""
    lines = [line for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]
    if '"' in text or "#" in text or not lines or not any("," in line for line in lines) or any(
        c in text for c in ";\t\x00\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    ):  # fmt: skip
        return None
    rows = [[number(cell) for cell in line.split(",")] for line in lines]
    rows = rows[1:] if any(math.isnan(cell) for cell in rows[0]) else rows
    return np.array(rows)


def number(cell):
    try:
        return float(cell)
    except ValueError:
        return math.nan


# ---- the commands ----------------------------------------------------------------------------------------------------

sources = pick(
    ["good.csv", "good.csv", "holes.csv", "labels.csv", "labels.csv", "x.csv", "x.csv", "x.npy", "x.npz", ".",
     "model.npz", "model.npz", "bad.npz", "nowhere.csv", "a\x00b", "", "-", "/dev/null", "/dev/zero", "x\nname.csv"]
)  # fmt: skip
models = pick(["model.npz"] * 5 + ["bad.npz", "good.csv", "nowhere", "", ".", "/dev/zero", "pipe"])
targets = pick(["out.csv", "out.npy", "out.npz", "out", ".", "no/out.csv", "-", "", "good.csv", "out.png",
                           "/dev/full", "a\x00b", "o\nut.csv"])  # fmt: skip
whole = pick(["1", "2", "3", "0", "-1", "99999999999999999999", "1.5", "x", "", "1_0", "٢", " 1"])
real = pick(["1", "0.5", "0", "-1", "nan", "inf", "1e-400", "1e400", "x", "", "1,2", "1,2,3", "1,"])
FLAGS = ("--json", "--proba", "--scores", "--per-row", "--draws", "--quiet", "--score")
VALUES = {
    **dict.fromkeys(("--n-components", "--n-factors", "--max-components", "--max-factors", "--max-iter", "--n-threads",
                     "--seed", "--component"), whole),
    **dict.fromkeys(("--tol", "--noise-floor"), real),
    **dict.fromkeys(("--columns", "--delimiter", "--key", "--weights", "--labels", "--column", "--axes"), columns),
    "--search": pick(["paper", "thorough", "", "X"]),
    "--criterion": pick(["mml", "bic", "evidence", "", "X"]),
    "--noise": pick(["shared", "isotropic", "component", "auto", "", "X"]),
    "--priors": pick(["uniform", "empirical", "", "0.5"]),
    "--kind": pick(["loadings", "clusters", "density", "evolution", "scores", "uncertainty", "X"]),
    "--init": models,
    "-o": targets,
}  # fmt: skip
TABLES = ("--columns", "--delimiter", "--key")
OPTIONS = {
    "demo": ("--json",),
    "fit": (*TABLES, "--weights", "--n-components", "--n-factors", "--max-components", "--max-factors", "--max-iter",
            "--n-threads", "--tol", "--noise-floor", "--search", "--criterion", "--noise", "--init", "-o", "--json",
            "--quiet"),
    "predict": (*TABLES, "-o", "--proba", "--scores", "--json"),
    "score": (*TABLES, "--weights", "--per-row", "--json"),
    "impute": (*TABLES, "-o", "--draws", "--seed"),
    "describe": ("--json",),
    "sample": ("-o", "--seed"),
    "classify": (*TABLES, "--weights", "--priors", "--proba", "--score", "-o", "--json", "--quiet"),
    "plot": (*TABLES, "--kind", "--axes", "--column", "--component", "--labels"),
}  # fmt: skip
POSITIONS = {
    "fit": (sources,), "predict": (models, sources), "score": (models, sources), "impute": (models, sources),
    "describe": (models,), "sample": (models, whole), "classify": (sources, sources),
    "plot": (models, sources),
}  # fmt: skip


@st.composite
def command_lines(draw):
    """Mostly with what the command has."""
    command = draw(pick([*POSITIONS, "fit", "classify", "score"]))
    argv = [command, *(draw(position) for position in POSITIONS[command])]
    argv += ["--labels", draw(pick(["d", "d", "0", "x"]))] if command == "classify" else []
    argv += ["-o", draw(targets)] if command == "plot" else []
    for _ in range(draw(st.integers(0, 3))):
        option = draw(pick(OPTIONS[command]))
        argv += [option] if option in FLAGS else [option, draw(VALUES[option])]
    return argv


strange_lines = st.lists(
    st.one_of(pick([*POSITIONS, *FLAGS, *VALUES, "--help", "--version", "--", "-", "", "bogus"]), columns),
    max_size=5,
)
command_cases = st.tuples(
    st.one_of(command_lines(), command_lines(), command_lines(), strange_lines), files,
    pick([b"", b"1,2,3\n3,4,5\n", b"\xff\xfe"]),
)  # fmt: skip


def prepare_folder(name, content):
    for entry in FOLDER.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, 3)).round(2)
    lines = [",".join(map(str, row)) for row in rows.tolist()]
    (FOLDER / "good.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (FOLDER / "holes.csv").write_text("a,b,c\n1,,3\n?,NA,nan\n1,2,3\n", encoding="utf-8")
    labelled = [f"{line},{'xyz'[i % 3]}" for i, line in enumerate(lines)]
    (FOLDER / "labels.csv").write_text("a,b,c,d\n" + "\n".join(labelled) + "\n", encoding="utf-8")
    for bad in ("x.csv", "x.npy", "x.npz", "bad.npz", "x\nname.csv", name):
        (FOLDER / bad).write_bytes(content)
    if hasattr(os, "mkfifo"):
        os.mkfifo(FOLDER / "pipe")
    fuzz_files.models()[2].save(FOLDER / "model.npz")


def check_command(case):
    """Run a command, in this process."""
    argv, (name, content), stdin = case
    prepare_folder(name, content)
    before = os.getcwd()
    os.chdir(FOLDER)
    out, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    given = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), replaced_stdin(given):
            status = main(argv)
    except SystemExit as end:  # of --help and --version
        status = end.code
        assert {"--help", "--version"} & set(argv)
    finally:
        os.chdir(before)
    lines = errors.getvalue().splitlines()
    assert status in (0, 2)
    assert "Traceback" not in errors.getvalue()
    # No command at all is answered by the help.
    if argv and status == 2:
        complaints = [line for line in lines if line.startswith("amofa: error: ")]
        assert len(complaints) == 1
        assert all(line.startswith(("amofa: error: ", "amofa: warning: ")) for line in lines), lines
        assert len(complaints[0]) > len("amofa: error: ")
    if status == 0:
        assert all(line.startswith("amofa: warning: ") for line in lines), lines


@contextlib.contextmanager
def replaced_stdin(stream):
    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before


TARGETS = {"tables": (table_cases, check_table), "commands": (command_cases, check_command)}
