"""Shared parts of the benchmark scripts of the default search: options of a run, processes, texts."""

from __future__ import annotations

import argparse
import inspect
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sklearn
import threadpoolctl
from numpy.typing import ArrayLike

import amofa

Model = amofa.MixtureOfFactorAnalyzers
Unit = TypeVar("Unit")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Run:
    """The options of the command line."""

    data: Path
    quick: bool
    each: bool
    search: str
    noise: str | None
    jobs: int
    share: float
    sets: Sequence[str]
    tol: float = 1e-5
    draws: int = 100
    first_seed: int = 1000
    cache: Path | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of every fit."""
        return {"search": self.search} if self.noise is None else {"search": self.search, "noise": self.noise}

    def fit(self, X: ArrayLike, **more: Any) -> tuple[Model, float]:
        """Fit a model; return it and the CPU seconds that it took."""
        start = time.process_time()
        model = amofa.fit(X, **self.options, **more)
        return model, time.process_time() - start

    def map(self, function: Callable[[Unit], Result], units: Iterable[Unit]) -> Iterator[Result]:
        """Yield results in the order of the units, each as soon as it and those before it are available."""
        if self.jobs == 1:
            yield from map(function, units)
            return
        # Forked, so that a run of hours continues with the code that it started with, whatever happens to the checkout.
        with ProcessPoolExecutor(self.jobs, get_context("fork"), initializer=be_single) as pool:
            yield from pool.map(function, units)

    def chosen(self, names: Iterable[str], quick: Iterable[str]) -> list[str]:
        """Return the names that were asked for, by default those of `quick` in a quick run, and all otherwise."""
        wanted = self.sets or (quick if self.quick else names)
        return [name for name in names if name in wanted]


def be_single() -> None:
    threadpoolctl.threadpool_limits(1)


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def shape(n_factors: Sequence[int]) -> str:
    """Describe K and the factors of each component, or for many components how often each number occurs."""
    factors = list(map(str, n_factors))
    if len(factors) > 10:
        factors = [f"{count} x {p}" for p, count in sorted(Counter(n_factors).items())]
    return f"K = {len(n_factors)}, factors [{', '.join(factors)}]"


def timed(function: Callable[[Unit], Result], unit: Unit) -> tuple[Result, float]:
    """Return the result of a function and the CPU seconds that it took."""
    start = time.process_time()
    result = function(unit)
    return result, time.process_time() - start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that every script has."""
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the benchmark sets")
    parser.add_argument("--quick", action="store_true", help="fewer sets: about a minute for each section")
    parser.add_argument("--each", action="store_true", help="a line for every set, not only for those that miss")
    parser.add_argument("--search", default="thorough", help="the search that is measured")
    parser.add_argument("--noise", help="auto, component, shared or isotropic; not passed on where not given")
    parser.add_argument("--jobs", type=int, default=1, help="processes over independent sets; speed takes one")
    parser.add_argument("--share", type=float, default=0.06, help="classification: floor as a share of the variances")


def checked(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments after checking that they are consistent."""
    if arguments.search == "paper" and arguments.noise is not None:
        parser.error("the paper's search takes no --noise")
    return arguments


def main_of(
    doc: str | None,
    sections: Mapping[str, Callable[[Run], None]],
    sets: Sequence[str],
    *,
    draws: int,
    draws_of: str,
    cache: bool = False,
) -> None:
    """Read the arguments of a script that has sections and sets, by default so many draws, and run it."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(sections)}; all by default")
    parser.add_argument("--sets", nargs="+", default=(), choices=sets, metavar="SET", help="these alone")
    parser.add_argument("--draws", type=int, default=draws, help=f"draws of each {draws_of} (default {draws})")
    if cache:
        parser.add_argument("--cache", type=Path, help="folder that keeps fitted models")
    add_arguments(parser)
    options = vars(checked(parser, parser.parse_intermixed_args()))
    chosen = options.pop("sections") or sections
    if unknown := [name for name in chosen if name not in sections]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(sections)}")
    run_sections(Run(**options), {name: sections[name] for name in chosen})


def run_sections(run: Run, sections: Mapping[str, Callable[[Run], None]]) -> None:
    """Run sections one after the other, on one BLAS thread, and print title and time of each."""
    warnings.simplefilter("ignore")
    # Flush: a forked process would print the content of the buffer again.
    sys.stdout.reconfigure(line_buffering=True)
    print(f"amofa {amofa.__version__}, numpy {np.__version__}, scikit-learn {sklearn.__version__}")
    print(f"options of the fits: {run.options}")
    with threadpoolctl.threadpool_limits(1):
        for name, section in sections.items():
            print(f"\n{name}: {inspect.getdoc(section)}")
            start = time.perf_counter()
            try:
                section(run)
            except FileNotFoundError as error:
                print(f"left out: {error.filename} is not there")
            print(f"({name}: {time.perf_counter() - start:.0f} s on the clock)")
