"""What holds of every fit, whatever the table: soundness, falling costs, equivariance, and files that lose nothing."""

import copy
import pickle
import re
import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import strategies
from fits import NOISES, check_costs_fall
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

import amofa
from amofa._data import row_chunks as samples
from amofa._em import profile_likelihood

# What a fit may say of a finite table; each names the argument or the column.
REFUSALS = r"column \d+ of X spans|init labels no row"
# More EM of the same model, or sharing its noise, may cost this.
SLACK = 1e-3
# Whole fits take long, so that there are fewer of them than of other examples. AMOFA_TEST_SEEDS asks for more.
of_fits = settings(max_examples=settings().max_examples * 3 // 8)


@contextmanager
def quietly():
    """Constant columns, EM that has not ended and too few components are told of: no fault here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amofa.AmofaWarning)
        yield


def fit(case, table=None, **changes):
    """The model of a case; one that is refused in words tells hypothesis nothing."""
    table = case.recipe.make() if table is None else table
    with quietly():
        try:
            return amofa.fit(table, **{"sample_weight": case.weights, **case.options, **changes})
        except ValueError as error:
            if re.search(REFUSALS, str(error)):
                reject()
            raise


def counted(case, table):
    """Weights as a fit takes them: what is negligible is 0."""
    w = np.ones(len(table)) if case.weights is None else case.weights
    return np.where(w < 1e-14 * w.max(), 0.0, w)


def same_bits(a, b):
    return (
        a.n_factors.tolist() == b.n_factors.tolist()
        and a._parameters.buffer.tobytes() == b._parameters.buffer.tobytes()
    )


# ---- soundness -------------------------------------------------------------------------------------------------------


def variances(rows, weights):
    """Of columns of any scale, (d,)."""
    spread = np.ptp(rows, axis=0)
    spread[spread == 0] = 1.0
    z = (rows - rows[0]) / spread
    return np.average((z - np.average(z, axis=0, weights=weights)) ** 2, axis=0, weights=weights) * spread**2


def check_parameters(model, table, weights, options):
    for values in (model.weights, model.means, model.uniquenesses, model._parameters.loadings):
        assert np.isfinite(values).all()
    assert (model.weights > 0).all()
    assert abs(model.weights.sum() - 1) < 1e-12
    assert (model.uniquenesses >= np.finfo(float).tiny).all()
    if "noise_floor" in options or options["search"] == "paper":
        # By default, those of "thorough" come from the narrowest part of a column.
        floor = options.get("noise_floor", 1e-4) * variances(table[weights > 0].astype(float), weights[weights > 0])
        assert (model.uniquenesses >= 0.999 * floor).all()


def check_rows(model, table, weights):
    posterior = model.predict_proba(table)
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(table), posterior.argmax(axis=1))
    scores = model.score_samples(table)[weights > 0]
    assert np.isfinite(scores).all()
    sizes = np.abs(scores) @ weights[weights > 0]
    assert model.log_likelihood == pytest.approx(scores @ weights[weights > 0], abs=1e-9 * sizes)


def check_limits(model, table, weights, options):
    # What is given to start from may be better as it is, however many components it has.
    rows = len(table) if "init" in options else len(np.unique(table[weights > 0], axis=0))
    K, factors = model.n_components, model.n_factors
    given = options.get("n_factors")
    asked = len(given) if isinstance(given, tuple) else options.get("n_components")
    assert 1 <= K <= min(rows, asked or rows, options.get("max_components", rows))
    if given is not None:
        wanted = given[:K] if isinstance(given, tuple) else (given,) * K
        assert tuple(factors) == wanted
    assert factors.max() <= options.get("max_factors", table.shape[1])


def check_history(model, options):
    for step in model.history:
        assert np.isfinite([step.cost, step.log_likelihood, step.message_length]).all()
        assert step.n_iter >= 0
    kept = {"n_components", "n_factors", "init"} & set(options)
    if options["search"] == "paper" or kept:
        return
    # EM that has not ended may raise the price, which depends on weights, and goes on all the same.
    ended = model.converged and "max_iter" not in options
    check_costs_fall(model.history, SLACK + 1e-12 * abs(model.cost) if ended else np.inf)


@of_fits
@given(case=strategies.cases())
def test_a_fit_is_sound(case):
    table = case.recipe.make()
    before = table.tobytes()
    model = fit(case, table)
    assert table.tobytes() == before
    weights = counted(case, table)
    check_parameters(model, table, weights, case.options)
    check_rows(model, table, weights)
    check_history(model, case.options)
    check_limits(model, table, weights, case.options)
    drawn, labels = model.sample(5, random_state=0)
    assert np.isfinite(drawn).all()
    assert set(labels) <= set(range(model.n_components))


# ---- EM --------------------------------------------------------------------------------------------------------------


@contextmanager
def recorded(kind, costs):
    """Puts what every E-step says into a list, one for each run with the same numbers of factors."""
    expect = kind.expect

    def recording(self):
        cost = expect(self)
        factors, run = self.parameters.n_factors, costs.setdefault(id(self), [])
        # Another pass may come to live at the same place.
        if not run or run[-1][0] is not self:
            costs[id(self)] = run = []
        run.append((self, factors, cost))
        return cost

    kind.expect = recording
    try:
        yield
    finally:
        kind.expect = expect


@of_fits
@given(case=strategies.cases())
def test_em_never_raises_the_cost(case):
    """In every run of the thorough search, local ones too, while the numbers of factors stay."""
    if case.weights is not None:
        # Rows of less than 1e-14 of a component's weight have no say in its covariance.
        positive = case.weights[case.weights > 0]
        assume(positive.min() > 1e-12 * positive.sum())
    case = replace(case, options={**case.options, "search": "thorough"})
    runs = {}
    # A strong prior costs a large number times the rounding of its logarithms.
    rounding = 1e-14 * case.options.get("prior_rows", 4.0) * len(case.recipe.kinds)
    with recorded(profile_likelihood.CovarianceIterate, runs), recorded(profile_likelihood.RowsIterate, runs):
        fit(case)
    for run in runs.values():
        # The first step may have to raise uniquenesses to their floor.
        for (_, _, before), (_, _, after) in pairwise(run[1:]):
            assert after <= before + 1e-9 * max(1.0, abs(before)) + rounding


# ---- the same rows in another form -----------------------------------------------------------------------------------


@of_fits
@given(case=strategies.cases(), layout=st.sampled_from(strategies.LAYOUTS))
def test_layout_changes_no_bit(tmp_path_factory, case, layout):
    table = case.recipe.make()
    other = strategies.laid_out(table, layout, tmp_path_factory.mktemp("map") if layout == "memory map" else None)
    np.testing.assert_array_equal(other, table)
    assert same_bits(fit(case, table), fit(case, other))


@of_fits
@given(case=strategies.cases(dtypes=strategies.DTYPES))
def test_dtype_changes_no_bit(case):
    table = case.recipe.make()
    assert same_bits(fit(case, table), fit(case, table.astype(np.float64)))


@of_fits
@given(case=strategies.cases())
def test_a_second_fit_is_the_same_to_the_last_bit(case):
    first, second = fit(case), fit(case)
    assert same_bits(first, second)
    assert first.history == second.history


@of_fits
@given(case=strategies.cases(), seed=st.integers(0, 2**32 - 1))
def test_weights_are_repeats_to_the_last_bit(case, seed):
    table = case.recipe.make()
    times = np.random.default_rng(seed).integers(0, 4, len(table))
    times[0] = 1
    options = {k: v for k, v in case.options.items() if k != "init"}
    weighted = fit(replace(case, weights=times.astype(float), options=options), table)
    assert same_bits(weighted, fit(replace(case, weights=None, options=options), np.repeat(table, times, axis=0)))


@settings(max_examples=settings().max_examples // 4)
@given(case=strategies.cases(shapes=("small", "long")))
def test_threads_change_no_bit(case):
    """Chunks so short that small tables have many parts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "_CHUNK_VALUES": 16,
            "_CHUNK_ROWS_MIN": 8,
            "_LEAST_PART_WORK": 1,
            "_LEAST_PART_SHARE": 0,
        }.items():
            patch.setattr(samples, name, value)
        assert same_bits(fit(case, n_threads=1), fit(case, n_threads=3))


