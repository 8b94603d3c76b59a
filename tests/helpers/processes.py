"""Scripts that are run in a process of their own, since they may end it, or must not find what other tests left."""

import os
import subprocess
import sys
import textwrap


def run_python(script, *arguments, environment=None, check=True, timeout=300):
    """The finished process of a script, whose standard output and error are text; it must end well if `check`."""
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
