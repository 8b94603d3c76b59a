"""A mixture for each class: pooled covariances, the choice of pooling, parts, weights, options, errors."""

import warnings

import numpy as np
import pytest
from datasets import factor_analysers, gaussians
from reference import random_mixture

import amofa
from amofa import classes, pooling
from amofa.classes import class_parts, distinct_rows, fit_classes, load_classes
from amofa.pooling import ClassFit, Pooling, as_analyser, calibrated_loss, pooled_covariance, with_prior

FIXED = {"pooled_rows": 10, "single_weight": 1}


@pytest.fixture
def rows(rng):
    """Rows and classes: two that overlap, the second with two groups, and one apart."""
    X, groups = gaussians(rng, [50, 40, 30, 40], [(0, 0), (2, 1), (-3, 2), (6, -3)], [np.diag([1, 0.4])] * 4)
    return X, np.array([0, 1, 1, 2])[groups]


def posteriors(densities, priors):
    """Bayes' rule from densities (n, C)."""
    joint = densities * priors
    return joint / joint.sum(axis=1, keepdims=True)


# ---- what is found ---------------------------------------------------------------------------------------------------


def test_posteriors_are_bayes_rule_with_the_models(rows):
    X, y = rows
    for priors, expected in (
        ("uniform", [1 / 3] * 3),
        ("empirical", np.array([50, 70, 40]) / 160),
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
    ):
        found = fit_classes(X, y, priors=priors, **FIXED)
        densities = np.exp([model.score_samples(X) for model in found.models]).T
        np.testing.assert_allclose(np.exp(found.log_priors), expected)
        np.testing.assert_allclose(np.exp(found.log_posteriors(X)), posteriors(densities, np.array(expected)), 1e-9)
        np.testing.assert_array_equal(found.predict(X), found.log_posteriors(X).argmax(axis=1))


def test_classes_are_told_apart(rows):
    X, y = rows
    found = fit_classes(X, y)
    assert np.mean(found.predict(X) == y) > 0.9
    assert [fit.n for fit in found.fits] == [50, 70, 40]
    assert all(fit.single.n_components == 1 for fit in found.fits)
    assert found.fits[1].mixture.n_components == 2


def test_without_pooling_models_are_fits_of_the_rows_with_the_floor_of_all(rows):
    X, y = rows
    found = fit_classes(X, y, pooled_rows=0, single_weight=0, noise_floor=0.1)
    within = np.bincount(y) @ [X[y == c].var(axis=0) for c in range(len(found.models))] / len(X)
    for c, model in enumerate(found.models):
        alone = amofa.fit(X[y == c], criterion="aic", noise_floor=0.1 * within)
        np.testing.assert_allclose(model.score_samples(X), alone.score_samples(X), 1e-9)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_class_far_away_does_not_widen_the_others(rng, d):
    centres = np.concatenate([[np.zeros(d), np.eye(d)[0], -np.eye(d)[0]], np.full((1, d), 100.0)])
    X = np.concatenate([rng.normal(centre, 0.1, (60, d)) for centre in centres])
    proba = np.exp(fit_classes(X, np.repeat(range(4), 60)).log_posteriors(centres))
    assert proba.diagonal().min() > 0.999


@pytest.mark.parametrize(("d", "sd", "least"), [(2, 0.01, 0.998), (1, 0.001, 0.996)])
def test_a_narrow_class_keeps_its_width(rng, d, sd, least):
    def draw(n):
        return np.concatenate([rng.normal(0, 1, (n, d)), rng.normal(0, sd, (n, d))]), np.repeat([0, 1], n)

    X, y = draw(300)
    new, true = draw(2000)
    assert np.mean(fit_classes(X, y).predict(new) == true) > least


def test_a_class_may_be_narrow_in_one_column(rng):
    def draw(n):
        wide, narrow = rng.normal(0, 1, (n, 2)), rng.normal(0, (1, 0.01), (n, 2))
        return np.concatenate([wide, narrow]), np.repeat([0, 1], n)

    X, y = draw(300)
    new, true = draw(5000)
    assert np.mean(fit_classes(X, y).predict(new) == true) > 0.98
    # A column of one value may be so by coincidence.
    X[300:, 1] = 0.0
    model = fit_classes(X, y).models[1]
    assert model.uniquenesses[0, 1] > 0.01


