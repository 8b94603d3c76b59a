"""Mixtures of Gaussians that learn from one row at a time (Zivkovic & van der Heijden 2004), from ULFMM's criterion."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from amofa._data.checks import RandomState, check_positive, check_random_state, check_rows, check_whole_number
from amofa._data.row_chunks import Samples
from amofa._em.outcome import Outcome
from amofa._model.finalize import make_step
from amofa._parameters import Parameters
from amofa._typing import FloatArray
from amofa.baselines._gaussian import covariance_parameters, gaussian_components, mixture_parameters
from amofa.baselines._task import BaselineTask
from amofa.criterion import gaussian_message_length
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import single_blas_thread

# Covariances start at this share of the columns' variances, as in `ulfmm`.
_FIRST_VARIANCE = 0.1
# The most that a row may count for a covariance, in units of the rate: a light component would be a point otherwise.
_MOST_RATES = 20.0
# The rate of the paper's examples.
_RATE = 1 / 150


def recursive_ulfmm(
    X: ArrayLike,
    *,
    max_components: int = 30,
    rate: float | None = None,
    n_passes: int = 1,
    ridge: float = 1e-4,
    random_state: RandomState = 0,
) -> MixtureOfFactorAnalyzers:
    """Fit a mixture of Gaussians by Zivkovic & van der Heijden's method [1]_: one row at a time, from above.

    It starts from `max_components` rows drawn at random. Each row, in the order of the table, changes all components a
    little, by its share in each and by a constant rate, so that older rows are forgotten. The prior of the weights that
    belongs to `ulfmm`'s message length lowers all weights, and a component whose weight becomes negative is removed.

    Parameters
    ----------
    X : (n, d) array-like
        Finite real numbers, in the order of the stream.
    max_components : int, default 30
        Number of components at the start, at most the number of rows.
    rate : float, optional
        How much a row counts, from the last row on: about 1 / rate rows are remembered. By default 1/150 as in the
        authors' examples or, if that is less, 1 / (max_components times the parameters of a component), since the
        prior outweighs all rows if max_components times half of these times the rate is 1 or more.
    n_passes : int, default 1
        How often the rows are gone through.
    ridge : float, default 1e-4
        Added to each variance, as a share of the column's variance in X. Positive.
    random_state : int, numpy Generator, numpy RandomState or None, default 0
        For the rows at the start; None takes entropy from the system.

    Returns
    -------
    MixtureOfFactorAnalyzers
        The mixture after the last row. A full covariance is represented exactly, as a factor analyser with d - 1
        factors.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used; the message names it.

    Warns
    -----
    AmofaWarning
        If columns are constant (they are modelled separately, and affect no decision).

    Notes
    -----
    With c = rate C / 2 for the C parameters of each of K components, and the responsibilities h of a row,
    pi_k += rate (h_k / (1 - K c) - pi_k) - rate c / (1 - K c). Means and covariances move by rate h_k / pi_k towards
    the row and its square about the mean; for covariances this is at most 20 times the rate. A row costs O(K d^3)
    and about 50 us in NumPy. The number of components can only fall; `amofa.Stream` adds some as well.

    References
    ----------
    .. [1] Z. Zivkovic, F. van der Heijden, "Recursive Unsupervised Learning of Finite Mixture Models", IEEE
       Transactions on Pattern Analysis and Machine Intelligence 26(5), 2004, 651-656.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.permutation(np.concatenate([rng.normal(0, 1, (2000, 2)), rng.normal(8, 1, (1000, 2))]))
    >>> model = recursive_ulfmm(X, max_components=10, n_passes=5)
    >>> model.n_components, model.n_parameters
    (2, 11)
    """
    table, _ = check_rows(X, None)
    max_components = check_whole_number("max_components", max_components, at_least=1)
    n_passes = check_whole_number("n_passes", n_passes, at_least=1)
    ridge = check_positive("ridge", ridge)
    rate = None if rate is None else check_positive("rate", rate)
    rng = check_random_state(random_state)
    with single_blas_thread(), np.errstate(under="ignore"):
        task = BaselineTask.of(table, None, ridge)
        samples, best, history = task.samples, Outcome.of_no_columns(), []
        penalty = gaussian_message_length(0, 1, 0, samples.total_weight)
        if samples.n_features:
            rows = np.concatenate([x.T for x, _ in samples.chunks()])
            first = rows[rng.choice(len(rows), min(max_components, len(rows)), replace=False)]
            mixture = _RecursiveMixture(first, rate, ridge)
            for x in np.tile(rows, (n_passes, 1)) if n_passes > 1 else rows:
                mixture.learn(x)
            n_covariance = covariance_parameters(samples.n_features, "full")
            penalty = gaussian_message_length(
                samples.n_features, len(mixture.weights), n_covariance, samples.total_weight
            )
            best = mixture.outcome(samples, n_passes)
            history = [make_step(samples, "start", -1, best, accepted=True)]
        return task.model(
            best,
            history,
            criterion="mml",
            n_parameters=mixture_parameters(table.shape[1], best.n_components, "full"),
            # The method has no floor but for columns that are constant.
            floor=np.where(task.rows.coordinates.constant, task.floor, 0.0),
            penalty=penalty,
        )


class _RecursiveMixture:
    """Gaussians with means (K, d) at the start, in columns with variances of about 1."""

    def __init__(self, means: FloatArray, rate: float | None, ridge: float) -> None:
        K, d = means.shape
        n_each = d + covariance_parameters(d, "full")
        self.rate = min(_RATE, 1 / (K * n_each)) if rate is None else rate
        self.price = self.rate * n_each / 2
        if K * self.price >= 1 or _MOST_RATES * self.rate > 1:
            raise ValueError(
                f"rate={self.rate:g} is too large for {K} components of {n_each} parameters; give less than "
                f"{min(2 / (K * n_each), 1 / _MOST_RATES):.3g}, or fewer max_components"
            )
        self.weights, self.means = np.full(K, 1.0 / K), means.copy()
        self.ridge = ridge * np.eye(d)
        self.covariances = np.tile(_FIRST_VARIANCE * np.eye(d), (K, 1, 1))

    def learn(self, x: FloatArray) -> None:
        """Move all components by one row (d,), and remove those that no longer pay."""
        deviations = x - self.means
        shares = self._responsibilities(deviations)
        speeds = self.rate * shares / self.weights
        left = 1.0 - len(self.weights) * self.price
        self.weights = self.weights + self.rate * ((shares - self.price) / left - self.weights)
        self.means += np.minimum(speeds, 1.0)[:, None] * deviations
        speeds = np.minimum(speeds, _MOST_RATES * self.rate)[:, None, None]
        self.covariances += speeds * (deviations[:, :, None] * deviations[:, None, :] - self.covariances)
        if self.weights.min() <= 0 and len(self.weights) > 1:
            kept = self.weights > 0
            self.weights, self.means, self.covariances = self.weights[kept], self.means[kept], self.covariances[kept]
            self.weights /= self.weights.sum()

    def _responsibilities(self, deviations: FloatArray) -> FloatArray:
        roots = np.linalg.cholesky(self.covariances + self.ridge)
        z = np.linalg.solve(roots, deviations[:, :, None])[:, :, 0]
        log_joint = np.log(self.weights) - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        log_joint -= 0.5 * (z**2).sum(axis=1)
        shares: FloatArray = np.exp(log_joint - log_joint.max())
        shares /= shares.sum()
        return shares

    def outcome(self, samples: Samples, n_iter: int) -> Outcome:
        """Return the mixture, with its log-likelihood and message length for rows."""
        covariances = self.covariances + self.ridge
        components = gaussian_components(self.weights.tolist(), self.means, covariances, "full")
        parameters = Parameters.from_components(components)
        log_likelihood = samples.log_likelihood(parameters) + samples.log_jacobian
        n_covariance = covariance_parameters(samples.n_features, "full")
        penalty = gaussian_message_length(samples.n_features, len(components), n_covariance, samples.total_weight)
        cost = penalty.cost(log_likelihood, 0.0, parameters.weights.tolist())
        return Outcome(parameters, log_likelihood, cost, n_iter, converged=True)
