"""Proposals of a changed mixture, against literal forms of what the paper says."""

from itertools import product

import datasets
import numpy as np
import pytest
import reference
from reference import random_mixture, random_rows, relative_error

from amofa._data.row_chunks import Samples
from amofa._em.standard import Settings, standard_em
from amofa._parameters import Component, Parameters
from amofa._search.paper_moves import (
    add_factor,
    covariance_misfit,
    first_mixture,
    merge_coincident,
    principal_axes,
    shapes,
    split_component,
    variances,
)
from amofa.criterion import CRITERIA


def settings(d, *, max_iter=100, annihilates=False, criterion="mml"):
    return Settings(
        criterion=CRITERIA[criterion], floor=np.full(d, 1e-4), tol=1e-5, max_iter=max_iter, annihilates=annihilates
    )


def single(mean, factors=0):
    """A mixture of one component."""
    d = len(mean)
    return Parameters.from_components([Component(1.0, np.asarray(mean), np.full((factors, d), 0.1), np.ones(d))])


def covariance_of(x, w=None):
    return np.atleast_2d(np.cov(x.T, aweights=w, ddof=0))


# ---- principal axes --------------------------------------------------------------------------------------------------


def test_principal_axes_are_sorted_and_orthonormal(rng):
    a = rng.standard_normal((5, 5))
    values, vectors = principal_axes(a @ a.T)
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(5), atol=1e-14)
    np.testing.assert_allclose((vectors.T * values) @ vectors, a @ a.T, atol=1e-13)


def test_principal_axes_of_a_flat_covariance_have_no_negative_variance(rng):
    a = rng.standard_normal((6, 2))
    values, _ = principal_axes(a @ a.T)
    assert (values >= 0).all()
    assert values[2:] == pytest.approx(0, abs=1e-14)


# ---- the first mixture -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "p"), [(1, 0), (1, 1), (3, 1), (5, 2), (4, 4)])
def test_the_first_mixture_is_the_principal_axes(rng, d, p, weighted):
    x = 7 + rng.standard_normal((100, 1)) + rng.standard_normal((100, d)) * rng.uniform(0.5, 2, d)
    w = rng.uniform(0, 2, 100) if weighted else None
    first = first_mixture(Samples(x, weights=w), p, np.full(d, 1e-4))
    assert first.n_factors == (p,)
    np.testing.assert_allclose(first.means[0], np.average(x, axis=0, weights=w), rtol=1e-12)
    values, vectors = np.linalg.eigh(covariance_of(x, w))
    expected = sum((values[j] * np.outer(vectors[:, j], vectors[:, j]) for j in range(d - p, d)), np.zeros((d, d)))
    assert relative_error(first.loadings.T @ first.loadings, expected, values[-1]) < 1e-12
    np.testing.assert_allclose(first.loadings @ first.loadings.T, np.diag(values[::-1][:p]), atol=1e-12 * values[-1])
    # Not less what the axes explain: EM takes that from them.
    np.testing.assert_allclose(first.uniquenesses[0], np.diag(covariance_of(x, w)), rtol=1e-11)


def test_the_first_mixture_respects_the_floor(rng):
    x = rng.standard_normal((50, 3)) * [1.0, 1e-3, 1.0]
    first = first_mixture(Samples(x), 1, np.array([1e-4, 0.5, 1e-4]))
    assert first.uniquenesses[0, 1] == 0.5
    assert first.uniquenesses[0, 0] == pytest.approx(x[:, 0].var())


# ---- split -----------------------------------------------------------------------------------------------------------


def one_iteration_split(local, parameters, k, covariance):
    """A split whose local fits are their starts."""
    return split_component(local, parameters, k, covariance, settings(len(covariance), max_iter=1))


