"""
A table with missing cells
==========================

A fifth of the cells of this table are missing. A fit takes it as it is, and finds the two groups from the cells that
are there.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import amofa

rng = np.random.default_rng(0)
stick = np.outer(rng.uniform(0, 1, 300), [8, 4, -6, 2]) + rng.normal(0, 0.3, (300, 4))
ball = rng.normal([0, 8, 4, 0], 1, (200, 4))
whole = np.concatenate([stick, ball])
X = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
model = amofa.fit(X)
print(f"{model.n_components} components from {np.isnan(X).any(axis=1).sum()} rows of {len(X)} with missing cells")

# %%
# Patterns of missing cells: the rows by component and, within a component, by which of their cells are missing. The
# cells that are there have the colour of the component.

colors = ListedColormap(plt.cm.tab10.colors)
labels, missing = model.predict(X), np.isnan(X)
order = np.lexsort([*missing.T[::-1], labels])
cells = np.ma.masked_where(missing, np.repeat(labels[:, None], X.shape[1], axis=1))
_, ax = plt.subplots(figsize=(4, 5), layout="constrained")
ax.imshow(cells[order], cmap=colors, vmin=0, vmax=9, aspect="auto", interpolation="nearest")
ax.set(xlabel="column", ylabel="rows, sorted", xticks=range(X.shape[1]))

# %%
# On the left, missing cells are filled in for the picture, by their conditional means under the mixture. On the right,
# the means of the columns were filled in before the fit: these rows look like groups of their own.

means = np.where(missing, np.nanmean(X, axis=0), X)
fits = {"fit to missing cells": (model, model.impute(X)), "means filled in first": (amofa.fit(means), means)}
_, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
for ax, (name, (fitted, rows)) in zip(axes, fits.items(), strict=True):
    ax.scatter(*rows[:, :2].T, c=fitted.predict(rows) % 10, s=9, cmap=colors, vmin=0, vmax=9)
    ax.set(title=f"{name}: {fitted.n_components} components", xlabel="column 0", ylabel="column 1")
plt.show()
