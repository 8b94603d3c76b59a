"""Components joined to clusters: what joins cost, the tree, and its cuts."""

import numpy as np
import pytest
from reference import covariance
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.stats import multivariate_normal

import amofa
from amofa import MixtureOfFactorAnalyzers as Mixture
from amofa._model.cluster_costs import JOINED_COST, Covariance, _Pair, pair_costs, shape_difference
from amofa._model.clusters import find_clusters
from amofa.threads import use_threads

SHAPES = [((1, 2), 4), ((0, 3), 5), ((0, 0), 3), ((5, 2), 3), ((1, 1), 1)]


def a_mixture(rng, d, p, spread=1.0):
    means = spread * rng.normal(size=(len(p), d))
    loadings = [rng.normal(size=(d, q)) for q in p]
    return Mixture(rng.dirichlet(np.full(len(p), 5.0)), means, loadings, rng.uniform(0.3, 2.0, (len(p), d)))


def spheres(means, variances=1.0, weights=None):
    means = np.asarray(means, dtype=float)
    K, d = means.shape
    variances = np.broadcast_to(np.reshape(variances, (-1, 1)), (K, d))
    return Mixture(np.full(K, 1 / K) if weights is None else weights, means, [np.zeros((d, 0))] * K, variances)


def costs_of(model):
    return pair_costs(model._parameters, np.zeros(model.n_features))


# ---- costs of pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "d"), SHAPES)
def test_formulas_are_those_of_dense_covariances(rng, p, d):
    first, second = a_mixture(rng, d, p)._parameters.components()
    dense = [covariance(c) for c in (first, second)]
    difference = first.mean - second.mean
    own = [Covariance(c.uniquenesses, c.loadings) for c in (first, second)]
    mean = (dense[0] + dense[1]) / 2
    determinants = [np.linalg.slogdet(s)[1] for s in (*dense, mean)]
    distance = difference @ np.linalg.solve(mean, difference) / 8 + (determinants[2] - sum(determinants[:2]) / 2) / 2
    assert _Pair(first, second).distance(*own) == pytest.approx(distance, abs=1e-10)
    np.testing.assert_allclose(own[0].solve(difference), np.linalg.solve(dense[0], difference), atol=1e-10)
    assert own[0].log_determinant == pytest.approx(determinants[0], abs=1e-10)
    values = np.linalg.eigvals(np.linalg.solve(dense[0], dense[1])).real
    assert own[0].mean_ratio(own[1]) == pytest.approx(values.mean(), rel=1e-10)
    assert shape_difference(*own) == pytest.approx(0.5 * np.log(values.mean() * (1 / values).mean()), abs=1e-10)


@pytest.mark.parametrize(("p", "d"), SHAPES)
def test_gradients_of_both_densities_are_opposite_on_the_ridgeline(rng, p, d):
    first, second = a_mixture(rng, d, p)._parameters.components()
    points = _Pair(first, second).ridgeline()
    np.testing.assert_array_equal(points[[0, -1]], [first.mean, second.mean])
    for x in points[1:-1]:
        one, other = (np.linalg.solve(covariance(c), x - c.mean) for c in (first, second))
        np.testing.assert_allclose(one / np.linalg.norm(one), -other / np.linalg.norm(other), atol=1e-8)


def test_points_do_not_crowd_at_one_end():
    first, second = spheres([[0.0], [100.0]], [1e-4, 1e4])._parameters.components()
    steps = np.diff(_Pair(first, second).ridgeline()[:, 0])
    assert steps.min() > 0
    assert steps.max() < 100 / 16


@pytest.mark.parametrize("apart", [3.0, 4.0, 6.0])
def test_cost_is_the_fall_of_the_density(apart):
    model = spheres([[0.0, 0.0], [apart, 0.0]])
    fall = model.score_samples([[0.0, 0.0]])[0] - model.score_samples([[apart / 2, 0.0]])[0]
    assert costs_of(model).costs[0, 1] == pytest.approx(fall, abs=1e-12)


def test_round_groups_are_joined_up_to_2_8_standard_deviations():
    assert [spheres([[0.0], [x]]).clusters().n_clusters for x in (1.0, 2.0, 2.7, 2.9, 5.0)] == [1, 1, 1, 2, 2]


def test_core_and_tails_are_joined_but_not_groups_across_each_other():
    core_and_tails = spheres([[0.0, 0.0], [0.1, 0.0]], [1.0, 4.0])
    assert core_and_tails.clusters().n_clusters == 1
    across = Mixture([0.5, 0.5], np.zeros((2, 2)), [np.zeros((2, 0))] * 2, [[9.0, 1.0], [1.0, 9.0]])
    assert across.clusters().n_clusters == 2
    assert costs_of(across).costs[0, 1] == pytest.approx(np.log((9 + 1 / 9) / 2))


def test_groups_without_overlap_are_not_joined_though_the_density_only_falls():
    wide_around_narrow = spheres(np.zeros((2, 30)), [1.0, 9.0])
    distance = 30 * (np.log(5) - np.log(9) / 2) / 2
    pairs = costs_of(wide_around_narrow)
    assert pairs.distances[0, 1] == pytest.approx(distance)
    assert pairs.costs[0, 1] == pytest.approx(distance + np.log(0.05) + JOINED_COST)
    assert wide_around_narrow.clusters().n_clusters == 2


def test_a_wide_component_does_not_join_the_groups_that_it_reaches():
    background = spheres([[-6.0, 0.0], [6.0, 0.0], [0.0, 0.0]], [1.0, 1.0, 16.0], [0.45, 0.45, 0.1])
    assert background.clusters().labels.tolist() in ([0, 1, 0], [0, 1, 1])


def test_components_of_weight_0_and_far_ones_have_finite_costs():
    model = spheres([[0.0], [1e200], [3.0]], 1.0, [0.5, 0.0, 0.5])
    clusters = model.clusters()
    assert np.isfinite([join.cost for join in clusters.joins]).all()
    assert clusters.cut(3).n_clusters == 3


# ---- the tree --------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(rng):
    return a_mixture(rng, 3, (1, 0, 2, 1, 0, 1, 2), spread=3.0)


def test_tree(model):
    clusters = model.clusters()
    K = model.n_components
    costs = [join.cost for join in clusters.joins]
    assert len(costs) == K - 1
    assert costs == sorted(costs)
    assert clusters.n_clusters == len(clusters) <= K - sum(cost <= JOINED_COST for cost in costs)
    assert is_valid_linkage(clusters.linkage())
    assert clusters.joins[-1].weight == pytest.approx(1.0)
    assert clusters.component_weights.tolist() == model.weights.tolist()


def test_cuts_are_nested_and_numbered_by_first_components(model):
    finer = model.clusters(model.n_components)
    assert finer.labels.tolist() == list(range(model.n_components))
    for n in range(model.n_components - 1, 0, -1):
        coarser = model.clusters(n)
        assert coarser.n_clusters == n
        np.testing.assert_array_equal(coarser.labels, finer.cut(n).labels)
        assert len(set(zip(finer.labels.tolist(), coarser.labels.tolist(), strict=True))) == n + 1
        firsts = [coarser.components(c)[0] for c in range(n)]
        assert firsts == sorted(firsts)
        np.testing.assert_allclose(coarser.weights, [model.weights[coarser.labels == c].sum() for c in range(n)])
        finer = coarser


def test_one_component():
    clusters = spheres([[0.0]]).clusters()
    assert (clusters.n_clusters, clusters.joins, clusters.linkage().shape) == (1, (), (0, 4))
    assert str(clusters) == "1 cluster of 1 component\n\ncluster  weight  components\n      0  1.0000           0"


def test_long_lists_of_components_are_cut():
    text = str(spheres(np.zeros((14, 1))).clusters())
    assert "0 1 2 3 4 5 6 7 8 9 10 11 ...\n" in text


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.clusters(0), ValueError, "n_clusters must be from 1 to 7, got 0"),
        (lambda m: m.clusters(2.5), TypeError, "n_clusters must be a whole number, got 2.5"),
        (lambda m: m.clusters().cut(8), ValueError, "n_clusters must be from 1 to 7, got 8"),
        (lambda m: m.clusters(2).components(2), ValueError, "cluster must be from 0 to 1, got 2"),
        (lambda m: m.predict(np.zeros((1, 3)), clusters="all"), ValueError, "their number, or 'auto', got 'all'"),
        (lambda m: m.predict(np.zeros((1, 3)), clusters=8), ValueError, "clusters must be from 1 to 7, got 8"),
        (lambda m: m.predict(np.zeros((1, 3)), clusters=0.5), TypeError, "must be a whole number, got 0.5"),
        (
            lambda m: m.predict(np.zeros((1, 3)), clusters=spheres([[0.0]]).clusters()),
            ValueError,
            "clusters are those of 1 component, but the model has 7",
        ),
    ],
)
def test_errors(model, call, error, message):
    with pytest.raises(error, match=message):
        call(model)


def test_pieces_before_a_clear_gap_are_joined_but_not_two_near_groups():
    pieces = [[3.2 * i, 0.0] for i in range(3)]
    chain = spheres([*pieces, [40.0, 0.0]])
    costs = [join.cost for join in chain.clusters().joins]
    assert JOINED_COST < costs[0] <= costs[1] < 1.5
    assert costs[2] > 3 * costs[1]
    assert chain.clusters().labels.tolist() == [0, 0, 0, 1]
    # Without anything far away there is no gap, and two components are no chain.
    assert spheres(pieces).clusters().n_clusters == 3
    assert spheres([*pieces[:2], [40.0, 0.0]]).clusters().n_clusters == 3
    # Nor is there one where the next join costs little more.
    assert spheres([*pieces, [10.4, 0.0]]).clusters().n_clusters == 4


# ---- what does not matter --------------------------------------------------------------------------------------------


