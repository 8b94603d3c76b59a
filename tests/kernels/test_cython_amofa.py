"""The C-level functions: their signatures are a promise, their values those of plain numpy and of the Python layer."""

import importlib.resources
import json
import math
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import reference
from cython_calls import Functions, signatures
from reference import log_error, random_mixture, random_rows, relative_error

import amofa
from amofa import cython_amofa
from amofa._data.row_chunks import Samples
from amofa._kernels._factor_analysis import Solver
from amofa._parameters import Evaluator, Parameters

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/cython_api.json"
TOLERANCE = 1e-12
BAD_ARGUMENT, NO_ROWS = -1, -2
# K, d, factors of each component, n: more rows than a block, no factors, more factors than features, one of each.
SHAPES = [
    (1, 1, [0], 1),
    (1, 1, [1], 3),
    (2, 3, [0, 0], 300),
    (3, 4, [4, 5, 7], 511),
    (3, 16, [1, 0, 2], 1100),
    (2, 40, [3, 10], 70),
]

c = Functions()


def prepared(parameters):
    """A mixture in the form that the functions take."""
    p = parameters
    mixture = np.full(c.mixture_size(p.n_components, p.n_features, p.offsets), np.nan)
    status = c.prepare_mixture(
        p.n_components, p.n_features, p.offsets, p.weights, p.means, p.loadings, p.uniquenesses, mixture
    )
    assert status == 0
    return mixture


def work_for(mixture):
    """NaN, so that whatever is read before it is written is seen."""
    return np.full(c.rows_work_size(mixture), np.nan)


