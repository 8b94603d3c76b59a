"""Helpers for tests of pictures, which are skipped without matplotlib."""

import io

import numpy as np
import pytest

import amofa

pytest.importorskip("matplotlib").use("agg")

import matplotlib.pyplot as plt  # noqa: E402

Mixture = amofa.MixtureOfFactorAnalyzers


def rendered(ax):
    """Return the image of a figure, (height, width, 4), after checking that it is not empty."""
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