def bent_rows(rng, d, n=200):
    """Rows of no symmetry."""
    x = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    return x + 0.3 * x[:, :1] ** 2 + rng.exponential(size=(n, d))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_children_start_one_deviation_along_every_axis(rng, d):
    """At mu + s and mu - s, with s = sum_j +-sqrt(lambda_j) v_j, and with the parent's factors and uniquenesses."""
    x = bent_rows(rng, d)
    parent = first_mixture(Samples(x), min(d, 2), np.full(d, 1e-4))
    covariance = covariance_of(x)
    first, second = one_iteration_split(Samples(x), parent, 0, covariance).parameters.components()
    np.testing.assert_allclose((first.mean + second.mean) / 2, parent.means[0], rtol=1e-10)
    values, vectors = np.linalg.eigh(covariance)
    step = vectors.T @ (first.mean - second.mean) / 2
    np.testing.assert_allclose(np.abs(step), np.sqrt(values), rtol=1e-8)
    for child in (first, second):
        assert child.weight == 0.5
        np.testing.assert_array_equal(child.loadings, parent.loadings)
        np.testing.assert_array_equal(child.uniquenesses, parent.uniquenesses[0])


def signed_starts(parent, covariance, n_axes):
    """All relative signs of the leading axes."""
    values, vectors = np.linalg.eigh(covariance)
    axes = (np.sqrt(values) * vectors).T[::-1][:n_axes]
    for signs in product((1, -1), repeat=n_axes - 1):
        step = np.array([1, *signs]) @ axes
        yield Parameters.from_components(
            [parent._replace(weight=0.5, mean=parent.mean + sign * step) for sign in (1, -1)]
        )


@pytest.mark.parametrize("max_iter", [1, 5, 100])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_cheapest_of_all_signs_is_kept(rng, d, max_iter):
    for _ in range(5):
        x = bent_rows(rng, d)
        parent, how = first_mixture(Samples(x), 1, np.full(d, 1e-4)), settings(d, max_iter=max_iter)
        got = split_component(Samples(x), parent, 0, covariance_of(x), how)
        # Local fits end after 30 iterations.
        short = settings(d, max_iter=min(max_iter, 30))
        starts = list(signed_starts(parent.component(0), covariance_of(x), d))
        fits = [standard_em(Samples(x), start, short) for start in starts]
        best = min(fits, key=lambda fit: fit.cost)
        assert got.n_iter == sum(fit.n_iter for fit in fits)
        # The signs of the axes as a whole decide which child is the first.
        assert got.cost == pytest.approx(best.cost, rel=1e-12)
        np.testing.assert_allclose(np.sort(got.parameters.means[:, 0]), np.sort(best.parameters.means[:, 0]), rtol=1e-8)


def test_further_axes_point_to_the_heavier_tail(rng):
    """Along the fourth axis and beyond, the child on the side of the long tail is the same one."""
    x = rng.standard_normal((500, 5)) * [10.0, 8.0, 6.0, 1.0, 0.5]
    x[:, 3:] = rng.exponential(size=(500, 2)) * [1.0, -0.5]
    covariance = np.diag(x.var(axis=0))  # the axes are the columns
    children = one_iteration_split(Samples(x), single(x.mean(axis=0)), 0, covariance).parameters
    step = children.means[0] - children.means[1]
    assert step[3] * step[4] < 0


@pytest.mark.parametrize("d", [2, 3, 4, 5, 7])
def test_starts_do_not_depend_on_the_signs_of_eigenvectors(rng, d):
    """Mirroring columns changes the signs that LAPACK gives, and nothing else."""
    for _ in range(10):
        x, mirror = bent_rows(rng, d), rng.choice([-1.0, 1.0], d)
        parent = first_mixture(Samples(x), 1, np.full(d, 1e-4))
        mirrored = parent.copy()
        mirrored.means[:] *= mirror
        mirrored.loadings[:] *= mirror
        a = one_iteration_split(Samples(x), parent, 0, covariance_of(x))
        b = one_iteration_split(Samples(x * mirror), mirrored, 0, covariance_of(x * mirror))
        assert b.cost == pytest.approx(a.cost, rel=1e-12)
        step_a = a.parameters.means[0] - a.parameters.means[1]
        step_b = (b.parameters.means[0] - b.parameters.means[1]) * mirror
        np.testing.assert_allclose(np.outer(step_b, step_b), np.outer(step_a, step_a), atol=1e-8 * step_a @ step_a)


