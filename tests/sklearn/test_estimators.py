"""The scikit-learn estimators: scikit-learn's own checks, and what they do not look at."""

import inspect
import pickle
import subprocess
import sys
from dataclasses import fields

import joblib
import numpy as np
import pytest
import sklearn
from estimators import FIXED
from sklearn.base import clone, is_classifier, is_clusterer, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import amofa
from amofa._search.options import FitOptions
from amofa.classes import fit_classes
from amofa.sklearn import AMoFA, AMoFAClassifier, AMoFARegressor

ESTIMATORS = [AMoFA(), AMoFAClassifier(**FIXED), AMoFARegressor()]


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def estimator(request):
    return clone(request.param)


def outputs(estimator, X):
    """What a fitted estimator says of rows."""
    names = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score_samples")
    return [getattr(estimator, name)(X) for name in names if hasattr(estimator, name)]


def assert_alike(first, second, X, **tolerances):
    for a, b in zip(outputs(first, X), outputs(second, X), strict=True):
        np.testing.assert_allclose(a, b, **tolerances)


# ---- all of them -----------------------------------------------------------------------------------------------------


def unlike_scikit_learn(estimator):
    if is_classifier(estimator):
        return {"check_estimators_nan_inf": "after the fit, NaN marks missing cells"}
    return {}


# The checks have constant columns, classes of one row, and so on.
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=unlike_scikit_learn)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([AMoFAClassifier()], expected_failed_checks=unlike_scikit_learn)
def test_checks_where_the_pooling_is_chosen(estimator, check):
    check(estimator)


def test_kinds():
    assert is_clusterer(AMoFA())
    assert is_classifier(AMoFAClassifier())
    assert is_regressor(AMoFARegressor())


@pytest.mark.parametrize("kind", [AMoFA, AMoFARegressor])
def test_parameters_are_those_of_fit(kind):
    of_fit = {name: p.default for name, p in inspect.signature(amofa.fit).parameters.items()}
    del of_fit["X"], of_fit["sample_weight"]
    assert of_fit == {option.name: option.default for option in fields(FitOptions)}
    assert kind().get_params() == of_fit | ({"n_clusters": None} if kind is AMoFA else {})


def test_parameters_of_the_classifier_are_those_of_fit_classes_or_of_fit():
    defaults = AMoFAClassifier().get_params()
    of_classes = {name: p.default for name, p in inspect.signature(fit_classes).parameters.items()}
    for name in ("X", "y", "sample_weight", "apply", "options"):
        del of_classes[name]
    of_fit = {name: p.default for name, p in inspect.signature(amofa.fit).parameters.items()}
    rest = {name: of_fit[name] for name in defaults.keys() - of_classes.keys() - {"n_jobs"}}
    assert defaults == {**of_classes, **rest, "n_jobs": None}


def test_every_parameter_is_described(estimator):
    doc = inspect.getdoc(type(estimator))
    parameters, attributes = doc.split("Attributes\n---")[0], doc.split("Attributes\n---")[1]
    assert [name for name in estimator.get_params() if name not in parameters] == []
    rng = np.random.default_rng(0)
    estimator.fit(rng.normal(size=(30, 2)), np.repeat([0, 1], 15))
    public = [name for name in vars(estimator) if name.endswith("_")]
    assert [name for name in public if name not in attributes] == []


def test_every_method_is_described_and_shown(estimator):
    kind = type(estimator)
    # Those of scikit-learn are described there.
    methods = {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and method.__module__.startswith("amofa.")
    }
    assert {"fit", "predict"} <= methods.keys()
    for name, method in methods.items():
        doc = inspect.getdoc(method)
        parameters = [p for p in inspect.signature(method).parameters if p != "self"]
        assert "Returns\n---" in doc, name
        assert [p for p in parameters if f"\n{p} : " not in doc] == [], name
    shown = "".join(line for line in inspect.getdoc(kind).splitlines() if line.startswith(">>>"))
    assert [name for name in methods if f".{name}(" not in shown] == []


