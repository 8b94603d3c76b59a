"""
Missing pixels
==============

A mixture of handwritten digits of 8 x 8 pixels, with one component for each digit, completes the lower half of new
digits from their upper half.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import amofa

# Many pixels are mostly 0. With a given number of components, that does no harm.
warnings.simplefilter("ignore", amofa.DataWarning)
digits = load_digits()
varying = digits.data.std(axis=0) > 0
X, labels = digits.data[:, varying], digits.target
model = amofa.fit(X[:1500], init=labels[:1500], n_components=10, n_factors=8, noise="component")

# %%
# Cells that are NaN are missing. ``impute`` replaces them by their conditional means given the other cells, or by draws
# from their conditional distribution, which vary as digits do.

whole = X[1500:1508]
upper = np.arange(64)[varying] < 32
halves = np.where(upper, whole, np.nan)
means = model.impute(halves)
drawn = model.impute(halves, draws=True, random_state=0)

figure, axes = plt.subplots(4, len(whole), figsize=(8, 4.4), layout="constrained")
names = ("given", "mean", "a draw", "truth")
for name, row, images in zip(names, axes, (halves, means, drawn, whole), strict=True):
    row[0].set_ylabel(name)
    for ax, pixels in zip(row, images, strict=True):
        image = np.zeros(64)
        image[varying] = pixels
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set_xticks([])
        ax.set_yticks([])
