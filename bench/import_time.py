"""How long `import amofa` takes: ``python bench/import_time.py [--repeats N] [--most RATIO]``.

New interpreters import numpy and scipy.linalg, or amofa, one after the other in turn, so that whatever else the machine
does falls on both alike. It prints medians and their ratio, as JSON, and ends with status 1 where the ratio is above
`--most`. Only an installed wheel says how long users wait: an editable install looks for what is to be rebuilt first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

BASE, OURS = "import numpy, scipy.linalg", "import amofa"
TIMED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def seconds(statement: str, folder: str) -> float:
    """Of a statement in a new interpreter."""
    command = [sys.executable, "-P", "-c", TIMED.format(statement)]
    return float(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15, help="pairs of interpreters (default 15)")
    parser.add_argument("--most", type=float, default=float("inf"), help="largest ratio that is right")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(seconds(BASE, folder), seconds(OURS, folder)) for _ in range(options.repeats + 1)][1:]
    base, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    result = {"numpy and scipy.linalg (s)": base, "amofa (s)": ours, "ratio": ours / base}
    print(json.dumps({name: round(value, 4) for name, value in result.items()}))
    return int(result["ratio"] > options.most)


if __name__ == "__main__":
    sys.exit(main())
