"""Code lengths, parameter counts and criteria against values computed by hand and the paper's equations."""

import math

import numpy as np
import pytest
from fits import NOISES
from reference import covariance, random_mixture
from scipy import integrate

from amofa.criterion import (
    CRITERIA,
    Counted,
    Evidence,
    Likelihood,
    free_loadings,
    gaussian_message_length,
    integer_code_length,
    message_length,
    n_parameters,
    rounding_price,
)

LOG2 = math.log(2)
L1 = math.log(2.865064)  # nats, the code length of 1

# ---- integer code length ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "bits"),
    [
        (1, 0),
        (2, 1),  # log2 2; log2 1 = 0 ends the sum
        (3, 1.584962500721156181 + 0.664448707453889383),
        (4, 2 + 1),
        (5, 2.321928094887362347 + 1.215323295736787631 + 0.281340145200136577),
        (16, 4 + 2 + 1),
        (65536, 16 + 4 + 2 + 1),
        (2**64, 64 + 6 + 2.584962500721156181 + 1.370143351946001254 + 0.454326843785988388),
    ],
)
def test_code_length_by_hand(k, bits):
    assert integer_code_length(k) == pytest.approx(L1 + bits * LOG2, rel=1e-12)


def test_code_lengths_of_all_integers_make_a_code():
    # Kraft's inequality; the sum converges slowly to 1 from below.
    assert 0.75 < sum(math.exp(-integer_code_length(k)) for k in range(1, 100_000)) < 1.0


@pytest.mark.parametrize("k", [0, -1])
def test_code_length_of_no_positive_integer(k):
    with pytest.raises(ValueError, match=f"positive integer, got {k}"):
        integer_code_length(k)


# ---- parameter counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "factors", "count"),
    [
        (1, (0,), 2),  # mean and variance
        (3, (0,), 6),
        (3, (1,), 9),
        (3, (2,), 11),  # 6 + 6 loadings, one rotation angle
        (3, (3,), 12),  # 6 + 9 - 3
        (3, (1, 0), 1 + 9 + 6),
        (2, (1, 1, 1, 1), 3 + 4 * 6),
        (10, (3, 2, 4), 2 + (20 + 30 - 3) + (20 + 20 - 1) + (20 + 40 - 6)),
    ],
)
def test_free_parameters_by_hand(d, factors, count):
    assert n_parameters(d, factors) == count


def test_tied_uniquenesses_are_counted_once():
    assert n_parameters(5, (1, 2), "shared") == 1 + 10 + 5 + 9 + 5
    assert n_parameters(5, (1, 2), "isotropic") == 1 + 10 + 5 + 9 + 2
    assert n_parameters(5, (4,), "isotropic") == 5 + 15


# ---- message length --------------------------------------------------------------------------------------------------


def paper_message_length(n, d, weights, factors, log_likelihood, code_shift=0):
    """Eq. FJMMLAdoptedAmoFAFinal, term by term, over the components of positive weight."""
    kept = [k for k, weight in enumerate(weights) if weight > 0]
    code = {k: integer_code_length(factors[k] + code_shift) for k in kept}
    C = {k: d * (factors[k] + 2) + code[k] for k in kept}  # eq. compannihthresh
    return (
        sum(C[k] / 2 * math.log(n * weights[k] / 12) for k in kept)
        + len(kept) / 2 * math.log(n / 12)
        + sum((C[k] + 1) / 2 for k in kept)
        - log_likelihood
        + integer_code_length(len(kept))
        + sum(code[k] for k in kept)
    )


@pytest.mark.parametrize("n", [1, 11.5, 12, 1000, 1e7])
@pytest.mark.parametrize(
    ("d", "weights", "factors", "shift"),
    [
        (1, (1.0,), (1,), 0),
        (2, (0.3, 0.3, 0.3, 0.1), (1, 1, 2, 1), 0),
        (100, (0.999, 0.001), (7, 3), 0),
        (5, (0.4, 0.6), (0, 3), 1),
        (5, (1.0,), (0,), 1),
    ],
)
def test_message_length_is_the_papers(n, d, weights, factors, shift):
    cost = message_length(d, factors, n).cost(-1234.5, 99.0, weights)
    assert cost == pytest.approx(paper_message_length(n, d, weights, factors, -1234.5, shift), rel=1e-12)


