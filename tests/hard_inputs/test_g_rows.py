"""Weights, missing values, outliers, labels, mixed data: rows 65 to 78 of docs/hard_inputs.md."""

import numpy as np
import pytest
import scipy.sparse
from fits import blobs, check_equal, check_model, fitted, fitted_with, same_groups
from scipy import stats

import amofa


@pytest.fixture
def two_groups(rng):
    return blobs(rng, [200, 100], [(0, 0, 0), (6, 6, 6)])


# ---- 65, 66 ----------------------------------------------------------------------------------------------------------


def test_65_weights_are_repeated_rows_and_zero_is_absent(rng, two_groups, search):
    X, _ = two_groups
    weights = rng.integers(0, 4, len(X))
    weighted = fitted(X, sample_weight=weights, search=search, check=False)
    repeated = fitted(np.repeat(X, weights, axis=0), search=search)
    check_equal(weighted, repeated)
    absent = weights == 0
    far = X.copy()
    far[absent] = 1e6
    check_equal(weighted, fitted(far, sample_weight=weights, search=search, check=False))
    counted = weighted.score(X, sample_weight=weights)
    assert counted == pytest.approx(weighted.score(np.repeat(X, weights, axis=0)), rel=1e-12)
    assert weighted.bic(X, sample_weight=weights) == pytest.approx(
        repeated.bic(np.repeat(X, weights, axis=0)), rel=1e-12
    )


WRONG_WEIGHTS = {
    "too few": (lambda n: np.ones(n - 1), r"sample_weight has shape \(299,\), but X has 300 rows"),
    "too many": (lambda n: np.ones(n + 1), r"sample_weight has shape \(301,\), but X has 300 rows"),
    "a column": (lambda n: np.ones((n, 1)), r"sample_weight has shape \(300, 1\)"),
    "negative": (lambda n: -np.ones(n), "sample_weight must be finite and not negative, got -1.0 in row 0"),
    "NaN": (lambda n: np.full(n, np.nan), "sample_weight must be finite and not negative, got nan in row 0"),
    "infinite": (lambda n: np.full(n, np.inf), "sample_weight must be finite and not negative, got inf in row 0"),
    "all zero": (np.zeros, "sample_weight is zero in every row"),
}


@pytest.mark.parametrize("name", WRONG_WEIGHTS)
def test_66_weights_are_checked_and_never_ignored(two_groups, name):
    X, _ = two_groups
    make, message = WRONG_WEIGHTS[name]
    model = fitted(X)
    for use in (
        lambda w: amofa.fit(X, sample_weight=w),
        lambda w: model.score(X, sample_weight=w),
        lambda w: model.bic(X, sample_weight=w),
    ):
        with pytest.raises(ValueError, match=message):
            use(make(len(X)))
    counted = np.r_[np.full(200, 1.0), np.full(100, 6.0)]
    weighted = fitted(X, sample_weight=counted, n_components=2)
    np.testing.assert_allclose(weighted.weights, [0.75, 0.25], atol=1e-3)


# ---- 67, 68, 69 ------------------------------------------------------------------------------------------------------


def with_holes(rng, X, share):
    return np.where(rng.random(X.shape) < share, np.nan, X)


def test_67_missing_cells_have_their_exact_marginal_likelihood(rng, two_groups):
    """In a model; a fit does not take them yet."""
    X, _ = two_groups
    X[:200] += rng.standard_normal((200, 1)) * [1, -1, 1]
    model = fitted(X)
    holes = with_holes(rng, X, 0.1)
    expected = np.zeros(len(X))
    for i, row in enumerate(holes):
        seen = np.flatnonzero(~np.isnan(row))
        terms = [
            stats.multivariate_normal(model.means[k][seen], model.covariance(k)[np.ix_(seen, seen)]).logpdf(row[seen])
            for k in range(model.n_components)
            if len(seen)
        ]
        expected[i] = np.logaddexp.reduce(np.log(model.weights) + terms) if terms else 0.0
    np.testing.assert_allclose(model.score_samples(holes), expected, rtol=1e-9, atol=1e-12)
    filled = model.impute(holes)
    known = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[known], X[known])
    assert np.isfinite(filled).all()
    error = (filled - X)[~known]
    assert (error**2).mean() < 0.5 * (X - X.mean(axis=0))[~known].var()


@pytest.mark.parametrize("options", [{}, {"init": np.repeat([0, 1], [200, 100])}], ids=["found", "init"])
def test_67_68_69_a_fit_takes_missing_cells(two_groups, options, rng):
    X, y = two_groups
    X[3, 1] = np.nan
    assert fitted(X, check=False, **options).n_components == 2
    X[rng.random(X.shape) < 0.3] = np.nan
    model = fitted(X, check=False, **options)
    assert model.n_components == 2
    seen = ~np.isnan(X).all(axis=1)
    assert (model.predict(X)[seen] == y[seen]).mean() > 0.97


def test_68_a_row_without_any_cell_has_the_mixing_weights(two_groups):
    X, _ = two_groups
    model = fitted(X)
    empty = np.full((2, 3), np.nan)
    np.testing.assert_allclose(model.predict_proba(empty), [model.weights] * 2, rtol=1e-12)
    np.testing.assert_array_equal(model.score_samples(empty), 0.0)
    np.testing.assert_allclose(model.impute(empty), [model.weights @ model.means] * 2, rtol=1e-12)


# ---- 70, 71, 72, 73 --------------------------------------------------------------------------------------------------


