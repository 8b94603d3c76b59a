"""What only one of the scikit-learn estimators does."""

import pickle

import numpy as np
import pytest
import sklearn
from datasets import factor_analysers, gaussians
from estimators import FIXED
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import KFold
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import StandardScaler

import amofa
from amofa.classes import fit_classes
from amofa.sklearn import AMoFA, AMoFAClassifier, AMoFARegressor

# ---- AMoFA -----------------------------------------------------------------------------------------------------------


def test_mixture_is_that_of_fit(rows):
    X, y = rows
    found, model = AMoFA(max_components=3, noise="component").fit(X), amofa.fit(X, max_components=3, noise="component")
    np.testing.assert_array_equal(found.labels_, model.predict(X))
    for name in ("predict", "predict_proba", "score_samples", "transform", "score", "bic", "aic", "icl"):
        np.testing.assert_array_equal(getattr(found, name)(X), getattr(model, name)(X))
    Z = model.transform(X)
    np.testing.assert_array_equal(found.inverse_transform(Z), model.inverse_transform(Z))
    np.testing.assert_array_equal(found.sample(7, random_state=3)[0], model.sample(7, 3)[0])
    for name in ("weights", "means", "uniquenesses", "n_factors"):
        np.testing.assert_array_equal(getattr(found, f"{name}_"), getattr(model, name))
    assert found.n_components_ == model.n_components
    assert found.converged_
    assert found.n_iter_ == sum(step.n_iter for step in model.history)
    assert adjusted_rand_score(y, found.labels_) > 0.9


def test_scores_are_weighted(rows, rng):
    X, _ = rows
    found, weights = AMoFA().fit(X), rng.uniform(0, 2, len(X))
    expected = np.average(found.score_samples(X), weights=weights)
    np.testing.assert_allclose(found.score(X, sample_weight=weights), expected)
    for name in ("bic", "aic", "icl"):
        assert getattr(found, name)(X, weights) == getattr(found.model_, name)(X, weights)


def test_floats_keep_their_width(rows):
    X, _ = rows
    found = AMoFA().fit(X)
    for dtype in (np.float32, np.float64):
        Z = found.transform(X.astype(dtype))
        some = [
            Z,
            found.inverse_transform(Z),
            found.predict_proba(X.astype(dtype)),
            found.score_samples(X.astype(dtype)),
        ]
        assert [values.dtype for values in some] == [dtype] * 4
    assert found.transform(X.round().astype(int)).dtype == np.float64


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_output_in_frames(rows, library):
    frames = pytest.importorskip(library)
    X, _ = rows
    found = AMoFA(n_components=2, n_factors=[2, 1]).set_output(transform=library).fit(X)
    names = ["amofa_r0", "amofa_r1", "amofa_z0_0", "amofa_z0_1", "amofa_z1_0"]
    assert found.get_feature_names_out().tolist() == names
    frame = found.transform(X)
    assert isinstance(frame, frames.DataFrame)
    assert list(frame.columns) == names
    np.testing.assert_array_equal(frame.to_numpy(), found.model_.transform(X))
    union = FeatureUnion([("mixture", AMoFA()), ("scaled", StandardScaler())]).set_output(transform=library)
    assert list(union.fit_transform(X).columns)[-1] == "scaled__x3"


def test_the_model_keeps_names(rows):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    frame = pandas.DataFrame(X, columns=list("abcd"))
    assert AMoFA().fit(frame).model_.feature_names == ("a", "b", "c", "d")
    assert AMoFA().fit(frame).fit(X).model_.feature_names is None
    assert AMoFAClassifier(**FIXED).fit(frame, y).models_[1].feature_names == ("a", "b", "c", "d")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_model_of_a_regressor_has_names_of_features_and_targets(rows, library):
    frames = pytest.importorskip(library)
    X, _ = rows
    features = frames.DataFrame({"a": X[:, 0], "y0": X[:, 1]})
    targets = frames.DataFrame({"c": X[:, 2], "a": X[:, 3]})

    def names(X, y):
        return AMoFARegressor(n_components=1).fit(X, y).model_.feature_names

    if names(features, X[:, 2]) is None and sklearn.__version__ < "1.9":
        pytest.skip(f"scikit-learn {sklearn.__version__} does not read the names of {library} {frames.__version__}")
    assert names(features, targets) == ("a", "y0", "c", "a_")
    assert names(features, targets["c"]) == ("a", "y0", "c")
    assert names(features, targets[["c"]]) == ("a", "y0", "c")
    assert names(features, X[:, 2]) == ("a", "y0", "y0_")
    assert names(features, X[:, 2:]) == ("a", "y0", "y0_", "y1")
    assert names(X[:, :2], targets) is None