def test_message_length_by_hand():
    # d = 1, K = 1, p = 1, N = 12: the logs vanish; C = 3 + L*(1); the length is (C + 1)/2 + 2 L*(1) - log p.
    assert message_length(1, (1,), 12).cost(-7.0, 0.0, (1.0,)) == pytest.approx((4 + L1) / 2 + 2 * L1 + 7, rel=1e-14)


def test_message_length_annihilates_below_half_the_parameters():
    penalty = message_length(3, (1, 2), 100)
    assert penalty.min_soft_counts == pytest.approx(((3 * 3 + L1) / 2, (3 * 4 + L1 + LOG2) / 2), rel=1e-14)
    assert penalty.half_counts == penalty.min_soft_counts


def test_a_component_of_weight_zero_makes_no_infinite_message():
    assert math.isfinite(message_length(3, (1, 2), 100).cost(-50.0, 0.0, (1.0, 0.0)))


@pytest.mark.parametrize("n", [1.0, 37.5, 1e6])
@pytest.mark.parametrize(
    ("d", "weights", "n_covariance"), [(1, (1.0,), 1), (4, (0.2, 0.8), 10), (7, (0.1, 0.3, 0.6), 7)]
)
def test_message_length_of_gaussians(d, weights, n_covariance, n):
    """Figueiredo & Jain's equation, term by term; C = d + n_covariance, and a component needs C / 2 rows."""
    K, C = len(weights), d + n_covariance
    expected = C / 2 * sum(map(math.log, weights)) + K * (C + 1) / 2 * math.log(n) + 1234.5
    penalty = gaussian_message_length(d, K, n_covariance, n)
    assert penalty.cost(-1234.5, 99.0, weights) == pytest.approx(expected, rel=1e-13)
    assert penalty.min_soft_counts == (C / 2,) * K


# ---- the others ------------------------------------------------------------------------------------------------------


def test_criteria_by_hand():
    # d = 3, factors (1, 0): 16 free parameters; log p = -50, entropy 4, N = 100.
    costs = {name: CRITERIA[name](3, (1, 0), 100).cost(-50.0, 4.0, (0.3, 0.7)) for name in ("bic", "aic", "icl")}
    assert costs == pytest.approx({"bic": 50 + 8 * math.log(100), "aic": 66, "icl": 54 + 8 * math.log(100)}, rel=1e-14)


@pytest.mark.parametrize("name", ["bic", "aic", "icl"])
def test_information_criteria_do_not_depend_on_weights(name):
    penalty = CRITERIA[name](3, (1, 2), 100)
    assert penalty.cost(-50.0, 4.0, (0.5, 0.5)) == penalty.cost(-50.0, 4.0, (1.0, 0.0))
    assert penalty.min_soft_counts == (9 / 2, 11 / 2)


def test_only_the_integrated_likelihood_uses_the_entropy():
    assert {name for name in CRITERIA if CRITERIA[name](2, (1,), 50).uses_entropy} == {"icl"}


# ---- prices of components --------------------------------------------------------------------------------------------


def shapes_of(parameters, n):
    return [(c.weight * n, len(c.loadings), log_determinant(c)) for c in parameters.components()]


def log_determinant(component):
    return float(np.linalg.slogdet(covariance(component))[1])


@pytest.mark.parametrize(
    ("d", "p", "n_noise", "count"),
    [
        (1, 0, 1, 0),
        (1, 1, 1, 0),
        (3, 1, 3, 3),
        (3, 2, 3, 3),
        (10, 3, 10, 27),
        (10, 10, 10, 45),
        (4, 4, 1, 9),
        (4, 3, 1, 9),
    ],
)
def test_free_loadings_by_hand(d, p, n_noise, count):
    found = free_loadings(d, p, n_noise)
    assert found == count
    assert isinstance(found, int)


