"""Sums and posterior quantities of rows with missing cells, beside dense algebra for each row."""

import numpy as np
import pytest
from conditional_helpers import NAN, dense_conditional
from reference import covariance, random_mixture, random_rows, t_mixture
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t

from amofa._data.incomplete import Patterns
from amofa._kernels import _missing
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._parameters import Evaluator

# K, d, factors of each component.
SHAPES = [
    (1, 1, [0]),
    (2, 1, [1, 3]),
    (2, 3, [0, 2]),
    (3, 5, [4, 0, 7]),
    (4, 9, [1, 2, 3, 5]),
    (2, 40, [9, 3]),
]
shapes = pytest.mark.parametrize(("K", "d", "p"), SHAPES)
shares = pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
tails = pytest.mark.parametrize("make", [random_mixture, t_mixture], ids=["normal", "t"])


def problem(rng, make, K, d, p, share, n=80):
    """A mixture, rows in the order of their patterns, some without cells and some complete, and the patterns."""
    parameters = make(rng, K, d, p)
    X = random_rows(rng, parameters, n)
    X[rng.random(X.shape) < share] = NAN
    X[1:6, 1:] = NAN
    X[7], X[8:12] = NAN, random_rows(rng, parameters, 4)
    numbers = Patterns.of(X).numbers
    order = np.argsort(numbers, kind="stable")
    return parameters, X[order], numbers[order]


def iteration_of(parameters, **options):
    d = parameters.n_features
    return ProfileLikelihoodIteration(
        parameters.buffer, parameters.offsets, np.full(d, 1e-6), 0.0, np.ones(d), 0, **options
    )


def accumulate(parameters, X, numbers, weights=None, **options):
    iteration = iteration_of(parameters, **options)
    work = np.empty(_missing.iteration_work_length(iteration, len(X)))
    _missing.accumulate(iteration, np.ascontiguousarray(X.T), weights, numbers, iteration.sums, work)
    return split(iteration.sums, parameters)


def split(sums, parameters):
    """Log-likelihood, entropy, counts, first and second moments, and counts of tails."""
    K, d = parameters.n_components, parameters.n_features
    parts = np.split(sums, np.cumsum([1, 1, K, K * d, K * d * d]))
    return [*parts[:3], parts[3].reshape(K, d), np.tril(parts[4].reshape(K, d, d)), parts[5]]


def dense_log_joint(parameters, row):
    """Log joint densities (K,) of the cells of a row, and the weights u = (nu + o) / (nu + m) of t components."""
    seen = ~np.isnan(row)
    densities, tails = np.log(parameters.weights), np.ones(parameters.n_components)
    if not seen.any():
        return densities, tails
    for k, c in enumerate(parameters.components()):
        mean, sigma, nu = c.mean[seen], covariance(c)[np.ix_(seen, seen)], c.degrees_of_freedom
        is_normal = np.isinf(nu)
        own = multivariate_normal(mean, sigma) if is_normal else multivariate_t(mean, sigma, df=nu)
        densities[k] += own.logpdf(row[seen])
        if not is_normal:
            distance = (row[seen] - mean) @ np.linalg.solve(sigma, row[seen] - mean)
            tails[k] = (nu + seen.sum()) / (nu + distance)
    return densities, tails


def dense_sums(parameters, X):
    """What `accumulate` adds up, by the formulas of Ghahramani & Jordan (1994).

    Responsibilities below 1e-8 of the weight of a component are left out of its moments.
    """
    K, d = parameters.n_components, parameters.n_features
    total, entropy = 0.0, 0.0
    counts, first, second, tail_counts = np.zeros(K), np.zeros((K, d)), np.zeros((K, d, d)), np.zeros(K)
    for row in X:
        log_joint, u = dense_log_joint(parameters, row)
        log_density = logsumexp(log_joint)
        h = np.exp(log_joint - log_density)
        total += log_density
        entropy -= h @ (log_joint - log_density)
        counts += h
        lacking = np.isnan(row)
        _, means, covariances = dense_conditional(parameters, row)
        is_normal = np.isinf(parameters.degrees_of_freedom)
        h_moments = np.where(h > 1e-8 * parameters.weights, h, 0.0)
        tail_counts += np.where(is_normal, h, h_moments * u)
        for k in range(K):
            e = row - parameters.means[k]
            e[lacking] = means[k] - parameters.means[k][lacking]
            first[k] += h_moments[k] * u[k] * e
            second[k] += h_moments[k] * u[k] * np.outer(e, e)
            second[k][np.ix_(lacking, lacking)] += h_moments[k] * covariances[k]
    return [total, entropy, counts, first, np.tril(second), tail_counts]


@tails
@shares
@shapes
def test_sums_are_those_of_dense_algebra(K, d, p, share, make, rng):
    parameters, X, numbers = problem(rng, make, K, d, p, share)
    # Complete rows, of which more are left out, have a test of their own.
    X, numbers = X[numbers > 0], numbers[numbers > 0]
    found = accumulate(parameters, X, numbers, with_entropy=True)
    for got, expected in zip(found, dense_sums(parameters, X), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


def test_weights_count_rows(rng):
    parameters, X, numbers = problem(rng, t_mixture, 3, 5, [4, 0, 7], 0.4)
    repeats = rng.integers(1, 4, len(X))
    found = accumulate(parameters, X, numbers, repeats.astype(np.float64), with_entropy=True)
    expected = accumulate(parameters, X.repeat(repeats, axis=0), numbers.repeat(repeats), with_entropy=True)
    for got, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-11, atol=1e-8 * np.abs(other).max())


