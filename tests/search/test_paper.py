"""The paper's search: its record, what it keeps, what it returns, and that it ends; and what both searches find."""

from itertools import pairwise

import datasets
import numpy as np
import pytest
import reference

import amofa
from amofa._data.row_chunks import Samples
from amofa._data.standardize import Coordinates
from amofa._em.standard import Settings, standard_em
from amofa._parameters import Component
from amofa._search.monitor import Monitor
from amofa._search.paper import Constraints, PaperSearch
from amofa._search.state import END, State
from amofa.criterion import CRITERIA

TOL = 1e-5


def blobs(rng, d=3, counts=(150, 100, 80)):
    """Three factor analysers, well apart, and their labels."""
    return datasets.factor_analysers(rng, d, [1, 1, 2][: len(counts)], counts)


DATA = {
    "example 1": lambda rng: datasets.example_1(rng)[0],
    "example 2": lambda rng: datasets.example_2(rng)[0],
    "three columns": lambda rng: blobs(rng)[0],
    "ten columns": lambda rng: datasets.factor_analysers(rng, 10, [3, 1], [200, 300])[0],
    "one column": lambda rng: np.concatenate([rng.normal(0, 1, (100, 1)), rng.normal(5, 1, (60, 1))]),
    "noise": lambda rng: rng.standard_normal((300, 4)),
    "small": lambda rng: rng.standard_normal((12, 3)),
    "heavy tails": lambda rng: rng.standard_t(2, (400, 3)),
}


@pytest.fixture(params=DATA)
def rows(request, rng):
    return DATA[request.param](rng)


def run(X, *, criterion="mml", tol=TOL, max_iter=100, **constraints):
    """The paper's search on standardised columns: samples, fit and history."""
    constraints = Constraints(**constraints)
    coordinates = Coordinates.of(Samples(X))
    samples = coordinates.samples(X, None, None)
    settings = Settings(
        CRITERIA[criterion], np.full(samples.n_features, 1e-4), tol, max_iter, constraints.n_components is None
    )
    state = State()
    search = PaperSearch(
        state, samples, settings, None, constraints=constraints, monitor=Monitor(state, samples, constraints)
    )
    while state.phase != END:
        search.step()
    return samples, search.result, state.history


# ---- the history -----------------------------------------------------------------------------------------------------


def without_some(longer, shorter):
    """Whether `shorter` is what is left of `longer` when some entries are taken out."""
    entries = iter(longer)
    return all(entry in entries for entry in shorter)


def after(step, before):
    """The factors that a step makes of those before it, were there no annihilation."""
    k, factors = step.component, list(before)
    if step.action == "split":
        return (*factors, factors[k])
    if step.action == "factor":
        factors[k] += 1
    elif step.action == "remove":
        del factors[k]
    return tuple(factors)


def check_factors(history):
    """Every step changes the model at hand as its action says, up to components that were annihilated."""
    assert history[0].action == "start"
    assert history[0].component == -1
    previous = current = history[0].n_factors
    assert len(current) == 1
    for before, step in pairwise(history):
        if step.action == "refine":
            assert step.component == -1
            assert any(without_some(other.n_factors, step.n_factors) for other in history if other is not step)
            continue
        # A rejected factor after an accepted split was most often proposed together with it, for the model before.
        second = before.action == "split" and before.accepted and step.action == "factor" and not step.accepted
        assert any(
            0 <= step.component < len(model) and without_some(after(step, model), step.n_factors)
            for model in ([previous, current] if second else [current])
        )
        if step.accepted:
            previous, current = current, step.n_factors


def check_growth(history, n):
    """Accepted moves lower the cost by more than the tolerance; rejected ones do not, or less than the other one."""
    growth = [step for step in history if step.action in ("start", "split", "factor")]
    cost = growth[0].cost
    for step, following in zip(growth[1:], [*growth[2:], None], strict=True):
        if step.accepted:
            assert step.cost < cost - TOL * n
            cost = step.cost
        elif step.action == "split" and following is not None and following.accepted:
            assert following.action == "factor"
            assert step.cost >= following.cost
        else:
            assert step.cost >= cost - TOL * n


