"""Tables in files: what is read, what is refused and in which words, and round trips."""

import gzip
import io
import os
import pickle
import sys

import numpy as np
import pytest

from amofa import AmofaWarning
from amofa.cli._tables import read_table, write_table

INFINITE = "is not a finite number; if it marks a missing value, pass --missing"
# How to leave out columns that hold text.
OUT = "; leave out columns of text by --exclude {}"
ROWS = np.array([[1.0, 2.5, -3.0], [4.0, 5e-3, 6.0]])


@pytest.fixture
def file(tmp_path):
    """The function file(name, content): the path, as str, of a new file."""

    def make(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return make


@pytest.fixture
def stdin(monkeypatch):
    """The function stdin(content): what standard input holds."""

    def fill(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content.encode()))))

    return fill


def refusal(source, **options):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the callers compare the whole message
        read_table(source, **options)
    return str(caught.value).replace(source, "FILE")


# ---- what is no text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/urandom"])
def test_devices_without_an_end(device):
    if not os.path.exists(device):
        pytest.skip(f"there is no {device}")
    assert refusal(device).startswith("FILE is not UTF-8 text (")


def test_a_file_of_zeros_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "x.csv"
    path.touch()
    os.truncate(path, 1 << 40)
    assert refusal(str(path)) == "FILE is not UTF-8 text (it has NUL characters); save it as UTF-8"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_text_of_wide_characters_without_a_mark(file, encoding):
    assert refusal(file("x.csv", "1,2\n3,4\n".encode(encoding))).endswith("save it as UTF-8")


def test_pipes_longer_than_a_piece(stdin):
    stdin("größe,b\n" + "0.125,2\n" * 50_000)
    table = read_table("-")
    assert table.names == ("größe", "b")
    np.testing.assert_array_equal(table.values, np.tile([0.125, 2.0], (50_000, 1)))


@pytest.mark.parametrize("names", [1, 30])
def test_messages_about_archives_are_short(tmp_path, names):
    np.savez(tmp_path / "x.npz", **{f"{'n' * 1000}{i}": np.zeros(1) for i in range(names)})
    message = refusal(str(tmp_path / "x.npz"))
    assert message.startswith(f"FILE holds no table; choose one of its arrays by key: {'n' * 200}")
    assert message.endswith("...") == (names > 20)
    assert len(message) < 21 * 205


# ---- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "1,2.5,-3\n4,5e-3,6\n"),
        ("x.csv", "1;2.5;-3\n4;5e-3;6\n"),
        ("x.csv", "1\t2.5\t-3\n4\t5e-3\t6\n"),
        ("x.CSV", " 1 , 2.5, -3\r\n\r\n4,5e-3,6\r\n\r\n"),
        ("x.csv", '"1","2.5","-3"\n4,5e-3,6'),
        ("x.csv", "# made by hand\n\n# 2026\n1,2.5,-3\n4,5e-3,6\n"),
        ("x.csv", "\ufeff1,2.5,-3\n4,5e-3,6\n"),
        ("x.tsv", "1\t2.5\t-3\n4\t5e-3\t6\n"),
        ("x.tab", "1\t2.5\t-3\n4\t5e-3\t6\n"),
        ("x.txt", "1 2.5 -3\n4 5e-3 6\n"),
        ("x.dat", "   1  2.5   -3  \n   \n  4\t5e-3 6\n"),
        ("x", "1,2.5,-3\n4,5e-3,6\n"),
    ],
)
def test_text_without_header(file, name, content):
    table = read_table(file(name, content))
    np.testing.assert_array_equal(table.values, ROWS)
    assert table.values.dtype == np.float64
    assert table.names is None
    assert table.weights is None


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("x.csv", "a,b,c\n1,2.5,-3\n4,5e-3,6\n", ("a", "b", "c")),
        ("x.csv", "\ufeffa, b ,c\n\n1,2.5,-3\n4,5e-3,6\n", ("a", "b", "c")),
        ("x.csv", '# note\n"a, first";b;"c;d"\n1;2.5;-3\n4;5e-3;6\n', ("a, first", "b", "c;d")),
        ("x.csv", "2001,2002,year\n1,2.5,-3\n4,5e-3,6\n", ("2001", "2002", "year")),
        ("x.csv", "a,,Na\n1,2.5,-3\n4,5e-3,6\n", ("a", "", "Na")),
        ("x.csv", "Na,b,\n1,2.5,-3\n4,5e-3,6\n", ("Na", "b", "")),
        ("x.csv", '"two\nlines",b,c\n1,2.5,-3\n4,5e-3,6\n', ("two\nlines", "b", "c")),
        ("x.tsv", "a b\tc, d\te\n1\t2.5\t-3\n4\t5e-3\t6\n", ("a b", "c, d", "e")),
        ("x.txt", '"a b"  c d\n1 2.5 -3\n4 5e-3 6\n', ("a b", "c", "d")),
        ("x.txt", "größe b c\n1 2.5 -3\n4 5e-3 6\n", ("größe", "b", "c")),
    ],
)
def test_text_with_header(file, name, content, names):
    table = read_table(file(name, content))
    np.testing.assert_array_equal(table.values, ROWS)
    assert table.names == names


