"""EM over labels alone: moments against dense sums, and a profile likelihood that never falls."""

from itertools import pairwise

import numpy as np
import pytest
import reference
from profile_helpers import KINDS, rough_start, tied
from reference import random_mixture, random_rows, relative_error

from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._noise import Noise

TOLERANCE = 1e-12


def bind(mixture, *, noise="component", prior_count=4.0, with_entropy=True, **changes):
    """An iteration on the buffers of the mixture, which it changes."""
    d = mixture.n_features
    arguments = {
        "parameters": mixture.buffer,
        "offsets": mixture.offsets,
        "floor": np.full(d, 1e-4),
        "prior_count": prior_count,
        "prior_scale": np.linspace(0.8, 1.2, d),
        "noise": Noise(noise).code,
        "with_entropy": with_entropy,
    }
    return ProfileLikelihoodIteration(**arguments | changes)


def expect(iteration, x, weights=None):
    iteration.clear()
    iteration.accumulate(np.ascontiguousarray(x.T), weights)
    iteration.finish()


@pytest.mark.parametrize("noise", ["component", "isotropic"])
def test_a_step_in_pieces_is_the_step(rng, noise):
    mixture = tied(random_mixture(rng, 3, 5, [0, 2, 1]), noise)
    x = random_rows(rng, mixture, 300)
    whole, pieces = mixture.copy(), mixture.copy()
    first, second = bind(whole, noise=noise), bind(pieces, noise=noise)
    for iteration in (first, second):
        expect(iteration, x)
    first.maximize()
    second.begin_step()
    spaces = second.step_space(), second.step_space()
    for k in (2, 0, 1):
        second.step(k, spaces[k % 2])
    second.end_step()
    np.testing.assert_array_equal(pieces.buffer, whole.buffer)
    expect(first, x)
    expect(second, x)
    assert first.log_likelihood == second.log_likelihood
    with pytest.raises(ValueError, match="another iteration"):
        second.step(0, first.step_space())
    with pytest.raises(IndexError):
        second.step(3, spaces[0])


def test_a_step_with_shared_noise_is_one_piece(rng):
    mixture = tied(random_mixture(rng, 3, 5, [0, 2, 1]), "shared")
    x = random_rows(rng, mixture, 300)
    whole, pieces = mixture.copy(), mixture.copy()
    first, second = bind(whole, noise="shared"), bind(pieces, noise="shared")
    for iteration in (first, second):
        expect(iteration, x)
    first.maximize()
    second.begin_step()
    second.step(0, second.step_space())
    second.end_step()
    np.testing.assert_array_equal(pieces.buffer, whole.buffer)


# ---- moments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("K", "d", "factors", "n"),
    [(1, 1, [0], 20), (1, 5, [2], 300), (2, 3, [0, 3], 257), (3, 4, [1, 0, 2], 513), (2, 40, [0, 7], 200)],
)
def test_moments_are_the_dense_ones(rng, K, d, factors, n, weighted):
    parameters = random_mixture(rng, K, d, factors)
    x, weights = random_rows(rng, parameters, n), rng.uniform(0.1, 2, n) if weighted else None
    iteration = bind(parameters)
    expect(iteration, x, weights)
    h = reference.weighted_responsibilities(x, weights, parameters.components())
    counts = h.sum(axis=0)
    means = h.T @ x / counts[:, None]
    assert relative_error(iteration.soft_counts, counts) < TOLERANCE
    assert relative_error(iteration.means, means) < TOLERANCE
    for k in range(K):
        expected = (h[:, [k]] * (x - means[k])).T @ (x - means[k]) / counts[k]
        assert relative_error(iteration.covariances[k], expected) < TOLERANCE * 10
        np.testing.assert_array_equal(iteration.covariances[k], iteration.covariances[k].T)
    mixture = parameters.components()
    assert iteration.log_likelihood == pytest.approx(reference.log_likelihood(x, weights, mixture), rel=TOLERANCE)
    assert iteration.entropy == pytest.approx(reference.entropy(x, weights, mixture), rel=1e-11, abs=1e-11 * n)
    assert (iteration.entropy > 0) == (K > 1)


