"""Reports of components and clusters, their texts, and what a notebook shows."""

import importlib.util
import re

import numpy as np
import pytest

import amofa
from amofa import MixtureOfFactorAnalyzers as Mixture
from amofa._data.frame_output import load_library
from amofa._model.text import html_table, number_text, with_deviation


@pytest.fixture
def people(rng):
    """Rows of adults and children, weight and height in their units, with names, and a fit."""
    X = np.concatenate([rng.normal([170, 65, 5], [7, 9, 1], (200, 3)), rng.normal([110, 20, 5], [5, 3, 1], (100, 3))])
    model = amofa.fit(X)
    return X, Mixture(model.weights, model.means, model.loadings, model.uniquenesses, ["height", "weight", "luck"])


def test_moments_are_those_of_the_rows(people):
    X, model = people
    report, labels = model.report(X), model.predict(X)
    for k in range(2):
        own, rest = X[labels == k], X[labels != k]
        assert report.rows[k] == len(own)
        np.testing.assert_allclose(report.means[k], own.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(report.deviations[k], own.std(axis=0), rtol=1e-9)
        pooled = np.sqrt((own.var(axis=0) + rest.var(axis=0)) / 2)
        np.testing.assert_allclose(report.differences[k], (own.mean(axis=0) - rest.mean(axis=0)) / pooled, rtol=1e-9)
    assert [name for name, _ in report.apart(0, 2)] == ["height", "weight"]
    assert report.apart(0)[0][1] > 6
    assert len(report) == 2


def test_the_rest_is_all_other_rows(make_model, rng):
    model = make_model(4, 3, (1, 0, 2, 1))
    X = model.sample(500, 0)[0]
    report, labels = model.report(X), model.predict(X)
    for k in range(4):
        own, rest = X[labels == k], X[labels != k]
        pooled = np.sqrt((own.var(axis=0) + rest.var(axis=0)) / 2)
        np.testing.assert_allclose(report.differences[k], (own.mean(axis=0) - rest.mean(axis=0)) / pooled, rtol=1e-9)


def test_weights_and_missing_cells(people):
    X, model = people
    weights = np.repeat([1.0, 2.0, 0.0], 100)
    twice = np.concatenate([X[:100], X[100:200], X[100:200]])
    by_weight, by_rows = model.report(X, sample_weight=weights), model.report(twice)
    np.testing.assert_allclose(by_weight.rows, [300, 0])
    np.testing.assert_allclose(by_weight.means[0], by_rows.means[0], rtol=1e-12)
    np.testing.assert_allclose(by_weight.deviations[0], by_rows.deviations[0], rtol=1e-9)
    assert np.isnan(by_weight.means[1]).all()
    assert by_weight.apart(1) == []
    assert "nan" in repr(by_weight)
    X = X.copy()
    X[::3, 1] = np.nan
    report, labels = model.report(X), model.predict(X)
    np.testing.assert_allclose(report.means[1, 1], np.nanmean(X[labels == 1, 1]), rtol=1e-12)


def test_without_rows_moments_are_those_of_the_mixture(make_model):
    model = make_model(4, 3, (1, 0, 2, 1))
    report = model.report()
    assert report.rows is None
    np.testing.assert_allclose(report.means, model.means)
    for k in range(4):
        np.testing.assert_allclose(report.deviations[k] ** 2, np.diag(model.covariance(k)), rtol=1e-12)
        factors = report.factors[k]
        assert [(f.component, f.factor) for f in factors] == [(k, q) for q in range(model.n_factors[k])]
        for factor in factors:
            expected = model.loadings[k][:, factor.factor] / np.sqrt(np.diag(model.covariance(k)))
            np.testing.assert_allclose(factor.correlations, expected, rtol=1e-12)
            assert factor.share == pytest.approx((expected**2).mean())


def test_clusters(make_model):
    model = make_model(4, 3, (1, 0, 2, 1))
    clusters = model.clusters(2)
    X = model.sample(300, 0)[0]
    report, labels = model.report(X, clusters=clusters), model.predict(X, clusters=clusters)
    assert report.kind == "cluster"
    assert [members.tolist() for members in report.members] == [clusters.components(c).tolist() for c in range(2)]
    np.testing.assert_allclose(report.weights, clusters.weights)
    np.testing.assert_array_equal(report.rows, np.bincount(labels, minlength=2))
    assert report.to_dict()["components"].tolist() == [" ".join(map(str, m)) for m in report.members]
    assert sum(len(factors) for factors in report.factors) == 4
    # Of the mixture, by the law of total variance.
    own = model.report(clusters=clusters)
    members, c = report.members[0], 0
    shares = model.weights[members] / model.weights[members].sum()
    mean = shares @ model.means[members]
    variance = shares @ np.stack([np.diag(model.covariance(k)) + (model.means[k] - mean) ** 2 for k in members])
    np.testing.assert_allclose(own.means[c], mean, rtol=1e-12)
    np.testing.assert_allclose(own.deviations[c], np.sqrt(variance), rtol=1e-12)
    assert "2 clusters of 300 rows in 3 columns" in repr(report)


def test_one_component_and_columns_without_variance():
    one = Mixture([1.0], [[2.0]], [np.zeros((1, 0))], [[9.0]])
    assert one.report().apart(0) == []
    two = Mixture([0.5, 0.5], [[0.0, 1.0], [9.0, 1.0]], [np.zeros((2, 0))] * 2, np.ones((2, 2)))
    report = two.report([[0.0, 1.0], [9.0, 1.0]])
    assert report.differences.tolist() == [[-np.inf, 0.0], [np.inf, 0.0]]
    assert report.apart(0) == [("x0", -np.inf)]
    assert "x0 0 (-inf)" in repr(report)


def test_text_of_many_columns_components_and_factors(make_model):
    model = make_model(14, 40, [3] * 14)
    text = repr(model.report())
    assert "of the 30 of 40 columns that differ most, of each component" in text
    assert text.count("the same, of others") == 2
    assert "and 12 more factors" in text
    summary = model.summary()
    assert "of the 12 of 40 columns that differ most, of the first 12 of 14 components" in summary
    single = Mixture([1.0], np.zeros((1, 40)), [np.zeros((40, 0))], np.ones((1, 40)))
    assert "of the first 12 of 40 columns, of each component" in single.summary()
    assert summary.count("the same, of others") == 1


def test_frames(people):
    pandas = pytest.importorskip("pandas")
    X, model = people
    report = model.report(X)
    frame = report.to_frame()
    assert list(frame) == list(report.to_dict())
    assert isinstance(frame, pandas.DataFrame)
    np.testing.assert_allclose(frame["mean height"], report.means[:, 0])
    assert frame["apart"][0].startswith("height ")
    polars = pytest.importorskip("polars")
    assert isinstance(report.to_frame("polars"), polars.DataFrame)
    with pytest.raises(ValueError, match="library"):
        report.to_frame("arrow")


def test_without_a_library_of_frames(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install pandas"):
        load_library(None)
    monkeypatch.setattr("importlib.import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    with pytest.raises(ImportError, match="pip install polars"):
        load_library("polars")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_weight": [1.0]}, "sample_weight is for rows; pass X as well"),
        ({"X": [[1.0, 2.0]]}, "X has 2 columns, but the model was made for 3"),
        ({"clusters": 5}, "clusters must be from 1 to 2"),
    ],
)
def test_refused(make_model, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_model(2, 3, (1, 0)).report(**arguments)


# ---- texts and HTML --------------------------------------------------------------------------------------------------


def test_a_summary_tells_who_is_who_and_shows_its_lines(people):
    summary = people[1].summary()
    assert re.search(r"^height +1\d\d\.\d ± \d\.\d +1\d\d\.\d ± \d\.\d$", summary, re.MULTILINE)
    # The last line of a cell in a notebook, or of a console, is shown by its repr.
    assert repr(summary) == str(summary)
    assert isinstance(summary, str)


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (-0.01, 1.0, "0.0 ± 1.0"),
        (123456.7, 0.5, "123456.70 ± 0.50"),
        (1e-9, 2e-10, "1e-09 ± 2e-10"),
        (3e12, 2e9, "3e+12 ± 2e+09"),
        (np.nan, np.nan, "nan ± nan"),
        (1234.4, 0.0, "1234 ± 0"),
    ],
)
def test_means_with_deviations(mean, deviation, text):
    assert with_deviation(mean, deviation) == text
    assert number_text(12.3456) == "12.35"