@pytest.mark.parametrize(
    ("d", "n", "most"), [(1, 10, 0.04), (1, 60, 0.01), (2, 3, 0.03), (2, 60, 0.001), (5, 3, 0.001)]
)
def test_a_class_of_equal_rows_takes_no_rows_of_others(rng, d, n, most):
    def draw(n):
        return np.concatenate([rng.normal(0, 1, (n, d)), rng.normal(3, 1, (n, d))])

    X, y = np.concatenate([draw(100), np.full((n, d), 0.5)]), np.repeat([0, 1, 2], [100, 100, n])
    found = fit_classes(X, y)
    assert np.mean(found.predict(draw(1000)) == 2) <= most
    assert found.predict(np.full((1, d), 0.5)).tolist() == [2]


def test_a_column_may_vary_between_classes_only(rng):
    X, y = rng.normal(size=(90, 2)), np.repeat([0, 1, 2], 30)
    X[:, 1] = y
    np.testing.assert_array_equal(fit_classes(X, y).predict(X), y)


def test_noise_floor_may_be_variances(rows):
    X, y = rows
    floor = [2.0, 0.2]
    found = fit_classes(X, y, noise_floor=floor, pooled_rows=0, single_weight=1)
    for model in found.models:
        assert (model.uniquenesses >= np.array(floor) * (1 - 1e-12)).all()
    assert found.models[0].at_floor.any()


def test_single_weight_mixes_the_densities(rows):
    X, y = rows
    single, mixture, both = (fit_classes(X, y, pooled_rows=20, single_weight=w) for w in (1, 0, 0.25))
    for one, several, mixed in zip(single.models, mixture.models, both.models, strict=True):
        density = 0.25 * np.exp(one.score_samples(X)) + 0.75 * np.exp(several.score_samples(X))
        np.testing.assert_allclose(np.exp(mixed.score_samples(X)), density, 1e-9)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_do_not_matter(rows, scale):
    X, y = rows
    unit = np.array([scale, 1.0])
    found, scaled = fit_classes(X, y), fit_classes(X * unit + 3 * unit, y)
    assert scaled.pooling == found.pooling
    np.testing.assert_allclose(scaled.log_posteriors(X * unit + 3 * unit), found.log_posteriors(X), 1e-4, 1e-4)


def test_rows_beyond_all_numbers_get_the_priors(rows):
    X, y = rows
    found = fit_classes(X, y, priors=[0.2, 0.3, 0.5], **FIXED)
    log_posteriors = found.log_posteriors([[1e200, -1e200], [1e9, 1e9]])
    np.testing.assert_allclose(np.exp(log_posteriors[0]), [0.2, 0.3, 0.5])
    np.testing.assert_allclose(np.exp(log_posteriors).sum(axis=1), 1)
    # Logarithms where probabilities underflow.
    assert -np.inf < log_posteriors[1].min() < -1e9


def test_one_class(rows):
    X, _ = rows
    found = fit_classes(X, np.zeros(len(X), dtype=int))
    np.testing.assert_array_equal(found.log_posteriors(X), np.zeros((len(X), 1)))


def test_classes_of_one_row_borrow_their_covariance(rng):
    X = np.concatenate([rng.normal(0, [1, 5], (40, 2)), [[6.0, 0.0]]])
    found = fit_classes(X, np.repeat([0, 1], [40, 1]))
    np.testing.assert_array_equal(found.predict([[0, 0], [6, 3]]), [0, 1])
    assert found.models[1].covariance(0)[1, 1] > 5
    assert fit_classes([[0.0], [1.0]], [0, 1]).pooling == Pooling(10, 1)


def test_names_of_a_frame_are_kept(rows):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    found = fit_classes(pandas.DataFrame(X, columns=["a", "b"]), y, **FIXED)
    assert found.models[2].feature_names == ("a", "b")
    with pytest.raises(ValueError, match="order"):
        found.predict(pandas.DataFrame(X, columns=["b", "a"]))


# ---- pooled covariances ----------------------------------------------------------------------------------------------


def fits_of(rng, mixtures, counts):
    models = [
        amofa.MixtureOfFactorAnalyzers(p.weights, p.means, [c.loadings.T for c in p.components()], p.uniquenesses)
        for p in mixtures
    ]
    return models, [ClassFit(model, model, n) for model, n in zip(models, counts, strict=True)]


