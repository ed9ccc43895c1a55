"""The focal weight on OpenRLHF's advantages."""

from __future__ import annotations

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from torch import Tensor

from fgrpo_bench.objectives.focal import focal_weight


class FocalExperienceMaker(RemoteExperienceMaker):  # type: ignore[misc]
    """OpenRLHF's experience maker with every advantage of a group times its focal weight."""

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Advantages [samples, actions] of the whole batch, in the micro-batches that come in.

        Success is read from `scores` before OpenRLHF adds length penalties to `rewards`. At
        focal_gamma = 0 nothing but OpenRLHF's own code runs.
        """
        gamma = self.args.fgrpo.focal_gamma
        if gamma == 0:
            return super().compute_advantages_and_returns(experiences)  # type: ignore[no-any-return]
        weights = sample_weights(experiences, self.args.rollout.n_samples_per_prompt, gamma)
        experiences = super().compute_advantages_and_returns(experiences)
        for experience in experiences:
            weight = weights[torch.tensor(experience.index)].unsqueeze(-1)
            experience.advantages = experience.advantages * weight.to(experience.advantages.dtype)
        return experiences


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
    index = torch.tensor([i for experience in experiences for i in experience.index])
    scores = torch.cat([experience.scores for experience in experiences]).float()
    correct = torch.empty_like(scores)
    correct[index] = (scores == 1).float()
    success_rate = correct.view(-1, group_size).mean(1)
    weight: Tensor = focal_weight(success_rate, gamma)
    return weight.repeat_interleave(group_size)