def dense_uniqueness_price(count, rows):
    """-log of prior times posterior width, for the log of one uniqueness at the prior's mode."""
    area, _ = integrate.quad(lambda x: math.cosh(x / 2) ** -rows, -400 / rows, 400 / rows, points=[0.0], limit=500)
    step = 1e-3
    slopes = [rows * math.log(math.cosh(x / 2)) + count / 2 * (x + math.exp(-x)) for x in (-step, 0.0, step)]
    curvature = (slopes[0] - 2 * slopes[1] + slopes[2]) / step**2
    return max(0.0, math.log(area) + 0.5 * math.log(curvature / (2 * math.pi)))


def dense_evidence(mixture, n, noise, rows):
    """The prices, term by term, from covariance matrices."""
    total = (len(mixture) - 1) * (0.5 * math.log(n) + 20 / n)
    for count, component in mixture:
        p, d = component.loadings.shape
        precision = count * np.linalg.inv(covariance(component))
        total += 0.5 * max(np.linalg.slogdet(precision)[1], d * math.log(n))
        entries = d * (d + 1) / 2 - (1 if noise == "isotropic" else d)
        total += 0.5 * min(d * p - p * (p - 1) / 2, entries) * math.log(n)
        total += {"component": d, "isotropic": 1, "shared": 0}[noise] * dense_uniqueness_price(count, rows)
    return total + (d * dense_uniqueness_price(n, rows) if noise == "shared" else 0.0)


@pytest.mark.parametrize("prior_count", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("d", "factors"), [(1, [0]), (1, [1, 0]), (4, [2, 0, 4]), (10, [1, 3]), (40, [3, 12])])
def test_evidence_is_the_dense_one(rng, d, factors, noise, prior_count):
    n = 200.0
    for size in (1.0, 1e-4, 1e3):  # narrow means cost more than BIC's, wide ones as much
        parameters = random_mixture(rng, len(factors), d, factors)
        parameters.uniquenesses[:] *= size
        parameters.loadings[:] *= math.sqrt(size)
        if noise == "shared":
            parameters.uniquenesses[:] = parameters.uniquenesses[0]
        if noise == "isotropic":
            parameters.uniquenesses[:] = parameters.uniquenesses[:, [0]]
        shapes = shapes_of(parameters, n)
        evidence = Evidence(d, n, noise, prior_count)
        mixture = [(c.weight * n, c) for c in parameters.components()]
        expected = dense_evidence(mixture, n, noise, prior_count or 1.0)
        assert evidence.mixture(shapes) == pytest.approx(expected, rel=1e-5)
        separate = sum(evidence.component(*shape) for shape in shapes) - 0.5 * math.log(n) - 20 / n
        if noise != "shared":
            assert evidence.mixture(shapes) == pytest.approx(separate, rel=1e-12)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("p", [0, 1, 3])
def test_means_and_loadings_cost_at_least_what_they_cost_in_bic(rng, p, noise):
    d, n = 6, 300.0
    least = 0.5 * (d + d * p - p * (p - 1) / 2 + 1) * math.log(n)
    evidence = Evidence(d, n, noise, 4.0)
    for size in (1e-4, 1.0, 1e4):
        for share in (0.01, 0.5, 1.0):
            c = random_mixture(rng, 1, d, p).component(0)
            price = evidence.component(share * n, p, log_determinant(c) + d * math.log(size))
            assert price > least * (1 - 1e-12)


