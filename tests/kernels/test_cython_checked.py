"""What the C-level functions do with wrong arguments and unusable rows: refuse them, count them, and spoil nothing."""

import subprocess
import sys

import numpy as np
import pytest
from cython_calls import Functions
from reference import random_mixture, random_rows, relative_error

import amofa

BAD_ARGUMENT, NO_ROWS, TOO_SHORT = -1, -2, -3
DOUBLE, FLOAT = 8, 4
# K, d, factors of each component: no factors, small loops, others.
SHAPES = [(1, 1, [0]), (1, 6, [2]), (3, 4, [1, 0, 2]), (2, 16, [3, 5])]
GUARD = np.full(16, 123.0)

c = Functions()


class Arrays:
    """Arrays of doubles with guards behind them."""

    def __init__(self):
        self.all = []

    def make(self, size, value=np.nan):
        self.all.append(np.concatenate([np.full(size, value), GUARD]))
        return self.all[-1]

    def guards_stand(self):
        return all(np.array_equal(a[-len(GUARD) :], GUARD) for a in self.all)


@pytest.fixture
def arrays():
    made = Arrays()
    yield made
    assert made.guards_stand()


def prepared(p, length=0):
    mixture = np.zeros(max(length, c.mixture_size(p.n_components, p.n_features, p.offsets)))
    status = c.prepare_mixture_checked(
        p.n_components, p.n_features, p.offsets, p.weights, p.means, p.loadings, p.uniquenesses, mixture, len(mixture)
    )
    assert status == 0
    return mixture


def rows_of(x, features_first):
    """Arguments for rows of float64 or float32, and the array that must outlive them."""
    n, d = x.shape
    table = np.asfortranarray(x) if features_first else np.ascontiguousarray(x)
    return (n, d, table, x.itemsize, 1, n) if features_first else (n, d, table, x.itemsize, d, 1)


def evaluate(mixture, x, features_first=False, missing=False):
    """Log density (n), log joint (n, K), responsibilities (n, K), factor scores (n, P), and the status."""
    K, n = c.n_components(mixture), len(x)
    P = sum(c.n_factors(mixture, k) for k in range(K))
    outputs = [np.full((n, m), 7.0) for m in (1, K, K, P)]
    size = c.missing_work_size(mixture) if missing else c.rows_work_size(mixture)
    arguments = [outputs[0], n]
    for out in outputs[1:]:
        arguments += [out, out.size, out.shape[1], 1]
    status = c.posterior_checked(mixture, *rows_of(x, features_first), missing, *arguments, np.full(size, np.nan), size)
    return outputs[0][:, 0], *outputs[1:], status


def accumulate(name, mixture, x, weights=None, features_first=False):
    """Sums, and the status."""
    work = np.full(c.rows_work_size(mixture), np.nan)
    if name == "kurtosis":
        K = c.n_components(mixture)
        sums = np.zeros((2, K))
        outputs = [sums[0], K, sums[1], K]
    else:
        sums = np.zeros(getattr(c, f"{name}_size")(mixture))
        outputs = [sums, len(sums)]
    function = getattr(c, f"accumulate_{name}_checked")
    return sums, function(mixture, *rows_of(x, features_first), weights, *outputs, work, len(work))


SUMS = ["statistics", "scatter", "kurtosis"]


# ---- rows that cannot be used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("features_first", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("explained", [1.0, 1e3, 1e5])
@pytest.mark.parametrize(("K", "d", "factors"), SHAPES)
def test_cells_that_are_not_finite_give_nan_and_are_counted(rng, K, d, factors, explained, value, features_first):
    p = random_mixture(rng, K, d, factors)
    p.loadings[:] *= explained  # other ways to take the distance
    x, mixture = random_rows(rng, p, 1100), prepared(p)
    bad = np.array([0, 17, 1031, 1032, 1099])
    spoilt = x.copy()
    spoilt[bad, rng.integers(d, size=len(bad))] = value
    *expected, status = evaluate(mixture, x, features_first)
    assert status == 0
    *found, status = evaluate(mixture, spoilt, features_first)
    assert status == len(bad)
    good = np.setdiff1d(np.arange(len(x)), bad)
    for a, b in zip(found, expected, strict=True):
        assert np.isnan(a[bad]).all()
        assert np.array_equal(a[good], b[good])
    # The older form counts them, too.
    log_density, work = np.empty(len(x)), np.empty(c.rows_work_size(mixture))
    table = np.ascontiguousarray(spoilt)
    assert c.posterior(mixture, len(x), table, d, 1, log_density, None, None, None, work) == len(bad)
    assert np.isnan(log_density[bad]).all()


