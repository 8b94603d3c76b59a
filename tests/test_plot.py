"""Pictures: each is rendered, and what it shows is read off the artists and compared with the model."""

from __future__ import annotations

import dataclasses
import io
import itertools
import subprocess
import sys

import datasets
import numpy as np
import pytest
from scipy.integrate import trapezoid

import amofa

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402

import amofa.plot  # noqa: E402
from amofa.history import Step  # noqa: E402
from amofa.plot._axes import component_colors, drawn_rows, make_groups  # noqa: E402
from amofa.plot._plane import discriminating_directions, make_view  # noqa: E402

Mixture = amofa.MixtureOfFactorAnalyzers
STEP = Step("start", -1, (1,), 1234.5, 0.0, 0.0, 3, True)


@pytest.fixture
def plane():
    """Two components in two columns, the second with the same centre as none."""
    return Mixture([0.75, 0.25], [[0, 0], [9, 1]], [[[1.0], [0.5]], np.zeros((2, 0))], [[1, 1], [1, 4]])


@pytest.fixture
def space(rng):
    """Three components of two, one and no factors in five columns, far apart in the second and fourth."""
    means = np.zeros((3, 5))
    means[1, 1] = means[2, 3] = 20
    loadings = [rng.normal(size=(5, p)) for p in (2, 1, 0)]
    return Mixture([0.5, 0.3, 0.2], means, loadings, np.ones((3, 5)), feature_names=["a", "b", "c", "d", "e"])


def rendered(ax):
    """The image of a figure, (height, width, 4), after a check that it is not empty."""
    file = io.BytesIO()
    ax.figure.savefig(file, dpi=50)
    file.seek(0)
    image = plt.imread(file)
    assert len(np.unique(image.reshape(-1, 4), axis=0)) > 20
    return image


def assert_legend_is_outside(ax):
    ax.figure.canvas.draw()
    inside, legend = ax.get_window_extent(), ax.get_legend().get_window_extent()
    assert legend.x0 >= inside.x1 or legend.y0 >= inside.y1
    assert legend.x1 <= ax.figure.bbox.x1
    assert legend.y1 <= ax.figure.bbox.y1


def dense_covariance(model):
    """Of the whole mixture."""
    mean = model.weights @ model.means
    return sum(
        w * (model.covariance(k) + np.outer(m - mean, m - mean))
        for k, (w, m) in enumerate(zip(model.weights, model.means, strict=True))
    )


def gain(model, directions):
    """Nats by which a Gaussian for each component is better than one for all, no component narrower than a tenth."""
    whole = directions @ dense_covariance(model) @ directions.T
    parts = [directions @ model.covariance(k) @ directions.T for k in range(model.n_components)]
    return np.linalg.slogdet(whole)[1] - sum(
        w * np.linalg.slogdet(0.99 * part + 0.01 * whole)[1] for w, part in zip(model.weights, parts, strict=True)
    )


# ---- the view --------------------------------------------------------------------------------------------------------


def test_columns_are_the_view(space, rng):
    X = rng.normal(size=(4, 5))
    view = make_view(space, (3, "b"))
    np.testing.assert_array_equal(view.points(X), X[:, [3, 1]])
    assert view.labels == ("d", "b")
    for k in range(3):
        np.testing.assert_allclose(view.covariances[k], space.covariance(k)[np.ix_([3, 1], [3, 1])], rtol=1e-12)


