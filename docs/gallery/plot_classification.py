"""
A mixture for each class
========================

Two classes that no straight line or parabola separates. ``AMoFAClassifier`` fits a mixture to each class, and assigns
every row to the class under which it is more probable.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from amofa.sklearn import AMoFAClassifier

X, y = make_moons(400, noise=0.15, random_state=0)
new, truth = make_moons(4000, noise=0.15, random_state=1)
classifiers = {
    "one Gaussian for each class": QuadraticDiscriminantAnalysis(),
    "a mixture for each class": AMoFAClassifier(),
}
grid = np.stack(np.meshgrid(np.linspace(-2, 3, 201), np.linspace(-1.5, 2, 141)), axis=-1)

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, (name, classifier) in zip(axes, classifiers.items(), strict=True):
    accuracy = classifier.fit(X, y).score(new, truth)
    second = classifier.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(grid.shape[:2])
    ax.contourf(grid[..., 0], grid[..., 1], second, levels=np.linspace(0, 1, 11), cmap="coolwarm", alpha=0.5)
    ax.scatter(*X.T, c=y, cmap="coolwarm", s=8)
    ax.set_title(f"{name}: {accuracy:.1%} of new rows right")

# %%
# The numbers of components found in each class:

print("components:", classifiers["a mixture for each class"].n_components_)
