"""Pictures show the bulk, clip no text, and can be read in any style: on dark ground, small, and with long names."""

import itertools

import datasets
import numpy as np
import pytest
from matplotlib.text import Text
from plot_helpers import Mixture, plt, rendered

import amofa
import amofa.plot
from amofa.plot._axes import ink

LONG = [f"{j} a column whose name says all that there is to say about how it was measured" for j in range(5)]


@pytest.fixture(scope="module")
def drawings():
    """All pictures of one pair of axes, by name, for a fit with long names."""
    rng = np.random.default_rng(0)
    X, _ = datasets.example_2(rng)
    X = np.column_stack([X, rng.normal(size=(len(X), 3))])
    model = amofa.fit(X, n_components=3)._named(tuple(LONG))
    scan = amofa.scan(X[:100], [1, 2], noise="component")
    labels = np.array([f"label number {i % 20} with a name that is long" for i in range(len(X))])
    plot = amofa.plot
    return {
        "clusters": lambda ax: plot.clusters(model, X, ax=ax),
        "labels": lambda ax: plot.clusters(model, X, labels=labels, ax=ax),
        "columns": lambda ax: plot.clusters(model, X, columns=(0, 1), clusters="auto", ax=ax),
        "contours": lambda ax: plot.contours(model, X, ax=ax),
        "uncertainty": lambda ax: plot.uncertainty(model, X, ax=ax),
        "density": lambda ax: plot.density(model, X, ax=ax),
        "outliers": lambda ax: plot.outliers(model, X, ax=ax),
        "profiles": lambda ax: plot.profiles(model, X, ax=ax),
        "factor_scores": lambda ax: plot.factor_scores(model, X, ax=ax),
        "responsibilities": lambda ax: plot.responsibilities(model, X, ax=ax),
        "loadings": lambda ax: plot.loadings(model, ax=ax),
        "evolution": lambda ax: plot.evolution(model, ax=ax),
        "cost": lambda ax: plot.cost(model, ax=ax),
        "message_length": lambda ax: plot.message_length(model, ax=ax),
        "tree": lambda ax: plot.tree(model, ax=ax),
        "scan": lambda ax: plot.scan(scan, ax=ax),
    }


NAMES = [
    *("clusters", "labels", "columns", "contours", "uncertainty", "density", "outliers", "profiles"),
    *("factor_scores", "responsibilities", "loadings", "evolution", "cost", "message_length", "tree", "scan"),
]


def texts(panels):
    """All texts of panels: names of axes, ticks and legends."""
    for ax in panels:
        yield from (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts)
        for labels, limits, i in ((ax.get_xticklabels(), ax.get_xlim(), 0), (ax.get_yticklabels(), ax.get_ylim(), 1)):
            yield from (label for label in labels if min(limits) <= label.get_position()[i] <= max(limits))
        if ax.get_legend() is not None:
            yield from ax.get_legend().get_texts()
        yield from texts(ax.child_axes)


def boxes(panels):
    """The texts of panels and where they are, without lines to points, and less a pixel for rounding."""
    shown = [text for text in texts(panels) if text.get_text() and text.get_visible()]
    return [(text.get_text(), Text.get_window_extent(text).padded(-1)) for text in shown]


def assert_in_figure(figure):
    figure.canvas.draw()
    whole = figure.bbox
    parts = boxes(figure.axes)
    assert [t for t, box in parts if min(box.x0, box.y0, whole.x1 - box.x1, whole.y1 - box.y1) < -1] == []


@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("start", range(0, len(NAMES), 4))
def test_pictures_of_their_own(drawings, start, style):
    for name in NAMES[start : start + 4]:
        with plt.style.context(style):
            ax = drawings[name](None)
            assert_in_figure(ax.figure)
            if style != "default":
                assert_can_be_seen(ax)


def assert_can_be_seen(ax):
    """Lines and texts differ from a dark ground."""
    # Those of a heat map are on its light ground.
    lines = [line for line in ax.get_lines() if line.get_linestyle() != "None" and not ax.images]
    for line in lines:
        assert max(plt.matplotlib.colors.to_rgb(line.get_color())) > 0.1, line.get_label()
    for text in ax.texts:
        assert max(plt.matplotlib.colors.to_rgb(text.get_color())) > 0.4
    # The ground is dark, and there is more on it.
    assert np.median(rendered(ax)[..., :3]) < 0.2


