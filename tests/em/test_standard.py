"""EM to convergence: step by step against dense algebra, which iterate is returned, when it ends, annihilation."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import reference
from reference import random_mixture, random_rows, relative_error

from amofa._data.row_chunks import Samples
from amofa._em.standard import Settings, standard_em
from amofa._parameters import Component, Parameters
from amofa.criterion import CRITERIA, Penalty

ENDLESS = 1e-300  # a tolerance that no change is below


def settings(d, **changes):
    """Plain maximum likelihood to the last digit, with changes."""
    plain = Settings(criterion=CRITERIA["aic"], floor=np.full(d, 1e-6), tol=ENDLESS, max_iter=100, annihilates=False)
    return replace(plain, **changes)


def problem(rng, K, d, factors, n=200):
    """Rows (n, d) of a mixture, and another mixture of the same shape to start from."""
    return random_rows(rng, random_mixture(rng, K, d, factors), n), random_mixture(rng, K, d, factors)


def difference(got, want):
    """Largest difference of two mixtures, covariances in place of loadings, whose signs and rotations are free."""
    assert got.n_factors == want.n_factors
    return max(
        relative_error(got.weights, want.weights, 1.0),
        relative_error(got.means, want.means, 1.0),
        relative_error(got.uniquenesses, want.uniquenesses, 1.0),
        *(
            relative_error(reference.covariance(a), reference.covariance(b))
            for a, b in zip(got.components(), want.components(), strict=True)
        ),
    )


# ---- a dense form of the whole loop ----------------------------------------------------------------------------------


def annihilated(mixture, criterion, n):
    """The mixture without its weakest components, one at a time, by the paper's T_k; the last one stays."""
    mixture = list(mixture)
    needed = list(criterion(len(mixture[0].mean), [len(c.loadings) for c in mixture], n).min_soft_counts)
    while len(mixture) > 1:
        margins = [n * c.weight - least for c, least in zip(mixture, needed, strict=True)]
        if min(margins) >= 0:
            break
        k = margins.index(min(margins))
        del mixture[k], needed[k]
        total = sum(c.weight for c in mixture)
        mixture = [c._replace(weight=c.weight / total) for c in mixture]
    return mixture


def cost(x, w, mixture, criterion):
    """The criterion of a mixture, nats."""
    n = len(x) if w is None else w.sum()
    penalty = criterion(x.shape[1], [len(c.loadings) for c in mixture], n)
    entropy = reference.entropy(x, w, mixture) if penalty.uses_entropy else 0.0
    return penalty.cost(reference.log_likelihood(x, w, mixture), entropy, [c.weight for c in mixture])


def trajectory(x, w, start, how, n_iter):
    """The mixtures of n_iter iterations, the start first."""
    mixtures, n = [start.components()], len(x) if w is None else w.sum()
    while len(mixtures) < n_iter:
        mixture = reference.maximize(x, w, mixtures[-1], how.floor)
        mixtures.append(annihilated(mixture, how.criterion, n) if how.annihilates else mixture)
    return mixtures


def check_against_trajectory(x, w, start, how, target=np.inf):
    """Run EM and compare all that it returns. Returns the number of the iterate and the number of iterations."""
    n = len(x) if w is None else w.sum()
    mixtures = trajectory(x, w, start, how, how.max_iter)
    costs = [cost(x, w, mixture, how.criterion) for mixture in mixtures]
    gains = [np.inf, *(a - b for a, b in pairwise(costs))]
    still = [i for i in range(2, len(costs)) if abs(gains[i]) < how.tol * n]
    # However long it went on, the last gain again each time, it would stay above the target.
    hopeless = [i for i in range(2, len(costs)) if 0 < gains[i] * (how.max_iter - i - 1) < costs[i] - target]
    end = min([*still, *hopeless, how.max_iter - 1])
    n_iter = end + 1
    best = int(np.argmin(costs[:n_iter]))
    fit = standard_em(Samples(x, weights=w), start, how, target=target)
    assert (fit.n_iter, fit.converged) == (n_iter, end in still)
    assert fit.cost == pytest.approx(costs[best], rel=1e-10)
    assert fit.log_likelihood == pytest.approx(reference.log_likelihood(x, w, mixtures[best]), rel=1e-10)
    assert difference(fit.parameters, Parameters.from_components(mixtures[best])) < 1e-8
    return best, n_iter