def test_a_regressor_does_not_start_from_a_model_of_columns_in_another_order(rows):
    pandas = pytest.importorskip("pandas")
    X, _ = rows
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    regressor = AMoFARegressor(init=amofa.fit(frame))
    with pytest.raises(ValueError, match="columns of the model in another order"):
        regressor.fit(frame[["b", "a"]], frame["c"])
    for target in (frame["c"], frame[["c"]], X[:, 2]):
        found = regressor.fit(frame[["a", "b"]], target)
        assert found.model_.feature_names == ("a", "b", "c")
        nameless = clone(regressor).fit(X[:, :2], X[:, 2])
        np.testing.assert_array_equal(found.predict(frame[["a", "b"]]).ravel(), nameless.predict(X[:, :2]))


# ---- AMoFAClassifier -------------------------------------------------------------------------------------------------


def test_classifier_is_fit_classes(rows):
    X, y = (part[::2] for part in rows)
    for parameters in ({"cv": 2, "priors": "empirical"}, {"cv": KFold(3)}, {"pooled_rows": 5, "priors": [0.7, 0.3]}):
        found = AMoFAClassifier(**parameters).fit(X, np.array(["no", "yes"])[y])
        splitter = parameters.get("cv")
        splits = {"cv": list(splitter.split(X, y))} if isinstance(splitter, KFold) else {}
        expected = fit_classes(X, y, **{**parameters, **splits})
        log_posteriors = expected.log_posteriors(X)
        np.testing.assert_array_equal(found.predict_log_proba(X), log_posteriors)
        np.testing.assert_array_equal(found.predict_proba(X), np.exp(log_posteriors))
        np.testing.assert_array_equal(found.predict(X), np.array(["no", "yes"])[expected.predict(X)])
        np.testing.assert_allclose(found.decision_function(X), log_posteriors[:, 1] - log_posteriors[:, 0])
        np.testing.assert_allclose(found.priors_, np.exp(expected.log_priors))
        assert (found.pooled_rows_, found.single_weight_, found.power_) == expected.pooling
        assert found.n_components_.tolist() == [model.n_components for model in expected.models]
        assert [f.tolist() for f in found.n_factors_] == [model.n_factors.tolist() for model in expected.models]


@pytest.mark.parametrize("given", [{"n_components": 3}, {"n_factors": [1, 0, 1]}], ids=["components", "factors"])
def test_given_components_are_in_the_models(rng, given):
    X, y = gaussians(rng, [60] * 2, [(0, 0, 0), (6, 0, 0)], [np.diag([4.0, 1, 1])] * 2)
    found = AMoFAClassifier(**given, cv=2).fit(X, y)
    assert found.single_weight_ == 0
    assert [model.n_components for model in found.models_] == [3, 3]
    assert found.n_components_.tolist() == [3, 3]
    for factors, model in zip(found.n_factors_, found.models_, strict=True):
        np.testing.assert_array_equal(factors, model.n_factors)
    alone = AMoFAClassifier(**given, pooled_rows=0).fit(X, y)
    assert [factors.tolist() for factors in alone.n_factors_] == [model.n_factors.tolist() for model in alone.models_]
    assert AMoFAClassifier(**given, pooled_rows=0, single_weight=1).fit(X, y).n_components_.tolist() == [1, 1]


def test_decision_of_several_classes_never_underflows(rng):
    X, y = gaussians(rng, [40] * 3, [(0, 0), (9, 0), (0, 9)], [np.eye(2)] * 3)
    found = AMoFAClassifier(**FIXED).fit(X, y)
    far = np.array([[1e6, 0.0], [0.0, 1e8], [1e200, 1e200]])
    decision = found.decision_function(far)
    assert decision.shape == (3, 3)
    assert np.isfinite(decision).all()
    np.testing.assert_array_equal(found.predict(far)[:2], decision[:2].argmax(axis=1))
    np.testing.assert_allclose(found.predict_proba(far).sum(axis=1), 1)
    assert found.predict_proba(far)[0].min() == 0


def test_classes_without_weight_are_none(rng):
    X, y = gaussians(rng, [30] * 3, [(0, 0), (9, 0), (0, 9)], [np.eye(2)] * 3)
    found = AMoFAClassifier(**FIXED).fit(X, y * 5, sample_weight=y != 1)
    assert found.classes_.tolist() == [0, 10]
    assert found.predict([[0, 8]]).tolist() == [10]
    last = AMoFAClassifier(**FIXED).fit(X, y, sample_weight=y == 0)
    assert last.classes_.tolist() == [0]


