"""CI fails where an import takes longer than CONTRIBUTING.md says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / ".ci/run").is_file(), reason="not a checkout")


def test_ci_has_the_limit_that_is_documented():
    (limit,) = re.findall(r"import_time\.py --most (\S+)", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    assert f"CI fails above {limit} times" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("most", "status"), [("0.01", 1), ("100", 0)])
def test_the_limit_is_one(most, status):
    command = [sys.executable, ROOT / "bench/import_time.py", "--repeats", "1", "--most", most]
    assert subprocess.run(command, capture_output=True, check=False).returncode == status
