"""Compare the speed of two commits of this repository.

    python bench/compare.py BASE HEAD [--repeats N] [--relative SHARE] [--absolute SECONDS] [--tasks NAME ...]

Each commit is checked out into its own work tree and installed into its own folder, which precedes anything else on the
path. One process for each does the same tasks in turns, on one thread. Times are CPU seconds, and the minima are
compared. The exit status is 1 if a task takes longer at HEAD by more than both the relative and the absolute margin.
`--no-build-isolation` builds with the installed packages, without the package index. Tasks use only the public
interface, so that old commits can run them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]

# ---- tasks -----------------------------------------------------------------------------------------------------------


def clusters(n: int, d: int, K: int, p: int) -> np.ndarray:
    """Draw rows of a mixture of factor analysers whose components overlap in every column."""
    rng = np.random.default_rng(0)
    loadings, means = rng.normal(size=(K, p, d)), 2 * rng.normal(size=(K, d))
    labels = rng.integers(K, size=n)
    scores = rng.normal(size=(n, p))
    return means[labels] + np.einsum("np,npd->nd", scores, loadings[labels]) + rng.normal(size=(n, d))


def _tasks(amofa: Any) -> dict[str, Callable[[], object]]:
    """Return the tasks, with the amofa of this process."""
    small, many, wide = clusters(400, 2, 3, 1), clusters(20_000, 16, 8, 4), clusters(1_500, 60, 4, 3)
    model = amofa.fit(many[:2000], search="paper", n_components=8, n_factors=4, max_iter=5)
    given = {"n_components": 4, "n_factors": 3, "max_iter": 10}
    return {
        "default, (400, 2)": lambda: amofa.fit(small),
        "paper, (400, 2)": lambda: amofa.fit(small, search="paper"),
        "default, (1500, 60), K and p given": lambda: amofa.fit(wide, **given),
        "paper, (1500, 60), K and p given": lambda: amofa.fit(wide, search="paper", **given),
        "paper, (20000, 16), K and p given": lambda: amofa.fit(many, search="paper", **given),
        "predict_proba, (20000, 16)": lambda: model.predict_proba(many),
        "score_samples, (100, 16)": lambda: model.score_samples(many[:100]),
    }


def work(folder: str) -> None:
    """Do tasks by name in a separate process, one per line of input, and answer with their CPU seconds."""
    # The finder of an editable install comes before sys.path.
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
    sys.path.insert(0, folder)
    import amofa

    if not Path(amofa.__file__).is_relative_to(folder):
        raise SystemExit(f"amofa comes from {amofa.__file__}, not from {folder}")
    warnings.simplefilter("ignore")
    tasks = _tasks(amofa)
    print(json.dumps(list(tasks)), flush=True)
    for line in sys.stdin:
        start = time.process_time()
        tasks[line.strip()]()
        print(time.process_time() - start, flush=True)


# ---- two commits -----------------------------------------------------------------------------------------------------


@contextmanager
def installed(commit: str, folder: Path, options: Sequence[str]) -> Iterator[Path]:
    """Install the package of a commit into a folder, and return the folder."""
    tree, site = folder / "tree", folder / "site"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=ROOT, check=True)
    try:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), *options]
        subprocess.run([*command, str(tree)], check=True)
        yield site
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


@contextmanager
def worker(site: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that does tasks with the amofa of a folder."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, "--worker", str(site)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | dict.fromkeys(threads, "1"),
    )
    try:
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def answer(process: subprocess.Popen[str]) -> Any:
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a worker has ended before its time; see above")
    return json.loads(line)


def measured(workers: Sequence[subprocess.Popen[str]], names: Sequence[str] | None, repeats: int) -> dict[str, Any]:
    """Measure the CPU seconds of each task, (2, repeats), in turns after a warm-up."""
    known = [answer(process) for process in workers]
    both = [name for name in known[0] if name in known[1] and (names is None or name in names)]
    times = {name: np.empty((len(workers), repeats + 1)) for name in both}
    for repeat in range(repeats + 1):
        for name in both:
            # Alternate which goes first.
            for side in (0, 1) if repeat % 2 else (1, 0):
                workers[side].stdin.write(name + "\n")
                workers[side].stdin.flush()
                times[name][side, repeat] = answer(workers[side])
    return {name: seconds[:, 1:] for name, seconds in times.items()}


# ---- verdict ---------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A task: minimum seconds of both commits, and whether the second is slower beyond both margins."""

    task: str
    base: float
    head: float
    slower: bool


def verdict(times: dict[str, Any], relative: float, absolute: float) -> list[Line]:
    """Return a line for each task, from CPU seconds (2, repeats)."""
    lines = []
    for task, seconds in times.items():
        base, head = (float(side.min()) for side in seconds)
        lines.append(Line(task, base, head, head - base > max(absolute, relative * base)))
    return lines


def compare(options: argparse.Namespace) -> int:
    build = ["--no-build-isolation"] if options.no_build_isolation else []
    with (
        tempfile.TemporaryDirectory() as folder,
        installed(options.base, Path(folder, "base"), build) as base,
        installed(options.head, Path(folder, "head"), build) as head,
        worker(base) as first,
        worker(head) as second,
    ):
        times = measured([first, second], options.tasks, options.repeats)
    print(f"CPU seconds, least (median) of {options.repeats}: {options.base}, {options.head}, ratio")
    lines = verdict(times, options.relative, options.absolute)
    for line in lines:
        middle = np.median(times[line.task], axis=1)
        print(
            f"{line.task}: {line.base:.5f} ({middle[0]:.5f}), {line.head:.5f} ({middle[1]:.5f}), "
            f"{line.head / line.base:.3f}{'  SLOWER' if line.slower else ''}"
        )
    return int(any(line.slower for line in lines))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--repeats", type=int, default=9, help="of each task (default 9)")
    parser.add_argument("--relative", type=float, default=0.1, help="margin, a share of BASE's time (default 0.1)")
    parser.add_argument("--absolute", type=float, default=5e-4, help="margin, seconds (default 0.0005)")
    parser.add_argument("--tasks", nargs="+", help="names of those to do (default all)")
    parser.add_argument("--no-build-isolation", action="store_true", help="passed on to pip")
    return compare(parser.parse_args(arguments))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2])
    else:
        sys.exit(main())