@tails
@shares
@shapes
def test_posterior_is_that_of_dense_algebra(K, d, p, share, make, rng):
    parameters, X, numbers = problem(rng, make, K, d, p, share)
    n, evaluator = len(X), Evaluator(parameters)
    log_density, h, scores = np.empty(n), np.empty((K, n)), np.empty((sum(p), n))
    spreads = np.empty((K, n))
    work = np.empty(_missing.work_length(parameters.offsets, d, n))
    x = np.ascontiguousarray(X.T)
    _missing.posterior(x, numbers, parameters.offsets, evaluator.prepared, log_density, h, scores, spreads, work)
    for i, row in enumerate(X):
        log_joint, u = dense_log_joint(parameters, row)
        np.testing.assert_allclose(log_density[i], logsumexp(log_joint), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(h[:, i], np.exp(log_joint - logsumexp(log_joint)), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(1 / spreads[:, i], u, rtol=1e-11)
        lacking = np.isnan(row)
        if lacking.any():
            means = dense_conditional(parameters, row)[1]
            for k, c in enumerate(parameters.components()):
                z = scores[parameters.offsets[k] : parameters.offsets[k + 1], i]
                np.testing.assert_allclose((c.mean + z @ c.loadings)[lacking], means[k], rtol=1e-11, atol=1e-11)


def test_complete_rows_add_what_they_add_alone(rng):
    parameters = random_mixture(rng, 3, 4, [0, 2, 1])
    X, weights = random_rows(rng, parameters, 700), rng.uniform(0.5, 2, 700)
    alone = iteration_of(parameters)
    alone.accumulate(np.ascontiguousarray(X.T), weights)
    found = accumulate(parameters, X, np.zeros(700, dtype=np.intp), weights)
    for got, expected in zip(found, split(alone.sums, parameters), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_blocks_do_not_matter(rng):
    """Rows of one pattern, or of many, in one call or in several."""
    parameters = random_mixture(rng, 3, 6, [0, 2, 1])
    X = random_rows(rng, parameters, 3000)
    X[:1500, 2] = NAN
    X[1500:][rng.random((1500, 6)) < 0.3] = NAN
    numbers = Patterns.of(X).numbers
    order = np.argsort(numbers, kind="stable")
    X, numbers = X[order], numbers[order]
    whole = accumulate(parameters, X, numbers)
    parts = [accumulate(parameters, X[rows], numbers[rows]) for rows in np.array_split(np.arange(3000), 7)]
    for got, expected in zip(whole, map(sum, zip(*parts, strict=True)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_rows_of_an_infinitely_far_cell_keep_their_weights(rng):
    parameters = random_mixture(rng, 2, 3, [1, 1])
    X = np.array([[1e200, NAN, 0.0], [NAN, 0.0, 0.0]])
    found = accumulate(parameters, X, np.array([1, 2]))
    assert found[0] == -np.inf
    np.testing.assert_allclose(found[2].sum(), 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numbers": np.zeros(3, dtype=np.intp)}, "patterns must have one entry per row"),
        ({"weights": np.ones(3)}, "row_weights must have one entry per row"),
        ({"x": np.zeros((5, 8))}, "x must have one row per feature"),
        ({"work": np.empty(3)}, "work is too short"),
        ({"sums": np.empty(3)}, "sums has the wrong length"),
    ],
)
def test_what_does_not_match_is_refused(change, message, rng):
    parameters = random_mixture(rng, 2, 4, [1, 2])
    iteration = iteration_of(parameters)
    work = np.empty(_missing.iteration_work_length(iteration, 8))
    given = {"x": np.zeros((4, 8)), "weights": None, "numbers": np.zeros(8, dtype=np.intp), "sums": iteration.sums}
    with pytest.raises(ValueError, match=message):
        _missing.accumulate(iteration, *({**given, "work": work} | change).values())


def test_posterior_refuses_what_does_not_match(rng):
    parameters = random_mixture(rng, 2, 4, [1, 2])
    prepared, work = Evaluator(parameters).prepared, np.empty(_missing.work_length(parameters.offsets, 4, 8))
    numbers, x = np.zeros(8, dtype=np.intp), np.zeros((4, 8))
    density, h = np.empty(8), np.empty((2, 8))

    def check(message, density=density, h=h, scores=None, spreads=None, work=work, numbers=numbers):
        with pytest.raises(ValueError, match=message):
            _missing.posterior(x, numbers, parameters.offsets, prepared, density, h, scores, spreads, work)

    check("one entry per row, and component", density=np.empty(7))
    check("one entry per row, and component", h=np.empty((3, 8)))
    check("scores must have shape", scores=np.empty((2, 8)))
    check("spreads must have shape", spreads=np.empty((2, 7)))
    check("work is too short", work=np.empty(3))
    check("patterns must have", numbers=np.zeros(7, dtype=np.intp))
