"""Moves of the default search: each pays or leaves the mixture; and that nothing is missed that is shown the way to."""

import datasets
import numpy as np
import pytest
from fits import MOVES, blobs

import amofa
from amofa._search.default import DefaultSearch

# ---- tables of whose origin the cost is not to be beaten -------------------------------------------------------------


def turned(rng, x):
    return x @ np.linalg.qr(rng.standard_normal((x.shape[1],) * 2))[0]


def line(rng, k, d):
    """Round groups in a row, of which two look like one with a factor."""
    labels = np.repeat(np.arange(k), 150)
    x = rng.standard_normal((150 * k, d))
    x[:, 0] += 5 * labels
    return turned(rng, x), labels


def far_row(rng, groups=2):
    """Groups, and one row that is far from them all."""
    x, labels = blobs(rng, [120] * groups, 10.0 * np.eye(groups, 3))
    return np.vstack([x, [1e4, -1e4, 3e3]]), np.append(labels, groups)


def scales(rng, d):
    """Narrow groups beside each other, and a third that sets the range of the table."""
    labels = np.repeat([0, 1, 2], 200)
    return np.array([0.0, 1.0, 300.0])[labels][:, None] + rng.normal(0, 0.1, (600, d)), labels


def sizes(rng, k):
    """Groups that differ little beside a strong common factor, as animals of different size."""
    labels = np.repeat(np.arange(k), 60)
    common = np.exp(rng.normal(0, 0.25, 60 * k))[:, None]
    x = common * rng.uniform(5, 30, 5) * (1 + 0.12 * rng.standard_normal((k, 5)))[labels]
    return x + rng.normal(0, 0.3, x.shape), labels


def clusters(rng):
    """Nine groups in three clusters."""
    centres = 60 * rng.standard_normal((3, 3))[np.arange(9) // 3] + 12 * rng.standard_normal((9, 3))
    return blobs(rng, [60] * 9, centres)


def nested(rng):
    """Groups of one centre, of other widths in every direction."""
    labels = np.repeat([0, 1], 300)
    return rng.standard_normal((600, 4)) * np.where(labels[:, None] == 0, 1.0, np.geomspace(5, 0.5, 4)), labels


TABLES = {
    "three in a row": lambda rng: line(rng, 3, 8),
    "five in a row": lambda rng: line(rng, 5, 14),
    "a far row": far_row,
    "a far row beside one group": lambda rng: far_row(rng, 1),
    "scales, one column": lambda rng: scales(rng, 1),
    "scales": lambda rng: scales(rng, 3),
    "two sizes": lambda rng: sizes(rng, 2),
    "four sizes": lambda rng: sizes(rng, 4),
    "clusters": clusters,
    "nested": nested,
    "example 2": lambda rng: datasets.example_2(rng),
    "wide": lambda rng: datasets.factor_analysers(rng, 60, [0, 0], [20, 20], distance=12.0),
}


@pytest.mark.parametrize("table", TABLES)
def test_no_regret(rng, table):
    """Neither the true groups nor their number show the way to a lower cost."""
    x, labels = TABLES[table](rng)
    K = labels.max() + 1
    found, given = amofa.fit(x), amofa.fit(x, n_components=K)
    assert found.cost <= min(given.cost, amofa.fit(x, init=labels).cost) + 1
    # Groups may overlap by chance.
    assert found.n_components == K or found.cost < given.cost - 1


@pytest.mark.parametrize("table", ["three in a row", "five in a row", "a far row", "scales", "two sizes", "clusters"])
def test_no_regret_with_the_number_given(rng, table):
    x, labels = TABLES[table](rng)
    K = labels.max() + 1
    found = amofa.fit(x, n_components=K)
    assert found.n_components == K
    assert found.cost <= amofa.fit(x, n_components=K, init=labels).cost + 1


@pytest.mark.parametrize("noise", ["component", "shared", "isotropic"])
def test_no_regret_with_any_noise(rng, noise):
    x, labels = line(rng, 3, 5)
    found = amofa.fit(x, noise=noise)
    assert found.cost <= amofa.fit(x, noise=noise, init=labels).cost + 1
    assert found.n_components == 3


# ---- moves -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch):
    """Phases that fits went through, each with the mixtures before and after it, and the number that it tried."""
    taken, step = [], DefaultSearch.step

    def recording(self):
        phase, before, n_before = self.state.phase, self.state.current, len(self.state.history)
        step(self)
        taken.append((phase, before, self.state.current, self.state.history[n_before:]))

    monkeypatch.setattr(DefaultSearch, "step", recording)
    return taken


PHASES_OF_MOVES = ("tidy", "split", "merge", "overshoot", "exchange")


@pytest.mark.parametrize("options", [{}, {"noise": "shared"}, {"criterion": "bic"}], ids=["auto", "shared", "bic"])
@pytest.mark.parametrize("table", ["student", "sizes", "clusters", "walk"])
def test_a_move_lowers_the_cost_or_leaves_the_mixture(rng, steps, table, options):
    x = {
        "student": lambda: rng.standard_t(2, (250, 3)),
        "sizes": lambda: sizes(rng, 4)[0],
        "clusters": lambda: clusters(rng)[0][::2],
        "walk": lambda: np.cumsum(rng.standard_normal((150, 2)), axis=0),
    }[table]()
    amofa.fit(x, **options)
    assert {phase for phase, *_ in steps} >= {"split", "merge", "overshoot", "exchange"}
    for phase, before, after, tried in steps:
        if phase in PHASES_OF_MOVES:
            kept = after.parameters is not before.parameters
            assert not kept or after.cost < before.cost
            assert [step.accepted for step in tried] in ([], [kept])
            assert all(step.action in MOVES for step in tried)


def test_each_kind_of_move_pays_somewhere(steps):
    for draw in (3, 4):
        rng = np.random.default_rng(draw)
        angles = rng.uniform(0, 2 * np.pi, 150)
        amofa.fit(np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.1 * rng.standard_normal((150, 2)))
        amofa.fit(np.random.default_rng(draw).exponential(size=(150, 2)))
    pays = {phase for phase, before, after, _ in steps if before is not None and after.cost < before.cost - 0.1}
    assert pays >= {*PHASES_OF_MOVES}


@pytest.mark.parametrize("K", [2, 3])
def test_with_a_given_number_no_other_is_left(rng, steps, K):
    x, _ = line(rng, 3, 4)
    amofa.fit(x, n_components=K)
    for phase, _, after, _ in steps:
        assert phase != "overshoot" or after.n_components <= K
        if phase == "conclude":
            assert after.n_components == K


@pytest.mark.parametrize("most", [1, 2, 3])
def test_there_are_never_more_than_allowed(rng, most):
    seen = []
    amofa.fit(clusters(rng)[0], max_components=most, callback=seen.append)
    assert max(step.n_components for step in seen) <= most
