"""Wrong numbers of clusters or factors, and criteria: rows 19 to 34 of docs/hard_inputs.md."""

import inspect
import math

import numpy as np
import pytest
from fits import NOISES, blobs, check_costs_fall, fitted, same_groups

import amofa

DRAWS = pytest.mark.parametrize("draw", range(3))


# ---- 19, 20 ----------------------------------------------------------------------------------------------------------


def thin(rng, n, length, width, angle, centre):
    """Rows of a thin Gaussian."""
    along, across = length * rng.standard_normal(n), width * rng.standard_normal(n)
    c, s = np.cos(angle), np.sin(angle)
    return np.column_stack([c * along - s * across, s * along + c * across]) + centre


@DRAWS
def test_19_three_thin_clusters(draw):
    rng = np.random.default_rng(draw)
    counts, angles, centres = [67, 67, 66], [0.3, 1.2, -0.8], [(0, 0), (10, 2), (3, 12)]
    X = np.concatenate([thin(rng, n, 3, 0.1, a, c) for n, a, c in zip(counts, angles, centres, strict=True)])
    model = fitted(X)
    assert same_groups(np.repeat([0, 1, 2], counts), model.predict(X))
    assert model.n_factors.tolist() == [1, 1, 1]


def turned(X, angle):
    c, s = np.cos(angle), np.sin(angle)
    return X @ np.array([[c, s], [-s, c]])


@DRAWS
@pytest.mark.parametrize("angle", [0.0, 0.7, np.pi / 2])
def test_20_three_parallel_strips(draw, angle):
    rng = np.random.default_rng(draw)
    X = np.concatenate([thin(rng, 200, 10, 0.3, 0, (0, 3 * k)) for k in range(3)])
    X = turned(X, angle)
    assert same_groups(np.repeat([0, 1, 2], 200), fitted(X).predict(X))


def uniform_strips(draw, angle):
    rng = np.random.default_rng(draw)
    strips = [np.column_stack([rng.uniform(-20, 20, 200), 3 * k + rng.uniform(-0.5, 0.5, 200)]) for k in range(3)]
    return turned(np.concatenate(strips), angle), np.repeat([0, 1, 2], 200)


@DRAWS
def test_20_strips_that_are_no_gaussians_and_lie_aslant(draw):
    X, labels = uniform_strips(draw, 0.7)
    model = fitted(X)
    found = model.predict(X)
    # Each component in one strip; a strip may be in pieces where these cost less.
    assert all(len(set(labels[found == k])) == 1 for k in set(found))
    assert same_groups(labels, found) or model.cost < fitted(X, init=labels, n_components=3).cost - 1


@DRAWS
def test_20_strips_that_are_no_gaussians_with_their_number_given(draw):
    X, labels = uniform_strips(draw, 0.0)
    assert same_groups(labels, fitted(X, n_components=3).predict(X))


@pytest.mark.xfail(
    reason="rows that fill a rectangle along the axes are no Gaussian: pieces of it without factors describe them for "
    "less, and are what the criterion finds"
)
@DRAWS
def test_20_strips_that_are_no_gaussians(draw):
    X, labels = uniform_strips(draw, 0.0)
    assert same_groups(labels, fitted(X).predict(X))


# ---- 21, 22, 23 ------------------------------------------------------------------------------------------------------


