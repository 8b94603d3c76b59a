"""Pictures of densities in two directions, of counts, and of rows with low densities."""

import numpy as np
import pytest
from plot_helpers import Mixture, plt, rendered

import amofa.plot
from amofa.plot._density import _levels, _projected
from amofa.plot._plane import make_view


def test_contours_enclose_their_shares(plane):
    ax = amofa.plot.contours(plane)
    lines = next(c for c in ax.collections if not c.get_facecolor().size or c.get_facecolor()[0][3] == 0)
    assert len(lines.get_paths()) == 3
    rows = plane.sample(4000, 0)[0]
    # The widest line first; a path has all pieces of a line.
    found = [path.contains_points(rows).mean() for path in lines.get_paths()]
    np.testing.assert_allclose(found, [0.95, 0.8, 0.5], atol=0.03)
    rendered(ax)


def test_contours_of_a_plane_and_of_t_components(space, rng):
    X = space.sample(30, 0)[0]
    X[0, 0] = np.nan
    ax = amofa.plot.contours(space, X)
    assert ax.get_xlabel().startswith("direction 1: ")
    assert len(ax.collections[0].get_offsets()) == 30
    view = make_view(space, None)
    projected = _projected(space, view)
    for component, covariance in zip(projected.components(), view.covariances, strict=True):
        dense = component.loadings.T @ component.loadings + np.diag(component.uniquenesses)
        np.testing.assert_allclose(dense, covariance, rtol=1e-9, atol=1e-12)
    heavy = Mixture([1.0], [[0.0, 0.0]], [np.zeros((2, 0))], np.ones((1, 2)), degrees_of_freedom=3.0)
    rendered(amofa.plot.contours(heavy, heavy.sample(100, 0)[0]))


def test_levels_of_a_density_that_is_all_the_same():
    assert _levels(np.ones((5, 5))) == [1.0]


def test_outliers(plane):
    X = plane.sample(300, 0)[0]
    X[[7, 100]] = [[60, 60], [0, 90]]
    ax = amofa.plot.outliers(plane, X, n_named=2)
    assert sorted(text.get_text() for text in ax.texts) == ["100", "7"]
    depths = ax.collections[0].get_offsets()[:, 1]
    densities = plane.score_samples(X)
    np.testing.assert_allclose(depths, np.median(densities) - densities)
    (line,) = ax.get_lines()
    assert (depths > line.get_ydata()[0]).sum() == 3
    assert ax.get_yscale() == "symlog"
    rendered(ax)
    assert amofa.plot.outliers(plane, plane.sample(300, 0)[0], n_named=0).get_yscale() == "linear"


def test_rows_that_are_components_of_their_own_have_rings(rng):
    X = np.concatenate([rng.normal(0, 1, (300, 2)), [[30.0, 30.0]]])
    two = Mixture([300 / 301, 1 / 301], [[0.0, 0.0], [30.0, 30.0]], [np.zeros((2, 0))] * 2, [[1.0, 1.0], [1e-4, 1e-4]])
    ax = amofa.plot.outliers(two, X, n_named=1)
    (rings,) = [line for line in ax.get_lines() if line.get_label() == "component of few rows"]
    assert rings.get_xdata().tolist() == [300]
    assert "300" in [text.get_text() for text in ax.texts]
    rendered(ax)


def test_outliers_have_the_names_of_a_frame(plane):
    pandas = pytest.importorskip("pandas")
    X = plane.sample(20, 0)[0]
    X[3] = 80
    frame = pandas.DataFrame(X, index=[f"row ${i}" for i in range(20)])
    ax = amofa.plot.outliers(plane, frame, n_named=1)
    assert [text.get_text() for text in ax.texts] == [r"row \$3"]
    rendered(ax)


def test_all_outliers_of_very_many_rows_are_drawn(plane):
    X = np.zeros((50_000, 2))
    X[[10, 20_001, 40_003]] = 50
    ax = amofa.plot.outliers(plane, X)
    rows = set(ax.collections[0].get_offsets()[:, 0].tolist())
    assert {10.0, 20_001.0, 40_003.0} <= rows


def test_counts_have_a_bar_for_each_value(rng):
    counts = rng.poisson(4, (200, 1)).astype(float)
    model = Mixture([1.0], [[4.0]], [np.zeros((1, 0))], [[4.0]])
    bars = amofa.plot.density(model, counts).patches
    assert {round(bar.get_width(), 9) for bar in bars} == {1.0}
    assert all((bar.get_x() + 0.5).is_integer() for bar in bars)


def test_a_density_shows_the_bulk(plane):
    """Far rows and wide components with hardly any weight are left out."""
    X = plane.sample(300, 0)[0]
    X[0, 0] = 1e4
    limits = amofa.plot.density(plane, X).get_xlim()
    assert -10 < limits[0] < limits[1] < 30
    means, noise = [[0.0], [0.0]], [[1.0], [1e6]]
    model = Mixture([0.99, 0.01], means, [np.zeros((1, 0))] * 2, noise)
    assert amofa.plot.density(model).get_xlim()[1] < 10


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"share": 1.5}, ValueError, "share must be less than 1, got 1.5"),
        ({"share": 0}, ValueError, "share"),
        ({"n_named": -1}, ValueError, "n_named"),
    ],
)
def test_refusals_of_outliers(plane, options, error, message):
    with pytest.raises(error, match=message):
        amofa.plot.outliers(plane, [[0.0, 0.0]], **options)
    assert plt.get_fignums() == []