def strides(x):
    """Of rows and features, in doubles."""
    assert all(s % x.itemsize == 0 for s in x.strides)
    return tuple(s // x.itemsize for s in x.strides)


def posterior(parameters, x, mixture=None):
    """All outputs, rows first."""
    mixture, n = prepared(parameters) if mixture is None else mixture, len(x)
    K, P = parameters.n_components, len(parameters.loadings)
    outputs = [np.full(shape, np.nan) for shape in ((n,), (K, n), (K, n), (P, n))]
    assert c.posterior(mixture, n, x, *strides(x), *outputs, work_for(mixture)) == 0
    return [a.T for a in outputs]


def accumulate(name, parameters, x, row_weights=None, mixture=None):
    """Statistics or scatter, one buffer."""
    mixture = prepared(parameters) if mixture is None else mixture
    sums = np.zeros(getattr(c, f"{name}_size")(mixture))
    status = getattr(c, f"accumulate_{name}")(mixture, len(x), x, *strides(x), row_weights, sums, work_for(mixture))
    assert status == 0
    return sums


def kurtosis(parameters, x, row_weights=None):
    mixture, K = prepared(parameters), parameters.n_components
    counts, fourth = np.zeros(K), np.zeros(K)
    assert c.accumulate_kurtosis(mixture, len(x), x, *strides(x), row_weights, counts, fourth, work_for(mixture)) == 0
    return counts, fourth


def layouts(x):
    """The same rows in several memory layouts."""
    wide = np.zeros((len(x), 2 * x.shape[1] + 1))
    wide[:, 1::2] = x
    backwards = np.ascontiguousarray(x[::-1, ::-1])
    padded = np.zeros((x.shape[1], len(x) + 5))
    padded[:, : len(x)] = x.T
    return {
        "rows": np.ascontiguousarray(x),
        "features": np.asfortranarray(x),
        "features apart": padded[:, : len(x)].T,
        "both strided": wide[:, 1::2],
        "backwards": backwards[::-1, ::-1],
    }


# ---- what is promised ------------------------------------------------------------------------------------------------


def declarations():
    """Text of the installed .pxd without comments, and its functions: name -> what follows the arguments."""
    text = importlib.resources.files("amofa").joinpath("cython_amofa.pxd").read_text(encoding="utf-8")
    code = re.sub(r"#.*", "", text)
    return code, dict(re.findall(r"cdef [\w ]+?\b(\w+)\([^()]*\)([^\n]*)", code))


def test_released_signatures_do_not_change():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    lost_or_changed = {name: signature for name, signature in golden.items() if signatures().get(name) != signature}
    assert lost_or_changed == {}, "consumers built against a release could not import any more: see CONTRIBUTING.md"
    assert signatures() == golden, "a new function: add it to tests/cython_api.json"


def test_every_exported_function_is_declared_without_exceptions_and_gil():
    code, functions = declarations()
    assert set(functions) == set(signatures())
    assert set(functions.values()) == {" noexcept nogil"}
    assert code.count("cdef") == len(functions)


def test_the_pxd_needs_no_other():
    code, _ = declarations()
    assert re.findall(r"\b(?:cimport|include|ctypedef|struct|class|extern)\b", code) == []
    types = {t for signature in signatures().values() for t in re.findall(r"\w+", signature)}
    assert types == {"double", "int", "Py_ssize_t", "void", "const"}


def test_no_other_pxd_is_installed():
    build = ROOT / "src/meson.build"
    if not build.is_file():
        pytest.skip("not a checkout")
    assert re.findall(r"'([^']*\.pxd)'", build.read_text(encoding="utf-8")) == ["amofa/cython_amofa.pxd"]


# ---- a mixture -------------------------------------------------------------------------------------------------------


def test_a_mixture_says_what_it_is(rng):
    mixture = prepared(random_mixture(rng, 3, 5, [2, 0, 6]))
    assert (c.n_components(mixture), c.n_features(mixture)) == (3, 5)
    assert [c.n_factors(mixture, k) for k in range(3)] == [2, 0, 6]


def test_sizes(rng):
    parameters = random_mixture(rng, 3, 5, [2, 0, 6])
    mixture = prepared(parameters)
    assert c.statistics_size(mixture) == len(Evaluator(parameters).sums())
    assert c.scatter_size(mixture) == 2 + 3 + 3 * 5 + 3 * 25 + 3


@pytest.mark.parametrize(
    ("K", "d", "offsets"), [(0, 2, [0]), (-1, 2, [0]), (1, 0, [0, 1]), (1, 2, [1, 2]), (2, 2, [0, 2, 1])]
)
def test_no_such_mixture(K, d, offsets):
    offsets, numbers = np.array(offsets, dtype=np.intp), np.ones(8)
    assert c.mixture_size(K, d, offsets) == BAD_ARGUMENT
    assert c.prepare_mixture(K, d, offsets, numbers, numbers, numbers, numbers, np.ones(30)) == BAD_ARGUMENT


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_covariance_that_is_none_is_named_and_the_mixture_of_no_use(rng, value):
    p = random_mixture(rng, 3, 2, 1)
    p.uniquenesses[1, 0] = value
    mixture = np.zeros(c.mixture_size(3, 2, p.offsets))
    assert c.prepare_mixture(3, 2, p.offsets, p.weights, p.means, p.loadings, p.uniquenesses, mixture) == 2
    assert c.n_components(mixture) == BAD_ARGUMENT


def test_what_is_no_mixture_is_refused(rng):
    x, work, K = np.zeros((2, 3)), np.zeros(100), np.zeros(1)
    for wrong in (None, rng.standard_normal(50), np.zeros(50)):
        sizes = (c.rows_work_size, c.statistics_size, c.scatter_size, c.maximize_work_size)
        numbers = (c.n_components, c.n_features)
        assert [f(wrong) for f in (*sizes, *numbers)] == [BAD_ARGUMENT] * 6
        assert c.n_factors(wrong, 0) == BAD_ARGUMENT
        assert c.posterior(wrong, 2, x, 3, 1, work, None, None, None, work) == BAD_ARGUMENT
        assert c.accumulate_statistics(wrong, 2, x, 3, 1, None, work, work) == BAD_ARGUMENT
        assert c.accumulate_scatter(wrong, 2, x, 3, 1, None, work, work) == BAD_ARGUMENT
        assert c.accumulate_kurtosis(wrong, 2, x, 3, 1, None, K, K, work) == BAD_ARGUMENT
        assert c.maximize_component(wrong, 0, work, work, work, work, work, work) == BAD_ARGUMENT
        assert c.fit_component(wrong, 0, work, 0, work, 1, 0.0, work, work, work, None, work) == BAD_ARGUMENT


@pytest.mark.parametrize("k", [-1, 2])
def test_no_such_component(rng, k):
    parameters = random_mixture(rng, 2, 3, 1)
    mixture, a, q = prepared(parameters), np.ones(200), np.zeros(1, dtype=np.intp)
    assert c.n_factors(mixture, k) == BAD_ARGUMENT
    assert c.maximize_component(mixture, k, a, a, a, a, a, a) == BAD_ARGUMENT
    assert c.fit_component(mixture, k, a, 0, a, 1, 0.0, a, a, a, None, a) == BAD_ARGUMENT
    assert c.choose_component(mixture, k, a, 1, a, a, 1, 0.0, q, a, a, a, None, a) == BAD_ARGUMENT


def test_a_negative_number_of_rows_is_refused(rng):
    mixture, a = prepared(random_mixture(rng, 2, 3, 1)), np.ones(200)
    assert c.posterior(mixture, -1, a, 3, 1, a, None, None, None, a) == BAD_ARGUMENT


# ---- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
def test_posterior_is_that_of_dense_algebra(rng, K, d, factors, n):
    parameters = random_mixture(rng, K, d, factors)
    x, mixture = random_rows(rng, parameters, n), parameters.components()
    log_density, log_joint, responsibilities, scores = posterior(parameters, x)
    assert log_error(log_joint, reference.log_joint(x, mixture)) < TOLERANCE
    assert log_error(log_density, reference.log_density(x, mixture)) < TOLERANCE
    assert relative_error(responsibilities, reference.responsibilities(x, mixture), 1.0) < TOLERANCE
    expected = np.concatenate([reference.factor_scores(x, component) for component in mixture], axis=1)
    assert relative_error(scores, expected) < TOLERANCE


@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
def test_memory_layout_changes_nothing(rng, K, d, factors, n):
    parameters = random_mixture(rng, K, d, factors)
    x, w = random_rows(rng, parameters, n), rng.uniform(0, 2, n)
    first = None
    for layout in layouts(x).values():
        assert np.array_equal(layout, x)
        got = [
            *posterior(parameters, layout),
            accumulate("statistics", parameters, layout, w),
            accumulate("scatter", parameters, layout, w),
            *kurtosis(parameters, layout, w),
        ]
        first = first or got
        # Bits differ where the compiler treats the end of a row of a block another way.
        for a, b in zip(got, first, strict=True):
            assert relative_error(a, b) < 1e-13


def test_outputs_that_are_not_wanted(rng):
    parameters = random_mixture(rng, 2, 3, [1, 2])
    x, mixture = random_rows(rng, parameters, 400), prepared(parameters)
    expected = [a.T for a in posterior(parameters, x)]
    for wanted in range(4):
        outputs = [np.full(a.shape, np.nan) if i == wanted else None for i, a in enumerate(expected)]
        assert c.posterior(mixture, len(x), x, *strides(x), *outputs, work_for(mixture)) == 0
        assert np.array_equal(outputs[wanted], expected[wanted])


def test_weights_of_one_give_densities_of_components(rng):
    parameters = random_mixture(rng, 3, 4, 2)
    x, weights = random_rows(rng, parameters, 50), parameters.weights.copy()
    expected = reference.log_joint(x, parameters.components()) - np.log(weights)
    parameters.weights[:] = 1.0
    assert log_error(posterior(parameters, x)[1], expected) < TOLERANCE


def test_no_rows(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    assert not accumulate("statistics", parameters, np.zeros((0, 3))).any()
    assert posterior(parameters, np.zeros((0, 3)))[0].shape == (0,)


@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_and_scatter_are_those_of_dense_algebra(rng, K, d, factors, n, weighted):
    parameters = random_mixture(rng, K, d, factors)
    x, mixture = random_rows(rng, parameters, n), parameters.components()
    w = rng.uniform(0, 2, n) * (rng.random(n) < 0.8) + 1e-3 if weighted else None
    statistics = reference.statistics(x, w, mixture)
    got = accumulate("statistics", parameters, x, w)
    at = 0
    for expected in statistics.values():
        assert relative_error(got[at : at + expected.size], expected.ravel(), np.abs(expected).max(initial=1.0)) < 1e-11
        at += expected.size
    assert at == len(got)

    scatter = accumulate("scatter", parameters, x, w)
    head, first, second, tails = np.split(scatter, np.cumsum([2 + K, K * d, K * d * d]))
    np.testing.assert_array_equal(tails, head[2:])
    # The log-likelihood, the entropy and the soft counts are the same sums.
    assert np.array_equal(head, got[: 2 + K])
    assert relative_error(first, statistics["first"].ravel(), np.abs(statistics["first"]).max() + 1.0) < 1e-11
    lower = np.tril(second.reshape(K, d, d))
    assert relative_error(lower, np.tril(reference.scatter(x, w, mixture))) < 1e-11


@pytest.mark.parametrize("name", ["statistics", "scatter"])
def test_sums_of_two_sets_of_rows_merge(rng, name):
    parameters = random_mixture(rng, 3, 5, [1, 2, 0])
    x, w = random_rows(rng, parameters, 700), rng.uniform(0, 2, 700)
    whole = accumulate(name, parameters, x, w)
    merged = accumulate(name, parameters, x[:300], w[:300])
    c.merge(len(merged), accumulate(name, parameters, x[300:], w[300:]), merged)
    assert relative_error(merged, whole) < TOLERANCE


@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES)
def test_kurtosis_is_that_of_dense_algebra(rng, K, d, factors, n):
    parameters = random_mixture(rng, K, d, factors)
    x, w, mixture = random_rows(rng, parameters, n), rng.uniform(0.5, 2, n), parameters.components()
    counts, fourth = kurtosis(parameters, x, w)
    assert relative_error(counts, reference.weighted_responsibilities(x, w, mixture).sum(axis=0)) < TOLERANCE
    assert relative_error(fourth, reference.fourth_moments(x, w, mixture)) < TOLERANCE
    standardized = [c.standardized_kurtosis(d, *moments) for moments in zip(counts, fourth, strict=True)]
    expected = reference.kurtosis_z(x, w, mixture)
    assert relative_error(standardized, expected, np.abs(expected).max() + 1.0) < 1e-10
    assert (
        relative_error(standardized, Samples(x, weights=w).kurtosis_z(parameters), np.abs(expected).max() + 1) < 1e-10
    )


# ---- the M-step ------------------------------------------------------------------------------------------------------


def maximized(parameters, x, w, floor):
    """All components by `maximize_component`."""
    mixture, statistics = prepared(parameters), accumulate("statistics", parameters, x, w)
    new = Parameters(parameters.n_features, parameters.n_factors)
    new.buffer[:] = np.nan
    work = np.full(c.maximize_work_size(mixture), np.nan)
    for k in range(new.n_components):
        loadings = np.full((new.n_factors[k], new.n_features), np.nan)
        status = c.maximize_component(mixture, k, statistics, floor, new.means[k], loadings, new.uniquenesses[k], work)
        assert status == 0
        new.component_loadings(k)[:] = loadings
    new.weights[:] = statistics[2 : 2 + new.n_components] / statistics[2 : 2 + new.n_components].sum()
    return new


@pytest.mark.parametrize(("K", "d", "factors", "n"), SHAPES[2:])
def test_em_step_is_that_of_dense_algebra(rng, K, d, factors, n):
    parameters = random_mixture(rng, K, d, factors)
    x, w = random_rows(rng, parameters, n), rng.uniform(0.5, 2, n)
    floor = np.full(d, 0.4)
    new = maximized(parameters, x, w, floor)
    for component, expected in zip(
        new.components(), reference.maximize(x, w, parameters.components(), floor), strict=True
    ):
        assert component.weight == pytest.approx(expected.weight, rel=1e-10)
        assert relative_error(component.mean, expected.mean, 1.0) < 1e-10
        assert relative_error(component.loadings, expected.loadings, 1.0) < 1e-10
        assert relative_error(component.uniquenesses, expected.uniquenesses, 1.0) < 1e-10


def test_em_steps_climb(rng):
    parameters = random_mixture(rng, 2, 5, [2, 1])
    x = random_rows(rng, parameters, 400)
    start = random_mixture(rng, 2, 5, [2, 1])
    climbed = []
    for _ in range(10):
        climbed.append(accumulate("statistics", start, x)[0])
        start = maximized(start, x, None, np.full(5, 1e-6))
    assert np.all(np.diff(climbed) > 0)


def cost_of(count, covariance, loadings, uniquenesses):
    """n/2 (log |Sigma| + tr(Sigma^-1 S))."""
    sigma = loadings.T @ loadings + np.diag(uniquenesses)
    return count / 2 * (np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, covariance)))


