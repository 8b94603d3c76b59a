"""Measure the time of `import amofa`: ``python bench/import_time.py [--repeats N] [--most RATIO]``.

New interpreters import numpy and scipy.linalg, or amofa, in turn, so that other work of the machine affects both alike.
It prints medians and their ratio as JSON, of wall-clock time and of the processor time of the main thread, which hardly
depends on other work. The exit status is 1 if the latter ratio is above `--most`. Only an installed wheel shows how
long users wait: an editable install first checks what has to be rebuilt.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

BASE, OURS = "import numpy, scipy.linalg", "import amofa"
TIMED = """
import time
clock, processor = time.perf_counter(), time.thread_time()
{}
print(time.perf_counter() - clock, time.thread_time() - processor)
"""


def seconds(statement: str, folder: str) -> list[float]:
    """Return the wall-clock and processor seconds of a statement in a new interpreter."""
    command = [sys.executable, "-P", "-c", TIMED.format(statement)]
    output = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return [float(number) for number in output.split()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15, help="pairs of interpreters (default 15)")
    parser.add_argument("--most", type=float, default=float("inf"), help="largest processor ratio that is right")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # The first pair only brings the files into memory.
        pairs = [(seconds(BASE, folder), seconds(OURS, folder)) for _ in range(options.repeats + 1)][1:]
    result = {}
    for i, kind in enumerate(("clock", "processor")):
        base, ours = (statistics.median(times[i] for times in side) for side in zip(*pairs, strict=True))
        result[kind] = {"numpy and scipy.linalg (s)": base, "amofa (s)": ours, "ratio": ours / base}
    print(json.dumps({kind: {name: round(v, 4) for name, v in row.items()} for kind, row in result.items()}))
    return int(result["processor"]["ratio"] > options.most)


if __name__ == "__main__":
    sys.exit(main())