def test_prior_is_worth_its_rows(rng):
    counts = [30.0, 50.0]
    models, _ = fits_of(rng, [random_mixture(rng, 3, 4, 2), random_mixture(rng, 2, 4, 1)], counts)
    parts = [
        (n * w, model.covariance(k))
        for n, model in zip(counts, models, strict=True)
        for k, w in enumerate(model.weights)
    ]
    pooled = sum(n * covariance for n, covariance in parts) / 80
    np.testing.assert_allclose(pooled_covariance(models, counts), pooled, 1e-12)
    drawn = with_prior(models, counts, 7.0)
    found = [model.covariance(k) for model in drawn for k in range(model.n_components)]
    for (n, own), covariance in zip(parts, found, strict=True):
        np.testing.assert_allclose(covariance, (n * own + 7 * pooled) / (n + 7), 1e-9)
    assert with_prior(models, counts, 0.0) == models


def test_as_analyser_is_exact_in_all_units(rng):
    A = rng.normal(size=(5, 5))
    unit = np.array([1e-8, 1.0, 1e8, 3.0, 1e3])
    covariance = (A @ A.T + np.eye(5)) * np.outer(unit, unit)
    loadings, noise = as_analyser(covariance)
    assert (noise > 0).all()
    np.testing.assert_allclose(
        (loadings @ loadings.T + np.diag(noise)) / np.outer(unit, unit), covariance / np.outer(unit, unit), 1e-10, 1e-12
    )


def test_as_analyser_of_a_covariance_that_is_singular_but_for_rounding():
    loadings, noise = as_analyser(np.ones((3, 3)))
    assert np.isfinite(loadings).all()
    assert (noise > 0).all()
    np.testing.assert_allclose(loadings @ loadings.T + np.diag(noise), np.ones((3, 3)), atol=1e-14)


# ---- the choice of pooling -------------------------------------------------------------------------------------------


def test_loss_is_that_of_the_best_power(rng):
    D, y, w = rng.normal(size=(40, 3)) * 20, rng.integers(0, 3, 40), rng.uniform(0, 2, 40)
    log_priors = np.log([0.2, 0.3, 0.5])

    def loss(power):
        p = posteriors(np.exp(power * (D - D.max(axis=1, keepdims=True))), np.exp(log_priors))
        return -np.average(np.log(p[np.arange(40), y]), weights=w)

    powers = np.exp(np.linspace(-7, 2, 2000))
    expected = min(powers, key=loss)
    least, power = calibrated_loss(D, log_priors, y, w)
    assert least == pytest.approx(loss(expected), rel=1e-4)
    assert power == pytest.approx(expected, rel=1e-2)
    # A gain of less than a nat is none.
    assert calibrated_loss(D, log_priors, y, w / 1e6) == pytest.approx((least, 1.0))


def test_chosen_pooling_has_the_least_loss_of_held_out_rows(rows, monkeypatch):
    X, y = rows
    monkeypatch.setattr(pooling, "POOLED_ROWS", (0.0, 40.0))
    splits = [(np.arange(160) % 2 == part, np.arange(160) % 2 != part) for part in (0, 1)]
    losses = {}
    for candidate in (Pooling(n, w) for n in (0.0, 40.0) for w in (1.0, 0.5, 0.0)):
        parts = []
        for train, test in splits:
            fixed = fit_classes(X[train], y[train], pooled_rows=candidate.rows, single_weight=candidate.single)
            densities = np.stack([model.score_samples(X[test]) for model in fixed.models], axis=1)
            parts.append((densities, y[test]))
        D, held_out = (np.concatenate(part) for part in zip(*parts, strict=True))
        loss, power = calibrated_loss(D, np.log(np.full(3, 1 / 3)), held_out, np.ones(160))
        losses[candidate._replace(power=min(round(power, 3), 1.0))] = loss
    assert fit_classes(X, y, cv=splits).pooling == min(losses, key=losses.__getitem__)


def test_few_rows_of_the_same_shape_borrow_more_than_many_of_different_shapes(rng):
    covariance = np.diag(1 + np.arange(6.0))
    X, y = gaussians(rng, [15] * 6, np.eye(6) * 3, [covariance] * 6)
    assert fit_classes(X, y).pooling.rows >= 20
    shapes = [np.diag([100, 1, 1, 1, 1, 1]), np.diag([1, 1, 1, 1, 100, 1])]
    X, y = gaussians(rng, [300] * 2, np.zeros((2, 6)), shapes)
    assert fit_classes(X, y).pooling.rows <= 20