def moments(parameters, x, w, k):
    """Soft count, mean and covariance of component k, in numpy."""
    h = reference.weighted_responsibilities(x, w, parameters.components())[:, k]
    mean = h @ x / h.sum()
    return h.sum(), mean, (h[:, None] * (x - mean)).T @ (x - mean) / h.sum()


def fitted(parameters, x, w, k, q, floor, steps=200, tol=1e-13):
    """`fit_component`: mean, loadings, uniquenesses, cost."""
    mixture, d = prepared(parameters), parameters.n_features
    mean, loadings, cost = np.full(d, np.nan), np.full((q, d), np.nan), np.full(1, np.nan)
    noise, work = parameters.uniquenesses[k].copy(), np.full(c.fit_work_size(d, q), np.nan)
    scatter = accumulate("scatter", parameters, x, w)
    assert c.fit_component(mixture, k, scatter, q, floor, steps, tol, mean, loadings, noise, cost, work) == 0
    return mean, loadings, noise, cost[0]


@pytest.mark.parametrize(("d", "q"), [(1, 0), (3, 1), (6, 0), (6, 2), (12, 4)])
def test_fit_is_a_maximum_of_the_likelihood(rng, d, q):
    parameters = random_mixture(rng, 2, d, [q, max(1, q)])
    x, w, k = random_rows(rng, parameters, 900), rng.uniform(0.5, 2, 900), 0
    count, mean, S = moments(parameters, x, w, k)
    got_mean, loadings, noise, cost = fitted(parameters, x, w, k, q, np.full(d, 1e-6))
    assert relative_error(got_mean, mean, 1.0) < 1e-10
    assert cost == pytest.approx(cost_of(count, S, loadings, noise), rel=1e-10)
    # Where it is highest, the likelihood has no slope: diag(Sigma^-1 (Sigma - S) Sigma^-1) = 0, and Lambda's too.
    sigma = loadings.T @ loadings + np.diag(noise)
    slope = np.linalg.solve(sigma, np.linalg.solve(sigma, sigma - S).T)
    assert np.abs(np.diag(slope) * noise).max() < 1e-6
    assert np.abs(slope @ loadings.T).max(initial=0.0) < 1e-6


