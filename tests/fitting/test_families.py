"""Fits of families whose components have something in common: scaled noise, and common loadings."""

import numpy as np
import pytest
from fits import JOINT_NOISES, check_model, check_same, two_groups, warned

import amofa
from amofa._search import task as tasks
from amofa.criterion import n_parameters


def scaled_groups(rng, n=60, d=8):
    """Draw three groups with loadings of their own, and noise of one shape in three sizes."""
    shape = rng.uniform(0.3, 1.0, d)
    parts = []
    for k, scale in enumerate((0.4, 1.0, 2.0)):
        mean = 4.0 * np.eye(3, d)[k]
        loadings = rng.standard_normal((1, d))
        parts.append(
            mean + rng.standard_normal((n, 1)) @ loadings + np.sqrt(scale * shape) * rng.standard_normal((n, d))
        )
    return np.concatenate(parts), np.repeat(np.arange(3), n)


def groups_with_common_loadings(rng, n=40, d=10):
    loadings = 2.0 * rng.standard_normal((2, d))
    parts = []
    for k in range(3):
        noise = rng.uniform(0.2, 1.5, d)
        parts.append(
            3.0 * np.eye(3, d)[k] + rng.standard_normal((n, 2)) @ loadings + noise * rng.standard_normal((n, d))
        )
    return np.concatenate(parts), np.repeat(np.arange(3), n)


TABLES = {"scaled": scaled_groups, "common_loadings": groups_with_common_loadings}


@pytest.fixture(params=JOINT_NOISES)
def noise(request):
    return str(request.param)


@pytest.fixture
def table(noise):
    return TABLES[noise](np.random.default_rng(7))


def check_ties(model, noise):
    if noise == "scaled":
        ratios = model.uniquenesses / model.uniquenesses[0]
        np.testing.assert_allclose(ratios, np.repeat(ratios[:, :1], ratios.shape[1], axis=1), rtol=1e-9)
    else:
        for loadings in model.loadings:
            np.testing.assert_array_equal(loadings, model.loadings[0])
    assert model.noise == noise


def test_groups_are_found_at_less_cost(table, noise):
    X, labels = table
    model, default = amofa.fit(X, noise=noise), amofa.fit(X)
    check_model(model, X)
    check_ties(model, noise)
    assert model.n_components == 3
    assert amofa.metrics.normalized_information_distance(labels, model.predict(X)) < 0.3
    assert model.cost < default.cost - 5
    assert model.n_parameters == n_parameters(X.shape[1], model.n_factors.tolist(), noise) < default.n_parameters
    assert model.noise.split("_")[0] in model.summary()
    assert default.noise in ("component", "shared")
    # "any" comes to the same.
    found = amofa.fit(X, noise="any")
    assert found.noise == noise
    assert found.n_parameters == model.n_parameters
    assert found.cost == pytest.approx(model.cost, abs=0.01)


def test_a_model_file_keeps_the_kind_of_noise(table, noise, tmp_path):
    X, _ = table
    model = amofa.fit(X, noise=noise, n_components=2)
    model.save(tmp_path / "m.npz")
    loaded = amofa.load(tmp_path / "m.npz")
    assert loaded.noise == noise
    assert loaded.n_parameters == model.n_parameters
    check_same(loaded, model)


