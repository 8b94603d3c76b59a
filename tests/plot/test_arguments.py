"""What all pictures take and refuse."""

import subprocess
import sys

import numpy as np
import pytest
from plot_helpers import Mixture, plt

import amofa
import amofa.plot
from amofa.history import Step

ROWS = np.zeros((3, 5))
STEP = Step("start", -1, (1,), 1234.5, 0.0, 0.0, 3, True)


def test_axes_that_are_given_are_returned(space, searched):
    X, _ = space.sample(30, 0)
    Y, model, _ = searched
    for function, arguments in [
        (amofa.plot.clusters, (space, X)),
        (amofa.plot.uncertainty, (space, X)),
        (amofa.plot.density, (space, X)),
        (amofa.plot.factor_scores, (space, X)),
        (amofa.plot.responsibilities, (space, X)),
        (amofa.plot.loadings, (space,)),
        (amofa.plot.evolution, (model,)),
        (amofa.plot.message_length, (model,)),
        (amofa.plot.sensible, (model, Y)),
    ]:
        figure, ax = plt.subplots()
        assert function(*arguments, ax=ax) is ax
        assert plt.get_fignums() == [figure.number]
        plt.close(figure)


def test_the_picture_that_suits(space, searched):
    X, model, _ = searched
    assert amofa.plot.sensible(space, space.sample(9, 0)[0]).get_xlabel().startswith("direction 1")
    assert amofa.plot.sensible(space).get_xlabel() == "factor"
    assert model.plot(X).get_xlabel() == "x0"
    assert amofa.plot.sensible(amofa.fit(X, max_factors=0, max_components=1)).get_xlabel() == "step"
    line = Mixture([1.0], [[0.0]], [np.zeros((1, 0))], [[1.0]])
    assert amofa.plot.sensible(line).get_ylabel() == "density"
    assert amofa.plot.sensible(line, [[0.0], [1.0]]).get_ylabel() == "density"
    plain = Mixture([1.0], [[0.0, 0.0]], [np.zeros((2, 0))], [[1.0, 1.0]])
    assert amofa.plot.sensible(plain).get_xlabel() == "x0"


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda p, m: p.clusters(m, np.zeros((3, 4))), ValueError, "X has 4 columns, but the model was made for 5"),
        (lambda p, m: p.clusters(m, columns=(0, 5)), ValueError, "columns.* 5"),
        (lambda p, m: p.clusters(m, columns=("a", "y")), ValueError, "columns.* 'y'"),
        (lambda p, m: p.clusters(m, columns=(0, 1.5)), TypeError, "columns.* 1.5"),
        (lambda p, m: p.clusters(m, columns=(0, 0)), ValueError, "columns has column 0 twice"),
        (lambda p, m: p.clusters(m, columns=(0, 1, 2)), ValueError, "columns must be two columns"),
        (lambda p, m: p.clusters(m, columns="ab"), TypeError, "columns must be a list of columns"),
        (lambda p, m: p.clusters(m, labels=[1]), ValueError, "labels are those of rows; pass X"),
        (lambda p, m: p.clusters(m, ROWS, labels=[1]), ValueError, "labels has shape .* 3 rows"),
        (lambda p, m: p.clusters(m, ax="here"), TypeError, "ax must be matplotlib axes, got str"),
        (lambda p, m: p.density(m, column=9), ValueError, "column.* 9"),
        (lambda p, m: p.factor_scores(m, ROWS, component=2), ValueError, r"component 2 has no .* \[0, 1\]"),
        (lambda p, m: p.factor_scores(m, ROWS, component=3), ValueError, "component must be from 0 to 2"),
        (lambda p, m: p.factor_scores(m, ROWS, factors=(0, 2)), ValueError, "factors must be from 0 to 1, got 2"),
        (lambda p, m: p.factor_scores(m, ROWS, factors=1), TypeError, "factors must be two numbers of"),
        (lambda p, m: p.factor_scores(m, ROWS, factors=(0, 1, 1)), ValueError, "factors must be two .* 3"),
        (
            lambda p, m: p.factor_scores(m, ROWS, component=1, factors=(0, 1)),
            ValueError,
            "factors cannot be used: component 1 has one factor",
        ),
        (
            lambda p, m: p.factor_scores(m, ROWS, component=1, labels=[0, 1, 2]),
            ValueError,
            "labels cannot be used: component 1 has one factor",
        ),
        (lambda p, m: p.loadings(m, component=2), ValueError, "component 2 has no factors"),
        (lambda p, m: p.loadings(m, component=True), TypeError, "component must be a whole number, got True"),
        (lambda p, m: p.evolution("abc"), TypeError, "search must be a fitted model, or steps of a search; got str"),
        (lambda p, m: p.message_length(3), TypeError, "search must be a fitted model, or steps of a search; got int"),
        (lambda p, m: p.snapshots([STEP], ROWS), TypeError, "steps must be .*callback=.*; got Step"),
        (lambda p, m: p.density(m, np.full((3, 5), np.nan), column=1), ValueError, "X has no value in column 1"),
        (
            lambda p, m: m.plot(columns=(0, 1)),
            TypeError,
            "columns is not an option of amofa.plot.loadings, .* without rows; pass X",
        ),
        (lambda p, m: m.plot(ROWS, scaled=True), TypeError, "scaled is not an option of .*clusters"),
        (lambda p, m: p.evolution(m), ValueError, "there are no steps of a search"),
        (lambda p, m: p.message_length([]), ValueError, "there are no steps of a search"),
        (lambda p, m: p.snapshots([], ROWS), ValueError, "there are no steps; collect them"),
    ],
)
def test_refusals(space, draw, error, message):
    with pytest.raises(error, match=message):
        draw(amofa.plot, space)
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda p, m: p.clusters(m, ROWS),
        lambda p, m: p.uncertainty(m, ROWS),
        lambda p, m: p.density(m, ROWS),
        lambda p, m: p.factor_scores(m, ROWS),
        lambda p, m: p.responsibilities(m, ROWS),
        lambda p, m: p.loadings(m),
        lambda p, m: p.sensible(m, ROWS),
    ],
)
def test_what_is_no_model(draw):
    class Estimator:
        model_ = "a mixture"

    for model, message in [
        (Estimator(), "got Estimator; pass its model_$"),
        (ROWS, "got ndarray$"),
        (None, "NoneType$"),
    ]:
        with pytest.raises(TypeError, match=f"model must be a MixtureOfFactorAnalyzers, .*{message}"):
            draw(amofa.plot, model)
    assert plt.get_fignums() == []