def test_fit_holds_the_floor(rng):
    parameters = random_mixture(rng, 1, 5, 1)
    x = random_rows(rng, parameters, 300)
    floor = np.full(5, 0.9)
    _, _, noise, _ = fitted(parameters, x, None, 0, 1, floor)
    assert np.all(noise >= floor)
    assert np.any(noise == floor)


def test_fit_is_what_the_python_layer_does(rng):
    parameters = random_mixture(rng, 1, 6, 2)
    x, floor = random_rows(rng, parameters, 500), np.full(6, 1e-6)
    count, _, S = moments(parameters, x, None, 0)
    noise, loadings, spectrum = parameters.uniquenesses[0].copy(), np.empty((2, 6)), np.empty((1, 6))
    offsets = np.array([0, 2], dtype=np.intp)
    cost = Solver(6).solve(
        S[None], np.array([count]), offsets, floor, 0.0, np.ones(6), noise, loadings, spectrum, 30, 1e-3
    )
    _, got_loadings, got_noise, got_cost = fitted(parameters, x, None, 0, 2, floor, 30, 1e-3)
    assert got_cost == pytest.approx(cost, rel=1e-12)
    assert relative_error(got_noise, noise) < 1e-9
    assert relative_error(got_loadings.T @ got_loadings, loadings.T @ loadings) < 1e-9


