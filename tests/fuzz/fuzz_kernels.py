"""Fuzz targets: compiled functions called with arguments that are not what they expect (see fuzz.py).

An argument that cannot be used is refused with an exception, and never a reason to read or write beside an array. A
build with sanitizers sees all of that (`.ci/sanitizers`), any other only what crashes.
"""

import contextlib
import itertools

import numpy as np
from cython_calls import Functions
from hypothesis import strategies as st
from reference import random_mixture, random_rows

from amofa import cython_amofa
from amofa._kernels import (
    _factor_analysis,
    _kurtosis,
    _mixture,
    _noise,
    _pairs,
    _posterior,
    _profile_likelihood,
    _rows,
    _standard,
    _statistics,
)

REFUSALS = (ValueError, TypeError, FloatingPointError, IndexError, OverflowError, MemoryError, AttributeError)
WHOLE_NUMBERS = (-(2**63), -(2**40), -2, -1, 0, 1, 2, 3, 2**31, 2**40, 2**61, 2**62, 2**63 - 1, 2**64)
NUMBERS = (-np.inf, -1e308, -1.0, -0.0, 0.0, 5e-324, 1.0, 1e308, np.inf, np.nan)
BAD_ARGUMENT, NO_ROWS = -1, -2

c = Functions()


# ---- valid arguments -------------------------------------------------------------------------------------------------


class Problem:
    """Rows and a mixture, and the buffers that go with them, each of exactly the length that is asked for."""

    def __init__(self, seed, K, d, factors, n):
        self.rng = np.random.default_rng(seed)
        self.K, self.d, self.n, self.P = K, d, n, sum(factors)
        p = self.parameters = random_mixture(self.rng, K, d, factors)
        self.offsets, self.buffer = p.offsets, p.buffer
        self.x = np.ascontiguousarray(random_rows(self.rng, p, n).T)
        self.row_weights = self.rng.uniform(0, 2, n)
        self.floor, self.scale = np.full(d, 1e-3), np.ones(d)
        _, n_prepared, n_scratch = _mixture.buffer_lengths(self.offsets, d)
        self.prepared, self.scratch = np.zeros(n_prepared), np.full(n_scratch, np.nan)
        _mixture.prepare(self.buffer, self.offsets, d, self.prepared)
        a = self.rng.standard_normal((K, d, d + 2))
        self.covariances = a @ a.transpose(0, 2, 1) / (d + 2)
        self.counts = self.rng.uniform(1, 50, K)
        self.program = self.rng.integers(0, 40, 12).tolist()

    def sums(self, full=False):
        return np.zeros(_statistics.sums_size(self.offsets, self.d, full))


def iterate(parameters, offsets, floor, with_entropy, x, row_weights, sums, scratch, program):
    """Steps of an iteration in any order; an error in one must leave the others safe."""
    whole = _standard.StandardIteration(parameters, offsets, floor, with_entropy)
    run_steps(steps_of(whole, x, row_weights, sums, scratch), program)


def iterate_profile(parameters, offsets, floor, prior_count, scale, noise, x, row_weights, sums, scratch, program):
    """The same of EM over labels alone."""
    whole = _profile_likelihood.ProfileLikelihoodIteration(parameters, offsets, floor, prior_count, scale, noise, True)
    spaces, d = [whole.step_space()], len(floor)
    steps = [
        *steps_of(whole, x, row_weights, sums, scratch),
        whole.finish,
        whole.begin_step,
        lambda: whole.step(0, spaces[0]),
        lambda: whole.step(len(offsets) - 2, spaces[-1]),
        lambda: whole.step(len(offsets) - 1, spaces[0]),
        lambda: whole.step(-1, spaces[0]),
        lambda: whole.step(0, None),
        lambda: spaces.append(_profile_likelihood.StepSpace(offsets, d, noise)),
        lambda: spaces.append(_profile_likelihood.StepSpace(offsets, d + 1, 1)),
        whole.end_step,
        whole.log_determinants,
        whole.prior_cost,
    ]
    run_steps(steps, program)


