"""Advantages of the table and the focal weight in OpenRLHF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from torch import Tensor

from fgrpo_bench import doors
from fgrpo_bench.objectives.advantages import reads_log_probs
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
            set_advantages(experiences, group_size, options.advantage, options.advantage_parameters)
        for experience in experiences:
            if weights is not None:
                weight = weights[torch.tensor(experience.index)].unsqueeze(-1)
                weight = weight.to(experience.advantages.dtype)
                experience.advantages = experience.advantages * weight
        return experiences


def set_advantages(
    experiences: list[Experience],
    group_size: int,
    advantage: str,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Put those of the table, which are functions of `rewards` with OpenRLHF's penalties, in the
    place of OpenRLHF's own, at every action of a sample. FloatingPointError where one is not
    finite."""
    read = {"rewards": [experience.rewards for experience in experiences]}
    if reads_log_probs(advantage):
        masks = [experience.action_mask for experience in experiences]
        read["log_probs"] = [
            (experience.action_log_probs * mask).sum(-1)
            for experience, mask in zip(experiences, masks, strict=True)
        ]
        read["n_tokens"] = [mask.sum(-1) for mask in masks]
    groups = {name: in_order(experiences, values).view(-1, group_size)
              for name, values in read.items()}  # fmt: skip
    rewards = groups.pop("rewards")
    values = doors.entry("advantages", advantage)(rewards, **(parameters or {}), **groups)
    lost = (~values.isfinite().all(1)).nonzero().flatten().tolist()
    if lost:
        raise FloatingPointError(
            f"the advantage {advantage} of group {lost[0]} of the batch is not finite: its rewards "
            f"are {rewards[lost[0]].tolist()}"
        )
    of_group = values.flatten()
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
