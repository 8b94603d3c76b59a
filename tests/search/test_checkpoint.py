"""Fits that are cut off and go on: the same model to the last bit, wherever it was."""

import errno
import os
import sys

import datasets
import numpy as np
import pytest

import amofa
from amofa._search import checkpoint, records
from amofa._search import default as thorough
from amofa._search import paper as search

PARTS = ("weights", "means", "uniquenesses", "n_factors", "at_floor")


def assert_same(a, b):
    assert a.history == b.history
    assert (a.converged, a.log_likelihood, a.n_parameters) == (b.converged, b.log_likelihood, b.n_parameters)
    for name in PARTS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert [x.tobytes() for x in a.loadings] == [x.tobytes() for x in b.loadings]


def cases():
    """Tables and options that take a search through all that it does."""
    rng = np.random.default_rng(0)
    few = datasets.example_2(rng)[0][::5]
    wide = rng.standard_normal((24, 40))
    wide[:12, :6] += 3
    factors = np.concatenate([rng.standard_normal((80, 2)) @ rng.standard_normal((2, 6)) + m for m in (0, 4)])
    factors += 0.3 * rng.standard_normal(factors.shape)
    yield "thorough", few, {}
    yield "few rows share noise", few[::8], {}
    yield "wide", wide, {}
    yield "forced", few, {"n_components": 5}
    yield "factors of each", factors, {"n_factors": [3, 1]}
    yield "labels", few, {"init": np.arange(len(few)) % 6}
    yield "a model", few, {"init": amofa.fit(few, n_components=3)}
    yield "weights", few, {"sample_weight": 1 + np.arange(len(few)) % 3}
    yield "isotropic", factors, {"noise": "isotropic", "criterion": "bic"}
    yield "paper", few, {"search": "paper"}
    yield "paper, factors", factors, {"search": "paper", "n_factors": [2, 1]}
    yield "paper, wide", wide, {"search": "paper", "criterion": "bic"}
    yield "paper, labels", few, {"search": "paper", "init": np.arange(len(few)) % 3, "max_components": 2}


