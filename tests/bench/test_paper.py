"""The logic of bench/paper.py: results that outlast a stop, tests of significance, folds, the report."""

import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
from scipy.stats import binom, t

pytest.importorskip("sklearn", reason="bench/paper.py compares with scikit-learn")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import paper
import paper_data
import paper_report
from paper_results import Result, ResultsFile, Unit, scores
from paper_statistics import is_better, marks, paired_t, record, sign_test

import amofa


def a_result(data="example1", number=0, method="amofa", score=0.25, components="3"):
    return Result(data, number, method, score, components, "1 1 0", -3.5, 0.1, "1.0")


def run_paper(out, *more):
    return paper.main(["example1", "--quick", "--methods", "amofa-paper", "--out", str(out), *more])


# ---- results ---------------------------------------------------------------------------------------------------------


def test_results_are_read_as_they_were_written(tmp_path):
    kept = [a_result(number=n, components=components) for n, components in enumerate(("3", "1 2 3"))]
    file = ResultsFile(tmp_path / "results.csv")
    for result in kept:
        file.add(result)
    again = ResultsFile(tmp_path / "results.csv")
    assert again.of("example1") == kept
    assert again.results == file.results
    assert again.of("example1")[1].n_components == [1, 2, 3]


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_line_that_was_cut_off_is_dropped(tmp_path, cut):
    path = tmp_path / "results.csv"
    file = ResultsFile(path)
    file.add(a_result(number=0))
    file.add(a_result(number=1))
    path.write_bytes(path.read_bytes()[:-cut])
    again = ResultsFile(path)
    assert list(again.results) == [Unit("example1", 0, "amofa")]
    again.add(a_result(number=1))
    assert ResultsFile(path).results == file.results


def test_a_header_that_was_cut_off_is_written_again(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("data,numb")
    ResultsFile(path).add(a_result())
    assert ResultsFile(path).of("example1") == [a_result()]


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="other columns"):
        ResultsFile(path)


def test_scores_are_of_common_units():
    results = [a_result(number=n, score=n) for n in range(3)]
    results += [a_result(number=n, method="ulfmm", score=10 * n) for n in (1, 2, 3)]
    found = scores(results, ["ulfmm", "amofa", "imofa"])
    assert {method: values.tolist() for method, values in found.items()} == {"ulfmm": [10, 20], "amofa": [1, 2]}


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_where_it_was(tmp_path, monkeypatch):
    assert run_paper(tmp_path) == 0
    path = tmp_path / "results.csv"
    first = ResultsFile(path)
    assert [result.n_components for result in first.of("example1")] == [[3]] * paper.QUICK_SETS
    assert "Example 1" in (tmp_path / "report.md").read_text()

    done = []

    def do(folder, unit):
        done.append(unit)
        return a_result(number=unit.number, method=unit.method)

    monkeypatch.setattr(paper, "do", do)
    assert run_paper(tmp_path) == 0
    assert done == []
    path.write_bytes(path.read_bytes()[:-3])
    assert run_paper(tmp_path) == 0
    assert done == [Unit("example1", paper.QUICK_SETS - 1, "amofa-paper")]
    assert ResultsFile(path).results.keys() == first.results.keys()


def test_what_failed_is_named_and_done_again(tmp_path, monkeypatch, capsys):
    def do(folder, unit):
        if unit.number == 1:
            raise FloatingPointError("no luck")
        return a_result(number=unit.number, method=unit.method)

    monkeypatch.setattr(paper, "do", do)
    assert run_paper(tmp_path) == 1
    assert "FAILED: example1 1, AMoFA, paper: FloatingPointError: no luck" in capsys.readouterr().err
    assert [result.number for result in ResultsFile(tmp_path / "results.csv").of("example1")] == [0, 2]


def test_a_stopped_run_leaves_its_results_and_a_report(tmp_path, monkeypatch):
    def do(folder, unit):
        if unit.number == 1:
            raise KeyboardInterrupt
        return a_result(number=unit.number, method=unit.method)

    monkeypatch.setattr(paper, "do", do)
    with pytest.raises(KeyboardInterrupt):
        run_paper(tmp_path)
    assert len(ResultsFile(tmp_path / "results.csv").results) == 1
    assert "1 of 100 sets" in (tmp_path / "report.md").read_text()


