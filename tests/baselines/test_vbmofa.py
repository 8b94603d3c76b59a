"""The variational mixture: updates and bound against plain forms, columns that are switched off, births."""

from dataclasses import replace
from itertools import pairwise

import datasets
import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp

import amofa
from amofa._data.row_chunks import Moments, Samples
from amofa.baselines import _births, _pruning, vbmofa
from amofa.baselines import _variational as variational


def moments_of(X, R):
    """Moments of rows under responsibilities R (n, K)."""
    counts = R.sum(axis=0)
    means = (R.T @ X) / counts[:, None]
    covariances = np.array([(R[:, k, None] * (X - means[k])).T @ (X - means[k]) / counts[k] for k in range(R.shape[1])])
    return Moments(counts, means, covariances)


@pytest.fixture
def rows(rng):
    """Standardised rows (n, d) of two factor analysers that overlap."""
    X, _ = datasets.factor_analysers(rng, 5, [1, 2], [120, 80], distance=2.0)
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.fixture
def begun(rows, rng):
    """A posterior after some updates, with the noise of each component."""
    R = rng.dirichlet([0.5, 0.5], size=len(rows))
    moments = moments_of(rows, R)
    noise = np.full((2, 5), 0.5)
    axes = variational.principal_axes_of_noise(moments, noise, 3)
    posterior = variational.start(moments, noise, axes, np.zeros(5), np.ones(5))
    for _ in range(3):
        posterior = variational.update(posterior, moments, np.full(5, 1e-4), shares_noise=False)
    return posterior, moments


# ---- plain forms: every row of loadings with a covariance matrix of its own, every row of X alone -----------------


def plain_update(posterior, moments):
    """Row covariances (K, d, 1 + q, 1 + q), row means (K, d, 1 + q) and E[(1, x)(1, x)'] summed, from the equations."""
    K, q, d = posterior.loadings.shape
    G, A, C = np.empty((K, d, 1 + q, 1 + q)), np.empty((K, d, 1 + q)), np.empty((K, 1 + q, 1 + q))
    for k in range(K):
        L, W = posterior.loadings[k].T, np.diag(1 / posterior.noise[k])
        S = np.linalg.inv(np.eye(q) + L.T @ W @ L + posterior.weighted[k, 1:, 1:])
        N, mean, cov = moments.soft_counts[k], moments.means[k], moments.covariances[k]
        B = S @ L.T @ W
        x = B @ (mean - posterior.means[k]) - S @ posterior.weighted[k, 1:, 0]
        C[k] = N * np.block([[np.ones((1, 1)), x[None]], [x[:, None], S + B @ cov @ B.T + np.outer(x, x)]])
        yx = N * np.column_stack([mean, cov @ B.T + np.outer(mean, x)])
        for r in range(d):
            prior = np.append(1 / posterior.spread[r], posterior.shape / posterior.rates[k])
            G[k, r] = np.linalg.inv(np.diag(prior) + C[k] / posterior.noise[k, r])
            pull = np.zeros(1 + q)
            pull[0] = prior[0] * posterior.center[r]
            A[k, r] = G[k, r] @ (pull + yx[r] / posterior.noise[k, r])
    return G, A, C, yx


def plain_bound(X, posterior, G, A, R):
    """E_Q[log p - log Q] term by term, Q(factors) at its best given the rest."""
    K, q, d = posterior.loadings.shape
    u, a, b = posterior.dirichlet, posterior.shape, posterior.rates
    log_pi = digamma(u) - digamma(u.sum())
    bound = gammaln(1.0) - K * gammaln(1 / K) - gammaln(u.sum()) + gammaln(u).sum() + ((1 / K - u) * log_pi).sum()
    log_nu, nu = digamma(a) - np.log(b), a / b
    for k in range(K):
        W = 1 / posterior.noise[k]
        M = np.einsum("r,ri,rj->ij", W, A[k], A[k]) + np.einsum("r,rij->ij", W, G[k])
        S = np.linalg.inv(np.eye(q) + M[1:, 1:])
        for y, h in zip(X, R[:, k], strict=True):
            x = S @ ((W * y) @ A[k][:, 1:] - M[1:, 0])
            z = np.append(1.0, x)
            Z = np.outer(z, z)
            Z[1:, 1:] += S
            data = -0.5 * (d * np.log(2 * np.pi) - np.log(W).sum() + W @ y**2 - 2 * (W * y) @ A[k] @ z + (M * Z).sum())
            factors = 0.5 * (q + np.linalg.slogdet(S)[1] - np.trace(Z[1:, 1:]))
            bound += h * (data + factors + log_pi[k] - (np.log(h) if h > 0 else 0.0))
        for r in range(d):
            second = np.diag(G[k, r]) + A[k, r] ** 2
            bound += 0.5 * (np.linalg.slogdet(G[k, r])[1] + 1 + q)
            bound += 0.5 * (log_nu[k].sum() - nu[k] @ second[1:])
            squared = G[k, r, 0, 0] + (A[k, r, 0] - posterior.center[r]) ** 2
            bound -= 0.5 * (np.log(posterior.spread[r]) + squared / posterior.spread[r])
        # E[log p(nu)] - E[log Q(nu)] with a prior Gamma(1, 1).
        bound += (-nu[k] - (a * np.log(b[k]) - gammaln(a) + (a - 1) * log_nu[k] - a)).sum()
    return bound


