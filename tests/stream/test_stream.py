"""Mixtures of rows that keep coming: the same as of all rows at once where that can be, and what comes late."""

import pickle

import numpy as np
import pytest
from datasets import factor_analysers, gaussians, t_groups

import amofa
from amofa._stream import state as stream_state
from amofa._stream.mixture import RunningMixture
from amofa.warnings import AmofaWarning


def shuffled(rng, table):
    X, y = table
    order = rng.permutation(len(X))
    return X[order], y[order]


@pytest.fixture
def all_rows(rng):
    """4000 rows of two groups with a factor each."""
    return shuffled(rng, factor_analysers(rng, 6, [1, 1], [2500, 1500]))[0]


@pytest.fixture
def rows(all_rows):
    return all_rows[:3000]


@pytest.fixture
def held_out(all_rows):
    return all_rows[3000:]


def fed(X, size, stream=None, **options):
    stream = amofa.Stream(**{"warm_up": 300, **options}) if stream is None else stream
    for start in range(0, len(X), size):
        assert stream.update(X[start : start + size]) is stream
    return stream


def values(stream):
    return stream.model._parameters.buffer


def covariances(model):
    return np.stack([w @ w.T + np.diag(u) for w, u in zip(model.loadings, model.uniquenesses, strict=True)])


# ---- the same as of all rows at once ---------------------------------------------------------------------------------


def test_moments_of_one_component_are_those_of_all_rows(rng):
    X = rng.normal(size=(5000, 3)) @ rng.normal(size=(3, 3)) + 1e3
    stream = fed(X, 700, n_components=1)
    frame, mixture = stream_state.shown(stream._state, stream._settings)
    unit = frame.coordinates.scale
    np.testing.assert_allclose(mixture.covariances[0] * np.outer(unit, unit), np.cov(X.T, bias=True), rtol=1e-10)
    np.testing.assert_allclose(stream.model.means[0], X.mean(axis=0), rtol=1e-12)


def test_one_component_is_that_of_a_fit(rng):
    X = factor_analysers(rng, 5, [2], [5000])[0]
    options = {"n_components": 1, "n_factors": 2, "prior_rows": 0, "noise": "component"}
    stream, model = fed(X, 900, **options), amofa.fit(X, **options)
    np.testing.assert_allclose(covariances(stream.model), covariances(model), rtol=1e-5)


def test_sums_are_those_of_numpy(rng):
    X = rng.normal(size=(200, 3))
    frame, mixture = stream_state.shown(*_warm(X))
    further = rng.normal(size=(50, 3))
    samples = frame.coordinates.samples(further, None, None)
    score, after = mixture.updated(samples, frame, 200.0)
    model = amofa.MixtureOfFactorAnalyzers._from_fit(frame.coordinates.restore(mixture.parameters, frame.floor))
    assert score == pytest.approx(model.score_samples(further).sum())
    h, z = samples.responsibilities(mixture.parameters), (further - frame.coordinates.center) / frame.coordinates.scale
    for k, old in enumerate(mixture.parameters.components()):
        count = 200 * old.weight + h[k].sum()
        mean = (200 * old.weight * old.mean + h[k] @ z) / count
        second = 200 * old.weight * (mixture.covariances[k] + np.outer(old.mean, old.mean)) + (h[k] * z.T) @ z
        assert after.parameters.weights[k] == pytest.approx(count / 250)
        np.testing.assert_allclose(after.parameters.means[k], mean)
        np.testing.assert_allclose(after.covariances[k], second / count - np.outer(mean, mean), atol=1e-12)


def _warm(X):
    stream = amofa.Stream(warm_up=len(X), n_components=2).update(X)
    return stream._state, stream._settings