def test_example_2_is_drawn_where_the_authors_sets_are_not_there(tmp_path):
    options = paper.parsed(["example2", "--quick", "--data", str(tmp_path)])
    assert {unit.data for unit in paper.units(options)} == {"example2-drawn"}
    np.savez(tmp_path / "4ovGauss.npz", X=np.zeros((100, 4, 2)), y=np.zeros((100, 4), dtype=np.uint8))
    assert {unit.data for unit in paper.units(options)} == {"example2"}


def test_classification_of_a_set(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60, dtype=np.uint8) % 2
    np.savez(tmp_path / "lvq.npz", X=(rng.normal(size=(60, 3)) + 20 * y[:, None]).astype(np.float32), y=y)
    arguments = ["--data", str(tmp_path), "--out", str(tmp_path), "--methods", "mog-d", "mog-f", "amofa-paper"]
    assert paper.main(["classification", "--quick", "--sets", "LVQ", "WAV", *arguments]) == 0
    results = ResultsFile(tmp_path / "results.csv").of("LVQ")
    assert [(result.score, result.n_components) for result in results] == [(100.0, [1, 1])] * 6
    # Of another set there is no file.
    assert {result.data for result in ResultsFile(tmp_path / "results.csv").results.values()} == {"LVQ"}


def test_folds_are_tenths_in_order_the_last_with_the_rest(tmp_path):
    X, y = np.arange(34.0)[:, None], np.arange(34, dtype=np.uint8)
    np.savez(tmp_path / "letter.npz", X=X, y=y)
    folds = [paper_data.fold(tmp_path, "LET", number) for number in range(paper_data.n_folds("LET"))]
    assert [len(fold.y_test) for fold in folds] == [3] * 9 + [7]
    assert np.concatenate([fold.y_test for fold in folds]).tolist() == y.tolist()
    for fold in folds:
        assert sorted([*fold.y, *fold.y_test]) == y.tolist()
        np.testing.assert_array_equal(fold.X_test[:, 0], fold.y_test)


# ---- tests of significance -------------------------------------------------------------------------------------------


def test_paired_t_is_students(rng):
    a, b = rng.normal(size=(2, 10))
    difference = a - b
    statistic = difference.mean() / (difference.std(ddof=1) / np.sqrt(10))
    assert paired_t(a, b) == pytest.approx(2 * t.sf(abs(statistic), 9))
    assert paired_t(a, b, "greater") == pytest.approx(t.sf(statistic, 9))


def test_paired_t_of_differences_that_are_all_the_same():
    a = np.array([0.5, 0.25])
    assert (paired_t(a, a), paired_t(a + 1, a), paired_t(a, a + 1, "greater")) == (1, 0, 1)
    assert np.isnan(paired_t(a[:1], a[:1]))
    assert not is_better(a[:1], a[:1] - 1)


def test_marks():
    base = np.array([90.0, 91.0, 92.0, 93.0])
    noise = np.array([1.0, -1.0, 1.5, -1.0])
    alone = marks({"low": base, "lower": base - 20, "high": base + 10 + noise / 100})
    assert alone == {"high": "best**", "low": "", "lower": ""}
    # p = 0.03 of the test against the runner-up.
    assert marks({"low": base, "high": base + 1.5 + noise}) == {"high": "best*", "low": ""}
    assert marks({"low": base, "lower": base - 20, "high": base + noise}) == {
        "high": "best",
        "low": "best",
        "lower": "",
    }
    assert marks({"only": base}) == {"only": "best"}


def test_records():
    base = np.array([90.0, 91.0, 92.0])
    noise = np.array([0.3, -0.2, 0.1])
    a = {"x": base + 10 + noise, "y": base + noise, "z": base - 10 + noise, "not in b": base}
    b = {"x": base, "y": base, "z": base}
    assert (str(record(a, b)), str(record(b, a))) == ("1/1/1", "1/1/1")
    assert record({"x": a["x"]}, b) == (1, 0, 0)
    assert record(b, {"x": a["x"]}) == (0, 0, 1)