def changed(model, scale=1.0, shift=0.0, columns=None, components=None):
    columns = np.arange(model.n_features) if columns is None else columns
    order = np.arange(model.n_components) if components is None else components
    scale = np.broadcast_to(scale, model.n_features)
    return Mixture(
        model.weights[order],
        (model.means * scale + shift)[order][:, columns],
        [(model.loadings[k] * scale[:, None])[columns] for k in order],
        (model.uniquenesses * scale**2)[order][:, columns],
    )


def test_units_and_order_of_columns_and_components_do_not_matter(rng, model):
    order = rng.permutation(model.n_components)
    expected = model.clusters()
    for other in (
        changed(model, scale=[1e-6, 1.0, 1e9], shift=[3.0, 0.0, -1e5]),
        changed(model, columns=[2, 0, 1]),
        changed(model, components=order),
    ):
        found = other.clusters()
        np.testing.assert_allclose(
            [j.cost for j in found.joins], [j.cost for j in expected.joins], rtol=1e-6, atol=1e-8
        )
    for n in range(1, model.n_components + 1):
        ours, theirs = expected.cut(n).labels[order], found.cut(n).labels
        assert len(set(zip(ours.tolist(), theirs.tolist(), strict=True))) == n


def test_number_of_threads_does_not_matter(rng):
    model = a_mixture(rng, 6, (2,) * 30)
    with use_threads(1):
        one = model.clusters()
    with use_threads(3):
        assert model.clusters().joins == one.joins


def test_saved_model_has_the_same_clusters(rng, tmp_path):
    X = np.concatenate([rng.gamma(2.0, 1.0, (200, 2)), rng.gamma(2.0, 1.0, (200, 2)) + 9])
    model = amofa.fit(X)
    model.save(tmp_path / "model.npz")
    assert amofa.load(tmp_path / "model.npz").clusters().joins == model.clusters().joins


def test_wide_tables(rng):
    model = a_mixture(rng, 20_000, (1, 2))
    assert model.clusters().n_clusters == 2


# ---- fits ------------------------------------------------------------------------------------------------------------


def test_pieces_of_skewed_groups_are_joined(rng):
    X = np.concatenate([rng.gamma(2.0, 1.0, (250, 2)) + 12 * c for c in range(3)])
    model = amofa.fit(X)
    assert model.n_components > 3
    assert model.clusters().n_clusters == 3
    labels = model.predict(X, clusters="auto")
    assert np.mean(labels == np.repeat(labels[[0, 250, 500]], 250)) > 0.98


def test_half_circles_are_put_together(rng):
    angle = rng.uniform(0, np.pi, 600)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[300:] = [1.0, 0.5] - X[300:]
    model = amofa.fit(X + rng.normal(0, 0.08, X.shape))
    assert model.n_components > 4
    labels = model.predict(X, clusters="auto")
    assert model.clusters().n_clusters == 2
    assert np.mean(labels == np.repeat(labels[[0, 300]], 300)) > 0.98


def test_both_halves_of_an_independent_column_of_0_and_1_are_joined(rng):
    X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(8, 1, (200, 2))])
    X = np.column_stack([X, rng.integers(2, size=400)])
    model = amofa.fit(X, n_components=4, init=X[:, 2].astype(int) + 2 * np.repeat([0, 1], 200))
    assert np.ptp(model.means[:, 2]) > 0.9
    assert model.clusters().n_clusters == 2


def test_few_rows_at_the_edge_of_a_group_do_not_make_a_cluster():
    few = spheres([[0.0, 0.0], [4.6, 0.0]], 1.0, [0.97, 0.03])
    pairs = costs_of(few)
    assert pairs.costs[0, 1] > JOINED_COST
    assert few.clusters().n_clusters == 2
    found = [find_clusters(few._parameters, np.zeros(2), n, None).n_clusters for n in (300.0, 10_000.0)]
    assert found == [1, 2]


# ---- rows ------------------------------------------------------------------------------------------------------------


def test_probabilities_of_clusters_are_sums(rng, model):
    X = 4 * rng.normal(size=(300, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    clusters = model.clusters(3)
    own = model.predict_proba(X)
    proba = model.predict_proba(X, clusters=clusters)
    np.testing.assert_allclose(proba, np.stack([own[:, clusters.labels == c].sum(axis=1) for c in range(3)], axis=1))
    np.testing.assert_array_equal(proba, model.predict_proba(X, clusters=3))
    np.testing.assert_array_equal(model.predict(X, clusters=clusters), proba.argmax(axis=1))


def test_density_by_which_two_clusters_are_told_apart_is_that_of_the_mixture(rng, model):
    X = 4 * rng.normal(size=(50, 3))
    log_density = [
        np.log(w) + multivariate_normal(m, covariance(c)).logpdf(X)
        for w, m, c in zip(model.weights, model.means, model._parameters.components(), strict=True)
    ]
    clusters = model.clusters(2)
    sums = np.stack([np.exp(log_density)[clusters.labels == c].sum(axis=0) for c in range(2)], axis=1)
    np.testing.assert_array_equal(model.predict(X, clusters=2), sums.argmax(axis=1))
