"""Helpers for tests of the command line."""

import json
import subprocess
import sys


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
