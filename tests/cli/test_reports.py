"""The commands inspect and report."""

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import strict_json, write

import amofa
from amofa import cli


@pytest.fixture
def counts(rng):
    """counts.csv, with a column of numbers, one of 0 and 1, and missing cells."""
    lines = [f"{x:.6g},{b}" for x, b in zip(rng.normal(size=60).tolist(), rng.integers(0, 2, 60).tolist(), strict=True)]
    write("counts.csv", "\n".join(["size,member", "NA,1", *lines, ""]))


@pytest.mark.usefixtures("counts")
def test_inspect(run):
    lines = run("inspect", "counts.csv").splitlines()
    assert lines[0] == "2 columns: 1 odd; 1 missing cell"
    assert lines[2].startswith("member  two values: 0, 1  leave it out")
    size, member = strict_json(run("inspect", "counts.csv", "--json"))["columns"]
    assert (size["name"], size["n_missing"], size["finding"]) == ("size", 1, "")
    assert (member["column"], member["n_values"], member["finding"]) == (1, 2, "two values: 0, 1")


@pytest.mark.usefixtures("counts")
def test_the_warning_of_a_fit_names_the_command(capsys):
    assert cli.main(["fit", "counts.csv", "--max-components", "1"]) == 0
    assert capsys.readouterr().err.endswith("two values: 'member'. amofa inspect says what to do\n")


@pytest.mark.usefixtures("files")
def test_report(run, rows, mixture):
    X = ("report", "model.npz", "rows.csv", "--columns", "x,y")
    named = mixture.report(rows)
    assert run(*X) == f"{named!r}\n"
    clusters = run(*X, "--clusters", "1", "--weights", "w")
    assert clusters == f"{mixture.report(rows, clusters=1, sample_weight=np.full(300, 2.0))!r}\n"
    values = strict_json(run(*X, "--json", "-o", "report.csv"))
    assert values["rows"] == [200, 100]
    assert all(isinstance(n, int) for n in values["rows"])
    assert Path("report.csv").read_text().splitlines()[1].startswith("0,200,")
    assert values["mean x0"] == named.means[:, 0].tolist()
    assert (
        Path("report.csv").read_text().splitlines()[0].startswith("component,rows,weight,factors,apart,leading,mean x0")
    )


def test_report_by_the_names_of_the_model(run, files, mixture):
    mixture._named(("x", "y")).save("named.npz")
    assert "set apart" in run("report", "named.npz", "rows.csv", "-o", "-")
    assert amofa.load("named.npz").feature_names == ("x", "y")