def pass_over_pairs(parameters, offsets, floor, scale, near, kept, least, x, row_weights, sums, scratch, program):
    """Mark pairs in a pass over all, and go over these alone, with steps left out or in another order."""
    whole = _profile_likelihood.ProfileLikelihoodIteration(parameters, offsets, floor, 1.0, scale, 0, False)
    whole.accumulate(x, row_weights, sums, scratch, near, kept, least)
    pairs, last = _pairs.Pairs(whole, near, kept), len(offsets) - 2
    pairs.read(x, 0)
    steps = [
        lambda: pairs.read(x, 1),
        lambda: pairs.find(0, scratch),
        lambda: pairs.find(last, scratch),
        lambda: pairs.find(last + 1, scratch),
        pairs.share,
        lambda: pairs.add(0, sums, scratch),
        lambda: pairs.add(last, whole.sums, scratch),
        lambda: pairs.add_rest(sums),
        lambda: pairs.set_rest(whole.sums, sums),
        lambda: pairs.n_pairs,
    ]
    run_steps(steps, program)


def steps_of(whole, x, row_weights, sums, scratch):
    """What all iterations can do."""
    return [
        lambda: whole.accumulate(x, row_weights),
        lambda: whole.accumulate(x, row_weights, sums, scratch),
        lambda: whole.accumulate(x, None, np.zeros(len(whole.sums)), np.empty(whole.scratch_size)),
        lambda: whole.accumulate(x, None, whole.sums, scratch),
        lambda: whole.add_sums(sums),
        lambda: whole.add_sums(whole.sums),
        whole.maximize,
        whole.prepare,
        whole.clear,
        lambda: (whole.log_likelihood, whole.entropy, whole.n_factors, whole.row_work, whole.merge_work),
    ]


def run_steps(steps, program):
    for number in program:
        with contextlib.suppress(*REFUSALS):
            steps[number % len(steps)]()


def solve(n_features, n_matrices, n_factors, n_rows, *problem):
    """A solver of a size, and what it is to solve."""
    _factor_analysis.Solver(n_features, n_matrices, n_factors, n_rows).solve(*problem)


def solve_panels(n_features, n_matrices, n_factors, n_rows, *problem):
    _factor_analysis.Solver(n_features, n_matrices, n_factors, n_rows).solve_panels(*problem)


def choose(n_features, n_matrices, n_factors, n_rows, *problem):
    _factor_analysis.Solver(n_features, n_matrices, n_factors, n_rows).choose(*problem)


def rows_of(p):
    return p.x, p.row_weights, p.offsets, p.prepared