def test_a_stream_is_as_good_as_a_fit(rows, held_out):
    stream, model = fed(rows, 500), amofa.fit(rows)
    assert stream.model.n_factors.tolist() == model.n_factors.tolist() == [1, 1]
    assert stream.model.score(held_out) == pytest.approx(model.score(held_out), abs=0.005)
    assert stream.n_samples == stream.model.n_samples == 3000
    assert stream.model.n_parameters == model.n_parameters
    assert "fitted by evidence to 3000 rows of a stream\n" in stream.model.summary()


@pytest.mark.parametrize("size", [1, 37, 3000])
def test_blocks_of_any_size_give_the_same_bits(rows, size):
    X = rows[:1300] if size == 1 else rows
    assert np.array_equal(values(fed(X, size)), values(fed(X, 800)))


def test_threads_give_the_same_bits(rng):
    X = rng.normal(size=(9000, 40)) * np.arange(1, 41)
    X[:4000] += 5
    X = X[rng.permutation(len(X))]
    options = {"n_components": 2, "n_factors": 1, "warm_up": 500}
    one, two = (fed(X, 9000, n_threads=n, **options) for n in (1, 2))
    assert np.array_equal(values(one), values(two))


def test_large_weights_show_no_more_groups(rows):
    light, heavy = fed(rows[:1000], 1000), amofa.Stream(warm_up=300).update(rows[:1000], np.full(1000, 1e8))
    assert heavy.history[1:] != ()  # the structure has been looked at
    assert heavy.model.n_factors.tolist() == light.model.n_factors.tolist() == [1, 1]


def test_weights_count_as_repeats(rows):
    X, weights = rows, np.random.default_rng(1).integers(0, 3, 3000)
    weighted = amofa.Stream(n_components=2, n_factors=1, warm_up=100)
    for start in range(0, 3000, 250):
        weighted.update(X[start : start + 250], weights[start : start + 250])
    repeated = fed(np.repeat(X, weights, axis=0), 250, n_components=2, n_factors=1, warm_up=100)
    assert weighted.n_samples == repeated.n_samples == weights.sum()
    np.testing.assert_allclose(weighted.model.weights, repeated.model.weights, atol=1e-3)
    np.testing.assert_allclose(weighted.model.means, repeated.model.means, atol=0.05)


def test_units_do_not_matter(rows):
    scale = np.array([1.0, 1e-6, 1e6, 3.0, 1.0, 1.0])
    plain, scaled = fed(rows, 1000).model, fed(rows * scale + 5, 1000).model
    np.testing.assert_allclose(scaled.means, plain.means * scale + 5, rtol=1e-4, atol=1e-6)


# ---- the warm-up -----------------------------------------------------------------------------------------------------


def test_in_the_warm_up_the_model_is_fitted_to_the_rows_so_far(rows):
    stream = amofa.Stream()
    with pytest.raises(ValueError, match="the stream has no rows yet; call update"):
        stream.model  # noqa: B018
    assert (stream.n_samples, stream.n_features, stream.is_warm, stream.history) == (0, None, False, ())
    stream.update(rows[:300])
    assert not stream.is_warm
    np.testing.assert_allclose(stream.model.means, amofa.fit(rows[:300]).means, rtol=1e-3)
    stream.update(rows[300:1000])
    assert stream.is_warm
    assert [step.action for step in stream.history] == ["start"]


def test_the_model_does_not_change_with_further_rows(rows):
    stream = fed(rows[:2000], 500)
    model = stream.model
    before = model._parameters.buffer.copy()
    assert stream.model is model
    stream.update(rows[2000:])
    assert stream.model is not model
    assert np.array_equal(model._parameters.buffer, before)


