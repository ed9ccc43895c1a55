"""Expected weights of advantages on the gradient of p: exact, before anything is trained."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch

from fgrpo_bench.objectives.by_rewards import EPSILON, grpo
from fgrpo_bench.paper.theory import epsilon_effect, expected_weight

RATES = [Fraction(n, 100) for n in (1, 5, 10, 20, 50, 75, 90, 99)]


def weights(advantage, n=8, rates=RATES, **options):
    return [expected_weight(advantage, group_size=n, success_rate=p, **options) for p in rates]


@pytest.mark.parametrize("n", [2, 4, 8, 32])
@pytest.mark.parametrize(
    ("advantage", "scale"),
    [
        *((name, lambda n: 1) for name in ("rloo", "psr", "nsr")),
        ("dr_grpo", lambda n: Fraction(n - 1, n)),
        ("w_reinforce", lambda n: Fraction(11, 10)),
    ],
)
def test_unweighted_methods_weigh_every_success_rate_alike(advantage, scale, n):
    assert set(weights(advantage, n)) == {scale(n)}


@pytest.mark.parametrize("n", [2, 4, 8, 32])
def test_maxrl_as_published_is_the_likelihood_truncated_at_n_and_as_coded_at_n_less_1(n):
    def truncated(p, order):
        return sum((1 - p) ** (j - 1) for j in range(1, order + 1))

    assert weights("maxrl", n) == [truncated(p, n) for p in RATES]
    # as coded: the control variate is dropped where no rollout is right
    assert weights("maxrl_coded", n) == [truncated(p, n) - (1 - p) ** (n - 1) for p in RATES]


@pytest.mark.parametrize("baseline", ["none", "sloo", "sloo_minus_one"])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 2), (8, 4), (8, 7), (32, 16)])
def test_pkpo_is_the_gradient_of_pass_at_k_whatever_its_baseline(n, k, baseline):
    exact = [k * (1 - p) ** (k - 1) for p in RATES]
    assert weights("pkpo", n, k=k, baseline=baseline) == exact
    if k < n:
        assert weights("max_at_k", n, k=k) == [weight / k for weight in exact]


@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 4), (8, 4)])
def test_mmpo_sums_these_up_to_k_and_tailrl_weighs_as_maxrl_is_coded(n, k):
    assert weights("mmpo", n, k=k) == [
        sum(j * (1 - p) ** (j - 1) for j in range(1, k + 1)) for p in RATES
    ]
    assert weights("tailrl", n) == weights("maxrl_coded", n)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_at_two_rollouts_grpo_its_focal_forms_and_maxrl_as_coded_are_one_up_to_scale(gamma):
    for rates in (weights("grpo", 2), weights("grpo", 2, focal_gamma=gamma)):
        assert rates == pytest.approx([float(rates[0])] * len(RATES), rel=1e-12)
    assert set(weights("maxrl_coded", 2)) == {1}


@pytest.mark.parametrize(
    ("advantage", "options", "relative"),
    [
        ("grpo", {}, "1.41 1.33 1.25 1.09 1.00 1.09 1.25 1.41"),
        ("grpo", {"focal_gamma": 0.5}, "1.88 1.76 1.62 1.31 1.00 0.83 0.76 0.73"),
        ("grpo", {"focal_gamma": 1.0}, "2.44 2.25 2.04 1.54 1.00 0.65 0.47 0.37"),
        ("maxrl_coded", {}, "3.42 3.04 2.63 1.75 1.00 0.67 0.56 0.51"),
        ("rs_grpo", {"beta": 2.0}, "2.15 2.00 1.83 1.43 1.00 0.75 0.65 0.60"),
        ("pkpo", {"k": 4}, "7.76 6.86 5.83 3.38 1.00 0.13 0.01 0.00"),
        ("passk", {"k": 4}, "4.25 3.87 3.43 2.34 1.00 0.19 0.02 0.00"),
    ],
)
def test_weights_at_eight_rollouts_relative_to_one_half(advantage, options, relative):
    rates = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
    found = weights(advantage, 8, rates, **options)
    expected = [float(one) for one in relative.split()]
    assert [weight / found[4] for weight in found] == pytest.approx(expected, abs=0.00501)


@pytest.mark.parametrize(
    ("advantage", "options", "words"),
    [
        ("pkpo", {"k": 9}, "k=9 of pkpo: must be a whole number from 1 to 8"),
        ("pkpo", {"k": 2, "baseline": "mean"}, "baseline='mean' of pkpo: choose one of"),
        ("passk", {"k": 9}, "k=9 of passk"),
        ("rs_grpo", {"beta": 0.0}, "beta=0.0 of rs_grpo: must be a number above 0"),
        ("ds_grpo", {}, "ds_grpo is no function of the rewards alone"),
    ],
)
def test_what_a_formula_is_not_defined_for_is_refused(advantage, options, words):
    with pytest.raises(ValueError, match=words):
        weights(advantage, 8, **options)


def of_grpo(n, epsilon):
    """GRPO's advantages of a right and of a wrong rollout by number of right ones, in Decimals."""
    spreads = [(Decimal(c * (n - c)) / (n * (n - 1))).sqrt() for c in range(n + 1)]
    return [
        (Decimal(n - c) / n / (s + epsilon), -Decimal(c) / n / (s + epsilon)) if s else (0, 0)
        for c, s in enumerate(spreads)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [Decimal(0), Decimal("0.5"), Decimal(1)])
