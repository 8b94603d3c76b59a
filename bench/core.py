"""Measure the paper's search: its examples, classification, real data, invariance and time.

    python bench/core.py --data DIR [--reference DIR] [--quick] [SECTION ...]

DIR holds the benchmark sets as .npz files (4ovGauss, jpn_phoneme, ueda_spiral, letter, satellite, mnist10_train);
the reference folder holds parameters and code lengths computed with the authors' program. Missing files are reported
and skipped. Run it outside the repository root, or with amofa installed in editable mode.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import sklearn
import threadpoolctl
from numpy.typing import NDArray
from sklearn.mixture import GaussianMixture

import amofa
from amofa._data.row_chunks import Samples
from amofa._kernels import _kurtosis
from amofa._parameters import Evaluator, Parameters
from amofa.metrics import normalized_information_distance

# The slow forms that the tests use, too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
import reference as reference_forms

LabelledSet = tuple[NDArray[np.float64], NDArray[np.intp]]
REPEATS = 7


def example_1(seed: int) -> LabelledSet:
    """Draw 300 rows of each of three Gaussians with covariance diag(2, 0.2) at (0, -2), (0, 0) and (0, 2)."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 300)
    means = np.array([[0.0, -2.0], [0.0, 0.0], [0.0, 2.0]])
    return means[y] + rng.standard_normal((900, 2)) * np.sqrt([2.0, 0.2]), y


def load(folder: Path, name: str) -> dict[str, NDArray]:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


# ---- sections --------------------------------------------------------------------------------------------------------


def reference(data: Path, folder: Path, quick: bool) -> None:
    """Log-likelihood and code length of the parameters that the authors' program found."""
    tables = load(data, "4ovGauss")["X"]
    for i in range(3):
        given = load(folder, f"model_4ov_{i + 1}")
        offsets = np.cumsum(given["num_factors"])[:-1]
        loadings = np.split(given["Lambda"], offsets, axis=1)
        model = amofa.MixtureOfFactorAnalyzers(given["pi"], given["mu"], loadings, given["Psi"])
        log_likelihood = model.score_samples(tables[i]).sum()
        bits = program_code_length(log_likelihood, model.weights, model.n_factors, *tables[i].shape)
        print(
            f"set {i}: log-likelihood {log_likelihood:.6f} (relative error "
            f"{abs(log_likelihood / float(given['loglik_nats']) - 1):.1e}), code length {bits:.6f} bits (relative "
            f"error {abs(bits / float(given['message_length_bits']) - 1):.1e})"
        )


