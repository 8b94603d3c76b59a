"""Commands about models: demo, fit, describe, sample."""

import io
import sys
import warnings
from dataclasses import asdict

import numpy as np
import pytest
from cli_helpers import strict_json, write

import amofa
from amofa import cli
from amofa.demo import demonstrate, example_2

# ---- demo ------------------------------------------------------------------------------------------------------------


def test_demo(run):
    text = run("demo")
    result = demonstrate(0)
    for step in result.model.history:
        assert f"{step.cost:.2f}" in text
        assert f"{step.log_likelihood:.2f}" in text
    assert f"components, cost {result.model.cost:.2f} nats" in text
    assert "message length" not in text
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
    for name in ("n_components", "cost", "message_length", "log_likelihood", "n_parameters"):
        assert values[name] == getattr(model, name)
    for name in ("n_factors", "weights"):
        assert values[name] == getattr(model, name).tolist()
    told = [values[name] for name in ("n_features", "converged", "criterion", "n_samples", "columns", "output")]
    assert told == [2, True, "evidence", 300, ["x", "y"], "out.npz"]
    assert values["history"] == [
        {**asdict(step), "n_components": step.n_components, "n_factors": list(step.n_factors)} for step in model.history
    ]


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
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text["\t"].encode()))))
        assert run("fit", "-", "--delimiter", name, "--json") == expected


def test_warnings_name_columns(capsys, rows, folder):
    body = "".join(f"{x:.3f},1,{y:.3f}\n" for x, y in rows.tolist())
    (folder / "named.csv").write_text(f"a,same,b\n{body}")
    assert cli.main(["fit", "named.csv"]) == 0
    assert "1 of 3 columns of X are constant and change no decision: 'same'" in capsys.readouterr().err


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


@pytest.mark.usefixtures("files")
def test_a_fit_in_pieces(run, capsys, rows):
    arguments = ["fit", "rows.npy", "--checkpoint", "rows.checkpoint", "-o", "out.npz", "--quiet"]
    assert cli.main([*arguments, "--max-time", "1e-9"]) == 0
    assert "max_time=1e-09 s; this is the best model so far" in capsys.readouterr().err
    assert amofa.load("out.npz").n_components == amofa.load("rows.checkpoint").n_components == 1
    run(*arguments)
    whole = amofa.fit(rows)
    assert amofa.load("out.npz").history == amofa.load("rows.checkpoint").history == whole.history
    np.save("rows.npy", rows[::-1])
    assert cli.main(arguments) == 2
    assert "rows.checkpoint is the checkpoint of another fit: X differs" in capsys.readouterr().err


def test_warnings_of_others_are_not_hidden(monkeypatch):
    monkeypatch.setattr("amofa.demo.demonstrate", lambda seed: warnings.warn("other", RuntimeWarning, stacklevel=1))
    with pytest.raises(RuntimeWarning, match="other"):
        cli.main(["demo"])


# ---- describe and sample ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_describe(run, mixture):
    assert run("describe", "model.npz") == f"{mixture.summary()}\n"
    values = strict_json(run("describe", "model.npz", "--json"))
    assert values["weights"] == mixture.weights.tolist()
    assert values["means"] == mixture.means.tolist()
    assert values["loadings"] == [loadings.tolist() for loadings in mixture.loadings]
    assert values["uniquenesses"] == mixture.uniquenesses.tolist()
    assert values["cost"] is values["message_length"] is None
    assert values["history"] == []


@pytest.mark.usefixtures("files")
def test_describe_clusters(run, mixture):
    assert run("describe", "model.npz", "--clusters", "auto") == f"{mixture.summary()}\n\n{mixture.clusters()}\n"
    values = strict_json(run("describe", "model.npz", "--clusters", "1", "--json"))
    assert values["clusters"] == [0, 0]
    assert values["joins"] == [list(mixture.clusters().joins[0])]


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


def test_columns_of_a_start_are_found_by_their_names(run, refusal, rows):
    write("rows.csv", "\n".join(["x,y", *(f"{x!r},{y!r}" for x, y in (rows * [1, 100]).tolist()), ""]))
    write("other.csv", "\n".join(["y,z,x", *(f"{y!r},0,{x!r}" for x, y in (rows * [1, 100]).tolist()), ""]))
    run("fit", "rows.csv", "-o", "model.npz")
    run("fit", "rows.csv", "--init", "model.npz", "-o", "again.npz")
    run("fit", "other.csv", "--init", "model.npz", "-o", "by_name.npz")
    again, by_name = amofa.load("again.npz"), amofa.load("by_name.npz")
    assert by_name.feature_names == ("x", "y")
    np.testing.assert_array_equal(by_name.means, again.means)
    assert by_name.history == again.history
    message = refusal("fit", "other.csv", "--columns", "y,x", "--init", "model.npz")
    assert message.startswith("other.csv has the columns of the model in another order")


# ---- tables of all kinds ---------------------------------------------------------------------------------------------


def test_numbers_of_rows_are_whole_in_json(run, files):
    out = run("fit", "rows.csv", "--columns", "x,y", "--json")
    assert strict_json(out)["n_samples"] == 300
    assert '"n_samples": 300,' in out
    assert '"n_samples": 300,' in run("score", "model.npz", "rows.npy", "--json")


def test_names_that_occur_twice_are_refused_at_once(refusal):
    write("x.csv", "a,b,a\n1,2,3\n2,3,5\n")
    for argv in (("fit", "x.csv"), ("scan", "x.csv"), ("classify", "x.csv", "x.csv", "--labels", "b")):
        assert refusal(*argv).startswith("x.csv has 2 columns 'a'; rename one, or leave it out by --exclude")


def test_guesses_about_the_first_line_are_told(capsys, rows):
    lines = [f"{x!r},{y!r},{'big' if x > 15 else 'small'}" for x, y in rows.tolist()]
    write("x.csv", "\n".join(lines))
    assert cli.main(["fit", "x.csv", "--columns", "0,1", "--json"]) == 0
    out, err = capsys.readouterr()
    assert strict_json(out)["n_samples"] == len(rows)
    assert err == "amofa: warning: line 1 of x.csv was read as a row; if it is not, pass --header\n"
    assert cli.main(["fit", "x.csv", "--exclude", "2", "--no-header"]) == 0
    assert capsys.readouterr().err == ""


def test_european_tables(run, rows):
    text = "\n".join(";".join(repr(x).replace(".", ",") for x in row) for row in rows.tolist())
    write("x.csv", f"x;y\n{text}\n")
    np.save("x.npy", rows)
    european, plain = (strict_json(run("fit", *argv, "--json")) for argv in (["x.csv", "--decimal", ","], ["x.npy"]))
    assert european["log_likelihood"] == plain["log_likelihood"]
    assert european["columns"] == ["x", "y"]
