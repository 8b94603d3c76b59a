"""Fixtures for all tests. AMOFA_TEST_SEEDS=20 runs every test that draws random numbers with 20 seeds."""

import gc
import os
import signal
import sys

# Before NumPy is imported. Where processes share the processors, threads of BLAS wait for one another, and busily.
# Tests of such threads set their number.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from fits import SEARCHES
from hypothesis import settings
from reference import random_mixture

import amofa

# A shell's jobs in the background, and what they start, ignore Ctrl-C from the beginning; tests send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

N_SEEDS = int(os.environ.get("AMOFA_TEST_SEEDS", "1"))

settings.register_profile(
    "amofa", deadline=None, database=None, derandomize=N_SEEDS == 1, max_examples=40 * N_SEEDS, print_blob=True
)
settings.load_profile("amofa")


def pytest_addoption(parser, pluginmanager):
    """Accept the options of pytest-xdist in pyproject.toml without it, too; the tests then run in one process."""
    if not pluginmanager.hasplugin("xdist"):
        for name in ("--numprocesses", "--maxprocesses", "--dist"):
            parser.addoption(name, help="ignored: pytest-xdist is not installed")


@pytest.fixture(params=range(N_SEEDS), ids=lambda seed: f"seed{seed}")
def seed(request):
    """0, or each of 0 .. AMOFA_TEST_SEEDS - 1."""
    return request.param


@pytest.fixture
def rng(seed):
    """A seeded random generator."""
    return np.random.default_rng(seed)


@pytest.fixture
def make_model(rng):
    """The function make_model(K, d, p): a random model, through the public constructor."""

    def made(K, d, p):
        parameters = random_mixture(rng, K, d, p)
        loadings = [parameters.component_loadings(k).T for k in range(K)]
        return amofa.MixtureOfFactorAnalyzers(parameters.weights, parameters.means, loadings, parameters.uniquenesses)

    return made


@pytest.fixture(params=SEARCHES)
def search(request):
    """The name of each search."""
    return request.param


@pytest.fixture(autouse=True)
def _no_figures_left():
    """Figures that a test opened are closed after it."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def heard_interrupts():
    """Nothing that hypothesis has left with the garbage collector swallows a KeyboardInterrupt."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks
