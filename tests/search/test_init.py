"""Searches that start from a model or from labels."""

import math

import datasets
import numpy as np
import pytest
from fits import NOISES, check_model

import amofa
from amofa._data.standardize import Standardized
from amofa._parameters import Component
from amofa._search.init import _with_most_factors, check_init
from amofa.metrics import normalized_information_distance

Mixture = amofa.MixtureOfFactorAnalyzers


@pytest.fixture
def drawn(rng):
    """Rows and clusters of the paper's second example."""
    return datasets.example_2(rng)


def cost(model):
    """The lowest that the search accepted with as many components as the model has."""
    return min(step.cost for step in model.history if step.accepted and step.n_components == model.n_components)


def actions(model):
    return [step.action for step in model.history if step.accepted]


# ---- a model ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"search": "paper"},
        {"search": "paper", "criterion": "bic"},
        {},
        {"noise": "component"},
        {"noise": "shared"},
        {"noise": "isotropic"},
        {"criterion": "bic", "prior_rows": 0},
        {"criterion": "icl"},
        {"n_components": 3},
        {"n_factors": 1},
    ],
)
@pytest.mark.parametrize("name", ["example", "factors", "wide", "few"])
def test_what_a_search_found_gets_no_worse(rng, name, options):
    X = {
        "example": lambda: datasets.example_1(rng)[0],
        "factors": lambda: datasets.factor_analysers(rng, 6, [2, 1], [150, 100])[0],
        "wide": lambda: rng.normal(size=(24, 30)) + np.repeat([[0], [5]], 12, axis=0),
        "few": lambda: rng.normal(size=(30, 4)) + np.repeat([[0], [4], [9]], 10, axis=0),
    }[name]()
    model = amofa.fit(X, **options)
    again = amofa.fit(X, init=model, **options)
    assert cost(again) <= cost(model) + 2e-3
    check_model(again, X)
    if "n_components" in options:
        assert again.n_components == model.n_components


@pytest.mark.parametrize("noise", NOISES)
def test_a_model_is_looked_at_as_it_is(drawn, noise):
    X, _ = drawn
    model = amofa.fit(X, noise=noise)
    first = amofa.fit(X, noise=noise, init=model).history[0]
    assert (first.action, first.n_iter, first.accepted) == ("start", 0, True)
    assert sorted(first.n_factors) == sorted(model.n_factors)
    assert first.cost == pytest.approx(model.history[-1].cost, rel=1e-9)
    assert first.log_likelihood == pytest.approx(model.log_likelihood, rel=1e-9)


@pytest.mark.filterwarnings("ignore:EM of the chosen model did not converge")
def test_the_search_goes_on_from_a_model(drawn, search):
    """Both ways: splits from two components, fewer from eight."""
    X, y = drawn
    few = amofa.fit(X, n_components=2, search=search)
    many = amofa.fit(X, n_components=8, n_factors=1, search=search)
    # Down from eight, there may be another local optimum on the way.
    for init, numbers in ((few, (4,)), (many, (4, 5, 6))):
        model = amofa.fit(X, init=init, search=search)
        assert model.n_components in numbers
        assert cost(model) < model.history[0].cost
        assert normalized_information_distance(y, model.predict(X)) < 0.4
        # The first EM of the paper's search may already leave some out.
        assert min(4, init.n_components) <= model.history[0].n_components <= init.n_components
    assert "split" in actions(amofa.fit(X, init=few, search=search))


@pytest.mark.parametrize("options", [{"n_components": 3}, {"max_components": 3}, {"n_factors": [1, 1, 0]}])
@pytest.mark.parametrize("start", [2, 5])
@pytest.mark.filterwarnings("ignore:5 components were asked for, but the search found only 4")
def test_given_numbers_of_components_are_kept(drawn, search, options, start):
    X, _ = drawn
    if search == "paper" and "n_factors" in options:
        options = {"n_factors": [1, 1, 2]}
    init = amofa.fit(X, n_components=start, search=search)
    model = amofa.fit(X, init=init, search=search, **options)
    assert model.n_components == 3
    if "n_factors" in options:
        assert model.n_factors.tolist() == options["n_factors"]
    check_model(model, X)


@pytest.mark.parametrize(("options", "most"), [({"n_factors": 1}, 1), ({"n_factors": 3}, 3), ({"max_factors": 1}, 1)])
def test_given_numbers_of_factors_are_kept(rng, search, options, most):
    X, _ = datasets.factor_analysers(rng, 5, [2, 2], [200, 150])
    init = Mixture([0.5, 0.5], [[0] * 5, [3] * 5], rng.normal(size=(2, 5, 2)), np.ones((2, 5)))
    model = amofa.fit(X, init=init, search=search, **options)
    if "n_factors" in options:
        assert set(model.n_factors.tolist()) == {most}
    else:
        assert model.n_factors.max() <= most


def test_units_do_not_matter(drawn, search):
    X, _ = drawn
    units, origin = np.array([1e-6, 1e5]), np.array([3.0, -1e6])
    init = amofa.fit(X, n_components=2, search=search)
    scaled = Mixture(
        init.weights,
        init.means * units + origin,
        [loadings * units[:, None] for loadings in init.loadings],
        init.uniquenesses * units**2,
    )
    plain, other = amofa.fit(X, init=init, search=search), amofa.fit(X * units + origin, init=scaled, search=search)
    assert actions(plain) == actions(other)
    np.testing.assert_array_equal(plain.predict(X), other.predict(X * units + origin))


@pytest.mark.filterwarnings("ignore:1 of 3 columns of X are constant")
def test_constant_columns_do_not_matter(drawn, search):
    X, _ = drawn
    Y = np.insert(X, 1, 7.0, axis=1)
    init = amofa.fit(Y, search=search, n_components=2)
    model = amofa.fit(Y, init=init, search=search)
    assert model.n_components == 4
    assert model.history == amofa.fit(X, init=amofa.fit(X, search=search, n_components=2), search=search).history


def test_a_model_far_from_the_rows(drawn, search):
    X, _ = drawn
    init = Mixture([0.5, 0.5], [[1e6, 0], [1e6, 1e6]], np.zeros((2, 2, 0)), np.ones((2, 2)))
    check_model(amofa.fit(X, init=init, search=search), X)


def test_components_that_are_idle_or_the_same(drawn, search):
    """They are not counted among those asked for."""
    X, _ = drawn
    model = amofa.fit(X)
    k = [0, 0, 1, 2, 3, 3]
    init = Mixture(
        [*(0.99 * model.weights[k] / model.weights[k].sum()), 0.01],
        [*model.means[k], [1e3, 1e3]],
        [*(model.loadings[j] for j in k), np.zeros((2, 0))],
        [*model.uniquenesses[k], [1.0, 1.0]],
    )
    found = amofa.fit(X, init=init, n_components=4, search=search)
    assert found.n_components == 4
    assert found.log_likelihood == pytest.approx(model.log_likelihood, abs=15)
    assert np.linalg.norm(found.means[:, None] - found.means[None], axis=2)[np.triu_indices(4, 1)].min() > 0.01


def test_a_component_of_weight_0(drawn):
    X, _ = drawn
    init = Mixture([1.0, 0.0], [[0, 0], [1, 1]], np.zeros((2, 2, 0)), np.ones((2, 2)))
    assert amofa.fit(X, init=init).history[0].n_components == 1


def test_names_of_columns(drawn):
    pandas = pytest.importorskip("pandas")
    X, _ = drawn
    frame = pandas.DataFrame(X, columns=["a", "b"])
    init = amofa.fit(frame, n_components=2)
    assert amofa.fit(frame, init=init).feature_names == ("a", "b")
    assert amofa.fit(X, init=init).feature_names is None
    with pytest.raises(ValueError, match="another order"):
        amofa.fit(frame[["b", "a"]], init=init)