def test_one_column_of_several_words(file):
    table = read_table(file("x.csv", "height in cm\n1\n2\n"))
    assert table.names == ("height in cm",)
    assert table.values.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(("delimiter", "content"), [("|", "1|2\n"), (" ", "1  2\n"), ("\t", "1\t2\n"), (":", "1:2\n")])
def test_given_delimiter(file, delimiter, content):
    assert read_table(file("x.csv", content), delimiter=delimiter).values.tolist() == [[1.0, 2.0]]


def test_standard_input(stdin):
    stdin("\ufeffa,b\r\n1,2\r\n")
    table = read_table("-")
    assert not sys.stdin.buffer.closed
    assert table.values.tolist() == [[1.0, 2.0]]
    assert table.names == ("a", "b")


def test_standard_input_is_named_in_errors(stdin):
    stdin("1,2\n3,x\n")
    with pytest.raises(
        ValueError, match=r"^standard input, line 2, column 1 \(from 0\): 'x' is not a number; leave out col"
    ):
        read_table("-")


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        read_table("-")


def test_numbers_whose_sum_is_not_finite(file):
    assert read_table(file("x.csv", "1e308,1e308\n")).values.tolist() == [[1e308, 1e308]]


def test_numbers_keep_all_their_digits(file, rng):
    values = rng.normal(size=(50, 3)) * 10.0 ** rng.integers(-300, 300, (50, 3))
    text = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    assert read_table(file("x.csv", text)).values.tobytes() == values.tobytes()


# ---- the first line, and how numbers are written ---------------------------------------------------------------------

NUMBERS = ["2,7,1,8,2,8,1,8", "3,1,4,1,5,9,2,6"]


@pytest.mark.parametrize(
    ("first", "read_as"),
    [
        ("400,402.5,405,407.5,410,412.5,415,417.5", "names of columns"),
        ("900,800,700,600,500,400,300,200", "names of columns"),
        ("0,1,2,3,4,5,6,7", "names of columns"),
        ("1,2,4,8,16,32,64,100", "names of columns"),
        ("400,402,405,407,410,412,300,417", None),
    ],
)
def test_a_first_line_of_numbers_in_order_has_names(file, first, read_as):
    path = file("x.csv", "\n".join([first, *NUMBERS]))
    if read_as is None:
        assert read_table(path).names is None
        return
    with pytest.warns(AmofaWarning, match=rf"line 1 of .*x.csv was read as {read_as}; if it is not, pass --no-header"):
        table = read_table(path)
    assert table.names == tuple(first.split(","))
    assert len(table.values) == 2
    assert read_table(path, header=False).names is None
    assert read_table(path, header=True).names == table.names


def test_rows_that_are_all_in_order_have_no_names(file):
    assert read_table(file("y.csv", "1,2,3,4,5\n6,7,8,9,10\n")).names is None
    assert read_table(file("z.csv", "1,2,3\n4,7,5\n")).names is None


def test_a_first_line_with_text_where_all_lines_have_it(file):
    path = file("x.csv", "5.1,3.5,setosa\n4.9,3.0,setosa\n")
    with pytest.warns(AmofaWarning, match="line 1 of .* was read as a row; if it is not, pass --header"):
        table = read_table(path, columns=["0-1"], labels="2")
    assert table.values.tolist() == [[5.1, 3.5], [4.9, 3.0]]
    assert table.labels.tolist() == ["setosa", "setosa"]
    assert read_table(path, columns=["0"], header=True).values.tolist() == [[4.9]]
    # Sure, since a column of that name is asked for.
    assert read_table(file("y.csv", "id,400,300\ns1,1,2\n"), exclude=["id"]).names == ("400", "300")


