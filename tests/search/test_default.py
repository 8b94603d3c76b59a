"""The default search: what it finds in rows whose origin is known, what it keeps, and what it says about itself."""

import math

import datasets
import numpy as np
import pytest
from fits import MOVES, NOISES, check_costs_fall

import amofa
from amofa.criterion import CRITERIA, Evidence


def three_groups(rng):
    """Three groups of 5 factors each in 20 columns, clearly apart."""
    return datasets.factor_analysers(rng, 20, [5, 5, 5], [400, 300, 300], distance=12.0)


def strips(rng, n=300):
    """Three parallel strips, much longer than they are apart, at an angle."""
    x = np.stack([rng.normal(0, 30, 3 * n), rng.normal(0, 0.25, 3 * n)], axis=1)
    labels = np.repeat([0, 1, 2], n)
    x[:, 1] += 1.5 * labels
    c, s = math.cos(0.5), math.sin(0.5)
    return x @ np.array([[c, s], [-s, c]]), labels


def blobs(rng):
    return datasets.factor_analysers(rng, 3, [1, 1, 0], [150, 100, 80], distance=8.0)


def agreement(model, x, labels):
    """Share of rows whose component is that of most rows of their group."""
    found = model.predict(x)
    return sum(np.bincount(found[labels == k]).max() for k in np.unique(labels)) / len(labels)


def accepted(model):
    return [step for step in model.history if step.accepted]


# ---- what it finds ---------------------------------------------------------------------------------------------------


def test_example_2(rng):
    x, labels = datasets.example_2(rng)
    model = amofa.fit(x)
    assert model.n_components == 4
    assert agreement(model, x, labels) > 0.85
    np.testing.assert_allclose(np.sort(model.weights), [0.1, 0.3, 0.3, 0.3], atol=0.06)


def test_three_groups_of_five_factors(rng):
    x, labels = three_groups(rng)
    model = amofa.fit(x)
    assert model.n_factors.tolist() == [5, 5, 5]
    assert agreement(model, x, labels) == 1


@pytest.mark.parametrize("draw", range(4))
def test_two_spheres_far_apart(draw):
    # Seen in units of standard deviations, no principal axis points from one to the other.
    x = np.random.default_rng(draw).standard_normal((300, 20))
    x[:120, 0] += 100
    model = amofa.fit(x)
    assert model.n_factors.tolist() == [0, 0]
    np.testing.assert_allclose(model.weights, [0.6, 0.4], rtol=1e-9)


def test_few_rows_are_not_divided_by_chance():
    tables = [np.random.default_rng(seed).standard_normal((10, 4)) for seed in range(100)]
    assert sum(amofa.fit(x).n_components > 1 for x in tables) <= 3


@pytest.mark.parametrize("noise", [*NOISES, "auto"])
def test_white_noise_is_one_component(rng, noise):
    model = amofa.fit(rng.standard_normal((200, 5)), noise=noise)
    assert model.n_factors.tolist() == [0]


def test_a_ring_around_a_blob(rng):
    x = np.concatenate([0.3 * rng.standard_normal((200, 2)), 5 * rng.standard_normal((200, 2))])
    model = amofa.fit(x)
    assert model.n_components == 2
    np.testing.assert_allclose(model.weights, 0.5, atol=0.08)


@pytest.mark.parametrize("step", [0.5, 1.0])
def test_rounded_columns_buy_no_components(rng, step):
    x, labels = blobs(rng)
    model = amofa.fit(np.round(x / step) * step)
    assert model.n_components == 3
    assert agreement(model, np.round(x / step) * step, labels) > 0.97


@pytest.mark.parametrize("kind", ["tiny noise", "few others", "one other"])
def test_a_nearly_constant_column_buys_no_components(rng, kind):
    x, labels = blobs(rng)
    column = np.full(len(x), 7.0)
    if kind == "tiny noise":
        column += 1e-9 * rng.standard_normal(len(x))
    else:
        column[rng.choice(len(x), 6 if kind == "few others" else 1, replace=False)] = 8.0
    x = np.column_stack([x, column])
    model = amofa.fit(x)
    assert model.n_components == 3
    assert agreement(model, x, labels) > 0.97


def test_duplicate_rows_buy_no_components(rng):
    x = rng.standard_normal((200, 3))
    assert amofa.fit(np.concatenate([x, np.tile(x[:1], (5, 1))])).n_components == 1


