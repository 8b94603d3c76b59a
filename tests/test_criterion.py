"""Code lengths, parameter counts and criteria against values computed by hand and the paper's equations."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from amofa.criterion import CRITERIA, integer_code_length, message_length, n_parameters

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


def test_code_length_grows():
    lengths = [integer_code_length(k) for k in range(1, 200)]
    assert all(a < b for a, b in pairwise(lengths))


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


@pytest.mark.parametrize("name", sorted(CRITERIA))
def test_every_criterion_falls_with_the_likelihood_and_rises_with_factors(name):
    penalty = CRITERIA[name](6, (2, 3), 500)
    costs = [penalty.cost(value, 1.0, (0.5, 0.5)) for value in (-100.0, -90.0)]
    assert costs[0] - costs[1] == pytest.approx(10.0, rel=1e-12)
    assert CRITERIA[name](6, (3, 3), 500).cost(-100.0, 1.0, (0.5, 0.5)) > costs[0]


def test_only_the_integrated_likelihood_uses_the_entropy():
    assert {name for name in CRITERIA if CRITERIA[name](2, (1,), 50).uses_entropy} == {"icl"}
