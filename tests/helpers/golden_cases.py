"""Fits whose histories and models are recorded in golden/. `python tests/helpers/golden_cases.py` records them anew.

Tables are read from golden/ (iris and wine: Fisher 1936, Forina et al. 1988, from the UCI repository), or drawn with a
seed and rounded, so that they are the same on every machine.
"""

import hashlib
import json
import platform
import re
import sys
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import datasets
import numpy as np
import scipy
import threadpoolctl

import amofa

FOLDER = Path(__file__).parents[1] / "golden"
RECORDS = FOLDER / "records.json"
# What must be the same everywhere, and what may differ by rounding.
STEP_CHOICES = ("action", "component", "n_factors", "n_iter", "accepted")
STEP_NUMBERS = ("cost", "message_length", "log_likelihood")
MODEL_CHOICES = ("n_factors", "n_parameters", "converged")
MODEL_NUMBERS = ("log_likelihood", "message_length")
MODEL_ARRAYS = ("weights", "means", "uniquenesses", "loadings")


# ---- tables ----------------------------------------------------------------------------------------------------------


def read(name):
    return np.loadtxt(FOLDER / f"{name}.csv", delimiter=",")


def drawn(draw, seed, *arguments, **options):
    """Return rows without the digits that depend on how a machine multiplies matrices."""
    X, _ = draw(np.random.default_rng(seed), *arguments, **options)
    return np.round(X, 6)


def two_analysers():
    """Return rows of two overlapping components of 3 and 1 factors, in columns of different units."""
    X = drawn(datasets.factor_analysers, 3, 7, [3, 1], [120, 80], distance=3.0)
    return np.round(X * [1, 10, 0.1, 1, 100, 1, 0.5], 6)


def two_disks(X):
    """Return a model of two components without factors, one at either side of the mean."""
    mean, variance = X.mean(axis=0), X.var(axis=0)
    side = np.sqrt(variance) / 2
    loadings = [np.zeros((X.shape[1], 0))] * 2
    return amofa.MixtureOfFactorAnalyzers([0.5, 0.5], [mean - side, mean + side], loadings, [variance, variance])


# ---- cases -----------------------------------------------------------------------------------------------------------


def all_cases():
    """Yield name, table and options of each fit."""
    iris, wine = read("iris"), read("wine")
    example_2 = drawn(datasets.example_2, 2)
    few = example_2[::3]
    wide = drawn(datasets.factor_analysers, 4, 120, [1, 1], [24, 16], distance=4.0)
    many = drawn(datasets.factor_analysers, 5, 8, [1, 2, 1], [10_000, 6000, 4000], distance=3.0)
    for_both = (
        ("example 1", drawn(datasets.example_1, 1), {}),
        ("example 2", example_2, {}),
        ("iris", iris, {}),
        ("wine", wine, {}),
        ("two analysers", two_analysers(), {}),
        ("wide", wide, {}),
        ("many rows", many, {}),
        ("weights", few, {"sample_weight": 0.25 + np.arange(len(few)) % 5}),
        ("constant column", np.insert(wine, 2, 7.0, axis=1), {}),
        ("repeated rows", np.repeat(np.round(few, 1), 1 + np.arange(len(few)) % 3, axis=0), {}),
        ("4 components", wine, {"n_components": 4}),
        ("factors of each", two_analysers(), {"n_factors": [3, 1]}),
        ("at most 2 components", few, {"max_components": 2}),
        ("labels", few, {"init": np.arange(len(few)) % 4}),
        ("a model", few, {"init": two_disks(few), "max_factors": 1}),
        ("bic", iris, {"criterion": "bic"}),
        ("icl", few, {"criterion": "icl"}),
        ("mml", few, {"criterion": "mml"}),
    )
    for name, X, options in for_both:
        yield name, X, options
        yield f"{name}, paper", X, {"search": "paper", **options}
    yield "aic", few, {"criterion": "aic"}
    yield "shared noise", wine, {"noise": "shared"}
    yield "shared noise, wide", wide, {"noise": "shared", "noise_floor": 1e-3}
    yield "isotropic noise", two_analysers(), {"noise": "isotropic"}
    yield "noise of each", wine, {"noise": "component", "prior_rows": 0.0}


CASES = {name: (X, options) for name, X, options in all_cases()}


def fitted(X, **options):
    """Return the model, whatever the fit warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amofa.AmofaWarning)
        return amofa.fit(X, **options)


# ---- records ---------------------------------------------------------------------------------------------------------


def record_of(X, model):
    """Return what is kept of a fit: values that JSON writes and reads to the last bit."""
    record = {
        "table": hashlib.sha256(np.ascontiguousarray(X).tobytes()).hexdigest()[:16],
        "history": [[getattr(step, name) for name in STEP_CHOICES + STEP_NUMBERS] for step in model.history],
        "model": {name: getattr(model, name) for name in MODEL_CHOICES + MODEL_NUMBERS + MODEL_ARRAYS},
    }
    return json.loads(json.dumps(record, default=lambda value: value.tolist()))


def recorded():
    """Return the environment in which the records were made, and the records by name."""
    content = json.loads(RECORDS.read_text(encoding="utf-8"))
    return content.pop("environment"), content


def environment():
    """Return whatever decides how numbers are rounded: where it is the same, fits are the same to the last bit."""
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    return {
        "platform": [sys.platform, platform.machine(), *platform.libc_ver()],
        "numpy": [np.__version__, *np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])],
        "scipy": [scipy.__version__],
        "blas": sorted({" ".join(str(pool.get(key)) for key in ("version", "architecture")) for pool in pools}),
        "kernels": sorted(set().union(*map(traits_of_build, loaded_kernels()))),
    }


def loaded_kernels():
    """Return the files of our compiled modules."""
    files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("amofa.")]
    return [Path(file) for file in files if file and file.endswith(tuple(EXTENSION_SUFFIXES))]


def traits_of_build(file):
    """Return the compiler of a module, and whether it has instructions on 512 bits: copies of loops for such CPUs."""
    code = file.read_bytes()
    compilers = {found.decode() for found in re.findall(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", code)}
    # The prefix of moves between 512-bit registers of doubles.
    return compilers | ({"512 bits"} if b"\x62\xf1\xfd\x48" in code else set())


def write_records():
    content = {"environment": environment()}
    for name, (X, options) in CASES.items():
        content[name] = record_of(X, fitted(X, n_threads=1, **options))
    lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in content.items())
    RECORDS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write_records()
