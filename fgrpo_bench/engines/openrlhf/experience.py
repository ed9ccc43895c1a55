"""Advantages of the table and the focal weight in OpenRLHF."""

from __future__ import annotations

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from torch import Tensor

from fgrpo_bench import doors
from fgrpo_bench.objectives.focal import focal_weight


class FocalExperienceMaker(RemoteExperienceMaker):  # type: ignore[misc]
    """OpenRLHF's experience maker with the advantages of an algorithm and their focal weight."""

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Advantages [samples, actions] of the whole batch, in the micro-batches that come in.

        Success is read from `scores` before OpenRLHF adds length penalties to `rewards`. With the
        advantage grpo and at focal_gamma = 0 nothing but OpenRLHF's own code runs.
        """
        options, group_size = self.args.fgrpo, self.args.rollout.n_samples_per_prompt
        weights = None
        if options.focal_gamma > 0:
            weights = sample_weights(experiences, group_size, options.focal_gamma)
        experiences = super().compute_advantages_and_returns(experiences)
        if options.advantage != "grpo":
            set_advantages(experiences, group_size, options.advantage)
        for experience in experiences:
            if weights is not None:
                weight = weights[torch.tensor(experience.index)].unsqueeze(-1)
                weight = weight.to(experience.advantages.dtype)
                experience.advantages = experience.advantages * weight
        return experiences


def set_advantages(experiences: list[Experience], group_size: int, advantage: str) -> None:
    """Put those of the table, which are functions of `rewards` with OpenRLHF's penalties, in the
    place of OpenRLHF's own, at every action of a sample."""
    rewards = in_order(experiences, [experience.rewards for experience in experiences])
    of_group = doors.entry("advantages", advantage)(rewards.view(-1, group_size)).flatten()
    for experience in experiences:
        own = of_group[torch.tensor(experience.index)].unsqueeze(-1)
        experience.advantages = own * experience.action_mask
        experience.returns = experience.advantages.clone()


def in_order(experiences: list[Experience], values: list[Tensor]) -> Tensor:
    """Values [samples] of micro-batches in the batch's own order, as float32."""
    index = torch.tensor([i for experience in experiences for i in experience.index])
    given = torch.cat(values).float()
    out = torch.empty_like(given)
    out[index] = given
    return out


def sample_weights(experiences: list[Experience], group_size: int, gamma: float) -> Tensor:
    """Focal weight of every sample in the batch's own order; float32 [samples].

    A micro-batch holds the samples `index` of the batch, in any order; samples i * group_size ..
    (i + 1) * group_size - 1 of the batch are the group of one prompt.
    """
    if any(experience.scores is None for experience in experiences):
        raise ValueError(
            "rollouts came without scores: the focal weight needs raw correctness, which "
            "fgrpo_bench.engines.openrlhf.reward gives; pass no other --train.agent_func_path"
        )
    scores = in_order(experiences, [experience.scores for experience in experiences])
    success_rate = (scores == 1).float().view(-1, group_size).mean(1)
    weight: Tensor = focal_weight(success_rate, gamma)
    return weight.repeat_interleave(group_size)
