"""Draw background.png, the picture of docs/background.md: scattered rows under components alone, and with a background.

    python docs/images/make_background.py

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
groups = np.concatenate([rng.normal(centre, 1, (200, 2)) for centre in ([0, 0], [12, 0], [6, 10])])
X = np.concatenate([groups, rng.uniform([-10, -10], [22, 20], (40, 2))])
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), dpi=90, layout="constrained")
for ax, background in zip(axes, (None, "auto"), strict=True):
    model = amofa.fit(X, background=background)
    amofa.plot.clusters(model, X, ax=ax)
    ax.set_title(f"background={background!r}: {model.n_components} components")
    ax.set(xlim=(-12, 24), ylim=(-12, 22))
    ax.get_legend().remove()
    print(model.n_components, model.background, round(model.background_weight, 3))
buffer = io.BytesIO()
figure.savefig(buffer)
# A palette of 64 colours makes the file a third as large.
image = Image.open(buffer).convert("RGB").quantize(64)
image.save(Path(__file__).with_name("background.png"), optimize=True)
