"""
Scattered rows
==============

Three groups, and rows that belong to none of them. Components tile these, too, so that there are more of them than
groups.
"""

import matplotlib.pyplot as plt
import numpy as np

import amofa

rng = np.random.default_rng(0)
groups = np.concatenate([rng.normal(centre, 1, (200, 2)) for centre in ([0, 0], [12, 0], [6, 10])])
X = np.concatenate([groups, rng.uniform([-10, -10], [22, 20], (40, 2))])
plain = amofa.fit(X)
plain.plot(X)

# %%
# A background is a fixed density beside the components. It is kept if it pays; its rows are grey.

model = amofa.fit(X, background="auto")
print(f"{plain.n_components} components: {plain.cost:.1f} nats")
print(f"{model.n_components} components and a background, {model.background}: {model.cost:.1f} nats")
print(f"its share of the rows: {model.background_weight:.1%}, {np.sum(model.predict(X) == -1)} of {len(X)} rows")
model.plot(X)

# %%
# The probability that a row is of the background, where a new row may lie.

x, y = np.meshgrid(np.linspace(-10, 22, 200), np.linspace(-10, 20, 200))
scores = model.outlier_scores(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
fig, ax = plt.subplots()
shades = ax.contourf(x, y, scores, np.linspace(0, 1, 11), cmap="Greys")
ax.scatter(*X.T, s=4)
ax.set(xlabel="x0", ylabel="x1")
fig.colorbar(shades, label="outlier score")
plt.show()
