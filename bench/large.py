"""Measure fits of tables beyond memory and beyond one process: the same model, lost workers, cost, memory.

    python bench/large.py [same] [killed] [splits] [overhead] [passes] [growth] [dask] [parquet] [--rows N]
                          [--folder DIR]

Sections run one after the other, all by default; dask, pyarrow and zarr must be installed. The rows are drawn block by
block from eight groups with two factors each. `dask` takes 2e7 rows of 16 columns on two worker processes, and
`parquet` 5e7 rows of 8 columns from files in DIR, which are 1.6 GB and are removed; --rows takes fewer.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import dask
import dask.array
import numpy as np
import pyarrow
import pyarrow.parquet
import zarr
from dask.distributed import Client, LocalCluster

import amofa
import amofa.dask
from amofa._data.block_rows import BlockRows, Facts
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._search import levels
from amofa.blocks import Blocks, from_npy, from_parquet, from_zarr

GROUPS, FACTORS = 8, 2
OPTIONS = {"max_components": 10}
# By default, workers of dask return memory to the system whenever 64 kB are free, and ask for it again.
KEEP_MEMORY = {f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_": 1 << 28 for name in ("TRIM", "MMAP")}


# ---- rows ------------------------------------------------------------------------------------------------------------


def rows_of(number: int, n: int, d: int) -> np.ndarray:
    """Draw the rows of a block, (n, d) float32."""
    of_groups, rng = np.random.default_rng(d), np.random.default_rng((d, number))
    means, loadings = of_groups.normal(0, 5, (GROUPS, d)), of_groups.normal(0, 1, (GROUPS, FACTORS, d))
    shares = np.arange(1, GROUPS + 1) / sum(range(1, GROUPS + 1))
    labels = np.sort(rng.choice(GROUPS, n, p=shares))
    X = rng.standard_normal((n, d), dtype=np.float32) * np.float32(0.5)
    for k in range(GROUPS):
        own = slice(*np.searchsorted(labels, [k, k + 1]))
        X[own] += rng.standard_normal((own.stop - own.start, FACTORS)) @ loadings[k] + means[k]
    return rng.permutation(X)


def drawn_by_dask(n_blocks: int, n: int, d: int, dtype=np.float32):
    def draw(numbers: np.ndarray) -> np.ndarray:
        return rows_of(int(numbers[0, 0]), n, d).astype(dtype, copy=False)

    numbers = dask.array.arange(n_blocks, chunks=1)[:, None]
    return dask.array.map_blocks(draw, numbers, chunks=((n,) * n_blocks, (d,)), dtype=dtype)


def cluster(n_workers: int, *, keeps_memory: bool = False) -> LocalCluster:
    with dask.config.set(KEEP_MEMORY if keeps_memory else {}):
        return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")


def shape(model) -> str:
    return f"K = {model.n_components}, factors {model.n_factors.tolist()}"


def same_bits(a, b) -> bool:
    return a._parameters.buffer.tobytes() == b._parameters.buffer.tobytes()


def differs(model, other) -> str:
    if model.n_factors.tolist() != other.n_factors.tolist():
        return f"another model: {shape(model)}"
    cost = abs(model._report.cost / other._report.cost - 1)
    means = np.abs(model.means - other.means).max() / np.abs(other.means).max()
    return f"cost differs by {cost:.1e}, means by {means:.1e}; the same bits: {same_bits(model, other)}"


# ---- sections --------------------------------------------------------------------------------------------------------


def same(arguments) -> None:
    """The same model from an array, a map, Parquet, Zarr, and dask with one and two workers."""
    n_blocks, n, d = 6, 100_000, 8
    X = np.concatenate([rows_of(i, n, d) for i in range(n_blocks)])
    expected = amofa.fit(X, **OPTIONS)
    print(f"array of {X.shape}: {shape(expected)}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        np.save(f"{folder}/x.npy", X)
        names = [f"x{j}" for j in range(d)]
        table = pyarrow.table(dict(zip(names, X.T, strict=True)))
        pyarrow.parquet.write_table(table, f"{folder}/x.parquet", row_group_size=70_000)
        zarr.create_array(f"{folder}/x.zarr", data=X, chunks=(40_000, d))
        for name, rows in {
            "map": np.load(f"{folder}/x.npy", mmap_mode="r"),
            ".npy in blocks": from_npy(f"{folder}/x.npy"),
            "Parquet": from_parquet(f"{folder}/x.parquet"),
            "Zarr": from_zarr(f"{folder}/x.zarr"),
        }.items():
            print(f"{name}: {differs(amofa.fit(rows, **OPTIONS), expected)}")
    blocks = amofa.fit(Blocks([X[i * n : (i + 1) * n] for i in range(n_blocks)]), **OPTIONS)
    print(f"blocks: {differs(blocks, expected)}")
    for n_workers in (1, 2):
        with cluster(n_workers) as workers, Client(workers) as client:
            rows = drawn_by_dask(n_blocks, n, d).persist()
            model = amofa.dask.fit(rows, client=client, **OPTIONS)
        print(f"dask, {n_workers} workers: the bits of these blocks: {same_bits(model, blocks)}")


def killed(arguments) -> None:
    """One of two workers is killed during a fit."""
    n_blocks, n, d = 6, 100_000, 8
    start = amofa.fit(rows_of(0, 20_000, d), **OPTIONS)
    options = OPTIONS | {"init": start}
    expected = amofa.fit(Blocks([lambda i=i: rows_of(i, n, d) for i in range(n_blocks)]), **options)
    with cluster(2) as workers, Client(workers) as client:
        process = client.run(os.getpid)
        n_iterations = []

        def kill(_) -> None:
            n_iterations.append(1)
            if len(n_iterations) == 3:
                os.kill(next(iter(process.values())), signal.SIGKILL)

        model = amofa.dask.fit(drawn_by_dask(n_blocks, n, d), client=client, on_iteration=kill, **options)
        print(f"killed after 3 of {len(n_iterations)} iterations: the same bits: {same_bits(model, expected)}")


def splits(arguments) -> None:
    """CPU time of a search of 4e5 rows of 16 columns whose local splits are found here, and on two workers."""
    n_blocks, n, d = 4, 100_000, 16
    usual, models = levels._LEAST_VALUES_ELSEWHERE, []
    ways = {"here": (sys.maxsize, False), "on workers": (usual, False), "on workers that keep memory": (usual, True)}
    for name, (least, keeps_memory) in ways.items():
        levels._LEAST_VALUES_ELSEWHERE = least
        with cluster(2, keeps_memory=keeps_memory) as workers, Client(workers) as client:
            rows = drawn_by_dask(n_blocks, n, d).persist()
            client.run(import_module, "amofa._search.task")
            start, before = time.perf_counter(), cpu_times(client)
            models.append(amofa.dask.fit(rows, client=client, **OPTIONS, n_threads=1))
            taken = time.perf_counter() - start
            cpu = [f"{after - at_start:.1f}" for at_start, after in zip(before, cpu_times(client), strict=True)]
        print(f"splits {name}: {taken:.1f} s; CPU: here {cpu[0]} s, workers {', '.join(cpu[1:])} s")
    print(f"the same bits: {all(same_bits(models[0], model) for model in models)}")


def overhead(arguments) -> None:
    """What dask adds to the CPU time of a pass over a block of 64 MB: that of passes in which workers do nothing."""
    n, d, n_blocks, n_passes = 1 << 19, 16, 64, 5
    model = amofa.fit(rows_of(0, 20_000, d), **OPTIONS)
    source = Blocks(2 * [rows_of(0, n, d).astype(float)])
    here = cpu_of_passes(source, model, n_passes) / (2 * n_passes)
    with cluster(2) as workers, Client(workers) as client:
        source = amofa.dask._DaskBlocks(drawn_by_dask(n_blocks, 1, d).persist(), None, client)
        source.total(nothing, np.add)
        before, start = cpu_times(client), time.perf_counter()
        for _ in range(n_passes):
            source.total(nothing, np.add)
        taken = time.perf_counter() - start
        total = sum(cpu_times(client)) - sum(before)
        before = cpu_times(client)
        time.sleep(8.0)
        idle = (sum(cpu_times(client)) - sum(before)) / 8.0 * taken
    added = total / (n_blocks * n_passes)
    print(f"{1e3 * here:.1f} ms here, dask adds {1e3 * added:.1f} ms: {100 * added / here:.0f} %")
    print(f"of these {1e3 * idle / (n_blocks * n_passes):.1f} ms are what an idle cluster takes in that time")


def nothing(number, rows, weights) -> np.ndarray:
    """Return zeros of the size of the sums of eight components in 16 columns."""
    return np.zeros(2200)


def cpu_times(client) -> list[float]:
    """Return the CPU seconds of this process and of each worker, if there is a client."""
    return [time.process_time(), *([] if client is None else client.run(time.process_time).values())]


def pass_over(source, model) -> Callable[[], None]:
    """Return a function that runs an E-step of a model over all rows, which it has done once."""
    rows = BlockRows.of(source, Facts.of(source))
    parameters, d = model._parameters.copy(), source.n_features
    iteration = ProfileLikelihoodIteration(parameters.buffer, parameters.offsets, np.full(d, 1e-9), 0.0, np.ones(d), 0)

    def run() -> None:
        rows.expect(iteration, None, parameters)

    run()
    return run


def cpu_of_passes(source, model, n_passes: int) -> float:
    """Return the CPU seconds of E-steps of a model over all rows, after a first one."""
    with amofa.threads.use_threads(1):
        run = pass_over(source, model)
        start = time.process_time()
        for _ in range(n_passes):
            run()
        return time.process_time() - start


def seconds_of_pass(source, model) -> float:
    """Return the least time of three E-steps of a model over all rows, with one thread in each process."""
    with amofa.threads.use_threads(1):
        run, taken = pass_over(source, model), []
        for _ in range(3):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
        return min(taken)


def passes(arguments) -> None:
    """CPU time of one pass for each row, from arrays in blocks and from files; one thread."""
    n, d, n_blocks = 500_000, 16, 4
    model = amofa.fit(rows_of(0, 20_000, d), **OPTIONS)
    print(f"{shape(model)}, {d} columns of float32")
    blocks = [rows_of(i, n, d) for i in range(n_blocks)]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        X = np.concatenate(blocks)
        np.save(f"{folder}/x.npy", X)
        table = pyarrow.table({f"x{j}": X[:, j] for j in range(d)})
        pyarrow.parquet.write_table(table, f"{folder}/x.parquet")
        zarr.create_array(f"{folder}/x.zarr", data=X, chunks=(50_000, d))
        for name, source in {
            "arrays": Blocks(blocks),
            ".npy": from_npy(f"{folder}/x.npy"),
            "Parquet": from_parquet(f"{folder}/x.parquet"),
            "Zarr": from_zarr(f"{folder}/x.zarr"),
        }.items():
            print(f"{name}: {1e9 * cpu_of_passes(source, model, 3) / 3 / len(X):.0f} ns for each row and pass")


def growth(arguments) -> None:
    """Time of a pass for more rows and more workers, one thread each, blocks of 32 MB; docs/images/make_large.py."""
    n, d = 1 << 19, 16
    model = amofa.fit(rows_of(0, 20_000, d), **OPTIONS)
    for n_blocks in (2, 8, 32):
        seconds = [seconds_of_pass(Blocks([rows_of(i, n, d) for i in range(n_blocks)]), model)]
        for n_workers in (1, 2):
            with cluster(n_workers) as workers, Client(workers) as client:
                rows = drawn_by_dask(n_blocks, n, d).persist()
                seconds.append(seconds_of_pass(amofa.dask._DaskBlocks(rows, None, client), model))
        print(
            f"{n_blocks * n} rows: {seconds[0]:.2f} s here, 1 worker {seconds[1]:.2f} s, 2 workers {seconds[2]:.2f} s"
        )


def in_dask(arguments) -> None:
    """A search of 2e7 rows of 16 columns, drawn by blocks on two workers; and of the same blocks in this process."""
    n, d = 1 << 19, 16
    n_blocks = max(1, round((arguments.rows or 2e7) / n))
    with cluster(2) as workers, Client(workers) as client:
        # At most half of the memory of each worker.
        table = drawn_by_dask(n_blocks, n, d).persist()
        steps = []
        start, cpu = time.perf_counter(), time.process_time()
        model = amofa.dask.fit(table, client=client, on_iteration=lambda _: steps.append(1), **OPTIONS)
        taken, cpu = time.perf_counter() - start, time.process_time() - cpu
        worker_time, peaks = client.run(time.process_time), client.run(peak)
    print(f"{n_blocks * n} rows: {shape(model)}, {len(steps)} iterations on all rows")
    print(f"{taken:.0f} s; CPU: here {cpu:.0f} s, workers {sum(worker_time.values()):.0f} s with the draws")
    print(f"peak memory: here {peak():.0f} MB, workers {', '.join(f'{p:.0f}' for p in peaks.values())} MB")
    blocks = Blocks([rows_of(i, n, d) for i in range(n_blocks)])
    start = time.perf_counter()
    alone = amofa.fit(blocks, **OPTIONS)
    alone_taken = time.perf_counter() - start
    bits = same_bits(model, alone)
    print(f"here, from memory: {alone_taken:.0f} s, {alone_taken / taken:.2f} of that; the same bits: {bits}")


def peak() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def parquet(arguments) -> None:
    """Peak memory of a fit of 5e7 rows of 8 columns from Parquet files, beyond that of the interpreter."""
    n, d = 1 << 20, 8
    n_files = max(1, round((arguments.rows or 5e7) / n))
    folder = Path(arguments.folder or tempfile.gettempdir(), "amofa_large")
    folder.mkdir()
    try:
        for i in range(n_files):
            table = pyarrow.table({f"x{j}": column for j, column in enumerate(rows_of(i, n, d).T)})
            pyarrow.parquet.write_table(table, folder / f"{i:03}.parquet", compression="none")
        # In a process of its own, which has not drawn rows.
        subprocess.run([sys.executable, __file__, "--fit-folder", str(folder)], check=True)
    finally:
        shutil.rmtree(folder)


def fit_folder(folder: str) -> None:
    """Fit files for some minutes at most, and print the peak memory before and after."""
    import pyarrow.dataset

    amofa.fit(np.random.default_rng(0).normal(size=(100, 2)))
    before, steps = peak(), []
    start = time.perf_counter()
    model = amofa.fit(from_parquet(folder), on_iteration=lambda _: steps.append(1), max_time=240, **OPTIONS)
    n = sum(file.count_rows() for file in pyarrow.dataset.dataset(folder).get_fragments())
    print(f"{n} rows: {shape(model)}, {len(steps)} iterations on all rows in {time.perf_counter() - start:.0f} s")
    print(f"peak memory: {before:.0f} MB before, {peak():.0f} MB after: {peak() - before:.0f} MB")


SECTIONS = {
    "same": same,
    "killed": killed,
    "splits": splits,
    "overhead": overhead,
    "passes": passes,
    "growth": growth,
    "dask": in_dask,
    "parquet": parquet,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--rows", type=float, help="rows of the sections dask and parquet")
    parser.add_argument("--folder", help="folder for files")
    parser.add_argument("--fit-folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.fit_folder:
        fit_folder(arguments.fit_folder)
        return
    for name in arguments.sections or SECTIONS:
        print(f"\n{name}: {SECTIONS[name].__doc__}", flush=True)
        SECTIONS[name](arguments)


if __name__ == "__main__":
    main()
