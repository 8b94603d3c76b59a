"""
Reading factors
===============

Chemical analyses of 178 wines from three growers. Rows of a frame: the model keeps the names of its columns.
"""

from sklearn.datasets import load_wine

import amofa
import amofa.plot

wine = load_wine(as_frame=True)
X, grower = wine.data, wine.target
model = amofa.fit(X)
print(model.summary())

# %%
# Loadings, as the correlation of each column with each factor of a component. Columns of one sign move together,
# against those of the other; the sign of a whole factor means nothing.

amofa.plot.loadings(model)

# %%
# The plane in which components differ most, with the growers, which the fit has not seen, as colours.

amofa.plot.clusters(model, X, labels=grower)

# %%
# The wines of the component with most factors, along the first two of them.

k = int(model.n_factors.argmax())
amofa.plot.factor_scores(model, X, component=k, labels=grower)
