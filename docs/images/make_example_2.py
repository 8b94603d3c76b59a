"""Draw example_2.png, the picture of README.md and docs/index.md: a table, and the clusters that a fit finds in it.

    python docs/images/make_example_2.py

Needs amofa with matplotlib, ``python -m pip install '.[plot]'``.
"""

import io
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

import amofa
import amofa.plot
from amofa.demo import example_2

X, _ = example_2(seed=1)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), dpi=90, layout="constrained", sharex=True, sharey=True)
left.scatter(*X.T, s=8, color="0.45", edgecolors="none", alpha=0.7)
left.set_title("a table of 1000 rows")
left.set_xlabel("x0")
left.set_ylabel("x1")
amofa.plot.clusters(amofa.fit(X), X, ax=right)
right.set_title("amofa.fit(X)")
buffer = io.BytesIO()
figure.savefig(buffer)
# A palette of 256 colours makes the file a third as large.
image = Image.open(buffer).convert("RGB").quantize(256, kmeans=8)
image.save(Path(__file__).with_name("example_2.png"), optimize=True)