@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("layout", ["constrained", "tight", None])
@pytest.mark.parametrize("start", range(0, len(NAMES), 4))
def test_pictures_beside_others(drawings, start, layout, style):
    """In a figure of the usual size, which is small for four."""
    with plt.style.context(style):
        figure, axes = plt.subplots(2, 2, layout=layout)
        panels = []
        for name, ax in zip(NAMES[start : start + 4], axes.flat, strict=True):
            before = len(figure.axes)
            drawings[name](ax)
            panels.append([ax, *figure.axes[before:]])
        assert_in_figure(figure)
    # Without a layout, names of lines and a bar of colours take what they need from the axes alone.
    least = 0.3 if layout is None else 0.4
    for ax in axes.flat:
        assert ax.get_window_extent().width >= least * figure.bbox.width / 2
        assert ax.get_window_extent().height >= 0.4 * figure.bbox.height / 2
    for panel, other in itertools.permutations(panels, 2):
        taken = [(ax.get_ylabel(), ax.get_window_extent()) for ax in other] + boxes(other)
        assert [(a, b) for (a, one), (b, two) in itertools.product(boxes(panel), taken) if one.overlaps(two)] == []


@pytest.mark.parametrize("start", range(0, len(NAMES), 4))
def test_nothing_is_clipped_in_a_large_figure(drawings, start):
    figure, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
    for name, ax in zip(NAMES[start : start + 4], axes.flat, strict=True):
        drawings[name](ax)
    assert_in_figure(figure)
    # Room is left for the panels themselves.
    for ax in axes.flat:
        assert ax.get_window_extent().width > 0.1 * figure.bbox.width
        assert ax.get_window_extent().height > 0.15 * figure.bbox.height


@pytest.mark.parametrize("name", ["clusters", "labels", "evolution", "profiles", "scan"])
def test_legends_stay_in_axes_without_layout(drawings, name):
    figure, axes = plt.subplots(2, 2, figsize=(10, 8))
    ax = drawings[name](axes[0, 0])
    figure.canvas.draw()
    legend, own = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert own.x0 - 2 <= legend.x0 <= legend.x1 <= own.x1 + 2


@pytest.mark.parametrize("name", ["profiles", "loadings"])
def test_names_of_lines_stay_beside_axes_without_layout(drawings, name):
    figure, axes = plt.subplots(2, 2)
    left, right = drawings[name](axes[0, 0]), drawings[name](axes[0, 1])
    figure.canvas.draw()
    for ax, edge in ((left, figure.bbox.x0), (right, left.get_window_extent().x1)):
        assert min(label.get_window_extent().x0 for label in ax.get_yticklabels()) >= edge - 1


@pytest.mark.parametrize("name", ["uncertainty", "loadings", "evolution"])
def test_what_is_on_the_right_stays_off_other_axes_without_layout(drawings, name):
    figure, axes = plt.subplots(2, 2, figsize=(10, 8))
    drawings[name](axes[0, 0])
    right = drawings["cost"](axes[0, 1])
    figure.canvas.draw()
    edge = right.yaxis.label.get_window_extent().x0
    left = [ax for ax in figure.axes if ax not in (right, *axes[1])]
    assert len(left) == 2
    assert max(text.get_window_extent().x1 for text in texts(left) if text.get_text()) <= edge + 1


@pytest.mark.parametrize("K", [8, 25])
def test_numbers_of_bands_do_not_overlap(K):
    model = Mixture(np.full(K, 1 / K), 9.0 * np.arange(K)[:, None], [np.zeros((1, 0))] * K, np.ones((K, 1)))
    _, axes = plt.subplots(2, 2, layout="constrained")
    ax = amofa.plot.responsibilities(model, 9.0 * np.arange(K)[:, None], ax=axes[0, 0])
    ax.figure.canvas.draw()
    assert len(ax.texts) == (8 if K == 8 else 0)
    numbers = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(numbers, 2))


