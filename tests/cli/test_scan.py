"""The command scan."""

import numpy as np
import pytest
from cli_helpers import strict_json

import amofa
from amofa import cli

ARGUMENTS = ("scan", "rows.csv", "--columns", "x,y", "--noise", "component", "--max-factors", "0")


@pytest.mark.usefixtures("files")
def test_scan_prints_the_table_and_writes_model_and_picture(run, rows, folder):
    pytest.importorskip("matplotlib")
    text = run(*ARGUMENTS, "--n-components", "2,1-1", "-o", "best.npz", "--plot", "costs.png")
    expected = amofa.scan(rows, [1, 2], noise="component", max_factors=0)
    assert text == f"{expected!r}\n"
    found = amofa.load("best.npz")
    assert found.cost == expected.best.cost
    assert found.feature_names == ("x", "y")
    assert (folder / "costs.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("files")
def test_scan_json(run, rows):
    values = strict_json(run(*ARGUMENTS, "--n-components", "1-2", "--json", "--weights", "w", "--quiet"))
    expected = amofa.scan(rows, [1, 2], sample_weight=np.full(300, 2), noise="component", max_factors=0)
    assert values["models"] == [
        {
            **{name: getattr(row, name) for name in ("n_components", "noise", "cost", "bic", "icl")},
            "n_factors": row.model.n_factors.tolist(),
        }
        for row in expected
    ]
    assert {name: value for name, value in values.items() if name != "models"} == {
        "criterion": "evidence",
        "columns": ["x", "y"],
        "output": None,
    }


@pytest.mark.usefixtures("files")
def test_an_interrupted_scan_keeps_the_models(monkeypatch, capsys, mixture):
    table = amofa.scan(mixture.sample(50, 0)[0], [1], noise="component")

    def interrupted(*_arguments, **_options):
        raise amofa.ScanInterrupted(table)

    monkeypatch.setattr("amofa.cli._scan.scan", interrupted)
    assert cli.main([*ARGUMENTS, "-o", "best.npz"]) == 130
    assert capsys.readouterr() == (f"{table!r}\n", "amofa: interrupted; these are the models so far\n")
    assert amofa.load("best.npz").cost == table.best.cost


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-components", "1-x"], "argument --n-components: '1-x' is not a list of whole numbers and ranges"),
        (["--n-components", "-2"], "argument --n-components: '-2' is not a list of whole"),
        (["--n-components", "3-1"], "n_components is empty; give at least one number"),
        (["--n-components", "1,1"], "n_components has 1 more than once"),
        (["--n-components", "1-301"], "n_components goes up to 301, but X has 300 rows"),
        (["--n-factors", "1,2"], "n_factors must be one number in a scan"),
        (["--plot", "costs"], "costs has no extension that gives the format; add .png, .pdf or .svg"),
        (["--plot", "rows.csv"], "rows.csv cannot be both input and output"),
        (["--output", "none/best.npz"], "there is no folder none"),
    ],
)
@pytest.mark.usefixtures("files")
def test_what_cannot_be_used(refusal, arguments, message):
    pytest.importorskip("matplotlib")
    assert message in refusal(*ARGUMENTS, *arguments)