def test_the_plane_of_a_mixture(space, rng):
    view = make_view(space, None)
    directions = view.directions
    np.testing.assert_allclose(directions @ dense_covariance(space) @ directions.T, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(view.means, space.means @ directions.T, rtol=1e-10, atol=1e-10)
    for k in range(3):
        np.testing.assert_allclose(view.covariances[k], directions @ space.covariance(k) @ directions.T, rtol=1e-10)
    best = gain(space, directions)
    assert all(gain(space, rng.normal(size=(2, 5))) < best for _ in range(200))
    # The best of all: no plane nearby is better.
    assert all(gain(space, directions + 1e-2 * rng.normal(size=(2, 5)) * directions.std()) < best for _ in range(50))


def test_the_plane_does_not_depend_on_units(space):
    units = np.array([1e-6, 1.0, 1e6, 3.0, 1e-3])
    scaled = Mixture(
        space.weights, space.means * units, [w * units[:, None] for w in space.loadings], space.uniquenesses * units**2
    )
    np.testing.assert_allclose(make_view(scaled, None).means, make_view(space, None).means, atol=1e-4)


def test_components_of_the_same_centre_are_told_apart_by_their_spread():
    model = Mixture([0.5, 0.5], np.zeros((2, 4)), [np.zeros((4, 0))] * 2, [[1, 1, 1, 1], [1, 1, 25, 1]])
    directions = make_view(model, None).directions * np.sqrt(np.diag(dense_covariance(model)))
    assert np.abs(directions[:, 2]).max() > 0.99


def test_the_plane_of_one_component_is_of_its_principal_axes(rng):
    model = Mixture([1.0], np.zeros((1, 6)), [rng.normal(size=(6, 2))], [np.full(6, 0.1)])
    covariance = model.covariance(0)
    scale = np.sqrt(np.diag(covariance))
    found = np.linalg.qr(discriminating_directions(model, scale).T)[0]
    leading = np.linalg.eigh(covariance / scale / scale[:, None])[1][:, -2:]
    np.testing.assert_allclose(np.linalg.svd(found.T @ leading)[1], 1.0, atol=1e-6)


def test_the_plane_of_many_columns(rng, monkeypatch):
    """Looked for in the span of means and loadings: with shared uniquenesses, where the best plane is."""
    model = Mixture(
        [0.5, 0.3, 0.2], 3 * rng.normal(size=(3, 12)), [rng.normal(size=(12, 1)) for _ in range(3)], np.ones((3, 12))
    )
    full = make_view(model, None).directions
    monkeypatch.setattr("amofa.plot._plane._WIDE", 10)
    narrow = make_view(model, None).directions
    assert gain(model, narrow) == pytest.approx(gain(model, full), rel=1e-4)


def test_axes_of_the_plane_name_their_largest_columns(space):
    labels = make_view(space, None).labels
    assert labels[0].startswith("direction 1: ")
    assert " b" in labels[0] + labels[1]
    assert " d" in labels[0] + labels[1]


# ---- pictures of rows ------------------------------------------------------------------------------------------------


def test_clusters(plane):
    X, _ = plane.sample(200, 0)
    ax = amofa.plot.clusters(plane, X)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), X)
    colors = np.array(component_colors(2))[plane.predict(X)]
    np.testing.assert_allclose(ax.collections[0].get_facecolors()[:, :3], colors, atol=1e-12)
    ellipses = [np.array(line.get_data()) for line in ax.get_lines()]
    assert len(ellipses) == 4
    for ellipse, (k, deviations) in zip(ellipses, [(0, 1), (0, 2), (1, 1), (1, 2)], strict=True):
        off = ellipse - plane.means[k][:, None]
        distance = np.einsum("ij,ij->j", off, np.linalg.solve(plane.covariance(k), off))
        np.testing.assert_allclose(distance, deviations**2, rtol=1e-9)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0: 75.0%, 1 factor", "1: 25.0%, 0 factors"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1")
    rendered(ax)
    assert_legend_is_outside(ax)


def test_clusters_in_the_colours_of_labels(plane):
    X, y = plane.sample(50, 0)
    ax = amofa.plot.clusters(plane, X, labels=np.array(["b", "a"])[y])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    np.testing.assert_allclose(
        ax.collections[0].get_facecolors()[:, :3], np.array(component_colors(2))[1 - y], atol=1e-12
    )
    rendered(ax)


LABELS_WITH_GAPS = [
    (["b", None, "a", float("nan")], ["a", "b", "no label"], [1, 2, 0, 2]),
    ([2, None, "a", 1], ["1", "2", "a", "no label"], [1, 3, 2, 0]),
    (np.array([2.5, np.nan, 1.0, 2.5]), ["1.0", "2.5", "no label"], [1, 2, 0, 1]),
    ([None] * 4, ["no label"], [0] * 4),
]


