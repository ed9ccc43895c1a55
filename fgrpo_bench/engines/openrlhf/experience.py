"""Rollouts in a fixed order with fixed seeds, counted as they are sampled; their advantages.

OpenRLHF takes groups in the order in which they happen to finish and gives vLLM no seeds. Here
prompts, seeds and order follow from the training seed and the step. Draws follow from these and
the weights as far as vLLM's sums do: on GPUs their last bits depend on what is drawn beside a draw,
unless batch_invariant is set. What dynamic filtering drops is counted before it goes. Advantages
are those of fgrpo_bench.objectives, with the focal weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.utils import get_tokenizer
from torch import Tensor

from fgrpo_bench.core import registry
from fgrpo_bench.core.seeds import stream
from fgrpo_bench.engines.diverged import diverged, named_groups
from fgrpo_bench.engines.openrlhf.labels import dispatch, problem_ids, read_dispatched
from fgrpo_bench.engines.openrlhf.metrics import Sampled
from fgrpo_bench.engines.openrlhf.states import SAVED
from fgrpo_bench.objectives.advantages import reads_log_probs
from fgrpo_bench.objectives.focal import focal_weight


@lru_cache(maxsize=1)
def _read_tokenizer(folder: str, use_fast: bool) -> Any:
    """The tokenizer that OpenRLHF's own processes read, once a process."""
    return get_tokenizer(folder, None, "left", None, use_fast=use_fast)


class TokenizerOfFolder:
    """Stands for a tokenizer on the way to the engines, where it arrives as the tokenizer itself.

    OpenRLHF sends its tokenizer with every prompt. One of 150,000 tokens has 8 MB, which an engine
    takes 0.3 s of a processor to read.
    """

    def __init__(self, folder: str, *, use_fast: bool) -> None:
        self._arguments = folder, use_fast

    def __reduce__(self) -> tuple[Callable[[str, bool], Any], tuple[str, bool]]:
        return _read_tokenizer, self._arguments


class OrderedSamples(SamplesGenerator):  # type: ignore[misc]
    """OpenRLHF's sampler, with prompts, seeds and order that can be made again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tokenizer = TokenizerOfFolder(
            self.args.actor.model_name_or_path,
            use_fast=not self.args.data.disable_fast_tokenizer,
        )
        self.step = 0
        """Steps done; the trainer keeps it."""
        self.sampled: list[Sampled] = []
        """Every rollout since the last call, filtered ones included, group by group."""
        self._purpose, self._dispatched = "", 0

    def generate_samples(self, **kwargs: Any) -> tuple[list[Experience], float | None, int, bool]:
        """One batch for training; an epoch's last prompts are left out where they fill none.

        OpenRLHF trains on such a rest too, with other mini-batch sizes, and leaves gradients
        behind where it does not fill one. After the last step of the run there is nothing more.
        """
        if self.step >= self.args.fgrpo.steps:
            return [], None, 0, True
        self._begin("rollout")
        samples, rate, consumed, exhausted = super().generate_samples(**kwargs)
        batch_size = self.args.rollout.batch_size * self.args.rollout.n_samples_per_prompt
        if samples and len(samples) < batch_size:
            print(
                f"the epoch ends: {len(samples)} rollouts fill no batch of {batch_size}, left out",
                flush=True,
            )
            samples = []
        return samples, rate, consumed, exhausted

    def generate_eval_samples(self, **kwargs: Any) -> list[Experience]:
        """All rollouts of the evaluation prompts, group by group in the file's order."""
        self._begin("evaluate")
        samples: list[Experience] = super().generate_eval_samples(**kwargs)
        return samples

    def _begin(self, purpose: str) -> None:
        self._purpose, self._dispatched, self.sampled = purpose, 0, []

    def _generate_vllm(
        self, dataloader_iter: Any, num_prompts: int, dynamic_filtering: bool, **kwargs: Any
    ) -> tuple[list[Experience], int, bool]:
        samples, consumed, exhausted = super()._generate_vllm(
            dataloader_iter, num_prompts, dynamic_filtering, **kwargs
        )
        return sorted(samples, key=_position), consumed, exhausted

    def _dispatch_prompts_to_vllm(
        self, prompts: list[str], labels: list[str], *, images: Any = None, **kwargs: Any
    ) -> list[Any]:
        step = self.step + (self._purpose == "rollout")
        purpose = stream(self.args.train.seed, self._purpose, step)
        first = self._dispatched
        self._dispatched += len(labels)
        sent = [
            dispatch(label, stream=purpose, position=first + i) for i, label in enumerate(labels)
        ]
        # an end token may come first, as in evaluation; OpenRLHF's 1 draws from what is left
        sampling = {"min_new_tokens": 0} | kwargs
        refs: list[Any] = super()._dispatch_prompts_to_vllm(
            prompts, sent, images=images, **sampling
        )
        return refs

    def _process_response_into_experience(self, response: dict[str, Any], **kwargs: Any) -> Any:
        ((start, end), *_) = response["action_ranges"]
        self.sampled.append(
            Sampled(
                correct=response["scores"] == 1.0,
                unscored=response["extra_logs"]["unscored"] == 1.0,
                tokens=sum(end - start for start, end in response["action_ranges"]),
                truncated=bool(response["truncated"]),
                response=hash(tuple(response["observation_tokens"][start:end])),
                solution=response["solution"],
            )
        )
        return super()._process_response_into_experience(response, **kwargs)


