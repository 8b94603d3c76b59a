"""
A search, step by step
======================

The search starts from one component, splits and merges components while that pays, and does the same from other starts.
A callback receives every model that the search tries; ``snapshots`` draws those that it continued from, or
twelve of them.
"""

import amofa
import amofa.plot
from amofa.demo import example_2

X, labels = example_2(seed=1)
steps = []
model = amofa.fit(X, callback=steps.append)
amofa.plot.snapshots(steps, X)

# %%
# The cost of each model, in nats, and its number of components. Rejected steps are those that cost more.

amofa.plot.evolution(model)

# %%
# The search of the paper makes one split, or adds one factor, at a time. When nothing more is gained, it removes
# components one by one, down to the last; the best model on the way is the answer.

paper = amofa.fit(X, search="paper")
amofa.plot.evolution(paper)