# ---- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["all", "numbers with gaps", "one in ten", "three of each"])
def test_labels(drawn, search, kind):
    X, y = drawn
    labels = {
        "all": lambda: y,
        "numbers with gaps": lambda: np.array([7, 0, 2, 100])[y],
        "one in ten": lambda: np.where(np.arange(len(y)) % 10 == 0, y, -1),
        "three of each": lambda: np.where(
            np.isin(np.arange(len(y)) % 100, [5, 6, 7]) & (np.arange(1000) < 1000), y, -1
        ),
    }[kind]()
    model = amofa.fit(X, init=labels, search=search)
    assert model.n_components == 4
    assert normalized_information_distance(y, model.predict(X)) < 0.3
    assert model.history[0].n_components == 4
    check_model(model, X)


def test_a_start_that_no_search_comes_to(rng, search):
    """Labels decide of two equal ways: with K and factors given, EM goes to the nearest maximum."""
    X = rng.normal(size=(400, 2)) + 5 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])[np.arange(400) % 4]
    for column in (0, 1):
        labels = (X[:, column] > 0).astype(int)
        model = amofa.fit(X, init=labels, n_components=2, n_factors=0, search=search)
        assert np.abs(np.diff(model.means, axis=0)).argmax() == column


@pytest.mark.parametrize("noise", NOISES)
def test_components_of_labels_are_the_fits_of_their_rows(rng, noise):
    X, y = datasets.factor_analysers(rng, 6, [2, 1], [200, 150], distance=30)
    first = amofa.fit(X, init=y, noise=noise).history[0]
    assert first.n_iter == 0
    # Shared noise may leave more factors to a search, and isotropic noise needs more than were drawn.
    expected = (2, 1) if noise == "shared" else tuple(amofa.fit(X, n_components=2, noise=noise).n_factors.tolist())
    assert first.n_factors == expected


def test_rows_without_weight_have_no_say(drawn, search):
    X, y = drawn
    weights = (np.arange(len(X)) % 5 > 0).astype(float)
    wild = np.where(weights > 0, y, 77)
    a = amofa.fit(X, init=wild, sample_weight=weights, search=search)
    b = amofa.fit(X[weights > 0], init=y[weights > 0], search=search)
    assert a.history[0].n_components == 4
    assert cost(a) == pytest.approx(cost(b), rel=1e-9)


def test_labels_that_each_row_has_of_its_own(rng, search):
    X = rng.normal(size=(12, 2))
    check_model(amofa.fit(X, init=np.arange(12), search=search), X)


def test_rows_that_are_all_the_same(search):
    with pytest.warns(amofa.AmofaWarning, match="constant"):
        assert amofa.fit(np.ones((4, 2)), init=[0, 0, 1, 1], search=search).n_components == 1


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "error", "message"),
    [
        (Mixture([1.0], [[0.0] * 3], [np.zeros((3, 0))], [[1.0] * 3]), ValueError, "of 3 columns, but X has 2"),
        (Mixture([1.0], [[0.0] * 2], [np.zeros((2, 0))], [[1e308] * 2]), ValueError, "another scale than X"),
        ([0] * 29, ValueError, r"init has shape \(29,\), but X has 30 rows; pass one label for each row"),
        (np.zeros((30, 1), int), ValueError, r"init has shape \(30, 1\), but X has 30 rows"),
        ([-1] * 30, ValueError, "init labels no row that counts"),
        ([0] * 29 + [-2], ValueError, r"init has the label -2 in row 29 \(from 0\); labels are 0 or more, or -1"),
        ([0.5] * 30, TypeError, "init must be a mixture, or whole numbers or names, one label for each row, got 0.5"),
        ([True] * 30, TypeError, "init must be a mixture, .* got bool"),
        ([0] * 29 + ["a"], TypeError, "init must be a mixture, .* got str"),
        ([math.nan] * 29 + [math.inf], TypeError, "init must be a mixture, .* got inf"),
        ("k-means", TypeError, "init must be a mixture, or whole numbers or names, .* got str"),
        (2.5, TypeError, "init must be a mixture, .* got float"),
    ],
)
def test_refusals(rng, init, error, message):
    with pytest.raises(error, match=message):
        amofa.fit(rng.standard_normal((30, 2)) * 1e-3, init=init)