def test_what_rows_far_away_leave_out_is_bounded(rng):
    """Counts and log-likelihood are exact, the rest is less than 1e-8 weight sum w e e' over all rows."""
    parameters = random_mixture(rng, 3, 6, [1, 0, 2])
    parameters.means *= 2.5
    x, weights = random_rows(rng, parameters, 3000), rng.uniform(0.0, 3.0, 3000)
    iteration = bind(parameters)
    iteration.accumulate(np.ascontiguousarray(x.T), weights)
    components = parameters.components()
    expected = reference.scatter(x, weights, components)
    h = reference.weighted_responsibilities(x, weights, components)
    assert ((h < 1e-9 * weights[:, None]) & (h > 1e-17 * weights[:, None])).mean() > 0.02
    assert relative_error(iteration.soft_counts, h.sum(axis=0)) < TOLERANCE
    assert iteration.log_likelihood == pytest.approx(reference.log_likelihood(x, weights, components), rel=TOLERANCE)
    got = iteration.sums[-3 * 37 : -3].reshape(3, 6, 6)
    for k, c in enumerate(components):
        spread = np.sqrt((weights[:, None] * (x - c.mean) ** 2).sum(axis=0))
        bound = 1e-8 * c.weight * np.outer(spread, spread) + 1e-12 * np.abs(expected[k]).max()
        assert np.all(np.tril(np.abs(got[k] - expected[k])) <= bound)


def test_smallest_count_and_determinants(rng):
    parameters = random_mixture(rng, 3, 4, [1, 0, 6])
    iteration = bind(parameters)
    x = random_rows(rng, parameters, 50)
    iteration.accumulate(np.ascontiguousarray(x.T), None)
    assert iteration.finish() == iteration.soft_counts.min()
    covariances = [c.loadings.T @ c.loadings + np.diag(c.uniquenesses) for c in parameters.components()]
    np.testing.assert_allclose(iteration.log_determinants(), np.linalg.slogdet(covariances)[1], rtol=1e-11, atol=1e-11)


# ---- the M-step ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior_count", [0.0, 4.0, 40.0])
@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize(
    ("K", "d", "factors", "n", "size"),
    [
        (1, 1, [0], 30, 1.0),
        (2, 2, [1, 0], 60, 1.0),
        (3, 5, [2, 0, 3], 200, 1.0),
        (2, 10, [3, 3], 300, 1.0),
        (4, 6, [5, 4, 0, 5], 40, 0.1),
        (2, 16, [5, 2], 100, 1.0),
        (2, 40, [13, 8], 300, 1.0),
    ],
)
def test_the_penalised_likelihood_never_falls(rng, K, d, factors, n, size, noise, prior_count):
    x = size * random_rows(rng, random_mixture(rng, K, d, 1), n)
    parameters = rough_start(rng, x, K, factors, noise, size)
    iteration = bind(parameters, noise=noise, prior_count=prior_count)
    costs = []
    for _ in range(30):
        expect(iteration, x)
        costs.append(iteration.prior_cost() - iteration.log_likelihood)
        iteration.maximize()
        if noise == "shared":
            np.testing.assert_array_equal(parameters.uniquenesses, np.tile(parameters.uniquenesses[0], (K, 1)))
        if noise == "isotropic":
            np.testing.assert_array_equal(parameters.uniquenesses, np.tile(parameters.uniquenesses[:, [0]], d))
        assert parameters.weights.sum() == pytest.approx(1, rel=1e-14)
        assert (parameters.uniquenesses >= 1e-4).all()
    for before, after in pairwise(costs):
        assert after <= before + 1e-10 * abs(before)
    assert costs[-1] < costs[0]