def test_names_of_a_model_are_known_names(file):
    path = file("x.csv", "400,300\n1,2\n")
    assert read_table(path, names=("400", "300"), n_features=2).values.tolist() == [[1.0, 2.0]]
    assert read_table(path, names=("a", "b"), n_features=2).values.tolist() == [[400.0, 300.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    ("name", "content"), [("x.csv", "1;2,5;-3\n4;5e-3;6\n"), ("x.tsv", "a\tb\tc\n1\t2,5\t-3\n4\t0,005\t6\n")]
)
def test_decimal_commas(file, name, content):
    np.testing.assert_array_equal(read_table(file(name, content), decimal=",").values, ROWS)


def test_decimal_commas_may_have_no_thousands(file):
    path = file("x.csv", "a\n1.234,5\n")
    assert refusal(path, decimal=",") == "FILE, line 2, column 'a': '1.234,5' is not a number"
    assert "'1,5' is not a number; for decimal commas pass --decimal ," in refusal(file("y.csv", "a;b\n1,5;2\n"))
    assert "is not a number; for decimal commas" in refusal(file("z.csv", "1,5;2,5\n2,5;1,5\n3,5;1,5\n"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decimal": ";"}, "decimal must be . or , got ';'"),
        ({"decimal": ",", "delimiter": ","}, "a comma cannot be both the delimiter and the decimal mark"),
    ],
)
def test_refused_decimal_marks(file, options, message):
    assert refusal(file("x.csv", "1;2\n"), **options).startswith(message)


def test_only_text_has_a_header(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    for options in ({"header": True}, {"decimal": ","}):
        assert refusal(str(tmp_path / "x.npy"), **options).startswith("FILE is not a text file, so there is nothing")


# ---- compressed text, and parquet ------------------------------------------------------------------------------------


def test_compressed_text(file, tmp_path):
    path = file("x.tsv.gz", gzip.compress(b"a\tb, c\n1\t2\n"))
    table = read_table(path)
    assert (table.names, table.values.tolist()) == (("a", "b, c"), [[1.0, 2.0]])
    write_table(str(tmp_path / "y.tsv.gz"), {"a": np.array([1.5]), "b": np.array(["x"])})
    assert gzip.decompress((tmp_path / "y.tsv.gz").read_bytes()) == b"a\tb\n1.5\tx\n"


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:30]])
def test_what_is_not_compressed_as_a_whole(file, content):
    assert refusal(file("x.csv.gz", content)).startswith("FILE is not a whole file of gzip (")


def test_parquet(tmp_path):
    pytest.importorskip("polars")
    path = str(tmp_path / "x.parquet")
    write_table(path, {"a": np.array([1.5, 2]), "kind": np.array(["x", "y"]), "n": np.array([3, 4])})
    table = read_table(path, columns=["n", "a"], labels="kind", keep=True)
    assert (table.names, table.values.tolist()) == (("n", "a"), [[3.0, 1.5], [4.0, 2.0]])
    assert table.labels.tolist() == ["x", "y"]
    assert [column.tolist() for column in table.kept.values()] == [[1.5, 2.0], ["x", "y"], [3, 4]]
    assert table.kept_values == ["n", "a"]
    assert refusal(path) == "FILE: column 'kind' does not hold numbers" + OUT.format("kind")
    (tmp_path / "y.parquet").write_bytes(b"PAR1")
    assert refusal(str(tmp_path / "y.parquet")).startswith("FILE cannot be read as .parquet (")


def test_parquet_needs_a_package(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"")
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install polars"):
        read_table(str(tmp_path / "x.parquet"))
    with pytest.raises(ImportError, match=r"pip install polars"):
        write_table(str(tmp_path / "y.parquet"), {"a": np.ones(1)})


# ---- columns ---------------------------------------------------------------------------------------------------------

IRIS = "id,width,kind,length\n7,3.5,setosa,1.4\n8,3.2,,5.1\n"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["length", "width"], [[1.4, 3.5], [5.1, 3.2]]),
        (["3", "id"], [[1.4, 7.0], [5.1, 8.0]]),
        (["0-1", "3"], [[7.0, 3.5, 1.4], [8.0, 3.2, 5.1]]),
        (["1-1"], [[3.5], [3.2]]),
    ],
)
def test_columns_of_text(file, columns, expected):
    table = read_table(file("x.csv", IRIS), columns=columns)
    assert table.values.tolist() == expected