def calls(p):
    """Functions by name, with arguments that they take."""
    K, d, n, P, one = p.K, p.d, p.n, p.P, p.parameters.n_factors[0]
    table, m = np.ascontiguousarray(p.x.T), d + 1
    rows = [0, *np.cumsum(p.rng.integers(0, m + 1, K))]
    panels, rows = p.rng.standard_normal((rows[-1], d)), np.array(rows, dtype=np.intp)
    noise, loadings, spectra = np.ones(d), np.zeros((P, d)), np.zeros((K, d))
    of_one = [len(noise), 1, d, -1]
    shared = [p.counts, p.offsets, p.floor, 1.0, p.scale, noise, loadings, spectra, 3, 1e-6]
    priced = [float(p.counts[0]), min(one, d), np.arange(d + 1.0), 1.0, 0.5, p.floor, 1.0, p.scale, noise,
              np.zeros((d, d)), 3, 1e-6, 2.0, 1e-6]  # fmt: skip
    return {
        "load": (_rows.load, [table, p.scale, p.scale, np.zeros((d, n))]),
        "load_floats": (_rows.load, [table.astype(np.float32), p.scale, p.scale, np.zeros((d, n))]),
        "buffer_lengths": (_mixture.buffer_lengths, [p.offsets, d]),
        "prepare": (_mixture.prepare, [p.buffer, p.offsets, d, p.prepared]),
        "posterior": (
            _posterior.posterior,
            [p.x, p.offsets, p.prepared, np.zeros(n), np.zeros((K, n)), np.zeros((K, n)), np.zeros((P, n)), p.scratch],
        ),
        "sums_size": (_statistics.sums_size, [p.offsets, d, True]),
        "accumulate": (_statistics.accumulate, [*rows_of(p), p.sums(), p.scratch]),
        "accumulate_full": (_statistics.accumulate, [*rows_of(p), p.sums(True), p.scratch, True, False]),
        "accumulate_kurtosis": (
            _kurtosis.accumulate_kurtosis,
            [p.x, p.row_weights, p.offsets, p.prepared, np.zeros(K), np.zeros(K), p.scratch],
        ),
        "iteration": (
            iterate,
            [p.buffer, p.offsets, p.floor, True, p.x, p.row_weights, p.sums(), p.scratch, p.program],
        ),
        "profile_iteration": (
            iterate_profile,
            [p.buffer, p.offsets, p.floor, 1.0, p.scale, p.program[0] % 4, p.x, p.row_weights, p.sums(True), p.scratch,
             p.program],
        ),
        "pairs": (
            pass_over_pairs,
            [p.buffer, p.offsets, p.floor, p.scale, np.zeros((K, n), dtype=np.uint8), np.zeros(n), 1e-3, p.x,
             p.row_weights, p.sums(True), p.scratch, p.program],
        ),
        "step_space": (_profile_likelihood.StepSpace, [p.offsets, d, 1]),
        "prior_cost": (_noise.prior_cost, [np.ones((K, d)), p.program[0] % 4, 1.0, p.scale]),
        "isotropic": (_noise.maximize_isotropic, [np.ones(d), one, 10.0, p.floor, 1.0, p.scale]),
        "solver": (_factor_analysis.Solver, [d, K, P, -1]),
        "solve": (solve, [d, K, P, -1, p.covariances, *shared, p.program[0] % 2 == 0]),
        "solve_panels": (solve_panels, [d, K, P, m, panels, rows, *shared]),
        "choose": (choose, [*of_one, p.covariances[0], *priced]),
        "choose_of_panel": (choose, [d, 1, d, m, p.rng.standard_normal((m, d)), *priced]),
        "prepared_mixture": (cython_amofa.prepared_mixture, [p.buffer, p.offsets, d]),
    }  # fmt: skip


# ---- arguments that are not ------------------------------------------------------------------------------------------


def read_only(a):
    twin = a.copy()
    twin.flags.writeable = False
    return twin


def strided(a):
    """The same values with gaps between them along the last axis."""
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), dtype=a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def filled(value):
    return lambda a, rng: np.full_like(a, value) if a.dtype.kind == "f" else np.full_like(a, int(rng.integers(-3, 4)))


def with_one(values):
    """One entry is another."""

    def change(a, rng):
        twin = a.copy()
        if a.size:
            twin.flat[rng.integers(a.size)] = values[rng.integers(len(values))]
        return twin

    return change


def with_number(a, rng):
    whole = [w for w in WHOLE_NUMBERS if -(2**63) <= w < 2**63]
    return with_one(NUMBERS if a.dtype.kind == "f" else whole)(a, rng)


def resized(a, rng):
    """Another length of one axis."""
    shape = list(a.shape)
    axis = rng.integers(a.ndim)
    shape[axis] = max(0, shape[axis] + int(rng.choice([-2, -1, 1, 2, 9])))
    return np.resize(a, shape) if a.size else np.zeros(shape, dtype=a.dtype)


CHANGES = {
    "None": lambda a, rng: None,
    "resized": resized,
    "empty": lambda a, rng: np.zeros((0,) * a.ndim, dtype=a.dtype),
    "float32": lambda a, rng: a.astype(np.float32),
    "int32": lambda a, rng: np.zeros(a.shape, dtype=np.int32),
    "other byte order": lambda a, rng: a.astype(a.dtype.newbyteorder("S")),
    "strided": lambda a, rng: strided(a),
    "backwards": lambda a, rng: a[::-1],
    "Fortran": lambda a, rng: np.asfortranarray(a),
    "read-only": lambda a, rng: read_only(a),
    "one axis more": lambda a, rng: a[None],
    "one axis less": lambda a, rng: a.reshape(-1)[:1].reshape(()) if a.size else a,
    "flat": lambda a, rng: a.reshape(-1),
    "list": lambda a, rng: a.tolist(),
    "nan": filled(np.nan),
    "inf": filled(np.inf),
    "huge": filled(1e300),
    "zeros": filled(0.0),
    "negative": filled(-1.0),
    "one": with_number,
}


