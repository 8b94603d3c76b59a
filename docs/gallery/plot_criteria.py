"""
The same rows by five criteria
==============================

What a component or a factor must gain to be worth its parameters is what a criterion says. Where rows are many, all say
the same; here are 167 rows of four clusters, too few to be sure of them. The message length belongs to the paper's
search, the others to the default one.
"""

import matplotlib.pyplot as plt

import amofa
import amofa.plot
from amofa.demo import example_2

rows, clusters = example_2(seed=1)
X, labels = rows[::6], clusters[::6]
searches = [("thorough", "evidence"), ("thorough", "bic"), ("thorough", "aic"), ("thorough", "icl"), ("paper", "mml")]
models = [amofa.fit(X, search=search, criterion=criterion) for search, criterion in searches]

figure, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
for ax, (search, criterion), model in zip(axes.flat, searches, models, strict=False):
    amofa.plot.clusters(model, X, ax=ax).get_legend().remove()
    ax.set_title(f'{search}, "{criterion}": {model.n_components} components', fontsize="medium")
axes[1, 2].scatter(*X.T, c=labels, cmap="tab10", vmin=0, vmax=9, s=8)
axes[1, 2].set_title("the clusters", fontsize="medium")

# %%
# How well each describes 1000 rows that it has not seen: the mean of their log densities in nats, higher is better.

new, _ = example_2(seed=2)
for (search, criterion), model in zip(searches, models, strict=True):
    print(f"{search:9} {criterion:9} {model.n_components} components {model.score(new):8.3f}")