# ---- equivariance ----------------------------------------------------------------------------------------------------


def check_equivariant(case, table, changed, *, columns=None, shift=0.0, unit=1.0, rows=None, rtol=1e-3):
    """The model of a changed table is the changed model: decisions exactly, parameters to where EM ends."""
    columns = np.arange(table.shape[1]) if columns is None else columns
    order = np.arange(len(table)) if rows is None else rows
    a, b = fit(case, table), fit(case, changed)
    # Back in the columns and units of the first table, and those in standard deviations.
    deviation = table.std(axis=0) + (np.ptp(table, axis=0) == 0)
    back = np.argsort(columns)
    unit, shift = np.broadcast_to(unit, table.shape[1]), np.broadcast_to(shift, table.shape[1])
    means = (b.means[:, back] - shift) / unit / deviation
    # Components of the same weight come by their means, which another sign or order of columns changes.
    twins = [int(np.argmin(np.abs(means - mean / deviation).sum(axis=1))) for mean in a.means]
    assert sorted(twins) == list(range(a.n_components)) == list(range(b.n_components))
    assert b.n_factors[twins].tolist() == a.n_factors.tolist()
    np.testing.assert_array_equal(b.predict(changed), np.array(twins)[a.predict(table)][order])
    np.testing.assert_allclose(b.weights[twins], a.weights, rtol=rtol)
    np.testing.assert_allclose(means[twins], a.means / deviation, rtol=rtol, atol=rtol)
    # Constant columns have a variance that comes of the others.
    varying = np.ptp(table, axis=0) > 0
    for k, twin in enumerate(twins):
        size = np.sqrt(np.diag(a.covariance(k)))
        expected = a.covariance(k) / size / size[:, None]
        found = b.covariance(twin)[np.ix_(back, back)] / (unit * size) / (unit * size)[:, None]
        np.testing.assert_allclose(found[varying][:, varying], expected[varying][:, varying], atol=20 * rtol)


