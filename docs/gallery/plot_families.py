"""
Components with something in common
===================================

Three groups of 20 rows in 10 columns. Two strong factors, the same in all groups, hide them: with loadings and noise of
each component, or with noise in common, one component costs least.
"""

import matplotlib.pyplot as plt
import numpy as np

import amofa

rng = np.random.default_rng(0)
groups, loadings = np.repeat([0, 1, 2], 20), 2 * rng.normal(size=(2, 10))
errors = rng.uniform(0.4, 1.6, (3, 10))[groups] * rng.normal(size=(60, 10))
X = 4.5 * np.eye(3, 10)[groups] + rng.normal(size=(60, 2)) @ loadings + errors
print(amofa.fit(X))

# %%
# With common loadings, a component costs less, and the groups are found.

model = amofa.fit(X, noise="common_loadings")
print(model)
print(f"distance from the groups: {amofa.metrics.normalized_information_distance(groups, model.predict(X)):.2f}")

# %%
# What numbers of components cost, for each family. All agree on one component, which has nothing to share.

scan = amofa.scan(X, range(1, 6), noise="any")
amofa.plot.scan(scan)

# %%
# The loadings that all components have, and the noise of each.

fig, (above, below) = plt.subplots(2, 1, sharex=True, layout="constrained")
above.plot(model.loadings[0], marker="o")
above.set(ylabel="loadings")
below.plot(model.uniquenesses.T, marker="o")
below.set(xlabel="column", ylabel="uniquenesses", yscale="log")
plt.show()
