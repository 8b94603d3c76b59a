"""Measure the speed of passes and fits, against peers in the same run.

    python bench/speed.py [passes | fits | threads | scaling | memory] [--quick] [--data DIR] [--sets NAME ...]

Without a section, all run; with --quick that takes less than a minute. DIR holds the benchmark sets as .npz files
(satellite, letter, mnist10_train). Times are CPU seconds of one thread, which BLAS is limited to, except those of
"threads". Tasks that are compared are measured in turns, and both the median and the minimum are shown. Other processes
slow everything down: look at the ratios, not at the times. Run it outside the repository root, or with amofa installed
in editable mode.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import numpy as np
import scipy
import sklearn
import threadpoolctl
from core import load
from numpy.typing import NDArray
from sklearn.mixture import GaussianMixture

import amofa
from amofa._data.row_chunks import Samples
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._kernels._standard import StandardIteration
from amofa._parameters import Parameters
from amofa.demo import example_2
from amofa.threads import available_cores, single_blas_thread, use_threads

REPEATS = 7
FLOOR = 1e-4


def interleaved(
    tasks: dict[str, Callable[[], object]], repeats: int = REPEATS, clock: Callable[[], float] = time.process_time
) -> dict[str, NDArray[np.float64]]:
    """Measure the CPU seconds, or those of another clock, of every task, (repeats,), in turns after a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for repeat in range(repeats + 1):
        for name, task in tasks.items():
            start = clock()
            task()
            if repeat:
                seconds[name].append(clock() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def middle_and_least(seconds: NDArray[np.float64]) -> str:
    return f"{1e3 * np.median(seconds):.2f} (min {1e3 * seconds.min():.2f}) ms"


# ---- one EM pass -----------------------------------------------------------------------------------------------------

# N, d, K, p; target ratio to scikit-learn; target efficiency, or 0.
PASSES = (
    (100_000, 2, 4, 1, 20, 0.0),
    (100_000, 16, 8, 4, 12, 0.45),
    (20_000, 100, 8, 4, 25, 0.75),
    (60_000, 100, 20, 8, 30, 0.75),
)


def random_mixture(rng: np.random.Generator, d: int, K: int, p: int) -> Parameters:
    """Make components of equal weight, about as far from each other as they are wide in each column."""
    mixture = Parameters(d, [p] * K)
    mixture.weights[:] = 1 / K
    mixture.means[:] = rng.standard_normal((K, d))
    mixture.uniquenesses[:] = rng.uniform(0.3, 0.7, (K, d))
    mixture.loadings[:] = rng.standard_normal((K * p, d)) * 0.7 / np.sqrt(p)
    return mixture


def random_rows(rng: np.random.Generator, mixture: Parameters, n: int) -> NDArray[np.float64]:
    labels = rng.integers(0, mixture.n_components, n)
    rows = np.empty((n, mixture.n_features))
    for k, c in enumerate(mixture.components()):
        mine = labels == k
        noise = rng.standard_normal((mine.sum(), mixture.n_features)) * np.sqrt(c.uniquenesses)
        rows[mine] = c.mean + rng.standard_normal((mine.sum(), len(c.loadings))) @ c.loadings + noise
    return rows


def our_passes(X: NDArray, mixture: Parameters) -> dict[str, Callable[[], object]]:
    """Return one EM pass of each search, from the table on: read, E-step, statistics, M-step."""
    center, scale = X.mean(axis=0), X.std(axis=0)
    samples = Samples(X, center=center, scale=scale)
    tasks = {}
    for search in ("paper", "thorough"):
        parameters = mixture.copy()
        parameters.means[:] = (mixture.means - center) / scale
        parameters.loadings /= scale
        parameters.uniquenesses /= scale**2
        tasks[search] = _passes_of(search, samples, parameters)
    return tasks


def factor_iteration(parameters: Parameters) -> StandardIteration:
    """Make an iteration of EM over the factors: means, loadings and uniquenesses in turn."""
    floor = np.full(parameters.n_features, FLOOR)
    return StandardIteration(parameters.buffer, parameters.offsets, floor, with_entropy=False)


def exact_iteration(parameters: Parameters, prior_count: float) -> ProfileLikelihoodIteration:
    """Make an iteration with every factor analyser at its maximum for its rows."""
    d = parameters.n_features
    given = parameters.buffer, parameters.offsets, np.full(d, FLOOR)
    return ProfileLikelihoodIteration(*given, prior_count, np.ones(d), 0)


def _passes_of(search: str, samples: Samples, parameters: Parameters) -> Callable[[], object]:
    if search == "paper":
        em = factor_iteration(parameters)

        def paper() -> None:
            samples.expect(em)
            em.maximize()

        return paper
    exact = exact_iteration(parameters, 4.0)

    def thorough() -> None:
        samples.expect(exact)
        exact.finish()
        exact.maximize()

    return thorough


def their_fit(X: NDArray, mixture: Parameters, n_iter: int) -> Callable[[], object]:
    covariances = [c.loadings.T @ c.loadings + np.diag(c.uniquenesses) for c in mixture.components()]
    model = GaussianMixture(
        mixture.n_components,
        max_iter=n_iter,
        tol=0.0,
        weights_init=mixture.weights,
        means_init=mixture.means,
        precisions_init=np.linalg.inv(np.array(covariances)),
        init_params="random",
        random_state=0,
    )
    return lambda: model.fit(X)


def limit(X: NDArray, K: int, p: int) -> dict[str, Callable[[], object]]:
    """Return the parts of the limit: products and exponentials that every pass needs, by NumPy."""
    rng = np.random.default_rng(0)
    W, logs = rng.standard_normal((X.shape[1], K * p)), -rng.exponential(size=(len(X), K))
    V = X @ W
    return {"XW": lambda: X @ W, "V'X": lambda: V.T @ X, "X'X": lambda: X.T @ X, "exp": lambda: np.exp(logs)}


def passes(options: argparse.Namespace) -> None:
    """One EM pass with K and p given, against an iteration of GaussianMixture (full) and against the limit.

    An iteration of scikit-learn is half the difference between fits with three and with one. Efficiency is the limit,
    the time of X W + min(V'X, X'X / 2) + exp, over ours; ratios are of medians (of minima).
    """
    print("N, d, K, p | search | pass | against scikit-learn (bar) | efficiency (bar)")
    for n, d, K, p, least_ratio, least_efficiency in PASSES:
        n_rows = n // 10 if options.quick else n
        rng = np.random.default_rng(0)
        mixture = random_mixture(rng, d, K, p)
        X = random_rows(rng, mixture, n_rows)
        theirs = {f"{i} iterations": their_fit(X, mixture, i) for i in (1, 3)}
        times = interleaved(our_passes(X, mixture) | limit(X, K, p) | theirs, 3 if options.quick else REPEATS)
        figures = [_pass_figures(times, reduce) for reduce in (np.median, np.min)]
        for search in ("paper", "thorough"):
            (ratio, efficiency), (ratio_min, efficiency_min) = (f[search] for f in figures)
            print(
                f"{n_rows}, {d}, {K}, {p} | {search} | {middle_and_least(times[search])} | {ratio:.1f} "
                f"({ratio_min:.1f}), >= {least_ratio} | {efficiency:.2f} ({efficiency_min:.2f})"
                + (f", >= {least_efficiency}" if least_efficiency else "")
            )


def _pass_figures(times: dict[str, NDArray], reduce: Callable) -> dict[str, tuple[float, float]]:
    t = {name: float(reduce(values)) for name, values in times.items()}
    iteration = (t["3 iterations"] - t["1 iterations"]) / 2
    best = t["XW"] + min(t["V'X"], t["X'X"] / 2) + t["exp"]
    return {search: (iteration / t[search], best / t[search]) for search in ("paper", "thorough")}


# ---- whole fits ------------------------------------------------------------------------------------------------------


def best_by_bic(X: NDArray, most: int = 10) -> GaussianMixture:
    models = [GaussianMixture(K, random_state=0).fit(X) for K in range(1, most + 1)]
    return min(models, key=lambda model: model.bic(X))


def fits(options: argparse.Namespace) -> None:
    """Whole fits: the paper's search on Example 2, and the default one against K = 1..10 by BIC (full)."""
    example, _ = example_2(0)
    tasks = {
        "paper": lambda: amofa.fit(example, search="paper"),
        "GaussianMixture(4)": lambda: GaussianMixture(4, random_state=0).fit(example),
    }
    _print_fits(f"Example 2 {example.shape}", tasks, REPEATS, "<= 0.5 of the peer's time, a ratio >= 2")
    sets = options.sets or (["example2"] if options.quick else ["example2", "satellite", "letter", "mnist"])
    readers: dict[str, Callable[[], NDArray]] = {
        "example2": lambda: example,
        "satellite": lambda: load(options.data, "satellite")["X"],
        "letter": lambda: load(options.data, "letter")["X"],
        "mnist": lambda: load(options.data, "mnist10_train")["X"],
    }
    for name in sets:
        X = np.ascontiguousarray(readers[name](), dtype=np.float64)
        tasks = {"default": lambda X=X: amofa.fit(X), "GaussianMixture, 1..10": lambda X=X: best_by_bic(X)}
        bar = "> 1" if name in ("example2", "satellite") else ">= 10"
        # Large sets take minutes: once each by default.
        repeats = options.repeats or (REPEATS if name == "example2" else 1)
        _print_fits(f"{name} {X.shape}", tasks, repeats, bar)


def _print_fits(name: str, tasks: dict[str, Callable[[], object]], repeats: int, bar: str) -> None:
    times = interleaved(tasks, repeats) if repeats > 1 else {n: np.array([_once(task)]) for n, task in tasks.items()}
    ours, theirs = times.values()
    ratio = f"ratio {np.median(theirs) / np.median(ours):.2f} ({theirs.min() / ours.min():.2f})"
    print(
        f"{name}: "
        + ", ".join(f"{n} {middle_and_least(t)}" for n, t in times.items())
        + f"; {repeats} runs, {ratio}, bar {bar}"
    )


def _once(task: Callable[[], object]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


# ---- threads ---------------------------------------------------------------------------------------------------------

TOGETHER = (100_000, 16, 8, 4)  # N, d, K, p
EM_ITERATIONS = 10


def threads(options: argparse.Namespace) -> None:
    """EM with K and p given, one thread against as many as there are cores: wall-clock time.

    The ratio (target: >= 1.8 with two threads) is of minima, and is meaningful only if that many cores are free.
    """
    n, d, K, p = TOGETHER
    n = n // 2 if options.quick else n
    rng = np.random.default_rng(0)
    mixture = random_mixture(rng, d, K, p)
    X = random_rows(rng, mixture, n)
    most = available_cores()
    for search, run in our_passes(X, mixture).items():

        def em(n_threads: int, run: Callable[[], object] = run) -> None:
            with single_blas_thread(), use_threads(n_threads):
                for _ in range(EM_ITERATIONS):
                    run()

        tasks = {f"{t} thread{'s' * (t > 1)}": lambda t=t: em(t) for t in sorted({1, 2, most})}
        times = interleaved(tasks, REPEATS if options.quick else 10 * REPEATS, time.perf_counter)
        one = times.pop("1 thread")
        print(f"{n}, {d}, {K}, {p}, {EM_ITERATIONS} iterations, {search}: 1 thread {middle_and_least(one)}")
        for name, seconds in times.items():
            ratio = one.min() / seconds.min()
            print(f"    {name} ({most} cores) {middle_and_least(seconds)}, {ratio:.2f} times as fast")


# ---- growth and memory -----------------------------------------------------------------------------------------------

GROWING = (8, 4, 2)  # d, K, p
SEARCHES = ("paper", "thorough")


def write_table(path: Path, n: int, dtype: str = "f8") -> NDArray:
    """Write a memory map with rows of a mixture, piece by piece; the first rows are the same for every length."""
    rng = np.random.default_rng(0)
    mixture = random_mixture(rng, *GROWING)
    table = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(n, GROWING[0]))
    for start in range(0, n, 100_000):
        table[start : start + 100_000] = random_rows(rng, mixture, min(100_000, n - start))
    table.flush()
    return np.load(path, mmap_mode="r")


def fit_given(X: NDArray, search: str) -> amofa.MixtureOfFactorAnalyzers:
    """Fit with K and p given, and a fixed number of iterations."""
    _, K, p = GROWING
    return amofa.fit(X, n_components=K, n_factors=p, search=search, tol=1e-300, max_iter=5)


def scaling(options: argparse.Namespace) -> None:
    """Fits with K and p given, d = 8, of longer and longer tables: time per row and iteration of EM."""
    most = 5 if options.quick else 7
    with tempfile.TemporaryDirectory() as folder:
        for search in SEARCHES:
            per_row = []
            for power in range(4, most + 1):
                X = write_table(Path(folder) / "table.npy", 10**power)
                iterations = sum(step.n_iter for step in fit_given(X, search).history)
                repeats = 1 if power > 6 else 3 if power > 5 or options.quick else REPEATS
                times = interleaved({"fit": lambda X=X, search=search: fit_given(X, search)}, repeats)["fit"]
                per_row.append(times.min() / 10**power / iterations)
                print(
                    f"{search}, N = 1e{power}: {middle_and_least(times)}, {iterations} iterations, "
                    f"{1e9 * per_row[-1]:.1f} ns per row and iteration, {per_row[-1] / per_row[0]:.3f} of that at "
                    f"N = 1e4 (bar: within 10 %)"
                )


def memory(options: argparse.Namespace) -> None:
    """Memory that a fit of a memory map with K and p given adds to the process (target < 300 MB).

    Pages of the map that the system keeps are not counted: they are X, not a copy of it.
    """
    n = 10**5 if options.quick else 10**7
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("f4", "f8"):
            path = Path(folder) / "table.npy"
            write_table(path, n, dtype)
            for search in SEARCHES:
                command = [sys.executable, __file__, "peak", "--table", str(path), "--search", search]
                used = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
                print(f"{search}, {dtype}, {n} rows, {path.stat().st_size / 1e6:.0f} MB: {used:.1f} MB")


def peak(options: argparse.Namespace) -> None:
    """Return the maximum anonymous memory that a fit of a memory map adds in a separate process, in MB."""
    X = np.load(options.table, mmap_mode="r")
    fit_given(X[:1000], options.search)
    before, most, done = _anonymous(), 0, Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.01):
            most = max(most, _anonymous())

    watcher = Thread(target=watch)
    watcher.start()
    fit_given(X, options.search)
    done.set()
    watcher.join()
    print((most - before) / 1e6)


