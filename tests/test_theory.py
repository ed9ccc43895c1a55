"""The theory against enumeration, against Monte Carlo, and at the ends of its domain."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.objectives.focal import focal_weight
from fgrpo_bench.theory import (
    active_probability,
    low_lr_multiplier,
    most_dangerous_group_size,
    tail_miss_probability,
)


def enumerated(n, mu, tau):
    """(active, active without the tail) over all groups of n from {tail, other right, wrong}."""
    chances = (tau, mu - tau, 1 - mu)
    active = missed = Fraction(0)
    for group in product(range(3), repeat=n):
        chance = Fraction(1)
        for kind in group:
            chance *= chances[kind]
        if 2 in group and set(group) != {2}:
            active += chance
            missed += chance * (0 not in group)
    return active, missed


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize(
    ("mu", "tau"), [("1/3", "1/10"), ("9/10", "1/2"), ("1/2", "1/2"), ("1/4", "0")]
)
def test_probabilities_are_those_of_every_group_enumerated(n, mu, tau):
    active, missed = enumerated(n, Fraction(mu), Fraction(tau))
    mu, tau = float(Fraction(mu)), float(Fraction(tau))
    assert active_probability(n, mu) == pytest.approx(float(active), rel=1e-13, abs=1e-16)
    assert tail_miss_probability(n, mu, tau) == pytest.approx(float(missed), rel=1e-13, abs=1e-16)


def test_the_tail_is_missed_as_often_as_in_a_simulation():
    rng = np.random.default_rng(0)
    for n, mu, tau in ((8, 0.3, 0.05), (64, 0.2, 0.02)):
        kinds = rng.multinomial(n, [tau, mu - tau, 1 - mu], 200_000)
        right = kinds[:, 0] + kinds[:, 1]
        share = ((right > 0) & (right < n) & (kinds[:, 0] == 0)).mean()
        assert tail_miss_probability(n, mu, tau) == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize("exponent", [1, 10, 20])
def test_tiny_tails_and_huge_groups_keep_their_digits(exponent):
    n, mu, tau = 2**exponent, Fraction(3, 10**7), Fraction(1, 10**12)
    exact = (1 - tau) ** n - (mu - tau) ** n - (1 - mu) ** n if n < 2**12 else None
    found = tail_miss_probability(n, float(mu), float(tau))
    if exact is not None:
        assert found == pytest.approx(float(exact), rel=1e-9, abs=1e-300)
    else:  # (1 - 3e-7)^(2^20) by logarithms in exact arithmetic
        expected = 1 - np.exp(n * np.log1p(-3e-7)) - n * 1e-12
        assert found == pytest.approx(expected, rel=1e-6)


def test_scalars_give_floats_and_arrays_broadcast():
    assert isinstance(active_probability(4, 0.5), float)
    grid = tail_miss_probability(np.array([2, 4, 8])[:, None], np.array([0.3, 0.5]), 0.1)
    assert grid.shape == (3, 2)
    assert grid[2, 1] == tail_miss_probability(8, 0.5, 0.1)


@given(st.floats(0.01, 0.95), st.floats(0.001, 0.99))
def test_the_most_dangerous_group_size_is_the_best_of_a_full_search(mu, share):
    tau = mu * share
    values = tail_miss_probability(np.arange(2, 4097), mu, tau)
    found = most_dangerous_group_size(mu, tau, largest=4096)
    assert values[found - 2] == pytest.approx(values.max(), rel=1e-9)


def test_a_rarer_tail_is_missed_most_by_a_larger_group():
    sizes = [most_dangerous_group_size(0.3, 0.3 * share) for share in (0.2, 0.05, 0.001)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    with pytest.raises(ValueError, match="0 < tail_mass < success_rate < 1"):
        most_dangerous_group_size(0.3, 0.3)


def mean_advantage(success_rate, focal_gamma):
    """Mean absolute advantage of a large group: a right rollout has sqrt((1 - mu) / mu), a wrong
    one sqrt(mu / (1 - mu)), each times the focal weight."""
    mu = np.asarray(success_rate)
    return 2 * np.sqrt(mu * (1 - mu)) * focal_weight(mu, focal_gamma)


def test_the_mean_advantage_and_the_low_lr_multiplier_belong_together():
    mu = np.linspace(0, 1, 200_001)
    for gamma in (0.5, 1.0, 2.0):
        ratio = mean_advantage(mu, gamma).mean() / mean_advantage(mu, 0.0).mean()
        assert low_lr_multiplier(gamma) == pytest.approx(ratio, rel=1e-6)
    assert mean_advantage(0.5, 0.0) == 1.0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: active_probability(0, 0.5), "group_size=0"),
        (lambda: active_probability(2.5, 0.5), "group_size=2.5: whole numbers"),
        (lambda: active_probability(2, 1.5), "success_rate=1.5"),
        (lambda: active_probability(2, float("nan")), "success_rate=nan"),
        (lambda: tail_miss_probability(2, 0.3, 0.4), "tail_mass=0.4 with success_rate=0.3"),
    ],
)
def test_what_lies_outside_the_domain_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()
