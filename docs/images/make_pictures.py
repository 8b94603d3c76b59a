"""Draw plot/*.png, a picture of each function of amofa.plot, and start.png, for the guide and the API.

    python docs/images/make_pictures.py

Needs amofa with matplotlib and scikit-learn, ``python -m pip install '.[plot,sklearn]'``. The table is that of wines.
"""

import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_wine

import amofa
import amofa.plot

HERE = Path(__file__).parent


def save(figure, name):
    """Write a figure with a palette of 256 colours, which makes the file a third as large."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=80)
    plt.close(figure)
    Image.open(buffer).convert("RGB").quantize(256, kmeans=8).save(HERE / name, optimize=True)


def drawn():
    """Yield the name of each function of amofa.plot, and what it draws."""
    wines = load_wine(as_frame=True)
    X, names = wines.data, wines.target_names[wines.target]
    steps = []
    model = amofa.fit(X, callback=steps.append)
    yield "clusters", amofa.plot.clusters(model, X, labels=names)
    for kind in ("contours", "uncertainty", "outliers", "profiles", "factor_scores", "responsibilities"):
        yield kind, getattr(amofa.plot, kind)(model, X)
    yield "pairs", amofa.plot.pairs(model, X, columns=["flavanoids", "color_intensity", "proline"])[0, 0]
    yield "density", amofa.plot.density(model, X, column="color_intensity")
    for kind in ("loadings", "tree", "evolution", "cost"):
        yield kind, getattr(amofa.plot, kind)(model)
    yield "message_length", amofa.plot.message_length(amofa.fit(X, search="paper"))
    yield "scan", amofa.plot.scan(amofa.scan(X, range(1, 8)))
    first = [step for step in steps if step.accepted][:4]
    yield "snapshots", amofa.plot.snapshots(first, X)[0]


for name, ax in drawn():
    save(ax.figure, f"plot/{name}.png")

# The rows of the page First steps.
rng = np.random.default_rng(0)
t = rng.uniform(0, 1, 300)
stick = np.outer(t, [8, 4, -6, 2]) + rng.normal(0, 0.3, (300, 4))
rows = np.concatenate([stick, rng.normal([0, 8, 4, 0], 1, (200, 4))])
fitted = amofa.fit(rows)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
fitted.plot(rows, columns=(0, 1), ax=left)
fitted.plot(rows, kind="profiles", ax=right)
save(figure, "start.png")