def check_order(history):
    """A start, then growth until the moves are rejected or not possible, then downsizing, then perhaps refining."""
    actions = [step.action for step in history]
    phases = {"start": 0, "split": 1, "factor": 1, "remove": 2, "refine": 3}
    assert [phases[a] for a in actions] == sorted(phases[a] for a in actions)
    assert actions.count("start") == 1
    assert actions.count("refine") <= 1
    assert all(step.accepted for step in history if step.action not in ("split", "factor"))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_history_is_complete(rows, criterion):
    _, _, history = run(rows, criterion=criterion)
    check_order(history)
    check_factors(history)
    check_growth(history, len(rows))
    assert all(step.n_iter > 0 for step in history)
    assert all(np.isfinite([step.cost, step.message_length, step.log_likelihood]).all() for step in history)
    assert all(step.n_components == len(step.n_factors) for step in history)
    assert max(p for step in history for p in step.n_factors) <= np.ceil(0.8 * rows.shape[1])


@pytest.mark.parametrize("criterion", CRITERIA)
def test_costs_of_the_history_follow_from_its_likelihoods(rows, criterion):
    """For a criterion that prices neither weights nor entropy; message lengths are recorded for all."""
    _, _, history = run(rows, criterion=criterion)
    for step in history:
        penalty = CRITERIA[criterion](rows.shape[1], step.n_factors, len(rows))
        if not penalty.half_counts and not penalty.uses_entropy:
            assert step.cost == pytest.approx(penalty.constant - step.log_likelihood, rel=1e-12)
        elif criterion == "mml":
            assert step.cost == pytest.approx(step.message_length, rel=1e-12)
        else:
            assert step.cost > penalty.constant - step.log_likelihood - 1e-9


# ---- what is returned ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_best_model_of_all_is_returned(rows, criterion):
    samples, fit, history = run(rows, criterion=criterion)
    best = min(history, key=lambda step: step.cost)
    assert fit.cost == best.cost
    assert fit.parameters.n_factors == best.n_factors
    assert fit.log_likelihood == best.log_likelihood
    # What is returned is the model that has this cost.
    again = standard_em(samples, fit.parameters, Settings(CRITERIA[criterion], np.zeros(rows.shape[1]), TOL, 1, False))
    assert again.cost == pytest.approx(fit.cost, rel=1e-10)


def test_a_rejected_model_may_win(rng):
    """A move that gains less than the tolerance is not taken, but its model is the best: so coarse is the tolerance."""
    X, _ = blobs(rng)
    _, fit, history = run(X, tol=3.0)
    assert [step.accepted for step in history] == [True, False, False]
    assert fit.cost == min(step.cost for step in history) < history[0].cost


@pytest.mark.parametrize("criterion", CRITERIA)
def test_downsizing_goes_down_to_one(rows, criterion):
    _, _, history = run(rows, criterion=criterion)
    accepted = [step for step in history if step.accepted and step.action != "refine"]
    assert accepted[-1].n_components == 1
    for before, step in pairwise(accepted):
        if step.action == "remove":
            assert step.n_components < before.n_components


def test_the_lightest_is_removed(rng):
    """Where the model that growth ended with is the best, its weights are known."""
    for counts in ([300, 100, 200], [100, 250, 300], [200, 300, 90]):
        X, _ = datasets.factor_analysers(rng, 3, [0, 0, 0], counts, distance=7)
        _, fit, history = run(X, n_factors=0, max_components=3)
        removed = [step for step in history if step.action == "remove"]
        assert fit.parameters.n_components == len(removed) + 1 == 3
        assert removed[0].component == int(np.argmin(fit.parameters.weights))


def test_refining_goes_on_where_em_was_cut_short(rng):
    X, _ = datasets.factor_analysers(rng, 10, [2], [500])
    _, fit, history = run(X, n_components=1, n_factors=2)
    assert fit.converged
    assert [step.action for step in history] == ["start"]
    needed = history[0].n_iter
    _, refined, (first, last) = run(X, n_components=1, n_factors=2, max_iter=5)
    assert (first.action, first.n_iter, last.action, last.accepted) == ("start", 5, "refine", True)
    assert last.n_iter == needed - 4  # the last iterate of the start is the first one of it
    assert refined.converged
    assert refined.cost == last.cost < first.cost
    assert refined.cost == pytest.approx(fit.cost, rel=1e-12)


def test_refining_ends_too(rng):
    X, _ = datasets.factor_analysers(rng, 10, [2], [500])
    _, fit, history = run(X, n_components=1, n_factors=2, max_iter=2, tol=1e-13)
    assert not fit.converged
    assert history[-1].n_iter == 40


