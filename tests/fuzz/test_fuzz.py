"""A few cases of each fuzz target; `python tests/fuzz/fuzz.py` runs them by the minute."""

import os

import pytest
from fuzz import TARGETS, run
from hypothesis import settings


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_few_cases(name, seed):
    if os.name == "nt" and name == "tables":
        pytest.skip("they use names of files that Windows does not have")
    n_cases = settings().max_examples
    assert run(name, n_cases, seed) >= min(n_cases, 10)
