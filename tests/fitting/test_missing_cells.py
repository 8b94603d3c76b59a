"""Fits of tables with missing cells: what is found, what does not matter, and what is refused."""

import datasets
import numpy as np
import pytest
from conditional_helpers import NAN
from fits import fitted
from profile_helpers import tied
from reference import random_mixture, random_rows

import amofa
from amofa._data.incomplete import IncompleteSamples, samples_of
from amofa._data.row_chunks import Samples
from amofa._data.standardize import Standardized
from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.profile_likelihood import Problem, make_iterate
from amofa._kernels._factor_analysis import Solver
from amofa._noise import Noise
from amofa.criterion import Evidence


def holes(rng, X, share=0.2):
    """X without some cells, and without the rows that have none left."""
    Y = X.copy()
    Y[rng.random(X.shape) < share] = NAN
    return Y[~np.isnan(Y).all(axis=1)]


def missing_at_random(rng, X, share=0.2):
    """X in which other columns lack cells the more often, the larger the first one is."""
    Y = X.copy()
    odds = 1 / (1 + np.exp(-2 * (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()))
    Y[:, 1:][rng.random((len(X), X.shape[1] - 1)) < (share * odds / odds.mean())[:, None]] = NAN
    return Y


@pytest.fixture
def clear(rng):
    """Two groups in three columns, without a fifth of their cells."""
    X = np.concatenate([rng.normal(0, 1, (200, 3)), rng.normal(6, 1, (100, 3))])
    Y = X.copy()
    Y[rng.random(X.shape) < 0.2] = NAN
    Y[5] = NAN
    return Y


# ---- what is found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize(("draw", "K"), [(datasets.example_1, 3), (datasets.example_2, 4)])
def test_groups_of_the_paper_are_found(draw, K, share, rng):
    assert amofa.fit(holes(rng, draw(rng)[0], share)).n_components == K


def test_groups_are_found_where_cells_are_missing_at_random(rng):
    X = datasets.example_2(rng)[0]
    model = amofa.fit(missing_at_random(rng, X))
    assert model.n_components == 4
    # Means of what is there would be far off.
    order = [np.argmin(((model.means - mean) ** 2).sum(axis=1)) for mean in ((2, 2), (-1, -6))]
    np.testing.assert_allclose(model.means[order], [(2, 2), (-1, -6)], atol=0.35)


def test_numbers_of_factors_are_found(rng):
    X, _ = datasets.factor_analysers(rng, 20, [5, 3], [800, 700], distance=8)
    model = amofa.fit(holes(rng, X, 0.3))
    assert sorted(model.n_factors) == [3, 5]
    complete = amofa.fit(X)
    assert model.score_samples(X).mean() > complete.score_samples(X).mean() - 0.1


def test_one_group_stays_one(rng):
    assert amofa.fit(holes(rng, rng.standard_normal((300, 4)), 0.3)).n_components == 1


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 3},
        {"n_factors": 1},
        {"n_components": 2, "n_factors": (1, 0)},
        {"noise": "isotropic"},
        {"criterion": "bic"},
        {"criterion": "icl"},
        {"max_components": 1},
        {"tails": "t"},
        {"tails": "t", "degrees_of_freedom": 5.0},
    ],
    ids=str,
)
def test_options_hold(clear, options):
    model = fitted(clear, check=False, **options)
    assert model.n_components == options.get("n_components", options.get("max_components", 2))
    if "n_factors" in options:
        np.testing.assert_array_equal(model.n_factors, options["n_factors"])
    assert np.isfinite(model.cost)


def test_log_likelihood_is_that_of_the_cells(clear):
    for tails in ("normal", "t"):
        model = amofa.fit(clear, tails=tails)
        assert model.log_likelihood == pytest.approx(model.score_samples(clear).sum(), rel=1e-12)


def test_degrees_of_freedom_are_those_of_the_cells(rng):
    X, _ = datasets.t_groups(rng, 4, [1, 1], [900, 600], 4.0, distance=20)
    model = amofa.fit(holes(rng, X, 0.2), tails="t")
    assert model.n_components == 2
    np.testing.assert_allclose(model.degrees_of_freedom, 4, rtol=0.3)


def test_starts_that_are_given(clear):
    model = amofa.fit(clear)
    labels = np.repeat([0, 1], [200, 100])
    for init in (model, labels):
        again = amofa.fit(clear, init=init)
        assert again.cost <= model.cost + 1e-6
        assert again.n_components == 2


