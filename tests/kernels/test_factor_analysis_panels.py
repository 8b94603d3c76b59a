"""The same from rows in the place of covariance matrices: panels, for wide tables."""

from itertools import pairwise

import numpy as np
import pytest
from reference import relative_error
from solver_helpers import PRIORS, TOLERANCE, dense_cost, problem, profile_cost, solved

from amofa._kernels._factor_analysis import Solver

# Columns, rows of each panel, factors of each panel; some have more rows than columns.
PANELS = [
    (1, [3], [1]),
    (2, [1], [1]),
    (5, [9], [2]),
    (30, [12], [0]),
    (30, [12], [3]),
    (30, [12, 1, 7], [2, 1, 0]),
    (30, [12, 0, 40], [2, 1, 4]),
    (30, [4], [6]),
]
# More columns than are whitened at a time.
WIDE = (513, [8, 15], [2, 1])


def panel_problem(rng, d, rows, factors, *, prior_count=4.0, floor=1e-3):
    """Arguments of `solve_panels`: rows with a factor structure, over the root of their number."""
    a = problem(rng, 1, factors, prior_count=prior_count)
    del a["covariances"]
    psi = rng.uniform(0.3, 1.5, d)
    panels = []
    for m in rows:
        x = rng.standard_normal((m, 2)) @ rng.standard_normal((2, d)) + np.sqrt(psi) * rng.standard_normal((m, d))
        panels.append(x / np.sqrt(max(m, 1)))
    return a | {
        "panels": np.concatenate(panels),
        "row_offsets": np.concatenate([[0], np.cumsum(rows)]).astype(np.intp),
        "floor": np.full(d, floor),
        "prior_scale": rng.uniform(0.5, 2, d),
        "uniquenesses": rng.uniform(0.2, 2, d),
        "loadings": np.full((sum(factors), d), np.nan),
        "spectra": np.full((len(rows), d), np.nan),
    }


def solved_panels(arguments, **changes):
    copied = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    copied |= changes
    most = int(np.diff(arguments["row_offsets"]).max())
    solver = Solver(arguments["panels"].shape[1], len(arguments["counts"]), len(arguments["loadings"]), most)
    return solver.solve_panels(**copied), copied


def as_matrices(a):
    """The arguments of `solve` for the same problem."""
    covariances = []
    for k in range(len(a["counts"])):
        rows = a["panels"][a["row_offsets"][k] : a["row_offsets"][k + 1]]
        covariances.append(rows.T @ rows)
    return {n: v for n, v in a.items() if n not in ("panels", "row_offsets")} | {"covariances": np.stack(covariances)}


@pytest.mark.parametrize(
    ("d", "rows", "factors", "prior_count", "max_steps"),
    [(*WIDE, 4.0, 20), *((*panel, prior, steps) for panel in PANELS for prior in PRIORS for steps in (0, 3, 500))],
)
def test_cost_of_panels_is_the_dense_one(rng, d, rows, factors, prior_count, max_steps):
    a = panel_problem(rng, d, rows, factors, prior_count=prior_count)
    cost, after = solved_panels(a, max_steps=max_steps)
    size = max(1.0, a["counts"].sum() * d)
    expected = dense_cost(as_matrices(after))
    assert cost == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE * size)
    matrices = as_matrices(a)
    assert cost == pytest.approx(profile_cost(matrices, np.log(after["uniquenesses"])), rel=TOLERANCE, abs=1e-12 * size)


@pytest.mark.parametrize(("d", "rows", "factors"), [*PANELS, WIDE])
def test_panels_and_matrices_agree_at_one_point(rng, d, rows, factors):
    a = panel_problem(rng, d, rows, factors)
    cost, after = solved_panels(a, max_steps=0)
    expected, dense = solved(as_matrices(a), max_steps=0)
    assert cost == pytest.approx(expected, rel=TOLERANCE)
    for k, (m, spectrum) in enumerate(zip(rows, after["spectra"], strict=True)):
        np.testing.assert_allclose(spectrum, dense["spectra"][k], atol=1e-11 * max(1.0, dense["spectra"].max()))
        np.testing.assert_array_equal(spectrum[m:], 0)
        mine = slice(a["offsets"][k], a["offsets"][k + 1])
        got, want = after["loadings"][mine], dense["loadings"][mine]
        assert relative_error(got.T @ got, want.T @ want, max(1.0, np.abs(want).max(initial=0) ** 2)) < 1e-9