@pytest.mark.parametrize(("labels", "names", "numbers"), LABELS_WITH_GAPS)
def test_rows_without_a_label(plane, labels, names, numbers):
    ax = amofa.plot.clusters(plane, np.zeros((4, 2)), labels=labels)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == names
    groups = make_groups(labels, 4)
    assert groups.numbers.tolist() == numbers
    colors = np.array(groups.colors)[numbers]
    np.testing.assert_allclose(ax.collections[0].get_facecolors()[:, :3], colors, atol=1e-12)
    assert len({tuple(color) for color in colors.tolist()}) == len(names)
    rendered(ax)


def test_labels_of_frames():
    pandas = pytest.importorskip("pandas")
    groups = make_groups(pandas.Series(["b", pandas.NA, "a"], dtype="string"), 3)
    assert (groups.names, groups.numbers.tolist()) == (["a", "b", "no label"], [1, 2, 0])


def test_labels_are_shown_as_they_are(plane):
    labels = ["_low", "$x", "y$", r"$\nonsense{$"]
    ax = amofa.plot.clusters(plane, np.zeros((4, 2)), labels=labels)
    rendered(ax)
    texts = ax.get_legend().get_texts()
    assert sorted(text.get_text().replace(r"\$", "$") for text in texts) == sorted(labels)
    # What is no formula is shown with its own height.
    assert not any(text._preprocess_math(text.get_text())[1] for text in texts)


def test_names_with_dollar_signs_are_no_formulas(rng):
    names = [r"$\a{$", "b$", "$c$"]
    model = Mixture([1.0], np.zeros((1, 3)), [rng.normal(size=(3, 2))], np.ones((1, 3)), feature_names=names)
    X = rng.normal(size=(20, 3))
    shown = [amofa.plot.clusters(model, X), amofa.plot.clusters(model, X, columns=[0, 2]), amofa.plot.loadings(model)]
    for ax in [*shown, amofa.plot.uncertainty(model, X), amofa.plot.density(model, X)]:
        rendered(ax)
        for text in (ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels()):
            assert not text._preprocess_math(text.get_text())[1] or text.get_text().startswith("$\\mathdefault")


def test_a_legend_of_very_many_labels_is_cut(plane):
    X, _ = plane.sample(650, 0)
    ax = amofa.plot.clusters(plane, X, labels=np.arange(650))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[:71] == [str(label) for label in range(71)]
    assert texts[71:] == ["and 579 more"]
    assert ax.figure.get_size_inches()[0] < 12
    rendered(ax)
    assert_legend_is_outside(ax)


def test_clusters_without_rows(space):
    ax = amofa.plot.clusters(space, columns=("b", 3))
    assert len(ax.get_lines()) == 6
    assert len(ax.collections) == 0
    rendered(ax)


def test_clusters_of_a_model_with_many_components(rng):
    K = 40
    model = Mixture(np.full(K, 1 / K), rng.normal(0, 9, (K, 3)), [np.zeros((3, 0))] * K, np.ones((K, 3)))
    ax = amofa.plot.clusters(model, model.sample(100, 0)[0])
    rendered(ax)
    assert_legend_is_outside(ax)
    assert len({tuple(color) for color in component_colors(K)}) == K


def test_uncertainty(plane):
    X = np.array([[0.0, 0.0], [9.0, 1.0], [4.2, 0.5]])
    ax = amofa.plot.uncertainty(plane, X)
    points, doubt = ax.collections[0].get_offsets(), ax.collections[0].get_array()
    np.testing.assert_allclose(doubt, 1 - plane.predict_proba(points).max(axis=1), atol=1e-12)
    assert doubt.argmax() == 2
    assert {tuple(p) for p in points.tolist()} == {tuple(x) for x in X.tolist()}
    rendered(ax)