def test_a_checkpoint_resumes(clear, tmp_path):
    path = tmp_path / "fit.npz"
    stopped = amofa.fit(clear, checkpoint=path, callback=lambda step: step.action == "split")
    whole = amofa.fit(clear)
    resumed = amofa.fit(clear, checkpoint=path)
    assert stopped.n_components <= whole.n_components
    assert resumed.cost == whole.cost
    np.testing.assert_array_equal(resumed.means, whole.means)


# ---- EM --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["component", "shared", "isotropic"])
@pytest.mark.parametrize("has_tails", [False, True])
def test_em_never_raises_the_penalised_cost(noise, has_tails, rng):
    truth = random_mixture(rng, 3, 6, [2, 1, 0])
    X = holes(rng, random_rows(rng, truth, 400), 0.3)
    X /= np.nanstd(X, axis=0)
    prior = Prior(np.full(6, 1e-4), np.ones(6), 4.0)
    pricing = Evidence(6, len(X), noise, 4.0)
    problem = Problem(prior, pricing, Noise(noise), FactorChoice(pricing, prior, Noise(noise)), 1e-5, 100, True)
    start = tied(random_mixture(rng, 3, 6, [2, 1, 0]), noise)
    if has_tails:
        start = start.with_tails(5.0)
    iterate = make_iterate(samples_of(X), start, problem, Solver(6))
    costs = []
    for _ in range(60):
        costs.append(iterate.expect())
        iterate = iterate.maximize()
    assert (np.diff(costs) <= 1e-9 * np.abs(costs[0])).all()
    assert costs[-1] < costs[0] - 10


def test_prices_count_the_cells_of_columns():
    whole, part = Evidence(3, 100.0, "component", 4.0), Evidence(3, 100.0, "component", 4.0, np.full(3, 0.25))
    rows = Evidence(3, 25.0, "component", 4.0)
    log_determinant = -50.0
    # The weight costs as before, and so does a further component of few rows; all else as with a quarter of the rows.
    weights = whole.few_rows - rows.few_rows + 0.5 * (whole.log_n - rows.log_n)
    expected = rows.component(10.0, 2, log_determinant) + weights
    assert part.component(40.0, 2, log_determinant) == pytest.approx(expected, rel=1e-12)
    assert part.prices(40.0, 2)[1:] == pytest.approx(rows.prices(10.0, 2)[1:] + weights, rel=1e-12)


# ---- what does not matter --------------------------------------------------------------------------------------------


@pytest.fixture
def rows(rng):
    return holes(rng, datasets.factor_analysers(rng, 5, [2, 1, 0], [150, 120, 90], distance=5)[0], 0.2)


def check_same(a, b, X, Y):
    assert b.n_factors.tolist() == a.n_factors.tolist()
    np.testing.assert_array_equal(b.predict(Y), a.predict(X))
    np.testing.assert_allclose(b.weights, a.weights, rtol=1e-6)


def test_units_origin_and_order(rows, rng):
    d = rows.shape[1]
    columns, units = rng.permutation(d), 10.0 ** rng.uniform(-6, 6, d) * rng.choice([-1, 1], d)
    a = amofa.fit(rows)
    for Y, b in (
        (rows * units + 1e4 * units, amofa.fit(rows * units + 1e4 * units)),
        (rows[:, columns], amofa.fit(rows[rng.permutation(len(rows))][:, columns])),
    ):
        check_same(a, b, rows, Y)


def test_layout_dtype_and_threads(rows):
    rows = rows.astype(np.float32)
    a = amofa.fit(rows.astype(np.float64), n_threads=1)
    for Y, options in ((rows, {}), (np.asfortranarray(rows), {}), (rows, {"n_threads": 3}), (rows[::-1][::-1], {})):
        b = amofa.fit(Y, **options)
        np.testing.assert_array_equal(b.means, a.means)
        assert b.cost == a.cost


def test_threads_of_many_blocks(rng):
    X = holes(rng, datasets.factor_analysers(rng, 6, [1, 2], [9000, 9000])[0], 0.2)
    one, three = (amofa.fit(X, n_components=2, n_factors=1, n_threads=n) for n in (1, 3))
    np.testing.assert_array_equal(three.means, one.means)


