"""
Heavy tails
===========

Three groups whose rows lie farther out than those of normal distributions: t distributions with 3 degrees of freedom.
Normal components stand for the tails, too, so that there are more of them than groups.
"""

import matplotlib.pyplot as plt
import numpy as np

import amofa
import amofa.plot

rng = np.random.default_rng(0)
centres = np.repeat([[0, 0], [12, 0], [6, 10]], 200, axis=0)
X = centres + rng.normal(size=(600, 2)) / np.sqrt(rng.chisquare(3, (600, 1)) / 3)
normal = amofa.fit(X)
normal.plot(X)

# %%
# With ``tails="auto"``, t components are tried from those, and kept if they cost less.

model = amofa.fit(X, tails="auto")
print(f"{normal.n_components} normal components: {normal.cost:.1f} nats")
print(f"{model.n_components} t components: {model.cost:.1f} nats")
print(f"degrees of freedom: {model.degrees_of_freedom.round(1)}")
model.plot(X)

# %%
# Log densities on the way out from the middle of the first group. Far rows are much less improbable.

x = np.linspace(0, 60, 200)
way = np.column_stack([-x, -x])
fig, ax = plt.subplots()
ax.plot(x, normal.score_samples(way), label="normal")
ax.plot(x, model.score_samples(way), label="t")
ax.set(xlabel="distance along both columns", ylabel="log density (nats)", ylim=(-100, 0))
ax.legend()
plt.show()
