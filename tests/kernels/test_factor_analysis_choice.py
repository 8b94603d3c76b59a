"""The solver's choice of the number of factors, against solutions one by one."""

import numpy as np
import pytest
from reference import relative_error
from solver_helpers import model_covariance, sample_covariance

from amofa._kernels._factor_analysis import Solver


def chosen(solver, moments, n, prices, /, **changes):
    """Cost, number of factors, uniquenesses and loadings."""
    d = moments.shape[1]
    uniquenesses, loadings = np.ones(d), np.full((len(prices) - 1, d), np.nan)
    arguments = {
        "moments": moments,
        "count": n,
        "n_factors": 0,
        "prices": prices,
        "mean_price": d * np.log(n),
        "least_mean_price": 1.0,
        "floor": np.full(d, 1e-4),
        "prior_count": 4.0,
        "prior_scale": np.ones(d),
        "uniquenesses": uniquenesses,
        "loadings": loadings,
        "max_steps": 100,
        "tol": 1e-10,
        "patience": np.inf,
        "least_saving": 1e-3,
    } | changes
    cost, number = solver.choose(**arguments)
    return cost, number, arguments["uniquenesses"], arguments["loadings"]


def slowly_chosen(covariance, n, prices, n_factors, max_steps=100, tol=1e-10):
    """The same from single solutions: add factors while that pays, then remove them."""
    d = len(covariance)

    def solve(psi, q):
        found, loadings, spectra = psi.copy(), np.zeros((q, d)), np.zeros((1, d))
        offsets = np.array([0, q])
        cost = Solver(d).solve(
            covariance[None],
            np.array([n]),
            offsets,
            np.full(d, 1e-4),
            4.0,
            np.ones(d),
            found,
            loadings,
            spectra,
            max_steps,
            tol,
        )
        log_determinant = np.linalg.slogdet(loadings.T @ loadings + np.diag(found))[1]
        cost += prices[q] + max(d * np.log(n) - log_determinant, 1.0) / 2
        return cost, found, spectra[0]

    q, most = n_factors, len(prices) - 1
    best = solve(np.ones(d), q)
    while q < most and best[2][q] > 1:
        values = np.maximum(best[2][q:most], 1.0)
        saved = np.cumsum(n / 2 * (values - 1 - np.log(values))) - (prices[q + 1 :] - prices[q])
        more = int(np.argmax(saved)) + 1 if saved.max() > 0 else 1
        for number in range(q + more, min(q + more + 2, most + 1)):
            trial = solve(best[1], number)
            if trial[0] <= best[0] - 1e-3:
                break
        else:
            break
        best, q = trial, number
    while q:
        fewer = q - 1
        while fewer and prices[q] <= prices[fewer]:
            fewer -= 1
        trial = solve(best[1], fewer)
        if trial[0] > best[0]:
            break
        best, q = trial, fewer
    return best[0], q, best[1]


@pytest.mark.parametrize("n_factors", [0, 3])
@pytest.mark.parametrize(
    ("d", "p", "price"),
    [(2, 1, 2.0), (6, 2, 10.0), (8, 3, 3.0), (8, 0, 10.0), (12, 4, 1e-3), (20, 0, 10.0), (20, 2, 10.0), (40, 4, 20.0)],
)
def test_the_choice_is_that_of_single_solutions(rng, d, p, price, n_factors):
    covariance = sample_covariance(rng, model_covariance(rng, d, p), 200)
    prices = price * np.minimum(np.arange(d), max(p + 2, d - 2))
    start = min(n_factors, d - 1)
    cost, number, psi, loadings = chosen(Solver(d), covariance, 200.0, prices, n_factors=start)
    expected = slowly_chosen(covariance, 200.0, prices, start)
    assert number == expected[1]
    # Where nearly all factors are taken the cost is flat: the rounding of LAPACK decides where the steps end. Vectors
    # that are followed are good to 1e-6, and the cost to the square of that.
    assert cost == pytest.approx(expected[0], rel=1e-9)
    assert relative_error(psi, expected[2]) < 1e-5
    assert np.isfinite(loadings[:number]).all()
    assert np.isnan(loadings[number:]).all()
    # The cost is that of what is given back.
    sigma = loadings[:number].T @ loadings[:number] + np.diag(psi)
    log_determinant = np.linalg.slogdet(sigma)[1]
    dense = 100.0 * (log_determinant + np.trace(np.linalg.solve(sigma, covariance)))
    dense += 4.0 * np.log(np.cosh(np.log(psi) / 2)).sum() + prices[number]
    assert cost == pytest.approx(dense + max(d * np.log(200.0) - log_determinant, 1.0) / 2, rel=1e-11)


