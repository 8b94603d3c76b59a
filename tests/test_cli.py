"""The command line: every command and format, JSON, and one line and status 2 for whatever is wrong."""

import io
import json
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

import amofa
from amofa import cli
from amofa.demo import demonstrate, example_2

COMMANDS = ("demo", "fit", "predict", "score", "describe", "sample")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """All commands run in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rows(rng):
    """Two groups far apart, (300, 2)."""
    return np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(30, 1, (100, 2))])


@pytest.fixture
def mixture():
    """A mixture of two components far apart, one without factors."""
    return amofa.MixtureOfFactorAnalyzers(
        [0.75, 0.25], [[0.0, 0.0], [30.0, 30.0]], [[[1.0], [0.5]], np.zeros((2, 0))], [[1.0, 1.0], [1.0, 2.0]]
    )


@pytest.fixture
def files(rows, mixture):
    """rows.csv, with header and text; rows.npy; model.npz."""
    lines = [f"{x!r},{y!r},{'big' if x > 15 else 'small'},2" for x, y in rows.tolist()]
    write("rows.csv", "\n".join(["x,y,size,w", *lines, ""]))
    np.save("rows.npy", rows)
    mixture.save("model.npz")


def write(name, content):
    with open(name, "w", encoding="utf-8") as file:
        file.write(content)


@pytest.fixture
def run(capsys):
    """The function run(*argv): what main prints, after a check that all went well and quietly."""

    def call(*argv):
        status = cli.main(argv)
        out, err = capsys.readouterr()
        assert (status, err) == (0, "")
        return out

    return call


@pytest.fixture
def refusal(capsys):
    """The function refusal(*argv): the one line on standard error, after a check that it is one and the status 2."""

    def call(*argv):
        status = cli.main(argv)
        out, err = capsys.readouterr()
        assert (status, out) == (2, "")
        assert err.startswith("amofa: error: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
        return err.removeprefix("amofa: error: ")[:-1]

    return call


def process(*argv, **options):
    """Run ``python -m amofa`` in the current folder."""
    return subprocess.run([sys.executable, "-m", "amofa", *argv], capture_output=True, timeout=60, **options)


def strict_json(text):
    """Parse the one line that is one JSON object, without the NaN and Infinity that Python's parser lets pass."""
    assert text.count("\n") == 1

    def fail(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=fail)


# ---- demo ------------------------------------------------------------------------------------------------------------


def test_demo(run):
    text = run("demo")
    result = demonstrate(0)
    for step in result.model.history:
        assert f"{step.message_length:.2f}" in text
        assert f"{step.log_likelihood:.2f}" in text
    assert f"{result.distance:.4f}" in text
    assert "(-4.00, -4.00)" in text
    assert text == run("demo", "--seed", "0")
    assert text != run("demo", "--seed", "1")


def test_demo_finds_the_clusters(run):
    values = strict_json(run("demo", "--json"))
    assert values["n_components"] == len(values["weights"]) == 4
    assert values["normalized_information_distance"] < 0.3
    np.testing.assert_array_equal(np.sum(values["contingency"], axis=1), [300, 300, 300, 100])
    assert values["history"][0]["action"] == "start"
    assert values["true_weights"] == [0.3, 0.3, 0.3, 0.1]