# ---- step by step ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("K", "d", "factors"), [(1, 1, [0]), (1, 6, [3]), (2, 1, [1, 0]), (3, 4, [0, 1, 6]), (5, 2, [1] * 5)]
)
def test_every_iteration_is_one_dense_em_step(rng, K, d, factors, weighted):
    """The fit of m + 1 iterations is the dense EM step from the fit of m."""
    x, start = problem(rng, K, d, factors)
    w, floor = rng.uniform(0, 2, len(x)) if weighted else None, np.full(d, 0.4)
    start.uniquenesses[:] = np.maximum(start.uniquenesses, floor)
    fits = [standard_em(Samples(x, weights=w), start, settings(d, max_iter=m, floor=floor)) for m in range(1, 7)]
    np.testing.assert_array_equal(fits[0].parameters.buffer, start.buffer)
    for before, after in pairwise(fits):
        step = reference.maximize(x, w, before.parameters.components(), floor)
        assert difference(after.parameters, Parameters.from_components(step)) < 1e-9
        expected = reference.log_likelihood(x, w, after.parameters.components())
        assert after.log_likelihood == pytest.approx(expected, rel=1e-11)
    assert fits[-1].log_likelihood > fits[0].log_likelihood


@pytest.mark.parametrize("K", [1, 2])
def test_where_it_starts_at_the_maximum_it_stays(rng, K):
    x, start = problem(rng, K, 3, 1)
    end = standard_em(Samples(x), start, settings(3, max_iter=3000, tol=1e-14)).parameters
    again = standard_em(Samples(x), end, settings(3, tol=1e-5))
    assert (again.n_iter, again.converged) == (3, True)  # not looked for before
    assert difference(again.parameters, end) < 1e-3


def test_the_start_is_not_changed(rng):
    x, start = problem(rng, 3, 2, 1)
    before = start.buffer.copy()
    standard_em(Samples(x), start, settings(2, annihilates=True, criterion=CRITERIA["mml"]))
    np.testing.assert_array_equal(start.buffer, before)


# ---- which iterate, and when it ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("annihilates", [False, True])
@pytest.mark.parametrize("tol", [1e-2, 1e-3, ENDLESS])
def test_follows_the_dense_loop(rng, criterion, annihilates, tol):
    """Costs, end, annihilation and returned iterate, from a start of too many components."""
    x, _ = problem(rng, 3, 2, 1, n=150)
    start = random_mixture(rng, 8, 2, [0, 1, 2, 1, 0, 1, 2, 1])
    how = settings(2, criterion=CRITERIA[criterion], annihilates=annihilates, tol=tol, max_iter=40)
    check_against_trajectory(x, None, start, how)
    check_against_trajectory(x, rng.uniform(0, 2, len(x)), start, how)


def priced_weights(half_count):
    """A criterion that is minus the log-likelihood plus half_count times the sum of the log weights."""

    def criterion(d, n_factors, n):
        return Penalty(0.0, (half_count,) * len(n_factors), False, (0.0,) * len(n_factors))

    return criterion


def two_weights(rng):
    """Rows around 0, and three times as many around 3, and a start that is right but for the weights, 0.03 and 0.97."""
    x = np.concatenate([rng.standard_normal((100, 1)), 3 + rng.standard_normal((300, 1))])
    empty, one = np.zeros((0, 1)), np.ones(1)
    components = [Component(0.03, 0 * one, empty, one), Component(0.97, 3 * one, empty, one)]
    return x, Parameters.from_components(components)


def test_the_iterate_of_smallest_cost_is_returned(rng):
    """Even weights cost more, so that the cost falls at first, as the likelihood rises, and then rises."""
    x, start = two_weights(rng)
    how = settings(1, criterion=priced_weights(40.0), max_iter=30)
    best, n_iter = check_against_trajectory(x, None, start, how)
    assert 0 < best < n_iter - 2


def test_a_start_that_is_best_is_returned(rng):
    x, start = two_weights(rng)
    fit = standard_em(Samples(x), start, settings(1, criterion=priced_weights(1000.0), max_iter=20))
    np.testing.assert_array_equal(fit.parameters.buffer, start.buffer)
    assert fit.n_iter == 20


def test_it_is_given_up_when_the_target_is_out_of_reach(rng):
    """The further away the target, the sooner; one that can be reached changes nothing."""
    x, start = problem(rng, 3, 2, 1)
    how = settings(2, max_iter=60)
    reached = standard_em(Samples(x), start, how).cost
    ends = [check_against_trajectory(x, None, start, how, reached - d)[1] for d in (1000.0, 30.0, 3.0, 0.1, 0.0, -5.0)]
    assert ends == sorted(ends)
    assert ends[0] == 3
    assert len(set(ends)) > 3
    assert ends[-1] == 60