def test_70_a_start_from_labels_or_from_a_model(rng):
    X, labels = blobs(rng, [150, 150], [(0, 0), (3.2, 0)])
    some = np.where(np.arange(300) % 10 == 0, labels, -1)
    for init in (labels, some, fitted(X, n_components=2)):
        model = fitted(X, init=init)
        assert model.history[0].action == "start"
        assert model.history[0].n_components == 2
        assert (model.predict(X) == labels).mean() > 0.9 or (model.predict(X) != labels).mean() > 0.9


def test_71_a_classifier_with_log_posteriors():
    datasets = pytest.importorskip("sklearn.datasets")
    sklearn = pytest.importorskip("amofa.sklearn")
    X, y = datasets.load_iris(return_X_y=True)
    classifier = sklearn.AMoFAClassifier().fit(X[::2], y[::2])
    logs = classifier.predict_log_proba(X)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[logs.argmax(axis=1)])
    assert classifier.score(X[1::2], y[1::2]) > 0.93


def test_72_a_rare_class_of_many_clusters(rng):
    sklearn = pytest.importorskip("amofa.sklearn")
    angles = 2 * np.pi * np.arange(5) / 5
    centres = 9 * np.column_stack([np.cos(angles), np.sin(angles)])

    def drawn(n):
        rare, _ = blobs(rng, [n] * 5, centres, 0.6)
        return np.concatenate([rng.standard_normal((20 * n, 2)), rare]), np.repeat(["usual", "rare"], [20 * n, 5 * n])

    X, y = drawn(20)
    classifier = sklearn.AMoFAClassifier(single_weight=0).fit(X, y)
    n_components = dict(zip(classifier.classes_, classifier.n_components_, strict=True))
    assert n_components["rare"] == 5
    # AIC may give the usual class a small component or two, inside the large one or at its edge.
    assert n_components["usual"] <= 3
    new, new_y = drawn(200)
    assert classifier.score(X, y) == 1
    assert classifier.score(new, new_y) > 0.999
    # By default each class has one factor analyser of all its rows beside its mixture.
    classifier = sklearn.AMoFAClassifier().fit(X, y)
    with_single = {name: number + 1 for name, number in n_components.items()}
    assert dict(zip(classifier.classes_, classifier.n_components_, strict=True)) == with_single
    assert classifier.score(X, y) > 0.99
    assert classifier.score(new, new_y) > 0.997


def test_73_prediction_of_the_training_rows(rng):
    X, _ = blobs(rng, [200, 150], [(0, 0), (2, 1)])
    for _ in range(2):  # refitted
        model = fitted(X)
        np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
        np.testing.assert_array_equal(model.predict(X), [model.predict(row[None])[0] for row in X])


# ---- 74, 75, 76 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [3, 30, 300])
def test_74_identical_rows_have_finite_scores(rng, copies):
    X = np.concatenate([np.full((copies, 2), 5.0), rng.standard_normal((100, 2))])
    for options in ({}, {"n_components": 2}):
        model = fitted(X, **options)
        density = model.score_samples(X)
        assert np.isfinite(density).all()
        assert len(set(density[:copies].tolist())) == 1
        assert density[0] > density[copies:].min()


def closest(model, X):
    """The least distance of two components' means, in standard deviations of their noise."""
    distances = [
        np.sqrt(((a - b) ** 2 / np.minimum(u, v)).max())
        for k, (a, u) in enumerate(zip(model.means, model.uniquenesses, strict=True))
        for b, v in zip(model.means[:k], model.uniquenesses[:k], strict=True)
    ]
    return min(distances, default=np.inf)


@pytest.mark.parametrize("draw", range(24))
def test_75_fewer_distinct_rows_than_components(draw):
    """Components that EM only slowly brings together are one: draws 7, 12 and 23 have some."""
    rng = np.random.default_rng(draw)
    X = rng.standard_normal((9, 3))[np.r_[np.arange(9), rng.integers(0, 9, 8)]]
    assert closest(fitted(X), X) > 1
    model = fitted_with(10, X)
    assert 1 < model.n_components < 10
    assert closest(model, X) > 1


def test_76_log_likelihood_has_the_mixing_weights(rng):
    X, _ = blobs(rng, [270, 30], [(0, 0), (4, 4)])
    model = fitted(X)
    terms = [
        np.log(w) + stats.multivariate_normal(model.means[k], model.covariance(k)).logpdf(X)
        for k, w in enumerate(model.weights)
    ]
    density = np.logaddexp.reduce(terms)
    np.testing.assert_allclose(model.score_samples(X), density, rtol=1e-10)
    assert model.score(X) == pytest.approx(density.mean(), rel=1e-10)
    assert model.log_likelihood == pytest.approx(density.sum(), rel=1e-10)


# ---- 77, 78 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_matrix", "csr_matrix"])
def test_77_sparse_tables(two_groups, form):
    X, _ = two_groups
    sparse, model = getattr(scipy.sparse, form)(X), fitted(X)
    for use in (amofa.fit, model.predict, model.score_samples, model.transform):
        with pytest.raises(TypeError, match=r"X is a sparse matrix; pass X.toarray\(\)"):
            use(sparse)


def test_78_categories_are_refused_by_name_and_codes_are_numbers(rng):
    pandas = pytest.importorskip("pandas")
    levels = rng.integers(0, 3, 300)
    frame = pandas.DataFrame({"length": rng.standard_normal(300) + 5 * (levels == 2), "colour": list("rgb" * 100)})
    for table in (frame, frame.astype({"colour": "category"})):
        with pytest.raises(TypeError, match=r"X holds values that are not numbers in column 'colour' .* leave them"):
            amofa.fit(table)
    # A column of codes is a number to the model, its three levels as good as three groups.
    X = np.column_stack([frame["length"], levels.astype(float)])
    model = fitted(X)
    check_model(model, X)
    assert same_groups(levels == 2, model.predict(X) == model.predict([[5.0, 2.0]])[0])