def test_blocks_without_rows_that_count_change_nothing(rows):
    stream = amofa.Stream(warm_up=100).update(np.zeros((0, 3)))
    assert stream.n_features is None
    stream.update(rows[:500])
    before = values(stream)
    stream.update(np.zeros((0, 6))).update(rows[:5], np.zeros(5)).update(np.full((2, 6), np.nan))
    assert np.array_equal(values(stream), before)
    assert stream.n_samples == 500
    with pytest.raises(ValueError, match="X has 3 columns, but the stream has 6"):
        stream.update(np.zeros((0, 3)))


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
def test_the_first_rows_may_all_be_the_same():
    stream = amofa.Stream(warm_up=5).update(np.ones((6, 2)))
    assert stream.model.n_components == 1
    rng = np.random.default_rng(0)
    X = rng.normal(0, 1, (4000, 2)) + 5
    fed(X, 100, stream)
    assert "columns" in [step.action for step in stream.history]
    np.testing.assert_allclose(
        stream.model.score(X), amofa.fit(np.append(np.ones((6, 2)), X, axis=0)).score(X), atol=0.01
    )


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
def test_all_rows_may_be_the_same():
    stream = fed(np.ones((500, 2)), 100, warm_up=50)
    assert np.array_equal(stream.model.means, np.ones((1, 2)))
    assert [step.action for step in stream.history] == ["start"]
    with pytest.raises(ValueError, match="no rows yet"):
        amofa.Stream().update(np.ones((3, 2)), np.zeros(3)).model  # noqa: B018


# ---- what comes late -------------------------------------------------------------------------------------------------


def test_rare_groups_are_found_late(rng):
    X, _ = shuffled(rng, factor_analysers(rng, 6, [1, 1, 1], [8000, 4000, 80], distance=12.0))
    stream = fed(X, 1000, warm_up=200)
    assert stream.model.n_components == 3
    accepted = [step for step in stream.history if step.action == "trial" and step.accepted]
    assert accepted
    assert all(step.gain > 0 for step in accepted)
    assert accepted[-1].n_components == 3


def test_components_keep_their_order(rng):
    X = rng.permutation(gaussians(rng, [400, 600], [(0, 0), (20, 0)], [np.eye(2)] * 2)[0])
    later = rng.permutation(gaussians(rng, [2000, 1000, 3000], [(0, 0), (20, 0), (0, 20)], [np.eye(2)] * 3)[0])
    stream = fed(later, 200, fed(X, 200, max_factors=0))
    np.testing.assert_allclose(stream.model.means, [[20, 0], [0, 0], [0, 20]], atol=0.2)
    assert np.argsort(-stream.model.weights).tolist() == [2, 1, 0]


def test_a_stream_with_memory_follows_a_change(rng):
    before = shuffled(rng, gaussians(rng, [3000, 3000], [(0, 0), (10, 0)], [np.eye(2)] * 2))[0]
    after = shuffled(rng, gaussians(rng, [8000, 8000], [(0, 8), (14, 0)], [np.eye(2)] * 2))[0]
    stream = fed(after, 500, fed(before, 500, memory=2000))
    held_out = gaussians(np.random.default_rng(0), [500, 500], [(0, 8), (14, 0)], [np.eye(2)] * 2)[0]
    assert stream.model.n_components == 2
    assert stream.model.score(held_out) == pytest.approx(amofa.fit(after).score(held_out), abs=0.02)
    # Without memory, what has been stays.
    assert (
        fed(after, 500, fed(before, 500, max_components=3)).model.score(held_out) < stream.model.score(held_out) - 0.2
    )


@pytest.mark.parametrize("degrees", [np.inf, 5.0])
def test_a_component_without_rows_goes(rng, degrees):
    X = rng.normal(size=(300, 2))
    model = amofa.MixtureOfFactorAnalyzers(
        [1 - 1e-4, 1e-4], [[0, 0], [20, 0]], [np.zeros((2, 0))] * 2, np.ones((2, 2)), degrees_of_freedom=[degrees] * 2
    )
    stream = amofa.Stream(init=model, n_samples=1000, tails="normal" if np.isinf(degrees) else "t").update(X)
    assert stream.model.n_components == 1
    assert stream.history[1].action == "remove"
    assert amofa.Stream(n_components=2, init=model, n_samples=1000).update(X).model.n_components == 2