def test_weights_are_repeats(rows, rng):
    weights = rng.integers(1, 4, len(rows))
    a, b = amofa.fit(rows, sample_weight=weights), amofa.fit(rows.repeat(weights, axis=0))
    assert b.cost == a.cost
    np.testing.assert_array_equal(b.means, a.means)


def test_ways_to_mark_missing_cells(clear):
    pd = pytest.importorskip("pandas")
    expected = amofa.fit(clear).cost
    frame = pd.DataFrame(clear, columns=list("abc"))
    assert amofa.fit(np.ma.masked_invalid(clear)).cost == expected
    assert amofa.fit(np.ma.array(np.nan_to_num(clear, nan=-999.0), mask=np.isnan(clear))).cost == expected
    assert amofa.fit(frame).cost == expected
    assert amofa.fit(frame.convert_dtypes()).cost == expected
    assert amofa.fit(frame.astype(object).where(frame.notna(), None)).cost == expected
    assert amofa.fit(frame.astype(object).where(frame.notna(), pd.NA)).cost == expected


def test_a_table_without_missing_cells_is_read_as_ever(rng):
    table = rng.standard_normal((50, 3))
    assert type(samples_of(table)) is Samples
    assert type(Standardized.of(table, None).samples) is Samples
    assert type(samples_of(np.arange(6).reshape(3, 2))) is Samples


# ---- rows and columns with few cells ---------------------------------------------------------------------------------


def test_rows_without_cells_are_left_out(clear):
    model = amofa.fit(clear)
    kept = clear[~np.isnan(clear).all(axis=1)]
    assert model.n_samples == len(kept) == len(clear) - 1
    assert amofa.fit(kept).cost == pytest.approx(model.cost, abs=1e-9)
    np.testing.assert_allclose(model.predict_proba(clear)[5], model.weights)


def test_columns_without_cells_and_constant_ones(clear, rng):
    n = len(clear)
    constant = np.where(rng.random(n) < 0.5, NAN, 7.0)
    X = np.column_stack([clear, np.full(n, NAN), constant])
    model = fitted(
        X,
        r"1 of 5 columns of X have no value in any row.*: 3 \(from 0\)\. 1 of 5 columns .* constant.*: 4 \(from 0\)",
        check=False,
    )
    np.testing.assert_array_equal(model.means[:, 3:], [[0.0, 7.0]] * model.n_components)
    np.testing.assert_allclose(model.means[:, :3], amofa.fit(clear).means, atol=1e-6)


@pytest.mark.parametrize("lacks_another", [False, True])
def test_columns_that_follow_from_others(lacks_another, rng):
    groups = [rng.normal(mean, 1, (100, 4)) for mean in (0, 2.5, [0, 5, 0, 5])]
    X = np.concatenate(groups)
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    X[:9, 2], X[5, 4] = NAN, NAN
    if lacks_another:
        X[5, 0] = NAN
    model = fitted(X, r"1 of 5 columns of X follow from others.*: 4 from 0, 1", check=False)
    assert model.n_components == 3
    # What has cells where the others lack them stays.
    X[7, 0] = NAN
    fitted(X, check=False)


def test_rows_without_cells_are_no_observations(clear):
    model, empty = amofa.fit(clear), np.full((40, 3), NAN)
    for name in ("bic", "icl", "aic"):
        assert getattr(model, name)(np.concatenate([clear, empty])) == pytest.approx(getattr(model, name)(clear))


def test_columns_that_are_never_seen_together_are_named(clear):
    pd = pytest.importorskip("pandas")
    X = clear.copy()
    X[:150, 0], X[150:, 1] = NAN, NAN
    fitted(X, r"no row of X has values in both of some columns.*: 0 and 1 \(from 0\)", check=False)
    fitted(pd.DataFrame(X, columns=["age", "sex", "size"]), "'age' and 'sex'$", check=False)


def test_labels_of_rows_without_cells(clear):
    X = clear.copy()
    X[:40] = NAN
    labels = np.where(np.arange(300) < 40, 0, np.where(np.arange(300) < 200, 1, 2))
    assert amofa.fit(X, init=labels).n_components == 2
    with pytest.raises(ValueError, match="init labels no row with a value"):
        amofa.fit(X, init=np.where(labels == 0, 0, -1))


