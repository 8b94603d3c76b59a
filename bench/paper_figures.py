"""Draw the paper's figures: the steps of a fit, numbers of components found, a sample result, and the spiral."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray
from paper_data import EXAMPLES, example_set, is_there, loaded
from paper_methods import CLUSTERING, METHODS
from paper_results import ResultsFile

import amofa
import amofa.plot

# Draw to files, also without a screen.
matplotlib.use("agg")
import matplotlib.pyplot as plt

FloatArray = NDArray[np.float64]

# Segments extend to this number of standard deviations from the mean.
DEVIATIONS = 2.0
COLUMNS = 4


def draw(file: ResultsFile, experiments: Iterable[str], data: Path, out: Path) -> Iterator[Path]:
    """Draw the figures of the experiments, and yield the path of each file that is written.

    Parameters
    ----------
    file : ResultsFile
        Has the numbers of components.
    experiments : iterable of {"example1", "example2", "classification"}
    data, out : Path
        Folders of the data and for the figures.
    """
    for experiment in experiments:
        for name in EXAMPLES:
            if name.startswith(experiment) and file.of(name):
                yield saved(histograms(file, name), out / f"{name}-components.png")
        if experiment == "example1":
            X, _ = example_set(data, "example1", 0)
            for search in ("paper", "thorough"):
                yield saved(evolution(X, search), out / f"example1-evolution-{search}.png")
        if experiment == "example2":
            name = "example2" if is_there(data, "example2") else "example2-drawn"
            yield saved(sample_result(*example_set(data, name, 0)), out / f"{name}-result.png")
            if (data / "ueda_spiral.npz").is_file():
                yield saved(spiral(loaded(data, "ueda_spiral")["X"]), out / "spiral.png")


def saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def evolution(X: FloatArray, search: str) -> Any:
    """Draw every model that the search continued from, with its cost; the title of the cheapest is bold."""
    steps: list[amofa.LiveStep] = []
    amofa.fit(X, search=search, callback=steps.append)
    figure = amofa.plot.snapshots(steps, X, n_panels=len(steps))[0].figure
    figure.suptitle(f"Example 1, search {search!r}: what each model costs, nats")
    return figure


def panels(n: int, height: float) -> tuple[Any, list[Any]]:
    """Make a figure with n panels that share axes, in rows of a height in inches; return both."""
    rows = -(-n // COLUMNS)
    size = 3 * COLUMNS, height * rows
    figure, axes = plt.subplots(
        rows, COLUMNS, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for axis in axes.flat[n:]:
        axis.set_visible(False)
    return figure, list(axes.flat[:n])


def histograms(file: ResultsFile, name: str) -> Any:
    """Draw how often each number of components was found, for each method."""
    results = file.of(name)
    found = {m: Counter(r.n_components[0] for r in results if r.method == m) for m in CLUSTERING}
    found = {method: counts for method, counts in found.items() if counts}
    numbers = range(1, max(K for counts in found.values() for K in counts) + 1)
    figure, axes = panels(len(found), 2.4)
    for axis, (method, counts) in zip(axes, found.items(), strict=True):
        colors = ["tab:blue" if EXAMPLES[name] == K else "tab:gray" for K in numbers]
        axis.bar(numbers, [counts[K] for K in numbers], color=colors)
        axis.set_title(f"{METHODS[method].title}, {counts.total()} sets", fontsize="medium")
        axis.set_xticks(numbers)
    figure.supxlabel("components found; blue: as many as there are")
    figure.supylabel("sets")
    return figure


def sample_result(X: FloatArray, y: NDArray[np.integer]) -> Any:
    """Draw rows in the colours of their true components, and the mixture that was found."""
    model = amofa.fit(X)
    axes = amofa.plot.clusters(model, X, labels=y)
    axes.set_title(f"Example 2: {model.n_components} components, factors {model.n_factors.tolist()}")
    return axes.figure


def spiral(X: FloatArray) -> Any:
    """Draw rows in three columns, and a segment along each factor of each component."""
    model = amofa.fit(X)
    figure = plt.figure(figsize=(6, 6), layout="constrained")
    axes = figure.add_subplot(projection="3d")
    axes.scatter(*X.T, color="tab:gray", s=6, linewidths=0)
    for mean, loadings in zip(model.means, model.loadings, strict=True):
        axes.scatter(*mean, color="black", s=8)
        for loading in loadings.T:
            axes.plot(*np.stack([mean - DEVIATIONS * loading, mean + DEVIATIONS * loading], axis=1), color="tab:red")
    axes.set_title(f"Spiral: {model.n_components} components, factors {model.n_factors.tolist()}", fontsize="medium")
    return figure