def test_a_group_that_is_forgotten_goes(rng):
    X = shuffled(rng, gaussians(rng, [500, 500], [(0, 0), (20, 0)], [np.eye(2)] * 2))[0]
    stream = fed(X, 500, memory=500, max_components=2)
    assert stream.model.n_components == 2
    stream = fed(rng.normal(size=(12_000, 2)), 1000, stream)
    assert stream.model.n_components == 1


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
def test_a_column_may_be_constant_in_the_warm_up_alone(rng, rows):
    X = np.column_stack([rows, np.full(len(rows), 7.0)])
    X[1000:, 6] += rng.normal(0, 2, 2000)
    stream = fed(X, 300, warm_up=500, n_components=2, n_factors=1)
    with pytest.warns(AmofaWarning, match="constant"):
        amofa.Stream(warm_up=500).update(X[:500])
    assert [step.action for step in stream.history].count("columns") == 1
    overall = stream.model.weights @ (covariances(stream.model)[:, 6, 6] + (stream.model.means[:, 6] - 7) ** 2)
    assert overall == pytest.approx(X[:, 6].var(), rel=0.02)


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
def test_a_column_may_be_constant_in_all_rows_that_are_remembered(rows):
    X = np.column_stack([rows, np.full(len(rows), 7.0)])
    X[50, 6] = 9.0
    stream = fed(X, 300, memory=500, max_components=2, max_factors=1)
    assert stream.model.n_components == 2
    np.testing.assert_allclose(stream.model.means[:, 6], 7, atol=0.01)


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
def test_a_column_may_have_no_cells_in_the_warm_up(rng, rows):
    X = rows.copy()
    X[:1000, 2] = np.nan
    X[:, 2] += 1e4
    stream = fed(X, 250, warm_up=500, n_components=2, n_factors=1)
    np.testing.assert_allclose(
        stream.model.means[:, 2], amofa.fit(X, n_components=2, n_factors=1).means[:, 2], atol=0.1
    )


def test_coordinates_follow_the_spread(rng):
    X = rng.normal(size=(8000, 2)) * np.where(np.arange(8000) < 1000, 1e-3, 1.0)[:, None]
    stream = fed(X, 100, n_components=1, warm_up=500)
    assert "rescale" in [step.action for step in stream.history]
    np.testing.assert_allclose(covariances(stream.model)[0].diagonal(), X.var(axis=0), rtol=1e-3)


def test_values_out_of_proportion_are_refused_and_change_nothing(rows):
    stream = fed(rows[:2000], 500)
    before = values(stream)
    for value, message in ((1e155, "column 1 of X spans"), (1e80, "column 1 of X has 1e[+]80, which is out of all")):
        wrong = rows[2000:3000].copy()
        wrong[3, 1] = value
        with pytest.raises(ValueError, match=message):
            stream.update(wrong)
        assert np.array_equal(values(stream), before)
        assert stream.n_samples == 2000