def test_processes_do_not_change_the_result(rows):
    X, y = rows
    alone, several = (AMoFAClassifier(**FIXED, n_jobs=n).fit(X, y) for n in (None, 2))
    assert [list(m.n_factors) for m in alone.models_] == [list(m.n_factors) for m in several.models_]
    # Arrays that come from another process lie elsewhere in memory, which may change a last bit.
    np.testing.assert_allclose(alone.predict_log_proba(X), several.predict_log_proba(X), rtol=1e-13)


# ---- AMoFARegressor --------------------------------------------------------------------------------------------------


def gaussian_prediction(Z, d, X):
    """Mean and standard deviation of the last columns given the first d under one Gaussian with Z's moments."""
    mean, covariance = Z.mean(axis=0), np.cov(Z.T, bias=True)
    slope = np.linalg.solve(covariance[:d, :d], covariance[:d, d:])
    rest = covariance[d:, d:] - covariance[d:, :d] @ slope
    return mean[d:] + (X - mean[:d]) @ slope, np.sqrt(np.diag(rest))


def test_one_component_is_linear_regression(rng):
    X = rng.normal(size=(4000, 3))
    y = X @ rng.normal(size=(3, 2)) + rng.normal(0, [0.5, 2.0], (4000, 2))
    found = AMoFARegressor(n_components=1, n_factors=3).fit(X, y)
    mean, deviation = found.predict(X[:9], return_std=True)
    expected = gaussian_prediction(np.column_stack([X, y]), 3, X[:9])
    np.testing.assert_allclose(mean, expected[0], atol=0.02)
    np.testing.assert_allclose(deviation, np.broadcast_to(expected[1], (9, 2)), rtol=0.02)


def test_prediction_is_the_conditional_of_the_mixture(rows):
    X, _ = rows
    found = AMoFARegressor(max_components=3).fit(X[:, :2], X[:, 2:])
    mean, deviation = found.predict(X[:5, :2], return_std=True)
    for row, m, s in zip(X[:5], mean, deviation, strict=True):
        given = found.model_.condition([0, 1], row[:2])
        first = given.weights @ given.means
        variances = given.uniquenesses + [np.sum(loadings**2, axis=1) for loadings in given.loadings]
        np.testing.assert_allclose(m, first, 1e-9)
        np.testing.assert_allclose(s, np.sqrt(given.weights @ (variances + (given.means - first) ** 2)), 1e-9)


def test_deviations_are_those_of_new_rows(rng):
    X = rng.uniform(-3, 3, (1500, 1))
    noise = np.where(X[:, 0] > 0, 0.1, 0.5)
    y = np.abs(X[:, 0]) + noise * rng.normal(size=1500)
    found = AMoFARegressor().fit(X[:1000], y[:1000])
    mean, deviation = found.predict(X[1000:], return_std=True)
    errors = (y[1000:] - mean) / deviation
    assert found.score(X[1000:], y[1000:]) > 0.8
    assert 0.8 < np.sqrt(np.mean(errors**2)) < 1.2
    assert deviation[X[1000:, 0] < -0.5].mean() > 2 * deviation[X[1000:, 0] > 0.5].mean()


def test_shapes_and_dtypes_are_those_of_the_target_and_rows(rows):
    X, y = rows
    for targets, shape in ((y, (150,)), (y[:, None], (150, 1)), (np.column_stack([y, X[:, 0]]), (150, 2))):
        found = AMoFARegressor().fit(X[:, 1:], targets)
        assert found.n_outputs_ == (1 if len(shape) == 1 else shape[1])
        mean, deviation = found.predict(X[:, 1:], return_std=True)
        assert mean.shape == deviation.shape == shape
        assert found.predict(X[:, 1:].astype(np.float32)).dtype == np.float32
        assert mean.dtype == np.float64


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
def test_constant_columns_and_targets(rows):
    X, y = rows
    constant = np.full(len(y), 7.0)
    np.testing.assert_allclose(AMoFARegressor().fit(X, constant).predict(X), 7)
    with_constant = AMoFARegressor().fit(np.column_stack([X, constant]), y)
    np.testing.assert_allclose(
        with_constant.predict(np.column_stack([X, constant])), AMoFARegressor().fit(X, y).predict(X), 1e-6
    )


# ---- clusters --------------------------------------------------------------------------------------------------------


def test_labels_are_components_unless_clusters_are_asked_for(rng):
    X = np.concatenate([rng.gamma(2.0, 1.0, (200, 2)) + 14 * c for c in range(2)]).astype(np.float32)
    plain = AMoFA().fit(X)
    assert plain.clusters_ is None
    np.testing.assert_array_equal(plain.labels_, plain.model_.predict(X))
    for n_clusters in ("auto", 2):
        joined = AMoFA(n_clusters=n_clusters).fit(X)
        assert joined.n_components_ > joined.clusters_.n_clusters == 2
        np.testing.assert_array_equal(joined.labels_, joined.model_.predict(X, clusters=n_clusters))
        np.testing.assert_array_equal(joined.labels_, joined.predict(X))
        proba = joined.predict_proba(X)
        assert (proba.shape, proba.dtype) == ((400, 2), np.float32)
        np.testing.assert_allclose(proba, joined.model_.predict_proba(X, clusters=2), atol=1e-6)


