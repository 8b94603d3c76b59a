"""Numbers that the pages state about the code are those of the code.

A comment after a sentence names what it states, in one of three forms::

    <!-- check: amofa._search.default._MOST_TRIALS = 3 -->                  a constant of a module
    <!-- check: amofa.fit(tol) = 1e-5 -->                                   the default of an argument
    <!-- check: src/amofa/_kernels/_newton.pyx RIDGE = 1e-3 -->             a constant of a Cython file
"""

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMENT = re.compile(r"<!-- check: (?P<name>.+?) = (?P<value>.+?) -->")


def checks():
    """Yield the page, the text before the comment, and the name and value of each comment."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in COMMENT.finditer(text):
            before = COMMENT.sub("", text[: found.start()])
            yield pytest.param(before, found["name"], found["value"], id=f"{page.stem}-{found['name']}")


def in_code(name):
    """Return the value that a name in a comment has in the code."""
    if file := re.fullmatch(r"(\S+\.(?:pyx|pxi)) (\w+)", name):
        source = (ROOT / file[1]).read_text(encoding="utf-8")
        return evaluated(re.search(rf"^cdef \w+ {file[2]} = (.+)$", source, re.MULTILINE)[1])
    if argument := re.fullmatch(r"([\w.]+)\((\w+)\)", name):
        module, _, function = argument[1].rpartition(".")
        return inspect.signature(getattr(importlib.import_module(module), function)).parameters[argument[2]].default
    module, _, constant = name.rpartition(".")
    return getattr(importlib.import_module(module), constant)


def evaluated(expression):
    """Return the value of numbers and tuples of them; 2^18 is a power."""
    return eval(expression.replace("^", "**"), {"__builtins__": {}})


@pytest.mark.parametrize(("before", "name", "value"), list(checks()))
def test_number(before, name, value):
    assert in_code(name) == evaluated(value), f"{name} differs from the page: change the sentence and its comment"
    # The sentence has the number in figures, unless it is spelt out in several words.
    paragraph = before.rstrip().rpartition("\n\n")[2]
    if not value.startswith("("):
        number = re.sub(r"\.0$", "", value)
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.]*\d)", paragraph), f"{number} is not in the text"


def test_there_are_checks():
    assert len(list(checks())) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_comments_divide_no_paragraph(page):
    # A line that begins with a comment and goes on is a paragraph of its own.
    assert not re.search(r"^ *<!-- check:.*--> *\S", page.read_text(encoding="utf-8"), re.MULTILINE)