def test_density(plane):
    X, _ = plane.sample(300, 0)
    ax = amofa.plot.density(plane, X)
    ticks, *parts, whole = ax.get_lines()
    grid, values = whole.get_data()
    one = Mixture(plane.weights, plane.means[:, :1], [w[:1] for w in plane.loadings], plane.uniquenesses[:, :1])
    np.testing.assert_allclose(values, np.exp(one.score_samples(grid[:, None])), rtol=1e-9)
    np.testing.assert_allclose(sum(part.get_ydata() for part in parts), values, rtol=1e-12)
    assert trapezoid(values, grid) == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_array_equal(ticks.get_xdata(), X[:, 0])
    assert sum(bar.get_height() * bar.get_width() for bar in ax.patches) == pytest.approx(1.0)
    rendered(ax)
    assert_legend_is_outside(ax)


def test_columns_by_name(space):
    X, _ = space.sample(20, 0)
    ax = amofa.plot.density(space, X, column="d")
    np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), X[:, 3])
    assert ax.get_xlabel() == "d"


def test_missing_cells(space):
    X, _ = space.sample(20, 0)
    X[3, 1] = X[4, 0] = np.nan
    shown = amofa.plot.clusters(space, X, columns=("b", "c")).collections[0].get_offsets()
    np.testing.assert_array_equal(shown, space.impute(X)[:, [1, 2]])
    assert len(amofa.plot.uncertainty(space, X).collections[0].get_offsets()) == 20
    assert len(amofa.plot.density(space, X).get_lines()[0].get_xdata()) == 19


def test_frames_must_have_the_columns_of_the_model(space):
    pandas = pytest.importorskip("pandas")
    X, _ = space.sample(20, 0)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    assert len(amofa.plot.clusters(space, frame).collections[0].get_offsets()) == 20
    with pytest.raises(ValueError, match="another order"):
        amofa.plot.clusters(space, frame[list("badce")])


def test_density_without_rows_and_of_rows_that_are_equal(plane):
    assert len(amofa.plot.density(plane).patches) == 0
    rendered(amofa.plot.density(plane, np.zeros((3, 2))))


def test_factor_scores(space):
    X, _ = space.sample(400, 0)
    ax = amofa.plot.factor_scores(space, X)
    rows = space.predict(X) == 0
    np.testing.assert_allclose(ax.collections[0].get_offsets(), space.factor_scores(X[rows])[0], rtol=1e-12)
    assert ax.get_title() == f"component 0: {rows.sum()} rows"
    rendered(ax)
    swapped = amofa.plot.factor_scores(space, X, factors=(1, 0))
    np.testing.assert_allclose(swapped.collections[0].get_offsets(), space.factor_scores(X[rows])[0][:, ::-1])


def test_factor_scores_of_one_factor(space):
    X, _ = space.sample(400, 0)
    ax = amofa.plot.factor_scores(space, X, component=1)
    assert sum(bar.get_height() * bar.get_width() for bar in ax.patches) == pytest.approx(1.0)
    rendered(ax)


def test_factor_scores_with_labels(space):
    X, y = space.sample(400, 0)
    ax = amofa.plot.factor_scores(space, X, labels=y % 2)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0"]


def test_factor_scores_of_a_component_without_rows(space):
    ax = amofa.plot.factor_scores(space, space.means[:1], component=1)
    assert ax.get_title() == "component 1: 0 rows"


def test_responsibilities(plane):
    X, _ = plane.sample(40, 0)
    ax = amofa.plot.responsibilities(plane, X)
    proba = plane.predict_proba(X)
    areas = []
    for band in ax.collections:
        (path,) = band.get_paths()
        x, y = path.vertices[:-1].T
        areas.append(abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2)
    np.testing.assert_allclose(areas, proba.sum(axis=0), rtol=1e-6)
    assert ax.get_xlim() == (0, 40)
    rendered(ax)
    assert_legend_is_outside(ax)


