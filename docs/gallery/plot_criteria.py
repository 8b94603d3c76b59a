"""
The same rows by five criteria
==============================

A criterion says how much a component or a factor must gain to be worth its parameters. With many rows, all criteria
agree. Here are 167 rows of four clusters, too few to be certain. The message length is used with the paper's search,
the others with the default search.
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
    amofa.plot.clusters(model, X, ax=ax)
    ax.set_title(f'{search}, "{criterion}": {model.n_components} components', fontsize="medium")
axes[1, 2].scatter(*X.T, c=labels, cmap="tab10", vmin=0, vmax=9, s=8)
axes[1, 2].set_title("the clusters", fontsize="medium")

# %%
# How well each model describes 1000 new rows: the mean log density in nats, higher is better.

new, _ = example_2(seed=2)
for (search, criterion), model in zip(searches, models, strict=True):
    print(f"{search:9} {criterion:9} {model.n_components} components {model.score(new):8.3f}")
