"""Searches with t components: when they are found, what is found, and what the choice never costs."""

import datasets
import numpy as np
import pytest
from reference import relative_error, t_mixture
from scipy import integrate, stats

import amofa
from amofa._data.row_chunks import Samples
from amofa._noise import Noise
from amofa._search.families import Family, families_of
from amofa._search.tails import tail_slopes


@pytest.fixture(scope="module")
def heavy():
    """Three groups with 3 degrees of freedom, which normal components need more than three of."""
    return datasets.t_groups(np.random.default_rng(1), 8, [2, 1, 2], [200, 200, 200], 3.0)


def agreement(model, x, labels):
    found = model.predict(x)
    return sum(np.bincount(found[labels == k]).max() for k in np.unique(labels)) / len(labels)


# ---- what is found ---------------------------------------------------------------------------------------------------


def test_groups_with_heavy_tails_are_one_component_each(heavy):
    x, labels = heavy
    normal, auto, alone = amofa.fit(x), amofa.fit(x, tails="auto"), amofa.fit(x, tails="t")
    assert normal.n_components > 3
    for model in (auto, alone):
        assert model.n_components == 3
        assert model.n_factors.sum() == 5
        assert agreement(model, x, labels) > 0.99
        assert model.cost < normal.cost - 100
        np.testing.assert_allclose(model.degrees_of_freedom, 3.0, rtol=0.25)
    assert auto.cost == pytest.approx(alone.cost, abs=0.5)


@pytest.mark.parametrize(("n", "d", "seed"), [(300, 1, 6), (200, 2, 0), (2000, 2, 0)])
def test_one_group_with_heavy_tails_is_one_component(n, d, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(3, (n, 1)) / 3)
    model, alone = amofa.fit(x, tails="auto"), amofa.fit(x, tails="t")
    assert model.n_components == 1
    assert model.cost <= alone.cost + 0.05


@pytest.mark.parametrize("tails", ["auto", "t"])
def test_given_numbers_of_factors_are_kept(tails):
    rng = np.random.default_rng(0)
    centres = np.repeat([[0, 0, 0], [12, 0, 3], [6, 10, -3]], 120, axis=0)
    rows = rng.normal(size=(360, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 1]])
    x = centres + rows / np.sqrt(rng.chisquare(3, (360, 1)) / 3)
    assert amofa.fit(x, n_components=3, n_factors=[2, 1, 0], tails=tails).n_factors.tolist() == [2, 1, 0]


def test_the_report_counts_degrees_of_freedom(heavy):
    x, _ = heavy
    found = amofa.fit(x, tails="t", n_components=3, n_factors=1)
    given = amofa.fit(x, tails="t", n_components=3, n_factors=1, degrees_of_freedom=3.0)
    free = len(np.unique(found.degrees_of_freedom))
    assert found.n_parameters == given.n_parameters + free
    assert given.degrees_of_freedom.tolist() == [3.0] * 3
    assert found.log_likelihood > given.log_likelihood


@pytest.mark.parametrize("noise", [None, "component", "isotropic"])
def test_normal_rows_get_the_model_of_normal_tails(rng, noise):
    x, _ = datasets.factor_analysers(rng, 5, [1, 2], [200, 300])
    normal, auto = amofa.fit(x, noise=noise), amofa.fit(x, noise=noise, tails="auto")
    assert auto._parameters.buffer.tobytes() == normal._parameters.buffer.tobytes()
    assert auto.cost == normal.cost


def test_t_components_of_normal_rows_have_many_degrees_of_freedom(rng):
    x, _ = datasets.factor_analysers(rng, 5, [1, 2], [200, 300])
    model = amofa.fit(x, tails="t")
    assert model.n_components == 2
    assert (model.degrees_of_freedom > 25).all()


def test_components_get_their_own_degrees_of_freedom_where_that_pays(rng):
    heavy, _ = datasets.t_groups(rng, 6, [1], [600], 2.5)
    light, _ = datasets.factor_analysers(rng, 6, [1], [600])
    model = amofa.fit(np.concatenate([heavy, light + 30]), tails="auto")
    assert model.n_components == 2
    first, second = model.degrees_of_freedom[np.argsort(model.means[:, 0])]
    assert first < 4
    assert second > 15


def test_few_rows_in_many_columns_do_not_collapse(rng):
    """The likelihood of t components has no maximum here: a few rows in the space of the factors would take all."""
    wide, _ = datasets.t_groups(rng, 150, [2, 2], [40, 40], 3.0, distance=30.0)
    for noise in ("component", "shared"):
        model = amofa.fit(wide, tails="t", noise=noise)
        assert model.uniquenesses.min() > 0.02
        assert model.n_factors.max() < 8