def test_of_very_many_rows_evenly_spaced_ones_are_drawn(plane):
    X = np.zeros((50_000, 2), dtype=np.float32)
    X[:, 0] = np.arange(50_000)
    shown = amofa.plot.clusters(plane, X).collections[0].get_offsets()
    assert len(shown) == 20_000
    assert set(np.diff(shown[:, 0])) == {2.0, 3.0}
    assert drawn_rows(7).tolist() == list(range(7))


# ---- pictures of the model and the search ----------------------------------------------------------------------------


def test_loadings(space):
    ax = amofa.plot.loadings(space)
    correlations = [w / np.sqrt(np.diag(space.covariance(k)))[:, None] for k, w in enumerate(space.loadings)]
    np.testing.assert_allclose(ax.images[0].get_array(), np.concatenate(correlations, axis=1), rtol=1e-12)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c", "d", "e"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1", "0"]
    rendered(ax)
    one = amofa.plot.loadings(space, component=1, scaled=False)
    np.testing.assert_array_equal(one.images[0].get_array(), space.loadings[1])
    rendered(one)


def test_names_of_many_columns_do_not_overlap(rng):
    model = Mixture([1.0], np.zeros((1, 300)), [rng.normal(size=(300, 2))], np.ones((1, 300)))
    ax = amofa.plot.loadings(model)
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 for upper, lower in itertools.pairwise(boxes))


@pytest.fixture
def searched(rng):
    """Rows, model and steps of a search."""
    X, _ = datasets.example_2(rng)
    steps = []
    return X, amofa.fit(X, callback=steps.append), steps


def test_evolution(searched):
    _, model, steps = searched
    ax = amofa.plot.evolution(model)
    taken = [i for i, step in enumerate(model.history) if step.accepted]
    x, y = ax.get_lines()[0].get_data()
    assert x.tolist() == taken
    assert y.tolist() == [model.history[i].cost for i in taken]
    marked = sum(len(line.get_xdata()) for line in ax.get_lines()[1:-1])
    assert marked == len(model.history)
    lowest = ax.get_lines()[-1]
    assert lowest.get_ydata()[0] == min(step.cost for step in model.history if step.accepted)
    (numbers,) = [other for other in ax.figure.axes if other is not ax]
    assert numbers.get_lines()[0].get_ydata()[:-1].tolist() == [model.history[i].n_components for i in taken]
    assert ax.get_ylabel() == "cost (evidence), nats"
    rendered(ax)
    assert_legend_is_outside(ax)
    assert amofa.plot.evolution(steps).get_ylabel() == "cost, nats"


def test_every_action_has_a_marker(rng):
    for search in ("thorough", "paper"):
        model = amofa.fit(datasets.example_1(rng)[0], search=search, n_factors=(1, 2))
        ax = amofa.plot.evolution(model)
        assert sum(len(line.get_xdata()) for line in ax.get_lines()[1:-1]) == len(model.history)


def test_message_length(searched):
    _, model, _ = searched
    ax = amofa.plot.message_length(model)
    assert ax.get_lines()[0].get_ydata().tolist() == [s.message_length for s in model.history if s.accepted]
    rendered(ax)


def test_snapshots(searched):
    X, _, steps = searched
    panels = amofa.plot.snapshots(steps, X)
    accepted = [step for step in steps if step.accepted]
    assert [panel.get_title() for panel in panels] == [f"{s.action}: {s.cost:.1f}" for s in accepted]
    assert [len(panel.get_lines()) for panel in panels] == [2 * s.n_components for s in accepted]
    bold = [panel.title.get_fontweight() == "bold" for panel in panels]
    assert bold.index(True) == int(np.argmin([s.cost for s in accepted]))
    rendered(panels[0])
    _, axes = plt.subplots(1, len(accepted) + 1)
    assert (amofa.plot.snapshots(steps, X, ax=axes) == axes[:-1]).all()