def test_a_picture_drawn_again_keeps_its_room(drawings):
    _, axes = plt.subplots(2, 2)
    drawings["evolution"](axes[0, 0])
    once = axes[0, 1].get_position().bounds, axes[0, 0].get_position().bounds
    axes[0, 0].figure.axes[-1].remove()
    axes[0, 0].clear()
    drawings["evolution"](axes[0, 0])
    np.testing.assert_allclose((axes[0, 1].get_position().bounds, axes[0, 0].get_position().bounds), once, atol=1e-3)


def test_a_shortened_name_ends_once(drawings):
    _, axes = plt.subplots(2, 2)
    label = drawings["clusters"](axes[0, 0]).get_xlabel()
    assert label.endswith("…")
    assert not label.endswith("……")


def test_names_of_points_do_not_overlap(plane):
    pandas = pytest.importorskip("pandas")
    X = plane.sample(100, 0)[0]
    X[:6] = [[30 + 0.1 * i, 30] for i in range(6)]
    frame = pandas.DataFrame(X, index=[f"row {i} of those with long names" for i in range(100)])
    for layout in ("constrained", None):
        _, ax = plt.subplots(layout=layout)
        amofa.plot.outliers(plane, frame, n_named=40, ax=ax)
        ax.figure.canvas.draw()
        # Without the lines from them to their points.
        boxes = [Text.get_window_extent(text) for text in ax.texts]
        assert 6 <= len(boxes) < 40
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
        own = ax.get_window_extent()
        assert all(own.x0 <= box.x0 and box.x1 <= own.x1 for box in boxes)


def test_ink_is_between_text_and_ground():
    _, ax = plt.subplots()
    assert ink(ax) == (0.0, 0.0, 0.0)
    assert ink(ax, 0.25) == (0.75, 0.75, 0.75)


# ---- the bulk --------------------------------------------------------------------------------------------------------


def test_clusters_of_a_table_with_far_rows_are_more_than_a_dot():
    sklearn_datasets = pytest.importorskip("sklearn.datasets")
    X = sklearn_datasets.load_breast_cancer().data
    ax = amofa.plot.clusters(amofa.fit(X, n_components=2), X)
    ax.figure.canvas.draw()
    points = ax.transAxes.inverted().transform(ax.transData.transform(np.asarray(ax.collections[0].get_offsets())))
    low, high = np.quantile(points, [0.05, 0.95], axis=0)
    assert (high - low).min() > 0.25
    assert ((points >= 0) & (points <= 1)).all(axis=1).mean() > 0.98


def test_rows_outside_are_counted(plane):
    X = plane.sample(400, 0)[0]
    X[0] = 1000
    ax = amofa.plot.clusters(plane, X)
    assert ax.get_xlim()[1] < 40
    assert [text.get_text() for text in ax.texts if "outside" in text.get_text()] == ["1 row outside"]


def test_ellipses_have_numbers(plane, rng):
    texts = amofa.plot.clusters(plane, plane.sample(50, 0)[0]).texts
    assert [text.get_text() for text in texts] == ["0", "1"]
    np.testing.assert_array_equal([text.get_position() for text in texts], plane.means)
    nested = Mixture([0.5, 0.5], np.zeros((2, 2)), [np.zeros((2, 0))] * 2, [[1.0, 1.0], [9.0, 9.0]])
    first, second = (text.get_position() for text in amofa.plot.clusters(nested).texts)
    assert first == (0.0, 0.0)
    assert np.hypot(*second) == pytest.approx(3.0)
    three = Mixture([0.4, 0.4, 0.2], [[0.0, 0.0], [0.5, 0.0], [9.0, 0.0]], [np.zeros((2, 0))] * 3, np.ones((3, 2)))
    assert [text.get_text() for text in amofa.plot.clusters(three, clusters=2).texts] == ["0", "0", "1"]
    many = Mixture(np.full(41, 1 / 41), rng.normal(0, 9, (41, 2)), [np.zeros((2, 0))] * 41, np.ones((41, 2)))
    ax = amofa.plot.clusters(many)
    assert len(ax.texts) == 0
    assert len(ax.get_lines()) == 42  # one line each, and that of the legend for those left out
    assert len(ax.get_legend().get_texts()) == 12