def test_evidence_of_a_component_by_hand(rng):
    # One column, one row's variance: 100 rows; the mean costs 1/2 log(100 / .25), the uniqueness is worth 4 prior rows.
    price = Evidence(1, 100.0, "component", 4.0).component(100.0, 0, math.log(0.25))
    # The prior 1 / cosh(x/2)^4 integrates to 8/3; the curvature is 100/2 + 1.
    uniqueness = math.log(8 / 3) + 0.5 * math.log(51 / (2 * math.pi))
    assert price == pytest.approx(0.5 * math.log(400) + uniqueness + 0.5 * math.log(100) + 20 / 100, rel=1e-13)


@pytest.mark.parametrize(("count", "rows"), [(1.5, 1.5), (1.0, 1.0), (0.5, 1.0), (0.0, 1.0)])
def test_a_component_is_priced_as_one_of_a_row_at_least(count, rows):
    evidence = Evidence(1, 100.0, "component", 4.0)
    # Of the labels' entropy it says nothing.
    assert evidence.uses_entropy is False
    uniqueness = math.log(8 / 3) + 0.5 * math.log((rows / 2 + 1) / (2 * math.pi))
    expected = 0.5 * math.log(100) + uniqueness + 0.5 * math.log(100) + 20 / 100
    assert evidence.component(count, 0, 0.0) == pytest.approx(expected, rel=1e-13)
    assert evidence.mean_prices(count) == (math.log(rows), math.log(100.0))
    counted = Counted(message_length, 3, 100.0, "component")
    assert counted.component(count, 1, 0.0) == message_length(3, (1,), 100.0).cost(0.0, 0.0, (rows / 100,))
    assert counted.prices(count, 2)[1] == counted.component(count, 1, 0.0)


def test_likelihood_has_no_price():
    likelihood = Likelihood()
    assert not likelihood.uses_entropy
    assert likelihood.component(10.0, 2, -3.0) == 0.0
    assert likelihood.prices(10.0, 3).tolist() == [0.0] * 4
    assert likelihood.mean_prices(10.0) == (-math.inf, 0.0)
    assert likelihood.mixture([(10.0, 2, -3.0), (5.0, 0, 1.0)]) == 0.0


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [0.5, 150.0])
def test_prices_by_number_of_factors_and_determinant(rng, noise, count):
    d, n = 6, 400.0
    for pricing in (Evidence(d, n, noise, 4.0), *(Counted(CRITERIA[name], d, n, noise) for name in CRITERIA)):
        prices, (concentrated, least) = pricing.prices(count, d - 1), pricing.mean_prices(count)
        assert prices.shape == (d,)
        # The mean's price is at its least, or not.
        for p, size in ((0, 1.0), (2, 1.0), (5, 1e-3), (0, 1e-3)):
            found = log_determinant(random_mixture(rng, 1, d, p).component(0)) + 2 * d * math.log(size)
            expected = prices[p] + max(concentrated - found, least) / 2
            assert pricing.component(count, p, found) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("noise", NOISES)
def test_factors_beyond_the_columns_have_the_price_of_as_many_as_columns(noise):
    evidence = Evidence(3, 100.0, noise, 4.0)
    prices = evidence.prices(20.0, 6)
    assert len(prices) == 7
    assert (prices[3:] == prices[3]).all()
    np.testing.assert_array_equal(prices[:3], evidence.prices(20.0, 2))


@pytest.mark.parametrize("noise", NOISES)
def test_components_of_hardly_any_rows_have_a_finite_price(noise):
    for pricing in (Evidence(3, 50.0, noise, 4.0), Counted(message_length, 3, 50.0, noise)):
        for count in (0.0, 1e-300, 0.5):
            assert math.isfinite(pricing.component(count, 1, 0.0))


@pytest.mark.parametrize("name", sorted(CRITERIA))
@pytest.mark.parametrize(("d", "factors"), [(1, [0]), (3, [1, 0]), (6, [2, 2, 5])])
def test_counted_is_the_criterion(rng, name, d, factors):
    n = 250.0
    parameters = random_mixture(rng, len(factors), d, factors)
    counted = Counted(CRITERIA[name], d, n, "component")
    penalty = CRITERIA[name](d, factors, n)
    assert counted.mixture(shapes_of(parameters, n)) == pytest.approx(
        penalty.cost(0.0, 0.0, parameters.weights.tolist()), rel=1e-12
    )
    assert counted.uses_entropy == penalty.uses_entropy