def test_names_of_chosen_columns(file):
    assert read_table(file("x.csv", IRIS), columns=["3", "id"]).names == ("length", "id")


def test_a_name_goes_before_a_number(file):
    assert read_table(file("x.csv", "1,x,1-2\n5,6,7\n"), columns=["1", "1-2"]).values.tolist() == [[5.0, 7.0]]


def test_other_columns_may_hold_text_of_any_kind(file):
    content = 'a,b,c\n1,"x, y\nz",2\n3,größe,4\n5,"",6\n'
    assert read_table(file("x.csv", content), columns=["a", "c"]).values.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_weights_are_set_apart(file):
    table = read_table(file("x.csv", IRIS), columns=["length"], weights="id")
    assert (table.values.tolist(), table.weights.tolist(), table.names) == ([[1.4], [5.1]], [7.0, 8.0], ("length",))


def test_all_columns_but_the_weights(file, tmp_path):
    table = read_table(file("x.csv", "a,w,b\n1,2,3\n"), weights="w")
    assert (table.values.tolist(), table.weights.tolist(), table.names) == ([[1.0, 3.0]], [2.0], ("a", "b"))
    np.save(tmp_path / "x.npy", [[1, 2, 3]])
    table = read_table(str(tmp_path / "x.npy"), weights="1")
    assert (table.values.tolist(), table.weights.tolist(), table.names) == ([[1, 3]], [2], None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"columns": ["wide"]},
            "FILE has no column 'wide'; columns are numbered from 0 to 3 and named id, width, kind, length",
        ),
        (
            {"columns": ["4"]},
            "FILE has no column 4; columns are numbered from 0 to 3 and named id, width, kind, length",
        ),
        ({"columns": ["2-1"]}, "FILE has no column 2-1; columns are numbered"),
        ({"columns": ["-1"]}, "FILE has no column '-1'; columns are numbered"),
        ({"columns": ["0", "id"]}, "column 0 (from 0) of FILE is chosen twice"),
        ({"columns": ["0-1"], "weights": "width"}, "column 1 (from 0) of FILE is chosen twice"),
        ({"weights": "w"}, "FILE has no column 'w'; columns are numbered"),
        ({"weights": "0-1"}, "weights must be one column, got '0-1'"),
        ({"columns": ["kind"]}, "FILE, line 2, column 'kind': 'setosa' is not a number"),
        ({"columns": ["id"], "weights": "kind"}, "FILE, line 2, column 'kind': 'setosa' is not a number"),
        ({"columns": ["id"], "n_features": 2}, "FILE has 1 columns, but the model was made for 2"),
    ],
)
def test_refused_columns(file, options, message):
    assert refusal(file("x.csv", IRIS), **options).startswith(message)


def test_refused_columns_without_names(file, tmp_path):
    assert refusal(file("x.csv", "1,2\n"), columns=["a"]) == "FILE has no column 'a'; columns are numbered from 0 to 1"
    np.save(tmp_path / "x.npy", ROWS)
    assert refusal(str(tmp_path / "x.npy"), columns=["3"]) == "FILE has no column 3; columns are numbered from 0 to 2"


def test_errors_of_columns_of_text_say_how_to_leave_them_out(file):
    path = file("x.csv", 'id,"the, kind",sex,,size,w\n1,setosa,f,a 1,2.5,x\n')
    message = "FILE, line 2, column 'the, kind': 'setosa' is not a number"
    assert refusal(path) == message + OUT.format("""'"the, kind",sex,3,w'""")
    # Those that are left out already stay so, and others may hold any text.
    assert refusal(path, exclude=["sex"], weights="w") == message + OUT.format("""'sex,"the, kind",3'""")
    assert refusal(path, columns=["size"], weights="w") == "FILE, line 2, column 'w': 'x' is not a number"
    # Columns of a model are needed, and so is a number with another mark.
    assert refusal(path, n_features=6) == message
    assert refusal(path, names=["size", "the, kind"]) == message
    assert refusal(file("y.csv", "1;2\n1.234,5;2\n"), delimiter=";").endswith("pass --decimal ,")