def test_it_is_not_given_up_where_the_cost_rises(rng):
    """An annihilation costs more than all iterations that are left would gain, but is no gain to judge by."""
    x, _ = problem(rng, 2, 2, 0)
    start = random_mixture(rng, 6, 2, 0)
    how = settings(2, criterion=support({0: 25.0}, per_component=0.0), annihilates=True, max_iter=40)
    costs = [cost(x, None, mixture, how.criterion) for mixture in trajectory(x, None, start, how, 40)]
    target = max(costs[2:]) + 0.1
    assert any((costs[i] - costs[i - 1]) * (39 - i) > target - costs[i] for i in range(2, 39))
    assert check_against_trajectory(x, None, start, how, target)[1] == 40


def test_the_end_does_not_depend_on_the_number_of_rows(rng):
    x, start = problem(rng, 3, 2, 1)
    how = settings(2, tol=1e-5, max_iter=1000)
    once = standard_em(Samples(x), start, how)
    tenfold = standard_em(Samples(np.tile(x, (10, 1))), start, how)
    assert once.converged
    assert 5 < once.n_iter == tenfold.n_iter
    assert difference(tenfold.parameters, once.parameters) < 1e-10
    assert tenfold.log_likelihood == pytest.approx(10 * once.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40, 1e-8, 1e8])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_end_does_not_depend_on_the_units(rng, unit, criterion):
    x, start = problem(rng, 3, 2, 1)
    how = settings(2, tol=1e-5, criterion=CRITERIA[criterion], annihilates=True)
    scaled_start = start.copy()
    scaled_start.means[:] *= unit
    scaled_start.loadings[:] *= unit
    scaled_start.uniquenesses[:] *= unit**2
    plain = standard_em(Samples(x), start, how)
    scaled = standard_em(Samples(x * unit), scaled_start, replace(how, floor=how.floor * unit**2))
    assert (scaled.n_iter, scaled.converged) == (plain.n_iter, plain.converged)
    back = scaled.parameters.copy()
    back.means[:] /= unit
    back.loadings[:] /= unit
    back.uniquenesses[:] /= unit**2
    assert difference(back, plain.parameters) < 1e-8
    # Densities are per unit of volume.
    assert scaled.cost - plain.cost == pytest.approx(2 * len(x) * np.log(unit), rel=1e-9)


def test_densities_are_of_the_rows_as_they_were_given(rng):
    """EM runs on standardised rows; the log-likelihood and the cost are those in the units of the table."""
    x, start = problem(rng, 3, 2, 1)
    scale, how = np.array([1e-3, 20.0]), settings(2, max_iter=5)
    plain = standard_em(Samples(x), start, how)
    table = Samples(5.0 + x * scale, center=np.full(2, 5.0), scale=scale)
    given = standard_em(table, start, how)
    assert difference(given.parameters, plain.parameters) < 1e-9
    expected = -len(x) * np.log(scale).sum()
    assert given.log_likelihood - plain.log_likelihood == pytest.approx(expected, rel=1e-10)
    assert plain.cost - given.cost == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_row_of_weight_three_is_three_rows(rng, criterion):
    x, start = problem(rng, 4, 2, 1)
    weights = rng.integers(0, 4, len(x))
    how = settings(2, criterion=CRITERIA[criterion], tol=1e-5, annihilates=True)
    weighted = standard_em(Samples(x, weights=weights.astype(float)), start, how)
    repeated = standard_em(Samples(np.repeat(x, weights, axis=0)), start, how)
    assert weighted.n_iter == repeated.n_iter
    assert weighted.cost == pytest.approx(repeated.cost, rel=1e-11)
    assert difference(weighted.parameters, repeated.parameters) < 1e-9


# ---- annihilation ----------------------------------------------------------------------------------------------------


def support(least, *, per_component=1e9):
    """A criterion under which a component of p factors needs least[p] rows, and few components are always better."""

    def criterion(d, n_factors, n):
        return Penalty(per_component * len(n_factors), (), False, tuple(least[p] for p in n_factors))

    return criterion


def islands(rng, counts, factors=None):
    """Groups of rows 100 apart, and a mixture with a component on each."""
    x = np.concatenate([100.0 * k + rng.standard_normal((n, 2)) for k, n in enumerate(counts)])
    factors = factors or [0] * len(counts)
    components = [
        Component(n / sum(counts), np.full(2, 100.0 * k), np.full((p, 2), 0.1), np.ones(2))
        for k, (n, p) in enumerate(zip(counts, factors, strict=True))
    ]
    return x, Parameters.from_components(components)


