"""Draw missing.png, the picture of docs/missing.md: patterns of missing cells, and fits to the table and to means.

    python docs/images/make_missing.py

Needs amofa with matplotlib, ``python -m pip install '.[plot]'``.
"""

import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from PIL import Image

import amofa

rng = np.random.default_rng(0)
t = rng.uniform(0, 1, 300)
stick = np.outer(t, [8, 4, -6, 2]) + rng.normal(0, 0.3, (300, 4))
ball = rng.normal([0, 8, 4, 0], 1, (200, 4))
X = np.concatenate([stick, ball])
missing = rng.random(X.shape) < 0.2
X[missing] = np.nan
model = amofa.fit(X)
labels = model.predict(X)
colors = {"cmap": ListedColormap(plt.cm.tab10.colors), "vmin": 0, "vmax": 9}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), dpi=90, layout="constrained", width_ratios=[1, 2, 2])
order = np.lexsort([*missing.T[::-1], labels])
cells = np.ma.masked_where(missing, np.repeat(labels[:, None], X.shape[1], axis=1))
axes[0].imshow(cells[order], aspect="auto", interpolation="nearest", **colors)
axes[0].set(title="missing cells", xlabel="column", ylabel="rows, sorted", xticks=range(X.shape[1]))
means = np.where(missing, np.nanmean(X, axis=0), X)
fits = {"fit": (model, model.impute(X)), "means first": (amofa.fit(means), means)}
for ax, (name, (fitted, rows)) in zip(axes[1:], fits.items(), strict=True):
    ax.scatter(*rows[:, :2].T, c=fitted.predict(rows) % 10, s=6, **colors)
    ax.set(title=f"{name}: {fitted.n_components} components", xlabel="column 0", ylabel="column 1")
    print(name, fitted.n_components)
buffer = io.BytesIO()
figure.savefig(buffer)
# A palette of 64 colours makes the file a third as large.
image = Image.open(buffer).convert("RGB").quantize(64)
image.save(Path(__file__).with_name("missing.png"), optimize=True)