def test_an_interrupt_changes_nothing(rows, monkeypatch):
    stream = fed(rows[:2000], 500)
    before = values(stream)
    calls = []

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *arguments)

    original = RunningMixture.updated
    monkeypatch.setattr(RunningMixture, "updated", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.update(rows[2000:])
    monkeypatch.undo()
    assert stream.n_samples == 2000
    assert np.array_equal(values(stream), before)
    assert np.array_equal(values(stream.update(rows[2000:])), values(fed(rows, 500)))


# ---- missing cells, tails, noise -------------------------------------------------------------------------------------


def test_cells_may_be_missing(rng, rows, held_out):
    X = np.where(rng.random(rows.shape) < 0.1, np.nan, rows)
    stream, model = fed(X, 500), amofa.fit(X)
    assert stream.model.n_components == 2
    assert stream.model.score(held_out) == pytest.approx(model.score(held_out), abs=0.02)


def test_tails_may_be_heavy(rng):
    X, _ = shuffled(rng, t_groups(rng, 3, [1, 1], [4000, 2000], 4.0))
    options = {"tails": "t", "n_components": 2, "n_factors": 1, "degrees_of_freedom": 4.0}
    stream, model = fed(X, 500, **options), amofa.fit(X, **options)
    assert np.array_equal(stream.model.degrees_of_freedom, [4.0, 4.0])
    assert stream.model.score(X) == pytest.approx(model.score(X), abs=0.005)
    assert stream.model.n_parameters == model.n_parameters
    found = fed(X, 500, tails="t", n_components=2, n_factors=1).model
    assert (found.degrees_of_freedom < 8).all()


@pytest.mark.parametrize("noise", ["shared", "isotropic"])
def test_noise_may_be_tied(rows, noise):
    options = {"noise": noise, "n_components": 2, "n_factors": 1}
    stream, model = fed(rows, 500, **options), amofa.fit(rows, **options)
    assert stream.model.n_parameters == model.n_parameters
    assert stream.model.score(rows) == pytest.approx(model.score(rows), abs=0.03)
    shares = stream.model.uniquenesses / stream.model.uniquenesses[:, :1]
    np.testing.assert_allclose(shares, shares[:1].repeat(2, axis=0), rtol=1e-12)


def test_given_numbers_are_kept(rows):
    stream = fed(rows, 500, n_components=3, n_factors=2)
    assert stream.model.n_factors.tolist() == [2, 2, 2]
    assert fed(rows, 500, max_components=1, max_factors=0).model.n_factors.tolist() == [0]


# ---- a model to go on from -------------------------------------------------------------------------------------------


def test_a_stream_goes_on_from_a_fit(rows):
    model = amofa.fit(rows[:1500])
    stream = amofa.Stream(init=model)
    assert stream.n_samples == 1500
    assert stream.model.score(rows) == pytest.approx(model.score(rows), abs=1e-3)
    fed(rows[1500:], 500, stream)
    assert stream.n_samples == 3000
    assert stream.model.score(rows) == pytest.approx(amofa.fit(rows).score(rows), abs=2e-3)
    assert fed(rows[1500:], 500, amofa.Stream(init=model, n_samples=100)).n_samples == 1600


def test_a_stream_goes_on_from_a_model_of_arrays(rows):
    model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], np.eye(6)[:2] * 6, [np.ones((6, 1))] * 2, np.ones((2, 6)))
    with pytest.raises(ValueError, match="pass n_samples"):
        amofa.Stream(init=model)
    assert fed(rows, 500, amofa.Stream(init=model, n_samples=50, noise="shared")).model.n_components == 2


@pytest.mark.filterwarnings("ignore::amofa.AmofaWarning")
def test_a_stream_goes_on_from_a_fit_of_constant_columns(rng, rows):
    X = np.column_stack([rows, np.ones(len(rows))])
    stream = fed(X[1500:], 500, amofa.Stream(init=amofa.fit(X[:1500])))
    assert [step.action for step in stream.history if step.action == "columns"] == []
    assert np.array_equal(stream.model.sample(3, 0)[0][:, 6], np.ones(3))
    same = amofa.Stream(init=amofa.fit(np.ones((5, 2)))).update(np.ones((5, 2)))
    assert np.array_equal(same.model.means, np.ones((1, 2)))


def test_a_stream_goes_on_from_a_mixture_of_scikit_learn(rows):
    mixtures = pytest.importorskip("sklearn.mixture")
    mixture = mixtures.GaussianMixture(2, random_state=0).fit(rows[:1000])
    stream = fed(rows[1000:], 500, amofa.Stream(init=mixture, n_samples=1000))
    assert stream.model.n_components == 2


# ---- names, arguments ------------------------------------------------------------------------------------------------


