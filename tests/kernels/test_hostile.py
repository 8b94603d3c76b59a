"""Arguments of compiled functions that would make them read or write beside an array: refused, or harmless."""

import numpy as np
import pytest
from cython_calls import Functions
from fuzz_kernels import NAMES, Problem, calls
from reference import random_mixture

from amofa import cython_amofa
from amofa._kernels import _factor_analysis, _kurtosis, _mixture, _posterior, _statistics
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration, StepSpace
from amofa._kernels._standard import StandardIteration

BAD_ARGUMENT = -1

c = Functions()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(1, 1, [0], 1), (2, 3, [1, 5], 40), (3, 17, [2, 0, 1], 300), (1, 9, [9], 0)])
def test_what_the_fuzzing_starts_from_is_right(name, sizes):
    function, arguments = calls(Problem(1, *sizes))[name]
    function(*arguments)


# ---- sizes whose products wrap round ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "last"), [(4, 2**62), (4, 2**61), (2, 2**63 - 1), (2**62, 0), (2**63 - 1, 1), (2**31, 2**31)]
)
def test_sizes_beyond_all_memory(d, last):
    offsets = np.array([0, last])
    for function in (_mixture.buffer_lengths, _statistics.sums_size):
        with pytest.raises(ValueError, match="no memory holds"):
            function(offsets, d)
    with pytest.raises(ValueError, match="no memory holds"):
        cython_amofa.prepared_mixture(np.ones(9), offsets, d)
    with pytest.raises(ValueError, match="no memory holds"):
        StepSpace(offsets, d, 0)
    assert c.mixture_size(1, d, offsets) == BAD_ARGUMENT
    assert c.prepare_mixture(1, d, offsets, *[np.ones(4)] * 5) == BAD_ARGUMENT


def test_lengths_that_have_wrapped_round_are_not_believed():
    """For d = 4 and 2^62 factors all products are 0 modulo 2^64: the buffers would be those of no factors, 11 long."""
    d, offsets, x = 4, np.array([0, 2**62]), np.ones((4, 5))
    prepared, parameters, sums, scratch = np.ones(11), np.ones(9), np.zeros(11), np.zeros(10_000)
    calls_of_it = [
        lambda: _mixture.prepare(parameters, offsets, d, prepared),
        lambda: _posterior.posterior(x, offsets, prepared, np.zeros(5), None, None, None, scratch),
        lambda: _statistics.accumulate(x, None, offsets, prepared, sums, scratch),
        lambda: _kurtosis.accumulate_kurtosis(x, None, offsets, prepared, np.zeros(1), np.zeros(1), scratch),
        lambda: StandardIteration(parameters, offsets, np.ones(d)),
        lambda: ProfileLikelihoodIteration(parameters, offsets, np.ones(d), 0.0, np.ones(d), 0),
    ]
    for call in calls_of_it:
        with pytest.raises(ValueError, match="no memory holds"):
            call()


@pytest.mark.parametrize(
    "size", [(2**40,), (2**62,), (4, 2**62), (4, 2**60), (4, 1, 2**62), (4, 1, 4, 2**40), (2**32, 2**32, 0)]
)
def test_solvers_beyond_all_memory(size):
    with pytest.raises(ValueError, match="more than any memory holds"):
        _factor_analysis.Solver(*size)


@pytest.mark.parametrize("size", [(2**32, 0), (2**62, 1), (2**63 - 1, 2**63 - 1)])
def test_work_beyond_all_memory(size):
    assert c.fit_work_size(*size) == BAD_ARGUMENT


def test_sizes_of_large_mixtures_are_right():
    K, d, p = 1000, 100_000, 10
    offsets = np.arange(0, p * (K + 1), p)
    # The last three are for the orthogonal decomposition of one component.
    expected = 4 * K + 2 * K * d + 2 * K * p * d + K * p * p + p * (d + p) + 2 * (d + p) + 2 * p
    assert _mixture.buffer_lengths(offsets, d)[1] == expected
    assert c.mixture_size(K, d, offsets) == expected + 11 + K + 1


# ---- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offsets", [[], [0]])
def test_step_spaces_need_offsets(offsets):
    with pytest.raises(ValueError, match="offsets must start with 0"):
        StepSpace(np.array(offsets, dtype=np.intp), 3, 1)


@pytest.mark.parametrize("d", [2**31, 2**40])
def test_step_spaces_beyond_all_memory(d):
    with pytest.raises(ValueError, match="more than any memory holds"):
        StepSpace(np.zeros(2, dtype=np.intp), d, 0)


def test_isotropic_noise_with_more_factors_than_columns(rng):
    """The factors beyond are zero, the others as if there were no more."""
    x, found = rng.standard_normal((2, 100)) * [[3.0], [1.0]], []
    for p in (2, 5):
        parameters = random_mixture(np.random.default_rng(0), 1, 2, p)
        parameters.loadings[:] = 0.0
        iteration = ProfileLikelihoodIteration(
            parameters.buffer, parameters.offsets, np.full(2, 1e-6), 1.0, np.ones(2), 2
        )
        iteration.accumulate(x, None)
        iteration.finish()
        iteration.maximize()
        found.append(parameters)
    np.testing.assert_array_equal(found[1].loadings, np.concatenate([found[0].loadings, np.zeros((3, 2))]))
    np.testing.assert_array_equal(found[1].uniquenesses, found[0].uniquenesses)