def test_labels_of_rows_without_weight_alone(rng):
    with pytest.raises(ValueError, match="init labels no row that counts"):
        amofa.fit(rng.standard_normal((3, 2)), init=[0, -1, -1], sample_weight=[0, 1, 1])


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_factors_that_are_too_many_become_noise(rng):
    loadings, noise = rng.normal(size=(4, 6)), rng.uniform(0.5, 1, 6)
    component = Component(1.0, np.zeros(6), loadings, noise)
    assert _with_most_factors(component, 4) is component
    for most in range(4):
        fewer = _with_most_factors(component, most)
        assert fewer.loadings.shape == (most, 6)
        np.testing.assert_allclose(
            (fewer.loadings**2).sum(axis=0) + fewer.uniquenesses, (loadings**2).sum(axis=0) + noise, rtol=1e-12
        )
        assert (fewer.uniquenesses >= noise).all()
    white = loadings / np.sqrt(noise)
    best = np.linalg.eigh(white.T @ white)[1][:, -1] @ np.diag(1 / np.sqrt(noise))
    one = _with_most_factors(component, 1).loadings[0] / noise
    assert abs(one @ best) == pytest.approx(np.linalg.norm(one) * np.linalg.norm(best), rel=1e-9)


def test_rows_that_are_the_same_may_have_several_labels():
    X = np.repeat([[0.0, 1.0], [1.0, 0.0], [5.0, 6.0], [6.0, 5.0]], 20, axis=0)
    labels = np.repeat([0, 1, 0, 2], 20)
    labels[1] = 1
    rows = check_init(labels, X, None, None)
    groups = list(rows.groups(Standardized.of(X, None).coordinates))
    assert [group.total_weight for group in groups] == [39.0, 21.0, 20.0]
    assert [group.n_rows for group in groups] == [2, 2, 1]
    check_model(amofa.fit(X, init=labels), X)


# ---- labels as people have them --------------------------------------------------------------------------------------


def same_start(X, labels, numbers):
    a, b = (check_init(init, X, None, None).labels for init in (labels, numbers))
    np.testing.assert_array_equal(a, b)


def test_names_and_missing_labels(rng):
    pandas = pytest.importorskip("pandas")
    X = rng.standard_normal((6, 2))
    numbers = [1, -1, 0, 1, 2, -1]
    names = ["b", None, "a", "b", "c", math.nan]
    same_start(X, names, numbers)
    same_start(X, pandas.Series(names), numbers)
    same_start(X, pandas.Series(names, dtype="category"), numbers)
    same_start(X, pandas.Series(names, dtype="string"), numbers)
    same_start(X, [1, None, 0, 1.0, 2, math.nan], numbers)
    same_start(X, np.array([1, math.nan, 0, 1, 2, -1]), numbers)
    same_start(X, pandas.Series([1, None, 0, 1, 2, -1], dtype="Int64"), numbers)
    same_start(X, np.array(["b", "b", "a", "b", "c", "a"]), [1, 1, 0, 1, 2, 0])


def test_labels_of_polars(rng):
    polars = pytest.importorskip("polars")
    same_start(rng.standard_normal((3, 2)), polars.Series(["b", None, "a"]), [1, -1, 0])


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_a_mixture_of_scikit_learn(rng, covariance_type):
    mixture = pytest.importorskip("sklearn.mixture")
    X = np.concatenate([rng.normal(0, 1, (80, 3)), rng.normal(5, 2, (60, 3))])
    given = mixture.GaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(X)
    model = amofa.fit(X, init=given, n_components=2)
    assert model.n_components == 2
    assert model.history == amofa.fit(X, init=Mixture.from_sklearn(given), n_components=2).history
    with pytest.raises(TypeError, match="GaussianMixture is not fitted"):
        amofa.fit(X, init=mixture.GaussianMixture(2))
