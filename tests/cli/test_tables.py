"""Tables in files that are not plain text, what is refused, and round trips."""

import gzip
import os
import pickle
import sys

import numpy as np
import pytest
from cli_helpers import OUT, ROWS, refusal_of

from amofa.cli._tables import read_table, write_table

# ---- what is no text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/urandom"])
def test_devices_without_an_end(device):
    if not os.path.exists(device):
        pytest.skip(f"there is no {device}")
    assert refusal_of(device).startswith("FILE is not UTF-8 text (")


def test_a_file_of_zeros_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "x.csv"
    path.touch()
    os.truncate(path, 1 << 40)
    assert refusal_of(str(path)) == "FILE is not UTF-8 text (it has NUL characters); save it as UTF-8"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_text_of_wide_characters_without_a_mark(file, encoding):
    assert refusal_of(file("x.csv", "1,2\n3,4\n".encode(encoding))).endswith("save it as UTF-8")


def test_pipes_longer_than_a_piece(stdin):
    stdin("größe,b\n" + "0.125,2\n" * 50_000)
    table = read_table("-")
    assert table.names == ("größe", "b")
    np.testing.assert_array_equal(table.values, np.tile([0.125, 2.0], (50_000, 1)))


@pytest.mark.parametrize("names", [1, 30])
def test_messages_about_archives_are_short(tmp_path, names):
    np.savez(tmp_path / "x.npz", **{f"{'n' * 1000}{i}": np.zeros(1) for i in range(names)})
    message = refusal_of(str(tmp_path / "x.npz"))
    assert message.startswith(f"FILE holds no table; choose one of its arrays by key: {'n' * 200}")
    assert message.endswith("...") == (names > 20)
    assert len(message) < 21 * 205


# ---- compressed text, and parquet ------------------------------------------------------------------------------------


def test_compressed_text(file, tmp_path):
    path = file("x.tsv.gz", gzip.compress(b"a\tb, c\n1\t2\n"))
    table = read_table(path)
    assert (table.names, table.values.tolist()) == (("a", "b, c"), [[1.0, 2.0]])
    write_table(str(tmp_path / "y.tsv.gz"), {"a": np.array([1.5]), "b": np.array(["x"])})
    assert gzip.decompress((tmp_path / "y.tsv.gz").read_bytes()) == b"a\tb\n1.5\tx\n"


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:30]])
def test_what_is_not_compressed_as_a_whole(file, content):
    assert refusal_of(file("x.csv.gz", content)).startswith("FILE is not a whole file of gzip (")


def test_parquet(tmp_path):
    pytest.importorskip("polars")
    path = str(tmp_path / "x.parquet")
    write_table(path, {"a": np.array([1.5, 2]), "kind": np.array(["x", "y"]), "n": np.array([3, 4])})
    table = read_table(path, columns=["n", "a"], labels="kind", keep=True)
    assert (table.names, table.values.tolist()) == (("n", "a"), [[3.0, 1.5], [4.0, 2.0]])
    assert table.labels.tolist() == ["x", "y"]
    assert [column.tolist() for column in table.kept.values()] == [[1.5, 2.0], ["x", "y"], [3, 4]]
    assert table.kept_values == ["n", "a"]
    assert refusal_of(path) == "FILE: column 'kind' does not hold numbers" + OUT.format("kind")
    (tmp_path / "y.parquet").write_bytes(b"PAR1")
    assert refusal_of(str(tmp_path / "y.parquet")).startswith("FILE cannot be read as .parquet (")


def test_parquet_needs_a_package(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"")
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install polars"):
        read_table(str(tmp_path / "x.parquet"))
    with pytest.raises(ImportError, match=r"pip install polars"):
        write_table(str(tmp_path / "y.parquet"), {"a": np.ones(1)})


