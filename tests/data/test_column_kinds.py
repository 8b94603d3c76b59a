"""Kinds of columns that no mixture of a few normal distributions has."""

import numpy as np
import pytest
from scipy import stats
from sklearn import datasets

from amofa._data.column_kinds import Kind, kind_of


def kind(column):
    values, counts = np.unique(column, return_counts=True)
    return kind_of(values, counts.astype(float))


ODD = {
    Kind.TWO_VALUES: [lambda rng, n: rng.integers(0, 2, n) * 3.0 - 1],
    Kind.FEW_VALUES: [
        lambda rng, n: rng.integers(0, 4, n) / 7,
        lambda rng, n: np.clip(rng.normal(4, 1, n).round(), 1, 5),  # answers on a scale
        lambda rng, n: np.array([17.5, 22, 27, 32, 37, 42])[rng.choice(6, n, p=[0.02, 0.3, 0.3, 0.18, 0.1, 0.1])],
        lambda rng, n: np.minimum(rng.poisson(1, n), 5),
    ],
    Kind.INDEX: [lambda rng, n: np.arange(n) * 0.1 + 1e3, lambda rng, n: rng.permutation(n) + 1.0],
    Kind.SPIKE: [
        lambda rng, n: np.where(rng.random(n) < 0.3, 0, rng.normal(5, 1, n)),
        lambda rng, n: np.maximum(rng.normal(size=n), -1),
        lambda rng, n: np.clip(rng.normal(size=n), -1, 1),
    ],
    Kind.UNEVEN: [
        lambda rng, n: np.log1p(rng.poisson(3, n)),
        lambda rng, n: np.sqrt(rng.negative_binomial(6, 0.3, n)),
        lambda rng, n: np.log(rng.poisson(8, n) + 0.5),
    ],
    Kind.SKEWED: [
        lambda rng, n: rng.lognormal(size=n),
        lambda rng, n: -rng.lognormal(0, 1.5, n),
        lambda rng, n: rng.pareto(1, n),
        lambda rng, n: rng.gamma(2, size=n),
        lambda rng, n: rng.lognormal(0, 0.5, n),
        lambda rng, n: np.round(rng.lognormal(3, 1, n)),
    ],
}


@pytest.mark.parametrize(("expected", "draw"), [(kind, draw) for kind, draws in ODD.items() for draw in draws])
def test_odd_columns_are_found_in_any_unit_and_order(rng, expected, draw):
    column = draw(rng, 2000)
    assert kind(column) is expected
    for same in (7 - 3.5 * column, 1e-3 * column, column[::-1], column.astype(np.float32), np.repeat(column, 3)):
        assert kind(same) is expected


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: rng.normal(size=n).round(1),
        lambda rng, n: rng.uniform(size=n),
        lambda rng, n: rng.standard_t(3, n),
        lambda rng, n: rng.gamma(8, size=n),
        lambda rng, n: rng.poisson(3, n),
        lambda rng, n: np.log1p(rng.negative_binomial(6, 0.02, n)),
        lambda rng, n: np.exp(rng.normal(0, 0.1, n)).round(2),
        lambda rng, n: rng.binomial(6, 0.5, n),
        lambda rng, n: rng.normal(0.3, 1, n).round(),
        lambda rng, n: np.where(rng.random(n) < 0.1, 100, 0) + rng.normal(size=n),
        lambda rng, n: np.concatenate([rng.normal(size=n), np.repeat(1e6, n // 50)]),
    ],
)
@pytest.mark.parametrize("n", [30, 100, 3000])
def test_ordinary_columns(rng, draw, n):
    assert kind(draw(rng, n)) is None


def test_columns_of_gaussian_mixtures_are_ordinary():
    found = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, K = int(np.exp(rng.uniform(3, 8))), rng.integers(1, 7)
        labels = rng.choice(K, n, p=rng.dirichlet(np.ones(K)))
        column = (
            rng.normal(0, 10, K)[labels] + rng.normal(size=n) * np.exp(rng.normal(0, rng.choice([0, 1]), K))[labels]
        )
        found += kind(column) is not None
    assert found <= 2


@pytest.mark.parametrize("name", ["iris", "linnerud"])
def test_ordinary_tables(name):
    X = getattr(datasets, f"load_{name}")().data
    assert [kind(column) for column in X.T] == [None] * X.shape[1]


def test_skewed_columns_of_a_table():
    X = datasets.load_breast_cancer().data
    found = np.array([kind(column) is Kind.SKEWED for column in X.T])
    skewness = stats.skew(X)
    assert found[skewness > 2].all()
    assert not found[skewness < 1].any()


@pytest.mark.parametrize(("n", "least"), [(100, 17), (400, 20)])
@pytest.mark.parametrize("draw", [lambda rng, n: rng.lognormal(size=n), lambda rng, n: rng.pareto(2, n) + 1])
def test_few_rows_show_strong_skewness(draw, n, least):
    assert sum(kind(draw(np.random.default_rng(seed), n)) is Kind.SKEWED for seed in range(20)) >= least


def test_counts_with_many_zeros_are_skewed(rng):
    assert kind(rng.negative_binomial(0.7, 0.25, 1000)) is Kind.SKEWED


def test_equal_answers_on_a_scale(rng):
    assert all(kind(rng.integers(1, 8, 300)) is Kind.FEW_VALUES for _ in range(10))


def test_few_rows_are_not_judged():
    assert kind(np.arange(39.0)) is None
    assert kind(np.repeat([0.0, 1, 2], 13)) is None
    assert kind(np.zeros(100)) is None
