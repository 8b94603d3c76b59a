"""Draw tails.png, the picture of docs/tails.md: groups with heavy tails under normal and under t components.

    python docs/images/make_tails.py

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
centres = np.repeat([[0, 0], [12, 0], [6, 10]], 200, axis=0)
X = centres + rng.normal(size=(600, 2)) / np.sqrt(rng.chisquare(3, (600, 1)) / 3)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), dpi=90, layout="constrained")
for ax, tails in zip(axes, ("normal", "t"), strict=True):
    model = amofa.fit(X, tails=tails)
    amofa.plot.clusters(model, X, ax=ax)
    ax.set_title(f'tails="{tails}": {model.n_components} components')
    ax.set(xlim=(-12, 26), ylim=(-14, 24))
    ax.get_legend().remove()
    print(model.n_components, model.degrees_of_freedom.round(1))
buffer = io.BytesIO()
figure.savefig(buffer)
# A palette of 64 colours makes the file a third as large.
image = Image.open(buffer).convert("RGB").quantize(64)
image.save(Path(__file__).with_name("tails.png"), optimize=True)