def test_demo_rows_are_drawn_from_the_clusters():
    draws = [example_2(seed) for seed in range(40)]
    X = np.concatenate([x for x, _ in draws])
    labels = np.concatenate([y for _, y in draws])
    for k, (mean, covariance) in enumerate(
        [
            ([-4, -4], [[0.8, 0.5], [0.5, 0.8]]),
            ([-4, -4], [[5, -2], [-2, 5]]),
            ([2, 2], [[2, -1], [-1, 2]]),
            ([-1, -6], [[0.125, 0], [0, 0.125]]),
        ]
    ):
        np.testing.assert_allclose(X[labels == k].mean(axis=0), mean, atol=0.1)
        np.testing.assert_allclose(np.cov(X[labels == k].T), covariance, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("n_components", [1, 2, 6])
def test_demo_report_of_any_number_of_components(monkeypatch, run, n_components):
    monkeypatch.setattr("amofa.demo.fit", lambda X: amofa.fit(X, n_components=n_components, n_factors=1))
    text = run("demo")
    assert f"Found: {n_components} components" in text
    assert text.count("none") == abs(n_components - 4)


# ---- fit -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_fit_writes_the_model_and_prints_its_summary(run, rows):
    text = run("fit", "rows.csv", "--columns", "x,y", "-o", "out.npz")
    expected, found = amofa.fit(rows), amofa.load("out.npz")
    assert text == f"{found.summary()}\n"
    assert found.log_likelihood == expected.log_likelihood
    assert found.feature_names == ("x", "y")


@pytest.mark.usefixtures("files")
def test_fit_json(run, rows):
    values = strict_json(run("fit", "rows.csv", "--columns", "x,y", "-o", "out.npz", "--json"))
    model = amofa.fit(rows)
    assert values["n_components"] == model.n_components
    assert values["n_features"] == 2
    assert values["n_factors"] == model.n_factors.tolist()
    assert values["weights"] == model.weights.tolist()
    assert values["message_length"] == model.message_length
    assert values["log_likelihood"] == model.log_likelihood
    assert values["n_parameters"] == model.n_parameters
    assert values["converged"] is True
    assert values["criterion"] == "evidence"
    assert values["n_samples"] == 300
    assert values["columns"] == ["x", "y"]
    assert values["output"] == "out.npz"
    assert len(values["history"]) == len(model.history)
    last = model.history[-1]
    assert values["history"][-1] == {
        "action": last.action,
        "component": last.component,
        "n_components": last.n_components,
        "n_factors": list(last.n_factors),
        "cost": last.cost,
        "message_length": last.message_length,
        "log_likelihood": last.log_likelihood,
        "n_iter": last.n_iter,
        "accepted": last.accepted,
    }


@pytest.mark.usefixtures("files")
def test_fit_without_output_writes_nothing(run, folder):
    before = sorted(folder.iterdir())
    assert strict_json(run("fit", "rows.npy", "--json"))["output"] is None
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["--n-components", "3", "--n-factors", "1"], {"n_components": 3, "n_factors": 1}),
        (["--n-factors", "1,2"], {"n_factors": (1, 2)}),
        (["--search", "paper", "--criterion", "bic"], {"search": "paper", "criterion": "bic"}),
        (["--noise-floor", "0.01"], {"noise_floor": 0.01}),
        (["--noise-floor", "0.5,2"], {"noise_floor": [0.5, 2]}),
        (["--max-components", "1", "--max-factors", "1"], {"max_components": 1, "max_factors": 1}),
        (["--tol", "1e-3", "--max-iter", "200"], {"tol": 1e-3, "max_iter": 200}),
    ],
)
@pytest.mark.usefixtures("files")
def test_fit_options(run, rows, options, arguments):
    run("fit", "rows.npy", "-o", "out.npz", *options)
    found, expected = amofa.load("out.npz"), amofa.fit(rows, **arguments)
    assert found.n_factors.tolist() == expected.n_factors.tolist()
    assert found.log_likelihood == expected.log_likelihood
    assert found.criterion == expected.criterion
    assert len(found.history) == len(expected.history)


@pytest.mark.usefixtures("files")
def test_fit_with_weights(run, rows):
    values = strict_json(run("fit", "rows.csv", "--columns", "0-1", "--weights", "w", "--json"))
    assert values["n_samples"] == 600
    expected = amofa.fit(rows, sample_weight=np.full(300, 2.0))
    # The columns lie apart in memory, which changes the order of sums.
    assert values["log_likelihood"] == pytest.approx(expected.log_likelihood, rel=1e-9)
    assert values["n_factors"] == expected.n_factors.tolist()