def _position(sample: Experience) -> int:
    return read_dispatched(sample.labels[0], sample.prompts[0]).position


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
        advantage grpo and at focal_gamma = 0 they are OpenRLHF's own, and 0 for a group whose
        rewards are all equal, where those are a rounding over another. FloatingPointError, with the
        groups, where one is not finite.
        """
        options, group_size = self.args.fgrpo, self.args.rollout.n_samples_per_prompt
        rates = _success_rates(experiences, group_size)
        weights: Tensor = focal_weight(rates, options.focal_gamma).repeat_interleave(group_size)
        experiences = super().compute_advantages_and_returns(experiences)
        if options.advantage != "grpo":
            _set_advantages(
                experiences, group_size, options.advantage, options.advantage_parameters
            )
        else:
            _clear_equal(experiences, group_size)
        for experience in experiences:
            if options.focal_gamma > 0:
                weight = weights[torch.tensor(experience.index)].unsqueeze(-1)
                weight = weight.to(experience.advantages.dtype)
                experience.advantages = experience.advantages * weight
        _check_finite(self.step, experiences, group_size, options.advantage)
        taught = [(experience.advantages != 0).any(1) for experience in experiences]
        is_taught = _in_order(experiences, taught).view(-1, group_size).any(1)
        self.taught_rates = rates[is_taught].tolist()
        return experiences


def _clear_equal(experiences: list[Experience], group_size: int) -> None:
    """Advantages of 0 for the groups whose rewards are all equal."""
    rewards = _in_order(experiences, [experience.rewards for experience in experiences])
    groups = rewards.view(-1, group_size)
    differs = (groups != groups[:, :1]).any(1).repeat_interleave(group_size)
    for experience in experiences:
        kept = (
            differs[torch.tensor(experience.index)].unsqueeze(-1).to(experience.advantages.device)
        )
        experience.advantages = experience.advantages.where(kept, 0)
        experience.returns = experience.returns.where(kept, 0)


def _check_finite(
    step: int, experiences: list[Experience], group_size: int, advantage: str
) -> None:
    """FloatingPointError with the groups and the first one's rewards, where an advantage is not
    finite."""
    lost = [~experience.advantages.isfinite().all(1) for experience in experiences]
    groups = _in_order(experiences, lost).view(-1, group_size).any(1)
    if not bool(groups.any()):
        return
    rewards = _in_order(experiences, [experience.rewards for experience in experiences])
    shown = rewards.view(-1, group_size)[groups][0].tolist()
    names = []
    for experience in experiences:
        ids = problem_ids(experience.labels, experience.prompts)
        for name, i in zip(ids, experience.index, strict=True):
            if groups[i // group_size]:
                names.append(name)
    quantity = f"the advantage {advantage} of {named_groups(names)} (rewards {shown})"
    raise diverged(step, quantity, saved=SAVED)


def _set_advantages(
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
    groups = {name: _in_order(experiences, values).view(-1, group_size)
              for name, values in read.items()}  # fmt: skip
    rewards = groups.pop("rewards")
    values = registry.entry("advantages", advantage)(rewards, **(parameters or {}), **groups)
    group_values = values.flatten()
    for experience in experiences:
        weights = group_values[torch.tensor(experience.index)].unsqueeze(-1)
        experience.advantages = weights * experience.action_mask
        experience.returns = experience.advantages.clone()


def _in_order(experiences: list[Experience], values: list[Tensor]) -> Tensor:
    """Values [samples] of micro-batches in the batch's own order, as float32."""
    index = torch.tensor([i for experience in experiences for i in experience.index])
    given = torch.cat(values).float()
    out = torch.empty_like(given)
    out[index] = given
    return out


def _success_rates(experiences: list[Experience], group_size: int) -> Tensor:
    """Share of correct samples of every group in the batch's own order; float32 [groups].

    A micro-batch holds the samples `index` of the batch, in any order; samples i * group_size ..
    (i + 1) * group_size - 1 of the batch are the group of one prompt.
    """
    if any(experience.scores is None for experience in experiences):
        raise ValueError(
            "rollouts came without scores: raw correctness is needed, which "
            "fgrpo_bench.engines.openrlhf.reward gives; pass no other --train.agent_func_path"
        )
    scores = _in_order(experiences, [experience.scores for experience in experiences])
    return (scores == 1).float().view(-1, group_size).mean(1)
