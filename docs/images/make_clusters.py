"""Draw clusters.png, the picture of docs/clusters.md: components, clusters of them, and the tree of joins.

    python docs/images/make_clusters.py

Needs amofa with matplotlib, ``python -m pip install '.[plot]'``.
"""

import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import amofa
import amofa.plot

rng = np.random.default_rng(0)
skewed = rng.gamma(2, 1, (600, 2))
X = np.concatenate([skewed[:300] * [1, 2], [16, 9] - skewed[300:], rng.normal([11, 15], 1, (200, 2))])
model = amofa.fit(X)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), dpi=90, layout="constrained")
amofa.plot.clusters(model, X, ax=left)
left.set_title("components")
amofa.plot.clusters(model, X, clusters="auto", ax=middle)
middle.set_title("clusters")
amofa.plot.tree(model, ax=right)
right.set_title("tree of joins")
buffer = io.BytesIO()
figure.savefig(buffer)
# A palette of 256 colours makes the file a third as large.
image = Image.open(buffer).convert("RGB").quantize(256, kmeans=8)
image.save(Path(__file__).with_name("clusters.png"), optimize=True)
print(model.clusters())