def test_fits_take_missing_cells_except_those_of_classes(estimator, rows):
    X, y = rows
    holed = X.copy()
    holed[3, 1] = np.nan
    if is_classifier(estimator):
        with pytest.raises(
            ValueError, match=r"X has 1 value that is NaN or infinite, the first in row 3, column 1 .*drop"
        ):
            estimator.fit(holed, y)
        estimator.fit(X, y)
    else:
        estimator.fit(holed, y)
        assert np.isfinite(estimator.predict(holed)).all()
    holed[3, 1] = np.inf
    if not is_classifier(estimator):
        with pytest.raises(ValueError, match="X has 1 value that is infinite, the first in row 3, column 1"):
            estimator.fit(holed, y)
    with pytest.raises(ValueError, match="X has 1 value that is infinite, the first in row 3, column 1"):
        estimator.predict(holed)


def test_fitted_estimators_take_missing_cells(rows):
    X, y = rows
    holed = X.copy()
    holed[::3, 1] = np.nan
    holed[5] = np.nan
    mixture = AMoFA().fit(X)
    for name in ("predict", "predict_proba", "score_samples", "transform", "score", "bic", "aic", "icl"):
        np.testing.assert_array_equal(getattr(mixture, name)(holed), getattr(mixture.model_, name)(holed))
    single = mixture.score_samples(holed.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, mixture.score_samples(holed), rtol=1e-4)
    joined = AMoFA(n_clusters=1).fit(X)
    np.testing.assert_array_equal(joined.predict(holed), 0)
    np.testing.assert_allclose(joined.predict_proba(holed), 1)
    classifier = AMoFAClassifier(**FIXED).fit(X, y)
    densities = np.stack([model.score_samples(holed) for model in classifier.models_], axis=1)
    np.testing.assert_array_equal(classifier.predict(holed), densities.argmax(axis=1))
    np.testing.assert_allclose(classifier.predict_proba(holed)[5], 1 / 2)
    assert classifier.score(holed, y) > 0.8


def test_a_regressor_predicts_from_the_features_that_are_known(rows):
    X, _ = rows
    holed = X[:, :3].copy()
    holed[::3, 1] = np.nan
    regressor = AMoFARegressor().fit(X[:, :3], X[:, 3])
    mean, deviation = regressor.predict(holed, return_std=True)
    whole = regressor.model_.impute(np.column_stack([holed, np.full(len(X), np.nan)]))
    np.testing.assert_allclose(mean, whole[:, 3], 1e-9)
    known = regressor.predict(X[:, :3], return_std=True)[1]
    assert deviation[::3].mean() > known[::3].mean()


def test_masked_values_are_missing_cells(estimator, rows):
    X, y = rows
    masked = np.ma.masked_where(X > 6, X)
    if is_classifier(estimator):
        with pytest.raises(ValueError, match="NaN or infinite"):
            estimator.fit(masked, y)
    else:
        expected = estimator.fit(masked.filled(np.nan), y).predict(X)
        np.testing.assert_array_equal(estimator.fit(masked, y).predict(X), expected)
    if not is_clusterer(estimator):
        with pytest.raises(ValueError, match="y has masked values; drop such rows"):
            estimator.fit(X, np.ma.masked_equal(y, 1))
    weights = np.ma.masked_less(np.arange(len(X)), 9)
    for fit in (amofa.fit, lambda X, **options: estimator.fit(X, y, **options)):
        with pytest.raises(ValueError, match="sample_weight has masked values"):
            fit(X, sample_weight=weights)
    estimator.fit(X, y)
    np.testing.assert_array_equal(estimator.predict(masked), estimator.predict(masked.filled(np.nan)))
    np.testing.assert_array_equal(estimator.predict(np.ma.asarray(X)), estimator.predict(X))


@pytest.mark.parametrize("kind", [AMoFAClassifier, AMoFARegressor])
def test_targets_are_not_missing(rows, kind):
    X, y = rows
    with pytest.raises(ValueError, match="y contains NaN"):
        kind().fit(X, np.where(np.arange(len(y)) == 3, np.nan, y))


def test_wrong_parameters_are_named_at_fit(estimator, rows):
    with pytest.raises(ValueError, match="search must be one of"):
        clone(estimator).set_params(search="fast").fit(*rows)
    with pytest.raises(TypeError, match="n_components must be a whole number"):
        clone(estimator).set_params(n_components="two").fit(*rows)


