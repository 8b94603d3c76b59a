"""Pictures of a model alone and of a search."""

import dataclasses
import itertools
import re

import datasets
import numpy as np
import pytest
from plot_helpers import Mixture, assert_legend_is_outside, plt, rendered

import amofa
import amofa.plot
from amofa.plot._search import _MARKERS


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


def test_evolution(searched):
    _, model, steps = searched
    ax = amofa.plot.evolution(model)
    taken = [i for i, step in enumerate(model.history) if step.accepted]
    x, y = ax.get_lines()[0].get_data()
    assert x.tolist() == taken
    np.testing.assert_allclose(y, [model.history[i].cost - model.cost for i in taken], atol=1e-9)
    marked = sum(len(line.get_xdata()) for line in ax.get_lines()[1:-1])
    assert marked == len(model.history)
    result = ax.get_lines()[-1]
    assert result.get_label() == "result"
    assert result.get_ydata()[0] == 0.0
    assert model.history[int(result.get_xdata()[0])].cost == model.cost
    # Decisions of a nat take as much of the height as the first, large drops.
    bottom, one, top = ax.transData.transform([(0, 0), (0, 1), (0, max(y))])[:, 1]
    assert one - bottom > 0.15 * (top - bottom)
    (numbers,) = [other for other in ax.figure.axes if other is not ax]
    assert numbers.get_lines()[0].get_ydata()[:-1].tolist() == [model.history[i].n_components for i in taken]
    assert ax.get_ylabel() == f"cost above {model.cost:.1f} nats (evidence)"
    rendered(ax)
    assert_legend_is_outside(ax)
    assert amofa.plot.evolution(steps).get_ylabel() == f"cost above {model.cost:.1f} nats"


def test_cost(searched):
    _, model, steps = searched
    ax = amofa.plot.cost(model)
    lowest, *marks, result = ax.get_lines()
    assert sum(len(mark.get_xdata()) for mark in marks) == len(model.history)
    assert lowest.get_xdata().tolist() == sorted({step.n_components for step in model.history})
    assert (result.get_xdata()[0], result.get_ydata()[0]) == (model.n_components, 0.0)
    rendered(ax)
    assert_legend_is_outside(ax)
    assert amofa.plot.cost(steps).get_ylabel() == f"cost above {model.cost:.1f} nats"


def test_every_action_has_a_marker(rng):
    for search in ("thorough", "paper"):
        model = amofa.fit(datasets.example_1(rng)[0], search=search, n_factors=(1, 2))
        ax = amofa.plot.evolution(model)
        assert sum(len(line.get_xdata()) for line in ax.get_lines()[1:-1]) == len(model.history)


def test_message_length(searched):
    _, model, _ = searched
    ax = amofa.plot.message_length(model)
    assert ax.get_lines()[0].get_ydata().tolist() == [s.message_length for s in model.history if s.accepted]
    assert ax.get_lines()[-1].get_ydata()[0] == pytest.approx(model.message_length)
    rendered(ax)


def test_snapshots(searched):
    X, _, steps = searched
    panels = amofa.plot.snapshots(steps, X, n_panels=len(steps))
    accepted = [step for step in steps if step.accepted]
    assert [panel.get_title() for panel in panels] == [f"{s.action}: {s.cost:.1f}" for s in accepted]
    assert [len(panel.get_lines()) for panel in panels] == [2 * s.n_components for s in accepted]
    bold = [panel.title.get_fontweight() == "bold" for panel in panels]
    assert bold.index(True) == int(np.argmin([s.cost for s in accepted]))
    rendered(panels[0])
    assert len({panel.get_xlim() for panel in panels}) == 1
    _, axes = plt.subplots(1, len(accepted) + 1)
    assert (amofa.plot.snapshots(steps, X, n_panels=len(steps), ax=axes) == axes[:-1]).all()


def test_snapshots_of_a_long_search_are_those_that_matter(plane):
    costs = [100.0, 101, 90, 91, 91.5, 60, 60.5, 59, 59.5, 59.6, 59.7, 65, 59.8, 59.9]
    steps = [amofa.history.LiveStep("split", 0, (1, 0), cost, cost, -cost, 9, True, plane) for cost in costs]
    X = plane.sample(50, 0)[0]
    assert len(amofa.plot.snapshots(steps, X)) == 12
    titles = [panel.get_title() for panel in amofa.plot.snapshots(steps, X, n_panels=5)]
    assert titles == [f"split: {cost}" for cost in (100.0, 90.0, 60.0, 59.0, 59.9)]


def test_actions_of_a_search_have_markers():
    actions = set(re.findall(r'"(\w+)"', amofa.history.Step.__doc__))
    assert set(_MARKERS) == actions


def test_colours_of_snapshots_stay_with_their_rows(searched):
    """Rows keep the colour of the panel before, unless their component was split or merged."""
    X, _, steps = searched
    accepted = [step for step in steps if step.accepted]
    panels = amofa.plot.snapshots(steps, X, n_panels=len(steps))
    colors = [panel.collections[0].get_facecolors() for panel in panels]
    for before, after, one, other in zip(accepted, accepted[1:], colors, colors[1:], strict=False):
        changed = (one != np.broadcast_to(other, (len(X), 4))).any(axis=1).mean()
        # At most the rows of half of the largest component.
        labels = [np.bincount(step.model.predict(X)).max() / len(X) for step in (before, after)]
        if abs(before.n_components - after.n_components) <= 1 and after.action != "start":
            assert changed <= 0.6 * max(labels) + 0.2
        assert len({tuple(color) for color in other.tolist()}) <= after.n_components


@pytest.mark.parametrize("columns", [None, (0, 2)])
def test_labels_of_snapshots_do_not_overlap(rng, columns):
    X = rng.normal(size=(150, 4)) + np.repeat([[0] * 4, [9, 0, 9, 0], [0, 9, 0, 9]], 50, axis=0)
    names = [f"${j} quite a long name of a column that goes on and on" for j in range(4)]
    steps = []
    amofa.fit(X, callback=steps.append)
    steps = [dataclasses.replace(step, model=step.model._named(names)) for step in steps]
    panels = amofa.plot.snapshots(steps, X, columns=columns)
    panels[0].figure.canvas.draw()
    expected = "direction 1" if columns is None else "\\$0 quite a long name of a\ncolumn that goes on and…"
    assert [panel.get_xlabel() for panel in panels] == [expected] * len(panels)
    boxes = [axis.label.get_window_extent() for panel in panels for axis in (panel.xaxis, panel.yaxis)]
    figure = panels[0].figure.bbox
    assert len(panels) > 2
    assert all(figure.x0 <= box.x0 and box.x1 <= figure.x1 and figure.y0 <= box.y0 for box in boxes)
    assert all(box.y1 <= figure.y1 for box in boxes)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