def test_a_split_finds_two_groups(rng):
    x, labels = datasets.factor_analysers(rng, 4, [0, 0], [150, 100], distance=5)
    parent = first_mixture(Samples(x), 1, np.full(4, 1e-4))
    children = split_component(Samples(x), parent, 0, covariance_of(x), settings(4, annihilates=True)).parameters
    found = reference.responsibilities(x, children.components()).argmax(axis=1)
    assert max(np.mean(found == labels), np.mean(found != labels)) > 0.98


def test_children_take_the_parents_place_and_weight(rng):
    parameters = random_mixture(rng, 4, 3, [0, 2, 1, 3])
    x = random_rows(rng, parameters, 400)
    before = parameters.buffer.copy()
    rows = reference.responsibilities(x, parameters.components()).argmax(axis=1) == 1
    got = split_component(Samples(x[rows]), parameters, 1, covariance_of(x[rows]), settings(3)).parameters
    assert got.n_factors == (0, 2, 1, 3, 2)
    assert got.weights[1] + got.weights[4] == pytest.approx(parameters.weights[1], rel=1e-12)
    for k in (0, 2, 3):
        for a, b in zip(got.component(k), parameters.component(k), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)
    # The children's shares are those of the local fit, one in place of the parent, one at the end.
    near = reference.responsibilities(x[rows], [got.component(1), got.component(4)])
    np.testing.assert_allclose(near.mean(axis=0), got.weights[[1, 4]] / parameters.weights[1], atol=0.1)
    np.testing.assert_array_equal(parameters.buffer, before)


def test_no_split_where_two_do_not_hold(rng):
    """Seven rows cannot support two components of three columns, which have nine parameters each."""
    x = rng.standard_normal((7, 3))
    parent = first_mixture(Samples(x), 1, np.full(3, 1e-4))
    assert split_component(Samples(x), parent, 0, covariance_of(x), settings(3, annihilates=True)) is None
    assert split_component(Samples(x), parent, 0, covariance_of(x), settings(3)) is not None


# ---- factor ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_misfit_is_the_sum_of_squared_off_diagonal_differences(rng, weighted):
    parameters = random_mixture(rng, 4, 5, [0, 1, 3, 7])
    x = random_rows(rng, random_mixture(rng, 3, 5, 2), 300)
    w = rng.uniform(0, 2, 300) if weighted else None
    got = covariance_misfit(parameters, Samples(x, weights=w).moments(parameters))
    h = reference.weighted_responsibilities(x, w, parameters.components())
    expected = np.zeros(4)
    for k, c in enumerate(parameters.components()):
        sample, model = covariance_of(x, h[:, k]), reference.covariance(c)
        expected[k] = sum((model[i, j] - sample[i, j]) ** 2 for i in range(5) for j in range(5) if i != j)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_one_column_has_no_misfit(rng):
    parameters = random_mixture(rng, 2, 1, [0, 1])
    moments = Samples(rng.standard_normal((50, 1))).moments(parameters)
    np.testing.assert_array_equal(covariance_misfit(parameters, moments), 0)


def residual_axis(x, h, c):
    """The leading eigenvector of the weighted covariance of x - mu - Lambda E[z], times the root of its eigenvalue."""
    residuals = x - c.mean - reference.factor_scores(x, c) @ c.loadings
    values, vectors = np.linalg.eigh(covariance_of(residuals, h))
    return np.sqrt(values[-1]) * vectors[:, -1]


