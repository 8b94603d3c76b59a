"""Pictures of rows under a model."""

import numpy as np
import pytest
from plot_helpers import Mixture, assert_legend_is_outside, rendered
from scipy.integrate import trapezoid

import amofa
import amofa.plot
from amofa.plot._axes import component_colors, drawn_rows, make_groups


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
    assert texts == [*map(str, range(11)), "and 639 more"]
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
    whole, *parts, ticks = ax.get_lines()
    grid, values = whole.get_data()
    one = Mixture(plane.weights, plane.means[:, :1], [w[:1] for w in plane.loadings], plane.uniquenesses[:, :1])
    np.testing.assert_allclose(values, np.exp(one.score_samples(grid[:, None])), rtol=1e-9)
    np.testing.assert_allclose(sum(part.get_ydata() for part in parts), values, rtol=1e-12)
    assert trapezoid(values, grid) == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_array_equal(ticks.get_xdata(), X[:, 0])
    assert sum(bar.get_height() * bar.get_width() for bar in ax.patches) == pytest.approx(1.0)
    rendered(ax)
    assert_legend_is_outside(ax)


@pytest.mark.parametrize(("n", "n_lines"), [(500, 1), (501, 0)])
def test_each_row_has_a_tick_unless_there_are_very_many(plane, n, n_lines):
    X = plane.sample(n, 0)[0]
    ticks = [line for line in amofa.plot.density(plane, X, column=0).get_lines() if line.get_marker() == "|"]
    assert [len(line.get_xdata()) for line in ticks] == [n] * n_lines


def test_columns_by_name(space):
    X, _ = space.sample(20, 0)
    ax = amofa.plot.density(space, X, column="d")
    np.testing.assert_array_equal(ax.get_lines()[-1].get_xdata(), X[:, 3])
    assert ax.get_xlabel() == "d"


def test_missing_cells(space):
    X, _ = space.sample(20, 0)
    X[3, 1] = X[4, 0] = np.nan
    shown = amofa.plot.clusters(space, X, columns=("b", "c")).collections[0].get_offsets()
    np.testing.assert_array_equal(shown, space.impute(X)[:, [1, 2]])
    assert len(amofa.plot.uncertainty(space, X).collections[0].get_offsets()) == 20
    assert len(amofa.plot.density(space, X).get_lines()[-1].get_xdata()) == 19


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
