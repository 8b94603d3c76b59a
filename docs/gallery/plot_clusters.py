"""
Clusters of different shapes
============================

Four clusters in two columns, two of them with the same mean: the second example of Kaya & Salah (`arXiv:1507.02801
<https://arxiv.org/abs/1507.02801>`_). Only the rows are given. Ellipses are one and two standard deviations from the
means.
"""

import amofa
import amofa.plot
from amofa.demo import example_2

X, labels = example_2(seed=1)
model = amofa.fit(X)
model.plot(X)

# %%
# The components, and the steps of the search. Costs are in nats, and lower is better.

print(model.summary())

# %%
# Which component a row belongs to is not always certain, least of all where the first two clusters overlap.

amofa.plot.uncertainty(model, X)
