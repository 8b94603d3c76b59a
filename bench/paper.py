"""Repeat the paper's experiments: two examples of clustering, and classification by a mixture for each class.

    python bench/paper.py example1|example2|classification|all [--data DIR] [--jobs N] [--quick] [--out DIR] [--plot]

DIR holds the data as .npz files (4ovGauss, ueda_spiral, lvq, optdigits_paper, pendigits, waveform, jpn_phoneme, letter,
mnist10_train, mnist10_test). Missing sets are skipped, and Example 2 is drawn if the authors' sets are missing. The
folder of --out gets results.csv, with a line for each method on each set or fold; report.md, with the published figures
beside the measured ones; and with --plot the figures, which need matplotlib. A run that was stopped is resumed when it
is started again: units with a line in results.csv are not repeated. A quick run does a few of the same sets and folds.
Run it outside the repository root, or with amofa installed in editable mode.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import paper_data
import paper_report
import threadpoolctl
from paper_data import CLASSIFICATION_SETS, EXAMPLES
from paper_methods import CLASSIFIERS, CLUSTERING, METHODS, classify, n_components, n_factors
from paper_results import Result, ResultsFile, Unit
from running import be_single, timed

import amofa
from amofa.metrics import normalized_information_distance

EXPERIMENTS = ("example1", "example2", "classification")
# Sets and folds of a quick run.
QUICK_SETS, QUICK_FOLDS, QUICK_CLASSIFICATION = 3, 2, ("WAV",)
# Seconds between lines of progress.
PATIENCE = 2.0


# ---- units of work ---------------------------------------------------------------------------------------------------


def units(options: argparse.Namespace) -> list[Unit]:
    """Return all units that the command line asks for."""
    return [
        Unit(data, number, method)
        for experiment in options.experiments
        for data in data_of(experiment, options)
        for number in range(n_numbers(data, quick=options.quick))
        for method in (CLUSTERING if data in EXAMPLES else CLASSIFIERS)
        if method in options.methods
    ]


def data_of(experiment: str, options: argparse.Namespace) -> list[str]:
    """Return the sets of an experiment that are asked for and available."""
    if experiment == "example2" and not paper_data.is_there(options.data, "example2"):
        return ["example2-drawn"]
    if experiment != "classification":
        return [experiment]
    return [name for name in asked_sets(options) if paper_data.is_there(options.data, name)]


def asked_sets(options: argparse.Namespace) -> list[str]:
    """Return the sets of classification that are asked for, in the order of the paper."""
    asked = options.sets or (QUICK_CLASSIFICATION if options.quick else CLASSIFICATION_SETS)
    return [name for name in CLASSIFICATION_SETS if name in asked]


def n_numbers(data: str, *, quick: bool) -> int:
    if data in EXAMPLES:
        return QUICK_SETS if quick else paper_data.EXAMPLE_SETS
    return min(paper_data.n_folds(data), QUICK_FOLDS) if quick else paper_data.n_folds(data)


def clustered(folder: Path, unit: Unit) -> Result:
    X, y = paper_data.example_set(folder, unit.data, unit.number)
    model, seconds = timed(partial(METHODS[unit.method].cluster, seed=unit.number), X)
    distance = normalized_information_distance(y, model.predict(X))
    return result(unit, distance, [n_components(model, X)], n_factors(model), model.score_samples(X).mean(), seconds)


def classified(folder: Path, unit: Unit) -> Result:
    fold = paper_data.fold(folder, unit.data, unit.number)
    fit = partial(METHODS[unit.method].classes, y=fold.y, seed=unit.number)
    models, seconds = timed(fit, fold.X)
    classes, densities = classify(models, fold.X_test)
    own = densities[fold.y_test, np.arange(len(classes))].mean()
    components = [n_components(model, fold.X[fold.y == c]) for c, model in enumerate(models)]
    factors = [p for model in models for p in n_factors(model)]
    return result(unit, 100 * np.mean(classes == fold.y_test), components, factors, own, seconds)


def result(
    unit: Unit, score: float, components: list[int], factors: list[int], log_density: float, seconds: float
) -> Result:
    return Result(
        *unit,
        score=round(float(score), 6),
        components=" ".join(map(str, components)),
        factors=" ".join(map(str, factors)),
        log_density=round(float(log_density), 6),
        seconds=round(seconds, 4),
        version=amofa.__version__,
    )


def do(folder: Path, unit: Unit) -> Result:
    """Return the result of a unit, ignoring warnings about convergence and constant columns."""
    with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
        warnings.simplefilter("ignore")
        return (clustered if unit.data in EXAMPLES else classified)(folder, unit)


# ---- running ---------------------------------------------------------------------------------------------------------


def run(todo: Sequence[Unit], work: Callable[[Unit], Result], jobs: int, keep: Callable[[Result], None]) -> int:
    """Do all units and keep their results; return the number of failures, which are named and not kept."""
    failed, start, said = 0, time.monotonic(), 0.0
    for i, (unit, finished) in enumerate(outcomes(todo, work, jobs), 1):
        try:
            kept = finished()
        except Exception as error:
            failed += 1
            say(f"FAILED: {described(unit)}: {type(error).__name__}: {error}")
            continue
        keep(kept)
        now = time.monotonic()
        if now - said > PATIENCE or i == len(todo):
            said = now
            left = (now - start) / i * (len(todo) - i)
            say(f"{i} of {len(todo)}: {described(unit)}: {kept.score:.4g}, {kept.seconds:.1f} s; {span(left)} left")
    return failed


def outcomes(
    todo: Sequence[Unit], work: Callable[[Unit], Result], jobs: int
) -> Iterator[tuple[Unit, Callable[[], Result]]]:
    """Yield units as they are done, each with a function that returns or raises its outcome."""
    if jobs == 1:
        yield from ((unit, partial(work, unit)) for unit in todo)
        return
    # Forked, so that a run of hours continues with the code that it started with, whatever happens to the checkout.
    pool = ProcessPoolExecutor(jobs, get_context("fork"), initializer=be_single)
    futures: dict[Future[Result], Unit] = {pool.submit(work, unit): unit for unit in todo}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def described(unit: Unit) -> str:
    return f"{unit.data} {unit.number}, {METHODS[unit.method].title}"


def span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ---- command ---------------------------------------------------------------------------------------------------------


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=(*EXPERIMENTS, "all"))
    parser.add_argument("--data", type=Path, default=Path("data"), metavar="DIR", help="folder of the data (data)")
    parser.add_argument("--out", type=Path, default=Path("paper-results"), metavar="DIR", help="(paper-results)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (1)")
    parser.add_argument("--quick", action="store_true", help="a few sets and folds: about a minute")
    parser.add_argument("--plot", action="store_true", help="the paper's figures, too")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, metavar="METHOD", help="these alone")
    parser.add_argument(
        "--sets", nargs="+", choices=CLASSIFICATION_SETS, default=(), metavar="SET", help="of classification, alone"
    )
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    options.experiments = EXPERIMENTS if options.experiment == "all" else (options.experiment,)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    file = ResultsFile(options.out / "results.csv")
    asked = units(options)
    todo = [unit for unit in asked if unit not in file.results]
    if "classification" in options.experiments:
        absent = [name for name in asked_sets(options) if not paper_data.is_there(options.data, name)]
        say(f"left out, for their files are not in {options.data}: {', '.join(absent) or 'none'}")
    say(f"{len(asked)} results asked for, {len(asked) - len(todo)} of them there")
    try:
        failed = run(todo, partial(do, options.data), options.jobs, file.add)
    finally:
        # Report what there is, even if the run is stopped.
        report = options.out / "report.md"
        report.write_text(paper_report.report(file, options.experiments), encoding="utf-8")
        say(f"{report} is written")
    if options.plot:
        # Imported here: only this needs matplotlib.
        import paper_figures

        for path in paper_figures.draw(file, options.experiments, options.data, options.out):
            say(f"{path} is written")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("stopped; the same command goes on from here")
        sys.exit(130)
