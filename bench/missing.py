"""Measure fits of tables with missing cells: groups found, cells filled in, held-out densities and time.

    python bench/missing.py [groups | factors | imputed | densities | passes | fits] [--data DIR] [--draws N] [--jobs N]

Cells are missing completely at random, or at random: the more often, the larger the first column is. Tables are those
of scikit-learn, and .npz files with X in DIR or its folder real; what is not there is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from clusters import FloatArray, labelled
from core import example_1, load
from running import Run, main_of, verdict
from sklearn import datasets
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

import amofa
from amofa._data.incomplete import IncompleteSamples, samples_of
from amofa._data.row_chunks import Samples
from amofa._data.standardize import Standardized
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa.demo import example_2

NAN = np.nan
# Bars: groups right in this share of the draws up to a share of missing cells; tables on which imputation is best
# or nearly; nats per row that a held-out density may lose; times of a pass and of a fit.
RIGHT, MOST_MISSING = 0.95, 0.2
BEST_OF, NEARLY, LOSS = 0.6, 1.03, 0.05
PASS_TIMES, FIT_TIMES = {0.1: 3.0, 0.3: 6.0}, 5.0
TABLES = (
    *("breast_cancer", "wine", "diabetes", "vowel", "ais", "crabs", "glass", "oils", "ecoli", "penguins"),
    *("satellite", "pendigits", "waveform"),
)
LARGE, MOST_ROWS = ("satellite", "pendigits", "waveform"), 2000


# ---- tables with holes -----------------------------------------------------------------------------------------------


def mcar(X: FloatArray, share: float, seed: int) -> FloatArray:
    """Return X without a share of its cells, completely at random."""
    return np.where(np.random.default_rng(1000 + seed).random(X.shape) < share, NAN, X)


def mar(X: FloatArray, share: float, seed: int) -> FloatArray:
    """Return X in which all columns but the first lack this share of cells, the more the larger the first is."""
    odds = 1 / (1 + np.exp(-2 * (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()))
    holes = X.copy()
    lacking = (
        np.random.default_rng(1000 + seed).random((len(X), X.shape[1] - 1)) < (share * odds / odds.mean())[:, None]
    )
    holes[:, 1:][lacking] = NAN
    return holes


def analysers(seed: int, n: int = 2000) -> tuple[FloatArray, FloatArray]:
    """Draw rows of three groups of 5 factors in 20 columns, with their labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = np.empty((n, 20))
    for k in range(3):
        rows = np.flatnonzero(y == k)
        factors = rng.standard_normal((len(rows), 5)) @ rng.standard_normal((5, 20))
        noise = rng.standard_normal((len(rows), 20)) * np.sqrt(rng.uniform(0.3, 1, 20))
        X[rows] = 3 * rng.standard_normal(20) + factors + noise
    return X, y


def table(run: Run, name: str) -> FloatArray:
    """Return the first rows of a table, in units of its standard deviations."""
    if name in LARGE:
        X = load(run.data, name)["X"][:MOST_ROWS].astype(np.float64)
    else:
        X = datasets.load_diabetes().data if name == "diabetes" else labelled(run, name)[0]
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


# ---- sections --------------------------------------------------------------------------------------------------------


def groups(run: Run) -> None:
    """Number of groups of the paper's examples, beside fits of the complete rows alone."""
    for draw, K in ((example_1, 3), (example_2, 4)):
        for holes, share in ((mcar, 0.1), (mcar, 0.2), (mcar, 0.3), (mar, 0.2)):
            found = list(run.map(partial(_numbers, run, draw, holes, share), range(run.draws)))
            right, alone = (np.array(found) == K).sum(axis=0)
            met = right >= alone - 1 and (share > MOST_MISSING or right >= RIGHT * run.draws)
            print(f"{draw.__name__} {holes.__name__} {share:.0%}: K right in {right} of {run.draws}, ", end="")
            print(f"complete rows alone {alone}: {verdict(met)}")


def _numbers(run: Run, draw: Callable, holes: Callable, share: float, seed: int) -> tuple[int, int]:
    X = holes(draw(seed)[0], share, seed)
    complete = X[~np.isnan(X).any(axis=1)]
    return run.fit(X)[0].n_components, run.fit(complete)[0].n_components


def factors(run: Run) -> None:
    """Numbers of groups and of factors, three groups of 5 factors in 20 columns, 2000 rows."""
    for share in (0.1, 0.2, 0.3, 0.4):
        found = list(run.map(partial(_factors, run, share), range(run.draws)))
        K = np.mean([len(each) == 3 for each in found])
        all_right = np.mean([each == [5, 5, 5] for each in found])
        met = K >= 0.9 if share == 0.4 else all_right >= RIGHT
        print(f"{share:.0%} missing: K right in {K:.0%}, K and all factors in {all_right:.0%}: {verdict(met)}")


def _factors(run: Run, share: float, seed: int) -> list[int]:
    return run.fit(mcar(analysers(seed)[0], share, seed))[0].n_factors.tolist()


