"""
A search, step by step
======================

The search starts from one component, and splits it, and its parts, while that pays. A callback sees every model that
it looks at; ``snapshots`` draws those that it went on from.
"""

import amofa
import amofa.plot
from amofa.demo import example_2

X, labels = example_2(seed=1)
steps = []
model = amofa.fit(X, callback=steps.append)
amofa.plot.snapshots(steps, X)

# %%
# What each model cost, in nats, and how many components it had. Rejected steps are those that cost more.

amofa.plot.evolution(model)

# %%
# The paper's own search makes one split, or adds one factor, at a time. It goes on until nothing is gained, and then
# removes components one by one, down to the last; the best model on the way is the answer.

paper = amofa.fit(X, search="paper")
amofa.plot.evolution(paper)
