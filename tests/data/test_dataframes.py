"""Frames of named columns: values, missing values, and names from the fit to the summary."""

import copy
import datetime
import pickle

import numpy as np
import pytest
from reference import random_mixture

import amofa
from amofa._data.checks import check_incomplete_table, check_table
from amofa._data.dataframes import check_same_names, column_names, column_positions, columns_without_numbers, to_array
from amofa.mixture import MixtureOfFactorAnalyzers

NAN = np.nan


def pandas_frame(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def pandas_nullable_frame(columns):
    return pytest.importorskip("pandas").DataFrame(columns).convert_dtypes()


def pandas_arrow_frame(columns):
    pytest.importorskip("pyarrow")
    return pytest.importorskip("pandas").DataFrame(columns).convert_dtypes(dtype_backend="pyarrow")


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def pyarrow_table(columns):
    return pytest.importorskip("pyarrow").table(columns)


def pyarrow_batch(columns):
    return pytest.importorskip("pyarrow").RecordBatch.from_pydict(columns)


class OtherFrame:
    """What no library has: columns, and an array of them. One is called like an attribute that others have."""

    def __init__(self, columns):
        self._columns = columns
        self.column_names = columns.get("column_names")

    @property
    def columns(self):
        return list(self._columns)

    def __array__(self, dtype=None, copy=None):
        return np.array([*self._columns.values()], dtype=dtype).T


KINDS = [pandas_frame, pandas_nullable_frame, pandas_arrow_frame, polars_frame, pyarrow_table, pyarrow_batch]
kinds = pytest.mark.parametrize("make", [*KINDS, OtherFrame])


# ---- what is in a frame ----------------------------------------------------------------------------------------------


@kinds
def test_names_and_values(make):
    frame = make({"height": [1.5, 2.0], "column_names": [3, 4], "columns": [0.25, -1.0]})
    assert column_names(frame) == ("height", "column_names", "columns")
    assert all(type(name) is str for name in column_names(frame))
    np.testing.assert_array_equal(check_table(frame), [[1.5, 3, 0.25], [2, 4, -1]])


@pytest.mark.parametrize("make", KINDS)
def test_missing_values_are_nan(make):
    columns = {"a": [1, None, 3], "b": [None, 0.5, 1.5], "c": [True, None, False]}
    expected = [[1, NAN, 1], [NAN, 0.5, NAN], [3, 1.5, 0]]
    table, is_incomplete = check_incomplete_table(make(columns))
    np.testing.assert_array_equal(table, expected)
    assert table.dtype == np.float64
    assert is_incomplete
    with pytest.raises(ValueError, match="X has 3 values that are NaN or infinite, the first in row 0, column 1"):
        check_table(make(columns))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("column", [["x", "y"], [datetime.datetime(2020, 1, 1)] * 2, ["x", None]])
def test_frames_of_no_numbers_are_refused(column, make):
    for columns in ({"a": column, "b": [1.0, 2.0]}, {"a": column}, {"b": [1, None], "a": column}):
        with pytest.raises(TypeError, match=r"^X (holds values that are not numbers|has dtype)") as caught:
            check_incomplete_table(make(columns))
        assert ("column 'a'" in str(caught.value)) == (make is not OtherFrame)


def test_only_frames_have_columns_to_name():
    for X in ([["x", 1.0]], np.array([["x", 1.0]], dtype=object), np.array([["x"]])):
        with pytest.raises(TypeError) as caught:
            check_table(X)
        assert "column '" not in str(caught.value)


@pytest.mark.parametrize("make", KINDS)
def test_columns_without_numbers(make):
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")
    of_numbers = {"a": [1.5, None], "b": [True, False], "c": [3, 4]}
    assert columns_without_numbers(make(of_numbers)) == []
    expected = [] if make is OtherFrame else ["d", "e"]
    for column in (days, ["x", "y"]):
        frame = make({**of_numbers, "d": column, "e": ["x", "y"]})
        assert columns_without_numbers(frame) == expected
        assert columns_without_numbers(make({"d": column})) == expected[:1]
    if expected:
        with pytest.raises(TypeError, match="columns 'd', 'e'"):
            check_table(frame)


def test_lazy_frames_are_to_be_collected():
    lazy = polars_frame({"a": [1.0, 2.0]}).lazy()
    for call in (check_table, amofa.fit):
        with pytest.raises(TypeError, match=r"^X is a lazy frame; pass X\.collect\(\)"):
            call(lazy)
    assert check_table(lazy.collect()).shape == (2, 1)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_frames_of_one_kind_of_numbers_keep_it(dtype, rng):
    values = rng.integers(0, 9, (5, 3)).astype(dtype)
    for make in (pandas_frame, polars_frame):
        table = check_table(make({name: values[:, j] for j, name in enumerate("abc")}))
        np.testing.assert_array_equal(table, values)
        assert table.dtype == dtype


def test_a_float_frame_of_pandas_is_not_copied(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rng.standard_normal((5, 3)), columns=["a", "b", "c"])
    assert np.shares_memory(check_table(frame), frame.to_numpy())


def test_what_is_no_frame_has_no_names(rng):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X = np.zeros((3, 2))
    for thing in (X, X.tolist(), [[1]], 3, None, "ab", X.view([("a", float), ("b", float)]), {"columns": ["a"]}):
        assert column_names(thing) is None
    assert column_names(pd.Series([1.0], name="a")) is None
    assert column_names(pl.Series("a", [1.0])) is None
    assert column_names(pl.DataFrame({"a": [1.0]}).lazy()) is None
    assert column_names(pd.DataFrame(X)) is None
    assert column_names(pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))) is None
    assert to_array(X) is X