def change(arguments, position, kind, other, rng):
    """The arguments with one of them replaced."""
    twin, argument = list(arguments), arguments[position]
    if kind == "swapped":
        twin[position] = arguments[other % len(arguments)]
    elif isinstance(argument, np.ndarray):
        twin[position] = CHANGES[kind](argument, rng)
    elif isinstance(argument, bool | int):
        twin[position] = (*WHOLE_NUMBERS, None, "1", 1.5)[other % (len(WHOLE_NUMBERS) + 3)]
    elif isinstance(argument, float):
        twin[position] = (*NUMBERS, None, "1", 10**400)[other % (len(NUMBERS) + 3)]
    return twin


SIZES = st.tuples(
    st.integers(1, 3),
    st.sampled_from([1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 40]),
    st.lists(st.integers(0, 5), min_size=3, max_size=3),
    st.sampled_from([0, 1, 2, 5, 31, 264, 265, 300]),
)
NAMES = list(calls(Problem(0, 1, 2, [1], 3)))

python_cases = st.tuples(
    st.integers(0, 2**32 - 1),
    SIZES,
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.integers(0, 19), st.sampled_from([*CHANGES, "swapped"]), st.integers(0, 99)), max_size=3),
)


def check_python(case):
    """Call a compiled function with some of its arguments replaced."""
    seed, (K, d, factors, n), name, changes = case
    p = Problem(seed, K, d, factors[:K], n)
    function, arguments = calls(p)[name]
    for position, kind, other in changes:
        # "0 axes" of what has become no array, say: not all changes go together.
        with contextlib.suppress(ValueError, TypeError, AttributeError, OverflowError, IndexError):
            arguments = change(arguments, position % len(arguments), kind, other, p.rng)
    with contextlib.suppress(*REFUSALS), np.errstate(all="ignore"):
        function(*arguments)


# ---- C-level functions -----------------------------------------------------------------------------------------------

C_NAMES = ("prepare_mixture", "mixture_size", "sizes", "posterior", "statistics", "scatter", "kurtosis", "maximize",
           "fit", "choose", "fit_work_size")  # fmt: skip

c_cases = st.tuples(
    st.integers(0, 2**32 - 1),
    SIZES,
    st.sampled_from(C_NAMES),
    st.sampled_from(["valid", "no mixture", "numbers", "NULL", "values"]),
    st.sampled_from([w for w in WHOLE_NUMBERS if -(2**63) <= w < 2**63]),
    st.sampled_from(NUMBERS),
)