@pytest.mark.parametrize(("name", "price"), [("bic", math.log(250) / 2), ("icl", math.log(250) / 2), ("aic", 1.0)])
@pytest.mark.parametrize(("d", "factors"), [(1, [0]), (1, [0, 1]), (3, [1, 0]), (6, [2, 2, 5])])
def test_tied_uniquenesses_are_paid_once(rng, d, factors, name, price):
    n, K = 250.0, len(factors)
    shapes = shapes_of(random_mixture(rng, K, d, factors), n)
    free, shared, isotropic = (Counted(CRITERIA[name], d, n, noise).mixture(shapes) for noise in NOISES)
    assert free - shared == pytest.approx(price * d * (K - 1), rel=1e-12, abs=1e-12)
    assert free - isotropic == pytest.approx(price * K * (d - 1), rel=1e-12, abs=1e-12)


def test_tied_uniquenesses_make_a_message_shorter(rng):
    shapes = shapes_of(random_mixture(rng, 3, 6, [2, 2, 5]), 250.0)
    free, shared, isotropic = (Counted(message_length, 6, 250.0, noise).mixture(shapes) for noise in NOISES)
    # 6 uniquenesses of two components are gone: each costs what it does where a component has all rows.
    assert free - shared == pytest.approx(2 * 6 * (math.log(250 / 12) + 1) / 2, rel=1e-12)
    # 5 of 12 values of each mean and noise are gone: each costs (log(N pi_k / 12) + 1) / 2 in the paper's length.
    saved = sum(5 * (math.log(count / 12) + 1) / 2 for count, _, _ in shapes)
    assert free - isotropic == pytest.approx(saved, rel=1e-12)


# ---- rounded columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [1 / 12, 1 / (2 * math.pi), 0.3, 2.0])
def test_the_price_of_rounded_columns_is_what_a_density_has_too_much_on_a_grid(variance):
    """A grid through the mean is the worst."""
    grid = np.arange(-50, 51)
    sums = [
        np.exp(-((grid - shift) ** 2) / (2 * variance)).sum() / math.sqrt(2 * math.pi * variance) for shift in (0, 0.3)
    ]
    price = rounding_price(np.array([1.0]), np.array([[variance * 9]]), np.array([3.0]))
    assert price == pytest.approx(math.log(sums[0]), abs=1e-9)
    assert sums[1] < sums[0] + 1e-12


def test_the_price_bounds_that_of_factors(rng):
    """In two columns; with step 0 there is none."""
    grid = np.stack(np.meshgrid(np.arange(-30, 31), np.arange(-30, 31)), axis=-1).reshape(-1, 2)
    for _ in range(10):
        loadings, noise = rng.standard_normal((2, 1)), rng.uniform(1 / 12, 0.5, 2)
        sigma = loadings @ loadings.T + np.diag(noise)
        distances = np.einsum("ij,ij->i", grid @ np.linalg.inv(sigma), grid)
        total = np.exp(-distances / 2).sum() / (2 * math.pi * math.sqrt(np.linalg.det(sigma)))
        price = rounding_price(np.array([1.0]), noise[None], np.ones(2))
        assert 0 <= math.log(total) <= price + 1e-12
        assert rounding_price(np.array([7.0]), noise[None], np.zeros(2)) == 0.0


def test_counts_weigh_the_price():
    noise = np.array([[0.1, 1.0], [0.2, 0.3]])
    apart = [rounding_price(np.ones(1), noise[k : k + 1], np.ones(2)) for k in range(2)]
    assert rounding_price(np.array([3.0, 5.0]), noise, np.ones(2)) == pytest.approx(3 * apart[0] + 5 * apart[1])
