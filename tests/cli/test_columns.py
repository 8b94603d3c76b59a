"""Columns of tables: those that are chosen, weights, labels, an index, and missing cells."""

import numpy as np
import pytest
from cli_helpers import HOLE, OUT, ROWS, refusal_of

from amofa import AmofaWarning
from amofa.cli._tables import read_table

MARK = "; if it marks a missing value, pass --missing"
INFINITE = f"is not a finite number{MARK}"

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
    assert refusal_of(file("x.csv", IRIS), **options).startswith(message)


def test_refused_columns_without_names(file, tmp_path):
    assert (
        refusal_of(file("x.csv", "1,2\n"), columns=["a"]) == "FILE has no column 'a'; columns are numbered from 0 to 1"
    )
    np.save(tmp_path / "x.npy", ROWS)
    assert (
        refusal_of(str(tmp_path / "x.npy"), columns=["3"]) == "FILE has no column 3; columns are numbered from 0 to 2"
    )


def test_errors_of_columns_of_text_say_how_to_leave_them_out(file):
    path = file("x.csv", 'id,"the, kind",sex,,size,w\n1,setosa,f,a 1,2.5,x\n')
    message = "FILE, line 2, column 'the, kind': 'setosa' is not a number"
    assert refusal_of(path) == message + OUT.format("""'"the, kind",sex,3,w'""")
    # Those that are left out already stay so, and others may hold any text.
    assert refusal_of(path, exclude=["sex"], weights="w") == message + OUT.format("""'sex,"the, kind",3'""")
    assert refusal_of(path, columns=["size"], weights="w") == "FILE, line 2, column 'w': 'x' is not a number"
    # Columns of a model are needed, and so is a number with another mark.
    assert refusal_of(path, n_features=6) == message
    assert refusal_of(path, names=["size", "the, kind"]) == message
    assert refusal_of(file("y.csv", "1;2\n1.234,5;2\n"), delimiter=";").endswith(
        "pass --decimal , and write thousands without marks"
    )


def test_a_name_of_two_columns(file):
    message = "FILE has 2 columns 'a'; choose one by number"
    assert refusal_of(file("x.csv", "a,b,a\n1,2,3\n"), columns=["a"]) == message


def test_columns_to_fit_have_different_names(file):
    path = file("x.csv", "a,b,a\n1,2,3\n")
    assert refusal_of(path).startswith(
        "FILE has 2 columns 'a'; rename one, or leave it out by --exclude with its number"
    )
    assert read_table(path, exclude=["2"]).names == ("a", "b")
    assert read_table(path, columns=["2", "b"]).names == ("a", "b")


