"""Run scripts in a separate process, which they may end, and which other tests have not changed."""

import os
import subprocess
import sys
import textwrap


def run_python(script, *arguments, environment=None, check=True, timeout=300):
    """Run a script and return its process, with output and error as text; it must succeed if `check` is true."""
    process = subprocess.run(
        [
            sys.executable,
            "-P",
            "-X",
            "faulthandler",
            "-W",
            "ignore",
            "-c",
            textwrap.dedent(script),
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=os.environ | (environment or {}),
    )
    if check:
        assert process.returncode == 0, f"{process.returncode}\n{process.stdout}\n{process.stderr}"
    return process