# ---- numpy's files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path, dtype, order):
    values = np.array(ROWS > 0 if dtype == "?" else ROWS, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", values)
    table = read_table(str(tmp_path / "x.npy"))
    np.testing.assert_array_equal(table.values, values)
    assert table.values.dtype == values.dtype
    assert isinstance(table.values.base, np.memmap)
    np.testing.assert_array_equal(read_table(str(tmp_path / "x.npy"), columns=["2", "0"]).values, values[:, [2, 0]])


def test_npy_of_one_dimension_is_one_column(tmp_path):
    np.save(tmp_path / "x.npy", [1.0, 2.0])
    assert read_table(str(tmp_path / "x.npy")).values.tolist() == [[1.0], [2.0]]


def test_npz(tmp_path):
    path = str(tmp_path / "x.npz")
    np.savez(path, X=ROWS, y=[0, 1])
    np.testing.assert_array_equal(read_table(path).values, ROWS)
    np.testing.assert_array_equal(read_table(path, key="X").values, ROWS)
    assert read_table(path, key="y").values.tolist() == [[0], [1]]
    assert refusal_of(path, key="z") == "FILE holds no array 'z'; choose one of its arrays by key: X, y"
    np.savez(path, X=ROWS, Z=ROWS, y=[0, 1])
    assert refusal_of(path) == "FILE holds several tables (X, Z); choose one of its arrays by key: X, Z, y"
    np.savez(path, y=[0, 1])
    assert refusal_of(path) == "FILE holds no table; choose one of its arrays by key: y"


def test_refused_arrays(tmp_path):
    path = str(tmp_path / "x.npy")
    for values, message in (
        (np.zeros((2, 2, 2)), "FILE holds an array of 3 dimensions; it must have rows and columns"),
        (np.float64(1), "FILE holds an array of 0 dimensions; it must have rows and columns"),
        (np.zeros((0, 2)), "FILE has shape (0, 2); at least one row and one column are needed"),
        (np.array([["a"]]), "FILE has dtype <U1; a table of real numbers is needed: leave out other columns"),
        (ROWS * 1j, "FILE is complex; "),
        (np.where(ROWS > 5, np.nan, ROWS), "FILE has 1 value that is NaN or infinite, the first in row 1, column 2"),
        (np.zeros(2, dtype=[("a", "f8"), ("b", "f8")]), "FILE has dtype [('a', '<f8'), ('b', '<f8')]; a table of"),
    ):
        np.save(path, values)
        assert refusal_of(path).startswith(message)


class Trap:
    """Fails the test when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_nothing_is_unpickled(tmp_path, file):
    trap = np.array([[Trap()]], dtype=object)
    np.save(tmp_path / "x.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "x.npz", X=trap)
    for path in (str(tmp_path / "x.npy"), str(tmp_path / "x.npz"), file("y.npy", pickle.dumps(Trap()))):
        assert refusal_of(path).startswith("FILE cannot be read as .np")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_damaged_files(tmp_path, file, suffix):
    whole = tmp_path / f"whole{suffix}"
    np.save(whole, ROWS) if suffix == ".npy" else np.savez(whole, X=ROWS)
    content = whole.read_bytes()
    for part in (b"", content[:5], content[:40], content[:-8], b"1,2\n3,4\n"):
        assert refusal_of(file(f"part{suffix}", part)).startswith(f"FILE cannot be read as {suffix} (")


def test_one_array_under_the_name_of_an_archive(file, tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    path = file("x.npz", (tmp_path / "x.npy").read_bytes())
    assert refusal_of(path) == "FILE cannot be read as .npz (a single array, not an archive of arrays)"


def test_options_of_other_files(file, tmp_path):
    assert refusal_of(file("x.csv", "1\n"), key="X") == "FILE is not an .npz file, so there is no array 'X' to choose"
    np.save(tmp_path / "x.npy", ROWS)
    assert refusal_of(str(tmp_path / "x.npy"), delimiter=",") == "FILE is not a text file, so it has no delimiter"


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.tab", "x.txt", "x.npy"])
@pytest.mark.parametrize("header", [True, False])
def test_round_trip(tmp_path, rng, name, header):
    path = str(tmp_path / name)
    values = rng.normal(size=(40_000 if name == "x.csv" else 9, 2)) * 1e-7
    write_table(path, {"a": values[:, 0], "b, c": values[:, 1]}, header=header)
    table = read_table(path)
    assert np.ascontiguousarray(table.values).tobytes() == values.tobytes()
    assert table.names == (("a", "b, c") if header and name != "x.npy" else None)


def test_written_text(tmp_path):
    columns = {"label": np.array([1, 0]), 'p "0"': np.array([0.1, 1 / 3])}
    write_table(str(tmp_path / "x.csv"), columns)
    assert (tmp_path / "x.csv").read_bytes() == b'label,"p ""0"""\n1,0.1\n0,0.3333333333333333\n'
    write_table(str(tmp_path / "x.tsv"), columns, header=False)
    assert (tmp_path / "x.tsv").read_bytes() == b"1\t0.1\n0\t0.3333333333333333\n"


def test_written_npy_keeps_one_column_as_it_is(tmp_path):
    write_table(str(tmp_path / "x.npy"), {"label": np.array([1, 0])})
    labels = np.load(tmp_path / "x.npy")
    assert labels.dtype.kind == "i"
    assert labels.tolist() == [1, 0]


def test_no_rows_to_write(tmp_path):
    write_table(str(tmp_path / "x.csv"), {"a": np.zeros(0)})
    assert (tmp_path / "x.csv").read_text() == "a\n"


def test_refused_output(tmp_path):
    with pytest.raises(ValueError, match=r"x\.npz: write tables as text \(\.csv, \.tsv\) or \.npy"):
        write_table(str(tmp_path / "x.npz"), {"a": np.zeros(1)})
    with pytest.raises(FileNotFoundError):
        write_table(str(tmp_path / "no" / "x.csv"), {"a": np.zeros(1)})