def test_a_name_of_two_columns(file):
    message = "FILE has 2 columns 'a'; choose one by number"
    assert refusal(file("x.csv", "a,b,a\n1,2,3\n"), columns=["a"]) == message


def test_columns_to_fit_have_different_names(file):
    path = file("x.csv", "a,b,a\n1,2,3\n")
    assert refusal(path).startswith("FILE has 2 columns 'a'; rename one, or leave it out by --exclude with its number")
    assert read_table(path, exclude=["2"]).names == ("a", "b")
    assert read_table(path, columns=["2", "b"]).names == ("a", "b")


def test_excluded_columns(file):
    table = read_table(file("x.csv", IRIS), exclude=["kind", "0"])
    assert (table.names, table.values.tolist()) == (("width", "length"), [[3.5, 1.4], [3.2, 5.1]])
    assert read_table(file("x.csv", IRIS), columns=["0-3"], exclude=["kind"]).names == ("id", "width", "length")
    assert refusal(file("x.csv", "a\n1\n"), exclude=["a"]) == "FILE has no column besides those to exclude"
    assert refusal(file("x.csv", IRIS), exclude=["wide"]).startswith("FILE has no column 'wide'")


def test_an_index_is_set_apart(file):
    table = read_table(file("x.csv", IRIS), index="kind")
    assert table.names == ("id", "width", "length")
    assert {name: column.tolist() for name, column in table.kept.items()} == {"kind": ["setosa", ""]}


@pytest.mark.parametrize("index", ["0", "Mazda RX4", "1e3"])
def test_a_first_column_without_name_is_an_index(file, index):
    path = file("x.csv", f',b,c\n{index},2.5,-3\n"7",5e-3,6\n')
    with pytest.warns(AmofaWarning, match="the first column of .* has no name and is taken for an index, not for data"):
        table = read_table(path)
    assert (table.names, table.kept) == (("b", "c"), {})
    assert read_table(path, index="0").names == ("b", "c")
    assert read_table(path, exclude=["0"]).names == ("b", "c")
    assert read_table(path, columns=["b"]).names == ("b",)


def test_an_index_has_no_fractions(file):
    assert refusal(file("x.csv", ",b\n1,2\n1.5,3\n")).startswith(
        "FILE, line 3: the first column has no name, but '1.5'"
    )
    assert read_table(file("y.csv", ",b\n1.5,2\n1,3\n")).names == ("", "b")


def test_kept_columns_are_as_in_the_file(file, tmp_path):
    table = read_table(file("x.csv", IRIS), columns=["length", "id"], keep=True)
    assert list(table.kept) == ["id", "width", "kind", "length"]
    assert table.kept["width"].tolist() == ["3.5", "3.2"]
    assert table.kept_values == ["length", "id"]
    assert list(read_table(file("y.csv", "1,2\n3,4\n"), keep=True).kept) == ["x0", "x1"]
    assert list(read_table(file("z.csv", "a,b,a\n1,2,3\n"), columns=["b"], keep=True).kept) == ["a", "b", "a_"]
    np.save(tmp_path / "x.npy", [[1, 2, 3]])
    table = read_table(str(tmp_path / "x.npy"), columns=["2"], labels="0", keep=True)
    assert [column.tolist() for column in table.kept.values()] == [[1], [2], [3]]


def test_nothing_but_weights(file, tmp_path):
    np.save(tmp_path / "x.npy", ROWS[:, :1])
    for path in (file("x.csv", "1\n2\n"), str(tmp_path / "x.npy")):
        assert refusal(path, weights="0") == "FILE has no column besides that of the weights"


