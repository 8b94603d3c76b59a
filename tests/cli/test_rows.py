"""Commands about rows: predict, score, impute, classify."""

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import strict_json, write

import amofa
from amofa.classes import fit_classes, load_classes

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


@pytest.mark.usefixtures("files")
def test_predict_clusters(run, rows, mixture):
    assert run("predict", "model.npz", "rows.npy", "--clusters", "1") == "0\n" * len(rows)
    lines = run("predict", "model.npz", "rows.npy", "--clusters", "1", "--proba").splitlines()
    assert (lines[0], lines[1]) == ("label,p0", "0,1.0")
    values = strict_json(run("predict", "model.npz", "rows.npy", "--clusters", "auto", "--json"))
    assert values["labels"] == mixture.predict(rows, clusters="auto").tolist()
    assert values["counts"] == [200, 100]


@pytest.mark.usefixtures("files")
def test_predict_keeps_the_other_columns(run, rows):
    lines = run("predict", "model.npz", "rows.csv", "--columns", "x,y", "--keep").splitlines()
    given = Path("rows.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"{given[0]},label"
    assert lines[1:] == [f"{line},{int(x > 15)}" for line, x in zip(given[1:], rows[:, 0], strict=True)]
    lines = run("predict", "model.npz", "rows.csv", "--columns", "x,y", "--index", "size", "--proba").splitlines()
    assert lines[0] == "size,label,p0,p1"
    assert lines[1].startswith("small,0,1.0,")
    assert run("predict", "model.npz", "rows.npy", "--keep").splitlines()[0] == "x0,x1,label"


@pytest.mark.usefixtures("files")
def test_kept_columns_are_separated_as_in_the_file(run, mixture):
    mixture._named(("x", "y")).save("named.npz")
    write("european.csv", 'Ort;x;y\nUlm, Donau;30,5;1\n"a;b";0,25;\n')
    options = ("european.csv", "--decimal", ",", "--exclude", "Ort")
    filled = str(mixture.impute([[0.25, np.nan]])[0, 1]).replace(".", ",")
    lines = ["Ort;x;y", "Ulm, Donau;30,5;1,0", f'"a;b";0,25;{filled}']
    assert run("impute", "named.npz", *options, "--keep").splitlines() == lines
    assert run("impute", "named.npz", *options).splitlines() == ["x;y", "30,5;1,0", f"0,25;{filled}"]
    found = run("predict", "named.npz", *options, "--keep", "--proba").splitlines()
    assert found[0] == "Ort;x;y;label;p0;p1"
    assert found[1].startswith("Ulm, Donau;30,5;1;1;")
    assert found[1].endswith(";1,0")
    assert run("predict", "named.npz", *options, "--keep", "-o", "out.csv") == ""
    assert Path("out.csv").read_text().splitlines()[0] == "Ort;x;y;label"
    assert run("predict", "named.npz", *options, "--keep", "-o", "out.tsv") == ""
    assert Path("out.tsv").read_text().splitlines()[:2] == ["Ort\tx\ty\tlabel", "Ulm, Donau\t30,5\t1\t1"]
    write("words.txt", "y x\n1 30\n")
    assert run("predict", "named.npz", "words.txt", "--keep").splitlines() == ["y x label", "1 30 1"]
    assert run("predict", "named.npz", "words.txt", "--keep", "-o", "out.csv") == ""
    assert Path("out.csv").read_text().splitlines() == ["y,x,label", "1,30,1"]
    write("tabs.tsv", "x\ty\n30,5\t1\n")
    assert run("predict", "named.npz", "tabs.tsv", "--decimal", ",", "--keep", "-o", "out.csv") == ""
    assert Path("out.csv").read_text().splitlines() == ["x;y;label", "30,5;1;1"]


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


@pytest.mark.usefixtures("files")
def test_predict_counts_rows_of_the_background_in_json(run, rows):
    X = np.concatenate([rows, [[500.0, -500.0], [-500.0, 400.0]]])
    np.save("far.npy", X)
    amofa.fit(X, background="uniform", n_components=2).save("far.npz")
    values = strict_json(run("predict", "far.npz", "far.npy", "--json"))
    assert values["n_background"] == values["labels"].count(-1) == 2
    assert sum(values["counts"]) == 300
    assert strict_json(run("predict", "far.npz", "far.npy", "--json", "-o", "out.csv"))["n_background"] == 2


# ---- score -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_score(run, rows, mixture):
    text = run("score", "model.npz", "rows.npy")
    criteria = [getattr(mixture, name)(rows) for name in ("bic", "aic", "icl")]
    for value in (mixture.score(rows), 300 * mixture.score(rows), *criteria):
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


@pytest.fixture
def iris():
    """train.csv, test.csv with labels, new.csv without: three groups of four columns with names."""
    rng = np.random.default_rng(0)
    labels = np.array(["setosa", "virginica", "big one"])[np.arange(150) % 3]
    X = rng.normal(0, 0.5, (150, 4)) + 3 * (np.arange(150) % 3)[:, None] * [1, 0, 1, -1]
    for name, rows, with_labels in (
        ("train", slice(100), True),
        ("test", slice(100, 150), True),
        ("new", slice(100, 150), False),
    ):
        header = "a,b,c,d" + ",kind" * with_labels
        lines = [
            ",".join([*map(repr, x), *[label] * with_labels])
            for x, label in zip(X[rows].tolist(), labels[rows], strict=True)
        ]
        write(f"{name}.csv", "\n".join([header, *lines, ""]))
    return X, labels


# ---- columns by name, missing cells ----------------------------------------------------------------------------------


def test_columns_are_found_by_the_names_of_the_model(run, iris):
    X, _ = iris
    run("fit", "train.csv", "--columns", "a,b,c,d", "-o", "model.npz")
    model = amofa.load("model.npz")
    assert model.feature_names == ("a", "b", "c", "d")
    expected = "".join(f"{k}\n" for k in model.predict(X[100:]))
    assert run("predict", "model.npz", "test.csv") == run("predict", "model.npz", "new.csv") == expected
    swapped = "\n".join(["d,c,b,a", *(",".join(map(repr, x[::-1])) for x in X[100:].tolist())])
    write("swapped.csv", swapped)
    assert run("predict", "model.npz", "swapped.csv") == expected


def test_a_column_of_the_model_that_is_not_there(run, refusal, iris):
    run("fit", "train.csv", "--columns", "a,b", "-o", "model.npz")
    write("other.csv", "a,z\n1,2\n")
    assert refusal("predict", "model.npz", "other.csv").startswith("other.csv has no column 'b'; columns are numbered")
    assert run("predict", "model.npz", "other.csv", "--columns", "a,z").count("\n") == 1


@pytest.mark.usefixtures("files")
def test_rows_with_missing_cells(run, mixture):
    write("holes.csv", "x,y\n0,\nNA,30\n")
    X = np.array([[0.0, np.nan], [np.nan, 30.0]])
    assert run("predict", "model.npz", "holes.csv") == "".join(f"{k}\n" for k in mixture.predict(X))
    assert strict_json(run("score", "model.npz", "holes.csv", "--json"))["mean_log_density"] == mixture.score(X)


# ---- impute ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_impute(run, mixture):
    write("holes.csv", "y,x\n0,\n,30\n1,2\n")
    X = np.array([[0.0, np.nan], [np.nan, 30.0], [1.0, 2.0]])
    lines = run("impute", "model.npz", "holes.csv").splitlines()
    assert lines[0] == "y,x"
    np.testing.assert_array_equal(np.loadtxt(lines[1:], delimiter=","), mixture.impute(X))
    run("impute", "model.npz", "holes.csv", "--draws", "--seed", "3", "-o", "out.npy")
    np.testing.assert_array_equal(np.load("out.npy"), mixture.impute(X, draws=True, random_state=3))
    assert run("impute", "model.npz", "holes.csv", "--draws") != run("impute", "model.npz", "holes.csv", "--draws")


@pytest.mark.usefixtures("files")
def test_impute_json(run, mixture):
    write("holes.csv", "y,x,note\n0,,n\n,30,n\n1,2,n\n")
    expected = mixture.impute([[0.0, np.nan], [np.nan, 30.0], [1.0, 2.0]])
    told = {"n_rows": 3, "n_filled": 2, "columns": ["y", "x"]}
    arguments = ("impute", "model.npz", "holes.csv", "--exclude", "note", "--json")
    assert strict_json(run(*arguments)) == told | {"output": None, "values": expected.tolist()}
    assert strict_json(run(*arguments, "-o", "out.csv", "--keep")) == told | {"output": "out.csv"}
    assert Path("out.csv").read_text().splitlines()[0] == "y,x,note"


def test_impute_by_the_names_of_the_model(run, iris):
    run("fit", "train.csv", "--columns", "a,b,c,d", "-o", "model.npz")
    write("holes.csv", "kind,d,c,b,a\nx,1,2,,4\n")
    lines = run("impute", "model.npz", "holes.csv").splitlines()
    assert lines[0] == "a,b,c,d"
    found = [float(cell) for cell in lines[1].split(",")]
    assert found == amofa.load("model.npz").impute([[4.0, np.nan, 2.0, 1.0]])[0].tolist()


def test_impute_from_some_columns(run, refusal, iris):
    run("fit", "train.csv", "--columns", "a,b,c,d", "-o", "model.npz")
    write("some.csv", "kind,d,e,a\nx,1,7,4\ny,,8,3\n")
    lines = run("impute", "model.npz", "some.csv", "--columns", "d,a").splitlines()
    assert lines[0] == "a,b,c,d"
    expected = amofa.load("model.npz").impute([[1.0, 4.0], [np.nan, 3.0]], known_columns=["d", "a"])
    np.testing.assert_array_equal(np.loadtxt(lines[1:], delimiter=","), expected)
    message = refusal("impute", "model.npz", "some.csv", "--columns", "d,e")
    assert message.startswith("known_columns has 'e', but the model has no column of that name")
    np.save("some.npy", np.ones((3, 5)))
    for columns, n in (("0,1", 2), ("0-4", 5)):
        message = refusal("impute", "model.npz", "some.npy", "--columns", columns)
        assert message == f"some.npy has {n} columns, but the model was made for 4"


@pytest.mark.usefixtures("files")
def test_refusals_of_impute(refusal):
    assert refusal("impute", "model.npz", "rows.npy", "--seed", "3") == "--seed needs --draws"
    write("bad.csv", "x,y\n1,inf\n")
    message = "bad.csv, line 2, column 'y': 'inf' is not a finite number"
    assert refusal("impute", "model.npz", "bad.csv").startswith(message)
    assert refusal("impute", "model.npz", "bad.csv", "-o", "bad.csv") == "bad.csv cannot be both input and output"


@pytest.fixture
def holes(rows, rng):
    """holes.csv, the rows with missing cells, and their array."""
    X = np.where(rng.random(rows.shape) < 0.1, np.nan, rows)
    lines = [",".join("-9999" if np.isnan(cell) else repr(cell) for cell in row) for row in X.tolist()]
    write("holes.csv", "\n".join(["x,y", *lines, ""]))
    return X


def test_fits_and_scans_take_missing_cells(run, holes):
    run("fit", "holes.csv", "--missing", "-9999", "-o", "fit.npz")
    model, expected = amofa.load("fit.npz"), amofa.fit(holes)
    np.testing.assert_array_equal(model.means, expected.means)
    assert model.feature_names == ("x", "y")
    found = strict_json(run("scan", "holes.csv", "--missing=-9999", "--n-components", "1-2", "--json"))
    costs = amofa.scan(holes, [1, 2])
    assert [row["cost"] for row in found["models"]] == [row.cost for row in costs]


def test_impute_without_a_model_is_a_fit(run, holes):
    run("impute", "holes.csv", "--missing=-9999", "-o", "whole.csv")
    expected = amofa.fit(holes).impute(holes)
    np.testing.assert_array_equal(np.loadtxt("whole.csv", delimiter=",", skiprows=1), expected)
    given = run("impute", "--missing=-9999", "--n-components", "1", "holes.csv", "--keep").splitlines()
    assert given[0] == "x,y"
    expected = amofa.fit(holes, n_components=1).impute(holes)
    np.testing.assert_array_equal(np.loadtxt(given[1:], delimiter=","), expected)
    np.save("holes.npy", np.where(np.isnan(holes), 1e9, holes))
    drawn = np.loadtxt(
        run("impute", "holes.npy", "--missing=-1,1e9", "--draws", "--seed", "3").splitlines()[1:], delimiter=","
    )
    np.testing.assert_array_equal(drawn, amofa.fit(holes).impute(holes, draws=True, random_state=3))


@pytest.mark.usefixtures("files")
def test_options_may_stand_between_model_and_table(run, mixture):
    write("some.csv", "x,y\n30.0,\n")
    assert run("impute", "model.npz", "--columns", "x,y", "some.csv") == run("impute", "model.npz", "some.csv")


@pytest.mark.usefixtures("files")
def test_refusals_of_impute_without_a_model(refusal):
    assert refusal("impute") == "the following arguments are required: FILE (see amofa impute --help)"
    assert refusal("impute", "model.npz") == "model.npz is a model; add the table whose cells it is to fill in"
    message = "is for a fit; leave out model.npz to fit rows.csv"
    assert refusal("impute", "model.npz", "rows.csv", "--max-factors", "1") == f"--max-factors {message}"
    assert refusal("impute", "model.npz", "rows.csv", "--weights", "w") == f"--weights {message}"
    assert refusal("impute", "rows.csv", "-o", "rows.csv") == "rows.csv cannot be both input and output"
    assert refusal("impute", "none.csv") == "none.csv: No such file or directory"


@pytest.mark.usefixtures("files")
def test_impute_keeps_the_other_columns(run, mixture):
    mixture._named(("x", "y")).save("named.npz")
    write("holes.csv", "note,y,id,x\na b,,1,30.0\n,1.0,2,\n")
    filled = mixture.impute([[30, np.nan], [np.nan, 1]]).tolist()
    lines = run("impute", "named.npz", "holes.csv", "--keep").splitlines()
    assert lines == ["note,y,id,x", f"a b,{filled[0][1]!r},1,30.0", f",1.0,2,{filled[1][0]!r}"]
    lines = run("impute", "named.npz", "holes.csv", "--index", "id").splitlines()
    assert lines == ["id,x,y", f"1,30.0,{filled[0][1]!r}", f"2,{filled[1][0]!r},1.0"]
    write("some.csv", "x,note\n30.0,n\n")
    lines = run("impute", "named.npz", "some.csv", "--columns", "x", "--keep").splitlines()
    assert lines == ["x,note,y", f"30.0,n,{filled[0][1]!r}"]


# ---- classify --------------------------------------------------------------------------------------------------------


def test_classify(run, iris):
    X, labels = iris
    names, y = np.unique(labels[:100], return_inverse=True)
    classes = fit_classes(X[:100], y)
    expected = names[classes.predict(X[100:])]
    assert run("classify", "train.csv", "test.csv", "--labels", "kind").splitlines() == expected.tolist()
    lines = run("classify", "train.csv", "new.csv", "--labels", "kind", "--proba").splitlines()
    assert lines[0] == "label,p_big one,p_setosa,p_virginica"
    assert [line.partition(",")[0] for line in lines[1:]] == expected.tolist()
    found = np.array([line.split(",")[1:] for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(found, np.exp(classes.log_posteriors(X[100:])), rtol=1e-12)
    assert run("classify", "train.csv", "new.csv", "--labels", "kind", "-o", "out.csv") == ""
    assert Path("out.csv").read_text().splitlines() == expected.tolist()


def test_classify_says_how_good_it_is(run, iris):
    _, labels = iris
    text = run("classify", "train.csv", "test.csv", "--labels", "kind", "--score")
    assert text.startswith("50 of 50 rows right: 100.00%\n")
    values = strict_json(run("classify", "train.csv", "test.csv", "--labels", "kind", "--json"))
    assert values["accuracy"] == 1.0
    assert values["classes"] == values["confusion_labels"] == ["big one", "setosa", "virginica"]
    assert np.trace(values["confusion"]) == 50
    assert values["labels"] == labels[100:].tolist()
    # Labels that are wrong, unknown, or not there.
    rows = Path("test.csv").read_text().splitlines()
    rows[1] = rows[1].rpartition(",")[0] + ",other"
    rows[2] = rows[2].rpartition(",")[0] + ","
    write("wrong.csv", "\n".join(rows))
    assert run("classify", "train.csv", "wrong.csv", "--labels", "kind", "--score").startswith("48 of 49 rows right")
    values = strict_json(run("classify", "train.csv", "new.csv", "--labels", "kind", "--json", "-o", "out.csv"))
    assert set(values) == {"classes", "n_components", "n_rows", "output"}


def test_classify_with_heavy_tails(run, refusal, iris):
    run("classify", "train.csv", "--labels", "kind", "--save", "classes.npz", "--tails", "t")
    assert all(np.isfinite(model.degrees_of_freedom).all() for model in load_classes("classes.npz").models)
    assert "tails" in refusal("classify", "train.csv", "test.csv", "--labels", "kind", "--tails", "heavy")


def test_saved_classes_label_other_rows(run, refusal, iris):
    expected = run("classify", "train.csv", "new.csv", "--labels", "kind", "--proba", "--save", "classes.npz")
    assert run("predict", "classes.npz", "new.csv", "--proba") == expected
    labels = [line.split(",")[0] for line in expected.splitlines()[1:]]
    lines = run("predict", "classes.npz", "new.csv", "--keep").splitlines()
    assert [line.split(",")[-1] for line in lines[1:]] == labels
    assert strict_json(run("predict", "classes.npz", "new.csv", "--json"))["labels"] == labels
    assert run("classify", "train.csv", "--labels", "kind", "--save", "again.npz") == ""
    assert run("predict", "again.npz", "new.csv", "--proba") == expected
    assert refusal("predict", "classes.npz", "new.csv", "--scores").startswith("classes.npz holds classes, which have")
    assert refusal("classify", "train.csv", "--labels", "kind").startswith("there are no rows to label; add TEST")
    assert refusal("describe", "classes.npz").startswith("classes.npz does not hold a model that amofa can read")
    assert refusal("predict", "absent.npz", "new.csv") == "absent.npz: No such file or directory"


def test_classify_by_names_and_with_missing_cells(run, iris):
    rows = [line.split(",") for line in Path("new.csv").read_text().splitlines()]
    rows[3][1] = ""
    write("new2.csv", "\n".join(",".join(row[::-1]) for row in rows))
    assert run("classify", "train.csv", "new2.csv", "--labels", "kind") == run(
        "classify", "train.csv", "new.csv", "--labels", "kind"
    )


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_classify_files_without_names(run, iris, suffix):
    X, labels = iris
    numbers = np.unique(labels, return_inverse=True)[1] + 3.0
    table = np.column_stack([X, numbers])
    for name, rows in (("train", table[:100]), ("test", table[100:]), ("new", table[100:, :4])):
        np.save(f"{name}.npy", rows) if suffix == "npy" else write(
            f"{name}.csv",
            "".join(f"{','.join(map(repr, r[:4]))}{f',{r[4]:.0f}' if len(r) > 4 else ''}\n" for r in rows.tolist()),
        )
    expected = "".join(f"{n:.0f}\n" for n in numbers[100:])
    for test in ("test", "new"):
        assert run("classify", f"train.{suffix}", f"{test}.{suffix}", "--labels", "4") == expected
    run("classify", f"train.{suffix}", f"new.{suffix}", "--labels", "4", "-o", "out.csv", "--proba")
    assert Path("out.csv").read_text().startswith("label,p_3,p_4,p_5\n")


def test_classify_with_weights_and_priors(run, iris):
    X, labels = iris
    y = np.unique(labels[:100], return_inverse=True)[1]
    weights = np.where(y == 0, 3.0, 1.0)
    lines = Path("train.csv").read_text().splitlines()
    write(
        "weighted.csv",
        "\n".join([f"{lines[0]},w", *(f"{line},{w}" for line, w in zip(lines[1:], weights, strict=True))]),
    )
    options = "--labels kind --weights w --priors empirical --json --proba"
    out = run("classify", "weighted.csv", "new.csv", *options.split())
    classes = fit_classes(X[:100], y, sample_weight=weights, priors="empirical")
    # Columns that lie apart in memory are summed in another order.
    np.testing.assert_allclose(
        strict_json(out)["probabilities"], np.exp(classes.log_posteriors(X[100:])), rtol=1e-6, atol=1e-12
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("train.csv new.csv", "the following arguments are required: --labels (see amofa classify --help)"),
        ("train.csv new.csv --labels no", "train.csv has no column 'no'; columns are numbered from 0 to 4 and named a"),
        ("train.csv new.csv --labels kind --score", "new.csv has no column 'kind', which --score needs"),
        ("train.csv test.csv --labels kind --score -o out.csv", "--score prints the accuracy, not the labels"),
        ("train.csv new.csv --labels kind --priors all", "priors must be"),
        ("train.csv new.csv --labels kind -o train.csv", "train.csv cannot be both input and output"),
        ("train.csv new.csv --labels kind -o new.csv", "new.csv cannot be both input and output"),
        ("train.csv new.csv --labels kind --proba -o out.npy", "out.npy: write text labels with probabilities"),
        (
            "holes.csv new.csv --labels kind",
            "holes.csv, line 2, column 'a': the value is missing; drop the row, or fill it in first by",
        ),
        ("unlabelled.csv new.csv --labels kind", "unlabelled.csv has 1 rows without a label; drop them"),
        ("train.csv short.csv --labels kind", "short.csv has no column 'b'; columns are numbered from 0 to 0"),
    ],
)
def test_refusals_of_classify(refusal, iris, argv, message):
    write("holes.csv", "a,b,c,d,kind\n,1,1,1,x\n")
    write("unlabelled.csv", "a,b,c,d,kind\n1,1,1,1,x\n2,1,1,1,\n")
    write("short.csv", "a\n1\n")
    assert refusal("classify", *argv.split(" ")).startswith(message)
