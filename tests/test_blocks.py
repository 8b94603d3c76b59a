"""Rows in blocks give the same model as an array, wherever the blocks come from."""

import itertools

import numpy as np
import pytest

import amofa
from amofa._data import deduplicate, row_chunks
from amofa.blocks import Blocks, from_npy, from_parquet, from_zarr, write_predictions
from amofa.history import LiveStep


@pytest.fixture(autouse=True)
def few_held_rows(monkeypatch):
    """Tables of more rows than these are read in blocks; a search holds so many of them."""
    monkeypatch.setattr(row_chunks, "_HELD_ROWS", 1024)
    monkeypatch.setattr(deduplicate, "_MOST_VALUES", 1000)


def groups(rng, n=6000, d=3):
    """Two groups of rows, with one factor each, in any order."""
    z = rng.random(n) < 0.3
    loadings = rng.normal(0, 1, (2, d))
    return rng.normal(0, 0.5, (n, d)) + rng.normal(0, 1, (n, 1)) * loadings[z.astype(int)] + 9 * z[:, None]


def fit(X, **options):
    return amofa.fit(X, max_components=2, **options)


def assert_same(model, other, rtol=1e-9):
    assert model.n_factors.tolist() == other.n_factors.tolist()
    np.testing.assert_allclose(model._parameters.buffer, other._parameters.buffer, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model._report.cost, other._report.cost, rtol=rtol)
    np.testing.assert_allclose(model._report.log_likelihood, other._report.log_likelihood, rtol=rtol)


def bits(model):
    return model._parameters.buffer.tobytes(), model._report.cost


# ---- the same model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tails": "t", "max_components": 2},
        {"background": "nested", "max_components": 2},
        {"noise": "isotropic", "max_components": 2},
    ],
    ids=str,
)
def test_fit_is_that_of_the_array(rng, options):
    X = groups(rng)
    if "background" in options:
        X[:200] = rng.uniform(-60, 60, (200, 3))
    assert_same(amofa.fit(Blocks(np.array_split(X, 7)), **options), amofa.fit(X, **options))


def test_bounds_of_blocks_and_threads_hardly_matter(rng):
    X = groups(rng).astype(np.float32)
    model = fit(Blocks([X[:1], X[1:4000], X[:0], X[4000:]]), n_threads=1)
    assert_same(model, fit(X))
    assert bits(model) == bits(fit(Blocks([X[:1], X[1:4000], X[:0], X[4000:]]), n_threads=2))


def test_weights_stand_beside_blocks(rng):
    X, w = groups(rng), rng.integers(0, 3, 6000).astype(float)
    w[:2000] = 0.0
    expected = fit(X, sample_weight=w)
    assert_same(fit(Blocks(np.array_split(X, 3), weights=w)), expected)
    assert_same(fit(Blocks(np.array_split(X, 3), weights=np.array_split(w, 3))), expected)


def test_missing_cells(rng):
    X = groups(rng, d=4)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:5] = np.nan
    X[2000:4000, :3] = groups(rng, 2000)  # a block without missing cells in these columns
    w = rng.random(6000) + 0.5
    for weights in (None, w):
        model = fit(Blocks(np.array_split(X, 3), weights=weights))
        assert_same(model, fit(X, sample_weight=weights))


def test_columns_that_say_nothing(rng):
    X = groups(rng)
    X = np.column_stack([X, X @ [1.0, 2.0, -1.0], np.full(len(X), 7.0)])
    X[::9, 4] = np.nan
    with pytest.warns(amofa.AmofaWarning, match="constant|follow"):
        expected = fit(X)
    with pytest.warns(amofa.AmofaWarning, match="constant|follow"):
        assert_same(fit(Blocks(np.array_split(X, 4))), expected)


def test_relations_are_found_among_complete_rows(rng):
    X = groups(rng)
    X = np.column_stack([X, X @ [1.0, 2.0, -1.0], rng.normal(0, 1, len(X))])
    X[rng.random(len(X)) < 0.2, 4] = np.nan
    with pytest.warns(amofa.AmofaWarning, match="follow"):
        expected = fit(X)
    with pytest.warns(amofa.AmofaWarning, match="follow"):
        assert_same(fit(Blocks(np.array_split(X, 4))), expected)


