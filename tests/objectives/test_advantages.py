"""Group advantages and the action mask against numbers computed by hand."""

import pytest
import torch

from fgrpo_bench.objectives.advantages import action_mask, group_advantages, is_active


def test_three_of_four_correct_gives_the_hand_computed_advantages():
    """mu = 3/4, unbiased std = 1/2: (1 - 3/4) / (1/2) = 0.5 and (0 - 3/4) / (1/2) = -1.5."""
    rewards = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    plain = group_advantages(rewards, 0.0)
    torch.testing.assert_close(plain, torch.tensor([[0.5, 0.5, 0.5, -1.5]]), rtol=3e-6, atol=0)
    torch.testing.assert_close(group_advantages(rewards, 0.5), plain * 0.5)  # sqrt(1/4)
    torch.testing.assert_close(group_advantages(rewards, 1.0), plain * 0.25)
    torch.testing.assert_close(group_advantages(rewards, 2.0), plain * 0.0625)


def test_gamma_zero_is_bitwise_the_unweighted_advantage():
    rewards = (torch.rand(64, 8, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    mean = rewards.mean(1, keepdim=True)
    base = (rewards - mean) / (rewards.std(1, keepdim=True) + 1e-6)
    assert torch.equal(group_advantages(rewards, 0.0), base)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_group_all_right_or_all_wrong_has_exactly_no_advantage(gamma, value):
    assert torch.equal(group_advantages(torch.full((3, 8), value), gamma), torch.zeros(3, 8))


def test_at_group_size_two_every_active_group_has_the_same_weight():
    active = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    ratio = group_advantages(active, 1.0) / group_advantages(active, 0.0)
    torch.testing.assert_close(ratio, torch.full((2, 2), 0.5))


def test_active_groups_are_those_with_both_outcomes():
    rewards = torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert is_active(rewards).tolist() == [False, False, True, True]


def test_a_sampled_end_or_padding_token_is_an_action_and_what_follows_is_not():
    pad, eos = 0, 1
    tokens = torch.tensor([[5, 6, eos, pad], [5, pad, pad, pad], [pad, 7, 7, 7], [5, 6, 7, 8]])
    assert action_mask(tokens, eos=eos, pad=pad).int().tolist() == [
        [1, 1, 1, 0],
        [1, 1, 0, 0],
        [1, 0, 0, 0],
        [1, 1, 1, 1],
    ]
