"""fit(): what it refuses, what it makes of odd data, and what its answer says."""

from __future__ import annotations

import re
import tracemalloc

import datasets
import numpy as np
import pytest
import scipy.sparse

import amofa


@pytest.fixture(params=["thorough", "paper"])
def search(request):
    return request.param


def two_groups(rng, d=3, n=300):
    """Rows of two groups, a third in the first, that nobody would take for anything else."""
    X = rng.standard_normal((n, d))
    X[n // 3 :] += 6
    return X


def check_model(model, X):
    """Finite parameters, positive uniquenesses, weights and posteriors that sum to 1, and figures that agree."""
    X = np.asarray(X, dtype=np.float64)
    assert model.n_features == X.shape[1]
    for array in (model.weights, model.means, model.uniquenesses, *model.loadings):
        assert np.isfinite(array).all()
    assert (model.uniquenesses > 0).all()
    assert (model.weights > 0).all()
    assert model.weights.sum() == pytest.approx(1.0, abs=1e-12)
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), model.n_components)
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    density = model.score_samples(X)
    assert np.isfinite(density).all()
    assert model.log_likelihood == pytest.approx(density.sum(), rel=1e-9, abs=1e-9 * len(X))
    assert np.isfinite(model.message_length)
    assert all(np.isfinite(step.cost) for step in model.history)


def check_same(a, b):
    """Two models to the last bit."""
    assert a.n_factors.tolist() == b.n_factors.tolist()
    for name in ("weights", "means", "uniquenesses"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for left, right in zip(a.loadings, b.loadings, strict=True):
        np.testing.assert_array_equal(left, right)
    assert a.log_likelihood == b.log_likelihood
    assert a.history == b.history


# ---- refused: X ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros(3), ValueError, r"X must have two dimensions .* got 1; use X.reshape\(-1, 1\)"),
        (1.0, ValueError, "X must have two dimensions"),
        (np.zeros((2, 2, 2)), ValueError, "X must have two dimensions .* got 3"),
        (np.zeros((0, 2)), ValueError, r"X has shape \(0, 2\); at least one row"),
        (np.zeros((2, 0)), ValueError, r"X has shape \(2, 0\); at least one row and one column"),
        ([], ValueError, "X must have two dimensions"),
        ([[1.0, 2.0], [3.0]], ValueError, "inhomogeneous"),
        ([[1.0, np.nan]], ValueError, "X has 1 value that is NaN or infinite, the first in row 0, column 1"),
        ([[1.0, 2.0], [np.inf, -np.inf]], ValueError, "X has 2 values that are NaN or infinite, .* row 1, column 0"),
        (np.eye(2) * 1j, ValueError, "X is complex; pass its real part"),
        ([["a", "b"]], TypeError, "X has dtype <U1; a table of real numbers is needed"),
        (np.array([[1, "a"]], object), TypeError, "X holds values that are not numbers"),
        (np.array([["2020-01-01"]], "M8[D]"), TypeError, "X has dtype datetime64"),
        (scipy.sparse.csr_array(np.eye(3)), TypeError, r"X is a sparse matrix; pass X.toarray\(\)"),
        (None, ValueError, "X must have two dimensions"),
    ],
)
def test_tables_that_are_refused(X, error, message):
    with pytest.raises(error, match=message):
        amofa.fit(X)


def test_a_spread_without_a_finite_variance_is_refused():
    with pytest.raises(ValueError, match=r"column 1 of X spans -1 to 1e\+308; divide it by a constant first"):
        amofa.fit([[0.0, -1.0], [1.0, 1e308]])


# ---- refused: the other arguments ------------------------------------------------------------------------------------