def test_names_must_all_be_strings():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.zeros((3, 2)), columns=["a", 7])
    with pytest.raises(TypeError, match="X has a column whose name is not a string, 7; rename it"):
        column_names(frame)
    with pytest.raises(TypeError, match="X has a column whose name is not a string, 7"):
        amofa.fit(frame)


# ---- names in models -------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def model(rng):
    """A model whose features have names."""
    p = random_mixture(rng, 2, 4, (1, 2))
    loadings = [p.component_loadings(k).T for k in range(2)]
    return MixtureOfFactorAnalyzers(p.weights, p.means, loadings, p.uniquenesses, feature_names=list(NAMES))


def frame_of(make, X, names=NAMES):
    return make({name: X[:, j].tolist() for j, name in enumerate(names)})


@kinds
def test_a_fit_keeps_the_names(search, make, rng):
    X = np.round(rng.standard_normal((60, 4)), 3)
    model, unnamed = amofa.fit(frame_of(make, X), search=search), amofa.fit(X, search=search)
    assert model.feature_names == NAMES
    assert unnamed.feature_names is None
    np.testing.assert_array_equal(model.means, unnamed.means)
    np.testing.assert_array_equal(unnamed.score_samples(frame_of(make, X)), model.score_samples(X))


def test_a_callback_sees_the_names(rng):
    seen = []
    frame = frame_of(OtherFrame, rng.standard_normal((60, 4)))
    amofa.fit(frame, callback=lambda step: seen.append(step.model.feature_names))
    assert set(seen) == {NAMES}


@kinds
def test_methods_take_frames_of_these_names(make, model, rng):
    X = rng.standard_normal((20, 4))
    X[3, 1] = X[7, [0, 2]] = NAN
    for name in ("predict", "predict_proba", "score_samples", "transform", "impute", "score", "bic"):
        method = getattr(model, name)
        np.testing.assert_array_equal(method(frame_of(make, X)), method(X))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b", "c", "e"), "X has 'e' and lacks 'd', unlike the table that the model was made for; rename"),
        (("a", "b", "c"), "X lacks 'd', unlike the table"),
        (("a", "b", "c", "d", "e"), "X has 'e', unlike the table"),
        (("s", "t", "u", "v", "w", "x"), "X has 's', 't', 'u', 'v', 'w', ... and lacks 'a', 'b', 'c', 'd', unlike"),
        (
            ("a", "c", "b", "d"),
            r"X has the columns of the model in another order: its column 1 \(from 0\) is 'c', where",
        ),
    ],
)
def test_other_names_are_refused(names, message, model, rng):
    X = rng.standard_normal((5, len(names)))
    for make in (pandas_frame, OtherFrame):
        for name in ("predict", "score_samples", "score", "transform", "factor_scores", "icl", "impute"):
            with pytest.raises(ValueError, match=message):
                getattr(model, name)(frame_of(make, X, names))


