"""The program: help, one line and status 2 for whatever is wrong, and how it ends as a process."""

import functools
import os
import signal
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from cli_helpers import process, strict_json, write

import amofa
from amofa import cli
from amofa._search.options import FitOptions

COMMANDS = (
    "demo",
    "fit",
    "describe",
    "sample",
    "predict",
    "score",
    "impute",
    "classify",
    "plot",
    "scan",
    "inspect",
    "report",
)


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
    for option in fields(FitOptions):
        assert (f" --{option.name.replace('_', '-')} " in text) == (option.metadata["kind"] is not None)


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
        ("fit rows.npy --n-factors 1,x", "argument --n-factors: '1,x' is not one int or several with commas"),
        ("fit rows.npy --n-factors 9", "n_factors must be from 0 to 2, got 9"),
        ("fit rows.npy --n-factors 1,1 --n-components 3", "n_factors has 2 entries"),
        ("fit rows.npy --search best", "search must be one of "),
        ("fit rows.npy --criterion best", "criterion must be one of "),
        ("fit rows.npy --noise-floor -1", "noise_floor must be positive and finite, got -1.0"),
        ("fit rows.npy --noise-floor 1,2,3", "noise_floor has shape (3,)"),
        ("fit rows.npy --noise-floor 1,x", "argument --noise-floor: '1,x' is not one float or several with commas"),
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
        ("fit rows.csv --delimiter ab", "delimiter must be one character that cannot be part of a number, got 'ab'"),
        ("fit rows.csv", "rows.csv, line 2, column 'size': 'small' is not a number"),
        ("fit rows.csv --columns x,z", "rows.csv has no column 'z'; columns are numbered from 0 to 3 and named x, y"),
        ("fit no.csv", "no.csv: No such file or directory"),
        ("fit .", "there is no .parquet file in ."),
        ("fit rows.npy -o no/model.npz", "no/model.npz: there is no folder no"),
        ("fit rows.npy -o .", ". is a folder, not a file"),
        ("fit rows.npy -o rows.npy", "rows.npy cannot be both input and output"),
        ("fit rows.npy -o -", "- is not a regular file; models are written to such files only"),
        ("fit rows.npy -o /dev/null", "/dev/null is not a regular file; models are written to such files only"),
        ("predict model.npz", "the following arguments are required: FILE (see amofa predict --help)"),
        ("predict no.npz rows.npy", "no.npz: No such file or directory"),
        ("predict rows.npy rows.npy", "rows.npy is not a model file of amofa, or is damaged"),
        ("predict rows.csv rows.npy", "rows.csv is not a model file of amofa, or is damaged"),
        ("predict model.npz model.npz", "model.npz holds several tables"),
        ("predict model.npz rows.csv --columns x", "rows.csv has 1 columns, but the model was made for 2"),
        ("predict model.npz rows.npy -o no/out.csv", "no/out.csv: there is no folder no"),
        ("predict model.npz rows.npy -o model.npz", "model.npz cannot be both input and output"),
        ("predict model.npz rows.npy -o out.npz", "out.npz: write tables as text (.csv, .tsv) or .npy"),
        ("score model.npz rows.csv --columns w", "rows.csv has 1 columns, but the model was made for 2"),
        ("score model.npz rows.csv --columns x,y --weights size", "rows.csv, line 2, column 'size': 'small' is not"),
        ("describe no.npz", "no.npz: No such file or directory"),
        ("describe .", ".: Is a directory"),
        ("sample model.npz", "the following arguments are required: N (see amofa sample --help)"),
        ("sample model.npz x", "argument N: invalid int value: 'x'"),
        ("sample model.npz 3 --seed -1", "argument --seed: '-1' is not a whole number, 0 or more"),
        ("sample model.npz 3 -o no/out.csv", "no/out.csv: there is no folder no"),
        ("demo --seed x", "argument --seed: 'x' is not a whole number, 0 or more"),
        ("demo --seed -1", "argument --seed: '-1' is not a whole number, 0 or more"),
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


def test_values_that_are_infinite(refusal):
    write("x.csv", "a,b\n1,\n3,inf\n")
    np.save("x.npy", [[1.0, np.nan], [np.inf, 2.0]])
    for command in ("fit", "scan", "impute"):
        message = refusal(command, "x.csv")
        assert message.startswith("x.csv, line 3, column 'b': 'inf' is not a finite number; if it marks a missing")
        message = refusal(command, "x.npy")
        assert message.startswith("x.npy has 1 value that is infinite, the first in row 1, column 0 (from 0); put NaN")


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

    monkeypatch.setattr("numpy.savez", fail)
    assert refusal("fit", "rows.npy", "-o", "out.npz") == "out.npz: No space left on device"


def test_interrupt(monkeypatch, capsys):
    def interrupt(seed):
        raise KeyboardInterrupt

    monkeypatch.setattr("amofa.demo.demonstrate", interrupt)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr() == ("", "amofa: interrupted\n")


def test_interrupt_while_commands_are_imported(monkeypatch, capsys):
    class Interrupting:
        def find_spec(self, name, path=None, target=None):
            if name == "amofa.cli._pictures":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "amofa.cli._pictures", raising=False)
    monkeypatch.delattr("amofa.cli._pictures", raising=False)
    monkeypatch.setattr("sys.meta_path", [Interrupting(), *sys.meta_path])
    assert cli.main(["--version"]) == 130
    assert capsys.readouterr() == ("", "amofa: interrupted\n")


@pytest.mark.parametrize(
    ("output", "line"),
    [([], "amofa: interrupted\n"), (["-o", "out.npz"], "amofa: interrupted; the best model so far is in out.npz\n")],
)
@pytest.mark.usefixtures("files")
def test_interrupted_fit(monkeypatch, capsys, rows, folder, output, line):
    steps = []

    def interrupt(step):
        steps.append(step)
        if len(steps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("amofa.cli._models.FitOptions", functools.partial(FitOptions, callback=interrupt))
    assert cli.main(["fit", "rows.csv", "--columns", "x,y", *output]) == 130
    assert capsys.readouterr() == ("", line)
    assert (folder / "out.npz").exists() == bool(output)
    if output:
        model = amofa.load("out.npz")
        assert (model.feature_names, len(model.history)) == (("x", "y"), 3)


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


def test_without_standard_output(monkeypatch, capsys):
    """As after >&- in a shell; where standard error is closed, too, nothing can be said."""
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["demo"]) == 2
    assert capsys.readouterr().err == "amofa: error: standard output is closed\n"
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["demo"]) == 2


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