@pytest.mark.usefixtures("files")
def test_fit_reads_all_formats(run, rows, monkeypatch):
    expected = run("fit", "rows.npy", "--json")
    np.savez("rows.npz", rows=rows, labels=rows[:, 0] > 15)
    np.savez("two.npz", rows=rows, others=rows + 1)
    text = {d: "".join(f"{x!r}{d}{y!r}\n" for x, y in rows.tolist()) for d in ",\t |"}
    write("plain.csv", text[","])
    write("rows.tsv", text["\t"])
    write("rows.dat", text[" "])
    write("bars.csv", text["|"])
    for arguments in (
        ["rows.npz"],
        ["two.npz", "--key", "rows"],
        ["plain.csv"],
        ["rows.tsv"],
        ["rows.dat"],
        ["bars.csv", "--delimiter", "|"],
    ):
        assert run("fit", *arguments, "--json") == expected
    for name in ("tab", "\\t"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text["\t"].encode())))
        assert run("fit", "-", "--delimiter", name, "--json") == expected


@pytest.mark.usefixtures("files")
def test_columns_with_commas_in_their_names(run):
    write("x.csv", '"a, b",c\n1,2\n3,5\n4,9\n')
    assert strict_json(run("fit", "x.csv", "--columns", '"a, b"', "--json"))["columns"] == ["a, b"]