OTHER_OPTIONS = [
    ("n_components", 0, ValueError, "n_components must be at least 1, got 0"),
    ("n_components", -1, ValueError, "n_components must be at least 1, got -1"),
    ("n_components", 1.5, TypeError, "n_components must be a whole number, got 1.5"),
    ("n_components", 2.0, TypeError, "n_components must be a whole number, got 2.0"),
    ("n_components", True, TypeError, "n_components must be a whole number, got True"),
    ("n_components", np.True_, TypeError, "n_components must be a whole number"),
    ("n_components", "3", TypeError, "n_components must be a whole number, got '3'"),
    ("n_components", [2], TypeError, r"n_components must be a whole number, got \[2\]"),
    ("n_factors", -1, ValueError, "n_factors must be from 0 to 3, got -1"),
    ("n_factors", 4, ValueError, "n_factors must be from 0 to 3, got 4"),
    ("n_factors", 1.5, TypeError, "n_factors must be a whole number or a sequence of them, got 1.5"),
    ("n_factors", True, TypeError, "n_factors must be a whole number, got True"),
    ("n_factors", "12", TypeError, "n_factors.* must be a whole number, got '1'"),
    ("n_factors", [], ValueError, "n_factors has 0 entries"),
    ("n_factors", [1, -1], ValueError, r"n_factors\[1\] must be from 0 to 3, got -1"),
    ("n_factors", [1, 2, 4], ValueError, r"n_factors\[2\] must be from 0 to 3, got 4"),
    ("n_factors", [1, 1.5], TypeError, r"n_factors\[1\] must be a whole number, got 1.5"),
    ("n_factors", [[1], [1]], TypeError, r"n_factors\[0\] must be a whole number, got \[1\]"),
    ("n_factors", object(), TypeError, "n_factors must be a whole number or a sequence of them"),
    ("search", "best", ValueError, "search must be one of .*'paper'.*, got 'best'"),
    ("search", None, ValueError, "search must be one of .*, got None"),
    ("search", ["paper"], ValueError, r"search must be one of .*, got \['paper'\]"),
    ("criterion", "BIC", ValueError, "criterion must be one of 'evidence', 'mml', 'bic', 'aic', 'icl', got 'BIC'"),
    ("criterion", 3, ValueError, "criterion must be one of .*, got 3"),
    ("criterion", "", ValueError, "criterion must be one of .*, got ''"),
    ("noise", "full", ValueError, "noise must be one of 'component', 'shared', 'isotropic', 'auto', got 'full'"),
    ("noise", 3, ValueError, "noise must be one of .*, got 3"),
    ("prior_scale", 1.0, ValueError, r"prior_scale has shape \(\); pass one for each of 3 columns"),
    ("prior_scale", [1.0, 1.0], ValueError, r"prior_scale has shape \(2,\); pass one for each of 3 columns"),
    ("prior_scale", [1.0, 0.0, 1.0], ValueError, "prior_scale must be positive and finite, got 0.0 for column 1"),
    ("prior_scale", [1.0, 1.0, np.inf], ValueError, "prior_scale must be positive and finite, got inf for column 2"),
    ("prior_scale", ["a", "b", "c"], TypeError, "prior_scale must hold real numbers"),
    ("prior_rows", -1, ValueError, "prior_rows must not be negative, got -1"),
    ("prior_rows", np.nan, ValueError, "prior_rows must be finite, got nan"),
    ("prior_rows", "4", TypeError, "prior_rows must be a number, got '4'"),
    ("prior_rows", True, TypeError, "prior_rows must be a number, got True"),
    ("prior_rows", False, TypeError, "prior_rows must be a number, got False"),
    ("noise_floor", 0, ValueError, "noise_floor must be positive and finite, got 0"),
    ("noise_floor", -0.1, ValueError, "noise_floor must be positive and finite, got -0.1"),
    ("noise_floor", np.nan, ValueError, "noise_floor must be positive and finite, got nan"),
    ("noise_floor", np.inf, ValueError, "noise_floor must be positive and finite, got inf"),
    ("noise_floor", True, TypeError, "noise_floor must be a number, got True"),
    ("noise_floor", "0.1", TypeError, "noise_floor .*'0.1'"),
    ("noise_floor", 1j, TypeError, "noise_floor .*1j"),
    ("noise_floor", {}, TypeError, "noise_floor .*{}"),
    ("noise_floor", [1.0, 1.0], ValueError, r"noise_floor has shape \(2,\); pass one number, or one for each of 3"),
    ("noise_floor", [[1.0, 1.0, 1.0]], ValueError, r"noise_floor has shape \(1, 3\)"),
    ("noise_floor", [1.0, 0.0, 1.0], ValueError, "noise_floor must be positive and finite, got 0.0 for column 1"),
    ("noise_floor", [1.0, 1.0, np.nan], ValueError, "noise_floor must be positive and finite, got nan for column 2"),
    ("noise_floor", ["a", "b", "c"], TypeError, "noise_floor "),
    ("noise_floor", [1.0, 1j, 1.0], TypeError, "noise_floor "),
    ("sample_weight", np.ones(29), ValueError, r"sample_weight has shape \(29,\), but X has 30 rows"),
    ("sample_weight", np.ones((30, 1)), ValueError, r"sample_weight has shape \(30, 1\), but X has 30 rows"),
    ("sample_weight", 1.0, ValueError, r"sample_weight has shape \(\), but X has 30 rows"),
    ("sample_weight", -np.ones(30), ValueError, "sample_weight must be finite and not negative, got -1.0 in row 0"),
    ("sample_weight", [1.0] * 29 + [np.nan], ValueError, "sample_weight must be .*, got nan in row 29"),
    ("sample_weight", [np.inf] + [1.0] * 29, ValueError, "sample_weight must be .*, got inf in row 0"),
    ("sample_weight", np.zeros(30), ValueError, "sample_weight is zero in every row; at least one row must count"),
    ("sample_weight", np.full(30, 1e307), ValueError, "sample_weight "),  # their sum is not finite
    ("sample_weight", ["a"] * 30, TypeError, "sample_weight must hold real numbers"),
    ("sample_weight", np.full(30, 1 + 1j), TypeError, "sample_weight must hold real numbers"),
    ("sample_weight", np.ones(30, "M8[s]"), TypeError, "sample_weight must hold real numbers"),
    ("max_components", 0, ValueError, "max_components must be at least 1, got 0"),
    ("max_components", 1.5, TypeError, "max_components must be a whole number, got 1.5"),
    ("max_components", True, TypeError, "max_components must be a whole number, got True"),
    ("max_factors", -1, ValueError, "max_factors must be at least 0, got -1"),
    ("max_factors", "1", TypeError, "max_factors must be a whole number, got '1'"),
    ("tol", 0, ValueError, "tol must be positive and finite, got 0"),
    ("tol", -1e-5, ValueError, "tol must be positive and finite, got -1e-05"),
    ("tol", np.nan, ValueError, "tol must be positive and finite, got nan"),
    ("tol", np.inf, ValueError, "tol must be positive and finite, got inf"),
    ("tol", "small", TypeError, "tol must be a number, got 'small'"),
    ("tol", None, TypeError, "tol must be a number, got None"),
    ("tol", True, TypeError, "tol must be a number, got True"),
    ("max_iter", 0, ValueError, "max_iter must be at least 1, got 0"),
    ("max_iter", 10.0, TypeError, "max_iter must be a whole number, got 10.0"),
    ("max_iter", None, TypeError, "max_iter must be a whole number, got None"),
    ("max_iter", False, TypeError, "max_iter must be a whole number, got False"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), OTHER_OPTIONS)