def test_copies_say_the_same(estimator, rows, tmp_path):
    X, y = rows
    estimator.fit(X, y)
    joblib.dump(estimator, tmp_path / "estimator")
    for copy in (pickle.loads(pickle.dumps(estimator)), joblib.load(tmp_path / "estimator")):
        assert_alike(copy, estimator, X, rtol=0)
        assert copy.get_params() == estimator.get_params()
    assert not hasattr(clone(estimator), "model_")


def test_pipelines_and_searches(estimator, rows):
    X, y = rows
    pipeline = make_pipeline(StandardScaler(), estimator)
    name = f"{type(estimator).__name__.lower()}__max_components"
    search = GridSearchCV(pipeline, {name: [1, 2]}, cv=KFold(2)).fit(X, y)
    assert search.best_params_[name] in (1, 2)
    scores = cross_val_score(pipeline, X, y, cv=KFold(2))
    assert np.isfinite(scores).all()
    assert len(scores) == 2


def test_weights_are_routed(estimator, rows, rng):
    X, y = rows
    weights = rng.integers(0, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        requesting = clone(estimator).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), requesting)
        pipeline.fit(X, y, sample_weight=weights)
        kept = make_pipeline(StandardScaler(), clone(estimator)).fit(X[weights > 0], y[weights > 0])
        assert_alike(pipeline, kept, X, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            pipeline.score(X, y, sample_weight=weights), kept.score(X[weights > 0], y[weights > 0]), 1e-6
        )
        search = GridSearchCV(requesting, {"max_components": [2]}, cv=KFold(2)).fit(X, y, sample_weight=weights)
        alone = clone(estimator).set_params(max_components=2).fit(X, y, sample_weight=weights)
        assert_alike(search.best_estimator_, alone, X, rtol=0)


def test_warnings_point_to_the_call_of_the_user(estimator, rows):
    X, y = rows
    with pytest.warns(amofa.AmofaWarning, match="constant") as caught:
        estimator.fit(np.column_stack([X, np.ones(len(X))]), y)
    with pytest.warns(amofa.AmofaWarning, match="constant") as of_function:
        amofa.fit(np.column_stack([X, np.ones(len(X))]), n_components=1)
    assert {warning.filename for warning in (*caught, *of_function)} == {__file__}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_names_of_columns(estimator, rows, library):
    frames = pytest.importorskip(library)
    X, y = rows
    frame = frames.DataFrame({name: X[:, j] for j, name in enumerate("abcd")})
    estimator.fit(frame, y)
    if library == "polars" and not hasattr(estimator, "feature_names_in_") and sklearn.__version__ < "1.9":
        pytest.skip(f"scikit-learn {sklearn.__version__} does not read the names of polars {frames.__version__}")
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert_alike(clone(estimator).fit(X, y), clone(estimator).fit(frame.to_numpy(), y), X, rtol=0)
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.predict(frame[["b", "a", "c", "d"]])


def test_importing_amofa_does_not_import_scikit_learn():
    code = "import sys, amofa; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_without_scikit_learn_the_import_says_what_to_install(tmp_path):
    (tmp_path / "sklearn.py").write_text("raise ModuleNotFoundError(\"No module named 'sklearn'\", name='sklearn')\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import amofa.sklearn"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "amofa.sklearn needs scikit-learn: pip install 'amofa[sklearn]'" in done.stderr


def test_degrees_of_freedom_are_those_of_the_model(rows):
    X, y = rows
    for estimator, targets in ((AMoFA(n_components=1, tails="t"), None), (AMoFARegressor(n_components=1), y)):
        estimator.fit(X, targets)
        np.testing.assert_array_equal(estimator.degrees_of_freedom_, estimator.model_.degrees_of_freedom)
        assert np.isfinite(estimator.degrees_of_freedom_).all() == (estimator.tails == "t")


def test_clones_start_from_a_frozen_mixture(rows):
    mixture = GaussianMixture(2, random_state=0).fit(rows[0])
    expected = AMoFA(init=mixture).fit(rows[0]).means_
    np.testing.assert_array_equal(clone(AMoFA(init=FrozenEstimator(mixture))).fit(rows[0]).means_, expected)
    with pytest.raises(TypeError, match=r"pass sklearn\.frozen\.FrozenEstimator of it"):
        clone(AMoFA(init=mixture)).fit(rows[0])
