"""Tables, weights and other arguments that are taken, and errors that say what is wrong with those that are not."""

import numpy as np
import pytest
import scipy.sparse

import amofa
from amofa._data.checks import check_random_state, check_table, check_weights

# ---- tables that are refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (scipy.sparse.csr_array(np.eye(3)), r"X is a sparse matrix; pass X.toarray\(\)"),
        (scipy.sparse.coo_matrix(np.eye(3)), r"X is a sparse matrix; pass X.toarray\(\)"),
        (np.array([["a", "b"]]), "X has dtype <U1; a table of real numbers is needed"),
        (np.array([[b"a"]]), r"X has dtype \|S1; a table of real numbers is needed"),
        ("text", "X has dtype <U4"),
        (np.array([[1.0, "a"]], dtype=object), "X holds values that are not numbers .*'a'"),
        (np.array([[1.0, 2j]], dtype=object), "X holds values that are not numbers"),
        ({"a": [1.0]}, "X holds values that are not numbers"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "X has dtype datetime64"),
        (np.array([[1]], dtype="m8[s]"), "X has dtype timedelta64"),
        (np.zeros((2, 2), dtype=[("a", float)]), "X has dtype .*'a'"),
    ],
)
def test_tables_of_no_numbers_are_refused(table, message):
    with pytest.raises(TypeError, match=message):
        check_table(table)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.eye(2) * 1j, "X is complex; pass its real part"),
        (np.arange(3.0), r"must have two dimensions \(rows, columns\), got 1; use reshape\(-1, 1\)"),
        ([], "must have two dimensions .*, got 1"),
        (3.0, r"must have two dimensions \(rows, columns\), got 0$"),
        (np.zeros((2, 2, 2)), r"must have two dimensions \(rows, columns\), got 3$"),
        (np.zeros((0, 3)), r"X has shape \(0, 3\); at least one row and one column are needed"),
        (np.zeros((3, 0)), r"X has shape \(3, 0\); at least one row and one column are needed"),
        ([[1.0, 2.0], [3.0]], "inhomogeneous"),
        (np.array([[1.0, None]], dtype=object), "1 value that is NaN or infinite, the first in row 0, column 1"),
    ],
)
def test_tables_of_the_wrong_form_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        check_table(table)


def test_the_number_of_columns_is_checked():
    with pytest.raises(ValueError, match="Y has 3 columns, but the model was made for 4"):
        check_table(np.eye(3), name="Y", n_features=4)
    assert check_table(np.eye(3), n_features=3).shape == (3, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f4", ">f8", "f8"])
def test_one_bad_value_is_found(value, dtype):
    table = np.zeros((5, 3), dtype=dtype)
    table[3, 2] = value
    with pytest.raises(ValueError, match=r"X has 1 value that is NaN .* row 3, column 2 \(from 0\)"):
        check_table(table)


def test_bad_values_are_counted_over_the_whole_table():
    table = np.zeros((300_000, 1))  # checked in more than one piece
    table[[200_000, 299_999, 140_000]] = np.nan
    with pytest.raises(ValueError, match=r"Y has 3 values that are NaN .* row 140000, column 0 \(from 0\)"):
        check_table(table, name="Y")


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[1, 0, 2], (0.5, 0.5, 0.0), np.ones(3, np.float32), np.array([True, False, True])])
def test_weights_are_taken(weights):
    checked = check_weights(weights, 3)
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, weights)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (["a", "b", "c"], TypeError, "sample_weight must hold real numbers"),
        (np.array([1.0, "x", 2.0], dtype=object), TypeError, "sample_weight must hold real numbers"),
        (np.ones(3) * 1j, TypeError, "sample_weight must hold real numbers"),
        (np.ones(2), ValueError, r"sample_weight has shape \(2,\), but X has 3 rows; pass one weight per row"),
        (np.ones((3, 1)), ValueError, r"sample_weight has shape \(3, 1\), but X has 3 rows"),
        (1.0, ValueError, r"sample_weight has shape \(\), but X has 3 rows"),
        ([1, -1, 2], ValueError, r"finite and not negative, got -1.0 in row 1 \(from 0\)"),
        ([1, 2, np.nan], ValueError, r"finite and not negative, got nan in row 2 \(from 0\)"),
        ([np.inf, 2, 1], ValueError, r"finite and not negative, got inf in row 0 \(from 0\)"),
        ([0, 0, 0], ValueError, "sample_weight is zero in every row"),
    ],
)
def test_wrong_weights_are_refused(weights, error, message):
    with pytest.raises(error, match=message):
        check_weights(weights, 3)


# ---- what once ended in something else than an error -----------------------------------------------------------------


@pytest.fixture
def model():
    return amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [[0.0], [1.0]], [np.zeros((1, 0))] * 2, [[1.0], [1.0]])


@pytest.mark.parametrize("position", [0, 1, 3])
def test_whole_numbers_beyond_float_in_models(position):
    arguments = [[1.0], [[0.0]], [[[1.0]]], [[1.0]]]
    arguments[position] = [[10**400]] if position else [10**400]
    name = ("weights", "means", "", "uniquenesses")[position]
    with pytest.raises(ValueError, match=f"{name} holds a whole number that is too large"):
        amofa.MixtureOfFactorAnalyzers(*arguments)


def test_whole_numbers_beyond_float_in_tables(model):
    for call in (model.predict, amofa.fit, check_table):
        with pytest.raises(ValueError, match="X holds a whole number that is too large"):
            call([[10**400], [1.0]])


@pytest.mark.parametrize("name", ["tol", "noise_floor"])
def test_whole_numbers_beyond_float_in_options(name):
    with pytest.raises((ValueError, TypeError), match=name):
        amofa.fit(np.arange(9.0)[:, None], **{name: 10**400})


def test_floats_beyond_float64_are_infinite_without_a_warning(model):
    # Where long doubles are no longer than doubles, this is infinite from the start.
    huge = np.array([np.longdouble(10) ** 400])
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        check_weights(huge, 1)
    with pytest.raises(ValueError, match="means of component 0 hold NaN or infinite values"):
        amofa.MixtureOfFactorAnalyzers([1.0], huge[None], [[[1.0]]], [[1.0]])


@pytest.mark.parametrize("size", [1e-90, 1e90])
@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_row_weights_of_any_size(rng, size):
    X = rng.standard_normal((40, 2)) + np.repeat([[0.0], [9.0], [30.0]], [20, 10, 10], axis=0)
    model = amofa.fit(X, sample_weight=size * rng.uniform(0.5, 1.0, 40))
    assert np.isfinite(model.log_likelihood)


def test_a_floor_beyond_float(rng):
    X = 1e150 * rng.standard_normal((12, 2))
    with pytest.raises(ValueError, match=r"noise_floor makes the smallest uniqueness of column 0 of X inf, but"):
        amofa.fit(X, noise_floor=1e149)


def test_a_matrix_as_random_state(model):
    """numpy.random.default_rng ends the process on it."""
    seed = np.array([[1, 2]]).view(np.matrix)
    X, _ = model.sample(3, seed)
    np.testing.assert_array_equal(X, model.sample(3, [1, 2])[0])
    assert isinstance(check_random_state(seed), np.random.Generator)
