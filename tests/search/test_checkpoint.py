"""Fits that are interrupted and resumed: the same model to the last bit, wherever it was."""

import contextlib
import errno
import os
from pathlib import Path

import datasets
import numpy as np
import pytest

import amofa
from amofa._data import npz
from amofa._search import default, descent, levels, paper
from amofa._search.state import LocalSplit, State, from_text, to_text

PARTS = ("weights", "means", "uniquenesses", "n_factors", "at_floor")


def assert_same(a, b):
    assert a.history == b.history
    assert (a.converged, a.log_likelihood, a.n_parameters) == (b.converged, b.log_likelihood, b.n_parameters)
    for name in PARTS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert [x.tobytes() for x in a.loadings] == [x.tobytes() for x in b.loadings]


def cases():
    """Tables and options that take a search through all of its phases."""
    rng = np.random.default_rng(0)
    few = datasets.example_2(rng)[0][::10]
    wide = rng.standard_normal((24, 40))
    wide[:12, :6] += 3
    factors = np.concatenate([rng.standard_normal((80, 2)) @ rng.standard_normal((2, 6)) + m for m in (0, 4)])
    factors += 0.3 * rng.standard_normal(factors.shape)
    yield "thorough", few, {}
    yield "levels", few, {}
    yield "few rows share noise", few[::4], {}
    yield "wide", wide, {}
    yield "forced", few[::4], {"n_components": 4}
    yield "factors of each", factors, {"n_factors": [3, 1]}
    yield "labels", few, {"init": np.arange(len(few)) % 6}
    yield "too many labels", few, {"init": np.arange(len(few)) % 6, "max_components": 2}
    yield "a model", few, {"init": amofa.fit(few, n_components=3)}
    yield "a model with shared noise", few, {"init": amofa.fit(few, n_components=3, noise="shared")}
    yield "weights", few[::4], {"sample_weight": 1 + np.arange(len(few[::4])) % 3}
    yield "isotropic", factors, {"noise": "isotropic", "criterion": "bic"}
    heavy = datasets.t_groups(rng, 4, [1, 1], [60, 60], 3.0)[0]
    yield "tails", heavy, {"tails": "auto"}
    outliers = np.concatenate([heavy[:120], rng.uniform(-60, 60, (12, 4))])
    yield "background", outliers, {"background": "auto"}
    yield "t alone", heavy, {"tails": "t"}
    yield "t levels", heavy, {"tails": "auto"}
    yield "paper", few, {"search": "paper"}
    yield "paper, factors", factors, {"search": "paper", "n_factors": [2, 1]}
    yield "paper, wide", wide, {"search": "paper", "criterion": "bic"}
    yield "paper, labels", few, {"search": "paper", "init": np.arange(len(few)) % 3, "max_components": 2}


CASES = {name: (x, options) for name, x, options in cases()}
# The others take a second or more for each test.
QUICK = {"levels", "few rows share noise", "forced", "labels", "a model", "weights", "paper", "paper, labels"}


@pytest.fixture(params=[pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES])
def case(request, monkeypatch):
    if request.param in ("levels", "t levels"):
        for name, value in (("_LEAST_ROWS", 20), ("_LEAST_ROWS_PER_COLUMN", 1), ("_GROWTH", 3)):
            monkeypatch.setattr(levels, name, value)
    return CASES[request.param]


