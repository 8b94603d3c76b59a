"""fit(): what it refuses."""

import numpy as np
import pytest
import scipy.sparse
from fits import two_groups

import amofa

# ---- refused: X ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (None, ValueError, "X must have two dimensions"),
        ([[1.0, 2.0], [3.0]], ValueError, "X is not a table .* same number of columns"),
        ([[1.0, 2.0], [np.inf, -np.inf]], ValueError, "X has 2 values that are infinite, .* row 1, column 0"),
        ([[0.0, -1.0], [1.0, 1e308]], ValueError, r"column 1 of X spans -1 to 1e\+308; divide it by a constant first"),
        (scipy.sparse.csr_array(np.eye(3)), TypeError, r"X is a sparse matrix; pass X.toarray\(\)"),
    ],
)
def test_tables_that_are_refused(X, error, message):
    """Of each kind one; all are in data/test_checks.py."""
    with pytest.raises(error, match=message):
        amofa.fit(X)


# ---- refused: the other arguments ------------------------------------------------------------------------------------

OTHER_OPTIONS = [
    ("n_components", 0, ValueError, "n_components must be at least 1, got 0"),
    ("n_components", 1.5, TypeError, "n_components must be a whole number, got 1.5"),
    ("n_components", 2.0, TypeError, "n_components must be a whole number, got 2.0"),
    ("n_components", True, TypeError, "n_components must be a whole number, got True"),
    ("n_components", "3", TypeError, "n_components must be a whole number, got '3'"),
    ("n_factors", -1, ValueError, "n_factors must be from 0 to 3, got -1"),
    ("n_factors", 4, ValueError, "n_factors must be from 0 to 3, got 4"),
    ("n_factors", 1.5, TypeError, "n_factors must be a whole number or a sequence of them, got 1.5"),
    ("n_factors", True, TypeError, "n_factors must be a whole number, got True"),
    ("n_factors", "12", TypeError, "n_factors must be a whole number or a sequence of them, got '12'"),
    ("n_factors", [], ValueError, "n_factors is empty"),
    ("n_factors", [1, -1], ValueError, r"n_factors\[1\] must be from 0 to 3, got -1"),
    ("n_factors", [1, 2, 4], ValueError, r"n_factors\[2\] must be from 0 to 3, got 4"),
    ("n_factors", [1, 1.5], TypeError, r"n_factors\[1\] must be a whole number, got 1.5"),
    ("n_factors", [[1], [1]], TypeError, r"n_factors\[0\] must be a whole number, got \[1\]"),
    ("n_factors", object(), TypeError, "n_factors must be a whole number or a sequence of them"),
    ("search", "best", ValueError, "search must be one of .*'paper'.*, got 'best'"),
    ("search", None, ValueError, "search must be one of .*, got None"),
    ("criterion", "BIC", ValueError, "criterion must be one of 'evidence', 'mml', 'bic', 'aic', 'icl', got 'BIC'"),
    ("criterion", 3, ValueError, "criterion must be one of .*, got 3"),
    (
        "noise",
        "full",
        ValueError,
        "noise must be one of 'component', 'shared', 'isotropic', 'scaled', 'common_loadings', "
        "'auto', 'any', got 'full'",
    ),
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
    ("noise_floor", 0, ValueError, "noise_floor must be positive and finite, got 0"),
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
    ("sample_weight", np.full(30, 1e307), ValueError, "sample_weight "),  # their sum is not finite
    ("sample_weight", ["a"] * 30, TypeError, "sample_weight must hold real numbers"),
    ("max_components", 0, ValueError, "max_components must be at least 1, got 0"),
    ("max_components", 1.5, TypeError, "max_components must be a whole number, got 1.5"),
    ("max_components", True, TypeError, "max_components must be a whole number, got True"),
    ("max_factors", -1, ValueError, "max_factors must be at least 0, got -1"),
    ("max_factors", "1", TypeError, "max_factors must be a whole number, got '1'"),
    ("tol", 0, ValueError, "tol must be positive and finite, got 0"),
    ("tol", np.nan, ValueError, "tol must be positive and finite, got nan"),
    ("tol", np.inf, ValueError, "tol must be positive and finite, got inf"),
    ("tol", "small", TypeError, "tol must be a number, got 'small'"),
    ("tol", True, TypeError, "tol must be a number, got True"),
    ("max_iter", 0, ValueError, "max_iter must be at least 1, got 0"),
    ("max_iter", 10.0, TypeError, "max_iter must be a whole number, got 10.0"),
    ("max_iter", False, TypeError, "max_iter must be a whole number, got False"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), OTHER_OPTIONS)
def test_options_that_are_refused(rng, name, value, error, message):
    with pytest.raises(error, match=message):
        amofa.fit(rng.standard_normal((30, 3)), **{name: value})


# What each search refuses by itself.
PAPERS_OPTIONS = [
    ("criterion", "BIC", ValueError, "criterion must be one of 'mml', 'bic', 'aic', 'icl', got 'BIC'"),
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