def test_sign_test():
    found = sign_test(np.array([2.0, 2, 2, 2, 2, 0, 1]), np.array([1.0, 1, 1, 1, 1, 1, 1]))
    assert found[:2] == (5, 1)
    assert found.p == pytest.approx(2 * binom.cdf(1, 6, 0.5))
    assert sign_test(np.ones(3), np.ones(3)) == (0, 0, 1.0)


# ---- report ----------------------------------------------------------------------------------------------------------


def test_published_figures_are_whole():
    methods = ("imofa", "vbmofa", "amofa-paper", "ulfmm", "mog-d", "mog-f")
    for data in paper_data.CLASSIFICATION_SETS:
        accuracies = {m: float(paper_report.PUBLISHED[data, m, "accuracy"][0].value) for m in methods}
        leader = max(accuracies, key=accuracies.__getitem__)
        assert paper_report.PUBLISHED[data, leader, "accuracy"][0].mark.startswith("best")
    records = [figures[0].value for (data, _, _), figures in paper_report.PUBLISHED.items() if data == "nine sets"]
    assert len(records) == 15
    assert all(sum(map(int, value.split("/"))) == 9 for value in records)


def test_report_sets_published_and_measured_side_by_side(tmp_path):
    file = ResultsFile(tmp_path / "results.csv")
    for number, (ours, theirs) in enumerate([(0.25, 0.35), (0.26, 0.30), (0.27, 0.31)]):
        file.add(a_result("example2", number, "amofa-paper", ours, "4"))
        file.add(a_result("example2", number, "ulfmm", theirs, "4" if number else "5"))
        file.add(a_result("JPN", number, "amofa-paper", 96.0 + number, "1 1"))
        file.add(a_result("JPN", number, "mog-f", 86.0 + 1.2 * number, "1 1"))
    text = paper_report.report(file, ("example2", "classification"))
    assert "| AMoFA, paper | 3 | 3 of 3 [92; 92] | 4 (3) | 0.2600 ± 0.0100 [0.2549; 0.2549] | 0.1 |" in text
    assert "| ULFMM | 3 | 2 of 3 [56; 61] | 4 (2), 5 (1) | 0.3200 ± 0.0265 [0.2951; 0.2911] | 0.1 |" in text
    assert "| AMoFA, paper |  | -0.0600, p = 0.095 |" in text
    assert r"| JPN | measured, 3 of 10 | **97.0 ± 1.0**\*\* | 87.2 ± 1.2 |" in text
    assert r"| JPN | published | **96.5 ± 2.2**\* | 92.3 ± 2.3 |" in text
    assert "| AMoFA, paper | 1/0/0 [5/3/1] |" in text
    assert "| AMoFA, paper | 1, 0, p = 1 |" in text
    assert "- ORL: ORL faces, gender, not available" in text
    assert "- VIS: VISTEX textures, not available" in text
    assert "- LET: letters, not run" in text


def test_report_of_one_split_has_no_tests(tmp_path):
    file = ResultsFile(tmp_path / "results.csv")
    file.add(a_result("MNT", 0, "amofa-paper", 94.0, "1 1"))
    file.add(a_result("MNT", 0, "mog-f", 93.0, "1 1"))
    text = paper_report.report(file, ("classification",))
    assert "| MNT | measured, 1 of 1 | 94.0 | 93.0 |" in text
    assert "| AMoFA, paper | 0/0/0 [5/3/1] |" in text


def test_figures():
    """Every accepted model has a panel; the ellipses of a sample result are those of the model."""
    pytest.importorskip("matplotlib", reason="the figures are drawn with matplotlib")
    import paper_figures

    X, y = datasets.example_1(np.random.default_rng(0))
    figure = paper_figures.evolution(X, "paper")
    accepted = [step for step in amofa.fit(X, search="paper").history if step.accepted]
    shown = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert shown == [f"{step.action}: {step.cost:.1f}" for step in accepted]
    result = paper_figures.sample_result(X, y)
    assert len(result.axes[0].get_lines()) == 2 * amofa.fit(X).n_components
