"""The focal weight on OpenRLHF's advantages, against hand-computed and stock ones."""

from types import SimpleNamespace

import pytest
import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.kl_controller import FixedKLController

from fgrpo_bench.training.advantages import group_advantages
from fgrpo_bench.training.openrlhf.experience import FocalExperienceMaker

pytestmark = pytest.mark.openrlhf

SCORES = [1.0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0]
"""Success rates 1/4, 3/4, 1 and 0 of four groups of four."""


def arguments(gamma, *, overlong=None):
    advantage = SimpleNamespace(estimator="group_norm", gamma=1.0, lambd=1.0, no_std_norm=False)
    return SimpleNamespace(
        algo=SimpleNamespace(
            advantage=advantage, kl=SimpleNamespace(init_coef=0.0, use_loss=False)
        ),
        rollout=SimpleNamespace(n_samples_per_prompt=4, max_new_tokens=5),
        reward=SimpleNamespace(
            clip_range=(-10, 10),
            overlong_buffer_len=overlong,
            overlong_penalty_factor=1.0,
            stop_properly_penalty_coef=None,
        ),
        data=SimpleNamespace(max_len=16),
        fgrpo=SimpleNamespace(focal_gamma=gamma),
    )


def experiences(order, lengths=None):
    """Micro-batches of three samples of the batch, in the order given."""
    lengths = lengths or [5] * len(SCORES)
    out = []
    for start in range(0, len(order), 3):
        index = order[start : start + 3]
        rewards = torch.tensor([SCORES[i] for i in index])
        size = len(index)
        out.append(
            Experience(
                sequences=torch.zeros(size, 8, dtype=torch.long),
                attention_mask=torch.ones(size, 8),
                action_mask=torch.ones(size, 5),
                rewards=rewards.clone(),
                scores=rewards.clone(),
                kl=torch.zeros(size, 5),
                index=index,
                info={"reward": rewards.clone()},
                response_length=torch.tensor([lengths[i] for i in index]),
                truncated=torch.zeros(size),
            )
        )
    return out


def advantages(maker, args, batch):
    """[samples] in the batch's own order; every action of a sample must have the same."""
    strategy = SimpleNamespace(args=args)
    made = maker(None, None, None, None, FixedKLController(0.0), strategy, None)
    out = torch.full((len(SCORES),), float("nan"))
    for experience in made.compute_advantages_and_returns(batch):
        assert (experience.advantages == experience.advantages[:, :1]).all()
        out[torch.tensor(experience.index)] = experience.advantages[:, 0]
    return out


ORDERS = [
    list(range(16)),
    list(reversed(range(16))),
    [7, 3, 12, 0, 15, 4, 9, 1, 13, 6, 2, 10, 5, 14, 8, 11],
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_advantages_are_those_of_a_hand_computed_batch(gamma, order):
    # one right of four: mean 1/4, unbiased deviation 1/2; three right: mean 3/4, the same
    base = [1.5, -0.5, -0.5, -0.5, 0.5, 0.5, 0.5, -1.5] + 8 * [0.0]
    weight = 4 * [0.75**gamma] + 4 * [0.25**gamma] + 8 * [1.0]
    wanted = torch.tensor([a * w for a, w in zip(base, weight, strict=True)])
    got = advantages(FocalExperienceMaker, arguments(gamma), experiences(order))
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_gamma_0_is_stock_openrlhf_to_the_bit(order):
    stock = advantages(RemoteExperienceMaker, arguments(0.0), experiences(order))
    assert torch.equal(advantages(FocalExperienceMaker, arguments(0.0), experiences(order)), stock)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_success_is_counted_before_the_length_penalty(gamma):
    lengths = [5, 5, 1, 1] * 4  # half of every group is penalised
    penalised = arguments(gamma, overlong=4)
    stock = advantages(RemoteExperienceMaker, penalised, experiences(ORDERS[2], lengths))
    got = advantages(FocalExperienceMaker, penalised, experiences(ORDERS[2], lengths))
    rates = torch.tensor(SCORES).view(4, 4).mean(1)
    weight = ((1 - rates) ** gamma).repeat_interleave(4)
    assert stock[8:].abs().max() > 0.5  # the penalty gives groups of one outcome an advantage
    torch.testing.assert_close(got, stock * weight)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_both_engines_give_a_batch_the_same_advantages(gamma):
    embedded = group_advantages(torch.tensor(SCORES).view(4, 4), gamma).flatten()
    got = advantages(FocalExperienceMaker, arguments(gamma), experiences(ORDERS[2]))
    torch.testing.assert_close(got, embedded, rtol=1e-5, atol=1e-6)  # their epsilons differ


def test_rollouts_without_scores_are_refused():
    batch = experiences(ORDERS[0])
    batch[2].scores = None
    with pytest.raises(ValueError, match=r"came without scores.*agent_func_path"):
        advantages(FocalExperienceMaker, arguments(1.0), batch)