def test_patience_saves_steps_not_factors(rng):
    numbers = []
    for d, p in ((5, 1), (6, 2), (10, 3), (16, 5)):
        covariance = sample_covariance(rng, model_covariance(rng, d, p), 1000)
        prices = 0.5 * np.log(1000.0) * (d * np.arange(d) - np.arange(d) * (np.arange(d) - 1) / 2)
        patient = chosen(Solver(d), covariance, 1000.0, prices)
        hasty = chosen(Solver(d), covariance, 1000.0, prices, patience=2.0)
        assert hasty[1] == patient[1]
        assert hasty[0] == pytest.approx(patient[0], abs=1e-6)
        numbers.append(hasty[1])
    assert max(numbers) > 1


def test_the_choice_from_rows_is_that_from_their_moments(rng):
    rows = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(9, 20))
    rows = np.ascontiguousarray((rows - rows.mean(axis=0)) / 3.0)
    prices = 2.0 * np.arange(5)
    wide = chosen(Solver(20, 1, 4, 9), rows, 9.0, prices, max_steps=500)
    dense = chosen(Solver(20), rows.T @ rows, 9.0, prices, max_steps=500)
    assert wide[1] == dense[1]
    assert wide[0] == pytest.approx(dense[0], abs=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"moments": np.eye(3)},
        {"moments": np.ones((3, 4))},
        {"prices": np.zeros(0), "loadings": np.zeros((0, 4))},
        {"loadings": np.zeros((2, 4))},
        {"n_factors": 4},
        {"n_factors": -1},
        {"count": 0.0},
        {"count": np.nan},
        {"floor": np.ones(3)},
        {"prior_scale": np.ones(5)},
        {"uniquenesses": np.ones(3)},
    ],
)
def test_wrong_arguments_of_the_choice_are_refused(changes):
    with pytest.raises(ValueError, match=r"shapes|price of each number|counts must"):
        chosen(Solver(4), np.eye(4), 10.0, np.arange(4.0), **changes)


def test_too_much_for_the_choice_is_refused():
    for solver, rows in ((Solver(4, 1, 2), 4), (Solver(4, 1, 3, 2), 3)):
        with pytest.raises(ValueError, match="than the solver has room for"):
            chosen(solver, np.ones((rows, 4)), 10.0, np.arange(4.0))


