"""What holds of all methods that `amofa.baselines` has for clusters, whatever they find."""

import datasets
import numpy as np
import pytest

import amofa
from amofa.baselines import imofa, mfa, recursive_ulfmm, ulfmm, vbmofa

METHODS = {
    "imofa": lambda X, **options: imofa(X, **options),
    "mfa": lambda X, **options: mfa(X, 2, 1, n_starts=2, **options),
    "recursive_ulfmm": lambda X, **options: recursive_ulfmm(X, max_components=5, n_passes=4, **options),
    "ulfmm, full": lambda X, **options: ulfmm(X, **options),
    "ulfmm, diag": lambda X, **options: ulfmm(X, covariance="diag", **options),
    "vbmofa, shared": lambda X, **options: vbmofa(X, n_tries=1, **options),
    "vbmofa, component": lambda X, **options: vbmofa(X, noise="component", n_tries=1, **options),
}
WEIGHTED = [name for name in METHODS if name not in ("imofa", "recursive_ulfmm")]


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]


@pytest.fixture
def rows(rng):
    """Rows of two groups, clearly apart, with a factor each."""
    X, _ = datasets.factor_analysers(rng, 4, [1, 1], [120, 80], distance=9.0)
    return X[rng.permutation(len(X))]


def test_files_lose_nothing(method, rows, tmp_path):
    model = method(rows)
    model.save(tmp_path / "model.npz")
    loaded = amofa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    assert (loaded.history, loaded.n_parameters) == (model.history, model.n_parameters)
    assert loaded.summary() == model.summary()


def test_random_states(method, rows):
    models = [method(rows, random_state=state) for state in (3, 3, np.random.default_rng(3))]
    assert len({model.means.tobytes() for model in models}) == 1
    assert models[0].history == models[1].history == models[2].history
    assert method(rows).history == method(rows, random_state=0).history
    legacy = [method(rows, random_state=np.random.RandomState(5)).history for _ in range(2)]
    assert legacy[0] == legacy[1]


def test_units_do_not_matter(method, rows):
    scale = np.array([1e-7, 1.0, 1e4, 3.0])
    model, other = method(rows), method(rows * scale + 1e3 * scale)
    np.testing.assert_array_equal(other.n_factors, model.n_factors)
    np.testing.assert_array_equal(other.predict(rows * scale + 1e3 * scale), model.predict(rows))


def test_constant_columns_change_no_decision(method, rows):
    Y = np.c_[rows, np.full(len(rows), 7.0)]
    with pytest.warns(amofa.AmofaWarning, match="1 of 5 columns of X are constant") as record:
        model = method(Y)
    assert record[0].filename == __file__
    np.testing.assert_array_equal(model.predict(Y), method(rows).predict(rows))
    np.testing.assert_array_equal(model.means[:, 4], 7.0)


ODD = {
    "fewer rows than columns": lambda rng: rng.standard_normal((12, 30)),
    "two rows": lambda rng: rng.standard_normal((2, 5)),
    "one column": lambda rng: rng.standard_normal((50, 1)),
    "three points": lambda rng: np.repeat(rng.standard_normal((3, 4)), 10, axis=0),
    "all the same": lambda rng: np.ones((10, 3)),
}


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
@pytest.mark.parametrize("table", ODD)
def test_odd_tables_give_finite_models(rng, method, table):
    X = ODD[table](rng)
    if table == "one column" and method is METHODS["mfa"]:
        X = np.c_[X, X[::-1]]  # one factor needs two columns, or is refused
    model = method(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite([step.cost for step in model.history]).all()


@pytest.mark.parametrize("name", WEIGHTED)
def test_rows_of_weight_0_are_absent(name, rows):
    w = np.r_[np.ones(150), np.zeros(50)]
    far = rows.copy()
    far[150:] = 1e6
    absent, there = (METHODS[name](table, sample_weight=w) for table in (far, rows))
    assert absent.means.tobytes() == there.means.tobytes()


@pytest.mark.parametrize(
    "fit",
    [ulfmm, lambda X, **options: mfa(X, 6, 1, **options), lambda X, **options: vbmofa(X, n_tries=1, **options)],
    ids=["ulfmm", "mfa", "vbmofa"],
)
def test_em_that_does_not_converge_is_told(rng, fit):
    X, _ = datasets.example_2(rng)
    with pytest.warns(amofa.AmofaWarning, match="did not converge within .*max_iter=1"):
        model = fit(X, max_iter=1, tol=1e-12)
    assert not model.converged


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tol": 0}, ValueError, "tol must be positive"),
        ({"tol": "small"}, TypeError, "tol must be a number"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1"),
        ({"max_iter": 2.5}, TypeError, "max_iter must be a whole number"),
    ],
)
@pytest.mark.parametrize("name", [name for name in METHODS if name != "recursive_ulfmm"])
def test_options_of_em_are_checked(name, rows, options, error, message):
    with pytest.raises(error, match=message):
        METHODS[name](rows, **options)


@pytest.mark.parametrize(
    ("table", "message"),
    [([1.0, 2.0], "X must have two dimensions"), ([[np.inf, 0.0]], "X has 1 value that is NaN or infinite")],
)
def test_tables_that_all_refuse(method, table, message):
    with pytest.raises(ValueError, match=message):
        method(table)


@pytest.mark.parametrize("name", WEIGHTED)
def test_wrong_weights_are_refused(name, rows):
    with pytest.raises(ValueError, match="sample_weight has shape"):
        METHODS[name](rows, sample_weight=[1.0])


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (imofa, {"validation": np.zeros((5, 3))}, ValueError, "validation has 3 columns"),
        (imofa, {"validation": [["a", "b"]]}, TypeError, "validation has dtype"),
        (imofa, {"validation_share": 1.0}, ValueError, "validation_share must be below 1"),
        (imofa, {"validation_share": 0}, ValueError, "validation_share must be positive"),
        (imofa, {"max_components": 0}, ValueError, "max_components must be at least 1"),
        (imofa, {"max_factors": 1.5}, TypeError, "max_factors must be a whole number"),
        (imofa, {"noise_floor": 0.0}, ValueError, "noise_floor must be positive"),
        (vbmofa, {"max_factors": -1}, ValueError, "max_factors must be at least 0"),
        (vbmofa, {"max_components": 0}, ValueError, "max_components must be at least 1"),
        (vbmofa, {"n_tries": 0}, ValueError, "n_tries must be at least 1"),
        (vbmofa, {"noise": "isotropic"}, ValueError, "noise must be one of 'shared', 'component'"),
        (vbmofa, {"noise_floor": -1.0}, ValueError, "noise_floor must be positive"),
    ],
)
def test_what_is_refused(rng, function, options, error, message):
    with pytest.raises(error, match=message):
        function(rng.standard_normal((20, 2)), **options)