# ---- constraints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("K", [1, 2, 3, 4, 6])
def test_a_given_number_of_components_is_kept(rng, K, criterion):
    _, fit, history = run(blobs(rng)[0], criterion=criterion, n_components=K)
    assert fit.parameters.n_components == K
    assert fit.cost == min(step.cost for step in history if step.n_components == K)
    assert max(step.n_components for step in history) == K
    assert "remove" not in {step.action for step in history}


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("p", [0, 1, 2, 3])
def test_a_given_number_of_factors_is_kept(rng, p, criterion):
    _, fit, history = run(blobs(rng)[0], criterion=criterion, n_factors=p)
    assert set(fit.parameters.n_factors) == {p}
    assert all(set(step.n_factors) == {p} for step in history)
    assert "factor" not in {step.action for step in history}
    assert fit.parameters.n_components > 1


@pytest.mark.parametrize("factors", [(0,), (2,), (1, 1, 2), (0, 3, 1), (2, 0), (1, 2, 3, 0)])
def test_given_numbers_of_factors_of_each_are_kept(rng, factors):
    _, fit, history = run(blobs(rng)[0], n_components=len(factors), n_factors=factors)
    assert fit.parameters.n_factors == factors
    assert history[-1].n_factors == factors


def test_the_heaviest_component_takes_the_first_number_of_factors(rng):
    X, labels = datasets.factor_analysers(rng, 4, [2, 0], [300, 150], distance=9)
    model = amofa.fit(X, n_factors=[2, 0])
    np.testing.assert_allclose(model.weights, [2 / 3, 1 / 3], atol=0.01)
    assert (model.predict(X) == labels).mean() > 0.99


@pytest.mark.parametrize("most", [1, 2, 3])
def test_max_components_bounds_what_is_looked_at(rng, most):
    _, fit, history = run(blobs(rng)[0], max_components=most)
    assert max(step.n_components for step in history) == fit.parameters.n_components == most


@pytest.mark.parametrize("most", [0, 1, 2])
def test_max_factors_bounds_what_is_looked_at(rng, most):
    _, fit, history = run(datasets.factor_analysers(rng, 8, [4], [400])[0], max_factors=most)
    assert max(p for step in history for p in step.n_factors) == max(fit.parameters.n_factors) == most


# ---- both given: plain maximum likelihood ----------------------------------------------------------------------------

# Options with which a search's costs are those of the likelihood and the criterion alone.
NO_PRIOR = {"thorough": {"prior_rows": 0, "noise": "component"}, "paper": {}}


def components_of(model):
    """What reference.py takes."""
    return [
        Component(w, m, factors.T, u)
        for w, m, factors, u in zip(model.weights, model.means, model.loadings, model.uniquenesses, strict=True)
    ]


def dense_em(X, mixture, n_iter):
    """The log-likelihood that n_iter dense EM steps lead to, with the floor of a fit."""
    for _ in range(n_iter):
        mixture = reference.maximize(X, None, mixture, 1e-4 * X.var(axis=0))
    return reference.log_likelihood(X, None, mixture)


@pytest.mark.parametrize(("K", "p"), [(1, 2), (2, 0), (3, 1), (4, 4)])
def test_with_both_given_it_is_a_maximum_of_the_likelihood(rng, search, K, p):
    X, _ = datasets.factor_analysers(rng, 4, [1, 2, 1], [150, 120, 100])
    model = amofa.fit(X, search=search, n_components=K, n_factors=p, tol=1e-8, max_iter=2000, **NO_PRIOR[search])
    assert model.n_factors.tolist() == [p] * K
    assert dense_em(X, components_of(model), 0) == pytest.approx(model.log_likelihood, rel=1e-10)
    assert 0 < dense_em(X, components_of(model), 50) - model.log_likelihood + 1e-6 < 1


@pytest.mark.parametrize("d", [1, 4])
def test_one_component_without_factors_is_a_diagonal_gaussian(rng, search, d):
    X = 1e3 + rng.standard_normal((50, d)) * rng.uniform(0.1, 10, d)
    model = amofa.fit(X, search=search, n_components=1, n_factors=0)
    np.testing.assert_allclose(model.means[0], X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.uniquenesses[0], X.var(axis=0), rtol=1e-9)
    assert model.log_likelihood == pytest.approx(-25 * (d * np.log(2 * np.pi * np.e) + np.log(X.var(axis=0)).sum()))