def _anonymous() -> int:
    """Return the resident bytes that no file backs."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("RssAnon:")[1].split()[0])


# ---- command ---------------------------------------------------------------------------------------------------------

SECTIONS = {f.__name__: f for f in (passes, fits, threads, scaling, memory)}


def print_machine() -> None:
    versions = ", ".join(f"{m.__name__} {m.__version__}" for m in (amofa, np, scipy, sklearn))
    print(f"{versions}; {platform.processor() or platform.machine()}")
    for library in threadpoolctl.threadpool_info():
        print(
            f"  {library['internal_api']} {library['version']}, {library.get('architecture', '?')}, "
            f"{library['num_threads']} thread: {Path(library['filepath']).name}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="?", choices=(*SECTIONS, "peak"))
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the benchmark sets")
    parser.add_argument("--quick", action="store_true", help="small tables, few repeats")
    parser.add_argument("--sets", nargs="+", choices=("example2", "satellite", "letter", "mnist"), help="of fits")
    parser.add_argument("--repeats", type=int, help="of fits; by default one for large sets")
    parser.add_argument("--table", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--search", choices=SEARCHES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpoolctl.threadpool_limits(1), use_threads(1):
        if options.section == "peak":
            peak(options)
            return
        print_machine()
        for name in SECTIONS if options.section is None else [options.section]:
            print(f"\n{name}: {SECTIONS[name].__doc__}\n")
            SECTIONS[name](options)


if __name__ == "__main__":
    main()