@pytest.mark.parametrize("floor", [1e-9, 0.4])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_new_factor_is_the_leading_axis_of_the_residuals(rng, k, floor):
    parameters = random_mixture(rng, 3, 6, [0, 2, 5])
    before = parameters.buffer.copy()
    x = random_rows(rng, random_mixture(rng, 3, 6, 2), 500)
    moments = Samples(x).moments(parameters)
    got = add_factor(parameters, k, moments.covariances[k], np.full(6, floor))
    assert got.n_factors == tuple(p + (j == k) for j, p in enumerate((0, 2, 5)))
    old, new = parameters.component(k), got.component(k)
    column = residual_axis(x, reference.responsibilities(x, parameters.components())[:, k], old)
    np.testing.assert_array_equal(new.loadings[:-1], old.loadings)
    np.testing.assert_allclose(np.outer(new.loadings[-1], new.loadings[-1]), np.outer(column, column), atol=1e-10)
    np.testing.assert_allclose(new.uniquenesses, np.maximum(old.uniquenesses - column**2, floor), atol=1e-10)
    np.testing.assert_array_equal(new.mean, old.mean)
    np.testing.assert_array_equal(parameters.buffer, before)
    np.testing.assert_allclose(got.weights, parameters.weights, rtol=1e-14)
    for j in {0, 1, 2} - {k}:
        for a, b in zip(got.component(j)[1:], parameters.component(j)[1:], strict=True):
            np.testing.assert_array_equal(a, b)


# ---- wide tables -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def wide(request, rng):
    """A mixture of a table with fewer rows than columns, and its second moments both ways."""
    parameters = random_mixture(rng, 2, 20, [0, 2], spread=0.5)
    samples = Samples(random_rows(rng, parameters, 15), weights=rng.uniform(0.5, 2, 15) if request.param else None)
    return parameters, samples, shapes(samples, parameters), samples.moments(parameters)


def test_moves_of_a_wide_table_are_those_of_its_covariances(wide):
    parameters, samples, narrow, dense = wide
    np.testing.assert_allclose(covariance_misfit(parameters, narrow), covariance_misfit(parameters, dense), rtol=1e-10)
    floor = np.full(20, 1e-3)
    for k in range(2):
        a, b = (add_factor(parameters, k, moments.covariances[k], floor) for moments in (narrow, dense))
        np.testing.assert_allclose(a.uniquenesses, b.uniquenesses, rtol=1e-10)
        for x, y in zip(a.loadings, b.loadings, strict=True):
            np.testing.assert_allclose(np.outer(x, x), np.outer(y, y), atol=1e-10)
    split_both = [split_component(samples, parameters, 0, m.covariances[0], settings(20)) for m in (narrow, dense)]
    assert split_both[0].cost == pytest.approx(split_both[1].cost, rel=1e-8)


def test_a_component_without_rows_has_no_axis(rng):
    parameters = random_mixture(rng, 2, 12, [1, 0])
    parameters.means[1] += 1e6
    moments = shapes(Samples(random_rows(rng, random_mixture(rng, 1, 12, 1), 8)), parameters)
    assert len(moments.covariances[1].rows) == 0
    np.testing.assert_array_equal(variances(moments.covariances[1]), 0)
    got = add_factor(parameters, 1, moments.covariances[1], np.full(12, 1e-3))
    np.testing.assert_array_equal(got.component_loadings(1), 0)


def test_components_of_many_columns_coincide_or_not(rng):
    one = random_mixture(rng, 1, 700, 2).component(0)
    twins = Parameters.from_components([one._replace(weight=0.5), one._replace(weight=0.5)])
    assert merge_coincident(twins).n_components == 1
    twins.uniquenesses[1, 650] *= 1.01
    assert merge_coincident(twins) is twins
    twins.uniquenesses[1] = twins.uniquenesses[0]
    twins.component_loadings(1)[1, 300] += 0.1
    assert merge_coincident(twins) is twins


def test_components_that_em_has_not_quite_brought_together_coincide(rng):
    one = random_mixture(rng, 1, 3, 1).component(0)
    noise = np.sqrt(one.uniquenesses)
    for apart, n in ((0.04, 1), (0.06, 2)):
        near = one._replace(weight=0.3, mean=one.mean + apart * noise)
        twins = Parameters.from_components([one._replace(weight=0.7), near])
        assert merge_coincident(twins).n_components == n
