"""Fuzz target: files of tables (see fuzz.py).

`read_table` gives a table of finite numbers, the same that a slow reading of plain text gives, or refuses with
ValueError or OSError.
"""

import atexit
import io
import math
import shutil
import tempfile
import warnings
from pathlib import Path

import fuzz_files
import numpy as np
from fuzz_files import pick
from hypothesis import strategies as st

import amofa
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
            warnings.simplefilter("ignore", amofa.AmofaWarning)  # of what was guessed
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


TARGETS = {"tables": (table_cases, check_table)}
