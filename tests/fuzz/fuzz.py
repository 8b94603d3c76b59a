"""Fuzzing: what reads files, and what is called with arguments from outside, is given what it does not expect.

    python tests/fuzz/fuzz.py TARGET [--minutes N] [--seed S]

Targets are in the modules `fuzz_*`: each a strategy of hypothesis that makes a case, and a function that tries it. It
fails on anything but a result that is right or an exception of the documented kinds. `test_fuzz.py` runs a few
cases of each; here they run by the minute, in rounds of a few hundred, each with a seed of its own. What fails is shown
shrunk, with the seed of its round; after a crash, the last seed printed makes the round again.
"""

import argparse
import faulthandler
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import fuzz_files
import fuzz_kernels
import fuzz_models
import fuzz_tables
import hypothesis

TARGETS = {**fuzz_files.TARGETS, **fuzz_tables.TARGETS, **fuzz_models.TARGETS, **fuzz_kernels.TARGETS}
# Cases of one round.
_ROUND = 300


def run(name, n_cases, seed):
    """Try so many cases of a target."""
    cases, check = TARGETS[name]

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=n_cases, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(cases)
    def try_one(case):
        nonlocal n_tried
        n_tried += 1
        check(case)

    n_tried = 0
    try_one()
    return n_tried


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--minutes", type=float, default=1.0, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first round (default: %(default)s)")
    arguments = parser.parse_args()
    faulthandler.enable()
    start, seed, n_tried = time.monotonic(), arguments.seed, 0
    while time.monotonic() - start < 60 * arguments.minutes or seed == arguments.seed:
        sys.stderr.write(f"\rseed {seed}: {n_tried} cases in {(time.monotonic() - start) / 60:.1f} min ")
        sys.stderr.flush()
        n_tried += run(arguments.target, _ROUND, seed)
        seed += 1
    sys.stderr.write("\n")
    print(f"{arguments.target}: {n_tried} cases in {(time.monotonic() - start) / 60:.1f} min, nothing found")


if __name__ == "__main__":
    main()