def imputed(run: Run) -> None:
    """Root mean squared error of cells that are filled in, in standard deviations."""
    for share in (0.1, 0.3):
        errors = []
        for name in run.chosen(TABLES, ("wine", "crabs")):
            try:
                X = table(run, name)
            except FileNotFoundError as error:
                print(f"left out: {name} ({error.filename} is not there)")
                continue
            each = np.array(list(run.map(partial(_errors, run, X, share), range(min(3, run.draws)))))
            errors.append(np.sqrt((each**2).mean(axis=0)))
            shown = ", ".join(f"{kind} {error:.3f}" for kind, error in zip(IMPUTERS, errors[-1], strict=True))
            print(f"{share:.0%} {name:14s} {len(X):5d} x {X.shape[1]:2d}: {shown}")
        ours, others = np.array(errors)[:, 0], np.array(errors)[:, 1:]
        good, above = ours <= NEARLY * others.min(axis=1), ours < others[:, -1]
        print(f"best or within 3 % on {good.sum()} of {len(good)}, better than the mean on {above.sum()}: ", end="")
        print(verdict(good.mean() >= BEST_OF and above.all()))


IMPUTERS = ("amofa", "IterativeImputer", "KNNImputer", "mean")


def _errors(run: Run, X: FloatArray, share: float, seed: int) -> list[float]:
    holes = mcar(X, share, seed)
    lacking = np.isnan(holes)
    filled = [run.fit(holes)[0].impute(holes)]
    for imputer in (IterativeImputer(random_state=0), KNNImputer(), SimpleImputer()):
        filled.append(imputer.fit_transform(holes))
    return [float(np.sqrt(((each - X)[lacking] ** 2).mean())) for each in filled]


def densities(run: Run) -> None:
    """Mean log density of whole rows under the model of 20 % missing cells, beside that of the whole table."""
    losses = []
    for name, draw in (("example 1", example_1), ("example 2", example_2), ("analysers", analysers)):
        pairs = list(run.map(partial(_densities, run, draw), range(run.draws)))
        whole, holes = np.mean(pairs, axis=0)
        losses.append(whole - holes)
        print(f"{name}: {holes:.3f}, whole {whole:.3f}: {verdict(whole - holes <= LOSS)}")


def _densities(run: Run, draw: Callable, seed: int) -> tuple[float, float]:
    if draw is analysers:
        X, test = np.split(analysers(seed, 4000)[0], 2)
    else:
        X, test = draw(seed)[0], draw(seed + 5000)[0]
    models = [run.fit(rows)[0] for rows in (X, mcar(X, 0.2, seed))]
    whole, holes = (float(model.score_samples(test).mean()) for model in models)
    return whole, holes


def passes(run: Run) -> None:
    """CPU time of an E-step over that of the whole table, under the model of the whole; nothing else may run."""
    for name in run.chosen(("analysers", *LARGE), ("analysers",)):
        X = analysers(0)[0] if name == "analysers" else load(run.data, name)["X"].astype(np.float64)
        rows = Standardized.of(X, None)
        model = amofa.fit(X, max_time=60)
        parameters = rows.coordinates.express(model._parameters)
        d = X.shape[1]
        center, scale = rows.coordinates.center, rows.coordinates.scale

        def seconds(samples: Samples, parameters=parameters, d=d) -> float:
            iteration = ProfileLikelihoodIteration(
                parameters.buffer, parameters.offsets, np.full(d, 1e-12), 0.0, np.ones(d), 0
            )
            samples.expect(iteration)
            return min(_cpu(lambda: samples.expect(iteration)) for _ in range(9))

        whole = seconds(Samples(X, center=center, scale=scale))
        for share, most in PASS_TIMES.items():
            holes = mcar(X, share, 0)
            samples = samples_of(holes, center=center, scale=scale)
            assert isinstance(samples, IncompleteSamples)
            ratio = seconds(samples) / whole
            n_patterns = len(np.unique(np.isnan(holes), axis=0))
            print(
                f"{name} ({len(X)} x {d}, {n_patterns} patterns, K = {model.n_components}), {share:.0%}: "
                f"{ratio:.1f} times: {verdict(ratio <= most)}"
            )


def _cpu(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def fits(run: Run) -> None:
    """CPU time of fits over that of fits of the whole tables; nothing else may run."""
    draws = {"example_1": example_1, "example_2": example_2, "analysers": analysers}
    for name in run.chosen((*draws, *LARGE), ("example_2",)):
        if name in LARGE:
            tables = [load(run.data, name)["X"][:MOST_ROWS].astype(np.float64)]
        else:
            tables = [draws[name](seed)[0] for seed in range(min(5, run.draws))]
        for share in (0.1, 0.3):
            times = np.array(
                [[run.fit(Y, n_threads=1)[1] for Y in (X, mcar(X, share, i))] for i, X in enumerate(tables)]
            )
            ratio = times.sum(axis=0)[1] / times.sum(axis=0)[0]
            print(f"{name}, {share:.0%}: {ratio:.1f} times the CPU ({times[:, 0].sum():.1f} s): ", end="")
            print(verdict(ratio <= FIT_TIMES))


SECTIONS = {f.__name__: f for f in (groups, factors, imputed, densities, passes, fits)}


if __name__ == "__main__":
    main_of(__doc__, SECTIONS, ("example_1", "example_2", "analysers", *TABLES), draws=20, draws_of="kind of groups")
