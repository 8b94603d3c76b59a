"""Classification by a mixture of factor analysers for each class: accuracy on the paper's sets, against its bars.

    python bench/classification.py --data DIR [--search paper] [--jobs N] [--quick] [--sets SET ...]

DIR holds the benchmark sets as .npz files (jpn_phoneme, lvq, optdigits_paper, pendigits, letter, waveform,
mnist10_train, mnist10_test). What is not there is left out and said so. Seconds are CPU seconds of the fits.

Method, the same for all sets. Classes are to be told apart, not counted, so components and factors are chosen by AIC,
which estimates how well the next rows are predicted. The density of a class is that of one factor analyser, of a
mixture, or the mean of both, which is a mixture, too. Every covariance is drawn towards the mean covariance of the
components of all classes, as if so many rows of it had been seen: the posterior mean under a conjugate prior. How many
rows, and which of the three, is estimated by cross-validation inside the training rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from core import load
from numpy.typing import NDArray
from running import Model, Run, add_arguments, checked, run_sections, shape, timed, verdict
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

import amofa

FloatArray = NDArray[np.float64]
Labels = NDArray[np.integer]

# ---- models of classes -----------------------------------------------------------------------------------------------

# Rows that the pooled covariance may be worth: none, and then steps of two, over which accuracy is flat.
PRIOR_ROWS = (0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
# Weights that the single factor analyser of a class may have beside its mixture.
SINGLE_WEIGHTS = (1.0, 0.5, 0.0)
# Parts of every class that are held out in turn, and the most rows of a class that take part.
PARTS = 3
MOST_ROWS = 1000
LEAST_ROWS = 2


class Table(NamedTuple):
    """The rows of a class, and the smallest uniqueness of each column."""

    X: FloatArray
    floor: FloatArray


class ClassFit(NamedTuple):
    """Models of the rows of a class, and their number."""

    single: Model
    mixture: Model
    n: int


class Pooling(NamedTuple):
    """What is estimated: the rows that the pooled covariance is worth, the weight of single factor analysers."""

    rows: float
    single: float


Apply = Callable[[Callable[[Table], ClassFit], list[Table]], Iterable[ClassFit]]


def fit_classes(X: FloatArray, y: Labels, *, share: float = 0.06, apply: Apply = map, **options: Any) -> list[Model]:
    """A model of the rows of each class 0, 1, ...; classes borrow covariance from each other.

    Parameters
    ----------
    X : (n, d) array
    y : (n,) int array
        Of every class at least two rows.
    share : float
        No uniqueness is below this share of the column's variance in all of X. A column that is constant in X gets
        the mean floor of the others.
    apply : callable
        Maps over the fits; it may do so in several processes.
    **options
        Of `amofa.fit`.

    Raises
    ------
    ValueError
        If a class has fewer rows than two.
    """
    return class_models(*fit_and_pool(X, y, share=share, apply=apply, **options))


def fit_and_pool(
    X: FloatArray, y: Labels, *, share: float, apply: Apply, **options: Any
) -> tuple[list[ClassFit], Pooling]:
    """The fits of all classes, and how to make models of them."""
    counts = np.bincount(y)
    if counts.min() < LEAST_ROWS:
        raise ValueError(f"class {counts.argmin()} has {counts.min()} rows; each class needs {LEAST_ROWS}")
    parts = class_parts(y)
    trained = [np.ones(len(y), dtype=bool), *((parts >= 0) & (parts != part) for part in range(PARTS))]
    tables = [table for rows in trained for table in class_tables(X[rows], y[rows], share)]
    fits = list(apply(partial(fit_class, **options), tables))
    whole, *partial_fits = (fits[i : i + len(counts)] for i in range(0, len(fits), len(counts)))
    held_out = [(X[parts == part], y[parts == part]) for part in range(PARTS)]
    return whole, best_pooling(partial_fits, held_out)


def classify(models: Sequence[Model], X: FloatArray) -> NDArray[np.intp]:
    """The class of the largest log-density, for every row; classes are equally probable beforehand."""
    return log_densities(models, X).argmax(axis=0)


def log_densities(models: Sequence[Model], X: FloatArray) -> FloatArray:
    """Of every row under every class, (number of classes, n), nats."""
    return np.stack([model.score_samples(X) for model in models])


def class_parts(y: Labels) -> NDArray[np.intp]:
    """Which part of its class each row is in, 0, 1, ...; -1 for rows that take no part.

    Parts are runs of rows: neighbours may come from one writer or speaker, and must not be on both sides. Of classes
    with very many rows some take part, spread evenly.
    """
    parts = np.full(len(y), -1)
    for c in range(int(y.max()) + 1):
        rows = np.flatnonzero(y == c)
        rows = rows[:: -(-len(rows) // MOST_ROWS)]
        for part, members in enumerate(np.array_split(rows, PARTS)):
            parts[members] = part
    return parts


def class_tables(X: FloatArray, y: Labels, share: float) -> list[Table]:
    variances = X.var(axis=0)
    constant = np.ptp(X, axis=0) == 0
    variances[constant] = variances[~constant].mean()
    return [Table(X[y == c], share * variances) for c in range(int(y.max()) + 1)]


def fit_class(table: Table, **options: Any) -> ClassFit:
    """One factor analyser and a mixture of them, their sizes chosen by AIC."""
    fit = partial(amofa.fit, table.X, noise_floor=table.floor, **{"criterion": "aic", **options})
    mixture = fit()
    single = mixture if mixture.n_components == 1 else fit(n_components=1)
    return ClassFit(single, mixture, len(table.X))


def class_models(fits: Sequence[ClassFit], pooling: Pooling) -> list[Model]:
    """The model of each class: its single factor analyser, its mixture, or both as one mixture."""
    singles, mixtures = pooled_models(fits, pooling.rows)
    if pooling.single in (0, 1):
        return singles if pooling.single else mixtures
    return [
        Model(
            np.concatenate([pooling.single * single.weights, (1 - pooling.single) * mixture.weights]),
            np.concatenate([single.means, mixture.means]),
            [*single.loadings, *mixture.loadings],
            np.concatenate([single.uniquenesses, mixture.uniquenesses]),
        )
        for single, mixture in zip(singles, mixtures, strict=True)
    ]


def pooled_models(fits: Sequence[ClassFit], rows: float) -> tuple[list[Model], list[Model]]:
    """The single factor analysers and the mixtures, each kind with a prior of its own that is worth so many rows."""
    counts = [fit.n for fit in fits]
    kinds = ([fit.single for fit in fits], [fit.mixture for fit in fits])
    return with_prior(kinds[0], counts, rows), with_prior(kinds[1], counts, rows)


def with_prior(models: Sequence[Model], counts: Sequence[int], rows: float) -> list[Model]:
    """Models with the covariances (n_k Sigma_k + rows Sigma) / (n_k + rows), Sigma their mean over all rows.

    The sum of two factor analysers is one: their loadings are put side by side, their uniquenesses added.
    """
    if rows == 0:
        return list(models)
    shared_loadings, shared_noise = as_analyser(pooled_covariance(models, counts))
    results = []
    for model, n in zip(models, counts, strict=True):
        own = n * model.weights / (n * model.weights + rows)
        loadings = [
            np.hstack([np.sqrt(share) * of_model, np.sqrt(1 - share) * shared_loadings])
            for share, of_model in zip(own, model.loadings, strict=True)
        ]
        noise = own[:, None] * model.uniquenesses + (1 - own[:, None]) * shared_noise
        results.append(Model(model.weights, model.means, loadings, noise))
    return results


def pooled_covariance(models: Sequence[Model], counts: Sequence[int]) -> FloatArray:
    """The mean of all components' covariances, by their numbers of rows."""
    total = sum(
        n * weight * model.covariance(k)
        for model, n in zip(models, counts, strict=True)
        for k, weight in enumerate(model.weights)
    )
    return total / sum(counts)


