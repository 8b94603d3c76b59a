"""Commands on folders of .parquet files, which are read in blocks."""

import os

import numpy as np
import pytest
from cli_helpers import strict_json

import amofa


@pytest.fixture
def folder_of_rows(rows, mixture):
    """rows/0.parquet, rows/1.parquet with columns x, y, text and weights; model.npz."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    os.mkdir("rows")
    frame = pandas.DataFrame(rows, columns=["x", "y"]).assign(size="big", w=2.0)
    frame[:120].to_parquet("rows/0.parquet")
    frame[120:].to_parquet("rows/1.parquet")
    mixture.save("model.npz")


@pytest.mark.usefixtures("folder_of_rows")
def test_fit(run, rows):
    found = strict_json(run("fit", "rows", "--columns", "0-1", "--weights", "w", "-o", "found.npz", "--json"))
    assert (found["columns"], found["n_samples"]) == (["x", "y"], 600)
    expected = amofa.fit(rows, sample_weight=np.full(300, 2.0))
    np.testing.assert_array_equal(amofa.load("found.npz").means, expected.means)
    assert "Mixture of 2" in run("fit", "rows", "--exclude", "size,w", "--init", "found.npz")


@pytest.mark.usefixtures("folder_of_rows")
def test_predict(run, rows, mixture):
    parquet = pytest.importorskip("pyarrow.parquet")
    options = ("--columns", "x,y", "--proba", "-o", "labels.parquet")
    assert run("predict", "model.npz", "rows", *options) == ""
    table = parquet.read_table("labels.parquet")
    assert table.column_names == ["label", "p0", "p1"]
    np.testing.assert_array_equal(table["label"], mixture.predict(rows))
    assert strict_json(run("predict", "model.npz", "rows", *options, "--json")) == {
        "n_rows": 300,
        "output": "labels.parquet",
    }


@pytest.mark.usefixtures("folder_of_rows")
def test_what_folders_cannot_have_is_refused(refusal):
    assert "'size' does not hold numbers" in refusal("fit", "rows")
    assert "no --missing" in refusal("fit", "rows", "--missing", "-9")
    assert "add -o LABELS.parquet" in refusal("predict", "model.npz", "rows", "--columns", "x,y")
    options = ("--columns", "x,y", "-o", "rows/labels.parquet")
    assert "rows/labels.parquet is in the folder that is read" in refusal("predict", "model.npz", "rows", *options)
    for command in ("inspect rows", "report model.npz rows", "scan rows", "score model.npz rows"):
        assert "rows is a folder; only fit and predict read folders" in refusal(*command.split())
    os.mkdir("empty")
    assert "there is no .parquet file in empty" in refusal("fit", "empty")
