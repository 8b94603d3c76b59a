"""Rows with missing cells, imputation: against dense algebra with full covariance matrices."""

import numpy as np
import pytest
from conditional_helpers import METHODS, NAN, dense_log_joint, dense_moments, model_of, shapes, with_gaps
from fits import peak_memory
from reference import covariance, random_mixture, random_rows
from scipy.special import logsumexp
from scipy.stats import chi2, ks_2samp

import amofa
from amofa._model import missing_data
from amofa._model.conditional import conditional_moments
from amofa.mixture import MixtureOfFactorAnalyzers
from amofa.threads import use_threads

# ---- rows with missing cells -----------------------------------------------------------------------------------------


@shapes
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_missing_cells_are_marginalised(dtype, K, d, p, rng):
    parameters = random_mixture(rng, K, d, p)
    model = model_of(parameters)
    X = with_gaps(rng, random_rows(rng, parameters, 60)).astype(dtype)
    log_joint = np.array([dense_log_joint(parameters, row) for row in X.astype(float)])
    log_density = logsumexp(log_joint, axis=1)
    proba = np.exp(log_joint - log_density[:, None])
    np.testing.assert_allclose(model.score_samples(X), log_density, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), proba, rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    assert model.score(X) == pytest.approx(log_density.mean(), rel=1e-10)
    Z = model.transform(X)
    for k, (scores, c) in enumerate(zip(model.factor_scores(X), parameters.components(), strict=True)):
        for row, found in zip(X.astype(float), scores, strict=True):
            o = ~np.isnan(row)
            sigma = covariance(c)[np.ix_(o, o)]
            expected = c.loadings[:, o] @ np.linalg.solve(sigma, row[o] - c.mean[o])
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)
        own = Z[:, K + sum(p[:k]) : K + sum(p[: k + 1])]
        np.testing.assert_allclose(own, proba[:, [k]] * scores, rtol=1e-9, atol=1e-12)


def test_an_empty_row_has_the_mixing_weights_and_density_one(rng):
    model = model_of(random_mixture(rng, 3, 4, (0, 1, 2)))
    X = np.full((2, 4), NAN)
    np.testing.assert_array_equal(model.predict_proba(X), [model.weights] * 2)
    np.testing.assert_array_equal(model.score_samples(X), 0)
    np.testing.assert_array_equal(model.predict(X), model.weights.argmax())
    assert all((scores == 0).all() for scores in model.factor_scores(X))
    assert model.score(X) == model.bic(X) - model.n_parameters * np.log(2) == 0


def test_whole_rows_are_what_they_are_without_others(rng):
    parameters = random_mixture(rng, 3, 6, 2)
    model, X = model_of(parameters), random_rows(rng, parameters, 500)
    gaps = with_gaps(rng, X, share=0.05)
    whole = ~np.isnan(gaps).any(axis=1)
    assert 100 < whole.sum() < 450
    for name in METHODS:
        method = getattr(model, name)
        np.testing.assert_array_equal(method(gaps)[whole], method(gaps[whole]))


def test_batches_and_layouts_do_not_matter(rng, monkeypatch, tmp_path):
    parameters = random_mixture(rng, 3, 5, 2)
    model, X = model_of(parameters), with_gaps(rng, random_rows(rng, parameters, 300))
    mapped = np.memmap(tmp_path / "rows", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    objects = X.astype(object)
    objects[np.isnan(X)] = None
    expected = {name: getattr(model, name)(X) for name in (*METHODS, "impute")}
    for table in (X.tolist(), np.asfortranarray(X), X.astype(">f8"), mapped, objects, np.repeat(X, 2, axis=0)[::2]):
        for name, values in expected.items():
            np.testing.assert_array_equal(getattr(model, name)(table), values)
    monkeypatch.setattr(missing_data, "_BATCH_CELLS", 64)
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(model, name)(X), values, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["score", "bic", "aic", "icl"])
def test_weights_are_repetitions(name, rng):
    parameters = random_mixture(rng, 3, 4, (0, 1, 2))
    method = getattr(model_of(parameters), name)
    X, weights = with_gaps(rng, random_rows(rng, parameters, 60), share=0.2), rng.integers(0, 4, 60)
    X[-1] = X[0]
    expected = method(np.repeat(X, weights, axis=0))
    assert method(X, sample_weight=weights) == pytest.approx(expected, rel=1e-12)
    X[weights == 0] = 1e200  # of density 0, or partly so
    X[weights == 0, 1] = NAN
    assert method(X, sample_weight=weights) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("distance", [1e6, 1e100, 1e200, 1e300])
