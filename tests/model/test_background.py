"""Models with a background: densities, probabilities, conditional mixtures, draws, files, pictures."""

import copy
import pickle

import matplotlib as mpl
import numpy as np
import pytest
from reference import random_mixture, relative_error
from scipy.special import logsumexp
from scipy.stats import multivariate_t

import amofa
from amofa._background import Background, BackgroundDensity, Kind
from amofa._data.row_chunks import Samples
from amofa._model.background import background_arrays, background_from_arrays
from amofa.mixture import MixtureOfFactorAnalyzers

KINDS = ("uniform", "nested", "heavy")


def density_of(kind, d=3):
    center, scale = np.arange(1.0, d + 1), np.linspace(30.0, 40.0, d)
    if kind == "heavy":
        return BackgroundDensity.of_one(Kind.HEAVY, center, scale / 8, degrees_of_freedom=1.0)
    if kind == "uniform":
        return BackgroundDensity.of_one(Kind.UNIFORM, center, scale)
    return BackgroundDensity(
        Kind.NESTED, np.stack([center, center]), np.stack([scale, scale / 4]), np.array([0.5, 0.5])
    )


def model_with(density, weight=0.2, d=3):
    parameters = random_mixture(np.random.default_rng(3), 3, d, [0, 2, 1])
    parameters.background = Background(density, weight)
    return MixtureOfFactorAnalyzers._from_fit(parameters)


@pytest.fixture(params=KINDS)
def model(request):
    return model_with(density_of(request.param))


@pytest.fixture
def rows(rng):
    return np.concatenate([rng.normal(0, 3, (40, 3)), rng.normal(0, 30, (20, 3)), [[1e5, 0.0, 0.0]]])


def log_background(model, row):
    """The log density of the observed cells of a row, by SciPy or by hand."""
    density, o = model._parameters.background.density, ~np.isnan(row)
    if not o.any():
        return 0.0
    if density.kind == "heavy":
        return multivariate_t(density.center[0, o], np.diag(density.scale[0, o] ** 2), df=1).logpdf(row[o])
    parts = []
    for j in range(len(density.shares)):
        inside = np.abs(row - density.center[j])[o] <= density.scale[j, o] / 2
        value = density.shares[j] / density.scale[j, o].prod() if j == 0 or inside.all() else 0.0
        parts.append(value)
    return np.log(sum(parts))


# ---- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [False, True])
def test_densities_and_probabilities(model, rows, gaps, rng):
    if gaps:
        rows[rng.random(rows.shape) < 0.3] = np.nan
    plain = MixtureOfFactorAnalyzers._from_fit(model._parameters.with_background(None))
    b = np.array([log_background(model, row) for row in rows])
    parts = np.stack([np.log(0.8) + plain.score_samples(rows), np.log(0.2) + b])
    density = logsumexp(parts, axis=0)
    assert relative_error(model.score_samples(rows), density) < 1e-13
    scores = np.exp(parts[1] - density)
    np.testing.assert_allclose(model.outlier_scores(rows), scores, atol=1e-13)
    beside = model.predict_proba(rows, background=True)
    np.testing.assert_allclose(beside[:, -1], scores, atol=1e-13)
    np.testing.assert_allclose(beside[:, :-1], (1 - scores)[:, None] * plain.predict_proba(rows), atol=1e-13)
    np.testing.assert_array_equal(model.predict_proba(rows), plain.predict_proba(rows))
    expected = beside.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(rows), np.where(expected == 3, -1, expected))
    assert plain.outlier_scores(rows).tolist() == [0.0] * len(rows)


def test_criteria(model, rows):
    n, proba = len(rows), model.predict_proba(rows, background=True)
    log_likelihood = model.score_samples(rows).sum()
    assert model.bic(rows) == pytest.approx(model.n_parameters * np.log(n) - 2 * log_likelihood)
    entropy = -np.sum(proba * np.log(np.where(proba > 0, proba, 1)))
    assert model.icl(rows) == pytest.approx(model.bic(rows) + 2 * entropy)
    plain = MixtureOfFactorAnalyzers._from_fit(model._parameters.with_background(None))
    assert model.n_parameters == plain.n_parameters + 1