@pytest.mark.parametrize("features_first", [False, True])
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize(("K", "d", "factors"), SHAPES)
def test_sums_leave_out_what_would_spoil_them(rng, K, d, factors, name, features_first):
    p = random_mixture(rng, K, d, factors)
    x, w, mixture = random_rows(rng, p, 2200), rng.uniform(0.5, 2, 2200), prepared(p)
    cells = {3: np.nan, 500: np.inf, 1033: 1e200, 1034: -1e120, 2199: -np.inf}
    weights = {9: np.nan, 10: -1.0, 1500: np.inf, 1501: 1e300}
    nothing = {20: np.nan, 21: 1e300, 22: 1.0}
    good = np.setdiff1d(np.arange(len(x)), [*cells, *weights, *nothing])
    expected, status = accumulate(name, mixture, x[good], w[good], features_first)
    assert status == 0
    for i, value in (cells | nothing).items():
        x[i, -1] = value
    for i, value in weights.items():
        w[i] = value
    w[list(nothing)] = 0.0
    found, status = accumulate(name, mixture, x, w, features_first)
    assert status == len(cells) + len(weights)
    assert relative_error(found, expected, np.abs(expected).max()) < 1e-12


@pytest.mark.parametrize("name", SUMS)
def test_a_far_row_without_row_weights_is_left_out(rng, name):
    p = random_mixture(rng, 2, 3, [1, 0])
    x, mixture = random_rows(rng, p, 40), prepared(p)
    expected, _ = accumulate(name, mixture, x[1:])
    x[0, 0] = 1e160
    found, status = accumulate(name, mixture, x)
    assert status == 1
    assert relative_error(found, expected) < 1e-13
    # It has a density, though: none.
    log_density, _, responsibilities, _, status = evaluate(mixture, x)
    assert (log_density[0], status) == (-np.inf, 0)
    assert np.array_equal(responsibilities[0], p.weights)


@pytest.mark.parametrize("n", [2**31, 2**62, 2**63 - 1])
def test_more_rows_than_an_output_holds(rng, arrays, n):
    mixture = prepared(random_mixture(rng, 2, 3, 1))
    out, nothing, work = arrays.make(5), [None, 0, 1, 1] * 3, arrays.make(c.rows_work_size(mixture))
    arguments = mixture, n, 3, np.zeros(3), DOUBLE, 3, 1, False, out, 5, *nothing, work, c.rows_work_size(mixture)
    assert c.posterior_checked(*arguments) == TOO_SHORT


@pytest.mark.parametrize("name", SUMS)
def test_nothing_but_unusable_rows_leaves_zeros(rng, name):
    p = random_mixture(rng, 2, 3, 1)
    found, status = accumulate(name, prepared(p), np.full((5, 3), np.nan))
    assert (status, found.any()) == (5, False)


def test_no_component_with_a_weight(rng):
    p = random_mixture(rng, 2, 3, 1)
    p.weights[:] = 0.0
    mixture, x = prepared(p), rng.standard_normal((4, 3))
    assert accumulate("scatter", mixture, x)[1] == 4
    x[0] = np.nan
    log_density, _, responsibilities, _, status = evaluate(mixture, x, missing=True)
    assert (status, responsibilities.any(), set(log_density)) == (0, False, {-np.inf})


# ---- missing cells, float32, layouts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("features_first", [False, True])
@pytest.mark.parametrize(("K", "d", "factors"), SHAPES)
def test_missing_cells_are_integrated_out(rng, K, d, factors, features_first):
    p = random_mixture(rng, K, d, factors)
    model = amofa.MixtureOfFactorAnalyzers(
        p.weights, p.means, [p.component_loadings(k).T for k in range(K)], p.uniquenesses
    )
    x, mixture = random_rows(rng, p, 60), prepared(p)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[7] = np.nan
    x[20:25] = x[20]  # one pattern, one preparation
    *found, status = evaluate(mixture, x, features_first, missing=True)
    assert status == 0
    scores = np.concatenate(model.factor_scores(x), axis=1)
    expected = model.score_samples(x), None, model.predict_proba(x), scores
    for a, b in zip(found, expected, strict=True):
        if b is not None:
            assert relative_error(a, b, np.abs(b).max(initial=1.0)) < 1e-12
    assert relative_error(np.logaddexp.reduce(found[1], axis=1), found[0]) < 1e-12


