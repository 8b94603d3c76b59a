"""`inspect`, and the warning of a fit that points to it."""

import re

import numpy as np
import pytest

import amofa


@pytest.fixture
def table(rng):
    """Ordinary columns 0 and 1, and odd ones."""
    n = 400
    a, b = rng.normal(size=(2, n))
    return np.column_stack(
        [
            a,
            b,
            rng.integers(0, 2, n),  # 2
            rng.integers(0, 3, n) + 1,  # 3
            np.arange(n),  # 4
            np.where(rng.random(n) < 0.4, 0, 5 + b**2),  # 5
            rng.lognormal(size=n),  # 6
            np.round(rng.lognormal(3, 1, n)),  # 7
            -rng.lognormal(size=n),  # 8
            np.full(n, 2.5),  # 9
            2 * a - b + 1,  # 10
            a + rng.normal(0, 0.01, n),  # 11
            rng.lognormal(size=n) - 1,  # 12
        ]
    )


FINDINGS = [
    "",
    "",
    "two values: 0, 1",
    "few values: 1, 2, 3",
    "row numbers, or other equal steps",
    "spike: 4",
    "skewed to the right",
    "counts, skewed to the right",
    "skewed to the left",
    "constant: 2.5",
    "follows from 0, 1",
    "nearly a copy of 0",
    "skewed to the right",
]


def test_each_column_is_described(table):
    notes = amofa.inspect(table)
    for note, finding in zip(notes, FINDINGS, strict=True):
        assert note.finding.startswith(finding), note
        assert bool(note.finding) == bool(finding) == bool(note.remedy), note
    assert "logarithm" in notes.notes[6].remedy
    assert "log(1 + x)" in notes.notes[7].remedy
    # Powers of the distances from just beyond 0, and from just below -1.
    assert re.fullmatch(r"take log\(0\.\d+ - x\)", notes.notes[8].remedy)
    assert re.fullmatch(r"take log\(x \+ (1|0\.9)\d*\)", notes.notes[12].remedy)
    assert [note.column for note in notes.odd] == list(range(2, 13))
    assert notes.notes[5].mode_share == np.mean(table[:, 5] == 0)
    assert notes.notes[3].n_values == 3


def test_small_counts_need_more_than_a_logarithm(rng):
    counts = np.round(rng.lognormal(1.5, 1, 1000))
    note = amofa.inspect(counts[:, None]).notes[0]
    assert (note.finding, note.remedy[:35]) == ("counts, skewed to the right", "add random numbers from 0 to 1, the")
    note = amofa.inspect(np.log1p(counts)[:, None]).notes[0]
    assert note.finding == "unequal steps, as logarithms or roots of small counts"
    assert note.remedy.startswith("add random numbers from 0 to 1 to the counts first")
    assert not amofa.inspect(np.log1p(counts + rng.random(1000))[:, None]).odd


def test_exponential_columns_need_a_root(rng):
    waits = rng.exponential(size=(300, 2))
    waits[0, 1] = 0
    first, second = amofa.inspect(waits)
    assert first[5:] == ("skewed to the right", "take its cube root")
    assert second[5:] == ("skewed to the right", "take its cube root, or log(1 + x) in suitable units")


@pytest.mark.parametrize("sign", [1, -1])
def test_the_remedy_of_a_tail_helps(rng, sign):
    X = np.column_stack([sign * (5 - rng.lognormal(size=400)), rng.normal(size=400)])
    (note,) = amofa.inspect(X).odd
    X[:, 0] = eval(note.remedy.removeprefix("take "), {"log": np.log, "x": X[:, 0]})
    assert not amofa.inspect(X).odd
    assert amofa.fit(X).n_components == 1


def test_codes_of_missing_cells_are_proposed(rng):
    coded = np.where(rng.random(300) < 0.1, -999, rng.normal(50, 10, 300))
    lowest = np.maximum(rng.normal(50, 10, 300), 40)
    code, limit = amofa.inspect(np.column_stack([coded, lowest]))
    assert code.finding.endswith("of the rows at -999")
    assert code.remedy == "set it to NaN where it marks missing cells"
    assert limit.remedy.startswith("leave it out, or look at")


def test_sums_are_named_whatever_else_they_are(rng):
    a, b = rng.lognormal(size=(2, 300))
    assert [note.finding for note in amofa.inspect(np.column_stack([a, b, a + b]))][2] == "follows from 0, 1"


def test_order_unit_and_dtype_do_not_matter(table, rng):
    kinds = [note.finding.split(":")[0] for note in amofa.inspect(table)]
    for same in (table[::-1], table[rng.permutation(len(table))], np.asfortranarray(table), table.astype(np.float32)):
        assert [note.finding.split(":")[0] for note in amofa.inspect(same)] == kinds


