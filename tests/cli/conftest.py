"""Fixtures of the tests of the command line."""

import io
import sys

import numpy as np
import pytest
from cli_helpers import write

import amofa
from amofa import cli


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """All commands run in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file(tmp_path):
    """The function file(name, content): the path, as str, of a new file."""

    def make(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return make


@pytest.fixture
def stdin(monkeypatch):
    """The function stdin(content): what standard input holds."""

    def fill(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content.encode()))))

    return fill


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