def test_a_choice_of_what_is_not_finite_is_refused():
    covariance = np.eye(4)
    covariance[0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        chosen(Solver(4), covariance, 10.0, np.arange(4.0))


def test_two_factors_may_pay_where_one_does_not(rng):
    """Strong factors 1 and 2, and two weak ones of equal size, whose prices rise less from 3 to 4 than from 2 to 3."""
    d, n = 30, 200.0
    covariance = sample_covariance(rng, model_covariance(rng, d, 4), int(n))
    solver, prices = Solver(d), np.zeros(6)
    costs = [chosen(solver, covariance, n, np.where(np.arange(6) == q, 0.0, 1e9), n_factors=q)[0] for q in range(5)]
    # The prices make the costs of 2, 3 and 4 factors 0, 5 and -5, and those of others 100 more.
    prices[:5] = np.array([100.0, 100.0, 0.0, 5.0, -5.0]) - costs
    prices[5] = prices[4] + 1e4
    cost, number, _, _ = chosen(solver, covariance, n, prices, n_factors=2)
    assert number == 4
    assert cost == pytest.approx(-5.0, abs=1e-3)


# ---- by principal factors --------------------------------------------------------------------------------------------


def slowly_chosen_given_noise(covariance, n, prices, psi, mean_price, least_mean_price):
    """The cost, the number of factors and the loadings that cost least with these uniquenesses."""
    scale = np.sqrt(psi)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    candidates = []
    for q, price in enumerate(prices):
        active = np.maximum(values[::-1][:q] - 1.0, 0.0)
        loadings = np.sqrt(active)[:, None] * vectors.T[::-1][:q] * scale
        sigma = loadings.T @ loadings + np.diag(psi)
        log_determinant = np.linalg.slogdet(sigma)[1]
        cost = n / 2 * (log_determinant + np.trace(np.linalg.solve(sigma, covariance)))
        cost += price + max(mean_price - log_determinant, least_mean_price) / 2
        candidates.append((cost, q, loadings))
    return min(candidates, key=lambda candidate: candidate[0])


@pytest.mark.parametrize("n_rounds", [0, 1, 3])
@pytest.mark.parametrize(("d", "p"), [(1, 0), (4, 1), (12, 3), (40, 2)])
@pytest.mark.parametrize("is_panel", [False, True])
def test_principal_factors_are_the_slow_ones(rng, d, p, n_rounds, is_panel):
    n, floor = 500, np.full(d, 0.05)
    rows = rng.multivariate_normal(np.zeros(d), model_covariance(rng, d, p), n) / np.sqrt(n)
    covariance, most = rows.T @ rows, d // 2
    prices, psi = 0.5 * np.log(n) * d * np.arange(most + 1.0), rng.uniform(0.2, 1.0, d)
    solver = Solver(d, 1, most, n) if is_panel else Solver(d)
    found, loadings = psi.copy(), np.full((most, d), np.nan)
    moments = rows if is_panel else covariance
    cost, number = solver.choose_principal(
        moments, float(n), prices, d * np.log(n), 1.0, floor, found, loadings, n_rounds
    )
    for _ in range(max(n_rounds, 1)):
        slow_cost, slow_number, slow_loadings = slowly_chosen_given_noise(
            covariance, n, prices, np.maximum(psi, floor), d * np.log(n), 1.0
        )
        if n_rounds:
            psi = np.maximum(np.diag(covariance) - (slow_loadings**2).sum(axis=0), floor)
    assert number == slow_number
    assert relative_error(cost, slow_cost) < 1e-12
    np.testing.assert_allclose(found, psi, rtol=1e-10)
    np.testing.assert_allclose(
        loadings[:number].T @ loadings[:number], slow_loadings.T @ slow_loadings, rtol=1e-10, atol=1e-12
    )


def test_principal_factors_of_what_does_not_fit_are_refused(rng):
    d = 3
    arguments = {
        "moments": np.eye(d),
        "count": 10.0,
        "prices": np.zeros(3),
        "mean_price": 0.0,
        "least_mean_price": 0.0,
        "floor": np.full(d, 1e-4),
        "uniquenesses": np.ones(d),
        "loadings": np.zeros((2, d)),
        "n_rounds": 1,
    }
    wrong = [
        ("shapes", {"moments": np.eye(2)}),
        ("price", {"prices": np.zeros(2)}),
        ("room", {"prices": np.zeros(5), "loadings": np.zeros((4, d))}),
        ("positive", {"count": 0.0}),
    ]
    for message, change in wrong:
        with pytest.raises(ValueError, match=message):
            Solver(d).choose_principal(**arguments | change)
    with pytest.raises(FloatingPointError, match="not finite"):
        Solver(d).choose_principal(**arguments | {"moments": np.full((d, d), np.nan)})
