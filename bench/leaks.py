"""Measure what many fits in one process leave behind: ``python bench/leaks.py [--fits 1000] [--first 100]``.

Fits of all kinds in turn: both searches, with one thread and several, of memory maps, with callbacks that end the
search or raise, interrupted ones; the models score rows, are saved and read, and become handles for compiled code. It
prints resident memory, objects of Python's garbage collector, threads and open files, after the first fits and after
all, and ends with status 1 if any of them has grown by more than chance explains.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import amofa

# Allowed growth from the first fits to all of them. Memory becomes fragmented; one model for each fit would be several
# thousand objects.
MOST = {"memory (kB)": 8192, "objects": 300, "threads": 0, "files": 0}
Rows = np.ndarray


def rows(seed: int) -> Rows:
    """Draw three clusters, different ones each time."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(center, 1, (60, 4)) for center in (0, 6, 12)]).astype(np.float64)


class Refused(Exception):  # noqa: N818 - not an error
    """The error that a callback raises."""


def _raise(kind: type[BaseException], at: int) -> Callable[[object], None]:
    seen = []

    def callback(step: object) -> None:
        seen.append(step)
        if len(seen) == at:
            raise kind

    return callback


def thorough(X: Rows, folder: Path) -> None:
    amofa.fit(X)


def paper(X: Rows, folder: Path) -> None:
    amofa.fit(X, search="paper")


def wide(X: Rows, folder: Path) -> None:
    amofa.fit(np.ascontiguousarray(X[::9].T), max_components=2)


def threads(X: Rows, folder: Path) -> None:
    many = np.tile(X, (700, 1)) + np.arange(700 * len(X))[:, None] * 1e-9
    amofa.fit(many, search="paper", n_components=3, n_factors=1, tol=1e-2, max_iter=2, n_threads=3)


def stopped(X: Rows, folder: Path) -> None:
    amofa.fit(X, callback=lambda step: step.n_components == 2)


def refused(X: Rows, folder: Path) -> None:
    for search in ("thorough", "paper"):
        with contextlib.suppress(Refused):
            amofa.fit(X, search=search, callback=_raise(Refused, 2), n_threads=2)


def interrupted(X: Rows, folder: Path) -> None:
    with contextlib.suppress(amofa.FitInterrupted):
        amofa.fit(X, callback=_raise(KeyboardInterrupt, 2))
    amofa.fit(X, callback=_raise(KeyboardInterrupt, 2), on_interrupt="return")


def wrong(X: Rows, folder: Path) -> None:
    with contextlib.suppress(ValueError):
        amofa.fit(np.full((5, 2), np.nan))


def saved(X: Rows, folder: Path) -> None:
    path = folder / "model.npz"
    amofa.fit(X, max_components=2).save(path)
    model = amofa.load(path)
    path.write_bytes(path.read_bytes()[:-99])
    with contextlib.suppress(ValueError):
        amofa.load(path)
    incomplete = X.copy()
    incomplete[::7, 1] = np.nan
    model.predict(X), model.score(X), model.transform(X), model.bic(X), model.sample(50, 0)
    model.impute(incomplete), model.score_samples(incomplete), model.condition([0], [1.0]), model.summary()


def handle(X: Rows, folder: Path) -> None:
    amofa.fit(X, max_components=2).cython_handle()


def mapped(X: Rows, folder: Path) -> None:
    np.save(folder / "rows.npy", X)
    table = np.load(folder / "rows.npy", mmap_mode="r")
    amofa.fit(table, max_components=2)


KINDS = (thorough, paper, wide, threads, stopped, refused, interrupted, wrong, saved, handle, mapped)


def measured() -> dict[str, int]:
    """Return the present figures."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory (kB)": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        "objects": len(gc.get_objects()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
    }


def run(n_first: int, n_fits: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return the figures after the first fits and after all."""
    first: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(n_fits):
            if i == n_first:
                first = measured()
            KINDS[i % len(KINDS)](rows(i), Path(folder))
        return first, measured()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fits", type=int, default=1000, help="how many in all (default 1000)")
    parser.add_argument("--first", type=int, default=100, help="how many come before the first look (default 100)")
    options = parser.parse_args()
    if not Path("/proc/self/statm").exists():
        parser.error("it reads /proc, which is not here")
    first, last = run(options.first, options.fits)
    print(f"{'after fits':>12} {options.first:>10} {options.fits:>10} {'more':>10} {'may be':>10}")
    for name, most in MOST.items():
        print(f"{name:>12} {first[name]:>10} {last[name]:>10} {last[name] - first[name]:>+10} {most:>10}")
    return int(any(last[name] - first[name] > most for name, most in MOST.items()))


if __name__ == "__main__":
    sys.exit(main())
