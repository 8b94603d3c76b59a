"""Using the fitted model: rows 79 to 90 of docs/hard_inputs.md."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fits import blobs, check_equal, fitted, fitted_with, peak_memory, same_groups
from reference import log_density, random_mixture, random_rows

import amofa

ROOT = Path(__file__).parents[2]


@pytest.fixture
def model(rng):
    """Two components in four columns, one with a factor."""
    X, _ = blobs(rng, [200, 100], [(0, 0, 0, 0), (5, 5, 5, 5)])
    X[:200] += rng.standard_normal((200, 1)) * [1, 2, -1, 1]
    return fitted(X)


# ---- 79, 80 ----------------------------------------------------------------------------------------------------------


def test_79_some_columns_given_others(rng, model):
    known, wanted, values = [1, 3], [0, 2], np.array([0.5, 2.0])
    given = model.condition(known, values)
    weights, means = [], []
    for k, weight in enumerate(model.weights):
        S, mu = model.covariance(k), model.means[k]
        slope = S[np.ix_(wanted, known)] @ np.linalg.inv(S[np.ix_(known, known)])
        means.append(mu[wanted] + slope @ (values - mu[known]))
        covariance = S[np.ix_(wanted, wanted)] - slope @ S[np.ix_(known, wanted)]
        np.testing.assert_allclose(given.covariance(k), covariance, rtol=1e-9)
        distance = (values - mu[known]) @ np.linalg.solve(S[np.ix_(known, known)], values - mu[known])
        weights.append(weight * np.exp(-distance / 2) / np.sqrt(np.linalg.det(S[np.ix_(known, known)])))
    np.testing.assert_allclose(given.means, means, rtol=1e-9)
    np.testing.assert_allclose(given.weights, np.array(weights) / sum(weights), rtol=1e-9)
    row = np.array([[np.nan, 0.5, np.nan, 2.0]])
    np.testing.assert_allclose(model.impute(row)[0, wanted], given.weights @ given.means, rtol=1e-9)


def test_79_it_costs_the_cube_of_the_factors_not_of_the_columns(rng):
    d = 4000
    wide = amofa.MixtureOfFactorAnalyzers(
        [1.0], rng.standard_normal((1, d)), [rng.standard_normal((d, 3))], rng.uniform(0.5, 1, (1, d))
    )
    with peak_memory() as peak:
        given = wide.condition(range(d // 2), np.zeros(d // 2))
    assert given.n_features == d // 2
    assert peak[0] < 8 * d * d / 20


def test_80_a_regressor_in_a_pipeline(rng):
    pipeline = pytest.importorskip("sklearn.pipeline")
    selection = pytest.importorskip("sklearn.model_selection")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    from amofa.sklearn import AMoFARegressor

    # Houses: skewed columns, a rare indicator, one of a few whole numbers, and a target that is cut off.
    n = 200
    rooms, age, crime = rng.normal(6.3, 0.7, n), rng.uniform(3, 100, n), rng.lognormal(-1, 2, n)
    river, tax = (rng.random(n) < 0.07).astype(float), rng.choice([242.0, 330.0, 666.0], n)
    X = np.column_stack([crime, river, rooms, age, tax])
    y = np.minimum(50, 9 * rooms - 0.05 * age - 2 * np.log1p(crime) - 0.01 * tax - 20 + rng.normal(0, 2, n))
    made = pipeline.make_pipeline(preprocessing.StandardScaler(), AMoFARegressor())
    scores = selection.cross_validate(made, X, y, cv=3, error_score="raise")["test_score"]
    assert (scores > 0.3).all()
    far = np.vstack([X, 1e6 * X, -1e6 * X])
    assert np.isfinite(made.fit(X, y).predict(far)).all()
    assert np.isfinite(AMoFARegressor().fit(X, y).predict(far)).all()


# ---- 81, 82 ----------------------------------------------------------------------------------------------------------

SHAPES = {
    "means": [[0.0, 0.0], [5.0, 5.0]],
    "loadings": [[[1.0], [1.0]], np.zeros((2, 0))],
    "uniquenesses": np.ones((2, 2)),
}
WRONG_PARAMETERS = {
    "weights short of one": ({"weights": [0.5, 0.2]}, "weights must sum to 1, got 0.7; divide them by their sum"),
    "weights above one": ({"weights": [1.0, 1.0]}, "weights must sum to 1, got 2"),
    "a negative weight": ({"weights": [-0.1, 1.1]}, "weights must be finite and not negative, got -0.1"),
    "a weight of NaN": ({"weights": [np.nan, 1.0]}, "weights must be finite and not negative, got nan for component 0"),
    "a weight too many": ({"weights": [0.2, 0.3, 0.5]}, "one row for each of the 3 weights"),
    "a variance of zero": (
        {"uniquenesses": [[1.0, 1.0], [0.0, 1.0]]},
        "uniquenesses are variances and must be positive normal numbers, got 0.0 for component 1",
    ),
    "loadings transposed": ({"loadings": [[[1.0, 1.0]], np.zeros((2, 0))]}, "pass the transpose"),
    "an infinite mean": ({"means": [[0.0, np.inf], [5.0, 5.0]]}, "means of component 0 hold NaN or infinite values"),
}


@pytest.mark.parametrize("name", WRONG_PARAMETERS)
def test_81_parameters_are_checked(name):
    changes, message = WRONG_PARAMETERS[name]
    with pytest.raises(ValueError, match=message):
        amofa.MixtureOfFactorAnalyzers(**{"weights": [0.35, 0.65], **SHAPES, **changes})


@pytest.mark.parametrize("n", [0, 1, 665, 1000])
def test_81_as_many_rows_as_were_asked_for(n):
    for weights in ([0.35, 0.65], [1 / 3, 2 / 3], [1e-300, 1.0], [0.5 + 1e-12, 0.5]):
        rows, labels = amofa.MixtureOfFactorAnalyzers(weights, **SHAPES).sample(n, random_state=0)
        assert rows.shape == (n, 2)
        assert labels.shape == (n,)


@pytest.mark.parametrize("weight", [1 + 2.3e-16, 1 - 1.2e-16, 1 + 1e-12])
def test_82_a_weight_that_is_one_but_for_rounding(rng, weight):
    model = amofa.MixtureOfFactorAnalyzers([weight], [[0.0]], [np.zeros((1, 0))], [[1.0]])
    assert model.sample(1000, random_state=0)[0].shape == (1000, 1)
    fitted_one = fitted(rng.standard_normal((20, 3)), n_components=1)
    assert fitted_one.sample(1000, random_state=0)[0].shape == (1000, 3)


# ---- 83, 84, 85 ------------------------------------------------------------------------------------------------------


def test_83_a_file_of_plain_arrays(model, rng, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())
    with np.load(path, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)
        assert any("version" in name for name in arrays.files)
    again = amofa.load(path)
    check_equal(again, model)
    assert again.history == model.history
    # Another process, and whatever NumPy reads.
    program = "import sys, amofa; print(repr(amofa.load(sys.argv[1]).score([[0.5, 1, 2, 3]])))"
    # -P: not what lies in the folder that the tests are run from.
    command = [sys.executable, "-P", "-c", program, str(path)]
    there = subprocess.run(command, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == repr(model.score([[0.5, 1, 2, 3]]))


def test_84_parameters_from_elsewhere(rng):
    """As MATLAB and R have them: loadings (d, p), weights that sum to one in their digits."""
    parameters = random_mixture(rng, 3, 5, [2, 0, 1])
    components = parameters.components()
    model = amofa.MixtureOfFactorAnalyzers(
        weights=[c.weight for c in components],
        means=[c.mean.tolist() for c in components],
        loadings=[np.asfortranarray(c.loadings.T) for c in components],
        uniquenesses=np.array([c.uniquenesses for c in components], order="F"),
    )
    X = random_rows(rng, parameters, 40)
    np.testing.assert_allclose(model.score_samples(X), log_density(X, components), rtol=1e-10)
    assert model.n_factors.tolist() == [2, 0, 1]
    assert model.history == ()
    assert fitted(np.vstack([X] * 3), init=model).n_components >= 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_85_read_only_tables(rng, order, tmp_path):
    X, labels = blobs(rng, [120, 80], [(0, 0, 0), (6, 6, 6)])
    weights = np.ones(200)
    for array in (X, weights):
        array.flags.writeable = False
    table = np.array(X, order=order)
    np.save(tmp_path / "rows.npy", table)
    for rows in (table, np.load(tmp_path / "rows.npy", mmap_mode="r")):
        rows.flags.writeable = False
        model = fitted(rows, sample_weight=weights)
        assert same_groups(labels, model.predict(rows))
        model.factor_scores(rows)
        model.impute(rows)
        model.bic(rows, sample_weight=weights)
        model.inverse_transform(model.transform(rows))
        assert not rows.flags.writeable


# ---- 86, 87 ----------------------------------------------------------------------------------------------------------


def test_86_wheels_for_every_python_that_is_supported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    build = project["tool"]["cibuildwheel"]["build"]
    supported = [re.search(r":: (3)\.(\d+)$", c) for c in project["project"]["classifiers"]]
    tags = {f"cp{found[1]}{found[2]}-*" for found in supported if found}
    assert len(tags) >= 3
    assert tags <= set(build)
    assert any(re.fullmatch(r"cp3\d+t-\*", tag) for tag in build)  # free-threaded
    assert f"cp{sys.version_info.major}{sys.version_info.minor}-*" in tags


def test_87_the_integer_of_blas_is_that_of_scipy(rng):
    """Every argument of BLAS has the type that the build asked SciPy for; results on this SciPy are right."""
    wrappers = re.sub(r"#.*", "", (ROOT / "src/amofa/_kernels/_blas.pxd").read_text(encoding="utf-8"))
    assert 'include "_blas_int.pxi"' in wrappers
    assert re.findall(r"\b(?:int|long|int64_t|Py_ssize_t) ?\*", wrappers) == []
    for source in (ROOT / "src").glob("**/*.pyx"):
        text = source.read_text(encoding="utf-8")
        assert not re.search(r"^from scipy\.linalg\.cython_(blas|lapack) cimport", text, re.MULTILINE), source
    parameters = random_mixture(rng, 2, 60, 20)
    X = random_rows(rng, parameters, 300)
    components = parameters.components()
    model = amofa.MixtureOfFactorAnalyzers(
        [c.weight for c in components],
        [c.mean for c in components],
        [c.loadings.T for c in components],
        [c.uniquenesses for c in components],
    )
    np.testing.assert_allclose(model.score_samples(X), log_density(X, components), rtol=1e-10)


# ---- 88, 89, 90 ------------------------------------------------------------------------------------------------------


def test_88_the_whole_history(rng, search):
    X, _ = blobs(rng, [100] * 3, [(0, 0), (5, 0), (0, 3)])
    model = fitted(X, search=search)
    assert len(model.history) > 3
    for step in model.history:
        assert np.isfinite([step.log_likelihood, step.message_length, step.cost]).all()
        assert step.n_iter >= 0
        assert step.n_components == len(step.n_factors)
    best = min((step for step in model.history if step.accepted), key=lambda step: step.cost)
    assert best.log_likelihood == pytest.approx(model.log_likelihood, rel=1e-6)
    assert best.message_length == pytest.approx(model.message_length, rel=1e-6)
    assert {step.accepted for step in model.history} == {True, False}  # those that were looked at in vain, too


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_89_frames_in_and_frames_out(rng, library):
    frames = pytest.importorskip(library)
    sklearn = pytest.importorskip("amofa.sklearn")
    X, labels = blobs(rng, [120, 80], [(0, 0, 0), (6, 6, 6)])
    frame = frames.DataFrame(dict(zip("abc", X.T, strict=True)))
    model = fitted(frame, check=False)
    assert model.feature_names == ("a", "b", "c")
    assert same_groups(labels, model.predict(frame))
    check_equal(model, fitted(X))
    renamed = frames.DataFrame(dict(zip("abz", X.T, strict=True)))
    messages = {"another order": frame[["a", "c", "b"]], "lacks 'c'": frame[["a", "b"]], "has 'z'": renamed}
    for message, wrong in messages.items():
        with pytest.raises(ValueError, match=message):
            model.predict(wrong)
    estimator = sklearn.AMoFA().set_output(transform=library).fit(frame)
    out = estimator.transform(frame)
    assert isinstance(out, frames.DataFrame)
    assert list(out.columns) == list(estimator.get_feature_names_out())
    np.testing.assert_array_equal(out.to_numpy(), model.transform(X))
    np.testing.assert_array_equal(out.to_numpy()[:, : model.n_components], model.predict_proba(X))


@pytest.mark.parametrize("n_components", [26, 27, 35])
def test_90_as_many_components_as_rows_or_more(rng, n_components):
    X = rng.standard_normal((26, 4))
    assert fitted_with(n_components, X).n_components <= 26
    assert fitted(X).n_components == 1
    assert fitted(X, max_components=350).n_components == 1
    with pytest.raises(ValueError, match="n_components must be at least 1, got 0"):
        amofa.fit(X, n_components=0)