def test_rows_with_an_infinite_cell_are_not_incomplete(rng):
    p = random_mixture(rng, 2, 4, 1)
    x, mixture = random_rows(rng, p, 6), prepared(p)
    x[1, 2] = x[2, 2] = x[4, 2] = np.nan
    x[2, 3] = np.inf
    *found, status = evaluate(mixture, x, missing=True)
    assert status == 1
    assert np.flatnonzero(np.isnan(found[0])).tolist() == [2]
    alone, *_ = evaluate(mixture, x[4:5], missing=True)
    assert found[0][4] == pytest.approx(alone[0], rel=1e-14)


@pytest.mark.parametrize("features_first", [False, True])
@pytest.mark.parametrize("n", [1, 3, 1100])
def test_float32_rows_are_those_numbers(rng, n, features_first):
    p = random_mixture(rng, 3, 5, [1, 0, 2])
    x, w, mixture = random_rows(rng, p, n).astype(np.float32), rng.uniform(0, 2, n), prepared(p)
    same = x.astype(np.float64)
    for a, b in zip(evaluate(mixture, x, features_first), evaluate(mixture, same, False), strict=True):
        assert np.array_equal(a, b)
    for name in SUMS:
        a, b = accumulate(name, mixture, x, w, features_first), accumulate(name, mixture, same, w, False)
        assert np.array_equal(a[0], b[0])


def test_outputs_of_any_layout(rng):
    p = random_mixture(rng, 3, 5, [1, 0, 2])
    x, mixture, n, K = random_rows(rng, p, 300), prepared(p), 300, 3
    expected = evaluate(mixture, x)[2]
    work = np.empty(c.rows_work_size(mixture))
    for shape, strides in {(n, K): (K, 1), (K, n): (1, n), (n, 7): (7, 2), (K, 400): (1, 400)}.items():
        out = np.full(shape, 7.0)
        none = [None, 0, 1, 1]
        size = (n - 1) * strides[0] + (K - 1) * strides[1] + 1
        arguments = [None, 0, *none, out, size, *strides, *none]
        assert c.posterior_checked(mixture, n, 5, x, DOUBLE, 5, 1, 0, *arguments, work, len(work)) == 0
        seen = np.lib.stride_tricks.as_strided(out, (n, K), [8 * s for s in strides])
        assert np.array_equal(seen, expected)
        assert np.count_nonzero(out != 7.0) == n * K
        arguments[7] = size - 1
        assert c.posterior_checked(mixture, n, 5, x, DOUBLE, 5, 1, 0, *arguments, work, len(work)) == TOO_SHORT


# ---- lengths ---------------------------------------------------------------------------------------------------------