def test_two_columns_that_are_never_seen_together(rng):
    X = np.concatenate([rng.normal(0, 1, (60, 2)), rng.normal(9, 1, (60, 2))])
    X[::2, 0], X[1::2, 1] = NAN, NAN
    for noise in ("auto", "shared", "isotropic"):
        assert fitted(X, "no row of X has values in both", check=False, noise=noise).n_components == 2


def test_columns_of_one_layout_and_a_constant_one(rng):
    X = rng.standard_normal((5, 12))
    X[:, 3], X[rng.random((5, 12)) < 0.2] = 2.0, NAN
    assert fitted(X, "constant", check=False).n_components == 1


def test_fewer_rows_than_columns(rng):
    X = rng.standard_normal((30, 60))
    X[:15] += 2
    model = amofa.fit(holes(rng, X, 0.1))
    assert model.n_components == 2
    assert len(set(model.predict(X)[:15])) == len(set(model.predict(X)[15:])) == 1


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_fitted(clear, monkeypatch):
    with pytest.raises(ValueError, match="X has missing cells, which search='paper' cannot use"):
        amofa.fit(clear, search="paper")
    with pytest.raises(ValueError, match=r"X has 1 value that is infinite, the first in row 2, column 1 .*put NaN"):
        amofa.fit(np.where(np.arange(900).reshape(300, 3) == 7, np.inf, clear))
    with pytest.raises(ValueError, match="X has no value in any row that counts"):
        amofa.fit(np.full((4, 2), NAN))
    with pytest.raises(ValueError, match="X has no value in any row that counts"):
        amofa.fit(clear, sample_weight=np.arange(300) == 5)
    monkeypatch.setattr("amofa.fitting._MOST_COLUMNS", 20)
    with pytest.raises(ValueError, match="X has missing cells, 30 columns that vary and 9 rows; with more than 20"):
        amofa.fit(np.where(np.eye(9, 30), NAN, np.random.default_rng(0).standard_normal((9, 30))))


def test_an_infinite_cell_of_a_frame_is_named(clear):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(clear, columns=["age", "sex", "size"])
    frame.loc[9, "sex"] = -np.inf
    with pytest.raises(ValueError, match=r"infinite, the first in row 9, column 1 .*'sex'"):
        amofa.fit(frame)


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_selected_rows_keep_their_order(rng):
    X = holes(rng, rng.standard_normal((60, 4)), 0.3)
    weights = rng.uniform(1, 2, len(X))
    samples = samples_of(X, weights=weights, center=np.ones(4), scale=np.full(4, 2.0))
    assert isinstance(samples, IncompleteSamples)
    np.testing.assert_array_equal(samples.weights, weights)
    chosen = rng.permutation(len(X))[:20]
    parameters = random_mixture(rng, 2, 4, [1, 0])
    some = samples.subset(chosen)
    np.testing.assert_array_equal(some.weights, weights[chosen])
    np.testing.assert_allclose(some.responsibilities(parameters), samples.responsibilities(parameters)[:, chosen])
    np.testing.assert_array_equal(some.labels(parameters), samples.labels(parameters)[chosen])
    assert some.log_jacobian == pytest.approx(-(weights[chosen] @ (~np.isnan(X[chosen])).sum(axis=1)) * np.log(2))
    np.testing.assert_allclose(samples.column_weights, weights @ ~np.isnan(X))
    one = random_mixture(rng, 1, 4, [2])
    filled = samples.filled(one).T
    expected = amofa.MixtureOfFactorAnalyzers._from_fit(one, None, None).impute((X - 1) / 2)
    np.testing.assert_allclose(filled, expected, rtol=1e-9)


def test_moments_that_pairs_show(rng):
    """With S = Sigma + f (T - Sigma), where a share f shows T, this is T."""
    X = holes(rng, rng.standard_normal((400, 5)), 0.3)
    samples = samples_of(X)
    shares = samples.pair_shares
    seen = ~np.isnan(X)
    np.testing.assert_allclose(shares, seen.T.astype(float) @ seen / len(X))
    expected, truth = np.eye(5), np.cov(rng.standard_normal((5, 9)))
    shown, mean = samples.covariance_seen(expected, expected + shares * (truth - expected))
    np.testing.assert_allclose(shown, truth, rtol=1e-9)
    assert mean == pytest.approx(shares[~np.eye(5, dtype=bool)].mean())
