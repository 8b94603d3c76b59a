"""Results as frames, and mixtures of scikit-learn."""

import copy
import importlib
import pickle

import numpy as np
import pytest

import amofa
from amofa import MixtureOfFactorAnalyzers as Mixture

NAMES = ["a", "b", "c"]


@pytest.fixture
def model(make_model):
    made = make_model(2, 3, (2, 1))
    return Mixture(made.weights, made.means, made.loadings, made.uniquenesses, NAMES)


@pytest.fixture
def rows(model):
    rows = model.sample(6, 0)[0]
    rows[2, 1] = np.nan
    return rows


def results(model, X):
    """All results that have a row for each row of X."""
    return [
        model.predict(X),
        model.predict(X, clusters=1),
        model.predict_proba(X),
        model.predict_proba(X, clusters=1),
        model.score_samples(X),
        model.transform(X),
        model.impute(X),
        model.inverse_transform(model.transform(X)),
        *model.factor_scores(X),
    ]


COLUMNS = [
    ["component"],
    ["cluster"],
    ["component_0", "component_1"],
    ["cluster_0"],
    ["log_density"],
    ["r0", "r1", "z0_0", "z0_1", "z1_0"],
    NAMES,
    NAMES,
    ["z0_0", "z0_1"],
    ["z1_0"],
]


def columns(result):
    return [result.name] if result.ndim == 1 else list(result)


def test_pandas(model, rows):
    pandas = pytest.importorskip("pandas")
    expected = results(model, rows)
    frame = pandas.DataFrame(rows, columns=NAMES, index=[f"row {i}" for i in range(6)])
    assert [type(result) for result in results(model, frame)] == [np.ndarray] * 10
    assert model.set_output(transform="pandas") is model
    found = results(model, frame)
    for result, values in zip(found, expected, strict=True):
        assert isinstance(result, pandas.Series if values.ndim == 1 else pandas.DataFrame)
        np.testing.assert_array_equal(result, values)
        assert list(result.index) == list(frame.index)
    assert list(map(columns, found)) == COLUMNS
    assert list(model.impute(rows).index) == list(range(6))
    model.set_output(transform="default")
    assert isinstance(model.predict(frame), np.ndarray)


def test_polars(model, rows):
    polars = pytest.importorskip("polars")
    expected = results(model, rows)
    found = results(model.set_output(transform="polars"), polars.DataFrame(dict(zip(NAMES, rows.T, strict=True))))
    for result, values in zip(found, expected, strict=True):
        assert isinstance(result, polars.Series if values.ndim == 1 else polars.DataFrame)
        np.testing.assert_array_equal(result.to_numpy(), values)
    assert [[r.name] if isinstance(r, polars.Series) else r.columns for r in found] == COLUMNS


def test_columns_without_names(make_model):
    pandas = pytest.importorskip("pandas")
    plain = make_model(1, 2, (0,)).set_output(transform="pandas")
    assert list(plain.impute([[1.0, 2.0]])) == ["x0", "x1"]
    numbered = pandas.DataFrame([[1.0, np.nan]], columns=[3, 1])
    assert list(plain.impute(numbered)) == [3, 1]
    assert list(plain.impute(numbered, known_columns=[1, 0])) == ["x0", "x1"]


def test_copies_keep_the_output_and_pictures_want_arrays(model, rows):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    model.set_output(transform="pandas")
    for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(twin.predict(rows), pandas.Series)
    for kind in ("clusters", "uncertainty", "density", "factor_scores", "responsibilities"):
        model.plot(rows, kind=kind)


def test_other_outputs_are_refused(model, monkeypatch):
    with pytest.raises(ValueError, match="transform"):
        model.set_output(transform="arrow")

    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(ImportError, match="frames of polars need it"):
        model.set_output(transform="polars")


# ---- messages about frames -------------------------------------------------------------------------------------------