def as_analyser(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Loadings (d, d) and uniquenesses (d,) of a positive definite covariance, exactly, whatever the columns' units."""
    deviations = np.sqrt(np.diagonal(covariance))
    values, directions = np.linalg.eigh(covariance / np.outer(deviations, deviations))
    least = values[0] / 2
    return deviations[:, None] * directions * np.sqrt(values - least), least * deviations**2


def best_pooling(fits: Sequence[Sequence[ClassFit]], held_out: Sequence[tuple[FloatArray, Labels]]) -> Pooling:
    """The one by which the classes of held-out rows are best predicted."""
    y = np.concatenate([labels for _, labels in held_out])
    losses = {}
    for rows in PRIOR_ROWS:
        kinds = zip(*(pooled_models(of_part, rows) for of_part in fits), strict=True)
        single, mixture = (
            np.hstack([log_densities(models, X) for models, (X, _) in zip(kind, held_out, strict=True)])
            for kind in kinds
        )
        for weight in SINGLE_WEIGHTS:
            with np.errstate(divide="ignore"):
                both = np.logaddexp(np.log(weight) + single, np.log(1 - weight) + mixture)
            losses[Pooling(rows, weight)] = calibrated_loss(both, y)
    return min(losses, key=losses.__getitem__)


def calibrated_loss(log_densities: FloatArray, y: Labels) -> float:
    """Minus the mean log-probability of the classes of rows, nats, at the best power of the densities.

    Densities of many columns are far too sure of themselves. Without the power, what makes them less so would win over
    what tells classes apart.
    """

    def loss(log_power: float) -> float:
        scores = np.exp(log_power) * log_densities
        return float(np.mean(logsumexp(scores, axis=0) - scores[y, np.arange(len(y))]))

    return float(minimize_scalar(loss, bounds=(-7.0, 2.0), method="bounded").fun)


# ---- the sets --------------------------------------------------------------------------------------------------------

# Percent that are to be right.
CLASSIFICATION = {
    "jpn_phoneme": 96.7,
    "lvq": 92.1,
    "optdigits_paper": 97.2,
    "pendigits": 99.1,
    "letter": 96.7,
    "waveform": 85.6,
    "mnist10": 96.4,
}


class Fold(NamedTuple):
    """Test accuracy in percent, and what gave it: components and factors of all classes' mixtures, the pooling."""

    accuracy: float
    pooling: Pooling
    components: list[int]
    factors: list[int]
    seconds: float


def classification(run: Run) -> None:
    """One model per class, no priors; ten contiguous folds, or the set's own split."""
    for name in run.chosen(CLASSIFICATION, ["jpn_phoneme", "lvq", "waveform"]):
        try:
            folds = mnist(run) if name == "mnist10" else contiguous_folds(run, name)
        except FileNotFoundError as error:
            print(f"{name} left out: {error.filename} is not there")
            continue
        print_classification(run, name, folds)


def print_classification(run: Run, name: str, folds: list[Fold]) -> None:
    accuracies = [fold.accuracy for fold in folds]
    if run.each:
        print(f"  folds: {' '.join(f'{a:.2f}' for a in accuracies)}")
        print(f"  prior rows, weight of single: {', '.join('{:g} {:g}'.format(*fold.pooling) for fold in folds)}")
    mean, bar = np.mean(accuracies), CLASSIFICATION[name]
    spread = f"{np.std(accuracies, ddof=1):.2f}" if len(folds) > 1 else "none"
    components = [k for fold in folds for k in fold.components]
    factors = [p for fold in folds for p in fold.factors]
    print(
        f"{name}: {mean:.2f} +- {spread} over {len(folds)} (bar {bar}: {verdict(mean >= bar)}); components per class "
        f"{min(components)} to {max(components)}, mean {np.mean(components):.2f}; factors {min(factors)} to "
        f"{max(factors)}, mean {np.mean(factors):.1f}; {sum(fold.seconds for fold in folds):.1f} s"
    )


def contiguous_folds(run: Run, name: str) -> list[Fold]:
    n = len(classification_set(run.data, name)[1])
    step = round(n / 10)
    bounds = [(i * step, (i + 1) * step if i < 9 else n) for i in range(2 if run.quick else 10)]
    return list(run.map(partial(one_fold, run, name), bounds))


def classification_set(data: Path, name: str) -> tuple[FloatArray, Labels]:
    file = load(data, name)
    rows = slice(500 if name == "waveform" else None)
    return file["X"][rows].astype(np.float64), file["y"][rows]


def one_fold(run: Run, name: str, bounds: tuple[int, int]) -> Fold:
    X, y = classification_set(run.data, name)
    tested = np.zeros(len(X), dtype=bool)
    tested[slice(*bounds)] = True
    start = time.process_time()
    fits, pooling = fit_and_pool(X[~tested], y[~tested], share=run.share, apply=map, **run.options)
    seconds = time.process_time() - start
    return judged(fits, pooling, X[tested], y[tested], seconds)


def judged(fits: list[ClassFit], pooling: Pooling, X: FloatArray, y: Labels, seconds: float) -> Fold:
    return Fold(
        100 * float(np.mean(classify(class_models(fits, pooling), X) == y)),
        pooling,
        [fit.mixture.n_components for fit in fits],
        [p for fit in fits for p in fit.mixture.n_factors.tolist()],
        seconds,
    )


def mnist(run: Run) -> list[Fold]:
    """The one split that there is; fits in parallel."""
    train, test = load(run.data, "mnist10_train"), load(run.data, "mnist10_test")
    seconds = []

    def apply(fit_one: Callable[[Table], ClassFit], tables: list[Table]) -> Iterator[ClassFit]:
        for fit, taken in run.map(partial(timed, fit_one), tables):
            print(f"  {fit.n} rows: {shape(fit.mixture.n_factors.tolist())}, {taken:.1f} s")
            seconds.append(taken)
            yield fit

    rows = slice(None, None, 100 if run.quick else 1)
    X, y = train["X"][rows].astype(np.float64), train["y"][rows]
    fits, pooling = fit_and_pool(X, y, share=run.share, apply=apply, **run.options)
    return [judged(fits, pooling, test["X"].astype(np.float64), test["y"], sum(seconds))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=(), choices=CLASSIFICATION, metavar="SET", help="these alone")
    add_arguments(parser)
    options = vars(checked(parser, parser.parse_args()))
    run_sections(Run(**options), {"classification": classification})


if __name__ == "__main__":
    main()
