"""Run scripts in a separate process, which they may end, and which other tests have not changed."""

import os
import subprocess
import sys
import textwrap


def run_python(script, *arguments, environment=None, check=True, timeout=300):
    """Run a script and return its process, with output and error as text; it must succeed if `check` is true."""
    python = [sys.executable, "-P", "-X", "faulthandler", "-W", "ignore"]
    command = [*python, "-c", textwrap.dedent(script), *map(str, arguments)]
    environment = os.environ | (environment or {})
    process = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=environment)
    if check:
        assert process.returncode == 0, f"{process.returncode}\n{process.stdout}\n{process.stderr}"
    return process
