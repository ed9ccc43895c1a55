"""The policy's shortcuts against the plain implementation."""

import numpy as np
import pytest
from scipy import stats

from fgrpo_bench.paper.simulation import (
    Adam,
    CategoricalPolicy,
    Literally,
    Rule,
    Run,
    Settings,
    group_rewards,
)
from tests.paper.simulation.dense_simulation import Dense

SMALL = Settings(n_actions=600, n_correct=60, learning_rate=0.05)


def trained(rule: Rule, group_size: int, steps: int) -> tuple[CategoricalPolicy, Dense]:
    """The same draws given to both."""
    run = Run(rule=rule, group_size=group_size, focal_gamma=1.0, seed=3)
    settings = SMALL if rule == "adam" else Settings(**{**vars(SMALL), "learning_rate": 300.0})
    policy, plain = CategoricalPolicy(settings, np.random.default_rng(5)), Dense(settings, run)
    update = (Adam if rule == "adam" else Literally)(policy, settings)
    for _ in range(steps):
        places, counts = policy.settle(policy.draw(group_size))
        update(places, group_rewards(places < policy.border, counts, run))
        plain.update(np.repeat(places, counts))
    return policy, plain


@pytest.mark.parametrize("rule", ["adam", "literal"])
@pytest.mark.parametrize("group_size", [2, 17, 900])
def test_given_the_same_draws_the_logits_are_those_of_the_plain_implementation(
    rule: Rule, group_size: int
) -> None:
    policy, plain = trained(rule, group_size, 120)
    assert np.abs(plain.logits - plain.logits[-1]).max() > 1
    np.testing.assert_allclose(policy.logits, plain.logits, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(policy.masses(), plain.masses(), rtol=1e-9)


@pytest.mark.parametrize("steps", [0, 7, 150])
def test_draws_are_of_the_softmax_by_a_chi_square_test(steps: int) -> None:
    policy, plain = trained("adam", 40, steps)
    p = plain.policy()
    drawn = np.concatenate([policy.draw(40) for _ in range(2500)])
    assert len(drawn) == 100_000
    groups = np.argsort(p) // 6  # at least a few expected draws in each
    expected = np.bincount(groups, p) * len(drawn)
    found = np.bincount(groups[drawn], minlength=len(expected))
    assert expected.min() > 5
    assert stats.chisquare(found, expected).pvalue > 1e-4


def test_settling_moves_untouched_actions_to_the_next_free_places_of_their_kind() -> None:
    policy = CategoricalPolicy(SMALL, np.random.default_rng(0))
    places, counts = policy.settle(np.array([3, 59, 3, 400, 70, 400, 400]))
    assert places.tolist() == [58, 59, 60, 61]
    assert counts.tolist() == [2, 1, 1, 3]
    assert (policy.first, policy.last) == (58, 62)
    again, _ = policy.settle(np.array([61, 100, 58]))
    assert again.tolist() == [58, 61, 62]


def test_a_group_of_one_kind_moves_nothing_at_the_first_step() -> None:
    policy = CategoricalPolicy(SMALL, np.random.default_rng(0))
    run = Run(rule="adam", group_size=4, focal_gamma=0.0, seed=0)
    places, counts = policy.settle(np.array([100, 200, 300, 400]))
    before = policy.logits.copy()
    Adam(policy, SMALL)(places, group_rewards(places < policy.border, counts, run))
    np.testing.assert_array_equal(policy.logits, before)