def check_c(case):
    """Call a C-level function; arrays are as long as the functions say, wrong are numbers, values and mixtures."""
    seed, (K, d, factors, n), name, fault, whole, number = case
    p = Problem(seed, K, d, factors[:K], n)
    v = p.parameters
    mixture = np.zeros(c.mixture_size(K, d, v.offsets))
    if name == "mixture_size":
        return check_sizes(p, fault, whole)
    if fault == "values":
        for values in (v.buffer, p.x, p.row_weights, p.floor):
            if values.size:
                values.flat[p.rng.integers(values.size)] = number
    loadings = None if fault == "NULL" and not p.P else v.loadings
    status = c.prepare_mixture(K, d, v.offsets, v.weights, v.means, loadings, v.uniquenesses, mixture)
    assert 0 <= status <= K
    assert status == 0 or fault == "values"
    if fault == "no mixture":
        mixture[:] = p.rng.choice([0.0, 1.0, np.nan, -1e300], mixture.size)
    refused = fault == "no mixture" or status > 0
    if refused:
        sizes = [getattr(c, f"{f}_size")(mixture) for f in ("rows_work", "statistics", "scatter", "maximize_work")]
        assert sizes == [BAD_ARGUMENT] * 4
        assert c.n_components(mixture) == c.n_features(mixture) == c.n_factors(mixture, 0) == BAD_ARGUMENT
        work = sums = scatter = one_work = np.zeros(0)
    else:
        work, one_work = np.full(c.rows_work_size(mixture), np.nan), np.full(c.maximize_work_size(mixture), np.nan)
        sums, scatter = np.zeros(c.statistics_size(mixture)), np.zeros(c.scatter_size(mixture))
    n_rows = min(whole, 0) if fault == "numbers" else n
    strides = (1, n) if seed % 2 else (d, 1)
    x = p.x if seed % 2 else np.ascontiguousarray(p.x.T)
    w = None if fault == "NULL" else p.row_weights
    k = whole if fault == "numbers" else K - 1
    # Rows with a cell or weight that cannot be used are counted.
    most_unused = n if fault == "values" else 0
    expected = {BAD_ARGUMENT} if refused or n_rows < 0 else range(most_unused + 1)
    if name == "posterior":
        outputs = [None if fault == "NULL" else np.zeros(m * n) for m in (1, K, K, p.P)]
        assert c.posterior(mixture, n_rows, x, *strides, *outputs, work) in expected
        return None
    if name == "kurtosis":
        assert c.accumulate_kurtosis(mixture, n_rows, x, *strides, w, np.zeros(K), np.zeros(K), work) in expected
        return None
    assert c.accumulate_statistics(mixture, n_rows, x, *strides, w, sums, work) in expected
    assert c.accumulate_scatter(mixture, n_rows, x, *strides, w, scatter, work) in expected
    bad_values = {BAD_ARGUMENT} if fault == "values" else set()
    expected = {BAD_ARGUMENT} if refused or not 0 <= k < K else {0, NO_ROWS, k + 1} | bad_values
    noise, cost = np.ones(d), None if fault == "NULL" else np.zeros(1)
    if name == "maximize":
        out = np.zeros(d), np.zeros(max(v.n_factors) * d), noise
        assert c.maximize_component(mixture, k, sums, p.floor, *out, one_work) in expected
    q = whole if fault == "numbers" else min(v.n_factors[0], d)
    expected = {BAD_ARGUMENT} if not 0 <= q <= d else expected
    steps = min(max(whole, -3), 3)
    expected = {BAD_ARGUMENT} if steps < 0 or np.isnan(number) else expected
    if name == "fit":
        work = np.full(max(0, c.fit_work_size(d, q)), np.nan)
        loadings = None if q == 0 and fault == "NULL" else np.zeros(max(0, min(q, d)) * d)
        out = np.zeros(d), loadings, noise, cost, work
        assert c.fit_component(mixture, k, scatter, q, p.floor, steps, number, *out) in expected
    if name == "choose":
        work, q = np.full(c.fit_work_size(d, d), np.nan), np.array([q], dtype=np.intp)
        out = np.zeros(d), np.zeros(d * d), noise, cost, work
        status = c.choose_component(mixture, k, scatter, d, np.arange(d + 1.0), p.floor, steps, number, q, *out)
        assert status in expected
        assert status != 0 or 0 <= q[0] <= d
    return None


def check_sizes(p, fault, whole):
    """Sizes are those of arrays, or -1."""
    offsets = p.offsets.copy()
    if fault == "numbers":
        offsets[p.rng.integers(len(offsets))] = whole
    d = whole if fault == "values" else p.d
    size = c.mixture_size(p.K, d, offsets)
    rises = offsets[0] == 0 and all(offsets[1:] >= offsets[:-1])
    n_factors = [int(b - a) for a, b in itertools.pairwise(offsets.tolist())]
    exact = 11 + p.K + 1 + 4 * p.K + 2 * p.K * d + 2 * int(offsets[-1]) * d + sum(q**2 for q in n_factors)
    # Memory for the orthogonal decomposition of one component.
    if most := max(n_factors):
        exact += most * (d + most) + 2 * (d + most) + 2 * most
    assert size == (exact if rises and d > 0 and size > 0 else BAD_ARGUMENT)
    assert size > 0 or not rises or d < 1 or exact > 2**50
    assert c.mixture_size(min(whole, 0), p.d, offsets) == BAD_ARGUMENT
    for most in (whole, 0, 1):
        size = c.fit_work_size(d, most)
        assert size == BAD_ARGUMENT or (0 <= most <= d and size >= 3 * d * d + most * d)


TARGETS = {"kernels": (python_cases, check_python), "c-level": (c_cases, check_c)}
