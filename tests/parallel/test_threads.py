"""Threads change no bit of a result, in processes that are forked or spawned too."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from reference import random_mixture, random_rows

import amofa
from amofa._data.row_chunks import Samples
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._kernels._standard import StandardIteration
from amofa.threads import use_threads

# ---- passes and fits -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_rows():
    """A mixture and rows for passes of several parts, with weights."""
    rng = np.random.default_rng(0)
    parameters = random_mixture(rng, 5, 6, [2, 0, 1, 3, 1])
    X = random_rows(rng, parameters, 120_000)
    return parameters, X.astype(np.float32), rng.uniform(0, 2, len(X))


def everything(parameters, X, weights):
    samples = Samples(X, weights=weights)
    ones = np.ones(samples.n_features)
    given = parameters.copy().buffer, parameters.offsets, ones
    exact = ProfileLikelihoodIteration(*given, 0.0, ones, 0, with_entropy=True)
    plain = StandardIteration(*given)
    for iteration in (exact, plain):
        samples.expect(iteration)
    exact.finish()
    model = amofa.MixtureOfFactorAnalyzers(
        parameters.weights,
        parameters.means,
        [parameters.component_loadings(k).T for k in range(5)],
        parameters.uniquenesses,
    )
    return [
        samples.sums(parameters),
        *samples.moments(parameters).__dict__.values(),
        samples.kurtosis_z(parameters),
        samples.labels(parameters),
        samples.responsibilities(parameters),
        exact.soft_counts,
        exact.means,
        exact.covariances,
        exact.log_likelihood,
        plain.log_likelihood,
        plain.entropy,
        model.predict(X),
        model.predict_proba(X),
        model.score_samples(X),
        model.score(X, weights),
        model.transform(X),
        *model.factor_scores(X),
        model.bic(X),
        model.icl(X),
    ]


def test_passes_are_the_same_bit_for_bit_with_any_number_of_threads(many_rows):
    assert len(Samples(many_rows[1])._parts(5, 7)) >= 8
    with use_threads(1):
        expected = everything(*many_rows)
    for n in (2, 5):
        with use_threads(n):
            for a, b in zip(everything(*many_rows), expected, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("d", "n", "options"), [(4, 900, {}), (35, 500, {"noise": "component"}), (50, 40, {})])
def test_a_search_is_the_same_bit_for_bit_with_any_number_of_threads(d, n, options):
    """Splits, and with many columns the M-steps, side by side."""
    rng = np.random.default_rng(2)
    X = random_rows(rng, random_mixture(rng, 5, d, [1, 2, 0, 1, 1], spread=6.0), n)
    one, three = (amofa.fit(X, **options, n_threads=n) for n in (1, 3))
    assert one.n_components > 3
    assert one.history == three.history
    for name in ("weights", "means", "uniquenesses"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


# ---- processes -------------------------------------------------------------------------------------------------------

# Work of many parts in a process of its own, since warnings and threads of this one must not matter.
PROCESS = """
import multiprocessing, os, sys, threading
import numpy as np
from concurrent.futures import ProcessPoolExecutor
import amofa
from amofa import threads
from amofa._parallel import blas as held

X = np.random.default_rng(0).normal(size=(100_000, 4)).astype(np.float32)

def score(n=None):
    with threads.use_threads(n):
        return model.score(X)

model = amofa.MixtureOfFactorAnalyzers([0.5, 0.5], np.eye(2, 4), [np.ones((4, 2))] * 2, np.ones((2, 4)))
"""


def run(code):
    process = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", PROCESS + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_pool_have_one_thread_each(method, tmp_path):
    if method not in __import__("multiprocessing").get_all_start_methods():
        pytest.skip("no such processes here")
    script = tmp_path / "script.py"
    script.write_text(
        PROCESS
        + textwrap.dedent(
            f"""
            def look(_):
                return threads.n_threads(), score(), threading.active_count() < 3

            if __name__ == "__main__":
                expected = score(2)
                with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("{method}")) as pool:
                    assert list(pool.map(look, range(4))) == [(1, expected, True)] * 4
                print("done")
            """
        )
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-W", "ignore", str(script)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert process.stdout.split() == ["done"], process.stderr