def calls(rng, arrays):
    """Each checked function: arguments that are right, and the places of lengths among them."""
    K, d, factors, n, q = 2, 5, [2, 1], 30, 2
    p = random_mixture(rng, K, d, factors)
    mixture, x, w = prepared(p), np.ascontiguousarray(random_rows(rng, p, n)), rng.uniform(0.5, 2, n)
    P, floor = sum(factors), np.full(d, 1e-6)
    statistics, _ = accumulate("statistics", mixture, x, w)
    scatter, _ = accumulate("scatter", mixture, x, w)
    noise = arrays.make(d, 1.0)
    converged, number = np.zeros(1, np.int32), np.array([1], np.intp)

    def sized(size, value=np.nan):
        return arrays.make(size, value), size

    rows = mixture, n, d, x, DOUBLE, d, 1
    work = c.rows_work_size(mixture)
    fitted = *sized(d), *sized(q * d), noise, d, None, converged, *sized(c.fit_work_size(d, q))
    posterior = [*sized(n)]
    for m in (K, K, P):
        posterior += [*sized(n * m), m, 1]
    return {
        "prepare_mixture": (
            [K, d, p.offsets, p.weights, p.means, p.loadings, p.uniquenesses, *sized(len(mixture))],
            [8],
        ),
        "posterior": ([*rows, 0, *posterior, *sized(work)], [9, 11, 15, 19, 23]),
        "accumulate_statistics": ([*rows, w, *sized(len(statistics), 0.0), *sized(work)], [9, 11]),
        "accumulate_scatter": ([*rows, w, *sized(len(scatter), 0.0), *sized(work)], [9, 11]),
        "accumulate_kurtosis": ([*rows, w, *sized(K, 0.0), *sized(K, 0.0), *sized(work)], [9, 11, 13]),
        "maximize_component": (
            [mixture, 0, statistics, floor, *sized(d), *sized(2 * d), *sized(d), *sized(c.maximize_work_size(mixture))],
            [5, 7, 9, 11],
        ),
        "fit_component": ([mixture, 0, scatter, q, floor, 99, 1e-6, *fitted], [8, 10, 12, 16]),
        "choose_component": (
            [mixture, 0, scatter, q, np.arange(q + 1.0), floor, 99, 1e-6, number, *fitted],
            [10, 12, 14, 18],
        ),
    }


