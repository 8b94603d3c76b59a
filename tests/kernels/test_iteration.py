"""What EM iterations have in common: sums over rows, of their own or of others, on buffers that are bound once."""

import pickle

import numpy as np
import pytest
from fuzz_kernels import read_only
from reference import random_mixture, random_rows

from amofa._kernels._iteration import Iteration
from amofa._kernels._profile_likelihood import ProfileLikelihoodIteration
from amofa._kernels._standard import StandardIteration
from amofa._parameters import Evaluator

KINDS = ["standard", "profile likelihood"]


def bind(kind, mixture, with_entropy=True, **changes):
    """An iteration on the buffers of the mixture, which it changes."""
    d = mixture.n_features
    given = {"parameters": mixture.buffer, "offsets": mixture.offsets, "floor": np.full(d, 1e-4)} | changes
    if kind == "standard":
        return StandardIteration(**given, with_entropy=with_entropy)
    return ProfileLikelihoodIteration(
        **given, prior_count=0.0, prior_scale=np.ones(d), noise=0, with_entropy=with_entropy
    )


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def problem(rng, kind):
    """A mixture, an iteration bound to it, and rows as (d, n) with weights."""
    parameters = random_mixture(rng, 3, 4, [0, 2, 1])
    x = np.ascontiguousarray(random_rows(rng, parameters, 700).T)
    return parameters, bind(kind, parameters), x, rng.uniform(0.5, 2, 700)


def sums_of(kind, parameters, x, w):
    evaluator, full = Evaluator(parameters), kind != "standard"
    sums = evaluator.sums(full=full)
    evaluator.accumulate(x, w, sums, full=full)
    return sums


def test_accumulates_what_the_kernel_does(problem, kind):
    parameters, iteration, x, w = problem
    expected = sums_of(kind, parameters, x, w)
    iteration.accumulate(x, w)
    np.testing.assert_array_equal(iteration.sums, expected)
    assert iteration.log_likelihood == expected[0]
    assert iteration.entropy == expected[1] > 0
    np.testing.assert_array_equal(iteration.soft_counts, expected[2:5])


def test_clear_forgets(problem):
    _, iteration, x, w = problem
    iteration.accumulate(x, w)
    first = iteration.sums.copy()
    iteration.clear()
    assert not iteration.sums.any()
    iteration.accumulate(x, w)
    np.testing.assert_array_equal(iteration.sums, first)


def test_without_entropy_it_stays_zero(problem, kind):
    parameters, whole, x, _ = problem
    iteration = bind(kind, parameters, with_entropy=False)
    for one in (whole, iteration):
        one.accumulate(x, None)
    assert iteration.entropy == 0
    assert iteration.log_likelihood == whole.log_likelihood


def test_changed_parameters_are_prepared_anew(problem, kind):
    parameters, iteration, x, w = problem
    parameters.means[:] += 0.5
    iteration.prepare()
    iteration.accumulate(x, w)
    np.testing.assert_array_equal(iteration.sums, sums_of(kind, parameters, x, w))
    parameters.uniquenesses[1] = 0.0
    with pytest.raises(FloatingPointError, match="covariance of component 1 is numerically singular"):
        iteration.prepare()


def test_sums_of_parts_add_up_to_the_whole(problem):
    _, iteration, x, w = problem
    iteration.accumulate(x, w)
    expected = iteration.sums.copy()
    iteration.clear()
    parts, scratch = [np.zeros(len(iteration.sums)) for _ in range(3)], np.empty(iteration.scratch_size)
    for sums, columns in zip(parts, (slice(0, 100), slice(100, 500), slice(500, 700)), strict=True):
        iteration.accumulate(np.ascontiguousarray(x[:, columns]), w[columns], sums, scratch)
    assert not iteration.sums.any()
    for sums in pickle.loads(pickle.dumps(parts)):
        iteration.add_sums(sums)
    np.testing.assert_allclose(iteration.sums, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(iteration.sums, parts[0] + parts[1] + parts[2])


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_input_may_be_read_only(rng, kind):
    parameters = random_mixture(rng, 2, 3, [1, 2])
    bind(kind, parameters, offsets=read_only(parameters.offsets), floor=read_only(np.ones(3)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": np.ones(5)}, "parameters has the wrong length"),
        ({"parameters": read_only(np.ones(22))}, "read-only"),
        ({"offsets": np.array([], np.intp)}, "offsets must start with 0"),
        ({"offsets": np.array([1, 2, 3])}, "offsets must start with 0"),
        ({"offsets": np.array([0, 4, 3])}, "offsets must not decrease"),
        ({"offsets": np.array([0, 1])}, "parameters has the wrong length"),
        ({"floor": np.ones(4)}, "parameters has the wrong length"),
        ({"floor": np.ones(0)}, "n_features must be positive"),
        ({"floor": np.ones(6)[::2]}, "not C-contiguous"),
    ],
)
def test_wrong_buffers_are_refused(rng, kind, changes, message):
    with pytest.raises(ValueError, match=message):
        bind(kind, random_mixture(rng, 2, 3, [1, 2]), **changes)


@pytest.mark.parametrize("name", ["parameters", "offsets", "floor"])
def test_none_is_refused(rng, kind, name):
    with pytest.raises(TypeError, match=f"'{name}' must not be None"):
        bind(kind, random_mixture(rng, 2, 3, [1, 2]), **{name: None})


def test_a_singular_covariance_is_refused(rng, kind):
    parameters = random_mixture(rng, 2, 3, 1)
    parameters.uniquenesses[1] = 0.0
    with pytest.raises(FloatingPointError, match="covariance of component 1 is numerically singular"):
        bind(kind, parameters)


def test_wrong_rows_and_sums_are_refused(problem):
    _, iteration, x, w = problem
    size, scratch = len(iteration.sums), np.empty(iteration.scratch_size)
    for arguments, message in (
        ((np.zeros((3, 5)), None), "one row per feature"),
        ((x, w[:6]), "row_weights must have one entry per row"),
        ((x, w, np.zeros(size - 1), scratch), "sums has the wrong length"),
        ((x, w, np.zeros(size)), "scratch memory of their own"),
        ((x, w, np.zeros(size), np.empty(5)), "work is too short"),
    ):
        with pytest.raises(ValueError, match=message):
            iteration.accumulate(*arguments)
    with pytest.raises(ValueError, match="sums has the wrong length"):
        iteration.add_sums(np.zeros(size + 1))
    assert not iteration.sums.any()


def test_the_base_has_no_step():
    with pytest.raises(TypeError, match="needs an M-step"):
        Iteration()
