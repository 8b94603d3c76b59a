"""Print the figures of `imofa` and `vbmofa`, beside published ones or those of other programs.

    python bench/baselines_vb.py --data DIR --reference DIR [--quick] [SECTION ...]

DIR holds the benchmark sets as .npz files (4ovGauss, jpn_phoneme); the reference folder holds imofa_perm.npz and the
script r/gen_synth.py. Run it outside the repository root, or with amofa installed in editable mode.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from baselines import verdict
from numpy.typing import NDArray

from amofa.baselines import imofa, vbmofa
from amofa.metrics import normalized_information_distance
from amofa.mixture import MixtureOfFactorAnalyzers

# CPU seconds of autoMFA's vbmfa under R: a set of Example 2, the synthetic set, six classes of jpn with 10 factors.
R_SECONDS = {"example2": 5.8, "synthetic": 26.1, "jpn": 7.1}


def report_speed(name: str, seconds: float) -> None:
    ratio = R_SECONDS[name] / seconds
    print(f"cpu {seconds:.2f} s, {ratio:.1f} x as fast as R; bar 20 x: {verdict(ratio >= 20)}")


def clustering(
    data: Path, n: int, fit: Callable[[NDArray[np.float64]], MixtureOfFactorAnalyzers]
) -> tuple[Counter[int], float, float]:
    """Return numbers of components, mean NID and CPU seconds for a set, over the first n sets of Example 2."""
    with np.load(data / "4ovGauss.npz") as sets:
        X, y = sets["X"][:n], sets["y"][:n]
    start = time.process_time()
    models = [fit(x) for x in X]
    seconds = (time.process_time() - start) / n
    distances = [normalized_information_distance(y[i], model.predict(X[i])) for i, model in enumerate(models)]
    counts = Counter(model.n_components for model in models)
    print(f"K {dict(sorted(counts.items()))}, mean NID {np.mean(distances):.4f}, cpu {seconds:.3f} s a set")
    return counts, float(np.mean(distances)), seconds


def imofa_example2(data: Path, reference: Path, quick: bool) -> None:
    """IMoFA-L, the 100 sets of Example 2 (published: K = 4 in 33, NID 0.3377; the authors' program: 35, 0.3405)."""
    n = 20 if quick else 100
    with np.load(reference / "imofa_perm.npz") as file:
        order = file["perm"] - file["perm"].min()
    counts, distance, _ = clustering(data, n, lambda x: imofa(x[order[:700]], validation=x[order[700:]]))
    print(f"bar: K = 4 in 28 to 45 %: {verdict(0.28 * n <= counts[4] <= 0.45 * n)}")
    print(f"bar: mean NID 0.32 to 0.35: {verdict(0.32 <= distance <= 0.35)}")


def vbmofa_example2(data: Path, reference: Path, quick: bool) -> None:
    """VBMoFA with two factors, the first 57 sets of Example 2 (R: K = 4 in 52)."""
    n = 20 if quick else 57
    counts, distance, seconds = clustering(data, n, lambda x: vbmofa(x, max_factors=2))
    print(f"bar: K = 4 in 52 of 57: {verdict(counts[4] >= 52 / 57 * n)}")
    print(f"bar: mean NID at most 0.256: {verdict(distance <= 0.256)}")
    report_speed("example2", seconds)


def vbmofa_synthetic(data: Path, reference: Path, quick: bool) -> None:
    """VBMoFA, three components of five factors in 20 columns (R: K = 3, all columns on)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.csv"
        subprocess.run([sys.executable, str(reference / "r" / "gen_synth.py"), str(path)], check=True)
        X = np.loadtxt(path, delimiter=",", skiprows=1)[:, :-1]
    for noise in ("shared", "component"):
        start = time.process_time()
        model = vbmofa(X, noise=noise)
        seconds = time.process_time() - start
        print(f"noise={noise!r}: factors {model.n_factors.tolist()}")
        print(f"bar: K = 3 with five factors each: {verdict(model.n_factors.tolist() == [5, 5, 5])}")
        report_speed("synthetic", seconds)


def vbmofa_jpn(data: Path, reference: Path, quick: bool) -> None:
    """VBMoFA, one model for each class of jpn, given split, at most 10 factors (R: 97.3 %)."""
    with np.load(data / "jpn_phoneme.npz") as file:
        X, y, test = file["X"], file["y"], file["split"] == 1
    start = time.process_time()
    models = [vbmofa(X[~test & (y == c)], max_factors=10) for c in range(6)]
    seconds = time.process_time() - start
    accuracy = np.mean(np.argmax([m.score_samples(X[test]) for m in models], axis=0) == y[test])
    print(f"K {[m.n_components for m in models]}, accuracy {accuracy:.4f}; bar 0.965: {verdict(accuracy >= 0.965)}")
    report_speed("jpn", seconds)


SECTIONS = {f.__name__: f for f in (imofa_example2, vbmofa_example2, vbmofa_synthetic, vbmofa_jpn)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"from {', '.join(SECTIONS)}; all if none")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="20 sets of Example 2 only")
    arguments = parser.parse_args()
    for name in arguments.sections or SECTIONS:
        print(f"\n{name}: {SECTIONS[name].__doc__}")
        SECTIONS[name](arguments.data, arguments.reference, arguments.quick)


if __name__ == "__main__":
    main()
