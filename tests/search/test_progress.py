"""The line that tells how far a search is: on a terminal alone, and only where it is asked for."""

import os
import re
import subprocess
import sys
import types

import datasets
import numpy as np
import pytest

import amofa
from amofa._search.progress import _Status, progress_line, progress_of_fits
from amofa.cli import main
from amofa.history import Step

pytest.importorskip("rich")
pty = pytest.importorskip("pty")

FIT = "import numpy, amofa; amofa.fit(numpy.load('rows.npy'), progress=True)"


@pytest.fixture
def rows(rng, tmp_path, monkeypatch):
    """Rows of the paper's second example, and in rows.npy of the current folder."""
    monkeypatch.chdir(tmp_path)
    X, _ = datasets.example_2(rng)
    np.save("rows.npy", X)
    return X


def on_a_terminal(*argv, **options):
    """What a process writes to the terminal that its standard error is, and its exit status."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([sys.executable, *argv], stderr=terminal, env=environment, **options) as process:
        os.close(terminal)
        written = b""
        try:
            while chunk := os.read(controller, 4096):
                written += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
        finally:
            os.close(controller)
        return written.decode(), process.wait(timeout=60)


def test_a_line_on_a_terminal(rows):
    written, status = on_a_terminal("-c", FIT)
    assert status == 0
    model = amofa.fit(rows)
    last = [step for step in model.history if step.accepted][-1]
    assert f"{last.n_components} components, {sum(last.n_factors)} factors, cost {last.cost:.1f}" in written
    assert f"{len(model.history)} tried: {model.history[-1].action}" in written
    assert re.search(r"\d:\d\d:\d\d", written)
    # The cursor is hidden meanwhile, and then shown again.
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_an_interrupt_leaves_the_terminal_as_it_was(rows):
    interrupted = (
        "import numpy, amofa\n"
        "def callback(step):\n"
        "    raise KeyboardInterrupt\n"
        "try:\n"
        "    amofa.fit(numpy.load('rows.npy'), progress=True, callback=callback)\n"
        "except amofa.FitInterrupted as error:\n"
        "    print(error.model.n_components)\n"
    )
    written, status = on_a_terminal("-c", interrupted, stdout=subprocess.DEVNULL)
    assert status == 0
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_nothing_where_there_is_no_terminal(rows, capfd):
    amofa.fit(rows, progress=True)
    assert capfd.readouterr() == ("", "")


def test_without_rich(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(ImportError, match=r"progress=True needs rich: python -m pip install 'amofa\[progress\]'"):
        amofa.fit(rows, progress=True)
    assert amofa.fit(rows).n_components == 4
    with progress_line(False) as show:
        assert show is None


def test_what_the_line_says():
    line = _Status()
    start = Step("start", -1, (1,), 1234.5, 0.0, 0.0, 3, True)
    split = Step("split", 0, (1, 0), 1300.0, 0.0, 0.0, 3, False)
    assert line.after(start) == "1 component, 1 factor, cost 1234.5; 1 tried: start accepted"
    assert line.after(split) == "1 component, 1 factor, cost 1234.5; 2 tried: split rejected"


def test_the_line_of_a_long_search_fits_on_a_terminal():
    steps = [Step("factor", 3, (3,) * 12, 1234567.89, 0.0, 0.0, 3, accepted) for accepted in [*[True] * 122, False]]
    line = _Status()
    text = [line.after(step) for step in steps][-1]
    assert text == "12 components, 36 factors, cost 1234567.9; 123 tried: factor rejected"
    # A spinner, two spaces and the time, 0:00:00, stand beside it.
    assert len(text) <= 80 - 1 - 2 - 7


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("rows")
def test_fits_of_the_command():
    written, status = on_a_terminal("-m", "amofa", "fit", "rows.npy", "-o", "out.npz", stdout=subprocess.DEVNULL)
    assert status == 0
    assert f"{len(amofa.load('out.npz').history)} tried: " in written
    quiet = on_a_terminal("-m", "amofa", "fit", "rows.npy", "--quiet", stdout=subprocess.DEVNULL)
    assert quiet == ("", 0)


def test_classes_of_the_command(rows):
    np.save("train.npy", np.column_stack([rows, rows[:, 0] > 0])[::10])
    argv = "-m", "amofa", "classify", "train.npy", "rows.npy", "--labels", "2"
    written, status = on_a_terminal(*argv, stdout=subprocess.DEVNULL)
    assert status == 0
    # Of two classes, each whole and without each of three parts.
    assert "8 models fitted" in written
    assert on_a_terminal(*argv, "-q", stdout=subprocess.DEVNULL) == ("", 0)


def test_the_command_does_without_rich(rows, monkeypatch, capfd):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["fit", "rows.npy", "--json"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.startswith("{")


def test_a_map_that_counts():
    with progress_of_fits(False) as apply:
        assert list(apply(abs, iter([-1, 2, -3]))) == [1, 2, 3]


# ---- notebooks -------------------------------------------------------------------------------------------------------


class Notebook:
    """What IPython is in a notebook, as far as a line of progress sees it."""

    def __init__(self):
        self.shown, self.kernel = [], object()
        self.display = types.ModuleType("IPython.display")
        self.display.display = self._display

    def get_ipython(self):
        return self

    def _display(self, data, *, raw, display_id):
        self.update(data, raw=raw)
        return self

    def update(self, data, *, raw):
        self.shown.append(data["text/plain"])


@pytest.fixture
def notebook(monkeypatch):
    made = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", made.display)
    return made


def test_a_notebook_shows_the_search_without_rich(rows, notebook, monkeypatch, capfd):
    monkeypatch.setattr("amofa._search.progress._UPDATE_TIME", 0.0)
    monkeypatch.setitem(sys.modules, "rich", None)
    model = amofa.fit(rows, progress=True)
    assert notebook.shown[0].startswith("fitting the first model  0:0")
    assert f"{len(model.history)} tried: {model.history[-1].action} accepted  0:" in notebook.shown[-1]
    amofa.scan(rows, [1, 2], noise="shared", progress=True)
    assert "models fitted" in notebook.shown[-1]
    assert capfd.readouterr() == ("", "")


def test_a_notebook_is_not_flooded(notebook):
    with progress_line(True) as show:
        for n_components in (1, 2, 3):
            show(Step("start", -1, (0,) * n_components, 1.0, 1.0, 1.0, 1, True))
    # The first and the last one; what comes between is too quick.
    assert len(notebook.shown) == 2
    assert "3 components" in notebook.shown[-1]


def test_a_console_of_ipython_is_a_terminal(notebook, rows, capfd):
    notebook.kernel = None
    amofa.fit(rows, progress=True)
    assert notebook.shown == []