NAMES = [
    "prepare_mixture", "posterior", "accumulate_statistics", "accumulate_scatter", "accumulate_kurtosis",
    "maximize_component", "fit_component", "choose_component",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_are_too_short_are_refused_and_not_written(rng, arrays, name):
    right, lengths = calls(rng, arrays)[name]
    before = [a.copy() if isinstance(a, np.ndarray) else None for a in right]
    function = getattr(c, f"{name}_checked")
    for place in lengths:
        for short in (right[place] - 1, 0, -1):
            wrong = list(right)
            wrong[place] = short
            assert function(*wrong) == TOO_SHORT
    for a, b in zip(right, before, strict=True):
        assert b is None or np.array_equal(a, b, equal_nan=a.dtype == float)
    assert function(*right) == 0


@pytest.mark.parametrize("name", NAMES)
def test_pointers_that_are_needed_are_not_null(rng, arrays, name):
    right, lengths = calls(rng, arrays)[name]
    function = getattr(c, f"{name}_checked")
    pointers = [i for i, a in enumerate(right) if isinstance(a, np.ndarray)]
    optional = {"posterior": [8, 10, 14, 18], "fit_component": [14], "choose_component": [16]}.get(name, [])
    optional += [7] if name.startswith("accumulate") else []
    for place in pointers:
        wrong = list(right)
        wrong[place] = None
        assert function(*wrong) == (0 if place in optional else BAD_ARGUMENT), place
    assert len(pointers) > len(lengths)


def test_wrong_numbers_of_columns_and_cell_sizes_are_refused(rng, arrays):
    made = calls(rng, arrays)
    for name in NAMES[1:5]:
        right, _ = made[name]
        for place, values in {1: [-1], 2: [4, 6], 4: [0, 2, 16]}.items():
            for value in values:
                wrong = list(right)
                wrong[place] = value
                assert getattr(c, f"{name}_checked")(*wrong) == BAD_ARGUMENT
    right, _ = made["posterior"]
    for place in (12, 13, 16, 17, 20, 21):
        wrong = list(right)
        wrong[place] = 0
        assert c.posterior_checked(*wrong) == BAD_ARGUMENT


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_floors_and_starts_are_variances(rng, arrays, value):
    made = calls(rng, arrays)
    for name, floor, start in (("maximize_component", 3, None), ("fit_component", 4, 11), ("choose_component", 5, 13)):
        right, _ = made[name]
        for place in (floor, start):
            if place is not None:
                wrong = list(right)
                wrong[place] = right[place].copy()
                wrong[place][2] = value
                assert getattr(c, f"{name}_checked")(*wrong) == BAD_ARGUMENT


def test_fits_refuse_other_arguments_that_mean_nothing(rng, arrays):
    made = calls(rng, arrays)
    for name, steps in (("fit_component", 5), ("choose_component", 6)):
        right, _ = made[name]
        for place, value in ((steps, -1), (steps + 1, np.nan), (1, 2), (3, 6)):
            wrong = list(right)
            wrong[place] = value
            assert getattr(c, f"{name}_checked")(*wrong) == BAD_ARGUMENT
    right, _ = made["choose_component"]
    wrong = list(right)
    wrong[4] = np.array([0.0, np.nan, 1.0])
    assert c.choose_component_checked(*wrong) == BAD_ARGUMENT


# ---- prepared mixtures -----------------------------------------------------------------------------------------------


def test_a_whole_mixture_is_told_from_others(rng):
    mixture = prepared(random_mixture(rng, 3, 4, [2, 0, 1]))
    n = len(mixture)
    assert c.check_mixture(mixture, n) == c.check_mixture(mixture, n + 5) == 0
    assert {c.check_mixture(mixture, short) for short in (-1, 0, 3, n - 1)} == {TOO_SHORT}
    assert c.check_mixture(None, n) == c.check_mixture(np.zeros(n), n) == BAD_ARGUMENT
    for place in range(5):  # what it says of itself: version, process, size, K, d
        other = mixture.copy()
        other.view(np.intp)[place] += 1
        assert c.check_mixture(other, n + 1) in (BAD_ARGUMENT, TOO_SHORT)
    for place in (0, 1):
        other = mixture.copy()
        other.view(np.intp)[place] ^= 1
        assert c.n_components(other) == c.rows_work_size(other) == BAD_ARGUMENT


def test_a_mixture_of_another_process_is_refused(tmp_path):
    code = """import sys, numpy as np, amofa
model = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [np.zeros((2, 0))], [[1.0, 1.0]])
model.cython_handle().mixture.tofile(sys.argv[1])"""
    path = tmp_path / "mixture"
    subprocess.run([sys.executable, "-c", code, path], check=True, cwd=tmp_path)
    mixture = np.fromfile(path)
    own = amofa.MixtureOfFactorAnalyzers([1.0], [[0.0, 0.0]], [np.zeros((2, 0))], [[1.0, 1.0]]).cython_handle().mixture
    assert len(own) == len(mixture)
    assert np.count_nonzero(own.view(np.int64) != mixture.view(np.int64)) == 1
    assert c.check_mixture(own, len(own)) == 0
    assert c.check_mixture(mixture, len(mixture)) == c.n_features(mixture) == BAD_ARGUMENT


def test_parameters_of_a_prepared_mixture(rng, arrays):
    p = random_mixture(rng, 3, 4, [2, 0, 1])
    mixture = prepared(p)
    weights = arrays.make(3)
    assert c.mixture_weights(mixture, weights, 3) == 0
    assert np.array_equal(weights[:3], p.weights)
    for k, component in enumerate(p.components()):
        loadings = component.loadings
        covariance = loadings.T @ loadings + np.diag(component.uniquenesses)
        expected = {"mean": component.mean, "loadings": loadings, "uniquenesses": component.uniquenesses,
                    "covariance": covariance}  # fmt: skip
        for name, values in expected.items():
            get, out = getattr(c, f"component_{name}"), arrays.make(values.size)
            assert get(mixture, k, out, values.size) == 0
            assert relative_error(out[: values.size], values.ravel()) < 1e-15
            if values.size:
                assert get(mixture, k, out, values.size - 1) == TOO_SHORT
                assert get(mixture, k, None, values.size) == BAD_ARGUMENT
            assert get(mixture, -1, out, values.size) == get(mixture, 3, out, 99) == BAD_ARGUMENT
            assert get(np.zeros(99), 0, out, values.size) == BAD_ARGUMENT
    assert c.mixture_weights(mixture, weights, 2) == TOO_SHORT
    assert c.mixture_weights(np.zeros(99), weights, 3) == BAD_ARGUMENT


# ---- convergence -----------------------------------------------------------------------------------------------------


def moments(x):
    """A mixture of one component, and the scatter of rows under it."""
    d = x.shape[1]
    mixture = np.zeros(c.mixture_size(1, d, np.zeros(2, np.intp)))
    status = c.prepare_mixture(1, d, np.zeros(2, np.intp), np.ones(1), x.mean(axis=0), None, x.var(axis=0), mixture)
    assert status == 0
    return mixture, accumulate("scatter", mixture, x)[0]


def fit(x, q, floor, steps, tol=1e-9, start=None):
    """Uniquenesses in units of variances, the cost, and whether it has converged."""
    mixture, scatter = moments(x)
    d, variances = x.shape[1], x.var(axis=0)
    noise = variances / 2 if start is None else start * variances
    cost, converged, work = np.zeros(1), np.full(1, 7, np.int32), np.zeros(c.fit_work_size(d, q))
    status = c.fit_component_checked(
        mixture, 0, scatter, q, floor * variances, steps, tol,
        np.zeros(d), d, np.zeros((q, d)), q * d, noise, d, cost, converged, work, len(work),
    )  # fmt: skip
    assert status == 0
    return noise / variances, cost[0], int(converged[0])


def rows_with_a_uniqueness_of_nothing(q, d, n):
    """Rows whose likelihood rises all the way as one uniqueness goes to 0 (a Heywood case)."""
    rng = np.random.default_rng(0)
    for shape in ((6, 2, 200), (6, 3, 60), (5, 2, 30), (10, 4, 100)):
        d_, q_, n_ = shape
        loadings = rng.normal(size=(q_, d_))
        x = rng.normal(size=(n_, q_)) @ loadings + 0.5 * rng.normal(size=(n_, d_))
        if shape == (5, 2, 30):
            x[:, 0] = x[:, 1] + 1e-9 * rng.normal(size=n_)
        if shape == (d, q, n):
            return x
    raise AssertionError


@pytest.mark.parametrize(("d", "q", "n"), [(6, 3, 60), (10, 4, 100)])
def test_a_uniqueness_does_not_creep_to_its_floor(d, q, n):
    x = rows_with_a_uniqueness_of_nothing(q, d, n)
    noise, cost, converged = fit(x, q, 1e-6, 60)
    assert converged == 1
    assert noise.min() == pytest.approx(1e-6)
    # Nothing near is cheaper.
    for j in range(d):
        for factor in (0.98, 1.02):
            start = noise.copy()
            start[j] *= factor
            assert fit(x, q, 1e-6, 0, start=start)[1] > cost - 1e-7


def test_a_fit_says_whether_it_has_converged():
    x = rows_with_a_uniqueness_of_nothing(2, 6, 200)
    best = fit(x, 2, 1e-6, 100)
    assert best[2] == 1
    start, costs = None, []
    for _ in range(20):
        start, cost, converged = fit(x, 2, 1e-6, 2, start=start)
        costs.append(cost)
        if converged:
            break
    assert (len(costs) > 1, converged) == (True, 1)
    assert costs[-1] == pytest.approx(best[1], abs=1e-8)
    assert np.all(np.diff(costs) <= 1e-12)
    assert fit(x, 2, 1e-6, 0)[2] == 0


def test_choose_says_whether_it_has_converged():
    x = rows_with_a_uniqueness_of_nothing(4, 10, 100)
    mixture, scatter = moments(x)
    d, most, variances = 10, 6, x.var(axis=0)
    results = {}
    for steps in (1, 100):
        number, noise, cost, converged = np.zeros(1, np.intp), variances / 2, np.zeros(1), np.zeros(1, np.int32)
        work = np.zeros(c.fit_work_size(d, most))
        status = c.choose_component_checked(
            mixture, 0, scatter, most, 10.0 * np.arange(most + 1), 1e-6 * variances, steps, 1e-9, number,
            np.zeros(d), d, np.zeros((most, d)), most * d, noise, d, cost, converged, work, len(work),
        )  # fmt: skip
        assert status == 0
        results[steps] = int(converged[0]), int(number[0]), cost[0]
    assert (results[1][0], results[100][0]) == (0, 1)
    _, q, cost = results[100]
    assert fit(x, q, 1e-6, 100)[1] + 10.0 * q == pytest.approx(cost, abs=1e-6)


def test_a_component_whose_moments_are_not_finite_has_not_converged(rng, arrays):
    right, _ = calls(rng, arrays)["fit_component"]
    wrong = list(right)
    wrong[2] = right[2].copy()
    wrong[2][-25 * 2 :] = np.nan
    converged = wrong[14]
    converged[0] = 1
    assert c.fit_component_checked(*wrong) == 1
    assert converged[0] == 0
    wrong[2] = np.zeros_like(right[2])
    assert c.fit_component_checked(*wrong) == NO_ROWS