def test_axes_of_three_dimensions(space):
    ax = plt.figure().add_subplot(projection="3d")
    with pytest.raises(TypeError, match="ax must be axes of two dimensions"):
        amofa.plot.clusters(space, ax=ax)


def test_too_few_axes(searched):
    X, _, steps = searched
    with pytest.raises(ValueError, match="ax has 1 axes for"):
        amofa.plot.snapshots(steps, X, ax=[plt.subplots()[1]])


def test_one_column_has_no_plane():
    line = Mixture([1.0], [[0.0]], [np.zeros((1, 0))], [[1.0]])
    with pytest.raises(ValueError, match=r"one column, and no plane; use amofa.plot.density"):
        amofa.plot.clusters(line)


def test_a_model_without_factors_has_no_loadings():
    plain = Mixture([1.0], [[0.0, 0.0]], [np.zeros((2, 0))], [[1.0, 1.0]])
    with pytest.raises(ValueError, match="no factors, and so no loadings"):
        amofa.plot.loadings(plain)


def test_without_matplotlib(monkeypatch, plane):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pictures need matplotlib: python -m pip install 'amofa\[plot\]'"):
        amofa.plot.clusters(plane)


def test_matplotlib_is_imported_when_a_picture_is_made_and_needs_no_screen(tmp_path):
    code = (
        "import sys, amofa.plot; assert 'matplotlib' not in sys.modules\n"
        "model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [[[1.0], [1.0]]], [[1.0, 1.0]])\n"
        "amofa.plot.sensible(model).figure.savefig('picture.png')"
    )
    environment = {"PATH": "", "MPLCONFIGDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