# Wide, with a single maximum: as many factors as there are.
@pytest.mark.parametrize(("prior_count", "floor"), [(0.0, 0.1), (4.0, 1e-6), (4.0, 0.3)])
@pytest.mark.parametrize(("d", "rows", "factors"), [(30, [12], [0]), (40, [25], [2]), (60, [30, 20], [2, 2])])
def test_panels_and_matrices_converge_to_the_same_cost(rng, d, rows, factors, prior_count, floor):
    a = panel_problem(rng, d, rows, factors, prior_count=prior_count, floor=floor)
    cost, after = solved_panels(a)
    expected, dense = solved(as_matrices(a))
    assert cost == pytest.approx(expected, rel=1e-8)
    assert relative_error(after["uniquenesses"], dense["uniquenesses"]) < 1e-3


@pytest.mark.parametrize("prior_count", PRIORS)
@pytest.mark.parametrize(("d", "rows", "factors"), [*PANELS, WIDE])
def test_more_steps_on_panels_never_raise_the_cost(rng, d, rows, factors, prior_count):
    a = panel_problem(rng, d, rows, factors, prior_count=prior_count)
    results = [solved_panels(a, max_steps=steps) for steps in (0, 1, 2, 5, 20)]
    assert all(after[0] <= before[0] for before, after in pairwise(results))
    # A factor for the only column fits it whatever its uniqueness.
    assert results[-1][0] < results[0][0] or d == 1
    for _, after in results:
        assert (after["uniquenesses"] >= a["floor"]).all()


def test_a_solver_for_panels_has_room_for_smaller_ones(rng):
    a, b = panel_problem(rng, 300, [9, 4], [2, 1]), panel_problem(rng, 300, [6], [1])
    solver = Solver(300, 2, n_rows=9)
    for arguments in (a, b, a):
        own = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        assert solver.solve_panels(**own) == solved_panels(arguments)[0]


def test_panels_need_no_square_array():
    # A (d, d) array would be 80 GB.
    d, m = 100_000, 3
    rows = np.random.default_rng(0).standard_normal((m, d)) / np.sqrt(m)
    a = {
        "panels": rows,
        "row_offsets": np.array([0, m], np.intp),
        "counts": np.array([3.0]),
        "offsets": np.array([0, 1], np.intp),
        "floor": np.full(d, 1e-3),
        "prior_count": 4.0,
        "prior_scale": np.ones(d),
        "uniquenesses": np.ones(d),
        "loadings": np.zeros((1, d)),
        "spectra": np.zeros((1, d)),
        "max_steps": 3,
        "tol": 0.0,
    }
    before = solved_panels(a, max_steps=0)[0]
    assert solved_panels(a)[0] < before


@pytest.mark.parametrize(
    "changes",
    [
        {"panels": np.ones((9, 5))},
        {"panels": np.ones((8, 6))},
        {"row_offsets": np.array([0, 9], np.intp)},
        {"row_offsets": np.array([1, 5, 9], np.intp)},
        {"row_offsets": np.array([0, 5, 8], np.intp)},
        {"counts": np.ones(1)},
        {"offsets": np.array([0, 3], np.intp)},
        {"floor": np.ones(5)},
        {"prior_scale": np.ones(7)},
        {"uniquenesses": np.ones(5)},
        {"loadings": np.ones((2, 6))},
        {"loadings": np.ones((3, 5))},
        {"spectra": np.ones((1, 6))},
        {"spectra": np.ones((2, 5))},
    ],
)
def test_wrong_shapes_of_panels_are_refused(rng, changes):
    with pytest.raises(ValueError, match="shapes do not agree"):
        solved_panels(panel_problem(rng, 6, [5, 4], [1, 2]), **changes)


@pytest.mark.parametrize("row_offsets", [[0, 6, 9], [0, 10, 9], [0, -1, 9]])
def test_panels_of_too_many_rows_are_refused(rng, row_offsets):
    a = panel_problem(rng, 6, [5, 4], [1, 2])
    with pytest.raises(ValueError, match="no more rows than the solver was made for"):
        Solver(6, 2, 3, 5).solve_panels(**a | {"row_offsets": np.array(row_offsets, dtype=np.intp)})


def test_a_solver_takes_panels_or_matrices(rng):
    a = panel_problem(rng, 6, [5], [1])
    with pytest.raises(ValueError, match="was made for panels"):
        Solver(6, 1, 1, 5).solve(**as_matrices(a))
    with pytest.raises(ValueError, match="no more rows than the solver was made for"):
        Solver(6, 1, 1).solve_panels(**a)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("rows", [1, 4, 12])
@pytest.mark.parametrize("p", [0, 1])
def test_panels_that_are_not_finite_are_refused(rng, rows, p, value):
    a = panel_problem(rng, 30, [rows], [p])
    a["panels"][rows - 1, 7] = value
    with pytest.raises(FloatingPointError, match="not finite"):
        solved_panels(a)
