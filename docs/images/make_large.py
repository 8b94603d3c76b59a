"""Draw large.png, the picture of docs/large.md: the time of a pass over more rows, and on more workers.

    python docs/images/make_large.py

The times are those of `python bench/large.py growth`. Needs matplotlib.
"""

import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

ROWS = np.array([1 << 20, 1 << 22, 1 << 24])
# Seconds of a pass over so many rows of 16 columns, with eight components, one thread in each process.
SECONDS = {
    "blocks, one process": (0.08, 0.28, 1.10),
    "dask, one worker": (0.12, 0.38, 1.41),
    "dask, two workers": (0.06, 0.23, 0.80),
}

figure, ax = plt.subplots(figsize=(6, 3.6), dpi=90, layout="constrained")
for (name, seconds), marker in zip(SECONDS.items(), "os^", strict=True):
    ax.loglog(ROWS, seconds, marker=marker, label=name)
ax.loglog(ROWS, ROWS * 72e-9, color="grey", linestyle=":", label="72 ns for each row")
ax.set(xlabel="rows", ylabel="seconds for a pass")
ax.legend()
buffer = io.BytesIO()
figure.savefig(buffer)
image = Image.open(buffer).convert("RGB").quantize(64)
image.save(Path(__file__).with_name("large.png"), optimize=True)
