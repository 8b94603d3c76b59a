"""
Reading factors
===============

Chemical analyses of 178 wines from three growers. The table is a frame, and the model keeps the names of its columns.
"""

from sklearn.datasets import load_wine

import amofa
import amofa.plot

wine = load_wine(as_frame=True)
X, grower = wine.data, wine.target
model = amofa.fit(X)
print(model.summary())

# %%
# Loadings, as correlations of the columns with the factors of each component. Columns with the same sign move together,
# opposite to those with the other sign; the sign of a whole factor is arbitrary.

amofa.plot.loadings(model)

# %%
# The plane in which the components differ most. Colours show the growers, which the fit has not seen.

amofa.plot.clusters(model, X, labels=grower)

# %%
# The wines along the first two factors of the component that has the most factors.

k = int(model.n_factors.argmax())
amofa.plot.factor_scores(model, X, component=k, labels=grower)