def test_pairs_of_columns_that_no_row_has(rng):
    X = groups(rng)
    X[:5000, 0], X[5000:, 1] = np.nan, np.nan
    with pytest.warns(amofa.AmofaWarning, match="no row of X has values in both of some columns.*0 and 1"):
        amofa.fit(Blocks(np.array_split(X, 4)), n_components=1, n_factors=0)


def test_few_rows_are_fitted_as_an_array(rng):
    X, w = groups(rng, 900), rng.random(900)
    assert bits(fit(Blocks(np.array_split(X, 4), weights=w))) == bits(fit(X, sample_weight=w))
    wide = rng.normal(0, 1, (20, 30))
    assert bits(fit(Blocks([wide[:9], wide[9:]]))) == bits(fit(wide))
    labels = fit(Blocks([X]), search="paper").predict(X)
    assert len(np.unique(labels)) == 2


def test_start_from_a_model(rng):
    X = groups(rng)
    model = fit(X[:1000])
    assert_same(fit(Blocks([X]), init=model), fit(X, init=model))


# ---- how a fit runs --------------------------------------------------------------------------------------------------


def test_checkpoint_resumes(rng, tmp_path):
    X, path = groups(rng), tmp_path / "fit.npz"
    blocks = Blocks(np.array_split(X, 4))
    expected = fit(blocks)
    steps = itertools.count()
    with pytest.raises(amofa.FitInterrupted):
        fit(blocks, checkpoint=path, callback=lambda step: interrupt(steps, step))
    assert bits(fit(blocks, checkpoint=path)) == bits(expected)
    with pytest.raises(ValueError, match="another fit: X differs"):
        fit(Blocks(np.array_split(X, 5)), checkpoint=path)


def interrupt(steps, step):
    assert isinstance(step, LiveStep)
    if next(steps) == 1:
        raise KeyboardInterrupt


def test_time_limit(rng):
    with pytest.warns(amofa.AmofaWarning, match="max_time"):
        model = fit(Blocks([groups(rng)]), max_time=1e-9)
    assert model.n_components == 1


# ---- where blocks come from ------------------------------------------------------------------------------------------


def test_functions_frames_and_names(rng):
    pandas = pytest.importorskip("pandas")
    X = groups(rng)
    blocks = Blocks([lambda start=start: pandas.DataFrame(X[start::3], columns=["a", "b", "c"]) for start in range(3)])
    model = fit(blocks)
    assert model.feature_names == ("a", "b", "c")
    assert repr(blocks) == "<amofa.blocks.Blocks of 3 columns>"
    assert Blocks([X], feature_names="xyz").feature_names == ("x", "y", "z")


def test_npy(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(amofa.blocks._files, "_BLOCK_VALUES", 3 * 1000)
    X, w = groups(rng), rng.random(6000)
    for i, (rows, weights) in enumerate(zip(np.array_split(X, 3), np.array_split(w, 3), strict=True)):
        np.save(tmp_path / f"x{i}.npy", rows)
        np.save(tmp_path / f"w{i}.npy", weights)
    paths = [tmp_path / f"x{i}.npy" for i in range(3)]
    assert [len(rows) for rows, _ in from_npy(paths)] == 6 * [1000]
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in from_npy(str(tmp_path / "x*.npy"))]), X)
    for weights in (w, [tmp_path / f"w{i}.npy" for i in range(3)]):
        read = list(from_npy(paths, weights=weights))
        np.testing.assert_array_equal(np.concatenate([v for _, v in read]), w)
    assert next(iter(from_npy(paths[0])))[1] is None
    with pytest.raises(FileNotFoundError, match="no file"):
        from_npy(str(tmp_path / "y*.npy"))
    with pytest.raises(ValueError, match="has 1 dimensions, not 2"):
        from_npy(tmp_path / "w0.npy")
    np.save(tmp_path / "odd.npy", X[:, :2])
    with pytest.raises(ValueError, match=r"odd\.npy has 2 columns, but .*x0\.npy has 3"):
        from_npy([tmp_path / "x0.npy", tmp_path / "odd.npy"])