# ---- what is wrong with a text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "a,b\n1,2\n3,\n", "FILE, line 3, column 'b': the value is missing"),
        ("x.csv", "a,b\n1,2\n\n\n3,NA\n", "FILE, line 5, column 'b': the value is missing"),
        ("x.csv", "a,b\n1,2\n3,nan\n", "FILE, line 3, column 'b': the value is missing"),
        ("x.csv", "1,NA\n3,4\n", "FILE, line 1, column 1 (from 0): the value is missing"),
        ("x.csv", "1,,3\n4,5,6\n", "FILE, line 1, column 1 (from 0): the value is missing"),
        ("x.csv", "1,2\n3,four\n", "FILE, line 2, column 1 (from 0): 'four' is not a number" + OUT.format(1)),
        ("x.csv", "1,2\n3,1_0\n", "FILE, line 2, column 1 (from 0): '1_0' is not a number"),
        ("x.csv", "1,2\n3,\u0661\n", "FILE, line 2, column 1 (from 0): '\u0661' is not a number"),
        ("x.csv", "1,2\n3,-inf\n", "FILE, line 2, column 1 (from 0): '-inf' is not a finite number"),
        ("x.csv", "1,2\n3,1e999\n", "FILE, line 2, column 1 (from 0): '1e999' is not a finite number"),
        (
            "x.csv",
            "a;b\n1,5;2\n",
            "FILE, line 2, column 'a': '1,5' is not a number; for decimal commas pass --decimal ,",
        ),
        ("x.csv", f"1\n{'y' * 99}\n", f"FILE, line 2, column 0 (from 0): '{'y' * 40}' is not a number" + OUT.format(0)),
        ("x.csv", "1,2\n3,4\n5\n", "FILE, line 3: the number of values is 1, expected 2"),
        ("x.csv", "a,b\n1,2\n3,4,5\n", "FILE, line 3: the number of values is 3, expected 2"),
        ("x.csv", "a,b\n1,2,3\n", "FILE, line 2: the number of values is 3, expected 2"),
        ("x.txt", "a b\n1 2\n\n3\n", "FILE, line 4: the number of values is 1, expected 2"),
        ("x.tsv", "1\t2\n\t3\n", "FILE, line 2, column 0 (from 0): the value is missing"),
        ("x.csv", "", "FILE holds no rows"),
        ("x.csv", "\n# nothing\n\n", "FILE holds no rows"),
        ("x.csv", "\na,b\n", "FILE holds no rows: line 2 is not all numbers and was read as the header"),
        ("x.csv", b"gr\xf6\xdfe\n1\n", "FILE is not UTF-8 text (invalid start byte); save it as UTF-8"),
        ("x.csv", b"1\n" * 99999 + b"\xff\n", "FILE is not UTF-8 text (invalid start byte); save it as UTF-8"),
        (
            "x.csv",
            f"a\n1\n{'y' * 200_000}\n",
            "FILE is not a table in text form (field larger than field limit (131072))",
        ),
    ],
)
def test_refused_text(file, name, content, message):
    assert refusal(file(name, content)) == message


def test_ragged_lines_are_noticed_when_some_columns_are_chosen(file):
    # The comma of an unquoted name would otherwise move the numbers behind it.
    content = "name,a,b\nSmith,1,2\nSmith, John,3,4\n"
    assert refusal(file("x.csv", content), columns=["a"]) == "FILE, line 3: the number of values is 4, expected 3"


@pytest.mark.parametrize("delimiter", ["", "ab", "1", ".", "-", '"', "\n", "e"])
def test_refused_delimiters(file, delimiter):
    assert refusal(file("x.csv", "1\n"), delimiter=delimiter).startswith("delimiter must be one character")


def test_missing_file_and_folder(tmp_path):
    for name in ("no.csv", "no.npy", "no.npz"):
        with pytest.raises(FileNotFoundError):
            read_table(str(tmp_path / name))
    for name in ("folder.csv", "folder.npy"):
        (tmp_path / name).mkdir()
        with pytest.raises(IsADirectoryError):
            read_table(str(tmp_path / name))


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
    assert refusal(path, key="z") == "FILE holds no array 'z'; choose one of its arrays by key: X, y"
    np.savez(path, X=ROWS, Z=ROWS, y=[0, 1])
    assert refusal(path) == "FILE holds several tables (X, Z); choose one of its arrays by key: X, Z, y"
    np.savez(path, y=[0, 1])
    assert refusal(path) == "FILE holds no table; choose one of its arrays by key: y"


def test_refused_arrays(tmp_path):
    path = str(tmp_path / "x.npy")
    for values, message in (
        (np.zeros((2, 2, 2)), "FILE holds an array of 3 dimensions; it must have rows and columns"),
        (np.float64(1), "FILE holds an array of 0 dimensions; it must have rows and columns"),
        (np.zeros((0, 2)), "FILE has shape (0, 2); at least one row and one column are needed"),
        (np.array([["a"]]), "FILE has dtype <U1; a table of real numbers is needed: encode or drop other columns"),
        (ROWS * 1j, "FILE is complex; "),
        (np.where(ROWS > 5, np.nan, ROWS), "FILE has 1 value that is NaN or infinite, the first in row 1, column 2"),
        (np.zeros(2, dtype=[("a", "f8"), ("b", "f8")]), "FILE has dtype [('a', '<f8'), ('b', '<f8')]; a table of"),
    ):
        np.save(path, values)
        assert refusal(path).startswith(message)


