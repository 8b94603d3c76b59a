"""
More columns than rows
======================

90 rows of 500 columns: three groups, each with two factors of its own. No 500 x 500 matrix is formed.
"""

import numpy as np

import amofa
import amofa.plot

rng = np.random.default_rng(0)
groups = np.repeat([0, 1, 2], 30)
means = rng.normal(0, 1, (3, 500))
loadings = rng.normal(0, 0.5, (3, 500, 2))
factors = rng.normal(size=(90, 2))
X = means[groups] + np.einsum("idq,iq->id", loadings[groups], factors) + rng.normal(size=(90, 500))

model = amofa.fit(X)
print(model)

# %%
# The plane in which the components differ most; its axes are weighted sums of many columns. Colours show the groups.

amofa.plot.clusters(model, X, labels=groups)

# %%
# Factor scores of the rows of the first component: 500 columns are reduced to two.

amofa.plot.factor_scores(model, X, component=0)