@pytest.fixture
def x():
    return CASES["thorough"][0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


# ---- resuming --------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The end of a process."""


def test_resumed_after_any_step_it_ends_the_same(case, path, monkeypatch):
    x, options = case
    plain = amofa.fit(x, **options)
    written, contents = [], []
    write = npz.write_arrays

    def kept(path, arrays):
        write(path, arrays)
        written.append(Path(path).read_bytes())
        # The history that goes with the best model is that of the time when it was made.
        contents.append({name: np.array(a).tobytes() for name, a in arrays.items() if not name.startswith("step_")})

    with monkeypatch.context() as patch:
        patch.setattr("amofa._search.checkpoint.write_arrays", kept)
        assert_same(amofa.fit(x, checkpoint=path, **options), plain)
    first = list(written)
    assert len(first) > 2

    def killed(path, arrays):
        kept(path, arrays)
        raise Killed

    # Each step leads from one file to the next, whatever went before it in the same process.
    with monkeypatch.context() as patch:
        patch.setattr("amofa._search.checkpoint.write_arrays", killed)
        expected = contents[1:]
        for before, after in zip(first[:-1], expected, strict=True):
            path.write_bytes(before)
            with pytest.raises(Killed):
                amofa.fit(x, checkpoint=path, **options)
            assert contents[-1] == after
    for content in (first[0], first[len(first) // 2], first[-2], first[-1]):
        path.write_bytes(content)
        assert_same(amofa.fit(x, checkpoint=path, **options), plain)
        assert_same(amofa.load(path), plain)


def test_a_fit_that_has_ended_is_not_done_again(case, path, monkeypatch):
    x, options = case
    plain = amofa.fit(x, checkpoint=path, **options)
    whole = path.read_bytes()
    for search in (default.DefaultSearch, paper.PaperSearch):
        monkeypatch.setattr(search, "step", lambda self: pytest.fail("this was done before"))
    assert_same(amofa.fit(x, checkpoint=path, **options), plain)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("search", ["thorough", "paper"])
def test_interrupts_and_stops_lose_no_more_than_a_step(x, path, search):
    plain = amofa.fit(x, search=search)

    def interrupt(step):
        raise KeyboardInterrupt

    # Interrupted in every step that it resumes with, it never gets on, but has its best model.
    for _ in range(2):
        with pytest.raises(amofa.FitInterrupted) as caught:
            amofa.fit(x, search=search, checkpoint=path, callback=interrupt)
        assert len(caught.value.model.history) == 1
        np.testing.assert_array_equal(amofa.load(path).means, caught.value.model.means)
        assert not amofa.load(path).converged
    for n_components in (2, plain.n_components):
        stopped = amofa.fit(
            x,
            search=search,
            checkpoint=path,
            callback=lambda step: step.n_components == n_components,  # noqa: B023
        )
        np.testing.assert_array_equal(amofa.load(path).means, stopped.means)
    seen = []
    assert_same(amofa.fit(x, search=search, checkpoint=path, callback=seen.append), plain)
    # The callback is told of what is new.
    assert 0 < len(seen) < len(plain.history)
    assert amofa.load(path).converged


def test_time_and_threads_are_not_part_of_a_fit(x, path):
    plain = amofa.fit(x)
    with pytest.warns(amofa.AmofaWarning, match="max_time"):
        amofa.fit(x, checkpoint=path, max_time=1e-9, n_threads=1)
    assert_same(amofa.fit(x.astype(np.longdouble), checkpoint=path, n_threads=3), plain)
    assert_same(amofa.fit(x, checkpoint=path, max_time=1e-9), plain)


def test_a_state_as_text(rng):
    component = amofa._parameters.Component(0.5, rng.standard_normal(3), np.zeros((0, 3)), np.ones(3))
    mixture = amofa._parameters.Parameters.from_components([component, component])
    outcome = amofa._em.outcome.Outcome(mixture, 0.1, np.inf, 3, True)
    step = amofa.history.Step("start", -1, (0, 0), 1 / 3, np.nan, -0.0, 7, False)
    splits = [LocalSplit(component, -np.inf, None), LocalSplit(component, 1e-300, (component, component))]
    state = State("look", outcome, outcome, [step], mixture, splits=splits, trial=np.int64(2))
    again, settings = from_text(*to_text(state, {"tol": "1e-05"}))
    assert settings == {"tol": "1e-05"}
    assert (again.phase, again.history[0].n_factors, again.splits[0].gain) == ("look", (0, 0), -np.inf)
    assert to_text(again, settings)[0] == to_text(state, settings)[0]
    np.testing.assert_array_equal(again.best.parameters.buffer, mixture.buffer)
    assert again.best.parameters.n_factors == (0, 0)


# ---- files that are not to be written to -----------------------------------------------------------------------------


@pytest.fixture
def full_disk(monkeypatch):
    """Function of the numbers of those calls of fsync, from 1, that find no space."""

    fsync = os.fsync

    def full(numbers):
        calls = []

        def failing(descriptor):
            calls.append(descriptor)
            if len(calls) in numbers:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", failing)

    return full


@pytest.mark.parametrize("numbers", [range(2, 3), range(4, 6), range(2, 999)])
def test_a_full_disk_ends_no_fit(x, path, full_disk, numbers):
    plain = amofa.fit(x)
    full_disk(numbers)
    with pytest.warns(amofa.AmofaWarning, match="could not be written \\(No space left on device\\)") as caught:
        assert_same(amofa.fit(x, checkpoint=path), plain)
    assert len(caught) == 1
    # What is there is whole, of whichever step.
    full_disk([])
    assert_same(amofa.fit(x, checkpoint=path), plain)
    assert len(os.listdir(path.parent)) == 1


def test_a_disk_that_is_full_at_once_is_an_error(x, path, full_disk):
    full_disk(range(1, 2))
    with pytest.raises(OSError, match="No space left on device") as caught:
        amofa.fit(x, checkpoint=path)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"criterion": "bic"}, "criterion differs"),
        ({"tol": 1e-4, "max_components": 9}, "max_components, tol differ"),
        ({"search": "paper"}, "search, criterion, noise, prior_rows differ"),
        ({"noise_floor": 1e-3}, "noise_floor differs"),
        ({"prior_scale": [1.0, 2.0]}, "prior_scale differs"),
        ({"sample_weight": np.full(100, 2.0)}, "sample_weight differs"),
        ({"init": np.arange(100) % 2}, "init differs"),
        (
            {"init": amofa.MixtureOfFactorAnalyzers([1.0], np.zeros((1, 2)), [np.zeros((2, 0))], np.ones((1, 2)))},
            "init",
        ),
    ],
)
def test_the_checkpoint_of_another_fit(x, path, changes, names):
    amofa.fit(x, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"is the checkpoint of another fit: {names}.*; delete it or give another"):
        amofa.fit(x, checkpoint=path, **changes)
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", [lambda x: x[::-1], lambda x: x[:-1], lambda x: np.nextafter(x, 99), lambda x: x.T])
def test_the_checkpoint_of_other_rows(x, path, change):
    amofa.fit(x, checkpoint=path)
    with pytest.raises(ValueError, match=": X differs"):
        amofa.fit(change(x), checkpoint=path)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", None])