def test_21_no_concentration_to_choose(rng):
    X, labels = blobs(rng, [60] * 10, [(6 * (k % 4), 6 * (k // 4)) for k in range(10)], 0.7)
    for prior_rows in (0.4, 4.0, 40.0):
        assert same_groups(labels, fitted(X, prior_rows=prior_rows).predict(X))
    assert not {name for name in inspect.signature(amofa.fit).parameters if "concentration" in name or "alpha" in name}


@pytest.mark.parametrize(("unit", "shift"), [(1e-9, 0.0), (1e-3, 5.0), (1.0, -1500.0), (1e6, 1e9), (1e12, 0.0)])
def test_22_the_unit_of_the_data(rng, unit, shift):
    X, labels = blobs(rng, [150, 100], [[1000.0], [2000.0]], 20)
    plain, other = fitted(X), fitted(unit * X + shift)
    assert same_groups(labels, plain.predict(X))
    np.testing.assert_array_equal(other.predict(unit * X + shift), plain.predict(X))
    np.testing.assert_allclose(other.weights, plain.weights, rtol=1e-9)
    np.testing.assert_allclose(other.uniquenesses, unit**2 * plain.uniquenesses, rtol=1e-5)
    np.testing.assert_allclose(other.means, unit * plain.means + shift, rtol=1e-9)


def test_23_groups_along_the_axis_of_low_variance(rng):
    labels = np.repeat([0, 1], 150)
    X = np.column_stack([rng.normal(0, 100, 300), labels + rng.normal(0, 0.05, 300)])
    for Y in (X, (X - X.mean(axis=0)) / X.std(axis=0), X * [1e-6, 1e6]):
        assert same_groups(labels, fitted(Y).predict(Y))


# ---- 24, 25, 26, 27, 28, 29 ------------------------------------------------------------------------------------------


def test_24_one_call_finds_numbers_and_forms_and_keeps_the_trace(rng):
    X, labels = blobs(rng, [150, 100], [(0, 0, 0, 0), (6, 6, 6, 6)])
    X[:150] += rng.standard_normal((150, 1)) * [2, -2, 1, 1]
    model = fitted(X)
    assert same_groups(labels, model.predict(X))
    assert model.n_factors.tolist() == [1, 0]
    assert model.history[0].action == "start"
    assert {"split", "refine"} <= {step.action for step in model.history}
    last = [step for step in model.history if step.accepted][-1]
    assert last.n_factors == tuple(model.n_factors[::-1]) or last.n_factors == tuple(model.n_factors)
    assert last.log_likelihood == pytest.approx(model.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("given", [{}, {"n_components": 2}], ids=["found", "given"])
def test_25_26_all_criteria_of_any_model(rng, given):
    X, _ = blobs(rng, [150, 100], [(0, 0), (3, 3)])
    model = fitted(X, **given)
    n, p, total = len(X), model.n_parameters, model.score_samples(X).sum()
    r = model.predict_proba(X)
    entropy = -(r * np.log(np.where(r > 0, r, 1))).sum()
    assert model.aic(X) == pytest.approx(-2 * total + 2 * p, rel=1e-12)
    assert model.bic(X) == pytest.approx(-2 * total + p * math.log(n), rel=1e-12)
    assert model.icl(X) == pytest.approx(model.bic(X) + 2 * entropy, rel=1e-12)
    last = [step for step in model.history if step.accepted][-1]
    assert model.message_length == pytest.approx(last.message_length, rel=1e-9)
    assert model.cost == last.cost
    assert f"cost {model.cost:.2f} nats" in model.summary()


def test_27_other_criteria_follow_from_what_a_model_tells(rng):
    """The bootstrap likelihood-ratio test itself is not part of amofa."""
    X, _ = blobs(rng, [150, 100], [(0, 0), (5, 5)])
    n = len(X)
    caic, adjusted = {}, {}
    for K in (1, 2, 3):
        model = fitted(X, n_components=K, max_iter=1000)
        deviance = -2 * model.score(X) * n
        caic[K] = deviance + model.n_parameters * (math.log(n) + 1)
        adjusted[K] = deviance + model.n_parameters * math.log((n + 2) / 24)
        assert adjusted[K] < model.bic(X) < caic[K]
    assert min(caic, key=caic.get) == 2


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("q", [0, 2])
def test_28_every_free_parameter_counts_once(rng, noise, q):
    X, _ = blobs(rng, [80, 80, 80], 7 * np.eye(3, 4))
    model = fitted(X, n_components=3, n_factors=q, noise=noise)
    loadings = 4 * q - q * (q - 1) // 2  # a rotation changes nothing
    variances = {"component": 12, "shared": 4, "isotropic": 3}[noise]
    assert model.n_parameters == 2 + 12 + 3 * loadings + variances
    assert model.bic(X) == pytest.approx(-2 * model.log_likelihood + model.n_parameters * math.log(240), rel=1e-9)


def test_29_lower_is_better_for_every_criterion(rng):
    X, _ = blobs(rng, [150, 100], [(0, 0), (6, 6)])
    right, wrong = fitted(X, n_components=2), fitted(X, n_components=1)
    for name in ("aic", "bic", "icl"):
        assert getattr(right, name)(X) < getattr(wrong, name)(X)
    assert right.message_length < wrong.message_length
    assert right.score(X) > wrong.score(X)  # a log-likelihood: higher is better
    model = fitted(X)
    check_costs_fall(model.history)
    assert model.cost <= min(step.cost for step in model.history if step.accepted) + 1e-3


# ---- 30 --------------------------------------------------------------------------------------------------------------


def test_30_the_end_of_em_does_not_hang_on_the_number_of_rows(rng):
    X, _ = blobs(rng, [300, 100], [(0, 0), (3, 2)])
    usual, tight = fitted(X, n_components=2), fitted(X, n_components=2, tol=1e-6)
    np.testing.assert_allclose(usual.weights, [0.75, 0.25], atol=0.04)
    np.testing.assert_allclose(tight.weights, usual.weights, atol=1e-3)
    assert abs(tight.log_likelihood - usual.log_likelihood) < 1e-3
    # By likelihood alone, which repetition does not change.
    options = {"n_components": 2, "criterion": "bic", "prior_rows": 0, "noise": "shared", "n_factors": 0}
    once, often = fitted(X, **options), fitted(np.repeat(X, 25, axis=0), **options)
    np.testing.assert_allclose(often.weights, once.weights, atol=1e-4)


# ---- 31, 32 ----------------------------------------------------------------------------------------------------------


def one_group(rng, n, d, q, noise):
    """Rows of a factor analyser, and its factors."""
    factors = rng.standard_normal((n, q))
    return factors @ rng.standard_normal((q, d)) + noise * rng.standard_normal((n, d)), factors


@DRAWS
def test_31_three_factors(draw):
    X, factors = one_group(np.random.default_rng(draw), 400, 12, 3, 0.5)
    model = fitted(X)
    assert model.n_factors.tolist() == [3]
    (scores,) = model.factor_scores(X)
    left = np.linalg.qr(factors - factors.mean(axis=0))[0]
    right = np.linalg.qr(scores - scores.mean(axis=0))[0]
    assert np.linalg.svd(left.T @ right, compute_uv=False).min() > 0.9  # canonical correlations
    assert model.bic(X) < fitted(X, n_factors=2).bic(X)
    assert model.bic(X) < fitted(X, n_factors=4).bic(X)


@DRAWS
def test_32_few_noisy_rows_and_all_criteria(draw):
    X, _ = one_group(np.random.default_rng(draw), 40, 12, 2, 1.0)
    models = {c: fitted(X, criterion=c) for c in ("evidence", "bic", "icl", "aic")}
    found = {c: tuple(model.n_factors.tolist()) for c, model in models.items()}
    # Those that are meant to find the truth agree; that for prediction may have more, and says what the others cost.
    assert found["evidence"] == found["bic"] == found["icl"]
    assert models["bic"].n_components == 1
    assert 1 <= models["bic"].n_factors[0] <= 2
    for name in ("aic", "bic"):
        costs = {c: getattr(model, name)(X) for c, model in models.items()}
        # The prior of the uniquenesses is beside the criterion: so much may another model be better.
        assert costs[name] <= min(costs.values()) + 4
    # One fit tells how the criteria agree on every model that was looked at.
    history = models["evidence"].history
    assert all(np.isfinite([step.cost, step.message_length, step.log_likelihood]).all() for step in history)


# ---- 33, 34 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["auto", "component", "shared", "isotropic"])
def test_33_integer_scores_for_every_form_of_noise(rng, noise):
    scores = np.round(rng.normal(50, 8, (9000, 5))).astype(int)
    model = fitted(scores, noise=noise)
    assert model.n_components == 1
    assert model.uniquenesses.min() >= 1 / 12  # what rounding to whole numbers adds


def test_33_answers_of_five_with_many_at_the_end_of_the_scale(rng):
    """No Gaussians, and so there may be several components."""
    X = np.clip(np.round(rng.normal(4, 1.2, (3000, 5))), 1, 5).astype(int)
    model = fitted(X)
    assert model.uniquenesses.min() >= 1 / 12 * (1 - 1e-9)


@pytest.mark.parametrize("draw", [42, 0, 1, 7])
def test_34_four_separate_blobs(draw):
    X, labels = blobs(np.random.default_rng(draw), [60] * 4, [(0, 0), (10, 0), (0, 10), (10, 10)])
    assert same_groups(labels, fitted(X).predict(X))