def test_far_rows_are_never_nan(distance, rng):
    model = model_of(random_mixture(rng, 3, 5, (0, 1, 2)))
    X = with_gaps(rng, distance * rng.standard_normal((50, 5)), share=0.3)
    for name in (*METHODS, "score", "impute"):
        assert not np.isnan(getattr(model, name)(X)).any(), name
    assert not np.isnan(model.impute(X, draws=True, random_state=0)).any()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-14)
    assert np.isfinite(model.score_samples(X)).all() == (distance < 1e150)


def test_ill_conditioned_components(rng):
    """Loadings a million times the noise: as of the model made of the observed columns alone."""
    loadings = 1e3 * rng.standard_normal((8, 3))
    arrays = [1.0], np.zeros((1, 8)), [loadings], np.full((1, 8), 1e-6)
    model = MixtureOfFactorAnalyzers(*arrays)
    X = rng.standard_normal((40, 3)) @ loadings.T + 1e-3 * rng.standard_normal((40, 8))
    X[:, [2, 5]] = NAN
    kept = [0, 1, 3, 4, 6, 7]
    log_density = model.score_samples(X)
    # By the factors as coordinates: least squares of the row on the loadings, and what is left of it.
    A = loadings[kept]
    z = np.linalg.lstsq(A, X[:, kept].T, rcond=None)[0]
    left = ((X[:, kept].T - A @ z) ** 2).sum(axis=0) / 1e-6
    log_determinant = 6 * np.log(1e-6) + 2 * np.log(np.linalg.svd(A / 1e-3)[1]).sum()
    expected = -0.5 * (6 * np.log(2 * np.pi) + log_determinant + left + (z**2).sum(axis=0))
    np.testing.assert_allclose(log_density, expected, rtol=1e-8)
    np.testing.assert_allclose(model.factor_scores(X)[0], z.T, rtol=1e-8)


def test_what_is_no_missing_cell_is_still_refused(rng):
    model = model_of(random_mixture(rng, 2, 3, 1))
    for name in (*METHODS, "score", "bic", "impute", "factor_scores"):
        with pytest.raises(
            ValueError, match=r"X has 2 values that are infinite, the first in row 0, column 2 .* put NaN"
        ):
            getattr(model, name)([[NAN, 0, np.inf], [-np.inf, NAN, 0]])


def test_masked_values_are_missing_cells(rng):
    model = model_of(random_mixture(rng, 2, 3, 1))
    masked = np.ma.masked_equal([[1, 2, 3], [4, 5, 6]], 2)
    for name in (*METHODS, "score", "bic", "impute"):
        np.testing.assert_array_equal(getattr(model, name)(masked), getattr(model, name)([[1, NAN, 3], [4, 5, 6]]))


def test_a_model_of_a_table_with_missing_cells_fills_it(rng):
    X = rng.standard_normal((50, 3))
    X[3, 1] = NAN
    assert np.isfinite(amofa.fit(X).impute(X)).all()


# ---- imputation ------------------------------------------------------------------------------------------------------


@shapes
def test_imputed_means(K, d, p, rng):
    parameters = random_mixture(rng, K, d, p)
    X = with_gaps(rng, random_rows(rng, parameters, 50))
    before = X.copy()
    filled = model_of(parameters).impute(X)
    np.testing.assert_array_equal(X, before)
    observed = ~np.isnan(X)
    np.testing.assert_array_equal(filled[observed], X[observed])
    for row, whole in zip(X, filled, strict=True):
        expected = dense_moments(parameters, row)[0]
        np.testing.assert_allclose(whole[np.isnan(row)], expected, rtol=1e-10, atol=1e-11)


def test_imputing_a_whole_table_copies_it(rng):
    X = rng.standard_normal((5, 3), dtype=np.float32)
    filled = model_of(random_mixture(rng, 2, 3, 1)).impute(X)
    assert filled.dtype == np.float64
    np.testing.assert_array_equal(filled, X)
    assert not np.shares_memory(filled, X)


