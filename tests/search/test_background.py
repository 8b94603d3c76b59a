"""Searches with a background: what it takes, what it leaves, and what it never costs."""

import datasets
import numpy as np
import pytest
from reference import random_mixture, random_rows, relative_error
from scipy.optimize import minimize_scalar

import amofa
from amofa._background import Background, BackgroundDensity, Kind
from amofa._data.incomplete import samples_of
from amofa._data.row_chunks import Near, Samples
from amofa._em.factor_analysis import FactorChoice, Prior
from amofa._em.profile_likelihood import Problem, make_iterate, profile_em
from amofa._kernels._factor_analysis import Solver
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._noise import Noise
from amofa._search.background import Rows, density_of
from amofa._search.descent import _LEAST_GAIN
from amofa._search.families import Family, families_of
from amofa.criterion import CRITERIA, Counted, Evidence


def with_outliers(seed, *, uniform=0, far=0, n=300):
    """Three groups in four columns, with rows in one and a half times their box, and far ones."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0, 0, 0, 0], [9, 0, 4, -4], [0, 9, -4, 4]])
    groups = np.concatenate([c + rng.normal(size=(n // 3, 1)) * 0.8 + rng.normal(size=(n // 3, 4)) for c in centres])
    low, high = groups.min(axis=0), groups.max(axis=0)
    scattered = (low + high) / 2 + 1.5 * (high - low) * (rng.random((uniform, 4)) - 0.5)
    distant = groups.mean(axis=0) + 30 * groups.std(axis=0) * rng.normal(size=(far, 4))
    return np.concatenate([groups, scattered, distant])


@pytest.fixture(scope="module")
def scattered():
    return with_outliers(0, uniform=24)


# ---- what is found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outliers", "kinds"), [((24, 0), {"uniform"}), ((0, 24), {"uniform", "nested"}), ((12, 12), {"nested"})]
)
def test_scattered_rows_are_no_component(outliers, kinds):
    X = with_outliers(1, uniform=outliers[0], far=outliers[1])
    plain, model = amofa.fit(X), amofa.fit(X, background="auto")
    assert plain.n_components > 3
    assert model.n_components == 3
    assert model.background in kinds
    labels = model.predict(X)
    assert (labels[300:] == -1).mean() > 0.7
    assert (labels[:300] == -1).mean() < 0.02
    assert abs(model.background_weight - 24 / 324) < 0.02
    assert model.log_likelihood == pytest.approx(model.score_samples(X).sum(), rel=1e-12)
    actions = {step.action for step in model.history if step.accepted}
    assert "background" in actions


@pytest.mark.parametrize("kind", ["uniform", "nested", "heavy", "auto"])
def test_clean_rows_have_none(kind):
    X = with_outliers(2)
    plain, model = amofa.fit(X), amofa.fit(X, background=kind)
    assert model.background is None
    assert model.background_weight == 0
    assert model.cost <= plain.cost + 1e-9
    np.testing.assert_array_equal(model.means, plain.means)


def test_it_never_costs_more_than_the_rows_without(scattered):
    costs = {kind: amofa.fit(scattered, background=kind).cost for kind in ("uniform", "heavy", "auto")}
    assert costs["auto"] <= min(costs.values())
    assert costs["uniform"] < amofa.fit(scattered).cost - 20


def test_a_component_that_em_left_is_dropped(monkeypatch, scattered):
    monkeypatch.setattr("amofa._search.default.beside_background", lambda *a: Rows(*a).without([]).parameters)
    model = amofa.fit(scattered, background="uniform")
    assert model.n_components == 3
    assert any(step.action == "drop" and step.accepted for step in model.history)


def test_heavy_tailed_noise():
    rng = np.random.default_rng(0)
    X = np.concatenate([with_outliers(0), 3 + 3 * rng.standard_cauchy((30, 1)) * rng.normal(size=(30, 4))])
    assert amofa.fit(X, background="heavy").background == "heavy"


def test_a_given_number_of_components_is_kept(scattered):
    model = amofa.fit(scattered, n_components=3, background="uniform")
    assert model.n_components == 3
    assert model.background_weight > 0.05


def test_one_component(rng):
    X = np.concatenate([rng.normal(size=(200, 2)), rng.uniform(-20, 20, (20, 2))])
    model = amofa.fit(X, background="uniform")
    assert model.n_components == 1
    assert model.background_weight == pytest.approx(20 / 220, abs=0.02)


def test_wide_tables():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(40, 60)), rng.uniform(-40, 40, (3, 60))])
    model = amofa.fit(X, background="uniform")
    assert model.n_components == 1
    assert np.flatnonzero(model.predict(X) == -1).tolist() == [40, 41, 42]


def test_icl_and_bic(scattered):
    for criterion in ("icl", "bic"):
        model = amofa.fit(scattered, criterion=criterion, background="uniform", prior_rows=0)
        assert model.background == "uniform"
        assert 2 * model.cost == pytest.approx(getattr(model, criterion)(scattered), rel=1e-9)


def test_a_start_with_a_background_never_costs_more(scattered):
    for kind in ("uniform", "heavy"):
        first = amofa.fit(scattered, background=kind)
        again = amofa.fit(scattered, background=kind, init=first)
        # Costs that differ by less count as equal.
        assert again.cost <= first.cost + _LEAST_GAIN
    labels = np.where(first.predict(scattered) == -1, -1, first.predict(scattered))
    assert amofa.fit(scattered, background="uniform", init=labels).background == "uniform"


def test_scan(scattered):
    scan = amofa.scan(scattered, [2, 3], background="uniform", noise="component")
    assert scan.best.background == "uniform"
    assert scan.best.n_components == 3


def test_levels(monkeypatch):
    monkeypatch.setattr("amofa._search.levels._LEAST_ROWS", 300)
    X = with_outliers(0, uniform=100, n=1500)
    model = amofa.fit(X, background="auto")
    assert model.n_components == 3
    assert model.background == "uniform"


def test_near_pairs(monkeypatch, scattered):
    plain = amofa.fit(scattered, background="uniform")
    monkeypatch.setattr("amofa._em.profile_likelihood._MANY_COMPONENTS", 2)
    model = amofa.fit(scattered, background="uniform")
    assert model.cost == pytest.approx(plain.cost, abs=0.05)
    assert model.background_weight == pytest.approx(plain.background_weight, abs=1e-3)


# ---- what it depends on ----------------------------------------------------------------------------------------------


def test_weights_repeats_threads_and_units(scattered):
    rng = np.random.default_rng(0)
    model = amofa.fit(scattered, background="auto", n_threads=1)
    times = rng.integers(1, 3, len(scattered))
    weighted = amofa.fit(scattered, sample_weight=times, background="auto")
    repeated = amofa.fit(np.repeat(scattered, times, axis=0), background="auto", n_threads=2)
    np.testing.assert_array_equal(weighted.means, repeated.means)
    assert weighted.background_weight == repeated.background_weight
    scale, shift = np.array([1e-3, 7.0, 1e5, 1.0]), np.array([0.0, 1e3, -4.0, 2.0])
    moved = amofa.fit((scattered * scale + shift)[::-1], background="auto")
    assert moved.background_weight == pytest.approx(model.background_weight, rel=1e-5)
    labels = moved.predict(scattered * scale + shift)
    assert (labels == model.predict(scattered)).all()
    jacobian = len(scattered) * np.log(scale).sum()
    assert moved.log_likelihood + jacobian == pytest.approx(model.log_likelihood, abs=1e-3)


def test_columns_that_make_no_difference(scattered):
    model = amofa.fit(scattered, background="uniform")
    more = np.column_stack([scattered, np.full(len(scattered), 7.0), scattered @ [1.0, 2.0, 0.0, 0.0]])
    with pytest.warns(amofa.AmofaWarning):
        other = amofa.fit(more, background="uniform")
    assert (other.predict(more) == model.predict(scattered)).mean() > 0.99
    assert np.isnan(other._parameters.background.density.scale).sum() == 2
    assert other.log_likelihood == pytest.approx(other.score_samples(more).sum(), rel=1e-12)


def test_a_function(scattered):
    low, high = scattered.min(axis=0), scattered.max(axis=0)
    volume = np.log(high - low).sum()

    def box(rows):
        assert rows.shape[1] == 4
        return np.full(len(rows), -volume)

    model = amofa.fit(scattered, background=box)
    like = amofa.fit(scattered, background="uniform")
    assert model.background == "custom"
    assert model.background_weight == pytest.approx(like.background_weight, abs=0.005)
    assert model.log_likelihood == pytest.approx(model.score_samples(scattered).sum(), rel=1e-12)


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"background": "box"}, "background must be one of"),
        ({"background": "auto", "search": "paper"}, "background needs search='thorough'"),
        ({"background": "auto", "tails": "auto"}, "background and tails='auto' both take the far rows"),
        ({"background": lambda rows: None, "checkpoint": "there"}, "a checkpoint cannot hold a background"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        amofa.fit(np.eye(3), **options)


def test_classes_have_none():
    with pytest.raises(TypeError, match="classes have no background"):
        amofa.classes.fit_classes(np.eye(4), np.array([0, 0, 1, 1]), background="auto")


def test_a_background_of_half_the_rows(rng):
    X = np.concatenate([rng.normal(size=(40, 2)) * 0.01, rng.uniform(-1, 1, (160, 2))])
    with pytest.warns(amofa.AmofaWarning, match="the background has 50% of the rows"):
        amofa.fit(X, n_components=1, background="uniform")


def test_families():
    plain, shared = Family(Noise.COMPONENT), Family(Noise.SHARED)
    found = families_of((Noise.COMPONENT, Noise.SHARED), "normal", None, 4, (Kind.HEAVY,))
    assert found == (
        plain,
        shared,
        Family(Noise.COMPONENT, background=Kind.HEAVY),
        Family(Noise.SHARED, background=Kind.HEAVY),
    )
    assert found[2].follows(plain)
    assert not found[2].follows(shared)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def problem_of(d, n, density=None, criterion=None):
    prior, pricing = Prior(np.full(d, 1e-4), np.ones(d), 4.0), criterion or Evidence(d, n, Noise.COMPONENT, 4.0)
    choice = FactorChoice(pricing, prior, Noise.COMPONENT, None, None)
    return Problem(prior, pricing, Noise.COMPONENT, choice, 1e-5, 100, annihilates=True, background=density)


@pytest.fixture
def mixture(rng):
    parameters = random_mixture(rng, 3, 4, [0, 2, 1])
    density = BackgroundDensity.of_one(Kind.HEAVY, np.zeros(4), np.full(4, 9.0), degrees_of_freedom=1.0)
    parameters.background = Background(density, 0.1)
    x = np.concatenate([random_rows(rng, parameters, 500), rng.normal(0, 30, (40, 4))])
    return parameters, x, rng.uniform(0.5, 2, len(x))


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_rows_that_weigh_less(mixture, weighted):
    parameters, x, w = mixture
    samples = Samples(x, weights=w if weighted else None)
    d = x.shape[1]

    def iteration_of(with_background, rows):
        own = parameters.copy()
        iteration = ProfileLikelihoodIteration(own.buffer, own.offsets, np.full(d, 1e-4), 4.0, np.ones(d), 0, True)
        near = Near.of_nothing(3, rows.n_rows, 1e-3)
        rows.expect(iteration, near, own if with_background else None)
        return iteration, near

    found, near = iteration_of(True, samples)
    (block,) = samples.over_posterior(parameters, lambda block: block)
    ones = np.ones(len(x)) if not weighted else w
    less, _ = iteration_of(False, samples.weighted(np.arange(len(x)), ones * block.share))
    assert relative_error(found.sums[2:], less.sums[2:]) < 1e-10
    assert found.log_likelihood == pytest.approx(block.log_density @ ones, rel=1e-13)
    h = np.concatenate([block.share * block.responsibilities, 1 - block.share[None]])
    entropy = -(h * np.log(np.where(h > 0, h, 1))).sum(axis=0) @ ones
    assert found.entropy == pytest.approx(entropy, rel=1e-10)
    kept = np.where(block.share * block.responsibilities > 1e-3, block.share * block.responsibilities, 0).sum(axis=0)
    np.testing.assert_allclose(near.kept, kept, atol=1e-13)


@pytest.mark.parametrize("wide", [False, True])
def test_em_climbs(mixture, wide):
    parameters, x, _ = mixture
    samples = Samples(x)
    problem = problem_of(4, len(x), parameters.background.density)
    costs = []
    solver = None if wide else Solver(4)
    fit = profile_em(
        samples, parameters, problem, solver, 60, choose_at_end=False, tell=lambda *step: costs.append(step[-1])
    )
    assert np.diff(costs).max() < 0.05
    assert fit.parameters.background_weight == pytest.approx(0.1, abs=0.05)
    iterate = make_iterate(samples, fit.parameters, problem, solver)
    assert iterate.cost(iterate.expect()) == pytest.approx(fit.cost, rel=1e-12)
    assert parameters.background_weight == 0.1


def test_wrong_backgrounds_of_an_iteration(mixture):
    parameters, x, _ = mixture
    iteration = ProfileLikelihoodIteration(parameters.buffer, parameters.offsets, np.ones(4), 4.0, np.ones(4), 0)
    rows = np.ascontiguousarray(x.T)
    for background, weight in ((np.zeros(3), 0.5), (np.zeros(len(x)), 1.0)):
        with pytest.raises(ValueError, match="a background must have a log density for each row"):
            iteration.accumulate(rows, None, background=background, background_weight=weight)


def test_the_weight_of_a_background_is_the_best(mixture):
    parameters, x, w = mixture
    samples = Samples(x, weights=w)
    rows = Rows(samples, parameters, problem_of(4, w.sum(), parameters.background.density))
    for without in ([], [1]):
        reduced = rows.without(without)
        components = reduced.parameters.with_background(None)
        f = np.concatenate(samples.over_posterior(components, lambda block: block.log_density))

        def loss(weight, f=f):
            return -np.logaddexp(np.log1p(-weight) + f, np.log(weight) + rows.background) @ w

        best = minimize_scalar(loss, bounds=(1e-9, 0.5), method="bounded", options={"xatol": 1e-9})
        assert reduced.parameters.background_weight == pytest.approx(best.x, abs=1e-3)


def test_boxes_and_quantiles(rng):
    x = np.concatenate([rng.uniform(-1, 1, (98, 2)), [[50.0, 0.0], [0.0, -70.0]]])
    samples = Samples(x)
    box = density_of(Kind.UNIFORM, samples, np.zeros(2))
    np.testing.assert_allclose(box.scale[0], np.ptp(x, axis=0) * 101 / 99)
    assert density_of(Kind.NESTED, samples, np.zeros(2)) is None  # narrower than a group
    nested = density_of(Kind.NESTED, Samples(3 * x), np.zeros(2))
    assert (nested.scale[1] < 7).all()
    assert density_of(Kind.NESTED, Samples(x[:98]), np.zeros(2)) is None
    heavy = density_of(Kind.HEAVY, samples, np.zeros(2))
    np.testing.assert_allclose(heavy.center[0], np.median(x, axis=0), atol=0.05)
    np.testing.assert_allclose(heavy.scale[0], 0.68, atol=0.1)
    mirrored = density_of(Kind.HEAVY, Samples(-x), np.zeros(2))
    np.testing.assert_allclose(mirrored.scale, heavy.scale)
    np.testing.assert_allclose(mirrored.center, -heavy.center)
    mostly_zero = density_of(Kind.HEAVY, Samples(np.r_[np.zeros(90), np.ones(10)][:, None]), np.zeros(1))
    assert mostly_zero.scale[0, 0] == 1.0


def test_units_come_from_rows_without_far_cells():
    X = with_outliers(0, far=20)
    clean = amofa.fitting.rows_of_search(X[:300], None, amofa.fitting.FitOptions(background="auto").checked(4))
    found = amofa.fitting.rows_of_search(X, None, amofa.fitting.FitOptions(background="auto").checked(4))
    plain = amofa.fitting.rows_of_search(X, None, amofa.fitting.FitOptions().checked(4))
    assert (found.coordinates.scale < 1.7 * clean.coordinates.scale).all()
    assert (plain.coordinates.scale > 5 * clean.coordinates.scale).all()
    mostly = np.where(np.arange(200)[:, None] == [5, 8, 150], 9.0, 0.0) + np.arange(200)[:, None] % 2 * [0, 0, 1.0]
    assert (
        amofa.fitting.rows_of_search(mostly, None, amofa.fitting.FitOptions(background="auto")).coordinates.scale > 0
    ).all()


def test_example_2_is_unharmed():
    X, _ = datasets.example_2(np.random.default_rng(0))
    assert amofa.fit(X, background="auto").cost == amofa.fit(X).cost


# ---- missing cells ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uniform", "heavy", "auto"])
def test_rows_with_missing_cells(scattered, kind, rng):
    X = scattered.copy()
    X[rng.random(X.shape) < 0.05] = np.nan
    model = amofa.fit(X, background=kind)
    assert model.n_components == 3
    assert model.background_weight == pytest.approx(24 / 324, abs=0.025)
    assert (model.predict(X[300:]) == -1).mean() > 0.7
    assert model.log_likelihood == pytest.approx(model.score_samples(X).sum(), rel=1e-10)
    times = rng.integers(1, 3, len(X))
    weighted = amofa.fit(X, sample_weight=times, background=kind)
    repeated = amofa.fit(np.repeat(X, times, axis=0), background=kind)
    assert weighted.background_weight == pytest.approx(repeated.background_weight, abs=1e-9)


def test_sums_of_rows_with_missing_cells(mixture, rng):
    parameters, x, w = mixture
    x[rng.random(x.shape) < 0.2] = np.nan
    samples = samples_of(x, weights=w)
    problem = problem_of(4, w.sum(), parameters.background.density, Counted(CRITERIA["icl"], 4, w.sum(), "component"))
    costs = []
    fit = profile_em(
        samples, parameters, problem, Solver(4), 40, choose_at_end=False, tell=lambda *step: costs.append(step[-2])
    )
    assert np.diff(costs).min() > -0.5
    assert fit.log_likelihood == pytest.approx(samples.log_likelihood(fit.parameters), rel=1e-12)
    iterate = make_iterate(samples, fit.parameters.copy(), problem, Solver(4))
    iterate.expect()
    blocks = samples.over_posterior(fit.parameters, lambda block: block)
    h = [np.concatenate([b.share * b.responsibilities, 1 - b.share[None]]) * b.row_weights for b in blocks]
    assert iterate.counts.sum() == pytest.approx(sum(each[:-1].sum() for each in h), rel=1e-10)
    shares = [np.concatenate([b.share * b.responsibilities, 1 - b.share[None]]) for b in blocks]
    entropies = [
        -(s * np.log(np.where(s > 0, s, 1))).sum(axis=0) @ b.row_weights for s, b in zip(shares, blocks, strict=True)
    ]
    assert iterate.entropy == pytest.approx(sum(entropies), rel=1e-8)


def test_missing_cells_beside_a_constant_column(scattered, rng):
    X = np.column_stack([scattered, np.full(len(scattered), 3.0)])
    X[rng.random(X.shape) < 0.05] = np.nan
    X[7, :4] = np.nan
    X[7, 4] = 3.0
    with pytest.warns(amofa.AmofaWarning, match="constant"):
        model = amofa.fit(X, background="uniform")
    assert model.background == "uniform"
    assert model.log_likelihood == pytest.approx(model.score_samples(X).sum(), rel=1e-10)
    assert model.outlier_scores(X[7:8])[0] == pytest.approx(model.background_weight)