def test_messages_name_columns(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rng.normal(size=(40, 3)), columns=["age", "height", "weight"])
    frame["unit"] = 1.0
    frame["double"] = 2 * frame["age"]
    with pytest.warns(amofa.AmofaWarning) as record:
        amofa.fit(frame)
    texts = " ".join(str(warning.message) for warning in record)
    assert "constant and change no decision: 'unit'" in texts
    assert "'double' from 'age'" in texts or "'age' from 'double'" in texts
    assert "from 0" not in texts
    frame.loc[3, "height"] = np.inf
    with pytest.raises(ValueError, match=r"row 3, column 1 \(from 0\), 'height'; put NaN where"):
        amofa.fit(frame)


# ---- scikit-learn ----------------------------------------------------------------------------------------------------


def test_to_scikit_learn_and_back(make_model, model):
    pytest.importorskip("sklearn")
    plain = make_model(2, 3, (2, 1))
    X, given = plain.sample(50, 1)[0], plain.to_sklearn()
    np.testing.assert_allclose(given.score_samples(X), plain.score_samples(X), rtol=1e-9)
    np.testing.assert_allclose(given.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(given.predict(X), plain.predict(X))
    assert given.bic(X) > 0
    assert given.sample(3)[0].shape == (3, 3)
    back = Mixture.from_sklearn(given)
    np.testing.assert_allclose(back.score_samples(X), plain.score_samples(X), rtol=1e-9)
    assert back.feature_names is None
    assert list(model.to_sklearn().feature_names_in_) == NAMES
    assert Mixture.from_sklearn(model.to_sklearn()).feature_names == tuple(NAMES)


def test_to_scikit_learn_does_not_depend_on_units(make_model):
    pytest.importorskip("sklearn")
    plain = make_model(2, 3, (2, 1))
    units = np.array([1e-8, 1.0, 1e8])
    loadings = [of_one * units[:, None] for of_one in plain.loadings]
    model = Mixture(plain.weights, plain.means * units, loadings, plain.uniquenesses * units**2)
    X = model.sample(20, 0)[0]
    for other in (model.to_sklearn(), Mixture.from_sklearn(model.to_sklearn())):
        np.testing.assert_allclose(other.score_samples(X), model.score_samples(X), rtol=1e-8)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_covariances_of_scikit_learn(rng, covariance_type):
    mixture = pytest.importorskip("sklearn.mixture")
    X = np.concatenate([rng.normal(0, [1, 2, 3], (80, 3)), rng.normal(5, 2, (60, 3)) @ rng.normal(size=(3, 3))])
    for kind in (mixture.GaussianMixture, mixture.BayesianGaussianMixture):
        given = kind(n_components=2, covariance_type=covariance_type, random_state=0).fit(X)
        model = Mixture.from_sklearn(given)
        np.testing.assert_allclose(
            model.predict_proba(X), given.predict_proba(X), atol=1e-6 if kind is mixture.GaussianMixture else 0.2
        )
        assert model.n_factors.tolist() == [0 if covariance_type in ("diag", "spherical") else 2] * 2


def test_no_such_mixtures(monkeypatch, model):
    mixture = pytest.importorskip("sklearn.mixture")
    with pytest.raises(TypeError, match="must be a GaussianMixture of scikit-learn, got int"):
        Mixture.from_sklearn(3)
    with pytest.raises(TypeError, match="GaussianMixture is not fitted; call its fit first"):
        Mixture.from_sklearn(mixture.GaussianMixture())
    arrays = [1.0], [[0.0, 0.0]]
    with pytest.raises(ValueError, match="t components"):
        Mixture(*arrays, [np.zeros((2, 0))], np.ones((1, 2)), degrees_of_freedom=3.0).to_sklearn()
    with pytest.raises(ValueError, match="component 0 is singular"):
        Mixture(*arrays, [np.ones((2, 1))], np.full((1, 2), 1e-30)).to_sklearn()
    monkeypatch.setitem(__import__("sys").modules, "sklearn.mixture", None)
    with pytest.raises(ImportError, match=r"amofa\[sklearn\]"):
        model.to_sklearn()