def test_missing_cells_are_counted(table):
    table[::4, 0] = np.nan
    table[:, 1] = np.nan
    notes = amofa.inspect(table)
    assert [note.n_missing for note in notes][:3] == [100, 400, 0]
    assert notes.notes[1][3:6] == (0, 0.0, "empty")
    assert repr(notes).startswith("13 columns: 10 odd; 500 missing cells\n")


def test_wide_and_constant_tables(rng):
    wide = amofa.inspect(rng.normal(size=(50, 80)))
    assert wide.odd == ()
    assert repr(wide) == "80 columns: nothing odd; with 50 rows only, fit the first principal components, too"
    assert len(amofa.inspect(np.ones((50, 3))).odd) == 3
    assert repr(amofa.inspect(rng.normal(size=(50, 1)))) == "1 column: nothing odd"


def test_names_are_shown(table):
    pandas = pytest.importorskip("pandas")
    notes = amofa.inspect(pandas.DataFrame(table[:, :3], columns=["size", "height", "<sex>"]))
    assert notes.odd[0].name == "<sex>"
    assert repr(notes).splitlines()[2].startswith("<sex>   two values: 0, 1")
    assert "&lt;sex&gt;" in notes._repr_html_()
    assert pandas.DataFrame(notes.to_dict()).shape == (3, 7)


@pytest.mark.parametrize("fit", [amofa.fit, lambda X: amofa.scan(X, [1])])
def test_fits_warn_in_one_line(rng, fit):
    X = rng.normal(size=(300, 7))
    X[:, 2:] = X[:, 2:] > 0
    X[:, 0] = np.exp(1.5 * X[:, 0])
    with pytest.warns(amofa.DataWarning) as caught:
        fit(X)
    (message,) = [str(w.message) for w in caught if w.category is amofa.DataWarning]
    assert message == (
        "X has columns that normal components describe badly, so that there may be too many of them: skewed: 0; "
        "two values: 2, 3, 4, 5, ... (from 0). amofa.inspect(X) says what to do"
    )
    assert {w.filename for w in caught} == {__file__}


def test_one_warning_names_all_columns(rng):
    a, b = rng.normal(size=(2, 300))
    with pytest.warns(amofa.DataWarning) as caught:
        amofa.fit(np.column_stack([a, b, a > 0, np.ones(300), a + b]), n_components=1)
    (message,) = [str(w.message) for w in caught if issubclass(w.category, amofa.AmofaWarning)]
    assert message == (
        "X has columns that normal components describe badly, so that there may be too many of them: two values: 2 "
        "(from 0). amofa.inspect(X) says what to do. 1 of 5 columns of X are constant and change no decision: 3 "
        "(from 0). 1 of 5 columns of X follow from others by sums and multiples, and change no decision: 4 from 0, 1 "
        "(from 0)"
    )


def test_the_paper_search_warns_and_names_columns(rng):
    pandas = pytest.importorskip("pandas")
    X = rng.normal(size=(300, 2))
    X[:, 1] = X[:, 1] > 0
    with pytest.warns(amofa.DataWarning, match="two values: 'sex'. amofa.inspect"):
        amofa.fit(pandas.DataFrame(X, columns=["a", "sex"]), n_components=1, search="paper")


@pytest.mark.filterwarnings("error")
def test_normal_tables_are_quiet(rng):
    for n in (50, 300, 2000):
        amofa.fit(rng.normal(size=(n, 3)) @ rng.normal(size=(3, 4)) + rng.normal(size=(n, 4)), n_components=1)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_frames_that_hold_no_numbers(table, library):
    package = pytest.importorskip(library)
    days = np.arange(400).astype("datetime64[D]").astype("datetime64[ns]")
    columns = {"name": ["x", None] * 199 + ["y", "y"], "a": table[:, 0], "day": days, "sum": 2 * table[:, 0]}
    inspection = amofa.inspect(getattr(package, "DataFrame", getattr(package, "table", None))(columns))
    notes = list(inspection)
    assert [(note.column, note.name, note.n_missing, note.n_values) for note in notes[:3]] == [
        (0, "name", 199, 2), (1, "a", 0, 400), (2, "day", 0, 400)
    ]  # fmt: skip
    assert [note.finding for note in notes[:2]] == ["no numbers: x, ...", ""]
    assert notes[2].finding.startswith("no numbers: 1970-01-01")
    assert notes[0].remedy == notes[2].remedy == "leave it out, and compare it with the clusters afterwards"
    assert (notes[3].column, notes[3].finding) == (3, "follows from a")


def test_frames_without_any_number():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": ["x", "y"], "b": pandas.to_datetime([None, None])})
    with pytest.raises(TypeError, match="columns 'a', 'b'"):
        amofa.inspect(frame)
    assert [note.finding for note in amofa.inspect(frame.assign(c=[1.0, 2.0]))][:2] == ["no numbers: x, ...", "empty"]