def test_units_order_and_threads_change_nothing(table, noise, rng):
    X, _ = table
    model = amofa.fit(X, noise=noise)
    order, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    other = amofa.fit((1e3 * X + 5.0)[order][:, columns], noise=noise)
    assert other.n_components == model.n_components
    np.testing.assert_array_equal(np.sort(other.n_factors), np.sort(model.n_factors))
    np.testing.assert_array_equal(other.predict((1e3 * X + 5.0)[:, columns]), model.predict(X))
    one, two = (amofa.fit(X, noise=noise, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.means, two.means)
    np.testing.assert_array_equal(one.uniquenesses, two.uniquenesses)


def test_weights_are_repetitions(table, noise, rng):
    X, _ = table
    weights = rng.integers(1, 3, len(X))
    weighted = amofa.fit(X, noise=noise, n_components=3, sample_weight=weights)
    repeated = amofa.fit(np.repeat(X, weights, axis=0), noise=noise, n_components=3)
    assert weighted.cost == pytest.approx(repeated.cost, rel=1e-9)
    np.testing.assert_allclose(weighted.means, repeated.means, rtol=1e-6, atol=1e-6)


def test_missing_cells(table, noise, rng):
    X, labels = table
    holes = X.copy()
    holes[rng.random(X.shape) < 0.05] = np.nan
    model = amofa.fit(holes, noise=noise, n_components=3)
    check_ties(model, noise)
    assert amofa.metrics.normalized_information_distance(labels, model.predict(holes)) < 0.6
    assert model.log_likelihood == pytest.approx(model.score_samples(holes).sum(), rel=1e-9)


def test_given_numbers_are_kept(table, noise):
    X, _ = table
    for options in ({"n_components": 1}, {"n_components": 5, "n_factors": 1}, {"max_components": 2, "max_factors": 1}):
        model = amofa.fit(X, noise=noise, **options)
        check_ties(model, noise)
        assert model.n_components == options.get("n_components", min(model.n_components, 2))
        assert set(model.n_factors) <= {options.get("n_factors", q) for q in range(9)}
        assert max(model.n_factors) <= options.get("max_factors", 9)


def test_a_start_that_is_given(table, noise):
    X, labels = table
    for init in (labels, amofa.fit(X, n_components=3)):
        model = amofa.fit(X, noise=noise, init=init)
        check_ties(model, noise)
    assert amofa.fit(X, noise=noise, init=labels).n_components == 3
    # A start with another number of components than is asked for is not used.
    assert amofa.fit(X, noise=noise, init=labels, n_components=2).n_components == 2


@pytest.mark.parametrize("criterion", ["bic", "icl", "aic", "mml"])
def test_other_criteria(table, noise, criterion):
    X, _ = table
    prior_rows = 0 if criterion in ("bic", "aic") else None
    model = amofa.fit(X, noise=noise, criterion=criterion, prior_rows=prior_rows, max_components=4)
    check_ties(model, noise)
    if criterion == "bic":
        assert 2 * model.cost == pytest.approx(model.bic(X), rel=1e-9)
    if criterion == "aic":
        assert 2 * model.cost == pytest.approx(model.aic(X), rel=1e-9)


def test_a_scan(table, noise):
    X, _ = table
    scan = amofa.scan(X, n_components=[2, 3], noise=["component", noise])
    costs = {(row.noise, row.n_components): row.cost for row in scan}
    assert costs[noise, 3] == min(costs.values())
    every = amofa.scan(X, n_components=[3], noise="any")
    assert {row.noise for row in every} == {"component", "shared", *map(str, JOINT_NOISES)}


def test_an_interrupted_fit_resumes(table, noise, tmp_path):
    X, _ = table
    path = tmp_path / "fit.checkpoint"
    whole = amofa.fit(X, noise=noise)
    seen = []
    amofa.fit(X, noise=noise, checkpoint=path, callback=lambda step: seen.append(step) or len(seen) == 3)
    resumed = amofa.fit(X, noise=noise, checkpoint=path)
    np.testing.assert_array_equal(resumed.means, whole.means)
    np.testing.assert_array_equal(resumed.uniquenesses, whole.uniquenesses)
    assert len(resumed.history) == len(whole.history)


def test_a_fit_that_is_stopped_at_once_has_a_model_of_the_family(table, noise):
    X, _ = table
    model = amofa.fit(X, noise=noise, callback=lambda _: True)
    assert (model.n_components, model.noise) == (1, noise)


def test_a_large_table_is_searched_on_some_rows_first(noise):
    rng = np.random.default_rng(3)
    X, labels = TABLES[noise](rng, 2100, 6)
    model = amofa.fit(X, noise=noise)
    check_ties(model, noise)
    assert model.n_components >= 3
    assert model.n_samples == len(X)
    assert amofa.metrics.normalized_information_distance(labels, model.predict(X)) < 0.7


def test_columns_that_follow_from_others_are_put_back(table, noise):
    X, _ = table
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    model, messages = warned(amofa.fit, X, noise=noise)
    assert len(messages) == 1
    check_model(model, X)
    assert model.n_components == 3


def test_any_skips_what_cannot_pay_or_is_not_there(table, noise, monkeypatch):
    X, _ = table
    assert amofa.fit(X, noise="any", tails="t").noise in ("component", "shared")
    assert amofa.fit(X[:, :1], noise="any", max_components=1).noise == "component"
    monkeypatch.setattr(tasks, "_MOST_ROWS_PER_COLUMN", 1)
    assert amofa.fit(X, noise="any").noise in ("component", "shared")


def test_what_is_refused(noise, rng):
    X = two_groups(rng)
    for options, pattern in (
        ({"tails": "t"}, "has tails='normal' alone; leave tails out"),
        ({"background": "uniform"}, "has background=None alone"),
        ({"n_factors": [1, 1]}, "n_factors must be one number with noise="),
    ):
        with pytest.raises(ValueError, match=pattern):
            amofa.fit(X, noise=noise, **options)
    with pytest.raises(ValueError, match="needs at least as many rows as columns, got 6 distinct rows and 9 columns"):
        amofa.fit(rng.standard_normal((6, 9)), noise=noise)
    with pytest.raises(ValueError, match="search='thorough'"):
        amofa.fit(X, noise=noise, search="paper")
    assert amofa.fit(rng.standard_normal((6, 9)), noise="any").noise in ("component", "shared")