class Trap:
    """Fails the test when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_nothing_is_unpickled(tmp_path, file):
    trap = np.array([[Trap()]], dtype=object)
    np.save(tmp_path / "x.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "x.npz", X=trap)
    for path in (str(tmp_path / "x.npy"), str(tmp_path / "x.npz"), file("y.npy", pickle.dumps(Trap()))):
        assert refusal(path).startswith("FILE cannot be read as .np")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_damaged_files(tmp_path, file, suffix):
    whole = tmp_path / f"whole{suffix}"
    np.save(whole, ROWS) if suffix == ".npy" else np.savez(whole, X=ROWS)
    content = whole.read_bytes()
    for part in (b"", content[:5], content[:40], content[:-8], b"1,2\n3,4\n"):
        assert refusal(file(f"part{suffix}", part)).startswith(f"FILE cannot be read as {suffix} (")


def test_one_array_under_the_name_of_an_archive(file, tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    path = file("x.npz", (tmp_path / "x.npy").read_bytes())
    assert refusal(path) == "FILE cannot be read as .npz (a single array, not an archive of arrays)"


def test_options_of_other_files(file, tmp_path):
    assert refusal(file("x.csv", "1\n"), key="X") == "FILE is not an .npz file, so there is no array 'X' to choose"
    np.save(tmp_path / "x.npy", ROWS)
    assert refusal(str(tmp_path / "x.npy"), delimiter=",") == "FILE is not a text file, so it has no delimiter"


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


# ---- labels, missing cells, columns by the names of a model ----------------------------------------------------------


def test_labels_are_text(file):
    source = file("x.csv", "a,kind,b\n1, big ,2\n3,12,4\n")
    table = read_table(source, labels="kind")
    assert table.labels.tolist() == ["big", "12"]
    assert table.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert table.names == ("a", "b")
    table = read_table(source, columns=["b"], weights="a", labels="1")
    assert (table.values.tolist(), table.weights.tolist(), table.names) == ([[2.0], [4.0]], [1.0, 3.0], ("b",))
    assert table.labels.tolist() == ["big", "12"]


def test_labels_in_numpys_files_are_numbers(tmp_path):
    source = str(tmp_path / "x.npy")
    np.save(source, [[1.5, 0.0], [2.5, 7.0]])
    table = read_table(source, labels="1")
    assert table.labels.tolist() == [0, 7]
    assert table.labels.dtype.kind == "i"
    assert table.values.tolist() == [[1.5], [2.5]]
    assert read_table(source, labels="0").labels.tolist() == [1.5, 2.5]


def test_labels_that_may_be_lacking(file):
    named, plain = file("x.csv", "a,b\n1,2\n"), file("y.csv", "1,2\n")
    for source, labels in ((named, "kind"), (plain, "1"), (plain, "2")):
        table = read_table(source, labels=labels, may_lack_labels=True, n_features=2)
        assert (table.labels, table.values.tolist()) == (None, [[1.0, 2.0]])
    assert read_table(plain, labels="1", may_lack_labels=True, n_features=1).labels.tolist() == ["2"]
    assert read_table(named, labels="b", may_lack_labels=True, n_features=1).labels.tolist() == ["2"]


def test_refusals_of_labels(file):
    source = file("x.csv", "a,b\n1,2\n")
    assert refusal(source, labels="c") == "FILE has no column 'c'; columns are numbered from 0 to 1 and named a, b"
    assert refusal(source, labels="0-1") == "labels must be one column, got '0-1'"
    assert refusal(source, labels="a", columns=["0"]) == "column 0 (from 0) of FILE is chosen twice"
    assert refusal(source, labels="a", weights="a").startswith("column 0 (from 0) of FILE is chosen twice")
    assert refusal(file("y.csv", "a\n1\n"), labels="a") == "FILE has no column besides that of the labels"


@pytest.mark.parametrize("cell", ["", "NA", "nan", "NaN", " ? ", "null"])
def test_cells_that_may_be_missing(file, cell):
    source = file("x.csv", f"a,b,c\n1,2,x\n3,{cell},y\n4,5,\n")
    values = read_table(source, columns=["a", "b"], may_be_missing=True).values
    np.testing.assert_array_equal(values, [[1, 2], [3, np.nan], [4, 5]])
    assert refusal(source, columns=["a", "b"]) == "FILE, line 3, column 'b': the value is missing"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,\n3,x\n", "FILE, line 3, column 'b': 'x' is not a number" + OUT.format("b")),
        ("a,b\n1,\n3,inf\n", f"FILE, line 3, column 'b': 'inf' {INFINITE}=inf"),
        ("a,b\n1,2\n3,- 1e999\n", "FILE, line 3, column 'b': '- 1e999' is not a number" + OUT.format("b")),
        ("a,b\n1,2\n3,-1e999\n", f"FILE, line 3, column 'b': '-1e999' {INFINITE}=-1e999"),
        ("a,b\n1,\n3\n", "FILE, line 3: the number of values is 1, expected 2"),
    ],
)
def test_what_is_wrong_is_so_beside_missing_cells(file, content, message):
    assert refusal(file("x.csv", content), may_be_missing=True) == message


def test_weights_are_not_missing(file):
    source = file("x.csv", "a,w\n,1\n2,\n")
    assert refusal(source, weights="w", may_be_missing=True) == "FILE, line 3, column 'w': the value is missing"


@pytest.mark.parametrize("mark", ["-9999", "-9999.0", "-9.999e3", "-", "inf", "-Inf", "not seen", "0"])
def test_marks_of_missing_cells(file, mark):
    source = file("x.csv", f"a,b,w\n1,2,0\n3,{mark},1\n4,NA,1\n")
    table = read_table(source, weights="w", may_be_missing=True, missing=["-9999", "-", "inf", "-Inf", "not seen", "0"])
    np.testing.assert_array_equal(table.values, [[1, 2], [3, np.nan], [4, np.nan]])
    # Those of numbers are not weights.
    np.testing.assert_array_equal(table.weights, [0, 1, 1])
    assert "the value is missing" in refusal(source, missing=[mark]) or mark in ("-9999", "-9999.0", "-9.999e3", "0")


def test_marks_of_missing_cells_with_decimal_commas(file):
    source = file("x.csv", "a;b\n1,5;-9,50\n-9,5;2\n")
    values = read_table(source, decimal=",", may_be_missing=True, missing=["-9,5"]).values
    np.testing.assert_array_equal(values, [[1.5, np.nan], [np.nan, 2]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_marks_of_missing_cells_in_numpys_files(tmp_path, dtype):
    source = str(tmp_path / "x.npy")
    np.save(source, np.array([[1, -99.9], [-9, 3]]).astype(dtype))
    values = read_table(source, may_be_missing=True, missing=["-99.9", "-99", "-9", "word"]).values
    np.testing.assert_array_equal(values, [[1, np.nan], [np.nan, 3]])
    assert refusal(source, missing=["-9"]).startswith("FILE has 1 value that is NaN or infinite")


def test_a_mark_in_the_first_line_is_no_name(file):
    source = file("x.csv", "1,miss,3\n4,5,6\n")
    values = read_table(source, may_be_missing=True, missing=["miss"]).values
    np.testing.assert_array_equal(values, [[1, np.nan, 3], [4, 5, 6]])


def test_missing_cells_in_numpys_files(tmp_path):
    source = str(tmp_path / "x.npy")
    np.save(source, [[1.0, np.nan]])
    np.testing.assert_array_equal(read_table(source, may_be_missing=True).values, [[1.0, np.nan]])


def test_columns_by_names(file):
    """Where the file has names, and no columns are asked for."""
    source = file("x.csv", "c,kind,a,b\n1,x,2,3\n")
    table = read_table(source, names=("a", "b", "c"))
    assert (table.values.tolist(), table.names) == ([[2.0, 3.0, 1.0]], ("a", "b", "c"))
    assert read_table(source, names=("a", "b"), columns=["c"]).names == ("c",)
    assert read_table(file("y.csv", "1,2\n"), names=("a", "b")).values.tolist() == [[1.0, 2.0]]
    assert refusal(source, names=("a", "z")).startswith("FILE has no column 'z'; columns are numbered")
