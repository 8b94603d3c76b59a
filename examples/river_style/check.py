"""Learn from rows one by one, of which each is first predicted and scored, and compare with all rows at once."""

import numpy as np
from river_style import OnlineMixture

import amofa

rng = np.random.default_rng(0)
labels = rng.integers(0, 3, 4000)
X = rng.normal(np.array([[0, 0, 0], [7, 0, 0], [0, 7, 0]])[labels], 1.0)
learner = OnlineMixture(warm_up=200)
predicted, scores = [], []
for row in X:
    x = dict(zip("abc", row.tolist(), strict=True))
    predicted.append(learner.predict_one(x))
    scores.append(learner.score_one(x))
    learner.learn_one(x)
late = slice(1000, None)
groups = [labels[late][np.array(predicted[late]) == k] for k in range(3)]
agreement = np.sum([np.max(np.bincount(group)) for group in groups]) / 3000
print(f"{learner.stream}, groups of rows found before they are learnt: {agreement:.3f}")
print(f"mean score {np.mean(scores[late]):.3f}, by a fit of all rows {-amofa.fit(X).score(X[late]):.3f}")
assert learner.model.n_components == 3
assert agreement > 0.99
assert abs(np.mean(scores[late]) + amofa.fit(X).score(X[late])) < 0.05
assert learner.score_one({"a": 30.0, "b": 0.0}) > 100 > learner.score_one({"a": 7.0})