def test_names_of_columns_are_kept_and_compared(rows):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=list("abcdef"))
    stream = amofa.Stream(warm_up=200).update(frame[:500]).update(frame[500:600].astype(np.float32))
    assert stream.update(rows[600:700]).model.feature_names == tuple("abcdef")
    with pytest.raises(ValueError, match="in another order"):
        stream.update(frame[list("bacdef")])
    with pytest.raises(ValueError, match="lacks 'd'"):
        stream.update(frame[["a", "b", "c"]][:0])
    numbered = pandas.DataFrame(rows)
    stream = amofa.Stream().update(numbered[:500]).update(rows[500:600])
    with pytest.raises(ValueError, match="X has other columns than the rows before, or in another order"):
        stream.update(numbered[[1, 0, 2, 3, 4, 5]])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_factors": [1, 2]}, TypeError, "n_factors of a stream must be one number"),
        ({"init": np.zeros(3)}, TypeError, "init of a stream must be a mixture"),
        ({"n_samples": 5}, ValueError, "n_samples says how many rows init counts as"),
        ({"memory": 20}, ValueError, "memory must be at least 100 rows"),
        ({"memory": "all"}, TypeError, "memory must be a number"),
        ({"warm_up": 0}, ValueError, "warm_up must be at least 1"),
        ({"noise": "none"}, ValueError, "noise must be one of"),
        ({"noise": "scaled"}, ValueError, "noise='scaled' is for whole tables"),
        ({"noise": "any"}, ValueError, "noise='any' is for whole tables"),
        ({"noise_floor": [1.0, -1.0]}, ValueError, "noise_floor must be positive"),
        ({"n_threads": 0}, ValueError, "n_threads"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        amofa.Stream(**options)


def test_wrong_rows_are_refused():
    stream = amofa.Stream(n_factors=3)
    for X, weights, message in (
        (np.zeros((3, 2)), None, "n_factors must be from 0 to 2"),
        (np.zeros((1, 2001)), None, "has at most 2000"),
        ([[np.inf]], None, "infinite"),
        ([[1.0], [2.0]], [1.0], "sample_weight has shape"),
        ([[1.0], [2.0]], [1.0, -1.0], "not negative"),
    ):
        with pytest.raises(ValueError, match=message):
            stream.update(X, weights)
    assert stream.n_features is None
    assert repr(stream) == "Stream(n_samples=0)"


# ---- files and pickles -----------------------------------------------------------------------------------------------


def taken_up(stream, path, way):
    if way == "pickle":
        return pickle.loads(pickle.dumps(stream))
    stream.save(path)
    return amofa.load(path)


@pytest.mark.parametrize("way", ["file", "pickle"])
@pytest.mark.parametrize("n", [0, 100, 300, 1700, 2700])
def test_a_stream_that_was_saved_goes_on_bit_for_bit(rows, tmp_path, way, n):
    stream = fed(rows[:n], 700, memory=1000, prior_scale=np.arange(1.0, 7.0))
    again = taken_up(stream, tmp_path / "stream.npz", way)
    assert again.history == stream.history
    assert again.n_samples == stream.n_samples
    fed(rows[n:], 900, stream)
    fed(rows[n:], 400, again)
    assert np.array_equal(values(stream), values(again))
    assert repr(stream) == repr(again)


def test_damaged_files_are_refused(rows, tmp_path):
    path = tmp_path / "stream.npz"
    fed(rows, 1000, warm_up=100).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for changes, message in (
        ({"version": np.int64(2)}, "reads version 1"),
        ({"text": np.array("{}")}, "its text is not that of a stream"),
        ({"text": np.array("[")}, "does not hold a stream"),
        ({"low": np.zeros(3)}, "expected"),
        ({"extra": np.zeros(3)}, "unknown content: extra"),
        ({"scale": np.zeros(6)}, "columns that vary"),
        ({"mixture_n_factors": np.array([1, -1])}, "numbers of factors"),
        ({"mixture_values": np.zeros(3)}, "3 values for"),
        ({"mixture_values": np.full_like(arrays["mixture_values"], np.nan)}, "not finite"),
    ):
        np.savez(path, **(arrays | changes))
        with pytest.raises(ValueError, match=message):
            amofa.load(path)
