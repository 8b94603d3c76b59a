"""
Regression with error bars
==========================

A mixture of features and target together gives the target's distribution given the features: in each component the
mean is a straight line, and from one to the next it passes as their probabilities do. The deviation is that of a new
observation, and may change along the line.
"""

import matplotlib.pyplot as plt
import numpy as np

from amofa.sklearn import AMoFARegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 10, 600)
y = np.sin(x) + rng.normal(0, 0.05 + 0.04 * x)

regressor = AMoFARegressor().fit(x[:, None], y)
grid = np.linspace(0, 10, 301)
mean, deviation = regressor.predict(grid[:, None], return_std=True)

figure, ax = plt.subplots()
ax.scatter(x, y, s=6, color="0.6")
ax.plot(grid, np.sin(grid), color="black", linestyle="--", label="sin x")
ax.plot(grid, mean, color="tab:blue", label="mean given x")
ax.fill_between(grid, mean - 2 * deviation, mean + 2 * deviation, color="tab:blue", alpha=0.2, label="2 deviations")
ax.set_xlabel("x")
ax.legend()

# %%
# Of new rows this share is within two deviations:

new = rng.uniform(0, 10, 2000)
target = np.sin(new) + rng.normal(0, 0.05 + 0.04 * new)
mean, deviation = regressor.predict(new[:, None], return_std=True)
print((abs(target - mean) < 2 * deviation).mean())