def test_tables_of_some_columns(rng):
    parameters = random_mixture(rng, 3, 5, 2)
    model = model_of(parameters, ("a", "b", "c", "d", "e"))
    X = random_rows(rng, parameters, 30)
    X[3, 4] = NAN
    gaps = np.full((30, 5), NAN)
    gaps[:, [4, 1]] = X[:, [4, 1]]
    expected = model.impute(gaps)
    np.testing.assert_array_equal(model.impute(X[:, [4, 1]], known_columns=[4, 1]), expected)
    np.testing.assert_array_equal(model.impute(X[:, [4, 1]], known_columns=["e", "b"]), expected)
    with pytest.raises(ValueError, match="X has 3 columns, but known_columns has 2"):
        model.impute(X[:, :3], known_columns=[4, 1])
    with pytest.raises(ValueError, match="X has 3 columns, but the model was made for 5"):
        model.impute(X[:, :3])


def test_draws_have_the_conditional_moments(rng):
    parameters = random_mixture(rng, 3, 4, (0, 1, 2), spread=1.0)
    row = random_rows(rng, parameters, 1)[0]
    row[[0, 2, 3]] = NAN
    n = 40_000
    drawn = model_of(parameters).impute(np.tile(row, (n, 1)), draws=True, random_state=rng)
    np.testing.assert_array_equal(drawn[:, 1], row[1])
    mean, full = dense_moments(parameters, row)
    errors = drawn[:, [0, 2, 3]] - mean
    assert n * errors.mean(axis=0) @ np.linalg.solve(full, errors.mean(axis=0)) < chi2.isf(1e-6, 3)
    products = np.einsum("ni,nj->nij", errors, errors)
    assert (np.abs(products.mean(axis=0) - full) < 6 * products.std(axis=0) / np.sqrt(n)).all()
    # The whole distribution, not only two moments: log densities under the conditional mixture.
    given = model_of(parameters).condition([1], row[[1]])
    of_draws, of_samples = given.score_samples(drawn[:, [0, 2, 3]]), given.score_samples(given.sample(n, rng)[0])
    assert ks_2samp(of_draws, of_samples).pvalue > 1e-6


def test_draws_of_empty_rows_are_of_the_mixture(rng):
    model = model_of(random_mixture(rng, 3, 3, (0, 1, 2)))
    n = 20_000
    of_draws = model.score_samples(model.impute(np.full((n, 3), NAN), draws=True, random_state=rng))
    assert ks_2samp(of_draws, model.score_samples(model.sample(n, rng)[0])).pvalue > 1e-6


def test_random_state_of_draws(rng):
    parameters = random_mixture(rng, 2, 4, 1)
    model, X = model_of(parameters), with_gaps(rng, random_rows(rng, parameters, 20))

    def draw(state):
        return model.impute(X, draws=True, random_state=state)

    np.testing.assert_array_equal(draw(5), draw(5))
    np.testing.assert_array_equal(draw(5), draw(np.random.default_rng(5)))
    np.testing.assert_array_equal(draw(np.random.RandomState(3)), draw(np.random.RandomState(3)))
    assert (draw(None) != draw(None)).any()
    with pytest.raises(ValueError, match="random_state is for draws; pass draws=True"):
        model.impute(X, random_state=5)


def test_threads_change_nothing(rng):
    parameters = random_mixture(rng, 6, 8, 3)
    model, X = model_of(parameters), random_rows(rng, parameters, 40_000)
    X[::2, :3] = NAN
    X[::5, 6] = NAN
    X[::11, 2:] = NAN

    def everything():
        moments = conditional_moments(parameters, np.arange(5), np.arange(5, 8), X[:, :5])
        draws = model.impute(X, draws=True, random_state=0)
        return [
            model.score(X),
            model.icl(X),
            *moments,
            draws,
            *(getattr(model, name)(X) for name in (*METHODS, "impute")),
        ]

    with use_threads(1):
        alone = everything()
    with use_threads(3):
        shared = everything()
    for a, b in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(a, b)


def test_memory_beyond_the_output_does_not_grow_with_the_rows(rng):
    model = model_of(random_mixture(rng, 2, 4, 1))
    X = rng.standard_normal((1_000_000, 4), dtype=np.float32)
    X[::3, 2] = X[::7] = NAN
    with peak_memory() as peak:
        labels = model.predict(X)
    assert peak[0] - labels.nbytes < X.nbytes  # a float64 copy would be twice that