def test_clusters_have_no_rows_of_the_background(model, rows):
    clusters = model.clusters(2)
    labels, scores = model.predict(rows, clusters=clusters), model.outlier_scores(rows)
    proba = model.predict_proba(rows, clusters=clusters, background=True)
    np.testing.assert_array_equal(labels == -1, proba.argmax(axis=1) == 2)
    np.testing.assert_allclose(proba[:, 2], scores)


def test_factors_and_filled_cells_are_those_of_components(model, rows):
    plain = MixtureOfFactorAnalyzers._from_fit(model._parameters.with_background(None))
    np.testing.assert_array_equal(model.transform(rows), plain.transform(rows))
    rows[::3, 1] = np.nan
    np.testing.assert_array_equal(model.impute(rows), plain.impute(rows))


def test_rows_in_frames(model, rows):
    pd = pytest.importorskip("pandas")
    framed = copy.copy(model).set_output(transform="pandas")
    assert framed.predict_proba(pd.DataFrame(rows), background=True).columns.tolist()[-2:] == [
        "component_2",
        "background",
    ]
    assert framed.outlier_scores(rows).name == "background"


def test_columns_without_a_difference():
    """Of a column that the background says nothing of, rows are as their other cells."""
    density = density_of("uniform", 3)
    density.scale[:, 1] = np.nan
    model = model_with(density)
    given = model._parameters
    some = MixtureOfFactorAnalyzers._from_fit(
        given.of_columns(np.array([0, 2])).with_background(Background(density.of_columns(np.array([0, 2])), 0.2))
    )
    rows = np.random.default_rng(0).normal(0, 9, (50, 3))
    np.testing.assert_allclose(model.outlier_scores(rows), some.outlier_scores(rows[:, [0, 2]]), atol=1e-12)
    rows[::2, 0] = rows[1::4, 1] = np.nan
    np.testing.assert_allclose(model.outlier_scores(rows), some.outlier_scores(rows[:, [0, 2]]), atol=1e-12)
    drawn, labels = model.sample(2000, random_state=1)
    assert np.isfinite(drawn).all()
    assert abs((labels == -1).mean() - 0.2) < 0.03


# ---- columns given others --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [[0.5, -1.0, 2.0], [14.0, 3.0, -16.0], [200.0, 0.0, 0.0]])
@pytest.mark.parametrize("known", [[0], [2, 0]])
def test_densities_multiply(model, row, known):
    row = np.array(row)
    others = [j for j in range(3) if j not in known]
    alone = np.where(np.isin(np.arange(3), known), row, np.nan)
    given = model.condition(known, row[known])
    product = model.score_samples(alone[None])[0] + given.score_samples(row[None, others])[0]
    assert product == pytest.approx(model.score_samples(row[None])[0], abs=1e-10)
    assert given.background_weight == pytest.approx(model.outlier_scores(alone[None])[0], abs=1e-12)


def test_nothing_is_known(model):
    given = model.condition([0], [np.nan])
    assert given.background_weight == pytest.approx(0.2)
    assert given.background == model.background


# ---- draws and files -------------------------------------------------------------------------------------------------


def test_draws(model):
    X, labels = model.sample(40_000, random_state=0)
    assert abs((labels == -1).mean() - 0.2) < 0.01
    density = model._parameters.background.density
    of_background = (X[labels == -1] - density.center[0]) / density.scale[0]
    if model.background == "heavy":
        np.testing.assert_allclose(np.quantile(of_background, [0.25, 0.5, 0.75]), [-1, 0, 1], atol=0.05)
    else:
        assert np.abs(of_background).max() <= 0.5
        inner = (np.abs(of_background) <= 1 / 8).all(axis=1).mean()
        assert inner == pytest.approx(0.5 + 0.5 / 64 if model.background == "nested" else 1 / 64, abs=0.01)


