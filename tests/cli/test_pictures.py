"""The command plot: every kind of picture is written, and shows what the function that draws it does."""

import sys
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import write

import amofa
import amofa.plot

matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")

KINDS = [
    *("clusters", "tree", "uncertainty", "density", "responsibilities", "scores", "loadings", "evolution"),
    *("message-length", "cost", "contours", "pairs", "profiles", "outliers"),
]


@pytest.fixture
def fitted(run, rng):
    """rows.csv with two columns of numbers and one of labels, and model.npz, fitted to them."""
    X = np.concatenate([rng.normal(0, 1, (60, 1)) * [1, 2] + rng.normal(0, 0.1, (60, 2)), rng.normal(30, 1, (30, 2))])
    lines = [f"{x!r},{y!r},{'big' if x > 15 else 'small'}" for x, y in X.tolist()]
    write("rows.csv", "\n".join(["width,height,size", *lines, ""]))
    run("fit", "rows.csv", "--columns", "width,height", "-o", "model.npz")
    return X


@pytest.fixture
def drawn(run):
    """The function drawn(*options): the axes of the picture that the command writes."""

    def call(*options):
        plt.close("all")
        assert run("plot", "model.npz", *options, "-o", "out.png") == ""
        assert Path("out.png").read_bytes().startswith(b"\x89PNG")
        return plt.gcf().axes[0]

    return call


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(fitted, drawn, kind):
    rows = [] if kind in ("tree", "loadings", "evolution", "message-length", "cost") else ["rows.csv"]
    ax = drawn(*rows, "--kind", kind)
    model = amofa.load("model.npz")
    name = {"scores": "factor_scores", "message-length": "message_length"}.get(kind, kind)
    expected = getattr(amofa.plot, name)(model, *[fitted] * len(rows))
    expected = expected[0, 0] if kind == "pairs" else expected
    assert (ax.get_xlabel(), ax.get_ylabel()) == (expected.get_xlabel(), expected.get_ylabel())
    assert len(ax.get_lines()) == len(expected.get_lines())


def test_what_suits(fitted, drawn):
    assert drawn("rows.csv").get_xlabel() == "width"
    assert len(drawn("rows.csv").collections[0].get_offsets()) == len(fitted)
    assert drawn().get_xlabel() == "factor"


def test_options(fitted, drawn):
    assert drawn("rows.csv", "--axes", "height,0").get_xlabel() == "height"
    assert drawn("rows.csv", "--kind", "density", "--column", "1").get_xlabel() == "height"
    assert drawn("--kind", "density", "--column", "height").get_xlabel() == "height"
    assert drawn("--kind", "loadings", "--component", "0").get_xlabel() == "factor"
    legend = drawn("rows.csv", "--labels", "size").get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["big", "small"]


@pytest.mark.parametrize("gaps", [["", "low", "", "high"], ["", "2", "", "10"]])
def test_rows_without_a_label(fitted, drawn, gaps):
    write("gaps.csv", "\n".join(["width,height,size", *(f"1,2,{label}" for label in gaps), ""]))
    legend = drawn("gaps.csv", "--labels", "size").get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [*sorted(filter(None, gaps)), "no label"]


def test_labels_that_are_numbers(fitted, drawn):
    np.save("rows.npy", np.column_stack([fitted, np.arange(len(fitted)) % 3]))
    legend = drawn("rows.npy", "--columns", "0,1", "--labels", "2").get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["0", "1", "2"]


@pytest.mark.parametrize(("name", "start"), [("out.pdf", b"%PDF"), ("out.svg", b"<?xml")])
def test_formats(fitted, run, name, start):
    run("plot", "model.npz", "-o", name)
    assert Path(name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("model.npz", "the following arguments are required: -o/--output (see amofa plot --help)"),
        ("model.npz -o out.xyz", "pictures cannot be written as .xyz, for out.xyz; use one of ."),
        ("model.npz -o noext", "noext has no extension that gives the format; add .png, .pdf or .svg"),
        ("model.npz -o -", "- is not a regular file; pictures are written to such files only"),
        ("model.npz -o no/out.png", "no/out.png: there is no folder no"),
        ("model.npz -o model.npz", "model.npz cannot be both input and output"),
        ("model.npz rows.csv -o rows.csv", "rows.csv cannot be both input and output"),
        ("model.npz --kind pie -o out.png", "argument --kind: invalid choice: 'pie'"),
        ("model.npz --kind scores -o out.png", "--kind scores needs rows; add FILE"),
        ("model.npz --kind loadings --clusters 2 -o out.png", "--clusters cannot be used with --kind loadings"),
        (
            "model.npz --kind tree --clusters many -o out.png",
            "argument --clusters: 'many' is not a whole number or auto",
        ),
        ("model.npz rows.csv --kind loadings -o out.png", "--kind loadings takes no rows; leave out rows.csv"),
        ("model.npz rows.csv --column 0 -o out.png", "--column cannot be used with --kind clusters"),
        ("model.npz --kind clusters --labels size -o out.png", "--labels needs rows; add FILE"),
        ("model.npz rows.csv --labels no -o out.png", "rows.csv has no column 'no'"),
        ("model.npz rows.csv --axes width -o out.png", "columns must be two columns, got 1"),
        ("model.npz rows.csv --axes width,depth -o out.png", "columns has 'depth', but the model has no column of"),
        ("model.npz --kind loadings --component 7 -o out.png", "component must be from 0 to"),
    ],
)
@pytest.mark.usefixtures("fitted")
def test_refusals(refusal, argv, message):
    assert refusal("plot", *argv.split(" ")).startswith(message)
    assert not Path("out.png").exists()
    assert not Path("noext.png").exists()


@pytest.mark.usefixtures("fitted")
def test_without_matplotlib(refusal, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert refusal("plot", "model.npz", "-o", "x.png") == (
        "pictures need matplotlib: python -m pip install 'amofa[plot]'"
    )
