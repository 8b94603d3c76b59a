"""The learner of examples/river_style."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "river_style"


@pytest.fixture
def learner_class(monkeypatch):
    if not EXAMPLE.is_dir():
        pytest.skip("not a checkout")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return runpy.run_path(str(EXAMPLE / "river_style.py"))["OnlineMixture"]


def test_the_check_of_the_example_passes(learner_class, capsys):
    runpy.run_path(str(EXAMPLE / "check.py"))
    assert "n_components=3" in capsys.readouterr().out


def test_rows_come_in_frames_too(learner_class, rng):
    pandas = pytest.importorskip("pandas")
    learner = learner_class(memory=500.0)
    assert (learner.predict_one({"a": 1.0}), learner.score_one({"a": 1.0})) == (0, 0.0)
    frame = pandas.DataFrame(rng.normal([[0, 5]], 1, (600, 2)), columns=["a", "b"])
    learner.learn_many(frame)
    learner.learn_many(frame[["b", "a"]])
    assert learner.stream.n_samples == 1200
    assert learner.score_one({"a": 5.0, "b": 0.0}) > learner.score_one({"b": 5.0, "a": 0.0})