# ---- what it keeps ---------------------------------------------------------------------------------------------------


def test_bounds_are_kept(rng):
    x, _ = blobs(rng)
    assert amofa.fit(x, max_components=2).n_components == 2
    assert amofa.fit(x, max_components=1).n_components == 1
    assert amofa.fit(x, max_factors=0).n_factors.max() == 0
    y = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 8)) + 0.3 * rng.standard_normal((300, 8))
    assert amofa.fit(y, max_factors=2, max_components=1).n_factors.tolist() == [2]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("K", [1, 2, 4])
def test_a_given_number_of_components_is_kept(rng, K, noise):
    assert amofa.fit(blobs(rng)[0], n_components=K, noise=noise).n_components == K


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("q", [0, 1, 3])
def test_a_given_number_of_factors_is_kept(rng, q, noise):
    model = amofa.fit(blobs(rng)[0], n_factors=q, max_components=3, noise=noise)
    assert set(model.n_factors.tolist()) == {q}
    assert np.isfinite(model.uniquenesses).all()


# ---- noise -----------------------------------------------------------------------------------------------------------


def test_shared_noise(rng):
    model = amofa.fit(three_groups(rng)[0], noise="shared")
    assert model.n_components == 3
    np.testing.assert_allclose(model.uniquenesses, np.tile(model.uniquenesses[0], (3, 1)), rtol=1e-14)


def test_isotropic_noise_is_proportional_to_variances(rng):
    x, _ = blobs(rng)
    model = amofa.fit(x * [1.0, 10.0, 0.1], noise="isotropic")
    ratios = model.uniquenesses / (x * [1.0, 10.0, 0.1]).var(axis=0)
    np.testing.assert_allclose(ratios, np.tile(ratios[:, [0]], 3), rtol=1e-10)
    assert len(set(ratios[:, 0].round(6))) == model.n_components > 1


def test_noise_is_shared_by_default_where_that_costs_less(rng):
    x = np.concatenate([rng.normal(m, [1.0, 2.0, 3.0], (60, 3)) for m in (0.0, 12.0)])
    model, own = amofa.fit(x), amofa.fit(x, noise="component")
    assert (model.uniquenesses == model.uniquenesses[0]).all()
    assert [step.action for step in model.history].count("share") == 1
    assert accepted(model)[-1].cost < accepted(own)[-1].cost - 1


def test_noise_is_each_components_own_where_sharing_costs_more(rng):
    x = np.concatenate([rng.normal(0, 0.2, (200, 3)), rng.normal(12, 5, (200, 3))])
    model, own = amofa.fit(x), amofa.fit(x, noise="component")
    np.testing.assert_array_equal(model.uniquenesses, own.uniquenesses)
    assert [(step.action, step.accepted) for step in model.history][-2:] == [("share", False), ("refine", True)]


def test_shared_noise_finds_groups_in_rows_too_few_for_their_own(rng):
    """Two groups in more columns than rows: for their own noise they are one, with a factor from one to the other."""
    x = np.concatenate([rng.normal(m, 1.0, (15, 60)) for m in (0.0, 2.0)])
    assert amofa.fit(x).n_components == 2


# ---- the history -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["example 2", "blobs", "strips", "noise"])
def test_accepted_costs_fall(rng, data):
    x = {
        "example 2": lambda: datasets.example_2(rng)[0],
        "blobs": lambda: blobs(rng)[0],
        "strips": lambda: strips(rng)[0],
        "noise": lambda: rng.standard_t(3, (300, 4)),
    }[data]()
    model = amofa.fit(x)
    check_costs_fall(model.history)
    assert model.history[0].action == "start"
    assert {step.action for step in model.history} <= {"start", "refine", "share", *MOVES}
    best = min(accepted(model), key=lambda step: step.cost)
    assert model.cost == pytest.approx(best.cost, abs=1e-3)
    assert sorted(best.n_factors) == sorted(model.n_factors.tolist())
    assert best.log_likelihood == pytest.approx(model.log_likelihood, abs=1e-2)


