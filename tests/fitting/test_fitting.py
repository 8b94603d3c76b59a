"""fit(): forms of the same data, noise floor, convergence, and what its answer says."""

from __future__ import annotations

import datasets
import numpy as np
import pytest
from fits import NOISES, check_model, check_same, collinear, peak_memory, two_groups, warned

import amofa

# ---- forms of the same data ------------------------------------------------------------------------------------------


def as_read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


FORMS = {
    "list": lambda X: X.tolist(),
    "float32": lambda X: X.astype(np.float32),
    "big-endian": lambda X: X.astype(">f8"),
    "big-endian float32": lambda X: X.astype(">f4"),
    "long double": lambda X: X.astype(np.longdouble),
    "object": lambda X: X.astype(object),
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "mirrored view": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": as_read_only,
}


@pytest.fixture
def coarse(rng):
    """Rows that single precision holds exactly."""
    return two_groups(rng).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_table_changes_no_bit(rng, coarse, search, form, weighted):
    options = {"search": search, "sample_weight": rng.uniform(0, 2, len(coarse)) if weighted else None}
    check_same(amofa.fit(FORMS[form](coarse), **options), amofa.fit(coarse, **options))


@pytest.mark.filterwarnings("ignore:EM of the chosen model did not converge:amofa.AmofaWarning")
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, ">i4", np.bool_])
def test_whole_numbers_are_as_good_as_floats(rng, dtype):
    X = (two_groups(rng, n=100) * 8 + 40).clip(0, 127).round()
    X = (X > 64 if dtype is np.bool_ else X).astype(dtype)
    check_same(amofa.fit(X), amofa.fit(X.astype(np.float64)))


@pytest.mark.parametrize("form", ["float64", "float32", "big-endian", "Fortran", "strided", "int64"])
def test_the_table_is_not_modified(rng, search, form):
    X = {**FORMS, "float64": np.copy, "int64": lambda X: (9 * X).astype(int)}[form](two_groups(rng))
    X.flags.writeable = True
    w = rng.integers(0, 3, len(X)).astype(float)
    before, weights_before = X.tobytes(), w.tobytes()
    model = amofa.fit(X, search=search, sample_weight=w)
    model.predict(X)
    assert X.tobytes() == before
    assert w.tobytes() == weights_before
    assert not np.shares_memory(X, model.means)


def test_larger_than_what_is_kept_in_memory(rng, search):
    """More than a million values are read anew in every pass, in more than one chunk."""
    X, labels = datasets.factor_analysers(rng, 8, [0, 0], [100_000, 50_000], distance=5)
    model = amofa.fit(X.astype(np.float32), search=search, max_components=2, max_factors=1)
    assert model.n_components == 2
    assert (model.predict(X) == labels).mean() > 0.999
    assert model.log_likelihood == pytest.approx(model.score_samples(X.astype(np.float32)).sum(), rel=1e-10)


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
    check_same(amofa.fit(X, search=search), amofa.fit(X, search=search, noise_floor=1e-4))


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


def test_a_tighter_tolerance_changes_little(rng, search):
    """Two overlapping groups of 300 and 100 rows: the weights are those of a tolerance ten times tighter."""
    # With a prior it is not the likelihood that EM raises.
    no_prior = {"prior_rows": 0} if search == "thorough" else {}
    X, _ = datasets.gaussians(rng, [300, 100], [(0.0, 0.0), (2.5, 2.5)], [np.eye(2)] * 2)
    loose, tight = (
        amofa.fit(X, search=search, n_components=2, n_factors=0, tol=tol, max_iter=1000, **no_prior)
        for tol in (1e-5, 1e-6)
    )
    np.testing.assert_allclose(loose.weights, tight.weights, atol=0.03)
    assert (loose.predict(X) == tight.predict(X)).mean() > 0.98
    assert 0 <= tight.log_likelihood - loose.log_likelihood + 1e-9 < 1e-3 * len(X)


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
    assert isinstance(model.history, tuple)
    assert model.history[0].action == "start"


@pytest.mark.parametrize("noise", NOISES)
def test_the_models_bic_is_the_searchs(rng, noise):
    X, _ = datasets.factor_analysers(rng, 4, (1, 1), (150, 100))
    model = amofa.fit(X, criterion="bic", noise=noise, prior_rows=0)
    assert model.bic(X) / 2 == pytest.approx(model.history[-1].cost, rel=1e-9)
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


@pytest.mark.parametrize("options", [{}, {"criterion": "icl"}, {"n_components": 3}, {"n_factors": 1}])
def test_two_fits_are_equal_to_the_last_bit(rng, search, options):
    X, _ = datasets.example_2(rng)
    check_same(amofa.fit(X, search=search, **options), amofa.fit(X, search=search, **options))


def test_a_fit_leaves_numpys_settings_alone(rng, search):
    state, errors = np.random.get_state()[1].copy(), np.geterr()  # noqa: NPY002
    amofa.fit(two_groups(rng), search=search)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert np.geterr() == errors


def test_components_asked_for_have_rows_and_differ(rng, search):
    """More components than can be told apart are asked for: what comes has rows of its own, and a warning says so."""
    two_points = np.repeat(rng.standard_normal((2, 3)), 500, axis=0)
    few_rows = rng.standard_normal((12, 3))
    for X, asked, most in ((two_points, 5, 2), (few_rows, 40, 12)):
        model, messages = warned(amofa.fit, X, search=search, n_components=asked)
        assert 1 < model.n_components <= most
        assert (model.weights * len(X) > 0.4).all()
        assert len(np.unique(model.means.round(5), axis=0)) == model.n_components
        assert any(f"{asked} components were asked for" in message for message in messages)


def test_wide_tables_need_no_square_of_the_columns():
    """Two groups that overlap in each of 1500 columns: a (d, d) array alone would take 18 MB."""
    rng = np.random.default_rng(0)
    d, group = 1500, np.arange(36) % 2
    X = rng.normal(size=(36, d)) + 0.7 * group[:, None] + rng.normal(size=(36, 1)) * rng.normal(size=d)
    with peak_memory() as peak:
        model = amofa.fit(X, search="paper")
    check_model(model, X)
    assert peak[0] < 8 * d * d
