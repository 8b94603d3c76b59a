"""
Groups that move
================

Rows come in blocks of 500. Two groups move apart slowly, and halfway a third one appears. A stream with a memory of
4000 rows follows; one that remembers all rows ends with the average.
"""

import matplotlib.pyplot as plt
import numpy as np

import amofa
import amofa.plot

rng = np.random.default_rng(0)


def block(time):
    """Return 500 rows at a time from 0 to 1."""
    centres = np.array([[-4 - 6 * time, 0], [4 + 6 * time, 0], [0, 9]])
    labels = rng.integers(0, 2 if time < 0.5 else 3, 500)
    return centres[labels] + rng.normal(size=(500, 2))


# %%
# Each block is scored before it is learnt, as in life.

streams = {"memory=4000": amofa.Stream(memory=4000), "all rows": amofa.Stream()}
times = np.linspace(0, 1, 120)
scores = {name: [] for name in streams}
for time in times:
    X = block(time)
    for name, stream in streams.items():
        scores[name].append(np.nan if stream.n_samples == 0 else stream.model.score(X))
        stream.update(X)
fig, ax = plt.subplots()
for name, values in scores.items():
    ax.plot(times, values, label=name)
ax.set(xlabel="time", ylabel="log density of the next block (nats per row)")
ax.legend()

# %%
# What the stream with a memory knows at the end, over the last block, and what happened on the way.

stream = streams["memory=4000"]
stream.model.plot(X)
for step in stream.history:
    verdict = "accepted" if step.accepted else "rejected"
    print(f"{step.n_samples:6.0f} rows: {step.action}, {step.n_components} components, {verdict}")
plt.show()
