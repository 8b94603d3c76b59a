"""Measure how late a fit with max_time is, and what a checkpoint costs and saves.

    python bench/max_time.py --data DIR [--sets NAME ...] [--seconds S ...]

DIR holds the benchmark sets as .npz files. The delay of a fit is the time that it takes beyond its limit, or 0. The
first model is always finished, so that a short limit is exceeded. With a checkpoint, the same fit is done in pieces of
the given seconds until it ends, at most thirty of them, and then once more from its file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

from core import load
from running import Model

import amofa

SETS = ("satellite", "letter", "optdigits")
SECONDS = (0.5, 2.0, 8.0)
MOST_PIECES = 30


def timed(X, **options) -> tuple[Model, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amofa.AmofaWarning)
        start = time.perf_counter()
        return amofa.fit(X, **options), time.perf_counter() - start


def lateness(name: str, X, seconds: float) -> None:
    model, taken = timed(X, max_time=seconds)
    print(
        f"{name}: {seconds:g} s asked for, {max(0.0, taken - seconds):.2f} s late; "
        f"{model.n_components} components after {len(model.history)} steps"
    )


def in_pieces(name: str, X, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fit.checkpoint")
        pieces, total, ended = 0, 0.0, False
        while not ended and pieces < MOST_PIECES:
            model, taken = timed(X, max_time=seconds, checkpoint=path)
            pieces, total, ended = pieces + 1, total + taken, model.converged
        size = path.stat().st_size / 1e6
        print(
            f"{name}: {pieces} pieces of {seconds:g} s, {'ended' if ended else 'not ended'} after "
            f"{total:.1f} s, {size:.1f} MB"
        )
        if ended:
            whole, alone = timed(X)
            again, recalled = timed(X, checkpoint=path)
            same = whole.history == again.history and (whole.means == again.means).all()
            print(f"{name}: without a file {alone:.1f} s, again from it {recalled:.2f} s, the same model: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seconds", nargs="+", type=float, default=SECONDS)
    arguments = parser.parse_args()
    for name in arguments.sets:
        X = load(arguments.data, name)["X"]
        for seconds in arguments.seconds:
            lateness(name, X, seconds)
        in_pieces(name, X, arguments.seconds[-1])


if __name__ == "__main__":
    main()