def test_what_is_given_is_kept_and_the_rest_chosen(rows):
    X, y = rows
    assert fit_classes(X, y, pooled_rows=3).pooling.rows == 3
    assert fit_classes(X, y, single_weight=0.3).pooling.single == 0.3
    assert fit_classes(X, y, pooled_rows=3, single_weight=0.3).pooling == Pooling(3, 0.3)


def test_probabilities_are_those_of_densities_to_a_power(rng):
    # Many columns that depend on each other in ways that the few rows do not show.
    X = np.concatenate([rng.normal(size=(25, 12)) ** 3, rng.normal(size=(25, 12)) ** 3 + 0.4])
    y = np.repeat([0, 1], 25)
    found = fit_classes(X, y)
    assert 0 < found.pooling.power < 0.9
    densities = np.stack([model.score_samples(X) for model in found.models], axis=1)
    expected = posteriors(np.exp(found.pooling.power * (densities - densities.max(axis=1, keepdims=True))), [0.5, 0.5])
    np.testing.assert_allclose(np.exp(found.log_posteriors(X)), expected, rtol=1e-9, atol=1e-12)
    plain = fit_classes(X, y, power=1)
    assert plain.pooling == found.pooling._replace(power=1.0)
    np.testing.assert_array_equal(plain.predict(X), found.predict(X))
    with pytest.raises(ValueError, match="power must be positive"):
        fit_classes(X, y, power=0)


def test_rows_that_are_all_right_do_not_make_probabilities_surer(rng):
    X, y = gaussians(rng, [40] * 2, [[0.0, 0.0], [30.0, 0.0]], [np.eye(2)] * 2)
    assert fit_classes(X, y).pooling.power == 1.0


def test_a_given_number_of_components_is_that_of_the_models(rows):
    X, y = rows
    found = fit_classes(X, y, n_components=2)
    assert found.pooling.single == 0
    assert [model.n_components for model in found.models] == [2, 2, 2]
    assert fit_classes(X, y, n_components=2, **FIXED).pooling.single == 1


