"""The picture of the tree of joins, and clusters in other pictures."""

import numpy as np
import pytest
from plot_helpers import Mixture, plt, rendered

import amofa.plot
from amofa.plot._axes import component_colors


@pytest.fixture
def three():
    """Two components of one cluster, and a third."""
    means = [[0.0, 0.0], [9.0, 0.0], [1.5, 0.0]]
    return Mixture([0.5, 0.3, 0.2], means, [np.zeros((2, 0))] * 3, np.ones((3, 2)))


def test_tree_has_a_fork_for_each_join_in_the_colour_of_its_cluster(three):
    figure, given = plt.subplots()
    ax = amofa.plot.tree(three, ax=given)
    assert ax is given
    clusters = three.clusters()
    forks = [line for line in ax.get_lines() if len(line.get_xdata()) == 4]
    assert [max(fork.get_ydata()) for fork in forks] == [join.cost for join in clusters.joins]
    colors = component_colors(2)
    assert forks[0].get_color() == colors[0]
    assert forks[1].get_color() not in colors
    leaves = [line for line in ax.get_lines() if len(line.get_xdata()) == 1]
    assert [leaf.get_color() for leaf in leaves] == [colors[c] for c in clusters.labels]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "0", "2"]
    plt.close(figure)


def test_it_can_be_seen_and_is_a_kind_of_plot(three):
    rendered(amofa.plot.tree(three, clusters=3))
    assert three.plot(kind="tree").get_ylabel() == "cost of the join, nats"


def test_names_of_many_components_are_thinned_out(rng):
    model = Mixture(np.full(70, 1 / 70), rng.normal(0, 9, (70, 2)), [np.zeros((2, 0))] * 70, np.ones((70, 2)))
    assert len(amofa.plot.tree(model).get_xticklabels()) == 35


def test_rows_and_ellipses_have_the_colours_of_clusters(three):
    X = np.array([[0.0, 0.0], [1.5, 0.0], [9.0, 0.0]])
    ax = amofa.plot.clusters(three, X, clusters="auto")
    first, second = (np.array([*color, 0.6]) for color in component_colors(2))
    np.testing.assert_allclose(ax.collections[0].get_facecolor(), [first, first, second])
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["0: 70.0%, 2 components", "1: 30.0%, 1 component"]
    assert len(ax.patches) == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.plot(kind="pie"), ValueError, "kind must be one of 'clusters', "),
        (lambda m: m.plot([[0.0, 0.0]], kind="tree"), TypeError, "amofa.plot.tree takes no rows; leave out X"),
        (lambda m: m.plot(kind="uncertainty"), TypeError, "amofa.plot.uncertainty needs rows; pass X"),
        (lambda m: m.plot(kind="tree", columns=(0, 1)), TypeError, "columns is not an option of amofa.plot.tree"),
        (lambda m: m.plot(kind="tree", clusters=4), ValueError, "clusters must be from 1 to 3, got 4"),
        (lambda m: amofa.plot.tree(3), TypeError, "model must be"),
    ],
)
def test_what_cannot_be_drawn(three, call, error, message):
    with pytest.raises(error, match=message):
        call(three)
