"""Helpers for tests of the command line."""

import json
import subprocess
import sys

import numpy as np
import pytest

from amofa.cli._tables import read_table

# How to leave out columns that hold text.
OUT = "; leave out columns of text by --exclude {}"
# What to do about a missing value where none is allowed.
HOLE = "the value is missing; drop the row, or fill it in first by amofa impute --keep"
ROWS = np.array([[1.0, 2.5, -3.0], [4.0, 5e-3, 6.0]])


def write(name, content):
    with open(name, "w", encoding="utf-8") as file:
        file.write(content)


def process(*argv, **options):
    """Run ``python -m amofa`` in the current folder."""
    return subprocess.run([sys.executable, "-m", "amofa", *argv], capture_output=True, timeout=600, **options)


def strict_json(text):
    """Parse the one line that is one JSON object, without the NaN and Infinity that Python's parser lets pass."""
    assert text.count("\n") == 1

    def fail(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=fail)


def refusal_of(source, **options):
    """Return why a table cannot be read, with FILE for its path."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the callers compare the whole message
        read_table(source, **options)
    return str(caught.value).replace(source, "FILE")
