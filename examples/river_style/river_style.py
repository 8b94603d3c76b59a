"""A mixture with the methods of an online learner of river: rows are dicts, and come one by one or in frames."""

import math

import amofa


class OnlineMixture:
    """Clusters rows, and scores how unusual they are, while it learns from them.

    Rows are dicts of numbers with the keys of the first row; a key that a row lacks is a missing cell. The options are
    those of `amofa.Stream`. A model of all rows so far is made anew after each `refresh` of further rows, as a share of
    the rows so far (of `memory`, if that is given): a model for each row would take some milliseconds.
    """

    def __init__(self, refresh=0.02, **options):
        self.refresh, self.memory = refresh, options.get("memory", math.inf)
        self.stream, self.features, self.model, self.next_refresh = amofa.Stream(**options), None, None, 10.0

    def learn_one(self, x):
        """Learn from a row."""
        self.features = self.features or list(x)
        self._learn([self._row(x)])

    def learn_many(self, X):
        """Learn from the rows of a frame with the columns in any order."""
        self.features = self.features or list(X.columns)
        self._learn(X[self.features].to_numpy(float))

    def predict_one(self, x):
        """Return the number of the most probable group of a row; 0 before the first model."""
        return 0 if self.model is None else int(self.model.predict([self._row(x)])[0])

    def score_one(self, x):
        """Return how unusual a row is: minus its log density, in nats; 0 before the first model."""
        return 0.0 if self.model is None else -float(self.model.score_samples([self._row(x)])[0])

    def _row(self, x):
        return [x.get(name, math.nan) for name in self.features]

    def _learn(self, rows):
        seen = self.stream.update(rows).n_samples
        if seen >= self.next_refresh:
            self.model = self.stream.model
            # In the warm-up each model is a fit.
            share = self.refresh if self.stream.is_warm else 1.0
            self.next_refresh = seen + share * min(seen, self.memory)
