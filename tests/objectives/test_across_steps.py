"""Advantages with a state across steps, against the published algorithm on lists."""

import numpy as np
import pytest
import torch

from fgrpo_bench.integrations import groups
from fgrpo_bench.objectives.advantages import (
    check_parameters,
    default_parameters,
    first_state,
    group_advantages,
    has_signal_when_all_are_alike,
    next_advantages,
)
from fgrpo_bench.theory import expected_weight

N = 4
BATCHES = (
    [0, 4, 0],  # no group that is neither all right nor all wrong
    [1, 1, 3, 4, 2],
    [1, 2, 3, 3, 0],
    [4, 0],  # takes its place in the window all the same
    [3, 1, 2],
    [2, 2, 1],
)
"""Right rollouts of every group of a batch."""


def by_lists(window: int) -> list[list[float]]:
    """Weights of the groups of every batch: the share of the last batches' mixed groups with as
    many right rollouts, over that of those with at most as many."""
    last: list[list[int]] = []
    weights = []
    for batch in BATCHES:
        mixed = [c for c in batch if 0 < c < N]
        among = [c for past in last for c in past] or mixed
        weights.append(
            [
                among.count(c) / sum(other <= c for other in among) if c in among else 0.0
                for c in batch
            ]
        )
        last = [*last, mixed][-window:]
    return weights


@pytest.mark.parametrize("kind", [torch.tensor, np.array])
@pytest.mark.parametrize("window", [1, 2, 10])
def test_curverl_weighs_a_group_among_those_of_the_last_batches(kind, window):
    state = first_state("curverl", N, {"window": window})
    for batch, weights in zip(BATCHES, by_lists(window), strict=True):
        rewards = kind([[float(i < c) for i in range(N)] for c in batch])
        state, values = next_advantages(state, rewards, 0.5, "curverl", {"window": window}, rewards)
        mean = np.array(batch)[:, None] / N
        focal = np.array(weights)[:, None] * (1 - mean) ** 0.5
        np.testing.assert_allclose(np.asarray(values), focal * (np.asarray(rewards) - mean), 1e-6)
        assert state["counts"].shape == (window, N + 1)
    assert by_lists(1) != by_lists(2) != by_lists(10)


def test_advantages_without_a_state_are_those_of_their_groups_and_carry_none():
    rewards = torch.tensor([[1.0, 0, 0, 0], [1, 1, 1, 0]])
    assert first_state("grpo", N, {}) == {}
    state, values = next_advantages({}, rewards, 0.5, "grpo", {}, rewards)
    assert state == {} and torch.equal(values, group_advantages(rewards, 0.5))


def test_what_keeps_no_state_refuses_an_advantage_that_carries_one_by_name():
    rewards = torch.tensor([[1.0, 0, 0, 0]])
    assert default_parameters("curverl") == {"window": 10}
    assert not has_signal_when_all_are_alike("curverl", N, {})
    with pytest.raises(ValueError, match="curverl carries a state from step to step"):
        group_advantages(rewards, 0.0, "curverl")
    with pytest.raises(ValueError, match="curverl is no function of the rewards"):
        expected_weight("curverl", group_size=N, success_rate=0.5)
    with pytest.raises(ValueError, match="rewards of curverl must be 0 and 1"):
        next_advantages(first_state("curverl", N, {}), rewards / 2, 0.0, "curverl", {}, rewards)
    with pytest.raises(ValueError, match=r"'curverl' carries a state .* this trainer do not hold"):
        groups.check_settings("curverl", N, 0.0, {})
    for window in (0, 2.0):
        with pytest.raises(ValueError, match=f"window={window} of curverl: must be a whole number"):
            check_parameters("curverl", N, {"window": window})
