"""
Regression with error bars
==========================

A mixture of features and target together gives the distribution of the target given the features. Within a component
the conditional mean is a straight line; between components it changes with their probabilities. The standard deviation
is that of a new observation, and may vary with the features.
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
# The share of new rows within two standard deviations:

new = rng.uniform(0, 10, 2000)
target = np.sin(new) + rng.normal(0, 0.05 + 0.04 * new)
mean, deviation = regressor.predict(new[:, None], return_std=True)
print((abs(target - mean) < 2 * deviation).mean())