def test_a_start_keeps_its_degrees_of_freedom_and_its_cost(heavy):
    x, labels = heavy
    first = amofa.fit(x, tails="t")
    for tails in ("t", "auto"):
        again = amofa.fit(x, tails=tails, init=first)
        assert again.cost <= first.cost + 1e-3
    assert np.isinf(amofa.fit(x, init=first).degrees_of_freedom).all()
    assert amofa.fit(x, tails="t", init=labels).n_components == 3


def test_one_far_row_changes_little(rng):
    x = rng.standard_normal((300, 3))
    spoilt = np.concatenate([x, [[40.0, 40.0, 40.0]]])
    clean, model = amofa.fit(x, tails="t", n_components=1), amofa.fit(spoilt, tails="t", n_components=1)
    np.testing.assert_allclose(model.means, clean.means, atol=0.05)
    np.testing.assert_allclose(model.uniquenesses, clean.uniquenesses, rtol=0.35)
    assert np.trace(amofa.fit(spoilt, n_components=1).covariance(0)) > 15


# ---- invariance ------------------------------------------------------------------------------------------------------


def test_units_and_orders_change_nothing(heavy):
    x, _ = heavy
    x = x[::2]
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(x)), rng.permutation(x.shape[1])
    model = amofa.fit(x, tails="auto")
    other = amofa.fit((x * 1e4 + 1e6)[rows][:, columns], tails="auto")
    assert other.n_factors.tolist() == model.n_factors.tolist()
    np.testing.assert_array_equal(other.predict((x * 1e4 + 1e6)[:, columns]), model.predict(x))
    np.testing.assert_allclose(other.degrees_of_freedom, model.degrees_of_freedom, rtol=1e-4)


@pytest.mark.parametrize("wide", [False, True])
def test_weights_are_repeats(rng, wide):
    x, _ = datasets.t_groups(rng, 60 if wide else 4, [1], [50], 4.0)
    weights = 1 + np.arange(50) % 3
    weighted = amofa.fit(x, sample_weight=weights, tails="t", n_components=1)
    repeated = amofa.fit(np.repeat(x, weights, axis=0), tails="t", n_components=1)
    assert weighted.cost == pytest.approx(repeated.cost, rel=1e-9)
    np.testing.assert_allclose(weighted.degrees_of_freedom, repeated.degrees_of_freedom, rtol=1e-6)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def test_families():
    inf = float("inf")
    own, shared = Noise.COMPONENT, Noise.SHARED
    assert families_of([own, shared], "normal", None, 5) == (Family(own), Family(shared))
    assert [f.degrees_of_freedom for f in families_of([own], "auto", None, 5)] == [inf, 10.0, 30.0]
    assert [f.degrees_of_freedom for f in families_of([own], "t", None, 100)] == [25.0, 100.0]
    assert families_of([own], "t", 4.0, 5) == (Family(own, 4.0),)
    assert Family(shared, 4.0).follows(Family(own, 4.0))
    assert Family(own, 4.0).follows(Family(own))
    assert not Family(own, 4.0).follows(Family(shared))
    assert not Family(own, 4.0).follows(Family(own, 5.0))


def test_slopes_are_derivatives(rng):
    parameters = t_mixture(rng, 3, 4, [1, 0, 2], degrees=(3.0, 8.0, 30.0))
    x = rng.standard_normal((200, 4)) * 3
    samples = Samples(x, weights=rng.uniform(0.5, 2.0, 200))
    found, step = tail_slopes(samples, parameters), 1e-5
    for k in range(3):
        sides = []
        for sign in (1, -1):
            moved = parameters.copy()
            moved.degrees_of_freedom[k] *= np.exp(sign * step)
            sides.append(samples.log_likelihood(moved))
        assert found.slopes[k] == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-6)


def test_information_is_the_expected_square_of_the_slope(rng):
    """For one component in one column, where the expectation is an integral."""
    nu, step = 5.0, 1e-4
    parameters = t_mixture(rng, 1, 1, [0], degrees=(nu,))
    samples = Samples(rng.standard_normal((50, 1)))
    found = tail_slopes(samples, parameters)

    def square(value):
        sides = [stats.t.logpdf(value, nu * np.exp(sign * step)) for sign in (1, -1)]
        return ((sides[0] - sides[1]) / (2 * step)) ** 2 * stats.t.pdf(value, nu)

    expected, _ = integrate.quad(square, -np.inf, np.inf)
    assert relative_error(found.information[0], 50 * expected) < 1e-5


# ---- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tails": "heavy"}, "tails must be"),
        ({"tails": "t", "search": "paper"}, "tails='t' needs search='thorough'"),
        ({"degrees_of_freedom": 4.0}, "degrees_of_freedom needs tails='t'"),
        ({"degrees_of_freedom": 4.0, "tails": "auto"}, "degrees_of_freedom needs tails='t'"),
        ({"degrees_of_freedom": 0.0, "tails": "t"}, "degrees_of_freedom must be"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        amofa.fit(np.eye(5), **options)