def test_there_are_no_more_clusters_than_components(rng):
    mixture = AMoFA(n_components=1, n_clusters=2).fit(rng.normal(size=(40, 2)))
    assert mixture.clusters_.n_clusters == 1


@pytest.mark.parametrize(("n_clusters", "error"), [("many", ValueError), (0, ValueError), (1.5, TypeError)])
def test_numbers_of_clusters_that_are_not_possible(rng, n_clusters, error):
    with pytest.raises(error, match="n_clusters must be"):
        AMoFA(n_components=1, n_clusters=n_clusters).fit(rng.normal(size=(40, 2)))


@pytest.mark.parametrize("bad", [10, 1e4])
def test_one_bad_target_does_not_bend_the_regression(rng, bad):
    X, new = rng.uniform(-2, 2, (2, 600, 1))
    y = 2 * X[:, 0] + rng.normal(0, 0.1, 600)
    y[7] += bad
    for options in ({}, {"tails": "t"}):
        found = AMoFARegressor(**options).fit(X, y)
        mean, deviation = found.predict(new, return_std=True)
        assert np.sqrt(np.mean((mean - 2 * new[:, 0]) ** 2)) < 0.03
        assert np.median(deviation) < 0.15


def test_components_of_few_rows_are_all_that_there_is(rng):
    X = np.array([[0.0], [1.0], [100.0], [101.0]])
    found = AMoFARegressor(n_components=2, n_factors=0).fit(X, X[:, 0])
    np.testing.assert_allclose(found.predict(X), [0.5, 0.5, 100.5, 100.5], atol=1)


# ---- rows that keep coming -------------------------------------------------------------------------------------------


def learnt(mixture, X, size=50, **options):
    for start in range(0, len(X), size):
        assert mixture.partial_fit(X[start : start + size], **options) is mixture
    return mixture


def test_partial_fit_is_a_stream(rng):
    X, y = factor_analysers(rng, 4, [1, 1], [900, 600])
    order = rng.permutation(len(X))
    X, y = X[order], y[order]
    mixture, stream = learnt(AMoFA(noise="component"), X, 300), amofa.Stream(noise="component", warm_up=300).update(X)
    np.testing.assert_array_equal(mixture.means_, stream.model.means)
    assert mixture.stream_.n_samples == mixture.model_.n_samples == 1500
    assert mixture.labels_.shape == (300,)
    assert adjusted_rand_score(mixture.predict(X), y) > 0.95
    copy = pickle.loads(pickle.dumps(mixture))
    np.testing.assert_array_equal(learnt(copy, X[:100]).means_, learnt(mixture, X[:100]).means_)
    # A clone and a fit start anew.
    assert not hasattr(clone(mixture), "stream_")
    assert not hasattr(mixture.fit(X), "stream_")
    np.testing.assert_array_equal(mixture.means_, AMoFA(noise="component").fit(X).means_)


def test_partial_fit_goes_on_from_a_fit(rows):
    X, _ = rows
    fitted = AMoFA(n_clusters=2).fit(X)
    more = learnt(clone(fitted).fit(X), X)
    assert more.stream_.n_samples == 2 * len(X)
    assert more.score(X) == pytest.approx(fitted.score(X), abs=0.05)
    assert more.clusters_.n_clusters == 2
    # A model as the start of a fit is the model to go on from.
    np.testing.assert_array_equal(learnt(AMoFA(init=fitted.model_), X).means_, learnt(AMoFA().fit(X), X).means_)


def test_partial_fit_keeps_names_and_weights(rows):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows[0], columns=list("abcd"))
    mixture = AMoFA().partial_fit(frame[:80]).partial_fit(frame[80:], sample_weight=np.full(70, 2.0))
    assert mixture.model_.feature_names == tuple("abcd")
    assert mixture.model_.n_samples == 220
    with pytest.raises(ValueError, match="feature names"):
        mixture.partial_fit(frame[list("bacd")])
    with pytest.raises(ValueError, match="4 features"):
        learnt(AMoFA(), rows[0]).partial_fit(rows[0][:, :3])


@pytest.mark.parametrize("options", [{"search": "paper"}, {"background": "uniform"}])
def test_partial_fit_refuses_what_a_stream_has_not(rows, options):
    with pytest.raises(ValueError, match="leave search and background out"):
        AMoFA(**options).partial_fit(rows[0])
