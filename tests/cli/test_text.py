"""Tables of text: the first line, delimiters, numbers, and what is wrong with a cell."""

import sys

import numpy as np
import pytest
from cli_helpers import HOLE, OUT, ROWS, refusal_of

from amofa import AmofaWarning
from amofa.cli._tables import read_table

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


def test_years_are_names_of_values_that_fall(file):
    """As in tables of countries, where text stands in the first columns of every line."""
    path = file("x.csv", "country,1990,1991,1992,1993,1994,1995,1996,1997\nPeru,9,8.5,8.1,7.8,7.2,7.1,6.8,6.5\n")
    with pytest.warns(AmofaWarning, match=r"line 1 of .* was read as names of columns"):
        table = read_table(path, exclude=["0"])
    assert table.names == tuple(map(str, range(1990, 1998)))


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
    remedy = "; write numbers without marks of thousands"
    assert refusal_of(path, decimal=",") == f"FILE, line 2, column 'a': '1.234,5' is not a number{remedy}"
    assert "'1,5' is not a number; for decimal commas pass --decimal ," in refusal_of(file("y.csv", "a;b\n1,5;2\n"))
    assert "is not a number; for decimal commas" in refusal_of(file("z.csv", "1,5;2,5\n2,5;1,5\n3,5;1,5\n"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decimal": ";"}, "decimal must be . or , got ';'"),
        ({"decimal": ",", "delimiter": ","}, "a comma cannot be both the delimiter and the decimal mark"),
    ],
)
def test_refused_decimal_marks(file, options, message):
    assert refusal_of(file("x.csv", "1;2\n"), **options).startswith(message)


def test_only_text_has_a_header(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    for options in ({"header": True}, {"decimal": ","}):
        assert refusal_of(str(tmp_path / "x.npy"), **options).startswith("FILE is not a text file, so there is nothing")


# ---- what is wrong with a text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "a,b\n1,2\n3,\n", f"FILE, line 3, column 'b': {HOLE}"),
        ("x.csv", "a,b\n1,2\n\n\n3,NA\n", f"FILE, line 5, column 'b': {HOLE}"),
        ("x.csv", "a,b\n1,2\n3,nan\n", f"FILE, line 3, column 'b': {HOLE}"),
        ("x.csv", "1,NA\n3,4\n", f"FILE, line 1, column 1 (from 0): {HOLE}"),
        ("x.csv", "1,,3\n4,5,6\n", f"FILE, line 1, column 1 (from 0): {HOLE}"),
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
        ("x.tsv", "1\t2\n\t3\n", f"FILE, line 2, column 0 (from 0): {HOLE}"),
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
    assert refusal_of(file(name, content)) == message


def test_ragged_lines_are_noticed_when_some_columns_are_chosen(file):
    # The comma of an unquoted name would otherwise move the numbers behind it.
    content = "name,a,b\nSmith,1,2\nSmith, John,3,4\n"
    assert refusal_of(file("x.csv", content), columns=["a"]) == "FILE, line 3: the number of values is 4, expected 3"


@pytest.mark.parametrize("delimiter", ["", "ab", "1", ".", "-", '"', "\n", "e"])
def test_refused_delimiters(file, delimiter):
    assert refusal_of(file("x.csv", "1\n"), delimiter=delimiter).startswith("delimiter must be one character")


def test_missing_file_and_folder(tmp_path):
    for name in ("no.csv", "no.npy", "no.npz"):
        with pytest.raises(FileNotFoundError):
            read_table(str(tmp_path / name))
    for name in ("folder.csv", "folder.npy"):
        (tmp_path / name).mkdir()
        with pytest.raises(IsADirectoryError):
            read_table(str(tmp_path / name))


def test_names_of_rows_as_r_writes_them(file):
    path = file("x.txt", '"a" "b"\n"Ann" 1 2.5\n"Bob" 4 5e-3\n')
    with pytest.warns(AmofaWarning, match="has no name and is taken for an index"):
        table = read_table(path)
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.values, [[1, 2.5], [4, 5e-3]])


@pytest.mark.parametrize("cell", ["1,802.04", "1'802.04"])
def test_marks_of_thousands(file, cell):
    with pytest.raises(ValueError, match="is not a number; write numbers without marks of thousands"):
        read_table(file("x.csv", f"a;b\n{cell};2\n3;4\n"))


@pytest.mark.parametrize("first", ["2018,2019,2020", "400,410", "840,650,550,450"])
def test_a_few_numbers_in_order_may_be_names(file, first):
    row = ",".join(["1.5"] * (first.count(",") + 1))
    with pytest.warns(AmofaWarning, match="line 1 of .* was read as a row; if it is not, pass --header"):
        assert read_table(file("x.csv", f"{first}\n{row}\n")).names is None