@pytest.mark.parametrize(
    ("counts", "least", "survivors"),
    [
        ((70, 30), 30.0, [0, 1]),  # support enough, exactly
        ((70, 30), 30.5, [0]),
        ((70, 16, 14), 17.0, [0, 1]),  # 14 goes; 16 of 86 are then worth 18.6 of 100
        ((70, 14, 16), 17.0, [0, 2]),
        ((70, 15, 15), 18.0, [0]),  # 15 of 85 are worth 17.6
        ((10, 20, 70), 1000.0, [2]),  # the last one stays
        ((50, 50), 60.0, [1]),  # of equals the first goes
    ],
)
def test_the_weakest_goes_one_at_a_time(rng, counts, least, survivors):
    x, start = islands(rng, counts)
    how = settings(2, criterion=support({0: least}), annihilates=True, max_iter=2)
    fit = standard_em(Samples(x), start, how)
    np.testing.assert_allclose(fit.parameters.means[:, 0], [100.0 * k for k in survivors], atol=2)
    shares = np.array([counts[k] for k in survivors], float)
    np.testing.assert_allclose(fit.parameters.weights, shares / shares.sum(), rtol=1e-12)


def test_the_weakest_is_the_one_that_lacks_most(rng):
    """A component of more factors needs more rows: the heavier one goes."""
    x, start = islands(rng, (30, 70), [0, 2])
    how = settings(2, criterion=support({0: 35.0, 2: 80.0}), annihilates=True, max_iter=2)
    fit = standard_em(Samples(x), start, how)
    assert fit.parameters.n_factors == (0,)


def test_support_that_is_just_enough_is_enough(rng):
    """Also where another component needs more than this one has."""
    x, start = islands(rng, (30, 70), [0, 2])
    how = settings(2, criterion=support({0: 30.0, 2: 50.0}), annihilates=True, max_iter=2)
    assert standard_em(Samples(x), start, how).parameters.n_factors == (0, 2)


def test_survivors_go_on_as_a_mixture(rng):
    """EM goes on after an annihilation: the survivor takes over the rows."""
    x, start = islands(rng, (60, 40))
    how = settings(2, criterion=support({0: 45.0}), annihilates=True, max_iter=20)
    fit = standard_em(Samples(x), start, how)
    np.testing.assert_allclose(fit.parameters.means, x.mean(axis=0)[None], rtol=1e-12)
    np.testing.assert_allclose(fit.parameters.uniquenesses, x.var(axis=0)[None], rtol=1e-12)
    np.testing.assert_array_equal(fit.parameters.weights, [1.0])


def test_without_annihilation_weak_components_stay(rng):
    x, start = islands(rng, (95, 5))
    how = settings(2, criterion=support({0: 50.0}), annihilates=False)
    fit = standard_em(Samples(x), start, how)
    np.testing.assert_allclose(fit.parameters.weights, [0.95, 0.05], rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_sum_to_one_and_uniquenesses_stay_above_the_floor(rng, weighted):
    x, start = problem(rng, 8, 3, 2, n=60)
    w = rng.uniform(0, 2, len(x)) if weighted else None
    floor = np.array([1e-3, 0.5, 2.0])
    start.uniquenesses[:] = np.maximum(start.uniquenesses, floor)
    how = settings(3, criterion=CRITERIA["mml"], annihilates=True, floor=floor)
    fit = standard_em(Samples(x, weights=w), start, how)
    assert fit.parameters.n_components < 8
    assert fit.parameters.weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert (fit.parameters.uniquenesses >= floor).all()


# ---- who looks on ----------------------------------------------------------------------------------------------------


def test_each_iteration_is_told_of(rng):
    X, start = problem(rng, 2, 3, 1)
    told = []
    fit = standard_em(Samples(X), start, settings(3, max_iter=7), tell=lambda *what: told.append(what))
    assert [number for number, *_ in told] == list(range(1, 8))
    for number, n_factors, log_likelihood, cost in told:
        so_far = standard_em(Samples(X), start, settings(3, max_iter=number))
        assert (n_factors, log_likelihood, cost) == (so_far.parameters.n_factors, so_far.log_likelihood, so_far.cost)
    assert fit.cost == min(cost for *_, cost in told)


def test_it_can_be_stopped_before_each_iteration(rng):
    X, start = problem(rng, 2, 3, 1)
    told = []

    def check():
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        standard_em(Samples(X), start, settings(3, check=check), tell=lambda *what: told.append(what))
    assert len(told) == 3
