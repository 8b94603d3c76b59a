"""An EM iteration on bound buffers: the same sums and the same step as the kernels give one by one."""

from __future__ import annotations

import numpy as np
import pytest
from reference import random_mixture, random_rows

from amofa._kernels import _factor, _statistics
from amofa._kernels._em import Iteration
from amofa._parameters import Evaluator, Statistics


@pytest.fixture
def problem(rng):
    """A mixture, its evaluator, an iteration bound to them and its statistics, and rows as (d, n) with weights."""
    parameters = random_mixture(rng, 3, 4, [0, 2, 1])
    x = np.ascontiguousarray(random_rows(rng, parameters, 700).T)
    evaluator, statistics = Evaluator(parameters), Statistics(parameters)
    return parameters, evaluator, bind(parameters, evaluator, statistics), statistics, x, rng.uniform(0.5, 2, 700)


def bind(parameters, evaluator, statistics, **changes):
    arguments = {
        "parameters": parameters.buffer,
        "offsets": parameters.offsets,
        "prepared": evaluator.prepared,
        "statistics": statistics.buffer,
        "floor": np.full(parameters.n_features, 1e-4),
        "scratch": evaluator.work,
        "work": np.empty(_factor.maximize_size(parameters.offsets, parameters.n_features)),
    }
    return Iteration(**arguments | changes)


def sums(parameters, x, w):
    evaluator, statistics = Evaluator(parameters), Statistics(parameters)
    _statistics.accumulate(x, w, parameters.offsets, evaluator.prepared, statistics.buffer, evaluator.work)
    return statistics


def test_accumulates_what_the_kernel_does(problem):
    parameters, _, iteration, statistics, x, w = problem
    expected = sums(parameters, x, w)
    iteration.accumulate(x, w)
    np.testing.assert_array_equal(statistics.buffer, expected.buffer)
    assert iteration.log_likelihood == expected.log_likelihood
    assert iteration.entropy == expected.entropy > 0


def test_clear_forgets(problem):
    _, _, iteration, statistics, x, w = problem
    iteration.accumulate(x, w)
    first = statistics.buffer.copy()
    iteration.clear()
    assert not statistics.buffer.any()
    iteration.accumulate(x, w)
    np.testing.assert_array_equal(statistics.buffer, first)


def test_without_entropy_it_stays_zero(problem):
    parameters, evaluator, _, statistics, x, _ = problem
    iteration = bind(parameters, evaluator, statistics, with_entropy=False)
    iteration.accumulate(x, None)
    assert iteration.entropy == 0
    assert iteration.log_likelihood == sums(parameters, x, None).log_likelihood


def test_no_rows_add_nothing(problem):
    _, _, iteration, statistics, x, w = problem
    iteration.accumulate(np.ascontiguousarray(x[:, :0]), w[:0])
    assert not statistics.buffer.any()


def test_iterations_go_up(problem):
    _, _, iteration, _, x, w = problem
    previous = -np.inf
    for _ in range(20):
        iteration.clear()
        iteration.accumulate(x, w)
        assert iteration.log_likelihood >= previous - 1e-9 * abs(iteration.log_likelihood)
        previous = iteration.log_likelihood
        iteration.maximize()


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [(3, 5, "one row per feature"), (4, 6, "row_weights must have one entry per row")],
)
def test_wrong_rows_are_refused(problem, rows, weights, message):
    with pytest.raises(ValueError, match=message):
        problem[2].accumulate(np.zeros((rows, 5)), np.ones(weights))


def test_a_short_scratch_is_refused(problem):
    parameters, evaluator, _, statistics, _, _ = problem
    with pytest.raises(ValueError, match="work is too short"):
        bind(parameters, evaluator, statistics, scratch=np.empty(10))


def test_a_step_to_a_singular_covariance_is_refused(rng):
    """Rows that are all the same, and no floor."""
    parameters = random_mixture(rng, 1, 3, 0)
    parameters.means[:] = 1.0
    iteration = bind(parameters, Evaluator(parameters), Statistics(parameters), floor=np.zeros(3))
    iteration.accumulate(np.ones((3, 20)), None)
    with pytest.raises(FloatingPointError, match="covariance of component 0 is numerically singular"):
        iteration.maximize()


def test_parts_add_up_to_the_whole(problem):
    _, _, iteration, statistics, x, w = problem
    iteration.accumulate(x, w)
    expected = statistics.buffer.copy()
    iteration.clear()
    parts, scratch = [iteration.part() for _ in range(3)], np.empty(iteration.scratch_size)
    for part, columns in zip(parts, (slice(0, 100), slice(100, 500), slice(500, 700)), strict=True):
        part.accumulate(np.ascontiguousarray(x[:, columns]), w[columns], scratch)
    assert not statistics.buffer.any()
    for part in parts:
        iteration.add(part)
    np.testing.assert_allclose(statistics.buffer, expected, rtol=1e-12, atol=1e-12)


def test_a_part_that_was_added_is_empty_and_used_again(problem):
    _, _, iteration, statistics, x, w = problem
    part = iteration.part()
    part.accumulate(x, w, np.empty(iteration.scratch_size))
    iteration.add(part)
    expected = statistics.buffer.copy()
    iteration.clear()
    again = iteration.part()
    assert again is part
    again.accumulate(x, w, np.empty(iteration.scratch_size))
    iteration.add(again)
    np.testing.assert_array_equal(statistics.buffer, expected)


def test_parts_of_others_are_refused(problem):
    parameters, _, iteration, _, x, w = problem
    other = bind(parameters, Evaluator(parameters), Statistics(parameters))
    part = other.part()
    part.accumulate(x, w, np.empty(iteration.scratch_size))
    with pytest.raises(ValueError, match="another iteration"):
        iteration.add(part)
    with pytest.raises(ValueError, match="one row per feature"):
        part.accumulate(x[:2].copy(), w, np.empty(iteration.scratch_size))
    with pytest.raises(ValueError, match="one entry per row"):
        part.accumulate(x, w[:5], np.empty(iteration.scratch_size))
    with pytest.raises(ValueError, match="work is too short"):
        part.accumulate(x, w, np.empty(5))
