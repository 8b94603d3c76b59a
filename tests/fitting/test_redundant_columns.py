"""Columns that follow from others change no decision."""

import numpy as np
import pytest
from fits import warned

import amofa
from amofa.metrics import normalized_information_distance


@pytest.fixture
def X(rng):  # noqa: N802
    """Three groups, with a factor each."""
    y = np.repeat([0, 1, 2], [150, 100, 80])
    centres = rng.normal(0, 4, (3, 4))
    return centres[y] + rng.normal(size=(330, 1)) * rng.normal(size=(3, 4))[y] + rng.normal(0, 0.5, (330, 4))


TABLES = {
    "sum": lambda X: np.column_stack([X, X[:, 0] + X[:, 1]]),
    "sum of all, first": lambda X: np.column_stack([X.sum(axis=1), X]),
    "twice": lambda X: np.column_stack([X, X]),
    "single precision": lambda X: np.column_stack([X, X[:, 1] + X[:, 2]]).astype(np.float32),
}


@pytest.mark.parametrize("noise", ["auto", "component", "isotropic"])
@pytest.mark.parametrize("name", TABLES)
def test_the_model_is_that_without_them(X, noise, name):
    Z = TABLES[name](X)
    found, (message,) = warned(amofa.fit, Z, noise=noise)
    plain = amofa.fit(X, noise=noise)
    assert "follow from others" in message
    assert [step.n_factors for step in found.history] == [step.n_factors for step in plain.history]
    assert found.cost == pytest.approx(plain.cost, rel=1e-6)
    np.testing.assert_array_equal(found.predict(Z), plain.predict(X))
    np.testing.assert_allclose(found.predict_proba(Z), plain.predict_proba(X), atol=1e-4)
    assert found.log_likelihood == pytest.approx(found.score_samples(Z).sum())
    assert (found.n_factors >= plain.n_factors).all()


def test_criteria_and_scans_do_not_see_them(X):
    """The coefficients of a relation are parameters, once, whatever the number of components."""
    Z = TABLES["sum"](X)
    plain = amofa.scan(X, n_components=[1, 2, 3], noise="component")
    found, (message,) = warned(amofa.scan, Z, n_components=[1, 2, 3], noise="component")
    assert message.startswith("1 of 5 columns of X follow from others")
    for with_sum, without in zip(found, plain, strict=True):
        assert with_sum.cost == pytest.approx(without.cost, abs=1e-2)
        assert with_sum.model.n_parameters == without.model.n_parameters + 3
    bic = [row.bic - other.bic for row, other in zip(found, plain, strict=True)]
    np.testing.assert_allclose(bic, bic[0], atol=0.1)


def test_what_is_named(X):
    _, (message,) = warned(amofa.fit, np.column_stack([X, *(X[:, :1] * k for k in range(2, 14))]), n_components=1)
    names = "; ".join(f"{j} from 0" for j in range(4, 14))
    start = "12 of 16 columns of X follow from others by sums and multiples, and change no decision"
    assert message == f"{start}: {names}; ... (from 0)"


@pytest.mark.parametrize(
    "options", [{"max_factors": 2}, {"n_factors": 1}, {"noise_floor": 1e-3}, {"search": "paper", "n_components": 1}]
)
def test_bounds_keep_them_in(X, options):
    Z = TABLES["sum"](X)
    model = amofa.fit(Z, **{"n_components": 2} | options)
    assert (model.uniquenesses >= 0.5e-4 * Z.var(axis=0)).all()


@pytest.mark.filterwarnings("ignore:1 of 5 columns of X follow")
def test_starts_callbacks_and_checkpoints_have_all_columns(X, tmp_path):
    Z = TABLES["sum"](X)
    models = []
    model = amofa.fit(Z, callback=lambda step: models.append(step.model), checkpoint=tmp_path / "fit.npz")
    assert {m.n_features for m in models} == {5}
    again = amofa.fit(Z, checkpoint=tmp_path / "fit.npz")
    np.testing.assert_array_equal(again._parameters.buffer, model._parameters.buffer)
    np.testing.assert_array_equal(amofa.load(tmp_path / "fit.npz").predict(Z), model.predict(Z))
    from_model = amofa.fit(Z, init=model)
    assert from_model.cost <= model.cost + 1e-2
    assert normalized_information_distance(from_model.predict(Z), model.predict(Z)) == pytest.approx(0, abs=1e-9)
    from_labels = amofa.fit(Z, init=model.predict(Z))
    assert from_labels.cost == pytest.approx(model.cost, abs=1e-2)
