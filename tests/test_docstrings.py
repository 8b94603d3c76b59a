"""Examples run: those of the installed package's docstrings, and the ``pycon`` blocks of the pages in the checkout."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import amofa

ROOT = Path(__file__).parents[1]
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if p.is_file()]
# Importing it runs the command.
FOUND = {module.name for module in pkgutil.walk_packages(amofa.__path__, "amofa.")}
MODULES = ["amofa", *sorted(FOUND - {"amofa.__main__"})]


def only_blocks(text, language):
    """The text with every line outside the fenced blocks of a language made empty, so that line numbers hold."""
    lines, inside = [], False
    for line in text.splitlines():
        fence = line.startswith("```")
        lines.append(line if inside and not fence else "")
        if fence:
            inside = not inside and line.removeprefix("```").strip() == language
    return "\n".join(lines) + "\n"


def run(tests):
    """Run doctests, one after the other; fail with doctest's own report."""
    runner, report = doctest.DocTestRunner(), []
    for test in tests:
        runner.run(test, out=report.append)
    if runner.failures:
        pytest.fail("".join(report), pytrace=False)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    if name == "amofa.dask":
        pytest.importorskip("distributed")
    run(doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    text = only_blocks(page.read_text(encoding="utf-8"), "pycon")
    run([doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)])


def test_public_functions_have_examples():
    public = [getattr(amofa, name) for name in amofa.__all__]
    functions = [f for f in public if callable(f) and f is not amofa.AmofaWarning]
    methods = [
        method
        for name, method in inspect.getmembers(amofa.MixtureOfFactorAnalyzers, inspect.isfunction)
        if not name.startswith("_")
    ]
    assert len(functions) > 1
    assert methods
    assert [f.__qualname__ for f in (*functions, *methods) if ">>>" not in (f.__doc__ or "")] == []


def test_blocks_of_pages_are_found():
    text = "# T\n```sh\n>>> no\n```\n```pycon\n>>> 1 + 1\n2\n```\nend\n"
    assert only_blocks(text, "pycon") == "\n\n\n\n\n>>> 1 + 1\n2\n\n\n"
    with pytest.raises(pytest.fail.Exception, match="Expected:\n    3"):
        run([doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)])