CASES = {name: (x, options) for name, x, options in cases()}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def x():
    return CASES["thorough"][0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def ends_of_records(path):
    with open(path, "rb") as file:
        return [record.end for record in records.whole_records(file)]


# ---- going on --------------------------------------------------------------------------------------------------------


def test_cut_off_anywhere_it_ends_the_same(case, path, rng):
    x, options = case
    plain = amofa.fit(x, **options)
    assert_same(amofa.fit(x, checkpoint=path, **options), plain)
    whole, ends = path.read_bytes(), ends_of_records(path)
    assert ends[-1] == len(whole)
    # After a record, and within one: its head, its content.
    lengths = {0, 7, *ends, *(end + 9 for end in ends[:-1]), *rng.integers(len(whole), size=5).tolist()}
    for length in sorted(lengths)[:: max(1, len(lengths) // 12)]:
        path.write_bytes(whole[:length])
        assert_same(amofa.fit(x, checkpoint=path, **options), plain)
        assert_same(amofa.load(path), plain)


def test_nothing_is_done_twice(case, path, monkeypatch):
    x, options = case
    plain = amofa.fit(x, checkpoint=path, **options)
    whole = path.read_bytes()

    def refuse(*_, **__):
        pytest.fail("this was done before")

    monkeypatch.setattr(thorough, "exact_em", refuse)
    monkeypatch.setattr(search, "expectation_maximization", refuse)
    monkeypatch.setattr(search, "split", refuse)
    assert_same(amofa.fit(x, checkpoint=path, **options), plain)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("search", ["thorough", "paper"])
def test_interrupts_and_stops_lose_nothing(x, path, search):
    plain = amofa.fit(x, search=search)

    def interrupt(step):
        interrupt.seen += 1
        if interrupt.seen == number:
            raise KeyboardInterrupt

    for number in range(1, len(plain.history) + 1):
        interrupt.seen = 0
        with pytest.raises(amofa.FitInterrupted) as caught:
            amofa.fit(x, search=search, checkpoint=path, callback=interrupt)
        assert len(caught.value.model.history) == number
        np.testing.assert_array_equal(amofa.load(path).means, caught.value.model.means)
        assert not amofa.load(path).converged
    assert_same(amofa.fit(x, search=search, checkpoint=path), plain)
    assert amofa.load(path).converged


def test_a_callback_sees_what_was_found_before(x, path):
    """Whatever it decides by, it decides the same."""
    plain = amofa.fit(x)
    with pytest.raises(amofa.FitInterrupted):
        amofa.fit(x, checkpoint=path, callback=lambda step: (_ for _ in ()).throw(KeyboardInterrupt))
    seen = []
    amofa.fit(x, checkpoint=path, callback=lambda step: seen.append(step.cost))
    assert seen == [step.cost for step in plain.history]


def test_time_and_threads_are_not_part_of_a_fit(x, path):
    plain = amofa.fit(x)
    with pytest.warns(amofa.AmofaWarning, match="max_time"):
        amofa.fit(x, checkpoint=path, max_time=1e-9, n_threads=1)
    assert_same(amofa.fit(x.astype(np.longdouble), checkpoint=path, n_threads=3), plain)


def test_answers_to_other_questions_are_not_taken(x, path, monkeypatch):
    """As where the file was written on another processor, whose sums differ in their last bits."""
    plain = amofa.fit(x, checkpoint=path)
    size, digest = path.stat().st_size, checkpoint._question
    run, starts = thorough.exact_em, []

    def counted(samples, start, *args, **options):
        starts.append(start.n_components)
        return run(samples, start, *args, **options)

    def other(what, *about):
        return digest(f"{what} on another processor" if about[0].n_components > 1 else what, *about)

    monkeypatch.setattr(checkpoint, "_question", other)
    monkeypatch.setattr(thorough, "exact_em", counted)
    assert_same(amofa.fit(x, checkpoint=path), plain)
    assert set(starts) > {2, 3}
    assert path.stat().st_size > 1.5 * size
    starts.clear()
    assert_same(amofa.fit(x, checkpoint=path), plain)
    assert not starts


# ---- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="needs a plain fork")
@pytest.mark.parametrize("search", ["thorough", "paper"])
@pytest.mark.parametrize("call", ["fsync", "write", "truncate"])
def test_killed_in_any_call_it_ends_the_same(x, path, search, call, monkeypatch):
    """The process ends within the n-th call that puts something on disk; what was half written is half written."""
    plain = amofa.fit(x, search=search)
    number, killed = 0, True
    while killed:
        number += 1
        path.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            die_in(call, number)
            try:
                amofa.fit(x, search=search, checkpoint=path, n_threads=1)
            finally:
                os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert_same(amofa.fit(x, search=search, checkpoint=path), plain)
    assert number > len(plain.history)


def die_in(call, number):
    """Exit, in the n-th call of a method of the file, when half of its work is done."""

    class Dying:
        def __init__(self, file):
            self._file, self._calls = file, 0

        def __getattr__(self, name):
            return getattr(self._file, name)

        def count(self):
            self._calls += 1
            return self._calls == number

        def write(self, content):
            if call == "write" and self.count():
                self._file.write(content[: len(content) // 2])
                os._exit(9)
            return self._file.write(content)

        def truncate(self, size):
            if call == "truncate" and self.count():
                os._exit(9)
            return self._file.truncate(size)

        def fileno(self):
            if call == "fsync" and self.count():
                os._exit(9)
            return self._file.fileno()

    opened = records.RecordFile.__init__

    def wrapped(self, path):
        opened(self, path)
        self._file = Dying(self._file)

    records.RecordFile.__init__ = wrapped


# ---- files that are not to be written to -----------------------------------------------------------------------------


@pytest.fixture
def full_disk(monkeypatch):
    """Function of the numbers of those calls of fsync, from 1, that find no space."""

    def full(numbers):
        fsync, calls = os.fsync, []

        def failing(descriptor):
            calls.append(descriptor)
            if len(calls) in numbers:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(records.os, "fsync", failing)

    return full


@pytest.mark.parametrize("numbers", [range(2, 3), range(4, 9), range(2, 999)])
def test_a_full_disk_ends_no_fit(x, path, full_disk, numbers, monkeypatch):
    plain = amofa.fit(x)
    full_disk(numbers)
    with pytest.warns(amofa.AmofaWarning, match="could not be written \\(No space left on device\\)") as caught:
        assert_same(amofa.fit(x, checkpoint=path), plain)
    assert len(caught) == 1
    monkeypatch.undo()
    if len(numbers) < 100:
        # What could not be written at first has been, later.
        monkeypatch.setattr(thorough, "exact_em", lambda *_, **__: pytest.fail("this was done before"))
    assert_same(amofa.fit(x, checkpoint=path), plain)


def test_a_disk_that_is_full_at_once_is_an_error(x, path, full_disk):
    full_disk(range(1, 2))
    with pytest.raises(OSError, match="No space left on device") as caught:
        amofa.fit(x, checkpoint=path)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"criterion": "bic"}, "criterion differs"),
        ({"tol": 1e-4, "max_components": 9}, "tol, max_components differ"),
        ({"search": "paper"}, "search, criterion, noise differ"),
        ({"noise_floor": 1e-3}, "noise_floor differs"),
        ({"prior_scale": [1.0, 2.0]}, "prior_scale differs"),
        ({"sample_weight": np.full(200, 2.0)}, "sample_weight differs"),
        ({"init": np.arange(200) % 2}, "init differs"),
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


def test_other_files_are_left_as_they_are(x, path):
    amofa.fit(x).save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is no checkpoint; it is left as it is: give another path"):
        amofa.fit(x, checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.skipif(records.fcntl is None, reason="the system has no locks")
def test_two_fits_in_one_file(x, path):
    def again(step):
        with pytest.raises(BlockingIOError, match="another fit is writing this checkpoint") as caught:
            amofa.fit(x, checkpoint=path)
        assert caught.value.filename == str(path)

    amofa.fit(x, checkpoint=path, callback=again)
    amofa.fit(x, checkpoint=path)


def test_paths_that_are_refused(x, tmp_path):
    with pytest.raises(TypeError, match="checkpoint must be a path, got 3"):
        amofa.fit(x, checkpoint=3)
    with pytest.raises(TypeError, match="checkpoint must be a path, got b"):
        amofa.fit(x, checkpoint=b"file")
    with pytest.raises(FileNotFoundError):
        amofa.fit(x, checkpoint=tmp_path / "none" / "file")
    with pytest.raises(OSError, match=r"directory|denied"):
        amofa.fit(x, checkpoint=tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_regular_file(x, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        amofa.fit(x, checkpoint=tmp_path / "pipe")


def test_errors_of_arguments_come_before_the_file(x, path):
    with pytest.raises(ValueError, match="NaN"):
        amofa.fit(np.full((3, 2), np.nan), checkpoint=path)
    assert not path.exists()


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_damage_costs_what_comes_after_it(x, path, rng):
    plain = amofa.fit(x, checkpoint=path)
    whole, first = path.read_bytes(), ends_of_records(path)[0]
    for place in rng.integers(first, len(whole), size=20).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        assert_same(amofa.fit(x, checkpoint=path), plain)


def test_a_checkpoint_without_a_model(x, path):
    amofa.fit(x, checkpoint=path)
    path.write_bytes(path.read_bytes()[: ends_of_records(path)[0]])
    with pytest.raises(ValueError, match="a checkpoint in which there is no model yet"):
        amofa.load(path)
    path.write_bytes(records.MAGIC)
    with pytest.raises(ValueError, match="there is no model yet"):
        amofa.load(path)


def test_links_are_followed(x, path, tmp_path):
    link = tmp_path / "link"
    try:
        link.symlink_to(path)
    except OSError:
        pytest.skip("the system makes no links")
    plain = amofa.fit(x, checkpoint=link)
    assert link.is_symlink()
    assert_same(amofa.load(path), plain)


def test_what_has_ended_needs_no_time(x, path):
    plain = amofa.fit(x, checkpoint=path)
    assert_same(amofa.fit(x, checkpoint=path, max_time=1e-9), plain)


@pytest.mark.parametrize("content", [b"[]", b"null", b"{", b"\xff", b"[" * 100_000])
def test_a_forged_first_record(x, path, content):
    file = records.RecordFile(str(path))
    file.append(b"fit.", content)
    file.close()
    with pytest.raises(ValueError, match=r"is damaged; delete it|is the checkpoint of another fit"):
        amofa.fit(x, checkpoint=path)


@pytest.mark.parametrize("content", [b"", b"none", b"PK\x03\x04"])
def test_forged_answers(x, path, content):
    amofa.fit(x, checkpoint=path)
    with open(path, "rb") as file:
        there = [(r.tag, records.read(file, r)) for r in records.whole_records(file)]
    path.unlink()
    file = records.RecordFile(str(path))
    for tag, old in there:
        file.append(tag, old[:16] + content if tag == b"work" else old)
    file.close()
    with pytest.raises(ValueError, match="is damaged; delete it or give another path"):
        amofa.fit(x, checkpoint=path)


@pytest.mark.parametrize("value", ["", "a\0b"])
def test_paths_of_nothing(x, value):
    with pytest.raises(ValueError, match="checkpoint must be a path of a file"):
        amofa.fit(x, checkpoint=value)
