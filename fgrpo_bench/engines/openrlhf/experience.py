"""Advantages of the table and the focal weight in OpenRLHF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from torch import Tensor

from fgrpo_bench.core import registry
from fgrpo_bench.engines.diverged import diverged, named_groups
from fgrpo_bench.engines.openrlhf.labels import problem_ids
from fgrpo_bench.engines.openrlhf.states import SAVED
from fgrpo_bench.objectives.advantages import reads_log_probs
from fgrpo_bench.objectives.focal import focal_weight


class FocalExperienceMaker(RemoteExperienceMaker):  # type: ignore[misc]
    """OpenRLHF's experience maker with the advantages of an algorithm and their focal weight."""

    step = 1
    """The step whose batch comes in; the trainer keeps it."""
    taught_rates: Sequence[float] = ()
    """Success rates of the groups of the last batch that have an advantage other than 0."""

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Advantages [samples, actions] of the whole batch, in the micro-batches that come in.

        Success is read from `scores` before OpenRLHF adds length penalties to `rewards`. With the
        advantage grpo and at focal_gamma = 0 they are OpenRLHF's own. FloatingPointError, with the
        groups, where one is not finite.
        """
        options, group_size = self.args.fgrpo, self.args.rollout.n_samples_per_prompt
        rates = success_rates(experiences, group_size)
        weights: Tensor = focal_weight(rates, options.focal_gamma).repeat_interleave(group_size)
        experiences = super().compute_advantages_and_returns(experiences)
        if options.advantage != "grpo":
            set_advantages(experiences, group_size, options.advantage, options.advantage_parameters)
        for experience in experiences:
            if options.focal_gamma > 0:
                weight = weights[torch.tensor(experience.index)].unsqueeze(-1)
                weight = weight.to(experience.advantages.dtype)
                experience.advantages = experience.advantages * weight
        check_finite(self.step, experiences, group_size, options.advantage)
        taught = [(experience.advantages != 0).any(1) for experience in experiences]
        is_taught = in_order(experiences, taught).view(-1, group_size).any(1)
        self.taught_rates = rates[is_taught].tolist()
        return experiences


def check_finite(step: int, experiences: list[Experience], group_size: int, advantage: str) -> None:
    """FloatingPointError with the groups and the first one's rewards, where an advantage is not
    finite."""
    lost = [~experience.advantages.isfinite().all(1) for experience in experiences]
    groups = in_order(experiences, lost).view(-1, group_size).any(1)
    if not bool(groups.any()):
        return
    rewards = in_order(experiences, [experience.rewards for experience in experiences])
    shown = rewards.view(-1, group_size)[groups][0].tolist()
    names = [
        name
        for experience in experiences
        for name, i in zip(
            problem_ids(experience.labels, experience.prompts), experience.index, strict=True
        )
        if groups[i // group_size]
    ]
    quantity = f"the advantage {advantage} of {named_groups(names)} (rewards {shown})"
    raise diverged(step, quantity, saved=SAVED)


def set_advantages(
    experiences: list[Experience],
    group_size: int,
    advantage: str,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Put those of the table, which are functions of `rewards` with OpenRLHF's penalties, in the
    place of OpenRLHF's own, at every action of a sample."""
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
    values = registry.entry("advantages", advantage)(rewards, **(parameters or {}), **groups)
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


def success_rates(experiences: list[Experience], group_size: int) -> Tensor:
    """Share of correct samples of every group in the batch's own order; float32 [groups].

    A micro-batch holds the samples `index` of the batch, in any order; samples i * group_size ..
    (i + 1) * group_size - 1 of the batch are the group of one prompt.
    """
    if any(experience.scores is None for experience in experiences):
        raise ValueError(
            "rollouts came without scores: raw correctness is needed, which "
            "fgrpo_bench.engines.openrlhf.reward gives; pass no other --train.agent_func_path"
        )
    scores = in_order(experiences, [experience.scores for experience in experiences])
    return (scores == 1).float().view(-1, group_size).mean(1)