@pytest.mark.parametrize(("d", "true", "first"), [(1, 0, 0), (4, 0, 2), (8, 2, 0), (8, 3, 7), (8, 2, 2)])
def test_number_of_factors_is_the_one_that_costs_least(rng, d, true, first):
    parameters = random_mixture(rng, 1, d, true)
    x, floor, most = random_rows(rng, parameters, 600), np.full(d, 1e-6), d - 1 if d > 1 else 0
    prices = 0.5 * math.log(600) * np.array([2 * d + d * q - q * (q - 1) / 2 for q in range(most + 1)])
    mixture, scatter = prepared(parameters), accumulate("scatter", parameters, x)
    mean, loadings, noise = np.empty(d), np.full((most, d), np.nan), parameters.uniquenesses[0].copy()
    number, cost, work = np.array([first], dtype=np.intp), np.empty(1), np.full(c.fit_work_size(d, most), np.nan)
    status = c.choose_component(
        mixture, 0, scatter, most, prices, floor, 100, 1e-6, number, mean, loadings, noise, cost, work
    )
    assert status == 0
    q = int(number[0])
    all_costs = [fitted(parameters, x, None, 0, m, floor)[3] + prices[m] for m in range(most + 1)]
    assert q == np.argmin(all_costs) == true
    assert cost[0] == pytest.approx(min(all_costs), abs=1e-4)
    count, _, S = moments(parameters, x, None, 0)
    assert cost[0] == pytest.approx(cost_of(count, S, loadings[:q], noise) + prices[q], rel=1e-10)


