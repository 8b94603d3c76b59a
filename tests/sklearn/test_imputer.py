"""The imputer: scikit-learn's own checks, and what is its own."""

import inspect
import pickle

import numpy as np
import pytest
import sklearn
from datasets import factor_analysers
from sklearn.base import clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import amofa
from amofa.sklearn import AMoFA, AMoFAImputer

NAN = np.nan


@pytest.fixture
def rows(rng):
    """Complete rows of two groups with a factor each, and the same with missing cells."""
    X, _ = factor_analysers(rng, 4, [1, 1], [90, 60])
    return X, np.where(rng.random(X.shape) < 0.15, NAN, X)


# The checks have constant columns, tables of a few rows, and so on.
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([AMoFAImputer(), AMoFAImputer(add_indicator=True, keep_empty_features=True)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_parameters_are_those_of_the_mixture_and_of_imputers():
    own = {"add_indicator": False, "keep_empty_features": False, "draws": False, "random_state": None}
    of_mixture = AMoFA().get_params()
    del of_mixture["n_clusters"]
    assert AMoFAImputer().get_params() == of_mixture | own
    assert own.keys() & IterativeImputer().get_params().keys() == own.keys() - {"draws"}


def test_everything_is_described(rows):
    doc = inspect.getdoc(AMoFAImputer)
    parameters, attributes = doc.split("Attributes\n---")
    assert [name for name in AMoFAImputer().get_params() if name not in parameters] == []
    fitted = AMoFAImputer().fit(rows[1])
    assert [name for name in vars(fitted) if name.endswith("_") and name not in attributes] == []
    shown = "".join(line for line in doc.splitlines() if line.startswith(">>>"))
    assert [name for name in ("fit", "transform", "get_feature_names_out") if f".{name}(" not in shown] == []


def test_cells_are_those_of_the_fitted_model(rows):
    X, holes = rows
    imputer = AMoFAImputer()
    filled = imputer.fit_transform(holes)
    np.testing.assert_array_equal(filled, amofa.fit(holes).impute(holes))
    np.testing.assert_array_equal(filled[~np.isnan(holes)], X[~np.isnan(holes)])
    np.testing.assert_array_equal(imputer.transform(holes), filled)
    np.testing.assert_array_equal(imputer.transform(X), X)
    missing = np.isnan(holes)
    by_mean = SimpleImputer().fit_transform(holes)
    assert ((filled - X)[missing] ** 2).mean() < 0.7 * ((by_mean - X)[missing] ** 2).mean()


def test_a_row_without_cells_has_the_mean(rows):
    imputer = AMoFAImputer().fit(rows[1])
    np.testing.assert_allclose(imputer.transform([[NAN] * 4])[0], imputer.weights_ @ imputer.means_)


def test_a_background_is_that_of_the_fit(rows, rng):
    holes = np.concatenate([rows[1], rng.uniform(-40, 40, (20, 4))])
    imputer = AMoFAImputer(background="uniform").fit(holes)
    assert imputer.background_weight_ == imputer.model_.background_weight > 0
    np.testing.assert_array_equal(imputer.transform(holes), imputer.model_.impute(holes))


def test_fits_are_weighted(rows):
    _, holes = rows
    weights = np.arange(len(holes)) % 3
    weighted = AMoFAImputer(n_components=2).fit_transform(holes, sample_weight=weights)
    repeated = AMoFAImputer(n_components=2).fit(np.repeat(holes, weights, axis=0)).transform(holes)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-6)


def test_draws_vary_with_the_random_state_alone(rows):
    _, holes = rows
    missing = np.isnan(holes)
    imputer = AMoFAImputer(draws=True, random_state=0).fit(holes)
    first = imputer.transform(holes)
    np.testing.assert_array_equal(imputer.transform(holes), first)
    np.testing.assert_array_equal(imputer.model_.impute(holes, draws=True, random_state=0), first)
    other = imputer.set_params(random_state=1).transform(holes)
    assert (other[missing] != first[missing]).all()
    np.testing.assert_array_equal(other[~missing], first[~missing])
    generator = np.random.default_rng(0)
    imputer.set_params(random_state=generator)
    assert (imputer.transform(holes)[missing] != imputer.transform(holes)[missing]).all()
    # As in scikit-learn's estimators, what is not used is not looked at.
    imputer.set_params(draws=False)
    np.testing.assert_array_equal(imputer.transform(holes), imputer.model_.impute(holes))


def test_indicators_are_those_of_other_imputers(rows):
    X, holes = rows
    holes[:, 2] = X[:, 2]
    for kind in (SimpleImputer, KNNImputer):
        theirs, ours = kind(add_indicator=True).fit(holes), AMoFAImputer(add_indicator=True).fit(holes)
        np.testing.assert_array_equal(ours.transform(holes)[:, 4:], theirs.transform(holes)[:, 4:])
        assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
        names = ["a", "b", "c", "d"]
        assert ours.get_feature_names_out(names).tolist() == theirs.get_feature_names_out(names).tolist()
        # A column that had no missing cells in the fit has no indicator.
        assert ours.transform([[1, 2, NAN, 4]]).shape == (1, 7)
    assert AMoFAImputer().fit(holes).indicator_ is None
    assert AMoFAImputer(add_indicator=True).fit(X).transform(holes).shape == X.shape


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
@pytest.mark.parametrize("keep", [False, True])
def test_columns_without_values(rows, keep):
    _, holes = rows
    holes[:, 1] = NAN
    options = {"keep_empty_features": keep, "add_indicator": True}
    theirs = SimpleImputer(**options).fit(holes)
    with pytest.warns(amofa.AmofaWarning, match="1 of 4 columns of X have no value"):
        ours = AMoFAImputer(**options).fit(holes)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    filled = ours.transform(holes)
    assert filled.shape == theirs.transform(holes).shape
    assert np.isfinite(filled).all()
    others = AMoFAImputer().fit(holes[:, [0, 2, 3]]).transform(holes[:, [0, 2, 3]])
    np.testing.assert_allclose(filled[:, [0, 2, 3] if keep else [0, 1, 2]], others, rtol=1e-9, atol=1e-12)
    if keep:
        np.testing.assert_array_equal(filled[:, 1], 0)
    # A value in such a column says nothing of other cells, however large it is, and is kept with its column.
    first, second = ours.transform([[1.0, 1e200, NAN, 0.0], [1.0, NAN, NAN, 0.0]])[:, : len(others.T) + keep]
    assert first[1] == 1e200 or not keep
    np.testing.assert_array_equal(*(np.delete(row, [1] if keep else []) for row in (first, second)))


def test_floats_keep_their_width(rows):
    _, holes = rows
    imputer = AMoFAImputer(add_indicator=True).fit(holes)
    single = imputer.transform(holes.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, imputer.transform(holes), rtol=1e-4, atol=1e-4)


def test_masked_values_and_nulls_are_missing(rows):
    _, holes = rows
    expected = AMoFAImputer().fit_transform(holes)
    np.testing.assert_array_equal(AMoFAImputer().fit_transform(np.ma.masked_invalid(holes)), expected)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(holes, columns=list("abcd")).convert_dtypes()
    assert frame.isna().to_numpy().any()
    np.testing.assert_array_equal(AMoFAImputer().fit_transform(frame), expected)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_output_in_frames(rows, library):
    frames = pytest.importorskip(library)
    _, holes = rows
    imputer = AMoFAImputer(n_components=2, add_indicator=True).fit(holes)
    expected, names = imputer.transform(holes), imputer.get_feature_names_out().tolist()
    with sklearn.config_context(transform_output=library):
        frame = imputer.transform(holes)
    for found in (frame, clone(imputer).set_output(transform=library).fit_transform(holes)):
        assert isinstance(found, frames.DataFrame)
        assert list(found.columns) == names
        np.testing.assert_array_equal(found.to_numpy(), expected)


def test_pipelines_and_searches(rows):
    X, holes = rows
    imputer = AMoFAImputer(n_components=1, n_factors=1)
    pipeline = make_pipeline(imputer, LinearRegression())
    search = GridSearchCV(pipeline, {"amofaimputer__n_components": [1, 2]}, cv=2).fit(holes[:, :3], X[:, 3])
    assert search.best_params_["amofaimputer__n_components"] in (1, 2)
    copy = pickle.loads(pickle.dumps(imputer.fit(holes)))
    np.testing.assert_array_equal(copy.transform(holes), imputer.transform(holes))


def test_errors(rows):
    X, holes = rows
    with pytest.raises(ValueError, match="X has 1 value that is infinite, the first in row 3, column 1"):
        AMoFAImputer().fit(np.where(np.arange(len(X))[:, None] * 4 + np.arange(4) == 13, np.inf, holes))
    with pytest.raises(ValueError, match="no value in any row"):
        AMoFAImputer().fit(np.full((5, 3), NAN))
    with pytest.raises(ValueError, match="expecting 4 features"):
        AMoFAImputer().fit(holes).transform(holes[:, :3])