@pytest.mark.parametrize("columns", [None, (0, 2)])
def test_labels_of_snapshots_do_not_overlap(rng, columns):
    X = rng.normal(size=(150, 4)) + np.repeat([[0] * 4, [9, 0, 9, 0], [0, 9, 0, 9]], 50, axis=0)
    names = [f"${j} quite a long name of a column that goes on and on" for j in range(4)]
    steps = []
    amofa.fit(X, callback=steps.append)
    steps = [dataclasses.replace(step, model=step.model._named(names)) for step in steps]
    panels = amofa.plot.snapshots(steps, X, columns=columns)
    panels[0].figure.canvas.draw()
    expected = "direction 1" if columns is None else r"\$0 quite a long name …"
    assert [panel.get_xlabel() for panel in panels] == [expected] * len(panels)
    boxes = [axis.label.get_window_extent() for panel in panels for axis in (panel.xaxis, panel.yaxis)]
    figure = panels[0].figure.bbox
    assert len(panels) > 2
    assert all(figure.x0 <= box.x0 and box.x1 <= figure.x1 and figure.y0 <= box.y0 for box in boxes)
    assert all(box.y1 <= figure.y1 for box in boxes)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


# ---- what they share -------------------------------------------------------------------------------------------------


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
        (lambda p, m: p.clusters(m, np.zeros((3, 5)), labels=[1]), ValueError, "labels has shape .* 3 rows"),
        (lambda p, m: p.clusters(m, ax="here"), TypeError, "ax must be matplotlib axes, got str"),
        (lambda p, m: p.density(m, column=9), ValueError, "column.* 9"),
        (lambda p, m: p.factor_scores(m, np.zeros((3, 5)), component=2), ValueError, r"component 2 has no .* \[0, 1\]"),
        (lambda p, m: p.factor_scores(m, np.zeros((3, 5)), component=3), ValueError, "component must be from 0 to 2"),
        (
            lambda p, m: p.factor_scores(m, np.zeros((3, 5)), factors=(0, 2)),
            ValueError,
            "factors must be from 0 to 1, got 2",
        ),
        (lambda p, m: p.factor_scores(m, np.zeros((3, 5)), factors=1), TypeError, "factors must be two numbers of"),
        (lambda p, m: p.factor_scores(m, np.zeros((3, 5)), factors=(0, 1, 1)), ValueError, "factors must be two .* 3"),
        (
            lambda p, m: p.factor_scores(m, np.zeros((3, 5)), component=1, factors=(0, 1)),
            ValueError,
            "factors cannot be used: component 1 has one factor",
        ),
        (
            lambda p, m: p.factor_scores(m, np.zeros((3, 5)), component=1, labels=[0, 1, 2]),
            ValueError,
            "labels cannot be used: component 1 has one factor",
        ),
        (lambda p, m: p.loadings(m, component=2), ValueError, "component 2 has no factors"),
        (lambda p, m: p.loadings(m, component=True), TypeError, "component must be a whole number, got True"),
        (lambda p, m: p.evolution("abc"), TypeError, "search must be a fitted model, or steps of a search; got str"),
        (lambda p, m: p.message_length(3), TypeError, "search must be a fitted model, or steps of a search; got int"),
        (lambda p, m: p.snapshots([STEP], np.zeros((3, 5))), TypeError, "steps must be .*callback=.*; got Step"),
        (lambda p, m: p.density(m, np.full((3, 5), np.nan), column=1), ValueError, "X has no value in column 1"),
        (
            lambda p, m: m.plot(columns=(0, 1)),
            TypeError,
            "columns is no option of amofa.plot.loadings, .* without rows; pass X",
        ),
        (lambda p, m: m.plot(np.zeros((3, 5)), scaled=True), TypeError, "scaled is no option of amofa.plot.clusters"),
        (lambda p, m: p.evolution(m), ValueError, "there are no steps of a search"),
        (lambda p, m: p.message_length([]), ValueError, "there are no steps of a search"),
        (lambda p, m: p.snapshots([], np.zeros((3, 5))), ValueError, "there are no steps; collect them"),
    ],
)
def test_refusals(space, draw, error, message):
    with pytest.raises(error, match=message):
        draw(amofa.plot, space)
    assert plt.get_fignums() == []


ROWS = np.zeros((3, 5))


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