def test_options_that_are_refused(rng, name, value, error, message):
    with pytest.raises(error, match=message):
        amofa.fit(rng.standard_normal((30, 3)), **{name: value})


# What each search refuses by itself.
PAPERS_OPTIONS = [
    ("criterion", "BIC", ValueError, "criterion must be one of 'mml', 'bic', 'aic', 'icl', got 'BIC'"),
    ("criterion", 3, ValueError, "criterion must be one of 'mml', .*, got 3"),
    ("criterion", "", ValueError, "criterion must be one of 'mml', .*, got ''"),
    ("criterion", "evidence", ValueError, "criterion='evidence' needs search='thorough'"),
    ("noise", "shared", ValueError, "noise='shared' needs search='thorough'"),
    ("noise", "auto", ValueError, "noise='auto' needs search='thorough'"),
    ("noise", "full", ValueError, "noise must be one of .*, got 'full'"),
    ("prior_rows", 4, ValueError, "prior_rows needs search='thorough'"),
    ("prior_rows", 0, ValueError, "prior_rows needs search='thorough'"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), PAPERS_OPTIONS)
def test_options_that_the_papers_search_refuses(rng, name, value, error, message):
    with pytest.raises(error, match=message):
        amofa.fit(rng.standard_normal((30, 3)), search="paper", **{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 3, "n_factors": [1, 1]}, "n_factors has 2 entries.* 3 components"),
        ({"n_components": 3, "max_components": 2}, "max_components must be at least 3, got 2"),
        ({"n_factors": [1, 1, 1], "max_components": 2}, "max_components must be at least 3, got 2"),
        ({"n_factors": 2, "max_factors": 1}, "max_factors must be at least 2, got 1"),
        ({"n_factors": [0, 2], "max_factors": 1}, "max_factors must be at least 2, got 1"),
    ],
)
def test_options_that_contradict_each_other_are_refused(rng, options, message):
    with pytest.raises(ValueError, match=message):
        amofa.fit(rng.standard_normal((30, 3)), **options)