def cost_of(model, x, criterion, noise, prior_rows):
    """The criterion from the model and the rows alone."""
    scale = x.std(axis=0)
    d, n = x.shape[1], float(len(x))
    noise_in_units = model.uniquenesses / scale**2
    cost = -model.score_samples(x).sum()
    terms = {"component": noise_in_units.ravel(), "shared": noise_in_units[0], "isotropic": noise_in_units[:, 0]}[noise]
    cost += prior_rows * np.log(np.cosh(np.log(terms) / 2)).sum()
    if criterion == "evidence":
        shapes = [
            (
                w * n,
                loadings.shape[1],
                np.linalg.slogdet((loadings @ loadings.T) / np.outer(scale, scale) + np.diag(psi))[1],
            )
            for w, loadings, psi in zip(model.weights.tolist(), model.loadings, noise_in_units, strict=True)
        ]
        return cost + Evidence(d, n, noise, prior_rows).mixture(shapes)
    h = model.predict_proba(x)
    entropy = -np.sum(h * np.log(np.where(h > 0, h, 1)))
    return cost + CRITERIA[criterion](d, model.n_factors.tolist(), n).cost(0.0, entropy, model.weights.tolist())


@pytest.mark.parametrize("prior_rows", [0, 4])
@pytest.mark.parametrize("criterion", ["evidence", "bic", "aic", "icl", "mml"])
def test_the_last_cost_is_that_of_the_model(rng, criterion, prior_rows):
    x, labels = blobs(rng)
    model = amofa.fit(
        x, search="thorough", criterion=criterion, noise="component", prior_rows=prior_rows, max_components=4
    )
    expected = cost_of(model, x, criterion, "component", prior_rows)
    assert model.cost == pytest.approx(expected, rel=1e-9)
    assert model.criterion == criterion
    assert model.n_components == 3 or criterion in ("aic", "mml")
    assert agreement(model, x, labels) > 0.9 or criterion == "aic"


@pytest.mark.parametrize("noise", ["shared", "isotropic"])
def test_the_last_cost_with_tied_noise(rng, noise):
    x, _ = blobs(rng)
    model = amofa.fit(x, noise=noise)
    assert model.cost == pytest.approx(cost_of(model, x, "evidence", noise, 4), rel=1e-9)


def test_no_prior(rng):
    x, labels = blobs(rng)
    model = amofa.fit(x, prior_rows=0)
    assert model.n_components == 3
    assert agreement(model, x, labels) > 0.99
    assert amofa.fit(rng.standard_normal((100, 4)), prior_rows=0).n_factors.tolist() == [0]


def test_a_strong_prior_holds_uniquenesses(rng):
    x = 3 * rng.standard_normal((100, 3))
    x[:, 1] += x[:, 0]
    weak, strong = amofa.fit(x, prior_rows=1, n_components=1), amofa.fit(x, prior_rows=1e7, n_components=1)
    np.testing.assert_allclose(strong.uniquenesses[0], x.var(axis=0), rtol=1e-3)
    assert weak.uniquenesses[0, 0] < 0.9 * strong.uniquenesses[0, 0]


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_components_asked_for_are_kept_though_sharing_or_one_alone_costs_less(rng):
    """Twenty rows of a stick: the evidence is for one component, and two were asked for."""
    t = rng.uniform(0, 1, 20)
    x = np.outer(t, [8, 4, -6, 2]) + rng.normal(0, 0.3, (20, 4))
    assert amofa.fit(x).n_components == 1
    assert amofa.fit(x, n_components=2).n_components == 2


@pytest.mark.parametrize("weighted", [False, True])
def test_splits_that_start_from_some_of_the_rows_find_the_same(rng, monkeypatch, weighted):
    """Of huge tables local fits see evenly spread rows alone, but EM sees all."""
    X = np.concatenate([rng.normal(m, 1, (700, 3)) for m in (0, 6, 12)])
    X[:, 1] += 2 * rng.normal(size=2100) * (np.arange(2100) < 700)
    weights = rng.uniform(0.5, 1.5, 2100) if weighted else None
    whole = amofa.fit(X, sample_weight=weights)
    monkeypatch.setattr(amofa._data.row_chunks, "_HELD_ROWS", 600)
    thinned = amofa.fit(X, sample_weight=weights)
    assert whole.n_components == thinned.n_components == 3
    np.testing.assert_array_equal(thinned.n_factors, whole.n_factors)
    assert thinned.log_likelihood == pytest.approx(whole.log_likelihood, abs=0.01)