@pytest.mark.parametrize("noise", KINDS)
def test_the_mstep_has_weighted_means_and_weights(rng, noise):
    parameters = tied(random_mixture(rng, 2, 3, 1), noise)
    x, w = random_rows(rng, parameters, 100), rng.uniform(0.5, 2, 100)
    h = reference.weighted_responsibilities(x, w, parameters.components())
    iteration = bind(parameters, noise=noise)
    expect(iteration, x, w)
    iteration.maximize()
    assert relative_error(parameters.weights, h.sum(axis=0) / w.sum()) < TOLERANCE
    assert relative_error(parameters.means, h.T @ x / h.sum(axis=0)[:, None]) < TOLERANCE


@pytest.mark.parametrize("noise", ["component", "isotropic"])
def test_the_prepared_mixture_is_kept_up_to_date(rng, noise):
    parameters = tied(random_mixture(rng, 2, 3, 1), noise)
    x = random_rows(rng, parameters, 100)
    iteration = bind(parameters, noise=noise)
    for _ in range(3):
        expect(iteration, x)
        iteration.maximize()
    expect(iteration, x)
    expected = reference.log_likelihood(x, None, parameters.components())
    assert iteration.log_likelihood == pytest.approx(expected, rel=TOLERANCE)


@pytest.mark.parametrize("noise", KINDS)
def test_a_component_without_rows_keeps_its_parameters(rng, noise):
    parameters = tied(random_mixture(rng, 2, 3, [2, 1]), noise)
    parameters.means[1] = 1e6
    before = parameters.copy()
    iteration = bind(parameters, noise=noise)
    expect(iteration, random_rows(rng, random_mixture(rng, 1, 3, 1), 100))
    assert iteration.soft_counts[1] == 0
    iteration.maximize()
    assert parameters.weights.tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(parameters.means[1], before.means[1])
    if noise == "shared":
        np.testing.assert_array_equal(parameters.uniquenesses[1], parameters.uniquenesses[0])
    else:
        np.testing.assert_array_equal(parameters.component(1).loadings, before.component(1).loadings)
        np.testing.assert_array_equal(parameters.uniquenesses[1], before.uniquenesses[1])
    assert (parameters.means[0] != before.means[0]).all()


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_a_scale_of_another_length_is_refused(rng):
    with pytest.raises(ValueError, match="prior_scale must have one value per feature"):
        bind(random_mixture(rng, 2, 3, [1, 2]), prior_scale=np.ones(2))
    with pytest.raises(TypeError, match="'prior_scale' must not be None"):
        bind(random_mixture(rng, 2, 3, [1, 2]), prior_scale=None)


@pytest.mark.parametrize("noise", KINDS)
def test_an_empty_pass_is_refused(rng, noise):
    iteration = bind(tied(random_mixture(rng, 2, 3, 1), noise), noise=noise)
    expect(iteration, np.empty((0, 3)))
    with pytest.raises(FloatingPointError, match="not finite"):
        iteration.maximize()


@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize("factors", [0, 2])
def test_moments_that_are_not_finite_are_refused(rng, noise, factors):
    parameters = tied(random_mixture(rng, 2, 3, factors), noise)
    iteration = bind(parameters, noise=noise)
    expect(iteration, random_rows(rng, parameters, 50))
    iteration.covariances[1, 0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        iteration.maximize()
    # The M-step of all components is one where they share their uniquenesses.
    k = 0 if noise == "shared" else 1
    with pytest.raises(FloatingPointError, match="not finite"):
        iteration.step(k, iteration.step_space())


def test_a_step_to_a_singular_covariance_is_refused(rng):
    """Rows that are all the same, no prior and no floor; other uniquenesses than isotropic ones stop short of 0."""
    parameters = tied(random_mixture(rng, 1, 3, 0), "isotropic")
    parameters.means[:] = 1.0
    iteration = bind(parameters, noise="isotropic", prior_count=0.0, floor=np.zeros(3))
    expect(iteration, np.ones((20, 3)))
    message = "covariance of component 0 is numerically singular"
    with pytest.raises(FloatingPointError, match=message):
        iteration.maximize()
    iteration.begin_step()
    iteration.step(0, iteration.step_space())
    with pytest.raises(FloatingPointError, match=message):
        iteration.end_step()