def test_options_are_given_by_name(rng):
    with pytest.raises(TypeError, match="positional argument"):
        amofa.fit(rng.standard_normal((30, 3)), 2)


@pytest.mark.parametrize(
    ("options", "components", "factors"),
    [
        ({"n_components": np.int64(2), "n_factors": np.int8(1)}, 2, [1, 1]),
        ({"n_components": np.uint8(2), "n_factors": np.array([2, 0])}, 2, [2, 0]),
        ({"n_factors": (1, 2)}, 2, [1, 2]),
        ({"n_factors": range(2)}, 2, [0, 1]),
        ({"n_components": 2, "n_factors": 3}, 2, [3, 3]),
    ],
)
def test_whole_numbers_of_all_kinds_are_taken(rng, search, options, components, factors):
    model = amofa.fit(two_groups(rng), search=search, **options)
    assert model.n_components == components
    assert model.n_factors.tolist() == factors


# ---- odd data --------------------------------------------------------------------------------------------------------


def collinear(rng):
    """Four columns, the third the sum of the first two, the fourth twice the first."""
    a = rng.standard_normal((200, 2))
    return np.column_stack([a, a.sum(axis=1), 2 * a[:, 0]])


def outlier(rng):
    X = rng.standard_normal((200, 3))
    X[17, 1] = 1e150
    return X


ODD = {
    "two rows": lambda rng: rng.standard_normal((2, 3)),
    "two rows of one column": lambda rng: [[0.0], [1.0]],
    "fewer rows than columns": lambda rng: rng.standard_normal((20, 50)),
    "far fewer rows than columns": lambda rng: rng.standard_normal((5, 200)),
    "as many rows as columns": lambda rng: rng.standard_normal((40, 40)),
    "one row more than columns": lambda rng: rng.standard_normal((40, 39)),
    "collinear columns": collinear,
    "every column twice": lambda rng: np.tile(two_groups(rng), 2),
    "ints": lambda rng: rng.integers(-5, 5, (200, 3)),
    "uint8": lambda rng: rng.integers(0, 256, (200, 3), dtype=np.uint8),
    "bool": lambda rng: rng.random((200, 4)) > 0.4,
    "one hot": lambda rng: np.eye(12)[rng.integers(0, 12, 200)],
    "float16": lambda rng: two_groups(rng).astype(np.float16),
    "extreme ints": lambda rng: np.array([[-(2**63), 0], [2**63 - 1, 1]] * 20),
    "one column": lambda rng: two_groups(rng, d=1),
    "an outlier at 1e150": outlier,
    "units from 1e-140 to 1e140": lambda rng: two_groups(rng) * [1e-140, 1.0, 1e140],
    "an offset of 1e8": lambda rng: two_groups(rng) + 1e8,
    "nine rows in ten the same": lambda rng: np.concatenate([np.ones((900, 3)), rng.standard_normal((100, 3))]),
    "all rows but one the same": lambda rng: np.concatenate([np.zeros((999, 2)), np.ones((1, 2))]),
    "many rows twice": lambda rng: np.repeat(rng.standard_normal((60, 2)), 2, axis=0),
    "nine distinct rows": lambda rng: rng.standard_normal((9, 2))[rng.integers(0, 9, 17)],
    "a Cauchy sample": lambda rng: rng.standard_t(1, (300, 3)),
    "a row of zeros and few others": lambda rng: np.where(rng.random((50, 20)) < 0.1, rng.random((50, 20)), 0.0),
}


@pytest.mark.filterwarnings("ignore:.* columns of X are constant:amofa.AmofaWarning")
@pytest.mark.parametrize(
    ("search", "criterion"), [("thorough", "evidence"), ("thorough", "bic"), ("paper", "mml"), ("paper", "bic")]
)
@pytest.mark.parametrize("name", ODD)
def test_odd_data_are_fitted(rng, name, search, criterion):
    X = ODD[name](rng)
    model = amofa.fit(X, search=search, criterion=criterion)
    check_model(model, X)
    assert model.converged


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
@pytest.mark.parametrize("options", [{"n_components": 3}, {"n_factors": 2}, {"n_components": 4, "n_factors": 0}])
@pytest.mark.parametrize("name", [name for name in ODD if name not in ("two rows of one column", "one column")])
def test_odd_data_are_fitted_under_limits(rng, search, name, options):
    X = ODD[name](rng)
    model = amofa.fit(X, search=search, **options)
    check_model(model, X)