def kernels(data: Path, folder: Path, quick: bool) -> None:
    """Largest relative differences of the kernels from dense numpy (tests/helpers/reference.py), over random shapes."""
    worst: dict[str, float] = {}
    rng = np.random.default_rng(0)
    for d, K in [(1, 1), (1, 4), (2, 4), (3, 2), (5, 20), (16, 8), (100, 3)]:
        for n in (1, 50, 700):
            for factors in (0, 1, max(1, d // 3), d + 2):
                for name, error in kernel_errors(rng, reference_forms.random_mixture(rng, K, d, factors), n).items():
                    worst[name] = max(worst.get(name, 0.0), error)
    for name, error in worst.items():
        print(f"{name}: {error:.1e}")


def kernel_errors(rng: np.random.Generator, mixture: Parameters, n: int) -> dict[str, float]:
    x, w = reference_forms.random_rows(rng, mixture, n), rng.uniform(0.5, 2.0, n)
    components, samples = mixture.components(), Samples(x, weights=w)
    model = amofa.MixtureOfFactorAnalyzers(
        mixture.weights, mixture.means, [c.loadings.T for c in components], mixture.uniquenesses
    )
    evaluator = Evaluator(mixture)
    expected = reference_forms.statistics(x, w, components)
    actual = np.split(samples.sums(mixture), np.cumsum([part.size for part in expected.values()])[:-1])
    moments, counts = samples.moments(mixture), expected["soft_counts"][:, None, None]
    shifts = expected["first"] / counts[:, 0]
    covariances = reference_forms.scatter(x, w, components) / counts - shifts[:, :, None] * shifts[:, None, :]
    relative = reference_forms.relative_error
    fourth = np.zeros(mixture.n_components)
    counted = np.zeros(mixture.n_components)
    for rows, weights in samples.chunks():
        _kurtosis.accumulate_kurtosis(
            rows, weights, mixture.offsets, evaluator.prepared, counted, fourth, evaluator.work
        )
    return {
        "log density": reference_forms.log_error(model.score_samples(x), reference_forms.log_density(x, components)),
        "responsibilities": relative(model.predict_proba(x), reference_forms.responsibilities(x, components)),
        "factor scores": max(
            relative(z, reference_forms.factor_scores(x, c), max(1.0, np.abs(z).max(initial=0.0)))
            for z, c in zip(model.factor_scores(x), components, strict=True)
        ),
        "sufficient statistics": max(
            relative(a.reshape(e.shape), e, max(1.0, np.abs(e).max(initial=0.0)))
            for a, e in zip(actual, expected.values(), strict=True)
        ),
        "covariances": relative(moments.covariances, covariances, max(1.0, np.abs(covariances).max())),
        "fourth moments": relative(fourth, reference_forms.fourth_moments(x, w, components)),
    }


def program_code_length(
    log_likelihood: float, weights: NDArray[np.float64], n_factors: NDArray[np.intp], n: int, d: int
) -> float:
    """Return what the authors' program minimises, in bits; it differs from the paper's final equation."""

    def integer_code(m: int) -> int:
        if m < 2:
            return m
        up = math.ceil(math.log2(m))
        return up + integer_code(up)

    c = d * (n_factors + 2) + 1
    bits = -log_likelihood / math.log(2) + (c / 2 * np.log2(weights) + (c + 1) / 2 * math.log2(n / 12)).sum()
    return float(bits) + sum(integer_code(int(m)) + math.log2(2.865064) for m in (len(weights), *n_factors))


def example1(data: Path, folder: Path, quick: bool) -> None:
    """Example 1 of the paper, seeds 0..99 (the program: K = 3 in 98, NID 0.0827)."""
    print_clustering(map(example_1, range(20 if quick else 100)), 3)


def example2(data: Path, folder: Path, quick: bool) -> None:
    """Example 2 of the paper, the authors' 100 sets (published: K = 4 in 92, NID 0.2549)."""
    sets = load(data, "4ovGauss")
    print_clustering(list(zip(sets["X"], sets["y"], strict=True))[: 20 if quick else 100], 4)


def print_clustering(sets: Iterable[LabelledSet], true_components: int) -> None:
    counts: Counter[int] = Counter()
    distances = []
    for X, y in sets:
        model = amofa.fit(X, search="paper")
        counts[model.n_components] += 1
        distances.append(normalized_information_distance(y, model.predict(X)))
    print(
        f"K = {true_components} in {counts[true_components]} of {len(distances)}, mean NID {np.mean(distances):.5f}; "
        f"found K: {dict(sorted(counts.items()))}"
    )


def classification(data: Path, folder: Path, quick: bool) -> None:
    """Japanese phonemes, one model per class, the file's own split (the program: 0.967 at its own code length)."""
    file = load(data, "jpn_phoneme")
    X, y, train = file["X"], file["y"], file["split"] == 0
    start = time.process_time()
    models = [amofa.fit(X[train & (y == c)], search="paper") for c in range(6)]
    seconds = time.process_time() - start
    scores = np.stack([model.score_samples(X[~train]) for model in models])
    print(f"test accuracy {np.mean(scores.argmax(axis=0) == y[~train]):.4f}, {seconds:.1f} s CPU for six fits")
    print(f"K, factors per class: {[(m.n_components, m.n_factors.tolist()) for m in models]}")


def real(data: Path, folder: Path, quick: bool) -> None:
    """Fits of real tables."""
    for name, X in real_tables(data, quick):
        start = time.process_time()
        model = amofa.fit(X, search="paper")
        seconds = time.process_time() - start
        print(
            f"{name} {X.shape}: K = {model.n_components}, factors {model.n_factors.tolist()}, log-likelihood "
            f"{model.log_likelihood:.1f}, message length {model.message_length:.1f}, {len(model.history)} models in "
            f"{sum(step.n_iter for step in model.history)} EM iterations, {seconds:.1f} s CPU"
        )
        steps = (f"{s.action[0]}{s.n_components}{'' if s.accepted else '-'}" for s in model.history)
        print(f"  history (action, K, - where rejected): {' '.join(steps)}")
        print(f"  all log-densities finite: {np.isfinite(model.score_samples(X)).all()}")


def real_tables(data: Path, quick: bool) -> Iterator[tuple[str, NDArray]]:
    yield "spiral", load(data, "ueda_spiral")["X"]
    letter = load(data, "letter")
    yield "letter, class A", letter["X"][letter["y"] == 0]
    if not quick:
        yield "satellite", load(data, "satellite")["X"]
        digits = load(data, "mnist10_train")
        yield "mnist10, digit 0", digits["X"][digits["y"] == 0]


def invariance(data: Path, folder: Path, quick: bool) -> None:
    """Compare answers in other units, orders and dtypes, on Example 2."""
    tables = load(data, "4ovGauss")["X"][: 5 if quick else 30]
    order = np.random.default_rng(0).permutation(tables.shape[1])
    changes: dict[str, Callable[[NDArray], NDArray]] = {
        "shifted by 1e6 standard deviations": lambda X: X + 1e6 * X.std(axis=0),
        "times 1e-8": lambda X: X * 1e-8,
        "times 1e8": lambda X: X * 1e8,
        "columns times 1e-3, 1e5": lambda X: X * [1e-3, 1e5],
        "columns permuted": lambda X: X[:, ::-1],
        "rows permuted": lambda X: X[order],
        "float32": lambda X: X.astype(np.float32),
        "Fortran order": np.asfortranarray,
    }
    originals = [amofa.fit(X, search="paper") for X in tables]
    for name, change in changes.items():
        same = sum(
            same_answer(model, X, change(X), order if name == "rows permuted" else slice(None))
            for model, X in zip(originals, tables, strict=True)
        )
        print(f"{name}: same K, factors and labels in {same} of {len(tables)}")


def same_answer(model: amofa.MixtureOfFactorAnalyzers, X: NDArray, changed: NDArray, order: NDArray | slice) -> bool:
    other = amofa.fit(changed, search="paper")
    return other.n_factors.tolist() == model.n_factors.tolist() and bool(
        np.array_equal(other.predict(changed), model.predict(X)[order])
    )


def speed(data: Path, folder: Path, quick: bool) -> None:
    """CPU time of one Example-2 fit against scikit-learn's GaussianMixture(4).fit on the same set, one thread."""
    tables = load(data, "4ovGauss")["X"][: 10 if quick else 100]
    fits = {"amofa": lambda X: amofa.fit(X, search="paper"), "scikit-learn": lambda X: GaussianMixture(4).fit(X)}
    seconds: dict[str, list[float]] = {name: [] for name in fits}
    with threadpoolctl.threadpool_limits(1):
        for X in [tables[0], *np.repeat(tables, REPEATS, axis=0)]:
            for name, fit in fits.items():
                start = time.process_time()
                fit(X)
                seconds[name].append(time.process_time() - start)
    for name, measured in seconds.items():
        ms = 1e3 * np.array(measured[1:])
        print(f"{name}: median {np.median(ms):.2f} ms, mean {ms.mean():.2f} ms, minimum {ms.min():.2f} ms")
    ratio = [np.median(seconds[name][1:]) for name in ("amofa", "scikit-learn")]
    print(f"ratio of medians amofa / scikit-learn {ratio[0] / ratio[1]:.2f}, {REPEATS} runs of each set, interleaved")
    for library in threadpoolctl.threadpool_info():
        print(f"  {library['internal_api']} {library['version']}: {Path(library['filepath']).name}")


SECTIONS = {f.__name__: f for f in (reference, kernels, example1, example2, classification, real, invariance, speed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the benchmark sets")
    parser.add_argument("--reference", type=Path, default=Path("reference"), help="folder of the program's results")
    parser.add_argument("--quick", action="store_true", help="fewer sets")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"amofa {amofa.__version__}, numpy {np.__version__}, scikit-learn {sklearn.__version__}")
    for name in arguments.sections or SECTIONS:
        if name not in SECTIONS:
            parser.error(f"no section {name!r}; there are {', '.join(SECTIONS)}")
        print(f"\n{name}: {SECTIONS[name].__doc__}")
        try:
            SECTIONS[name](arguments.data, arguments.reference, arguments.quick)
        except FileNotFoundError as error:
            print(f"left out: {error.filename} is not there")


if __name__ == "__main__":
    main()