def test_with_both_given_the_criterion_does_not_matter(rng, search):
    """All components are there from the start of the last EM, so only the likelihood counts but for where it ends."""
    X, _ = datasets.factor_analysers(rng, 4, [1, 1], [150, 120], distance=8)
    models = [amofa.fit(X, search=search, n_components=2, n_factors=1, criterion=name) for name in ("bic", "aic")]
    np.testing.assert_allclose(models[0].means, models[1].means, rtol=0 if search == "paper" else 1e-4)
    assert models[0].log_likelihood == pytest.approx(models[1].log_likelihood, rel=0 if search == "paper" else 1e-8)


# ---- criteria, seen from outside -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["example 2", "ten columns", "one column", "heavy tails"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.filterwarnings("ignore:EM of the chosen model did not converge")
def test_the_models_own_criterion_is_the_least_of_its_history(rng, search, name, criterion):
    X = DATA[name](rng)
    model = amofa.fit(X, search=search, criterion=criterion, **NO_PRIOR[search])
    least = min(step.cost for step in model.history)
    got = model.message_length if criterion == "mml" else getattr(model, criterion)(X) / 2
    # The thorough search goes on with EM to a finer tolerance, which may cost a thousandth of a nat.
    assert got == (pytest.approx(least, rel=1e-9) if search == "paper" else pytest.approx(least, abs=2e-3))
    assert model.log_likelihood == pytest.approx(model.score_samples(X).sum(), rel=1e-10)
    if search == "paper":
        best = min(model.history, key=lambda step: step.cost)
    else:
        best = min((step for step in model.history if step.accepted), key=lambda step: step.cost)
    assert sorted(best.n_factors) == sorted(model.n_factors.tolist())
    rel = 1e-9 if search == "paper" else 1e-6
    assert best.log_likelihood == pytest.approx(model.log_likelihood, rel=rel)
    assert best.message_length == pytest.approx(model.message_length, rel=rel)


def test_each_criterion_does_best_by_itself(rng, search):
    """No search ends with a model that another search's criterion would have chosen at a smaller cost, by far."""
    X = datasets.example_2(rng)[0]
    models = {name: amofa.fit(X, search=search, criterion=name, **NO_PRIOR[search]) for name in ("bic", "aic", "icl")}
    for name, model in models.items():
        for other in models.values():
            assert getattr(model, name)(X) <= getattr(other, name)(X) + 2 * TOL * len(X)


# ---- what it finds ---------------------------------------------------------------------------------------------------


def test_one_gaussian_is_one_component(rng, search):
    for d in (1, 2, 5):
        model = amofa.fit(rng.standard_normal((500, d)), search=search, criterion="bic")
        assert model.n_components == 1


def test_many_factors_are_found(rng, search):
    X, _ = datasets.factor_analysers(rng, 10, [6], [3000])
    (p,) = amofa.fit(X, search=search, criterion="bic", max_components=1).n_factors
    assert 6 <= p <= 8


def test_factors_are_found_in_few_rows(rng, search):
    """A single component takes factors though it has fewer rows than parameters."""
    X, _ = datasets.factor_analysers(rng, 50, [2], [20])
    assert amofa.fit(X, search=search).n_factors.min() >= 2


def test_a_component_of_light_tails_is_split_too(rng, search):
    """Of two groups that both want a split, one flat and one with a spike, the one farther from a Gaussian is split."""
    flat = -100 + np.concatenate([rng.normal(-3, 1, 4000), rng.normal(3, 1, 4000)])
    peaked = 100 + np.concatenate([rng.normal(0, 0.3, 120), rng.normal(0, 2, 80)])
    X = np.concatenate([flat, peaked])[:, None]
    model = amofa.fit(X, search=search, n_factors=0, max_components=3)
    np.testing.assert_allclose(np.sort(model.means[:, 0]), [-103, -97, 100], atol=1)
    assert amofa.fit(X[8000:], search=search, n_factors=0).n_components >= 2


def test_groups_and_factors_are_found(rng, search):
    X, labels = datasets.factor_analysers(rng, 10, [2, 1, 3], [400, 300, 500], distance=8)
    model = amofa.fit(X, search=search, criterion="bic")
    surplus = model.n_factors - [3, 2, 1]  # by falling weight
    assert ((surplus >= 0) & (surplus <= 1)).all()
    assert (model.predict(X) == np.array([1, 2, 0])[labels]).mean() > 0.99