def in_plain_form(posterior, moments):
    """The posterior with loadings updated from it, noise kept, and the same by the plain form in the same basis."""
    G, A, C, _ = plain_update(posterior, moments)
    updated = variational.update(posterior, moments, np.full(5, 1e-4), noise_step=0.0)
    # The basis is fixed by E[Lambda' Lambda] up to signs.
    for k in range(len(A)):
        second = G[k, :, 1:, 1:].sum(axis=0) + A[k, :, 1:].T @ A[k, :, 1:]
        _, vectors = np.linalg.eigh(second)
        turn = vectors[:, ::-1]
        turn = turn * np.sign(np.einsum("dq,dq->q", A[k, :, 1:] @ turn, updated.loadings[k].T))
        A[k, :, 1:] = A[k, :, 1:] @ turn
        whole = np.eye(1 + len(turn))
        whole[1:, 1:] = turn
        G[k] = whole.T @ G[k] @ whole
        C[k] = whole.T @ C[k] @ whole
    return updated, G, A, C


def test_update_is_the_plain_one(begun):
    posterior, moments = begun
    updated, G, A, _ = in_plain_form(posterior, moments)
    weights = 1 / posterior.noise[:, :, None, None]
    np.testing.assert_allclose(updated.means, A[:, :, 0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(updated.loadings.swapaxes(1, 2), A[:, :, 1:], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(updated.mean_variances, G[:, :, 0, 0], rtol=1e-9)
    np.testing.assert_allclose(updated.plain, G.sum(axis=1), rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(updated.weighted, (weights * G).sum(axis=1), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(updated.log_determinants, np.linalg.slogdet(G)[1].sum(axis=1), rtol=1e-10)
    second = np.diagonal(updated.plain, axis1=1, axis2=2)[:, 1:] + (updated.loadings**2).sum(axis=2)
    np.testing.assert_allclose(updated.rates, 1 + second / 2, rtol=1e-9)


@pytest.mark.parametrize("shares_noise", [True, False])
def test_noise_is_the_expected_squared_residual(begun, shares_noise):
    posterior, moments = begun
    G, A, C, _ = plain_update(posterior, moments)
    residuals = np.empty((2, 5))
    for k in range(2):
        L, W = posterior.loadings[k].T, np.diag(1 / posterior.noise[k])
        S = np.linalg.inv(np.eye(3) + L.T @ W @ L + posterior.weighted[k, 1:, 1:])
        B = S @ L.T @ W
        N, mean, cov = moments.soft_counts[k], moments.means[k], moments.covariances[k]
        yx = np.column_stack([mean * N, N * (cov @ B.T) + np.outer(mean, C[k, 0, 1:])])
        for r in range(5):
            square = N * (cov[r, r] + mean[r] ** 2) - 2 * A[k, r] @ yx[r]
            residuals[k, r] = square + A[k, r] @ C[k] @ A[k, r] + np.trace(G[k, r] @ C[k])
    counts = moments.soft_counts[:, None]
    wanted = np.tile(residuals.sum(axis=0) / counts.sum(), (2, 1)) if shares_noise else residuals / counts
    updated = variational.update(posterior, moments, np.full(5, 1e-4), shares_noise=shares_noise)
    np.testing.assert_allclose(updated.noise, wanted, rtol=1e-9)


def test_bound_is_the_plain_one(rows, begun):
    posterior, moments = begun
    updated, G, A, _ = in_plain_form(posterior, moments)
    _, bound = _births.Rows(Samples(rows)).expect(updated)
    R = Samples(rows).responsibilities(variational.effective_mixture(updated)).T
    assert bound == pytest.approx(plain_bound(rows, updated, G, A, R), rel=1e-10)
    # With other responsibilities it is lower: these are the best ones.
    shifted = 0.9 * R + 0.05
    assert plain_bound(rows, updated, G, A, shifted) < bound


@pytest.mark.parametrize(("n", "d", "q"), [(30, 1, 0), (30, 1, 1), (30, 4, 0), (30, 3, 5), (1, 3, 2), (8, 20, 4)])
def test_shapes_at_the_edge_are_the_plain_ones(rng, n, d, q):
    """No factors, more factors than columns, one column, one row; the parts of the bound are the whole."""
    X, R = rng.normal(size=(n, d)), np.ones((n, 1))
    moments = moments_of(X, R)
    noise = np.full((1, d), 0.5)
    axes = np.linspace(2.0, 3.0, q)[None], rng.normal(size=(1, q, d))
    posterior = variational.start(moments, noise, axes, np.zeros(d), np.ones(d))
    posterior = variational.update(posterior, moments, np.full(d, 1e-4), noise_step=0.0)
    G, A, _, _ = plain_update(posterior, moments)
    updated = variational.update(posterior, moments, np.full(d, 1e-4), noise_step=0.0)
    np.testing.assert_allclose(updated.means, A[:, :, 0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(updated.mean_variances, G[:, :, 0, 0], rtol=1e-9)
    np.testing.assert_allclose(updated.log_determinants, np.linalg.slogdet(G)[1].sum(axis=1), rtol=1e-9)
    second = G[0, :, 1:, 1:].sum(axis=0) + A[0, :, 1:].T @ A[0, :, 1:]
    np.testing.assert_allclose(updated.rates[0], 1 + np.linalg.eigvalsh(second)[::-1] / 2, rtol=1e-9)
    _, bound = _births.Rows(Samples(X)).expect(updated)
    constant = -0.5 * n * d * np.log(2 * np.pi)
    assert variational.bound_of_moments(updated, moments) + constant == pytest.approx(bound, rel=1e-10)


def test_what_is_not_finite_is_named(begun):
    posterior, moments = begun
    unknown = replace(moments, covariances=moments.covariances * np.nan)
    for wrong in (
        lambda: variational.update(posterior, unknown, np.full(5, 1e-4)),
        lambda: variational.effective_mixture(replace(posterior, weighted=posterior.weighted * np.nan)),
        lambda: variational.component_bounds(posterior, unknown),
    ):
        with pytest.raises(FloatingPointError, match="the posterior of a component is not finite"):
            wrong()


# ---- sweeps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares_noise", [True, False])
def test_bound_never_falls(rows, begun, shares_noise):
    posterior, moments = begun
    passes = _births.Rows(Samples(rows))
    if shares_noise:
        posterior = replace(posterior, noise=np.tile(posterior.noise.mean(axis=0), (2, 1)))
    bounds = []
    for _ in range(150):
        posterior = variational.update(posterior, moments, np.full(5, 1e-4), shares_noise=shares_noise)
        moments, bound = passes.expect(posterior)
        bounds.append(bound)
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])
    assert bounds[-1] > bounds[0] + 1.0


def test_switching_off_raises_the_bound(rows, begun):
    posterior, moments = begun
    passes = _births.Rows(Samples(rows))
    for _ in range(60):
        posterior = variational.update(posterior, moments, np.full(5, 1e-4))
        moments, bound = passes.expect(posterior)
    fewer = _pruning.switched_off(posterior, moments, np.full(5, 1e-4))
    assert fewer.n_live.sum() < posterior.n_live.sum()
    assert passes.expect(fewer)[1] > bound


def test_columns_that_are_off_stay_off(rows, begun):
    posterior, moments = begun
    fewer = _pruning._without_last(posterior, np.array([1, 2]))
    for _ in range(5):
        fewer = variational.update(fewer, moments, np.full(5, 1e-4))
    assert not fewer.loadings[~fewer.live].any()
    assert fewer.loadings[fewer.live].any(axis=1).all()
    # They change nothing: the first component has no others than these two.
    np.testing.assert_array_equal(fewer.n_live, [2, 1])


def test_halves_are_the_component(rows, begun):
    posterior, _ = begun
    passes = _births.Rows(Samples(rows))
    moments, _ = passes.expect(posterior)
    direction = np.arange(5.0) - 2
    halves = passes.halves(posterior, moments, 0, direction)
    R = Samples(rows).responsibilities(variational.effective_mixture(posterior)).T
    side = (rows - moments.means[0]) @ direction > 0
    wanted = moments_of(rows, np.column_stack([R[:, 0] * ~side, R[:, 1], R[:, 0] * side]))
    np.testing.assert_allclose(halves.soft_counts, wanted.soft_counts, rtol=1e-10)
    np.testing.assert_allclose(halves.means, wanted.means, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(halves.covariances, wanted.covariances, rtol=1e-7, atol=1e-9)


# ---- vbmofa ----------------------------------------------------------------------------------------------------------


def test_finds_components_and_their_dimensionalities(rng):
    X, labels = datasets.factor_analysers(rng, 10, [1, 3], [400, 400], distance=8.0, noise=(0.4, 0.4))
    model = vbmofa(X)
    assert model.n_components == 2
    predicted = model.predict(X)
    of_groups = [int(np.bincount(predicted[labels == k]).argmax()) for k in range(2)]
    assert model.n_factors[of_groups].tolist() == [1, 3]


def test_noise_of_each_component_needs_no_factors_for_it(rng):
    """With noise shared, what a component has more of it takes factors."""
    X, _ = datasets.factor_analysers(rng, 6, [1, 1], [500, 500], distance=12.0, noise=(0.05, 2.0))
    shared, own = vbmofa(X, n_tries=1), vbmofa(X, noise="component", n_tries=1)
    assert own.n_components == 2
    assert own.n_factors.tolist() == [1, 1]
    assert shared.n_factors.sum() > 2
    assert own.n_parameters == 1 + 2 * (6 + 6 + 6)
    assert shared.n_parameters < amofa.criterion.n_parameters(6, shared.n_factors)


def test_one_gaussian_is_one_component(rng):
    model = vbmofa(rng.normal(size=(300, 4)))
    assert model.n_components == 1
    assert model.n_factors.tolist() == [0]


def test_history_rises_and_ends_at_the_model(rng):
    X, _ = datasets.factor_analysers(rng, 4, [1, 1], [150, 150], distance=6.0)
    model = vbmofa(X)
    accepted = [step for step in model.history if step.accepted]
    assert [step.action for step in accepted][:2] == ["start", "split"]
    assert all(later.cost <= earlier.cost for earlier, later in pairwise(accepted))
    assert sorted(accepted[-1].n_factors) == sorted(model.n_factors.tolist())
    # The posterior means are likelier than all models that the bound averages over.
    assert accepted[-1].log_likelihood == pytest.approx(model.log_likelihood, rel=1e-9)
    assert -accepted[-1].cost < model.log_likelihood
    assert model.criterion == "bound"


def test_weight_2_is_a_row_twice(rng):
    X, _ = datasets.factor_analysers(rng, 3, [1, 1], [80, 80], distance=8.0)
    w = rng.integers(0, 3, len(X))
    weighted, repeated = vbmofa(X, n_tries=1, sample_weight=w), vbmofa(np.repeat(X, w, axis=0), n_tries=1)
    np.testing.assert_allclose(weighted.means, repeated.means, rtol=1e-4, atol=1e-4)


def test_limits_are_kept(rng):
    X, _ = datasets.factor_analysers(rng, 5, [2, 2], [200, 200], distance=8.0)
    model = vbmofa(X, max_components=1, max_factors=1)
    assert (model.n_components, model.n_factors.tolist()) == (1, [1])
    assert not vbmofa(X, max_factors=0, max_components=2).n_factors.any()


def test_effective_mixture_without_spread_is_the_plug_in(begun):
    """Where Q has no spread, expected log densities are log densities."""
    posterior, _ = begun
    none = np.zeros_like(posterior.weighted)
    mixture = variational.effective_mixture(replace(posterior, weighted=none, plain=none))
    np.testing.assert_allclose(mixture.means, posterior.means, rtol=1e-13)
    np.testing.assert_allclose(mixture.loadings, posterior.loadings.reshape(6, 5), rtol=1e-13)
    u = posterior.dirichlet
    np.testing.assert_allclose(np.log(mixture.weights), digamma(u) - digamma(u.sum()), rtol=1e-12)
    assert logsumexp(np.log(mixture.weights)) < 0