def test_html(people, rng):
    X, model = people
    fitted = amofa.fit(X)
    shown = fitted._repr_html_()
    assert shown.count("<tr>") > 6
    assert "<details><summary>search: " in shown
    assert "height" in model._repr_html_()
    assert "height" in model.report(X)._repr_html_()
    assert "cost of the next join" in model.clusters()._repr_html_()
    scan = amofa.scan(rng.normal(size=(60, 2)), [1, 2], noise="component")
    assert re.search(r"<tr><th>1</th>.*<th>\* ", scan._repr_html_())
    for text in (shown, model.report(X)._repr_html_(), scan._repr_html_()):
        for tag in ("div", "table", "tr", "td", "th"):
            assert len(re.findall(rf"<{tag}>", text)) == text.count(f"</{tag}>")


def test_html_shows_names_as_they_are():
    assert "<td>&lt;b&gt;&amp;</td>" in html_table([["column"], ["<b>&"]])
    model = Mixture([1.0], [[0.0]], [np.zeros((1, 0))], [[1.0]], ["<script>"])
    assert "<script>" not in model._repr_html_() + model.report()._repr_html_()


def test_deviations_of_t_components_are_those_of_their_tails():
    arrays = [0.5, 0.5], [[0.0], [5.0]], [np.zeros((1, 0))] * 2, np.ones((2, 1))
    report = Mixture(*arrays, degrees_of_freedom=[4.0, 2.0]).report()
    np.testing.assert_allclose(report.deviations, [[np.sqrt(2)], [np.inf]])
    assert "0.0 ± 1.4  5 ± inf" in repr(report)