def test_excluded_columns(file):
    table = read_table(file("x.csv", IRIS), exclude=["kind", "0"])
    assert (table.names, table.values.tolist()) == (("width", "length"), [[3.5, 1.4], [3.2, 5.1]])
    assert read_table(file("x.csv", IRIS), columns=["0-3"], exclude=["kind"]).names == ("id", "width", "length")
    assert refusal_of(file("x.csv", "a\n1\n"), exclude=["a"]) == "FILE has no column besides those to exclude"
    assert refusal_of(file("x.csv", IRIS), exclude=["wide"]).startswith("FILE has no column 'wide'")


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
    assert refusal_of(file("x.csv", ",b\n1,2\n1.5,3\n")).startswith(
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
        assert refusal_of(path, weights="0") == "FILE has no column besides that of the weights"


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
    assert refusal_of(source, labels="c") == "FILE has no column 'c'; columns are numbered from 0 to 1 and named a, b"
    assert refusal_of(source, labels="0-1") == "labels must be one column, got '0-1'"
    assert refusal_of(source, labels="a", columns=["0"]) == "column 0 (from 0) of FILE is chosen twice"
    assert refusal_of(source, labels="a", weights="a").startswith("column 0 (from 0) of FILE is chosen twice")
    assert refusal_of(file("y.csv", "a\n1\n"), labels="a") == "FILE has no column besides that of the labels"


@pytest.mark.parametrize("cell", ["", "NA", "nan", "NaN", " ? ", "null"])
def test_cells_that_may_be_missing(file, cell):
    source = file("x.csv", f"a,b,c\n1,2,x\n3,{cell},y\n4,5,\n")
    values = read_table(source, columns=["a", "b"], may_be_missing=True).values
    np.testing.assert_array_equal(values, [[1, 2], [3, np.nan], [4, 5]])
    assert refusal_of(source, columns=["a", "b"]) == f"FILE, line 3, column 'b': {HOLE}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,\n3,x\n", f"FILE, line 3, column 'b': 'x' is not a number{MARK}=x{OUT.format('b')}"),
        ("a,b\n1,.\n", f"FILE, line 2, column 'b': '.' is not a number{MARK}=.{OUT.format('b')}"),
        ("a,b\n1,no\n", f"FILE, line 2, column 'b': 'no' is not a number{MARK}=no{OUT.format('b')}"),
        ("a,b\n1,big\n", f"FILE, line 2, column 'b': 'big' is not a number{OUT.format('b')}"),
        (
            "a,b\n1,2\n1,not seen\n",
            f"FILE, line 3, column 'b': 'not seen' is not a number{MARK}='not seen'{OUT.format('b')}",
        ),
        (
            "a,b\n1,2\n1,it was not seen by us\n",
            f"FILE, line 3, column 'b': 'it was not seen by us' is not a number{OUT.format('b')}",
        ),
        ("a,b\n1,2\n1,1.5.2024\n", "FILE, line 3, column 'b': '1.5.2024' is not a number"),
        ("a,b\n1,\n3,inf\n", f"FILE, line 3, column 'b': 'inf' {INFINITE}=inf"),
        (
            "a,b\n1,2\n3,- 1e999\n",
            f"FILE, line 3, column 'b': '- 1e999' is not a number{MARK}='- 1e999'{OUT.format('b')}",
        ),
        ("a,b\n1,2\n3,-1e999\n", f"FILE, line 3, column 'b': '-1e999' {INFINITE}=-1e999"),
        ("a,b\n1,\n3\n", "FILE, line 3: the number of values is 1, expected 2"),
    ],
)
def test_what_is_wrong_is_so_beside_missing_cells(file, content, message):
    assert refusal_of(file("x.csv", content), may_be_missing=True) == message


def test_a_mark_in_a_column_of_a_model(file):
    source = file("x.csv", "a,b\n1,2\n1,n.a.\n")
    message = refusal_of(source, names=("a", "b"), n_features=2, may_be_missing=True)
    assert message == f"FILE, line 3, column 'b': 'n.a.' is not a number{MARK}=n.a."


def test_weights_are_not_missing(file):
    source = file("x.csv", "a,w\n,1\n2,\n")
    assert (
        refusal_of(source, weights="w", may_be_missing=True)
        == "FILE, line 3, column 'w': the value is missing; each row needs a weight"
    )


@pytest.mark.parametrize("mark", ["-9999", "-9999.0", "-9.999e3", "-", "inf", "-Inf", "not seen", "0"])
def test_marks_of_missing_cells(file, mark):
    source = file("x.csv", f"a,b,w\n1,2,0\n3,{mark},1\n4,NA,1\n")
    table = read_table(source, weights="w", may_be_missing=True, missing=["-9999", "-", "inf", "-Inf", "not seen", "0"])
    np.testing.assert_array_equal(table.values, [[1, 2], [3, np.nan], [4, np.nan]])
    # Those of numbers are not weights.
    np.testing.assert_array_equal(table.weights, [0, 1, 1])
    assert "the value is missing" in refusal_of(source, missing=[mark]) or mark in ("-9999", "-9999.0", "-9.999e3", "0")


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
    assert refusal_of(source, missing=["-9"]).startswith("FILE has 1 value that is NaN or infinite")


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
    assert refusal_of(source, names=("a", "z")).startswith("FILE has no column 'z'; columns are numbered")
