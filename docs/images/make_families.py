"""Draw families.png, the picture of docs/families.md: rows of three groups under the default and with common loadings.

    python docs/images/make_families.py

Needs amofa with matplotlib, ``python -m pip install '.[plot]'``.
"""

import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import amofa

rng = np.random.default_rng(0)
groups, loadings = np.repeat([0, 1, 2], 20), 2 * rng.normal(size=(2, 10))
errors = rng.uniform(0.4, 1.6, (3, 10))[groups] * rng.normal(size=(60, 10))
X = 4.5 * np.eye(3, 10)[groups] + rng.normal(size=(60, 2)) @ loadings + errors

# The plane that the common factors do not reach, and in which the means of the groups lie apart most.
rest = np.linalg.svd(loadings)[2][2:]
centres = np.array([X[groups == k].mean(axis=0) for k in range(3)]) @ rest.T
plane = np.linalg.svd(centres - centres.mean(axis=0))[2][:2] @ rest
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), dpi=90, layout="constrained")
common = amofa.fit(X, noise="common_loadings")
for ax, axis, title in (
    (axes[0], np.linalg.svd(X - X.mean(axis=0))[2][:2], "the two leading principal axes"),
    (axes[1], plane, "beside the common factors"),
):
    ax.scatter(*(X @ axis.T).T, c=groups, cmap="brg", s=12)
    ax.set_title(title)
axes[2].scatter(*(X @ plane.T).T, c=common.predict(X), cmap="viridis", s=12)
axes[2].set_title(f"common loadings: {common.n_components} components")
for ax in axes:
    ax.set(xticks=[], yticks=[])
print(amofa.fit(X).n_components, common.n_components)
buffer = io.BytesIO()
figure.savefig(buffer)
# A palette of 64 colours makes the file a third as large.
image = Image.open(buffer).convert("RGB").quantize(64)
image.save(Path(__file__).with_name("families.png"), optimize=True)
