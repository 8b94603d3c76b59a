"""Pictures of means over columns, and of all pairs of columns."""

import itertools

import numpy as np
import pytest
from plot_helpers import Mixture, assert_legend_is_outside, plt, rendered

import amofa.plot


def test_profiles_are_means_in_deviations_of_all_rows(space):
    X = space.sample(400, 0)[0]
    ax = amofa.plot.profiles(space, X)
    labels, scaled = space.predict(X), (X - X.mean(axis=0)) / X.std(axis=0)
    lines = [line for line in ax.get_lines() if line.get_marker() == "o"]
    for k, line in enumerate(lines):
        np.testing.assert_allclose(line.get_xdata(), scaled[labels == k].mean(axis=0), atol=1e-9)
    assert [text.get_text() for text in ax.get_yticklabels()] == list("abcde")
    # From top to bottom.
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    rendered(ax)
    assert_legend_is_outside(ax)


def test_profiles_of_the_mixture_in_own_units(space):
    ax = amofa.plot.profiles(space, columns=["d", 1], scaled=False)
    lines = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert [line.get_xdata().tolist() for line in lines] == space.means[:, [3, 1]].tolist()
    bars = [bar.get_segments() for bar in ax.collections]
    for k, segments in enumerate(bars):
        lengths = [segment[1, 0] - segment[0, 0] for segment in segments]
        np.testing.assert_allclose(lengths, 2 * np.sqrt(np.diag(space.covariance(k))[[3, 1]]))
    assert ax.get_xlabel() == "mean of the component"


def test_profiles_of_clusters_and_of_groups_without_rows(space):
    X = space.sample(100, 0)[0]
    X = X[space.predict(X) != 2]
    lines = [line for line in amofa.plot.profiles(space, X).get_lines() if line.get_marker() == "o"]
    assert np.isnan(lines[2].get_xdata()).all()
    assert np.isfinite(lines[0].get_xdata()).all()
    legend = amofa.plot.profiles(space, clusters=2).get_legend()
    assert len(legend.get_texts()) == 2


def test_profiles_of_a_column_that_does_not_vary():
    model = Mixture([0.5, 0.5], [[0.0, 1.0], [5.0, 1.0]], [np.zeros((2, 0))] * 2, np.ones((2, 2)))
    lines = amofa.plot.profiles(model, [[0.0, 1.0], [5.0, 1.0]]).get_lines()
    assert [line.get_xdata()[1] for line in lines if line.get_marker() == "o"] == [0.0, 0.0]


@pytest.mark.parametrize("length", [1, 12])
def test_profiles_of_spectra_are_curves(rng, length):
    names = [f"{j:0{length}d}" for j in range(300)]
    K = 15
    model = Mixture(np.full(K, 1 / K), rng.normal(size=(K, 300)), [np.zeros((300, 0))] * K, np.ones((K, 300)), names)
    ax = amofa.plot.profiles(model)
    assert len(ax.get_lines()) == K
    assert ax.get_xlabel() == "column"
    assert len(ax.get_legend().get_texts()) == 12
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert len(boxes) > 5
    assert all(right.x0 >= left.x1 for left, right in itertools.pairwise(boxes))
    few = Mixture([0.5, 0.5], rng.normal(size=(2, 300)), [np.zeros((300, 0))] * 2, np.ones((2, 300)))
    assert len(amofa.plot.profiles(few).collections) == 2


def test_pairs(space):
    X = space.sample(60, 0)[0]
    X[0, 1] = np.nan
    panels = amofa.plot.pairs(space, X)
    # The two columns that differ, among others, in their order.
    names = [panel.get_xlabel() for panel in panels[-1]]
    assert {"b", "d"} <= set(names)
    assert names == sorted(names)
    assert [panel.get_ylabel() for panel in panels[:, 0]] == names
    i, j = names.index("d"), names.index("b")
    drawn = panels[i, j].collections[0].get_offsets()
    np.testing.assert_array_equal(drawn, space.impute(X)[:, [1, 3]])
    assert panels[i, i].get_xlim() == panels[(i + 1) % 4, i].get_xlim()
    rendered(panels[0, 0])


def test_pairs_of_chosen_columns_in_given_axes(space):
    X = space.sample(30, 0)[0]
    figure, axes = plt.subplots(2, 2)
    assert (amofa.plot.pairs(space, X, columns=["a", "d"], labels=np.arange(30) % 2, ax=axes) == axes).all()
    assert plt.get_fignums() == [figure.number]
    assert amofa.plot.pairs(space, columns=[0, 1, 2], clusters=2).shape == (3, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": [0]}, "pairs needs two columns; use amofa.plot.density"),
        ({"columns": [0, 9]}, "columns has 9"),
        ({"labels": [1]}, "labels are those of rows; pass X, too"),
        ({"columns": [0, 1], "ax": np.zeros(3, dtype=object)}, "ax has 3 axes, but 2 columns need 2 x 2"),
    ],
)
def test_refusals_of_pairs(space, options, message):
    with pytest.raises(ValueError, match=message):
        amofa.plot.pairs(space, **options)
