"""fit(): forms of the same data, noise floor, convergence, and what its answer says."""

import pickle

import datasets
import numpy as np
import pytest
from fits import NOISES, check_model, check_same, collinear, peak_memory, two_groups, warned

import amofa
from amofa._data import row_chunks

# ---- forms of the same data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.copy, np.asfortranarray, lambda X: X.astype(">f4"), lambda X: (9 * X).astype(int)])
def test_the_table_is_not_modified(rng, search, form):
    X = form(two_groups(rng))
    w = rng.integers(0, 3, len(X)).astype(float)
    before, weights_before = X.tobytes(), w.tobytes()
    model = amofa.fit(X, search=search, sample_weight=w)
    model.predict(X)
    assert X.tobytes() == before
    assert w.tobytes() == weights_before
    assert not np.shares_memory(X, model.means)


def test_larger_than_what_is_kept_in_memory(rng, search, monkeypatch):
    """Many values are read anew in every pass, in more than one chunk."""
    monkeypatch.setattr(row_chunks, "_CACHE_VALUES", row_chunks._CACHE_VALUES // 4)
    X, labels = datasets.factor_analysers(rng, 8, [0, 0], [25_000, 12_500], distance=5)
    model = amofa.fit(X.astype(np.float32), search=search, max_components=2, max_factors=1)
    assert model.n_components == 2
    assert (model.predict(X) == labels).mean() > 0.999
    assert model.log_likelihood == pytest.approx(model.score_samples(X.astype(np.float32)).sum(), rel=1e-10)


def test_constant_columns_are_drawn_as_they_are(rng, tmp_path):
    X = np.column_stack([rng.normal(size=(80, 2)), np.full(80, 7.25), np.full(80, 1e9 / 3)])
    X[40:, :2] += 9
    for search in ("thorough", "paper"):
        with pytest.warns(amofa.AmofaWarning, match="constant"):
            model = amofa.fit(X, search=search)
        model.save(tmp_path / "model.npz")
        for one in (model, amofa.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
            rows, _ = one.sample(50, random_state=0)
            np.testing.assert_allclose(rows[:, 2:], X[:50, 2:], rtol=1e-14)
            assert (rows[:, :2].std(axis=0) > 0.5).all()


# ---- noise floor -----------------------------------------------------------------------------------------------------


def test_a_noise_floor_is_a_share_of_each_columns_variance(rng, search):
    X = collinear(rng) * [1.0, 1e-3, 1e3, 1.0] + [0.0, 5.0, 1e6, 0.0]
    model = amofa.fit(X, search=search, noise_floor=0.05)
    floor = 0.05 * X.var(axis=0)
    assert (model.uniquenesses >= floor * (1 - 1e-9)).all()
    np.testing.assert_array_equal(model.at_floor, model.uniquenesses <= floor * (1 + 1e-6))
    assert model.at_floor.any()


def test_the_default_noise_floor(rng, search):
    X = collinear(rng)
    options = {"search": search, "max_factors": 3}
    check_same(amofa.fit(X, **options), amofa.fit(X, noise_floor=1e-4, **options))


def test_a_noise_floor_of_each_column_is_a_variance(rng, search):
    X = two_groups(rng) * [1.0, 1e3, 1e-3]
    floor = np.array([0.5, 1e7, 1e-9])
    model = amofa.fit(X, search=search, noise_floor=floor, criterion="bic")
    assert (model.uniquenesses >= floor * (1 - 1e-9)).all()
    np.testing.assert_array_equal(model.at_floor[:, 1], True)
    np.testing.assert_allclose(model.uniquenesses[:, 1], 1e7, rtol=1e-9)
    np.testing.assert_array_equal(model.at_floor[:, 2], False)


def test_a_noise_floor_of_each_column_holds_for_constant_columns(rng, search):
    X = np.column_stack([rng.standard_normal(50), np.ones(50)])
    model, _ = warned(amofa.fit, X, search=search, noise_floor=[0.1, 0.7])
    np.testing.assert_allclose(model.uniquenesses[:, 1], 0.7)


# ---- convergence -----------------------------------------------------------------------------------------------------


def test_em_that_does_not_converge_is_told(rng, search):
    """Two overlapping groups, a tolerance that is next to nothing, and few iterations."""
    X, _ = datasets.gaussians(rng, [300, 100], [(0.0, 0.0), (1.5, 1.5)], [np.eye(2)] * 2)
    model, messages = warned(amofa.fit, X, search=search, tol=1e-13, max_iter=1, n_components=2, n_factors=0)
    assert messages == ["EM of the chosen model did not converge within 20 x max_iter=1 iterations; allow more"]
    assert not model.converged
    check_model(model, X)


# ---- the answer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("criterion", [None, "mml", "bic", "aic", "icl"])
def test_the_model_reports_its_fit(rng, search, criterion, weighted):
    X = two_groups(rng)
    w = rng.uniform(0, 2, len(X)) if weighted else None
    model = amofa.fit(X, search=search, criterion=criterion, sample_weight=w)
    total = len(X) if w is None else w.sum()
    assert model.criterion == (criterion or {"thorough": "evidence", "paper": "mml"}[search])
    assert model.n_samples == pytest.approx(total, rel=1e-14)
    assert model.log_likelihood == pytest.approx(total * model.score(X, w), rel=1e-12)
    assert model.converged
    assert model.cost in [step.cost for step in model.history if step.accepted]
    assert isinstance(model.history, tuple)
    assert model.history[0].action == "start"


@pytest.mark.parametrize("noise", NOISES)
def test_the_models_bic_is_the_searchs(rng, noise):
    X, _ = datasets.factor_analysers(rng, 4, (1, 1), (150, 100))
    model = amofa.fit(X, criterion="bic", noise=noise, prior_rows=0)
    assert model.bic(X) / 2 == pytest.approx(model.cost, rel=1e-9)
    assert f" {model.n_parameters} free parameters" in model.summary()


def test_components_come_by_falling_weight(rng, search):
    X, _ = datasets.factor_analysers(rng, 2, [0] * 4, [50, 200, 100, 150], distance=9)
    model = amofa.fit(X, search=search, n_components=4)
    assert (np.diff(model.weights) <= 0).all()


def test_components_of_equal_weight_come_by_rising_mean(search):
    """A mirror image of itself, of two halves of exactly the same weight."""
    half = np.random.default_rng(3).standard_normal((100, 2)) + 9
    model = amofa.fit(np.concatenate([half, -half]), search=search, n_components=2, n_factors=0)
    np.testing.assert_allclose(model.weights, 0.5, rtol=1e-12)
    if model.weights[0] == model.weights[1]:
        assert model.means[0, 0] < model.means[1, 0]


def test_factors_come_in_canonical_form(rng, search):
    """Lambda' Psi^-1 Lambda is diagonal and falling; the largest scaled loading of each factor is positive."""
    X, _ = datasets.factor_analysers(rng, 8, [3, 2], [400, 300], distance=8)
    model = amofa.fit(X, search=search, n_components=2, n_factors=[3, 2])
    for loadings, noise in zip(model.loadings, model.uniquenesses, strict=True):
        scaled = loadings / np.sqrt(noise)[:, None]
        gram = scaled.T @ scaled
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9 * gram.max())
        assert (np.diff(np.diag(gram)) <= 0).all()
        assert (scaled.max(axis=0) >= -scaled.min(axis=0)).all()


def test_a_fit_leaves_numpys_settings_alone(rng, search):
    state, errors = np.random.get_state()[1].copy(), np.geterr()  # noqa: NPY002
    amofa.fit(two_groups(rng), search=search)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert np.geterr() == errors


def test_wide_tables_need_no_square_of_the_columns():
    """Two groups that overlap in each of 1500 columns: a (d, d) array alone would take 18 MB."""
    rng = np.random.default_rng(0)
    d, group = 1500, np.arange(36) % 2
    X = rng.normal(size=(36, d)) + 0.7 * group[:, None] + rng.normal(size=(36, 1)) * rng.normal(size=d)
    with peak_memory() as peak:
        model = amofa.fit(X, search="paper")
    check_model(model, X)
    assert peak[0] < 8 * d * d