def test_a_column_that_is_there_twice():
    message = "X has 3 columns, some of the same name, but the model was made for 2; drop"
    with pytest.raises(ValueError, match=message):
        check_same_names(("a", "a", "b"), ("a", "b"))
    with pytest.raises(ValueError, match=r"another order: its column 1 \(from 0\) is 'b', where the model has 'a'"):
        check_same_names(("a", "b", "b"), ("a", "a", "b"))


def test_some_columns_of_a_frame_are_known_by_name(model, rng):
    X = rng.standard_normal((6, 4))
    frame = frame_of(pandas_frame, X)
    expected = model.impute(X[:, [3, 0]], known_columns=[3, 0])
    np.testing.assert_array_equal(model.impute(frame[["d", "a"]], known_columns=["d", "a"]), expected)
    np.testing.assert_array_equal(model.impute(frame[["d", "a"]], known_columns=[3, 0]), expected)
    with pytest.raises(ValueError, match="X has the columns of the model in another order: its column 0"):
        model.impute(frame[["a", "d"]], known_columns=["d", "a"])
    row = frame.iloc[0]
    given = model.condition(["d", "a"], row[["d", "a"]])
    assert given.feature_names == ("b", "c")
    np.testing.assert_allclose(given.weights @ given.means, expected[0, [1, 2]], rtol=1e-12)


def test_names_are_kept_by_copies_and_files(model, tmp_path):
    model.save(tmp_path / "model.npz")
    twins = [
        copy.copy(model),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        amofa.load(tmp_path / "model.npz"),
    ]
    assert [twin.feature_names for twin in twins] == [NAMES] * 4


def test_names_in_the_summary(model, rng):
    assert model.summary().splitlines()[1] == "features: a, b, c, d"
    p = random_mixture(rng, 1, 50, 1)
    names = tuple(f"feature number {j}" for j in range(50))
    lines = MixtureOfFactorAnalyzers._from_fit(p, None, names).summary().splitlines()
    text = lines[1 : lines.index("")]
    assert max(map(len, text)) <= 100
    assert " ".join(line.strip() for line in text) == f"features: {', '.join(names[:40])}, ..."
    assert "features:" not in MixtureOfFactorAnalyzers._from_fit(p).summary()


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("abcd", TypeError, "feature_names must be a sequence of strings, got 'abcd'"),
        (4, TypeError, "feature_names must be a sequence of strings, got 4"),
        (["a", "b", "c", 4], TypeError, r"feature_names must be strings, got 4; use str\(\)"),
        (["a", "b", "c"], ValueError, "feature_names has 3 names for 4 features; give one for each"),
    ],
)
def test_wrong_feature_names(names, error, message, model):
    arrays = model.weights, model.means, model.loadings, model.uniquenesses
    with pytest.raises(error, match=message):
        MixtureOfFactorAnalyzers(*arrays, feature_names=names)


def test_names_may_come_from_any_iterable(model):
    arrays = model.weights, model.means, model.loadings, model.uniquenesses
    for names in (iter("abcd"), np.array(list("abcd")), dict.fromkeys("abcd")):
        found = MixtureOfFactorAnalyzers(*arrays, feature_names=names).feature_names
        assert found == NAMES
        assert all(type(name) is str for name in found)


def test_positions_of_columns():
    np.testing.assert_array_equal(column_positions((np.int64(2), "a"), ["a", "b", "c"], 3, name="C"), [2, 0])
    np.testing.assert_array_equal(column_positions(np.array(["c", "b"]), ["a", "b", "c"], 3, name="C"), [2, 1])
    np.testing.assert_array_equal(column_positions(range(2), None, 3, name="C"), [0, 1])