def test_warnings_are_lines_on_standard_error(capsys, rows):
    np.save("rows.npy", np.column_stack([rows, np.ones(300)]))
    assert cli.main(["fit", "rows.npy", "--search", "paper", "--max-iter", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    strict_json(out)
    assert [line.startswith("amofa: warning: ") for line in err.splitlines()] == [True] * 2
    assert "1 of 3 columns of X are constant" in err
    assert "did not converge" in err


def test_warnings_of_others_are_not_hidden(monkeypatch):
    monkeypatch.setattr("amofa.demo.demonstrate", lambda seed: warnings.warn("other", RuntimeWarning, stacklevel=1))
    with pytest.raises(RuntimeWarning, match="other"):
        cli.main(["demo"])


# ---- predict ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_predict_prints_labels(run, rows):
    assert run("predict", "model.npz", "rows.npy") == "".join(f"{int(x > 15)}\n" for x in rows[:, 0])
    assert run("predict", "model.npz", "rows.csv", "--columns", "x,y", "-o", "-") == run(
        "predict", "model.npz", "rows.npy"
    )


@pytest.mark.usefixtures("files")
def test_predict_probabilities_and_scores(run, rows, mixture):
    lines = run("predict", "model.npz", "rows.npy", "--proba", "--scores").splitlines()
    assert lines[0] == "label,p0,p1,z0_0"
    values = np.array([line.split(",") for line in lines[1:]], dtype=float)
    np.testing.assert_array_equal(values[:, 0], mixture.predict(rows))
    np.testing.assert_array_equal(values[:, 1:3], mixture.predict_proba(rows))
    np.testing.assert_array_equal(values[:, 3:], mixture.factor_scores(rows)[0])
    assert lines[1].startswith("0,")


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.npy", "out"])
@pytest.mark.usefixtures("files")
def test_predict_to_a_file(run, rows, mixture, name):
    assert run("predict", "model.npz", "rows.npy", "--proba", "-o", name) == ""
    if name == "out.npy":
        table = np.load(name)
    else:
        table = np.loadtxt(name, delimiter="\t" if name == "out.tsv" else ",", skiprows=1)
    np.testing.assert_array_equal(table[:, 1:], mixture.predict_proba(rows))


@pytest.mark.usefixtures("files")
def test_predict_labels_to_npy(run, rows, mixture):
    run("predict", "model.npz", "rows.npy", "--output", "out.npy")
    np.testing.assert_array_equal(np.load("out.npy"), mixture.predict(rows))
    assert np.load("out.npy").dtype.kind == "i"


@pytest.mark.usefixtures("files")
def test_predict_json(run, rows, mixture):
    values = strict_json(run("predict", "model.npz", "rows.npy", "--json"))
    assert values == {"n_rows": 300, "counts": [200, 100], "output": None, "labels": mixture.predict(rows).tolist()}
    values = strict_json(run("predict", "model.npz", "rows.npy", "--json", "--proba", "--scores"))
    assert values["probabilities"] == mixture.predict_proba(rows).tolist()
    assert values["factor_scores"] == [scores.tolist() for scores in mixture.factor_scores(rows)]
    values = strict_json(run("predict", "model.npz", "rows.npy", "--json", "-o", "out.csv"))
    assert values == {"n_rows": 300, "counts": [200, 100], "output": "out.csv"}
    np.testing.assert_array_equal(np.loadtxt("out.csv"), mixture.predict(rows))


# ---- score -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_score(run, rows, mixture):
    text = run("score", "model.npz", "rows.npy")
    for value in (
        mixture.score(rows),
        300 * mixture.score(rows),
        mixture.bic(rows),
        mixture.aic(rows),
        mixture.icl(rows),
    ):
        assert f"{value:.4f}" in text
    assert text.count("lower is better") == 3
    assert text.count("higher is better") == 2


@pytest.mark.usefixtures("files")
def test_score_json(run, rows, mixture):
    values = strict_json(run("score", "model.npz", "rows.npy", "--json"))
    assert values == {
        "n_samples": 300,
        "mean_log_density": mixture.score(rows),
        "log_likelihood": 300 * mixture.score(rows),
        "bic": mixture.bic(rows),
        "aic": mixture.aic(rows),
        "icl": mixture.icl(rows),
    }
    values = strict_json(run("score", "model.npz", "rows.npy", "--json", "--per-row"))
    assert values["log_densities"] == mixture.score_samples(rows).tolist()
    assert values["bic"] == mixture.bic(rows)


@pytest.mark.usefixtures("files")
def test_score_of_rows(run, rows, mixture):
    lines = run("score", "model.npz", "rows.npy", "--per-row").splitlines()
    assert [float(line) for line in lines] == mixture.score_samples(rows).tolist()


@pytest.mark.usefixtures("files")
def test_score_with_weights(run, rows, mixture):
    values = strict_json(run("score", "model.npz", "rows.csv", "--columns", "x,y", "--weights", "w", "--json"))
    assert values["n_samples"] == 600
    assert values["bic"] == mixture.bic(rows, np.full(300, 2.0))


@pytest.mark.usefixtures("files")
def test_what_is_not_finite_is_null_in_json(run):
    write("far.csv", "1e300,0\n")
    values = strict_json(run("score", "model.npz", "far.csv", "--json", "--per-row"))
    assert values["log_likelihood"] is None
    assert values["log_densities"] == [None]


# ---- describe and sample ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_describe(run, mixture):
    assert run("describe", "model.npz") == f"{mixture.summary()}\n"
    values = strict_json(run("describe", "model.npz", "--json"))
    assert values["weights"] == mixture.weights.tolist()
    assert values["means"] == mixture.means.tolist()
    assert values["loadings"] == [loadings.tolist() for loadings in mixture.loadings]
    assert values["uniquenesses"] == mixture.uniquenesses.tolist()
    assert values["message_length"] is None
    assert values["history"] == []


@pytest.mark.usefixtures("files")
def test_describe_is_the_summary_of_the_fit(run):
    assert run("fit", "rows.npy", "-o", "out.npz") == run("describe", "out.npz")


@pytest.mark.usefixtures("files")
def test_sample(run, mixture):
    lines = run("sample", "model.npz", "50", "--seed", "3").splitlines()
    assert lines[0] == "x0,x1"
    X, labels = mixture.sample(50, 3)
    np.testing.assert_array_equal(np.array([line.split(",") for line in lines[1:]], dtype=float), X)
    run("sample", "model.npz", "50", "--seed", "3", "--labels", "-o", "out.csv")
    table = np.loadtxt("out.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(table, np.column_stack([X, labels]))
    run("sample", "model.npz", "50", "--seed", "3", "-o", "out.npy")
    np.testing.assert_array_equal(np.load("out.npy"), X)


@pytest.mark.usefixtures("files")
def test_samples_without_seed_differ(run):
    assert run("sample", "model.npz", "5") != run("sample", "model.npz", "5")
    assert run("sample", "model.npz", "0", "--labels") == "x0,x1,label\n"


# ---- help ------------------------------------------------------------------------------------------------------------


def test_no_arguments_print_help(capsys):
    assert cli.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: amofa ")
    for name in COMMANDS:
        assert f"\n    {name} " in err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(capsys, name):
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: amofa {name} ")
    assert f"example:\n  amofa {name}" in text


def test_help_tells_defaults_of_fit(capsys):
    with pytest.raises(SystemExit):
        cli.main(["fit", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "nats per row (default: 1e-05)" in text
    assert "--n-components K" in text


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"amofa {amofa.__version__}\n"


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("nonsense", "argument COMMAND: invalid choice: 'nonsense'"),
        ("--nonsense", "unrecognized arguments: --nonsense"),
        ("fit", "the following arguments are required: FILE (see amofa fit --help)"),
        ("fit rows.npy --nonsense", "unrecognized arguments: --nonsense"),
        ("fit rows.npy --max 3", "unrecognized arguments: --max 3"),
        ("fit rows.npy -o", "argument -o/--output: expected one argument"),
        ("fit rows.npy --n-components two", "argument --n-components: invalid int value: 'two'"),
        ("fit rows.npy --n-components 0", "n_components must be at least 1, got 0"),
        ("fit rows.npy --n-factors 1,x", "argument --n-factors: '1,x' is not one int, nor several with commas"),
        ("fit rows.npy --n-factors 9", "n_factors must be from 0 to 2, got 9"),
        ("fit rows.npy --n-factors 1,1 --n-components 3", "n_factors has 2 entries"),
        ("fit rows.npy --search best", "search must be one of "),
        ("fit rows.npy --criterion best", "criterion must be one of "),
        ("fit rows.npy --noise-floor -1", "noise_floor must be positive and finite, got -1.0"),
        ("fit rows.npy --noise-floor 1,2,3", "noise_floor has shape (3,)"),
        ("fit rows.npy --noise-floor 1,x", "argument --noise-floor: '1,x' is not one float, nor several with commas"),
        ("fit rows.npy --max-components 0", "max_components must be at least 1, got 0"),
        ("fit rows.npy --max-factors -1", "max_factors must be at least 0, got -1"),
        ("fit rows.npy --tol nan", "tol must be positive and finite, got nan"),
        ("fit rows.npy --max-iter 0", "max_iter must be at least 1, got 0"),
        ("fit rows.npy --columns 0,,1", "argument --columns: '0,,1' is not a list of columns with commas"),
        ("fit rows.npy --columns ", "argument --columns: '' is not a list of columns with commas"),
        ("fit rows.npy --columns 2", "rows.npy has no column 2; columns are numbered from 0 to 1"),
        ("fit rows.npy --weights w", "rows.npy has no column 'w'"),
        ("fit rows.npy --key a", "rows.npy is not an .npz file"),
        ("fit rows.npy --delimiter ,", "rows.npy is not a text file"),
        ("fit rows.csv --delimiter ab", "delimiter must be one character that is no part of a number, got 'ab'"),
        ("fit rows.csv", "rows.csv, line 2, column 'size': 'small' is not a number"),
        ("fit rows.csv --columns x,z", "rows.csv has no column 'z'; columns are numbered from 0 to 3 and named x, y"),
        ("fit no.csv", "no.csv: No such file or directory"),
        ("fit .", ".: Is a directory"),
        ("fit rows.npy -o no/model.npz", "no/model.npz: there is no folder no"),
        ("fit rows.npy -o .", ". is a folder, not a file"),
        ("fit rows.npy -o rows.npy", "rows.npy is read and cannot be the output too"),
        ("fit rows.npy -o -", "- is not a regular file; models are written to such files only"),
        ("fit rows.npy -o /dev/null", "/dev/null is not a regular file; models are written to such files only"),
        ("predict model.npz", "the following arguments are required: FILE (see amofa predict --help)"),
        ("predict no.npz rows.npy", "no.npz: No such file or directory"),
        ("predict rows.npy rows.npy", "rows.npy is not a model file of amofa, or is damaged"),
        ("predict rows.csv rows.npy", "rows.csv is not a model file of amofa, or is damaged"),
        ("predict model.npz model.npz", "model.npz holds several tables"),
        ("predict model.npz rows.csv --columns x", "rows.csv has 1 columns, but the model was made for 2"),
        ("predict model.npz rows.npy -o no/out.csv", "no/out.csv: there is no folder no"),
        ("predict model.npz rows.npy -o model.npz", "model.npz is read and cannot be the output too"),
        ("predict model.npz rows.npy -o out.npz", "out.npz: tables are written as text (.csv, .tsv) or as .npy"),
        ("score model.npz rows.csv --columns w", "rows.csv has 1 columns, but the model was made for 2"),
        ("score model.npz rows.csv --columns x,y --weights size", "rows.csv, line 2, column 'size': 'small' is not"),
        ("describe no.npz", "no.npz: No such file or directory"),
        ("describe .", ".: Is a directory"),
        ("sample model.npz", "the following arguments are required: N (see amofa sample --help)"),
        ("sample model.npz x", "argument N: invalid int value: 'x'"),
        ("sample model.npz 3 --seed -1", "expected non-negative integer"),
        ("sample model.npz 3 -o no/out.csv", "no/out.csv: there is no folder no"),
        ("demo --seed x", "argument --seed: invalid int value: 'x'"),
        ("demo --seed -1", "expected non-negative integer"),
    ],
)
@pytest.mark.usefixtures("files")
def test_refusals(refusal, argv, message):
    assert refusal(*argv.split(" ")).startswith(message)


@pytest.mark.usefixtures("files")
def test_negative_number_of_samples(refusal):
    assert refusal("sample", "model.npz", "--", "-3") == "n must not be negative, got -3"


@pytest.mark.parametrize("n", ["1000000000000000", "1" + "0" * 40])
@pytest.mark.usefixtures("files")
def test_more_samples_than_memory(refusal, n):
    assert refusal("sample", "model.npz", n)


def test_memory_error_without_words(monkeypatch, refusal):
    def fail(seed):
        raise MemoryError

    monkeypatch.setattr("amofa.demo.demonstrate", fail)
    assert refusal("demo") == "there is not enough memory"


def test_values_that_are_missing(refusal):
    write("x.csv", "a,b\n1,2\n3,\n")
    assert refusal("fit", "x.csv") == "x.csv, line 3, column 'b': the value is missing"
    np.save("x.npy", [[1.0, np.nan]])
    assert refusal("fit", "x.npy").startswith("x.npy has 1 value that is NaN or infinite, the first in row 0, column 1")


def test_weights_that_cannot_be(refusal):
    write("x.csv", "a,w\n1,1\n2,-1\n")
    assert refusal("fit", "x.csv", "--weights", "w").startswith("sample_weight must be finite and not negative")


@pytest.mark.usefixtures("files")
def test_damaged_model(refusal, folder):
    content = (folder / "model.npz").read_bytes()
    for part in (b"", content[:100], content[:-30], content[:500] + b"x" + content[501:]):
        (folder / "bad.npz").write_bytes(part)
        for argv in (["describe"], ["predict", "rows.npy"], ["score", "rows.npy"], ["sample", "3"]):
            assert refusal(argv[0], "bad.npz", *argv[1:]).startswith("bad.npz ")


def test_an_error_is_one_line_whatever_its_words(refusal):
    write("x.csv", '"a\nb",c\n1,x\n')
    assert refusal("fit", "x.csv", "--columns", "d").endswith(" named a b, c")
    assert refusal("fit", "x.csv", "--columns", "c\nd").startswith(
        "argument --columns: 'c\\nd' is not a list of columns"
    )


def test_a_model_that_cannot_be_written_is_told_by_its_own_name(refusal, rows, monkeypatch):
    np.save("rows.npy", rows)

    def fail(file, **arrays):
        raise OSError(28, "No space left on device", ".amofa-0123.tmp")

    monkeypatch.setattr("amofa.io.np.savez", fail)
    assert refusal("fit", "rows.npy", "-o", "out.npz") == "out.npz: No space left on device"


def test_interrupt(monkeypatch, capsys):
    def interrupt(seed):
        raise KeyboardInterrupt

    monkeypatch.setattr("amofa.demo.demonstrate", interrupt)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr() == ("", "")


def test_mistakes_of_the_program_are_not_hidden(monkeypatch):
    def fail(seed):
        raise TypeError("a mistake")

    monkeypatch.setattr("amofa.demo.demonstrate", fail)
    with pytest.raises(TypeError, match="a mistake"):
        cli.main(["demo"])


# ---- as a process ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_processes_in_a_pipe(rows):
    drawn = process("sample", "model.npz", "400", "--seed", "1")
    assert (drawn.returncode, drawn.stderr) == (0, b"")
    fitted = process("fit", "-", "-o", "out.npz", "--json", input=drawn.stdout)
    assert (fitted.returncode, fitted.stderr) == (0, b"")
    assert strict_json(fitted.stdout.decode())["n_components"] == amofa.load("out.npz").n_components
    labels = process("predict", "out.npz", "rows.npy")
    assert len(labels.stdout.splitlines()) == len(rows)


@pytest.mark.parametrize(
    ("argv", "status", "out", "err"),
    [
        (["--version"], 0, f"amofa {amofa.__version__}\n", ""),
        (["fit", "no.csv"], 2, "", "amofa: error: no.csv: No such file or directory\n"),
        (["fit", "-"], 2, "", "amofa: error: standard input holds no rows\n"),
    ],
)
def test_status_of_processes(argv, status, out, err):
    done = process(*argv, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (status, out, err)


def test_demo_as_a_process():
    done = process("demo", env={**os.environ, "PYTHONWARNINGS": "error"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Found: 4 components" in done.stdout


@pytest.mark.parametrize("argv", [["sample", "model.npz", "100000"], ["demo"], ["--help"]])
@pytest.mark.usefixtures("files")
def test_a_reader_that_has_gone(argv):
    # Without a buffer, argparse would be the one to notice, and it keeps quiet about it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "amofa", *argv],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device that is always full")
@pytest.mark.usefixtures("files")
def test_output_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        for argv in (["demo"], ["sample", "model.npz", "100000"]):
            done = subprocess.run(
                [sys.executable, "-m", "amofa", *argv], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
            )
            assert (done.returncode, done.stderr) == (2, b"amofa: error: [Errno 28] No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs pipes in the file system")
def test_a_pipe_is_read_once(rows):
    # All is written before there is a reader, which fits into the pipe, so that nothing can wait for ever.
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as pipe:
        np.savetxt(pipe, rows, delimiter=",")
    done = process("fit", f"/dev/fd/{read_end}", "--json", pass_fds=[read_end])
    os.close(read_end)
    assert (done.returncode, done.stderr) == (0, b"")
    assert strict_json(done.stdout.decode())["n_samples"] == len(rows)
