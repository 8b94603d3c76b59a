"""
Compared with a Gaussian mixture
================================

Three groups in 20 columns, each with five factors of its own. A mixture of Gaussians either needs 210 numbers for each
covariance matrix or treats columns as independent; factor analysers are in between. The picture shows how well each
describes 2000 new rows, by the number of components.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.mixture import GaussianMixture

import amofa

rng = np.random.default_rng(0)
truth = amofa.MixtureOfFactorAnalyzers(
    weights=[0.5, 0.3, 0.2],
    means=rng.normal(0, 1, (3, 20)),
    loadings=[rng.normal(0, 1, (20, 5)) for _ in range(3)],
    uniquenesses=np.full((3, 20), 0.3),
)
X, _ = truth.sample(600, random_state=1)
new, _ = truth.sample(2000, random_state=2)

figure, ax = plt.subplots()
numbers = range(1, 8)
for kind in ("full", "diag"):
    mixtures = [GaussianMixture(k, covariance_type=kind, random_state=0).fit(X) for k in numbers]
    scores = [mixture.score(new) for mixture in mixtures]
    ax.plot(numbers, scores, "o-", label=f'GaussianMixture, "{kind}"')
    least = int(np.argmin([mixture.bic(X) for mixture in mixtures]))
    ax.plot(numbers[least], scores[least], "o", mfc="none", mec="black", ms=12)
model = amofa.fit(X)
ax.plot(model.n_components, model.score(new), "*", ms=14, label="amofa.fit")
ax.axhline(truth.score(new), color="black", linestyle="--", label="truth")
ax.set_xlabel("components (rings: chosen by BIC)")
ax.set_ylabel("mean log density of new rows, nats")
ax.legend()

# %%
print(model)