@pytest.mark.parametrize(("n", "d"), [(2, 10), (3, 20), (4, 60), (20, 50), (5, 200)])
def test_no_more_factors_than_the_rows_span(rng, search, n, d):
    """n rows about their mean have n - 1 directions: a further factor has nothing to explain."""
    model = amofa.fit(rng.standard_normal((n, d)), search=search)
    assert model.n_factors.max() <= n - 1


def test_a_collinear_column_is_told(rng, search):
    X = collinear(rng)
    model = amofa.fit(X, search=search, n_components=1)
    assert model.at_floor.any()
    np.testing.assert_allclose((model.uniquenesses / X.var(axis=0))[model.at_floor], 1e-4, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("criterion", ["mml", "bic", "aic", "icl"])
def test_two_distinct_rows_are_two_components_at_most(rng, search, d, criterion):
    X = np.repeat(rng.standard_normal((2, d)), 500, axis=0)
    model = amofa.fit(X, search=search, criterion=criterion)
    check_model(model, X)
    assert model.n_components <= 2


def test_components_on_two_distinct_rows_do_not_coincide(rng, search):
    X = np.repeat([[0.0, 1.0], [3.0, 5.0]], 500, axis=0)
    with pytest.warns(amofa.AmofaWarning, match="5 components were asked for, but the search found only 2 that can be"):
        model = amofa.fit(X, search=search, n_components=5, n_factors=0, noise_floor=1e-4)
    np.testing.assert_allclose(np.sort(model.means, axis=0), [[0.0, 1.0], [3.0, 5.0]], atol=1e-9)


def test_fewer_distinct_rows_than_components(rng):
    """The paper's search makes components of single points; the prior of the thorough one does not."""
    X = rng.standard_normal((9, 2))[[*range(9), *range(8)]]
    with pytest.warns(amofa.AmofaWarning, match="12 components were asked for, but the search found only 9"):
        model = amofa.fit(X, search="paper", n_components=12, n_factors=0)
    check_model(model, X)
    assert len(np.unique(model.predict(X))) == 9


# ---- forms of the same data ------------------------------------------------------------------------------------------


def as_memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


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


def test_a_memory_map_changes_no_bit(coarse, tmp_path):
    check_same(amofa.fit(as_memory_map(coarse, tmp_path)), amofa.fit(coarse))


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


# ---- constant columns ------------------------------------------------------------------------------------------------


def caught(X, **options):
    """The model and the messages of the AmofaWarnings of a fit."""
    with pytest.warns(amofa.AmofaWarning) as record:
        model = amofa.fit(X, **options)
    # They point to the caller's line.
    assert all(warning.filename == __file__ for warning in record)
    return model, [str(warning.message) for warning in record]


def with_constants(X):
    """Columns 1 and 4 of five constant, in a table of three columns."""
    return np.column_stack([X[:, 0], np.full(len(X), -7.0), X[:, 1], X[:, 2], np.zeros(len(X))])


def test_constant_columns_are_named_in_one_warning(rng):
    _, messages = caught(with_constants(two_groups(rng)))
    assert messages == ["2 of 5 columns of X are constant and change no decision: 1, 4 (from 0)"]


def test_many_constant_columns_are_named_in_one_short_warning(rng):
    _, (message,) = caught(np.column_stack([rng.standard_normal(30), np.ones((30, 40))]))
    assert re.fullmatch(
        r"40 of 41 columns of X are constant and change no decision: (\d+, ){10}... \(from 0\)", message
    )


@pytest.mark.parametrize("criterion", ["mml", "bic", "aic", "icl"])
def test_constant_columns_change_no_decision(rng, search, criterion):
    X = two_groups(rng)
    plain = amofa.fit(X, search=search, criterion=criterion)
    wide = with_constants(X)
    model, _ = caught(wide, search=search, criterion=criterion)
    check_model(model, wide)
    assert model.n_factors.tolist() == plain.n_factors.tolist()
    np.testing.assert_array_equal(model.predict(wide), plain.predict(X))
    np.testing.assert_allclose(model.predict_proba(wide), plain.predict_proba(X), atol=1e-9)
    kept = [0, 2, 3]
    np.testing.assert_allclose(model.means[:, kept], plain.means, rtol=1e-12)
    np.testing.assert_allclose(model.uniquenesses[:, kept], plain.uniquenesses, rtol=1e-12)
    assert [step.cost for step in model.history] == [step.cost for step in plain.history]


def test_what_constant_columns_get(rng, search):
    """Their value as the mean, no loading, and the floor's share of the mean variance of the other columns."""
    X = two_groups(rng) * [1.0, 10.0, 0.1]
    model, _ = caught(with_constants(X), search=search, noise_floor=1e-3)
    np.testing.assert_array_equal(model.means[:, 1], -7.0)
    np.testing.assert_array_equal(model.means[:, 4], 0.0)
    np.testing.assert_allclose(model.uniquenesses[:, [1, 4]], 1e-3 * X.var(axis=0).mean(), rtol=1e-12)
    assert all((loadings[[1, 4]] == 0).all() for loadings in model.loadings)
    assert model.at_floor[:, [1, 4]].all()


@pytest.mark.parametrize("column", [1e8 + np.array([0.0, 1.5e-8]), np.array([0.0, 1e-170]), np.array([7.0, 7.0])])
def test_columns_within_their_rounding_are_constant(rng, search, column):
    X = two_groups(rng)
    model, messages = caught(np.column_stack([X, np.tile(column, len(X) // 2)]), search=search)
    assert messages == ["1 of 4 columns of X are constant and change no decision: 3 (from 0)"]
    assert model.n_factors.tolist() == amofa.fit(X, search=search).n_factors.tolist()


def test_a_column_of_standard_deviation_1e_minus_170_is_constant(rng):
    X = two_groups(rng) * [1.0, 1e-170, 1.0]
    model, _ = caught(X)
    check_model(model, X)
    assert model.n_factors.tolist() == amofa.fit(X[:, [0, 2]]).n_factors.tolist()


@pytest.mark.parametrize("X", [[[3.0]], [[1.0, -2.0, 1e9]], np.full((50, 2), 0.1), np.zeros((3, 4), np.uint8)])
def test_rows_that_are_all_the_same(search, X):
    model, (message,) = caught(X, search=search)
    d = np.shape(X)[1]
    assert message.startswith(f"{d} of {d} columns of X are constant")
    check_model(model, X)
    assert model.n_components == 1
    np.testing.assert_array_equal(model.means[0], np.asarray(X, float)[0])
    assert model.converged
    assert model.history == ()


def test_rows_that_are_all_the_same_with_limits(search):
    model, messages = caught(np.ones((10, 2)), search=search, n_components=2, n_factors=1)
    assert len(messages) == 2
    assert messages[1] == "2 components were asked for, but the search found only 1 that can be told apart"
    assert model.n_factors.tolist() == [1]


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
    model, _ = caught(X, search=search, noise_floor=[0.1, 0.7])
    np.testing.assert_allclose(model.uniquenesses[:, 1], 0.7)


# ---- convergence -----------------------------------------------------------------------------------------------------


def test_em_that_does_not_converge_is_told(rng, search):
    """Two overlapping groups, a tolerance that is next to nothing, and few iterations."""
    X, _ = datasets.gaussians(rng, [300, 100], [(0.0, 0.0), (1.5, 1.5)], [np.eye(2)] * 2)
    model, messages = caught(X, search=search, tol=1e-13, max_iter=1, n_components=2, n_factors=0)
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


@pytest.mark.parametrize("noise", ["component", "shared", "isotropic"])
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
        model, messages = caught(X, search=search, n_components=asked)
        assert 1 < model.n_components <= most
        assert (model.weights * len(X) > 0.4).all()
        assert len(np.unique(model.means.round(5), axis=0)) == model.n_components
        assert any(f"{asked} components were asked for" in message for message in messages)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, 2.0], [3.0]], "X is no table .* same number of columns"),
        (np.array([[1, 2], [3, np.longdouble("1e400")]]), "X has 1 value that is NaN or infinite, the first in row 1"),
    ],
)
def test_what_is_no_table_of_float64_is_refused(X, message):
    with pytest.raises(ValueError, match=message):
        amofa.fit(X)


def test_wide_tables_need_no_square_of_the_columns(search):
    """Two groups that overlap in each of 1500 columns: a (d, d) array alone would take 18 MB."""
    rng = np.random.default_rng(0)
    d, group = 1500, np.arange(36) % 2
    X = rng.normal(size=(36, d)) + 0.7 * group[:, None] + rng.normal(size=(36, 1)) * rng.normal(size=d)
    amofa.fit(X[:, :50], search=search)
    tracemalloc.start()
    try:
        model = amofa.fit(X, search=search)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    check_model(model, X)
    assert peak < 8 * d * d