@of_fits
@given(case=strategies.plain_cases(), exponent=st.integers(-300, 300))
def test_a_power_of_two_as_the_unit_of_all_columns(case, exponent):
    """No cell is rounded otherwise."""
    table, factor = case.recipe.make(), 2.0**exponent
    a, b = fit(case, table), fit(case, table * factor)
    assert b.n_factors.tolist() == a.n_factors.tolist()
    # The costs' logarithms of units are rounded, by which EM may stop earlier.
    np.testing.assert_allclose(b.weights, a.weights, rtol=1e-9)
    np.testing.assert_allclose(b.means, a.means * factor, rtol=1e-9, atol=1e-9 * factor)
    np.testing.assert_allclose(b.uniquenesses, a.uniquenesses * factor**2, rtol=1e-4)


@of_fits
@given(case=strategies.plain_cases(), shifts=st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=3))
def test_any_origin_of_every_column(case, shifts):
    table = case.recipe.make()
    shift = np.resize(shifts, table.shape[1]) * table.std(axis=0)
    check_equivariant(case, table, table + shift, shift=shift)


@of_fits
@given(
    case=strategies.plain_cases(),
    exponents=st.lists(st.floats(-100, 100), min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_unit_order_and_sign_of_columns(case, exponents, seed):
    rng, table = np.random.default_rng(seed), case.recipe.make()
    columns = rng.permutation(table.shape[1])
    unit = 10.0 ** np.resize(exponents, table.shape[1]) * rng.choice([-1.0, 1.0], table.shape[1])
    check_equivariant(case, table, (table * unit)[:, columns], columns=columns, unit=unit)


@of_fits
@given(case=strategies.plain_cases(), seed=st.integers(0, 2**32 - 1))
def test_any_order_of_rows(case, seed):
    table = case.recipe.make()
    rows = np.random.default_rng(seed).permutation(len(table))
    check_equivariant(case, table, table[rows], rows=rows)


# ---- what they found -------------------------------------------------------------------------------------------------


def groups(rng, n=60):
    return np.concatenate([rng.normal(0, 1, (n, 3)), rng.normal(9, 1, (n, 3))])


@pytest.mark.parametrize("n_factors", [3, (3, 2)])
def test_factors_beyond_the_columns_that_vary_are_empty(rng, n_factors):
    x = rng.standard_normal((30, 3))
    x[:, 0] = 1.0
    with quietly():
        model = amofa.fit(x, n_factors=n_factors)
    wanted = (n_factors,) if isinstance(n_factors, int) else n_factors
    assert set(model.n_factors) <= set(wanted)
    assert np.linalg.matrix_rank(model.loadings[0]) <= 2
    np.testing.assert_array_equal(model.loadings[0][0], 0)


@pytest.mark.filterwarnings("ignore:sample_weight sums to 1,")
@pytest.mark.parametrize("noise", NOISES)
def test_factors_are_kept_where_weights_sum_to_one(rng, noise):
    x = groups(rng)
    model = amofa.fit(x, n_factors=2, noise=noise, sample_weight=np.full(len(x), 1 / len(x)))
    assert set(model.n_factors) == {2}


def test_of_models_that_cost_the_same_one_that_has_converged_is_chosen():
    """Their costs, 1e31 nats, differ by rounding; no warning says that EM did not converge."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.choice([0.0, 1.0, 5.0], (33, 2))
        model = amofa.fit(x, sample_weight=rng.uniform(1e29, 2e29, 33), max_iter=1, tol=1e300, prior_rows=50)
        assert model.converged
        # Heavy rows buy no more components than there are rows.
        assert model.n_components <= len(np.unique(x, axis=0))


@pytest.mark.parametrize("total", [1e-150, 1e-101, 1e101, 1e300])
def test_weights_that_squares_of_values_cannot_bear_are_refused(total):
    with pytest.raises(ValueError, match=r"sample_weight sums to .* multiply it by a constant"):
        amofa.fit([[0.0], [1.0]], sample_weight=[total, total])


def test_negligible_weights_are_none(rng, search):
    """Rows of next to no weight would be outliers of any size: here 1e100 standard deviations."""
    x = groups(rng)
    w = np.ones(len(x))
    far = np.concatenate([x, np.full((2, 3), 1e10)])
    a = amofa.fit(x, search=search)
    b = amofa.fit(far, search=search, sample_weight=np.append(w, [1e-200, 1e-60]))
    assert same_bits(a, b)


@pytest.mark.parametrize("floor", [1e-300, 1e-20, "array"])
def test_the_smallest_floors_are_those_of_double_precision(rng, search, floor):
    """Dependent columns, and powers, have uniquenesses as small as may be."""
    z = rng.standard_normal((40, 2))
    x = np.column_stack([z, z @ [1, 1], 2.0 ** np.arange(40)])
    noise_floor = np.full(4, 1e-300) if floor == "array" else floor
    with quietly():
        model = amofa.fit(x, search=search, noise_floor=noise_floor, n_components=3, n_factors=2)
    assert (model.uniquenesses >= 0.999e-12 * x.var(axis=0)).all()
    assert np.isfinite(model.log_likelihood)


def test_a_floor_out_of_all_proportion_names_its_column(rng):
    x = rng.standard_normal((20, 2)) * [1.0, 1e-50]
    with pytest.raises(ValueError, match=r"noise_floor makes the smallest uniqueness of column 1 of X .* give less"):
        amofa.fit(x, noise_floor=[0.1, 1e20])


def test_a_constant_column_is_so_within_the_rounding_of_its_values(rng):
    """Its uniqueness comes of the other columns, here of tiny ones, and must not make a far outlier of rounding."""
    x = np.column_stack([1e-140 * rng.standard_normal(30), np.nextafter(1e150, 2e150 * (np.arange(30) % 2))])
    with quietly():
        model = amofa.fit(x)
    assert np.abs(model.score_samples(x)).max() < 1e4


@pytest.mark.parametrize("options", [{}, {"max_iter": 1}, {"noise": "isotropic"}, {"init": np.arange(12) % 3}])
def test_a_floor_above_the_variance(rng, options):
    x = rng.standard_normal((12, 3))
    with quietly():
        model = amofa.fit(x, noise_floor=3.0, sample_weight=np.full(12, 1e-3), **options)
    assert (model.uniquenesses >= 2.999 * x.var(axis=0)).all()


def test_no_start_hangs_on_axes_of_rounding(rng):
    """Components of fewer rows than columns have axes that point anywhere."""
    kinds = ("heavy tails", "heavy tails", "groups", "normal", "heavy tails", "heavy tails", "groups")
    x = strategies.Recipe(1121881, 19, kinds).make()
    factors = {tuple(amofa.fit(x * unit, prior_rows=0).n_factors) for unit in 10 ** rng.uniform(-30, 30, 12)}
    assert len(factors) == 1


# ---- copies ----------------------------------------------------------------------------------------------------------


@of_fits
@given(case=strategies.cases())
def test_copies_and_files_lose_no_bit(tmp_path_factory, case):
    model = fit(case)
    path = tmp_path_factory.mktemp("models") / "model.npz"
    model.save(path)
    for twin in (amofa.load(path), pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        assert same_bits(twin, model)
        assert len(twin.history) == len(model.history)
        assert twin.log_likelihood == model.log_likelihood