def test_parquet(rng, tmp_path, monkeypatch):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    monkeypatch.setattr(amofa.blocks._files, "_BLOCK_VALUES", 3 * 1000)
    X, w = groups(rng), rng.random(6000)
    X[0, 0] = np.nan
    frame = pandas.DataFrame(X, columns=["a", "b", "c"]).assign(w=w, name="text", whole=np.arange(6000) % 7)
    (tmp_path / "set").mkdir()
    for i in range(3):
        frame[2000 * i : 2000 * (i + 1)].to_parquet(tmp_path / "set" / f"{i}.parquet", row_group_size=700)
    blocks = from_parquet(tmp_path / "set", ["a", "b", "c"], weights="w")
    assert (blocks.n_features, blocks.feature_names) == (3, ("a", "b", "c"))
    np.testing.assert_array_equal(np.concatenate([rows for rows, _ in blocks]), X)
    np.testing.assert_array_equal(np.concatenate([v for _, v in blocks]), w)
    assert_same(fit(blocks), fit(X, sample_weight=w))
    files = [tmp_path / "set" / f"{i}.parquet" for i in (2, 0)]
    np.testing.assert_array_equal(next(iter(from_parquet(files, ["whole"])))[0][:3], [[3.0], [4.0], [5.0]])
    (tmp_path / "set").rename(tmp_path / "day.parquet")
    for path in (tmp_path, str(tmp_path / "*.parquet"), str(tmp_path / "day.parquet" / "*.parquet")):
        np.testing.assert_array_equal(np.concatenate([rows for rows, _ in from_parquet(path, ["b"])])[:, 0], X[:, 1])
    (tmp_path / "day.parquet").rename(tmp_path / "set")
    with pytest.raises(ValueError, match="column 'name' does not hold numbers"):
        from_parquet(tmp_path / "set", weights="w")
    for columns, message in (
        ([], "no columns to read"),
        ("ab", r"got 'ab'; pass \['ab'\]"),
        (["a", "a"], "has 'a' twice"),
        (["a", "w"], "'w' has the weights"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            from_parquet(tmp_path / "set", columns, weights="w")
    with pytest.raises(ValueError, match="no column 'x'; it has a, b"):
        from_parquet(tmp_path / "set", ["x"])


def test_parquet_in_single_precision(rng, tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    X = groups(rng, 100).astype(np.float32)
    pandas.DataFrame(X, columns=["a", "b", "c"]).to_parquet(tmp_path / "x.parquet")
    ((rows, _),) = from_parquet(tmp_path / "x.parquet")
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, X)


def test_zarr(rng, tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")
    monkeypatch.setattr(amofa.blocks._files, "_BLOCK_VALUES", 3 * 1000)
    X, w = groups(rng), rng.random(6000)
    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(700, 3))
    weights = zarr.create_array(tmp_path / "w.zarr", data=w, chunks=(700,))
    for blocks in (from_zarr(array, weights=weights), from_zarr(tmp_path / "x.zarr", weights=tmp_path / "w.zarr")):
        np.testing.assert_array_equal(np.concatenate([rows for rows, _ in blocks]), X)
        np.testing.assert_array_equal(np.concatenate([v for _, v in blocks]), w)
    with pytest.raises(ValueError, match="has 1 dimensions"):
        from_zarr(weights)


def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.dataset", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: python -m pip install 'amofa\[blocks\]'"):
        from_parquet(tmp_path / "x.parquet")


# ---- predictions -----------------------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_array(rng, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    X = groups(rng)
    model, path = amofa.fit(X[:500], background="uniform"), tmp_path / "labels.parquet"
    blocks = Blocks([*np.array_split(X, 4), X[:0]])
    assert write_predictions(model, blocks, path, proba=True, scores=True, log_density=True) == 6000
    table = parquet.read_table(path)
    np.testing.assert_array_equal(table["label"], model.predict(X))
    np.testing.assert_array_equal(table["p1"], model.predict_proba(X)[:, 1])
    np.testing.assert_array_equal(table["log_density"], model.score_samples(X))
    write_predictions(model, blocks, path, clusters=1)
    assert parquet.read_table(path).column_names == ["label"]


def test_a_file_of_predictions_is_complete_or_not_there(rng, tmp_path):
    pytest.importorskip("pyarrow")
    X = groups(rng, 100)
    model = amofa.fit(X)
    for bad, message in (
        ([], "no blocks"),
        ([X[:0]], "no rows in any block"),
        ([X, X[:, :2]], "block 1 of X has 2 columns, but the model was made for 3"),
    ):
        with pytest.raises(ValueError, match=message):
            write_predictions(model, Blocks(bad), tmp_path / "p.parquet")
    with pytest.raises(TypeError, match=r"got ndarray; model\.predict takes arrays"):
        write_predictions(model, X, tmp_path / "p.parquet")
    assert list(tmp_path.iterdir()) == []


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_what_can_be_read_only_once_is_refused(rng):
    X = groups(rng)
    with pytest.raises(TypeError, match=r"blocks can be read only once.*list of functions"):
        Blocks(x for x in np.array_split(X, 3))
    with pytest.raises(TypeError, match="weights can be read only once"):
        Blocks([X], weights=iter([X[:, 0]]))
    for other in (3, groups(rng), "x.npy", {"a": [1.0]}):
        with pytest.raises(
            TypeError, match=r"or an iterable of arrays, got (int|ndarray|str|dict); \[X\] is one block"
        ):
            Blocks(other)


@pytest.mark.parametrize(
    ("blocks", "options", "message"),
    [
        ([], {}, "no blocks"),
        ([np.zeros(3)], {}, "block 0 of X must have two dimensions"),
        ([np.zeros((0, 3))], {}, "no rows in any block"),
        ([np.ones((3000, 3)), np.ones((2, 2))], {}, "block 1 of X has 2 columns, but the others have 3"),
        ([np.ones((3000, 3)), np.full((2, 3), np.inf)], {}, "block 1 of X has 6 values that are infinite"),
        ([np.full((3000, 3), np.nan)], {}, "no value in any row"),
        ([np.ones((3000, 3))], {"weights": np.zeros(3000)}, "weights of all blocks are 0"),
        ([np.ones((3000, 3))], {"weights": np.full(3000, 1e99)}, "out of range"),
        ([np.ones((3000, 3))], {"weights": np.ones(2999)}, "sample_weight of block 0 has shape"),
        ([np.ones((3000, 3))], {"weights": np.ones(3001)}, "3001 weights, but 3000 rows"),
        ([np.ones((3000, 3))], {"weights": [np.ones(3000), np.ones(1)]}, "not as many blocks of weights"),
        ([np.ones((3000, 3))] * 2, {"weights": [np.ones(3000), None]}, "block 1 of weights is None"),
        (
            [np.ones((3000, 3))],
            {"weights": [-np.ones(3000)]},
            "sample_weight of block 0 must be finite and not negative",
        ),
        ([np.ones((3000, 3))], {"feature_names": "ab"}, "2 names for 3 features"),
    ],
)
def test_errors_name_the_block(blocks, options, message):
    with pytest.raises(ValueError, match=message):
        amofa.fit(Blocks(blocks, **options))


def test_a_block_that_is_no_table_is_named(rng):
    for blocks, message in (([groups(rng), None], "block 1 .* got NoneType"), (["x.npy"], "block 0 .* got str")):
        with pytest.raises(TypeError, match=message):
            amofa.fit(Blocks(blocks))


def test_errors_of_functions_name_the_block(rng):
    def fail():
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire") as caught:
        amofa.fit(Blocks([lambda: groups(rng), fail]))
    assert caught.value.__notes__ == ["block 1 of X could not be read"]

    def mistaken():
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        amofa.fit(Blocks([groups(rng)], weights=[mistaken]))


def test_options_that_need_all_rows_are_refused(rng):
    blocks = Blocks([groups(rng)])
    with pytest.raises(ValueError, match="search='paper' needs all rows in memory"):
        amofa.fit(blocks, search="paper")
    with pytest.raises(TypeError, match="must be a mixture, not labels"):
        amofa.fit(blocks, init=np.zeros(6000, dtype=int))
    with pytest.raises(TypeError, match="weights of blocks stand beside them"):
        amofa.fit(blocks, sample_weight=np.ones(6000))
    with pytest.raises(TypeError, match=r"X is in blocks, which amofa\.fit takes"):
        amofa.fit(groups(rng, 100)).predict(blocks)
    estimators = pytest.importorskip("amofa.sklearn")
    with pytest.raises(TypeError, match=r"X is in blocks, which amofa\.fit takes"):
        estimators.AMoFA().fit(blocks)


def test_frames_of_other_columns_and_blocks_that_change_are_refused(rng):
    pandas = pytest.importorskip("pandas")
    X = groups(rng)
    frame = pandas.DataFrame(X)
    frame.columns = [f"x{j}" for j in range(X.shape[1])]
    with pytest.raises(ValueError, match="block 1 of X has other columns than block 0, or in another order"):
        amofa.fit(Blocks([frame, frame[frame.columns[::-1]]]))
    with pytest.raises(ValueError, match="block 1 of X has other columns than block 0, or in another order"):
        amofa.fit(Blocks([frame, frame[frame.columns[::-1]]], feature_names=["a", "b", "c"][: X.shape[1]]))
    numbered = pandas.DataFrame(X)
    with pytest.raises(ValueError, match="block 1 of X has other columns than block 0, or in another order"):
        amofa.fit(Blocks([numbered, numbered[numbered.columns[::-1]]]))
    with pytest.raises(ValueError, match="feature_names has the names of the columns of block 0 in another order"):
        amofa.fit(Blocks([frame], feature_names=frame.columns[::-1]))
    with pytest.raises(ValueError, match="block 1 of X has names of columns, but block 0 has none"):
        amofa.fit(Blocks([X, frame]))
    passes = []

    class Shrinking:
        def __init__(self, change):
            self.change = change

        def __iter__(self):
            passes.append(1)
            yield X
            yield from self.change(len(passes))

    for change, message in (
        (lambda n: [X[: 6000 - n]], "block 1 of X has .* rows and had .* before; blocks must be the same"),
        (lambda n: [X, X] if n > 4 else [X], "block 2 of X has .* rows and was not there before"),
        (lambda n: [] if n > 4 else [X], "there are 1 blocks of X, but there were 2 before"),
        (lambda n: [np.hstack([X, X]) if n > 4 else X], "block 1 of X has other columns or weights than before"),
    ):
        passes.clear()
        with pytest.raises(ValueError, match=message):
            amofa.fit(Blocks(Shrinking(change)))


def test_weights_that_change_are_refused(rng):
    X, passes = groups(rng), []

    class Growing:
        def __iter__(self):
            passes.append(1)
            yield np.full(len(X), 1.0 + (len(passes) > 3))

    with pytest.raises(ValueError, match="block 0 of X has other columns or weights than before"):
        amofa.fit(Blocks([X], weights=Growing()))


def test_parquet_of_frames_without_their_index_and_of_several_types(rng, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": rng.normal(1.7e9, 1.0, 500), "b": rng.normal(size=500)}).sample(frac=1)
    frame.astype(np.float32).to_parquet(tmp_path / "0.parquet")
    frame.to_parquet(tmp_path / "1.parquet")
    blocks = from_parquet(tmp_path)
    assert blocks.feature_names == ("a", "b")
    # Other programs write the index without the note that it is one.
    pandas.DataFrame({"a": [1.0], "__index_level_0__": [0]}).to_parquet(tmp_path / "index.parquet", index=False)
    assert from_parquet(tmp_path / "index.parquet").feature_names == ("a",)
    (tmp_path / "index.parquet").unlink()
    rows = np.concatenate([rows for rows, _ in blocks])
    np.testing.assert_array_equal(rows[500:], frame)
    frame[["a"]].to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet has no column 'b'; it has a"):
        from_parquet(tmp_path)
