"""The logic of bench/paper.py: results that outlast a stop, tests of significance, folds, the report."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

pytest.importorskip("sklearn", reason="bench/paper.py compares with scikit-learn")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import paper
import paper_data
import paper_report
from paper_results import Result, ResultsFile, Unit
from paper_statistics import marks, paired_t


def a_result(data="example1", number=0, method="amofa", score=0.25, components="3"):
    return Result(data, number, method, score, components, "1 1 0", -3.5, 0.1, "1.0")


def run_paper(out, *more):
    return paper.main(["example1", "--quick", "--methods", "amofa-paper", "--out", str(out), *more])


# ---- results ---------------------------------------------------------------------------------------------------------


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


# ---- report ----------------------------------------------------------------------------------------------------------


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