def test_files_pickles_and_copies(model, rows, tmp_path):
    model.save(tmp_path / "m.npz")
    for twin in (amofa.load(tmp_path / "m.npz"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.score_samples(rows), model.score_samples(rows))
        assert (twin.background, twin.background_weight) == (model.background, 0.2)
        assert repr(twin) == repr(model)


@pytest.mark.parametrize(
    "changes",
    [
        {"background": "custom"},
        {"background": "other"},
        {"background_weight": 1.0},
        {"background_weight": np.nan},
        {"background_scale": np.zeros((1, 3))},
        {"background_scale": np.full((1, 3), np.nan)},
        {"background_scale": np.full((1, 3), np.inf)},
        {"background_center": np.full((1, 3), np.nan)},
        {"background_shares": np.array([0.5])},
        {"background_degrees_of_freedom": 1.0},
        dict.fromkeys(("background_center", "background_scale"), np.ones((0, 3))) | {"background_shares": np.ones(0)},
    ],
)
def test_wrong_arrays(changes):
    arrays = background_arrays(Background(density_of("uniform"), 0.2), 3)
    arrays = {name: np.asarray(value) for name, value in (arrays | changes).items()}
    with pytest.raises(ValueError, match=r"background|Kind"):
        background_from_arrays(arrays)


# ---- a function ------------------------------------------------------------------------------------------------------


def flat(rows):
    return np.full(len(rows), -9.0)


def test_a_function(rows, tmp_path):
    density = BackgroundDensity.of_one(Kind.CUSTOM, np.zeros(3), np.ones(3), function=flat)
    model = model_with(density)
    plain = MixtureOfFactorAnalyzers._from_fit(model._parameters.with_background(None))
    expected = np.logaddexp(np.log(0.8) + plain.score_samples(rows), np.log(0.2) - 9.0)
    assert relative_error(model.score_samples(rows), expected) < 1e-13
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).score_samples(rows), model.score_samples(rows))
    with pytest.raises(ValueError, match="no file can hold"):
        model.save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="no rows can be drawn"):
        model.sample(3)
    with pytest.raises(ValueError, match="density of some of the columns is unknown"):
        model.condition([0], [1.0])


@pytest.mark.parametrize(
    ("values", "message"), [([1.0], "shape"), (np.full(5, np.inf), "infinity"), (np.full(5, np.nan), "NaN")]
)
def test_what_a_function_may_return(values, message):
    density = BackgroundDensity.of_one(Kind.CUSTOM, np.zeros(2), np.ones(2), function=lambda rows: values)
    with pytest.raises(ValueError, match=f"background must return .*{message}"):
        density.log_density(np.zeros((2, 5)))


def test_rows_that_nothing_reaches():
    density = BackgroundDensity.of_one(
        Kind.CUSTOM, np.zeros(3), np.ones(3), function=lambda rows: np.full(len(rows), -np.inf)
    )
    model = model_with(density)
    far = np.full((2, 3), 1e200)
    assert model.outlier_scores(far).tolist() == [0.0, 0.0]
    assert (model.score_samples(far) == -np.inf).all()


# ---- what it says of itself ------------------------------------------------------------------------------------------


def test_texts(model, rows):
    assert f"beside a background, {model.background}, of 20.00% of the rows" in model.summary()
    report = model.report(rows)
    assert report.background_rows == (model.predict(rows) == -1).sum() > 0
    assert report.rows.sum() + report.background_rows == len(rows)
    assert f"beside a background of {report.background_rows:.0f} rows, weight 0.2000" in repr(report)
    weights = np.arange(len(rows), dtype=float)
    assert model.report(rows, sample_weight=weights).background_rows == weights[model.predict(rows) == -1].sum()
    assert "beside a background of weight 0.2000" in repr(model.report())


def test_pictures(model, rows):
    with mpl.rc_context({"backend": "agg"}):
        for kind in ("clusters", "outliers", "density"):
            ax = model.plot(rows, kind=kind)
            texts = [text.get_text() for text in ax.get_legend().get_texts()]
            assert "background: 20.0%" in texts
        for kind in ("uncertainty", "responsibilities", "contours"):
            model.plot(rows, kind=kind)


def test_scikit_learn_has_no_background(model):
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError, match="the model has a background"):
        model.to_sklearn()


def test_passes_are_the_same_for_any_number_of_threads(model):
    rows = np.random.default_rng(0).normal(0, 9, (60_000, 3))
    found = []
    for n_threads in (1, 2):
        with amofa.threads.use_threads(n_threads):
            found.append((model.score_samples(rows), Samples(rows).log_likelihood(model._parameters)))
    np.testing.assert_array_equal(*(scores for scores, _ in found))
    assert found[0][1] == found[1][1]