def test_no_part_is_fitted_where_nothing_is_to_be_chosen(rows):
    X, y = rows
    calls = []

    def counting(function, tables):
        fits = [function(table) for table in tables]
        calls.append(len(fits))
        return fits

    fit_classes(X, y, apply=counting, **FIXED)
    fit_classes(X, y, apply=counting, cv=2)
    assert calls == [3, 9]


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_parts_are_runs_of_each_class():
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0])
    X = np.arange(11.0)[:, None]
    parts = class_parts(X, y, 2, 3)
    np.testing.assert_array_equal(parts[y == 0], [0, 0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(parts[y == 1], [0, 0, 1, 2])


def test_rows_that_are_the_same_are_in_one_part():
    X = np.array([0.0, 1, 0, 2, 1, 3, 4, 5, 0])[:, None]
    np.testing.assert_array_equal(distinct_rows(X), [0, 1, 0, 2, 1, 3, 4, 5, 0])
    np.testing.assert_array_equal(class_parts(X, np.zeros(9, dtype=int), 1, 3), [0, 0, 0, 1, 0, 1, 2, 2, 0])


def test_few_different_rows_are_always_trained_with():
    X = np.array([0.0, 0, 0, 1, 2, 3, 4])[:, None]
    y = np.array([0, 0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(class_parts(X, y, 2, 3), [-2, -2, -2, -2, 0, 1, 2])


def test_of_very_many_rows_some_take_part(monkeypatch):
    monkeypatch.setattr(classes, "MOST_ROWS", 4)
    parts = class_parts(np.arange(10.0)[:, None], np.zeros(10, dtype=int), 1, 2)
    np.testing.assert_array_equal(parts, [0, -1, -1, 0, -1, -1, 1, -1, -1, 1])


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_whole_weights_are_repeated_rows(rng, rows, search):
    X, y = rows
    weights = rng.integers(0, 3, len(y))
    options = {"priors": "empirical", "search": search}
    a = fit_classes(X, y, sample_weight=weights, **options)
    b = fit_classes(X.repeat(weights, axis=0), y.repeat(weights), **options)
    assert a.pooling == b.pooling
    np.testing.assert_allclose(a.log_posteriors(X), b.log_posteriors(X), 1e-8, 1e-8)


def test_rows_of_weight_0_are_absent_from_given_splits_too(rng, rows):
    X, y = rows
    kept = rng.permutation(len(y)) < 120
    splits = [
        (np.flatnonzero(np.arange(160) % 3 != part), np.flatnonzero(np.arange(160) % 3 == part)) for part in (0, 1)
    ]
    numbers = np.cumsum(kept) - 1
    own = [tuple(numbers[some[kept[some]]] for some in split) for split in splits]
    a = fit_classes(np.where(kept[:, None], X, 99), y, sample_weight=kept.astype(float), cv=splits)
    b = fit_classes(X[kept], y[kept], cv=own)
    assert a.pooling == b.pooling
    np.testing.assert_allclose(a.log_posteriors(X), b.log_posteriors(X), 1e-8, 1e-8)


# ---- interrupts ------------------------------------------------------------------------------------------------------


def test_an_interrupt_has_no_model_of_one_class(rows):
    X, y = rows
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="the fit of the classes was interrupted") as caught:
        fit_classes(X, y, callback=interrupt, **FIXED)
    assert type(caught.value) is KeyboardInterrupt


# ---- options, warnings, errors ---------------------------------------------------------------------------------------


def test_options_reach_the_fits(rng):
    X, y = factor_analysers(rng, 4, [2, 1], [60, 60], distance=3)
    found = fit_classes(X, y, n_components=2, n_factors=[1, 0], noise="shared", max_iter=500, **FIXED)
    for fit in found.fits:
        assert fit.mixture.n_factors.tolist() == [1, 0]
        np.testing.assert_array_equal(fit.mixture.uniquenesses[0], fit.mixture.uniquenesses[1])
    assert fit_classes(X, y, max_factors=0, **FIXED).fits[0].single.n_factors.tolist() == [0]
    assert fit_classes(X, y, n_factors=1, **FIXED).fits[1].single.n_factors.tolist() == [1]
    assert fit_classes(X, y, search="paper", criterion="bic", **FIXED).fits[0].single.criterion == "bic"


def test_warns_of_what_can_be_mended_alone(rows):
    X, y = rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Constant in one class is not constant.
        fit_classes(np.column_stack([X, y == 0]), y, **FIXED)
    with pytest.warns(amofa.AmofaWarning, match="1 of 3 columns of X are constant"):
        fit_classes(np.column_stack([X, np.ones(len(y))]), y, **FIXED)
    with pytest.warns(amofa.AmofaWarning, match="fewer than 2 components can be told apart: classes 1$"):
        fit_classes([[0.0], [1], [2], [50], [51], [52], [2], [2]], [0] * 6 + [1] * 2, n_components=2, **FIXED)


def test_warns_of_no_convergence(rows, monkeypatch):
    X, y = rows
    monkeypatch.setattr("amofa._search.default.REFINEMENT", 1)
    with pytest.warns(amofa.AmofaWarning, match="not converge; allow more by max_iter or max_time: classes 0, 1, 2$"):
        fit_classes(X, y, max_iter=1, **FIXED)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("y", [0.0] * 160, TypeError, "y must hold whole numbers from 0, got dtype float64"),
        ("y", [0] * 159, ValueError, "y has shape .159,., but X has 160 rows"),
        ("y", [-1] * 160, ValueError, "y must hold whole numbers from 0, got -1"),
        ("y", [2] * 160, ValueError, "class 0 has no rows"),
        ("sample_weight", [-1] * 160, ValueError, "sample_weight must be finite"),
        ("priors", "equal", ValueError, "priors must be 'uniform', 'empirical' or 3 probabilities, got 'equal'"),
        ("priors", [0.5, 0.5], ValueError, "priors has shape .2,.; pass one probability for each of 3 classes"),
        ("priors", [0.5, 0.5, 0], ValueError, "priors must be positive numbers of sum 1"),
        ("priors", [0.5, 0.5, np.nan], ValueError, "priors must be positive numbers of sum 1"),
        ("priors", [0.5, 0.5, 0.5], ValueError, "priors must be positive numbers of sum 1"),
        ("priors", ["a", "b", "c"], TypeError, "priors must be"),
        ("noise_floor", 0, ValueError, "noise_floor must be positive"),
        ("pooled_rows", -1, ValueError, "pooled_rows must not be negative, got -1"),
        ("single_weight", 1.5, ValueError, "single_weight must be from 0 to 1, got 1.5"),
        ("cv", 1, ValueError, "cv must be at least 2"),
        ("cv", 2.5, TypeError, "cv must be a whole number"),
        ("cv", [(range(50), range(50, 160))], ValueError, "cv trains without rows of class 1"),
        ("cv", [], ValueError, "cv holds out no row"),
        ("cv", [(range(160), [])], ValueError, "cv holds out no row"),
        ("cv", [(range(160), [160])], ValueError, "cv has row 160, but rows are numbered from 0 to 159"),
        ("cv", [(range(160), [-1])], ValueError, "cv has row -1"),
        ("cv", [(range(160), [0.5])], TypeError, "cv must give numbers of rows, or masks"),
        ("cv", [([True] * 159, [0])], ValueError, "cv has a mask of 159 rows, but X has 160"),
        ("cv", [range(160)], TypeError, "cv must be a whole number or give pairs"),
        ("cv", "ab", TypeError, "cv must be a whole number or give pairs"),
        ("search", "fast", ValueError, "search must be one of"),
    ],
)
def test_wrong_arguments(rows, name, value, error, message):
    X, y = rows
    with pytest.raises(error, match=message):
        fit_classes(X, **{"y": y, name: value})


def test_a_checkpoint_is_of_one_fit(rng, tmp_path):
    with pytest.raises(TypeError, match="checkpoint is for a single fit"):
        fit_classes(rng.standard_normal((20, 2)), np.arange(20) % 2, checkpoint=tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_time_is_that_of_each_fit(rng):
    x = np.concatenate([rng.normal(m, 1, (60, 2)) for m in (0, 8, 4)])
    with pytest.warns(amofa.AmofaWarning, match="did not converge; allow more by max_iter or max_time: classes 0, 1$"):
        classes = fit_classes(x, np.repeat([0, 1], [120, 60]), max_time=1e-9)
    assert [fit.mixture.n_components for fit in classes.fits] == [1, 1]


# ---- files -----------------------------------------------------------------------------------------------------------


def test_classes_in_a_file_are_the_same(rows, tmp_path):
    X, y = rows
    found = fit_classes(X, y, pooled_rows=5, single_weight=0.5)
    found.save(tmp_path / "classes.npz", names=[f"class {c}" for c in range(len(found.models))])
    again = load_classes(tmp_path / "classes.npz")
    with pytest.raises(ValueError, match="it holds the models of a classifier; `amofa predict`"):
        amofa.load(tmp_path / "classes.npz")
    np.testing.assert_array_equal(again.log_posteriors(X), found.log_posteriors(X))
    assert again.pooling == found.pooling
    assert again.names[0] == "class 0"
    assert again.fits == ()
    found.save(tmp_path / "classes.npz")
    assert load_classes(tmp_path / "classes.npz").names is None
    # As it was written before there was a power.
    with np.load(tmp_path / "classes.npz") as file:
        arrays = dict(file) | {"pooling": np.array(found.pooling[:2])}
    np.savez(tmp_path / "old.npz", **arrays)
    assert load_classes(tmp_path / "old.npz").pooling == found.pooling
    with pytest.raises(ValueError, match="names has 1 entries for"):
        found.save(tmp_path / "classes.npz", names=["a"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", np.array("amofa.MixtureOfFactorAnalyzers")),
        ("version", np.array(2)),
        ("log_priors", np.zeros(2)),
        ("pooling", None),
        ("pooling", np.zeros(4)),
        ("names", np.array(["a"])),
        ("x/means", np.zeros((1, 1))),
        ("7/means", np.zeros((1, 1))),
        ("0/means", np.zeros((1, 2))),
    ],
)
def test_files_that_are_not_of_classes_are_refused(tmp_path, name, value):
    X = np.array([[0.0], [1.0], [8.0], [9.0]])
    fit_classes(X, np.array([0, 0, 1, 1])).save(tmp_path / "classes.npz")
    with np.load(tmp_path / "classes.npz") as file:
        arrays = {key: file[key] for key in file} | {name: value}
    np.savez(tmp_path / "classes.npz", **{key: array for key, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match="does not hold models of classes that amofa can read"):
        load_classes(tmp_path / "classes.npz")