def test_the_epsilon_of_grpo_lowers_its_weights_by_less_than_is_stated(gamma):
    """Enumerated in 50 digits for N = 2 to 64: the share lies between 0 and the bound, and comes to
    the bound where p goes to 0."""
    rates = [Decimal(p) for p in ("1e-9", "0.01", "0.3", "0.8", "0.999")]
    with localcontext() as context:
        context.prec = 50
        for n in range(2, 65):
            focal = [(Decimal(n - c) / n) ** gamma if c < n else 0 for c in range(n + 1)]
            pair = [of_grpo(n, Decimal(epsilon)) for epsilon in (0, EPSILON)]
            gains = [
                [focal[j + 1] * own[j + 1][0] - focal[j] * own[j][1] for j in range(n)]
                for own in pair
            ]
            bound = epsilon_effect(n)
            exact = expected_weight(
                "grpo", group_size=n, success_rate=list(map(float, rates)), focal_gamma=float(gamma)
            )
            for p, own in zip(rates, exact.tolist(), strict=True):
                chances = [comb(n - 1, j) * p**j * (1 - p) ** (n - 1 - j) for j in range(n)]
                plain, shipped = (sum(map(Decimal.__mul__, chances, each)) for each in gains)
                assert own == pytest.approx(float(plain), rel=1e-12)
                assert 0 < 1 - shipped / plain <= Decimal(bound) * (1 + Decimal("1e-12"))
                if p == rates[0]:
                    assert float(1 - shipped / plain) == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("n", [2, 3, 8, 64])
def test_the_epsilon_that_is_bounded_is_the_one_that_is_shipped(n):
    shipped = grpo(torch.tensor(np.tri(n + 1, n, -1))).numpy()[1:-1]
    wanted = of_grpo(n, Decimal(EPSILON))[1:-1]
    assert shipped[:, 0] == pytest.approx([float(right) for right, _ in wanted], rel=1e-12)
    assert shipped[:, -1] == pytest.approx([float(wrong) for _, wrong in wanted], rel=1e-12)


def test_an_array_of_success_rates_gives_the_weights_of_each():
    asked = {"group_size": 8, "k": 4}
    rates = np.array([[0.1, 0.5], [0.9, 1.0]])
    made = expected_weight("pkpo", success_rate=rates, **asked)
    each = [[expected_weight("pkpo", success_rate=p, **asked) for p in row] for row in rates]
    assert made.tolist() == each
    assert made[1, 1] == 0
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        expected_weight("pkpo", success_rate=[0.1, 1.5], **asked)