def test_other_files_are_left_as_they_are(x, path, content):
    amofa.fit(x).save(path)
    if content is not None:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"is not a checkpoint of this version .*; it is left as it is"):
        amofa.fit(x, checkpoint=path)
    assert path.read_bytes() == before


def test_an_empty_file_is_taken(x, path):
    path.touch()
    assert_same(amofa.fit(x, checkpoint=path), amofa.fit(x))


def test_paths_that_are_refused(x, tmp_path):
    with pytest.raises(TypeError, match="checkpoint must be a path, got 3"):
        amofa.fit(x, checkpoint=3)
    with pytest.raises(TypeError, match="checkpoint must be a path, got b"):
        amofa.fit(x, checkpoint=b"file")
    with pytest.raises(FileNotFoundError):
        amofa.fit(x, checkpoint=tmp_path / "none" / "file")
    with pytest.raises(OSError, match="not a regular file"):
        amofa.fit(x, checkpoint=tmp_path)
    for value in ("", "a\0b"):
        with pytest.raises(ValueError, match="checkpoint must be a path of a file"):
            amofa.fit(x, checkpoint=value)
    assert os.listdir(tmp_path) == []


def test_errors_of_arguments_come_before_the_file(x, path):
    with pytest.raises(ValueError, match="NaN"):
        amofa.fit(np.full((3, 2), np.nan), checkpoint=path)
    assert not path.exists()


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_a_damaged_checkpoint_is_one_error_or_none(x, path, rng):
    plain = amofa.fit(x, checkpoint=path)
    whole = path.read_bytes()
    for place in rng.integers(len(whole), size=20).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        model = None
        with contextlib.suppress(ValueError):
            model = amofa.fit(x, checkpoint=path)
        if model is not None:
            assert_same(model, plain)


def test_a_checkpoint_without_a_model(x, path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descent, "profile_em", interrupt)
        with pytest.raises(KeyboardInterrupt):
            amofa.fit(x, checkpoint=path)
    with pytest.raises(ValueError, match="a checkpoint whose fit had no model yet"):
        amofa.load(path)
    assert_same(amofa.fit(x, checkpoint=path), amofa.fit(x))


@pytest.mark.parametrize("content", [b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"state": 3, "settings": {}}'])
def test_a_forged_state(x, path, content):
    amofa.fit(x, checkpoint=path)
    arrays = npz.read_arrays(path)
    npz.write_arrays(path, {**arrays, "search/state": np.frombuffer(content, np.uint8)})
    with pytest.raises(ValueError, match="is damaged; delete it or give another path"):
        amofa.fit(x, checkpoint=path)


@pytest.mark.parametrize("phase", ["room", "_moments", "step", "nosuch", "result"])
def test_a_forged_step(x, path, phase):
    amofa.fit(x, checkpoint=path)
    arrays = npz.read_arrays(path)
    text = arrays["search/state"].tobytes().replace(b'"phase": "end"', f'"phase": "{phase}"'.encode())
    npz.write_arrays(path, {**arrays, "search/state": np.frombuffer(text, np.uint8)})
    with pytest.raises(ValueError, match=f"the checkpoint is damaged, at step '{phase}'; delete it"):
        amofa.fit(x, checkpoint=path)
