"""Draw the pictures of docs/preparing.md: rows and components, before and after.

    python docs/images/make_preparing.py

Needs amofa with matplotlib, ``python -m pip install '.[plot]'``.
"""

import io
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image

mpl.use("agg")
from matplotlib import pyplot as plt

import amofa

FOLDER = Path(__file__).parent
SIZE, RESOLUTION = (7.0, 2.9), 110


def groups(rng, centres, deviation=1.0, n=200):
    return np.concatenate([rng.normal(centre, deviation, (n, len(centre))) for centre in centres])


def draw(name, before, after, labels):
    """Draw two tables of two columns, each coloured by a fit to (what is fitted, what is drawn)."""
    figure, axes = plt.subplots(1, 2, figsize=SIZE, layout="constrained")
    for ax, (fitted, drawn), (x, y), when in zip(axes, (before, after), labels, ("before", "after"), strict=True):
        model = amofa.fit(fitted)
        rows = np.random.default_rng(0).permutation(len(drawn))
        ax.scatter(*drawn[rows].T, c=model.predict(fitted)[rows] % 10, s=6, cmap="tab10", vmin=0, vmax=9)
        ax.set(xlabel=x, ylabel=y, title=f"{when}: {model.n_components} component{'s' * (model.n_components > 1)}")
        print(f"{name}, {when}: {model.n_components}")
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=RESOLUTION)
    plt.close(figure)
    # A palette of 64 colours makes the file a third as large.
    Image.open(buffer).convert("RGB").quantize(64).save(FOLDER / f"preparing_{name}.png", optimize=True)


def twice(X):
    return X, X


def main():
    rng = np.random.default_rng(0)
    logs = groups(rng, [[2.0, 3.0], [4.5, 3.5]], [0.8, 0.6])
    draw("skew", twice(np.exp(logs)), twice(logs), [("income", "rent"), ("log income", "log rent")])

    counts = rng.poisson(np.exp(groups(rng, [[3.0, 5.0], [5.0, 3.5]], 0.6))).astype(float)
    draw("counts", twice(counts), twice(np.log1p(counts)), [("visits", "calls"), ("log(1 + visits)", "log(1 + calls)")])

    X = groups(rng, [[0.0, 0.0], [6.0, 3.0]])
    binary = rng.random((len(X), 2)) < 0.1
    labels = [("a (two 0/1 columns are fitted, too)", "b"), ("a", "b")]
    draw("binary", (np.column_stack([X, binary]), X), twice(X), labels)

    traits = groups(rng, [[-0.8, 0.8], [0.8, -0.8]], 0.25)
    items = np.clip(np.round(2.5 + np.repeat(traits, 12, axis=1) + rng.normal(0, 0.8, (400, 24))), 1, 4)
    scores = items.reshape(400, 2, 12).mean(axis=2)
    some = items[:, [0, 12]]
    labels = [("item 1", "item 13"), ("mean of items 1 to 12", "of items 13 to 24")]
    draw("ordinal", (some, some + rng.uniform(-0.3, 0.3, (400, 2))), twice(scores), labels)

    direction = np.concatenate([rng.normal(0, 25, 250), rng.normal(180, 25, 250)]) % 360
    speed = np.concatenate([rng.normal(8, 0.8, 250), rng.normal(5, 0.8, 250)])
    turned = (direction + 90) % 360
    labels = [("direction (°)", "speed"), ("(direction + 90°) modulo 360°", "speed")]
    draw("angles", twice(np.column_stack([direction, speed])), twice(np.column_stack([turned, speed])), labels)

    ratios = groups(rng, [[0.0, 2.0], [2.5, 0.0]], 0.8)
    parts = np.exp(np.column_stack([ratios, np.zeros(len(ratios))]))
    parts /= parts.sum(axis=1, keepdims=True)
    draw("compositions", (parts, parts[:, :2]), twice(ratios), [("share a", "share b"), ("log a/c", "log b/c")])

    whole = groups(rng, [[0.0, 0.0], [4.0, 3.0]])
    measured = np.maximum(whole, [-0.5, -9])
    above = measured[measured[:, 0] > -0.5]
    draw("limit", twice(measured), twice(above), [("a (limit -0.5)", "b"), ("a, rows above the limit", "b")])

    wide = groups(rng, [[0.0] * 2, [5.0, 2.0]], 1.0, 60) @ rng.normal(size=(2, 500)) + rng.normal(0, 2, (120, 500))
    centred = wide - wide.mean(axis=0)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    draw("wide", (wide, wide[:, :2]), twice((left * size)[:, :2]), [("column 0 of 500", "column 1"), ("PC 1", "PC 2")])


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amofa.AmofaWarning)
        main()