def test_without_rows_outputs_stay_as_they_are(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    mixture, old = prepared(parameters), np.full(3, 7.0)
    mean, loadings, noise, work = old.copy(), old.copy(), old.copy(), np.zeros(500)
    zeros, floor, q = np.zeros(c.scatter_size(mixture)), np.ones(3), np.zeros(1, dtype=np.intp)
    assert c.maximize_component(mixture, 0, zeros, floor, mean, loadings, noise, work) == NO_ROWS
    assert c.fit_component(mixture, 0, zeros, 1, floor, 9, 0.0, mean, loadings, noise, None, work) == NO_ROWS
    assert (
        c.choose_component(mixture, 0, zeros, 1, floor, floor, 9, 0.0, q, mean, loadings, noise, None, work) == NO_ROWS
    )
    assert np.array_equal([mean, loadings, noise], [old] * 3)


def test_moments_that_are_not_finite_are_named(rng):
    parameters = random_mixture(rng, 2, 3, 1)
    mixture, a, floor, work = prepared(parameters), np.ones(3), np.ones(3), np.zeros(500)
    scatter = accumulate("scatter", parameters, random_rows(rng, parameters, 50))
    statistics = accumulate("statistics", parameters, random_rows(rng, parameters, 50))
    scatter[-11:-2] = statistics[-3:] = np.nan
    assert c.maximize_component(mixture, 1, statistics, floor, a.copy(), a.copy(), a.copy(), work) == 2
    assert c.fit_component(mixture, 1, scatter, 1, floor, 9, 0.0, a.copy(), a.copy(), a.copy(), None, work) == 2
    q = np.ones(1, dtype=np.intp)
    chosen = c.choose_component(
        mixture, 1, scatter, 1, np.zeros(2), floor, 9, 0.0, q, a.copy(), a.copy(), a.copy(), None, work
    )
    assert (chosen, q.tolist()) == (2, [1])


@pytest.mark.parametrize(("first", "most"), [(-1, 2), (3, 2), (0, 4)])
def test_impossible_numbers_of_factors(rng, first, most):
    parameters = random_mixture(rng, 1, 3, 1)
    mixture, a, q = prepared(parameters), np.ones(500), np.array([first], dtype=np.intp)
    assert c.choose_component(mixture, 0, a, most, a, a, 9, 0.0, q, a, a, a, None, a) == BAD_ARGUMENT
    assert c.fit_work_size(3, 4) == c.fit_work_size(3, -1) == c.fit_work_size(0, 0) == BAD_ARGUMENT


@pytest.mark.parametrize(("K", "d", "factors", "n"), [*SHAPES, (2, 300, [0, 5], 500)])
def test_nothing_is_written_beyond_the_sizes(rng, K, d, factors, n):
    p = random_mixture(rng, K, d, factors)
    x, w, floor, q = random_rows(rng, p, n), rng.uniform(0, 2, n), np.full(d, 1e-6), min(2, d)
    memory, guard = [], np.full(64, 123.0)

    def array(size):
        """Of so many doubles, with a guard behind them."""
        assert size >= 0
        memory.append(np.concatenate([np.zeros(size), guard]))
        return memory[-1]

    mixture = array(c.mixture_size(K, d, p.offsets))
    assert c.prepare_mixture(K, d, p.offsets, p.weights, p.means, p.loadings, p.uniquenesses, mixture) == 0
    rows = n, x, d, 1
    outputs = [array(n), array(K * n), array(K * n), array(len(p.loadings) * n)]
    statistics, scatter = array(c.statistics_size(mixture)), array(c.scatter_size(mixture))
    counts, fourth, number = array(K), array(K), np.array([q], dtype=np.intp)
    loadings = array(max(q, *p.n_factors) * d)
    noise = array(d)
    noise[:d] = 1.0
    assert c.posterior(mixture, *rows, *outputs, array(c.rows_work_size(mixture))) == 0
    assert c.accumulate_statistics(mixture, *rows, w, statistics, array(c.rows_work_size(mixture))) == 0
    assert c.accumulate_scatter(mixture, *rows, w, scatter, array(c.rows_work_size(mixture))) == 0
    assert c.accumulate_kurtosis(mixture, *rows, w, counts, fourth, array(c.rows_work_size(mixture))) == 0
    work = array(c.maximize_work_size(mixture))
    assert [
        c.maximize_component(mixture, k, statistics, floor, array(d), loadings, array(d), work) for k in range(K)
    ] == [0] * K
    work, cost = array(c.fit_work_size(d, q)), array(1)
    assert c.fit_component(mixture, 0, scatter, q, floor, 2, 0.0, array(d), loadings, noise, cost, work) == 0
    prices = np.arange(q + 1.0)
    status = c.choose_component(
        mixture, 0, scatter, q, prices, floor, 2, 0.0, number, array(d), loadings, noise, cost, work
    )
    assert status == 0
    assert all(np.array_equal(a[-len(guard) :], guard) for a in memory)


# ---- models of Python ------------------------------------------------------------------------------------------------


@pytest.fixture
def model(rng):
    parameters = random_mixture(rng, 3, 5, [2, 0, 1])
    loadings = [parameters.component_loadings(k).T for k in range(3)]
    return amofa.MixtureOfFactorAnalyzers(parameters.weights, parameters.means, loadings, parameters.uniquenesses)


def test_a_handle_scores_as_the_model(rng, model):
    X, _ = model.sample(1000, rng)
    handle = model.cython_handle()
    log_density, _, responsibilities, scores = posterior(model._parameters, X, handle.mixture)
    assert relative_error(log_density, model.score_samples(X)) < 1e-14
    assert relative_error(responsibilities, model.predict_proba(X)) < 1e-13
    assert relative_error(scores, np.concatenate(model.factor_scores(X), axis=1)) < 1e-13


def test_a_handle_cannot_be_changed_and_keeps_its_memory(model):
    handle = model.cython_handle()
    assert (handle.n_components, handle.n_features, handle.n_factors) == (3, 5, (2, 0, 1))
    assert handle.address == handle.mixture.ctypes.data
    with pytest.raises(ValueError, match="WRITEABLE"):
        handle.mixture.flags.writeable = True
    view = memoryview(handle.mixture)
    assert view.readonly
    before = bytes(view)
    del handle
    assert bytes(view) == before == bytes(model.cython_handle().mixture)


def test_a_handle_is_not_pickled(model):
    with pytest.raises(TypeError, match="pickle the model"):
        pickle.dumps(model.cython_handle())
    assert np.array_equal(pickle.loads(pickle.dumps(model)).cython_handle().mixture, model.cython_handle().mixture)


def test_prepared_mixture_checks_its_arguments(rng):
    p = random_mixture(rng, 2, 3, 1)
    with pytest.raises(ValueError, match="parameters has the wrong length"):
        cython_amofa.prepared_mixture(p.buffer[:-1], p.offsets, 3)
    with pytest.raises(ValueError, match="offsets must not decrease"):
        cython_amofa.prepared_mixture(p.buffer, np.array([0, 2, 1], dtype=np.intp), 3)
    with pytest.raises(ValueError, match="n_features must be positive"):
        cython_amofa.prepared_mixture(p.buffer, p.offsets, 0)
    p.uniquenesses[1] = 0.0
    with pytest.raises(FloatingPointError, match="component 1"):
        cython_amofa.prepared_mixture(p.buffer, p.offsets, 3)


def test_many_threads_share_a_mixture(rng, model):
    X, _ = model.sample(4000, rng)
    mixture, parameters = model.cython_handle().mixture, model._parameters
    alone = [*posterior(parameters, X, mixture), accumulate("scatter", parameters, X, None, mixture)]
    found, barrier = {}, threading.Barrier(8)

    def run(i):
        barrier.wait()
        for _ in range(5):
            found[i] = [*posterior(parameters, X, mixture), accumulate("scatter", parameters, X, None, mixture)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(8))
    for results in found.values():
        assert all(np.array_equal(a, b) for a, b in zip(results, alone, strict=True))


def test_python_accumulates_the_same(rng, model):
    X, _ = model.sample(1000, rng)
    sums = Samples(X).sums(model._parameters)
    assert relative_error(accumulate("statistics", model._parameters, X), sums) < 1e-13
